"""Breaks, causes, lineages, and what is read again.

1. Every rollout of cases.jsonl comes out as written there.
2. One known fault goes in, its cause comes back.
3. What is read again was an input before.
4. The tests above catch a broken rule (mutants).
"""

import doctest
import random
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollouts import (
    CASES,
    CAUSES,
    case_rollout,
    make_rollout,
    picture,
)

from sequence_extension import diagnosis as diagnosis_module
from sequence_extension.breaks import name_break_cause
from sequence_extension.datums import datum_tensor
from sequence_extension.diagnosis import diagnose
from sequence_extension.edits import cheapest_edit, edit_common_lengths, unedited_prefix_length
from sequence_extension.formats.native import element_to_native
from sequence_extension.report import report_entry, report_row
from sequence_extension.report_text import Paint, report_text_rollout
from sequence_extension.turns import Origin, walk_turns
from sequence_extension.verdicts import verdict_break_sentences, verdicts
from sequence_extension.wording import cause_sentence_wording, lineage_wording

WARNINGS = {
    "logprobs_missing", "logprob_count", "logprob_not_finite", "logprob_positive",
    "logprob_extreme", "logprobs_all_zero", "zero_logprob_end", "empty_observation",
    "header_changed", "separator_changed", "end_token_untrained",
}  # fmt: skip


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


@pytest.mark.parametrize("spell", ["surrogateescape", "sentencepiece"])
def test_a_character_spelled_in_bytes_is_the_same_text(spell: str) -> None:
    pieces = [
        bytes([byte]).decode("utf-8", "surrogateescape")
        if spell == "surrogateescape"
        else f"<0x{byte:02X}>"
        for byte in "é".encode()
    ]
    vocab = {1: "a", 2: "é", 3: pieces[0], 4: pieces[1], 6: ".", 7: "è"}
    (item,) = diagnose(make_rollout(([1], [2, 6]), ([1, 3, 4, 6], [6]), vocab=vocab)).breaks
    assert item.cause == "retokenised"
    (item,) = diagnose(make_rollout(([1], [7, 6]), ([1, 3, 4, 6], [6]), vocab=vocab)).breaks
    assert item.cause != "retokenised"


def test_a_digit_is_no_part_of_an_id() -> None:
    """Token 12 has lost its bytes; token 1 has, too, and a digit 2 behind it changes nothing."""
    vocab = {12: "\ufffd", 1: "\ufffd", 7: "2", 5: "x", 6: "y"}
    (item,) = diagnose(make_rollout(([5], [12, 6]), ([5, 1, 7, 6], [6]), vocab=vocab)).breaks
    assert item.cause != "retokenised"


def test_the_cookbooks_trajectory_will_do() -> None:
    rollout = make_rollout(([1], [2, 3]), ([1, 4, 5], [6]), vocab={2: "ab", 3: "c"})
    vocab = {2: "ab", 3: "c", 4: "a", 5: "bc"}
    assert diagnose(rollout).breaks[0].cause == "new_context"
    for source in (rollout, rollout.trajectory):
        diagnosis = diagnose(source, vocab, advantage=0.5)
        assert diagnosis.breaks[0].cause == "retokenised"
        assert set(datum_tensor(diagnosis.built.data[0], "advantages")) == {0.0, 0.5} - {0.0}
    assert diagnose(rollout.trajectory).rollout.vocab == {}


def test_behind_turns_without_tokens_a_turn_starts() -> None:
    """One word for it everywhere: nothing was held."""
    rollout = make_rollout(
        ([], []), ([1, 2], [3]), ([1, 2, 3, 4], [5]), ([1], []), ([], []), ([7], [8])
    )
    diagnosis = diagnose(rollout)
    outcomes = ["starts", "starts", "extends", "splits", "splits", "starts"]
    assert [span.outcome for span in diagnosis.spans] == outcomes
    assert [verdict.kind for verdict in verdicts(diagnosis)] == outcomes


