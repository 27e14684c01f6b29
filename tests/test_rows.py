"""Tables whose rows can be chosen, as the browser is told; clicks are tested in test_run.

1. Every value has a text, and none of them can steer or hide.
2. What is chosen is a place in the frame.
"""

import json
import math
from typing import Any

import pandas as pd
import pytest

from sequence_extension.page.rows import RowTable, row_cell_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (pd.NA, ""),
        (12_345, "12,345"),
        (-3, "\u22123"),
        (2.0, "2"),
        (0.125, "0.125"),
        (-0.5, "\u22120.5"),
        (math.nan, "NaN"),
        (math.inf, "inf"),
        ("a\u202eb\n", "a\\u202eb\\u000a"),
    ],
)
def test_every_value_has_a_text(value: Any, text: str) -> None:
    """Invariant 1."""
    assert row_cell_text(value) == text


def test_the_browser_gets_texts_and_the_kinds_of_columns() -> None:
    """Invariants 1 and 2."""
    frame = pd.DataFrame({"name": ["<b>", "b"], "tokens": [1_000, None], "cause": ["", "removed"]})
    frame = frame.astype({"tokens": "Int64"}).iloc[::-1]
    table = RowTable(frame, "Choose a row.")
    assert table.columns == ["name", "tokens", "cause"]
    assert table.numbers == [False, True, False]
    assert table.rows == [["b", "", "removed"], ["<b>", "1,000", ""]]
    assert frame.iloc[table.chosen]["name"] == "b"
    json.dumps(table.rows)
    assert RowTable(frame.iloc[:0], "Nothing to choose.").rows == []
