"""Section 2: what the editor's turns become, as the browser is told."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sequence_extension.cookbook import Trajectory
from sequence_extension.datums import datum_tensor
from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.editor.clicks import Click, apply_click
from sequence_extension.editor.code import rollout_to_code
from sequence_extension.editor.drafts import (
    FieldIssue,
    TurnDraft,
    drafts_to_rollout,
    next_draft,
)
from sequence_extension.editor.fields import FieldError
from sequence_extension.editor.scenarios import Scenario, scenarios
from sequence_extension.elements import model_input_to_elements
from sequence_extension.figures.palette import PALETTE
from sequence_extension.formats.native import element_to_native, native_to_json, rollout_to_native
from sequence_extension.page.html import (
    code_html,
    code_markup,
    field_issue_html,
    fold_markup,
    printed_html,
)
from sequence_extension.rollout import Rollout
from sequence_extension.text import count_text, printable_text, visible_text
from sequence_extension.turns import TurnSpan
from sequence_extension.wording import turn_wording


@dataclass(frozen=True)
class Edited:
    """What the reader has built by now.

    Attributes:
        serial: Of the browser's state.
        scenario: The one that was loaded last.
        drafts: The turns as typed, the click included.
        issues: Of all fields.
        rollout: None while a field cannot be read.
        diagnosis: Of the rollout.
        click_issue: Why the click could not be made, or "".
    """

    serial: int
    scenario: Scenario
    drafts: tuple[TurnDraft, ...]
    issues: list[FieldIssue]
    rollout: Rollout | None
    diagnosis: Diagnosis | None
    click_issue: str


def read_editing(state: Mapping[str, Any]) -> Edited:
    """The browser's state (see `TurnsEditor`), read."""
    scenario = scenarios()[state["scenario"]]
    drafts = tuple(TurnDraft(**draft) for draft in state["drafts"])
    problem = ""
    if state["click"]:
        try:
            drafts = apply_click(drafts, Click(**state["click"]))
        except FieldError as error:
            problem = str(error)
    changed = "" if drafts == scenario.drafts else ", edited"
    rollout, issues = drafts_to_rollout(drafts, scenario.vocab, scenario.title + changed)
    diagnosis = diagnose(rollout) if rollout else None
    return Edited(state["serial"], scenario, drafts, issues, rollout, diagnosis, problem)


def editing_view(result: Edited, note: str = "") -> dict[str, Any]:
    """What the browser shows of the reader's turns; all texts in its HTML are escaped.

    Args:
        result: From `edited`.
        note: A sentence about the address, while nothing was changed yet.

    Returns:
        serial; drafts; next (a turn to add); lesson and outcome (HTML); stale (a field cannot be
        read, or a click was refused); click_issue (HTML); turns, a dictionary per turn: verdict,
        splits, chips, readable, observation and action (elements), issues (HTML by field).
    """
    read = result.diagnosis or editing_diagnosis(
        result.drafts, result.issues, result.scenario.vocab
    )
    chips = editing_chips(read.rollout.trajectory, read.spans, read.rollout.vocab) if read else []
    steps = read.rollout.trajectory.transitions if read else []
    sizes = [(len(model_input_to_elements(step.ob)), len(step.ac.tokens)) for step in steps]
    turns: list[dict[str, Any]] = []
    for turn in range(len(result.drafts)):
        readable = turn < len(chips)
        span = read.spans[turn] if read and readable else None
        fields: dict[str, list[FieldIssue]] = {}
        for issue in result.issues:
            if issue.turn == turn:
                fields.setdefault(issue.field, []).append(issue)
        refused = read is not None and read.built.error_code is not None
        turns.append(
            {
                "verdict": turn_wording(span, refused) if span else "",
                "splits": bool(span and span.splits),
                "chips": [asdict(chip) for chip in chips[turn]] if readable else [],
                "readable": readable,
                "observation": sizes[turn][0] if readable else 0,
                "action": sizes[turn][1] if readable else 0,
                "issues": {
                    field: "".join(field_issue_html(issue.message, issue.fatal) for issue in mine)
                    for field, mine in fields.items()
                },
            }
        )
    lesson = html.escape(
        result.scenario.lesson
        if result.drafts == result.scenario.drafts
        else f"“{result.scenario.title}”, edited."
    )
    if note and not result.serial:
        lesson = f'<span class="issue"><b>!</b> {code_markup(note)}</span> {lesson}'
    return {
        "serial": result.serial,
        "drafts": [asdict(draft) for draft in result.drafts],
        "next": asdict(next_draft(result.drafts)),
        "lesson": lesson,
        "outcome": editing_outcome_html(result) + (editing_bars_html(read.spans) if read else ""),
        "stale": result.diagnosis is None or bool(result.click_issue),
        "click_issue": f"<b>✕</b> {code_markup(result.click_issue)}" if result.click_issue else "",
        "turns": turns,
    }


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


