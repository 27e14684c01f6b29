"""The one look of all figures, registered with Altair; and text in the colour of the page."""

from typing import Any, cast

import altair as alt

from sequence_extension.figures.palette import FONT, GREY

SIZE = 12  # pixels of all text but names in bold


@alt.theme.register("sequence_extension", enable=True)
def figure_theme() -> alt.theme.ThemeConfig:
    """Fonts, sizes and lines; no colour of a page, which is the reader's theme to choose."""
    axis: dict[str, Any] = {"domain": False, "grid": False, "ticks": False, "labelPadding": 6}
    axis |= {"labelFontSize": SIZE, "titleFontSize": SIZE, "titleFontWeight": "normal"}
    theme: dict[str, Any] = {
        "usermeta": {"embedOptions": {"actions": False}},
        "config": {
            "background": "transparent",
            # words for each mark would be for screen readers, but a canvas has none to give
            "aria": False,
            "font": FONT,
            "view": {"stroke": None},
            "axis": axis,
            "text": {"fontSize": SIZE},
            "rect": {"cornerRadius": 3},
            "rule": {"color": GREY},
            "point": {"filled": True, "opacity": 1, "color": GREY},
            "tick": {"opacity": 1, "orient": "vertical", "color": GREY},
            # what colours and forms mean is said where they stand
            "legend": {"disable": True},
            "title": {"fontSize": SIZE, "fontWeight": "bold", "anchor": "start"},
        },
    }
    return cast("alt.theme.ThemeConfig", theme)


def theme_text(**mark: Any) -> dict[str, Any]:
    """A text mark outside of filled cells, for `mark_text`: in the colour of the page's theme.

    Unfilled, so that Vega takes the colour of its light or dark theme from the style; a fill
    given here would be fixed for both.
    """
    return {"style": "guide-label", "filled": False, "strokeOpacity": 0, "fontSize": SIZE, **mark}
