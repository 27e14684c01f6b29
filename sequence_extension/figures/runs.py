"""A rollout as runs, a row per datum."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from sequence_extension.figures.old import (
    PART_WORDS,
    Figure,
    break_badge,
    calculate,
    csv_source,
    kind_color,
    nominal,
    quantity,
    themed_text,
    tips,
    vega_figure,
)
from sequence_extension.figures.palette import PALETTE
from sequence_extension.text import count_of
from sequence_extension.turns import Run


def runs_finding(runs: Sequence[Run]) -> str:
    """One sentence for a rollout drawn as runs."""
    total = sum(run.length for run in runs)
    actions = sum(run.length for run in runs if run.part == "A")
    turns, datums = len({run.turn for run in runs}), len({run.datum for run in runs})
    return (
        f"{count_of(turns, 'turn')} {'makes' if turns == 1 else 'make'} "
        f"{count_of(datums, 'datum')} of {count_of(total, 'token')}, {actions:,} of them actions"
    )


def runs_chart(
    runs: Sequence[Run],
    breaks: Sequence[tuple[int, int, str]] = (),
    title: str = "",
    shown: tuple[int, int, int] | None = None,
) -> Figure:
    """A rollout as runs: one row per datum, one bar per turn and part.

    Its size grows with turns, not with tokens.

    Args:
        runs: From `datum_runs`.
        breaks: From `break_marks`: where a later turn left a datum.
        title: The finding; left out when empty.
        shown: (datum, start, size) of the window of single tokens that is drawn elsewhere.
    """
    datums = max((run.datum for run in runs), default=0) + 1
    length = max((run.start + run.length for run in runs), default=1)
    width = 860
    row = max(6, min(30, 900 // datums))

    def label(run: Run) -> str:
        """A letter where it fits, with the turn where that fits too; clear of a break's sign."""
        inside = [
            at - run.start
            for datum, at, _ in breaks
            if datum == run.datum and 0 <= at - run.start < run.length
        ]
        room = min([at for at in inside if at] or [run.length]) * width / length
        room -= 9 * any(inside) + 12 * (0 in inside)
        words = f"{run.part} turn {run.turn}" if room > 52 else run.part if room > 10 else ""
        return " " * (0 in inside) + words if row >= 14 and words else ""

    bars = pd.DataFrame(
        {
            "datum": [run.datum for run in runs],
            "start": [run.start for run in runs],
            "end": [run.start + run.length for run in runs],
            "turn": [run.turn for run in runs],
            "kind": ["M" if run.masked else run.part for run in runs],
            "label": [label(run) for run in runs],
        }
    )
    places = {"top": f"datum.datum * {row} + 1", "bottom": f"(datum.datum + 1) * {row} - 1"}
    middle = f"(datum.datum + 0.5) * {row}"
    names = pd.DataFrame({"datum": range(0, datums, max(1, math.ceil(12 / row)))})
    data = {"runs": bars, "names": names}
    band = {"y": quantity("top"), "y2": {"field": "bottom"}}
    layers: list[dict[str, Any]] = [
        {
            "data": csv_source("runs", ["datum", "start", "end"]),
            "transform": calculate(
                **places,
                middle=middle,
            ),
            "layer": [
                {
                    "mark": {"type": "rect", "stroke": PALETTE["axis"]["fill"], "strokeWidth": 0.5},
                    "encoding": {
                        "x": quantity("start"),
                        "x2": {"field": "end"},
                        **band,
                        "fill": kind_color("fill"),
                        **tips(
                            {
                                "datum": "datum.datum",
                                "turn": "datum.turn",
                                "part": PART_WORDS,
                                "from position": "datum.start",
                                "tokens": "datum.end - datum.start",
                            }
                        ),
                    },
                },
                {
                    # an empty field is null, and null would be written out
                    "transform": [
                        {"filter": "datum.label"},
                        # a space in front leaves room for the sign of a break
                        *calculate(
                            **{
                                "from": "datum.start + (datum.label[0] == ' ' ?"
                                f" {9 * length / width} : 0)"
                            }
                        ),
                    ],
                    "mark": {"type": "text", "align": "left", "dx": 3, "fontSize": 11},
                    "encoding": {
                        "x": quantity("from"),
                        "y": quantity("middle"),
                        "text": nominal("label"),
                        "color": kind_color("ink"),
                    },
                },
            ],
        },
        {
            "data": csv_source("names", ["datum"]),
            "transform": calculate(middle=middle, label="'datum ' + datum.datum"),
            "mark": themed_text(align="right", fontSize=11),
            "encoding": {
                "x": {"value": -14},  # clear of a break at position 0
                "y": quantity("middle"),
                "text": nominal("label"),
            },
        },
    ]
    if breaks:
        data["breaks"] = pd.DataFrame(list(breaks), columns=["datum", "at", "label"])
        layers.append(
            {
                "data": csv_source("breaks", ["datum", "at"]),
                "transform": calculate(**places, middle=middle),
                "layer": [
                    {
                        "mark": {
                            "type": "rule",
                            "color": PALETTE["break"]["fill"],
                            "strokeWidth": 3,
                        },
                        "encoding": {"x": quantity("at"), **band},
                    },
                    *break_badge(
                        "at",
                        "middle",
                        [nominal("label", title="break"), nominal("at", title="position")],
                        side=min(13, row),
                    ),
                ],
            }
        )
    if shown is not None:
        data["shown"] = pd.DataFrame([shown], columns=["datum", "start", "size"])
        layers.append(
            {
                "data": csv_source("shown", ["datum", "start", "size"]),
                "transform": calculate(
                    top=f"datum.datum * {row} - 1",
                    bottom=f"(datum.datum + 1) * {row} + 1",
                    end="datum.start + datum.size",
                ),
                "mark": {
                    "type": "rect",
                    "fill": "transparent",
                    "stroke": PALETTE["axis"]["fill"],
                    "strokeWidth": 3,
                },
                "encoding": {"x": quantity("start"), "x2": {"field": "end"}, **band},
            }
        )
    actions = sum(run.length for run in runs if run.part == "A")
    total = sum(run.length for run in runs)
    turns = len({run.turn for run in runs})
    return vega_figure(
        layers,
        data,
        description=(
            f"{count_of(turns, 'turn')} as {count_of(datums, 'datum')}, one row each: "
            f"{total} tokens, {actions} of them actions; the longest datum holds {length} tokens; "
            f"{count_of(len(breaks), 'break')} marked."
        ),
        width=width,
        height=row * datums,
        pad=(4, 24, 40, 72),
        title=title,
        encoding={
            "x": {
                "type": "quantitative",
                "scale": {"domain": [0, length], "nice": False},
                "axis": {
                    "title": "position",
                    "grid": False,
                    "domain": False,
                    "tickCount": 8,
                    "tickMinStep": 1,
                },
            },
            "y": {
                "type": "quantitative",
                "scale": {"domain": [0, row * datums], "range": [0, row * datums]},
                "axis": None,
            },
        },
    )
