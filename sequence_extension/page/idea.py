"""Section 1: one picture of merging and splitting, the same for every reader."""

from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.figures.figure import Figure
from sequence_extension.figures.palette import PALETTE
from sequence_extension.figures.staircase_chart import staircase_chart
from sequence_extension.page.html import details_table_html, token_cell_html
from sequence_extension.page.once import once
from sequence_extension.staircase import staircase_facts, staircase_panels


@once
def idea_stories() -> tuple[tuple[str, str, Diagnosis], ...]:
    """Title, lesson and diagnosis of every scenario."""
    return tuple(
        (scenario.title, scenario.lesson, diagnose(scenario_rollout(scenario)))
        for scenario in scenarios().values()
    )


@once
def idea_figure() -> Figure:
    """The first figure of the page."""
    return staircase_chart(staircase_panels(idea_stories()))


@once
def idea_table_html() -> str:
    """What the marks of the figure mean, and all scenarios as a table that unfolds, as HTML."""
    facts = details_table_html(
        staircase_facts(idea_stories()).drop(columns="what happens"),
        "These and section 2's other scenarios as a table",
    )
    return f"{idea_legend_html()}{facts.text}"


def idea_legend_html() -> str:
    """What cells and marks of the first figure mean, as HTML."""
    grey = PALETTE["axis"]["fill"]
    signs = {
        token_cell_html("O"): "observation",
        token_cell_html("A", "A"): "action",
        f'<i style="border-bottom:3px solid {grey}"></i>': "mask 1: trained",
        '<i class="seq-again"></i>': "read again: an input of an earlier datum, too",
        f'<i style="border:1px dashed {grey}"></i>': "gone at a break",
        token_cell_html("✕", "X"): "the running sequence breaks",
    }
    items = "".join(f"<span>{sign} {words}</span>" for sign, words in signs.items())
    return f'<p class="seq-legend">{items}</p>'
