"""Room verdicts: breaks, causes, warnings, lineages, policies, price.

1. Every rollout of cases.jsonl comes out as written there.
2. The cheapest edit is the cheapest, against a table filled cell by cell.
3. One known fault goes in, its cause comes back.
4. Clean rollouts raise no warning.
5. The tests above catch a broken rule (mutants).
"""

import csv
import html
import io
import random
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import tinker
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import LCSseq
from rollouts import (
    CASES,
    case_rollout,
    chat,
    make_rollout,
    picture,
)

from sequence_extension.alignment import alignment_table
from sequence_extension.break_table import (
    break_facts,
    break_marks,
    break_sides,
    break_table,
    break_title,
)
from sequence_extension.breaks import name_cause
from sequence_extension.cost import (
    cost_sentence,
    cost_table,
    growth_facts,
    growth_finding,
    growth_law,
    growth_note,
    growth_table,
    rollout_steps,
    treatment_table,
)
from sequence_extension.datums import datum_tensor
from sequence_extension.diagnosis import diagnose, lineage_count
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.edits import align_tails, cheapest_edit, narrow_texts, subsequence_reach
from sequence_extension.figures.breaks import break_chart
from sequence_extension.figures.cost import cost_chart
from sequence_extension.figures.strip import strip_chart
from sequence_extension.formats.native import element_to_native
from sequence_extension.page.views import break_drawings, break_figure, verdict_list
from sequence_extension.report import report_entry
from sequence_extension.rollout import common_prefix_length, element_id, image_label
from sequence_extension.turns import Origin, TurnSpan, walk_turns
from sequence_extension.verdicts import break_sentences, verdicts
from sequence_extension.wording import cause_sentence, lineage_sentence, remedy

CAUSES = {
    "shortened", "image_changed", "end_token", "retokenised", "removed", "inserted",
    "new_context", "reordered", "replaced",
}  # fmt: skip
WARNINGS = {
    "logprobs_missing", "logprob_count", "logprob_not_finite", "logprob_positive",
    "logprob_extreme", "logprobs_all_zero", "zero_logprob_end", "empty_observation",
    "header_changed", "separator_changed", "end_token_untrained",
}  # fmt: skip


def text(elements: Sequence[int]) -> str:
    return "".join(map(chr, elements))


# 1. The cases


def check_case(case: dict[str, Any], diagnosis: Any) -> None:
    expected = case["expected"]
    assert diagnosis.built.error_code == expected["error"]
    assert sorted(item.code for item in diagnosis.warnings) == sorted(expected["warnings"])
    found = [
        (item.turn, item.position, element_to_native(item.expected), item.origin)
        for item in diagnosis.breaks
    ]
    assert found == [
        (item["turn"], item["position"], item["expected"], Origin(**item["origin"]))
        for item in expected["breaks"]
    ]
    for item, wanted in zip(diagnosis.breaks, expected["breaks"], strict=True):
        got = None if item.got is None else element_to_native(item.got)
        assert got == wanted["got"]
        assert item.cause in wanted["cause"]
        assert item.bounded is None
    if expected["error"] is not None:
        assert diagnosis.built.data == ()
        assert diagnosis.tokens_processed is None
        assert "urn" in diagnosis.built.error_message
        return
    data = diagnosis.built.data
    assert len(data) == expected["n_datums"]
    reported = report_entry(diagnosis)["datums"]
    assert [datum["mask"] for datum in reported] == expected["mask"]
    assert [datum["target_tokens"] for datum in reported] == expected["targets"]
    assert diagnosis.tokens_processed == expected["tokens_processed"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    check_case(case, diagnose(case_rollout(case)))


def test_the_cases_hold_every_cause_and_warning() -> None:
    causes = {
        name for case in CASES for item in case["expected"]["breaks"] for name in item["cause"]
    }
    codes = {code for case in CASES for code in case["expected"]["warnings"]}
    assert causes == CAUSES
    assert codes == WARNINGS


# 2. The cheapest edit


def common_lengths(held: Sequence[int], new: Sequence[int]) -> list[int]:
    """Longest common subsequence of `held` and `new[:j]` for every j: every cell filled."""
    row = [0] * (len(new) + 1)
    for old in held:
        before, row = row, [0]
        for j, now in enumerate(new):
            row.append(before[j] + 1 if old == now else max(before[j + 1], row[j]))
    return row


def oracle_edit(held: Sequence[int], new: Sequence[int]) -> tuple[int, int]:
    """(taken, kept) of the cheapest edit, keeping most among equals."""
    row = common_lengths(held, new)
    cheapest = min(range(len(new) + 1), key=lambda j: (len(held) + j - 2 * row[j], -row[j]))
    return cheapest, row[cheapest]


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


@settings(max_examples=400, deadline=None)
@given(tails(), st.sampled_from([0, 3_000, 10**12]))
def test_cheapest_edit_is_the_cheapest(both: Any, work: int) -> None:
    held, new = both
    edit = cheapest_edit(text(held), text(new), work)
    right = oracle_edit(held, new)
    assert edit.work <= work
    assert edit.exact or work < 10**12
    if edit.exact:
        assert (edit.taken, edit.kept) == right
    assert edit.kept_at_most >= right[1]
    assert common_lengths(held, new)[edit.taken] == edit.kept  # what it claims can be done


@pytest.mark.parametrize("letters", [40, 3_000])
def test_cheapest_edit_of_long_sequences(letters: int) -> None:
    """Long enough for the bounds over few letters, with and without letters merged."""
    rng = random.Random(letters)
    held = [rng.randrange(letters) for _ in range(1_300)]
    new = [9_999, *held[:400], *held[460:700], *(rng.randrange(letters) for _ in range(90))]
    new += [*held[720:], *(rng.randrange(letters) for _ in range(300))]
    edit = cheapest_edit(text([9_998, *held]), text(new), 10**12)
    assert edit.exact
    assert (edit.taken, edit.kept) == oracle_edit([9_998, *held], new)


def test_narrow_texts_never_shorten_what_is_common() -> None:
    rng = random.Random(1)
    left, right = ([rng.randrange(2_000) for _ in range(300)] for _ in range(2))
    old, now, same = narrow_texts(text(left), text(right))
    common = LCSseq.similarity
    assert not same
    assert max(map(ord, old + now)) < 256
    assert common(old, now) >= common(text(left), text(right))
    old, now, same = narrow_texts("abca", "cab")
    assert same
    assert common(old, now) == common("abca", "cab")


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)), st.integers(0, 5))
def test_common_prefix_length(left: list[int], right: list[int], at: int) -> None:
    shared = 0
    while shared < min(len(left) - at, len(right)) and left[at + shared] == right[shared]:
        shared += 1
    assert common_prefix_length(left, right, at, 0) == max(0, shared)


