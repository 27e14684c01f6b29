"""The one token cell: as wide as its text, in the colour of its role; and what stands by it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.figures.figure import named, pixels
from sequence_extension.figures.palette import GREY, KINDS, PALETTE, RED
from sequence_extension.figures.theme import page_text
from sequence_extension.text import visible_text

GAP = 2  # pixels between two cells
EMPTY = {"fill": "transparent", "ink": "currentColor"}
EDGE = 8  # pixels left of the first one, for half the sign of a break
# Pixels of a letter at 12 pixels' size in the widest of the common sans-serif fonts.
NARROW, WIDE = frozenset("ijlI.,:;'|! ()[]{}ft/"), frozenset("mwMW@%<>+=_—…␣↵⇥")


@lru_cache(maxsize=10_000)
def text_width(text: str) -> int:
    """Pixels that a text takes at most, in the fonts that readers have."""
    return round(
        sum(
            5 if char in NARROW else 11 if char in WIDE else 7.7 if char < "\u0300" else 12.5
            for char in text
        )
    )


@lru_cache(maxsize=10_000)
def token_label(identifier: str, text: str, limit: int = 24) -> str:
    """What stands in a cell: the text where it is known, a marker without its bars; else the id."""
    bare = re.sub(r"^<[|\uff5c](.+)[|\uff5c]>$", r"<\1>", text)
    return visible_text(bare, limit) if bare else identifier


def places(
    labels: Iterable[Sequence[str]], least: int = 30, start: int = EDGE
) -> list[tuple[int, int, int]]:
    """Pixels of cells side by side, each as wide as its widest label: left, middle, right.

    Args:
        labels: Of each cell.
        least: Pixels at least.
        start: Left of the first.
    """
    found = []
    for column in labels:
        width = max(least, 12 + max(map(text_width, column)))
        found.append((start, start + (width - GAP) // 2, start + width - GAP))
        start += width
    return found


def stretches(
    owners: Iterable[tuple[Any, str] | None], lefts: Iterable[int], rights: Iterable[int]
) -> list[tuple[int, int, str]]:
    """Runs of cells of one turn and part: (left, right, label), the letter once at their start.

    Args:
        owners: Turn and part of each cell; None where there is no cell.
        lefts, rights: Their pixels.
    """
    runs: list[list[Any]] = []
    before: tuple[Any, str] = (None, "")
    goes_on = False
    for owner, left, right in zip(owners, lefts, rights, strict=False):
        if owner is not None and owner == before and goes_on:
            runs[-1][1] = right
        elif owner is not None:
            turn, part = owner
            longer = [] if turn == before[0] else [f"turn {turn} {part}", f"{turn} {part}"]
            runs.append([left, right, [*longer, part]])
            before = owner
        goes_on = owner is not None
    return [
        (
            left,
            right,
            next((word for word in words if text_width(word) <= right - left), words[-1][0]),
        )
        for left, right, words in runs
    ]


def token_cells(base: alt.Chart, kinds: str = "OAM0", **box: Any) -> list[alt.Chart]:
    """Layers of token cells in the colours of their kinds, see `filled_cells`."""
    return filled_cells(base, token_looks(kinds), **box)


def token_looks(kinds: str) -> dict[str, Mapping[str, str]]:
    """Fill and ink of these kinds of token, and of an empty place."""
    return {**{kind: PALETTE[KINDS[kind]] for kind in kinds}, ".": EMPTY}


def fill_of(looks: Mapping[str, Mapping[str, str]]) -> alt.Fill:
    """Encoding of the column kind by its fill; layers of one figure share its scale."""
    scale = alt.Scale(domain=[*looks], range=[look["fill"] for look in looks.values()])
    return alt.Fill("kind:N", scale=scale, legend=None)


def filled_cells(
    base: alt.Chart, looks: Mapping[str, Mapping[str, str]], **box: Any
) -> list[alt.Chart]:
    """Layers of filled cells with their labels; an empty place has a dashed border.

    Args:
        base: Data with left, x, right (pixels), kind and label, and an encoding of y.
        looks: Fill and ink of every kind that can occur.
        box: More of the mark.
    """
    inks = {kind: look["ink"] for kind, look in looks.items() if look["ink"][0] == "#"}
    pale = [kind for kind in looks if kind not in inks]
    words = base.encode(x=pixels("x"), text="label:N")
    ink = alt.Scale(domain=[*inks], range=[*inks.values()])
    empty = alt.FieldEqualPredicate(field="kind", equal=".")
    return [
        base.mark_rect(strokeDash=[3, 3], **box).encode(
            x=pixels("left"),
            x2="right:Q",
            fill=fill_of(looks),
            stroke=alt.when(empty).then(alt.value(GREY)).otherwise(alt.value("transparent")),
        ),
        words.transform_filter(alt.FieldOneOfPredicate(field="kind", oneOf=[*inks]))
        .mark_text()
        .encode(color=alt.Color("kind:N", scale=ink, legend=None)),
        words.transform_filter(alt.FieldOneOfPredicate(field="kind", oneOf=pale)).mark_text(
            **page_text()
        ),
    ]


def break_words(places: Iterable[tuple[int, str]], width: int) -> pd.DataFrame:
    """The table `breaks` of a figure: where (left of a cell), and the words at the mark.

    Args:
        places: Pixels and words of each break.
        width: Pixels of the plot; words that would not fit stand left of their mark.
    """
    rows = []
    for left, label in places:
        room = text_width(label) + 14
        rows.append(
            (left - 1, left + 12 if left + room <= width or left < room else left - room, label)
        )
    return pd.DataFrame(rows, columns=["x", "words", "label"])


def extent(right: int, breaks: pd.DataFrame) -> int:
    """Pixels that cells up to `right` and the words at breaks take."""
    ends = [words + text_width(label) for _, words, label in breaks.itertuples(index=False)]
    return int(max([right + GAP, *ends]))


def focus_on(breaks: pd.DataFrame) -> tuple[int, int] | None:
    """Pixels of the first break with its words, of `break_words`."""
    if breaks.empty:
        return None
    x, words, label = breaks.iloc[0]
    return max(0, min(x - 10, words)), max(x + 60, words + text_width(label))


def break_layers(top: alt.YDatum, bottom: alt.Y2Datum) -> list[alt.Chart]:
    """The breaks of a figure, from its table `breaks`: a red line, its sign and its words.

    Args:
        top, bottom: The rows between which the line runs; the sign stands above the first.
    """
    base = alt.Chart(named("breaks", "x", "words")).encode(x=pixels("x"), y=top)
    above: dict[str, Any] = {"yOffset": -12}
    return [
        base.mark_rule(color=RED, strokeWidth=3, y2Offset=3, **above).encode(y2=bottom),
        base.mark_text(**page_text(align="left", **above)).encode(
            x=pixels("words"), text="label:N"
        ),
        *break_sign(base, **above),
    ]


def break_sign(base: alt.Chart, **mark: Any) -> list[alt.Chart]:
    """The one sign of a break in every figure: a white cross on a red square, at base's x and y."""
    return [
        base.mark_point(shape="square", size=169, filled=True, opacity=1, color=RED, **mark),
        base.mark_text(text="✕", color=PALETTE["break"]["ink"], **mark),
    ]


def hatched(base: alt.Chart, height: int) -> list[alt.Chart]:
    """Narrow cells with a diagonal each, which makes a hatch: what was read before.

    Args:
        base: Data with left and right (pixels, a few apart), and an encoding of y.
        height: Pixels.
    """
    half = height / 2 - 3
    place = base.encode(x=pixels("left"), x2="right:Q")
    slope = place.encode(y2=alt.Y2("y:Q"))
    return [
        place.mark_rect(fill=PALETTE["zero"]["fill"], height=height, cornerRadius=1),
        slope.mark_rule(color=GREY, strokeWidth=1.5, yOffset=half, y2Offset=-half),
    ]


def stripes(
    left: int, top: int, right: int, bottom: int, pitch: int
) -> list[tuple[int, int, int, int]]:
    """Diagonals over a wide box, which make a hatch: (left, right, top, bottom) of each.

    Args:
        left, top, right, bottom: Pixels of the box.
        pitch: Pixels from one to the next.
    """
    height = bottom - top
    lines = []
    for foot in range(left - height + pitch, right, pitch):
        start, end = max(foot, left), min(foot + height, right)
        if start < end:
            lines.append((start, end, bottom - (start - foot), bottom - (end - foot)))
    return lines
