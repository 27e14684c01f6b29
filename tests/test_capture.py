"""Capture files made by the cookbook's own exporter around a stub of the sampling client.

Invariants:

1. Rollouts of the real loop that were captured while they ran in turns read back as the same
   trajectories: same datums, token for token, from `sample.jsonl` and from `capture.sqlite`.
2. Failed calls and further samples of a call are counted, in both.
3. A store is read as it is while others write to it, also where nothing can be written, and is
   not changed; other databases are named.
4. A run's log directory is found by its files.
"""

import asyncio
import io
import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tinker
from tinker_cookbook.capture import (
    CaptureExporter,
    JsonlFileSink,
    capture,
    instrument_tinker,
    uninstrument_tinker,
)
from tinker_cookbook.capture.store.client import wire_rows_from_sample_record
from tinker_cookbook.capture.store.db import CaptureDB
from tinker_cookbook.completers import TinkerTokenCompleter
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.rollouts import do_single_rollout
from tinker_cookbook.rl.types import Env, StepResult, Trajectory
from tinker_cookbook.stores.storage import LocalStorage

from sequence_extension import read_rollouts
from sequence_extension.formats.results import FileIssue
from sequence_extension.formats.rollouts import expand_rollouts_paths
from sequence_extension.formats.stream import stream_rollouts
from sequence_extension.rollout import Rollout

# The real loop still calls what the SDK wants to drop.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


class ForgetfulEnv(Env):
    """Every prompt is what was said so far; at turn `forgets` a token of an answer is lost."""

    def __init__(self, start: int, turns: int, forgets: int) -> None:
        self.tokens = [start, 2, 3]
        self.turns, self.forgets = turns, forgets
        self.turn = 0

    async def initial_observation(self) -> tuple[tinker.ModelInput, list[str]]:
        return tinker.ModelInput.from_ints(self.tokens), []

    async def step(self, action: list[int], *, extra: Any = None) -> StepResult:
        self.turn += 1
        kept = action[1:] if self.turn == self.forgets else action
        self.tokens = [*self.tokens, *kept, 4]
        await asyncio.sleep(0)  # the other rollouts go on
        return StepResult(
            reward=1.0,
            episode_done=self.turn == self.turns,
            next_observation=tinker.ModelInput.from_ints(self.tokens),
            next_stop_condition=[],
        )


class Answer(Future[Any]):
    """A future that can be awaited, as the client's."""

    def __await__(self) -> Any:
        return asyncio.wrap_future(self).__await__()


def stub_sample(
    self: Any, prompt: tinker.ModelInput, num_samples: int, *_: Any, **__: Any
) -> Answer:
    """Answers that depend on the prompt, at once; every fourth prompt fails the first time."""
    future = Answer()
    serial = sum(prompt.to_ints()) % 97
    if serial % 4 == 0 and serial not in self.failed:
        self.failed.add(serial)
        future.set_exception(TimeoutError("stub"))
        return future
    sequences = [
        tinker.types.SampledSequence(
            stop_reason="stop",
            sequence_id=f"{serial}-{number}",
            _tokens_list=[100 + serial + number, 7],
            _logprobs_list=[-0.25, -0.5],
        )
        for number in range(num_samples)
    ]
    future.set_result(tinker.SampleResponse(sequences=sequences))
    return future


class StoreOfRecords:
    """A sink that puts records into the cookbook's database, as its daemon does."""

    def __init__(self, path: Path) -> None:
        self.store = CaptureDB(path)

    def export(self, records: Any, timeout: float | None = None) -> None:
        for number, record in enumerate(records):
            rows = wire_rows_from_sample_record(record)
            if rows:
                self.store.ingest_wire(rows)
                continue
            event = f"{record['created_at']}-{number}"
            note = {"event_id": event, "kind": record["kind"], "payload": record}
            self.store.ingest_annotations([{**note, "run_id": record["scope"].get("run_id")}])


