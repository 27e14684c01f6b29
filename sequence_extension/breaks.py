"""Where the running sequence breaks, why, and where the lost token came from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sequence_extension.cookbook import Trajectory
from sequence_extension.edits import (
    Block,
    Codes,
    Edit,
    ElementCodes,
    cheapest_edit,
    edit_kept_blocks,
    unedited_prefix_length,
)
from sequence_extension.elements import element_length, model_input_to_elements
from sequence_extension.hints import (
    change_hints,
    hint_changes,
    hint_lost_part,
    hint_part,
    order_hint,
)
from sequence_extension.lineages import lineages_count
from sequence_extension.remedies import remedy
from sequence_extension.text import text_bytes
from sequence_extension.turns import Origin, TurnSpan, turn_origin

# Steps (see `cheapest_edit`) that the searches of one rollout may take: about a second, and
# per token what a datum per turn costs anyway.
SEARCH_STEPS = 150_000_000
SEARCH_STEPS_PER_TOKEN = 30


@dataclass(frozen=True)
class Break:
    """A turn whose observation does not continue the running sequence.

    Attributes:
        turn: The turn that splits.
        position: Length of the common prefix of held sequence and new observation.
        expected: Element of the held sequence at `position`.
        got: Element of the observation at `position`; None where it has ended.
        cause: One of the named causes, by the first rule that applies (`name_break_cause`).
        origin: Where `expected` came from.
        resumes_datum: Index of an earlier datum that this observation does extend, or None.
        removed, inserted, kept: Element counts of the cheapest edit behind `position`; where
            `bounded` is set, as if nothing behind it had been kept.
        bounded: The sentence that names the bound when the search gave up, else None.
        held: Length of the running sequence in elements.
        again: Tokens of the observation that are inputs of its datum and were inputs of an
            earlier one, in order: they are processed once more. A resumed datum counts with all
            its inputs.
        lost: Where the change lies, see `hint_lost_part`.
        patterns: Names of patterns that need another remedy than the usual one: "padding",
            "inside_action", "out_of_order", and "takes_turns" where another turn goes on from
            an earlier datum.
        hints: A short sentence for each of the first three.
    """

    turn: int
    position: int
    expected: Any
    got: Any
    cause: str
    origin: Origin
    resumes_datum: int | None = None
    removed: int = 0
    inserted: int = 0
    kept: int = 0
    bounded: str | None = None
    held: int = 0
    again: int = 0
    lost: str = "observation"
    patterns: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def help(self) -> str:
        """What helps against it, in one or two sentences; plain text with `code`."""
        return remedy(self)


def break_text_units(element: Any, vocab: Mapping[int, str]) -> list[int] | None:
    """Bytes of an element's text; its own id, below 0, where they are not known; None without text.

    So a piece of a character whose bytes were lost equals only the same id.
    """
    text = vocab.get(element) if isinstance(element, int) else None
    if text is None:
        return None
    raw = text_bytes(text)
    return [-1 - element] if raw is None else list(raw)


def break_keeps_text(
    held: Sequence[Any], new: Sequence[Any], start: int, vocab: Mapping[int, str]
) -> bool:
    """Does the text of `new` start with the text of `held`, both equal up to `start`?

    Bytes are compared. Every id behind `start` that is needed must be in the vocabulary.
    """
    ahead: list[int] = []  # what `new` has and `held` has yet to match
    place = start
    for element in held[start:]:
        wanted = break_text_units(element, vocab)
        if wanted is None:
            return False
        while len(ahead) < len(wanted):
            piece = break_text_units(new[place], vocab) if place < len(new) else None
            if piece is None or ahead != wanted[: len(ahead)]:
                return False
            ahead += piece
            place += 1
        if ahead[: len(wanted)] != wanted:
            return False
        del ahead[: len(wanted)]
    return True


def name_break_cause(
    held: Sequence[Any],
    new: Sequence[Any],
    position: int,
    edit: Edit,
    tails: tuple[Codes, Codes],
    vocab: Mapping[int, str],
) -> str:
    """The first rule that applies; `replaced` where the search for the edit gave up.

    Args:
        held, new: Elements of the running sequence and of the observation.
        position: Length of their common prefix, smaller than len(held).
        edit: Cheapest edit behind `position`.
        tails: Held and new behind `position`, coded.
        vocab: Text of token ids where known.
    """
    if position == len(new):
        return "shortened"
    if not isinstance(held[position], int) or not isinstance(new[position], int):
        return "image_changed"
    if position == len(held) - 1:
        return "end_token"
    if break_keeps_text(held, new, position, vocab):
        return "retokenised"
    if not edit.exact:
        return "replaced"
    if edit.kept and not edit.inserted:
        return "removed"
    if not edit.removed:
        return "inserted"
    if 2 * (position + edit.kept) < len(held):
        return "new_context"
    # what is kept is in both, so whole tails may be compared
    if np.array_equal(np.sort(tails[0]), np.sort(tails[1][: edit.taken])):
        return "reordered"
    return "replaced"


def break_datum_codes(
    trajectory: Trajectory, spans: Sequence[TurnSpan], codes: ElementCodes
) -> list[Codes]:
    """Every datum's whole sequence as numbers: its last turn's observation and action."""
    last = {span.datum: span.turn for span in spans}
    return [
        np.concatenate(
            [
                codes.encode(model_input_to_elements(trajectory.transitions[turn].ob)),
                codes.encode(trajectory.transitions[turn].ac.tokens),
            ]
        )
        for turn in last.values()
    ]


def break_picture_tokens(shared: Sequence[Any], tail: Sequence[Any], rest: Sequence[Any]) -> int:
    """Tokens beyond one each of the images in `shared`, and of those in both `tail` and `rest`."""
    left = [element for element in tail if not isinstance(element, int)]
    both = [element for element in shared if not isinstance(element, int)]
    for element in rest if left else ():
        if element in left:
            left.remove(element)
            both.append(element)
    return sum(element_length(element) - 1 for element in both)


def break_read_again(
    held: Sequence[Any],
    new: Sequence[Any],
    position: int,
    edit: Edit,
    stored: Sequence[bytes],
    datum: int,
) -> int:
    """Tokens of a datum's first observation that were inputs of an earlier datum, in order.

    The most of: what the cheapest edit keeps of the sequence held, and what the datum has in
    common with the start of any earlier one. The last element of a datum is a target, never
    an input, on both sides.
    """
    mine = len(stored[datum]) // 4 - 1
    end = position + edit.taken
    came_back = edit.kept > 0 and new[end - 1] == held[-1]
    again = min(position + edit.kept - (came_back or end > mine), mine)
    shared, tail = position, held[position:-1]
    longer = stored[datum][: 4 * again + 4]  # what an earlier one must start with to matter
    for earlier in stored[: datum - 1]:
        limit = min(len(earlier) // 4 - 1, mine, len(new))
        if limit > again and earlier.startswith(longer):
            common = min(limit, unedited_prefix_length(stored[datum], earlier) // 4)
            again, shared, tail = common, common, []
            longer = stored[datum][: 4 * again + 4]
    return max(again, 0) + break_picture_tokens(new[:shared], tail, new[shared:])


def break_resumed_datum(stored: Sequence[bytes], datum: int, observation: Codes) -> int | None:
    """The longest datum before `datum` that starts its first observation; the latest of equals."""
    raw = observation.tobytes()
    earlier = [at for at in range(datum) if stored[at] and raw.startswith(stored[at])]
    return max(earlier, key=lambda at: (len(stored[at]), at), default=None)


def find_breaks(
    trajectory: Trajectory,
    spans: Sequence[TurnSpan],
    vocab: Mapping[int, str],
    codes: ElementCodes,
    sequences: Sequence[Codes],
    details: bool = True,
) -> tuple[list[Break], int]:
    """Every break with its cause, and the number of datums if lineages were tracked.

    Args:
        trajectory, spans: The rollout and its walk.
        vocab: Text of token ids where known.
        codes, sequences: Coder and coded datums of `break_datum_codes`.
        details: Also say where changes lie, and give hints.
    """
    splits = [span for span in spans if span.splits]
    tokens = sum(span.observation + span.action for span in spans)
    budget = SEARCH_STEPS + SEARCH_STEPS_PER_TOKEN * tokens
    stored = [sequence.tobytes() for sequence in sequences] if splits else []
    breaks: list[Break] = []
    for number, span in enumerate(splits):
        held, new = break_held_and_new(trajectory, span.turn)
        observation = sequences[span.datum][: len(new)]  # a datum starts with its observation
        position = span.position
        tails = (sequences[span.datum - 1][position:], observation[position:])
        share = budget // (len(splits) - number)
        edit = cheapest_edit(*tails, share)
        budget -= edit.work
        item = Break(
            turn=span.turn,
            position=position,
            expected=held[position],
            got=new[position] if position < len(new) else None,
            cause=name_break_cause(held, new, position, edit, tails, vocab),
            origin=turn_origin(spans, span.turn, position),
            resumes_datum=break_resumed_datum(stored, span.datum, observation),
            removed=edit.removed,
            inserted=edit.inserted,
            kept=edit.kept,
            bounded=None if edit.exact else break_bound_sentence(share, tails),
            held=span.held,
            again=break_read_again(held, new, position, edit, stored, span.datum),
        )
        if details:
            item = break_with_changes(item, held, new, spans, edit, tails, vocab)
        breaks.append(item)
    resumes = any(item.resumes_datum is not None for item in breaks)
    count = lineages_count(trajectory) if resumes else sum(map(bool, map(len, sequences)))
    return breaks_with_patterns(breaks, trajectory, spans, count, details), count


def breaks_with_patterns(
    breaks: list[Break],
    trajectory: Trajectory,
    spans: Sequence[TurnSpan],
    lineages: int,
    details: bool,
) -> list[Break]:
    """The breaks with the patterns that only the whole rollout shows.

    Args:
        breaks: All of them.
        trajectory, spans: The rollout and its walk.
        lineages: Datums there would be if every open sequence were kept.
        details: As for `find_breaks`.
    """
    if any(item.resumes_datum is not None for item in breaks):
        breaks = [
            replace(item, patterns=("takes_turns",)) if item.cause == "new_context" else item
            for item in breaks
        ]
    backwards = {
        item.turn
        for item in breaks
        if spans[item.turn].observation < spans[item.turn - 1].observation
    }
    datums = spans[-1].datum + 1 if spans else 0
    hint = order_hint(trajectory, datums, lineages) if backwards and details else None
    if hint is None:
        return breaks
    return [
        replace(item, hints=(*item.hints, hint), patterns=(*item.patterns, "out_of_order"))
        if item.turn in backwards
        else item
        for item in breaks
    ]


def break_held_and_new(trajectory: Trajectory, turn: int) -> tuple[list[Any], list[Any]]:
    """The sequence held before a turn that splits, and that turn's observation."""
    before = trajectory.transitions[turn - 1]
    held = [*model_input_to_elements(before.ob), *before.ac.tokens]
    return held, model_input_to_elements(trajectory.transitions[turn].ob)


