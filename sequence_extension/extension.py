"""Beside training: an assertion for tests of environments, and metrics for a training loop."""

from collections import Counter
from collections.abc import Mapping, Sequence

from sequence_extension.breaks import break_datum_codes, find_breaks
from sequence_extension.cookbook import Trajectory, TrajectoryGroup
from sequence_extension.diagnosis import diagnose
from sequence_extension.edits import ElementCodes
from sequence_extension.remedies import CAUSES
from sequence_extension.report import report_row
from sequence_extension.report_text import Paint, report_text_rollout
from sequence_extension.rollout import Rollout
from sequence_extension.text import count_text
from sequence_extension.turns import TurnSpan, walk_turns

# Naming a cause takes the cheapest edit of a break: as much as `assemble_training_data`
# takes for it or more. So it is named in one of this many trajectories that split, and in at
# most so many; all other numbers count every trajectory.
NAMED_OF = 16
MOST_NAMED = 32


def assert_extends(
    trajectory: Trajectory | Rollout,
    max_datums: int = 1,
    vocab: Mapping[int, str] | None = None,
) -> None:
    """Assert that a rollout becomes at most so many datums, for tests of environments.

    Args:
        trajectory: What the rollout loop of the cookbook gave.
        max_datums: Datums allowed; 1 says that every turn extends the turns before it.
        vocab: Texts of tokens, so that the message reads as text: `TokenTexts(tokenizer)`.

    Raises:
        AssertionError: More datums, or `trajectory_to_data` refuses the rollout; shows where and
            why, with the tokens on both sides of each break.

    Example:
        >>> from sequence_extension import assert_extends, read_rollouts
        >>> [rollout] = read_rollouts('''{"transitions": [
        ...     {"ob": [1, 2], "ac": [3, 4], "logprobs": [-0.1, -0.2]},
        ...     {"ob": [1, 2, 3, 9], "ac": [5], "logprobs": [-0.3]}]}''')
        >>> assert_extends(rollout, max_datums=2)
        >>> assert_extends(rollout)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        AssertionError: 2 datums, but at most 1 is allowed.
        trajectory 0
          2 turns, 2 datums, 7 inputs: nothing saved by merging; 3 read again
          turn 1 splits at position 3 of 4, end_token: ...
            before    1 2 3
            expected  4  (turn 0's action, index 1)
            got       9
            helps     Keep the end token that was sampled, ...
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    rollout = trajectory
    if isinstance(rollout, Trajectory):
        rollout = Rollout("the rollout", rollout, {} if vocab is None else vocab)
    diagnosis = diagnose(rollout)
    row = report_row(diagnosis)
    if row.error is None and row.datums <= max_datums:
        return
    allowed = f"{max_datums} {'is' if max_datums == 1 else 'are'} allowed"
    head = f"{count_text(row.datums, 'datum')}, but at most {allowed}."
    if row.error is not None:
        head = "trajectory_to_data refuses this rollout."
    raise AssertionError("\n".join([head, *report_text_rollout(diagnosis, row, (), Paint(False))]))


def extension_span_sums(spans: Sequence[TurnSpan]) -> dict[str, int]:
    """What the metrics sum over trajectories, of one walk.

    Turns without any token make no datum, and a sequence of one token has no input.
    """
    lengths = [span.tokens + span.action for span in spans]
    last = {span.datum: length for span, length in zip(spans, lengths, strict=True)}
    return {
        "trajectories": 1,
        "turns": len(spans),
        "later": max(0, len(spans) - 1),
        "splits": sum(span.splits for span in spans),
        "datums": len({span.datum for span in spans if span.observation or span.action}),
        "processed": sum(length - 1 for length in last.values() if length >= 2),
        "unmerged": sum(length - 1 for length in lengths if length >= 2),
    }


def extension_cause_shares(
    trajectories: Sequence[tuple[Trajectory, Sequence[TurnSpan]]],
) -> dict[str, float]:
    """Share of each cause among the splits of some trajectories, evenly spread over those given.

    Args:
        trajectories: Those that split, each with its walk.
    """
    step = max(NAMED_OF, -(-len(trajectories) // MOST_NAMED))
    counts: Counter[str] = Counter()
    for trajectory, spans in trajectories[::step]:
        codes = ElementCodes()
        sequences = break_datum_codes(trajectory, spans, codes)
        breaks, _ = find_breaks(trajectory, spans, {}, codes, sequences, details=False)
        counts.update(item.cause for item in breaks)
    total = max(1, counts.total())
    return {cause: counts[cause] / total for cause in CAUSES}


def extension_metrics(
    trajectory_groups: Sequence[TrajectoryGroup], prefix: str = "extension/"
) -> dict[str, float]:
    """How well turns merge, for a training loop's logger: the same keys at every step.

    Costs a tenth of `assemble_training_data` on the same groups.

    Args:
        trajectory_groups: The groups of one step (`trajectory_groups_P` in the cookbook).
        prefix: Put before every key.

    Returns:
        num_seq_before_merge, num_seq_after_merge: Turns and datums (SkyRL's names).
        merge_compression_ratio: Turns over datums (rLLM's name); 1 where nothing merges.
        datums_per_trajectory: 1 where every turn extends.
        split_turns: Share of the turns after the first that split.
        tokens_over_unmerged: Tokens through the model over those if no turn merged.
        cause/...: Share of each cause among the splits, named in one of 16 trajectories that
            split, at most 32.

    Example:
        >>> from tinker_cookbook.rl.types import TrajectoryGroup
        >>> from sequence_extension import extension_metrics, read_rollouts
        >>> rollouts = read_rollouts('''{"transitions": [
        ...     {"ob": [1, 2], "ac": [3, 4], "logprobs": [-0.1, -0.2]},
        ...     {"append": [5], "ac": [6], "logprobs": [-0.3]},
        ...     {"ob": [1, 2, 3, 4, 5], "ac": [7], "logprobs": [-0.3]}]}''')
        >>> group = TrajectoryGroup([rollout.trajectory for rollout in rollouts], [0.0], [{}])
        >>> metrics = extension_metrics([group])
        >>> metrics["extension/datums_per_trajectory"], metrics["extension/cause/shortened"]
        (2.0, 1.0)
    """
    sums: Counter[str] = Counter()
    splitting: list[tuple[Trajectory, Sequence[TurnSpan]]] = []
    for group in trajectory_groups:
        for trajectory in group.trajectories_G:
            spans = walk_turns(trajectory)
            counted = extension_span_sums(spans)
            sums.update(counted)
            if counted["splits"]:
                splitting.append((trajectory, spans))
    turns, datums = sums["turns"], sums["datums"]
    metrics = {
        "num_seq_before_merge": float(turns),
        "num_seq_after_merge": float(datums),
        "merge_compression_ratio": turns / datums if datums else 1.0,
        "datums_per_trajectory": datums / max(1, sums["trajectories"]),
        "split_turns": sums["splits"] / max(1, sums["later"]),
        "tokens_over_unmerged": sums["processed"] / sums["unmerged"] if sums["unmerged"] else 1.0,
        **{f"cause/{cause}": share for cause, share in extension_cause_shares(splitting).items()},
    }
    return {f"{prefix}{name}": value for name, value in metrics.items()}
