"""The static page that `marimo export html` writes."""

from browser import Export, Reader


def test_exported_session_is_clean(exported_html: Export) -> None:
    assert exported_html.code == 0
    assert exported_html.output.strip() == ""
    assert exported_html.faults() == []


def test_static_page_draws_every_figure(static_page: Reader) -> None:
    assert static_page.page.locator("h2").first.inner_text() == "1. The idea"
    assert static_page.failed_cells() == []
    assert static_page.blank_figures() == []
