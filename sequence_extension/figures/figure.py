"""A finished figure: a chart declared once, and the tables, words and sizes of this one."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt
import pandas as pd

Rows = list[dict[str, Any]]  # of a table: all with the same columns


@dataclass(frozen=True)
class Figure:
    """A chart with its data; marimo shows it as it is.

    Declaring a chart with Altair's classes takes a tenth of a second, so it is done once per
    process and kept as `to_dict()`; what differs from drawing to drawing is bound here.
    """

    template: Mapping[str, Any]  # the specification without data, shared by all of its kind
    tables: Mapping[str, Rows]  # by name; they travel as CSV, the smallest form there is
    description: str  # what is to be seen, in words
    width: int  # pixels that drawing and menus take, so that the page can keep their place
    height: int
    lanes: Sequence[tuple[int, str]] = ()  # pixels from the top, and names that stay in view
    focus: tuple[int, int] | None = None  # pixels from the left of what is to be in view first
    narrow: int = 0  # pixels of its height in its form for less than `width`, if it has one
    bound: Mapping[str, Any] = field(default_factory=dict)  # further entries, such as sizes

    @property
    def fluid(self) -> bool:
        """Whether it takes less width where there is less."""
        return self.bound.get("width") == "container"

    def to_dict(self) -> dict[str, Any]:
        """The whole specification."""
        data = {name: figure_csv(rows) for name, rows in self.tables.items()}
        return {**self.template, "description": self.description, **self.bound, "datasets": data}

    def to_json(self) -> str:
        """The specification as JSON, as short as it can be."""
        return json.dumps(self.to_dict(), separators=(",", ":"), allow_nan=False)

    def _mime_(self) -> tuple[str, str]:
        major = alt.VEGALITE_VERSION.split(".")[0]
        return f"application/vnd.vegalite.v{major}+json", self.to_json()


def figure_data(name: str, *numbers: str) -> alt.NamedData:
    """Data that a figure binds by name.

    CSV has no types: `numbers` are declared, and an empty one is null; all other columns stay
    text. Nothing is guessed ("007" a number, "true" a boolean).
    """
    parse = dict.fromkeys(numbers, "number")
    return alt.NamedData(name=name, format=alt.CsvDataFormat(type="csv", parse=parse))


def figure_pixels(field: str) -> alt.X:
    """Encoding of a column that holds pixels from the left."""
    return alt.X(f"{field}:Q", scale=None, axis=None)


def figure_pixels_down(field: str) -> alt.Y:
    """Encoding of a column that holds pixels from the top."""
    return alt.Y(f"{field}:Q", scale=None, axis=None)


def figure_table(name: str, *numbers: str) -> alt.Chart:
    """A chart on `figure_data`; columns x and y, where there are any, are pixels and place it."""
    chart: alt.Chart = alt.Chart(figure_data(name, *numbers))
    chart = chart.encode(x=figure_pixels("x")) if "x" in numbers else chart
    return chart.encode(y=figure_pixels_down("y")) if "y" in numbers else chart


# Of a figure with two forms: rows that stand in one alone say so in the column `at`.
FORM_FILTER = "!datum.at || datum.at == form"


def figure_form(wide: int) -> alt.Parameter:
    """The parameter `form`: "wide" where a figure has that many pixels, else "narrow"."""
    return alt.param(name="form", expr=f"width < {wide} ? 'narrow' : 'wide'")


def fixed_figure_size(width: int, height: int, top: int = 0, **more: Any) -> dict[str, Any]:
    """What a figure binds that takes exactly the pixels of its tables: nothing is drawn beyond."""
    padding = {"top": top, "right": 0, "bottom": 0, "left": 0}
    return {"width": width, "height": height, "autosize": "none", "padding": padding, **more}


def fluid_figure_size(height: int = 1, **more: Any) -> dict[str, Any]:
    """What a figure binds that takes the width there is, up to its own, and grows downwards."""
    size = {"type": "fit-x", "contains": "padding", "resize": True}
    return {"width": "container", "height": height, "autosize": size, "padding": 0, **more}


def figure_records(frame: pd.DataFrame) -> Rows:
    """The rows of a table by column name."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def figure_csv(rows: Rows) -> str:
    """Rows as CSV; a tenth of the time that pandas takes for a few."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([rows[0].keys(), *(row.values() for row in rows)] if rows else [])
    return text.getvalue()
