"""Section 5: what the reader's trajectory costs, and what a trainer can do at a break."""

from typing import Any

import marimo as mo

from sequence_extension.cost import cost_sentence, cost_table, cost_treatments
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.figures.cost_chart import cost_charts
from sequence_extension.growth import (
    growth_facts,
    growth_finding,
    growth_law,
    growth_note,
    growth_table,
)
from sequence_extension.page.html import (
    details_table_html,
    figure_box_html,
    fold_markup,
    note_html,
    table_box_html,
)
from sequence_extension.page.verdicts import verdicts_view_example


def cost_treatments_view(diagnosis: Diagnosis) -> mo.Html:
    """What three treatments of a break make of a rollout that splits."""
    shown = diagnosis if diagnosis.breaks else verdicts_view_example()
    prose = mo.md("""
*Split* is the cookbook's way. A trainer could also *overwrite and mask*: keep one sequence and
overwrite it at a break with the new observation, so that earlier actions are trained only up to
the break. Or *drop* the rollout.
""")
    title = f"“{shown.rollout.name}” under three treatments"
    table = table_box_html(cost_treatments(shown), title)
    return mo.Html(fold_markup("Three ways to treat a break", prose.text + table.text))


def cost_view(diagnosis: Diagnosis) -> Any:
    """What the trajectory costs, and how that grows with its turns."""
    prices = cost_table(diagnosis)
    if prices.empty:
        return note_html(diagnosis.built.error_message or "No datum, no price.", "error")
    own = all(item.resumes_datum is None for item in diagnosis.breaks)
    growth = growth_table(diagnosis.spans, own=own)
    laws = growth_law(growth) if len(growth) else growth
    drawn = (
        [
            figure_box_html(
                cost_charts(growth, laws),
                growth_finding(laws, diagnosis.spans),
                growth_note(diagnosis.spans, laws, own),
            ),
            details_table_html(growth_facts(growth)),
        ]
        if len(laws)
        else []
    )
    price = details_table_html(prices, "What this rollout costs, as a table")
    view = mo.vstack([note_html(cost_sentence(diagnosis)), *drawn, price], gap=0)
    return mo.Html(f'<div class="seq-cost">{view.text}</div>')
