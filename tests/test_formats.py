"""Formats of other programs: each read by its own key names.

Invariants:

1. The sample files come out as `formats/expected.jsonl` says.
2. Every form in which a format may stand gives the same rollout: two turns, of which the second
   extends the first or does not.
3. Calls are joined by id across the file, in the order in which they were made; without an id
   consecutive calls are one rollout. How many were joined is kept.
4. What made no turn (failed calls, samples not continued, steps without ids) is counted and named.
5. What holds no turns is named, with what to record instead; else the keys are named.
6. A wrong value is placed by its own key names.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from sequence_extension.cli import main
from sequence_extension.diagnosis import diagnose
from sequence_extension.formats.bounded import Reading, read_bounded
from sequence_extension.formats.rollout_summaries import rollout_summaries_sentence
from sequence_extension.rollout import Rollout

FOLDER = Path(__file__).parent / "formats"
EXPECTED = [json.loads(line) for line in (FOLDER / "expected.jsonl").read_text().splitlines()]

# Two turns; after MERGED the second extends the first, after SPLIT it differs at position 3.
P1, A1, L1 = [1, 2], [3, 4], [-0.5, -0.25]
MERGED, SPLIT = [1, 2, 3, 4, 5], [1, 2, 3, 9, 5]
A2, L2 = [6], [-1.0]


def lines(*values: Any) -> str:
    return "\n".join(map(json.dumps, values))


def datum_counts(reading: Reading) -> list[int]:
    return [len(diagnose(rollout).built.data) for rollout in reading.rollouts]


def only(text: str | bytes) -> Rollout:
    """The one rollout of a file that reads without trouble."""
    reading = read_bounded(text)
    assert reading.issues == ()
    (rollout,) = reading.rollouts
    return rollout


def issue(text: str | bytes) -> str:
    """The one sentence about a file in which nothing can be read."""
    reading = read_bounded(text)
    assert reading.rollouts == ()
    (problem,) = reading.issues
    return problem.message


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: str(expected["file"]))
def test_the_samples_come_out_right(expected: dict[str, Any]) -> None:
    """Invariant 1."""
    reading = read_bounded((FOLDER / expected["file"]).read_bytes())
    diagnoses = [diagnose(rollout) for rollout in reading.rollouts]
    assert (2 if reading.issues else 0) == expected["exit"]
    got: dict[str, Any] = {
        "datums": [len(diagnosis.built.data) for diagnosis in diagnoses],
        "joined_lines": [rollout.joined_lines for rollout in reading.rollouts],
        "certain_splits": [list(lengths.certain_splits) for lengths in reading.lengths_only],
        "breaks": [
            [
                {key: getattr(item, key) for key in ("turn", "position", "expected", "got")}
                for item in diagnosis.breaks
            ]
            for diagnosis in diagnoses
        ],
        "says": [word for word in expected.get("says", []) if word in reading.issues[0].message],
    }
    for key in expected.keys() - {"file", "exit"}:
        assert got[key] == expected[key]


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: str(expected["file"]))
def test_the_command_says_so_too(
    expected: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Invariant 1, through the command."""
    code = main([str(FOLDER / expected["file"]), "--json"])
    out, err = capsys.readouterr()
    entries = json.loads(out)["trajectories"]
    assert code == expected["exit"]
    assert (err != "") == (code == 2)
    if "datums" in expected:
        assert [len(entry["datums"]) for entry in entries] == expected["datums"]
    if "joined_lines" in expected:
        assert [entry["joined_lines"] for entry in entries] == expected["joined_lines"]
    if "certain_splits" in expected:
        assert [entry["certain_splits"] for entry in entries] == expected["certain_splits"]
        assert all(entry["lengths_only"] for entry in entries)
    for word in expected.get("says", []):
        assert word in err
        assert "record" in err


def content(scores: list[float], names: list[str] | None = None) -> dict[str, Any]:
    """Logprobs of a chat completion."""
    named = names or ["t"] * len(scores)
    return {
        "content": [
            {"token": name, "logprob": score, "bytes": None, "top_logprobs": []}
            for name, score in zip(named, scores, strict=True)
        ]
    }


def tid(tokens: list[int]) -> list[str]:
    return [f"token_id:{token}" for token in tokens]


def call_forms(p: list[int], a: list[int], s: list[float]) -> dict[str, dict[str, Any]]:
    """One call in every form that servers and their logs write."""
    chat = {"object": "chat.completion", "prompt_token_ids": p}
    choice = {"index": 0, "token_ids": a, "logprobs": content(s)}
    candidates = [
        {str(x): {"logprob": y}, "99999": {"logprob": -9.0}} for x, y in zip(a, s, strict=True)
    ]
    return {
        "flat": {"prompt_token_ids": p, "token_ids": a, "logprobs": s},
        "flat, completion": {
            "prompt_token_ids": p,
            "completion_token_ids": a,
            "completion_logprobs": s,
        },
        "prompt_ids and response_ids": {"prompt_ids": p, "response_ids": a, "logprobs": s},
        "input and output tokens": {"input_tokens": p, "output_tokens": a, "output_logprobs": s},
        "chat": {**chat, "choices": [choice]},
        "chat with nulls": {
            **chat,
            "prompt_logprobs": None,
            "error": None,
            "kv_transfer_params": None,
            "choices": [{**choice, "stop_reason": None}],
        },
        "prompt in the choice": {
            "object": "text_completion",
            "prompt_token_ids": None,
            "choices": [{**choice, "prompt_token_ids": p, "logprobs": {"token_logprobs": s}}],
        },
        "ids in the message": {
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "role": "assistant",
                        "prompt_token_ids": p,
                        "generation_token_ids": a,
                        "generation_log_probs": s,
                    },
                }
            ],
        },
        "ids in provider fields": {
            **chat,
            "choices": [{"provider_specific_fields": {"token_ids": a}, "logprobs": content(s)}],
        },
        "ids beside the choices": {
            **chat,
            "response_token_ids": [a],
            "choices": [{"index": 0, "logprobs": content(s)}],
        },
        "token names": {**chat, "choices": [{"logprobs": content(s, tid(a))}]},
        "token names of completions": {
            "prompt_token_ids": p,
            "choices": [{"logprobs": {"tokens": tid(a), "token_logprobs": s}}],
        },
        "offline engine": {
            "request_id": "0",
            "prompt_token_ids": p,
            "outputs": [{"index": 0, "token_ids": a, "logprobs": candidates}],
        },
        "candidates by name": {
            "prompt_token_ids": p,
            "token_ids": a,
            "logprobs": [
                {f"token_id:{x}": y, "token_id:7": -3.0} for x, y in zip(a, s, strict=True)
            ],
        },
        "response": {"request": {"messages": []}, "response": {**chat, "choices": [choice]}},
        "data.response": {"data": {"request": {}, "response": {**chat, "choices": [choice]}}},
        "response.body": {
            "custom_id": "x",
            "response": {"status_code": 200, "body": {**chat, "choices": [choice]}},
        },
        "prompt in the request": {
            "request": {"prompt": p, "max_tokens": 9},
            "response": {"choices": [{"token_ids": a, "logprobs": {"token_logprobs": s}}]},
        },
        "engine with triples": {
            "request": {"input_ids": p},
            "response": {
                "output_ids": a,
                "meta_info": {
                    "output_token_logprobs": [[y, x, None] for x, y in zip(a, s, strict=True)]
                },
            },
        },
        "SGLang, ids in triples alone": {"text": "t", "meta_info": engine_meta(p, a, s)},
        "SGLang beside its request": {
            "payload": {"input_ids": p, "return_logprob": True},
            "output": {"text": "t", "meta_info": engine_meta(p[-1:], a, s, len(p))},
        },
    }


