"""Section 10: what a file holds, and one of its rollouts."""

import html
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import marimo as mo
import pandas as pd

from sequence_extension.alignment import alignment_facts, alignment_table, alignment_window
from sequence_extension.break_table import break_table, break_table_marks, break_table_title
from sequence_extension.cost import cost_sentence
from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.figures.causes_chart import causes_chart, causes_chart_title
from sequence_extension.figures.runs_chart import runs_chart
from sequence_extension.formats.bounded import (
    MAX_PAGE_ROLLOUTS,
    MAX_PASTE_CHARS,
    Reading,
    read_bounded,
)
from sequence_extension.formats.build import MAX_ROLLOUT_TOKENS, MAX_ROLLOUT_TURNS
from sequence_extension.formats.detect import FILE_KEYS, READABLE
from sequence_extension.formats.results import FileIssue
from sequence_extension.formats.rollout_summaries import rollout_summaries_sentence
from sequence_extension.formats.stream import MAX_FILE_BYTES
from sequence_extension.overview import (
    MOST_OPEN_COUNTS,
    STAND_IN,
    WINDOW,
    Overview,
    overview,
    overview_counts,
    overview_window_places,
)
from sequence_extension.page.html import (
    code_markup,
    control_panel_html,
    details_table_html,
    dimmed_html,
    figure_box_html,
    fold_markup,
    note_html,
    table_box_html,
)
from sequence_extension.page.live import is_live_editor
from sequence_extension.page.rows import RowTable
from sequence_extension.page.strips import strip_view
from sequence_extension.page.verdicts import verdict_list_view
from sequence_extension.page.views import break_view
from sequence_extension.staircase import staircase_read_again
from sequence_extension.text import count_text, printable_text, share_text
from sequence_extension.tokenizers import TokenizerError, load_tokenizer_texts, with_tokenizer_texts
from sequence_extension.totals import Totals, totals_would_be
from sequence_extension.verdicts import verdicts
from sequence_extension.wording import (
    headline_wording,
    lineage_wording,
    refusal_wording,
    worded_warnings,
)

MAX_DRAWN_DATUMS = 300


def upload_issues_view(reading: Reading, most: int = 10) -> str:
    """What could not be read, a sentence each, and what was left out, as HTML."""
    rest = len(reading.issues) - most
    parts = [
        '<p class="seq-note seq-error" role="alert"><b>✕</b>'
        f"<span>{code_markup(issue.message)}</span></p>"
        for issue in reading.issues[:most]
    ]
    if rest > 0:
        parts.append(note_html(f"{rest:,} more trajectories cannot be read.", "look").text)
    if reading.left_out:
        parts.append(note_html(reading.left_out, "look").text)
    if reading.lengths_only:
        parts.append(note_html(rollout_summaries_sentence(reading.lengths_only), "look").text)
    return "".join(parts)


@dataclass(frozen=True)
class Read:
    """What is shown of the two inputs: the last one that held a rollout.

    Attributes:
        reading, overview: Its rollouts.
        source: Which input it is.
        texts: Of the tokenizer that was asked for, if any.
        failed, failed_source: What came after it and holds no rollout, if anything.
    """

    reading: Reading
    overview: Overview
    source: str
    texts: Mapping[int, str] | None = None
    failed: Reading | None = None
    failed_source: str = ""


def upload_view(read: Read) -> mo.Html:
    """What a file holds: what could not be read, sums, causes by count, the price."""
    parts = []
    totals = read.overview.totals
    if read.failed is not None:
        parts.append(upload_issues_view(read.failed))
        kept = f" Still shown: {read.source}, read before." if totals.rollouts else ""
        sentence = f"No rollout in {read.failed_source} can be shown.{kept}"
        parts.append(note_html(sentence, "look").text)
    if totals.rollouts:
        held = upload_issues_view(read.reading) + upload_sums_view(totals, read.source)
        parts.append(dimmed_html(held, read.failed is not None).text)
    return mo.Html("".join(parts))


