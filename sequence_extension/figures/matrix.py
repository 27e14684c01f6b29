"""Section 8: renderers against policies."""

import textwrap
from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.env.matrix import VERDICTS, cell_count, cell_words
from sequence_extension.figures import cells as draw
from sequence_extension.figures.figure import Figure, named, pixels, pixels_down, plot, records
from sequence_extension.figures.palette import PALETTE
from sequence_extension.figures.theme import page_text

# Fill and ink of each verdict. Only a claim that fails is red.
MATRIX_LOOK = {
    "kept": PALETTE["zero"],
    "better": {"fill": "#0072B2", "ink": "#FFFFFF"},
    "split": {"fill": "#8B949E", "ink": "#0B0F14"},
    "broken": PALETTE["break"],
    "none": draw.EMPTY,
}
STEP, ROW = 64, 24  # pixels of a cell
HEAD = 56  # pixels above, for the names of the policies
NOTES = 144  # pixels right of the cells, for how often a row splits
LINE, LINES = 16, 10  # below, what the chosen cell holds, in blocks: where they start, and letters
BLOCKS = {"what": (8, 33), "texts": (264, 33), "members": (520, 45)}
MENUS = 44  # pixels of the two menus below
TITLES = {
    "yes": "extension is claimed", "no": "extension is not claimed", "unknown": "not built"
}  # fmt: skip


@cache
def matrix_template() -> Mapping[str, Any]:
    """The figure on its tables `cells`, `rows` and `words`; once per process.

    A click on a cell chooses it, and so do two menus: the parameter `cell` holds row and policy.
    """
    # the menu of the last field stands first
    chosen = alt.selection_point(name="cell", fields=["policy", "row"], on="click", toggle=False)
    cells = alt.Chart(named("cells", "row", "left", "x", "right", "y")).encode(y=pixels_down())
    words = alt.Chart(named("words", "x", "y")).encode(x=pixels("x"), y=pixels_down())
    boxes, *labels = draw.filled_cells(cells, MATRIX_LOOK, height=ROW - 2, cursor="pointer")
    chosen_cell = cells.transform_filter(chosen)
    # black around white: to be seen on every cell and on both pages
    frame = [
        chosen_cell.mark_rect(filled=False, stroke=color, strokeWidth=width, height=ROW - 1).encode(
            x=pixels("left"), x2="right:Q"
        )
        for color, width in (("#000000", 5), ("#FFFFFF", 2))
    ]
    rows = alt.LookupData(named("rows", "row"), "row", ["members"])
    below: dict[str, Any] = {"baseline": "top", "lineHeight": LINE, "yOffset": -LINE * LINES}
    texts = [
        chosen_cell.transform_lookup("row", rows)
        .mark_text(**page_text(align="left", lineBreak="\n", x=x, **below))
        .encode(text=f"{block}:N", y=alt.value("height"))
        for block, (x, _) in BLOCKS.items()
    ]
    return alt.LayerChart(
        layer=[
            boxes.add_params(chosen),
            *labels,
            *frame,
            *draw.word_layers(words),
            *texts,
        ]
    ).to_dict()


def lines(block: str, *texts: str) -> str:
    """Texts below each other, wrapped to the width of a block."""
    return "\n".join(line for text in texts for line in textwrap.wrap(text, BLOCKS[block][1]))


