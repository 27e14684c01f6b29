"""Rollouts in this package's own file format: the writer."""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

from sequence_extension.cookbook import Trajectory, tinker
from sequence_extension.rollout import Rollout


def record_to_json(record: Mapping[str, Any]) -> str:
    """A rollout in the file format as JSON text, a transition a line."""
    head = [
        f"{json.dumps(key)}: {json.dumps(value)}"
        for key, value in record.items()
        if key != "transitions"
    ]
    turns = ",\n    ".join(json.dumps(turn, allow_nan=False) for turn in record["transitions"])
    return "{\n  " + ",\n  ".join([*head, f'"transitions": [\n    {turns}\n  ]']) + "\n}\n"


def element_to_native(element: Any) -> Any:
    """A flat element as the file format writes it: a token id, or one object per image.

    Bytes that are text (stand-ins, see `image_chunk`) are their own id; a real picture becomes
    a data URI, so that reading it back gives an equal chunk.

    Raises:
        TypeError: The chunk is neither text nor an image.
    """
    if isinstance(element, int):
        return element
    if isinstance(element, tinker.types.ImageAssetPointerChunk):
        tokens = element.expected_tokens
        return {"image": element.location, "tokens": tokens, "asset": element.format}
    if not isinstance(element, tinker.types.ImageChunk):
        raise TypeError(f"The file format holds tokens and images, not {type(element).__name__}.")
    try:
        image = element.data.decode()
    except UnicodeDecodeError:
        image = "data:"
    if element.format != "png" or image.startswith("data:"):
        content = base64.b64encode(element.data).decode()
        image = f"data:image/{element.format};base64,{content}"
    return {"image": image, "tokens": element.expected_tokens}


def trajectory_to_native(
    trajectory: Trajectory,
    name: str | None = None,
    group: str | None = None,
    vocab: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """A trajectory in the file format; `json.dumps` of it is one line of a JSONL file."""

    def number(value: float | None) -> Any:
        if value is None or math.isfinite(value):
            return value if value is None else float(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

    turns: list[dict[str, Any]] = []
    held: list[Any] | None = None
    for transition in trajectory.transitions:
        observation: list[Any] = []
        for chunk in transition.ob.chunks:
            if isinstance(chunk, tinker.EncodedTextChunk):
                observation += map(int, chunk.tokens)
            else:
                observation.append(element_to_native(chunk))
        action, logprobs = list(map(int, transition.ac.tokens)), transition.ac.maybe_logprobs
        extends = held is not None and observation[: len(held)] == held
        turns.append(
            {
                **({"append": observation[len(held or ()) :]} if extends else {"ob": observation}),
                "ac": action,
                "logprobs": logprobs and [number(logprob) for logprob in logprobs],
                "reward": number(transition.reward),
                "episode_done": transition.episode_done,
                "metrics": {key: number(value) for key, value in transition.metrics.items()},
            }
        )
        held = observation + action
    words = {str(token): text for token, text in (vocab or {}).items()}
    labels = {"name": name, "group": group, "vocab": words}
    return {**{key: value for key, value in labels.items() if value}, "transitions": turns}


def rollout_to_native(rollout: Rollout) -> dict[str, Any]:
    """A rollout with its name, group and vocabulary in the file format."""
    return trajectory_to_native(rollout.trajectory, rollout.name, rollout.group, rollout.vocab)
