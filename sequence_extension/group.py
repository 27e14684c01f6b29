"""A group of rollouts: rewards, advantages, datums."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from sequence_extension.alignment import alignment_table
from sequence_extension.cookbook import (
    Trajectory,
    TrajectoryGroup,
    assemble_training_data,
    compute_advantages,
    remove_constant_reward_groups,
    tinker,
)
from sequence_extension.datums import Built, datum_tensor
from sequence_extension.editor.rewards import parse_rewards, reward_presets
from sequence_extension.rollout import Rollout
from sequence_extension.text import count_text, number_text, signed_text
from sequence_extension.turns import turn_runs, walk_turns

# A group without a gradient is a lesson here, not a fault: keep the cookbook's log line
# about it out of the page.
logging.getLogger("tinker_cookbook.rl.data_processing").setLevel(logging.ERROR)

# Next to 1, numbers of `compute_advantages` (float32) are this far apart.
FLOAT32_STEP = 2.0**-23


@dataclass(frozen=True)
class GroupResult:
    """What the cookbook makes of one group of rollouts.

    Attributes:
        letters, rollouts: The members, in order; the rewards are set in their transitions.
        group: The `TrajectoryGroup`.
        rewards: Total reward per member, from `get_total_rewards`.
        advantages: One number per member, from `compute_advantages`.
        data: All datums, from `assemble_training_data`.
        member_of: For each datum, the index of its member (the metadata's `traj_idx`).
        kept: Whether `remove_constant_reward_groups` would keep the group in a batch that
            also holds a group with a gradient.
    """

    letters: tuple[str, ...]
    rollouts: tuple[Rollout, ...]
    group: TrajectoryGroup
    rewards: tuple[float, ...]
    advantages: tuple[float, ...]
    data: tuple[tinker.Datum, ...]
    member_of: tuple[int, ...]
    kept: bool

    @property
    def mean(self) -> float:
        """The group mean that `compute_advantages` subtracts."""
        return sum(self.rewards) / len(self.rewards)


def assemble_group(
    members: Mapping[str, Rollout], rewards: Mapping[str, Sequence[float]]
) -> GroupResult:
    """Set the rewards, then call the cookbook: group, advantages, datums, filter.

    Args:
        members: Rollouts by letter.
        rewards: One reward per turn for each letter that takes part.

    Raises:
        ValueError: No member takes part: a group without rollouts has no mean.
    """
    letters = tuple(letter for letter in members if letter in rewards)
    if not letters:
        raise ValueError("A group needs at least one rollout.")
    rollouts = tuple(
        replace(
            members[letter],
            trajectory=replace(
                members[letter].trajectory,
                transitions=[
                    replace(transition, reward=reward)
                    for transition, reward in zip(
                        members[letter].trajectory.transitions, rewards[letter], strict=True
                    )
                ],
            ),
        )
        for letter in letters
    )
    group = TrajectoryGroup(
        trajectories_G=[rollout.trajectory for rollout in rollouts],
        final_rewards_G=[0.0] * len(rollouts),
        metrics_G=[{}] * len(rollouts),
    )
    advantages_P = compute_advantages([group])
    data_D, metadata_D = assemble_training_data([group], advantages_P)
    # A batch is never left empty, so the filter is asked in the company of a varied group.
    varied = replace(group, trajectories_G=group.trajectories_G[:1] * 2, final_rewards_G=[0.0, 1.0])
    kept = remove_constant_reward_groups([varied, group])
    return GroupResult(
        letters=letters,
        rollouts=rollouts,
        group=group,
        rewards=tuple(group.get_total_rewards()),
        advantages=tuple(advantages_P[0].tolist()),
        data=tuple(data_D),
        member_of=tuple(metadata["traj_idx"] for metadata in metadata_D),
        kept=any(one is group for one in kept),
    )


def preset_group(members: Mapping[str, Rollout], preset: str) -> GroupResult:
    """`assemble_group` with the rewards of one of `reward_presets`."""
    read = {
        letter: parse_rewards(text, len(members[letter].trajectory.transitions), letter)[0]
        for letter, text in reward_presets()[preset].items()
    }
    return assemble_group(
        members, {letter: rewards for letter, rewards in read.items() if rewards is not None}
    )


def group_table(result: GroupResult) -> pd.DataFrame:
    """One row per target of every datum of the group; a member without datums has one row.

    Returns:
        Columns lane (from 0, a lane per datum or per member without one), letter, member,
        datum (within the member; -1 for none), position (of the target token in the datum's
        sequence, from 1), target, part and turn of that token, mask, advantage (of the
        datum), reward (total of the member), member_advantage.
    """
    frames: list[pd.DataFrame] = []
    lane = 0
    for member, (letter, rollout) in enumerate(zip(result.letters, result.rollouts, strict=True)):
        mine = [
            datum
            for datum, owner in zip(result.data, result.member_of, strict=True)
            if owner == member
        ]
        runs = turn_runs(walk_turns(rollout.trajectory))
        table = alignment_table(Built(tuple(mine)), runs, rollout.vocab)
        for index in range(max(1, len(mine))):
            rows = table[table["datum"] == index]
            targets = pd.DataFrame(
                {
                    "lane": lane,
                    "letter": letter,
                    "member": rollout.name,
                    "datum": index if mine else -1,
                    "position": rows["position"].iloc[1:].to_numpy() if mine else [None],
                    "target": rows["token"].iloc[1:].to_numpy() if mine else [None],
                    "part": rows["part"].iloc[1:].to_numpy() if mine else [None],
                    "turn": rows["turn"].iloc[1:].to_numpy() if mine else [None],
                    "mask": rows["mask"].iloc[:-1].to_numpy() if mine else [None],
                    "advantage": rows["advantage"].iloc[:-1].to_numpy() if mine else [None],
                    "reward": result.rewards[member],
                    "member_advantage": result.advantages[member],
                }
            )
            frames.append(targets)
            lane += 1
    return pd.concat(frames, ignore_index=True)


def group_summary(result: GroupResult) -> pd.DataFrame:
    """One row per member: rewards, total, advantage, datums, and what reaches the loss.

    Returns:
        Columns rollout, what happened, turns, rewards, total, advantage, datums,
        action tokens, mask 1, advantage not 0 (the last two count targets; what float32 leaves
        of equal rewards is 0).
    """
    noise = 4 * FLOAT32_STEP * max(map(abs, result.rewards), default=0.0)
    rows: list[dict[str, Any]] = []
    for member, (letter, rollout) in enumerate(zip(result.letters, result.rollouts, strict=True)):
        mine = [
            datum
            for datum, owner in zip(result.data, result.member_of, strict=True)
            if owner == member
        ]
        transitions = rollout.trajectory.transitions
        rows.append(
            {
                "rollout": letter,
                "what happened": rollout.name,
                "turns": len(transitions),
                "rewards": " + ".join(number_text(step.reward) for step in transitions),
                "total": result.rewards[member],
                "advantage": signed_text(result.advantages[member]),
                "datums": len(mine),
                "action tokens": sum(len(transition.ac.tokens) for transition in transitions),
                "mask 1": sum(int(sum(datum_tensor(datum, "mask"))) for datum in mine),
                "advantage not 0": sum(
                    abs(value) > noise
                    for datum in mine
                    for value in datum_tensor(datum, "advantages")
                ),
            }
        )
    return pd.DataFrame(rows)


def group_advantages(rollouts: Sequence[Rollout]) -> list[float | None]:
    """The cookbook's advantage of each rollout among those of its group; None without group."""
    members: dict[str, list[int]] = {}
    for index, rollout in enumerate(rollouts):
        if rollout.group is not None:
            members.setdefault(rollout.group, []).append(index)
    groups = [
        TrajectoryGroup(
            trajectories_G=[rollouts[index].trajectory for index in indices],
            final_rewards_G=[0.0] * len(indices),
            metrics_G=[{} for _ in indices],
        )
        for indices in members.values()
    ]
    advantages: list[float | None] = [None] * len(rollouts)
    for indices, advantages_G in zip(members.values(), compute_advantages(groups), strict=True):
        for index, advantage in zip(indices, advantages_G.tolist(), strict=True):
            advantages[index] = advantage
    return advantages


def group_reward_advantages(rewards: Sequence[float]) -> list[float]:
    """The cookbook's advantages of a group of which only the total rewards are at hand."""
    empty = Trajectory(transitions=[], final_ob=tinker.ModelInput.empty())
    group = TrajectoryGroup(
        trajectories_G=[empty] * len(rewards),
        final_rewards_G=list(rewards),
        metrics_G=[{} for _ in rewards],
    )
    (advantages_G,) = compute_advantages([group])
    return [float(value) for value in advantages_G.tolist()]


def group_text(result: GroupResult) -> str:
    """What the group figure shows, in sentences; markdown, every number from `result`."""
    summary = group_summary(result)
    members, datums = len(result.letters), len(result.data)
    sentences = [
        f"{count_text(members, 'rollout')} with a mean reward of {number_text(result.mean, 3)} "
        f"{'gives' if members == 1 else 'give'} {count_text(datums, 'datum')}."
    ]
    split = summary[summary["datums"] > 1].sort_values("datums", ascending=False)
    for most in split.to_dict("records")[:1]:
        sentences.append(
            f"Rollout {most['rollout']} became {most['datums']} datums; the same number, "
            f"{most['advantage']}, stands on all {most['mask 1']} of its trained tokens."
        )
    for row in summary[summary["datums"] == 0].to_dict("records"):
        others = [
            reward
            for letter, reward in zip(result.letters, result.rewards, strict=True)
            if letter != row["rollout"]
        ]
        if others:
            sentences.append(
                f"Rollout {row['rollout']} has no token to train, yet its reward counts: without "
                f"it the mean would be {number_text(sum(others) / len(others), 3)}."
            )
    masked = summary[summary["mask 1"] < summary["action tokens"]]
    for row in masked[masked["datums"] > 0].to_dict("records"):
        lost = row["action tokens"] - row["mask 1"]
        sentences.append(
            f"In rollout {row['rollout']}, {count_text(lost, 'action token')} of a turn that did "
            f"not parse {'is' if lost == 1 else 'are'} masked: mask 0, advantage 0."
        )
    if not result.kept:
        sentences.append(
            "**All rewards are equal, so there is no policy gradient.** "
            "`remove_constant_reward_groups`, off by default, drops such groups."
        )
    return " ".join(sentences)


def group_finding(table: pd.DataFrame) -> str:
    """What the group figure shows, as its title."""
    kinds = table.drop_duplicates("letter")["member_advantage"].map(group_sign).tolist()
    if set(kinds) == {"0"}:
        return "Every reward equals the group mean: every advantage is 0, no policy gradient"
    return (
        f"{kinds.count('+')} above the group mean, {kinds.count('-')} below: the distance stands "
        "on every trained token"
    )


def group_sign(value: float) -> str:
    """The kind of an advantage; rounding noise is 0."""
    return "0" if abs(value) < 5e-7 else "+" if value > 0 else "-"
