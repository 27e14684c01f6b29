"""A file of rollouts, JSON, JSONL or a capture store, one rollout at a time."""

import io
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from sequence_extension.formats.build import RolloutSource, TurnSource, build_rollout
from sequence_extension.formats.calls import CallSource, Joiner
from sequence_extension.formats.capture import SQLITE_MAGIC, read_capture_store
from sequence_extension.formats.detect import (
    DECISIVE_KEYS,
    IN_METRICS,
    Source,
    detect_and_read,
    detect_inner_values,
    is_detectable,
)
from sequence_extension.formats.json_text import (
    RepeatedKeyObject,
    not_json_text_kind,
    parse_json,
    refuse_repeated_json_keys,
)
from sequence_extension.formats.native import TRAJECTORY_KEYS, is_native_turn
from sequence_extension.formats.responses import response_rollout_id, response_with_id
from sequence_extension.formats.results import FileIssue, LengthsOnly, RecordError
from sequence_extension.formats.unreadable import KnownButUnreadable, refuse_unreadable
from sequence_extension.rollout import Rollout
from sequence_extension.text import shown_text, value_text

# Bounds of files, checked before the work they bound.
# A rollout of 100 turns and 128,000 tokens that repeats the whole history in every turn is
# 48 MB with 6.6 million numbers. Memory per byte is worst for commas and brackets.
MAX_FILE_BYTES = 64 * 2**20
MAX_FILE_ISSUES = 1_000
MAX_BLANK_LINES = 100_000
# Lines that may stand in front of JSONL (a program's log) before the file counts as no JSON.
MAX_FOREIGN_LINES = 1_000

# Lists and objects that programs put around rollouts.
MAX_DEPTH = 6

Item = Rollout | FileIssue | LengthsOnly


def stream_issue(error: RecordError, line: int | None, index: int | None, name: Any) -> FileIssue:
    """The sentence for a problem: line, trajectory, turn, field and index, then what is wrong."""
    place = [] if line is None else [f"line {line:,}"]
    place += ["the file"] if line is None and index is None else []
    if index is not None:
        label = f" ({shown_text(name, 40)})" if isinstance(name, str) and name else ""
        place.append(f"trajectory {index:,}{label}")
    path = error.path
    if len(path) > 1 and path[0] in TRAJECTORY_KEYS and isinstance(path[1], int):
        place.append(f"turn {path[1]:,}")
        path = path[2:]
    place += [shown_text(step) if isinstance(step, str) else f"index {step:,}" for step in path]
    where = ", ".join(place)
    return FileIssue(f"{where[0].upper()}{where[1:]}: {error}.", line, index)


