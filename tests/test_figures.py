"""Figures: complete, true to the datums, small, and deaf to whatever texts say.

Invariants:
1. Every token of a datum is drawn, and mask, advantage and logprob stand with the token they
   belong to, as in `loss_fn_inputs` (shifted by one).
2. The staircase after k turns shows what `trajectory_to_data` makes of just these k turns.
3. Texts of tokens are data: they change no expression, no markup, no type.
4. Specs are valid Vega-Lite, described, and at most 0.25 KB per token on the page; the picture
   of a long rollout as runs grows with turns only.
5. No sampled token is lost or trained twice, except where the law says so.
"""

import csv
import io
import itertools
import json
import math
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import tinker
from browser import Reader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.types import Trajectory, Transition

from sequence_extension.alignment import (
    alignment_table,
    conservation,
    datum_counts,
    stretch_facts,
    strip_facts,
    window,
)
from sequence_extension.break_table import break_marks
from sequence_extension.cookbook import PARSE_ERROR_MASKED_METRIC_KEY
from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.figures.figure import double_quoted
from sequence_extension.figures.runs import runs_chart
from sequence_extension.figures.staircase import staircase_chart
from sequence_extension.figures.strip import strip_chart, strip_finding
from sequence_extension.page.html import figure_box, note, table_html, token_chip
from sequence_extension.rollout import Rollout, elements_to_model_input, image_chunk
from sequence_extension.staircase import staircase_facts, staircase_tables
from sequence_extension.text import visible_text

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases.jsonl").read_text(encoding="utf-8").splitlines()
]
QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NASTY = [
    "1e5", "007", "nan", "NaN", "null", "true", "2020-01-01", "", " ", "\n", "a,b", 'say "hi"',
    "'", "<script>alert(1)</script>", "<b>", "&amp;", "datum.p", "data:text/html,x", "\ud800",
    "\u202e", "\x00", "=1+1", "{{x}}", "$x$", "`x`", "|", "x" * 500, "日本語", "\\n",
]  # fmt: skip


def transition(
    ob: Sequence[int], ac: Sequence[int], logprobs: Sequence[float] | None = None, **more: Any
) -> Transition:
    if logprobs is None:
        logprobs = [-0.1 * (index + 1) for index in range(len(ac))]
    return Transition(
        ob=tinker.ModelInput.from_ints(list(ob)),
        ac=TokensWithLogprobs(tokens=list(ac), maybe_logprobs=list(logprobs)),
        reward=0.0,
        episode_done=False,
        **more,
    )


def rollout_of(*turns: Transition, vocab: dict[int, str] | None = None) -> Any:
    trajectory = Trajectory(transitions=list(turns), final_ob=tinker.ModelInput.empty())
    return Rollout("rollout", trajectory, vocab or {})


def extending(tokens: int, vocab: dict[int, str] | None = None) -> Any:
    """One turn of `tokens` tokens, half of them an action."""
    half = tokens // 2
    ob = [1000 + index for index in range(half)]
    ac = [150_000 + index for index in range(tokens - half)]
    return rollout_of(transition(ob, ac, [-0.123456789] * len(ac)), vocab=vocab)


def table_of(rollout: Any, advantage: float = 1.0) -> pd.DataFrame:
    found = diagnose(rollout, advantage=advantage)
    return alignment_table(found.built, found.runs, rollout.vocab)


def as_vega_reads(figure: Any, name: str) -> list[dict[str, Any]]:
    """A dataset as Vega reads it: CSV with declared numbers, all else text; here empty is None."""
    sources = []

    def collect(part: Any) -> None:
        if isinstance(part, dict):
            if part.get("name") == name and "format" in part:
                sources.append(part["format"]["parse"])
            for value in part.values():
                collect(value)
        elif isinstance(part, list):
            for value in part:
                collect(value)

    collect(figure.spec["layer"])
    assert sources, f"no layer draws {name}"
    rows = list(csv.DictReader(io.StringIO(figure.spec["datasets"][name], newline="")))
    for parse in sources:
        assert parse == sources[0]
        assert set(parse.values()) <= {"number"}
        assert not rows or set(parse) <= set(rows[0])
    return [
        {
            key: None if value == "" else float(value) if key in sources[0] else value
            for key, value in row.items()
        }
        for row in rows
    ]