def test_a_search_that_gives_up_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the words, and in the report; a cause that needs no search is named all the same."""
    rng = random.Random(2)
    ob, new = ([rng.randrange(1, 6) for _ in range(2_000)] for _ in range(2))
    rollout = make_rollout(([8, *ob], [7, 9]), ([9, *new], [7, 9]), ([9, *new, 7, 9][:900], [5]))
    exact = diagnose(rollout).breaks
    monkeypatch.setattr("sequence_extension.breaks.SEARCH_STEPS", 1_000)
    monkeypatch.setattr("sequence_extension.breaks.SEARCH_STEPS_PER_TOKEN", 0)
    diagnosis = diagnose(rollout)
    first, second = diagnosis.breaks
    assert exact[0].bounded is None
    assert first.cause == "replaced"
    assert "stopped at its bound of 500 steps" in (first.bounded or "")
    assert "No other cause could be proven" in cause_sentence_wording(first)
    assert first.position == exact[0].position == 0
    assert second.cause == "shortened"
    entry = report_entry(diagnosis)["breaks"]
    assert entry[0]["bounded"] == first.bounded
    lines = report_text_rollout(diagnosis, report_row(diagnosis), [], Paint(False))
    assert any("stopped at its bound of 500 steps" in line for line in lines)


@pytest.mark.parametrize("kind", ["clock", "stripped", "window"])
def test_typical_breaks_of_long_rollouts_take_little_work(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Counted, not timed."""
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

    def counted(held: Any, new: Any, budget: int) -> Any:
        edit = search(held, new, budget)
        works.append(edit.work)
        return edit

    monkeypatch.setattr("sequence_extension.breaks.cheapest_edit", counted)
    found = diagnose(make_rollout(*turns)).breaks
    assert len(found) >= 5
    assert {item.cause for item in found} == {"replaced" if kind == "clock" else "removed"}
    assert all(item.bounded is None for item in found)
    assert max(works) < 3_000_000  # about 0.02 s


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
    assert diagnosis.lineages == 2
    assert "2 datums would do where there are 6" in (lineage_wording(diagnosis) or "")
    assert [found.again for found in diagnosis.breaks][1:] == [5, 5, 8, 8]


def test_two_retries_go_on_from_one_datum_only_once() -> None:
    """A datum can be continued once; a second branch is a lineage of its own."""
    base, other = ([1, 2, 3], [4, 5]), ([9, 9, 9, 9], [8, 8])
    again = [1, 2, 3, 4, 5, 6]
    diagnosis = diagnose(make_rollout(base, other, (again, [10]), other, (again, [11])))
    assert [found.resumes_datum for found in diagnosis.breaks] == [None, 0, None, 0]
    assert diagnosis.lineages == 4


def test_no_lineage_sentence_without_a_return() -> None:
    diagnosis = diagnose(make_rollout(([1, 2], [3]), ([4, 5], [6])))
    assert diagnosis.lineages == 2
    assert lineage_wording(diagnosis) is None


def test_ids_of_any_size_are_told_apart() -> None:
    big = 2**31 - 1
    for offset in (0, 0x10F7FF, 0xD7F0, big - 40):
        ob = [offset + k for k in range(20)]
        new = [*ob[:5], *ob[8:], offset + 21, offset + 30]
        (found,) = diagnose(make_rollout((ob, [offset + 21]), (new, [1, 2]))).breaks
        assert (found.cause, found.position, found.removed, found.kept) == ("removed", 5, 3, 13)


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


