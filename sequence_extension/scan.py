"""Files of rollouts, diagnosed one rollout at a time."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.formats.results import FileIssue, LengthsOnly
from sequence_extension.formats.rollouts import expand_rollouts_paths
from sequence_extension.formats.stream import stream_rollouts
from sequence_extension.gates import Gates
from sequence_extension.report import report_entry, report_row
from sequence_extension.report_text import Paint, report_text_rollout
from sequence_extension.rollout import Rollout
from sequence_extension.tokenizers import load_tokenizer_texts, with_tokenizer_texts
from sequence_extension.totals import Row, Worst
from sequence_extension.troubles import Trouble, no_rollouts_trouble, trouble_file_label

Watch = Callable[[int], None]


@dataclass(frozen=True)
class Wanted:
    """What a run asks of each rollout; can be sent to other processes.

    Attributes:
        as_json: The entry of the JSON report.
        details: So many of the worst rollouts as lines of text.
        drawn: So many of the worst rollouts themselves, to be drawn.
        colours: Whether these lines have colours.
        gates: Limits that each rollout is held to.
        named: Whether the file is named, as there are several.
        tokenizer, trust_remote_code: Of `load_tokenizer_texts`; empty for none.
    """

    as_json: bool = False
    details: int = 0
    drawn: int = 0
    colours: bool = False
    gates: Gates = field(default_factory=Gates)
    named: bool = False
    tokenizer: str = ""
    trust_remote_code: bool = False

    def texts(self) -> Mapping[int, str] | None:
        """Texts of the tokenizer that was asked for.

        Raises:
            TokenizerError: It does not load.
        """
        return (
            load_tokenizer_texts(self.tokenizer, self.trust_remote_code) if self.tokenizer else None
        )


@dataclass(frozen=True)
class Item:
    """One rollout of a run, as far as it was asked for.

    Attributes:
        row: What the sums need.
        failed: Gates that it fails.
        entry: Its JSON text; empty where text was asked for.
        lines: Its lines, where it is among the worst up to here.
        rollout: Itself, where it is among the worst up to here.
    """

    row: Row
    failed: tuple[str, ...] = ()
    entry: str = ""
    lines: tuple[str, ...] = ()
    rollout: Rollout | None = None


def open_scan(path: str) -> IO[bytes]:
    """The file, binary.

    Raises:
        OSError: It cannot be opened, or standard input is closed.
    """
    if path != "-":
        return open(path, "rb")
    if sys.stdin is None:
        raise OSError("it is closed")
    return sys.stdin.buffer


def scan_stream(
    stream: IO[bytes], wanted: Wanted, file: str = "", watch: Watch | None = None
) -> Iterator[Item | Trouble]:
    """The rollouts of one open file, diagnosed as they come; memory holds one at a time.

    Args:
        stream, file: The file and its name.
        wanted: What is asked of each rollout.
        watch: Is told how many bytes have been read.

    Yields:
        In the order of the file; a file without rollouts gives a sentence.
    """
    empty = True
    for item in scan_items(stream_rollouts(stream), wanted, file):
        empty = False
        if watch is not None:
            watch(stream.tell())
        yield item
    if empty:
        yield no_rollouts_trouble(file)


def scan_items(
    found: Iterable[Rollout | LengthsOnly | FileIssue], wanted: Wanted, file: str = ""
) -> Iterator[Item | Trouble]:
    """What a reader gave, diagnosed as it comes, as far as it was asked for."""
    texts = wanted.texts()
    worst: Worst[None] = Worst(max(wanted.details, wanted.drawn))
    for each in found:
        if isinstance(each, FileIssue):
            yield Trouble(file, each)
            continue
        source = (
            each if isinstance(each, LengthsOnly) else diagnose(with_tokenizer_texts(each, texts))
        )
        row = report_row(source, file if wanted.named else "")
        failed = wanted.gates.failures(row)
        entry, lines, kept = "", [], None
        if wanted.as_json:
            made = report_entry(source) | ({"file": file} if wanted.named else {})
            entry = json.dumps(made, allow_nan=False)
        if worst.admits(row.severity):
            worst.offer(row.severity, None)
            if wanted.details:
                lines = report_text_rollout(source, row, failed, Paint(wanted.colours))
            if wanted.drawn and isinstance(source, Diagnosis):
                kept = source.rollout
        yield Item(row, failed, entry, tuple(lines), kept)


def scan_file(path: str, wanted: Wanted, watch: Watch | None = None) -> Iterator[Item | Trouble]:
    """The rollouts of one file; a sentence where it cannot be opened or read to its end."""
    file = trouble_file_label(path)
    try:
        with open_scan(path) as stream:
            yield from scan_stream(stream, wanted, file, watch)
    except OSError as error:
        yield Trouble(file, FileIssue(f"{error.strerror or error}."))


def scan_paths(arguments: Sequence[str]) -> Iterator[str | Trouble]:
    """FILE arguments as files, folders walked."""
    for argument in expand_rollouts_paths(arguments):
        yield Trouble("", argument) if isinstance(argument, FileIssue) else argument
