"""Room: environment. Real renderers, the real `EnvFromMessageEnv` and `do_single_rollout`.

Invariants
1. A chat marker is one id, text is the same text after encode and decode.
2. Every renderer name of the installed cookbook builds, or says why in one sentence.
3. What a scripted pupil says, its renderer reads back as meant.
4. An episode is decided by its spec: tokens, logprobs, rewards.
5. Every ending of `EnvFromMessageEnv` is reached, with the rewards, metrics and stop reason
   that the cookbook gives it, and is explained from the trajectory.
6. The code shown in the page is the code that runs.
"""

import ast
import asyncio
import concurrent.futures
import copy
import inspect
import math
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tinker
from rollouts import episode_of
from tinker_cookbook import renderers
from tinker_cookbook.renderers import get_text_content
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy

from sequence_extension.cookbook import (
    TokenCompleter,
    TokensWithLogprobs,
    wait_for,
)
from sequence_extension.diagnosis import diagnose
from sequence_extension.env import tutor
from sequence_extension.env.endings import endings_table, explain_ending, turn_facts
from sequence_extension.env.episodes import (
    Episode,
    EpisodeSpec,
    Line,
    episode_presets,
    play_episode,
    run_episodes,
    spec_of,
)
from sequence_extension.env.policies import ScriptedPolicy
from sequence_extension.env.renderers import build_renderer, renderer_names
from sequence_extension.env.tutor import TutorEnv
from sequence_extension.env.vocabulary import (
    chat_markers,
    load_vocabulary,
    offline_tokenizer,
)
from sequence_extension.page.episodes import transcript, tutor_code
from sequence_extension.tokenizers import token_texts


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return offline_tokenizer()


# --- vocabulary ------------------------------------------------------------------------------


def test_every_marker_is_one_id_and_no_two_share_it(tokenizer: Any) -> None:
    markers = chat_markers()
    assert {"<|im_start|>", "<|eot_id|>", "<think>", "</think>", "[gMASK]"} <= set(markers)
    ids = [tokenizer.encode(marker) for marker in markers]
    assert all(len(tokens) == 1 for tokens in ids)
    assert len({tokens[0] for tokens in ids}) == len(markers)
    assert [tokenizer.decode(tokens) for tokens in ids] == markers
    assert tokenizer.convert_tokens_to_ids(markers) == [tokens[0] for tokens in ids]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        " 12 + 7\n\n",
        "a<think>\nb</think><|im_end|>",
        "<|no_marker|> <im_end>",
        "☃ 日本 🤦",
    ],
)
def test_text_survives_encode_and_decode(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode(text, split_special_tokens=True)) == text


def test_split_special_tokens_splits_markers_and_keeps_tags(tokenizer: Any) -> None:
    assert len(tokenizer.encode("<|im_end|>", split_special_tokens=True)) > 1
    assert len(tokenizer.encode("<think>", split_special_tokens=True)) == 1


def test_a_copied_backend_encodes_content_literally(tokenizer: Any) -> None:
    text = "<think>a</think><|im_end|>"
    content = copy.deepcopy(tokenizer.backend_tokenizer)
    assert content.encode(text, add_special_tokens=False).ids == tokenizer.encode(text)
    content.encode_special_tokens = True
    literal = tokenizer.encode(text, split_special_tokens=True)
    assert content.encode(text).ids == literal != tokenizer.encode(text)
    assert not tokenizer.backend_tokenizer.encode_special_tokens  # the original is untouched
    assert content.owner is tokenizer


def test_one_tokenizer_for_the_whole_process(tokenizer: Any) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert {id(each) for each in pool.map(lambda _: offline_tokenizer(), range(8))} == {
            id(tokenizer)
        }


def test_token_texts_show_specials_and_byte_fragments(tokenizer: Any) -> None:
    tokens = tokenizer.encode("é<|im_end|>🤦")
    texts = token_texts(tokenizer, [*tokens, *tokens, 10**9])
    assert set(texts) == set(tokens)  # an id outside the vocabulary has no text
    assert "<|im_end|>" in texts.values()
    assert not any("\ufffd" in text for text in texts.values())
    assert any(text.startswith("\udcf0\udc9f") for text in texts.values())


