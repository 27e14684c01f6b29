"""A tutor that asks small sums, and the call that plays one rollout with it."""

import random
import re
from typing import Any

from tinker_cookbook.completers import TokenCompleter
from tinker_cookbook.renderers import Message, get_text_content
from tinker_cookbook.rl.message_env import EnvFromMessageEnv, MessageEnv, MessageStepResult
from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy
from tinker_cookbook.rl.rollouts import do_single_rollout
from tinker_cookbook.rl.types import (
    PARSE_ERROR_MASKED_METRIC_KEY,
    STOP_METRIC_PREFIX,
    StopReason,
    Trajectory,
)


class TutorEnv(MessageEnv):
    """A tutor that asks small sums: one question a turn, one point for each right answer.

    It sees messages only. `EnvFromMessageEnv` makes an environment of tokens out of it: it
    renders the whole conversation anew each turn, parses the answer, and ends the rollout
    when the budget is spent or an answer does not parse. It does not check whether a prompt
    continues the one before. That is found out later, by `trajectory_to_data`.
    """

    def __init__(self, seed: int = 0, questions: int = 3):
        draw = random.Random(seed)
        self.sums = [(draw.randint(2, 9), draw.randint(2, 9)) for _ in range(questions)]
        self.answered = 0
        self.messages: list[Message] = []  # the whole conversation so far
        self.parse_errors: ParseErrorPolicy | None = None
        self.errors_in_a_row = 0

    def question(self) -> str:
        left, right = self.sums[self.answered]
        return f"What is {left} + {right}?"

    def say(self, text: str) -> list[Message]:
        """Add the tutor's next message and return a copy of the conversation."""
        self.messages.append({"role": "user", "content": text})
        return list(self.messages)

    async def initial_observation(self) -> list[Message]:
        return self.say(self.question())

    async def step(self, message: Message) -> MessageStepResult:
        """Grade one answer and ask the next question."""
        self.messages.append(message)
        if message.get("unparsed_tool_calls") and self.parse_errors is not None:
            return self.ask_again(message, self.parse_errors)
        self.errors_in_a_row = 0
        left, right = self.sums[self.answered]
        numbers = re.findall(r"\d+", get_text_content(message))  # reasoning is not graded
        correct = numbers[-1:] == [str(left + right)]
        feedback = "Right." if correct else f"No, {left} + {right} = {left + right}."
        self.answered += 1
        done = self.answered == len(self.sums)
        metrics = {"correct": float(correct)}
        if done:
            metrics[f"{STOP_METRIC_PREFIX}{StopReason.COMPLETED}"] = 1.0
        return MessageStepResult(
            reward=float(correct),
            episode_done=done,
            next_messages=self.say(f"{feedback} {'Well done.' if done else self.question()}"),
            metrics=metrics,
        )

    async def observe_truncated_response(self, message: Message) -> list[Message]:
        """An answer cut by the token limit (only with terminate_on_length=False)."""
        self.messages.append(message)
        return self.say(f"That was too long. {self.question()}")

    def set_parse_error_policy(self, policy: ParseErrorPolicy) -> None:
        """`EnvFromMessageEnv` hands its policy on, for tool calls that do not parse."""
        self.parse_errors = policy

    def ask_again(self, message: Message, policy: ParseErrorPolicy) -> MessageStepResult:
        """A tool call that does not parse: correct the pupil, or give up."""
        self.errors_in_a_row += 1
        give_up = self.errors_in_a_row > policy.max_consecutive
        details = "; ".join(call.error for call in message["unparsed_tool_calls"])
        metrics = {"parse_error": 1.0}
        if policy.mask_error_turns:
            metrics[PARSE_ERROR_MASKED_METRIC_KEY] = 1.0
        if give_up:
            metrics[f"{STOP_METRIC_PREFIX}{StopReason.PARSE_ERROR}"] = 1.0
        correction = policy.retry_message_template.format(details=details)
        return MessageStepResult(
            reward=policy.terminal_reward if give_up else -policy.penalty_per_error,
            episode_done=give_up,
            next_messages=self.say(f"{correction}\n{self.question()}"),
            metrics=metrics,
            logs={"parse_failure_kind": "content", "parse_failure_detail": details},
        )


async def play_tutor(
    renderer: Any,
    policy: TokenCompleter,
    tutor: MessageEnv,
    parse_error_policy: ParseErrorPolicy | None = None,
    adapter: type[EnvFromMessageEnv] = EnvFromMessageEnv,
    **limits: Any,
) -> Trajectory:
    """One rollout: messages in, tokens out, through the cookbook's own adapter and loop.

    Args:
        renderer: Writes the conversation as tokens and reads answers back.
        policy: Samples an answer for a prompt.
        tutor: The environment of messages.
        parse_error_policy: What to do with answers that do not parse.
        adapter: Makes an environment of tokens out of the tutor.
        limits: Further arguments of the adapter, such as `max_trajectory_tokens`.
    """
    env = adapter(renderer, tutor, **limits)
    if parse_error_policy is not None:
        env.set_parse_error_policy(parse_error_policy)  # hands it on to the tutor, too
    return await do_single_rollout(policy, env)
