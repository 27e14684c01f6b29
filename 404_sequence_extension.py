# /// script
# requires-python = ">=3.11,<3.15"
# dependencies = [
#     "altair>=6.0",
#     "marimo>=0.20",
#     "pandas>=2.2",
#     "pydantic>=2.7",
#     "rapidfuzz>=3.9",
#     "tinker>=0.10",
#     "tinker-cookbook>=0.5.8",
# ]
# ///
"""Tutorial 404: Sequence extension in multi-turn RL.

How multi-turn rollouts become training data, and why they split. The story comes
first (sections 1 to 11), the workshop behind it (rooms of pure functions).
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(
    width="medium",
    app_title="Tutorial 404: Sequence extension in multi-turn RL",
)

with app.setup(hide_code=True):
    import asyncio
    import html
    import json
    import math
    import re
    import sys
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from dataclasses import dataclass, field, replace
    from pathlib import Path
    from typing import Any, Literal

    import altair as alt
    import marimo as mo
    import numpy as np
    import pandas as pd
    import tinker
    from tinker_cookbook.completers import TokensWithLogprobs
    from tinker_cookbook.rl.data_processing import trajectory_to_data
    from tinker_cookbook.rl.types import (
        PARSE_ERROR_MASKED_METRIC_KEY,
        Trajectory,
        Transition,
    )

    # Charts carry their rows as one inline CSV string: the smallest form, with no row limit.
    # CSV knows no types, so every encoding names its type.
    # marimo registers the transformer inside its kernel only; a plain import goes without.
    if "marimo_inline_csv" in alt.data_transformers.names():
        alt.data_transformers.enable("marimo_inline_csv")

    # The one palette (Okabe-Ito hues). fill: the cell; ink: text on that fill. Observation and
    # action differ in hue and letter; the break alone is red and is always marked as well.
    PALETTE = {
        "observation": {"fill": "#8CC8EC", "ink": "#0B1F2E", "letter": "O"},
        "action": {"fill": "#E69F00", "ink": "#1F1400", "letter": "A"},
        "zero": {"fill": "#E4E7EB", "ink": "#3A424C", "letter": "0"},
        "break": {"fill": "#B3001B", "ink": "#FFFFFF", "letter": "✕"},
        "positive": {"fill": "#007A5E", "ink": "#FFFFFF", "letter": "+"},
        "negative": {"fill": "#8A4F7D", "ink": "#FFFFFF", "letter": "-"},
    }
    MAX_TOKEN_ID = 2**31 - 1


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # Tutorial 404: Sequence extension in multi-turn RL
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 1. The idea
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 2. Build a trajectory
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 3. The datums, token by token
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 4. Why did it split?
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 5. What it costs
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 6. One number per trajectory
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 7. A multi-turn environment
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 8. Which renderers extend?
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 9. Your own rollouts
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 10. Check yourself
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 11. Summary
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # The workshop

    ## Room: rollouts

    Text, JSON and widgets to `Trajectory`, and back: reading, validation, dump, scenarios.
    """)
    return


@app.class_definition(hide_code=True)
@dataclass(frozen=True)
class Rollout:
    """One trajectory with what its source said about it.

    Attributes:
        name: Shown wherever the rollout is listed; any text, escaped where HTML is made.
        trajectory: The cookbook's own object; observations may hold image chunks.
        vocab: Text of token ids where known; ids that are missing have no text.
        group: Rollouts of one prompt share a group key; None stands alone.
    """

    name: str
    trajectory: Trajectory
    vocab: Mapping[int, str] = field(default_factory=dict)
    group: str | None = None


