"""ATIF trajectories, as Harbor and other agent frameworks write them."""

from typing import Any

from sequence_extension.formats.build import (
    RolloutSource,
    TurnSource,
    build_each,
    build_skipped_note,
    build_step_turn,
)
from sequence_extension.formats.results import NoTokens, RecordError
from sequence_extension.formats.values import loose_label_value, loose_reward_value

FIELDS = (
    ("metrics", "prompt_token_ids"),
    ("metrics", "completion_token_ids"),
    ("metrics", "logprobs"),
)
DETAIL_FIELDS = (("prompt_token_ids",), ("completion_token_ids",), ("logprobs",))


def read_atif(value: Any, index: int) -> list[RolloutSource] | None:
    """A trajectory with its sub-agents, or a trial's rollout details; None for anything else.

    Raises:
        RecordError: No step holds token ids.
    """
    if not isinstance(value, dict):
        return None
    details = atif_rollout_details(value)
    if details is not None:
        numbered = list(enumerate(details))
        return build_each(
            lambda pair: read_atif_details(value, pair[1], pair[0]), numbered, "detail"
        )
    if not is_atif(value):
        return None
    trajectories = [value]
    for trajectory in trajectories:
        nested = trajectory.get("subagent_trajectories")
        listed = nested if isinstance(nested, list) else []
        trajectories += [each for each in listed if is_atif(each)]
    sources = [read_atif_trajectory(trajectory) for trajectory in trajectories]
    known = [source for source in sources if source.turns]
    if not known:
        raise NoTokens(
            "no step of this ATIF trajectory holds token ids (`metrics.prompt_token_ids` and "
            "`metrics.completion_token_ids`); let the agent collect rollout details"
        )
    return known


def is_atif(value: Any) -> bool:
    """True for an object with the keys of an ATIF trajectory."""
    if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
        return False
    if str(value.get("schema_version", "")).startswith("ATIF"):
        return True
    steps = [step for step in value["steps"] if isinstance(step, dict)]
    return any("step_id" in step and "source" in step for step in steps)


def read_atif_trajectory(trajectory: dict[str, Any]) -> RolloutSource:
    """One trajectory; of the agent's steps those without ids make no turn and are counted."""
    turns = []
    skipped = 0
    for step in trajectory["steps"]:
        if not isinstance(step, dict) or step.get("is_copied_context"):
            continue
        turn = build_step_turn(step, FIELDS)
        if turn is None or turn.ob is None:
            skipped += step.get("source") == "agent"
        else:
            turns.append(turn)
    return RolloutSource(
        turns,
        name=loose_label_value(trajectory.get("trajectory_id"))
        or loose_label_value(trajectory.get("session_id")),
        reward=loose_reward_value(trajectory.get("reward")),
        notes=build_skipped_note(skipped, "step"),
    )


def atif_rollout_details(value: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The rollout details of a Harbor trial: whole turns as parallel lists."""
    agent = value.get("agent_result")
    for place in (value, agent if isinstance(agent, dict) else {}):
        details = place.get("rollout_details")
        if isinstance(details, list) and details and all(isinstance(d, dict) for d in details):
            return details
    return None


def read_atif_details(value: dict[str, Any], detail: dict[str, Any], number: int) -> RolloutSource:
    """One conversation of a trial: `prompt_token_ids[turn]`, `completion_token_ids[turn]`.

    Raises:
        RecordError: The lists are missing, or have different lengths.
    """
    prompts, actions = detail.get("prompt_token_ids"), detail.get("completion_token_ids")
    logprobs = detail.get("logprobs")
    path = ("rollout_details", number)
    if not isinstance(prompts, list) or not isinstance(actions, list):
        raise NoTokens("no `prompt_token_ids` and `completion_token_ids` of turns", path)
    if len(prompts) != len(actions):
        raise RecordError(f"{len(prompts):,} prompts for {len(actions):,} completions", path)
    known = logprobs if isinstance(logprobs, list) and len(logprobs) == len(actions) else []
    scores = [*known, *[None] * (len(actions) - len(known))]
    turns = [
        TurnSource(ob=prompt, ac=action, logprobs=score, fields=DETAIL_FIELDS)
        for prompt, action, score in zip(prompts, actions, scores, strict=True)
        if prompt != [] or action != []
    ]
    if prompts and not turns:
        raise NoTokens("no turn holds token ids", path)
    name = loose_label_value(value.get("trial_name"), number if number else "")
    notes = build_skipped_note(len(prompts) - len(turns), "turn")
    return RolloutSource(
        turns, name=name, group=loose_label_value(value.get("task_name")), notes=notes
    )
