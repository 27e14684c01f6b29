"""Story section 6: rewards of a group, its advantages, its datums, and what reaches the loss.

Invariants:
1. The advantage of a member is its summed reward minus the mean over all members.
2. A member without datums counts in that mean.
3. Every trained token of every datum of a member carries that one number, all others 0.
4. A group of equal rewards carries no gradient, though its masks are 1.
5. What reaches the loss is every field but `mask`.
"""

import asyncio
import csv
import html
import io
import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import Any

import altair as alt
import chz
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tinker_cookbook.rl.data_processing import remove_constant_reward_groups
from tinker_cookbook.rl.train import Config

from sequence_extension.cookbook import train_step, wait_for_cookbook
from sequence_extension.datums import build_datums, nonzero_datum_targets
from sequence_extension.editor.rewards import parse_rewards, reward_presets, reward_rollouts
from sequence_extension.figures.group_chart import group_chart
from sequence_extension.group import (
    assemble_group,
    group_finding,
    group_summary,
    group_table,
    group_text,
)
from sequence_extension.loss import (
    RecordingClient,
    loss_fields,
    loss_kl_penalised,
    loss_mask_lines,
    sent_to_loss,
)
from sequence_extension.page.groups import group_view
from sequence_extension.page.html import note_html
from sequence_extension.text import number_text, signed_text

LETTERS = "ABCDEFGH"
TURNS = {"A": 3, "B": 2, "C": 2, "D": 3, "E": 1, "F": 2, "G": 1, "H": 1}
quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# Multiples of 1/8 add up without rounding, so that equal means equal.
eighths = st.integers(-80, 80).map(lambda n: n / 8)
rewards_of_members = st.dictionaries(
    st.sampled_from(LETTERS), st.lists(eighths, min_size=3, max_size=3), min_size=1
).map(lambda given: {letter: given[letter][: TURNS[letter]] for letter in sorted(given)})


def expected_advantages(rewards: dict[str, list[float]]) -> dict[str, float]:
    """Exact arithmetic, nothing of the cookbook: sum of turns minus mean of the sums."""
    sums = {letter: sum(map(Fraction, turns)) for letter, turns in rewards.items()}
    mean = sum(sums.values()) / len(sums)
    return {letter: float(total - mean) for letter, total in sums.items()}


def scattered(advantages: dict[str, float]) -> dict[str, float]:
    """What a reader might believe instead: divided by the standard deviation."""
    deviation = math.sqrt(sum(a * a for a in advantages.values()) / len(advantages)) or 1.0
    return {letter: a / deviation for letter, a in advantages.items()}


@pytest.fixture(scope="module")
def members() -> dict[str, Any]:
    return reward_rollouts()


def preset(members: dict[str, Any], name: str) -> Any:
    read = {
        letter: parse_rewards(text, TURNS[letter], letter)
        for letter, text in reward_presets()[name].items()
    }
    assert all(issue is None for _, issue in read.values())
    return assemble_group(members, {k: v for k, (v, _) in read.items() if v is not None})


def test_members_have_the_shapes_they_are_named_after(members: Any) -> None:
    assert {
        letter: len(rollout.trajectory.transitions) for letter, rollout in members.items()
    } == TURNS
    counts = {
        letter: len(build_datums(rollout.trajectory).data) for letter, rollout in members.items()
    }
    assert counts == {"A": 1, "B": 1, "C": 2, "D": 3, "E": 0, "F": 1, "G": 1, "H": 1}
    assert members["E"].trajectory.stop_reason == "max_tokens"


@quick
@given(rewards=rewards_of_members)
def test_advantage_is_summed_reward_minus_group_mean(rewards: Any) -> None:
    result = assemble_group(reward_rollouts(), rewards)
    expected = expected_advantages(rewards)
    assert result.letters == tuple(expected)
    assert result.advantages == pytest.approx(list(expected.values()), abs=1e-5)
    assert sum(result.advantages) == pytest.approx(0.0, abs=1e-4)
    assert result.mean == pytest.approx(float(sum(map(sum, rewards.values())) / len(rewards)))


def test_dividing_by_the_deviation_would_be_seen(members: Any) -> None:
    rewards = {"A": [0.0, 0.0, 3.0], "B": [0.0, 0.0], "G": [0.0]}
    expected = expected_advantages(rewards)
    actual = dict(zip("ABG", assemble_group(members, rewards).advantages, strict=True))
    assert actual == pytest.approx(expected, abs=1e-6)
    assert actual != pytest.approx(scattered(expected), abs=1e-2)


