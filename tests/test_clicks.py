"""Tokens that are clicked in the editor.

1. A click does to its turn what it says: the observation and action afterwards are the same list
   with one token replaced, removed or given a neighbour (an oracle on plain lists).
2. Turns before it stay as they are; turns that carry the history over carry the change, too.
3. What is written can be read and clicked again; changes to the history keep their own notation.
4. Logprobs that were typed stay with their tokens.
5. A click that cannot be made says so in a sentence.
"""

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequence_extension.editor.changes import parse_changes
from sequence_extension.editor.clicks import Click, apply_click, click_histories
from sequence_extension.editor.drafts import TurnDraft, drafts_to_rollout
from sequence_extension.editor.fields import FieldError, parse_field_elements
from sequence_extension.editor.scenarios import scenarios
from sequence_extension.elements import model_input_to_elements


def turns_of(drafts: tuple[TurnDraft, ...]) -> list[tuple[list[Any], list[int]]]:
    """Observation and action of each turn, through the real rollout."""
    rollout, issues = drafts_to_rollout(drafts, {}, "")
    assert rollout is not None, issues
    return [
        (list(model_input_to_elements(step.ob)), list(step.ac.tokens))
        for step in rollout.trajectory.transitions
    ]


WHAT: list[Literal["replace", "insert", "delete"]] = ["replace", "insert", "delete"]


@given(st.data())
def test_a_click_does_what_it_says(data: st.DataObject) -> None:
    """Invariants 1, 2 and 3: several clicks in a row on every scenario."""
    drafts = data.draw(st.sampled_from([item.drafts for item in scenarios().values()]))
    for _ in range(data.draw(st.integers(1, 4))):
        before = turns_of(drafts)
        turn = data.draw(st.integers(0, len(drafts) - 1))
        observation, action = before[turn]
        flat: list[Any] = [*observation, *action]
        what = data.draw(st.sampled_from(WHAT))
        end = len(flat) - (what != "insert")
        if end < 0:
            continue
        position = data.draw(st.integers(0, end))
        part: Literal["observation", "action"] = data.draw(
            st.sampled_from(["observation", "action"])
        )
        new = [] if what == "delete" else data.draw(st.lists(st.integers(900, 999), min_size=1))
        click = Click(turn, position, what, " ".join(map(str, new)), part)
        drafts = apply_click(drafts, click)
        after = turns_of(drafts)
        expected = [*flat[:position], *new, *flat[position + (what != "insert") :]]
        assert [*after[turn][0], *after[turn][1]] == expected
        inserts_at_joint = what == "insert" and position == len(observation)
        in_action = position > len(observation) or (
            part == "action" if inserts_at_joint else position == len(observation)
        )
        grown = len(new) - (what != "insert")
        assert len(after[turn][1]) == len(action) + (grown if in_action else 0)
        assert after[:turn] == before[:turn]
        if turn + 1 < len(drafts) and drafts[turn + 1].history == "extends":
            assert after[turn + 1][0][: len(expected)] == expected


@st.composite
def unlike_turns(draw: st.DrawFn) -> tuple[TurnDraft, ...]:
    """Up to four turns in which no token occurs twice; later ones may change their history."""
    fresh = iter(range(1, 10_000))

    def tokens(least: int, most: int) -> str:
        return " ".join(str(next(fresh)) for _ in range(draw(st.integers(least, most))))

    drafts: list[TurnDraft] = []
    for turn in range(draw(st.integers(2, 4))):
        edits = ""
        if turn and draw(st.booleans()):
            count = len(click_histories([*drafts, TurnDraft("", "")])[-1])
            changes = parse_changes("", count)
            for at in draw(st.sets(st.integers(0, count - 1), max_size=3)):
                changes.instead[at] = draw(st.sampled_from([[], [next(fresh)]]))
            for at in draw(st.sets(st.integers(0, count), max_size=2)):
                changes.before[at] = [next(fresh)]
            edits = changes.text()
        mode: Literal["extends", "edits"] = "edits" if edits else "extends"
        drafts.append(TurnDraft(tokens(1, 3), tokens(1, 3), history=mode, edits=edits))
    return tuple(drafts)


