"""Warnings: what fires, where, and what does not.

1. Each rule fires where it should, with turn and index, and says so in a sentence.
2. Two equal faults do not cancel each other.
3. A clean rollout of a real renderer raises none, however it is played, cut, and resumed.
"""

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollouts import CASES, case_rollout, chat, make_rollout, make_turn, picture
from tinker_cookbook.exceptions import RendererError

from sequence_extension.cookbook import (
    Message,
    MessageEnv,
    MessageStepResult,
    TokenCompleter,
    TokensWithLogprobs,
    Trajectory,
    renderers,
    tinker,
    wait_for_cookbook,
)
from sequence_extension.datums import datum_tensor
from sequence_extension.diagnosis import diagnose
from sequence_extension.env.conversation import render_conversation_turn
from sequence_extension.env.renderers import build_renderer, renderer_names
from sequence_extension.env.tutor import play_tutor
from sequence_extension.env.vocabulary import offline_vocabulary
from sequence_extension.remedies import WARNING_REMEDIES
from sequence_extension.rollout import Rollout

WARNINGS = {
    "logprobs_missing", "logprob_count", "logprob_not_finite", "logprob_positive",
    "logprob_extreme", "logprobs_all_zero", "zero_logprob_end", "empty_observation",
    "header_changed", "separator_changed", "end_token_untrained",
}  # fmt: skip


def codes(*turns: Any, vocab: dict[int, str] | None = None) -> list[Any]:
    diagnosis = diagnose(make_rollout(*turns, vocab=vocab))
    return [(item.code, item.turn, item.index) for item in diagnosis.warnings]


def test_logprob_warnings() -> None:
    nan, inf = math.nan, math.inf
    assert codes(make_turn([1, 2], [3, 4], None)) == [("logprobs_missing", 0, None)]
    assert codes(make_turn([1, 2], [3, 4], [-0.1])) == [("logprob_count", 0, None)]
    assert codes(make_turn([1, 2], [3, 4, 5], [nan, -0.1, -inf])) == [
        ("logprob_not_finite", 0, 0),
        ("logprob_not_finite", 0, 2),
    ]
    # short and long cancel out: the cookbook is content, the reader should not be
    swapped = [make_turn([1, 2], [3, 4], [-0.1]), make_turn([1, 2, 3, 4, 5], [6], [-0.1, -0.2])]
    assert codes(*swapped) == [("logprob_count", 0, None), ("logprob_count", 1, None)]
    assert diagnose(make_rollout(*swapped)).built.error_code is None


def test_many_bad_logprobs_are_counted_not_listed() -> None:
    diagnosis = diagnose(make_rollout(make_turn([1, 2], range(100, 130), [math.nan] * 30)))
    assert len(diagnosis.warnings) == 8
    assert "22 more" in diagnosis.warnings[-1].message
    assert not any("more" in item.message for item in diagnosis.warnings[:-1])


def test_zero_logprob_end() -> None:
    last = ("zero_logprob_end", 0, 2)
    assert codes(make_turn([1], [2, 3, 4], [-0.1, -0.2, 0.0])) == [last]
    assert codes(make_turn([1], [2, 3, 4], [-0.1, -0.2, -0.0])) == [last]
    assert codes(make_turn([1], [2, 3, 4], [0.0, -0.2, 0.0])) == []
    assert codes(make_turn([1], [2, 3, 4], [-0.1, 0.0, -0.2])) == []
    assert codes(make_turn([1], [2], [0.0])) == []


def test_empty_observation() -> None:
    found = diagnose(make_rollout(([1, 2], [3, 4]), ([], [5, 6])))
    assert [(item.code, item.turn, item.index) for item in found.warnings] == [
        ("empty_observation", 1, 0)
    ]
    assert found.breaks[0].cause == "shortened"
    trained = sum(sum(datum_tensor(datum, "mask")) for datum in found.built.data)
    assert trained == 3  # 5 has no target
    assert codes(([1, 2], [3, 4]), ([], [])) == []


