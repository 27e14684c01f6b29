"""`read_rollouts`, `write_rollouts` and folders, as Python programs use them.

Invariants:

1. What is written reads back: groups, totals of rewards, datums.
2. Whatever `file` is (path, stream, bytes, text), the same rollouts come, one at a time.
3. What cannot be read is raised at the end, or collected; the rollouts before and behind come.
4. Memory does not grow with the number of rollouts, nor with repeated prompts of joined calls.
5. A folder gives the files of rollouts below it in the order of their names.
"""

import dataclasses
import doctest
import io
import json
import os
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tinker
import torch
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages
from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup, Transition

import sequence_extension
from sequence_extension import Rollout, read_rollouts, write_rollouts
from sequence_extension.diagnosis import diagnose
from sequence_extension.formats import rollouts
from sequence_extension.formats.results import FileIssue
from sequence_extension.formats.rollouts import expand_rollouts_paths
from sequence_extension.formats.stream import stream_rollouts
from sequence_extension.group import group_advantages

LINE = '{"transitions": [{"ob": [1, 2], "ac": [3], "logprobs": [-0.5]}]}\n'


def trajectory(reward: float, prompt: list[int] | None = None, **metrics: Any) -> Trajectory:
    """Two turns, of which the second extends the first."""
    first = prompt or [1, 2]
    transitions = [
        Transition(
            ob=tinker.ModelInput.from_ints(ob),
            ac=TokensWithLogprobs(tokens=[7], maybe_logprobs=[-0.5]),
            reward=reward,
            episode_done=len(ob) > len(first),
            metrics=metrics,
            logs={"anything": object()},  # type: ignore[dict-item]
        )
        for ob in (first, [*first, 7, 3])
    ]
    return Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty())


def group(*rewards: float, final: float = 0.0) -> TrajectoryGroup:
    return TrajectoryGroup(
        trajectories_G=[trajectory(reward) for reward in rewards],
        final_rewards_G=[final * number for number in range(len(rewards))],
        metrics_G=[{} for _ in rewards],
    )


def test_groups_read_back_with_their_advantages() -> None:
    """Invariant 1: advantages and datums are the cookbook's on the groups themselves."""
    groups = [group(1.0, 0.0, 0.5, final=0.25), group(0.0, 1.0)]
    out = io.StringIO()
    assert write_rollouts(out, groups, prefix="step 3, ") == 5
    rollouts = list(read_rollouts(out.getvalue()))
    assert [rollout.group for rollout in rollouts] == ["step 3, group 0"] * 3 + [
        "step 3, group 1"
    ] * 2
    assert rollouts[1].name == "step 3, group 0, trajectory 1"
    advantages = [float(value) for each in compute_advantages(groups) for value in each]
    assert group_advantages(rollouts) == pytest.approx(advantages)
    again = [
        TrajectoryGroup(
            [rollout.trajectory for rollout in rollouts if rollout.group == name], [0.0] * size, []
        )
        for name, size in (("step 3, group 0", 3), ("step 3, group 1", 2))
    ]
    written, _ = assemble_training_data(groups, compute_advantages(groups))
    read, _ = assemble_training_data(again, compute_advantages(again))
    assert [datum.model_input.to_ints() for datum in read] == [
        datum.model_input.to_ints() for datum in written
    ]


def test_whatever_stands_in_metrics_and_logs_is_written() -> None:
    """Invariant 1: text, true, null, objects; only numbers are kept."""
    odd = trajectory(
        1.0,
        note="text",
        parse_error_masked="1",
        flag=True,
        none=None,
        thing=object(),
        score=0.5,
        nan=1e999,
    )
    out = io.StringIO()
    write_rollouts(out, [odd])
    (rollout,) = read_rollouts(out.getvalue())
    kept = rollout.trajectory.transitions[0].metrics
    assert kept == {"parse_error_masked": 1.0, "flag": 1.0, "score": 0.5, "nan": float("inf")}


def test_what_is_no_rollout_is_refused() -> None:
    """Invariant 1."""
    with pytest.raises(TypeError, match="TrajectoryGroup, Trajectory or Rollout objects, got list"):
        write_rollouts(io.StringIO(), [[trajectory(1.0)]])  # type: ignore[list-item]


def turns_of(tokens: list[int], reward: Any = 0.0, image: Any = None) -> Trajectory:
    chunks: list[Any] = [tinker.EncodedTextChunk(tokens=[1])]
    return Trajectory(
        [
            Transition(
                ob=tinker.ModelInput(chunks=[*([] if image is None else [image]), *chunks]),
                ac=TokensWithLogprobs(tokens=tokens, maybe_logprobs=[-0.5] * len(tokens)),
                reward=reward,
                episode_done=True,
            )
        ],
        tinker.ModelInput.empty(),
    )


def picture_of(tokens: int | None) -> Any:
    return tinker.types.ImageChunk(data=b"a", format="png", expected_tokens=tokens)