@app.class_definition(hide_code=True)
@dataclass(frozen=True)
class TurnDraft:
    """One turn as typed in the editor: raw text, nothing parsed.

    Attributes:
        ob: New observation tokens ("extends", "edits") or the whole observation ("replaces").
        ac: Action tokens.
        logprobs: One number per action token, or `auto` for made-up ones.
        reward: Reward of the turn.
        history: What the observation does with the previous observation + action: carries it
            over ("extends"), changes it by `edits` first ("edits"), or drops it ("replaces").
        edits: Changes to the carried history by position, separated by `;`:
            `7: 13` puts token 13 in place of token 7, `7-9:` removes three tokens,
            `7+: 13 14` inserts before position 7.
        masked: The turn carries the cookbook's parse-error mask metric.
    """

    ob: str
    ac: str
    logprobs: str = "auto"
    reward: str = "0"
    history: Literal["extends", "edits", "replaces"] = "extends"
    edits: str = ""
    masked: bool = False


@app.class_definition(hide_code=True)
@dataclass(frozen=True)
class FieldIssue:
    """One sentence about one field of the editor.

    Attributes:
        turn: Turn the field belongs to, from 0.
        field: Name of the `TurnDraft` attribute.
        message: The sentence; names turn and index.
        fatal: True when no trajectory can be built; False when the cookbook accepts the value
            but the reader should look.
    """

    turn: int
    field: str
    message: str
    fatal: bool = True


@app.class_definition(hide_code=True)
@dataclass(frozen=True)
class Scenario:
    """A named starting point for the editor and the staircase."""

    key: str
    title: str
    drafts: tuple[TurnDraft, ...]
    vocab: Mapping[int, str]
    lesson: str


@app.function(hide_code=True)
def image_chunk(image_id: str, tokens: int) -> tinker.types.ImageChunk:
    """Stand-in for a picture: the id is its bytes, so equal ids are equal chunks."""
    return tinker.types.ImageChunk(
        data=image_id.encode("utf-8", "surrogatepass"), format="png", expected_tokens=tokens
    )


@app.function(hide_code=True)
def elements_to_model_input(elements: Sequence[Any]) -> tinker.ModelInput:
    """Flat elements (token ids and image chunks) to a `ModelInput`."""
    chunks: list[Any] = []
    run: list[int] = []
    for element in elements:
        if isinstance(element, int):
            run.append(element)
            continue
        if run:
            chunks.append(tinker.EncodedTextChunk(tokens=run))
            run = []
        chunks.append(element)
    if run:
        chunks.append(tinker.EncodedTextChunk(tokens=run))
    return tinker.ModelInput(chunks=chunks)


