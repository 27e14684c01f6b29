"""The notebook in the editor, as `marimo edit` serves it."""

from collections.abc import Iterator

import pytest
from browser import Reader, Server, seat
from playwright.sync_api import Browser, expect


@pytest.fixture
def edit_page(browser: Browser, edit_server: Server) -> Iterator[Reader]:
    with seat(browser) as reader:
        reader.page.goto(edit_server.url)
        # the page makes an editor for every cell while they run: slow without a graphics card
        reader.page.wait_for_function("window.__answers > 0", timeout=540_000)
        yield reader


@pytest.mark.timeout(600)
def test_editor_opens_and_runs_every_cell(edit_page: Reader) -> None:
    page = edit_page.page
    expect(page.get_by_role("heading", name="1. The idea")).to_be_visible()
    assert edit_page.failed_cells() == []
    assert page.locator("[data-status='stale'], [data-status='disabled-transitively']").count() == 0
    # tall outputs are not clamped to a box of their own
    for words in ("Remove turn 2", "1. Two agents share"):
        output = page.locator(".output-area", has_text=words).first
        output.scroll_into_view_if_needed()
        height, shown = output.evaluate("e => [e.scrollHeight, e.clientHeight]")
        assert height == shown > 800
    assert edit_page.faults == []
