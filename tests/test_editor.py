"""Room rollouts, the editor's half: text to a rollout and back, addresses, code.

Invariants:
1. Whatever is typed, `drafts_to_rollout` answers with a rollout or with sentences, never with an
   exception; it gives no rollout exactly when some sentence is fatal.
2. What is typed means what the language of the fields says (an oracle of its own, by slices).
3. A change of an early action reaches every later turn that carries it over.
4. The Python beside the editor, run on its own, makes the same datums; so does the JSON, read back.
5. An address restores the turns as typed; no address does harm.
6. Nothing that was typed becomes HTML.
"""

import base64
import contextlib
import io
import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sequence_extension.cookbook import PARSE_ERROR_MASKED_METRIC_KEY
from sequence_extension.datums import build_datums, datum_tensor
from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.address import MAX_STATE_CHARS, address_of, read_address
from sequence_extension.editor.changes import apply_changes
from sequence_extension.editor.code import rollout_to_code
from sequence_extension.editor.drafts import (
    MAX_DRAFT_TURNS,
    TurnDraft,
    drafts_to_rollout,
    next_draft,
)
from sequence_extension.editor.fields import FieldError
from sequence_extension.editor.scenarios import Scenario, scenario_rollout, scenarios
from sequence_extension.elements import model_input_to_elements
from sequence_extension.formats.bounded import read_bounded
from sequence_extension.formats.native import native_to_json, rollout_to_native
from sequence_extension.page.html import code_html, code_markup

quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
CAUSES = {
    "chat": [],
    "reset": ["new_context"],
    "removed": ["removed", "removed"],
    "window": ["removed", "removed"],
    "inserted": ["inserted"],
    "end_token": ["end_token", "end_token"],
    "retokenised": ["retokenised"],
    "reordered": ["reordered"],
    "replaced": ["replaced", "replaced"],
    "image_changed": ["image_changed"],
    "shortened": ["shortened"],
    "new_context": ["new_context"] * 3,
    "masked": [],
    "empty": ["shortened"],
}

token = st.integers(0, 2**31 - 1) | st.integers(0, 9)
image = st.tuples(st.sampled_from(["frameA", "b 2", "<b>`x`</b>", "日本"]), st.integers(1, 5))
element = st.one_of(token, token, token, image)
tokens = st.lists(token, max_size=6)
elements = st.lists(element, max_size=6)


def written(items: Sequence[Any], style: int = 0) -> str:
    """Elements as a person may type them."""
    words = [f"image({item[0]}, {item[1]})" if isinstance(item, tuple) else str(item)
             for item in items]  # fmt: skip
    opening, between, closing = [
        ("", " ", ""), ("[", ", ", "]"), ("  ", ",", "\n"), ("[\n", ",\n", "\n]"), ("", "\t", ""),
    ][style % 5]  # fmt: skip
    return opening + between.join(words) + closing


def plain(items: Sequence[Any]) -> list[Any]:
    """Elements of a model input as plain values: ids, and (name, tokens) for an image."""
    return [
        item if isinstance(item, int) else (item.data.decode(), item.expected_tokens)
        for item in items
    ]


def observation(transition: Any) -> list[Any]:
    return plain(model_input_to_elements(transition.ob))


@st.composite
def turns(draw: st.DrawFn) -> list[tuple[Any, list[Any], list[int]]]:
    """Drafts with the observation and action that they must become, by the oracle."""
    made: list[tuple[Any, list[Any], list[int]]] = []
    history: list[Any] = []
    for _ in range(draw(st.integers(1, 4))):
        mode = draw(st.sampled_from(["extends", "edits", "replaces"]))
        new, action = draw(elements), draw(st.lists(token, min_size=1, max_size=4))
        changes, carried = "", list(history)
        if mode == "edits" and history:
            changes, carried = draw(edited(len(history)))(history)
        if mode == "replaces":
            carried = []
        style = draw(st.integers(0, 4))
        logprobs = draw(
            st.sampled_from(
                ["auto", "...", "-0.5 ...", written([f"-{i}.5" for i in action], style)]
            )
        )
        draft = {
            "ob": written(new, style),
            "ac": written(action, style),
            "logprobs": logprobs,
            "reward": draw(st.sampled_from(["0", "1.5", "-2", " 1e-3 "])),
            "history": mode,
            "edits": changes,
            "masked": draw(st.booleans()),
        }
        seen = carried + new
        made.append((draft, seen, action))
        history = seen + action
    return made


