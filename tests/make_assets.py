"""What is made for publishing: pictures, and molab's session at a release.

    uv run python tests/make_assets.py [--session]

Pictures go to `assets/` and are committed. The session, all outputs in the form in which molab
shows them before it runs anything, goes to `__marimo__/`, which git ignores: at a release it is
added to the tag's tree by `git add -f __marimo__/session`.
"""

import argparse
import tempfile
from pathlib import Path

from browser import NOTEBOOK, ROOT, copy_project, launch, run_marimo, seat, serve
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


def make_session() -> Path:
    """Run the notebook and write its session where molab looks for it."""
    done = run_marimo("export", "session", NOTEBOOK)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return ROOT / "__marimo__" / "session" / f"{NOTEBOOK.name}.json"


def make_pictures() -> list[Path]:
    """README's picture of the first screen; title and first figure at the size of previews."""
    made = [ROOT / "assets" / "screenshot.png", ROOT / "assets" / "preview.png"]
    with (
        tempfile.TemporaryDirectory() as folder,
        serve("run", copy_project(Path(folder))) as server,
        sync_playwright() as playwright,
    ):
        browser = launch(playwright)
        with seat(browser, width=1200, height=760) as reader:
            reader.open(server)
            reader.page.screenshot(path=made[0])
            reader.page.set_viewport_size({"width": 1200, "height": 630})
            reader.settle()
            reader.page.evaluate(ONLY_THE_IDEA)
            reader.settle()
            reader.page.screenshot(path=made[1])
        browser.close()
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--session", action="store_true", help="molab's session as well")
    for path in make_pictures() + ([make_session()] if parser.parse_args().session else []):
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
