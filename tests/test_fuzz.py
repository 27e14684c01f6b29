"""Hostile and broken files.

Invariants:

1. A mutilated file gives sentences and exit code 2, or is a valid file again; never a traceback.
2. What the report says on standard output stays one JSON object whatever the file.
3. Large hostile files are refused by counting: within bounded time and memory.
"""

import copy
import io
import json
import math
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequence_extension.formats.bounded import read_bounded
from sequence_extension.formats.stream import MAX_FILE_ISSUES
from sequence_extension.scan import Item, Wanted, scan_stream
from sequence_extension.text import printable_text
from sequence_extension.troubles import Trouble

CASES = (Path(__file__).parent / "cases.jsonl").read_bytes()
LINES = CASES.splitlines()
FOLDER = Path(__file__).parent / "formats"
FILES = {
    "lines": b"\n".join(LINES[:4]) + b"\n",
    "list": b"[" + b",\n".join(LINES[14:18]) + b"]",
    "document": json.dumps(
        {"trajectories": [json.loads(line) for line in LINES[21:25]]}, indent=1
    ).encode(),
    "one line": LINES[29],
    "verifiers result": json.dumps(
        {
            "example_id": 3,
            "reward": 1.0,
            "trajectory": [
                {
                    "tokens": {
                        "prompt_ids": [1, 2],
                        "completion_ids": [3],
                        "completion_logprobs": [-0.5],
                    },
                    "reward": None,
                }
            ],
        }
    ).encode(),
    "calls": b'{"prompt_token_ids": [1], "token_ids": [2]}\n'
    b'{"prompt_token_ids": [1, 2], "token_ids": [3]}',
    **{
        path.stem: path.read_bytes()
        for path in sorted(FOLDER.iterdir())
        if path.name != "expected.jsonl"
    },
}
# What breaks parsers and what breaks the code behind them.
POISON = [
    b"null", b"true", b"NaN", b"-Infinity", b"1e999", b"-0", b"0.5", b"1e2", b"9" * 40,
    b"9" * 5000, b'""', b'"\\ud800"', b'"\\u0000"', b'"<script>alert(1)</script>"', b"[]", b"{}",
    b"[[]]", b'{"image": "a", "tokens": 1}', b'{"image": "a", "tokens": 99999999}', b"[" * 3000,
    b'{"a":' * 3000, b"\xff", b"\x00", b"\xef\xbb\xbf", b"\n", b"]", b"}", b",", b'"', b"\\",
    b'"ob": [1], "ob": [2], ', b'"choices": [], ', b'"status": "error", ', b'"scope": null, ',
    b'"session_id": 1, ', b'"samples": [{}], ', b'"nodes": [{}], ', b'"parent": 9, ',
    b'"append": [1], ', b'"transitions": [], ', b'"vocab": {"x": 1}, ',
]  # fmt: skip


