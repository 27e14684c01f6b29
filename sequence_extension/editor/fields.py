"""What is typed in one field of the editor, read."""

import math
import re
from collections.abc import Sequence
from typing import Any

from sequence_extension.rollout import MAX_TOKEN_ID, image_chunk, made_up_logprob
from sequence_extension.text import shown

# Bounds of the editor of section 2: characters and entries of one field, turns, and tokens
# of one turn with its history. Longer rollouts are read in section 9.
MAX_FIELD_CHARS = 20_000
MAX_FIELD_TOKENS = 2_000


class FieldError(ValueError):
    """One plain sentence about what was typed; never shown as a traceback."""


def split_field(text: str, pattern: str) -> list[str]:
    """The pieces of one editor field; spaces, commas, newlines and brackets separate.

    Raises:
        FieldError: The text is longer than the editor reads.
    """
    if len(text) > MAX_FIELD_CHARS:
        raise FieldError(
            f"holds {len(text):,} characters, but the editor reads at most "
            f"{MAX_FIELD_CHARS:,} a field. Long rollouts belong in section 9."
        )
    pieces = re.findall(pattern, text)
    if len(pieces) > MAX_FIELD_TOKENS:
        raise FieldError(
            f"holds {len(pieces):,} entries, but the editor reads at most "
            f"{MAX_FIELD_TOKENS:,} a field. Long rollouts belong in section 9."
        )
    return pieces


def parse_token_id(piece: str) -> int:
    """One token id, 0 to 2**31 - 1.

    Raises:
        FieldError: The rest of a sentence: what is wrong, and what to type instead.
    """
    if re.fullmatch(r"\+?[0-9]{1,18}", piece):
        value = int(piece)
        if value <= MAX_TOKEN_ID:
            return value
    if re.fullmatch(r"\+?[0-9]+", piece):
        raise FieldError(
            f"{shown(piece)} is larger than any token id. Type a number up to {MAX_TOKEN_ID}."
        )
    if re.fullmatch(r"-[0-9]+", piece):
        raise FieldError(
            f"{shown(piece)} is negative. Token ids start at 0: type {shown(piece[1:])} "
            "or another id."
        )
    if piece.startswith("image"):
        raise FieldError(
            f"{shown(piece)} is not a token id. An image is written `image(frameA, 4)`: "
            "a name and its number of tokens."
        )
    raise FieldError(f"{shown(piece)} is not a token id. Type a whole number such as 300.")


def parse_elements(text: str, images: bool = True) -> list[Any]:
    """Token ids and `image(name, tokens)` as flat elements (an image is one element).

    Args:
        text: Ids separated by spaces, commas or newlines; square brackets are ignored.
        images: Whether images may occur (never in an action: it is sampled).

    Raises:
        FieldError: The rest of a sentence that begins with the name of the field.
    """
    elements: list[Any] = []
    pieces = split_field(text, r"image\([^(),;]*,[^(),;]*\)|[^\s,\[\]]+")
    for index, piece in enumerate(pieces):
        try:
            if not (piece.startswith("image(") and piece.endswith(")")):
                elements.append(parse_token_id(piece))
                continue
            if not images:
                raise FieldError(
                    f"{shown(piece)} cannot be sampled. Images belong in an observation: "
                    "type token ids here."
                )
            name, _, size = (part.strip() for part in piece[6:-1].partition(","))
            if not name or not re.fullmatch(r"[0-9]{1,9}", size):
                raise FieldError(
                    f"{shown(piece)} needs a name and a number of tokens. "
                    "Type for example `image(frameA, 4)`."
                )
            if not 1 <= int(size) <= MAX_FIELD_TOKENS:
                raise FieldError(
                    f"{shown(piece)} has {int(size):,} tokens. Type 1 to {MAX_FIELD_TOKENS:,}."
                )
            elements.append(image_chunk(name, int(size)))
        except FieldError as error:
            raise FieldError(f"index {index}: {error}") from None
    return elements


