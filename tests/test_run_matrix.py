"""Section 8 in the served app: cells and conversations."""

import json
from typing import Any

from browser import Reader
from playwright.sync_api import expect

from sequence_extension.env.matrix import matrix_table
from sequence_extension.text import visible_text


def section_text(reader: Reader) -> str:
    return "\n".join(cell.inner_text() for cell in reader.section(8))


def test_pick_a_cell_and_read_its_break(run_page: Reader) -> None:
    assert "3 turns, 3 datums: where it splits" in section_text(run_page)  # qwen3, reasoning
    run_page.choose("Pupil of the cell", "plain")
    assert "3 turns, 1 datum: nothing splits." in section_text(run_page)
    run_page.choose("Pupil of the cell", "no_space")
    run_page.choose("Renderer of the cell", "role_colon")
    row = matrix_table(["role_colon"], ["no_space"]).iloc[0]
    shown = section_text(run_page)
    assert "The renderer claims extension." in shown
    assert f"{row['turn']}\t{row['position']}\t{row['cause']}" in shown
    assert visible_text(row["held"], 60) in shown
    assert visible_text(row["came"], 60) in shown
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


def test_the_matrix_fits_a_narrow_window(phone_page: Reader) -> None:
    assert phone_page.page_overflow() == 0
    phone_page.page.get_by_text("cells as a table").click()
    assert phone_page.page_overflow() == 0


def test_a_served_app_never_offers_the_real_model(run_page: Reader) -> None:
    assert run_page.page.locator("input[type=password]").count() == 0
    assert run_page.page.get_by_role("button", name="This costs money").count() == 0
    expect(run_page.page.get_by_role("heading", name="A real model as the pupil")).to_be_visible()
