"""Figures drawn by the Vega of the installed marimo, alone on a page: no server, no kernel.

marimo's bundle gives Vega's embedding as a React hook only. It is called here with hooks of a
few lines in place of React's: they run once, which is all that a figure needs.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from browser import CDN, STATIC, STATIC_URL, Reader, seat
from playwright.sync_api import Browser

from sequence_extension.figures.figure import Figure

PAGES = {"light": "#ffffff", "dark": "#181c1a"}
HARNESS = """
import * as vega from "{vega}";
import {{t as react}} from "{react}";
const inside = react().__CLIENT_INTERNALS_DO_NOT_USE_OR_WARN_USERS_THEY_CANNOT_UPGRADE;
const once = (effects) => ({{
  useRef: (value) => ({{current: value}}),
  useState: (value) => [typeof value === "function" ? value() : value, () => {{}}],
  useEffect: (effect) => effects.push(effect),
  useLayoutEffect: (effect) => effects.push(effect),
  useCallback: (callback) => callback,
  useMemo: (make) => make(),
  useMemoCache: (size) => Array(size).fill(Symbol.for("react.memo_cache_sentinel")),
  useEffectEvent: (event) => event,
}});
window.draw = (place, spec, theme) => new Promise((onEmbed, onError) => {{
  const effects = [];
  const options = {{theme, actions: false, renderer: "canvas", mode: "vega-lite"}};
  inside.H = once(effects);
  try {{
    vega.t({{ref: {{current: place}}, spec, options, onEmbed, onError}});
  }} finally {{
    inside.H = null;
  }}
  effects.forEach((effect) => effect());
}});
"""
# Every mark's items with where they are on the canvas.
LOOK = """
async ([spec, dark, width]) => {
  document.body.style.background = dark ? "#181c1a" : "#ffffff";
  const place = document.createElement("div");
  place.style.cssText = spec.width === "container" ? `display:block;width:${width}px` : "";
  document.body.replaceChildren(place);
  const {view} = await window.draw(place, spec, dark ? "dark" : undefined);
  window.view = view;
  const canvas = place.querySelector("canvas");
  const [left, top] = view._renderer._origin;
  const items = [];
  const walk = (mark, x, y) => {
    for (const item of mark.items ?? []) {
      if (mark.marktype === "group") {
        for (const inner of item.items ?? []) walk(inner, x + (item.x ?? 0), y + (item.y ?? 0));
      } else {
        const {x1, y1, x2, y2} = item.bounds;
        items.push({
          mark: mark.marktype, text: [item.text ?? ""].flat().join(" "), size: item.fontSize,
          opacity: item.opacity ?? 1, fill: item.fill, stroke: item.stroke,
          box: [x1 + x + left, y1 + y + top, x2 + x + left, y2 + y + top],
        });
      }
    }
  };
  walk(view.scenegraph().root, 0, 0);
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const pixels = new Uint32Array(data.buffer);
  return {
    width: canvas.clientWidth, height: canvas.clientHeight, items,
    blank: pixels.every((pixel) => pixel === pixels[0]),
  };
}
"""


@dataclass(frozen=True)
class Drawn:
    """What stands on a canvas.

    Attributes:
        width, height: Pixels of the canvas.
        items: Of every mark: its type, text, size, opacity, colours, and box on the canvas.
        blank: Nothing is to be seen.
    """

    width: int
    height: int
    items: list[dict[str, Any]]
    blank: bool

    @property
    def texts(self) -> list[dict[str, Any]]:
        """The texts that are to be seen."""
        return [
            item
            for item in self.items
            if item["mark"] == "text" and item["text"].strip() and item["opacity"]
        ]


@dataclass(frozen=True)
class Easel:
    """One page that draws one figure after the other."""

    reader: Reader

    def draw(self, figure: Figure, theme: str = "light", width: int = 860) -> Drawn:
        """A figure on an empty page, `width` being the room for one that takes what there is."""
        room = min(width, figure.width)
        return Drawn(**self.reader.page.evaluate(LOOK, [figure.to_dict(), theme == "dark", room]))


@contextlib.contextmanager
def easel(browser: Browser) -> Iterator[Easel]:
    """A page with the Vega of the installed marimo."""
    names = {
        name: f"{CDN}0/dist/assets/{next((STATIC / 'assets').glob(pattern)).name}"
        for name, pattern in (("vega", "react-vega-*.js"), ("react", "react-[!dvri]*.js"))
    }
    page = f"<body></body><script type=module>{HARNESS.format(**names)}</script>"
    with seat(browser, answers={STATIC_URL: page}) as reader:
        reader.page.goto(STATIC_URL)
        reader.page.wait_for_function("!!window.draw")
        yield Easel(reader)
        assert reader.faults == []
