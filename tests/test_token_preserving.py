"""The environment that keeps the sampled tokens.

Invariants:
1. Every renderer against every policy: one datum, or a fallback on record.
2. With a fallback the observation is exactly the cookbook's.
3. Without one it is: last observation, answer, and what the renderer writes behind that answer.
"""

import pytest
from tinker_cookbook.rl.data_processing import trajectory_to_data

from sequence_extension import TokenPreservingEnv
from sequence_extension.diagnosis import diagnose
from sequence_extension.env.episodes import Episode, EpisodeSpec, run_episodes
from sequence_extension.env.policies import policy_names
from sequence_extension.env.renderers import renderer_names
from sequence_extension.env.token_preserving import FALLBACK_METRIC, REASON_LOG
from sequence_extension.env.vocabulary import offline_tokenizer


def fallbacks(episode: Episode) -> list[str]:
    """Reasons of the turns after which the prompt was rendered anew."""
    return [
        str(transition.logs[REASON_LOG])
        for transition in episode.rollout.trajectory.transitions
        if transition.metrics.get(FALLBACK_METRIC)
    ]


@pytest.mark.parametrize("name", renderer_names())
def test_every_policy_gives_one_datum_or_a_recorded_fallback(name: str) -> None:
    specs = [EpisodeSpec(name, policy, keep_tokens=True) for policy in policy_names()]
    for spec, episode in zip(specs, run_episodes(specs, offline_tokenizer()), strict=True):
        assert isinstance(episode, Episode), (spec, episode)
        datums = trajectory_to_data(episode.rollout.trajectory, 1.0)
        assert len(datums) == 1 or fallbacks(episode), spec
        warnings = {warning.code for warning in diagnose(episode.rollout).warnings}
        assert not warnings & {"separator_changed", "header_changed"}, spec


def test_public_names_are_one_class() -> None:
    from sequence_extension import env

    assert env.TokenPreservingEnv is TokenPreservingEnv
