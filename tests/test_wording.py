"""Causes, warnings and verdicts in words."""

import re
from typing import Any

import pytest
import tinker
from rollouts import (
    CASES,
    case_rollout,
    chat,
    make_rollout,
)

from sequence_extension.break_table import (
    break_table,
    break_title,
)
from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.page.views import break_figure, verdict_list
from sequence_extension.rollout import image_label
from sequence_extension.verdicts import verdicts
from sequence_extension.wording import remedy

CAUSES = {
    "shortened", "image_changed", "end_token", "retokenised", "removed", "inserted",
    "new_context", "reordered", "replaced",
}  # fmt: skip


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


def test_every_cause_has_a_remedy() -> None:
    assert len({remedy(cause) for cause in CAUSES}) == len(CAUSES)


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


def test_images_are_called_by_their_names() -> None:
    """Two images of one size differ in nothing else that a reader could see."""
    diagnosis = diagnose(scenario_rollout(scenarios()["image_changed"]))
    said = " ".join(verdicts(diagnosis)[1].sentences)
    assert 'expected an image of 4 tokens, "frameA"' in said
    assert 'got an image of 4 tokens, "frameA-again"' in said
    for unnamed in (b"\x89PNG\r\n", b"x" * 60, b"two\nlines", b""):
        chunk = tinker.types.ImageChunk(data=unnamed, format="png", expected_tokens=4)
        assert image_label(chunk) == "an image of 4 tokens"
