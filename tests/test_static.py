"""The static page that `marimo export html` writes, and the proof that its checks bite."""

import gzip
import re
from pathlib import Path

import pytest
from axe import violations
from browser import (
    BLANK_FIGURES,
    IS_SETTLED,
    QUESTION,
    STATIC_URL,
    Export,
    Reader,
    export_html,
    readme_command,
    seat,
    shown_by,
    spec_rows,
)
from playwright.sync_api import Browser, expect

from sequence_extension.env.policies import policy_names
from sequence_extension.env.renderers import renderer_names

# 1. Cells that fail in the ways known to pass unnoticed; the last two are sound.
FAULTY = """
import marimo

app = marimo.App()

with app.setup:
    import altair as alt
    import marimo as mo
    import pandas as pd

@app.cell
def _():
    too_many = alt.Chart(pd.DataFrame({"x": range(20_001)})).mark_bar().encode(x="x:Q")
    too_many
    return

@app.cell
def _():
    print("noise")
    return

@app.cell
def _():
    empty = alt.Chart(pd.DataFrame({"x": []})).mark_bar().encode(x="x:Q")
    mo.vstack([empty])
    return

@app.cell
def _():
    sound = alt.Chart(pd.DataFrame({"x": [1, 2, 3]})).mark_bar().encode(x="x:Q")
    mo.accordion({"Sound": sound})
    return

@app.cell
def _():
    mo.md("Sound as well")
    return
"""
# 2. A cell that raises: the one fault that the exit code tells.
RAISING = FAULTY.split("@app.cell")[0] + "@app.cell\ndef _():\n    1 / 0\n    return\n"


SECTIONS = 12
WIRE_BYTES, STORY_WIRE_BYTES = 160_000, 130_000

# The texts of a table, row by row.
CELLS = "t => [...t.tBodies[0].rows].map((row) => [...row.cells].map((c) => c.textContent.trim()))"


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Export:
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "faulty.py").write_text(FAULTY, encoding="utf-8")
    return export_html(folder / "faulty.py", folder / "faulty.html")


def test_each_unnoticed_fault_is_found(faulty: Export) -> None:
    assert faulty.code == 0  # why the exit code is not trusted
    faults = "\n".join(faulty.faults())
    assert "MaxRowsError" in faults
    assert "stdout: noise" in faults
    assert "cell `empty = " in faults
    assert "figure without a row" in faults
    assert "Sound" not in faults
    assert "`sound = " not in faults


def test_figures_inside_widgets_are_found(faulty: Export) -> None:
    assert [spec_rows(spec) for spec in faulty.figures()] == [0, 3]


@pytest.mark.app
def test_a_raising_cell_is_found(tmp_path: Path) -> None:
    (tmp_path / "raising.py").write_text(RAISING, encoding="utf-8")
    assert "division by zero" in "\n".join(
        export_html(tmp_path / "raising.py", tmp_path / "raising.html").faults()
    )


def test_blank_figures_are_found(browser: Browser, faulty: Export) -> None:
    with seat(browser, answers={STATIC_URL: faulty.path}) as reader:
        reader.page.goto(STATIC_URL)
        reader.settle()
        assert reader.blank_figures() == []
        reader.page.locator(".vega-embed canvas").first.evaluate(
            "canvas => canvas.getContext('2d').reset()"
        )
        assert reader.blank_figures() == [0]
        assert "noise" in "".join(reader.failed_cells())


def test_page_goes_over_the_wire_in_few_bytes(static_export: Export, story_html: Path) -> None:
    """Compressed: what a reader waits for."""
    assert len(gzip.compress(static_export.text.encode())) <= WIRE_BYTES
    assert len(gzip.compress(story_html.read_bytes())) <= STORY_WIRE_BYTES


def test_exported_session_is_clean(static_export: Export) -> None:
    assert static_export.code == 0
    assert static_export.output.strip() == ""
    assert static_export.faults() == []
    assert len(static_export.figures()) >= 5


