"""Room files: in and out.

Invariants:

1. Round trip: a trajectory written and read back gives identical datums; so does its full form.
2. Forms: every documented way to write a rollout reads as the same trajectory.
3. Sentences: a wrong value gives one sentence that names line, trajectory, turn, field, index.
4. Neighbours: the good trajectories of a file are read whatever stands beside them.
5. Sharing: observations that extend share their chunks, so memory is linear in the new tokens.
6. Bounds: each is enforced by counting, before the work that it bounds.
7. Groups: advantages are the cookbook's, centred on the mean of the group.
"""

import base64
import bz2
import datetime
import io
import json
import math
import pickle
import tarfile
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
import tinker
from hypothesis import given, settings
from hypothesis import strategies as st
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.types import PARSE_ERROR_MASKED_METRIC_KEY, Trajectory, Transition

from sequence_extension.elements import elements_to_model_input, model_input_to_elements
from sequence_extension.formats.bounded import read_bounded
from sequence_extension.formats.build import MAX_ROLLOUT_TURNS
from sequence_extension.formats.json_text import (
    MAX_FILE_CONTAINERS,
    MAX_FILE_QUOTES,
    MAX_FILE_VALUES,
)
from sequence_extension.formats.native import (
    element_to_native,
    rollout_to_native,
    trajectory_to_native,
)
from sequence_extension.formats.stream import MAX_FILE_BYTES
from sequence_extension.group import group_advantages
from sequence_extension.rollout import Rollout

TURN: dict[str, Any] = {"ob": [1, 2], "ac": [3], "logprobs": [-0.5]}


def turn(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**TURN, **changes}.items() if value is not ...}


def file_of(*trajectories: Any) -> bytes:
    return json.dumps(list(trajectories)).encode()


def message(data: bytes | str) -> str:
    """The one sentence about a file in which nothing can be read."""
    reading = read_bounded(data)
    assert reading.rollouts == ()
    assert len(reading.issues) == 1
    return str(reading.issues[0].message)


def datum_fields(trajectory: Trajectory) -> list[Any]:
    """Everything a datum holds, comparable; or the exception that was raised instead."""
    try:
        data = trajectory_to_data(trajectory, 0.5)
    except Exception as error:  # a refusal must be the same refusal after the round trip
        return [type(error).__name__]
    return [
        (
            [chunk.model_dump() for chunk in datum.model_input.chunks],
            {
                name: [repr(value) for value in tensor.data]
                for name, tensor in datum.loss_fn_inputs.items()
            },
        )
        for datum in data
    ]


tokens = st.lists(st.integers(0, 40) | st.just(2**31 - 1), max_size=4)
numbers = st.floats(-4, 0) | st.sampled_from([math.nan, math.inf, -math.inf, 0.0])
images = st.one_of(
    st.builds(
        tinker.types.ImageChunk,
        data=st.sampled_from([b"frame", b"data:x", b"", b"\x89PNG\xff", "é".encode(), b"\xff\xd8"]),
        format=st.sampled_from(["png", "jpeg"]),
        expected_tokens=st.integers(0, 3),
    ),
    st.builds(
        tinker.types.ImageAssetPointerChunk,
        location=st.sampled_from(["frame", "s3://bucket/x.png"]),
        format=st.sampled_from(["png", "jpeg"]),
        expected_tokens=st.integers(0, 3),
    ),
)
chunks = st.lists(
    st.builds(tinker.EncodedTextChunk, tokens=tokens.filter(bool)) | images, max_size=3
)


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    """Turns that extend, split, repeat images, lack logprobs or have too many."""
    transitions: list[Transition] = []
    held: list[Any] = []
    for _ in range(draw(st.integers(0, 4))):
        kept = held if draw(st.booleans()) else held[: draw(st.integers(0, len(held)))]
        new = model_input_to_elements(tinker.ModelInput(chunks=[*draw(chunks)]))
        action = draw(tokens)
        logprobs = draw(
            st.none()
            | st.lists(numbers, min_size=len(action), max_size=len(action))
            | st.lists(numbers, max_size=3)
        )
        masked = {PARSE_ERROR_MASKED_METRIC_KEY: 1.0} if draw(st.booleans()) else {}
        transitions.append(
            Transition(
                ob=elements_to_model_input([*kept, *new]),
                ac=TokensWithLogprobs(tokens=action, maybe_logprobs=logprobs),
                reward=draw(numbers),
                episode_done=draw(st.booleans()),
                metrics={**masked, "score": draw(numbers)},
            )
        )
        held = [*kept, *new, *action]
    return Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty())


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@settings(max_examples=150, deadline=None)
@given(trajectory=trajectories(), name=texts, group=st.none() | texts, as_lines=st.booleans())
def test_round_trip_gives_identical_datums(
    trajectory: Trajectory, name: str, group: str | None, as_lines: bool
) -> None:
    """Invariant 1, for JSON and JSONL alike."""
    vocab = {3: "</b>", 7: "\u2028\x00"}
    rollout = Rollout(name, trajectory, vocab, group)
    native = rollout_to_native(rollout)
    line = json.dumps(native, allow_nan=False)
    text = f"{line}\n{line}\n" if as_lines else f"[{line}, {line}]"
    reading = read_bounded(text)
    assert reading.issues == ()
    assert len(reading.rollouts) == 2
    for index, back in enumerate(reading.rollouts):
        assert datum_fields(back.trajectory) == datum_fields(trajectory)
        assert back.name == (name or f"trajectory {index}")
        assert back.group == (group or None)
        assert back.vocab == vocab
        for old, new in zip(trajectory.transitions, back.trajectory.transitions, strict=True):
            assert new.episode_done == old.episode_done
            assert repr(new.reward) == repr(float(old.reward))
            assert new.metrics.keys() == old.metrics.keys()


