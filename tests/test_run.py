"""The app as `marimo run` serves it: what a reader sees, types, chooses and opens.

One server, below a path of another site, for all tests; one page that they share, and one on a
phone. Sections are named by their titles.
"""

import itertools
import json
import re
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from axe import violations
from bench_files import long_rollout
from browser import PATIENCE_S, QUESTION, ROOT, WIDTHS, Reader, Server
from coloraide import Color
from load import Tally
from playwright.sync_api import Locator, Page, expect
from websockets.sync.client import connect

from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.rewards import reward_presets
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.env.episodes import episode_presets
from sequence_extension.env.matrix_table import matrix_table
from sequence_extension.formats.bounded import read_bounded
from sequence_extension.overview import WINDOW, overview
from sequence_extension.wording import cause_wording

DEFAULT = "Three turns that extend"
BUILD = "Build a trajectory"
STRIPS = "The datums, token by token"
SPLIT = "Why did it split?"
COST = "What it costs"
GROUP = "One number per trajectory"
RENDERERS = "Which renderers extend?"
OWN = "Your own rollouts"
QUIZ = "Check yourself"
EVIL = "<img src=x onerror=window.__ran=1>"
# The deepest focused element: marimo draws its fields inside shadow roots.
FOCUSED = """() => {
  let e = document.activeElement;
  while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
  return [e.labels?.[0]?.innerText ?? e.innerText, e.value ?? null, e.selectionStart ?? null];
}"""


# ---- the server


def test_five_readers_at_a_cold_start_get_the_story(cold_start: Tally) -> None:
    """All at once, before torch is imported: nobody gets a half-imported module."""
    assert cold_start.failures == []
    assert len(cold_start.figures) == 5


def test_the_command_of_the_readme_asks_nothing(run_server: Server) -> None:
    """On a terminal, below a path as the README says; see `serve`."""
    assert "http://localhost" in run_server.output
    assert QUESTION not in run_server.output
    errors = re.findall(r"^\S*(?:Error|Exception)\b.*", run_server.output, re.MULTILINE)
    if sys.version_info < (3, 12):  # can fail to parse while another thread does, see load.py
        known = "SystemError: AST constructor recursion depth mismatch"
        assert [error for error in errors if not error.startswith(known)] == []
    if not errors:
        assert not re.search(r"\[E |Traceback|\berror\b", run_server.output, re.IGNORECASE)
    assert errors == [] or sys.version_info < (3, 12)


def test_link_preview_of_the_app(run_server: Server) -> None:
    with urllib.request.urlopen(run_server.url, timeout=60) as page:
        text = page.read().decode()
    assert '<meta property="og:title" content="Tutorial 404: Sequence extension' in text
    assert "which turns merge into one datum" in text


# ---- the page


def test_nothing_jumps_while_the_page_loads(app_shift: float) -> None:
    assert app_shift < 0.1


def test_app_opens_with_every_cell_run(run_page: Reader) -> None:
    headings = run_page.page.locator("h2").all_inner_texts()
    assert headings[0] == "1. The idea"
    assert run_page.failed_cells() == []
    assert run_page.blank_figures() == []


def test_a_tooltip_names_the_token_and_shows_markup_as_text(run_page: Reader) -> None:
    page = run_page.page
    run_page.load(DEFAULT)
    [canvas] = [
        cell.locator("canvas").first
        for cell in run_page.section(STRIPS)
        if cell.locator("canvas").count()
    ]
    canvas.scroll_into_view_if_needed()
    # over the upper lanes from the left, until a token names itself
    shown = page.locator("#vg-tooltip-element.visible")
    for left, top in itertools.product(range(40, 260, 20), (24, 44, 64)):
        canvas.hover(position={"x": left, "y": top})
        page.wait_for_timeout(50)
        if shown.count():
            break
    words = page.locator("#vg-tooltip-element").inner_text()
    for piece in ("turn", "lane", "input"):
        assert piece in words
    page.mouse.move(0, 0)


@pytest.mark.timeout(600)
def test_app_has_no_violation_of_ours(run_page: Reader) -> None:
    closed = run_page.page.locator("details:not([open])").element_handles()
    for fold in closed:
        fold.evaluate("fold => { fold.open = true; }")
    run_page.settle()
    assert len(closed) > 20
    assert violations(run_page) == []
    for fold in closed:
        fold.evaluate("fold => { fold.open = false; }")


def test_controls_of_the_story_are_reached_by_tab(run_page: Reader) -> None:
    """Tab from the top: the step and menu of the first figure, then the fields of section 2."""
    page = run_page.page
    page.locator("h1").first.click()
    reached: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                """() => {
                  let e = document.activeElement;
                  while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
                  return e.type === "range" ? "step"
                    : e.tagName === "SELECT" && e.closest(".vega-bind") ? "menu"
                    : e.labels?.[0]?.innerText.trim() ?? e.innerText?.trim() ?? "";
                }"""
            )
        )
        if "Add a turn" in reached:
            break
    wanted = ["step", "menu", "Reset", "Turn 0 as text, logprobs, reward", "Add a turn"]
    assert [name for name in wanted if name not in reached] == []
    assert reached.index("menu") < reached.index("Reset") < reached.index("Add a turn")


# ---- the editor


def turn(page: Page, index: int) -> Locator:
    return page.locator(".turns-editor fieldset").nth(index)


