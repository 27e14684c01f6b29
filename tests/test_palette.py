"""Colours: told apart by every reader, readable on every fill, fixed only inside cells.

Invariants:
1. Every pair of fills that can meet in one figure stays apart for readers without, and with
   each kind of, colour blindness.
2. Ink on its fill has a contrast of at least 4.5 : 1.
3. Lines and marks outside cells have a contrast of at least 3 : 1 on both page colours.
4. Every kind has a second cue, and no two kinds of token share it.
"""

import re
from itertools import combinations
from typing import Any

import pytest
from coloraide import Color

from sequence_extension.alignment import alignment_table
from sequence_extension.break_table import break_marks
from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.figures.palette import KINDS, PALETTE
from sequence_extension.figures.runs import runs_chart
from sequence_extension.figures.staircase import staircase_chart
from sequence_extension.figures.strip import strip_chart
from sequence_extension.page.style import style_sheet
from sequence_extension.staircase import staircase_tables

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


def fills() -> dict[str, str]:
    """Fills of cells; the grey of axes is a line's colour and fills nothing."""
    return {name: entry["fill"] for name, entry in PALETTE.items() if name != "axis"}


@pytest.mark.parametrize("vision", VISIONS)
def test_every_pair_of_fills_stays_apart(vision: str | None) -> None:
    distance, one, other = closest(fills(), vision)
    assert distance >= APART, (one, other)


def test_threshold_is_that_of_the_okabe_ito_set() -> None:
    okabe_ito = {color: color for color in OKABE_ITO}
    assert all(closest(okabe_ito, vision)[0] >= APART for vision in ("protan", "deutan"))


def test_simulation_bites() -> None:
    # red and green of the same lightness: the classic mistake
    traffic_light = fills() | {"positive": "#00873C", "break": "#C0392B"}
    assert closest(traffic_light, None)[0] >= APART
    assert closest(traffic_light, "deutan")[0] < APART


def test_ink_reads_on_its_fill() -> None:
    for name, entry in PALETTE.items():
        if name != "axis":
            assert Color(entry["ink"]).contrast(entry["fill"], method="wcag21") >= 4.5, name


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


def figures_of() -> dict[str, Any]:
    """One figure of each kind of this room."""
    stories = [
        (item.title, item.lesson, diagnose(scenario_rollout(item))) for item in scenarios().values()
    ]
    split = next(story[2] for story in stories if story[2].breaks)
    table = alignment_table(split.built, split.runs, split.rollout.vocab)
    marks = break_marks(split)
    return {
        "strip": strip_chart(table[table["datum"] == 0], breaks=marks),
        "runs": runs_chart(split.runs, marks, "Title", (0, 1, 2)),
        "staircase": staircase_chart(staircase_tables(stories)),
    }


def test_text_has_a_fixed_colour_only_on_fills() -> None:
    inks = {entry["ink"] for entry in PALETTE.values()}
    for name, figure in figures_of().items():
        marks = text_marks(figure.spec["layer"])
        assert marks, name
        for unit in marks:
            color = unit["encoding"].get("color")
            if color is not None:
                assert set(color["scale"]["range"]) <= inks, name
            elif "color" in unit["mark"]:
                assert unit["mark"]["color"] in inks, name
            else:
                # left to the theme: unfilled, in the style that both themes define
                assert unit["mark"]["style"] == "guide-label"
                assert unit["mark"]["filled"] is False
        assert figure.spec["background"] == "transparent"
        assert "color" not in figure.spec.get("title", {})


def test_style_sheet_takes_colours_from_palette_and_theme_only() -> None:
    root, rest = style_sheet().split("}", 1)
    assert all(entry["fill"] in root and entry["ink"] in root for entry in PALETTE.values())
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b|rgba?\(|hsla?\(", rest)
    assert "prefers-reduced-motion" in rest
