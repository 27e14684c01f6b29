"""Agent Lightning: events of its store, spans, and triplets."""

import ast
import contextlib
import json
from typing import Any

from sequence_extension.formats.build import RolloutSource, TurnSource, build_skipped_note
from sequence_extension.formats.calls import CallSource, call_order
from sequence_extension.formats.responses import has_response_failed, read_response_turn
from sequence_extension.formats.results import NoTokens
from sequence_extension.formats.values import loose_label_value, loose_reward_value

TRIPLET_FIELDS = (("prompt", "token_ids"), ("response", "token_ids"), ("response", "logprobs"))
SPAN_FIELDS = (
    ("attributes", "prompt_token_ids"),
    ("attributes", "response_token_ids"),
    ("attributes", "logprobs.content"),
)
# Names of the token ids among the attributes of a span, by tracer and version.
SPAN_PROMPTS = (
    "prompt_token_ids",
    "llm.hosted_vllm.prompt_token_ids",
    "agentlightning.operation.output.prompt_token_ids",
)
SPAN_ACTIONS = (
    "response_token_ids",
    "llm.hosted_vllm.response_token_ids",
    "agentlightning.operation.output.response_token_ids.0",
    "agentlightning.operation.output.choices.0.token_ids",
    "agentlightning.operation.output.choices.0.provider_specific_fields.token_ids",
)
RESPONSE_IDS = ("gen_ai.response.id", "llm.hosted_vllm.id", "agentlightning.operation.output.id")


def read_agent_lightning(value: Any, index: int) -> list[CallSource] | list[RolloutSource] | None:
    """An event, a span, a triplet or a rollout of triplets; None for anything else."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("event_type"), str) and isinstance(value.get("data"), dict):
        return read_lightning_event(value)
    if isinstance(value.get("triplets"), list):
        return [read_agent_lightning_rollout(value)]
    if is_lightning_triplet(value):
        return [CallSource(read_lightning_triplet(value), *agent_lightning_rollout_key(value))]
    if "rollout_id" in value and isinstance(value.get("attributes"), dict):
        return read_lightning_span(value)
    return None


def agent_lightning_rollout_key(value: dict[str, Any]) -> tuple[Any, Any]:
    """Key and name of the rollout to which an event belongs; nothing where it names none."""
    metadata = value.get("metadata")
    for place in (value, metadata if isinstance(metadata, dict) else {}):
        rollout, attempt = place.get("rollout_id"), place.get("attempt_id")
        if type(rollout) in (str, int):
            # The first attempt is called "0"; it needs no mention.
            named = "" if str(attempt) in ("0", "None") else f"attempt {attempt}"
            return ("rollout", str(rollout), str(attempt)), loose_label_value(rollout, named)
    return None, None


def read_lightning_event(value: dict[str, Any]) -> list[CallSource]:
    """An event: a model request is a call, a reward belongs to the rollout, others say nothing."""
    key, name = agent_lightning_rollout_key(value)
    data = value["data"]
    order = value.get("timestamp")
    call = CallSource(turn=None, key=key, name=name, order=call_order(order))
    if value["event_type"] == "reward":
        call.reward = loose_reward_value(data.get("value"))
    elif value["event_type"] == "model_request":
        turn = read_response_turn(data)
        call.failed = turn.ac is None and has_response_failed(data)
        call.turn = None if call.failed else turn
    return [call]


def is_lightning_triplet(value: Any) -> bool:
    """True for prompt, response and reward of one call."""
    if not isinstance(value, dict):
        return False
    prompt, response = value.get("prompt"), value.get("response")
    return (
        isinstance(prompt, dict)
        and isinstance(response, dict)
        and ("token_ids" in prompt or "token_ids" in response)
    )


def read_lightning_triplet(value: dict[str, Any]) -> TurnSource:
    """The turn of a triplet."""
    prompt, response = value["prompt"], value["response"]
    return TurnSource(
        ob=prompt.get("token_ids"),
        ac=response.get("token_ids"),
        logprobs=response.get("logprobs"),
        reward=loose_reward_value(value.get("reward")),
        fields=TRIPLET_FIELDS,
    )


def read_agent_lightning_rollout(value: dict[str, Any]) -> RolloutSource:
    """A rollout with its triplets; one that is none is refused when the turn is built.

    Raises:
        NoTokens: No triplet holds token ids.
    """
    turns = [
        read_lightning_triplet(entry)
        if is_lightning_triplet(entry)
        else TurnSource(fields=TRIPLET_FIELDS)
        for entry in value["triplets"]
    ]
    known = [turn for turn in turns if turn.ob != [] or turn.ac != []]
    if turns and not known:
        raise NoTokens("no triplet of this rollout holds token ids")
    return RolloutSource(
        known,
        name=agent_lightning_rollout_key(value)[1],
        reward=loose_reward_value(value.get("final_reward")),
        notes=build_skipped_note(len(turns) - len(known), "triplet"),
    )


def read_lightning_span(value: dict[str, Any]) -> list[CallSource]:
    """A span: a call where its attributes hold token ids, else it says nothing here."""
    attributes = value["attributes"]
    key, name = agent_lightning_rollout_key(value)
    order = value.get("sequence_id")
    call = CallSource(turn=None, key=key, name=name, order=call_order(order))
    ids = first_lightning_ids(attributes, SPAN_ACTIONS)
    if ids is not None:
        # A list of samples, of which the first was used.
        ids = ids[0] if ids and isinstance(ids[0], list) else ids
        scores = lightning_list(attributes.get("logprobs.content"))
        call.turn = TurnSource(
            first_lightning_ids(attributes, SPAN_PROMPTS), ids, scores, fields=SPAN_FIELDS
        )
        # One call may leave several spans, of the client and of the proxy.
        names = (attributes.get(key) for key in RESPONSE_IDS)
        call.serial = next((name for name in names if isinstance(name, str)), None)
    return [call]


def first_lightning_ids(attributes: dict[str, Any], keys: tuple[str, ...]) -> list[Any] | None:
    """The first list of ids among some attributes."""
    lists = (lightning_list(attributes.get(key)) for key in keys)
    return next((ids for ids in lists if ids), None)


def lightning_list(value: Any) -> list[Any] | None:
    """A list, which tracers may have written as text."""
    if isinstance(value, str) and value[:1] == "[":
        # As JSON, or as Python shows a list.
        for parse in (json.loads, ast.literal_eval):
            with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                value = parse(value)
                break
    return value if isinstance(value, list) else None
