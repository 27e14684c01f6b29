"""Pieces of HTML that the page and the report share; all texts are escaped here."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Container, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sequence_extension.text import number_text

if TYPE_CHECKING:  # prose is to stand before pandas is there
    import pandas as pd


def code_markup(sentence: str) -> str:
    """A sentence as HTML: escaped, with `quoted` pieces as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(sentence))


def fold_markup(summary: str, content: str) -> str:
    """HTML that opens at a click, also in the static page; `content` is HTML."""
    return (
        f'<details class="seq-facts"><summary>{html.escape(summary)}</summary>{content}</details>'
    )


def scroll_markup(content: str, label: str) -> str:
    """HTML in a box that scrolls sideways by mouse and keyboard where it is too wide."""
    return (
        f'<div class="seq-scroll" tabindex="0" role="group" aria-label="{html.escape(label)}">'
        f"{content}</div>"
    )


def markup_css() -> str:
    """The rules for `table_markup` and `fold_markup`, which the page and the HTML report share."""
    return files("sequence_extension").joinpath("tables.css").read_text(encoding="utf-8")


def value_markup(value: Any) -> str:
    """A value of a table: whole numbers with commas, others rounded, a gap where nothing is."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    missing = type(value).__name__ == "NAType"
    return number_text(value) if missing or isinstance(value, float) else str(value)


def table_markup(
    frame: pd.DataFrame,
    caption: str = "",
    merged: int = 0,
    row_heads: bool = False,
    lead: int = 0,
    name: str = "",
    links: Mapping[int, str] | None = None,
    code: Container[str] = (),
) -> str:
    """A table as plain HTML: real header cells, texts escaped, numbers to the right.

    Args:
        frame: The facts. Whole numbers get commas; token ids come as texts.
        caption: Stands above; left out when empty.
        merged: That many columns share a cell where rows in a row say the same: the first ones
            after `lead`.
        row_heads: The first column names its row.
        lead: Columns before those; each row has its own.
        name: One more class of the table.
        links: Where the second cell of a row leads: row to id of an element on the page.
        code: Columns in whose texts backticks mark code.
    """
    columns = list(frame.columns)
    numeric = [frame[column].dtype.kind in "iuf" for column in columns]
    rows = frame.astype(object).to_numpy().tolist()
    side = {True: ' class="seq-number"', False: ""}

    def cell(at: int, place: int) -> str:
        value, key = rows[at][place], rows[at][lead : place + 1]
        shares = lead <= place < lead + merged
        if shares and at and rows[at - 1][lead : place + 1] == key:
            return ""
        text = value_markup(value)
        kind = ' class="seq-long"' if len(text) > 60 else side[numeric[place]]
        if shares:
            alike = itertools.takewhile(lambda row: row[lead : place + 1] == key, rows[at:])
            span = sum(1 for _ in alike)
            kind += f' rowspan="{span}"' if span > 1 else ""
        tag, scope = ("th", ' scope="row"') if row_heads and not place else ("td", "")
        marked = columns[place] in code
        text = code_markup(text) if marked else html.escape(text, quote=False)
        if links and place == 1 and at in links:
            text = f'<a href="#{html.escape(links[at])}">{text}</a>'
        return f"<{tag}{scope}{kind}>{text}</{tag}>"

    head = "".join(
        f'<th scope="col"{side[number]}>{html.escape(str(column), quote=False)}</th>'
        for column, number in zip(columns, numeric, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(cell(at, place) for place in range(len(columns)))}</tr>"
        for at in range(len(rows))
    )
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return (
        f'<table class="{f"seq-table {name}".strip()}">{title}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )
