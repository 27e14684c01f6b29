"""Section 6: rewards around the mean, advantages on tokens."""

from collections import Counter
from typing import Any

import pandas as pd

from sequence_extension.figures.old import (
    Figure,
    calculate,
    csv_source,
    nominal,
    quantity,
    round_ticks,
    themed_text,
    vega_figure,
)
from sequence_extension.figures.palette import PALETTE, advantage_colours
from sequence_extension.text import number_text, signed


def group_lanes(table: pd.DataFrame) -> list[str]:
    """Names of the lanes of `group_table`: the rollout, and the datum where it has several."""
    lanes = table.drop_duplicates("lane")
    several = Counter(lanes["letter"])
    return [
        f"{letter}, datum {datum}" if several[letter] > 1 else str(letter)
        for letter, datum in zip(lanes["letter"], lanes["datum"], strict=True)
    ]


def group_finding(table: pd.DataFrame) -> str:
    """What the group figure shows, as its title."""
    advantages = table.drop_duplicates("letter")["member_advantage"]
    above, below = int((advantages > 5e-7).sum()), int((advantages < -5e-7).sum())
    if not above and not below:
        return "Every reward equals the group mean: every advantage is 0, no policy gradient"
    return (
        f"{above} above the group mean, {below} below: the distance stands on every trained token"
    )


