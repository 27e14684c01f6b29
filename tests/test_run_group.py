"""Sections 6 and 10 as a reader meets them: rewards typed, questions answered by keyboard."""

import pytest
from browser import Reader
from coloraide import Color
from playwright.sync_api import expect


def text_of(reader: Reader, section: int) -> str:
    return "\n".join(cell.inner_text() for cell in reader.section(section))


def test_rewards_are_edited(run_page: Reader) -> None:
    a, b = "A: three turns that extend", "B: two turns that extend"
    assert "mean reward of 0.417" in text_of(run_page, 6)

    run_page.type(a, "0 0 4")
    told = text_of(run_page, 6)
    # 0.417 was 2.5 over six rollouts; three more make 5.5
    assert f"mean reward of {5.5 / 6:.3g}" in told
    assert f"tensor([ {4 - 5.5 / 6:.4f}" in told
    assert "8 datums: A B C C D D D F" in told

    # A bad reward gets its sentence, keeps what was typed, and the last good figure stays.
    run_page.type(b, "0.5 <b>x</b>")
    told = text_of(run_page, 6)
    assert "Rollout B, turn 1" in told
    assert "not a finite number" in told
    assert run_page.widget(b).input_value() == "0.5 <b>x</b>"
    assert f"mean reward of {5.5 / 6:.3g}" in told
    run_page.type(b, "0.5")
    assert "2 turns but 1 reward" in text_of(run_page, 6)
    run_page.type(b, "0 0")
    assert f"mean reward of {4.5 / 6:.3g}" in text_of(run_page, 6)

    run_page.choose("Rewards", "All the same: no policy gradient")
    assert "All rewards are equal, so there is no policy gradient" in text_of(run_page, 6)
    run_page.type(a, "0 0 9")
    assert "All rewards are equal" not in text_of(run_page, 6)
    run_page.press("Reset rewards")
    assert "All rewards are equal" in text_of(run_page, 6)
    assert run_page.failed_cells() == []
    assert run_page.blank_figures() == []


def test_a_question_is_answered_by_keyboard_alone(run_page: Reader) -> None:
    page = run_page.page
    told = text_of(run_page, 10)
    assert "Your first answer to each one counts" in told
    assert "✓ Right" not in told
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
    expect(verdict).to_contain_text("✕ No. It is 4:")
    assert "0 of 1 right" in text_of(run_page, 10)

    # A second thought is judged as well, but the first answer is the one that counts.
    first.get_by_role("radio").nth(3).click()
    page.get_by_role("button", name="Check", exact=True).first.click()
    expect(verdict).to_contain_text("✓ Right")
    assert "0 of 1 right" in text_of(run_page, 10)
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
