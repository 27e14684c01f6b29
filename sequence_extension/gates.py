"""What a check in CI asks of rollouts: `--max-datums` and `--fail-on`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sequence_extension.remedies import CAUSES, WARNING_REMEDIES
from sequence_extension.text import count_text, printable_text
from sequence_extension.totals import Row

# What `--fail-on` takes beside the name of a cause or the code of a warning.
KINDS = ("refused", "warning")
# Rollouts that a failed gate names.
MOST_NAMED = 3


@dataclass(frozen=True)
class Gates:
    """The limits of one run.

    Attributes:
        max_datums: More datums than that fail, and a rollout that was refused; None for no limit.
        fail_on: `refused`, `warning`, causes and codes of warnings.
    """

    max_datums: int | None = None
    fail_on: tuple[str, ...] = ()

    def failures(self, row: Row) -> tuple[str, ...]:
        """The options that this rollout fails."""
        failed = []
        if self.max_datums is not None:
            if row.error is not None:
                failed.append(f"--max-datums {self.max_datums} (refused: no datum)")
            elif row.datums > self.max_datums:
                failed.append(f"--max-datums {self.max_datums}")
        for kind in self.fail_on:
            holds = {"refused": row.error is not None, "warning": bool(row.warnings)}
            if holds.get(kind) or kind in row.causes or kind in row.warnings:
                failed.append(f"--fail-on {kind}")
        return tuple(failed)


def read_fail_on_gates(text: str) -> tuple[str, ...]:
    """The names of `--fail-on`, separated by commas.

    Raises:
        ValueError: A name is neither a kind nor a known cause or warning; lists what is known.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    known = (*KINDS, *CAUSES, *WARNING_REMEDIES)
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is none of {', '.join(known)}")
    return names


@dataclass
class Failures:
    """Which rollouts failed which gate; holds a few names, however many there are."""

    counts: Counter[str] = field(default_factory=Counter)
    names: dict[str, list[str]] = field(default_factory=dict)

    def add(self, row: Row, failed: Sequence[str]) -> None:
        """Count one rollout in."""
        for gate in failed:
            self.counts[gate] += 1
            named = self.names.setdefault(gate, [])
            if len(named) < MOST_NAMED:
                named.append(f'"{printable_text(row.name, 60)}"')

    def sentence(self, rollouts: int) -> str:
        """What failed, on one line; empty where all gates held."""
        parts = []
        for gate, count in self.counts.items():
            more = f" and {count - MOST_NAMED:,} more" if count > MOST_NAMED else ""
            parts.append(
                f"{gate} by {count:,} of {count_text(rollouts, 'rollout')} "
                f"({', '.join(self.names[gate])}{more})"
            )
        return f"failed: {'; '.join(parts)}" if parts else ""
