"""A rollout and its breaks drawn, for any section of the page."""

import marimo as mo
import pandas as pd

from sequence_extension.alignment import alignment_table, alignment_window
from sequence_extension.break_table import (
    break_table,
    break_table_facts,
    break_table_marks,
    break_table_of_all,
    break_table_title,
)
from sequence_extension.breaks import Break
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.figures.break_chart import break_chart
from sequence_extension.figures.runs_chart import runs_chart
from sequence_extension.overview import WINDOW
from sequence_extension.page.html import (
    details_table_html,
    figure_box_html,
    fold_markup,
    note_html,
    table_box_html,
)
from sequence_extension.page.strips import strip_view
from sequence_extension.staircase import staircase_read_again
from sequence_extension.text import count_text
from sequence_extension.turns import turn_runs_finding
from sequence_extension.wording import headline_wording


def break_view(table: pd.DataFrame, title: str) -> mo.Html:
    """A break in the page: the finding as text, lane names that stay, and the facts as a table."""
    drawn = figure_box_html(break_chart(table), title)
    return mo.Html(drawn.text + details_table_html(break_table_facts(table), merged=2).text)


def breaks_view(diagnosis: Diagnosis, renderer: str | None = None) -> mo.Html:
    """The breaks of a rollout as a table, or the sentence that there are none."""
    if diagnosis.built.error_message is not None:
        return note_html(diagnosis.built.error_message, "error")
    turns, datums = len(diagnosis.spans), len(diagnosis.built.data)
    if not diagnosis.breaks:
        return note_html(
            f"{count_text(turns, 'turn')}, {count_text(datums, 'datum')}: nothing splits."
        )
    return table_box_html(
        break_table_of_all(diagnosis, renderer),
        f"{count_text(turns, 'turn')}, {count_text(datums, 'datum')}: where it splits",
    )


def break_drawings_view(diagnosis: Diagnosis, most: int | None = None) -> mo.Html:
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
        break_view(break_table(diagnosis, found), break_table_title(diagnosis, found)).text
        for found in chosen
    ]
    folded = [
        fold_markup(headline_wording(found), figure)
        for found, figure in zip(chosen[1:], drawn[1:], strict=True)
    ]
    left = len(diagnosis.breaks) - len(drawn)
    alike = "" if most else " of the same " + ("cause" if len(drawn) == 1 else "causes")
    told = f"{count_text(left, 'more break')}{alike} not drawn."
    rest = note_html(told).text if left > 0 else ""
    return mo.Html("".join([*drawn[:1], *folded, rest]))


def rollout_views(diagnosis: Diagnosis, size: int = WINDOW, most: int = 2) -> list[mo.Html]:
    """A rollout as runs, and strips of the tokens around its first breaks.

    Args:
        diagnosis: Of any rollout; nothing is drawn where it has no datum.
        size: Positions in one strip.
        most: Strips at most. Where nothing splits, or nothing at all is shared, the strip shows
            where the datum's first action begins.
    """
    if not diagnosis.built.data:
        return []
    marks = break_table_marks(diagnosis)
    actions = {run.datum: run.start for run in reversed(diagnosis.runs) if run.part == "A"}
    table = alignment_table(diagnosis.built, diagnosis.runs, diagnosis.rollout.vocab)
    places = [(datum, at or actions.get(datum, 0)) for datum, at, _ in marks[:most]]
    runs = runs_chart(diagnosis.runs, marks, again=staircase_read_again(diagnosis))
    shown = [figure_box_html(runs, turn_runs_finding(diagnosis.runs))]
    for datum, position in places or [(0, actions.get(0, 0))]:
        rows = alignment_window(table[table["datum"] == datum], max(0, position - size // 2), size)
        shown.append(strip_view(rows, [mark for mark in marks if mark[0] == datum]))
    return shown