def test_overflow_member_moves_the_mean_without_a_datum(members: Any) -> None:
    alone = assemble_group(members, {"A": [0, 0, 1], "B": [0, 0]})
    joined = assemble_group(members, {"A": [0, 0, 1], "B": [0, 0], "E": [-2]})
    assert len(joined.data) == len(alone.data) == 2
    assert alone.advantages == pytest.approx([0.5, -0.5])
    assert joined.advantages == pytest.approx([4 / 3, 1 / 3, -5 / 3], abs=1e-6)


@quick
@given(rewards=rewards_of_members)
def test_one_number_on_every_trained_token(rewards: Any) -> None:
    result = assemble_group(reward_rollouts(), rewards)
    expected = expected_advantages(rewards)
    for datum, owner in zip(result.data, result.member_of, strict=True):
        number = expected[result.letters[owner]]
        mask = datum.loss_fn_inputs["mask"].data
        for on, value in zip(mask, datum.loss_fn_inputs["advantages"].data, strict=True):
            assert value == pytest.approx(number if on else 0.0, abs=1e-5)


@quick
@given(rewards=rewards_of_members)
def test_table_has_every_target_once_with_the_datum_values(rewards: Any) -> None:
    result = assemble_group(reward_rollouts(), rewards)
    table = group_table(result)
    drawn = table.dropna(subset=["position"])
    targets, advantages, mask = [], [], []
    for datum in result.data:
        targets += list(datum.loss_fn_inputs["target_tokens"].data)
        advantages += list(datum.loss_fn_inputs["advantages"].data)
        mask += list(datum.loss_fn_inputs["mask"].data)
    assert drawn["target"].tolist() == targets
    assert drawn["advantage"].tolist() == advantages
    assert drawn["mask"].tolist() == mask
    # mask 1 only on actions; the only masked action of these rollouts is turn 0 of F
    assert set(drawn.loc[drawn["mask"] == 1, "part"]) <= {"A"}
    hidden = drawn[(drawn["mask"] == 0) & (drawn["part"] == "A")]
    assert set(zip(hidden["letter"], hidden["turn"], strict=True)) <= {("F", 0)}
    empty = table[table["position"].isna()]
    assert empty["letter"].tolist() == (["E"] if "E" in rewards else [])
    assert sorted(table["lane"].unique()) == list(range(len(result.data) + len(empty)))


def test_summary_counts(members: Any) -> None:
    result = preset(members, "Six rollouts, mixed rewards")
    summary = group_summary(result).set_index("rollout")
    assert summary["datums"].to_dict() == {"A": 1, "B": 1, "C": 2, "D": 3, "E": 0, "F": 1}
    assert summary["mask 1"].to_dict() == {"A": 7, "B": 4, "C": 4, "D": 8, "E": 0, "F": 3}
    assert summary.loc["F", "action tokens"] == 5
    assert summary.loc["A", "rewards"] == "0 + 0 + 1"
    text = group_text(result)
    assert "mean reward of 0.417" in text
    assert "Rollout D became 3 datums" in text
    assert "without it the mean would be 0.7" in text
    assert "2 action tokens" in text


def test_equal_rewards_carry_no_gradient(members: Any) -> None:
    equal = preset(members, "All the same: no policy gradient")
    assert len(equal.letters) >= 2
    assert set(equal.rewards) == {1.0}
    assert not equal.kept
    assert nonzero_datum_targets(equal.data, "mask") > 0
    assert nonzero_datum_targets(equal.data, "advantages") == 0
    assert "no policy gradient" in group_text(equal)
    assert preset(members, "Six rollouts, mixed rewards").kept


def test_float_noise_of_equal_rewards_is_shown_as_such(members: Any) -> None:
    """`compute_advantages` works in 32 bits: seven times 0.7 leaves a rest that is not 0."""
    rewards = {letter: [0.7] + [0.0] * (TURNS[letter] - 1) for letter in "ABCDEFG"}
    result = assemble_group(members, rewards)
    assert 0 < abs(result.advantages[0]) < 1e-6
    assert not result.kept
    assert signed_text(result.advantages[0]) == "≈0"
    assert nonzero_datum_targets(result.data, "advantages") > 0  # that is what the datums hold
    assert set(group_summary(result)["advantage not 0"]) == {0}
    assert "no policy gradient" in group_finding(group_table(result))


def test_a_single_member_is_its_own_mean(members: Any) -> None:
    result = assemble_group(members, {"H": [5.0]})
    assert result.advantages == (0.0,)
    assert not result.kept
    with pytest.raises(ValueError, match="at least one"):
        assemble_group(members, {})


def test_rewards_of_the_members_stay_as_they_were(members: Any) -> None:
    assemble_group(members, {"A": [1, 2, 3]})
    assert [t.reward for t in members["A"].trajectory.transitions] == [0.0, 0.0, 0.0]


