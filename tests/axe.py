"""axe-core on a page, less what marimo itself draws."""

import re

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
    answer = Axe().run(reader.page, options={"resultTypes": ["violations"]}).response
    return [
        f"{violation['id']} at {node['target']}: {node['html'][:200]}"
        for violation in answer["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
        if not any(
            rule == violation["id"] and re.search(looks, node["html"])
            for rule, looks, _ in BY_MARIMO
        )
    ]
