"""Rollouts by script: authored messages, sampled as the renderer writes them, replayed for real."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.renderers import Message, ToolCall, TrainOnWhat, get_renderer
from tinker_cookbook.rl.message_env import EnvFromMessageEnv, MessageEnv, MessageStepResult
from tinker_cookbook.rl.rollouts import do_single_rollout
from tinker_cookbook.rl.types import Trajectory

from sequence_extension import TokenPreservingEnv
from sequence_extension.cookbook import wait_for_cookbook
from sequence_extension.elements import model_input_to_elements
from sequence_extension.env.vocabulary import offline_vocabulary


@dataclass(frozen=True)
class Family:
    """What a chat format writes, put down by hand from its template.

    Attributes:
        end: Behind an answer in history.
        call_end: Behind an answer with tool calls, if another.
        opens: The header in front of an answer; "" where the model writes it itself.
    """

    end: str
    opens: str
    call_end: str | None = None


_BAR = "\uff5c"  # the full-width bar of DeepSeek's markers
_CHATML = Family("<|im_end|>", "<|im_start|>assistant\n")
FAMILIES = {
    "role_colon": Family("\n\n", "Assistant:"),
    "llama3": Family("<|eot_id|>", "<|start_header_id|>assistant<|end_header_id|>\n\n"),
    "qwen": _CHATML,
    "nemotron": _CHATML,
    "deepseek": Family(f"<{_BAR}end▁of▁sentence{_BAR}>", f"<{_BAR}Assistant{_BAR}>"),
    "kimi": Family("<|im_end|>", "<|im_assistant|>assistant<|im_middle|>"),
    "gpt_oss": Family("<|end|>", "<|start|>assistant", call_end="<|call|>"),
    "glm": Family("", "<|assistant|>"),  # an answer ends with the next message's header
    "tml": Family("<|end_message|><|content_model_end_sampling|>", ""),
}


def family_of(name: str) -> Family:
    return next(family for start, family in FAMILIES.items() if name.startswith(start))


class Patches:
    """An image processor: as many tokens as an image has squares of 28 pixels."""

    merge_size = 2
    patch_size = 14

    def get_number_of_image_patches(
        self, height: int, width: int, images_kwargs: dict[str, Any] | None = None
    ) -> int:
        return (height // self.patch_size) * (width // self.patch_size)


def renderer_of(name: str) -> Any:
    return get_renderer(name, offline_vocabulary(), image_processor=Patches())  # type: ignore[arg-type]


def call(name: str, arguments: str, serial: int) -> ToolCall:
    body = ToolCall.FunctionBody(name=name, arguments=arguments)
    return ToolCall(function=body, id=f"functions.{name}:{serial}")


def sampled(renderer: Any, name: str, messages: Sequence[Any], answer: Any) -> list[int]:
    """An answer as a model samples it: what the renderer trains it to write behind the prompt."""
    decode = renderer.tokenizer.decode
    prompt = str(decode(text_tokens(renderer.build_generation_prompt(list(messages)))))
    example, _ = renderer.build_supervised_example(
        [*messages, answer], train_on_what=TrainOnWhat.LAST_ASSISTANT_MESSAGE
    )
    finished = str(decode(text_tokens(example)))
    if finished.startswith(prompt):
        written = finished[len(prompt) :]
    else:  # the prompt opens a reasoning block that this answer leaves out
        opens = family_of(name).opens
        written = finished[finished.rindex(opens) + len(opens) :]
        opened = prompt[prompt.rindex(opens) + len(opens) :]
        bare = re.sub(r"^<think>\s*</think>\s*", "", written)
        written = f"\n</think>\n\n{bare}" if opened.strip() == "<think>" else bare
    return list(renderer.tokenizer.encode(written, add_special_tokens=False))


def text_tokens(model_input: Any) -> list[int]:
    return [token for token in model_input_to_elements(model_input) if isinstance(token, int)]


class ScriptEnv(MessageEnv):
    """Replies by script; an entry is the messages behind an answer, or changes the history.

    Attributes:
        messages: The conversation so far.
        replies: Per answer: messages to append, or a function from the old conversation and
            the answer to the new one.
    """

    def __init__(self, start: Sequence[Any], replies: Sequence[Any]) -> None:
        self.messages: list[Any] = list(start)
        self.replies = list(replies)
        self.seen: list[list[Any]] = []

    async def initial_observation(self) -> list[Message]:
        self.seen.append(list(self.messages))
        return list(self.messages)

    def turn(self, message: Message) -> list[Message]:
        reply = self.replies.pop(0)
        self.messages = (
            reply(self.messages, message) if callable(reply) else [*self.messages, message, *reply]
        )
        self.seen.append(list(self.messages))
        return list(self.messages)

    async def step(self, message: Message) -> MessageStepResult:
        messages = self.turn(message)
        return MessageStepResult(0.5, not self.replies, messages, metrics={"own": 1.0})

    async def observe_truncated_response(self, message: Message) -> list[Message]:
        return self.turn(message)

    async def add_messages(self, messages: list[Message]) -> list[Message]:
        self.messages = [*self.messages, *messages]
        self.seen.append(list(self.messages))
        return list(self.messages)


@dataclass
class Replay(TokenCompleter):
    """Samples what the script says: (tokens, stop reason) per turn."""

    answers: list[tuple[list[int], Any]]
    prompts: list[Any] = field(default_factory=list)

    async def __call__(self, model_input: Any, stop: Any, **_: Any) -> TokensWithLogprobs:
        self.prompts.append(model_input)
        tokens, reason = self.answers[len(self.prompts) - 1]
        return TokensWithLogprobs(
            tokens=tokens, maybe_logprobs=[-0.5] * len(tokens), stop_reason=reason
        )


def replay(
    renderer: Any,
    start: Sequence[Any],
    replies: Sequence[Any],
    answers: Sequence[tuple[list[int], Any]],
    adapter: type[EnvFromMessageEnv] = TokenPreservingEnv,
    **limits: Any,
) -> tuple[Trajectory, ScriptEnv]:
    """One scripted rollout through the real adapter and the real loop."""
    script = ScriptEnv(start, replies)
    env = adapter(renderer, script, **limits)
    return wait_for_cookbook(do_single_rollout(Replay(list(answers)), env)), script
