"""The style sheet: `style.css` with the palette's colours."""

import functools
from importlib.resources import files

from sequence_extension.figures.palette import FONT, PALETTE
from sequence_extension.markup import markup_css
from sequence_extension.page.live import is_live_kernel

# In exports alone: no toast of marimo's that no element works, as menus inside figures do.
EXPORTED = "[role=region][aria-label^=Notifications]{display:none}"


def style_asset(name: str) -> str:
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
    return f":root{{{colors}}}\n{markup_css()}{style_asset('style.css')}"


def style_html() -> str:
    """The sheet as HTML; it stands before all else, so that nothing moves when it arrives."""
    return f"<style>{style_sheet()}{'' if is_live_kernel() else EXPORTED}</style>"
