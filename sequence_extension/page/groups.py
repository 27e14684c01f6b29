"""Section 6: rewards as typed, the group they make, and what of it the loss sees."""

from collections.abc import Mapping, Sequence
from typing import Any

import marimo as mo
import pandas as pd

from sequence_extension.cookbook import tinker
from sequence_extension.datums import nonzero_datum_targets
from sequence_extension.editor.rewards import parse_rewards, reward_presets, reward_rollouts
from sequence_extension.figures.group_chart import group_chart
from sequence_extension.group import (
    GroupResult,
    assemble_group,
    group_finding,
    group_summary,
    group_table,
    group_text,
    preset_group,
)
from sequence_extension.loss import loss_fields, loss_kl_penalised, loss_mask_lines, sent_to_loss
from sequence_extension.page.html import (
    code_html,
    details_table_html,
    dimmed_html,
    field_grid_html,
    figure_box_html,
    fold_markup,
    note_html,
)
from sequence_extension.page.once import once
from sequence_extension.text import count_text

group_members = once(reward_rollouts)


def group_reward_fields(preset: str) -> Any:
    """A text field per rollout, filled with the rewards of a preset."""
    return mo.ui.dictionary(
        {
            letter: mo.ui.text(
                value=reward_presets()[preset][letter],
                label=f"{letter}: {rollout.name}",
                debounce=False,
                full_width=True,
            )
            for letter, rollout in group_members().items()
        }
    )


def read_group_form(texts: Mapping[str, str]) -> tuple[GroupResult | None, dict[str, str]]:
    """The group that the fields describe, or a sentence per field that cannot be read.

    Args:
        texts: Letter of a rollout to what was typed; nothing leaves it out of the group.

    Returns:
        The group, or None; and sentences by letter, "" for the group as a whole.
    """
    rewards: dict[str, tuple[float, ...]] = {}
    issues: dict[str, str] = {}
    for letter, rollout in group_members().items():
        turns = len(rollout.trajectory.transitions)
        given, issue = parse_rewards(texts[letter], turns, letter)
        if issue:
            issues[letter] = issue
        elif given is not None:
            rewards[letter] = given
    if not rewards:
        issues.setdefault("", "Give at least one rollout a reward: an empty group has no mean.")
    return (None, issues) if issues else (assemble_group(group_members(), rewards), issues)


def group_fields_view(fields: Any, issues: Mapping[str, str]) -> Any:
    """The fields, each with its sentence below it."""
    grid = field_grid_html(
        [(field, issues.get(letter)) for letter, field in fields.elements.items()]
    )
    return mo.vstack([grid, *([note_html(issues[""], "error")] if "" in issues else [])])


def group_result_view(result: GroupResult, stale: bool) -> Any:
    """The group as figure, table and sentence; `stale` while a field cannot be read."""
    view = mo.vstack(
        [group_view(group_table(result), group_summary(result)), mo.md(group_text(result))]
    ).text
    return dimmed_html(view, stale)


def group_printout(
    advantages: Any, data: Sequence[tinker.Datum], metadata: Sequence[Mapping[str, int]]
) -> str:
    """What `compute_advantages` and `assemble_training_data` returned for one group, in lines."""
    owners = " ".join(str(owner["traj_idx"]) for owner in metadata)
    return f"{advantages}\n{count_text(len(data), 'datum')}, of trajectories {owners}"


@once
def group_mask_html() -> str:
    """`mask` or `advantages`: what the loss sees in a group of equal rewards, as HTML."""
    equal = preset_group(group_members(), "All the same: no policy gradient")
    ones = nonzero_datum_targets(equal.data, "mask")
    given = nonzero_datum_targets(equal.data, "advantages")
    penalised = nonzero_datum_targets(loss_kl_penalised(equal.data), "advantages")
    factor = 0.5
    discounted = loss_kl_penalised(equal.data, factor)
    changed = nonzero_datum_targets(discounted, "advantages")
    leaked = nonzero_datum_targets(discounted, "advantages", unmasked=True)
    sent = sent_to_loss(equal.data)[0].loss_fn_inputs
    removed = [name for name in equal.data[0].loss_fn_inputs if name not in sent]
    advantages = (
        f"`advantages` differs from 0 on {given} of them" if given else "every advantage is 0"
    )
    prose = mo.md(f"""
### `mask` or `advantages`?

`train_step` takes {" and ".join(f"`{name}`" for name in removed)} out of every datum before
`forward_backward`. The *policy gradient* of a token is its advantage times the gradient of its
logprob, so `mask` 1 does not promise one: give {", ".join(equal.letters)} the same reward<span
class="seq-live-only"> (“All the same” in the menu above)</span>, and `mask` is 1 on {ones} targets
while {advantages}.

Nor does `mask` 0 promise none. A KL penalty adds to the advantage at p

`x[p] + d*x[p+1] + d**2*x[p+2] + ...`, where `x = coef*mask*(mean - diff)`.

So x is 0 where `mask` is 0. The discount d comes *after* the mask: with d = 0, the default of
`kl_discount_factor`, nothing else changes; a larger one carries the x of an action back to what
stands before it, observation tokens and masked turns.
""")
    counts = mo.md(
        "`coef` is `kl_penalty_coef`, `diff` the sampled logprob minus the base model's, `mean` "
        "its mean over all targets with mask 1. In the group of equal rewards the penalty changes "
        f"{penalised} targets where d is 0, those with mask 1; where it is {factor:g}, {changed}, "
        f"of which {leaked} have mask 0."
    )
    lines = code_html(f"{loss_mask_lines()}\n", "python").text
    return (
        prose.text
        + fold_markup("The KL penalty, counted", counts.text)
        + details_table_html(
            loss_fields(equal.data), "What the loss gets, and the lines that see to it", more=lines
        ).text
    )


def group_view(table: pd.DataFrame, summary: pd.DataFrame) -> mo.Html:
    """The group figure in a box of one height that scrolls, and the same facts as a table.

    Args:
        table: From `group_table`.
        summary: From `group_summary`.
    """
    figure = figure_box_html(group_chart(table), group_finding(table))
    return mo.Html(f'<div class="seq-group">{figure.text}</div>{details_table_html(summary).text}')
