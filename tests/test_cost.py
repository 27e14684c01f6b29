"""What a rollout costs: treatments, tokens read again, growth."""

from collections import Counter
from itertools import pairwise
from typing import Any

import altair as alt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollouts import (
    CASES,
    case_rollout,
    chat,
    make_rollout,
    picture,
)

from sequence_extension.cost import cost_sentence, cost_table, cost_treatments
from sequence_extension.datums import build_datums
from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.figures.cost_chart import cost_charts
from sequence_extension.growth import (
    growth_facts,
    growth_finding,
    growth_law,
    growth_note,
    growth_steps,
    growth_table,
    growth_trajectory,
)
from sequence_extension.turns import TurnSpan, walk_turns


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_policies_count_from_the_real_result(case: dict[str, Any]) -> None:
    diagnosis = diagnose(case_rollout(case))
    table = cost_treatments(diagnosis)
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
    table = cost_treatments(diagnose(make_rollout(*turns)))
    # 3, 4 and 6 stand before the break, 7 is gone, 9 is new
    assert table["trained tokens"].tolist() == [5, 4, 0]
    assert table["sampled, not trained"].tolist() == [0, 1, 5]
    assert table["inputs"].tolist() == [6 + 7, 7, 0]


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


@st.composite
def walks(draw: st.DrawFn) -> list[tuple[list[Any], list[int]]]:
    """Turns that extend, strip, drop or start anew, some with pictures."""
    fresh = iter(range(1, 10_000))
    held: list[Any] = []
    turns: list[tuple[list[Any], list[int]]] = []
    for _ in range(draw(st.integers(2, 6))):
        kind = draw(st.sampled_from(["extend", "strip", "drop", "change", "anew"]))
        observation = list(held)
        if observation and kind == "strip":
            observation[-draw(st.integers(1, 3)) :] = []
        if observation and kind == "drop":
            del observation[1 : draw(st.integers(1, len(observation)))]
        if observation and kind == "change":
            observation[draw(st.integers(0, len(observation) - 1))] = next(fresh)
        if kind == "anew":
            observation = []
        observation += [next(fresh) for _ in range(draw(st.integers(1, 4)))]
        if draw(st.integers(0, 3)) == 0:
            observation += [picture(f"frame {next(fresh)}", draw(st.integers(1, 5))), next(fresh)]
        action = [next(fresh) for _ in range(draw(st.integers(1, 5)))]
        turns.append((observation, action))
        held = [*observation, *action]
    return turns


@settings(max_examples=300, deadline=None)
@given(walks())
def test_the_rollouts_own_curve_goes_through_the_rollout(turns: list[Any]) -> None:
    """At its own number of turns, its pattern costs exactly what it costs."""
    diagnosis = diagnose(make_rollout(*turns))
    steps, factor = growth_steps(diagnosis.spans, mean=1_000)
    assert factor == 1
    built = build_datums(growth_trajectory(steps, len(turns)))
    assert len(built.data) == len(diagnosis.built.data)
    tokens = sum(datum.model_input.length for datum in built.data)
    assert tokens == diagnosis.tokens_processed


def test_growth_of_a_rollout_that_strips_more_than_it_adds() -> None:
    """Its observations are shorter than what was held, and yet they grow: quadratic."""
    fresh = iter(range(1, 10_000))
    history = [next(fresh) for _ in range(5)]
    turns = []
    for _ in range(8):
        answer = [next(fresh) for _ in range(3)]
        turns.append((history, [*(next(fresh) for _ in range(12)), *answer]))
        history = [*history, *answer, next(fresh), next(fresh)]
    diagnosis = diagnose(make_rollout(*turns))
    assert all(span.observation < span.held for span in diagnosis.spans[1:])
    laws = growth_law(growth_table(diagnosis.spans)).set_index("pattern")
    assert laws["law"]["this rollout"] == "quadratic"
    assert "drops history" not in growth_note(diagnosis.spans, laws.reset_index())


