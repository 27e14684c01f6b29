"""The report as one HTML file, through the command.

Invariants:

1. Alone: it opens with the network cut, without a script, and asks for nothing.
2. Figures: the worst rollouts are drawn, in light and in dark, in the colour of the page.
3. Bounded: at most 1.5 MB for any input, and it says what it leaves out.
4. Escaped: no text of a file is markup.
5. Output: a page that cannot be written is named; nothing that is read is written over.
"""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal

import pytest
from bench_files import long_rollout
from playwright.sync_api import Browser, Request

from sequence_extension.cli import main
from sequence_extension.formats.bounded import read_bounded
from sequence_extension.group import group_advantages
from sequence_extension.html_report import MAX_PAGE_BYTES, PAGE_INK
from sequence_extension.overview import STAND_IN

CASES = Path(__file__).parent / "cases.jsonl"
EVIL = "<img src=x onerror=alert(1)>\"'&"


class Seen(HTMLParser):
    """Tags, ids and links of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert not name.startswith("on")
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href"):
                self.links.append(value or "")


@pytest.fixture
def write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The page on some content, as the command writes it."""

    def write(content: Any, code: int = 0) -> str:
        source, target = tmp_path / "rollouts.json", tmp_path / "page.html"
        source.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        assert main([str(source), "--html", str(target)]) == code
        if code == 0:
            assert f"HTML report: {target}" in capsys.readouterr().out
        assert target.stat().st_size <= MAX_PAGE_BYTES
        return target.read_text(encoding="utf-8")

    return write


@pytest.fixture(scope="module")
def cases_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of all cases."""
    target = tmp_path_factory.mktemp("cases") / "page.html"
    assert main([str(CASES), "--html", str(target)]) == 0
    return target.read_text(encoding="utf-8")


def test_page_needs_nothing_else(cases_page: str) -> None:
    """Invariants 1 and 2: every link leads to a place in it, no id stands twice."""
    page = cases_page
    seen = Seen(page)
    assert "script" not in seen.tags
    assert seen.tags.count("svg") > 12
    assert len(seen.ids) == len(set(seen.ids))
    assert all(link.startswith("#") and link[1:] in seen.ids for link in seen.links)
    assert sum(link.startswith("#rollout-") for link in seen.links) == 12
    assert PAGE_INK not in page
    assert "currentColor" in page
    assert "<summary>Causes and warnings, and what helps</summary>" in page  # so many are folded
    for url in re.findall(r"url\(([^)]*)\)", page):
        assert url.startswith("#")


def test_page_of_many_large_rollouts_is_bounded(write: Any) -> None:
    """Invariant 3: long rollouts with many breaks, long names, texts and groups."""
    vocab = {str(token): f"<|{'x' * 400}{token}|>" for token in range(0, 4000, 17)}
    large = long_rollout(40, 1_500, split=1)
    rollouts = [
        {**large, "name": EVIL * 20 + str(n), "group": EVIL * 20, "vocab": vocab} for n in range(14)
    ]
    small = [{"transitions": [{"ob": [n], "ac": [1], "logprobs": [-1]}] * 2} for n in range(400)]
    bad = [{"name": EVIL, "transitions": [7]}] * 60
    page = write("\n".join(map(json.dumps, [*rollouts, *small, *bad])).encode(), code=2)
    assert "214 more rollouts are not listed" in page
    assert "And 55 more." in page
    assert "more breaks not drawn" in page
    assert "svg" in Seen(page).tags


@pytest.mark.parametrize("split", [0, 3])
def test_page_does_not_grow_with_tokens(write: Any, split: int) -> None:
    """Invariant 3."""
    sizes = [len(write(long_rollout(30, tokens, split=split))) for tokens in (3_000, 30_000)]
    assert sizes[1] < 1.2 * sizes[0]


def test_text_of_a_file_is_no_markup(write: Any) -> None:
    """Invariant 4: names, groups, texts of tokens, faulty values."""
    turns = [
        {"ob": [1, 2], "ac": [3], "logprobs": [None]},
        {"ob": [1, 4], "ac": [3], "logprobs": [-0.5]},
    ]
    vocab = {str(token): EVIL for token in range(5)}
    good = {"name": EVIL, "group": EVIL, "vocab": vocab, "transitions": turns}
    page = write([good, {"name": EVIL, "transitions": [{"ob": [EVIL], "ac": []}]}], code=2)
    assert "img" not in Seen(page).tags
    assert "&lt;img" in page


def test_a_page_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invariant 5."""
    case = tmp_path / "case.jsonl"
    line = CASES.read_bytes().splitlines()[0]
    case.write_bytes(line)
    assert main([str(case), "--html", str(tmp_path / "none" / "page.html")]) == 2
    assert "page.html cannot be written: No such file or directory." in capsys.readouterr().err
    assert main([str(case), "--html", "/dev/full"]) == 2
    assert capsys.readouterr().err == "/dev/full cannot be written: No space left on device.\n"
    assert main([str(case), "--html", str(case)]) == 2
    assert "would write over" in capsys.readouterr().err
    assert case.read_bytes() == line


