"""An environment whose next prompt keeps what was sampled, token by token."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sequence_extension.cookbook import (
    Env,
    EnvFromMessageEnv,
    EnvGroupBuilder,
    Trajectory,
    renderers,
    tinker,
)
from sequence_extension.elements import (
    elements_to_model_input,
    image_elements,
    last_elements,
)
from sequence_extension.env.joint import JointUnknown, joint_ends_with, joint_tail
from sequence_extension.text import first_sentence_text

FALLBACK_METRIC = "token_preserving/fallback"
REASON_LOG = "token_preserving/reason"


@dataclass(frozen=True)
class Anchor:
    """The place behind the last answer, from where the next prompt goes on.

    Attributes:
        observation: The last prompt; with the action it is the running sequence up to here.
        messages: The conversation up to the answer, which is not among them.
        action: The answer as sampled.
    """

    observation: tinker.ModelInput
    messages: list[Any]
    action: list[int]


class TokenPreservingEnv(EnvFromMessageEnv):
    """`EnvFromMessageEnv` whose next observation begins with the running sequence.

    `EnvFromMessageEnv` renders the whole conversation anew each turn: answers are parsed to
    messages and written back in other tokens, or without their reasoning, and the turn splits.
    This environment takes the same arguments and keeps the same budgets, stop conditions,
    rewards and policies, but its next observation is

        last observation + sampled answer + what the renderer writes behind that answer

    The last part is found from the renderer itself (see `joint`) and checked against a
    rendering of the whole conversation, which must end with the same tokens. Where that fails,
    where the message environment changed or dropped earlier messages or the answer, or where
    an answer did not parse, the observation is that rendering, as the cookbook gives it.

    Each step after which the episode goes on records in its metrics `token_preserving/fallback`
    (1.0 if the next observation was rendered anew, 0.0 if not), and with 1.0 in its logs
    `token_preserving/reason`. Where a rollout hook injects messages and the observation is then
    rendered anew, the record of the step before is corrected: the metrics and logs of a step
    are the very dicts of its transition, as the cookbook's loop makes it.

    Images of new messages stand where the renderer puts them. Those of the whole prompt must be
    the rendering's, byte by byte, so an image that was drawn over is seen as a change, too.

    It is a choice: with reasoning kept, the model sees its earlier thoughts, which its chat
    template would have hidden, and the prompt grows by them, also towards
    `max_trajectory_tokens`.
    """

    _observation: tinker.ModelInput | None = None
    _messages: list[Any] | None = None
    _anchor: Anchor | None = None
    _rendered = False
    _reason = ""
    _record: tuple[dict[str, Any], dict[str, Any]] | None = None

    @classmethod
    def of(cls, env: Env) -> "TokenPreservingEnv":
        """The same environment, not yet begun, with its tokens kept: for one that a recipe made.

        Raises:
            TypeError: It is another environment, or a subclass with ways of its own. Let that
                class inherit from `TokenPreservingEnv` in place of `EnvFromMessageEnv`.
        """
        if type(env) is not EnvFromMessageEnv:
            raise TypeError(
                f"{type(env).__name__} is not an EnvFromMessageEnv; let its class inherit from "
                "TokenPreservingEnv in place of EnvFromMessageEnv."
            )
        kept = cls.__new__(cls)
        vars(kept).update(vars(env))
        return kept

    async def initial_observation(self) -> Any:
        """The first observation, as the cookbook renders it."""
        self._anchor = self._record = None
        initial = await super().initial_observation()
        if isinstance(initial, tuple):
            self._observation = initial[0]
        self._reason = ""
        return initial

    async def step(self, action: Any, *, extra: Any = None) -> Any:
        """One step of `EnvFromMessageEnv`; the next observation keeps the sampled tokens."""
        self._anchor = None
        self._reason = ""
        if self._messages is None or self._observation is None:
            self._reason = "the answer was sampled without a prompt"
        else:
            self._anchor = Anchor(
                observation=self._observation,
                messages=self._messages,
                action=list(action),
            )
        self._rendered = False
        result = await super().step(action, extra=extra)
        self._observation = result.next_observation
        if not result.next_observation.chunks:
            self._messages = None  # an empty prompt continues no conversation
        metrics, logs = {**result.metrics}, {**result.logs}
        self._record = metrics, logs
        if not result.episode_done:
            if not self._rendered:
                self._anchor = None
                self._reason = "the answer did not parse, so the cookbook goes on without a prompt"
            metrics[FALLBACK_METRIC] = 0.0
            self._record_fallback()
        return replace(result, metrics=metrics, logs=logs)

    async def inject_messages(self, messages: Any) -> Any:
        """Messages of a rollout hook, written behind the last answer with those that follow it."""
        observation, stop = await super().inject_messages(messages)
        self._observation = observation
        self._record_fallback()
        return observation, stop

    def _record_fallback(self) -> None:
        """The last step's record, where the observation behind it was rendered anew."""
        if self._reason and self._record is not None:
            metrics, logs = self._record
            metrics[FALLBACK_METRIC], logs[REASON_LOG] = 1.0, self._reason
        self._reason = ""

    async def _render_in_thread(self, messages: list[Any], **kwargs: Any) -> tinker.ModelInput:
        """In place of the rendering that `EnvFromMessageEnv` asks for; see the class."""
        # A message environment may give them as a generator, which can be read only once.
        return await asyncio.to_thread(self._next_observation, list(messages), kwargs)

    def _next_observation(self, messages: list[Any], kwargs: dict[str, Any]) -> tinker.ModelInput:
        rendered: tinker.ModelInput = self.renderer.build_generation_prompt(messages, **kwargs)
        observation = rendered
        if self._anchor is not None:
            try:
                tail = self._tail(self._anchor, messages, rendered)
                added = elements_to_model_input([*self._anchor.action, *tail])
                kept = tinker.ModelInput(chunks=[*self._anchor.observation.chunks, *added.chunks])
                if image_elements(kept) != image_elements(rendered):
                    raise JointUnknown("image_changed", "the environment changed an earlier image")
                observation = kept
            except JointUnknown as unknown:
                self._reason = str(unknown)
                self._anchor = None
        self._rendered = True
        self._messages = [preserved_copy(message) for message in messages]
        return observation

    def _tail(self, anchor: Anchor, messages: list[Any], rendered: tinker.ModelInput) -> list[Any]:
        """The tokens behind the anchor, proven against the whole rendering."""
        known = len(anchor.messages)
        if messages[:known] != anchor.messages:
            raise JointUnknown("history_changed", "the environment changed earlier messages")
        if len(messages) <= known or messages[known]["role"] != "assistant":
            raise JointUnknown("no_answer", "the environment did not keep the answer")
        parsed, _ = self.renderer.parse_response(anchor.action)
        if not preserves_answer(parsed, messages[known]):
            raise JointUnknown("answer_changed", "the environment changed the answer")
        try:
            tail = joint_tail(self.renderer, messages[known], messages[known + 1 :], anchor.action)
        except JointUnknown:
            raise
        except Exception as error:  # a renderer refuses the short conversation
            raise JointUnknown(
                "probe_failed", f"the renderer cannot be asked: {first_sentence_text(error)}"
            ) from error
        whole_end = last_elements(rendered, len(tail.end) + len(tail.rest))
        if not joint_ends_with(self.renderer, whole_end, tail):
            raise JointUnknown(
                "tail_differs", "the renderer writes something else behind this answer"
            )
        return [*tail.missing, *tail.rest]