def field(page: Page, index: int, name: str) -> Locator:
    """A field of a turn, its fold opened; by the name of what it holds."""
    turn(page, index).locator("details").evaluate("fold => { fold.open = true; }")
    return turn(page, index).locator(f"[data-field={name}]").locator("input, select")


def fill(reader: Reader, index: int, name: str, text: str) -> None:
    with reader.answer():
        field(reader.page, index, name).fill(text)


def history(reader: Reader, index: int, option: str) -> None:
    with reader.answer():
        field(reader.page, index, "history").select_option(label=option)


def button(reader: Reader, name: str) -> None:
    """Press a button of the editor and wait for what it changes."""
    with reader.answer():
        reader.page.locator(".turns-editor").get_by_role("button", name=name, exact=True).click()


def chip(page: Page, index: int, position: int) -> Locator:
    return turn(page, index).locator(f".chip[data-position='{position}']:not(.adder)")


def outcome(page: Page) -> Locator:
    return page.locator(".turns-editor .outcome")


def counted(turns: int, datums: int, tokens: int, trained: int) -> re.Pattern[str]:
    """The sentence with these numbers that stays in sight while editing."""
    return re.compile(
        rf"\b{turns} turns? becomes? {datums} datums?: {tokens} inputs? go through the model, "
        rf"{trained} action tokens? are trained"
    )


def actions(page: Page) -> list[str]:
    fields = page.locator(".turns-editor [data-field=ac] input").all()
    return [item.input_value() for item in fields]


@pytest.fixture
def editor(run_page: Reader) -> Reader:
    """The editor with the default scenario, whatever was done before."""
    run_page.load(DEFAULT)
    return run_page


def test_default_is_one_datum(editor: Reader) -> None:
    expect(outcome(editor.page)).to_contain_text(counted(3, 1, 13, 7))
    assert actions(editor.page) == ["200 201", "400 401 402", "600 601"]


def test_a_clicked_token_is_replaced_inserted_and_deleted(editor: Reader) -> None:
    """By mouse and by keyboard; each click can be undone."""
    page = editor.page
    hand = turn(page, 0).locator(".hand")
    chip(page, 0, 5).click()
    expect(hand).to_contain_text("a token id, or ids with spaces")
    hand.get_by_role("textbox").fill("999")
    with editor.answer():
        hand.get_by_role("button", name="Replace", exact=True).click()
    assert actions(page)[0] == "200 999"
    expect(turn(page, 1).locator(".chips")).to_contain_text("999")  # carried over
    chip(page, 0, 5).press("Delete")
    expect(outcome(page)).to_contain_text(counted(3, 1, 12, 6))
    for undone in (counted(3, 1, 13, 7), counted(3, 1, 13, 7)):
        button(editor, "Undo")
        expect(outcome(page)).to_contain_text(undone)
    assert actions(page)[0] == "200 201"
    chip(page, 0, 0).press("Enter")
    page.keyboard.type("x<b>")
    with editor.answer():
        page.keyboard.press("Enter")
    expect(hand.locator(".issue")).to_contain_text("x<b>")
    page.keyboard.press("Escape")
    assert chip(page, 0, 0).evaluate("e => e === e.getRootNode().activeElement")
    settled(page)
    # a token that is carried over: the turn splits there
    chip(page, 1, 2).press("Delete")
    expect(turn(page, 1).locator("legend")).to_contain_text("splits at position 2")


def settled(page: Page) -> None:
    """The figures show what stands in the editor."""
    expect(page.locator(".seq-follows").first).to_have_css("opacity", "1")


def test_a_bad_token_stays_in_its_field(editor: Reader) -> None:
    """The figures are dimmed and the sentence names the field's position, until it is mended."""
    page = editor.page
    box = turn(page, 0).locator(".hand").get_by_role("textbox")
    issue = turn(page, 0).locator(".hand .issue")
    chip(page, 0, 2).click()
    box.fill("9999999999999")
    with editor.answer():
        box.press("Enter")
    expect(issue).to_contain_text("Turn 0, position 2: 9999999999999 is")
    expect(turn(page, 0).locator(".hand > span")).to_have_text("Position 2 ")
    expect(box).to_have_value("9999999999999")
    expect(box).to_have_attribute("aria-invalid", "true")
    assert page.evaluate(FOCUSED)[1] == "9999999999999"
    expect(page.locator(".seq-follows").first).not_to_have_css("opacity", "1")
    expect(outcome(page)).to_contain_text(counted(3, 1, 13, 7))
    # another token: nothing is left of the sentence
    with editor.answer():
        chip(page, 0, 3).click()
    expect(issue).to_be_empty()
    expect(box).to_have_value("103")
    settled(page)
    box.fill("hello")
    with editor.answer():
        box.press("Enter")
    expect(issue).to_contain_text("Turn 0, position 3: hello is")
    box.fill("999")
    with editor.answer():
        box.press("Enter")
    expect(chip(page, 0, 3)).to_contain_text("999")
    settled(page)
    button(editor, "Undo")  # the refused clicks are no step
    expect(chip(page, 0, 3)).to_contain_text("103")


