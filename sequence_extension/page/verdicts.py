"""Section 4: why the reader's trajectory split, a verdict per turn."""

import html
import itertools
from collections.abc import Sequence
from typing import Any

import marimo as mo

from sequence_extension.break_table import break_table, break_table_title
from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.page.html import (
    code_markup,
    note_html,
)
from sequence_extension.page.once import once
from sequence_extension.page.views import break_drawings_view, break_view
from sequence_extension.verdicts import Verdict, verdicts
from sequence_extension.wording import lineage_wording

# A split to look at while the reader's own trajectory has none.
EXAMPLE = "removed"


@once
def verdicts_view_example() -> Diagnosis:
    """The scenario that section 4 opens with."""
    return diagnose(scenario_rollout(scenarios()[EXAMPLE]))


def verdict_breaks_view(diagnosis: Diagnosis) -> mo.Html:
    """The breaks of a trajectory, or those of an example where nothing splits."""
    if diagnosis.breaks:
        drawn = break_drawings_view(diagnosis, most=8).text
    else:
        scenario = scenarios()[EXAMPLE]
        lead = note_html(
            f"An example, as section 2's turns do not split: “{scenario.title}”. {scenario.lesson}"
        )
        first = verdicts_view_example().breaks[0]
        figure = break_view(
            break_table(verdicts_view_example(), first),
            break_table_title(verdicts_view_example(), first),
        )
        drawn = lead.text + figure.text
    return mo.Html(f'<div class="seq-breaks">{drawn}</div>')


def verdicts_view(diagnosis: Diagnosis) -> Any:
    """A verdict per turn, and whether another order would have given fewer datums."""
    lineage = lineage_wording(diagnosis)
    lead = mo.md("### Section 2's trajectory, turn by turn")
    listed = (note_html(lineage).text if lineage else "") + verdict_list_view(
        verdicts(diagnosis)
    ).text
    box = f'<div class="seq-list" tabindex="0" role="group" aria-label="Verdicts">{listed}</div>'
    return mo.vstack([lead, mo.Html(box)])


def verdict_list_view(listed: Sequence[Verdict], most: int = 40) -> mo.Html:
    """Verdicts as a list that reads at any width: sign, label and sentences per turn.

    Turns in a row that simply extend share one line. All texts are escaped.

    Args:
        listed: From `verdicts`.
        most: Lines at most; what is left out is counted.
    """
    items: list[str] = []
    groups = itertools.groupby(
        listed, key=lambda item: "extends" if item.kind == "extends" else f"turn {item.turn}"
    )
    lines = [list(group) for _, group in groups]
    signs = {"starts": "●", "extends": "✓", "splits": "✕", "look": "!"}
    for line in lines[:most]:
        first, last = line[0], line[-1]
        turns = f"Turn {first.turn}" if first is last else f"Turns {first.turn} to {last.turn}"
        label = first.label if first is last or first.kind != "extends" else "extend"
        sentences = list(first.sentences)
        if first is not last:
            sentences = [f"Each observation starts with all that was held; datum {first.datum}."]
        words = "".join(f"<li>{code_markup(sentence)}" for sentence in sentences)
        short = first.headline.partition(": ")[2]
        finding = f" <span>{html.escape(short)}</span>" if short else ""
        items.append(
            f'<li class="seq-verdict seq-verdict-{first.kind}"><p><b>{turns}</b> '
            f'<span class="seq-verdict-sign"><span aria-hidden="true">{signs[first.kind]}</span> '
            f"{html.escape(label)}</span>{finding}</p><ul>{words}</ul>"
        )
    rest = sum(len(line) for line in lines[most:])
    more = f'<p class="seq-note">{rest} more turns are left out here.</p>' if rest else ""
    return mo.Html(
        f'<ol class="seq-verdicts" aria-label="Verdict per turn">{"".join(items)}</ol>{more}'
    )
