"""The app below a path of another site, with its link preview."""

import html
import re
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator

import pytest
from browser import PICTURE, PUBLISHED, Server, copy_project, seat, serve
from playwright.sync_api import Browser, expect


@pytest.fixture(scope="module")
def below_a_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    notebook = copy_project(tmp_path_factory.mktemp("below"))
    shutil.copytree(PUBLISHED, notebook.parent / PUBLISHED.name)  # as the README says
    with serve("run", notebook, base_url="/tutorials/404") as server:
        yield server


def test_app_runs_below_a_base_url(browser: Browser, below_a_path: Server) -> None:
    with seat(browser) as reader:
        reader.open(below_a_path)
        expect(reader.page.get_by_role("heading", name="1. The idea")).to_be_visible()
        assert reader.failed_cells() == []
        assert reader.faults == []


def test_link_preview_of_the_app(below_a_path: Server) -> None:
    with urllib.request.urlopen(below_a_path.url, timeout=60) as page:
        text = page.read().decode()
    assert '<meta property="og:title" content="Tutorial 404: Sequence extension' in text
    [address] = re.findall(r'<meta property="og:image" content="([^"]*)"', text)
    assert "/tutorials/404/" in address
    with urllib.request.urlopen(
        urllib.parse.urljoin(below_a_path.url, html.unescape(address)), timeout=60
    ) as picture:
        assert picture.read() == PICTURE.read_bytes()
