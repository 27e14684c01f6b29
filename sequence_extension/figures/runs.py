"""A rollout as runs, a row per datum: its size grows with turns, not with tokens."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.figures.cells import break_sign, fill_of, text_width, token_looks
from sequence_extension.figures.figure import Figure, named
from sequence_extension.figures.palette import GREY, PALETTE, RED
from sequence_extension.figures.theme import page_text
from sequence_extension.text import count_of
from sequence_extension.turns import Run

WIDTH = 860  # pixels at most; less where there is less
MEANING = "position · ✕ splits · hatched: read again"


@cache
def runs_template() -> Mapping[str, Any]:
    """The figure on its tables `runs`, `again`, `breaks` and `shown`; once per process."""
    axis = alt.Axis(
        title=None, labelExpr="'datum ' + datum.label", labelPadding=12, labelOverlap=True
    )
    y = alt.Y("datum:O", scale=alt.Scale(paddingInner=0.08, paddingOuter=0.04), axis=axis)
    x = alt.X(
        "start:Q",
        scale=alt.Scale(nice=False),
        axis=alt.Axis(title=MEANING, tickCount=6, tickMinStep=1, titleAnchor="start"),
    )
    runs = alt.Chart(named("runs", "datum", "start", "end", "share", "room")).encode(x=x, y=y)
    part = {"O": "observation", "A": "action", "M": "action, masked"}
    bars = (
        runs.transform_calculate(part=f"{part}[datum.kind]", tokens="datum.end - datum.start")
        .mark_rect(stroke=GREY, strokeWidth=0.5, cornerRadius=0)
        .encode(
            x2="end:Q",
            fill=fill_of(token_looks("OAM")),
            tooltip=["datum:Q", "turn:N", "part:N", "start:Q", "tokens:Q"],
        )
    )
    # a name stands where it fits, at whatever width
    names = runs.transform_filter("datum.label && datum.share * width > datum.room")
    again = alt.Chart(named("again", "datum", "start", "end")).encode(x=x, x2="end:Q")
    breaks = alt.Chart(named("breaks", "datum", "start")).encode(x=x, y=y, tooltip="words:N")
    shown = alt.Chart(named("shown", "datum", "start", "end")).encode(x=x, x2="end:Q", y=y)
    return alt.LayerChart(
        layer=[
            bars,
            again.mark_rule(color=GREY, strokeWidth=1.5).encode(
                y=alt.Y("datum:O", bandPosition=1), y2=alt.Y2("datum:O", bandPosition=0)
            ),
            names.transform_filter("datum.kind != 'M'")
            .mark_text(align="left", dx=10)
            .encode(
                text="label:N",
                color=alt.Color(
                    "kind:N",
                    legend=None,
                    scale=alt.Scale(
                        domain=["O", "A"],
                        range=[PALETTE[name]["ink"] for name in ("observation", "action")],
                    ),
                ),
            ),
            names.transform_filter("datum.kind == 'M'")
            .mark_text(**page_text(align="left", dx=10))
            .encode(text="label:N"),
            breaks.mark_tick(color=RED, thickness=3, opacity=1, orient="vertical", bandSize=24),
            *break_sign(breaks.transform_filter("datum.sign")),
            shown.mark_rect(filled=False, stroke=GREY, strokeWidth=3),
        ]
    ).to_dict()


def runs_finding(runs: Sequence[Run]) -> str:
    """One sentence for a rollout drawn as runs."""
    total = sum(run.length for run in runs)
    actions = sum(run.length for run in runs if run.part == "A")
    turns, datums = len({run.turn for run in runs}), len({run.datum for run in runs})
    return (
        f"{count_of(turns, 'turn')} {'makes' if turns == 1 else 'make'} "
        f"{count_of(datums, 'datum')} of {count_of(total, 'token')}, {actions:,} of them actions"
    )


def runs_bars(
    runs: Sequence[Run], breaks: Sequence[tuple[int, int, str]], length: int, named: bool
) -> pd.DataFrame:
    """The table `runs`: a bar per turn and part, with its name and the room that this takes.

    Args:
        runs: From `datum_runs`.
        breaks: From `break_marks`: a name stands clear of their signs.
        length: Positions of the longest datum.
        named: There is height for names.
    """
    rows = []
    for run in runs:
        kind = "M" if run.masked else run.part
        label = f"turn {run.turn} {run.part}" if run.part == "O" else run.part
        ahead = [at - run.start for datum, at, _ in breaks if datum == run.datum]
        free = min([at for at in ahead if 0 < at < run.length], default=run.length)
        share = round(free / length, 4)
        end, room = run.start + run.length, text_width(label) + 14
        rows.append((run.datum, run.start, end, run.turn, kind, label * named, share, room))
    names = ["datum", "start", "end", "turn", "kind", "label", "share", "room"]
    return pd.DataFrame(rows, columns=names)


def hatching(again: Sequence[tuple[int, int, int]], length: int) -> pd.DataFrame:
    """The table `again`: diagonals over what is read again, evenly over the whole width."""
    pitch = length / 80
    rows = []
    for datum, start, end in again:
        count = max(1, round((end - start) / pitch))
        step = (end - start) / count
        rows += [
            (datum, round(start + step * place, 2), round(start + step * (place + 1), 2))
            for place in range(count)
        ]
    return pd.DataFrame(rows, columns=["datum", "start", "end"])


def runs_chart(
    runs: Sequence[Run],
    breaks: Sequence[tuple[int, int, str]] = (),
    shown: tuple[int, int, int] | None = None,
    again: Sequence[tuple[int, int, int]] = (),
) -> Figure:
    """A rollout as runs: one row per datum, one bar per turn and part; as wide as there is room.

    Args:
        runs: From `datum_runs`.
        breaks: From `break_marks`: where a later turn left a datum.
        shown: (datum, start, size) of the window of single tokens that is drawn elsewhere.
        again: From `again_runs`: (datum, start, end) of what an earlier datum had as input.
    """
    datums = max((run.datum for run in runs), default=0) + 1
    length = max((run.start + run.length for run in runs), default=1)
    row = max(6, min(26, 900 // datums))
    frame = [] if shown is None else [(shown[0], shown[1], shown[1] + shown[2])]
    actions = sum(run.length for run in runs if run.part == "A")
    total = sum(run.length for run in runs)
    return Figure(
        runs_template(),
        {
            "runs": runs_bars(runs, breaks, length, row >= 14),
            "again": hatching(again, length),
            "breaks": pd.DataFrame(breaks, columns=["datum", "start", "words"]).assign(
                sign="yes" if row >= 14 else ""
            ),
            "shown": pd.DataFrame(frame, columns=["datum", "start", "end"]),
        },
        description=(
            f"{count_of(len({run.turn for run in runs}), 'turn')} as "
            f"{count_of(datums, 'datum')}, one row each: {total} tokens, {actions} of them "
            f"actions; the longest datum holds {length} tokens; "
            f"{count_of(len(breaks), 'break')} marked."
        ),
        width=WIDTH,
        height=row * datums + 41,
        fluid=True,
        bound={
            "width": "container",
            "height": row * datums,
            "autosize": {"type": "fit-x", "contains": "padding"},
            "padding": {"left": 4, "right": 12, "top": 4, "bottom": 4},
        },
    )
