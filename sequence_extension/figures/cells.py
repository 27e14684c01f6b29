"""The one token cell: as wide as its text, in the colour of its role; and what stands by it."""

import itertools
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import altair as alt

from sequence_extension.figures.figure import (
    Figure,
    Rows,
    figure_pixels,
    figure_table,
    fixed_figure_size,
)
from sequence_extension.figures.palette import GREY, LOOKS, PALETTE, RED
from sequence_extension.figures.theme import theme_text
from sequence_extension.text import visible_text

GAP = 2  # pixels between two cells
EDGE = 8  # pixels left of the first one, for half the sign of a break
LANE, TOP = 28, 24  # pixels of a lane, and above the first one, for the words at a break
# Pixels of a letter, if not as most are, at 12 pixels' size in the widest of the common fonts.
LETTERS = dict.fromkeys("ijlI.,:;'|! ()[]{}ft/", 5) | dict.fromkeys("mwMW@%<>+=_—…␣↵⇥", 12)

# Kinds whose label has the colour of the page.
PALE = [kind for kind, look in LOOKS.items() if look["ink"] == "currentColor"]
# Weight of words, by their column bold.
BOLD = alt.ExprRef("datum.bold ? 'bold' : 'normal'")
# Fill and ink of a cell, by its kind.
FILLS, INKS = (
    alt.Scale(domain=[*LOOKS], range=[look[part] for look in LOOKS.values()])
    for part in ("fill", "ink")
)
FILL, INK = alt.Fill("kind:N", scale=FILLS), alt.Color("kind:N", scale=INKS)


@lru_cache(maxsize=10_000)
def cell_text_width(text: str) -> int:
    """Pixels that a text takes at most, in the fonts that readers have."""
    return round(sum(LETTERS.get(char, 7.7 if char < "\u0300" else 12.5) for char in text))


@lru_cache(maxsize=10_000)
def cell_label(identifier: str, text: str) -> str:
    """What stands in a cell: the text where it is known, a marker without its bars; else the id."""
    bare = re.sub(r"^<[|\uff5c](.+)[|\uff5c]>$", r"<\1>", text)
    return visible_text(bare, 24) if bare else identifier