def edited(count: int) -> st.SearchStrategy[Any]:
    """Changes of a history of `count` elements: a function to (text, changed history)."""

    @st.composite
    def build(draw: st.DrawFn) -> Any:
        free = list(range(count))
        steps: list[tuple[int, int, int, list[Any]]] = []
        words: list[str] = []
        for order in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from(["replace", "remove", "insert"]))
            if kind == "insert":
                at = draw(st.integers(0, count))
                new = draw(st.lists(element, min_size=1, max_size=3))
                steps.append((at, 0, order, new))
                words.append(f"{at}+: {written(new)}")
                continue
            if not free:
                continue
            first = draw(st.sampled_from(free))
            last = first
            while last + 1 in free and draw(st.booleans()):
                last += 1
            new = draw(st.lists(element, min_size=1, max_size=2)) if kind == "replace" else []
            for position in range(first, last + 1):
                free.remove(position)
                steps.append((position, 1, order, new if position == first else []))
            span = f"{first}" if first == last and draw(st.booleans()) else f"{first}-{last}"
            words.append(f"{span}:{written(new)}")

        def apply(history: list[Any]) -> tuple[str, list[Any]]:
            # From right to left, so that positions to the left keep their meaning.
            result = list(history)
            for at, width, _, new in sorted(steps, key=lambda s: s[:3], reverse=True):
                result[at : at + width] = new
            return ";".join(words), result

        return apply

    return build()


def build(drafts: Sequence[dict[str, Any]]) -> tuple[Any, list[Any]]:
    return drafts_to_rollout([TurnDraft(**draft) for draft in drafts], {1: "one"}, "typed")


def flat(data: Sequence[Any]) -> str:
    """Datums as comparable text; NaN equals NaN."""
    return repr(
        [
            (
                plain(model_input_to_elements(datum.model_input)),
                {name: (tensor.dtype, list(tensor.data))
                 for name, tensor in sorted(datum.loss_fn_inputs.items())},
            )
            for datum in data
        ]
    )  # fmt: skip


def same_datums(left: Any, right: Sequence[Any]) -> None:
    built = build_datums(left)
    assert built.error_code is None
    assert flat(built.data) == flat(right)


# Scenarios


def test_scenarios_show_each_cause_and_only_it() -> None:
    listed = scenarios()
    assert list(listed) == list(CAUSES)
    for key, scenario in listed.items():
        assert key == scenario.key
        diagnosis = diagnose(scenario_rollout(scenario))
        assert [item.cause for item in diagnosis.breaks] == CAUSES[key], key
        assert len(diagnosis.built.data) == 1 + len(CAUSES[key])
    named = {cause for causes in CAUSES.values() for cause in causes}
    assert named == {
        "shortened", "image_changed", "end_token", "retokenised", "removed", "inserted",
        "new_context", "reordered", "replaced",
    }  # fmt: skip


def test_scenarios_have_a_text_for_every_token_and_short_titles() -> None:
    titles = [scenario.title for scenario in scenarios().values()]
    assert len(set(titles)) == len(titles)
    assert max(map(len, titles)) <= 28
    for scenario in scenarios().values():
        for transition in scenario_rollout(scenario).trajectory.transitions:
            for item in [*model_input_to_elements(transition.ob), *transition.ac.tokens]:
                assert not isinstance(item, int) or scenario.vocab.get(item), (scenario.key, item)
        assert scenario.lesson.count(".") == 1 + scenario.lesson.count("9:0")


def test_only_the_empty_observation_is_worth_a_note() -> None:
    noted = {
        key: [issue.field for issue in drafts_to_rollout(s.drafts, s.vocab, s.title)[1]]
        for key, s in scenarios().items()
    }
    assert {key: names for key, names in noted.items() if names} == {"empty": ["ob"]}