def matrix_cells(table: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """The table `cells` of the matrix: a cell per group and policy, columns that split most first.

    Args:
        table: Of `matrix_table`.
        groups: Of `matrix_groups`, with y (pixels from the top).
    """
    known = {(row["renderer"], row["policy"]): row for row in records(table)}
    splits = (table["datums"] > 1).groupby(table["policy"], sort=False).sum()
    policies = splits.sort_values(ascending=False, kind="stable").index
    cells = []
    for row, group in enumerate(records(groups)):
        for column, policy in enumerate(policies):
            members = [known[name, policy] for name in group["members"]]
            # the best known renderer speaks for its row
            members.sort(key=lambda cell: cell["renderer"] != "qwen3")
            verdict, left = members[0]["verdict"], 8 + column * STEP
            count = cell_count(members[0]["datums"], members[0]["turns"])
            what, texts = cell_words(group["label"], members)
            cells.append(
                (row, policy, left, left + STEP // 2 - 1, left + STEP - 2, group["y"], verdict,
                 f"{count} {VERDICTS[verdict][0]}".strip(), lines("what", *what),
                 lines("texts", *texts))
            )  # fmt: skip
    names = ["row", "policy", "left", "x", "right", "y", "kind", "label", "what", "texts"]
    return pd.DataFrame(cells, columns=names)


def matrix_words(cells: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """The table `words` of the matrix: names of policies, of both parts, and notes on rows."""
    heads = cells.drop_duplicates("policy")
    words = [
        (left + 3, 8, policy.replace("_", "\n").replace("whitespace", "white-\nspace"), "")
        for left, policy in zip(heads["left"], heads["policy"], strict=True)
    ]
    parts = groups.drop_duplicates("claims")
    words += [
        (8, y - ROW, TITLES[claims], "yes")
        for claims, y in zip(parts["claims"], parts["y"], strict=True)
    ]
    right = int(cells["right"].max()) + 10
    words.append((right, 14, "split", ""))
    words += [(right, y, note, "") for y, note in zip(groups["y"], groups["note"], strict=True)]
    return pd.DataFrame(words, columns=["x", "y", "words", "bold"])


def matrix_chart(
    table: pd.DataFrame, groups: pd.DataFrame, first: tuple[str, str] = ("qwen3", "reasoning")
) -> Figure:
    """Renderers against policies: datums over turns, and whether the claim held.

    Colour says what the mark says: a cross where extension is claimed and the rollout splits,
    a plus where it is not claimed and the rollout stays one datum, a dot for an expected
    split. A click on a cell, or the menus, show what is behind it.

    Args:
        table: Of `matrix_table`.
        groups: Of `matrix_groups`.
        first: Renderer and policy of the cell that is chosen at first, if there is one.
    """
    parts = (groups["claims"] != groups["claims"].shift()).cumsum()
    groups = groups.assign(y=HEAD + ROW * (groups.index + parts) - ROW // 2)
    cells = matrix_cells(table, groups)
    policies = cells["policy"].unique().tolist()
    row = next((at for at, own in enumerate(groups["members"]) if first[0] in own), 0)
    chosen = {"row": row, "policy": first[1] if first[1] in policies else policies[0]}
    menus = {
        "row": alt.binding_select(
            options=groups.index.tolist(), labels=groups["label"].tolist(), name="Renderers "
        ).to_dict(),
        "policy": alt.binding_select(options=policies, name="Pupil ").to_dict(),
    }
    template = matrix_template()
    width = max(int(cells["right"].max()) + NOTES, BLOCKS["members"][0] + 334)
    height = int(groups["y"].max()) + ROW + LINE * LINES
    counts = table["verdict"].value_counts()
    verdicts = "; ".join(f"{counts.get(kind, 0)} cells: {VERDICTS[kind][1]}" for kind in VERDICTS)
    members = [
        lines("members", ", ".join(names)) if len(names) > 1 else "" for names in groups["members"]
    ]
    return Figure(
        template,
        {
            "cells": cells,
            "rows": pd.DataFrame({"row": groups.index, "members": members}),
            "words": matrix_words(cells, groups),
        },
        description=(
            f"Matrix of {table['renderer'].nunique()} renderers in {len(groups)} groups by "
            f"{len(policies)} pupils, each cell the datums over the turns of one rollout. "
            f"{verdicts}. The table below the figure holds every cell."
        ),
        width=width,
        height=height,
        menus=MENUS,
        lanes=list(zip(groups["y"], groups["label"], strict=True)),
        bound=plot(
            width, height, params=[{**template["params"][0], "value": [chosen], "bind": menus}]
        ),
    )
