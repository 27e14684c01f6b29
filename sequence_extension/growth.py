"""How the tokens that are read grow with the turns, along a rollout's own pattern."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from sequence_extension.cookbook import TokensWithLogprobs, Trajectory, Transition, tinker
from sequence_extension.datums import build_datums
from sequence_extension.rollout import PLACEHOLDER_LOGPROB
from sequence_extension.turns import TurnSpan


@dataclass(frozen=True)
class Step:
    """One turn of a pattern that can be repeated; all sizes in tokens.

    Attributes:
        added: Observation tokens added to what is held.
        action: Action tokens.
        splits: The first token of what is held changes.
        grows: Where the observation is shorter than what is held: how much longer it is than
            that of the turn before (below 0 where history is dropped).
    """

    added: int
    action: int
    splits: bool = False
    grows: int | None = None


def growth_steps(spans: Sequence[TurnSpan], mean: int = 16) -> tuple[list[Step], int]:
    """A rollout's turns as a pattern, shrunk so that a turn adds about `mean` tokens.

    Returns:
        One step per turn, and the factor by which sizes were divided (1 for small rollouts).
    """
    sizes: list[tuple[int, int | None]] = []  # added, grown
    for turn, span in enumerate(spans):
        before = spans[turn - 1] if turn else None
        held = before.tokens + before.action if before else 0
        added, grown = span.tokens - held, None
        if before and added < 0:
            grown = span.tokens - before.tokens
            # had it extended, all behind the common prefix would be new
            pictures = before.tokens - before.observation
            added = max(1, span.tokens - min(span.position + pictures, span.tokens))
        sizes.append((added, grown))
    total = sum(added for added, _ in sizes) + sum(span.action for span in spans)
    factor = max(1, math.ceil(total / max(1, len(spans)) / mean))

    def shrunk(size: int) -> int:
        """Divided, but what grows still grows."""
        return max(1, round(size / factor)) if size > 0 else round(size / factor)

    steps = [
        Step(
            shrunk(added),
            shrunk(span.action),
            span.splits,
            None if grown is None else shrunk(grown),
        )
        for span, (added, grown) in zip(spans, sizes, strict=True)
    ]
    return steps, factor


def growth_repeat(steps: Sequence[Step]) -> int:
    """The step from which a pattern repeats: the second, or the first that drops history.

    The latter where all behind it drop history, too: what came before filled a window once.
    """
    last = max((i for i, step in enumerate(steps) if step.grows is None), default=0)
    return last + 1 if last + 1 < len(steps) else 1


def growth_trajectory(steps: Sequence[Step], turns: int) -> Trajectory:
    """A trajectory of `turns` turns that repeats a pattern, see `growth_repeat`.

    Token ids only count up, so nothing is equal by accident.
    """
    fresh = itertools.count(1)
    held: list[int] = []
    length = 0  # of the observation before
    transitions = []
    first = growth_repeat(steps)
    for turn in range(turns):
        step = steps[turn if turn < len(steps) else first + (turn - first) % (len(steps) - first)]
        length = len(held) + step.added if step.grows is None else max(1, length + step.grows)
        observation = held[:length]
        if step.splits and turn:
            observation[:1] = [next(fresh)]
        observation += itertools.islice(fresh, length - len(observation))
        action = list(itertools.islice(fresh, step.action))
        transitions.append(
            Transition(
                ob=tinker.ModelInput.from_ints(observation),
                ac=TokensWithLogprobs(action, [PLACEHOLDER_LOGPROB] * len(action)),
                reward=0.0,
                episode_done=turn + 1 == turns,
            )
        )
        held = observation + action
    return Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty())


def growth_patterns(spans: Sequence[TurnSpan]) -> tuple[dict[str, list[Step]], int]:
    """Three patterns with the rollout's own turn sizes: no break, only breaks, and its own mix.

    Returns:
        Steps by name, and the factor by which sizes were divided. Empty for fewer than 2 turns:
        there is no pattern to repeat.
    """
    if len(spans) < 2:
        return {}, 1
    mine, factor = growth_steps(spans)
    # A turn without any tokens would grow nothing; the smallest turn has one of each.
    even = [replace(step, added=max(1, step.added), action=max(1, step.action)) for step in mine]
    return {
        "extends": [replace(step, splits=False, grows=None) for step in even],
        "splits every turn": [replace(step, splits=True, grows=None) for step in even],
        "this rollout": mine,
    }, factor


def growth_table(
    spans: Sequence[TurnSpan], turns: Sequence[int] = (2, 4, 8, 16, 32, 64), own: bool = True
) -> pd.DataFrame:
    """Tokens processed as a rollout grows: every row is one real call of `trajectory_to_data`.

    Args:
        spans: The rollout whose turn sizes and breaks are repeated.
        turns: Numbers of turns.
        own: Repeat its own breaks as well; no pattern repeats turns that resume a datum.

    Returns:
        Columns pattern, turns, datums, tokens; a pattern that the cookbook refuses is left out.
    """
    rows = []
    for name, steps in growth_patterns(spans)[0].items():
        for count in turns if own or name != "this rollout" else ():
            built = build_datums(growth_trajectory(steps, count))
            if built.error_code is None:
                tokens = sum(datum.model_input.length for datum in built.data)
                rows.append((name, count, len(built.data), tokens))
    return pd.DataFrame(rows, columns=["pattern", "turns", "datums", "tokens"])


def growth_law(table: pd.DataFrame) -> pd.DataFrame:
    """How each curve of `growth_table` grows, judged by its last doubling of the turns.

    Returns:
        Columns pattern, last turns, tokens, doubling (tokens at the end over tokens at half the
        turns), law: "linear" where doubling the turns costs less than 2.4 times as much,
        "quadratic" above 3.3, else "between".
    """
    rows = []
    for name, curve in table.groupby("pattern", sort=False):
        tokens = dict(zip(curve["turns"], curve["tokens"], strict=True))
        last = max(tokens)
        if last // 2 not in tokens or not tokens[last // 2]:
            continue
        ratio = tokens[last] / tokens[last // 2]
        law = "linear" if ratio < 2.4 else "quadratic" if ratio > 3.3 else "between"
        rows.append((name, last, tokens[last], ratio, law))
    return pd.DataFrame(rows, columns=["pattern", "turns", "tokens", "doubling", "law"])


def growth_finding(laws: pd.DataFrame, spans: Sequence[TurnSpan]) -> str:
    """The title of the growth figure, computed from what its curves show.

    Args:
        laws: From `growth_law`.
        spans: The rollout's turns; one without a break is not named a second time.
    """
    words = {
        "extends": "if every turn extends",
        "splits every turn": "if every turn splits",
        "this rollout": "with this rollout's breaks",
    }
    if not any(span.splits for span in spans):
        laws = laws[laws["pattern"] != "this rollout"]
    rows = laws.to_dict("records")
    sums = ", ".join(
        f"{row['tokens']:,}{' inputs' if row is rows[0] else ''} {words[row['pattern']]}"
        for row in rows
    )
    return f"{rows[0]['turns']} turns: {sums}"


def growth_note(spans: Sequence[TurnSpan], laws: pd.DataFrame, own: bool = True) -> str:
    """How the points of the growth figure were made.

    Args:
        spans: The rollout's turns.
        laws: From `growth_law`.
        own: As for `growth_table`.
    """
    last = int(laws["turns"].iloc[0])
    patterns, factor = growth_patterns(spans)
    first = growth_repeat(patterns["this rollout"])
    once = f"turns 0 to {first - 1}" if first > 1 else "turn 0"
    small = f" Sizes are divided by {factor}, to keep it quick." if factor > 1 else ""
    if not own:
        small += (
            " With its own breaks this rollout has no curve: a turn goes on from an earlier datum, "
            "and no pattern of sizes repeats that."
        )
    elif (
        any(span.splits for span in spans)
        and "linear" in laws["law"][laws["pattern"] == "this rollout"].tolist()
    ):
        small += (
            " This rollout drops history at its breaks: what is not in the prompt costs nothing, "
            "but the model does not see it either."
        )
    mine = ", and with its own breaks" if own and any(span.splits for span in spans) else ""
    return (
        "Every point is one call of trajectory_to_data on a rollout with this rollout's turn "
        f"sizes, {once} once and then the others over and over: without a break, with a break in "
        f"every turn{mine}. The label "
        f"gives the factor by which the cost grows when {last // 2} turns become {last}: 2 for "
        f"linear growth, 4 for quadratic.{small}"
    )


def growth_facts(growth: pd.DataFrame) -> pd.DataFrame:
    """`growth_table` with a row per number of turns and a column per pattern."""
    wide = growth.pivot(index="turns", columns="pattern", values="tokens")
    return wide[list(dict.fromkeys(growth["pattern"]))].reset_index().rename_axis(columns=None)