@dataclass(frozen=True)
class TokenPreservingBuilder(EnvGroupBuilder):
    """A group builder of a recipe, its environments with their tokens kept.

    `do_group_rollout(TokenPreservingBuilder(builder), policy)` plays it; rewards of the group,
    tags and cleaning up stay the builder's own. It can be pickled where the builder can.

    Attributes:
        builder: Makes environments of the class `EnvFromMessageEnv`.
    """

    builder: EnvGroupBuilder

    async def make_envs(self) -> Sequence[Env]:
        """The builder's environments, each as `TokenPreservingEnv.of` makes it."""
        return [TokenPreservingEnv.of(env) for env in await self.builder.make_envs()]

    async def compute_group_rewards(
        self, trajectory_group: list[Trajectory], env_group: Sequence[Env]
    ) -> list[tuple[float, Any]]:
        """As the builder has it."""
        return await self.builder.compute_group_rewards(trajectory_group, env_group)

    async def cleanup(self) -> None:
        """As the builder has it."""
        await self.builder.cleanup()

    def logging_tags(self) -> list[str]:
        """As the builder has it."""
        return self.builder.logging_tags()


def preserved_copy(value: Any) -> Any:
    """A copy of a message that later changes in place leave alone; images are the same objects."""
    if isinstance(value, dict):
        return {key: preserved_copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [preserved_copy(item) for item in value]
    if isinstance(value, renderers.ToolCall):
        body = value.function.model_copy()
        return value.model_copy(update={"function": body})
    return value


def preserves_answer(parsed: Any, kept: Any) -> bool:
    """Whether the environment kept an answer as it was parsed; ids it gave to calls are its own."""

    def essence(message: Any) -> Any:
        return (
            message["content"],
            [
                (call.function.name, call.function.arguments)
                for call in message.get("tool_calls") or []
            ],
            list(message.get("unparsed_tool_calls") or []),
        )

    return bool(essence(parsed) == essence(kept))
