"""What is committed for publishing, made anew: molab's session, the pictures.

    uv run python tests/make_assets.py

Run by hand after a change of the notebook; `test_static.py` says when it is due.
"""

import shutil
import tempfile
from pathlib import Path

from browser import (
    NOTEBOOK,
    PICTURE,
    ROOT,
    SESSION,
    copy_project,
    launch,
    run_marimo,
    seat,
    serve,
    shoot,
)
from playwright.sync_api import sync_playwright

# Only the title and the first figure, no controls: a preview is read at the size of a stamp.
ONLY_THE_IDEA = """
() => {
  const cells = [...document.querySelectorAll(".marimo-cell")];
  const kept = cells.filter((cell) => cell.querySelector("h1, .vega-embed canvas")).slice(0, 2);
  for (const cell of cells) if (!kept.includes(cell)) cell.style.display = "none";
  const rest = [...document.querySelectorAll("h1 ~ *, .vega-bindings")];
  const floats = (e) => !e.closest(".marimo-cell") && getComputedStyle(e).position === "fixed";
  rest.push(...[...document.querySelectorAll("body *")].filter(floats));
  for (const part of rest) part.style.display = "none";
}
"""


def make_session(notebook: Path) -> None:
    """All outputs in the form in which molab shows them before it runs anything."""
    done = run_marimo("export", "session", "--no-sandbox", notebook, cwd=notebook.parent)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    SESSION.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(notebook.parent / "__marimo__" / "session" / SESSION.name, SESSION)


def make_pictures(notebook: Path) -> None:
    """README's picture of section 1; title and first figure at the size of link previews."""
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    with serve("run", notebook) as server, sync_playwright() as playwright:
        browser = launch(playwright)
        with seat(browser, width=1200, height=630) as reader:
            reader.open(server)
            [section] = shoot(reader, notebook.parent, "section", [1])
            shutil.copy(section, ROOT / "assets" / "screenshot.png")
            reader.page.set_viewport_size({"width": 1200, "height": 630})
            reader.settle()
            reader.page.evaluate(ONLY_THE_IDEA)
            reader.settle()
            reader.page.screenshot(path=PICTURE)
        browser.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        notebook = copy_project(Path(folder) / NOTEBOOK.stem)
        make_session(notebook)
        make_pictures(notebook)


if __name__ == "__main__":
    main()