def staircase_rows(figure: Any) -> list[dict[str, Any]]:
    """The staircase's sequences, unfolded as its transforms do: a row per token."""
    tokens = {row["token"]: row for row in as_vega_reads(figure, "tokens")}
    rows = []
    for row in as_vega_reads(figure, "cells"):
        own = [tokens[float(number)] for number in row["tokens"].split(" ")]
        assert len(row["kinds"]) == len(own)
        fresh = row["since"].split(" ") if row["row"] == "datum" else [row["r"]] * len(own)
        masks = row["masks"].split(" ") if row["masks"] else [None] * len(own)
        for x, (token, kind, turn, mask) in enumerate(
            zip(own, row["kinds"], fresh, masks, strict=True)
        ):
            place = {"s": row["s"], "row": row["row"], "r": row["r"], "x": x}
            rows.append(place | token | {"kind": kind, "turn": float(turn), "mask": mask})
    return rows


def same_number(shown: str | None, real: float) -> bool:
    if math.isnan(real):
        return shown == "NaN"
    return shown is not None and float(shown) == pytest.approx(real, rel=1e-5)


def check_strip(cells: list[dict[str, Any]], datum: tinker.Datum) -> None:
    """Invariant 1 for one datum, against the datum itself and nothing of the notebook."""
    fields = {name: list(tensor.data) for name, tensor in datum.loss_fn_inputs.items()}
    inputs: list[str] = []
    for chunk in datum.model_input.chunks:
        if isinstance(chunk, tinker.EncodedTextChunk):
            inputs += map(str, chunk.tokens)
        else:
            inputs += ["img"] * chunk.length
    assert [cell["id"] for cell in cells[:-1]] == inputs
    assert cells[-1]["id"] == str(fields["target_tokens"][-1])
    assert [cell["p"] for cell in cells] == list(range(len(inputs) + 1))
    first, *targets = cells
    assert first["mask"] is first["adv"] is first["lp"] is None
    for index, cell in enumerate(targets):
        assert cell["mask"] == f"{fields['mask'][index]:g}"
        assert same_number(cell["adv"], fields["advantages"][index])
        assert same_number(cell["lp"], fields["logprobs"][index])


# ---- invariant 1


@pytest.mark.parametrize("key", ["chat", "removed", "image_changed", "masked", "empty"])
def test_strips_are_the_datums(key: str) -> None:
    rollout = scenario_rollout(scenarios()[key])
    table = table_of(rollout, -0.75)
    for index, datum in enumerate(trajectory_to_data(rollout.trajectory, -0.75)):
        figure = strip_chart(table[table["datum"] == index])
        check_strip(as_vega_reads(figure, "cells"), datum)


def test_the_check_catches_an_unshifted_mask() -> None:
    rollout = scenario_rollout(scenarios()["chat"])
    (datum,) = trajectory_to_data(rollout.trajectory, 1.0)
    cells = as_vega_reads(strip_chart(table_of(rollout)), "cells")
    check_strip(cells, datum)
    unshifted = [cell | {"mask": after["mask"]} for cell, after in itertools.pairwise(cells)]
    with pytest.raises(AssertionError):
        check_strip([*unshifted, cells[-1] | {"mask": None}], datum)


def test_the_three_turns_of_the_classic_example() -> None:
    # token: 100 101 102 103 | 200 201 | 300 301 | 400 401 402 | 500 | 600 601
    # mask:   -   0   0   0     1   1     0   0     1   1   1     0     1   1
    cells = as_vega_reads(strip_chart(table_of(scenario_rollout(scenarios()["chat"]))), "cells")
    assert [cell["mask"] for cell in cells] == [None, *"0001100111011"]
    assert [cell["part"] for cell in cells] == [*"OOOOAAOOAAAOAA"]
    assert [cell["turn"] for cell in cells] == [*"00000011111222"]


def test_numbers_that_are_none_or_not_finite_keep_their_names() -> None:
    inf = float("inf")
    rollout = rollout_of(transition([1, 2], [3, 4, 5, 6], [float("nan"), inf, -inf, -1e-9]))
    cells = as_vega_reads(strip_chart(table_of(rollout)), "cells")
    assert [cell["lp"] for cell in cells] == [None, "0", "NaN", "inf", "-inf", "-1e-09"]
    table = strip_facts(table_of(rollout))
    assert table["logprob"].tolist() == ["0", "NaN", "inf", "-inf", "\u22121e\u221209"]


