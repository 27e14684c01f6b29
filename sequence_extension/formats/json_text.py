"""JSON text to values, within bounds, with places for what is wrong."""

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Any

from pydantic_core import from_json

from sequence_extension.formats.results import RecordError
from sequence_extension.text import shown_text

MAX_FILE_VALUES = 10_000_000
MAX_FILE_CONTAINERS = 500_000
MAX_FILE_QUOTES = 4_000_000
BOM = b"\xef\xbb\xbf"
# The end of a key as few programs write it; those of others can be counted.
SPACED_KEY = re.compile(rb'"[ \t\r\n]+:')
# First bytes of what people upload by mistake.
FILE_MAGIC = {
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "gzip-compressed",
    b"\x28\xb5\x2f\xfd": "zstd-compressed",
    b"\xfd7zXZ": "xz-compressed",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\x93NUMPY": "a NumPy array",
    b"\x89HDF": "an HDF5 file",
    b"SQLite format 3": "an SQLite database",
    b"BZh": "bzip2-compressed",
    **dict.fromkeys(
        # Protocols 0 and 1 open with what they hold: a dict, a list, a tuple or an object.
        (
            *(b"\x80%c" % version for version in range(2, 6)),
            *(b"(dp", b"(lp", b"}q\x00", b"]q\x00", b"(i", b"ccopy", b"ctorch"),
        ),
        "a Python pickle (write the rollouts as JSONL instead)",
    ),
    b"\xff\xfe\0\0": "UTF-32 text",  # before that of UTF-16, which it starts with
    b"\0\0\xfe\xff": "UTF-32 text",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"\x89PNG": "a PNG image",
    b"%PDF": "a PDF",
}


class RepeatedKeyObject(dict[str, Any]):
    """A JSON object that holds one key twice; JSON leaves open which value counts."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.repeated = [key for key, count in counts.items() if count > 1]

    def refuse(self, keys: Container[str], path: Sequence[Any] = ()) -> None:
        """Refuse the object if one of these keys is repeated.

        Raises:
            RecordError: With the given path.
        """
        for key in self.repeated:
            if key in keys:
                raise RecordError(f"the key {shown_text(key)} stands twice in one object", path)


def parse_json(data: bytes) -> tuple[Any, bool]:
    """JSON in UTF-8 to a value, and whether an object in it holds one key twice.

    Raises:
        RecordError: The bytes are not JSON in UTF-8, are nested too deep, or hold too much; every
            bound is counted on the bytes, before a single object is made.
    """
    for signs, limit, unit in (
        (b",", MAX_FILE_VALUES, "commas"),
        (b"[{", MAX_FILE_CONTAINERS, "lists and objects"),
        (b'"', MAX_FILE_QUOTES, "quotation marks"),
    ):
        count = sum(data.count(sign) for sign in signs)
        if count > limit:
            raise RecordError(f"holds {count:,} {unit}, but at most {limit:,} are read")
    # The faster of two parsers says neither what is wrong nor that a key is repeated.
    try:
        value = from_json(data.removeprefix(BOM), cache_strings="keys")
    except ValueError:
        return parse_json_text(decode_json_text(data))
    # Inside texts a quotation mark has a backslash in front; a key that ends on one looks alike.
    if b'\\\\":' not in data and not SPACED_KEY.search(data):
        keys = data.count(b'":') - data.count(b'\\":')
        if json_key_count(value) == keys:
            return value, False
    return parse_json_text(decode_json_text(data))


def json_key_count(value: Any) -> int:
    """Keys of all objects in a value; lists that start with no list or object are passed over."""
    count = 0
    todo = [value]
    while todo:
        item = todo.pop()
        if type(item) is dict:
            count += len(item)
            todo += item.values()
        elif type(item) is list and item and type(item[0]) in (dict, list):
            todo += item
    return count


def parse_json_text(text: str) -> tuple[Any, bool]:
    """`parse_json` for what its faster parser does not take, or cannot tell.

    Raises:
        RecordError: The text is not JSON, or is nested too deep.
    """
    repeated = False

    def make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        made = dict(pairs)
        if len(made) == len(pairs):
            return made
        repeated = True
        return RepeatedKeyObject(pairs)

    try:
        return json.loads(text, object_pairs_hook=make_object), repeated
    except json.JSONDecodeError as error:
        if text.strip() and not text[error.pos :].strip():
            written = text.rstrip()  # the line end behind it is no line of its own
            last = written.count("\n") + 1
            raise RecordError("not valid JSON: it ends in the middle", line=last) from None
        message = {
            "Extra data": "more text after the end of the JSON value",
            "Expecting value": "expected a value",
        }.get(error.msg, error.msg[0].lower() + error.msg[1:].removesuffix(" at"))
        if error.msg == "Extra data" and error.lineno > 1 and text[error.pos] in "[{":
            message += "; write several values one a line each, or as one list"
        place = f"column {error.colno:,}: {message}"
        raise RecordError(f"not valid JSON at {place}", line=error.lineno) from None
    except RecursionError:
        raise RecordError("nested too deep to be read") from None
    except ValueError:
        # Python refuses to convert integers of more than 4300 digits.
        number = re.search(r"[0-9]{4301}", text)
        line = text.count("\n", 0, number.start()) + 1 if number else None
        raise RecordError("a number with more than 4,300 digits", line=line) from None


def refuse_repeated_json_keys(
    value: Any, keys: Container[str], metrics: Container[str] = frozenset()
) -> None:
    """Walk a JSON value that is known to come from text with a repeated key.

    Args:
        value: Parsed by `parse_json_text`.
        keys: Those that matter: others may be repeated, and what they hold is not looked at.
        metrics: Those that matter inside `metrics`.

    Raises:
        RecordError: With the path of the first object that holds such a key twice.
    """
    todo: list[tuple[Any, tuple[Any, ...]]] = [(value, ())]
    while todo:
        item, path = todo.pop()
        known = metrics if "metrics" in path else keys
        if isinstance(item, RepeatedKeyObject):
            item.refuse(known, path)
        children: Iterable[tuple[Any, Any]] = ()
        if isinstance(item, dict):
            children = ((key, child) for key, child in item.items() if key in known)
        elif isinstance(item, list):
            children = enumerate(item)
        todo += [(child, (*path, key)) for key, child in children if isinstance(child, dict | list)]


def decode_json_text(data: bytes) -> str:
    """Bytes of a file, or of one line of it, as text; a byte order mark is dropped.

    Raises:
        RecordError: The bytes are something else than UTF-8 text; names what, where known, and
            the line within `data`.
    """
    kind = not_json_text_kind(data)
    if kind is not None:
        raise RecordError(not_json_text(kind), line=1)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordError(
            f"the byte 0x{data[error.start]:02x} is not UTF-8 text",
            line=1 + data.count(b"\n", 0, error.start),
        ) from None


def not_json_text(kind: str) -> str:
    """The sentence on a file of another kind."""
    return f"this is {kind}, not JSON text in UTF-8"


def not_json_text_kind(data: bytes) -> str | None:
    """What people upload by mistake, told by its first bytes."""
    if data.startswith(b"PK\x03\x04") and b"/data.pkl" in data[:200]:
        return "a PyTorch file, as slime and verl save rollouts (write them as JSONL instead)"
    if data[257:262] == b"ustar":
        return "a tar archive"
    if data[4:10] == b'\0\0\0\0{"':
        return "a safetensors file"
    return next((kind for magic, kind in FILE_MAGIC.items() if data.startswith(magic)), None)