def test_an_edit_carries_through_and_a_break_adds_a_datum(editor: Reader) -> None:
    page = editor.page
    fill(editor, 0, "ac", "200 201 999")
    expect(outcome(page)).to_contain_text(counted(3, 1, 14, 8))
    expect(turn(page, 2).locator(".chips")).to_contain_text("999")
    history(editor, 1, "edits the history")
    fill(editor, 1, "edits", "2: 7")
    expect(outcome(page)).to_contain_text(re.compile("3 turns become 2 datums"))
    expect(turn(page, 1).locator("legend")).to_contain_text("splits at position 2")
    expect(page.locator(".turns-editor .chip.break")).to_have_count(1)
    history(editor, 2, "replaces the history")
    expect(outcome(page)).to_contain_text(re.compile("3 turns become 3 datums"))


def test_an_edit_moves_little_on_the_screen(editor: Reader) -> None:
    page = editor.page
    field(page, 0, "ac")
    for heading in ("Now change it", "3. The datums, token by token"):
        page.get_by_role("heading", name=heading).evaluate("e => e.scrollIntoView()")
        editor.settle()
        page.evaluate("window.__shift = 0")
        for text in ("200 201 202", "7 201", "200 201"):  # a chip and a token more, and fewer
            with editor.answer():
                field(page, 0, "ac").evaluate(
                    """(e, text) => {
                      e.value = text;
                      e.dispatchEvent(new Event("input", {bubbles: true}));
                    }""",
                    text,
                )
        assert page.evaluate("window.__shift") < 0.05


@pytest.mark.parametrize("width", WIDTHS.values())
def test_what_a_reader_adds_moves_nothing_below(run_page: Reader, width: int) -> None:
    """A token in hand, a turn more, and what undo brings back; the folds closed."""
    page = run_page.page
    page.set_viewport_size({"width": width, "height": 900})
    run_page.load(DEFAULT)
    page.locator(".turns-editor details").evaluate_all(
        "all => all.forEach((fold) => { fold.open = false; })"
    )
    heights = [section_heights(run_page)["2. Build a trajectory"]]
    for scenario in ("Clock in the system prompt", "Sub-agent in between", DEFAULT):
        run_page.load(scenario)
        heights.append(section_heights(run_page)["2. Build a trajectory"])
        rows = page.locator(".turns-editor .chips")
        for whole, seen in rows.evaluate_all("all => all.map(e => [e.scrollWidth, e.clientWidth])"):
            assert whole == seen or width < 640, "a row of tokens is cut"
    chip(page, 0, 0).click()
    heights.append(section_heights(run_page)["2. Build a trajectory"])
    for name in ("Add a turn", "Remove turn 1", "Undo"):
        button(run_page, name)
        heights.append(section_heights(run_page)["2. Build a trajectory"])
    assert max(heights) - min(heights) <= 40, heights


def test_the_keyboard_keeps_its_place_when_its_button_goes(editor: Reader) -> None:
    page = editor.page

    def focused() -> str:
        return str(page.evaluate(FOCUSED)[0])

    def press(name: str) -> None:
        page.locator(".turns-editor").get_by_role("button", name=name, exact=True).focus()
        with editor.answer():
            page.keyboard.press("Enter")

    press("Remove turn 1")
    assert focused() == "Remove turn 1"
    press("Remove turn 1")
    assert focused() == "Add a turn"  # the last turn stays


def test_a_deletion_that_is_refused_says_why(editor: Reader) -> None:
    page = editor.page
    fill(editor, 0, "ac", "20x")
    chip(page, 1, 0).focus()
    with editor.answer():
        page.keyboard.press("Delete")
    hand = turn(page, 1).locator(".hand")
    expect(hand.locator(".issue")).to_contain_text("Turn 0, action index 0: 20x is not a token id")
    expect(hand.get_by_role("textbox")).to_have_value("100")


def test_typing_keeps_focus_caret_and_text(editor: Reader) -> None:
    page = editor.page
    field(page, 0, "ac").click()
    page.keyboard.press("End")
    with editor.answer():
        page.keyboard.type(" 8")
    expect(outcome(page)).to_contain_text(counted(3, 1, 14, 8))
    assert page.evaluate(FOCUSED) == ["Action tokens", "200 201 8", 9]
    with editor.answer():
        page.keyboard.type(" x")
    assert page.evaluate(FOCUSED) == ["Action tokens", "200 201 8 x", 11]
    for label in ("Logprobs", "Reward", "Masked"):
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUSED)[0] == label


def test_bad_input_gets_a_sentence_beside_the_field(editor: Reader) -> None:
    """The last good result stays, dimmed."""
    page = editor.page
    fill(editor, 1, "ob", "300 -1")
    cell = turn(page, 1).locator("[data-field=ob]")
    expect(cell).to_contain_text("Turn 1, observation index 1: -1 is negative.")
    assert field(page, 1, "ob").input_value() == "300 -1"
    expect(outcome(page)).to_contain_text("No trajectory yet.")
    dimmed = page.locator(".seq-follows").first
    assert float(dimmed.evaluate("e => getComputedStyle(e).opacity")) < 1
    assert editor.failed_cells() == []
    assert editor.blank_figures() == []
    fill(editor, 1, "ob", "300 1")
    expect(cell.locator(".issue")).to_have_count(0)
    assert float(dimmed.evaluate("e => getComputedStyle(e).opacity")) == 1
    expect(outcome(page)).to_contain_text(re.compile("3 turns become 1 datum"))
    for text, words in (("", "reports no logprobs"), ("-1", "but 1 logprob"), ("nan ...", "nan")):
        fill(editor, 0, "logprobs", text)
        expect(turn(page, 0).locator("[data-field=logprobs]")).to_contain_text(words)
        assert editor.failed_cells() == []
    fill(editor, 0, "logprobs", "-1")
    expect(outcome(page)).to_contain_text("No datum. Turn 0 has 2 action tokens but 1 logprob.")