def group_chart(table: pd.DataFrame) -> Figure:
    """Rewards around the group mean, and every target token with its advantage.

    Left, one bar per member from the group mean to its total reward: its length is the
    advantage. Right, one lane per datum: each cell is a target token. A frame means mask 1.

    Args:
        table: From `group_table`.
    """
    names = group_lanes(table)
    row, cell, panel, start, grey = 30, 36, 220, 236, PALETTE["axis"]["fill"]
    height = row * len(names)
    members = table.drop_duplicates("letter")
    mean = float(members["reward"].mean())
    extent = float(members["member_advantage"].abs().max())
    spread = extent if extent > 1e-9 else 1.0  # equal rewards: a plain axis around them
    low = min(float(members["reward"].min()), mean - spread) - 0.6 * spread
    high = max(float(members["reward"].max()), mean + spread) + 0.6 * spread

    def pixel(reward: float) -> float:
        return round(panel * (reward - low) / (high - low), 2)

    bars = pd.DataFrame(
        {
            "y": (members["lane"] + 0.5) * row,
            "mean": pixel(mean),
            "reward": [pixel(reward) for reward in members["reward"]],
            "fill": [advantage_colours(value, extent)[0] for value in members["member_advantage"]],
            "label": [signed(value) for value in members["member_advantage"]],
        }
    )
    bars["up"] = (bars["reward"] >= bars["mean"]).astype(int)

    cells = table.dropna(subset=["position"]).astype(
        {"position": int, "target": int, "turn": int, "mask": int}
    )
    last = max([9, *cells["position"].tolist()])
    width = start + cell * last
    masked = (cells["mask"] == 0) & (cells["part"] == "A")
    pale = (PALETTE["masked"]["fill"], PALETTE["masked"]["ink"])
    colours = [
        pale if hidden else advantage_colours(value, extent)
        for value, hidden in zip(cells["advantage"], masked, strict=True)
    ]
    cells = cells.assign(
        fill=[fill for fill, _ in colours],
        ink=[ink for _, ink in colours],
        label=[
            signed(value) if mask else f"{part} 0"
            for value, mask, part in zip(
                cells["advantage"], cells["mask"], cells["part"], strict=True
            )
        ],
    )[["lane", "position", "target", "turn", "part", "mask", "advantage", "fill", "ink", "label"]]
    empty = table[table["position"].isna()]
    ticks = round_ticks(low, high)
    words = pd.DataFrame(
        [
            *[
                (start + 4, (lane + 0.5) * row, "no datum to train; its reward is in the mean")
                for lane in empty["lane"].tolist()
            ],
            (max(0.0, pixel(mean) - 40), -10, f"group mean {number_text(mean, 3)}"),
            (0, height + 32, "total reward"),
            (start, height + 32, "position, as in section 3: each cell is a target"),
            *[(pixel(tick) - 4, height + 14, number_text(tick)) for tick in ticks],
            *[(start + cell * (at + 0.5) - 4, height + 14, str(at)) for at in range(last)],
        ],
        columns=["x", "y", "words"],
    )

    def plain(size: int) -> dict[str, Any]:
        scale = {"domain": [0, size], "range": [0, size], "nice": False}
        return {"type": "quantitative", "scale": scale, "axis": None}

    fill = nominal("fill", scale=None)
    tooltip = [
        nominal("target", title="target token"),
        nominal("turn", title="turn"),
        nominal("part", title="part"),
        nominal("mask", title="mask"),
        nominal("advantage", title="advantage"),
    ]
    middle: dict[str, Any] = {"y": quantity("y")}

    def beside(up: int, align: str, dx: int) -> dict[str, Any]:
        return {
            "transform": [{"filter": f"datum.up == {up}"}],
            "mark": themed_text(align=align, dx=dx, fontSize=12),
            "encoding": {"x": quantity("reward"), **middle, "text": nominal("label")},
        }

    layers: list[dict[str, Any]] = [
        {
            "data": {"values": [{"x": pixel(mean), "a": 0, "b": height}]},
            "mark": {"type": "rule", "color": grey, "strokeDash": [4, 3]},
            "encoding": {
                "x": quantity("x"),
                "y": quantity("a"),
                "y2": {"field": "b"},
            },
        },
        {
            "data": csv_source("bars", ["y", "mean", "reward", "up"]),
            "layer": [
                {
                    "mark": {"type": "rule", "strokeWidth": 12},
                    "encoding": {
                        "x": quantity("mean"),
                        "x2": {"field": "reward"},
                        **middle,
                        "stroke": nominal("fill", scale=None),
                    },
                },
                {
                    "mark": {"type": "point", "size": 70, "stroke": grey, "opacity": 1},
                    "encoding": {"x": quantity("reward"), **middle, "fill": fill},
                },
                beside(1, "left", 9),
                beside(0, "right", -9),
            ],
        },
        {
            "data": csv_source("cells", ["lane", "position", "mask"]),
            "transform": calculate(
                y=f"(datum.lane + 0.5) * {row}",
                x=f"{start} + (datum.position - 0.5) * {cell}",
                left=f"datum.x - {cell / 2 - 1.5}",
                right=f"datum.x + {cell / 2 - 1.5}",
                top=f"datum.y - {row / 2 - 2}",
                bottom=f"datum.y + {row / 2 - 2}",
            ),
            "encoding": {"tooltip": tooltip},
            "layer": [
                {
                    "mark": {"type": "rect", "cornerRadius": 3, "strokeWidth": 1.5},
                    "encoding": {
                        "x": quantity("left"),
                        "x2": {"field": "right"},
                        "y": quantity("top"),
                        "y2": {"field": "bottom"},
                        "fill": fill,
                        "stroke": {
                            "condition": {"test": "datum.mask == 1", "value": grey},
                            "value": "transparent",
                        },
                    },
                },
                {
                    "mark": {"type": "text", "fontSize": 11},
                    "encoding": {
                        "x": quantity("x"),
                        **middle,
                        "text": nominal("label"),
                        "color": nominal("ink", scale=None),
                    },
                },
            ],
        },
        {
            "data": csv_source("words", ["x", "y"]),
            "mark": themed_text(align="left", fontSize=12, clip=False),
            "encoding": {"x": quantity("x"), **middle, "text": nominal("words")},
        },
    ]
    told = " ".join(
        f"{letter}: reward {number_text(reward)}, advantage {signed(advantage)}."
        for letter, reward, advantage in zip(
            members["letter"], members["reward"], members["member_advantage"], strict=True
        )
    )
    return vega_figure(
        layers,
        {"bars": bars, "cells": cells, "words": words},
        description=f"Group of {len(members)} rollouts, mean reward {number_text(mean, 3)}. {told}",
        width=width,
        height=height,
        pad=(20, 8, 42, 4),
        focus=start + 3.5 * cell,  # the tokens, not the rewards once more
        encoding={"x": plain(width), "y": plain(height)},
    )