def test_pictures_count_their_tokens_in_the_curve() -> None:
    turns: list[Any] = []
    held: list[Any] = []
    for turn in range(4):
        held = [*held, picture(f"frame {turn}", 1_000), 10 + turn]
        turns.append((held, [20 + turn, 30]))
        held = [*held, 20 + turn, 30]
    diagnosis = diagnose(make_rollout(*turns))
    _, factor = growth_steps(diagnosis.spans)
    assert diagnosis.tokens_processed == 4 * 1_000 + 8 + 3
    tokens = growth_table(diagnosis.spans).set_index(["pattern", "turns"])["tokens"]
    assert abs(tokens["this rollout", 4] * factor / diagnosis.tokens_processed - 1) < 0.2


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
    steps, factor = growth_steps(spans)
    assert factor == 63
    assert [(step.added, step.action) for step in steps] == [(14, 2), (11, 5)]
    table = growth_table(spans)
    note = growth_note(spans, growth_law(table))
    assert "divided by 63" in note
    assert "when 32 turns become 64" in note
    assert table["tokens"].max() < 60_000


def test_a_window_that_is_full_stays_full() -> None:
    """What filled it stands once; from there on a turn costs the window, whatever came before."""
    spans = walk_turns(scenario_rollout(scenarios()["window"]).trajectory)
    own = growth_law(growth_table(spans)).set_index("pattern").loc["this rollout"]
    last = spans[-1]
    inputs = last.tokens + last.action - 1
    # turn 1 extends turn 0: one datum; from turn 2 on each is a datum of the window's length
    before = spans[1].tokens + spans[1].action - 1
    assert own["tokens"] == before + (own["turns"] - 2) * inputs
    assert own["law"] == "linear"


def test_one_turn_has_no_growth() -> None:
    spans = walk_turns(make_rollout(([1, 2], [3])).trajectory)
    assert growth_table(spans).empty


def test_cost_chart_names_each_curve_by_what_it_shows() -> None:
    spans = walk_turns(make_rollout(*chat([12], [12])).trajectory)
    growth = growth_table(spans)
    laws = growth_law(growth)
    areas, figure = cost_charts(growth, laws)
    assert alt.Chart.from_dict(areas.to_dict()).to_dict()
    assert alt.Chart.from_dict(figure.to_dict()).to_dict()
    words = figure.to_dict()["datasets"]["names"]
    assert "= this rollout" in words  # it extends, so its curve is that of "extends"
    assert "linear" in words
    assert "quadratic" in words
    assert growth_facts(growth).columns.tolist() == [
        "turns", "extends", "splits every turn", "this rollout",
    ]  # fmt: skip


def test_areas_are_in_proportion_and_add_up() -> None:
    for scenario in scenarios().values():
        spans = walk_turns(scenario_rollout(scenario).trajectory)
        growth = growth_table(spans)
        if growth.empty:
            continue
        tokens = growth[growth["turns"] == growth["turns"].max()].set_index("pattern")["tokens"]
        once = tokens["extends"]
        split = tokens["this rollout"] if tokens["this rollout"] > once else None
        again = int((split or tokens["splits every turn"]) - once)
        areas, _ = cost_charts(growth, growth_law(growth))
        tables = areas.tables
        # beside a phone's margins
        assert areas.width <= 354
        # drawn by Vega, from 0 on
        assert [area["tokens"] for area in tables["areas"]] == [once, again]
        size = areas.to_dict()["layer"][0]["encoding"]["size"]
        assert size["field"] == "tokens"
        assert size["scale"]["range"][0] == 0
        words = " ".join(row["words"] for row in tables["words"])
        assert f"read once\n{once:,}" in words
        assert f"read again\n{again:,}" in words
        assert f"{1 + again / once:.1f} times" in words


def test_names_of_curves_keep_clear_of_each_other() -> None:
    """Lines of 15 pixels each, the first around its place."""
    for scenario in scenarios().values():
        growth = growth_table(walk_turns(scenario_rollout(scenario).trajectory))
        if growth.empty:
            continue
        _, curves = cost_charts(growth, growth_law(growth))
        names = curves.tables["names"]
        assert len(names) >= 2
        for above, below in pairwise(names):
            assert above["y"] + 15 * (above["words"].count("\n") + 1) < below["y"], scenario.key


def test_a_rollout_without_breaks_is_not_said_to_have_some() -> None:
    for key, breaks in (("chat", False), ("removed", True)):
        diagnosis = diagnose(scenario_rollout(scenarios()[key]))
        laws = growth_law(growth_table(diagnosis.spans))
        finding = growth_finding(laws, diagnosis.spans)
        assert ("this rollout's breaks" in finding) == breaks
        assert ("its own breaks" in growth_note(diagnosis.spans, laws)) == breaks