def test_train_step_takes_mask_out_and_nothing_else(members: Any) -> None:
    data = preset(members, "Six rollouts, mixed rewards").data
    sent = sent_to_loss(data)
    assert len(sent) == len(data)
    for before, after in zip(data, sent, strict=True):
        assert set(before.loss_fn_inputs) - set(after.loss_fn_inputs) == {"mask"}
        assert set(after.loss_fn_inputs) == {"target_tokens", "logprobs", "advantages"}
        assert after.model_input == before.model_input
        for name in after.loss_fn_inputs:
            assert after.loss_fn_inputs[name].data == before.loss_fn_inputs[name].data
    told = loss_fields(data).set_index("field of loss_fn_inputs")["reaches forward_backward"]
    assert told.to_dict() == {
        "advantages": "yes", "logprobs": "yes", "mask": "no, removed", "target_tokens": "yes",
    }  # fmt: skip
    assert '!= "mask"' in loss_mask_lines()


def test_kl_penalty_reads_mask(members: Any) -> None:
    data = preset(members, "All the same: no policy gradient").data
    touched = loss_kl_penalised(data)
    for before, after in zip(data, touched, strict=True):
        mask = before.loss_fn_inputs["mask"].data
        changed = [value != 0 for value in after.loss_fn_inputs["advantages"].data]
        assert changed == [on == 1 for on in mask]
    assert nonzero_datum_targets(data, "advantages") == 0  # the originals stay as they were
    assert nonzero_datum_targets(touched, "advantages", unmasked=True) == 0


def test_a_discounted_kl_penalty_leaks_onto_targets_with_mask_0(members: Any) -> None:
    """The discount runs from the end of a datum and after the mask: up to its last action."""
    data = preset(members, "All the same: no policy gradient").data
    touched = loss_kl_penalised(data, 0.5)
    leaked = 0
    for before, after in zip(data, touched, strict=True):
        mask = before.loss_fn_inputs["mask"].data
        last = max(place for place, on in enumerate(mask) if on)
        changed = [value != 0 for value in after.loss_fn_inputs["advantages"].data]
        assert changed == [place <= last for place in range(len(mask))]
        leaked += last + 1 - int(sum(mask))
    assert nonzero_datum_targets(touched, "advantages", unmasked=True) == leaked > 0
    for kept, sent in zip(touched, sent_to_loss(touched), strict=True):  # not masked again
        assert sent.loss_fn_inputs["advantages"].data == kept.loss_fn_inputs["advantages"].data


def test_training_defaults_that_the_text_names(members: Any) -> None:
    defaults = {name: entry._default for name, entry in chz.chz_fields(Config).items()}
    assert defaults["kl_discount_factor"] == 0
    assert defaults["remove_constant_reward_groups"] is False
    assert defaults["num_substeps"] == 1
    assert defaults["loss_fn"] == "importance_sampling"
    equal = preset(members, "All the same: no policy gradient").group
    assert remove_constant_reward_groups([equal, equal]) == [equal]


def test_substeps_cut_between_datums_of_one_rollout(members: Any) -> None:
    data = build_datums(members["D"].trajectory).data
    parts: list[int] = []

    class Counting(RecordingClient):
        async def forward_backward_async(self, data: Any, **options: Any) -> Any:
            parts.append(len(data))
            return await super().forward_backward_async(data, **options)

    wait_for_cookbook(
        train_step(
            list(data), Counting(), learning_rate=0.0, num_substeps=2, loss_fn="importance_sampling"
        )
    )
    assert parts == [1, 2]


@pytest.mark.parametrize(
    ("text", "turns", "parts"),
    [
        ("0 x 1", 3, ("Rollout A, turn 1", "x", "not a finite number")),
        ("nan", 1, ("Rollout A, turn 0", "nan", "finite")),
        ("1 -inf", 2, ("Rollout A, turn 1", "finite")),
        ("1e308", 1, ("Rollout A, turn 0", "between")),
        ("1 2", 3, ("3 turns", "2 rewards")),
        ("1 2", 1, ("1 turn ", "2 rewards")),
        ("<script>alert(1)</script>", 1, ("Rollout A, turn 0",)),
        ("0_1", 1, ("Rollout A, turn 0",)),
    ],
)
def test_bad_rewards_get_one_sentence(text: str, turns: int, parts: tuple[str, ...]) -> None:
    rewards, issue = parse_rewards(text, turns, "A")
    assert rewards is None
    assert issue is not None
    assert all(part in issue for part in parts), issue
    assert "<script>" not in note_html(issue, "error").text


@quick
@given(text=st.text(max_size=60), turns=st.integers(1, 3))
def test_no_text_raises(text: str, turns: int) -> None:
    rewards, issue = parse_rewards(text, turns, "A")
    assert rewards is None or (len(rewards) == turns and all(map(math.isfinite, rewards)))
    assert rewards is None or issue is None
    assert (rewards is None and issue is None) == (not text.replace(",", " ").split())