def test_common_prefix_length_of_long_lists() -> None:
    for length in (0, 63, 64, 65, 191, 192, 193, 5_000):
        left, right = [0] * 6_000, [0] * length + [1] + [0] * 700
        assert common_prefix_length(left, right) == length


@given(st.text("abc", max_size=12), st.text("abc", max_size=12))
def test_subsequence_reach(needle: str, hay: str) -> None:
    def contains(some: str, place: str) -> bool:
        rest = iter(place)
        return all(letter in rest for letter in some)

    matched, end = subsequence_reach(needle, hay)
    assert contains(needle[:matched], hay[:end])
    assert matched == len(needle) or not contains(needle[: matched + 1], hay)
    assert not matched or not contains(needle[:matched], hay[: end - 1])


@given(st.text("ab", max_size=9), st.text("ab", max_size=9))
def test_align_tails_keeps_as_much_as_can_be_kept(held: str, new: str) -> None:
    blocks = align_tails(held, new)
    assert blocks is not None
    assert sum(length for _, _, length in blocks) == LCSseq.similarity(held, new)
    i = j = 0
    for start, other, length in blocks:
        assert start >= i
        assert other >= j
        assert held[start : start + length] == new[other : other + length]
        i, j = start + length, other + length


def test_align_tails_takes_the_reading_with_fewer_blocks() -> None:
    assert align_tails("aabx", "aby") == [(1, 0, 2)]
    assert align_tails("xbaa", "yba") == [(1, 1, 2)]
    assert align_tails("xab", "yaab") == [(1, 2, 2)]
    # reasoning that holds the answer: the answer is kept, not its mention
    assert align_tails("(5+5=10)10.x", "10.y") == [(8, 0, 3)]


def test_align_tails_is_bounded() -> None:
    assert align_tails("abcd" * 10, "dcba" * 10, cells=1_000) is None
    assert align_tails("x" + "ab" * 500, "y" + "ab" * 500, cells=1_000) == [(1, 1, 1_000)]


# 3. One fault in, its cause out


MARK = 7  # ends every message, nowhere else


@st.composite
def faults(draw: st.DrawFn) -> tuple[str, list[int], list[int], list[int], dict[int, str]]:
    """(cause, observation, action, next observation, vocab): one fault in a chat of unique ids."""
    fresh = iter(range(100, 10_000))
    size = st.integers(4, 12)
    ob = [next(fresh) for _ in range(draw(size))] + [MARK]
    ac = [next(fresh) for _ in range(draw(size))] + [MARK]
    held = ob + ac
    after = [next(fresh) for _ in range(draw(size))]
    vocab: dict[int, str] = {}
    half = (len(held) + 1) // 2
    fault = draw(st.sampled_from(sorted(CAUSES)))
    if fault == "shortened":
        return fault, ob, ac, held[: draw(st.integers(0, len(held) - 1))], vocab
    if fault == "end_token":
        return fault, ob, ac, [*held[:-1], next(fresh), *after], vocab
    if fault == "removed":
        # a span that ends before the last token, which would be an end token's matter
        start = draw(st.integers(0, len(held) - 3))
        stop = draw(st.integers(start + 1, len(held) - 2))
        # what is kept must be worth it: dearer to throw it all away and insert
        return fault, ob, ac, held[:start] + held[stop:] + after, vocab
    if fault == "inserted":
        at = draw(st.integers(0, len(held) - 2))
        block = [next(fresh) for _ in range(draw(st.integers(1, len(held) - at - 1)))]
        return fault, ob, ac, held[:at] + block + held[at:] + after, vocab
    if fault == "reordered":
        at = draw(st.integers(half - 1, len(held) - 3))
        new = list(held)
        new[at], new[at + 1] = new[at + 1], new[at]
        return fault, ob, ac, new + after, vocab
    if fault == "retokenised":
        at = draw(st.integers(0, len(held) - 2))
        vocab = {token: f"w{token} " for token in [*held, *after]}
        whole, left, right = next(fresh), next(fresh), next(fresh)
        vocab |= {whole: vocab[held[at]], left: vocab[held[at]][:2], right: vocab[held[at]][2:]}
        return fault, ob, ac, [*held[:at], left, right, *held[at + 1 :], *after], vocab
    if fault == "image_changed":
        return fault, ob, ac, [*held, *after], vocab  # the test puts the picture in
    if fault == "replaced":
        at = draw(st.integers(0, len(held) - 2))
        return fault, ob, ac, [*held[:at], next(fresh), *held[at + 1 :], *after], vocab
    kept = draw(st.integers(0, half - 2))
    fresh_context = [next(fresh) for _ in range(len(held))]
    return fault, ob, ac, held[:kept] + fresh_context, vocab


