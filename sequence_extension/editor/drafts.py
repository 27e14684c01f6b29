"""Turns as typed, to a rollout."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from sequence_extension.cookbook import (
    PARSE_ERROR_MASKED_METRIC_KEY,
    TokensWithLogprobs,
    Trajectory,
    Transition,
    tinker,
)
from sequence_extension.editor.changes import apply_changes
from sequence_extension.editor.fields import (
    FieldError,
    parse_field_elements,
    parse_field_logprobs,
    parse_field_reward,
)
from sequence_extension.elements import elements_to_model_input
from sequence_extension.rollout import Rollout
from sequence_extension.text import count_text

T = TypeVar("T")

MAX_DRAFT_TURNS = 16
MAX_DRAFT_LENGTH = 8_000


@dataclass(frozen=True)
class TurnDraft:
    """One turn as typed in the editor: raw text, nothing parsed.

    Attributes:
        ob: New observation tokens ("extends", "edits") or the whole observation ("replaces").
        ac: Action tokens.
        logprobs: One number per action token, or `auto` for made-up ones.
        reward: Reward of the turn.
        history: What the observation does with the previous observation + action: carries it
            over ("extends"), changes it by `edits` first ("edits"), or drops it ("replaces").
        edits: Changes to the carried history by position, separated by `;`:
            `7: 13` puts token 13 in place of token 7, `7-9:` removes three tokens,
            `7+: 13 14` inserts before position 7.
        masked: The turn carries the cookbook's parse-error mask metric.
    """

    ob: str
    ac: str
    logprobs: str = "auto"
    reward: str = "0"
    history: Literal["extends", "edits", "replaces"] = "extends"
    edits: str = ""
    masked: bool = False


@dataclass(frozen=True)
class FieldIssue:
    """One sentence about one field of the editor.

    Attributes:
        turn: Turn the field belongs to, from 0.
        field: Name of the `TurnDraft` attribute.
        message: The sentence; names turn and index.
        fatal: True when no trajectory can be built; False when the decision is the cookbook's
            and the reader should look.
        unmatched: The action has no logprobs, or not one per token; alone, that is refused.
    """

    turn: int
    field: str
    message: str
    fatal: bool = True
    unmatched: bool = False


def draft_logprob_notes(
    turn: int, logprobs: Sequence[float] | None, count: int
) -> list[FieldIssue]:
    """What the cookbook lets pass, or refuses with its own error, about one turn's logprobs."""
    if logprobs is None:
        message = (
            f"Turn {turn} reports no logprobs, so no training data can be made. "
            f"Type `auto` or {count_text(count, 'number')}."
        )
        return [FieldIssue(turn, "logprobs", message, fatal=False, unmatched=True)]
    notes: list[str] = []
    uneven = len(logprobs) != count
    if uneven:
        difference = abs(len(logprobs) - count)
        advice = f"Remove {difference}" if len(logprobs) > count else f"Add {difference}"
        notes.append(
            f"Turn {turn} has {count_text(count, 'action token')} but "
            f"{count_text(len(logprobs), 'logprob')}. {advice}, or type `auto`."
        )
    for index, value in enumerate(logprobs):
        if not math.isfinite(value):
            notes.append(
                f"Turn {turn}, logprob index {index} is {value}. The cookbook lets it through; "
                "the loss will not. Type a finite number."
            )
            break
        if value > 0:
            notes.append(
                f"Turn {turn}, logprob index {index} is {value:g}, above 0. "
                f"A logprob is at most 0: perhaps {-value:g}?"
            )
            break
    return [
        FieldIssue(turn, "logprobs", message, fatal=False, unmatched=uneven and not index)
        for index, message in enumerate(notes)
    ]


@dataclass(frozen=True)
class TurnFields:
    """What was read from the fields of one turn.

    Attributes:
        new, action: Elements of the observation that are new, and of the action.
        logprobs: One per action token, or None.
        reward: Of this turn.
    """

    new: list[Any]
    action: list[int]
    logprobs: list[float] | None
    reward: float


def read_draft(turn: int, draft: TurnDraft) -> tuple[TurnFields, list[FieldIssue]]:
    """The fields of one turn; where one cannot be read it is empty, and an issue says why."""
    issues: list[FieldIssue] = []

    def read(field: str, label: str, parse: Callable[[], T], empty: T) -> T:
        try:
            return parse()
        except FieldError as error:
            issues.append(FieldIssue(turn, field, f"Turn {turn}, {label} {error}"))
            return empty

    nothing: list[Any] = []
    new = read("ob", "observation", lambda: parse_field_elements(draft.ob), nothing)
    action = read("ac", "action", lambda: parse_field_elements(draft.ac, images=False), nothing)
    count, readable = len(action), not any(issue.field == "ac" for issue in issues)
    logprobs = read(
        "logprobs", "logprobs", lambda: parse_field_logprobs(draft.logprobs, turn, count), None
    )
    if readable and not any(issue.field == "logprobs" for issue in issues):
        issues += draft_logprob_notes(turn, logprobs, count)
    reward = read("reward", "reward", lambda: parse_field_reward(draft.reward), 0.0)
    return TurnFields(new, action, logprobs, reward), issues


