"""A finished figure, and the pieces that several figures share."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt
import pandas as pd

from sequence_extension.figures.figure import Figure as Figure
from sequence_extension.figures.palette import KINDS, PALETTE
from sequence_extension.text import wrap_words

THEMED_TEXT: dict[str, Any] = {"style": "guide-label", "filled": False, "strokeOpacity": 0}
PART_WORDS = "{O: 'observation', A: 'action', M: 'action, masked'}[datum.kind]"


def vega_figure(
    layers: Sequence[Mapping[str, Any]],
    data: Mapping[str, pd.DataFrame],
    *,
    description: str,
    width: int,
    height: int,
    pad: tuple[int, int, int, int],
    title: str = "",
    fluid: bool = False,
    focus: float | None = None,
    **spec: Any,
) -> Figure:
    """Put a layered figure together: data once by name, no background, no border, no menu.

    Args:
        layers: Vega-Lite layers; each names its data with `csv_source`.
        data: The tables, by name.
        description: What is to be seen, in words.
        width, height: Pixels of the plot.
        pad: Pixels around it (top, right, bottom, left); nothing is drawn beyond them.
        title: The finding; left out when empty.
        fluid: Let it shrink with the page.
        focus: Pixels from the plot's left to what is to be in view first on a narrow page.
        spec: More top-level properties (encoding, params).
    """
    top, right, bottom, left = pad
    lines = wrap_words(title, max(24, width // 7)) if title else []
    if lines:
        top += 16 * len(lines) + 6
        spec["title"] = {"text": lines, "anchor": "start", "fontSize": 13, "frame": "group"}
    return Figure(
        {
            "$schema": alt.SCHEMA_URL,
            "background": "transparent",
            "config": {"view": {"stroke": None}},
            "usermeta": {"embedOptions": {"actions": False}},
            "autosize": {"type": "fit-x", "contains": "padding"} if fluid else "none",
            # what fits itself to the page makes room for its own axes and names
            "padding": 4 if fluid else {"top": top, "right": right, "bottom": bottom, "left": left},
            "width": "container" if fluid else width,
            "height": height,
            **spec,
            "layer": without_types(list(layers), spec.get("encoding", {})),
        },
        data,
        description,
        width + left + right,
        height + top + bottom,
        fluid=fluid,
        focus=None if focus is None else (round(left + focus) - 72, round(left + focus) + 136),
    )


def without_types(layers: Any, known: Mapping[str, Any]) -> Any:
    """Layers without the types of x and y that they inherit from the encoding around them."""
    if isinstance(layers, list):
        return [without_types(layer, known) for layer in layers]
    layer = dict(layers)
    if "encoding" in layer:
        layer["encoding"] = {
            channel: {key: value for key, value in entry.items() if key != "type"}
            if isinstance(entry, dict) and "field" in entry and "type" in known.get(channel, {})
            else entry
            for channel, entry in layer["encoding"].items()
        }
    if "layer" in layer:
        layer["layer"] = without_types(layer["layer"], known)
    return layer


def csv_source(name: str, numbers: Sequence[str]) -> dict[str, Any]:
    """Reference to a dataset that travels as CSV: the smallest form a figure can carry.

    CSV has no types: `numbers` are declared, and an empty one is null; all other columns stay
    text. Nothing is guessed ("007" a number, "true" a boolean).
    """
    return {"name": name, "format": {"type": "csv", "parse": dict.fromkeys(numbers, "number")}}


def quantity(field: str, **more: Any) -> dict[str, Any]:
    """Encoding of a number."""
    return {"field": field, "type": "quantitative", **more}


def nominal(field: str, **more: Any) -> dict[str, Any]:
    """Encoding of a name: what Vega-Lite takes a field for that has no type."""
    return {"field": field, **more}


def kind_color(
    part: Literal["fill", "ink"], kinds: str = "OAM0", field: str = "kind"
) -> dict[str, Any]:
    """Encoding of the kinds that a figure shows: the palette's fill, or the ink on it."""
    colors = [PALETTE[KINDS[kind]][part] for kind in kinds]
    return nominal(field, scale={"domain": list(kinds), "range": colors}, legend=None)


def calculate(**expressions: str) -> list[dict[str, str]]:
    """Vega-Lite transforms that add fields, in order; expressions are ours, never a reader's."""
    return [{"calculate": expression, "as": name} for name, expression in expressions.items()]


def unfold(**lists: str) -> list[dict[str, Any]]:
    """Vega-Lite transforms: a row for each entry of these lists, all of one length."""
    return [*calculate(**lists), {"flatten": list(lists)}]


def look_up(key: str, name: str, columns: Sequence[str], to: str = "") -> dict[str, Any]:
    """Vega-Lite transform: columns of another dataset, from the row with the same number.

    Args:
        key: Field with the number.
        name: The other dataset.
        columns: Its column of numbers, then the columns that are wanted.
        to: Another name for the single column that is wanted.
    """
    number, *wanted = columns
    found = {"data": csv_source(name, [number]), "key": number, "fields": wanted}
    return {"lookup": key, "from": found, **({"as": [to]} if to else {})}


def themed_text(**mark: Any) -> dict[str, Any]:
    """A text mark outside filled cells, in the colour of the light or dark theme."""
    return {"type": "text", **THEMED_TEXT, **mark}


def break_badge(
    x: str, y: str, tooltip: Sequence[dict[str, Any]] = (), side: int = 13
) -> list[dict[str, Any]]:
    """The one sign of a break in every figure: a white cross on a red square.

    Args:
        x, y: Fields of its middle.
        tooltip: What it says when pointed at.
        side: Pixels.
    """
    place = {"x": quantity(x), "y": quantity(y)}
    square = {"type": "point", "shape": "square", "size": side * side, "filled": True, "opacity": 1}
    return [
        {
            "mark": {**square, "color": PALETTE["break"]["fill"]},
            "encoding": {**place, **({"tooltip": list(tooltip)} if tooltip else {})},
        },
        {
            "mark": {"type": "text", "fontSize": min(11, side), "color": PALETTE["break"]["ink"]},
            "encoding": {**place, "text": {"value": "✕"}},
        },
    ]


def tips(words: Mapping[str, str]) -> dict[str, Any]:
    """Encoding of a tooltip: what is named how, each an expression of ours, never a reader's."""
    pairs = ", ".join(f"'{name}': {expression}" for name, expression in words.items())
    return {"tooltip": {"value": {"expr": f"{{{pairs}}}"}}}
