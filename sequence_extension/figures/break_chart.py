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
    figure_pixels,
    figure_records,
    figure_table,
)
from sequence_extension.figures.palette import RED
from sequence_extension.figures.theme import theme_text
from sequence_extension.text import count_text

# Rows of the figure; a name may stand once only, hence the blank.
BREAK_LANES = ["turn", "position", "held so far", "next prompt", "position "]
SIDES = {  # of the table: rows of cells and of positions, and the mark at the break
    "held": ("held so far", "position", "expected"),
    "new": ("next prompt", "position ", "got"),
}
GONE = {
    "removed": "of the held sequence missing in the new observation",
    "inserted": "of the new observation not in the held sequence",
    "replaced": "of the held sequence with another in its place",
    "unaligned": "not aligned",
}


@cache
def break_chart_template() -> Mapping[str, Any]:
    """The figure on its tables `cells`, `turns` and `breaks`; once per process."""
    scale = alt.Scale(domain=BREAK_LANES, paddingInner=0.16)
    tips = {"id": "token id", "label": "text", "index": "position", "what": "this column"}
    cells = figure_table("cells", "left", "x", "right").encode(
        y=alt.Y("lane:N", scale=scale, axis=alt.Axis(title=None)),
        tooltip=[alt.Tooltip(f"{name}:N", title=title) for name, title in tips.items()],
    )
    framed = cells.transform_filter("datum.framed").mark_rect(
        filled=False, stroke=RED, strokeWidth=2.5
    )
    return alt.layer(
        *draw.cell_turn_layers(alt.YDatum("turn")),
        *draw.cell_layers(cells),
        framed.encode(x=figure_pixels("left"), x2="right:Q"),
        *(
            cells.transform_filter(alt.datum.lane == side)
            .mark_text(**theme_text())
            .encode(y=alt.YDatum(lane), text="index:N")
            for side, lane, _ in SIDES.values()
        ),
        *draw.cell_break_layers(
            alt.YDatum("turn", bandPosition=0), alt.Y2Datum("next prompt", bandPosition=1)
        ),
    ).to_dict()


def break_chart_cell(row: Mapping[str, Any], side: str) -> dict[str, Any]:
    """One side ("held" or "new") of a row of `break_table`; what it lacks is an empty place."""
    lane, _, mark = SIDES[side]
    cell = {"lane": lane, "kind": ".", "label": "", "id": "", "index": ""}
    cell |= {"what": row["kind"], "framed": ""}
    index, identifier = row[f"{side}_index"], row[f"{side}_id"]
    if index and row["count"] > 1:
        cell |= {"kind": "0", "label": f"{row['count']} more"}
    elif index and identifier:
        cell |= {"kind": row["part"] if side == "held" else "O", "id": identifier, "index": index}
        cell["label"] = draw.cell_label(identifier, row[f"{side}_text"])
        cell["framed"] = "yes" * (mark in row["mark"])
    return cell


def break_chart(table: pd.DataFrame) -> Figure:
    """A `break_table` drawn: the running sequence above, the next prompt below, aligned.

    What is missing on one side is an empty dashed place. The break is a red line with a cross
    and the words; the two elements that differ are framed.
    """
    rows = figure_records(table)
    columns = [[break_chart_cell(row, side) for side in SIDES] for row in rows]
    places = draw.cell_places([cell["label"] for cell in column] for column in columns)
    cells = [
        {**cell, "left": left, "x": x, "right": right}
        for column, (left, x, right) in zip(columns, places, strict=True)
        for cell in column
        # where nothing is known to correspond there is no place
        if cell["kind"] != "." or cell["what"] in ("removed", "inserted", "replaced")
    ]
    at = next(
        (place[0] for row, place in zip(rows, places, strict=True) if row["mark"]), places[-1][2]
    )
    owned = [
        ((row["turn"], row["part"]) if row["turn"] else None, left, right)
        for row, (left, _, right) in zip(rows, places, strict=True)
    ]
    label = break_chart_label(rows)
    counts = {kind: sum(row["count"] for row in rows if row["kind"] == kind) for kind in GONE}
    told = [f"{count_text(count, 'token')} {GONE[kind]}" for kind, count in counts.items() if count]
    return draw.cell_lanes_figure(
        break_chart_template(),
        BREAK_LANES,
        {
            "cells": cells,
            "turns": draw.cell_stretches(owned, [at]),
            "breaks": draw.cell_break_places([(at, label)], places[-1][2]),
        },
        f"The held sequence above the new observation, aligned. ✕ {label}. "
        f"{'; '.join(told) or 'Nothing differs'}.",
    )


def break_chart_label(rows: Rows) -> str:
    """The label at the break: position, expected and got."""
    marked = {
        mark: (draw.cell_label(row[f"{side}_id"], row[f"{side}_text"]), row[f"{side}_index"])
        for side, (_, _, mark) in SIDES.items()
        for row in rows
        if mark in row["mark"]
    }
    expected, at = marked.get("expected", ("", ""))
    got, _ = marked.get("got", ("", ""))
    other = "another " if got == expected else ""  # image, say
    came = f"got {other}{got}" if got else "the observation ends"
    return f"position {at}: expected {expected}, {came}" if expected else f"break: {came}"
