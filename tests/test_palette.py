"""Colours: told apart by every reader, readable on every fill, fixed only inside cells.

Invariants:
1. Every pair of fills that can meet in one figure stays apart for readers without, and with
   each kind of, colour blindness.
2. Ink on its fill has a contrast of at least 4.5 : 1.
3. Lines and marks outside cells have a contrast of at least 3 : 1 on both page colours.
4. Every kind has a second cue, and no two kinds of token share it.
"""

import re
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

import pytest
from coloraide import Color

from sequence_extension.figures.break_chart import break_chart_template
from sequence_extension.figures.cost_chart import (
    cost_chart_areas_template,
    cost_chart_curves_template,
)
from sequence_extension.figures.group_chart import group_chart_template
from sequence_extension.figures.matrix_chart import matrix_chart_template
from sequence_extension.figures.palette import KINDS, MATRIX_LOOK, PALETTE
from sequence_extension.figures.runs_chart import runs_chart_template
from sequence_extension.figures.staircase_chart import staircase_chart_template
from sequence_extension.figures.strip_chart import strip_chart_template
from sequence_extension.page.style import style_sheet

# CIEDE2000: 1 to 2 is just noticeable side by side. In small cells, apart from each other and
# seen in passing, several times that is wanted. 11 is what the Okabe-Ito set keeps between its
# own colours under the red-green simulations (its worst pairs: 12.2 and 11.7).
APART = 11.0
VISIONS = (None, "protan", "deutan", "tritan")
OKABE_ITO = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
# marimo's page colours, light and dark
PAGES = ("#ffffff", "#181c1a")


def seen(color: str, vision: str | None) -> Color:
    """A colour as it looks to a reader without one kind of cone."""
    return Color(color) if vision is None else Color(color).filter(vision).clip()


def closest(colors: dict[str, str], vision: str | None) -> tuple[float, str, str]:
    """The pair that is hardest to tell apart: (distance, one, other)."""
    return min(
        (seen(colors[a], vision).delta_e(seen(colors[b], vision), method="2000"), a, b)
        for a, b in combinations(colors, 2)
    )


def on_page(color: str, page: str = PAGES[0]) -> str:
    """What a colour that lets the page through looks like on it."""
    cover = Color(color)
    mixed = Color(page).mix(Color(color[:7]), cover.alpha(), space="srgb")
    return str(mixed.to_string(hex=True))


def fills(page: str = PAGES[0]) -> dict[str, str]:
    """Fills of cells; the grey of axes is a line's colour and fills nothing."""
    return {name: on_page(entry["fill"], page) for name, entry in PALETTE.items() if name != "axis"}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("vision", VISIONS)
def test_every_pair_of_fills_stays_apart(vision: str | None, page: str) -> None:
    colors = fills(page)
    if page == PAGES[1]:
        # on a dark page, red is brown to some readers; but no cell is red, only the sign with ✕
        del colors["break"]
    distance, one, other = closest(colors, vision)
    assert distance >= APART, (one, other)


@pytest.mark.parametrize("page", PAGES)
def test_what_recedes_is_the_closest_to_the_page(page: str) -> None:
    """Apart from the black of a number that is none."""
    away = {
        name: Color(fill).contrast(page, method="wcag21")
        for name, fill in fills(page).items()
        if name != "look"
    }
    assert sorted(away, key=away.__getitem__)[:2] in (["zero", "masked"], ["masked", "zero"])


def test_threshold_is_that_of_the_okabe_ito_set() -> None:
    okabe_ito = {color: color for color in OKABE_ITO}
    assert all(closest(okabe_ito, vision)[0] >= APART for vision in ("protan", "deutan"))


def test_simulation_bites() -> None:
    # red and green of the same lightness: the classic mistake
    traffic_light = fills() | {"positive": "#00873C", "break": "#C0392B"}
    assert closest(traffic_light, None)[0] >= APART
    assert closest(traffic_light, "deutan")[0] < APART


@pytest.mark.parametrize(("page", "theme"), [(PAGES[0], "#000000"), (PAGES[1], "#ffffff")])
def test_ink_reads_on_its_fill(page: str, theme: str) -> None:
    for name, fill in fills(page).items():
        ink = PALETTE[name]["ink"].replace("currentColor", theme)
        assert Color(ink).contrast(fill, method="wcag21") >= 4.5, name


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", ["axis", "break"])
def test_lines_show_on_both_pages(page: str, name: str) -> None:
    assert Color(PALETTE[name]["fill"]).contrast(page, method="wcag21") >= 3


def test_every_kind_has_a_second_cue() -> None:
    assert set(KINDS.values()) == set(PALETTE) - {"axis"}
    cues = [PALETTE[name]["letter"] for name in KINDS.values()]
    assert all(cues)
    assert len(set(cues)) == len(cues)


def text_marks(spec: Any) -> list[dict[str, Any]]:
    """Every unit of a spec whose mark is text."""
    if isinstance(spec, list):
        return [unit for item in spec for unit in text_marks(item)]
    if not isinstance(spec, dict):
        return []
    own = [spec] if isinstance(spec.get("mark"), dict) and spec["mark"]["type"] == "text" else []
    return own + [unit for value in spec.values() for unit in text_marks(value)]


TEMPLATES: dict[str, Callable[[], Mapping[str, Any]]] = {
    "strip": strip_chart_template,
    "break": break_chart_template,
    "runs": runs_chart_template,
    "group": group_chart_template,
    "areas": cost_chart_areas_template,
    "curves": cost_chart_curves_template,
    "matrix": matrix_chart_template,
    "staircase": lambda: staircase_chart_template(("one",), 3, 0),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_text_has_a_fixed_colour_only_on_fills(name: str) -> None:
    looks = [*PALETTE.values(), *MATRIX_LOOK.values()]
    inks = {look["ink"] for look in looks if look["ink"].startswith("#")}
    template = TEMPLATES[name]()
    marks = text_marks(template)
    assert marks
    for unit in marks:
        color = unit["encoding"].get("color")
        if color is not None:
            # a kind whose ink is the page's stands in a layer of its own
            assert set(color["scale"]["range"]) <= inks | {"currentColor"}
        elif "color" in unit["mark"]:
            assert unit["mark"]["color"] in inks
        else:
            # left to the theme: unfilled, in the style that both themes define
            assert unit["mark"]["style"] == "guide-label"
            assert unit["mark"]["filled"] is False
            assert unit["mark"]["fontSize"] >= 12
    assert template["config"]["background"] == "transparent"


def test_ink_reads_on_the_cells_of_the_matrix() -> None:
    for kind, look in MATRIX_LOOK.items():
        if look["ink"].startswith("#"):
            assert Color(look["ink"]).contrast(look["fill"], method="wcag21") >= 4.5, kind


def test_style_sheet_takes_colours_from_palette_and_theme_only() -> None:
    root, rest = style_sheet().split("}", 1)
    assert all(entry["fill"] in root and entry["ink"] in root for entry in PALETTE.values())
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b|rgba?\(|hsla?\(", rest)
    assert "prefers-reduced-motion" in rest