WRONG: dict[str, tuple[Any, str]] = {
    "negative id": (turns_of([-1]), "A token id must be from 0 to 2147483647, not -1"),
    "large id": (turns_of([2**31]), "not 2147483648"),
    "reward": (turns_of([1], reward="x"), "A reward must be a number"),
    "image": (turns_of([1], image=picture_of(100_001)), "at most 100,000 tokens"),
    "few rewards": (
        TrajectoryGroup([turns_of([1]), turns_of([1])], [0.0], [{}, {}]),
        "`group 1` has 2 and 1",
    ),
    "final reward": (TrajectoryGroup([turns_of([1])], ["x"], [{}]), "A final reward must"),  # type: ignore[list-item]
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_read_back_is_not_written(case: str, tmp_path: Path) -> None:
    """Invariant 1: one sentence; what stands in the file stays."""
    wrong, sentence = WRONG[case]
    path = tmp_path / "rollouts.jsonl"
    path.write_text("before")
    with pytest.raises(ValueError, match=sentence):
        write_rollouts(path, [turns_of([1]), wrong])
    assert path.read_text() == "before"
    out = io.StringIO()
    with pytest.raises(ValueError, match=sentence):
        write_rollouts(out, iter([turns_of([1]), wrong]))
    assert out.getvalue().count("\n") == 1


def test_odd_texts_and_images_are_written_and_read_back() -> None:
    """Invariant 1: parts of characters, long and broken names, an image of no known size."""
    vocab = {1: "\udce2\udc82", 2: "t" * 5_000}
    rollout = Rollout("n\ud800" * 600, turns_of([1], image=picture_of(None)), vocab, "g" * 3_000)
    (back,) = read_rollouts(write_to_bytes([rollout]))
    assert back.vocab[1] == vocab[1]
    assert back.name.startswith("n\\ud800n")
    assert back.trajectory.transitions[0].ob == rollout.trajectory.transitions[0].ob
    assert diagnose(back).built == diagnose(rollout).built


def write_to_bytes(rollouts: list[Any]) -> bytes:
    out = io.BytesIO()
    write_rollouts(out, rollouts)
    return out.getvalue()


def test_rollouts_keep_name_group_and_vocabulary() -> None:
    """Invariant 1."""
    rollout = Rollout("one", trajectory(0.5), {7: "</b>"}, "g")
    out = io.BytesIO()
    write_rollouts(out, [rollout])
    (back,) = read_rollouts(out.getvalue())
    assert (back.name, back.vocab, back.group) == ("one", {7: "</b>"}, "g")


def test_every_kind_of_file(tmp_path: Path) -> None:
    """Invariant 2, for writing and reading."""
    path = tmp_path / "rollouts.jsonl"
    groups = [group(1.0, 0.0)]
    write_rollouts(path, groups)
    write_rollouts(str(path), groups)
    with path.open("a", encoding="utf-8") as stream:
        write_rollouts(stream, groups, prefix="step 1, ")
    with path.open("ab") as binary:
        write_rollouts(binary, groups, prefix="step 2, ")
    with tempfile.NamedTemporaryFile("w+") as temporary:
        write_rollouts(temporary, groups)
        temporary.seek(0)
        assert len(temporary.readlines()) == 2
    names = [rollout.name for rollout in read_rollouts(path)]
    assert len(names) == len(set(names)) == 6
    for file in (str(path), path.read_bytes(), path.read_text(), io.BytesIO(path.read_bytes())):
        assert [rollout.name for rollout in read_rollouts(file)] == names
    with path.open() as text:
        opened: Any = text
        assert [rollout.name for rollout in read_rollouts(opened)] == names
    string: Any = io.StringIO(path.read_text())
    assert [rollout.name for rollout in read_rollouts(string)] == names
    with pytest.raises(FileNotFoundError):
        list(read_rollouts(tmp_path / "missing.jsonl"))


def test_problems_come_at_the_end_or_are_collected() -> None:
    """Invariant 3."""
    text = LINE + "no json\n" + LINE + '{"transitions": [{"ob": [1]}]}\n'
    rollouts = read_rollouts(text)
    assert [next(rollouts).name, next(rollouts).name] == ["trajectory 0", "trajectory 2"]
    with pytest.raises(ValueError, match=r"Line 2, .*Line 4, .*no action tokens"):
        next(rollouts)
    issues: list[FileIssue] = []
    assert len(list(read_rollouts(text, issues))) == 2
    assert [issue.line for issue in issues] == [2, 4]
    many = LINE + "no json\n" * 8
    with pytest.raises(ValueError, match="And 3 more"):
        list(read_rollouts(many))


def test_lengths_are_no_rollouts() -> None:
    """Invariant 3."""
    summary = Path(__file__).parent / "formats" / "cookbook_train_rollout_summaries.jsonl"
    with pytest.raises(ValueError, match="Of 4 rollouts the file holds lengths but no tokens"):
        list(read_rollouts(summary))


class Endless(io.RawIOBase):
    """A file of so many lines, which counts what was read; it is never held as a whole."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self.lines, self.left, self.total = lines, b"", 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self.left:
            self.left = next(self.lines, b"")
        taken, self.left = self.left[: len(buffer)], self.left[len(buffer) :]
        buffer[: len(taken)] = taken
        self.total += len(taken)
        return len(taken)


def peak_of(lines: Iterator[bytes]) -> tuple[int, int, int]:
    """Bytes allocated at most while a file is read, its size, and its rollouts."""
    source = Endless(lines)
    tracemalloc.start()
    try:
        count = sum(
            isinstance(item, Rollout) for item in stream_rollouts(io.BufferedReader(source))
        )
        return tracemalloc.get_traced_memory()[1], source.total, count
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_rollouts() -> None:
    """Invariant 4: thirty times as many lines take the same."""

    def lines(count: int) -> Iterator[bytes]:
        turns = [{"ob": list(range(500)), "ac": [1] * 20, "logprobs": [-0.5] * 20}] * 4
        line = json.dumps({"transitions": turns}).encode() + b"\n"
        return iter([line] * count)

    small, _, few = peak_of(lines(10))
    large, size, many = peak_of(lines(300))
    assert (few, many) == (10, 300)
    assert size > 3_000_000
    assert large < 1.5 * small


def test_open_rollouts_keep_repeated_prompts_once() -> None:
    """Invariant 4: 20 interleaved rollouts of 16 calls, each with its whole history."""

    def lines() -> Iterator[bytes]:
        for turn in range(16):
            for number in range(20):
                end = 1_000 + 300 * (turn + 1)
                prompt = [number, *range(1_000, end)]
                call = {"prompt_token_ids": prompt, "token_ids": [end], "logprobs": [-1.0]}
                yield json.dumps({**call, "session_id": number}).encode() + b"\n"

    peak, size, count = peak_of(lines())
    assert count == 20
    assert size > 4_000_000
    assert peak < size / 2


def test_folders_give_their_files_in_order(tmp_path: Path) -> None:
    """Invariant 5."""
    for name in ("b/2.jsonl", "b/1.json", "a.jsonl", "notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(LINE)
    (tmp_path / "config.json").write_text('{\n "steps": 100, "model": "m"\n}')
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "damaged.jsonl").write_text('{"transitions": [')
    (tmp_path / "slime.jsonl").write_text('{"tokens": [1], "response_length": 1}')
    (tmp_path / "folder.json").mkdir()
    names = ["a.jsonl", "b/1.json", "b/2.jsonl", "damaged.jsonl", "slime.jsonl"]
    assert list(expand_rollouts_paths([str(tmp_path)])) == [str(tmp_path / name) for name in names]
    assert list(expand_rollouts_paths(["-", str(tmp_path / "missing"), str(tmp_path / "b")])) == [
        "-",
        str(tmp_path / "missing"),
        str(tmp_path / "b" / "1.json"),
        str(tmp_path / "b" / "2.jsonl"),
    ]
    (issue,) = expand_rollouts_paths([str(tmp_path / "folder.json")])
    assert isinstance(issue, FileIssue)
    assert "holds no file of rollouts" in issue.message


def test_in_the_folder_of_a_run_only_what_can_be_read_is_taken(tmp_path: Path) -> None:
    """Invariant 5: other records of the capture and dumps in text are no trouble there."""
    texts = {
        "run/capture/sample.jsonl": LINE,
        "run/capture/train_op.jsonl": '{"kind": "train_op", "scope": {}}',
        "run/eval.jsonl": '{"input": "q", "output": "a", "score": 1.0}',
        "run/metrics.jsonl": '{"step": 1, "loss": 0.5}',
        "run/rollouts.jsonl": LINE,
        "run/damaged.json": "{",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    names = ["run/capture/sample.jsonl", "run/rollouts.jsonl"]
    assert list(expand_rollouts_paths([str(tmp_path)])) == [str(tmp_path / name) for name in names]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    """Invariant 5."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "a.jsonl").write_text(LINE)
    assert list(expand_rollouts_paths([str(tmp_path)])) == [str(tmp_path / "a.jsonl")]


@pytest.mark.parametrize("legacy", [False, True])
def test_a_torch_file_is_named(legacy: bool) -> None:
    """Invariant 3: as slime saves its rollouts."""
    saved = io.BytesIO()
    samples = {"samples": [{"tokens": torch.arange(99)}]}
    torch.save(samples, saved, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(ValueError, match=r"^Line 1: this is a (PyTorch file|Python pickle)"):
        list(read_rollouts(saved.getvalue() + b"\n" * 99 + LINE.encode()))


def test_the_names_are_public_and_their_examples_run() -> None:
    assert doctest.testmod(rollouts).failed == 0
    assert doctest.testmod(rollouts).attempted >= 5
    assert {"read_rollouts", "write_rollouts"} <= set(sequence_extension.__all__)


def test_a_group_read_through_asdict_is_the_group() -> None:
    """Invariant 1: the cookbook's objects, written by whoever, without a line of this package."""
    given = group(1.0, 0.5, final=1.0)
    record = dataclasses.asdict(given)
    text = json.dumps(
        record, default=lambda value: getattr(value, "model_dump", lambda: str(value))()
    )
    rollouts = list(read_rollouts(text))
    assert group_advantages(rollouts) == pytest.approx(compute_advantages([given])[0].tolist())
    assert rollouts[0].trajectory.transitions[1].ob.to_ints() == [1, 2, 7, 3]