# --- renderers -------------------------------------------------------------------------------


def test_renderer_names_come_from_the_installed_cookbook() -> None:
    names = renderer_names()
    assert len(names) == len(set(names)) >= 43
    assert {"role_colon", "llama3", "qwen3", "gpt_oss_no_sysprompt", "tml_v0"} <= set(names)
    nothing: Any = None  # only the name is looked at
    renderers.register_renderer("mine", lambda tokenizer, image_processor: nothing)
    try:
        assert renderer_names() == [*names, "mine"]
    finally:
        renderers.unregister_renderer("mine")


def test_every_renderer_builds_or_says_why(tokenizer: Any) -> None:
    reasons = {}
    for name in renderer_names():
        renderer, reason = build_renderer(name, tokenizer)
        assert (renderer is None) == bool(reason), name
        if renderer is None:
            reasons[name] = reason
    assert reasons == {}  # 0.5.8: all of them


def test_a_renderer_that_cannot_be_built_gives_one_sentence(tokenizer: Any) -> None:
    renderer, reason = build_renderer("no_such", tokenizer)
    assert renderer is None
    assert reason.startswith("no_such cannot be built on this vocabulary: Unknown renderer")
    assert "\n" not in reason


# --- policies --------------------------------------------------------------------------------


def first_prompt(renderer: Any, sums: int = 1) -> tinker.ModelInput:
    """A conversation that has come to its `sums`-th question: 3 + 4."""
    messages: list[Any] = []
    for left in range(4 - sums, 3):
        messages.append({"role": "user", "content": f"What is {left} + 4?"})
        messages.append({"role": "assistant", "content": f"It is {left + 4}."})
    messages.append({"role": "user", "content": "What is 3 + 4?"})
    prompt: tinker.ModelInput = renderer.build_generation_prompt(messages)
    return prompt


def sample(renderer: Any, behaviour: str, sums: int = 1, limit: int = 64, **more: Any) -> Any:
    policy = ScriptedPolicy(renderer, behaviour, max_tokens=limit, **more)
    return asyncio.run(policy(first_prompt(renderer, sums), renderer.get_stop_sequences()))


@pytest.fixture(scope="module")
def built(tokenizer: Any) -> dict[str, Any]:
    """Every renderer of the installed cookbook."""
    return {name: build_renderer(name, tokenizer)[0] for name in renderer_names()}


def test_plain_and_reasoning_answers_read_back(built: dict[str, Any]) -> None:
    for name, renderer in built.items():
        for behaviour in ("plain", "empty_reasoning", "reasoning"):
            message, termination = renderer.parse_response(sample(renderer, behaviour).tokens)
            assert termination.is_clean, (name, behaviour)
            assert get_text_content(message).rstrip().endswith("It is 7."), (name, behaviour)
            whole = str(message["content"])
            assert ("3 and 4 make 7." in whole) == (behaviour == "reasoning"), (name, behaviour)
            assert "unparsed_tool_calls" not in message


def test_reasoning_is_a_part_of_its_own_where_the_family_has_one(built: dict[str, Any]) -> None:
    as_text = set()
    for name, renderer in built.items():
        message, _ = renderer.parse_response(sample(renderer, "reasoning").tokens)
        if isinstance(message["content"], str):
            as_text.add(name)
    assert as_text == {"role_colon", "llama3"}


def test_plain_answers_hold_no_block_that_the_prompt_did_not_open(
    built: dict[str, Any], tokenizer: Any
) -> None:
    for name, renderer in built.items():
        said = tokenizer.decode(sample(renderer, "plain").tokens)
        prompt = tokenizer.decode(first_prompt(renderer).to_ints())
        opened = prompt.rstrip().endswith("<think>")
        assert "<think>" not in said, name
        assert ("</think>" in said) == opened, name


def test_respelled_is_the_same_text_in_other_tokens(built: dict[str, Any], tokenizer: Any) -> None:
    for name, renderer in built.items():
        plain = sample(renderer, "plain").tokens
        other = sample(renderer, "respelled").tokens
        assert other != plain, name
        assert tokenizer.decode(other) == tokenizer.decode(plain), name
        assert renderer.parse_response(other) == renderer.parse_response(plain), name


