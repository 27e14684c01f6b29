"""The static page that `marimo export html` writes, and the proof that its checks bite."""

import html
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from browser import (
    PICTURE,
    ROOT,
    SESSION,
    STATIC_URL,
    Export,
    Reader,
    export_html,
    output_lines,
    readme_command,
    run_marimo,
    seat,
    session_faults,
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


# The texts of a table, row by row.
CELLS = "t => [...t.tBodies[0].rows].map((row) => [...row.cells].map((c) => c.textContent.trim()))"


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Export:
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "faulty.py").write_text(FAULTY, encoding="utf-8")
    return export_html(folder / "faulty.py", folder / "faulty.html")


def test_each_unnoticed_fault_is_found(faulty: Export) -> None:
    assert faulty.code == 0  # why the exit code is not trusted
    found = "\n".join(faulty.faults())
    assert "MaxRowsError" in found
    assert "stdout: noise" in found
    assert "cell `empty = " in found
    assert "figure without a row" in found
    assert "Sound" not in found
    assert "`sound = " not in found


def test_figures_inside_widgets_are_found(faulty: Export) -> None:
    assert [spec_rows(spec) for spec in faulty.figures()] == [0, 3]


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


def test_exported_session_is_clean(exported_html: Export) -> None:
    assert exported_html.code == 0
    assert output_lines(exported_html.output) == []
    assert exported_html.faults() == []
    assert len(exported_html.figures()) >= 5


def page_bytes(page: Export) -> int:
    return len(page.text.encode())


def test_page_without_code_does_not_grow_back(story_html: Export) -> None:
    assert page_bytes(story_html) <= 650_000


@pytest.mark.xfail(
    reason="630 KB. 150 KB are marimo's own: its page, and 274 bytes for each of 440 cells. "
    "The published page, without the silent cells, stays below: test_published_page.",
    strict=True,
)
def test_page_without_code_stays_small(story_html: Export) -> None:
    assert page_bytes(story_html) <= 500_000


def test_page_with_code_draws_every_figure(browser: Browser, exported_html: Export) -> None:
    with seat(browser, answers={STATIC_URL: exported_html.path}) as reader:
        page = reader.page
        page.goto(STATIC_URL)
        reader.settle()
        expect(page.get_by_role("heading", name="1. The idea")).to_be_visible()
        assert reader.figures().count() > 0
        assert reader.blank_figures() == []
        assert reader.failed_cells() == []
        assert page.locator(".seq-own-code").count() == 2  # the cells' own code is there
        assert page.locator(".seq-own-code:visible").count() == 0
        # An editor per cell has the browser style the page anew hundreds of times; cells that
        # are out of sight are left out of that.
        cell = page.locator(".marimo-cell").last
        assert cell.evaluate("e => getComputedStyle(e).contentVisibility") == "auto"
        assert reader.faults == []


def test_story_is_complete_and_says_what_needs_a_kernel(story_page: Reader) -> None:
    page = story_page.page
    assert [heading.split(".")[0] for heading in page.locator("h2").all_inner_texts()][:11] == [
        str(number) for number in range(1, 12)
    ]
    said = page.locator(".seq-static-only")
    expect(said).to_have_count(1)
    expect(said).to_be_visible()
    # It stands before the first field that does nothing.
    top = said.bounding_box()
    first_field = page.get_by_label("Scenario", exact=True).last.bounding_box()
    assert top is not None
    assert first_field is not None
    assert top["y"] < first_field["y"]
    # Where the text speaks of code, the code is there.
    code = page.locator(".seq-own-code:visible").all_inner_texts()
    assert ["traj_advantage=1.0" in code[0], "compute_advantages(" in code[1]] == [True, True]
    assert story_page.figures().count() > 0
    assert story_page.blank_figures() == []
    assert story_page.failed_cells() == []


def test_step_and_menu_work_without_python(static_page: Reader) -> None:
    page = static_page.page
    figure = page.locator(".vega-embed", has=page.get_by_role("slider")).first
    canvas = figure.locator("canvas")
    seen = [canvas.evaluate("c => c.toDataURL()")]

    def redrawn() -> str:
        """What the canvas shows once it shows something new."""
        page.wait_for_function(
            "([canvas, before]) => canvas.toDataURL() !== before",
            arg=[canvas.element_handle(), seen[-1]],
        )
        picture: str = canvas.evaluate("c => c.toDataURL()")
        return picture

    step = figure.get_by_role("slider").first
    step.press("Home")
    seen.append(redrawn())
    step.press("ArrowRight")
    seen.append(redrawn())
    figure.get_by_role("combobox").first.select_option(index=0)
    seen.append(redrawn())
    assert len(set(seen)) == 4


def test_page_fits_a_phone(browser: Browser, story_html: Export) -> None:
    with seat(browser, width=390, answers={STATIC_URL: story_html.path}) as reader:
        reader.page.goto(STATIC_URL)
        reader.settle()
        assert reader.page_overflow() == 0
        assert reader.blank_figures() == []


def test_page_fits_a_frame_of_another_page(browser: Browser, story_html: Export) -> None:
    """The README's iframe: fixed height, scrolls inside, the outer page does not widen."""
    outer = STATIC_URL.replace("page.html", "outer.html")
    frame = '<iframe src="page.html" title="t" width="100%" height="900" style="border: 0">'
    with seat(browser, answers={outer: frame, STATIC_URL: story_html.path}) as reader:
        reader.page.goto(outer)
        inner = reader.page.frame_locator("iframe")
        expect(inner.get_by_role("heading", name="1. The idea")).to_be_visible()
        height = reader.page.locator("iframe").evaluate("e => e.getBoundingClientRect().height")
        assert height == 900
        app = inner.locator("#App")
        assert app.evaluate("e => e.scrollHeight > e.clientHeight && e.clientHeight <= 900")
        assert reader.faults == []


