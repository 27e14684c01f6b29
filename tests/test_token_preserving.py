"""The environment that keeps the sampled tokens.

Invariants:
1. Every renderer against every policy: one datum, or a fallback on record.
2. Whatever is sampled and whatever the message environment does: the next observation begins
   with the running sequence, or a fallback is on record.
3. With a fallback the observation is exactly the cookbook's.
4. Turns, rewards, ends, stop reasons, messages and errors are those of `EnvFromMessageEnv`.
5. A prompt that keeps the tokens ends as the cookbook's prompt does.
"""

import pickle
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from scripted import Replay, ScriptEnv, call, family_of, renderer_of, replay, sampled
from tinker_cookbook.renderers import Message, get_renderer, get_text_content
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.message_env import EnvFromMessageEnv, MessageEnv, MessageStepResult
from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy
from tinker_cookbook.rl.rollout_runner import RolloutHooks, run_rollout
from tinker_cookbook.rl.rollouts import do_group_rollout, do_single_rollout
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, Trajectory
from tinker_cookbook.tool_use import build_agent_tool_env, simple_tool_result, tool
from tinker_cookbook.tool_use.types import ToolResult

from sequence_extension import TokenPreservingEnv
from sequence_extension.cookbook import wait_for_cookbook
from sequence_extension.diagnosis import diagnose
from sequence_extension.elements import model_input_to_elements
from sequence_extension.env import TokenPreservingBuilder
from sequence_extension.env.episodes import Episode, EpisodeSpec, run_episodes
from sequence_extension.env.policies import ScriptedPolicy, policy_names
from sequence_extension.env.renderers import renderer_names
from sequence_extension.env.token_preserving import FALLBACK_METRIC, REASON_LOG
from sequence_extension.env.vocabulary import OFFLINE_VOCABULARY, offline_vocabulary


def fallbacks(trajectory: Trajectory) -> list[str]:
    """Reasons of the turns after which the prompt was rendered anew."""
    return [
        str(transition.logs[REASON_LOG])
        for transition in trajectory.transitions
        if transition.metrics.get(FALLBACK_METRIC)
    ]


@pytest.mark.parametrize("name", renderer_names())
def test_every_policy_gives_one_datum_or_a_recorded_fallback(name: str) -> None:
    specs = [EpisodeSpec(name, policy, keep_tokens=True) for policy in policy_names()]
    for spec, episode in zip(specs, run_episodes(specs, offline_vocabulary()), strict=True):
        assert isinstance(episode, Episode), (spec, episode)
        datums = trajectory_to_data(episode.rollout.trajectory, 1.0)
        assert len(datums) == 1 or fallbacks(episode.rollout.trajectory), spec
        codes = {warning.code for warning in diagnose(episode.rollout).warnings}
        assert not codes & {"separator_changed", "header_changed"}, spec


@pytest.mark.parametrize("name", renderer_names())
def test_where_nothing_splits_the_prompts_are_the_cookbooks(name: str) -> None:
    specs = [
        EpisodeSpec(name, policy, keep_tokens=kept)
        for policy in policy_names()
        for kept in (False, True)
    ]
    episodes = run_episodes(specs, offline_vocabulary())
    for anew, kept in zip(episodes[::2], episodes[1::2], strict=True):
        assert isinstance(anew, Episode)
        assert isinstance(kept, Episode)
        assert kept.rewards == anew.rewards
        if len(trajectory_to_data(anew.rollout.trajectory, 1.0)) == 1:
            prompts, fresh = (
                [turn.ob.to_ints() for turn in episode.rollout.trajectory.transitions]
                for episode in (kept, anew)
            )
            assert prompts == fresh, kept.spec


def test_public_names_are_one_class() -> None:
    from sequence_extension import env

    assert env.TokenPreservingEnv is TokenPreservingEnv


# What models do to answers, and environments to conversations.
FRAGMENTS = [
    "It is 13.", "13", " ", "\n", "\n\n", "é🙂", "<think>", "</think>", "Six.\n</think>\n\n",
    "User:", "<|im_start|>", "<|user|>", "<|end|>", "<|end_message|>",
    '<tool_call>\n{"name": "add", "arguments": {"a": 6}}\n</tool_call>',
    "<tool_call>add<arg_key>a</arg_key><arg_value>6</arg_value></tool_call>",
    '<tool_call>\n{"name": ', "<|channel|>final<|message|>", "<|channel|>analysis<|message|>",
    " to=functions.add<|channel|>commentary <|constrain|>json<|message|>{}",
    "<|message_model|><|content_text|>",
]  # fmt: skip
ENDS = ["own", "own", "own", "other", "eos", "none", "cut", "doubled", "trailing"]