@pytest.mark.parametrize(
    ("ends", "odd"),
    [
        ([4, 4, 5], 2),
        ([5, 4, 4], 0),
        ([4, 5, 4], 1),
        ([4, 4, 4, 4, 5], 4),
        ([4, 4, 4], None),
        ([4, 5], None),
        ([4, 5, 6], None),
        ([4, 4, 5, 5], None),
        ([4, 4, 5, 6], None),
    ],
)
def test_header_changed(ends: list[int], odd: int | None) -> None:
    turns = [([10 * k + 100, end], [10 * k + 101, 9 + k]) for k, end in enumerate(ends)]
    assert codes(*turns) == ([] if odd is None else [("header_changed", odd, 1)])
    if odd is not None:
        (warning,) = diagnose(make_rollout(*turns)).warnings
        assert f"the other {len(ends) - 1} observations end with 4" in warning.message


def test_a_message_of_another_kind_may_have_no_header() -> None:
    """3 begins a user's message, 13 a tool's output (14 ends it), 4 is the header."""
    asked, tool = [3, 20, 4], [13, 21, 14]

    def chat_of(*news: list[int]) -> list[Any]:
        turns: list[Any] = []
        held: list[int] = [1]
        for turn, fresh in enumerate(news):
            turns.append(([*held, *fresh], [30 + turn, 6]))
            held = [*held, *fresh, 30 + turn, 6]
        return turns

    assert codes(*chat_of(asked, tool, asked)) == []
    assert codes(*chat_of(asked, tool, tool)) == []
    assert codes(*chat_of([*asked, 30, 6, *asked], tool, tool)) == []
    assert codes(*chat_of(asked, asked[:-1], asked)) == [("header_changed", 1, 7)]
    assert codes(*chat_of(asked[:-1], asked, asked)) == [("header_changed", 0, 2)]
    # where nothing behind the answers is alike, no kinds can be told
    assert codes(*chat_of(asked, tool, [5, 4], [7, 4])) == [("header_changed", 1, 8)]


def test_images_at_the_end_are_no_header() -> None:
    """Where observations end with an image, no header is written: none is missing elsewhere."""
    image = picture("frame", 3)
    turns = [([1, image], [9, 2]), ([3, image], [9, 3]), ([5, 4], [9, 5])]
    assert codes(*turns) == []
    turns = [([1, 4], [9, 2]), ([3, 4], [9, 3]), ([5, image], [9, 5])]
    assert codes(*turns) == [("header_changed", 2, 1)]


def test_an_image_ends_no_answer() -> None:
    """Each observation first adds the same image (a screen that did not change)."""
    for first, fired in ((picture("frame", 3), []), (7, [("end_token_untrained", 1, 4)])):
        turns: list[Any] = [([1, first, 3], [10])]
        for action in (11, 12):
            observation, before = turns[-1]
            turns.append(([*observation, *before, first, 3], [action]))
        assert codes(*turns) == fired


def test_header_changed_speaks_of_tokens_only_where_there_are_some() -> None:
    """An empty observation ends with no token: that is another warning."""
    found = codes(([1, 4], [9, 2]), ([3, 4], [9, 3]), ([], [9, 5]))
    assert found == [("empty_observation", 2, 0)]


def test_separator_changed() -> None:
    assert codes(*chat([12], [12])) == []
    assert codes(*chat([6, 12])) == [("separator_changed", 1, 8)]
    assert codes(*chat([12], [])) == [("separator_changed", 2, 16)]
    # two odd ones speak for each other: no longer "always followed by the same"
    assert codes(*chat([13], [14])) == []


def test_separator_changed_needs_two_other_places() -> None:
    turns = [([1, 5, 12], [6]), ([1, 5, 12, 6, 6, 13], [7, 6])]
    assert codes(*turns) == []
    turns = [([1, 6, 12, 6, 12], [6]), ([1, 6, 12, 6, 12, 6, 6, 12], [7, 6])]
    assert codes(*turns) == [("separator_changed", 1, 6)]


def test_separator_of_another_kind_of_message_is_no_fault() -> None:
    """What follows the end token is new, but neither doubled, nor lost, nor slipped in."""
    turns = [([1, 6, 12, 6, 12], [6]), ([1, 6, 12, 6, 12, 6, 13], [7, 6])]
    assert codes(*turns) == []


def test_separator_copied_by_a_split_is_no_second_place() -> None:
    """After a split the repeated history shows the odd place again; it stays one place."""
    turns = chat([6, 12], [12])
    ob, action = turns[-1]
    changed = [*ob[:-3], 77, *ob[-2:]]
    assert codes(*turns, (changed, action)) == [("separator_changed", 1, 8)]