def upload_sums_view(totals: Totals, source: str) -> str:
    """Rollouts, datums and inputs in all, causes by count, and what helps, as HTML."""
    counts = sorted(totals.datums_per_rollout.items())
    spread = (
        f"{counts[0][0]} to {counts[-1][0]} a rollout"
        if len(counts) > 6
        else ", ".join(
            f"{count_text(number, 'rollout')} with {count_text(count, 'datum')}"
            for count, number in counts
        )
    )
    refused = f" {totals.refused:,} refused." if totals.refused else ""
    lines = [
        f"<b>{count_text(totals.rollouts, 'rollout')}</b>, {count_text(totals.turns, 'turn')} in "
        f"{html.escape(source)}: <b>{count_text(totals.datums, 'datum')}</b> ({spread}).{refused}"
        if totals.datums
        else f"<b>{count_text(totals.rollouts, 'rollout')}</b> in {html.escape(source)}: no datum."
        f"{refused}",
    ]
    if totals.datums or not totals.refused:
        lines.append(
            f"<b>{count_text(totals.processed, 'input')}</b> (tokens through the model): "
            f"{share_text(totals.processed, totals.unmerged)}."
        )
    if totals.would_be:
        lines.append(f"Would be {totals_would_be(totals)}.")
    parts = [f"<p>{line}</p>" for line in lines]
    if totals.causes:
        drawn = causes_chart(totals.causes)
        parts.append(figure_box_html(drawn, causes_chart_title(totals.causes)).text)
    if totals.causes or totals.warnings or totals.errors:
        counted, title = overview_counts(totals), "Causes and warnings, and what helps"
        box = table_box_html if len(counted) <= MOST_OPEN_COUNTS else details_table_html
        parts.append(box(counted, title, name="seq-told", code=["what helps"]).text)
    return "".join(parts)


def upload_rollout_views(
    diagnosis: Diagnosis, most: int = 40, drawn: int = 5, anchor: str = ""
) -> list[mo.Html]:
    """One rollout: price, its breaks drawn, and a verdict a turn.

    Args:
        diagnosis: Of any rollout, also one that is refused.
        most: Lines of verdicts at most.
        drawn: Breaks drawn at most, the first of each cause; the very first stands open, the
            others unfold.
        anchor: Id of the heading, where a link leads to it.
    """
    name = html.escape(printable_text(diagnosis.rollout.name, 120))
    mark = f' id="{html.escape(anchor)}"' if anchor else ""
    views = [mo.Html(f'<h3 class="seq-title"{mark}>{name}</h3>')]
    if diagnosis.built.error_message is not None:
        views.append(note_html(f"Refused: {refusal_wording(diagnosis)}", "error"))
    else:
        views.append(note_html(cost_sentence(diagnosis)))
    views += [note_html(text, "look") for text in diagnosis.rollout.notes]
    lineage = lineage_wording(diagnosis)
    views += [note_html(lineage)] if lineage else []
    firsts = {found.cause: found for found in reversed(diagnosis.breaks)}
    chosen = [found for found in diagnosis.breaks if found is firsts[found.cause]][:drawn]
    for number, found in enumerate(chosen):
        figure = break_view(break_table(diagnosis, found), break_table_title(diagnosis, found))
        if number:
            figure = mo.Html(fold_markup(headline_wording(found), figure.text))
        views.append(figure)
    left = len(diagnosis.breaks) - len(chosen)
    if left > 0:
        them = "it" if left == 1 else "them"
        not_drawn = f"{count_text(left, 'more break')} not drawn"
        views.append(note_html(f"{not_drawn}; the verdicts per turn name {them}."))
    warnings = worded_warnings(diagnosis)
    listed = verdict_list_view(verdicts(diagnosis, warnings=warnings), most).text
    # warnings are said nowhere else, so they are not folded
    views.append(mo.Html(listed if warnings else fold_markup("A verdict per turn", listed)))
    return views


def upload_chosen_view(read: Read, diagnosis: Diagnosis) -> mo.Html:
    """`upload_rollout_views` in a place that is as high for a rollout that does not split."""
    views = mo.vstack(upload_rollout_views(diagnosis)).text
    return dimmed_html(f'<div class="seq-own">{views}</div>', read.failed is not None)


