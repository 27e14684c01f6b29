"""The one token cell: as wide as its text, in the colour of its role; and what stands by it."""

import itertools
import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import altair as alt

from sequence_extension.figures.figure import (
    Figure,
    Rows,
    figure_data,
    figure_pixels,
    fixed_figure_size,
)
from sequence_extension.figures.palette import GREY, LOOKS, PALETTE, RED
from sequence_extension.figures.theme import theme_text
from sequence_extension.text import visible_text

GAP = 2  # pixels between two cells
EDGE = 8  # pixels left of the first one, for half the sign of a break
LANE, TOP = 28, 24  # pixels of a lane, and above the first one, for the words at a break
# Pixels of a letter at 12 pixels' size in the widest of the common sans-serif fonts.
NARROW, WIDE = frozenset("ijlI.,:;'|! ()[]{}ft/"), frozenset("mwMW@%<>+=_—…␣↵⇥")

# Fill and ink of a cell, by its kind.
FILL, INK = (
    channel(
        "kind:N", scale=alt.Scale(domain=[*LOOKS], range=[look[part] for look in LOOKS.values()])
    )
    for channel, part in ((alt.Fill, "fill"), (alt.Color, "ink"))
)


@lru_cache(maxsize=10_000)
def cell_text_width(text: str) -> int:
    """Pixels that a text takes at most, in the fonts that readers have."""
    return round(
        sum(
            5 if char in NARROW else 12 if char in WIDE else 7.7 if char < "\u0300" else 12.5
            for char in text
        )
    )


@lru_cache(maxsize=10_000)
def cell_label(identifier: str, text: str) -> str:
    """What stands in a cell: the text where it is known, a marker without its bars; else the id."""
    bare = re.sub(r"^<[|\uff5c](.+)[|\uff5c]>$", r"<\1>", text)
    return visible_text(bare, 24) if bare else identifier


def place_cells(
    widths: Iterable[int], start: int = EDGE, end: float = math.inf
) -> Iterator[tuple[int, int, int, int]]:
    """Cells side by side, in lines that end before `end`: left, middle, right (pixels), line."""
    left, line = start, 0
    for width in widths:
        if left + width > end:
            left, line = start, line + 1
        yield left, left + (width - GAP) // 2, left + width - GAP, line
        left += width


def cell_places(labels: Iterable[Sequence[str]], least: int = 30) -> list[tuple[int, int, int]]:
    """Pixels of cells side by side, each as wide as its widest label: left, middle, right."""
    widths = (max(least, 12 + max(map(cell_text_width, column))) for column in labels)
    return [box[:3] for box in place_cells(widths)]


def cell_stretches(
    owners: Iterable[tuple[Any, str] | None],
    lefts: Iterable[int],
    rights: Iterable[int],
    breaks: Sequence[int] = (),
) -> Rows:
    """Runs of cells of one turn and part: left, right, label, the letter once at their start.

    No label crosses a line at one of `breaks` (pixels). Where there is no cell, the owner is None.
    """
    labelled, before = Rows(), None
    cells = zip(owners, lefts, rights, strict=False)
    for owner, run in itertools.groupby(cells, key=operator.itemgetter(0)):
        (_, left, right), *more = run
        if owner is None:
            continue
        turn, part = owner
        right = more[-1][2] if more else right
        words = [part] if turn == before else [f"turn {turn} {part}", f"{turn} {part}", part]
        room = min([right, *(at - 8 for at in breaks if left < at < right)]) - left
        label = next((word for word in words if cell_text_width(word) <= room), part[0])
        labelled.append({"left": left, "right": right, "label": label})
        before = turn
    return labelled


