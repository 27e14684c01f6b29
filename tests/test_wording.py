"""Causes, warnings and verdicts in words."""

import re
from dataclasses import replace
from typing import Any

import pytest
import tinker
from rollouts import (
    CASES,
    CAUSES,
    case_rollout,
    chat,
    make_rollout,
)

from sequence_extension.break_table import (
    break_table,
    break_table_title,
)
from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.elements import image_element_label
from sequence_extension.page.verdicts import verdict_list_view
from sequence_extension.page.views import break_view
from sequence_extension.remedies import remedy
from sequence_extension.verdicts import verdicts
from sequence_extension.wording import (
    cause_sentence_wording,
    cause_wording,
    headline_wording,
    turn_wording,
)


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
    assert listed[1].item is not None


def test_each_scenario_says_its_cause() -> None:
    """The list says what the rules say."""
    for scenario in scenarios().values():
        found = diagnose(scenario_rollout(scenario))
        told = verdict_list_view(verdicts(found)).text
        lines = told.split('<li class="seq-verdict ')[1:]
        for item in found.breaks:
            (words,) = [line for line in lines if f"<b>Turn {item.turn}</b>" in line]
            assert f"Cause: {cause_wording(item.cause)}." in words
            assert f"At position {item.position} of {item.held}" in words
            assert "Remedy: " in words


def test_verdict_of_a_turn_that_extends_but_should_be_looked_at() -> None:
    listed = verdicts(diagnose(make_rollout(*chat([6, 12]))))
    assert [(item.kind, item.label) for item in listed] == [
        ("starts", "opens"),
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
        assert break_table_title(diagnosis, found).startswith(f"Turn {found.turn} splits: ")


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_one_remedy_a_break(case: dict[str, Any]) -> None:
    """One or two sentences, no list of remedies for every thing that it might have been."""
    for item in diagnose(case_rollout(case)).breaks:
        helps = remedy(item)
        assert helps.endswith(".")
        assert len(helps) < 190
        assert helps.count(":") <= 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("thinking/strip_thinking", "Keep the reasoning in the next prompt: `TokenPreservingEnv`"),
        ("leading_newline_trimmed", "Put the sampled tokens themselves"),
        ("bpe_retokenised_action", "Put the sampled tokens themselves"),
        ("retokenise/plain", "Put the sampled tokens themselves"),
        ("tool_call_args_key_order", "Put the sampled tokens themselves"),
        ("return_token_becomes_end_token", "Keep the end token that was sampled"),
        ("default_system_prompt_appears_on_turn_1", "into the first observation already"),
        ("clock_in_system/clock", "If a clock, counter or random id changes, freeze it"),
        ("rollback_to_an_earlier_state", "make the retry a rollout of its own"),
        ("prompt_ids_empty_in_every_step", "Record the prompts"),
        ("image_reencoded_between_turns", "encode it once"),
        ("compaction/plain", "compact rarely"),
        ("prompts_left_padded_to_one_length", "without padding"),
        ("tool_parser_swallows_tokens_of_token_ids", "special tokens included"),
        ("turns_recorded_out_of_order", "in the order in which they were sampled"),
    ],
)
def test_the_remedy_fits_what_is_known(name: str, words: str) -> None:
    case = next(case for case in CASES if case["name"] == name)
    item = diagnose(case_rollout(case)).breaks[0]
    assert words in remedy(item)


def test_remedies_that_name_ours() -> None:
    case = next(case for case in CASES if case["name"] == "sub_agent_interleaved_A_B_A_B")
    resumed = [
        item for item in diagnose(case_rollout(case)).breaks if item.resumes_datum is not None
    ]
    assert resumed
    assert all("`split_lineages`" in remedy(item) for item in resumed)
    case = next(case for case in CASES if case["name"] == "thinking/strip_thinking")
    item = diagnose(case_rollout(case)).breaks[0]
    assert item.lost == "reasoning"
    assert "`qwen3_5_preserve_thinking`" in remedy(item, "qwen3_5")
    assert "`nemotron3_ultra_preserve_thinking`" in remedy(item, "nemotron3_ultra_medium_thinking")
    assert "a renderer that preserves thinking" in remedy(item, "llama3")
    (item,) = diagnose(make_rollout(([1, 2], [3, 4]), ([1, 2, 3, 5, 6], [7]))).breaks
    assert "in place of the one that `qwen3` writes" in remedy(item, "qwen3")


