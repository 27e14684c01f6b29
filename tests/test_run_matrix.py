"""Section 8 in the browser: cells, conversations, the static page."""

import json
import re
from types import ModuleType
from typing import Any

from browser import Export, Reader, Server, seat
from playwright.sync_api import Browser, expect


def section_text(reader: Reader) -> str:
    return "\n".join(cell.inner_text() for cell in reader.section(8))


CELLS = "t => [...t.tBodies[0].rows].map((row) => [...row.cells].map((c) => c.textContent.trim()))"


def test_pick_a_cell_and_read_its_break(run_page: Reader, nb: ModuleType) -> None:
    assert "3 turns, 3 datums: where it splits" in section_text(run_page)  # qwen3, reasoning
    run_page.choose("Policy of the cell", "plain")
    assert "3 turns, 1 datum: nothing splits." in section_text(run_page)
    run_page.choose("Policy of the cell", "no_space")
    run_page.choose("Renderer of the cell", "role_colon")
    row = nb.matrix_table(["role_colon"], ["no_space"]).iloc[0]
    shown = section_text(run_page)
    assert "The renderer claims extension." in shown
    assert f"{row['turn']}\t{row['position']}\t{row['cause']}" in shown
    assert nb.visible_text(row["held"], 60) in shown
    assert nb.visible_text(row["came"], 60) in shown
    assert run_page.blank_figures() == []


def test_a_pasted_conversation_is_judged_and_a_bad_one_is_kept(run_page: Reader) -> None:
    label = "Conversation, a JSON list of messages with role and content"
    bad = '[{"role": "user", "content": "2 + 3?"}, {"role": "assistant"}]'
    run_page.type(label, bad)
    assert "Message 1 (assistant) has no content." in section_text(run_page)
    assert run_page.widget(label).input_value() == bad
    good: list[Any] = [
        {"role": "user", "content": "2 + 3?"},
        {"role": "assistant", "content": "5 <b>bold</b>"},
        {"role": "user", "content": "And 1 more?"},
        {"role": "assistant", "content": "6"},
    ]
    run_page.type(label, json.dumps(good))
    run_page.choose("Read by renderer", "llama3")
    shown = section_text(run_page)
    assert "2 turns, 1 datum: nothing splits." in shown
    assert "opens the first datum" in shown
    assert run_page.failed_cells() == []


def test_the_matrix_fits_a_narrow_window(browser: Browser, run_server: Server) -> None:
    with seat(browser, width=390) as reader:
        reader.open(run_server)
        page = reader.page
        inside = [cell.element_handle() for cell in reader.section(8)]
        page.evaluate(
            """kept => document.querySelectorAll(".marimo-cell").forEach((cell) => {
              if (!kept.includes(cell)) cell.style.display = "none"; })""",
            inside,
        )
        assert reader.page_overflow() == 0
        page.get_by_text("cells as a table").click()
        assert reader.page_overflow() == 0
        assert reader.faults == []


def test_a_served_app_never_offers_the_real_model(run_page: Reader) -> None:
    assert run_page.page.locator("input[type=password]").count() == 0
    assert run_page.page.get_by_role("button", name="This costs money").count() == 0
    expect(run_page.page.get_by_role("heading", name="A real model as the pupil")).to_be_visible()


def test_the_static_page_holds_the_whole_matrix(
    static_page: Reader, exported_html: Export, nb: ModuleType
) -> None:
    page = static_page.page
    cells = len(nb.renderer_names()) * len(nb.policy_names())
    page.get_by_text(f"The same {cells} cells as a table").click()
    facts = page.locator("details", has=page.get_by_text(f"The same {cells} cells as a table"))
    matrix, breaks = facts.get_by_role("table").all()
    rows = {row[0]: row[1:] for row in matrix.evaluate(CELLS)}
    assert list(rows) == nb.renderer_names()
    assert {len(row) for row in rows.values()} == {1 + len(nb.policy_names())}
    numbers = set(re.findall(r"3/3 · #(\d+)", " ".join(rows["qwen3"])))
    assert numbers
    assert numbers <= {cell for row in breaks.evaluate(CELLS) for cell in row}
    assert page.locator("input[type=password]").count() == 0
    assert "This costs money" not in page.locator("#root").inner_text()
