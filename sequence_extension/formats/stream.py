"""A file of rollouts, JSON or JSONL, one trajectory at a time."""

import contextlib
import io
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from pydantic import ValidationError

from sequence_extension.formats.json_text import (
    RepeatedKeyObject,
    decode_utf8,
    json_children,
    json_position,
    parse_json,
    refuse_repeated_keys,
)
from sequence_extension.formats.records import (
    MAX_ROLLOUT_TURNS,
    RecordError,
    TrajectoryRecord,
    record_problem,
    record_to_rollout,
)
from sequence_extension.formats.results import FileIssue, LengthsOnly
from sequence_extension.rollout import Rollout
from sequence_extension.text import describe_value, shown

# Bounds of files (section 9 and the command line), checked before the work they bound.
# A rollout of 100 turns and 128,000 tokens that repeats the whole history in every turn is
# 48 MB with 6.6 million numbers. Memory per byte is worst for commas and brackets.
MAX_FILE_BYTES = 64 * 2**20
MAX_FILE_ISSUES = 1_000
MAX_BLANK_LINES = 100_000
# Keys by which a file, a trajectory and a turn are known.
FILE_KEYS = ("trajectories", "rollouts", "outputs")
TRAJECTORY_KEYS = ("transitions", "trajectory", "steps", "turns", "responses")
TURN_KEYS = ("ob", "append", "ac", "tokens", "prompt_token_ids", "choices")


def is_turn(value: Any) -> bool:
    """True for an object that is one turn rather than a whole trajectory."""
    return (
        isinstance(value, dict)
        and not any(key in value for key in TRAJECTORY_KEYS)
        and any(key in value for key in TURN_KEYS)
    )


def is_rollout(value: Any) -> bool:
    """True for an object that is a trajectory or one turn of one."""
    return isinstance(value, dict) and any(key in value for key in (*TRAJECTORY_KEYS, *TURN_KEYS))


def value_to_rollout(value: Any, name: str, repeated: bool = False) -> Rollout:
    """One trajectory of a file as a rollout: an object, a list of turns, or a single turn.

    Args:
        value: Parsed JSON.
        name: Used when the file gives none.
        repeated: Whether some object of the file holds a key twice.

    Raises:
        RecordError: With the path from `value` to what is wrong.
    """
    given = value
    if is_turn(value):
        given = {"transitions": [value]}
    elif isinstance(value, list) and value and is_turn(value[0]):
        given = {"transitions": value}
    if not isinstance(given, dict):
        raise RecordError(
            f"expected a trajectory (an object with `transitions`), got {describe_value(value)}"
        )
    if repeated:
        refuse_repeated_keys(given)
    if not set(TRAJECTORY_KEYS) & given.keys() and {"role", "messages"} & given.keys():
        raise RecordError(
            "these are messages, not tokens; section 8 of the page reads a conversation"
        )
    try:
        return record_to_rollout(TrajectoryRecord.model_validate(given), name)
    except ValidationError as error:
        raise record_problem(error) from None


def file_issue(error: RecordError, line: int | None, index: int | None, value: Any) -> FileIssue:
    """The sentence for a problem: line, trajectory, turn, field and index, then what is wrong."""
    place = [] if line is None else [f"line {line:,}"]
    if index is not None:
        name = value.get("name") if isinstance(value, dict) else None
        label = f" ({shown(name, 40)})" if isinstance(name, str) and name else ""
        place.append(f"trajectory {index:,}{label}")
    path = error.path
    if len(path) > 1 and path[0] in TRAJECTORY_KEYS and isinstance(path[1], int):
        place.append(f"turn {path[1]:,}")
        path = path[2:]
    place += [shown(step) if isinstance(step, str) else f"index {step:,}" for step in path]
    where = ", ".join(place) or "the file"
    return FileIssue(f"{where[0].upper()}{where[1:]}: {error}.", line, index)


def document_rollouts(
    text: str, parsed: tuple[Any, bool] | None = None, line: int = 1, index: int = 0
) -> Iterator[Rollout | FileIssue]:
    """The trajectories of one JSON document: one, a list, or `{"trajectories": [...]}`.

    Args:
        text: The whole document.
        parsed: Result of `parse_json` on it, when the caller has it already.
        line: Line of the file on which the document starts.
        index: Index of its first trajectory in the file.
    """
    path: tuple[Any, ...] = ()
    try:
        value, repeated = parsed or parse_json(text)
        values = [value]
        whole = is_turn(value) or (isinstance(value, list) and value and is_turn(value[0]))
        if isinstance(value, dict) and not whole and not set(TRAJECTORY_KEYS) & value.keys():
            if isinstance(value, RepeatedKeyObject):
                refuse_repeated_keys(value)
            path = tuple(key for key in FILE_KEYS if key in value)[:1]
        if path:
            values = value[path[0]]
        elif isinstance(value, list) and not whole:
            values = value
        if not isinstance(values, list):
            raise RecordError(f"expected a list, got {describe_value(values)}", path)
    except RecordError as error:
        yield file_issue(error, line - 1 + (error.line or 1), None, None)
        return
    start = len(text) - len(text.lstrip())
    places: Iterator[tuple[Any, int]] | None = None
    for count, entry in enumerate(values):
        try:
            yield value_to_rollout(entry, f"trajectory {index + count}", repeated)
        except RecordError as error:
            if places is None and values is not value and not path:
                places = iter([(0, start)])
            elif places is None:
                places = json_children(text, json_position(text, start, path))
            # The text is walked again only where a line is asked for, and only once.
            where = start
            with contextlib.suppress(RecursionError):
                where = next(place for at, place in places if at == count)
                inner = error.path[1:] if isinstance(entry, list) else error.path
                where = json_position(text, where, inner)
            yield file_issue(error, line + text.count("\n", 0, where), index + count, entry)


