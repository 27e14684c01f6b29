"""Sections 4 and 5 as a reader of the app meets them."""

import re

from browser import WIDTHS, Reader
from playwright.sync_api import Locator, expect

from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.wording import cause_name

CAUSES = {
    "shortened", "image_changed", "end_token", "retokenised", "removed", "inserted",
    "new_context", "reordered", "replaced",
}  # fmt: skip


def section(reader: Reader, number: int) -> str:
    return "\n".join(cell.inner_text() for cell in reader.section(number))


def verdict(reader: Reader, turn: int) -> Locator:
    # section 9 lists verdicts too, further down
    return reader.page.get_by_role("list", name="Verdict per turn").first.locator(
        ".seq-verdict", has_text=re.compile(rf"^Turn {turn}\b")
    )


def turn_field(reader: Reader, turn: int, label: str) -> Locator:
    group = reader.page.get_by_role("group", name=re.compile(rf"^Turn {turn}\b"))
    return group.get_by_label(label, exact=True)


def test_one_token_in_the_middle_of_history_gives_its_position(run_page: Reader) -> None:
    run_page.load("Three turns that extend")
    assert verdict(run_page, 2).count() == 0  # it shares one line with turn 1: both extend
    assert "Turns 1 to 2" in section(run_page, 4)
    with run_page.answer():
        turn_field(run_page, 2, "The observation").select_option(label="edits the history")
    for position, lost in ((5, "turn 0's action, index 1"), (7, "turn 1's observation, index 7")):
        with run_page.answer():
            turn_field(run_page, 2, "Changes to the history").fill(f"{position}: 999")
        said = verdict(run_page, 2).inner_text()
        assert "✕ splits" in said
        assert f"At position {position} of 11" in said
        assert lost in said
        assert "got 999" in said
        assert "Cause: replaced." in said
        assert "✓ extends" in verdict(run_page, 1).inner_text()


def test_each_scenario_shows_its_cause(run_page: Reader) -> None:
    """What the page says is what the rules say, and scenarios named by a cause show that one."""
    shown = set()
    for scenario in scenarios().values():
        run_page.load(scenario.title)
        breaks = diagnose(scenario_rollout(scenario)).breaks
        for found in breaks:
            said = verdict(run_page, found.turn)
            # waited for: a run that was under way may have been taken for the answer
            expect(said).to_contain_text(f"Cause: {cause_name(found.cause)}.")
            expect(said).to_contain_text(f"At position {found.position} of {found.held}")
            expect(said).to_contain_text("Remedy: ")
            shown.add(found.cause)
        if scenario.key in CAUSES:
            assert {found.cause for found in breaks} == {scenario.key}
        if not breaks:
            told = run_page.page.get_by_text("No turn splits: every observation", exact=False).first
            expect(told).to_be_visible()
    assert shown == CAUSES


def test_price_follows_the_editor(run_page: Reader) -> None:
    run_page.load("Clock in the system prompt")
    said = section(run_page, 5)
    assert "3 turns in 3 datums" in said
    assert "of these read again at turn 2's break" in said
    run_page.load("Three turns that extend")
    said = section(run_page, 5)
    assert "3 turns in 1 datum:" in said
    assert "read again" not in said


def test_sections_read_on_a_phone(phone_page: Reader) -> None:
    """Nothing of sections 4 and 5 is wider than the window; figures scroll in their boxes."""
    for number in (4, 5):
        for cell in phone_page.section(number):
            box = cell.bounding_box()
            assert box is None or box["x"] + box["width"] <= WIDTHS["narrow"] + 1
    assert "✕ splits" in verdict(phone_page, 1).inner_text()
