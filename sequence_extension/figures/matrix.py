"""Section 8: renderers against policies."""

import itertools
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import altair as alt
import pandas as pd

from sequence_extension.figures.cells import EMPTY, filled_cells, text_width
from sequence_extension.figures.figure import Figure, named, pixels, plot, records
from sequence_extension.figures.palette import PALETTE
from sequence_extension.figures.theme import page_text
from sequence_extension.text import count_of, visible_text, wrap_words
from sequence_extension.wording import cause_name

# The matrix: a renderer's claim beside one rollout. Only a claim that fails is red.
MATRIX_LOOK = {
    "kept": {**PALETTE["zero"], "mark": "", "words": "claims extension, stays one datum"},
    "better": {
        "fill": "#0072B2",
        "ink": "#FFFFFF",
        "mark": "+",
        "words": "does not claim it, yet stays one datum",
    },
    "split": {
        "fill": "#8B949E",
        "ink": "#0B0F14",
        "mark": "·",
        "words": "does not claim it, and splits",
    },
    "broken": {**PALETTE["break"], "mark": "✕", "words": "claims extension, yet splits"},
    "none": {**EMPTY, "mark": "", "words": "nothing to compare"},
}
STEP, ROW = 64, 24  # pixels of a cell
HEAD = 56  # pixels above, for the names of the policies
NOTES = 144  # pixels right of the cells, for how often a row splits
FACTS, LINE = 9, 18  # lines below, for what the chosen cell holds, and pixels of one
TOLD = ["place", "before", "held", "came"]  # of its first break


@cache
def matrix_template() -> Mapping[str, Any]:
    """The figure on its tables `cells`, `rows`, `breaks`, `words`; once per process.

    A click on a cell chooses it: the parameter `cell` holds its row and policy.
    """
    chosen = alt.selection_point(name="cell", fields=["row", "policy"], toggle=False)
    cells = alt.Chart(named("cells", "row", "left", "x", "right", "y", "break")).encode(
        y=alt.Y("y:Q", scale=None, axis=None)
    )
    words = (
        alt.Chart(named("words", "x", "y"))
        .encode(x=pixels("x"), y=alt.Y("y:Q", scale=None, axis=None), text="words:N")
        .transform_calculate(heavy="datum.bold == 'yes'")
    )
    told = (
        cells.transform_filter(chosen)
        .transform_lookup("row", alt.LookupData(named("rows", "row"), "row", ["members"]))
        .transform_lookup("break", alt.LookupData(named("breaks", "break"), "break", TOLD))
    )
    lines = [
        told.transform_filter(f"datum.{column}")
        .mark_text(
            **page_text(align="left", baseline="top", lineHeight=LINE),
            # names of renderers hold no bar, but texts of tokens do
            lineBreak="|" if column == "members" else alt.Undefined,
            x=8,
            yOffset=LINE * (line - FACTS),
        )
        .encode(text=f"{column}:N", y=alt.value("height"))
        for line, column in enumerate(["what", *TOLD, "members"])
    ]
    boxes, *labels = filled_cells(cells, MATRIX_LOOK, height=ROW - 2, cursor="pointer")
    # black around white: to be seen on every cell and on both pages
    chosen_box = cells.transform_filter(chosen).encode(x=pixels("left"), x2="right:Q")
    frame = [
        chosen_box.mark_rect(filled=False, stroke=color, strokeWidth=width, height=ROW - 1)
        for color, width in (("#000000", 5), ("#FFFFFF", 2))
    ]
    return alt.LayerChart(
        layer=[
            boxes.add_params(chosen),
            *labels,
            *frame,
            words.transform_filter("!datum.heavy").mark_text(
                **page_text(align="left", lineBreak="|", lineHeight=13)
            ),
            words.transform_filter("datum.heavy").mark_text(
                **page_text(align="left", fontWeight="bold")
            ),
            *lines,
        ]
    ).to_dict()


def group_name(names: Sequence[str]) -> str:
    """What renderers that behave alike are called in one row."""
    if len(names) == 1:
        return names[0]
    families = list(dict.fromkeys(re.sub("v?[0-9].*|_.*", "", name) for name in names))
    if len(families) == 1:
        parts = zip(*(name.split("_") for name in names), strict=False)
        alike = itertools.takewhile(lambda words: len(set(words)) == 1, parts)
        shared = "_".join(words[0] for words in alike)
        return f"{len(names)} {shared or families[0]} variants"
    if len(families) > 3:
        return f"{len(names)} renderers of {len(families)} families"
    return f"{len(names)} of {', '.join(families)}"


