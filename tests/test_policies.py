"""What a scripted pupil says, its renderer reads back as meant."""

import asyncio
import math
from typing import Any

import pytest
import tinker
from tinker_cookbook.renderers import get_text_content

from sequence_extension.env.policies import ScriptedPolicy


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
