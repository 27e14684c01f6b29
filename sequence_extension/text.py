"""Texts, counts and numbers as they are shown; nothing here can steer a terminal or hide."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

# White space that is drawn as a sign where texts stand in cells.
SPACE_SIGNS = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"})


def code_point_text(char: str) -> str:
    """A character that does not draw, in letters: `\\u001b`, and `<F0>` for a byte of another.

    Such a byte is a lone surrogate, see `text_bytes`.
    """
    code = ord(char)
    return f"<{code - 0xDC00:02X}>" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def printable_text(text: str, limit: int | None = None) -> str:
    """Text on one line that cannot steer a terminal, hide, or reorder what stands beside it.

    What does not draw (controls, direction marks, lone surrogates) becomes its code point.
    """
    cut = text if limit is None or len(text) <= limit else text[: limit - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(char if char.isprintable() else code_point_text(char) for char in cut)


def encodable_text(text: str) -> str:
    """Text that a file or page can hold: lone surrogates become their code points."""
    return re.sub("[\ud800-\udfff]", lambda half: code_point_text(half[0]), text)


def shown_text(piece: str, limit: int = 24) -> str:
    """What was typed, short and printable, for use in a sentence."""
    return f"`{printable_text(piece, limit)}`"


def visible_text(text: str, limit: int = 40) -> str:
    """Text of a token made visible: white space as signs, cut short, else as `printable_text`."""
    signs = printable_text(text[: limit + 1].translate(SPACE_SIGNS))
    return signs[:limit] + ("…" if len(text) > limit or len(signs) > limit else "")


def text_bytes(text: str) -> bytes | None:
    """The bytes that a token's text stands for; None where the text does not tell.

    A token may hold a part of a character. Its text then has lone surrogates for the bytes, as
    `bytes.decode` writes them with `surrogateescape` (PEP 383); SentencePiece writes `<0xE2>`.
    A replacement character stands for bytes that nobody knows any more.
    """
    if re.fullmatch(r"<0x[0-9A-F]{2}>", text):
        return bytes([int(text[3:5], 16)])
    if "\ufffd" in text:
        return None
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a character pair: no bytes stand behind it
        return None


def bytes_to_text(raw: bytes) -> str:
    """Bytes of a token as its text; bytes that are no whole character stay tellable."""
    return raw.decode("utf-8", "surrogateescape")


def count_text(count: int, noun: str) -> str:
    """`1 datum`, `2 datums`: a count with its noun."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def part_text(part: str, masked: bool = False) -> str:
    """ "O" and "A" in words."""
    return "observation" if part == "O" else "masked action" if masked else "action"


def number_text(value: Any, digits: int = 6) -> str:
    """A number as it is shown: few digits, `NaN` and `inf` by name, "" for none.

    With the minus sign that `signed_text` and Vega's axes write.
    """
    if value is None or type(value).__name__ == "NAType":  # pandas' NA, without pandas
        return ""
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return f"{number:.{digits}g}".replace("-", "\u2212")


def signed_text(value: float) -> str:
    """A number with its sign, short enough for a cell: +0.67, 0; rounding noise is ≈0."""
    if value == 0:
        return "0"
    if abs(value) < 5e-7:
        return "≈0"
    if abs(value) < 0.005:
        digits = f"{value:+.0e}"
    elif abs(value) >= 10_000:
        digits = f"{value:+.1e}"
    elif abs(value) >= 100:
        digits = f"{value:+.0f}"
    else:
        digits = f"{value:+.2f}".rstrip("0").rstrip(".")
    return digits.replace("-", "\u2212")


def value_text(value: Any) -> str:
    """A JSON value in a few characters, for use in a sentence."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return f"the text {shown_text(value)}" if isinstance(value, str) else shown_text(repr(value))


def first_sentence_text(error: object) -> str:
    """What an exception or warning says, cut after its first sentence, without the full stop."""
    detail = " ".join(str(error).split()) or type(error).__name__
    return re.split(r"(?<=[a-z])\. ", detail)[0][:300].rstrip(".")


def counts_for_text(counts: Mapping[Any, int]) -> list[tuple[Any, int]]:
    """Kinds and counts, the most frequent first; among equals by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))


def text_counts(counts: Mapping[Any, int]) -> str:
    """Counts by kind, the most frequent first: `removed 3, inserted 1`; `none` for none."""
    return ", ".join(f"{kind} {count:,}" for kind, count in counts_for_text(counts)) or "none"


def share_text(part: int, whole: int) -> str:
    """Tokens processed against unmerged, as a percentage of the latter."""
    if 0 < whole <= part:
        return "nothing saved by merging"
    return f"{part / whole:.0%} of {whole:,} if no turn merged" if whole else "nothing to merge"


def quoted_text(text: str) -> str:
    """Text in quotes, as JSON writes it; what does not draw becomes its code point."""
    return printable_text(json.dumps(text, ensure_ascii=False))
