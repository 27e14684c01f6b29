"""An episode is decided by its spec: tokens, logprobs, rewards. Real renderers, the real
`EnvFromMessageEnv` and `do_single_rollout`.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from rollouts import episode_of
from tinker_cookbook.rl.data_processing import trajectory_to_data

from sequence_extension.diagnosis import diagnose
from sequence_extension.env.episodes import (
    Episode,
    EpisodeSpec,
    Line,
    run_episodes,
)
from sequence_extension.env.tutor import TutorEnv
from sequence_extension.page.playground import playground_transcript_view


@pytest.mark.parametrize(
    ("renderer", "policy", "datums"),
    [
        ("qwen3", "plain", 1),
        ("qwen3", "reasoning", 3),
        ("llama3", "plain", 1),
        ("llama3", "reasoning", 1),
        ("role_colon", "plain", 1),
        ("role_colon", "no_space", 3),
        ("qwen3_5", "reasoning", 3),
        ("qwen3_5_preserve_thinking", "reasoning", 1),
        ("gpt_oss_no_sysprompt", "plain", 3),
        ("glm5_3_low_reasoning", "plain", 1),
        ("glm5_3_low_reasoning", "other_end", 3),
        ("llama3", "respelled", 3),
        ("tml_v0", "reasoning", 1),
    ],
)
def test_datums_of_three_questions(renderer: str, policy: str, datums: int) -> None:
    episode = episode_of(EpisodeSpec(renderer, policy))
    assert episode.rewards == [1.0, 1.0, 1.0]
    assert len(trajectory_to_data(episode.rollout.trajectory, 1.0)) == datums


def test_the_spec_decides_the_episode() -> None:
    def facts(spec: Any) -> list[Any]:
        episode = episode_of(spec)
        return [
            (t.ob.to_ints(), t.ac.tokens, t.ac.logprobs, t.reward, t.metrics)
            for t in episode.rollout.trajectory.transitions
        ]

    spec = EpisodeSpec("qwen3", "reasoning", turns=4, seed=3)
    assert facts(spec) == facts(spec)
    assert facts(spec) != facts(EpisodeSpec("qwen3", "reasoning", turns=4, seed=4))
    assert len(facts(spec)) == 4


def test_many_episodes_are_the_single_ones() -> None:
    specs = [EpisodeSpec("qwen3", "plain"), EpisodeSpec("no_such"), EpisodeSpec("llama3")]
    first, none, last = run_episodes(specs)
    assert isinstance(none, str)
    assert "Unknown renderer" in none
    for spec, episode in ((specs[0], first), (specs[2], last)):
        assert not isinstance(episode, str)
        alone = episode_of(spec)
        assert isinstance(episode, Episode)
        assert alone.rollout.trajectory == episode.rollout.trajectory
        assert alone.lines == episode.lines
    with pytest.raises(ValueError, match="no_such cannot be built"):
        episode_of(specs[1])


def test_episodes_run_inside_a_running_event_loop() -> None:
    async def cell() -> Any:
        return episode_of(EpisodeSpec("llama3", "plain"))

    assert asyncio.run(cell()).stop_reason == "completed"


def test_every_sampled_token_has_a_text(tokenizer: Any) -> None:
    episode = episode_of(EpisodeSpec("qwen3", "reasoning"))
    for transition in episode.rollout.trajectory.transitions:
        tokens = [*transition.ob.to_ints(), *transition.ac.tokens]
        text = "".join(episode.rollout.vocab[token] for token in tokens)
        assert text == tokenizer.decode(tokens)


def test_the_transcript_tells_each_turn_once() -> None:
    episode = episode_of(EpisodeSpec("llama3", "plain", turns=2))
    first, second = TutorEnv(0, 2).sums
    assert [(line.turn, line.role, line.text) for line in episode.lines] == [
        (0, "tutor", f"What is {first[0]} + {first[1]}?"),
        (0, "pupil", f"It is {sum(first)}.<|eot_id|>"),
        (1, "tutor", f"Right. What is {second[0]} + {second[1]}?"),
        (1, "pupil", f"It is {sum(second)}.<|eot_id|>"),
        (1, "tutor", "Right. Well done."),
    ]


def test_the_transcript_escapes_what_was_sampled() -> None:
    episode = episode_of(EpisodeSpec("llama3", "plain", turns=1))
    nasty = Line(0, "pupil", "<img src=x onerror=alert(1)>\u202e</li>")
    shown = playground_transcript_view(
        replace(episode, lines=(nasty,)), diagnose(episode.rollout).spans
    ).text
    assert "<img" not in shown
    assert "&lt;img src=x onerror=alert(1)&gt;\\u202e&lt;/li&gt;" in shown
