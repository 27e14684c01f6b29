"""The editor of section 2 as a reader of the app meets it."""

import re

import pytest
from browser import Reader, Server, seat
from playwright.sync_api import Browser, Locator, Page, expect

DEFAULT = "Three turns that extend"
# The deepest focused element: marimo draws its fields inside shadow roots.
FOCUSED = """() => {
  let e = document.activeElement;
  while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
  return [e.labels?.[0]?.innerText ?? e.innerText, e.value ?? null, e.selectionStart ?? null];
}"""


# Pixels by which each strip's drawing stands off the names of its lanes, and beyond its box.
LANES_OFF = """() => [...document.querySelectorAll(".seq-body:has(.seq-lanes)")].flatMap((body) => {
  const box = (e) => e.getBoundingClientRect();
  const lanes = box(body.querySelector(".seq-lanes"));
  const renderer = body.querySelector("marimo-mime-renderer");
  const canvas = box((renderer.shadowRoot ?? renderer).querySelector("canvas"));
  if (!body.checkVisibility()) return []; // in a closed box
  return [canvas.top - lanes.top, canvas.bottom - lanes.bottom].map(Math.round);
})"""
WATCH_SHIFTS = """() => {
  window.__shift = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.__shift += entry.value;
  }).observe({type: "layout-shift"});
}"""


def turn(page: Page, index: int) -> Locator:
    return page.get_by_role("group", name=re.compile(rf"^Turn {index}\b"))


def field(page: Page, index: int, label: str) -> Locator:
    return turn(page, index).get_by_label(label, exact=True)


def fill(reader: Reader, index: int, label: str, text: str) -> None:
    with reader.answer():
        field(reader.page, index, label).fill(text)


def outcome(page: Page) -> str:
    return page.locator(".edit-outcome").inner_text()


def counts(page: Page) -> tuple[int, int, int, int]:
    """Turns, datums, tokens through the model, trained tokens, as said under the editor."""
    turns, datums, tokens, trained = re.findall(r"\d+", outcome(page))
    return int(turns), int(datums), int(tokens), int(trained)


def actions(page: Page) -> list[str]:
    return [item.input_value() for item in page.get_by_label("Action tokens", exact=True).all()]


@pytest.fixture
def editor(run_page: Reader) -> Reader:
    """The editor with the default scenario, whatever was done before."""
    run_page.load(DEFAULT)
    return run_page


def test_default_is_one_datum(editor: Reader) -> None:
    assert counts(editor.page) == (3, 1, 13, 7)
    assert actions(editor.page) == ["200 201", "400 401 402", "600 601"]


def test_a_chosen_scenario_waits_for_load(editor: Reader) -> None:
    """Choosing replaces nothing that was typed; a sentence says what will."""
    hint = editor.page.get_by_text("Load puts the chosen scenario in place of the turns below.")
    assert hint.count() == 0
    editor.choose("Scenario", "Context reset")
    expect(hint).to_be_visible()
    assert counts(editor.page) == (3, 1, 13, 7)
    editor.remake("Load")
    expect(hint).to_have_count(0)
    assert counts(editor.page)[1] > 1


def test_an_edit_carries_through_and_a_break_adds_a_datum(editor: Reader) -> None:
    page = editor.page
    fill(editor, 0, "Action tokens", "200 201 999")
    assert counts(page) == (3, 1, 14, 8)
    assert "999" in turn(page, 2).get_by_role("list").inner_text()
    with editor.answer():
        field(page, 1, "The observation").select_option(label="edits the history")
    fill(editor, 1, "Changes to the history", "2: 7")
    assert counts(page)[:2] == (3, 2)
    assert "splits at position 2" in turn(page, 1).locator("legend").inner_text()
    assert page.locator(".edit-chip-break").count() == 1
    with editor.answer():
        field(page, 2, "The observation").select_option(label="replaces the history")
    assert counts(page)[:2] == (3, 3)
    off = page.evaluate(LANES_OFF)
    assert len(off) >= 2 * 4
    assert set(off) == {0}


def test_an_edit_moves_little_on_the_screen(editor: Reader) -> None:
    page = editor.page
    for heading in ("Now change it", "3. The datums, token by token"):
        page.get_by_role("heading", name=heading).evaluate("e => e.scrollIntoView()")
        editor.settle()
        page.evaluate(WATCH_SHIFTS)
        for text in ("200 201 202", "7 201", "200 201"):  # a chip and a token more, and fewer
            with editor.answer():
                field(page, 0, "Action tokens").evaluate(
                    """(e, text) => {
                      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")
                        .set.call(e, text);
                      e.dispatchEvent(new Event("input", {bubbles: true}));
                    }""",
                    text,
                )
        assert page.evaluate("window.__shift") < 0.05


def test_typing_keeps_focus_caret_and_text(editor: Reader) -> None:
    page = editor.page
    field(page, 0, "Action tokens").click()
    page.keyboard.press("End")
    with editor.answer():
        page.keyboard.type(" 8")
    assert counts(page) == (3, 1, 14, 8)
    assert page.evaluate(FOCUSED) == ["Action tokens", "200 201 8", 9]
    with editor.answer():
        page.keyboard.type(" x")
    assert page.evaluate(FOCUSED) == ["Action tokens", "200 201 8 x", 11]
    order = ["Logprobs", "Reward", "Masked"]
    for label in order:
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUSED)[0] == label


