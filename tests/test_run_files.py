"""Section 9 as a reader of the app meets it: files and texts in, diagnosis out.

Invariants:

1. Answered: any file and any text gets a result or a sentence; the next one works as before.
2. Kept: good rollouts are shown beside the sentence about a bad one.
3. Escaped: text of a file is shown as text and runs nothing.
4. Overview: comes first, sorts, and the chosen rollout is the one in detail.
5. Window: a long rollout is drawn as runs; the window starts at the first break and moves.
"""

import json
import re
from pathlib import Path
from typing import Any

from bench_files import long_rollout
from browser import ROOT, WIDTHS, Reader
from playwright.sync_api import Locator, expect

from sequence_extension.overview import WINDOW

EVIL = "<img src=x onerror=window.__ran=1>"


def turn(ob: list[int], *ac: int) -> dict[str, Any]:
    return {"ob": ob, "ac": list(ac), "logprobs": [-0.1] * len(ac)}


def said(reader: Reader) -> str:
    """All text of section 9, opened or not; widgets keep theirs for themselves."""
    return "\n".join(cell.text_content() or "" for cell in reader.section(9))


def tells(reader: Reader, sentence: str) -> None:
    """Section 9 says so, as soon as a busy machine has come to it."""
    for _ in range(200):
        if sentence in said(reader):
            return
        reader.page.wait_for_timeout(100)
    assert sentence in said(reader)


def upload(reader: Reader, name: str, data: bytes) -> None:
    with reader.answer():
        reader.page.locator("input[type=file]").set_input_files(
            {"name": name, "mimeType": "application/octet-stream", "buffer": data}
        )


def paste(reader: Reader, *trajectories: Any) -> None:
    """Put trajectories into the text field, a line each; an upload would come first."""
    clear = reader.page.get_by_role("button", name="Click to clear")
    if clear.count():
        with reader.answer():
            clear.click()
    with reader.answer():
        field = reader.page.get_by_label(re.compile("^or, without a file, text"))
        field.fill("\n".join(map(json.dumps, trajectories)))
        field.blur()


def column(reader: Reader, name: str) -> tuple[Locator, list[str]]:
    """A heading of the overview's table, and the column's entries on the page shown."""
    table = reader.page.locator("marimo-table table")
    headings = table.locator("th").all_inner_texts()
    cells = table.locator(f"tbody tr td:nth-child({headings.index(name) + 1})")
    return table.locator("th", has_text=name), cells.all_inner_texts()


def test_upload(run_page: Reader) -> None:
    """Invariant 1, with the cases."""
    upload(run_page, "cases.jsonl", (ROOT / "tests" / "cases.jsonl").read_bytes())
    tells(run_page, "39 rollouts, 91 turns in the file cases.jsonl:")
    text = said(run_page)
    assert "3 refused." in text
    assert "harmony_header_reordered_by_rerender" in text
    assert "Cause: reordered." in text
    assert run_page.blank_figures() == []


def test_what_is_no_json_gets_a_sentence(run_page: Reader) -> None:
    """Invariant 1: bytes that are no text, no JSON, or nothing at all."""
    good = json.dumps({"transitions": [turn([1], 2)]}).encode()
    for data, sentence in (
        (b"PK\x03\x04" + bytes(60), "this is a zip archive, not JSON text in UTF-8."),
        (good + b'\n{"\xe9"}\n', "Line 2, trajectory 1: the byte 0xe9 is not UTF-8 text."),
        (b"[" * 10_000, "The file: nested too deep to be read."),
        (b"", "The file is empty."),
    ):
        upload(run_page, "rollouts.jsonl", data)
        tells(run_page, sentence)
        assert "Traceback" not in said(run_page)
    upload(run_page, "good.json", good)
    tells(run_page, "1 rollout, 1 turn in the file good.json: 1 datum")


def test_a_refused_rollout_can_be_looked_at(run_page: Reader) -> None:
    """Invariant 1: the cookbook makes no datum of it, and no cell fails."""
    alone = {"transitions": [{"ob": [1], "ac": [], "logprobs": []}]}
    upload(run_page, "refused.json", json.dumps(alone).encode())
    tells(run_page, "1 refused")
    tells(run_page, "would open datum 0")
    assert run_page.failed_cells() == []


def test_file_over_the_limit(run_page: Reader, tmp_path: Path) -> None:
    """Invariant 1: the browser refuses it with the limit that the control states."""
    small = json.dumps({"transitions": [turn([1], 2)]}).encode()
    upload(run_page, "small.json", small)
    large = tmp_path / "large.jsonl"
    with large.open("wb") as sparse:
        sparse.truncate(64 * 2**20 + 1)
    with run_page.answer():
        run_page.page.locator("input[type=file]").set_input_files(large)
    told = run_page.page.get_by_text("large.jsonl (File is larger than 67108864 bytes)").first
    expect(told).to_be_visible()
    tells(run_page, "in the text:")
    upload(run_page, "small.json", small)
    tells(run_page, "in the file small.json")


