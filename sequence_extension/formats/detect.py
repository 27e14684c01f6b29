"""Which format a value has: each is recognised by its keys."""

from collections.abc import Callable, Sequence
from typing import Any

from sequence_extension.cookbook import PARSE_ERROR_MASKED_METRIC_KEY
from sequence_extension.formats.agent_lightning import (
    SPAN_ACTIONS,
    SPAN_PROMPTS,
    read_agent_lightning,
)
from sequence_extension.formats.atif import read_atif
from sequence_extension.formats.build import RolloutSource
from sequence_extension.formats.calls import CallSource
from sequence_extension.formats.capture import SCOPE_KEYS, read_capture
from sequence_extension.formats.native import TRAJECTORY_KEYS, TURN_KEYS, is_native, read_native
from sequence_extension.formats.nemo_gym import read_nemo_gym
from sequence_extension.formats.responses import (
    ACTION_KEYS,
    ID_KEYS,
    ID_PLACES,
    LOGPROB_KEYS,
    PROMPT_KEYS,
    SAMPLE_LISTS,
    WRAPPERS,
    read_responses,
)
from sequence_extension.formats.results import LengthsOnly, RecordError
from sequence_extension.formats.rllm import read_rllm
from sequence_extension.formats.rollout_summaries import read_rollout_summaries
from sequence_extension.formats.unreadable import refuse_known_unreadable
from sequence_extension.formats.verifiers import read_verifiers

Source = RolloutSource | CallSource | LengthsOnly
Reader = Callable[[Any, int], Sequence[Source] | None]
# Asked in this order, before and after the sequences with a mask that hold too little.
FIRST: tuple[Reader, ...] = (
    read_capture,
    read_agent_lightning,
    read_nemo_gym,
    read_rollout_summaries,
    read_atif,
    read_rllm,
    read_verifiers,
)
LAST: tuple[Reader, ...] = (read_native, read_responses)
# What is read, and the keys by which it is known.
READABLE = (
    ("this format", "`transitions` with `ob` or `append`, `ac`"),
    ("the cookbook's capture", "`capture/sample.jsonl` (`scope`, `samples`), `capture.sqlite`"),
    ("the cookbook's objects through `asdict`", "`transitions`, `trajectories_G`"),
    (
        "the cookbook's `*_rollout_summaries.jsonl`",
        "`steps` with `ob_len`: lengths only, so a lower bound",
    ),
    (
        "logs of vLLM, SGLang and OpenAI-style servers",
        "`prompt_token_ids` with `token_ids` or `completion_token_ids`, also in `choices`, "
        "`outputs`, `response`; joined by `trajectory_id`, `session_id` or `rollout_id`, without "
        "one as they follow each other",
    ),
    ("verifiers and prime-rl", "`trajectory` with `tokens`, `traces` and `nodes`"),
    ("ATIF and Harbor", "`steps` with `metrics`, `rollout_details`"),
    ("NeMo Gym", "`response.output` with `generation_token_ids`"),
    ("rLLM", "`steps` with `prompt_ids`, `response_ids`"),
    ("Agent Lightning", "events, spans and triplets"),
)
# Keys under which a file holds its trajectories.
FILE_KEYS = ("trajectories", "rollouts", "outputs", "samples", "results", "data", "events")

# Keys on which tokens, order and groups depend: which of two values counts is anyone's guess.
IN_METRICS = frozenset((*PROMPT_KEYS, *ACTION_KEYS, *LOGPROB_KEYS, PARSE_ERROR_MASKED_METRIC_KEY))
DECISIVE_KEYS = IN_METRICS | {
    *(*TRAJECTORY_KEYS, *TURN_KEYS, *WRAPPERS, *SAMPLE_LISTS, *ID_KEYS, *ID_PLACES, *FILE_KEYS),
    *(*SCOPE_KEYS, *SPAN_PROMPTS, *SPAN_ACTIONS, "scope", "kind", "status", "created_at"),
    *("trajectories_G", "final_rewards_G", "group", "group_id", "reward", "metrics"),
    *("chunks", "maybe_logprobs", "image", "tokens", "asset", "location", "format"),
    *("expected_tokens", "choices", "message", "meta_info", "provider_specific_fields"),
    *("input_token_logprobs", "payload"),
    *("content", "token", "logprob", "token_logprobs", "logprobs.content"),
    *("traces", "nodes", "calls", "node", "parent", "sampled", "mask", "example_id"),
    *("subagent_trajectories", "is_copied_context", "rollout_details", "agent_result"),
    *("triplets", "prompt", "input", "attributes", "event_type", "timestamp", "sequence_id"),
    *("attempt_id", "model_output", "ob_len", "ac_len"),
}


def detect_and_read(value: dict[str, Any], index: int) -> Sequence[Source] | None:
    """What an object holds by the first format that knows it; None where none does.

    Args:
        value: Parsed JSON.
        index: Of its first rollout in the file.

    Raises:
        RecordError: It is known, but cannot be read.
    """
    for read in FIRST:
        sources = read(value, index)
        if sources is not None:
            return sources
    if not is_native(value):
        refuse_known_unreadable(value, texts=False)
    for read in LAST:
        sources = read(value, index)
        if sources is not None:
            return sources
    refuse_known_unreadable(value, texts=True)
    return None


def is_detectable(value: Any) -> bool:
    """True for what `is_detected_format`, and for an object that holds some."""
    return is_detected_format(value) or (
        isinstance(value, dict) and bool(detect_inner_values(value))
    )


def detect_inner_values(value: dict[str, Any]) -> list[tuple[str, Any]]:
    """Where an object that nothing recognises holds what can be: keys and values.

    These are objects and lists of a known format that some program wrapped once; without any,
    what stands under the first of `FILE_KEYS`, whatever it is.
    """
    known = [(key, inner) for key, inner in value.items() if is_detected_format(inner)]
    given = [(key, value[key]) for key in FILE_KEYS if key in value]
    return known or given[:1]


def is_detected_format(value: Any) -> bool:
    """True for an object of a known format, good or bad, and for a list that starts with one."""
    for _ in range(2):
        if isinstance(value, list) and value:
            value = value[0]
    if not isinstance(value, dict):
        return False
    try:
        return detect_and_read(value, 0) is not None
    except RecordError:
        return True