def cell_places(labels: Iterable[Sequence[str]]) -> list[tuple[int, int, int]]:
    """Pixels of cells side by side, each as wide as its widest label: left, middle, right."""
    left, places = EDGE, []
    for column in labels:
        width = max(30, 12 + max(map(cell_text_width, column)))
        places.append((left, left + (width - GAP) // 2, left + width - GAP))
        left += width
    return places


def cell_lines(
    cells: Rows, widths: Iterable[int], left: int, right: int, y: int, line: int
) -> Rows:
    """Cells of these widths side by side between `left` and `right`, in lines from y downwards."""
    x, rows = left, Rows()
    for cell, width in zip(cells, widths, strict=True):
        if x + width > right:
            x, y = left, y + line
        end = x + width - GAP
        rows.append({**cell, "left": x, "x": x + (width - GAP) // 2, "right": end, "y": y})
        x += width
    return rows


def cell_stretches(
    cells: Iterable[tuple[tuple[Any, str] | None, int, int]], breaks: Sequence[int] = ()
) -> Rows:
    """Runs of cells of one turn and part: left, right, label, the letter once at their start.

    Args:
        cells: Turn and part of each, or None where there is no cell; left and right (pixels).
        breaks: Lines (pixels) that no label crosses.
    """
    rows, before = Rows(), None
    for owner, run in itertools.groupby(cells, key=operator.itemgetter(0)):
        (_, left, right), *more = run
        if owner is None:
            continue
        turn, part = owner
        right = more[-1][2] if more else right
        words = [f"turn {turn}: {part}", f"{turn}: {part}", part]
        if turn == before and left not in breaks:  # what is right of a break may be all in view
            words = [part]
        room = min([right, *(at - 8 for at in breaks if left < at < right)]) - left
        label = next((word for word in words if cell_text_width(word) <= room), part[0])
        rows.append({"left": left, "right": right, "label": label})
        before = turn
    return rows


def cell_layers(base: alt.Chart, **box: Any) -> list[alt.Chart]:
    """Layers of filled cells with their labels; an empty place has a dashed border.

    `base` has the columns left, x, right (pixels), kind and label, and an encoding of y.
    """
    empty = alt.when("datum.kind == '.'").then(alt.value(GREY)).otherwise(alt.value("transparent"))
    boxes = base.mark_rect(strokeDash=[3, 3], **box).encode(
        x=figure_pixels("left"), x2="right:Q", fill=FILL, stroke=empty
    )
    return [boxes, *cell_label_layers(base.encode(x=figure_pixels("x")))]


def cell_label_layers(base: alt.Chart, **mark: Any) -> list[alt.Chart]:
    """Layers of labels, each in the ink of its fill; where that is pale, in the page's colour."""
    labels = base.encode(text="label:N")
    inked, pale = (
        labels.transform_filter(f"indexof({PALE}, datum.kind) {at} 0") for at in ("<", ">=")
    )
    return [inked.mark_text(**mark).encode(color=INK), pale.mark_text(**theme_text(**mark))]


def cell_words_layer(base: alt.Chart, column: str = "words", **mark: Any) -> alt.Chart:
    """A layer of the words of a column, from the left, in the colour of the page."""
    text = {"align": "left", "lineBreak": "\n", "lineHeight": 13, **mark}
    layer: alt.Chart = base.mark_text(**theme_text(**text))
    return layer.encode(text=f"{column}:N")


def cell_turn_layers(y: Any) -> list[alt.Chart]:
    """Stretches of one turn and part, from the table `turns`: a line with its label."""
    turns = figure_table("turns", "left", "right").encode(x=figure_pixels("left"), y=y)
    return [
        turns.mark_rule(strokeWidth=2, yOffset=10).encode(x2="right:Q"),
        cell_words_layer(turns, "label", dx=3),
    ]


def cell_bracket_layers(base: alt.Chart, bottom: alt.Y) -> list[alt.Chart]:
    """A bracket at the left of rows, from base's x and y to the columns `right` and `bottom`."""
    line = base.mark_rule(strokeWidth=2, strokeCap="square")
    ends = line.encode(x2="right:Q")
    return [line.encode(y2=f"{bottom.shorthand}"), ends, ends.encode(y=bottom)]


def cell_break_places(places: Iterable[tuple[int, str]], width: int) -> Rows:
    """The table `breaks`: where (left of a cell), and words, left of it if they would not fit."""
    rows = []
    for left, label in places:
        room = cell_text_width(label) + 14
        words = left + 12 if left + room <= width or left < room else left - room
        rows.append({"x": left - 1, "words": words, "label": label})
    return rows


def cell_break_layers(top: alt.YDatum, bottom: alt.Y2Datum) -> list[alt.Chart]:
    """From the table `breaks`: a red line between two rows, its sign and words above the first."""
    base = figure_table("breaks", "x", "words").encode(y=top)
    above: dict[str, Any] = {"yOffset": -12}
    return [
        base.mark_rule(color=RED, strokeWidth=3, y2Offset=3, **above).encode(y2=bottom),
        cell_words_layer(base.encode(x=figure_pixels("words")), "label", **above),
        *cell_break_sign_layers(base, **above),
    ]


def cell_break_sign_layers(base: alt.Chart, **mark: Any) -> list[alt.Chart]:
    """The one sign of a break in every figure: a white cross on a red square, at base's x and y."""
    return [
        base.mark_point(shape="square", size=169, color=RED, **mark),
        base.mark_text(text="✕", color=PALETTE["break"]["ink"], **mark),
    ]


def cell_lanes_figure(
    template: Mapping[str, Any], lanes: Sequence[str], tables: Mapping[str, Rows], description: str
) -> Figure:
    """A figure of aligned lanes, whose names the page keeps in view, and the first break with them.

    The template declares `lanes` as bands of y, from above; their names are taken out of it. Of
    the tables, `cells` and `breaks` (of `cell_break_places`) say how wide it is.
    """
    focus = [
        (max(0, min(row["x"] - 10, row["words"])), row["words"] + cell_text_width(row["label"]))
        for row in tables["breaks"]
    ]
    width = max([*(end for _, end in focus), *(cell["right"] + GAP for cell in tables["cells"])])
    height = LANE * len(lanes)
    nameless = {**template["config"], "axisY": {"labels": False}}
    return Figure(
        template,
        tables,
        description,
        width=width,
        height=height + TOP,
        lanes=[(TOP + LANE * at + LANE // 2, lane) for at, lane in enumerate(lanes)],
        focus=focus[0] if focus else None,
        bound=fixed_figure_size(width, height, TOP, config=nameless),
    )