def with_end(renderer: Any, text: str, end: str) -> tuple[list[int], str]:
    """A sampled answer and why sampling stopped."""
    encode = renderer.tokenizer.encode
    stops = renderer.get_stop_sequences()
    first, last = (
        [stop] if isinstance(stop, int) else encode(stop, add_special_tokens=False)
        for stop in (stops[0], stops[-1])
    )
    tokens = encode(text, add_special_tokens=False)
    closing = {
        "own": first,
        "other": last,
        "eos": [renderer.tokenizer.eos_token_id],
        "doubled": first * 2,
        "trailing": [*first, *encode("more", add_special_tokens=False)],
    }.get(end, [])
    return [*tokens, *closing], "length" if end == "cut" else "stop"


def drop_first(messages: list[Any], answer: Any) -> list[Any]:
    return [*messages[1:], answer, {"role": "user", "content": "And?"}]


def drop_answer(messages: list[Any], answer: Any) -> list[Any]:
    return [*messages, {"role": "user", "content": "Again!"}]


def edit_in_place(messages: list[Any], answer: Any) -> list[Any]:
    messages[0]["content"] = f"{messages[0]['content']}?"
    return [*messages, answer, {"role": "user", "content": "And?"}]


def censor(messages: list[Any], answer: Any) -> list[Any]:
    return [*messages, {**answer, "content": "(removed)"}, {"role": "user", "content": "And?"}]


def name_calls(messages: list[Any], answer: Any) -> list[Any]:
    calls = [
        call(made.function.name, made.function.arguments, serial)
        for serial, made in enumerate(answer.get("tool_calls", []))
    ]
    named = {**answer, "tool_calls": calls} if calls else answer
    return [
        *messages,
        named,
        {"role": "tool", "name": "add", "tool_call_id": "functions.add:0", "content": "13"},
    ]


REPLIES: list[Any] = [
    [{"role": "user", "content": "And 1 + 2?"}],
    [{"role": "user", "content": " "}, {"role": "user", "content": "\n<|im_end|>"}],
    [{"role": "tool", "name": "add", "tool_call_id": "functions.add:0", "content": "13"}],
    [],
    drop_first, drop_answer, edit_in_place, censor, name_calls,
]  # fmt: skip


@st.composite
def scripts(draw: st.DrawFn) -> tuple[str, list[Any], list[Any], list[tuple[str, str]], bool]:
    """(renderer, first messages, replies, answers with their ends, go on after parse errors)."""
    turns = draw(st.integers(2, 4))
    start: list[Any] = [{"role": "user", "content": "6 + 7?"}]
    if draw(st.booleans()):
        start.insert(0, {"role": "system", "content": "Be brief."})
    fragments = st.lists(st.sampled_from(FRAGMENTS), max_size=3).map("".join)
    return (
        draw(st.sampled_from(renderer_names())),
        start,
        [draw(st.sampled_from(REPLIES)) for _ in range(turns)],
        [(draw(fragments), draw(st.sampled_from(ENDS))) for _ in range(turns)],
        draw(st.booleans()),
    )


