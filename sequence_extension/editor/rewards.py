"""A group to try rewards on, and rewards as typed."""

from typing import Any

from sequence_extension.cookbook import (
    Env,
    InitialObservationOverflow,
    TokenCompleter,
    Trajectory,
    do_single_rollout,
    wait_for_cookbook,
)
from sequence_extension.editor.fields import FieldError, parse_field_reward
from sequence_extension.rollout import Rollout, rollout_trajectory
from sequence_extension.text import count_text

# Bound of a reward typed in section 6: larger ones do not fit a cell.
MAX_REWARD = 1_000_000.0


class OverBudgetEnv(Env):
    """An environment whose first prompt is already over `max_trajectory_tokens`.

    Its rollout has no tokens at all: the cookbook's loop stops before it samples.
    """

    async def initial_observation(self) -> InitialObservationOverflow:
        return InitialObservationOverflow(reward=0.0, metrics={"stop/max_tokens": 1.0})

    async def step(self, action: list[int], *, extra: Any = None) -> Any:
        raise RuntimeError("The rollout loop never steps an environment that is over budget.")


def reward_rollouts() -> dict[str, Rollout]:
    """Eight rollouts of one prompt, each of another shape, by letter.

    `Rollout.name` says what happened. Rewards are 0: `assemble_group` sets them.
    """
    prompt = [100, 101, 102, 103]
    first, second, third = [200, 201], [400, 401, 402], [600, 601]
    extended = [*prompt, *first, 300, 301]
    shapes: dict[str, tuple[str, Trajectory]] = {
        "A": (
            "three turns that extend",
            rollout_trajectory(
                [
                    (prompt, first),
                    (extended, second),
                    ([*extended, *second, 500], third),
                ]
            ),
        ),
        "B": (
            "two turns that extend",
            rollout_trajectory([(prompt, [210, 211]), ([*prompt, 210, 211, 310], [410, 411])]),
        ),
        "C": (
            "context reset after turn 0",
            rollout_trajectory([(prompt, first), ([100, 320, 321], [420, 421])]),
        ),
        "D": (
            "reasoning stripped from history",
            rollout_trajectory(
                [
                    (prompt, [230, 231, 201]),
                    ([*prompt, 201, 300], [230, 231, 401]),
                    ([*prompt, 201, 300, 401, 500], [230, 601]),
                ]
            ),
        ),
        "E": (
            "first prompt over budget",
            wait_for_cookbook(do_single_rollout(TokenCompleter(), OverBudgetEnv())),
        ),
        "F": (
            "turn 0 did not parse, is masked",
            rollout_trajectory([(prompt, [240, 241]), ([*prompt, 240, 241, 340], second)], [0]),
        ),
        "G": ("one turn", rollout_trajectory([(prompt, first)])),
        "H": ("one long turn", rollout_trajectory([(prompt, [250, 251, 252, 253, 254, 255])])),
    }
    return {
        letter: Rollout(name, trajectory, group="tutor")
        for letter, (name, trajectory) in shapes.items()
    }


def reward_presets() -> dict[str, dict[str, str]]:
    """Named sets of rewards for `reward_rollouts`: one text per letter, empty leaves it out."""
    return {
        "Six rollouts, mixed rewards": {
            "A": "0 0 1",
            "B": "0.5 0.5",
            "C": "0 1",
            "D": "0 0 0",
            "E": "-1",
            "F": "0 0.5",
            "G": "",
            "H": "",
        },
        "All eight, one success": {
            "A": "0 0 0",
            "B": "0 0",
            "C": "0 0",
            "D": "0 0 1",
            "E": "0",
            "F": "0 0",
            "G": "0",
            "H": "0",
        },
        "All the same: no policy gradient": {
            "A": "0 0 1",
            "B": "0.5 0.5",
            "C": "0 1",
            "D": "0 0 1",
            "E": "",
            "F": "1 0",
            "G": "",
            "H": "",
        },
    }


def parse_rewards(text: str, turns: int, name: str) -> tuple[tuple[float, ...] | None, str | None]:
    """Rewards as typed, one number per turn, separated by spaces or commas.

    Args:
        text: What stands in the field. Empty leaves the rollout out of the group.
        turns: Number of turns of the rollout.
        name: What the sentence calls the rollout.

    Returns:
        The rewards and no sentence; or no rewards and a sentence that says what is wrong;
        or neither when the field is empty.
    """
    words = text.replace(",", " ").split()
    if not words:
        return None, None
    rewards: list[float] = []
    for turn, word in enumerate(words):
        try:
            rewards.append(parse_field_reward(word))
        except FieldError as error:
            problem = str(error).replace("`", '"')
            return None, f"Rollout {name}, turn {turn}: the reward {problem}"
        if abs(rewards[-1]) > MAX_REWARD:
            return None, (
                f"Rollout {name}, turn {turn}: keep rewards between "
                f"-{MAX_REWARD:,.0f} and {MAX_REWARD:,.0f}, so that they stay readable."
            )
    if len(rewards) != turns:
        return None, (
            f"Rollout {name} has {count_text(turns, 'turn')} but "
            f"{count_text(len(rewards), 'reward')}: give one number per turn."
        )
    return tuple(rewards), None
