"""Section 5: what is read once and what is read again, and how that grows."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.figures.cells import stripes, text_width
from sequence_extension.figures.figure import Figure, named, pixels, records
from sequence_extension.figures.palette import GREY, PALETTE
from sequence_extension.figures.theme import page_text

SIDE, LARGEST = 170, 130  # pixels of the curves' height, and of the sides of the larger area
AREAS, CURVES, NAMES = 390, 210, 210  # pixels of the areas, of the curves, and of their names
AXIS = 52  # pixels left of the curves
FOOT = 40  # pixels below the areas, for their names
PATTERNS = ["extends", "splits every turn", "this rollout"]
LOOKS = {
    "extends": ("#0083C4", [1, 0], "circle"),
    "splits every turn": ("#C75A00", [8, 3], "triangle-up"),
    "this rollout": (GREY, [3, 3], "diamond"),
}


@cache
def cost_template() -> Mapping[str, Any]:
    """The figure on its tables `areas`, `stripes`, `words`, `curves`, `names`; once per process."""
    top = alt.Y("top:Q", scale=None, axis=None)
    areas = alt.Chart(named("areas", "left", "right", "top", "bottom")).encode(
        x=pixels("left"), x2="right:Q", y=top, y2="bottom:Q"
    )
    lines = alt.Chart(named("stripes", "left", "right", "top", "bottom")).encode(
        x=pixels("left"), x2="right:Q", y=top, y2="bottom:Q"
    )
    words = alt.Chart(named("words", "x", "y")).encode(
        x=pixels("x"), y=alt.Y("y:Q", scale=None, axis=None), text="words:N"
    )
    squares = alt.LayerChart(
        layer=[
            areas.mark_rect(cornerRadius=0).encode(
                fill=alt.Fill("fill:N", scale=None, legend=None)
            ),
            lines.mark_rule(color=GREY, strokeWidth=1.5),
            words.mark_text(**page_text(align="left", lineBreak="|", lineHeight=15)),
        ]
    ).properties(width=AREAS, height=SIDE + FOOT)
    beside = (
        alt.hconcat(squares, growth_curves(), spacing=0)
        .resolve_scale(y="independent")
        .properties(padding={"left": 0, "top": 10, "bottom": 0, "right": 0})
    )
    return beside.to_dict()  # type: ignore[no-any-return]


def growth_curves() -> alt.LayerChart:
    """Tokens against turns: a curve per pattern, named where it ends."""
    curves = alt.Chart(named("curves", "turns", "tokens", "datums")).encode(
        x=alt.X(
            "turns:Q",
            scale=alt.Scale(range=[0, CURVES], nice=False),
            axis=alt.Axis(
                title="turns", tickCount=4, minExtent=20, maxExtent=20, titleX=CURVES / 2
            ),
        ),
        y=alt.Y(
            "tokens:Q",
            axis=alt.Axis(title=None, tickCount=4, format=",d", minExtent=AXIS, maxExtent=AXIS),
        ),
    )
    color, dash, shape = (
        alt.Scale(domain=PATTERNS, range=[LOOKS[name][part] for name in PATTERNS])
        for part in range(3)
    )
    names = alt.Chart(named("names", "y")).encode(
        x=alt.value(CURVES), y=alt.Y("y:Q", scale=None), text="words:N"
    )
    return alt.LayerChart(
        layer=[
            curves.mark_line(strokeWidth=2.5).encode(
                stroke=alt.Stroke("pattern:N", scale=color, legend=None),
                strokeDash=alt.StrokeDash("pattern:N", scale=dash, legend=None),
            ),
            curves.mark_point(filled=True, size=60, opacity=1).encode(
                fill=alt.Fill("pattern:N", scale=color, legend=None),
                shape=alt.Shape("pattern:N", scale=shape, legend=None),
                tooltip=["pattern:N", "turns:Q", "datums:Q", alt.Tooltip("tokens:Q", format=",d")],
            ),
            names.mark_text(**page_text(align="left", dx=10, lineBreak="|", lineHeight=15)),
        ]
    ).properties(width=CURVES + NAMES, height=SIDE)


def cost_areas(once: int, total: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Two squares whose areas are in proportion: tables `areas`, `stripes` and `words`.

    Args:
        once: Tokens that are read if every turn extends.
        total: Tokens that are read if turns split.
    """
    again = total - once
    scale = LARGEST / math.sqrt(max(once, again, 1))
    rows, words, x = [], [], 0
    lines: list[tuple[int, int, int, int]] = []
    blue, pale = LOOKS["extends"][0], PALETTE["zero"]["fill"]
    for tokens, name, fill in ((once, "read once", blue), (again, "read again", pale)):
        side = round(scale * math.sqrt(tokens))
        if fill == pale:
            lines = stripes(x, SIDE - side, x + side, SIDE, 12)
        rows.append((x, x + side, SIDE - side, SIDE, fill))
        words.append((x, SIDE + 14, f"{name}|{tokens:,}"))
        x += max(side, text_width(name)) + 24
    words.append((x, SIDE + 14, f"in all|{total / once:.1f} times"))
    box = ["left", "right", "top", "bottom"]
    return (
        pd.DataFrame(rows, columns=[*box, "fill"]),
        pd.DataFrame(lines, columns=box),
        pd.DataFrame(words, columns=["x", "y", "words"]),
    )


