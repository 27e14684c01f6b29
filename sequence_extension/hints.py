"""What changed at a break, and patterns that need another remedy than the cause's usual one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sequence_extension.cookbook import Trajectory
from sequence_extension.rollout import input_length, token_label
from sequence_extension.text import count_of
from sequence_extension.turns import Origin, TurnSpan, trace_origin, walk_turns


@dataclass(frozen=True)
class Changes:
    """What an edit takes away and puts in.

    Attributes:
        gone, came: The elements, in order.
        places: Origins of what is gone (both ends of each gap), or of what stands behind what
            came in.
        gaps: Number of places that change.
    """

    gone: tuple[Any, ...]
    came: tuple[Any, ...]
    places: tuple[Origin, ...]
    gaps: int


def changes_of(
    held: Sequence[Any],
    new: Sequence[Any],
    blocks: Sequence[tuple[int, int, int]],
    spans: Sequence[TurnSpan],
    turn: int,
) -> Changes:
    """The changes between what is kept.

    Args:
        held, new: Running sequence and observation, `new` cut where the edit ends.
        blocks: What is kept, as (start in held, start in new, length), in order.
        spans, turn: The walk, and the turn that splits.
    """
    gone: list[Any] = []
    came: list[Any] = []
    places: list[Origin] = []
    gaps = 0
    i = j = 0
    for a, b, length in [*blocks, (len(held), len(new), 0)]:
        if i < a or j < b:
            gone += held[i:a]
            came += new[j:b]
            gaps += 1
            ends = (i, a - 1) if i < a else (i,)
            places += [trace_origin(spans, turn, end) for end in ends if end < len(held)]
        i, j = a + length, b + length
    return Changes(tuple(gone), tuple(came), tuple(places), gaps)


def lost_part(changes: Changes, vocab: Mapping[int, str]) -> str:
    """Where the change lies: "reasoning", an "action", an "observation", or "both" of these."""
    parts = {place.part for place in changes.places}
    if parts == {"action"}:
        return "reasoning" if is_reasoning(changes.gone, vocab) else "action"
    return "both" if len(parts) > 1 else "observation"


def is_reasoning(gone: Sequence[Any], vocab: Mapping[int, str]) -> bool:
    """True where the text of what is gone shows the marks of reasoning."""
    texts = [vocab.get(element, "") for element in gone[:64] if isinstance(element, int)]
    return bool(re.search(r"think|reason|analysis", "".join(texts), re.IGNORECASE))


def is_space(gone: Sequence[Any], vocab: Mapping[int, str]) -> bool:
    """True where what is gone is known to be white space."""
    texts = [vocab.get(element) for element in gone if isinstance(element, int)]
    return bool(texts) and all(text is not None and not text.strip() for text in texts)


def change_hints(changes: Changes, vocab: Mapping[int, str]) -> dict[str, str]:
    """Hints about an edit that only removes or only inserts, by pattern."""
    gone, places = changes.gone, changes.places
    changed, what = (gone, "is gone") if gone else (changes.came, "came in")
    hints: dict[str, str] = {}
    if changes.gaps == 1 and len(changed) > 1 and all(one == changed[0] for one in changed):
        hints["padding"] = (
            f"What {what} is one id {len(changed)} times, {token_label(changed[0], vocab)}: "
            "padding, or the placeholders of an image written as ids. Record prompts without "
            "padding, and placeholders as they were sent."
        )
    plain = not is_reasoning(gone, vocab) and not is_space(gone, vocab)
    if plain and all(place.part == "action" for place in places):
        turns = sorted({place.turn for place in places})
        whose = f"the action of turn {turns[0]}"
        if len(turns) > 1:
            whose = f"the actions of turns {', '.join(map(str, turns[:-1]))} and {turns[-1]}"
        why = (
            "if it is no reasoning, a parser took it out of the answer: put the sampled tokens "
            "back, not the parsed message"
            if gone
            else "the engine left special tokens out of the token ids that it gave, or the "
            "renderer writes more around an answer than was sampled"
        )
        hints["inside_action"] = f"What {what} lies wholly inside {whose}: {why}."
    return hints


def order_hint(trajectory: Trajectory, datums: int, lineages: int) -> str | None:
    """Says so where the turns, sorted by length of observation, would give fewer datums.

    Args:
        trajectory: The rollout.
        datums: Datums that it gives.
        lineages: Datums it would give if every open sequence were kept: agents that take turns
            are no turns out of order.
    """
    ordered = sorted(trajectory.transitions, key=lambda turn: input_length(turn.ob))
    spans = walk_turns(replace(trajectory, transitions=ordered))
    fewer = len({span.datum for span in spans if span.observation + span.action})
    if fewer >= min(datums, lineages):
        return None
    return (
        "Sorted by the length of their observations these turns would give "
        f"{count_of(fewer, 'datum')} in place of {datums}: they may have been recorded out of "
        "order."
    )