def test_default_is_the_classic_example() -> None:
    rollout = scenario_rollout(next(iter(scenarios().values())))
    (datum,) = build_datums(rollout.trajectory).data
    assert datum.model_input.to_ints() == [
        100, 101, 102, 103, 200, 201, 300, 301, 400, 401, 402, 500, 600,
    ]  # fmt: skip
    # what was read at p, and whether p + 1 was sampled:
    #    O O O O A A O O A A A O A (A)
    assert datum_tensor(datum, "mask") == [0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1]
    assert datum_tensor(datum, "logprobs") == pytest.approx(
        [0, 0, 0, -0.5, -0.3, 0, 0, -0.4, -0.2, -0.1, 0, -0.6, -0.3]
    )
    assert [t.reward for t in rollout.trajectory.transitions] == [0, 0, 1]


def test_context_reset_is_the_classic_example() -> None:
    data = build_datums(scenario_rollout(scenarios()["reset"]).trajectory).data
    assert [datum_tensor(datum, "mask") for datum in data] == [[0, 1, 1], [0, 0, 1, 1]]
    assert [datum_tensor(datum, "target_tokens") for datum in data] == [
        [101, 200, 201], [301, 302, 400, 401],
    ]  # fmt: skip


def test_a_broken_scenario_says_what_is_broken() -> None:
    broken = Scenario("k", "t", (TurnDraft("1", "x"),), {}, "")
    with pytest.raises(ValueError, match="Turn 0, action index 0: `x`"):
        scenario_rollout(broken)


# Reading the fields


@quick
@given(turns())
def test_typed_turns_become_the_trajectory_they_describe(made: Any) -> None:
    rollout, issues = build([draft for draft, _, _ in made])
    assert rollout is not None, issues
    transitions = rollout.trajectory.transitions
    assert [observation(item) for item in transitions] == [seen for _, seen, _ in made]
    assert [item.ac.tokens for item in transitions] == [action for _, _, action in made]
    assert [len(item.ac.logprobs) for item in transitions] == [len(a) for _, _, a in made]
    assert [item.reward for item in transitions] == [float(d["reward"]) for d, _, _ in made]
    assert [item.episode_done for item in transitions] == [False] * (len(made) - 1) + [True]
    assert [
        item.metrics.get(PARSE_ERROR_MASKED_METRIC_KEY, 0.0) == 1.0 for item in transitions
    ] == [draft["masked"] for draft, _, _ in made]
    assert {issue.field for issue in issues} <= {"ob", "ac"}
    assert not any(issue.fatal for issue in issues)


def test_the_oracle_of_changes_catches_a_shifting_reader() -> None:
    """Applying changes from left to right, each to the result so far, is not the language."""

    def shifting(history: list[int], text: str) -> list[int]:
        for change in text.split(";"):
            place, _, new = change.partition(":")
            at = int(place.rstrip("+"))
            history[at : at + (not place.endswith("+"))] = [int(x) for x in new.split()]
        return history

    text = "1:;3: 9"
    assert apply_changes([0, 1, 2, 3, 4], text) == [0, 2, 9, 4]
    assert shifting([0, 1, 2, 3, 4], text) != [0, 2, 9, 4]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [10, 11, 12, 13]),
        (" ; ", [10, 11, 12, 13]),
        ("1: 7", [10, 7, 12, 13]),
        ("1: 7 8", [10, 7, 8, 12, 13]),
        ("1:", [10, 12, 13]),
        ("1-2:", [10, 13]),
        ("1-2: 5", [10, 5, 13]),
        ("0+: 1", [1, 10, 11, 12, 13]),
        ("4+: 1", [10, 11, 12, 13, 1]),
        ("2+: 1; 2+: 3", [10, 11, 1, 3, 12, 13]),
        ("2: 5; 2+: 1", [10, 11, 1, 5, 13]),
        ("3: 1; 0: 2", [2, 11, 12, 1]),
        ("1 - 2 : [5, 6]", [10, 5, 6, 13]),
    ],
)
def test_changes_to_the_history(text: str, expected: list[int]) -> None:
    assert apply_changes([10, 11, 12, 13], text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4: 1", "Type a position from 0 to 3"),
        ("5+: 1", "Type a position from 0 to 4"),
        ("0-9:", "Type a position from 0 to 3"),
        ("2-1:", "Type `1-2:` instead"),
        ("1: 5; 0-2:", "touches position 1 a second time"),
        ("1+:", "inserts nothing"),
        ("1 7", "is not a change"),
        ("x: 7", "is not a change"),
        ("1: 7; 2: x", "change 1, index 0: `x` is not a token id"),
        ("1:" + "9" * 30, "larger than any token id"),
        ("9" * 30 + ":", "is not a change"),
    ],
)
def test_impossible_changes_say_what_to_type(text: str, words: str) -> None:
    with pytest.raises(FieldError) as caught:
        apply_changes([10, 11, 12, 13], text)
    assert words in str(caught.value)


