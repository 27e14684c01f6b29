"""This package's own file format and the cookbook's objects as JSON: reader and writer."""

import base64
import contextlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from sequence_extension.cookbook import PARSE_ERROR_MASKED_METRIC_KEY, Trajectory, tinker
from sequence_extension.elements import MAX_TOKEN_ID
from sequence_extension.formats.build import (
    MAX_ROLLOUT_TURNS,
    RolloutSource,
    TurnSource,
    build_each,
)
from sequence_extension.formats.calls import CallSource
from sequence_extension.formats.responses import (
    is_response_call,
    read_response_turn,
    response_rollout_id,
    response_rollout_key,
)
from sequence_extension.formats.results import RecordError
from sequence_extension.formats.values import (
    MAX_IMAGE_TOKENS,
    loose_label_value,
    loose_reward_value,
)
from sequence_extension.rollout import Rollout
from sequence_extension.text import value_text

# Keys under which turns stand, and keys by which one turn is known.
TRAJECTORY_KEYS = ("transitions", "trajectory", "steps", "turns", "responses")
TURN_KEYS = ("ob", "append", "ac")
# One turn more than is read is kept, so that the bound is noticed.
MAX_TURNS_KEPT = MAX_ROLLOUT_TURNS + 1
CHUNK_FIELDS = (("ob", "chunks"), ("ac", "tokens"), ("ac", "maybe_logprobs"))


def is_native(value: dict[str, Any]) -> bool:
    """True for an object with a key that only this format and the cookbook's objects have."""
    return any(key in value for key in ("transitions", "trajectories_G", *TURN_KEYS))


def read_native(value: Any, index: int) -> list[RolloutSource] | list[CallSource] | None:
    """A trajectory, a turn, or a group of the cookbook; None for anything else."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("trajectories_G"), list):
        return read_native_group(value, f"group {index}")
    listed = [key for key in TRAJECTORY_KEYS if isinstance(value.get(key), list)]
    if "transitions" in value or listed:
        return [read_native_trajectory(value)]
    if any(key in value for key in TURN_KEYS):
        return [
            CallSource(
                read_native_turn(value),
                response_rollout_key(value),
                loose_label_value(response_rollout_id(value)),
            )
        ]
    return None


def is_native_turn(value: Any) -> bool:
    """True for an object with a key by which one turn is known."""
    keys = (*TURN_KEYS, "prompt_token_ids", "token_ids", "choices")
    return isinstance(value, dict) and any(key in value for key in keys)


def read_native_trajectory(value: Any) -> RolloutSource:
    """One trajectory.

    Raises:
        RecordError: It is no object, or its turns are no list.
    """
    if not isinstance(value, dict):
        raise RecordError(f"expected a trajectory, got {value_text(value)}")
    listed = [key for key in TRAJECTORY_KEYS if isinstance(value.get(key), list)]
    key = "transitions" if "transitions" in value or not listed else listed[0]
    turns = value.get(key)
    if not isinstance(turns, list):
        raise RecordError(f"expected a list, got {value_text(turns)}", (key,))
    group = value["group"] if value.get("group") is not None else value.get("example_id")
    return RolloutSource(
        [
            read_native_turn(turn, (key, number))
            for number, turn in enumerate(turns[:MAX_TURNS_KEPT])
        ],
        name=value["name"]
        if value.get("name") is not None
        else loose_label_value(response_rollout_id(value)),
        group=group,
        vocab=value.get("vocab"),
        reward=value.get("reward"),
    )


def read_native_turn(value: Any, path: tuple[Any, ...] = ("transitions", 0)) -> TurnSource:
    """One turn, in this format, as the cookbook's object, or as a call of a server.

    Raises:
        RecordError: It is no object.
    """
    if not isinstance(value, dict):
        raise RecordError(f"expected an object, got {value_text(value)}", path)
    if not any(key in value for key in TURN_KEYS):
        tokens = value.get("tokens")
        inner = tokens if isinstance(tokens, dict) else value
        turn = read_response_turn(inner)
        turn.logprobs = inner.get("completion_logprobs", turn.logprobs)
        if not is_response_call(inner):
            turn.problem = None
    else:
        turn = TurnSource(
            ob=value.get("ob"),
            append=value.get("append"),
            ac=value.get("ac"),
            logprobs=value.get("logprobs"),
        )
        if isinstance(turn.ob, dict) or isinstance(turn.ac, dict):
            read_native_objects(turn, path)
    turn.reward = value.get("reward")
    turn.episode_done = value.get("episode_done")
    turn.metrics = value.get("metrics")
    return turn


def read_native_objects(turn: TurnSource, path: tuple[Any, ...]) -> None:
    """The cookbook's `ModelInput` and `TokensWithLogprobs`, as JSON, in place of lists.

    Raises:
        RecordError: A chunk that is neither text nor an image.
    """
    if isinstance(turn.ac, dict):
        turn.ac, turn.logprobs = turn.ac.get("tokens"), turn.ac.get("maybe_logprobs")
    chunks = turn.ob.get("chunks") if isinstance(turn.ob, dict) else None
    if isinstance(chunks, list):
        elements: list[Any] = []
        for number, chunk in enumerate(chunks):
            where = (*path, "ob", "chunks", number)
            if not isinstance(chunk, dict):
                raise RecordError(f"expected a chunk, got {value_text(chunk)}", where)
            if "expected_tokens" in chunk and ("data" in chunk or "location" in chunk):
                pointer = "location" in chunk
                image = {"image": chunk["location" if pointer else "data"]}
                image["tokens"] = chunk["expected_tokens"]
                elements.append({**image, "asset": chunk.get("format")} if pointer else image)
            elif isinstance(chunk.get("tokens"), list):
                elements += chunk["tokens"]
            else:
                raise RecordError("a chunk that holds neither tokens nor an image", where)
        turn.ob = elements
        turn.fields = CHUNK_FIELDS


def read_native_group(value: dict[str, Any], name: str) -> list[RolloutSource]:
    """The trajectories of a group; each final reward is added to that of the last turn."""
    finals = value.get("final_rewards_G")
    finals = finals if isinstance(finals, list) else []
    sources = build_each(read_native_trajectory, value["trajectories_G"], "trajectory")
    given = loose_label_value(value.get("group")) or name
    for number, source in enumerate(sources):
        final = loose_reward_value(finals[number]) if number < len(finals) else None
        if final and source.turns:
            last = source.turns[-1]
            last.reward = (loose_reward_value(last.reward) or 0.0) + final
        source.group = source.group if source.group is not None else given
    return sources


def native_to_json(record: Mapping[str, Any]) -> str:
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

    Bytes that are text (stand-ins, see `image_element`) are their own id; a real picture becomes
    a data URI, so that reading it back gives an equal chunk.

    Raises:
        TypeError: The chunk is neither text nor an image.
        ValueError: The image stands for more tokens than are read back.
    """
    if isinstance(element, int):
        return element
    tokens = getattr(element, "expected_tokens", None)
    if tokens is not None and not 0 <= tokens <= MAX_IMAGE_TOKENS:
        raise ValueError(f"An image stands for at most {MAX_IMAGE_TOKENS:,} tokens, not {tokens}.")
    if isinstance(element, tinker.types.ImageAssetPointerChunk):
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
    return {"image": image, "tokens": tokens}