def test_file_alone_in_an_empty_folder(story_html: Export) -> None:
    """No project, no assets: exported without an error line, with the same story and theme."""
    assert not (story_html.path.parent / "pyproject.toml").exists()
    assert story_html.code == 0
    assert output_lines(story_html.output) == []
    assert story_html.faults() == []
    assert '"theme": "system"' in story_html.text


def test_molabs_session_is_of_this_notebook(story_html: Export) -> None:
    """If this fails, `uv run python tests/make_assets.py` makes session and picture anew."""
    committed = json.loads(SESSION.read_text(encoding="utf-8"))
    assert [(cell["id"], cell["code_hash"]) for cell in committed["cells"]] == [
        (cell["id"], cell["code_hash"]) for cell in story_html.session["cells"]
    ]
    assert session_faults(committed, story_html.notebook) == []


def test_picture_of_link_previews_has_their_size() -> None:
    head = PICTURE.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert [int.from_bytes(head[at : at + 4]) for at in (16, 20)] == [1200, 630]


@pytest.fixture(scope="module")
def published(story_html: Export, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The README's command, on the exported page."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "assets").symlink_to(ROOT / "assets")
    (folder / "page.html").symlink_to(story_html.path)
    command = shlex.split(readme_command("uv run python assets/publish.py"))
    subprocess.run([sys.executable, *command[3:]], cwd=folder, check=True)
    return folder / command[-1]


def test_published_page_is_the_same_but_small(
    browser: Browser, story_html: Export, published: Path
) -> None:
    assert len(published.read_bytes()) <= 500_000
    told = []
    for page in (story_html.path, published):
        with seat(browser, answers={STATIC_URL: page}) as reader:
            reader.page.goto(STATIC_URL)
            reader.settle()
            words = reader.page.locator("#App").inner_text().split()
            told.append((words, reader.figures().count(), reader.faults))
    assert told[0] == told[1]
    assert len(told[1][0]) > 3_000
    assert cells_of(published) < cells_of(story_html.path) / 5


def cells_of(page: Path) -> int:
    return page.read_text("utf-8").count('"code_hash"') // 2


def test_publish_refuses_what_it_cannot_treat(exported_html: Export, tmp_path: Path) -> None:
    strange = tmp_path / "strange.html"
    strange.write_text("<html><head></head></html>")
    script = ROOT / "assets" / "publish.py"
    for page, words in (
        (exported_html.path, "export it with --no-include-code"),
        (strange, "no cells of a session in it"),
        (tmp_path / "missing.html", "No such file"),
    ):
        target = tmp_path / "out.html"
        done = subprocess.run(
            [sys.executable, script, page, target], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert not target.exists()


def test_link_preview_is_put_into_a_page(browser: Browser, published: Path) -> None:
    with seat(browser, answers={STATIC_URL: published}) as reader:
        reader.page.goto(STATIC_URL)
        reader.settle()
        said = reader.page.evaluate(
            "Object.fromEntries([...document.querySelectorAll('head > meta[property]')]"
            ".map((e) => [e.getAttribute('property'), e.content]))"
        )
        assert said["og:title"] == reader.page.title()
        assert said["og:image"].endswith("/" + PICTURE.name)
        assert len(said["og:description"]) > 50
        assert reader.page.locator("meta[name=description]").first.get_attribute(
            "content"
        ) == html.unescape(said["og:description"])
        assert reader.faults == []


def test_flat_script_and_markdown_hold_the_story(project: Path, tmp_path: Path) -> None:
    for kind in ("script", "md"):
        target = tmp_path / f"page.{kind}"
        done = run_marimo("export", kind, project, "-o", target, "-f", cwd=tmp_path)
        assert done.returncode == 0
        text = target.read_text(encoding="utf-8")
        assert "## 11. Summary" in text
        if kind == "script":
            compile(text, target.name, "exec")


def test_static_page_unfolds_the_answers(story_page: Reader) -> None:
    cards = story_page.page.locator(".quiz-card")
    assert cards.count() >= 5
    assert story_page.page.locator(".quiz-live:visible").count() == 0
    answer = cards.first.locator("details")
    assert not answer.get_by_text("one running sequence").is_visible()
    answer.locator("summary").focus()
    story_page.page.keyboard.press("Enter")
    assert answer.get_by_text("one running sequence").is_visible()


def test_the_static_page_holds_the_whole_matrix(story_page: Reader, exported_html: Export) -> None:
    page = story_page.page
    cells = len(renderer_names()) * len(policy_names())
    page.get_by_text(f"The same {cells} cells as a table").click()
    facts = page.locator("details", has=page.get_by_text(f"The same {cells} cells as a table"))
    matrix, breaks = facts.get_by_role("table").all()
    rows = {row[0]: row[1:] for row in matrix.evaluate(CELLS)}
    assert list(rows) == renderer_names()
    assert {len(row) for row in rows.values()} == {1 + len(policy_names())}
    numbers = set(re.findall(r"3/3 · #(\d+)", " ".join(rows["qwen3"])))
    assert numbers
    assert numbers <= {cell for row in breaks.evaluate(CELLS) for cell in row}
    assert page.locator("input[type=password]").count() == 0
    assert "This costs money" not in page.locator("#root").inner_text()
