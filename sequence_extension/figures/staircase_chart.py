"""Section 1: one conversation twice, as one datum and as several."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import altair as alt

from sequence_extension.figures import cells as draw
from sequence_extension.figures.figure import (
    FORM_FILTER,
    Figure,
    Rows,
    figure_form,
    figure_pixels,
    figure_pixels_down,
    figure_table,
    fluid_figure_size,
)
from sequence_extension.figures.palette import PALETTE, RED
from sequence_extension.staircase import Cell, Panel, Turn

WIDTH, BETWEEN = 346, 34  # pixels of one drawing, and between the two
LEFT, LINE, CELL = 26, 27, 20  # where cells start, a line of them, a cell
DATUM = 64  # pixels of the name of a datum
AGAIN = 11  # pixels of a token that is read again: how many there are is what counts
WIDE = 2 * WIDTH + BETWEEN  # where there is less, the second drawing stands below the first


@cache
def staircase_chart_template(titles: tuple[str, ...], most: int, start: int) -> Mapping[str, Any]:
    """The figure on its tables, with its menu and steps; kept when made."""
    menu = alt.binding_select(options=list(range(len(titles))), labels=titles, name="Show")
    steps = alt.binding_range(min=1, max=most, step=1, name="Turns shown, at most")
    scenario = alt.param(name="scenario", value=start, bind=menu)
    turns = alt.param(name="turns", value=most, bind=steps)

    def shown(table: str, *numbers: str) -> alt.Chart:
        """What of a table stands in the chosen scenario, at this step and in this form."""
        return (
            figure_table(table, "s", "turn", *numbers)
            .transform_filter((alt.datum.s == scenario) & (alt.datum.turn < turns))
            .transform_filter(FORM_FILTER)
        )

    brackets = (
        shown("turns", "left", "right", "top", "bottom")
        .transform_aggregate(
            top="min(top)", bottom="max(bottom)", groupby=["at", "datum", "left", "right"]
        )
        .encode(x=figure_pixels("left"), y=figure_pixels_down("top"))
    )
    cells = shown("cells", "left", "x", "right", "y").encode(
        tooltip=["id:N", "label:N", "kind:N", "mask:N"]
    )
    box = cells.encode(x=figure_pixels("left"), x2="right:Q")
    again = box.transform_filter("datum.kind == '='")  # narrow, a diagonal each: a hatch
    words = shown("words", "shown", "x", "y").transform_filter(
        f"!datum.shown || datum.shown == {turns.name}"
    )
    breaks = shown("breaks", "x", "y", "edge", "line")
    drawing = alt.layer(
        *draw.cell_bracket_layers(brackets, figure_pixels_down("bottom")),
        *draw.cell_layers(cells.transform_filter("datum.kind != '='"), height=CELL),
        again.mark_rect(fill=PALETTE["zero"]["fill"], height=CELL, cornerRadius=1),
        again.encode(y2="y:Q").mark_rule(
            strokeWidth=1.5, yOffset=CELL / 2 - 3, y2Offset=3 - CELL / 2
        ),
        box.transform_filter("datum.mask == '1'").mark_rule(strokeWidth=3, yOffset=CELL / 2 + 3),
        draw.cell_words_layer(words.transform_filter("!datum.bold")),
        draw.cell_words_layer(words.transform_filter("datum.bold"), fontWeight="bold", fontSize=14),
        breaks.mark_tick(color=RED, thickness=3, height=CELL + 6).encode(
            x=figure_pixels("edge"), y=figure_pixels_down("line")
        ),
        *draw.cell_break_sign_layers(breaks),
    )
    return drawing.add_params(figure_form(WIDE), scenario, turns).to_dict()


def staircase_chart_cells(cells: Sequence[Cell], y: int) -> Rows:
    """Cells on lines, each as wide as its text; of what is read again a narrow one per token."""
    drawn, widths = Rows(), list[int]()
    for cell in cells:
        own = {"turn": cell.turn, "kind": cell.kind, "id": cell.id, "mask": cell.mask}
        label, count = draw.cell_label(cell.id, cell.text), 1
        width = max(26, draw.cell_text_width(label) + 10)
        if cell.kind == "=":
            label, count, width = "", cell.tokens, AGAIN
        drawn += [{**own, "label": label}] * count
        widths += [width] * count
    return draw.cell_lines(drawn, widths, LEFT, WIDTH, y, LINE)


def staircase_chart_turn(turn: Turn, y: int, opens: bool) -> dict[str, Rows]:
    """A turn: its name, behind that of its datum where it opens one, and a line for each part.

    The sign of a break stands behind the elements that prompt and running sequence share.
    """
    top, cells, breaks = y, Rows(), Rows()
    x, splits = LEFT + DATUM * opens, turn.shared is not None
    verdict = turn.verdict.replace("\u2715", "splits:") if turn.turn else ""
    words = [(x + 18 * splits, y, f"turn {turn.turn} {verdict}".strip())]
    words += [(LEFT, y, f"datum {turn.datum}")] * opens
    for part in "OA":
        if own := [cell for cell in turn.cells if cell.part == part]:
            y += LINE - 2
            words.append((12, y, part))
            cells += staircase_chart_cells(own, y)
            y = cells[-1]["y"]
    if turn.shared is not None:
        kept = [cell.tokens for cell in turn.cells if cell.kind != "."]
        edge, line = LEFT - 1, top + LINE - 2
        if before := cells[: sum(kept[: turn.shared])]:
            edge, line = before[-1]["right"] + 1, before[-1]["y"]
        breaks.append({"turn": turn.turn, "x": x + 7, "y": top, "edge": edge, "line": line})
    bracket = {"left": 3, "right": 8, "top": top - 8, "bottom": y + 14}
    return {
        "turns": [{"turn": turn.turn, "datum": turn.datum, **bracket}],
        "words": [
            {"turn": turn.turn, "shown": "", "bold": "", "x": x, "y": y, "words": text}
            for x, y, text in words
        ],
        "cells": cells,
        "breaks": breaks,
    }


def staircase_chart_panel(panel: Panel, title: str, most: int) -> tuple[dict[str, Rows], int]:
    """One of the two drawings of a scenario: rows of the figure's tables, and its height."""
    rows: dict[str, Rows] = {"turns": [], "words": [], "cells": [], "breaks": []}
    for shown in range(1, most + 1):
        datums, counts = panel.steps[min(shown, len(panel.steps)) - 1]
        for words, y, bold in ((f"{title}: {datums}", 9, "yes"), (counts, 29, "")):
            own = {"turn": 0, "shown": shown, "bold": bold, "x": 0, "y": y, "words": words}
            rows["words"].append(own)
    y, datum = 52, None
    for turn in panel.turns:
        opens = turn.datum != datum
        drawn = staircase_chart_turn(turn, y + 10 * (opens and datum is not None), opens)
        for name, own_rows in drawn.items():
            rows[name] += own_rows
        y, datum = drawn["turns"][0]["bottom"] + LINE - 14, turn.datum
    return rows, y - 10