def draft_length_issue(
    turn: int, model_input: tinker.ModelInput, fields: TurnFields
) -> FieldIssue | None:
    """What is doubtful about the length of a turn; fatal where it is too long for the editor."""
    length = model_input.length + len(fields.action)
    if length > MAX_DRAFT_LENGTH:
        message = (
            f"Turn {turn} holds {length:,} tokens with its history, but the editor draws at "
            f"most {MAX_DRAFT_LENGTH:,}. Long rollouts belong in section 10."
        )
        return FieldIssue(turn, "ob", message)
    if length == 1:
        message = (
            f"Turn {turn} holds a single token. On its own it cannot be a datum, which needs "
            "one token to read and one to predict: type one more."
        )
        return FieldIssue(turn, "ac" if fields.new else "ob", message, fatal=False)
    if not fields.action:
        message = (
            f"Turn {turn} has an empty action: nothing of this turn is trained. "
            "Type at least one token."
        )
        return FieldIssue(turn, "ac", message, fatal=False)
    if not model_input.length:
        message = (
            f"Turn {turn} has an empty observation, so its first action token "
            f"({fields.action[0]}) is never a target. Type at least one token."
        )
        return FieldIssue(turn, "ob", message, fatal=False)
    return None


def drafts_to_rollout(
    drafts: Sequence[TurnDraft], vocab: Mapping[int, str], name: str
) -> tuple[Rollout | None, list[FieldIssue]]:
    """What was typed in the editor to a rollout, with a sentence for every doubtful field.

    Never raises on any text. Positions in edits count the carried history, which is the
    previous observation + the previous action.

    Args:
        drafts: One per turn; at most MAX_DRAFT_TURNS.
        vocab: Text of token ids where known.
        name: Name of the rollout.

    Returns:
        The rollout, or None when a field is fatally wrong; and the issues in order of turns.
        Issues that are not fatal leave the decision to `trajectory_to_data`.
    """
    if not drafts:
        return None, [FieldIssue(0, "ob", "There is no turn. Add one.")]
    if len(drafts) > MAX_DRAFT_TURNS:
        message = f"The editor holds at most {MAX_DRAFT_TURNS} turns. Remove some."
        return None, [FieldIssue(MAX_DRAFT_TURNS, "ob", message)]
    issues: list[FieldIssue] = []
    transitions: list[Transition] = []
    # None: an earlier turn could not be read, so what this turn would carry is unknown.
    history: list[Any] | None = []
    for turn, draft in enumerate(drafts):
        fields, problems = read_draft(turn, draft)
        carried: list[Any] | None = [] if draft.history == "replaces" else history
        if draft.history == "edits" and carried is not None:
            try:
                carried = apply_changes(carried, draft.edits)
            except FieldError as error:
                problems.append(FieldIssue(turn, "edits", f"Turn {turn}, history {error}"))
        if carried is not None and not any(issue.fatal for issue in problems):
            model_input = elements_to_model_input([*carried, *fields.new])
            if (doubt := draft_length_issue(turn, model_input, fields)) is not None:
                problems.append(doubt)
        issues += problems
        if carried is None or any(issue.fatal for issue in problems):
            history = None
            continue
        history = [*carried, *fields.new, *fields.action]
        transitions.append(
            Transition(
                ob=model_input,
                ac=TokensWithLogprobs(tokens=fields.action, maybe_logprobs=fields.logprobs),
                reward=fields.reward,
                episode_done=turn == len(drafts) - 1,
                metrics={PARSE_ERROR_MASKED_METRIC_KEY: 1.0} if draft.masked else {},
            )
        )
    if any(issue.fatal for issue in issues):
        return None, issues
    trajectory = Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty())
    return Rollout(name, trajectory, vocab), issues


def next_draft(drafts: Sequence[TurnDraft]) -> TurnDraft:
    """A turn to add after `drafts`: it extends, with the last turn's new tokens and action."""
    if not drafts:
        return TurnDraft("100 101", "200 201")
    last = drafts[-1]
    return TurnDraft(last.ob if last.ob.strip() else "300", last.ac or "400 401")
