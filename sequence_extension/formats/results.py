"""What reading a file gives beside rollouts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sequence_extension.text import shown_text


class RecordError(ValueError):
    """What is wrong with one value of a file.

    Attributes:
        path: Keys and indices that lead from the value of the rollout to the wrong one; turns
            stand under `transitions` whatever the format calls them.
        line: Line within the text that was parsed, from 1, where the parser stopped there.
    """

    def __init__(self, message: str, path: Sequence[Any] = (), line: int | None = None) -> None:
        super().__init__(message)
        self.path = tuple(path)
        self.line = line


class NoTokens(RecordError):
    """A rollout of a known format in which no token ids were recorded."""


@dataclass(frozen=True)
class FileIssue:
    """One sentence about a file, or about one trajectory in it.

    Attributes:
        message: The sentence; names line, trajectory, turn, field and index as far as known.
        line: Line of the file, from 1.
        trajectory: Index of the trajectory in the file, from 0; None when it is about the file.
    """

    message: str
    line: int | None = None
    trajectory: int | None = None


def empty_folder_result(folder: str) -> FileIssue:
    """The sentence on a folder without files of rollouts."""
    return FileIssue(f"The folder {shown_text(folder, 200)} holds no file of rollouts.")


@dataclass(frozen=True)
class LengthsOnly:
    """A rollout of which the file holds lengths but no tokens.

    Attributes:
        name: Shown wherever the rollout is listed; any text.
        lengths: Tokens of (observation, action), a pair a turn.
        group: As in `Rollout`.
    """

    name: str
    lengths: tuple[tuple[int, int], ...]
    group: str | None = None

    @property
    def turns(self) -> int:
        """How many turns there are."""
        return len(self.lengths)

    @property
    def certain_splits(self) -> tuple[int, ...]:
        """Turns that cannot extend: their observation is shorter than what stood before it.

        A lower bound: an observation that is long enough may still differ.
        """
        return tuple(
            turn
            for turn in range(1, len(self.lengths))
            if self.lengths[turn][0] < sum(self.lengths[turn - 1])
        )