def test_white_space_is_added_and_left_out(built: dict[str, Any], tokenizer: Any) -> None:
    shortened = set()
    for name, renderer in built.items():
        plain = tokenizer.decode(sample(renderer, "plain").tokens)
        padded = tokenizer.decode(sample(renderer, "whitespace").tokens)
        assert padded == plain.replace("It is 7.", " It is 7.\n"), name
        bare = tokenizer.decode(sample(renderer, "no_space").tokens)
        assert bare in (plain, plain.removeprefix(" ")), name
        if bare != plain:
            shortened.add(name)
    assert shortened == {"role_colon"}


def test_other_end_is_another_clean_end_where_there_are_two(built: dict[str, Any]) -> None:
    changed = set()
    for name, renderer in built.items():
        plain = sample(renderer, "plain").tokens
        other = sample(renderer, "other_end").tokens
        message, termination = renderer.parse_response(other)
        assert termination.is_clean, name
        assert get_text_content(message).strip() == "It is 7.", name
        if other != plain:
            changed.add(name.split("_")[0])
            assert other[-1] != plain[-1]
    assert changed == {"role", "glm5", "gpt"}


def test_the_second_answer_lacks_its_end_token(built: dict[str, Any], tokenizer: Any) -> None:
    for name, renderer in built.items():
        assert sample(renderer, "no_end").tokens == sample(renderer, "plain").tokens
        cut = sample(renderer, "no_end", sums=2)
        whole = tokenizer.decode(sample(renderer, "plain", sums=2).tokens)
        said = tokenizer.decode(cut.tokens)
        assert cut.stop_reason == "stop"
        assert said != whole, name
        assert whole.startswith(said), name
        assert not renderer.parse_response(cut.tokens)[1].is_clean, name


@pytest.mark.parametrize("limit", [1, 5, 40])
def test_rambling_is_cut_at_the_smaller_limit(built: dict[str, Any], limit: int) -> None:
    renderer = built["qwen3"]
    assert sample(renderer, "cut", limit=40).stop_reason == "stop"
    cut = sample(renderer, "cut", sums=2, limit=limit)
    assert (cut.stop_reason, len(cut.tokens), len(cut.logprobs)) == ("length", limit, limit)
    policy = ScriptedPolicy(renderer, "cut", max_tokens=limit)
    called = asyncio.run(policy(first_prompt(renderer, 2), [], max_tokens=3))
    assert len(called.tokens) == min(limit, 3)


def test_an_answer_of_exactly_the_limit_is_not_cut(built: dict[str, Any]) -> None:
    whole = sample(built["qwen3"], "plain")
    exact = sample(built["qwen3"], "plain", limit=len(whole.tokens))
    assert (exact.tokens, exact.stop_reason) == (whole.tokens, "stop")
    short = sample(built["qwen3"], "plain", limit=len(whole.tokens) - 1)
    assert (short.tokens, short.stop_reason) == (whole.tokens[:-1], "length")


def test_every_second_sum_is_wrong(built: dict[str, Any]) -> None:
    for sums, said in ((1, "It is 7."), (2, "It is 8."), (3, "It is 7.")):
        message, _ = built["llama3"].parse_response(sample(built["llama3"], "wrong", sums).tokens)
        assert message["content"] == said


def test_a_broken_tool_call_is_a_content_failure(built: dict[str, Any]) -> None:
    for name in ("qwen3", "qwen3_5", "nemotron3", "glm5_3_low_reasoning"):
        message, termination = built[name].parse_response(
            sample(built[name], "broken_call", sums=2).tokens
        )
        assert termination.is_clean
        assert len(message["unparsed_tool_calls"]) == 1, name


def test_logprobs_are_plausible_and_decided_by_the_seed(built: dict[str, Any]) -> None:
    one, again, other = (
        sample(built["qwen3"], "reasoning", seed=seed).logprobs for seed in (0, 0, 1)
    )
    assert one == again != other
    assert all(math.isfinite(value) and value < 0 for value in one)
    assert len(set(one)) > len(one) // 2


