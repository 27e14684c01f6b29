"""Section 8: renderers against policies."""

import textwrap
from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.env.matrix_table import (
    VERDICTS,
    matrix_table_cell_count,
    matrix_table_cell_words,
)
from sequence_extension.figures import cells as draw
from sequence_extension.figures.figure import (
    Figure,
    Rows,
    figure_data,
    figure_pixels,
    figure_records,
    fluid_figure_size,
)

WIDE = 1000  # pixels of the figure; with less it is narrow
ROWS = {"wide": 24, "narrow": 30}  # pixels of a row
HEADS = {"wide": 36, "narrow": 106}  # above: names of policies, in lines or upright
NAMES = {"wide": 180, "narrow": 112}  # left of the cells: of renderers
NOTES = {"wide": 120, "narrow": 24}  # right of them: how often a row splits
MENUS, FOOT = {"wide": 42, "narrow": 84}, 5  # of the two menus, and below all
# Below, what the chosen cell holds, in two blocks or one: pixels from the left, letters of a line.
FACTS, LINE = {"what": (0, 82), "members": (570, 60), "narrow": (0, 52)}, 16
TITLES = {
    "yes": "extension is claimed", "no": "extension is not claimed", "unknown": "not built"
}  # fmt: skip


def matrix_chart_room(wide: str | int, narrow: str | int) -> alt.ExprRef:
    """One of two values, by the width that there is."""
    return alt.ExprRef(f"width < {WIDE} ? {narrow} : {wide}")


def matrix_chart_axis() -> alt.Axis:
    """Names of the policies above the cells: in lines, or upright where there is little room."""
    return alt.Axis(
        orient="top",
        title=None,
        labelOverlap=False,
        labelLimit=0,
        labelExpr=matrix_chart_room(
            "split(replace(datum.label, 'whitesp', 'white-_sp'), '_')", "datum.label"
        ).expr,
        labelAngle=matrix_chart_room(0, -90),
        labelAlign=matrix_chart_room("'center'", "'left'"),
        labelBaseline=matrix_chart_room("'top'", "'middle'"),
        labelPadding=matrix_chart_room(HEADS["wide"] - 4, 4),
    )


@cache
def matrix_chart_template() -> Mapping[str, Any]:
    """The figure on its tables `cells`, `rows` and `facts`; once per process.

    Words stand in two columns, for a wide figure and for a narrow one. A click on a cell chooses
    it, and so do two menus: the parameter `cell` holds row and policy.
    """
    # the menu of the last field stands first
    chosen = alt.selection_point(name="cell", fields=["policy", "row"], on="click", toggle=False)
    left = matrix_chart_room(**NAMES)
    right = alt.ExprRef(f"width - ({matrix_chart_room(**NOTES).expr})")
    across = alt.Scale(range=[left, right], padding=0.04)
    x = alt.X("policy:N", sort=None, axis=matrix_chart_axis(), scale=across)
    rows = alt.Scale(domain=[-0.5, 0.5], range=[0, matrix_chart_room(**ROWS)])
    y = alt.Y("place:Q", axis=None, scale=rows)

    def worded(table: str, wide: str = "wide", narrow: str = "narrow") -> alt.Chart:
        label = f"width < {WIDE} ? datum.{narrow} : datum.{wide}"
        data = alt.Chart(figure_data(table, "row", "place")).encode(y=y)
        return data.transform_calculate(label=label)

    cells = worded("cells").encode(x=x)
    box: dict[str, Any] = {"height": alt.ExprRef(f"({matrix_chart_room(**ROWS).expr}) - 2")}
    # black around white: to be seen on every cell and on both pages
    frame = [
        cells.transform_filter(chosen).mark_rect(
            filled=False, stroke=color, strokeWidth=width, **box
        )
        for color, width in (("#000000", 5), ("#FFFFFF", 2))
    ]

    facts = (
        alt.Chart(figure_data("facts", "row", "place", "x"))
        .transform_filter(chosen)
        .transform_filter(f"(datum.at == 'narrow') == (width < {WIDE})")
        .encode(x=figure_pixels("x"), y=y)
    )
    names = worded("rows")
    return alt.layer(
        cells.mark_rect(cursor="pointer", **box).encode(fill=draw.FILL).add_params(chosen),
        *draw.cell_label_layers(cells),
        *frame,
        draw.cell_words_layer(
            names.transform_filter("!datum.title"),
            "label",
            x=left,
            align="right",
            dx=-8,
            dy=alt.ExprRef("indexof(datum.label, '\\n') < 0 ? 0 : -6"),
        ),
        draw.cell_words_layer(
            names.transform_filter("datum.title"), "label", x=left, fontWeight="bold"
        ),
        draw.cell_words_layer(worded("rows", "note", "split"), "label", x=right, dx=8),
        draw.cell_words_layer(facts, baseline="top", lineHeight=LINE),
    ).to_dict()