def test_good_rewards_are_read_as_typed() -> None:
    assert parse_rewards(" 0, 0.5,-1e2 ", 3, "A") == ((0.0, 0.5, -100.0), None)
    assert parse_rewards("  ", 3, "A") == (None, None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (1e-8, "≈0"), (-1e-8, "≈0"), (2 / 3, "+0.67"), (-1.0, "\u22121"),
        (0.001, "+1e\u221203"), (123.456, "+123"), (-98765.4, "\u22129.9e+04"),
    ],
)  # fmt: skip
def test_signed_is_short(value: float, text: str) -> None:
    assert signed_text(value) == text


@pytest.mark.parametrize(
    "name",
    ["Six rollouts, mixed rewards", "All eight, one success", "All the same: no policy gradient"],
)
def test_chart_describes_itself(members: Any, name: str) -> None:
    result = preset(members, name)
    table = group_table(result)
    figure = group_chart(table)
    alt.Chart.from_dict(figure.to_dict())  # Altair checks the spec against the schema
    assert f"Group of {len(result.letters)} rollouts" in figure.description
    for letter, reward in zip(result.letters, result.rewards, strict=True):
        assert f"{letter}: reward {number_text(reward)}," in figure.description
    shown = group_view(table, group_summary(result)).text
    assert "The same facts as a table" in shown
    assert html.escape(group_finding(table)) in shown


def drawn(spec: dict[str, Any], name: str, at: str = "wide") -> list[dict[str, str]]:
    """The rows of a table that stand in one form of the figure."""
    rows = csv.DictReader(io.StringIO(spec["datasets"][name]))
    return [row for row in rows if row["at"] == at]


def test_both_forms_hold_the_same_cells(members: Any) -> None:
    spec = group_chart(group_table(preset(members, "Six rollouts, mixed rewards"))).to_dict()
    wide, narrow = (drawn(spec, "cells", at) for at in ("wide", "narrow"))
    told = ("lane", "target", "label", "kind")
    assert [[row[name] for name in told] for row in wide] == [
        [row[name] for name in told] for row in narrow
    ]
    assert max(float(row["right"]) for row in narrow) <= 350


def test_cells_say_what_the_datums_hold(members: Any) -> None:
    result = preset(members, "Six rollouts, mixed rewards")
    spec = group_chart(group_table(result)).to_dict()
    rows = drawn(spec, "cells")
    assert len(rows) == sum(datum.model_input.length for datum in result.data)
    assert Counter(row["label"].split(" ")[-1] for row in rows if row["mask"] == "1") == {
        "+0.58": 7 + 4 + 4, "\u22120.42": 8, "+0.08": 3,
    }  # fmt: skip
    for row in rows:
        expected = "0" if row["mask"] == "0" else "+" if row["label"][-5] == "+" else "-"
        assert row["kind"] == ("M" if (row["part"], row["mask"]) == ("A", "0") else expected)
    assert {row["label"].split(" ")[-1] for row in rows if row["mask"] == "0"} == {"0"}


def test_a_letter_stands_once_at_the_start_of_a_run(members: Any) -> None:
    result = preset(members, "Six rollouts, mixed rewards")
    spec = group_chart(group_table(result)).to_dict()
    rows = drawn(spec, "cells")
    for before, after in pairwise([{"lane": "", "part": ""}, *rows]):
        starts = (before["lane"], before["part"]) != (after["lane"], after["part"])
        assert (after["label"][:2] == f"{after['part']} ") == starts


def test_bars_go_from_the_mean_to_the_reward(members: Any) -> None:
    result = preset(members, "Six rollouts, mixed rewards")
    bars = drawn(group_chart(group_table(result)).to_dict(), "bars")
    assert [float(bar["reward"]) for bar in bars] == pytest.approx(result.rewards)
    lengths = [float(bar["reward"]) - float(bar["mean"]) for bar in bars]
    assert lengths == pytest.approx(result.advantages)
    # what is said of the mean is said once
    assert [bar["told"] for bar in bars] == ["group mean 0.417", *[""] * (len(bars) - 1)]


def test_chart_of_a_group_without_any_datum(members: Any) -> None:
    result = assemble_group(members, {"E": [1.0]})
    assert result.data == ()
    alt.Chart.from_dict(group_chart(group_table(result)).to_dict())
    assert group_summary(result)["datums"].tolist() == [0]


def test_a_coroutine_is_run_to_its_end_inside_a_loop_too() -> None:
    async def waits() -> int:
        await asyncio.sleep(0)
        return 7

    async def cell() -> Any:
        return wait_for_cookbook(waits())

    assert wait_for_cookbook(waits()) == 7
    assert asyncio.run(cell()) == 7