def test_without_a_sum_in_the_prompt_the_pupil_asks(built: dict[str, Any]) -> None:
    for renderer in built.values():
        policy = ScriptedPolicy(renderer)
        answer = asyncio.run(policy(tinker.ModelInput.empty(), []))
        assert "Which sum?" in get_text_content(renderer.parse_response(answer.tokens)[0])


# --- episodes: known truths of cookbook 0.5.8 ------------------------------------------------


@pytest.mark.parametrize(
    ("renderer", "policy", "datums"),
    [
        ("qwen3", "plain", 1),
        ("qwen3", "reasoning", 3),
        ("llama3", "plain", 1),
        ("llama3", "reasoning", 1),
        ("role_colon", "plain", 1),
        ("role_colon", "no_space", 3),
        ("qwen3_5", "reasoning", 3),
        ("qwen3_5_preserve_thinking", "reasoning", 1),
        ("gpt_oss_no_sysprompt", "plain", 3),
        ("glm5_3_low_reasoning", "plain", 1),
        ("glm5_3_low_reasoning", "other_end", 3),
        ("llama3", "respelled", 3),
        ("tml_v0", "reasoning", 1),
    ],
)
def test_datums_of_three_questions(renderer: str, policy: str, datums: int) -> None:
    episode = episode_of(EpisodeSpec(renderer, policy))
    assert episode.rewards == [1.0, 1.0, 1.0]
    assert len(trajectory_to_data(episode.rollout.trajectory, 1.0)) == datums


def test_the_spec_decides_the_episode() -> None:
    def facts(spec: Any) -> list[Any]:
        episode = episode_of(spec)
        return [
            (t.ob.to_ints(), t.ac.tokens, t.ac.logprobs, t.reward, t.metrics)
            for t in episode.rollout.trajectory.transitions
        ]

    spec = EpisodeSpec("qwen3", "reasoning", turns=4, seed=3)
    assert facts(spec) == facts(spec)
    assert facts(spec) != facts(EpisodeSpec("qwen3", "reasoning", turns=4, seed=4))
    assert len(facts(spec)) == 4


def test_many_episodes_are_the_single_ones() -> None:
    specs = [EpisodeSpec("qwen3", "plain"), EpisodeSpec("no_such"), EpisodeSpec("llama3")]
    first, none, last = run_episodes(specs)
    assert isinstance(none, str)
    assert "Unknown renderer" in none
    for spec, episode in ((specs[0], first), (specs[2], last)):
        assert not isinstance(episode, str)
        alone = episode_of(spec)
        assert isinstance(episode, Episode)
        assert alone.rollout.trajectory == episode.rollout.trajectory
        assert alone.lines == episode.lines
    with pytest.raises(ValueError, match="no_such cannot be built"):
        episode_of(specs[1])


def test_episodes_run_inside_a_running_event_loop() -> None:
    async def cell() -> Any:
        return episode_of(EpisodeSpec("llama3", "plain"))

    assert asyncio.run(cell()).stop_reason == "completed"


def test_every_sampled_token_has_a_text(tokenizer: Any) -> None:
    episode = episode_of(EpisodeSpec("qwen3", "reasoning"))
    for transition in episode.rollout.trajectory.transitions:
        tokens = [*transition.ob.to_ints(), *transition.ac.tokens]
        text = "".join(episode.rollout.vocab[token] for token in tokens)
        assert text == tokenizer.decode(tokens)


def test_the_transcript_tells_each_turn_once() -> None:
    episode = episode_of(EpisodeSpec("llama3", "plain", turns=2))
    first, second = TutorEnv(0, 2).sums
    assert [(line.turn, line.role, line.text) for line in episode.lines] == [
        (0, "tutor", f"What is {first[0]} + {first[1]}?"),
        (0, "pupil", f"It is {sum(first)}.<|eot_id|>"),
        (1, "tutor", f"Right. What is {second[0]} + {second[1]}?"),
        (1, "pupil", f"It is {sum(second)}.<|eot_id|>"),
        (1, "tutor", "Right. Well done."),
    ]


