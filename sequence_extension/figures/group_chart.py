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
    Figure,
    Rows,
    figure_data,
    figure_pixels,
    figure_pixels_down,
    figure_records,
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
        """What of a table stands in a figure of this width."""
        data = alt.Chart(figure_data(table, "y", *numbers)).encode(y=figure_pixels_down())
        return data.transform_filter(f"(datum.at == 'narrow') == (width < {WIDE})")

    axis = alt.Axis(
        orient="top", tickCount=5, format="~g", labelFlush=False, title="total reward",
        titleAlign="left", titleAnchor=None, titleX=CELLS + SCALE + 4, titleY=-6, offset=-16,
    )  # fmt: skip
    scale = alt.Scale(range=[CELLS + 6, CELLS + SCALE - 6], zero=False, nice=False)
    bars = shown("bars", "reward", "mean").encode(x=alt.X("reward:Q", scale=scale, axis=axis))
    mean = bars.encode(x="mean:Q")
    rewards = alt.layer(
        # a pixel wide at least
        bars.mark_rect(height=BAR, cornerRadius=0, x2Offset=1).encode(x2="mean:Q", fill=draw.FILL),
        bars.mark_point(size=70).encode(fill=draw.FILL),
        # through the bars alone: what is written stands between them
        mean.mark_tick(thickness=2, height=2 * BAR),
        draw.cell_words_layer(mean.encode(y=alt.value(30)), "told", align="center"),
        draw.cell_words_layer(
            bars.transform_calculate(end="max(datum.reward, datum.mean)").encode(x="end:Q"),
            dx=9,
        ),
    )
    cells = shown("cells", "left", "x", "right").encode(
        tooltip=["target:N", "turn:N", "part:N", "mask:N", "advantage:N"]
    )
    names = draw.cell_bold_words_layers(shown("words", "x").encode(x=figure_pixels("x")))
    tokens = alt.layer(*draw.cell_layers(cells, height=CELL), *names)
    drawing: alt.LayerChart = alt.layer(rewards, tokens).resolve_scale(x="independent")
    return drawing.to_dict()


def group_chart_cells(datum: Rows, y: int, end: int) -> Rows:
    """The cells of one datum, in lines that end before `end`: a target each, its advantage."""
    cells: Rows = []
    for row in datum:
        label = signed_text(row["advantage"]) if row["mask"] else "0"
        starts = not cells or cells[-1]["part"] != row["part"]  # its letter stands once per run
        pale = "M" if row["part"] == "A" else "0"
        cells.append(
            {
                **{name: int(row[name]) for name in ("lane", "target", "turn", "mask")},
                **{"part": row["part"], "advantage": row["advantage"]},
                "label": f"{row['part']} {label}" if starts else label,
                "kind": group_sign(row["advantage"]) if row["mask"] else pale,
            }
        )
    widths = [max(22, 12 + draw.cell_text_width(cell["label"])) for cell in cells]
    return [
        {**cell, "left": left, "x": x, "right": right, "y": y + LINE * line}
        for cell, (left, x, right, line) in zip(
            cells, draw.place_cells(widths, CELLS, end), strict=True
        )
    ]


def group_chart_rows(
    members: Sequence[Sequence[Rows]], mean: float, at: str, end: int
) -> tuple[dict[str, Rows], int]:
    """The rows of the figure's tables in one of its two widths, and the pixels of its height."""
    told = f"group mean {number_text(mean, 3)}"
    bars, words, cells = tables = Rows(), Rows(), Rows()
    y = HEAD
    for datums in members:
        first = datums[0][0]
        reward, advantage = float(first["reward"]), float(first["member_advantage"])
        name = f"{first['letter']}: {first['member']}"
        words.append({"x": LEFT, "y": y, "words": name, "bold": "yes"})
        y += LINE - 4
        label = f"{number_text(reward)}, so {signed_text(advantage)}"
        bar = {
            "reward": reward,
            "mean": mean,
            "y": y,
            "kind": group_sign(advantage),
            "words": label,
        }
        bars.append({**bar, "told": "" if bars else told})
        y += LINE
        for datum in datums:
            empty = pd.isna(datum[0]["position"])
            name = f"datum {datum[0]['datum']}"
            name = "no datum to train; its reward is in the mean" if empty else name
            words.append({"x": LEFT, "y": y, "words": name, "bold": ""})
            if not empty:
                cells += group_chart_cells(datum, y, end)
                y = cells[-1]["y"]
            y += LINE
        y += 10
    for row in itertools.chain(*tables):
        row["at"] = at
    return {"bars": bars, "words": words, "cells": cells}, y - 20


def group_chart(table: pd.DataFrame) -> Figure:
    """Rewards around the group mean, and below each the target tokens with their advantage.

    A bar goes from the group mean to the member's total reward: its length is the advantage.
    Below it the cells of each datum; each cell is a target token.

    Args:
        table: From `group_table`.
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
