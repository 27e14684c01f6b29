"""Section 8: renderers against policies."""

import json
from typing import Any

import pandas as pd

from sequence_extension.figures.old import (
    Figure,
    calculate,
    csv_source,
    look_up,
    nominal,
    quantity,
    themed_text,
    tips,
    unfold,
    vega_figure,
)
from sequence_extension.figures.palette import PALETTE
from sequence_extension.text import visible_text

# The matrix: a renderer's claim beside one rollout. Only a claim that fails is red.
MATRIX_LOOK = {
    "kept": {**PALETTE["zero"], "mark": "", "words": "claims extension, stays one datum"},
    "better": {
        "fill": "#0072B2",
        "ink": "#FFFFFF",
        "mark": "+",
        "words": "does not claim it, yet stays one datum",
    },
    "split": {
        "fill": "#8B949E",
        "ink": "#0B0F14",
        "mark": "·",
        "words": "does not claim it, and splits",
    },
    "broken": {**PALETTE["break"], "mark": "✕", "words": "claims extension, yet splits"},
    "none": {
        "fill": "transparent",
        "ink": "transparent",
        "mark": "",
        "words": "nothing to compare",
    },
}
MATRIX_STEP = (58, 21)  # pixels of a cell
MATRIX_HEAD = 34  # pixels above and below for the names of the policies


def matrix_chart(table: pd.DataFrame) -> Figure:
    """Renderers against policies: datums over turns, and whether the claim held.

    Colour says what the mark says: a cross where extension is claimed and the rollout splits,
    a plus where it is not claimed and the rollout stays one datum, a dot for an expected
    split. The names of the rows stand beside the drawing, in `matrix_view`.

    Args:
        table: Of `matrix_table`.
    """
    names = table["renderer"].unique().tolist()
    policies = table["policy"].unique().tolist()
    step, row = MATRIX_STEP
    width, height = step * (len(policies) + 1), row * len(names)
    kinds = list(MATRIX_LOOK)
    # A row per renderer, unfolded in the figure. A cell says what is its own; what it shares
    # with others, a break and its texts, is looked up.
    told = table.assign(
        count=[
            "?" if pd.isna(datums) else f"{datums:.0f}/{turns:.0f}"
            for datums, turns in zip(table["datums"], table["turns"], strict=True)
        ],
        kind=[str(kinds.index(verdict)) for verdict in table["verdict"]],
        number=["" if pd.isna(number) else str(number) for number in break_numbers(table)],
        end=table["reason"]
        .where(table["reason"] != "", table["ending"].replace("completed", ""))
        .str.replace("|", "/"),
    ).groupby("renderer", sort=False)
    cells = pd.DataFrame(
        {
            "renderer": names,
            "row": range(len(names)),
            "claims": told["claims"].first().to_numpy(),
            "counts": told["count"].agg(" ".join).to_numpy(),
            "kinds": told["kind"].agg("".join).to_numpy(),
            "numbers": told["number"].agg(" ".join).to_numpy(),
            "ends": told["end"].agg("|".join).to_numpy(),
        }
    )
    breaks = matrix_breaks(table, 30)
    texts: dict[str, int] = {}
    for name in ("before", "held", "came"):
        breaks[name] = [texts.setdefault(text, len(texts)) for text in breaks[name]]
    # named above the first row, and again below the last: the figure is taller than a screen
    heads = pd.DataFrame(
        [
            {"column": column, "words": name.replace("_", "|"), "y": y, "below": below}
            for column, name in enumerate(["claims", *policies])
            for y, below in ((-16, 0), (height + 16, 1))
        ]
    )
    marks = json.dumps({kind: look["mark"] for kind, look in MATRIX_LOOK.items()})
    words = json.dumps({kind: look["words"] for kind, look in MATRIX_LOOK.items()})

    def colour(part: str) -> dict[str, Any]:
        scale = {"domain": kinds, "range": [MATRIX_LOOK[kind][part] for kind in kinds]}
        return nominal("verdict", scale=scale, legend=None)

    def across(size: int) -> dict[str, Any]:
        scale = {"domain": [0, size], "range": [0, size], "nice": False}
        return {"type": "quantitative", "scale": scale, "axis": None}

    centre = {"x": quantity("middle"), "y": quantity("centre")}
    places = {"middle": f"(datum.column + 0.5) * {step}", "centre": f"(datum.row + 0.5) * {row}"}
    tooltip = tips(
        {
            "renderer": "datum.renderer",
            "pupil": f"{json.dumps(policies)}[datum.column - 1]".replace('"', "'"),
            "datums/turns": "datum.shown",
            "claims extension": "datum.claims",
            "so it": f"{words}[datum.verdict]",
            "first break": "datum.cause"
            " ? 'turn ' + datum.turn + ', position ' + datum.position : 'none'",
            "cause": "datum.cause || 'none'",
            "held": "datum.cause ? datum.before + ' | ' + datum.held : 'none'",
            "came": "datum.cause ? datum.before + ' | ' + datum.came : 'none'",
            "ending": "datum.ends || 'completed'",
        }
    )
    boxes = {
        "mark": {"type": "rect", "cornerRadius": 3},
        "encoding": {
            "x": quantity("left"),
            "x2": {"field": "right"},
            "y": quantity("top"),
            "y2": {"field": "bottom"},
            "fill": colour("fill"),
        },
    }
    mono = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
    inside = {
        "transform": [{"filter": "datum.verdict != 'none'"}],
        "mark": {"type": "text", "font": mono, "fontSize": 11},
        "encoding": {**centre, "text": nominal("label"), "color": colour("ink")},
    }
    outside = {
        "transform": [{"filter": "datum.verdict == 'none'"}],
        "mark": themed_text(font=mono, fontSize=11),
        "encoding": {**centre, "text": nominal("label")},
    }
    claimed = {
        "transform": [{"filter": "datum.column == 1"}],
        "mark": themed_text(fontSize=11),
        "encoding": {**centre, "x": {"value": step / 2}, "text": nominal("claims")},
    }
    counts = table["verdict"].value_counts()
    return vega_figure(
        [
            {
                "data": csv_source("cells", ["row"]),
                "transform": [
                    *unfold(
                        column=f"sequence(1, {len(policies) + 1})",
                        shown="split(datum.counts, ' ')",
                        kind="split(datum.kinds, '')",
                        number="split(datum.numbers, ' ')",
                        ends="split(datum.ends, '|')",
                    ),
                    *calculate(
                        number="toNumber(datum.number)",
                        verdict=f"{json.dumps(kinds)}[toNumber(datum.kind)]",
                    ),
                    look_up(
                        "number",
                        "breaks",
                        ["break", "turn", "position", "cause", "before", "held", "came"],
                    ),
                    *(
                        look_up(name, "texts", ["number", "text"], name)
                        for name in ("before", "held", "came")
                    ),
                    *calculate(
                        **places,
                        left=f"datum.column * {step} + 1",
                        right=f"(datum.column + 1) * {step} - 1",
                        top=f"datum.row * {row} + 1",
                        bottom=f"(datum.row + 1) * {row} - 1",
                        mark=f"{marks}[datum.verdict]",
                        label="datum.shown + (datum.mark ? ' ' + datum.mark : '')",
                    ),
                ],
                "encoding": tooltip,
                "layer": [boxes, inside, outside, claimed],
            },
            {
                "data": csv_source("heads", ["column", "y", "below"]),
                "transform": calculate(middle=places["middle"]),
                "mark": themed_text(
                    fontSize=11, lineBreak="|", lineHeight=12, baseline="middle", clip=False
                ),
                "encoding": {
                    "x": centre["x"],
                    "y": quantity("y"),
                    "text": nominal("words"),
                },
            },
        ],
        {
            "cells": cells,
            "breaks": breaks,
            "texts": pd.DataFrame({"number": texts.values(), "text": texts.keys()}),
            "heads": heads,
        },
        description=(
            f"Matrix of {len(names)} renderers by {len(policies)} pupils, each cell the datums "
            "over the turns of one rollout. "
            + "; ".join(
                f"{counts.get(kind, 0)} cells: {look['words']}"
                for kind, look in MATRIX_LOOK.items()
            )
            + ". The table below the figure holds every cell."
        ),
        width=width,
        height=height,
        pad=(MATRIX_HEAD, 2, MATRIX_HEAD, 2),
        encoding={"x": across(width), "y": across(height)},
    )