def editing_chips(
    trajectory: Trajectory, spans: Sequence[TurnSpan], vocab: Mapping[int, str], limit: int = 80
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
                label, text = str(element), visible_text(vocab.get(element, ""))
            else:
                label, text = (
                    printable_text(str(element_to_native(element)["image"]), 24),
                    count_text(element.length, "token"),
                )
            chips.append(Chip(position, label, text, kind))
        turns.append(chips)
    return turns


def editing_bars_html(spans: Sequence[TurnSpan]) -> str:
    """The turns as bars one below the other: read again, new, said; a cross where one splits."""
    longest = max((span.observation + span.action for span in spans), default=1) or 1
    scale, step = 160 / longest, 7
    bars: list[str] = []
    for row, span in enumerate(spans):
        parts = (
            (0, span.position, "zero"),
            (span.position, span.observation, "observation"),
            (
                span.observation,
                span.observation + span.action,
                "masked" if span.masked else "action",
            ),
        )
        bars += [
            f'<rect x="{start * scale:.1f}" y="{row * step}" width="{(end - start) * scale:.1f}" '
            f'height="{step - 2}" fill="{PALETTE[kind]["fill"]}"/>'
            for start, end, kind in parts
            if end > start
        ]
        if span.splits:
            bars.append(
                f'<rect x="{span.position * scale - 1:.1f}" y="{row * step - 1}" width="3" '
                f'height="{step}" fill="{PALETTE["break"]["fill"]}"/>'
            )
    height = max(len(spans) * step, 1)
    return (
        f'<svg width="162" height="{height}" viewBox="0 -1 162 {height + 1}" role="img" '
        f'aria-label="The turns as bars">{"".join(bars)}</svg>'
    )


def editing_outcome_html(result: Edited) -> str:
    """The line that stays in sight: how many datums these turns become, or why none."""
    diagnosis = result.diagnosis
    if diagnosis is None:
        bad = [issue for issue in result.issues if issue.fatal]
        unmatched = [issue for issue in result.issues if issue.unmatched]

        def places(issues: Sequence[FieldIssue]) -> str:
            return ", ".join(f"turn {turn}" for turn in sorted({issue.turn for issue in issues}))

        also = f", and logprobs do not match ({places(unmatched)})" if unmatched else ""
        return (
            f"<p><b>No trajectory yet.</b> {count_text(len(bad), 'field')} cannot be read "
            f"({places(bad)}){also}; the figures below show what could be read last.</p>"
        )
    if diagnosis.built.error_message:
        return f"<p><b>No datum.</b> {code_markup(diagnosis.built.error_message)}</p>"
    data = diagnosis.built.data
    trained = sum(value > 0 for datum in data for value in datum_tensor(datum, "mask"))
    return (
        f"<p>{count_text(len(result.drafts), 'turn')} "
        f"{'becomes' if len(result.drafts) == 1 else 'become'} "
        f"<b>{count_text(len(data), 'datum')}</b>: "
        f"{count_text(diagnosis.tokens_processed or 0, 'input')} go through the model, "
        f"{count_text(trained, 'action token')} are trained.</p>"
    )


def editing_diagnosis(
    drafts: Sequence[TurnDraft], issues: Sequence[FieldIssue], vocab: Mapping[int, str]
) -> Diagnosis | None:
    """The turns before the first one that cannot be read: nothing later changes them."""
    first = min((issue.turn for issue in issues if issue.fatal), default=len(drafts))
    rollout, _ = drafts_to_rollout(drafts[:first], vocab, "")
    return diagnose(rollout) if rollout else None


MOST_COLOURED = 4_000


def editing_code_folds(rollout: Rollout) -> str:
    """The same trajectory as Python and as JSON, to unfold, as HTML; long ones without colours."""
    texts = {
        "python": rollout_to_code(rollout),
        "json": native_to_json(rollout_to_native(rollout)),
    }
    views = {
        language: code_html(text, language) if len(text) < MOST_COLOURED else printed_html(text)
        for language, text in texts.items()
    }
    return fold_markup("The same trajectory as Python", views["python"].text) + fold_markup(
        "The same trajectory as JSON", views["json"].text
    )
