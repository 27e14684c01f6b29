"""axe-core on the app, and the way through the story by keyboard."""

import pytest
from browser import Reader
from test_accessibility import violations


@pytest.mark.timeout(600)
def test_app_has_no_violation_of_ours(run_page: Reader) -> None:
    folds = [
        fold.element_handle()
        for fold in run_page.page.locator("details:not([open]) > summary").all()
        if fold.is_visible()
    ]
    for fold in folds:
        fold.click()
    assert violations(run_page) == []
    for fold in folds:
        fold.click()


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
        if "Action tokens" in reached:
            break
    wanted = ["step", "menu", "Load", "New observation tokens", "Action tokens"]
    assert [name for name in wanted if name not in reached] == []
    assert reached.index("Load") < reached.index("Action tokens")