def test_page_with_code_stands_whole_in_a_frame_of_another_page(
    browser: Browser, static_export: Export
) -> None:
    """The README's iframe: fixed height, scrolls inside, the outer page does not widen."""
    outer = STATIC_URL.replace("page.html", "outer.html")
    frame = '<iframe src="page.html" title="t" width="100%" height="900" style="border: 0">'
    with seat(browser, answers={outer: frame, STATIC_URL: static_export.path}) as reader:
        reader.page.goto(outer)
        inside = reader.page.frames[1]
        inside.wait_for_function(IS_SETTLED, polling=100)
        expect(inside.get_by_role("heading", name="1. The idea")).to_be_visible()
        assert inside.locator(".vega-embed canvas").count() > 0
        assert inside.evaluate(BLANK_FIGURES) == []
        # marimo shows the code of each cell, so no cell shows it again
        assert inside.locator(".cm-editor").count() > 40
        assert inside.locator(".seq-own-code:visible").count() == 0
        frame_height = "e => e.getBoundingClientRect().height"
        assert reader.page.locator("iframe").evaluate(frame_height) == 900
        app = inside.locator("#App")
        assert app.evaluate("e => e.scrollHeight > e.clientHeight && e.clientHeight <= 900")
        assert reader.page_overflow() == 0
        assert reader.faults == []


def test_story_is_complete_and_says_what_needs_a_kernel(story_page: Reader) -> None:
    page = story_page.page
    titles = page.locator("h2").all_inner_texts()
    assert [title.split(".")[0] for title in titles] == [
        *(str(number) for number in range(1, SECTIONS)),
        "Summary",
    ]
    note = page.locator(".seq-note.seq-static-only")
    expect(note).to_have_count(1)
    expect(note).to_be_visible()
    # It stands before the first field that does nothing.
    top = note.bounding_box()
    first_field = page.locator(".seq-controls").filter(visible=True).first.bounding_box()
    assert top is not None
    assert first_field is not None
    assert top["y"] < first_field["y"]
    # Sections 2 and 6 have no controls here, and speak of none.
    assert page.locator(".turns-editor button:visible").count() == 0
    for words in ("Click a token", "in the menu above", "Undo"):
        assert page.get_by_text(words).filter(visible=True).count() == 0, words
    # Where the text speaks of code, the code is there.
    for words in ("traj_advantage=1.0", "compute_advantages(", "do_single_rollout("):
        assert page.locator(".codehilite:visible", has_text=words).count() >= 1, words
    assert story_page.figures().count() > 0
    assert story_page.blank_figures() == []
    assert story_page.failed_cells() == []


@pytest.mark.timeout(600)
def test_static_page_has_no_violation_but_those_put_there(story_page: Reader) -> None:
    page = story_page.page
    page.evaluate(
        """() => document.querySelector(".output-area").insertAdjacentHTML(
             "beforeend", '<span id="bad"><img src="data:,"><input></span>')"""
    )
    try:
        found = violations(story_page)
    finally:
        page.evaluate("document.querySelector('#bad').remove()")
        story_page.faults.clear()  # the picture is none
    assert sorted(violation.split(" at ")[0] for violation in found) == ["image-alt", "label"]


def test_every_figure_has_a_description_and_a_table_or_sentence(story_page: Reader) -> None:
    figures = story_page.page.locator("[role=graphics-document]")
    descriptions = figures.evaluate_all("all => all.map(e => e.getAttribute('aria-label') ?? '')")
    assert descriptions
    assert [text for text in descriptions if len(text) < 20] == []


def stood_at_once(reader: Reader) -> bool:
    """The title stood before marimo had made the page, to the pixel where it stands now."""
    return bool(
        reader.page.evaluate(
            """() => {
              document.querySelector("#App").scrollTo(0, 0);
              const now = document.querySelector("#App h1").getBoundingClientRect();
              return ["x", "y", "width"].every((key) => window.__early?.[key] === now[key]);
            }"""
        )
    )


def test_the_title_stands_at_once(
    story_page: Reader, story_phone_page: Reader, story_shift: float
) -> None:
    """Once, then: it gives way to marimo's own."""
    for reader in (story_page, story_phone_page):
        assert stood_at_once(reader)
        assert reader.page.get_by_role("heading", level=1).count() == 1
    assert story_shift == 0


