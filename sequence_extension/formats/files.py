"""Files and folders of rollouts, as the command and Python programs name them."""

import contextlib
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from sequence_extension.formats.results import FileIssue, LengthsOnly
from sequence_extension.formats.stream import iter_rollouts
from sequence_extension.rollout import Rollout
from sequence_extension.text import shown

# What the log directory of a run holds that can be read, beside files of other kinds.
RUN_FILES = ("capture/sample.jsonl", "capture.sqlite", "_rollout_summaries.jsonl")


def expand_files(arguments: Iterable[str]) -> Iterator[str | FileIssue]:
    """FILE arguments as files: a folder gives the files of rollouts below it, by name.

    In a folder that holds files a run of the cookbook writes (`capture/sample.jsonl`,
    `capture.sqlite`, `*_rollout_summaries.jsonl`) these are taken, else every `.jsonl` and
    `.json` file. Folders are walked in the order of their names, so the order is stable; `-`
    (standard input) and files stay as they are, whether they exist or not.

    Yields:
        Paths, and an issue for a folder in which there is nothing to read.
    """
    for argument in arguments:
        if argument == "-" or not os.path.isdir(argument):
            yield argument
            continue
        files = sorted(
            str(path)
            for path in Path(argument).rglob("*")
            if path.suffix in (".jsonl", ".json") or path.name == "capture.sqlite"
        )
        run = [path for path in files if Path(path).as_posix().endswith(RUN_FILES)]
        if not files:
            yield FileIssue(
                f"The folder {shown(argument, 200)} holds no `.jsonl`, `.json` or "
                "`capture.sqlite` file."
            )
        yield from run or files


def read_rollouts(
    file: str | os.PathLike[str] | bytes | IO[bytes], issues: list[FileIssue] | None = None
) -> Iterator[Rollout]:
    r"""The rollouts of a file, one at a time, in any format that the command reads.

    Args:
        file: A path, a binary stream, or what a file holds: bytes, or text that starts with
            `{` or `[`.
        issues: A list that receives a `FileIssue` for each rollout that cannot be read.

    Yields:
        Rollouts in the order of the file.

    Raises:
        ValueError: After the last rollout, with the first sentences about what could not be
            read, when no list of issues was given.
        OSError: The path cannot be opened.

    Example:
        >>> line = '{"transitions": [{"ob": [1, 2], "ac": [3], "logprobs": [-0.5]}]}\n'
        >>> [len(rollout.trajectory.transitions) for rollout in read_rollouts(line * 2)]
        [1, 1]
    """
    found: list[FileIssue] = [] if issues is None else issues
    with contextlib.ExitStack() as stack:
        if isinstance(file, str) and file.lstrip()[:1] in ("{", "["):
            file = file.encode("utf-8", "surrogatepass")
        if isinstance(file, bytes):
            stream: IO[bytes] = io.BytesIO(file)
        elif isinstance(file, str | os.PathLike):
            stream = stack.enter_context(open(file, "rb"))
        else:
            stream = file
        lengths = 0
        for item in iter_rollouts(stream):
            if isinstance(item, Rollout):
                yield item
            elif isinstance(item, LengthsOnly):
                lengths += 1
            else:
                found.append(item)
    if lengths:
        found.append(FileIssue(f"Of {lengths:,} rollouts the file holds lengths but no tokens."))
    if issues is None and found:
        rest = f" And {len(found) - 5:,} more." if len(found) > 5 else ""
        raise ValueError(" ".join(issue.message for issue in found[:5]) + rest)