def test_bad_input_gets_a_sentence_beside_the_field(editor: Reader) -> None:
    page = editor.page
    fill(editor, 1, "New observation tokens", "300 -1")
    cell = turn(page, 1).locator(".edit-ob")
    assert "Turn 1, observation index 1: -1 is negative." in cell.inner_text()
    assert field(page, 1, "New observation tokens").input_value() == "300 -1"
    assert outcome(page).startswith("No trajectory yet.")
    assert editor.failed_cells() == []
    assert editor.blank_figures() == []
    fill(editor, 1, "New observation tokens", "300 1")
    assert cell.locator(".edit-issue").count() == 0
    assert counts(page)[:2] == (3, 1)
    for text, words in (("", "reports no logprobs"), ("-1", "but 1 logprob"), ("nan ...", "nan")):
        fill(editor, 0, "Logprobs", text)
        assert words in turn(page, 0).locator(".edit-logprobs").inner_text()
        assert editor.failed_cells() == []
    fill(editor, 0, "Logprobs", "-1")
    assert outcome(page).startswith("No datum. Turn 0 has 2 action tokens but 1 logprob.")


def test_turns_come_and_go_and_keep_what_was_typed(editor: Reader) -> None:
    page = editor.page
    fill(editor, 0, "Action tokens", "200 777")
    fill(editor, 2, "Reward", "oops")
    editor.remake("Add a turn")
    assert actions(page) == ["200 777", "400 401 402", "600 601", "600 601"]
    assert field(page, 2, "Reward").input_value() == "oops"
    assert page.evaluate(FOCUSED)[0] == "Add a turn"
    editor.remake("Remove turn 1")
    assert actions(page) == ["200 777", "600 601", "600 601"]
    assert field(page, 1, "Reward").input_value() == "oops"
    editor.remake("Remove turn 1")
    editor.remake("Remove turn 1")
    assert counts(page)[:2] == (1, 1)
    assert page.get_by_role("button", name="Remove turn 0").is_disabled()
    editor.remake("Reset")
    assert counts(page) == (3, 1, 13, 7)


def test_scenarios_load_and_the_address_restores_them(
    editor: Reader, browser: Browser, run_server: Server
) -> None:
    page = editor.page
    with editor.answer():
        page.get_by_label("Scenario", exact=True).select_option(label="Sub-agent in between")
    assert counts(page)[1] == 1  # chosen, not yet loaded
    editor.remake("Load")
    assert counts(page)[:2] == (4, 4)
    page.wait_for_url("**/?scenario=new_context")
    fill(editor, 3, "Reward", "x<b>y")
    page.wait_for_url(re.compile("turns="))
    with seat(browser) as other:
        other.open(run_server, "?" + page.url.partition("?")[2])
        assert field(other.page, 3, "Reward").input_value() == "x<b>y"
        assert "x<b>y" in turn(other.page, 3).locator(".edit-reward").inner_text()
        assert other.failed_cells() == []
        fill(other, 3, "Reward", "1")
        other.page.wait_for_url("**/?scenario=new_context")
        assert other.faults == []


def test_a_bad_address_is_ignored_with_a_sentence(browser: Browser, run_server: Server) -> None:
    with seat(browser) as other:
        other.open(run_server, "?scenario=%3Cb%3E&turns=" + "%22%3Cscript%3E" + "A" * 2500)
        note = other.page.locator(".edit-start").inner_text()
        assert "a scenario <b>, which is not on the menu" in note
        assert "longer than 2,000 characters and was ignored" in note
        assert counts(other.page) == (3, 1, 13, 7)
        assert other.failed_cells() == []
        assert other.faults == []


def test_code_and_json_are_there_to_copy(editor: Reader) -> None:
    page = editor.page
    fill(editor, 0, "Action tokens", "200 31337")
    page.get_by_role("button", name="The same trajectory as Python").click()
    code = page.locator(".codehilite", has_text="trajectory_to_data(trajectory").last
    code.wait_for()
    assert "ac_0 = [200, 31337]" in code.inner_text()
    page.get_by_role("button", name="The same trajectory as JSON").click()
    copied = page.locator(".codehilite", has_text='"transitions"').last
    copied.wait_for()
    assert '"ac": [200, 31337]' in copied.inner_text()


def test_every_field_has_a_name_and_fits_a_phone(editor: Reader) -> None:
    page = editor.page
    labels = [
        "New observation tokens", "Action tokens", "Logprobs", "Reward", "Masked",
    ]  # fmt: skip
    for index in range(3):
        for label in labels:
            assert field(page, index, label).is_visible(), (index, label)
        assert field(page, index, "The observation").is_visible() == (index > 0)
    page.set_viewport_size({"width": 390, "height": 844})
    editor.settle()
    for index in range(3):
        for label in labels:
            box = field(page, index, label).bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