@settings(max_examples=60, deadline=None)
@given(trajectory=trajectories())
def test_full_observations_read_like_appended_ones(trajectory: Trajectory) -> None:
    """Invariant 1: `append` is short for the whole observation."""
    native = trajectory_to_native(trajectory)
    full = [
        {
            **{key: value for key, value in written.items() if key != "append"},
            "ob": [element_to_native(e) for e in model_input_to_elements(transition.ob)],
        }
        for written, transition in zip(native["transitions"], trajectory.transitions, strict=True)
    ]
    (short,) = read_bounded(json.dumps(native)).rollouts
    (whole,) = read_bounded(json.dumps({"transitions": full})).rollouts
    assert datum_fields(short.trajectory) == datum_fields(whole.trajectory)


def test_dump_appends_where_the_turn_extends() -> None:
    """Invariant 1: the written file stays small where turns merge, and whole where they split."""
    extending = {"transitions": [turn(), turn(ob=[1, 2, 3, 4]), turn(ob=[1, 9])]}
    (rollout,) = read_bounded(json.dumps(extending)).rollouts
    first, second, third = rollout_to_native(rollout)["transitions"]
    assert first["ob"] == [1, 2]
    assert second["append"] == [4]
    assert third["ob"] == [1, 9]


def test_dump_refuses_what_the_format_cannot_hold() -> None:
    """Invariant 1: rather no file than one that reads as something else."""
    audio = tinker.ModelInput(chunks=[tinker.DmelChunk(dmel=b"x")])
    action = TokensWithLogprobs(tokens=[1], maybe_logprobs=[0.0])
    trajectory = Trajectory(
        transitions=[Transition(ob=audio, ac=action, reward=0.0, episode_done=True)],
        final_ob=tinker.ModelInput.empty(),
    )
    with pytest.raises(TypeError, match="DmelChunk"):
        trajectory_to_native(trajectory)


