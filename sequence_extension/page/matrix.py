"""Section 8: every renderer against every pupil, and the cell that is chosen."""

import copy
import html
from collections.abc import Sequence
from typing import Any

import altair as alt
import marimo as mo
import pandas as pd

from sequence_extension.diagnosis import diagnose
from sequence_extension.env.episodes import EpisodeSpec, run_episodes
from sequence_extension.env.matrix_table import (
    VERDICTS,
    matrix_table,
    matrix_table_facts,
    matrix_table_finding,
    matrix_table_groups,
)
from sequence_extension.env.policies import policy_names
from sequence_extension.env.whole_rows import REASONS, whole_row_reasons
from sequence_extension.figures.figure import Figure
from sequence_extension.figures.matrix_chart import matrix_chart
from sequence_extension.figures.palette import MATRIX_LOOK
from sequence_extension.page.html import (
    code_markup,
    details_table_html,
    figure_box_html,
    fold_markup,
    note_html,
)
from sequence_extension.page.live import is_live_kernel
from sequence_extension.page.once import once
from sequence_extension.page.playground import playground_transcript_view
from sequence_extension.page.views import break_drawings_view, breaks_view


def matrix_legend_html() -> str:
    """What colour and mark of a cell mean, as HTML."""
    examples = {"kept": "1/3", "better": "1/3", "split": "3/3", "broken": "3/3"}
    items = "".join(
        f'<li style="display:flex;align-items:center;gap:.4em">'
        f'<span style="background:{MATRIX_LOOK[kind]["fill"]};color:{MATRIX_LOOK[kind]["ink"]};'
        "min-width:3.2em;text-align:center;border-radius:3px;padding:.05em .3em;"
        f'font-family:ui-monospace,monospace">{example} {VERDICTS[kind][0]}</span>'
        f"{VERDICTS[kind][1]}</li>"
        for kind, example in examples.items()
    )
    return (
        '<ul style="list-style:none;margin:.5em 0;padding:0;display:flex;flex-wrap:wrap;'
        f'gap:.4em 1.4em;font-size:.85em">{items}</ul>'
    )


@once
def page_matrix() -> pd.DataFrame:
    """Every renderer against every policy: deterministic, so played once for all readers."""
    return matrix_table()


@once
def page_matrix_rows() -> pd.DataFrame:
    """The rows of the matrix: renderers that behave alike."""
    return matrix_table_groups(page_matrix())


@once
def page_matrix_drawing() -> tuple[Figure, str]:
    """The matrix as a figure, and every cell of it as a folded table; the same for all readers."""
    return matrix_chart(page_matrix(), page_matrix_rows()), matrix_cells_html(page_matrix())


@once
def matrix_widget() -> Any:
    """The matrix as a widget. Altair takes half a second to read it, so it is read once."""
    chart = alt.Chart.from_dict(page_matrix_drawing()[0].to_dict())
    return mo.ui.altair_chart(chart, chart_selection=False, legend_selection=False)


def matrix_selector() -> Any:
    """The matrix as a widget of one reader: a click on a cell chooses it, here as in the page."""
    return copy.deepcopy(matrix_widget())


def matrix_selector_cell(selector: Any) -> tuple[tuple[str, ...], str]:
    """Renderers and policy of the cell that is chosen; at first, and on none, the classic one.

    A row stands for renderers that behave alike, so there may be several.

    Args:
        selector: From `matrix_selector`.
    """
    cell = selector.selections.get("cell") or {}
    rows, policies = cell.get("row"), cell.get("policy")
    if not rows or not policies or rows[0] is None or policies[0] is None:
        (members,) = (own for own in page_matrix_rows()["members"] if "qwen3" in own)
        return members, "reasoning"
    return page_matrix_rows()["members"][int(rows[0])], str(policies[0])


def matrix_renderer_menu(label: str, names: Sequence[str], chosen: str = "qwen3") -> Any:
    """A menu of renderers; of the first one where the chosen one is not among them."""
    start = chosen if chosen in names else next(iter(names), None)
    return mo.ui.dropdown(list(names), start, label=label, allow_select_none=False)


def matrix_member_menu(selector: Any) -> Any:
    """A menu of the renderers in the row that is chosen: one of them is played below."""
    members, _ = matrix_selector_cell(selector)
    return matrix_renderer_menu("Renderer, of those in this row", members, members[0])