def attempt(
    adapter: type[EnvFromMessageEnv],
    renderer: Any,
    start: Sequence[Any],
    replies: Sequence[Any],
    answers: Sequence[Any],
    **limits: Any,
) -> Any:
    """A scripted rollout and its messages, or the error it ended with."""
    try:
        fresh = [dict(message) for message in start]
        return replay(renderer, fresh, replies, answers, adapter=adapter, **limits)
    except Exception as error:  # whatever a parser or renderer raises
        return error


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scripts())
def test_any_rollout_keeps_its_tokens_or_is_the_cookbooks(
    script: tuple[str, list[Any], list[Any], list[tuple[str, str]], bool],
) -> None:
    name, start, replies, texts, forgiving = script
    renderer = renderer_of(name)
    answers = [with_end(renderer, text, end) for text, end in texts]
    answers += [with_end(renderer, "13", "own")] * 9  # unread answers use up no reply
    limits = {"terminate_on_length": False, "terminate_on_parse_error": not forgiving}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # renderers warn of tool messages and system prompts
        mine = attempt(TokenPreservingEnv, renderer, start, replies, answers, **limits)
        plain = attempt(EnvFromMessageEnv, renderer, start, replies, answers, **limits)
    if isinstance(plain, Exception):
        assert (type(mine), str(mine)) == (type(plain), str(plain))
        return
    assert not isinstance(mine, Exception), mine
    (kept, my_script), (rendered, plain_script) = mine, plain
    assert my_script.seen == plain_script.seen
    assert len(kept.transitions) == len(rendered.transitions)
    assert kept.stop_reason == rendered.stop_reason
    for turn, (now, other) in enumerate(zip(kept.transitions, rendered.transitions, strict=True)):
        assert (now.reward, now.episode_done) == (other.reward, other.episode_done)
        own = {key: now.metrics[key] for key in now.metrics if key != FALLBACK_METRIC}
        assert own == other.metrics
        if now.episode_done:
            break
        after, fresh = kept.transitions[turn + 1].ob, rendered.transitions[turn + 1].ob
        if now.metrics[FALLBACK_METRIC]:
            assert now.logs[REASON_LOG]
            assert after == fresh
            continue
        running = [*model_input_to_elements(now.ob), *now.ac.tokens]
        prompt = model_input_to_elements(after)
        assert prompt[: len(running)] == running
        decode = renderer.tokenizer.decode
        tail = str(decode(prompt[len(running) :]))
        assert str(decode(model_input_to_elements(fresh))).endswith(tail)
        end = family_of(name).end
        assert not (end and str(decode(now.ac.tokens)).endswith(end) and tail.startswith(end))
        stops = renderer.get_stop_sequences()
        first = prompt[len(running) : len(running) + 1]
        assert now.ac.tokens[-1:] != first or now.ac.tokens[-1:] == [] or first[0] not in stops


def two_answers(renderer: Any) -> list[tuple[list[int], str]]:
    return [
        with_end(renderer, text, "own") for text in ("<think>\nHm.\n</think>\n\n13", "26", "52")
    ]


START = [{"role": "user", "content": "6 + 7?"}]
FOLLOW = [[{"role": "user", "content": "Twice?"}], [{"role": "user", "content": "Twice?"}], []]


def test_budgets_end_the_episode_as_in_the_cookbook() -> None:
    renderer = renderer_of("qwen3")
    for budget in range(10, 80):
        kept, _ = replay(
            renderer,
            START,
            FOLLOW,
            two_answers(renderer),
            max_trajectory_tokens=budget,
            max_generation_tokens=10,
        )
        for turn in kept.transitions[:-1]:
            assert not turn.metrics.get("context_overflow")
        for turn in kept.transitions:
            assert turn.ob.length + 10 <= budget or not turn.ac.tokens
        last = kept.transitions[-1]
        if last.metrics.get("context_overflow"):
            assert (last.reward, kept.stop_reason) == (-0.1, "context_overflow")


class Nudge(RolloutHooks):
    """Puts a message in before the second answer; clears what would stop the rollout."""

    def __init__(self, before: int = 2) -> None:
        self.turns = 0
        self.before = before

    async def on_turn_begin(self, state: Any) -> list[Message] | None:
        self.turns += 1
        return [Message(role="user", content="Be brief!")] if self.turns == self.before else None

    async def on_stop_reason(self, reason: str, state: Any) -> str | None:
        return None


@pytest.mark.parametrize(
    "name", ["qwen3", "gpt_oss_no_sysprompt", "role_colon", "tml_v0", "kimi_k2"]
)
def test_injected_messages_stand_behind_the_running_sequence(name: str) -> None:
    renderer = renderer_of(name)
    form = "<|message_model|><|content_text|>{}<|end_message|>" if name == "tml_v0" else "{}"
    answers = [with_end(renderer, form.format(text), "own") for text in ("13", "26", "52")]
    script = ScriptEnv(START, FOLLOW)
    env = TokenPreservingEnv(renderer, script)
    trajectory = wait_for_cookbook(run_rollout(Replay(answers), env, hooks=Nudge()))
    first, second = trajectory.transitions[:2]
    running = [*first.ob.to_ints(), *first.ac.tokens]
    assert second.ob.to_ints()[: len(running)] == running
    tail = str(renderer.tokenizer.decode(second.ob.to_ints()[len(running) :]))
    fresh = renderer.build_generation_prompt(script.seen[2]).to_ints()
    assert script.seen[2][-1]["content"] == "Be brief!"
    assert str(renderer.tokenizer.decode(fresh)).endswith(tail)
    assert tail.count("Be brief!") == tail.count("Twice?") == 1
    assert len(trajectory_to_data(trajectory, 1.0)) == 1


