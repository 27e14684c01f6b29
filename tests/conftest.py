"""Fixtures: the notebook as a module, as an app, in the editor and as a static page."""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from browser import (
    NOTEBOOK,
    ROOT,
    STATIC_URL,
    Export,
    Reader,
    Server,
    chromium_path,
    copy_project,
    export_html,
    launch,
    seat,
    serve,
    shoot,
)
from playwright.sync_api import Browser, sync_playwright


def load_notebook() -> ModuleType:
    """The notebook file as a module; its name starts with a digit, so `import` cannot."""
    if "notebook" not in sys.modules:
        spec = importlib.util.spec_from_file_location("notebook", NOTEBOOK)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["notebook"] = module
        spec.loader.exec_module(module)
    return sys.modules["notebook"]


@pytest.fixture(scope="session")
def nb() -> ModuleType:
    return load_notebook()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: while Playwright runs, its event loop would forbid `asyncio.run`."""
    items.sort(key=lambda item: "browser" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for the whole run. Without Chromium: skipped, but never in CI."""
    if chromium_path() is None:
        reason = "Chromium is not installed, so nothing was opened in a browser."
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        opened = launch(playwright)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the notebook, so that servers and exports write nothing into the repository."""
    return copy_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="session")
def run_server(project: Path) -> Iterator[Server]:
    """One `marimo run` for the whole run; every page is a session of its own."""
    with serve("run", project, "--session-ttl", "1") as server:
        yield server


@pytest.fixture(scope="session")
def edit_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One `marimo edit` for the whole run, on a copy of its own."""
    with serve("edit", copy_project(tmp_path_factory.mktemp("edit"))) as server:
        yield server


@pytest.fixture(scope="session")
def exported_html(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Export:
    """The static page, exported once, with its session read back."""
    return export_html(project, tmp_path_factory.mktemp("export") / "page.html")


@pytest.fixture(scope="session")
def story_html(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """The static page for sites, without code; made from the file alone in an empty folder."""
    folder = tmp_path_factory.mktemp("alone")
    alone = folder / NOTEBOOK.name
    alone.write_bytes(NOTEBOOK.read_bytes())
    return export_html(alone, folder / "page.html", "--no-include-code")


@pytest.fixture
def run_page(browser: Browser, run_server: Server) -> Iterator[Reader]:
    """A reader of the app, with all cells run. Faults left at the end fail the test."""
    with seat(browser) as reader:
        reader.open(run_server)
        yield reader
        assert reader.faults == []


@pytest.fixture
def static_page(browser: Browser, story_html: Export) -> Iterator[Reader]:
    """A reader of the static page, with no Python behind it and no network before it."""
    with seat(browser, answers={STATIC_URL: story_html.path}) as reader:
        reader.page.goto(STATIC_URL)
        reader.settle()
        yield reader
        assert reader.faults == []


@pytest.fixture
def screens() -> Callable[[Reader, str], list[Path]]:
    """Pictures of a reader's page into the ignored folder `shots/`, to look at."""

    def take(reader: Reader, name: str) -> list[Path]:
        folder = ROOT / "shots"
        folder.mkdir(exist_ok=True)
        return shoot(reader, folder, name)

    return take
