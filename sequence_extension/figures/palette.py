"""The one palette, and what a kind of cell is called."""

from typing import Any

# The one palette (Okabe-Ito hues). fill: the cell; ink: text on that fill. Observation and
# action differ in hue and letter; the break alone is red and is always marked as well. What
# recedes lets the page through, so it is pale on a light page and dark on a dark one, and its
# text has the page's own colour.
PALETTE = {
    "observation": {"fill": "#8CC8EC", "ink": "#0B1F2E", "letter": "O"},
    "action": {"fill": "#E69F00", "ink": "#1F1400", "letter": "A"},
    "masked": {"fill": "#E69F0040", "ink": "currentColor", "letter": "A masked"},
    "zero": {"fill": "#7A828C47", "ink": "currentColor", "letter": "0"},
    "break": {"fill": "#DA0A20", "ink": "#FFFFFF", "letter": "✕"},
    "positive": {"fill": "#007A5E", "ink": "#FFFFFF", "letter": "+"},
    "negative": {"fill": "#8A4F7D", "ink": "#FFFFFF", "letter": "-"},
    "look": {"fill": "#000000", "ink": "#FFFFFF", "letter": "!"},
    "axis": {"fill": "#7A828C", "ink": "#FFFFFF", "letter": ""},
}
FONT = "system-ui, sans-serif"  # of all text in figures
RED, GREY = PALETTE["break"]["fill"], PALETTE["axis"]["fill"]
# How tables name what a cell is, and its entry in the palette.
KINDS = {
    "O": "observation", "A": "action", "M": "masked", "0": "zero", "+": "positive",
    "-": "negative", "!": "look", "X": "break",
}  # fmt: skip
# Text outside filled cells: unfilled, so that Vega takes the colour of its light or dark
# theme from the style (a fill given here would be fixed for both).
THEMED_TEXT: dict[str, Any] = {"style": "guide-label", "filled": False, "strokeOpacity": 0}
# Vega's words for a part of a turn.
PART_WORDS = "{O: 'observation', A: 'action', M: 'action, masked'}[datum.kind]"


def advantage_colours(value: float, extent: float) -> tuple[str, str]:
    """Fill and ink of one advantage on the scale negative, zero, positive.

    Args:
        value: The advantage.
        extent: The largest absolute advantage in the figure, at the ends of the scale.

    Returns:
        Two hex colours; the ink is the one of black and white that reads better.
    """
    zero = "#CED1D4"
    end = PALETTE["positive" if value > 0 else "negative"]["fill"]
    share = 0.0 if extent <= 0 else min(1.0, abs(value) / extent)
    # Small advantages start away from zero, so that their sign shows.
    share = 0.0 if abs(value) < 5e-7 else 0.25 + 0.75 * share
    parts = [
        round(int(zero[i : i + 2], 16) * (1 - share) + int(end[i : i + 2], 16) * share)
        for i in (1, 3, 5)
    ]
    linear = [
        part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4
        for part in parts
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    ink = "#000000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#FFFFFF"
    return "#" + "".join(f"{part:02X}" for part in parts), ink
