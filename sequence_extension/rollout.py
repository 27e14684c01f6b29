"""A rollout, and made-up ones for examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sequence_extension.cookbook import (
    PARSE_ERROR_MASKED_METRIC_KEY,
    TokensWithLogprobs,
    Trajectory,
    Transition,
    tinker,
)
from sequence_extension.elements import elements_input_length

# Stands in for log-probabilities where no model was asked.
PLACEHOLDER_LOGPROB = -1.0


@dataclass(frozen=True)
class Rollout:
    """One trajectory with what its source said about it.

    Attributes:
        name: Shown wherever the rollout is listed; any text, escaped where HTML is made.
        trajectory: The cookbook's own object; observations may hold image chunks.
        vocab: Text of token ids where known; ids that are missing have no text.
        group: Rollouts of one prompt share a group key; None stands alone.
        joined_lines: How many calls of the file were joined into this rollout; None where the
            file holds rollouts.
        without_id: Nothing told its calls from another rollout's: consecutive ones were joined.
        notes: What the reader left out or assumed, a sentence each (failed calls, samples that
            no later prompt continues, steps without tokens).
    """

    name: str
    trajectory: Trajectory
    vocab: Mapping[int, str] = field(default_factory=dict)
    group: str | None = None
    joined_lines: int | None = None
    without_id: bool = False
    notes: tuple[str, ...] = ()


def rollout_logprob(turn: int, index: int) -> float:
    """A plausible logprob (-0.05 to -0.95) that depends on its place only, never exactly 0."""
    return -(5 + (turn * 35 + index * 20) % 91) / 100


def rollout_trajectory(
    turns: Sequence[tuple[Sequence[int], Sequence[int]]], masked: Sequence[int] = ()
) -> Trajectory:
    """A trajectory from (whole observation, action) token pairs, with made-up logprobs.

    Args:
        turns: One pair per turn.
        masked: Turns that carry the cookbook's parse-error mask metric.
    """
    return Trajectory(
        transitions=[
            Transition(
                ob=tinker.ModelInput.from_ints(list(observation)),
                ac=TokensWithLogprobs(
                    tokens=list(action),
                    maybe_logprobs=[rollout_logprob(turn, i) for i in range(len(action))],
                ),
                reward=0.0,
                episode_done=turn + 1 == len(turns),
                metrics={PARSE_ERROR_MASKED_METRIC_KEY: 1.0} if turn in masked else {},
            )
            for turn, (observation, action) in enumerate(turns)
        ],
        final_ob=tinker.ModelInput.empty(),
    )


def rollout_tokens(rollout: Rollout) -> int:
    """Tokens of all observations and actions, history counted in every turn: the work it is."""
    return sum(
        elements_input_length(transition.ob) + len(transition.ac.tokens)
        for transition in rollout.trajectory.transitions
    )
