"""Section 3: one datum as aligned lanes."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from sequence_extension.alignment import strip_rows
from sequence_extension.figures.figure import (
    Figure,
    break_badge,
    calculate,
    csv_source,
    kind_color,
    nominal,
    quantity,
    themed_text,
    tips,
    unfold,
    vega_figure,
)
from sequence_extension.figures.palette import PALETTE, PART_WORDS
from sequence_extension.text import count_of

# Lanes of a strip: where each stands (pixels from the top) and what it is called.
STRIP_LANES = [
    (6, "turn"),
    (39, "input"),
    (103, "target|= next input"),
    (136, "mask"),
    (160, "advantage"),
    (184, "logprob"),
    (210, "turn"),
    (230, "position"),
]
STRIP_HEIGHT = 216
# Rollouts with more tokens or datums than this are drawn as runs, with a window of single
# tokens.
STRIP_LIMIT = 600
STRIP_DATUMS = 8
STRIP_WINDOW = 64


def strip_runs(rows: pd.DataFrame) -> pd.DataFrame:
    """Stretches of one turn and part in `strip_rows`: start, end (exclusive), turn, kind.

    Start and end are positions in the datum's sequence.
    """
    columns = [rows[name].tolist() for name in ("p", "turn", "part", "mask")]
    runs: list[list[Any]] = []
    last = None
    for place, turn, part, mask in zip(*columns, strict=True):
        if (turn, part) != last:
            runs.append([place, 0, turn, ""])
            last = (turn, part)
        # the last token of a stretch speaks for it: token 0 has no mask entry
        runs[-1][1], runs[-1][3] = place + 1, "M" if (part, mask) == ("A", "0") else part
    return pd.DataFrame(runs, columns=["start", "end", "turn", "kind"])


def strip_turns(runs: pd.DataFrame, step: int) -> pd.DataFrame:
    """Stretches of one turn: start, end (exclusive), and a label that fits their width."""
    turns: dict[str, tuple[int, int]] = {}
    columns = [runs[name].tolist() for name in ("turn", "start", "end")]
    for turn, start, end in zip(*columns, strict=True):
        turns[turn] = (turns.get(turn, (start, end))[0], end)
    labels = [
        f"turn {turn}" if 6 * len(f"turn {turn}") <= (end - start) * step - 6 else str(turn)
        for turn, (start, end) in turns.items()
    ]
    starts, ends = zip(*turns.values(), strict=True)
    return pd.DataFrame({"start": starts, "end": ends, "label": labels})


def strip_cell_width(rows: pd.DataFrame) -> int:
    """Pixels per position: wide enough for the longest token id, wider where texts are known."""
    longest = max((len(label) for label in rows["id"]), default=1)
    texts = 60 if any(rows["text"].tolist()) else 0
    return max(48, texts, 8 * longest + 10)


def strip_finding(table: pd.DataFrame) -> str:
    """One sentence for one datum of `alignment_table` (or a `window`): what is trained on."""
    targets = len(table) - 1
    trained = sum(value == 1 for value in table["mask"].tolist()[:targets])
    signed = sum(value != 0 for value in table["advantage"].tolist()[:targets])
    first, last = int(table["position"].iloc[0]), int(table["position"].iloc[-1])
    name, these = f"Datum {table['datum'].iloc[0]}", ""
    if first or not pd.isna(table["mask"].iloc[-1]):
        name, these = f"{name}, only positions {first} to {last - 1}", "these "
    if not trained:
        return f"{name}: none of {these}{count_of(targets, 'target')} trained"
    if not signed:
        return f"{name}: {trained} of {targets} targets have mask 1, but advantage 0: no gradient"
    return f"{name}: {trained} of {these}{targets} targets trained, {targets - trained} context"


def strip_description(rows: pd.DataFrame, runs: pd.DataFrame, name: str) -> str:
    """What the strip shows, in words, for readers who do not see it."""
    trained = rows["mask"].tolist().count("1")
    names = {"O": "observation", "A": "action", "M": "masked action"}
    parts = [
        f"tokens {start} to {end - 1} are turn {turn}'s {names[kind]}"
        for start, end, turn, kind in runs.head(12).to_numpy().tolist()
    ]
    more = f"; and {len(runs) - 12} more stretches" if len(runs) > 12 else ""
    return (
        f"{name}: {len(rows)} tokens, so {len(rows) - 1} inputs and {len(rows) - 1} targets; "
        f"{trained} targets have mask 1. Each target is the next input. "
        f"In order, {'; '.join(parts)}{more}."
    )


def strip_chart(
    table: pd.DataFrame,
    title: str | None = None,
    breaks: Sequence[tuple[int, int, str]] = (),
    lane_labels: bool = True,
) -> Figure:
    """The strip of one datum: aligned lanes over one position axis.

    Every token is drawn twice, as an input at its own position and as the target one position
    to the left; mask, advantage and logprob stand under the target they belong to. The first
    token has no slot as a target, the last none as an input; both empty slots are drawn.

    Args:
        table: Rows of `alignment_table` for one datum, or a `window` of them.
        title: The finding; None computes it from the table, "" leaves it out.
        breaks: (datum, position, label) of the places where a later turn left a datum:
            its observation differs from the datum's token at `position`.
        lane_labels: Draw the names of the lanes left of them.

    Raises:
        ValueError: The table holds another number of datums than one.
    """
    datums = table["datum"].unique().tolist()
    if len(datums) != 1:
        raise ValueError(f"A strip draws one datum; the table holds {len(datums)}.")
    rows = strip_rows(table)
    runs = strip_runs(rows)
    first, last = int(rows["p"].iloc[0]), int(rows["p"].iloc[-1])
    begins, ends = first == 0, bool(pd.isna(table["mask"].iloc[-1]))
    step = strip_cell_width(rows)
    turns = strip_turns(runs, step)
    grey = PALETTE["axis"]["fill"]
    # the two places where a token has no counterpart
    empty = pd.DataFrame(
        {
            "at": [last, -1],
            "top": [20, 84],
            "bottom": [58, 194],
            "line": [28, 112],
            "words": [
                f"{rows['id'].iloc[-1]}|never|an input",
                "the first|token is|never a|target:|no mask|entry",
            ],
        }
    )[[ends, begins]]
    data = {"cells": rows, "turns": turns}
    span = {"x": quantity("left"), "x2": {"field": "right"}}
    # lanes: 0 input, 1 target, 2 mask, 3 advantage, 4 logprob
    lanes = {
        "data": csv_source("cells", ["p"]),
        "transform": [
            *unfold(lane="[0, 1, 2, 3, 4]"),
            {"filter": f"datum.lane ? datum.p > {first} : datum.p < {last}"},
            *calculate(
                at="datum.p - (datum.lane ? 1 : 0)",
                left="datum.at - 0.47",
                right="datum.at + 0.47",
                top="[20, 84, 126, 150, 174][datum.lane]",
                bottom="datum.top + (datum.lane < 2 ? 38 : 20)",
                line="datum.top + (datum.lane < 2 ? 13 : 10)",
                part="datum.part == 'A' && datum.mask == '0' ? 'M' : datum.part",
                trained="datum.mask == '0' ? '0' : 'A'",
                raw="datum.lane == 3 ? datum.adv : datum.lp",
                number="toNumber(datum.raw)",
                kind="datum.lane < 2 ? datum.part : datum.lane == 2 ? datum.trained"
                " : !isFinite(datum.number) ? '!' : datum.number == 0 ? '0'"
                " : datum.lane == 4 ? datum.trained : datum.number > 0 ? '+' : '-'",
                shown="datum.lane < 2"
                " ? [datum.id, (datum.part == 'M' ? 'A masked' : datum.part)"
                " + (datum.text ? ' ' + replace(datum.text,"
                " /^<[|\\uff5c](.+)[|\\uff5c]>$/, '<$1>') : '')]"
                " : datum.lane == 2 ? datum.mask"
                " : !isFinite(datum.number) ? datum.raw"
                " : datum.number == 0 ? '0'"
                " : format(datum.number, datum.lane == 3 ? '+.3~g' : '.3~g')",
            ),
        ],
        "encoding": tips(
            {
                "token id": "datum.id",
                "text": "datum.text || 'not known'",
                "position": "datum.p",
                "turn": "datum.turn",
                "part": PART_WORDS.replace("kind", "part"),
                "mask": "datum.mask || 'none: never a target'",
                "advantage": "replace(datum.adv, regexp('-', 'g'), '\u2212') || 'none'",
                "logprob": "replace(datum.lp, regexp('-', 'g'), '\u2212') || 'none'",
            }
        ),
        "layer": [
            {
                "mark": {"type": "rect", "cornerRadius": 3},
                "encoding": {
                    **span,
                    "y": quantity("top"),
                    "y2": {"field": "bottom"},
                    "fill": kind_color("fill", "OAM0+-!"),
                },
            },
            {
                "mark": {"type": "text", "fontSize": 12, "lineHeight": 14, "limit": step - 6},
                "encoding": {
                    "x": quantity("at"),
                    "y": quantity("line"),
                    "text": nominal("shown"),
                    "color": kind_color("ink", "OAM0+-!"),
                },
            },
        ],
    }
    moves = {
        "data": csv_source("cells", ["p"]),
        "transform": [
            {"filter": f"datum.p > {-1 if begins else first}"},
            *calculate(to="datum.p - 1", tail="60", head="80"),
        ],
        "layer": [
            {
                "mark": {"type": "rule", "color": grey},
                "encoding": {
                    "x": quantity("p"),
                    "x2": {"field": "to"},
                    "y": quantity("tail"),
                    "y2": {"field": "head"},
                    "strokeDash": {
                        "condition": {"test": "datum.p", "value": [1, 0]},
                        "value": [3, 3],
                    },
                },
            },
            {
                "mark": {
                    "type": "point",
                    "shape": "triangle-down",
                    "size": 26,
                    "filled": True,
                    "color": grey,
                    "opacity": 1,
                },
                "encoding": {"x": quantity("to"), "y": quantity("head")},
            },
        ],
    }
    ghosts = {
        "data": csv_source("empty", ["at", "top", "bottom", "line"]),
        "transform": calculate(left="datum.at - 0.47", right="datum.at + 0.47"),
        "layer": [
            {
                "mark": {
                    "type": "rect",
                    "cornerRadius": 3,
                    "fill": "transparent",
                    "stroke": grey,
                    "strokeDash": [3, 3],
                },
                "encoding": {**span, "y": quantity("top"), "y2": {"field": "bottom"}},
            },
            {
                "mark": themed_text(lineBreak="|", lineHeight=11, limit=step - 2),
                "encoding": {
                    "x": quantity("at"),
                    "y": quantity("line"),
                    "text": nominal("words"),
                },
            },
        ],
    }
    # every turn is named twice: above the inputs, and one to the left under the targets
    sides = {
        "data": csv_source("turns", ["start", "end"]),
        "transform": [
            *unfold(side="[0, 1]"),
            *calculate(
                left=f"max(datum.start - datum.side, {first}) - 0.47",
                right=f"min(datum.end - 1 - datum.side, {last if ends else last - 1}) + 0.47",
                bar="datum.side ? 200 : 14",
                name="datum.side ? 210 : 6",
            ),
            {"filter": "datum.right > datum.left"},
        ],
        "layer": [
            {
                "mark": {"type": "rule", "color": grey, "strokeWidth": 2},
                "encoding": {**span, "y": quantity("bar")},
            },
            {
                "mark": themed_text(align="left", fontSize=11),
                "encoding": {
                    "x": quantity("left"),
                    "y": quantity("name"),
                    "text": nominal("label"),
                },
            },
        ],
    }
    # the border between two turns runs straight through the inputs, then steps with the shift
    borders = {
        "data": csv_source("turns", ["start", "end"]),
        "transform": [
            {"filter": f"datum.start > {first}"},
            *unfold(corner="[0, 1, 2, 3]"),
            *calculate(
                across="datum.start - (datum.corner < 2 ? 0.5 : 1.5)",
                down="[2, 59, 83, 214][datum.corner]",
            ),
        ],
        "mark": {"type": "line", "color": grey, "strokeWidth": 1},
        "encoding": {
            "x": quantity("across"),
            "y": quantity("down"),
            "detail": nominal("start"),
            "order": quantity("corner"),
        },
    }
    layers: list[dict[str, Any]] = [sides, moves, lanes]
    if len(turns) > 1:
        layers.insert(0, borders)
    if len(empty):
        data["empty"] = empty
        layers.append(ghosts)
    if lane_labels:
        data["lanes"] = pd.DataFrame(STRIP_LANES, columns=["y", "lane"])
        layers.append(
            {
                "data": csv_source("lanes", ["y"]),
                "mark": themed_text(align="right", fontSize=11, lineBreak="|", lineHeight=12),
                "encoding": {"x": {"value": -8}, "y": quantity("y"), "text": nominal("lane")},
            }
        )
    left = [
        (position, label)
        for datum, position, label in breaks
        if datum == datums[0] and first <= position <= last
    ]
    if left:
        data["breaks"] = pd.DataFrame(left, columns=["at", "label"])
        # a label near the right end stands left of its mark
        late = left[0][0] - first > (last - first) / 2
        layers.append(
            {
                "data": csv_source("breaks", ["at"]),
                "transform": calculate(edge="datum.at - 0.5", top="-18", foot="60", sign="-12"),
                "layer": [
                    {
                        "mark": {
                            "type": "rule",
                            "color": PALETTE["break"]["fill"],
                            "strokeWidth": 3,
                        },
                        "encoding": {
                            "x": quantity("edge"),
                            "y": quantity("top"),
                            "y2": {"field": "foot"},
                        },
                    },
                    {
                        "mark": themed_text(
                            align="right" if late else "left", dx=-12 if late else 12, fontSize=12
                        ),
                        "encoding": {
                            "x": quantity("edge"),
                            "y": quantity("sign"),
                            "text": nominal("label"),
                        },
                    },
                    *break_badge("edge", "sign"),
                ],
            }
        )
    low = first - (1.5 if begins else 0.5)
    high = last + (0.5 if ends else -0.5)
    every = 1 if last - first < 60 else 5
    return vega_figure(
        layers,
        data,
        description=strip_description(rows, runs, f"Datum {datums[0]}"),
        width=round(step * (high - low)),
        height=STRIP_HEIGHT,
        pad=(24 if left else 4, 8, 26, 92 if lane_labels else 4),
        focus=(left[0][0] - 0.5 - low) * step if left else None,
        title=strip_finding(table) if title is None else title,
        encoding={
            "x": {
                "type": "quantitative",
                "scale": {"domain": [low, high], "nice": False, "zero": False},
                "axis": {
                    "title": None,
                    # entries only: the last token is the target of the one before it
                    "values": [p for p in range(first, last + (not ends)) if p % every == 0],
                    "grid": False,
                    "domain": False,
                    "format": "d",
                },
            },
            "y": {
                "type": "quantitative",
                "scale": {"domain": [0, STRIP_HEIGHT], "range": [0, STRIP_HEIGHT]},
                "axis": None,
            },
        },
    )
