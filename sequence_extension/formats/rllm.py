"""Trajectories, episodes and groups of rLLM: `steps[].prompt_ids`, `response_ids`."""

from typing import Any

from sequence_extension.formats.build import (
    RolloutSource,
    TurnSource,
    build_each,
    build_skipped_note,
)
from sequence_extension.formats.results import NoTokens, RecordError
from sequence_extension.formats.values import loose_label_value, loose_reward_value
from sequence_extension.text import value_text

FIELDS = (("prompt_ids",), ("response_ids",), ("logprobs",))
DEFAULT_NAME = "default_traj_name"


def read_rllm(value: Any, index: int) -> list[RolloutSource] | None:
    """One trajectory, or those of an episode or group; None for anything else."""
    if not isinstance(value, dict):
        return None
    if is_rllm_trajectory(value):
        return [read_rllm_trajectory(value, value.get("uid"), None)]
    trajectories = value.get("trajectories")
    if not isinstance(trajectories, list) or not any(map(is_rllm_trajectory, trajectories)):
        return None
    episode = loose_label_value(value.get("id"))
    # Episodes of one task are a group; their ids are `task:number`.
    group = loose_label_value(value.get("group_id")) or loose_label_value(
        (episode or "").rpartition(":")[0]
    )
    name = episode or loose_label_value(value.get("group_id"))
    numbered = list(enumerate(trajectories))
    several = len(trajectories) > 1
    return build_each(
        lambda pair: read_rllm_trajectory(
            pair[1], loose_label_value(name, pair[0] if several else ""), group
        ),
        numbered,
        "trajectory",
    )


def is_rllm_trajectory(value: Any) -> bool:
    """True for a trajectory of rLLM."""
    steps = value.get("steps") if isinstance(value, dict) else None
    return isinstance(steps, list) and any(
        isinstance(step, dict) and ("response_ids" in step or "chat_completions" in step)
        for step in steps
    )


def read_rllm_trajectory(value: Any, name: Any, group: Any) -> RolloutSource:
    """One trajectory; a step that is no model call has no ids and makes no turn.

    Raises:
        NoTokens: No step has ids.
        RecordError: It is no trajectory.
    """
    if not is_rllm_trajectory(value):
        raise RecordError(f"expected a trajectory, got {value_text(value)}")
    turns = []
    skipped = 0
    for step in value["steps"]:
        step = step if isinstance(step, dict) else {}
        output = step.get("model_output")
        output = output if isinstance(output, dict) else {}
        ids = step.get("response_ids") or output.get("completion_ids")
        if not ids:
            skipped += 1
            continue
        turns.append(
            TurnSource(
                ob=step.get("prompt_ids") or output.get("prompt_ids"),
                ac=ids,
                logprobs=step.get("logprobs") or output.get("logprobs"),
                reward=loose_reward_value(step.get("reward")),
                fields=FIELDS,
            )
        )
    if not turns:
        raise NoTokens(
            "no step of this rLLM trajectory holds `prompt_ids` and `response_ids`; run it with "
            "an engine that returns token ids"
        )
    # rLLM gives steps a reward of 0 where only the whole trajectory is scored.
    if loose_reward_value(value.get("reward")) is not None and not any(
        turn.reward for turn in turns
    ):
        for turn in turns:
            turn.reward = None
    role = value.get("name")
    return RolloutSource(
        turns,
        name=loose_label_value(name, role if role != DEFAULT_NAME else ""),
        group=group,
        reward=loose_reward_value(value.get("reward")),
        notes=build_skipped_note(skipped, "step"),
    )