@app.function(hide_code=True)
def model_input_to_elements(model_input: tinker.ModelInput) -> list[Any]:
    """A `ModelInput` as flat elements: token ids, and each image chunk as one element."""
    elements: list[Any] = []
    for chunk in model_input.chunks:
        if isinstance(chunk, tinker.EncodedTextChunk):
            elements.extend(chunk.tokens)
        else:
            elements.append(chunk)
    return elements


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Room: alignment

    A trajectory and its datums to one table, a row per position: token, target, mask,
    advantage, logprob, turn, part, datum.
    """)
    return


@app.class_definition(hide_code=True)
@dataclass(frozen=True)
class TurnSpan:
    """Where one turn lies. All lengths count flat elements (an image is one).

    Attributes:
        turn: Index of the turn.
        datum: Index of the datum the turn ends up in.
        held: Length of the running sequence before the turn: the previous turn's
            observation + action, because whatever merged is contained in them.
        position: Length of the common prefix of that sequence and this turn's observation.
        observation: Length of this turn's observation.
        action: Length of this turn's action.
        masked: The turn carries the parse-error mask metric.
    """

    turn: int
    datum: int
    held: int
    position: int
    observation: int
    action: int
    masked: bool

    @property
    def splits(self) -> bool:
        """True when the observation does not continue the running sequence."""
        return self.position < self.held


@app.function(hide_code=True)
def common_prefix_length(left: Sequence[Any], right: Sequence[Any]) -> int:
    """Length of the common prefix of two lists, by halving (compares run in C)."""
    low, high = 0, min(len(left), len(right))
    if left[:high] == right[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle
    return low


@app.function(hide_code=True)
def walk_turns(trajectory: Trajectory) -> list[TurnSpan]:
    """Follow the prefix rule of `trajectory_to_data` turn by turn.

    The datums themselves always come from the cookbook; this walk only says which turn
    went where, and `alignment_table` refuses to draw when the two disagree.
    """
    spans: list[TurnSpan] = []
    held: list[Any] = []
    datum = 0
    for turn, transition in enumerate(trajectory.transitions):
        observation = model_input_to_elements(transition.ob)
        position = common_prefix_length(held, observation)
        if position < len(held):
            datum += 1
        action = transition.ac.tokens
        masked = float(transition.metrics.get(PARSE_ERROR_MASKED_METRIC_KEY, 0.0)) >= 1.0
        spans.append(
            TurnSpan(turn, datum, len(held), position, len(observation), len(action), masked)
        )
        observation.extend(action)
        held = observation
    return spans


@app.class_definition(hide_code=True)
@dataclass(frozen=True)
class Built:
    """What `trajectory_to_data` made of a trajectory: datums, or the reason there are none.

    Attributes:
        data: The cookbook's datums; empty on error.
        error_code: Class name of the exception, or None.
        error_message: A plain sentence that names the turn, or None.
    """

    data: tuple[tinker.Datum, ...]
    error_code: str | None = None
    error_message: str | None = None


@app.function(hide_code=True)
def explain_build_error(trajectory: Trajectory, error: Exception) -> str:
    """A plain sentence for an exception of `trajectory_to_data`, naming the turn.

    Source of the rules: the asserts and checks in `trajectory_to_data`,
    `TokensWithLogprobs.logprobs` and `create_rightshifted_model_input_and_leftshifted_targets`.
    """
    transitions = trajectory.transitions
    if isinstance(error, ValueError):
        for turn, transition in enumerate(transitions):
            if transition.ac.maybe_logprobs is None:
                return (
                    f"Turn {turn} has no logprobs. Sample with logprobs, or this rollout "
                    "cannot become training data."
                )
    if isinstance(error, AssertionError):
        for turn, transition in enumerate(transitions):
            given = transition.ac.maybe_logprobs
            if given is not None and len(given) != len(transition.ac.tokens):
                return (
                    f"Turn {turn} has {len(transition.ac.tokens)} action tokens but "
                    f"{len(given)} logprobs. Give one logprob per action token."
                )
    spans = walk_turns(trajectory)
    for span in spans:
        last_of_datum = span.turn + 1 == len(spans) or spans[span.turn + 1].splits
        if not last_of_datum:
            continue
        transition = transitions[span.turn]
        length = transition.ob.length + len(transition.ac.tokens)
        if length and length < 2:
            return (
                f"The datum that ends with turn {span.turn} holds a single token. "
                "At least 2 are needed: one to read, one to predict."
            )
        chunks = [] if transition.ac.tokens else transition.ob.chunks
        if chunks and not isinstance(chunks[-1], tinker.EncodedTextChunk):
            return (
                f"The datum that ends with turn {span.turn} ends on an image. "
                "An image cannot be a target: the last element must be a token."
            )
    return f"trajectory_to_data refused this rollout: {error}"


@app.function(hide_code=True)
def build_datums(trajectory: Trajectory, advantage: float = 1.0) -> Built:
    """Call the real `trajectory_to_data`; on an exception keep its class and say why.

    Args:
        trajectory: Any trajectory, also a faulty one.
        advantage: The one number every trained action token gets.

    Returns:
        The datums, or an empty tuple with `error_code` and `error_message` set.
    """
    try:
        return Built(tuple(trajectory_to_data(trajectory, advantage)))
    except Exception as error:  # any refusal becomes a sentence
        return Built((), type(error).__name__, explain_build_error(trajectory, error))


@app.class_definition(hide_code=True)
@dataclass(frozen=True)
class Run:
    """A stretch of one datum's sequence that came from one turn and one part.

    Attributes:
        datum, turn: Indices from 0.
        part: "O" for observation, "A" for action.
        start: Position of its first token in the datum's sequence (an image counts its tokens).
        length: Number of positions, at least 1.
        masked: An action the cookbook masks (parse-error turn).
    """

    datum: int
    turn: int
    part: Literal["O", "A"]
    start: int
    length: int
    masked: bool = False


@app.function(hide_code=True)
def datum_runs(trajectory: Trajectory, spans: Sequence[TurnSpan]) -> list[Run]:
    """The datums as runs of observation and action; grows with turns, not with tokens."""
    runs: list[Run] = []
    cursor = 0
    previous: TurnSpan | None = None
    for span, transition in zip(spans, trajectory.transitions, strict=True):
        if previous is None or span.datum != previous.datum:
            cursor = 0
        added = transition.ob.length - cursor
        if added:
            runs.append(Run(span.datum, span.turn, "O", cursor, added))
        cursor += added
        if span.action:
            runs.append(Run(span.datum, span.turn, "A", cursor, span.action, span.masked))
        cursor += span.action
        previous = span
    return runs


@app.function(hide_code=True)
def datum_tensor(datum: tinker.Datum, name: str) -> list[Any]:
    """One field of `loss_fn_inputs` as a flat list, one entry per target."""
    return list(datum.loss_fn_inputs[name].data)


@app.function(hide_code=True)
def alignment_table(
    built: Built, runs: Sequence[Run], vocab: Mapping[int, str] | None = None
) -> pd.DataFrame:
    """One row per position of every datum's sequence (n tokens, hence n - 1 targets).

    Row p holds token p and, shifted by one, what the loss sees at input p: `target` (token
    p + 1), `mask`, `advantage` and `logprob` of that target. In the last row of a datum these
    are missing: the last token is never an input.

    Args:
        built: Datums of `trajectory_to_data`; the only source of every number.
        runs: Turn and part of each stretch, from `datum_runs`.
        vocab: Text of token ids where known.

    Returns:
        Columns datum, position, token, label, text, turn, part, target, target_label, mask,
        advantage, logprob. `token` of an image position is -1.

    Raises:
        ValueError: The runs do not add up to the datums, so turns cannot be attributed.
    """
    words = vocab or {}
    frames: list[pd.DataFrame] = []
    for index, datum in enumerate(built.data):
        mine = [run for run in runs if run.datum == index]
        targets = datum_tensor(datum, "target_tokens")
        tokens: list[int] = []
        labels: list[str] = []
        for element in model_input_to_elements(datum.model_input):
            if isinstance(element, int):
                tokens.append(element)
                labels.append(str(element))
            else:
                tokens.extend([-1] * element.length)
                labels.extend(["img"] * element.length)
        tokens.append(int(targets[-1]))
        labels.append(str(int(targets[-1])))
        count = len(tokens)
        if sum(run.length for run in mine) != count or len(targets) != count - 1:
            raise ValueError(
                f"Datum {index} holds {count} tokens, but its turns account for "
                f"{sum(run.length for run in mine)}."
            )
        lengths = [run.length for run in mine]
        frames.append(
            pd.DataFrame(
                {
                    "datum": index,
                    "position": np.arange(count),
                    "token": tokens,
                    "label": labels,
                    "text": [words.get(token, "") for token in tokens],
                    "turn": np.repeat([run.turn for run in mine], lengths),
                    "part": np.repeat([run.part for run in mine], lengths),
                    "target": [*targets, None],
                    "target_label": [*labels[1:], ""],
                    "mask": [*datum_tensor(datum, "mask"), None],
                    "advantage": [*datum_tensor(datum, "advantages"), None],
                    "logprob": [*datum_tensor(datum, "logprobs"), None],
                }
            )
        )
    if len(built.data) != len({run.datum for run in runs}):
        raise ValueError(
            f"trajectory_to_data made {len(built.data)} datums where the prefix rule "
            f"explains {len({run.datum for run in runs})}."
        )
    if not frames:
        return pd.DataFrame(
            columns=[
                "datum", "position", "token", "label", "text", "turn", "part",
                "target", "target_label", "mask", "advantage", "logprob",
            ]
        )  # fmt: skip
    return pd.concat(frames, ignore_index=True)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Room: verdicts

    Breaks, causes, warnings, lineages, price.
    """)
    return


