"""Patterns of a break that are easy to see and need another remedy than the cause's usual one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sequence_extension.cookbook import Trajectory
from sequence_extension.rollout import input_length, token_label
from sequence_extension.text import count_of
from sequence_extension.turns import Origin, TurnSpan, trace_origin, walk_turns


def edit_hints(
    held: Sequence[Any],
    new: Sequence[Any],
    spans: Sequence[TurnSpan],
    turn: int,
    blocks: Sequence[tuple[int, int, int]],
    vocab: Mapping[int, str],
) -> list[str]:
    """Hints about an edit that only removes or only inserts.

    Args:
        held, new: Running sequence and observation, `new` cut where the edit ends.
        spans, turn: The walk, and the turn that splits.
        blocks: What is kept, as (start in held, start in new, length), in order.
        vocab: Text of token ids where known.
    """
    gone: list[Any] = []
    came: list[Any] = []
    places: list[Origin] = []  # of what is gone, or of what stands behind what came in
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
    changed, what = (gone, "is gone") if gone else (came, "came in")
    hints = []
    if gaps == 1 and len(changed) > 1 and all(element == changed[0] for element in changed):
        hints.append(
            f"What {what} is one id {len(changed)} times, {token_label(changed[0], vocab)}: "
            "padding, or the placeholders of an image written as ids. Record prompts without "
            "padding, and placeholders as they were sent."
        )
    if not all(place.part == "action" for place in places) or is_reasoning(gone, vocab):
        return hints
    turns = sorted({place.turn for place in places})
    whose = f"the action of turn {turns[0]}"
    if len(turns) > 1:
        whose = f"the actions of turns {', '.join(map(str, turns[:-1]))} and {turns[-1]}"
    why = (
        "if it is no reasoning, a parser took it out of the answer: put the sampled tokens back, "
        "not the parsed message"
        if gone
        else "the engine left special tokens out of the token ids that it gave, or the renderer "
        "writes more around an answer than was sampled"
    )
    return [*hints, f"What {what} lies wholly inside {whose}: {why}."]


def is_reasoning(gone: Sequence[Any], vocab: Mapping[int, str]) -> bool:
    """True where the text of what is gone is known to be reasoning, or white space."""
    texts = [vocab.get(element) for element in gone if isinstance(element, int)]
    if not texts or any(text is None for text in texts):
        return False
    whole = "".join(text or "" for text in texts)
    return not whole.strip() or bool(re.search(r"think|reason|analysis", whole[:200], re.I))


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
