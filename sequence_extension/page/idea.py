"""Section 1: one picture of merging and splitting, the same for every reader."""

from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.figures.figure import Figure
from sequence_extension.figures.staircase import staircase_chart
from sequence_extension.page.html import details_table, figure_legend
from sequence_extension.page.once import once
from sequence_extension.staircase import staircase_facts, staircase_tables


@once
def stories() -> tuple[tuple[str, str, Diagnosis], ...]:
    """Title, lesson and diagnosis of every scenario."""
    return tuple(
        (scenario.title, scenario.lesson, diagnose(scenario_rollout(scenario)))
        for scenario in scenarios().values()
    )


@once
def figure() -> Figure:
    """The first figure of the page."""
    return staircase_chart(staircase_tables(stories()))


@once
def table() -> str:
    """What the marks of the figure mean, and all scenarios as a table that unfolds, as HTML."""
    facts = details_table(
        staircase_facts(stories()).drop(columns="what happens"),
        "These and section 2's other scenarios as a table",
    )
    return f"{figure_legend()}{facts.text}"
