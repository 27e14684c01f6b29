"""Every ending of `EnvFromMessageEnv` is reached, with the rewards, metrics and stop reason that
the cookbook gives it, and is explained from the trajectory.
"""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from rollouts import episode_of
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy

from sequence_extension.cookbook import (
    TokenCompleter,
    TokensWithLogprobs,
    wait_for_cookbook,
)
from sequence_extension.diagnosis import diagnose
from sequence_extension.env import tutor
from sequence_extension.env.endings import endings_table, endings_turn_facts, explain_ending
from sequence_extension.env.episodes import (
    EpisodeSpec,
    episode_presets,
    episode_spec,
    play_episode,
)
from sequence_extension.env.policies import ScriptedPolicy
from sequence_extension.env.tutor import TutorEnv
from sequence_extension.page.playground import (
    playground_change_html,
    playground_controls,
    playground_menu_spec,
)

FORGIVING = ParseErrorPolicy(
    max_consecutive=1, penalty_per_error=0.2, terminal_reward=-0.5, mask_error_turns=True
)


def play(renderer: str, policy: str, **more: Any) -> Any:
    return episode_of(EpisodeSpec(renderer, policy, **more))


def lengths(episode: Any) -> list[tuple[int, int]]:
    return [(t.ob.length, len(t.ac.tokens)) for t in episode.rollout.trajectory.transitions]


def test_ending_done() -> None:
    episode = play("llama3", "wrong", turns=4)
    assert episode.stop_reason == "completed"
    assert episode.rewards == [1.0, 0.0, 1.0, 0.0]
    assert episode.metrics == [
        {"correct": 1.0},
        {"correct": 0.0},
        {"correct": 1.0},
        {"correct": 0.0, "stop/completed": 1.0},
    ]
    assert explain_ending(episode) == (
        "The tutor ended the rollout after its last question, in turn 3. The rewards sum to 2."
    )


def test_ending_overflow_after_a_turn_takes_its_reward() -> None:
    free = play("llama3", "plain", max_generation_tokens=10)
    needed = lengths(free)[2][0] + 10  # the prompt of turn 2 and what is reserved for its answer
    fits = play("llama3", "plain", max_generation_tokens=10, max_trajectory_tokens=needed)
    assert fits.rewards == free.rewards == [1.0, 1.0, 1.0]
    over = play("llama3", "plain", max_generation_tokens=10, max_trajectory_tokens=needed - 1)
    assert over.stop_reason == "context_overflow"
    assert over.rewards == [1.0, -0.1]
    assert over.metrics[1] == {
        "correct": 1.0,
        "context_overflow": 1.0,
        "stop/context_overflow": 1.0,
    }
    told = explain_ending(over)
    assert f"the next prompt would take {needed - 10} tokens" in told
    assert f"the budget of {needed - 1}" in told
    assert "\u22120.1, instead of the 1 it had earned" in told


def test_ending_first_prompt_over_budget() -> None:
    length = lengths(play("llama3", "plain"))[0][0]
    fits = play("llama3", "plain", max_generation_tokens=9, max_trajectory_tokens=length + 9)
    assert fits.stop_reason == "context_overflow"
    over = play("llama3", "plain", max_generation_tokens=9, max_trajectory_tokens=length + 8)
    assert over.stop_reason == "max_tokens"
    assert over.rewards == [-0.1]
    assert over.metrics == [{"max_tokens_reached": 1.0, "stop/max_tokens": 1.0}]
    assert lengths(over) == [(0, 0)]
    assert trajectory_to_data(over.rollout.trajectory, 1.0) == []
    assert f"The first prompt takes {length} tokens" in explain_ending(over)
    assert [(line.role, line.turn) for line in over.lines] == [("tutor", 0)]


def test_ending_cut_by_the_limit() -> None:
    episode = play("llama3", "cut", max_generation_tokens=20)
    assert episode.stop_reason == "max_tokens"
    assert episode.rewards == [1.0, -0.1]
    assert episode.metrics[1] == {"max_tokens_reached": 1.0, "stop/max_tokens": 1.0}
    assert lengths(episode)[1][1] == 20
    told = explain_ending(episode)
    assert "Turn 1's answer was cut at 20 tokens" in told
    assert "`terminate_on_length=True`" in told


def test_going_on_after_the_limit() -> None:
    episode = play("llama3", "cut", max_generation_tokens=20, terminate_on_length=False)
    assert episode.stop_reason == "completed"
    assert episode.rewards == [1.0, 0.0, 1.0, 1.0]
    assert episode.metrics == [
        {"correct": 1.0},
        {},
        {"correct": 1.0},
        {"correct": 1.0, "stop/completed": 1.0, "num_truncations_max_turn_tokens": 1.0},
    ]
    assert episode.logs[1].keys() == {"truncated_turn"}
    assert "`terminate_on_length=False` kept it" in explain_ending(episode)


