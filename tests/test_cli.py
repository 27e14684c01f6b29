"""The command, called as `main`.

Invariants:

1. Format: the JSON report has exactly the documented keys, in order, with the documented nulls.
2. Truth: every case with known answers comes out of the command with these answers.
3. Exit codes: 0 read and limits hold, 1 a limit does not, 2 not read, not written, no sense.
4. Streams: with --json standard output is one JSON object; a failure is one line on standard error.
5. Blame: trouble with the output is never the input's; an interrupt is quiet.
6. Neighbours: a trajectory that is refused or cannot be read does not stop the others.
7. Terminal: no text of a file reaches a terminal with a control character in it.
8. Start: `--help` at once; neither help nor report imports what they do not need.
"""

import errno
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tqdm import tqdm

from sequence_extension import command
from sequence_extension.cli import main
from sequence_extension.diagnosis import diagnose
from sequence_extension.formats.bounded import read_bounded
from sequence_extension.remedies import CAUSES, WARNING_REMEDIES
from sequence_extension.report import report_entry
from sequence_extension.scan import Item, Wanted, scan_stream
from sequence_extension.troubles import Trouble

ROOT = Path(__file__).parent.parent
CASES = ROOT / "tests" / "cases.jsonl"
EXPECTED = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
TURN: dict[str, Any] = {"ob": [1, 2], "ac": [3], "logprobs": [-0.5]}
SPLIT = {"name": "split", "transitions": [TURN, {**TURN, "ob": [1, 9]}]}


