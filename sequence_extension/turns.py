"""Where each turn lies: the prefix rule of `trajectory_to_data`, turn by turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sequence_extension.cookbook import PARSE_ERROR_MASKED_METRIC_KEY, Trajectory, tinker
from sequence_extension.edits import unedited_prefix_length
from sequence_extension.elements import chunks_to_elements, element_length
from sequence_extension.text import count_text


@dataclass(frozen=True)
class TurnSpan:
    """Where one turn lies. All lengths count flat elements (an image is one).

    Attributes:
        turn: Index of the turn.
        datum: Index of the datum the turn ends up in.
        held: Length of the running sequence before the turn: the previous turn's
            observation + action, because whatever merged is contained in them.
        position: Length of the common prefix of that sequence and this turn's observation.
        observation: Length of this turn's observation.
        action: Length of this turn's action.
        masked: The turn carries the parse-error mask metric.
        tokens: Tokens of this turn's observation: here an image counts its own.
    """

    turn: int
    datum: int
    held: int
    position: int
    observation: int
    action: int
    masked: bool
    tokens: int

    @property
    def splits(self) -> bool:
        """True when the observation does not continue the running sequence."""
        return self.position < self.held

    @property
    def extends(self) -> bool:
        """True when it continues a running sequence that holds something."""
        return 0 < self.held == self.position

    @property
    def outcome(self) -> Literal["starts", "extends", "splits"]:
        """What became of the turn; behind turns without any token a turn starts, too."""
        return "splits" if self.splits else "extends" if self.held else "starts"


def walk_turns(trajectory: Trajectory) -> list[TurnSpan]:
    """Follow the prefix rule of `trajectory_to_data` turn by turn.

    The datums themselves always come from the cookbook; this walk only says which turn
    went where, and `alignment_table` refuses to draw when the two disagree. The running
    sequence is never built: before a turn it is always the previous turn's observation and
    action, because whatever merged earlier is contained in that observation.
    """
    spans: list[TurnSpan] = []
    before: Sequence[Any] = ()
    ends = [(0, 0)]  # elements and tokens of the observation up to each of its chunks
    action: list[Any] = []
    datum = 0
    for turn, transition in enumerate(trajectory.transitions):
        # Chunks that both observations share are equal without a look: where a file's reader
        # keeps the history as the same objects, the walk grows with what is new.
        chunks = transition.ob.chunks
        pairs = enumerate(zip(before, chunks, strict=False))
        common = min(len(before), len(chunks))
        shared = next((index for index, (old, new) in pairs if old is not new), common)
        held = ends[-1][0] + len(action)
        rest, fresh = chunks_to_elements(before[shared:]), chunks_to_elements(chunks[shared:])
        del ends[shared + 1 :]
        position = ends[-1][0] + unedited_prefix_length(rest, fresh)
        if position == held - len(action):
            position += unedited_prefix_length(action, fresh, 0, len(rest))
        if position < held:
            datum += 1
        for chunk in chunks[shared:]:
            if isinstance(chunk, tinker.EncodedTextChunk):
                length = tokens = len(chunk.tokens)
            else:
                length, tokens = 1, element_length(chunk)
            ends.append((ends[-1][0] + length, ends[-1][1] + tokens))
        before, action = chunks, list(transition.ac.tokens)
        masked = float(transition.metrics.get(PARSE_ERROR_MASKED_METRIC_KEY, 0.0)) >= 1.0
        length, tokens = ends[-1]
        spans.append(TurnSpan(turn, datum, held, position, length, len(action), masked, tokens))
    return spans


@dataclass(frozen=True)
class Run:
    """A stretch of one datum's sequence that came from one turn and one part.

    Attributes:
        datum, turn: Indices from 0.
        part: "O" for observation, "A" for action.
        start: Position of its first token in the datum's sequence (an image counts its tokens).
        length: Number of positions, at least 1.
        masked: An action the cookbook masks (parse-error turn).
    """

    datum: int
    turn: int
    part: Literal["O", "A"]
    start: int
    length: int
    masked: bool = False


def turn_runs(spans: Sequence[TurnSpan]) -> list[Run]:
    """The datums as runs of observation and action; grows with turns, not with tokens."""
    runs: list[Run] = []
    cursor = 0
    previous: TurnSpan | None = None
    for span in spans:
        if previous is None or span.datum != previous.datum:
            cursor = 0
        added = span.tokens - cursor
        if added:
            runs.append(Run(span.datum, span.turn, "O", cursor, added))
        cursor += added
        if span.action:
            runs.append(Run(span.datum, span.turn, "A", cursor, span.action, span.masked))
        cursor += span.action
        previous = span
    return runs


def turn_runs_finding(runs: Sequence[Run]) -> str:
    """One sentence for a rollout that is drawn as runs."""
    total = sum(run.length for run in runs)
    actions = sum(run.length for run in runs if run.part == "A")
    turns, datums = len({run.turn for run in runs}), len({run.datum for run in runs})
    return (
        f"{count_text(turns, 'turn')} {'makes' if turns == 1 else 'make'} "
        f"{count_text(datums, 'datum')} of {count_text(total, 'token')}, {actions:,} of them "
        "actions"
    )


@dataclass(frozen=True)
class Origin:
    """Which turn and part a token of the running sequence came from.

    Attributes:
        turn: Index of the turn.
        part: Observation or action of that turn.
        index: Within the whole observation, or within the action; an image is one element.
    """

    turn: int
    part: Literal["observation", "action"]
    index: int


def turn_origin(spans: Sequence[TurnSpan], turn: int, position: int) -> Origin:
    """Turn, part and index of element `position` of the sequence held before `turn`."""
    datum = spans[turn - 1].datum
    for span in spans[:turn]:
        if span.datum == datum and position < span.observation + span.action:
            if position < span.observation:
                return Origin(span.turn, "observation", position)
            return Origin(span.turn, "action", position - span.observation)
    raise ValueError(f"Turn {turn} holds no element at position {position}.")