def matrix_view(table: pd.DataFrame, selector: Any = None) -> mo.Html:
    """The matrix in a box that scrolls sideways, its legend, and every cell as a table.

    Args:
        table: Of `matrix_table`.
        selector: From `matrix_selector`; without it a click is seen in the figure only.
    """
    shared = table is page_matrix()
    if shared:
        figure, facts = page_matrix_drawing()
    else:
        figure = matrix_chart(table, matrix_table_groups(table))
        facts = matrix_cells_html(table)
    box = figure_box_html(
        figure,
        matrix_table_finding(table),
        f"At the right: with how many of the {table['policy'].nunique()} pupils a row splits. "
        "A narrow figure shows datums alone.",
        widget=selector,
    )
    return mo.Html(f"{matrix_legend_html()}{box.text}{facts}")


def matrix_cells_html(table: pd.DataFrame) -> str:
    """Every cell of a `matrix_table`, to unfold; HTML."""
    cells = matrix_table_facts(table)
    cells["renderer"] = [f"`{name}`" for name in cells["renderer"]]
    title = f"The same {len(table)} cells as a table"
    return details_table_html(cells, title, row_heads=True, code=["renderer"]).text


@once
def matrix_prose_html() -> str:
    """What is said of the whole matrix, as HTML; the same for all readers."""
    return matrix_prose_view(page_matrix()).text


def matrix_prose_view(table: pd.DataFrame) -> mo.Html:
    """What the matrix shows, in sentences whose every number is read from it."""
    built = table[table["claims"] != "unknown"]
    claiming = built[built["claims"] == "yes"]["renderer"].nunique()
    reasons = {reason: len(names) for reason, names in whole_row_reasons(table).items()}
    listed = "".join(
        f"<li>{count} {code_markup(REASONS[reason])}</li>" for reason, count in reasons.items()
    )
    pupils = "".join(
        f"<li><code>{name}</code>: {html.escape(words)}</li>"
        for name, words in policy_names().items()
    )
    return mo.md(
        "Each cell is one rollout of section 7's tutor with one pupil: datums over turns, so 1/3 "
        f"means that three turns became one datum. {claiming} of {built['renderer'].nunique()} "
        "renderers claim extension. The claim cannot vouch for tokens that no renderer would "
        f'write. What each pupil does:\n\n<ul class="seq-pupils">{pupils}</ul>'
        f"\n\n**Why whole rows split.** With {sum(reasons.values())} renderers no pupil's rollout "
        "stays one datum: the next prompt is written anew from the messages, and the old turn "
        f'comes out differently. Of these\n\n<ul class="seq-reasons">{listed}</ul>'
        "\n\nEach family has its own template here, but all share one vocabulary: what depends on "
        "where a tokenizer cuts (`respelled`, `no_space`, `whitespace`) can differ for your model."
    )


def matrix_unbuilt_view(table: pd.DataFrame) -> mo.Html:
    """The renderers that could not be built, each with its reason."""
    missing = table[table["claims"] == "unknown"].drop_duplicates("renderer")
    if missing.empty:
        return mo.Html("")
    return mo.Html("".join(note_html(reason, "look").text for reason in missing["reason"]))


def matrix_cell_view(renderer: str, policy: str) -> Any:
    """One cell of the matrix, played: the claim beside what came of it."""
    episode = run_episodes([EpisodeSpec(renderer=renderer, policy=policy)])[0]
    if isinstance(episode, str):
        return note_html(episode, "error")
    claims = "claims" if episode.renderer.has_extension_property else "does not claim"
    diagnosis = diagnose(episode.rollout)
    words = f"`{policy}`: {policy_names()[policy]}. `{renderer}` {claims} extension."
    view = break_drawings_view(diagnosis, most=1) if diagnosis.breaks else breaks_view(diagnosis)
    drawn = mo.Html(f'<div class="seq-played">{view.text}</div>')
    # a static page shows one cell only, whose conversation is much like that of section 7
    folded = fold_markup(
        "The conversation", playground_transcript_view(episode, diagnosis.spans).text
    )
    return mo.vstack([mo.md(words), drawn, *([mo.Html(folded)] if is_live_kernel() else [])])


def matrix_cell_fold(renderer: Any, policy: str) -> str:
    """One cell of the matrix with its break drawn, to unfold; HTML.

    Args:
        renderer: From `matrix_member_menu`.
        policy: Of `matrix_selector_cell`.
    """
    view = mo.as_html(matrix_cell_view(renderer.value, policy)).text
    menu = mo.as_html(renderer).text if len(renderer.options) > 1 else ""
    content = fold_markup("The chosen cell and its break", f"{menu}{view}")
    # where a click chooses, what was chosen stands open
    return content.replace("<details", "<details open", 1) if is_live_kernel() else content
