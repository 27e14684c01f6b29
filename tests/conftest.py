"""Fixtures: the notebook as a module, as an app, in the editor and as a static page."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser import (
    NOTEBOOK,
    PATIENCE_S,
    ROOT,
    STATIC_URL,
    WIDTHS,
    Export,
    Reader,
    Server,
    chromium_path,
    copy_project,
    export_html,
    launch,
    on_terminal,
    read_export,
    readme_commands,
    seat,
    serve,
    shoot,
)
from playwright.sync_api import Browser, expect, sync_playwright
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Else each of the thirty processes that the tests start would compile the libraries anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

expect.set_options(timeout=PATIENCE_S * 1000)

# Of the two processes (`-n 2` in pyproject.toml) one takes the files that need a server and one
# the rest: each server and each export is made once, and both take about as long.
SERVED = ("test_edit.py", "test_edit_matrix.py", "test_run", "test_served")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: while Playwright runs, its event loop would forbid `asyncio.run`.

    Of these the editor last of all, when the other process is done: on a busy machine its page
    takes a multiple of the work, as the browser styles it anew for every few cells that arrive.
    """

    def late(item: pytest.Item) -> int:
        needs = getattr(item, "fixturenames", ())
        return ("browser" in needs) + ("edit_server" in needs)

    items.sort(key=late)


class Halves(LoadScopeScheduling):  # type: ignore[misc]
    """One half of the tests for each process, in the order of collection.

    Not `--dist loadgroup`: pytest-xdist 3.8 does not see its groups under pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "served" if Path(nodeid.split("::")[0]).name.startswith(SERVED) else "rest"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Halves:
    return Halves(config, log)


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
def exported_html(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """The static page, made by the README's command on a terminal, with its session read back."""
    folder = copy_project(tmp_path_factory.mktemp("export")).parent
    [command] = {
        line
        for line in readme_commands()
        if " marimo export html " in line and "--no-include-code" not in line
    }
    output, code = on_terminal(command, folder)
    return read_export(folder / command.split(" -o ")[-1], output, code)


@pytest.fixture(scope="session")
def story_html(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """The static page for sites, without code; made from the file alone in an empty folder."""
    folder = tmp_path_factory.mktemp("alone")
    alone = folder / NOTEBOOK.name
    alone.write_bytes(NOTEBOOK.read_bytes())
    return export_html(alone, folder / "page.html", "--no-include-code")


def unharmed(reader: Reader) -> Iterator[Reader]:
    """A shared page for one test: what went wrong in it fails this test and not the next."""
    try:
        yield reader
        assert reader.faults == []
        assert reader.failed_cells() == []
    finally:
        reader.faults.clear()
        reader.page.evaluate("window.__failures = []")


@pytest.fixture(scope="session")
def app(browser: Browser, run_server: Server) -> Iterator[Reader]:
    """The one page of the app that tests share: marimo takes many seconds to open one."""
    with seat(browser) as reader:
        reader.open(run_server)
        yield reader
        assert reader.faults == []


@pytest.fixture
def run_page(app: Reader) -> Iterator[Reader]:
    """A reader of the app, with all cells run, in a wide window.

    Tests before may have left something in the fields: a test either is alone with its section
    or sets first what it starts from.
    """
    app.page.set_viewport_size({"width": WIDTHS["wide"], "height": 900})
    app.rest()
    yield from unharmed(app)


@pytest.fixture(scope="session")
def phone(browser: Browser, run_server: Server) -> Iterator[Reader]:
    """The one page of the app, opened in a narrow window, with a scenario that splits."""
    with seat(browser, width=WIDTHS["narrow"]) as reader:
        reader.open(run_server, "?scenario=removed")
        yield reader
        assert reader.faults == []


@pytest.fixture
def phone_page(phone: Reader) -> Iterator[Reader]:
    """A reader who only reads, on a phone."""
    yield from unharmed(phone)


def static_reader(browser: Browser, export: Export) -> Iterator[Reader]:
    """A reader of a static page, with no Python behind it and no network before it."""
    with seat(browser, answers={STATIC_URL: export.path}) as reader:
        reader.page.goto(STATIC_URL)
        reader.settle()
        yield reader
        assert reader.faults == []


@pytest.fixture(scope="session")
def story(browser: Browser, story_html: Export) -> Iterator[Reader]:
    """The one static page that tests share which only read."""
    yield from static_reader(browser, story_html)


@pytest.fixture
def story_page(story: Reader) -> Iterator[Reader]:
    """A reader who changes nothing on the static page but what is unfolded."""
    yield from unharmed(story)


@pytest.fixture
def static_page(browser: Browser, story_html: Export) -> Iterator[Reader]:
    """A static page to change, with no Python behind it and no network before it."""
    yield from static_reader(browser, story_html)


@pytest.fixture
def screens() -> Callable[[Reader, str], list[Path]]:
    """Pictures of a reader's page into the ignored folder `shots/`, to look at."""

    def take(reader: Reader, name: str) -> list[Path]:
        folder = ROOT / "shots"
        folder.mkdir(exist_ok=True)
        return shoot(reader, folder, name)

    return take