def test_ending_parse_error() -> None:
    episode = play("llama3", "no_end")
    assert episode.stop_reason == "parse_error"
    assert episode.rewards == [1.0, -1.0]
    assert episode.metrics[1] == {"parse_error": 1.0, "stop/parse_error": 1.0}
    assert "ended the rollout with `failed_parse_reward`, \u22121" in explain_ending(episode)


def test_going_on_after_a_parse_error_costs_a_token() -> None:
    episode = play("llama3", "no_end", terminate_on_parse_error=False)
    assert episode.stop_reason == "completed"
    assert episode.rewards == [1.0, -1.0, 0.0, 1.0]
    assert episode.metrics[1] == {"parse_error": 1.0}
    assert lengths(episode)[2][0] == 0  # it saw nothing
    data = trajectory_to_data(episode.rollout.trajectory, 1.0)
    actions = sum(length for _, length in lengths(episode))
    assert sum(sum(datum.loss_fn_inputs["mask"].data) for datum in data) == actions - 1
    assert len(data) == 3
    told = explain_ending(episode)
    assert f"Turn 2 saw nothing at all: the first of its {lengths(episode)[2][1]}" in told


def test_ending_parse_error_policy_masks_the_turn() -> None:
    episode = play("llama3", "no_end", parse_error_policy=FORGIVING)
    assert episode.stop_reason == "parse_error"
    assert episode.rewards == [1.0, -0.5]
    assert episode.metrics[1] == {
        "parse_error": 1.0,
        "stop/parse_error": 1.0,
        "parse_error_masked": 1.0,
    }
    (datum,) = trajectory_to_data(episode.rollout.trajectory, 1.0)
    assert sum(datum.loss_fn_inputs["mask"].data) == lengths(episode)[0][1]
    told = explain_ending(episode)
    assert "`terminal_reward`, \u22120.5. Its tokens are masked" in told


def test_a_tool_call_that_does_not_parse_is_asked_again() -> None:
    episode = play("qwen3", "broken_call", parse_error_policy=FORGIVING)
    assert episode.stop_reason == "completed"
    assert episode.rewards == [1.0, -0.2, 1.0, 1.0]
    assert episode.metrics[1] == {"parse_error": 1.0, "parse_error_masked": 1.0}
    data = trajectory_to_data(episode.rollout.trajectory, 1.0)
    trained = sum(sum(datum.loss_fn_inputs["mask"].data) for datum in data)
    assert trained == sum(length for turn, (_, length) in enumerate(lengths(episode)) if turn != 1)
    assert "answered with a correction" in explain_ending(episode)


def test_a_retry_splits_because_the_call_is_not_in_history() -> None:
    episode = play("qwen3", "broken_call", parse_error_policy=FORGIVING)
    broken = next(message for message in episode.messages if "unparsed_tool_calls" in message)
    assert not broken["content"]
    turns = episode.rollout.trajectory.transitions
    decode = episode.renderer.tokenizer.decode
    assert "<tool_call>" in decode(turns[1].ac.tokens)
    assert "<tool_call>" not in decode(turns[2].ob.to_ints())
    (found,) = diagnose(episode.rollout).breaks
    assert (found.turn, found.cause) == (2, "removed")
    assert "turn 2 does not see the broken call, and splits" in explain_ending(episode)

    class RawTextBack(TutorEnv):
        """The remedy: what was sampled stands in the message's content."""

        async def step(self, message: Any) -> Any:
            for call in message.pop("unparsed_tool_calls", []):
                message["content"] = call.raw_text
            return await super().step(message)

    pupil = ScriptedPolicy(episode.renderer, "broken_call")
    mended = wait_for_cookbook(tutor.play_tutor(episode.renderer, pupil, RawTextBack()))
    assert len(trajectory_to_data(mended, 1.0)) == 1


def test_a_call_that_is_said_to_be_unseen_is_not_in_the_prompt(built: dict[str, Any]) -> None:
    said = []
    for name in built:
        episode = play(name, "broken_call", parse_error_policy=FORGIVING)
        if "does not see the broken call" in explain_ending(episode):
            said.append(name)
            prompt = episode.rollout.trajectory.transitions[2].ob.to_ints()
            assert "<tool_call>" not in episode.renderer.tokenizer.decode(prompt), name
    assert "qwen3" in said


