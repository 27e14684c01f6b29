"""HTML that several sections share; all texts are escaped here."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import marimo as mo

from sequence_extension.figures.palette import KINDS, PALETTE
from sequence_extension.markup import code_markup as code_markup
from sequence_extension.markup import fold_markup as fold_markup
from sequence_extension.markup import scroll_markup as scroll_markup
from sequence_extension.markup import table_markup as table_markup
from sequence_extension.text import visible_text

if TYPE_CHECKING:  # prose is to stand before pandas and Altair are there
    import pandas as pd

    from sequence_extension.figures.figure import Figure


def html_cell_source(notebook: str | Path, name: str) -> str:
    """The code of a named cell of a notebook file, as its editor shows it.

    Raises:
        ValueError: The notebook has no such cell.
    """
    # by lines: in Python 3.11 `ast.parse` can fail while another reader's thread parses
    source = Path(notebook).read_text(encoding="utf-8")
    cell = rf"^(?:async )?def {re.escape(name)}\((?:.*|\n(?:    .*\n)+)\):\n((?:    .*\n|\n)+)"
    found = re.search(cell, source, re.MULTILINE)
    if found is not None:
        body = re.sub(r"^    return\b(?s:.*)", "", found[1], flags=re.MULTILINE).rstrip("\n")
        return "\n".join(line.removeprefix("    ") for line in body.split("\n")) + "\n"
    raise ValueError(f"{Path(notebook).name} has no cell named {name}.")


def cell_code_html(notebook: str | Path, name: str) -> str:
    """An open cell's code as HTML, for where the page does not show it anyway.

    That is in the app, and in a static page without code: there the style sheet shows it.
    """
    code = code_html(html_cell_source(notebook, name), "python").text
    return code if mo.app_meta().mode == "run" else f'<div class="seq-own-code">{code}</div>'


def code_html(text: str, language: str) -> mo.Html:
    """Text as a highlighted code block that can be copied, safe for any content."""
    runs = re.findall(r"`+", text)
    fence = "`" * max([3, *(len(run) + 1 for run in runs)])
    # its long lines scroll, by keys too
    block = mo.md(f"{fence}{language}\n{text}{fence}").text
    return mo.Html(block.replace("<pre>", '<pre tabindex="0">', 1))


def printed_html(text: str) -> mo.Html:
    """Text as a terminal would print it, in a box that scrolls by itself."""
    return mo.Html(f'<pre class="seq-scroll" tabindex="0">{html.escape(text)}</pre>')


def token_cell_html(label: str, kind: str = "O") -> str:
    """One cell as the figures draw it, as HTML; the label is escaped.

    Args:
        label: Text of a token, or a letter or sign that stands for one.
        kind: One of `KINDS` ("O", "A", "M", "0", "X", ...).
    """
    entry = PALETTE[KINDS[kind]]
    # colours inline: inside a widget the page's style sheet does not reach
    return (
        f'<span class="seq-cell" style="background:{entry["fill"]};color:{entry["ink"]}">'
        f"{html.escape(visible_text(label))}</span>"
    )


def note_html(text: str, kind: Literal["note", "look", "error"] = "note") -> mo.Html:
    """One plain sentence beside a field or figure; escaped, and marked by word and colour."""
    lead = {"note": "", "look": "<b>Look:</b> ", "error": "<b>✕</b> "}[kind]
    role = ' role="alert"' if kind == "error" else ""
    extra = "" if kind == "note" else f" seq-{kind}"
    return mo.Html(f'<p class="seq-note{extra}"{role}>{lead}{code_markup(text)}</p>')


def following_html(view: Any) -> mo.Html:
    """A view of what section 2 holds: dimmed while a field there cannot be read."""
    return mo.Html(f'<div class="seq-follows">{mo.as_html(view).text}</div>')


def table_box_html(frame: pd.DataFrame, caption: str, **table: Any) -> mo.Html:
    """A table under its caption that scrolls on narrow screens; `table` goes to `table_markup`."""
    title = f'<b class="seq-caption">{html.escape(caption)}</b>'
    return mo.Html(title + scroll_markup(table_markup(frame, **table), caption))


def details_table_html(
    frame: pd.DataFrame,
    summary: str = "The same facts as a table",
    limit: int = 300,
    more: str = "",
    **table: Any,
) -> mo.Html:
    """A table that can be opened, without a widget: it works in the static page too.

    Long tables are cut after `limit` rows, and say so; `more` is HTML below the table, and
    `table` goes to `table_markup`.
    """
    left = len(frame) - limit
    rest = f'<p class="seq-note">{left} more rows are left out here.</p>' if left > 0 else ""
    box = scroll_markup(table_markup(frame.head(limit), **table), summary)
    return mo.Html(fold_markup(summary, f"{box}{rest}{more}"))


@cache
def figure_frame_html() -> tuple[str, str] | None:
    """What marimo writes before and behind the spec of a figure, its quotes left out.

    marimo quotes the spec twice, which makes one quote eleven characters; the same element reads
    it unquoted too. None should marimo write it otherwise.
    """
    from sequence_extension.figures.figure import Figure

    page = mo.as_html(Figure({}, {}, "", 0, 0)).text
    found = re.fullmatch(r"(<[\w-]+ data-mime='[^']*' data-data=')[^']*('></[\w-]+>)", page)
    return (found[1], found[2]) if found else None


def figure_html(figure: Figure) -> str:
    """HTML of a figure, for use inside other HTML."""
    frame = figure_frame_html()
    if frame is None:
        return mo.as_html(figure).text
    # no `<` or `>` even once decoded: marimo's page drops attributes that hold `]>`
    spec = json.dumps(figure.to_dict(), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for char, code in (("&", "&amp;"), ("'", "&#39;"), ("<", "\\u003c"), (">", "\\u003e")):
        spec = spec.replace(char, code)
    # half a character pair cannot travel but as its code
    return frame[0] + spec.encode("utf-8", "backslashreplace").decode() + frame[1]


def figure_box_html(
    figure: Figure | tuple[Figure, ...],
    title: str,
    summary: str = "",
    widget: Any = None,
) -> mo.Html:
    """A figure in the page: its finding as text above, the drawing in a box that scrolls.

    Args:
        figure: A figure without a title of its own; or several, side by side where there is
            room, else below each other.
        title: The finding.
        summary: The equivalent in a sentence.
        widget: Draws the figure in place of the figure itself, and answers to clicks.
    """
    figures = figure if isinstance(figure, tuple) else (figure,)
    lanes = figures[0].lanes
    side = ""
    if lanes:  # they stay at the left while the drawing scrolls: evenly spaced lines of one text
        gap = lanes[1][0] - lanes[0][0]
        names = html.escape("\n".join(name.strip() for _, name in lanes))
        style = f"padding-top:{lanes[0][0] - gap / 2:g}px;line-height:{gap}px"
        side = f'<div class="seq-lanes" aria-hidden="true" style="{style}">{names}</div>'
    more = f"<span>{html.escape(summary)}</span>" if summary else ""
    drawn = "".join(
        scroll_markup(figure_place_html(one, figure_html(one) if widget is None else widget), title)
        for one in figures
    )
    kind = " seq-measured" if any(one.narrow for one in figures) else ""
    return mo.Html(
        f'<figure class="seq-figure{kind}">'
        f"<figcaption><b>{html.escape(title)}</b>{more}</figcaption>"
        f'<div class="seq-body">{side}{drawn}</div></figure>'
    )


def figure_place_html(figure: Figure, drawing: Any) -> str:
    """The place of a drawing, kept before it is there; what is to be in view where not all is."""
    focus = ""
    if figure.focus is not None:
        start, end = figure.focus
        at = f"left:{start}px;width:{min(end - start, 240)}px;margin:0"
        focus = f'<i class="seq-focus" style="{at}"></i>'
    width = "max-width" if figure.fluid else "width"
    size = f"{width}:{figure.width}px;--height:{figure.height}px"
    if figure.narrow:
        size += f";--narrow:{figure.narrow}px;--wide:{figure.width}px"
    kind = " seq-narrows" if figure.narrow else ""
    return f'<div class="seq-place{kind}" style="{size}">{focus}{drawing}</div>'


def dimmed_html(content: str, stale: bool) -> mo.Html:
    """HTML that shows what could be read last, while `stale`."""
    return mo.Html(f'<div style="opacity:{0.4 if stale else 1}">{content}</div>')


def control_panel_html(elements: Mapping[str, Any]) -> mo.Html:
    """Controls in a grid: as many columns as fit, one on a phone."""
    cells = "".join(f"<div>{element}</div>" for element in elements.values())
    return mo.Html(f'<div class="seq-controls">{cells}</div>')


def field_issue_html(message: str, fatal: bool = True) -> str:
    """A sentence beside one field; `fatal` where the field cannot be read."""
    return (
        f'<p class="issue{" bad" if fatal else ""}">'
        f"<b>{'✕' if fatal else '!'}</b> {code_markup(message)}</p>"
    )


def field_grid_html(fields: Sequence[tuple[Any, str | None]]) -> mo.Html:
    """Input fields side by side where there is room, each with its sentence beneath.

    Args:
        fields: Pairs of a marimo element and the sentence about its value, or None.
    """
    cells = "".join(
        f"<div>{element}{field_issue_html(issue) if issue else ''}</div>"
        for element, issue in fields
    )
    return mo.Html(f'<div class="seq-fields">{cells}</div>')
