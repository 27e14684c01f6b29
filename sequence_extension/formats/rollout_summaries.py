"""The cookbook's `*_rollout_summaries.jsonl`, which every training run writes: lengths only."""

from collections.abc import Sequence
from typing import Any

from sequence_extension.formats.build import MAX_ROLLOUT_TURNS
from sequence_extension.formats.results import LengthsOnly, RecordError
from sequence_extension.formats.values import loose_label_value
from sequence_extension.text import count_text, value_text


def read_rollout_summaries(value: Any, index: int) -> list[LengthsOnly] | None:
    """One rollout's lengths, or None for anything else.

    Raises:
        RecordError: A length is no whole number from 0, or there are too many turns.
    """
    if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
        return None
    steps = value["steps"]
    known = "total_reward" in value and "traj_idx" in value
    if not known and not any(isinstance(step, dict) and "ob_len" in step for step in steps):
        return None
    if len(steps) > MAX_ROLLOUT_TURNS:
        raise RecordError(f"longer than {MAX_ROLLOUT_TURNS:,} entries", ("steps",))
    lengths = []
    for turn, step in enumerate(steps):
        pair = []
        for key in ("ob_len", "ac_len"):
            length = step.get(key) if isinstance(step, dict) else None
            if type(length) is not int or length < 0:
                raise RecordError(
                    f"expected a whole number from 0, got {value_text(length)}",
                    ("steps", turn, key),
                )
            pair.append(length)
        lengths.append((pair[0], pair[1]))
    names = ("iteration", "group_idx", "traj_idx")
    parts = [
        f"{key.replace('traj', 'trajectory').removesuffix('_idx')} {value[key]}"
        for key in names
        if type(value.get(key)) in (int, str)
    ]
    split = value.get("split")
    grouped = type(value.get("group_idx")) is int
    return [
        LengthsOnly(
            name=loose_label_value(split, *parts) or f"trajectory {index}",
            lengths=tuple(lengths),
            group=loose_label_value(split, *parts[: names.index("traj_idx")]) if grouped else None,
        )
    ]


def rollout_summaries_sentence(lengths: Sequence[LengthsOnly]) -> str:
    """What is certain about rollouts of which only lengths are known, and what to record."""
    turns = sum(each.turns for each in lengths)
    splits = sum(len(each.certain_splits) for each in lengths)
    return (
        f"Of {count_text(len(lengths), 'rollout')} only lengths are known: of "
        f"{count_text(turns, 'turn')} at least {splits:,} cannot extend, as too little is left of "
        "what stood before. Tokens are needed for more: record them with `tinker_cookbook.capture` "
        "or `write_rollouts`."
    )