def test_an_early_action_reaches_later_turns() -> None:
    for key in ("chat", "removed", "window", "replaced"):
        scenario = scenarios()[key]
        first = scenario.drafts[0]
        drafts = (replace(first, ac=first.ac.rsplit(" ", 1)[0] + " 777"), *scenario.drafts[1:])
        before = scenario_rollout(scenario).trajectory
        rollout, _ = drafts_to_rollout(drafts, {}, "")
        assert rollout is not None
        changed = [observation(item) for item in rollout.trajectory.transitions]
        assert [len(item) for item in changed] == [
            len(observation(item)) for item in before.transitions
        ]
        carries = key != "window"
        expected = [True] * len(changed[1:]) if carries else [True, False, False]
        assert [777 in item for item in changed[1:]] == expected


@pytest.mark.parametrize(
    ("draft", "field", "words"),
    [
        ({"ob": "1 x", "ac": "2"}, "ob", "Turn 0, observation index 1: `x` is not a token id"),
        ({"ob": "1.0", "ac": "2"}, "ob", "`1.0` is not a token id. Type a whole number"),
        ({"ob": "1", "ac": "-5"}, "ac", "type `5` or another id"),
        ({"ob": str(2**31), "ac": "1"}, "ob", "Type a number up to 2147483647"),
        ({"ob": "9" * 5000, "ac": "1"}, "ob", "larger than any token id"),
        ({"ob": "image(a", "ac": "1"}, "ob", "An image is written `image(frameA, 4)`"),
        ({"ob": "image(a, x)", "ac": "1"}, "ob", "needs a name and a number of tokens"),
        ({"ob": "image( , 4)", "ac": "1"}, "ob", "needs a name and a number of tokens"),
        ({"ob": "image(a, 0)", "ac": "1"}, "ob", "Type 1 to 2,000"),
        ({"ob": "1", "ac": "image(a, 4)"}, "ac", "cannot be sampled"),
        ({"ob": "1", "ac": "2", "reward": "nan"}, "reward", "Turn 0, reward is `nan`"),
        ({"ob": "1", "ac": "2", "reward": "1e999"}, "reward", "not a finite number"),
        ({"ob": "1", "ac": "2", "reward": ""}, "reward", "is empty"),
        ({"ob": "1", "ac": "2", "logprobs": "-0.1x"}, "logprobs", "index 0: `-0.1x` is not a"),
        ({"ob": "1", "ac": "2", "logprobs": "auto -1"}, "logprobs", "`auto` alone"),
        ({"ob": "1 " * 2001, "ac": "2"}, "ob", "at most 2,000"),
        ({"ob": "1" * 20001, "ac": "2"}, "ob", "at most 20,000"),
        ({"ob": "image(a, 2000) " * 5, "ac": "2"}, "ob", "draws at most 8,000"),
        ({"ob": "1", "ac": "2", "history": "edits", "edits": "0: 1"}, "edits", "no history"),
    ],
)
def test_bad_fields_get_one_sentence(draft: dict[str, str], field: str, words: str) -> None:
    rollout, issues = build([draft])
    assert rollout is None
    (issue,) = issues
    assert (issue.turn, issue.field, issue.fatal) == (0, field, True)
    assert words in issue.message


