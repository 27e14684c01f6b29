"""How an episode ended, in words and as a table."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from sequence_extension.cookbook import PARSE_ERROR_MASKED_METRIC_KEY, StopReason
from sequence_extension.datums import build_datums
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.env.episodes import Episode, EpisodeSpec, run_episodes
from sequence_extension.text import count_text, number_text
from sequence_extension.turns import walk_turns


def explain_ending(episode: Episode) -> str:
    """Plain sentences on how an episode ended and what befell its turns, for markdown.

    Read from the trajectory (stop reason, metrics, logs, empty observations); the arguments
    of the environment give the limits, the renderer the length of a prompt over budget.
    """
    spans = walk_turns(episode.rollout.trajectory)
    sentences: list[str] = []
    for turn, transition in enumerate(episode.rollout.trajectory.transitions):
        event = ending_of_turn(episode, turn)
        if event:
            sentences.append(event)
        broken_call = transition.logs.get("parse_failure_kind") == "content"
        if broken_call and turn + 1 < len(spans) and spans[turn + 1].splits:
            sentences.append(
                "The parsed message keeps such a call outside its content, so the renderer "
                f"writes the answer without it: turn {turn + 1} does not see the broken call, "
                "and splits."
            )
        if turn and not transition.ob.length and len(transition.ac.tokens):
            sentences.append(
                f"Turn {turn} saw nothing at all: the first of its {len(transition.ac.tokens)} "
                "action tokens begins a datum, so it is no target and cannot be trained."
            )
    turns = len(spans)
    if episode.stop_reason == StopReason.COMPLETED:
        sentences.append(
            f"The tutor ended the rollout after its last question, in turn {turns - 1}. "
            f"The rewards sum to {number_text(sum(episode.rewards))}."
        )
    elif episode.stop_reason == StopReason.MAX_TURNS:
        sentences.append(
            f"No end came of itself: the limit of {turns} turns that this page sets "
            "stopped the rollout."
        )
    return " ".join(sentences)


def ending_of_turn(episode: Episode, turn: int) -> str:
    """What befell one turn: cut, over budget, or unreadable; "" for an ordinary one."""
    transition = episode.rollout.trajectory.transitions[turn]
    metrics = transition.metrics
    if "truncated_turn" in transition.logs or metrics.get("max_tokens_reached"):
        return cut_ending_sentence(episode, turn)
    if metrics.get("context_overflow"):
        return overflow_ending_sentence(episode, turn)
    return unparsed_ending_sentence(episode, turn) if metrics.get("parse_error") else ""


def ending_prompt_length(episode: Episode) -> int:
    """Tokens of the prompt that the conversation at the end would make."""
    prompt = episode.renderer.build_generation_prompt(list(episode.messages))
    return int(prompt.length)


def cut_ending_sentence(episode: Episode, turn: int) -> str:
    """An answer that was cut, or a first prompt that left no room for one."""
    spec = episode.spec
    transition = episode.rollout.trajectory.transitions[turn]
    reward = number_text(transition.reward)
    if "truncated_turn" in transition.logs:
        return (
            f"Turn {turn}'s answer was cut at {spec.max_generation_tokens} tokens. "
            "`terminate_on_length=False` kept it as it was and went on; "
            f"the turn's reward is {reward}."
        )
    if len(transition.ac.tokens):
        return (
            f"Turn {turn}'s answer was cut at {spec.max_generation_tokens} tokens, before "
            "its end token. `terminate_on_length=True` ended the rollout with "
            f"`context_overflow_reward`, {reward}. The tutor never saw the answer; its "
            "tokens are trained all the same."
        )
    return (
        f"The first prompt takes {ending_prompt_length(episode)} tokens. With the "
        f"{spec.max_generation_tokens} reserved for an answer that is over the budget of "
        f"{spec.max_trajectory_tokens}, so the model was never asked; the cookbook calls "
        f"this stop `{episode.stop_reason}` all the same. What is left is "
        f"one empty turn with `context_overflow_reward`, {reward}: no datum comes of "
        "it, but the reward still counts in its group's mean."
    )


def overflow_ending_sentence(episode: Episode, turn: int) -> str:
    """A next prompt over budget, and the reward that it cost."""
    spec = episode.spec
    transition = episode.rollout.trajectory.transitions[turn]
    lost = transition.metrics.get("correct")
    instead = (
        " as its reward" if lost is None else f", instead of the {number_text(lost)} it had earned"
    )
    return (
        f"Turn {turn} was answered, but the next prompt would take "
        f"{ending_prompt_length(episode)} tokens; with the {spec.max_generation_tokens} reserved "
        f"for an answer that is over the budget of {spec.max_trajectory_tokens}. The rollout "
        f"ended there, and turn {turn} got `context_overflow_reward`, "
        f"{number_text(transition.reward)}{instead}."
    )


def unparsed_ending_sentence(episode: Episode, turn: int) -> str:
    """An answer, or a tool call in it, that does not parse."""
    transition = episode.rollout.trajectory.transitions[turn]
    reward = number_text(transition.reward)
    masked = (
        " Its tokens are masked: mask 0, advantage 0."
        if transition.metrics.get(PARSE_ERROR_MASKED_METRIC_KEY)
        else ""
    )
    if transition.logs.get("parse_failure_kind") == "content":
        after = (
            "used up the policy's retries and ended the rollout with its `terminal_reward`"
            if transition.episode_done
            else "was answered with a correction and got minus the policy's `penalty_per_error`"
        )
        return f"Turn {turn} is a tool call that does not parse: it {after}, {reward}.{masked}"
    broken = f"Turn {turn}'s answer has no clean end, so it does not parse."
    if episode.spec.parse_error_policy is not None:
        return (
            f"{broken} A `ParseErrorPolicy` never retries that: the rollout ended with "
            f"its `terminal_reward`, {reward}.{masked}"
        )
    if transition.episode_done:
        return (
            f"{broken} `terminate_on_parse_error=True` ended the rollout with "
            f"`failed_parse_reward`, {reward}."
        )
    return (
        f"{broken} It got `failed_parse_reward`, {reward}, and "
        "`terminate_on_parse_error=False` went on with an empty observation."
    )


def endings_turn_facts(episode: Episode) -> pd.DataFrame:
    """One row per turn, read from the trajectory: tokens, reward, metrics, logs."""

    def pairs(facts: Mapping[str, Any]) -> str:
        return ", ".join(
            f"{name} {value if isinstance(value, str) else number_text(value)}"
            for name, value in facts.items()
        )

    facts = pd.DataFrame(
        {
            "turn": range(len(episode.rewards)),
            "observation tokens": [t.ob.length for t in episode.rollout.trajectory.transitions],
            "action tokens": [len(t.ac.tokens) for t in episode.rollout.trajectory.transitions],
            "sampling stopped by": [
                # only a first prompt over budget is never sampled; an empty one is
                t.ac.stop_reason if t.ac.tokens else "not asked"
                for t in episode.rollout.trajectory.transitions
            ],
            "reward": [number_text(reward) for reward in episode.rewards],
            "ends the rollout": [
                "yes" if t.episode_done else "no" for t in episode.rollout.trajectory.transitions
            ],
            "metrics": [pairs(metrics) for metrics in episode.metrics],
            "logs": [pairs(logs) for logs in episode.logs],
        }
    )
    return facts.loc[:, [column for column in facts if (facts[column] != "").any()]]


def endings_table(presets: Mapping[str, EpisodeSpec]) -> pd.DataFrame:
    """Every preset played once: renderer, pupil, rewards, stop reason, turns, datums, ending."""
    rows: list[dict[str, Any]] = []
    for name, episode in zip(presets, run_episodes(list(presets.values())), strict=True):
        if isinstance(episode, str):
            rows.append({"preset": name, "stop reason": episode})
            continue
        built = build_datums(episode.rollout.trajectory)
        rows.append(
            {
                "preset": name,
                "renderer": episode.spec.renderer,
                "pupil": episode.spec.policy,
                "rewards": ", ".join(number_text(reward) for reward in episode.rewards),
                "stop reason": episode.stop_reason or "none",
                "turns": len(episode.rewards),
                "datums": len(built.data),
                "what happened": explain_ending(episode).replace("`", ""),
            }
        )
    return pd.DataFrame(rows).fillna("")


def ending_headline(diagnosis: Diagnosis, stop_reason: str | None) -> str:
    """What came of an episode in one line, for markdown."""
    turns = len(diagnosis.spans)
    built = diagnosis.built
    made = built.error_message or count_text(len(built.data), "datum")
    return f"{count_text(turns, 'turn')}, {made}; stop reason `{stop_reason or 'none'}`"