def upload_datum_rows(diagnosis: Diagnosis, datum: int) -> pd.DataFrame:
    """Alignment of one datum; empty where there is none, as when the rollout was refused."""
    built = diagnosis.built
    if datum >= len(built.data):
        return pd.DataFrame()
    return alignment_table(built, diagnosis.runs, diagnosis.rollout.vocab, [datum])


def upload_window_views(diagnosis: Diagnosis, rows: pd.DataFrame, start: int) -> list[mo.Html]:
    """A rollout as runs, and a window of one datum's tokens, with the window's facts as a table.

    Args:
        diagnosis: Of the rollout; too many turns to draw are said instead of drawn.
        rows: From `upload_datum_rows`, of one datum.
        start: First position of the window.
    """
    datum = int(rows["datum"].iloc[0])
    marks = break_table_marks(diagnosis)
    views = []
    turns, datums = len(diagnosis.spans), len(diagnosis.built.data)
    if datums <= MAX_DRAWN_DATUMS:
        views.append(
            figure_box_html(
                runs_chart(
                    diagnosis.runs,
                    marks,
                    shown=(datum, start, min(WINDOW, len(rows) - start)),
                    again=staircase_read_again(diagnosis),
                ),
                f"{count_text(turns, 'turn')} in {count_text(datums, 'datum')}; the frame marks "
                "the "
                "window below",
            )
        )
    else:
        views.append(
            note_html(
                f"{datums:,} datums are too many to draw; the window below shows their tokens."
            )
        )
    seen = alignment_window(rows, start, WINDOW)
    return [
        *views,
        strip_view(seen, [mark for mark in marks if mark[0] == datum]),
        details_table_html(alignment_facts(seen), "The window as a table"),
    ]


def upload_tokenizer_field() -> Any:
    """Asks for a tokenizer; None where nobody sits before the editor.

    A served app has no such field: a stranger would read folders of its machine.
    """
    if not is_live_editor():
        return None
    return mo.ui.text(
        placeholder="Qwen/Qwen3-8B or a folder with tokenizer.json",
        label="Tokenizer, for the texts of tokens and `retokenised`: a model of the Hugging Face "
        "hub (needs a network), or a folder",
        full_width=True,
    ).form(submit_button_label="Load it", bordered=False)


def upload_field_texts(name: str | None) -> tuple[Mapping[int, str] | None, mo.Html | None]:
    """Token texts of the tokenizer that the field names, and a sentence where it does not load."""
    if not name or not name.strip():
        return None, None
    try:
        with mo.status.spinner("Loading the tokenizer", remove_on_exit=True):
            return load_tokenizer_texts(name.strip()), None
    except TokenizerError as error:
        return None, note_html(str(error), "error")


def read_upload(
    upload: Any, text: str, last: dict[str, Read], texts: Mapping[int, str] | None = None
) -> Read:
    """What was uploaded, or without a file the text.

    Args:
        upload, text: The two inputs.
        last: Keeps what was read; it stays where what comes next holds no rollout.
        texts: From `upload_field_texts`.
    """
    source = f"the file {upload.name()}" if upload.value else "the text"
    with mo.status.spinner("Reading the rollouts", remove_on_exit=True):
        if upload.value:
            reading = read_bounded(upload.contents())
        elif len(text) <= MAX_PASTE_CHARS:
            reading = read_bounded(text)
        else:
            sentence = f"The text is longer than {MAX_PASTE_CHARS:,} characters: upload it."
            reading = Reading((), (FileIssue(sentence),))
        if reading.rollouts:
            last["read"] = Read(reading, overview(reading.rollouts, texts), source, texts)
            return last["read"]
        kept = last.get("read", Read(Reading((), ()), overview(()), ""))
        if kept.texts is not texts:
            kept = replace(kept, overview=overview(kept.reading.rollouts, texts), texts=texts)
            last["read"] = kept
    return replace(kept, failed=reading, failed_source=source)


