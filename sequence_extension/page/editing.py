"""Section 2: fields, chips and sentences of the editor."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import marimo as mo

from sequence_extension.cookbook import Trajectory, tinker
from sequence_extension.datums import datum_tensor
from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.editor.drafts import FieldIssue, TurnDraft, drafts_to_rollout
from sequence_extension.formats.native import element_to_native
from sequence_extension.page.html import code_spans, note
from sequence_extension.rollout import model_input_to_elements
from sequence_extension.text import count_of, number_text
from sequence_extension.turns import TurnSpan


def draft_widgets(draft: TurnDraft) -> Any:
    """The fields of one turn as `mo.ui.dictionary`, keyed by `TurnDraft` attribute."""
    modes = {
        "carries the history over": "extends",
        "edits the history": "edits",
        "replaces the history": "replaces",
    }
    shown_as = {mode: label for label, mode in modes.items()}

    def text(label: str, value: str, placeholder: str = "") -> Any:
        return mo.ui.text(
            value, label=label, placeholder=placeholder, debounce=400, full_width=True
        )

    return mo.ui.dictionary(
        {
            "history": mo.ui.dropdown(
                modes,
                value=shown_as[draft.history],
                allow_select_none=False,
                label="The observation",
                full_width=True,
            ),
            "edits": text("Changes to the history", draft.edits, "7: 13; 8-9:; 10+: 14"),
            "ob": text("New observation tokens", draft.ob, "none"),
            "ac": text("Action tokens", draft.ac, "none"),
            "logprobs": text("Logprobs", draft.logprobs, "none reported"),
            "reward": text("Reward", draft.reward, "0"),
            "masked": mo.ui.checkbox(draft.masked, label="Masked"),
        }
    )


@dataclass(frozen=True)
class Chip:
    """One element of a turn, as it is shown beside the fields of the editor.

    Attributes:
        position: In the turn's observation + action; an image is one element.
        label: The token id, or the image's name.
        text: Text of the token where known.
        kind: "held": carried over unchanged; "break": the first element that differs from the
            running sequence; "end": nothing is left where the running sequence goes on;
            "gap": elements that are left out.
    """

    position: int
    label: str
    text: str
    kind: Literal["held", "observation", "action", "masked", "break", "end", "gap"]


def turn_chips(
    trajectory: Trajectory, spans: Sequence[TurnSpan], vocab: Mapping[int, str], limit: int = 120
) -> list[list[Chip]]:
    """The elements of every turn, with what it carries over and where it breaks.

    At most about `limit` elements a turn are kept: around the break, and the end.
    """
    turns: list[list[Chip]] = []
    for span, transition in zip(spans, trajectory.transitions, strict=True):
        elements = [*model_input_to_elements(transition.ob), *transition.ac.tokens]
        chips: list[Chip] = []
        if len(elements) <= limit:
            kept = set(range(len(elements)))
        else:
            near = range(max(0, span.position - limit // 4), span.position + limit // 4)
            kept = {*near, *range(len(elements) - limit // 2, len(elements))}
        for position, element in enumerate(elements):
            if position == span.observation and span.splits and span.position == span.observation:
                chips.append(Chip(position, "", "ends here", "end"))
            if position not in kept:
                if not chips or chips[-1].kind != "gap":
                    chips.append(Chip(position, "…", "", "gap"))
                continue
            if position >= span.observation:
                kind: Any = "masked" if span.masked else "action"
            elif span.splits and position == span.position:
                kind = "break"
            else:
                kind = "held" if position < span.position else "observation"
            if isinstance(element, int):
                label, text = str(element), vocab.get(element, "")
            else:
                label, text = (
                    str(element_to_native(element)["image"]),
                    count_of(element.length, "token"),
                )
            chips.append(Chip(position, label, text, kind))
        turns.append(chips)
    return turns


def chips_html(chips: Sequence[Chip], label: str) -> str:
    """Elements of one turn as a row of chips: position, id, text; runs open with their letter.

    Args:
        chips: From `turn_chips`.
        label: Accessible name of the list.
    """
    letters = {"held": "=", "break": "O", "observation": "O", "action": "A", "masked": "A"}
    words = {
        "held": "carried over", "observation": "new observation", "action": "action",
        "masked": "action, masked", "break": "differs here", "end": "ends here", "gap": "left out",
    }  # fmt: skip
    cells: list[str] = []
    previous = ""
    for chip in chips:
        text = "".join(char if char.isprintable() else "␤" for char in chip.text[:40])
        name = "".join(char if char.isprintable() else "?" for char in chip.label[:24])
        group = "observation" if chip.kind == "break" else chip.kind
        letter = letters.get(chip.kind, "") if group != previous else ""
        mark = "✕" if chip.kind in ("break", "end") else letter
        previous = group
        cells.append(
            f'<li class=edit-chip-{chip.kind} title="{words[chip.kind]}">'
            f"<small>{chip.position if chip.kind not in ('end', 'gap') else ''}"
            f"<b>{mark}</b></small>"
            f"<span>{html.escape(name)}</span><i>{html.escape(text)}</i>"
        )
    return (
        f'<ol class="edit-chips" tabindex="0" aria-label="{html.escape(label)}">'
        f"{''.join(cells)}</ol>"
    )


def issues_html(issues: Sequence[FieldIssue]) -> str:
    """The sentences beside one field; the place is kept when there are none."""
    lines = "".join(
        f'<p class="edit-issue edit-issue-{"bad" if issue.fatal else "look"}">'
        f"<b>{'✕' if issue.fatal else '!'}</b> {code_spans(issue.message)}</p>"
        for issue in issues
    )
    return f'<div role="status">{lines}</div>'


def turn_html(
    turn: int,
    verdict: str,
    widgets: Mapping[str, Any],
    remove: Any,
    issues: Sequence[FieldIssue],
    chips: Sequence[Chip],
    history: str,
) -> str:
    """One turn of the editor: its fields, the sentences beside them, its tokens.

    Hidden fields stay in the page, so that what was typed in them is kept.

    Args:
        turn: Index of the turn.
        verdict: A few words beside the number of the turn.
        widgets: One UI element per `TurnDraft` attribute.
        remove: The button that removes the turn.
        issues: Of this turn only.
        chips: Of this turn; empty when it, or a turn before it, could not be read.
        history: The history mode as it stands.
    """
    hint = '<p class="edit-hint">Positions: the small numbers at the turn before.</p>'
    cells: list[str] = []
    for name, widget in widgets.items():
        hidden = (name == "history" and turn == 0) or (
            name == "edits" and (turn == 0 or history != "edits")
        )
        mine = [issue for issue in issues if issue.field == name]
        cells.append(
            f'<div class="edit-field edit-{name}"{" hidden" if hidden and not mine else ""}>'
            f"{widget}{hint if name == 'edits' else ''}{issues_html(mine)}</div>"
        )
    return (
        f'<fieldset class="edit-turn"><legend>Turn {turn} <span>{html.escape(verdict)}</span>'
        f'</legend><div class="edit-fields">{"".join(cells)}</div>'
        f'<div class="edit-foot">{chips_html(chips, f"Tokens of turn {turn}")}'
        f"<div>{remove}</div></div></fieldset>"
    )


def waiting() -> mo.Html:
    """What stands in place of a figure while the editor cannot be read."""
    return note("This comes back once every field of section 2 can be read.")


def lanes_html(data: Sequence[tinker.Datum]) -> mo.Html:
    """Datums as plain tables: a row per tensor that the loss gets, a column per input position."""
    parts: list[str] = []
    for index, datum in enumerate(data):
        tokens = datum.model_input.to_ints()
        lanes = {"input": tokens} | {
            name: tensor.data for name, tensor in datum.loss_fn_inputs.items()
        }
        head = "".join(f'<th scope="col">{position}</th>' for position in range(len(tokens)))
        rows = "".join(
            f'<tr><th scope="row">{html.escape(name)}</th>'
            + "".join(f"<td>{number_text(value)}</td>" for value in values)
            + "</tr>"
            for name, values in lanes.items()
        )
        parts.append(
            f'<div class="edit-lanes" tabindex="0"><table><caption>Datum {index}</caption>'
            f'<thead><tr><th scope="col">position</th>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )
    return mo.Html("".join(parts))


def diagnose_before(
    drafts: Sequence[TurnDraft], issues: Sequence[FieldIssue], vocab: Mapping[int, str]
) -> Diagnosis | None:
    """The turns before the first one that cannot be read: nothing later changes them."""
    first = min((issue.turn for issue in issues if issue.fatal), default=len(drafts))
    rollout, _ = drafts_to_rollout(drafts[:first], vocab, "")
    return diagnose(rollout) if rollout else None


def outcome_html(
    drafts: Sequence[TurnDraft], issues: Sequence[FieldIssue], diagnosis: Diagnosis | None
) -> str:
    """The line under the editor: how many datums these turns become, or why none."""
    if diagnosis is None:
        bad = [issue for issue in issues if issue.fatal]
        unmatched = [issue for issue in issues if issue.unmatched]

        def places(found: Sequence[FieldIssue]) -> str:
            return ", ".join(f"turn {turn}" for turn in sorted({issue.turn for issue in found}))

        also = f", and logprobs do not match ({places(unmatched)})" if unmatched else ""
        return (
            f'<p class="edit-outcome" role="status"><b>No trajectory yet.</b> '
            f"{count_of(len(bad), 'field')} cannot be read ({places(bad)}){also}; the figures "
            f"below wait for {'it' if len(bad) + len(unmatched) == 1 else 'them'}.</p>"
        )
    if diagnosis.built.error_message:
        return (
            f'<p class="edit-outcome" role="status"><b>No datum.</b> '
            f"{code_spans(diagnosis.built.error_message)}</p>"
        )
    data = diagnosis.built.data
    trained = sum(value > 0 for datum in data for value in datum_tensor(datum, "mask"))
    return (
        f'<p class="edit-outcome" role="status">{count_of(len(drafts), "turn")} '
        f"{'becomes' if len(drafts) == 1 else 'become'} "
        f"<b>{count_of(len(data), 'datum')}</b>: "
        f"{count_of(diagnosis.tokens_processed or 0, 'token')} go through the model, "
        f"{count_of(trained, 'action token')} are trained.</p>"
    )


def field_grid(fields: Sequence[tuple[Any, str | None]]) -> mo.Html:
    """Input fields side by side where there is room, each with its sentence beneath.

    Args:
        fields: Pairs of a marimo element and the sentence about its value, or None.
    """
    cells = "".join(
        f"<div>{element}{issues_html([FieldIssue(0, '', issue)] if issue else [])}</div>"
        for element, issue in fields
    )
    return mo.Html(f'<div class="seq-fields">{cells}</div>')
