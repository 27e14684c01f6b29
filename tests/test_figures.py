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

import ast
import csv
import io
import itertools
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pytest
import tinker
from browser import NOTEBOOK, Reader
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.types import Trajectory, Transition

from sequence_extension.alignment import (
    alignment_conservation,
    alignment_counts,
    alignment_facts,
    alignment_finding,
    alignment_stretches,
    alignment_table,
    alignment_window,
)
from sequence_extension.break_table import break_table_marks
from sequence_extension.cookbook import PARSE_ERROR_MASKED_METRIC_KEY
from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.elements import elements_to_model_input, image_element
from sequence_extension.figures.cells import cell_label, cell_text_width
from sequence_extension.figures.figure import figure_data
from sequence_extension.figures.palette import FONT, PALETTE
from sequence_extension.figures.runs_chart import runs_chart
from sequence_extension.figures.strip_chart import strip_chart, strip_chart_template
from sequence_extension.page.editing import editing_code_folds
from sequence_extension.page.html import (
    figure_box_html,
    figure_html,
    note_html,
    table_markup,
    token_cell_html,
)
from sequence_extension.page.strips import strip_facts_view
from sequence_extension.page.style import style_asset, style_sheet
from sequence_extension.rollout import Rollout
from sequence_extension.staircase import staircase_read_again
from sequence_extension.text import visible_text

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases.jsonl").read_text(encoding="utf-8").splitlines()
]
QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
LANES = ("input", "target", "mask", "advantage", "logprob")
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

    collect(figure.template["layer"])
    assert sources, f"no layer draws {name}"
    rows = list(csv.DictReader(io.StringIO(figure.to_dict()["datasets"][name], newline="")))
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


def same_number(shown: str | None, real: float) -> bool:
    if math.isnan(real):
        return shown == "NaN"
    return shown is not None and float(shown.replace("\u2212", "-")) == pytest.approx(
        real, rel=1e-5
    )


def check_strip(cells: list[dict[str, Any]], datum: tinker.Datum) -> None:
    """Invariant 1 for one datum, against the datum itself and nothing of the package."""
    fields = {name: list(tensor.data) for name, tensor in datum.loss_fn_inputs.items()}
    inputs: list[str] = []
    for chunk in datum.model_input.chunks:
        if isinstance(chunk, tinker.EncodedTextChunk):
            inputs += map(str, chunk.tokens)
        else:
            inputs += ["img"] * chunk.length
    first, *columns, last = cells
    assert [cell["p"] for cell in cells] == list(range(-1, len(inputs) + 1))
    # the first token is never a target, the last one never an input
    assert first["input"] is None
    assert {first[lane] for lane in LANES[1:]} == {"none"}
    assert last["part"] == "."
    assert {last[lane] for lane in LANES[1:]} == {None}
    assert [cell["id"] for cell in columns] == inputs
    assert last["id"] == str(fields["target_tokens"][-1])
    for index, cell in enumerate(columns):
        target = columns[index + 1] if index + 1 < len(columns) else last
        assert cell["target"] == target["input"]
        assert cell["mask"] == f"{fields['mask'][index]:g}"
        assert same_number(cell["advantage"], fields["advantages"][index])
        assert same_number(cell["logprob"], fields["logprobs"][index])


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
    unshifted = [cell | {"mask": before["mask"]} for before, cell in itertools.pairwise(cells)]
    with pytest.raises(AssertionError):
        check_strip([cells[0], *unshifted], datum)


def test_the_three_turns_of_the_classic_example() -> None:
    # token: 100 101 102 103 | 200 201 | 300 301 | 400 401 402 | 500 | 600 601
    # mask:   -   0   0   0     1   1     0   0     1   1   1     0     1   1
    cells = as_vega_reads(strip_chart(table_of(scenario_rollout(scenarios()["chat"]))), "cells")
    assert [cell["mask"] for cell in cells] == ["none", *"0001100111011", None]
    assert [cell["goal"] for cell in cells] == [".", *"OOOAAOOAAAOAA", None]
    assert [cell["part"] for cell in cells] == [None, *"OOOOAAOOAAAOA", "."]
    assert [cell["turn"] for cell in cells] == [None, *"0000011111222", None]


def test_numbers_that_are_none_or_not_finite_keep_their_names() -> None:
    inf = float("inf")
    rollout = rollout_of(transition([1, 2], [3, 4, 5, 6], [float("nan"), inf, -inf, -1e-9]))
    cells = as_vega_reads(strip_chart(table_of(rollout)), "cells")
    shown = ["none", "0", "NaN", "inf", "\u2212inf", "\u22121e\u221209", None]
    assert [cell["logprob"] for cell in cells] == shown
    table = alignment_facts(table_of(rollout))
    assert table["logprob"].tolist() == ["0", "NaN", "inf", "-inf", "\u22121e\u221209"]