@settings(max_examples=500, deadline=None)
@given(faults())
def test_a_known_fault_gives_its_cause_back(fault: Any) -> None:
    cause, ob, ac, new, vocab = fault
    first: list[Any] = list(ob)
    second: list[Any] = list(new)
    if cause == "image_changed":
        first[1] = picture("frame", 3)
        second[1] = picture("frame again", 3)
    rollout = make_rollout((first, ac), (second, [1, MARK]), vocab=vocab)
    diagnosis = diagnose(rollout)
    (found,) = diagnosis.breaks
    assert found.cause == cause
    held = [*first, *ac]
    shared = next(
        (k for k, (a, b) in enumerate(zip(held, second, strict=False)) if a != b),
        min(len(held), len(second)),
    )
    assert found.position == shared
    assert found.expected == held[shared]
    assert found.held == len(held)
    assert found.kept + found.removed == len(held) - shared
    assert len(diagnosis.built.data) == 2


def test_the_same_fault_in_another_place_is_another_origin() -> None:
    """The lost token may come from any turn of the datum, observation or action."""
    turns = [([1, 2, 3], [4, 5]), ([1, 2, 3, 4, 5, 6, 7], [8, 9])]
    for place, origin in [
        (1, Origin(0, "observation", 1)),
        (3, Origin(0, "action", 0)),
        (6, Origin(1, "observation", 6)),
        (7, Origin(1, "action", 0)),
    ]:
        new = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
        new[place] = 99
        (found,) = diagnose(make_rollout(*turns, (new, [11]))).breaks
        assert (found.turn, found.position) == (2, place)
        assert found.origin == origin


def test_retokenised_needs_every_text() -> None:
    vocab = {50: "Par", 51: "is", 52: "Paris", 6: "<end>", 1: "a", 2: "b"}
    turns = [([1, 2], [50, 51, 6]), ([1, 2, 52, 6, 77], [6, 6])]
    (found,) = diagnose(make_rollout(*turns, vocab=vocab)).breaks
    assert found.cause == "retokenised"  # 77 stands behind what is needed
    for missing in (50, 51, 52, 6):
        less = {token: word for token, word in vocab.items() if token != missing}
        (found,) = diagnose(make_rollout(*turns, vocab=less)).breaks
        assert found.cause != "retokenised"


def test_pieces_of_a_character_have_no_text_of_their_own() -> None:
    vocab = {1: "a", 2: "\ufffd", 3: "\ufffd", 4: "bc", 5: "b", 6: "c", 7: "."}
    same = make_rollout(([1], [4, 2, 7]), ([1, 5, 6, 2, 7], [7, 7]), vocab=vocab)
    other = make_rollout(([1], [4, 2, 7]), ([1, 5, 6, 3, 7], [7, 7]), vocab=vocab)
    assert diagnose(same).breaks[0].cause == "retokenised"
    assert diagnose(other).breaks[0].cause != "retokenised"


def test_a_search_that_gives_up_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(2)
    ob, new = ([rng.randrange(1, 6) for _ in range(2_000)] for _ in range(2))
    rollout = make_rollout(([8, *ob], [7, 9]), ([9, *new], [7, 9]))
    (exact,) = diagnose(rollout).breaks
    search = cheapest_edit
    monkeypatch.setattr(
        "sequence_extension.breaks.cheapest_edit", lambda held, new, work: search(held, new, 1_000)
    )
    (found,) = diagnose(rollout).breaks
    assert exact.bounded is None
    assert found.cause == "replaced"
    assert "stopped at its bound of" in (found.bounded or "")
    assert "No other cause could be proven" in cause_sentence(found)
    assert found.position == exact.position == 0


def test_hopeless_sequences_stay_bounded() -> None:
    """Long and unrelated: the work is bounded by counting, not by a clock."""
    rng = random.Random(3)
    size = 30_000
    for letters in (2, 40_000):
        held, new = ([rng.randrange(letters) for _ in range(size)] for _ in range(2))
        edit = cheapest_edit(text([50_000, *held]), text([50_001, *new]), 3_000_000_000)
        assert edit.work <= 3_000_000_000
        assert edit.kept <= edit.kept_at_most <= size


