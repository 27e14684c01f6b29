"""The style sheets: `style.css` with the palette's colours, and the insides of widgets."""

import functools
from importlib.resources import files

from sequence_extension.figures.palette import FONT, PALETTE
from sequence_extension.html import table_css

# marimo hands a sheet whose title starts with its name on to the shadow root of each widget that
# it mounts afterwards, where the page's own sheet does not reach.
WIDGET_CSS = """
:host .text-destructive,:host .text-error{color:var(--red-11)}
:host(marimo-table) :is(th,td){padding-inline:.2rem}
:host(marimo-table) th button{width:1rem}
:host(marimo-form) form .justify-end{justify-content:flex-start;font-family:inherit}
.vega-bindings{position:sticky;left:0;display:flex;flex-wrap:wrap;gap:.4em 1.2em;width:fit-content;
  font-size:.9rem}
.vega-bind select{font:inherit;color:var(--foreground);background:var(--background);
  border:1px solid var(--input,var(--border));border-radius:.35em;padding:.2em .4em;max-width:14em}
"""


def asset(name: str) -> str:
    """A file beside this module."""
    return files("sequence_extension.page").joinpath(name).read_text(encoding="utf-8")


@functools.cache
def style_sheet() -> str:
    """The page's CSS: a variable for each fill and ink of the palette, then the rules.

    And one for the hatch of what is read again, and for the font of all cells.
    """
    grey, pale = PALETTE["axis"]["fill"], PALETTE["zero"]["fill"]
    hatch = f"repeating-linear-gradient(120deg,{grey} 0 1.5px,{pale} 1.5px 8px)"
    colors = "".join(
        f"--seq-{name}:{entry['fill']};--seq-{name}-ink:{entry['ink']};"
        for name, entry in PALETTE.items()
    )
    colors += f"--seq-hatch:{hatch};--seq-font:{FONT};"
    return f":root{{{colors}}}\n{table_css()}{asset('style.css')}"


def style_html() -> str:
    """Both sheets as HTML; it stands before all else, so that nothing moves when it arrives.

    The first has no title: of sheets with two titles a browser uses only those with the first.
    """
    return (
        f'<style>{style_sheet()}</style><style title="marimo-sequence-widgets">{WIDGET_CSS}</style>'
    )