def place_staircase_chart(rows: Rows, right: int, down: int, **own: Any) -> Rows:
    """Rows of a drawing at its place in the figure, with what they have in common."""
    pixels = dict.fromkeys(("left", "x", "right", "edge"), right)
    pixels |= dict.fromkeys(("y", "top", "bottom", "line"), down)
    return [
        {**own, **row, **{name: row[name] + pixels[name] for name in row if name in pixels}}
        for row in rows
    ]


def staircase_chart(
    scenarios: Mapping[str, tuple[Panel, Panel]], first: str = "Reasoning stripped"
) -> Figure:
    """The idea: one conversation twice, each turn drawn once, brackets around what is one datum.

    First the prompts keep all that came before; beside it, or below where there is no room, they
    do what the scenario says. Menu and steps are parameters of the chart, so they work without
    Python. `scenarios` are `staircase_panels`; the one named `first` is shown first.
    """
    titles, most = tuple(scenarios), max(len(kept.turns) for kept, _ in scenarios.values())
    start = titles.index(first) if first in titles else 0
    drawn: dict[str, Rows] = {"turns": [], "words": [], "cells": [], "breaks": []}
    height = narrow = 0
    for number, (title, (kept, split)) in enumerate(scenarios.items()):
        above, high = staircase_chart_panel(kept, "Everything kept", most)
        other, tall = staircase_chart_panel(split, title, most)
        height, narrow = max(height, high, tall), max(narrow, high + 20 + tall)
        for name, rows in drawn.items():
            rows += place_staircase_chart(above[name], 0, 0, s=number, at="")
            rows += place_staircase_chart(other[name], WIDTH + BETWEEN, 0, s=number, at="wide")
            rows += place_staircase_chart(other[name], 0, high + 20, s=number, at="narrow")
    steps = [panel.steps[-1] for panel in scenarios[titles[start]]]
    words = "; ".join(f"{datums} ({counts})" for datums, counts in steps)
    return Figure(
        staircase_chart_template(titles, most, start),
        drawn,
        description=(
            f"One conversation twice, with a menu of {len(titles)} scenarios and a control for the "
            f"number of turns shown. First {titles[start]}: with prompts that keep everything and "
            f"as it was, {words}. All scenarios stand in the table below the figure."
        ),
        width=WIDE,
        height=height,
        narrow=narrow,
        bound=fluid_figure_size(),
    )