def test_strip_says_what_is_trained_on() -> None:
    rollout = scenario_rollout(scenarios()["chat"])
    assert strip_finding(table_of(rollout)) == ("Datum 0: 7 of 13 targets trained, 6 context")
    assert "no gradient" in strip_finding(table_of(rollout, 0.0))
    masked = rollout_of(transition([1], [2, 3], metrics={PARSE_ERROR_MASKED_METRIC_KEY: 1.0}))
    assert "none of 2 targets" in strip_finding(table_of(masked))


def test_a_strip_draws_one_datum() -> None:
    table = table_of(scenario_rollout(scenarios()["reset"]))
    with pytest.raises(ValueError, match="2"):
        strip_chart(table)


def test_long_ids_fit_their_cells() -> None:
    rollout = rollout_of(transition([2**31 - 1, 0], [2**31 - 2]))
    figure = strip_chart(table_of(rollout), title="", lane_labels=False)
    step = figure.spec["width"] / 4  # 3 tokens and the empty slot
    # a digit is at most 7 pixels wide at 12 pixels' size
    assert step - 4 >= 7 * 10


def test_break_is_marked_in_its_datum_only() -> None:
    found = diagnose(scenario_rollout(scenarios()["image_changed"]))
    marks = break_marks(found)
    assert [(datum, position) for datum, position, _ in marks] == [(0, 2)]
    assert "image changed" in marks[0][2]
    table = alignment_table(found.built, found.runs, {})
    with_break = strip_chart(table[table["datum"] == 0], breaks=marks)
    without = strip_chart(table[table["datum"] == 1], breaks=marks)
    assert as_vega_reads(with_break, "breaks")[0]["at"] == 2
    assert "breaks" not in without.spec["datasets"]


def test_break_position_counts_the_tokens_of_images() -> None:
    image = image_chunk("a", 5)
    first = elements_to_model_input([1, image, 2, 3])
    second = elements_to_model_input([1, image, 2, 9, 9, 9])
    turns = [transition([], [4]), transition([], [5])]
    turns[0].ob, turns[1].ob = first, second
    (mark,) = break_marks(diagnose(rollout_of(*turns)))
    assert mark[:2] == (0, 7)


@given(start=st.integers(0, 40), size=st.integers(1, 45))
@QUICK
def test_window_shows_its_inputs_with_their_targets(start: int, size: int) -> None:
    rollout = extending(30)
    table = table_of(rollout)
    part = window(table, start, size)
    first = min(start, 28)
    assert part["position"].tolist() == list(range(first, min(first + size + 1, 30)))
    figure = strip_chart(part)
    whole = as_vega_reads(strip_chart(table), "cells")
    cells = as_vega_reads(figure, "cells")
    # the first token's own values belong to an input before the window
    assert cells[1:] == whole[first + 1 : first + 1 + len(cells) - 1]
    empty = as_vega_reads(figure, "empty") if "empty" in figure.spec["datasets"] else []
    ghosts = {row["words"].split("|")[1] for row in empty}
    assert ("token is" in ghosts) == (first == 0)
    assert ("never" in ghosts) == (first + size + 1 >= 30)


# ---- invariant 2


@pytest.fixture(scope="module")
def stories() -> list[tuple[str, str, Any]]:
    return [
        (item.title, item.lesson, diagnose(scenario_rollout(item))) for item in scenarios().values()
    ]


def test_staircase_steps_are_the_real_datums_of_that_many_turns(
    stories: list[tuple[str, str, Any]],
) -> None:
    figure = staircase_chart(staircase_tables(stories))
    cells = staircase_rows(figure)
    findings = as_vega_reads(figure, "bodies")
    seen = 0
    for number, (_, _, found) in enumerate(stories):
        turns = found.rollout.trajectory.transitions
        for shown in range(1, len(turns) + 1):
            data = trajectory_to_data(
                Trajectory(transitions=turns[:shown], final_ob=tinker.ModelInput.empty()), 1.0
            )
            mine = [
                cell
                for cell in cells
                if cell["s"] == number and cell["row"] == "datum" and cell["turn"] < shown
            ]
            assert {cell["r"] for cell in mine} == set(range(len(data)))
            for index, datum in enumerate(data):
                row = [cell for cell in mine if cell["r"] == index]
                masks = [cell["mask"] for cell in row]
                assert masks == [
                    "none", *(f"{value:g}" for value in datum.loss_fn_inputs["mask"].data)
                ]  # fmt: skip
                targets = datum.loss_fn_inputs["target_tokens"].data
                drawn = [cell["id"] for cell in row[1:]]
                assert [a for a in drawn if a != "img"] == [
                    str(b) for a, b in zip(drawn, targets, strict=True) if a != "img"
                ]
            trained = sum(sum(datum.loss_fn_inputs["mask"].data) for datum in data)
            inputs = sum(datum.model_input.length for datum in data)
            (said,) = [
                row["lines"].replace("|", " ")
                for row in findings
                if row["s"] == number and row["shown"] == shown
            ]
            assert f"{len(data)} datum" in said
            assert f"{inputs} target" in said
            assert f"{trained:g} trained" in said
            seen += 1
    assert seen > 30


