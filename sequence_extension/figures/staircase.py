"""Section 1: turns and datums as a staircase."""

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from sequence_extension.figures.figure import (
    Figure,
    break_badge,
    calculate,
    csv_source,
    kind_color,
    look_up,
    nominal,
    quantity,
    themed_text,
    unfold,
    vega_figure,
)
from sequence_extension.figures.palette import PALETTE
from sequence_extension.text import wrap_words


def staircase_chart(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """The idea: a row per turn (seen, then said), below them the datums with their mask.

    Menu and step control are parameters of the spec, so they work without Python. The tables
    of `staircase_tables` hold all scenarios; the spec shows one.
    """
    cells, scenarios = tables["cells"], tables["scenarios"]
    step, stair, row, gap = 42, 40, 56, 40
    wide = int(cells["x"].max()) + 1
    turns = scenarios["turns"].tolist()
    # sentences in lines that a phone shows whole; the second block starts below the first
    heads = tables["steps"][["s", "shown"]].assign(
        lines=["|".join(wrap_words(words, 44)) for words in tables["steps"]["finding"]]
    )
    bodies = tables["steps"][["s", "shown"]].assign(
        lines=["|".join(wrap_words(words, 56)) for words in tables["steps"]["rest"]],
        y=[3 + 17 * (1 + lines.count("|")) for lines in heads["lines"]],
    )
    depths = bodies["y"] + [15 * (1 + lines.count("|")) for lines in bodies["lines"]]
    top = int(depths.max()) + 28
    # a row per sequence, unfolded in the figure: a third of the bytes of a row per token
    pool: dict[tuple[str, str], int] = {}
    sequences = [
        (
            *place,
            " ".join(
                str(pool.setdefault(token, len(pool)))
                for token in zip(part["id"], part["text"], strict=True)
            ),
            "".join(part["kind"]),
            " ".join(map(str, part["turn"])) if place[1] == "datum" else "",
            " ".join(part["mask"]).strip(),
        )
        for place, part in cells.groupby(["s", "row", "r"], sort=False)
    ]
    data = {
        "cells": pd.DataFrame(
            sequences, columns=["s", "row", "r", "tokens", "kinds", "since", "masks"]
        ),
        "tokens": pd.DataFrame(
            [(number, *token) for token, number in pool.items()], columns=["token", "id", "text"]
        ),
        "labels": tables["labels"].drop(columns="name"),
        "breaks": tables["breaks"],
        "heads": heads,
        "bodies": bodies,
    }
    # where a row stands: turns first, then the datums of the scenario
    place = (
        f"datum.row == 'turn' ? {top} + datum.r * {stair}"
        f" : {top + gap} + {json.dumps(turns)}[datum.s] * {stair} + datum.r * {row}"
    )
    chosen = {"filter": "datum.s == scenario && datum.turn < turns"}
    at_step = {
        "filter": f"datum.s == scenario && datum.shown == min(turns, {json.dumps(turns)}[scenario])"
    }
    numbers = ["s", "r", "x", "turn"]
    layers: list[dict[str, Any]] = [
        {
            "data": csv_source("heads", ["s", "shown"]),
            "transform": [at_step],
            "mark": themed_text(
                align="left",
                baseline="top",
                fontSize=14,
                fontWeight="bold",
                lineBreak="|",
                lineHeight=17,
            ),
            "encoding": {"x": {"value": -96}, "y": {"value": 0}, "text": nominal("lines")},
        },
        {
            "data": csv_source("bodies", ["s", "shown", "y"]),
            "transform": [at_step],
            "mark": themed_text(
                align="left", baseline="top", fontSize=12, lineBreak="|", lineHeight=15
            ),
            "encoding": {"x": {"value": -96}, "y": quantity("y"), "text": nominal("lines")},
        },
        {
            "data": csv_source("cells", ["s", "r"]),
            "transform": [
                {"filter": "datum.s == scenario"},
                *unfold(
                    token="split(datum.tokens, ' ')",
                    x="sequence(length(datum.token))",
                    kind="split(datum.kinds, '')",
                    turn="split(datum.since, ' ')",
                    mask="split(datum.masks, ' ')",
                ),
                *calculate(
                    token="toNumber(datum.token)",
                    turn="datum.row == 'turn' ? datum.r : toNumber(datum.turn)",
                    mask="datum.mask || ''",
                ),
                {"filter": "datum.turn < turns"},
                look_up("token", "tokens", ["token", "id", "text"]),
                *calculate(
                    top=place,
                    bottom="datum.top + 34",
                    left="datum.x + 0.02",
                    right="datum.x + 0.98",
                    middle="datum.x + 0.5",
                    line="datum.top + 11",
                    sign="{'0': '=', O: 'O', A: 'A', M: 'A'}[datum.kind]",
                    shown="[datum.sign + ' ' + datum.id, datum.text || ' ']",
                    told="{'0': 'history, repeated', O: 'observation', A: 'action',"
                    " M: 'action, masked'}[datum.kind]",
                    where="datum.row + ' ' + datum.r",
                    text="datum.text || 'not known'",
                    under="datum.top + 43",
                    mask_kind="datum.mask == '1' ? 'A' : '0'",
                    mask_top="datum.top + 36",
                    mask_bottom="datum.top + 50",
                ),
            ],
            "layer": [
                {
                    "mark": {"type": "rect", "cornerRadius": 3},
                    "encoding": {
                        "x": quantity("left"),
                        "x2": {"field": "right"},
                        "y": quantity("top"),
                        "y2": {"field": "bottom"},
                        "fill": kind_color("fill"),
                        "tooltip": [
                            nominal("id", title="token id"),
                            nominal("text", title="text"),
                            nominal("where", title="row"),
                            nominal("x", title="position"),
                            nominal("told", title="part"),
                            nominal("mask", title="mask"),
                        ],
                    },
                },
                {
                    "mark": {"type": "text", "fontSize": 11, "lineHeight": 13, "limit": step - 4},
                    "encoding": {
                        "x": quantity("middle"),
                        "y": quantity("line"),
                        "text": nominal("shown"),
                        "color": kind_color("ink"),
                    },
                },
                {
                    "transform": [{"filter": "datum.mask == '0' || datum.mask == '1'"}],
                    "layer": [
                        {
                            "mark": {"type": "rect", "cornerRadius": 3},
                            "encoding": {
                                "x": quantity("left"),
                                "x2": {"field": "right"},
                                "y": quantity("mask_top"),
                                "y2": {"field": "mask_bottom"},
                                "fill": kind_color("fill", field="mask_kind"),
                            },
                        },
                        {
                            "mark": {"type": "text", "fontSize": 11},
                            "encoding": {
                                "x": quantity("middle"),
                                "y": quantity("under"),
                                "text": nominal("mask"),
                                "color": kind_color("ink", field="mask_kind"),
                            },
                        },
                    ],
                },
                {
                    "transform": [{"filter": "datum.mask == 'none'"}],
                    "mark": themed_text(fontSize=10),
                    "encoding": {
                        "x": quantity("middle"),
                        "y": quantity("under"),
                        "text": nominal("mask"),
                    },
                },
            ],
        },
        {
            "data": csv_source("labels", ["s", "r", "turn"]),
            "transform": [
                chosen,
                *calculate(
                    top=place,
                    name="datum.row + ' ' + datum.r",
                    first="datum.top + 11",
                    second="datum.top + (datum.row == 'turn' ? 25 : 43)",
                ),
            ],
            "layer": [
                {
                    "mark": themed_text(align="right", fontSize=12, fontWeight="bold"),
                    "encoding": {
                        "x": {"value": -8},
                        "y": quantity("first"),
                        "text": nominal("name"),
                    },
                },
                {
                    "mark": themed_text(align="right", fontSize=11),
                    "encoding": {
                        "x": {"value": -8},
                        "y": quantity("second"),
                        "text": nominal("verdict"),
                    },
                },
            ],
        },
        {  # not seen: as wide as the widest verdict, so that no scenario moves the left edge
            "data": {"values": [{}]},
            "mark": themed_text(
                align="right",
                fontSize=11,
                opacity=0,
                text=max(tables["labels"]["verdict"], key=len),
            ),
            "encoding": {"x": {"value": -8}, "y": {"value": 0}},
        },
        {
            "data": csv_source("breaks", numbers),
            "transform": [
                chosen,
                *calculate(top=f"{place} - 3", bottom="datum.top + 40"),
            ],
            "layer": [
                {
                    "mark": {"type": "rule", "color": PALETTE["break"]["fill"], "strokeWidth": 3},
                    "encoding": {
                        "x": quantity("x"),
                        "y": quantity("top"),
                        "y2": {"field": "bottom"},
                    },
                },
                *break_badge(
                    "x", "top", [nominal("cause", title="splits"), nominal("x", title="at")]
                ),
            ],
        },
    ]
    # what gives the drawing its size: the same width always, the height of the scenario
    frame = scenarios[["s", "turns", "datums"]]
    data["frame"] = frame
    layers.append(
        {
            "data": csv_source("frame", ["s", "turns", "datums"]),
            "transform": [
                {"filter": "datum.s == scenario"},
                *calculate(
                    top="0",
                    bottom=f"{top + gap} + datum.turns * {stair} + datum.datums * {row}",
                    first=f"{top - 10}",
                    second=f"{top + gap - 12} + datum.turns * {stair}",
                    turn_words="'what the model saw, then said'",
                    datum_words="'what trajectory_to_data makes of it; the first token is never"
                    " a target, so it has no mask entry'",
                ),
            ],
            "layer": [
                {
                    "mark": {"type": "rect", "fill": "transparent"},
                    "encoding": {
                        "x": {"value": -96},
                        "x2": {"value": step * wide},
                        "y": quantity("top"),
                        "y2": {"field": "bottom"},
                    },
                },
                *(
                    {
                        "mark": themed_text(align="left", fontSize=11, fontStyle="italic"),
                        "encoding": {
                            "x": {"value": 1},
                            "y": quantity(line),
                            "text": nominal(words),
                        },
                    }
                    for line, words in (("first", "turn_words"), ("second", "datum_words"))
                ),
            ],
        }
    )
    titles = scenarios["title"].tolist()
    most = max(turns)
    # the first scenario in which turns extend and turns split: one picture of both
    told = tables["labels"].query("row == 'turn'").groupby("s")["verdict"].agg(" ".join)
    both = [place for place, words in enumerate(told) if "extends" in words and "✕" in words]
    start = both[0] if both else 0
    height = max(
        top + gap + stair * turn_count + row * datum_count
        for turn_count, datum_count in zip(turns, scenarios["datums"].tolist(), strict=True)
    )
    finding = tables["steps"].query("s == @start").iloc[-1]
    return vega_figure(
        layers,
        data,
        description=(
            f"Staircase of turns, with a menu of {len(titles)} scenarios and a control for the "
            f"number of turns shown. Chosen at first, {titles[start]}: {finding['finding']}; "
            f"{finding['rest']} All scenarios stand in the table below the figure."
        ),
        width=step * wide,
        height=1,
        pad=(4, 4, 4, 4),
        autosize={"type": "pad", "resize": True},
        params=[
            {
                "name": "scenario",
                "value": start,
                "bind": {
                    "input": "select",
                    "options": list(range(len(titles))),
                    "labels": titles,
                    "name": "Show",
                },
            },
            {
                "name": "turns",
                "value": most,
                "bind": {
                    "input": "range",
                    "min": 1,
                    "max": most,
                    "step": 1,
                    "name": "Turns shown, at most",
                },
            },
        ],
        encoding={
            "x": {
                "type": "quantitative",
                "scale": {"domain": [0, wide], "nice": False},
                "axis": None,
            },
            "y": {
                "type": "quantitative",
                "scale": {"domain": [0, height], "range": [0, height]},
                "axis": None,
            },
        },
    )