def test_strip_says_what_is_trained_on() -> None:
    rollout = scenario_rollout(scenarios()["chat"])
    assert alignment_finding(table_of(rollout)) == ("Datum 0: 7 of 13 targets trained, 6 context")
    assert "no gradient" in alignment_finding(table_of(rollout, 0.0))
    masked = rollout_of(transition([1], [2, 3], metrics={PARSE_ERROR_MASKED_METRIC_KEY: 1.0}))
    assert "none of 2 targets" in alignment_finding(table_of(masked))


def test_a_strip_draws_one_datum() -> None:
    table = table_of(scenario_rollout(scenarios()["reset"]))
    with pytest.raises(ValueError, match="2"):
        strip_chart(table)


@pytest.mark.parametrize("text", ["", "<|im_start|>", "WWWWWWWWWW", "日本語日本語", "i"])
def test_a_cell_is_as_wide_as_its_text(text: str) -> None:
    rollout = rollout_of(transition([2**31 - 1, 0], [7]), vocab={2**31 - 1: text} if text else {})
    cells = as_vega_reads(strip_chart(table_of(rollout)), "cells")
    (wide,) = [cell for cell in cells if cell["p"] == 0]
    assert wide["input"] == (text.replace("|", "") or "2147483647")
    assert wide["right"] - wide["left"] >= 8 + cell_text_width(wide["input"])
    for before, after in itertools.pairwise(cells):
        assert before["right"] < after["left"]


def test_the_notebook_declares_the_same_strip() -> None:
    notebook = NOTEBOOK.read_text(encoding="utf-8")
    (function,) = [
        node
        for node in ast.walk(ast.parse(notebook))
        if isinstance(node, ast.FunctionDef) and node.name == "declare_strip"
    ]
    assert 25 <= (function.end_lineno or 0) - function.lineno <= 60
    room: dict[str, Any] = {}
    exec(compile(ast.Module([function], []), NOTEBOOK.name, "exec"), room)
    assert room["declare_strip"]().to_dict() == strip_chart_template()


def test_another_declaration_is_drawn_on_the_same_tables() -> None:
    table = table_of(scenario_rollout(scenarios()["chat"]))
    cells = alt.Chart(figure_data("cells", "x")).mark_point().encode(x="x:Q", y="mask:N")
    figure = strip_chart(table, template=cells.to_dict())
    assert figure.to_dict()["mark"]["type"] == "point"
    assert figure.to_dict()["datasets"] == strip_chart(table).to_dict()["datasets"]


def test_break_is_marked_in_its_datum_only() -> None:
    found = diagnose(scenario_rollout(scenarios()["image_changed"]))
    marks = break_table_marks(found)
    assert [(datum, position) for datum, position, _ in marks] == [(0, 2)]
    assert "image changed" in marks[0][2]
    table = alignment_table(found.built, found.runs, {})
    with_break = strip_chart(table[table["datum"] == 0], breaks=marks)
    without = strip_chart(table[table["datum"] == 1], breaks=marks)
    (sign,) = as_vega_reads(with_break, "breaks")
    (cell,) = [row for row in as_vega_reads(with_break, "cells") if row["p"] == 2]
    assert sign["x"] == cell["left"] - 1
    assert as_vega_reads(without, "breaks") == []


def test_break_position_counts_the_tokens_of_images() -> None:
    image = image_element("a", 5)
    first = elements_to_model_input([1, image, 2, 3])
    second = elements_to_model_input([1, image, 2, 9, 9, 9])
    turns = [transition([], [4]), transition([], [5])]
    turns[0].ob, turns[1].ob = first, second
    (mark,) = break_table_marks(diagnose(rollout_of(*turns)))
    assert mark[:2] == (0, 7)


@given(start=st.integers(0, 40), size=st.integers(1, 45))
@QUICK
def test_window_shows_its_inputs_with_their_targets(start: int, size: int) -> None:
    rollout = extending(30)
    table = table_of(rollout)
    part = alignment_window(table, start, size)
    first = min(start, 28)
    assert part["position"].tolist() == list(range(first, min(first + size + 1, 30)))
    figure = strip_chart(part)
    whole = as_vega_reads(strip_chart(table), "cells")
    cells = as_vega_reads(figure, "cells")
    own = ("p", "target", "goal", "mask", "advantage", "logprob")
    drawn, known = ([[cell[name] for name in own] for cell in rows] for rows in (cells, whole))
    begins = first == 0
    assert drawn == known[first + (not begins) :][: len(drawn)]
    assert len(drawn) == len(part) + begins - (first + size + 1 < 30)
    assert (cells[0]["target"] == "none") == (first == 0)
    assert (cells[-1]["part"] == ".") == (first + size + 1 >= 30)


