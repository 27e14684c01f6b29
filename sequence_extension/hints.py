"""What changed at a break, as its tokens show it: `Break.lost` and `Break.hints`.

What the cause means stands in `wording`, what to do in `remedies`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sequence_extension.cookbook import Trajectory
from sequence_extension.elements import element_label, elements_input_length
from sequence_extension.text import count_text
from sequence_extension.turns import Origin, TurnSpan, turn_origin, walk_turns

# Elements at the end of a prompt that may belong to the header of the answer.
HEADER_LENGTH = 8
# Tags as families write them: `<think>`, `</think>`, `<|thought|>`, `<|channel|>analysis`.
REASONING_MARKS = r"<[^<>\w]{0,2}/?(think|thought|thinking|reason)|channel\W{0,3}analysis"


@dataclass(frozen=True)
class HintChanges:
    """What an edit takes away and puts in.

    Attributes:
        gone, came: The elements, in order.
        beside: What stands in `held` before and behind each gap.
        places: Origins of what is gone (both ends of each gap), or of what stands behind what
            came in.
        parts: Parts of these places, see `hint_part`.
        gaps: Number of places that change.
    """

    gone: tuple[Any, ...]
    came: tuple[Any, ...]
    beside: tuple[Any, ...]
    places: tuple[Origin, ...]
    parts: frozenset[str]
    gaps: int


def hint_changes(
    held: Sequence[Any],
    new: Sequence[Any],
    blocks: Sequence[tuple[int, int, int]],
    spans: Sequence[TurnSpan],
    turn: int,
) -> HintChanges:
    """The changes between what is kept.

    Args:
        held, new: Running sequence and observation, `new` cut where the edit ends.
        blocks: What is kept, as (start in held, start in new, length), in order.
        spans, turn: The walk, and the turn that splits.
    """
    gone: list[Any] = []
    came: list[Any] = []
    beside: list[Any] = []
    places: list[Origin] = []
    gaps = 0
    i = j = 0
    for a, b, length in [*blocks, (len(held), len(new), 0)]:
        if i < a or j < b:
            gone += held[i:a]
            came += new[j:b]
            beside += [*held[max(0, i - 1) : i], *held[a : a + 1]]
            gaps += 1
            ends = (i, a - 1) if i < a else (i,)
            places += [turn_origin(spans, turn, end) for end in ends if end < len(held)]
        i, j = a + length, b + length
    parts = frozenset(hint_part(place, spans, turn) for place in places)
    return HintChanges(tuple(gone), tuple(came), tuple(beside), tuple(places), parts, gaps)


def hint_part(place: Origin, spans: Sequence[TurnSpan], turn: int) -> str:
    """ "action", "observation", or "header": the end of the prompt that the last answer follows.

    Some renderers open or close a reasoning block there and do not write it into history.
    """
    prompt = spans[turn - 1].observation
    start = prompt - min(HEADER_LENGTH, prompt // 4)
    if place.part == "observation" and place.turn == turn - 1 and place.index >= start:
        return "header"
    return place.part


def hint_lost_part(changes: HintChanges, vocab: Mapping[int, str]) -> str:
    """Where the change lies, in one word.

    Returns:
        "reasoning" (in an answer, and its text shows it), "action", "header" (the end of the
        prompt, perhaps the answer as well), "observation", or "both".
    """
    answer = "action" in changes.parts and changes.parts <= {"action", "header"}
    shown = (*changes.beside, *changes.gone[:64], *changes.gone[-8:])
    words = not hints_at_space(changes.gone, vocab)  # white space around reasoning is none
    if answer and words and not changes.came and hints_at_reasoning(shown, vocab):
        return "reasoning"
    if len(changes.parts) == 1:
        return next(iter(changes.parts))
    return "header" if changes.parts == {"action", "header"} else "both"


def hints_at_reasoning(elements: Sequence[Any], vocab: Mapping[int, str]) -> bool:
    """True where the text of some elements shows the marks of reasoning."""
    texts = [vocab.get(element, "") for element in elements if isinstance(element, int)]
    return bool(re.search(REASONING_MARKS, "".join(texts), re.IGNORECASE))


def hints_at_space(gone: Sequence[Any], vocab: Mapping[int, str]) -> bool:
    """True where what is gone is known to be white space."""
    texts = [vocab.get(element) for element in gone if isinstance(element, int)]
    return bool(texts) and all(text is not None and not text.strip() for text in texts)


def change_hints(changes: HintChanges, vocab: Mapping[int, str]) -> dict[str, str]:
    """Hints about an edit that only removes or only inserts, by pattern."""
    gone, places = changes.gone, changes.places
    changed, what = (gone, "is gone") if gone else (changes.came, "came in")
    hints: dict[str, str] = {}
    if changes.gaps == 1 and len(changed) > 1 and all(one == changed[0] for one in changed):
        hints["padding"] = (
            f"What {what} is one id {len(changed)} times, {element_label(changed[0], vocab)}: "
            "padding, or the placeholders of an image written as ids. Record prompts without "
            "padding, and placeholders as they were sent."
        )
    plain = hint_lost_part(changes, vocab) != "reasoning" and not hints_at_space(gone, vocab)
    if plain and changes.parts == {"action"}:
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
    ordered = sorted(trajectory.transitions, key=lambda turn: elements_input_length(turn.ob))
    spans = walk_turns(replace(trajectory, transitions=ordered))
    fewer = len({span.datum for span in spans if span.observation + span.action})
    if fewer >= min(datums, lineages):
        return None
    return (
        "Sorted by the length of their observations these turns would give "
        f"{count_text(fewer, 'datum')} in place of {datums}: they may have been recorded out of "
        "order."
    )
