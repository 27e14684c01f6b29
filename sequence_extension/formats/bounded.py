"""Reading within the bounds of the page, all at once."""

import io
from dataclasses import dataclass
from typing import IO

from sequence_extension.formats.results import FileIssue, LengthsOnly
from sequence_extension.formats.stream import MAX_FILE_BYTES, stream_rollouts
from sequence_extension.rollout import Rollout, rollout_tokens

# Of one file on the page.
MAX_PAGE_ROLLOUTS = 2_000
MAX_PAGE_TOKENS = 100_000_000
MAX_PASTE_CHARS = 1_000_000


@dataclass(frozen=True)
class Reading:
    """What a file holds: the rollouts that can be read, and a sentence on each that cannot.

    Attributes:
        rollouts: In the order of the file.
        issues: In the order of the file.
        left_out: A sentence when a bound ended the reading early, else None.
        lengths_only: Rollouts of which the file holds lengths but no tokens.
    """

    rollouts: tuple[Rollout, ...]
    issues: tuple[FileIssue, ...]
    left_out: str | None = None
    lengths_only: tuple[LengthsOnly, ...] = ()


def collect_bounded(stream: IO[bytes]) -> Reading:
    """All rollouts of a stream within the bounds of the page, see `read_bounded`."""
    rollouts: list[Rollout] = []
    issues: list[FileIssue] = []
    lengths: list[LengthsOnly] = []
    tokens = 0
    for item in stream_rollouts(stream):
        if isinstance(item, FileIssue):
            issues.append(item)
            continue
        if isinstance(item, LengthsOnly):
            lengths.append(item)
            continue
        tokens += rollout_tokens(item)
        if len(rollouts) >= MAX_PAGE_ROLLOUTS or (rollouts and tokens > MAX_PAGE_TOKENS):
            return Reading(
                tuple(rollouts),
                tuple(issues),
                f"Only the first {len(rollouts):,} rollouts are shown: the page takes "
                f"{MAX_PAGE_ROLLOUTS:,} rollouts or {MAX_PAGE_TOKENS:,} tokens, histories "
                "counted in every turn. The command line has no such limit.",
                tuple(lengths),
            )
        rollouts.append(item)
    return Reading(tuple(rollouts), tuple(issues), lengths_only=tuple(lengths))


def read_bounded(data: bytes | str) -> Reading:
    """Read an upload or a paste, within the bounds of the page.

    Args:
        data: The whole file; text is what was pasted.

    Returns:
        What can be read, a sentence on each trajectory that cannot, and whether a bound of the
        page (`MAX_PAGE_ROLLOUTS`, `MAX_PAGE_TOKENS`) ended the reading.
    """
    if isinstance(data, str):
        if not data.strip():
            return Reading((), (FileIssue("The text is empty."),))
        data = data.encode("utf-8", "surrogatepass")
    if len(data) > MAX_FILE_BYTES:
        return Reading(
            (),
            (
                FileIssue(
                    f"The file holds {len(data) / 2**20:,.1f} MB, but the page reads at most "
                    f"{MAX_FILE_BYTES // 2**20} MB."
                ),
            ),
        )
    return collect_bounded(io.BytesIO(data))
