"""Reading in parts, by workers.

Invariants:

1. Same: in whatever parts a file is read, what comes out is what one reader gives, in order: JSON
   entries, lines, sums, sentences with line and number.
2. Dependence: where lines depend on others (calls that are joined) the rest is read in one go.
3. Command: `--workers` gives the same bytes, in processes and on Ray.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sequence_extension.cli import main
from sequence_extension.formats.stream import MAX_FILE_ISSUES
from sequence_extension.scan import Item, Wanted, scan_file
from sequence_extension.troubles import Trouble
from sequence_extension.workers import (
    Part,
    Result,
    merge_worker_parts,
    read_worker_part,
    worker_file_parts,
)

CASES = (Path(__file__).parent / "cases.jsonl").read_bytes().splitlines()
TURN: dict[str, Any] = {"ob": [1, 2], "ac": [3], "logprobs": [-0.5]}
LINES = [
    json.dumps({"transitions": [TURN]}),
    json.dumps({"name": "named", "transitions": [TURN, {**TURN, "ob": [1, 9]}]}),
    json.dumps([{"transitions": [TURN]}, {"transitions": [TURN]}]),
    json.dumps({"transitions": [7]}),
    json.dumps({"prompt_token_ids": [1], "token_ids": [2], "trajectory_id": "a"}),
    json.dumps({"prompt_token_ids": [1, 2, 3], "token_ids": [4], "trajectory_id": "a"}),
    json.dumps({"prompt_token_ids": [1], "token_ids": [2]}),
    json.dumps(TURN),
    "no json",
    "",
    CASES[3].decode(),
]


def at_once(part: Part) -> Callable[[], Result]:
    return lambda: read_worker_part(part)


def in_parts(path: Path, wanted: Wanted, size: int) -> list[Item | Trouble]:
    return list(merge_worker_parts(iter(worker_file_parts(str(path), wanted, size)), at_once, 3))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parts") / "rollouts.jsonl"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(LINES), max_size=12), st.integers(1, 900), st.booleans())
def test_parts_give_what_one_reader_gives(
    file: Path, lines: list[str], size: int, as_json: bool
) -> None:
    """Invariants 1 and 2."""
    file.write_text("\n".join(lines))
    wanted = Wanted(as_json=as_json, details=0 if as_json else 99)
    assert in_parts(file, wanted, size) == list(scan_file(str(file), wanted))


def test_rollouts_are_read_in_several_parts(file: Path) -> None:
    """Invariant 1: or the test above tests nothing."""
    file.write_bytes(b"\n".join(CASES))
    parts = list(worker_file_parts(str(file), Wanted(), 4_000))
    assert len(parts) > 3
    assert all(read_worker_part(part).alone for part in parts)
    assert sum(len(read_worker_part(part).items) for part in parts) == len(CASES)


def test_the_bound_on_issues_holds_over_parts(file: Path) -> None:
    """Invariant 1."""
    file.write_text("\n".join([LINES[0], *[LINES[3]] * (MAX_FILE_ISSUES + 50), LINES[0]]))
    assert in_parts(file, Wanted(), 2_000) == list(scan_file(str(file), Wanted()))


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    return main(arguments), *capsys.readouterr()


def files(folder: Path) -> list[str]:
    """Several files, one of them of more than one part, one of calls, one that is missing."""
    line = json.dumps({"transitions": [TURN] * 2, "what nobody needs": "x" * 1_000_000})
    (folder / "a.jsonl").write_text("\n".join([*[line] * 17, LINES[3], *LINES[:3]]))
    (folder / "b.jsonl").write_text("\n".join(LINES[4:7]))
    (folder / "c.json").write_bytes(CASES[0])
    return [str(folder / name) for name in ("a.jsonl", "missing", "b.jsonl", "c.json")]


@pytest.mark.parametrize("workers", ["2", pytest.param("ray", marks=pytest.mark.ray)])
def test_the_command_gives_the_same_bytes(
    workers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invariant 3."""
    if workers == "ray":
        pytest.importorskip("ray")
    options = ["--max-datums", "1", "--json"]
    alone = run([*files(tmp_path), *options], capsys)
    assert alone[0] == 2
    assert run([*files(tmp_path), *options, "--workers", workers], capsys) == alone
