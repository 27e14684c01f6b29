"""The report as one HTML file that needs nothing else: no network, no script, no marimo."""

import html
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import pandas as pd

from sequence_extension.alignment import alignment_finding, alignment_table, alignment_window
from sequence_extension.break_table import (
    break_table,
    break_table_facts,
    break_table_marks,
    break_table_title,
)
from sequence_extension.cost import cost_sentence
from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.figures.break_chart import break_chart
from sequence_extension.figures.causes_chart import causes_chart, causes_chart_title
from sequence_extension.figures.palette import PALETTE
from sequence_extension.figures.runs_chart import runs_chart
from sequence_extension.figures.strip_chart import strip_chart
from sequence_extension.markup import (
    code_markup,
    fold_markup,
    markup_css,
    scroll_markup,
    table_markup,
)
from sequence_extension.overview import (
    MOST_OPEN_COUNTS,
    STAND_IN,
    WINDOW,
    overview_counts,
    overview_main_cause,
    overview_window_places,
)
from sequence_extension.rollout import Rollout
from sequence_extension.staircase import staircase_read_again
from sequence_extension.text import count_text, printable_text, share_text
from sequence_extension.totals import Row, Totals, totals_would_be
from sequence_extension.turns import turn_runs_finding
from sequence_extension.wording import (
    cause_sentence_wording,
    lineage_wording,
    refusal_wording,
    worded_warnings,
)

# Bytes of the whole file, and of the rollouts in detail; what is left is for the tables.
MAX_PAGE_BYTES = 1_500_000
MAX_DETAIL_BYTES = 1_100_000
# Rows of the table of rollouts, rollouts in detail, breaks drawn of each, datums of a figure.
MAX_ROWS = 200
MAX_DRAWN = 12
MAX_BREAKS = 4
MAX_DATUMS = 60
MAX_ISSUES = 20
# Of the figure above the rollouts; theirs start at 0.
CAUSES_NUMBER = 100 * (MAX_DRAWN + 1)
# Stands for the colour of the page's text while a figure is drawn; in no palette.
PAGE_INK = "#010203"


class MissingExtra(RuntimeError):
    """What draws the figures is not installed."""


@cache
def html_report_drawing_config() -> dict[str, Any]:
    """Vega's configuration of text that takes the colour of the page."""
    names = ("guide-label", "guide-title", "group-title")
    return {
        "aria": False,
        "font": "system-ui, sans-serif",
        "style": {name: {"fill": PAGE_INK} for name in names},
        "title": {"color": PAGE_INK},
    }


def html_report_svg(figure: Any, number: int) -> str:
    """A figure as SVG for use inside HTML, in a light page and a dark one.

    Args:
        figure: What it draws is its `to_dict()`.
        number: Of the figure in the page, so that no two names in it are the same.

    Raises:
        MissingExtra: vl-convert is not installed.
    """
    try:
        import vl_convert
    except ModuleNotFoundError:
        raise MissingExtra(
            "--html needs vl-convert-python: pip install 'sequence-extension[html]'"
        ) from None
    spec = json.loads(json.dumps(figure.to_dict()))
    drawn = str(vl_convert.vegalite_to_svg(spec, config=html_report_drawing_config()))
    drawn = drawn.replace(PAGE_INK, "currentColor")
    drawn = re.sub(r"<[^>]+>", lambda tag: html_report_short_numbers(tag[0]), drawn)
    drawn = re.sub(r'\bid="([^"]+)"', rf'id="f{number}-\1"', drawn)
    drawn = drawn.replace("url(#", f"url(#f{number}-").replace('href="#', f'href="#f{number}-')
    label = html.escape(figure.description)
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def html_report_short_numbers(tag: str) -> str:
    """A tag with places to a tenth of a pixel; numbers that are read stand between tags."""
    return re.sub(r"-?\d+\.\d{2,}", lambda found: f"{float(found[0]):.1f}", tag)


def html_report_figure(figure: Any, title: str, number: int) -> str:
    """A figure with its finding as text; names of lanes stay while the drawing scrolls."""
    lanes = "".join(
        f'<span style="top:{top}px">{html.escape(name)}</span>'
        for top, name in getattr(figure, "lanes", ())
    )
    side = (
        f'<div class="seq-lanes" aria-hidden="true" style="height:{figure.height}px">{lanes}</div>'
        if lanes
        else ""
    )
    box = scroll_markup(html_report_svg(figure, number), title)
    return (
        f'<figure class="seq-figure"><figcaption><b>{html.escape(title)}</b></figcaption>'
        f'<div class="seq-body">{side}{box}</div></figure>'
    )


def html_report_note(text: str, kind: str = "") -> str:
    """One sentence in a box."""
    return f'<p class="seq-note {kind}">{code_markup(text)}</p>'


