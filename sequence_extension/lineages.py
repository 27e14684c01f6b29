"""A trajectory in which several conversations take turns, parted into one trajectory each."""

from typing import Any

from sequence_extension.cookbook import Trajectory, Transition, tinker
from sequence_extension.elements import model_input_to_elements
from sequence_extension.rollout import rollout_trajectory


def split_lineages(trajectory: Trajectory) -> list[Trajectory]:
    """Part a trajectory so that turns which continue one another stand together.

    `trajectory_to_data` holds one running sequence, so sub-agents that take turns (A, B, A, B),
    or a rollout that goes back to an earlier conversation, split at every change: four datums
    where two would do. Here one running sequence is kept per lineage. Each turn goes to the
    longest of them that its observation extends; where it extends none, a new lineage opens.
    One line before the datums, with the advantage of the whole trajectory for each part:

        data = [d for part in split_lineages(trajectory) for d in trajectory_to_data(part, adv)]

    Each part that is not refused gives one datum. No action token is lost, masked or trained
    twice by it, so a loss that sums over tokens has the same gradient, over fewer tokens read.
    Where the plain call accepts the trajectory it accepts every part: a turn behind which no
    datum can close (fewer than two tokens, an image at the end, logprobs that do not count up)
    is followed by the next turn, as in the plain call, if that extends it.

    Args:
        trajectory: Any trajectory. One whose turns all extend comes back as one part.

    Returns:
        Trajectories in the order of their first turns. Their transitions are the very objects
        of the trajectory, in its order, with their own rewards, metrics and logs: `is` tells
        which turn is which. The rewards of all parts sum to the trajectory's, so compute
        advantages from the whole. `final_ob` and `stop_reason` stay with the part that holds
        the last turn; the others have an empty one and None.
    """
    running: list[list[Any]] = []
    parts: list[list[Transition]] = []
    excess: list[int] = []  # per part, logprobs less action tokens
    last = -1
    for transition in trajectory.transitions:
        observation = model_input_to_elements(transition.ob)
        fitting = [
            at
            for at, held in enumerate(running)
            if len(held) <= len(observation) and observation[: len(held)] == held
        ]
        if last not in fitting or _closes(running[last], excess[last]):
            last = max(fitting, key=lambda at: len(running[at]), default=len(parts))
        if last == len(parts):
            parts.append([])
            running.append([])
            excess.append(0)
        action = transition.ac
        parts[last].append(transition)
        running[last] = [*observation, *action.tokens]
        excess[last] += len(action.maybe_logprobs or ()) - len(action.tokens)
    return [
        Trajectory(
            transitions=turns, final_ob=trajectory.final_ob, stop_reason=trajectory.stop_reason
        )
        if at == last
        else Trajectory(transitions=turns, final_ob=tinker.ModelInput.empty())
        for at, turns in enumerate(parts)
    ]


def _closes(sequence: list[Any], excess: int) -> bool:
    """Whether `trajectory_to_data` makes a datum of a sequence, or needs none."""
    if excess:
        return False
    if not sequence:
        return True
    return len(sequence) > 1 and isinstance(sequence[-1], int)


def lineages_example() -> Trajectory:
    """Two sub-agents that take turns, A B A B: each continues its own conversation."""
    return rollout_trajectory(
        [([1, 2], [3]), ([11, 12], [13]), ([1, 2, 3, 4], [5]), ([11, 12, 13, 14], [15])]
    )


def lineages_count(trajectory: Trajectory) -> int:
    """Datums there would be if every open sequence were kept."""
    parts = split_lineages(trajectory)
    return sum(any(turn.ob.length or turn.ac.tokens for turn in part.transitions) for part in parts)
