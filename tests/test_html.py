"""HTML that several sections share.

1. Every text is escaped; what a table says can be read back from it.
2. A table's numbers stand to the right; whole numbers have commas, token ids do not.
3. The code that the page shows of a cell is the cell's own.
"""

import ast
import html
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequence_extension.page.html import (
    code_markup,
    details_table_html,
    fold_markup,
    html_cell_source,
    note_html,
    scroll_markup,
    table_box_html,
    table_markup,
)

NOTEBOOK = Path(__file__).parent.parent / "404_sequence_extension.py"
EVIL = "<img src=x onerror=alert(1)>'\"&"


@given(st.text(max_size=80))
def test_texts_are_escaped_everywhere(text: str) -> None:
    """Invariant 1."""
    frame = pd.DataFrame({text: [text]})
    pages = [
        code_markup(text),
        note_html(text).text,
        fold_markup(text, ""),
        scroll_markup("", text),
        table_markup(frame, text),
        table_box_html(frame, text).text,
        details_table_html(frame, text).text,
    ]
    for page, plain in zip(pages, [code_markup(""), *([""] * 6)], strict=True):
        assert "<img" not in page
        assert plain == ""
    assert html.unescape(note_html(text).text).count(text) >= 1


def test_attributes_hold_no_quote_of_a_text() -> None:
    """Invariant 1: in an attribute a quote would end it."""
    for page in (scroll_markup("", EVIL), table_box_html(pd.DataFrame({"a": [1]}), EVIL).text):
        assert html.escape(EVIL) in page
        assert EVIL not in page


def test_whole_numbers_have_commas_but_no_token_ids() -> None:
    """Invariant 2."""
    page = table_markup(pd.DataFrame({"tokens": [20546, 7], "id": ["20546", "7"]}))
    assert '<td class="seq-number">20,546</td><td>20546</td></tr>' in page


def test_missing_numbers_are_empty() -> None:
    """Invariant 2."""
    frame = pd.DataFrame({"n": [1, None]}).astype("Int64")
    assert table_markup(frame).endswith('<td class="seq-number"></td></tr></tbody></table>')


def test_cells_are_shared_behind_a_column_of_keys() -> None:
    frame = pd.DataFrame({"#": [1, 2, 3], "a": ["x", "x", "y"], "b": ["u", "v", "v"]})
    body = table_markup(frame, merged=2, lead=1).partition("<tbody>")[2]
    key = '<td class="seq-number">'
    assert body == (
        f'<tr>{key}1</td><td rowspan="2">x</td><td>u</td></tr><tr>{key}2</td><td>v</td></tr>'
        f"<tr>{key}3</td><td>y</td><td>v</td></tr></tbody></table>"
    )


def test_long_tables_say_what_they_leave_out() -> None:
    page = details_table_html(pd.DataFrame({"a": range(10)}), limit=4).text
    assert page.count("<tr>") == 5
    assert "6 more rows are left out" in page


@pytest.mark.parametrize("name", ["three_turns", "group_call", "sums_env", "one_rollout"])
def test_open_cells_are_shown_as_they_run(name: str) -> None:
    """Invariant 3: the same statements, without the `def` and the `return` that marimo writes."""
    shown = ast.parse(html_cell_source(NOTEBOOK, name), type_comments=False)
    tree = ast.parse(NOTEBOOK.read_text(encoding="utf-8"))
    [cell] = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    ]
    statements = [part for part in cell.body if not isinstance(part, ast.Return)]
    assert [ast.unparse(part) for part in shown.body] == [ast.unparse(part) for part in statements]


def test_a_comment_above_the_first_statement_is_the_cells_too(tmp_path: Path) -> None:
    """Invariant 3."""
    file = tmp_path / "notebook.py"
    file.write_text("@app.cell\ndef here():\n    # why\n    x = 1\n    return (x,)\n")
    assert html_cell_source(file, "here") == "# why\nx = 1\n"
    with pytest.raises(ValueError, match="no cell named there"):
        html_cell_source(file, "there")
