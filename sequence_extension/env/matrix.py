"""Every renderer against every policy."""

import contextlib
import gc
import threading
import time
from collections.abc import Sequence
from typing import Any

import marimo as mo
import pandas as pd

from sequence_extension.break_table import break_words
from sequence_extension.diagnosis import diagnose
from sequence_extension.env.episodes import EpisodeSpec, run_episodes
from sequence_extension.env.policies import policy_names
from sequence_extension.env.renderers import renderer_names
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


def matrix_row(claims: bool | None, spec: EpisodeSpec, episode: Any) -> dict[str, Any]:
    """One cell of the matrix as a row: the counts, the first break, and how the episode ended.

    Args:
        claims: `has_extension_property` of the renderer, None where there is none.
        spec: What was to be played.
        episode: An `Episode`, or the reason why there is none.
    """
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
    patience: float = 1.0,
) -> pd.DataFrame:
    """Every renderer against every policy, each cell played with `run_episodes`.

    Args:
        names: Renderers; all that the installed cookbook knows when None.
        policies: Behaviours; all of `policy_names` when None.
        patience: Seconds after which a progress bar appears.

    Returns:
        One row per pair, as in `matrix_row`, renderers and policies in the order given.
    """
    names = renderer_names() if names is None else list(names)
    policies = list(policy_names()) if policies is None else list(policies)
    tokenizer = offline_tokenizer()
    rows: list[dict[str, Any]] = []
    started = time.monotonic()
    batch = 6  # renderers played on one event loop: starting one costs as much as a rollout
    with contextlib.ExitStack() as stack:
        if gc.isenabled():  # a fifth of the time would go into looking for cycles, of none
            gc.disable()
            stack.callback(gc.enable)
        bar: Any = None
        for start in range(0, len(names), batch):
            if bar is None and time.monotonic() - started > patience:
                bar = stack.enter_context(
                    mo.status.progress_bar(
                        total=len(names),
                        title="Every pupil plays through every renderer",
                        remove_on_exit=True,
                    )
                )
                bar.update(increment=start)
            specs = [
                EpisodeSpec(renderer=name, policy=policy)
                for name in names[start : start + batch]
                for policy in policies
            ]
            episodes = run_episodes(specs, tokenizer)
            claims = {
                episode.spec.renderer: bool(episode.renderer.has_extension_property)
                for episode in episodes
                if not isinstance(episode, str)
            }
            rows.extend(
                matrix_row(claims.get(spec.renderer), spec, episode)
                for spec, episode in zip(specs, episodes, strict=True)
            )
            if bar is not None:
                bar.update(increment=len(specs) // len(policies))
    return pd.DataFrame(rows)


def shared_matrix(version: str) -> pd.DataFrame:
    """The whole matrix, played once per process: later readers of a served app pay nothing.

    Each reader runs the notebook anew, so nothing of a session can hold it. It is kept with
    the offline vocabulary, the one object of this notebook that outlives a session.

    Args:
        version: Whatever tells one state of the notebook from another.
    """
    holder = offline_tokenizer().__dict__
    lock = holder.setdefault("matrix_lock", threading.Lock())
    with lock:  # a second reader waits for the first instead of playing it all again
        stored = holder.get("matrix")
        if stored is None or stored[0] != version:
            stored = (version, matrix_table())
            holder["matrix"] = stored
    return stored[1].copy()