class Edited(ScriptEnv):
    """Changes the first message when others are put in."""

    async def add_messages(self, messages: list[Message]) -> list[Message]:
        self.messages[0] = {"role": "user", "content": "7 + 8?"}
        return await super().add_messages(messages)


@pytest.mark.parametrize("turns", [2, 3])
@pytest.mark.parametrize("before", [1, 2])
def test_a_prompt_rendered_anew_for_injected_messages_is_on_record(turns: int, before: int) -> None:
    """The record stands at the step whose next prompt was rendered, also behind the last but one.

    Messages put in before the first answer change a prompt that continues nothing.
    """
    renderer = renderer_of("qwen3_disable_thinking")
    answers = [with_end(renderer, text, "own") for text in ("13", "26", "52")[:turns]]
    env = TokenPreservingEnv(renderer, Edited(START, FOLLOW[:turns]))
    trajectory = wait_for_cookbook(run_rollout(Replay(answers), env, hooks=Nudge(before)))
    recorded = [turn.metrics.get(FALLBACK_METRIC) for turn in trajectory.transitions]
    assert recorded == [float(before == 2), *[0.0] * (turns - 2), None]
    assert len(trajectory_to_data(trajectory, 1.0)) == before
    if before == 2:
        assert fallbacks(trajectory) == ["the environment changed earlier messages"]


@pytest.mark.parametrize("before", [2, 9])
def test_an_answer_that_was_cut_and_a_stop_that_a_hook_clears(before: int) -> None:
    """The cookbook goes on with an empty prompt, or with what was put in, then renders all."""
    renderer = renderer_of("qwen3_disable_thinking")
    answers = [with_end(renderer, "13", end) for end in ("cut", "own", "own", "own")]
    trajectories = []
    for adapter in (TokenPreservingEnv, EnvFromMessageEnv):
        env = adapter(renderer, ScriptEnv(START, FOLLOW))
        trajectories.append(
            wait_for_cookbook(run_rollout(Replay(answers), env, hooks=Nudge(before)))
        )
    kept, plain = trajectories
    prompts, fresh = (
        [model_input_to_elements(turn.ob) for turn in part.transitions[:before]]
        for part in (kept, plain)
    )
    assert prompts[:3] == fresh[:3]
    assert [turn.metrics.get(FALLBACK_METRIC) for turn in kept.transitions] == (
        [1, 0, 0, None] if before == 2 else [None, 1, 0, None]
    )


def change_arguments(messages: list[Any], answer: Any) -> list[Any]:
    messages[1]["tool_calls"][0].function.arguments = '{"a": 7}'
    return [*messages, answer, {"role": "user", "content": "And?"}]


def change_name(messages: list[Any], answer: Any) -> list[Any]:
    messages[1]["tool_calls"][0].function.name = "sub"
    return [*messages, answer, {"role": "user", "content": "And?"}]


@pytest.mark.parametrize("change", [change_arguments, change_name])
def test_a_call_of_an_earlier_answer_that_is_changed_in_place_is_seen(change: Any) -> None:
    renderer = renderer_of("qwen3_disable_thinking")
    written = '<tool_call>\n{"name": "add", "arguments": {"a": 6}}\n</tool_call>'
    result = {"role": "tool", "name": "add", "tool_call_id": "", "content": "13"}
    answers = [with_end(renderer, text, "own") for text in (written, "13", "26")]
    trajectory, script = replay(renderer, START, [[result], change, []], answers)
    assert script.messages[1]["tool_calls"]
    recorded = [turn.metrics.get(FALLBACK_METRIC) for turn in trajectory.transitions]
    assert recorded == [0, 1, None]
    fresh = renderer.build_generation_prompt(script.seen[2])
    assert trajectory.transitions[2].ob == fresh


def keep_image(messages: list[Any], answer: Any) -> list[Any]:
    return [*messages, answer, {"role": "user", "content": "And?"}]


def draw_over(messages: list[Any], answer: Any) -> list[Any]:
    messages[0]["content"][0]["image"].paste("red", (0, 0, 28, 28))
    return keep_image(messages, answer)


