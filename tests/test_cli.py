"""Room report and the command line.

Invariants:

1. Format: the JSON report has exactly the documented keys, in order, with the documented nulls.
2. Truth: every case with known answers comes out of the command line with these answers.
3. Exit codes: 0 read and reported, 1 more datums than allowed, 2 something could not be read.
4. Streams: with --json standard output is one JSON object; a failure is one line on standard error.
5. Text: a verdict a turn, the price, and sums over all rollouts that agree with the JSON.
6. Neighbours: a trajectory that is refused or cannot be read does not stop the others.
7. Terminal: no text of a file reaches a terminal with a control character in it.
8. Start: as a script the notebook runs the command line, and not the story.
"""

import io
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from browser import NOTEBOOK, clean_environment
from tinker_cookbook.rl.data_processing import trajectory_to_data

from sequence_extension.cli import main
from sequence_extension.diagnosis import diagnose
from sequence_extension.formats.bounded import read_bounded
from sequence_extension.report import report_entry, write_report

CASES = Path(__file__).parent / "cases.jsonl"
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
        assert list(loaded) == ["trajectories"]
        trajectories: list[dict[str, Any]] = loaded["trajectories"]
        return trajectories


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """`main` on a file with the given content, in this process."""

    def run(content: Any, *options: str, standard_input: bool = False) -> Ran:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        path = tmp_path / "rollouts.json"
        path.write_bytes(data)
        if standard_input:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        try:
            code = main(["--trajectory", "-" if standard_input else str(path), *options])
        except SystemExit as stop:
            code = int(stop.code or 0)
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
        },
        {
            "turn": 2,
            "position": 0,
            "expected": 7,
            "got": 1,
            "cause": "new_context",
            "origin": {"turn": 1, "part": "observation", "index": 0},
            "resumes_datum": 0,
        },
    ]
    assert list(first["breaks"][0]) == [
        "turn", "position", "expected", "got", "cause", "origin", "resumes_datum",
    ]  # fmt: skip
    (warning,) = first["warnings"]
    assert list(warning) == ["code", "turn", "index", "message"]
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
    out = io.StringIO()
    with CASES.open("rb") as stream:
        _, issues = write_report(stream, out, True, None)
    assert issues == []
    reported: list[dict[str, Any]] = json.loads(out.getvalue())["trajectories"]
    return reported


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
    """Invariant 3: N itself is allowed."""
    ran = run([{"transitions": [TURN]}, SPLIT], "--max-datums", allowed, *options)
    assert (ran.code, ran.err) == (code, "")


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
        assert "not read: Line 2" in ran.out


def test_many_bad_lines_are_one_line_on_standard_error(run: Any) -> None:
    """Invariant 4."""
    ran = run(b"[1]\n" * 12, "--json")
    assert (ran.code, ran.report) == (2, [])
    assert ran.err.count("\n") == 1
    assert "Line 5" in ran.err
    assert "And 7 more." in ran.err