@given(unlike_turns(), st.data())
def test_later_turns_keep_their_changes_at_the_tokens_they_name(
    drafts: tuple[TurnDraft, ...], data: st.DataObject
) -> None:
    """Invariant 2: the oracle edits every list of tokens that holds the clicked one."""
    before = turns_of(drafts)
    turn = data.draw(st.integers(0, len(drafts) - 1))
    flat = [*before[turn][0], *before[turn][1]]
    position = data.draw(st.integers(0, len(flat) - 1))
    what = data.draw(st.sampled_from(WHAT))
    token, new = flat[position], 99_999
    part: Literal["observation", "action"] = (
        "action" if position == len(before[turn][0]) else "observation"
    )
    after = turns_of(apply_click(drafts, Click(turn, position, what, str(new), part)))

    def expected(tokens: list[Any]) -> list[Any]:
        if token not in tokens:
            return tokens
        at = tokens.index(token)
        put = {"replace": [new], "insert": [new, token], "delete": []}[what]
        return [*tokens[:at], *put, *tokens[at + 1 :]]

    def without_new(tokens: list[Any]) -> list[Any]:
        return [item for item in tokens if item != new]

    for earlier, later in zip(before[turn:], after[turn:], strict=True):
        lists = ([*earlier[0], *earlier[1]], [*later[0], *later[1]])
        if what != "insert":
            assert lists[1] == expected(lists[0])
        else:  # where the neighbour was changed, the new token may go or stay, and nothing else
            assert without_new(lists[1]) == lists[0]
            assert lists[1].count(new) <= 1
    assert expected([*before[turn][0], *before[turn][1]]) == [*after[turn][0], *after[turn][1]]


def test_what_is_put_inside_stripped_reasoning_is_stripped_too() -> None:
    """Invariant 2."""
    drafts = scenarios()["removed"].drafts
    before = turns_of(drafts)
    after = turns_of(apply_click(drafts, Click(0, 7, "insert", "77", "action")))
    assert after[0][1] == [*before[0][1][:2], 77, *before[0][1][2:]]
    assert after[1:] == before[1:]


@given(st.data())
def test_changes_are_written_as_they_are_read(data: st.DataObject) -> None:
    """Invariant 3."""
    count = data.draw(st.integers(1, 12))
    history = list(range(100, 100 + count))
    positions = st.dictionaries(
        st.integers(0, count - 1), st.lists(st.integers(0, 50), max_size=3), max_size=6
    )
    inserted = st.dictionaries(
        st.integers(0, count), st.lists(st.integers(0, 50), min_size=1, max_size=3), max_size=4
    )
    changes = parse_changes("", count)
    changes.instead.update(data.draw(positions))
    changes.before.update(data.draw(inserted))
    again = parse_changes(changes.text(), count)
    assert again.made(history) == changes.made(history)
    assert again == changes


def test_neighbours_that_go_share_one_entry() -> None:
    """Invariant 3: as a person would write it."""
    drafts: tuple[TurnDraft, ...] = (TurnDraft("1 2 3", "4 5"), TurnDraft("6", "7"))
    for _ in range(3):
        drafts = apply_click(drafts, Click(1, 1, "delete"))
    assert drafts[1].history == "edits"
    assert drafts[1].edits == "1-3:"
    assert click_histories(drafts)[1] == [1, 2, 3, 4, 5]
    assert turns_of(drafts)[1][0] == [1, 5, 6]