def other_image(messages: list[Any], answer: Any) -> list[Any]:
    picture = {"type": "image", "image": Image.new("RGB", (56, 56), "red")}
    return keep_image([{"role": "user", "content": [picture]}, *messages[1:]], answer)


def same_image_anew(messages: list[Any], answer: Any) -> list[Any]:
    picture = {"type": "image", "image": Image.new("RGB", (56, 56), "white")}
    return keep_image([{"role": "user", "content": [picture]}, *messages[1:]], answer)


@pytest.mark.parametrize(
    ("change", "anew"),
    [(keep_image, 0), (same_image_anew, 0), (draw_over, 1), (other_image, 1)],
)
@pytest.mark.parametrize("name", ["qwen3_vl_instruct", "kimi_k25"])
def test_an_earlier_image_is_kept_or_its_change_is_on_record(
    name: str, change: Any, anew: int
) -> None:
    renderer = renderer_of(name)
    picture = {"type": "image", "image": Image.new("RGB", (56, 56), "white")}
    start = [{"role": "user", "content": [picture]}]
    answers = [with_end(renderer, "<think>Hm.</think>13", "own") for _ in range(3)]
    trajectory, script = replay(renderer, start, [keep_image, change, []], answers)
    recorded = [turn.metrics.get(FALLBACK_METRIC) for turn in trajectory.transitions]
    assert recorded == [0, anew, None], fallbacks(trajectory)
    assert len(trajectory_to_data(trajectory, 1.0)) == 1 + anew
    prompt, fresh = (
        [element for element in model_input_to_elements(ob) if not isinstance(element, int)]
        for ob in (trajectory.transitions[2].ob, renderer.build_generation_prompt(script.seen[2]))
    )
    assert len(prompt) == 1
    assert prompt == fresh


@pytest.mark.parametrize("form", [tuple, iter])
def test_messages_may_come_in_any_form_that_the_renderer_reads(form: Any) -> None:
    class Formed(ScriptEnv):
        async def initial_observation(self) -> list[Message]:
            return form(await super().initial_observation())  # type: ignore[no-any-return]

        async def step(self, message: Message) -> MessageStepResult:
            result = await super().step(message)
            return replace(result, next_messages=form(result.next_messages))

    renderer = renderer_of("qwen3")
    listed, _ = replay(renderer, START, FOLLOW, two_answers(renderer))
    env = TokenPreservingEnv(renderer, Formed(START, FOLLOW))
    formed = wait_for_cookbook(do_single_rollout(Replay(two_answers(renderer)), env))
    assert [turn.ob for turn in formed.transitions] == [turn.ob for turn in listed.transitions]
    assert len(trajectory_to_data(formed, 1.0)) == 1


def test_a_parse_policy_is_handed_on() -> None:
    renderer = renderer_of("qwen3")
    policy = ParseErrorPolicy(terminal_reward=-0.7, mask_error_turns=True)
    answers = [with_end(renderer, "13", "own"), with_end(renderer, "26", "none")]
    trajectory, _ = replay(renderer, START, FOLLOW, answers, parse_error_policy=policy)
    assert [turn.reward for turn in trajectory.transitions] == [0.5, -0.7]
    assert trajectory.stop_reason == "parse_error"
    assert trajectory.transitions[1].metrics["parse_error_masked"] == 1


def test_an_unread_answer_leaves_the_prompt_empty_and_the_next_one_rendered() -> None:
    renderer = renderer_of("qwen3")
    answers = [with_end(renderer, "13", end) for end in ("none", "own", "own", "own")]
    trajectory, _ = replay(renderer, START, FOLLOW, answers, terminate_on_parse_error=False)
    assert trajectory.transitions[1].ob.length == 0
    recorded = [turn.metrics.get(FALLBACK_METRIC) for turn in trajectory.transitions]
    assert recorded == [1, 1, 0, None]  # behind the last answer there is no prompt