def test_turns_come_and_go_and_keep_what_was_typed(editor: Reader) -> None:
    page = editor.page
    fill(editor, 0, "ac", "200 777")
    fill(editor, 2, "reward", "oops")
    button(editor, "Add a turn")
    assert actions(page) == ["200 777", "400 401 402", "600 601", "600 601"]
    assert field(page, 2, "reward").input_value() == "oops"
    button(editor, "Remove turn 1")
    assert actions(page) == ["200 777", "600 601", "600 601"]
    assert field(page, 1, "reward").input_value() == "oops"
    button(editor, "Remove turn 1")
    button(editor, "Remove turn 1")
    expect(outcome(page)).to_contain_text(re.compile("1 turn becomes 1 datum"))
    assert page.get_by_role("button", name="Remove turn 0").is_disabled()
    button(editor, "Undo")
    assert actions(page) == ["200 777", "600 601"]
    button(editor, "Reset")
    expect(outcome(page)).to_contain_text(counted(3, 1, 13, 7))


def test_a_late_text_acts_on_no_other_turn(editor: Reader) -> None:
    """A text that is still on its way when its turn is removed presses and fills nothing."""
    page = editor.page
    kept = field(page, 1, "logprobs").input_value()
    field(page, 0, "logprobs").fill("-0.5 -0.25")
    button(editor, "Remove turn 0")
    editor.rest()
    assert actions(page) == ["400 401 402", "600 601"]
    assert field(page, 0, "logprobs").input_value() == kept


def test_the_address_follows_and_restores_what_was_typed(
    editor: Reader, phone_address: str, phone: Reader
) -> None:
    """By the address of the phone, whose page is a new one: nothing is there to undo."""
    page = editor.page
    page.bring_to_front()
    editor.load("Reasoning stripped")
    page.wait_for_url("**/?scenario=removed")
    fill(editor, 2, "reward", "7")
    page.wait_for_url("**/" + phone_address)
    page = phone.page
    page.bring_to_front()
    assert field(page, 2, "reward").input_value() == "7"
    expect(outcome(page)).to_contain_text(re.compile("3 turns become 3 datums"))
    undo = page.locator(".turns-editor").get_by_role("button", name="Undo")
    expect(undo).to_be_disabled()
    button(phone, "Add a turn")
    undo.focus()
    with phone.answer():
        page.keyboard.press("Enter")
    # the keyboard goes to what is left
    expect(undo).to_be_disabled()
    assert page.evaluate(FOCUSED)[0] == "Reset"
    assert field(page, 2, "reward").input_value() == "7"
    assert phone.failed_cells() == []


def test_a_bad_address_is_ignored_with_a_sentence(run_server: Server) -> None:
    """By what the server sends for it."""
    asked = {"session_id": "s_bad001", "scenario": "<b>", "turns": '"<script>' + "A" * 2500}
    address = run_server.url.replace("http", "ws", 1) + "ws?" + urllib.parse.urlencode(asked)
    told = ""
    with connect(address, max_size=None) as socket:
        while '{"op": "completed-run"' not in told:
            told += str(socket.recv(timeout=PATIENCE_S))
    assert "a scenario <code>&lt;b&gt;</code>, which is not on the menu" in told
    assert "longer than 2,000 characters and was ignored" in told
    assert "marimo-error" not in told


def test_code_and_json_are_there_to_copy(editor: Reader) -> None:
    page = editor.page
    fill(editor, 0, "ac", "200 31337")
    for fold, words in (
        ("The same trajectory as Python", "ac_0 = [200, 31337]"),
        ("The same trajectory as JSON", '"ac": [200, 31337]'),
    ):
        code = page.locator("details", has_text=fold).last
        code.evaluate("fold => { fold.open = true; }")
        expect(code).to_contain_text(words)


def test_every_field_has_a_name_and_fits_a_phone(editor: Reader) -> None:
    page = editor.page
    labels = {
        "ob": "New observation tokens", "ac": "Action tokens", "logprobs": "Logprobs",
        "reward": "Reward", "masked": "Masked",
    }  # fmt: skip
    for index in range(3):
        for name, label in labels.items():
            assert field(page, index, name).is_visible(), (index, name)
            assert turn(page, index).get_by_label(label, exact=True).count() == 1
        assert field(page, index, "history").is_visible() == (index > 0)
    page.set_viewport_size({"width": 390, "height": 844})
    editor.settle()
    for index in range(3):
        for name in labels:
            box = field(page, index, name).bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


# ---- why it split, what it costs


def verdict(reader: Reader, turn: int) -> Locator:
    # section 9 lists verdicts too, further down
    return reader.page.get_by_role("list", name="Verdict per turn").first.locator(
        ".seq-verdict", has_text=re.compile(rf"^Turn {turn}\b")
    )