def test_a_sentence_and_a_remedy_for_every_cause_and_place() -> None:
    base = diagnose(make_rollout(([1, 2], [3, 4]), ([1, 2, 3, 5, 6], [7]))).breaks[0]
    for cause in CAUSES:
        for lost in ("reasoning", "action", "header", "observation", "both"):
            for bounded in (None, "Stopped."):
                item = replace(base, cause=cause, lost=lost, bounded=bounded)
                assert remedy(item).endswith(".")
                assert cause_sentence_wording(item).endswith(".")
                assert headline_wording(item).startswith("Turn 1 splits: ")
    assert base.lost == "action"


def test_one_word_for_what_became_of_a_turn() -> None:
    turns = [([], []), ([1, 2], [3]), ([1, 2, 3, 4], [5]), ([1], [6])]
    diagnosis = diagnose(make_rollout(*turns))
    assert [turn_wording(span) for span in diagnosis.spans] == [
        "opens datum 0",
        "opens datum 0",
        "extends, stays in datum 0",
        "splits at position 1, opens datum 1",
    ]
    assert [verdict.label for verdict in verdicts(diagnosis)] == [
        "opens", "opens", "extends", "splits",
    ]  # fmt: skip
    assert turn_wording(diagnosis.spans[2], refused=True) == "would extend, stay in datum 0"


def test_texts_are_escaped_wherever_html_is_made() -> None:
    evil = "<img src=x onerror=alert(1)>"
    vocab = dict.fromkeys(range(20), evil)
    turns = [([1, 2, 3], [4, 5, 6]), ([1, 2, 5, 6, 7], [8])]
    diagnosis = diagnose(make_rollout(*turns, vocab=vocab))
    (found,) = diagnosis.breaks
    page = verdict_list_view(verdicts(diagnosis)).text
    page += break_view(break_table(diagnosis, found), evil).text
    assert "<img" not in page
    assert "&lt;img" in page


def test_verdict_list_joins_turns_that_extend() -> None:
    turns, held = [], [1, 2]
    for turn in range(60):
        turns.append((held, [100 + turn]))
        held = [*held, 100 + turn, 200 + turn]
    page = verdict_list_view(verdicts(diagnose(make_rollout(*turns)))).text
    assert "Turns 1 to 59" in page
    assert page.count("<li class=") == 2


def test_cause_and_remedy_are_said_once() -> None:
    turns = [([turn, 1000 + turn], [2000 + turn]) for turn in range(4)]
    listed = verdicts(diagnose(make_rollout(*turns)))
    said = [item.sentences[1:3] for item in listed if item.kind == "splits"]
    assert listed[1].item is not None
    assert said[0][1] == f"Remedy: {remedy(listed[1].item)}"
    for cause, helps in said[1:]:
        assert cause == "Cause: new context. As for turn 1."
        assert helps == "Remedy: as for turn 1."


def test_verdict_list_is_capped() -> None:
    turns = [([turn, 1000 + turn], [2000 + turn]) for turn in range(60)]
    page = verdict_list_view(verdicts(diagnose(make_rollout(*turns)))).text
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
        assert image_element_label(chunk) == "an image of 4 tokens"


def test_an_empty_observation_behind_a_prompt_is_another_matter() -> None:
    (item,) = diagnose(make_rollout(([1, 2], [3, 4]), ([], [5, 6]))).breaks
    assert "return the history with the error" in remedy(item)
