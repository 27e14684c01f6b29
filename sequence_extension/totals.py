"""Sums over many rollouts, from a small row of each.

Imports nothing heavy: what is said of a file that cannot be read has sums, too.
"""

import heapq
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sequence_extension.remedies import WARNING_REMEDIES
from sequence_extension.text import count_text, counts_for_text

# Groups that are counted one by one, so that sums stay small whatever a file holds.
MAX_GROUPS = 1_000
# What begins the machine-readable report.
REPORT_START = '{"trajectories": ['

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Row:
    """What is kept of one rollout; nothing in it grows with tokens.

    Attributes:
        name, file, group: Where it came from; any text.
        turns: Number of turns.
        datums: Number of datums; of lengths only 1 + the certain splits, 0 where refused.
        error: Class name of the exception that refused it, or None.
        refusal: The same in two or three words.
        would_be: Of a rollout that lacks nothing but logprobs: its datums by the prefix rule.
        remedies: Breaks by cause, and the refusal by its name, with what helps against them.
        causes, again, warnings: Breaks and the tokens they make the model read again, by cause;
            warnings by code.
        processed, unmerged: Tokens through the model, as it is and if no turn merged; 0 where
            nobody knows.
        reward: Of the whole rollout; None where nobody knows.
        lengths_only: Only lengths are known, so there may be more datums.
        joined_lines: Lines of a file that were joined into it, or None.
    """

    name: str
    turns: int
    datums: int
    file: str = ""
    group: str | None = None
    error: str | None = None
    refusal: str | None = None
    would_be: int | None = None
    causes: Mapping[str, int] = field(default_factory=dict)
    again: Mapping[str, int] = field(default_factory=dict)
    warnings: Mapping[str, int] = field(default_factory=dict)
    remedies: Mapping[tuple[str, str], int] = field(default_factory=dict)
    processed: int = 0
    unmerged: int = 0
    reward: float | None = None
    lengths_only: bool = False
    joined_lines: int | None = None

    @property
    def severity(self) -> tuple[int, int, int, int]:
        """Larger is worse: refused, then more datums, tokens read again, warnings."""
        refused = self.error is not None
        return refused, self.datums, sum(self.again.values()), sum(self.warnings.values())


@dataclass
class GroupSums:
    """Sums over the rollouts of one prompt."""

    rollouts: int = 0
    datums: int = 0
    refused: int = 0