def break_bound_sentence(share: int, tails: tuple[Codes, Codes]) -> str:
    """What is said where the search for the cheapest edit gave up."""
    return (
        f"The search for the cheapest edit stopped at its bound of {share:,} steps "
        f"({len(tails[0]):,} held against {len(tails[1]):,} new elements)."
    )


def break_with_changes(
    item: Break,
    held: Sequence[Any],
    new: Sequence[Any],
    spans: Sequence[TurnSpan],
    edit: Edit,
    tails: tuple[Codes, Codes],
    vocab: Mapping[int, str],
) -> Break:
    """The break with what can be said about the elements that changed."""
    blocks: list[Block] | None = None
    if edit.exact and item.cause in ("removed", "inserted", "replaced"):
        blocks = edit_kept_blocks(tails[0], tails[1][: edit.taken], edit.kept, cells=2_000_000)
    if blocks is None:
        return replace(item, lost=hint_part(item.origin, spans, item.turn))
    start = item.position
    blocks = [(0, 0, start), *((start + a, start + b, length) for a, b, length in blocks)]
    changes = hint_changes(held, new[: start + edit.taken], blocks, spans, item.turn)
    hints = {} if item.cause == "replaced" else change_hints(changes, vocab)
    return replace(
        item,
        lost=hint_lost_part(changes, vocab),
        patterns=tuple(hints),
        hints=tuple(hints.values()),
    )
