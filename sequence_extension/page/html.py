"""HTML that several sections share; all texts are escaped here."""

import ast
import html
import inspect
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import marimo as mo
import pandas as pd

from sequence_extension.figures.figure import Figure
from sequence_extension.figures.palette import KINDS, PALETTE
from sequence_extension.text import number_text, visible_text


def code_spans(sentence: str) -> str:
    """A sentence as HTML: escaped, with `quoted` pieces as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(sentence))


def with_code(view: Any) -> Any:
    """A teaching cell's output below the cell's code, where that is not on the page anyway.

    That is in the app, and in a static page without code: the style sheet shows it only there.
    """
    mode = mo.app_meta().mode
    if mode == "run":
        return mo.show_code(view, position="above")
    if mode == "script":  # no page, and cells have no source of their own
        return view
    code = "".join(inspect.findsource(inspect.stack(0)[1].frame)[0])
    return mo.Html(
        f'<div class="seq-own-code">{code_view(code, "python").text}</div>{mo.as_html(view).text}'
    )


def printed(text: str) -> mo.Html:
    """Text as a terminal would print it, in a box that scrolls by itself."""
    return mo.Html(f'<pre class="seq-scroll" tabindex="0">{html.escape(text)}</pre>')


def room(text: str) -> mo.Html | None:
    """The door plate of a room of the workshop (markdown); nothing in the app, which has no code.

    There it would only be a dead entry of the outline.
    """
    return None if mo.app_meta().mode == "run" else mo.md(text)


def code_view(text: str, language: str) -> mo.Html:
    """Text as a highlighted code block that can be copied, safe for any content."""
    runs = re.findall(r"`+", text)
    fence = "`" * max([3, *(len(run) + 1 for run in runs)])
    return lean(mo.md(f"{fence}{language}\n{text}{fence}"))


def lean(view: Any) -> mo.Html:
    """Anything that marimo shows, in a third of its bytes and looking the same.

    A page takes some fifty bytes for every span of highlighted code, eleven for every quote in a
    widget's attributes, and 250 for the markup around a label. marimo's theme has seven colours
    for the seventy classes of Pygments: neighbours of one colour share a span, and what has the
    colour of plain code has none. Attributes in single quotes need no escaped double quotes.
    """
    groups = [
        "k kt nb",
        "kn kc kd kp kr",
        "nf nc nd nt",
        "mi mb mf mh mo il l",
        "s s1 s2 sa sb sc sd se sh si sr ss sx dl",
        "c c1 ch cm cs cpf",
        "bp",
    ]
    colors = {name: group.split()[0] for group in groups for name in group.split()}

    def span(found: re.Match[str]) -> str:
        color = colors.get(found[1])
        return f"<span class={color}>{found[2]}</span>" if color else found[2]

    def tag(found: re.Match[str]) -> str:
        text = found[0].replace("&quot;", '"').replace("&#92;", "\\").replace("&#36;", "$")
        label = (
            r"\\u003cspan class=[^<>]{,60}paragraph\\\"\\u003e([^\\]*)(?:\\u003c/span\\u003e){2}"
        )
        return re.sub(label, r"\1", text)

    page = mo.as_html(view).text
    # a whole tag, its attributes in single quotes: texts of others hold no bare `<`
    page = re.sub(r"<marimo-[\w-]+(?: [\w-]+='[^']*')*>", tag, page)
    joined = 0
    if "codehilite" in page:
        page, joined = re.subn(r'<span class="(\w{1,3})">([^<]*)</span>', span, page)
        page = page.replace("<pre><span></span><code>", "<pre><code class=n>")
    while joined:
        page, joined = re.subn(
            r"<span class=(\w+)>([^<]*)</span>(\s*)<span class=\1>", r"<span class=\1>\2\3", page
        )
    return mo.Html(page)


def token_chip(
    label: str, kind: str = "O", text: str = "", hint: str = "", letter: str = ""
) -> str:
    """One token as HTML: colour, letter and label; all texts escaped.

    Args:
        label: Token id, or what stands for it.
        kind: One of `KINDS` ("O", "A", "M", "0", "X", ...).
        text: The token's text where known.
        hint: More for the tooltip; nothing that is not said elsewhere.
        letter: Stands before the label in place of the palette's.
    """
    entry = PALETTE[KINDS[kind]]
    words = f" {html.escape(visible_text(text))}" if text else ""
    title = f' title="{html.escape(hint)}"' if hint else ""
    # colours inline: inside a widget the page's style sheet does not reach
    return (
        f'<span class="seq-chip" style="background:{entry["fill"]};color:{entry["ink"]};'
        f'padding:0 .4em;border-radius:.3em"{title}>'
        f"<small>{html.escape(letter or entry['letter'])}</small> {html.escape(label)}{words}"
        "</span>"
    )


def note(text: str, kind: Literal["note", "look", "error"] = "note") -> mo.Html:
    """One plain sentence beside a field or figure; escaped, and marked by word and colour."""
    lead = {"note": "", "look": "<b>Look:</b> ", "error": "<b>✕</b> "}[kind]
    role = ' role="alert"' if kind == "error" else ""
    extra = "" if kind == "note" else f" seq-{kind}"
    return mo.Html(f'<p class="seq-note{extra}"{role}>{lead}{html.escape(text)}</p>')


def table_html(
    frame: pd.DataFrame,
    caption: str = "",
    merged: int = 0,
    row_heads: bool = False,
    lead: int = 0,
    name: str = "",
    links: Mapping[int, str] | None = None,
) -> str:
    """A table as plain HTML: real header cells, texts escaped, numbers to the right.

    Tables are the largest thing in a page, which carries each `<` as six characters. So end
    tags that HTML lets one omit are omitted, and one class of the table aligns a whole column.

    Args:
        frame: The facts. Whole numbers get commas; token ids come as texts.
        caption: Stands above; left out when empty.
        merged: That many columns share a cell where rows in a row say the same: the first ones
            after `lead`.
        row_heads: The first column names its row.
        lead: Columns before those; each row has its own.
        name: One more class of the table.
        links: Where the second cell of a row leads: row to id of an element on the page.
    """
    columns = list(frame.columns)
    right = [pd.api.types.is_numeric_dtype(frame[column]) for column in columns]
    rows = frame.astype(object).to_numpy().tolist()

    def cell(at: int, place: int) -> str:
        value, key = rows[at][place], rows[at][lead : place + 1]
        shares = lead <= place < lead + merged
        if shares and at and rows[at - 1][lead : place + 1] == key:
            return ""
        text = f"{value:,}" if type(value) is int else str(value)
        if isinstance(value, float) or value is pd.NA:
            text = number_text(value)
        kind = " class=seq-long" if len(text) > 60 else ""
        if shares:
            alike = itertools.takewhile(lambda row: row[lead : place + 1] == key, rows[at:])
            span = sum(1 for _ in alike)
            kind = f" rowspan={span}" * (span > 1)
        if place < lead + merged:
            kind += " class=seq-number" * right[place]
        tag = "th scope=row" if row_heads and not place else "td"
        # a bare `>` in a text closes nothing, and takes two thirds of the bytes
        text = html.escape(text, quote=False).replace("&gt;", ">")
        if links and place == 1 and at in links:
            text = f'<a href="#{html.escape(links[at])}">{text}</a>'
        return f"<{tag}{kind}>{text}"

    head = "".join(f"<th scope=col>{html.escape(str(column), quote=False)}" for column in columns)
    body = "".join(
        "<tr>" + "".join(cell(at, place) for place in range(len(columns)))
        for at in range(len(rows))
    )
    # counted from the right: what cells share, they share from the left
    sides = "".join(f" seq-r{len(columns) - place}" for place, number in enumerate(right) if number)
    sides += f" {name}" if name else ""
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f'<table class="seq-table{sides}">{title}<thead><tr>{head}<tbody>{body}</table>'


def details_table(
    frame: pd.DataFrame,
    summary: str = "The same facts as a table",
    limit: int = 300,
    more: str = "",
    **table: Any,
) -> mo.Html:
    """A table that can be opened, without a widget: it works in the static page too.

    Long tables are cut after `limit` rows, and say so; `more` is HTML below the table, and
    `table` goes to `table_html`.
    """
    left = len(frame) - limit
    rest = f'<p class="seq-note">{left} more rows are left out here.</p>' if left > 0 else ""
    return mo.Html(
        f'<details class="seq-facts"><summary>{html.escape(summary)}</summary>'
        f'<div class="seq-scroll" tabindex="0" role="group" aria-label="{html.escape(summary)}">'
        f"{table_html(frame.head(limit), **table)}</div>{rest}{more}</details>"
    )


def figure_box(
    figure: Figure,
    title: str,
    summary: str = "",
    lanes: Sequence[tuple[int, str]] = (),
    lane_width: str = "5.6rem",
) -> mo.Html:
    """A figure in the page: its finding as text above, the drawing in a box that scrolls.

    Args:
        figure: A figure without a title of its own.
        title: The finding.
        summary: The equivalent in a sentence.
        lanes: Names that stay at the left while the drawing scrolls: (pixels from top, name).
        lane_width: Width of these names, in CSS.
    """
    gaps = {below[0] - above[0] for above, below in pairwise(lanes)}
    if len(gaps) == 1:  # evenly spaced: lines of one text
        (gap,) = gaps
        lines = html.escape("\n".join(name for _, name in lanes))
        style = f"top:{lanes[0][0] - gap / 2:g}px;line-height:{gap}px;white-space:pre"
        names = f'<span style="{style};transform:none">{lines}</span>'
    else:
        names = "".join(
            f'<span style="top:{top}px">{html.escape(name).replace("|", "<br>")}</span>'
            for top, name in lanes
        )
    side = (
        f'<div class="seq-lanes" aria-hidden="true" style="height:{figure.height}px;'
        f'width:{lane_width}">{names}</div>'
        if names
        else ""
    )
    more = f"<span>{html.escape(summary)}</span>" if summary else ""
    width = "max-width" if figure.fluid else "width"
    focus = (
        "" if figure.focus is None else f'<i class="seq-focus" style="left:{figure.focus}px"></i>'
    )
    return mo.Html(
        f'<figure class="seq-figure"><figcaption><b>{html.escape(title)}</b>{more}</figcaption>'
        f'<div class="seq-body">{side}'
        f'<div class="seq-scroll" tabindex="0" role="group" aria-label="{html.escape(title)}">'
        f'<div style="{width}:{figure.width}px;height:{figure.height}px">{focus}{figure.text}</div>'
        f"</div></div></figure>"
    )


def table_box(frame: pd.DataFrame, caption: str, **table: Any) -> mo.Html:
    """A small table in the page that scrolls on narrow screens; `table` goes to `table_html`."""
    return mo.Html(
        f'<div class="seq-scroll" tabindex="0" role="group" aria-label="{html.escape(caption)}">'
        f"{table_html(frame, caption, **table)}</div>"
    )


def scroll_table(frame: pd.DataFrame, title: str) -> mo.Html:
    """A table in a box that scrolls sideways where it is too wide."""
    return mo.Html(
        f'<div class="seq-scroll" tabindex="0" role="group" aria-label="{html.escape(title)}">'
        f"{table_html(frame)}</div>"
    )


def control_panel(elements: Mapping[str, Any]) -> mo.Html:
    """Controls in a grid: as many columns as fit, one on a phone."""
    cells = "".join(f'<div style="min-width:0">{element}</div>' for element in elements.values())
    return lean(
        mo.Html(
            '<div style="display:grid;gap:0.5rem 2rem;align-items:end;'
            f'grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr))">{cells}</div>'
        )
    )


def code_of(*things: Any) -> str:
    """Source of classes and functions as they run, without marimo's decorators.

    A class of a running notebook has no file that `inspect` could open, but its methods know
    where they were compiled from.
    """
    texts = []
    trees: dict[str, ast.Module] = {}
    for thing in things:
        member = thing
        if inspect.isclass(thing):
            member = next(value for value in vars(thing).values() if inspect.isfunction(value))
        source = "".join(inspect.findsource(inspect.unwrap(member))[0])
        if source not in trees:
            trees[source] = ast.parse(source)
        node = next(
            node
            for node in trees[source].body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name == thing.__name__
        )
        texts.append(ast.get_source_segment(source, node) or "")
    return "\n\n\n".join(texts)


def code_list(names: Iterable[str]) -> str:
    """Names as markdown code, joined; "none" when there are none."""
    return ", ".join(f"<code>{html.escape(name)}</code>" for name in names) or "none"


def titled_table(frame: pd.DataFrame, title: str) -> mo.Html:
    """A table that scrolls sideways, under a title that stays in view when it does."""
    table = scroll_table(frame, title).text
    return mo.Html(f'<div class="seq-figure"><b>{html.escape(title)}</b>{table}</div>')