@pytest.mark.parametrize(
    ("path", "words"),
    [("missing.json", "No such file"), (".", "directory"), ("a\nb\x1b[31m", "No such file")],
)
def test_files_that_cannot_be_opened(
    path: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invariants 3, 4 and 7."""
    assert main(["--trajectory", os.path.join(tmp_path, path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert words in err
    assert "\x1b" not in err


@pytest.mark.parametrize(
    "argv",
    [
        ["--json"],
        ["--max-datums", "1"],
        ["--trajectory"],
        ["--trajectory", "x", "--max-datums", "-1"],
        ["--trajectory", "x", "--max-datums", "1.5"],
        ["--trajectory", "x", "--max-datums"],
        ["--trajectory", "x", "--unknown"],
        ["--traj", "x"],
        ["x\ny\x1b[2J"],
    ],
)
def test_arguments_without_sense(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Invariants 3, 4 and 7."""
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.isprintable() or err[:-1].isprintable()


def test_help_and_no_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    """Invariant 3: both exit with 0 and say how to use it."""
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    said = capsys.readouterr().out
    for word in ("--trajectory FILE", "--json", "--max-datums N", "standard input", "exit codes"):
        assert word in said
    assert main([]) == 0
    said = capsys.readouterr().out
    assert said.count("\n") == 2
    assert "--trajectory FILE" in said


def test_text_agrees_with_json(run: Any) -> None:
    """Invariant 5."""
    text = run(CASES.read_bytes())
    entries = run(CASES.read_bytes(), "--json").report
    assert (text.code, text.err) == (0, "")
    lines = text.out.splitlines()
    turns = sum(entry["turns"] for entry in entries)
    assert sum(line.startswith("  turn ") for line in lines) == turns
    assert sum(": splits" in line for line in lines) == sum(len(e["breaks"]) for e in entries)
    warnings = [warning for entry in entries for warning in entry["warnings"]]
    assert sum(line.startswith("    warning: ") for line in lines) == len(warnings)
    for warning in warnings:
        assert warning["message"] in text.out
    good = [entry for entry in entries if entry["error"] is None]
    *_, summary, helps = text.out.rstrip().split("\n\n")
    processed = sum(entry["tokens_processed"] for entry in good)
    unmerged = sum(entry["tokens_unmerged"] for entry in good)
    assert f"{len(entries)} rollouts, {turns} turns" in summary
    assert f"{sum(len(entry['datums']) for entry in good)} datums" in summary
    assert f"{len(entries) - len(good)} refused" in summary
    assert f"{processed:,}" in summary
    assert f"{unmerged:,}" in summary
    for cause in {found["cause"] for entry in entries for found in entry["breaks"]}:
        count = sum(found["cause"] == cause for entry in entries for found in entry["breaks"])
        assert f"{cause} {count}" in summary
    named = [found["cause"] for entry in entries for found in entry["breaks"]]
    named += [warning["code"] for warning in warnings]
    named += [entry["error"]["code"] for entry in entries if entry["error"]]
    heads = [line.split(":")[0].strip() for line in helps.splitlines()]
    assert sorted(heads) == sorted({"What helps", *named})
    for count in (1, 2, 3, 4):
        number = sum(len(entry["datums"]) == count for entry in good)
        assert f"{count} in {number}" in summary


@pytest.mark.parametrize("options", [(), ("--json",), ("--max-datums", "1")])
def test_no_rollouts_are_reported_as_none(options: tuple[str, ...], run: Any) -> None:
    """Invariant 3: an empty list is a file that was read."""
    ran = run([], *options)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.strip()


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
    """Invariant 6 and constant memory: a report is out before the next line is asked for."""
    asked: list[int] = []
    out = io.StringIO()

    class Slow(io.RawIOBase):
        """Hands out one line at a time and notes how much was written before each."""

        lines = iter([json.dumps(SPLIT).encode() + b"\n"] * 5)

        def readable(self) -> bool:
            return True

        def readline(self, size: int | None = -1, /) -> bytes:
            asked.append(out.getvalue().count('"name"'))
            return next(self.lines, b"")

    write_report(Slow(), out, True, None)
    assert asked == [0, 1, 2, 3, 4, 5]


SCRIPTS: dict[str, tuple[list[str], bytes]] = {
    "none": ([], b""),
    "cases": (["--trajectory", str(CASES), "--json", "--max-datums", "2"], b""),
    "bad line": (
        ["--trajectory", "-", "--json"],
        b'{"transitions": []}\n{"transitions": [1]}\n',
    ),
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """The notebook started as a script, all at once, with an output that knows ASCII only."""
    environment = {**clean_environment(), "PYTHONIOENCODING": "ascii", "PYTHONWARNINGS": "default"}
    with ExitStack() as stack:
        started = {
            name: stack.enter_context(
                subprocess.Popen(
                    [sys.executable, str(NOTEBOOK), *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment,
                    cwd=tmp_path_factory.mktemp("script"),
                )
            )
            for name, (arguments, _) in SCRIPTS.items()
        }
        ran = {}
        for name, process in started.items():
            out, err = process.communicate(SCRIPTS[name][1], timeout=600)
            ran[name] = Ran(process.returncode, out.decode("ascii"), err.decode("ascii"))
        return ran


def test_script_without_arguments_says_how_to_use_it(scripts: dict[str, Ran]) -> None:
    """Invariant 8."""
    ran = scripts["none"]
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("\n") == 2


def test_script_writes_one_json_object_and_nothing_else(scripts: dict[str, Ran]) -> None:
    """Invariants 3, 4 and 8: import warnings included."""
    ran = scripts["cases"]
    assert (ran.code, ran.err) == (1, "")
    assert [entry["name"] for entry in ran.report] == [case["name"] for case in EXPECTED]


def test_script_names_the_line_that_cannot_be_read(scripts: dict[str, Ran]) -> None:
    """Invariants 3, 4 and 8."""
    ran = scripts["bad line"]
    assert ran.code == 2
    assert len(ran.report) == 1
    assert ran.err.count("\n") == 1
    assert "Line 2, trajectory 1, turn 0" in ran.err
