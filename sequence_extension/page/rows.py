"""A table whose rows can be chosen: sections 7 and 10.

menu = mo.ui.anywidget(RowTable(frame, "Choose a row to play it."))  # one cell shows `menu`
row = frame.iloc[menu.value["chosen"]]  # the cells that follow read it
"""

from typing import Any

import anywidget
import pandas as pd
import traitlets

from sequence_extension.page.style import style_asset
from sequence_extension.text import number_text, printable_text


def row_cell_text(value: Any) -> str:
    """A value as its cell shows it; missing ones are empty."""
    if value is None or value is pd.NA:
        return ""
    if isinstance(value, str):
        return printable_text(value)
    whole = float(value).is_integer()
    return f"{int(value):,}".replace("-", "\u2212") if whole else number_text(value)


class RowTable(anywidget.AnyWidget):
    """A click anywhere in a row chooses it, and so do the arrow keys; a heading sorts.

    Attributes:
        label: What choosing a row does, shown above.
        columns: Names of the columns; the first one names the rows and stays in sight.
        numbers: Which of the columns hold numbers.
        rows: Texts of the cells.
        chosen: Place of the chosen row in the frame, however the browser sorts; 0 at first.
    """

    _esm = style_asset("rows.js")
    _css = style_asset("rows.css")
    label = traitlets.Unicode().tag(sync=True)
    columns: Any = traitlets.List().tag(sync=True)
    numbers: Any = traitlets.List().tag(sync=True)
    rows: Any = traitlets.List().tag(sync=True)
    chosen = traitlets.Int(0).tag(sync=True)

    def __init__(self, frame: pd.DataFrame, label: str) -> None:
        """A table of texts and numbers, the first row chosen.

        Args:
            frame: A row each; names of the rows in the first column.
            label: Plain text.
        """
        super().__init__(
            label=label,
            columns=[str(name) for name in frame.columns],
            numbers=[pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes],
            rows=[[row_cell_text(value) for value in row] for row in frame.itertuples(index=False)],
        )
