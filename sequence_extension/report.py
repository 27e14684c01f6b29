"""The diagnosis of one rollout as JSON, and as a small row."""

from collections import Counter
from typing import Any

from sequence_extension.datums import datum_tensor
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.formats.native import element_to_native
from sequence_extension.formats.results import LengthsOnly
from sequence_extension.totals import Row


def report_datum_entries(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """The datums of the machine-readable report."""
    entries = []
    for index, datum in enumerate(diagnosis.built.data):
        spans = [span for span in diagnosis.spans if span.datum == index]
        entries.append(
            {
                "turns": [span.turn for span in spans],
                "tokens": datum.model_input.length,
                "action_tokens": sum(span.action for span in spans),
                "mask": [int(value) for value in datum_tensor(datum, "mask")],
                "target_tokens": [int(value) for value in datum_tensor(datum, "target_tokens")],
            }
        )
    return entries


def report_rollout_entry(diagnosis: Diagnosis) -> dict[str, Any]:
    """A diagnosed rollout in the machine-readable report.

    Turns, positions and indices count from 0. `mask` and `target_tokens` hold one number per
    target, `tokens` is `model_input.length`, `action_tokens` counts the sampled tokens of the
    datum's turns. An image is one element, written as `element_to_native` writes it.
    """
    built = diagnosis.built
    error = None
    if built.error_code is not None:
        error = {"code": built.error_code, "message": built.error_message}
    rollout = diagnosis.rollout
    return {
        "name": rollout.name,
        "turns": len(diagnosis.spans),
        "error": error,
        "datums": report_datum_entries(diagnosis),
        "breaks": [
            {
                "turn": item.turn,
                "position": item.position,
                "expected": element_to_native(item.expected),
                "got": None if item.got is None else element_to_native(item.got),
                "cause": item.cause,
                "origin": {
                    "turn": item.origin.turn,
                    "part": item.origin.part,
                    "index": item.origin.index,
                },
                "resumes_datum": item.resumes_datum,
                "help": item.help,
                "hints": list(item.hints),
                **({"bounded": item.bounded} if item.bounded else {}),
            }
            for item in diagnosis.breaks
        ],
        "warnings": [
            {
                "code": warning.code,
                "turn": warning.turn,
                "index": warning.index,
                "message": warning.message,
                "help": warning.help,
                "hints": list(warning.hints),
            }
            for warning in diagnosis.warnings
        ],
        "tokens_processed": diagnosis.tokens_processed,
        "tokens_unmerged": diagnosis.tokens_unmerged,
        **({} if rollout.joined_lines is None else {"joined_lines": rollout.joined_lines}),
        **({"notes": list(rollout.notes)} if rollout.notes else {}),
    }


def report_lengths_entry(lengths: LengthsOnly) -> dict[str, Any]:
    """A rollout of which only lengths are known, in the machine-readable report."""
    return {
        "name": lengths.name,
        "turns": lengths.turns,
        "error": None,
        "datums": [],
        "breaks": [],
        "warnings": [],
        "tokens_processed": None,
        "tokens_unmerged": None,
        "lengths_only": True,
        "certain_splits": list(lengths.certain_splits),
    }


def report_entry(source: Diagnosis | LengthsOnly) -> dict[str, Any]:
    """One trajectory of the machine-readable report; keys and nulls are part of the format."""
    return (
        report_lengths_entry(source)
        if isinstance(source, LengthsOnly)
        else report_rollout_entry(source)
    )


def report_row(source: Diagnosis | LengthsOnly, file: str = "") -> Row:
    """The row of a rollout."""
    if isinstance(source, LengthsOnly):
        datums = 1 + len(source.certain_splits) if source.turns else 0
        return Row(source.name, source.turns, datums, file, source.group, lengths_only=True)
    again: Counter[str] = Counter()
    remedies: Counter[tuple[str, str]] = Counter()
    for item in source.breaks:
        again[item.cause] += item.again
        remedies[item.cause, item.help] += 1
    if source.built.error_code is not None and source.built.help is not None:
        remedies[source.built.error_name or "", source.built.help] += 1
    return Row(
        name=source.rollout.name,
        turns=len(source.spans),
        datums=len(source.built.data),
        file=file,
        group=source.rollout.group,
        error=source.built.error_code,
        refusal=source.built.error_name,
        would_be=source.would_be,
        causes=Counter(item.cause for item in source.breaks),
        again=again,
        warnings=Counter(warning.code for warning in source.warnings),
        remedies=remedies,
        processed=source.tokens_processed or 0,
        unmerged=source.tokens_unmerged or 0,
        reward=sum(turn.reward for turn in source.rollout.trajectory.transitions),
        joined_lines=source.rollout.joined_lines,
    )