PROMPT, ANSWER = {"prompt_token_ids": [1, 2]}, {"token_ids": [3]}
FORMS: dict[str, Any] = {
    "one": {"transitions": [TURN]},
    "list": [{"transitions": [TURN]}],
    "trajectories": {"trajectories": [{"transitions": [TURN]}], "version": 3},
    "list of turns": [TURN],
    "lists of turns": [[TURN]],
    "one turn": TURN,
    "unknown keys": {"transitions": [turn(note={"a": [1]})], "other": [{}]},
    "verifiers state": {
        "trajectory": [
            {
                "prompt": [{"role": "user"}],
                "tokens": {
                    "prompt_ids": [1, 2],
                    "prompt_mask": [0, 0],
                    "completion_ids": [3],
                    "completion_logprobs": [-0.5],
                },
                "reward": None,
            }
        ]
    },
    "verifiers results": {
        "outputs": [
            {
                "trajectory": [
                    {
                        "tokens": {
                            "prompt_ids": [1, 2],
                            "completion_ids": [3],
                            "completion_logprobs": [-0.5],
                        }
                    }
                ]
            }
        ],
        "metadata": {},
    },
    "token ids": [{**PROMPT, **ANSWER, "logprobs": [-0.5]}],
    "completion token ids": {
        "responses": [{**PROMPT, "completion_token_ids": [3], "completion_logprobs": [-0.5]}]
    },
    "chat choices": [
        {**PROMPT, "choices": [{**ANSWER, "logprobs": {"content": [{"logprob": -0.5}]}}]}
    ],
    "completion choices": [
        {"choices": [{**PROMPT, **ANSWER, "logprobs": {"token_logprobs": [-0.5]}}]}
    ],
    "engine outputs": [{**PROMPT, "outputs": [ANSWER], "logprobs": [-0.5]}],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("style", ["compact", "indented", "byte order mark"])
def test_every_form_reads_as_the_same_trajectory(form: str, style: str) -> None:
    """Invariant 2."""
    data = json.dumps(FORMS[form], indent=2 if style == "indented" else None).encode()
    reading = read_bounded(b"\xef\xbb\xbf" + data if style == "byte order mark" else data)
    assert reading.issues == ()
    (rollout,) = reading.rollouts
    assert rollout.name == "trajectory 0"
    (transition,) = rollout.trajectory.transitions
    assert transition.ob.to_ints() == [1, 2]
    assert transition.ac.tokens == [3]
    assert transition.ac.logprobs == [-0.5]
    assert transition.reward == 0.0
    assert transition.episode_done


def test_lines_of_single_turns_are_one_trajectory_each_id() -> None:
    """Invariant 2: JSONL of steps, as loggers write them."""
    steps = [
        {"trajectory_id": "a", "prompt_token_ids": [1], "token_ids": [2]},
        {"trajectory_id": "a", "prompt_token_ids": [1, 2, 3], "token_ids": [4]},
        {"trajectory_id": "b", "prompt_token_ids": [1], "token_ids": [2]},
    ]
    reading = read_bounded("\n".join(map(json.dumps, steps)))
    assert [len(r.trajectory.transitions) for r in reading.rollouts] == [2, 1]
    broken = [*steps[:1], {**steps[1], "token_ids": [None]}, *steps[2:]]
    reading = read_bounded("\n\n".join(map(json.dumps, broken)))
    assert [r.name for r in reading.rollouts] == ["b"]
    assert [issue.line for issue in reading.issues] == [3]


def test_reward_of_a_whole_rollout_falls_on_its_last_turn() -> None:
    """Invariant 2: verifiers scores the rollout, the cookbook its turns; the sum is the same."""
    steps = [{"tokens": {"prompt_ids": [1], "completion_ids": [2]}, "reward": None}] * 2
    state = {"example_id": 4, "reward": 0.75, "trajectory": steps}
    (rollout,) = read_bounded(file_of(state)).rollouts
    assert rollout.group == "4"
    assert [t.reward for t in rollout.trajectory.transitions] == [0.0, 0.75]


def test_words_and_null_are_numbers_that_json_lacks() -> None:
    """Invariant 2: NaN as a word, as null, and as the literal that Python's json writes."""
    text = '[[{"ob": [1], "ac": [2, 2, 2, 2], "logprobs": [null, "NaN", NaN, "-Infinity"]}]]'
    (rollout,) = read_bounded(text).rollouts
    logprobs = rollout.trajectory.transitions[0].ac.logprobs
    assert [math.isnan(value) for value in logprobs] == [True, True, True, False]
    assert logprobs[3] == -math.inf


IMAGE: dict[str, Any] = {"image": "a", "tokens": 1}
WRONG_TURNS = {
    "boolean token": (turn(ac=[3, True]), ["`ac`", "index 1", "true"]),
    "float token": (turn(ob=[1.0]), ["`ob`", "index 0", "`1.0`"]),
    "text token": (turn(ob=["1"]), ["`ob`", "index 0", "text `1`"]),
    "null token": (turn(ac=[None]), ["`ac`", "index 0", "null"]),
    "NaN token": (turn(ob=[math.nan]), ["`ob`", "index 0", "`nan`"]),
    "negative token": (turn(ob=[-1]), ["`ob`", "index 0", "`-1`"]),
    "large token": (turn(ob=[2**31]), ["`ob`", "index 0", "`2147483648`"]),
    "huge token": (turn(ob=[10**4000]), ["`ob`", "index 0", "…`"]),
    "nested token": (turn(ob=[[1]]), ["`ob`", "index 0", "a list"]),
    "image in an action": (turn(ac=[IMAGE]), ["`ac`", "index 0", "an object"]),
    "image without id": (turn(ob=[{"tokens": 1}]), ["`ob`", "index 0", "`image`", "missing"]),
    "image without size": (turn(ob=[{"image": "a"}]), ["`ob`", "index 0", "`tokens`", "missing"]),
    "huge image": (turn(ob=[{**IMAGE, "tokens": 10**9}]), ["`ob`", "`tokens`", "100,000"]),
    "wrong asset": (turn(ob=[{**IMAGE, "asset": "gif"}]), ["`ob`", "`asset`", "png"]),
    "bad base64": (turn(ob=[{**IMAGE, "image": "data:image/png;base64,*"}]), ["base64"]),
    "webp": (turn(ob=[{**IMAGE, "image": "data:image/webp;base64,AA"}]), ["png and jpeg"]),
    "ob as text": (turn(ob="12"), ["`ob`", "expected a list", "text `12`"]),
    "ob as object": (turn(ob={"1": 2}), ["`ob`", "expected a list"]),
    "no observation": (turn(ob=...), ["no observation"]),
    "two observations": (turn(append=[1]), ["both `ob` and `append`"]),
    "nothing to append to": (turn(ob=..., append=[1]), ["first turn"]),
    "no action": (turn(ac=...), ["no action tokens"]),
    "logprob as text": (turn(logprobs=["x"]), ["`logprobs`", "index 0", "text `x`"]),
    "logprob as boolean": (turn(logprobs=[False]), ["`logprobs`", "index 0", "false"]),
    "logprobs as number": (turn(logprobs=1), ["`logprobs`", "expected a list"]),
    "no object": (7, ["expected an object", "`7`"]),
    "verifiers, wrong": ({"tokens": {"prompt_ids": [1], "completion_ids": [-1]}}, ["-1"]),
    "verifiers without tokens": ({"tokens": None}, ["no observation"]),
}


@pytest.mark.parametrize("case", WRONG_TURNS)
@pytest.mark.parametrize("indent", [None, 1])
def test_wrong_turns_are_named(case: str, indent: int | None) -> None:
    """Invariants 3 and 4."""
    wrong, words = WRONG_TURNS[case]
    at = 0 if case == "nothing to append to" else 1
    turns = [wrong] if at == 0 else [TURN, wrong]
    good = {"name": "good", "transitions": [TURN]}
    data = [good, {"name": "<b>bad</b>", "transitions": turns}, good]
    text = json.dumps(data, indent=indent)
    reading = read_bounded(text)
    assert [rollout.name for rollout in reading.rollouts] == ["good", "good"]
    (issue,) = reading.issues
    assert issue.trajectory == 1
    assert f"rajectory 1 (`<b>bad</b>`), turn {at}" in issue.message
    for word in words:
        assert word in issue.message
    assert issue.message.count(".") - issue.message.count("1.0") <= 1 or "`tokens." in issue.message
    # A document of many lines is placed by trajectory, turn, field and index.
    assert issue.line == (1 if indent is None else None)


WRONG_TRAJECTORIES: dict[str, tuple[Any, list[str]]] = {
    "number": (5, ["expected a trajectory"]),
    "null": (None, ["expected a trajectory", "null"]),
    "no turns": ({"name": "x"}, ["its keys are `name`", "understood are `transitions`"]),
    "turns as object": ({"transitions": {}}, ["`transitions`", "expected a list"]),
}


@pytest.mark.parametrize("case", WRONG_TRAJECTORIES)
def test_wrong_trajectories_are_named(case: str) -> None:
    """Invariants 3 and 4, in JSON and in JSONL."""
    wrong, words = WRONG_TRAJECTORIES[case]
    good = {"transitions": [TURN]}
    for text, line in (
        (json.dumps([good, wrong, good]), 1),
        ("\n".join(map(json.dumps, [good, wrong, good])), 2),
    ):
        reading = read_bounded(text)
        assert [r.name for r in reading.rollouts] == ["trajectory 0", "trajectory 2"]
        (issue,) = reading.issues
        assert (issue.line, issue.trajectory) == (line, 1)
        for word in (f"Line {line}, trajectory 1", *words):
            assert word in issue.message


def zipped(data: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("rollouts.json", data)
    return target.getvalue()


def tarred(data: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        member = tarfile.TarInfo("rollouts.json")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return target.getvalue()


GOOD = b'{"transitions": []}'
WRONG_FILES = {
    "empty": (b"", ["empty"]),
    "blank": (b" \n\t\n", ["empty"]),
    "cut off": (b'{"transitions": [', ["Line 1", "not valid JSON", "ends in the middle"]),
    "cut off later": (b'[\n{"transitions": []},\n', ["Line 2", "ends in the middle"]),
    "cut line": (b'{"session_id": "a", "prompt_token_ids": [1,2\n', ["Line 1", "in the middle"]),
    "text after the end": (b"[] []", ["Line 1", "column 4", "more text"]),
    "no JSON": (b"hello", ["Line 1", "not valid JSON"]),
    "control character": (b'{"name": "\x01"}', ["Line 1", "control character"]),
    "not UTF-8": (b'{"name": "\xff"}', ["Line 1", "0xff", "UTF-8"]),
    "not UTF-8 later": (b'[\n\n"\xfe"]', ["Line 3", "0xfe"]),
    "UTF-16": (GOOD.decode().encode("utf-16"), ["UTF-16"]),
    "UTF-32": (GOOD.decode().encode("utf-32"), ["UTF-32"]),
    "UTF-32, other end first": ("\ufeff".encode("utf-32-be") + GOOD, ["UTF-32"]),
    "zip": (zipped(GOOD), ["zip archive"]),
    **{f"pickle {n}": (pickle.dumps([1], protocol=n), ["pickle"]) for n in range(6)},
    "pickled object 0": (pickle.dumps({"a": datetime.date(2026, 1, 1)}, protocol=0), ["pickle"]),
    "pickled object 1": (pickle.dumps({"a": [1]}, protocol=1), ["pickle"]),
    "bzip2": (bz2.compress(GOOD), ["bzip2"]),
    "tar": (tarred(GOOD), ["tar archive"]),
    "safetensors": ((16).to_bytes(8, "little") + b'{"a": {"dtype": 1}}', ["safetensors"]),
    "several documents": (b'{\n "transitions": []\n}\n' * 2, ["Line 4", "one a line", "list"]),
    "nesting": (b"[" * 10_000, ["nested too deep"]),
    "nested objects": (b'{"a":' * 10_000, ["nested too deep"]),
    "5,000 digits": (b"[\n" + b"9" * 5_000 + b"]", ["Line 2", "4,300 digits"]),
    "repeated key": (b'{"trajectories": [],\n"trajectories": []}', ["`trajectories`", "twice"]),
    "no list": (b'{"trajectories": 5}', ["`trajectories`", "expected a list"]),
}


@pytest.mark.parametrize("case", WRONG_FILES)
def test_wrong_files_are_explained(case: str) -> None:
    """Invariant 3."""
    data, words = WRONG_FILES[case]
    sentence = message(data)
    for word in words:
        assert word in sentence
    assert "\n" not in sentence
    assert len(sentence) < 300


def test_an_empty_text_is_not_called_a_file() -> None:
    for text in ("", " \n"):
        assert [issue.message for issue in read_bounded(text).issues] == ["The text is empty."]
    assert read_bounded(b"").issues[0].message == "The file is empty."


def test_pasted_text_may_hold_half_a_surrogate_pair() -> None:
    """Invariant 3: browsers can send what UTF-8 cannot hold."""
    assert "UTF-8" in message('{"name": "\ud83d"}')


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[[{"ob": [1], "ob": [2], "ac": [3]}]]', "turn 0"),
        (
            '[{"transitions": [{"ac": [3], "metrics": {"parse_error_masked": 1, '
            '"parse_error_masked": 0}}]}]',
            "`metrics`",
        ),
        ('[{"transitions": [{"ob": [1, {"image": "a", "tokens": 1, "tokens": 9}]}]}]', "index 1"),
        ('[{"transitions": [], "name": "b", "transitions": []}]', "trajectory 0"),
        ('[{"group": "a", "transitions": [], "group": "b"}]', "trajectory 0"),
    ],
)
def test_repeated_keys_are_refused(text: str, where: str) -> None:
    """Invariants 3 and 4: which of the two would count is anyone's guess."""
    sentence = message(text)
    assert "stands twice" in sentence
    assert where in sentence
    reading = read_bounded(f'[{text[1:-1]}, {{"transitions": []}}]')
    assert len(reading.rollouts) == 1
    assert len(reading.issues) == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "a", "name": "b", "transitions": [{"ob": [1], "ac": [2]}]}',
        '{"x": 1, "x": 2, "transitions": [{"ob": [1], "ac": [2]}]}',
        '{"x": {"ob": 1, "ob": 2}, "transitions": [{"ob": [1], "ac": [2]}]}',
        '{"transitions": [{"ob": [1], "ac": [2], "metrics": {"a": 1, "a": 2}}]}',
        '{"transitions": [{"ob": [1], "ac": [2], "logs": {"ac": 1, "ac": 2}}]}',
        '{"x": 1, "x": 2, "trajectories": [{"transitions": [{"ob": [1], "ac": [2]}]}]}',
    ],
)
def test_repeated_keys_that_nothing_depends_on_are_passed_over(text: str) -> None:
    """Invariant 3."""
    reading = read_bounded(text)
    assert (len(reading.rollouts), reading.issues) == (1, ())
    assert reading.rollouts[0].trajectory.transitions[0].ac.tokens == [2]


