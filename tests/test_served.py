"""The app below a path of another site."""

from collections.abc import Iterator

import pytest
from browser import Server, copy_project, seat, serve
from playwright.sync_api import Browser, expect


@pytest.fixture(scope="module")
def below_a_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    notebook = copy_project(tmp_path_factory.mktemp("below"))
    with serve("run", notebook, base_url="/tutorials/404") as server:
        yield server


def test_app_runs_below_a_base_url(browser: Browser, below_a_path: Server) -> None:
    with seat(browser) as reader:
        reader.open(below_a_path)
        expect(reader.page.get_by_role("heading", name="1. The idea")).to_be_visible()
        assert reader.failed_cells() == []
        assert reader.faults == []