def matrix_groups(table: pd.DataFrame) -> pd.DataFrame:
    """Renderers that claim alike and count alike under every policy, a row per group.

    Returns:
        Columns claims, members (a tuple, its first stands for all), split (policies under which
        they split), label, note (how often, and what is remarkable). Those that claim
        extension come first, and in each part those that split most.
    """
    known = table.fillna({"datums": 0, "turns": 0})
    rows: dict[Any, list[str]] = {}
    splits: dict[Any, int] = {}
    for (renderer, claims), own in known.groupby(["renderer", "claims"], sort=False):
        key = (claims, *own[["datums", "turns"]].itertuples(index=False, name=None))
        rows.setdefault(key, []).append(str(renderer))
        splits[key] = int((own["datums"] > 1).sum())
    order = {"yes": 0, "no": 1}
    keys = sorted(rows, key=lambda key: (order.get(key[0], 2), -splits[key]))
    groups = pd.DataFrame(
        {
            "claims": [key[0] for key in keys],
            "members": [tuple(rows[key]) for key in keys],
            "split": [splits[key] for key in keys],
            "label": [group_name(rows[key]) for key in keys],
        }
    )
    policies = table["policy"].nunique()
    notes = [f"{count} of {policies}" for count in groups["split"]]
    for claims, remark in (("yes", ", claimed"), ("no", "")):
        part = [at for at, own in enumerate(groups["claims"]) if own == claims]
        if part:  # they stand in order: the first splits most, the last least
            at = part[0] if claims == "yes" else part[-1]
            notes[at] = f"{'' if claims == 'yes' else 'only '}{notes[at]}{remark}"
    return groups.assign(note=notes)