def test_the_transcript_escapes_what_was_sampled() -> None:
    episode = episode_of(EpisodeSpec("llama3", "plain", turns=1))
    nasty = Line(0, "pupil", "<img src=x onerror=alert(1)>\u202e</li>")
    shown = transcript(replace(episode, lines=(nasty,)), diagnose(episode.rollout).spans).text
    assert "<img" not in shown
    assert "&lt;img src=x onerror=alert(1)&gt;\\u202e&lt;/li&gt;" in shown


# --- endings ---------------------------------------------------------------------------------

FORGIVING = ParseErrorPolicy(
    max_consecutive=1, penalty_per_error=0.2, terminal_reward=-0.5, mask_error_turns=True
)


def play(renderer: str, policy: str, **more: Any) -> Any:
    return episode_of(EpisodeSpec(renderer, policy, **more))


def lengths(episode: Any) -> list[tuple[int, int]]:
    return [(t.ob.length, len(t.ac.tokens)) for t in episode.rollout.trajectory.transitions]


def test_ending_done() -> None:
    episode = play("llama3", "wrong", turns=4)
    assert episode.stop_reason == "completed"
    assert episode.rewards == [1.0, 0.0, 1.0, 0.0]
    assert episode.metrics == [
        {"correct": 1.0},
        {"correct": 0.0},
        {"correct": 1.0},
        {"correct": 0.0, "stop/completed": 1.0},
    ]
    assert explain_ending(episode) == (
        "The tutor ended the episode after its last question, in turn 3. The rewards sum to 2."
    )


def test_ending_overflow_after_a_turn_takes_its_reward() -> None:
    free = play("llama3", "plain", max_generation_tokens=10)
    needed = lengths(free)[2][0] + 10  # the prompt of turn 2 and what is reserved for its answer
    fits = play("llama3", "plain", max_generation_tokens=10, max_trajectory_tokens=needed)
    assert fits.rewards == free.rewards == [1.0, 1.0, 1.0]
    over = play("llama3", "plain", max_generation_tokens=10, max_trajectory_tokens=needed - 1)
    assert over.stop_reason == "context_overflow"
    assert over.rewards == [1.0, -0.1]
    assert over.metrics[1] == {
        "correct": 1.0,
        "context_overflow": 1.0,
        "stop/context_overflow": 1.0,
    }
    told = explain_ending(over)
    assert f"the next prompt would take {needed - 10} tokens" in told
    assert f"the budget of {needed - 1}" in told
    assert "\u22120.1, instead of the 1 it had earned" in told


def test_ending_first_prompt_over_budget() -> None:
    length = lengths(play("llama3", "plain"))[0][0]
    fits = play("llama3", "plain", max_generation_tokens=9, max_trajectory_tokens=length + 9)
    assert fits.stop_reason == "context_overflow"
    over = play("llama3", "plain", max_generation_tokens=9, max_trajectory_tokens=length + 8)
    assert over.stop_reason == "max_tokens"
    assert over.rewards == [-0.1]
    assert over.metrics == [{"max_tokens_reached": 1.0, "stop/max_tokens": 1.0}]
    assert lengths(over) == [(0, 0)]
    assert trajectory_to_data(over.rollout.trajectory, 1.0) == []
    assert f"The first prompt takes {length} tokens" in explain_ending(over)
    assert [(line.role, line.turn) for line in over.lines] == [("tutor", 0)]


def test_ending_cut_by_the_limit() -> None:
    episode = play("llama3", "cut", max_generation_tokens=20)
    assert episode.stop_reason == "max_tokens"
    assert episode.rewards == [1.0, -0.1]
    assert episode.metrics[1] == {"max_tokens_reached": 1.0, "stop/max_tokens": 1.0}
    assert lengths(episode)[1][1] == 20
    told = explain_ending(episode)
    assert "Turn 1's answer was cut at 20 tokens" in told
    assert "`terminate_on_length=True`" in told