def numbered_lines(stream: IO[bytes], number: int = 1) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, counted from `number`; ends after one that is too long.

    After `MAX_BLANK_LINES` blank ones it ends with no bytes at all: each costs as much as a
    short line, and a file can hold millions.
    """
    blank = 0
    while data := stream.readline(MAX_FILE_BYTES + 1):
        if data.strip():
            yield number, data
        else:
            blank += 1
        if len(data) > MAX_FILE_BYTES:
            return
        if blank > MAX_BLANK_LINES:
            yield number, b""
            return
        number += 1


@dataclass(frozen=True)
class ParsedLine:
    """One line of a file: its JSON value, or what is wrong with it."""

    number: int
    text: str
    value: Any = None
    repeated: bool = False
    error: RecordError | None = None


def parse_line(numbered: tuple[int, bytes]) -> ParsedLine:
    """One line of JSONL, parsed; never raises for bad content."""
    number, data = numbered
    text = ""
    try:
        if len(data) > MAX_FILE_BYTES:
            raise RecordError(f"longer than {MAX_FILE_BYTES // 2**20} MB")
        if not data:
            raise RecordError(f"more than {MAX_BLANK_LINES:,} blank lines up to here")
        text = decode_utf8(data, number)
        return ParsedLine(number, text, *parse_json(text))
    except RecordError as error:
        return ParsedLine(number, text, error=error)


def line_rollouts(lines: Iterable[ParsedLine]) -> Iterator[Rollout | FileIssue]:
    """JSONL: a trajectory a line.

    Neighbouring lines that hold one turn each are together one trajectory, which ends where
    `trajectory_id` changes.
    """
    index = 0
    turns: list[ParsedLine] = []

    def joined_turns() -> Rollout | FileIssue:
        values = [line.value for line in turns]
        repeated = any(line.repeated for line in turns)
        try:
            return value_to_rollout(values, f"trajectory {index}", repeated)
        except RecordError as error:
            at = next((step for step in error.path if isinstance(step, int)), 0)
            return file_issue(error, turns[at].number, index, None)

    for line in lines:
        joins = line.error is None and is_turn(line.value)
        if turns and not (
            joins and line.value.get("trajectory_id") == turns[-1].value.get("trajectory_id")
        ):
            yield joined_turns()
            turns.clear()
            index += 1
        if line.error is not None:
            yield file_issue(line.error, line.number, index, None)
            index += 1
        elif joins:
            # One turn more than is read is kept, so that the bound is noticed.
            if len(turns) <= MAX_ROLLOUT_TURNS:
                turns.append(line)
        else:
            parsed = (line.value, line.repeated)
            for item in document_rollouts(line.text, parsed, line.number, index):
                yield item
                index += 1
    if turns:
        yield joined_turns()


def stream_rollouts(stream: IO[bytes]) -> Iterator[Rollout | FileIssue]:
    """`iter_rollouts` without its bound on issues: tells JSON from JSONL, then reads."""
    head = next(numbered_lines(stream), None)
    if head is None:
        yield FileIssue("The file is empty.")
        return
    number, data = head
    first = parse_line(head)
    if first.error is None:
        # JSONL, or a document on one line, which reads the same.
        later = numbered_lines(stream, number + 1)
        yield from line_rollouts(itertools.chain([first], map(parse_line, later)))
        return
    # Alone the first line is no JSON: it opens a document, or it is a bad line of JSONL.
    rest = stream.read(MAX_FILE_BYTES) if len(data) <= MAX_FILE_BYTES else b""
    if len(rest) == MAX_FILE_BYTES:
        rest += stream.readline(MAX_FILE_BYTES)
    try:
        if len(data) + len(rest) > MAX_FILE_BYTES:
            raise RecordError(f"larger than {MAX_FILE_BYTES // 2**20} MB, the most that is read")
        text = decode_utf8(data + rest, number)
        parsed = parse_json(text)
    except RecordError as error:
        tail = itertools.chain(
            numbered_lines(io.BytesIO(rest), number + 1),
            numbered_lines(stream, number + 1 + rest.count(b"\n")),
        )
        second = next(map(parse_line, tail), None)
        if second is not None and is_rollout(second.value):
            yield from line_rollouts(itertools.chain([first, second], map(parse_line, tail)))
            return
        line = error.line if error.line is None else number - 1 + error.line
        yield file_issue(error, line, None, None)
        return
    yield from document_rollouts(text, parsed, number)


def iter_rollouts(stream: IO[bytes]) -> Iterator[Rollout | FileIssue | LengthsOnly]:
    """Read a file of rollouts, JSON or JSONL, one trajectory at a time.

    JSONL is read line by line: memory grows with the longest line, not with the file.

    Args:
        stream: Binary, read once from where it stands.

    Yields:
        In the order of the file: rollouts, those of which only lengths are known, and an issue
        for each that cannot be read. The reading ends after `MAX_FILE_ISSUES` issues.
    """
    issues = 0
    for item in stream_rollouts(stream):
        yield item
        issues += isinstance(item, FileIssue)
        if issues >= MAX_FILE_ISSUES:
            yield FileIssue(f"The rest is left out after {issues:,} trajectories like these.")
            return