@pytest.mark.parametrize(
    ("logprobs", "click", "expected"),
    [
        ("auto", Click(0, 3, "delete"), "auto"),
        ("-0.1 -0.2 -0.3", Click(0, 3, "delete"), "-0.1 -0.3"),
        ("-0.1 -0.2 -0.3", Click(0, 3, "replace", "9"), "-0.1 -0.2 -0.3"),
        ("-0.1, ...", Click(0, 4, "delete"), "-0.1, ..."),
        ("-0.1 -0.2 ...", Click(0, 2, "delete"), "-0.2 ..."),
        ("-0.1 -0.2 -0.3", Click(0, 0, "delete"), "-0.1 -0.2 -0.3"),
    ],
)
def test_typed_logprobs_stay_with_their_tokens(logprobs: str, click: Click, expected: str) -> None:
    """Invariant 4: the action's three tokens stand at positions 2 to 4."""
    [changed] = apply_click((TurnDraft("1 2", "3 4 5", logprobs),), click)
    assert changed.logprobs == expected


def test_an_inserted_token_gets_a_logprob_of_its_own() -> None:
    """Invariant 4."""
    [changed] = apply_click(
        (TurnDraft("1 2", "3 4", "-0.1 -0.2"),), Click(0, 3, "insert", "8", "action")
    )
    first, made_up, last = changed.logprobs.split()
    assert (first, last) == ("-0.1", "-0.2")
    assert float(made_up) < 0
    rollout, issues = drafts_to_rollout([changed], {}, "")
    assert rollout is not None
    assert issues == []


@pytest.mark.parametrize(
    ("click", "words"),
    [
        (Click(0, 0, "replace", "x"), "not a token id"),
        (Click(0, 0, "replace", " "), "Type a token id"),
        (Click(0, 3, "replace", "image(a, 2)"), "cannot be sampled"),
        (Click(0, 4, "delete"), "no position 4"),
        (Click(0, -1, "delete"), "no position -1"),
        (Click(7, 0, "delete"), "no turn 7"),
        (Click(1, 0, "delete"), "Turn 1, observation index 1: `oops` is not a token id"),
        (Click(2, 0, "delete"), "Turn 1, observation index 1: `oops` is not a token id"),
        (Click(0, 2, "replace", "1 x"), "Turn 0, position 2: `x` is not a token id"),
    ],
)
def test_impossible_clicks_say_so(click: Click, words: str) -> None:
    """Invariant 5."""
    drafts = (TurnDraft("1 2", "3 4"), TurnDraft("5 oops", "6"), TurnDraft("7", "8"))
    with pytest.raises(FieldError, match=words) as caught:
        apply_click(drafts, click)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("draft", "words"),
    [
        (TurnDraft("1", "2 x"), "Turn 0, action index 1: `x` is not"),
        (TurnDraft("1", "2", history="edits", edits="9: 9"), "Turn 0, history change 0: `9: 9`"),
    ],
)
def test_a_click_names_the_field_that_cannot_be_read(draft: TurnDraft, words: str) -> None:
    """Invariant 5."""
    with pytest.raises(FieldError) as caught:
        apply_click((draft,), Click(0, 0, "replace", "7"))
    assert str(caught.value).startswith(words)


def test_a_turn_that_cannot_be_read_hinders_no_click_before_it() -> None:
    """Invariant 5: it stays as it was typed."""
    drafts = (TurnDraft("1 2", "3 4"), TurnDraft("5 oops", "6", history="edits", edits="9: 9"))
    changed = apply_click(drafts, Click(0, 0, "delete"))
    assert changed == (TurnDraft("2", "3 4"), drafts[1])


def test_images_can_be_put_beside_tokens() -> None:
    """Invariant 1: an image is one element, and is written as it was typed."""
    [changed] = apply_click(
        (TurnDraft("1 image(a, 3) 2", "3"),), Click(0, 1, "insert", "image(b, 2) 7")
    )
    assert changed.ob == "1 image(b, 2) 7 image(a, 3) 2"
    assert len(parse_field_elements(changed.ob)) == 5