def test_going_on_after_the_limit() -> None:
    episode = play("llama3", "cut", max_generation_tokens=20, terminate_on_length=False)
    assert episode.stop_reason == "completed"
    assert episode.rewards == [1.0, 0.0, 1.0, 1.0]
    assert episode.metrics == [
        {"correct": 1.0},
        {},
        {"correct": 1.0},
        {"correct": 1.0, "stop/completed": 1.0, "num_truncations_max_turn_tokens": 1.0},
    ]
    assert episode.logs[1].keys() == {"truncated_turn"}
    assert "`terminate_on_length=False` kept it" in explain_ending(episode)


def test_ending_parse_error() -> None:
    episode = play("llama3", "no_end")
    assert episode.stop_reason == "parse_error"
    assert episode.rewards == [1.0, -1.0]
    assert episode.metrics[1] == {"parse_error": 1.0, "stop/parse_error": 1.0}
    assert "ended the episode with `failed_parse_reward`, \u22121" in explain_ending(episode)


def test_going_on_after_a_parse_error_costs_a_token() -> None:
    episode = play("llama3", "no_end", terminate_on_parse_error=False)
    assert episode.stop_reason == "completed"
    assert episode.rewards == [1.0, -1.0, 0.0, 1.0]
    assert episode.metrics[1] == {"parse_error": 1.0}
    assert lengths(episode)[2][0] == 0  # it saw nothing
    data = trajectory_to_data(episode.rollout.trajectory, 1.0)
    actions = sum(length for _, length in lengths(episode))
    assert sum(sum(datum.loss_fn_inputs["mask"].data) for datum in data) == actions - 1
    assert len(data) == 3
    told = explain_ending(episode)
    assert f"Turn 2 saw nothing at all: the first of its {lengths(episode)[2][1]}" in told


def test_ending_parse_error_policy_masks_the_turn() -> None:
    episode = play("llama3", "no_end", parse_error_policy=FORGIVING)
    assert episode.stop_reason == "parse_error"
    assert episode.rewards == [1.0, -0.5]
    assert episode.metrics[1] == {
        "parse_error": 1.0,
        "stop/parse_error": 1.0,
        "parse_error_masked": 1.0,
    }
    (datum,) = trajectory_to_data(episode.rollout.trajectory, 1.0)
    assert sum(datum.loss_fn_inputs["mask"].data) == lengths(episode)[0][1]
    told = explain_ending(episode)
    assert "`terminal_reward`, \u22120.5. Its tokens are masked" in told


def test_a_tool_call_that_does_not_parse_is_asked_again() -> None:
    episode = play("qwen3", "broken_call", parse_error_policy=FORGIVING)
    assert episode.stop_reason == "completed"
    assert episode.rewards == [1.0, -0.2, 1.0, 1.0]
    assert episode.metrics[1] == {"parse_error": 1.0, "parse_error_masked": 1.0}
    data = trajectory_to_data(episode.rollout.trajectory, 1.0)
    trained = sum(sum(datum.loss_fn_inputs["mask"].data) for datum in data)
    assert trained == sum(length for turn, (_, length) in enumerate(lengths(episode)) if turn != 1)
    assert "answered with a correction" in explain_ending(episode)


def test_a_retry_splits_because_the_call_is_not_in_history() -> None:
    episode = play("qwen3", "broken_call", parse_error_policy=FORGIVING)
    broken = next(message for message in episode.messages if "unparsed_tool_calls" in message)
    assert not broken["content"]
    turns = episode.rollout.trajectory.transitions
    decode = episode.renderer.tokenizer.decode
    assert "<tool_call>" in decode(turns[1].ac.tokens)
    assert "<tool_call>" not in decode(turns[2].ob.to_ints())
    (found,) = diagnose(episode.rollout).breaks
    assert (found.turn, found.cause) == (2, "removed")
    assert "turn 2 does not see the broken call, and splits" in explain_ending(episode)

    class RawTextBack(TutorEnv):
        """The remedy: what was sampled stands in the message's content."""

        async def step(self, message: Any) -> Any:
            for call in message.pop("unparsed_tool_calls", []):
                message["content"] = call.raw_text
            return await super().step(message)

    pupil = ScriptedPolicy(episode.renderer, "broken_call")
    mended = wait_for(tutor.play(episode.renderer, pupil, RawTextBack()))
    assert len(trajectory_to_data(mended, 1.0)) == 1