def test_pasted_text_with_a_bad_line(run_page: Reader) -> None:
    """Invariants 1 and 2."""
    good = {"name": "good one", "transitions": [turn([1, 2], 3), turn([1, 2, 3, 4], 5)]}
    bad = {"name": "bad one", "transitions": [turn([1], 2), {**turn([1], 3), "ob": [1, 2, 2.5]}]}
    paste(run_page, good, bad, good)
    tells(run_page, "Line 2, trajectory 1 (bad one), turn 1, ob, index 2: expected a token id")
    text = said(run_page)
    assert "2 rollouts, 4 turns in the text: 2 datums" in text
    assert column(run_page, "name")[1] == ["good one", "good one"]
    paste(run_page, good)
    tells(run_page, "1 rollout, 2 turns in the text: 1 datum")
    assert "bad one" not in said(run_page).replace(json.dumps(bad), "")


def test_markup_is_shown_as_text(run_page: Reader) -> None:
    """Invariant 3: names, groups, keys, token texts, also in the sentence about a fault."""
    turns = [turn([1, 2], 3), turn([1, 9], 3)]
    paste(
        run_page,
        {"name": EVIL, "group": EVIL, "vocab": dict.fromkeys("1239", EVIL), "transitions": turns},
        {"name": EVIL, "group": EVIL, "transitions": [turn([1], 2)]},
        {"name": EVIL, "transitions": [{"ob": [EVIL], "ac": []}]},
    )
    tells(run_page, f"Line 3, trajectory 2 ({EVIL}), turn 0, ob, index 0: expected a token id")
    text = said(run_page)
    assert f'expected 2 "{EVIL}" (turn 0\'s observation, index 1), got 9 "{EVIL}"' in text
    assert column(run_page, "name")[1] == [EVIL, EVIL]
    run_page.settle()
    assert run_page.page.locator('img[src="x"]').count() == 0
    assert run_page.page.evaluate("window.__ran") is None


def test_overview_of_many_rollouts(run_page: Reader) -> None:
    """Invariant 4: 1 000 rollouts, some of which split, warn or are refused."""
    rollouts = []
    for index in range(1_000):
        answer = [6] * (1 + index % 5)
        second = turn([1, 2, index, 4 if index % 7 else 9, 5], *answer)
        turns = [turn([1, 2, index], 4), second]
        if index % 250 == 249:
            turns[1]["logprobs"] = None
        rollouts.append({"name": f"rollout {index}", "transitions": turns})
    upload(run_page, "many.json", json.dumps(rollouts).encode())
    tells(run_page, "1,000 rollouts, 2,000 turns in the file many.json:")
    text = said(run_page)
    assert "4 refused." in text
    assert re.search(r"tokens through the model: \d+% of [\d,]+ if no turn merged", text)
    counted = run_page.page.get_by_role("group", name="Causes and warnings by count")
    assert re.search(r"splits\s+end token\s+143", counted.inner_text())

    # an overview, then details of the first that is worth it
    heights = [
        run_page.page.locator(which).first.evaluate("e => e.getBoundingClientRect().top")
        for which in ("[aria-label^=Causes]", "marimo-table table", "h3:text-is('rollout 0')")
    ]
    assert heights == sorted(heights)
    heading, _ = column(run_page, "tokens")
    heading.get_by_role("button", name="Sort column ascending").click()
    expect(heading.get_by_role("button", name=re.compile("descending"))).to_be_attached()
    heading.get_by_role("button", name=re.compile("descending")).click()
    first = run_page.page.locator("marimo-table tbody tr").first
    expect(first.locator("td").nth(5)).to_have_text("12")  # splits, and the longest answer
    _, tokens = column(run_page, "tokens")
    assert tokens == sorted(tokens, key=int, reverse=True)
    with run_page.answer():
        first.get_by_role("checkbox").click()
    chosen = run_page.page.get_by_role("heading", name=re.compile(r"^rollout \d+$"))
    assert chosen.inner_text() == first.locator("td").nth(2).inner_text()


def test_long_rollout_and_its_window(run_page: Reader) -> None:
    """Invariant 5: 128 000 tokens in 100 turns, written with `append`."""
    rollout = long_rollout(100, 128_000, split=40, place=30_000)
    upload(run_page, "long.json", json.dumps(rollout).encode())
    tells(run_page, "1 rollout, 100 turns in the file long.json: 3 datums")
    page = run_page.page
    assert page.get_by_role("group", name=re.compile("^100 turns in 3 datums")).is_visible()
    facts = page.locator("details", has_text="The window as a table")
    thumb = page.locator("marimo-slider", has_text="First position").get_by_role("slider")

    def positions() -> list[int]:
        """What the window shows, by its table."""
        heads = facts.locator("th").all_text_contents()
        cells = facts.locator(f"tbody td:nth-child({heads.index('position') + 1})")
        return [int(text.replace(",", "")) for text in cells.all_text_contents()]

    assert 30_000 in positions()
    assert len(positions()) == WINDOW
    with run_page.answer():
        thumb.press("End")
    assert positions()[-1] == int(thumb.get_attribute("aria-valuemax") or 0)
    with run_page.answer():
        page.get_by_text(re.compile("^turn 40 splits here")).first.click()
        page.get_by_text("start of datum 2").first.click()
    assert positions()[0] == 0
    assert page.get_by_text("First position in datum 2").is_visible()
    assert run_page.blank_figures() == []


def test_section_reads_on_a_phone(run_page: Reader) -> None:
    """Nothing is wider than the window; tables and figures scroll in their boxes."""
    run_page.page.set_viewport_size({"width": WIDTHS["narrow"], "height": 900})
    run_page.settle()
    for cell in run_page.section(9):
        box = cell.bounding_box()
        assert box is None or box["x"] + box["width"] <= WIDTHS["narrow"] + 1
    assert run_page.page_overflow() == 0
