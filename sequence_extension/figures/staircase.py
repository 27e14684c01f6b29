"""Section 1: one conversation twice, as one datum and as several."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.figures.cells import (
    GAP,
    break_sign,
    hatched,
    text_width,
    token_cells,
    token_label,
)
from sequence_extension.figures.figure import Figure, named, pixels, plot, records
from sequence_extension.figures.palette import GREY, RED
from sequence_extension.figures.theme import page_text

WIDTH, BETWEEN = 346, 34  # pixels of one drawing, and between the two
LEFT, LINE, CELL = 26, 27, 20  # where cells start, a line of them, a cell
DATUM = 64  # pixels of the name of a datum
AGAIN = 11  # pixels of a token that is read again: how many there are is what counts
KEPT = "Everything kept"
PANELS = {"split": 0, "kept": WIDTH + BETWEEN}


def staircase_controls(
    titles: tuple[str, ...], most: int, start: int
) -> tuple[alt.Parameter, alt.Parameter]:
    """Menu and steps, as parameters of the chart; arguments as for `staircase_template`."""
    menu = alt.binding_select(options=list(range(len(titles))), labels=titles, name="Show")
    scenario = alt.param(name="scenario", value=start, bind=menu)
    steps = alt.binding_range(min=1, max=most, step=1, name="Turns shown, at most")
    turns = alt.param(name="turns", value=most, bind=steps)
    return scenario, turns


@cache
def staircase_template(titles: tuple[str, ...], most: int, start: int) -> Mapping[str, Any]:
    """The figure on its tables `cells`, `words`, `heads`, `brackets`, `breaks`; kept when made.

    Args:
        titles: Of the scenarios, for the menu.
        most: Turns at most.
        start: The scenario shown first.
    """
    scenario, turns = staircase_controls(titles, most, start)

    def at_step(table: str, *numbers: str) -> alt.Chart:
        """A table of what stands for a certain number of turns."""
        return alt.Chart(named(table, "s", "shown", *numbers)).transform_filter(
            (alt.datum.s == scenario) & (alt.datum.shown == turns)
        )

    def so_far(table: str, *numbers: str) -> alt.Chart:
        """A table of what appears with its turn."""
        return alt.Chart(named(table, "s", "turn", *numbers)).transform_filter(
            (alt.datum.s == scenario) & (alt.datum.turn < turns)
        )

    def down(column: str) -> alt.Y:
        return alt.Y(f"{column}:Q", scale=None, axis=None)

    cells = so_far("cells", "left", "x", "right", "y").encode(
        y=down("y"), tooltip=["id:N", "label:N", "kind:N", "mask:N"]
    )
    box = cells.encode(x=pixels("left"), x2="right:Q")
    again = alt.FieldEqualPredicate(field="kind", equal="=")
    trained = alt.FieldEqualPredicate(field="mask", equal="1")
    words = so_far("words", "x", "y").encode(x=pixels("x"), y=down("y"), text="words:N")
    heads = at_step("heads", "x", "y").encode(x=pixels("x"), y=down("y"), text="words:N")
    title = page_text(align="left", fontSize=14, fontWeight="bold")
    bracket = at_step("brackets", "left", "right", "top", "bottom")
    rule = bracket.mark_rule(color=GREY, strokeWidth=2, strokeCap="square")
    breaks = so_far("breaks", "x", "y", "edge", "line").encode(x=pixels("x"), y=down("y"))
    return (
        alt.layer(
            rule.encode(x=pixels("left"), y=down("top"), y2="bottom:Q"),
            *(
                rule.encode(x=pixels("left"), x2="right:Q", y=down(end))
                for end in ("top", "bottom")
            ),
            *token_cells(cells.transform_filter("datum.kind != '='"), height=CELL),
            *hatched(cells.transform_filter(again), CELL),
            box.transform_filter(trained).mark_rule(
                color=GREY, strokeWidth=3, yOffset=CELL / 2 + 3
            ),
            words.mark_text(**page_text(align="left")),
            heads.transform_filter("datum.bold == 'yes'").mark_text(**title),
            heads.transform_filter("datum.bold == 'no'").mark_text(**page_text(align="left")),
            breaks.mark_tick(
                color=RED, opacity=1, thickness=3, height=CELL + 6, orient="vertical"
            ).encode(x=pixels("edge"), y=down("line")),
            *break_sign(breaks),
        )
        .add_params(scenario, turns)
        .to_dict()
    )


@dataclass
class Drawing:
    """One of the two drawings as it is laid out from the top: what stands where.

    Attributes:
        shift: Pixels from the left of the figure.
        y: Middle of the line that was filled last.
        cells, words, breaks: Rows of the figure's tables.
        turns: Top and bottom of each turn.
    """

    shift: int
    y: int = 52
    cells: list[dict[str, Any]] = field(default_factory=list)
    words: list[dict[str, Any]] = field(default_factory=list)
    breaks: list[dict[str, Any]] = field(default_factory=list)
    turns: dict[int, tuple[int, int]] = field(default_factory=dict)

    def say(self, turn: int, words: str, x: int) -> None:
        """Words on the line."""
        self.words.append({"turn": turn, "x": self.shift + x, "y": self.y, "words": words})

    def fill(self, turn: int, part: str, row: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
        """Cells on lines of their own, from the left; returns where what is new begins."""
        self.y += LINE - 2
        self.say(turn, part, 12)
        x, edge, shared = LEFT, (LEFT, self.y), True
        for cell in row:
            again = cell["kind"] == "="
            shared = shared and again
            label = "" if again else token_label(cell["id"], cell["text"])
            width = AGAIN if again else max(26, text_width(label) + 10)
            for _ in range(cell["tokens"] if again else 1):
                if x + width > WIDTH:
                    x, self.y = LEFT, self.y + LINE
                left = self.shift + x
                place = {"left": left, "x": left + (width - GAP) // 2, "right": left + width - GAP}
                self.cells.append({**cell, **place, "y": self.y, "label": label})
                x += width
            if shared:
                edge = (x, self.y)
        return edge

    def add(self, turn: Mapping[str, Any], cells: Sequence[Mapping[str, Any]], opens: bool) -> None:
        """A turn: its name, behind that of its datum where it opens one, and its two lines."""
        number = turn["turn"]
        top = self.y = self.y + 10 * (opens and number > 0)
        if opens:
            self.say(number, f"datum {turn['datum']}", LEFT)
        x = LEFT + DATUM * opens
        splits = turn["verdict"].startswith("\u2715")
        verdict = turn["verdict"].replace("\u2715", "splits:") if number else ""
        sign = {"turn": number, "x": self.shift + x + 7, "y": self.y}
        self.say(number, f"turn {number} {verdict}".strip(), x + 18 * splits)
        for part in ("O", "A"):
            if row := [cell for cell in cells if cell["part"] == part]:
                edge, line = self.fill(number, part, row)
                if splits and part == "O":
                    self.breaks.append(sign | {"edge": self.shift + edge - 1, "line": line})
        self.turns[number] = (top - 8, self.y + 14)
        self.y += LINE


Rows = list[dict[str, Any]]


def by_panel(frame: pd.DataFrame) -> dict[tuple[int, str], Rows]:
    """The rows of a table of `staircase_tables` by scenario and panel."""
    rows: dict[tuple[int, str], Rows] = {}
    for row in records(frame):
        rows.setdefault((row["s"], row["panel"]), []).append(row)
    return rows


def draw_panel(turns: Rows, cells: Rows, panel: str) -> Drawing:
    """One scenario of `staircase_tables`, laid out."""
    drawing = Drawing(PANELS[panel])
    datum = None
    for turn in turns:
        own = [cell for cell in cells if cell["turn"] == turn["turn"]]
        drawing.add(turn, own, turn["datum"] != datum)
        datum = turn["datum"]
    return drawing


def panel_steps(
    drawing: Drawing, turns: Rows, steps: Rows, title: str, most: int
) -> tuple[Rows, Rows]:
    """What changes with the number of turns shown: the heads, and the brackets of the datums."""
    heads, brackets = [], []
    x = drawing.shift
    for shown in range(1, most + 1):
        step = steps[min(shown, len(steps)) - 1]
        at = {"shown": shown}
        heads.append({**at, "x": x, "y": 9, "bold": "yes", "words": f"{title}: {step['datums']}"})
        heads.append({**at, "x": x, "y": 29, "bold": "no", "words": step["counts"]})
        datums: dict[int, tuple[int, int]] = {}
        for turn in turns[:shown]:
            top, bottom = drawing.turns[turn["turn"]]
            datums[turn["datum"]] = (datums.get(turn["datum"], (top, 0))[0], bottom)
        for top, bottom in datums.values():
            brackets.append({**at, "left": x + 3, "right": x + 8, "top": top, "bottom": bottom})
    return heads, brackets


def staircase_chart(
    tables: Mapping[str, pd.DataFrame], first: str = "Reasoning stripped"
) -> Figure:
    """The idea: one conversation twice, each turn drawn once, brackets around what is one datum.

    Left, the prompts do what the scenario says; right, they keep all that came before. Menu and
    steps are parameters of the chart, so they work without Python.

    Args:
        tables: Of `staircase_tables`.
        first: Title of the scenario that is shown first.
    """
    scenarios = tables["scenarios"]
    titles, most = scenarios["title"].tolist(), int(scenarios["turns"].max())
    start = titles.index(first) if first in titles else 0
    rows: dict[str, Rows] = {name: [] for name in ("cells", "words", "breaks", "heads", "brackets")}
    turns, cells_of, steps = (by_panel(tables[name]) for name in ("turns", "cells", "steps"))
    height = 0
    for key in turns:
        drawing = draw_panel(turns[key], cells_of[key], key[1])
        title = titles[key[0]] if key[1] == "split" else KEPT
        heads, brackets = panel_steps(drawing, turns[key], steps[key], title, most)
        drawn = {"heads": heads, "brackets": brackets}
        drawn |= {name: getattr(drawing, name) for name in ("cells", "words", "breaks")}
        for name, own in drawn.items():
            rows[name] += [{"s": key[0], **row} for row in own]
        height = max(height, drawing.y)
    cells = pd.DataFrame(rows["cells"])
    columns = ["s", "turn", "left", "x", "right", "y", "kind", "label", "id", "mask"]
    width = WIDTH + BETWEEN + WIDTH
    told = tables["steps"][tables["steps"]["s"] == start].drop_duplicates("panel", keep="last")
    words = "; ".join(f"{row.datums} ({row.counts})" for row in told.itertuples())
    return Figure(
        staircase_template(tuple(titles), most, start),
        {**{name: pd.DataFrame(row) for name, row in rows.items()}, "cells": cells[columns]},
        description=(
            f"One conversation twice, with a menu of {len(titles)} scenarios and a control for the "
            f"number of turns shown. First {titles[start]}: with prompts that keep everything and "
            f"as it was, {words}. All scenarios stand in the table below the figure."
        ),
        width=width,
        height=height,
        bound=plot(width, height),
    )
