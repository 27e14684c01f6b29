"""The app as `marimo run` serves it."""

from browser import Reader


def test_app_opens_with_every_cell_run(run_page: Reader) -> None:
    headings = run_page.page.locator("h2").all_inner_texts()
    assert headings[0] == "1. The idea"
    assert run_page.failed_cells() == []
    assert run_page.blank_figures() == []