LOOSE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "name as number": ({"name": 5}, {"name": "5"}, ""),
    "name as boolean": ({"name": True}, {"name": "trajectory 0"}, "`name` is true"),
    "name as list": ({"name": ["a"]}, {"name": "trajectory 0"}, "`name` is a list"),
    "half a surrogate pair": ({"name": "a\ud800"}, {"name": "a\\ud800"}, "surrogate"),
    "group as float": ({"group": 1.5}, {"group": "1.5"}, ""),
    "group as list": ({"group": [1]}, {"group": None}, "`group` is a list"),
    "vocab as list": ({"vocab": [1]}, {"vocab": {}}, "`vocab` is a list"),
    "vocab key": ({"vocab": {"01": "a", "2": "b"}}, {"vocab": {2: "b"}}, "`01` is no token id"),
    "large vocab key": ({"vocab": {"2147483648": "a"}}, {"vocab": {}}, "1 entry"),
    "vocab text": ({"vocab": {"1": None, "2": "b"}}, {"vocab": {2: "b"}}, "token 1 is null"),
    "part of a character": ({"vocab": {"1": "\udce2"}}, {"vocab": {1: "\udce2"}}, ""),
    "half a pair": ({"vocab": {"1": "\udc00"}}, {"vocab": {1: "\\udc00"}}, ""),
}


