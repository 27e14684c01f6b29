"""The cheapest edit between two sequences."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import LCSseq

from sequence_extension.rollout import MAX_TOKEN_ID, common_prefix_length


class ElementCodes:
    """Elements as unsigned 32-bit numbers: equal numbers exactly where elements are equal.

    A token id up to `MAX_TOKEN_ID` is its own number. Anything else (an image chunk, which
    compares as the cookbook compares it, or an id out of range) gets the next number above.
    """

    def __init__(self) -> None:
        self._rare: dict[Any, int] = {}

    def encode(self, elements: Sequence[Any]) -> NDArray[np.uint32]:
        """One number per element."""
        try:
            codes = np.asarray(array("I", elements), dtype=np.uint32)
            if not len(codes) or int(np.max(codes)) <= MAX_TOKEN_ID:
                return codes
        except (TypeError, OverflowError):
            pass
        return np.array([self._code(element) for element in elements], dtype=np.uint32)

    def decode(self, code: int) -> Any:
        """The element that has this number; of equal ones, the first that was encoded."""
        return code if code <= MAX_TOKEN_ID else list(self._rare)[code - MAX_TOKEN_ID - 1]

    def _code(self, element: Any) -> int:
        if isinstance(element, int) and 0 <= element <= MAX_TOKEN_ID:
            return element
        try:
            hash(element)
        except TypeError:
            element = (type(element).__name__, repr(element))
        return self._rare.setdefault(element, MAX_TOKEN_ID + 1 + len(self._rare))


def codes_to_text(*parts: NDArray[np.uint32]) -> list[str] | None:
    """Number sequences as strings, one character per element, for the diff library.

    rapidfuzz reads a string in place, where it would hash every entry of a list. Numbers
    that are no code point are ranked first; None when there are too many distinct ones.
    """
    joined = np.concatenate(parts)
    if len(joined) and int(np.max(joined)) > 0x10F7FF:
        distinct, ranks = np.unique(joined, return_inverse=True)
        if len(distinct) > 0x10F800:
            return None
        joined = ranks.astype(np.uint32)
    # Surrogates (0xD800 to 0xDFFF) are no characters: step over them.
    joined = (joined + np.uint32(0x800) * (joined >= 0xD800)).astype("<u4")
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    return [part.tobytes().decode("utf-32-le") for part in np.split(joined, cuts)]


def narrow_texts(left: str, right: str) -> tuple[str, str, bool]:
    """Both texts over an alphabet of at most 256 letters: equal letters stay equal.

    Their common subsequence is never shorter than that of the originals, and rapidfuzz finds
    it several times faster, so it proves cheaply what cannot be better.

    Returns:
        The two texts, and whether nothing was merged, so that the bound is the value.
    """
    joined = np.frombuffer((left + right).encode("utf-32-le"), dtype="<u4")
    _, ranks, counts = np.unique(joined, return_inverse=True, return_counts=True)
    # Common letters share their new letter with rare ones only: the bound stays close.
    order = np.empty(len(counts), dtype=np.uint32)
    order[np.argsort(-counts, kind="stable")] = np.arange(len(counts), dtype=np.uint32) % 256
    text = order[ranks].astype(np.uint8).tobytes().decode("latin-1")
    return text[: len(left)], text[len(left) :], len(counts) <= 256


def subsequence_reach(needle: str, hay: str) -> tuple[int, int]:
    """How much of `needle`, from its start, `hay` contains in order, and where it ends there.

    Leftmost matching, so both numbers are best possible: no longer prefix fits, and this one
    does not fit into less of `hay`.
    """
    matched = end = 0
    while matched < len(needle):
        found = hay.find(needle[matched], end)
        if found < 0:
            break
        run = common_prefix_length(needle, hay, matched, found)
        matched, end = matched + run, found + run
    return matched, end


@dataclass(frozen=True)
class Edit:
    """The cheapest edit of what was held behind a break into what came instead.

    Attributes:
        taken: How much of the new tail it explains; what follows is simply new.
        kept: Elements kept, in order; `removed` and `inserted` follow from it.
        size: Length of the held tail.
        exact: False when the search gave up; then this is the best edit found.
        kept_at_most: No cheapest edit keeps more than this.
        work: Comparisons spent.
    """

    taken: int
    kept: int
    size: int
    exact: bool
    kept_at_most: int
    work: int

    @property
    def removed(self) -> int:
        """Held elements that are gone."""
        return self.size - self.kept

    @property
    def inserted(self) -> int:
        """Elements that were not there before."""
        return self.taken - self.kept


def cheapest_edit(held: str, new: str, work: int) -> Edit:
    """Cheapest edit of `held` into a prefix of `new`, the rest of `new` being free.

    With L(j) the longest common subsequence of `held` and `new[:j]` (rapidfuzz), the edit
    into `new[:j]` removes len(held) - L(j) and inserts j - L(j). Cheapest, and keeping most
    among equals, is the j with the largest gain 2 L(j) - j, the largest such j among equals.
    L never falls and grows by at most 1 per step, so two known values bound the gain between
    them, and most stretches of j are ruled out without a look. A gain never exceeds
    2 len(held) - j, so no j beyond 2 len(held) matters.

    Args:
        held, new: One character per element; their first characters differ.
        work: Comparisons (cells of the dynamic program over a small alphabet) to spend.
    """
    size = len(held)
    new = new[: 2 * size]
    reach, _ = subsequence_reach(new, held)
    matched, complete = subsequence_reach(held, new)
    if matched == size:
        best = max((reach, reach), (2 * size - complete, complete))
    else:
        best, complete = (reach, reach), len(new) + 1
    kept = {reach: reach, complete: size}
    backward = (held[::-1], new[::-1])
    narrow: list[tuple[str, str, bool]] = []
    spent = 0

    def probe(taken: int, floor: int | None = None) -> int | None:
        """An upper bound on L(taken), exact where it could win; None when work has run out."""
        nonlocal spent, best
        gain, leader = best
        need = (gain + taken + 1) // 2 if taken > leader else (gain + taken) // 2 + 1
        tail = common_prefix_length(backward[0], backward[1], 0, len(new) - taken)
        rows, columns = size - tail, taken - tail
        # Values far below `need` are of no use: the library may stop early on them.
        if floor is None:
            floor = need - (size - gain) // 2 - 32
        floor = max(0, floor - tail)
        band = rows + columns - 2 * floor
        cells = min(rows * columns, max(rows, columns) * band) + 16 * (rows + columns)
        texts = [(held[:rows], new[:columns], True, 8)]
        if cells > 1_000_000:
            if not narrow:
                narrow.append(narrow_texts(held, new))
            small, short, same = narrow[0]
            texts = [(small[:rows], short[:columns], same, 1), *([] if same else texts)]
        bound = 0
        for old, now, same, price in texts:
            if spent + price * cells > work:
                return None
            spent += price * cells
            found = LCSseq.similarity(old, now, score_cutoff=floor or None)
            bound = tail + (found if found or not floor else floor - 1)
            if same and (found or not floor):
                kept[taken] = bound
                best = max(best, (2 * bound - taken, taken))
            elif bound < need:
                break
        return bound

    # Likely places to end: where the last of what was held turns up again, or after as many
    # elements as were held. A small band around the diagonal settles them cheaply.
    likely = {min(size, len(new))}
    for length in (64, 16, 4):
        found = new.find(held[-length:])
        if found >= 0:
            likely.add(found + min(length, size))
            break
    for taken in likely - {0}:
        probe(taken, floor=min(size, taken) - 256)
    # Open stretches of j with bounds on L just inside both ends. Left of `reach` and right of
    # `complete` the gain only falls; between them something is removed and inserted.
    stretches: list[tuple[int, ...]] = []

    def consider(left: int, left_kept: int, right: int, right_kept: int) -> None:
        """Keep an open stretch for later if a j in it could still win."""
        right_kept = min(right_kept, left_kept + right - left)
        peak = min(max(left + right_kept - left_kept, left + 1), right - 1)
        gain = 2 * min(left_kept + peak - left, right_kept) - peak
        if left < peak and (gain, peak) > best:
            heappush(stretches, (-gain, -peak, left, left_kept, right, right_kept))

    consider(reach, reach - 1, complete, size - 1)
    most = 0
    while stretches:
        gain, peak, left, left_kept, right, right_kept = heappop(stretches)
        if (-gain, -peak) <= best:
            break
        bound = kept[-peak] if -peak in kept else probe(-peak)
        if bound is None:
            most = max(right_kept, *(stretch[-1] for stretch in stretches), 0)
            break
        consider(left, left_kept, -peak, bound)
        consider(-peak, bound, right, right_kept)
    taken = best[1]
    return Edit(taken, kept[taken], size, not most, max(most, kept[taken]), spent)


def align_tails(held: str, new: str, cells: int = 40_000_000) -> list[tuple[int, int, int]] | None:
    """What a cheapest edit of `held` into `new` keeps, in as few blocks as two readings give.

    rapidfuzz keeps one bit per cell to find its way back, so the work is bounded. Several
    edits may be equally cheap; read from the front and from the back, the one with fewer
    blocks is taken.

    Args:
        held, new: One character per element, `new` cut where the cheapest edit ends.
        cells: Most cells allowed, after a common end is cut off.

    Returns:
        Blocks (start in held, start in new, length) in order; None beyond the bound.
    """
    tail = common_prefix_length(held[::-1], new[::-1])
    rows, columns = len(held) - tail, len(new) - tail
    if rows * columns > cells:
        return None
    old, now = held[:rows], new[:columns]
    kept = LCSseq.opcodes(old, now)
    forward = [(op.src_start, op.dest_start, op.src_end) for op in kept if op.tag == "equal"]
    kept = LCSseq.opcodes(old[::-1], now[::-1])
    backward = [
        (rows - op.src_end, columns - op.dest_end, rows - op.src_start)
        for op in reversed(list(kept))
        if op.tag == "equal"
    ]
    readings = [
        join_blocks(
            held,
            new,
            [(start, other, end - start) for start, other, end in reading]
            + ([(rows, columns, tail)] if tail else []),
        )
        for reading in (forward, backward)
    ]
    return min(readings, key=len)


def join_blocks(
    held: str, new: str, blocks: Sequence[tuple[int, int, int]]
) -> list[tuple[int, int, int]]:
    """Slide a whole block across a gap on one side where that joins it to its neighbour."""
    joined: list[tuple[int, int, int]] = []
    for block in blocks:
        c, d, length = block
        while joined:
            a, b, size = joined[-1]
            # The gap lies in one text only; in the other the two blocks touch.
            if b + size == d and held[a : a + size] == held[c - size : c]:
                c, d = c - size, b
            elif a + size == c and new[b : b + size] == new[d - size : d]:
                c, d = a, d - size
            elif (b + size == d and held[c : c + length] == held[a + size : a + size + length]) or (
                a + size == c and new[d : d + length] == new[b + size : b + size + length]
            ):
                c, d = a, b
            else:
                break
            length += size
            joined.pop()
        joined.append((c, d, length))
    return joined
