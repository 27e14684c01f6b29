"""Every figure as the browser draws it, from its smallest and its largest input.

Invariants:
1. No text is cut: all of it is on the canvas, and in its cell.
2. No text touches another, and none is smaller than 12 pixels.
3. No mark is empty, and the canvas takes the pixels that were kept for it.
4. A click on a cell of the matrix shows what is behind it; menu and steps change the picture.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations
from typing import Any

import pytest
from drawing import Drawn, Easel, easel
from playwright.sync_api import Browser
from test_figures import NASTY, extending, nasty_rollout, rollout_of, table_of, transition

from sequence_extension.alignment import alignment_table
from sequence_extension.break_table import break_table, break_table_marks
from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.editor.rewards import reward_presets, reward_rollouts
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.env.matrix_table import matrix_table, matrix_table_groups
from sequence_extension.figures.break_chart import break_chart
from sequence_extension.figures.cost_chart import cost_charts
from sequence_extension.figures.figure import Figure
from sequence_extension.figures.group_chart import group_chart
from sequence_extension.figures.matrix_chart import MENUS, matrix_chart
from sequence_extension.figures.runs_chart import runs_chart
from sequence_extension.figures.staircase_chart import staircase_chart
from sequence_extension.figures.strip_chart import strip_chart
from sequence_extension.group import group_table, preset_group
from sequence_extension.growth import growth_law, growth_table
from sequence_extension.staircase import staircase_panels, staircase_read_again


def scenario(key: str) -> Diagnosis:
    return diagnose(scenario_rollout(scenarios()[key]))


def strip(diagnosis: Diagnosis, datum: int = 0) -> Figure:
    table = alignment_table(diagnosis.built, diagnosis.runs, diagnosis.rollout.vocab)
    return strip_chart(table[table["datum"] == datum], break_table_marks(diagnosis))


def broken(diagnosis: Diagnosis, place: int = 0) -> Figure:
    return break_chart(break_table(diagnosis, diagnosis.breaks[place]))


def runs(diagnosis: Diagnosis) -> Figure:
    shown = (0, 0, min(3, diagnosis.runs[0].length))
    return runs_chart(
        diagnosis.runs, break_table_marks(diagnosis), shown, staircase_read_again(diagnosis)
    )


def idea(first: str) -> Figure:
    told = [(item.title, item.lesson, scenario(key)) for key, item in scenarios().items()]
    return staircase_chart(staircase_panels(told), first)


def group(preset: int) -> Figure:
    return group_chart(group_table(preset_group(reward_rollouts(), [*reward_presets()][preset])))


def cost(key: str, part: int) -> Figure:
    growth = growth_table(scenario(key).spans)
    return cost_charts(growth, growth_law(growth))[part]


def whole_matrix(names: list[str] | None = None, policies: list[str] | None = None) -> Figure:
    table = matrix_table(names, policies)
    return matrix_chart(table, matrix_table_groups(table))


def many_datums() -> Diagnosis:
    turns = [transition([turn, 1000 + turn, *range(turn)], [2000 + turn]) for turn in range(120)]
    return diagnose(rollout_of(*turns))


def hostile() -> Diagnosis:
    ids = list(range(10, 10 + len(NASTY)))
    turns = [transition([1, *ids], [2, *ids]), transition([1, *reversed(ids)], [2])]
    return diagnose(rollout_of(*turns, vocab=dict(zip(ids, NASTY, strict=True))))


FIGURES: dict[str, Callable[[], Figure]] = {
    "strip, two tokens": lambda: strip_chart(table_of(rollout_of(transition([1], [2])))),
    "strip, 512 tokens": lambda: strip_chart(table_of(extending(512))),
    "strip, a break": lambda: strip(scenario("removed")),
    "strip, an image": lambda: strip(scenario("image_changed")),
    "strip, masked": lambda: strip(scenario("masked")),
    "strip, opens with an action": lambda: strip(scenario("empty"), 1),
    "strip, hostile": lambda: strip_chart(table_of(nasty_rollout(NASTY))),
    "break, one token": lambda: broken(
        diagnose(rollout_of(transition([1], [2]), transition([3], [4])))
    ),
    "break, hostile": lambda: broken(hostile()),
    **{
        f"break, {key}": lambda key=key: broken(scenario(key), -1)  # type: ignore[misc]
        for key in ("removed", "inserted", "reordered", "shortened", "new_context", "empty")
    },
    "runs, one turn": lambda: runs(diagnose(rollout_of(transition([1], [2])))),
    "runs, window": lambda: runs(scenario("window")),
    "runs, 120 datums": lambda: runs(many_datums()),
    "idea": lambda: idea("Reasoning stripped"),
    "idea, the tallest": lambda: idea("Clock in the system prompt"),
    "idea, an image": lambda: idea("Image encoded again"),
    "group, six": lambda: group(0),
    "group, eight": lambda: group(1),
    "group, all the same": lambda: group(2),
    **{
        f"cost, {key}, {part}": lambda key=key, part=part: cost(key, part)  # type: ignore[misc]
        for key in ("chat", "removed", "shortened", "replaced")
        for part in (0, 1)
    },
    "matrix, small": lambda: whole_matrix(["qwen3", "llama3"], ["plain"]),
    "matrix": lambda: whole_matrix(),
}


@cache
def figure(name: str) -> Figure:
    return FIGURES[name]()


@pytest.fixture(scope="module")
def canvas(browser: Browser) -> Iterator[Easel]:
    # figures first: while Playwright runs, its event loop would forbid to play the matrix
    with easel(browser) as shared:
        yield shared


@pytest.fixture(scope="module", autouse=True)
def made() -> None:
    """All figures, before Playwright runs: its event loop would forbid to play the matrix."""
    for name in FIGURES:
        figure(name)


def touching(drawn: Drawn) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes overlap."""
    found = []
    for one, other in combinations(drawn.texts, 2):
        (a, b, c, d), (e, f, g, h) = one["box"], other["box"]
        if min(c, g) - max(a, e) > 1 and min(d, h) - max(b, f) > 4:
            found.append((one["text"], other["text"]))
    return found


