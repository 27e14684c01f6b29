"""Warnings: the turn may well extend, but look.

Three subjects: what was recorded for the sampled tokens, how observations begin and end, and
what stands where an answer ends and the next observation goes on.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sequence_extension.cookbook import Trajectory
from sequence_extension.edits import ElementCodes
from sequence_extension.elements import element_label
from sequence_extension.remedies import WARNING_REMEDIES
from sequence_extension.text import count_text
from sequence_extension.turns import TurnSpan

# A logprob below this was not sampled: people clamp an infinity to -9999 and the like.
LEAST_LOGPROB = -100.0
# Logprobs that are not finite are listed up to this many a turn; the last one counts the rest.
MOST_LISTED = 8


@dataclass(frozen=True)
class RolloutWarning:
    """A warning: the turn may well extend, but look.

    Attributes:
        code: Name of the rule.
        turn: Turn that shows it.
        index: Action or observation index within the turn, or None for the whole turn.
        message: One plain sentence that names turn and index.
        hints: Short sentences for patterns that need another remedy than the usual one.
    """

    code: str
    turn: int
    index: int | None
    message: str
    hints: tuple[str, ...] = ()

    @property
    def help(self) -> str:
        """What to do about it, in one or two sentences."""
        return WARNING_REMEDIES[self.code]


def find_warnings(
    trajectory: Trajectory,
    spans: Sequence[TurnSpan],
    vocab: Mapping[int, str],
    codes: ElementCodes,
    sequences: Sequence[NDArray[np.uint32]],
    resumed: Mapping[int, int],
) -> list[RolloutWarning]:
    """All warnings of one rollout, in order of turns.

    Args:
        trajectory, spans: The rollout and its walk.
        vocab: Text of token ids where known.
        codes, sequences: Coder and coded datums of `break_datum_codes`.
        resumed: For turns that split but go on from an earlier datum, its length in elements.
    """
    places = Places(spans, codes, sequences, resumed, vocab)
    warnings = [
        *logprob_warnings(trajectory),
        *empty_observation_warnings(spans),
        *header_warnings(places),
        *separator_warnings(places),
        *end_token_warnings(places),
    ]
    return sorted(warnings, key=lambda warning: warning.turn)


# What was recorded for the sampled tokens


def logprob_warnings(trajectory: Trajectory) -> list[RolloutWarning]:
    """Warnings about the logprobs of all turns."""
    recorded = [transition.ac.maybe_logprobs for transition in trajectory.transitions]
    values = [value for logprobs in recorded for value in logprobs or ()]
    sampled = sum(len(transition.ac.tokens) for transition in trajectory.transitions)
    warnings: list[RolloutWarning] = []
    if sampled >= 4 and values and not any(value != 0.0 for value in values):
        sentence = (
            "Turn 0 and all others: every logprob is exactly 0.0, "
            f"{count_text(len(values), 'value')} in all. They were filled in, not recorded."
        )
        warnings.append(RolloutWarning("logprobs_all_zero", 0, None, sentence))
    for turn, transition in enumerate(trajectory.transitions):
        tokens, logprobs = transition.ac.tokens, transition.ac.maybe_logprobs
        if logprobs is None:
            sentence = f"Turn {turn} has no logprobs: trajectory_to_data refuses the rollout."
            warnings.append(RolloutWarning("logprobs_missing", turn, None, sentence))
            continue
        if len(logprobs) != len(tokens):
            sentence = (
                f"Turn {turn} has {count_text(len(tokens), 'action token')} but "
                f"{count_text(len(logprobs), 'logprob')}: "
                "from there on logprobs stand at the wrong tokens, or the rollout is refused."
            )
            warnings.append(RolloutWarning("logprob_count", turn, None, sentence))
        warnings += value_warnings(turn, logprobs)
        others = logprobs[:-1]
        if len(logprobs) == len(tokens) and others and logprobs[-1] == 0.0 and 0.0 not in others:
            sentence = (
                f"Turn {turn}, action index {len(tokens) - 1}: the last action token has a "
                "logprob of exactly 0.0 and no other has. It was probably appended, not sampled."
            )
            warnings.append(RolloutWarning("zero_logprob_end", turn, len(tokens) - 1, sentence))
    return warnings


def value_warnings(turn: int, logprobs: Sequence[Any]) -> list[RolloutWarning]:
    """Logprobs of one turn that no model samples: not finite, above 0, or far below."""
    numbers = [float(value) if isinstance(value, int | float) else math.nan for value in logprobs]
    bad = [index for index, value in enumerate(numbers) if not math.isfinite(value)]
    warnings: list[RolloutWarning] = []
    for index in bad[:MOST_LISTED]:
        sentence = f"Turn {turn}, action index {index}: the logprob is {logprobs[index]}."
        if len(bad) > MOST_LISTED and index == bad[MOST_LISTED - 1]:
            sentence += f" {len(bad) - MOST_LISTED} more in this turn are not finite either."
        warnings.append(RolloutWarning("logprob_not_finite", turn, index, sentence))
    finite = [value for value in numbers if math.isfinite(value)]
    positive = [i for i, value in enumerate(numbers) if value > 0 and math.isfinite(value)]
    if positive:
        sentence = (
            f"Turn {turn}, action index {positive[0]}: the logprob is {numbers[positive[0]]:g}, "
            f"above 0; {len(positive)} of {count_text(len(numbers), 'logprob')} are."
        )
        hints: tuple[str, ...] = ()
        if all(0 <= value <= 1 for value in finite):
            hints = ("All lie between 0 and 1: probabilities. Take their logarithm.",)
        elif all(value >= 0 for value in finite):
            hints = ("None is below 0: the sign was lost. Negate them.",)
        warnings.append(RolloutWarning("logprob_positive", turn, positive[0], sentence, hints))
    extreme = [i for i, value in enumerate(numbers) if -math.inf < value < LEAST_LOGPROB]
    if extreme:
        sentence = (
            f"Turn {turn}, action index {extreme[0]}: the logprob is {numbers[extreme[0]]:g}, "
            "less than any sampled token has: an infinity that was clamped."
        )
        warnings.append(RolloutWarning("logprob_extreme", turn, extreme[0], sentence))
    return warnings


# How observations begin and end


def empty_observation_warnings(spans: Sequence[TurnSpan]) -> list[RolloutWarning]:
    """An observation without tokens before an action costs its first token the target."""
    never = not any(span.observation for span in spans)
    why = (
        "All observations of this rollout are empty: its prompts were not recorded."
        if never
        else "It has no target and cannot be trained."
    )
    return [
        RolloutWarning(
            "empty_observation",
            span.turn,
            0,
            f"Turn {span.turn} has an observation without tokens before its first action token "
            f"(action index 0). {why}",
        )
        for span in spans
        if span.action and not span.observation
    ]


class Places:
    """The coded datums of one rollout, turn by turn: what each turn observed anew and said.

    Attributes:
        spans: The walk.
        sequences: The coded datums.
        ends: Per turn the last element of its observation, None where that is empty.
        last: Per turn the last element of its action, None where that is empty.
        end_tokens: Tokens that end at least two actions.
        added: Per turn the elements that its observation adds to what is held; for a turn
            that splits, those from the last one on that it repeats.
        label: An element in words.
        is_token: Whether an element is a token, and no image.
    """

    def __init__(
        self,
        spans: Sequence[TurnSpan],
        codes: ElementCodes,
        sequences: Sequence[NDArray[np.uint32]],
        resumed: Mapping[int, int],
        vocab: Mapping[int, str],
    ) -> None:
        self.spans = spans
        self.sequences = sequences
        self.label: Callable[[int], str] = lambda code: element_label(codes.decode(code), vocab)
        self.is_token: Callable[[int], bool] = lambda code: isinstance(codes.decode(code), int)
        self.ends: list[int | None] = []
        self.last: list[int | None] = []
        self.added: list[NDArray[np.uint32]] = []
        for span in spans:
            sequence = sequences[span.datum]
            end = span.observation + span.action
            self.ends.append(int(sequence[span.observation - 1]) if span.observation else None)
            self.last.append(int(sequence[end - 1]) if span.action else None)
            start = span.held
            if span.splits:  # the last element that both share has a new neighbour
                start = resumed.get(span.turn, max(span.position - 1, 0))
            self.added.append(sequence[start : span.observation])
        counts = Counter(token for token in self.last if token is not None)
        self.end_tokens = {token for token, count in counts.items() if count > 1}

    def goes_on(self, turn: int) -> bool:
        """The turn continues an unfinished answer: nothing was put in, or no end token."""
        if not self.spans[turn].extends:
            return False
        added, before = self.added[turn], self.last[turn - 1]
        return not len(added) or (
            before not in self.end_tokens
            and not any(token in self.end_tokens for token in added.tolist())
        )

    def news(self, turn: int) -> list[int] | None:
        """What an observation holds behind its last end token; None where it has no end token."""
        span = self.spans[turn]
        observation = self.sequences[span.datum][: span.observation]
        places = np.flatnonzero(np.isin(observation, list(self.end_tokens)))
        return observation[places[-1] + 1 :].tolist() if len(places) else None

    def another_kind(self, turn: int, others: Sequence[int]) -> bool:
        """An observation brings another kind of message than the others do, as a tool's output.

        Behind its last end token (in all of it, where it has none) it lacks the token with
        which this part begins in all others.
        """
        parts = [part for part in map(self.news, others) if part is not None]
        first = {part[0] if part else None for part in parts}
        if len(first) != 1 or None in first:
            return False
        mine = self.news(turn)
        if mine is None:
            span = self.spans[turn]
            mine = self.sequences[span.datum][: span.observation].tolist()
        return bool(mine) and not first & set(mine)

    def observed_pairs(self) -> NDArray[np.uint64]:
        """Neighbours in what was observed, each place once: first element in the high half.

        Where an observation extends, the place between answer and observation is no part of
        it; what a split observation repeats was seen before.
        """
        pairs = [
            added[:-1].astype(np.uint64) << np.uint64(32) | added[1:]
            for added in self.added
            if len(added) > 1
        ]
        return np.concatenate(pairs) if pairs else np.zeros(0, dtype=np.uint64)


def header_warnings(places: Places) -> list[RolloutWarning]:
    """One observation that does not end with the token with which all others end, at least two.

    Turns that go on with an unfinished answer are left out on both sides, and an odd one that
    brings another kind of message is no fault: some templates write no header behind a tool's
    output.
    """
    turns = [span.turn for span in places.spans if not places.goes_on(span.turn)]
    counts = Counter(places.ends[turn] for turn in turns)
    if len(turns) < 3 or len(counts) != 2:
        return []
    (usual, _), (other, once) = counts.most_common()
    if once != 1 or usual is None or other is None or not places.is_token(usual):
        return []
    turn = next(turn for turn in turns if places.ends[turn] == other)
    if places.another_kind(turn, [each for each in turns if each != turn]):
        return []
    index = places.spans[turn].observation - 1
    sentence = (
        f"Turn {turn}, observation index {index}: it ends with {places.label(other)}, "
        f"the other {len(turns) - 1} observations end with {places.label(usual)}. "
        "The generation header may be missing."
    )
    return [RolloutWarning("header_changed", turn, index, sentence)]


# Where an answer ends and the next observation goes on


def separator_warnings(places: Places) -> list[RolloutWarning]:
    """What follows an answer's end token is not what follows that token elsewhere.

    A boundary is a turn that extends and adds something behind an action that ends with an end
    token. The reference is what follows this token in observation text; where that does not
    tell, what follows it at all other boundaries. Three signs are needed to warn, so that
    another kind of message (a tool's answer) is no fault: the end token came twice, the
    separator was lost, or something slipped in before it.
    """
    boundaries = [
        (span.turn, places.last[span.turn - 1])
        for span in places.spans
        if span.extends
        and len(places.added[span.turn])
        and places.last[span.turn - 1] in places.end_tokens
    ]
    if not boundaries:
        return []
    pairs = places.observed_pairs()
    behind = {end: warning_followers(pairs, end) for _, end in boundaries if end is not None}
    firsts: dict[int, Counter[int]] = {end: Counter() for end in behind}
    for turn, end in boundaries:
        if end is not None:
            firsts[end][int(places.added[turn][0])] += 1
    warnings: list[RolloutWarning] = []
    for turn, end in boundaries:
        assert end is not None
        added = places.added[turn]
        first = int(added[0])
        usual, where = behind[end], "in observation text"
        if len(usual) != 1 or usual.total() < 2:
            usual, where = firsts[end] - Counter({first: 1}), "at the other boundaries"
            if len(usual) != 1 or usual.total() < 2:
                continue
        reference = next(iter(usual))
        if first == reference:
            continue
        what = None
        if first == end:
            what = "the end token stands twice"
        elif len(added) > 1 and int(added[1]) == reference:
            what = "something slipped in between"
        elif bool(np.any(pairs == np.uint64(reference << 32 | first))):
            what = "the separator was lost"
        if what is None:
            continue
        index = places.spans[turn].held
        sentence = (
            f"Turn {turn}, observation index {index}: after the last token of turn {turn - 1}'s "
            f"action, {places.label(end)}, comes {places.label(first)}, but {where} "
            f"{places.label(reference)} follows it ({usual.total()} times): {what}."
        )
        warnings.append(RolloutWarning("separator_changed", turn, index, sentence))
    return warnings


def warning_followers(pairs: NDArray[np.uint64], token: int) -> Counter[int]:
    """What follows a token in `Places.observed_pairs`, with counts."""
    mine = pairs[pairs >> np.uint64(32) == np.uint64(token)] & np.uint64(0xFFFFFFFF)
    values, counts = np.unique(mine, return_counts=True)
    return Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))


def end_token_warnings(places: Places) -> list[RolloutWarning]:
    """No action ends as another, and every observation first adds one and the same token.

    That token ends the answers: it is written by the template, never sampled, never trained.
    """
    actions = sum(1 for span in places.spans if span.action)
    turns = [span.turn for span in places.spans if span.extends and len(places.added[span.turn])]
    if actions < 3 or places.end_tokens or len(turns) < 2:
        return []
    first = {int(places.added[turn][0]) for turn in turns}
    if len(first) != 1:
        return []
    token = first.pop()
    if not places.is_token(token):
        return []
    others = [places.added[span.turn][1 if span.turn in turns else 0 :] for span in places.spans]
    if not any(bool(np.any(added == token)) for added in others):
        return []
    turn = turns[0]
    index = places.spans[turn].held
    sentence = (
        f"Turn {turn}, observation index {index}: {places.label(token)} is what every observation "
        f"adds first, and no action of {actions} ends with it. The end of an answer is never "
        "sampled, so the model does not learn to stop."
    )
    return [RolloutWarning("end_token_untrained", turn, index, sentence)]
