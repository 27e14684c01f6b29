"""Rollouts of NeMo Gym: the output items of a response, some with token ids."""

from typing import Any

from sequence_extension.formats.build import RolloutSource, TurnSource, build_skipped_note
from sequence_extension.formats.results import RecordError
from sequence_extension.formats.values import loose_label_value, loose_reward_value

FIELDS = (("prompt_token_ids",), ("generation_token_ids",), ("generation_log_probs",))


def read_nemo_gym(value: Any, index: int) -> list[RolloutSource] | None:
    """One rollout, or None for anything else.

    Raises:
        RecordError: No output item holds token ids.
    """
    if not isinstance(value, dict):
        return None
    output = nemo_gym_output(value)
    if output is None:
        return None
    items = [item for item in output if isinstance(item, dict)]
    known = "responses_create_params" in value or "_ng_task_index" in value
    if not known and not any("generation_token_ids" in item for item in items):
        return None
    answers = [item for item in items if item.get("generation_token_ids") is not None]
    known_ids = [
        item
        for item in answers
        if item["generation_token_ids"] != [] or item.get("prompt_token_ids") != []
    ]
    turns = [
        TurnSource(
            ob=item.get("prompt_token_ids"),
            ac=item["generation_token_ids"],
            logprobs=item.get("generation_log_probs"),
            fields=FIELDS,
        )
        for item in known_ids
    ]
    if not turns:
        raise RecordError(
            "no output item of this NeMo Gym rollout holds `generation_token_ids`; use a model "
            "server that returns token ids (`return_token_id_information: true`)"
        )
    task, number = value.get("_ng_task_index"), value.get("_ng_rollout_index")
    return [
        RolloutSource(
            turns,
            name=loose_label_value(
                "" if task is None else f"task {task}",
                "" if number is None else f"rollout {number}",
            ),
            group=None if task is None else loose_label_value(f"task {task}"),
            reward=loose_reward_value(value.get("reward")),
            notes=build_skipped_note(len(answers) - len(turns), "output item"),
        )
    ]


def nemo_gym_output(value: dict[str, Any]) -> list[Any] | None:
    """The output items of a response, which may be wrapped once more."""
    place: Any = value
    for _ in range(3):
        output = place.get("output")
        if isinstance(output, list):
            return output
        place = place.get("response")
        if not isinstance(place, dict):
            return None
    return None