def upload_advantage_note(read: Read) -> str:
    """Whose mean advantages are centred on, where rollouts of their groups may be missing."""
    reading = read.reading
    whole = not (reading.issues or reading.left_out or reading.lengths_only)
    if whole or all(advantage is None for advantage in read.overview.advantages):
        return ""
    return (
        "Advantages are centred on the rollouts that could be read: where one of the group is "
        "missing, training has others."
    )


def upload_rollout_menu(read: Read) -> Any:
    """The rollouts as a table, the worst chosen."""
    label = f"Choose a rollout, worst first. {upload_advantage_note(read)}".rstrip()
    return mo.ui.anywidget(RowTable(read.overview.table, label))


def upload_chosen_diagnosis(read: Read, menu: Any) -> Diagnosis | None:
    """The diagnosis of the chosen rollout, with its advantage where its group tells it."""
    table = read.overview.table
    if not len(table):
        return None
    index = int(table["#"].iloc[menu.value["chosen"]])
    advantage = read.overview.advantages[index]
    rollout = with_tokenizer_texts(read.reading.rollouts[index], read.texts)
    return diagnose(rollout, advantage=1.0 if advantage is None else advantage)


def upload_place_menu(diagnosis: Diagnosis | None) -> Any:
    """Where the window of single tokens may start: breaks first."""
    places = overview_window_places(diagnosis) if diagnosis else {}
    return mo.ui.dropdown(
        options=places or {"nothing to show": (0, 0)},
        value=next(iter(places), "nothing to show"),
        allow_select_none=False,
        searchable=True,
        full_width=True,
        label="Go to",
    )


def upload_window_fold(
    read: Read, diagnosis: Diagnosis, rows: pd.DataFrame, place: Any, start: Any
) -> str:
    """Single tokens of the chosen rollout, to unfold: where, as runs, and as a strip; HTML."""
    if not len(rows):
        return ""
    views = upload_window_views(diagnosis, rows, start.value)
    panel = control_panel_html({"place": place, "start": start}).text
    words = f"{STAND_IN}." if diagnosis.rollout.group is None else upload_advantage_note(read)
    views += [note_html(words)] if words else []
    return fold_markup("Token by token", panel + "".join(view.text for view in views))


def upload_start_slider(rows: pd.DataFrame, place: tuple[int, int]) -> Any:
    """First position of the window in its datum."""
    datum, start = place
    return mo.ui.slider(
        0,
        max(1, len(rows) - 2),
        value=min(start, max(0, len(rows) - 2)),
        show_value=True,
        full_width=True,
        debounce=True,
        label=f"First position in datum {datum}",
    )


def upload_format_help() -> str:
    """The file format in short, for readers of the page (markdown)."""
    head = {"name": "optional", "group": "optional", "vocab": {"3": "optional text"}}
    turns = [
        {"ob": [1, 2, {"image": "id", "tokens": 4}], "ac": [3], "logprobs": [-0.1]},
        {"append": [4], "ac": [5], "logprobs": [-0.2], "reward": 1.0},
    ]
    listed = ",\n  ".join(map(json.dumps, turns))
    keys = ", ".join(f"`{key}`" for key in FILE_KEYS)
    others = "\n".join(f"    - {name}: {known}" for name, known in READABLE[1:])
    return f"""
JSON (one trajectory, a list, or a list under {keys}) or JSONL (a trajectory a line):

```json
{json.dumps(head)[:-1]},
 "transitions": [
  {listed}]}}
```

- `append` instead of `ob`: the previous observation, the previous action, then these tokens.
- `logprobs` may be null, or hold null and `"NaN"`. `reward`, `episode_done` and `metrics` may be
  left out; other keys are ignored.
- Rollouts with the same `group` are one group.
- An image is its id; `"data:image/png;base64,..."` holds the picture, and `"asset": "png"` makes
  the id a location.
- Also read, by their own keys:
{others}
- At most {MAX_FILE_BYTES // 2**20} MB, {MAX_ROLLOUT_TURNS:,} turns and {MAX_ROLLOUT_TOKENS:,}
  tokens a rollout (history counted in every turn), {MAX_PAGE_ROLLOUTS:,} rollouts on this page.
"""
