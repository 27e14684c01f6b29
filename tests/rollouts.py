"""Small makers of trajectories and rollouts, and the cases with known answers."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tinker
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl.types import PARSE_ERROR_MASKED_METRIC_KEY, Trajectory, Transition

from sequence_extension.env.episodes import run_episodes
from sequence_extension.rollout import Rollout

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases.jsonl").read_text(encoding="utf-8").splitlines()
]
# As design names them, in no order.
CAUSES = {
    "shortened", "image_changed", "end_token", "retokenised", "removed", "inserted",
    "new_context", "reordered", "replaced",
}  # fmt: skip


def to_model_input(elements: Iterable[Any]) -> tinker.ModelInput:
    """Token ids and image chunks to a `ModelInput`, one chunk per element: the plainest way."""
    return tinker.ModelInput(
        chunks=[
            tinker.EncodedTextChunk(tokens=[element]) if isinstance(element, int) else element
            for element in elements
        ]
    )


def picture(name: str, tokens: int) -> tinker.types.ImageChunk:
    return tinker.types.ImageChunk(data=name.encode(), format="png", expected_tokens=tokens)


def make_turn(
    ob: Sequence[Any], ac: Sequence[int], logprobs: Any = "auto", masked: bool = False
) -> Transition:
    """One transition; logprobs are made up unless given."""
    given = [-0.1 - 0.05 * k for k in range(len(ac))] if logprobs == "auto" else logprobs
    return Transition(
        ob=to_model_input(ob),
        ac=TokensWithLogprobs(list(ac), given),
        reward=0.0,
        episode_done=False,
        metrics={PARSE_ERROR_MASKED_METRIC_KEY: 1.0} if masked else {},
    )


def make_trajectory(*turns: Transition | tuple[Sequence[Any], Sequence[int]]) -> Trajectory:
    """A trajectory of transitions, or of (observation, action) pairs."""
    return Trajectory(
        transitions=[
            turn if isinstance(turn, Transition) else make_turn(turn[0], turn[1]) for turn in turns
        ],
        final_ob=tinker.ModelInput.empty(),
    )


def make_rollout(*turns: Any, vocab: Mapping[int, str] | None = None) -> Any:
    """A `Rollout` of the notebook."""
    return Rollout("made", make_trajectory(*turns), vocab or {})


def case_rollout(case: Mapping[str, Any]) -> Any:
    """One line of cases.jsonl as a rollout: read here on its own, not by the notebook."""
    turns = []
    held: list[Any] = []
    for turn in case["transitions"]:
        whole = turn["ob"] if "ob" in turn else held + turn["append"]
        held = whole + turn["ac"]
        ob = [
            picture(item["image"], item["tokens"]) if isinstance(item, dict) else item
            for item in whole
        ]
        logprobs = turn["logprobs"]
        if logprobs is not None:
            logprobs = [float("nan") if item is None else float(item) for item in logprobs]
        made = make_turn(ob, turn["ac"], logprobs)
        made.metrics.update(turn.get("metrics", {}))
        turns.append(made)
    vocab = {int(token): text for token, text in case.get("vocab", {}).items()}
    return Rollout(case["name"], make_trajectory(*turns), vocab)


def episode_of(spec: Any, tokenizer: Any = None) -> Any:
    """One scripted episode of the notebook; `ValueError` with its sentence where it has none."""
    episode = run_episodes([spec], tokenizer)[0]
    if isinstance(episode, str):
        raise ValueError(episode)
    return episode


def chat(*separators: list[int]) -> list[tuple[list[int], list[int]]]:
    """Turns whose answers end with 6; what follows each answer is given."""
    turns, held = [], [1, 3, 20, 6, 12, 4]
    for turn, separator in enumerate([*separators, None]):
        action = [30 + turn, 6]
        turns.append((held, action))
        if separator is not None:
            held = [*held, *action, *separator, 3, 40 + turn, 6, 12, 4]
    return turns
