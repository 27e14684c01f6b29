"""axe-core on the static page; on the app, see `test_run_accessibility.py`."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import Reader

# What marimo 0.25.2 itself draws: rule, what the element looks like, what it is. Anything else
# serious or critical fails.
BY_MARIMO = [
    ("button-name", r'id="radix-[^"]*" aria-haspopup="menu"', "menu of the page, top right"),
    ("button-name", r"toast-close", "cross of a toast"),
    ("color-contrast", r"^<span>made with marimo</span>$", "badge of static pages"),
    ("label", r'^<input [^>]*type="file"', "hidden input of mo.ui.file, whose button has a name"),
    ("aria-input-field-name", r'class="cm-content', "read-only code, as mo.show_code draws it"),
    ("scrollable-region-focusable", r"max-h-\[70vh\]", "outline at the right edge"),
]


def violations(reader: Reader) -> list[str]:
    """Serious and critical violations that are not marimo's own."""
    found = Axe().run(reader.page, options={"resultTypes": ["violations"]}).response
    return [
        f"{violation['id']} at {node['target']}: {node['html'][:200]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
        if not any(
            rule == violation["id"] and re.search(looks, node["html"])
            for rule, looks, _ in BY_MARIMO
        )
    ]


@pytest.mark.timeout(600)
def test_static_page_has_no_violation_of_ours(story_page: Reader) -> None:
    assert violations(story_page) == []


def test_a_violation_would_be_found(static_page: Reader) -> None:
    static_page.page.evaluate(
        "document.querySelector('.output-area').innerHTML += '<img src=\"data:,\"><input>'"
    )
    assert {found.split(" at ")[0] for found in violations(static_page)} == {"image-alt", "label"}
    static_page.faults.clear()


def test_every_figure_has_a_description_and_a_table_or_sentence(story_page: Reader) -> None:
    figures = story_page.page.locator("[role=graphics-document]")
    descriptions = figures.evaluate_all("all => all.map(e => e.getAttribute('aria-label') ?? '')")
    assert descriptions
    assert [text for text in descriptions if len(text) < 20] == []
