"""Everything that is said about one rollout: `diagnose`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sequence_extension.breaks import Break, break_datum_codes, find_breaks
from sequence_extension.cookbook import Trajectory
from sequence_extension.datums import Built, build_datums, datums_lack_logprobs
from sequence_extension.edits import ElementCodes
from sequence_extension.rollout import Rollout
from sequence_extension.turns import Run, TurnSpan, turn_runs, walk_turns
from sequence_extension.warnings import RolloutWarning, find_warnings


@dataclass(frozen=True)
class Diagnosis:
    """Everything the page, the report and the command line say about one rollout.

    Attributes:
        rollout: What was diagnosed.
        built: The real datums, or the error.
        spans, runs: Turn by turn, and stretch by stretch.
        breaks, warnings: In order of turns.
        tokens_processed: Sum of `model_input.length` over the datums; None on error.
        tokens_unmerged: Sum of len(ob) + len(ac) - 1 over turns with at least 2 tokens;
            None on error.
        lineages: Datums there would be if every open sequence were kept, not only the last.
        would_be: Of a rollout that lacks nothing but logprobs: its datums by the prefix rule.
    """

    rollout: Rollout
    built: Built
    spans: tuple[TurnSpan, ...]
    runs: tuple[Run, ...]
    breaks: tuple[Break, ...]
    warnings: tuple[RolloutWarning, ...]
    tokens_processed: int | None
    tokens_unmerged: int | None
    lineages: int = 0
    would_be: int | None = None


def diagnose(
    trajectory: Trajectory | Rollout,
    vocab: Mapping[int, str] | None = None,
    *,
    advantage: float = 1.0,
) -> Diagnosis:
    """Datums, breaks with causes, warnings and price of one rollout.

    Args:
        trajectory: The cookbook's `Trajectory`, or a `Rollout`, which has a name as well.
        vocab: Text of token ids where known, for causes and messages; in place of the
            rollout's own. A piece of a character is written with a lone surrogate for each
            byte (`bytes.decode(errors="surrogateescape")`).
        advantage: The number that every trained action token of its datums gets.

    Returns:
        The diagnosis. A rollout that `trajectory_to_data` refuses is no exception: the refusal
        is in `built`, and breaks and warnings are given all the same.

    >>> from tinker_cookbook.completers import TokensWithLogprobs
    >>> from tinker_cookbook.rl.types import Trajectory, Transition
    >>> import tinker
    >>> def turn(ob, ac):
    ...     tokens = TokensWithLogprobs(tokens=ac, maybe_logprobs=[-0.5] * len(ac))
    ...     return Transition(tinker.ModelInput.from_ints(ob), tokens, 0.0, False)
    >>> turns = [turn([1, 2], [3, 4, 5]), turn([1, 2, 5, 6], [7])]
    >>> diagnosis = diagnose(Trajectory(turns, tinker.ModelInput.empty()))
    >>> [(item.turn, item.position, item.cause) for item in diagnosis.breaks]
    [(1, 2, 'removed')]
    """
    if isinstance(trajectory, Trajectory):
        rollout = Rollout("rollout", trajectory, {} if vocab is None else vocab)
    else:
        rollout = trajectory if vocab is None else replace(trajectory, vocab=vocab)
    trajectory = rollout.trajectory
    built = build_datums(trajectory, advantage)
    spans = walk_turns(trajectory)
    codes = ElementCodes()
    sequences = break_datum_codes(trajectory, spans, codes)
    breaks, lineages = find_breaks(trajectory, spans, rollout.vocab, codes, sequences)
    breaks = diagnosis_joined_hints(rollout, breaks)
    resumed = {
        item.turn: len(sequences[item.resumes_datum])
        for item in breaks
        if item.resumes_datum is not None
    }
    warnings = find_warnings(trajectory, spans, rollout.vocab, codes, sequences, resumed)
    failed = built.error_code is not None
    processed = unmerged = would_be = None
    if failed and datums_lack_logprobs(trajectory):
        would_be = len({span.datum for span in spans if span.tokens or span.action})
    if not failed:
        processed = sum(datum.model_input.length for datum in built.data)
        lengths = [span.tokens + span.action for span in spans]
        unmerged = sum(length - 1 for length in lengths if length >= 2)
    return Diagnosis(
        rollout=rollout,
        built=built,
        spans=tuple(spans),
        runs=tuple(turn_runs(spans)),
        breaks=tuple(breaks),
        warnings=tuple(warnings),
        tokens_processed=processed,
        tokens_unmerged=unmerged,
        lineages=lineages,
        would_be=would_be,
    )


def diagnosis_joined_hints(rollout: Rollout, breaks: Sequence[Break]) -> list[Break]:
    """Breaks with a hint at the first other context where nothing tells rollouts apart."""
    first = next((item for item in breaks if item.cause == "new_context"), None)
    if first is None or not rollout.without_id:
        return list(breaks)
    hint = (
        "These calls name no rollout, so consecutive ones were taken for one. If another rollout "
        "begins here, record a `session_id` (or `trajectory_id`, `rollout_id`) with each call."
    )
    return [replace(item, hints=(*item.hints, hint)) if item is first else item for item in breaks]
