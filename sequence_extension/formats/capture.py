"""The cookbook's own capture of sampling calls: `capture/sample.jsonl` and `capture.sqlite`."""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from sequence_extension.cookbook import CaptureDB, StreamEvent
from sequence_extension.formats.build import TurnSource
from sequence_extension.formats.calls import CallSource, call_order
from sequence_extension.formats.results import RecordError
from sequence_extension.formats.values import loose_label_value
from sequence_extension.text import printable_text, shown_text

SQLITE_MAGIC = b"SQLite format 3\x00"
# What turns of one rollout share; attempts of a run and other purposes are rollouts of their own.
SCOPE_KEYS = (
    "run_id",
    "run_attempt",
    "split",
    "iteration",
    "group_idx",
    "traj_idx",
    "purpose",
)
NO_TRAJECTORY = (
    "The scope of these calls names no `traj_idx`, so all of them count as one rollout; sample "
    "inside `with capture(iteration=..., group_idx=..., traj_idx=...)` to tell rollouts apart."
)
FIELDS = (("prompt_tokens",), ("samples", 0, "tokens"), ("samples", 0, "logprobs"))


def read_capture(value: Any, index: int) -> list[CallSource] | None:
    """One line of `capture/<kind>.jsonl`, or None for anything else.

    Raises:
        RecordError: The line is no sampling call.
    """
    if not isinstance(value, dict) or not isinstance(value.get("scope"), dict):
        return None
    if not isinstance(value.get("kind"), str):
        return None
    if value["kind"] != "sample":
        raise RecordError(
            f"this is a {shown_text(value['kind'])} record of the cookbook's capture; sampling "
            "calls "
            "stand in `capture/sample.jsonl`"
        )
    return [read_capture_sample(value)]


def read_capture_sample(record: dict[str, Any]) -> CallSource:
    """One sampling call of the capture; a status other than `ok` made no turn."""
    samples = record.get("samples")
    sampled = [
        (sample.get("tokens"), sample.get("logprobs"))
        for sample in (samples if isinstance(samples, list) else ())
        if isinstance(sample, dict) and sample.get("tokens") is not None
    ]
    return capture_scope_call(
        record.get("scope") or {},
        record.get("prompt_tokens"),
        sampled if record.get("status", "ok") == "ok" else [],
        record.get("created_at"),
        (record.get("sampling_session_id"), record.get("seq_id")),
    )


def capture_scope_call(
    scope: dict[str, Any],
    prompt: Any,
    samples: list[tuple[Any, Any]],
    created: Any,
    serial: tuple[Any, Any] = (None, None),
) -> CallSource:
    """A call with the scope that says to which rollout it belongs."""
    values = [scope.get(key) for key in SCOPE_KEYS]
    known = [value if isinstance(value, str | int | float) else None for value in values]
    names = dict(zip(SCOPE_KEYS, known, strict=True))
    run = loose_label_value(
        names["run_id"],
        f"attempt {names['run_attempt']}" if names["run_attempt"] else "",
        names["split"],
        names["purpose"],
        *(
            f"{key.removesuffix('_idx')} {names[key]}"
            for key in ("iteration", "group_idx")
            if names[key] is not None
        ),
    )
    traj = names["traj_idx"]
    turn = None
    if samples:
        (tokens, logprobs), *others = samples
        turn = TurnSource(prompt, tokens, logprobs, fields=FIELDS, others=others)
    return CallSource(
        turn=turn,
        key=("scope", *known),
        name=run if traj is None else loose_label_value(run, f"trajectory {traj}"),
        group=None if names["group_idx"] is None else run,
        failed=not samples,
        order=call_order(created),
        note=NO_TRAJECTORY if traj is None else None,
        serial=serial if all(type(part) in (str, int) for part in serial) else None,
    )


def read_capture_store(stream: IO[bytes], head: bytes) -> Iterator[CallSource]:
    """The calls of a `capture.sqlite`, through the cookbook's `CaptureDB`, in their order.

    `CaptureDB` makes tables and sets the journal mode, so a copy is read: a store that a run is
    writing stays as it is.

    Args:
        stream: The open file; its name is used where it has one.
        head: What was read from it already.

    Raises:
        RecordError: The database is no capture store, or is damaged.
    """
    name = getattr(stream, "name", None)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        path = Path(folder) / "capture.sqlite"
        try:
            if isinstance(name, str) and os.path.isfile(name):
                copy_capture_store(Path(name), path)
            else:
                with path.open("wb") as target:
                    target.write(head)
                    shutil.copyfileobj(stream, target)
            refuse_other_than_capture(path)
            store = CaptureDB(path)
            stack.callback(store.close)
            yield from capture_store_calls(capture_store_events(store))
        except RecursionError:
            raise RecordError("the database cannot be read: nested too deep") from None
        except (sqlite3.Error, ValueError, TypeError) as error:
            reason = printable_text(str(error), 200)
            raise RecordError(f"the database cannot be read: {reason}") from None


def copy_capture_store(given: Path, target: Path) -> None:
    """Copy a database with what its log holds, whatever is being written to it meanwhile."""
    try:
        source = sqlite3.connect(f"{given.absolute().as_uri()}?mode=ro", uri=True)
        with contextlib.closing(source), contextlib.closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
    except sqlite3.OperationalError:
        # In a folder that cannot be written, SQLite cannot open a database with a log.
        for suffix in ("", "-wal"):
            if os.path.isfile(f"{given}{suffix}"):
                shutil.copyfile(f"{given}{suffix}", f"{target}{suffix}")


def refuse_other_than_capture(path: Path) -> None:
    """Make sure that a database has the capture's table.

    Raises:
        RecordError: It has not.
        sqlite3.Error: It is damaged.
    """
    with contextlib.closing(sqlite3.connect(path)) as source:
        tables = sorted(str(row[0]) for row in source.execute("SELECT name FROM sqlite_master"))
    if "wire_rows" not in tables:
        names = ", ".join(map(shown_text, tables[:6])) or "none"
        raise RecordError(
            "this database is no capture store of the cookbook (expected the table "
            f"`wire_rows`, got {names})"
        )


def capture_store_events(store: CaptureDB) -> Iterator[StreamEvent]:
    """All events of a store, a page at a time."""
    cursor = 0
    while page := store.stream_events(None, cursor, 500):
        cursor = page[-1].cursor
        yield from page


def capture_store_calls(events: Iterable[StreamEvent]) -> Iterator[CallSource]:
    """Calls of a store: the rows of one call are neighbours, a sample each."""
    rows: list[dict[str, Any]] = []

    def call() -> Iterator[CallSource]:
        if rows:
            samples = [(row.get("sampled_tokens"), row.get("logprobs")) for row in rows]
            first = rows[0]
            yield capture_scope_call(
                first,
                first.get("prompt_tokens"),
                [sample for sample in samples if sample[0] is not None],
                first.get("created_at"),
            )
            rows.clear()

    def identity(row: dict[str, Any]) -> tuple[Any, ...]:
        return (row.get("sampling_session_id"), row.get("seq_id"), row.get("run_id"))

    for event in events:
        if event.event_type == "wire_row":
            another = identity(event.data) != identity(rows[-1]) if rows else False
            if another or not event.data.get("sample_idx"):
                yield from call()
            rows.append(event.data)
            continue
        yield from call()
        payload = event.data.get("payload")
        if event.data.get("kind") == "sample" and isinstance(payload, dict):
            yield read_capture_sample(payload)
    yield from call()
