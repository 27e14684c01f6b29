"""Rows, sums and text of the report.

Invariants:

1. Worst first: what is held is what sorting all of it would put first, earliest among equals.
2. Bounded: sums grow with kinds, not with rollouts or groups.
3. Text: tokens read as text, pieces of a character put together; nothing steers a terminal.
4. Colours: on a terminal that wants them, and nowhere else; they change no word.
5. Lengths: of a rollout without tokens the splits that are certain are told, and count.
"""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollouts import CASES, case_rollout, picture

from sequence_extension.cli import main
from sequence_extension.diagnosis import diagnose
from sequence_extension.formats.results import LengthsOnly
from sequence_extension.output import output_has_colours
from sequence_extension.report import report_entry, report_row
from sequence_extension.report_text import (
    MOST_LISTED_GROUPS,
    Paint,
    report_text_elements,
    report_text_rollout,
    report_text_summary,
)
from sequence_extension.totals import MAX_GROUPS, Row, Totals, Worst


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3))), st.integers(0, 6))
def test_the_worst_are_those_that_sorting_puts_first(
    severities: list[tuple[int, int]], most: int
) -> None:
    """Invariant 1."""
    worst: Worst[int] = Worst(most)
    for place, severity in enumerate(severities):
        worst.offer(severity, place)
    ranked = sorted(range(len(severities)), key=lambda place: severities[place], reverse=True)
    assert worst.ordered() == ranked[:most]


def test_refused_rollouts_come_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Invariant 1, through the command: refused, more datums, more read again, warnings."""
    turn = {"ob": [1, 2], "ac": [3], "logprobs": [-0.5]}
    rollouts = {
        "good": [turn],
        "warns": [{**turn, "ac": [3, 4], "logprobs": [-0.5, None]}],
        "two": [turn, {**turn, "ob": [1, 9]}],
        "three": [turn, {**turn, "ob": [1, 9]}, {**turn, "ob": [1, 8]}],
        "refused": [{**turn, "logprobs": None}],
    }
    file = tmp_path / "rollouts.jsonl"
    lines = [{"name": name, "transitions": turns} for name, turns in rollouts.items()]
    file.write_text("\n".join(map(json.dumps, lines)))
    assert main([str(file), "--show", "4"]) == 0
    blocks = capsys.readouterr().out.split("\n\n")
    names = ["refused", "three", "two", "warns"]
    assert [block.split("\n")[0] for block in blocks[:4]] == names
    assert blocks[4] == "1 more rollout, no worse than these: --show N"


def test_sums_stay_small() -> None:
    """Invariant 2: of groups without end the first are counted, and a few are listed."""
    totals = Totals()
    for number in range(3 * MAX_GROUPS):
        totals.add(Row(f"r{number}", 2, 2, group=f"g{number}", processed=5))
    assert (totals.rollouts, totals.processed) == (3 * MAX_GROUPS, 15 * MAX_GROUPS)
    assert len(totals.groups) == MAX_GROUPS
    lines = report_text_summary(totals, Paint(False))
    assert sum(bool(re.match(r"  g\d", line)) for line in lines) == MOST_LISTED_GROUPS


def test_tokens_read_as_text() -> None:
    """Invariant 3."""
    vocab = {1: "caf", 2: "\udcc3", 3: "\udca9", 4: "\n", 5: "\x1b[2J", 6: "<0xE6>"}
    assert report_text_elements([1, 2, 3, 4, 1], vocab) == "café↵caf"
    assert report_text_elements([1, 9, 8, 2], vocab) == "caf 9 8 <C3>"
    assert report_text_elements([5, 6], vocab) == "\\u001b[2J<E6>"
    assert report_text_elements([7, picture("a", 3), 7], {}) == '7 [an image of 3 tokens, "a"] 7'


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_change_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 4."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert output_has_colours(Terminal())
    assert not output_has_colours(io.StringIO())
    assert not output_has_colours(None)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not output_has_colours(Terminal())
    coloured = 0
    for case in CASES:
        diagnosis = diagnose(case_rollout(case))
        row = report_row(diagnosis)
        plain, painted = (
            report_text_rollout(diagnosis, row, ("x",), Paint(on)) for on in (False, True)
        )
        assert [re.sub(r"\x1b\[\d+m", "", line) for line in painted] == plain
        assert all(line.isprintable() for line in plain)
        coloured += painted != plain
    assert coloured == len(CASES)


def test_lengths_tell_what_is_certain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Invariant 5: a lower bound in JSON and text, and for the limit on datums."""
    lengths = LengthsOnly("short", ((10, 5), (15, 5), (12, 5), (16, 1)))
    row = report_row(lengths)
    assert (row.datums, row.lengths_only, row.turns) == (3, True, 4)
    entry: dict[str, Any] = report_entry(lengths)
    assert (entry["datums"], entry["certain_splits"]) == ([], [2, 3])
    lines = report_text_rollout(lengths, row, (), Paint(False))
    assert "at least 3 datums; turns that cannot extend: 2, 3" in lines[1]
    steps = [{"ob_len": ob, "ac_len": ac} for ob, ac in lengths.lengths]
    file = tmp_path / "train_rollout_summaries.jsonl"
    file.write_text(json.dumps({"schema_version": 1, "traj_idx": 0, "steps": steps}))
    for most, code in (("2", 1), ("3", 0)):
        assert main([str(file), "--max-datums", most]) == code
        assert "tokens are needed for more" in capsys.readouterr().out
    nothing = report_row(LengthsOnly("none", (), "g"))
    assert (nothing.datums, nothing.turns) == (0, 0)
    totals = Totals()
    for each in (nothing, report_row(LengthsOnly("short", lengths.lengths, "g"))):
        totals.add(each)
    assert (totals.groups["g"].rollouts, totals.groups["g"].datums) == (2, 0)


def test_joined_lines_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of calls: how many lines were joined into each rollout, and into how many."""
    calls = [
        {"prompt_token_ids": [1], "token_ids": [2], "trajectory_id": "a"},
        {"prompt_token_ids": [7], "token_ids": [8], "trajectory_id": "b"},
        {"prompt_token_ids": [1, 2, 3], "token_ids": [4], "trajectory_id": "a"},
    ]
    file = tmp_path / "calls.jsonl"
    file.write_text("\n".join(map(json.dumps, calls)))
    assert main([str(file)]) == 0
    out = capsys.readouterr().out
    assert "2 lines joined" in out
    assert "3 lines into 2 rollouts" in out
    assert main([str(file), "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["trajectories"]
    assert [entry["joined_lines"] for entry in entries] == [2, 1]
