"""Hints: patterns of a break that need another remedy than the cause's usual one."""

from collections import Counter
from typing import Any

import pytest
from rollouts import CASES, case_rollout, make_rollout

from sequence_extension.diagnosis import diagnose
from sequence_extension.env.episodes import EpisodeSpec, run_episodes
from sequence_extension.env.renderers import renderer_names
from sequence_extension.remedies import remedy

CASE_HINTS = {
    "image_placeholders_expanded_then_single": "one id 3 times, 41",
    "prompts_left_padded_to_one_length": "one id 8 times, 0",
    "tool_parser_swallows_tokens_of_token_ids": "wholly inside the action of turn 0: the engine",
    "turns_recorded_out_of_order": "1 datum in place of 2: they may have been recorded out of",
    "thinking_stripped_from_history": "wholly inside the action of turn 0: if it is no reasoning",
    "leading_newline_trimmed": "wholly inside the action of turn 0: if it is no reasoning",
}


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_hint_of_a_case(case: dict[str, Any]) -> None:
    breaks = diagnose(case_rollout(case)).breaks
    hint = CASE_HINTS.get(case["name"])
    if hint is None:
        assert not any(item.hints for item in breaks)
    else:
        assert hint in breaks[0].hints[0]
        assert len(breaks[0].hints) == 1


def test_reasoning_that_can_be_read_needs_no_hint() -> None:
    turns = [([1], [2, 3, 4, 6]), ([1, 4, 6, 7], [8, 6])]
    for text, hints in (("<think>so", 0), (" \n", 0), ("abc", 1)):
        vocab = {2: text, 3: " "}
        (item,) = diagnose(make_rollout(*turns, vocab=vocab)).breaks
        assert (item.cause, len(item.hints)) == ("removed", hints)


def test_white_space_around_reasoning_is_no_reasoning() -> None:
    """Only line breaks are gone, the reasoning stands: what helps is not to keep it."""
    vocab = {2: "<think>", 3: "so", 4: "</think>", 5: "\n", 6: "4", 9: "<end>"}
    kept = [1, 2, 3, 4, 6, 9, 7]
    for answer, lost in (([2, 5, 3, 5, 4, 5, 6, 9], "action"), ([2, 3, 3, 4, 6, 9], "reasoning")):
        (item,) = diagnose(make_rollout(([1], answer), (kept, [8, 9]), vocab=vocab)).breaks
        assert (item.cause, item.lost) == ("removed", lost)
        assert ("Keep the reasoning" in remedy(item)) == (lost == "reasoning")


def test_scattered_spaces_are_no_padding() -> None:
    turns = [([1, 2], [14, 3, 14, 4, 6]), ([1, 2, 3, 4, 6, 7], [8, 6])]
    (item,) = diagnose(make_rollout(*turns)).breaks
    assert not any("padding" in hint for hint in item.hints)


def test_what_is_gone_from_a_prompt_has_no_hint() -> None:
    """A window that slid takes observation and action."""
    turns = [([1, 2, 3, 4], [5, 6]), ([1, 2, 4, 5, 6, 7], [8, 6])]
    (item,) = diagnose(make_rollout(*turns)).breaks
    assert (item.cause, item.hints) == ("removed", ())


def test_agents_that_take_turns_are_not_out_of_order() -> None:
    a, b = [1, 10], [2, 20, 21, 22, 23, 24, 25]
    turns = [(a, [3, 6]), (b, [4, 6]), ([*a, 3, 6, 11], [5, 6]), ([*b, 4, 6, 26], [7, 6])]
    diagnosis = diagnose(make_rollout(*turns))
    assert diagnosis.lineages == 2
    assert not any(item.hints for item in diagnosis.breaks)


def test_turns_in_reverse_order() -> None:
    turns, held = [], [1, 2]
    for turn in range(4):
        turns.append((held, [10 + turn, 6]))
        held = [*held, 10 + turn, 6, 20 + turn]
    diagnosis = diagnose(make_rollout(*reversed(turns)))
    assert len(diagnosis.breaks) == 3
    assert all("1 datum in place of 4" in item.hints[-1] for item in diagnosis.breaks)


def test_where_tokens_of_real_renderers_are_lost() -> None:
    """Stripped reasoning is told as reasoning, with or without the prompt's end; what our
    environment cures is told to be cured by it."""
    policies = ("reasoning", "respelled", "whitespace", "other_end")
    specs = [EpisodeSpec(renderer=n, policy=p) for n in renderer_names() for p in policies]
    lost: Counter[tuple[str, str, str]] = Counter()
    for spec, episode in zip(specs, run_episodes(specs), strict=True):
        if isinstance(episode, str):
            continue
        for item in diagnose(episode.rollout).breaks[:1]:
            lost[spec.policy, item.cause, item.lost] += 1
            assert "TokenPreservingEnv" in remedy(item, spec.renderer)
    stripped = {key: count for key, count in lost.items() if key[:2] == ("reasoning", "removed")}
    assert set(stripped) == {("reasoning", "removed", "reasoning")}
    assert sum(stripped.values()) > 15
    respelled = {key[2] for key in lost if key[0] == "respelled"}
    assert respelled <= {"action", "header", "both"}
