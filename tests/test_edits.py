"""The cheapest edit: cost, then more kept, then fewer blocks, against a table filled cell by cell.

1. Every way to find it (few changes, rows of bits, bands) says what the table says.
2. Every way to lay it out (by changes, by rows) has as few blocks as the table.
3. What is too long is refused by count, and says so; typical breaks of long rollouts are not.
"""

import random
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequence_extension.edits import (
    Codes,
    ElementCodes,
    cheapest_edit,
    cheapest_edit_within,
    edit_blocks_by_changes,
    edit_blocks_by_rows,
    edit_common_lengths,
    edit_kept_blocks,
    simple_edit,
)

PLENTY = 10**12


def coded(elements: Sequence[int]) -> Codes:
    return np.array(elements, dtype=np.uint32)


def oracle(held: Sequence[int], new: Sequence[int]) -> tuple[int, int, int]:
    """(taken, kept, blocks) of the cheapest edit: the whole table, cell by cell."""
    columns = range(len(new) + 1)
    best = [[(0, 0) for _ in columns]]  # kept, blocks below 0
    ends: list[list[tuple[int, int] | None]] = [[None for _ in columns]]  # with an element kept
    for old in held:
        row, last = [(0, 0)], [None]
        for j in columns[1:]:
            ways = [best[-1][j], row[-1]]
            match = None
            if old == new[j - 1]:
                kept, blocks = best[-1][j - 1]
                match = (kept + 1, blocks - 1)
                before = ends[-1][j - 1]
                if before is not None:
                    match = max(match, (before[0] + 1, before[1]))
                ways.append(match)
            row.append(max(ways))
            last.append(match)  # type: ignore[arg-type]
        best.append(row)
        ends.append(last)  # type: ignore[arg-type]
    end = best[-1]
    taken = min(columns, key=lambda j: (len(held) + j - 2 * end[j][0], -end[j][0]))
    return taken, end[taken][0], -end[taken][1]


@st.composite
def tails(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """What was held and what came, first elements different; from unrelated to nearly equal."""
    letters = st.integers(0, draw(st.sampled_from([1, 2, 4, 30])))
    held = draw(st.lists(letters, min_size=1, max_size=24))
    new = list(held) if draw(st.booleans()) else []
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(new)))
        new[at : at + draw(st.integers(0, 4))] = draw(st.lists(letters, max_size=4))
    new += draw(st.lists(letters, max_size=12))
    start = next(
        (k for k, (a, b) in enumerate(zip(held, new, strict=False)) if a != b),
        min(len(held), len(new)),
    )
    return held[start:] or [99], new[start:] if held[start:] else [98]


def check_blocks(held: Sequence[int], new: Sequence[int], blocks: Any, kept: int) -> None:
    i = j = 0
    for start, other, length in blocks:
        assert start >= i
        assert other >= j
        assert length > 0
        assert held[start : start + length] == new[other : other + length]
        i, j = start + length, other + length
    assert sum(length for *_, length in blocks) == kept


@settings(max_examples=800, deadline=None)
@given(tails())
def test_every_way_says_what_the_table_says(both: tuple[list[int], list[int]]) -> None:
    held, new = both
    taken, kept, blocks = oracle(held, new)
    cost = len(held) + taken - 2 * kept
    old, now = coded(held), coded(new)
    edit = cheapest_edit(old, now, PLENTY)
    assert (edit.taken, edit.kept, edit.exact) == (taken, kept, True)
    assert (edit.removed, edit.inserted) == (len(held) - kept, taken - kept)
    assert cheapest_edit_within(old, now, len(held)) == (taken, kept)
    assert cheapest_edit_within(old, now, cost) == (taken, kept)
    assert cheapest_edit_within(old, now, cost - 1) is None
    assert simple_edit(old, now) >= cost
    ahead = now[: 2 * len(held)]
    for band in (cost, cost + 1, len(held)):  # no edit of this cost leaves such a band
        lengths = edit_common_lengths(old, ahead, band)
        costs = len(held) + np.arange(len(lengths)) - 2 * lengths
        best = len(lengths) - 1 - int(np.argmin(costs[::-1]))
        assert (best, lengths[best]) == (taken, kept)
    removed, inserted = len(held) - kept, taken - kept
    for laid_out in (
        edit_kept_blocks(old, now[:taken], kept),
        edit_blocks_by_changes(old, now[:taken], removed, inserted, 10**6),
        edit_blocks_by_rows(old, now[:taken], removed, inserted),
    ):
        assert laid_out is not None
        assert len(laid_out) == blocks
        check_blocks(held, new, laid_out, kept)


