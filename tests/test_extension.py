"""Beside training: `assert_extends` and `extension_metrics`.

Invariants:

1. Truth: the metrics are those of the datums that `assemble_training_data` makes.
2. Price: the metrics cost at most a fifth of `assemble_training_data` on the same groups.
3. Words: the assertion shows where and why, as text where texts are known; it holds where datums
   are few enough, and never for a rollout that is refused.
4. Docs: the examples in the docstrings run.
"""

import doctest
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollouts import CASES, case_rollout, make_rollout, make_trajectory, make_turn
from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages
from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup

from sequence_extension import assert_extends, diagnose, extension, extension_metrics
from sequence_extension.remedies import CAUSES


def group_of(trajectories: list[Trajectory]) -> TrajectoryGroup:
    count = len(trajectories)
    return TrajectoryGroup(trajectories, [float(n % 2) for n in range(count)], [{}] * count)


def datums_of(groups: list[TrajectoryGroup]) -> list[Any]:
    return assemble_training_data(groups, compute_advantages(groups))[0]


tokens = st.lists(st.integers(1, 3), min_size=1, max_size=4)
turns = st.lists(st.tuples(tokens, tokens), min_size=1, max_size=5)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(turns, min_size=1, max_size=3), min_size=1, max_size=3))
def test_metrics_are_those_of_the_datums(drawn: list[Any]) -> None:
    """Invariant 1."""
    groups = [
        group_of([make_trajectory(*turns) for turns in trajectories]) for trajectories in drawn
    ]
    metrics = extension_metrics(groups, prefix="")
    data = datums_of(groups)
    count = sum(len(trajectories) for trajectories in drawn)
    flat = [turn for trajectories in drawn for turns in trajectories for turn in turns]
    assert metrics["num_seq_before_merge"] == len(flat)
    assert metrics["num_seq_after_merge"] == len(data)
    assert metrics["merge_compression_ratio"] == pytest.approx(len(flat) / len(data))
    assert metrics["datums_per_trajectory"] == pytest.approx(len(data) / count)
    assert metrics["tokens_over_unmerged"] == pytest.approx(
        sum(datum.model_input.length for datum in data)
        / sum(len(ob) + len(ac) - 1 for ob, ac in flat)
    )
    later = len(flat) - count
    assert metrics["split_turns"] == (pytest.approx((len(data) - count) / later) if later else 0)


def test_shares_of_causes_add_up() -> None:
    """Invariant 1: of one kind of break the share is 1; the same keys at every step."""
    stripped = make_trajectory(([1, 2], [3, 4, 5, 6]), ([1, 2, 5, 6, 7], [8]))
    metrics = extension_metrics([group_of([stripped] * 9)])
    assert metrics["extension/cause/removed"] == 1
    mixed = [case_rollout(case).trajectory for case in CASES]
    metrics = extension_metrics([group_of(mixed)])
    assert sum(metrics[f"extension/cause/{cause}"] for cause in CAUSES) == pytest.approx(1)
    assert metrics.keys() == extension_metrics([]).keys()
    assert all(isinstance(value, float) for value in metrics.values())


def test_every_cause_is_counted() -> None:
    """Invariant 1: no cause that the diagnosis names is unknown to metrics and limits."""
    named = Counter(item.cause for case in CASES for item in diagnose(case_rollout(case)).breaks)
    assert set(named) == set(CAUSES)


def long_trajectory(turns: int, step: int, strip: bool) -> Trajectory:
    made = []
    held = list(range(2 * step))
    for turn in range(turns):
        action = [1000 + (turn * step + place) * 7 % 90_000 for place in range(step)]
        made.append(make_turn([], action))
        made[-1].ob = type(made[-1].ob).from_ints(list(held))
        held += (action[step // 2 :] if strip else action) + list(range(step))
    return make_trajectory(*made)


def spent(work: Callable[[], Any]) -> float:
    """Seconds of processor time of the fastest of five runs."""
    times = []
    for _ in range(5):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("strip", [False, True])
@pytest.mark.parametrize(("turns", "step"), [(4, 50), (10, 200)])
def test_metrics_cost_a_fifth_at_most(turns: int, step: int, strip: bool) -> None:
    """Invariant 2: 4 groups of 8."""
    groups = [group_of([long_trajectory(turns, step, strip) for _ in range(8)]) for _ in range(4)]
    bare = spent(lambda: datums_of(groups))
    assert spent(lambda: extension_metrics(groups)) < bare / 5


def test_the_assertion_shows_where_and_why() -> None:
    """Invariant 3."""
    words = {1: "Hi", 2: "<think>", 3: "hmm", 4: "Hello", 5: " you"}
    rollout = make_rollout(([1], [2, 3, 4]), ([1, 4, 5], [4]), vocab=words)
    assert_extends(rollout, max_datums=2)
    for given_, vocab in ((rollout, None), (rollout.trajectory, words)):
        with pytest.raises(AssertionError) as caught:
            assert_extends(given_, vocab=vocab)
        lines = [line.strip() for line in str(caught.value).splitlines()]
        assert lines[0] == "2 datums, but at most 1 is allowed."
        assert "before    Hi" in lines
        assert "expected  <think>hmmHello  (turn 0's action, index 0)" in lines
        assert "got       Hello you" in lines
        assert any("removed: 2 tokens are gone" in line for line in lines)
    refused = make_trajectory(make_turn([1], [2], None))
    with pytest.raises(AssertionError, match="refuses this rollout") as caught:
        assert_extends(refused, max_datums=9)
    assert "logprobs missing in its one turn" in str(caught.value)
    assert_extends(make_trajectory(([1], [2]), ([1, 2, 3], [4])))


def test_examples_run() -> None:
    """Invariant 4."""
    assert doctest.testmod(extension).failed == 0
    assert doctest.testmod(extension).attempted > 5