def test_every_warning_has_a_message_with_turn_and_a_remedy() -> None:
    for case in CASES:
        for item in diagnose(case_rollout(case)).warnings:
            assert f"Turn {item.turn}" in item.message
            if item.index is not None:
                assert f"index {item.index}" in item.message
            assert item.help.endswith(".")
    assert set(WARNING_REMEDIES) == WARNINGS


def test_logprob_above_zero() -> None:
    assert codes(make_turn([1], [2, 3, 4], [-0.1, 0.5, 0.2])) == [("logprob_positive", 0, 1)]
    assert codes(make_turn([1], [2, 3], [0.0, -0.1])) == []
    assert codes(make_turn([1], [2, 3], [math.inf, -0.1])) == [("logprob_not_finite", 0, 0)]
    for values, hint in (
        ([0.9, 0.2], "probabilities"),
        ([1.5, 0.2], "Negate"),
        ([0.9, -0.2], None),
    ):
        (warning,) = diagnose(make_rollout(make_turn([1], [2, 3], values))).warnings
        assert bool(warning.hints) == (hint is not None)
        assert hint is None or hint in warning.hints[0]


def test_logprob_far_below_zero() -> None:
    assert codes(make_turn([1], [2, 3], [-100.0, -99.0])) == []
    assert codes(make_turn([1], [2, 3, 4], [-1.0, -100.5, -9999.0])) == [("logprob_extreme", 0, 1)]
    assert codes(make_turn([1], [2, 3], [-1.0, -math.inf])) == [("logprob_not_finite", 0, 1)]


def test_logprobs_all_zero() -> None:
    two = [make_turn([1], [2, 6], [0.0, -0.0]), make_turn([1, 2, 6, 7], [3, 6], [0.0, 0.0])]
    assert codes(*two) == [("logprobs_all_zero", 0, None)]
    assert codes(two[0], make_turn([1, 2, 6, 7], [3], [0.0])) == []  # three tokens may be sure
    assert codes(two[0], make_turn([1, 2, 6, 7], [3, 6], [0.0, -0.1])) == []
    bare = make_turn([1, 2, 6, 7], [3, 6, 5], None)  # its tokens have no logprob to count
    found = diagnose(make_rollout(two[0], bare)).warnings
    assert [item.code for item in found] == ["logprobs_all_zero", "logprobs_missing"]
    assert "0.0, 2 values in all" in found[0].message


def test_prompts_that_were_not_recorded() -> None:
    diagnosis = diagnose(make_rollout(([], [2, 6]), ([], [3, 6])))
    assert [item.code for item in diagnosis.warnings] == ["empty_observation"] * 2
    assert all("not recorded" in item.message for item in diagnosis.warnings)
    (one,) = diagnose(make_rollout(([1], [2, 6]), ([], [3, 6]))).warnings
    assert "not recorded" not in one.message


def test_an_unfinished_answer_has_no_header() -> None:
    """Turn 1 goes on in the middle of an answer; turn 3 closes a thought and goes on."""
    a, b, c = [1, 4], [1, 4, 30, 31], [1, 4, 30, 31, 32, 6, 12, 4]
    turns = [(a, [30, 31]), (b, [32, 6]), (c, [8, 33])]
    thought = [*c, 8, 33, 9]
    last = [*thought, 34, 6, 12, 4]
    assert codes(*turns, (thought, [34, 6]), (last, [35, 6])) == []
    # the same place behind a finished answer is a missing header
    assert codes((a, [30, 6]), ([*a, 30, 6, 12, 4], [31, 6]), ([*a, 30, 6, 12, 4, 31, 6, 12], [6]))


def test_a_separator_that_is_lost_everywhere_is_seen() -> None:
    """Observation text tells what stands behind an end token, so equal faults do not cancel."""
    first = [1, 7, 20, 6, 12, 7, 21, 6, 12, 7, 4]
    held, turns = first, []
    for turn in range(4):
        turns.append((held, [30 + turn, 6]))
        held = [*held, 30 + turn, 6, 7, 40 + turn, 6, 12, 7, 4]
    places = [(1, 13), (2, 21), (3, 29)]
    assert codes(*turns) == [("separator_changed", *place) for place in places]


