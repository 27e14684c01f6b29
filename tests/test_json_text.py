"""JSON text to values.

Invariants:

1. The fast parser gives what Python's gives, or leaves the text to it.
2. A key that stands twice is told wherever it stands; no other object is.
3. Where an object is wrong, line and column are those of the bytes.
"""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sequence_extension.formats.json_text import parse_json, refuse_repeated_json_keys
from sequence_extension.formats.results import RecordError

keys = st.sampled_from(["a", "b", 'q":', "\\", '\\"', "ob", "é", "", ": "])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(['"x":', '\\":', ":", "\ud800", "\x7f"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=25,
)


def same(left: Any, right: Any) -> bool:
    """Equal in value and type, NaN equal to itself."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


@settings(max_examples=200, deadline=None)
@given(value=values, indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
@example(value={'a":': 1, "b": '":'}, indent=None, ascii_only=True)
def test_values_are_those_of_the_slow_parser(value: Any, indent: Any, ascii_only: bool) -> None:
    """Invariant 1."""
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    data = text.encode("utf-8", "surrogatepass")
    if "\ud800" in text:
        with pytest.raises(RecordError, match="UTF-8"):
            parse_json(data)
        return
    parsed, repeated = parse_json(data)
    assert same(parsed, json.loads(text))
    assert not repeated


class Everything:
    def __contains__(self, key: object, /) -> bool:
        return True


@settings(max_examples=150, deadline=None)
@given(value=values, place=st.integers(0, 10**6), gap=st.sampled_from(["", " ", "\n\t"]))
def test_a_repeated_key_is_told_wherever_it_stands(value: Any, place: int, gap: str) -> None:
    """Invariant 2."""
    objects: list[Any] = []
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            objects += [item] if item else []
            todo += item.values()
        elif isinstance(item, list):
            todo += item
    if not objects:
        return
    # A mark that no text holds stands for the second of two equal keys.
    marked = objects[place % len(objects)]
    key = next(iter(marked))
    marked["@mark@"] = 0
    text = json.dumps(value).replace('"@mark@":', f"{json.dumps(key)}{gap}:")
    parsed, repeated = parse_json(text.encode())
    assert repeated
    with pytest.raises(RecordError, match="stands twice"):
        refuse_repeated_json_keys(parsed, Everything())


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b'{"a": 1,\n"b" 2}', 2, "column 5"),
        (b"[1,\n2,\n3\n", 3, "ends in the middle"),
        (b'\xef\xbb\xbf{"a": nul}', 1, "column 7"),
        (b'["a",\n"\xff"]', 2, "0xff"),
        (b"PK\x03\x04archive/data.pkl\x00", 1, "PyTorch"),
        (b"\x80\x04\x95", 1, "pickle"),
        (b"PAR1", 1, "Parquet"),
    ],
)
def test_places_of_what_is_wrong(data: bytes, line: int, words: str) -> None:
    """Invariant 3, and what people upload by mistake."""
    with pytest.raises(RecordError, match=words) as caught:
        parse_json(data)
    assert caught.value.line == line
