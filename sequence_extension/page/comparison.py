"""Section 9: what helps, before and after."""

from collections.abc import Iterable, Sequence
from typing import Any

import marimo as mo
import pandas as pd

from sequence_extension.cookbook import tinker
from sequence_extension.env.matrix_table import compare_matrix_tables, matrix_table
from sequence_extension.page.html import details_table_html
from sequence_extension.page.matrix import page_matrix
from sequence_extension.page.once import once
from sequence_extension.text import count_text


@once
def comparison_matrix() -> pd.DataFrame:
    """The matrix of section 8 once more, each rollout with its tokens kept."""
    return matrix_table(keep_tokens=True)


@once
def comparison_table() -> pd.DataFrame:
    """The cells of both matrices beside each other."""
    return compare_matrix_tables(page_matrix(), comparison_matrix())


def comparison_saved_share(table: pd.DataFrame) -> str:
    """What share of the inputs is saved, as a percentage."""
    before, after = table["tokens_before"].sum(), table["tokens_after"].sum()
    return f"{1 - after / before:.0%}" if before else "0%"


def comparison_finding(table: pd.DataFrame) -> str:
    """Before and after in one sentence."""
    before = int((table["datums_before"] > 1).sum())
    after = int((table["datums_after"] > 1).sum())
    return (
        f"Of the {len(table)} scripted rollouts of the matrix {before} split where the "
        f"conversation is rendered anew, {after} where the sampled tokens are kept; over all "
        f"of them {comparison_saved_share(table)} of the inputs are saved."
    )


def comparison_totals(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Cells that split, datums and tokens before and after, one row per renderer or policy."""
    rows = []
    for name, cells in table.groupby(by, sort=False):
        before, after = cells["datums_before"], cells["datums_after"]
        rows.append(
            {
                "pupil" if by == "policy" else by: f"`{name}`",
                "split before": int((before > 1).sum()),
                "split after": int((after > 1).sum()),
                "datums before": int(before.sum()),
                "datums after": int(after.sum()),
                "inputs before": int(cells["tokens_before"].sum()),
                "inputs after": int(cells["tokens_after"].sum()),
                "saved": comparison_saved_share(cells),
            }
        )
    return pd.DataFrame(rows)


def comparison_refusals(table: pd.DataFrame) -> str:
    """Where tokens were not kept and why, for markdown; "" where they always were."""
    refused = table[table["refused"] != ""]
    return " ".join(
        f"{count_text(len(cells), 'cell')} {'is' if len(cells) == 1 else 'are'} rendered anew, "
        f"because {reason}: {comparison_names(cells['renderer'])} "
        f"with {comparison_names(cells['policy'])}."
        for reason, cells in refused.groupby("refused", sort=False)
    )


def comparison_names(names: Iterable[str]) -> str:
    """Distinct names as code, joined, for markdown."""
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))


def comparison_view() -> Any:
    """The matrix before and after: one sentence, a row per pupil, and folded a row per renderer."""
    table = comparison_table()
    by_policy = details_table_html(
        comparison_totals(table, "policy"),
        "The same rollouts, rendered anew and with their tokens kept",
        code=["pupil"],
    )
    by_renderer = details_table_html(
        comparison_totals(table, "renderer"),
        "The same per renderer",
        row_heads=True,
        code=["renderer"],
    )
    return mo.vstack(
        [
            mo.md(f"{comparison_finding(table)} {comparison_refusals(table)}"),
            mo.Html(f"{by_policy.text}{by_renderer.text}"),
        ]
    )


def comparison_keeping_renderers(table: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Renderers whose history keeps reasoning, and those that cure nothing else.

    Args:
        table: Of `matrix_table`.

    Returns:
        Those with which the `reasoning` pupil's rollout stays one datum; and those of them with
        which every other pupil's splits.
    """
    datums = table.pivot(index="renderer", columns="policy", values="datums")
    kept = [name for name in table["renderer"].unique() if datums.loc[name, "reasoning"] == 1]
    others = datums.drop(columns="reasoning")
    return kept, [name for name in kept if (others.loc[name] > 1).all()]


@once
def comparison_prose() -> str:
    """What a renderer that keeps reasoning cures, and what it does not; markdown."""
    kept, nothing_else = comparison_keeping_renderers(page_matrix())
    return (
        f"With {len(kept)} renderers the `reasoning` pupil's rollout stays one datum even without "
        f"it, since they write reasoning back into history. They cure that cause alone: with "
        f"{len(nothing_else)} of them the rollout of every other pupil splits."
        f"\n\n/// details | Those {len(kept)} renderers\n\n"
        f"{comparison_names(name for name in kept if name not in nothing_else)}; and, with every "
        f"other pupil split, {comparison_names(nothing_else)}.\n///"
    )


def comparison_printout(before: Sequence[tinker.Datum], after: Sequence[tinker.Datum]) -> str:
    """The datums of one rollout through both environments, as a line for people."""

    def part(data: Sequence[tinker.Datum]) -> str:
        inputs = sum(datum.model_input.length for datum in data)
        return f"{count_text(len(data), 'datum')}, {count_text(inputs, 'input')}"

    return f"rendered anew: {part(before)}\ntokens kept:   {part(after)}"
