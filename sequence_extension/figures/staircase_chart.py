"""Section 1: one conversation twice, as one datum and as several."""

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
from sequence_extension.figures.palette import PALETTE, RED

WIDTH, BETWEEN = 346, 34  # pixels of one drawing, and between the two
LEFT, LINE, CELL = 26, 27, 20  # where cells start, a line of them, a cell
DATUM = 64  # pixels of the name of a datum
AGAIN = 11  # pixels of a token that is read again: how many there are is what counts
WIDE = 2 * WIDTH + BETWEEN  # where there is less, the second drawing stands below the first
COLUMNS = {
    "cells": ["turn", "left", "x", "right", "y", "kind", "label", "id", "mask"],
    "words": ["turn", "shown", "bold", "x", "y", "words"],
    "turns": ["turn", "datum", "left", "right", "top", "bottom"],
    "breaks": ["turn", "x", "y", "edge", "line"],
}


@cache
def staircase_chart_template(titles: tuple[str, ...], most: int, start: int) -> Mapping[str, Any]:
    """The figure on the tables of `COLUMNS`, with its menu and steps; kept when made."""
    menu = alt.binding_select(options=list(range(len(titles))), labels=titles, name="Show")
    steps = alt.binding_range(min=1, max=most, step=1, name="Turns shown, at most")
    scenario = alt.param(name="scenario", value=start, bind=menu)
    turns = alt.param(name="turns", value=most, bind=steps)

    def shown(table: str, *numbers: str) -> alt.Chart:
        """What of a table stands in the chosen scenario, at this step and in this width."""
        return (
            alt.Chart(figure_data(table, "s", "turn", *numbers))
            .transform_filter((alt.datum.s == scenario) & (alt.datum.turn < turns))
            .transform_filter(f"!datum.at || datum.at == (width < {WIDE} ? 'below' : 'beside')")
        )

    cells = shown("cells", "left", "x", "right", "y").encode(
        y=figure_pixels_down(), tooltip=["id:N", "label:N", "kind:N", "mask:N"]
    )
    box = cells.encode(x=figure_pixels("left"), x2="right:Q")
    again = box.transform_filter("datum.kind == '='")  # narrow, a diagonal each: a hatch
    words = (
        shown("words", "shown", "x", "y")
        .transform_filter(f"!datum.shown || datum.shown == {turns.name}")
        .encode(x=figure_pixels("x"), y=figure_pixels_down())
    )
    bracket = (
        shown("turns", "left", "right", "top", "bottom")
        .transform_aggregate(
            top="min(top)", bottom="max(bottom)", groupby=["at", "datum", "left", "right"]
        )
        .mark_rule(strokeWidth=2, strokeCap="square")
    )
    breaks = shown("breaks", "x", "y", "edge", "line").encode(
        x=figure_pixels("x"), y=figure_pixels_down()
    )
    drawing = alt.layer(
        bracket.encode(x=figure_pixels("left"), y=figure_pixels_down("top"), y2="bottom:Q"),
        *(
            bracket.encode(x=figure_pixels("left"), x2="right:Q", y=figure_pixels_down(end))
            for end in ("top", "bottom")
        ),
        *draw.cell_layers(cells.transform_filter("datum.kind != '='"), height=CELL),
        again.mark_rect(fill=PALETTE["zero"]["fill"], height=CELL, cornerRadius=1),
        again.encode(y2="y:Q").mark_rule(
            strokeWidth=1.5, yOffset=CELL / 2 - 3, y2Offset=3 - CELL / 2
        ),
        box.transform_filter("datum.mask == '1'").mark_rule(strokeWidth=3, yOffset=CELL / 2 + 3),
        *draw.cell_bold_words_layers(words, fontSize=14),
        breaks.mark_tick(color=RED, thickness=3, height=CELL + 6).encode(
            x=figure_pixels("edge"), y=figure_pixels_down("line")
        ),
        *draw.cell_break_sign_layers(breaks),
    )
    return drawing.add_params(scenario, turns).to_dict()


def staircase_chart_cells(cells: Sequence[Mapping[str, Any]], left: int, y: int) -> Rows:
    """Cells on lines, each as wide as its text; of what is read again a narrow one per token."""
    drawn, widths = [], []
    for cell in cells:
        again = cell["kind"] == "="
        label = "" if again else draw.cell_label(cell["id"], cell["text"])
        count = cell["tokens"] if again else 1
        drawn += [{**cell, "label": label}] * count
        widths += [AGAIN if again else max(26, draw.cell_text_width(label) + 10)] * count
    boxes = draw.place_cells(widths, left + LEFT, left + WIDTH)
    return [
        {**cell, "left": start, "x": middle, "right": end, "y": y + LINE * line}
        for cell, (start, middle, end, line) in zip(drawn, boxes, strict=True)
    ]