def test_page_opens_with_the_network_cut(cases_page: str, browser: Browser) -> None:
    """Invariants 1 and 2: no request, no error; text of figures has the page's colour."""
    context = browser.new_context(
        offline=True, color_scheme="dark", viewport={"width": 390, "height": 800}
    )
    asked: list[str] = []
    faults: list[str] = []
    try:
        tab = context.new_page()

        def note(request: Request) -> None:
            if not request.url.startswith(("file:", "data:")):
                asked.append(request.url)

        tab.on("request", note)
        tab.on("console", lambda message: faults.append(message.text))
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.set_content(cases_page)
        assert (asked, faults) == ([], [])
        assert tab.locator("svg").count() > 12
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        schemes: list[Literal["light", "dark"]] = ["dark", "light"]
        for scheme in schemes:
            tab.emulate_media(color_scheme=scheme)
            body, ground, text = tab.evaluate(
                """() => {
                  const words = [...document.querySelectorAll("svg text")]
                    .find(text => text.getAttribute("fill") === "currentColor");
                  const page = getComputedStyle(document.body);
                  return [page.color, page.backgroundColor, getComputedStyle(words).fill];
                }"""
            )
            assert text == body
            assert (ground == "rgb(255, 255, 255)") is (scheme == "light")
        tab.locator("a[href='#rollout-3']").click()
        assert tab.locator("#rollout-3").is_visible()
        tab.set_viewport_size({"width": 1280, "height": 900})  # the tables fit a wide window
        tab.locator("details").evaluate_all("all => all.forEach(fold => { fold.open = true; })")
        for name in (".seq-rollouts", ".seq-told"):
            box = tab.locator(f".seq-scroll:has(> {name})")
            assert box.evaluate("box => box.scrollWidth - box.clientWidth") == 0
    finally:
        context.close()


def test_what_is_refused_for_its_logprobs_keeps_its_break(write: Any) -> None:
    """No sum of nothing; the cause is named beside the refusal, and what there would be."""
    turns = [{"ob": [1, 2, 3], "ac": [4]}, {"ob": [1, 9, 3, 4, 5], "ac": [6]}]
    page = write({"transitions": turns})
    assert "<td>refused, replaced</td>" in page
    assert "none; would be 2" in page
    assert "Would be 2 datums from 1 rollout once logprobs are recorded." in page
    for words in ("ValueError", "nothing to merge", "0 of them read again", "logprobs_missing"):
        assert words not in page


def member(name: str, reward: float, group: str | None = "g") -> dict[str, Any]:
    turn = {"ob": [1, 2], "ac": [3], "logprobs": [-0.5], "reward": reward}
    return {"name": name, "group": group, "transitions": [turn]}


def test_advantages_are_those_of_the_group(write: Any) -> None:
    """The strip shows the cookbook's number; where the group is not known it says what stands in.

    Oracle: `compute_advantages` on the whole trajectories of the group.
    """
    members = [member("low", 0.0), member("high", 1.0), member("middle", 0.75)]
    expected = group_advantages(read_bounded(json.dumps(members)).rollouts)
    page = write(members)
    assert STAND_IN not in page
    for one, advantage in zip(members, expected, strict=True):
        section = page.split(f">{one['name']}</h2>")[1].split("</section>")[0]
        assert advantage is not None
        assert f"{advantage:+.6g}".replace("-", "\u2212") in section
        assert ">+1<" not in section
    alone = write([member("alone", 0.0, None)])
    assert f"{STAND_IN}." in alone
    damaged = write([*members, {"group": "g", "transitions": 7}], code=2)
    assert damaged.count(STAND_IN) == 3
