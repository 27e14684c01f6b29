"""Scripted policies: what samples in place of a model."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sequence_extension.cookbook import TokenCompleter, TokensWithLogprobs, tinker
from sequence_extension.elements import model_input_to_elements


def policy_names() -> dict[str, str]:
    """Every behaviour of `ScriptedPolicy` with one line about it.

    Faults that befall one turn befall the second question: the turn before shows what they
    leave alone, the turn after what they spoil.
    """
    return {
        "plain": "answers at once, without reasoning",
        "reasoning": "reasons first, in the form its renderer uses, then answers",
        "empty_reasoning": "leaves its reasoning empty, in the form its renderer uses",
        "respelled": "same text, other tokens: the answer is spelled out letter by letter",
        "no_space": "leaves out the space with which its renderer begins an answer",
        "whitespace": "puts a space before and a newline after the answer",
        "other_end": "ends with the other end token, where its family has two",
        "wrong": "gets every second sum wrong",
        "no_end": "second answer comes without its end token, as from an engine that cuts it off",
        "cut": "rambles on at the second question until the token limit cuts it",
        "broken_call": "second answer is a tool call, between its tags, that is not JSON",
    }


def render_policy_answer(
    renderer: Any, text: str, reasoning: str = "", block: bool = False
) -> list[int]:
    """Action tokens of an answer, as the renderer itself would continue its own prompt.

    The answer is rendered as the last message of a conversation and the generation prompt is
    taken off. Three families write the two differently, so: where the tokens differ, the
    texts are compared; where those differ too, but the prompt has opened a reasoning block,
    the answer closes it; where a renderer refuses reasoning or drops it, the block is written
    by hand, as a model would that reasons although it was told not to.

    Args:
        renderer: Any renderer of the cookbook.
        text: The visible answer.
        reasoning: Put before it in the renderer's own form; "" for none.
        block: Keep the empty reasoning block that some renderers write around an answer
            without reasoning. A block that the prompt has opened is closed either way.
    """
    question: list[Any] = [{"role": "user", "content": "?"}]
    prompt: list[int] = renderer.build_generation_prompt(question).to_ints()
    tokenizer = renderer.tokenizer
    before = str(tokenizer.decode(prompt))
    written = f"<think>\n{reasoning}\n</think>\n\n"
    contents: list[Any] = [text]
    if reasoning:
        parts = [{"type": "thinking", "thinking": reasoning}, {"type": "text", "text": text}]
        contents = [parts, written + text]
    for content in contents:
        answer = {"role": "assistant", "content": content}
        try:
            example, _ = renderer.build_supervised_example([*question, answer])
            full: list[int] = example.to_ints()
        except Exception:  # this renderer does not write such a message: next form
            continue
        after = str(tokenizer.decode(full))
        opened = re.search(r"<think>\s*$", before)
        if full[: len(prompt)] == prompt:
            tokens = full[len(prompt) :]
        elif after.startswith(before):
            tokens = tokenizer.encode(after[len(before) :], add_special_tokens=False)
        elif opened and after.startswith(before[: opened.start()] + "<think>"):
            rest = after[opened.start() + len("<think>") :]
            tokens = tokenizer.encode(rest, add_special_tokens=False)
        else:
            continue
        decoded = str(tokenizer.decode(tokens))
        if reasoning and reasoning not in decoded:
            continue
        empty = re.match(r"<think>\s*</think>\s*", decoded)
        if empty and not block:
            tokens = tokenizer.encode(decoded[empty.end() :], add_special_tokens=False)
        return list(tokens)
    if reasoning:
        by_hand = tokenizer.encode(written, add_special_tokens=False)
        return [*by_hand, *render_policy_answer(renderer, text, block=False)]
    stops = renderer.get_stop_sequences()
    end = (
        [stops[0]]
        if isinstance(stops[0], int)
        else tokenizer.encode(stops[0], add_special_tokens=False)
    )
    return [*tokenizer.encode(text, add_special_tokens=False), *end]


def respell_policy_answer(tokenizer: Any, tokens: Sequence[int], text: str) -> list[int]:
    """The same text in other tokens: those of `text` are spelled out character by character.

    A model may sample any split of a text into tokens; an encoder always gives the same one.
    Tokens outside the last occurrence of `text`, and characters that are not one token of
    their own, stay as they are.
    """
    pieces = [str(tokenizer.decode([token])) for token in tokens]
    start = "".join(pieces).rfind(text)
    spelled: list[int] = []
    cursor = 0
    for token, piece in zip(tokens, pieces, strict=True):
        inside = start >= 0 and start - 1 <= cursor and cursor + len(piece) <= start + len(text)
        letters = [tokenizer.encode(char, add_special_tokens=False) for char in piece]
        if inside and all(len(letter) == 1 for letter in letters):
            spelled.extend(letter[0] for letter in letters)
        else:
            spelled.append(token)
        cursor += len(piece)
    return spelled


def other_policy_end(renderer: Any, tokens: Sequence[int]) -> list[int]:
    """The same answer with the family's other end token; unchanged where there is only one.

    Families with several stop tokens: the first that is not the usual one. A family that stops
    on a string may also end with the vocabulary's end of text.
    """
    stops = renderer.get_stop_sequences()
    if isinstance(stops[0], int):
        others = [stop for stop in stops if stop != tokens[-1]]
        return [*tokens[:-1], others[0]] if tokens[-1] in stops and others else list(tokens)
    end = getattr(renderer.tokenizer, "eos_token_id", None)
    decoded = str(renderer.tokenizer.decode(list(tokens)))
    if end is None or not decoded.endswith(stops[0]):
        return list(tokens)
    body = decoded.removesuffix(stops[0])
    return [*renderer.tokenizer.encode(body, add_special_tokens=False), end]


@dataclass
class ScriptedPolicy(TokenCompleter):
    """A pupil in place of a model: reads the last sum in its prompt and answers as told.

    Deterministic: the same prompt, behaviour and seed give the same tokens and logprobs.

    Attributes:
        renderer: Speaks this renderer's language, and reads prompts with its tokenizer.
        behaviour: A name of `policy_names`.
        max_tokens: Limit of one answer, as `TinkerTokenCompleter` has one; an answer beyond it
            is cut and says so with `stop_reason="length"`.
        seed: Draws the logprobs.
        memo: Answers rendered so far; policies of one renderer may share one.
    """

    renderer: Any
    behaviour: str = "plain"
    max_tokens: int = 64
    seed: int = 0
    memo: dict[tuple[str, str, bool], list[int]] = field(default_factory=dict, repr=False)

    async def __call__(
        self, model_input: tinker.ModelInput, stop: Any, *, max_tokens: int | None = None
    ) -> TokensWithLogprobs:
        """One answer, at most as long as the smaller of the two limits."""
        limit = self.max_tokens if max_tokens is None else min(self.max_tokens, max_tokens)
        read = [token for token in model_input_to_elements(model_input) if isinstance(token, int)]
        prompt = str(self.renderer.tokenizer.decode(read))
        answer = self.answer(prompt, limit)
        tokens = answer[:limit]
        draw = random.Random(f"{self.seed} {self.behaviour} {prompt}")
        return TokensWithLogprobs(
            tokens=tokens,
            maybe_logprobs=[-round(0.01 + draw.expovariate(3.0), 4) for _ in tokens],
            stop_reason="length" if len(answer) > limit else "stop",
        )

    def answer(self, prompt: str, limit: int) -> list[int]:
        """The whole answer to the last sum in the prompt, not yet cut."""
        sums = re.findall(r"What is (\d+) \+ (\d+)\?", prompt)
        left, right = (int(term) for term in sums[-1]) if sums else (0, 0)
        second = len(sums) == 2
        total = left + right
        if self.behaviour == "wrong" and len(sums) % 2 == 0:
            total += 1
        text = f"It is {total}." if sums else "Which sum?"
        if self.behaviour == "reasoning":
            return self.render(text, f"{left} and {right} make {total}.")
        if self.behaviour == "broken_call" and second:
            text = '<tool_call>\n{"name": "add", "arguments": {"a": \n</tool_call>'
        if self.behaviour == "cut" and second:
            text = "Let me count: " + ", ".join(map(str, range(limit + 1)))
        tokens = self.render(text, block=self.behaviour == "empty_reasoning")
        if self.behaviour == "respelled":
            return respell_policy_answer(self.renderer.tokenizer, tokens, text)
        if self.behaviour == "other_end":
            return other_policy_end(self.renderer, tokens)
        if self.behaviour == "no_end" and second:
            return self.without_end(tokens)
        decoded = str(self.renderer.tokenizer.decode(tokens))
        if self.behaviour == "whitespace":
            decoded = f" {text}\n".join(decoded.rsplit(text, 1))
        elif self.behaviour == "no_space":
            decoded = decoded.removeprefix(" ")
        else:
            return tokens
        return list(self.renderer.tokenizer.encode(decoded, add_special_tokens=False))

    def render(self, text: str, reasoning: str = "", block: bool = False) -> list[int]:
        """`render_policy_answer`, each answer once."""
        key = (text, reasoning, block)
        if key not in self.memo:
            self.memo[key] = render_policy_answer(self.renderer, text, reasoning, block)
        return list(self.memo[key])

    def without_end(self, tokens: list[int]) -> list[int]:
        """The answer up to its stop token or stop string."""
        stops = self.renderer.get_stop_sequences()
        if isinstance(stops[0], int):
            return [token for token in tokens if token not in stops]
        decoded = str(self.renderer.tokenizer.decode(tokens)).removesuffix(stops[0])
        return list(self.renderer.tokenizer.encode(decoded, add_special_tokens=False))
