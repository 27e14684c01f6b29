"""How long and how heavy the static page is: words, pixels, layout shift, bytes over the wire.

    uv run python tests/page_size.py [page.html]

Words have two letters or more; code, menus and what is folded are left out of the unfolded ones.
Without an argument the page is exported first, without code.
"""

import argparse
import gzip
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from browser import STATIC_URL, copy_project, export_html, launch, seat
from playwright.sync_api import sync_playwright

MOST = {"words unfolded": 3_500, "words folded": 2_000, "pixels": 14_000, "layout shift": 0.1}
# Shadow roots and slots are walked as they are drawn; each text goes to its section.
TEXTS = """
() => {
  const found = [];
  let section = "0";
  const skip = "pre, code, script, style, select, option, .sr-only, .cm-editor, [aria-hidden=true]";
  const walk = (node, folded) => {
    if (node.nodeType === Node.TEXT_NODE) {
      found.push([section, folded, node.textContent]);
      return;
    }
    if (node.nodeType === Node.ELEMENT_NODE) {
      if (node.matches(skip)) return;
      if (node.matches("h2")) section = node.textContent.split(".")[0];
      const style = getComputedStyle(node);
      if (style.display === "none" || style.visibility === "hidden") {
        if (!folded) return;
      }
    }
    const closed = node.nodeName === "DETAILS" && !node.open;
    const children = node.nodeName === "SLOT" ? node.assignedNodes()
      : (node.shadowRoot ?? node).childNodes;
    for (const child of children) {
      walk(child, folded || (closed && child.nodeName !== "SUMMARY"));
    }
  };
  for (const cell of document.querySelectorAll(".output-area")) walk(cell, false);
  return found;
}
"""
SHIFT = """
window.__shift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.__shift += entry.value;
}).observe({type: "layout-shift", buffered: true});
"""
HEIGHT = """
() => Math.max(...[...document.querySelectorAll(".output-area")].map(
  (area) => area.getBoundingClientRect().bottom)) + Math.max(
  ...[...document.querySelectorAll("*")].map((e) => e.scrollTop))
"""


def words(text: str) -> int:
    """Words of two letters or more."""
    return len(re.findall(r"[^\W\d_]{2,}", text))


def measure(page: Path, width: int = 1280) -> dict[str, Any]:
    """What a reader with a window of this width loads and reads."""
    raw = page.read_bytes()
    with sync_playwright() as playwright:
        browser = launch(playwright)
        with seat(browser, width=width, height=900, answers={STATIC_URL: page}) as reader:
            reader.page.add_init_script(SHIFT)
            reader.page.goto(STATIC_URL)
            reader.settle()
            texts = reader.page.evaluate(TEXTS)
            shift = reader.page.evaluate("window.__shift")
            pixels = reader.page.evaluate(HEIGHT)
        browser.close()
    sections: dict[str, list[int]] = {}
    for section, folded, text in texts:
        sections.setdefault(section, [0, 0])[bool(folded)] += words(text)
    return {
        "words unfolded": sum(shown for shown, _ in sections.values()),
        "words folded": sum(folded for _, folded in sections.values()),
        "pixels": round(pixels),
        "layout shift": round(shift, 3),
        "kilobytes": round(len(raw) / 1000),
        "kilobytes compressed": round(len(gzip.compress(raw, 9)) / 1000),
        "sections": {name: tuple(counts) for name, counts in sections.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("page", nargs="?", type=Path)
    given = parser.parse_args().page
    with tempfile.TemporaryDirectory() as folder:
        page = given
        if page is None:
            page = Path(folder) / "page.html"
            export_html(copy_project(Path(folder) / "project"), page, "--no-include-code")
        result = measure(page)
    print(json.dumps(result, indent=1))
    over = [name for name, most in MOST.items() if result[name] > most]
    for name in over:
        print(f"{name}: {result[name]}, more than {MOST[name]}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