def test_one_token_in_the_middle_of_history_gives_its_position(run_page: Reader) -> None:
    run_page.load("Three turns that extend")
    assert verdict(run_page, 2).count() == 0  # it shares one line with turn 1: both extend
    assert "Turns 1 to 2" in run_page.text_of(SPLIT)
    history(run_page, 2, "edits the history")
    for position, lost in ((5, "turn 0's action, index 1"), (7, "turn 1's observation, index 7")):
        fill(run_page, 2, "edits", f"{position}: 999")
        words = verdict(run_page, 2).inner_text()
        assert "✕ splits" in words
        assert f"At position {position} of 11" in words
        assert lost in words
        assert "got 999" in words
        assert "Cause: replaced." in words
        assert "✓ extends" in verdict(run_page, 1).inner_text()


def section_heights(reader: Reader) -> dict[str, float]:
    """From each section's heading to the next one."""
    tops: list[tuple[str, float]] = reader.page.locator("h2").evaluate_all(
        "all => all.map(e => [e.textContent, e.getBoundingClientRect().top])"
    )
    return {name: below - top for (name, top), (_, below) in itertools.pairwise(tops)}


def test_scenarios_show_their_causes_and_move_nothing(run_page: Reader) -> None:
    """The shortest, the longest, one that opens with an action and one with an image.

    Words of all of them: tests/test_wording.py.
    """
    heights: dict[str, list[float]] = {}
    for key in ("image_changed", "empty", "chat", "new_context"):
        scenario = scenarios()[key]
        run_page.load(scenario.title)
        breaks = diagnose(scenario_rollout(scenario)).breaks
        for found in breaks:
            words = verdict(run_page, found.turn)
            # waited for: a run that was under way may have been taken for the answer
            expect(words).to_contain_text(f"Cause: {cause_wording(found.cause)}.")
            expect(words).to_contain_text(f"At position {found.position} of {found.held}")
        if not breaks:
            sentence = run_page.page.get_by_text(
                "An example, as section 2's turns do not split", exact=False
            ).first
            expect(sentence).to_be_visible()
        for name, height in section_heights(run_page).items():
            heights.setdefault(name[:2], []).append(height)
    for section in ("3.", "4.", "5."):
        assert max(heights[section]) - min(heights[section]) <= 45, (section, heights[section])


def test_price_follows_the_editor(run_page: Reader) -> None:
    run_page.load("Clock in the system prompt")
    words = run_page.text_of(COST)
    assert "3 turns in 3 datums" in words
    assert "are read again: an earlier datum had them" in words
    run_page.load("Three turns that extend")
    words = run_page.text_of(COST)
    assert "3 turns in 1 datum:" in words
    assert "are read again" not in words


def test_sections_read_on_a_phone(phone_page: Reader) -> None:
    """Nothing of sections 4 and 5 is wider than the window; figures scroll in their boxes."""
    for title in (SPLIT, COST):
        for cell in phone_page.section(title):
            box = cell.bounding_box()
            assert box is None or box["x"] + box["width"] <= WIDTHS["narrow"] + 1
    assert "✕ splits" in verdict(phone_page, 1).inner_text()


# ---- rewards of a group, questions


@pytest.mark.parametrize("width", WIDTHS.values())
def test_other_rewards_move_nothing_below(run_page: Reader, width: int) -> None:
    run_page.page.set_viewport_size({"width": width, "height": 900})
    heights = []
    for preset in [*reward_presets(), next(iter(reward_presets()))]:
        run_page.choose("Rewards", preset)
        heights.append(section_heights(run_page)["6. One number per trajectory"])
    assert max(heights) - min(heights) <= 40, heights


def test_rewards_are_edited(run_page: Reader) -> None:
    a, b = "A: three turns that extend", "B: two turns that extend"
    assert "mean reward of 0.417" in run_page.text_of(GROUP)

    run_page.type(a, "0 0 4")
    text = run_page.text_of(GROUP)
    # 0.417 was 2.5 over six rollouts; three more make 5.5
    assert f"mean reward of {5.5 / 6:.3g}" in text
    assert f"tensor([ {4 - 5.5 / 6:.4f}" in text

    # A bad reward gets its sentence, keeps what was typed, and the last good figure stays.
    run_page.type(b, "0.5 <b>x</b>")
    text = run_page.text_of(GROUP)
    assert "Rollout B, turn 1" in text
    assert "not a finite number" in text
    assert run_page.widget(b).input_value() == "0.5 <b>x</b>"
    assert f"mean reward of {5.5 / 6:.3g}" in text
    run_page.type(b, "0.5")
    assert "2 turns but 1 reward" in run_page.text_of(GROUP)
    run_page.type(b, "0 0")
    assert f"mean reward of {4.5 / 6:.3g}" in run_page.text_of(GROUP)

    run_page.choose("Rewards", "All the same: no policy gradient")
    assert "All rewards are equal, so there is no policy gradient" in run_page.text_of(GROUP)
    run_page.type(a, "0 0 9")
    assert "All rewards are equal" not in run_page.text_of(GROUP)
    run_page.press("Reset rewards")
    assert "All rewards are equal" in run_page.text_of(GROUP)
    assert run_page.failed_cells() == []
    assert run_page.blank_figures() == []