@pytest.mark.parametrize(
    ("draft", "field", "words", "error"),
    [
        ({"logprobs": ""}, "logprobs", "reports no logprobs", "ValueError"),
        ({"logprobs": "-1"}, "logprobs", "2 action tokens but 1 logprob. Add 1", "AssertionError"),
        ({"logprobs": "-1 -1 -1"}, "logprobs", "but 3 logprobs. Remove 1", "AssertionError"),
        ({"logprobs": "-1 nan"}, "logprobs", "logprob index 1 is nan", None),
        ({"logprobs": "-1 null"}, "logprobs", "logprob index 1 is nan", None),
        ({"logprobs": "-inf -1"}, "logprobs", "logprob index 0 is -inf", None),
        ({"logprobs": "0.5 -1"}, "logprobs", "perhaps -0.5?", None),
        ({"ob": ""}, "ob", "its first action token (3) is never a target", None),
        ({"ac": ""}, "ac", "empty action", None),
        ({"ob": "", "ac": "3"}, "ob", "single token", "DataValidationError"),
        ({"ob": "3", "ac": ""}, "ac", "single token", "DataValidationError"),
    ],
)
def test_doubtful_fields_are_left_to_the_cookbook(
    draft: dict[str, str], field: str, words: str, error: str | None
) -> None:
    rollout, issues = build([{"ob": "1 2", "ac": "3 4"} | draft])
    assert rollout is not None
    (issue,) = issues
    assert (issue.field, issue.fatal) == (field, False)
    assert words in issue.message
    assert build_datums(rollout.trajectory).error_code == error


def test_counts_that_cancel_out_are_noted_though_the_cookbook_is_silent() -> None:
    rollout, issues = build(
        [{"ob": "1", "ac": "2 3", "logprobs": "-1"}, {"ob": "4", "ac": "5", "logprobs": "-1 -2"}],
    )
    assert [(issue.turn, issue.field) for issue in issues] == [(0, "logprobs"), (1, "logprobs")]
    assert build_datums(rollout.trajectory).error_code is None


def test_no_turns_and_too_many_turns() -> None:
    assert drafts_to_rollout([], {}, "")[1][0].message == "There is no turn. Add one."
    many = [TurnDraft("1", "2")] * (MAX_DRAFT_TURNS + 1)
    rollout, (issue,) = drafts_to_rollout(many, {}, "")
    assert rollout is None
    assert "at most 16 turns" in issue.message
    assert drafts_to_rollout(many[1:], {}, "")[0] is not None


def test_one_bad_turn_does_not_hide_the_next() -> None:
    rollout, issues = build(
        [
            {"ob": "x", "ac": "2"},
            {"ob": "1", "ac": "y", "history": "edits", "edits": "99: 1"},
            {"ob": "1", "ac": "2", "reward": "z"},
        ],
    )
    assert rollout is None
    assert [(issue.turn, issue.field) for issue in issues] == [(0, "ob"), (1, "ac"), (2, "reward")]


# Surrogates cannot be sent to a browser, nor come from one.
sendable = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
text = sendable | st.text("0123456789 ,.-+:;[]()xnaimgeu", max_size=30)
any_draft = st.fixed_dictionaries(
    {
        "ob": text,
        "ac": text,
        "logprobs": text | st.just("auto"),
        "reward": text | st.just("0"),
        "history": st.sampled_from(["extends", "edits", "replaces"]),
        "edits": text,
        "masked": st.booleans(),
    }
)


@settings(quick, max_examples=300)
@given(st.lists(any_draft, max_size=3))
@example([{"ob": "\ud800", "ac": "image(\ud800, 3)", "logprobs": "\ud800", "reward": "\ud800"}])
@example([{"ob": "image(\ud800, 3) 1", "ac": "1"}])
@example([{"ob": "٣", "ac": "1_0", "logprobs": "1_0", "reward": "1_0"}])
def test_any_text_gives_a_rollout_or_sentences(drafts: Any) -> None:
    rollout, issues = build(drafts)
    assert (rollout is None) == any(issue.fatal for issue in issues)
    names = {item.name for item in fields(TurnDraft)}
    for issue in issues:
        assert issue.field in names
        assert issue.message.isprintable()
        assert len(issue.message) < 300
        assert issue.message.endswith((".", "?"))
        assert f"Turn {issue.turn}" in issue.message or not drafts
    if rollout is not None:
        built = build_datums(rollout.trajectory)
        assert built.error_message is None or built.error_message.startswith(("Turn", "The datum"))


