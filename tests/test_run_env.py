"""Section 7 of the served app: an episode is played, and another budget ends it otherwise."""

from browser import Reader
from playwright.sync_api import Locator, expect


def headline(reader: Reader) -> Locator:
    return reader.page.get_by_role("heading", name="stop reason")


def told(reader: Reader, words: str) -> Locator:
    """The sentence with these words that is on the page, not in a closed table."""
    return reader.page.locator("span.paragraph").filter(has_text=words)


def slider(reader: Reader, label: str) -> Locator:
    """The thumb of the slider with this label."""
    widget = reader.page.locator("marimo-slider").filter(has_text=label)
    return widget.get_by_role("slider")


def test_lowering_the_budget_changes_the_ending(run_page: Reader) -> None:
    ending = headline(run_page)
    expect(ending).to_have_text("3 turns, 3 datums; stop reason completed")
    run_page.choose("Play", "Reasoning stays in history")
    expect(ending).to_have_text("3 turns, 1 datum; stop reason completed")

    thumb = slider(run_page, "max_trajectory_tokens")
    with run_page.answer():
        thumb.press("End")  # 400 tokens are enough
    expect(ending).to_have_text("3 turns, 1 datum; stop reason completed")
    for _ in range(30):  # ten tokens less each time
        thumb.press("PageDown")
    expect(ending).to_have_text("2 turns, 1 datum; stop reason context_overflow")
    expect(told(run_page, "instead of the 1 it had earned")).to_be_visible()
    for _ in range(6):
        thumb.press("PageDown")
    expect(ending).to_have_text("1 turn, 0 datums; stop reason max_tokens")
    expect(told(run_page, "the model was never asked")).to_be_visible()
    run_page.settle()
    assert run_page.failed_cells() == []
    assert run_page.blank_figures() == []


def test_another_pupil_and_a_name_that_is_no_model(run_page: Reader) -> None:
    page = run_page.page
    run_page.choose("Play", "An answer does not parse: go on")
    expect(headline(run_page)).to_have_text("4 turns, 3 datums; stop reason completed")
    expect(told(run_page, "Turn 2 saw nothing at all")).to_be_visible()
    expect(page.get_by_role("list", name="Transcript").get_by_text("Which sum?")).to_be_visible()

    page.get_by_role("button", name="With the tokens of a real model").click()
    page.get_by_placeholder("Qwen/Qwen3-8B").fill("<b>Qwen</b>")
    run_page.press("Load its tokenizer")
    expect(page.get_by_text("Type a model as owner/name")).to_be_visible()
    expect(headline(run_page)).to_have_text("4 turns, 3 datums; stop reason completed")
    run_page.settle()
    assert run_page.failed_cells() == []