@pytest.mark.parametrize("case", LOOSE)
@pytest.mark.parametrize("indent", [None, 1])
def test_what_no_datum_depends_on_costs_no_rollout(case: str, indent: int | None) -> None:
    """Invariant 3: it is left out, and a note says so."""
    given_, expected, word = LOOSE[case]
    reading = read_bounded(json.dumps([{**given_, "transitions": [TURN]}], indent=indent))
    assert reading.issues == ()
    (rollout,) = reading.rollouts
    assert {key: getattr(rollout, key) for key in expected} == expected
    assert word in " ".join(rollout.notes)
    assert bool(rollout.notes) == bool(word)
    assert rollout.trajectory.transitions[0].ac.tokens == TURN["ac"]


def test_long_names_are_shortened_and_stay_different() -> None:
    """Invariant 3."""
    rollouts = [{"name": "n" * 2_000 + end, "group": "g" * 2_000 + end,
                 "vocab": {"1": "t" * 2_000}, "transitions": [TURN]} for end in "ab"]  # fmt: skip
    first, second = read_bounded(json.dumps(rollouts)).rollouts
    assert first.name != second.name
    assert first.group != second.group
    assert max(len(first.name), len(first.group or "")) <= 1_000
    assert len(first.vocab[1]) == 1_001
    assert len(first.notes) == 2


