"""Episodes of `TutorEnv`, played for real."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sequence_extension.cookbook import (
    EnvFromMessageEnv,
    MessageEnv,
    ParseErrorPolicy,
    RolloutLimits,
    TokenCompleter,
    TokensWithLogprobs,
    Trajectory,
    wait_for_cookbook,
)
from sequence_extension.elements import model_input_to_elements
from sequence_extension.env.policies import ScriptedPolicy
from sequence_extension.env.renderers import build_renderer
from sequence_extension.env.token_preserving import TokenPreservingEnv
from sequence_extension.env.tutor import TutorEnv, play_tutor
from sequence_extension.env.vocabulary import offline_vocabulary
from sequence_extension.rollout import Rollout
from sequence_extension.tokenizers import tokenizer_texts


@dataclass(frozen=True)
class EpisodeSpec:
    """One episode of `TutorEnv`: everything that decides it.

    Attributes:
        renderer: A name of `renderer_names`.
        policy: A name of `policy_names`.
        turns: Questions the tutor asks.
        seed: Draws the sums and the logprobs.
        max_trajectory_tokens: Budget of conversation plus one answer; None for no budget.
        max_generation_tokens: Limit of one answer, also reserved in the budget.
        terminate_on_length: An answer cut by its limit ends the episode.
        terminate_on_parse_error: An answer that does not parse ends the episode.
        parse_error_policy: Takes the place of the rule above where given.
        failed_parse_reward, context_overflow_reward: What such a turn is given.
        keep_tokens: Played through `TokenPreservingEnv` in place of `EnvFromMessageEnv`.
    """

    renderer: str = "qwen3"
    policy: str = "reasoning"
    turns: int = 3
    seed: int = 0
    max_trajectory_tokens: int | None = None
    max_generation_tokens: int = 64
    terminate_on_length: bool = True
    terminate_on_parse_error: bool = True
    parse_error_policy: ParseErrorPolicy | None = None
    failed_parse_reward: float = -1.0
    context_overflow_reward: float = -0.1
    keep_tokens: bool = False


@dataclass(frozen=True)
class Line:
    """One bubble of a transcript.

    Attributes:
        turn: Turn it belongs to; the tutor's last word belongs to the last turn.
        role: "tutor" or "pupil".
        text: What the tutor said, or what was sampled, markers and all.
    """

    turn: int
    role: Literal["tutor", "pupil"]
    text: str


@dataclass(frozen=True)
class Episode:
    """An episode that has run. Every number is read from its trajectory.

    Attributes:
        spec: What was asked for.
        rollout: The real trajectory with the text of its tokens.
        messages: The conversation at the end, as the message environment holds it.
        lines: The transcript: what each turn added, and what was sampled.
        renderer: The renderer that was used.
    """

    spec: EpisodeSpec
    rollout: Rollout
    messages: tuple[Any, ...]
    lines: tuple[Line, ...]
    renderer: Any

    @property
    def rewards(self) -> list[float]:
        """Reward of each turn."""
        return [transition.reward for transition in self.rollout.trajectory.transitions]

    @property
    def metrics(self) -> list[dict[str, float]]:
        """Metrics of each turn."""
        return [dict(transition.metrics) for transition in self.rollout.trajectory.transitions]

    @property
    def logs(self) -> list[dict[str, Any]]:
        """Logs of each turn."""
        return [dict(transition.logs) for transition in self.rollout.trajectory.transitions]

    @property
    def stop_reason(self) -> str | None:
        """Why the episode ended, as the trajectory says."""
        reason = self.rollout.trajectory.stop_reason
        return None if reason is None else str(reason)


async def play_episode(
    spec: EpisodeSpec,
    renderer: Any,
    policy: TokenCompleter | None = None,
    tutor: MessageEnv | None = None,
) -> Episode:
    """Play one episode and keep its transcript.

    Args:
        spec: What to play.
        renderer: The renderer named in it, built.
        policy: Any other pupil, for instance a real model; None for the scripted one.
        tutor: Any other `MessageEnv` with a list `messages`; None for `TutorEnv`.
    """
    pupil = policy or ScriptedPolicy(
        renderer, spec.policy, max_tokens=spec.max_generation_tokens, seed=spec.seed
    )
    env: Any = tutor or TutorEnv(spec.seed, spec.turns)
    heard: list[int] = []

    class Listener(TokenCompleter):
        """Passes every call on and notes how long the conversation was."""

        async def __call__(self, *args: Any, **kwargs: Any) -> TokensWithLogprobs:
            heard.append(len(env.messages))
            return await pupil(*args, **kwargs)

    trajectory = await play_tutor(
        renderer,
        Listener(),
        env,
        parse_error_policy=spec.parse_error_policy,
        adapter=TokenPreservingEnv if spec.keep_tokens else EnvFromMessageEnv,
        failed_parse_reward=spec.failed_parse_reward,
        terminate_on_parse_error=spec.terminate_on_parse_error,
        max_trajectory_tokens=spec.max_trajectory_tokens,
        max_generation_tokens=spec.max_generation_tokens,
        context_overflow_reward=spec.context_overflow_reward,
        terminate_on_length=spec.terminate_on_length,
        # A pupil that never gives a readable answer must not keep the page busy for ever.
        rollout_limits=RolloutLimits(max_turns=4 * spec.turns + 4),
    )
    messages: list[Any] = list(env.messages)
    seen: list[int] = []
    for transition in trajectory.transitions:
        elements = model_input_to_elements(transition.ob)
        seen.extend(element for element in elements if isinstance(element, int))
        seen.extend(transition.ac.tokens)
    return Episode(
        spec=spec,
        rollout=Rollout(
            f"{spec.renderer}, {spec.policy}", trajectory, tokenizer_texts(renderer.tokenizer, seen)
        ),
        messages=tuple(messages),
        lines=tuple(episode_transcript_lines(trajectory, messages, heard, renderer.tokenizer)),
        renderer=renderer,
    )


def episode_transcript_lines(
    trajectory: Trajectory, messages: Sequence[Any], heard: Sequence[int], tokenizer: Any
) -> list[Line]:
    """The bubbles of an episode: before each answer what the tutor had added by then.

    Args:
        trajectory: What was played.
        messages: The conversation at its end.
        heard: Length of the conversation when each answer was asked for.
        tokenizer: Reads the answers.
    """
    lines: list[Line] = []
    start = 0
    for turn, transition in enumerate(trajectory.transitions):
        end = heard[turn] if turn < len(heard) else len(messages)
        lines += episode_reply_lines(turn, messages[start:end])
        start = end
        if turn < len(heard):
            lines.append(Line(turn, "pupil", str(tokenizer.decode(list(transition.ac.tokens)))))
    return lines + episode_reply_lines(max(len(trajectory.transitions) - 1, 0), messages[start:])


def episode_reply_lines(turn: int, messages: Sequence[Any]) -> list[Line]:
    """The messages that the tutor added, as bubbles."""
    return [
        Line(turn, "tutor", str(message["content"]))
        for message in messages
        if message["role"] != "assistant"
    ]


def run_episodes(specs: Sequence[EpisodeSpec], tokenizer: Any | None = None) -> list[Episode | str]:
    """Play many scripted episodes on one event loop.

    Args:
        specs: What to play.
        tokenizer: Vocabulary for the renderers; None for the offline one.

    Returns:
        For each spec its episode, or the reason it has none in one sentence.
    """
    vocabulary = offline_vocabulary() if tokenizer is None else tokenizer
    names = dict.fromkeys(spec.renderer for spec in specs)
    renderer_of = {name: build_renderer(name, vocabulary) for name in names}
    memo_of: dict[str, dict[tuple[str, str, bool], list[int]]] = {name: {} for name in names}

    async def play_all() -> list[Episode | str]:
        played: list[Episode | str] = []
        for spec in specs:
            renderer, reason = renderer_of[spec.renderer]
            if renderer is None:
                played.append(reason)
                continue
            policy = ScriptedPolicy(
                renderer,
                spec.policy,
                max_tokens=spec.max_generation_tokens,
                seed=spec.seed,
                memo=memo_of[spec.renderer],
            )
            try:
                played.append(await play_episode(spec, renderer, policy))
            except Exception as error:  # one renderer must not take the others down
                detail = " ".join(str(error).split()) or type(error).__name__
                played.append(f"{spec.renderer} cannot play {spec.policy}: {detail[:200]}")
        return played

    result: list[Episode | str] = wait_for_cookbook(play_all())
    return result


def episode_presets() -> dict[str, EpisodeSpec]:
    """Named starting points: two renderers of one family, then every way an episode ends."""
    cut = EpisodeSpec("qwen3", "cut", max_generation_tokens=24)
    unread = EpisodeSpec("qwen3", "no_end", max_generation_tokens=24)
    forgiving = ParseErrorPolicy(
        max_consecutive=1, penalty_per_error=0.2, terminal_reward=-0.5, mask_error_turns=True
    )
    kept = EpisodeSpec("qwen3_5_preserve_thinking", "reasoning", max_generation_tokens=24)
    return {
        "Reasoning is stripped from history": replace(kept, renderer="qwen3_5"),
        "Reasoning stays in history": kept,
        "The next prompt is over budget": replace(kept, max_trajectory_tokens=100),
        "The first prompt is over budget": replace(kept, max_trajectory_tokens=40),
        "An answer is cut: the end": cut,
        "An answer is cut: go on": replace(cut, terminate_on_length=False),
        "An answer does not parse: the end": unread,
        "An answer does not parse: go on": replace(unread, terminate_on_parse_error=False),
        "An answer does not parse: masked": replace(unread, parse_error_policy=forgiving),
        "A tool call does not parse: ask again": EpisodeSpec(
            "qwen3", "broken_call", max_generation_tokens=24, parse_error_policy=forgiving
        ),
    }


def episode_spec(values: Mapping[str, Any]) -> EpisodeSpec:
    """The controls of section 7 as a spec; a budget of 0 is no budget."""
    policy = ParseErrorPolicy(
        max_consecutive=1, penalty_per_error=0.2, terminal_reward=-0.5, mask_error_turns=True
    )
    return EpisodeSpec(
        renderer=values["renderer"],
        policy=values["policy"],
        turns=values["turns"],
        seed=values["seed"],
        max_trajectory_tokens=values["max_trajectory_tokens"] or None,
        max_generation_tokens=values["max_generation_tokens"],
        terminate_on_length=values["terminate_on_length"],
        terminate_on_parse_error=values["terminate_on_parse_error"],
        parse_error_policy=policy if values["policy_on"] else None,
    )
