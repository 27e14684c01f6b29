"""Where the running sequence breaks, why, and where the lost token came from."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sequence_extension.cookbook import Trajectory
from sequence_extension.edits import (
    Edit,
    ElementCodes,
    align_tails,
    cheapest_edit,
    codes_to_text,
)
from sequence_extension.hints import edit_hints, order_hint
from sequence_extension.rollout import common_prefix_length, element_length, model_input_to_elements
from sequence_extension.text import text_bytes
from sequence_extension.turns import Origin, TurnSpan, trace_origin


@dataclass(frozen=True)
class Break:
    """A turn whose observation does not continue the running sequence.

    Attributes:
        turn: The turn that splits.
        position: Length of the common prefix of held sequence and new observation.
        expected: Element of the held sequence at `position`.
        got: Element of the observation at `position`; None where it has ended.
        cause: One of the named causes (design table), by the first rule that applies.
        origin: Where `expected` came from.
        resumes_datum: Index of an earlier datum that this observation does extend, or None.
        removed, inserted, kept: Element counts of the cheapest edit behind `position`
            (the best edit found, where `bounded` is set).
        bounded: The sentence that names the bound when the search gave up, else None.
        held: Length of the running sequence in elements.
        hints: Short sentences for patterns that need another remedy than the usual one.
        again: Tokens of the new observation that were inputs of an earlier datum, in order:
            they are processed once more. A resumed datum counts with all its inputs.
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
    hints: tuple[str, ...] = ()


def text_units(element: Any, vocab: Mapping[int, str]) -> list[int] | None:
    """Bytes of an element's text; its own id, below 0, where they are not known; None without text.

    So a piece of a character whose bytes were lost equals only the same id.
    """
    text = vocab.get(element) if isinstance(element, int) else None
    if text is None:
        return None
    raw = text_bytes(text)
    return [-1 - element] if raw is None else list(raw)


def same_text(
    held: Sequence[Any], new: Sequence[Any], start: int, vocab: Mapping[int, str]
) -> bool:
    """Does the text of `new` start with the text of `held`, both equal up to `start`?

    Bytes are compared. Every id behind `start` that is needed must be in the vocabulary.
    """
    ahead: list[int] = []  # what `new` has and `held` has yet to match
    place = start
    for element in held[start:]:
        wanted = text_units(element, vocab)
        if wanted is None:
            return False
        while len(ahead) < len(wanted):
            piece = text_units(new[place], vocab) if place < len(new) else None
            if piece is None or ahead != wanted[: len(ahead)]:
                return False
            ahead += piece
            place += 1
        if ahead[: len(wanted)] != wanted:
            return False
        del ahead[: len(wanted)]
    return True


def name_cause(
    held: Sequence[Any],
    new: Sequence[Any],
    position: int,
    edit: Edit,
    tails: Sequence[str],
    vocab: Mapping[int, str],
) -> str:
    """The first rule of the design's table that applies.

    Where the search for the cheapest edit gave up, a cause is named only if no edit that was
    left out could change it; otherwise it is `replaced`, and the caller names the bound.

    Args:
        held, new: Elements of the running sequence and of the observation.
        position: Length of their common prefix, smaller than len(held).
        edit: Cheapest edit behind `position`.
        tails: Held and new behind `position` as text (`codes_to_text`).
        vocab: Text of token ids where known.
    """
    if position == len(new):
        return "shortened"
    if not isinstance(held[position], int) or not isinstance(new[position], int):
        return "image_changed"
    if position == len(held) - 1:
        return "end_token"
    if same_text(held, new, position, vocab):
        return "retokenised"
    pure = not edit.removed or not edit.inserted
    if edit.exact and edit.kept and not edit.inserted:
        return "removed"
    if edit.exact and not edit.removed:
        return "inserted"
    if 2 * (position + edit.kept_at_most) < len(held) and (edit.exact or not pure):
        return "new_context"
    if edit.exact and edit.removed == edit.inserted:
        old, now = tails[0], tails[1][: edit.taken]
        changed = len(old) - common_prefix_length(old[::-1], now[::-1])
        if Counter(old[:changed]) == Counter(now[:changed]):
            return "reordered"
    return "replaced"


def datum_codes(
    trajectory: Trajectory, spans: Sequence[TurnSpan], codes: ElementCodes
) -> list[NDArray[np.uint32]]:
    """Every datum's whole sequence as numbers: its last turn's observation and action."""
    last = {span.datum: span.turn for span in spans}
    sequences = []
    for turn in last.values():
        transition = trajectory.transitions[turn]
        sequences.append(
            np.concatenate(
                [
                    codes.encode(model_input_to_elements(transition.ob)),
                    codes.encode(transition.ac.tokens),
                ]
            )
        )
    return sequences