def engine_meta(
    p: list[int], a: list[int], s: list[float], prompt_tokens: int | None = None
) -> dict[str, Any]:
    """`meta_info` of SGLang's `/generate`; the very first token of a prompt has no logprob."""
    return {
        "id": "x",
        "finish_reason": {"type": "stop", "matched": 6},
        "prompt_tokens": len(p) if prompt_tokens is None else prompt_tokens,
        "completion_tokens": len(a),
        "input_token_logprobs": [[-0.5 if at else None, x, "t"] for at, x in enumerate(p)],
        "output_token_logprobs": [[y, x, None] for x, y in zip(a, s, strict=True)],
    }


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"meta_info": engine_meta(P1[-1:], A1, L1, len(P1))}, "`logprob_start_len: 0`"),
        ({"meta_info": {"prompt_tokens": 3, "completion_tokens": 2}}, "`logprob_start_len: 0`"),
        ({"input_ids": P1, "meta_info": {"completion_tokens": 2}}, "ask with `return_logprob"),
        ({"output_ids": A1, "meta_info": {"completion_tokens": 2}}, "log the `input_ids`"),
    ],
)
def test_an_answer_of_sglang_that_holds_too_little_says_what_to_record(
    answer: dict[str, Any], words: str
) -> None:
    reading = read_bounded(json.dumps({"text": "t", **answer}))
    assert reading.rollouts == ()
    (issue,) = reading.issues
    assert "turn 0: an answer of SGLang without the ids" in issue.message
    assert words in issue.message


def test_an_aborted_call_of_sglang_made_no_turn() -> None:
    aborted = {"completion_tokens": 0, "finish_reason": {"type": "abort"}}
    call = {"text": "t", "meta_info": engine_meta(P1, A1, L1)}
    rollout = only(lines(call, {"text": "", "meta_info": aborted}))
    assert len(rollout.trajectory.transitions) == 1
    empty = {"text": "", "meta_info": engine_meta(P1, [], [])}
    assert only(lines(empty)).trajectory.transitions[0].ac.tokens == []


FORMS = list(call_forms(P1, A1, L1))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("second", [MERGED, SPLIT])
@pytest.mark.parametrize("layout", ["lines", "list", "responses"])
def test_calls_in_every_form_are_one_rollout(form: str, second: list[int], layout: str) -> None:
    """Invariants 2 and 3."""
    calls = [call_forms(P1, A1, L1)[form], call_forms(second, A2, L2)[form]]
    text = {
        "lines": lines(*calls),
        "list": json.dumps(calls, indent=1),
        "responses": json.dumps({"responses": calls}),
    }[layout]
    rollout = only(text)
    first, last = rollout.trajectory.transitions
    assert (first.ob.to_ints(), first.ac.tokens, first.ac.logprobs) == (P1, A1, L1)
    assert (last.ob.to_ints(), last.ac.tokens, last.ac.logprobs) == (second, A2, L2)
    assert rollout.joined_lines == (2 if layout == "lines" else None)
    assert len(diagnose(rollout).built.data) == (1 if second is MERGED else 2)


def flat(prompt: list[int], action: list[int], **more: Any) -> dict[str, Any]:
    scores = [-1.0] * len(action)
    return {"prompt_token_ids": prompt, "token_ids": action, "logprobs": scores, **more}


ID_PLACES: dict[str, Any] = {
    "top": lambda key, value: {key: value},
    "metadata": lambda key, value: {"metadata": {key: value}},
    "request": lambda key, value: {"request": {key: value}},
    "request metadata": lambda key, value: {"request": {"metadata": {key: value}}},
    "extra": lambda key, value: {"extra": {key: value}},
}


@pytest.mark.parametrize("place", ID_PLACES)
@pytest.mark.parametrize("key", ["trajectory_id", "session_id", "rollout_id"])
@pytest.mark.parametrize("names", [("a", "b"), (0, 1)])
def test_interleaved_calls_are_joined_by_id(place: str, key: str, names: tuple[Any, Any]) -> None:
    """Invariant 3."""
    a, b = (ID_PLACES[place](key, name) for name in names)
    text = lines(
        flat(P1, A1, **a), flat(P1, [7], **b), flat(SPLIT, A2, **a), flat([1, 2, 7, 5], A2, **b)
    )
    reading = read_bounded(text)
    assert reading.issues == ()
    assert [rollout.joined_lines for rollout in reading.rollouts] == [2, 2]
    assert [rollout.name for rollout in reading.rollouts] == [str(name) for name in names]
    assert datum_counts(reading) == [2, 1]


@pytest.mark.parametrize("second", [MERGED, SPLIT])
def test_calls_that_a_log_wraps_once_more_are_joined(second: list[int]) -> None:
    """Invariants 2 and 3: under any key, with the id inside or outside, or none."""
    calls = [flat(P1, A1), flat(second, A2)]
    wrapped = [{"level": "info", "time": 1.0, "payload": call} for call in calls]
    rollout = only(lines(*wrapped))
    assert (rollout.joined_lines, len(rollout.trajectory.transitions)) == (2, 2)
    for outside in ({"session_id": "a"}, {"metadata": {"session_id": "a"}}):
        mixed = [{**wrapped[0], **outside}, wrapped[0], {**wrapped[1], **outside}]
        reading = read_bounded(lines(*mixed))
        assert [rollout.name for rollout in reading.rollouts] == ["trajectory 1", "a"]
        assert reading.rollouts[1].joined_lines == 2
        assert len(diagnose(reading.rollouts[1]).built.data) == (1 if second is MERGED else 2)