def apply_edits(history: Sequence[Any], text: str) -> list[Any]:
    """The carried history after the changes of one edits field.

    All positions count elements of the history before any change, so the order of the
    changes does not matter, except among insertions before one and the same position.

    Args:
        history: Previous observation + previous action.
        text: `7: 13` replaces, `7-9:` removes, `7+: 13 14` inserts before; `;` separates.

    Raises:
        FieldError: The rest of a sentence that begins with the name of the field.
    """
    count = len(history)
    before: dict[int, list[Any]] = {}
    instead: dict[int, list[Any]] = {}
    if len(text) > MAX_FIELD_CHARS:
        raise FieldError(
            f"holds {len(text):,} characters, but the editor reads at most {MAX_FIELD_CHARS:,}."
        )
    changes = [change.strip() for change in text.split(";")]
    for index, change in enumerate(changes):
        if not change:
            continue
        match = re.fullmatch(r"([0-9]{1,9})\s*(\+|-\s*([0-9]{1,9}))?\s*:(.*)", change, re.DOTALL)
        if match is None:
            raise FieldError(
                f"change {index}: {shown(change)} is not a change. Type `7: 13` to replace, "
                "`7-9:` to remove or `7+: 13 14` to insert; separate changes with `;`."
            )
        first = int(match[1])
        inserts = match[2] == "+"
        last = int(match[3]) if match[3] else first
        end = count if inserts else count - 1
        if end < 0:
            raise FieldError(
                f"change {index}: {shown(change)} has nothing to change, because no history is "
                "carried here. Clear this field."
            )
        if max(first, last) > end:
            raise FieldError(
                f"change {index}: {shown(change)} is outside the carried history. "
                f"Type a position from 0 to {end}."
            )
        if last < first:
            raise FieldError(
                f"change {index}: {shown(change)} runs backwards. Type `{last}-{first}:` instead."
            )
        try:
            new = parse_elements(match[4])
        except FieldError as error:
            raise FieldError(f"change {index}, {error}") from None
        if inserts:
            if not new:
                raise FieldError(
                    f"change {index}: {shown(change)} inserts nothing. Type the tokens to insert "
                    f"after the colon, as in `{first}+: 13`."
                )
            before.setdefault(first, []).extend(new)
            continue
        for position in range(first, last + 1):
            if position in instead:
                raise FieldError(
                    f"change {index}: {shown(change)} touches position {position} a second time. "
                    "Change every position once."
                )
            instead[position] = new if position == first else []
    result: list[Any] = []
    for position in range(count + 1):
        result.extend(before.get(position, ()))
        if position in instead:
            result.extend(instead[position])
        elif position < count:
            result.append(history[position])
    return result


def parse_logprobs(text: str, turn: int, count: int) -> list[float] | None:
    """The logprobs of one action.

    Args:
        text: Numbers; `nan` and `inf` are let through; `auto` makes all of them up, a final
            `...` makes up those that are missing; empty means that none were reported.
        turn, count: Index of the turn and its number of action tokens.

    Raises:
        FieldError: The rest of a sentence that begins with the name of the field.
    """
    if text.strip().lower() == "auto":
        return [made_up_logprob(turn, index) for index in range(count)]
    if not text.strip():
        return None
    pieces = split_field(text, r"[^\s,\[\]]+")
    values: list[float] = []
    for index, piece in enumerate(pieces):
        if piece in ("...", "…") and index == len(pieces) - 1:
            values.extend(made_up_logprob(turn, later) for later in range(index, count))
            break
        if piece.lower() in ("null", "none"):
            values.append(math.nan)
            continue
        try:
            if "_" in piece:
                raise ValueError
            values.append(float(piece))
        except ValueError:
            raise FieldError(
                f"index {index}: {shown(piece)} is not a number. Type one such as -0.3, "
                "or `auto` alone for made-up ones."
            ) from None
    return values


def parse_reward(text: str) -> float:
    """A finite reward.

    Raises:
        FieldError: The rest of a sentence that begins with the name of the field.
    """
    try:
        value = float(text) if len(text) <= 100 and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        what = shown(text.strip()) if text.strip() else "empty"
        raise FieldError(f"is {what}, not a finite number. Type one such as 0 or 1.5.")
    return value
