"""Section 4: a break, both sides aligned."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.figures.cells import (
    break_layers,
    break_words,
    extent,
    focus_on,
    places,
    stretches,
    token_cells,
    token_label,
)
from sequence_extension.figures.figure import Figure, named, pixels, plot
from sequence_extension.figures.palette import GREY, RED
from sequence_extension.figures.theme import page_text
from sequence_extension.text import count_of

# Rows of the figure; a name may stand once only, hence the blank.
BREAK_LANES = ["turn", "position", "held so far", "next prompt", "position "]
BREAK_STEP = 28  # pixels of a row
BREAK_TOP = 24  # pixels above, for the words at the break


@cache
def break_template() -> Mapping[str, Any]:
    """The figure on its tables: `cells`, `turns` and `breaks`; once per process."""
    scale = alt.Scale(domain=BREAK_LANES, paddingInner=0.16)
    y = alt.Y("lane:N", scale=scale, axis=alt.Axis(title=None, labels=False))
    cells = alt.Chart(named("cells", "left", "x", "right")).encode(
        y=y,
        tooltip=[
            alt.Tooltip("id:N", title="token id"),
            alt.Tooltip("label:N", title="text"),
            alt.Tooltip("index:N", title="position"),
            alt.Tooltip("what:N", title="this column"),
        ],
    )
    framed = cells.transform_filter("datum.framed").mark_rect(
        filled=False, stroke=RED, strokeWidth=2.5
    )
    turns = alt.Chart(named("turns", "left", "right")).encode(
        x=pixels("left"), y=alt.YDatum("turn")
    )
    beside = {"held so far": "position", "next prompt": "position "}
    indices = [
        cells.transform_filter(alt.FieldEqualPredicate(field="lane", equal=side))
        .mark_text(**page_text())
        .encode(x=pixels("x"), y=alt.YDatum(lane), text="index:N")
        for side, lane in beside.items()
    ]
    return alt.layer(
        turns.mark_rule(color=GREY, strokeWidth=2, yOffset=10).encode(x2="right:Q"),
        turns.mark_text(**page_text(align="left", dx=3)).encode(text="label:N"),
        *token_cells(cells),
        framed.encode(x=pixels("left"), x2="right:Q"),
        *indices,
        *break_layers(
            alt.YDatum("turn", bandPosition=0), alt.Y2Datum("next prompt", bandPosition=1)
        ),
    ).to_dict()


def side_cells(table: pd.DataFrame, side: str) -> list[dict[str, Any]]:
    """The cells of one side ("held" or "new") of `break_table`: an entry per column.

    What is missing on this side is an empty place; where nothing is known to correspond,
    there is none.
    """
    mark = "expected" if side == "held" else "got"
    cells = []
    for row in table.to_dict("records"):
        cut = row["count"] > 1
        there = row[f"{side}_index"] != "" and (cut or row[f"{side}_id"] != "")
        kind = ("0" if cut else row["part"] if side == "held" else "O") if there else "."
        label = token_label(row[f"{side}_id"], row[f"{side}_text"]) if there else ""
        cells.append(
            {
                "lane": "held so far" if side == "held" else "next prompt",
                "kind": kind,
                "label": f"{row['count']} more" if cut and there else label,
                "id": "" if cut or not there else row[f"{side}_id"],
                "index": "" if cut or not there else row[f"{side}_index"],
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
    sides = [side_cells(table, side) for side in ("held", "new")]
    labels = [(held["label"], new["label"]) for held, new in zip(*sides, strict=True)]
    boxes = places(labels)
    cells = pd.DataFrame(
        [
            {**cell, "left": box[0], "x": box[1], "right": box[2]}
            for side in sides
            for cell, box in zip(side, boxes, strict=True)
            if cell.pop("drawn")
        ]
    )
    height = BREAK_STEP * len(BREAK_LANES)
    owners = [
        (turn, part) if turn != "" else None
        for turn, part in zip(table["turn"], table["part"], strict=True)
    ]
    lefts, _, rights = zip(*boxes, strict=True)
    turns = stretches(owners, lefts, rights)
    marked = table["mark"].ne("").to_list()
    at = lefts[marked.index(True)] if any(marked) else rights[-1]
    breaks = break_words([(at, break_label(table))], rights[-1])
    width = extent(rights[-1], breaks)
    return Figure(
        break_template(),
        {
            "cells": cells,
            "turns": pd.DataFrame(turns, columns=["left", "right", "label"]),
            "breaks": breaks,
        },
        description=break_description(table),
        width=width,
        height=height + BREAK_TOP,
        lanes=[
            (BREAK_TOP + BREAK_STEP * place + BREAK_STEP // 2, lane)
            for place, lane in enumerate(BREAK_LANES)
        ],
        focus=focus_on(breaks),
        bound=plot(width, height, top=BREAK_TOP),
    )


def break_label(table: pd.DataFrame) -> str:
    """The label at the break: position, expected and got."""
    expected, got = (
        table[table["mark"].str.contains(mark)].to_dict("records") for mark in ("expected", "got")
    )
    came = (
        f"got {token_label(got[0]['new_id'], got[0]['new_text'])}"
        if got
        else "the observation ends"
    )
    if not expected:
        return f"break: {came}"
    row = expected[0]
    wanted = token_label(row["held_id"], row["held_text"])
    return f"position {row['held_index']}: expected {wanted}, {came}"


def break_description(table: pd.DataFrame) -> str:
    """What the break figure shows, in words."""
    sums = table.groupby("kind")["count"].sum().to_dict()
    parts = [
        f"{count_of(int(sums[kind]), 'token')} {words}"
        for kind, words in (
            ("removed", "of the held sequence missing in the new observation"),
            ("inserted", "of the new observation not in the held sequence"),
            ("replaced", "of the held sequence with another in its place"),
            ("unaligned", "not aligned"),
        )
        if kind in sums
    ]
    return (
        f"The held sequence above the new observation, aligned. ✕ {break_label(table)}. "
        f"{'; '.join(parts) or 'Nothing differs'}."
    )
