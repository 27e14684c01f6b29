"""Section 4: a break, both sides aligned."""

import re
from typing import Any

import pandas as pd

from sequence_extension.break_table import held_stretches
from sequence_extension.figures.figure import (
    Figure,
    break_badge,
    calculate,
    csv_source,
    kind_color,
    nominal,
    quantity,
    themed_text,
    vega_figure,
)
from sequence_extension.figures.palette import PALETTE
from sequence_extension.text import count_of, visible_text

# Section 4 and 5: lanes of the break figure; how the curves of the price differ.
BREAK_LANES = [
    (6, "turn"),
    (24, "position"),
    (53, "held so far"),
    (103, "the new|observation"),
    (132, "position"),
]
BREAK_HEIGHT = 140


def break_chart(table: pd.DataFrame, title: str = "", lane_labels: bool = True) -> Figure:
    """A break drawn: the held sequence above, the new observation below, aligned.

    What is missing on one side is an empty dashed slot. The break is a red line with a cross
    and the words; the two elements that differ are framed.

    Args:
        table: From `break_table`.
        title: The finding; left out when empty.
        lane_labels: Draw the names of the lanes left of them.
    """
    rows = table.assign(column=range(len(table)))
    longest = int(max(rows["held_id"].str.len().max(), rows["new_id"].str.len().max()))
    texts = rows["held_text"].ne("").any() or rows["new_text"].ne("").any()
    step = max(52, 64 if texts else 0, 8 * longest + 12)
    cells = []
    for row in rows.to_dict("records"):
        cut = row["count"] > 1
        for side, top in (("held", 34), ("new", 84)):
            there = bool(row[f"{side}_id"]) or (cut and row[f"{side}_index"] != "")
            lacks = "" if row["kind"] in ("after", "unaligned") or cut else "not there"
            letter = row["part"] if side == "held" else "O"
            first = row[f"{side}_id"] if there and not cut else lacks
            # without its bars a marker says which one it is before it is cut
            second = re.sub(
                r"^<[|\uff5c](.+)[|\uff5c]>$", r"<\1>", visible_text(row[f"{side}_text"], 24)
            )
            if cut and there:
                first, second = f"{row['count']} more", ""
            cells.append(
                {
                    "column": row["column"],
                    "top": top,
                    "kind": ("0" if cut else letter) if there else "",
                    "first": first,
                    "second": (f"{letter} {second}".strip() if not cut else "") if there else "",
                    "index": "" if cut or not there else row[f"{side}_index"],
                    "told": row["kind"],
                    "framed": "yes"
                    if there and ("expected" if side == "held" else "got") in row["mark"]
                    else "",
                }
            )
    boxes = pd.DataFrame(cells)
    boxes = boxes[(boxes["kind"] != "") | (boxes["first"] != "")]
    red, grey = PALETTE["break"]["fill"], PALETTE["axis"]["fill"]
    place = int(rows.index[rows["mark"] != ""].min()) if rows["mark"].ne("").any() else len(rows)
    edge = {"x": quantity("left"), "x2": {"field": "right"}}
    box = {**edge, "y": quantity("top"), "y2": {"field": "bottom"}}
    layers: list[dict[str, Any]] = [
        {
            "data": csv_source("cells", ["column", "top"]),
            "transform": calculate(
                left="datum.column - 0.46",
                right="datum.column + 0.46",
                bottom="datum.top + 38",
                line="datum.top + (datum.second ? 13 : 20)",
                under="datum.top > 40 ? 132 : 24",
                words="datum.second ? [datum.first, datum.second] : datum.first",
            ),
            "encoding": {
                "x": quantity("column"),
                "y": quantity("line"),
                "tooltip": [
                    nominal("first", title="token id"),
                    nominal("second", title="part and text"),
                    nominal("index", title="position"),
                    nominal("told", title="this column"),
                ],
            },
            "layer": [
                {
                    "transform": [{"filter": "datum.kind"}],
                    "mark": {"type": "rect", "cornerRadius": 3, "strokeWidth": 3},
                    "encoding": {
                        **box,
                        "fill": kind_color("fill"),
                        "stroke": {
                            "condition": {"test": "datum.framed", "value": red},
                            "value": "transparent",
                        },
                    },
                },
                {
                    "transform": [{"filter": "!datum.kind"}],
                    "mark": {
                        "type": "rect",
                        "cornerRadius": 3,
                        "fill": "transparent",
                        "stroke": grey,
                        "strokeDash": [3, 3],
                    },
                    "encoding": box,
                },
                {
                    "transform": [{"filter": "datum.kind"}],
                    "mark": {"type": "text", "fontSize": 12, "lineHeight": 14, "limit": step - 6},
                    "encoding": {"text": nominal("words"), "color": kind_color("ink")},
                },
                {
                    "transform": [{"filter": "!datum.kind"}],
                    "mark": themed_text(fontSize=10, limit=step - 6),
                    "encoding": {"text": nominal("first")},
                },
                {
                    "mark": themed_text(fontSize=10),
                    "encoding": {"y": quantity("under"), "text": nominal("index")},
                },
                {
                    "transform": [{"filter": "datum.told == 'replaced' && datum.top < 40"}],
                    "mark": themed_text(fontSize=10, text="≠"),
                    "encoding": {"y": {"value": 78}},
                },
            ],
        },
    ]
    runs = held_stretches(rows)
    if lane_labels:
        lanes = pd.DataFrame(BREAK_LANES, columns=["y", "lane"])
        layers.append(
            {
                "data": csv_source("lanes", ["y"]),
                "mark": themed_text(align="right", fontSize=11, lineBreak="|", lineHeight=12),
                "encoding": {"x": {"value": -8}, "y": quantity("y"), "text": nominal("lane")},
            }
        )
    else:
        lanes = pd.DataFrame(columns=["y", "lane"])
    layers += [
        {
            "data": csv_source("runs", ["start", "end"]),
            "transform": calculate(left="datum.start - 0.46", right="datum.end + 0.46"),
            "layer": [
                {
                    "mark": {"type": "rule", "color": grey, "strokeWidth": 2},
                    "encoding": {**edge, "y": {"value": 14}},
                },
                {
                    "mark": themed_text(align="left", fontSize=11),
                    "encoding": {
                        "x": quantity("left"),
                        "y": {"value": 6},
                        "text": nominal("label"),
                    },
                },
            ],
        },
    ]
    late = place > len(rows) / 2
    words = break_words_short(table).removeprefix("✕ ")
    sign = pd.DataFrame({"at": [place - 0.5], "label": [words]})
    layers.append(
        {
            "data": csv_source("sign", ["at"]),
            "transform": calculate(top="-18", foot="126", line="-11"),
            "layer": [
                {
                    "mark": {"type": "rule", "color": red, "strokeWidth": 3},
                    "encoding": {
                        "x": quantity("at"),
                        "y": quantity("top"),
                        "y2": {"field": "foot"},
                    },
                },
                {
                    "mark": themed_text(
                        align="right" if late else "left", dx=-12 if late else 12, fontSize=12
                    ),
                    "encoding": {
                        "x": quantity("at"),
                        "y": quantity("line"),
                        "text": nominal("label"),
                    },
                },
                *break_badge("at", "line"),
            ],
        }
    )
    return vega_figure(
        layers,
        {"cells": boxes, "runs": runs, "sign": sign, **({"lanes": lanes} if lane_labels else {})},
        description=break_description(table),
        width=step * len(rows),
        height=BREAK_HEIGHT,
        pad=(22, 8, 4, 100 if lane_labels else 8),
        focus=place * step,
        title=title,
        encoding={
            "x": {
                "type": "quantitative",
                "scale": {"domain": [-0.5, len(rows) - 0.5], "nice": False, "zero": False},
                "axis": None,
            },
            "y": {
                "type": "quantitative",
                "scale": {"domain": [0, BREAK_HEIGHT], "range": [0, BREAK_HEIGHT]},
                "axis": None,
            },
        },
    )


def break_words_short(table: pd.DataFrame) -> str:
    """The label at the break: position, expected and got."""
    expected, got = (
        table[table["mark"].str.contains(mark)].to_dict("records") for mark in ("expected", "got")
    )
    came = f"got {got[0]['new_id']}" if got else "the observation ends"
    if not expected:
        return f"✕ break: {came}"
    row = expected[0]
    return f"✕ position {row['held_index']}: expected {row['held_id']}, {came}"


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
        f"The held sequence above the new observation, aligned. {break_words_short(table)}. "
        f"{'; '.join(parts) or 'Nothing differs'}."
    )