@app.class_definition(hide_code=True)
@dataclass(frozen=True)
class Origin:
    """Which turn and part a token of the running sequence came from.

    Attributes:
        turn: Index of the turn.
        part: Observation or action of that turn.
        index: Within the whole observation, or within the action; an image is one element.
    """

    turn: int
    part: Literal["observation", "action"]
    index: int


@app.class_definition(hide_code=True)
@dataclass(frozen=True)
class Break:
    """A turn whose observation does not continue the running sequence.

    Attributes:
        turn: The turn that splits.
        position: Length of the common prefix of held sequence and new observation.
        expected: Element of the held sequence at `position`.
        got: Element of the observation at `position`; None where it has ended.
        cause: One of the named causes (design table), by the first rule that applies.
        origin: Where `expected` came from.
        resumes_datum: Index of an earlier datum that this observation does extend, or None.
        removed, inserted, kept: Token counts of the cheapest edit behind `position`.
        bounded: The sentence that names the bound when the search gave up, else None.
    """

    turn: int
    position: int
    expected: Any
    got: Any
    cause: str
    origin: Origin
    resumes_datum: int | None = None
    removed: int = 0
    inserted: int = 0
    kept: int = 0
    bounded: str | None = None


@app.class_definition(hide_code=True)
@dataclass(frozen=True)
class Remark:
    """A warning: the turn may well extend, but look.

    Attributes:
        code: Name of the rule.
        turn: Turn it was found in.
        index: Action or observation index within the turn, or None for the whole turn.
        message: One plain sentence that names turn and index.
    """

    code: str
    turn: int
    index: int | None
    message: str


