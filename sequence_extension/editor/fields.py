"""What is typed in one field of the editor, read."""

import math
import re
from collections.abc import Iterable
from typing import Any

from sequence_extension.elements import MAX_TOKEN_ID, image_element
from sequence_extension.rollout import rollout_logprob
from sequence_extension.text import shown_text

# Bounds of the editor of section 2: characters and entries of one field, turns, and tokens
# of one turn with its history. Longer rollouts are read in section 10.
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
            f"{MAX_FIELD_CHARS:,} a field. Long rollouts belong in section 10."
        )
    pieces = re.findall(pattern, text)
    if len(pieces) > MAX_FIELD_TOKENS:
        raise FieldError(
            f"holds {len(pieces):,} entries, but the editor reads at most "
            f"{MAX_FIELD_TOKENS:,} a field. Long rollouts belong in section 10."
        )
    return pieces


def parse_field_token(piece: str) -> int:
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
            f"{shown_text(piece)} is larger than any token id. Type a number up to {MAX_TOKEN_ID}."
        )
    if re.fullmatch(r"-[0-9]+", piece):
        raise FieldError(
            f"{shown_text(piece)} is negative. Token ids start at 0: type {shown_text(piece[1:])} "
            "or another id."
        )
    if piece.startswith("image"):
        raise FieldError(
            f"{shown_text(piece)} is not a token id. An image is written `image(frameA, 4)`: "
            "a name and its number of tokens."
        )
    raise FieldError(f"{shown_text(piece)} is not a token id. Type a whole number such as 300.")


def field_element_text(element: Any) -> str:
    """A flat element as `parse_field_elements` reads it: a token id, or `image(name, tokens)`."""
    if isinstance(element, int):
        return str(element)
    return f"image({element.data.decode('utf-8', 'surrogatepass')}, {element.expected_tokens})"


def field_elements_text(elements: Iterable[Any]) -> str:
    """Flat elements as `parse_field_elements` reads them."""
    return " ".join(map(field_element_text, elements))


def parse_field_elements(text: str, images: bool = True) -> list[Any]:
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
                elements.append(parse_field_token(piece))
                continue
            if not images:
                raise FieldError(
                    f"{shown_text(piece)} cannot be sampled. Images belong in an observation: "
                    "type token ids here."
                )
            name, _, size = (part.strip() for part in piece[6:-1].partition(","))
            if not name or not re.fullmatch(r"[0-9]{1,9}", size):
                raise FieldError(
                    f"{shown_text(piece)} needs a name and a number of tokens. "
                    "Type for example `image(frameA, 4)`."
                )
            if not 1 <= int(size) <= MAX_FIELD_TOKENS:
                raise FieldError(
                    f"{shown_text(piece)} has {int(size):,} tokens. Type 1 to {MAX_FIELD_TOKENS:,}."
                )
            elements.append(image_element(name, int(size)))
        except FieldError as error:
            raise FieldError(f"index {index}: {error}") from None
    return elements


def parse_field_logprobs(text: str, turn: int, count: int) -> list[float] | None:
    """The logprobs of one action.

    Args:
        text: Numbers; `nan` and `inf` are let through; `auto` makes all of them up, a final
            `...` makes up those that are missing; empty means that none were reported.
        turn, count: Index of the turn and its number of action tokens.

    Raises:
        FieldError: The rest of a sentence that begins with the name of the field.
    """
    if text.strip().lower() == "auto":
        return [rollout_logprob(turn, index) for index in range(count)]
    if not text.strip():
        return None
    pieces = split_field(text, r"[^\s,\[\]]+")
    values: list[float] = []
    for index, piece in enumerate(pieces):
        if piece in ("...", "…") and index == len(pieces) - 1:
            values.extend(rollout_logprob(turn, later) for later in range(index, count))
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
                f"index {index}: {shown_text(piece)} is not a number. Type one such as -0.3, "
                "or `auto` alone for made-up ones."
            ) from None
    return values


def parse_field_reward(text: str) -> float:
    """A finite reward.

    Raises:
        FieldError: The rest of a sentence that begins with the name of the field.
    """
    try:
        value = float(text) if len(text) <= 100 and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        what = shown_text(text.strip()) if text.strip() else "empty"
        raise FieldError(f"is {what}, not a finite number. Type one such as 0 or 1.5.")
    return value
