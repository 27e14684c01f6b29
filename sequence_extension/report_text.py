"""The report for people: a rollout, the sums, as lines of text."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sequence_extension.breaks import Break
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.elements import image_element_label, model_input_to_elements
from sequence_extension.formats.results import LengthsOnly
from sequence_extension.text import (
    count_text,
    counts_for_text,
    printable_text,
    share_text,
    text_bytes,
    text_counts,
)
from sequence_extension.totals import Row, Totals, totals_what_helps, totals_would_be
from sequence_extension.wording import headline_wording, refusal_wording, worded_warnings

# Of one rollout: breaks and warnings that are listed; tokens and letters on each side of a break.
MOST_BREAKS = 6
MOST_WARNINGS = 6
CONTEXT_TOKENS = 12
CONTEXT_LETTERS = 72
MOST_LISTED_GROUPS = 10

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


class Paint:
    """Styles for a terminal; text as it is where colours are off."""

    def __init__(self, colours: bool) -> None:
        self.colours = colours

    def __call__(self, style: str, text: str) -> str:
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self.colours else text


def report_text_elements(elements: Sequence[Any], vocab: Mapping[int, str]) -> str:
    """Tokens as a reader would quote them: their text where known, else ids; one line.

    Neighbouring pieces of one character are put together. Line ends show as ↵; nothing else
    that does not draw is let through.
    """
    pieces: list[str] = []
    known = b""
    for element in [*elements, None]:
        text = vocab.get(element) if isinstance(element, int) else None
        if text is not None:
            raw = text_bytes(text)
            known += text.encode("utf-8", "replace") if raw is None else raw
            continue
        if known:
            whole = known.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
            pieces.append(whole.replace("\n", "↵"))
            known = b""
        if element is not None:
            pieces.append(
                f"{element}" if isinstance(element, int) else f"[{image_element_label(element)}]"
            )
    return printable_text(" ".join(pieces))


def report_text_context(diagnosis: Diagnosis, item: Break) -> tuple[str, str, str]:
    """What both sides share before a break, what was held there, and what came.

    The same text in other tokens shows where each token ends.
    """
    transitions = diagnosis.rollout.trajectory.transitions
    before = transitions[item.turn - 1]
    held = [*model_input_to_elements(before.ob), *before.ac.tokens]
    new = model_input_to_elements(transitions[item.turn].ob)
    vocab, place = diagnosis.rollout.vocab, item.position
    start = max(0, place - CONTEXT_TOKENS)
    shared = report_text_elements(held[start:place], vocab)
    if start or len(shared) > CONTEXT_LETTERS:
        shared = f"…{shared[-CONTEXT_LETTERS:]}"
    sides = []
    for side in (held, new):
        elements = side[place : place + CONTEXT_TOKENS]
        parts = [[element] for element in elements] if item.cause == "retokenised" else [elements]
        text = "│".join(report_text_elements(part, vocab) for part in parts)
        if len(side) > place + CONTEXT_TOKENS or len(text) > CONTEXT_LETTERS:
            text = f"{text[:CONTEXT_LETTERS]}…"
        sides.append(text)
    return shared or "(the start)", sides[0], sides[1] or "(the observation ends here)"


def report_text_break(diagnosis: Diagnosis, item: Break, paint: Paint) -> list[str]:
    """One break as people write it in a bug report."""
    shared, expected, got = report_text_context(diagnosis, item)
    finding = headline_wording(item).partition(": ")[2]
    origin = f"turn {item.origin.turn}'s {item.origin.part}, index {item.origin.index}"
    resumes = ""
    if item.resumes_datum is not None:
        resumes = f"; it would extend datum {item.resumes_datum}"
    head = f"turn {item.turn} splits at position {item.position:,} of {item.held:,}"
    lines = [
        f"  {paint('red', head)}, {paint('bold', item.cause)}: {printable_text(finding)}{resumes}",
        f"    {paint('dim', 'before   ')} {shared}",
        f"    {paint('dim', 'expected ')} {expected}  {paint('dim', f'({origin})')}",
        f"    {paint('dim', 'got      ')} {got}",
    ]
    if item.bounded is not None:
        lines.append(f"    {printable_text(item.bounded)}")
    return [*lines, *(f"    {printable_text(hint)}" for hint in item.hints)]


def report_text_rollout(
    source: Diagnosis | LengthsOnly, row: Row, failed: Sequence[str], paint: Paint
) -> list[str]:
    """One rollout: what became of it, its first breaks and warnings, and what it costs."""
    labels = []
    if row.group is not None and not row.name.startswith(f"{row.group}, "):
        group = printable_text(row.group, 60)
        labels.append(group if group.startswith("group ") else f"group {group}")
    labels += [printable_text(row.file, 200)] if row.file else []
    if row.joined_lines is not None:
        labels.append(f"{count_text(row.joined_lines, 'line')} joined")
    head = paint("bold", printable_text(row.name, 80))
    lines = [f"{head} ({', '.join(labels)})" if labels else head]
    turns = count_text(row.turns, "turn")
    if isinstance(source, LengthsOnly):
        cannot = ", ".join(map(str, source.certain_splits[:20]))
        lines.append(
            f"  {turns}, lengths only: at least {count_text(row.datums, 'datum')}"
            + (f"; turns that cannot extend: {cannot}" if cannot else "")
        )
    elif row.would_be is not None:
        lines.append(f"  {paint('red', 'refused')}, {refusal_wording(source)}")
    elif row.error is not None:
        message = printable_text(f"{source.built.error_message} ({row.error})")
        lines.append(f"  {paint('red', 'refused')}, {turns}, no datum: {message}")
    else:
        again = sum(row.again.values())
        lines.append(
            f"  {turns}, {count_text(row.datums, 'datum')}, {count_text(row.processed, 'input')}: "
            f"{share_text(row.processed, row.unmerged)}"
            + (f"; {again:,} read again" if again else "")
        )
    lines += [f"  {paint('red', 'fails')} {gate}" for gate in failed]
    if isinstance(source, LengthsOnly):
        return lines
    helps = ""
    for item in source.breaks[:MOST_BREAKS]:
        lines += report_text_break(source, item, paint)
        if item.help != helps:  # said once for breaks in a row that it cures
            helps = item.help
            lines.append(f"    {paint('dim', 'helps    ')} {helps}")
    left = source.breaks[MOST_BREAKS:]
    if left:
        kinds = text_counts(Counter(item.cause for item in left))
        lines.append(f"  {count_text(len(left), 'more break')}: {kinds}")
    warnings = worded_warnings(source)
    for warning in warnings[:MOST_WARNINGS]:
        words = printable_text(" ".join([warning.message, *warning.hints]))
        lines.append(f"  {paint('yellow', 'warning')} {warning.code}: {words}")
    more = len(warnings) - MOST_WARNINGS
    if more > 0:
        lines.append(f"  {count_text(more, 'more warning')}")
    lines += [f"  {printable_text(note)}" for note in source.rollout.notes]
    return lines


def report_text_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of words as lines: the first column to the left, numbers to the right."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(
            word.rjust(width) if at else word.ljust(width)
            for at, (word, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def report_text_summary(totals: Totals, paint: Paint) -> list[str]:
    """The sums over all rollouts: datums, causes with what they cost, warnings, what helps."""
    spread = ", ".join(
        f"{count} in {number:,}" for count, number in sorted(totals.datums_per_rollout.items())
    )
    refused = f", {totals.refused:,} refused ({text_counts(totals.refusals)})"
    head = (
        f"{count_text(totals.rollouts, 'rollout')}, {count_text(totals.turns, 'turn')}, "
        f"{count_text(totals.datums, 'datum')}{refused if totals.refused else ''}"
    )
    lines = [paint("bold", head)]
    if totals.datums or not totals.refused:
        lines += [
            f"  datums per rollout: {spread or 'none'}",
            f"  inputs:             {totals.processed:,}, "
            f"{share_text(totals.processed, totals.unmerged)}; "
            f"{totals.again.total():,} read again",
        ]
    if totals.would_be:
        lines.append(f"  would be:           {totals_would_be(totals)}")
    if totals.lengths_only:
        lines.append(
            f"  lengths only:       {count_text(totals.lengths_only, 'rollout')}; tokens are "
            "needed "
            "for more: record them with `tinker_cookbook.capture` or `write_rollouts`"
        )
    if totals.joined:
        lines.append(
            f"  joined:             {count_text(totals.joined['lines'], 'line')} into "
            f"{count_text(totals.joined['rollouts'], 'rollout')}"
        )
    if totals.causes:
        table = [["Why turns split", "turns", "rollouts", "tokens read again"]]
        table += [
            [
                f"  {cause}",
                f"{n:,}",
                f"{totals.rollouts_with[cause]:,}",
                # of rollouts that were refused nothing is read
                f"{totals.again[cause]:,}" if cause in totals.again else "-",
            ]
            for cause, n in counts_for_text(totals.causes)
        ]
        first, *rest = report_text_columns(table)
        lines += ["", paint("bold", first), *rest]
    if warnings := totals.warnings - totals.repeats:
        rows = report_text_columns(
            [[f"  {code}", f"{n:,}"] for code, n in counts_for_text(warnings)]
        )
        lines += ["", paint("bold", "Warnings"), *rows]
    lines += report_text_groups(totals, paint)
    told = totals.causes | warnings | totals.refusals
    helps = [
        f"  {name}: {sentence}{'' if count == told[name] else f' ({count:,} of {told[name]:,})'}"
        for _, name, count, sentence in totals_what_helps(totals, repeats=False)
    ]
    return [*lines, "", paint("bold", "What helps"), *helps] if helps else lines


def report_text_groups(totals: Totals, paint: Paint) -> list[str]:
    """The groups with the most datums per rollout, where there are groups that split."""
    groups = sorted(
        totals.groups.items(),
        key=lambda item: (-item[1].refused, -item[1].datums / item[1].rollouts, item[0]),
    )
    split = [item for item in groups if item[1].datums > item[1].rollouts or item[1].refused]
    if not split:
        return []
    table = [["Groups that split", "rollouts", "datums", "refused"]]
    table += [
        [
            f"  {printable_text(name, 60)}",
            f"{sums.rollouts:,}",
            f"{sums.datums:,}",
            f"{sums.refused:,}",
        ]
        for name, sums in split[:MOST_LISTED_GROUPS]
    ]
    first, *rest = report_text_columns(table)
    left = len(split) - MOST_LISTED_GROUPS
    return ["", paint("bold", first), *rest, *([f"  {left:,} more"] if left > 0 else [])]
