"""Edited turns in an address, and back."""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import pydantic

from sequence_extension.editor.drafts import MAX_DRAFT_TURNS, TurnDraft
from sequence_extension.editor.fields import FieldError
from sequence_extension.editor.scenarios import Scenario
from sequence_extension.text import shown_text

# The edited turns in the page's address: characters there, bytes once inflated.
MAX_STATE_CHARS = 2_000
MAX_STATE_BYTES = 100_000


def encode_address(drafts: Sequence[TurnDraft]) -> str:
    """Turns as typed, as text for an address: JSON, deflated, in URL-safe base64.

    Fields that have their default value are left out.
    """
    rows = [
        {
            item.name: getattr(draft, item.name)
            for item in fields(draft)
            if getattr(draft, item.name) != item.default
        }
        for draft in drafts
    ]
    packed = zlib.compress(json.dumps(rows, separators=(",", ":")).encode("ascii"), 9)
    return base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")


def decode_address(text: str) -> tuple[TurnDraft, ...]:
    """The inverse of `encode_address`, for text that anyone may have written.

    Raises:
        FieldError: One plain sentence. Nothing is evaluated, and at most MAX_STATE_BYTES bytes
            are inflated.
    """
    if len(text) > MAX_STATE_CHARS:
        raise FieldError(
            f"The trajectory in the address is longer than {MAX_STATE_CHARS:,} characters and "
            "was ignored."
        )
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        inflate = zlib.decompressobj()
        raw = inflate.decompress(packed, MAX_STATE_BYTES)
        if not inflate.eof or inflate.unused_data:
            raise ValueError("unfinished")
        drafts = pydantic.TypeAdapter(list[TurnDraft]).validate_json(raw, strict=True)
        if not 1 <= len(drafts) <= MAX_DRAFT_TURNS:
            raise ValueError("turns")
    except (ValueError, zlib.error):  # pydantic and base64 raise subclasses of ValueError
        raise FieldError(
            "The trajectory in the address could not be read and was ignored. "
            "Copy the whole address, or build it again here."
        ) from None
    return tuple(drafts)


def read_address(
    parameters: Mapping[str, Any], listed: Mapping[str, Scenario]
) -> tuple[Scenario, tuple[TurnDraft, ...], str]:
    """Where the editor starts, from the address the reader opened.

    Args:
        parameters: Query parameters; `scenario` names one, `turns` holds edited turns.
        listed: The known scenarios; the first is the default.

    Returns:
        The scenario, the turns to show, and a sentence about what was ignored, or "".
    """
    notes: list[str] = []
    scenario = next(iter(listed.values()))
    key = parameters.get("scenario")
    if isinstance(key, str) and key in listed:
        scenario = listed[key]
    elif key is not None:
        named = shown_text(key) if isinstance(key, str) else "that is given more than once"
        notes.append(
            f"The address asks for a scenario {named}, which is not on the menu; "
            f"“{scenario.title}” is shown."
        )
    drafts = scenario.drafts
    turns = parameters.get("turns")
    if turns is not None:
        try:
            drafts = decode_address(turns if isinstance(turns, str) else "?")
        except FieldError as error:
            notes.append(str(error))
    return scenario, drafts, " ".join(notes)


def address_of(
    scenario: Scenario, drafts: tuple[TurnDraft, ...], default: str
) -> tuple[dict[str, str | None], str]:
    """Query parameters that restore the editor, and what to tell the reader about them.

    Args:
        scenario: The scenario that was loaded.
        drafts: The turns as they stand now.
        default: Key of the scenario that an address without parameters shows.

    Returns:
        A value per parameter (None: leave it out), and one sentence.
    """
    parameters: dict[str, str | None] = {
        "scenario": None if scenario.key == default else scenario.key,
        "turns": None,
    }
    if drafts == scenario.drafts:
        return parameters, "Copy the page's address to share this scenario."
    packed = encode_address(drafts)
    try:
        readable = decode_address(packed) == drafts
    except FieldError:  # too many characters, or too many once inflated
        readable = False
    if not readable:
        return parameters, (
            "These turns are too long for an address: it leads to the scenario as it was loaded. "
            "Copy the JSON below instead."
        )
    parameters["turns"] = packed
    return parameters, "Copy the page's address to share these turns."