def test_lists_of_calls_with_an_id_are_joined_across_lines() -> None:
    """Invariant 3."""
    a, b = {"session_id": "a"}, {"session_id": "b"}
    text = lines([flat(P1, A1, **a), flat(P1, A1, **b)], [flat(SPLIT, A2, **a)])
    reading = read_bounded(text)
    assert [rollout.joined_lines for rollout in reading.rollouts] == [2, None]
    assert datum_counts(reading) == [2, 1]


def test_keys_that_nobody_needs_never_hide_a_rollout() -> None:
    """Invariant 2: texts, masks and messages beside the tokens."""
    text = {"prompt": "q", "completion": "a", "reward": 1.0, "messages": [{"role": "user"}]}
    more = {**text, "input": "q", "output": "a", "score": 1.0, "loss_mask": [1], "mask": [1]}
    trajectory = trajectory_forms(SPLIT)["cookbook"]
    own = {**more, **trajectory, "response_length": 3, "tokens": [1], "masks": [1], "scores": [1]}
    assert datum_counts(read_bounded(lines(own))) == [2]
    calls = [{**more, **flat(P1, A1)}, {**more, **flat(SPLIT, A2)}]
    assert datum_counts(read_bounded(lines(*calls))) == [2]


def test_wrappers_without_end_are_refused() -> None:
    """Invariant 5."""
    value: Any = flat(P1, A1)
    for depth in range(400):
        value = [value] if depth % 2 else {"data": value}
        if depth in (2, 3):
            assert only(json.dumps(value))
    assert issue(json.dumps(value))
    assert issue("[" * 300 + "]" * 300)


def test_without_an_id_other_lines_end_a_rollout() -> None:
    """Invariant 3: calls with an id, whole rollouts, lists and bad lines stand between."""
    between = ['{"transitions": []}', lines(flat(P1, A1, session_id="s")), "no json", "[]"]
    for line in between:
        text = "\n".join([lines(flat(P1, A1), flat(MERGED, A2)), line, lines(flat(P1, A1))])
        reading = read_bounded(text)
        turns = [
            len(rollout.trajectory.transitions)
            for rollout in reading.rollouts
            if rollout.name.startswith("trajectory") and rollout.trajectory.transitions
        ]
        assert turns == [2, 1]


def test_lists_of_calls_on_lines_are_a_rollout_each() -> None:
    """Invariant 3."""
    one = [flat(P1, A1), flat(SPLIT, A2)]
    reading = read_bounded(lines(one, one[:1], one))
    assert [len(rollout.trajectory.transitions) for rollout in reading.rollouts] == [2, 1, 2]


