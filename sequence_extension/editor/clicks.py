"""A token that was clicked: replaced, removed, or given a neighbour, in the turns as typed."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sequence_extension.editor.changes import HistoryChanges, parse_changes
from sequence_extension.editor.drafts import TurnDraft
from sequence_extension.editor.fields import FieldError, field_elements_text, parse_field_elements
from sequence_extension.rollout import rollout_logprob


@dataclass(frozen=True)
class Click:
    """One change by hand.

    Attributes:
        turn: The turn whose token was clicked.
        position: In that turn's observation + action; an image is one element. An insertion may
            name the end of the observation or of the action.
        what: "replace", "insert" (before the position) or "delete".
        text: The tokens to put there, as typed.
        part: Where an insertion belongs that stands between observation and action.
    """

    turn: int
    position: int
    what: Literal["replace", "insert", "delete"]
    text: str = ""
    part: Literal["observation", "action"] = "observation"


@contextlib.contextmanager
def name_click_field(turn: int, field: str) -> Iterator[None]:
    """What cannot be read inside names its turn and field."""
    try:
        yield
    except FieldError as error:
        raise FieldError(f"Turn {turn}, {field} {error}") from None


def click_turn_parts(
    turn: int, draft: TurnDraft, history: Sequence[Any]
) -> tuple[list[Any], list[Any], list[int]]:
    """What a turn keeps of the history, what its observation adds, and its action.

    Raises:
        FieldError: A field cannot be read; names turn and field.
    """
    with name_click_field(turn, "history"):
        edits = draft.edits if draft.history == "edits" else ""
        changes = parse_changes(edits, len(history))
    with name_click_field(turn, "observation"):
        observation = parse_field_elements(draft.ob)
    with name_click_field(turn, "action"):
        action = parse_field_elements(draft.ac, images=False)
    return [] if draft.history == "replaces" else changes.made(history), observation, action


def click_histories(drafts: Sequence[TurnDraft]) -> list[list[Any]]:
    """What each turn would carry over: the previous observation + action, as flat elements.

    Raises:
        FieldError: A turn cannot be read; names turn and field.
    """
    carried: list[list[Any]] = [[]]
    for turn, draft in enumerate(drafts):
        kept, observation, action = click_turn_parts(turn, draft, carried[-1])
        carried.append([*kept, *observation, *action])
    return carried[:-1]


def clicked_items(items: list[Any], index: int, click: Click, new: Sequence[Any]) -> list[Any]:
    """A list after the click at one of its indices."""
    until = index + (click.what != "insert")
    return [*items[:index], *new, *items[until:]]


def click_history(draft: TurnDraft, history: list[Any], click: Click, new: list[Any]) -> TurnDraft:
    """A click on a token that the turn carries over becomes a change to the history."""
    text = draft.edits if draft.history == "edits" else ""
    changes: HistoryChanges = parse_changes(text, len(history))
    part, index, position = changes.place(history, click.position)
    if position is None:
        part[:] = clicked_items(part, index, click, new)
    elif click.what == "insert":
        changes.before.setdefault(position, []).extend(new)
    else:
        changes.instead[position] = new
    return replace(draft, history="edits", edits=changes.text())


def click_logprobs(draft: TurnDraft, index: int, click: Click, count: int) -> str:
    """The logprobs field after a click in the action, so that each token keeps its own.

    Args:
        draft: The turn before the click.
        index: Of the clicked token in the action.
        click: What was done.
        count: Tokens put there.
    """
    pieces = draft.logprobs.replace(",", " ").split()
    typed = [piece for piece in pieces if piece not in ("...", "…")]
    if draft.logprobs.strip().lower() == "auto" or index >= len(typed):
        return draft.logprobs
    made_up = [f"{rollout_logprob(click.turn, index + at):g}" for at in range(count)]
    if click.what == "replace":
        made_up[:1] = [typed[index]][:count]
    return " ".join([*clicked_items(typed, index, click, made_up), *pieces[len(typed) :]])


def apply_click(drafts: Sequence[TurnDraft], click: Click) -> tuple[TurnDraft, ...]:
    """The turns as typed after a click.

    Raises:
        FieldError: One plain sentence: the turns, or the new tokens, cannot be read, or no such
            token stands there.
    """
    if not 0 <= click.turn < len(drafts):
        raise FieldError(f"There is no turn {click.turn}.")
    draft, history = drafts[click.turn], click_histories(drafts[: click.turn + 1])[click.turn]
    kept, observation, action = click_turn_parts(click.turn, draft, history)
    carried = len(kept)
    start = carried + len(observation)
    in_action = click.position > start or (
        click.position == start and (click.what != "insert" or click.part == "action")
    )
    try:
        new = (
            [] if click.what == "delete" else parse_field_elements(click.text, images=not in_action)
        )
    except FieldError as error:
        # named as the editor names the place; which of several tokens it is, the text shows
        problem = re.sub(r"^index \d+:", "", str(error)).strip()
        raise FieldError(f"Turn {click.turn}, position {click.position}: {problem}") from None
    if click.what != "delete" and not new:
        raise FieldError("Type a token id to put there.")
    last = start + len(action) - (click.what != "insert")
    if not 0 <= click.position <= last:
        raise FieldError(f"Turn {click.turn} has no position {click.position}.")
    if in_action:
        index = click.position - start
        text = field_elements_text(clicked_items(action, index, click, new))
        changed = replace(draft, ac=text, logprobs=click_logprobs(draft, index, click, len(new)))
    elif click.position >= carried:
        text = field_elements_text(clicked_items(observation, click.position - carried, click, new))
        changed = replace(draft, ob=text)
    else:
        changed = click_history(draft, history, click, new)
    later = carry_click_on(drafts[click.turn + 1 :], start + len(action), click, len(new))
    return (*drafts[: click.turn], changed, *later)


def carry_click_on(
    drafts: Sequence[TurnDraft], count: int, click: Click, inserted: int
) -> list[TurnDraft]:
    """The later turns, with their changes to the history kept at the tokens that they name.

    Args:
        drafts: The turns after the clicked one.
        count: Elements of the clicked turn before the click.
        click: What was done.
        inserted: Elements put there.
    """
    result = list(drafts)
    position = click.position
    with contextlib.suppress(FieldError):  # what cannot be read is left as it was typed
        for at, draft in enumerate(drafts):
            if draft.history == "replaces":
                break
            if draft.history == "edits":
                changes = parse_changes(draft.edits, count)
                kept = len(changes.made([0] * count))
                reached = changes.follow(position, int(click.what != "insert"), inserted)
                result[at] = replace(draft, edits=changes.text())
                if reached is None:
                    break
                count, position = kept, reached
            count += len(parse_field_elements(draft.ob)) + len(
                parse_field_elements(draft.ac, images=False)
            )
    return result