class Ran:
    """What one run of the command line gave."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def report(self) -> list[dict[str, Any]]:
        loaded = json.loads(self.out)
        assert list(loaded) == ["trajectories", "summary"]
        trajectories: list[dict[str, Any]] = loaded["trajectories"]
        return trajectories

    @property
    def summary(self) -> dict[str, Any]:
        summary: dict[str, Any] = json.loads(self.out)["summary"]
        return summary


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """`main` on a file with the given content, in this process."""

    def run(content: Any, *options: str, standard_input: bool = False) -> Ran:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        path = tmp_path / "rollouts.json"
        path.write_bytes(data)
        if standard_input:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = main(["-" if standard_input else str(path), *options])
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


def test_report_has_the_documented_shape(run: Any) -> None:
    """Invariant 1, on a rollout that splits, warns and resumes."""
    rollout = {
        "name": "ABA",
        "transitions": [
            {"ob": [1, 2], "ac": [3, 4], "logprobs": [-0.5, None]},
            {"ob": [7, {"image": "a", "tokens": 2}], "ac": [8], "logprobs": [-0.5]},
            {"ob": [1, 2, 3, 4, 5], "ac": [6], "logprobs": [-0.5]},
        ],
    }
    refused = {"transitions": [{"ob": [1], "ac": [2], "logprobs": None}]}
    ran = run([rollout, refused], "--json")
    assert (ran.code, ran.err) == (0, "")
    first, second = ran.report
    assert list(first) == [
        "name", "turns", "error", "datums", "breaks", "warnings", "tokens_processed",
        "tokens_unmerged",
    ]  # fmt: skip
    assert first["datums"][1] == {
        "turns": [1],
        "tokens": 3,
        "action_tokens": 1,
        "mask": [0, 0, 1],
        "target_tokens": [0, 0, 8],
    }
    assert list(first["datums"][1]) == ["turns", "tokens", "action_tokens", "mask", "target_tokens"]
    assert first["breaks"] == [
        {
            "turn": 1,
            "position": 0,
            "expected": 1,
            "got": 7,
            "cause": "new_context",
            "origin": {"turn": 0, "part": "observation", "index": 0},
            "resumes_datum": None,
            "help": first["breaks"][0]["help"],
            "hints": [],
        },
        {
            "turn": 2,
            "position": 0,
            "expected": 7,
            "got": 1,
            "cause": "new_context",
            "origin": {"turn": 1, "part": "observation", "index": 0},
            "resumes_datum": 0,
            "help": first["breaks"][1]["help"],
            "hints": [],
        },
    ]
    assert list(first["breaks"][0]) == [
        "turn", "position", "expected", "got", "cause", "origin", "resumes_datum", "help",
        "hints",
    ]  # fmt: skip
    assert "split_lineages" in first["breaks"][1]["help"]
    (warning,) = first["warnings"]
    assert list(warning) == ["code", "turn", "index", "message", "help", "hints"]
    assert (warning["code"], warning["turn"], warning["index"]) == ("logprob_not_finite", 0, 1)
    # 4 + 3 + 6 tokens, the last of each no input; unmerged is the same, as nothing merged.
    assert (first["tokens_processed"], first["tokens_unmerged"]) == (3 + 3 + 5, 3 + 3 + 5)
    assert second["name"] == "trajectory 1"
    assert second["datums"] == []
    assert (second["tokens_processed"], second["tokens_unmerged"]) == (None, None)
    assert second["error"]["code"] == "ValueError"
    assert "urn 0" in second["error"]["message"]
    assert [w["code"] for w in second["warnings"]] == ["logprobs_missing"]
    assert [w["index"] for w in second["warnings"]] == [None]


def test_merged_turns_share_a_datum(run: Any) -> None:
    """Invariant 1: turns of a datum are listed one by one, action tokens are summed."""
    turns = [TURN, {"append": [4], "ac": [5, 6], "logprobs": [-1, -1]}, {**TURN, "ob": [1, 2, 3]}]
    (entry,) = run({"transitions": turns}, "--json").report
    assert [d["turns"] for d in entry["datums"]] == [[0, 1], [2]]
    assert [d["action_tokens"] for d in entry["datums"]] == [3, 1]
    assert entry["tokens_processed"] == 5 + 3
    assert entry["tokens_unmerged"] == 2 + 5 + 3
    assert entry["breaks"][0]["got"] is None


def test_images_are_written_as_they_were_read(run: Any) -> None:
    """Invariant 1."""
    images = [
        {"image": "frame", "tokens": 2},
        {"image": "data:image/jpeg;base64,/9j/", "tokens": 2},
        {"image": "s3://bucket/a.png", "tokens": 2, "asset": "png"},
    ]
    turns = [{**TURN, "ob": [image, 5]} for image in images]
    (entry,) = run({"transitions": turns}, "--json").report
    assert [(b["expected"], b["got"]) for b in entry["breaks"]] == [
        (images[0], images[1]),
        (images[1], images[2]),
    ]


@pytest.fixture(scope="module")
def case_report() -> list[dict[str, Any]]:
    with CASES.open("rb") as stream:
        items = list(scan_stream(stream, Wanted(as_json=True)))
    assert not any(isinstance(item, Trouble) for item in items)
    return [json.loads(item.entry) for item in items if isinstance(item, Item)]


@pytest.mark.parametrize("number", range(len(EXPECTED)), ids=lambda n: str(EXPECTED[n]["name"]))
def test_known_answers(number: int, case_report: list[dict[str, Any]]) -> None:
    """Invariants 2 and 6."""
    entry, known = case_report[number], EXPECTED[number]["expected"]
    assert entry["name"] == EXPECTED[number]["name"]
    assert entry["turns"] == len(EXPECTED[number]["transitions"])
    assert (entry["error"] and entry["error"]["code"]) == known["error"]
    assert [warning["code"] for warning in entry["warnings"]] == known["warnings"]
    assert len(entry["breaks"]) == len(known["breaks"])
    for found, wanted in zip(entry["breaks"], known["breaks"], strict=True):
        assert found["cause"] in wanted["cause"]
        for key in ("turn", "position", "expected", "got", "origin"):
            assert found[key] == wanted[key]
        assert found["resumes_datum"] == wanted.get("resumes_datum", found["resumes_datum"])
    if known["error"]:
        assert entry["datums"] == []
        return
    assert len(entry["datums"]) == known["n_datums"]
    assert [datum["mask"] for datum in entry["datums"]] == known["mask"]
    assert [datum["target_tokens"] for datum in entry["datums"]] == known["targets"]
    assert entry["tokens_processed"] == known["tokens_processed"]


def test_report_is_that_of_the_cookbook() -> None:
    """Invariant 2, from the datums and not from the answers."""
    for rollout in read_bounded(CASES.read_bytes()).rollouts:
        entry = report_entry(diagnose(rollout))
        if entry["error"] is None:
            data = trajectory_to_data(rollout.trajectory, 1.0)
            assert [d["tokens"] for d in entry["datums"]] == [d.model_input.length for d in data]
            assert [d["mask"] for d in entry["datums"]] == [
                d.loss_fn_inputs["mask"].data for d in data
            ]
            assert sorted(t for d in entry["datums"] for t in d["turns"]) == list(
                range(entry["turns"])
            )


@pytest.mark.parametrize(("allowed", "code"), [("0", 1), ("1", 1), ("2", 0), ("999999999", 0)])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_more_datums_than_allowed_is_exit_code_1(
    allowed: str, code: int, options: tuple[str, ...], run: Any
) -> None:
    """Invariant 3: N itself is allowed; the last line names the limit and who fails it."""
    ran = run([{"transitions": [TURN]}, SPLIT], "--max-datums", allowed, *options)
    assert ran.code == code
    last = (ran.err if options else ran.out).rstrip().split("\n")[-1]
    assert last.startswith(f"failed: --max-datums {allowed} by ") is bool(code)
    assert ("split" in last) is (bool(code) or not options)
    if not options:
        assert ran.err == ""


REFUSED = {"name": "refused", "transitions": [{**TURN, "logprobs": None}]}
WARNS = {"name": "warns", "transitions": [{**TURN, "ac": [3, 4], "logprobs": [-0.5, None]}]}
GOOD = {"name": "good", "transitions": [TURN]}


@pytest.mark.parametrize(
    ("options", "failed"),
    [
        (["--max-datums", "1"], ["split", "refused"]),
        (["--max-datums", "9"], ["refused"]),
        (["--fail-on", "refused"], ["refused"]),
        (["--fail-on", "warning"], ["refused", "warns"]),
        (["--fail-on", "logprob_not_finite"], ["warns"]),
        (["--fail-on", "new_context,logprobs_missing"], ["split", "refused"]),
        (["--fail-on", "retokenised"], []),
    ],
)
def test_gates(options: list[str], failed: list[str], run: Any) -> None:
    """Invariant 3: what is refused is never merged; causes and warnings by name."""
    ran = run([GOOD, {**SPLIT, "name": "split"}, REFUSED, WARNS], *options)
    assert ran.code == bool(failed)
    told = [block.split("\n") for block in ran.out.split("\n\n")]
    marked = {block[0] for block in told if any(line.startswith("  fails ") for line in block)}
    assert marked == set(failed)
    refused = '(refused: no datum) by 1 of 4 rollouts ("refused")'
    assert (refused in ran.out) is ("--max-datums" in options)


def test_every_name_can_be_asked_for(case_report: list[dict[str, Any]]) -> None:
    """Invariant 3: what the report names, `--fail-on` takes; each has words for what helps."""
    named = {item["cause"] for entry in case_report for item in entry["breaks"]}
    assert named == set(CAUSES)
    warned = {item["code"] for entry in case_report for item in entry["warnings"]}
    assert warned <= set(WARNING_REMEDIES)


def test_unknown_names_of_fail_on_are_listed(run: Any) -> None:
    """Invariant 3."""
    ran = run([GOOD], "--fail-on", "refused,removd")
    assert ran.code == 2
    assert "'removd' is none of refused, warning, " in ran.err
    assert "removed" in ran.err


def test_unreadable_weighs_more_than_too_many_datums(run: Any) -> None:
    """Invariants 3 and 6."""
    ran = run([SPLIT, 7], "--max-datums", "1", "--json")
    assert ran.code == 2
    assert [entry["name"] for entry in ran.report] == ["split"]


@pytest.mark.parametrize("standard_input", [False, True])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_bad_line_is_named_and_the_others_reported(
    standard_input: bool, as_json: bool, run: Any
) -> None:
    """Invariants 3, 4 and 6: JSONL, from a file and from standard input."""
    lines = [json.dumps(SPLIT), '{"transitions": [{"ob": [1], "ac": [2.5]}]}', json.dumps(SPLIT)]
    options = ["--json"] if as_json else []
    ran = run("\n".join(lines).encode(), *options, standard_input=standard_input)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    for word in ("standard input" if standard_input else "rollouts.json", "Line 2", "turn 0"):
        assert word in ran.err
    assert "`ac`, index 0" in ran.err
    if as_json:
        assert [entry["name"] for entry in ran.report] == ["split", "split"]
    else:
        assert "2 rollouts" in ran.out


def test_many_bad_lines_are_one_line_on_standard_error(run: Any) -> None:
    """Invariant 4."""
    ran = run(b"[1]\n" * 12, "--json")
    assert (ran.code, ran.report) == (2, [])
    assert ran.err.count("\n") == 1
    assert "Line 5" in ran.err
    assert "And 7 more." in ran.err


@pytest.mark.parametrize(
    ("path", "words"),
    [("missing.json", "No such file"), ("empty", "folder"), ("a\nb\x1b[31m", "No such file")],
)
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_files_that_cannot_be_opened(
    path: str, words: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invariants 3, 4 and 7."""
    (tmp_path / "empty").mkdir()
    assert main([os.path.join(tmp_path, path), *options]) == 2
    out, err = capsys.readouterr()
    assert out.startswith('{"trajectories": [], "summary": {' if options else "")
    assert bool(out) == bool(options)
    assert err.count("\n") == 1
    assert words in err
    assert "\x1b" not in err


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--json"],
        ["x", "--max-datums", "-1"],
        ["x", "--max-datums", "1.5"],
        ["x", "--max-datums"],
        ["x", "--fail-on", ""],
        ["x", "--unknown"],
        ["--trajectory", "x"],
        ["x", "--max", "1"],
        ["x", "--\ny\x1b[2J"],
        ["-", "-", "--json"],
        ["x\0y"],
        ["x", "--html", "x\0y"],
    ],
)
def test_arguments_without_sense(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Invariants 3, 4 and 7."""
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err[:-1].isprintable()


def test_several_files_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Invariants 1, 4 and 6: in order, also of a folder; a bad one does not stop the others."""
    for name, content in (("b.jsonl", [SPLIT]), ("a.jsonl", [GOOD]), ("c.jsonl", [7])):
        (tmp_path / name).write_text(json.dumps(content))
    files = [str(tmp_path / name) for name in ("b.jsonl", "c.jsonl", "missing", "a.jsonl")]
    assert main([*files, "--json"]) == 2
    out, err = capsys.readouterr()
    entries = json.loads(out)["trajectories"]
    assert [entry["file"] for entry in entries] == [files[0], files[3]]
    assert [line.split(":")[1].strip() for line in err.splitlines()] == [files[1], files[2]]
    assert main([str(tmp_path), "--json"]) == 0  # in a folder, what holds no rollout is left out
    out, _ = capsys.readouterr()
    assert [entry["name"] for entry in json.loads(out)["trajectories"]] == ["good", "split"]


class Faulty(io.RawIOBase):
    """Gives a line, then fails."""

    def __init__(self, failure: BaseException) -> None:
        self.lines = iter([json.dumps(SPLIT).encode() + b"\n"])
        self.failure = failure

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        line = next(self.lines, None)
        if line is None:
            raise self.failure
        buffer[: len(line)] = line
        return len(line)


def put_in(monkeypatch: pytest.MonkeyPatch, failure: BaseException) -> None:
    stream = io.BufferedReader(Faulty(failure))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))


