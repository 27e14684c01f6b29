"""What a rollout costs: treatments, tokens read again, growth."""

import csv
import io
from collections import Counter
from itertools import pairwise
from typing import Any

import altair as alt
import pytest
from rollouts import (
    CASES,
    case_rollout,
    chat,
    make_rollout,
)

from sequence_extension.cost import (
    cost_sentence,
    cost_table,
    growth_facts,
    growth_finding,
    growth_law,
    growth_note,
    growth_table,
    rollout_steps,
    treatment_table,
)
from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.figures.cost import cost_chart
from sequence_extension.turns import TurnSpan, walk_turns


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_policies_count_from_the_real_result(case: dict[str, Any]) -> None:
    diagnosis = diagnose(case_rollout(case))
    table = treatment_table(diagnosis)
    if case["expected"]["error"] is not None:
        assert table.empty
        return
    split, overwrite, drop = table.drop(columns="treatment").to_numpy().tolist()
    action = sum(len(turn["ac"]) for turn in case["transitions"])
    trained = sum(map(sum, case["expected"]["mask"]))
    assert split == [
        case["expected"]["n_datums"],
        trained,
        action - trained,
        case["expected"]["tokens_processed"],
    ]
    if case["expected"]["breaks"]:
        assert drop == [0, 0, action, 0]
        assert overwrite[0] == 1
        assert overwrite[1] < split[1]
    else:
        assert drop == split
        assert overwrite == split


def test_overwriting_keeps_what_stands_before_the_break() -> None:
    turns = [([1, 2], [3, 4]), ([1, 2, 3, 4, 5], [6, 7]), ([1, 2, 3, 4, 5, 6, 8], [9])]
    table = treatment_table(diagnose(make_rollout(*turns)))
    # 3, 4 and 6 stand before the break, 7 is gone, 9 is new
    assert table["trained tokens"].tolist() == [5, 4, 0]
    assert table["lost tokens"].tolist() == [0, 1, 5]
    assert table["tokens processed"].tolist() == [6 + 7, 7, 0]


def test_price_of_a_break_is_what_is_read_again() -> None:
    turns = [([1, 2, 70, 3], [4, 5]), ([1, 2, 71, 3, 4, 5, 6], [7])]
    diagnosis = diagnose(make_rollout(*turns))
    assert diagnosis.tokens_processed == 5 + 7
    assert diagnosis.tokens_unmerged == 5 + 7
    # all but 70, and but 5: that was sampled, never an input
    assert [found.again for found in diagnosis.breaks] == [4]
    prices = dict(cost_table(diagnosis).to_numpy().tolist())
    assert prices["of these read again at turn 1's break"] == 4
    assert "4 of the 12 are read again: an earlier datum had them as inputs" in cost_sentence(
        diagnosis
    )


def test_a_rollout_that_resumes_a_datum_has_no_curve_of_its_own() -> None:
    """Repeating turn sizes alone would draw two agents in turns as one that forgets."""
    diagnosis = diagnose(scenario_rollout(scenarios()["new_context"]))
    assert any(found.resumes_datum is not None for found in diagnosis.breaks)
    table = growth_table(diagnosis.spans, own=False)
    assert set(table["pattern"]) == {"extends", "splits every turn"}
    note = growth_note(diagnosis.spans, growth_law(table), own=False)
    assert "a turn goes on from an earlier datum" in note
    assert "drops history" not in note


def test_growth_is_counted_from_real_datums() -> None:
    turns = [([1, 2, 70, 3], [4, 5]), ([1, 2, 71, 3, 4, 5, 6], [7])]
    spans = walk_turns(make_rollout(*turns).trajectory)
    table = growth_table(spans)
    assert Counter(table["pattern"]) == {"extends": 6, "splits every turn": 6, "this rollout": 6}
    for row in table.to_dict("records"):
        # a turn adds 2 tokens (1 observed, 1 said) to the first turn's 6
        lengths = [6 + 2 * k - 1 for k in range(row["turns"])]
        splits = row["pattern"] != "extends"
        assert row["datums"] == (row["turns"] if splits else 1)
        assert row["tokens"] == (sum(lengths) if splits else lengths[-1])
    laws = growth_law(table).set_index("pattern")["law"].to_dict()
    assert laws == {
        "extends": "linear",
        "splits every turn": "quadratic",
        "this rollout": "quadratic",
    }


def test_growth_of_a_rollout_that_resets() -> None:
    """What starts afresh every turn grows with the turns, though it splits every turn."""
    turns = [([1, 2, 3], [4, 5]), ([6, 7, 8], [9, 10]), ([11, 12, 13], [14, 15])]
    laws = growth_law(growth_table(walk_turns(make_rollout(*turns).trajectory)))
    assert laws.set_index("pattern")["law"]["this rollout"] == "linear"


def test_growth_keeps_sizes_small() -> None:
    spans = [
        TurnSpan(0, 0, 0, 0, 900, 100, False, 900),
        TurnSpan(1, 0, 1_000, 1_000, 1_700, 300, False, 1_700),
    ]
    steps, factor = rollout_steps(spans)
    assert factor == 63
    assert [(step.added, step.action) for step in steps] == [(14, 2), (11, 5)]
    table = growth_table(spans)
    note = growth_note(spans, growth_law(table))
    assert "divided by 63" in note
    assert "when 32 turns become 64" in note
    assert table["tokens"].max() < 60_000


def test_one_turn_has_no_growth() -> None:
    spans = walk_turns(make_rollout(([1, 2], [3])).trajectory)
    assert growth_table(spans).empty


def test_cost_chart_names_each_curve_by_what_it_shows() -> None:
    spans = walk_turns(make_rollout(*chat([12], [12])).trajectory)
    growth = growth_table(spans)
    laws = growth_law(growth)
    figure = cost_chart(growth, laws)
    assert alt.Chart.from_dict(figure.to_dict()).to_dict()
    words = figure.to_dict()["datasets"]["signs"]
    assert "= this rollout" in words  # it extends, so its curve is that of "extends"
    assert "linear" in words
    assert "quadratic" in words
    assert growth_facts(growth).columns.tolist() == [
        "turns", "extends", "splits every turn", "this rollout",
    ]  # fmt: skip


def test_names_of_curves_keep_clear_of_each_other() -> None:
    """Lines of 13 pixels, the first around its place; room below the axis is one line."""
    for scenario in scenarios().values():
        growth = growth_table(walk_turns(scenario_rollout(scenario).trajectory))
        if growth.empty:
            continue
        figure = cost_chart(growth, growth_law(growth))
        signs = list(csv.DictReader(io.StringIO(figure.to_dict()["datasets"]["signs"])))
        assert len(signs) >= 2
        boxes = [(float(row["y"]), 13 * (row["words"].count("|") + 1)) for row in signs]
        for (above, height), (below, _) in pairwise(boxes):
            assert above + height < below, (scenario.key, boxes)
        assert boxes[0][0] >= 0
        assert sum(boxes[-1]) <= 220 + 13, (scenario.key, boxes)


def test_a_rollout_without_breaks_is_not_said_to_have_some() -> None:
    for key, breaks in (("chat", False), ("removed", True)):
        diagnosis = diagnose(scenario_rollout(scenarios()[key]))
        laws = growth_law(growth_table(diagnosis.spans))
        finding = growth_finding(laws, diagnosis.spans)
        assert ("this rollout's breaks" in finding) == breaks
        assert ("its own breaks" in growth_note(diagnosis.spans, laws)) == breaks