def cell_layers(base: alt.Chart, **box: Any) -> list[alt.Chart]:
    """Layers of filled cells with their labels; an empty place has a dashed border.

    `base` has the columns left, x, right (pixels), kind and label, and an encoding of y.
    """
    empty = alt.when("datum.kind == '.'").then(alt.value(GREY)).otherwise(alt.value("transparent"))
    return [
        base.mark_rect(strokeDash=[3, 3], **box).encode(
            x=figure_pixels("left"), x2="right:Q", fill=FILL, stroke=empty
        ),
        *cell_label_layers(base.encode(x=figure_pixels("x"))),
    ]


def cell_label_layers(base: alt.Chart, **mark: Any) -> list[alt.Chart]:
    """Layers of labels, each in the ink of its fill; where that is pale, in the page's colour."""
    inked, pale = (
        base.encode(text="label:N").transform_filter(
            alt.FieldOneOfPredicate(
                field="kind",
                oneOf=[kind for kind, look in LOOKS.items() if (look["ink"][0] == "#") == fixed],
            )
        )
        for fixed in (True, False)
    )
    return [inked.mark_text(**mark).encode(color=INK), pale.mark_text(**theme_text(**mark))]


def cell_words_layer(base: alt.Chart, column: str = "words", **mark: Any) -> alt.Chart:
    """A layer of the words of a column, from the left, in the colour of the page."""
    text = {"align": "left", "lineBreak": "\n", "lineHeight": 13, **mark}
    layer: alt.Chart = base.mark_text(**theme_text(**text))
    return layer.encode(text=f"{column}:N")


def cell_bold_words_layers(base: alt.Chart, **bold: Any) -> list[alt.Chart]:
    """Layers of the column words; in bold, and as said, where the column bold is set."""
    return [
        cell_words_layer(base.transform_filter("!datum.bold")),
        cell_words_layer(base.transform_filter("datum.bold"), fontWeight="bold", **bold),
    ]


def cell_turn_layers(y: Any) -> list[alt.Chart]:
    """Stretches of one turn and part, from the table `turns`: a line with its label."""
    turns = alt.Chart(figure_data("turns", "left", "right")).encode(x=figure_pixels("left"), y=y)
    return [
        turns.mark_rule(strokeWidth=2, yOffset=10).encode(x2="right:Q"),
        cell_words_layer(turns, "label", dx=3),
    ]


def cell_break_places(places: Iterable[tuple[int, str]], width: int) -> Rows:
    """The table `breaks`: where (left of a cell), and words, left of it if they would not fit."""
    rows = []
    for left, label in places:
        room = cell_text_width(label) + 14
        words = left + 12 if left + room <= width or left < room else left - room
        rows.append({"x": left - 1, "words": words, "label": label})
    return rows


def cell_lanes_figure(
    template: Mapping[str, Any], lanes: Sequence[str], tables: Mapping[str, Rows], description: str
) -> Figure:
    """A figure of aligned lanes, whose names the page keeps in view, and the first break with them.

    The template declares `lanes` as bands of y, from above; their names are taken out of it. Of
    the tables, `cells` and `breaks` (of `cell_break_places`) say how wide it is.
    """
    breaks = tables["breaks"]
    ends = [row["words"] + cell_text_width(row["label"]) for row in breaks]
    width = max([*ends, *(cell["right"] + GAP for cell in tables["cells"])])
    height = LANE * len(lanes)
    firsts = [
        (max(0, min(row["x"] - 10, row["words"])), end)
        for row, end in zip(breaks, ends, strict=True)
    ]
    nameless = {**template["config"], "axisY": {"labels": False}}
    return Figure(
        template,
        tables,
        description,
        width=width,
        height=height + TOP,
        lanes=[(TOP + LANE * at + LANE // 2, lane) for at, lane in enumerate(lanes)],
        focus=next(iter(firsts), None),
        bound=fixed_figure_size(width, height, TOP, config=nameless),
    )


def cell_break_layers(top: alt.YDatum, bottom: alt.Y2Datum) -> list[alt.Chart]:
    """From the table `breaks`: a red line between two rows, its sign and words above the first."""
    base = alt.Chart(figure_data("breaks", "x", "words")).encode(x=figure_pixels("x"), y=top)
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
