"""Section 6: rewards around the mean, advantages on tokens."""

import itertools
import operator
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.figures import cells as draw
from sequence_extension.figures.figure import (
    FORM_FILTER,
    Figure,
    Rows,
    figure_form,
    figure_records,
    figure_table,
    fluid_figure_size,
)
from sequence_extension.group import group_sign
from sequence_extension.text import number_text, signed_text

WIDE, NARROW = 720, 350  # pixels of a line of cells; the first where there is room for it
LEFT, CELLS, SCALE = 4, 60, 190  # pixels before names and cells, and of the scale of rewards
HEAD = 52  # pixels above: the axis, and the name of the mean
LINE, CELL, BAR = 24, 20, 10  # a line of cells, a cell, a bar


@cache
def group_chart_template() -> Mapping[str, Any]:
    """The figure on its tables `bars`, `cells` and `words`; once per process."""

    def shown(table: str, *numbers: str) -> alt.Chart:
        return figure_table(table, "y", *numbers).transform_filter(FORM_FILTER)

    axis = alt.Axis(
        orient="top", tickCount=5, format="~g", labelFlush=False, title="total reward",
        titleAlign="left", titleAnchor=None, titleX=CELLS + SCALE + 16, titleY=-6, offset=-16,
    )  # fmt: skip
    scale = alt.Scale(range=[CELLS + 6, CELLS + SCALE - 6], zero=False, nice=False)
    bars = shown("bars", "reward", "mean").encode(x=alt.X("reward:Q", scale=scale, axis=axis))
    mean = bars.encode(x="mean:Q")
    ends = bars.transform_calculate(end="max(datum.reward, datum.mean)").encode(x="end:Q")
    rewards = alt.layer(
        # a pixel wide at least
        bars.mark_rect(height=BAR, cornerRadius=0, x2Offset=1).encode(x2="mean:Q", fill=draw.FILL),
        bars.mark_point(size=70).encode(fill=draw.FILL),
        # through the bars alone: what is written stands between them
        mean.mark_tick(thickness=2, height=2 * BAR),
        draw.cell_words_layer(mean.encode(y=alt.value(30)), "told", align="center"),
        draw.cell_words_layer(ends, dx=9),
    )
    cells = shown("cells", "left", "x", "right").encode(
        tooltip=["target:N", "turn:N", "part:N", "mask:N", "advantage:N"]
    )
    names = draw.cell_words_layer(shown("words", "x"), fontWeight=draw.BOLD)
    tokens = alt.layer(*draw.cell_layers(cells, height=CELL), names)
    drawing: alt.LayerChart = alt.layer(rewards, tokens).resolve_scale(x="independent")
    return drawing.add_params(figure_form(WIDE)).to_dict()


def group_chart_cells(datum: Rows, y: int, end: int) -> Rows:
    """The cells of one datum, in lines that end before `end`: a target each, its advantage."""
    cells, before = Rows(), None
    for row in datum:
        own = {name: int(row[name]) for name in ("lane", "target", "turn", "mask")}
        own |= {name: row[name] for name in ("part", "advantage")}
        label = signed_text(row["advantage"]) if row["mask"] else "0"
        kind = group_sign(row["advantage"]) if row["mask"] else {"A": "M", "O": "0"}[row["part"]]
        starts = row["part"] != before  # its letter stands once per run
        before = row["part"]
        cells.append({**own, "label": f"{before} {label}" if starts else label, "kind": kind})
    widths = [max(22, 12 + draw.cell_text_width(cell["label"])) for cell in cells]
    return draw.cell_lines(cells, widths, CELLS, end, y, LINE)


def group_chart_rows(
    members: Sequence[Sequence[Rows]], mean: float, at: str, end: int
) -> tuple[dict[str, Rows], int]:
    """The rows of the figure's tables in one of its two forms, and the pixels of its height."""
    bars, words, cells = Rows(), Rows(), Rows()
    y = HEAD
    for datums in members:
        first = datums[0][0]
        reward, advantage = float(first["reward"]), float(first["member_advantage"])
        names = [(f"{first['letter']}: {first['member']}", y, "yes")]
        y += LINE - 4
        bar = {"at": at, "reward": reward, "mean": mean, "y": y, "kind": group_sign(advantage)}
        told = "" if bars else f"group mean {number_text(mean, 3)}"
        label = f"{number_text(reward)}, so {signed_text(advantage)}"
        bars.append({**bar, "words": label, "told": told})
        for datum in datums:
            y += LINE
            if pd.isna(datum[0]["position"]):
                names.append(("no datum to train; its reward is in the mean", y, ""))
                continue
            names.append((f"datum {datum[0]['datum']}", y, ""))
            cells += [{"at": at, **cell} for cell in group_chart_cells(datum, y, end)]
            y = cells[-1]["y"]
        words += [
            {"at": at, "x": LEFT, "y": y, "words": name, "bold": bold} for name, y, bold in names
        ]
        y += LINE + 10
    return {"bars": bars, "words": words, "cells": cells}, y - 20


def group_chart(table: pd.DataFrame) -> Figure:
    """A `group_table` drawn: rewards around the mean, and the target tokens with their advantage.

    A bar goes from the group mean to the member's total reward: its length is the advantage.
    Below it the cells of each datum; each cell is a target token.
    """
    by_letter = itertools.groupby(figure_records(table), key=operator.itemgetter("letter"))
    members = [
        [[*datum] for _, datum in itertools.groupby(own, key=operator.itemgetter("datum"))]
        for _, own in by_letter
    ]
    heads = [datums[0][0] for datums in members]
    mean = sum(float(head["reward"]) for head in heads) / len(heads)
    (wide, height), (narrow, tall) = (
        group_chart_rows(members, mean, at, end) for at, end in (("wide", WIDE), ("narrow", NARROW))
    )
    told = " ".join(
        f"{head['letter']}: reward {number_text(head['reward'])}, "
        f"advantage {signed_text(float(head['member_advantage']))}."
        for head in heads
    )
    return Figure(
        group_chart_template(),
        {name: [*wide[name], *narrow[name]] for name in wide},
        description=(
            f"Group of {len(members)} rollouts, mean reward {number_text(mean, 3)}. {told}"
        ),
        width=WIDE,
        height=height,
        narrow=tall,
        bound=fluid_figure_size(),
    )
