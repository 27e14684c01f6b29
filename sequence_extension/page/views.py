"""Strips, breaks, verdicts and groups in the page."""

import html
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import marimo as mo
import pandas as pd

from sequence_extension.alignment import alignment_table, strip_finding, window
from sequence_extension.break_table import (
    break_facts,
    break_marks,
    break_table,
    break_title,
    breaks_table,
)
from sequence_extension.breaks import Break
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.figures.breaks import break_chart
from sequence_extension.figures.group import group_chart
from sequence_extension.figures.runs import runs_chart
from sequence_extension.figures.strip import strip_chart
from sequence_extension.group import group_finding
from sequence_extension.overview import WINDOW
from sequence_extension.page.html import (
    code_spans,
    details_table,
    figure_box,
    fold,
    note,
    table_box,
)
from sequence_extension.staircase import again_runs
from sequence_extension.text import count_of
from sequence_extension.turns import runs_finding
from sequence_extension.verdicts import Verdict
from sequence_extension.wording import break_headline


def strip_figure(
    table: pd.DataFrame,
    breaks: Sequence[tuple[int, int, str]] = (),
    template: Mapping[str, Any] | None = None,
) -> mo.Html:
    """A strip in the page: the finding as text, lane names that stay while the strip scrolls."""
    return figure_box(strip_chart(table, breaks, template), strip_finding(table))


def break_figure(table: pd.DataFrame, title: str) -> mo.Html:
    """A break in the page: the finding as text, lane names that stay, and the facts as a table."""
    drawn = figure_box(break_chart(table), title)
    return mo.Html(drawn.text + details_table(break_facts(table), merged=2).text)


def verdict_list(listed: Sequence[Verdict], most: int = 40) -> mo.Html:
    """Verdicts as a list that reads at any width: sign, label and sentences per turn.

    Turns in a row that simply extend share one line. All texts are escaped.

    Args:
        listed: From `verdicts`.
        most: Lines at most; what is left out is counted.
    """
    items: list[str] = []
    groups = itertools.groupby(
        listed, key=lambda item: "extends" if item.kind == "extends" else f"turn {item.turn}"
    )
    lines = [list(group) for _, group in groups]
    signs = {"starts": "●", "extends": "✓", "splits": "✕", "look": "!"}
    for line in lines[:most]:
        first, last = line[0], line[-1]
        turns = f"Turn {first.turn}" if first is last else f"Turns {first.turn} to {last.turn}"
        label = first.label if first is last or first.kind != "extends" else "extend"
        sentences = list(first.sentences)
        if first is not last:
            sentences = [f"Each observation starts with all that was held; datum {first.datum}."]
        words = "".join(f"<li>{code_spans(sentence)}" for sentence in sentences)
        short = first.headline.partition(": ")[2]
        finding = f" <span>{html.escape(short)}</span>" if short else ""
        items.append(
            f'<li class="seq-verdict seq-verdict-{first.kind}"><p><b>{turns}</b> '
            f'<span class="seq-verdict-sign"><span aria-hidden="true">{signs[first.kind]}</span> '
            f"{html.escape(label)}</span>{finding}</p><ul>{words}</ul>"
        )
    rest = sum(len(line) for line in lines[most:])
    more = f'<p class="seq-note">{rest} more turns are left out here.</p>' if rest else ""
    return mo.Html(
        f'<ol class="seq-verdicts" aria-label="Verdict per turn">{"".join(items)}</ol>{more}'
    )


def group_view(table: pd.DataFrame, summary: pd.DataFrame) -> mo.Html:
    """The group figure in a box of one height that scrolls, and the same facts as a table.

    Args:
        table: From `group_table`.
        summary: From `group_summary`.
    """
    figure = figure_box(group_chart(table), group_finding(table))
    return mo.Html(f'<div class="seq-group">{figure.text}</div>{details_table(summary).text}')


def breaks_view(diagnosis: Diagnosis, renderer: str | None = None) -> mo.Html:
    """The breaks of a rollout as a table, or the sentence that there are none."""
    if diagnosis.built.error_message is not None:
        return note(diagnosis.built.error_message, "error")
    turns, datums = len(diagnosis.spans), len(diagnosis.built.data)
    if not diagnosis.breaks:
        return note(f"{count_of(turns, 'turn')}, {count_of(datums, 'datum')}: nothing splits.")
    return table_box(
        breaks_table(diagnosis, renderer),
        f"{count_of(turns, 'turn')}, {count_of(datums, 'datum')}: where it splits",
    )


def break_drawings(diagnosis: Diagnosis, most: int | None = None) -> mo.Html:
    """Breaks with both sides aligned: the first drawn, the others to unfold.

    Args:
        diagnosis: Of any rollout.
        most: Breaks drawn at most; without it the first one of each cause.
    """
    firsts: dict[str, Break] = {}
    for found in diagnosis.breaks:
        firsts.setdefault(found.cause, found)
    chosen = list(diagnosis.breaks[:most]) if most else list(firsts.values())
    drawn = [
        break_figure(break_table(diagnosis, found), break_title(diagnosis, found)).text
        for found in chosen
    ]
    folded = [
        fold(break_headline(found), figure)
        for found, figure in zip(chosen[1:], drawn[1:], strict=True)
    ]
    left = len(diagnosis.breaks) - len(drawn)
    alike = "" if most else " of the same " + ("cause" if len(drawn) == 1 else "causes")
    told = f"{count_of(left, 'more break')}{alike} not drawn."
    rest = note(told).text if left > 0 else ""
    return mo.Html("".join([*drawn[:1], *folded, rest]))


def rollout_figures(diagnosis: Diagnosis, size: int = WINDOW, most: int = 2) -> list[mo.Html]:
    """A rollout as runs, and strips of the tokens around its first breaks.

    Args:
        diagnosis: Of any rollout; nothing is drawn where it has no datum.
        size: Positions in one strip.
        most: Strips at most. Where nothing splits, or nothing at all is shared, the strip shows
            where the datum's first action begins.
    """
    if not diagnosis.built.data:
        return []
    marks = break_marks(diagnosis)
    actions = {run.datum: run.start for run in reversed(diagnosis.runs) if run.part == "A"}
    table = alignment_table(diagnosis.built, diagnosis.runs, diagnosis.rollout.vocab)
    places = [(datum, at or actions.get(datum, 0)) for datum, at, _ in marks[:most]]
    runs = runs_chart(diagnosis.runs, marks, again=again_runs(diagnosis))
    shown = [figure_box(runs, runs_finding(diagnosis.runs))]
    for datum, position in places or [(0, actions.get(0, 0))]:
        rows = window(table[table["datum"] == datum], max(0, position - size // 2), size)
        shown.append(strip_figure(rows, [mark for mark in marks if mark[0] == datum]))
    return shown
