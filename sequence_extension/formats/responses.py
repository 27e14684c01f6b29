"""Logs of vLLM, SGLang and servers that speak OpenAI's protocol: one call a line, or a list."""

from collections.abc import Hashable, Iterator
from typing import Any

from sequence_extension.formats.build import TurnSource
from sequence_extension.formats.calls import CallSource
from sequence_extension.formats.results import RecordError
from sequence_extension.formats.sglang import (
    sglang_meta,
    sglang_problem,
    sglang_prompt,
    sglang_triple_ids,
)
from sequence_extension.formats.values import (
    loose_label_value,
    loose_reward_value,
    named_token_values,
)

PROMPT_KEYS = (
    "prompt_token_ids",
    "prompt_ids",
    "prompt_tokens",
    "input_token_ids",
    "input_ids",
    "input_tokens",
)
ACTION_KEYS = (
    "token_ids",
    "completion_token_ids",
    "completion_ids",
    "response_token_ids",
    "response_ids",
    "generation_token_ids",
    "output_token_ids",
    "output_ids",
    "output_tokens",
)
LOGPROB_KEYS = (
    "completion_logprobs",
    "logprobs",
    "response_logprobs",
    "generation_log_probs",
    "output_logprobs",
    "output_token_logprobs",
)
# Objects in which a log wraps the answer, and lists of samples within it.
WRAPPERS = ("response", "data", "body", "output", "result", "completion", "kwargs")
SAMPLE_LISTS = ("choices", "outputs")
# Where ids of rollouts stand, in this order; the first that is given counts.
ID_KEYS = ("trajectory_id", "session_id", "rollout_id")
ID_PLACES = ("metadata", "extra", "extra_body", "request", "response", "data", "info", "tags")


def read_responses(value: Any, index: int) -> list[CallSource] | None:
    """One call of a log, or None for anything else."""
    if not is_response_call(value):
        return None
    return [read_response_call(value)]


def is_response_call(value: Any) -> bool:
    """True for an object that is one call, answered or failed."""
    if not isinstance(value, dict) or isinstance(value.get("transitions"), list):
        return False
    if str(value.get("object", "")).startswith(("chat.completion", "text_completion")):
        return True
    places = [place for place, _ in response_answers(value)]
    if any(response_first_list(place, ACTION_KEYS) or sglang_meta(place) for place in places):
        return True
    if any(isinstance(place.get("choices"), list) for place in places) or is_response_error(value):
        return True
    asked = "request" in value or response_first_list(value, PROMPT_KEYS) is not None
    return asked and (
        has_response_failed(value) or "response" in value or response_samples_key(value) is not None
    )


def response_answers(
    value: dict[str, Any], depth: int = 3
) -> Iterator[tuple[dict[str, Any], tuple[Any, ...]]]:
    """The object itself and the objects that wrap an answer in it, each with its path."""
    todo: list[tuple[dict[str, Any], tuple[Any, ...]]] = [(value, ())]
    while todo:
        place, path = todo.pop(0)
        yield place, path
        if len(path) < depth:
            todo += [
                (place[key], (*path, key)) for key in WRAPPERS if isinstance(place.get(key), dict)
            ]


def response_first_list(place: Any, keys: tuple[str, ...]) -> str | None:
    """The first of some keys under which a list stands."""
    if not isinstance(place, dict):
        return None
    return next((key for key in keys if isinstance(place.get(key), list)), None)


def response_samples_key(place: dict[str, Any]) -> str | None:
    """The key of a list of samples."""
    for key in SAMPLE_LISTS:
        entries = place.get(key)
        if isinstance(entries, list) and entries and all(isinstance(e, dict) for e in entries):
            return key
    return None


def is_response_error(value: dict[str, Any]) -> bool:
    """True for what a server answers in place of a completion, alone or around its reason."""
    if value.get("object") == "error":
        return True
    error = value.get("error")
    answered = any(value.get(key) is not None for key in ("completion", "output"))
    return isinstance(error, dict) and ("message" in error or "code" in error) and not answered


def has_response_failed(value: dict[str, Any]) -> bool:
    """True where a log says that the call gave nothing, or an answer holds no sample."""
    for place, _ in response_answers(value):
        if place.get("object") == "error":
            return True
        if any(key in place and place[key] in ([], None) for key in SAMPLE_LISTS):
            return True
        status = place.get("status")
        if isinstance(status, str) and status.lower() in FAILURES:
            return True
        codes = (place.get("http_status"), place.get("status_code"), status)
        if any(type(code) is int and code >= 400 for code in codes):
            return True
        reason = sglang_meta(place).get("finish_reason")
        if place.get("error") or (isinstance(reason, dict) and reason.get("type") == "abort"):
            return True
    return "response" in value and value["response"] is None


FAILURES = frozenset({"error", "failed", "failure", "cancelled", "canceled", "timeout", "aborted"})


def read_response_call(value: dict[str, Any]) -> CallSource:
    """One call: its turn, or that it failed."""
    turn = read_response_turn(value)
    failed = turn.ac is None and has_response_failed(value)
    return CallSource(
        turn=None if failed else turn,
        key=response_rollout_key(value),
        name=loose_label_value(response_rollout_id(value)),
        group=loose_label_value(value.get("group")),
        failed=failed,
    )


def response_rollout_id(value: dict[str, Any]) -> Any:
    """The id by which a call belongs to a rollout, None where it has none."""
    places: list[Any] = [value, *(value.get(key) for key in ID_PLACES)]
    places += [place.get("metadata") for place in places[1:] if isinstance(place, dict)]
    places += [place for place, _ in response_answers(value)]
    for key in ID_KEYS:
        for place in places:
            name = place.get(key) if isinstance(place, dict) else None
            if type(name) in (str, int) and name != "":
                return name
    return None


