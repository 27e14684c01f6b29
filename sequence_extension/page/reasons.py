"""Sections 4 and 5: why the reader's trajectory split, and what that costs."""

from typing import Any

import marimo as mo

from sequence_extension.break_table import break_table, break_title
from sequence_extension.cost import (
    cost_sentence,
    cost_table,
    growth_facts,
    growth_finding,
    growth_law,
    growth_note,
    growth_table,
    treatment_table,
)
from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.figures.cost import cost_charts
from sequence_extension.page.html import details_table, figure_box, fold, note, table_box
from sequence_extension.page.once import once
from sequence_extension.page.views import break_drawings, break_figure, verdict_list
from sequence_extension.verdicts import verdicts
from sequence_extension.wording import lineage_sentence

# A split to look at while the reader's own trajectory has none.
EXAMPLE = "removed"


@once
def example() -> Diagnosis:
    """The scenario that section 4 opens with."""
    return diagnose(scenario_rollout(scenarios()[EXAMPLE]))


def breaks_of(diagnosis: Diagnosis) -> mo.Html:
    """The breaks of a trajectory, or those of an example where nothing splits."""
    if diagnosis.breaks:
        drawn = break_drawings(diagnosis, most=8).text
    else:
        scenario = scenarios()[EXAMPLE]
        lead = note(
            f"An example, until a turn of yours splits: “{scenario.title}”. {scenario.lesson}"
        )
        first = example().breaks[0]
        figure = break_figure(break_table(example(), first), break_title(example(), first))
        drawn = lead.text + figure.text
    return mo.Html(f'<div class="seq-breaks">{drawn}</div>')


def verdicts_view(diagnosis: Diagnosis) -> Any:
    """A verdict per turn, and whether another order would have given fewer datums."""
    lineage = lineage_sentence(diagnosis)
    lead = mo.md("### Your trajectory, turn by turn")
    listed = (note(lineage).text if lineage else "") + verdict_list(verdicts(diagnosis)).text
    box = f'<div class="seq-list" tabindex="0" role="group" aria-label="Verdicts">{listed}</div>'
    return mo.vstack([lead, mo.Html(box)])


def treatments_view(diagnosis: Diagnosis) -> mo.Html:
    """What three treatments of a break make of a rollout that splits."""
    shown = diagnosis if diagnosis.breaks else example()
    prose = mo.md("""
*Split* is the cookbook's way. A trainer could also *overwrite and mask*: keep one sequence and
overwrite it at a break with the new observation, so that earlier actions are trained only up to
the break. Or *drop* the rollout.
""")
    title = f"“{shown.rollout.name}” under three treatments"
    table = table_box(treatment_table(shown), title)
    return mo.Html(fold("Three ways to treat a break", prose.text + table.text))


def cost_view(diagnosis: Diagnosis) -> Any:
    """What the trajectory costs, and how that grows with its turns."""
    prices = cost_table(diagnosis)
    if prices.empty:
        return note(diagnosis.built.error_message or "No datum, no price.", "error")
    own = all(item.resumes_datum is None for item in diagnosis.breaks)
    growth = growth_table(diagnosis.spans, own=own)
    laws = growth_law(growth) if len(growth) else growth
    drawn = (
        [
            figure_box(
                cost_charts(growth, laws),
                growth_finding(laws, diagnosis.spans),
                growth_note(diagnosis.spans, laws, own),
            ),
            details_table(growth_facts(growth)),
        ]
        if len(laws)
        else []
    )
    price = details_table(prices, "What this rollout costs, as a table")
    view = mo.vstack([note(cost_sentence(diagnosis)), *drawn, price], gap=0)
    return mo.Html(f'<div class="seq-cost">{view.text}</div>')
