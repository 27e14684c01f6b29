"""One run of the command: read, report, and hold the rollouts to the limits."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

from tqdm import tqdm

from sequence_extension.gates import Failures, Gates
from sequence_extension.output import (
    flush_output,
    output_has_colours,
    write_error_output,
    write_output,
)
from sequence_extension.report_text import Paint, report_text_summary
from sequence_extension.rollout import Rollout
from sequence_extension.scan import (
    Item,
    Wanted,
    scan_file,
    scan_paths,
)
from sequence_extension.text import count_text, printable_text
from sequence_extension.tokenizers import TokenizerError
from sequence_extension.totals import REPORT_START, Row, Totals, Worst, totals_json
from sequence_extension.troubles import Trouble, trouble_file_label, trouble_lines

# Of the HTML report: rollouts in its table, and rollouts that are drawn.
PAGE_ROWS = 200
PAGE_DRAWN = 12
# Rewards of groups that are held for the figures' advantages.
MOST_REWARDS = 200_000
# What is read sooner shows no bar.
BAR_AFTER_S = 1.0


@dataclass
class Collected:
    """What one run keeps: sums, and the worst rollouts; bounded, however many were read."""

    wanted: Wanted
    totals: Totals = field(default_factory=Totals)
    failures: Failures = field(default_factory=Failures)
    troubles: list[Trouble] = field(default_factory=list)
    rewards: dict[tuple[str, str], list[float | None]] = field(default_factory=dict)
    rewards_held: int = 0

    def __post_init__(self) -> None:
        self.told: Worst[tuple[str, ...]] = Worst(self.wanted.details)
        self.rows: Worst[Row] = Worst(PAGE_ROWS if self.wanted.drawn else 0)
        self.drawn: Worst[tuple[Row, Rollout]] = Worst(self.wanted.drawn)

    def add(self, item: Item) -> None:
        """Count one rollout in, and keep of it what is among the worst."""
        row = item.row
        self.totals.add(row)
        self.failures.add(row, item.failed)
        if item.lines:
            self.told.offer(row.severity, item.lines)
        self.rows.offer(row.severity, row)
        if item.rollout is not None:
            self.drawn.offer(row.severity, (row, item.rollout))
        if self.wanted.drawn and row.group is not None:
            self.rewards_held += 1
            if self.rewards_held <= MOST_REWARDS:
                self.rewards.setdefault((row.file, row.group), []).append(row.reward)

    def advantage(self, row: Row) -> float | None:
        """A rollout's advantage in its group; None where not the whole group may be known."""
        from sequence_extension.group import group_reward_advantages

        if row.group is None or self.troubles or self.rewards_held > MOST_REWARDS:
            return None
        members = self.rewards[row.file, row.group]
        rewards = [reward for reward in members if reward is not None]
        if row.reward is None or len(rewards) < len(members):
            return None
        return group_reward_advantages(rewards)[rewards.index(row.reward)]


def run_command(options: Namespace) -> int:
    """The command behind its arguments; returns the exit code.

    Raises:
        OutputError: Standard output does not take the report.
    """
    wanted = Wanted(
        as_json=options.json,
        details=0 if options.json else options.show,
        drawn=0 if options.html is None else PAGE_DRAWN,
        colours=output_has_colours(sys.stdout),
        gates=Gates(options.max_datums, options.fail_on),
        named=len(options.files) > 1 or os.path.isdir(options.files[0]),
        tokenizer=options.tokenizer,
        trust_remote_code=options.trust_remote_code,
    )
    try:
        wanted.texts()
    except TokenizerError as error:
        write_error_output(printable_text(f"sequence-extension: --tokenizer: {error}"))
        return 2
    collected = Collected(wanted)
    if options.json:
        write_output(REPORT_START)
    files = list(scan_paths(options.files))
    for item in command_scan(files, options.workers, wanted):
        if isinstance(item, Trouble):
            collected.troubles.append(item)
            continue
        if options.json:
            write_output(", " * bool(collected.totals.rollouts) + item.entry)
        collected.add(item)
    if options.json:
        read = sum(isinstance(file, str) for file in files)
        write_output(totals_json(collected.totals, read, trouble_lines(collected.troubles)))
    else:
        write_command_text(collected)
    flush_output()
    return conclude_command(collected, options)