def test_a_call_without_text_has_no_end_in_deepseeks_history() -> None:
    """DeepSeek V3's renderer ends no answer that is only a call; the sampled end stays."""
    renderer = renderer_of("deepseekv3")
    bar, gap = "\uff5c", "\u2581"
    begin, sep, end = (
        f"<{bar}tool{gap}{part}{bar}>" for part in (f"call{gap}begin", "sep", f"call{gap}end")
    )
    calls = f"<{bar}tool{gap}calls{gap}begin{bar}>", f"<{bar}tool{gap}calls{gap}end{bar}>"
    text = f'{calls[0]}{begin}add{sep}{{"a": 6}}{end}{calls[1]}'
    result = {"role": "tool", "name": "add", "tool_call_id": "", "content": "13"}
    answers = [with_end(renderer, text, "own"), with_end(renderer, "13", "own")]
    trajectory, script = replay(renderer, START, [[result], []], answers)
    assert script.messages[1]["tool_calls"][0].function.name == "add"
    first, second = trajectory.transitions
    assert first.metrics[FALLBACK_METRIC] == 0
    running = [*first.ob.to_ints(), *first.ac.tokens]
    assert second.ob.to_ints()[: len(running)] == running
    tail = str(renderer.tokenizer.decode(second.ob.to_ints()[len(running) :]))
    assert tail == f"<{bar}tool{gap}output{gap}begin{bar}>13<{bar}tool{gap}output{gap}end{bar}>"


# --- in use: an environment of one's own, a group, a recipe --------------------------------------


class Sums(MessageEnv):
    """Asks small sums; each right answer earns a point."""

    def __init__(self, sums: Sequence[tuple[int, int]]) -> None:
        self.sums = list(sums)
        self.messages: list[Message] = []

    async def initial_observation(self) -> list[Message]:
        left, right = self.sums[0]
        self.messages += [{"role": "user", "content": f"What is {left} + {right}?"}]
        return list(self.messages)

    async def step(self, message: Message) -> MessageStepResult:
        self.messages += [message]
        right = str(sum(self.sums.pop(0))) in get_text_content(message)
        done = not self.sums
        seen = list(self.messages) if done else await self.initial_observation()
        return MessageStepResult(reward=float(right), episode_done=done, next_messages=seen)


@dataclass(frozen=True)
class SumsGroup(EnvGroupBuilder):
    """A builder as recipes write them: it knows nothing of kept tokens."""

    renderer: Any
    size: int = 2

    async def make_envs(self) -> list[Env]:
        sums = [(2, 3), (5, 3), (8, 7)]
        return [EnvFromMessageEnv(self.renderer, Sums(sums)) for _ in range(self.size)]

    async def compute_group_rewards(
        self, trajectory_group: list[Trajectory], env_group: Sequence[Env]
    ) -> list[tuple[float, Any]]:
        return [(float(at), {"place": at}) for at in range(len(trajectory_group))]

    def logging_tags(self) -> list[str]:
        return ["sums"]


def test_an_environment_of_ones_own_gives_one_datum() -> None:
    renderer = renderer_of("qwen3")
    policy = ScriptedPolicy(renderer, "reasoning")
    sums = [(2, 3), (5, 3), (8, 7)]
    kept = wait_for_cookbook(do_single_rollout(policy, TokenPreservingEnv(renderer, Sums(sums))))
    plain = wait_for_cookbook(do_single_rollout(policy, EnvFromMessageEnv(renderer, Sums(sums))))
    assert [turn.reward for turn in kept.transitions] == [1.0, 1.0, 1.0]
    assert len(trajectory_to_data(kept, 1.0)) == 1
    assert len(trajectory_to_data(plain, 1.0)) == 3


def test_a_builder_is_wrapped_and_stays_the_builders_own() -> None:
    renderer = get_renderer("qwen3", offline_vocabulary(), model_name=OFFLINE_VOCABULARY)
    builder = pickle.loads(pickle.dumps(TokenPreservingBuilder(SumsGroup(renderer))))
    policy = ScriptedPolicy(renderer, "reasoning")
    group = wait_for_cookbook(do_group_rollout(builder, policy))
    assert [len(trajectory_to_data(part, 1.0)) for part in group.trajectories_G] == [1, 1]
    assert group.get_total_rewards() == [3.0, 4.0]
    assert group.metrics_G == [{"place": 0}, {"place": 1}]
    assert builder.logging_tags() == ["sums"]
    plain = wait_for_cookbook(do_group_rollout(SumsGroup(renderer), policy))
    assert [len(trajectory_to_data(part, 1.0)) for part in plain.trajectories_G] == [3, 3]


def test_an_environment_with_ways_of_its_own_is_not_wrapped() -> None:
    class Own(EnvFromMessageEnv):
        pass

    with pytest.raises(TypeError, match="Own is not an EnvFromMessageEnv; let its class inherit"):
        TokenPreservingEnv.of(Own(renderer_of("qwen3"), Sums([(1, 2)])))