def test_staircase_turns_are_what_was_seen_and_said(stories: list[tuple[str, str, Any]]) -> None:
    cells = staircase_rows(staircase_chart(staircase_tables(stories)))
    breaks = as_vega_reads(staircase_chart(staircase_tables(stories)), "breaks")
    for number, (_, _, found) in enumerate(stories):
        held: list[str] = []
        for turn, transition_ in enumerate(found.rollout.trajectory.transitions):
            row = [
                cell
                for cell in cells
                if (cell["s"], cell["row"], cell["r"]) == (number, "turn", turn)
            ]
            said = len(transition_.ac.tokens)
            assert len(row) == transition_.ob.length + said
            assert [cell["id"] for cell in row[-said:]] == [str(t) for t in transition_.ac.tokens]
            assert {cell["kind"] for cell in row[-said:]} <= {"A", "M"}
            repeated = [cell["id"] for cell in row if cell["kind"] == "0"]
            assert repeated == held[: len(repeated)]
            mine = [b for b in breaks if (b["s"], b["r"]) == (number, turn)]
            assert bool(mine) == (len(repeated) < len(held))
            if mine:
                assert mine[0]["x"] == len(repeated)
            held = [cell["id"] for cell in row]


def test_staircase_has_its_menu_and_step_control_inside(
    stories: list[tuple[str, str, Any]],
) -> None:
    figure = staircase_chart(staircase_tables(stories))
    menu, steps = figure.spec["params"]
    assert menu["bind"]["labels"] == [title for title, _, _ in stories]
    assert len(stories) >= 9
    # the default shows the whole of the first scenario that both merges and splits
    kinds = [
        {"splits" if span.splits else "extends" for span in story[2].spans[1:]} for story in stories
    ]
    assert menu["value"] == kinds.index({"splits", "extends"})
    assert steps["value"] == steps["bind"]["max"] == max(len(s[2].spans) for s in stories)
    table = staircase_facts(stories)
    assert table["scenario"].tolist() == menu["bind"]["labels"]
    assert table["datums"].tolist() == [len(s[2].built.data) for s in stories]


# ---- invariant 3


def expressions(part: Any) -> set[str]:
    """Everything in a spec that Vega would run."""
    if isinstance(part, list):
        return set().union(*map(expressions, part)) if part else set()
    if not isinstance(part, dict):
        return set()
    own = {
        value
        for key, value in part.items()
        if key in ("calculate", "filter", "test", "expr", "signal", "update", "labelExpr")
        and isinstance(value, str)
    }
    return own.union(*map(expressions, part.values()))


def nasty_rollout(texts: Sequence[str]) -> Any:
    ids = list(range(10, 10 + len(texts)))
    return rollout_of(transition([1, *ids], [2, *ids]), vocab=dict(zip(ids, texts, strict=True)))


def encodable(text: str) -> str:
    """Half a character pair as its code: tables cannot hold it otherwise."""
    return text.encode("utf-8", "backslashreplace").decode()


texts_of_tokens = st.lists(
    st.one_of(
        st.sampled_from(NASTY),
        st.text(st.characters(exclude_categories=()), max_size=30),
    ),
    min_size=1,
    max_size=6,
)