def matrix_finding(table: pd.DataFrame) -> str:
    """The matrix in one sentence: how often the claim held, in both directions."""
    counts = table["verdict"].value_counts()
    claiming = int(counts.get("kept", 0) + counts.get("broken", 0))
    silent = int(counts.get("better", 0) + counts.get("split", 0))
    return (
        f"{counts.get('broken', 0)} of {claiming} rollouts split although their renderer "
        f"claims extension; {counts.get('better', 0)} of {silent} stay one datum although "
        "theirs does not"
    )


def break_numbers(table: pd.DataFrame) -> pd.Series:
    """For each cell of the matrix the number of its first break; cells that break alike share it.

    Returns:
        Numbers from 1 on, those with the same texts side by side; missing where nothing breaks.
    """
    alike = ["before", "came", "turn", "position", "cause", "held"]
    numbers = table[table["cause"] != ""].groupby(alike).ngroup() + 1
    return numbers.reindex(table.index).astype("Int64")


def matrix_breaks(table: pd.DataFrame, width: int = 40) -> pd.DataFrame:
    """The first breaks that the cells of the matrix show, each once.

    Args:
        table: Of `matrix_table`.
        width: Characters of each text at most.

    Returns:
        Columns break (its number), turn, position, cause, before, held, came.
    """
    found = table.assign(**{"break": break_numbers(table)}).dropna(subset="break")
    found = found.drop_duplicates("break").sort_values("break")
    texts = {
        name: [visible_text(text, width) for text in found[name]]
        for name in ("before", "held", "came")
    }
    places = found[["break", "turn", "position"]].astype(int)
    return places.assign(cause=found["cause"], **texts)


def matrix_facts(table: pd.DataFrame) -> pd.DataFrame:
    """The matrix as a table, a row per renderer: counts, mark, number of the break, ending.

    Where the episode ended as completed, that is not said again.
    """
    told = [
        " ".join(
            [
                "none" if pd.isna(datums) else f"{datums:.0f}/{turns:.0f}",
                *([mark] if (mark := MATRIX_LOOK[verdict]["mark"]) else []),
                *([] if pd.isna(number) else [f"#{number}"]),
                *([] if ending == "completed" else [reason or ending]),
            ]
        )
        for datums, turns, verdict, number, ending, reason in zip(
            table["datums"],
            table["turns"],
            table["verdict"],
            break_numbers(table),
            table["ending"],
            table["reason"],
            strict=True,
        )
    ]
    wide = table.assign(told=told).pivot(
        index=["renderer", "claims"], columns="policy", values="told"
    )
    order = table.drop_duplicates("renderer")[["renderer", "claims"]]
    wide = wide.loc[list(order.itertuples(index=False, name=None)), table["policy"].unique()]
    return wide.reset_index().rename_axis(columns=None)
