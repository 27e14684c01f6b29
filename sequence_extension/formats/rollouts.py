"""Files and folders of rollouts, as the command and Python programs name them."""

import contextlib
import io
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal

from sequence_extension.cookbook import Trajectory, TrajectoryGroup
from sequence_extension.formats.capture import SQLITE_MAGIC
from sequence_extension.formats.detect import detect_and_read, is_detectable
from sequence_extension.formats.json_text import parse_json
from sequence_extension.formats.native import (
    checked_native_number,
    native_number,
    rollout_to_native,
    trajectory_to_native,
)
from sequence_extension.formats.results import (
    FileIssue,
    LengthsOnly,
    RecordError,
    empty_folder_result,
)
from sequence_extension.formats.stream import (
    MAX_FILE_BYTES,
    parse_stream_line,
    stream_lines,
    stream_rollouts,
)
from sequence_extension.rollout import Rollout
from sequence_extension.text import count_text, shown_text

# What the log directory of a run holds that can be read, beside files of other kinds.
RUN_FILES = ("/capture/sample.jsonl", "/capture.sqlite", "_rollout_summaries.jsonl")


def expand_rollouts_paths(arguments: Iterable[str]) -> Iterator[str | FileIssue]:
    """FILE arguments as files: a folder gives the files of rollouts below it, by name.

    These are what a run of the cookbook writes (`capture/sample.jsonl`, `capture.sqlite`,
    `*_rollout_summaries.jsonl`) and other `.jsonl` and `.json` files that hold rollouts. Files
    that cannot be read are given, too, for a sentence each, where no run wrote files; settings,
    metrics and the like never are. They come in the order of their paths; `-` (standard input)
    and files stay as they are, whether they exist or not.

    Yields:
        Paths, and an issue for a folder in which there is nothing to read.
    """
    for argument in arguments:
        if argument == "-" or not os.path.isdir(argument):
            yield argument
            continue
        paths = sorted(path for path in Path(argument).rglob("*") if path.is_file())
        run = {path for path in paths if path.as_posix().endswith(RUN_FILES)}
        kinds = ("rollouts",) if run else ("rollouts", "unreadable")
        files = [path for path in paths if path in run or rollouts_path_kind(path) in kinds]
        if not files:
            yield empty_folder_result(argument)
        yield from map(str, files)


def rollouts_path_kind(path: Path) -> Literal["rollouts", "unreadable", "other"]:
    """What a file in a folder seems to hold, from its name and its first value.

    Returns:
        `other` for settings, metrics and the like; `unreadable` for what cannot be opened or
        parsed, which may be a damaged file of rollouts, and for formats that hold too little.
    """
    if path.suffix not in (".jsonl", ".json"):
        return "other"
    try:
        with path.open("rb") as stream:
            head = next(stream_lines(stream), None)
            if head is None:
                return "other"
            if head[1].startswith(SQLITE_MAGIC):
                return "rollouts"
            first = parse_stream_line(head)
            value = first.value
            if first.error is not None:
                value, _ = parse_json(head[1] + stream.read(MAX_FILE_BYTES))
        if not is_detectable(value):
            return "other"
        if isinstance(value, dict):
            detect_and_read(value, 0)
    except (OSError, RecordError):
        return "unreadable"
    return "rollouts"


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
    problems: list[FileIssue] = [] if issues is None else issues
    with contextlib.ExitStack() as stack:
        if isinstance(file, str) and file.lstrip()[:1] in ("{", "["):
            file = file.encode("utf-8", "surrogatepass")
        if isinstance(file, bytes):
            stream: IO[bytes] = io.BytesIO(file)
        elif isinstance(file, str | os.PathLike):
            stream = stack.enter_context(open(file, "rb"))
        else:
            stream = file if isinstance(file.read(0), bytes) else rollouts_text_stream(file)
        lengths = 0
        for item in stream_rollouts(stream):
            if isinstance(item, Rollout):
                yield item
            elif isinstance(item, LengthsOnly):
                lengths += 1
            else:
                problems.append(item)
    if lengths:
        rollouts = count_text(lengths, "rollout")
        problems.append(FileIssue(f"Of {rollouts} the file holds lengths but no tokens."))
    if issues is None and problems:
        rest = f" And {len(problems) - 5:,} more." if len(problems) > 5 else ""
        raise ValueError(" ".join(issue.message for issue in problems[:5]) + rest)


