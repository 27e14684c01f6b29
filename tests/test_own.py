"""Section 9 and the report page, without a browser.

Invariants:

1. Bounded: what is shown of a file grows neither with its tokens nor, past a bound, with its rows,
   and says what it leaves out.
2. Escaped: text of a file is never markup.
3. Window: it starts at the first break, and shows the rows of the real alignment.
4. Copyable: the code shown is the code that runs.
"""

import json
import re
from typing import Any

import pytest
from bench_files import long_rollout
from browser import ROOT

from sequence_extension.alignment import alignment_table
from sequence_extension.break_table import break_marks
from sequence_extension.diagnosis import diagnose
from sequence_extension.formats.bounded import read_bounded
from sequence_extension.overview import (
    WINDOW,
    counts_table,
    example_rollouts,
    overview,
    window_places,
)
from sequence_extension.page.files import (
    MAX_REPORT_BYTES,
    datum_rows,
    diagnosis_views,
    report_view,
    window_views,
)
from sequence_extension.report import rollout_row
from sequence_extension.report_text import Paint, rollout_lines
from sequence_extension.verdicts import verdicts
from sequence_extension.wording import turn_words

EVIL = "<img src=x onerror=alert(1)>"


def shown(*trajectories: Any) -> str:
    reading = read_bounded(json.dumps(list(trajectories)))
    return str(report_view(reading, overview(reading.rollouts), "rollouts.json").text)


@pytest.mark.parametrize("split", [0, 3])
def test_report_does_not_grow_with_tokens(split: int) -> None:
    """Invariant 1."""
    sizes = [len(shown(long_rollout(30, tokens, split=split))) for tokens in (3_000, 30_000)]
    assert sizes[1] < 1.2 * sizes[0]


def test_report_of_many_rollouts_is_bounded() -> None:
    """Invariant 1: 600 rollouts that split."""
    turns = [{"ob": [i], "ac": [1], "logprobs": [-0.1]} for i in range(12)]
    text = shown(*[{"transitions": turns}] * 600)
    assert len(text) < 400_000
    assert "more rows are left out" in text
    assert "The details of" in text


def test_text_of_a_file_is_never_markup() -> None:
    """Invariant 2: names, groups, token texts, faulty values."""
    turns = [
        {"ob": [1, 2], "ac": [3], "logprobs": [None]},
        {"ob": [1, 4], "ac": [3], "logprobs": [-0.5]},
    ]
    vocab = {str(token): EVIL for token in range(5)}
    text = shown(
        {"name": EVIL, "group": EVIL, "vocab": vocab, "transitions": turns},
        {"name": EVIL, "transitions": [{"ob": [EVIL], "ac": []}]},
    )
    assert "<img" not in text
    assert "&lt;img" in text


def test_window_starts_at_the_first_break() -> None:
    """Invariant 3."""
    reading = read_bounded(json.dumps(long_rollout(12, 1_200, split=4)))
    diagnosis = diagnose(reading.rollouts[0])
    datum, start = next(iter(window_places(diagnosis).values()))
    mark = break_marks(diagnosis)[0]
    assert datum == mark[0]
    assert start <= mark[1] < start + WINDOW
    rows = datum_rows(diagnosis, datum)
    table = alignment_table(diagnosis.built, diagnosis.runs)
    assert rows["token"].tolist() == table[table["datum"] == datum]["token"].tolist()
    for place in (0, start, len(rows) - 2):
        assert len(window_views(diagnosis, rows, place)) == 3


def test_example_shows_good_and_bad() -> None:
    """Invariant 3: what the static page carries."""
    reading = read_bounded(example_rollouts())
    found = overview(reading.rollouts)
    assert (len(reading.rollouts), len(reading.issues)) == (3, 1)
    assert found.totals.causes
    assert sum(found.table["advantage"]) == pytest.approx(0)


CASES = (ROOT / "tests" / "cases.jsonl").read_bytes()


@pytest.mark.parametrize("index", range(len(CASES.splitlines())))
def test_every_rollout_can_be_chosen(index: int) -> None:
    """What the app shows of the chosen rollout: also of one that the cookbook refuses."""
    diagnosis = diagnose(read_bounded(CASES).rollouts[index])
    assert diagnosis_views(diagnosis)
    datums = len(diagnosis.built.data)
    for datum, start in window_places(diagnosis).values():
        rows = datum_rows(diagnosis, datum)
        assert rows.empty is (datums == 0)
        if datums:
            assert window_views(diagnosis, rows, start)


@pytest.mark.parametrize(
    "turns",
    [
        [{"ob": [1], "ac": [], "logprobs": []}],
        [{"ob": [], "ac": [1], "logprobs": [-0.1]}],
        [{"ob": [1], "ac": [2], "logprobs": None}],
        [{"ob": [1], "ac": [2, 3], "logprobs": [-0.1]}, {"ob": [4], "ac": [5], "logprobs": [-0.1]}],
    ],
)
def test_a_refused_rollout_opens_no_datum(turns: list[dict[str, Any]]) -> None:
    (rollout,) = read_bounded(json.dumps({"transitions": turns})).rollouts
    diagnosis = diagnose(rollout)
    assert diagnosis.built.error_code is not None
    assert datum_rows(diagnosis, 0).empty
    said = [sentence for verdict in verdicts(diagnosis) for sentence in verdict.sentences]
    said += [turn_words(span, refused=True) for span in diagnosis.spans]
    said += rollout_lines(diagnosis, rollout_row(diagnosis), (), Paint(False))
    assert any("would open datum 0" in sentence for sentence in said)
    assert not any("opens datum" in sentence for sentence in said)


@pytest.mark.parametrize(
    "value",
    [
        {"role": "user", "content": "Hello"},
        [{"role": "user", "content": "Hello"}],
        {"messages": [{"role": "user", "content": "Hello"}]},
    ],
)
def test_a_conversation_is_sent_to_its_section(value: Any) -> None:
    reading = read_bounded(json.dumps(value))
    assert not reading.rollouts
    assert "these are messages, not tokens; section 8" in reading.issues[0].message


def test_every_refusal_of_the_cases_says_what_helps() -> None:
    reading = read_bounded(CASES)
    table = counts_table(overview(reading.rollouts).totals)
    refused = table[table["kind"] == "refused"]
    assert len(refused) == 3
    assert refused["what helps"].nunique() == 3
    assert not refused["what helps"].str.contains("See what").any()


def test_report_leads_from_its_table_to_every_rollout_told() -> None:
    """Invariants 1 and 2: links and ids are made of the row's number; breaks fold within bounds."""
    reading = read_bounded(CASES)
    text = report_view(reading, overview(reading.rollouts), "cases.jsonl").text
    links = re.findall(r'<a href="#([^"]*)">', text)
    assert links
    assert all(re.fullmatch(r"report-\d+", link) for link in links)
    assert sorted(links) == sorted(re.findall(r'id="(report-\d+)"', text))
    assert len(text) < MAX_REPORT_BYTES + 20_000
    few = shown({"transitions": [{"ob": [i], "ac": [1], "logprobs": [-0.1]} for i in range(4)]})
    assert "not drawn" not in few
    assert len(re.findall("<summary>Turn [23] splits", few)) == 2


def test_overview_says_first_what_became_of_a_rollout() -> None:
    table = overview(read_bounded(CASES).rollouts).table
    assert table.columns[:5].tolist() == ["#", "name", "datums", "main cause", "tokens"]
    refused = table[table["main cause"] == "refused"]
    assert (refused["datums"] == 0).all()
    assert (refused["error"] != "").all()
    assert len(refused) == (table["datums"] == 0).sum()