class FileReader:
    """Turns parsed values of one file into rollouts and issues.

    Attributes:
        index: Of the next rollout in the file.
        joiner: Rollouts of which calls came, and may still come.
        known: Values of formats that hold too little: sentence, line of the first, how many.
    """

    def __init__(self) -> None:
        self.index = 0
        self.joiner = Joiner()
        self.known: dict[str, tuple[int | None, int]] = {}

    def take(
        self, value: Any, line: int | None, repeated: bool, alone: bool, depth: int = 0
    ) -> Iterator[Item]:
        """What one value holds: an object, or a list of turns, calls or trajectories.

        Args:
            value: Parsed JSON.
            line: On which it stands, None within a document of many lines.
            repeated: Whether some object in it holds a key twice.
            alone: Whether it has a line of a file of lines to itself.
            depth: In how many lists and objects it stands.
        """
        if not isinstance(value, list):
            yield from self.take_object(value, line, repeated, alone, depth)
            return
        yield from self.build_all(self.joiner.close_plain(), line)
        if depth > MAX_DEPTH:
            problem = RecordError(f"rollouts in more than {MAX_DEPTH} lists or objects")
            yield stream_issue(problem, line, self.index, None)
            self.index += 1
            return
        if depth and not value:
            empty = RecordError("expected a trajectory (an object with `transitions`), got `[]`")
            yield stream_issue(empty, line, self.index, None)
            self.index += 1
        for entry in value:
            if isinstance(entry, list):
                yield from self.take(entry, line, repeated, False, depth + 1)
            else:
                yield from self.take_object(entry, line, repeated, False, depth + 1)
        yield from self.build_all(self.joiner.close_plain(), line)

    def take_object(
        self, value: Any, line: int | None, repeated: bool, alone: bool, depth: int
    ) -> Iterator[Item]:
        """What one object holds; an issue for anything that cannot be read."""
        name = value.get("name") if isinstance(value, dict) else None
        try:
            if not isinstance(value, dict):
                raise RecordError(
                    f"expected a trajectory (an object with `transitions`), got {value_text(value)}"
                )
            sources = detect_and_read(value, self.index)
            inner = detect_inner_values(value) if sources is None else []
            if repeated and not inner:
                refuse_repeated_json_keys(value, DECISIVE_KEYS, IN_METRICS)
            elif isinstance(value, RepeatedKeyObject):
                value.refuse({key for key, _ in inner})
        except KnownButUnreadable as error:
            yield from self.build_all(self.joiner.close_plain(), line)
            self.note_known(error, line)
            return
        except RecordError as error:
            if not alone and (self.joiner.plain is not None or is_native_turn(value)):
                # One of a list of turns: its rollout cannot be read.
                lost = CallSource(TurnSource(problem=error))
                self.index += self.joiner.add(lost, line, self.index)
                return
            yield from self.build_all(self.joiner.close_plain(), line)
            yield stream_issue(error, line, self.index, name)
            self.index += 1
            return
        if sources is not None:
            yield from self.take_sources(sources, line, alone)
            return
        if depth > MAX_DEPTH:
            inner = []
        yield from self.take_inner(value, inner, line, repeated, alone, depth)

    def take_inner(
        self,
        value: dict[str, Any],
        inner: list[tuple[str, Any]],
        line: int | None,
        repeated: bool,
        alone: bool,
        depth: int,
    ) -> Iterator[Item]:
        """What stands under keys of an object that is no rollout or call itself."""
        if not inner:
            yield from self.build_all(self.joiner.close_plain(), line)
            problem = refuse_unreadable(value)
            if isinstance(problem, KnownButUnreadable):
                self.note_known(problem, line)
            else:
                yield stream_issue(problem, line, self.index, value.get("name"))
                self.index += 1
        for key, held in inner:
            if isinstance(held, list | dict):
                # An id that a log wrote around a call is that of the call.
                held = response_with_id(held, response_rollout_id(value))
                alone = alone and len(inner) == 1
                yield from self.take(held, line, repeated, alone, depth + 1)
            else:
                yield from self.build_all(self.joiner.close_plain(), line)
                problem = RecordError(f"expected a list, got {value_text(held)}", (key,))
                yield stream_issue(problem, line, None, None)

    def take_sources(
        self, sources: Sequence[Source], line: int | None, alone: bool
    ) -> Iterator[Item]:
        """Rollouts are built at once; calls wait for those that follow."""
        for source in sources:
            if isinstance(source, CallSource):
                if source.key is not None:
                    yield from self.build_all(self.joiner.close_plain(), line)
                self.index += self.joiner.add(source, line, self.index, alone)
                continue
            yield from self.build_all(self.joiner.close_plain(), line)
            if isinstance(source, LengthsOnly):
                yield source
            else:
                yield self.build(self.index, source, line)
            self.index += 1

    def note_known(self, error: KnownButUnreadable, line: int | None) -> None:
        """Count a value of a format that holds too little: all of them get one sentence."""
        first, count = self.known.get(str(error), (line, 0))
        self.known[str(error)] = (first, count + 1)
        self.index += 1

    def build(self, index: int, source: RolloutSource, line: int | None) -> Rollout | FileIssue:
        """A rollout, or the sentence on what is wrong with it."""
        try:
            return build_rollout(source, f"trajectory {index}")
        except RecordError as error:
            lines = [turn.line for turn in source.turns]
            at = next((step for step in error.path if isinstance(step, int)), 0)
            if lines and lines[min(at, len(lines) - 1)] is not None:
                line = lines[min(at, len(lines) - 1)]
            return stream_issue(error, line, index, source.name)

    def build_all(
        self, sources: Iterable[tuple[int, RolloutSource]], line: int | None
    ) -> Iterator[Rollout | FileIssue]:
        """Rollouts that were joined, see `build`."""
        for index, source in sources:
            yield self.build(index, source, line)

    def close(self) -> Iterator[Rollout | FileIssue]:
        """What waited for the end of the file."""
        yield from self.build_all(self.joiner.close(), None)
        for sentence, (line, count) in self.known.items():
            where = "The file" if line is None else f"Line {line:,}"
            more = f" and {count - 1:,} more like it" if count > 1 else ""
            yield FileIssue(f"{where}{more}: {sentence}.", line)


def stream_lines(stream: IO[bytes], number: int = 1) -> Iterator[tuple[int, bytes]]:
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
    value: Any = None
    repeated: bool = False
    error: RecordError | None = None


