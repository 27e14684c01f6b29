"""How an episode ended, in words and as a table."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from sequence_extension.cookbook import PARSE_ERROR_MASKED_METRIC_KEY, StopReason
from sequence_extension.datums import build_datums
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.env.episodes import Episode, EpisodeSpec, run_episodes
from sequence_extension.text import count_of, number_text
from sequence_extension.turns import walk_turns


def explain_ending(episode: Episode) -> str:
    """Plain sentences on how an episode ended and what befell its turns, for markdown.

    Read from the trajectory (stop reason, metrics, logs, empty observations); the arguments
    of the environment give the limits, the renderer the length of a prompt over budget.
    """
    spec = episode.spec
    transitions = episode.rollout.trajectory.transitions
    spans = walk_turns(episode.rollout.trajectory)
    sentences: list[str] = []
    for turn, transition in enumerate(transitions):
        metrics, ended = transition.metrics, transition.episode_done
        reward = number_text(transition.reward)
        masked = (
            " Its tokens are masked: mask 0, advantage 0."
            if metrics.get(PARSE_ERROR_MASKED_METRIC_KEY)
            else ""
        )
        if "truncated_turn" in transition.logs:
            sentences.append(
                f"Turn {turn}'s answer was cut at {spec.max_generation_tokens} tokens. "
                "`terminate_on_length=False` kept it as it was and went on; "
                f"the turn's reward is {reward}."
            )
        elif metrics.get("max_tokens_reached") and len(transition.ac.tokens):
            sentences.append(
                f"Turn {turn}'s answer was cut at {spec.max_generation_tokens} tokens, before "
                "its end token. `terminate_on_length=True` ended the episode with "
                f"`context_overflow_reward`, {reward}. The tutor never saw the answer; its "
                "tokens are trained all the same."
            )
        elif metrics.get("max_tokens_reached"):
            length = episode.renderer.build_generation_prompt(list(episode.messages)).length
            sentences.append(
                f"The first prompt takes {length} tokens. With the {spec.max_generation_tokens} "
                f"reserved for an answer that is over the budget of "
                f"{spec.max_trajectory_tokens}, so the model was never asked; the cookbook calls "
                f"this stop `{episode.stop_reason}` all the same. What is left is "
                f"one empty turn with `context_overflow_reward`, {reward}: no datum comes of "
                "it, but the reward still counts in its group's mean."
            )
        elif metrics.get("context_overflow"):
            length = episode.renderer.build_generation_prompt(list(episode.messages)).length
            lost = metrics.get("correct")
            instead = "" if lost is None else f" instead of the {number_text(lost)} it had earned"
            sentences.append(
                f"Turn {turn} was answered, but the next prompt would take {length} tokens; with "
                f"the {spec.max_generation_tokens} reserved for an answer that is over the "
                f"budget of {spec.max_trajectory_tokens}. The episode ended there, and turn "
                f"{turn} got `context_overflow_reward`, {reward},{instead or ' as its reward'}."
            )
        elif metrics.get("parse_error") and transition.logs.get("parse_failure_kind") == "content":
            after = (
                "used up the policy's retries and ended the episode with its `terminal_reward`"
                if ended
                else "was answered with a correction and got minus the policy's `penalty_per_error`"
            )
            sentences.append(
                f"Turn {turn} is a tool call that does not parse: it {after}, {reward}.{masked}"
            )
            if turn + 1 < len(spans) and spans[turn + 1].splits:
                sentences.append(
                    "The parsed message keeps such a call outside its content, so the renderer "
                    f"writes the answer without it: turn {turn + 1} does not see the broken call, "
                    "and splits."
                )
        elif metrics.get("parse_error"):
            broken = f"Turn {turn}'s answer has no clean end, so it does not parse."
            if spec.parse_error_policy is not None:
                sentences.append(
                    f"{broken} A `ParseErrorPolicy` never retries that: the episode ended with "
                    f"its `terminal_reward`, {reward}.{masked}"
                )
            elif ended:
                sentences.append(
                    f"{broken} `terminate_on_parse_error=True` ended the episode with "
                    f"`failed_parse_reward`, {reward}."
                )
            else:
                sentences.append(
                    f"{broken} It got `failed_parse_reward`, {reward}, and "
                    "`terminate_on_parse_error=False` went on with an empty observation."
                )
        if turn and not transition.ob.length and len(transition.ac.tokens):
            sentences.append(
                f"Turn {turn} saw nothing at all: the first of its {len(transition.ac.tokens)} "
                "action tokens begins a datum, so it is no target and cannot be trained."
            )
    total = number_text(sum(episode.rewards))
    if episode.stop_reason == StopReason.COMPLETED:
        sentences.append(
            f"The tutor ended the episode after its last question, in turn "
            f"{len(transitions) - 1}. The rewards sum to {total}."
        )
    elif episode.stop_reason == StopReason.MAX_TURNS:
        sentences.append(
            f"No end came of itself: the limit of {len(transitions)} turns that this page sets "
            "stopped the episode."
        )
    return " ".join(sentences)


def turn_facts(episode: Episode) -> pd.DataFrame:
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
            "ends the episode": [
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


def episode_headline(diagnosis: Diagnosis, stop_reason: str | None) -> str:
    """What came of an episode in one line, for markdown."""
    turns = len(diagnosis.spans)
    built = diagnosis.built
    made = built.error_message or count_of(len(built.data), "datum")
    return f"{count_of(turns, 'turn')}, {made}; stop reason `{stop_reason or 'none'}`"
