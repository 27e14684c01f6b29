"""What could not be read, file by file; some of it is told before anything heavy is imported."""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from sequence_extension.formats.json_text import file_kind, not_json
from sequence_extension.formats.results import FileIssue, nothing_below
from sequence_extension.text import printable

# Kinds of files that a folder is searched for; an SQLite file may be a capture store.
READ_ENDINGS = (".json", ".jsonl", ".sqlite")
SQLITE_START = b"SQLite format 3"
# Bytes that tell a kind of file.
HEAD_BYTES = 512


@dataclass(frozen=True)
class Trouble:
    """Something that could not be read, and the file that is to blame."""

    file: str
    issue: FileIssue


def file_label(path: str) -> str:
    """A file as messages name it."""
    return "standard input" if path == "-" else path


def nothing_in(file: str) -> Trouble:
    """The sentence on a file without rollouts."""
    return Trouble(file, FileIssue("It holds no rollout."))


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


def early_problem(path: str) -> FileIssue | None:
    """What keeps a file from being read, where a look at its first bytes tells; never a pipe."""
    try:
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            names = (name for _, _, files in os.walk(path) for name in files)
            some = any(name.endswith(READ_ENDINGS) for name in names)
            return None if some else nothing_below(path)
        if not stat.S_ISREG(found.st_mode):
            return None
        with open(path, "rb") as stream:
            head = stream.readline(HEAD_BYTES)
    except OSError as error:
        return FileIssue(f"{error.strerror or error}.")
    if not head:
        return FileIssue("The file is empty.")
    kind = None if head.startswith(SQLITE_START) else file_kind(head)
    return None if kind is None else FileIssue(f"Line 1: {not_json(kind)}.", 1)


def early_lines(paths: Sequence[str]) -> list[str]:
    """`trouble_lines` where none of the files can hold a rollout; nothing where one may."""
    troubles = []
    for path in paths:
        problem = None if path == "-" or "\0" in path else early_problem(path)
        if problem is None:
            return []
        troubles.append(Trouble("" if os.path.isdir(path) else path, problem))
    return trouble_lines(troubles)