def picture_tokens(shared: Sequence[Any], tail: Sequence[Any], rest: Sequence[Any]) -> int:
    """Tokens beyond one each of the images in `shared`, and of those in both `tail` and `rest`."""
    left = [element for element in tail if not isinstance(element, int)]
    both = [element for element in shared if not isinstance(element, int)]
    for element in rest if left else ():
        if element in left:
            left.remove(element)
            both.append(element)
    return sum(element_length(element) - 1 for element in both)


def find_breaks(
    trajectory: Trajectory,
    spans: Sequence[TurnSpan],
    vocab: Mapping[int, str],
    codes: ElementCodes,
    sequences: Sequence[NDArray[np.uint32]],
) -> tuple[list[Break], int]:
    """Every break with its cause, and the number of datums if lineages were tracked.

    A lineage is an open sequence: a turn may go on from the latest datum (as in the
    cookbook) or, at a break, from any earlier one that nobody has gone on from; the longest
    is taken.

    Args:
        trajectory, spans: The rollout and its walk.
        vocab: Text of token ids where known.
        codes, sequences: Coder and coded datums of `datum_codes`.
    """
    splits = [span for span in spans if span.splits]
    # Comparisons to spend: about half a second, plus what a datum per turn costs anyway.
    budget = 20_000_000_000 + 10_000 * sum(span.observation + span.action for span in spans)
    stored = [sequence.tobytes() for sequence in sequences] if splits else []
    breaks: list[Break] = []
    continued: set[int] = set()
    for number, span in enumerate(splits):
        previous = trajectory.transitions[span.turn - 1]
        said = list(previous.ac.tokens)
        held = model_input_to_elements(previous.ob)
        held = held + said if said else held
        new = model_input_to_elements(trajectory.transitions[span.turn].ob)
        coded = sequences[span.datum][: len(new)]  # a datum starts with its first observation
        tails = codes_to_text(sequences[span.datum - 1][span.position :], coded[span.position :])
        share = budget // (len(splits) - number)
        size = span.held - span.position
        if tails is None:
            tails, edit = ["", ""], Edit(0, 0, size, False, size, 0)
        else:
            edit = cheapest_edit(tails[0], tails[1], share)
        budget -= edit.work
        cause = name_cause(held, new, span.position, edit, tails, vocab)
        bounded = None
        if not edit.exact:
            bounded = (
                f"The search for the cheapest edit stopped at its bound of {share:,} "
                f"comparisons ({size:,} held against {len(new) - span.position:,} new "
                "elements); the counts are those of the best edit found."
            )
        hints: list[str] = []
        end = span.position + edit.taken
        blocks = (
            align_tails(tails[0], tails[1][: edit.taken])
            if cause in ("removed", "inserted")
            else None
        )
        if blocks is not None:
            whole = [(0, 0, span.position)]
            whole += [(span.position + a, span.position + b, length) for a, b, length in blocks]
            hints = edit_hints(held, new[:end], spans, span.turn, whole, vocab)
        raw = coded.tobytes()
        extended = [
            datum
            for datum, earlier in enumerate(stored[: span.datum])
            if earlier and raw.startswith(earlier)
        ]
        extended.sort(key=lambda datum: (len(stored[datum]), datum))
        resumes = extended[-1] if extended else None
        free = [datum for datum in extended if datum not in continued]
        if free:
            continued.add(free[-1])
        # the last element held was a target, never an input: not read before
        came_back = edit.kept > 0 and new[span.position + edit.taken - 1] == held[-1]
        again = span.position + edit.kept - came_back
        shared, tail = span.position, held[span.position : -1]
        if resumes is not None and len(sequences[resumes]) - 1 > again:
            again = shared = len(sequences[resumes]) - 1
            tail = []
        again += picture_tokens(new[:shared], tail, new[shared:])
        breaks.append(
            Break(
                turn=span.turn,
                position=span.position,
                expected=held[span.position],
                got=new[span.position] if span.position < len(new) else None,
                cause=cause,
                origin=trace_origin(spans, span.turn, span.position),
                resumes_datum=resumes,
                removed=edit.removed,
                inserted=edit.inserted,
                kept=edit.kept,
                bounded=bounded,
                held=span.held,
                again=again,
                hints=tuple(hints),
            )
        )
    datums = sum(1 for sequence in sequences if len(sequence))
    lineages = datums - len(continued)
    backwards = {
        span.turn for span in splits if span.observation < spans[span.turn - 1].observation
    }
    hint = order_hint(trajectory, datums, lineages) if backwards else None
    if hint is not None:
        breaks = [
            replace(item, hints=(*item.hints, hint)) if item.turn in backwards else item
            for item in breaks
        ]
    return breaks, lineages
