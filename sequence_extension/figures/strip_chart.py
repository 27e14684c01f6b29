"""Section 3: one datum as aligned lanes."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.alignment import alignment_finding
from sequence_extension.figures import cells as draw
from sequence_extension.figures.figure import Figure, Rows, figure_data, figure_pixels
from sequence_extension.figures.theme import theme_text
from sequence_extension.text import number_text

STRIP_LANES = [
    "turn", "input", " ", "target", "mask", "advantage", "logprob", "target's turn", "position",
]  # fmt: skip
# What a cell is, and so its colour, told from its lane and its label.
LANE_KIND = (
    "datum.lane == 'input' ? datum.part : datum.lane == 'target' ? datum.goal"
    " : datum.label == 'none' ? '.' : datum.label == '0' ? '0'"
    " : test(/[Nn]/, datum.label) ? '!' : datum.lane == 'advantage'"
    " ? (datum.label[0] == '+' ? '+' : '-') : datum.mask == '0' ? 'M' : 'A'"
)
COLUMNS = [
    "p", "input", "part", "id", "target", "goal", "mask", "advantage", "logprob", "turn",
    "left", "x", "right",
]  # fmt: skip
# With more tokens or datums than this, a rollout is drawn as runs, with a window of tokens.
STRIP_LIMIT = 600
STRIP_DATUMS = 8
STRIP_WINDOW = 64


def declare_strip() -> alt.LayerChart | alt.FacetChart:
    """The strip on its named tables; a cell of the notebook declares the same, to be changed.

    `strip_chart(table, template=declare_strip().to_dict())` binds the tables of a datum to
    whatever is declared: `cells` (a row per position, see `COLUMNS`), `turns` (stretches of one
    turn and part) and `breaks`.
    """
    scale = alt.Scale(domain=STRIP_LANES, paddingInner=0.08)
    y = alt.Y("lane:N", title=None, scale=scale)

    # one row per position; each lane takes its label from the column of its name
    table = alt.Chart(figure_data("cells", "p", "left", "x", "right"))
    tooltip = ["p:Q", "lane:N", "label:N", "turn:N", "id:N"]
    cells = (
        table.transform_fold(["input", "target", "mask", "advantage", "logprob"], ["lane", "label"])
        .transform_filter("datum.label")
        .transform_calculate(kind=LANE_KIND)
        .encode(y=y, tooltip=tooltip)
    )
    position = table.transform_filter("datum.input && datum.target").encode(
        x=figure_pixels("x"), y=alt.YDatum("position"), text="p:Q"
    )
    # the shift: every input moves one place to the left when it becomes a target
    moves = table.transform_window(after="lead(x)").transform_filter(
        "datum.target && isValid(datum.after)"
    )
    start, head = (alt.YDatum(" ", bandPosition=place) for place in (0.05, 0.8))
    return alt.layer(
        *draw.cell_turn_layers(y),
        moves.mark_rule().encode(
            x=figure_pixels("after"), x2="x:Q", y=start, y2=alt.Y2Datum(" ", bandPosition=0.75)
        ),
        moves.mark_point(shape="triangle-down", size=70).encode(x=figure_pixels("x"), y=head),
        *draw.cell_layers(cells),
        position.mark_text(**theme_text()),
        *draw.cell_break_layers(
            alt.YDatum("turn", bandPosition=0), alt.Y2Datum("input", bandPosition=1)
        ),
    )


@cache
def strip_chart_template() -> Mapping[str, Any]:
    """`declare_strip`, once per process."""
    return declare_strip().to_dict()


def strip_chart_cells(table: pd.DataFrame) -> Rows:
    """The table `cells` of a strip: a row per position, the empty places at both ends included.

    Token p is the input of row p and the target of row p - 1, with what belongs to it there.
    """
    ids, parts = table["label"].tolist(), table["part"].tolist()
    labels = [draw.cell_label(*pair) for pair in zip(ids, table["text"].tolist(), strict=True)]
    positions, turns = table["position"].tolist(), table["turn"].tolist()
    masks, advantages, logprobs = (
        ["", *strip_chart_texts(table[name].tolist()[:-1], sign)]
        for name, sign in (("mask", ""), ("advantage", "+"), ("logprob", ""))
    )
    kinds = ["M" if pair == ("A", "0") else pair[0] for pair in zip(parts, masks, strict=True)]
    begins, ends = positions[0] == 0, pd.isna(table["mask"].iloc[-1])
    inputs = list(zip(labels, kinds, ids, strict=True))
    targets = list(zip(labels, kinds, masks, advantages, logprobs, turns, strict=True))[1:]
    if begins:  # the first token is never a target
        inputs.insert(0, ("", "", ""))
        targets.insert(0, ("none", ".", "none", "none", "none", ""))
    if ends:  # and the last one never an input
        inputs[-1] = (labels[-1], ".", ids[-1])
        targets.append(("",) * 6)
    pairs = list(zip(inputs, targets, strict=False))
    places = draw.cell_places((left[0], right[0], *right[2:5]) for left, right in pairs)
    first = positions[0] - begins
    return [
        dict(zip(COLUMNS, (first + at, *left, *right, *place), strict=True))
        for at, ((left, right), place) in enumerate(zip(pairs, places, strict=True))
    ]


def strip_chart_texts(values: Sequence[float], sign: str) -> list[str]:
    """Numbers as a strip shows them; `sign` stands before those above 0."""
    texts = {
        value: sign * (value > 0) + number_text(value).replace("-", "\u2212")
        for value in set(values)
    }
    # NaN equals nothing, not even itself
    return [texts.get(value, "NaN") for value in values]


def strip_chart_turns(cells: Rows, table: pd.DataFrame, breaks: Sequence[int]) -> Rows:
    """The table `turns` of a strip: a stretch per turn and part, over inputs and under targets."""
    masked = {cell["p"] + 1 for cell in cells if cell["goal"] == "M"}
    columns = (table[name].tolist() for name in ("position", "turn", "part"))
    owners = {
        place: (turn, "A masked" if place in masked else part)
        for place, turn, part in zip(*columns, strict=True)
    }
    rows = Rows()
    # the target of row p is token p + 1
    for lane, column, later in (("turn", "input", 0), ("target's turn", "turn", 1)):
        owned = [
            (owners[cell["p"] + later], cell["left"], cell["right"])
            for cell in cells
            if cell[column] != ""
        ]
        runs = draw.cell_stretches(owned, () if later else breaks)
        rows += [{"lane": lane, **run} for run in runs]
    return rows


def strip_chart(
    table: pd.DataFrame,
    breaks: Sequence[tuple[int, int, str]] = (),
    template: Mapping[str, Any] | None = None,
) -> Figure:
    """The strip of one datum: aligned lanes over one position axis.

    Every token is drawn twice, as an input at its own position and as the target one position
    to the left; mask, advantage and logprob stand under the target they belong to. The first
    token has no place as a target, the last none as an input; both places are drawn empty.

    Args:
        table: Rows of `alignment_table` for one datum (else a ValueError), or a window of them.
        breaks: Of `break_table_marks`: where a later turn left a datum.
        template: Another declaration than `declare_strip`, on the same tables, as `to_dict()`.
    """
    datums = table["datum"].unique().tolist()
    if len(datums) != 1:
        raise ValueError(f"A strip draws one datum; the table holds {len(datums)}.")
    cells = strip_chart_cells(table)
    lefts = {cell["p"]: cell["left"] for cell in cells}
    own = ((lefts.get(at), label) for datum, at, label in breaks if datum == datums[0])
    marks = [(left, label) for left, label in own if left is not None]
    tables = {
        "cells": cells,
        "turns": strip_chart_turns(cells, table, [left for left, _ in marks]),
        "breaks": draw.cell_break_places(marks, cells[-1]["right"]),
    }
    return draw.cell_lanes_figure(
        template or strip_chart_template(),
        STRIP_LANES,
        tables,
        f"{alignment_finding(table)}. {len(table)} tokens, so {len(table) - 1} inputs and as many "
        "targets; each target is the next input, and what belongs to it stands below it.",
    )
