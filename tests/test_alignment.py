"""Room alignment: turns, datums, and the table a row per position.

1. Datums = 1 + breaks.
2. The action targets of all datums, one after the other, are the actions in order.
3. Mask 0 means advantage 0.
4. sum(mask) = action tokens - tokens of masked turns - datums that open with an action.
5. Turn and part in the table are those that a tracer, sent through the cookbook as logprobs,
   comes back with.
6. What the cookbook refuses becomes one sentence that names the turn at fault.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollouts import CASES, case_rollout, make_trajectory, make_turn, picture
from tinker_cookbook.exceptions import DataValidationError
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.types import Trajectory

from sequence_extension.alignment import alignment_conservation, alignment_counts, alignment_table
from sequence_extension.datums import Built, build_datums, datum_tensor
from sequence_extension.diagnosis import diagnose
from sequence_extension.elements import (
    element_token_position,
    elements_input_length,
    elements_to_model_input,
    model_input_to_elements,
)
from sequence_extension.rollout import Rollout
from sequence_extension.turns import turn_runs, walk_turns

FRAME, OTHER = picture("frame", 3), picture("other frame", 1)


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    """Turns that extend, edit, shorten, replace or empty what came before; images, masked turns."""
    element = st.one_of(st.integers(0, 5), st.sampled_from([FRAME, OTHER]))
    turns: list[Any] = []
    held: list[Any] = []
    for _ in range(draw(st.integers(1, 6))):
        ob: list[Any] = list(held)
        what = draw(st.sampled_from(["extend", "extend", "extend", "edit", "cut", "new", "none"]))
        if what == "edit" and ob:
            at = draw(st.integers(0, len(ob) - 1))
            ob[at : at + 1] = draw(st.lists(element, max_size=2))
        elif what == "cut":
            ob = ob[: draw(st.integers(0, len(ob)))]
        elif what == "new":
            ob = []
        ob = [] if what == "none" else ob + draw(st.lists(element, max_size=3))
        # an action of one token at least: a datum that ends on an image is refused
        ac = draw(st.lists(st.integers(0, 5), min_size=1 if ob else 2, max_size=4))
        turns.append(make_turn(ob, ac, masked=draw(st.booleans()) and draw(st.booleans())))
        held = [*ob, *ac]
    return make_trajectory(*turns)


def elements(turn: Any) -> list[Any]:
    return model_input_to_elements(turn.ob)


def splits(trajectory: Trajectory) -> list[int]:
    """Turns that do not continue what was held: the rule written down as plainly as can be."""
    found: list[int] = []
    held: list[Any] = []
    for index, turn in enumerate(trajectory.transitions):
        ob = elements(turn)
        if held and ob[: len(held)] != held:
            found.append(index)
            held = []
        held = held + ob[len(held) :] + turn.ac.tokens
    return found


@settings(max_examples=150, deadline=None)
@given(trajectories(), st.sampled_from([1.0, -0.5]))
def test_datums_hold_every_action_once(trajectory: Trajectory, adv: float) -> None:
    """Properties 1 to 4, on the real datums and the walk beside them."""
    built = build_datums(trajectory, adv)
    spans = walk_turns(trajectory)
    assert built.error_code is None
    assert [span.turn for span in spans if span.splits] == splits(trajectory)
    assert len(built.data) == 1 + sum(span.splits for span in spans)
    table = alignment_table(built, turn_runs(spans))
    rows = table[~table["mask"].isna()]
    masked = {span.turn for span in spans if span.masked}
    opening = table[(table["position"] == 0) & (table["part"] == "A")]

    trained = rows[rows["mask"] == 1.0]["target"].astype(int).tolist()
    wanted, first = [], set(opening["turn"])
    for index, turn in enumerate(trajectory.transitions):
        if index not in masked:
            wanted += turn.ac.tokens[1:] if index in first else turn.ac.tokens
    assert trained == wanted

    assert set(rows["mask"]) <= {0.0, 1.0}
    assert set(rows[rows["mask"] == 0.0]["advantage"]) <= {0.0}
    assert set(rows[rows["mask"] == 1.0]["advantage"]) <= {adv}

    actions = sum(len(turn.ac.tokens) for turn in trajectory.transitions)
    lost = sum(spans[turn].action for turn in masked)
    lost += sum(turn not in masked for turn in opening["turn"])
    assert rows["mask"].sum() == actions - lost
    counts = alignment_counts(built, turn_runs(spans))
    sentence, verdict = alignment_conservation(counts)
    assert verdict == "holds"
    # a term stands there only where it takes something off
    assert ("masked turns" in sentence) == bool(counts["masked"].sum())
    assert ("open with an action" in sentence) == (counts["opens"] == "action").any()
    assert counts["trained"].sum() == actions - lost


def traced(trajectory: Trajectory) -> list[list[float]]:
    """Per datum the turn (from 1) of every target, 0 for observations.

    The cookbook carries logprobs to their targets; here they carry the turn.
    """
    turns = [
        make_turn([], turn.ac.tokens, [index + 1.0] * len(turn.ac.tokens))
        for index, turn in enumerate(trajectory.transitions)
    ]
    for marked, turn in zip(turns, trajectory.transitions, strict=True):
        marked.ob = turn.ob
    data = trajectory_to_data(make_trajectory(*turns), 1.0)
    return [list(datum.loss_fn_inputs["logprobs"].data) for datum in data]


def check_trace(trajectory: Trajectory) -> None:
    spans = walk_turns(trajectory)
    table = alignment_table(build_datums(trajectory), turn_runs(spans))
    for index, marks in enumerate(traced(trajectory)):
        rows = table[table["datum"] == index]
        turn, part = rows["turn"].tolist()[1:], rows["part"].tolist()[1:]
        assert [t + 1 if p == "A" else 0 for t, p in zip(turn, part, strict=True)] == marks


@settings(max_examples=150, deadline=None)
@given(trajectories())
def test_turn_and_part_come_back_from_the_cookbook(trajectory: Trajectory) -> None:
    check_trace(trajectory)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_turn_and_part_of_the_cases(case: dict[str, Any]) -> None:
    if case["expected"]["error"] is None:
        check_trace(case_rollout(case).trajectory)


def test_new_observation_tokens_belong_to_the_turn_that_brought_them() -> None:
    """The tracer sees actions only; observations are checked by hand."""
    trajectory = make_trajectory(([1, 2], [3]), ([1, 2, 3, 4], [5]), ([9, 4], [6, 7]))
    table = alignment_table(build_datums(trajectory), turn_runs(walk_turns(trajectory)))
    assert (table["turn"].astype(str) + table["part"]).tolist() == [
        "0O", "0O", "0A", "1O", "1A", "2O", "2O", "2A", "2A",
    ]  # fmt: skip


# The two examples of the tutorial


def masks(*turns: tuple[Sequence[int], Sequence[int]]) -> list[list[float]]:
    return [datum_tensor(datum, "mask") for datum in build_datums(make_trajectory(*turns)).data]


def test_three_turns_that_extend() -> None:
    # tokens  100 101 102 103 | 200 201 | 300 301 | 400 401 402 | 500 | 600 601
    # mask        0   0   0       1   1     0   0     1   1   1     0     1   1
    o1, a1, o2, a2 = [100, 101, 102, 103], [200, 201], [300, 301], [400, 401, 402]
    turns = [(o1, a1), (o1 + a1 + o2, a2), (o1 + a1 + o2 + a2 + [500], [600, 601])]
    assert masks(*turns) == [[0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1]]
    (datum,) = build_datums(make_trajectory(*turns)).data
    assert datum.model_input.length == 13


def test_a_context_reset() -> None:
    # tokens  100 101 | 200 201      300 301 302 | 400 401
    # mask        0     1   1            0   0     1   1
    turns = [([100, 101], [200, 201]), ([300, 301, 302], [400, 401])]
    assert masks(*turns) == [[0, 1, 1], [0, 0, 1, 1]]
    data = build_datums(make_trajectory(*turns)).data
    assert [datum.model_input.length for datum in data] == [3, 4]


# The table


def test_rows_are_inputs_with_their_targets() -> None:
    trajectory = make_trajectory(make_turn([1, FRAME, 2], [3, 4], [-0.5, -0.25]))
    table = alignment_table(
        build_datums(trajectory, 2.0),
        turn_runs(walk_turns(trajectory)),
        {1: "one", 4: "four"},
    )
    assert table["label"].tolist() == ["1", "img", "img", "img", "2", "3", "4"]
    assert table["target_label"].tolist() == ["img", "img", "img", "2", "3", "4", ""]
    assert table["text"].tolist() == ["one", "", "", "", "", "", "four"]
    assert table["position"].tolist() == list(range(7))
    assert table["token"].tolist() == [1, -1, -1, -1, 2, 3, 4]
    assert table["mask"].tolist()[:-1] == [0, 0, 0, 0, 1, 1]
    assert table["advantage"].tolist()[:-1] == [0, 0, 0, 0, 2, 2]
    assert table["logprob"].tolist()[:-1] == [0, 0, 0, 0, -0.5, -0.25]
    assert table.iloc[-1][["target", "mask", "advantage", "logprob"]].isna().all()


def test_table_of_single_datums() -> None:
    trajectory = make_trajectory(([1, 2], [3]), ([4, 5], [6]), ([7, 8], [9]))
    built, runs = build_datums(trajectory), turn_runs(walk_turns(trajectory))
    whole = alignment_table(built, runs)
    some = alignment_table(built, runs, only=[2, 0])
    assert some["datum"].unique().tolist() == [0, 2]
    assert some["token"].tolist() == whole[whole["datum"] != 1]["token"].tolist()


def test_table_of_nothing_has_its_columns() -> None:
    table = alignment_table(Built(()), [])
    assert table.empty
    assert {"datum", "position", "mask", "target_label"} <= set(table.columns)


def test_table_refuses_to_draw_what_does_not_add_up() -> None:
    trajectory = make_trajectory(([1, 2], [3]), ([4, 5], [6]))
    built, runs = build_datums(trajectory), turn_runs(walk_turns(trajectory))
    with pytest.raises(ValueError, match="made 2 datums where the prefix rule explains 1"):
        alignment_table(built, runs[:2])
    with pytest.raises(ValueError, match="Datum 1 holds 3 tokens, but its turns account for 2"):
        alignment_table(built, runs[:3])


def test_time_grows_with_tokens_not_with_datums_squared() -> None:
    """1,500 datums of a few tokens: each run is looked at once, not once per datum."""
    turns = [make_turn([turn, 5_000 + turn], [turn]) for turn in range(1_500)]
    trajectory = make_trajectory(*turns)
    built, spans = build_datums(trajectory), walk_turns(trajectory)

    class Counted(list[Any]):
        looks = 0

        def __iter__(self) -> Any:
            for item in super().__iter__():
                Counted.looks += 1
                yield item

    table = alignment_table(built, Counted(turn_runs(spans)))
    assert table["datum"].max() == 1_499
    assert Counted.looks <= 4 * 1_500


# Elements, walks and runs


def test_elements_come_and_go() -> None:
    flat = [1, 2, FRAME, FRAME, 3, OTHER]
    model_input = elements_to_model_input(flat)
    assert model_input_to_elements(model_input) == flat
    assert elements_input_length(model_input) == model_input.length == 3 + 3 + 3 + 1
    assert [element_token_position(model_input, k) for k in range(7)] == [0, 1, 2, 5, 8, 9, 10]
    assert model_input_to_elements(elements_to_model_input([])) == []


def test_walking_changes_nothing() -> None:
    trajectory = make_trajectory(([1, 2], [3]), ([1, 2, 3, 4], [5]))
    before = trajectory.transitions[0].ob.model_dump_json()
    diagnose(Rollout("made", trajectory))
    assert trajectory.transitions[0].ob.model_dump_json() == before
    assert trajectory.transitions[0].ac.tokens == [3]


@settings(max_examples=150, deadline=None)
@given(trajectories())
def test_runs_tile_every_datum(trajectory: Trajectory) -> None:
    runs = turn_runs(walk_turns(trajectory))
    for index, datum in enumerate(trajectory_to_data(trajectory, 1.0)):
        ends = [0]
        for run in (run for run in runs if run.datum == index):
            assert run.start == ends[-1]
            assert run.length > 0
            ends.append(run.start + run.length)
        assert ends[-1] == datum.model_input.length + 1


# What the cookbook refuses


@pytest.mark.parametrize(
    ("turns", "error", "words"),
    [
        ([make_turn([1, 2], [3]), make_turn([1], [2], None)], ValueError, "Turn 1 has no logprobs"),
        (
            [make_turn([1, 2], [3, 4], [-0.1])],
            AssertionError,
            "Turn 0 has 2 action tokens but 1 logprob.",
        ),
        ([make_turn([1], [])], DataValidationError, "turn 0 holds a single token"),
        ([make_turn([1, FRAME], [])], DataValidationError, "turn 0 ends on an image"),
        ([make_turn([OTHER], [])], DataValidationError, "turn 0 ends on an image"),
        (
            # the first datum is refused before turn 1's missing logprobs are met
            [make_turn([1, FRAME], []), make_turn([2, 3], [4], None)],
            DataValidationError,
            "turn 0 ends on an image",
        ),
        (
            # turns 0 and 1 cancel out; the datum at fault is turn 2's
            [
                make_turn([1, 2], [3, 4], [-0.1]),
                make_turn([1, 2, 3, 4], [5], [-0.1, -0.2]),
                make_turn([7, 8], [9], []),
            ],
            AssertionError,
            "Turn 2 has 1 action token but 0 logprobs.",
        ),
        (
            [
                make_turn([1, 2], [3]),
                make_turn([1, 2, 3, FRAME.model_copy(update={"expected_tokens": None})], [4]),
            ],
            ValueError,
            "Turn 1, observation index 3: the image does not say",
        ),
    ],
)
def test_refusals_name_the_turn(turns: list[Any], error: type[Exception], words: str) -> None:
    trajectory = make_trajectory(*turns)
    with pytest.raises(error):
        trajectory_to_data(trajectory, 1.0)
    built = build_datums(trajectory)
    assert built.error_code == error.__name__
    assert words in (built.error_message or "")
    assert built.data == ()


@settings(max_examples=200, deadline=None)
@given(trajectories(), st.data())
def test_every_refusal_is_explained(trajectory: Trajectory, data: Any) -> None:
    """Whatever is wrong with logprobs and ends, the sentence names a turn and never fails."""
    for turn in trajectory.transitions:
        change = data.draw(st.sampled_from(["", "", "none", "short", "long", "drop"]))
        if change == "none":
            turn.ac.maybe_logprobs = None
        elif change == "short":
            turn.ac.maybe_logprobs = turn.ac.logprobs[1:]
        elif change == "long":
            turn.ac.maybe_logprobs = [*turn.ac.logprobs, -1.0]
        elif change == "drop":
            turn.ac.tokens, turn.ac.maybe_logprobs = [], []
    built = build_datums(trajectory)
    if built.error_code is not None:
        assert built.error_message is not None
        assert built.error_message.startswith(("Turn ", "The datum that ends with turn "))
    else:
        spans = walk_turns(trajectory)
        table = alignment_table(built, turn_runs(spans))
        assert len(table) == sum(datum.model_input.length + 1 for datum in built.data)
        assert np.array_equal(table["position"] == 0, table["datum"].diff().fillna(1) != 0)
