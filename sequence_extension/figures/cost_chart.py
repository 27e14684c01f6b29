"""Section 5: what is read once and what is read again, and how that grows."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.figures import cells as draw
from sequence_extension.figures.figure import (
    Figure,
    Rows,
    figure_records,
    figure_table,
    fixed_figure_size,
)
from sequence_extension.figures.palette import GREY, PALETTE

SIDE, LARGEST = 170, 115  # pixels of the curves' height, and of the sides of the larger area
CURVES, NAMES, AXIS = 148, 138, 66  # pixels of the curves, of their names, and left of them
FOOT = 40  # pixels below both
LINE = 15  # pixels of a line of text
MEASURE = "what extending costs"
PATTERNS = {
    "extends": ("#0083C4", [1, 0], "circle"),
    "splits every turn": ("#C75A00", [8, 3], "triangle-up"),
    "this rollout": (GREY, [3, 3], "diamond"),
}
FILLS = {"read once": PATTERNS["extends"][0], "read again": PALETTE["zero"]["fill"]}
# Symbols, two units wide, above and to the right of their point.
SQUARE = "M0,0V-2H2V0Z"
HATCH = "".join(
    f"M{max(foot, 0)},{min(foot, 0)}L{min(foot + 2, 2)},{max(foot, 0) - 2}"
    for foot in (step / 5 for step in range(-9, 10))
)


@cache
def cost_chart_areas_template() -> Mapping[str, Any]:
    """The areas on their tables `areas` and `words`; once per process."""
    fill = alt.Scale(domain=[*FILLS], range=[*FILLS.values()])
    size = alt.Scale(range=[0, LARGEST**2], nice=False)  # from 0 on
    areas = figure_table("areas", "x", "y", "tokens").encode(size=alt.Size("tokens:Q", scale=size))
    again = areas.transform_filter("datum.name == 'read again'")
    return alt.layer(
        areas.mark_point(shape=SQUARE).encode(fill=alt.Fill("name:N", scale=fill)),
        again.mark_point(shape=HATCH, filled=False, strokeWidth=1.5),
        draw.cell_words_layer(figure_table("words", "x", "y"), lineHeight=LINE),
    ).to_dict()


def cost_chart_areas(once: int, total: int) -> Figure:
    """Two squares whose areas are in proportion: what is read once, and what is read again.

    `once` and `total` are the tokens that are read if every turn extends, and if turns split.
    """
    side = LARGEST * math.sqrt(once / max(once, total - once))
    second = round(max(side, draw.cell_text_width("read once"))) + 24
    areas = [
        {"x": 0, "y": SIDE, "name": "read once", "tokens": once},
        {"x": second, "y": SIDE, "name": "read again", "tokens": total - once},
    ]
    words = [
        {"x": area["x"], "y": SIDE + 14, "words": f"{area['name']}\n{area['tokens']:,}"}
        for area in areas
    ]
    # above both: the larger area leaves room for two lines
    words.append({"x": 0, "y": 10, "words": f"together {total / once:.1f} times\n{MEASURE}"})
    width, height = max(second + LARGEST, draw.cell_text_width(MEASURE)), SIDE + FOOT
    return Figure(
        cost_chart_areas_template(),
        {"areas": areas, "words": words},
        description=f"Two areas: {once:,} inputs read once, {total - once:,} read again.",
        width=width,
        height=height,
        bound=fixed_figure_size(width, height),
    )


@cache
def cost_chart_curves_template() -> Mapping[str, Any]:
    """Tokens against turns, on the tables `curves` and `names`; once per process."""
    across = alt.Scale(range=[0, CURVES], nice=False)
    turns = alt.Axis(title="turns", tickCount=4, titleX=CURVES / 2)
    tokens = alt.Axis(
        title="inputs", tickCount=4, format=",d", minExtent=AXIS, maxExtent=AXIS, titleX=14 - AXIS
    )
    curves = figure_table("curves", "turns", "tokens", "datums").encode(
        x=alt.X("turns:Q", scale=across, axis=turns), y=alt.Y("tokens:Q", axis=tokens)
    )
    color, dash, shape = (
        alt.Scale(domain=[*PATTERNS], range=[look[part] for look in PATTERNS.values()])
        for part in range(3)
    )
    lines = curves.mark_line(strokeWidth=2.5).encode(
        stroke=alt.Stroke("pattern:N", scale=color),
        strokeDash=alt.StrokeDash("pattern:N", scale=dash),
    )
    points = curves.mark_point(size=60).encode(
        fill=alt.Fill("pattern:N", scale=color),
        shape=alt.Shape("pattern:N", scale=shape),
        tooltip=["pattern:N", "turns:Q", "datums:Q", alt.Tooltip("tokens:Q", format=",d")],
    )
    names = figure_table("names", "y").encode(x=alt.value(CURVES))
    return alt.layer(lines, points, draw.cell_words_layer(names, dx=10, lineHeight=LINE)).to_dict()


def cost_chart_names(laws: pd.DataFrame, curves: pd.DataFrame) -> Rows:
    """The table `names`: each curve where it ends, in lines; equal curves share one name."""
    top = max(1, int(curves["tokens"].max()))
    ends: dict[tuple[int, ...], tuple[int, list[str], str]] = {}
    for row in figure_records(laws.sort_values("tokens", kind="stable")):
        points = tuple(curves[curves["pattern"] == row["pattern"]]["tokens"])
        law = f"{row['law']}, {row['doubling']:.1f} times"
        ends.setdefault(points, (row["tokens"], [], law))[1].append(row["pattern"])
    lowest, rows = SIDE + 8, Rows()
    for tokens, patterns, law in ends.values():
        # from below: each has room for its lines, whose first stands at y
        y = min(round(SIDE * (1 - tokens / top)), lowest - LINE * (len(patterns) + 1))
        rows.append({"y": y, "words": "\n= ".join(patterns) + f"\n{law}"})
        lowest = y - 4
    return rows[::-1]


def cost_chart_curves(growth: pd.DataFrame, laws: pd.DataFrame) -> Figure:
    """How the tokens that are read grow with the turns, a curve per pattern."""
    curves = growth[growth["pattern"].isin(laws["pattern"])]
    told = "; ".join(
        f"{row['pattern']}: {row['tokens']:,} inputs at {row['turns']} turns, {row['law']}, "
        f"the last doubling of the turns costs {row['doubling']:.2f} times as much"
        for row in figure_records(laws)
    )
    around = {"left": AXIS, "top": 10, "right": NAMES, "bottom": FOOT}
    return Figure(
        cost_chart_curves_template(),
        {"curves": figure_records(curves), "names": cost_chart_names(laws, curves)},
        description=f"Tokens through the model against the number of turns. {told}.",
        width=AXIS + CURVES + NAMES,
        height=SIDE + FOOT + 10,
        bound={**fixed_figure_size(CURVES, SIDE), "padding": around},
    )


def cost_charts(growth: pd.DataFrame, laws: pd.DataFrame) -> tuple[Figure, Figure]:
    """What is read once and again, as two areas; and a `growth_table` with its `growth_law`.

    The areas are those of this rollout's own breaks where it has some, else of a break in
    every turn, at the largest number of turns.
    """
    tokens = dict(zip(laws["pattern"], laws["tokens"], strict=True))
    once = int(tokens["extends"])
    own = int(tokens.get("this rollout", once))
    total = own if own > once else int(tokens["splits every turn"])
    return cost_chart_areas(once, total), cost_chart_curves(growth, laws)