def native_number(value: Any) -> Any:
    """A number as JSON has it, or as a word where JSON has none; null stays null."""
    if value is None:
        return None
    number = float(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def checked_native_number(value: Any, what: str) -> Any:
    """`native_number`.

    Raises:
        ValueError: It is no number, or more than a float holds; a sentence that names it.
    """
    try:
        return native_number(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"A {what} must be a number, not {value_text(value)}.") from None


def checked_native_ids(tokens: Iterable[Any]) -> list[int]:
    """Token ids as whole numbers.

    Raises:
        ValueError: One is outside of what is read back; a sentence that names it.
    """
    ids = list(map(int, tokens))
    if ids and not 0 <= min(ids) <= max(ids) <= MAX_TOKEN_ID:
        wrong = min(ids) if min(ids) < 0 else max(ids)
        raise ValueError(f"A token id must be from 0 to {MAX_TOKEN_ID}, not {wrong}.")
    return ids


def native_metrics(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers among metrics; training loops put other things there, which no one reads back.

    The parse-error mask is a number also as text, as the cookbook takes it by `float`.
    """
    written = {}
    for key, value in metrics.items():
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            text = isinstance(value, str) and key != PARSE_ERROR_MASKED_METRIC_KEY
            if value is not None and not text:
                written[str(key)] = native_number(value)
    return written


def trajectory_to_native(
    trajectory: Trajectory,
    name: str | None = None,
    group: str | None = None,
    vocab: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """A trajectory in the file format; `json.dumps` of it is one line of a JSONL file.

    Raises:
        TypeError: As `element_to_native`.
        ValueError: A token id, an image's size, a logprob or a reward that cannot be read back.
    """

    turns: list[dict[str, Any]] = []
    held: list[Any] | None = None
    for transition in trajectory.transitions:
        observation: list[Any] = []
        for chunk in transition.ob.chunks:
            if isinstance(chunk, tinker.EncodedTextChunk):
                observation += checked_native_ids(chunk.tokens)
            else:
                observation.append(element_to_native(chunk))
        action, logprobs = checked_native_ids(transition.ac.tokens), transition.ac.maybe_logprobs
        extends = held is not None and observation[: len(held)] == held
        turns.append(
            {
                **({"append": observation[len(held or ()) :]} if extends else {"ob": observation}),
                "ac": action,
                "logprobs": logprobs
                and [checked_native_number(each, "logprob") for each in logprobs],
                "reward": checked_native_number(transition.reward, "reward"),
                "episode_done": bool(transition.episode_done),
                "metrics": native_metrics(transition.metrics),
            }
        )
        held = observation + action
    words = {str(token): text for token, text in (vocab or {}).items()}
    labels = {"name": name, "group": group, "vocab": words}
    return {**{key: value for key, value in labels.items() if value}, "transitions": turns}


def rollout_to_native(rollout: Rollout) -> dict[str, Any]:
    """A rollout with its name, group and vocabulary in the file format."""
    return trajectory_to_native(rollout.trajectory, rollout.name, rollout.group, rollout.vocab)