def test_a_question_is_answered_by_keyboard_alone(run_page: Reader) -> None:
    page = run_page.page
    text = run_page.text_of(QUIZ)
    assert "Your first answer to each one counts" in text
    assert "✓ Right" not in text
    assert page.locator(".quiz-static:visible").count() == 0
    assert page.locator(".quiz-live:visible").count() >= 5

    first = page.get_by_role("radiogroup").first
    first.get_by_role("radio").first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    focused = page.evaluate(
        """() => { let e = document.activeElement;
        while (e.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
        return e.innerText; }"""
    )
    assert focused == "Check"
    page.keyboard.press("Enter")
    # not `answer`: a field of another section may still be sending, and that is answered first
    verdict = page.locator(".quiz-card").first.get_by_role("status")
    expect(verdict).to_contain_text("✕ No It is 4:")
    assert "0 of 1 right" in run_page.text_of(QUIZ)

    # A second thought is judged as well, but the first answer is the one that counts.
    first.get_by_role("radio").nth(3).click()
    page.get_by_role("button", name="Check", exact=True).first.click()
    expect(verdict).to_contain_text("✓ Right")
    assert "0 of 1 right" in run_page.text_of(QUIZ)
    run_page.press("Start again")
    expect(verdict).not_to_contain_text("Right")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_red_words_inside_widgets_can_be_read(run_page: Reader, theme: str) -> None:
    """marimo's own red is too dark on its dark page; its sheet inside a widget is another one."""
    page = run_page.page
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page.locator(f"body.{theme}").wait_for()
    page.get_by_role("button", name="Check", exact=True).last.click()
    sentence = page.get_by_text("Choose an answer first.").first
    sentence.wait_for()
    ink, fill = sentence.evaluate(
        "e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]"
    )
    page.emulate_media(color_scheme="light")
    assert Color(ink).contrast(fill, method="wcag21") >= 4.5
    assert (Color(fill).luminance() < 0.5) == (theme == "dark")


# ---- a multi-turn environment


def headline(reader: Reader) -> Locator:
    return reader.page.locator(".seq-stage").get_by_text(re.compile(r"^\d turns?, .*stop reason"))


def stage_text(reader: Reader) -> str:
    """The conversation that is played, with what became of it."""
    return reader.page.locator(".seq-stage").inner_text()


def slider(reader: Reader, label: str) -> Locator:
    """The thumb of the slider with this label."""
    widget = reader.page.locator("marimo-slider").filter(has_text=label)
    return widget.get_by_role("slider")


def play(reader: Reader, preset: str) -> None:
    """Choose a row of the endings table, unless it is chosen, by a click somewhere in it."""
    row = reader.page.get_by_role("row").filter(has_text=preset)
    if not row.get_by_role("radio").is_checked():
        with reader.answer():
            row.get_by_role("cell").last.click()


def test_lowering_the_budget_changes_the_ending(run_page: Reader) -> None:
    play(run_page, "Reasoning is stripped from history")
    expect(headline(run_page)).to_have_text("3 turns, 3 datums; stop reason completed.")
    height = section_heights(run_page)["7. A multi-turn environment"]
    play(run_page, "Reasoning stays in history")
    expect(headline(run_page)).to_have_text("3 turns, 1 datum; stop reason completed.")

    assert "Changed from the row" not in stage_text(run_page)
    thumb = slider(run_page, "max_trajectory_tokens")
    with run_page.answer():
        thumb.press("End")  # 400 tokens are enough
    assert "Changed from the row “Reasoning stays in history”." in stage_text(run_page)
    expect(headline(run_page)).to_have_text("3 turns, 1 datum; stop reason completed.")
    with run_page.answer():
        thumb.press("Home")  # no budget
    thumb.press("PageUp")  # ten tokens
    expect(headline(run_page)).to_have_text("1 turn, 0 datums; stop reason max_tokens.")
    assert "the model was never asked" in stage_text(run_page)
    for _ in range(9):
        thumb.press("PageUp")
    expect(headline(run_page)).to_have_text("2 turns, 1 datum; stop reason context_overflow.")
    assert "instead of the 1 it had earned" in stage_text(run_page)
    run_page.settle()
    assert abs(section_heights(run_page)["7. A multi-turn environment"] - height) <= 40
    assert run_page.failed_cells() == []
    assert run_page.blank_figures() == []


def test_every_ending_stands_on_a_phone(phone_page: Reader) -> None:
    """With its turns and datums, and nothing of it below an inner edge."""
    box = phone_page.page.locator(".row-table .box").first
    assert box.locator("tbody tr").count() == len(episode_presets())
    assert box.evaluate("e => e.scrollHeight - e.clientHeight") <= 1
    heads = box.locator("thead th")
    assert heads.all_inner_texts()[:3] == ["ending", "turns", "datums"]
    edges = [e.evaluate("e => e.getBoundingClientRect().right") for e in (box, heads.nth(2))]
    assert edges[1] <= edges[0]


def test_another_pupil_and_a_name_that_is_no_model(run_page: Reader) -> None:
    page = run_page.page
    play(run_page, "An answer does not parse: go on")
    expect(headline(run_page)).to_have_text("4 turns, 3 datums; stop reason completed.")
    assert "Turn 2 saw nothing at all" in stage_text(run_page)
    expect(page.get_by_role("list", name="Transcript").get_by_text("Which sum?")).to_be_visible()

    page.get_by_text("With the tokens of a real model").click()
    page.get_by_placeholder("Qwen/Qwen3-8B").fill("<b>Qwen</b>")
    run_page.press("Load its tokenizer")
    expect(page.get_by_text("Type a model as owner/name")).to_be_visible()
    expect(headline(run_page)).to_have_text("4 turns, 3 datums; stop reason completed.")
    run_page.settle()
    assert run_page.failed_cells() == []