def parse_stream_line(numbered: tuple[int, bytes]) -> ParsedLine:
    """One line of JSONL, parsed; never raises for bad content."""
    number, data = numbered
    try:
        if len(data) > MAX_FILE_BYTES:
            raise RecordError(f"longer than {MAX_FILE_BYTES // 2**20} MB")
        if not data:
            raise RecordError(f"more than {MAX_BLANK_LINES:,} blank lines up to here")
        return ParsedLine(number, *parse_json(data))
    except RecordError as error:
        return ParsedLine(number, error=error)


def stream_line_items(
    lines: Iterable[ParsedLine], reader: FileReader | None = None
) -> Iterator[Item]:
    """JSONL: a value a line, see `FileReader`; `reader` knows what came before, if anything."""
    reader = reader or FileReader()
    for line in lines:
        if line.error is None:
            yield from reader.take(line.value, line.number, line.repeated, True)
            continue
        yield from reader.build_all(reader.joiner.close_plain(), line.number)
        yield stream_issue(line.error, line.number, reader.index, None)
        reader.index += 1
    yield from reader.close()


def stream_store_items(stream: IO[bytes], head: bytes) -> Iterator[Item]:
    """A capture store: calls in the order of its cursor."""
    reader = FileReader()
    try:
        for call in read_capture_store(stream, head):
            yield from reader.take_sources([call], None, True)
    except RecordError as error:
        yield stream_issue(error, None, None, None)
    yield from reader.close()


def stream_items(stream: IO[bytes]) -> Iterator[Item]:
    """`stream_rollouts` without its bound on issues: tells JSON from JSONL, then reads."""
    head = next(stream_lines(stream), None)
    if head is None:
        yield FileIssue("The file is empty.")
        return
    number, data = head
    if data.startswith(SQLITE_MAGIC):
        yield from stream_store_items(stream, data)
        return
    first = parse_stream_line(head)
    if first.error is not None and not_json_text_kind(data) is not None:
        # No text at all: what follows its first line break is no line.
        yield stream_issue(first.error, number, None, None)
        return
    if first.error is None:
        # JSONL, or a document on one line, which reads the same.
        later = stream_lines(stream, number + 1)
        yield from stream_line_items(itertools.chain([first], map(parse_stream_line, later)))
        return
    # Alone the first line is no JSON: it opens a document, or it is a bad line of JSONL.
    rest = stream.read(MAX_FILE_BYTES) if len(data) <= MAX_FILE_BYTES else b""
    if len(rest) == MAX_FILE_BYTES:
        rest += stream.readline(MAX_FILE_BYTES)
    try:
        if len(data) + len(rest) > MAX_FILE_BYTES:
            raise RecordError(f"larger than {MAX_FILE_BYTES // 2**20} MB, the most that is read")
        value, repeated = parse_json(data + rest)
    except RecordError as error:
        if stream_holds_lines(first, data, rest):
            tail = itertools.chain(
                stream_lines(io.BytesIO(rest), number + 1),
                stream_lines(stream, number + 1 + rest.count(b"\n")),
            )
            yield from stream_line_items(itertools.chain([first], map(parse_stream_line, tail)))
            return
        line = error.line if error.line is None else number - 1 + error.line
        yield stream_issue(error, line, None, None)
        return
    reader = FileReader()
    yield from reader.take(value, None, repeated, False)
    yield from reader.close()


def stream_holds_lines(first: ParsedLine, data: bytes, rest: bytes) -> bool:
    """Whether a file that is no JSON document is JSONL with bad lines in front.

    It is if its second line is a rollout or a call. Further lines are looked at where the first
    does not look like the opening of a document, whose own lines would be fragments.
    """
    later = map(parse_stream_line, stream_lines(io.BytesIO(rest)))
    opens = data.rstrip().endswith((b"[", b"{", b","))
    most = 1 if opens else MAX_FOREIGN_LINES
    return any(is_detectable(line.value) for line in itertools.islice(later, most))


def stream_rollouts(stream: IO[bytes]) -> Iterator[Item]:
    """Read a file of rollouts in any of the formats, one rollout at a time.

    JSONL is read line by line: memory grows with the longest line, not with the file. Only
    rollouts that are joined from calls by an id stay in memory to the end of the file (packed,
    shared prompts once), as their next call may come on any line.

    Args:
        stream: Binary, read once from where it stands.

    Yields:
        In the order of the file: rollouts, those of which only lengths are known, and an issue
        for each that cannot be read. The reading ends after `MAX_FILE_ISSUES` issues.
    """
    issues = 0
    for item in stream_items(stream):
        yield item
        issues += isinstance(item, FileIssue)
        if issues >= MAX_FILE_ISSUES:
            yield stream_left_out(issues)
            return


def stream_left_out(issues: int) -> FileIssue:
    """The sentence behind the last issue of a file that holds too many."""
    return FileIssue(f"The rest is left out after {issues:,} trajectories like these.")
