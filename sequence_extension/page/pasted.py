"""Section 10: a conversation to paste, judged under every renderer."""

from functools import lru_cache
from typing import Any

import marimo as mo
import pandas as pd

from sequence_extension.diagnosis import diagnose
from sequence_extension.env.conversation import (
    ConversationRollout,
    conversation_everywhere,
    conversation_renderers_alike,
    conversation_rollout,
)
from sequence_extension.env.messages import parse_messages
from sequence_extension.env.renderers import build_renderer
from sequence_extension.env.vocabulary import offline_vocabulary
from sequence_extension.overview import STAND_IN
from sequence_extension.page.html import (
    details_table_html,
    fold_markup,
    note_html,
    table_box_html,
)
from sequence_extension.page.views import break_drawings_view
from sequence_extension.remedies import remedy
from sequence_extension.rollout import PLACEHOLDER_LOGPROB
from sequence_extension.text import number_text
from sequence_extension.wording import cause_wording, turn_wording


def pasted_view(found: ConversationRollout, renderer: str | None = None) -> mo.Html:
    """The verdict on a pasted conversation, turn by turn."""
    assert found.rollout is not None
    diagnosis = diagnose(found.rollout)
    broken = {entry.turn: entry for entry in diagnosis.breaks}
    rows = []
    for span, message in zip(diagnosis.spans, found.answers, strict=True):
        entry = broken.get(span.turn)
        why = f": {cause_wording(entry.cause)}" if entry is not None else ""
        rows.append(
            {
                "message": message,
                "turn": span.turn,
                "datum": span.datum,
                "prompt tokens": span.observation,
                "answer tokens": span.action,
                "verdict": turn_wording(span) + why,
            }
        )
    notes = "".join(note_html(text, "look").text for text in found.notes)
    return mo.vstack(
        [
            table_box_html(pd.DataFrame(rows), "The assistant's messages as turns"),
            *([mo.Html(notes)] if notes else []),
            *([break_drawings_view(diagnosis)] if diagnosis.breaks else []),
            *[note_html(remedy(item, renderer)) for item in diagnosis.breaks[:1]],
            note_html(
                f"No model was asked, so the logprobs of {number_text(PLACEHOLDER_LOGPROB)} are "
                f"invented; {STAND_IN}."
            ),
        ]
    )


@lru_cache(maxsize=16)
def pasted_everywhere_view(text: str) -> mo.Html:
    """One conversation under every renderer; those that behave alike share a row.

    Args:
        text: The messages as `parse_messages` reads them; most readers leave the example.
    """
    table = conversation_everywhere(parse_messages(text).messages)
    # of those that can be read, the notes stand at the chosen one
    table["note"] = table["note"].where(table["datums/turns"] == "none", "")
    table["note"] = table["note"].str.replace(r"\w+Renderer has", "it has", regex=True)
    table["renderer"] = [f"`{name}`" for name in table["renderer"]]
    alike = conversation_renderers_alike(table)
    alike = alike if alike["note"].any() else alike.drop(columns="note")
    return details_table_html(
        alike, "The same conversation under every renderer", code=["renderer"]
    )


def pasted_result_view(text: str, renderer: str) -> Any:
    """The verdict on pasted messages under one renderer, and under every other as a table."""
    read = parse_messages(text)
    if read.issues:
        return mo.vstack([note_html(sentence, "error") for sentence in read.issues[:5]])
    built, reason = build_renderer(renderer, offline_vocabulary())
    if built is None:
        return note_html(reason, "error")
    result = conversation_rollout(read.messages, built)
    return mo.vstack(
        [
            *[note_html(sentence, "error") for sentence in result.issues[:5]],
            *([pasted_view(result, renderer)] if result.rollout and not result.issues else []),
            pasted_everywhere_view(text),
        ]
    )


def pasted_fold(messages: Any, reader: Any) -> str:
    """A conversation to paste, the renderer that reads it and the verdict, to unfold; HTML.

    Args:
        messages: The text field.
        reader: The menu of renderers.
    """
    lead = mo.md(
        "Each answer becomes a turn, its prompt and its action as the renderer writes them. No "
        "model is asked, so the verdict is about messages and renderer alone."
    )
    result = mo.as_html(pasted_result_view(messages.value, reader.value)).text
    return fold_markup(
        "Only the messages? Paste a conversation", f"{lead.text}{messages}{reader}{result}"
    )