@settings(max_examples=300, deadline=None)
@given(tails())
def test_common_lengths_of_every_prefix(both: tuple[list[int], list[int]]) -> None:
    held, new = both
    lengths = edit_common_lengths(coded(held), coded(new), len(held) + len(new))
    row = [0] * (len(new) + 1)
    for old in held:
        before, row = row, [0]
        for j, now in enumerate(new):
            row.append(before[j] + 1 if old == now else max(before[j + 1], row[j]))
    assert lengths.tolist() == row


@pytest.mark.parametrize("letters", [3, 40, 3_000])
def test_long_sequences(letters: int) -> None:
    """Long enough for several blocks of rows, carries, and bands that widen."""
    rng = random.Random(letters)
    held = [rng.randrange(letters) for _ in range(700)]
    new = [9_999, *held[:200], *held[330:560], *(rng.randrange(letters) for _ in range(90))]
    new += [*held[600:], *(rng.randrange(letters) for _ in range(100))]
    held = [9_998, *held]
    taken, kept, blocks = oracle(held, new)
    old, now = coded(held), coded(new)
    lengths = edit_common_lengths(old, now, 50)  # too narrow for the best: never too long
    assert np.all(lengths <= edit_common_lengths(old, now, 2_000))
    edit = cheapest_edit(old, now, PLENTY)
    assert (edit.taken, edit.kept) == (taken, kept)
    laid_out = edit_kept_blocks(old, now[:taken], kept)
    assert laid_out is not None
    assert len(laid_out) == blocks
    check_blocks(held, new, laid_out, kept)


def test_fewer_blocks_among_equals() -> None:
    def blocks(held: str, new: str) -> Any:
        old, now = coded(list(map(ord, held))), coded(list(map(ord, new)))
        edit = cheapest_edit(old, now, PLENTY)
        return edit_kept_blocks(old, now[: edit.taken], edit.kept)

    assert blocks("aabx", "by") == [(2, 0, 1)]
    assert blocks("xab", "yaab") == [(1, 2, 2)]
    # reasoning that holds the answer: the answer is kept, not its mention
    assert blocks("(5+5=10)10.x", "10.y") == [(8, 0, 3)]


def test_what_is_too_long_is_refused_by_count() -> None:
    rng = random.Random(3)
    held, new = (coded([rng.randrange(3) for _ in range(size)]) for size in (5_000, 9_000))
    held[0], new[0] = 7, 8
    for budget in (0, 10_000, 1_000_000):
        edit = cheapest_edit(held, new, budget)
        assert not edit.exact
        assert edit.work <= budget
        assert (edit.taken, edit.kept, edit.removed) == (0, 0, 5_000)
    edit = cheapest_edit(held, new, PLENTY)
    assert edit.exact
    assert edit_kept_blocks(held, new[: edit.taken], edit.kept, cells=1_000) is None


@pytest.mark.parametrize("letters", [3, 300, 40_000])
def test_unrelated_sequences_of_32k_tokens_are_exact(letters: int) -> None:
    rng = np.random.default_rng(0)
    held = rng.integers(1, letters, 32_000, dtype=np.uint32)
    new = rng.integers(1, letters, 64_000, dtype=np.uint32)
    held[0] = 0
    start = time.process_time()
    edit = cheapest_edit(held, new, 60_000_000)
    assert edit.exact
    assert time.process_time() - start < 5  # measured: 0.2 s


@pytest.mark.parametrize(("changed", "most"), [(1, 10_000), (100, 30_000_000)])
def test_few_changes_of_long_sequences_take_little_work(changed: int, most: int) -> None:
    rng = np.random.default_rng(1)
    held = rng.integers(1, 5_000, 128_000, dtype=np.uint32)
    new = held.copy()
    new[rng.integers(0, 128_000, changed)] = 9_999
    new[0] = 0
    edit = cheapest_edit(held, np.concatenate([new, held[:500]]), PLENTY)
    assert edit.exact
    assert changed <= edit.removed <= changed + 1
    assert edit.work < most


def test_codes_are_equal_where_elements_are() -> None:
    codes = ElementCodes()
    elements = [3, 2**31 - 1, 2**31, -1, (1, 2), [4], 2**31, [4]]
    numbers = codes.encode(elements)
    for a, left in zip(numbers.tolist(), elements, strict=True):
        for b, right in zip(numbers.tolist(), elements, strict=True):
            assert (a == b) == (left == right)
    assert [codes.decode(number) for number in numbers[:5].tolist()] == elements[:5]
