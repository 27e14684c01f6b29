"""A rollout as runs, a row per datum: its size grows with turns, not with tokens."""

import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import altair as alt

from sequence_extension.figures import cells as draw
from sequence_extension.figures.figure import Figure, Rows, figure_table, fluid_figure_size
from sequence_extension.figures.palette import GREY, RED
from sequence_extension.text import count_text
from sequence_extension.turns import Run, turn_runs_finding

WIDTH, ROOMY, NARROW = 860, 640, 280  # pixels at most; where names are for roomy bars; at least
HATCH = 80  # lines of the hatch, were the whole width hatched
MEANING = "position · ✕ splits · hatched: read again"


@cache
def runs_chart_template() -> Mapping[str, Any]:
    """The figure on its tables `runs`, `again`, `breaks` and `shown`; once per process."""
    longest = alt.param(name="longest", value=1)
    axis = alt.Axis(
        title=None, labelExpr="'datum ' + datum.label", labelPadding=12, labelOverlap=True
    )
    y = alt.Y("datum:O", scale=alt.Scale(paddingInner=0.08, paddingOuter=0.04), axis=axis)
    x = alt.X(
        "start:Q",
        scale=alt.Scale(domain=[0, alt.ExprRef(longest.name)], nice=False),
        axis=alt.Axis(title=MEANING, tickCount=6, tickMinStep=1, titleAnchor="start"),
    )
    starts, again, shown = (
        figure_table(table, "datum", "start", "end").encode(x=x, y=y)
        for table in ("runs", "again", "shown")
    )
    runs = starts.encode(
        x2="end:Q", fill=draw.FILL, tooltip=["datum:Q", "turn:N", "kind:N", "start:Q", "end:Q"]
    )
    # a name stands where it fits
    names = starts.transform_filter(f"datum.label && (datum.fits || width >= {ROOMY})")
    slants = again.encode(
        x2="end:Q", y=alt.Y("datum:O", bandPosition=1), y2=alt.Y2("datum:O", bandPosition=0)
    )
    breaks = figure_table("breaks", "datum", "start").encode(x=x, y=y, tooltip="words:N")
    layers = alt.layer(
        runs.mark_rect(stroke=GREY, strokeWidth=0.5, cornerRadius=0),
        slants.mark_rule(strokeWidth=1.5),
        *draw.cell_label_layers(names, align="left", dx=10),
        breaks.mark_tick(color=RED, thickness=3, bandSize=24),
        *draw.cell_break_sign_layers(breaks.transform_filter("datum.sign")),
        shown.mark_rect(filled=False, stroke=GREY, strokeWidth=3).encode(x2="end:Q"),
    )
    return layers.add_params(longest).to_dict()


def runs_chart_bars(
    runs: Sequence[Run], breaks: Sequence[tuple[int, int, str]], length: int, named: bool
) -> Rows:
    """The table `runs`: a bar per turn and part, with its name where this is clear of breaks."""
    rows = []
    for run in runs:
        label = f"turn {run.turn}: {run.part}" if run.part == "O" else run.part
        ahead = (at - run.start for datum, at, _ in breaks if datum == run.datum)
        free = min([run.length, *(at for at in ahead if at > 0)])
        room = draw.cell_text_width(label) + 14
        rows.append(
            {"datum": run.datum, "start": run.start, "end": run.start + run.length}
            | {"turn": run.turn, "kind": "M" if run.masked else run.part}
            | {"label": label * (named and ROOMY * free / length > room)}
            | {"fits": "yes" * (NARROW * free / length > room)}
        )
    return rows


def runs_chart_hatching(again: Sequence[tuple[int, int, int]], length: int) -> Rows:
    """The table `again`: diagonals over what is read again, evenly over the whole width."""
    rows = []
    for datum, start, end in again:
        count = max(1, round((end - start) * HATCH / length))
        edges = [round(start + (end - start) * at / count, 2) for at in range(count + 1)]
        rows += [{"datum": datum, "start": a, "end": b} for a, b in itertools.pairwise(edges)]
    return rows


def runs_chart(
    runs: Sequence[Run],
    breaks: Sequence[tuple[int, int, str]] = (),
    shown: tuple[int, int, int] | None = None,
    again: Sequence[tuple[int, int, int]] = (),
) -> Figure:
    """A rollout as runs: one row per datum, one bar per turn and part; as wide as there is room.

    Args:
        runs: From `turn_runs`.
        breaks: From `break_table_marks`: where a later turn left a datum.
        shown: (datum, start, size) of the window of single tokens that is drawn elsewhere.
        again: From `staircase_read_again`: (datum, start, end) of what is read again.
    """
    datums = max((run.datum for run in runs), default=0) + 1
    length = max((run.start + run.length for run in runs), default=1)
    row = max(6, min(26, 900 // datums))
    tall = row >= 14  # enough for words
    signs = [
        {"datum": datum, "start": start, "words": words, "sign": "yes" * tall}
        for datum, start, words in breaks
    ]
    windows = [shown] if shown else []
    return Figure(
        runs_chart_template(),
        {
            "runs": runs_chart_bars(runs, breaks, length, tall),
            "again": runs_chart_hatching(again, length),
            "breaks": signs,
            "shown": [{"datum": at, "start": a, "end": a + size} for at, a, size in windows],
        },
        description=(
            f"{turn_runs_finding(runs)}. One row per datum, the longest of {length} tokens; "
            f"{count_text(len(breaks), 'break')} marked."
        ),
        width=WIDTH,
        height=row * datums + 41,
        bound=fluid_figure_size(
            row * datums,
            params=[{"name": "longest", "value": length}],
            padding={"left": 4, "right": 12, "top": 4, "bottom": 4},
        ),
    )
