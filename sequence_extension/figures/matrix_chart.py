"""Section 8: renderers against policies."""

import textwrap
from collections.abc import Mapping, Sequence
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
    FORM_FILTER,
    Figure,
    Rows,
    figure_form,
    figure_pixels,
    figure_records,
    figure_table,
    fluid_figure_size,
)

WIDE = 1000  # pixels of the figure; with less it is narrow
# Pixels in both forms: of a row; above, of the names of policies, in lines or upright; left of
# the cells, of the names of renderers; right of them, of how often a row splits; of the menus.
ROWS = {"wide": 24, "narrow": 30}
HEADS = {"wide": 36, "narrow": 106}
NAMES = {"wide": 192, "narrow": 128}
NOTES = {"wide": 108, "narrow": 38}
MENUS = {"wide": 42, "narrow": 84}
LINE, FOOT = 16, 5  # pixels of a line of words below, and below all
TITLES = {
    "yes": "extension is claimed", "no": "extension is not claimed", "unknown": "not built"
}  # fmt: skip


def matrix_chart_form(wide: str | int, narrow: str | int) -> alt.ExprRef:
    """One of two values, by the form that is drawn."""
    return alt.ExprRef(f"form == 'wide' ? {wide} : {narrow}")


def matrix_chart_axis() -> alt.Axis:
    """Names of the policies above the cells: in lines, or upright where there is little room."""
    words = "split(replace(datum.label, 'whitesp', 'white-_sp'), '_')"
    return alt.Axis(
        orient="top",
        title=None,
        labelOverlap=False,
        labelLimit=0,
        labelExpr=matrix_chart_form(words, "datum.label").expr,
        labelAngle=matrix_chart_form(0, -90),
        labelAlign=matrix_chart_form("'center'", "'left'"),
        labelBaseline=matrix_chart_form("'top'", "'middle'"),
        labelPadding=matrix_chart_form(HEADS["wide"] - 4, 4),
    )


@cache
def matrix_chart_template() -> Mapping[str, Any]:
    """The figure on its tables `cells`, `names`, `notes`, `parts` and `facts`; once per process.

    A click on a cell chooses it, and so do two menus: the parameter `cell` holds row and policy.
    """
    # the menu of the last field stands first
    chosen = alt.selection_point(name="cell", fields=["policy", "row"], on="click", toggle=False)
    left, row = matrix_chart_form(**NAMES), matrix_chart_form(**ROWS)
    right = alt.ExprRef(f"width - ({matrix_chart_form(**NOTES).expr})")
    across = alt.Scale(range=[left, right], padding=0.04)
    down = alt.Scale(domain=[-0.5, 0.5], range=[0, row])

    def at(column: str) -> alt.Y:
        return alt.Y(f"{column}:Q", axis=None, scale=down)

    def worded(table: str, *numbers: str) -> alt.Chart:
        """A table with a column of words for each form."""
        chart: alt.Chart = figure_table(table, "place", *numbers).encode(y=at("place"))
        return chart.transform_calculate(label="datum[form]")

    policy = alt.X("policy:N", sort=None, axis=matrix_chart_axis(), scale=across)
    cells = worded("cells", "row").encode(x=policy)
    box: dict[str, Any] = {"height": alt.ExprRef(f"({row.expr}) - 2")}
    # black around white: to be seen on every cell and on both pages
    frames = [
        cells.transform_filter(chosen).mark_rect(
            filled=False, stroke=color, strokeWidth=width, **box
        )
        for color, width in (("#000000", 5), ("#FFFFFF", 2))
    ]
    parts = figure_table("parts", "place", "left", "top", "right", "bottom")
    titles = parts.encode(x=figure_pixels("right"), y=at("place"))
    facts = figure_table("facts", "row", "place", "x").encode(y=at("place"))
    facts = facts.transform_filter(chosen).transform_filter(FORM_FILTER)
    lift = alt.ExprRef("indexof(datum.label, '\\n') < 0 ? 0 : -6")  # of two lines
    drawing = alt.layer(
        cells.mark_rect(cursor="pointer", **box).encode(fill=draw.FILL).add_params(chosen),
        *draw.cell_label_layers(cells),
        *frames,
        *draw.cell_bracket_layers(parts.encode(x=figure_pixels("left"), y=at("top")), at("bottom")),
        draw.cell_words_layer(titles, dx=3, fontWeight="bold"),
        draw.cell_words_layer(worded("names"), "label", x=left, align="right", dx=-8, dy=lift),
        draw.cell_words_layer(worded("notes"), "label", x=right, dx=8),
        draw.cell_words_layer(facts, baseline="top", lineHeight=LINE),
    )
    return drawing.add_params(figure_form(WIDE)).to_dict()