@given(texts=texts_of_tokens)
@QUICK
def test_texts_stay_data(texts: list[str]) -> None:
    rollout = nasty_rollout(texts)
    plain = nasty_rollout(["x"] * len(texts))
    figure = strip_chart(table_of(rollout))
    harmless = strip_chart(table_of(plain))
    cells = as_vega_reads(figure, "cells")
    shown = [visible_text(encodable(text)) or None for text in texts]
    assert [cell["text"] for cell in cells[1 : 1 + len(texts)]] == shown
    assert expressions(figure.spec) == expressions(harmless.spec)
    assert [cell["id"] for cell in cells] == [
        cell["id"] for cell in as_vega_reads(harmless, "cells")
    ]
    # what travels is text that any reader of the page can decode
    figure._mime_()[1].encode("utf-8")
    # within HTML: one element, whose attribute holds exactly the spec
    tags, attributes = parsed(figure.text)
    assert tags == ["marimo-mime-renderer"]
    assert json.loads(attributes[0]["data-data"]) == json.loads(
        json.dumps(double_quoted(figure.spec))
    )
    assert double_quoted(figure.spec)["datasets"] == figure.spec["datasets"]


@given(text=st.one_of(st.sampled_from(NASTY), st.text(st.characters(exclude_categories=()))))
@QUICK
def test_visible_text_hides_nothing_and_breaks_nothing(text: str) -> None:
    shown = visible_text(text, 40)
    assert len(shown) <= 40 * 8 + 1
    assert shown.isprintable()
    assert bool(shown) == bool(text)
    if len(text) <= 40 and text.isprintable() and " " not in text:
        assert shown == text