def test_a_call_that_is_said_to_be_unseen_is_not_in_the_prompt(built: dict[str, Any]) -> None:
    said = []
    for name in built:
        episode = play(name, "broken_call", parse_error_policy=FORGIVING)
        if "does not see the broken call" in explain_ending(episode):
            said.append(name)
            prompt = episode.rollout.trajectory.transitions[2].ob.to_ints()
            assert "<tool_call>" not in episode.renderer.tokenizer.decode(prompt), name
    assert "qwen3" in said


def test_a_tool_call_that_does_not_parse_ends_without_retries() -> None:
    strict = ParseErrorPolicy(terminal_reward=-0.5)
    episode = play("qwen3", "broken_call", parse_error_policy=strict)
    assert episode.stop_reason == "parse_error"
    assert episode.rewards == [1.0, -0.5]
    assert episode.metrics[1] == {"parse_error": 1.0, "stop/parse_error": 1.0}
    assert "used up the policy's retries" in explain_ending(episode)


def test_a_pupil_that_never_answers_is_stopped(built: dict[str, Any]) -> None:
    class Silent(TokenCompleter):
        async def __call__(self, model_input: Any, stop: Any, *, max_tokens: Any = None) -> Any:
            return TokensWithLogprobs(tokens=[64], maybe_logprobs=[-1.0])

    spec = EpisodeSpec("llama3", turns=1, terminate_on_parse_error=False)
    episode = asyncio.run(play_episode(spec, built["llama3"], Silent()))
    assert episode.stop_reason == "max_turns"
    assert len(episode.rewards) == 8
    assert "limit of 8 turns" in explain_ending(episode)


def test_every_preset_ends_as_it_says() -> None:
    table = endings_table(episode_presets()).set_index("preset")
    assert table["stop reason"].tolist() == [
        "completed", "completed", "context_overflow", "max_tokens", "max_tokens", "completed",
        "parse_error", "completed", "parse_error", "completed",
    ]  # fmt: skip
    assert table["datums"].tolist() == [3, 1, 1, 0, 1, 1, 1, 3, 1, 2]
    assert table["rewards"].tolist() == [
        "1, 1, 1", "1, 1, 1", "1, \u22120.1", "\u22120.1", "1, \u22120.1", "1, 0, 1, 1",
        "1, \u22121", "1, \u22121, 0, 1", "1, \u22120.5", "1, \u22120.2, 1, 1",
    ]  # fmt: skip


def test_the_controls_give_back_every_preset() -> None:
    for spec in episode_presets().values():
        values = {
            **{name: getattr(spec, name) for name in spec.__dataclass_fields__},
            "max_trajectory_tokens": spec.max_trajectory_tokens or 0,
            "policy_on": spec.parse_error_policy is not None,
        }
        assert spec_of(values) == spec


def test_turn_facts_are_the_trajectory() -> None:
    episode = play("llama3", "cut", max_generation_tokens=20)
    facts = turn_facts(episode)
    assert list(facts["observation tokens"]) == [ob for ob, _ in lengths(episode)]
    assert list(facts["action tokens"]) == [ac for _, ac in lengths(episode)]
    assert list(facts["sampling stopped by"]) == ["stop", "length"]
    assert list(facts["reward"]) == ["1", "\u22120.1"]
    assert list(facts["metrics"]) == ["correct 1", "max_tokens_reached 1, stop/max_tokens 1"]
    assert list(facts["ends the episode"]) == ["no", "yes"]
    assert "logs" not in facts