@pytest.mark.parametrize("reward", [True, "x", "1", [1], 10**400])
def test_a_reward_that_is_no_number_is_0(reward: Any) -> None:
    """Invariant 3: and whether the episode is done is read where it is true or false."""
    value = {"transitions": [turn(reward=reward, episode_done="yes"), turn(reward=0.5)]}
    (rollout,) = read_bounded(json.dumps(value)).rollouts
    transitions = rollout.trajectory.transitions
    assert [each.reward for each in transitions] == [0.0, 0.5]
    assert [each.episode_done for each in transitions] == [False, True]
    assert rollout.notes == ("1 reward taken as 0: no number.",)


@pytest.mark.parametrize("bad", range(3))
def test_a_bad_line_of_jsonl_costs_that_line_only(bad: int) -> None:
    """Invariant 4, wherever the line stands."""
    lines = ['{"transitions": []}'] * 3
    lines[bad] = '{"transitions": [{"ob": [1,'
    reading = read_bounded("\n".join(lines))
    assert len(reading.rollouts) == 2
    assert [(issue.line, issue.trajectory) for issue in reading.issues] == [(bad + 1, bad)]


@pytest.mark.parametrize("bad", [b'{"name": "\xff"}', zipped(GOOD), b'{"a": nul}'])
def test_lines_are_counted_behind_blank_ones(bad: bytes) -> None:
    """Invariant 3: whether the line is alone, or others follow."""
    for after in (b"", b"\n" + GOOD, b"\n\n" + GOOD):
        (issue,) = read_bounded(b"\n" * 6 + bad + after).issues
        assert issue.line == 7
        assert issue.message.startswith("Line 7")