class Tags(HTMLParser):
    """What an HTML text consists of: tags, attributes, words."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[dict[str, str]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.append({key: value or "" for key, value in attrs})

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def parsed(page: str) -> tuple[list[str], list[dict[str, str]]]:
    parser = Tags()
    parser.feed(page)
    parser.close()
    return parser.tags, parser.attributes


@given(texts=texts_of_tokens)
@QUICK
def test_markup_in_texts_is_shown_not_obeyed(texts: list[str]) -> None:
    for text in texts:
        tags, attributes = parsed(token_chip(text, "O", text, hint=text))
        assert tags == ["span", "small"]
        assert set(attributes[0]) <= {"class", "style", "title"}
        assert parsed(note(text, "error").text)[0] == ["p", "b"]
        cell = encodable(text)
        page = table_html(pd.DataFrame({cell: [cell]}), caption=text)
        assert set(parsed(page)[0]) <= {
            "table", "caption", "thead", "tbody", "tr", "th", "td"
        }  # fmt: skip
    figure = strip_chart(table_of(nasty_rollout(texts)), title="")
    box = figure_box(figure, texts[0], texts[-1], [(5, texts[0])]).text
    assert set(parsed(box)[0]) <= {
        "figure", "figcaption", "b", "span", "br", "div", "marimo-mime-renderer"
    }  # fmt: skip


def test_chips_show_the_text() -> None:
    parser = Tags()
    parser.feed(token_chip("100", "A", " <b>"))
    assert "".join(parser.words).split() == ["A", "100", "␣<b>"]


# ---- invariant 4


def test_specs_are_valid_and_described(stories: list[tuple[str, str, Any]]) -> None:
    found = next(story[2] for story in stories if story[0] == "Reasoning stripped")
    table = alignment_table(found.built, found.runs, found.rollout.vocab)
    marks = break_marks(found)
    figures = {
        "strip": strip_chart(table[table["datum"] == 0], breaks=marks),
        "window": strip_chart(window(table[table["datum"] == 2], 4, 5), title=""),
        "runs": runs_chart(found.runs, marks, "Title", (1, 3, 4)),
        "staircase": staircase_chart(staircase_tables(stories)),
    }
    for name, figure in figures.items():
        assert figure.chart().to_dict(), name  # Altair checks against the schema
        assert len(figure.description) > 60, name
        assert re.fullmatch(r"application/vnd\.vegalite\.v\d\+json", figure._mime_()[0])
    assert "11 tokens" in figures["strip"].description
    assert "3 turns as 3 datums" in figures["runs"].description
    staircase = figures["staircase"]
    shown = stories[staircase.spec["params"][0]["value"]]
    turns, datums = len(shown[2].spans), len(shown[2].built.data)
    assert f"{shown[0]}: {turns} turns become {datums} datums" in staircase.description


def page_bytes(figure: Any) -> int:
    """Bytes in an exported page: HTML in a JSON string in a script, `<`, `>` and `&` as codes."""
    return len(re.sub("[<>&]", r"\\u0000", json.dumps(figure.text)).encode())


@pytest.mark.parametrize("text", ["", " token", "<|im_start|>"])
def test_a_strip_takes_a_quarter_kilobyte_per_token(text: str) -> None:
    size = {}
    for tokens in (100, 512, 4000):
        vocab = dict.fromkeys([*range(1000, 3000), *range(150_000, 152_000)], text)
        size[tokens] = page_bytes(strip_chart(table_of(extending(tokens, vocab))))
        assert size[tokens] / tokens <= 250
    assert (size[4000] - size[512]) / 3488 <= 70


def test_runs_grow_with_turns_not_with_tokens() -> None:
    def payload(turns: int, tokens: int) -> int:
        sequence: list[int] = []
        transitions = []
        for turn in range(turns):
            sequence = [*sequence, *range(turn, turn + tokens)]
            transitions.append(transition(sequence, [7] * tokens))
            sequence = sequence + [7] * tokens
        found = diagnose(rollout_of(*transitions))
        return len(runs_chart(found.runs)._mime_()[1])

    short, long, many = payload(5, 4), payload(5, 400), payload(50, 4)
    assert long - short < 150  # a few more digits
    assert many > short + 45 * 2 * 8


def test_runs_without_room_have_no_label() -> None:
    found = diagnose(rollout_of(transition([1] * 5000, [2]), transition([3], [4] * 500)))
    figure = runs_chart(found.runs)
    labels = [row["label"] for row in as_vega_reads(figure, "runs")]
    assert labels == ["O turn 0", None, None, "A turn 1"]
    bars = next(layer for layer in figure.spec["layer"] if layer["data"]["name"] == "runs")
    texts = [unit for unit in bars["layer"] if unit["mark"]["type"] == "text"]
    # Vega writes a missing text as "null"
    assert all({"filter": "datum.label"} in unit["transform"] for unit in texts)


def test_runs_cover_every_position_once(stories: list[tuple[str, str, Any]]) -> None:
    for _, _, found in stories:
        rows = as_vega_reads(runs_chart(found.runs), "runs")
        for index, datum in enumerate(found.built.data):
            mine = [(row["start"], row["end"]) for row in rows if row["datum"] == index]
            assert [start for start, _ in mine] == [0, *(end for _, end in mine[:-1])]
            assert mine[-1][1] == datum.model_input.length + 1


def test_tables_carry_the_same_facts() -> None:
    rollout = scenario_rollout(scenarios()["removed"])
    facts = strip_facts(table_of(rollout))
    data = trajectory_to_data(rollout.trajectory, 1.0)
    assert len(facts) == sum(datum.model_input.length for datum in data)
    for index, datum in enumerate(data):
        mine = facts[facts["datum"] == index]
        assert mine["target"].tolist() == [
            str(token) for token in datum.loss_fn_inputs["target_tokens"].data
        ]
        assert mine["input"].tolist() == [str(token) for token in datum.model_input.to_ints()]
        assert [float(value) for value in mine["mask"]] == datum.loss_fn_inputs["mask"].data
        assert set(mine.loc[mine["mask"] == "1", "part"]) == {"action"}


def test_stretches_hold_every_token(stories: list[tuple[str, str, Any]]) -> None:
    for _, _, found in stories:
        facts = strip_facts(alignment_table(found.built, found.runs, found.rollout.vocab)).to_dict(
            "records"
        )
        told = []
        for row in stretch_facts(pd.DataFrame(facts)).to_dict("records"):
            before = row["first input"]
            for entry in row["position: target, text (logprob, where not 0)"].split(" | "):
                position, target, rest = re.findall(r"^(\d+): (\S+) ?(.*)$", entry)[0]
                text, logprob = re.findall(r"^(.*?) ?(?:\(([^ ()]+)\))?$", rest)[0]
                told.append(
                    {
                        name: row[name]
                        for name in ("datum", "from turn", "part", "mask", "advantage")
                    }
                    | {"position": int(position), "input": before, "target": target}
                    | {"target's text": text, "logprob": logprob or "0"}
                )
                before = target
        assert told == facts


# ---- invariant 5


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_conservation_on_the_cases(case: dict[str, Any]) -> None:
    rollout = Rollout(case["name"], trajectory_of(case), {})
    found = diagnose(rollout)
    if found.built.error_code is not None:
        assert case["expected"]["error"]
        return
    counts = datum_counts(found.built, found.runs)
    sentence, verdict = conservation(counts)
    assert verdict == "holds", sentence
    masks = case["expected"]["mask"]
    assert counts["trained"].tolist() == [sum(mask) for mask in masks]
    assert counts["inputs"].tolist() == [len(mask) for mask in masks]


def trajectory_of(case: dict[str, Any]) -> Trajectory:
    """A case as a trajectory, read here and not by the notebook's own reader."""
    held: list[Any] = []
    turns = []
    for turn in case["transitions"]:
        new = [
            image_chunk(item["image"], item["tokens"]) if isinstance(item, dict) else item
            for item in turn.get("ob", turn.get("append"))
        ]
        ob = new if "ob" in turn else held + new
        logprobs = turn.get("logprobs")
        if logprobs is not None:
            logprobs = [float("nan" if value is None else value) for value in logprobs]
        turns.append(
            Transition(
                ob=elements_to_model_input(ob),
                ac=TokensWithLogprobs(tokens=turn["ac"], maybe_logprobs=logprobs),
                reward=0.0,
                episode_done=False,
                metrics=turn.get("metrics") or {},
            )
        )
        held = [*ob, *turn["ac"]]
    return Trajectory(transitions=turns, final_ob=tinker.ModelInput.empty())