@pytest.mark.parametrize("kind", ["clock", "stripped", "window"])
def test_typical_breaks_of_long_rollouts_take_little_work(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Counted, not timed: far fewer comparisons than the square of the lengths."""
    rng = random.Random(4)
    history, turns = [rng.randrange(5_000) for _ in range(1_500)], []
    for turn in range(8):
        ob = [*history[:5], 9_000 + turn, *history[5:]] if kind == "clock" else history
        if kind == "window" and turn > 2:
            ob = [*history[:5], *history[-1_200:]]
        ac = [rng.randrange(5_000) for _ in range(200)]
        turns.append((ob, ac))
        kept = ac[150:] if kind == "stripped" else ac
        history = [*(history if kind == "clock" else ob), *kept]
        history += [rng.randrange(5_000) for _ in range(300)]
    search, works = cheapest_edit, []

    def counted(held: str, new: str, work: int) -> Any:
        edit = search(held, new, work)
        works.append(edit.work / (len(held) * len(new)))
        return edit

    monkeypatch.setattr("sequence_extension.breaks.cheapest_edit", counted)
    found = diagnose(make_rollout(*turns)).breaks
    assert len(found) >= 5
    assert {item.cause for item in found} == {"replaced" if kind == "clock" else "removed"}
    assert all(item.bounded is None for item in found)
    # 8 is the price of one look at the whole square
    assert max(works) < {"clock": 4, "stripped": 8, "window": 40}[kind]


# Lineages


def test_lineages_of_interleaved_agents() -> None:
    a, b = [1, 10, 11, 12], [2, 20, 21, 22]
    turns, held = [], {0: a, 1: b}
    for turn in range(6):
        who = turn % 2
        action = [100 + turn, 7]
        turns.append((held[who], action))
        held[who] = [*held[who], *action, 50 + turn]
    diagnosis = diagnose(make_rollout(*turns))
    assert len(diagnosis.built.data) == 6
    assert [found.resumes_datum for found in diagnosis.breaks] == [None, 0, 1, 2, 3]
    assert lineage_count(diagnosis) == 2
    assert "2 datums would do where there are 6" in (lineage_sentence(diagnosis) or "")
    assert [found.again for found in diagnosis.breaks][1:] == [5, 5, 8, 8]


def test_two_retries_go_on_from_one_datum_only_once() -> None:
    """A datum can be continued once; a second branch is a lineage of its own."""
    base, other = ([1, 2, 3], [4, 5]), ([9, 9, 9, 9], [8, 8])
    again = [1, 2, 3, 4, 5, 6]
    diagnosis = diagnose(make_rollout(base, other, (again, [10]), other, (again, [11])))
    assert [found.resumes_datum for found in diagnosis.breaks] == [None, 0, None, 0]
    assert lineage_count(diagnosis) == 4


def test_no_lineage_sentence_without_a_return() -> None:
    diagnosis = diagnose(make_rollout(([1, 2], [3]), ([4, 5], [6])))
    assert lineage_count(diagnosis) == 2
    assert lineage_sentence(diagnosis) is None


# 4. Elements of any kind


def test_ids_of_any_size_are_told_apart() -> None:
    big = 2**31 - 1
    for offset in (0, 0x10F7FF, 0xD7F0, big - 40):
        ob = [offset + k for k in range(20)]
        new = [*ob[:5], *ob[8:], offset + 21, offset + 30]
        (found,) = diagnose(make_rollout((ob, [offset + 21]), (new, [1, 2]))).breaks
        assert (found.cause, found.position, found.removed, found.kept) == ("removed", 5, 3, 13)


# 5. Verdicts in words


def test_verdicts_name_place_cause_and_remedy() -> None:
    case = next(case for case in CASES if case["name"] == "thinking/strip_thinking")
    rollout = case_rollout(case)
    listed = verdicts(diagnose(rollout))
    assert [item.kind for item in listed] == ["starts", "splits", "splits"]
    said = " ".join(listed[1].sentences)
    assert "At position 12 of" in said
    assert f'expected 8 "{rollout.vocab[8]}" (turn 0\'s action, index 0)' in said
    assert f'got 25 "{rollout.vocab[25]}"' in said
    assert "Cause: removed." in said
    assert "Remedy: " in said
    assert listed[1].found is not None


def test_verdict_of_a_turn_that_extends_but_should_be_looked_at() -> None:
    listed = verdicts(diagnose(make_rollout(*chat([6, 12]))))
    assert [(item.kind, item.label) for item in listed] == [
        ("starts", "starts"),
        ("look", "extends, but look"),
    ]
    assert any("observation index 8" in sentence for sentence in listed[1].sentences)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_words_of_every_case(case: dict[str, Any]) -> None:
    diagnosis = diagnose(case_rollout(case))
    listed = verdicts(diagnosis)
    assert [item.turn for item in listed] == list(range(len(case["transitions"])))
    split = {item["turn"] for item in case["expected"]["breaks"]}
    assert {item.turn for item in listed if item.kind == "splits"} == split
    for item in listed:
        assert item.sentences
        assert item.headline.startswith(f"Turn {item.turn} ")
        for sentence in item.sentences:
            assert "None" not in sentence
            assert not re.search(r"\b1 (action |observation )?tokens", sentence)
    for found in diagnosis.breaks:
        assert break_title(diagnosis, found).startswith(f"Turn {found.turn} splits: ")


def test_title_says_whose_tokens_are_gone() -> None:
    turns = [([1, 2], [3, 4, 5, 6, 7]), ([1, 2, 3, 7, 8], [9])]
    diagnosis = diagnose(make_rollout(*turns))
    title = break_title(diagnosis, diagnosis.breaks[0])
    assert title == "Turn 1 splits: 3 tokens of turn 0's action are gone"


def test_every_cause_has_a_remedy() -> None:
    assert len({remedy(cause) for cause in CAUSES}) == len(CAUSES)


# The break as a table


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_break_table_holds_both_sequences(case: dict[str, Any]) -> None:
    """Read back from the table: every element of both sides, in order, whatever is cut."""
    diagnosis = diagnose(case_rollout(case))
    for found in diagnosis.breaks:
        held, new = break_sides(diagnosis, found)
        table = break_table(diagnosis, found)
        marked = table["mark"].str.contains("expected")
        assert table.loc[marked, "held_index"].tolist() == [str(found.position)]
        got = [] if found.got is None else [str(found.position)]
        assert table.loc[table["mark"].str.contains("got"), "new_index"].tolist() == got
        for side, elements in (("held", held), ("new", new)):
            shown = table[table[f"{side}_index"] != ""]
            at = 0
            for row in shown.to_dict("records"):
                assert int(row[f"{side}_index"]) == at
                if row["count"] == 1:
                    assert row[f"{side}_id"] == element_id(elements[at])
                at += row["count"]
            assert at == len(elements)
        counted = table.groupby("kind")["count"].sum()
        replaced = table[table["kind"] == "replaced"]
        for row in replaced[replaced["count"] == 1].to_dict("records"):
            assert row["held_id"] != row["new_id"] or row["held_id"] == "img"
        paired = counted.get("replaced", 0)
        assert counted.get("removed", 0) + paired == found.removed
        # the cheapest edit takes an end token away; the one that came for it is drawn across it
        swapped = found.cause == "end_token" and not found.inserted
        assert counted.get("inserted", 0) + paired == found.inserted + swapped
        kinds = table["kind"].tolist()
        assert not {("removed", "inserted"), ("inserted", "removed")} & set(pairwise(kinds))


def test_break_table_of_a_long_break_stays_small() -> None:
    ob = list(range(10, 5_000))
    new = [*ob[:100], *ob[1_100:], 3, *range(9_000, 9_900)]
    diagnosis = diagnose(make_rollout((ob, [3]), (new, [1])))
    (found,) = diagnosis.breaks
    assert (found.cause, found.removed) == ("removed", 1_000)
    table = break_table(diagnosis, found)
    assert len(table) < 30
    assert table["count"].sum() == len(ob) + 1 + 900


def test_break_table_of_scattered_changes_is_cut_at_the_end() -> None:
    ob = list(range(10, 1_010))
    new = [token for token in ob if token % 9]
    diagnosis = diagnose(make_rollout((ob, [3]), ([*new, 3, 5], [1])))
    table = break_table(diagnosis, diagnosis.breaks[0])
    assert len(table) == 61
    assert table["count"].iloc[-1] > 800


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_break_of_each_cause_is_drawn(case: dict[str, Any]) -> None:
    """Examples draw one break per cause, the reader's own turns draw all; the rest is counted."""
    diagnosis = diagnose(case_rollout(case))
    causes = [found.cause for found in diagnosis.breaks]
    for most, drawn in ((None, len(set(causes))), (1, min(1, len(causes))), (99, len(causes))):
        page = break_drawings(diagnosis, most).text
        assert page.count("<figure ") == drawn
        left = len(causes) - drawn
        assert (f"{left} more break" in page) == (left > 0)
        for found in [diagnosis.breaks[causes.index(cause)] for cause in set(causes)]:
            title = html.escape(break_title(diagnosis, found))
            assert most == 1 or f"<b>{title}</b>" in page


def test_where_a_break_comes_into_view() -> None:
    """A narrow page scrolls its box there: the line of the break, in pixels of the drawing."""
    diagnosis = diagnose(make_rollout(([1, 2, 3, 4], [5, 6]), ([1, 2, 3, 9, 9], [7])))
    (found,) = diagnosis.breaks
    assert found.position == 3
    shown = break_table(diagnosis, found)
    drawn = break_chart(shown, lane_labels=False)
    left = drawn.spec["padding"]["left"]
    assert drawn.focus == left + 3 * (drawn.spec["width"] // len(shown))
    table = alignment_table(diagnosis.built, diagnosis.runs, diagnosis.rollout.vocab)
    rows = table[table["datum"] == 0]
    strip = strip_chart(rows, breaks=break_marks(diagnosis), lane_labels=False)
    low, high = strip.spec["encoding"]["x"]["scale"]["domain"]
    edge = (found.position - 0.5 - low) / (high - low) * strip.spec["width"]
    assert strip.focus == round(strip.spec["padding"]["left"] + edge)
    assert strip_chart(rows).focus is None


# Policies and price


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_policies_count_from_the_real_result(case: dict[str, Any]) -> None:
    diagnosis = diagnose(case_rollout(case))
    table = treatment_table(diagnosis)
    if case["expected"]["error"] is not None:
        assert table.empty
        return
    split, overwrite, drop = table.drop(columns="treatment").to_numpy().tolist()
    action = sum(len(turn["ac"]) for turn in case["transitions"])
    trained = sum(map(sum, case["expected"]["mask"]))
    assert split == [
        case["expected"]["n_datums"],
        trained,
        action - trained,
        case["expected"]["tokens_processed"],
    ]
    if case["expected"]["breaks"]:
        assert drop == [0, 0, action, 0]
        assert overwrite[0] == 1
        assert overwrite[1] < split[1]
    else:
        assert drop == split
        assert overwrite == split


def test_overwriting_keeps_what_stands_before_the_break() -> None:
    turns = [([1, 2], [3, 4]), ([1, 2, 3, 4, 5], [6, 7]), ([1, 2, 3, 4, 5, 6, 8], [9])]
    table = treatment_table(diagnose(make_rollout(*turns)))
    # 3, 4 and 6 stand before the break, 7 is gone, 9 is new
    assert table["trained tokens"].tolist() == [5, 4, 0]
    assert table["lost tokens"].tolist() == [0, 1, 5]
    assert table["tokens processed"].tolist() == [6 + 7, 7, 0]


def test_price_of_a_break_is_what_is_read_again() -> None:
    turns = [([1, 2, 70, 3], [4, 5]), ([1, 2, 71, 3, 4, 5, 6], [7])]
    diagnosis = diagnose(make_rollout(*turns))
    assert diagnosis.tokens_processed == 5 + 7
    assert diagnosis.tokens_unmerged == 5 + 7
    # all but 70, and but 5: that was sampled, never an input
    assert [found.again for found in diagnosis.breaks] == [4]
    prices = dict(cost_table(diagnosis).to_numpy().tolist())
    assert prices["of these read again at turn 1's break"] == 4
    assert "4 of the 12 are read again: an earlier datum had them as inputs" in cost_sentence(
        diagnosis
    )


@given(data=st.data())
def test_what_is_read_again_was_an_input_before(data: st.DataObject) -> None:
    """Against counting: tokens, each of its own kind, dropped, put in, and followed by new ones."""
    observation = list(range(1, 1 + data.draw(st.integers(1, 8))))
    action = list(range(100, 100 + data.draw(st.integers(1, 6))))
    held = [*observation, *action]
    new = [token for token in held if data.draw(st.booleans())]
    for fresh in range(200, 200 + data.draw(st.integers(0, 3))):
        new.insert(data.draw(st.integers(0, len(new))), fresh)
    new += range(300, 300 + data.draw(st.integers(1, 3)))
    diagnosis = diagnose(make_rollout((observation, action), (new, [400])))
    first = diagnosis.built.data[0].model_input.to_ints()
    for found in diagnosis.breaks:
        both = len(set(first) & set(new))
        assert found.again <= both
        # the cheapest edit may give up a token for a price; where it keeps all, all count
        if found.position + found.kept == len(set(held) & set(new)):
            assert found.again == both


def test_pictures_read_again_count_all_their_tokens() -> None:
    for changed, again in ((70, 1 + 4 + 1 + 1), (1, 4 + 1 + 1 + 1)):
        ob = [1, picture("a", 4), 70, 3]
        new = [71 if token == changed else token for token in ob]
        turns = [(ob, [4, 5]), ([*new, 4, 5, 6], [7])]
        (found,) = diagnose(make_rollout(*turns)).breaks
        assert found.again == again
        said = " ".join(break_sentences(found, {}, images=True))
        assert f"At position {found.position} of 6 (an image counts as one): expected" in said


def test_a_rollout_that_resumes_a_datum_has_no_curve_of_its_own() -> None:
    """Repeating turn sizes alone would draw two agents in turns as one that forgets."""
    diagnosis = diagnose(scenario_rollout(scenarios()["new_context"]))
    assert any(found.resumes_datum is not None for found in diagnosis.breaks)
    table = growth_table(diagnosis.spans, own=False)
    assert set(table["pattern"]) == {"extends", "splits every turn"}
    note = growth_note(diagnosis.spans, growth_law(table), own=False)
    assert "a turn goes on from an earlier datum" in note
    assert "drops history" not in note


def test_growth_is_counted_from_real_datums() -> None:
    turns = [([1, 2, 70, 3], [4, 5]), ([1, 2, 71, 3, 4, 5, 6], [7])]
    spans = walk_turns(make_rollout(*turns).trajectory)
    table = growth_table(spans)
    assert Counter(table["pattern"]) == {"extends": 6, "splits every turn": 6, "this rollout": 6}
    for row in table.to_dict("records"):
        # a turn adds 2 tokens (1 observed, 1 said) to the first turn's 6
        lengths = [6 + 2 * k - 1 for k in range(row["turns"])]
        splits = row["pattern"] != "extends"
        assert row["datums"] == (row["turns"] if splits else 1)
        assert row["tokens"] == (sum(lengths) if splits else lengths[-1])
    laws = growth_law(table).set_index("pattern")["law"].to_dict()
    assert laws == {
        "extends": "linear",
        "splits every turn": "quadratic",
        "this rollout": "quadratic",
    }


def test_growth_of_a_rollout_that_resets() -> None:
    """What starts afresh every turn grows with the turns, though it splits every turn."""
    turns = [([1, 2, 3], [4, 5]), ([6, 7, 8], [9, 10]), ([11, 12, 13], [14, 15])]
    laws = growth_law(growth_table(walk_turns(make_rollout(*turns).trajectory)))
    assert laws.set_index("pattern")["law"]["this rollout"] == "linear"


def test_growth_keeps_sizes_small() -> None:
    spans = [
        TurnSpan(0, 0, 0, 0, 900, 100, False, 900),
        TurnSpan(1, 0, 1_000, 1_000, 1_700, 300, False, 1_700),
    ]
    steps, factor = rollout_steps(spans)
    assert factor == 63
    assert [(step.added, step.action) for step in steps] == [(14, 2), (11, 5)]
    table = growth_table(spans)
    note = growth_note(spans, growth_law(table))
    assert "divided by 63" in note
    assert "when 32 turns become 64" in note
    assert table["tokens"].max() < 60_000


def test_one_turn_has_no_growth() -> None:
    spans = walk_turns(make_rollout(([1, 2], [3])).trajectory)
    assert growth_table(spans).empty


# Figures of sections 4 and 5 (drawn from tables)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_break_chart_says_what_it_shows(case: dict[str, Any]) -> None:
    diagnosis = diagnose(case_rollout(case))
    for found in diagnosis.breaks:
        table = break_table(diagnosis, found)
        figure = break_chart(table, break_title(diagnosis, found))
        assert f"position {found.position}" in figure.description
        facts = break_facts(table)
        assert len(facts) == len(table)
        assert facts["what"].str.contains("✕ expected").sum() == 1
        words = "the observation ends" if found.got is None else "got "
        assert words in figure.description


@pytest.mark.parametrize("name", ["rollback_to_an_earlier_state", "thinking/strip_thinking"])
def test_break_chart_fits_the_schema(name: str) -> None:
    case = next(case for case in CASES if case["name"] == name)
    diagnosis = diagnose(case_rollout(case))
    break_chart(break_table(diagnosis, diagnosis.breaks[0]), "A title").chart()


def test_texts_are_escaped_wherever_html_is_made() -> None:
    evil = "<img src=x onerror=alert(1)>"
    vocab = dict.fromkeys(range(20), evil)
    turns = [([1, 2, 3], [4, 5, 6]), ([1, 2, 5, 6, 7], [8])]
    diagnosis = diagnose(make_rollout(*turns, vocab=vocab))
    (found,) = diagnosis.breaks
    page = verdict_list(verdicts(diagnosis)).text
    page += break_figure(break_table(diagnosis, found), evil).text
    assert "<img" not in page
    assert "&lt;img" in page


def test_verdict_list_joins_turns_that_extend() -> None:
    turns, held = [], [1, 2]
    for turn in range(60):
        turns.append((held, [100 + turn]))
        held = [*held, 100 + turn, 200 + turn]
    page = verdict_list(verdicts(diagnose(make_rollout(*turns)))).text
    assert "Turns 1 to 59" in page
    assert page.count("<li class=") == 2


def test_cause_and_remedy_are_said_once() -> None:
    turns = [([turn, 1000 + turn], [2000 + turn]) for turn in range(4)]
    listed = verdicts(diagnose(make_rollout(*turns)))
    said = [item.sentences[1:3] for item in listed if item.kind == "splits"]
    assert listed[1].found is not None
    assert said[0][1] == f"Remedy: {remedy(listed[1].found.cause)}"
    for cause, helps in said[1:]:
        assert cause == "Cause: new context. As for turn 1."
        assert helps == "Remedy: as for turn 1."


def test_verdict_list_is_capped() -> None:
    turns = [([turn, 1000 + turn], [2000 + turn]) for turn in range(60)]
    page = verdict_list(verdicts(diagnose(make_rollout(*turns)))).text
    assert page.count("<li class=") == 40
    assert "20 more turns are left out here" in page


def test_cost_chart_names_each_curve_by_what_it_shows() -> None:
    spans = walk_turns(make_rollout(*chat([12], [12])).trajectory)
    growth = growth_table(spans)
    laws = growth_law(growth)
    figure = cost_chart(growth, laws)
    figure.chart()
    words = figure.spec["datasets"]["signs"]
    assert "= this rollout" in words  # it extends, so its curve is that of "extends"
    assert "linear" in words
    assert "quadratic" in words
    assert growth_facts(growth).columns.tolist() == [
        "turns", "extends", "splits every turn", "this rollout",
    ]  # fmt: skip


def test_names_of_curves_keep_clear_of_each_other() -> None:
    """Lines of 13 pixels, the first around its place; room below the axis is one line."""
    for scenario in scenarios().values():
        growth = growth_table(walk_turns(scenario_rollout(scenario).trajectory))
        if growth.empty:
            continue
        figure = cost_chart(growth, growth_law(growth))
        signs = list(csv.DictReader(io.StringIO(figure.spec["datasets"]["signs"])))
        assert len(signs) >= 2
        boxes = [(float(row["y"]), 13 * (row["words"].count("|") + 1)) for row in signs]
        for (above, height), (below, _) in pairwise(boxes):
            assert above + height < below, (scenario.key, boxes)
        assert boxes[0][0] >= 0
        assert sum(boxes[-1]) <= 220 + 13, (scenario.key, boxes)


def test_a_rollout_without_breaks_is_not_said_to_have_some() -> None:
    for key, breaks in (("chat", False), ("removed", True)):
        diagnosis = diagnose(scenario_rollout(scenarios()[key]))
        laws = growth_law(growth_table(diagnosis.spans))
        finding = growth_finding(laws, diagnosis.spans)
        assert ("this rollout's breaks" in finding) == breaks
        assert ("its own breaks" in growth_note(diagnosis.spans, laws)) == breaks


@pytest.mark.parametrize(
    ("came", "words"),
    [
        ([1, 2, 3, 91, 5, 6], "1 token of turn 0's action was replaced by another"),
        ([1, 2, 3, 91, 92, 5, 6], "1 token of turn 0's action was replaced by 2 others"),
        ([1, 2, 3, 91, 6], "2 tokens of turn 0's action were replaced by 1 other"),
    ],
)
def test_what_was_replaced_is_counted(came: list[int], words: str) -> None:
    diagnosis = diagnose(make_rollout(([1, 2, 3], [4, 5, 6]), (came, [7])))
    assert words in break_title(diagnosis, diagnosis.breaks[0])


# Mutants: each breaks one rule, and the cases above notice


def mutated(monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> list[str]:
    """Names of the cases that fail once `name` is replaced wherever the package uses it."""
    modules = [sys.modules[key] for key in sys.modules if key.startswith("sequence_extension.")]
    for module in [*modules, sys.modules[__name__]]:
        if name in vars(module):
            monkeypatch.setattr(module, name, value)
    failed = []
    for case in CASES:
        try:
            check_case(case, diagnose(case_rollout(case)))
        except (AssertionError, IndexError, ValueError):
            failed.append(case["name"])
    return failed


def test_mutant_mask_that_is_not_shifted(monkeypatch: pytest.MonkeyPatch) -> None:
    right = datum_tensor

    def unshifted(datum: Any, name: str) -> list[Any]:
        values = right(datum, name)
        return [0.0, *values[:-1]] if name == "mask" else values

    assert len(mutated(monkeypatch, "datum_tensor", unshifted)) > 20


def test_mutant_prefix_check_that_forgets_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The observation alone must be a prefix: a stripped answer would go unseen."""
    right = walk_turns

    def forgetful(trajectory: Any) -> list[Any]:
        spans = right(trajectory)
        return [
            replace(span, held=span.position)
            if span.turn and span.position >= spans[span.turn - 1].observation
            else span
            for span in spans
        ]

    failed = mutated(monkeypatch, "walk_turns", forgetful)
    assert "thinking_stripped_from_history" in failed
    assert "return_token_becomes_end_token" in failed


def test_mutant_prefix_check_that_forgets_older_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what the last turn added is compared: a slid window would go unseen."""
    right = walk_turns

    def short(trajectory: Any) -> list[Any]:
        spans = right(trajectory)
        added = [
            span.observation - (spans[span.turn - 1].observation if span.turn else 0)
            for span in spans
        ]
        return [
            replace(span, held=span.position)
            if span.turn > 1
            and span.position < spans[span.turn - 1].observation - added[span.turn - 1]
            else span
            for span in spans
        ]

    failed = mutated(monkeypatch, "walk_turns", short)
    assert "sliding_window_keeps_last_two_messages" in failed


def test_mutant_rules_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    right = name_cause

    def swapped(held: Any, new: Any, position: int, edit: Any, *rest: Any) -> str:
        cause = right(held, new, position, edit, *rest)
        # the context rule before the edit rules
        if cause in ("removed", "inserted") and 2 * (position + edit.kept) < len(held):
            return "new_context"
        # and the edit rules before the rule on the end token
        return "replaced" if cause == "end_token" else cause

    failed = mutated(monkeypatch, "name_cause", swapped)
    assert "return_token_becomes_end_token" in failed
    assert "default_system_prompt_appears_on_turn_1" not in failed


def test_images_are_called_by_their_names() -> None:
    """Two images of one size differ in nothing else that a reader could see."""
    diagnosis = diagnose(scenario_rollout(scenarios()["image_changed"]))
    said = " ".join(verdicts(diagnosis)[1].sentences)
    assert 'expected an image of 4 tokens, "frameA"' in said
    assert 'got an image of 4 tokens, "frameA-again"' in said
    for unnamed in (b"\x89PNG\r\n", b"x" * 60, b"two\nlines", b""):
        chunk = tinker.types.ImageChunk(data=unnamed, format="png", expected_tokens=4)
        assert image_label(chunk) == "an image of 4 tokens"