LOG = b"INFO 2026-01-01 12:00:00 start\nWARNING: [1, 2\n"


@pytest.mark.parametrize("log", [LOG, LOG * 20])
def test_lines_of_a_log_in_front_cost_themselves_only(log: bytes) -> None:
    """Invariant 4: a program that writes its log and its rollouts to one stream."""
    reading = read_bounded(log + GOOD + b"\n" + GOOD)
    assert len(reading.rollouts) == 2
    assert [issue.line for issue in reading.issues] == list(range(1, log.count(b"\n") + 1))


def test_blank_lines_without_end_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sequence_extension.formats.stream.MAX_BLANK_LINES", 4)
    """Invariant 6: millions of them would keep every reader waiting."""
    assert len(read_bounded(GOOD + b"\n" * 5 + GOOD).rollouts) == 2
    reading = read_bounded(GOOD + b"\n" * 9 + GOOD)
    (issue,) = reading.issues
    assert issue.message == "Line 6, trajectory 1: more than 4 blank lines up to here."
    assert len(reading.rollouts) == 1
    assert len(read_bounded(b"\n" * 9).issues) == 1


def test_one_trajectory_a_line_inside_a_document_is_no_jsonl() -> None:
    """Invariant 2: a list laid out a line each is still one document."""
    text = '{"trajectories": [\n{"transitions": []},\n{"transitions": []}\n]}'
    assert len(read_bounded(text).rollouts) == 2
    single = '{"trajectories": [\n{"transitions": []}\n]}'
    assert len(read_bounded(single).rollouts) == 1


def long_rollout(turns: int, tokens: int, form: str) -> dict[str, Any]:
    """A rollout that extends throughout; every turn adds tokens / turns tokens."""
    step = tokens // turns
    ids = [17 * index % 150_000 for index in range(tokens)]
    made: list[dict[str, Any]] = []
    for index in range(turns):
        start, end = index * step, (index + 1) * step
        fresh = {"append": ids[start : end - 8]}
        ob = fresh if form == "append" and index else {"ob": ids[: end - 8]}
        made.append({**ob, "ac": ids[end - 8 : end], "logprobs": [-0.25] * 8})
    return {"transitions": made}


@pytest.mark.parametrize("form", ["append", "ob"])
def test_memory_is_linear_in_new_tokens(form: str) -> None:
    """Invariant 5: 100 turns that repeat 8,000 tokens keep them once, not fifty times."""
    data = json.dumps(long_rollout(100, 8_000, form)).encode()
    tracemalloc.start()
    reading = read_bounded(data)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reading.issues == ()
    trajectory = reading.rollouts[0].trajectory
    first = trajectory.transitions[0].ob.chunks[0]
    assert all(transition.ob.chunks[0] is first for transition in trajectory.transitions)
    assert trajectory.transitions[-1].ob.length == 8_000 - 8
    # 8,000 ids with their list slots are 0.3 MB; fifty times as much would be 16 MB.
    assert kept < 2e6
    assert len(trajectory_to_data(trajectory, 1.0)) == 1


