"""Lineages: several conversations in one trajectory, parted.

1. Each turn stands in one part, in its order, as the very object it was.
2. Each part gives one datum.
3. Tokens, advantages and logprobs that are trained are those of the plain call.
4. There are no more datums than in the plain call, and no more tokens.
5. What the plain call accepts is accepted in parts.
"""

from collections import Counter
from typing import Any

import pytest
import tinker
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rollouts import make_trajectory, make_turn, picture
from tinker_cookbook.exceptions import DataValidationError
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.types import Trajectory

from sequence_extension import split_lineages

FRAME = picture("frame", 3)


@st.composite
def interleaved(draw: st.DrawFn, flawed: bool = False) -> Trajectory:
    """Conversations that take turns, go back, start over or begin with nothing.

    The logprob of each action token is its own number, so that it can be followed. A flawed
    trajectory also has actions of one token or none, and logprobs too many or too few.
    """
    element = st.one_of(st.integers(0, 3), st.just(FRAME))
    pasts: list[list[Any]] = [[]]
    turns: list[Any] = []
    serial = debt = 0
    for _ in range(draw(st.integers(1, 8))):
        past = draw(st.sampled_from([*pasts, *pasts[-1:] * (3 if flawed else 0)]))
        added = draw(st.lists(element, max_size=3))
        observation = [*past, *added]
        least = 1 if observation else 2
        least -= flawed and draw(st.integers(0, 4)) == 0
        action = draw(st.lists(st.integers(0, 3), min_size=least, max_size=3))
        # what is too many here may be missing in the next turn: only then is a datum made of it
        excess = draw(st.sampled_from([-debt] * 9 + [1, -1])) if flawed else 0
        debt += excess
        logprobs = [-(serial + k + 1) / 1024 for k in range(max(0, len(action) + excess))]
        serial += len(logprobs)
        turns.append(make_turn(observation, action, logprobs, masked=draw(st.integers(0, 4)) == 0))
        pasts.append([*observation, *action])
    return make_trajectory(*turns)


def trained(data: list[tinker.Datum]) -> Counter[tuple[float, ...]]:
    """Every target with mask 1: token, logprob (a tracer) and advantage."""
    facts: Counter[tuple[float, ...]] = Counter()
    for datum in data:
        columns = [
            datum.loss_fn_inputs[name].to_torch().tolist()
            for name in ("mask", "target_tokens", "logprobs", "advantages")
        ]
        facts.update(tuple(row[1:]) for row in zip(*columns, strict=True) if row[0])
    return facts


@settings(max_examples=150, deadline=None)
@given(interleaved())
def test_lineages_train_what_the_plain_call_trains(trajectory: Trajectory) -> None:
    parts = split_lineages(trajectory)
    order = [id(turn) for turn in trajectory.transitions]
    places = [[order.index(id(turn)) for turn in part.transitions] for part in parts]
    assert sorted(at for place in places for at in place) == list(range(len(order)))
    assert all(place == sorted(place) for place in places)
    assert [place[0] for place in places] == sorted(place[0] for place in places)
    data = [trajectory_to_data(part, 0.5) for part in parts]
    assert [len(datums) for datums in data] == [1] * len(parts)
    plain = trajectory_to_data(trajectory, 0.5)
    flat = [datum for datums in data for datum in datums]
    assert trained(flat) == trained(plain)
    assert len(flat) <= len(plain)
    assert sum(d.model_input.length for d in flat) <= sum(d.model_input.length for d in plain)


def accepted(trajectory: Trajectory) -> list[tinker.Datum] | None:
    """The datums of the plain call, None where it refuses."""
    try:
        return list(trajectory_to_data(trajectory, 0.5))
    except (DataValidationError, AssertionError):
        return None


@settings(max_examples=150, deadline=None)
@given(interleaved(flawed=True))
def test_what_the_plain_call_accepts_is_accepted_in_parts(trajectory: Trajectory) -> None:
    plain = accepted(trajectory)
    assume(plain is not None)
    assert plain is not None
    data = [trajectory_to_data(part, 0.5) for part in split_lineages(trajectory)]
    assert all(len(datums) <= 1 for datums in data)
    flat = [datum for datums in data for datum in datums]
    assert trained(flat) == trained(plain)
    assert len(flat) <= len(plain)
    assert sum(d.model_input.length for d in flat) <= sum(d.model_input.length for d in plain)


@pytest.mark.parametrize(
    "turns",
    [
        [([1, 2], [7]), ([], [1]), ([1, 2, 7, 4], [3])],  # one token
        [([1, FRAME, 2], [7]), ([1, FRAME], []), ([1, FRAME, 2, 7, 4], [3])],  # ends on an image
        [  # logprobs that count up over two turns only
            ([1, 2, 3], [7]),
            make_turn([1, 2], [3], [-0.1, -0.2]),
            make_turn([1, 2, 3, 7, 4], [3, 5], [-0.3]),
        ],
    ],
)
def test_a_turn_that_is_no_datum_is_followed_by_the_next(turns: list[Any]) -> None:
    trajectory = make_trajectory(*turns)
    assert len(trajectory_to_data(trajectory, 1.0)) == 2
    first, second = split_lineages(trajectory)
    assert (first.transitions, second.transitions) == (
        trajectory.transitions[:1],
        trajectory.transitions[1:],
    )
    assert len(trajectory_to_data(second, 1.0)) == 1


def test_two_agents_that_take_turns_give_two_datums() -> None:
    # A: 1 2 | 3, B: 8 | 9, A goes on, B goes on
    trajectory = make_trajectory(([1, 2], [3]), ([8], [9]), ([1, 2, 3, 4], [5]), ([8, 9, 7], [6]))
    assert len(trajectory_to_data(trajectory, 1.0)) == 4
    first, second = split_lineages(trajectory)
    assert first.transitions == [trajectory.transitions[0], trajectory.transitions[2]]
    assert second.transitions == [trajectory.transitions[1], trajectory.transitions[3]]
    datums = [trajectory_to_data(part, 1.0) for part in (first, second)]
    assert [len(made) for made in datums] == [1, 1]
    assert datums[0][0].model_input.to_ints() == [1, 2, 3, 4]
    assert datums[1][0].model_input.to_ints() == [8, 9, 7]


def test_a_turn_goes_to_the_longest_sequence_that_it_extends() -> None:
    trajectory = make_trajectory(
        ([1], [2]), ([9], [9]), ([1, 2, 3], [4]), ([1], [2]), ([1, 2, 3, 4, 5], [6])
    )
    assert [len(part.transitions) for part in split_lineages(trajectory)] == [3, 1, 1]


def test_what_ended_the_rollout_stays_with_its_last_turn() -> None:
    turns = make_trajectory(([1], [2]), ([8], [9]), ([1, 2, 3], [4])).transitions
    last = tinker.ModelInput.from_ints([7])
    whole = Trajectory(transitions=turns, final_ob=last, stop_reason="completed")
    first, second = split_lineages(whole)
    assert (first.final_ob, first.stop_reason) == (last, "completed")
    assert (second.final_ob.length, second.stop_reason) == (0, None)


def test_an_empty_trajectory_has_no_lineage() -> None:
    assert split_lineages(make_trajectory()) == []