@app.class_definition(hide_code=True)
@dataclass(frozen=True)
class Diagnosis:
    """Everything the page, the report and the command line say about one rollout.

    Attributes:
        rollout: What was diagnosed.
        built: The real datums, or the error.
        spans, runs: Turn by turn, and stretch by stretch.
        breaks, remarks: In order of turns.
        tokens_processed: Sum of `model_input.length` over the datums; None on error.
        tokens_unmerged: Sum of len(ob) + len(ac) - 1 over turns with at least 2 tokens;
            None on error.
    """

    rollout: Rollout
    built: Built
    spans: tuple[TurnSpan, ...]
    runs: tuple[Run, ...]
    breaks: tuple[Break, ...]
    remarks: tuple[Remark, ...]
    tokens_processed: int | None
    tokens_unmerged: int | None


@app.function(hide_code=True)
def diagnose(rollout: Rollout, advantage: float = 1.0) -> Diagnosis:
    """Datums, breaks with causes, warnings and price of one rollout."""
    built = build_datums(rollout.trajectory, advantage)
    spans = walk_turns(rollout.trajectory)
    unmerged = sum(
        transition.ob.length + len(transition.ac.tokens) - 1
        for transition in rollout.trajectory.transitions
        if transition.ob.length + len(transition.ac.tokens) >= 2
    )
    failed = built.error_code is not None
    return Diagnosis(
        rollout=rollout,
        built=built,
        spans=tuple(spans),
        runs=tuple(datum_runs(rollout.trajectory, spans)),
        breaks=(),
        remarks=(),
        tokens_processed=None if failed else sum(d.model_input.length for d in built.data),
        tokens_unmerged=None if failed else unmerged,
    )


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Room: figures

    Tables to Altair. No figure function sees a `Trajectory`.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Room: environment

    Vocabulary, policies, `TutorEnv`, episodes, matrix.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Room: report

    Verdicts to text and JSON; the command line.
    """)
    return


if __name__ == "__main__":
    app.run()