def matrix_cells(table: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """The table `cells` of the matrix: a cell per group and policy, columns that split most first.

    Args:
        table: Of `matrix_table`.
        groups: Of `matrix_groups`, with y (pixels from the top).
    """
    numbered = table.assign(**{"break": break_numbers(table)})
    told = {(row["renderer"], row["policy"]): row for row in records(numbered)}
    splits = (table["datums"] > 1).groupby(table["policy"], sort=False).sum()
    policies = splits.sort_values(ascending=False, kind="stable").index
    cells = []
    for row, group in enumerate(records(groups)):
        for column, policy in enumerate(policies):
            cell = told[group["members"][0], policy]
            look = MATRIX_LOOK[cell["verdict"]]
            count = "?" if pd.isna(cell["datums"]) else f"{cell['datums']:.0f}/{cell['turns']:.0f}"
            ending = "" if cell["ending"] == "completed" else cell["reason"] or cell["ending"]
            made = (
                "no datum"
                if pd.isna(cell["datums"])
                else f"{count_of(int(cell['datums']), 'datum')} of {int(cell['turns'])} turns"
            )
            what = (
                f"{group['label']}, pupil {policy}: {made}; {look['words']}"
                f"{f'; ended with {ending}' if ending else ''}"
            )
            left, number = 8 + column * STEP, "" if pd.isna(cell["break"]) else int(cell["break"])
            cells.append(
                (row, policy, left, left + STEP // 2 - 1, left + STEP - 2, group["y"],
                 cell["verdict"], f"{count} {look['mark']}".strip(), number, what)
            )  # fmt: skip
    names = ["row", "policy", "left", "x", "right", "y", "kind", "label", "break", "what"]
    return pd.DataFrame(cells, columns=names)


def matrix_words(cells: pd.DataFrame, groups: pd.DataFrame) -> pd.DataFrame:
    """The table `words` of the matrix: names of policies, of both parts, and notes on rows."""
    heads = cells.drop_duplicates("policy")
    words = [
        (left + 3, 8, policy.replace("_", "|").replace("whitespace", "white-|space"), "no")
        for left, policy in zip(heads["left"], heads["policy"], strict=True)
    ]
    names = {
        "yes": "extension is claimed",
        "no": "extension is not claimed",
        "unknown": "not built",
    }
    for claims, part in groups.groupby("claims", sort=False):
        words.append((8, int(part["y"].iloc[0]) - ROW, names[str(claims)], "yes"))
    right = int(cells["right"].max()) + 10
    words.append((right, 14, "split", "no"))
    words += [(right, y, note, "no") for y, note in zip(groups["y"], groups["note"], strict=True)]
    return pd.DataFrame(words, columns=["x", "y", "words", "bold"])


def matrix_chart(table: pd.DataFrame, first: tuple[str, str] = ("qwen3", "reasoning")) -> Figure:
    """Renderers against policies: datums over turns, and whether the claim held.

    Colour says what the mark says: a cross where extension is claimed and the rollout splits,
    a plus where it is not claimed and the rollout stays one datum, a dot for an expected
    split. A click on a cell shows what is behind it.

    Args:
        table: Of `matrix_table`.
        first: Renderer and policy of the cell that is chosen at first, if there is one.
    """
    groups = matrix_groups(table)
    parts = (groups["claims"] != groups["claims"].shift()).cumsum()
    groups["y"] = HEAD + ROW * (groups.index + parts) - ROW // 2
    cells = matrix_cells(table, groups)
    breaks = matrix_breaks(table, 80)
    breaks["place"] = [
        f"first break: turn {turn}, position {position}: {cause_name(cause)}"
        for turn, position, cause in zip(
            breaks["turn"], breaks["position"], breaks["cause"], strict=True
        )
    ]
    for column, words in (
        ("before", "both had"),
        ("held", "held"),
        ("came", "the next prompt has"),
    ):
        breaks[column] = [f"{words}: {text}" for text in breaks[column]]
    longest = max(text_width(text) for text in [*cells["what"], *breaks[TOLD].to_numpy().ravel()])
    width = max(int(cells["right"].max()) + NOTES, longest + 16)
    letters = width // 7
    members = ["|".join(wrap_words(", ".join(names), letters)) for names in groups["members"]]
    height = int(groups["y"].max()) + ROW + LINE * FACTS
    template = matrix_template()
    row = next((at for at, own in enumerate(groups["members"]) if first[0] in own), 0)
    policy = first[1] if first[1] in set(cells["policy"]) else cells["policy"][0]
    value = [{"row": row, "policy": policy}]
    return Figure(
        template,
        {
            "cells": cells,
            "rows": pd.DataFrame({"row": groups.index, "members": members}),
            "breaks": breaks[["break", *TOLD]],
            "words": matrix_words(cells, groups),
        },
        description=matrix_description(table, len(groups)),
        width=width,
        height=height,
        lanes=list(zip(groups["y"], groups["label"], strict=True)),
        bound=plot(width, height, params=[{**template["params"][0], "value": value}]),
    )


def matrix_description(table: pd.DataFrame, groups: int) -> str:
    """What the matrix shows, in words."""
    counts = table["verdict"].value_counts()
    cells = "; ".join(
        f"{counts.get(kind, 0)} cells: {look['words']}" for kind, look in MATRIX_LOOK.items()
    )
    return (
        f"Matrix of {table['renderer'].nunique()} renderers in {groups} groups by "
        f"{table['policy'].nunique()} pupils, each cell the datums over the turns of one "
        f"rollout. {cells}. The table below the figure holds every cell."
    )


def matrix_finding(table: pd.DataFrame) -> str:
    """The matrix in one sentence: how often the claim held, in both directions."""
    counts = table["verdict"].value_counts()
    claiming = int(counts.get("kept", 0) + counts.get("broken", 0))
    silent = int(counts.get("better", 0) + counts.get("split", 0))
    return (
        f"{counts.get('broken', 0)} of {claiming} rollouts split although their renderer "
        f"claims extension; {counts.get('better', 0)} of {silent} stay one datum although "
        "theirs does not"
    )


def break_numbers(table: pd.DataFrame) -> pd.Series:
    """For each cell of the matrix the number of its first break; cells that break alike share it.

    Returns:
        Numbers from 1 on, those with the same texts side by side; missing where nothing breaks.
    """
    alike = ["before", "came", "turn", "position", "cause", "held"]
    numbers = table[table["cause"] != ""].groupby(alike).ngroup() + 1
    return numbers.reindex(table.index).astype("Int64")


def matrix_breaks(table: pd.DataFrame, width: int = 40) -> pd.DataFrame:
    """The first breaks that the cells of the matrix show, each once.

    Args:
        table: Of `matrix_table`.
        width: Characters of each text at most.

    Returns:
        Columns break (its number), turn, position, cause, before, held, came.
    """
    found = table.assign(**{"break": break_numbers(table)}).dropna(subset="break")
    found = found.drop_duplicates("break").sort_values("break")
    texts = {
        name: [visible_text(text, width) for text in found[name]]
        for name in ("before", "held", "came")
    }
    places = found[["break", "turn", "position"]].astype(int)
    return places.assign(cause=found["cause"], **texts)


def matrix_facts(table: pd.DataFrame) -> pd.DataFrame:
    """The matrix as a table, a row per renderer: counts, mark, number of the break, ending.

    Where the episode ended as completed, that is not said again.
    """
    told = [
        " ".join(
            [
                "none" if pd.isna(datums) else f"{datums:.0f}/{turns:.0f}",
                *([mark] if (mark := MATRIX_LOOK[verdict]["mark"]) else []),
                *([] if pd.isna(number) else [f"#{number}"]),
                *([] if ending == "completed" else [reason or ending]),
            ]
        )
        for datums, turns, verdict, number, ending, reason in zip(
            table["datums"],
            table["turns"],
            table["verdict"],
            break_numbers(table),
            table["ending"],
            table["reason"],
            strict=True,
        )
    ]
    wide = table.assign(told=told).pivot(
        index=["renderer", "claims"], columns="policy", values="told"
    )
    order = table.drop_duplicates("renderer")[["renderer", "claims"]]
    wide = wide.loc[list(order.itertuples(index=False, name=None)), table["policy"].unique()]
    return wide.reset_index().rename_axis(columns=None)