@pytest.mark.parametrize(
    ("spec", "asked", "facts"),
    [
        ({"policy": "no_end", "terminate_on_parse_error": False}, [16, 41, 0, 73], ["stop"] * 4),
        ({"max_trajectory_tokens": 30}, [], ["not asked"]),
    ],
    ids=["empty observation", "first prompt over budget"],
)
def test_what_the_pupil_was_asked(
    built: dict[str, Any], spec: Any, asked: list[int], facts: list[str]
) -> None:
    """The cookbook samples on an empty observation too, but not on a first prompt over budget."""
    wanted = EpisodeSpec("qwen3", max_generation_tokens=24, **spec)
    pupil = ScriptedPolicy(built["qwen3"], wanted.policy, max_tokens=24)
    seen: list[int] = []

    class Watched(TokenCompleter):
        async def __call__(self, model_input: Any, *more: Any, **options: Any) -> Any:
            seen.append(model_input.length)
            return await pupil(model_input, *more, **options)

    episode = asyncio.run(play_episode(wanted, built["qwen3"], Watched()))
    assert seen == asked
    assert turn_facts(episode)["sampling stopped by"].tolist() == facts


# --- the code that is shown ------------------------------------------------------------------


def test_shown_code_is_the_code_that_runs(built: dict[str, Any]) -> None:
    shown = ast.parse(tutor_code())
    source = ast.parse(Path(str(inspect.getsourcefile(TutorEnv))).read_text(encoding="utf-8"))
    for name in ("TutorEnv", "play"):
        (left,) = [node for node in shown.body if getattr(node, "name", "") == name]
        (right,) = [node for node in source.body if getattr(node, "name", "") == name]
        right.decorator_list = []  # type: ignore[attr-defined]
        assert ast.dump(left) == ast.dump(right)


def test_shown_code_runs_on_its_own(built: dict[str, Any]) -> None:
    copied: dict[str, Any] = {}
    exec(compile(tutor_code(), "copied.py", "exec"), copied)
    policy = ScriptedPolicy(built["qwen3"], "reasoning")
    trajectory = asyncio.run(
        copied["play"](built["qwen3"], policy, copied["TutorEnv"](0, 3), max_generation_tokens=64)
    )
    assert trajectory == episode_of(EpisodeSpec("qwen3", "reasoning")).rollout.trajectory


# --- a real model's tokenizer ----------------------------------------------------------------


def test_a_tokenizer_that_loads() -> None:
    asked: list[str] = []

    def loader(name: str) -> str:
        asked.append(name)
        return "tokenizer"

    assert load_vocabulary(" Qwen/Qwen3-8B ", loader=loader) == ("tokenizer", "")
    assert asked == ["Qwen/Qwen3-8B"]


def test_a_tokenizer_that_does_not_load_gives_one_sentence() -> None:
    def loader(name: str) -> Any:
        raise OSError("We couldn't connect to the hub.\nCheck your connection. More.\n")

    loaded, problem = load_vocabulary("Qwen/Qwen3-8B", loader=loader)
    assert loaded is None
    assert problem == (
        "Qwen/Qwen3-8B could not be loaded: We couldn't connect to the hub. "
        "The offline vocabulary stays."
    )


@pytest.mark.parametrize(
    ("answers", "words"),
    [(True, "did not load within 0.01 seconds"), (False, "the hub cannot be reached from here")],
)
def test_a_tokenizer_that_hangs_is_given_up(answers: bool, words: str) -> None:
    never = threading.Event()
    loaded, problem = load_vocabulary(
        "Qwen/Qwen3-8B",
        timeout=0.01,
        loader=lambda name: never.wait(),
        reachable=lambda: answers,
    )
    never.set()
    assert loaded is None
    assert words in problem
    assert problem.endswith("The offline vocabulary stays.")


@pytest.mark.parametrize(
    "name", ["", "Qwen3", "../x/y", "/etc/passwd", "a/b/c", "a b/c", "~/x", "a/" + "b" * 200]
)
def test_names_that_are_no_models_are_never_looked_up(name: str) -> None:
    def loader(name: str) -> Any:
        raise AssertionError(name)

    assert load_vocabulary(name, loader=loader)[1].startswith("Type a model as owner/name")


def test_code_of_strangers_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own" / "folder").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert "path on this machine" in load_vocabulary("own/folder", loader=str)[1]
    assert "code of its own" in load_vocabulary("moonshotai/Kimi-K2.5", loader=str)[1]
    kimi = load_vocabulary("moonshotai/Kimi-K2.5", loader=str, own_code=True)
    assert kimi == ("moonshotai/Kimi-K2.5", "")