def html_report_break(diagnosis: Diagnosis, at: int, number: int) -> str:
    """One break: drawn, in words, what helps, and the same facts as a table."""
    item = diagnosis.breaks[at]
    table = break_table(diagnosis, item)
    sentences = [cause_sentence_wording(item), *item.hints]
    if not at or item.help != diagnosis.breaks[at - 1].help:  # said once for those in a row
        sentences.append(item.help)
    words = "".join(f"<li>{code_markup(sentence)}</li>" for sentence in sentences)
    facts = scroll_markup(
        table_markup(break_table_facts(table), merged=2), "The same facts as a table"
    )
    drawn = html_report_figure(break_chart(table), break_table_title(diagnosis, item), number)
    return f"{drawn}<ul>{words}</ul>{fold_markup('The same facts as a table', facts)}"


def html_report_datums(diagnosis: Diagnosis, number: int, advantage: float | None) -> str:
    """The rollout as runs, and a window of tokens around its first break.

    Args:
        diagnosis: With the advantage on its datums.
        number: Of the first figure in the page.
        advantage: None where 1 stands in for it, which is said.
    """
    places = overview_window_places(diagnosis)
    if not places:
        return ""
    marks = break_table_marks(diagnosis)
    parts = []
    if len(diagnosis.built.data) <= MAX_DATUMS and len(diagnosis.runs) <= 10 * MAX_DATUMS:
        drawn = runs_chart(diagnosis.runs, marks, again=staircase_read_again(diagnosis))
        parts.append(html_report_figure(drawn, turn_runs_finding(diagnosis.runs), number))
    datum, start = next(iter(places.values()))
    rows = alignment_table(diagnosis.built, diagnosis.runs, diagnosis.rollout.vocab, [datum])
    seen = alignment_window(rows, start, WINDOW)
    near = [mark for mark in marks if mark[0] == datum]
    parts.append(
        html_report_figure(strip_chart(seen, breaks=near), alignment_finding(seen), number + 1)
    )
    if advantage is None:
        parts.append(html_report_note(f"{STAND_IN}."))
    return "".join(parts)


def html_report_rollout(
    rollout: Rollout, place: int, drawn: bool = True, advantage: float | None = None
) -> str:
    """One rollout in detail; its heading is `rollout-<place>`.

    Args:
        rollout: Any rollout, also one that is refused.
        place: Its place in the page.
        drawn: With figures.
        advantage: Of the rollout in its group, where that is known.
    """
    diagnosis = diagnose(rollout, advantage=1.0 if advantage is None else advantage)
    name = html.escape(printable_text(rollout.name, 120))
    parts = [f'<section><h2 id="rollout-{place}">{name}</h2>']
    if diagnosis.built.error_message is not None:
        parts.append(html_report_note(f"Refused: {refusal_wording(diagnosis)}", "seq-error"))
    else:
        parts.append(f"<p>{html.escape(cost_sentence(diagnosis))}</p>")
    lineage = lineage_wording(diagnosis)
    parts += [html_report_note(lineage)] if lineage else []
    for item in worded_warnings(diagnosis)[:MAX_ISSUES]:
        parts.append(
            html_report_note(f"{item.code}: {' '.join([item.message, item.help, *item.hints])}")
        )
    shown = len(diagnosis.breaks[:MAX_BREAKS]) if drawn else 0
    parts += [html_report_break(diagnosis, at, 100 * place + at) for at in range(shown)]
    left = len(diagnosis.breaks) - shown
    if left > 0:
        more = "more " if shown else ""
        parts.append(
            f"<p>{count_text(left, f'{more}break')} not drawn; the JSON report has all.</p>"
        )
    if drawn:
        parts.append(html_report_datums(diagnosis, 100 * place + 90, advantage))
    return "".join([*parts, "</section>"])


def html_report_datum_count(row: Row) -> str:
    """The datums of a rollout, as far as they are known."""
    if row.would_be is not None:
        return f"none; would be {row.would_be}"
    return f"at least {row.datums}" if row.lengths_only else str(row.datums)


def html_report_rows(rows: Sequence[Row], links: Mapping[int, str]) -> str:
    """The rollouts as a table, worst first; some lead to their details."""
    frame = pd.DataFrame(
        [
            {
                "place": place + 1,
                "rollout": printable_text(row.name, 80),
                "datums": html_report_datum_count(row),
                "main cause": overview_main_cause(row),
                "turns": row.turns,
                "inputs": None if row.error else row.processed,
                "read again": None if row.error else sum(row.again.values()),
                "warnings": sum(row.warnings.values()),
                "group": printable_text(row.group or "", 30),
                "file": printable_text(row.file, 80),
            }
            for place, row in enumerate(rows)
        ]
    ).astype({"inputs": "Int64", "read again": "Int64"})  # with gaps where nothing is read
    silent = [name for name in ("main cause", "group", "file") if not frame[name].any()]
    table = table_markup(
        frame.drop(columns=silent), "Worst first", name="seq-rollouts", links=links
    )
    return scroll_markup(table, "Rollouts, worst first")


