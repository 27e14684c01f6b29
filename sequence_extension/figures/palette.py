"""The one palette, and what each kind of cell is called and looks like."""

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
EMPTY = {"fill": "transparent", "ink": "currentColor"}
# Verdicts of the matrix. Only a claim that fails is red.
MATRIX_LOOK = {
    "kept": PALETTE["zero"],
    "better": {"fill": "#0072B2", "ink": "#FFFFFF"},
    "split": {"fill": "#8B949E", "ink": "#0B0F14"},
    "broken": PALETTE["break"],
    "none": EMPTY,
}
# Every kind of cell in the tables of figures.
LOOKS = {**{kind: PALETTE[name] for kind, name in KINDS.items()}, ".": EMPTY, **MATRIX_LOOK}
