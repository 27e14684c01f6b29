"""Sampling calls joined to rollouts, by id across the whole file or as they follow each other."""

from array import array
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sequence_extension.edits import unedited_prefix_length
from sequence_extension.formats.build import MAX_ROLLOUT_TURNS, RolloutSource, TurnSource
from sequence_extension.formats.values import pack_token_values
from sequence_extension.text import count_text


@dataclass(slots=True)
class CallSource:
    """One sampling call, or what else a log says about a rollout.

    Attributes:
        turn: None where no turn came of it.
        key: Calls with equal keys are one rollout; without a key a call joins the one before it.
        name, group: Of the rollout, where the call knows them.
        failed: True for a call that was tried and gave nothing.
        reward: Reported for the whole rollout.
        order: Time or serial of the call; a rollout is sorted by it where all its calls have one.
        note: A sentence about the rollout, said once.
        serial: Of the call; one that comes again was recorded twice.
    """

    turn: TurnSource | None
    key: Hashable = None
    name: Any = None
    group: Any = None
    failed: bool = False
    reward: float | None = None
    order: float | None = None
    note: str | None = None
    serial: Hashable = None


def call_order(value: Any) -> float | None:
    """A time or serial that calls can be sorted by; None for what is no number, or NaN."""
    return value if type(value) in (int, float) and value == value else None


@dataclass(slots=True)
class OpenRollout:
    """A rollout whose later calls may still come.

    Of each prompt only what differs from the prompt before is kept, packed.

    Attributes:
        index: Of the rollout in the file.
        source: What came so far.
        shares: Per turn: how many tokens its prompt shares with the one before; None where the
            prompt is kept as the file has it.
        orders: Per turn, see `CallSource.order`.
        own_lines, shared_lines: Lines with one call each, and lines that hold several.
        failed: Calls that gave nothing.
        serials: Of the calls that came.
        last: The latest prompt that was packed.
    """

    index: int
    source: RolloutSource
    shares: list[int | None] = field(default_factory=list)
    orders: list[float | None] = field(default_factory=list)
    own_lines: int = 0
    shared_lines: set[int] = field(default_factory=set)
    failed: int = 0
    serials: set[Hashable] = field(default_factory=set)
    last: Any = field(default_factory=lambda: array("i"))

    def add(self, call: CallSource, line: int | None, own_line: bool) -> None:
        """Take one call in; `own_line`: it stands on a line of its own, which is counted."""
        if call.serial is not None and call.serial in self.serials:
            return
        self.serials.add(call.serial)
        self.source.name = self.source.name or call.name
        self.source.group = self.source.group or call.group
        if call.note and call.note not in self.source.notes:
            self.source.notes.append(call.note)
        if call.reward is not None:
            self.source.reward = (self.source.reward or 0.0) + call.reward
        self.failed += call.failed
        # One turn more than is read is kept, so that the bound is noticed.
        if call.turn is None or len(self.source.turns) > MAX_ROLLOUT_TURNS:
            return
        turn = call.turn
        turn.line = line
        self.own_lines += own_line
        if line is not None and not own_line:
            self.shared_lines.add(line)
        packed = pack_token_values(turn.ob)
        share = None
        if isinstance(packed, array):
            share = unedited_prefix_length(self.last, packed)
            self.last, turn.ob = packed, packed[share:]
        turn.ac = pack_token_values(turn.ac)
        self.source.turns.append(turn)
        self.shares.append(share)
        self.orders.append(call.order)

    def finish(self) -> RolloutSource:
        """The rollout with whole prompts, in the order of its calls."""
        last: Any = array("i")
        for turn, share in zip(self.source.turns, self.shares, strict=True):
            if share is not None:
                last = turn.ob = last[:share] + turn.ob
        orders = [order for order in self.orders if order is not None]
        if len(orders) == len(self.orders):
            pairs = sorted(enumerate(orders), key=lambda pair: pair[1])
            self.source.turns = [self.source.turns[index] for index, _ in pairs]
        # Calls of one list are joined by the list, not from lines.
        others = len(self.shared_lines) if self.own_lines or len(self.shared_lines) > 1 else 0
        self.source.joined_lines = self.own_lines + others or None
        if self.failed:
            self.source.notes.append(f"{count_text(self.failed, 'failed call')} left out.")
        if self.source.reward is not None and self.source.turns:
            # Added to what the turns got, as the cookbook adds a group's reward.
            turn = self.source.turns[-1]
            if any(other.reward is not None for other in self.source.turns):
                earned = turn.reward if isinstance(turn.reward, int | float) else 0.0
                turn.reward = earned + self.source.reward
        return self.source


class Joiner:
    """The rollouts that are open while a file of calls is read.

    Memory grows with the tokens of the open rollouts: those with an id stay open to the end of
    the file.

    Attributes:
        used: Whether any call has come: then a line may depend on others.
    """

    def __init__(self) -> None:
        self.used = False
        self.keyed: dict[Hashable, OpenRollout] = {}
        self.plain: OpenRollout | None = None

    def add(self, call: CallSource, line: int | None, index: int, own_line: bool = False) -> bool:
        """Take one call in; true if it opened a rollout, which then has this index."""
        self.used = True
        rollout = self.plain if call.key is None else self.keyed.get(call.key)
        if rollout is None and call.key is None and call.failed and self.keyed:
            # It names no rollout, and makes none where the other calls name theirs.
            rollout = self.keyed[next(reversed(self.keyed))]
        opened = rollout is None
        if rollout is None:
            # Where a file holds several lists of calls, these tell its rollouts apart.
            unparted = call.key is None and (own_line or not index)
            rollout = OpenRollout(index, RolloutSource([], without_id=unparted))
            if call.key is None:
                self.plain = rollout
            else:
                self.keyed[call.key] = rollout
        rollout.add(call, line, own_line)
        return opened

    def close_plain(self) -> Iterator[tuple[int, RolloutSource]]:
        """The rollout of calls without id, if one is open: something else came."""
        rollout, self.plain = self.plain, None
        if rollout is not None and (rollout.source.turns or rollout.failed):
            yield rollout.index, rollout.finish()

    def close(self) -> Iterator[tuple[int, RolloutSource]]:
        """All open rollouts, in the order of their first calls."""
        yield from self.close_plain()
        for key in list(self.keyed):
            rollout = self.keyed.pop(key)
            if rollout.source.turns or rollout.failed:
                yield rollout.index, rollout.finish()