# Views: nothing typed becomes HTML


def test_a_code_block_cannot_be_left() -> None:
    rollout, _ = build([{"ob": "1 image(```\n````<b>, 2)", "ac": "3"}])
    page = code_html(native_to_json(rollout_to_native(rollout)), "json").text
    assert "<b>" not in page
    assert page.count("<pre ") == 1


# Code and JSON beside the editor


def run_code(code: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "copied"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, "copied.py", "exec"), space)
    return space


@settings(quick, max_examples=25)
@given(turns())
def test_copied_python_makes_the_same_datums(made: Any) -> None:
    rollout, _ = build([draft for draft, _, _ in made])
    built = build_datums(rollout.trajectory)
    code = rollout_to_code(rollout)
    if built.error_code:  # such as a datum that ends on an image
        with pytest.raises((ValueError, AssertionError)) as caught:
            run_code(code)
        assert type(caught.value).__name__ == built.error_code
        return
    same_datums(rollout.trajectory, run_code(code)["data"])


def test_copied_python_of_every_scenario() -> None:
    for key, scenario in scenarios().items():
        rollout = scenario_rollout(scenario)
        code = rollout_to_code(rollout)
        assert max(map(len, code.splitlines())) <= 100, key
        made = run_code(code)
        same_datums(rollout.trajectory, made["data"])
        again = made["trajectory"].transitions
        assert [item.metrics for item in again] == [
            item.metrics for item in rollout.trajectory.transitions
        ]
        assert [(item.reward, item.episode_done) for item in again] == [
            (item.reward, item.episode_done) for item in rollout.trajectory.transitions
        ]


def test_copied_python_of_odd_logprobs_and_long_lists() -> None:
    many = " ".join(map(str, range(100)))
    rollout, _ = build(
        [
            {"ob": many, "ac": "3 4 5", "logprobs": "nan -inf inf"},
            {"ob": "", "ac": many, "masked": True},
        ],
    )
    code = rollout_to_code(rollout, advantage=-0.5)
    assert max(map(len, code.splitlines())) <= 90
    expected = build_datums(rollout.trajectory, -0.5).data
    assert flat(run_code(code)["data"]) == flat(expected)
    assert math.isnan(datum_tensor(expected[0], "logprobs")[99])


def test_copied_python_without_logprobs_fails_as_the_editor_says() -> None:
    rollout, _ = build([{"ob": "1", "ac": "2", "logprobs": ""}])
    with pytest.raises(ValueError, match="Logprobs are not available"):
        run_code(rollout_to_code(rollout))


@settings(quick, max_examples=25)
@given(turns())
def test_copied_json_reads_back(made: Any) -> None:
    rollout, _ = build([draft for draft, _, _ in made])
    record = rollout_to_native(rollout)
    copied = native_to_json(record)
    assert json.loads(copied) == record
    reading = read_bounded(copied)
    (again,) = reading.rollouts
    built = build_datums(rollout.trajectory)
    assert flat(build_datums(again.trajectory).data) == flat(built.data)


# The address


@quick
@given(st.lists(any_draft, min_size=1, max_size=5))
def test_an_address_restores_what_was_typed(drafts: Any) -> None:
    typed = tuple(TurnDraft(**draft) for draft in drafts)
    scenario = scenarios()["window"]
    parameters, sentence = address_of(scenario, typed, "chat")
    assert parameters["scenario"] == "window"
    if parameters["turns"] is None:
        assert typed == scenario.drafts or "too long" in sentence
        return
    assert len(parameters["turns"]) <= MAX_STATE_CHARS
    assert parameters["turns"].replace("-", "").replace("_", "").isalnum()
    restored = read_address(parameters, scenarios())
    assert restored == (scenario, typed, "")


