"""How often each cause splits a turn, over all rollouts of a file."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt

from sequence_extension.figures.figure import Figure, figure_table
from sequence_extension.figures.palette import RED
from sequence_extension.figures.theme import theme_text
from sequence_extension.text import count_text, counts_for_text, text_counts
from sequence_extension.wording import cause_wording

ROW, BARS = 22, 200  # pixels of a row, and of the longest bar


@cache
def causes_chart_template() -> Mapping[str, Any]:
    """The figure on its table `causes`; once per process."""
    axis = alt.Axis(title=None, labelFontSize=13, labelLimit=200)
    bars = figure_table("causes", "turns").encode(
        y=alt.Y("cause:N", sort=None, axis=axis),
        x=alt.X("turns:Q", axis=None, scale=alt.Scale(domainMin=0, nice=False)),
    )
    counts = bars.mark_text(**theme_text(align="left", dx=5, fontSize=13))
    counts = counts.encode(text=alt.Text("turns:Q", format=","))
    bars = bars.mark_bar(color=RED, cornerRadiusEnd=3, height={"band": 0.7})
    return alt.layer(bars, counts).to_dict()


def causes_chart(causes: Mapping[str, int]) -> Figure:
    """A bar for each cause of turns that split, the most frequent first, with their number."""
    rows = {cause_wording(cause): turns for cause, turns in counts_for_text(causes)}
    height = ROW * len(rows)
    padding = {"left": 0, "right": 40, "top": 0, "bottom": 0}
    return Figure(
        causes_chart_template(),
        {"causes": [{"cause": cause, "turns": turns} for cause, turns in rows.items()]},
        description=f"{causes_chart_title(causes)}: {text_counts(rows)}.",
        width=BARS + 130,
        height=height,
        bound={"width": BARS, "height": height, "padding": padding},
    )


def causes_chart_title(causes: Mapping[str, int]) -> str:
    """The figure in a sentence."""
    total = sum(causes.values())
    (most, often), *others = counts_for_text(causes)
    turns = f"{count_text(total, 'turn')} {'splits' if total == 1 else 'split'}, "
    if others and others[0][1] == often:  # none comes first
        return f"{turns}by {count_text(len(causes), 'cause')}"
    return f"{turns}{f'{often:,} of them ' if others else ''}by the cause {cause_wording(most)}"
