"""Fixtures: the notebook as an app, in the editor and as a static page."""

import asyncio
import os
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from browser import (
    PATIENCE_S,
    ROOT,
    STATIC_URL,
    WIDTHS,
    Export,
    Reader,
    Server,
    chromium_path,
    copy_project,
    launch,
    read_export,
    readme_command,
    seat,
    serve,
    shoot,
    shown_by,
    without_code,
)
from load import Tally, resident_mb, wave
from playwright.sync_api import Browser, expect, sync_playwright
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Else each process that the tests start would compile the libraries anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

expect.set_options(timeout=PATIENCE_S * 1000)

# Of the two processes (`-n 2` in pyproject.toml) one begins with the files that need a server and
# one with those that need the export, so each is made once; the others go to who is free first.
SERVED = ("test_run.py", "test_edit.py")
# While Playwright runs, its event loop forbids `asyncio.run`: such files stay before it. One
# process makes the export.
BOUND = re.compile(r"asyncio\.run\(|\bbrowser\b|\b(?:story|static)_")
# What makes a test one of the app: a server, an export or a browser.
APP = {"browser", "edit_server", "faulty", "run_server", "static_export", "terminal_folder"}


@cache
def unit(path: str) -> str:
    """What a test file belongs to: all tests of one unit run in one process, in their order."""
    if Path(path).name in SERVED:
        return path
    return "bound" if BOUND.search((ROOT / path).read_text(encoding="utf-8")) else path


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the app; begin with the long units, and in them run the browser last."""

    def needs(item: pytest.Item) -> set[str]:
        return set(getattr(item, "fixturenames", ()))

    def order(item: pytest.Item) -> tuple[int, bool]:
        path = item.nodeid.split("::")[0]
        free = 2 if unit(path) == path else 0
        place = SERVED.index(item.path.name) if item.path.name in SERVED else free
        return place, "browser" in needs(item)

    for item in items:
        if needs(item) & APP:
            item.add_marker(pytest.mark.app)
    items.sort(key=order)


class Units(LoadScopeScheduling):  # type: ignore[misc]
    """A unit at a time for each process, in the order of collection.

    Not `--dist loadgroup`: pytest-xdist 3.8 does not see its groups under pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid.split("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Units:
    config.option.loadscopereorder = False  # the long ones first
    return Units(config, log)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """The offline vocabulary."""
    from sequence_extension.env.vocabulary import offline_vocabulary

    return offline_vocabulary()


@pytest.fixture(scope="session")
def built(tokenizer: Any) -> dict[str, Any]:
    """Every renderer of the installed cookbook, on the offline vocabulary."""
    from sequence_extension.env.renderers import build_renderer, renderer_names

    return {name: build_renderer(name, tokenizer)[0] for name in renderer_names()}


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
def run_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One `marimo run` for the whole run, below a path; every page is a session of its own."""
    notebook = copy_project(tmp_path_factory.mktemp("run"))
    with serve("run", notebook, "--session-ttl", "1", base_url="/tutorials/404") as server:
        yield server


@pytest.fixture(scope="session")
def cold_start(run_server: Server) -> Tally:
    """Five readers who arrive together before anybody else."""
    assert resident_mb(run_server.pid) < 300, "the server has torch already"
    with ThreadPoolExecutor(1) as thread:  # Playwright's loop may run in this one
        tally, _ = thread.submit(lambda: asyncio.run(wave(run_server, 5, 0))).result()
    return tally


@pytest.fixture(scope="session")
def edit_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One `marimo edit` for the whole run, on a copy of its own."""
    with serve("edit", copy_project(tmp_path_factory.mktemp("edit"))) as server:
        yield server


@pytest.fixture(scope="session")
def terminal_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project for commands that write beside the notebook."""
    return copy_project(tmp_path_factory.mktemp("terminal")).parent


@pytest.fixture(scope="session")
def static_export(terminal_folder: Path) -> Export:
    """The static page, made by the README's command on a terminal, with its session read back."""
    command = readme_command("uv run marimo export html ")
    shown, code = shown_by(command, terminal_folder, terminal_folder / "export.log")
    return read_export(terminal_folder / command.split(" -o ")[-1], shown, code)


@pytest.fixture(scope="session")
def story_html(static_export: Export) -> Path:
    """The same page without code, for sites."""
    path = static_export.path.with_name("story.html")
    path.write_text(without_code(static_export.text), encoding="utf-8")
    return path


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


@pytest.fixture(scope="session")
def app_shift(app: Reader) -> float:
    """By how much of the window anything had jumped when the app stood; before other tests."""
    shift: float = app.page.evaluate("window.__shift")
    return shift


@pytest.fixture
def run_page(app: Reader) -> Iterator[Reader]:
    """A reader of the app, with all cells run, in a wide window.

    Tests before may have left something in the fields: a test either is alone with its section
    or sets first what it starts from.
    """
    app.page.bring_to_front()
    app.page.set_viewport_size({"width": WIDTHS["wide"], "height": 900})
    app.rest()
    yield from unharmed(app)


@pytest.fixture(scope="session")
def phone_address() -> str:
    """A scenario that splits, and the reward of its last turn is 7."""
    from sequence_extension.editor.address import address_of
    from sequence_extension.editor.scenarios import scenarios

    scenario = scenarios()["removed"]
    *others, last = scenario.drafts
    parameters, _ = address_of(scenario, (*others, replace(last, reward="7")), "chat")
    return "?" + urlencode(parameters)


@pytest.fixture(scope="session")
def phone(app: Reader, run_server: Server, phone_address: str) -> Iterator[Reader]:
    """The one page of the app that was opened by an address, in a narrow window.

    In the browser of the other page, which has loaded all: whoever is in front draws.
    """
    with app.neighbour() as reader:
        reader.page.set_viewport_size({"width": WIDTHS["narrow"], "height": 900})
        reader.open(run_server, phone_address)
        yield reader
        assert reader.faults == []


@pytest.fixture
def phone_page(phone: Reader) -> Iterator[Reader]:
    """A reader who only reads, on a phone."""
    phone.page.bring_to_front()
    yield from unharmed(phone)


def static_reader(browser: Browser, page: Path, width: int = WIDTHS["wide"]) -> Iterator[Reader]:
    """A reader of a static page, with no Python behind it and no network before it."""
    with seat(browser, width=width, answers={STATIC_URL: page}) as reader:
        reader.page.goto(STATIC_URL)
        reader.settle()
        yield reader
        assert reader.faults == []


@pytest.fixture(scope="session")
def story(browser: Browser, story_html: Path) -> Iterator[Reader]:
    """The one static page that tests share which only read."""
    yield from static_reader(browser, story_html)


@pytest.fixture
def story_page(story: Reader, story_shift: float) -> Iterator[Reader]:
    """A reader who leaves the static page as it was, but for what is unfolded."""
    yield from unharmed(story)


@pytest.fixture(scope="session")
def story_shift(story: Reader) -> float:
    """By how much of the window anything had jumped when the page stood; before other tests."""
    shift: float = story.page.evaluate("window.__shift")
    return shift


@pytest.fixture(scope="session")
def story_phone(browser: Browser, story_html: Path) -> Iterator[Reader]:
    """The static page on a phone, for tests which only read."""
    yield from static_reader(browser, story_html, WIDTHS["narrow"])


@pytest.fixture
def story_phone_page(story_phone: Reader) -> Iterator[Reader]:
    yield from unharmed(story_phone)


@pytest.fixture
def screens() -> Callable[[Reader, str], list[Path]]:
    """Pictures of a reader's page into the ignored folder `shots/`, to look at."""

    def take(reader: Reader, name: str) -> list[Path]:
        folder = ROOT / "shots"
        folder.mkdir(exist_ok=True)
        return shoot(reader, folder, name)

    return take