# ---- invariant 2


@pytest.fixture(scope="module")
def stories() -> list[tuple[str, str, Any]]:
    return [
        (item.title, item.lesson, diagnose(scenario_rollout(item))) for item in scenarios().values()
    ]


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
    pairs = zip(cells[2:], texts, strict=False)
    shown = [cell_label(cell["id"], encodable(text)) for cell, text in pairs]
    assert [cell["input"] for cell in cells[2 : 2 + len(texts)]] == shown
    assert expressions(figure.to_dict()) == expressions(harmless.to_dict())
    assert [cell["id"] for cell in cells] == [
        cell["id"] for cell in as_vega_reads(harmless, "cells")
    ]
    # what travels is text that any reader of the page can decode
    figure._mime_()[1].encode("utf-8")
    # within HTML: one element, whose attribute holds exactly the spec
    tags, attributes = parsed(figure_html(figure))
    assert tags == ["marimo-mime-renderer"]
    assert json.loads(attributes[0]["data-data"]) == json.loads(figure.to_json())


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


@example(texts=["`x`"])
@given(texts=texts_of_tokens)
@QUICK
def test_markup_in_texts_is_shown_not_obeyed(texts: list[str]) -> None:
    for text in texts:
        tags, attributes = parsed(token_cell_html(text))
        assert tags == ["span"]
        assert set(attributes[0]) == {"class", "style"}
        tags, attributes = parsed(note_html(text, "error").text)
        # a sentence may hold code between backticks
        assert tags == ["p", "b", *["code"] * (text.count("`") // 2)]
        assert not any(attributes[2:])
        cell = encodable(text)
        page = table_markup(pd.DataFrame({cell: [cell]}), caption=text)
        assert set(parsed(page)[0]) <= {
            "table", "caption", "thead", "tbody", "tr", "th", "td"
        }  # fmt: skip
    figure = strip_chart(table_of(nasty_rollout(texts)))
    lanes = [(5, texts[0]), (9, texts[-1])]
    box = figure_box_html(replace(figure, lanes=lanes), texts[0], texts[-1]).text
    assert set(parsed(box)[0]) <= {
        "figure", "figcaption", "b", "span", "wbr", "div", "marimo-mime-renderer"
    }  # fmt: skip


def test_cells_of_the_page_are_those_of_the_figures() -> None:
    parser = Tags()
    cell = token_cell_html(" <b>", "A")
    parser.feed(cell)
    assert "".join(parser.words) == "␣<b>"
    assert PALETTE["action"]["fill"] in cell
    # no fill of the editor's chips, of the legend or of the transcript is written anew
    for name in ("turns.css", "turns.js", "style.css"):
        assert not re.search(r"#[0-9a-fA-F]{6}", style_asset(name)), name
    root = style_sheet().split("}")[0]
    assert f"--seq-font:{FONT}" in root
    assert PALETTE["zero"]["fill"] in root.split("--seq-hatch:")[1]


# ---- invariant 4


def test_specs_are_valid_and_described(stories: list[tuple[str, str, Any]]) -> None:
    found = next(story[2] for story in stories if story[0] == "Reasoning stripped")
    table = alignment_table(found.built, found.runs, found.rollout.vocab)
    marks = break_table_marks(found)
    figures = {
        "strip": strip_chart(table[table["datum"] == 0], breaks=marks),
        "window": strip_chart(alignment_window(table[table["datum"] == 2], 4, 5)),
        "runs": runs_chart(found.runs, marks, (1, 3, 4), staircase_read_again(found)),
    }
    for name, figure in figures.items():
        assert alt.Chart.from_dict(figure.to_dict()).to_dict(), name  # against the schema
        assert len(figure.description) > 60, name
        assert re.fullmatch(r"application/vnd\.vegalite\.v\d\+json", figure._mime_()[0])
    assert "11 tokens" in figures["strip"].description
    assert "3 turns make 3 datums" in figures["runs"].description


def page_bytes(figure: Any) -> int:
    """Bytes in an exported page: HTML in a JSON string in a script, `<`, `>` and `&` as codes."""
    return len(re.sub("[<>&]", r"\\u0000", json.dumps(figure_html(figure))).encode())


@pytest.mark.parametrize("text", ["", " token", "<|im_start|>"])
def test_a_strip_takes_a_quarter_kilobyte_per_token(text: str) -> None:
    size = {}
    for tokens in (100, 512, 4000):
        vocab = dict.fromkeys([*range(1000, 3000), *range(150_000, 152_000)], text)
        size[tokens] = page_bytes(strip_chart(table_of(extending(tokens, vocab))))
        assert size[tokens] / tokens <= 250
    assert (size[4000] - size[512]) / 3488 <= 100


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


def test_runs_are_named_where_there_is_room() -> None:
    found = diagnose(rollout_of(transition([1] * 5000, [2]), transition([3], [4] * 350)))
    rows = as_vega_reads(runs_chart(found.runs), "runs")
    assert [row["label"] for row in rows] == ["turn 0: O", None, None, "A"]
    # in a narrow window a name needs a longer bar
    assert [row["fits"] for row in rows] == ["yes", None, None, None]
    # up to the sign of a break only
    marked = as_vega_reads(runs_chart(found.runs, [(0, 100, "splits here")]), "runs")
    assert marked[0]["label"] is None


def test_what_is_read_again_is_hatched(stories: list[tuple[str, str, Any]]) -> None:
    for title, _, found in stories:
        again = staircase_read_again(found)
        assert sum(end - start for _, start, end in again) == sum(
            item.again for item in found.breaks
        ), title
        for datum, start, end in again:
            assert datum > 0
            assert 0 <= start < end <= found.built.data[datum].model_input.length
        rows = as_vega_reads(runs_chart(found.runs, again=again), "again")
        covered = sum(row["end"] - row["start"] for row in rows)
        assert covered == pytest.approx(sum(end - start for _, start, end in again), abs=0.1)


def test_runs_cover_every_position_once(stories: list[tuple[str, str, Any]]) -> None:
    for _, _, found in stories:
        rows = as_vega_reads(runs_chart(found.runs), "runs")
        for index, datum in enumerate(found.built.data):
            mine = [(row["start"], row["end"]) for row in rows if row["datum"] == index]
            assert [start for start, _ in mine] == [0, *(end for _, end in mine[:-1])]
            assert mine[-1][1] == datum.model_input.length + 1


def test_tables_carry_the_same_facts() -> None:
    rollout = scenario_rollout(scenarios()["removed"])
    facts = alignment_facts(table_of(rollout))
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
        facts = alignment_facts(
            alignment_table(found.built, found.runs, found.rollout.vocab)
        ).to_dict("records")
        told = []
        for row in alignment_stretches(pd.DataFrame(facts)).to_dict("records"):
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


def test_what_is_folded_stays_light() -> None:
    """It is made anew after each edit: of 512 tokens plain code, and a row per stretch."""
    rollout = extending(512)
    code = editing_code_folds(rollout)
    facts = strip_facts_view(diagnose(rollout), None).text
    assert "<span" not in code
    assert "<span" in editing_code_folds(extending(14))
    for token in (1000, 1255, 150_000, 150_255):
        assert str(token) in code
        assert str(token) in facts
    assert len(code) + len(facts) < 60_000


# ---- invariant 5


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_conservation_on_the_cases(case: dict[str, Any]) -> None:
    rollout = Rollout(case["name"], trajectory_of(case), {})
    found = diagnose(rollout)
    if found.built.error_code is not None:
        assert case["expected"]["error"]
        return
    counts = alignment_counts(found.built, found.runs)
    sentence, verdict = alignment_conservation(counts)
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
            image_element(item["image"], item["tokens"]) if isinstance(item, dict) else item
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
        counts = alignment_counts(found.built, found.runs)
        assert alignment_conservation(counts)[1] == "holds"
        # and it can fail: one token more would break it
        assert alignment_conservation(counts.assign(trained=counts["trained"] + 1))[1] != "holds"


# ---- in the browser


def test_strips_are_drawn_and_scroll_in_their_own_box(story_phone_page: Reader) -> None:
    section = story_phone_page.section("The datums, token by token")
    boxes = [cell.locator(".seq-figure") for cell in section]
    assert sum(box.count() for box in boxes) >= 1
    assert story_phone_page.page_overflow() <= 0
    assert story_phone_page.blank_figures() == []
    wide = story_phone_page.page.locator(".seq-figure .seq-scroll").first
    assert wide.evaluate("e => e.scrollWidth > e.clientWidth")
    assert wide.get_attribute("tabindex") == "0"


SMALL = """() => {
  const all = (root) => [...root.querySelectorAll("*")].flatMap(
    (e) => e.shadowRoot ? [e, ...all(e.shadowRoot)] : [e]);
  const part = ".seq-lanes, .seq-legend, .seq-transcript, .chips, .seq-cell, .vega-bindings";
  return all(document).filter((e) => e.closest(part) && e.textContent.trim()
    && parseFloat(getComputedStyle(e).fontSize) < 12).map((e) => e.outerHTML.slice(0, 80));
}"""


def test_what_belongs_to_figures_is_12_pixels_at_least(story_page: Reader) -> None:
    assert story_page.page.evaluate(SMALL) == []
    assert story_page.page.locator(".chips .chip").count() > 5
    assert story_page.page.locator(".seq-transcript .seq-cell").count() > 2
