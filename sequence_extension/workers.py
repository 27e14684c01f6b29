"""Large files in parts, read by processes of this machine or a Ray cluster, merged in order.

A part is a range of lines. It is read as if it stood alone; where a line turns out to depend on
others (calls that are joined), the file is read on from there in one go. So the result is the
same as without workers.
"""

import io
import logging
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sequence_extension.formats.detect import is_detectable
from sequence_extension.formats.results import FileIssue
from sequence_extension.formats.stream import (
    MAX_FILE_ISSUES,
    FileReader,
    parse_stream_line,
    stream_left_out,
    stream_line_items,
    stream_lines,
)
from sequence_extension.scan import (
    Item,
    Wanted,
    scan_file,
    scan_items,
)
from sequence_extension.troubles import Trouble, no_rollouts_trouble, trouble_file_label

PART_BYTES = 16 * 2**20
# Parts that are under way for each worker, so that none waits; memory grows with them.
AHEAD = 2


@dataclass(frozen=True)
class Part:
    """A range of lines of a file, or a whole file.

    Attributes:
        path: The file, as every worker can open it.
        wanted: What is asked of each rollout.
        start, stop: Bytes; `stop` is None for the whole file.
        line, index: Number of the first line, from 1, and of the first rollout, from 0.
        here: Not worth a worker, or too large to be sent back in one piece.
    """

    path: str
    wanted: Wanted
    start: int = 0
    stop: int | None = None
    line: int = 1
    index: int = 0
    here: bool = False


@dataclass(frozen=True)
class Result:
    """What a part holds.

    Attributes:
        items: In the order of the file.
        index: Of the first rollout behind it.
        alone: Whether no line of it depends on other lines.
    """

    items: tuple[Item | Trouble, ...]
    index: int = 0
    alone: bool = True


def read_worker_part(part: Part) -> Result:
    """Read one part; this is what workers do."""
    if part.stop is None:
        return Result(tuple(scan_file(part.path, part.wanted)))
    file = trouble_file_label(part.path)
    try:
        with open(part.path, "rb") as stream:
            stream.seek(part.start)
            data = stream.read(part.stop - part.start)
    except OSError as error:
        return Result((Trouble(file, FileIssue(f"{error.strerror or error}.")),))
    reader = FileReader()
    reader.index = part.index
    lines = map(parse_stream_line, stream_lines(io.BytesIO(data), part.line))
    items = tuple(scan_items(stream_line_items(lines, reader), part.wanted, file))
    return Result(items, reader.index, not (reader.joiner.used or reader.known))


def read_worker_rest(part: Part) -> Iterator[Item | Trouble]:
    """The rest of a file from the start of a part, here and one rollout at a time."""
    reader = FileReader()
    reader.index = part.index
    with open(part.path, "rb") as stream:
        stream.seek(part.start)
        lines = map(parse_stream_line, stream_lines(stream, part.line))
        yield from scan_items(
            stream_line_items(lines, reader), part.wanted, trouble_file_label(part.path)
        )


def worker_file_parts(path: str, wanted: Wanted, size: int) -> Iterator[Part]:
    """A file as parts of about `size` bytes; one part where it is no lines of rollouts.

    Blank lines are not looked for: the index of a part is a guess that its result corrects.
    """
    try:
        with open(path, "rb") as stream:
            head = next(stream_lines(stream), None)
            first = None if head is None else parse_stream_line(head)
            if first is None or first.error is not None or not is_detectable(first.value):
                yield Part(path, wanted, here=os.fstat(stream.fileno()).st_size > 2 * size)
                return
            stream.seek(0)
            start, line = 0, 1
            while data := stream.read(size):
                data += stream.readline()
                stop = start + len(data)
                yield Part(path, wanted, start, stop, line, line - 1)
                start, line = stop, line + data.count(b"\n")
    except OSError:
        yield Part(path, wanted, here=True)  # whoever reads it says so


Ask = Callable[[Part], Callable[[], Result]]