def test_end_token_untrained() -> None:
    def trimmed(*ends: int) -> list[Any]:
        held, turns = [1, 20, 6, 4], []
        for turn, end in enumerate(ends):
            turns.append((held, [30 + turn, end]))
            held = [*held, 30 + turn, end, 6, 40 + turn, 6, 4]
        return turns

    assert codes(*trimmed(51, 52, 53)) == [("end_token_untrained", 1, 6)]
    assert codes(*trimmed(51, 52)) == []  # two actions are too few to tell
    assert codes(*trimmed(51, 52, 51)) == []  # one token ends two of them


def test_an_image_may_stand_anywhere() -> None:
    """As first and last element, as what follows an answer, twice, and without its size."""
    frame = picture("frame", 3)
    assert codes(([frame, 4], [5, 6]), ([frame, 4, 5, 6, frame], [7, 6])) == []
    unsized = frame.model_copy(update={"expected_tokens": None})
    found = diagnose(make_rollout(([1, unsized, 4], [5, 6]), ([1], [5, 6])))
    assert found.built.error_code == "ValueError"
    assert (found.built.error_message or "").startswith("Turn 0, observation index 1: the image")
    assert found.breaks[0].cause == "shortened"


# The rules on places once more, word by word, on plain lists


def news(observation: list[int], ends: set[int]) -> list[int] | None:
    """What stands behind the last end token; None where there is none."""
    for at in range(len(observation) - 1, -1, -1):
        if observation[at] in ends:
            return observation[at + 1 :]
    return None


def by_the_words(turns: Sequence[tuple[list[int], list[int]]]) -> list[tuple[str, int, int]]:
    """`header_changed`, `separator_changed` and `end_token_untrained` of turns that all extend."""
    number = range(len(turns))
    last = [action[-1] if action else None for _, action in turns]
    ends = {token for token in last if token is not None and last.count(token) > 1}
    held = [[], *([*ob, *action] for ob, action in turns[:-1])]
    added = [ob[len(held[t]) :] for t, (ob, _) in enumerate(turns)]
    extends = [bool(held[t]) for t in number]
    fired: list[tuple[str, int, int]] = []

    unfinished = [
        extends[t] and (not added[t] or (last[t - 1] not in ends and not ends & set(added[t])))
        for t in number
    ]
    for t in number:
        others = [turns[u][0][-1:] for u in number if u != t and not unfinished[u]]
        alike = len(others) >= 2 and all(end == others[0] != [] for end in others)
        odd = not unfinished[t] and alike and turns[t][0] and turns[t][0][-1:] != others[0]
        others_news = [news(turns[u][0], ends) for u in number if u != t and not unfinished[u]]
        begins = [part[:1] for part in others_news if part is not None]
        mine = news(turns[t][0], ends)
        mine = turns[t][0] if mine is None else mine
        usual = begins[0] if begins and all(b == begins[0] for b in begins) else []
        if odd and not (usual and mine and usual[0] not in mine):
            fired.append(("header_changed", t, len(turns[t][0]) - 1))

    pairs = [pair for text in added for pair in pairwise(text)]
    boundaries = [t for t in number if extends[t] and added[t] and last[t - 1] in ends]
    for t in boundaries:
        end, first = last[t - 1], added[t][0]
        usual = [b for a, b in pairs if a == end]
        if len(usual) < 2 or len(set(usual)) > 1:
            usual = [added[u][0] for u in boundaries if u != t and last[u - 1] == end]
        if len(usual) < 2 or len(set(usual)) > 1 or first == usual[0]:
            continue
        if first == end or (usual[0], first) in pairs or added[t][1:2] == usual[:1]:
            fired.append(("separator_changed", t, len(held[t])))

    adding = [t for t in number if extends[t] and added[t]]
    firsts = {added[t][0] for t in adding}
    rest = [token for t in number for token in added[t][t in adding :]]
    actions = sum(token is not None for token in last)
    if actions >= 3 and not ends and len(adding) >= 2 and len(firsts) == 1 and firsts & set(rest):
        fired.append(("end_token_untrained", adding[0], len(held[adding[0]])))
    return sorted(fired)


