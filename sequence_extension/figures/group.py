"""Section 6: rewards around the mean, advantages on tokens."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.figures import cells as draw
from sequence_extension.figures.figure import Figure, named, pixels, pixels_down, plot, records
from sequence_extension.figures.palette import GREY
from sequence_extension.group import sign
from sequence_extension.text import number_text, signed

LEFT = 8  # pixels before names
CELLS, SCALE = 64, 190  # pixels before cells and bars, and of the scale of rewards
HEAD = 52  # pixels above: the axis, and the name of the mean
LINE, CELL, BAR = 24, 20, 10  # a line of cells, a cell, a bar


@cache
def group_template() -> Mapping[str, Any]:
    """The figure on its tables `bars`, `cells`, `words`, `mean`; once per process."""
    down = pixels_down()
    bars = alt.Chart(named("bars", "left", "right", "end", "y")).encode(y=down)
    cells = alt.Chart(named("cells", "left", "x", "right", "y")).encode(
        y=down, tooltip=["target:N", "turn:N", "part:N", "mask:N", "advantage:N"]
    )
    words = alt.Chart(named("words", "x", "y")).encode(x=pixels("x"), y=down)
    # through the bars alone: what is written stands between them
    mean = alt.Chart(named("mean", "x", "y")).encode(x=pixels("x"), y=down)
    return alt.LayerChart(
        layer=[
            bars.mark_rect(height=BAR, cornerRadius=0).encode(
                x=pixels("left"), x2="right:Q", fill=draw.FILL
            ),
            bars.mark_point(size=70, filled=True, opacity=1).encode(
                x=pixels("end"), fill=draw.FILL
            ),
            mean.mark_tick(color=GREY, opacity=1, thickness=2, height=2 * BAR, orient="vertical"),
            *draw.token_cells(cells, height=CELL),
            *draw.word_layers(words),
        ]
    ).to_dict()


def datum_cells(datum: pd.DataFrame, y: int) -> pd.DataFrame:
    """The cells of one datum: a target each, its advantage, the letter once per run."""
    shown = datum[["part", "advantage"]].copy()
    for name in ("lane", "target", "turn", "mask"):
        shown[name] = datum[name].astype(int)
    labels, kinds, before = [], [], None
    for part, mask, advantage in zip(datum["part"], shown["mask"], datum["advantage"], strict=True):
        label = signed(advantage) if mask else "0"
        labels.append(label if part == before else f"{part} {label}")
        kinds.append(sign(advantage) if mask else "M" if part == "A" else "0")
        before = part
    boxes = draw.places([[label] for label in labels], 22, CELLS)
    shown[["left", "x", "right"]] = boxes
    return shown.assign(y=y, kind=kinds, label=labels)


def reward_scale(rewards: pd.Series) -> tuple[float, float]:
    """Smallest and largest reward; where all are equal, a plain axis around them."""
    low, high = float(rewards.min()), float(rewards.max())
    mean = float(rewards.mean())
    return (low, high) if high - low >= 1e-9 else (mean - 1, mean + 1)


def group_chart(table: pd.DataFrame) -> Figure:
    """Rewards around the group mean, and below each the target tokens with their advantage.

    A bar goes from the group mean to the member's total reward: its length is the advantage.
    Below it a line of cells per datum; each cell is a target token.

    Args:
        table: From `group_table`.
    """
    members = table.drop_duplicates("letter")
    rewards = members["reward"].astype(float)
    mean, (low, high) = float(rewards.mean()), reward_scale(rewards)

    def pixel(reward: float) -> int:
        return round(CELLS + 6 + (SCALE - 12) * (reward - low) / (high - low))

    ticks = [(number_text(tick), pixel(tick)) for tick in round_ticks(low, high)]
    words: list[tuple[int, int, str, str]] = [
        *((x - draw.text_width(tick) // 2, 10, tick, "") for tick, x in ticks),
        (CELLS + SCALE + 14, 10, "total reward", ""),
        (pixel(mean) - 40, 30, f"group mean {number_text(mean, 3)}", ""),
    ]
    bars, cells, told, y = [], [], [], HEAD
    for member in records(members):
        reward, advantage = number_text(member["reward"]), float(member["member_advantage"])
        told.append(f"{member['letter']}: reward {reward}, advantage {signed(advantage)}.")
        words.append((LEFT, y, f"{member['letter']}: {member['member']}", "yes"))
        y += LINE - 4
        end = pixel(float(member["reward"]))
        left, right = sorted((pixel(mean), end))
        bars.append((left, max(right, left + 1), end, y, sign(advantage)))
        words.append((right + 9, y, f"{reward}, so {signed(advantage)}", ""))
        y += LINE
        for datum, own in table[table["letter"] == member["letter"]].groupby("datum"):
            empty = own["position"].isna().all()
            name = "no datum to train; its reward is in the mean" if empty else f"datum {datum}"
            words.append((LEFT, y, name, ""))
            cells += [] if empty else [datum_cells(own, y)]
            y += LINE
        y += 10
    frame = pd.concat(cells) if cells else pd.DataFrame()
    ends = [x + draw.text_width(text) for x, _, text, _ in words]
    width = int(max([*ends, frame["right"].max() if cells else 0]))
    names = ["left", "right", "end", "y", "kind"]
    return Figure(
        group_template(),
        {
            "bars": pd.DataFrame(bars, columns=names),
            "cells": frame,
            "words": pd.DataFrame(words, columns=["x", "y", "words", "bold"]),
            "mean": pd.DataFrame([(pixel(mean), at) for *_, at, _ in bars], columns=["x", "y"]),
        },
        description=(
            f"Group of {len(members)} rollouts, mean reward {number_text(mean, 3)}. "
            f"{' '.join(told)}"
        ),
        width=width,
        height=y,
        bound=plot(width, y),
    )


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) between two bounds, at most `most`."""
    size = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(size * k for k in (1, 2, 5, 10, 20) if (high - low) / (size * k) <= most - 1)
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
