"""Every renderer against every policy."""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from sequence_extension.break_table import break_table_words
from sequence_extension.diagnosis import diagnose
from sequence_extension.env.episodes import Episode, EpisodeSpec, run_episodes
from sequence_extension.env.policies import policy_names
from sequence_extension.env.renderers import renderer_names
from sequence_extension.env.token_preserving import REASON_LOG
from sequence_extension.env.vocabulary import offline_vocabulary
from sequence_extension.text import count_text, visible_text
from sequence_extension.wording import cause_wording

# A renderer's claim beside one rollout: a mark, and what it says.
VERDICTS = {
    "kept": ("", "claims extension, stays one datum"),
    "better": ("+", "does not claim it, yet stays one datum"),
    "split": ("·", "does not claim it, and splits"),
    "broken": ("✕", "claims extension, yet splits"),
    "none": ("", "nothing to compare"),
}


def matrix_table_verdict(claims: bool | None, turns: int, datums: int) -> str:
    """A key of `VERDICTS`: what a renderer claims beside what a rollout showed.

    Args:
        claims: Its `has_extension_property`; None where it could not be built.
        turns, datums: Of one rollout. With fewer than two turns nothing could split.
    """
    if claims is None or turns < 2:
        return "none"
    if datums == 1:
        return "kept" if claims else "better"
    return "broken" if claims else "split"


def matrix_table_row(spec: EpisodeSpec, episode: Episode | str) -> dict[str, Any]:
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
    row["verdict"] = matrix_table_verdict(claims, turns, row["datums"])
    row["breaks"] = len(diagnosis.breaks)
    if diagnosis.breaks:
        first = diagnosis.breaks[0]
        before, held, came = break_table_words(diagnosis, first)
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
        One row per pair, as in `matrix_table_row`, renderers and policies in the order given.
    """
    names = renderer_names() if names is None else list(names)
    policies = list(policy_names()) if policies is None else list(policies)
    specs = [
        EpisodeSpec(renderer=name, policy=policy, keep_tokens=keep_tokens)
        for name in names
        for policy in policies
    ]
    return pd.DataFrame(
        matrix_table_row(spec, episode)
        for spec, episode in zip(specs, run_episodes(specs, offline_vocabulary()), strict=True)
    )


def compare_matrix_tables(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
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


def matrix_table_cell_count(datums: Any, turns: Any) -> str:
    """Datums over turns, as a cell of the matrix shows them; ? where there is none."""
    return "?" if pd.isna(datums) else f"{datums:.0f}/{turns:.0f}"


def matrix_table_cell_words(
    label: str, members: Sequence[Mapping[str, Any]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A cell in words: what came of it and where it first breaks; and the texts at the break.

    Args:
        label: Of the row.
        members: Rows of `matrix_table`, one per renderer that the cell stands for. Where they
            break differently, the first one's break is told, by its name.
    """
    first = members[0]
    count = "no datum" if pd.isna(first["datums"]) else count_text(int(first["datums"]), "datum")
    made = count if pd.isna(first["datums"]) else f"{count} of {first['turns']:.0f} turns"
    ending = "" if first["ending"] == "completed" else first["reason"] or first["ending"]
    what = f"{label}, pupil {first['policy']}: {made}; {VERDICTS[first['verdict']][1]}"
    what += f"; ended with {ending}" if ending else ""
    if not first["cause"]:
        return (what,), ()
    names = ["turn", "position", "cause", "before", "held", "came"]
    alike = len({tuple(str(cell[name]) for name in names) for cell in members}) == 1
    whose = "" if alike else f" of {first['renderer']}"
    place = f"turn {first['turn']:.0f}, position {first['position']:.0f}"
    before, held, came = (visible_text(first[name], 60) for name in names[3:])
    return (
        (what, f"first break{whose}: {place}: {cause_wording(first['cause'])}"),
        (f"both had: {before}", f"held: {held}", f"the next prompt has: {came}"),
    )


def matrix_table_group_name(names: Sequence[str]) -> str:
    """What renderers that behave alike are called in one row."""
    if len(names) == 1:
        return names[0]
    families = list(dict.fromkeys(re.sub("v?[0-9].*|_.*", "", name) for name in names))
    if len(families) == 1:
        parts = zip(*(name.split("_") for name in names), strict=False)
        alike = itertools.takewhile(lambda words: len(set(words)) == 1, parts)
        return f"{len(names)} {'_'.join(words[0] for words in alike) or families[0]} variants"
    if len(families) > 3:
        return f"{len(names)} renderers of {len(families)} families"
    return f"{len(names)} of {', '.join(families)}"


def matrix_table_groups(table: pd.DataFrame) -> pd.DataFrame:
    """Renderers that claim alike and count alike under every policy, a row per group.

    Returns:
        Columns claims, members (a tuple), split (policies under which they split), label, note
        (how often, and what is remarkable). Those that claim extension come first, and in each
        part those that split most.
    """
    counts: Any = zip(table["datums"].fillna(0), table["turns"], strict=True)
    cells = table.assign(cell=list(counts))
    alike = cells.groupby(["renderer", "claims"], sort=False)["cell"].agg(tuple).reset_index()
    rows: dict[Any, list[str]] = {}
    for name, claims, row in alike.itertuples(index=False, name=None):
        rows.setdefault((claims, row), []).append(name)
    order = {"yes": 0, "no": 1, "unknown": 2}
    listed = [
        (claims, tuple(names), sum(datums > 1 for datums, _ in row))
        for (claims, row), names in rows.items()
    ]
    listed.sort(key=lambda group: (order[group[0]], -group[2]))
    groups = pd.DataFrame(listed, columns=["claims", "members", "split"])
    groups["label"] = groups["members"].map(matrix_table_group_name)
    groups["note"] = [f"{count} of {table['policy'].nunique()}" for count in groups["split"]]
    # of those that claim it, the one that splits most; of the others, the one that splits least
    for at in groups.index[groups["claims"] == "yes"][:1]:
        groups.loc[at, "note"] = f"even {groups.loc[at, 'note']}"
    for at in groups.index[groups["claims"] == "no"][-1:]:
        groups.loc[at, "note"] = f"only {groups.loc[at, 'note']}"
    return groups


def matrix_table_facts(table: pd.DataFrame) -> pd.DataFrame:
    """The matrix as a table, a row per renderer: counts and mark of each cell."""
    told = [
        f"{matrix_table_cell_count(datums, turns)} {VERDICTS[verdict][0]}".strip()
        for datums, turns, verdict in table[["datums", "turns", "verdict"]].to_numpy()
    ]
    renderers, policies = table["renderer"].unique(), table["policy"].unique()
    wide = table.assign(told=told).pivot(
        index=["renderer", "claims"], columns="policy", values="told"
    )
    wide = wide[policies].reset_index().rename_axis(columns=None)
    return wide.set_index("renderer").loc[renderers].reset_index()


def matrix_table_finding(table: pd.DataFrame) -> str:
    """The matrix in one sentence: how often the claim held, in both directions."""
    count = {verdict: int((table["verdict"] == verdict).sum()) for verdict in VERDICTS}
    return (
        f"{count['broken']} of {count['kept'] + count['broken']} rollouts split although their "
        f"renderer claims extension; {count['better']} of {count['better'] + count['split']} stay "
        "one datum although theirs does not"
    )