turns_strategy = st.lists(
    st.tuples(
        st.booleans(),  # carries the history over
        st.lists(st.integers(0, 3), max_size=3),  # new observation tokens
        st.lists(st.integers(4, 6), min_size=1, max_size=3),  # action
        st.booleans(),  # masked
    ),
    min_size=1,
    max_size=5,
)


@given(turns=turns_strategy)
@QUICK
def test_conservation_on_any_rollout(turns: list[Any]) -> None:
    held: list[int] = []
    made = []
    for extends, new, action, masked in turns:
        ob = [*held, *new] if extends else new
        metrics = {PARSE_ERROR_MASKED_METRIC_KEY: 1.0} if masked else {}
        made.append(transition(ob, action, metrics=metrics))
        held = [*ob, *action]
    found = diagnose(rollout_of(*made))
    if found.built.error_code is None:
        counts = datum_counts(found.built, found.runs)
        assert conservation(counts)[1] == "holds"
        # and it can fail: one token more would break it
        assert conservation(counts.assign(trained=counts["trained"] + 1))[1] != "holds"


# ---- in the browser


def canvas_of(reader: Reader) -> str:
    """The staircase's picture as the browser draws it."""
    reader.settle()
    picture: str = reader.page.evaluate(
        "document.querySelector('.vega-embed:has(.vega-bindings) canvas').toDataURL()"
    )
    return picture


def test_staircase_control_works_without_python(static_page: Reader) -> None:
    page = static_page.page
    menu, steps = page.locator("select[name=scenario]"), page.locator("input[name=turns]")
    pictures = [canvas_of(static_page)]
    # by keyboard, as every control must
    steps.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
        pictures.append(canvas_of(static_page))
    assert steps.input_value() == "1"
    assert len(set(pictures)) == 4  # the default has four turns, as many as any
    menu.select_option(label="Three turns that extend")
    assert canvas_of(static_page) not in pictures
    steps.fill("3")
    three = canvas_of(static_page)
    steps.fill("4")
    assert canvas_of(static_page) == three  # it has three
    menu.select_option(label="Sliding window")
    assert canvas_of(static_page) == pictures[0]
    tall = page.evaluate(
        "document.querySelector('.vega-embed:has(.vega-bindings) canvas').clientHeight"
    )
    menu.select_option(label="Context reset")
    canvas_of(static_page)
    short = page.evaluate(
        "document.querySelector('.vega-embed:has(.vega-bindings) canvas').clientHeight"
    )
    assert short < tall  # the figure takes the height that its scenario needs
    name = menu.evaluate("element => element.labels[0].textContent")
    assert name.startswith("Show")


def test_strips_are_drawn_and_scroll_in_their_own_box(static_page: Reader) -> None:
    page = static_page.page
    section = static_page.section("The datums, token by token")
    boxes = [cell.locator(".seq-figure") for cell in section]
    assert sum(box.count() for box in boxes) >= 1
    page.set_viewport_size({"width": 390, "height": 900})
    static_page.settle()
    assert static_page.page_overflow() <= 0
    assert static_page.blank_figures() == []
    wide = page.locator(".seq-figure .seq-scroll").first
    assert wide.evaluate("e => e.scrollWidth > e.clientWidth")
    assert wide.get_attribute("tabindex") == "0"