def command_scan(
    files: list[str | Trouble], workers: int | str, wanted: Wanted
) -> Iterator[Item | Trouble]:
    """The rollouts of all files, read here or by workers."""
    if workers == 1:
        return command_progress(files, wanted)
    from sequence_extension.workers import read_with_workers

    return read_with_workers(files, wanted, workers)


def command_progress(files: list[str | Trouble], wanted: Wanted) -> Iterator[Item | Trouble]:
    """The rollouts of all files, with a bar on standard error where that is a terminal."""
    sizes = [
        os.path.getsize(file) if isinstance(file, str) and os.path.isfile(file) else 0
        for file in files
    ]
    shown = sys.stderr is not None and sys.stderr.isatty() and "-" not in files
    done = 0
    with tqdm(
        total=sum(sizes),
        unit="B",
        unit_scale=True,
        delay=BAR_AFTER_S,
        leave=False,
        disable=not shown,
    ) as bar:
        for file, size in zip(files, sizes, strict=True):
            if isinstance(file, Trouble):
                yield file
                continue
            yield from scan_file(
                file, wanted, partial(move_command_bar, bar, done) if shown else None
            )
            done += size


def move_command_bar(bar: "tqdm[NoReturn]", done: int, at: int) -> None:
    """Set the bar to byte `at` of a file that stands behind `done` others."""
    bar.update(done + at - bar.n)


def write_command_text(collected: Collected) -> None:
    """The report for people: the worst rollouts first, then the sums.

    Raises:
        OutputError: Standard output does not take it.
    """
    totals = collected.totals
    if not totals.rollouts:
        return
    told = collected.told.ordered()
    for lines in told:
        write_output("\n".join(lines) + "\n\n")
    left = totals.rollouts - len(told)
    if left:
        write_output(f"{count_text(left, 'more rollout')}, no worse than these: --show N\n\n")
    write_output("\n".join(report_text_summary(totals, Paint(collected.wanted.colours))) + "\n")


def conclude_command(collected: Collected, options: Namespace) -> int:
    """Write the page, say what was not read and which limit does not hold: the exit code."""
    lines = trouble_lines(collected.troubles)
    failed = bool(lines)
    if options.html is not None and collected.totals.rollouts:
        failed |= not write_command_page(collected, options, lines)
    for line in lines:
        write_error_output(f"not read: {line}")
    verdict = collected.failures.sentence(collected.totals.rollouts)
    if verdict and options.json:
        write_error_output(verdict)
    elif verdict:
        write_output(f"\n{Paint(collected.wanted.colours)('red', verdict)}\n")
    return 2 if failed else 1 if verdict else 0


def write_command_page(collected: Collected, options: Namespace, issues: list[str]) -> bool:
    """Write the HTML report; False, with a line on standard error, where it cannot be written."""
    from sequence_extension.html_report import html_report_page

    names = [os.path.basename(trouble_file_label(file).rstrip("/")) for file in options.files]
    title = "Report on " + ", ".join(names[:3]) + (" and more" if len(names) > 3 else "")
    drawn = [(*pair, collected.advantage(pair[0])) for pair in collected.drawn.ordered()]
    page = html_report_page(title, collected.totals, collected.rows.ordered(), drawn, issues)
    try:
        with open(options.html, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(page)
    except OSError as error:
        write_error_output(
            printable_text(f"{options.html} cannot be written: {error.strerror or error}.")
        )
        return False
    if not options.json:
        write_output(f"\nHTML report: {printable_text(options.html)}\n")
    return True