def test_page_fits_a_phone(story_phone_page: Reader) -> None:
    assert story_phone_page.page_overflow() == 0
    assert story_phone_page.blank_figures() == []


def test_static_page_unfolds_the_answers(story_page: Reader) -> None:
    cards = story_page.page.locator(".quiz-card")
    assert cards.count() >= 5
    assert story_page.page.locator(".quiz-live:visible").count() == 0
    assert not story_page.page.get_by_text("let the code answer").count()
    answer = cards.first.locator("details")
    assert not answer.get_by_text("one running sequence").is_visible()
    answer.locator("summary").focus()
    story_page.page.keyboard.press("Enter")
    assert answer.get_by_text("one running sequence").is_visible()


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which token has no mask entry?", "token 0 has none"),
        ("What does the loss see?", "the loss sees advantages"),
        ("Whose observation must start with what?", "whether it is a prefix of the next observa"),
        ("When is a turn masked?", "whose answer did not parse can be masked: 0 throughout"),
        ("What becomes of a reward over budget?", "context_overflow_reward takes the place of"),
        ("Does a split train a token twice?", "No sampled token is trained twice after a split"),
        ("Does a split change the gradient?", "gives a rollout of N datums N times the weight"),
        ("Is an advantage divided by anything?", "divides by nothing"),
        ("Can a token with mask 0 get a gradient?", "The discount d comes after the mask"),
        ("What keeps a rollout one datum?", "keep the tokens that were sampled"),
        ("What does that change?", "it sees its earlier reasoning"),
        ("Several agents?", "split_lineages gives each turn to the longest sequence"),
    ],
)
def test_the_text_alone_answers(story_page: Reader, question: str, answer: str) -> None:
    """Closed book, with nothing unfolded or played."""
    text = " ".join(story_page.page.locator("#root").inner_text().split())
    assert answer in text, question


def test_dead_fields_look_dead(story_page: Reader) -> None:
    panels = story_page.page.locator(".seq-controls, .seq-fields").filter(visible=True)
    assert panels.count() >= 2
    for panel in panels.all():
        filter_, outline = panel.evaluate(
            "e => [getComputedStyle(e).filter, getComputedStyle(e).outlineStyle]"
        )
        assert (filter_, outline) == ("grayscale(1)", "dashed")


def test_the_static_page_holds_the_whole_matrix(story_page: Reader) -> None:
    page = story_page.page
    cells = len(renderer_names()) * len(policy_names())
    page.get_by_text(f"The same {cells} cells as a table").click()
    facts = page.locator("details", has=page.get_by_text(f"The same {cells} cells as a table"))
    rows = {row[0]: row[1:] for row in facts.get_by_role("table").evaluate(CELLS)}
    assert list(rows) == renderer_names()
    assert {len(row) for row in rows.values()} == {1 + len(policy_names())}
    assert "3/3 ·" in rows["qwen3"]
    assert page.locator("input[type=password]").count() == 0
    assert "This costs money" not in page.locator("#root").inner_text()


# ---- other formats, and the terminal


@pytest.mark.parametrize("kind", ["ipynb", "md"])
def test_other_formats_hold_the_story(kind: str, terminal_folder: Path) -> None:
    """The README's commands, on a terminal where marimo may ask questions."""
    command = readme_command(f"uv run marimo export {kind} ")
    shown, code = shown_by(command, terminal_folder, terminal_folder / f"{kind}.log")
    assert code == 0, shown
    assert QUESTION not in shown
    assert not re.search(r"\[E |Traceback|\berror\b", shown, re.IGNORECASE)
    text = (terminal_folder / command.split(" -o ")[-1]).read_text(encoding="utf-8")
    assert "## Summary" in text


def test_a_question_would_be_seen(terminal_folder: Path) -> None:
    """A notebook that asks for packages of its own makes marimo ask: the tests see that."""
    header = '# /// script\n# dependencies = ["marimo"]\n# ///\n'
    (terminal_folder / "asks.py").write_text(header + RAISING, encoding="utf-8")
    log = terminal_folder / "asks.log"
    shown, _ = shown_by("uv run marimo run --headless asks.py", terminal_folder, log)
    assert QUESTION in shown