def test_the_readmes_lines_run() -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    (lines,) = (
        block for block in re.findall(r"```python\n(.*?)```", readme, re.S) if "TokenPres" in block
    )
    renderer = renderer_of("qwen3")
    known: dict[str, Any] = {
        "renderer": renderer,
        "policy": ScriptedPolicy(renderer, "reasoning"),
        "message_env": Sums([(2, 3), (5, 3), (8, 7)]),
        "recipe_builder": SumsGroup(renderer),
        "do_single_rollout": do_single_rollout,
        "do_group_rollout": do_group_rollout,
        "trajectory_to_data": trajectory_to_data,
        "advantage": 1.0,
    }
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    exec(f"async def main():\n{body}    return group, data", known)
    group, data = wait_for_cookbook(known["main"]())
    assert len(data) == 1
    assert [len(trajectory_to_data(part, 1.0)) for part in group.trajectories_G] == [1, 1]


class Calculator:
    @tool
    async def add(self, a: int, b: int) -> ToolResult:
        """Adds two numbers."""
        return simple_tool_result(str(a + b))


async def no_reward(messages: list[Message]) -> tuple[float, dict[str, float]]:
    return 1.0, {}


@dataclass(frozen=True)
class ToolGroup(EnvGroupBuilder):
    """As the cookbook's tool recipes make theirs."""

    renderer: Any

    async def make_envs(self) -> list[Env]:
        add = Calculator().add
        prefix = self.renderer.create_conversation_prefix_with_tools([add.to_spec()])
        start = [*prefix, Message(role="user", content="6 + 7, then twice that?")]
        return [build_agent_tool_env(self.renderer, [add], start, no_reward, max_turns=4)]


@pytest.mark.parametrize(
    "name", [name for name in renderer_names() if not name.startswith(("role_colon", "llama3"))]
)
def test_the_cookbooks_tool_environment_keeps_its_tokens(name: str) -> None:
    renderer = renderer_of(name)
    builder = ToolGroup(renderer)
    (env,) = wait_for_cookbook(builder.make_envs())
    messages = wait_for_cookbook(env.message_env.initial_observation())
    answers = []
    for arguments in ('{"a": 6, "b": 7}', '{"a": 13, "b": 13}', None):
        answer: dict[str, Any] = {"role": "assistant", "content": "I add." if arguments else "26"}
        if arguments:
            answer["tool_calls"] = [call("add", arguments, 0)]
        answers.append((sampled(renderer, name, messages, answer), "stop"))
    group = wait_for_cookbook(do_group_rollout(TokenPreservingBuilder(builder), Replay(answers)))
    (trajectory,) = group.trajectories_G
    assert len(trajectory.transitions) == 3
    assert fallbacks(trajectory) == []
    assert len(trajectory_to_data(trajectory, 1.0)) == 1
    read = str(renderer.tokenizer.decode(trajectory.transitions[2].ob.to_ints()))
    assert "26" in read.rpartition("13")[2]  # the tool's second answer


@pytest.mark.parametrize("name", ["qwen3", "gpt_oss_no_sysprompt", "tml_v0"])
def test_a_step_renders_the_conversation_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is rendered besides is as long as the new messages, whatever came before."""
    renderer = renderer_of(name)
    write, lengths = renderer.build_generation_prompt, []

    def counting(messages: Any, **options: Any) -> Any:
        prompt = write(messages, **options)
        lengths.append(prompt.length)
        return prompt

    turns = 12
    message = {"role": "user", "content": "What is 6 + 7, and what is twice that? " * 4}
    answer = {"role": "assistant", "content": "It is 13, and twice that is 26. " * 4}
    action = sampled(renderer, name, [message], answer)
    spent = []

    class Watched(ScriptEnv):
        async def step(self, given: Message) -> MessageStepResult:
            spent.append(sum(lengths[1:]))  # the first is the whole conversation
            lengths.clear()
            return await super().step(given)

    monkeypatch.setattr(renderer, "build_generation_prompt", counting)
    env = TokenPreservingEnv(renderer, Watched([message], [[message]] * turns))
    trajectory = wait_for_cookbook(do_single_rollout(Replay([(action, "stop")] * turns), env))
    assert fallbacks(trajectory) == []
    assert len(set(spent[2:])) == 1
    assert spent[-1] < 3 * trajectory.transitions[0].ob.length