def matrix_chart_facts(label: str, names: Sequence[str], members: Rows) -> Rows:
    """What a cell holds: beside each other what came of it and which renderers it stands for.

    In a narrow figure, below each other; of many renderers, whose number is said, the first.
    """
    what, texts = matrix_table_cell_words(label, members)
    told, listed = ["; ".join(what), *texts], ", ".join(names) * (len(names) > 1)
    few = textwrap.wrap(listed, 52, max_lines=3, placeholder=" …")
    blocks = (("wide", 0, 82, told), ("wide", 570, 60, [listed]), ("narrow", 0, 52, [*told, *few]))
    return [
        {
            "at": at,
            "x": x,
            "words": "\n".join(line for text in block for line in textwrap.wrap(text, letters)),
        }
        for at, x, letters, block in blocks
    ]


def matrix_chart_cells(table: pd.DataFrame, groups: pd.DataFrame) -> tuple[Rows, Rows]:
    """The tables `cells` and `facts`: per group and policy, columns that split most first."""
    known = {(row["renderer"], row["policy"]): row for row in figure_records(table)}
    splits = (table["datums"] > 1).groupby(table["policy"], sort=False).sum()
    policies = splits.sort_values(ascending=False, kind="stable").index
    end = groups["place"].max() + 1
    cells, facts = Rows(), Rows()
    for row, group in enumerate(figure_records(groups)):
        for policy in policies:
            members = [known[name, policy] for name in group["members"]]
            # the best known renderer speaks for its row
            members.sort(key=lambda cell: cell["renderer"] != "qwen3")
            verdict = members[0]["verdict"]
            count = matrix_table_cell_count(members[0]["datums"], members[0]["turns"])
            own = {"row": row, "policy": policy}
            labels = {
                "wide": f"{count} {VERDICTS[verdict][0]}".strip(),
                # no room for more: the part of the figure tells what is claimed
                "narrow": count.partition("/")[0],
            }
            cells.append({**own, "place": group["place"], "kind": verdict, **labels})
            blocks = matrix_chart_facts(group["label"], group["members"], members)
            facts += [{**own, "place": end, **block} for block in blocks]
    return cells, facts


def matrix_chart_rows(groups: pd.DataFrame) -> dict[str, Rows]:
    """The tables `names` and `notes`, of rows, and `parts`: their brackets with a title."""
    names, parts = Rows(), Rows()
    notes = [{"place": -0.8, "wide": "split", "narrow": "split"}]
    for claims, part in groups.groupby("claims", sort=False):
        first, last = part["place"].iloc[0] - 1, part["place"].iloc[-1]
        bracket = {"left": 3, "top": first - 0.3, "right": 8, "bottom": last + 0.4}
        parts.append({"place": first, **bracket, "words": TITLES[str(claims)]})
    for row in figure_records(groups):
        # in two lines at most, broken behind underscores: textwrap breaks behind hyphens
        lines = textwrap.wrap(row["label"].replace("_", "-"), 17, max_lines=2, placeholder="…")
        short = "\n".join(lines).replace("-", "_")
        names.append({"place": row["place"], "wide": row["label"], "narrow": short})
        notes.append({"place": row["place"], "wide": row["note"], "narrow": row["split"]})
    return {"names": names, "notes": notes, "parts": parts}


def matrix_chart(
    table: pd.DataFrame, groups: pd.DataFrame, first: tuple[str, str] = ("qwen3", "reasoning")
) -> Figure:
    """A `matrix_table` with its `matrix_table_groups`: datums over turns, and if claims held.

    Colour says what the mark says: a cross where extension is claimed and the rollout splits,
    a plus where it is not claimed and the rollout stays one datum, a dot for an expected
    split. The cell of `first`, then that of a click or of the menus, is told below.
    """
    parts = (groups["claims"] != groups["claims"].shift()).cumsum()
    groups = groups.assign(place=groups.index + parts)  # a row for the name of each part
    cells, facts = matrix_chart_cells(table, groups)
    policies = list(dict.fromkeys(cell["policy"] for cell in cells))
    row = next((at for at, own in enumerate(groups["members"]) if first[0] in own), 0)
    chosen = {"row": row, "policy": first[1] if first[1] in policies else policies[0]}
    rows, labels = groups.index.tolist(), groups["label"].tolist()
    menus = {
        "row": alt.binding_select(options=rows, labels=labels, name="Renderers ").to_dict(),
        "policy": alt.binding_select(options=policies, name="Pupil ").to_dict(),
    }
    template = matrix_chart_template()
    cell, form = template["params"]
    count = len(groups) + int(parts.max())
    height, narrow = (
        MENUS[at]
        + HEADS[at]
        + round(ROWS[at] * (count + 0.5))
        + LINE * max(len(own["words"].split("\n")) for own in facts if own["at"] == at)
        + FOOT
        for at in ("wide", "narrow")
    )
    counts = table["verdict"].value_counts()
    verdicts = "; ".join(f"{counts.get(kind, 0)} cells: {VERDICTS[kind][1]}" for kind in VERDICTS)
    return Figure(
        template,
        {"cells": cells, "facts": facts, **matrix_chart_rows(groups)},
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
            params=[form, {**cell, "value": [chosen], "bind": menus}],
        ),
    )
