"""Sections 4 and 5 as a reader of the app meets them."""

import re
from collections.abc import Iterator
from types import ModuleType

import pytest
from browser import WIDTHS, Reader, Server, seat
from playwright.sync_api import Browser, Locator, expect

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


def load(reader: Reader, scenario: str) -> None:
    menu = reader.page.get_by_label("Scenario", exact=True)
    if menu.input_value() != scenario:
        with reader.answer(), reader.sent():
            menu.select_option(label=scenario)
    with reader.answer():
        reader.page.get_by_role("button", name="Load", exact=True).click()
    # Fields made anew send their text once more when their debounce (0.4 s) is over. A second
    # load before that, faster than a hand can be, would get the texts of the first.
    reader.page.wait_for_timeout(600)


@pytest.fixture(scope="module")
def session(browser: Browser, run_server: Server) -> Iterator[Reader]:
    """One session for this file (opening one takes seconds); faults fail at its end."""
    with seat(browser) as reader:
        reader.open(run_server)
        yield reader
        assert reader.faults == []


def test_one_token_in_the_middle_of_history_gives_its_position(session: Reader) -> None:
    load(session, "Three turns that extend")
    assert verdict(session, 2).count() == 0  # it shares one line with turn 1: both extend
    assert "Turns 1 to 2" in section(session, 4)
    with session.answer():
        turn_field(session, 2, "The observation").select_option(label="edits the history")
    for position, lost in ((5, "turn 0's action, index 1"), (7, "turn 1's observation, index 7")):
        with session.answer():
            turn_field(session, 2, "Changes to the history").fill(f"{position}: 999")
        said = verdict(session, 2).inner_text()
        assert "✕ splits" in said
        assert f"At position {position} of 11" in said
        assert lost in said
        assert "got 999" in said
        assert "Cause: replaced." in said
        assert "✓ extends" in verdict(session, 1).inner_text()


def test_each_scenario_shows_its_cause(nb: ModuleType, session: Reader) -> None:
    """What the page says is what the rules say, and scenarios named by a cause show that one."""
    shown = set()
    for scenario in nb.scenarios().values():
        load(session, scenario.title)
        breaks = nb.diagnose(nb.scenario_rollout(scenario)).breaks
        for found in breaks:
            said = verdict(session, found.turn)
            # waited for: a run that was under way may have been taken for the answer
            expect(said).to_contain_text(f"Cause: {nb.cause_name(found.cause)}.", timeout=30_000)
            expect(said).to_contain_text(f"At position {found.position} of {found.held}")
            expect(said).to_contain_text("Remedy: ")
            shown.add(found.cause)
        if scenario.key in CAUSES:
            assert {found.cause for found in breaks} == {scenario.key}
        if not breaks:
            told = session.page.get_by_text("No turn splits: every observation", exact=False).first
            expect(told).to_be_visible(timeout=30_000)
    assert shown == CAUSES


def test_price_follows_the_editor(session: Reader) -> None:
    load(session, "Clock in the system prompt")
    said = section(session, 5)
    assert "3 turns in 3 datums" in said
    assert "of these read again because of turn 2's break" in said
    load(session, "Three turns that extend")
    said = section(session, 5)
    assert "3 turns in 1 datum:" in said
    assert "read again" not in said


def test_sections_read_on_a_phone(browser: Browser, run_server: Server) -> None:
    """Nothing of sections 4 and 5 is wider than the window; figures scroll in their boxes."""
    with seat(browser, width=WIDTHS["narrow"]) as reader:
        reader.page.goto(f"{run_server.url}?scenario=removed")
        reader.page.wait_for_function("window.__answers > 0")
        reader.settle()
        for number in (4, 5):
            for cell in reader.section(number):
                box = cell.bounding_box()
                assert box is None or box["x"] + box["width"] <= WIDTHS["narrow"] + 1
        assert "✕ splits" in verdict(reader, 1).inner_text()
        assert reader.failed_cells() == []
        assert reader.faults == []