def response_with_id(value: Any, name: Any) -> Any:
    """An object, or a list of them, with an id of its rollout where it has none of its own."""
    if name is None:
        return value
    if isinstance(value, list):
        return [
            response_with_id(entry, name) if isinstance(entry, dict) else entry for entry in value
        ]
    return value if response_rollout_id(value) is not None else {**value, ID_KEYS[0]: name}


def response_rollout_key(value: dict[str, Any]) -> Hashable:
    """What calls of one rollout have in common."""
    name = response_rollout_id(value)
    return None if name is None else ("id", str(name))


def read_response_turn(value: dict[str, Any]) -> TurnSource:
    """The turn of a call; its action is None where no answer holds token ids."""
    turn = TurnSource(
        reward=loose_reward_value(value.get("reward")),
        metrics=value.get("metrics"),
        fields=(("prompt_token_ids",), ("token_ids",), ("logprobs",)),
    )
    prompt: tuple[Any, ...] = turn.fields[0]
    for place, path in response_answers(value):
        if turn.ob is None:
            turn.ob, prompt = read_response_prompt(place, path)
        if turn.ac is not None:
            continue
        samples = read_response_samples(place, path)
        if samples:
            turn.ac, turn.logprobs, action, logprobs = samples[0]
            turn.others = [(tokens, scores) for tokens, scores, _, _ in samples[1:]]
            turn.fields = (prompt, action, logprobs)
    for key in ("request", "input", "payload"):
        data = value.get("data")
        asked = value.get(key) or (data.get(key) if isinstance(data, dict) else None)
        if turn.ob is None and isinstance(asked, dict):
            turn.ob, prompt = read_response_prompt(asked, (key,))
            if turn.ob is None and isinstance(asked.get("prompt"), list):
                turn.ob, prompt = asked["prompt"], (key, "prompt")
    turn.fields = (prompt, *turn.fields[1:])
    if None in (turn.ob, turn.ac) and any(
        sglang_meta(place) for place, _ in response_answers(value)
    ):
        turn.problem = sglang_problem(turn.ob)
    elif turn.ob is None and turn.ac is None:
        turn.problem = RecordError(
            "a call without token ids (`prompt_token_ids`, `token_ids`); ask the server for them, "
            "such as vLLM with `return_token_ids: true`"
        )
    return turn


def read_response_prompt(
    place: dict[str, Any], path: tuple[Any, ...]
) -> tuple[Any, tuple[Any, ...]]:
    """Token ids of the prompt in an answer or in its first sample, and where they stand."""
    key = response_first_list(place, PROMPT_KEYS)
    if key is not None:
        return place[key], (*path, key)
    samples = response_samples_key(place)
    if samples is not None:
        first = place[samples][0]
        for inner, steps in ((first, ()), (first.get("message"), ("message",))):
            key = response_first_list(inner, PROMPT_KEYS)
            if key is not None:
                return inner[key], (*path, samples, 0, *steps, key)
    ids = sglang_prompt(sglang_meta(place))
    if ids is not None:
        return ids, (*path, "meta_info", "input_token_logprobs")
    given = next((key for key in PROMPT_KEYS if place.get(key) is not None), None)
    if given is not None and type(place[given]) is not int:
        return place[given], (*path, given)
    return None, (*path, "prompt_token_ids")


Sample = tuple[Any, Any, tuple[Any, ...], tuple[Any, ...]]


def read_response_samples(place: dict[str, Any], path: tuple[Any, ...]) -> list[Sample]:
    """Action and logprobs of every sample in an answer, each with where they stand."""
    samples = response_samples_key(place)
    known: list[Sample] = []
    if samples is not None:
        # Some servers write the ids of all samples beside the list.
        beside = place.get("response_token_ids")
        for number, entry in enumerate(place[samples]):
            steps = (*path, samples, number)
            sample = read_response_sample(entry, steps)
            if sample is None and isinstance(beside, list) and number < len(beside):
                scores, where = read_response_logprobs(entry, steps)
                if isinstance(beside[number], list):
                    action = (*path, "response_token_ids", number)
                    sample = (beside[number], scores, action, where)
            known += [sample] if sample else []
        if len(known) == 1 and known[0][1] is None:
            scores, where = read_response_logprobs(place, path)
            known = [(known[0][0], scores, known[0][2], where)]
    if not known:
        sample = read_response_sample(place, path)
        known += [sample] if sample else []
    return known


def read_response_sample(entry: dict[str, Any], path: tuple[Any, ...]) -> Sample | None:
    """Action and logprobs of one sample, or None where it holds no token ids."""
    places = [(entry, path)]
    for inner in ("message", "provider_specific_fields", "meta_info"):
        if isinstance(entry.get(inner), dict):
            places.append((entry[inner], (*path, inner)))
    scores, where = None, (*path, "logprobs")
    for place, steps in places:
        if scores is None:
            scores, where = read_response_logprobs(place, steps)
    for place, steps in places:
        key: str | None = response_first_list(place, ACTION_KEYS)
        if key is None:
            key = next((key for key in ACTION_KEYS if type(place.get(key)) in (str, dict)), None)
        if key is not None:
            return place[key], scores, (*steps, key), where
    named = sglang_triple_ids(scores) if sglang_meta(entry) else named_token_values(scores)
    return None if named is None else (named, scores, where, where)


def read_response_logprobs(
    entry: dict[str, Any], path: tuple[Any, ...]
) -> tuple[Any, tuple[Any, ...]]:
    """Logprobs of a sample, and where they stand."""
    key = next((key for key in LOGPROB_KEYS if entry.get(key) is not None), None)
    return (None, (*path, "logprobs")) if key is None else (entry[key], (*path, key))