# ---- renderers


def test_pick_a_cell_and_read_its_break(run_page: Reader) -> None:
    renderers, pupil = (
        run_page.page.locator(f"select[name=cell_{name}]") for name in ("row", "policy")
    )
    with run_page.answer():
        pupil.select_option("plain")
    assert "qwen3 does not claim extension." in run_page.text_of(RENDERERS)
    assert "nothing splits." in run_page.text_of(RENDERERS).split("The chosen cell")[1]
    with run_page.answer():
        pupil.select_option("no_space")
    with run_page.answer():
        renderers.select_option(label="role_colon")
    row = matrix_table(["role_colon"], ["no_space"]).iloc[0]
    shown = run_page.text_of(RENDERERS).split("The chosen cell")[1]
    assert "role_colon claims extension." in shown
    assert f"Turn {row['turn']:.0f} splits" in shown
    # of renderers that share a row, each can be played
    with run_page.answer():
        renderers.select_option(label="3 of llama, deepseek, tml")
    run_page.choose("Renderer, of those in this row", "tml_v0")
    assert "tml_v0 claims extension." in run_page.text_of(RENDERERS)
    assert run_page.blank_figures() == []


def test_a_pasted_conversation_is_judged_and_a_bad_one_is_kept(run_page: Reader) -> None:
    label = "Conversation, a JSON list of messages with role and content"
    bad = '[{"role": "user", "content": "2 + 3?"}, {"role": "assistant"}]'

    def unfold() -> None:  # an answer of the kernel folds it again
        run_page.page.locator("details", has_text="Paste a conversation").evaluate_all(
            "all => all.forEach((fold) => { fold.open = true; })"
        )

    unfold()
    run_page.type(label, bad)
    unfold()
    assert "Message 1 (assistant) has no content." in run_page.text_of(OWN)
    assert run_page.widget(label).input_value() == bad
    good: list[Any] = [
        {"role": "user", "content": "2 + 3?"},
        {"role": "assistant", "content": "5 <b>bold</b>"},
        {"role": "user", "content": "And 1 more?"},
        {"role": "assistant", "content": "6"},
    ]
    run_page.type(label, json.dumps(good))
    unfold()
    run_page.choose("Read by renderer", "llama3")
    unfold()
    shown = run_page.text_of(OWN)
    assert "opens datum 0" in shown
    assert "extends, stays in datum 0" in shown
    assert run_page.failed_cells() == []


def test_the_matrix_fits_a_narrow_window(phone_page: Reader) -> None:
    assert phone_page.page_overflow() == 0
    phone_page.page.get_by_text("cells as a table").click()
    assert phone_page.page_overflow() == 0


def test_a_served_app_never_offers_the_real_model(run_page: Reader) -> None:
    assert run_page.page.locator("input[type=password]").count() == 0
    assert run_page.page.get_by_role("button", name="This costs money").count() == 0
    assert run_page.page.get_by_role("heading", name="A real model as the pupil").count() == 0


# ---- files


def record(ob: list[int], *ac: int) -> dict[str, Any]:
    return {"ob": ob, "ac": list(ac), "logprobs": [-0.1] * len(ac)}


def whole_text(reader: Reader) -> str:
    """All text of the section, opened or not; widgets keep theirs for themselves."""
    return "\n".join(cell.text_content() or "" for cell in reader.section(OWN))


def tells(reader: Reader, sentence: str) -> None:
    """The section says so, as soon as a busy machine has come to it."""
    for _ in range(200):
        if sentence in whole_text(reader):
            return
        reader.page.wait_for_timeout(100)
    assert sentence in whole_text(reader)


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
    table = reader.page.locator(".row-table table").last
    headings = table.locator("thead th").all_inner_texts()
    cells = table.locator(f"tbody tr > :nth-child({headings.index(name) + 1})")
    return table.locator("thead th").nth(headings.index(name)), cells.all_inner_texts()


def test_upload(run_page: Reader) -> None:
    """Invariant 1, with the cases."""
    data = (ROOT / "tests" / "cases.jsonl").read_bytes()
    listed = overview(read_bounded(data).rollouts)
    upload(run_page, "cases.jsonl", data)
    totals = listed.totals
    tells(run_page, f"{totals.rollouts} rollouts, {totals.turns} turns in the file cases.jsonl:")
    text = whole_text(run_page)
    assert f"{totals.refused} refused." in text
    worst = run_page.page.get_by_role("heading", name=listed.table["name"].iloc[0])
    expect(worst).to_be_visible()  # stands open
    assert run_page.blank_figures() == []
    # so many remedies are folded, that the rollouts stand near
    run_page.page.get_by_text("Causes and warnings, and what helps").click()
    tells(run_page, "Write what follows an answer the same way after every turn.")