@contextmanager
def captured(sink: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A stub sampling client whose calls are captured."""
    monkeypatch.setattr(tinker.SamplingClient, "sample", stub_sample)
    client: Any = object.__new__(tinker.SamplingClient)
    client.failed = set()
    client._sampling_session_id = "session"
    exporter = CaptureExporter(sink, flush_interval_sec=0.01)
    instrument_tinker(exporter)
    try:
        yield client
    finally:
        uninstrument_tinker()
        exporter.wait_pending(5)
        exporter.shutdown()


async def retried(client: Any, env: Env) -> Trajectory:
    """The real loop, with the answer asked for again where a call fails."""
    completer = TinkerTokenCompleter(client, max_tokens=8)

    async def policy(model_input: Any, stop: Any, **more: Any) -> Any:
        try:
            return await completer(model_input, stop, **more)
        except TimeoutError:
            return await completer(model_input, stop, **more)

    policy_of_loop: Any = policy
    return await do_single_rollout(policy_of_loop, env)


async def play(client: Any) -> list[Trajectory]:
    """Six rollouts in two groups, which take turns."""

    async def one(group: int, number: int) -> Trajectory:
        with capture(run_id="run", split="train", iteration=3, group_idx=group, traj_idx=number):
            return await retried(client, ForgetfulEnv(10 * group + number, 4, number))

    return await asyncio.gather(*(one(group, number) for group in (0, 1) for number in (0, 1, 2)))


def datums(trajectory: Trajectory) -> list[Any]:
    return [
        (
            datum.model_input.to_ints(),
            {key: list(value.data) for key, value in datum.loss_fn_inputs.items()},
        )
        for datum in trajectory_to_data(trajectory, 0.5)
    ]


def record(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[Trajectory]]:
    """The file of a captured run, and what was played in it."""
    if path.suffix == ".sqlite":
        sink: Any = StoreOfRecords(path)
    else:
        sink = JsonlFileSink(LocalStorage(path.parent.parent))
    with captured(sink, monkeypatch) as client:
        played = asyncio.run(play(client))
    return path, played


FILES = ("capture/sample.jsonl", "capture.sqlite")


@pytest.mark.parametrize("name", FILES)
def test_captured_rollouts_read_back_as_they_were(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariants 1 and 2."""
    path, played = record(tmp_path / name, monkeypatch)
    rollouts = sorted(read_rollouts(path), key=lambda rollout: rollout.name)
    assert [rollout.name for rollout in rollouts] == [
        f"run, train, iteration 3, group {group}, trajectory {number}"
        for group in (0, 1)
        for number in (0, 1, 2)
    ]
    assert [rollout.group for rollout in rollouts[2:4]] == [
        "run, train, iteration 3, group 0",
        "run, train, iteration 3, group 1",
    ]
    for rollout, trajectory in zip(rollouts, played, strict=True):
        assert datums(rollout.trajectory) == datums(trajectory)
        assert rollout.joined_lines == 4
    # Forgetting at turn 1 or 2 costs a datum; the last answer is forgotten by nobody.
    assert [len(datums(trajectory)) for trajectory in played] == [1, 2, 2] * 2
    failed = [note for rollout in rollouts for note in rollout.notes]
    assert failed
    assert all(" failed call" in note and note.endswith(" left out.") for note in failed)


@pytest.mark.parametrize("name", FILES)
def test_of_several_samples_the_one_that_goes_on_is_the_turn(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 2."""
    path = tmp_path / name
    sink: Any = StoreOfRecords(path) if path.suffix == ".sqlite" else None
    with captured(sink or JsonlFileSink(LocalStorage(tmp_path)), monkeypatch) as client:
        params = tinker.SamplingParams(max_tokens=4)
        prompt = [5, 6]
        with capture(run_id="r", iteration=0, group_idx=0, traj_idx=0):
            for number in (2, 0):
                answer = client.sample(tinker.ModelInput.from_ints(prompt), 3, params).result()
                chosen = answer.sequences[number].tokens
                prompt = [*prompt, *chosen, 9]
    (rollout,) = read_rollouts(path)
    first, second = rollout.trajectory.transitions
    assert first.ac.tokens == [100 + 11 + 2, 7]
    assert second.ac.tokens == chosen
    assert len(rollout.notes) == 2
    assert "sample 2 of the 3" in rollout.notes[0]


def test_a_store_is_not_changed_and_may_be_written_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 3: rows that stand in the log of an open store are read, too."""
    path, _ = record(tmp_path / "capture.sqlite", monkeypatch)
    writer = CaptureDB(path)
    row = {"run_id": "late", "prompt_tokens": [1], "sampled_tokens": [2], "sample_idx": 0}
    writer.ingest_wire([row])
    parts = ("capture.sqlite", "capture.sqlite-wal")
    before = [(tmp_path / name).read_bytes() for name in parts]
    late = [rollout for rollout in read_rollouts(path) if rollout.name == "late"]
    assert len(late) == 1
    assert "traj_idx" in late[0].notes[0]
    assert [(tmp_path / name).read_bytes() for name in parts] == before
    writer.close()


def test_a_store_that_cannot_be_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 3: a copy on a read-only disk, or from standard input."""
    path, played = record(tmp_path / "capture.sqlite", monkeypatch)
    folder = tmp_path / "disk"
    folder.mkdir()
    copy = folder / "capture.sqlite"
    with sqlite3.connect(path) as store, sqlite3.connect(copy) as target:
        store.backup(target)
    for each in folder.iterdir():
        each.chmod(0o400)
    folder.chmod(0o500)
    try:
        assert len(list(read_rollouts(copy))) == len(played)
        assert len(list(read_rollouts(io.BytesIO(copy.read_bytes())))) == len(played)
    finally:
        folder.chmod(0o700)


def test_other_databases_are_named(tmp_path: Path) -> None:
    """Invariant 3: another program's tables, and a damaged store."""
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE runs (name TEXT)")
    other.close()
    before = path.read_bytes()
    with path.open("rb") as stream:
        (issue,) = stream_rollouts(stream)
    assert isinstance(issue, FileIssue)
    assert "no capture store" in issue.message
    assert "`runs`" in issue.message
    assert path.read_bytes() == before
    damaged = io.BytesIO(before[:20] + b"\xff" * 3_000)
    (issue,) = stream_rollouts(damaged)
    assert isinstance(issue, FileIssue)
    assert "the database cannot be read" in issue.message


@pytest.mark.parametrize(
    "value", ["[" * 2_000, b"\x1b[31m\xff", "[1", "NaN", 1.5, "[99999999999]", '{"a": 1}']
)
def test_a_damaged_value_of_a_store_is_one_sentence(
    value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 3: it neither ends the reading with a traceback nor steers a terminal."""
    path, _ = record(tmp_path / "capture.sqlite", monkeypatch)
    with sqlite3.connect(path) as store:
        store.execute("UPDATE wire_rows SET prompt_tokens = CAST(? AS TEXT)", (value,))
    store.close()
    issues = [issue for issue in stream_rollouts(path.open("rb")) if isinstance(issue, FileIssue)]
    assert issues
    for issue in issues:
        assert issue.message.isprintable()
        assert len(issue.message) < 500


def test_a_log_directory_is_found_by_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 4: settings and metrics of the run stay aside."""
    run = tmp_path / "run"
    path, played = record(run / "capture" / "sample.jsonl", monkeypatch)
    (run / "config.json").write_text('{"learning_rate": 1.0}')
    (run / "metrics.jsonl").write_text('{"step": 1}\n')
    (run / "iteration_000003").mkdir()
    summaries = run / "iteration_000003" / "train_rollout_summaries.jsonl"
    shutil.copy(
        Path(__file__).parent / "formats" / "cookbook_train_rollout_summaries.jsonl", summaries
    )
    assert list(expand_rollouts_paths([str(run)])) == [str(path), str(summaries)]
    rollouts = [rollout for rollout in read_rollouts(path) if isinstance(rollout, Rollout)]
    assert len(rollouts) == len(played)