def rollouts_text_stream(file: Any) -> IO[bytes]:
    """The bytes of a stream that was opened as text."""
    buffer: IO[bytes] | None = getattr(file, "buffer", None)
    return buffer or io.BytesIO(file.read().encode("utf-8", "surrogatepass"))


def write_rollouts(
    file: str | os.PathLike[str] | IO[str] | IO[bytes],
    trajectory_groups: Iterable[TrajectoryGroup | Trajectory | Rollout],
    prefix: str = "",
) -> int:
    r"""Write rollouts as JSONL of this package's format, one a line, as they come.

    Args:
        file: A path, which is written anew, or an open stream, text or binary: open it to append
            where several steps of a training run go to one file.
        trajectory_groups: Groups of the cookbook (as `do_group_rollout` returns them), or
            trajectories or rollouts. A group's final rewards are added to the last turns'.
        prefix: In front of the names of groups and trajectories, such as `"step 3, "`: groups of
            several steps in one file must not share a name.

    Returns:
        How many rollouts were written.

    Raises:
        TypeError: Something else stands among the groups, or an observation holds chunks that
            are neither tokens nor images.
        ValueError: A token id, a reward, a logprob or an image that the file format cannot hold,
            or too few final rewards. Nothing is written then: of a list nothing at all, of an
            iterator nothing of the group.
        OSError: The file cannot be written.

    Example:
        >>> import io
        >>> from sequence_extension.rollout import rollout_trajectory
        >>> out = io.StringIO()
        >>> write_rollouts(out, [rollout_trajectory([([1, 2], [3]), ([1, 2, 3, 4], [5])])])
        1
        >>> [transition["ac"] for transition in json.loads(out.getvalue())["transitions"]]
        [[3], [5]]
        >>> [rollout.name for rollout in read_rollouts(out.getvalue())]
        ['trajectory 0']
    """
    records = rollouts_as_records(trajectory_groups, prefix)
    lines: Iterator[str] = (json.dumps(each, allow_nan=False) + "\n" for each in records)
    if isinstance(trajectory_groups, Sequence):
        lines = iter(list(lines))
    first = list(itertools.islice(lines, 1))
    count = 0
    with contextlib.ExitStack() as stack:
        if isinstance(file, str | os.PathLike):
            stream: Any = stack.enter_context(open(file, "w", encoding="utf-8"))
        else:
            stream = file
        text = isinstance(stream, io.TextIOBase) or getattr(stream, "encoding", None)
        for line in itertools.chain(first, lines):
            stream.write(line if text else line.encode())
            count += 1
    return count


def rollouts_as_records(
    trajectory_groups: Iterable[TrajectoryGroup | Trajectory | Rollout], prefix: str
) -> Iterator[dict[str, Any]]:
    """Groups, trajectories and rollouts in the file format, see `write_rollouts`."""
    for index, item in enumerate(trajectory_groups):
        if isinstance(item, Rollout):
            yield rollout_to_native(item)
        elif isinstance(item, Trajectory):
            yield trajectory_to_native(item, f"{prefix}trajectory {index}")
        elif isinstance(item, TrajectoryGroup):
            group = f"{prefix}group {index}"
            finals = item.final_rewards_G
            if len(finals) < len(item.trajectories_G):
                raise ValueError(
                    f"Each trajectory of a group needs a final reward: {shown_text(group, 60)} has "
                    f"{len(item.trajectories_G):,} and {len(finals):,}."
                )
            records = []
            for number, trajectory in enumerate(item.trajectories_G):
                name = f"{group}, trajectory {number}"
                record = trajectory_to_native(trajectory, name, group)
                final = float(checked_native_number(finals[number], "final reward") or 0.0)
                if record["transitions"] and final:
                    total = float(trajectory.transitions[-1].reward) + final
                    record["transitions"][-1]["reward"] = native_number(total)
                records.append(record)
            yield from records
        else:
            raise TypeError(
                "expected TrajectoryGroup, Trajectory or Rollout objects, got "
                f"{type(item).__name__}"
            )