@st.composite
def merged_turns(draw: st.DrawFn) -> list[tuple[list[int], list[int]]]:
    """Turns that extend, of few letters, most of them like a chat."""
    letters = st.integers(1, 5)
    turns: list[tuple[list[int], list[int]]] = []
    held: list[int] = []
    for turn in range(draw(st.integers(1, 6))):
        usual = draw(st.booleans())
        fresh = draw(st.lists(letters, max_size=4))
        if usual:
            fresh = [*draw(st.sampled_from([[2], [2], [], [1, 2], [3, 2]])), 3, *fresh, 1, 2, 4]
        action = draw(st.lists(letters, max_size=2)) + draw(
            st.sampled_from([[1], [1], [], [10 + turn]])
        )
        turns.append(([*held, *fresh], action))
        held = [*held, *fresh, *action]
    return turns


@settings(max_examples=500, deadline=None)
@given(merged_turns())
def test_places_agree_with_the_words_of_the_rules(turns: Any) -> None:
    rules = {"header_changed", "separator_changed", "end_token_untrained"}
    assert sorted(item for item in codes(*turns) if item[0] in rules) == by_the_words(turns)


# Clean rollouts of all renderers of the installed cookbook


@dataclass
class Chat(MessageEnv):
    """Says what is written down, whatever is answered; asks to go on when an answer is cut."""

    messages: list[Message]
    replies: list[list[Message]]
    turn: int = 0

    async def initial_observation(self) -> list[Message]:
        return list(self.messages)

    async def step(self, message: Message) -> MessageStepResult:
        self.messages += [message, *self.replies[self.turn]]
        self.turn += 1
        done = self.turn == len(self.replies)
        return MessageStepResult(1.0, done, list(self.messages))

    async def observe_truncated_response(self, message: Message) -> list[Message]:
        self.messages += [message, {"role": "user", "content": "Go on."}]
        return list(self.messages)


