"""Files of rollouts, diagnosed one rollout at a time."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from sequence_extension.diagnosis import diagnose
from sequence_extension.formats.files import expand_files
from sequence_extension.formats.results import FileIssue, LengthsOnly
from sequence_extension.formats.stream import iter_rollouts
from sequence_extension.gates import Gates
from sequence_extension.report import Row, Worst, report_entry, rollout_row
from sequence_extension.report_text import Paint, rollout_lines
from sequence_extension.text import printable
from sequence_extension.tokenizers import load_texts, with_texts


@dataclass(frozen=True)
class Wanted:
    """What a run asks of each rollout; can be sent to other processes.

    Attributes:
        as_json: The entry of the JSON report.
        details: So many of the worst rollouts as lines of text.
        colours: Whether these lines have colours.
        gates: Limits that each rollout is held to.
        named: Whether the file is named, as there are several.
        tokenizer, trust_remote_code: Of `load_texts`; empty for none.
    """

    as_json: bool = False
    details: int = 0
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
        return load_texts(self.tokenizer, self.trust_remote_code) if self.tokenizer else None


@dataclass(frozen=True)
class Item:
    """One rollout of a run, as far as it was asked for.

    Attributes:
        row: What the sums need.
        failed: Gates that it fails.
        entry: Its JSON text; empty where text was asked for.
        lines: Its lines, where it is among the worst up to here.
    """

    row: Row
    failed: tuple[str, ...] = ()
    entry: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trouble:
    """Something that could not be read, and the file that is to blame."""

    file: str
    issue: FileIssue


def file_label(path: str) -> str:
    """A file as messages name it."""
    return "standard input" if path == "-" else path


def open_rollouts(path: str) -> IO[bytes]:
    """The file, binary.

    Raises:
        OSError: It cannot be opened, or standard input is closed.
    """
    if path != "-":
        return open(path, "rb")
    if sys.stdin is None:
        raise OSError("it is closed")
    return sys.stdin.buffer


def scan_stream(stream: IO[bytes], wanted: Wanted, file: str = "") -> Iterator[Item | Trouble]:
    """The rollouts of one open file, diagnosed as they come; memory holds one at a time.

    Yields:
        In the order of the file; a file without rollouts gives a sentence.
    """
    empty = True
    texts = wanted.texts()
    worst: Worst[None] = Worst(wanted.details)
    for found in iter_rollouts(stream):
        empty = False
        if isinstance(found, FileIssue):
            yield Trouble(file, found)
            continue
        source = found if isinstance(found, LengthsOnly) else diagnose(with_texts(found, texts))
        row = rollout_row(source, file if wanted.named else "")
        failed = wanted.gates.failures(row)
        if wanted.as_json:
            entry = report_entry(source) | ({"file": file} if wanted.named else {})
            yield Item(row, failed, json.dumps(entry, allow_nan=False))
        elif worst.admits(row.severity):
            worst.offer(row.severity, None)
            lines = rollout_lines(source, row, failed, Paint(wanted.colours))
            yield Item(row, failed, lines=tuple(lines))
        else:
            yield Item(row, failed)
    if empty:
        yield Trouble(file, FileIssue("It holds no rollout."))


def scan_file(path: str, wanted: Wanted) -> Iterator[Item | Trouble]:
    """The rollouts of one file; a sentence where it cannot be opened or read to its end."""
    file = file_label(path)
    try:
        with open_rollouts(path) as stream:
            yield from scan_stream(stream, wanted, file)
    except OSError as error:
        yield Trouble(file, FileIssue(f"{error.strerror or error}."))


def scan_files(arguments: Sequence[str], wanted: Wanted) -> Iterator[Item | Trouble]:
    """The rollouts of all files and folders, in order."""
    for argument in expand_files(arguments):
        if isinstance(argument, FileIssue):
            yield Trouble("", argument)
        else:
            yield from scan_file(argument, wanted)


def trouble_lines(troubles: Sequence[Trouble], most: int = 5) -> list[str]:
    """All that could not be read, a line per file: its first sentences, then how many more."""
    by_file: dict[str, list[str]] = {}
    for trouble in troubles:
        by_file.setdefault(trouble.file, []).append(trouble.issue.message)
    lines = []
    for file, messages in by_file.items():
        more = f" And {len(messages) - most:,} more." if len(messages) > most else ""
        name = f"{file}: " if file else ""
        lines.append(printable(f"{name}{' '.join(messages[:most])}{more}"))
    return lines
