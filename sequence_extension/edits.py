"""How far two sequences agree, and the cheapest edit behind it."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sequence_extension.elements import MAX_TOKEN_ID

# A kept block: where it starts in what was held, where in what came, and its length.
Block = tuple[int, int, int]
Codes = NDArray[np.uint32]


def unedited_prefix_length(
    left: Sequence[Any], right: Sequence[Any], left_start: int = 0, right_start: int = 0
) -> int:
    """Length of the common prefix of two sequences, each read from its start index on.

    Strides that double find the stretch with the first difference, halving finds the place:
    an early difference costs little however long the sequences are. Comparisons run in C.
    """
    i, j = left_start, right_start
    end = max(0, min(len(left) - i, len(right) - j))
    low, stride = 0, 64
    while low < end:
        high = min(low + stride, end)
        if left[i + low : i + high] == right[j + low : j + high]:
            low, stride = high, stride * 2
            continue
        while high - low > 1:
            middle = (low + high) // 2
            if left[i + low : i + middle] == right[j + low : j + middle]:
                low = middle
            else:
                high = middle
        return low
    return end


class ElementCodes:
    """Elements as unsigned 32-bit numbers: equal numbers exactly where elements are equal.

    A token id up to `MAX_TOKEN_ID` is its own number. Anything else (an image chunk, which
    compares as the cookbook compares it, or an id out of range) gets the next number above.
    """

    def __init__(self) -> None:
        self._rare: dict[Any, int] = {}

    def encode(self, elements: Sequence[Any]) -> Codes:
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


@dataclass(frozen=True)
class Edit:
    """The cheapest edit of what was held behind a break into what came instead.

    Attributes:
        taken: How much of the new tail it explains; what follows is simply new.
        kept: Elements kept, in order; `removed` and `inserted` follow from it.
        size: Length of the held tail.
        work: Steps spent, see `cheapest_edit`.
        exact: False where the budget did not allow the search; then nothing is kept.
    """

    taken: int
    kept: int
    size: int
    work: int = 0
    exact: bool = True

    @property
    def removed(self) -> int:
        """Held elements that are gone."""
        return self.size - self.kept

    @property
    def inserted(self) -> int:
        """Elements that were not there before."""
        return self.taken - self.kept


def cheapest_edit(held: Codes, new: Codes, budget: int) -> Edit:
    """Cheapest edit of `held` into a prefix of `new`, the rest of `new` being free.

    Among equally cheap ones, the one that keeps more. Few changes are found by their number,
    whatever the lengths; more by the longest common subsequence of `held` with every prefix of
    `new`, looked for in a band around the diagonal: an edit that costs no more than the band
    is wide cannot leave it. To remove all costs len(held), so the search ends.

    Args:
        held, new: Coded elements; their first elements differ.
        budget: Steps to spend, each about 10 ns on one core. Counted, not timed: the same
            rollout gets the same answer everywhere.
    """
    size = len(held)
    new = new[: 2 * size]
    # as many as are found in the time that the rows of the first band take
    rows = size * (min(3 * 2048, len(new)) // 64 + 100)
    limit = min(size, 200, int((min(rows, budget) / 250) ** 0.5))
    few = cheapest_edit_within(held, new, limit)
    if few is not None:
        return Edit(*few, size, 50 * (size + few[0] - 2 * few[1]) ** 2)
    work, band, most = 50 * limit**2, 2048, simple_edit(held, new)
    while True:
        band = min(band, most) if most > 16 * band else most
        work += size * (min(3 * band, len(new)) // 64 + 100)
        if work > budget:
            return Edit(0, 0, size, budget, exact=False)
        kept = edit_common_lengths(held, new, band)
        cost = size + np.arange(len(kept)) - 2 * kept
        taken = int(len(kept) - 1 - np.argmin(cost[::-1]))
        if cost[taken] <= band:
            return Edit(taken, int(kept[taken]), size, work)
        band, most = 4 * band, min(most, int(cost[taken]))


def simple_edit(held: Codes, new: Codes) -> int:
    """Cost of the cheapest edit that only removes or only inserts: no cheapest one costs more."""
    old: list[int] = held.tolist()
    now: list[int] = new.tolist()
    kept = 0
    for code in old:
        kept += kept < len(now) and code == now[kept]
    cost, kept = len(old) - kept, 0
    for taken, code in enumerate(now, 1):
        kept += code == old[kept]
        if kept == len(old):
            return min(cost, taken - kept)
    return cost


def cheapest_edit_within(held: Codes, new: Codes, limit: int) -> tuple[int, int] | None:
    """(taken, kept) of the cheapest edit if it has at most `limit` changes, else None.

    Myers, "An O(ND) difference algorithm" (1986), with a free end: the search ends with the
    fewest changes that use up `held`.
    """
    old, now = held.tolist(), new.tolist()
    raw, other = held.tobytes(), new.tobytes()
    size, end = len(old), len(now)
    reach = {0: 0}  # per diagonal (inserted less removed) how much of `held` is used up
    for changes in range(limit + 1):
        # of edits with equally many changes, the one furthest to the right keeps most
        for diagonal in range(changes, -changes - 1, -2):
            i = reach.get(diagonal - 1, -1)  # one more inserted
            i = max(i, reach.get(diagonal + 1, -2) + 1)  # one more removed
            i = 0 if not changes else i
            if i < 0 or i > size or i + diagonal > end or i + diagonal < 0:
                reach.pop(diagonal, None)
                continue
            j = i + diagonal
            if i < size and j < end and old[i] == now[j]:
                i += unedited_prefix_length(raw, other, 4 * i, 4 * j) // 4
            reach[diagonal] = i
            if i == size:
                return size + diagonal, size - (changes - diagonal) // 2
    return None


def edit_common_lengths(held: Codes, new: Codes, band: int) -> NDArray[np.int64]:
    """Length of the longest common subsequence of `held` with `new[:j]`, for every j from 0.

    A row of the table is one whole number, a bit per element of `new` (Crochemore and others
    2001): a bit that is 0 says that the length grows there.

    Args:
        held, new: Coded elements.
        band: Pairs further from the diagonal than this are not looked at; lengths that need
            some come out too small.
    """
    columns = np.flatnonzero(np.isin(new, held))  # only these can ever match
    grows = np.zeros(len(new) + 1, dtype=np.int64)
    row, low, high = 0, 0, 0  # the columns that the row stands for

    def close(until: int) -> None:
        """Write down the columns that no further row looks at."""
        nonlocal row, low
        bits = (row & ((1 << (until - low)) - 1)).to_bytes((until - low) // 8 + 1, "little")
        ones = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little")
        grows[columns[low:until] + 1] = 1 - ones[: until - low]
        row, low = row >> (until - low), until

    height = max(band, 1)
    for start in range(0, len(held), height):
        block = held[start : start + height]
        first, last = np.searchsorted(columns, [start - band, start + len(block) + band])
        close(max(low, min(int(first), high)))
        row, high = row | ((1 << (int(last) - high)) - 1) << (high - low), int(last)
        seen = new[columns[low:high]]
        order = np.argsort(seen, kind="stable")
        values, starts = np.unique(seen[order], return_index=True)
        ends = [*starts.tolist(), len(order)][1:]
        places = dict(zip(values.tolist(), zip(starts.tolist(), ends, strict=True), strict=True))
        masks: dict[int, int] = {}
        full, room = (1 << (high - low)) - 1, 64_000_000  # room for masks, in bytes
        for count, code in enumerate(block.tolist()):
            if code not in places:
                continue
            mask = masks.get(code, 0)
            if not mask:
                for place in order[slice(*places[code])].tolist():
                    mask |= 1 << place
                if room > 0:
                    masks[code] = mask
                    room -= mask.bit_length() // 8
            hits = row & mask
            row = (row + hits) | (row - hits)
            if not count % 64:
                row &= full  # carries
        row &= full
    close(high)
    return np.cumsum(grows)


def edit_kept_blocks(
    held: Codes, new: Codes, kept: int, cells: int = 30_000_000
) -> list[Block] | None:
    """What a cheapest edit of `held` into `new` keeps, in as few blocks as possible.

    Args:
        held, new: Coded elements, `new` cut where the edit ends.
        kept: How many elements it keeps.
        cells: Most cells of a table that are filled; beyond, None.
    """
    removed, inserted = len(held) - kept, len(new) - kept
    if (removed + 1) * (inserted + 1) <= cells // 1_000:
        blocks = edit_blocks_by_changes(held, new, removed, inserted, cells // 100)
        if blocks is not None:
            return blocks
    if len(held) * (removed + inserted + 500) > cells:
        return None
    return edit_blocks_by_rows(held, new, removed, inserted)


def edit_blocks_by_changes(
    held: Codes, new: Codes, removed: int, inserted: int, entries: int
) -> list[Block] | None:
    """Fewest blocks where few elements change, whatever the lengths; None beyond `entries`.

    `reach[x][y][b]` is the most that can be kept with x elements removed, y inserted and b
    blocks. More kept in as many blocks is never worse, so blocks are taken as long as they go.
    """
    old, now = held.tolist(), new.tolist()
    raw, other = held.tobytes(), new.tobytes()
    reach: list[list[list[int]]] = []

    def before(x: int, y: int) -> list[int]:
        """Most kept per number of blocks on arrival, before a block starts here."""
        ways = [reach[x - 1][y]] if x else []
        ways += [reach[x][y - 1]] if y else []
        longest = max(map(len, ways), default=1)
        return [max((way[min(b, len(way) - 1)] for way in ways), default=0) for b in range(longest)]

    for x in range(removed + 1):
        reach.append([])
        for y in range(inserted + 1):
            most = before(x, y)
            ends = [*most, 0]
            for b, kept in enumerate(most):
                i, j = kept + x, kept + y
                if i < len(old) and j < len(now) and old[i] == now[j]:
                    kept += unedited_prefix_length(raw, other, 4 * i, 4 * j) // 4
                ends[b + 1] = max(ends[b + 1], kept)
            while len(ends) > 1 and ends[-1] <= ends[-2]:
                ends.pop()
            reach[x].append(ends)
            entries -= len(ends)
            if entries < 0:
                return None
    x, y = removed, inserted
    b = reach[x][y].index(max(reach[x][y]))
    blocks: list[Block] = []
    while True:
        most, kept = before(x, y), reach[x][y][b]
        if b >= len(most) or most[b] < kept:
            b -= 1
            start = most[b]
            blocks.append((start + x, start + y, kept - start))
            kept = start
        if not x and not y:
            return blocks[::-1]
        if x and reach[x - 1][y][min(b, len(reach[x - 1][y]) - 1)] == kept:
            x -= 1
        else:
            y -= 1
        b = reach[x][y].index(kept)


def edit_blocks_by_rows(held: Codes, new: Codes, removed: int, inserted: int) -> list[Block]:
    """Fewest blocks by a table over the diagonals that an edit with these counts can touch.

    A cell's score is what is kept, less a little per block; a row is filled at once.
    """
    size, width = len(held), removed + inserted + 1
    block = size + 1  # worth of an element: more than all blocks together
    padded = np.full(size + width, -1, dtype=np.int64)
    padded[removed : removed + len(new)] = new
    low = np.int64(-(2**60))
    best = np.full(width + 1, low)  # of all ways to a cell; one cell more, to look beyond
    best[removed:width] = 0
    inside = np.full(width, low)  # of those that end with an element kept
    moves = np.zeros((size, width), dtype=np.uint8)
    for i, code in enumerate(held.tolist()):
        goes_on = inside >= best[:width] - 1
        inside = np.maximum(inside, best[:width] - 1) + block
        inside[padded[i : i + width] != code] = low
        skips = best[1:].copy()  # an element of `held` is removed
        best[:width] = np.maximum.accumulate(np.maximum(skips, inside))
        moves[i] = goes_on + 2 * (best[:width] == inside) + 4 * (best[:width] == skips)
    blocks: list[Block] = []
    i, c, keeps = size, inserted, False
    while i:
        move = int(moves[i - 1, c])
        if keeps or move & 2:
            if not keeps:
                blocks.append((i, i + c - removed, 0))
            start, other, length = blocks[-1]
            blocks[-1] = (start - 1, other - 1, length + 1)
            i, keeps = i - 1, bool(move & 1)
        elif move & 4:
            i, c = i - 1, c + 1
        else:
            c -= 1
    return blocks[::-1]
