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

    Attributes:
        template: The specification without data, shared by all figures of its kind.
        tables: The data by name; they travel as CSV, the smallest form a figure can carry.
        description: What is to be seen, in words.
        width, height: Pixels that drawing and menus take, so that the page can keep their place.
        lanes: Names of rows, with pixels from the top: the page keeps them in view at the left.
        focus: Pixels from the left, first and last, of what is to be in view where not all is.
        narrow: Pixels of its height in its form for less than `width`, 0 if it has none.
        bound: Further entries of the specification, such as the width of the plot.
    """

    template: Mapping[str, Any]
    tables: Mapping[str, Rows]
    description: str
    width: int
    height: int
    lanes: Sequence[tuple[int, str]] = ()
    focus: tuple[int, int] | None = None
    narrow: int = 0
    bound: Mapping[str, Any] = field(default_factory=dict)

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
        return (
            f"application/vnd.vegalite.v{alt.VEGALITE_VERSION.split('.')[0]}+json",
            self.to_json(),
        )


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


def figure_pixels_down(field: str = "y") -> alt.Y:
    """Encoding of a column that holds pixels from the top."""
    return alt.Y(f"{field}:Q", scale=None, axis=None)


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