@pytest.mark.parametrize(
    ("turns", "again"),
    [
        # the new datum is [11, 10]: 10 is its last target, not an input
        ([([11, 10], [3]), ([11, 10], [])], [1]),
        # 6 and 7 come from datum 0, which is not the sequence held; 7 was never an input
        ([([1, 2, 3, 4, 5], [6, 7]), ([20, 21], [22]), ([1, 2, 3, 4, 5, 7, 8], [9])], [0, 5]),
        ([([1, 2, 3], [4]), ([9], [8]), ([1, 2, 3, 4, 5], [6])], [0, 3]),
        ([([1, 2, 3], [4]), ([1, 2, 3], [4])], [3]),
        ([([1, 2, 3], [4]), ([3, 4], [])], [1]),
    ],
)
def test_what_is_read_again(turns: list[Any], again: list[int]) -> None:
    assert [item.again for item in diagnose(make_rollout(*turns)).breaks] == again


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_more_is_read_again_than_both_have(data: st.DataObject) -> None:
    """At least the longest common start of the inputs with any earlier datum's, at most the
    longest common subsequence: against the real datums."""
    letters = st.integers(1, data.draw(st.sampled_from([2, 4, 9])))
    turns = [
        (data.draw(st.lists(letters, max_size=6)), data.draw(st.lists(letters, max_size=3)))
        for _ in range(data.draw(st.integers(2, 5)))
    ]
    diagnosis = diagnose(make_rollout(*turns))
    if diagnosis.built.error_code is not None:
        return
    owners = sorted({s.datum for s in diagnosis.spans if s.observation + s.action})
    inputs = dict(zip(owners, [d.model_input.to_ints() for d in diagnosis.built.data], strict=True))
    for item in diagnosis.breaks:
        datum = diagnosis.spans[item.turn].datum
        mine = inputs.get(datum, [])[: diagnosis.spans[item.turn].observation]
        earlier = [inputs[at] for at in owners if at < datum]
        least = max((unedited_prefix_length(mine, one) for one in earlier), default=0)
        most = max(
            (
                int(edit_common_lengths(np.array(one, "u4"), np.array(mine, "u4"), 99)[-1])
                for one in earlier
                if one and mine
            ),
            default=0,
        )
        assert least <= item.again <= most, (turns, item)


def test_pictures_read_again_count_all_their_tokens() -> None:
    for changed, again in ((70, 1 + 4 + 1 + 1), (1, 4 + 1 + 1 + 1)):
        ob = [1, picture("a", 4), 70, 3]
        new = [71 if token == changed else token for token in ob]
        turns = [(ob, [4, 5]), ([*new, 4, 5, 6], [7])]
        (found,) = diagnose(make_rollout(*turns)).breaks
        assert found.again == again
        said = " ".join(verdict_break_sentences(found, {}, images=True))
        assert f"At position {found.position} of 6 (an image counts as one): expected" in said


def mutated(monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> list[str]:
    """Names of the cases that fail once `name` is replaced wherever the package uses it."""
    for module in [
        sys.modules[key] for key in sys.modules if key.startswith("sequence_extension.")
    ]:
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
    right = name_break_cause

    def swapped(held: Any, new: Any, position: int, edit: Any, *rest: Any) -> str:
        cause = right(held, new, position, edit, *rest)
        # the context rule before the edit rules
        if cause in ("removed", "inserted") and 2 * (position + edit.kept) < len(held):
            return "new_context"
        # and the edit rules before the rule on the end token
        return "replaced" if cause == "end_token" else cause

    failed = mutated(monkeypatch, "name_break_cause", swapped)
    assert "return_token_becomes_end_token" in failed
    assert "default_system_prompt_appears_on_turn_1" not in failed


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)), st.integers(0, 5))
def test_common_prefix_length(left: list[int], right: list[int], at: int) -> None:
    shared = 0
    while shared < min(len(left) - at, len(right)) and left[at + shared] == right[shared]:
        shared += 1
    assert unedited_prefix_length(left, right, at, 0) == max(0, shared)


def test_common_prefix_length_of_long_lists() -> None:
    for length in (0, 63, 64, 65, 191, 192, 193, 5_000):
        left, right = [0] * 6_000, [0] * length + [1] + [0] * 700
        assert unedited_prefix_length(left, right) == length


def test_the_example_runs() -> None:
    results = doctest.testmod(diagnosis_module)
    assert (results.failed, results.attempted > 3) == (0, True)