def test_a_failed_read_leaves_a_whole_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invariant 4: what came before the failure is in it."""
    put_in(monkeypatch, OSError(errno.EIO, "Input/output error"))
    assert main(["-", "--json"]) == 2
    out, err = capsys.readouterr()
    assert [entry["name"] for entry in json.loads(out)["trajectories"]] == ["split"]
    assert err == "not read: standard input: Input/output error.\n"


def test_an_interrupt_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invariant 5."""
    put_in(monkeypatch, KeyboardInterrupt())
    assert main(["-"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("argv", [["--help"], [str(CASES)], [str(CASES), "--json"]])
def test_trouble_with_the_output_names_the_output(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invariant 5: a full disk, a closed stream, a reader who left."""
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(argv) == 2
    err = capsys.readouterr().err
    assert err == (
        "sequence-extension: standard output cannot be written: No space left on device.\n"
    )
    monkeypatch.setattr(sys, "stdout", None)
    assert main(argv) == 2
    assert "standard output cannot be written: it is closed" in capsys.readouterr().err
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(argv) == 2
    assert capsys.readouterr().err == ""


def test_closed_standard_streams(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invariant 5: input that is closed is the input's fault; nothing to complain to is none."""
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["-"]) == 2
    assert capsys.readouterr().err == "not read: standard input: it is closed.\n"
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["-"]) == 2
    assert capsys.readouterr().out == ""


def test_text_agrees_with_json(run: Any) -> None:
    """Sums of the text are those of the JSON report, and each kind says what helps."""
    text = run(CASES.read_bytes(), "--show", "999")
    entries = run(CASES.read_bytes(), "--json").report
    assert (text.code, text.err) == (0, "")
    lines = text.out.splitlines()
    breaks = [item for entry in entries for item in entry["breaks"]]
    bare = [
        entry
        for entry in entries
        if "no logprobs" in (entry["error"] or {"message": ""})["message"]
    ]
    assert len(bare) == 1
    warnings = [
        warning
        for entry in entries
        for warning in entry["warnings"]
        # said where the rollout is refused
        if entry not in bare or warning["code"] != "logprobs_missing"
    ]
    assert sum(" splits at position " in line for line in lines) == len(breaks)
    assert sum(line.startswith("  warning ") for line in lines) == len(warnings)
    for warning in warnings:
        assert warning["message"] in text.out
    good = [entry for entry in entries if entry["error"] is None]
    summary = text.out[text.out.index(f"{len(entries)} rollouts, ") :]
    turns = sum(entry["turns"] for entry in entries)
    processed = sum(entry["tokens_processed"] for entry in good)
    unmerged = sum(entry["tokens_unmerged"] for entry in good)
    datums = sum(len(entry["datums"]) for entry in good)
    assert f"{turns} turns, {datums} datums, {len(entries) - len(good)} refused" in summary
    assert f"{processed:,}, {processed / unmerged:.0%} of {unmerged:,}" in summary
    table = {line.split()[0]: line.split()[1:] for line in summary.splitlines() if line.split()}
    for cause in {item["cause"] for item in breaks}:
        having = [entry for entry in entries if cause in {b["cause"] for b in entry["breaks"]}]
        count = sum(item["cause"] == cause for item in breaks)
        assert table[cause][:2] == [str(count), str(len(having))]
        assert f"  {cause}: " in summary
    for code in {warning["code"] for warning in warnings}:
        assert table[code] == [str(sum(warning["code"] == code for warning in warnings))]
        assert f"  {code}: " in summary


def test_the_summary_of_json_is_the_sum_of_its_rollouts(run: Any) -> None:
    """With a line that cannot be read, and calls that are joined."""
    call = {"prompt_token_ids": [1], "token_ids": [2], "logprobs": [-0.5], "session_id": "a"}
    lines = [*EXPECTED, call, {**call, "prompt_token_ids": [1, 2, 3]}, 7]
    ran = run("\n".join(map(json.dumps, lines)).encode(), "--json")
    assert ran.code == 2
    entries, summary = ran.report, ran.summary
    good = [entry for entry in entries if entry["error"] is None]
    breaks = [item for entry in entries for item in entry["breaks"]]
    assert summary["files"] == 1
    assert summary["rollouts"] == len(entries) == len(EXPECTED) + 1
    assert summary["refused"] == len(entries) - len(good) == sum(summary["errors"].values())
    assert (summary["joined_rollouts"], summary["joined_lines"]) == (1, 2)
    assert summary["turns"] == sum(entry["turns"] for entry in entries)
    assert summary["turns_split"] == len(breaks) == sum(summary["causes"].values())
    assert summary["datums"] == sum(len(entry["datums"]) for entry in entries)
    for key in ("tokens_processed", "tokens_unmerged"):
        assert summary[key] == sum(entry[key] for entry in good)
    assert summary["warnings"] == Counter(
        item["code"] for entry in entries for item in entry["warnings"]
    )
    splits = [item for item in summary["help"] if item["kind"] == "splits"]
    assert {(item["name"], item["help"]): item["count"] for item in splits} == Counter(
        (item["cause"], item["help"]) for item in breaks
    )
    (problem,) = summary["problems"]
    assert "expected" in problem
    assert ran.err == f"not read: {problem}\n"
    nothing = run([], "--json")
    assert (nothing.report, nothing.summary["rollouts"]) == ([], 0)
    assert "holds no rollout" in nothing.summary["problems"][0]


@pytest.mark.parametrize("options", [(), ("--json",), ("--max-datums", "1")])
@pytest.mark.parametrize("content", [[], b"", b"\n\n", {"trajectories": []}])
def test_a_file_without_rollouts_is_an_error(
    options: tuple[str, ...], content: Any, run: Any
) -> None:
    """Invariant 3."""
    ran = run(content, *options)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    if options == ("--json",):
        assert ran.report == []


def test_no_control_character_reaches_the_terminal(run: Any) -> None:
    """Invariant 7: names, groups, token texts, faulty values."""
    evil = "\x1b[2J\r\n\x9b31m\u202e\u2028"
    rollout = {
        "name": evil,
        "group": evil,
        "vocab": {"1": evil, "2": evil, "3": evil, "9": evil},
        "transitions": [
            TURN,
            {**TURN, "ob": [1, 9]},
            {**TURN, "ob": [1, 9, 3, 9, 2], "logprobs": [None]},
        ],
    }
    bad = {"name": evil, "transitions": [{**TURN, "ac": [evil]}]}
    ran = run([rollout, bad])
    assert ran.code == 2
    for text in (ran.out, ran.err):
        assert all(line.isprintable() for line in text.split("\n"))
    assert "\\u001b" in ran.out


def test_lines_are_read_one_by_one() -> None:
    """Invariant 6 and constant memory: a rollout is told before the next line is asked for."""
    asked = 0

    class Slow(io.RawIOBase):
        """Hands out one line at a time."""

        lines = iter([json.dumps(SPLIT).encode() + b"\n"] * 5)

        def readable(self) -> bool:
            return True

        def readline(self, size: int | None = -1, /) -> bytes:
            nonlocal asked
            asked += 1
            return next(self.lines, b"")

    stream: Any = Slow()
    seen = [asked for _ in scan_stream(stream, Wanted(as_json=True))]
    assert seen == [1, 2, 3, 4, 5]


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=250, **options
    )