FAILURES: dict[str, Any] = {
    "error": {"error": {"message": "timeout"}},
    "response null": {"response": None},
    "status": {"status": "error", "response": {}},
    "status code": {"status_code": 503},
    "cancelled": {"status": "cancelled"},
    "no choices": {"choices": []},
    "choices null": {"object": "chat.completion", "choices": None},
    "no outputs": {"outputs": []},
}
BODIES: dict[str, Any] = {
    "body": {"object": "error", "message": "too long", "type": "BadRequestError", "code": 400},
    "newer body": {"error": {"message": "too long", "type": "BadRequestError", "code": 400}},
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failed_calls_are_counted(failure: str) -> None:
    """Invariant 4."""
    failed = {"prompt_token_ids": MERGED, "request": {}, "session_id": 1, **FAILURES[failure]}
    good = [flat(P1, A1, session_id=1), flat(MERGED, A2, session_id=1)]
    rollout = only(lines(good[0], failed, good[1]))
    assert rollout.notes == ("1 failed call left out.",)
    assert rollout.joined_lines == 2
    assert len(diagnose(rollout).built.data) == 1


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("layout", ["lines", "list"])
@pytest.mark.parametrize(("named", "answered"), [(None, None), ("a", None), ("a", "a")])
def test_an_error_in_place_of_an_answer_splits_nothing(
    body: str, layout: str, named: str | None, answered: str | None
) -> None:
    """Invariant 4: with an id and without, as the calls have one or not."""
    ids = {} if named is None else {"session_id": named}
    failed = {**BODIES[body], **({} if answered is None else {"session_id": answered})}
    calls = [flat(P1, A1, **ids), failed, flat(MERGED, A2, **ids), failed]
    rollout = only(lines(*calls) if layout == "lines" else lines(calls))
    assert rollout.notes == ("2 failed calls left out.",)
    assert len(diagnose(rollout).built.data) == 1


def test_an_id_is_the_same_as_number_and_as_text() -> None:
    """Invariant 3."""
    rollout = only(lines(flat(P1, A1, rollout_id=1), flat(MERGED, A2, rollout_id="1")))
    assert rollout.joined_lines == 2


def test_of_several_samples_the_one_that_goes_on_is_the_turn() -> None:
    """Invariant 4, with the last call's samples, which nothing continues."""
    calls = [
        {
            "prompt_token_ids": P1,
            "choices": [{"token_ids": [8, 8]}, {"token_ids": A1}, {"token_ids": [3]}],
        },
        {"prompt_token_ids": MERGED, "choices": [{"token_ids": A2}, {"token_ids": [7]}]},
    ]
    rollout = only(lines(*calls))
    first, second = rollout.trajectory.transitions
    assert (first.ac.tokens, second.ac.tokens) == (A1, A2)
    assert len(rollout.notes) == 2
    for note, words in zip(
        rollout.notes,
        (
            ("Turn 0: sample 1 of the 3", "later prompt continues", "2 left out"),
            ("Turn 1", "1 left"),
        ),
        strict=True,
    ):
        assert all(word in note for word in words)
    # Where the prompt breaks within the answer, the sample that shares most with it is the turn.
    calls[1]["prompt_token_ids"] = SPLIT
    calls[0]["choices"] = [{"token_ids": [8, 8]}, {"token_ids": A1}]
    assert only(lines(*calls)).trajectory.transitions[0].ac.tokens == A1


def test_many_calls_with_several_samples_are_few_notes() -> None:
    """Invariant 4."""
    calls = [
        {"prompt_token_ids": [1] * (1 + 2 * n), "choices": [{"token_ids": [2]}, {"token_ids": [1]}]}
        for n in range(9)
    ]
    notes = only(lines(*calls)).notes
    assert len(notes) == 4
    assert notes[-1] == "In all, 9 calls have several samples; 9 samples are left out."


SCOPE = {"run_id": "r", "iteration": 0, "group_idx": 0, "traj_idx": 0}


def sampled(prompt: list[int], *answers: list[int], at: float = 0.0, **more: Any) -> dict[str, Any]:
    """A line of the cookbook's capture."""
    return {
        "kind": "sample",
        "scope": SCOPE,
        "created_at": at,
        "prompt_tokens": prompt,
        "samples": [{"tokens": answer, "logprobs": [-1.0] * len(answer)} for answer in answers],
        "status": "ok",
        **more,
    }


def test_capture_is_sorted_by_time_and_parted_by_scope() -> None:
    """Invariant 3."""
    other = {"scope": {**SCOPE, "traj_idx": 1}}
    judge = {"scope": {**SCOPE, "purpose": "judge"}}
    again = {"scope": {**SCOPE, "run_attempt": 1}}
    reading = read_bounded(
        lines(
            sampled(MERGED, A2, at=2.0),
            sampled(P1, [7], at=0.5, **other),
            sampled(P1, A1, at=1.0),
            sampled([40], [41], at=1.5, **judge),
            sampled(P1, A1, at=9.0, **again),
        )
    )
    assert reading.issues == ()
    assert datum_counts(reading) == [1, 1, 1, 1]
    assert [rollout.joined_lines for rollout in reading.rollouts] == [2, 1, 1, 1]
    assert reading.rollouts[0].name == "r, iteration 0, group 0, trajectory 0"
    assert reading.rollouts[0].group == reading.rollouts[1].group != reading.rollouts[3].group


@pytest.mark.parametrize(
    "at", [math.nan, math.inf, True, "1", None, [1], pytest.param(10**400, id="giant")]
)
def test_a_time_that_is_none_does_not_sort(at: Any) -> None:
    """Invariant 3: such calls come in the order of the file; a giant time is a time."""
    rollout = only(lines(sampled(P1, A1, at=1.0), sampled(MERGED, A2, at=at)))
    assert len(rollout.trajectory.transitions) == 2
    event = {"event_type": "reward", "rollout_id": "r", "timestamp": at, "data": {"value": 1.0}}
    assert isinstance(read_bounded(lines(event)).issues, tuple)


def test_a_call_that_was_recorded_twice_counts_once() -> None:
    """Invariant 3: an export that was repeated after an outage."""
    twice = sampled(P1, A1, at=1.0, sampling_session_id="s", seq_id=7)
    rollout = only(lines(twice, twice, sampled(MERGED, A2, at=2.0)))
    assert len(rollout.trajectory.transitions) == 2


def test_capture_counts_what_made_no_turn() -> None:
    """Invariant 4: errors, cancelled calls, answers without a sample, samples left behind."""
    rollout = only(
        lines(
            sampled(P1, [8], A1, at=1.0),
            sampled(MERGED, status="error", error="TimeoutError()", at=2.0),
            sampled(MERGED, status="cancelled", at=3.0),
            sampled(MERGED, at=4.0),
            {**sampled(MERGED, at=5.0, status="submitted"), "samples": None},
            sampled(MERGED, A2, at=6.0),
        )
    )
    assert [t.ac.tokens for t in rollout.trajectory.transitions] == [A1, A2]
    assert "4 failed calls left out." in rollout.notes
    assert "Turn 0: sample 1 of the 2" in rollout.notes[-1]


def test_capture_without_trajectories_says_what_to_name() -> None:
    """Invariant 4: one context manager around a whole run names only the run."""
    rollout = only(lines(*[sampled(P1, A1, scope={"run_id": "r"})] * 2))
    assert len(rollout.trajectory.transitions) == 2
    assert "traj_idx" in rollout.notes[0]


def test_capture_of_images_is_refused_by_name() -> None:
    """Invariant 6: the capture writes no tokens for a prompt that holds images."""
    record = sampled(P1, A1)
    del record["prompt_tokens"]
    assert "turn 0: no observation" in issue(lines(record))


def asdict_turn(prompt: list[int], action: list[int], scores: list[float]) -> dict[str, Any]:
    return {
        "ob": {"chunks": [{"type": "encoded_text", "tokens": prompt}]},
        "ac": {"tokens": action, "maybe_logprobs": scores, "stop_reason": "stop"},
        "reward": 0.5,
        "episode_done": False,
        "metrics": {"turn": 1.0, "note": "text", "flag": True, "none": None},
        "logs": {"anything": [{"x": None}, 3]},
    }


def trajectory_forms(second: list[int]) -> dict[str, Any]:
    """The two turns as every format that holds whole rollouts writes them."""
    asdict: dict[str, Any] = {
        "transitions": [asdict_turn(P1, A1, L1), asdict_turn(second, A2, L2)],
        "final_ob": {"chunks": []},
        "stop_reason": None,
    }
    steps = [
        {"tokens": {"prompt_ids": p, "completion_ids": a, "completion_logprobs": s}}
        for p, a, s in ((P1, A1, L1), (second, A2, L2))
    ]
    nodes: list[dict[str, Any]] = [
        {"message": {}, "token_ids": P1[:1], "mask": [False], "logprobs": []},
        {
            "parent": 0,
            "message": {},
            "sampled": True,
            "token_ids": [*P1[1:], *A1],
            "mask": [False, True, True],
            "logprobs": L1,
        },
    ]
    if second is MERGED:
        nodes.append({"parent": 1, "message": {}, "sampled": False, "token_ids": [5], "mask": [0]})
    else:
        nodes.append({"parent": None, "message": {}, "token_ids": second, "mask": [0] * 5})
    nodes.append(
        {
            "parent": 2,
            "message": {},
            "sampled": True,
            "token_ids": A2,
            "mask": [True],
            "logprobs": L2,
        }
    )
    trace = {"id": "t", "nodes": nodes, "calls": [], "rewards": {"x": {"score": 1.0}}}
    atif_steps = [
        {"step_id": 1, "source": "user", "message": "q"},
        *(
            {
                "step_id": 2 + n,
                "source": "agent",
                "message": "",
                "metrics": {"prompt_token_ids": p, "completion_token_ids": a, "logprobs": s},
            }
            for n, (p, a, s) in enumerate(((P1, A1, L1), (second, A2, L2)))
        ),
    ]
    atif = {"schema_version": "ATIF-v1.7", "session_id": "s", "steps": atif_steps}
    output: list[dict[str, Any]] = [
        {"type": "reasoning", "summary": []},
        {
            "type": "function_call",
            "prompt_token_ids": P1,
            "generation_token_ids": A1,
            "generation_log_probs": L1,
        },
        {"type": "function_call_output", "output": "r"},
        {
            "type": "message",
            "prompt_token_ids": second,
            "generation_token_ids": A2,
            "generation_log_probs": L2,
        },
    ]
    gym = {"responses_create_params": {}, "response": {"output": output}, "reward": 1.0}
    rllm_steps = [
        {"prompt_ids": p, "response_ids": a, "logprobs": s, "reward": 0.0, "done": False}
        for p, a, s in ((P1, A1, L1), (second, A2, L2))
    ]
    rllm = {"uid": "u", "name": "default_traj_name", "steps": rllm_steps, "reward": 1.0}
    outputs = [
        {**step, "prompt_ids": [], "response_ids": [], "logprobs": [], "chat_completions": [],
         "model_output": {"prompt_ids": p, "completion_ids": a, "logprobs": s}}
        for step, (p, a, s) in zip(rllm_steps, ((P1, A1, L1), (second, A2, L2)), strict=True)
    ]  # fmt: skip
    triplets = [
        {
            "prompt": {"token_ids": p},
            "response": {"token_ids": a, "logprobs": content(s)["content"]},
        }
        for p, a, s in ((P1, A1, L1), (second, A2, L2))
    ]
    spans = [
        {
            "rollout_id": "r",
            "attempt_id": "0",
            "sequence_id": n,
            "attributes": {
                "prompt_token_ids": str(p),
                "response_token_ids": a,
                "logprobs.content": json.dumps(content(s)["content"]),
            },
        }
        for n, (p, a, s) in enumerate(((P1, A1, L1), (second, A2, L2)))
    ]
    details = {
        "prompt_token_ids": [P1, second],
        "completion_token_ids": [A1, A2],
        "logprobs": [L1, L2],
    }
    return {
        "cookbook": asdict,
        "cookbook group": {"trajectories_G": [asdict], "final_rewards_G": [1.0], "metrics_G": [{}]},
        "cookbook groups": [{"trajectories_G": [asdict], "final_rewards_G": [1.0]}],
        "wrapped": {"step": 3, "trajectory": asdict},
        "wrapped list": {"step": 3, "episodes": [asdict]},
        "verifiers": {"example_id": 3, "reward": 1.0, "trajectory": steps},
        "verifiers outputs": {"outputs": [{"trajectory": steps}], "metadata": {}},
        "verifiers state": {"state": {"trajectory": steps}},
        "verifiers trace": trace,
        "verifiers episode": {"id": "e", "group": {"id": "g"}, "traces": [trace]},
        "ATIF": atif,
        "ATIF without version": {"steps": atif_steps},
        "ATIF sub-agent": {
            "schema_version": "ATIF-v1.7",
            "steps": [{"step_id": 1, "source": "agent", "message": "x"}],
            "subagent_trajectories": [atif],
        },
        "Harbor trial": {"trial_name": "x", "agent_result": {"rollout_details": [details]}},
        "NeMo Gym": gym,
        "NeMo Gym, output on top": {"output": output, "reward": 0.0},
        "NeMo Gym, one deeper": {**gym, "response": {"response": {"output": output}}},
        "rLLM": rllm,
        "rLLM episode": {"id": "task:0", "is_correct": True, "trajectories": [rllm]},
        "rLLM group": {"group_id": "g", "trajectories": [rllm]},
        "rLLM model output": {**rllm, "steps": outputs},
        "Agent Lightning triplets": triplets,
        "Agent Lightning rollout": {"rollout_id": "r", "final_reward": 1.0, "triplets": triplets},
        "Agent Lightning spans": spans,
    }


@pytest.mark.parametrize("form", trajectory_forms(MERGED))
@pytest.mark.parametrize("second", [MERGED, SPLIT])
@pytest.mark.parametrize("indent", [None, 1])
def test_whole_rollouts_in_every_format(form: str, second: list[int], indent: int | None) -> None:
    """Invariant 2."""
    rollout = only(json.dumps(trajectory_forms(second)[form], indent=indent))
    first, last = rollout.trajectory.transitions
    assert (first.ob.to_ints(), first.ac.tokens, first.ac.logprobs) == (P1, A1, L1)
    assert (last.ob.to_ints(), last.ac.tokens, last.ac.logprobs) == (second, A2, L2)
    assert len(diagnose(rollout).built.data) == (1 if second is MERGED else 2)


def test_rewards_are_read_where_a_format_has_them() -> None:
    """Invariant 2: totals are what the program meant."""
    totals = {
        "cookbook": 1.0,
        "cookbook group": 2.0,
        "verifiers": 1.0,
        "verifiers trace": 1.0,
        "NeMo Gym": 1.0,
        "rLLM": 1.0,
        "Agent Lightning rollout": 1.0,
    }
    forms = trajectory_forms(MERGED)
    for form, total in totals.items():
        transitions = only(json.dumps(forms[form])).trajectory.transitions
        assert sum(transition.reward for transition in transitions) == total, form


def test_nothing_of_a_wrapper_is_lost() -> None:
    """Invariant 2: an object of rollouts by name, and two lists side by side."""
    forms = trajectory_forms(SPLIT)
    trajectory, triplets = forms["cookbook"], forms["Agent Lightning triplets"]
    by_name = {"step": 1, "a": trajectory, "b": [trajectory], "c": triplets, "empty": []}
    assert datum_counts(read_bounded(lines(by_name))) == [2, 2, 2]
    side = {"rollouts": [trajectory], "failed": [trajectory], "config": {"steps": 3}}
    assert datum_counts(read_bounded(json.dumps(side, indent=1))) == [2, 2]


def test_ids_name_rollouts_that_have_no_name() -> None:
    """Invariant 2."""
    calls = [flat(P1, A1), flat(SPLIT, A2)]
    for key in ("turns", "calls", "responses"):
        assert only(lines({"session_id": "s", key: calls})).name == "s"


def test_groups_stay_groups() -> None:
    """Invariant 2: rollouts of one prompt share a group key, those of others do not."""
    forms = trajectory_forms(MERGED)
    trajectory = forms["cookbook"]
    two = {"trajectories_G": [trajectory, trajectory], "final_rewards_G": [1.0, 0.0]}
    groups = [r.group for r in read_bounded(lines(two, two)).rollouts]
    assert groups[0] == groups[1] != groups[2] == groups[3]
    assert None not in groups
    episodes = [{**forms["rLLM episode"], "id": name} for name in ("a:0", "a:1", "b:0")]
    groups = [r.group for r in read_bounded(lines(*episodes)).rollouts]
    assert groups == ["a", "a", "b"]


def test_a_trace_with_branches_is_read_in_the_order_of_its_calls() -> None:
    """Invariants 2 and 3: two sub-agents that take turns share a root."""

    def node(parent: int | None, ids: list[int], sampled: int = 0) -> dict[str, Any]:
        mask = [index >= len(ids) - sampled for index in range(len(ids))]
        scores = [-1.0] * sampled
        return {"parent": parent, "message": {}, "sampled": bool(sampled), "token_ids": ids,
                "mask": mask, "logprobs": scores}  # fmt: skip

    nodes = [
        node(None, [1, 2]),
        node(0, [3, 4], 1),
        node(0, [7, 8], 1),
        node(1, [5, 6], 1),
        node(2, [9, 10], 2),
        {"parent": 0, "message": {}, "sampled": True, "token_ids": [], "mask": []},
    ]
    calls = [{"node": n} for n in (1, 2, None, 3, 4)]
    rollout = only(lines({"id": "t", "nodes": nodes, "calls": calls}))
    turns = [(t.ob.to_ints(), t.ac.tokens) for t in rollout.trajectory.transitions]
    assert turns == [
        ([1, 2, 3], [4]),
        ([1, 2, 7], [8]),
        ([1, 2, 3, 4, 5], [6]),
        ([1, 2, 7, 8], [9, 10]),
    ]
    assert rollout.notes == ("1 sampled node without token ids left out.",)


def test_one_of_several_rollouts_without_ids_or_wrong_costs_itself_only() -> None:
    """Invariants 4 and 6: a judge sampled elsewhere, an agent that failed, a broken entry."""
    forms = trajectory_forms(SPLIT)
    trace = forms["verifiers trace"]
    judge = {"id": "j", "nodes": [{"message": {}, "sampled": True, "token_ids": [], "mask": []}]}
    failed = {"id": "f", "nodes": [{"message": {}, "token_ids": [], "mask": []}], "errors": [{}]}
    broken = {"id": "b", "nodes": [{"message": {}, "parent": 7}]}
    reading = read_bounded(lines({"traces": [judge, trace, failed, broken]}))
    assert [rollout.name for rollout in reading.rollouts] == ["t", "f"]
    assert datum_counts(reading) == [2, 0]
    assert reading.rollouts[0].notes == ("1 trace without token ids left out.",)
    assert reading.rollouts[1].notes == ("No answer was sampled.",)
    (problem,) = reading.issues
    assert "`nodes`, index 0, `parent`" in problem.message
    rllm = {**forms["rLLM episode"]}
    rllm["trajectories"] = [{"steps": [{"chat_completions": []}]}, *rllm["trajectories"], 5]
    reading = read_bounded(lines(rllm))
    assert datum_counts(reading) == [2]
    assert len(reading.issues) == 1
    group = {"trajectories_G": [forms["cookbook"], {"transitions": 5}], "final_rewards_G": [1, 1]}
    reading = read_bounded(lines(group))
    assert datum_counts(reading) == [2]
    assert len(reading.issues) == 1


def test_tokens_behind_the_sampled_ones_belong_to_the_next_prompt() -> None:
    """Invariant 2: a node may end with template tokens that nobody sampled."""
    nodes = [
        {
            "message": {},
            "sampled": True,
            "token_ids": [1, 2, 3],
            "mask": [0, 1, 0],
            "logprobs": [-1],
        },
        {"parent": 0, "message": {}, "sampled": True, "token_ids": [4, 5], "mask": [0, 1]},
    ]
    rollout = only(lines({"nodes": nodes}))
    turns = [(t.ob.to_ints(), t.ac.tokens) for t in rollout.trajectory.transitions]
    assert turns == [([1], [2]), ([1, 2, 3, 4], [5])]
    # logprobs may also stand beside every token
    nodes[0]["logprobs"], nodes[1]["logprobs"] = [0, -1, 0], [0.0, -2.0]
    turned = only(lines({"nodes": nodes})).trajectory.transitions
    assert [turn.ac.logprobs for turn in turned] == [[-1], [-2.0]]


def test_steps_without_ids_are_counted() -> None:
    """Invariant 4."""
    forms = trajectory_forms(MERGED)
    atif = forms["ATIF"]
    atif["steps"].append({"step_id": 9, "source": "agent", "message": "", "metrics": None})
    atif["steps"].append(
        {"step_id": 10, "source": "agent", "message": "", "is_copied_context": True}
    )
    assert only(lines(atif)).notes == ("1 step without token ids left out.",)
    verifiers = forms["verifiers"]
    verifiers["trajectory"].append({"tokens": None})
    assert only(lines(verifiers)).notes == ("1 step without token ids left out.",)
    rllm = forms["rLLM"]
    rllm["steps"].append({"prompt_ids": [], "response_ids": [], "logprobs": []})
    assert only(lines(rllm)).notes == ("1 step without token ids left out.",)


def test_steps_with_empty_lists_of_ids_are_no_turns() -> None:
    """Invariant 4: two empty lists between two turns would look like a break."""
    ids: dict[str, Any] = {"prompt_token_ids": [], "completion_token_ids": []}
    forms = trajectory_forms(MERGED)
    forms["ATIF"]["steps"].insert(1, {"step_id": 9, "source": "agent", "metrics": ids})
    verifiers = forms["verifiers"]["trajectory"]
    verifiers.insert(1, {"tokens": {"prompt_ids": [], "completion_ids": []}})
    triplet: dict[str, Any] = {
        "prompt": {"token_ids": []},
        "response": {"token_ids": []},
        "reward": None,
    }
    turns = [
        {"prompt": {"token_ids": P1}, "response": {"token_ids": A1, "logprobs": L1}},
        triplet,
        {"prompt": {"token_ids": MERGED}, "response": {"token_ids": A2, "logprobs": L2}},
    ]
    item: dict[str, Any] = {"prompt_token_ids": [], "generation_token_ids": []}
    output = [
        {"prompt_token_ids": P1, "generation_token_ids": A1, "generation_log_probs": L1},
        item,
        {"prompt_token_ids": MERGED, "generation_token_ids": A2, "generation_log_probs": L2},
    ]
    detail = {
        "prompt_token_ids": [P1, [], MERGED],
        "completion_token_ids": [A1, [], A2],
        "logprobs": [L1, [], L2],
    }
    for value, what in (
        (forms["ATIF"], "step"),
        (forms["verifiers"], "step"),
        ({"rollout_id": "a", "triplets": turns}, "triplet"),
        ({"response": {"output": output}}, "output item"),
        ({"rollout_details": [detail]}, "turn"),
    ):
        rollout = only(lines(value))
        assert rollout.notes == (f"1 {what} without token ids left out.",)
        assert len(rollout.trajectory.transitions) == 2
        assert len(diagnose(rollout).built.data) == 1


def test_events_of_several_rollouts_and_attempts() -> None:
    """Invariant 3: rewards and other events stand between the calls."""

    def event(kind: str, rollout: str, at: float, data: Any, attempt: str = "0") -> dict[str, Any]:
        return {"event_type": kind, "rollout_id": rollout, "attempt_id": attempt,
                "timestamp": at, "data": data}  # fmt: skip

    def request(p: list[int], a: list[int]) -> dict[str, Any]:
        scores = content([-1.0] * len(a))
        choice = {"token_ids": a, "logprobs": scores}
        response = {"prompt_token_ids": p, "choices": [choice]}
        return {"model": "m", "request": {}, "response": response, "status": "ok"}

    failed = {"request": {}, "response": {}, "status": "error", "http_status": 500}
    reading = read_bounded(
        lines(
            event("reward", "lonely", 0.0, {"value": 1.0}),
            event("model_request", "a", 2.0, request(MERGED, A2)),
            event("model_request", "b", 1.0, request(P1, A1)),
            event("custom", "a", 1.5, {"x": 1}),
            event("model_request", "a", 1.0, request(P1, A1)),
            event("model_request", "a", 1.7, failed),
            event("reward", "a", 3.0, {"value": 0.5, "message": "half"}),
            event("model_request", "a", 9.0, request(P1, A1), attempt="1"),
        )
    )
    assert reading.issues == ()
    assert [rollout.name for rollout in reading.rollouts] == ["a", "b", "a, attempt 1"]
    assert [len(rollout.trajectory.transitions) for rollout in reading.rollouts] == [2, 1, 1]
    assert datum_counts(reading) == [1, 1, 1]
    assert sum(t.reward for t in reading.rollouts[0].trajectory.transitions) == 0.5
    assert reading.rollouts[0].notes == ("1 failed call left out.",)


def test_spans_of_one_call_count_once() -> None:
    """Invariant 3: the client and the proxy both leave one; others say nothing of tokens."""
    spans = trajectory_forms(MERGED)["Agent Lightning spans"]
    for number, span in enumerate(spans):
        span["attributes"]["gen_ai.response.id"] = f"c{number}"
    proxy = {**spans[0], "sequence_id": 7, "attributes": {
        "llm.hosted_vllm.id": "c0",
        "llm.hosted_vllm.prompt_token_ids": str(P1),
        "llm.hosted_vllm.response_token_ids": str([A1]),
    }}  # fmt: skip
    other = {**spans[0], "sequence_id": 8, "attributes": {"agent.name": "x"}}
    rollout = only(lines(*spans, proxy, other))
    assert [t.ac.tokens for t in rollout.trajectory.transitions] == [A1, A2]
    alone = only(lines(proxy))
    assert [t.ac.tokens for t in alone.trajectory.transitions] == [A1]


def test_lengths_give_certain_splits() -> None:
    """Invariant 1: a lower bound, as longer observations may differ too."""

    def summary(*pairs: tuple[int, int]) -> dict[str, Any]:
        steps = [{"step_idx": n, "ob_len": ob, "ac_len": ac, "logs": {"x": None}}
                 for n, (ob, ac) in enumerate(pairs)]  # fmt: skip
        return {"split": "train", "iteration": 1, "group_idx": 0, "traj_idx": 0,
                "total_reward": 1.0, "steps": steps}  # fmt: skip

    reading = read_bounded(lines(summary((5, 2), (7, 1), (7, 1), (3, 3)), summary()))
    assert [lengths.certain_splits for lengths in reading.lengths_only] == [(2, 3), ()]
    assert reading.lengths_only[0].turns == 4
    assert rollout_summaries_sentence(reading.lengths_only).startswith(
        "Of 2 rollouts only lengths are known: of 4 turns at least 2 cannot extend"
    )
    bad = summary((5, 2))
    bad["steps"][0]["ob_len"] = "5"
    assert "turn 0, `ob_len`: expected a whole number" in issue(lines(bad))


UNREADABLE: dict[str, tuple[Any, list[str]]] = {
    "slime": ({"tokens": [1], "response_length": 1, "loss_mask": [1]}, ["slime", "loss mask"]),
    "slime file": (
        {"rollout_id": 1, "samples": [{"tokens": [1], "response_length": 1}]},
        ["slime"],
    ),
    "SkyRL columns": (
        {"prompt_token_ids": [[1]], "response_ids": [[2]], "rewards": [1], "loss_masks": [[1]]},
        ["SkyRL", "loss masks"],
    ),
    "SkyRL rollout": ({"prompt_ids": [1], "response_ids": [2], "loss_mask": [1]}, ["SkyRL"]),
    "SkyRL evaluation": ({"input_prompt": "q", "output_response": "a", "score": 1}, ["SkyRL"]),
    "Atropos": ({"tokens": [[1]], "masks": [[1]], "scores": [1.0]}, ["Atropos", "masks"]),
    "prime-rl": (
        {"prompt_ids": [1], "prompt_mask": [0], "completion_ids": [2], "completion_mask": [1]},
        ["prime-rl", "mask"],
    ),
    "verl": ({"input": "q", "output": "a", "score": 1.0, "step": 1}, ["verl", "token ids"]),
    "verl batch": (
        {"prompts": [1], "responses": [3, 4], "response_mask": [1, 1]},
        ["verl", "mask"],
    ),
    "verifiers text": ({"prompt": [], "completion": [], "reward": 1.0}, ["verifiers", "text"]),
    "datums": ({"model_input": {"chunks": []}, "loss_fn_inputs": {}}, ["datums", "write_rollouts"]),
    "stream": (
        {"object": "chat.completion.chunk", "choices": [{"delta": {}}]},
        ["streamed", "whole"],
    ),
    "messages": ({"messages": [{"role": "user", "content": "q"}]}, ["messages, not tokens"]),
    "capture of training": ({"kind": "train_op", "scope": {}}, ["`train_op`", "sample.jsonl"]),
    "anything": ({"foo": 1, "bar": [2]}, ["`foo`, `bar`", "understood are", "`trajectories_G`"]),
    "empty": ({}, ["it is empty", "understood are"]),
    "chat without ids": (
        {"object": "chat.completion", "choices": [{"message": {"content": "a"}}]},
        ["turn 0", "without token ids", "`return_token_ids: true`"],
    ),
    "trace without ids": (
        {"nodes": [{"message": {}, "sampled": True, "token_ids": [], "mask": []}]},
        ["verifiers trace", "token ids"],
    ),
    "ATIF without ids": (
        {"schema_version": "ATIF-v1.2", "steps": [{"step_id": 1, "source": "agent"}]},
        ["ATIF", "completion_token_ids"],
    ),
    "NeMo Gym without ids": (
        {"responses_create_params": {}, "response": {"output": [{"type": "message"}]}},
        ["NeMo Gym", "generation_token_ids"],
    ),
    "rLLM without ids": ({"steps": [{"chat_completions": []}]}, ["rLLM", "response_ids"]),
}


@pytest.mark.parametrize("case", UNREADABLE)
@pytest.mark.parametrize("indent", [None, 1])
def test_what_cannot_be_read_is_named(case: str, indent: int | None) -> None:
    """Invariant 5: what it is, what is missing, what to record."""
    value, words = UNREADABLE[case]
    sentence = issue(json.dumps(value, indent=indent))
    for word in words:
        assert word in sentence
    assert len(sentence) < 400


@pytest.mark.parametrize("case", ["slime", "SkyRL rollout", "Atropos", "prime-rl", "verl"])
def test_many_lines_of_a_known_kind_are_one_sentence(case: str) -> None:
    """Invariant 5, and the rollouts beside them are read."""
    value, _ = UNREADABLE[case]
    sentence = issue(lines(*[value] * 5))
    assert sentence.startswith("Line 1 and 4 more like it: ")
    reading = read_bounded(lines({"transitions": []}, value, {"transitions": []}))
    assert len(reading.rollouts) == 2
    assert reading.issues[0].line == 2


WRONG: dict[str, tuple[Any, list[str]]] = {
    "token of a call": (
        [flat(P1, A1), {"prompt_token_ids": [1], "choices": [{"token_ids": [1, "x"]}]}],
        ["turn 1", "`choices`, index 0, `token_ids`, index 1", "`x`"],
    ),
    "logprob of a call": (
        [{**flat(P1, A1), "logprobs": {"content": [{"logprob": "x"}]}}],
        ["turn 0", "`logprobs`, index 0", "expected a number"],
    ),
    "verifiers": (
        [{"trajectory": [{"tokens": {"prompt_ids": [1.5], "completion_ids": [1]}}]}],
        ["turn 0, `tokens`, `prompt_ids`, index 0"],
    ),
    "parent": ([{"nodes": [{"message": {}, "parent": 0}]}], ["`nodes`, index 0, `parent`"]),
    "mask": (
        [{"nodes": [{"message": {}, "sampled": True, "token_ids": [1], "mask": [1, 0]}]}],
        ["`nodes`, index 0, `mask`", "2 entries for 1 tokens"],
    ),
    "ATIF": (
        [
            {
                "schema_version": "ATIF-v1.7",
                "steps": [{"metrics": {"prompt_token_ids": [-1], "completion_token_ids": [1]}}],
            }
        ],
        ["turn 0, `metrics`, `prompt_token_ids`, index 0"],
    ),
    "chunk": (
        [{"transitions": [{"ob": {"chunks": [{"type": "audio"}]}, "ac": {"tokens": [1]}}]}],
        ["turn 0, `ob`, `chunks`, index 0", "neither tokens nor an image"],
    ),
    "capture": (
        [sampled(P1, ["x"])],  # type: ignore[list-item]
        ["turn 0, `samples`, index 0, `tokens`, index 0"],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_values_are_placed_by_the_names_of_their_format(case: str) -> None:
    """Invariant 6."""
    values, words = WRONG[case]
    sentence = issue(lines(*values))
    for word in words:
        assert word in sentence


def test_a_bad_call_costs_its_own_rollout_only() -> None:
    """Invariants 3 and 6: the line of the bad call is named."""
    reading = read_bounded(
        lines(
            flat(P1, A1, session_id="a"),
            flat(P1, A1, session_id="b"),
            flat([None], A1, session_id="a"),  # type: ignore[list-item]
            flat(SPLIT, A2, session_id="b"),
        )
    )
    assert datum_counts(reading) == [2]
    (problem,) = reading.issues
    assert problem.line == 3
    assert "Line 3, trajectory 0 (`a`), turn 1, `prompt_token_ids`, index 0" in problem.message


def test_metrics_and_logs_may_hold_anything() -> None:
    """Invariant 2: only the parse-error mask is needed; it may be true or a number."""
    many = {f"metric {number}": 1.0 for number in range(1_500)}
    for mask in (1.0, 1, True, "1", " 1e0 ", "inf"):
        turn = {"ob": P1, "ac": A1, "logprobs": L1,
                "metrics": {**many, "parse_error_masked": mask, "a": "x", "b": True, "c": None},
                "logs": {"x": {"y": None}}}  # fmt: skip
        (datum,) = diagnose(only(lines({"transitions": [turn]}))).built.data
        assert set(datum.loss_fn_inputs["mask"].data) == {0.0}
    for metrics in ([1], "x", None, True, {"parse_error_masked": "yes"}):
        turn = {"ob": P1, "ac": A1, "logprobs": L1, "metrics": metrics}
        assert only(lines({"transitions": [turn]}))


def test_missing_logprobs_are_none_and_null_ones_are_nan() -> None:
    """Invariant 2."""
    rollout = only(lines(flat(P1, A1, logprobs=None), flat(SPLIT, A2, logprobs=[None])))
    first, last = rollout.trajectory.transitions
    assert first.ac.maybe_logprobs is None
    assert last.ac.maybe_logprobs is not None
    assert math.isnan(last.ac.maybe_logprobs[0])