@dataclass
class Totals:
    """Sums over all rollouts of a run; grows with the kinds of things met, not with rollouts.

    Attributes:
        rollouts, turns, datums, refused: Counts; a refused rollout has no datum but an error.
        lengths_only: Rollouts of known lengths; their datums are not counted.
        datums_per_rollout: How many rollouts became that many datums.
        causes, warnings, errors: How many breaks, warnings and refusals of each kind; refusals
            by class.
        refusals, classes: Refusals by name, and the class of each name.
        would_be: Rollouts that lack nothing but logprobs, and the datums they would be.
        repeats: Warnings that say what the refusal of their rollout says.
        again, rollouts_with: Tokens read again, and rollouts, by cause.
        remedies: How many breaks of a cause, or refusals of a class, something helps against.
        processed, unmerged: Tokens through the model, as it is and if no turn merged.
        joined: Rollouts that were joined from several lines, and those lines.
        groups: Sums by group, of the first `MAX_GROUPS`.
    """

    rollouts: int = 0
    turns: int = 0
    datums: int = 0
    refused: int = 0
    lengths_only: int = 0
    datums_per_rollout: Counter[int] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    again: Counter[str] = field(default_factory=Counter)
    rollouts_with: Counter[str] = field(default_factory=Counter)
    remedies: Counter[tuple[str, str]] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    classes: dict[str, str] = field(default_factory=dict)
    would_be: Counter[str] = field(default_factory=Counter)
    repeats: Counter[str] = field(default_factory=Counter)
    processed: int = 0
    unmerged: int = 0
    joined: Counter[str] = field(default_factory=Counter)
    groups: dict[str, GroupSums] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Count one rollout in."""
        self.rollouts += 1
        self.turns += row.turns
        self.causes.update(row.causes)
        self.remedies.update(row.remedies)
        self.rollouts_with.update(row.causes.keys())
        self.warnings.update(row.warnings)
        if row.joined_lines is not None:
            self.joined.update(rollouts=1, lines=row.joined_lines)
        if row.group is not None and (row.group in self.groups or len(self.groups) < MAX_GROUPS):
            group = self.groups.setdefault(row.group, GroupSums())
            group.rollouts += 1
            group.datums += 0 if row.lengths_only else row.datums
            group.refused += row.error is not None
        if row.lengths_only:
            self.lengths_only += 1
        elif row.error is not None:
            self.refused += 1
            name = row.refusal or row.error
            self.errors[row.error] += 1
            self.refusals[name] += 1
            self.classes[name] = row.error
            if row.would_be is not None:
                self.would_be.update(rollouts=1, datums=row.would_be)
                self.repeats["logprobs_missing"] += row.warnings.get("logprobs_missing", 0)
        else:
            self.datums += row.datums
            self.datums_per_rollout[row.datums] += 1
            self.again.update(row.again)
            self.processed += row.processed
            self.unmerged += row.unmerged


def totals_would_be(totals: Totals) -> str:
    """What rollouts that lack nothing but logprobs would be; empty where there are none."""
    if not totals.would_be:
        return ""
    datums, rollouts = totals.would_be["datums"], totals.would_be["rollouts"]
    return (
        f"{count_text(datums, 'datum')} from {count_text(rollouts, 'rollout')} once logprobs are "
        "recorded"
    )


def totals_entry(totals: Totals, files: int, problems: Sequence[str]) -> dict[str, Any]:
    """The sums of the machine-readable report; `datums` leaves out rollouts of known lengths.

    Args:
        totals: Sums over all rollouts.
        files: Files that were looked into.
        problems: Sentences on what could not be read, a line per file.
    """
    return {
        "files": files,
        "rollouts": totals.rollouts,
        "refused": totals.refused,
        "lengths_only": totals.lengths_only,
        "joined_rollouts": totals.joined["rollouts"],
        "joined_lines": totals.joined["lines"],
        "turns": totals.turns,
        "turns_split": totals.causes.total(),
        "datums": totals.datums,
        "tokens_processed": totals.processed,
        "tokens_unmerged": totals.unmerged,
        "tokens_read_again": totals.again.total(),
        "causes": dict(counts_for_text(totals.causes)),
        "warnings": dict(counts_for_text(totals.warnings)),
        "errors": dict(counts_for_text(totals.errors)),
        "help": [
            {"kind": kind, "name": totals.classes.get(name, name), "count": count, "help": sentence}
            for kind, name, count, sentence in totals_what_helps(totals)
        ],
        "problems": list(problems),
    }


def totals_json(totals: Totals, files: int, problems: Sequence[str]) -> str:
    """What ends the machine-readable report, behind its trajectories."""
    return f'], "summary": {json.dumps(totals_entry(totals, files, problems))}}}\n'


class Worst(Generic[Kept]):
    """The worst of many things, worst first, among equals the earliest; holds `most` of them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._heap: list[tuple[tuple[int, ...], int, Kept]] = []
        self._offers = 0

    def admits(self, severity: tuple[int, ...]) -> bool:
        """Whether something of this severity would be held now."""
        return self.most > 0 and (len(self._heap) < self.most or severity > self._heap[0][0])

    def offer(self, severity: tuple[int, ...], kept: Kept) -> None:
        """Hold it if it is among the worst so far."""
        self._offers += 1
        if not self.admits(severity):
            return
        entry = (severity, -self._offers, kept)
        if len(self._heap) < self.most:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heapreplace(self._heap, entry)

    def ordered(self) -> list[Kept]:
        """What is held, worst first."""
        worst_first = sorted(self._heap, key=lambda entry: entry[:2], reverse=True)
        return [kept for _, _, kept in worst_first]


def totals_what_helps(totals: Totals, repeats: bool = True) -> list[tuple[str, str, int, str]]:
    """Causes, warnings and refusals over all rollouts: kind, name, how many, what helps these.

    The most frequent first. A cause whose breaks need several remedies has a row for each.

    Args:
        totals: Sums over all rollouts.
        repeats: Also warnings that say what a refusal says.
    """
    warnings = totals.warnings if repeats else totals.warnings - totals.repeats
    helps = dict(totals.remedies)
    helps |= {(code, WARNING_REMEDIES[code]): count for code, count in warnings.items()}
    kinds = {"splits": totals.causes, "warning": warnings, "refused": totals.refusals}
    rows = []
    for kind, counts in kinds.items():
        for name, _ in counts_for_text(counts):
            mine = {sentence: count for (other, sentence), count in helps.items() if other == name}
            rows += [(kind, name, count, sentence) for sentence, count in counts_for_text(mine)]
    return rows
