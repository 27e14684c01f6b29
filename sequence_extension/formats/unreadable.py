"""Files that are known by name but hold no turns: what they are, and what to record instead."""

from collections.abc import Callable, Iterator
from typing import Any

from sequence_extension.formats.results import RecordError
from sequence_extension.text import shown_text

RECORD_CALLS = (
    "record the sampling calls instead: each with its prompt's token ids, the sampled token ids "
    "and an id of its rollout"
)
CAPTURE = (
    "you can record the calls with `capture_to_store` of the cookbook's `tinker_cookbook.capture`"
)
# What can be read, by the keys that tell it.
UNDERSTOOD = (
    "`transitions`",
    "`trajectory`",
    "`trajectories_G`",
    "`prompt_token_ids` with `token_ids`",
    "`steps`",
    "`nodes`",
    "`response.output`",
    "`scope` with `samples`",
)


class KnownButUnreadable(RecordError):
    """A value of a format that holds too little; said once for a whole file."""


def unreadable_with(*keys: str) -> Callable[[dict[str, Any]], bool]:
    """A test for objects that hold all of some keys."""
    return lambda value: all(key in value for key in keys)


def unreadable_with_texts(value: dict[str, Any], *keys: str) -> bool:
    """True where all of some keys hold text."""
    return all(isinstance(value.get(key), str) for key in keys)


def is_unreadable_slime(value: dict[str, Any]) -> bool:
    """A sample of slime: one sequence with a mask."""
    return "response_length" in value and ("tokens" in value or "rollout_log_probs" in value)


def is_unreadable_skyrl(value: dict[str, Any]) -> bool:
    """What SkyRL's generators return, one rollout or in columns, and its dump of an evaluation."""
    if unreadable_with("input_prompt", "output_response")(value):
        return True
    masks = "loss_masks" in value or "loss_mask" in value
    return "response_ids" in value and masks and ("steps" not in value)


def is_unreadable_atropos(value: dict[str, Any]) -> bool:
    """A scored group of Atropos."""
    return unreadable_with("tokens", "masks", "scores")(value)


def is_unreadable_prime_rl(value: dict[str, Any]) -> bool:
    """A training sample, one sequence: prime-rl's, or a batch of TRL."""
    if unreadable_with("prompt_ids", "completion_ids")(value):
        return "completion_mask" in value or "prompt_mask" in value
    asked = "prompt_token_ids" in value or "message" in value
    return unreadable_with("token_ids", "mask")(value) and not asked


def is_unreadable_verl(value: dict[str, Any]) -> bool:
    """A line of verl's rollout dump, in text."""
    return unreadable_with_texts(value, "input", "output") and ("score" in value or "gts" in value)


def is_unreadable_verl_batch(value: dict[str, Any]) -> bool:
    """A row of verl's batches: ids of one prompt and of all that followed, with a mask."""
    return unreadable_with("prompts", "responses", "response_mask")(value)


def is_unreadable_datum(value: dict[str, Any]) -> bool:
    """A datum of Tinker: turns are merged already."""
    return unreadable_with("model_input", "loss_fn_inputs")(value)


def is_unreadable_text_result(value: dict[str, Any]) -> bool:
    """A result of verifiers, or a completion of another program, in text only."""
    known = "reward" in value or "example_id" in value or "rewards" in value
    return unreadable_with("prompt", "completion")(value) and known and "choices" not in value


def is_unreadable_chunk(value: dict[str, Any]) -> bool:
    """One piece of a streamed answer."""
    return str(value.get("object", "")).endswith(".chunk")


def is_unreadable_conversation(value: dict[str, Any]) -> bool:
    """Messages without token ids."""
    return "messages" in value or ("role" in value and "content" in value)


# Test, what it is, what is missing and what to record instead; the first that applies counts.
KNOWN: tuple[tuple[Callable[[dict[str, Any]], bool], str], ...] = (
    (
        is_unreadable_chunk,
        "these are pieces of streamed answers; log each answer whole, with `prompt_token_ids` and "
        "`token_ids`",
    ),
    (
        is_unreadable_datum,
        "these are datums, in which the turns are merged already; write the trajectories with "
        "`write_rollouts`",
    ),
    (
        is_unreadable_slime,
        "this is a slime sample: one sequence of tokens with a loss mask, in which the turns and "
        f"their prompts are lost; {RECORD_CALLS}",
    ),
    (
        is_unreadable_verl_batch,
        "this is a row of a verl batch: one sequence with a mask, in which the turns are lost; "
        f"{RECORD_CALLS}",
    ),
    (
        is_unreadable_atropos,
        "this is a scored group of Atropos: sequences of tokens with masks, in which the turns "
        f"are lost; {RECORD_CALLS}",
    ),
    (
        is_unreadable_skyrl,
        "this is SkyRL output: responses with loss masks, in which the turns are lost; "
        f"{RECORD_CALLS}",
    ),
    (
        is_unreadable_prime_rl,
        "this is a training sample (prime-rl export or TRL batch): one sequence with a mask, in "
        "which the turns are lost; read the traces that prime-rl writes beside it, or "
        f"{RECORD_CALLS}",
    ),
)
# The same of what is only text: token ids beside it are read.
TEXTS: tuple[tuple[Callable[[dict[str, Any]], bool], str], ...] = (
    (
        is_unreadable_verl,
        f"this is a verl rollout dump: text without token ids; {RECORD_CALLS}",
    ),
    (
        is_unreadable_text_result,
        "these are results in text, without token ids; for verifiers save the `trajectory` "
        f"column (`--state-columns trajectory`), else {RECORD_CALLS}",
    ),
    (
        is_unreadable_conversation,
        "these are messages, not tokens; section 10 of the page renders a conversation, and of "
        f"rollouts {CAPTURE}",
    ),
)


def refuse_known_unreadable(value: dict[str, Any], texts: bool) -> None:
    """Name a format that is known to hold too little: sequences with a mask, or `texts`.

    Raises:
        KnownButUnreadable: With what is missing, and what to record instead.
    """
    for applies, sentence in TEXTS if texts else KNOWN:
        if applies(value):
            raise KnownButUnreadable(sentence)


def unreadable_inner_objects(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Objects that stand one level deeper, alone or first in a list."""
    for inner in list(value.values())[:50]:
        if isinstance(inner, list) and inner:
            inner = inner[0]
        if isinstance(inner, dict):
            yield inner


def refuse_unreadable(value: dict[str, Any]) -> RecordError:
    """The sentence about an object that nothing here reads: keys seen and keys understood."""
    for inner in unreadable_inner_objects(value):
        for applies, sentence in (*KNOWN, *TEXTS):
            if applies(inner):
                return KnownButUnreadable(sentence)
    seen = [shown_text(key) for key in list(value)[:8]]
    if not seen:
        keys = "it is empty"
    else:
        more = f" and {len(value) - 8:,} more" if len(value) > 8 else ""
        keys = f"its keys are {', '.join(seen)}{more}"
    return RecordError(f"no trajectory: {keys}; understood are {', '.join(UNDERSTOOD)}")