def mutilate(data: bytes, chance: random.Random) -> bytes:
    """One to four changes: cut, drop, double, swap, flip a bit, or put poison somewhere."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(out) + 1)
        size = chance.choice([1, 2, 8, 60])
        kind = chance.randrange(8)
        if kind == 0:
            del out[at:]
        elif kind == 1:
            del out[at : at + size]
        elif kind == 2:
            out[at:at] = out[at : at + size]
        elif kind == 3 and out:
            out[at % len(out)] ^= 1 << chance.randrange(8)
        elif kind == 4:
            out[at:at] = chance.choice(POISON)
        else:
            # Most telling: a value of the right shape in the wrong place.
            digits = [i for i, byte in enumerate(out) if byte in b"0123456789[{n"]
            if digits:
                place = chance.choice(digits)
                out[place : place + 1] = chance.choice(POISON)
    return bytes(out)


def report(data: bytes) -> tuple[int, list[Any], list[Any]]:
    """Exit code as `main` gives it, entries of the JSON report, and issues."""
    items = list(scan_stream(io.BytesIO(data), Wanted(as_json=True)))
    entries = [json.loads(item.entry) for item in items if isinstance(item, Item)]
    issues = [item.issue for item in items if isinstance(item, Trouble)]
    return (2 if issues else 0), entries, issues


def check(data: bytes) -> int:
    """Invariants 1 and 2 on one file; the exit code."""
    code, entries, issues = report(data)
    for issue in issues:
        assert "\n" not in issue.message
        assert issue.message.endswith(".")
        assert issue.message[0].isupper()
        assert len(issue.message) < 500
        assert printable_text(issue.message) == issue.message
    for entry in entries:
        known = entry["tokens_processed"] is not None
        assert (entry["error"] is None) == (known or entry.get("lengths_only", False))
    again = list(scan_stream(io.BytesIO(data), Wanted(details=1_000)))
    told = [item for item in again if isinstance(item, Item)]
    assert (len(told), len(again) - len(told)) == (len(entries), len(issues))
    assert all(line.isprintable() for item in told for line in item.lines)
    assert all(item.lines for item in told)
    return code


@pytest.mark.parametrize("name", FILES)
def test_mutilated_files_give_sentences(name: str) -> None:
    """Invariants 1 and 2, on 2,000 files of all formats from fixed seeds."""
    codes = [check(mutilate(FILES[name], random.Random(f"{name} {n}"))) for n in range(100)]
    # Most are broken, some are whole by luck; a test in which none breaks tests nothing.
    assert codes.count(2) > 40


ODD: list[Any] = [
    None, True, False, 0, -1, 3, 2**31, 2**70, 10**400, 0.5, math.nan, -math.inf, "", "x", "NaN",
    "[1, 2]", "[" * 99, "error", "token_id:7", [], [1], [None], [[]], [[1, 2]], [{}], {}, {"x": 1},
    {"logprob": "x"}, {"content": [{}]}, {"content": None}, {"tokens": 3}, {"image": "a"},
]  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in a value with each of its keys or indices."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        item = todo.pop()
        keys = item.keys() if isinstance(item, dict) else range(len(item))
        found += [(item, key) for key in keys]
        todo += [item[key] for key in keys if isinstance(item[key], dict | list)]
    return found


def disturb(value: Any, chance: random.Random) -> Any:
    """One to three values replaced, dropped, doubled, wrapped or swapped with another."""
    for _ in range(chance.randint(1, 3)):
        spots = places(value)
        if not spots:
            return value
        holder, key = chance.choice(spots)
        kind = chance.randrange(7)
        if kind == 0:
            del holder[key]
        elif kind == 1:
            holder[key] = [holder[key]]
        elif kind == 2:
            holder[key] = {chance.choice(["response", "data", "metadata", "x"]): holder[key]}
        elif kind == 3:
            other, at = chance.choice(spots)
            holder[key] = copy.deepcopy(other[at])
        elif kind == 4 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        else:
            holder[key] = copy.deepcopy(chance.choice(ODD))
    return value


@pytest.mark.parametrize("name", FILES)
def test_disturbed_values_give_sentences(name: str) -> None:
    """Invariants 1 and 2: JSON that parses, with values of every type in every place."""
    try:
        values = [json.loads(FILES[name])]
    except ValueError:
        values = [json.loads(line) for line in FILES[name].splitlines()]
    for number in range(100):
        chance = random.Random(f"{name} {number}")
        changed = [disturb([copy.deepcopy(value)], chance) for value in values]
        written = [json.dumps(each[0]) for each in changed if each]
        check("\n".join(written).encode())


def test_cut_anywhere() -> None:
    """Invariant 1: a download that stopped early, at each byte of a small file."""
    data = FILES["one line"]
    whole = report(data)
    for end in range(0, len(data), 7):
        code, entries, issues = report(data[:end])
        assert (code, entries, len(issues)) == (2, [], 1)
    assert whole[0] == 0


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 2**33)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["NaN", "data:image/png;base64,AA==", "ob", "1"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["transitions", "trajectories", "ob", "ac", "append", "logprobs", "reward",
                 "episode_done", "vocab", "name", "group", "image", "tokens", "asset",
                 "prompt_ids", "completion_ids", "prompt_token_ids", "token_ids", "trajectory",
                 "choices", "outputs", "1", "scope", "kind", "samples", "prompt_tokens", "nodes",
                 "message", "parent", "mask", "sampled", "steps", "metrics", "source", "step_id",
                 "completion_token_ids", "response", "output", "generation_token_ids", "traces",
                 "response_ids", "chat_completions", "model_output", "triplets", "prompt", "data",
                 "event_type", "rollout_id", "attributes", "ob_len", "total_reward", "traj_idx",
                 "trajectories_G", "final_rewards_G", "chunks", "rollout_details", "content",
                 "token_logprobs", "logprob", "session_id", "status", "error", "request"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=30,
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(value=values)
def test_any_json_gives_sentences(value: Any) -> None:
    """Invariants 1 and 2: known keys with values of any type at any depth."""
    check(json.dumps(value).encode("utf-8", "surrogatepass"))
    check(json.dumps([{"transitions": [value, value]}, value]).encode("utf-8", "surrogatepass"))


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=60))
def test_any_bytes_give_sentences(data: bytes) -> None:
    """Invariants 1 and 2."""
    check(data)
    check(b'{"transitions": []}\n' + data)


# At the bounds of the reader: each is refused, or read, within seconds and some hundred MB.
LARGE = {
    "a list of a hundred million elements": lambda: b"[" + b"0," * 100_000_000 + b"0]",
    "one long text": lambda: b'{"name": "' + b"a" * 60_000_000 + b'"}',
    "one long number": lambda: b"[" + b"1" * 60_000_000 + b"]",
    "too many empty lists": lambda: b"[" + b"[]," * 20_000_000 + b"[]]",
    "many empty lists": lambda: b"[" + b"[]," * 450_000 + b"[]]",
    "many empty objects": lambda: b"[" + b"{}," * 450_000 + b"{}]",
    "many bad turns": lambda: b'{"transitions": [' + b"0," * 9_000_000 + b"0]}",
    "many bad tokens": lambda: b'[{"ob": [' + b'"",' * 3_000_000 + b'""], "ac": []}]',
    "many bad logprobs": lambda: (
        b'[{"ob": [1], "ac": [], "logprobs": [' + b"[]," * 450_000 + b"[]]}]"
    ),
    "many bad trajectories": lambda: b"0\n" * 2_000_000,
    "a growing history": lambda: (
        b'{"transitions": [{"ob": ['
        + b"1," * 50_000
        + b"1], "
        + b'"ac": []},'
        + b'{"append": [], "ac": [1]},' * 1_900
        + b'{"append": [], "ac": []}]}'
    ),
    "an endless image": lambda: (
        b'{"transitions": [{"ob": ['
        + b'{"image": "a", "tokens": 99999},' * 900
        + b'1], "ac": []}]}'
    ),
}


def test_a_huge_vocabulary_is_left_out() -> None:
    """Invariants 1 and 3: no datum depends on it."""
    words = b",".join(b'"%d": "a"' % i for i in range(600_000))
    reading = read_bounded(b'{"vocab": {' + words + b'}, "transitions": []}')
    assert reading.issues == ()
    assert reading.rollouts[0].vocab == {}


@pytest.mark.parametrize("name", LARGE)
def test_large_hostile_files_are_refused(name: str) -> None:
    """Invariants 1 and 3. Memory is traced on top of the file itself."""
    reading = read_bounded(LARGE[name]())
    assert reading.rollouts == ()
    assert 1 <= len(reading.issues) <= MAX_FILE_ISSUES + 1


@pytest.mark.parametrize("name", ["a list of a hundred million elements", "a growing history"])
def test_large_hostile_files_take_little_memory(name: str) -> None:
    """Invariant 3: what counting refuses is never held as objects."""
    data = LARGE[name]()
    tracemalloc.start()
    read_bounded(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6
