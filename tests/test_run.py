"""The app as `marimo run` serves it."""

from browser import Reader


def test_app_opens_with_every_cell_run(run_page: Reader) -> None:
    headings = run_page.page.locator("h2").all_inner_texts()
    assert headings[0] == "1. The idea"
    assert run_page.failed_cells() == []
    assert run_page.blank_figures() == []


def test_a_tooltip_names_the_token_and_shows_markup_as_text(run_page: Reader) -> None:
    page = run_page.page
    canvas = page.locator(".seq-figure canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    # the first input: half a cell right of the empty slot, in the upper lane
    canvas.hover(position={"x": 4 + 64 * 1.5, "y": 4 + 39})
    page.wait_for_function("document.querySelector('#vg-tooltip-element.visible')")
    words = page.locator("#vg-tooltip-element").inner_text()
    for piece in ("token id", "100", "position", "turn", "observation", "never a target"):
        assert piece in words
    page.mouse.move(0, 0)
