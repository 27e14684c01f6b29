"""What makes no sense about a call, and what could not be read, file by file.

Imports nothing heavy, so that the command can say most of it at once.
"""

import errno
import importlib.util
import os
import stat
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass

from sequence_extension.formats.json_text import not_json_text, not_json_text_kind
from sequence_extension.formats.results import FileIssue, empty_folder_result
from sequence_extension.text import printable_text, shown_text
from sequence_extension.tokenizers import TokenizerError, tokenizer_path

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


def trouble_file_label(path: str) -> str:
    """A file as messages name it."""
    return "standard input" if path == "-" else path


def no_rollouts_trouble(file: str) -> Trouble:
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
        lines.append(printable_text(f"{name}{' '.join(messages[:most])}{more}"))
    return lines


def early_trouble(path: str) -> FileIssue | None:
    """What keeps a file from being read, where a look at its first bytes tells; never a pipe."""
    try:
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            names = (name for _, _, files in os.walk(path) for name in files)
            some = any(name.endswith(READ_ENDINGS) for name in names)
            return None if some else empty_folder_result(path)
        if not stat.S_ISREG(found.st_mode):
            return None
        with open(path, "rb") as stream:
            head = stream.readline(HEAD_BYTES)
    except OSError as error:
        return FileIssue(f"{error.strerror or error}.")
    if not head:
        return FileIssue("The file is empty.")
    kind = None if head.startswith(SQLITE_START) else not_json_text_kind(head)
    return None if kind is None else FileIssue(f"Line 1: {not_json_text(kind)}.", 1)


def early_trouble_lines(paths: Sequence[str]) -> list[str]:
    """`trouble_lines` where none of the files can hold a rollout; nothing where one may."""
    troubles = []
    for path in paths:
        problem = None if path == "-" else early_trouble(path)
        if problem is None:
            return []
        troubles.append(Trouble("" if os.path.isdir(path) else path, problem))
    return trouble_lines(troubles)


def call_trouble(options: Namespace) -> str:
    """What makes no sense about a call, before anything is read; empty for nothing."""
    for name in (*options.files, options.html or ""):
        if "\0" in name or not trouble_is_encodable(name):
            return f"{shown_text(name)} can name no file"
    if options.files.count("-") > 1:
        return "standard input (-) can be named once"
    if options.workers == "ray" and importlib.util.find_spec("ray") is None:
        return "--workers ray needs Ray: install `sequence-extension[ray]`"
    try:
        if options.tokenizer:
            tokenizer_path(options.tokenizer)
    except TokenizerError as error:
        return f"--tokenizer: {error}"
    if options.html is None:
        return ""
    if importlib.util.find_spec("vl_convert") is None:
        return "--html needs vl-convert-python: install `sequence-extension[html]`"
    if any(os.path.exists(f) and trouble_same_file(f, options.html) for f in options.files):
        return f"--html would write over {options.html}, which is to be read"
    return page_trouble(options.html)


def trouble_is_encodable(name: str) -> bool:
    """Whether the system can be asked for a file of this name."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


def page_trouble(path: str) -> str:
    """Why no page can be written there, as far as that shows without writing; empty for nothing."""
    folder, code = os.path.dirname(path) or ".", 0
    if os.path.isdir(path):
        code = errno.EISDIR
    elif not os.path.isdir(folder):
        code = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
    elif not os.access(path if os.path.exists(path) else folder, os.W_OK):
        code = errno.EACCES
    return f"--html: {path} cannot be written: {os.strerror(code)}." if code else ""


def trouble_same_file(left: str, right: str) -> bool:
    """Whether two paths lead to one file."""
    return os.path.exists(right) and os.path.samefile(left, right)