def merge_worker_parts(
    parts: Iterator[Part | Trouble], ask: Ask, ahead: int
) -> Iterator[Item | Trouble]:
    """What all parts hold, in order.

    Args:
        parts: Of all files, in order; a part that starts at byte 0 begins a file.
        ask: Starts the reading of a part, and gives what waits for it.
        ahead: Parts that are under way at once.
    """
    waiting: deque[tuple[Part | Trouble, Callable[[], Result] | None]] = deque()
    file = FileState()
    more = True
    while more or waiting:
        while more and len(waiting) < ahead:
            part = next(parts, None)
            more = part is not None
            if part is not None:
                sent = ask(part) if isinstance(part, Part) and not part.here else None
                waiting.append((part, sent))
        if not waiting:
            break
        part, wait = waiting.popleft()
        if isinstance(part, Trouble):
            yield from file.end()
            yield part
            continue
        if part.start == 0:
            yield from file.end()
            file = FileState(trouble_file_label(part.path))
        if file.closed:
            continue
        if wait is None:
            yield from file.take(scan_file(part.path, part.wanted))
            continue
        result = wait()
        if part.stop is not None and part.index != file.index:
            part = replace(part, index=file.index)
            result = ask(part)()
        if not result.alone:
            yield from file.take(read_worker_rest(part))
            file.closed = True
            continue
        yield from file.take(iter(result.items))
        file.index = result.index
    yield from file.end()


class FileState:
    """Where the merging of one file stands.

    Attributes:
        file: As messages name it; empty before the first.
        index: Of the next rollout.
        closed: Nothing more of it counts.
    """

    def __init__(self, file: str = "") -> None:
        self.file = file
        self.index = 0
        self.closed = False
        self._troubles = 0
        self._empty = bool(file)

    def take(self, items: Iterator[Item | Trouble]) -> Iterator[Item | Trouble]:
        """Items of it, up to the bound on what cannot be read."""
        for item in items:
            self._empty = False
            yield item
            self._troubles += isinstance(item, Trouble)
            if self._troubles >= MAX_FILE_ISSUES:
                self.closed = True
                yield Trouble(self.file, stream_left_out(self._troubles))
                return

    def end(self) -> Iterator[Trouble]:
        """What is said behind its last part."""
        if self._empty:
            self._empty = False
            yield no_rollouts_trouble(self.file)


@contextmanager
def worker_processes(count: int) -> Iterator[tuple[Ask, int]]:
    """Processes of this machine."""
    context = multiprocessing.get_context("spawn")  # torch has threads, which a fork loses
    with ProcessPoolExecutor(count, context) as pool:
        yield lambda part: pool.submit(read_worker_part, part).result, AHEAD * count


@contextmanager
def ray_workers() -> Iterator[tuple[Ask, int]]:
    """The Ray cluster that this program is in or `RAY_ADDRESS` names, else one on this machine.

    Every machine of it must have this package, and see the files under the same paths.
    """
    import ray

    started = not ray.is_initialized()
    if started:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    task: Any = ray.remote(read_worker_part)
    resources: Any = ray.cluster_resources

    def ask(part: Part) -> Callable[[], Result]:
        reference = task.remote(part)
        return lambda: ray.get(reference)

    try:
        yield ask, AHEAD * max(1, int(resources().get("CPU", 1)))
    finally:
        if started:
            ray.shutdown()


def read_with_workers(
    files: Sequence[str | Trouble], wanted: Wanted, workers: int | str, size: int = PART_BYTES
) -> Iterator[Item | Trouble]:
    """The rollouts of all files, in order, read by workers.

    Args:
        files: Paths, and what is said about those that are none.
        wanted: What is asked of each rollout.
        workers: A number of processes, or "ray".
        size: Bytes of a part.
    """

    def parts() -> Iterator[Part | Trouble]:
        for path in files:
            if isinstance(path, Trouble):
                yield path
            elif path == "-":
                yield Part(path, wanted, here=True)
            else:
                yield from worker_file_parts(path, wanted, size)

    opened: AbstractContextManager[tuple[Ask, int]]
    opened = ray_workers() if workers == "ray" else worker_processes(int(workers))
    with opened as (ask, ahead):
        yield from merge_worker_parts(parts(), ask, ahead)
