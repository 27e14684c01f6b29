"""Section 4: a break, both sides aligned."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.figures import cells as draw
from sequence_extension.figures.figure import (
    Figure,
    Rows,
    figure_data,
    figure_pixels,
    figure_records,
)
from sequence_extension.figures.palette import RED
from sequence_extension.figures.theme import theme_text
from sequence_extension.text import count_text

# Rows of the figure; a name may stand once only, hence the blank.
BREAK_LANES = ["turn", "position", "held so far", "next prompt", "position "]
SIDES = {"held": ("held so far", "position"), "new": ("next prompt", "position ")}
GONE = {
    "removed": "of the held sequence missing in the new observation",
    "inserted": "of the new observation not in the held sequence",
    "replaced": "of the held sequence with another in its place",
    "unaligned": "not aligned",
}


@cache
def break_chart_template() -> Mapping[str, Any]:
    """The figure on its tables: `cells`, `turns` and `breaks`; once per process."""
    scale = alt.Scale(domain=BREAK_LANES, paddingInner=0.16)
    y = alt.Y("lane:N", scale=scale, axis=alt.Axis(title=None))
    tips = {"id": "token id", "label": "text", "index": "position", "what": "this column"}
    cells = alt.Chart(figure_data("cells", "left", "x", "right")).encode(
        y=y, tooltip=[alt.Tooltip(f"{name}:N", title=title) for name, title in tips.items()]
    )
    framed = cells.transform_filter("datum.framed")
    return alt.layer(
        *draw.cell_turn_layers(alt.YDatum("turn")),
        *draw.cell_layers(cells),
        framed.mark_rect(filled=False, stroke=RED, strokeWidth=2.5).encode(
            x=figure_pixels("left"), x2="right:Q"
        ),
        *(
            cells.transform_filter(alt.datum.lane == side)
            .mark_text(**theme_text())
            .encode(x=figure_pixels("x"), y=alt.YDatum(lane), text="index:N")
            for side, lane in SIDES.values()
        ),
        *draw.cell_break_layers(
            alt.YDatum("turn", bandPosition=0), alt.Y2Datum("next prompt", bandPosition=1)
        ),
    ).to_dict()


def break_chart_cells(table: pd.DataFrame, side: str) -> Rows:
    """The cells of one side ("held" or "new") of `break_table`: an entry per column.

    What is missing on this side is an empty place; where nothing is known to correspond,
    there is none.
    """
    mark = "expected" if side == "held" else "got"
    cells = []
    for row in figure_records(table):
        cut = row["count"] > 1
        there = row[f"{side}_index"] != "" and (cut or row[f"{side}_id"] != "")
        alone = there and not cut  # one token, not many that are left out
        label = draw.cell_label(row[f"{side}_id"], row[f"{side}_text"]) if alone else ""
        kind = "0" if cut else row["part"] if side == "held" else "O"
        cells.append(
            {
                "lane": SIDES[side][0],
                "kind": kind if there else ".",
                "label": f"{row['count']} more" if cut and there else label,
                "id": row[f"{side}_id"] if alone else "",
                "index": row[f"{side}_index"] if alone else "",
                "what": row["kind"],
                "framed": "yes" if there and mark in row["mark"] else "",
                "drawn": there or row["kind"] in ("removed", "inserted", "replaced"),
            }
        )
    return cells


def break_chart(table: pd.DataFrame) -> Figure:
    """A break drawn: the running sequence above, the next prompt below, aligned.

    What is missing on one side is an empty dashed place. The break is a red line with a cross
    and the words; the two elements that differ are framed.

    Args:
        table: From `break_table`.
    """
    sides = [break_chart_cells(table, side) for side in SIDES]
    boxes = draw.cell_places(
        (held["label"], new["label"]) for held, new in zip(*sides, strict=True)
    )
    cells = [
        {**cell, "left": box[0], "x": box[1], "right": box[2]}
        for side in sides
        for cell, box in zip(side, boxes, strict=True)
        if cell.pop("drawn")
    ]
    pairs = zip(table["turn"], table["part"], strict=True)
    owners = [(turn, part) if turn != "" else None for turn, part in pairs]
    lefts, _, rights = zip(*boxes, strict=True)
    marked = table["mark"].ne("").to_list()
    at = lefts[marked.index(True)] if any(marked) else rights[-1]
    label = break_chart_label(table)
    sums = table.groupby("kind")["count"].sum()
    told = [f"{count_text(int(sums[kind]), 'token')} {GONE[kind]}" for kind in GONE if kind in sums]
    turns = draw.cell_stretches(owners, lefts, rights, [at])
    return draw.cell_lanes_figure(
        break_chart_template(),
        BREAK_LANES,
        {
            "cells": cells,
            "turns": turns,
            "breaks": draw.cell_break_places([(at, label)], rights[-1]),
        },
        f"The held sequence above the new observation, aligned. ✕ {label}. "
        f"{'; '.join(told) or 'Nothing differs'}.",
    )


def break_chart_label(table: pd.DataFrame) -> str:
    """The label at the break: position, expected and got."""
    labels = {"got": "", "expected": ""}
    for mark, side in (("expected", "held"), ("got", "new")):
        for row in figure_records(table[table["mark"].str.contains(mark)]):
            labels[mark] = draw.cell_label(row[f"{side}_id"], row[f"{side}_text"])
            labels[f"{mark} at"] = row[f"{side}_index"]
    other = "another " if labels["got"] == labels["expected"] else ""  # image, say
    came = f"got {other}{labels['got']}" if labels["got"] else "the observation ends"
    if not labels["expected"]:
        return f"break: {came}"
    return f"position {labels['expected at']}: expected {labels['expected']}, {came}"