def staircase_chart_turn(
    rows: Mapping[str, Rows], turn: Mapping[str, Any], cells: Rows, left: int, y: int, opens: bool
) -> int:
    """A turn: its name, behind that of its datum where it opens one, and a line for each part.

    The sign of a break stands behind the elements that prompt and running sequence share.
    """
    number, top = turn["turn"], y

    def say(words: str, x: int) -> None:
        rows["words"].append({"turn": number, "x": left + x, "y": y, "words": words})

    splits = turn["shared"] != ""
    verdict = turn["verdict"].replace("\u2715", "splits:") if number else ""
    x = LEFT + DATUM * opens
    if opens:
        say(f"datum {turn['datum']}", LEFT)
    say(f"turn {number} {verdict}".strip(), x + 18 * splits)
    sign = {"turn": number, "x": left + x + 7, "y": y}
    for part in ("O", "A"):
        if own := [cell for cell in cells if cell["part"] == part]:
            y += LINE - 2
            say(part, 12)
            line = staircase_chart_cells(own, left, y)
            rows["cells"].extend(line)
            if splits and part == "O":
                kept = [cell["tokens"] for cell in own if cell["kind"] != "."]
                before = line[: sum(kept[: int(turn["shared"])])]
                edge = before[-1]["right"] + 1 if before else left + LEFT - 1
                rows["breaks"].append(
                    {**sign, "edge": edge, "line": before[-1]["y"] if before else y}
                )
            y = line[-1]["y"]
    bracket = {"left": left + 3, "right": left + 8, "top": top - 8, "bottom": y + 14}
    rows["turns"].append({"turn": number, "datum": turn["datum"], **bracket})
    return y + LINE


def staircase_chart_panel(
    story: Mapping[str, Rows], title: str, most: int, left: int = 0, top: int = 0
) -> tuple[dict[str, Rows], int]:
    """One of the two drawings of a scenario: the rows of the figure's tables, and its height."""
    turns, cells, steps = story["turns"], story["cells"], story["steps"]
    rows: dict[str, Rows] = {name: [] for name in COLUMNS}
    for shown in range(1, most + 1):
        step = steps[min(shown, len(steps)) - 1]
        for words, y, bold in ((f"{title}: {step['datums']}", 9, "yes"), (step["counts"], 29, "")):
            rows["words"].append(
                {"turn": 0, "shown": shown, "bold": bold, "x": left, "y": top + y, "words": words}
            )
    y, datum = top + 52, None
    for turn in turns:
        opens = turn["datum"] != datum
        own = [cell for cell in cells if cell["turn"] == turn["turn"]]
        y = staircase_chart_turn(
            rows, turn, own, left, y + 10 * (opens and datum is not None), opens
        )
        datum = turn["datum"]
    return rows, y - 10


def staircase_chart(
    tables: Mapping[str, pd.DataFrame], first: str = "Reasoning stripped"
) -> Figure:
    """The idea: one conversation twice, each turn drawn once, brackets around what is one datum.

    First the prompts keep all that came before; beside it, or below where there is no room, they
    do what the scenario says. Menu and steps are parameters of the chart, so they work without
    Python.

    Args:
        tables: Of `staircase_tables`.
        first: Title of the scenario that is shown first.
    """
    titles, most = tables["scenarios"]["title"].tolist(), int(tables["scenarios"]["turns"].max())
    start = titles.index(first) if first in titles else 0
    by_panel = {
        name: {key: figure_records(rows) for key, rows in tables[name].groupby(["s", "panel"])}
        for name in ("turns", "cells", "steps")
    }
    drawn: dict[str, Rows] = {name: [] for name in COLUMNS}
    heights = []
    for number, title in enumerate(titles):
        kept, split = (
            {name: by_panel[name][number, panel] for name in by_panel}
            for panel in ("kept", "split")
        )
        first_rows, height = staircase_chart_panel(kept, "Everything kept", most)
        beside, tall = staircase_chart_panel(split, title, most, left=WIDTH + BETWEEN)
        below, bottom = staircase_chart_panel(split, title, most, top=height + 20)
        heights.append((max(height, tall), bottom))
        for at, rows in (("", first_rows), ("beside", beside), ("below", below)):
            for name, own in rows.items():
                drawn[name] += [{"s": number, "at": at, **row} for row in own]
    told = tables["steps"][tables["steps"]["s"] == start].drop_duplicates("panel", keep="last")
    words = "; ".join(f"{row.datums} ({row.counts})" for row in told.itertuples())
    wide, narrow = (max(column) for column in zip(*heights, strict=True))
    return Figure(
        staircase_chart_template(tuple(titles), most, start),
        {
            name: [{key: row.get(key) for key in ("s", "at", *COLUMNS[name])} for row in rows]
            for name, rows in drawn.items()
        },
        description=(
            f"One conversation twice, with a menu of {len(titles)} scenarios and a control for the "
            f"number of turns shown. First {titles[start]}: with prompts that keep everything and "
            f"as it was, {words}. All scenarios stand in the table below the figure."
        ),
        width=WIDE,
        height=wide,
        narrow=narrow,
        bound=fluid_figure_size(),
    )
