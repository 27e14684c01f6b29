"""Changes to the history that a turn carries over: read, made, and written."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sequence_extension.editor.fields import (
    MAX_FIELD_CHARS,
    FieldError,
    field_elements_text,
    parse_field_elements,
)
from sequence_extension.text import shown_text


@dataclass
class HistoryChanges:
    """What becomes of each position of a history; positions count it before any change.

    Attributes:
        before: Elements that are inserted before a position.
        instead: Elements that take the place of one at a position; none where it is removed.
    """

    before: dict[int, list[Any]] = field(default_factory=dict)
    instead: dict[int, list[Any]] = field(default_factory=dict)

    def made(self, history: Sequence[Any]) -> list[Any]:
        """The history after the changes."""
        result: list[Any] = []
        for position in range(len(history) + 1):
            result.extend(self.before.get(position, ()))
            if position in self.instead:
                result.extend(self.instead[position])
            elif position < len(history):
                result.append(history[position])
        return result

    def place(self, history: Sequence[Any], index: int) -> tuple[list[Any], int, int | None]:
        """Where an element of the changed history comes from.

        Args:
            history: Before the changes.
            index: Of an element of `made(history)`.

        Returns:
            The list that holds the element and its index there; and the element's position in
            the history where it was carried over unchanged (the list is then a copy), else None.
        """
        for position in range(len(history) + 1):
            for part in (self.before.get(position, []), self.instead.get(position)):
                if part is None:
                    if position < len(history):
                        if not index:
                            return [history[position]], 0, position
                        index -= 1
                    continue
                if index < len(part):
                    return part, index, None
                index -= len(part)
        raise IndexError(index)

    def follow(self, position: int, removed: int, inserted: int) -> int | None:
        """Keep every change at its token when the history itself changes; in place.

        What is put inside a run that is removed goes with it, as reasoning goes with what is
        said around it.

        Args:
            position: Where the history changes.
            removed: Elements that go there, 0 or 1.
            inserted: Elements that come there.

        Returns:
            The position in the changed history where the same happens, or None where nothing does.
        """
        own = removed == 1 and position in self.instead
        inside = not removed and self.instead.get(position) == self.instead.get(position - 1) == []
        before = HistoryChanges(
            {at: new for at, new in self.before.items() if at < position + removed},
            {at: put for at, put in self.instead.items() if at < position},
        )
        reached = len(before.made([0] * position))
        put = self.instead.get(position)
        shift = inserted - removed
        first = position + removed  # from here on, positions move
        moved = {at + shift: new for at, new in self.before.items() if at >= first}
        stays = {at: new for at, new in self.before.items() if at < first}
        instead = {
            at + shift if at >= first else at: entry
            for at, entry in self.instead.items()
            if not (own and at == position)
        }
        if own and inserted:
            instead |= {position: put or []} | {position + more: [] for more in range(1, inserted)}
        elif own and put:  # the token is gone, what stood in its place stays
            moved[position] = [*stays.pop(position, []), *put, *moved.get(position, [])]
        elif inside:
            instead |= {position + more: [] for more in range(inserted)}
        self.before = {at: [*stays.get(at, []), *moved.get(at, [])] for at in {*stays, *moved}}
        self.instead = instead
        return None if own or inside else reached

    def text(self) -> str:
        """The changes as `parse_changes` reads them; removals in a row share one entry."""
        entries: list[str] = []
        removed: list[int] = []

        def close() -> None:
            if removed:
                span = f"{removed[0]}-{removed[-1]}" if len(removed) > 1 else f"{removed[0]}"
                entries.append(f"{span}:")
                removed.clear()

        for position in sorted({*self.before, *self.instead}):
            new, put = self.before.get(position), self.instead.get(position)
            if new:
                close()
                entries.append(f"{position}+: {field_elements_text(new)}")
            if put is None or put:
                close()
            if put:
                entries.append(f"{position}: {field_elements_text(put)}")
            elif put is not None:
                if removed and removed[-1] != position - 1:
                    close()
                removed.append(position)
        close()
        return "; ".join(entries)


@dataclass(frozen=True)
class Change:
    """One change as typed.

    Attributes:
        first, last: Positions that it touches.
        inserts: It puts `new` before `first`; else `new` takes the place of what it touches.
        new: Elements, perhaps none.
    """

    first: int
    last: int
    inserts: bool
    new: list[Any]


def parse_change(text: str, count: int) -> Change:
    """One change of an edits field.

    Raises:
        FieldError: What is wrong, and what to type instead.
    """
    match = re.fullmatch(r"([0-9]{1,9})\s*(\+|-\s*([0-9]{1,9}))?\s*:(.*)", text, re.DOTALL)
    if match is None:
        raise FieldError(
            f": {shown_text(text)} is not a change. Type `7: 13` to replace, `7-9:` to remove or "
            "`7+: 13 14` to insert; separate changes with `;`."
        )
    first, inserts = int(match[1]), match[2] == "+"
    last = int(match[3]) if match[3] else first
    end = count if inserts else count - 1
    if end < 0:
        raise FieldError(
            f": {shown_text(text)} has nothing to change, because no history is carried here. "
            "Clear "
            "this field."
        )
    if max(first, last) > end:
        raise FieldError(
            f": {shown_text(text)} is outside the carried history. Type a position from 0 to {end}."
        )
    if last < first:
        raise FieldError(f": {shown_text(text)} runs backwards. Type `{last}-{first}:` instead.")
    try:
        new = parse_field_elements(match[4])
    except FieldError as error:
        raise FieldError(f", {error}") from None
    if inserts and not new:
        raise FieldError(
            f": {shown_text(text)} inserts nothing. Type the tokens to insert after the colon, as "
            "in "
            f"`{first}+: 13`."
        )
    return Change(first, last, inserts, new)


def parse_changes(text: str, count: int) -> HistoryChanges:
    """The changes of one edits field.

    Their order does not matter, except among insertions before one and the same position.

    Args:
        text: `7: 13` replaces, `7-9:` removes, `7+: 13 14` inserts before; `;` separates.
        count: Elements of the history.

    Raises:
        FieldError: The rest of a sentence that begins with the name of the field.
    """
    result = HistoryChanges()
    if len(text) > MAX_FIELD_CHARS:
        raise FieldError(
            f"holds {len(text):,} characters, but the editor reads at most {MAX_FIELD_CHARS:,}."
        )
    for index, typed in enumerate(part.strip() for part in text.split(";")):
        if not typed:
            continue
        try:
            change = parse_change(typed, count)
        except FieldError as error:
            raise FieldError(f"change {index}{error}") from None
        if change.inserts:
            result.before.setdefault(change.first, []).extend(change.new)
            continue
        for position in range(change.first, change.last + 1):
            if position in result.instead:
                raise FieldError(
                    f"change {index}: {shown_text(typed)} touches position {position} a second "
                    "time. "
                    "Change every position once."
                )
            result.instead[position] = change.new if position == change.first else []
    return result


def apply_changes(history: Sequence[Any], text: str) -> list[Any]:
    """The carried history (previous observation + previous action) after the changes of `text`.

    Raises:
        FieldError: As `parse_changes`.
    """
    return parse_changes(text, len(history)).made(history)
