"""Section 3: the datums of the reader's trajectory, token by token."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

import marimo as mo
import pandas as pd

from sequence_extension.alignment import (
    alignment_conservation,
    alignment_counts,
    alignment_counts_table,
    alignment_facts,
    alignment_finding,
    alignment_stretches,
    alignment_table,
    alignment_window,
)
from sequence_extension.break_table import break_table_marks
from sequence_extension.cookbook import tinker
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.figures.runs_chart import runs_chart
from sequence_extension.figures.strip_chart import (
    STRIP_DATUMS,
    STRIP_LIMIT,
    STRIP_WINDOW,
    strip_chart,
)
from sequence_extension.page.html import (
    details_table_html,
    figure_box_html,
    note_html,
)
from sequence_extension.staircase import staircase_read_again
from sequence_extension.text import number_text
from sequence_extension.turns import turn_runs_finding

# What is folded costs the browser time after each edit, too: rows of one position each.
MOST_ROWS = 80


def strip_window_controls(diagnosis: Diagnosis) -> Any:
    """Datum and first position of a window of single tokens, from the first break on.

    None for a rollout that is short enough to be drawn whole.
    """
    data = diagnosis.built.data
    tokens = sum(run.length for run in diagnosis.runs)
    if not data or (len(data) <= STRIP_DATUMS and tokens <= STRIP_LIMIT):
        return None
    datum, at, _ = next(iter(break_table_marks(diagnosis)), (0, 0, ""))
    longest = max(item.model_input.length for item in data)
    return mo.ui.dictionary(
        {
            "datum": mo.ui.number(0, len(data) - 1, value=datum, label="Datum"),
            "start": mo.ui.slider(
                0,
                longest - 1,
                value=max(0, at - 8),
                label="First position shown",
                show_value=True,
            ),
        }
    )


def strip_view_table(diagnosis: Diagnosis, place: Any) -> pd.DataFrame:
    """The positions to draw: all of them, or a window.

    Args:
        diagnosis: Of a rollout with datums.
        place: From `strip_window_controls`.
    """
    built, runs, vocab = diagnosis.built, diagnosis.runs, diagnosis.rollout.vocab
    if place is None:
        return alignment_table(built, runs, vocab)
    rows = alignment_table(built, runs, vocab, only=[int(place.value["datum"])])
    return alignment_window(rows, place.value["start"], STRIP_WINDOW)


def strips_view(diagnosis: Diagnosis, place: Any, drawing: Any = None) -> Any:
    """The strips of a rollout; of a long one the runs, and a window of single tokens.

    Args:
        diagnosis: Of a rollout with datums.
        place: From `strip_window_controls`.
        drawing: An Altair chart on the tables of `declare_strip`, as `to_dict()`.
    """
    built = diagnosis.built
    if not built.data:
        return note_html(built.error_message or "No turn holds a token yet.", "error")
    marks, table = break_table_marks(diagnosis), strip_view_table(diagnosis, place)
    strips = [strip_view(rows, marks, drawing) for _, rows in table.groupby("datum", sort=False)]
    if place is not None:
        shown = (*table[["datum", "position"]].iloc[0], len(table) - 1)
        controls = mo.hstack([place["datum"], place["start"]], justify="start", wrap=True)
        runs = figure_box_html(
            runs_chart(diagnosis.runs, marks, shown, staircase_read_again(diagnosis)),
            turn_runs_finding(diagnosis.runs),
        )
        return mo.vstack([runs, controls, *strips])
    return mo.Html(f'<div class="seq-row">{"".join(strip.text for strip in strips)}</div>')


def strip_facts_view(diagnosis: Diagnosis, place: Any) -> mo.Html:
    """What the datums count, and what the strips show as a table.

    Args:
        diagnosis: Of any rollout.
        place: From `strip_window_controls`.
    """
    if not diagnosis.built.data:
        return mo.Html("")
    counts = alignment_counts(diagnosis.built, diagnosis.runs)
    facts = alignment_facts(strip_view_table(diagnosis, place))
    folds = {
        "What the datums count": alignment_counts_table(counts),
        "The same facts as a table" if place is None else "The window as a table": (
            facts if len(facts) <= MOST_ROWS else alignment_stretches(facts)
        ),
    }
    law = note_html("{}: it {}.".format(*alignment_conservation(counts))).text
    return mo.Html(
        law + "".join(details_table_html(rows, name).text for name, rows in folds.items())
    )


def strip_view(
    table: pd.DataFrame,
    breaks: Sequence[tuple[int, int, str]] = (),
    template: Mapping[str, Any] | None = None,
) -> mo.Html:
    """A strip in the page: the finding as text, lane names that stay while the strip scrolls."""
    return figure_box_html(strip_chart(table, breaks, template), alignment_finding(table))


def strip_lanes_html(data: Sequence[tinker.Datum]) -> mo.Html:
    """Datums as plain tables: a row per tensor that the loss gets, a column per input position."""
    parts: list[str] = []
    for index, datum in enumerate(data):
        tokens = datum.model_input.to_ints()
        lanes = {"input": tokens} | {
            name: tensor.data for name, tensor in datum.loss_fn_inputs.items()
        }
        head = "".join(f'<th scope="col">{position}</th>' for position in range(len(tokens)))
        rows = "".join(
            f'<tr><th scope="row">{html.escape(name)}</th>'
            + "".join(f"<td>{number_text(value)}</td>" for value in values)
            + "</tr>"
            for name, values in lanes.items()
        )
        parts.append(
            f'<div class="edit-lanes" tabindex="0" role="group" aria-label="Datum {index}">'
            f"<table><caption>Datum {index}</caption>"
            f'<thead><tr><th scope="col">position</th>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )
    return mo.Html("".join(parts))