@dataclass
class Scribe(TokenCompleter):
    """Samples what the renderer itself would write for the next answer; one may be cut."""

    renderer: Any
    env: Chat
    answers: list[Any]
    cut: int | None
    calls: int = 0

    async def __call__(self, model_input: Any, stop: Any, **_: Any) -> TokensWithLogprobs:
        messages = self.env.messages
        answer = self.answers[min(self.calls, len(self.answers) - 1)]
        tokens = render_conversation_turn(self.renderer, [*messages, answer], len(messages))[1]
        reason: Any = "stop"
        if self.cut == self.calls:
            tokens, reason = tokens[: max(1, len(tokens) // 2)], "length"
        self.calls += 1
        return TokensWithLogprobs(tokens, [-0.5] * len(tokens), stop_reason=reason)


def conversations(seed: int) -> Iterator[tuple[str, list[Any], list[Any], list[Any], int | None]]:
    """(name, opening, answers, replies, turn that is cut) of every kind of chat."""
    rng = random.Random(seed)

    def user(text: str) -> dict[str, Any]:
        return {"role": "user", "content": text}

    def said(text: str, thought: str = "") -> dict[str, Any]:
        parts = [{"type": "thinking", "thinking": thought}, {"type": "text", "text": text}]
        return {"role": "assistant", "content": parts if thought else text}

    def call(number: int, thought: str = "") -> dict[str, Any]:
        function = renderers.ToolCall.FunctionBody(
            name="add", arguments=f'{{"a": {rng.randint(2, 99)}, "b": {rng.randint(2, 99)}}}'
        )
        calls = [renderers.ToolCall(function=function, id=f"c{number}")]
        return {**said("I call." if thought else "", thought), "tool_calls": calls}

    def result(number: int) -> dict[str, Any]:
        content = str(rng.randint(2, 99))
        return {"role": "tool", "content": content, "name": "add", "tool_call_id": f"c{number}"}

    asked = [[user(f"What is {rng.randint(2, 99)} + {rng.randint(2, 99)}?")] for _ in range(4)]
    plain = [said(f"It is {rng.randint(2, 99)}.") for _ in range(4)]
    thought = [said(f"It is {rng.randint(2, 99)}.", "Hm, I add.") for _ in range(4)]
    system = {"role": "system", "content": "Answer briefly."}
    shots = [system, user("1 + 1?"), said("It is 2."), user("2 + 2?"), said("4."), *asked[0]]
    tools = [[result(0)], asked[1], [result(1)], asked[2]]
    yield "plain", asked[0], plain, asked, None
    yield "system", [system, *asked[0]], plain, asked, None
    yield "few shots", shots, plain, asked, None
    yield "reasoning", shots if seed % 2 else asked[0], thought, asked, None
    yield "cut", shots if seed % 2 else asked[0], plain, asked, seed % 2
    yield "cut thought", asked[0], thought, asked, 1
    for name, thinks in (("tools", ""), ("tools and reasoning", "I add.")):
        answers = [call(0, thinks), plain[0], call(1, thinks), plain[1]]
        yield name, shots if seed % 2 else [system, *asked[0]], answers, tools, None
    yield "answer, then tools", asked[0], [plain[3], *answers], [asked[3], *tools], None
    once = [[result(0)], asked[1], asked[2]]
    yield "one tool", asked[0], [call(0), *plain], once, None
    yield "one tool and reasoning", asked[0], [call(0, "I add."), *thought], once, None
    row = [[result(0)], [result(1)], [result(2)], asked[1]][seed:]
    yield "tools in a row", asked[0], [call(0), call(1), call(2), plain[0]][seed:], row, None
    used = [*asked[0], call(0), result(0), said("So.")]
    yield "tools in the shots", [*used, *asked[1]], answers, [[result(1)], [result(2)]], None


def cut_and_resumed(trajectory: Trajectory, seed: int) -> Trajectory:
    """The same rollout, some answers sampled in two parts: an engine that was interrupted."""
    rng = random.Random(seed)
    turns = []
    for turn in trajectory.transitions:
        tokens, logprobs = turn.ac.tokens, turn.ac.maybe_logprobs or []
        at = rng.randrange(1, len(tokens)) if len(tokens) > 1 and rng.random() < 0.6 else 0
        if at:
            turns.append(replace(turn, ac=TokensWithLogprobs(tokens[:at], logprobs[:at])))
            held = tinker.ModelInput.from_ints([*turn.ob.to_ints(), *tokens[:at]])
            turn = replace(turn, ob=held, ac=TokensWithLogprobs(tokens[at:], logprobs[at:]))
        turns.append(turn)
    return replace(trajectory, transitions=turns)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.filterwarnings("ignore:use_system_prompt")
def test_clean_rollouts_of_every_renderer_raise_no_warning(seed: int) -> None:
    """Through the real rollout loop; a renderer that refuses a kind of message has none."""
    tokenizer = offline_vocabulary()
    played: Counter[str] = Counter()
    turns = 0
    for name in renderer_names():
        renderer, _ = build_renderer(name, tokenizer)
        if renderer is None:
            continue
        for kind, opening, answers, replies, cut in conversations(seed):
            env = Chat(list(opening), replies)
            scribe = Scribe(renderer, env, answers, cut)
            try:
                trajectory = wait_for_cookbook(
                    play_tutor(renderer, scribe, env, terminate_on_length=False)
                )
            except RendererError:  # no reasoning, no tool calls, for this one
                continue
            played[kind] += 1
            turns += len(trajectory.transitions)
            for version in (trajectory, cut_and_resumed(trajectory, seed)):
                diagnosis = diagnose(Rollout(name, version))
                assert diagnosis.warnings == (), (name, kind)
    assert len(played) == 13
    assert min(played.values()) >= 25, played
    assert turns > 3 * played.total()


@pytest.mark.parametrize("name", ["llama3", "deepseekv3", "qwen3_instruct"])
def test_faults_in_rollouts_of_real_renderers_are_seen(name: str) -> None:
    """The same rollouts with the token lost that separates an answer from what follows."""
    renderer, _ = build_renderer(name, offline_vocabulary())
    _, opening, answers, replies, _ = list(conversations(1))[2]  # few shots
    env = Chat(list(opening), replies)
    trajectory = wait_for_cookbook(play_tutor(renderer, Scribe(renderer, env, answers, None), env))
    lost: set[int] = set()
    turns = []
    for span, turn in zip(
        diagnose(Rollout(name, trajectory)).spans, trajectory.transitions, strict=True
    ):
        lost |= {span.held} if span.extends else set()
        kept = [token for at, token in enumerate(turn.ob.to_ints()) if at not in lost]
        turns.append(replace(turn, ob=tinker.ModelInput.from_ints(kept)))
    diagnosis = diagnose(Rollout(name, replace(trajectory, transitions=turns)))
    assert not diagnosis.breaks
    assert [(item.code, item.turn) for item in diagnosis.warnings] == [
        ("separator_changed", turn) for turn in (1, 2, 3)
    ]
