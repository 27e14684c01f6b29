"""One conversation twice, as it split and as it would extend: what the first figure draws."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from sequence_extension.break_table import break_table_blocks, break_table_sides
from sequence_extension.breaks import Break
from sequence_extension.datums import build_datums, datum_tensor
from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.elements import (
    element_id,
    element_length,
    elements_to_model_input,
    model_input_to_elements,
)
from sequence_extension.rollout import Rollout
from sequence_extension.text import count_text
from sequence_extension.turns import TurnSpan
from sequence_extension.wording import cause_wording, turn_wording

MOST_TURNS = 3  # of a scenario in the first figure


@dataclass(frozen=True)
class Cell:
    """One element as the first figure draws it, each turn once.

    Attributes:
        turn: Where it was read, sampled, or lost.
        part: "O" or "A".
        kind: "O" new, "A" or "M" (masked) sampled, "=" read again, "." lost at the break.
        id, text: Of the token; an image has the text `img`, with its tokens where it has several.
        mask: Its entry as a target of its datum, "" for none: observation, or lost.
        tokens: As many as the element takes.
    """

    turn: int
    part: str
    kind: str
    id: str
    text: str
    mask: str = ""
    tokens: int = 1


@dataclass(frozen=True)
class Turn:
    """A turn as the first figure draws it.

    Attributes:
        turn, datum: Which it is, and which it ends in.
        verdict: What became of it, in words.
        shared: Elements in common with the running sequence, where it splits.
        cells: What it reads and what is sampled.
    """

    turn: int
    datum: int
    verdict: str
    shared: int | None
    cells: list[Cell]


@dataclass(frozen=True)
class Panel:
    """One conversation: its turns, and after each of them datums and counts in words."""

    turns: list[Turn]
    steps: list[tuple[str, str]]


def staircase_break(diagnosis: Diagnosis, turn: int) -> Break | None:
    """The break of a turn, if it splits."""
    return next((found for found in diagnosis.breaks if found.turn == turn), None)


def staircase_verdict(diagnosis: Diagnosis, span: TurnSpan) -> str:
    """What became of a turn, as it stands beside its row; behind a ✕ why it splits."""
    item = staircase_break(diagnosis, span.turn)
    return f"✕ {cause_wording(item.cause)}" if item else turn_wording(span).partition(",")[0]


def staircase_observed(diagnosis: Diagnosis, turn: int) -> Iterator[tuple[str, Any]]:
    """What a turn's observation adds to the datum it ends in: (kind, element), in order.

    Where the turn extends, that is what is new. Where it splits, all of it is processed: what an
    earlier datum had as input is read again ("="), and what the prompt lost stands at its place.
    """
    new = model_input_to_elements(diagnosis.rollout.trajectory.transitions[turn].ob)
    found = staircase_break(diagnosis, turn)
    if found is None:
        yield from (("O", element) for element in new[diagnosis.spans[turn].held :])
        return
    if found.resumes_datum is not None and (known := staircase_resumed_length(diagnosis, found)):
        yield from (("=", element) for element in new[: known - 1])
        yield from (("O", element) for element in new[known - 1 :])
        return
    held, _ = break_table_sides(diagnosis, found)
    for kind, i, j, length in break_table_blocks(diagnosis, found):
        if kind == "removed":
            yield from ((".", element) for element in held[i : i + length])
            continue
        for at in range(length if kind != "unaligned" else len(new) - j):
            # the last element held was a target, never an input: not read before
            again = kind == "same" and i + at < len(held) - 1
            yield "=" if again else "O", new[j + at]


def staircase_read_again(diagnosis: Diagnosis, most: int = 60) -> list[tuple[int, int, int]]:
    """Stretches that an earlier datum had as input: (datum, start, end), in positions.

    Args:
        diagnosis: Of any rollout.
        most: Breaks at most that are looked at; with more, the common prefix alone counts.
    """
    stretches: list[tuple[int, int, int]] = []
    if diagnosis.built.error_code is not None:
        return stretches
    for found in diagnosis.breaks:
        datum = diagnosis.spans[found.turn].datum
        if len(diagnosis.breaks) > most:
            stretches += [(datum, 0, found.position)] * (found.position > 0)
            continue
        place = 0
        for again, group in itertools.groupby(
            (pair for pair in staircase_observed(diagnosis, found.turn) if pair[0] != "."),
            key=lambda pair: pair[0] == "=",
        ):
            size = sum(element_length(element) for _, element in group)
            stretches += [(datum, place, place + size)] * again
            place += size
    return stretches


def staircase_resumed_length(diagnosis: Diagnosis, found: Break) -> int:
    """Elements of the datum that a turn goes on from."""
    last = max(span.turn for span in diagnosis.spans if span.datum == found.resumes_datum)
    span = diagnosis.spans[last]
    return span.observation + span.action


def staircase_cells(diagnosis: Diagnosis) -> list[Cell]:
    """Every turn once, element by element: what it reads and what is sampled, with the mask."""
    vocab = diagnosis.rollout.vocab
    masks: dict[int, list[str]] = {}
    for run in diagnosis.runs:
        if run.part == "A":
            mask = [
                "",
                *(f"{value:g}" for value in datum_tensor(diagnosis.built.data[run.datum], "mask")),
            ]
            masks[run.turn] = mask[run.start : run.start + run.length]
    cells = []
    for span, transition in zip(
        diagnosis.spans, diagnosis.rollout.trajectory.transitions, strict=True
    ):
        for kind, element in staircase_observed(diagnosis, span.turn):
            text = vocab.get(element, "") if isinstance(element, int) else "img"
            size = element_length(element)
            shown = f"{text} \u00d7 {size}" if size > 1 else text
            cells.append(Cell(span.turn, "O", kind, element_id(element), shown, tokens=size))
        kind = "M" if span.masked else "A"
        for token, entry in zip(transition.ac.tokens, masks.get(span.turn, []), strict=True):
            cells.append(Cell(span.turn, "A", kind, str(token), vocab.get(token, ""), entry))
    return cells


def staircase_kept_rollout(diagnosis: Diagnosis) -> Rollout:
    """The same conversation, had each prompt kept what was read and sampled before it."""
    running: list[Any] = []
    transitions = []
    for span, transition in zip(
        diagnosis.spans, diagnosis.rollout.trajectory.transitions, strict=True
    ):
        new = model_input_to_elements(transition.ob)
        found = staircase_break(diagnosis, span.turn)
        start = span.held
        if found is not None:
            start = found.position + found.kept + found.inserted + (found.cause == "end_token")
            if found.resumes_datum is not None:
                start = staircase_resumed_length(diagnosis, found)
        running = [*running, *new[start:]]
        transitions.append(replace(transition, ob=elements_to_model_input(running)))
        running += transition.ac.tokens
    trajectory = replace(diagnosis.rollout.trajectory, transitions=transitions)
    return replace(diagnosis.rollout, trajectory=trajectory)


def staircase_step_words(diagnosis: Diagnosis, turns: int) -> tuple[str, str]:
    """What the first `turns` turns become, from the real datums of just these: (datums, counts)."""
    trajectory = diagnosis.rollout.trajectory
    built = build_datums(replace(trajectory, transitions=trajectory.transitions[:turns]))
    inputs = sum(datum.model_input.length for datum in built.data)
    trained = int(sum(sum(datum_tensor(datum, "mask")) for datum in built.data))
    again = sum(found.again for found in diagnosis.breaks if found.turn < turns)
    counts = f"{count_text(inputs, 'token')} read, {again} of them again; {trained} trained"
    return count_text(len(built.data), "datum"), counts


def staircase_panel(diagnosis: Diagnosis) -> Panel:
    """One conversation as the first figure draws it."""
    cells = staircase_cells(diagnosis)
    shared = {item.turn: item.position for item in diagnosis.breaks}
    turns = [
        Turn(
            turn,
            span.datum,
            staircase_verdict(diagnosis, span),
            shared.get(turn),
            [cell for cell in cells if cell.turn == turn],
        )
        for turn, span in enumerate(diagnosis.spans)
    ]
    steps = [staircase_step_words(diagnosis, turn + 1) for turn in range(len(turns))]
    return Panel(turns, steps)


def staircase_panels(
    stories: Sequence[tuple[str, str, Diagnosis]],
) -> dict[str, tuple[Panel, Panel]]:
    """What the first figure draws: by title, a conversation with prompts that keep all, and as is.

    Of the scenarios (title, lesson, diagnosis) those of like height in which a turn splits. Left
    out are those of more than three turns, hence the one in which two agents take turns: its
    prompts could not be kept in one conversation.
    """
    return {
        title: (
            staircase_panel(diagnose(staircase_kept_rollout(diagnosis))),
            staircase_panel(diagnosis),
        )
        for title, _, diagnosis in stories
        if diagnosis.breaks and len(diagnosis.spans) <= MOST_TURNS
    }


def staircase_facts(stories: Sequence[tuple[str, str, Diagnosis]]) -> pd.DataFrame:
    """The first figure as a table: a row per scenario."""
    rows = []
    for title, lesson, diagnosis in stories:
        splits = [
            f"turn {found.turn} at position {found.position}: {cause_wording(found.cause)}"
            for found in diagnosis.breaks
        ]
        rows.append(
            {
                "scenario": title,
                "what happens": lesson,
                "turns": len(diagnosis.spans),
                "datums": len(diagnosis.built.data),
                "splits": "; ".join(splits) or "none",
                "inputs": diagnosis.tokens_processed,
                "read again": sum(found.again for found in diagnosis.breaks),
                "if nothing merged": diagnosis.tokens_unmerged,
            }
        )
    return pd.DataFrame(rows)