def html_report_sums(totals: Totals) -> str:
    """The sums over all rollouts, the causes with their price, and what helps."""
    spread = ", ".join(
        f"{count_text(number, 'rollout')} with {count_text(count, 'datum')}"
        for count, number in sorted(totals.datums_per_rollout.items())[:8]
    )
    refused = f" {totals.refused:,} refused." if totals.refused else ""
    spread = f" ({spread})" if spread else ""
    parts = [
        f"<p><b>{count_text(totals.rollouts, 'rollout')}</b>, {count_text(totals.turns, 'turn')}: "
        f"<b>{count_text(totals.datums, 'datum')}</b>{spread}.{refused}</p>",
    ]
    if totals.datums or not totals.refused:
        parts.append(
            f"<p><b>{count_text(totals.processed, 'input')}</b> (tokens through the model): "
            f"{share_text(totals.processed, totals.unmerged)}; "
            f"{totals.again.total():,} of them read again.</p>"
        )
    if totals.would_be:
        parts.append(f"<p>Would be {totals_would_be(totals)}.</p>")
    if totals.causes:
        drawn = causes_chart(totals.causes)
        parts.append(html_report_figure(drawn, causes_chart_title(totals.causes), CAUSES_NUMBER))
    counts = overview_counts(totals)
    if len(counts):
        few, caption = len(counts) <= MOST_OPEN_COUNTS, "Causes and warnings, and what helps"
        table = table_markup(counts, caption * few, name="seq-told", code=["what helps"])
        box = scroll_markup(table, caption)
        parts.append(box if few else fold_markup(caption, box))
    return "".join(parts)


def html_report_style() -> str:
    """The sheet, with the palette's colours as variables."""
    colours = "".join(f"--seq-{name}:{entry['fill']};" for name, entry in PALETTE.items())
    rules = files("sequence_extension").joinpath("report.css").read_text(encoding="utf-8")
    return f":root{{{colours}}}\n{markup_css()}{rules}"


def html_report_page(
    title: str,
    totals: Totals,
    rows: Sequence[Row],
    drawn: Sequence[tuple[Row, Rollout, float | None]],
    issues: Sequence[str] = (),
) -> str:
    """The whole page, at most `MAX_PAGE_BYTES` whatever was read.

    Args:
        title: What was read.
        totals: Sums over all rollouts.
        rows: The worst rollouts, worst first; at most `MAX_ROWS` are listed.
        drawn: The worst of these, to be drawn, with their advantages where their groups are
            known; at most `MAX_DRAWN`.
        issues: Sentences on what could not be read.

    Raises:
        MissingExtra: vl-convert is not installed.
    """
    sections: list[str] = []
    links: dict[int, str] = {}
    listed = rows[:MAX_ROWS]
    room = MAX_DETAIL_BYTES
    for place, (row, rollout, advantage) in enumerate(drawn[:MAX_DRAWN]):
        section = html_report_rollout(rollout, place, advantage=advantage)
        if len(section.encode()) > room:
            section = html_report_rollout(rollout, place, drawn=False)
        if len(section.encode()) > room:
            break
        sections.append(section)
        links |= {at: f"rollout-{place}" for at, other in enumerate(listed) if other is row}
        room -= len(section.encode())
    told = [
        html_report_note(f"Not read: {issue[:1500]}", "seq-error") for issue in issues[:MAX_ISSUES]
    ]
    if len(issues) > MAX_ISSUES:
        told.append(
            html_report_note(f"{len(issues) - MAX_ISSUES:,} more were not read.", "seq-error")
        )
    left = totals.rollouts - len(listed)
    name = html.escape(printable_text(title, 160))
    made = ", ".join(
        f"{each} {version(each)}" for each in ("sequence-extension", "tinker-cookbook")
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">"
        f"<title>{name}: sequence "
        f"extension</title><style>{html_report_style()}</style></head><body><main>"
        f"<h1>{name}</h1>{''.join(told)}{html_report_sums(totals)}"
        f"{html_report_rows(listed, links) if listed else ''}"
        f"{f'<p>{left:,} more rollouts are not listed; they are no worse.</p>' if left else ''}"
        f"{''.join(sections)}"
        f'<p class="seq-muted">Made with {made}. {code_markup(FOOT)}</p></main></body></html>\n'
    )


FOOT = (
    "A datum is one training example of `trajectory_to_data`; a turn splits where its prompt does "
    "not start with all tokens before it. Turns and positions count from 0."
)
