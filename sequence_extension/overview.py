"""Many rollouts at a glance."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from sequence_extension.break_table import break_table_marks
from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.formats.native import rollout_to_native
from sequence_extension.group import group_advantages
from sequence_extension.report import report_row
from sequence_extension.rollout import Rollout
from sequence_extension.text import printable_text
from sequence_extension.tokenizers import with_tokenizer_texts
from sequence_extension.totals import Row, Totals, totals_what_helps
from sequence_extension.wording import cause_wording

# Said at figures of rollouts whose group nobody knows.
STAND_IN = "traj_advantage = 1 stands in for the number that a group would give"
# Positions in a window of single tokens (what a wide page shows without scrolling), and
# datums that the figure above it draws.
WINDOW = 15
# Rows of `overview_counts` that stand open; more are folded, so that the rollouts come before them.
MOST_OPEN_COUNTS = 8


def overview_example() -> str:
    """A small JSONL file to start from: a group of three rollouts."""
    listed = scenarios()
    lines = []
    for key, reward in (("chat", 1.0), ("removed", 0.0), ("replaced", 0.5)):
        rollout = replace(scenario_rollout(listed[key]), group="one prompt")
        native = rollout_to_native(rollout)
        native["transitions"][-1]["reward"] = reward
        lines.append(json.dumps(native, ensure_ascii=False))
    return "\n".join(lines)


@dataclass(frozen=True)
class Overview:
    """All rollouts of a file at a glance; nothing in it grows with tokens.

    Attributes:
        table: One row per rollout, the worst first (`Row.severity`). What became of it comes
            first, so that a narrow window shows that; `#`, at the end, is its place in the file.
            Columns that say nothing in any row are left out.
        totals: Sums over all of them.
        advantages: From `group_advantages`, in the order of the file.
    """

    table: pd.DataFrame
    totals: Totals
    advantages: tuple[float | None, ...]


def overview(rollouts: Sequence[Rollout], texts: Mapping[int, str] | None = None) -> Overview:
    """Diagnose every rollout and keep one row of each; `texts` are those of a tokenizer."""
    advantages = group_advantages(rollouts)
    totals = Totals()
    rows = []
    severities: list[tuple[int, ...]] = []
    for index, (rollout, advantage) in enumerate(zip(rollouts, advantages, strict=True)):
        diagnosis = diagnose(with_tokenizer_texts(rollout, texts))
        row = report_row(diagnosis)
        totals.add(row)
        severities.append(row.severity)
        rows.append(
            {
                "name": printable_text(rollout.name, 60),
                "datums": len(diagnosis.built.data),
                "main cause": overview_main_cause(row),
                "inputs": diagnosis.tokens_processed,
                "if unmerged": diagnosis.tokens_unmerged,
                "turns": len(diagnosis.spans),
                "warnings": len(diagnosis.warnings),
                "error": row.refusal or "",
                "reward": sum(turn.reward for turn in rollout.trajectory.transitions),
                "advantage": advantage,
                "group": printable_text(rollout.group or "", 30),
                "#": index,
            }
        )
    worst_first = sorted(range(len(rows)), key=severities.__getitem__, reverse=True)
    table = pd.DataFrame([rows[index] for index in worst_first])
    if rows:  # with gaps: a refused rollout has no price, one without a group no advantage
        gaps = {"advantage": "Float64", "inputs": "Int64", "if unmerged": "Int64"}
        table = table.astype(gaps)
    silent = ("group", "reward", "advantage", "main cause", "warnings", "error")
    for column in silent if rows else ():
        if all(row[column] in ("", None, 0) for row in rows):
            table = table.drop(columns=column)
    return Overview(table, totals, tuple(advantages))


def overview_main_cause(row: Row) -> str:
    """What became of a rollout in a few words: that it was refused, and its most frequent cause."""
    causes = [cause_wording(max(row.causes, key=row.causes.__getitem__))] if row.causes else []
    return ", ".join(["refused"] * (row.error is not None) + causes)


def overview_counts(totals: Totals) -> pd.DataFrame:
    """Causes, warnings and refusals over all rollouts, with what helps; most frequent first."""
    of = totals.causes | totals.warnings - totals.repeats | totals.refusals
    return pd.DataFrame(
        [
            {
                "kind": kind,
                "what": cause_wording(name),
                "count": f"{count:,}" if count == of[name] else f"{count:,} of {of[name]:,}",
                "what helps": sentence,
            }
            for kind, name, count, sentence in totals_what_helps(totals, repeats=False)
        ]
    )


def overview_window_places(diagnosis: Diagnosis, most: int = 200) -> dict[str, tuple[int, int]]:
    """Where a window of single tokens may start: label to (datum, position); breaks first."""
    places = {
        f"{label} (datum {datum}, position {position:,})": (datum, max(0, position - WINDOW // 2))
        for datum, position, label in break_table_marks(diagnosis)[:most]
    }
    for datum in range(min(len(diagnosis.built.data), most)):
        places[f"start of datum {datum}"] = (datum, 0)
    return places if diagnosis.built.data else {}
