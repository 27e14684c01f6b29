"""The app below a path of another site, and what a link to it shows."""

import re
import urllib.request
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from browser import Server, copy_project, seat, serve
from playwright.sync_api import Browser, expect


@pytest.fixture(scope="module")
def below_a_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    notebook = copy_project(tmp_path_factory.mktemp("below"))
    with serve("run", notebook, base_url="/tutorials/404") as server:
        yield server


def read(url: str) -> tuple[str, bytes]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.headers["content-type"], answer.read()


def test_app_runs_below_a_base_url(browser: Browser, below_a_path: Server) -> None:
    with seat(browser) as reader:
        reader.open(below_a_path)
        expect(reader.page.get_by_role("heading", name="1. The idea")).to_be_visible()
        assert reader.failed_cells() == []
        assert reader.faults == []


def test_link_preview_has_title_description_and_picture(below_a_path: Server) -> None:
    _, page = read(below_a_path.url)
    text = page.decode()
    preview = {
        name: unescape(value)
        for name, value in re.findall(r'<meta property="og:(\w+)" content="([^"]*)"', text)
    }
    assert preview["title"] == "Tutorial 404: Sequence extension in multi-turn RL"
    assert preview["description"]
    origin = below_a_path.url.split("/tutorials")[0]
    kind, picture = read(origin + preview["image"].replace("&amp;", "&"))
    assert kind == "image/png"  # a placeholder would be an SVG
    assert picture.startswith(b"\x89PNG")


def test_preview_picture_is_small(pytestconfig: pytest.Config) -> None:
    folder = Path(pytestconfig.rootpath) / "__marimo__" / "assets" / "404_sequence_extension"
    assert (folder / "opengraph.png").stat().st_size <= 200_000
