"""A rollout and its datums as one table, a row per position."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sequence_extension.cookbook import tinker
from sequence_extension.datums import Built, datum_tensor
from sequence_extension.text import count_text, encodable_text, number_text, part_text, visible_text
from sequence_extension.turns import Run

COLUMNS = [
    "datum", "position", "token", "label", "text", "turn", "part",
    "target", "target_label", "mask", "advantage", "logprob",
]  # fmt: skip


def alignment_table(
    built: Built,
    runs: Sequence[Run],
    vocab: Mapping[int, str] | None = None,
    only: Iterable[int] | None = None,
) -> pd.DataFrame:
    """One row per position of every datum's sequence (n tokens, hence n - 1 targets).

    Row p holds token p and, shifted by one, what the loss sees at input p: `target` (token
    p + 1), `mask`, `advantage` and `logprob` of that target. In the last row of a datum these
    are missing: the last token is never an input.

    Args:
        built: Datums of `trajectory_to_data`; the only source of every number.
        runs: Turn and part of each stretch, from `turn_runs`.
        vocab: Text of token ids where known.
        only: Indices of the datums wanted; None for all. A row takes about a microsecond
            and 300 bytes, so long rollouts are drawn a datum at a time.

    Returns:
        Columns datum, position, token, label, text, turn, part, target, target_label, mask,
        advantage, logprob. `token` of an image position is -1.

    Raises:
        ValueError: The runs do not add up to the datums, so turns cannot be attributed.
    """
    words: Mapping[int, str] = {} if vocab is None else vocab
    runs_of: dict[int, list[Run]] = {}
    for run in runs:
        runs_of.setdefault(run.datum, []).append(run)
    if len(built.data) != len(runs_of):
        raise ValueError(
            f"trajectory_to_data made {len(built.data)} datums where the prefix rule "
            f"explains {len(runs_of)}."
        )
    wanted = range(len(built.data)) if only is None else sorted(set(only))
    frames = [alignment_rows(built.data[index], index, runs_of[index], words) for index in wanted]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=COLUMNS)


def alignment_rows(
    datum: tinker.Datum, index: int, runs: Sequence[Run], words: Mapping[int, str]
) -> pd.DataFrame:
    """The rows of `alignment_table` for one datum.

    Args:
        datum, index: One datum and its number.
        runs: Its stretches.
        words: Text of token ids where known.

    Raises:
        ValueError: The runs do not add up to the datum.
    """
    targets = datum_tensor(datum, "target_tokens")
    tokens: list[int] = []
    for chunk in datum.model_input.chunks:
        if isinstance(chunk, tinker.EncodedTextChunk):
            tokens.extend(chunk.tokens)
        else:
            tokens.extend([-1] * chunk.length)
    tokens.append(int(targets[-1]))
    count, lengths = len(tokens), [run.length for run in runs]
    if sum(lengths) != count or len(targets) != count - 1:
        raise ValueError(
            f"Datum {index} holds {count} tokens, but its turns account for {sum(lengths)}."
        )
    labels = ["img" if token == -1 else str(token) for token in tokens]
    texts = {token: encodable_text(words[token]) for token in set(tokens) if token in words}

    def ended(values: Sequence[float]) -> NDArray[np.float64]:
        """What belongs to targets: nothing in the last row."""
        return np.array([*values, math.nan], dtype=np.float64)

    columns: list[Any] = [
        index,
        np.arange(count),
        tokens,
        labels,
        [texts.get(token, "") for token in tokens] if texts else "",
        np.repeat([run.turn for run in runs], lengths),
        np.repeat([run.part for run in runs], lengths),
        ended(targets),
        [*labels[1:], ""],
        *(ended(datum_tensor(datum, name)) for name in ("mask", "advantages", "logprobs")),
    ]
    return pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))


def alignment_counts(built: Built, runs: Sequence[Run]) -> pd.DataFrame:
    """One row per datum: tokens by part, and what the mask says; all lengths in positions.

    Returns:
        Columns datum, turns, tokens, inputs, observation, action, masked (action tokens of
        masked turns), opens (part of its first token), trained (sum of the mask). inputs is
        `model_input.length`, one less than tokens.
    """
    rows = []
    runs_of: dict[int, list[Run]] = {}
    for run in runs:
        runs_of.setdefault(run.datum, []).append(run)
    for index, datum in enumerate(built.data):
        mine = runs_of[index]
        turns = list(dict.fromkeys(run.turn for run in mine))
        rows.append(
            {
                "datum": index,
                "turns": str(turns[0]) if len(turns) == 1 else f"{turns[0]} to {turns[-1]}",
                "tokens": sum(run.length for run in mine),
                "inputs": datum.model_input.length,
                "observation": sum(run.length for run in mine if run.part == "O"),
                "action": sum(run.length for run in mine if run.part == "A"),
                "masked": sum(run.length for run in mine if run.masked),
                "opens": part_text(mine[0].part, mine[0].masked),
                "trained": int(sum(datum_tensor(datum, "mask"))),
            }
        )
    return pd.DataFrame(rows)


def alignment_counts_table(counts: pd.DataFrame) -> pd.DataFrame:
    """`alignment_counts` with readable column names, and sums where there are several datums."""
    shown = counts.rename(
        columns={
            "inputs": "inputs = targets",
            "observation": "observation tokens",
            "action": "action tokens",
            "masked": "masked action tokens",
            "opens": "opens with",
            "trained": "sum(mask)",
        }
    )
    if len(shown) < 2:
        return shown
    sums = {name: shown[name].sum() for name in shown.columns if name not in ("datum", "turns")}
    total = pd.DataFrame([{**sums, "datum": "all", "turns": "", "opens with": ""}])
    return pd.concat([shown, total[shown.columns]], ignore_index=True)


def alignment_conservation(counts: pd.DataFrame) -> tuple[str, str]:
    """The conservation law of the mask with the numbers of `alignment_counts`; "holds" or not.

    sum(mask) = action tokens - action tokens of masked turns - datums that open with an action
    (a masked one is counted already): no other sampled token is lost, none is trained twice.
    Terms that are 0 are left out.
    """
    trained, action = int(counts["trained"].sum()), int(counts["action"].sum())
    masked = int(counts["masked"].sum())
    opening = int((counts["opens"] == "action").sum())
    holds = trained == action - masked - opening
    words, numbers = "sum(mask) = action tokens", str(action)
    if masked:
        words += " - those of masked turns (answers that did not parse)"
        numbers += f" - {masked}"
    if opening:
        words += " - datums that open with an action (nothing predicts their first token)"
        numbers += f" - {opening}"
    return (
        f"{words}: {trained} {'=' if holds else '≠'} {numbers}",
        "holds" if holds else "does not hold",
    )


def alignment_window(table: pd.DataFrame, start: int, size: int) -> pd.DataFrame:
    """Rows of one datum that show `size` inputs from position `start` on, with their targets.

    The last target is the next input, so one row more is taken where the datum has one.
    """
    start = max(0, min(start, len(table) - 2))
    return table.iloc[start : start + size + 1]


def alignment_facts(table: pd.DataFrame) -> pd.DataFrame:
    """The columns of the strips as a readable table: a row per input with its target."""
    # a window may end inside its datum: its last row has a target that is not in the table
    rows = table.iloc[:-1]
    rows = rows[~rows["mask"].isna()]
    after = table.shift(-1).loc[rows.index]
    parts = {"O": "observation", "A": "action"}
    return pd.DataFrame(
        {
            "datum": rows["datum"].to_numpy(),
            "from turn": after["turn"].astype(int).to_numpy(),
            "part": [parts[part] for part in after["part"]],
            "mask": [number_text(value) for value in rows["mask"]],
            "advantage": [number_text(value) for value in rows["advantage"]],
            "position": rows["position"].to_numpy(),
            "input": rows["label"].to_numpy(),
            "target": rows["target_label"].to_numpy(),
            "target's text": [visible_text(text) for text in after["text"]],
            "logprob": [number_text(value) for value in rows["logprob"]],
        }
    )


def alignment_stretches(facts: pd.DataFrame) -> pd.DataFrame:
    """`alignment_facts` with a row per stretch of one turn, part, mask and advantage.

    A seventh of the bytes, and short enough to be listened to: every target still has its
    position, id, text and log-probability, and is the input of the position after.
    """
    alike = ["datum", "from turn", "part", "mask", "advantage"]
    rows = []
    for _, group in itertools.groupby(
        facts.to_dict("records"), key=lambda row: [row[name] for name in alike]
    ):
        stretch = list(group)
        targets = [
            f"{row['position']}: {row['target']} {text}".strip()
            + ("" if row["logprob"] == "0" else f" ({row['logprob']})")
            for row in stretch
            for text in [row["target's text"]]
        ]
        rows.append(
            {
                **{name: stretch[0][name] for name in alike},
                "first input": stretch[0]["input"],
                "position: target, text (logprob, where not 0)": " | ".join(targets),
            }
        )
    return pd.DataFrame(rows)


def alignment_finding(table: pd.DataFrame) -> str:
    """One sentence for one datum of `alignment_table` or `alignment_window`: what is trained."""
    targets = len(table) - 1
    trained = sum(value == 1 for value in table["mask"].tolist()[:targets])
    signed = sum(value != 0 for value in table["advantage"].tolist()[:targets])
    first, last = int(table["position"].iloc[0]), int(table["position"].iloc[-1])
    name, these = f"Datum {table['datum'].iloc[0]}", ""
    if first or not pd.isna(table["mask"].iloc[-1]):
        name, these = f"{name}, only positions {first} to {last - 1}", "these "
    if not trained:
        return f"{name}: none of {these}{count_text(targets, 'target')} trained"
    if not signed:
        return f"{name}: {trained} of {targets} targets have mask 1, but advantage 0: no gradient"
    return f"{name}: {trained} of {these}{targets} targets trained, {targets - trained} context"