def test_help_is_light(capsys: pytest.CaptureFixture[str]) -> None:
    """Invariant 8: nothing but the standard library and the command's own module."""
    code = (
        "import sys; from sequence_extension.cli import main; code = main(['--help']); "
        "own = [name for name in sys.modules if name.split('.')[0] not in sys.stdlib_module_names]"
        "; print(*sorted(own), file=sys.stderr); sys.exit(code)"
    )
    spent = []
    for _ in range(3):
        start = time.perf_counter()
        ran = python("-S", "-c", code, cwd=ROOT)
        spent.append(time.perf_counter() - start)
        assert ran.returncode == 0
        assert ran.stderr.split() == [
            "__main__",
            "sequence_extension",
            "sequence_extension.cli",
            "sequence_extension.output",
        ]
    assert min(spent) < 0.3
    for word in ("FILE", "--json", "--max-datums N", "--fail-on", "standard input", "exit codes"):
        assert word in ran.stdout


def test_report_as_a_process() -> None:
    """Invariants 3, 4 and 8: one JSON object and nothing else, import warnings included."""
    code = (
        "import sys; from sequence_extension.cli import main; code = main(); "
        "bad = {'marimo', 'altair', 'vl_convert'} & set(sys.modules); assert not bad, bad; "
        "sys.exit(code)"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONWARNINGS": "default"}
    ran = python("-c", code, str(CASES), "--json", "--max-datums", "2", cwd=ROOT, env=environment)
    assert ran.returncode == 1
    entries = json.loads(ran.stdout)["trajectories"]
    assert [entry["name"] for entry in entries] == [case["name"] for case in EXPECTED]
    assert ran.stderr.startswith("failed: --max-datums 2 by ")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_shows_on_a_terminal_only(
    terminal: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On standard error, and gone at the end; the report is the same with and without."""
    monkeypatch.setattr(command, "BAR_AFTER_S", 0.0)
    monkeypatch.setattr(command, "tqdm", partial(tqdm, mininterval=0))  # every move shows
    files = []
    for number in range(3):
        files.append(str(tmp_path / f"{number}.jsonl"))
        Path(files[-1]).write_text(f"{json.dumps(GOOD)}\n" * 10)
    reading, writing = pty.openpty() if terminal else os.pipe()
    if terminal:
        fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with os.fdopen(os.dup(writing), "w", buffering=1) as error:
        monkeypatch.setattr(sys, "stderr", error)
        assert main(files) == 0
        error.write("end")  # a pipe would wait for something
    shown = ""
    while not shown.endswith("end"):  # a busy machine gives it in parts
        shown += os.read(reading, 1_000_000).decode()
    shown = shown.removesuffix("end")
    os.close(writing)
    os.close(reading)
    assert "30 rollouts, 30 turns, 30 datums\n" in capsys.readouterr().out
    if not terminal:
        assert shown == ""
        return
    percents = [int(text) for text in re.findall(r"(\d+)%\|", shown)]
    assert percents[0] == 0
    assert percents[-1] > 60
    assert percents == sorted(percents)
    last = shown.replace("\r\n", "\n").rstrip("\r\n").split("\r")[-1]
    assert last.strip() == ""  # wiped, so that the report stands alone


def test_every_trouble_is_said_when_gates_and_outputs_fail_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invariants 3 to 6: a page that cannot be written, a line that cannot be read, two gates."""
    path = tmp_path / "rollouts.jsonl"
    path.write_text("\n".join(map(json.dumps, [SPLIT, WARNS, 7])))
    missing = str(tmp_path / "missing")
    gates = ["--max-datums", "1", "--fail-on", "warning,refused"]
    code = main([str(path), missing, "--json", "--html", "/dev/full", *gates])
    out, err = capsys.readouterr()
    assert code == 2
    report = json.loads(out)
    assert [entry["name"] for entry in report["trajectories"]] == ["split", "warns"]
    lines = err.splitlines()
    assert "/dev/full cannot be written: No space left on device." in lines
    assert [line for line in lines if line.startswith("not read: ")] == [
        f"not read: {problem}" for problem in report["summary"]["problems"]
    ]
    assert len(report["summary"]["problems"]) == 2
    assert lines[-1].startswith('failed: --max-datums 1 by 1 of 2 rollouts ("split"); ')
    assert '--fail-on warning by 1 of 2 rollouts ("warns")' in lines[-1]


def test_names_with_commas_are_told_apart(run: Any) -> None:
    """Invariant 4: names stand in quotes; a group that the name begins with is not said again."""
    turns = [{"ob": [1, 2], "ac": [3], "logprobs": [-0.5]}]
    names = [f"group 0, trajectory {number}" for number in range(2)]
    listed = [{"name": name, "group": "group 0", "transitions": turns} for name in names]
    ran = run(listed, "--max-datums", "0")
    assert ran.out.splitlines()[-1].endswith(f'("{names[0]}", "{names[1]}")')
    assert ran.out.splitlines()[0] == names[0]


def test_what_holds_nothing_is_said_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 5: in the very words of the whole reader, which with one more file is asked."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("folder", "notes.md").write_text("no rollouts")
    Path("empty.jsonl").touch()
    Path("zip.jsonl").write_bytes(b"PK\x03\x04\0\0")
    Path("text.jsonl").write_text('{"transitions": []}', encoding="utf-32")
    Path("good.jsonl").write_text('{"transitions": []}')
    names = ["missing.jsonl", "folder", "empty.jsonl", "zip.jsonl", "text.jsonl"]
    code = "import sys; from sequence_extension.cli import main; code = main(sys.argv[1:]); "
    code += "sys.exit(3 if {'torch', 'tinker'} & set(sys.modules) else code)"
    for name in names:
        assert main([name]) == 2
        at_once = capsys.readouterr()
        assert main([name, "good.jsonl"]) == 2
        assert (at_once.out, at_once.err) == ("", capsys.readouterr().err)
    Path("tokenizer.json").write_text("{}")
    Path("page.html").touch()
    more = [
        "--fail-on",
        "refused,warning",
        "--json",
        "--html",
        "page.html",
        "--tokenizer",
        "tokenizer.json",
        "--workers",
        "2",
    ]
    calls = [names, [*names, *more], ["good.jsonl", *more, "--html", "none/page.html"]]
    calls += [["good.jsonl", "--html", "folder"], ["good.jsonl", *more, "--tokenizer", "./none"]]
    for arguments in calls:
        start = time.perf_counter()
        ran = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True
        )
        assert time.perf_counter() - start < 1.5  # measured: 0.1 s
        assert ran.returncode == 2
        assert len(ran.stderr.splitlines()) == (1 if "good.jsonl" in arguments else len(names))
        assert ran.stdout == "" or json.loads(ran.stdout)["summary"]["files"] == 4


@pytest.mark.parametrize("words", [["a\0b"], ["\ud800"], ["-", "--html", "\ud800.html"]])
def test_what_can_name_no_file_is_said(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Invariant 5."""
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"sequence-extension: `.*` can name no file\n", err)
    assert err.strip().isprintable()


@pytest.mark.parametrize("name", ["missing.jsonl", "folder", "empty.jsonl"])
@pytest.mark.parametrize("options", [["--json"], ["--html", "page.html"], ["--workers", "2"]])
def test_what_is_said_at_once_is_what_a_whole_run_says(
    name: str,
    options: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Invariant 5: on both streams, byte for byte, and no page is written."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("empty.jsonl").touch()
    assert main([name, *options]) == 2
    at_once = capsys.readouterr()
    monkeypatch.setattr("sequence_extension.cli.cli_early_answer", lambda options: False)
    assert main([name, *options]) == 2
    assert at_once == capsys.readouterr()
    assert not Path("page.html").exists()


def call(prompt: list[int], answer: list[int], **more: Any) -> dict[str, Any]:
    """A call as vLLM's server logs it."""
    return {"prompt_token_ids": prompt, "token_ids": answer, **more}


def test_missing_logprobs_are_said_once(run: Any) -> None:
    """Invariant 4: what there would be, no sums of nothing, and the break that is known."""
    bare = [
        call([1, 2, 3], [4, 5], session_id="a"),
        call([1, 2, 3, 4, 5, 6], [7], session_id="a"),
        call([1, 2, 9, 4, 5, 6, 8], [7], session_id="a"),
    ]
    text = run(bare).out
    assert "refused, logprobs missing in all 3 turns: would be 2 datums once logprobs" in text
    assert "would be:           2 datums from 1 rollout once logprobs are recorded" in text
    assert "turn 2 splits at position 2" in text
    for words in ("ValueError", "logprobs_missing", "inputs:", "nothing to merge", "0 read again"):
        assert words not in text
    assert sum(line.startswith("  logprobs missing: ") for line in text.splitlines()) == 1
    (entry,) = run(bare, "--json").report
    assert entry["error"]["code"] == "ValueError"
    assert (entry["datums"], entry["tokens_processed"], entry["tokens_unmerged"]) == (
        [],
        None,
        None,
    )
    assert [warning["code"] for warning in entry["warnings"]] == ["logprobs_missing"] * 3
    # with logprobs it is what was said
    whole = [one | {"logprobs": [-0.5] * len(one["token_ids"])} for one in bare]
    (entry,) = run(whole, "--json").report
    assert len(entry["datums"]) == 2


def test_the_turn_without_logprobs_is_named_and_other_faults_too(run: Any) -> None:
    """Invariant 4: nothing would be made of a rollout that has another fault as well."""
    good = {"ob": [1, 2], "ac": [3], "logprobs": [-0.5]}
    late = [good, {"append": [4], "ac": [5], "logprobs": None}]
    assert (
        "missing in 1 of 2 turns (turn 1 is the first): would be 1 datum"
        in run({"transitions": late}).out
    )
    short = [{"ob": [9], "ac": [5], "logprobs": None}, {"ob": [8], "ac": [], "logprobs": []}]
    text = run({"transitions": short}).out
    assert "would be" not in text
    assert "Turn 0 has no logprobs" in text


def test_merging_that_saves_nothing_is_no_percentage(run: Any) -> None:
    """The worst case does not read as a success."""
    turns = [{"ob": [1, 2], "ac": [3], "logprobs": [-0.5]}] * 2
    text = run({"transitions": turns}).out
    assert "2 datums, 4 inputs: nothing saved by merging; 2 read again" in text
    assert "100%" not in text


def test_calls_without_id_that_begin_anew_say_what_to_record(run: Any) -> None:
    """A hint at the first other context; none where calls name their rollouts."""
    calls = [
        call([1, 2, 3, 4], [5], logprobs=[-0.5]),
        call([9, 8, 7, 6], [5], logprobs=[-0.5]),
        call([1, 2, 3, 5], [5], logprobs=[-0.5]),
        call([11, 12, 13], [5], logprobs=[-0.5]),
    ]
    lines = "\n".join(map(json.dumps, calls)).encode()
    text = run(lines).out
    assert text.count("record a `session_id` (or `trajectory_id`, `rollout_id`)") == 1
    # lists tell rollouts apart: at most one of a file may be several
    for data in (json.dumps([calls] * 3), "\n".join([json.dumps(calls)] * 3)):
        assert run(data.encode()).out.count("record a `session_id`") == 1
    named = [one | {"session_id": "a"} for one in calls]
    text = run("\n".join(map(json.dumps, named)).encode()).out
    assert "new_context" in text
    assert "session_id" not in text
