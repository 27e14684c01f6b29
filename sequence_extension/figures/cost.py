"""Section 5: what is read once and what is read again, and how that grows."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.figures.cells import text_width
from sequence_extension.figures.figure import Figure, named, pixels, pixels_down, plot, records
from sequence_extension.figures.palette import GREY, PALETTE
from sequence_extension.figures.theme import page_text

SIDE, LARGEST = 170, 115  # pixels of the curves' height, and of the sides of the larger area
CURVES, NAMES, AXIS = 150, 150, 52  # pixels of the curves, of their names, and left of them
FOOT = 40  # pixels below both
HATCH = 12  # pixels of a line of the hatch
LINE = 15  # pixels of a line of text
PATTERNS = {
    "extends": ("#0083C4", [1, 0], "circle"),
    "splits every turn": ("#C75A00", [8, 3], "triangle-up"),
    "this rollout": (GREY, [3, 3], "diamond"),
}
FILLS = {"read once": PATTERNS["extends"][0], "read again": PALETTE["zero"]["fill"]}


@cache
def areas_template() -> Mapping[str, Any]:
    """The areas on their tables `areas`, `hatch` and `words`; once per process."""

    def boxes(table: str) -> alt.Chart:
        data = alt.Chart(named(table, "left", "right", "top", "bottom"))
        return data.encode(x=pixels("left"), x2="right:Q", y=pixels_down("top"), y2="bottom:Q")

    fill = alt.Scale(domain=[*FILLS], range=[*FILLS.values()])
    words = alt.Chart(named("words", "x", "y")).encode(
        x=pixels("x"), y=pixels_down(), text="words:N"
    )
    return alt.layer(
        boxes("areas")
        .mark_rect(cornerRadius=0)
        .encode(fill=alt.Fill("name:N", scale=fill, legend=None)),
        boxes("hatch").mark_rule(color=GREY, strokeWidth=1.5),
        words.mark_text(**page_text(align="left", lineBreak="|", lineHeight=LINE)),
    ).to_dict()


def areas_chart(once: int, total: int) -> Figure:
    """Two squares whose areas are in proportion: what is read once, and what is read again.

    Args:
        once: Tokens that are read if every turn extends.
        total: Tokens that are read if turns split.
    """
    scale = LARGEST / math.sqrt(max(once, total - once, 1))
    areas, hatch, words, x = [], [], [], 0
    for name, tokens in (("read once", once), ("read again", total - once)):
        side = round(scale * math.sqrt(tokens))
        areas.append((x, x + side, SIDE - side, SIDE, name))
        words.append((x, SIDE + 14, f"{name}|{tokens:,}"))
        if name == "read again":
            for foot in range(x - side + HATCH, x + side, HATCH):
                start, end = max(foot, x), min(foot + side, x + side)
                hatch.append((start, end, SIDE - (start - foot), SIDE - (end - foot)))
        x += max(side, text_width(name)) + 24
    # above both: the larger area leaves room for two lines
    words.append((0, 10, f"together {total / once:.1f} times|what extending costs"))
    box = ["left", "right", "top", "bottom"]
    width = max(at + max(map(text_width, text.split("|"))) for at, _, text in words)
    width, height = max(width, x), SIDE + FOOT
    return Figure(
        areas_template(),
        {
            "areas": pd.DataFrame(areas, columns=[*box, "name"]),
            "hatch": pd.DataFrame(hatch, columns=box),
            "words": pd.DataFrame(words, columns=["x", "y", "words"]),
        },
        description=f"Two areas: {once:,} inputs read once, {total - once:,} read again.",
        width=width,
        height=height,
        bound=plot(width, height),
    )


@cache
def curves_template() -> Mapping[str, Any]:
    """Tokens against turns, on the tables `curves` and `names`; once per process."""
    ticks = alt.Axis(title=None, tickCount=4, format=",d", minExtent=AXIS, maxExtent=AXIS)
    curves = alt.Chart(named("curves", "turns", "tokens", "datums")).encode(
        x=alt.X(
            "turns:Q",
            scale=alt.Scale(range=[0, CURVES], nice=False),
            axis=alt.Axis(title="turns", tickCount=4, titleX=CURVES / 2),
        ),
        y=alt.Y("tokens:Q", axis=ticks),
    )
    color, dash, shape = (
        alt.Scale(domain=[*PATTERNS], range=[look[part] for look in PATTERNS.values()])
        for part in range(3)
    )
    names = alt.Chart(named("names", "y")).encode(
        x=alt.value(CURVES), y=alt.Y("y:Q", scale=None), text="words:N"
    )
    return alt.layer(
        curves.mark_line(strokeWidth=2.5).encode(
            stroke=alt.Stroke("pattern:N", scale=color, legend=None),
            strokeDash=alt.StrokeDash("pattern:N", scale=dash, legend=None),
        ),
        curves.mark_point(filled=True, size=60, opacity=1).encode(
            fill=alt.Fill("pattern:N", scale=color, legend=None),
            shape=alt.Shape("pattern:N", scale=shape, legend=None),
            tooltip=["pattern:N", "turns:Q", "datums:Q", alt.Tooltip("tokens:Q", format=",d")],
        ),
        names.mark_text(**page_text(align="left", dx=10, lineBreak="|", lineHeight=LINE)),
    ).to_dict()


def curve_names(laws: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """The table `names`: each curve where it ends, in lines; equal curves share one name.

    Args:
        laws: From `growth_law`.
        curves: From `growth_table`.
    """
    top = max(1, int(curves["tokens"].max()))
    ends: dict[tuple[int, ...], tuple[int, list[str], str]] = {}
    for row in records(laws.sort_values("tokens", kind="stable")):
        points = tuple(curves[curves["pattern"] == row["pattern"]]["tokens"])
        law = f"{row['law']}, {row['doubling']:.1f} times"
        ends.setdefault(points, (row["tokens"], [], law))[1].append(row["pattern"])
    lowest, rows = SIDE + 8, []
    for tokens, patterns, law in ends.values():
        # from below: each has room for its lines, whose first stands at y
        words = ["= ".join(["", name]) if at else name for at, name in enumerate(patterns)]
        y = min(round(SIDE * (1 - tokens / top)), lowest - LINE * (len(words) + 1))
        rows.append((y, "|".join([*words, law])))
        lowest = y - 4
    return pd.DataFrame(rows[::-1], columns=["y", "words"])


def curves_chart(growth: pd.DataFrame, laws: pd.DataFrame) -> Figure:
    """How the tokens that are read grow with the turns, a curve per pattern.

    Args:
        growth: From `growth_table`: a point per real call.
        laws: From `growth_law`: what each curve shows.
    """
    curves = growth[growth["pattern"].isin(laws["pattern"])]
    told = "; ".join(
        f"{row['pattern']}: {row['tokens']:,} inputs at {row['turns']} turns, {row['law']}, "
        f"the last doubling of the turns costs {row['doubling']:.2f} times as much"
        for row in records(laws)
    )
    width, height = AXIS + CURVES + NAMES, SIDE + FOOT
    inner: dict[str, Any] = {"left": AXIS, "top": 10, "right": NAMES, "bottom": FOOT}
    return Figure(
        curves_template(),
        {"curves": curves, "names": curve_names(laws, curves)},
        description=f"Tokens through the model against the number of turns. {told}.",
        width=width,
        height=height + 10,
        bound={**plot(CURVES, SIDE), "padding": inner},
    )


def cost_charts(growth: pd.DataFrame, laws: pd.DataFrame) -> tuple[Figure, Figure]:
    """What is read once and what is read again, as two areas; and how both grow.

    The areas are those of this rollout's own breaks where it has some, else of a break in
    every turn, at the largest number of turns.

    Args:
        growth: From `growth_table`.
        laws: From `growth_law`.
    """
    tokens = dict(zip(laws["pattern"], laws["tokens"], strict=True))
    once = int(tokens["extends"])
    own = int(tokens.get("this rollout", once))
    total = own if own > once else int(tokens["splits every turn"])
    return areas_chart(once, total), curves_chart(growth, laws)