def curve_names(laws: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """The table `names`: each curve where it ends; equal curves share one name.

    Args:
        laws: From `growth_law`.
        curves: From `growth_table`.
    """
    top = max(1, int(curves["tokens"].max()))
    named_by: dict[tuple[int, ...], dict[str, Any]] = {}
    for row in records(laws.sort_values("tokens", ascending=False, kind="stable")):
        points = tuple(curves[curves["pattern"] == row["pattern"]]["tokens"])
        first = named_by.setdefault(points, {**row, "names": []})
        first["names"].append(row["pattern"])
    room, lowest, rows = 34, SIDE - 10, []
    for place, row in enumerate(reversed(named_by.values())):
        # from below: each has room for its two lines
        y = min(round(SIDE * (1 - row["tokens"] / top)), lowest - room * (place > 0))
        rows.append((y, f"{' = '.join(row['names'])}|{row['law']}, {row['doubling']:.1f} times"))
        lowest = y
    return pd.DataFrame(rows[::-1], columns=["y", "words"])


def cost_chart(growth: pd.DataFrame, laws: pd.DataFrame) -> Figure:
    """What is read once and what is read again, as two areas; beside them how both grow.

    The areas are those of this rollout's own breaks where it has some, else of a break in
    every turn, at the largest number of turns.

    Args:
        growth: From `growth_table`: a point per real call.
        laws: From `growth_law`: what each curve shows.
    """
    curves = growth[growth["pattern"].isin(laws["pattern"])]
    tokens = dict(zip(laws["pattern"], laws["tokens"], strict=True))
    once = int(tokens["extends"])
    own = int(tokens.get("this rollout", once))
    total = own if own > once else int(tokens["splits every turn"])
    areas, lines, words = cost_areas(once, total)
    return Figure(
        cost_template(),
        {
            "areas": areas,
            "stripes": lines,
            "words": words,
            "curves": curves,
            "names": curve_names(laws, curves),
        },
        description=cost_description(laws),
        width=AREAS + AXIS + CURVES + NAMES,
        height=SIDE + FOOT + 18,
    )


def cost_description(laws: pd.DataFrame) -> str:
    """What the cost figure shows, in words."""
    parts = [
        f"{row['pattern']}: {row['tokens']:,} tokens at {row['turns']} turns, {row['law']}, "
        f"the last doubling of the turns costs {row['doubling']:.2f} times as much"
        for row in records(laws)
    ]
    return f"Tokens through the model against the number of turns. {'; '.join(parts)}."