def test_a_tool_call_that_does_not_parse_ends_without_retries() -> None:
    strict = ParseErrorPolicy(terminal_reward=-0.5)
    episode = play("qwen3", "broken_call", parse_error_policy=strict)
    assert episode.stop_reason == "parse_error"
    assert episode.rewards == [1.0, -0.5]
    assert episode.metrics[1] == {"parse_error": 1.0, "stop/parse_error": 1.0}
    assert "used up the policy's retries" in explain_ending(episode)


def test_a_pupil_that_never_answers_is_stopped(built: dict[str, Any]) -> None:
    class Silent(TokenCompleter):
        async def __call__(self, model_input: Any, stop: Any, *, max_tokens: Any = None) -> Any:
            return TokensWithLogprobs(tokens=[64], maybe_logprobs=[-1.0])

    spec = EpisodeSpec("llama3", turns=1, terminate_on_parse_error=False)
    episode = asyncio.run(play_episode(spec, built["llama3"], Silent()))
    assert episode.stop_reason == "max_turns"
    assert len(episode.rewards) == 8
    assert "limit of 8 turns" in explain_ending(episode)


def test_every_preset_ends_as_it_says() -> None:
    table = endings_table(episode_presets()).set_index("preset")
    assert table["stop reason"].tolist() == [
        "completed", "completed", "context_overflow", "max_tokens", "max_tokens", "completed",
        "parse_error", "completed", "parse_error", "completed",
    ]  # fmt: skip
    assert table["datums"].tolist() == [3, 1, 1, 0, 1, 1, 1, 3, 1, 2]
    assert table["rewards"].tolist() == [
        "1, 1, 1", "1, 1, 1", "1, \u22120.1", "\u22120.1", "1, \u22120.1", "1, 0, 1, 1",
        "1, \u22121", "1, \u22121, 0, 1", "1, \u22120.5", "1, \u22120.2, 1, 1",
    ]  # fmt: skip


def test_the_controls_give_back_every_preset() -> None:
    for spec in episode_presets().values():
        values = {
            **{name: getattr(spec, name) for name in spec.__dataclass_fields__},
            "max_trajectory_tokens": spec.max_trajectory_tokens or 0,
            "policy_on": spec.parse_error_policy is not None,
        }
        assert episode_spec(values) == spec


def test_turn_facts_are_the_trajectory() -> None:
    episode = play("llama3", "cut", max_generation_tokens=20)
    facts = endings_turn_facts(episode)
    assert list(facts["observation tokens"]) == [ob for ob, _ in lengths(episode)]
    assert list(facts["action tokens"]) == [ac for _, ac in lengths(episode)]
    assert list(facts["sampling stopped by"]) == ["stop", "length"]
    assert list(facts["reward"]) == ["1", "\u22120.1"]
    assert list(facts["metrics"]) == ["correct 1", "max_tokens_reached 1, stop/max_tokens 1"]
    assert list(facts["ends the rollout"]) == ["no", "yes"]
    assert "logs" not in facts


@pytest.mark.parametrize(
    ("spec", "asked", "facts"),
    [
        ({"policy": "no_end", "terminate_on_parse_error": False}, [16, 41, 0, 73], ["stop"] * 4),
        ({"max_trajectory_tokens": 30}, [], ["not asked"]),
    ],
    ids=["empty observation", "first prompt over budget"],
)
def test_what_the_pupil_was_asked(
    built: dict[str, Any], spec: Any, asked: list[int], facts: list[str]
) -> None:
    """The cookbook samples on an empty observation too, but not on a first prompt over budget."""
    wanted = EpisodeSpec("qwen3", max_generation_tokens=24, **spec)
    pupil = ScriptedPolicy(built["qwen3"], wanted.policy, max_tokens=24)
    seen: list[int] = []

    class Watched(TokenCompleter):
        async def __call__(self, model_input: Any, *more: Any, **options: Any) -> Any:
            seen.append(model_input.length)
            return await pupil(model_input, *more, **options)

    episode = asyncio.run(play_episode(wanted, built["qwen3"], Watched()))
    assert seen == asked
    assert endings_turn_facts(episode)["sampling stopped by"].tolist() == facts


@pytest.mark.parametrize("place", range(len(episode_presets())))
def test_a_row_is_what_is_played_until_a_control_changes(place: int) -> None:
    menu = SimpleNamespace(value={"chosen": place})
    values = playground_controls(playground_menu_spec(menu)).value
    assert playground_change_html(values, menu) == ""
    name = list(episode_presets())[place]
    assert f"Changed from the row “{name}”" in playground_change_html(values | {"seed": 7}, menu)
