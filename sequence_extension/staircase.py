"""Turns and datums token by token, as tables for the first figure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from sequence_extension.alignment import alignment_table, strip_rows
from sequence_extension.break_table import break_marks
from sequence_extension.datums import build_datums, datum_tensor
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.rollout import model_input_to_elements
from sequence_extension.text import count_of, visible_text
from sequence_extension.wording import cause_name, turn_verdict


def staircase_cells(diagnosis: Diagnosis) -> pd.DataFrame:
    """Every turn's sequence as the model saw and said it, then every datum, token by token.

    Returns:
        Columns row ("turn" or "datum"), r (its index), x (position; an image takes as many as
        it has tokens), kind ("0" history that is repeated, "O" new, "A", "M"), id, text, turn
        (from which on the token stands there), mask (of the token as a target in its datum;
        "none" for the first, "" in turns).
    """
    vocab = diagnosis.rollout.vocab
    rows: list[tuple[Any, ...]] = []
    for span, transition in zip(
        diagnosis.spans, diagnosis.rollout.trajectory.transitions, strict=True
    ):
        x = 0
        elements = [*model_input_to_elements(transition.ob), *transition.ac.tokens]
        for index, element in enumerate(elements):
            action = index >= span.observation
            shared = index < span.position
            kind = "0" if shared else ("M" if span.masked else "A") if action else "O"
            label = str(element) if isinstance(element, int) else "img"
            text = visible_text(vocab.get(element, "")) if isinstance(element, int) else ""
            for _ in range(1 if isinstance(element, int) else element.length):
                rows.append(("turn", span.turn, x, kind, label, text, span.turn, ""))
                x += 1
    table = alignment_table(diagnosis.built, diagnosis.runs, vocab)
    for datum, part in table.groupby("datum", sort=False):
        for cell in strip_rows(part).to_dict("records"):
            mask = cell["mask"] or "none"
            kind = "M" if cell["part"] == "A" and mask == "0" else cell["part"]
            rows.append(
                ("datum", datum, cell["p"], kind, cell["id"], cell["text"], cell["turn"], mask)
            )
    columns = ["row", "r", "x", "kind", "id", "text", "turn", "mask"]
    return pd.DataFrame(rows, columns=columns).astype({"turn": int})


def staircase_step(diagnosis: Diagnosis, turns: int) -> tuple[str, str]:
    """Finding and counts after the first `turns` turns, from the real datums of just these.

    Returns:
        (finding, counts), each one sentence without a full stop.
    """
    trajectory = diagnosis.rollout.trajectory
    built = build_datums(replace(trajectory, transitions=trajectory.transitions[:turns]))
    inputs = sum(datum.model_input.length for datum in built.data)
    trained = int(sum(sum(datum_tensor(datum, "mask")) for datum in built.data))
    counts = (
        f"{count_of(len(built.data), 'datum')}, {count_of(inputs, 'target')}, {trained} trained"
    )
    if built.error_message:
        counts = built.error_message.rstrip(".")
    if turns == len(trajectory.transitions):
        causes: dict[str, list[str]] = {}
        for item in diagnosis.breaks:
            causes.setdefault(cause_name(item.cause), []).append(str(item.turn))
        splits = [
            f"turn {at[0]} splits ({cause})"
            if len(at) == 1
            else f"turns {', '.join(at[:-1])} and {at[-1]} split ({cause})"
            for cause, at in causes.items()
        ]
        told = ", ".join(splits) or "every observation extends what came before"
        become = f"{'becomes' if turns == 1 else 'become'} {count_of(len(built.data), 'datum')}"
        return f"{count_of(turns, 'turn')} {become}: {told}", counts
    span = diagnosis.spans[turns - 1]
    found = next((item for item in diagnosis.breaks if item.turn == span.turn), None)
    if found is not None:
        return (
            f"Turn {span.turn} splits at position {found.position}: {cause_name(found.cause)}",
            counts,
        )
    fresh = span.observation - span.position
    if turns == 1:
        return f"Turn 0: {count_of(fresh, 'token')} seen, {span.action} said", counts
    return f"Turn {span.turn} extends: {count_of(fresh, 'token')} and the action are added", counts


def staircase_tables(stories: Sequence[tuple[str, str, Diagnosis]]) -> dict[str, pd.DataFrame]:
    """The tables behind the staircase figure, for all its scenarios.

    Args:
        stories: (title, lesson, diagnosis) of each scenario; all must have datums.

    Returns:
        cells: `staircase_cells` with s, the scenario's number. labels: a name and verdict per
        row. breaks: where a turn leaves the sequence held. steps: finding and rest per number
        of turns shown. scenarios: title, turns, datums.
    """
    cells, labels, breaks, steps, scenario_rows = [], [], [], [], []
    for number, (title, lesson, diagnosis) in enumerate(stories):
        turns, datums = len(diagnosis.spans), len(diagnosis.built.data)
        cells.append(staircase_cells(diagnosis).assign(s=number))
        first_turns = {run.datum: run.turn for run in reversed(diagnosis.runs)}
        for span in diagnosis.spans:
            verdict = turn_verdict(diagnosis, span.turn)
            labels.append((number, "turn", span.turn, span.turn, f"turn {span.turn}", verdict))
        for datum in range(datums):
            labels.append((number, "datum", datum, first_turns[datum], f"datum {datum}", "mask"))
        for found, (_, position, _) in zip(diagnosis.breaks, break_marks(diagnosis), strict=True):
            breaks.append(
                (number, "turn", found.turn, found.turn, position, cause_name(found.cause))
            )
        for shown in range(1, turns + 1):
            finding, counts = staircase_step(diagnosis, shown)
            rest = f"{counts}. {lesson}" if shown == turns else f"{counts}."
            steps.append((number, shown, finding, rest))
        scenario_rows.append((number, title, turns, datums))
    place = ["s", "row", "r", "turn"]
    return {
        "cells": pd.concat(cells, ignore_index=True),
        "labels": pd.DataFrame(labels, columns=[*place, "name", "verdict"]),
        "breaks": pd.DataFrame(breaks, columns=[*place, "x", "cause"]),
        "steps": pd.DataFrame(steps, columns=["s", "shown", "finding", "rest"]),
        "scenarios": pd.DataFrame(scenario_rows, columns=["s", "title", "turns", "datums"]),
    }


def staircase_facts(stories: Sequence[tuple[str, str, Diagnosis]]) -> pd.DataFrame:
    """The staircase figure as a table: a row per scenario."""
    rows = []
    for title, lesson, diagnosis in stories:
        splits = [
            f"turn {found.turn} at position {found.position}: {cause_name(found.cause)}"
            for found in diagnosis.breaks
        ]
        rows.append(
            {
                "scenario": title,
                "what happens": lesson,
                "turns": len(diagnosis.spans),
                "datums": len(diagnosis.built.data),
                "splits": "; ".join(splits) or "none",
                "input tokens": diagnosis.tokens_processed,
                "if nothing merged": diagnosis.tokens_unmerged,
            }
        )
    return pd.DataFrame(rows)
