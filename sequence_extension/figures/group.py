"""Section 6: rewards around the mean, advantages on tokens."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.figures.cells import (
    fill_of,
    places,
    text_width,
    token_cells,
    token_looks,
)
from sequence_extension.figures.figure import Figure, named, pixels, plot, records
from sequence_extension.figures.palette import GREY
from sequence_extension.figures.theme import page_text
from sequence_extension.text import number_text, signed

LEFT = 8  # pixels before names
CELLS, SCALE = 64, 190  # pixels before cells and bars, and of the scale of rewards
HEAD = 52  # pixels above: the axis, and the name of the mean
LINE, CELL = 24, 20  # a line of cells, and a cell
KINDS = "M0+-"  # of cells and bars


@cache
def group_template() -> Mapping[str, Any]:
    """The figure on its tables `bars`, `cells`, `words`, `mean`; once per process."""
    down = alt.Y("y:Q", scale=None, axis=None)
    bars = alt.Chart(named("bars", "left", "right", "end", "y")).encode(y=down)
    cells = alt.Chart(named("cells", "left", "x", "right", "y")).encode(
        y=down, tooltip=["target:N", "turn:N", "part:N", "mask:N", "advantage:N"]
    )
    words = alt.Chart(named("words", "x", "y")).encode(x=pixels("x"), y=down, text="words:N")
    mean = alt.Chart(named("mean", "x", "top", "bottom")).encode(x=pixels("x"))
    fill = fill_of(token_looks(KINDS))
    return alt.LayerChart(
        layer=[
            mean.mark_rule(color=GREY, strokeDash=[4, 3], opacity=0.7).encode(
                y=alt.Y("top:Q", scale=None, axis=None), y2="bottom:Q"
            ),
            bars.mark_rect(height=10, cornerRadius=0).encode(
                x=pixels("left"), x2="right:Q", fill=fill
            ),
            bars.mark_point(size=70, filled=True, opacity=1).encode(x=pixels("end"), fill=fill),
            *token_cells(cells, KINDS, height=CELL),
            words.transform_filter("datum.bold == 'yes'").mark_text(
                **page_text(align="left", fontWeight="bold")
            ),
            words.transform_filter("datum.bold == 'no'").mark_text(**page_text(align="left")),
        ]
    ).to_dict()


def group_finding(table: pd.DataFrame) -> str:
    """What the group figure shows, as its title."""
    advantages = table.drop_duplicates("letter")["member_advantage"]
    above, below = int((advantages > 5e-7).sum()), int((advantages < -5e-7).sum())
    if not above and not below:
        return "Every reward equals the group mean: every advantage is 0, no policy gradient"
    return (
        f"{above} above the group mean, {below} below: the distance stands on every trained token"
    )


def sign(value: float) -> str:
    """The kind of an advantage; rounding noise is 0."""
    return "0" if abs(value) < 5e-7 else "+" if value > 0 else "-"


def datum_cells(rows: list[dict[str, Any]], y: int) -> list[dict[str, Any]]:
    """The cells of one datum: a target each, its advantage, the letter once per run."""
    cells = []
    before = None
    for row in rows:
        hidden = row["part"] == "A" and row["mask"] == 0
        label = signed(row["advantage"]) if row["mask"] else "0"
        cells.append(
            {
                **{name: row[name] for name in ("part", "advantage")},
                **{name: int(row[name]) for name in ("lane", "target", "turn", "mask")},
                "y": y,
                "kind": "M" if hidden else sign(row["advantage"]) if row["mask"] else "0",
                "label": label if row["part"] == before else f"{row['part']} {label}",
            }
        )
        before = row["part"]
    boxes = places([[cell["label"]] for cell in cells], 22, CELLS)
    return [
        {**cell, "left": left, "x": x, "right": right}
        for cell, (left, x, right) in zip(cells, boxes, strict=True)
    ]


def group_description(members: pd.DataFrame, mean: float) -> str:
    """What the group figure shows, in words."""
    told = " ".join(
        f"{row['letter']}: reward {number_text(row['reward'])}, advantage "
        f"{signed(row['member_advantage'])}."
        for row in records(members)
    )
    return f"Group of {len(members)} rollouts, mean reward {number_text(mean, 3)}. {told}"


def group_chart(table: pd.DataFrame) -> Figure:
    """Rewards around the group mean, and below each the target tokens with their advantage.

    A bar goes from the group mean to the member's total reward: its length is the advantage.
    Below it a line of cells per datum; each cell is a target token.

    Args:
        table: From `group_table`.
    """
    members = table.drop_duplicates("letter")
    rewards = members["reward"].astype(float)
    mean = float(rewards.mean())
    low, high = float(rewards.min()), float(rewards.max())
    if high - low < 1e-9:  # equal rewards: a plain axis around them
        low, high = mean - 1, mean + 1

    def pixel(reward: float) -> int:
        return round(CELLS + 6 + (SCALE - 12) * (reward - low) / (high - low))

    bars, cells, words, y = [], [], [], HEAD
    for member in records(members):
        advantage, end = float(member["member_advantage"]), pixel(float(member["reward"]))
        words.append((LEFT, y, f"{member['letter']}: {member['member']}", "yes"))
        y += LINE - 4
        left, right = sorted((pixel(mean), end))
        told = f"{number_text(member['reward'])}, so {signed(advantage)}"
        bars.append((left, max(right, left + 1), end, y, sign(advantage)))
        words.append((right + 9, y, told, "no"))
        y += LINE
        for datum, own in table[table["letter"] == member["letter"]].groupby("datum"):
            if own["position"].isna().all():
                words.append((LEFT, y, "no datum to train; its reward is in the mean", "no"))
            else:
                words.append((LEFT, y, f"datum {datum}", "no"))
                cells += datum_cells(records(own), y)
            y += LINE
        y += 10
    words.append((pixel(mean) - 40, 30, f"group mean {number_text(mean, 3)}", "no"))
    words += [
        (pixel(tick) - text_width(number_text(tick)) // 2, 10, number_text(tick), "no")
        for tick in round_ticks(low, high)
    ]
    words.append((CELLS + SCALE + 14, 10, "total reward", "no"))
    names = ["left", "right", "end", "y", "kind"]
    ends = [x + text_width(text) for x, _, text, _ in words]
    width = max([cell["right"] for cell in cells] + ends)
    return Figure(
        group_template(),
        {
            "bars": pd.DataFrame(bars, columns=names),
            "cells": pd.DataFrame(cells),
            "words": pd.DataFrame(words, columns=["x", "y", "words", "bold"]),
            "mean": pd.DataFrame([(pixel(mean), 38, y - 10)], columns=["x", "top", "bottom"]),
        },
        description=group_description(members, mean),
        width=width,
        height=y,
        bound=plot(width, y),
    )


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) between two bounds, at most `most`."""
    size = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(size * k for k in (1, 2, 5, 10, 20) if (high - low) / (size * k) <= most - 1)
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
