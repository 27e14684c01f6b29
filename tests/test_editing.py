"""What the editor's turns become, as the browser is told.

1. Nothing typed becomes HTML; texts that cannot be drawn do no harm.
2. The view tells of every turn: verdict, tokens, where it breaks, and what cannot be read.
3. A click changes the turns; one that cannot be made changes nothing and says why.
4. Every answer names the state that it belongs to.
"""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.drafts import TurnDraft, drafts_to_rollout
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.page.editing import (
    Edited,
    editing_chips,
    editing_diagnosis,
    editing_outcome_html,
    editing_view,
    read_editing,
)
from sequence_extension.page.turns import TurnsEditor
from sequence_extension.turns import walk_turns

SCENARIOS = sorted(scenarios())


def state_of(*drafts: TurnDraft, click: dict[str, Any] | None = None) -> dict[str, Any]:
    """A state as the browser sends it."""
    listed = [asdict(draft) for draft in drafts]
    return {"serial": 7, "scenario": "chat", "drafts": listed, "click": click}


def typed(*drafts: TurnDraft) -> Edited:
    """Turns as typed into the first scenario."""
    return read_editing(state_of(*drafts))


@pytest.mark.parametrize("hostile", ["<img src=x onerror=alert(1)>", '"><script>', "</p>"])
def test_typed_markup_is_shown_as_text(hostile: str) -> None:
    """Invariant 1: what travels as HTML is escaped; the rest is plain data for `textContent`."""
    bad = typed(TurnDraft(hostile, hostile, hostile, hostile))
    view = editing_view(replace(bad, click_issue=hostile, serial=0), note=hostile)
    pages = [view["lesson"], view["outcome"], view["click_issue"]]
    pages += [page for turn in view["turns"] for page in turn["issues"].values()]
    assert len(pages) >= 6
    for page in pages:
        assert "<img" not in page
        assert "<script" not in page
        assert page.count("</p>") == page.count("<p")
    json.dumps(view).encode("utf-8")


@pytest.mark.parametrize("key", SCENARIOS)
def test_the_view_tells_of_every_turn(key: str) -> None:
    """Invariant 2."""
    scenario = scenarios()[key]
    view = editing_view(read_editing(state_of(*scenario.drafts) | {"scenario": key}))
    diagnosis = diagnose(scenario_rollout(scenario))
    assert [turn["splits"] for turn in view["turns"]] == [s.splits for s in diagnosis.spans]
    assert [turn["action"] for turn in view["turns"]] == [s.action for s in diagnosis.spans]
    assert all(turn["verdict"] and not turn["issues"] for turn in view["turns"][:1])
    assert view["outcome"].count("<rect") >= len(diagnosis.spans) + len(diagnosis.breaks)
    assert view["stale"] is False
    assert view["lesson"].startswith(scenario.lesson[:10])


def test_a_bad_token_marks_its_field_and_only_it() -> None:
    """Invariant 2: the turns before it keep their tokens."""
    view = editing_view(typed(TurnDraft("1 2", "3"), TurnDraft("x", "4"), TurnDraft("5", "6")))
    assert view["stale"] is True
    assert [sorted(turn["issues"]) for turn in view["turns"]] == [[], ["ob"], []]
    assert [turn["readable"] for turn in view["turns"]] == [True, False, False]
    assert "issue bad" in view["turns"][1]["issues"]["ob"]


def test_a_click_changes_the_turns() -> None:
    """Invariant 3."""
    click = {"turn": 0, "position": 1, "what": "replace", "text": "9", "part": "observation"}
    result = read_editing(state_of(TurnDraft("1 2", "3"), click=click))
    assert result.drafts == (TurnDraft("1 9", "3"),)
    assert editing_view(result)["drafts"][0]["ob"] == "1 9"
    failed = read_editing(state_of(TurnDraft("1 2", "3"), click=click | {"text": "nine"}))
    assert failed.drafts == (TurnDraft("1 2", "3"),)
    assert failed.diagnosis is not None
    view = editing_view(failed)
    assert "Turn 0, position 1: <code>nine</code> is not a token id" in view["click_issue"]
    assert view["stale"] is True


def test_every_answer_names_its_state() -> None:
    """Invariant 4: so a late answer, or a late message, cannot act on another turn's fields."""
    chat = scenarios()["chat"]
    widget = TurnsEditor(chat, chat.drafts)
    assert widget.view["serial"] == 0
    removed = state_of(*chat.drafts[1:])
    widget.state = removed
    result = widget.answer()
    assert result.drafts == chat.drafts[1:]
    assert widget.view["serial"] == removed["serial"] == 7
    assert len(widget.view["turns"]) == 2
    # a message about the turns as they were carries all of them, not one field by its number
    widget.state = state_of(*chat.drafts) | {"serial": 8}
    assert widget.answer().drafts == chat.drafts
    assert len(widget.view["turns"]) == 3


def test_chips_show_what_is_carried_and_where_it_breaks() -> None:
    def kinds(key: str) -> list[str]:
        rollout = scenario_rollout(scenarios()[key])
        turns = editing_chips(
            rollout.trajectory, walk_turns(rollout.trajectory), rollout.vocab
        )  # fmt: skip
        letters = {"observation": "O", "action": "A", "masked": "M", "held": ".", "break": "X",
                   "end": "|", "gap": "~"}  # fmt: skip
        return ["".join(letters[chip.kind] for chip in chips) for chips in turns]

    assert kinds("chat") == ["OOOOAA", "......OOAAA", "...........OAA"]
    assert kinds("removed")[1] == ".....XOOOOOAAAAAA"
    assert kinds("shortened")[1] == ".....|AA"
    assert kinds("masked")[1] == ".......OOOOMMM"
    assert kinds("empty")[1] == "|AAA"


def test_turns_before_one_that_cannot_be_read_keep_their_chips() -> None:
    chat = scenarios()["chat"]
    drafts = list(chat.drafts)
    whole = diagnose(scenario_rollout(chat))
    for bad in range(len(drafts)):
        broken = [*drafts[:bad], replace(drafts[bad], ac="x"), *drafts[bad + 1 :]]
        rollout, issues = drafts_to_rollout(broken, chat.vocab, "typed")
        assert rollout is None
        read = editing_diagnosis(broken, issues, chat.vocab)
        assert (read.spans if read else ()) == whole.spans[:bad]


def test_every_turn_that_blocks_is_named() -> None:
    drafts = [TurnDraft("1 2", "3", "-1")] * 11
    drafts[2] = TurnDraft("1", "x", "-1")
    assert "1 field cannot be read (turn 2); the figures below" in editing_outcome_html(
        typed(*drafts)
    )
    drafts[10] = TurnDraft("1", "x", "-1")
    drafts[0] = TurnDraft("1 2", "3", "-1 -2")
    drafts[1] = TurnDraft("1 2", "3", "")
    said = editing_outcome_html(typed(*drafts))
    assert "2 fields cannot be read (turn 2, turn 10)" in said
    assert "logprobs do not match (turn 0, turn 1); the figures" in said


def test_long_turns_are_shown_around_the_break_and_at_the_end() -> None:
    many = " ".join(map(str, range(900)))
    second = TurnDraft("1", "8", history="edits", edits="450: 5000")
    rollout = typed(TurnDraft(many, "7"), second).rollout
    assert rollout is not None
    spans = walk_turns(rollout.trajectory)
    _, chips = editing_chips(rollout.trajectory, spans, {})
    assert len(chips) < 130
    assert [chip.label for chip in chips if chip.kind == "break"] == ["5000"]
    assert [chip.kind for chip in chips].count("gap") == 2
    assert chips[-1].position == 902