def test_what_is_no_json_gets_a_sentence(run_page: Reader) -> None:
    """Invariant 1: bytes that are no text, no JSON, or nothing at all."""
    good = json.dumps({"transitions": [record([1], 2)]}).encode()
    for data, sentence in (
        (b"PK\x03\x04" + bytes(60), "this is a zip archive, not JSON text in UTF-8."),
        (good + b'\n{"\xe9"}\n', "Line 2, trajectory 1: the byte 0xe9 is not UTF-8 text."),
        (b"[" * 10_000, "The file: nested too deep to be read."),
        (b"", "The file is empty."),
    ):
        upload(run_page, "rollouts.jsonl", data)
        tells(run_page, sentence)
        assert "Traceback" not in whole_text(run_page)
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
    small = json.dumps({"transitions": [record([1], 2)]}).encode()
    upload(run_page, "small.json", small)
    large = tmp_path / "large.jsonl"
    with large.open("wb") as sparse:
        sparse.truncate(64 * 2**20 + 1)
    with run_page.answer():
        run_page.page.locator("input[type=file]").set_input_files(large)
    text = run_page.page.get_by_text("large.jsonl (File is larger than 67108864 bytes)").first
    expect(text).to_be_visible()
    tells(run_page, "in the text:")
    upload(run_page, "small.json", small)
    tells(run_page, "in the file small.json")


def test_pasted_text_with_a_bad_line(run_page: Reader) -> None:
    """Invariants 1 and 2."""
    good = {"name": "good one", "transitions": [record([1, 2], 3), record([1, 2, 3, 4], 5)]}
    bad = {
        "name": "bad one",
        "transitions": [record([1], 2), {**record([1], 3), "ob": [1, 2, 2.5]}],
    }
    paste(run_page, good, bad, good)
    tells(run_page, "Line 2, trajectory 1 (bad one), turn 1, ob, index 2: expected a token id")
    text = whole_text(run_page)
    assert "2 rollouts, 4 turns in the text: 2 datums" in text
    assert column(run_page, "name")[1] == ["good one", "good one"]
    paste(run_page, good)
    tells(run_page, "1 rollout, 2 turns in the text: 1 datum")
    assert "bad one" not in whole_text(run_page).replace(json.dumps(bad), "")


def test_markup_is_shown_as_text(run_page: Reader) -> None:
    """Invariant 3: names, groups, keys, token texts, also in the sentence about a fault."""
    turns = [record([1, 2], 3), record([1, 9], 3)]
    paste(
        run_page,
        {"name": EVIL, "group": EVIL, "vocab": dict.fromkeys("1239", EVIL), "transitions": turns},
        {"name": EVIL, "group": EVIL, "transitions": [record([1], 2)]},
        {"name": EVIL, "transitions": [{"ob": [EVIL], "ac": []}]},
    )
    tells(run_page, f"Line 3, trajectory 2 ({EVIL}), turn 0, ob, index 0: expected a token id")
    text = whole_text(run_page)
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
        second = record([1, 2, index, 4 if index % 7 else 9, 5], *answer)
        turns = [record([1, 2, index], 4), second]
        if index % 250 == 249:
            turns[1]["logprobs"] = None
        rollouts.append({"name": f"rollout {index}", "transitions": turns})
    upload(run_page, "many.json", json.dumps(rollouts).encode())
    tells(run_page, "1,000 rollouts, 2,000 turns in the file many.json:")
    text = whole_text(run_page)
    assert "4 refused." in text
    assert re.search(r"inputs \(tokens through the model\): \d+% of [\d,]+ if no turn merged", text)
    counted = run_page.page.get_by_role("group", name="Causes and warnings, and what helps")
    assert re.search(r"splits\s+end token\s+143", counted.inner_text())

    # an overview, then details of the first that is worth it
    chosen = run_page.page.get_by_role("heading", name=re.compile(r"^rollout \d+$"))
    table = run_page.page.locator(".row-table table").last
    heights = [
        part.evaluate("e => e.getBoundingClientRect().top")
        for part in (run_page.page.locator("[aria-label^=Causes]").first, table, chosen)
    ]
    assert heights == sorted(heights)
    heading, _ = column(run_page, "inputs")
    heading.get_by_role("button").click()  # the largest first
    expect(heading).to_have_attribute("aria-sort", "descending")
    _, tokens = column(run_page, "inputs")
    assert tokens[0] == "12"  # splits, and the longest answer
    assert [text for text in tokens if text] == sorted(filter(None, tokens), key=int, reverse=True)
    assert set(tokens[-4:]) == {""}  # a refused rollout has no price
    first = table.locator("tbody tr").first
    with run_page.answer():
        first.locator("td").last.click()  # anywhere in the row
    assert chosen.inner_text() == first.locator("th").inner_text()
    below = table.locator("tbody tr").nth(1)
    with run_page.answer():
        run_page.page.keyboard.press("ArrowDown")
    assert chosen.inner_text() == below.locator("th").inner_text()
    run_page.page.get_by_label("Find").fill("rollout 77")
    expect(table.locator("tbody tr:visible")).to_have_count(11)
    expect(run_page.page.get_by_text("11 of 1,000 rows")).to_be_visible()


def test_long_rollout_and_its_window(run_page: Reader) -> None:
    """Invariant 5: 128 000 tokens in 100 turns, written with `append`."""
    rollout = long_rollout(100, 128_000, split=40, place=30_000)
    upload(run_page, "long.json", json.dumps(rollout).encode())
    tells(run_page, "1 rollout, 100 turns in the file long.json: 3 datums")
    page = run_page.page
    page.locator("summary", has_text="Token by token").click()  # stays open from here on
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
    for cell in run_page.section(OWN):
        box = cell.bounding_box()
        assert box is None or box["x"] + box["width"] <= WIDTHS["narrow"] + 1
    assert run_page.page_overflow() == 0
