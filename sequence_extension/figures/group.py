"""Section 6: rewards around the mean, advantages on tokens."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.figures import cells as draw
from sequence_extension.figures.figure import Figure, fluid, named, pixels, pixels_down, records
from sequence_extension.group import sign
from sequence_extension.text import number_text, signed

WIDE, NARROW = 720, 350  # pixels of a line of cells; the first where there is room for it
LEFT, CELLS, SCALE = 4, 60, 190  # pixels before names and cells, and of the scale of rewards
HEAD = 52  # pixels above: the axis, and the name of the mean
LINE, CELL, BAR = 24, 20, 10  # a line of cells, a cell, a bar


@cache
def group_template() -> Mapping[str, Any]:
    """The figure on its tables `bars`, `cells` and `words`; once per process."""

    def shown(table: str, *numbers: str) -> alt.Chart:
        """What of a table stands in a figure of this width."""
        data = alt.Chart(named(table, "y", *numbers)).encode(y=pixels_down())
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
        draw.words(mean.encode(y=alt.value(30)), "told", align="center"),
        draw.words(
            bars.transform_calculate(end="max(datum.reward, datum.mean)").encode(x="end:Q"),
            dx=9,
        ),
    )
    cells = shown("cells", "left", "x", "right").encode(
        tooltip=["target:N", "turn:N", "part:N", "mask:N", "advantage:N"]
    )
    names = draw.word_layers(shown("words", "x").encode(x=pixels("x")))
    tokens = alt.layer(*draw.token_cells(cells, height=CELL), *names)
    drawing: alt.LayerChart = alt.layer(rewards, tokens).resolve_scale(x="independent")
    return drawing.to_dict()


def datum_cells(datum: pd.DataFrame, y: int, end: int) -> pd.DataFrame:
    """The cells of one datum, in lines that end before `end`: a target each, its advantage."""
    shown = datum[["part", "advantage"]].copy()
    for name in ("lane", "target", "turn", "mask"):
        shown[name] = datum[name].astype(int)
    labels, kinds, before = [], [], None
    for part, mask, advantage in zip(datum["part"], shown["mask"], datum["advantage"], strict=True):
        label = signed(advantage) if mask else "0"
        labels.append(label if part == before else f"{part} {label}")  # once per run
        kinds.append(sign(advantage) if mask else "M" if part == "A" else "0")
        before = part
    widths = [max(22, 12 + draw.text_width(label)) for label in labels]
    shown[["left", "x", "right", "line"]] = list(draw.placed(widths, CELLS, end))
    return shown.assign(y=y + LINE * shown["line"], kind=kinds, label=labels)


def group_rows(table: pd.DataFrame, at: str, end: int) -> tuple[dict[str, pd.DataFrame], int]:
    """The tables of the figure in one of its two widths, and the pixels of its height."""
    members = table.drop_duplicates("letter")
    mean = float(members["reward"].astype(float).mean())
    told = f"group mean {number_text(mean, 3)}"
    bars: list[tuple[float | int | str, ...]] = []
    words, cells, y = [], [], HEAD
    for member in records(members):
        reward, advantage = float(member["reward"]), float(member["member_advantage"])
        words.append((LEFT, y, f"{member['letter']}: {member['member']}", "yes"))
        y += LINE - 4
        label = f"{number_text(reward)}, so {signed(advantage)}"
        bars.append((reward, mean, y, sign(advantage), label, "" if bars else told))
        y += LINE
        for datum, own in table[table["letter"] == member["letter"]].groupby("datum"):
            empty = own["position"].isna().all()
            name = "no datum to train; its reward is in the mean" if empty else f"datum {datum}"
            words.append((LEFT, y, name, ""))
            if not empty:
                cells.append(datum_cells(own, y, end))
                y = int(cells[-1]["y"].iloc[-1])
            y += LINE
        y += 10
    tables = {
        "bars": pd.DataFrame(bars, columns=["reward", "mean", "y", "kind", "words", "told"]),
        "cells": pd.concat(cells) if cells else pd.DataFrame(),
        "words": pd.DataFrame(words, columns=["x", "y", "words", "bold"]),
    }
    return {name: rows.assign(at=at) for name, rows in tables.items()}, y - 20


def group_chart(table: pd.DataFrame) -> Figure:
    """Rewards around the group mean, and below each the target tokens with their advantage.

    A bar goes from the group mean to the member's total reward: its length is the advantage.
    Below it the cells of each datum; each cell is a target token.

    Args:
        table: From `group_table`.
    """
    (wide, height), (narrow, tall) = (
        group_rows(table, at, end) for at, end in (("wide", WIDE), ("narrow", NARROW))
    )
    members = table.drop_duplicates("letter")
    mean = number_text(float(members["reward"].astype(float).mean()), 3)
    told = " ".join(
        f"{member['letter']}: reward {number_text(member['reward'])}, "
        f"advantage {signed(float(member['member_advantage']))}."
        for member in records(members)
    )
    return Figure(
        group_template(),
        {name: pd.concat([wide[name], narrow[name]]) for name in wide},
        description=f"Group of {len(members)} rollouts, mean reward {mean}. {told}",
        width=WIDE,
        height=height,
        narrow=tall,
        bound=fluid(),
    )
