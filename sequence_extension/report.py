"""The diagnosis of a file as text and JSON."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from sequence_extension.datums import datum_tensor
from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.formats.native import element_to_native
from sequence_extension.formats.results import FileIssue, LengthsOnly
from sequence_extension.formats.stream import iter_rollouts
from sequence_extension.text import by_count, count_of, counts_text, printable, share_text
from sequence_extension.warnings import RolloutWarning
from sequence_extension.wording import (
    break_text,
    refusal_remedy,
    remedy,
    span_words,
    warning_remedy,
)


def report_entry(diagnosis: Diagnosis) -> dict[str, Any]:
    """One trajectory of the machine-readable report; keys and nulls are part of the format.

    Turns, positions and indices count from 0. `mask` and `target_tokens` hold one number per
    target, `tokens` is `model_input.length`, `action_tokens` counts the sampled tokens of the
    datum's turns. An image is one element, written as `element_to_native` writes it.
    """
    built = diagnosis.built
    datums = []
    for index, datum in enumerate(built.data):
        spans = [span for span in diagnosis.spans if span.datum == index]
        datums.append(
            {
                "turns": [span.turn for span in spans],
                "tokens": datum.model_input.length,
                "action_tokens": sum(span.action for span in spans),
                "mask": [int(value) for value in datum_tensor(datum, "mask")],
                "target_tokens": [int(value) for value in datum_tensor(datum, "target_tokens")],
            }
        )
    error = None
    if built.error_code is not None:
        error = {"code": built.error_code, "message": built.error_message}
    return {
        "name": diagnosis.rollout.name,
        "turns": len(diagnosis.spans),
        "error": error,
        "datums": datums,
        "breaks": [
            {
                "turn": found.turn,
                "position": found.position,
                "expected": element_to_native(found.expected),
                "got": None if found.got is None else element_to_native(found.got),
                "cause": found.cause,
                "origin": {
                    "turn": found.origin.turn,
                    "part": found.origin.part,
                    "index": found.origin.index,
                },
                "resumes_datum": found.resumes_datum,
            }
            for found in diagnosis.breaks
        ],
        "warnings": [
            {
                "code": warning.code,
                "turn": warning.turn,
                "index": warning.index,
                "message": warning.message,
            }
            for warning in diagnosis.warnings
        ],
        "tokens_processed": diagnosis.tokens_processed,
        "tokens_unmerged": diagnosis.tokens_unmerged,
    }


@dataclass
class Totals:
    """Sums over all rollouts of a file; grows with the kinds of things found, not with tokens.

    Attributes:
        rollouts, turns, datums, refused: Counts; a refused rollout has no datum but an error.
        datums_per_rollout: How many rollouts became that many datums.
        causes, warnings, errors: How many breaks, warnings and refusals of each kind.
        processed, unmerged: Tokens through the model, as it is and if no turn merged.
        over: Rollouts with more datums than allowed.
    """

    rollouts: int = 0
    turns: int = 0
    datums: int = 0
    refused: int = 0
    datums_per_rollout: Counter[int] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    processed: int = 0
    unmerged: int = 0
    over: int = 0

    def add(self, diagnosis: Diagnosis, max_datums: int | None = None) -> None:
        """Count one rollout in; with `max_datums`, more datums than that are `over`."""
        count = len(diagnosis.built.data)
        self.rollouts += 1
        self.turns += len(diagnosis.spans)
        self.causes.update(found.cause for found in diagnosis.breaks)
        self.warnings.update(warning.code for warning in diagnosis.warnings)
        self.over += max_datums is not None and count > max_datums
        if diagnosis.built.error_code is not None:
            self.refused += 1
            self.errors[diagnosis.built.error_code] += 1
            return
        self.datums += count
        self.datums_per_rollout[count] += 1
        self.processed += diagnosis.tokens_processed or 0
        self.unmerged += diagnosis.tokens_unmerged or 0


def what_helps(totals: Totals) -> list[tuple[str, str, int, str]]:
    """Causes, warnings and refusals over all rollouts: kind, name, count, and what helps."""
    kinds = (
        ("splits", totals.causes, remedy),
        ("warning", totals.warnings, warning_remedy),
        ("refused", totals.errors, refusal_remedy),
    )
    return [
        (kind, name, count, helps(name))
        for kind, counts, helps in kinds
        for name, count in by_count(counts)
    ]


def report_lines(diagnosis: Diagnosis) -> list[str]:
    """One trajectory of the report for people: a verdict a turn, breaks, warnings, price."""
    rollout, built = diagnosis.rollout, diagnosis.built
    group = "" if rollout.group is None else f" (group {rollout.group[:80]})"
    lines = [f"{rollout.name[:80]}{group}"]
    turns = count_of(len(diagnosis.spans), "turn")
    if built.error_code is not None:
        lines.append(f"  {turns}, no datum: {built.error_message} ({built.error_code})")
    else:
        lines.append(
            f"  {turns}, {count_of(len(built.data), 'datum')}, "
            f"{diagnosis.tokens_processed:,} tokens processed: "
            f"{share_text(diagnosis.tokens_processed or 0, diagnosis.tokens_unmerged or 0)}"
        )
    breaks = {found.turn: found for found in diagnosis.breaks}
    warnings: dict[int, list[RolloutWarning]] = {}
    for warning in diagnosis.warnings:
        warnings.setdefault(warning.turn, []).append(warning)
    for span in diagnosis.spans:
        found = breaks.get(span.turn)
        if found is not None:
            lines.append(f"  turn {span.turn}: splits, {break_text(found, rollout.vocab)}")
        else:
            looks = ", but look" if warnings.get(span.turn) else ""
            opens = span_words(span, built.error_code is not None) if span.turn == 0 else "extends"
            lines.append(f"  turn {span.turn}: {opens}{looks}")
        lines += [
            f"    warning: {warning.code}: {warning.message}"
            for warning in warnings.get(span.turn, [])
        ]
    return [printable(line) for line in lines]


def summary_lines(totals: Totals) -> list[str]:
    """The summary over all rollouts, for people."""
    if not totals.rollouts:
        return ["No rollout."]
    spread = ", ".join(
        f"{count} in {number:,}" for count, number in sorted(totals.datums_per_rollout.items())
    )
    refused = f" ({counts_text(totals.errors)})" if totals.refused else ""
    lines = [
        f"{count_of(totals.rollouts, 'rollout')}, {count_of(totals.turns, 'turn')}, "
        f"{count_of(totals.datums, 'datum')}, {totals.refused:,} refused{refused}",
        f"  datums per rollout: {spread or 'none'}",
        f"  causes of splits:   {counts_text(totals.causes)}",
        f"  warnings:           {counts_text(totals.warnings)}",
        f"  tokens processed:   {totals.processed:,}, "
        f"{share_text(totals.processed, totals.unmerged)}",
    ]
    helps = [f"  {name}: {sentence}" for _, name, _, sentence in what_helps(totals)]
    if helps:
        lines += ["", "What helps", *helps]
    return lines


def issues_line(issues: Sequence[FileIssue]) -> str:
    """All that could not be read on one line: the first five sentences, then how many more."""
    sentences = " ".join(issue.message for issue in issues[:5])
    return sentences if len(issues) <= 5 else f"{sentences} And {len(issues) - 5:,} more."


def write_report(
    stream: IO[bytes], out: IO[str], as_json: bool, max_datums: int | None
) -> tuple[Totals, list[FileIssue]]:
    """Read rollouts and write the report on each as it comes; memory holds one at a time.

    Args:
        stream: The file, binary.
        out: Where the report goes.
        as_json: One JSON object, or text.
        max_datums: Above this a rollout counts as over.
    """
    totals = Totals()
    issues: list[FileIssue] = []
    out.write('{"trajectories": [' if as_json else "")
    for item in iter_rollouts(stream):
        if isinstance(item, FileIssue):
            issues.append(item)
            continue
        if isinstance(item, LengthsOnly):
            continue
        diagnosis = diagnose(item)
        totals.add(diagnosis, max_datums)
        if as_json:
            out.write(", " if totals.rollouts > 1 else "")
            out.write(json.dumps(report_entry(diagnosis), allow_nan=False))
        else:
            lines = report_lines(diagnosis)
            if max_datums is not None and len(diagnosis.built.data) > max_datums:
                lines.append(f"  more than {count_of(max_datums, 'datum')}")
            out.write("\n".join(lines) + "\n\n")
    out.write("]}\n" if as_json else "\n".join(summary_lines(totals)) + "\n")
    if not as_json and issues:
        out.write("\n" + "".join(f"not read: {issue.message}\n" for issue in issues))
    if not as_json and max_datums is not None:
        over = count_of(totals.over, "rollout")
        out.write(f"\nmore than {count_of(max_datums, 'datum')}: {over} of {totals.rollouts:,}\n")
    return totals, issues