def test_the_address_of_an_untouched_scenario_is_short() -> None:
    listed = scenarios()
    for key, scenario in listed.items():
        parameters, _ = address_of(scenario, scenario.drafts, "chat")
        assert parameters == {"scenario": None if key == "chat" else key, "turns": None}
        given_back = {name: value for name, value in parameters.items() if value is not None}
        assert read_address(given_back, listed) == (scenario, scenario.drafts, "")


def test_too_long_for_an_address() -> None:
    noise = " ".join(str((i * 7919) % 100003) for i in range(1500))
    drafts = (TurnDraft(noise, "1"),)
    parameters, sentence = address_of(scenarios()["chat"], drafts, "chat")
    assert parameters == {"scenario": None, "turns": None}
    assert "too long for an address" in sentence


def test_no_address_is_offered_that_cannot_be_read() -> None:
    """Many alike tokens pack into few characters, but inflate beyond what is read."""
    drafts = tuple(TurnDraft(" ".join(["100"] * 1900), "7 " * 1900) for _ in range(16))
    parameters, sentence = address_of(scenarios()["chat"], drafts, "chat")
    assert parameters["turns"] is None
    assert "too long for an address" in sentence


def packed(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(zlib.compress(raw)).decode().rstrip("=")


@pytest.mark.parametrize(
    "turns",
    [
        "",
        "abc",
        "é" * 8,
        "A" * 2001,
        packed(b"[" * 100_000),
        packed(b" " * 1_000_000),
        packed([]),
        packed({}),
        packed([1]),
        packed([{"ob": 1, "ac": "2"}]),
        packed([{"ob": "1"}]),
        packed([{"ob": "1", "ac": "2", "history": "forgets"}]),
        packed([{"ob": "1", "ac": "2", "masked": "yes"}]),
        packed([{"ob": "1", "ac": "2"}] * 17),
        packed(b'[{"ob": "\xff", "ac": "2"}]'),
        packed(b'[{"ob": "1", "ac": "2"}]') + "A",
        packed([{"ob": "1", "ac": "2"}])[:-6],
        ["a", "b"],
        7,
    ],
)
def test_a_bad_address_is_ignored_with_a_sentence(turns: Any) -> None:
    listed = scenarios()
    scenario, drafts, note = read_address({"scenario": "window", "turns": turns}, listed)
    assert (scenario.key, drafts) == ("window", listed["window"].drafts)
    assert note.startswith("The trajectory in the address")
    assert "ignored" in note


def test_an_unknown_scenario_is_named() -> None:
    listed = scenarios()
    scenario, _, note = read_address({"scenario": "<b>nope</b>"}, listed)
    assert scenario.key == "chat"
    assert "`<b>nope</b>`" in note
    assert code_markup(note).count("<b>") == 0
    assert "more than once" in read_address({"scenario": ["a", "b"]}, listed)[2]


@settings(quick, max_examples=300)
@given(
    st.text(max_size=40)
    | st.binary(max_size=40).map(packed)
    | st.recursive(st.none() | st.text(max_size=5) | st.integers(), st.lists).map(packed)
    | st.lists(st.dictionaries(st.sampled_from(["ob", "ac", "edits", "x"]), text)).map(packed)
)
def test_no_address_does_harm(turns: str) -> None:
    scenario, drafts, note = read_address({"turns": turns}, scenarios())
    assert bool(note) == (drafts == scenario.drafts)
    drafts_to_rollout(drafts, {}, "")


def test_a_new_turn_repeats_the_last_ones_tokens() -> None:
    assert next_draft([TurnDraft("1", "2", "-1", "5", "replaces", "0: 1", True)]) == (
        TurnDraft("1", "2")
    )
    assert next_draft([TurnDraft("", "")]) == TurnDraft("300", "400 401")
    for drafts in ([], [TurnDraft("", "")], [TurnDraft("1 2", "3")]):
        grown = [*drafts, next_draft(drafts)]
        assert drafts_to_rollout(grown, {}, "")[0] is not None
