"""The first figure: each turn once, true to the datums, at every step.

Invariants:
1. After k turns it says what `trajectory_to_data` makes of just these k turns.
2. What is drawn and not lost is what the datums hold, in order, every token once.
3. What is hatched are the inputs that an earlier datum had, as many as the diagnosis counts.
4. The same conversation with prompts that keep everything is one datum.
"""

import itertools
from typing import Any

import pytest
import tinker
from browser import Reader
from test_figures import as_vega_reads
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.types import Trajectory

from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.figures.staircase import staircase_chart
from sequence_extension.staircase import (
    kept_rollout,
    staircase_facts,
    staircase_tables,
    story_cells,
)

Story = tuple[str, str, Diagnosis]


@pytest.fixture(scope="module")
def stories() -> list[Story]:
    return [
        (item.title, item.lesson, diagnose(scenario_rollout(item))) for item in scenarios().values()
    ]


def first_turns(diagnosis: Diagnosis, turns: int) -> list[tinker.Datum]:
    transitions = diagnosis.rollout.trajectory.transitions[:turns]
    trajectory = Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty())
    return list(trajectory_to_data(trajectory, 1.0))


def tokens_of(datum: tinker.Datum) -> list[str]:
    """Every token of a datum by its id; an image by as many `img` as it has tokens."""
    tokens: list[str] = []
    for chunk in datum.model_input.chunks:
        if isinstance(chunk, tinker.EncodedTextChunk):
            tokens += map(str, chunk.tokens)
        else:
            tokens += ["img"] * chunk.length
    return [*tokens, str(datum.loss_fn_inputs["target_tokens"].data[-1])]


def test_steps_are_the_real_datums_of_that_many_turns(stories: list[Story]) -> None:
    tables = staircase_tables(stories)
    split = [found for _, _, found in stories if found.breaks]
    seen = 0
    for row in tables["steps"].to_dict("records"):
        found = split[row["s"]]
        told = found if row["panel"] == "split" else diagnose(kept_rollout(found))
        data = first_turns(told, row["shown"])
        trained = sum(sum(datum.loss_fn_inputs["mask"].data) for datum in data)
        inputs = sum(datum.model_input.length for datum in data)
        assert row["datums"].startswith(f"{len(data)} datum")
        assert row["counts"].startswith(f"{inputs} inputs, ")
        assert f"; {trained:g} target" in row["counts"]
        seen += 1
    assert seen > 50


def test_every_token_of_every_datum_is_drawn_once(stories: list[Story]) -> None:
    for _, _, found in stories:
        cells = story_cells(found)
        for index, datum in enumerate(found.built.data):
            turns = {span.turn for span in found.spans if span.datum == index}
            drawn: list[str] = []
            masks: list[str] = []
            for cell in cells:
                if cell.turn in turns and cell.kind != ".":
                    drawn += ["img" if cell.text.startswith("img") else cell.id] * cell.tokens
                    masks += [cell.mask or "0"] * cell.tokens
            assert drawn == tokens_of(datum)
            assert masks[1:] == [f"{value:g}" for value in datum.loss_fn_inputs["mask"].data]


def test_what_is_hatched_was_an_input_before(stories: list[Story]) -> None:
    for title, _, found in stories:
        for entry in found.breaks:
            cells = [cell for cell in story_cells(found) if cell.turn == entry.turn]
            assert sum(cell.tokens for cell in cells if cell.kind == "=") == entry.again, title
        lost = [cell for cell in story_cells(found) if cell.kind == "."]
        assert len(lost) >= sum(
            entry.removed for entry in found.breaks if entry.resumes_datum is None
        )


def test_the_same_conversation_kept_is_one_datum(stories: list[Story]) -> None:
    for title, _, found in stories:
        kept = kept_rollout(found)
        told = diagnose(kept)
        assert len(told.built.data) == 1, title
        assert [turn.ac.tokens for turn in kept.trajectory.transitions] == [
            turn.ac.tokens for turn in found.rollout.trajectory.transitions
        ]
        assert not any(cell.kind in "=." for cell in story_cells(told))


def test_menu_and_steps_are_inside(stories: list[Story]) -> None:
    tables = staircase_tables(stories)
    figure = staircase_chart(tables)
    menu, steps = figure.template["params"]
    assert menu["bind"]["labels"] == [title for title, _, found in stories if found.breaks]
    assert menu["bind"]["labels"][menu["value"]] == "Reasoning stripped"
    assert steps["value"] == steps["bind"]["max"] == max(len(s[2].spans) for s in stories)
    facts = staircase_facts(stories)
    assert facts["datums"].tolist() == [len(found.built.data) for _, _, found in stories]
    assert "1 datum (26 inputs" in figure.description
    assert "3 datums (44 inputs, 18 read again" in figure.description


def test_brackets_gather_the_turns_of_each_datum(stories: list[Story]) -> None:
    tables = staircase_tables(stories)
    figure = staircase_chart(tables)
    brackets = as_vega_reads(figure, "brackets")
    cells = as_vega_reads(figure, "cells")
    for row in tables["steps"].to_dict("records"):
        far = row["panel"] == "kept"
        mine = [
            entry
            for entry in brackets
            if (entry["s"], entry["shown"], entry["left"] > 300) == (row["s"], row["shown"], far)
        ]
        assert f"{len(mine)} datum" in row["datums"]
        drawn = [
            cell["y"]
            for cell in cells
            if cell["s"] == row["s"] and cell["turn"] < row["shown"] and (cell["x"] > 360) == far
        ]
        # every line of cells stands in one bracket
        assert all(sum(entry["top"] < y < entry["bottom"] for entry in mine) == 1 for y in drawn)


def test_cells_stay_in_their_drawing_and_apart(stories: list[Story]) -> None:
    figure = staircase_chart(staircase_tables(stories))
    lines: dict[Any, list[dict[str, Any]]] = {}
    for cell in as_vega_reads(figure, "cells"):
        assert 0 <= cell["left"] < cell["right"] <= figure.width
        assert cell["y"] + 12 <= figure.height
        lines.setdefault((cell["s"], cell["turn"], cell["y"], cell["x"] > 360), []).append(cell)
    for line in lines.values():
        for before, after in itertools.pairwise(line):
            assert before["right"] < after["left"]


def canvas_of(reader: Reader) -> str:
    """The figure's picture as the browser draws it."""
    reader.settle()
    return str(
        reader.page.evaluate(
            "document.querySelector('.vega-embed:has(.vega-bindings) canvas').toDataURL()"
        )
    )


def test_controls_work_without_python(static_page: Reader) -> None:
    page = static_page.page
    menu, steps = page.locator("select[name=scenario]"), page.locator("input[name=turns]")
    pictures = [canvas_of(static_page)]
    # by keyboard, as every control must; the default has three turns, the longest four
    steps.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
        pictures.append(canvas_of(static_page))
    assert steps.input_value() == "1"
    assert len(set(pictures[1:])) == 3
    steps.fill("4")
    assert canvas_of(static_page) != pictures[-1]
    menu.select_option(label="Sliding window")
    assert canvas_of(static_page) not in pictures
    name = menu.evaluate("element => element.labels[0].textContent")
    assert name.startswith("Show")
