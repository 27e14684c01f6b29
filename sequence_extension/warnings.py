"""Warnings: the turn may well extend, but look."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sequence_extension.cookbook import Trajectory, tinker
from sequence_extension.edits import ElementCodes
from sequence_extension.rollout import (
    MAX_TOKEN_ID,
    is_empty_chunk,
    model_input_to_elements,
    token_label,
)
from sequence_extension.text import count_of
from sequence_extension.turns import TurnSpan


@dataclass(frozen=True)
class RolloutWarning:
    """A warning: the turn may well extend, but look.

    Attributes:
        code: Name of the rule.
        turn: Turn it was found in.
        index: Action or observation index within the turn, or None for the whole turn.
        message: One plain sentence that names turn and index.
    """

    code: str
    turn: int
    index: int | None
    message: str


def find_warnings(
    trajectory: Trajectory,
    spans: Sequence[TurnSpan],
    vocab: Mapping[int, str],
    codes: ElementCodes,
    sequences: Sequence[NDArray[np.uint32]],
) -> list[RolloutWarning]:
    """All warnings of the design's second table, in order of turns."""
    warnings = [
        *logprob_warnings(trajectory),
        *observation_warnings(trajectory, vocab),
        *separator_warnings(spans, vocab, codes, sequences),
    ]
    return sorted(warnings, key=lambda warning: warning.turn)


def logprob_warnings(trajectory: Trajectory) -> list[RolloutWarning]:
    """Warnings about what was recorded for the action tokens.

    At most 8 values that are not finite are listed per turn; the last one counts the rest.
    """
    warnings: list[RolloutWarning] = []
    for turn, transition in enumerate(trajectory.transitions):
        tokens, logprobs = transition.ac.tokens, transition.ac.maybe_logprobs
        if logprobs is None:
            sentence = f"Turn {turn} has no logprobs: trajectory_to_data refuses the rollout."
            warnings.append(RolloutWarning("logprobs_missing", turn, None, sentence))
            continue
        if len(logprobs) != len(tokens):
            sentence = (
                f"Turn {turn} has {count_of(len(tokens), 'action token')} but "
                f"{count_of(len(logprobs), 'logprob')}: "
                "from there on logprobs stand at the wrong tokens, or the rollout is refused."
            )
            warnings.append(RolloutWarning("logprob_count", turn, None, sentence))
        bad = [
            index
            for index, value in enumerate(logprobs)
            if not isinstance(value, int | float) or not math.isfinite(value)
        ]
        for index in bad[:8]:
            sentence = f"Turn {turn}, action index {index}: the logprob is {logprobs[index]}."
            if len(bad) > 8 and index == bad[7]:
                sentence += f" {len(bad) - 8} more in this turn are not finite either."
            warnings.append(RolloutWarning("logprob_not_finite", turn, index, sentence))
        others = logprobs[:-1]
        if len(logprobs) == len(tokens) and others and logprobs[-1] == 0.0 and 0.0 not in others:
            sentence = (
                f"Turn {turn}, action index {len(tokens) - 1}: the last action token has a "
                "logprob of exactly 0.0 and no other has. It was probably appended, not sampled."
            )
            warnings.append(RolloutWarning("zero_logprob_end", turn, len(tokens) - 1, sentence))
    return warnings


def observation_warnings(trajectory: Trajectory, vocab: Mapping[int, str]) -> list[RolloutWarning]:
    """Warnings about observations: empty ones, and one that ends unlike all others."""
    warnings: list[RolloutWarning] = []
    ends: list[Any] = []
    for turn, transition in enumerate(trajectory.transitions):
        chunks = reversed(transition.ob.chunks)
        last = next((chunk for chunk in chunks if not is_empty_chunk(chunk)), None)
        if last is None and transition.ac.tokens:
            sentence = (
                f"Turn {turn} has an observation without tokens: its first action token "
                "(action index 0) has no target and cannot be trained."
            )
            warnings.append(RolloutWarning("empty_observation", turn, 0, sentence))
        ends.append(last.tokens[-1] if isinstance(last, tinker.EncodedTextChunk) else last)
    if len(ends) < 3:
        return warnings
    # One odd end needs all others alike, so the first three already hold the usual one.
    usual = ends[0] if ends[0] in (ends[1], ends[2]) else ends[1]
    odd = [turn for turn, end in enumerate(ends) if end != usual]
    if usual is not None and len(odd) == 1 and ends[odd[0]] is not None:
        turn = odd[0]
        index = len(model_input_to_elements(trajectory.transitions[turn].ob)) - 1
        sentence = (
            f"Turn {turn}, observation index {index}: it ends with "
            f"{token_label(ends[turn], vocab)}, the other {len(ends) - 1} observations end with "
            f"{token_label(usual, vocab)}. The generation header may be missing."
        )
        warnings.append(RolloutWarning("header_changed", turn, index, sentence))
    return warnings


def separator_warnings(
    spans: Sequence[TurnSpan],
    vocab: Mapping[int, str],
    codes: ElementCodes,
    sequences: Sequence[NDArray[np.uint32]],
) -> list[RolloutWarning]:
    """Warn where an action's last token is not followed by what always follows that token.

    The observation of the next turn is to blame, so the warning is that turn's. What a split
    observation repeats up to its break is the same place seen twice and counts once.
    """
    ends: list[tuple[TurnSpan, int, int]] = []  # next turn, last token, what follows it
    for before, span in pairwise(spans):
        sequence = sequences[span.datum]
        if before.action and not span.splits and span.held < len(sequence):
            ends.append((span, int(sequence[span.held - 1]), int(sequence[span.held])))
    if not ends:
        return []
    watched = np.unique(np.array([token for _, token, _ in ends], dtype=np.uint32))
    repeated = {span.datum: span.position for span in spans if span.splits}
    followers: dict[int, Counter[int]] = {int(token): Counter() for token in watched}
    for datum, sequence in enumerate(sequences):
        fresh = sequence[max(repeated.get(datum, 0) - 1, 0) :]
        places = np.flatnonzero(np.isin(fresh[:-1], watched))
        pairs = fresh[places].astype(np.uint64) << np.uint64(32) | fresh[places + 1]
        for pair, count in zip(*np.unique(pairs, return_counts=True), strict=True):
            followers[int(pair) >> 32][int(pair) & 0xFFFFFFFF] += int(count)
    warnings: list[RolloutWarning] = []
    for span, token, follower in ends:
        elsewhere = followers[token] - Counter({follower: 1})
        if len(elsewhere) != 1 or follower in elsewhere or elsewhere.total() < 2:
            continue
        usual = next(iter(elsewhere))
        if span.held < span.observation:
            place = f"Turn {span.turn}, observation index {span.held}"
            index = span.held
        else:
            place = f"Turn {span.turn}, action index 0 (nothing was observed in between)"
            index = 0
        sentence = (
            f"{place}: after the last token of turn {span.turn - 1}'s action, "
            f"{coded_label(token, vocab)}, comes {coded_label(follower, vocab)}, but in "
            f"{elsewhere.total()} other places {coded_label(usual, vocab)} follows it."
        )
        warnings.append(RolloutWarning("separator_changed", span.turn, index, sentence))
    return warnings


def coded_label(code: int, vocab: Mapping[int, str]) -> str:
    """Like `token_label`, for a number of `ElementCodes`."""
    return token_label(code, vocab) if code <= MAX_TOKEN_ID else "an image"
