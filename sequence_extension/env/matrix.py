"""Every renderer against every policy."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from sequence_extension.break_table import break_words
from sequence_extension.diagnosis import diagnose
from sequence_extension.env.episodes import Episode, EpisodeSpec, run_episodes
from sequence_extension.env.policies import policy_names
from sequence_extension.env.renderers import renderer_names
from sequence_extension.env.token_preserving import REASON_LOG
from sequence_extension.env.vocabulary import offline_tokenizer


def claim_verdict(claims: bool | None, turns: int, datums: int) -> str:
    """A key of `MATRIX_LOOK`: what a renderer claims beside what a rollout showed.

    Args:
        claims: Its `has_extension_property`; None where it could not be built.
        turns, datums: Of one rollout. With fewer than two turns nothing could split.
    """
    if claims is None or turns < 2:
        return "none"
    if datums == 1:
        return "kept" if claims else "better"
    return "broken" if claims else "split"


def matrix_row(spec: EpisodeSpec, episode: Episode | str) -> dict[str, Any]:
    """One cell of the matrix as a row: the counts, the first break, and how the episode ended.

    Args:
        spec: What was to be played.
        episode: The episode, or the reason why there is none.
    """
    claims = None if isinstance(episode, str) else bool(episode.renderer.has_extension_property)
    row: dict[str, Any] = {
        "renderer": spec.renderer,
        "claims": "unknown" if claims is None else "yes" if claims else "no",
        "policy": spec.policy,
        "datums": None,
        "turns": None,
        "verdict": "none",
        "breaks": 0,
        "turn": None,
        "position": None,
        "cause": "",
        "before": "",
        "held": "",
        "came": "",
        "ending": "",
        "reason": "",
        "tokens": None,
        "refused": "",
    }
    if isinstance(episode, str):
        return {**row, "reason": episode}
    diagnosis = diagnose(episode.rollout)
    turns = len(diagnosis.spans)
    row["turns"] = turns
    row["ending"] = episode.stop_reason or "unknown"
    if diagnosis.built.error_message is not None:
        return {**row, "reason": diagnosis.built.error_message}
    row["datums"] = len(diagnosis.built.data)
    row["tokens"] = sum(datum.model_input.length for datum in diagnosis.built.data)
    row["refused"] = next(
        (str(logs[REASON_LOG]) for logs in episode.logs if REASON_LOG in logs), ""
    )
    row["verdict"] = claim_verdict(claims, turns, row["datums"])
    row["breaks"] = len(diagnosis.breaks)
    if diagnosis.breaks:
        first = diagnosis.breaks[0]
        before, held, came = break_words(diagnosis, first)
        row.update(
            turn=first.turn,
            position=first.position,
            cause=first.cause,
            before=before,
            held=held,
            came=came,
        )
    return row


def matrix_table(
    names: Sequence[str] | None = None,
    policies: Sequence[str] | None = None,
    keep_tokens: bool = False,
) -> pd.DataFrame:
    """Every renderer against every policy, each cell played with `run_episodes`.

    Args:
        names: Renderers; all that the installed cookbook knows when None.
        policies: Behaviours; all of `policy_names` when None.
        keep_tokens: Played through `TokenPreservingEnv`.

    Returns:
        One row per pair, as in `matrix_row`, renderers and policies in the order given.
    """
    names = renderer_names() if names is None else list(names)
    policies = list(policy_names()) if policies is None else list(policies)
    specs = [
        EpisodeSpec(renderer=name, policy=policy, keep_tokens=keep_tokens)
        for name in names
        for policy in policies
    ]
    return pd.DataFrame(
        matrix_row(spec, episode)
        for spec, episode in zip(specs, run_episodes(specs, offline_tokenizer()), strict=True)
    )


def compare_matrices(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """The same cells through two environments, beside each other.

    Args:
        before, after: Of `matrix_table`, with and without `keep_tokens`, the same cells.

    Returns:
        One row per cell that gave datums in both: renderer, policy, turns, datums_before,
        datums_after, tokens_before, tokens_after, and in `refused` why tokens were not kept.
    """
    keys = ["renderer", "policy", "turns"]
    counts = ["datums", "tokens"]
    both = before[[*keys, *counts]].merge(
        after[[*keys, *counts, "refused"]], on=keys, suffixes=("_before", "_after")
    )
    return both.dropna(subset=["datums_before", "datums_after"]).reset_index(drop=True)
