"""Answers of SGLang's own `/generate`: ids and logprobs stand as triples in `meta_info`.

`meta_info.output_token_logprobs` holds `[logprob, id, text or null]` per sampled token, and
`input_token_logprobs` the same for the prompt from `logprob_start_len` on, the very first without
a logprob; `prompt_tokens` counts the whole prompt.
"""

from typing import Any

from sequence_extension.formats.results import RecordError

SIGNS = ("completion_tokens", "output_token_logprobs")


def sglang_meta(place: Any) -> dict[str, Any]:
    """`meta_info` of an answer; empty for anything else."""
    meta = place.get("meta_info") if isinstance(place, dict) else None
    known = isinstance(meta, dict) and any(key in meta for key in SIGNS)
    return meta if known and isinstance(meta, dict) else {}


def sglang_triple_ids(value: Any) -> list[Any] | None:
    """The ids in a list of triples, None for anything else."""
    if not isinstance(value, list):
        return None
    if not all(isinstance(entry, list) and len(entry) > 1 for entry in value):
        return None
    return [entry[1] for entry in value]


def sglang_prompt(meta: dict[str, Any]) -> list[Any] | None:
    """Ids of the prompt, None where they are not all there."""
    ids = sglang_triple_ids(meta.get("input_token_logprobs"))
    return ids if ids and meta.get("prompt_tokens", len(ids)) == len(ids) else None


def sglang_problem(prompt: Any) -> RecordError:
    """What to record instead of an answer that holds too little."""
    if prompt is None:
        return RecordError(
            "an answer of SGLang without the ids of its prompt; log the `input_ids` of the request "
            "beside it, or ask with `return_logprob: true` and `logprob_start_len: 0`"
        )
    return RecordError(
        "an answer of SGLang without the ids that were sampled; ask with `return_logprob: true`"
    )