def test_bounds_are_counted_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 6: the parser does not even start."""

    def parse(*_: Any, **__: Any) -> None:
        raise AssertionError("parsed all the same")

    monkeypatch.setattr(json, "loads", parse)
    monkeypatch.setattr("sequence_extension.formats.json_text.from_json", parse)
    assert "at most 64 MB" in message(b" " * (MAX_FILE_BYTES + 1))
    assert "10,000,000" in message(b"[" + b"0," * (MAX_FILE_VALUES + 1))
    assert "500,000" in message(b"[]," * (MAX_FILE_CONTAINERS + 1))
    assert "4,000,000" in message(b'"",' * (MAX_FILE_QUOTES // 2 + 1))


@pytest.mark.parametrize(
    ("bound", "value", "trajectory"),
    [
        ("MAX_ROLLOUT_TOKENS", 9, [TURN, turn(ob=[1, 2, 3, 4, 5, 6])]),
        ("MAX_ROLLOUT_TOKENS", 9, [TURN, turn(ob=[{"image": "a", "tokens": 9}])]),
    ],
)
def test_a_rollout_over_a_bound_is_refused(
    bound: str, value: int, trajectory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 6, per trajectory; the others are read."""
    monkeypatch.setattr(f"sequence_extension.formats.build.{bound}", value)
    reading = read_bounded(file_of(trajectory, {"transitions": []}))
    assert len(reading.rollouts) == 1
    assert f"{value:,}" in reading.issues[0].message


def test_a_vocabulary_over_its_bound_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 6."""
    monkeypatch.setattr("sequence_extension.formats.values.MAX_VOCABULARY", 1)
    text = json.dumps({"vocab": {"1": "a", "2": "b"}, "transitions": [TURN]})
    (rollout,) = read_bounded(text).rollouts
    assert rollout.vocab == {}
    assert rollout.notes == ("`vocab` holds more than 1 entries and is left out.",)


def test_too_many_turns_are_refused() -> None:
    """Invariant 6: chunk references grow with the square of the turns."""
    turns = [TURN] * (MAX_ROLLOUT_TURNS + 1)
    assert "2,000" in message(file_of({"transitions": turns}))
    assert "2,000" in message("\n".join(map(json.dumps, turns)))


def test_the_page_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 6, per file: by rollouts, by tokens, by trajectories that cannot be read."""
    data = file_of(*[{"transitions": [TURN]}] * 5)
    monkeypatch.setattr("sequence_extension.formats.bounded.MAX_PAGE_ROLLOUTS", 3)
    reading = read_bounded(data)
    assert len(reading.rollouts) == 3
    assert "first 3 rollouts" in (reading.left_out or "")
    monkeypatch.setattr("sequence_extension.formats.bounded.MAX_PAGE_TOKENS", 7)
    assert len(read_bounded(data).rollouts) == 2
    monkeypatch.setattr("sequence_extension.formats.stream.MAX_FILE_ISSUES", 4)
    reading = read_bounded(file_of(*[1] * 9))
    assert len(reading.issues) == 5
    assert "left out" in reading.issues[-1].message


def test_group_advantages_are_centred_on_the_group() -> None:
    """Invariant 7."""

    def scored(group: str | None, *rewards: float) -> dict[str, Any]:
        return {"group": group, "transitions": [turn(reward=reward) for reward in rewards]}

    data = file_of(
        scored("a", 1.0, 2.0), scored("b", 5.0), scored(None, 9.0), scored("a", 0.0), scored("a")
    )
    rollouts = read_bounded(data).rollouts
    assert group_advantages(rollouts) == [2.0, 0.0, None, -1.0, -1.0]


def test_images_with_equal_ids_are_one_image() -> None:
    """Invariant 1: prefix and identity of pictures survive the file."""
    picture = base64.b64encode(b"\x89PNG\r\n").decode()
    image = {"image": f"data:image/png;base64,{picture}", "tokens": 2}
    data = file_of([turn(ob=[image, 5]), turn(ob=[image, 5, 3, 6])])
    (rollout,) = read_bounded(data).rollouts
    assert len(trajectory_to_data(rollout.trajectory, 1.0)) == 1
    assert rollout_to_native(rollout)["transitions"][0]["ob"] == [image, 5]


def test_the_given_cases_are_read() -> None:
    """Invariant 2: the rollouts with known answers."""
    cases = Path(__file__).parent / "cases.jsonl"
    if not cases.exists():
        pytest.skip("the cases are not here yet")
    reading = read_bounded(cases.read_bytes())
    assert reading.issues == ()
    assert len(reading.rollouts) == len(cases.read_text().splitlines())
