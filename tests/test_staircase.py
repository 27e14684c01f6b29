"""The first figure: each turn once, true to the datums, at every step.

Invariants:
1. After k turns it says what `trajectory_to_data` makes of just these k turns.
2. What is drawn and not lost is what the datums hold, in order, every token once.
3. What is hatched are the inputs that an earlier datum had, as many as the diagnosis counts.
4. The same conversation with prompts that keep everything is one datum.
5. The sign of a break stands where running sequence and prompt part, whatever was read before.
"""

import itertools
import re
from typing import Any

import pytest
import tinker
from browser import ROOT, Reader
from test_figures import as_vega_reads
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.types import Trajectory

from sequence_extension import staircase
from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.figures.figure import Figure
from sequence_extension.figures.staircase_chart import staircase_chart
from sequence_extension.page import idea
from sequence_extension.staircase import (
    staircase_cells,
    staircase_facts,
    staircase_kept_rollout,
    staircase_panels,
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


def drawn_stories(stories: list[Story]) -> list[Story]:
    """Those of the first figure: a turn splits, and there are three at most."""
    return [story for story in stories if story[2].breaks and len(story[2].spans) <= 3]


def test_steps_are_the_real_datums_of_that_many_turns(stories: list[Story]) -> None:
    seen = 0
    for (title, panels_drawn), (known, _, found) in zip(
        staircase_panels(stories).items(), drawn_stories(stories), strict=True
    ):
        assert title == known
        told = (diagnose(staircase_kept_rollout(found)), found)
        for panel, diagnosis in zip(panels_drawn, told, strict=True):
            assert len(panel.steps) == len(diagnosis.spans)
            for shown, (datums, counts) in enumerate(panel.steps, 1):
                data = first_turns(diagnosis, shown)
                trained = sum(sum(datum.loss_fn_inputs["mask"].data) for datum in data)
                inputs = sum(datum.model_input.length for datum in data)
                assert datums.startswith(f"{len(data)} datum")
                assert counts.startswith(f"{inputs} tokens read, ")
                assert f"; {trained:g} trained" in counts
                seen += 1
    assert seen > 40


def test_every_token_of_every_datum_is_drawn_once(stories: list[Story]) -> None:
    for _, _, found in stories:
        cells = staircase_cells(found)
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
            cells = [cell for cell in staircase_cells(found) if cell.turn == entry.turn]
            assert sum(cell.tokens for cell in cells if cell.kind == "=") == entry.again, title
        lost = [cell for cell in staircase_cells(found) if cell.kind == "."]
        assert len(lost) >= sum(
            entry.removed for entry in found.breaks if entry.resumes_datum is None
        )


def test_the_same_conversation_kept_is_one_datum(stories: list[Story]) -> None:
    for title, _, found in stories:
        kept = staircase_kept_rollout(found)
        told = diagnose(kept)
        assert len(told.built.data) == 1, title
        assert [turn.ac.tokens for turn in kept.trajectory.transitions] == [
            turn.ac.tokens for turn in found.rollout.trajectory.transitions
        ]
        assert not any(cell.kind in "=." for cell in staircase_cells(told))


def test_menu_and_steps_are_inside(stories: list[Story]) -> None:
    figure = staircase_chart(staircase_panels(stories))
    form, menu, steps = figure.template["params"]
    assert form["name"] == "form"
    assert menu["bind"]["labels"] == [title for title, _, _ in drawn_stories(stories)]
    # of two agents that take turns nobody would keep all in one conversation
    assert "Sub-agent in between" not in menu["bind"]["labels"]
    assert menu["bind"]["labels"][menu["value"]] == "Reasoning stripped"
    assert steps["value"] == steps["bind"]["max"] == 3
    facts = staircase_facts(stories)
    assert facts["datums"].tolist() == [len(found.built.data) for _, _, found in stories]
    assert "1 datum (26 tokens read" in figure.description
    assert "3 datums (44 tokens read, 18 of them again" in figure.description


def panels(figure: Figure, table: str) -> dict[tuple[float, str], list[dict[str, Any]]]:
    """A table's rows by scenario and place: "" the kept prompts, else what splits."""
    rows: dict[tuple[float, str], list[dict[str, Any]]] = {}
    for row in as_vega_reads(figure, table):
        rows.setdefault((row["s"], row["at"] or ""), []).append(row)
    return rows


def test_brackets_gather_the_turns_of_each_datum(stories: list[Story]) -> None:
    scenarios = staircase_panels(stories)
    figure = staircase_chart(scenarios)
    turns, cells = panels(figure, "turns"), panels(figure, "cells")
    for number, (kept, split) in enumerate(scenarios.values()):
        for at, panel in (("", kept), ("wide", split), ("narrow", split)):
            for shown, (datums, _) in enumerate(panel.steps, 1):
                mine = [entry for entry in turns[number, at] if entry["turn"] < shown]
                assert datums.startswith(f"{len({entry['datum'] for entry in mine})} datum")
                for cell in cells[number, at]:
                    if cell["turn"] < shown:
                        # every line of cells stands in the bracket of its own turn
                        (own,) = [e for e in mine if e["top"] < cell["y"] < e["bottom"]]
                        assert own["turn"] == cell["turn"]


def test_cells_stay_in_their_drawing_and_apart(stories: list[Story]) -> None:
    figure = staircase_chart(staircase_panels(stories))
    for (_, at), cells in panels(figure, "cells").items():
        left, right = (380, 726) if at == "wide" else (0, 346)
        bottom = figure.narrow if at == "narrow" else figure.height
        for line in itertools.groupby(cells, key=lambda cell: (cell["turn"], cell["y"])):
            own = list(line[1])
            assert left <= own[0]["left"]
            assert own[-1]["right"] <= right
            assert own[0]["y"] + 12 <= bottom
            assert all(one["right"] < two["left"] for one, two in itertools.pairwise(own))
    # nearly nothing stays empty below the scenario that is shown first
    first = [cell["y"] for cell in panels(figure, "cells")[1, "wide"]]
    assert figure.height - max(first) < 40


@pytest.mark.parametrize("title", ["Sub-agent in between", "Sliding window", "Reasoning stripped"])
def test_the_break_stands_at_its_position(
    stories: list[Story], title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where more is read again than is shared: an earlier datum held the rest."""
    monkeypatch.setattr(staircase, "MOST_TURNS", 9)
    (story,) = [story for story in stories if story[0] == title]
    figure = staircase_chart(staircase_panels([story]))
    signs, cells = panels(figure, "breaks")[0, "wide"], panels(figure, "cells")[0, "wide"]
    assert [sign["turn"] for sign in signs] == [found.turn for found in story[2].breaks]
    for sign, found in zip(signs, story[2].breaks, strict=True):
        before = [
            cell
            for cell in cells
            if cell["turn"] == found.turn
            and (cell["y"], cell["left"]) < (sign["line"], sign["edge"])
        ]
        assert len(before) == found.position
        assert all(cell["kind"] == "=" for cell in before)


def test_the_page_keeps_the_place_of_the_first_figure() -> None:
    sheet = (ROOT / "assets" / "layout.css").read_text(encoding="utf-8")
    wide, narrow = map(int, re.findall(r"first_figure\]\{min-height:(\d+)px", sheet))
    drawn = idea.idea_figure()
    # with its menu: a line where it is wide, two on a phone
    assert 30 <= wide - drawn.height <= 60
    assert 60 <= narrow - drawn.narrow <= 100


def canvas_of(reader: Reader) -> str:
    """The figure's picture as the browser draws it."""
    reader.settle()
    return str(
        reader.page.evaluate(
            "document.querySelector('.vega-embed:has(.vega-bindings) canvas').toDataURL()"
        )
    )


def test_controls_work_without_python(story_page: Reader) -> None:
    page = story_page.page
    menu, steps = page.locator("select[name=scenario]"), page.locator("input[name=turns]")
    chosen = menu.input_value()
    pictures = [canvas_of(story_page)]
    # by keyboard, as every control must
    steps.focus()
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
        pictures.append(canvas_of(story_page))
    assert steps.input_value() == "1"
    assert len(set(pictures)) == 3
    steps.fill("3")
    assert canvas_of(story_page) == pictures[0]
    menu.select_option(label="Clock in the system prompt")
    assert canvas_of(story_page) not in pictures
    menu.select_option(chosen)
    assert canvas_of(story_page) == pictures[0]
    name = menu.evaluate("element => element.labels[0].textContent")
    assert name.startswith("Show")


def test_a_phone_sees_both_drawings(story_phone_page: Reader) -> None:
    """One below the other, and the second begins on the first screen."""
    box = story_phone_page.page.locator(".vega-embed:has(.vega-bindings)").first.evaluate(
        "e => [e.scrollWidth - e.clientWidth, e.querySelector('canvas').clientHeight]"
    )
    assert box[0] <= 0
    assert box[1] > 600


def test_the_figure_stands_on_the_first_screen(story_page: Reader) -> None:
    bottom = story_page.page.evaluate(
        """() => {
          document.querySelector("#App").scrollTo(0, 0);
          const figure = document.querySelector(".vega-embed:has(.vega-bindings) canvas");
          return figure.getBoundingClientRect().bottom;
        }"""
    )
    assert bottom <= 900