def matrix_chart_cells(table: pd.DataFrame, groups: pd.DataFrame) -> tuple[Rows, Rows]:
    """The tables `cells` and `facts`: per group and policy, columns that split most first."""
    known = {(row["renderer"], row["policy"]): row for row in figure_records(table)}
    splits = (table["datums"] > 1).groupby(table["policy"], sort=False).sum()
    policies = splits.sort_values(ascending=False, kind="stable").index
    end = groups["place"].max() + 1
    cells, facts = [], []
    for row, group in enumerate(figure_records(groups)):
        for policy in policies:
            members = [known[name, policy] for name in group["members"]]
            # the best known renderer speaks for its row
            members.sort(key=lambda cell: cell["renderer"] != "qwen3")
            verdict = members[0]["verdict"]
            count = matrix_table_cell_count(members[0]["datums"], members[0]["turns"])
            # where there is no room for more: the part of the figure tells what is claimed
            labels = f"{count} {VERDICTS[verdict][0]}".strip(), count.partition("/")[0]
            place = {"row": row, "place": group["place"], "policy": policy}
            cells.append({**place, "kind": verdict, "wide": labels[0], "narrow": labels[1]})
            what, texts = matrix_table_cell_words(group["label"], members)
            told = ["; ".join(what), *texts]
            listed = [", ".join(group["members"])] * (len(members) > 1)
            for at, block in (("what", told), ("members", listed), ("narrow", [*told, *listed])):
                x, letters = FACTS[at]
                lines = [line for text in block for line in textwrap.wrap(text, letters)]
                facts.append({**place, "place": end, "at": at, "x": x, "words": "\n".join(lines)})
    return cells, facts


def matrix_chart_names(name: str) -> str:
    """A name in two lines at most, broken at blanks and behind underscores."""
    # textwrap breaks behind hyphens
    wrapped = textwrap.wrap(name.replace("_", "-"), 17, max_lines=2, placeholder="…")
    return "\n".join(wrapped).replace("-", "_")


def matrix_chart_rows(groups: pd.DataFrame) -> Rows:
    """The table `rows`: names of both parts and of all rows, with notes on these."""
    rows = [(-0.8, "", "", "split", "split", "")]
    for claims, part in groups.groupby("claims", sort=False):
        title = TITLES[str(claims)]
        rows.append((part["place"].iloc[0] - 1, title, title, "", "", "yes"))
        rows += [
            (
                own["place"],
                own["label"],
                matrix_chart_names(own["label"]),
                own["note"],
                own["split"],
                "",
            )
            for own in figure_records(part)
        ]
    names = ("place", *ROWS, "note", "split", "title")
    return [dict(zip(names, row, strict=True)) for row in rows]


def matrix_chart(
    table: pd.DataFrame, groups: pd.DataFrame, first: tuple[str, str] = ("qwen3", "reasoning")
) -> Figure:
    """Renderers against policies: datums over turns, and whether the claim held.

    Colour says what the mark says: a cross where extension is claimed and the rollout splits,
    a plus where it is not claimed and the rollout stays one datum, a dot for an expected
    split. A click on a cell, or the menus, show what is behind it.

    Args:
        table: Of `matrix_table`.
        groups: Of `matrix_table_groups`.
        first: Renderer and policy of the cell that is chosen at first, if there is one.
    """
    parts = (groups["claims"] != groups["claims"].shift()).cumsum()
    groups = groups.assign(place=groups.index + parts)  # a row for the name of each part
    cells, facts = matrix_chart_cells(table, groups)
    policies = list(dict.fromkeys(cell["policy"] for cell in cells))
    row = next((at for at, own in enumerate(groups["members"]) if first[0] in own), 0)
    chosen = {"row": row, "policy": first[1] if first[1] in policies else policies[0]}
    menus = {
        "row": alt.binding_select(
            options=groups.index.tolist(), labels=groups["label"].tolist(), name="Renderers "
        ).to_dict(),
        "policy": alt.binding_select(options=policies, name="Pupil ").to_dict(),
    }
    template = matrix_chart_template()
    count = len(groups) + int(parts.max())
    height, narrow = (
        MENUS[at]
        + HEADS[at]
        + round(ROWS[at] * (count + 0.5))
        + LINE * max(len(own["words"].split("\n")) for own in facts if own["at"] in blocks)
        + FOOT
        for at, blocks in (("wide", ("what", "members")), ("narrow", ("narrow",)))
    )
    counts = table["verdict"].value_counts()
    verdicts = "; ".join(f"{counts.get(kind, 0)} cells: {VERDICTS[kind][1]}" for kind in VERDICTS)
    return Figure(
        template,
        {"cells": cells, "rows": matrix_chart_rows(groups), "facts": facts},
        description=(
            f"Matrix of {table['renderer'].nunique()} renderers in {len(groups)} groups by "
            f"{len(policies)} pupils, each cell the datums over the turns of one rollout. "
            f"{verdicts}. The table below the figure holds every cell."
        ),
        width=WIDE,
        height=height,
        narrow=narrow,
        bound=fluid_figure_size(
            ROWS["wide"] * count,
            padding={"left": 0, "right": 0, "top": 0, "bottom": FOOT},
            params=[{**template["params"][0], "value": [chosen], "bind": menus}],
        ),
    )
