"""Section 5: tokens against turns."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from sequence_extension.figures.old import (
    Figure,
    csv_source,
    nominal,
    quantity,
    themed_text,
    vega_figure,
)

COST_COLORS = {
    "extends": "#0083C4",
    "splits every turn": "#C75A00",
    "this rollout": "#7A828C",
}
COST_DASHES = {
    "extends": [1, 0],
    "splits every turn": [8, 3],
    "this rollout": [3, 3],
}
COST_SHAPES = {
    "extends": "circle",
    "splits every turn": "triangle-up",
    "this rollout": "diamond",
}


def cost_chart(growth: pd.DataFrame, laws: pd.DataFrame, title: str = "") -> Figure:
    """Tokens processed against turns: a curve per pattern, named where it ends.

    Args:
        growth: From `growth_table`: a point per real call.
        laws: From `growth_law`: what each curve shows.
        title: The finding; left out when empty.
    """
    names = laws["pattern"].tolist()
    curves = growth[growth["pattern"].isin(names)]
    top = max(1, int(curves["tokens"].max()))
    height, room = 220, 46
    # Curves that end close together push their names apart; equal curves share one name.
    named: dict[tuple[int, ...], dict[Hashable, Any]] = {}
    for row in laws.sort_values("tokens", ascending=False, kind="stable").to_dict("records"):
        points = tuple(curves[curves["pattern"] == row["pattern"]]["tokens"])
        first = named.setdefault(points, row)
        if first is not row:
            first["pattern"] = f"{first['pattern']}|= {row['pattern']}"
    labels, lowest = [], -room
    for row in named.values():
        lowest = max(round(height * (1 - row["tokens"] / top)), lowest + room)
        labels.append([row["turns"], lowest, growth_words(row)])
        lowest += 13 * row["pattern"].count("|")
    floor = height + 13  # from below again: each has room for its lines, the last below the axis
    for label in reversed(labels):
        floor -= 13 * (str(label[2]).count("|") + 1) + 3
        label[1] = floor = min(int(label[1]), floor)
    signs = pd.DataFrame(labels, columns=["turns", "y", "words"])
    colors = [COST_COLORS[name] for name in names]
    hue = nominal("pattern", scale={"domain": names, "range": colors}, legend=None)
    dash = nominal(
        "pattern", scale={"domain": names, "range": [COST_DASHES[n] for n in names]}, legend=None
    )
    shape = nominal(
        "pattern", scale={"domain": names, "range": [COST_SHAPES[n] for n in names]}, legend=None
    )
    axis = {"grid": False, "tickCount": 5}
    x = {
        "field": "turns",
        "type": "quantitative",
        "scale": {"domain": [0, int(curves["turns"].max())], "nice": False},
        "axis": {
            **axis,
            "title": "turns",
            "values": [count for count in sorted(set(curves["turns"])) if count != 4],
            "labelOverlap": False,
            "labelFlush": False,
        },
    }
    y = {
        "field": "tokens",
        "type": "quantitative",
        "scale": {"domain": [0, top], "nice": False},
        "axis": {**axis, "title": "tokens through the model", "format": ",d"},
    }
    source = csv_source("curves", ["turns", "tokens", "datums"])
    tooltip = [
        nominal("pattern"),
        quantity("turns"),
        quantity("datums"),
        quantity("tokens", format=",d"),
    ]
    layers: list[dict[str, Any]] = [
        {
            "data": source,
            "mark": {"type": "line", "strokeWidth": 2.5},
            "encoding": {"x": x, "y": y, "stroke": hue, "strokeDash": dash},
        },
        {
            "data": source,
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": {"x": x, "y": y, "fill": hue, "shape": shape, "tooltip": tooltip},
        },
        {
            "data": csv_source("signs", ["turns", "y"]),
            "mark": themed_text(
                align="left",
                baseline="top",
                dx=10,
                fontSize=11,
                lineBreak="|",
                lineHeight=13,
                dy=-7,
            ),
            "encoding": {
                "x": x,
                "y": {"field": "y", "type": "quantitative", "scale": None},
                "text": nominal("words"),
            },
        },
    ]
    return vega_figure(
        layers,
        {"curves": curves, "signs": signs},
        description=cost_description(laws),
        width=420,
        height=height,
        pad=(14, 110, 44, 60),
        title=title,
        fluid=True,
    )


def growth_words(row: Mapping[Any, Any]) -> str:
    """The name of a curve and what it shows, for its end."""
    return f"{row['pattern']}|{row['law']}:|{row['doubling']:.1f} times"


def cost_description(laws: pd.DataFrame) -> str:
    """What the cost figure shows, in words."""
    parts = [
        f"{row['pattern']}: {row['tokens']:,} tokens at {row['turns']} turns, {row['law']}, "
        f"the last doubling of the turns costs {row['doubling']:.2f} times as much"
        for row in laws.to_dict("records")
    ]
    return f"Tokens through the model against the number of turns. {'; '.join(parts)}."