@pytest.mark.parametrize(("theme", "width"), [("light", 860), ("dark", 350)])
@pytest.mark.parametrize("name", FIGURES)
def test_nothing_is_cut_and_nothing_is_empty(
    canvas: Easel, name: str, theme: str, width: int
) -> None:
    wanted = figure(name)
    drawn = canvas.draw(wanted, theme, width)
    assert not drawn.blank
    if wanted.narrow:  # as tall as its scenario, the tallest as tall as the place that is kept
        tall = wanted.narrow if width < wanted.width else wanted.height
        assert 0.55 * tall < drawn.height <= tall + 4
    else:
        assert drawn.height == pytest.approx(wanted.height, abs=4)
    assert drawn.width == pytest.approx(min(wanted.width, width) if wanted.fluid else wanted.width)
    for item in drawn.texts:
        left, top, right, bottom = item["box"]
        assert left >= -1, item
        assert right <= drawn.width + 1, item
        assert top >= -2, item
        assert bottom <= drawn.height + 2, item
        assert item["size"] >= 12 or item["text"] == "✕", item
        # Vega writes what is missing as a word
        assert item["text"] not in ("null", "undefined") or "hostile" in name, item
    boxes = [item["box"] for item in drawn.items if item["mark"] in ("rect", "symbol")]
    assert boxes
    assert all(right > left and bottom > top for left, top, right, bottom in boxes)
    if len(drawn.texts) < 900:
        assert touching(drawn) == []


@pytest.mark.parametrize(
    "name", [name for name in FIGURES if name.split(",")[0] in ("strip", "break", "idea", "group")]
)
def test_words_stay_in_their_cells(canvas: Easel, name: str) -> None:
    drawn = canvas.draw(figure(name))
    cells = [item["box"] for item in drawn.items if item["mark"] == "rect"]
    inside = 0
    for item in drawn.texts:
        left, top, right, bottom = item["box"]
        x, y = (left + right) / 2, (top + bottom) / 2
        own = [box for box in cells if box[0] < x < box[2] and box[1] < y < box[3]]
        if own and item["text"] != "✕":
            assert min(box[0] for box in own) <= left, item
            assert right <= max(box[2] for box in own), item
            inside += 1
    assert inside


def pictures(canvas: Easel, *steps: str) -> list[Any]:
    """The texts drawn, at first and after each step of JavaScript."""
    told = []
    for step in ("", *steps):
        told.append(
            canvas.reader.page.evaluate(
                f"""async () => {{
                  {step}; await window.view.runAsync();
                  const found = [];
                  const walk = (mark) => (mark.items ?? []).forEach((item) =>
                    mark.marktype === "group" ? item.items.forEach(walk)
                    : mark.marktype === "text" && found.push([item.text].flat().join(" ")));
                  walk(window.view.scenegraph().root);
                  return found.map((text) => text.replaceAll("\\n", " "));
                }}"""
            )
        )
    return told


def test_a_click_on_the_matrix_shows_what_is_behind_the_cell(canvas: Easel) -> None:
    drawn = canvas.draw(figure("matrix"), width=1100)
    (before,) = pictures(canvas)
    cell = next(item for item in drawn.texts if item["text"].endswith("+"))
    left, top, right, bottom = cell["box"]
    box = canvas.reader.page.locator("canvas").bounding_box()
    assert box is not None
    canvas.reader.page.mouse.click(box["x"] + (left + right) / 2, box["y"] + (top + bottom) / 2 + 1)
    (after,) = pictures(canvas)
    assert not any("does not claim it, yet stays one datum" in text for text in before)
    assert any("does not claim it, yet stays one datum" in text for text in after)
    assert any("first break" in text for text in before)
    assert not any("first break" in text for text in after)


@pytest.mark.parametrize("width", [350, 1056])
def test_the_longest_list_below_the_matrix_stands_whole(canvas: Easel, width: int) -> None:
    wanted = figure("matrix")
    first = canvas.draw(wanted, width=width)
    form, kept = ("narrow", wanted.narrow) if width < 1000 else ("wide", wanted.height)
    # little of the place that is kept for it stays empty at first
    assert first.height + MENUS[form] >= kept - 80
    facts = [row for row in wanted.tables["facts"] if row["at"] == form]
    longest = max(facts, key=lambda row: row["words"].count("\n"))
    for name in ("row", "policy"):
        value = str(longest[name])
        canvas.reader.page.locator(f"select[name=cell_{name}]").select_option(value)
    (texts,) = pictures(canvas)
    assert any(text.endswith(longest["words"].split("\n")[-1]) for text in texts)
    drawn = canvas.reader.page.locator("canvas").evaluate("canvas => canvas.clientHeight")
    assert kept - 8 <= drawn + MENUS[form] <= kept + 2


def test_steps_and_menu_of_the_first_figure(canvas: Easel) -> None:
    canvas.draw(figure("idea"))
    whole, first, other = pictures(
        canvas, 'window.view.signal("turns", 1)', 'window.view.signal("scenario", 0)'
    )
    assert "turn 2 extends" in whole
    assert "turn 1 extends" not in first
    assert any(text.endswith("1 datum") for text in first)
    assert not any("Reasoning stripped" in text for text in other)
