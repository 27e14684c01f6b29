"""Pictures of every section, light and dark, wide and narrow, into the ignored `shots/`.

    uv run python tests/screenshots.py [section ...]

Made to be looked at, one by one; nothing is compared.
"""

import sys
import tempfile
from pathlib import Path

from browser import ROOT, copy_project, launch, serve, take_screens
from playwright.sync_api import sync_playwright


def main(sections: list[str]) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        serve("run", copy_project(Path(folder))) as server,
        sync_playwright() as playwright,
    ):
        browser = launch(playwright)
        for path in take_screens(browser, ROOT / "shots", "section", server, sections):
            print(path.relative_to(ROOT))
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:] or [str(number) for number in range(1, 13)])
