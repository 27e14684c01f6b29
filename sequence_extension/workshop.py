"""Functions behind the notebook."""

import argparse
import ast
import asyncio
import base64
import contextlib
import gc
import html
import inspect
import io
import itertools
import json
import logging
import math
import os
import random
import re
import socket
import sys
import textwrap
import threading
import time
import warnings
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Annotated, Any, Literal, NoReturn
from urllib.parse import urlsplit

import altair as alt
import marimo as mo
import numpy as np
import pandas as pd
import pydantic
import tinker
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    FailFast,
    Field,
    PlainValidator,
    RootModel,
    Tag,
    ValidationError,
)
from pydantic_core import PydanticCustomError
from rapidfuzz.distance import LCSseq
from tinker_cookbook import renderers
from tinker_cookbook.completers import TinkerTokenCompleter, TokenCompleter, TokensWithLogprobs
from tinker_cookbook.exceptions import DataValidationError
from tinker_cookbook.model_info import get_recommended_renderer_name
from tinker_cookbook.renderers import Message, get_text_content
from tinker_cookbook.rl.data_processing import (
    assemble_training_data,
    compute_advantages,
    remove_constant_reward_groups,
    trajectory_to_data,
)
from tinker_cookbook.rl.message_env import EnvFromMessageEnv, MessageEnv, MessageStepResult
from tinker_cookbook.rl.metrics import incorporate_kl_penalty
from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy, RolloutLimits
from tinker_cookbook.rl.rollouts import do_single_rollout
from tinker_cookbook.rl.train import train_step
from tinker_cookbook.rl.types import (
    PARSE_ERROR_MASKED_METRIC_KEY,
    STOP_METRIC_PREFIX,
    Env,
    InitialObservationOverflow,
    StopReason,
    Trajectory,
    TrajectoryGroup,
    Transition,
)
from tinker_cookbook.tokenizer_utils import (
    get_tokenizer,
    is_tokenizer_registered,
    register_tokenizer,
)

# A group without a gradient is a lesson here, not a fault: keep the cookbook's log line
# about it out of the page.
logging.getLogger("tinker_cookbook.rl.data_processing").setLevel(logging.ERROR)

# The one palette (Okabe-Ito hues). fill: the cell; ink: text on that fill. Observation and
# action differ in hue and letter; the break alone is red and is always marked as well.
PALETTE = {
    "observation": {"fill": "#8CC8EC", "ink": "#0B1F2E", "letter": "O"},
    "action": {"fill": "#E69F00", "ink": "#1F1400", "letter": "A"},
    "masked": {"fill": "#F6E3B4", "ink": "#3D2C00", "letter": "A masked"},
    "zero": {"fill": "#CED1D4", "ink": "#2B3138", "letter": "0"},
    "break": {"fill": "#DA0A20", "ink": "#FFFFFF", "letter": "✕"},
    "positive": {"fill": "#007A5E", "ink": "#FFFFFF", "letter": "+"},
    "negative": {"fill": "#8A4F7D", "ink": "#FFFFFF", "letter": "-"},
    "look": {"fill": "#3A3F4B", "ink": "#FFFFFF", "letter": "!"},
    "axis": {"fill": "#7A828C", "ink": "#FFFFFF", "letter": ""},
}
# How tables name what a cell is, and its entry in the palette.
KINDS = {
    "O": "observation", "A": "action", "M": "masked", "0": "zero", "+": "positive",
    "-": "negative", "!": "look", "X": "break",
}  # fmt: skip
# Text outside filled cells: unfilled, so that Vega takes the colour of its light or dark
# theme from the style (a fill given here would be fixed for both).
THEMED_TEXT: dict[str, Any] = {"style": "guide-label", "filled": False, "strokeOpacity": 0}
# Vega's words for a part of a turn.
PART_WORDS = "{O: 'observation', A: 'action', M: 'action, masked'}[datum.kind]"
# Lanes of a strip: where each stands (pixels from the top) and what it is called.
STRIP_LANES = [
    (6, "turn"),
    (39, "input"),
    (103, "target|= next input"),
    (136, "mask"),
    (160, "advantage"),
    (184, "logprob"),
    (210, "turn"),
    (230, "position"),
]
STRIP_HEIGHT = 216
# Rollouts with more tokens or datums than this are drawn as runs, with a window of single
# tokens.
STRIP_LIMIT = 600
STRIP_DATUMS = 8
STRIP_WINDOW = 64
# Section 4 and 5: lanes of the break figure; how the curves of the price differ.
BREAK_LANES = [
    (6, "turn"),
    (24, "position"),
    (53, "held so far"),
    (103, "the new|observation"),
    (132, "position"),
]
BREAK_HEIGHT = 140
COST_COLORS = {
    "extends": "#0083C4",
    "splits every turn": "#C75A00",
    "this rollout": "#7A828C",
}
COST_DASHES = {
    "extends": [1, 0],
    "splits every turn": [8, 3],
    "this rollout": [3, 3],
}
COST_SHAPES = {
    "extends": "circle",
    "splits every turn": "triangle-up",
    "this rollout": "diamond",
}
MAX_TOKEN_ID = 2**31 - 1
# Bounds of the editor of section 2: characters and entries of one field, turns, and tokens
# of one turn with its history. Longer rollouts are read in section 9.
MAX_FIELD_CHARS = 20_000
MAX_FIELD_TOKENS = 2_000
MAX_DRAFT_TURNS = 16
MAX_DRAFT_LENGTH = 8_000
# Bounds of files (section 9 and the command line), checked before the work they bound.
# A rollout of 100 turns and 128,000 tokens that repeats the whole history in every turn is
# 48 MB with 6.6 million numbers. Memory per byte is worst for commas and brackets.
MAX_FILE_BYTES = 64 * 2**20
MAX_FILE_VALUES = 10_000_000
MAX_FILE_CONTAINERS = 500_000
MAX_FILE_QUOTES = 4_000_000
MAX_FILE_ISSUES = 1_000
MAX_BLANK_LINES = 100_000
# Of one trajectory; tokens count the history again in every turn, as the work does.
MAX_ROLLOUT_TURNS = 2_000
MAX_ROLLOUT_TOKENS = 20_000_000
MAX_IMAGE_TOKENS = 100_000
MAX_VOCABULARY = 500_000
MAX_NAME_CHARS = 1_000
# Of one file on the page.
MAX_PAGE_ROLLOUTS = 2_000
MAX_PAGE_TOKENS = 100_000_000
MAX_PASTE_CHARS = 1_000_000
# Positions in a window of single tokens (what a wide page shows without scrolling), and
# datums that the figure above it draws.
WINDOW = 15
MAX_DRAWN_DATUMS = 300
# Of the report page: rows of its table, rollouts in detail, bytes of these, bars of a figure.
MAX_REPORT_ROWS = 100
MAX_REPORT_DETAILS = 12
MAX_REPORT_BYTES = 150_000
MAX_REPORT_RUNS = 400
# Keys by which a file, a trajectory and a turn are known.
FILE_KEYS = ("trajectories", "rollouts", "outputs")
TRAJECTORY_KEYS = ("transitions", "trajectory", "steps", "turns", "responses")
TURN_KEYS = ("ob", "append", "ac", "tokens", "prompt_token_ids", "choices")
# First bytes of what people upload by mistake.
FILE_MAGIC = {
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "gzip-compressed",
    b"\x28\xb5\x2f\xfd": "zstd-compressed",
    b"\xfd7zXZ": "xz-compressed",
    b"PAR1": "a Parquet file",
    b"\x80\x04": "a Python pickle",
    b"\x80\x05": "a Python pickle",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"\x89PNG": "a PNG image",
    b"%PDF": "a PDF",
}
# The edited turns in the page's address: characters there, bytes once inflated.
MAX_STATE_CHARS = 2_000
MAX_STATE_BYTES = 100_000
# Name of the offline vocabulary in the cookbook's tokenizer registry.
OFFLINE_VOCABULARY = "sequence-extension/offline"
# The model whose text vocabulary comes with `tml-renderers`, so that nothing is downloaded.
OFFLINE_MODEL = "thinkingmachines/Inkling"
# Tags that some family's vocabulary holds as one token, next to its `<|...|>` markers.
MARKER_TAGS = (
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "[gMASK]",
    "<sop>",
    "\uff5cDSML\uff5c",
)
# The matrix: a renderer's claim beside one rollout. Only a claim that fails is red.
MATRIX_LOOK = {
    "kept": {**PALETTE["zero"], "mark": "", "words": "claims extension, stays one datum"},
    "better": {
        "fill": "#0072B2",
        "ink": "#FFFFFF",
        "mark": "+",
        "words": "does not claim it, yet stays one datum",
    },
    "split": {
        "fill": "#8B949E",
        "ink": "#0B0F14",
        "mark": "·",
        "words": "does not claim it, and splits",
    },
    "broken": {**PALETTE["break"], "mark": "✕", "words": "claims extension, yet splits"},
    "none": {
        "fill": "transparent",
        "ink": "transparent",
        "mark": "",
        "words": "nothing to compare",
    },
}
MATRIX_STEP = (58, 21)  # pixels of a cell
MATRIX_HEAD = 34  # pixels above and below for the names of the policies
# Bounds of a pasted conversation: every renderer answers within a tenth of a second.
CONVERSATION_ROLES = ("system", "developer", "user", "assistant", "tool")
CONVERSATION_CHARACTERS = 40_000
CONVERSATION_MESSAGES = 64
# Tokens of a generation prompt that a finished answer may leave out (an opened <think>).
GENERATION_SUFFIX_TOKENS = 8
# Stands in for log-probabilities where no model was asked.
PLACEHOLDER_LOGPROB = -1.0
# Said at figures of rollouts that were played alone.
STAND_IN = "traj_advantage = 1 stands in for the number that a group would give"
# The sketch of section 11: the next prompt keeps the tokens that were sampled.
APPENDING_ENV = """from dataclasses import replace

import tinker
from tinker_cookbook.rl.message_env import EnvFromMessageEnv


class AppendingEnv(EnvFromMessageEnv):
    async def initial_observation(self):
        prompt, stop = await super().initial_observation()
        self.held = prompt.to_ints()
        return prompt, stop

    async def step(self, action, *, extra=None):
        result = await super().step(action, extra=extra)
        if result.episode_done:
            return result
        new = result.next_observation.to_ints()
        ends = [place for place, token in enumerate(new) if token == action[-1]]
        self.held = self.held + action + new[ends[-2] + 1 :]  # what follows the last answer
        return replace(result, next_observation=tinker.ModelInput.from_ints(self.held))"""


# Bound of a reward typed in section 6: larger ones do not fit a cell.
MAX_REWARD = 1_000_000.0


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


@dataclass(frozen=True)
class FieldIssue:
    """One sentence about one field of the editor.

    Attributes:
        turn: Turn the field belongs to, from 0.
        field: Name of the `TurnDraft` attribute.
        message: The sentence; names turn and index.
        fatal: True when no trajectory can be built; False when the decision is the cookbook's
            and the reader should look.
        unmatched: The action has no logprobs, or not one per token; alone, that is refused.
    """

    turn: int
    field: str
    message: str
    fatal: bool = True
    unmatched: bool = False


@dataclass(frozen=True)
class Scenario:
    """A named starting point for the editor and the staircase."""

    key: str
    title: str
    drafts: tuple[TurnDraft, ...]
    vocab: Mapping[int, str]
    lesson: str


def image_chunk(image_id: str, tokens: int) -> tinker.types.ImageChunk:
    """Stand-in for a picture: the id is its bytes, so equal ids are equal chunks."""
    return tinker.types.ImageChunk(
        data=image_id.encode("utf-8", "surrogatepass"), format="png", expected_tokens=tokens
    )


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


def model_input_to_elements(model_input: tinker.ModelInput) -> list[Any]:
    """A `ModelInput` as flat elements: token ids, and each image chunk as one element.

    An observation of one text chunk is returned as it is stored, without a copy: read only.
    """
    return chunks_to_elements(model_input.chunks)


def chunks_to_elements(chunks: Sequence[Any]) -> list[Any]:
    """Chunks as flat elements, see `model_input_to_elements`."""
    if len(chunks) == 1 and isinstance(chunks[0], tinker.EncodedTextChunk):
        tokens = chunks[0].tokens
        return tokens if isinstance(tokens, list) else list(tokens)
    elements: list[Any] = []
    for chunk in chunks:
        if isinstance(chunk, tinker.EncodedTextChunk):
            elements.extend(chunk.tokens)
        else:
            elements.append(chunk)
    return elements


def element_length(element: Any) -> int:
    """Tokens an element stands for; an image that does not say counts as one."""
    if isinstance(element, int):
        return 1
    try:
        return int(element.length)
    except ValueError:
        return 1


def input_length(model_input: tinker.ModelInput) -> int:
    """Tokens of an observation, also where an image does not say how many it has."""
    return sum(
        len(chunk.tokens) if isinstance(chunk, tinker.EncodedTextChunk) else element_length(chunk)
        for chunk in model_input.chunks
    )


class FieldError(ValueError):
    """One plain sentence about what was typed; never shown as a traceback."""


def shown(piece: str, limit: int = 24) -> str:
    """What was typed, short and printable, for use in a sentence."""
    short = piece if len(piece) <= limit else piece[: limit - 1] + "…"
    return "`" + "".join(char if char.isprintable() else "?" for char in short) + "`"


def split_field(text: str, pattern: str) -> list[str]:
    """The pieces of one editor field; spaces, commas, newlines and brackets separate.

    Raises:
        FieldError: The text is longer than the editor reads.
    """
    if len(text) > MAX_FIELD_CHARS:
        raise FieldError(
            f"holds {len(text):,} characters, but the editor reads at most "
            f"{MAX_FIELD_CHARS:,} a field. Long rollouts belong in section 9."
        )
    pieces = re.findall(pattern, text)
    if len(pieces) > MAX_FIELD_TOKENS:
        raise FieldError(
            f"holds {len(pieces):,} entries, but the editor reads at most "
            f"{MAX_FIELD_TOKENS:,} a field. Long rollouts belong in section 9."
        )
    return pieces


def parse_token_id(piece: str) -> int:
    """One token id, 0 to 2**31 - 1.

    Raises:
        FieldError: The rest of a sentence: what is wrong, and what to type instead.
    """
    if re.fullmatch(r"\+?[0-9]{1,18}", piece):
        value = int(piece)
        if value <= MAX_TOKEN_ID:
            return value
    if re.fullmatch(r"\+?[0-9]+", piece):
        raise FieldError(
            f"{shown(piece)} is larger than any token id. Type a number up to {MAX_TOKEN_ID}."
        )
    if re.fullmatch(r"-[0-9]+", piece):
        raise FieldError(
            f"{shown(piece)} is negative. Token ids start at 0: type {shown(piece[1:])} "
            "or another id."
        )
    if piece.startswith("image"):
        raise FieldError(
            f"{shown(piece)} is not a token id. An image is written `image(frameA, 4)`: "
            "a name and its number of tokens."
        )
    raise FieldError(f"{shown(piece)} is not a token id. Type a whole number such as 300.")


def parse_elements(text: str, images: bool = True) -> list[Any]:
    """Token ids and `image(name, tokens)` as flat elements (an image is one element).

    Args:
        text: Ids separated by spaces, commas or newlines; square brackets are ignored.
        images: Whether images may occur (never in an action: it is sampled).

    Raises:
        FieldError: The rest of a sentence that begins with the name of the field.
    """
    elements: list[Any] = []
    pieces = split_field(text, r"image\([^(),;]*,[^(),;]*\)|[^\s,\[\]]+")
    for index, piece in enumerate(pieces):
        try:
            if not (piece.startswith("image(") and piece.endswith(")")):
                elements.append(parse_token_id(piece))
                continue
            if not images:
                raise FieldError(
                    f"{shown(piece)} cannot be sampled. Images belong in an observation: "
                    "type token ids here."
                )
            name, _, size = (part.strip() for part in piece[6:-1].partition(","))
            if not name or not re.fullmatch(r"[0-9]{1,9}", size):
                raise FieldError(
                    f"{shown(piece)} needs a name and a number of tokens. "
                    "Type for example `image(frameA, 4)`."
                )
            if not 1 <= int(size) <= MAX_FIELD_TOKENS:
                raise FieldError(
                    f"{shown(piece)} has {int(size):,} tokens. Type 1 to {MAX_FIELD_TOKENS:,}."
                )
            elements.append(image_chunk(name, int(size)))
        except FieldError as error:
            raise FieldError(f"index {index}: {error}") from None
    return elements


def apply_edits(history: Sequence[Any], text: str) -> list[Any]:
    """The carried history after the changes of one edits field.

    All positions count elements of the history before any change, so the order of the
    changes does not matter, except among insertions before one and the same position.

    Args:
        history: Previous observation + previous action.
        text: `7: 13` replaces, `7-9:` removes, `7+: 13 14` inserts before; `;` separates.

    Raises:
        FieldError: The rest of a sentence that begins with the name of the field.
    """
    count = len(history)
    before: dict[int, list[Any]] = {}
    instead: dict[int, list[Any]] = {}
    if len(text) > MAX_FIELD_CHARS:
        raise FieldError(
            f"holds {len(text):,} characters, but the editor reads at most {MAX_FIELD_CHARS:,}."
        )
    changes = [change.strip() for change in text.split(";")]
    for index, change in enumerate(changes):
        if not change:
            continue
        match = re.fullmatch(r"([0-9]{1,9})\s*(\+|-\s*([0-9]{1,9}))?\s*:(.*)", change, re.DOTALL)
        if match is None:
            raise FieldError(
                f"change {index}: {shown(change)} is not a change. Type `7: 13` to replace, "
                "`7-9:` to remove or `7+: 13 14` to insert; separate changes with `;`."
            )
        first = int(match[1])
        inserts = match[2] == "+"
        last = int(match[3]) if match[3] else first
        end = count if inserts else count - 1
        if end < 0:
            raise FieldError(
                f"change {index}: {shown(change)} has nothing to change, because no history is "
                "carried here. Clear this field."
            )
        if max(first, last) > end:
            raise FieldError(
                f"change {index}: {shown(change)} is outside the carried history. "
                f"Type a position from 0 to {end}."
            )
        if last < first:
            raise FieldError(
                f"change {index}: {shown(change)} runs backwards. Type `{last}-{first}:` instead."
            )
        try:
            new = parse_elements(match[4])
        except FieldError as error:
            raise FieldError(f"change {index}, {error}") from None
        if inserts:
            if not new:
                raise FieldError(
                    f"change {index}: {shown(change)} inserts nothing. Type the tokens to insert "
                    f"after the colon, as in `{first}+: 13`."
                )
            before.setdefault(first, []).extend(new)
            continue
        for position in range(first, last + 1):
            if position in instead:
                raise FieldError(
                    f"change {index}: {shown(change)} touches position {position} a second time. "
                    "Change every position once."
                )
            instead[position] = new if position == first else []
    result: list[Any] = []
    for position in range(count + 1):
        result.extend(before.get(position, ()))
        if position in instead:
            result.extend(instead[position])
        elif position < count:
            result.append(history[position])
    return result


def made_up_logprob(turn: int, index: int) -> float:
    """A plausible logprob (-0.05 to -0.95) that depends on its place only, never exactly 0."""
    return -(5 + (turn * 35 + index * 20) % 91) / 100


def parse_logprobs(text: str, turn: int, count: int) -> list[float] | None:
    """The logprobs of one action.

    Args:
        text: Numbers; `nan` and `inf` are let through; `auto` makes all of them up, a final
            `...` makes up those that are missing; empty means that none were reported.
        turn, count: Index of the turn and its number of action tokens.

    Raises:
        FieldError: The rest of a sentence that begins with the name of the field.
    """
    if text.strip().lower() == "auto":
        return [made_up_logprob(turn, index) for index in range(count)]
    if not text.strip():
        return None
    pieces = split_field(text, r"[^\s,\[\]]+")
    values: list[float] = []
    for index, piece in enumerate(pieces):
        if piece in ("...", "…") and index == len(pieces) - 1:
            values.extend(made_up_logprob(turn, later) for later in range(index, count))
            break
        if piece.lower() in ("null", "none"):
            values.append(math.nan)
            continue
        try:
            if "_" in piece:
                raise ValueError
            values.append(float(piece))
        except ValueError:
            raise FieldError(
                f"index {index}: {shown(piece)} is not a number. Type one such as -0.3, "
                "or `auto` alone for made-up ones."
            ) from None
    return values


def parse_reward(text: str) -> float:
    """A finite reward.

    Raises:
        FieldError: The rest of a sentence that begins with the name of the field.
    """
    try:
        value = float(text) if len(text) <= 100 and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        what = shown(text.strip()) if text.strip() else "empty"
        raise FieldError(f"is {what}, not a finite number. Type one such as 0 or 1.5.")
    return value


def logprob_notes(turn: int, logprobs: Sequence[float] | None, count: int) -> list[FieldIssue]:
    """What the cookbook lets pass, or refuses with its own error, about one turn's logprobs."""
    if logprobs is None:
        message = (
            f"Turn {turn} reports no logprobs, so no training data can be made. "
            f"Type `auto` or {count_of(count, 'number')}."
        )
        return [FieldIssue(turn, "logprobs", message, fatal=False, unmatched=True)]
    notes: list[str] = []
    uneven = len(logprobs) != count
    if uneven:
        difference = abs(len(logprobs) - count)
        advice = f"Remove {difference}" if len(logprobs) > count else f"Add {difference}"
        notes.append(
            f"Turn {turn} has {count_of(count, 'action token')} but "
            f"{count_of(len(logprobs), 'logprob')}. {advice}, or type `auto`."
        )
    for index, value in enumerate(logprobs):
        if not math.isfinite(value):
            notes.append(
                f"Turn {turn}, logprob index {index} is {value}. The cookbook lets it through; "
                "the loss will not. Type a finite number."
            )
            break
        if value > 0:
            notes.append(
                f"Turn {turn}, logprob index {index} is {value:g}, above 0. "
                f"A logprob is at most 0: perhaps {-value:g}?"
            )
            break
    return [
        FieldIssue(turn, "logprobs", message, fatal=False, unmatched=uneven and not index)
        for index, message in enumerate(notes)
    ]


def count_of(count: int, noun: str) -> str:
    """`1 datum`, `2 datums`: a count with its noun."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def drafts_to_rollout(
    drafts: Sequence[TurnDraft], vocab: Mapping[int, str], name: str
) -> tuple[Rollout | None, list[FieldIssue]]:
    """What was typed in the editor to a rollout, with a sentence for every doubtful field.

    Never raises on any text. Positions in edits count the carried history, which is the
    previous observation + the previous action.

    Args:
        drafts: One per turn; at most MAX_DRAFT_TURNS.
        vocab: Text of token ids where known.
        name: Name of the rollout.

    Returns:
        The rollout, or None when a field is fatally wrong; and the issues in order of turns.
        Issues that are not fatal leave the decision to `trajectory_to_data`.
    """
    issues: list[FieldIssue] = []
    transitions: list[Transition] = []
    # None: an earlier turn could not be read, so what this turn would carry is unknown.
    history: list[Any] | None = []
    if not drafts:
        return None, [FieldIssue(0, "ob", "There is no turn. Add one.")]
    if len(drafts) > MAX_DRAFT_TURNS:
        message = f"The editor holds at most {MAX_DRAFT_TURNS} turns. Remove some."
        return None, [FieldIssue(MAX_DRAFT_TURNS, "ob", message)]
    for turn, draft in enumerate(drafts):
        problems: list[FieldIssue] = []
        new: list[Any] = []
        action: list[int] = []
        logprobs: list[float] | None = None
        reward = 0.0
        action_read = False
        try:
            new = parse_elements(draft.ob)
        except FieldError as error:
            problems.append(FieldIssue(turn, "ob", f"Turn {turn}, observation {error}"))
        try:
            action = parse_elements(draft.ac, images=False)
            action_read = True
        except FieldError as error:
            problems.append(FieldIssue(turn, "ac", f"Turn {turn}, action {error}"))
        try:
            logprobs = parse_logprobs(draft.logprobs, turn, len(action))
            if action_read:
                issues.extend(logprob_notes(turn, logprobs, len(action)))
        except FieldError as error:
            problems.append(FieldIssue(turn, "logprobs", f"Turn {turn}, logprobs {error}"))
        try:
            reward = parse_reward(draft.reward)
        except FieldError as error:
            problems.append(FieldIssue(turn, "reward", f"Turn {turn}, reward {error}"))
        carried: list[Any] | None = [] if draft.history == "replaces" else history
        if draft.history == "edits" and carried is not None:
            try:
                carried = apply_edits(carried, draft.edits)
            except FieldError as error:
                problems.append(FieldIssue(turn, "edits", f"Turn {turn}, history {error}"))
        issues.extend(problems)
        if problems or carried is None:
            history = None
            continue
        model_input = elements_to_model_input([*carried, *new])
        length = model_input.length + len(action)
        if length > MAX_DRAFT_LENGTH:
            message = (
                f"Turn {turn} holds {length:,} tokens with its history, but the editor draws at "
                f"most {MAX_DRAFT_LENGTH:,}. Long rollouts belong in section 9."
            )
            issues.append(FieldIssue(turn, "ob", message))
            history = None
            continue
        if length == 1:
            message = (
                f"Turn {turn} holds a single token. On its own it cannot be a datum, which needs "
                "one token to read and one to predict: type one more."
            )
            issues.append(FieldIssue(turn, "ac" if new else "ob", message, fatal=False))
        elif not action:
            message = (
                f"Turn {turn} has an empty action: nothing of this turn is trained. "
                "Type at least one token."
            )
            issues.append(FieldIssue(turn, "ac", message, fatal=False))
        elif not model_input.length:
            message = (
                f"Turn {turn} has an empty observation, so its first action token "
                f"({action[0]}) is never a target. Type at least one token."
            )
            issues.append(FieldIssue(turn, "ob", message, fatal=False))
        history = [*carried, *new, *action]
        transitions.append(
            Transition(
                ob=model_input,
                ac=TokensWithLogprobs(tokens=action, maybe_logprobs=logprobs),
                reward=reward,
                episode_done=turn == len(drafts) - 1,
                metrics={PARSE_ERROR_MASKED_METRIC_KEY: 1.0} if draft.masked else {},
            )
        )
    issues.sort(key=lambda issue: issue.turn)
    if any(issue.fatal for issue in issues):
        return None, issues
    trajectory = Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty())
    return Rollout(name, trajectory, vocab), issues


def scenario_rollout(scenario: Scenario) -> Rollout:
    """The rollout of a scenario.

    Raises:
        ValueError: Its drafts cannot be read; the message is the first sentence.
    """
    rollout, issues = drafts_to_rollout(scenario.drafts, scenario.vocab, scenario.title)
    if rollout is None:
        raise ValueError(next(issue.message for issue in issues if issue.fatal))
    return rollout


def scenarios() -> dict[str, Scenario]:
    """Named starting points: the two classic examples, and one per cause of a split.

    Every later turn is written as a change to the history it carries, so an edit of an early
    token carries through to all turns that keep it.
    """
    marks = {
        1: "<bos>", 2: "<system>", 3: "<user>", 4: "<assistant>", 5: "<tool>", 6: "<end>",
        7: "<eot>", 8: "<think>", 9: "</think>", 10: "<call>", 11: "</call>", 12: "\n",
    }  # fmt: skip
    sums = {
        20: "2+3?", 21: "5", 22: "5*3?", 23: "15", 24: "15+1?", 25: "16",
        30: "add", 31: "them", 32: "times", 33: "three",
    }  # fmt: skip
    chat = {
        100: "What", 101: " is", 102: " 2+3", 103: "?", 200: "5", 201: ".",
        300: "Yes.", 301: " 5*3?", 400: "It", 401: " is", 402: " 15",
        500: "15+1?", 600: "16", 601: ".",
    }  # fmt: skip
    reset = {
        100: "Room A:", 101: " look?", 200: "A", 201: " door.",
        300: "Room B:", 301: " now", 302: " what?", 400: "Go", 401: " on.",
    }  # fmt: skip
    turn = TurnDraft
    listed = (
        Scenario(
            "chat",
            "Three turns that extend",
            (
                turn("100 101 102 103", "200 201", "-0.5 -0.3 ..."),
                turn("300 301", "400 401 402", "-0.4 -0.2 -0.1 ..."),
                turn("500", "600 601", "-0.6 -0.3 ...", "1"),
            ),
            chat,
            "Every observation repeats all that came before and adds to it, so three turns "
            "become one datum.",
        ),
        Scenario(
            "reset",
            "Context reset",
            (
                turn("100 101", "200 201", "-0.5 -0.3 ...", "0.5"),
                turn("300 301 302", "400 401", "-0.4 -0.2 ...", "0.5", "replaces"),
            ),
            reset,
            "The second observation starts afresh, so nothing can merge and each turn is a "
            "datum of its own.",
        ),
        Scenario(
            "removed",
            "Reasoning stripped",
            (
                turn("1 3 20 6 4", "8 30 31 9 21 6"),
                turn("3 22 6 4", "8 32 33 9 23 6", history="edits", edits="5-8:"),
                turn("3 24 6 4", "25 6", "auto", "1", history="edits", edits="11-14:"),
            ),
            marks | sums,
            "The renderer drops the reasoning of earlier answers, so what was sampled is no "
            "longer what the next observation holds.",
        ),
        Scenario(
            "window",
            "Sliding window",
            (
                turn("1 2 40 6 3 20 6 4", "21 6"),
                turn("3 22 6 4", "23 6"),
                turn("3 24 6 4", "25 6", history="edits", edits="4-9:"),
                turn("3 26 6 4", "27 6", "auto", "1", history="edits", edits="4-9:"),
            ),
            marks | sums | {26: "16-9?", 27: "7", 40: "Be brief."},
            "Only the last exchange is kept, so from the third turn on every turn loses its "
            "oldest messages and splits.",
        ),
        Scenario(
            "inserted",
            "System prompt appears",
            (
                turn("1 3 20 6 4", "21 6"),
                turn("3 22 6 4", "23 6", "auto", "1", history="edits", edits="1+: 2 40 6"),
            ),
            marks | sums | {40: "Be helpful."},
            "A default system prompt enters when the conversation is rendered again, in front "
            "of tokens that were already there.",
        ),
        Scenario(
            "end_token",
            "End token rewritten",
            (
                turn("1 3 20 6 4", "21 6"),
                turn("3 22 6 4", "23 6", history="edits", edits="6: 7"),
                turn("3 24 6 4", "25 6", "auto", "1", history="edits", edits="12: 7"),
            ),
            marks | sums,
            "The model stops on one end token and the history is written with another: one "
            "token differs, and the turn splits.",
        ),
        Scenario(
            "retokenised",
            "Same text, other tokens",
            (
                turn("1 3 50 6 4", "51 52 6"),
                turn("3 54 6 4", "55 6", "auto", "1", history="edits", edits="5-6: 53"),
            ),
            marks | {50: "Capital?", 51: "Par", 52: "is", 53: "Paris", 54: "Of?", 55: "France"},
            "The answer was turned into text and tokenized again: it reads the same, yet its "
            "tokens differ.",
        ),
        Scenario(
            "reordered",
            "Tool arguments reordered",
            (
                turn("1 3 60 6 4", "10 61 62 63 64 11 6"),
                turn(
                    "5 65 6 4", "66 6", "auto", "1",
                    history="edits", edits="6-7: 63 64; 8-9: 61 62",
                ),
            ),
            marks
            | {
                60: "Weather?", 61: "city=", 62: "Bern", 63: "unit=", 64: "C",
                65: "12", 66: "12 degrees",
            },
            "The tool call is written back with its arguments in another order: the same "
            "tokens, at other places.",
        ),
        Scenario(
            "replaced",
            "Clock in the system prompt",
            (
                turn("1 2 70 71 6 3 20 6 4", "21 6"),
                turn("3 22 6 4", "23 6", history="edits", edits="3: 72"),
                turn("3 24 6 4", "25 6", "auto", "1", history="edits", edits="3: 73"),
            ),
            marks | sums | {70: "Now", 71: "9:00", 72: "9:01", 73: "9:02"},
            "One token near the front changes with every turn, so every turn splits and is "
            "paid for from the start.",
        ),
        Scenario(
            "image_changed",
            "Image encoded again",
            (
                turn("1 3 image(frameA, 4) 80 6 4", "81 6"),
                turn(
                    "3 82 6 4", "83 6", "auto", "1",
                    history="edits", edits="2: image(frameA-again, 4)",
                ),
            ),
            marks | {80: "What is it?", 81: "A cat", 82: "Colour?", 83: "Black"},
            "The same picture is encoded anew with other bytes, and an image equals only an "
            "identical image.",
        ),
        Scenario(
            "shortened",
            "Retry from the same prompt",
            (
                turn("1 3 20 6 4", "28 6"),
                turn("", "21 6", "auto", "1", history="edits", edits="5-6:"),
            ),
            marks | sums | {28: "6"},
            "The failed answer is rolled back and the prompt is tried again: the observation "
            "ends before the action it would have to contain.",
        ),
        Scenario(
            "new_context",
            "Sub-agent in between",
            (
                turn("1 3 90 91 92 4", "110 111 6"),
                turn("1 2 93 94 95 4", "112 113 6", history="replaces"),
                turn("1 3 90 91 92 4 110 111 6 5 96 4", "114 115 6", history="replaces"),
                turn(
                    "1 2 93 94 95 4 112 113 6 5 97 4", "116 117 6", "auto", "1",
                    history="replaces",
                ),
            ),
            marks
            | {
                90: "Plan", 91: "a", 92: "trip.", 93: "Find", 94: "the", 95: "train.",
                96: "Busy.", 97: "Today?", 110: "Ask", 111: "agent.", 112: "Which", 113: "day?",
                114: "Wait", 115: "then.", 116: "Leaves", 117: "9:00.",
            },
            "Two agents take turns; only one running sequence is kept, so four datums arise "
            "where two would do.",
        ),
        Scenario(
            "masked",
            "Unparsable turn, masked",
            (
                turn("1 3 20 6 4", "21 6"),
                turn("3 22 6 4", "10 10 6", masked=True),
                turn("3 29 6 4", "23 6", "auto", "1"),
            ),
            marks | sums | {29: "Again?"},
            "The second answer could not be parsed and its turn is masked: it stays in the "
            "sequence as context, with mask 0.",
        ),
        Scenario(
            "empty",
            "Empty observation",
            (
                turn("1 3 20 6 4", "10 10 6"),
                turn("", "21 23 6", "auto", "1", history="replaces"),
            ),
            marks | sums,
            "After an answer that did not parse the observation is empty, so the next action "
            "opens a datum and its first token has no target.",
        ),
    )  # fmt: skip
    return {scenario.key: scenario for scenario in listed}


def next_draft(drafts: Sequence[TurnDraft]) -> TurnDraft:
    """A turn to add after `drafts`: it extends, with the last turn's new tokens and action."""
    if not drafts:
        return TurnDraft("100 101", "200 201")
    last = drafts[-1]
    return TurnDraft(last.ob if last.ob.strip() else "300", last.ac or "400 401")


def encode_drafts(drafts: Sequence[TurnDraft]) -> str:
    """Turns as typed, as text for an address: JSON, deflated, in URL-safe base64.

    Fields that have their default value are left out.
    """
    rows = [
        {
            item.name: getattr(draft, item.name)
            for item in fields(draft)
            if getattr(draft, item.name) != item.default
        }
        for draft in drafts
    ]
    packed = zlib.compress(json.dumps(rows, separators=(",", ":")).encode("ascii"), 9)
    return base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")


def decode_drafts(text: str) -> tuple[TurnDraft, ...]:
    """The inverse of `encode_drafts`, for text that anyone may have written.

    Raises:
        FieldError: One plain sentence. Nothing is evaluated, and at most MAX_STATE_BYTES bytes
            are inflated.
    """
    if len(text) > MAX_STATE_CHARS:
        raise FieldError(
            f"The trajectory in the address is longer than {MAX_STATE_CHARS:,} characters and "
            "was ignored."
        )
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        inflate = zlib.decompressobj()
        raw = inflate.decompress(packed, MAX_STATE_BYTES)
        if not inflate.eof or inflate.unused_data:
            raise ValueError("unfinished")
        drafts = pydantic.TypeAdapter(list[TurnDraft]).validate_json(raw, strict=True)
        if not 1 <= len(drafts) <= MAX_DRAFT_TURNS:
            raise ValueError("turns")
    except (ValueError, zlib.error):  # pydantic and base64 raise subclasses of ValueError
        raise FieldError(
            "The trajectory in the address could not be read and was ignored. "
            "Copy the whole address, or build it again here."
        ) from None
    return tuple(drafts)


def read_address(
    parameters: Mapping[str, Any], listed: Mapping[str, Scenario]
) -> tuple[Scenario, tuple[TurnDraft, ...], str]:
    """Where the editor starts, from the address the reader opened.

    Args:
        parameters: Query parameters; `scenario` names one, `turns` holds edited turns.
        listed: The known scenarios; the first is the default.

    Returns:
        The scenario, the turns to show, and a sentence about what was ignored, or "".
    """
    notes: list[str] = []
    scenario = next(iter(listed.values()))
    key = parameters.get("scenario")
    if isinstance(key, str) and key in listed:
        scenario = listed[key]
    elif key is not None:
        named = shown(key) if isinstance(key, str) else "that is given more than once"
        notes.append(
            f"The address asks for a scenario {named}, which is not on the menu; "
            f"“{scenario.title}” is shown."
        )
    drafts = scenario.drafts
    turns = parameters.get("turns")
    if turns is not None:
        try:
            drafts = decode_drafts(turns if isinstance(turns, str) else "?")
        except FieldError as error:
            notes.append(str(error))
    return scenario, drafts, " ".join(notes)


def address_of(
    scenario: Scenario, drafts: tuple[TurnDraft, ...], default: str
) -> tuple[dict[str, str | None], str]:
    """Query parameters that restore the editor, and what to tell the reader about them.

    Args:
        scenario: The scenario that was loaded.
        drafts: The turns as they stand now.
        default: Key of the scenario that an address without parameters shows.

    Returns:
        A value per parameter (None: leave it out), and one sentence.
    """
    parameters: dict[str, str | None] = {
        "scenario": None if scenario.key == default else scenario.key,
        "turns": None,
    }
    if drafts == scenario.drafts:
        return parameters, "Copy the page's address to share this scenario."
    packed = encode_drafts(drafts)
    if len(packed) > MAX_STATE_CHARS:
        return parameters, (
            f"These turns need more than {MAX_STATE_CHARS:,} characters, too long for an "
            "address: it leads to the scenario as it was loaded. Copy the JSON below instead."
        )
    parameters["turns"] = packed
    return parameters, "Copy the page's address to share these turns."


def python_list(items: Sequence[str], prefix: str = "") -> str:
    """Items as a Python list that wraps at 88 columns after `prefix`."""
    line = ", ".join(items)
    if len(prefix) + len(line) + 2 <= 88:
        return f"[{line}]"
    indent = " " * (len(prefix) - len(prefix.lstrip()))
    inner = textwrap.fill(
        line + ",",
        width=88,
        initial_indent=indent + "    ",
        subsequent_indent=indent + "    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"[\n{inner}\n{indent}]"


def rollout_to_code(rollout: Rollout, advantage: float = 1.0) -> str:
    """Python that builds the same trajectory and calls `trajectory_to_data` on it.

    Complete with imports; runs on its own and leaves the datums in `data`. Observations that
    extend are written as what they extend plus the new tokens.
    """

    def number(value: float) -> str:
        return repr(float(value)) if math.isfinite(value) else f'float("{float(value)}")'

    transitions = rollout.trajectory.transitions
    pictures: dict[tuple[str, bytes, int | None], str] = {}

    def element(item: Any) -> str:
        if isinstance(item, int):
            return str(item)
        key = (item.format, item.data, item.expected_tokens)
        return pictures.setdefault(key, f"image_{len(pictures)}")

    body: list[str] = []
    held: list[Any] = []
    for turn, transition in enumerate(transitions):
        observation = model_input_to_elements(transition.ob)
        start = f"ob_{turn} = "
        if turn and common_prefix_length(held, observation) == len(held):
            start += f"ob_{turn - 1} + ac_{turn - 1} + "
            new = observation[len(held) :]
        else:
            new = observation
        body.append(start + python_list([element(item) for item in new], start))
        start = f"ac_{turn} = "
        body.append(start + python_list([str(token) for token in transition.ac.tokens], start))
        held = [*observation, *transition.ac.tokens]
    masked = any(PARSE_ERROR_MASKED_METRIC_KEY in item.metrics for item in transitions)
    to_input = "to_input" if pictures else "tinker.ModelInput.from_ints"
    body += ["", "transitions = ["]
    for turn, transition in enumerate(transitions):
        start = "            maybe_logprobs="
        given = transition.ac.maybe_logprobs
        logprobs = "None" if given is None else python_list([number(x) for x in given], start)
        body += [
            "    Transition(",
            f"        ob={to_input}(ob_{turn}),",
            "        ac=TokensWithLogprobs(",
            f"            tokens=ac_{turn},",
            f"{start}{logprobs},",
            "        ),",
            f"        reward={number(transition.reward)},",
            f"        episode_done={transition.episode_done},",
        ]
        if PARSE_ERROR_MASKED_METRIC_KEY in transition.metrics:
            value = number(transition.metrics[PARSE_ERROR_MASKED_METRIC_KEY])
            body.append(f"        metrics={{PARSE_ERROR_MASKED_METRIC_KEY: {value}}},")
        body.append("    ),")
    names = ["Trajectory", "Transition"]
    if masked:
        names.insert(0, "PARSE_ERROR_MASKED_METRIC_KEY")
    head = [
        "import tinker",
        "from tinker_cookbook.completers import TokensWithLogprobs",
        "from tinker_cookbook.rl.data_processing import trajectory_to_data",
        f"from tinker_cookbook.rl.types import {', '.join(names)}",
        "",
    ]
    if pictures:
        head += [
            "",
            "def to_input(elements: list) -> tinker.ModelInput:",
            '    """Token ids and images to a model input."""',
            "    chunks = [",
            "        tinker.EncodedTextChunk(tokens=[x]) if isinstance(x, int) else x",
            "        for x in elements",
            "    ]",
            "    return tinker.ModelInput(chunks=chunks)",
            "",
            "",
            "# Stand-ins: the bytes are a name, and only identical images are equal.",
            *(
                f'{name} = tinker.types.ImageChunk(data={data!r}, format="{kind}", '
                f"expected_tokens={tokens})"
                for (kind, data, tokens), name in pictures.items()
            ),
        ]
    tail = [
        "]",
        "trajectory = Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty())",
        f"data = trajectory_to_data(trajectory, traj_advantage={number(advantage)})",
        "",
        "for index, datum in enumerate(data):",
        '    print(f"datum {index}: {datum.model_input.length} inputs")',
        '    for name in ("target_tokens", "mask", "advantages", "logprobs"):',
        '        print(f"  {name:13} {list(datum.loss_fn_inputs[name].data)}")',
    ]
    return "\n".join([*head, *body, *tail]) + "\n"


def record_to_json(record: Mapping[str, Any]) -> str:
    """A rollout in the file format as JSON text, a transition a line."""
    head = [
        f"{json.dumps(key)}: {json.dumps(value)}"
        for key, value in record.items()
        if key != "transitions"
    ]
    turns = ",\n    ".join(json.dumps(turn, allow_nan=False) for turn in record["transitions"])
    return "{\n  " + ",\n  ".join([*head, f'"transitions": [\n    {turns}\n  ]']) + "\n}\n"


def draft_widgets(draft: TurnDraft) -> Any:
    """The fields of one turn as `mo.ui.dictionary`, keyed by `TurnDraft` attribute."""
    modes = {
        "carries the history over": "extends",
        "edits the history": "edits",
        "replaces the history": "replaces",
    }
    shown_as = {mode: label for label, mode in modes.items()}

    def text(label: str, value: str, placeholder: str = "") -> Any:
        return mo.ui.text(
            value, label=label, placeholder=placeholder, debounce=400, full_width=True
        )

    return mo.ui.dictionary(
        {
            "history": mo.ui.dropdown(
                modes,
                value=shown_as[draft.history],
                allow_select_none=False,
                label="The observation",
                full_width=True,
            ),
            "edits": text("Changes to the history", draft.edits, "7: 13; 8-9:; 10+: 14"),
            "ob": text("New observation tokens", draft.ob, "none"),
            "ac": text("Action tokens", draft.ac, "none"),
            "logprobs": text("Logprobs", draft.logprobs, "none reported"),
            "reward": text("Reward", draft.reward, "0"),
            "masked": mo.ui.checkbox(draft.masked, label="Masked"),
        }
    )


class InlineExecutor(ThreadPoolExecutor):
    """Does the work at once, in the caller's thread.

    `EnvFromMessageEnv` renders in a thread so as not to hold up other rollouts of its loop.
    Here one rollout is alone on its loop, and handing over costs more than the rendering.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # handed to whoever waits for the result
            future.set_exception(error)
        return future


def wait_for(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end, also where an event loop is running already, as in marimo.

    A cell that awaits would do as well, but then there could be no export as a flat script.
    """

    async def alone() -> Any:
        asyncio.get_running_loop().set_default_executor(InlineExecutor(1))
        return await coroutine

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(alone())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, alone()).result()


class OverBudgetEnv(Env):
    """An environment whose first prompt is already over `max_trajectory_tokens`.

    Its rollout has no tokens at all: the cookbook's loop stops before it samples.
    """

    async def initial_observation(self) -> InitialObservationOverflow:
        return InitialObservationOverflow(reward=0.0, metrics={"stop/max_tokens": 1.0})

    async def step(self, action: list[int], *, extra: Any = None) -> Any:
        raise RuntimeError("The rollout loop never steps an environment that is over budget.")


def token_trajectory(
    turns: Sequence[tuple[Sequence[int], Sequence[int]]], masked: Sequence[int] = ()
) -> Trajectory:
    """A trajectory from (whole observation, action) token pairs, with made-up logprobs.

    Args:
        turns: One pair per turn.
        masked: Turns that carry the cookbook's parse-error mask metric.
    """
    return Trajectory(
        transitions=[
            Transition(
                ob=tinker.ModelInput.from_ints(list(observation)),
                ac=TokensWithLogprobs(
                    tokens=list(action),
                    maybe_logprobs=[made_up_logprob(turn, i) for i in range(len(action))],
                ),
                reward=0.0,
                episode_done=turn + 1 == len(turns),
                metrics={PARSE_ERROR_MASKED_METRIC_KEY: 1.0} if turn in masked else {},
            )
            for turn, (observation, action) in enumerate(turns)
        ],
        final_ob=tinker.ModelInput.empty(),
    )


def group_rollouts() -> dict[str, Rollout]:
    """Eight rollouts of one prompt, each of another shape, by letter.

    `Rollout.name` says what happened. Rewards are 0: `assemble_group` sets them.
    """
    prompt = [100, 101, 102, 103]
    first, second, third = [200, 201], [400, 401, 402], [600, 601]
    extended = [*prompt, *first, 300, 301]
    shapes: dict[str, tuple[str, Trajectory]] = {
        "A": (
            "three turns that extend",
            token_trajectory(
                [
                    (prompt, first),
                    (extended, second),
                    ([*extended, *second, 500], third),
                ]
            ),
        ),
        "B": (
            "two turns that extend",
            token_trajectory([(prompt, [210, 211]), ([*prompt, 210, 211, 310], [410, 411])]),
        ),
        "C": (
            "context reset after turn 0",
            token_trajectory([(prompt, first), ([100, 320, 321], [420, 421])]),
        ),
        "D": (
            "reasoning stripped from history",
            token_trajectory(
                [
                    (prompt, [230, 231, 201]),
                    ([*prompt, 201, 300], [230, 231, 401]),
                    ([*prompt, 201, 300, 401, 500], [230, 601]),
                ]
            ),
        ),
        "E": (
            "first prompt over budget",
            wait_for(do_single_rollout(TokenCompleter(), OverBudgetEnv())),
        ),
        "F": (
            "turn 0 did not parse, is masked",
            token_trajectory([(prompt, [240, 241]), ([*prompt, 240, 241, 340], second)], [0]),
        ),
        "G": ("one turn", token_trajectory([(prompt, first)])),
        "H": ("one long turn", token_trajectory([(prompt, [250, 251, 252, 253, 254, 255])])),
    }
    return {
        letter: Rollout(name, trajectory, group="tutor")
        for letter, (name, trajectory) in shapes.items()
    }


def group_presets() -> dict[str, dict[str, str]]:
    """Named sets of rewards for `group_rollouts`: one text per letter, empty leaves it out."""
    return {
        "Six rollouts, mixed rewards": {
            "A": "0 0 1",
            "B": "0.5 0.5",
            "C": "0 1",
            "D": "0 0 0",
            "E": "-1",
            "F": "0 0.5",
            "G": "",
            "H": "",
        },
        "All eight, one success": {
            "A": "0 0 0",
            "B": "0 0",
            "C": "0 0",
            "D": "0 0 1",
            "E": "0",
            "F": "0 0",
            "G": "0",
            "H": "0",
        },
        "All the same: no policy gradient": {
            "A": "0 0 1",
            "B": "0.5 0.5",
            "C": "0 1",
            "D": "0 0 1",
            "E": "",
            "F": "1 0",
            "G": "1",
            "H": "",
        },
    }


def parse_rewards(text: str, turns: int, name: str) -> tuple[tuple[float, ...] | None, str | None]:
    """Rewards as typed, one number per turn, separated by spaces or commas.

    Args:
        text: What stands in the field. Empty leaves the rollout out of the group.
        turns: Number of turns of the rollout.
        name: What the sentence calls the rollout.

    Returns:
        The rewards and no sentence; or no rewards and a sentence that says what is wrong;
        or neither when the field is empty.
    """
    words = text.replace(",", " ").split()
    if not words:
        return None, None
    rewards: list[float] = []
    for turn, word in enumerate(words):
        try:
            rewards.append(parse_reward(word))
        except FieldError as error:
            told = str(error).replace("`", '"')
            return None, f"Rollout {name}, turn {turn}: the reward {told}"
        if abs(rewards[-1]) > MAX_REWARD:
            return None, (
                f"Rollout {name}, turn {turn}: keep rewards between "
                f"-{MAX_REWARD:,.0f} and {MAX_REWARD:,.0f}, so that they stay readable."
            )
    if len(rewards) != turns:
        return None, (
            f"Rollout {name} has {count_of(turns, 'turn')} but "
            f"{count_of(len(rewards), 'reward')}: give one number per turn."
        )
    return tuple(rewards), None


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
        tokens: Tokens of this turn's observation: here an image counts its own.
    """

    turn: int
    datum: int
    held: int
    position: int
    observation: int
    action: int
    masked: bool
    tokens: int

    @property
    def splits(self) -> bool:
        """True when the observation does not continue the running sequence."""
        return self.position < self.held


def common_prefix_length(
    left: Sequence[Any], right: Sequence[Any], left_start: int = 0, right_start: int = 0
) -> int:
    """Length of the common prefix of two sequences, each read from its start index on.

    Strides that double find the stretch with the first difference, halving finds the place:
    an early difference costs little however long the sequences are. Comparisons run in C.
    """
    i, j = left_start, right_start
    end = max(0, min(len(left) - i, len(right) - j))
    low, stride = 0, 64
    while low < end:
        high = min(low + stride, end)
        if left[i + low : i + high] == right[j + low : j + high]:
            low, stride = high, stride * 2
            continue
        while high - low > 1:
            middle = (low + high) // 2
            if left[i + low : i + middle] == right[j + low : j + middle]:
                low = middle
            else:
                high = middle
        return low
    return end


def walk_turns(trajectory: Trajectory) -> list[TurnSpan]:
    """Follow the prefix rule of `trajectory_to_data` turn by turn.

    The datums themselves always come from the cookbook; this walk only says which turn
    went where, and `alignment_table` refuses to draw when the two disagree. The running
    sequence is never built: before a turn it is always the previous turn's observation and
    action, because whatever merged earlier is contained in that observation.
    """
    spans: list[TurnSpan] = []
    before: Sequence[Any] = ()
    ends = [(0, 0)]  # elements and tokens of the observation up to each of its chunks
    said: list[Any] = []
    datum = 0
    for turn, transition in enumerate(trajectory.transitions):
        # Chunks that both observations share are equal without a look: where a file's reader
        # keeps the history as the same objects, the walk grows with what is new.
        chunks = transition.ob.chunks
        pairs = enumerate(zip(before, chunks, strict=False))
        common = min(len(before), len(chunks))
        shared = next((index for index, (old, new) in pairs if old is not new), common)
        held = ends[-1][0] + len(said)
        rest, fresh = chunks_to_elements(before[shared:]), chunks_to_elements(chunks[shared:])
        del ends[shared + 1 :]
        position = ends[-1][0] + common_prefix_length(rest, fresh)
        if position == held - len(said):
            position += common_prefix_length(said, fresh, 0, len(rest))
        if position < held:
            datum += 1
        for chunk in chunks[shared:]:
            if isinstance(chunk, tinker.EncodedTextChunk):
                length = tokens = len(chunk.tokens)
            else:
                length, tokens = 1, element_length(chunk)
            ends.append((ends[-1][0] + length, ends[-1][1] + tokens))
        before, said = chunks, list(transition.ac.tokens)
        masked = float(transition.metrics.get(PARSE_ERROR_MASKED_METRIC_KEY, 0.0)) >= 1.0
        length, tokens = ends[-1]
        spans.append(TurnSpan(turn, datum, held, position, length, len(said), masked, tokens))
    return spans


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


def build_faults(trajectory: Trajectory) -> Iterator[tuple[type[Exception], str]]:
    """What `trajectory_to_data` refuses, in the order in which it would meet it.

    Source of the rules: the asserts and checks in `trajectory_to_data`, `ImageChunk.length`,
    `TokensWithLogprobs.logprobs` and `create_rightshifted_model_input_and_leftshifted_targets`.

    Yields:
        The class of exception and a plain sentence that names the turn.
    """
    transitions = trajectory.transitions
    spans = walk_turns(trajectory)
    surplus = 0  # logprobs minus action tokens in the open datum
    uneven: list[str] = []
    for span, transition in zip(spans, transitions, strict=True):
        turn, tokens, given = span.turn, transition.ac.tokens, transition.ac.maybe_logprobs
        if span.splits:
            surplus, uneven = 0, []
        elements = model_input_to_elements(transition.ob)
        for index, element in enumerate(elements[span.held if not span.splits else 0 :]):
            if not isinstance(element, int) and getattr(element, "expected_tokens", 0) is None:
                place = index + (span.held if not span.splits else 0)
                yield (
                    ValueError,
                    f"Turn {turn}, observation index {place}: the image does not say how many "
                    "tokens it has. Set expected_tokens.",
                )
        if given is None:
            yield (
                ValueError,
                f"Turn {turn} has no logprobs. Sample with logprobs, or this rollout cannot "
                "become training data.",
            )
        elif len(given) != len(tokens):
            surplus += len(given) - len(tokens)
            uneven.append(
                f"Turn {turn} has {count_of(len(tokens), 'action token')} but "
                f"{count_of(len(given), 'logprob')}. Give one logprob per action token."
            )
        closes = turn + 1 == len(spans) or spans[turn + 1].splits
        if not closes or not (elements or tokens):
            continue
        if not tokens and not isinstance(elements[-1], int):
            yield (
                DataValidationError,
                f"The datum that ends with turn {turn} ends on an image. An image cannot be a "
                "target: the last element must be a token.",
            )
        if len(elements) + len(tokens) == 1:
            yield (
                DataValidationError,
                f"The datum that ends with turn {turn} holds a single token. At least 2 are "
                "needed: one to read, one to predict.",
            )
        if surplus:
            yield AssertionError, uneven[0]


def explain_build_error(trajectory: Trajectory, error: Exception) -> str:
    """A plain sentence for an exception of `trajectory_to_data`, naming the turn."""
    for kind, sentence in build_faults(trajectory):
        if type(error) is kind:
            return sentence
    return f"trajectory_to_data refused this rollout: {error}"


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


def datum_runs(spans: Sequence[TurnSpan]) -> list[Run]:
    """The datums as runs of observation and action; grows with turns, not with tokens."""
    runs: list[Run] = []
    cursor = 0
    previous: TurnSpan | None = None
    for span in spans:
        if previous is None or span.datum != previous.datum:
            cursor = 0
        added = span.tokens - cursor
        if added:
            runs.append(Run(span.datum, span.turn, "O", cursor, added))
        cursor += added
        if span.action:
            runs.append(Run(span.datum, span.turn, "A", cursor, span.action, span.masked))
        cursor += span.action
        previous = span
    return runs


def datum_tensor(datum: tinker.Datum, name: str) -> list[Any]:
    """One field of `loss_fn_inputs` as a flat list, one entry per target."""
    return list(datum.loss_fn_inputs[name].data)


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
        runs: Turn and part of each stretch, from `datum_runs`.
        vocab: Text of token ids where known.
        only: Indices of the datums wanted; None for all. A row takes about a microsecond
            and 300 bytes, so long rollouts are drawn a datum at a time.

    Returns:
        Columns datum, position, token, label, text, turn, part, target, target_label, mask,
        advantage, logprob. `token` of an image position is -1.

    Raises:
        ValueError: The runs do not add up to the datums, so turns cannot be attributed.
    """
    words = vocab or {}
    runs_of: dict[int, list[Run]] = {}
    for run in runs:
        runs_of.setdefault(run.datum, []).append(run)
    if len(built.data) != len(runs_of):
        raise ValueError(
            f"trajectory_to_data made {len(built.data)} datums where the prefix rule "
            f"explains {len(runs_of)}."
        )
    frames: list[pd.DataFrame] = []

    def ended(values: Sequence[float]) -> NDArray[np.float64]:
        """What belongs to targets: nothing in the last row."""
        return np.array([*values, math.nan], dtype=np.float64)

    wanted = range(len(built.data)) if only is None else sorted(set(only))
    for index in wanted:
        datum, mine = built.data[index], runs_of[index]
        targets = datum_tensor(datum, "target_tokens")
        tokens: list[int] = []
        for chunk in datum.model_input.chunks:
            if isinstance(chunk, tinker.EncodedTextChunk):
                tokens.extend(chunk.tokens)
            else:
                tokens.extend([-1] * chunk.length)
        tokens.append(int(targets[-1]))
        labels = ["img" if token == -1 else str(token) for token in tokens]
        count = len(tokens)
        if sum(run.length for run in mine) != count or len(targets) != count - 1:
            raise ValueError(
                f"Datum {index} holds {count} tokens, but its turns account for "
                f"{sum(run.length for run in mine)}."
            )
        lengths = [run.length for run in mine]
        # half a character pair is no text: tables and pages could not hold it
        texts = {
            token: words[token].encode("utf-8", "backslashreplace").decode()
            for token in words.keys() & set(tokens)
        }
        frames.append(
            pd.DataFrame(
                {
                    "datum": index,
                    "position": np.arange(count),
                    "token": tokens,
                    "label": labels,
                    "text": [texts.get(token, "") for token in tokens] if texts else "",
                    "turn": np.repeat([run.turn for run in mine], lengths),
                    "part": np.repeat([run.part for run in mine], lengths),
                    "target": ended(targets),
                    "target_label": [*labels[1:], ""],
                    "mask": ended(datum_tensor(datum, "mask")),
                    "advantage": ended(datum_tensor(datum, "advantages")),
                    "logprob": ended(datum_tensor(datum, "logprobs")),
                }
            )
        )
    if not frames:
        return pd.DataFrame(
            columns=[
                "datum", "position", "token", "label", "text", "turn", "part",
                "target", "target_label", "mask", "advantage", "logprob",
            ]
        )  # fmt: skip
    return pd.concat(frames, ignore_index=True)


@dataclass(frozen=True)
class Chip:
    """One element of a turn, as it is shown beside the fields of the editor.

    Attributes:
        position: In the turn's observation + action; an image is one element.
        label: The token id, or the image's name.
        text: Text of the token where known.
        kind: "held": carried over unchanged; "break": the first element that differs from the
            running sequence; "end": nothing is left where the running sequence goes on;
            "gap": elements that are left out.
    """

    position: int
    label: str
    text: str
    kind: Literal["held", "observation", "action", "masked", "break", "end", "gap"]


def turn_chips(
    trajectory: Trajectory, spans: Sequence[TurnSpan], vocab: Mapping[int, str], limit: int = 120
) -> list[list[Chip]]:
    """The elements of every turn, with what it carries over and where it breaks.

    At most about `limit` elements a turn are kept: around the break, and the end.
    """
    turns: list[list[Chip]] = []
    for span, transition in zip(spans, trajectory.transitions, strict=True):
        elements = [*model_input_to_elements(transition.ob), *transition.ac.tokens]
        chips: list[Chip] = []
        if len(elements) <= limit:
            kept = set(range(len(elements)))
        else:
            near = range(max(0, span.position - limit // 4), span.position + limit // 4)
            kept = {*near, *range(len(elements) - limit // 2, len(elements))}
        for position, element in enumerate(elements):
            if position == span.observation and span.splits and span.position == span.observation:
                chips.append(Chip(position, "", "ends here", "end"))
            if position not in kept:
                if not chips or chips[-1].kind != "gap":
                    chips.append(Chip(position, "…", "", "gap"))
                continue
            if position >= span.observation:
                kind: Any = "masked" if span.masked else "action"
            elif span.splits and position == span.position:
                kind = "break"
            else:
                kind = "held" if position < span.position else "observation"
            if isinstance(element, int):
                label, text = str(element), vocab.get(element, "")
            else:
                label, text = (
                    str(element_to_native(element)["image"]),
                    count_of(element.length, "token"),
                )
            chips.append(Chip(position, label, text, kind))
        turns.append(chips)
    return turns


@dataclass(frozen=True)
class GroupResult:
    """What the cookbook makes of one group of rollouts.

    Attributes:
        letters, rollouts: The members, in order; the rewards are set in their transitions.
        group: The `TrajectoryGroup`.
        rewards: Total reward per member, from `get_total_rewards`.
        advantages: One number per member, from `compute_advantages`.
        data: All datums, from `assemble_training_data`.
        member_of: For each datum, the index of its member (the metadata's `traj_idx`).
        kept: Whether `remove_constant_reward_groups` would keep the group in a batch that
            also holds a group with a gradient.
    """

    letters: tuple[str, ...]
    rollouts: tuple[Rollout, ...]
    group: TrajectoryGroup
    rewards: tuple[float, ...]
    advantages: tuple[float, ...]
    data: tuple[tinker.Datum, ...]
    member_of: tuple[int, ...]
    kept: bool

    @property
    def mean(self) -> float:
        """The group mean that `compute_advantages` subtracts."""
        return sum(self.rewards) / len(self.rewards)


def assemble_group(
    members: Mapping[str, Rollout], rewards: Mapping[str, Sequence[float]]
) -> GroupResult:
    """Set the rewards, then call the cookbook: group, advantages, datums, filter.

    Args:
        members: Rollouts by letter.
        rewards: One reward per turn for each letter that takes part.

    Raises:
        ValueError: No member takes part: a group without rollouts has no mean.
    """
    letters = tuple(letter for letter in members if letter in rewards)
    if not letters:
        raise ValueError("A group needs at least one rollout.")
    rollouts = tuple(
        replace(
            members[letter],
            trajectory=replace(
                members[letter].trajectory,
                transitions=[
                    replace(transition, reward=reward)
                    for transition, reward in zip(
                        members[letter].trajectory.transitions, rewards[letter], strict=True
                    )
                ],
            ),
        )
        for letter in letters
    )
    group = TrajectoryGroup(
        trajectories_G=[rollout.trajectory for rollout in rollouts],
        final_rewards_G=[0.0] * len(rollouts),
        metrics_G=[{}] * len(rollouts),
    )
    advantages_P = compute_advantages([group])
    data_D, metadata_D = assemble_training_data([group], advantages_P)
    # A batch is never left empty, so the filter is asked in the company of a varied group.
    varied = replace(group, trajectories_G=group.trajectories_G[:1] * 2, final_rewards_G=[0.0, 1.0])
    kept = remove_constant_reward_groups([varied, group])
    return GroupResult(
        letters=letters,
        rollouts=rollouts,
        group=group,
        rewards=tuple(group.get_total_rewards()),
        advantages=tuple(advantages_P[0].tolist()),
        data=tuple(data_D),
        member_of=tuple(metadata["traj_idx"] for metadata in metadata_D),
        kept=any(one is group for one in kept),
    )


def preset_group(members: Mapping[str, Rollout], preset: str) -> GroupResult:
    """`assemble_group` with the rewards of one of `group_presets`."""
    read = {
        letter: parse_rewards(text, len(members[letter].trajectory.transitions), letter)[0]
        for letter, text in group_presets()[preset].items()
    }
    return assemble_group(
        members, {letter: rewards for letter, rewards in read.items() if rewards is not None}
    )


def group_table(result: GroupResult) -> pd.DataFrame:
    """One row per target of every datum of the group; a member without datums has one row.

    Returns:
        Columns lane (from 0, a lane per datum or per member without one), letter, member,
        datum (within the member; -1 for none), position (of the target token in the datum's
        sequence, from 1), target, part and turn of that token, mask, advantage (of the
        datum), reward (total of the member), member_advantage.
    """
    frames: list[pd.DataFrame] = []
    lane = 0
    for member, (letter, rollout) in enumerate(zip(result.letters, result.rollouts, strict=True)):
        mine = [
            datum
            for datum, owner in zip(result.data, result.member_of, strict=True)
            if owner == member
        ]
        runs = datum_runs(walk_turns(rollout.trajectory))
        table = alignment_table(Built(tuple(mine)), runs, rollout.vocab)
        for index in range(max(1, len(mine))):
            rows = table[table["datum"] == index]
            targets = pd.DataFrame(
                {
                    "lane": lane,
                    "letter": letter,
                    "member": rollout.name,
                    "datum": index if mine else -1,
                    "position": rows["position"].iloc[1:].to_numpy() if mine else [None],
                    "target": rows["token"].iloc[1:].to_numpy() if mine else [None],
                    "part": rows["part"].iloc[1:].to_numpy() if mine else [None],
                    "turn": rows["turn"].iloc[1:].to_numpy() if mine else [None],
                    "mask": rows["mask"].iloc[:-1].to_numpy() if mine else [None],
                    "advantage": rows["advantage"].iloc[:-1].to_numpy() if mine else [None],
                    "reward": result.rewards[member],
                    "member_advantage": result.advantages[member],
                }
            )
            frames.append(targets)
            lane += 1
    return pd.concat(frames, ignore_index=True)


def group_summary(result: GroupResult) -> pd.DataFrame:
    """One row per member: rewards, total, advantage, datums, and what reaches the loss.

    Returns:
        Columns rollout, what happened, turns, rewards, total, advantage, datums,
        action tokens, mask 1, advantage not 0 (the last two count targets).
    """
    rows: list[dict[str, Any]] = []
    for member, (letter, rollout) in enumerate(zip(result.letters, result.rollouts, strict=True)):
        mine = [
            datum
            for datum, owner in zip(result.data, result.member_of, strict=True)
            if owner == member
        ]
        transitions = rollout.trajectory.transitions
        rows.append(
            {
                "rollout": letter,
                "what happened": rollout.name,
                "turns": len(transitions),
                "rewards": " + ".join(number_text(step.reward) for step in transitions),
                "total": result.rewards[member],
                "advantage": signed(result.advantages[member]),
                "datums": len(mine),
                "action tokens": sum(len(transition.ac.tokens) for transition in transitions),
                "mask 1": sum(int(sum(datum_tensor(datum, "mask"))) for datum in mine),
                "advantage not 0": sum(
                    value != 0 for datum in mine for value in datum_tensor(datum, "advantages")
                ),
            }
        )
    return pd.DataFrame(rows)


class RecordingClient:
    """Stands where a `tinker.TrainingClient` stands and only writes down what it is sent.

    Attributes:
        sent: Every datum that reached `forward_backward_async`.
    """

    def __init__(self) -> None:
        self.sent: list[tinker.Datum] = []

    async def forward_backward_async(self, data: Sequence[tinker.Datum], **_: Any) -> Any:
        self.sent.extend(data)
        outputs = [{"logprobs": datum.loss_fn_inputs["logprobs"]} for datum in data]
        return RecordedResult(outputs)

    async def optim_step_async(self, _: Any) -> Any:
        return RecordedResult([])


@dataclass(frozen=True)
class RecordedResult:
    """What `RecordingClient` answers: a future and its result in one."""

    loss_fn_outputs: list[dict[str, tinker.TensorData]]
    metrics: dict[str, float] = field(default_factory=dict)

    async def result_async(self) -> "RecordedResult":
        return self


def sent_to_loss(data_D: Sequence[tinker.Datum]) -> list[tinker.Datum]:
    """The datums as the loss sees them: what the real `train_step` sends for training.

    Nothing is trained and nothing leaves the machine: the client is a `RecordingClient`.
    """
    client: Any = RecordingClient()
    wait_for(
        train_step(
            list(data_D), client, learning_rate=0.0, num_substeps=1, loss_fn="importance_sampling"
        )
    )
    return client.sent


class RecordingSampler:
    """Stands where the base model of a KL penalty stands; a little less sure of every token."""

    async def compute_logprobs_async(self, prompt: tinker.ModelInput) -> list[float]:
        return [-1.0 - 0.01 * position for position in range(prompt.length)]


def kl_penalised(data_D: Sequence[tinker.Datum], discount: float = 0.0) -> list[tinker.Datum]:
    """Copies of the datums after the real `incorporate_kl_penalty`, with coefficient 0.1."""
    copies = [
        tinker.Datum(model_input=datum.model_input, loss_fn_inputs=dict(datum.loss_fn_inputs))
        for datum in data_D
    ]
    base: Any = RecordingSampler()
    wait_for(incorporate_kl_penalty(copies, base, kl_penalty_coef=0.1, kl_discount_factor=discount))
    return copies


def nonzero_targets(data_D: Sequence[tinker.Datum], name: str, unmasked: bool = False) -> int:
    """Targets of all datums whose `loss_fn_inputs[name]` is not 0.

    Args:
        data_D, name: What to count in.
        unmasked: Count only where `mask` is 0.
    """
    return sum(
        value != 0 and not (unmasked and mask)
        for datum in data_D
        for value, mask in zip(datum_tensor(datum, name), datum_tensor(datum, "mask"), strict=True)
    )


def part_name(part: str, masked: bool = False) -> str:
    """ "O" and "A" in words."""
    return "observation" if part == "O" else "masked action" if masked else "action"


def datum_counts(built: Built, runs: Sequence[Run]) -> pd.DataFrame:
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
                "opens": part_name(mine[0].part, mine[0].masked),
                "trained": int(sum(datum_tensor(datum, "mask"))),
            }
        )
    return pd.DataFrame(rows)


def counts_shown(counts: pd.DataFrame) -> pd.DataFrame:
    """`datum_counts` with readable column names, and the sums where there are several datums."""
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


def conservation(counts: pd.DataFrame) -> tuple[str, str]:
    """The conservation law of the mask with the numbers of `datum_counts`; "holds" or not.

    sum(mask) = action tokens - action tokens of masked turns - datums that open with an action
    (a masked one is counted already): no other sampled token is lost, none is trained twice.
    """
    trained, action = int(counts["trained"].sum()), int(counts["action"].sum())
    masked = int(counts["masked"].sum())
    opening = int((counts["opens"] == "action").sum())
    holds = trained == action - masked - opening
    return (
        f"sum(mask) = action tokens - tokens of masked turns - datums that open with an action: "
        f"{trained} {'=' if holds else '≠'} {action} - {masked} - {opening}",
        "holds" if holds else "does not hold",
    )


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
        removed, inserted, kept: Element counts of the cheapest edit behind `position`
            (the best edit found, where `bounded` is set).
        bounded: The sentence that names the bound when the search gave up, else None.
        held: Length of the running sequence in elements.
        again: Tokens of the new observation that were inputs of an earlier datum, in order:
            they are processed once more. A resumed datum counts with all its inputs.
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
    held: int = 0
    again: int = 0


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
        lineages: Datums there would be if every open sequence were kept, not only the last.
    """

    rollout: Rollout
    built: Built
    spans: tuple[TurnSpan, ...]
    runs: tuple[Run, ...]
    breaks: tuple[Break, ...]
    remarks: tuple[Remark, ...]
    tokens_processed: int | None
    tokens_unmerged: int | None
    lineages: int = 0


class ElementCodes:
    """Elements as unsigned 32-bit numbers: equal numbers exactly where elements are equal.

    A token id up to `MAX_TOKEN_ID` is its own number. Anything else (an image chunk, which
    compares as the cookbook compares it, or an id out of range) gets the next number above.
    """

    def __init__(self) -> None:
        self._rare: dict[Any, int] = {}

    def encode(self, elements: Sequence[Any]) -> NDArray[np.uint32]:
        """One number per element."""
        try:
            codes = np.asarray(array("I", elements), dtype=np.uint32)
            if not len(codes) or int(np.max(codes)) <= MAX_TOKEN_ID:
                return codes
        except (TypeError, OverflowError):
            pass
        return np.array([self._code(element) for element in elements], dtype=np.uint32)

    def _code(self, element: Any) -> int:
        if isinstance(element, int) and 0 <= element <= MAX_TOKEN_ID:
            return element
        try:
            hash(element)
        except TypeError:
            element = (type(element).__name__, repr(element))
        return self._rare.setdefault(element, MAX_TOKEN_ID + 1 + len(self._rare))


def codes_to_text(*parts: NDArray[np.uint32]) -> list[str] | None:
    """Number sequences as strings, one character per element, for the diff library.

    rapidfuzz reads a string in place, where it would hash every entry of a list. Numbers
    that are no code point are ranked first; None when there are too many distinct ones.
    """
    joined = np.concatenate(parts)
    if len(joined) and int(np.max(joined)) > 0x10F7FF:
        distinct, ranks = np.unique(joined, return_inverse=True)
        if len(distinct) > 0x10F800:
            return None
        joined = ranks.astype(np.uint32)
    # Surrogates (0xD800 to 0xDFFF) are no characters: step over them.
    joined = (joined + np.uint32(0x800) * (joined >= 0xD800)).astype("<u4")
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    return [part.tobytes().decode("utf-32-le") for part in np.split(joined, cuts)]


def narrow_texts(left: str, right: str) -> tuple[str, str, bool]:
    """Both texts over an alphabet of at most 256 letters: equal letters stay equal.

    Their common subsequence is never shorter than that of the originals, and rapidfuzz finds
    it several times faster, so it proves cheaply what cannot be better.

    Returns:
        The two texts, and whether nothing was merged, so that the bound is the value.
    """
    joined = np.frombuffer((left + right).encode("utf-32-le"), dtype="<u4")
    _, ranks, counts = np.unique(joined, return_inverse=True, return_counts=True)
    # Common letters share their new letter with rare ones only: the bound stays close.
    order = np.empty(len(counts), dtype=np.uint32)
    order[np.argsort(-counts, kind="stable")] = np.arange(len(counts), dtype=np.uint32) % 256
    text = order[ranks].astype(np.uint8).tobytes().decode("latin-1")
    return text[: len(left)], text[len(left) :], len(counts) <= 256


def subsequence_reach(needle: str, hay: str) -> tuple[int, int]:
    """How much of `needle`, from its start, `hay` contains in order, and where it ends there.

    Leftmost matching, so both numbers are best possible: no longer prefix fits, and this one
    does not fit into less of `hay`.
    """
    matched = end = 0
    while matched < len(needle):
        found = hay.find(needle[matched], end)
        if found < 0:
            break
        run = common_prefix_length(needle, hay, matched, found)
        matched, end = matched + run, found + run
    return matched, end


@dataclass(frozen=True)
class Edit:
    """The cheapest edit of what was held behind a break into what came instead.

    Attributes:
        taken: How much of the new tail it explains; what follows is simply new.
        kept: Elements kept, in order; `removed` and `inserted` follow from it.
        size: Length of the held tail.
        exact: False when the search gave up; then this is the best edit found.
        kept_at_most: No cheapest edit keeps more than this.
        work: Comparisons spent.
    """

    taken: int
    kept: int
    size: int
    exact: bool
    kept_at_most: int
    work: int

    @property
    def removed(self) -> int:
        """Held elements that are gone."""
        return self.size - self.kept

    @property
    def inserted(self) -> int:
        """Elements that were not there before."""
        return self.taken - self.kept


def cheapest_edit(held: str, new: str, work: int) -> Edit:
    """Cheapest edit of `held` into a prefix of `new`, the rest of `new` being free.

    With L(j) the longest common subsequence of `held` and `new[:j]` (rapidfuzz), the edit
    into `new[:j]` removes len(held) - L(j) and inserts j - L(j). Cheapest, and keeping most
    among equals, is the j with the largest gain 2 L(j) - j, the largest such j among equals.
    L never falls and grows by at most 1 per step, so two known values bound the gain between
    them, and most stretches of j are ruled out without a look. A gain never exceeds
    2 len(held) - j, so no j beyond 2 len(held) matters.

    Args:
        held, new: One character per element; their first characters differ.
        work: Comparisons (cells of the dynamic program over a small alphabet) to spend.
    """
    size = len(held)
    new = new[: 2 * size]
    reach, _ = subsequence_reach(new, held)
    matched, complete = subsequence_reach(held, new)
    if matched == size:
        best = max((reach, reach), (2 * size - complete, complete))
    else:
        best, complete = (reach, reach), len(new) + 1
    kept = {reach: reach, complete: size}
    backward = (held[::-1], new[::-1])
    narrow: list[tuple[str, str, bool]] = []
    spent = 0

    def probe(taken: int, floor: int | None = None) -> int | None:
        """An upper bound on L(taken), exact where it could win; None when work has run out."""
        nonlocal spent, best
        gain, leader = best
        need = (gain + taken + 1) // 2 if taken > leader else (gain + taken) // 2 + 1
        tail = common_prefix_length(backward[0], backward[1], 0, len(new) - taken)
        rows, columns = size - tail, taken - tail
        # Values far below `need` are of no use: the library may stop early on them.
        if floor is None:
            floor = need - (size - gain) // 2 - 32
        floor = max(0, floor - tail)
        band = rows + columns - 2 * floor
        cells = min(rows * columns, max(rows, columns) * band) + 16 * (rows + columns)
        texts = [(held[:rows], new[:columns], True, 8)]
        if cells > 1_000_000:
            if not narrow:
                narrow.append(narrow_texts(held, new))
            small, short, same = narrow[0]
            texts = [(small[:rows], short[:columns], same, 1), *([] if same else texts)]
        bound = 0
        for old, now, same, price in texts:
            if spent + price * cells > work:
                return None
            spent += price * cells
            found = LCSseq.similarity(old, now, score_cutoff=floor or None)
            bound = tail + (found if found or not floor else floor - 1)
            if same and (found or not floor):
                kept[taken] = bound
                best = max(best, (2 * bound - taken, taken))
            elif bound < need:
                break
        return bound

    # Likely places to end: where the last of what was held turns up again, or after as many
    # elements as were held. A small band around the diagonal settles them cheaply.
    likely = {min(size, len(new))}
    for length in (64, 16, 4):
        found = new.find(held[-length:])
        if found >= 0:
            likely.add(found + min(length, size))
            break
    for taken in likely - {0}:
        probe(taken, floor=min(size, taken) - 256)
    # Open stretches of j with bounds on L just inside both ends. Left of `reach` and right of
    # `complete` the gain only falls; between them something is removed and inserted.
    stretches: list[tuple[int, ...]] = []

    def consider(left: int, left_kept: int, right: int, right_kept: int) -> None:
        """Keep an open stretch for later if a j in it could still win."""
        right_kept = min(right_kept, left_kept + right - left)
        peak = min(max(left + right_kept - left_kept, left + 1), right - 1)
        gain = 2 * min(left_kept + peak - left, right_kept) - peak
        if left < peak and (gain, peak) > best:
            heappush(stretches, (-gain, -peak, left, left_kept, right, right_kept))

    consider(reach, reach - 1, complete, size - 1)
    most = 0
    while stretches:
        gain, peak, left, left_kept, right, right_kept = heappop(stretches)
        if (-gain, -peak) <= best:
            break
        bound = kept[-peak] if -peak in kept else probe(-peak)
        if bound is None:
            most = max(right_kept, *(stretch[-1] for stretch in stretches), 0)
            break
        consider(left, left_kept, -peak, bound)
        consider(-peak, bound, right, right_kept)
    taken = best[1]
    return Edit(taken, kept[taken], size, not most, max(most, kept[taken]), spent)


def same_text(
    held: Sequence[Any], new: Sequence[Any], start: int, vocab: Mapping[int, str]
) -> bool:
    """Does the text of `new` start with the text of `held`, both equal up to `start`?

    Every id behind `start` that is needed must be in the vocabulary. A piece of a character
    (U+FFFD) has no text of its own and equals only the same id.
    """
    ahead = ""  # text of `new` that `held` has yet to match
    place = start
    for element in held[start:]:
        text = vocab.get(element) if isinstance(element, int) else None
        if text is None:
            return False
        text = f"{text}{element}" if "\ufffd" in text else text
        while len(ahead) < len(text):
            other = new[place] if place < len(new) else None
            piece = vocab.get(other) if isinstance(other, int) else None
            if piece is None or not text.startswith(ahead):
                return False
            ahead += f"{piece}{other}" if "\ufffd" in piece else piece
            place += 1
        if not ahead.startswith(text):
            return False
        ahead = ahead[len(text) :]
    return True


def name_cause(
    held: Sequence[Any],
    new: Sequence[Any],
    position: int,
    edit: Edit,
    tails: Sequence[str],
    vocab: Mapping[int, str],
) -> str:
    """The first rule of the design's table that applies.

    Where the search for the cheapest edit gave up, a cause is named only if no edit that was
    left out could change it; otherwise it is `replaced`, and the caller names the bound.

    Args:
        held, new: Elements of the running sequence and of the observation.
        position: Length of their common prefix, smaller than len(held).
        edit: Cheapest edit behind `position`.
        tails: Held and new behind `position` as text (`codes_to_text`).
        vocab: Text of token ids where known.
    """
    if position == len(new):
        return "shortened"
    if not isinstance(held[position], int) or not isinstance(new[position], int):
        return "image_changed"
    if position == len(held) - 1:
        return "end_token"
    if same_text(held, new, position, vocab):
        return "retokenised"
    pure = not edit.removed or not edit.inserted
    if edit.exact and edit.kept and not edit.inserted:
        return "removed"
    if edit.exact and not edit.removed:
        return "inserted"
    if 2 * (position + edit.kept_at_most) < len(held) and (edit.exact or not pure):
        return "new_context"
    if edit.exact and edit.removed == edit.inserted:
        old, now = tails[0], tails[1][: edit.taken]
        changed = len(old) - common_prefix_length(old[::-1], now[::-1])
        if Counter(old[:changed]) == Counter(now[:changed]):
            return "reordered"
    return "replaced"


def trace_origin(spans: Sequence[TurnSpan], turn: int, position: int) -> Origin:
    """Turn, part and index of element `position` of the sequence held before `turn`."""
    datum = spans[turn - 1].datum
    for span in spans[:turn]:
        if span.datum == datum and position < span.observation + span.action:
            if position < span.observation:
                return Origin(span.turn, "observation", position)
            return Origin(span.turn, "action", position - span.observation)
    raise ValueError(f"Turn {turn} holds no element at position {position}.")


def datum_codes(
    trajectory: Trajectory, spans: Sequence[TurnSpan], codes: ElementCodes
) -> list[NDArray[np.uint32]]:
    """Every datum's whole sequence as numbers: its last turn's observation and action."""
    last = {span.datum: span.turn for span in spans}
    sequences = []
    for turn in last.values():
        transition = trajectory.transitions[turn]
        sequences.append(
            np.concatenate(
                [
                    codes.encode(model_input_to_elements(transition.ob)),
                    codes.encode(transition.ac.tokens),
                ]
            )
        )
    return sequences


def picture_tokens(shared: Sequence[Any], tail: Sequence[Any], rest: Sequence[Any]) -> int:
    """Tokens beyond one each of the images in `shared`, and of those in both `tail` and `rest`."""
    left = [element for element in tail if not isinstance(element, int)]
    both = [element for element in shared if not isinstance(element, int)]
    for element in rest if left else ():
        if element in left:
            left.remove(element)
            both.append(element)
    return sum(element_length(element) - 1 for element in both)


def find_breaks(
    trajectory: Trajectory,
    spans: Sequence[TurnSpan],
    vocab: Mapping[int, str],
    codes: ElementCodes,
    sequences: Sequence[NDArray[np.uint32]],
) -> tuple[list[Break], int]:
    """Every break with its cause, and the number of datums if lineages were tracked.

    A lineage is an open sequence: a turn may go on from the latest datum (as in the
    cookbook) or, at a break, from any earlier one that nobody has gone on from; the longest
    is taken.

    Args:
        trajectory, spans: The rollout and its walk.
        vocab: Text of token ids where known.
        codes, sequences: Coder and coded datums of `datum_codes`.
    """
    splits = [span for span in spans if span.splits]
    # Comparisons to spend: about half a second, plus what a datum per turn costs anyway.
    budget = 20_000_000_000 + 10_000 * sum(span.observation + span.action for span in spans)
    stored = [sequence.tobytes() for sequence in sequences] if splits else []
    breaks: list[Break] = []
    continued: set[int] = set()
    for number, span in enumerate(splits):
        previous = trajectory.transitions[span.turn - 1]
        said = list(previous.ac.tokens)
        held = model_input_to_elements(previous.ob)
        held = held + said if said else held
        new = model_input_to_elements(trajectory.transitions[span.turn].ob)
        coded = sequences[span.datum][: len(new)]  # a datum starts with its first observation
        tails = codes_to_text(sequences[span.datum - 1][span.position :], coded[span.position :])
        share = budget // (len(splits) - number)
        size = span.held - span.position
        if tails is None:
            tails, edit = ["", ""], Edit(0, 0, size, False, size, 0)
        else:
            edit = cheapest_edit(tails[0], tails[1], share)
        budget -= edit.work
        cause = name_cause(held, new, span.position, edit, tails, vocab)
        bounded = None
        if not edit.exact:
            bounded = (
                f"The search for the cheapest edit stopped at its bound of {share:,} "
                f"comparisons ({size:,} held against {len(new) - span.position:,} new "
                "elements); the counts are those of the best edit found."
            )
        raw = coded.tobytes()
        extended = [
            datum
            for datum, earlier in enumerate(stored[: span.datum])
            if earlier and raw.startswith(earlier)
        ]
        extended.sort(key=lambda datum: (len(stored[datum]), datum))
        resumes = extended[-1] if extended else None
        free = [datum for datum in extended if datum not in continued]
        if free:
            continued.add(free[-1])
        # the last element held was a target, never an input: not read before
        came_back = edit.kept > 0 and new[span.position + edit.taken - 1] == held[-1]
        again = span.position + edit.kept - came_back
        shared, tail = span.position, held[span.position : -1]
        if resumes is not None and len(sequences[resumes]) - 1 > again:
            again = shared = len(sequences[resumes]) - 1
            tail = []
        again += picture_tokens(new[:shared], tail, new[shared:])
        breaks.append(
            Break(
                turn=span.turn,
                position=span.position,
                expected=held[span.position],
                got=new[span.position] if span.position < len(new) else None,
                cause=cause,
                origin=trace_origin(spans, span.turn, span.position),
                resumes_datum=resumes,
                removed=edit.removed,
                inserted=edit.inserted,
                kept=edit.kept,
                bounded=bounded,
                held=span.held,
                again=again,
            )
        )
    datums = sum(1 for sequence in sequences if len(sequence))
    return breaks, datums - len(continued)


def find_remarks(
    trajectory: Trajectory,
    spans: Sequence[TurnSpan],
    vocab: Mapping[int, str],
    codes: ElementCodes,
    sequences: Sequence[NDArray[np.uint32]],
) -> list[Remark]:
    """All warnings of the design's second table, in order of turns."""
    remarks = [
        *logprob_remarks(trajectory),
        *observation_remarks(trajectory, vocab),
        *separator_remarks(spans, vocab, codes, sequences),
    ]
    return sorted(remarks, key=lambda remark: remark.turn)


def logprob_remarks(trajectory: Trajectory) -> list[Remark]:
    """Warnings about what was recorded for the action tokens.

    At most 8 values that are not finite are listed per turn; the last one counts the rest.
    """
    remarks: list[Remark] = []
    for turn, transition in enumerate(trajectory.transitions):
        tokens, logprobs = transition.ac.tokens, transition.ac.maybe_logprobs
        if logprobs is None:
            sentence = f"Turn {turn} has no logprobs: trajectory_to_data refuses the rollout."
            remarks.append(Remark("logprobs_missing", turn, None, sentence))
            continue
        if len(logprobs) != len(tokens):
            sentence = (
                f"Turn {turn} has {count_of(len(tokens), 'action token')} but "
                f"{count_of(len(logprobs), 'logprob')}: "
                "from there on logprobs stand at the wrong tokens, or the rollout is refused."
            )
            remarks.append(Remark("logprob_count", turn, None, sentence))
        bad = [
            index
            for index, value in enumerate(logprobs)
            if not isinstance(value, int | float) or not math.isfinite(value)
        ]
        for index in bad[:8]:
            sentence = f"Turn {turn}, action index {index}: the logprob is {logprobs[index]}."
            if len(bad) > 8 and index == bad[7]:
                sentence += f" {len(bad) - 8} more in this turn are not finite either."
            remarks.append(Remark("logprob_not_finite", turn, index, sentence))
        others = logprobs[:-1]
        if len(logprobs) == len(tokens) and others and logprobs[-1] == 0.0 and 0.0 not in others:
            sentence = (
                f"Turn {turn}, action index {len(tokens) - 1}: the last action token has a "
                "logprob of exactly 0.0 and no other has. It was probably appended, not sampled."
            )
            remarks.append(Remark("zero_logprob_end", turn, len(tokens) - 1, sentence))
    return remarks


def image_label(element: Any) -> str:
    """An image in words: its size, and its name where its bytes or its place are a short text."""
    name: Any = getattr(element, "location", None) or getattr(element, "data", b"")
    try:
        text = name if isinstance(name, str) else bytes(name).decode()
    except UnicodeDecodeError:
        text = ""
    told = f", {json.dumps(text, ensure_ascii=False)}" if text and text.isprintable() else ""
    return f"an image of {element_length(element)} tokens{told if len(told) < 44 else ''}"


def token_label(element: Any, vocab: Mapping[int, str] | None = None) -> str:
    """An element in words: id, and text in quotes where known; an image by its size."""
    if element is None:
        return "nothing"
    if not isinstance(element, int):
        return image_label(element)
    text = (vocab or {}).get(element)
    return f"{element}" if text is None else f"{element} {json.dumps(text, ensure_ascii=False)}"


def observation_remarks(trajectory: Trajectory, vocab: Mapping[int, str]) -> list[Remark]:
    """Warnings about observations: empty ones, and one that ends unlike all others."""
    remarks: list[Remark] = []
    ends: list[Any] = []
    for turn, transition in enumerate(trajectory.transitions):
        chunks = reversed(transition.ob.chunks)
        last = next((chunk for chunk in chunks if not is_empty_chunk(chunk)), None)
        if last is None and transition.ac.tokens:
            sentence = (
                f"Turn {turn} has an observation without tokens: its first action token "
                "(action index 0) has no target and cannot be trained."
            )
            remarks.append(Remark("empty_observation", turn, 0, sentence))
        ends.append(last.tokens[-1] if isinstance(last, tinker.EncodedTextChunk) else last)
    if len(ends) < 3:
        return remarks
    # One odd end needs all others alike, so the first three already hold the usual one.
    usual = ends[0] if ends[0] in (ends[1], ends[2]) else ends[1]
    odd = [turn for turn, end in enumerate(ends) if end != usual]
    if usual is not None and len(odd) == 1 and ends[odd[0]] is not None:
        turn = odd[0]
        index = len(model_input_to_elements(trajectory.transitions[turn].ob)) - 1
        sentence = (
            f"Turn {turn}, observation index {index}: it ends with "
            f"{token_label(ends[turn], vocab)}, the other {len(ends) - 1} observations end with "
            f"{token_label(usual, vocab)}. The generation header may be missing."
        )
        remarks.append(Remark("header_changed", turn, index, sentence))
    return remarks


def is_empty_chunk(chunk: Any) -> bool:
    """True for a chunk without tokens."""
    if isinstance(chunk, tinker.EncodedTextChunk):
        return not chunk.tokens
    return False


def separator_remarks(
    spans: Sequence[TurnSpan],
    vocab: Mapping[int, str],
    codes: ElementCodes,
    sequences: Sequence[NDArray[np.uint32]],
) -> list[Remark]:
    """Warn where an action's last token is not followed by what always follows that token.

    The observation of the next turn is to blame, so the warning is that turn's. What a split
    observation repeats up to its break is the same place seen twice and counts once.
    """
    ends: list[tuple[TurnSpan, int, int]] = []  # next turn, last token, what follows it
    for before, span in pairwise(spans):
        sequence = sequences[span.datum]
        if before.action and not span.splits and span.held < len(sequence):
            ends.append((span, int(sequence[span.held - 1]), int(sequence[span.held])))
    if not ends:
        return []
    watched = np.unique(np.array([token for _, token, _ in ends], dtype=np.uint32))
    repeated = {span.datum: span.position for span in spans if span.splits}
    followers: dict[int, Counter[int]] = {int(token): Counter() for token in watched}
    for datum, sequence in enumerate(sequences):
        fresh = sequence[max(repeated.get(datum, 0) - 1, 0) :]
        places = np.flatnonzero(np.isin(fresh[:-1], watched))
        pairs = fresh[places].astype(np.uint64) << np.uint64(32) | fresh[places + 1]
        for pair, count in zip(*np.unique(pairs, return_counts=True), strict=True):
            followers[int(pair) >> 32][int(pair) & 0xFFFFFFFF] += int(count)
    remarks: list[Remark] = []
    for span, token, follower in ends:
        elsewhere = followers[token] - Counter({follower: 1})
        if len(elsewhere) != 1 or follower in elsewhere or elsewhere.total() < 2:
            continue
        usual = next(iter(elsewhere))
        if span.held < span.observation:
            place = f"Turn {span.turn}, observation index {span.held}"
            index = span.held
        else:
            place = f"Turn {span.turn}, action index 0 (nothing was observed in between)"
            index = 0
        sentence = (
            f"{place}: after the last token of turn {span.turn - 1}'s action, "
            f"{coded_label(token, vocab)}, comes {coded_label(follower, vocab)}, but in "
            f"{elsewhere.total()} other places {coded_label(usual, vocab)} follows it."
        )
        remarks.append(Remark("separator_changed", span.turn, index, sentence))
    return remarks


def coded_label(code: int, vocab: Mapping[int, str]) -> str:
    """Like `token_label`, for a number of `ElementCodes`."""
    return token_label(code, vocab) if code <= MAX_TOKEN_ID else "an image"


def diagnose(rollout: Rollout, advantage: float = 1.0) -> Diagnosis:
    """Datums, breaks with causes, warnings and price of one rollout.

    Never raises on a faulty rollout: what `trajectory_to_data` refuses is in `built`, and
    breaks and warnings are given all the same.
    """
    trajectory = rollout.trajectory
    built = build_datums(trajectory, advantage)
    spans = walk_turns(trajectory)
    codes = ElementCodes()
    sequences = datum_codes(trajectory, spans, codes)
    breaks, lineages = find_breaks(trajectory, spans, rollout.vocab, codes, sequences)
    remarks = find_remarks(trajectory, spans, rollout.vocab, codes, sequences)
    failed = built.error_code is not None
    processed = unmerged = None
    if not failed:
        processed = sum(datum.model_input.length for datum in built.data)
        lengths = [span.tokens + span.action for span in spans]
        unmerged = sum(length - 1 for length in lengths if length >= 2)
    return Diagnosis(
        rollout=rollout,
        built=built,
        spans=tuple(spans),
        runs=tuple(datum_runs(spans)),
        breaks=tuple(breaks),
        remarks=tuple(remarks),
        tokens_processed=processed,
        tokens_unmerged=unmerged,
        lineages=lineages,
    )


def token_position(model_input: tinker.ModelInput, position: int) -> int:
    """Tokens before element `position` of an observation; an image counts its tokens."""
    elements = tokens = 0
    for chunk in model_input.chunks:
        if isinstance(chunk, tinker.EncodedTextChunk):
            taken = min(len(chunk.tokens), position - elements)
            elements, tokens = elements + taken, tokens + taken
        elif elements < position:
            elements, tokens = elements + 1, tokens + element_length(chunk)
    return tokens + max(0, position - elements)


def break_marks(diagnosis: Diagnosis) -> list[tuple[int, int, str]]:
    """Where a later turn left a datum: (datum, position, label) for strips and staircase.

    A break counts elements of the sequence held; the strip counts positions, in which an image
    takes as many as it has tokens.
    """
    marks = []
    for found in diagnosis.breaks:
        before = diagnosis.rollout.trajectory.transitions[found.turn - 1]
        position = token_position(before.ob, found.position)
        datum = diagnosis.spans[found.turn - 1].datum
        marks.append((datum, position, f"turn {found.turn} splits here: {cause_name(found.cause)}"))
    return marks


def staircase_cells(diagnosis: Diagnosis) -> pd.DataFrame:
    """Every turn's sequence as the model saw and said it, then every datum, token by token.

    Returns:
        Columns row ("turn" or "datum"), r (its index), x (position; an image takes as many as
        it has tokens), kind ("0" history that is repeated, "O" new, "A", "M"), id, text, turn
        (from which on the token stands there), mask (of the token as a target in its datum;
        "none" for the first, "" in turns).
    """
    vocab = diagnosis.rollout.vocab
    rows: list[tuple[Any, ...]] = []
    for span, transition in zip(
        diagnosis.spans, diagnosis.rollout.trajectory.transitions, strict=True
    ):
        x = 0
        elements = [*model_input_to_elements(transition.ob), *transition.ac.tokens]
        for index, element in enumerate(elements):
            action = index >= span.observation
            shared = index < span.position
            kind = "0" if shared else ("M" if span.masked else "A") if action else "O"
            label = str(element) if isinstance(element, int) else "img"
            text = visible_text(vocab.get(element, "")) if isinstance(element, int) else ""
            for _ in range(1 if isinstance(element, int) else element.length):
                rows.append(("turn", span.turn, x, kind, label, text, span.turn, ""))
                x += 1
    table = alignment_table(diagnosis.built, diagnosis.runs, vocab)
    for datum, part in table.groupby("datum", sort=False):
        for cell in strip_rows(part).to_dict("records"):
            mask = cell["mask"] or "none"
            kind = "M" if cell["part"] == "A" and mask == "0" else cell["part"]
            rows.append(
                ("datum", datum, cell["p"], kind, cell["id"], cell["text"], cell["turn"], mask)
            )
    columns = ["row", "r", "x", "kind", "id", "text", "turn", "mask"]
    return pd.DataFrame(rows, columns=columns).astype({"turn": int})


def turn_verdict(diagnosis: Diagnosis, turn: int) -> str:
    """A few words for one turn: opens, extends, or behind a ✕ why it splits."""
    found = next((item for item in diagnosis.breaks if item.turn == turn), None)
    if found is not None:
        return f"✕ {cause_name(found.cause)}"
    return "extends" if turn else "opens datum 0"


def staircase_step(diagnosis: Diagnosis, turns: int) -> tuple[str, str]:
    """Finding and counts after the first `turns` turns, from the real datums of just these.

    Returns:
        (finding, counts), each one sentence without a full stop.
    """
    trajectory = diagnosis.rollout.trajectory
    built = build_datums(replace(trajectory, transitions=trajectory.transitions[:turns]))
    inputs = sum(datum.model_input.length for datum in built.data)
    trained = int(sum(sum(datum_tensor(datum, "mask")) for datum in built.data))
    counts = (
        f"{count_of(len(built.data), 'datum')}, {count_of(inputs, 'target')}, {trained} trained"
    )
    if built.error_message:
        counts = built.error_message.rstrip(".")
    if turns == len(trajectory.transitions):
        causes: dict[str, list[str]] = {}
        for item in diagnosis.breaks:
            causes.setdefault(cause_name(item.cause), []).append(str(item.turn))
        splits = [
            f"turn {at[0]} splits ({cause})"
            if len(at) == 1
            else f"turns {', '.join(at[:-1])} and {at[-1]} split ({cause})"
            for cause, at in causes.items()
        ]
        told = ", ".join(splits) or "every observation extends what came before"
        become = f"{'becomes' if turns == 1 else 'become'} {count_of(len(built.data), 'datum')}"
        return f"{count_of(turns, 'turn')} {become}: {told}", counts
    span = diagnosis.spans[turns - 1]
    found = next((item for item in diagnosis.breaks if item.turn == span.turn), None)
    if found is not None:
        return (
            f"Turn {span.turn} splits at position {found.position}: {cause_name(found.cause)}",
            counts,
        )
    fresh = span.observation - span.position
    if turns == 1:
        return f"Turn 0: {count_of(fresh, 'token')} seen, {span.action} said", counts
    return f"Turn {span.turn} extends: {count_of(fresh, 'token')} and the action are added", counts


def staircase_tables(stories: Sequence[tuple[str, str, Diagnosis]]) -> dict[str, pd.DataFrame]:
    """The tables behind the staircase figure, for all its scenarios.

    Args:
        stories: (title, lesson, diagnosis) of each scenario; all must have datums.

    Returns:
        cells: `staircase_cells` with s, the scenario's number. labels: a name and verdict per
        row. breaks: where a turn leaves the sequence held. steps: finding and rest per number
        of turns shown. scenarios: title, turns, datums.
    """
    cells, labels, breaks, steps, scenario_rows = [], [], [], [], []
    for number, (title, lesson, diagnosis) in enumerate(stories):
        turns, datums = len(diagnosis.spans), len(diagnosis.built.data)
        cells.append(staircase_cells(diagnosis).assign(s=number))
        first_turns = {run.datum: run.turn for run in reversed(diagnosis.runs)}
        for span in diagnosis.spans:
            verdict = turn_verdict(diagnosis, span.turn)
            labels.append((number, "turn", span.turn, span.turn, f"turn {span.turn}", verdict))
        for datum in range(datums):
            labels.append((number, "datum", datum, first_turns[datum], f"datum {datum}", "mask"))
        for found, (_, position, _) in zip(diagnosis.breaks, break_marks(diagnosis), strict=True):
            breaks.append(
                (number, "turn", found.turn, found.turn, position, cause_name(found.cause))
            )
        for shown in range(1, turns + 1):
            finding, counts = staircase_step(diagnosis, shown)
            rest = f"{counts}. {lesson}" if shown == turns else f"{counts}."
            steps.append((number, shown, finding, rest))
        scenario_rows.append((number, title, turns, datums))
    place = ["s", "row", "r", "turn"]
    return {
        "cells": pd.concat(cells, ignore_index=True),
        "labels": pd.DataFrame(labels, columns=[*place, "name", "verdict"]),
        "breaks": pd.DataFrame(breaks, columns=[*place, "x", "cause"]),
        "steps": pd.DataFrame(steps, columns=["s", "shown", "finding", "rest"]),
        "scenarios": pd.DataFrame(scenario_rows, columns=["s", "title", "turns", "datums"]),
    }


def staircase_facts(stories: Sequence[tuple[str, str, Diagnosis]]) -> pd.DataFrame:
    """The staircase figure as a table: a row per scenario."""
    rows = []
    for title, lesson, diagnosis in stories:
        splits = [
            f"turn {found.turn} at position {found.position}: {cause_name(found.cause)}"
            for found in diagnosis.breaks
        ]
        rows.append(
            {
                "scenario": title,
                "what happens": lesson,
                "turns": len(diagnosis.spans),
                "datums": len(diagnosis.built.data),
                "splits": "; ".join(splits) or "none",
                "input tokens": diagnosis.tokens_processed,
                "if nothing merged": diagnosis.tokens_unmerged,
            }
        )
    return pd.DataFrame(rows)


def cause_name(cause: str) -> str:
    """A cause as it is read: `end_token` is "end token"."""
    return cause.replace("_", " ")


def cause_sentence(found: Break) -> str:
    """One plain sentence for the cause of a break, with its numbers; names the bound if any."""
    gone, came = count_of(found.removed, "token"), count_of(found.inserted, "token")
    turn, part = found.origin.turn, found.origin.part
    missing = count_of(found.held - found.position, "token")
    sentences = {
        "shortened": f"The observation ends {missing} before the sequence held does: it was "
        "rolled back, tried again, or left empty.",
        "image_changed": "An image stands here, and the other side has another image or "
        "something else: to the prefix check the same picture encoded anew is another image.",
        "end_token": f"Only the last token held, the end of turn {turn}'s {part}, is written "
        "differently.",
        "retokenised": "The text reads the same, but it is cut into other tokens.",
        "removed": f"{gone} {'is' if found.removed == 1 else 'are'} gone and nothing was put in "
        f"{'its' if found.removed == 1 else 'their'} place: stripped reasoning, a window that "
        "slid, a call that did not parse, or trimmed white space.",
        "inserted": f"{came} {'was' if found.inserted == 1 else 'were'} put in and nothing was "
        "taken away: a default system prompt, a tool list or a clock line.",
        "new_context": f"Of {count_of(found.held, 'token')} held only "
        f"{found.position + found.kept} came back, fewer than half: this is another context.",
        "reordered": f"The same tokens stand in another order ({gone} moved), as "
        "when tool arguments or header fields are written back.",
        "replaced": f"{gave_way(found, gone)}: a clock, an edited message, or an answer written "
        "anew.",
    }
    sentence = sentences[found.cause]
    if found.bounded is None:
        return sentence
    if found.cause == "replaced":
        return f"No other cause could be proven. {found.bounded}"
    return f"{sentence} {found.bounded}"


def remedy(cause: str) -> str:
    """The usual remedy for a cause, in one or two plain sentences."""
    return {
        "shortened": "Make a retry a rollout of its own, or append the failure and the new "
        "request. If an answer did not parse, return the history with the error or end the "
        "episode.",
        "image_changed": "Encode each image once and put the same chunk into every observation.",
        "end_token": "Keep the end token that was sampled in the history, in place of the one "
        "the template writes.",
        "retokenised": "Put the sampled tokens themselves into the next observation; do not "
        "turn the answer into text and tokenize it again.",
        "removed": "Reasoning: keep it with a renderer that preserves it, or accept one datum per "
        "turn. A window: slide it rarely, and by much. A call that did not parse: put its raw text "
        "into the message's content. White space or a shorter spelling: put the sampled tokens "
        "back as they are.",
        "inserted": "Put what would enter later (system prompt, tool list, clock line) into the "
        "first observation already.",
        "new_context": "Give each agent a rollout of its own. After a compaction one split is "
        "the right price: compact rarely.",
        "reordered": "Put the sampled tokens back as they are; reading a call or a header and "
        "writing it again changes the order.",
        "replaced": "A clock, counter or random id: freeze it for the episode, or append the new "
        "value as a later message. An answer written anew: put the sampled tokens back. A message "
        "edited on purpose: edit rarely.",
    }[cause]


def remark_remedy(code: str) -> str:
    """What to do about a warning, in one plain sentence."""
    return {
        "logprobs_missing": "Ask the sampler for logprobs and keep them with the tokens.",
        "logprob_count": "Record tokens and logprobs from the same sampler answer, uncut.",
        "logprob_not_finite": "Drop the rollout or sample it again: one such number makes the "
        "loss not a number.",
        "zero_logprob_end": "Do not append an end token to an answer that was cut off; it was "
        "never sampled, yet it is trained on.",
        "empty_observation": "Return at least one token after every answer, or end the episode.",
        "header_changed": "Render every prompt with the same generation header.",
        "separator_changed": "Write what follows an answer the same way after every turn.",
    }[code]


def gave_way(found: Break, gone: str) -> str:
    """What became of `gone`, the tokens that a `replaced` break took out.

    Nothing is inserted where the edit ends with them: what follows in the observation is free.
    """
    if not found.inserted:
        return f"the last {gone} {'is' if found.removed == 1 else 'are'} not there"
    others = f"{found.inserted} {'other' if found.inserted == 1 else 'others'}"
    if found.removed == found.inserted == 1:
        others = "another"
    return f"{gone} {'was' if found.removed == 1 else 'were'} replaced by {others}"


def refusal_remedy(code: str) -> str:
    """What to do about rollouts that the cookbook refuses with this exception class."""
    return {
        "AssertionError": "Record one logprob for every action token, no more and no fewer.",
        "DataValidationError": "Let a rollout hold at least two tokens, and end on a token, not on "
        "an image.",
        "ValueError": "Record logprobs for every action; None is refused.",
    }.get(code, "See what the rollout itself is told.")


def break_headline(found: Break) -> str:
    """The finding of a break in a few words, for titles."""
    turn, part = found.origin.turn, found.origin.part
    gone, came = count_of(found.removed, "token"), count_of(found.inserted, "token")
    words = {
        "shortened": f"it ends {count_of(found.held - found.position, 'token')} early",
        "image_changed": "an image is not the same",
        "end_token": f"the end of turn {turn}'s {part} is written differently",
        "retokenised": "the same text in other tokens",
        "removed": f"{gone} {'is' if found.removed == 1 else 'are'} gone",
        "inserted": f"{came} came in",
        "new_context": "another context",
        "reordered": "the same tokens in another order",
        "replaced": gave_way(found, gone)
        if found.bounded is None
        else "cause not proven within the bound",
    }
    return f"Turn {found.turn} splits: {words[found.cause]}"


@dataclass(frozen=True)
class Verdict:
    """What became of one turn, in words.

    Attributes:
        turn, datum: The turn, and the datum it ends up in.
        kind: "starts" (nothing was held), "extends", "splits", or "look": it extends or
            starts, but a warning fired.
        label: The verdict as it is read, such as "extends, but look".
        headline: The finding in a few words.
        sentences: The details, plain text, in reading order.
        found: The break of a turn that splits.
        remarks: The turn's warnings.
    """

    turn: int
    datum: int
    kind: Literal["starts", "extends", "splits", "look"]
    label: str
    headline: str
    sentences: tuple[str, ...]
    found: Break | None = None
    remarks: tuple[Remark, ...] = ()


def break_sentences(
    found: Break,
    vocab: Mapping[int, str],
    told: Mapping[str, int] | None = None,
    images: bool = False,
) -> tuple[str, ...]:
    """Where, what was lost, why, and what to do: the sentences of a turn that splits.

    Args:
        found: The break.
        vocab: Text of token ids where known.
        told: What need not be said again: cause and remedy of earlier turns, and whose they were.
        images: The observation holds some, so positions are not those of its tokens.
    """
    one = " (an image counts as one)" if images else ""
    why, helps = cause_sentence(found), remedy(found.cause)
    if told and helps in told:
        why = f"As for turn {told[why]}." if why in told else why
        helps = f"as for turn {told[helps]}."
    got = "the observation ends" if found.got is None else f"got {token_label(found.got, vocab)}"
    sentences = [
        f"At position {found.position} of {found.held}{one}: expected "
        f"{token_label(found.expected, vocab)} (turn {found.origin.turn}'s {found.origin.part}, "
        f"index {found.origin.index}), {got}.",
        f"Cause: {cause_name(found.cause)}. {why}",
        f"Remedy: {helps}",
    ]
    if found.resumes_datum is not None:
        sentences.append(
            f"This observation does go on from datum {found.resumes_datum}, closed earlier; "
            "trajectory_to_data only compares with the latest sequence."
        )
    return tuple(sentences)


def verdicts(diagnosis: Diagnosis) -> list[Verdict]:
    """One verdict per turn, in order; also for a rollout that `trajectory_to_data` refuses.

    Cause and remedy are said once; later turns name the turn that has them.
    """
    broken = {found.turn: found for found in diagnosis.breaks}
    opens = "open" if diagnosis.built.error_code is None else "would open"
    listed: list[Verdict] = []
    told: dict[str, int] = {}
    for span in diagnosis.spans:
        found = broken.get(span.turn)
        remarks = tuple(item for item in diagnosis.remarks if item.turn == span.turn)
        noted = tuple(f"{item.message} {remark_remedy(item.code)}" for item in remarks)
        if found is not None:
            images = span.tokens > span.observation
            sentences = break_sentences(found, diagnosis.rollout.vocab, told, images) + noted
            for said in (cause_sentence(found), remedy(found.cause)):
                told.setdefault(said, span.turn)
            headline = break_headline(found)
            listed.append(
                Verdict(
                    span.turn, span.datum, "splits", "splits", headline, sentences, found, remarks
                )
            )
            continue
        verb = "extends" if span.held else "starts"
        label = f"{verb}, but look" if remarks else verb
        kind: Literal["starts", "extends", "look"] = "look"
        if not remarks:
            kind = "extends" if span.held else "starts"
        added = span.observation - span.held
        sentence = (
            f"The observation starts with all {count_of(span.held, 'token')} held and adds "
            f"{added}; {count_of(span.action, 'action token')} "
            f"{'follows' if span.action == 1 else 'follow'}."
            if span.held
            else f"Nothing was held before; {count_of(span.tokens, 'observation token')} and "
            f"{count_of(span.action, 'action token')} {opens} datum {span.datum}."
        )
        headline = f"Turn {span.turn} {label}"
        listed.append(
            Verdict(span.turn, span.datum, kind, label, headline, (sentence, *noted), None, remarks)
        )
    return listed


def lineage_count(diagnosis: Diagnosis) -> int:
    """Datums there would be if a turn could go on from any earlier sequence, not only the last."""
    return diagnosis.lineages


def lineage_sentence(diagnosis: Diagnosis) -> str | None:
    """Says which turns go on from a datum closed earlier, and what tracking would save."""
    resumed = [found for found in diagnosis.breaks if found.resumes_datum is not None]
    if not resumed:
        return None
    named = "; ".join(
        f"turn {found.turn} goes on from datum {found.resumes_datum}" for found in resumed[:6]
    )
    more = f"; and {len(resumed) - 6} more" if len(resumed) > 6 else ""
    datums = diagnosis.spans[-1].datum + 1
    return (
        f"Some turns split only because one running sequence is kept: {named}{more}. If the "
        f"sequence of each agent were kept, {count_of(lineage_count(diagnosis), 'datum')} would do "
        f"where there are {datums}."
    )


def align_tails(held: str, new: str, cells: int = 40_000_000) -> list[tuple[int, int, int]] | None:
    """What a cheapest edit of `held` into `new` keeps, in as few blocks as two readings give.

    rapidfuzz keeps one bit per cell to find its way back, so the work is bounded. Several
    edits may be equally cheap; read from the front and from the back, the one with fewer
    blocks is taken.

    Args:
        held, new: One character per element, `new` cut where the cheapest edit ends.
        cells: Most cells allowed, after a common end is cut off.

    Returns:
        Blocks (start in held, start in new, length) in order; None beyond the bound.
    """
    tail = common_prefix_length(held[::-1], new[::-1])
    rows, columns = len(held) - tail, len(new) - tail
    if rows * columns > cells:
        return None
    old, now = held[:rows], new[:columns]
    kept = LCSseq.opcodes(old, now)
    forward = [(op.src_start, op.dest_start, op.src_end) for op in kept if op.tag == "equal"]
    kept = LCSseq.opcodes(old[::-1], now[::-1])
    backward = [
        (rows - op.src_end, columns - op.dest_end, rows - op.src_start)
        for op in reversed(list(kept))
        if op.tag == "equal"
    ]
    readings = [
        join_blocks(
            held,
            new,
            [(start, other, end - start) for start, other, end in reading]
            + ([(rows, columns, tail)] if tail else []),
        )
        for reading in (forward, backward)
    ]
    return min(readings, key=len)


def join_blocks(
    held: str, new: str, blocks: Sequence[tuple[int, int, int]]
) -> list[tuple[int, int, int]]:
    """Slide a whole block across a gap on one side where that joins it to its neighbour."""
    joined: list[tuple[int, int, int]] = []
    for block in blocks:
        c, d, length = block
        while joined:
            a, b, size = joined[-1]
            # The gap lies in one text only; in the other the two blocks touch.
            if b + size == d and held[a : a + size] == held[c - size : c]:
                c, d = c - size, b
            elif a + size == c and new[b : b + size] == new[d - size : d]:
                c, d = a, d - size
            elif (b + size == d and held[c : c + length] == held[a + size : a + size + length]) or (
                a + size == c and new[d : d + length] == new[b + size : b + size + length]
            ):
                c, d = a, b
            else:
                break
            length += size
            joined.pop()
        joined.append((c, d, length))
    return joined


def break_blocks(diagnosis: Diagnosis, found: Break) -> list[tuple[str, int, int, int]]:
    """Held sequence and new observation as blocks (kind, index in held, in new, length).

    Kinds: "same" (in both), "removed" (held only), "inserted" (new only), "after" (what
    follows in the new observation, beyond the edit). Where the two are too long to align, or
    the search for the edit gave up, all behind the break is "unaligned".
    """
    sides = break_sides(diagnosis, found)
    start = found.position
    taken = found.kept + found.inserted
    codes = ElementCodes()
    tails = codes_to_text(
        codes.encode(sides[0][start:]), codes.encode(sides[1][start : start + taken])
    )
    kept = align_tails(tails[0], tails[1]) if tails and found.bounded is None else None
    blocks = [("same", 0, 0, start)]
    i = j = start
    if kept is None:
        longest = max(len(sides[0]), len(sides[1])) - start
        return [*blocks, ("unaligned", i, j, longest)]
    for a, b, length in [*kept, (len(sides[0]) - start, taken, 0)]:
        blocks.append(("removed", i, j, start + a - i))
        blocks.append(("inserted", start + a, j, start + b - j))
        blocks.append(("same", start + a, start + b, length))
        i, j = start + a + length, start + b + length
    blocks.append(("after", i, j, len(sides[1]) - j))
    return [block for block in blocks if block[3]]


def pair_blocks(
    blocks: Sequence[tuple[str, int, int, int]], swapped_end: bool = False
) -> list[tuple[str, int, int, int]]:
    """`break_blocks`, with what is gone and what came in at the same place paired as "replaced".

    Args:
        blocks: In order.
        swapped_end: The cause is another end token: the cheapest edit only takes the old one
            away, but the first token that follows is the new one.
    """
    paired: list[tuple[str, int, int, int]] = []
    for kind, i, j, length in blocks:
        if swapped_end and kind == "after" and paired and paired[-1][0] == "removed":
            paired[-1] = ("replaced", *paired[-1][1:])
            paired += [("after", i, j + 1, length - 1)] * (length > 1)
        elif kind == "inserted" and paired and paired[-1][0] == "removed":
            _, start, _, gone = paired.pop()
            both = min(gone, length)
            paired.append(("replaced", start, j, both))
            if gone > both:
                paired.append(("removed", start + both, j + both, gone - both))
            elif length > both:
                paired.append(("inserted", i, j + both, length - both))
        else:
            paired.append((kind, i, j, length))
    return paired


def break_sides(diagnosis: Diagnosis, found: Break) -> tuple[list[Any], list[Any]]:
    """The sequence held before a turn that splits, and that turn's observation."""
    transitions = diagnosis.rollout.trajectory.transitions
    before = transitions[found.turn - 1]
    held = [*model_input_to_elements(before.ob), *before.ac.tokens]
    return held, model_input_to_elements(transitions[found.turn].ob)


def break_table(
    diagnosis: Diagnosis, found: Break, context: int = 2, fits: int = 15, most: int = 60
) -> pd.DataFrame:
    """Held sequence and new observation aligned around a break, a row per column drawn.

    What both hold stands in one row; what is gone has no entry on the new side, what came in
    none on the held side. Where something came in for what is gone ("replaced"), the two share
    rows as far as they reach. Long stretches are cut to their ends, shorter where the rows would
    not fit side by side.

    Args:
        diagnosis, found: The rollout and one of its breaks.
        context: Elements kept in view beside each change.
        fits: Rows that a page has room for as columns.
        most: Rows at most; the last one then stands for all that is left out.

    Returns:
        Columns kind (of `break_blocks`, or "replaced"), count (elements the row stands for;
        above 1 where some are left out), held_index, held_id, held_text, turn, part ("O" or
        "A", of the held element), new_index, new_id, new_text, mark ("expected", "got", or both
        joined by "and", at the break). All but count are text, empty where there is nothing.
    """
    held, new = break_sides(diagnosis, found)
    vocab = diagnosis.rollout.vocab
    blocks = pair_blocks(break_blocks(diagnosis, found), found.cause == "end_token")

    def add(rows: list[dict[str, Any]], kind: str, i: int, j: int, count: int) -> None:
        row: dict[str, Any] = {"kind": kind, "count": count}
        marks = []
        sides = {"held": (held, i, kind not in ("inserted", "after"))}
        sides["new"] = (new, j, kind != "removed")
        for side, (elements, index, has) in sides.items():
            has = has and index < len(elements)
            element = elements[index] if has and count == 1 else None
            row[f"{side}_index"] = str(index) if has else ""
            row[f"{side}_id"] = "…" if has and count > 1 else element_id(element)
            row[f"{side}_text"] = vocab.get(element, "") if isinstance(element, int) else ""
            if has and count == 1 and index == found.position:
                marks.append("expected" if side == "held" else "got")
        row["mark"] = " and ".join(marks)
        row["turn"] = row["part"] = ""
        if row["held_index"]:
            origin = trace_origin(diagnosis.spans, found.turn, i)
            row["turn"], row["part"] = str(origin.turn), origin.part[0].upper()
        rows.append(row)

    def lay_out(longest: int) -> list[dict[str, Any]]:
        """The rows, where changes longer than this are cut in the middle."""
        rows: list[dict[str, Any]] = []
        for number, (kind, i, j, length) in enumerate(blocks):
            head, foot = longest // 2, longest // 2
            if kind == "same":
                head = 0 if number == 0 else context
                # before what is only new, the last one held is enough
                ends = [block[0] for block in blocks[number + 1 : number + 2]]
                foot = 1 if ends == ["after"] else context if ends else 0
            elif kind in ("after", "unaligned"):
                head, foot = (context if kind == "after" else longest), 0
            changed = kind in ("removed", "inserted", "replaced")
            if length <= max(head + foot, longest if changed else 0) + 1:
                head, foot = length, 0
            for k in range(head):
                add(rows, kind, i + k, j + k, 1)
            if head + foot < length:
                add(rows, kind, i + head, j + head, length - head - foot)
            for k in range(length - foot, length):
                add(rows, kind, i + k, j + k, 1)
            if len(rows) > most:
                del rows[most:]
                left = sum(block[3] for block in blocks[number + 1 :]) + length
                rows.append({**rows[-1], "kind": "after", "count": max(2, left), "mark": ""})
                break
        return rows

    for longest in (8, 6, 4):
        rows = lay_out(longest)
        if len(rows) <= fits:
            break
    return pd.DataFrame(rows)


def element_id(element: Any) -> str:
    """Id of a token, or what stands for an image; "" for none."""
    if element is None:
        return ""
    return str(element) if isinstance(element, int) else "img"


def break_title(diagnosis: Diagnosis, found: Break) -> str:
    """The finding of a break, with the turn and part that what is gone came from."""
    if found.cause not in ("removed", "replaced") or found.bounded is not None:
        return break_headline(found)
    places = set()
    for kind, i, _, length in break_blocks(diagnosis, found):
        if kind == "removed":
            ends = (trace_origin(diagnosis.spans, found.turn, at) for at in (i, i + length - 1))
            places |= {(origin.turn, origin.part) for origin in ends}
    turns = sorted({turn for turn, _ in places})
    if not turns:
        return break_headline(found)
    whose = f"turns {turns[0]} to {turns[-1]}" if len(turns) > 1 else f"turn {turns[0]}"
    if len(places) == 1:
        whose += f"'s {places.pop()[1]}"
    gone = f"{count_of(found.removed, 'token')} of {whose}"
    if found.cause == "removed":
        return f"Turn {found.turn} splits: {gone} {'is' if found.removed == 1 else 'are'} gone"
    return f"Turn {found.turn} splits: {gave_way(found, gone)}"


def policy_table(diagnosis: Diagnosis) -> pd.DataFrame:
    """The rollout under three treatments that trainers use at a break; a row each.

    Split (the cookbook): the real datums. Overwrite: one sequence is kept; at a break it is
    overwritten with the new observation, and of the action tokens only those before the break
    stay trained, because the others are gone or stand behind a context they were not sampled
    in. Drop: a rollout that breaks is not used.

    Returns:
        Columns treatment, datums, trained tokens, lost tokens (action tokens that are not
        trained), tokens processed; empty where `trajectory_to_data` refused the rollout.
    """
    if diagnosis.built.error_code is not None:
        return pd.DataFrame()
    spans = diagnosis.spans
    sampled = sum(span.action for span in spans)
    trained = sum(int(sum(datum_tensor(datum, "mask"))) for datum in diagnosis.built.data)
    # Action stretches of the one sequence as (start, end); its first token is no target.
    kept: list[tuple[int, int]] = []
    for span in spans:
        if span.splits:
            kept = [(start, min(end, span.position)) for start, end in kept]
            kept = [(start, end) for start, end in kept if start < end]
        if span.action and not span.masked:
            kept.append((max(1, span.observation), span.observation + span.action))
    last = diagnosis.rollout.trajectory.transitions[-1] if spans else None
    whole = input_length(last.ob) + len(last.ac.tokens) - 1 if last else 0
    survived = sum(end - start for start, end in kept)
    datums, processed = len(diagnosis.built.data), diagnosis.tokens_processed
    one = (1, survived, max(whole, 0)) if datums else (0, 0, 0)
    dropped = (0, 0, 0) if diagnosis.breaks else (datums, trained, processed)
    return pd.DataFrame(
        [
            (name, made, used, sampled - used, tokens)
            for name, (made, used, tokens) in {
                "split into datums (the cookbook)": (datums, trained, processed),
                "overwrite and mask what drifted": one,
                "drop a rollout that breaks": dropped,
            }.items()
        ],
        columns=["treatment", "datums", "trained tokens", "lost tokens", "tokens processed"],
    )


def price_table(diagnosis: Diagnosis) -> pd.DataFrame:
    """What the rollout costs in tokens through the model, a row per amount.

    Returns:
        Columns what, tokens. First as it is, then what each break makes the model read once
        more, then what it would be if no turn merged. Empty on an error.
    """
    if diagnosis.tokens_processed is None:
        return pd.DataFrame()
    rows = [("as it is: sum of model_input.length", diagnosis.tokens_processed)]
    rows += [
        (f"of these read again at turn {found.turn}'s break", found.again)
        for found in diagnosis.breaks
    ]
    rows.append(("if no turn merged", diagnosis.tokens_unmerged or 0))
    return pd.DataFrame(rows, columns=["what", "tokens"])


@dataclass(frozen=True)
class Step:
    """One turn of a pattern that can be repeated.

    Attributes:
        added: Observation tokens added to what is held.
        action: Action tokens.
        breaks_at: Index of the held token that changes; None where the turn extends.
        restarts: The observation is `added` fresh tokens, what was held is dropped.
    """

    added: int
    action: int
    breaks_at: int | None = None
    restarts: bool = False


def rollout_steps(spans: Sequence[TurnSpan], mean: int = 16) -> tuple[list[Step], int]:
    """A rollout's turns as a pattern, shrunk so that a turn adds about `mean` tokens.

    Returns:
        One step per turn, and the factor by which sizes were divided (1 for small rollouts).
    """
    added = [
        span.observation - span.held if span.observation >= span.held else span.observation
        for span in spans
    ]
    total = sum(added) + sum(span.action for span in spans)
    factor = max(1, math.ceil(total / max(1, len(spans)) / mean))
    steps = [
        Step(
            max(1, round(count / factor)) if count else 0,
            max(1, round(span.action / factor)) if span.action else 0,
            span.position // factor if span.splits else None,
            span.observation < span.held,
        )
        for span, count in zip(spans, added, strict=True)
    ]
    return steps, factor


def grown_trajectory(steps: Sequence[Step], turns: int) -> Trajectory:
    """A trajectory of `turns` turns that repeats a pattern: its first step once, then the rest.

    Token ids only count up, so nothing is equal by accident.
    """
    fresh = itertools.count(1)
    held: list[int] = []
    transitions = []
    for turn in range(turns):
        step = steps[turn if turn < len(steps) else 1 + (turn - 1) % (len(steps) - 1)]
        observation = [] if step.restarts else held[:]
        if step.breaks_at is not None and observation:
            observation[min(step.breaks_at, len(observation) - 1)] = next(fresh)
        observation += itertools.islice(fresh, step.added)
        action = list(itertools.islice(fresh, step.action))
        transitions.append(
            Transition(
                ob=tinker.ModelInput.from_ints(observation),
                ac=TokensWithLogprobs(action, [PLACEHOLDER_LOGPROB] * len(action)),
                reward=0.0,
                episode_done=turn + 1 == turns,
            )
        )
        held = observation + action
    return Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty())


def growth_patterns(spans: Sequence[TurnSpan]) -> tuple[dict[str, list[Step]], int]:
    """Three patterns with the rollout's own turn sizes: no break, only breaks, and its own mix.

    Returns:
        Steps by name, and the factor by which sizes were divided. Empty for fewer than 2 turns:
        there is no pattern to repeat.
    """
    if len(spans) < 2:
        return {}, 1
    mine, factor = rollout_steps(spans)
    # A turn without any tokens would grow nothing; the smallest turn has one of each.
    even = [replace(step, added=max(1, step.added), action=max(1, step.action)) for step in mine]
    return {
        "extends": [replace(step, breaks_at=None, restarts=False) for step in even],
        "splits every turn": [replace(step, breaks_at=0, restarts=False) for step in even],
        "this rollout": mine,
    }, factor


def growth_table(
    spans: Sequence[TurnSpan], turns: Sequence[int] = (2, 4, 8, 16, 32, 64), own: bool = True
) -> pd.DataFrame:
    """Tokens processed as a rollout grows: every row is one real call of `trajectory_to_data`.

    Args:
        spans: The rollout whose turn sizes and breaks are repeated.
        turns: Numbers of turns.
        own: Repeat its own breaks as well; no pattern repeats turns that resume a datum.

    Returns:
        Columns pattern, turns, datums, tokens; a pattern that the cookbook refuses is left out.
    """
    rows = []
    for name, steps in growth_patterns(spans)[0].items():
        for count in turns if own or name != "this rollout" else ():
            built = build_datums(grown_trajectory(steps, count))
            if built.error_code is None:
                tokens = sum(datum.model_input.length for datum in built.data)
                rows.append((name, count, len(built.data), tokens))
    return pd.DataFrame(rows, columns=["pattern", "turns", "datums", "tokens"])


def growth_law(table: pd.DataFrame) -> pd.DataFrame:
    """How each curve of `growth_table` grows, judged by its last doubling of the turns.

    Returns:
        Columns pattern, last turns, tokens, doubling (tokens at the end over tokens at half the
        turns), law: "linear" where doubling the turns costs less than 2.4 times as much,
        "quadratic" above 3.3, else "between".
    """
    rows = []
    for name, curve in table.groupby("pattern", sort=False):
        tokens = dict(zip(curve["turns"], curve["tokens"], strict=True))
        last = max(tokens)
        if last // 2 not in tokens or not tokens[last // 2]:
            continue
        ratio = tokens[last] / tokens[last // 2]
        law = "linear" if ratio < 2.4 else "quadratic" if ratio > 3.3 else "between"
        rows.append((name, last, tokens[last], ratio, law))
    return pd.DataFrame(rows, columns=["pattern", "turns", "tokens", "doubling", "law"])


def price_sentence(diagnosis: Diagnosis) -> str:
    """The price of a rollout in one or two sentences."""
    now, apart = diagnosis.tokens_processed or 0, diagnosis.tokens_unmerged or 0
    again = sum(found.again for found in diagnosis.breaks)
    sentence = (
        f"{count_of(len(diagnosis.spans), 'turn')} in "
        f"{count_of(len(diagnosis.built.data), 'datum')}: {count_of(now, 'token')} "
        f"through the model; {apart:,} if no turn merged."
    )
    if again:
        sentence += (
            f" {again:,} of the {now:,} {'is' if again == 1 else 'are'} read again: an earlier "
            "datum had them as inputs already."
        )
    return sentence


def growth_finding(laws: pd.DataFrame, spans: Sequence[TurnSpan]) -> str:
    """The title of the growth figure, computed from what its curves show.

    Args:
        laws: From `growth_law`.
        spans: The rollout's turns; one without a break is not named a second time.
    """
    words = {
        "extends": "if every turn extends",
        "splits every turn": "if every turn splits",
        "this rollout": "with this rollout's breaks",
    }
    if not any(span.splits for span in spans):
        laws = laws[laws["pattern"] != "this rollout"]
    rows = laws.to_dict("records")
    sums = ", ".join(
        f"{row['tokens']:,}{' tokens' if row is rows[0] else ''} {words[row['pattern']]}"
        for row in rows
    )
    return f"{rows[0]['turns']} turns: {sums}"


def growth_note(spans: Sequence[TurnSpan], laws: pd.DataFrame, own: bool = True) -> str:
    """How the points of the growth figure were made.

    Args:
        spans: The rollout's turns.
        laws: From `growth_law`.
        own: As for `growth_table`.
    """
    last = int(laws["turns"].iloc[0])
    patterns, factor = growth_patterns(spans)
    small = f" Sizes are divided by {factor}, to keep it quick." if factor > 1 else ""
    if not own:
        small += (
            " With its own breaks this rollout has no curve: a turn goes on from an earlier datum, "
            "and no pattern of sizes repeats that."
        )
    elif any(step.restarts for step in patterns.get("this rollout", [])):
        small += (
            " This rollout drops history at its breaks and grows from there: what is not in the "
            "prompt costs nothing, but the model does not see it either."
        )
    mine = ", and with its own breaks" if own and any(span.splits for span in spans) else ""
    return (
        "Every point is one call of trajectory_to_data on a rollout with this rollout's turn "
        "sizes, turn 0 once and then the others over and over: without a break, with a break in "
        f"every turn{mine}. The label "
        f"gives the factor by which the cost grows when {last // 2} turns become {last}: 2 for "
        f"linear growth, 4 for quadratic.{small}"
    )


def visible_text(text: str, limit: int = 40) -> str:
    """Text of a token made visible: white space and control characters as symbols, cut short.

    Characters that do not draw (controls, direction marks, lone surrogates) become their code
    point, so that no text can hide, reorder or break what stands beside it.
    """
    shown = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}
    out: list[str] = []
    for char in text[: limit + 1]:
        if char in shown:
            out.append(shown[char])
        elif char.isprintable():
            out.append(char)
        else:
            out.append(f"\\u{ord(char):04x}")
    return "".join(out[:limit]) + ("…" if len(text) > limit else "")


def number_text(value: Any, digits: int = 6) -> str:
    """A number as it is shown: few digits, `NaN` and `inf` by name, "" for none.

    With the minus sign that `signed` and Vega's axes write.
    """
    if value is None or value is pd.NA:
        return ""
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return f"{number:.{digits}g}".replace("-", "\u2212")


def wrap_words(text: str, letters: int) -> list[str]:
    """A text as lines of at most `letters` characters, broken between words."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= letters:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def strip_rows(table: pd.DataFrame) -> pd.DataFrame:
    """One datum of `alignment_table`, a row per token with what it carries *as a target*.

    Row p of the alignment table speaks of input p and its target, token p + 1. Here the mask,
    advantage and logprob stand with the token they belong to; token 0 has none. The first
    token of a later `window` has none either: they belong to the input before the window.

    Returns:
        Columns p (position in the sequence), id, text, part, turn, mask, adv, lp; all but p
        are text, empty where there is nothing.
    """
    shifted = zip(*(table[name].tolist() for name in ("mask", "advantage", "logprob")), strict=True)
    # with a hyphen for the minus: the figure reads these numbers
    texts = [[number_text(value).replace("\u2212", "-") for value in row] for row in shifted]
    rows = [["", "", ""], *texts[:-1]]
    return pd.DataFrame(
        {
            "p": table["position"].to_numpy(),
            "id": table["label"].astype(str).to_numpy(),
            "text": [visible_text(text) for text in table["text"]],
            "part": table["part"].to_numpy(),
            "turn": table["turn"].astype(str).to_numpy(),
            "mask": [row[0] for row in rows],
            "adv": [row[1] for row in rows],
            "lp": [row[2] for row in rows],
        }
    )


@dataclass(frozen=True)
class Figure:
    """A finished figure: a Vega-Lite spec that carries its data.

    Specs are written as plain data. Altair's classes take half a second to build and check one
    strip, more than all else behind an edit; the tests read every spec back through Altair,
    which checks it against the schema.

    Attributes:
        spec: The whole specification.
        width, height: Pixels that the drawing takes, so that the page can keep its place.
        fluid: It takes less width where there is less.
        focus: Pixels from the left to what is to be in view first where it does not fit.
    """

    spec: dict[str, Any]
    width: int
    height: int
    fluid: bool = False
    focus: int | None = None

    @property
    def description(self) -> str:
        return str(self.spec["description"])

    def to_dict(self) -> dict[str, Any]:
        """The spec, as an Altair chart would give it."""
        return self.spec

    def chart(self) -> Any:
        """The same figure as an Altair chart (checked against the schema)."""
        return alt.Chart.from_dict(self.spec)

    def _mime_(self) -> tuple[str, str]:
        major = str(alt.VEGALITE_VERSION).lstrip("v").split(".")[0]
        text = json.dumps(self.spec, separators=(",", ":"), allow_nan=False)
        return f"application/vnd.vegalite.v{major}+json", text

    @property
    def text(self) -> str:
        """HTML of the figure, for use inside other HTML.

        marimo quotes the spec twice here, which makes one quote eleven characters; the same
        element reads the spec unquoted too. Should marimo write it otherwise, it stays as is.
        """
        page = mo.as_html(self).text
        found = re.fullmatch(r"(<[\w-]+ data-mime='[^']*' data-data=')[^']*('></[\w-]+>)", page)
        if found is None:
            return page
        # no `<` or `>` even once decoded: marimo's page drops attributes that hold `]>`
        spec = json.dumps(
            double_quoted(self.spec), separators=(",", ":"), allow_nan=False, ensure_ascii=False
        )
        for char, code in (("&", "&amp;"), ("'", "&#39;"), ("<", "\\u003c"), (">", "\\u003e")):
            spec = spec.replace(char, code)
        # half a character pair cannot travel but as its code
        return found[1] + spec.encode("utf-8", "backslashreplace").decode() + found[2]


def double_quoted(part: Any, key: str = "") -> Any:
    """A spec whose expressions quote by ": in an attribute in single quotes ' is ten characters."""
    if isinstance(part, dict):
        return {name: double_quoted(value, name) for name, value in part.items()}
    if isinstance(part, list):
        return [double_quoted(value) for value in part]
    ours = key in ("calculate", "filter", "test", "expr") and '"' not in part
    return part.replace("'", '"') if ours else part


def vega_figure(
    layers: Sequence[Mapping[str, Any]],
    data: Mapping[str, pd.DataFrame],
    *,
    description: str,
    width: int,
    height: int,
    pad: tuple[int, int, int, int],
    title: str = "",
    fluid: bool = False,
    focus: float | None = None,
    **spec: Any,
) -> Figure:
    """Put a layered figure together: data once by name, no background, no border, no menu.

    Args:
        layers: Vega-Lite layers; each names its data with `csv_source`.
        data: The tables, by name.
        description: What is to be seen, in words.
        width, height: Pixels of the plot.
        pad: Pixels around it (top, right, bottom, left); nothing is drawn beyond them.
        title: The finding; left out when empty.
        fluid: Let it shrink with the page.
        focus: Pixels from the plot's left to what is to be in view first on a narrow page.
        spec: More top-level properties (encoding, params).
    """
    top, right, bottom, left = pad
    lines = wrap_words(title, max(24, width // 7)) if title else []
    if lines:
        top += 16 * len(lines) + 6
        spec["title"] = {"text": lines, "anchor": "start", "fontSize": 13, "frame": "group"}
    return Figure(
        {
            "$schema": alt.SCHEMA_URL,
            "description": description,
            "background": "transparent",
            "config": {"view": {"stroke": None}},
            "usermeta": {"embedOptions": {"actions": False}},
            "autosize": {"type": "fit-x", "contains": "padding"} if fluid else "none",
            # what fits itself to the page makes room for its own axes and names
            "padding": 4 if fluid else {"top": top, "right": right, "bottom": bottom, "left": left},
            "width": "container" if fluid else width,
            "height": height,
            **spec,
            "datasets": {
                name: frame.to_csv(index=False, lineterminator="\n") for name, frame in data.items()
            },
            "layer": without_types(list(layers), spec.get("encoding", {})),
        },
        width + left + right,
        height + top + bottom,
        fluid,
        None if focus is None else round(left + focus),
    )


def without_types(layers: Any, known: Mapping[str, Any]) -> Any:
    """Layers without the types of x and y that they inherit from the encoding around them."""
    if isinstance(layers, list):
        return [without_types(layer, known) for layer in layers]
    layer = dict(layers)
    if "encoding" in layer:
        layer["encoding"] = {
            channel: {key: value for key, value in entry.items() if key != "type"}
            if isinstance(entry, dict) and "field" in entry and "type" in known.get(channel, {})
            else entry
            for channel, entry in layer["encoding"].items()
        }
    if "layer" in layer:
        layer["layer"] = without_types(layer["layer"], known)
    return layer


def csv_source(name: str, numbers: Sequence[str]) -> dict[str, Any]:
    """Reference to a dataset that travels as CSV: the smallest form a figure can carry.

    CSV has no types: `numbers` are declared, and an empty one is null; all other columns stay
    text. Nothing is guessed ("007" a number, "true" a boolean).
    """
    return {"name": name, "format": {"type": "csv", "parse": dict.fromkeys(numbers, "number")}}


def quantity(field: str, **more: Any) -> dict[str, Any]:
    """Encoding of a number."""
    return {"field": field, "type": "quantitative", **more}


def nominal(field: str, **more: Any) -> dict[str, Any]:
    """Encoding of a name: what Vega-Lite takes a field for that has no type."""
    return {"field": field, **more}


def kind_color(
    part: Literal["fill", "ink"], kinds: str = "OAM0", field: str = "kind"
) -> dict[str, Any]:
    """Encoding of the kinds that a figure shows: the palette's fill, or the ink on it."""
    colors = [PALETTE[KINDS[kind]][part] for kind in kinds]
    return nominal(field, scale={"domain": list(kinds), "range": colors}, legend=None)


def calculate(**expressions: str) -> list[dict[str, str]]:
    """Vega-Lite transforms that add fields, in order; expressions are ours, never a reader's."""
    return [{"calculate": expression, "as": name} for name, expression in expressions.items()]


def unfold(**lists: str) -> list[dict[str, Any]]:
    """Vega-Lite transforms: a row for each entry of these lists, all of one length."""
    return [*calculate(**lists), {"flatten": list(lists)}]


def look_up(key: str, name: str, columns: Sequence[str], to: str = "") -> dict[str, Any]:
    """Vega-Lite transform: columns of another dataset, from the row with the same number.

    Args:
        key: Field with the number.
        name: The other dataset.
        columns: Its column of numbers, then the columns that are wanted.
        to: Another name for the single column that is wanted.
    """
    number, *wanted = columns
    found = {"data": csv_source(name, [number]), "key": number, "fields": wanted}
    return {"lookup": key, "from": found, **({"as": [to]} if to else {})}


def themed_text(**mark: Any) -> dict[str, Any]:
    """A text mark outside filled cells, in the colour of the light or dark theme."""
    return {"type": "text", **THEMED_TEXT, **mark}


def break_badge(
    x: str, y: str, tooltip: Sequence[dict[str, Any]] = (), side: int = 13
) -> list[dict[str, Any]]:
    """The one sign of a break in every figure: a white cross on a red square.

    Args:
        x, y: Fields of its middle.
        tooltip: What it says when pointed at.
        side: Pixels.
    """
    place = {"x": quantity(x), "y": quantity(y)}
    square = {"type": "point", "shape": "square", "size": side * side, "filled": True, "opacity": 1}
    return [
        {
            "mark": {**square, "color": PALETTE["break"]["fill"]},
            "encoding": {**place, **({"tooltip": list(tooltip)} if tooltip else {})},
        },
        {
            "mark": {"type": "text", "fontSize": min(11, side), "color": PALETTE["break"]["ink"]},
            "encoding": {**place, "text": {"value": "✕"}},
        },
    ]


def staircase_chart(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """The idea: a row per turn (seen, then said), below them the datums with their mask.

    Menu and step control are parameters of the spec, so they work without Python. The tables
    of `staircase_tables` hold all scenarios; the spec shows one.
    """
    cells, scenarios = tables["cells"], tables["scenarios"]
    step, stair, row, gap = 42, 40, 56, 40
    wide = int(cells["x"].max()) + 1
    turns = scenarios["turns"].tolist()
    # sentences in lines that a phone shows whole; the second block starts below the first
    heads = tables["steps"][["s", "shown"]].assign(
        lines=["|".join(wrap_words(words, 44)) for words in tables["steps"]["finding"]]
    )
    bodies = tables["steps"][["s", "shown"]].assign(
        lines=["|".join(wrap_words(words, 56)) for words in tables["steps"]["rest"]],
        y=[3 + 17 * (1 + lines.count("|")) for lines in heads["lines"]],
    )
    depths = bodies["y"] + [15 * (1 + lines.count("|")) for lines in bodies["lines"]]
    top = int(depths.max()) + 28
    # a row per sequence, unfolded in the figure: a third of the bytes of a row per token
    pool: dict[tuple[str, str], int] = {}
    sequences = [
        (
            *place,
            " ".join(
                str(pool.setdefault(token, len(pool)))
                for token in zip(part["id"], part["text"], strict=True)
            ),
            "".join(part["kind"]),
            " ".join(map(str, part["turn"])) if place[1] == "datum" else "",
            " ".join(part["mask"]).strip(),
        )
        for place, part in cells.groupby(["s", "row", "r"], sort=False)
    ]
    data = {
        "cells": pd.DataFrame(
            sequences, columns=["s", "row", "r", "tokens", "kinds", "since", "masks"]
        ),
        "tokens": pd.DataFrame(
            [(number, *token) for token, number in pool.items()], columns=["token", "id", "text"]
        ),
        "labels": tables["labels"].drop(columns="name"),
        "breaks": tables["breaks"],
        "heads": heads,
        "bodies": bodies,
    }
    # where a row stands: turns first, then the datums of the scenario
    place = (
        f"datum.row == 'turn' ? {top} + datum.r * {stair}"
        f" : {top + gap} + {json.dumps(turns)}[datum.s] * {stair} + datum.r * {row}"
    )
    chosen = {"filter": "datum.s == scenario && datum.turn < turns"}
    at_step = {
        "filter": f"datum.s == scenario && datum.shown == min(turns, {json.dumps(turns)}[scenario])"
    }
    numbers = ["s", "r", "x", "turn"]
    layers: list[dict[str, Any]] = [
        {
            "data": csv_source("heads", ["s", "shown"]),
            "transform": [at_step],
            "mark": themed_text(
                align="left",
                baseline="top",
                fontSize=14,
                fontWeight="bold",
                lineBreak="|",
                lineHeight=17,
            ),
            "encoding": {"x": {"value": -96}, "y": {"value": 0}, "text": nominal("lines")},
        },
        {
            "data": csv_source("bodies", ["s", "shown", "y"]),
            "transform": [at_step],
            "mark": themed_text(
                align="left", baseline="top", fontSize=12, lineBreak="|", lineHeight=15
            ),
            "encoding": {"x": {"value": -96}, "y": quantity("y"), "text": nominal("lines")},
        },
        {
            "data": csv_source("cells", ["s", "r"]),
            "transform": [
                {"filter": "datum.s == scenario"},
                *unfold(
                    token="split(datum.tokens, ' ')",
                    x="sequence(length(datum.token))",
                    kind="split(datum.kinds, '')",
                    turn="split(datum.since, ' ')",
                    mask="split(datum.masks, ' ')",
                ),
                *calculate(
                    token="toNumber(datum.token)",
                    turn="datum.row == 'turn' ? datum.r : toNumber(datum.turn)",
                    mask="datum.mask || ''",
                ),
                {"filter": "datum.turn < turns"},
                look_up("token", "tokens", ["token", "id", "text"]),
                *calculate(
                    top=place,
                    bottom="datum.top + 34",
                    left="datum.x + 0.02",
                    right="datum.x + 0.98",
                    middle="datum.x + 0.5",
                    line="datum.top + 11",
                    sign="{'0': '=', O: 'O', A: 'A', M: 'A'}[datum.kind]",
                    shown="[datum.sign + ' ' + datum.id, datum.text || ' ']",
                    told="{'0': 'history, repeated', O: 'observation', A: 'action',"
                    " M: 'action, masked'}[datum.kind]",
                    where="datum.row + ' ' + datum.r",
                    text="datum.text || 'not known'",
                    under="datum.top + 43",
                    mask_kind="datum.mask == '1' ? 'A' : '0'",
                    mask_top="datum.top + 36",
                    mask_bottom="datum.top + 50",
                ),
            ],
            "layer": [
                {
                    "mark": {"type": "rect", "cornerRadius": 3},
                    "encoding": {
                        "x": quantity("left"),
                        "x2": {"field": "right"},
                        "y": quantity("top"),
                        "y2": {"field": "bottom"},
                        "fill": kind_color("fill"),
                        "tooltip": [
                            nominal("id", title="token id"),
                            nominal("text", title="text"),
                            nominal("where", title="row"),
                            nominal("x", title="position"),
                            nominal("told", title="part"),
                            nominal("mask", title="mask"),
                        ],
                    },
                },
                {
                    "mark": {"type": "text", "fontSize": 11, "lineHeight": 13, "limit": step - 4},
                    "encoding": {
                        "x": quantity("middle"),
                        "y": quantity("line"),
                        "text": nominal("shown"),
                        "color": kind_color("ink"),
                    },
                },
                {
                    "transform": [{"filter": "datum.mask == '0' || datum.mask == '1'"}],
                    "layer": [
                        {
                            "mark": {"type": "rect", "cornerRadius": 3},
                            "encoding": {
                                "x": quantity("left"),
                                "x2": {"field": "right"},
                                "y": quantity("mask_top"),
                                "y2": {"field": "mask_bottom"},
                                "fill": kind_color("fill", field="mask_kind"),
                            },
                        },
                        {
                            "mark": {"type": "text", "fontSize": 11},
                            "encoding": {
                                "x": quantity("middle"),
                                "y": quantity("under"),
                                "text": nominal("mask"),
                                "color": kind_color("ink", field="mask_kind"),
                            },
                        },
                    ],
                },
                {
                    "transform": [{"filter": "datum.mask == 'none'"}],
                    "mark": themed_text(fontSize=10),
                    "encoding": {
                        "x": quantity("middle"),
                        "y": quantity("under"),
                        "text": nominal("mask"),
                    },
                },
            ],
        },
        {
            "data": csv_source("labels", ["s", "r", "turn"]),
            "transform": [
                chosen,
                *calculate(
                    top=place,
                    name="datum.row + ' ' + datum.r",
                    first="datum.top + 11",
                    second="datum.top + (datum.row == 'turn' ? 25 : 43)",
                ),
            ],
            "layer": [
                {
                    "mark": themed_text(align="right", fontSize=12, fontWeight="bold"),
                    "encoding": {
                        "x": {"value": -8},
                        "y": quantity("first"),
                        "text": nominal("name"),
                    },
                },
                {
                    "mark": themed_text(align="right", fontSize=11),
                    "encoding": {
                        "x": {"value": -8},
                        "y": quantity("second"),
                        "text": nominal("verdict"),
                    },
                },
            ],
        },
        {  # not seen: as wide as the widest verdict, so that no scenario moves the left edge
            "data": {"values": [{}]},
            "mark": themed_text(
                align="right",
                fontSize=11,
                opacity=0,
                text=max(tables["labels"]["verdict"], key=len),
            ),
            "encoding": {"x": {"value": -8}, "y": {"value": 0}},
        },
        {
            "data": csv_source("breaks", numbers),
            "transform": [
                chosen,
                *calculate(top=f"{place} - 3", bottom="datum.top + 40"),
            ],
            "layer": [
                {
                    "mark": {"type": "rule", "color": PALETTE["break"]["fill"], "strokeWidth": 3},
                    "encoding": {
                        "x": quantity("x"),
                        "y": quantity("top"),
                        "y2": {"field": "bottom"},
                    },
                },
                *break_badge(
                    "x", "top", [nominal("cause", title="splits"), nominal("x", title="at")]
                ),
            ],
        },
    ]
    # what gives the drawing its size: the same width always, the height of the scenario
    frame = scenarios[["s", "turns", "datums"]]
    data["frame"] = frame
    layers.append(
        {
            "data": csv_source("frame", ["s", "turns", "datums"]),
            "transform": [
                {"filter": "datum.s == scenario"},
                *calculate(
                    top="0",
                    bottom=f"{top + gap} + datum.turns * {stair} + datum.datums * {row}",
                    first=f"{top - 10}",
                    second=f"{top + gap - 12} + datum.turns * {stair}",
                    turn_words="'what the model saw, then said'",
                    datum_words="'what trajectory_to_data makes of it; the first token is never"
                    " a target, so it has no mask entry'",
                ),
            ],
            "layer": [
                {
                    "mark": {"type": "rect", "fill": "transparent"},
                    "encoding": {
                        "x": {"value": -96},
                        "x2": {"value": step * wide},
                        "y": quantity("top"),
                        "y2": {"field": "bottom"},
                    },
                },
                *(
                    {
                        "mark": themed_text(align="left", fontSize=11, fontStyle="italic"),
                        "encoding": {
                            "x": {"value": 1},
                            "y": quantity(line),
                            "text": nominal(words),
                        },
                    }
                    for line, words in (("first", "turn_words"), ("second", "datum_words"))
                ),
            ],
        }
    )
    titles = scenarios["title"].tolist()
    most = max(turns)
    # the first scenario in which turns extend and turns split: one picture of both
    told = tables["labels"].query("row == 'turn'").groupby("s")["verdict"].agg(" ".join)
    both = [place for place, words in enumerate(told) if "extends" in words and "✕" in words]
    start = both[0] if both else 0
    height = max(
        top + gap + stair * turn_count + row * datum_count
        for turn_count, datum_count in zip(turns, scenarios["datums"].tolist(), strict=True)
    )
    finding = tables["steps"].query("s == @start").iloc[-1]
    return vega_figure(
        layers,
        data,
        description=(
            f"Staircase of turns, with a menu of {len(titles)} scenarios and a control for the "
            f"number of turns shown. Chosen at first, {titles[start]}: {finding['finding']}; "
            f"{finding['rest']} All scenarios stand in the table below the figure."
        ),
        width=step * wide,
        height=1,
        pad=(4, 4, 4, 4),
        autosize={"type": "pad", "resize": True},
        params=[
            {
                "name": "scenario",
                "value": start,
                "bind": {
                    "input": "select",
                    "options": list(range(len(titles))),
                    "labels": titles,
                    "name": "Show",
                },
            },
            {
                "name": "turns",
                "value": most,
                "bind": {
                    "input": "range",
                    "min": 1,
                    "max": most,
                    "step": 1,
                    "name": "Turns shown, at most",
                },
            },
        ],
        encoding={
            "x": {
                "type": "quantitative",
                "scale": {"domain": [0, wide], "nice": False},
                "axis": None,
            },
            "y": {
                "type": "quantitative",
                "scale": {"domain": [0, height], "range": [0, height]},
                "axis": None,
            },
        },
    )


def chips_html(chips: Sequence[Chip], label: str) -> str:
    """Elements of one turn as a row of chips: position, id, text; runs open with their letter.

    Args:
        chips: From `turn_chips`.
        label: Accessible name of the list.
    """
    letters = {"held": "=", "break": "O", "observation": "O", "action": "A", "masked": "A"}
    words = {
        "held": "carried over", "observation": "new observation", "action": "action",
        "masked": "action, masked", "break": "differs here", "end": "ends here", "gap": "left out",
    }  # fmt: skip
    cells: list[str] = []
    previous = ""
    for chip in chips:
        text = "".join(char if char.isprintable() else "␤" for char in chip.text[:40])
        name = "".join(char if char.isprintable() else "?" for char in chip.label[:24])
        group = "observation" if chip.kind == "break" else chip.kind
        letter = letters.get(chip.kind, "") if group != previous else ""
        mark = "✕" if chip.kind in ("break", "end") else letter
        previous = group
        cells.append(
            f'<li class=edit-chip-{chip.kind} title="{words[chip.kind]}">'
            f"<small>{chip.position if chip.kind not in ('end', 'gap') else ''}"
            f"<b>{mark}</b></small>"
            f"<span>{html.escape(name)}</span><i>{html.escape(text)}</i>"
        )
    return (
        f'<ol class="edit-chips" tabindex="0" aria-label="{html.escape(label)}">'
        f"{''.join(cells)}</ol>"
    )


def issues_html(issues: Sequence[FieldIssue]) -> str:
    """The sentences beside one field; the place is kept when there are none."""
    lines = "".join(
        f'<p class="edit-issue edit-issue-{"bad" if issue.fatal else "look"}">'
        f"<b>{'✕' if issue.fatal else '!'}</b> {code_spans(issue.message)}</p>"
        for issue in issues
    )
    return f'<div role="status">{lines}</div>'


def code_spans(sentence: str) -> str:
    """A sentence as HTML: escaped, with `quoted` pieces as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(sentence))


def turn_html(
    turn: int,
    verdict: str,
    widgets: Mapping[str, Any],
    remove: Any,
    issues: Sequence[FieldIssue],
    chips: Sequence[Chip],
    history: str,
) -> str:
    """One turn of the editor: its fields, the sentences beside them, its tokens.

    Hidden fields stay in the page, so that what was typed in them is kept.

    Args:
        turn: Index of the turn.
        verdict: A few words beside the number of the turn.
        widgets: One UI element per `TurnDraft` attribute.
        remove: The button that removes the turn.
        issues: Of this turn only.
        chips: Of this turn; empty when it, or a turn before it, could not be read.
        history: The history mode as it stands.
    """
    hint = '<p class="edit-hint">Positions: the small numbers at the turn before.</p>'
    cells: list[str] = []
    for name, widget in widgets.items():
        hidden = (name == "history" and turn == 0) or (
            name == "edits" and (turn == 0 or history != "edits")
        )
        mine = [issue for issue in issues if issue.field == name]
        cells.append(
            f'<div class="edit-field edit-{name}"{" hidden" if hidden and not mine else ""}>'
            f"{widget}{hint if name == 'edits' else ''}{issues_html(mine)}</div>"
        )
    return (
        f'<fieldset class="edit-turn"><legend>Turn {turn} <span>{html.escape(verdict)}</span>'
        f'</legend><div class="edit-fields">{"".join(cells)}</div>'
        f'<div class="edit-foot">{chips_html(chips, f"Tokens of turn {turn}")}'
        f"<div>{remove}</div></div></fieldset>"
    )


def editor_css() -> str:
    """Style of the editor of section 2; the colours are those of `style_sheet`."""
    return """
.edit-turn{border:1px solid var(--border);border-radius:8px;padding:4px 14px 12px;
  margin:0 0 12px;min-width:0}
.edit-turn legend{font-weight:600;padding:0 6px;margin-left:-6px}
.edit-turn legend span{font-weight:400;margin-left:.35em}
.edit-fields{display:grid;grid-template-columns:repeat(12,minmax(0,1fr));gap:8px 14px}
.edit-field{min-width:0}
.edit-field[hidden]{display:none}
.edit-history,.edit-ac,.edit-logprobs{grid-column:span 4}
.edit-reward,.edit-masked{grid-column:span 2}
.edit-masked{padding-top:26px}
.edit-edits,.edit-edits[hidden]+.edit-ob{grid-column:span 8}
.edit-ob,.edit-history[hidden]~.edit-ob{grid-column:span 12}
.edit-hint{font-size:.8rem;margin:2px 0 0;color:var(--muted-foreground)}
.edit-issue{font-size:.875rem;line-height:1.35;margin:4px 0 0;overflow-wrap:anywhere}
.edit-issue b{display:inline-block;min-width:1.35em;text-align:center;border-radius:4px;
  background:var(--seq-look);color:var(--seq-look-ink)}
.edit-issue-bad b{background:var(--seq-break);color:var(--seq-break-ink)}
.edit-foot{display:flex;gap:14px;align-items:end;justify-content:flex-end;margin-top:10px}
.edit-chips{display:flex;gap:3px;overflow-x:auto;list-style:none;margin:0;padding:0 0 6px;
  flex:1;min-width:0}
[class^=edit-chip-]{flex:none;min-width:34px;margin:0;padding:2px 5px 3px;border-radius:5px;
  display:flex;flex-direction:column;line-height:1.25;text-align:center;
  border:1px solid transparent;font-variant-numeric:tabular-nums}
.edit-chips small{display:flex;justify-content:space-between;gap:6px;font-size:10px}
.edit-chips span{font-size:13px;font-weight:600}
.edit-chips i{font-size:11px;font-style:normal;white-space:pre;min-height:14px}
.edit-chip-observation{background:var(--seq-observation);color:var(--seq-observation-ink)}
.edit-chip-action{background:var(--seq-action);color:var(--seq-action-ink)}
.edit-chip-masked{background:var(--seq-masked);color:var(--seq-masked-ink)}
.edit-chip-break,.edit-chip-end{background:var(--seq-break);color:var(--seq-break-ink)}
.edit-chip-held{background:var(--seq-zero);color:var(--seq-zero-ink)}
.edit-chip-gap{justify-content:center}
.edit-bar{display:flex;flex-wrap:wrap;gap:8px;align-items:end;margin:0 0 12px}
.edit-lesson{margin:0 0 14px}
.edit-lanes{overflow-x:auto;margin:8px 0}
.edit-lanes table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px}
.edit-lanes caption{text-align:left;font-weight:600;padding-bottom:4px}
.edit-lanes th,.edit-lanes td{padding:3px 8px;text-align:right;white-space:nowrap;
  border-bottom:1px solid var(--border)}
.edit-lanes th{font-weight:400;color:var(--muted-foreground)}
.edit-lanes th:first-child{text-align:left;padding-left:0}
@media (max-width:640px){
  .edit-turn .edit-field.edit-field{grid-column:span 12}
  .edit-turn .edit-field.edit-reward,.edit-turn .edit-field.edit-masked{grid-column:span 6}
  .edit-foot{flex-wrap:wrap}
  .edit-chips{flex-basis:100%}
}
"""


def lanes_html(data: Sequence[tinker.Datum]) -> mo.Html:
    """Datums as plain tables: a row per tensor that the loss gets, a column per input position."""
    parts: list[str] = []
    for index, datum in enumerate(data):
        tokens = datum.model_input.to_ints()
        lanes = {"input": tokens} | {
            name: tensor.data for name, tensor in datum.loss_fn_inputs.items()
        }
        head = "".join(f'<th scope="col">{position}</th>' for position in range(len(tokens)))
        rows = "".join(
            f'<tr><th scope="row">{html.escape(name)}</th>'
            + "".join(f"<td>{number_text(value)}</td>" for value in values)
            + "</tr>"
            for name, values in lanes.items()
        )
        parts.append(
            f'<div class="edit-lanes" tabindex="0"><table><caption>Datum {index}</caption>'
            f'<thead><tr><th scope="col">position</th>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )
    return mo.Html("".join(parts))


def with_code(view: Any) -> Any:
    """A teaching cell's output below the cell's code, where that is not on the page anyway.

    That is in the app, and in a static page without code: the style sheet shows it only there.
    """
    mode = mo.app_meta().mode
    if mode == "run":
        return mo.show_code(view, position="above")
    if mode == "script":  # no page, and cells have no source of their own
        return view
    code = "".join(inspect.findsource(inspect.stack(0)[1].frame)[0])
    return mo.Html(
        f'<div class="seq-own-code">{code_view(code, "python").text}</div>{mo.as_html(view).text}'
    )


def printed(text: str) -> mo.Html:
    """Text as a terminal would print it, in a box that scrolls by itself."""
    return mo.Html(f'<pre class="seq-scroll" tabindex="0">{html.escape(text)}</pre>')


def room(text: str) -> mo.Html | None:
    """The door plate of a room of the workshop (markdown); nothing in the app, which has no code.

    There it would only be a dead entry of the outline.
    """
    return None if mo.app_meta().mode == "run" else mo.md(text)


def code_view(text: str, language: str) -> mo.Html:
    """Text as a highlighted code block that can be copied, safe for any content."""
    runs = re.findall(r"`+", text)
    fence = "`" * max([3, *(len(run) + 1 for run in runs)])
    return lean(mo.md(f"{fence}{language}\n{text}{fence}"))


def lean(view: Any) -> mo.Html:
    """Anything that marimo shows, in a third of its bytes and looking the same.

    A page takes some fifty bytes for every span of highlighted code, eleven for every quote in a
    widget's attributes, and 250 for the markup around a label. marimo's theme has seven colours
    for the seventy classes of Pygments: neighbours of one colour share a span, and what has the
    colour of plain code has none. Attributes in single quotes need no escaped double quotes.
    """
    groups = [
        "k kt nb",
        "kn kc kd kp kr",
        "nf nc nd nt",
        "mi mb mf mh mo il l",
        "s s1 s2 sa sb sc sd se sh si sr ss sx dl",
        "c c1 ch cm cs cpf",
        "bp",
    ]
    colors = {name: group.split()[0] for group in groups for name in group.split()}

    def span(found: re.Match[str]) -> str:
        color = colors.get(found[1])
        return f"<span class={color}>{found[2]}</span>" if color else found[2]

    def tag(found: re.Match[str]) -> str:
        text = found[0].replace("&quot;", '"').replace("&#92;", "\\").replace("&#36;", "$")
        label = (
            r"\\u003cspan class=[^<>]{,60}paragraph\\\"\\u003e([^\\]*)(?:\\u003c/span\\u003e){2}"
        )
        return re.sub(label, r"\1", text)

    page = mo.as_html(view).text
    # a whole tag, its attributes in single quotes: texts of others hold no bare `<`
    page = re.sub(r"<marimo-[\w-]+(?: [\w-]+='[^']*')*>", tag, page)
    joined = 0
    if "codehilite" in page:
        page, joined = re.subn(r'<span class="(\w{1,3})">([^<]*)</span>', span, page)
        page = page.replace("<pre><span></span><code>", "<pre><code class=n>")
    while joined:
        page, joined = re.subn(
            r"<span class=(\w+)>([^<]*)</span>(\s*)<span class=\1>", r"<span class=\1>\2\3", page
        )
    return mo.Html(page)


def span_words(span: TurnSpan, refused: bool = False) -> str:
    """A few words on what became of a turn; of a refused rollout, on what would have."""
    opens, stays = (
        ("would open", "would extend and stay") if refused else ("opens", "extends, stays")
    )
    if span.turn == 0:
        return f"{opens} datum 0"
    if span.splits:
        return f"splits at position {span.position}, {opens} datum {span.datum}"
    return f"{stays} in datum {span.datum}"


def diagnose_before(
    drafts: Sequence[TurnDraft], issues: Sequence[FieldIssue], vocab: Mapping[int, str]
) -> Diagnosis | None:
    """The turns before the first one that cannot be read: nothing later changes them."""
    first = min((issue.turn for issue in issues if issue.fatal), default=len(drafts))
    rollout, _ = drafts_to_rollout(drafts[:first], vocab, "")
    return diagnose(rollout) if rollout else None


def outcome_html(
    drafts: Sequence[TurnDraft], issues: Sequence[FieldIssue], diagnosis: Diagnosis | None
) -> str:
    """The line under the editor: how many datums these turns become, or why none."""
    if diagnosis is None:
        bad = [issue for issue in issues if issue.fatal]
        unmatched = [issue for issue in issues if issue.unmatched]

        def places(found: Sequence[FieldIssue]) -> str:
            return ", ".join(f"turn {turn}" for turn in sorted({issue.turn for issue in found}))

        also = f", and logprobs do not match ({places(unmatched)})" if unmatched else ""
        return (
            f'<p class="edit-outcome" role="status"><b>No trajectory yet.</b> '
            f"{count_of(len(bad), 'field')} cannot be read ({places(bad)}){also}; the figures "
            f"below wait for {'it' if len(bad) + len(unmatched) == 1 else 'them'}.</p>"
        )
    if diagnosis.built.error_message:
        return (
            f'<p class="edit-outcome" role="status"><b>No datum.</b> '
            f"{code_spans(diagnosis.built.error_message)}</p>"
        )
    data = diagnosis.built.data
    trained = sum(value > 0 for datum in data for value in datum_tensor(datum, "mask"))
    return (
        f'<p class="edit-outcome" role="status">{count_of(len(drafts), "turn")} '
        f"{'becomes' if len(drafts) == 1 else 'become'} "
        f"<b>{count_of(len(data), 'datum')}</b>: "
        f"{count_of(diagnosis.tokens_processed or 0, 'token')} go through the model, "
        f"{count_of(trained, 'action token')} are trained.</p>"
    )


def window(table: pd.DataFrame, start: int, size: int) -> pd.DataFrame:
    """Rows of one datum that show `size` inputs from position `start` on, with their targets.

    The last target is the next input, so one row more is taken where the datum has one.
    """
    start = max(0, min(start, len(table) - 2))
    return table.iloc[start : start + size + 1]


def strip_runs(rows: pd.DataFrame) -> pd.DataFrame:
    """Stretches of one turn and part in `strip_rows`: start, end (exclusive), turn, kind.

    Start and end are positions in the datum's sequence.
    """
    columns = [rows[name].tolist() for name in ("p", "turn", "part", "mask")]
    runs: list[list[Any]] = []
    last = None
    for place, turn, part, mask in zip(*columns, strict=True):
        if (turn, part) != last:
            runs.append([place, 0, turn, ""])
            last = (turn, part)
        # the last token of a stretch speaks for it: token 0 has no mask entry
        runs[-1][1], runs[-1][3] = place + 1, "M" if (part, mask) == ("A", "0") else part
    return pd.DataFrame(runs, columns=["start", "end", "turn", "kind"])


def strip_turns(runs: pd.DataFrame, step: int) -> pd.DataFrame:
    """Stretches of one turn: start, end (exclusive), and a label that fits their width."""
    turns: dict[str, tuple[int, int]] = {}
    columns = [runs[name].tolist() for name in ("turn", "start", "end")]
    for turn, start, end in zip(*columns, strict=True):
        turns[turn] = (turns.get(turn, (start, end))[0], end)
    labels = [
        f"turn {turn}" if 6 * len(f"turn {turn}") <= (end - start) * step - 6 else str(turn)
        for turn, (start, end) in turns.items()
    ]
    starts, ends = zip(*turns.values(), strict=True)
    return pd.DataFrame({"start": starts, "end": ends, "label": labels})


def strip_cell_width(rows: pd.DataFrame) -> int:
    """Pixels per position: wide enough for the longest token id, wider where texts are known."""
    longest = max((len(label) for label in rows["id"]), default=1)
    texts = 60 if any(rows["text"].tolist()) else 0
    return max(48, texts, 8 * longest + 10)


def strip_finding(table: pd.DataFrame) -> str:
    """One sentence for one datum of `alignment_table` (or a `window`): what is trained on."""
    targets = len(table) - 1
    trained = sum(value == 1 for value in table["mask"].tolist()[:targets])
    signed = sum(value != 0 for value in table["advantage"].tolist()[:targets])
    first, last = int(table["position"].iloc[0]), int(table["position"].iloc[-1])
    name, these = f"Datum {table['datum'].iloc[0]}", ""
    if first or not pd.isna(table["mask"].iloc[-1]):
        name, these = f"{name}, only positions {first} to {last - 1}", "these "
    if not trained:
        return f"{name}: none of {these}{count_of(targets, 'target')} trained"
    if not signed:
        return f"{name}: {trained} of {targets} targets have mask 1, but advantage 0: no gradient"
    return f"{name}: {trained} of {these}{targets} targets trained, {targets - trained} context"


def strip_description(rows: pd.DataFrame, runs: pd.DataFrame, name: str) -> str:
    """What the strip shows, in words, for readers who do not see it."""
    trained = rows["mask"].tolist().count("1")
    names = {"O": "observation", "A": "action", "M": "masked action"}
    parts = [
        f"tokens {start} to {end - 1} are turn {turn}'s {names[kind]}"
        for start, end, turn, kind in runs.head(12).to_numpy().tolist()
    ]
    more = f"; and {len(runs) - 12} more stretches" if len(runs) > 12 else ""
    return (
        f"{name}: {len(rows)} tokens, so {len(rows) - 1} inputs and {len(rows) - 1} targets; "
        f"{trained} targets have mask 1. Each target is the next input. "
        f"In order, {'; '.join(parts)}{more}."
    )


def style_sheet() -> str:
    """CSS of chips, notes, figures, tables and questions; colours from palette and theme.

    A static page never connects to a kernel, and says so in the page, not in Python: what
    cannot work there gives way to what can.

    Cell colours are the same in both themes (ink on fill); all else takes the theme's own
    variables, so nothing here knows which theme is on. `seq-static-only` and `seq-live-only`
    tell a static page from one with Python behind it: only an export holds a code hash.
    A static page with code mounts an editor for every cell, and each makes the browser style
    the page anew, so what is folded or out of sight is kept out of that (else: a minute's wait).
    """
    colors = "".join(
        f"--seq-{name}:{entry['fill']};--seq-{name}-ink:{entry['ink']};"
        for name, entry in PALETTE.items()
    )
    return (
        f":root{{{colors}}}"
        + """
.seq-chip{display:inline-flex;align-items:baseline;gap:.3em;padding:.05em .45em;margin:.1em;
  border-radius:.3em;font-size:.85em;line-height:1.5;white-space:nowrap;max-width:100%;
  background:var(--seq-zero);color:var(--seq-zero-ink)}
.seq-chip>small{font-size:.8em;font-weight:600}
.seq-chips{display:flex;flex-wrap:wrap;gap:.15em;align-items:center}
.seq-note{margin:.5em 0;padding:.4em .8em;border-left:4px solid var(--seq-axis);
  border-radius:0 .3em .3em 0;color:var(--foreground);
  background:color-mix(in srgb,var(--foreground) 7%,transparent);
  overflow-wrap:anywhere}
.seq-look{border-left-color:currentColor}
.seq-error{border-left-color:var(--seq-break)}
.seq-note>b:first-child{margin-right:.4em}
.static-only,.quiz-static,#App[data-connection-state="NOT_STARTED"] .quiz-live{display:none}
#App[data-connection-state="NOT_STARTED"] .static-only{display:inline}
#App[data-connection-state="NOT_STARTED"] .quiz-static{display:block}
.quiz-grid{display:grid;gap:2rem;grid-template-columns:repeat(auto-fill,minmax(min(100%,24rem),1fr))}
.quiz-card{min-width:0;padding-left:1rem;border-left:3px solid var(--seq-axis)}
.quiz-turns{white-space:normal;padding:.8em 1em;border-radius:4px;
  background:color-mix(in srgb,var(--foreground) 7%,transparent)}
.quiz-turns span{display:block;white-space:pre-wrap;padding-left:14ch;text-indent:-14ch}
.quiz-live{max-width:28rem}
.quiz-right{border-left-color:var(--seq-positive)}
.quiz-wrong{border-left-color:var(--seq-break)}
.quiz-sign{padding:.02em .55em;border-radius:.3em;font-size:.88em;font-weight:600;
  background:var(--seq-break);color:var(--seq-break-ink)}
.quiz-sign-right{background:var(--seq-positive);color:var(--seq-positive-ink)}
.quiz-static summary{cursor:pointer;font-weight:600}
.seq-figure{margin:.75em 0;max-width:100%}
.seq-figure>figcaption{margin:0 0 .35em;color:var(--foreground);font-size:.95em}
.seq-figure>figcaption>span{color:var(--muted-foreground);display:block}
.seq-body{display:flex;max-width:100%}
.seq-lanes{position:relative;flex:none;width:5.6rem;font-size:.75rem;line-height:1.1;
  color:var(--foreground);text-align:right}
.seq-lanes>span{position:absolute;right:.4rem;transform:translateY(-50%);white-space:nowrap}
.seq-scroll{overflow-x:auto;max-width:100%;min-width:0;flex:1 1 auto;
  overscroll-behavior-x:contain}
.seq-scroll>div{position:relative}
.seq-scroll:not(pre),.vega-embed:not(.has-actions){
  --shade:color-mix(in srgb,var(--seq-axis) 50%,transparent);background:
  linear-gradient(to right,var(--background) 50%,transparent) left/2.5rem 100% local,
  linear-gradient(to left,var(--background) 50%,transparent) right/2.5rem 100% local,
  linear-gradient(to right,var(--shade),transparent) left/.5rem 100%,
  linear-gradient(to left,var(--shade),transparent) right/.5rem 100%;
  background-repeat:no-repeat}
#vg-tooltip-element.vg-tooltip{background:var(--background);color:var(--foreground);
  border-color:var(--seq-axis)}
#vg-tooltip-element.vg-tooltip td.key{color:var(--muted-foreground)}
.seq-focus{position:absolute;top:0;width:13rem;height:1px;margin-left:-4.5rem;
  scroll-initial-target:nearest}
.seq-scroll::-webkit-scrollbar{height:8px}
.seq-scroll::-webkit-scrollbar-thumb{background:var(--seq-axis);border-radius:4px}
.seq-scroll:focus-visible,.seq-facts>summary:focus-visible,.vega-bind select:focus-visible,
.vega-bind input:focus-visible{outline:2px solid var(--ring,currentColor);outline-offset:2px}
.seq-facts{margin:.25em 0 .75em}
.seq-facts>summary{cursor:pointer;color:var(--muted-foreground);font-size:.9em;width:fit-content}
.seq-table{border-collapse:collapse;font-size:.85em;font-variant-numeric:tabular-nums;
  margin:.4em 0}
.seq-table>caption{text-align:left;font-weight:600;padding:.2em 0}
.seq-title{font-weight:600;line-height:1.3;overflow-wrap:anywhere}
h1.seq-title{font:400 2.1em/1.3 var(--heading-font,inherit);margin:.6em 0}
h3.seq-title{font-size:1.15em;margin:1.5em 0 .5em}
.seq-table th,.seq-table td{padding:.2em .7em;text-align:left;border-bottom:1px solid
  var(--border);white-space:nowrap;vertical-align:top}
.seq-table th{font-weight:600;color:var(--muted-foreground)}
"""
        + "".join(f".seq-r{k} tr>:nth-last-child({k})," for k in range(1, 13))
        + """.seq-table .seq-number{text-align:right}
.seq-table .seq-long{white-space:normal;min-width:22em;max-width:40em}
.seq-table a{text-decoration:underline}
.seq-told .seq-long{min-width:14em}
.seq-rollouts td:nth-child(2){white-space:normal;overflow-wrap:anywhere;min-width:9em}
@media (max-width:640px){
  .seq-told,.seq-told>*{display:block}
  .seq-told tr{display:grid;grid-template-columns:5em 1fr auto;
    border-bottom:1px solid var(--border)}
  .seq-told tr>*{border:0}
  .seq-told tr>:last-child{grid-column:1/-1;min-width:0;max-width:none;white-space:normal}
  .seq-table th,.seq-table td{padding:.2em .5em}
}
.seq-verdicts{list-style:none;margin:.5em 0;padding:0;display:grid;gap:.5em}
.seq-verdict{border:1px solid var(--border);border-left:5px solid var(--seq-axis);
  border-radius:.35em;padding:.4em .8em;overflow-wrap:anywhere}
.seq-verdict>p{margin:0;display:flex;flex-wrap:wrap;gap:.25em .7em;align-items:baseline}
.seq-verdict>ul{margin:.2em 0 0;padding:0;list-style:none;font-size:.92em}
.seq-verdict>ul>li{margin:.15em 0}
.seq-verdict-sign{padding:.02em .55em;border-radius:.3em;background:var(--seq-zero);
  color:var(--seq-zero-ink);font-size:.88em;font-weight:600}
.seq-verdict-splits{border-left-color:var(--seq-break)}
.seq-verdict-splits .seq-verdict-sign{background:var(--seq-break);
  color:var(--seq-break-ink)}
.seq-verdict-look{border-left-color:var(--seq-look)}
.seq-verdict-look .seq-verdict-sign{background:var(--seq-look);color:var(--seq-look-ink)}
.seq-transcript{list-style:none;margin:0;padding:0;max-width:46rem}
.seq-transcript>li{--hue:var(--seq-observation);margin:.4rem 12% .4rem 0;padding:.4rem .7rem;
  border-left:4px solid var(--hue);border-radius:4px;overflow-wrap:anywhere;
  background:color-mix(in srgb,var(--hue) 14%,transparent)}
.seq-transcript>.seq-pupil{--hue:var(--seq-action);margin:.4rem 0 .4rem 12%}
.seq-transcript small{font-size:.8rem}
.seq-transcript p{margin:0}
.vega-embed:not(.has-actions){overflow-x:auto;overscroll-behavior-x:contain}
.vega-embed:has(>.vega-bindings){display:flex;flex-direction:column;align-items:flex-start}
.vega-embed>canvas{flex:none}
.vega-bindings{order:-1;display:flex;flex-wrap:wrap;gap:.4em 1.5em;position:sticky;left:0;
  max-width:100%;margin:0 0 .6em;padding:2px;font-size:.9rem;color:var(--foreground)}
.vega-bindings:empty{display:none}
.vega-bind label{display:flex;flex-wrap:wrap;align-items:center;gap:.5em;min-height:2.25em}
.vega-bind-name{font-weight:600}
.vega-bind select{font:inherit;color:var(--foreground);background:var(--background);
  border:1px solid var(--input,var(--border));border-radius:.35em;padding:.25em .5em;
  max-width:100%}
.vega-bind input[type=range]{accent-color:var(--primary);width:9em;min-height:1.75em}
.vega-bind input[type=range]+span{min-width:1.5em;font-variant-numeric:tabular-nums}
.seq-static-only{display:none}
body:has(>marimo-code-hash) .seq-static-only{display:block}
body:has(>marimo-code-hash) .seq-live-only{display:none}
body:has(>marimo-code-hash){--seq-live:none}
.marimo-cell.published:has(.seq-room),
body:has(>marimo-code:empty) .marimo-cell:has(.seq-room),.seq-own-code{display:none}
body:has(>marimo-code:empty) .seq-own-code{display:block}
@media (prefers-reduced-motion:reduce){.vega-embed *,.seq-figure *{animation:none!important;
  transition:none!important;scroll-behavior:auto!important}}
"""
    )


def widget_sheet() -> str:
    """CSS for the insides of marimo's widgets, which the page's style sheet does not reach.

    marimo hands a sheet whose title starts with its name on to the shadow root of each widget
    that it mounts afterwards. So this one is short, and stands before the first widget.
    """
    return (
        '<style title="marimo-sequence-widgets">'
        # marimo's own red is too dark on its dark page, and too pale on its light one
        ":host .text-destructive,:host .text-error{color:var(--red-11)}"
        # ten columns of numbers side by side: headings take no more than they need
        ":host(marimo-table) :is(th,td){padding-inline:.2rem}"
        ":host(marimo-table) th button{width:1rem}"
        ":host(marimo-form) form .justify-end{justify-content:flex-start;font-family:inherit}"
        "</style>"
    )


def token_chip(
    label: str, kind: str = "O", text: str = "", hint: str = "", letter: str = ""
) -> str:
    """One token as HTML: colour, letter and label; all texts escaped.

    Args:
        label: Token id, or what stands for it.
        kind: One of `KINDS` ("O", "A", "M", "0", "X", ...).
        text: The token's text where known.
        hint: More for the tooltip; nothing that is not said elsewhere.
        letter: Stands before the label in place of the palette's.
    """
    entry = PALETTE[KINDS[kind]]
    words = f" {html.escape(visible_text(text))}" if text else ""
    title = f' title="{html.escape(hint)}"' if hint else ""
    # colours inline: inside a widget the page's style sheet does not reach
    return (
        f'<span class="seq-chip" style="background:{entry["fill"]};color:{entry["ink"]};'
        f'padding:0 .4em;border-radius:.3em"{title}>'
        f"<small>{html.escape(letter or entry['letter'])}</small> {html.escape(label)}{words}"
        "</span>"
    )


def note(text: str, kind: Literal["note", "look", "error"] = "note") -> mo.Html:
    """One plain sentence beside a field or figure; escaped, and marked by word and colour."""
    lead = {"note": "", "look": "<b>Look:</b> ", "error": "<b>✕</b> "}[kind]
    role = ' role="alert"' if kind == "error" else ""
    extra = "" if kind == "note" else f" seq-{kind}"
    return mo.Html(f'<p class="seq-note{extra}"{role}>{lead}{html.escape(text)}</p>')


def table_html(
    frame: pd.DataFrame,
    caption: str = "",
    merged: int = 0,
    row_heads: bool = False,
    lead: int = 0,
    name: str = "",
    links: Mapping[int, str] | None = None,
) -> str:
    """A table as plain HTML: real header cells, texts escaped, numbers to the right.

    Tables are the largest thing in a page, which carries each `<` as six characters. So end
    tags that HTML lets one omit are omitted, and one class of the table aligns a whole column.

    Args:
        frame: The facts. Whole numbers get commas; token ids come as texts.
        caption: Stands above; left out when empty.
        merged: That many columns share a cell where rows in a row say the same: the first ones
            after `lead`.
        row_heads: The first column names its row.
        lead: Columns before those; each row has its own.
        name: One more class of the table.
        links: Where the second cell of a row leads: row to id of an element on the page.
    """
    columns = list(frame.columns)
    right = [pd.api.types.is_numeric_dtype(frame[column]) for column in columns]
    rows = frame.astype(object).to_numpy().tolist()

    def cell(at: int, place: int) -> str:
        value, key = rows[at][place], rows[at][lead : place + 1]
        shares = lead <= place < lead + merged
        if shares and at and rows[at - 1][lead : place + 1] == key:
            return ""
        text = f"{value:,}" if type(value) is int else str(value)
        if isinstance(value, float) or value is pd.NA:
            text = number_text(value)
        kind = " class=seq-long" if len(text) > 60 else ""
        if shares:
            alike = itertools.takewhile(lambda row: row[lead : place + 1] == key, rows[at:])
            span = sum(1 for _ in alike)
            kind = f" rowspan={span}" * (span > 1)
        if place < lead + merged:
            kind += " class=seq-number" * right[place]
        tag = "th scope=row" if row_heads and not place else "td"
        # a bare `>` in a text closes nothing, and takes two thirds of the bytes
        text = html.escape(text, quote=False).replace("&gt;", ">")
        if links and place == 1 and at in links:
            text = f'<a href="#{html.escape(links[at])}">{text}</a>'
        return f"<{tag}{kind}>{text}"

    head = "".join(f"<th scope=col>{html.escape(str(column), quote=False)}" for column in columns)
    body = "".join(
        "<tr>" + "".join(cell(at, place) for place in range(len(columns)))
        for at in range(len(rows))
    )
    # counted from the right: what cells share, they share from the left
    sides = "".join(f" seq-r{len(columns) - place}" for place, number in enumerate(right) if number)
    sides += f" {name}" if name else ""
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f'<table class="seq-table{sides}">{title}<thead><tr>{head}<tbody>{body}</table>'


def details_table(
    frame: pd.DataFrame,
    summary: str = "The same facts as a table",
    limit: int = 300,
    more: str = "",
    **table: Any,
) -> mo.Html:
    """A table that can be opened, without a widget: it works in the static page too.

    Long tables are cut after `limit` rows, and say so; `more` is HTML below the table, and
    `table` goes to `table_html`.
    """
    left = len(frame) - limit
    rest = f'<p class="seq-note">{left} more rows are left out here.</p>' if left > 0 else ""
    return mo.Html(
        f'<details class="seq-facts"><summary>{html.escape(summary)}</summary>'
        f'<div class="seq-scroll" tabindex="0" role="group" aria-label="{html.escape(summary)}">'
        f"{table_html(frame.head(limit), **table)}</div>{rest}{more}</details>"
    )


def figure_box(
    figure: Figure,
    title: str,
    summary: str = "",
    lanes: Sequence[tuple[int, str]] = (),
    lane_width: str = "5.6rem",
) -> mo.Html:
    """A figure in the page: its finding as text above, the drawing in a box that scrolls.

    Args:
        figure: A figure without a title of its own.
        title: The finding.
        summary: The equivalent in a sentence.
        lanes: Names that stay at the left while the drawing scrolls: (pixels from top, name).
        lane_width: Width of these names, in CSS.
    """
    gaps = {below[0] - above[0] for above, below in pairwise(lanes)}
    if len(gaps) == 1:  # evenly spaced: lines of one text
        (gap,) = gaps
        lines = html.escape("\n".join(name for _, name in lanes))
        style = f"top:{lanes[0][0] - gap / 2:g}px;line-height:{gap}px;white-space:pre"
        names = f'<span style="{style};transform:none">{lines}</span>'
    else:
        names = "".join(
            f'<span style="top:{top}px">{html.escape(name).replace("|", "<br>")}</span>'
            for top, name in lanes
        )
    side = (
        f'<div class="seq-lanes" aria-hidden="true" style="height:{figure.height}px;'
        f'width:{lane_width}">{names}</div>'
        if names
        else ""
    )
    more = f"<span>{html.escape(summary)}</span>" if summary else ""
    width = "max-width" if figure.fluid else "width"
    focus = (
        "" if figure.focus is None else f'<i class="seq-focus" style="left:{figure.focus}px"></i>'
    )
    return mo.Html(
        f'<figure class="seq-figure"><figcaption><b>{html.escape(title)}</b>{more}</figcaption>'
        f'<div class="seq-body">{side}'
        f'<div class="seq-scroll" tabindex="0" role="group" aria-label="{html.escape(title)}">'
        f'<div style="{width}:{figure.width}px;height:{figure.height}px">{focus}{figure.text}</div>'
        f"</div></div></figure>"
    )


def tips(words: Mapping[str, str]) -> dict[str, Any]:
    """Encoding of a tooltip: what is named how, each an expression of ours, never a reader's."""
    pairs = ", ".join(f"'{name}': {expression}" for name, expression in words.items())
    return {"tooltip": {"value": {"expr": f"{{{pairs}}}"}}}


def strip_chart(
    table: pd.DataFrame,
    title: str | None = None,
    breaks: Sequence[tuple[int, int, str]] = (),
    lane_labels: bool = True,
) -> Figure:
    """The strip of one datum: aligned lanes over one position axis.

    Every token is drawn twice, as an input at its own position and as the target one position
    to the left; mask, advantage and logprob stand under the target they belong to. The first
    token has no slot as a target, the last none as an input; both empty slots are drawn.

    Args:
        table: Rows of `alignment_table` for one datum, or a `window` of them.
        title: The finding; None computes it from the table, "" leaves it out.
        breaks: (datum, position, label) of the places where a later turn left a datum:
            its observation differs from the datum's token at `position`.
        lane_labels: Draw the names of the lanes left of them.

    Raises:
        ValueError: The table holds another number of datums than one.
    """
    datums = table["datum"].unique().tolist()
    if len(datums) != 1:
        raise ValueError(f"A strip draws one datum; the table holds {len(datums)}.")
    rows = strip_rows(table)
    runs = strip_runs(rows)
    first, last = int(rows["p"].iloc[0]), int(rows["p"].iloc[-1])
    begins, ends = first == 0, bool(pd.isna(table["mask"].iloc[-1]))
    step = strip_cell_width(rows)
    turns = strip_turns(runs, step)
    grey = PALETTE["axis"]["fill"]
    # the two places where a token has no counterpart
    empty = pd.DataFrame(
        {
            "at": [last, -1],
            "top": [20, 84],
            "bottom": [58, 194],
            "line": [28, 112],
            "words": [
                f"{rows['id'].iloc[-1]}|never|an input",
                "the first|token is|never a|target:|no mask|entry",
            ],
        }
    )[[ends, begins]]
    data = {"cells": rows, "turns": turns}
    span = {"x": quantity("left"), "x2": {"field": "right"}}
    # lanes: 0 input, 1 target, 2 mask, 3 advantage, 4 logprob
    lanes = {
        "data": csv_source("cells", ["p"]),
        "transform": [
            *unfold(lane="[0, 1, 2, 3, 4]"),
            {"filter": f"datum.lane ? datum.p > {first} : datum.p < {last}"},
            *calculate(
                at="datum.p - (datum.lane ? 1 : 0)",
                left="datum.at - 0.47",
                right="datum.at + 0.47",
                top="[20, 84, 126, 150, 174][datum.lane]",
                bottom="datum.top + (datum.lane < 2 ? 38 : 20)",
                line="datum.top + (datum.lane < 2 ? 13 : 10)",
                part="datum.part == 'A' && datum.mask == '0' ? 'M' : datum.part",
                trained="datum.mask == '0' ? '0' : 'A'",
                raw="datum.lane == 3 ? datum.adv : datum.lp",
                number="toNumber(datum.raw)",
                kind="datum.lane < 2 ? datum.part : datum.lane == 2 ? datum.trained"
                " : !isFinite(datum.number) ? '!' : datum.number == 0 ? '0'"
                " : datum.lane == 4 ? datum.trained : datum.number > 0 ? '+' : '-'",
                shown="datum.lane < 2"
                " ? [datum.id, (datum.part == 'M' ? 'A masked' : datum.part)"
                " + (datum.text ? ' ' + replace(datum.text,"
                " /^<[|\\uff5c](.+)[|\\uff5c]>$/, '<$1>') : '')]"
                " : datum.lane == 2 ? datum.mask"
                " : !isFinite(datum.number) ? datum.raw"
                " : datum.number == 0 ? '0'"
                " : format(datum.number, datum.lane == 3 ? '+.3~g' : '.3~g')",
            ),
        ],
        "encoding": tips(
            {
                "token id": "datum.id",
                "text": "datum.text || 'not known'",
                "position": "datum.p",
                "turn": "datum.turn",
                "part": PART_WORDS.replace("kind", "part"),
                "mask": "datum.mask || 'none: never a target'",
                "advantage": "replace(datum.adv, regexp('-', 'g'), '\u2212') || 'none'",
                "logprob": "replace(datum.lp, regexp('-', 'g'), '\u2212') || 'none'",
            }
        ),
        "layer": [
            {
                "mark": {"type": "rect", "cornerRadius": 3},
                "encoding": {
                    **span,
                    "y": quantity("top"),
                    "y2": {"field": "bottom"},
                    "fill": kind_color("fill", "OAM0+-!"),
                },
            },
            {
                "mark": {"type": "text", "fontSize": 12, "lineHeight": 14, "limit": step - 6},
                "encoding": {
                    "x": quantity("at"),
                    "y": quantity("line"),
                    "text": nominal("shown"),
                    "color": kind_color("ink", "OAM0+-!"),
                },
            },
        ],
    }
    moves = {
        "data": csv_source("cells", ["p"]),
        "transform": [
            {"filter": f"datum.p > {-1 if begins else first}"},
            *calculate(to="datum.p - 1", tail="60", head="80"),
        ],
        "layer": [
            {
                "mark": {"type": "rule", "color": grey},
                "encoding": {
                    "x": quantity("p"),
                    "x2": {"field": "to"},
                    "y": quantity("tail"),
                    "y2": {"field": "head"},
                    "strokeDash": {
                        "condition": {"test": "datum.p", "value": [1, 0]},
                        "value": [3, 3],
                    },
                },
            },
            {
                "mark": {
                    "type": "point",
                    "shape": "triangle-down",
                    "size": 26,
                    "filled": True,
                    "color": grey,
                    "opacity": 1,
                },
                "encoding": {"x": quantity("to"), "y": quantity("head")},
            },
        ],
    }
    ghosts = {
        "data": csv_source("empty", ["at", "top", "bottom", "line"]),
        "transform": calculate(left="datum.at - 0.47", right="datum.at + 0.47"),
        "layer": [
            {
                "mark": {
                    "type": "rect",
                    "cornerRadius": 3,
                    "fill": "transparent",
                    "stroke": grey,
                    "strokeDash": [3, 3],
                },
                "encoding": {**span, "y": quantity("top"), "y2": {"field": "bottom"}},
            },
            {
                "mark": themed_text(lineBreak="|", lineHeight=11, limit=step - 2),
                "encoding": {
                    "x": quantity("at"),
                    "y": quantity("line"),
                    "text": nominal("words"),
                },
            },
        ],
    }
    # every turn is named twice: above the inputs, and one to the left under the targets
    sides = {
        "data": csv_source("turns", ["start", "end"]),
        "transform": [
            *unfold(side="[0, 1]"),
            *calculate(
                left=f"max(datum.start - datum.side, {first}) - 0.47",
                right=f"min(datum.end - 1 - datum.side, {last if ends else last - 1}) + 0.47",
                bar="datum.side ? 200 : 14",
                name="datum.side ? 210 : 6",
            ),
            {"filter": "datum.right > datum.left"},
        ],
        "layer": [
            {
                "mark": {"type": "rule", "color": grey, "strokeWidth": 2},
                "encoding": {**span, "y": quantity("bar")},
            },
            {
                "mark": themed_text(align="left", fontSize=11),
                "encoding": {
                    "x": quantity("left"),
                    "y": quantity("name"),
                    "text": nominal("label"),
                },
            },
        ],
    }
    # the border between two turns runs straight through the inputs, then steps with the shift
    borders = {
        "data": csv_source("turns", ["start", "end"]),
        "transform": [
            {"filter": f"datum.start > {first}"},
            *unfold(corner="[0, 1, 2, 3]"),
            *calculate(
                across="datum.start - (datum.corner < 2 ? 0.5 : 1.5)",
                down="[2, 59, 83, 214][datum.corner]",
            ),
        ],
        "mark": {"type": "line", "color": grey, "strokeWidth": 1},
        "encoding": {
            "x": quantity("across"),
            "y": quantity("down"),
            "detail": nominal("start"),
            "order": quantity("corner"),
        },
    }
    layers: list[dict[str, Any]] = [sides, moves, lanes]
    if len(turns) > 1:
        layers.insert(0, borders)
    if len(empty):
        data["empty"] = empty
        layers.append(ghosts)
    if lane_labels:
        data["lanes"] = pd.DataFrame(STRIP_LANES, columns=["y", "lane"])
        layers.append(
            {
                "data": csv_source("lanes", ["y"]),
                "mark": themed_text(align="right", fontSize=11, lineBreak="|", lineHeight=12),
                "encoding": {"x": {"value": -8}, "y": quantity("y"), "text": nominal("lane")},
            }
        )
    left = [
        (position, label)
        for datum, position, label in breaks
        if datum == datums[0] and first <= position <= last
    ]
    if left:
        data["breaks"] = pd.DataFrame(left, columns=["at", "label"])
        # a label near the right end stands left of its mark
        late = left[0][0] - first > (last - first) / 2
        layers.append(
            {
                "data": csv_source("breaks", ["at"]),
                "transform": calculate(edge="datum.at - 0.5", top="-18", foot="60", sign="-12"),
                "layer": [
                    {
                        "mark": {
                            "type": "rule",
                            "color": PALETTE["break"]["fill"],
                            "strokeWidth": 3,
                        },
                        "encoding": {
                            "x": quantity("edge"),
                            "y": quantity("top"),
                            "y2": {"field": "foot"},
                        },
                    },
                    {
                        "mark": themed_text(
                            align="right" if late else "left", dx=-12 if late else 12, fontSize=12
                        ),
                        "encoding": {
                            "x": quantity("edge"),
                            "y": quantity("sign"),
                            "text": nominal("label"),
                        },
                    },
                    *break_badge("edge", "sign"),
                ],
            }
        )
    low = first - (1.5 if begins else 0.5)
    high = last + (0.5 if ends else -0.5)
    every = 1 if last - first < 60 else 5
    return vega_figure(
        layers,
        data,
        description=strip_description(rows, runs, f"Datum {datums[0]}"),
        width=round(step * (high - low)),
        height=STRIP_HEIGHT,
        pad=(24 if left else 4, 8, 26, 92 if lane_labels else 4),
        focus=(left[0][0] - 0.5 - low) * step if left else None,
        title=strip_finding(table) if title is None else title,
        encoding={
            "x": {
                "type": "quantitative",
                "scale": {"domain": [low, high], "nice": False, "zero": False},
                "axis": {
                    "title": None,
                    # entries only: the last token is the target of the one before it
                    "values": [p for p in range(first, last + (not ends)) if p % every == 0],
                    "grid": False,
                    "domain": False,
                    "format": "d",
                },
            },
            "y": {
                "type": "quantitative",
                "scale": {"domain": [0, STRIP_HEIGHT], "range": [0, STRIP_HEIGHT]},
                "axis": None,
            },
        },
    )


def strip_figure(
    table: pd.DataFrame, breaks: Sequence[tuple[int, int, str]] = (), title: str | None = None
) -> mo.Html:
    """A strip in the page: the finding as text, lane names that stay while the strip scrolls."""
    chart = strip_chart(table, title="", breaks=breaks, lane_labels=False)
    top = chart.spec["padding"]["top"]
    return figure_box(
        chart,
        strip_finding(table) if title is None else title,
        lanes=[(y + top, name) for y, name in STRIP_LANES],
    )


def break_chart(table: pd.DataFrame, title: str = "", lane_labels: bool = True) -> Figure:
    """A break drawn: the held sequence above, the new observation below, aligned.

    What is missing on one side is an empty dashed slot. The break is a red line with a cross
    and the words; the two elements that differ are framed.

    Args:
        table: From `break_table`.
        title: The finding; left out when empty.
        lane_labels: Draw the names of the lanes left of them.
    """
    rows = table.assign(column=range(len(table)))
    longest = int(max(rows["held_id"].str.len().max(), rows["new_id"].str.len().max()))
    texts = rows["held_text"].ne("").any() or rows["new_text"].ne("").any()
    step = max(52, 64 if texts else 0, 8 * longest + 12)
    cells = []
    for row in rows.to_dict("records"):
        cut = row["count"] > 1
        for side, top in (("held", 34), ("new", 84)):
            there = bool(row[f"{side}_id"]) or (cut and row[f"{side}_index"] != "")
            lacks = "" if row["kind"] in ("after", "unaligned") or cut else "not there"
            letter = row["part"] if side == "held" else "O"
            first = row[f"{side}_id"] if there and not cut else lacks
            # without its bars a marker says which one it is before it is cut
            second = re.sub(
                r"^<[|\uff5c](.+)[|\uff5c]>$", r"<\1>", visible_text(row[f"{side}_text"], 24)
            )
            if cut and there:
                first, second = f"{row['count']} more", ""
            cells.append(
                {
                    "column": row["column"],
                    "top": top,
                    "kind": ("0" if cut else letter) if there else "",
                    "first": first,
                    "second": (f"{letter} {second}".strip() if not cut else "") if there else "",
                    "index": "" if cut or not there else row[f"{side}_index"],
                    "told": row["kind"],
                    "framed": "yes"
                    if there and ("expected" if side == "held" else "got") in row["mark"]
                    else "",
                }
            )
    boxes = pd.DataFrame(cells)
    boxes = boxes[(boxes["kind"] != "") | (boxes["first"] != "")]
    red, grey = PALETTE["break"]["fill"], PALETTE["axis"]["fill"]
    place = int(rows.index[rows["mark"] != ""].min()) if rows["mark"].ne("").any() else len(rows)
    edge = {"x": quantity("left"), "x2": {"field": "right"}}
    box = {**edge, "y": quantity("top"), "y2": {"field": "bottom"}}
    layers: list[dict[str, Any]] = [
        {
            "data": csv_source("cells", ["column", "top"]),
            "transform": calculate(
                left="datum.column - 0.46",
                right="datum.column + 0.46",
                bottom="datum.top + 38",
                line="datum.top + (datum.second ? 13 : 20)",
                under="datum.top > 40 ? 132 : 24",
                words="datum.second ? [datum.first, datum.second] : datum.first",
            ),
            "encoding": {
                "x": quantity("column"),
                "y": quantity("line"),
                "tooltip": [
                    nominal("first", title="token id"),
                    nominal("second", title="part and text"),
                    nominal("index", title="position"),
                    nominal("told", title="this column"),
                ],
            },
            "layer": [
                {
                    "transform": [{"filter": "datum.kind"}],
                    "mark": {"type": "rect", "cornerRadius": 3, "strokeWidth": 3},
                    "encoding": {
                        **box,
                        "fill": kind_color("fill"),
                        "stroke": {
                            "condition": {"test": "datum.framed", "value": red},
                            "value": "transparent",
                        },
                    },
                },
                {
                    "transform": [{"filter": "!datum.kind"}],
                    "mark": {
                        "type": "rect",
                        "cornerRadius": 3,
                        "fill": "transparent",
                        "stroke": grey,
                        "strokeDash": [3, 3],
                    },
                    "encoding": box,
                },
                {
                    "transform": [{"filter": "datum.kind"}],
                    "mark": {"type": "text", "fontSize": 12, "lineHeight": 14, "limit": step - 6},
                    "encoding": {"text": nominal("words"), "color": kind_color("ink")},
                },
                {
                    "transform": [{"filter": "!datum.kind"}],
                    "mark": themed_text(fontSize=10, limit=step - 6),
                    "encoding": {"text": nominal("first")},
                },
                {
                    "mark": themed_text(fontSize=10),
                    "encoding": {"y": quantity("under"), "text": nominal("index")},
                },
                {
                    "transform": [{"filter": "datum.told == 'replaced' && datum.top < 40"}],
                    "mark": themed_text(fontSize=10, text="≠"),
                    "encoding": {"y": {"value": 78}},
                },
            ],
        },
    ]
    runs = held_stretches(rows)
    if lane_labels:
        lanes = pd.DataFrame(BREAK_LANES, columns=["y", "lane"])
        layers.append(
            {
                "data": csv_source("lanes", ["y"]),
                "mark": themed_text(align="right", fontSize=11, lineBreak="|", lineHeight=12),
                "encoding": {"x": {"value": -8}, "y": quantity("y"), "text": nominal("lane")},
            }
        )
    else:
        lanes = pd.DataFrame(columns=["y", "lane"])
    layers += [
        {
            "data": csv_source("runs", ["start", "end"]),
            "transform": calculate(left="datum.start - 0.46", right="datum.end + 0.46"),
            "layer": [
                {
                    "mark": {"type": "rule", "color": grey, "strokeWidth": 2},
                    "encoding": {**edge, "y": {"value": 14}},
                },
                {
                    "mark": themed_text(align="left", fontSize=11),
                    "encoding": {
                        "x": quantity("left"),
                        "y": {"value": 6},
                        "text": nominal("label"),
                    },
                },
            ],
        },
    ]
    late = place > len(rows) / 2
    words = break_words_short(table).removeprefix("✕ ")
    sign = pd.DataFrame({"at": [place - 0.5], "label": [words]})
    layers.append(
        {
            "data": csv_source("sign", ["at"]),
            "transform": calculate(top="-18", foot="126", line="-11"),
            "layer": [
                {
                    "mark": {"type": "rule", "color": red, "strokeWidth": 3},
                    "encoding": {
                        "x": quantity("at"),
                        "y": quantity("top"),
                        "y2": {"field": "foot"},
                    },
                },
                {
                    "mark": themed_text(
                        align="right" if late else "left", dx=-12 if late else 12, fontSize=12
                    ),
                    "encoding": {
                        "x": quantity("at"),
                        "y": quantity("line"),
                        "text": nominal("label"),
                    },
                },
                *break_badge("at", "line"),
            ],
        }
    )
    return vega_figure(
        layers,
        {"cells": boxes, "runs": runs, "sign": sign, **({"lanes": lanes} if lane_labels else {})},
        description=break_description(table),
        width=step * len(rows),
        height=BREAK_HEIGHT,
        pad=(22, 8, 4, 100 if lane_labels else 8),
        focus=place * step,
        title=title,
        encoding={
            "x": {
                "type": "quantitative",
                "scale": {"domain": [-0.5, len(rows) - 0.5], "nice": False, "zero": False},
                "axis": None,
            },
            "y": {
                "type": "quantitative",
                "scale": {"domain": [0, BREAK_HEIGHT], "range": [0, BREAK_HEIGHT]},
                "axis": None,
            },
        },
    )


def held_stretches(rows: pd.DataFrame) -> pd.DataFrame:
    """Stretches of one turn and part among the held cells of `break_table`: start, end, label."""
    stretches: list[dict[str, Any]] = []
    for row in rows[rows["held_index"] != ""].to_dict("records"):
        key = (row["turn"], row["part"])
        if stretches and stretches[-1]["key"] == key and stretches[-1]["end"] == row["column"] - 1:
            stretches[-1]["end"] = row["column"]
        else:
            label = f"turn {row['turn']} {row['part']}"
            stretches.append(
                {"start": row["column"], "end": row["column"], "label": label, "key": key}
            )
    return pd.DataFrame(stretches, columns=["start", "end", "label", "key"]).drop(columns="key")


def break_words_short(table: pd.DataFrame) -> str:
    """The label at the break: position, expected and got."""
    expected, got = (
        table[table["mark"].str.contains(mark)].to_dict("records") for mark in ("expected", "got")
    )
    came = f"got {got[0]['new_id']}" if got else "the observation ends"
    if not expected:
        return f"✕ break: {came}"
    row = expected[0]
    return f"✕ position {row['held_index']}: expected {row['held_id']}, {came}"


def break_description(table: pd.DataFrame) -> str:
    """What the break figure shows, in words."""
    sums = table.groupby("kind")["count"].sum().to_dict()
    parts = [
        f"{count_of(int(sums[kind]), 'token')} {words}"
        for kind, words in (
            ("removed", "of the held sequence missing in the new observation"),
            ("inserted", "of the new observation not in the held sequence"),
            ("replaced", "of the held sequence with another in its place"),
            ("unaligned", "not aligned"),
        )
        if kind in sums
    ]
    return (
        f"The held sequence above the new observation, aligned. {break_words_short(table)}. "
        f"{'; '.join(parts) or 'Nothing differs'}."
    )


def break_facts(table: pd.DataFrame) -> pd.DataFrame:
    """`break_table` as a readable table."""
    words = {
        "same": "in both",
        "removed": "gone",
        "inserted": "came in",
        "replaced": "another in its place",
        "after": "new, follows",
        "unaligned": "not aligned",
    }
    rows = []
    for row in table.to_dict("records"):
        cut = row["count"] > 1
        more = f"{row['count']} more" if cut else ""
        told = words[row["kind"]]
        rows.append(
            {
                "what": f"{told}; ✕ {row['mark']} at the break" if row["mark"] else told,
                "from": f"turn {row['turn']} {part_name(row['part'])}" if row["turn"] else "",
                "held position": row["held_index"],
                "held": more if cut and row["held_index"] else row["held_id"],
                "held text": visible_text(row["held_text"]),
                "new position": row["new_index"],
                "new": more if cut and row["new_index"] else row["new_id"],
                "new text": visible_text(row["new_text"]),
            }
        )
    return pd.DataFrame(rows)


def break_figure(table: pd.DataFrame, title: str) -> mo.Html:
    """A break in the page: the finding as text, lane names that stay, and the facts as a table."""
    chart = break_chart(table, lane_labels=False)
    top = chart.spec["padding"]["top"]
    drawn = figure_box(chart, title, lanes=[(y + top, name) for y, name in BREAK_LANES])
    return mo.Html(drawn.text + details_table(break_facts(table), merged=2).text)


def verdict_list(listed: Sequence[Verdict], most: int = 40) -> mo.Html:
    """Verdicts as a list that reads at any width: sign, label and sentences per turn.

    Turns in a row that simply extend share one line. All texts are escaped.

    Args:
        listed: From `verdicts`.
        most: Lines at most; what is left out is counted.
    """
    items: list[str] = []
    groups = itertools.groupby(
        listed, key=lambda item: "extends" if item.kind == "extends" else f"turn {item.turn}"
    )
    lines = [list(group) for _, group in groups]
    signs = {"starts": "●", "extends": "✓", "splits": "✕", "look": "!"}
    for line in lines[:most]:
        first, last = line[0], line[-1]
        turns = f"Turn {first.turn}" if first is last else f"Turns {first.turn} to {last.turn}"
        label = first.label if first is last or first.kind != "extends" else "extend"
        sentences = list(first.sentences)
        if first is not last:
            sentences = [f"Each observation starts with all that was held; datum {first.datum}."]
        words = "".join(f"<li>{html.escape(sentence)}" for sentence in sentences)
        short = first.headline.partition(": ")[2]
        finding = f" <span>{html.escape(short)}</span>" if short else ""
        items.append(
            f'<li class="seq-verdict seq-verdict-{first.kind}"><p><b>{turns}</b> '
            f'<span class="seq-verdict-sign"><span aria-hidden="true">{signs[first.kind]}</span> '
            f"{html.escape(label)}</span>{finding}</p><ul>{words}</ul>"
        )
    rest = sum(len(line) for line in lines[most:])
    more = f'<p class="seq-note">{rest} more turns are left out here.</p>' if rest else ""
    return mo.Html(
        f'<ol class="seq-verdicts" aria-label="Verdict per turn">{"".join(items)}</ol>{more}'
    )


def table_box(frame: pd.DataFrame, caption: str, **table: Any) -> mo.Html:
    """A small table in the page that scrolls on narrow screens; `table` goes to `table_html`."""
    return mo.Html(
        f'<div class="seq-scroll" tabindex="0" role="group" aria-label="{html.escape(caption)}">'
        f"{table_html(frame, caption, **table)}</div>"
    )


def cost_chart(growth: pd.DataFrame, laws: pd.DataFrame, title: str = "") -> Figure:
    """Tokens processed against turns: a curve per pattern, named where it ends.

    Args:
        growth: From `growth_table`: a point per real call.
        laws: From `growth_law`: what each curve shows.
        title: The finding; left out when empty.
    """
    names = laws["pattern"].tolist()
    curves = growth[growth["pattern"].isin(names)]
    top = max(1, int(curves["tokens"].max()))
    height, room = 220, 46
    # Curves that end close together push their names apart; equal curves share one name.
    named: dict[tuple[int, ...], dict[Hashable, Any]] = {}
    for row in laws.sort_values("tokens", ascending=False, kind="stable").to_dict("records"):
        points = tuple(curves[curves["pattern"] == row["pattern"]]["tokens"])
        first = named.setdefault(points, row)
        if first is not row:
            first["pattern"] = f"{first['pattern']}|= {row['pattern']}"
    labels, lowest = [], -room
    for row in named.values():
        lowest = max(round(height * (1 - row["tokens"] / top)), lowest + room)
        labels.append([row["turns"], lowest, growth_words(row)])
        lowest += 13 * row["pattern"].count("|")
    floor = height + 13  # from below again: each has room for its lines, the last below the axis
    for label in reversed(labels):
        floor -= 13 * (str(label[2]).count("|") + 1) + 3
        label[1] = floor = min(int(label[1]), floor)
    signs = pd.DataFrame(labels, columns=["turns", "y", "words"])
    colors = [COST_COLORS[name] for name in names]
    hue = nominal("pattern", scale={"domain": names, "range": colors}, legend=None)
    dash = nominal(
        "pattern", scale={"domain": names, "range": [COST_DASHES[n] for n in names]}, legend=None
    )
    shape = nominal(
        "pattern", scale={"domain": names, "range": [COST_SHAPES[n] for n in names]}, legend=None
    )
    axis = {"grid": False, "tickCount": 5}
    x = {
        "field": "turns",
        "type": "quantitative",
        "scale": {"domain": [0, int(curves["turns"].max())], "nice": False},
        "axis": {
            **axis,
            "title": "turns",
            "values": [count for count in sorted(set(curves["turns"])) if count != 4],
            "labelOverlap": False,
            "labelFlush": False,
        },
    }
    y = {
        "field": "tokens",
        "type": "quantitative",
        "scale": {"domain": [0, top], "nice": False},
        "axis": {**axis, "title": "tokens through the model", "format": ",d"},
    }
    source = csv_source("curves", ["turns", "tokens", "datums"])
    tooltip = [
        nominal("pattern"),
        quantity("turns"),
        quantity("datums"),
        quantity("tokens", format=",d"),
    ]
    layers: list[dict[str, Any]] = [
        {
            "data": source,
            "mark": {"type": "line", "strokeWidth": 2.5},
            "encoding": {"x": x, "y": y, "stroke": hue, "strokeDash": dash},
        },
        {
            "data": source,
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": {"x": x, "y": y, "fill": hue, "shape": shape, "tooltip": tooltip},
        },
        {
            "data": csv_source("signs", ["turns", "y"]),
            "mark": themed_text(
                align="left",
                baseline="top",
                dx=10,
                fontSize=11,
                lineBreak="|",
                lineHeight=13,
                dy=-7,
            ),
            "encoding": {
                "x": x,
                "y": {"field": "y", "type": "quantitative", "scale": None},
                "text": nominal("words"),
            },
        },
    ]
    return vega_figure(
        layers,
        {"curves": curves, "signs": signs},
        description=cost_description(laws),
        width=420,
        height=height,
        pad=(14, 110, 44, 60),
        title=title,
        fluid=True,
    )


def growth_words(row: Mapping[Any, Any]) -> str:
    """The name of a curve and what it shows, for its end."""
    return f"{row['pattern']}|{row['law']}:|{row['doubling']:.1f} times"


def cost_description(laws: pd.DataFrame) -> str:
    """What the cost figure shows, in words."""
    parts = [
        f"{row['pattern']}: {row['tokens']:,} tokens at {row['turns']} turns, {row['law']}, "
        f"the last doubling of the turns costs {row['doubling']:.2f} times as much"
        for row in laws.to_dict("records")
    ]
    return f"Tokens through the model against the number of turns. {'; '.join(parts)}."


def cost_facts(growth: pd.DataFrame) -> pd.DataFrame:
    """`growth_table` with a row per number of turns and a column per pattern."""
    wide = growth.pivot(index="turns", columns="pattern", values="tokens")
    return wide[list(dict.fromkeys(growth["pattern"]))].reset_index().rename_axis(columns=None)


def strip_facts(table: pd.DataFrame) -> pd.DataFrame:
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


def stretch_facts(facts: pd.DataFrame) -> pd.DataFrame:
    """`strip_facts` with a row per stretch of one turn, part, mask and advantage.

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


def runs_finding(runs: Sequence[Run]) -> str:
    """One sentence for a rollout drawn as runs."""
    total = sum(run.length for run in runs)
    actions = sum(run.length for run in runs if run.part == "A")
    turns, datums = len({run.turn for run in runs}), len({run.datum for run in runs})
    return (
        f"{count_of(turns, 'turn')} {'makes' if turns == 1 else 'make'} "
        f"{count_of(datums, 'datum')} of {count_of(total, 'token')}, {actions:,} of them actions"
    )


def runs_chart(
    runs: Sequence[Run],
    breaks: Sequence[tuple[int, int, str]] = (),
    title: str = "",
    shown: tuple[int, int, int] | None = None,
) -> Figure:
    """A rollout as runs: one row per datum, one bar per turn and part.

    Its size grows with turns, not with tokens.

    Args:
        runs: From `datum_runs`.
        breaks: From `break_marks`: where a later turn left a datum.
        title: The finding; left out when empty.
        shown: (datum, start, size) of the window of single tokens that is drawn elsewhere.
    """
    datums = max((run.datum for run in runs), default=0) + 1
    length = max((run.start + run.length for run in runs), default=1)
    width = 860
    row = max(6, min(30, 900 // datums))

    def label(run: Run) -> str:
        """A letter where it fits, with the turn where that fits too; clear of a break's sign."""
        inside = [
            at - run.start
            for datum, at, _ in breaks
            if datum == run.datum and 0 <= at - run.start < run.length
        ]
        room = min([at for at in inside if at] or [run.length]) * width / length
        room -= 9 * any(inside) + 12 * (0 in inside)
        words = f"{run.part} turn {run.turn}" if room > 52 else run.part if room > 10 else ""
        return " " * (0 in inside) + words if row >= 14 and words else ""

    bars = pd.DataFrame(
        {
            "datum": [run.datum for run in runs],
            "start": [run.start for run in runs],
            "end": [run.start + run.length for run in runs],
            "turn": [run.turn for run in runs],
            "kind": ["M" if run.masked else run.part for run in runs],
            "label": [label(run) for run in runs],
        }
    )
    places = {"top": f"datum.datum * {row} + 1", "bottom": f"(datum.datum + 1) * {row} - 1"}
    middle = f"(datum.datum + 0.5) * {row}"
    names = pd.DataFrame({"datum": range(0, datums, max(1, math.ceil(12 / row)))})
    data = {"runs": bars, "names": names}
    band = {"y": quantity("top"), "y2": {"field": "bottom"}}
    layers: list[dict[str, Any]] = [
        {
            "data": csv_source("runs", ["datum", "start", "end"]),
            "transform": calculate(
                **places,
                middle=middle,
            ),
            "layer": [
                {
                    "mark": {"type": "rect", "stroke": PALETTE["axis"]["fill"], "strokeWidth": 0.5},
                    "encoding": {
                        "x": quantity("start"),
                        "x2": {"field": "end"},
                        **band,
                        "fill": kind_color("fill"),
                        **tips(
                            {
                                "datum": "datum.datum",
                                "turn": "datum.turn",
                                "part": PART_WORDS,
                                "from position": "datum.start",
                                "tokens": "datum.end - datum.start",
                            }
                        ),
                    },
                },
                {
                    # an empty field is null, and null would be written out
                    "transform": [
                        {"filter": "datum.label"},
                        # a space in front leaves room for the sign of a break
                        *calculate(
                            **{
                                "from": "datum.start + (datum.label[0] == ' ' ?"
                                f" {9 * length / width} : 0)"
                            }
                        ),
                    ],
                    "mark": {"type": "text", "align": "left", "dx": 3, "fontSize": 11},
                    "encoding": {
                        "x": quantity("from"),
                        "y": quantity("middle"),
                        "text": nominal("label"),
                        "color": kind_color("ink"),
                    },
                },
            ],
        },
        {
            "data": csv_source("names", ["datum"]),
            "transform": calculate(middle=middle, label="'datum ' + datum.datum"),
            "mark": themed_text(align="right", fontSize=11),
            "encoding": {
                "x": {"value": -14},  # clear of a break at position 0
                "y": quantity("middle"),
                "text": nominal("label"),
            },
        },
    ]
    if breaks:
        data["breaks"] = pd.DataFrame(list(breaks), columns=["datum", "at", "label"])
        layers.append(
            {
                "data": csv_source("breaks", ["datum", "at"]),
                "transform": calculate(**places, middle=middle),
                "layer": [
                    {
                        "mark": {
                            "type": "rule",
                            "color": PALETTE["break"]["fill"],
                            "strokeWidth": 3,
                        },
                        "encoding": {"x": quantity("at"), **band},
                    },
                    *break_badge(
                        "at",
                        "middle",
                        [nominal("label", title="break"), nominal("at", title="position")],
                        side=min(13, row),
                    ),
                ],
            }
        )
    if shown is not None:
        data["shown"] = pd.DataFrame([shown], columns=["datum", "start", "size"])
        layers.append(
            {
                "data": csv_source("shown", ["datum", "start", "size"]),
                "transform": calculate(
                    top=f"datum.datum * {row} - 1",
                    bottom=f"(datum.datum + 1) * {row} + 1",
                    end="datum.start + datum.size",
                ),
                "mark": {
                    "type": "rect",
                    "fill": "transparent",
                    "stroke": PALETTE["axis"]["fill"],
                    "strokeWidth": 3,
                },
                "encoding": {"x": quantity("start"), "x2": {"field": "end"}, **band},
            }
        )
    actions = sum(run.length for run in runs if run.part == "A")
    total = sum(run.length for run in runs)
    turns = len({run.turn for run in runs})
    return vega_figure(
        layers,
        data,
        description=(
            f"{count_of(turns, 'turn')} as {count_of(datums, 'datum')}, one row each: "
            f"{total} tokens, {actions} of them actions; the longest datum holds {length} tokens; "
            f"{count_of(len(breaks), 'break')} marked."
        ),
        width=width,
        height=row * datums,
        pad=(4, 24, 40, 72),
        title=title,
        encoding={
            "x": {
                "type": "quantitative",
                "scale": {"domain": [0, length], "nice": False},
                "axis": {
                    "title": "position",
                    "grid": False,
                    "domain": False,
                    "tickCount": 8,
                    "tickMinStep": 1,
                },
            },
            "y": {
                "type": "quantitative",
                "scale": {"domain": [0, row * datums], "range": [0, row * datums]},
                "axis": None,
            },
        },
    )


def field_grid(fields: Sequence[tuple[Any, str | None]]) -> mo.Html:
    """Input fields side by side where there is room, each with its sentence beneath.

    Args:
        fields: Pairs of a marimo element and the sentence about its value, or None.
    """
    cells = "".join(
        f"<div>{element}{issues_html([FieldIssue(0, '', issue)] if issue else [])}</div>"
        for element, issue in fields
    )
    return lean(
        mo.Html(
            '<div style="display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));'
            f'gap:0.75rem 1.25rem;align-items:start">{cells}</div>'
        )
    )


def signed(value: float) -> str:
    """A number with its sign, short enough for a cell: +0.67, 0; rounding noise is ≈0."""
    if value == 0:
        return "0"
    if abs(value) < 5e-7:
        return "≈0"
    if abs(value) < 0.005:
        digits = f"{value:+.0e}"
    elif abs(value) >= 10_000:
        digits = f"{value:+.1e}"
    elif abs(value) >= 100:
        digits = f"{value:+.0f}"
    else:
        digits = f"{value:+.2f}".rstrip("0").rstrip(".")
    return digits.replace("-", "\u2212")


def advantage_colours(value: float, extent: float) -> tuple[str, str]:
    """Fill and ink of one advantage on the scale negative, zero, positive.

    Args:
        value: The advantage.
        extent: The largest absolute advantage in the figure, at the ends of the scale.

    Returns:
        Two hex colours; the ink is the one of black and white that reads better.
    """
    zero = PALETTE["zero"]["fill"]
    end = PALETTE["positive" if value > 0 else "negative"]["fill"]
    share = 0.0 if extent <= 0 else min(1.0, abs(value) / extent)
    # Small advantages start away from zero, so that their sign shows.
    share = 0.0 if abs(value) < 5e-7 else 0.25 + 0.75 * share
    parts = [
        round(int(zero[i : i + 2], 16) * (1 - share) + int(end[i : i + 2], 16) * share)
        for i in (1, 3, 5)
    ]
    linear = [
        part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4
        for part in parts
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    ink = "#000000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "#FFFFFF"
    return "#" + "".join(f"{part:02X}" for part in parts), ink


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) between two bounds, at most `most`."""
    size = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(size * k for k in (1, 2, 5, 10, 20) if (high - low) / (size * k) <= most - 1)
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def group_lanes(table: pd.DataFrame) -> list[str]:
    """Names of the lanes of `group_table`: the rollout, and the datum where it has several."""
    lanes = table.drop_duplicates("lane")
    several = Counter(lanes["letter"])
    return [
        f"{letter}, datum {datum}" if several[letter] > 1 else str(letter)
        for letter, datum in zip(lanes["letter"], lanes["datum"], strict=True)
    ]


def group_finding(table: pd.DataFrame) -> str:
    """What the group figure shows, as its title."""
    advantages = table.drop_duplicates("letter")["member_advantage"]
    above, below = int((advantages > 5e-7).sum()), int((advantages < -5e-7).sum())
    if not above and not below:
        return "Every reward equals the group mean: every advantage is 0, no policy gradient"
    return (
        f"{above} above the group mean, {below} below: the distance stands on every trained token"
    )


def group_chart(table: pd.DataFrame) -> Figure:
    """Rewards around the group mean, and every target token with its advantage.

    Left, one bar per member from the group mean to its total reward: its length is the
    advantage. Right, one lane per datum: each cell is a target token. A frame means mask 1.

    Args:
        table: From `group_table`.
    """
    names = group_lanes(table)
    row, cell, panel, start, grey = 30, 36, 220, 236, PALETTE["axis"]["fill"]
    height = row * len(names)
    members = table.drop_duplicates("letter")
    mean = float(members["reward"].mean())
    extent = float(members["member_advantage"].abs().max())
    spread = extent if extent > 1e-9 else 1.0  # equal rewards: a plain axis around them
    low = min(float(members["reward"].min()), mean - spread) - 0.6 * spread
    high = max(float(members["reward"].max()), mean + spread) + 0.6 * spread

    def pixel(reward: float) -> float:
        return round(panel * (reward - low) / (high - low), 2)

    bars = pd.DataFrame(
        {
            "y": (members["lane"] + 0.5) * row,
            "mean": pixel(mean),
            "reward": [pixel(reward) for reward in members["reward"]],
            "fill": [advantage_colours(value, extent)[0] for value in members["member_advantage"]],
            "label": [signed(value) for value in members["member_advantage"]],
        }
    )
    bars["up"] = (bars["reward"] >= bars["mean"]).astype(int)

    cells = table.dropna(subset=["position"]).astype(
        {"position": int, "target": int, "turn": int, "mask": int}
    )
    last = max([9, *cells["position"].tolist()])
    width = start + cell * last
    masked = (cells["mask"] == 0) & (cells["part"] == "A")
    pale = (PALETTE["masked"]["fill"], PALETTE["masked"]["ink"])
    colours = [
        pale if hidden else advantage_colours(value, extent)
        for value, hidden in zip(cells["advantage"], masked, strict=True)
    ]
    cells = cells.assign(
        fill=[fill for fill, _ in colours],
        ink=[ink for _, ink in colours],
        label=[
            signed(value) if mask else f"{part} 0"
            for value, mask, part in zip(
                cells["advantage"], cells["mask"], cells["part"], strict=True
            )
        ],
    )[["lane", "position", "target", "turn", "part", "mask", "advantage", "fill", "ink", "label"]]
    empty = table[table["position"].isna()]
    ticks = round_ticks(low, high)
    words = pd.DataFrame(
        [
            *[
                (start + 4, (lane + 0.5) * row, "no datum to train; its reward is in the mean")
                for lane in empty["lane"].tolist()
            ],
            (max(0.0, pixel(mean) - 40), -10, f"group mean {number_text(mean, 3)}"),
            (0, height + 32, "total reward"),
            (start, height + 32, "position, as in section 3: each cell is a target"),
            *[(pixel(tick) - 4, height + 14, number_text(tick)) for tick in ticks],
            *[(start + cell * (at + 0.5) - 4, height + 14, str(at)) for at in range(last)],
        ],
        columns=["x", "y", "words"],
    )

    def plain(size: int) -> dict[str, Any]:
        scale = {"domain": [0, size], "range": [0, size], "nice": False}
        return {"type": "quantitative", "scale": scale, "axis": None}

    fill = nominal("fill", scale=None)
    tooltip = [
        nominal("target", title="target token"),
        nominal("turn", title="turn"),
        nominal("part", title="part"),
        nominal("mask", title="mask"),
        nominal("advantage", title="advantage"),
    ]
    middle: dict[str, Any] = {"y": quantity("y")}

    def beside(up: int, align: str, dx: int) -> dict[str, Any]:
        return {
            "transform": [{"filter": f"datum.up == {up}"}],
            "mark": themed_text(align=align, dx=dx, fontSize=12),
            "encoding": {"x": quantity("reward"), **middle, "text": nominal("label")},
        }

    layers: list[dict[str, Any]] = [
        {
            "data": {"values": [{"x": pixel(mean), "a": 0, "b": height}]},
            "mark": {"type": "rule", "color": grey, "strokeDash": [4, 3]},
            "encoding": {
                "x": quantity("x"),
                "y": quantity("a"),
                "y2": {"field": "b"},
            },
        },
        {
            "data": csv_source("bars", ["y", "mean", "reward", "up"]),
            "layer": [
                {
                    "mark": {"type": "rule", "strokeWidth": 12},
                    "encoding": {
                        "x": quantity("mean"),
                        "x2": {"field": "reward"},
                        **middle,
                        "stroke": nominal("fill", scale=None),
                    },
                },
                {
                    "mark": {"type": "point", "size": 70, "stroke": grey, "opacity": 1},
                    "encoding": {"x": quantity("reward"), **middle, "fill": fill},
                },
                beside(1, "left", 9),
                beside(0, "right", -9),
            ],
        },
        {
            "data": csv_source("cells", ["lane", "position", "mask"]),
            "transform": calculate(
                y=f"(datum.lane + 0.5) * {row}",
                x=f"{start} + (datum.position - 0.5) * {cell}",
                left=f"datum.x - {cell / 2 - 1.5}",
                right=f"datum.x + {cell / 2 - 1.5}",
                top=f"datum.y - {row / 2 - 2}",
                bottom=f"datum.y + {row / 2 - 2}",
            ),
            "encoding": {"tooltip": tooltip},
            "layer": [
                {
                    "mark": {"type": "rect", "cornerRadius": 3, "strokeWidth": 1.5},
                    "encoding": {
                        "x": quantity("left"),
                        "x2": {"field": "right"},
                        "y": quantity("top"),
                        "y2": {"field": "bottom"},
                        "fill": fill,
                        "stroke": {
                            "condition": {"test": "datum.mask == 1", "value": grey},
                            "value": "transparent",
                        },
                    },
                },
                {
                    "mark": {"type": "text", "fontSize": 11},
                    "encoding": {
                        "x": quantity("x"),
                        **middle,
                        "text": nominal("label"),
                        "color": nominal("ink", scale=None),
                    },
                },
            ],
        },
        {
            "data": csv_source("words", ["x", "y"]),
            "mark": themed_text(align="left", fontSize=12, clip=False),
            "encoding": {"x": quantity("x"), **middle, "text": nominal("words")},
        },
    ]
    told = " ".join(
        f"{letter}: reward {number_text(reward)}, advantage {signed(advantage)}."
        for letter, reward, advantage in zip(
            members["letter"], members["reward"], members["member_advantage"], strict=True
        )
    )
    return vega_figure(
        layers,
        {"bars": bars, "cells": cells, "words": words},
        description=f"Group of {len(members)} rollouts, mean reward {number_text(mean, 3)}. {told}",
        width=width,
        height=height,
        pad=(20, 8, 42, 4),
        focus=start + 3.5 * cell,  # the tokens, not the rewards once more
        encoding={"x": plain(width), "y": plain(height)},
    )


def group_view(table: pd.DataFrame, summary: pd.DataFrame) -> mo.Html:
    """The group figure in a box that scrolls, and the same facts as a table.

    Args:
        table: From `group_table`.
        summary: From `group_summary`.
    """
    chart = group_chart(table)
    top = chart.spec["padding"]["top"]
    lanes = [(top + 30 * lane + 15, name) for lane, name in enumerate(group_lanes(table))]
    figure = figure_box(chart, group_finding(table), lanes=lanes, lane_width="5.6rem")
    return mo.Html(figure.text + details_table(summary).text)


def matrix_chart(table: pd.DataFrame) -> Figure:
    """Renderers against policies: datums over turns, and whether the claim held.

    Colour says what the mark says: a cross where extension is claimed and the rollout splits,
    a plus where it is not claimed and the rollout stays one datum, a dot for an expected
    split. The names of the rows stand beside the drawing, in `matrix_view`.

    Args:
        table: Of `matrix_table`.
    """
    names = table["renderer"].unique().tolist()
    policies = table["policy"].unique().tolist()
    step, row = MATRIX_STEP
    width, height = step * (len(policies) + 1), row * len(names)
    kinds = list(MATRIX_LOOK)
    # A row per renderer, unfolded in the figure. A cell says what is its own; what it shares
    # with others, a break and its texts, is looked up.
    told = table.assign(
        count=[
            "?" if pd.isna(datums) else f"{datums:.0f}/{turns:.0f}"
            for datums, turns in zip(table["datums"], table["turns"], strict=True)
        ],
        kind=[str(kinds.index(verdict)) for verdict in table["verdict"]],
        number=["" if pd.isna(number) else str(number) for number in break_numbers(table)],
        end=table["reason"]
        .where(table["reason"] != "", table["ending"].replace("completed", ""))
        .str.replace("|", "/"),
    ).groupby("renderer", sort=False)
    cells = pd.DataFrame(
        {
            "renderer": names,
            "row": range(len(names)),
            "claims": told["claims"].first().to_numpy(),
            "counts": told["count"].agg(" ".join).to_numpy(),
            "kinds": told["kind"].agg("".join).to_numpy(),
            "numbers": told["number"].agg(" ".join).to_numpy(),
            "ends": told["end"].agg("|".join).to_numpy(),
        }
    )
    breaks = matrix_breaks(table, 30)
    texts: dict[str, int] = {}
    for name in ("before", "held", "came"):
        breaks[name] = [texts.setdefault(text, len(texts)) for text in breaks[name]]
    # named above the first row, and again below the last: the figure is taller than a screen
    heads = pd.DataFrame(
        [
            {"column": column, "words": name.replace("_", "|"), "y": y, "below": below}
            for column, name in enumerate(["claims", *policies])
            for y, below in ((-16, 0), (height + 16, 1))
        ]
    )
    marks = json.dumps({kind: look["mark"] for kind, look in MATRIX_LOOK.items()})
    words = json.dumps({kind: look["words"] for kind, look in MATRIX_LOOK.items()})

    def colour(part: str) -> dict[str, Any]:
        scale = {"domain": kinds, "range": [MATRIX_LOOK[kind][part] for kind in kinds]}
        return nominal("verdict", scale=scale, legend=None)

    def across(size: int) -> dict[str, Any]:
        scale = {"domain": [0, size], "range": [0, size], "nice": False}
        return {"type": "quantitative", "scale": scale, "axis": None}

    centre = {"x": quantity("middle"), "y": quantity("centre")}
    places = {"middle": f"(datum.column + 0.5) * {step}", "centre": f"(datum.row + 0.5) * {row}"}
    tooltip = tips(
        {
            "renderer": "datum.renderer",
            "pupil": f"{json.dumps(policies)}[datum.column - 1]".replace('"', "'"),
            "datums/turns": "datum.shown",
            "claims extension": "datum.claims",
            "so it": f"{words}[datum.verdict]",
            "first break": "datum.cause"
            " ? 'turn ' + datum.turn + ', position ' + datum.position : 'none'",
            "cause": "datum.cause || 'none'",
            "held": "datum.cause ? datum.before + ' | ' + datum.held : 'none'",
            "came": "datum.cause ? datum.before + ' | ' + datum.came : 'none'",
            "ending": "datum.ends || 'completed'",
        }
    )
    boxes = {
        "mark": {"type": "rect", "cornerRadius": 3},
        "encoding": {
            "x": quantity("left"),
            "x2": {"field": "right"},
            "y": quantity("top"),
            "y2": {"field": "bottom"},
            "fill": colour("fill"),
        },
    }
    mono = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
    inside = {
        "transform": [{"filter": "datum.verdict != 'none'"}],
        "mark": {"type": "text", "font": mono, "fontSize": 11},
        "encoding": {**centre, "text": nominal("label"), "color": colour("ink")},
    }
    outside = {
        "transform": [{"filter": "datum.verdict == 'none'"}],
        "mark": themed_text(font=mono, fontSize=11),
        "encoding": {**centre, "text": nominal("label")},
    }
    claimed = {
        "transform": [{"filter": "datum.column == 1"}],
        "mark": themed_text(fontSize=11),
        "encoding": {**centre, "x": {"value": step / 2}, "text": nominal("claims")},
    }
    counts = table["verdict"].value_counts()
    return vega_figure(
        [
            {
                "data": csv_source("cells", ["row"]),
                "transform": [
                    *unfold(
                        column=f"sequence(1, {len(policies) + 1})",
                        shown="split(datum.counts, ' ')",
                        kind="split(datum.kinds, '')",
                        number="split(datum.numbers, ' ')",
                        ends="split(datum.ends, '|')",
                    ),
                    *calculate(
                        number="toNumber(datum.number)",
                        verdict=f"{json.dumps(kinds)}[toNumber(datum.kind)]",
                    ),
                    look_up(
                        "number",
                        "breaks",
                        ["break", "turn", "position", "cause", "before", "held", "came"],
                    ),
                    *(
                        look_up(name, "texts", ["number", "text"], name)
                        for name in ("before", "held", "came")
                    ),
                    *calculate(
                        **places,
                        left=f"datum.column * {step} + 1",
                        right=f"(datum.column + 1) * {step} - 1",
                        top=f"datum.row * {row} + 1",
                        bottom=f"(datum.row + 1) * {row} - 1",
                        mark=f"{marks}[datum.verdict]",
                        label="datum.shown + (datum.mark ? ' ' + datum.mark : '')",
                    ),
                ],
                "encoding": tooltip,
                "layer": [boxes, inside, outside, claimed],
            },
            {
                "data": csv_source("heads", ["column", "y", "below"]),
                "transform": calculate(middle=places["middle"]),
                "mark": themed_text(
                    fontSize=11, lineBreak="|", lineHeight=12, baseline="middle", clip=False
                ),
                "encoding": {
                    "x": centre["x"],
                    "y": quantity("y"),
                    "text": nominal("words"),
                },
            },
        ],
        {
            "cells": cells,
            "breaks": breaks,
            "texts": pd.DataFrame({"number": texts.values(), "text": texts.keys()}),
            "heads": heads,
        },
        description=(
            f"Matrix of {len(names)} renderers by {len(policies)} pupils, each cell the datums "
            "over the turns of one rollout. "
            + "; ".join(
                f"{counts.get(kind, 0)} cells: {look['words']}"
                for kind, look in MATRIX_LOOK.items()
            )
            + ". The table below the figure holds every cell."
        ),
        width=width,
        height=height,
        pad=(MATRIX_HEAD, 2, MATRIX_HEAD, 2),
        encoding={"x": across(width), "y": across(height)},
    )


def matrix_finding(table: pd.DataFrame) -> str:
    """The matrix in one sentence: how often the claim held, in both directions."""
    counts = table["verdict"].value_counts()
    claiming = int(counts.get("kept", 0) + counts.get("broken", 0))
    silent = int(counts.get("better", 0) + counts.get("split", 0))
    return (
        f"{counts.get('broken', 0)} of {claiming} rollouts split although their renderer "
        f"claims extension; {counts.get('better', 0)} of {silent} stay one datum although "
        "theirs does not"
    )


def matrix_legend() -> str:
    """What colour and mark of a cell mean, as HTML."""
    examples = {"kept": "1/3", "better": "1/3", "split": "3/3", "broken": "3/3"}
    items = "".join(
        f'<li style="display:flex;align-items:center;gap:.4em">'
        f'<span style="background:{MATRIX_LOOK[kind]["fill"]};color:{MATRIX_LOOK[kind]["ink"]};'
        "min-width:3.2em;text-align:center;border-radius:3px;padding:.05em .3em;"
        f'font-family:ui-monospace,monospace">{example} {MATRIX_LOOK[kind]["mark"]}</span>'
        f"{MATRIX_LOOK[kind]['words']}</li>"
        for kind, example in examples.items()
    )
    return (
        '<ul style="list-style:none;margin:.5em 0;padding:0;display:flex;flex-wrap:wrap;'
        f'gap:.4em 1.4em;font-size:.85em">{items}</ul>'
    )


def break_numbers(table: pd.DataFrame) -> pd.Series:
    """For each cell of the matrix the number of its first break; cells that break alike share it.

    Returns:
        Numbers from 1 on, those with the same texts side by side; missing where nothing breaks.
    """
    alike = ["before", "came", "turn", "position", "cause", "held"]
    numbers = table[table["cause"] != ""].groupby(alike).ngroup() + 1
    return numbers.reindex(table.index).astype("Int64")


def matrix_breaks(table: pd.DataFrame, width: int = 40) -> pd.DataFrame:
    """The first breaks that the cells of the matrix show, each once.

    Args:
        table: Of `matrix_table`.
        width: Characters of each text at most.

    Returns:
        Columns break (its number), turn, position, cause, before, held, came.
    """
    found = table.assign(**{"break": break_numbers(table)}).dropna(subset="break")
    found = found.drop_duplicates("break").sort_values("break")
    texts = {
        name: [visible_text(text, width) for text in found[name]]
        for name in ("before", "held", "came")
    }
    places = found[["break", "turn", "position"]].astype(int)
    return places.assign(cause=found["cause"], **texts)


def matrix_facts(table: pd.DataFrame) -> pd.DataFrame:
    """The matrix as a table, a row per renderer: counts, mark, number of the break, ending.

    Where the episode ended as completed, that is not said again.
    """
    told = [
        " ".join(
            [
                "none" if pd.isna(datums) else f"{datums:.0f}/{turns:.0f}",
                *([mark] if (mark := MATRIX_LOOK[verdict]["mark"]) else []),
                *([] if pd.isna(number) else [f"#{number}"]),
                *([] if ending == "completed" else [reason or ending]),
            ]
        )
        for datums, turns, verdict, number, ending, reason in zip(
            table["datums"],
            table["turns"],
            table["verdict"],
            break_numbers(table),
            table["ending"],
            table["reason"],
            strict=True,
        )
    ]
    wide = table.assign(told=told).pivot(
        index=["renderer", "claims"], columns="policy", values="told"
    )
    order = table.drop_duplicates("renderer")[["renderer", "claims"]]
    wide = wide.loc[list(order.itertuples(index=False, name=None)), table["policy"].unique()]
    return wide.reset_index().rename_axis(columns=None)


def matrix_view(table: pd.DataFrame) -> mo.Html:
    """The matrix in a box that scrolls sideways, its legend, and every cell as a table."""
    names = table["renderer"].unique().tolist()
    lanes = [
        (MATRIX_HEAD + int((number + 0.5) * MATRIX_STEP[1]), name)
        for number, name in enumerate(names)
    ]
    figure = figure_box(matrix_chart(table), matrix_finding(table), lanes=lanes, lane_width="12rem")
    breaks = matrix_breaks(table).rename(columns={"break": "#", "before": "both had"})
    breaks = breaks[["#", "both had", "came", "held", "turn", "position", "cause"]]
    facts = details_table(
        matrix_facts(table),
        f"The same {len(table)} cells as a table",
        row_heads=True,
        more=table_box(breaks, "The breaks that # stands for", merged=2, lead=1).text,
    )
    return mo.Html(f"{matrix_legend()}{figure.text}{facts.text}")


def element_to_native(element: Any) -> Any:
    """A flat element as the file format writes it: a token id, or one object per image.

    Bytes that are text (stand-ins, see `image_chunk`) are their own id; a real picture becomes
    a data URI, so that reading it back gives an equal chunk.

    Raises:
        TypeError: The chunk is neither text nor an image.
    """
    if isinstance(element, int):
        return element
    if isinstance(element, tinker.types.ImageAssetPointerChunk):
        tokens = element.expected_tokens
        return {"image": element.location, "tokens": tokens, "asset": element.format}
    if not isinstance(element, tinker.types.ImageChunk):
        raise TypeError(f"The file format holds tokens and images, not {type(element).__name__}.")
    try:
        image = element.data.decode()
    except UnicodeDecodeError:
        image = "data:"
    if element.format != "png" or image.startswith("data:"):
        content = base64.b64encode(element.data).decode()
        image = f"data:image/{element.format};base64,{content}"
    return {"image": image, "tokens": element.expected_tokens}


def trajectory_to_native(
    trajectory: Trajectory,
    name: str | None = None,
    group: str | None = None,
    vocab: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """A trajectory in the file format; `json.dumps` of it is one line of a JSONL file."""

    def number(value: float | None) -> Any:
        if value is None or math.isfinite(value):
            return value if value is None else float(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

    turns: list[dict[str, Any]] = []
    held: list[Any] | None = None
    for transition in trajectory.transitions:
        observation: list[Any] = []
        for chunk in transition.ob.chunks:
            if isinstance(chunk, tinker.EncodedTextChunk):
                observation += map(int, chunk.tokens)
            else:
                observation.append(element_to_native(chunk))
        action, logprobs = list(map(int, transition.ac.tokens)), transition.ac.maybe_logprobs
        extends = held is not None and observation[: len(held)] == held
        turns.append(
            {
                **({"append": observation[len(held or ()) :]} if extends else {"ob": observation}),
                "ac": action,
                "logprobs": logprobs and [number(logprob) for logprob in logprobs],
                "reward": number(transition.reward),
                "episode_done": transition.episode_done,
                "metrics": {key: number(value) for key, value in transition.metrics.items()},
            }
        )
        held = observation + action
    words = {str(token): text for token, text in (vocab or {}).items()}
    labels = {"name": name, "group": group, "vocab": words}
    return {**{key: value for key, value in labels.items() if value}, "transitions": turns}


def rollout_to_native(rollout: Rollout) -> dict[str, Any]:
    """A rollout with its name, group and vocabulary in the file format."""
    return trajectory_to_native(rollout.trajectory, rollout.name, rollout.group, rollout.vocab)


@dataclass(frozen=True)
class FileIssue:
    """One sentence about a file, or about one trajectory in it.

    Attributes:
        message: The sentence; names line, trajectory, turn, field and index as far as known.
        line: Line of the file, from 1.
        trajectory: Index of the trajectory in the file, from 0; None when it is about the file.
    """

    message: str
    line: int | None = None
    trajectory: int | None = None


@dataclass(frozen=True)
class Reading:
    """What a file holds: the rollouts that can be read, and a sentence on each that cannot.

    Attributes:
        rollouts: In the order of the file.
        issues: In the order of the file.
        left_out: A sentence when a bound ended the reading early, else None.
    """

    rollouts: tuple[Rollout, ...]
    issues: tuple[FileIssue, ...]
    left_out: str | None = None


class RecordError(ValueError):
    """What is wrong with one value of a file.

    Attributes:
        path: Keys and indices that lead from the file's value to the wrong one.
        line: Line of the file where the parser stopped, when it is known without `path`.
    """

    def __init__(self, message: str, path: Sequence[Any] = (), line: int | None = None) -> None:
        super().__init__(message)
        self.path = tuple(path)
        self.line = line


class RepeatedKeyObject(dict[str, Any]):
    """A JSON object that holds one key twice; JSON leaves open which value counts."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.key = next(key for key, count in counts.items() if count > 1)


def describe_value(value: Any) -> str:
    """A JSON value in a few characters, for use in a sentence."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return f"the text {shown(value)}" if isinstance(value, str) else shown(repr(value))


def read_number(value: Any) -> Any:
    """The words for numbers that JSON lacks, as numbers; anything else as it is."""
    words = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    return words.get(value, value) if isinstance(value, str) else value


class TokenList(RootModel):
    """Token ids. Strict: no float, no boolean, no text."""

    root: Annotated[
        list[Annotated[int, Field(strict=True, ge=0, le=MAX_TOKEN_ID)]],
        Field(strict=True),
        FailFast(),
    ]


class NumberList(RootModel):
    """Numbers only: the usual logprobs, checked without a call per entry."""

    root: Annotated[list[Annotated[float, Field(strict=True)]], Field(strict=True), FailFast()]


class LooseNumberList(RootModel):
    """Numbers where an entry may also be null or a word, see `read_number`."""

    root: Annotated[
        list[Annotated[float | None, Field(strict=True), BeforeValidator(read_number)]],
        Field(strict=True),
        FailFast(),
    ]


class ImageRecord(BaseModel):
    """One image inside an observation, as `element_to_native` writes it."""

    model_config = ConfigDict(strict=True, extra="ignore")
    image: str
    tokens: Annotated[int, Field(ge=0, le=MAX_IMAGE_TOKENS)]
    asset: Literal["png", "jpeg"] | None = None


def record_to_chunk(record: ImageRecord) -> Any:
    """The cookbook's chunk for one image; equal records give equal chunks.

    Raises:
        PydanticCustomError: A data URI that does not hold base64 of a png or jpeg.
    """
    if record.asset is not None:
        return tinker.types.ImageAssetPointerChunk(
            location=record.image, format=record.asset, expected_tokens=record.tokens
        )
    uri = re.match(r"data:image/(\w+);base64,", record.image)
    if uri is None:
        return image_chunk(record.image, record.tokens)
    if uri[1] not in ("png", "jpeg"):
        raise PydanticCustomError("image", "only png and jpeg images are read")
    try:
        data = base64.b64decode(record.image[uri.end() :], validate=True)
    except ValueError:
        raise PydanticCustomError("image", "the data URI does not hold valid base64") from None
    return tinker.types.ImageChunk(
        data=data, format="jpeg" if uri[1] == "jpeg" else "png", expected_tokens=record.tokens
    )


class ElementList(RootModel):
    """Token ids and images: an observation that holds at least one image."""

    root: Annotated[
        list[
            Annotated[
                Annotated[int, Field(strict=True, ge=0, le=MAX_TOKEN_ID), Tag("token")]
                | Annotated[ImageRecord, AfterValidator(record_to_chunk), Tag("picture")],
                Discriminator(lambda value: "picture" if isinstance(value, dict) else "token"),
            ]
        ],
        Field(strict=True),
        FailFast(),
    ]


def read_elements(value: Any) -> TokenList | ElementList | None:
    """An observation as flat elements: token ids only, or with one chunk per image.

    Raises:
        ValidationError: With the index of the first wrong element.
    """
    if value is None:
        return None
    try:
        return TokenList.model_validate(value)
    except ValidationError:
        if not isinstance(value, list) or not any(isinstance(entry, dict) for entry in value):
            raise
    return ElementList.model_validate(value)


def read_logprobs(value: Any) -> list[float] | None:
    """Logprobs as a plain list, or as completion servers nest them.

    Read are `[-0.1, null, "NaN"]`, `{"token_logprobs": [...]}` and
    `{"content": [{"logprob": -0.1}, ...]}`; an entry that is null becomes NaN.
    """
    if isinstance(value, dict) and "token_logprobs" in value:
        value = value["token_logprobs"]
    elif isinstance(value, dict) and isinstance(value.get("content"), list):
        value = [
            entry.get("logprob") if isinstance(entry, dict) else entry for entry in value["content"]
        ]
    if value is None:
        return None
    try:
        return NumberList.model_validate(value).root
    except ValidationError:
        loose = LooseNumberList.model_validate(value).root
    return [math.nan if number is None else number for number in loose]


def read_vocabulary(value: Any) -> dict[int, str]:
    """Token texts by id. Keys of a JSON object are text, so ids arrive as `"17"`.

    Raises:
        PydanticCustomError: With the first wrong entry.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PydanticCustomError("dict_type", "not an object")
    problem = ""
    vocab: dict[int, str] = {}
    if len(value) > MAX_VOCABULARY:
        problem = f"expected at most {MAX_VOCABULARY:,} entries, got {len(value):,}"
    for key, text in value.items() if not problem else ():
        if not re.fullmatch(r"0|[1-9][0-9]{0,9}", key) or int(key) > MAX_TOKEN_ID:
            problem = f"expected a token id as key, got {shown(key)}"
        elif not isinstance(text, str):
            problem = f"expected a text for token {key}, got {describe_value(text)}"
        elif len(text) > MAX_NAME_CHARS:
            problem = f"the text of token {key} is longer than {MAX_NAME_CHARS:,} characters"
        elif not text.isascii() and re.search("[\ud800-\udfff]", text):
            problem = f"the text of token {key} holds half of a surrogate pair"
        if problem:
            break
        vocab[int(key)] = text
    if problem:
        raise PydanticCustomError("vocabulary", "{problem}", {"problem": problem})
    return vocab


class TurnRecord(BaseModel):
    """One turn. The aliases are the table of key names that are read.

    `ob`, `append`, `ac` are this page's own names, `tokens.*` those of verifiers trajectory
    steps, `prompt_token_ids` and the like those of completion servers.
    """

    model_config = ConfigDict(strict=True, extra="ignore")
    ob: Annotated[Any, PlainValidator(read_elements)] = Field(
        default=None,
        validation_alias=AliasChoices(
            "ob",
            AliasPath("tokens", "prompt_ids"),
            "prompt_token_ids",
            AliasPath("choices", 0, "prompt_token_ids"),
        ),
    )
    append: Annotated[Any, PlainValidator(read_elements)] = None
    ac: TokenList = Field(
        validation_alias=AliasChoices(
            "ac",
            AliasPath("tokens", "completion_ids"),
            "completion_token_ids",
            "token_ids",
            AliasPath("choices", 0, "token_ids"),
            AliasPath("outputs", 0, "token_ids"),
        )
    )
    logprobs: Annotated[Any, PlainValidator(read_logprobs)] = Field(
        default=None,
        validation_alias=AliasChoices(
            AliasPath("tokens", "completion_logprobs"),
            "completion_logprobs",
            "logprobs",
            AliasPath("choices", 0, "logprobs"),
        ),
    )
    reward: Annotated[float | None, BeforeValidator(read_number)] = None
    episode_done: bool | None = None
    metrics: (
        Annotated[
            dict[
                Annotated[str, Field(max_length=MAX_NAME_CHARS)],
                Annotated[float, BeforeValidator(read_number)],
            ],
            Field(max_length=1_000),
        ]
        | None
    ) = None


class TrajectoryRecord(BaseModel):
    """One trajectory. A reward of its own belongs to its last turn when no turn has one."""

    model_config = ConfigDict(strict=True, extra="ignore")
    name: Annotated[str, Field(max_length=MAX_NAME_CHARS)] | None = None
    group: Annotated[
        str | None,
        Field(max_length=MAX_NAME_CHARS),
        BeforeValidator(lambda value: str(value) if type(value) is int else value),
    ] = Field(default=None, validation_alias=AliasChoices("group", "example_id"))
    vocab: Annotated[Any, PlainValidator(read_vocabulary)] = Field(default_factory=dict)
    transitions: Annotated[list[TurnRecord], Field(max_length=MAX_ROLLOUT_TURNS), FailFast()] = (
        Field(
            validation_alias=AliasChoices(
                "transitions", "trajectory", "steps", "turns", "responses"
            )
        )
    )
    reward: Annotated[float | None, BeforeValidator(read_number)] = None


def record_problem(error: ValidationError) -> RecordError:
    """The first problem pydantic found, in the words of this page."""
    first = error.errors(include_url=False)[0]
    path = tuple(step for step in first["loc"] if step not in ("token", "picture"))
    kind, got, context = first["type"], first["input"], first.get("ctx", {})
    token = any(
        step in ("ob", "append", "ac", "prompt_ids", "completion_ids")
        or str(step).endswith("token_ids")
        for step in path
    )
    if kind == "missing" and path[-1:] == ("ac",):
        return RecordError(
            "no action tokens (`ac`, `token_ids`, `completion_token_ids` or "
            "`tokens.completion_ids`)",
            path[:-1],
        )
    if kind == "missing":
        return RecordError(f"`{path[-1]}` is missing", path[:-1])
    if kind in ("image", "vocabulary"):
        return RecordError(first["msg"], path)
    if kind in ("too_long", "string_too_long"):
        unit = "entries" if kind == "too_long" else "characters"
        return RecordError(f"longer than {context['max_length']:,} {unit}", path)
    if kind == "string_unicode":
        return RecordError("holds half of a surrogate pair, so it is not valid text", path)
    expected = {
        "int_type": "a whole number",
        "float_type": "a number",
        "list_type": "a list",
        "dict_type": "an object",
        "model_type": "an object",
        "string_type": "a text",
        "bool_type": "true or false",
        "literal_error": f"one of {context.get('expected', '')}",
    }.get(kind, first["msg"])
    if path[-1:] == ("tokens",) and kind in ("int_type", "less_than_equal", "greater_than_equal"):
        expected = f"a whole number from 0 to {MAX_IMAGE_TOKENS:,}"
    elif token and kind in ("int_type", "less_than_equal", "greater_than_equal"):
        expected = f"a token id (a whole number from 0 to {MAX_TOKEN_ID})"
    return RecordError(f"expected {expected}, got {describe_value(got)}", path)


def record_to_rollout(record: TrajectoryRecord, name: str) -> Rollout:
    """A validated record as a rollout.

    Observations share chunk objects: one that extends the previous observation + action holds
    the previous chunks and adds its own. A rollout of T turns and n tokens so takes memory of
    order n + T^2 chunk references, also where the file repeats the history in every turn.

    Args:
        record: What pydantic made of the file's value.
        name: Used when the record has no name.

    Raises:
        RecordError: A turn has no observation, has two, or the turns are too long together.
    """
    transitions: list[Transition] = []
    held: list[Any] = []
    chunks: list[Any] = []
    added: list[Any] = []
    length = total = 0
    rewards = [turn.reward for turn in record.transitions]
    if rewards and all(reward is None for reward in rewards):
        rewards[-1] = record.reward
    for index, (turn, reward) in enumerate(zip(record.transitions, rewards, strict=True)):
        path = ("transitions", index)
        if turn.ob is None and turn.append is None:
            raise RecordError(
                "no observation (`ob`, `append`, `prompt_token_ids` or `tokens.prompt_ids`)", path
            )
        if turn.ob is not None and turn.append is not None:
            raise RecordError("both `ob` and `append`, of which a turn has one", path)
        if turn.append is not None and not index:
            raise RecordError("the first turn has nothing to append to; it needs `ob`", path)
        given = turn.append if turn.ob is None else turn.ob
        fresh: list[Any] = given.root
        if turn.ob is not None and fresh[: len(held)] == held:
            fresh = fresh[len(held) :]
        elif turn.ob is not None:
            held, chunks, length = [], [], 0
        # Tokens are checked already, and chunks that are shared would be checked every turn.
        if isinstance(given, TokenList):
            added = [tinker.EncodedTextChunk.model_construct(tokens=fresh)] if fresh else []
            length += len(fresh)
        else:
            added = elements_to_model_input(fresh).chunks
            length += sum(chunk.length for chunk in added)
        action = turn.ac.root
        length += len(action)
        total += length
        if total > MAX_ROLLOUT_TOKENS:
            raise RecordError(
                f"the observations and actions up to here hold more than {MAX_ROLLOUT_TOKENS:,} "
                "tokens; split the rollout",
                path,
            )
        observation = tinker.ModelInput.model_construct(chunks=[*chunks, *added])
        last = index + 1 == len(record.transitions)
        transitions.append(
            Transition(
                ob=observation,
                ac=TokensWithLogprobs(tokens=action, maybe_logprobs=turn.logprobs),
                reward=0.0 if reward is None else reward,
                episode_done=last if turn.episode_done is None else turn.episode_done,
                metrics=dict(turn.metrics or {}),
            )
        )
        held.extend(fresh)
        held.extend(action)
        said = [tinker.EncodedTextChunk.model_construct(tokens=action)] if action else []
        chunks = [*observation.chunks, *said]
    return Rollout(
        name=record.name or name,
        trajectory=Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty()),
        vocab=record.vocab,
        group=record.group,
    )


def parse_json(text: str) -> tuple[Any, bool]:
    """JSON text to a value, and whether an object in it holds one key twice.

    Raises:
        RecordError: The text is not JSON, is nested too deep, or holds too much; every bound
            is counted on the text, before a single object is made.
    """
    for signs, limit, unit in (
        (",", MAX_FILE_VALUES, "commas"),
        ("[{", MAX_FILE_CONTAINERS, "lists and objects"),
        ('"', MAX_FILE_QUOTES, "quotation marks"),
    ):
        count = sum(text.count(sign) for sign in signs)
        if count > limit:
            raise RecordError(f"holds {count:,} {unit}, but at most {limit:,} are read")

    repeated = False

    def make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        made = dict(pairs)
        if len(made) == len(pairs):
            return made
        repeated = True
        return RepeatedKeyObject(pairs)

    try:
        return json.loads(text, object_pairs_hook=make_object), repeated
    except json.JSONDecodeError as error:
        message = {
            "Extra data": "more text after the end of the JSON value",
            "Expecting value": "expected a value",
        }.get(error.msg, error.msg[0].lower() + error.msg[1:].removesuffix(" at"))
        place = f"column {error.colno:,}: {message}"
        raise RecordError(f"not valid JSON at {place}", line=error.lineno) from None
    except RecursionError:
        raise RecordError("nested too deep to be read") from None
    except ValueError:
        # Python refuses to convert integers of more than 4300 digits.
        number = re.search(r"[0-9]{4301}", text)
        line = text.count("\n", 0, number.start()) + 1 if number else None
        raise RecordError("a number with more than 4,300 digits", line=line) from None


def json_children(text: str, position: int) -> Iterator[tuple[Any, int]]:
    """Keys or indices of the JSON container at `position`, each with where its value starts.

    Only for text that `parse_json` has accepted; a scalar has no children.
    """
    skip = re.compile(r"[\s,:]*")
    decoder = json.JSONDecoder()

    def after(place: int) -> int:
        match = skip.match(text, place)
        return match.end() if match else place

    opener = text[position] if position < len(text) else ""
    if opener not in "[{" or not opener:
        return
    position = after(position + 1)
    index = 0
    while text[position] not in "]}":
        key: Any = index
        if opener == "{":
            key, position = decoder.raw_decode(text, position)
            position = after(position)
        yield key, position
        _, position = decoder.raw_decode(text, position)
        position = after(position)
        index += 1


def json_position(text: str, position: int, path: Sequence[Any]) -> int:
    """Where the value at `path` starts, or its nearest container that can be found soon."""
    for step in path:
        for count, (key, place) in enumerate(json_children(text, position)):
            if count > 100_000:
                return position
            if key == step:
                position = place
                break
        else:
            return position
    return position


def refuse_repeated_keys(value: Any) -> None:
    """Walk a JSON value that is known to come from text with a repeated key.

    Raises:
        RecordError: With the path of the first object that holds a key twice.
    """
    todo: list[tuple[Any, tuple[Any, ...]]] = [(value, ())]
    while todo:
        item, path = todo.pop()
        if isinstance(item, RepeatedKeyObject):
            raise RecordError(f"the key {shown(item.key)} stands twice in one object", path)
        children: Iterable[tuple[Any, Any]] = ()
        if isinstance(item, dict):
            children = item.items()
        elif isinstance(item, list):
            children = enumerate(item)
        todo += [(child, (*path, key)) for key, child in children if isinstance(child, dict | list)]


def is_turn(value: Any) -> bool:
    """True for an object that is one turn rather than a whole trajectory."""
    return (
        isinstance(value, dict)
        and not any(key in value for key in TRAJECTORY_KEYS)
        and any(key in value for key in TURN_KEYS)
    )


def is_rollout(value: Any) -> bool:
    """True for an object that is a trajectory or one turn of one."""
    return isinstance(value, dict) and any(key in value for key in (*TRAJECTORY_KEYS, *TURN_KEYS))


def value_to_rollout(value: Any, name: str, repeated: bool = False) -> Rollout:
    """One trajectory of a file as a rollout: an object, a list of turns, or a single turn.

    Args:
        value: Parsed JSON.
        name: Used when the file gives none.
        repeated: Whether some object of the file holds a key twice.

    Raises:
        RecordError: With the path from `value` to what is wrong.
    """
    given = value
    if is_turn(value):
        given = {"transitions": [value]}
    elif isinstance(value, list) and value and is_turn(value[0]):
        given = {"transitions": value}
    if not isinstance(given, dict):
        raise RecordError(
            f"expected a trajectory (an object with `transitions`), got {describe_value(value)}"
        )
    if repeated:
        refuse_repeated_keys(given)
    if not set(TRAJECTORY_KEYS) & given.keys() and {"role", "messages"} & given.keys():
        raise RecordError(
            "these are messages, not tokens; section 8 of the page reads a conversation"
        )
    try:
        return record_to_rollout(TrajectoryRecord.model_validate(given), name)
    except ValidationError as error:
        raise record_problem(error) from None


def file_issue(error: RecordError, line: int | None, index: int | None, value: Any) -> FileIssue:
    """The sentence for a problem: line, trajectory, turn, field and index, then what is wrong."""
    place = [] if line is None else [f"line {line:,}"]
    if index is not None:
        name = value.get("name") if isinstance(value, dict) else None
        label = f" ({shown(name, 40)})" if isinstance(name, str) and name else ""
        place.append(f"trajectory {index:,}{label}")
    path = error.path
    if len(path) > 1 and path[0] in TRAJECTORY_KEYS and isinstance(path[1], int):
        place.append(f"turn {path[1]:,}")
        path = path[2:]
    place += [shown(step) if isinstance(step, str) else f"index {step:,}" for step in path]
    where = ", ".join(place) or "the file"
    return FileIssue(f"{where[0].upper()}{where[1:]}: {error}.", line, index)


def decode_utf8(data: bytes, line: int = 1) -> str:
    """Bytes of a file, or of one line of it, as text; a byte order mark is dropped.

    Raises:
        RecordError: The bytes are something else than UTF-8 text; names what, where known.
    """
    for magic, kind in FILE_MAGIC.items():
        if data.startswith(magic):
            raise RecordError(f"this is {kind}, not JSON text in UTF-8", line=line)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordError(
            f"the byte 0x{data[error.start]:02x} is not UTF-8 text",
            line=line + data.count(b"\n", 0, error.start),
        ) from None


def document_rollouts(
    text: str, parsed: tuple[Any, bool] | None = None, line: int = 1, index: int = 0
) -> Iterator[Rollout | FileIssue]:
    """The trajectories of one JSON document: one, a list, or `{"trajectories": [...]}`.

    Args:
        text: The whole document.
        parsed: Result of `parse_json` on it, when the caller has it already.
        line: Line of the file on which the document starts.
        index: Index of its first trajectory in the file.
    """
    path: tuple[Any, ...] = ()
    try:
        value, repeated = parsed or parse_json(text)
        values = [value]
        whole = is_turn(value) or (isinstance(value, list) and value and is_turn(value[0]))
        if isinstance(value, dict) and not whole and not set(TRAJECTORY_KEYS) & value.keys():
            if isinstance(value, RepeatedKeyObject):
                refuse_repeated_keys(value)
            path = tuple(key for key in FILE_KEYS if key in value)[:1]
        if path:
            values = value[path[0]]
        elif isinstance(value, list) and not whole:
            values = value
        if not isinstance(values, list):
            raise RecordError(f"expected a list, got {describe_value(values)}", path)
    except RecordError as error:
        yield file_issue(error, line - 1 + (error.line or 1), None, None)
        return
    start = len(text) - len(text.lstrip())
    places: Iterator[tuple[Any, int]] | None = None
    for count, entry in enumerate(values):
        try:
            yield value_to_rollout(entry, f"trajectory {index + count}", repeated)
        except RecordError as error:
            if places is None and values is not value and not path:
                places = iter([(0, start)])
            elif places is None:
                places = json_children(text, json_position(text, start, path))
            # The text is walked again only where a line is asked for, and only once.
            where = start
            with contextlib.suppress(RecursionError):
                where = next(place for at, place in places if at == count)
                inner = error.path[1:] if isinstance(entry, list) else error.path
                where = json_position(text, where, inner)
            yield file_issue(error, line + text.count("\n", 0, where), index + count, entry)


def numbered_lines(stream: IO[bytes], number: int = 1) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, counted from `number`; ends after one that is too long.

    After `MAX_BLANK_LINES` blank ones it ends with no bytes at all: each costs as much as a
    short line, and a file can hold millions.
    """
    blank = 0
    while data := stream.readline(MAX_FILE_BYTES + 1):
        if data.strip():
            yield number, data
        else:
            blank += 1
        if len(data) > MAX_FILE_BYTES:
            return
        if blank > MAX_BLANK_LINES:
            yield number, b""
            return
        number += 1


@dataclass(frozen=True)
class ParsedLine:
    """One line of a file: its JSON value, or what is wrong with it."""

    number: int
    text: str
    value: Any = None
    repeated: bool = False
    error: RecordError | None = None


def parse_line(numbered: tuple[int, bytes]) -> ParsedLine:
    """One line of JSONL, parsed; never raises for bad content."""
    number, data = numbered
    text = ""
    try:
        if len(data) > MAX_FILE_BYTES:
            raise RecordError(f"longer than {MAX_FILE_BYTES // 2**20} MB")
        if not data:
            raise RecordError(f"more than {MAX_BLANK_LINES:,} blank lines up to here")
        text = decode_utf8(data, number)
        return ParsedLine(number, text, *parse_json(text))
    except RecordError as error:
        return ParsedLine(number, text, error=error)


def line_rollouts(lines: Iterable[ParsedLine]) -> Iterator[Rollout | FileIssue]:
    """JSONL: a trajectory a line.

    Neighbouring lines that hold one turn each are together one trajectory, which ends where
    `trajectory_id` changes.
    """
    index = 0
    turns: list[ParsedLine] = []

    def joined_turns() -> Rollout | FileIssue:
        values = [line.value for line in turns]
        repeated = any(line.repeated for line in turns)
        try:
            return value_to_rollout(values, f"trajectory {index}", repeated)
        except RecordError as error:
            at = next((step for step in error.path if isinstance(step, int)), 0)
            return file_issue(error, turns[at].number, index, None)

    for line in lines:
        joins = line.error is None and is_turn(line.value)
        if turns and not (
            joins and line.value.get("trajectory_id") == turns[-1].value.get("trajectory_id")
        ):
            yield joined_turns()
            turns.clear()
            index += 1
        if line.error is not None:
            yield file_issue(line.error, line.number, index, None)
            index += 1
        elif joins:
            # One turn more than is read is kept, so that the bound is noticed.
            if len(turns) <= MAX_ROLLOUT_TURNS:
                turns.append(line)
        else:
            parsed = (line.value, line.repeated)
            for item in document_rollouts(line.text, parsed, line.number, index):
                yield item
                index += 1
    if turns:
        yield joined_turns()


def stream_rollouts(stream: IO[bytes]) -> Iterator[Rollout | FileIssue]:
    """`iter_rollouts` without its bound on issues: tells JSON from JSONL, then reads."""
    head = next(numbered_lines(stream), None)
    if head is None:
        yield FileIssue("The file is empty.")
        return
    number, data = head
    first = parse_line(head)
    if first.error is None:
        # JSONL, or a document on one line, which reads the same.
        later = numbered_lines(stream, number + 1)
        yield from line_rollouts(itertools.chain([first], map(parse_line, later)))
        return
    # Alone the first line is no JSON: it opens a document, or it is a bad line of JSONL.
    rest = stream.read(MAX_FILE_BYTES) if len(data) <= MAX_FILE_BYTES else b""
    if len(rest) == MAX_FILE_BYTES:
        rest += stream.readline(MAX_FILE_BYTES)
    try:
        if len(data) + len(rest) > MAX_FILE_BYTES:
            raise RecordError(f"larger than {MAX_FILE_BYTES // 2**20} MB, the most that is read")
        text = decode_utf8(data + rest, number)
        parsed = parse_json(text)
    except RecordError as error:
        tail = itertools.chain(
            numbered_lines(io.BytesIO(rest), number + 1),
            numbered_lines(stream, number + 1 + rest.count(b"\n")),
        )
        second = next(map(parse_line, tail), None)
        if second is not None and is_rollout(second.value):
            yield from line_rollouts(itertools.chain([first, second], map(parse_line, tail)))
            return
        line = error.line if error.line is None else number - 1 + error.line
        yield file_issue(error, line, None, None)
        return
    yield from document_rollouts(text, parsed, number)


def iter_rollouts(stream: IO[bytes]) -> Iterator[Rollout | FileIssue]:
    """Read a file of rollouts, JSON or JSONL, one trajectory at a time.

    JSONL is read line by line: memory grows with the longest line, not with the file.

    Args:
        stream: Binary, read once from where it stands.

    Yields:
        In the order of the file: rollouts, and an issue for each that cannot be read. The
        reading ends after `MAX_FILE_ISSUES` of them.
    """
    issues = 0
    for item in stream_rollouts(stream):
        yield item
        issues += isinstance(item, FileIssue)
        if issues >= MAX_FILE_ISSUES:
            yield FileIssue(f"The rest is left out after {issues:,} trajectories like these.")
            return


def rollout_tokens(rollout: Rollout) -> int:
    """Tokens of all observations and actions, history counted in every turn: the work it is."""
    return sum(
        transition.ob.length + len(transition.ac.tokens)
        for transition in rollout.trajectory.transitions
    )


def collect_rollouts(stream: IO[bytes]) -> Reading:
    """All rollouts of a stream within the bounds of the page, see `read_rollouts`."""
    rollouts: list[Rollout] = []
    issues: list[FileIssue] = []
    tokens = 0
    for item in iter_rollouts(stream):
        if isinstance(item, FileIssue):
            issues.append(item)
            continue
        tokens += rollout_tokens(item)
        if len(rollouts) >= MAX_PAGE_ROLLOUTS or (rollouts and tokens > MAX_PAGE_TOKENS):
            return Reading(
                tuple(rollouts),
                tuple(issues),
                f"Only the first {len(rollouts):,} rollouts are shown: the page takes "
                f"{MAX_PAGE_ROLLOUTS:,} rollouts or {MAX_PAGE_TOKENS:,} tokens, histories "
                "counted in every turn. The command line has no such limit.",
            )
        rollouts.append(item)
    return Reading(tuple(rollouts), tuple(issues))


def read_rollouts(data: bytes | str) -> Reading:
    """Read an upload or a paste, within the bounds of the page.

    Args:
        data: The whole file; text is what was pasted.

    Returns:
        What can be read, a sentence on each trajectory that cannot, and whether a bound of the
        page (`MAX_PAGE_ROLLOUTS`, `MAX_PAGE_TOKENS`) ended the reading.
    """
    if isinstance(data, str):
        if not data.strip():
            return Reading((), (FileIssue("The text is empty."),))
        data = data.encode("utf-8", "surrogatepass")
    if len(data) > MAX_FILE_BYTES:
        return Reading(
            (),
            (
                FileIssue(
                    f"The file holds {len(data) / 2**20:,.1f} MB, but the page reads at most "
                    f"{MAX_FILE_BYTES // 2**20} MB."
                ),
            ),
        )
    return collect_rollouts(io.BytesIO(data))


def group_advantages(rollouts: Sequence[Rollout]) -> list[float | None]:
    """The cookbook's advantage of each rollout among those of its group; None without group."""
    members: dict[str, list[int]] = {}
    for index, rollout in enumerate(rollouts):
        if rollout.group is not None:
            members.setdefault(rollout.group, []).append(index)
    groups = [
        TrajectoryGroup(
            trajectories_G=[rollouts[index].trajectory for index in indices],
            final_rewards_G=[0.0] * len(indices),
            metrics_G=[{} for _ in indices],
        )
        for indices in members.values()
    ]
    advantages: list[float | None] = [None] * len(rollouts)
    for indices, advantages_G in zip(members.values(), compute_advantages(groups), strict=True):
        for index, advantage in zip(indices, advantages_G.tolist(), strict=True):
            advantages[index] = advantage
    return advantages


@dataclass
class OfflineBackend:
    """What later cookbooks copy from a tokenizer to encode message content literally.

    Attributes:
        owner: The tokenizer; shared by copies, since it is only read.
        encode_special_tokens: True takes markers in a text apart, as it does in `tokenizers`.
    """

    owner: Any
    encode_special_tokens: bool = False

    def __deepcopy__(self, memo: dict[int, Any]) -> "OfflineBackend":
        return replace(self)

    def encode(self, text: str, add_special_tokens: bool = False, **_: Any) -> Any:
        """An object whose `ids` are the tokens of the text."""
        ids = self.owner.encode(text, split_special_tokens=self.encode_special_tokens)
        return SimpleNamespace(ids=ids)


class OfflineTokenizer:
    """The 200k text vocabulary inside `tml-renderers`, with every family's chat markers.

    Text is encoded for real. A chat marker such as `<|im_end|>` or `<think>` becomes one
    reserved id above that vocabulary, as it is one id in its family's own vocabulary, so
    the cookbook's renderers run with no download. Ids are those of no real model.

    Attributes:
        markers: Marker to id. Markers the vocabulary has itself keep their own id.
        bos_token, eos_token, eos_token_id: As the renderers ask for them.
    """

    def __init__(self, name_or_path: str) -> None:
        self.name_or_path = name_or_path
        with warnings.catch_warnings():  # an older cookbook calls a deprecated constructor
            warnings.simplefilter("ignore", DeprecationWarning)
            vocabulary: Any = get_tokenizer(OFFLINE_MODEL)
        # The name under which the cookbook's `tml_v0` renderer asks for it.
        self.tml_tokenizer: Any = vocabulary.tml_tokenizer
        own = {
            f"<|{name}|>": int(self.tml_tokenizer.encode_special(name))
            for name in self.tml_tokenizer.special_tokens()
        }
        first = max(own.values()) + 1
        named = [marker for marker in chat_markers() if marker not in own]
        self.markers: dict[str, int] = {
            **own,
            **{marker: first + offset for offset, marker in enumerate(named)},
        }
        self._names = {token: marker for marker, token in self.markers.items()}
        by_length = sorted(self.markers, key=len, reverse=True)
        self._any_marker = re.compile("(" + "|".join(map(re.escape, by_length)) + ")")
        # Tags like <think> stay whole even where a renderer asks to split special tokens:
        # in the real vocabularies they are added tokens, not special ones.
        tags = [marker for marker in by_length if marker in MARKER_TAGS]
        self._only_tags = re.compile("(" + "|".join(map(re.escape, tags)) + ")")
        self.bos_token = "<|begin_of_text|>"
        self.eos_token = "<|endoftext|>"
        self.eos_token_id = self.markers[self.eos_token]
        self.all_special_tokens = list(self.markers)
        self.all_special_ids = list(self.markers.values())
        self.backend_tokenizer = OfflineBackend(self)
        self._encoded: dict[tuple[str, bool], tuple[int, ...]] = {}

    def encode(
        self,
        text: str,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
        **_: Any,
    ) -> list[int]:
        """Text to ids, each marker to its single id; nothing is ever added."""
        key = (text, split_special_tokens)
        known = self._encoded.get(key)
        if known is not None:
            return list(known)
        pattern = self._only_tags if split_special_tokens else self._any_marker
        tokens: list[int] = []
        for piece in pattern.split(text):
            if not piece:
                continue
            marker = self.markers.get(piece) if pattern.fullmatch(piece) else None
            if marker is None:
                tokens.extend(self.tml_tokenizer.encode_ordinary(piece))
            else:
                tokens.append(marker)
        # Renderers encode the same headers and short messages over and over.
        if len(text) <= 200 and len(self._encoded) < 4096:
            self._encoded[key] = tuple(tokens)
        return tokens

    def decode(self, token_ids: Sequence[int] | int, **_: Any) -> str:
        """Ids to text; bytes that are no whole character come out as U+FFFD."""
        ids = [token_ids] if isinstance(token_ids, int) else list(token_ids)
        words: list[str] = []
        run: list[int] = []
        for token in ids:
            if token in self._names:
                words.append(self.tml_tokenizer.decode(run) if run else "")
                words.append(self._names[token])
                run = []
            else:
                run.append(token)
        words.append(self.tml_tokenizer.decode(run) if run else "")
        return "".join(words)

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """A marker (or a piece that is one token) to its id; a list to a list."""
        if not isinstance(tokens, str):
            return [self.convert_tokens_to_ids(token) for token in tokens]
        encoded = self.encode(tokens)
        return encoded[0] if len(encoded) == 1 else None

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> Any:
        """The text of an id; a list to a list."""
        return self.decode(ids) if isinstance(ids, int) else [self.decode(token) for token in ids]


def chat_markers() -> list[str]:
    """Every chat marker that the installed renderers write, sorted.

    Read from the renderers' own source, so a family of a later cookbook brings its markers
    along: `<|name|>`, DeepSeek's full-width form (also where only the name is asked for),
    and the tags that at least one family keeps as one token.
    """
    bar = "\uff5c"
    found: set[str] = set(MARKER_TAGS)
    for path in sorted(Path(str(renderers.__file__)).parent.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        found.update(re.findall(rf"<\|\w+\|>|<{bar}[^<>{{}}\s{bar}]+{bar}>", source))
        names = re.findall(r"_get_special_token\(\s*\"([^\"<>]+)\"", source)
        found.update(f"<{bar}{name}{bar}>" for name in names)
    return sorted(found)


def offline_tokenizer() -> Any:
    """The one `OfflineTokenizer` of this process.

    The vocabulary takes seconds to load and every reader of a served app runs the notebook
    anew in the same process, so the instance lives in the cookbook's tokenizer registry:
    outside any session, and found by `get_tokenizer` when a renderer is unpickled.
    """
    if not is_tokenizer_registered(OFFLINE_VOCABULARY):
        lock = threading.Lock()
        built: list[OfflineTokenizer] = []

        def factory() -> Any:
            with lock:
                if not built:
                    built.append(OfflineTokenizer(OFFLINE_VOCABULARY))
                return built[0]

        register_tokenizer(OFFLINE_VOCABULARY, factory)
    return get_tokenizer(OFFLINE_VOCABULARY)


def renderer_names() -> list[str]:
    """Every renderer name that the installed cookbook knows, in its own order.

    `get_renderer` keeps no table of names, so they are read from its code (each comparison
    with `name`) and from its docstring; custom renderers come from the registry.
    """
    names: list[str] = []
    tree = ast.parse(textwrap.dedent(inspect.getsource(renderers.get_renderer)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name):
            if node.left.id != "name":
                continue
            for side in node.comparators:
                names.extend(
                    leaf.value
                    for leaf in ast.walk(side)
                    if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)
                )
        elif isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Constant):
            names.append(str(node.value.value))
    names.extend(re.findall(r"- ``\"([^\"]+)\"``", renderers.get_renderer.__doc__ or ""))
    names.extend(renderers.get_registered_renderer_names())
    return list(dict.fromkeys(names))


def build_renderer(name: str, tokenizer: Any) -> tuple[Any, str]:
    """One renderer of the cookbook on a tokenizer, proven to write a prompt.

    Args:
        name: A name of `renderer_names`.
        tokenizer: `offline_tokenizer()` or one of `get_tokenizer`.

    Returns:
        (renderer, "") or (None, the reason in one sentence).
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            renderer = renderers.get_renderer(name, tokenizer)
            renderer.get_stop_sequences()
            renderer.build_generation_prompt([{"role": "user", "content": "?"}])
    except Exception as error:  # whatever a renderer may raise becomes the reason
        detail = " ".join(str(error).split()) or type(error).__name__
        return None, f"{name} cannot be built on this vocabulary: {detail[:200]}"
    return renderer, ""


def token_texts(tokenizer: Any, tokens: Iterable[int]) -> dict[int, str]:
    """Text of each distinct token, for the `vocab` of a `Rollout`.

    A token may hold a part of a character; alone it decodes to U+FFFD, which would show as
    a question mark for many different tokens, so its bytes are written out instead.

    Args:
        tokenizer: Anything with `decode`.
        tokens: Token ids, repeats allowed.
    """
    texts: dict[int, str] = {}
    for token in dict.fromkeys(tokens):
        try:
            text = str(tokenizer.decode([token]))
        except Exception:  # an id outside the vocabulary has no text
            continue
        if "\ufffd" in text:
            decode_bytes = getattr(
                getattr(tokenizer, "tml_tokenizer", None), "decode_bytes", lambda _: b""
            )
            raw = bytes(decode_bytes([token]))
            named = getattr(tokenizer, "convert_ids_to_tokens", str)(token)
            text = "".join(f"<{byte:02X}>" for byte in raw) or str(named)
        texts[token] = text
    return texts


@dataclass(frozen=True)
class Conversation:
    """A pasted conversation, read or refused.

    Attributes:
        messages: Cookbook messages (dicts with role and content); empty when refused.
        issues: One sentence per reason to refuse; names the message, counted from 0.
    """

    messages: tuple[Any, ...]
    issues: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConversationRollout:
    """A conversation as the rollout it would have been, one turn per assistant message.

    Attributes:
        rollout: None when some turn could not be rendered.
        answers: Index of the assistant message behind each turn.
        issues: Why there is no rollout, one sentence each.
        notes: Sentences about turns where renderer and conversation need a second look.
    """

    rollout: Rollout | None
    answers: tuple[int, ...] = ()
    issues: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_content_part(part: Any, where: str) -> tuple[Any, str]:
    """One entry of a content list to a cookbook part: (part, "") or (None, sentence)."""
    if isinstance(part, str):
        return {"type": "text", "text": part}, ""
    if not isinstance(part, dict):
        return None, f"{where} is neither text nor an object with a type."
    kind = part.get("type")
    for known, key in (("text", "text"), ("thinking", "thinking")):
        if kind == known:
            if isinstance(part.get(key), str):
                return {"type": known, key: part[key]}, ""
            return None, f'{where} has the type "{known}" but no text under "{key}".'
    if isinstance(kind, str) and len(kind) <= 40:
        return None, f'{where} has the type "{kind}"; only text and thinking can be pasted here.'
    return None, f'{where} has no type; give "text" or "thinking".'


def read_tool_call(call: Any, where: str) -> tuple[Any, str]:
    """One tool call in OpenAI form to a cookbook `ToolCall`: (call, "") or (None, sentence)."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return None, f'{where} needs {{"function": {{"name": ..., "arguments": ...}}}}.'
    arguments = function.get("arguments", "{}")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    body = renderers.ToolCall.FunctionBody(name=function["name"], arguments=arguments)
    identity = call.get("id")
    return renderers.ToolCall(function=body, id=identity if isinstance(identity, str) else None), ""


def read_message(entry: Any, index: int) -> tuple[Any, str]:
    """One pasted message to a cookbook message: (message, "") or (None, sentence).

    Takes what the cookbook takes (text, or a list of text and thinking parts) and what chat
    APIs write: `reasoning_content` beside the content, null content next to tool calls.
    """
    where = f"Message {index}"
    if not isinstance(entry, dict):
        return None, f"{where} is not an object with a role and a content."
    role = entry.get("role")
    if role not in CONVERSATION_ROLES:
        given = "no role" if role is None else f"the role {json.dumps(role)[:40]}"
        return None, f"{where} has {given}; use one of {', '.join(CONVERSATION_ROLES)}."
    calls = entry.get("tool_calls")
    reasoning = entry.get("reasoning_content")
    content = entry.get("content")
    if content is None and (calls or reasoning):
        content = ""
    if content is None:
        return None, f"{where} ({role}) has no content."
    if not isinstance(content, str | list):
        return None, f"{where} ({role}) has a content that is neither text nor a list of parts."
    if isinstance(content, list):
        parts: list[Any] = []
        for number, given_part in enumerate(content):
            part, problem = read_content_part(given_part, f"{where}, part {number},")
            if problem:
                return None, problem
            parts.append(part)
        content = parts
    if isinstance(reasoning, str) and reasoning:
        rest = [{"type": "text", "text": content}] if isinstance(content, str) else content
        content = [{"type": "thinking", "thinking": reasoning}, *rest]
    message: dict[str, Any] = {"role": role, "content": content}
    if calls is not None:
        if role != "assistant" or not isinstance(calls, list):
            return None, f"{where} ({role}): tool_calls is a list, in assistant messages only."
        message["tool_calls"] = []
        for number, given_call in enumerate(calls):
            call, problem = read_tool_call(given_call, f"{where}, tool call {number},")
            if problem:
                return None, problem
            message["tool_calls"].append(call)
        if not calls:
            del message["tool_calls"]
    for key in ("name", "tool_call_id"):
        if isinstance(entry.get(key), str):
            message[key] = entry[key]
    return message, ""


def parse_conversation(text: str) -> Conversation:
    """Pasted JSON to messages, or the reasons why not.

    Args:
        text: A JSON list of messages, or an object that holds one under "messages". At most
            `CONVERSATION_CHARACTERS` characters and `CONVERSATION_MESSAGES` messages.
    """
    if not text.strip():
        return Conversation((), ("Paste a conversation: a JSON list of messages.",))
    if len(text) > CONVERSATION_CHARACTERS:
        return Conversation(
            (),
            (
                f"This conversation is {len(text):,} characters long; "
                f"at most {CONVERSATION_CHARACTERS:,} are read here.",
            ),
        )
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        return Conversation(
            (),
            (f"This is not JSON: {error.msg} in line {error.lineno}, column {error.colno}.",),
        )
    except (ValueError, RecursionError):  # endless digits, or brackets nested without end
        return Conversation((), ("This JSON is nested too deeply or holds too long a number.",))
    if isinstance(data, dict) and "messages" in data:
        data = data["messages"]
    if not isinstance(data, list):
        return Conversation((), ("A conversation is a list of messages: [{...}, {...}].",))
    if len(data) > CONVERSATION_MESSAGES:
        return Conversation(
            (),
            (f"{len(data)} messages are too many; at most {CONVERSATION_MESSAGES} are read.",),
        )
    messages: list[Any] = []
    issues: list[str] = []
    for index, entry in enumerate(data):
        message, problem = read_message(entry, index)
        if problem:
            issues.append(problem)
        else:
            messages.append(message)
    if not issues and not any(message["role"] == "assistant" for message in messages):
        issues.append("There is no assistant message, so there is no turn to look at.")
    try:  # a lone surrogate is valid JSON, but no text that can be encoded
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        issues.append("The text holds half of a surrogate pair, which no tokenizer can encode.")
    return Conversation((), tuple(issues)) if issues else Conversation(tuple(messages))


def render_turn(renderer: Any, messages: Sequence[Any], index: int) -> tuple[Any, Any, str]:
    """The prompt before one assistant message, and that message as sampled tokens.

    The prompt is `build_generation_prompt` of the messages before it. The answer is what the
    renderer's own `build_supervised_example` writes behind that prompt, the end token
    included: the tokens the model would be trained to produce in this place.

    Args:
        renderer: A cookbook renderer.
        messages: The conversation; `messages[index]` is the assistant message.
        index: Its index.

    Returns:
        (observation elements, action tokens, note). The note is a sentence when the finished
        turn does not start with the prompt; the action is then all that follows their common
        prefix.

    Raises:
        ValueError: No answer can be told from the prompt; the text says why.
    """
    prompt = model_input_to_elements(renderer.build_generation_prompt(list(messages[:index])))
    example, _ = renderer.build_supervised_example(
        list(messages[: index + 1]),
        train_on_what=renderers.TrainOnWhat.LAST_ASSISTANT_MESSAGE,
    )
    finished = model_input_to_elements(example)
    shared = common_prefix_length(prompt, finished)
    action = finished[shared:]
    dropped = prompt[shared:]
    if len(dropped) > GENERATION_SUFFIX_TOKENS:
        raise ValueError("the finished answer is written in another context than its prompt")
    if not action or not all(isinstance(element, int) for element in action):
        raise ValueError("the finished answer holds no tokens of its own")
    note = ""
    if dropped:
        lost = renderer.tokenizer.decode(dropped)
        note = (
            f"The generation prompt ends with {json.dumps(lost, ensure_ascii=False)}, which "
            "this renderer leaves out when it writes the finished answer."
        )
    return prompt, action, note


def unwritten_parts(
    renderer: Any, messages: Sequence[Any], index: int, action: Sequence[int]
) -> list[str]:
    """Names of what the renderer leaves out of an answer: it renders the same without.

    Args:
        renderer, messages, index: As for `render_turn`.
        action: The answer's tokens as rendered whole.
    """
    message = messages[index]
    reduced: dict[str, Any] = {}
    if message.get("tool_calls"):
        reduced["tool calls"] = {key: message[key] for key in message if key != "tool_calls"}
    if not isinstance(message["content"], str):
        kept = [part for part in message["content"] if part["type"] != "thinking"]
        if len(kept) < len(message["content"]):
            reduced["reasoning"] = {**message, "content": kept}
    unwritten: list[str] = []
    for name, without in reduced.items():
        try:
            same = render_turn(renderer, [*messages[:index], without], index)[1] == action
        except Exception:  # without it the answer cannot be written at all, so it is written
            same = False
        if same:
            unwritten.append(name)
    return unwritten


def plain_reasoning(
    renderer: Any, messages: Sequence[Any], index: int, written: Sequence[int]
) -> str:
    """What becomes of reasoning that an answer holds as plain text, not as a thinking part.

    Args:
        renderer, messages, index: As for `render_turn`.
        written: The end of the prompt and the answer's tokens.
    """
    content = messages[index]["content"]
    told = f"Message {index} holds its reasoning as plain text, not as a thinking part"
    answers = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    if index == answers[-1]:
        return f"{told}."
    prompt = list(messages[: answers[answers.index(index) + 1]])
    later = model_input_to_elements(renderer.build_generation_prompt(prompt))
    if content not in renderer.tokenizer.decode([at for at in later if isinstance(at, int)]):
        return f"{told}; this renderer does not write it into history as it stands."
    if content in renderer.tokenizer.decode(list(written)):
        return f"{told}: this renderer keeps it in history as it stands."
    return (
        f"{told}: history keeps it as it stands, but this renderer writes the answer itself "
        "otherwise, with line breaks for instance, and these are not in history."
    )


def first_sentence(error: object) -> str:
    """What an exception or warning says, cut after its first sentence, without the full stop."""
    detail = " ".join(str(error).split()) or type(error).__name__
    return re.split(r"(?<=[a-z])\. ", detail)[0][:300].rstrip(".")


def conversation_rollout(
    messages: Sequence[Any], renderer: Any, name: str = "conversation"
) -> ConversationRollout:
    """Every assistant message as one turn: prompt as observation, rendered answer as action.

    No model was asked, so there are no log-probabilities; a constant stands in for them,
    because whether turns extend depends on the tokens alone.

    Args:
        messages: From `parse_conversation`.
        renderer: A cookbook renderer.
        name: Name of the rollout.
    """
    turns = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    transitions: list[Transition] = []
    notes: list[str] = []
    seen: set[int] = set()
    for index in turns:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                observation, action, note = render_turn(renderer, messages, index)
                unwritten = unwritten_parts(renderer, messages, index, action)
        except Exception as error:  # whatever a renderer raises becomes the sentence
            return ConversationRollout(
                None,
                issues=(f"Message {index} cannot be rendered: {first_sentence(error)}.",),
            )
        if note:
            notes.append(f"Message {index}: {note}")
        notes.extend(
            f"Message {index}: this renderer does not write its {lost}, so the verdict is "
            "about the conversation without."
            for lost in unwritten
        )
        if isinstance(messages[index]["content"], str) and "</think>" in messages[index]["content"]:
            tail = [at for at in observation[-GENERATION_SUFFIX_TOKENS:] if isinstance(at, int)]
            notes.append(plain_reasoning(renderer, messages, index, [*tail, *action]))
        notes.extend(f"The renderer warns: {first_sentence(entry.message)}." for entry in caught)
        seen.update(element for element in observation if isinstance(element, int))
        seen.update(action)
        transitions.append(
            Transition(
                ob=elements_to_model_input(observation),
                ac=TokensWithLogprobs(
                    tokens=action, maybe_logprobs=[PLACEHOLDER_LOGPROB] * len(action)
                ),
                reward=0.0,
                episode_done=index == turns[-1],
            )
        )
    rollout = Rollout(
        name=name,
        trajectory=Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty()),
        vocab=token_texts(renderer.tokenizer, sorted(seen)),
    )
    return ConversationRollout(rollout, tuple(turns), notes=tuple(dict.fromkeys(notes)))


def policy_names() -> dict[str, str]:
    """Every behaviour of `ScriptedPolicy` with one line about it.

    Faults that befall one turn befall the second question: the turn before shows what they
    leave alone, the turn after what they spoil.
    """
    return {
        "plain": "answers at once, without reasoning",
        "reasoning": "reasons first, in the form its renderer uses, then answers",
        "empty_reasoning": "leaves its reasoning empty, in the form its renderer uses",
        "respelled": "same text, other tokens: the answer is spelled out letter by letter",
        "no_space": "leaves out the space with which its renderer begins an answer",
        "whitespace": "puts a space before and a newline after the answer",
        "other_end": "ends with the other end token, where its family has two",
        "wrong": "gets every second sum wrong",
        "no_end": "second answer comes without its end token, as from an engine that cuts it off",
        "cut": "rambles on at the second question until the token limit cuts it",
        "broken_call": "second answer is a tool call, between its tags, that is not JSON",
    }


def render_answer(renderer: Any, text: str, reasoning: str = "", block: bool = False) -> list[int]:
    """Action tokens of an answer, as the renderer itself would continue its own prompt.

    The answer is rendered as the last message of a conversation and the generation prompt is
    taken off. Three families write the two differently, so: where the tokens differ, the
    texts are compared; where those differ too, but the prompt has opened a reasoning block,
    the answer closes it; where a renderer refuses reasoning or drops it, the block is written
    by hand, as a model would that reasons although it was told not to.

    Args:
        renderer: Any renderer of the cookbook.
        text: The visible answer.
        reasoning: Put before it in the renderer's own form; "" for none.
        block: Keep the empty reasoning block that some renderers write around an answer
            without reasoning. A block that the prompt has opened is closed either way.
    """
    question: list[Any] = [{"role": "user", "content": "?"}]
    prompt: list[int] = renderer.build_generation_prompt(question).to_ints()
    tokenizer = renderer.tokenizer
    before = str(tokenizer.decode(prompt))
    written = f"<think>\n{reasoning}\n</think>\n\n"
    contents: list[Any] = [text]
    if reasoning:
        parts = [{"type": "thinking", "thinking": reasoning}, {"type": "text", "text": text}]
        contents = [parts, written + text]
    for content in contents:
        answer = {"role": "assistant", "content": content}
        try:
            example, _ = renderer.build_supervised_example([*question, answer])
            full: list[int] = example.to_ints()
        except Exception:  # this renderer does not write such a message: next form
            continue
        after = str(tokenizer.decode(full))
        opened = re.search(r"<think>\s*$", before)
        if full[: len(prompt)] == prompt:
            tokens = full[len(prompt) :]
        elif after.startswith(before):
            tokens = tokenizer.encode(after[len(before) :], add_special_tokens=False)
        elif opened and after.startswith(before[: opened.start()] + "<think>"):
            rest = after[opened.start() + len("<think>") :]
            tokens = tokenizer.encode(rest, add_special_tokens=False)
        else:
            continue
        said = str(tokenizer.decode(tokens))
        if reasoning and reasoning not in said:
            continue
        empty = re.match(r"<think>\s*</think>\s*", said)
        if empty and not block:
            tokens = tokenizer.encode(said[empty.end() :], add_special_tokens=False)
        return list(tokens)
    if reasoning:
        by_hand = tokenizer.encode(written, add_special_tokens=False)
        return [*by_hand, *render_answer(renderer, text, block=False)]
    stops = renderer.get_stop_sequences()
    end = (
        [stops[0]]
        if isinstance(stops[0], int)
        else tokenizer.encode(stops[0], add_special_tokens=False)
    )
    return [*tokenizer.encode(text, add_special_tokens=False), *end]


def respell(tokenizer: Any, tokens: Sequence[int], text: str) -> list[int]:
    """The same text in other tokens: those of `text` are spelled out character by character.

    A model may sample any split of a text into tokens; an encoder always gives the same one.
    Tokens outside the last occurrence of `text`, and characters that are not one token of
    their own, stay as they are.
    """
    pieces = [str(tokenizer.decode([token])) for token in tokens]
    start = "".join(pieces).rfind(text)
    spelled: list[int] = []
    cursor = 0
    for token, piece in zip(tokens, pieces, strict=True):
        inside = start >= 0 and start - 1 <= cursor and cursor + len(piece) <= start + len(text)
        letters = [tokenizer.encode(char, add_special_tokens=False) for char in piece]
        if inside and all(len(letter) == 1 for letter in letters):
            spelled.extend(letter[0] for letter in letters)
        else:
            spelled.append(token)
        cursor += len(piece)
    return spelled


def other_end(renderer: Any, tokens: Sequence[int]) -> list[int]:
    """The same answer with the family's other end token; unchanged where there is only one.

    Families with several stop tokens: the first that is not the usual one. A family that stops
    on a string may also end with the vocabulary's end of text.
    """
    stops = renderer.get_stop_sequences()
    if isinstance(stops[0], int):
        others = [stop for stop in stops if stop != tokens[-1]]
        return [*tokens[:-1], others[0]] if tokens[-1] in stops and others else list(tokens)
    end = getattr(renderer.tokenizer, "eos_token_id", None)
    said = str(renderer.tokenizer.decode(list(tokens)))
    if end is None or not said.endswith(stops[0]):
        return list(tokens)
    body = said.removesuffix(stops[0])
    return [*renderer.tokenizer.encode(body, add_special_tokens=False), end]


@dataclass
class ScriptedPolicy(TokenCompleter):
    """A pupil in place of a model: reads the last sum in its prompt and answers as told.

    Deterministic: the same prompt, behaviour and seed give the same tokens and logprobs.

    Attributes:
        renderer: Speaks this renderer's language, and reads prompts with its tokenizer.
        behaviour: A name of `policy_names`.
        max_tokens: Limit of one answer, as `TinkerTokenCompleter` has one; an answer beyond it
            is cut and says so with `stop_reason="length"`.
        seed: Draws the logprobs.
        memo: Answers rendered so far; policies of one renderer may share one.
    """

    renderer: Any
    behaviour: str = "plain"
    max_tokens: int = 64
    seed: int = 0
    memo: dict[tuple[str, str, bool], list[int]] = field(default_factory=dict, repr=False)

    async def __call__(
        self, model_input: tinker.ModelInput, stop: Any, *, max_tokens: int | None = None
    ) -> TokensWithLogprobs:
        """One answer, at most as long as the smaller of the two limits."""
        limit = self.max_tokens if max_tokens is None else min(self.max_tokens, max_tokens)
        read = [token for token in model_input_to_elements(model_input) if isinstance(token, int)]
        prompt = str(self.renderer.tokenizer.decode(read))
        answer = self.answer(prompt, limit)
        tokens = answer[:limit]
        draw = random.Random(f"{self.seed} {self.behaviour} {prompt}")
        return TokensWithLogprobs(
            tokens=tokens,
            maybe_logprobs=[-round(0.01 + draw.expovariate(3.0), 4) for _ in tokens],
            stop_reason="length" if len(answer) > limit else "stop",
        )

    def answer(self, prompt: str, limit: int) -> list[int]:
        """The whole answer to the last sum in the prompt, not yet cut."""
        sums = re.findall(r"What is (\d+) \+ (\d+)\?", prompt)
        left, right = (int(term) for term in sums[-1]) if sums else (0, 0)
        second = len(sums) == 2
        total = left + right
        if self.behaviour == "wrong" and len(sums) % 2 == 0:
            total += 1
        text = f"It is {total}." if sums else "Which sum?"
        if self.behaviour == "reasoning":
            return self.render(text, f"{left} and {right} make {total}.")
        if self.behaviour == "broken_call" and second:
            text = '<tool_call>\n{"name": "add", "arguments": {"a": \n</tool_call>'
        if self.behaviour == "cut" and second:
            text = "Let me count: " + ", ".join(map(str, range(limit + 1)))
        tokens = self.render(text, block=self.behaviour == "empty_reasoning")
        if self.behaviour == "respelled":
            return respell(self.renderer.tokenizer, tokens, text)
        if self.behaviour == "other_end":
            return other_end(self.renderer, tokens)
        if self.behaviour == "no_end" and second:
            return self.without_end(tokens)
        said = str(self.renderer.tokenizer.decode(tokens))
        if self.behaviour == "whitespace":
            said = f" {text}\n".join(said.rsplit(text, 1))
        elif self.behaviour == "no_space":
            said = said.removeprefix(" ")
        else:
            return tokens
        return list(self.renderer.tokenizer.encode(said, add_special_tokens=False))

    def render(self, text: str, reasoning: str = "", block: bool = False) -> list[int]:
        """`render_answer`, each answer once."""
        key = (text, reasoning, block)
        if key not in self.memo:
            self.memo[key] = render_answer(self.renderer, text, reasoning, block)
        return list(self.memo[key])

    def without_end(self, tokens: list[int]) -> list[int]:
        """The answer up to its stop token or stop string."""
        stops = self.renderer.get_stop_sequences()
        if isinstance(stops[0], int):
            return [token for token in tokens if token not in stops]
        said = str(self.renderer.tokenizer.decode(tokens)).removesuffix(stops[0])
        return list(self.renderer.tokenizer.encode(said, add_special_tokens=False))


class TutorEnv(MessageEnv):
    """A tutor that asks small sums: one question a turn, one point for each right answer.

    It sees messages only. `EnvFromMessageEnv` makes an environment of tokens out of it: it
    renders the whole conversation anew each turn, parses the answer, and ends the episode
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


async def play(
    renderer: Any,
    policy: TokenCompleter,
    tutor: MessageEnv,
    parse_error_policy: ParseErrorPolicy | None = None,
    **limits: Any,
) -> Trajectory:
    """One rollout: messages in, tokens out, through the cookbook's own adapter and loop.

    Args:
        renderer: Writes the conversation as tokens and reads answers back.
        policy: Samples an answer for a prompt.
        tutor: The environment of messages.
        parse_error_policy: What to do with answers that do not parse.
        limits: Further arguments of `EnvFromMessageEnv`, such as `max_trajectory_tokens`.
    """
    env = EnvFromMessageEnv(renderer, tutor, **limits)
    if parse_error_policy is not None:
        env.set_parse_error_policy(parse_error_policy)  # hands it on to the tutor, too
    return await do_single_rollout(policy, env)


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

    trajectory = await play(
        renderer,
        Listener(),
        env,
        parse_error_policy=spec.parse_error_policy,
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
    lines: list[Line] = []
    told = 0
    for turn, transition in enumerate(trajectory.transitions):
        until = heard[turn] if turn < len(heard) else len(messages)
        for message in messages[told:until]:
            if message["role"] != "assistant":
                lines.append(Line(turn, "tutor", str(message["content"])))
        told = until
        if turn < len(heard):
            sampled = str(renderer.tokenizer.decode(list(transition.ac.tokens)))
            lines.append(Line(turn, "pupil", sampled))
    last = max(len(trajectory.transitions) - 1, 0)
    for message in messages[told:]:
        if message["role"] != "assistant":
            lines.append(Line(last, "tutor", str(message["content"])))
    seen: list[int] = []
    for transition in trajectory.transitions:
        elements = model_input_to_elements(transition.ob)
        seen.extend(element for element in elements if isinstance(element, int))
        seen.extend(transition.ac.tokens)
    return Episode(
        spec=spec,
        rollout=Rollout(
            f"{spec.renderer}, {spec.policy}", trajectory, token_texts(renderer.tokenizer, seen)
        ),
        messages=tuple(messages),
        lines=tuple(lines),
        renderer=renderer,
    )


def run_episodes(specs: Sequence[EpisodeSpec], tokenizer: Any | None = None) -> list[Episode | str]:
    """Play many scripted episodes on one event loop.

    Args:
        specs: What to play.
        tokenizer: Vocabulary for the renderers; None for the offline one.

    Returns:
        For each spec its episode, or the reason it has none in one sentence.
    """
    vocabulary = offline_tokenizer() if tokenizer is None else tokenizer
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

    result: list[Episode | str] = wait_for(play_all())
    return result


def hub_reachable(timeout: float = 3.0) -> bool:
    """Whether the Hugging Face hub answers at all; behind a proxy, taken on trust."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return True
    address = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    try:
        socket.create_connection((address.hostname or "", address.port or 443), timeout).close()
    except (OSError, ValueError):
        return False
    return True


def load_vocabulary(
    name: str,
    timeout: float = 30.0,
    loader: Callable[[str], Any] = get_tokenizer,
    reachable: Callable[[], bool] = hub_reachable,
    own_code: bool = False,
) -> tuple[Any | None, str]:
    """A model's own tokenizer by its Hugging Face name, or the reason there is none.

    Only ever called when a reader asks for it. Loading happens in a thread of its own that is
    left behind when it takes too long: without a network the hub client retries for minutes.

    Args:
        name: "owner/model". Paths are refused: `get_tokenizer` would run code found there.
        timeout: Seconds to wait; a tenth of it where the hub does not answer, enough for a
            model that has been downloaded before.
        loader, reachable: Stand in for the network in tests.
        own_code: Also load models whose tokenizer is code of their own (Kimi); not for a
            served app, where a stranger types the name.

    Returns:
        (tokenizer, "") or (None, one sentence).
    """
    model = name.strip()
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,60}/[A-Za-z0-9][\w.-]{0,90}", model):
        return None, "Type a model as owner/name, for example Qwen/Qwen3-8B."
    if Path(model).exists():
        return None, f"{model} is a path on this machine; only models of the hub are loaded."
    if model.lower().startswith("moonshotai/") and not own_code:
        return None, f"{model} brings code of its own, which a served page does not run."
    result: list[Any] = []

    def load() -> None:
        try:
            result.append(loader(model))
        except BaseException as error:  # told to the reader, whatever it is
            result.append(error)

    worker = threading.Thread(target=load, daemon=True)
    worker.start()
    worker.join(timeout / 10)
    silent = worker.is_alive() and not reachable()
    if not silent:
        worker.join(timeout * 9 / 10)
    stays = "The offline vocabulary stays."
    if silent and not result:
        return None, f"{model} could not be loaded: the hub cannot be reached from here. {stays}"
    if not result:
        return None, f"{model} did not load within {timeout:g} seconds. {stays}"
    if isinstance(result[0], BaseException):
        return None, f"{model} could not be loaded: {first_sentence(result[0])}. {stays}"
    return result[0], ""


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


def scroll_table(frame: pd.DataFrame, title: str) -> mo.Html:
    """A table in a box that scrolls sideways where it is too wide."""
    return mo.Html(
        f'<div class="seq-scroll" tabindex="0" role="group" aria-label="{html.escape(title)}">'
        f"{table_html(frame)}</div>"
    )


def control_panel(elements: Mapping[str, Any]) -> mo.Html:
    """Controls in a grid: as many columns as fit, one on a phone."""
    cells = "".join(f'<div style="min-width:0">{element}</div>' for element in elements.values())
    return lean(
        mo.Html(
            '<div style="display:grid;gap:0.5rem 2rem;align-items:end;'
            f'grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr))">{cells}</div>'
        )
    )


def spec_of(values: Mapping[str, Any]) -> EpisodeSpec:
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


def episode_headline(diagnosis: Diagnosis, stop_reason: str | None) -> str:
    """What came of an episode in one line, for markdown."""
    turns = len(diagnosis.spans)
    built = diagnosis.built
    made = built.error_message or count_of(len(built.data), "datum")
    return f"{count_of(turns, 'turn')}, {made}; stop reason `{stop_reason or 'none'}`"


def transcript(episode: Episode, spans: Sequence[TurnSpan]) -> mo.Html:
    """The conversation as bubbles: a prompt with its verdict, an answer with its reward.

    The pupil's bubbles show what was sampled, markers and line breaks made visible.

    Args:
        episode: What to show.
        spans: Its turns as `walk_turns` gives them.
    """
    items = []
    opened: set[int] = set()
    for line in episode.lines:
        told = "".join(
            char if char.isprintable() else "↵" if char == "\n" else f"\\u{ord(char):04x}"
            for char in line.text
        )
        pupil = line.role == "pupil"
        head = f"Turn {line.turn} · {'A pupil, as sampled' if pupil else 'O tutor'}"
        if pupil:
            head += f" · reward {number_text(episode.rewards[line.turn])}"
        # a turn that saw nothing has no bubble of the tutor: its verdict stands at the answer
        if line.turn not in opened and (pupil or spans[line.turn].observation):
            mark = "✕ " if spans[line.turn].splits else ""
            head += f" · {mark}{span_words(spans[line.turn])}"
        opened.add(line.turn)
        items.append(
            f"<li{' class=seq-pupil' * pupil}><small>{html.escape(head)}</small>"
            f"<p>{html.escape(told)}</p>"
        )
    return mo.Html(f'<ol aria-label="Transcript" class="seq-transcript">{"".join(items)}</ol>')


def code_of(*things: Any) -> str:
    """Source of classes and functions as they run, without marimo's decorators.

    A class of a running notebook has no file that `inspect` could open, but its methods know
    where they were compiled from.
    """
    texts = []
    trees: dict[str, ast.Module] = {}
    for thing in things:
        member = thing
        if inspect.isclass(thing):
            member = next(value for value in vars(thing).values() if inspect.isfunction(value))
        source = "".join(inspect.findsource(inspect.unwrap(member))[0])
        if source not in trees:
            trees[source] = ast.parse(source)
        node = next(
            node
            for node in trees[source].body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name == thing.__name__
        )
        texts.append(ast.get_source_segment(source, node) or "")
    return "\n\n\n".join(texts)


def tutor_code() -> str:
    """A script to start one's own environment from: the imports, `TutorEnv`, and `play`."""
    imports = """import random
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
)"""
    return f"{imports}\n\n\n{code_of(TutorEnv, play)}\n"


def break_words(diagnosis: Diagnosis, found: Break, width: int = 8) -> tuple[str, str, str]:
    """The text around a break: what both sides share before it, what was held, what came.

    Args:
        diagnosis, found: The break belongs to the diagnosis.
        width: Tokens on each side; the cut text of a long token is not shortened further.
    """
    held, new = break_sides(diagnosis, found)

    def words(elements: Sequence[Any]) -> str:
        vocab = diagnosis.rollout.vocab
        return "".join(
            vocab.get(element, f"[{element}]") if isinstance(element, int) else "[image]"
            for element in elements
        )

    start, end = max(0, found.position - width), found.position + width
    return (
        words(held[start : found.position]),
        words(held[found.position : end]),
        words(new[found.position : end]),
    )


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


def code_list(names: Iterable[str]) -> str:
    """Names as markdown code, joined; "none" when there are none."""
    return ", ".join(f"<code>{html.escape(name)}</code>" for name in names) or "none"


def matrix_prose(table: pd.DataFrame) -> mo.Html:
    """What the matrix shows, in sentences whose every name and number is read from it."""

    def those(verdict: str, policy: str) -> list[str]:
        found = table[(table["verdict"] == verdict) & (table["policy"] == policy)]
        return found["renderer"].tolist()

    claiming = table[table["claims"] == "yes"]["renderer"].nunique()
    built = table[table["claims"] != "unknown"]["renderer"].nunique()
    lines = [
        f"Each cell is one rollout of section 7's tutor: datums over turns, so 1/3 means that "
        f"three turns became one datum. {claiming} of {built} renderers claim extension.",
        "- **Claimed, and yet it splits on plain answers:** " + code_list(those("broken", "plain")),
        "- **Claimed, and yet it splits on reasoning:** " + code_list(those("broken", "reasoning")),
        "- **Not claimed, and yet plain answers merge:** " + code_list(those("better", "plain")),
        "- **Not claimed, and yet reasoning merges:** " + code_list(those("better", "reasoning")),
    ]
    text = "\n".join([lines[0], "", *lines[1:]])
    policies = "\n".join(f"- `{name}`: {words}" for name, words in policy_names().items())
    return mo.md(
        f"{text}\n\nThe claim is about what a renderer writes. It cannot vouch for tokens that "
        "no renderer would write, such as an answer spelled letter by letter (`respelled`): "
        "the next prompt holds the same text in other tokens. The templates here are each "
        "family's own; the vocabulary is one for all, so what hangs on where a tokenizer cuts "
        "(`respelled`, `no_space`, `whitespace`) can differ for your model."
        f"\n\n/// details | What each pupil does\n\n{policies}\n///"
    )


def unbuilt_view(table: pd.DataFrame) -> mo.Html:
    """The renderers that could not be built, each with its reason; or that there are none."""
    missing = table[table["claims"] == "unknown"].drop_duplicates("renderer")
    if missing.empty:
        return note(
            f"All {table['renderer'].nunique()} renderers of the installed cookbook were built "
            "on the vocabulary that comes with tml-renderers; nothing was downloaded."
        )
    return mo.Html("".join(note(reason, "look").text for reason in missing["reason"]))


def breaks_table(diagnosis: Diagnosis, width: int = 8) -> pd.DataFrame:
    """Every break in words: where, why, and the text of `width` tokens on both sides of it."""
    rows = []
    for found in diagnosis.breaks:
        before, held, came = break_words(diagnosis, found, width)
        left = [
            "…" if len(side) > found.position + width else ""
            for side in break_sides(diagnosis, found)
        ]
        rows.append(
            {
                "turn": found.turn,
                "position": found.position,
                "cause": cause_name(found.cause),
                "both had": ("…" if found.position > width else "") + visible_text(before, 60),
                "the model had seen or said": visible_text(held, 60) + left[0],
                "the next prompt has": visible_text(came, 60) + left[1] or "(it ends here)",
            }
        )
    return pd.DataFrame(rows)


def titled_table(frame: pd.DataFrame, title: str) -> mo.Html:
    """A table that scrolls sideways, under a title that stays in view when it does."""
    table = scroll_table(frame, title).text
    return mo.Html(f'<div class="seq-figure"><b>{html.escape(title)}</b>{table}</div>')


def breaks_view(diagnosis: Diagnosis) -> mo.Html:
    """The breaks of a rollout as a table, or the sentence that there are none."""
    if diagnosis.built.error_message is not None:
        return note(diagnosis.built.error_message, "error")
    turns, datums = len(diagnosis.spans), len(diagnosis.built.data)
    if not diagnosis.breaks:
        return note(f"{count_of(turns, 'turn')}, {count_of(datums, 'datum')}: nothing splits.")
    return titled_table(
        breaks_table(diagnosis),
        f"{count_of(turns, 'turn')}, {count_of(datums, 'datum')}: where it splits",
    )


def break_drawings(diagnosis: Diagnosis, most: int | None = None) -> mo.Html:
    """Breaks with both sides aligned: the first drawn, the others to unfold.

    Args:
        diagnosis: Of any rollout.
        most: Breaks drawn at most; without it the first one of each cause.
    """
    firsts: dict[str, Break] = {}
    for found in diagnosis.breaks:
        firsts.setdefault(found.cause, found)
    chosen = list(diagnosis.breaks[:most]) if most else list(firsts.values())
    drawn = [
        break_figure(break_table(diagnosis, found), break_title(diagnosis, found)).text
        for found in chosen
    ]
    folded = [
        f'<details class="seq-facts"><summary>{html.escape(break_headline(found))}</summary>'
        f"{figure}</details>"
        for found, figure in zip(chosen[1:], drawn[1:], strict=True)
    ]
    left = len(diagnosis.breaks) - len(drawn)
    alike = "" if most else " of the same " + ("cause" if len(drawn) == 1 else "causes")
    told = f"{count_of(left, 'more break')}{alike} not drawn."
    rest = note(told).text if left > 0 else ""
    return mo.Html("".join([*drawn[:1], *folded, rest]))


def rollout_figures(diagnosis: Diagnosis, size: int = WINDOW, most: int = 2) -> list[mo.Html]:
    """A rollout as runs, and strips of the tokens around its first breaks.

    Args:
        diagnosis: Of any rollout; nothing is drawn where it has no datum.
        size: Positions in one strip.
        most: Strips at most. Where nothing splits, or nothing at all is shared, the strip shows
            where the datum's first action begins.
    """
    if not diagnosis.built.data:
        return []
    marks = break_marks(diagnosis)
    actions = {run.datum: run.start for run in reversed(diagnosis.runs) if run.part == "A"}
    table = alignment_table(diagnosis.built, diagnosis.runs, diagnosis.rollout.vocab)
    places = [(datum, at or actions.get(datum, 0)) for datum, at, _ in marks[:most]]
    shown = [figure_box(runs_chart(diagnosis.runs, marks), runs_finding(diagnosis.runs))]
    for datum, position in places or [(0, actions.get(0, 0))]:
        rows = window(table[table["datum"] == datum], max(0, position - size // 2), size)
        shown.append(strip_figure(rows, [mark for mark in marks if mark[0] == datum]))
    return shown


def episode_view(episode: Episode, sampled: bool = False) -> list[Any]:
    """Everything about one episode: ending, transcript, breaks with their text, strips.

    Args:
        episode: What to show.
        sampled: Its logprobs come from a model.
    """
    diagnosis = diagnose(episode.rollout)
    return [
        mo.md(explain_ending(episode)),
        transcript(episode, diagnosis.spans),
        breaks_view(diagnosis),
        break_drawings(diagnosis),
        note(f"{STAND_IN}." if sampled else f"The pupil's logprobs are invented; {STAND_IN}."),
        *rollout_figures(diagnosis, most=1),
    ]


def conversation_example() -> str:
    """A conversation to start from: its answers hold reasoning."""
    turns = [
        ("What is 6 + 7?", "Six and seven make thirteen.", "It is 13."),
        ("And twice that?", "Twice thirteen is twenty-six.", "It is 26."),
        ("Minus one?", "Twenty-six less one is twenty-five.", "It is 25."),
    ]
    lines: list[str] = []
    for question, reasoning, answer in turns:
        parts = [{"type": "thinking", "thinking": reasoning}, {"type": "text", "text": answer}]
        lines.append(json.dumps({"role": "user", "content": question}))
        lines.append(json.dumps({"role": "assistant", "content": parts}))
    return "[\n  " + ",\n  ".join(lines) + "\n]"


def conversation_everywhere(messages: Sequence[Any]) -> pd.DataFrame:
    """One conversation under every renderer that can be built: turns, datums, first cause."""
    tokenizer = offline_tokenizer()
    rows = []
    for name in renderer_names():
        renderer, problem = build_renderer(name, tokenizer)
        found = conversation_rollout(messages, renderer) if renderer is not None else None
        if found is None or found.rollout is None:
            said = problem or " ".join(found.issues if found else ())
            rows.append({"renderer": name, "datums/turns": "none", "first break": "", "note": said})
            continue
        diagnosis = diagnose(found.rollout)
        split = diagnosis.breaks[0] if diagnosis.breaks else None
        rows.append(
            {
                "renderer": name,
                "datums/turns": f"{len(diagnosis.built.data)}/{len(diagnosis.spans)}",
                "first break": f"turn {split.turn}, {cause_name(split.cause)}" if split else "",
                "note": " ".join(found.notes),
            }
        )
    return pd.DataFrame(rows)


def renderers_alike(table: pd.DataFrame) -> pd.DataFrame:
    """`conversation_everywhere` with one row for all renderers that it says the same of."""
    told = ["datums/turns", "first break", "note"]
    alike = table.groupby(told, sort=False)["renderer"].agg(", ".join).reset_index()
    return alike[["renderer", *told]]


def conversation_view(found: ConversationRollout) -> mo.Html:
    """The verdict on a pasted conversation, turn by turn."""
    assert found.rollout is not None
    diagnosis = diagnose(found.rollout)
    broken = {entry.turn: entry for entry in diagnosis.breaks}
    rows = []
    for span, message in zip(diagnosis.spans, found.answers, strict=True):
        entry = broken.get(span.turn)
        verdict = "extends" if span.turn else "opens the first datum"
        if entry is not None:
            verdict = f"splits at position {entry.position}: {cause_name(entry.cause)}"
        rows.append(
            {
                "message": message,
                "turn": span.turn,
                "datum": span.datum,
                "prompt tokens": span.observation,
                "answer tokens": span.action,
                "verdict": verdict,
            }
        )
    notes = "".join(note(text, "look").text for text in found.notes)
    return mo.vstack(
        [
            titled_table(pd.DataFrame(rows), "The assistant's messages as turns"),
            *([mo.Html(notes)] if notes else []),
            breaks_view(diagnosis),
            break_drawings(diagnosis),
            note(
                f"No model was asked, so the logprobs of {number_text(PLACEHOLDER_LOGPROB)} are "
                f"invented; {STAND_IN}."
            ),
            *rollout_figures(diagnosis, most=1),
        ]
    )


class SecretField:
    """A password field whose content shows nowhere: the editor prints the value of every widget
    that a variable holds in its variables panel, but not what stands inside of this object.
    """

    def __init__(self, label: str) -> None:
        self.field = mo.ui.text(kind="password", label=label, full_width=True)

    def __repr__(self) -> str:
        return "SecretField()"

    def reveal(self) -> str:
        """What has been typed."""
        return str(self.field.value)


def is_live_editor() -> bool:
    """True in `marimo edit` with a reader before it; an export says "edit" too, but has none."""
    return mo.app_meta().mode == "edit" and mo.app_meta().request is not None


def model_renderer(model: str) -> str | None:
    """The renderer that the cookbook recommends for a model; None for a model it does not know."""
    try:
        return get_recommended_renderer_name(model.strip())
    except Exception:  # unknown organisation, unknown model, no slash: all mean the same here
        return None


def say_without(secret: str, error: BaseException) -> str:
    """The first sentence of an error, with a secret struck out wherever it stands in it."""
    said = first_sentence(error)
    return said.replace(secret, "(key)") if secret else said


def sample_pupil(
    spec: EpisodeSpec,
    model: str,
    api_key: str,
    connect: Callable[[str], Any] | None = None,
    loader: Callable[[str], Any] = get_tokenizer,
    patience: float = 120.0,
) -> tuple[Episode | None, str]:
    """One episode with a model of Tinker as the pupil. Costs money.

    The model is sampled through the cookbook's `TinkerTokenCompleter`; tutor, adapter and loop
    are those of every other episode. All that may wait for a network happens in threads that
    are left behind, and sample nothing any more, once the patience is over: the client itself
    would retry for minutes.

    Args:
        spec: What to play; its policy is ignored, its renderer too where the cookbook
            recommends one for the model.
        model: "owner/name" of a base model.
        api_key: The Tinker key; only handed to the client, never kept or shown.
        connect: Makes a service client from the key; `tinker.ServiceClient` when None.
        loader: Loads the model's tokenizer, `get_tokenizer` in the page.
        patience: Seconds to wait for tokenizer and episode each.

    Returns:
        (episode, "") or (None, one sentence).
    """
    key = api_key.strip()
    if not key:
        return None, (
            "There is no key. Type one, or set TINKER_API_KEY before you start the editor."
        )
    tokenizer, problem = load_vocabulary(model, patience, loader, own_code=True)
    if tokenizer is None:
        return None, problem
    name = model_renderer(model) or spec.renderer
    renderer, problem = build_renderer(name, tokenizer)
    if renderer is None:
        return None, problem
    given_up = threading.Event()
    outcome: list[Any] = []

    class Pupil(TinkerTokenCompleter):
        """Stops asking as soon as nobody waits for the answer any more."""

        async def __call__(self, *args: Any, **kwargs: Any) -> TokensWithLogprobs:
            if given_up.is_set():
                raise TimeoutError("nobody waits for this answer any more")
            return await super().__call__(*args, **kwargs)

    def play_it() -> None:
        service: Any = None
        try:
            service = tinker.ServiceClient(api_key=key) if connect is None else connect(key)
            client = service.create_sampling_client(base_model=model.strip())
            if hasattr(client, "result"):  # newer clients give a future of the client
                client = client.result()
            pupil = Pupil(client, max_tokens=spec.max_generation_tokens)
            with warnings.catch_warnings():  # the cookbook calls what newer clients deprecate
                warnings.simplefilter("ignore", FutureWarning)
                played = play_episode(replace(spec, renderer=name), renderer, pupil)
                outcome.append(asyncio.run(played))
        except BaseException as error:  # told to the reader, whatever it is
            outcome.append(error)
        finally:
            with contextlib.suppress(Exception):
                if hasattr(service, "close"):
                    service.close("success")

    worker = threading.Thread(target=play_it, daemon=True)
    worker.start()
    worker.join(patience)
    given_up.set()
    if not outcome:
        return None, (
            f"Tinker did not answer within {patience:g} seconds. Check the network and the key."
        )
    if isinstance(outcome[0], BaseException):
        return None, f"Tinker could not be sampled: {say_without(key, outcome[0])}."
    return outcome[0], ""


def group_text(result: GroupResult) -> str:
    """What the group figure shows, in sentences; markdown, every number from `result`."""
    summary = group_summary(result)
    members, datums = len(result.letters), len(result.data)
    sentences = [
        f"{count_of(members, 'rollout')} with a mean reward of {number_text(result.mean, 3)} "
        f"{'gives' if members == 1 else 'give'} {count_of(datums, 'datum')}."
    ]
    split = summary[summary["datums"] > 1].sort_values("datums", ascending=False)
    for most in split.to_dict("records")[:1]:
        sentences.append(
            f"Rollout {most['rollout']} became {most['datums']} datums; the same number, "
            f"{most['advantage']}, stands on all {most['mask 1']} of its trained tokens."
        )
    for row in summary[summary["datums"] == 0].to_dict("records"):
        others = [
            reward
            for letter, reward in zip(result.letters, result.rewards, strict=True)
            if letter != row["rollout"]
        ]
        if others:
            sentences.append(
                f"Rollout {row['rollout']} has no token to train, yet its reward counts: without "
                f"it the mean would be {number_text(sum(others) / len(others), 3)}."
            )
    masked = summary[summary["mask 1"] < summary["action tokens"]]
    for row in masked[masked["datums"] > 0].to_dict("records"):
        lost = row["action tokens"] - row["mask 1"]
        sentences.append(
            f"In rollout {row['rollout']}, {count_of(lost, 'action token')} of a turn that did "
            f"not parse {'is' if lost == 1 else 'are'} masked: mask 0, advantage 0."
        )
    if not result.kept:
        sentences.append(
            "**All rewards are equal, so there is no policy gradient.** "
            "`remove_constant_reward_groups`, off by default, drops such groups from a batch; "
            "if every group is constant, one is kept."
        )
    return " ".join(sentences)


def mask_lines() -> str:
    """The lines of the installed `rl/train.py` that take `mask` out, with their numbers."""
    module = inspect.getmodule(inspect.unwrap(train_step))
    lines = inspect.getsource(module).splitlines() if module else []
    return "\n".join(
        f"{number:>4}  {line}"
        for number, line in enumerate(lines, start=1)
        if "_remove_mask" in line or '"mask"' in line
    )


def loss_fields(data_D: Sequence[tinker.Datum]) -> pd.DataFrame:
    """Which fields of the datums `train_step` lets through to the loss.

    Returns:
        Columns field of `loss_fn_inputs`, in the datum, reaches forward_backward.
    """
    sent = sent_to_loss(data_D)
    names = sorted({name for datum in data_D for name in datum.loss_fn_inputs})
    return pd.DataFrame(
        {
            "field of loss_fn_inputs": names,
            "in the datum": ["yes"] * len(names),
            "reaches forward_backward": [
                "yes" if all(name in datum.loss_fn_inputs for datum in sent) else "no, removed"
                for name in names
            ],
        }
    )


@dataclass(frozen=True)
class Question:
    """One question of section 10; its answer was computed when it was made.

    Attributes:
        key: Short name, unique among the questions.
        ask: The question, markdown.
        options: Distinct answers in a fixed order.
        answer: Index of the right one.
        why: One or two sentences on why, markdown.
    """

    key: str
    ask: str
    options: tuple[str, ...]
    answer: int
    why: str

    @property
    def right(self) -> str:
        """The right option."""
        return self.options[self.answer]


def pose(key: str, ask: str, right: Any, wrong: Sequence[Any], why: str) -> Question:
    """A question from a computed answer and plausible wrong ones.

    Wrong answers that happen to equal the right one, or each other, are left out. Numbers are
    ordered by size, everything else by text, so that the place gives nothing away.

    Raises:
        ValueError: Fewer than two wrong answers are left.
    """
    others = [option for option in dict.fromkeys(wrong) if option != right]
    if len(others) < 2:
        raise ValueError(f"Question {key} needs at least two wrong answers, not {others}.")

    def size(option: Any) -> float:
        return float(str(option).replace("\u2212", "-"))

    try:
        ordered = sorted((right, *others), key=size)
    except ValueError:
        ordered = sorted((right, *others), key=str)
    options = tuple(str(option) for option in ordered)
    return Question(key, ask, options, ordered.index(right), why)


def turns_block(trajectory: Trajectory, vocab: Mapping[int, str] | None = None) -> str:
    """A trajectory of token ids as a block: what each turn saw and what it said."""
    words = vocab or {}

    def line(tokens: Sequence[int]) -> str:
        texts = [
            f"{token} {json.dumps(words[token], ensure_ascii=False)}"
            if token in words
            else str(token)
            for token in tokens
        ]
        return ("  " if words else " ").join(texts) or "(nothing)"

    lines: list[str] = []
    for turn, transition in enumerate(trajectory.transitions):
        masked = PARSE_ERROR_MASKED_METRIC_KEY in transition.metrics
        lines.append(f"turn {turn}  saw   {line(transition.ob.to_ints())}")
        lines.append(f"        said  {line(transition.ac.tokens)}{'   (masked)' if masked else ''}")
    spans = "\n".join(f"<span>{html.escape(line)}</span>" for line in lines)
    return f'<pre class="quiz-turns">{spans}</pre>'


def mask_text(values: Iterable[float]) -> str:
    """A mask as a list of 0 and 1, in backticks."""
    return "`[" + " ".join(f"{value:.0f}" for value in values) + "]`"


def prefix_checker() -> tuple[str, list[str]]:
    """Which of four candidates compares observation and running sequence, by its source.

    Returns:
        The one whose source calls the cookbook's prefix check, and the others.

    Raises:
        ValueError: Not exactly one of them does.
    """
    sources = {
        "`trajectory_to_data`, after the rollout": trajectory_to_data,
        "`EnvFromMessageEnv`, at every step": EnvFromMessageEnv,
        "`do_single_rollout`, between the turns": do_single_rollout,
        "`train_step`, just before `forward_backward`": inspect.unwrap(train_step),
    }
    named = {name: "_is_prefix(" in inspect.getsource(part) for name, part in sources.items()}
    found = [name for name, calls in named.items() if calls]
    if len(found) != 1:
        raise ValueError(f"The prefix check is called in {found or 'none of the candidates'}.")
    return found[0], [name for name in named if name != found[0]]


def quiz_questions() -> list[Question]:
    """The questions of section 10; every right answer comes from a call made here."""
    questions: list[Question] = []

    switching = diagnose(scenario_rollout(scenarios()["new_context"]))
    turns = len(switching.spans)
    questions.append(
        pose(
            "datums",
            f"Two agents share one rollout and take turns: A, B, A, B. Each of A's prompts "
            f"extends A's own last turn, each of B's extends B's. How many datums do these "
            f"{turns} turns become?",
            len(switching.built.data),
            [switching.lineages, 1, 3],
            f"`trajectory_to_data` keeps one running sequence, and each of the "
            f"{len(switching.breaks)} switches leaves it. With a sequence kept per agent "
            f"{switching.lineages} would do.",
        )
    )

    drifted = token_trajectory(
        [([10, 11, 12], [20, 21, 22]), ([10, 11, 12, 20, 29, 22, 30], [40, 41])]
    )
    span = walk_turns(drifted)[1]
    questions.append(
        pose(
            "position",
            "At which position, counted from 0, does turn 1 leave the running sequence?\n\n"
            + turns_block(drifted),
            span.position,
            [span.position + 1, 3, span.held, 1],
            f"The running sequence is the observation *and* the action of turn 0, "
            f"{span.held} tokens. The first {span.position} agree; at position {span.position} "
            f"turn 1 has 29 where 21 was sampled.",
        )
    )

    short = token_trajectory([([10, 11, 12], [20, 21]), ([10, 11, 12, 20, 21, 13], [22])])
    mask = datum_tensor(build_datums(short).data[0], "mask")
    length = len(mask) + 1
    unshifted = [0.0] * 3 + [1.0] * 2 + [0.0] + [1.0]
    questions.append(
        pose(
            "mask",
            "Which `mask` does the datum carry?\n\n" + turns_block(short),
            mask_text(mask),
            [
                mask_text(unshifted),
                mask_text(unshifted[:-1]),
                mask_text(1 - value for value in mask),
            ],
            f"{length} tokens give {len(mask)} inputs and {len(mask)} targets, and the mask "
            f"belongs to the targets: token 0 is never a target, so everything moves one to "
            f"the left.",
        )
    )

    members = group_rollouts()
    rewards: dict[str, tuple[float, ...]] = {"A": (0, 0, 1), "B": (0.5, 0.5), "G": (0,), "E": (-1,)}
    group = assemble_group(members, rewards)
    present = [
        total for letter, total in zip(group.letters, group.rewards, strict=True) if letter != "E"
    ]
    deviation = float(np.std(group.rewards))
    questions.append(
        pose(
            "advantage",
            "Four rollouts of one group. A got the rewards 0, 0, 1 over its three turns; B got "
            "0.5 and 0.5; G got 0; E was over budget before it began, has no datum, and got "
            "\u22121. Which advantage stands on the action tokens of A's *first* turn?",
            signed(group.advantages[0]),
            [
                signed(0.0 - group.mean),
                signed(group.rewards[0]),
                signed(group.rewards[0] - sum(present) / len(present)),
                signed(group.advantages[0] / deviation),
            ],
            f"The rewards of all turns are summed: {number_text(group.rewards[0])}. The mean over "
            f"all {len(group.rewards)} rollouts, E included, is {number_text(group.mean)}. The "
            "difference stands on every action token of A; nothing divides by the standard "
            "deviation.",
        )
    )

    flat = assemble_group(members, {"A": (0, 0, 1), "C": (1, 0), "D": (0, 1, 0), "G": (1,)})
    ones = nonzero_targets(flat.data, "mask")
    targets = sum(datum.model_input.length for datum in flat.data)
    questions.append(
        pose(
            "gradient",
            f"All rollouts of a group, {', '.join(flat.letters)} of section 6, earned "
            f"{flat.rewards[0]:g}. Together they have {targets} targets. On how many of them is "
            f"the policy gradient not 0?",
            nonzero_targets(flat.data, "advantages"),
            [ones, targets, targets - ones],
            f"`mask` is 1 on {ones} targets, but `train_step` takes it out before "
            f"`forward_backward`. The loss sees `advantages`, and every one of them is "
            f"{flat.advantages[0]:g}.",
        )
    )

    spelled = token_trajectory([([50, 51], [61, 62, 9]), ([50, 51, 63, 9, 52], [64, 9])])
    vocab = {
        9: "<end>", 50: "7+9", 51: "?", 52: "8+8?", 61: "six", 62: "teen", 63: "sixteen", 64: "16",
    }  # fmt: skip
    cause = diagnose(Rollout("spelled", spelled, vocab)).breaks[0]
    questions.append(
        pose(
            "cause",
            "Why did turn 1 split?\n\n" + turns_block(spelled, vocab),
            cause_name(cause.cause),
            [cause_name(name) for name in ("removed", "end_token", "replaced", "retokenised")],
            f"The text is the same, the tokens are not: "
            f"{cause.expected} {json.dumps(vocab[cause.expected])} was sampled at position "
            f"{cause.position}, {cause.got} {json.dumps(vocab[cause.got])} came back. Return "
            f"the sampled tokens instead of tokenizing their text again.",
        )
    )

    stripped = diagnose(members["D"])
    sizes = [datum.model_input.length for datum in stripped.built.data]
    actions = sum(span.action for span in stripped.spans)
    questions.append(
        pose(
            "price",
            "Reasoning is stripped from history, so each of these turns is a datum of its own. "
            "How many tokens go through the model as inputs?\n\n"
            + turns_block(members["D"].trajectory),
            stripped.tokens_processed,
            [max(sizes), actions, (stripped.tokens_processed or 0) + len(sizes)],
            f"The datums hold {', '.join(map(str, sizes[:-1]))} and {sizes[-1]} inputs, one "
            f"fewer than their tokens. The prompt that they share is read "
            f"{len(sizes)} times; only {actions} tokens are trained.",
        )
    )

    opened = diagnose(scenario_rollout(scenarios()["empty"]))
    said = sum(span.action for span in opened.spans)
    trained = nonzero_targets(opened.built.data, "mask")
    questions.append(
        pose(
            "empty",
            "An answer did not parse, the episode went on, and the next observation was empty. "
            "No turn is masked. How many action tokens are trained?\n\n"
            + turns_block(opened.rollout.trajectory),
            trained,
            [said, opened.spans[-1].action, said - opened.spans[-1].action + 1],
            f"{said} tokens were sampled, {trained} have a target. The second datum opens with "
            f"an action: its first token is input 0, which nothing predicts.",
        )
    )

    checker, others = prefix_checker()
    questions.append(
        pose(
            "checker",
            "Who compares an observation with the sequence so far and decides to merge?",
            checker,
            others,
            "`EnvFromMessageEnv` only renders the whole conversation anew at each turn. The "
            "comparison is made later, in `rl/data_processing.py`, when datums are built.",
        )
    )
    return questions


def quiz_verdict(question: Question, chosen: str) -> str:
    """Right or not by sign, word and colour, and why; markdown."""
    right = chosen == question.right
    sign = (
        f'<span class="quiz-sign{" quiz-sign-right" * right}">'
        f'<span aria-hidden="true">{"✓" if right else "✕"}</span> {"Right" if right else "No"}'
        "</span>"
    )
    told = "" if right else f" It is **{question.right}**:"
    return f"{sign}.{told} {question.why}"


def quiz_score(questions: Sequence[Question], first: Mapping[str, str]) -> str:
    """The score of the first answers, in words."""
    right = sum(first.get(question.key) == question.right for question in questions)
    if not first:
        return f"{count_of(len(questions), 'question')}. Your first answer to each one counts."
    return f"{right} of {len(first)} right, {len(questions) - len(first)} to go."


def quiz_card(number: int, question: Question, form: Any, chosen: str | None) -> mo.Html:
    """One question with its form, and what the code says once an answer is given.

    In a static page no answer can be sent, so there the form gives way to an answer that
    unfolds; the page itself tells which of the two it shows.
    """
    told = mo.md(quiz_verdict(question, chosen)).text if chosen else ""
    options = mo.md("\n".join(f"- {option}" for option in question.options)).text
    answer = mo.md(f"**{question.right}**: {question.why}").text
    edge = f" quiz-{'right' if chosen == question.right else 'wrong'}" if chosen else ""
    return mo.Html(
        f'<div class="quiz-card{edge}">{mo.md(f"**{number}.** {question.ask}").text}'
        f'<div class="quiz-live">{form}<div role="status">{told}</div></div>'
        f'<div class="quiz-static">{options}<details><summary>Answer</summary>{answer}</details>'
        "</div></div>"
    )


@dataclass(frozen=True)
class Misconception:
    """Something people say of sequence extension, and what the code says.

    Attributes:
        key: Short name, unique in the list.
        said: The claim, markdown, as it is heard.
        code: The correction, markdown; its numbers come from calls.
    """

    key: str
    said: str
    code: str


def misconceptions() -> list[Misconception]:
    """Claims about sequence extension that do not hold, each with a fact computed here.

    A claim that the installed cookbook no longer contradicts is left out, so that the list
    stays true; the tests expect all of them.
    """
    known = scenarios()
    told: list[Misconception] = []

    def tell(key: str, said: str, code: str, *, holds: bool) -> None:
        if holds:
            told.append(Misconception(key, said, code))

    chat = diagnose(scenario_rollout(known["chat"]))
    entries = len(datum_tensor(chat.built.data[0], "mask"))
    tokens = sum(run.length for run in chat.runs)
    tell(
        "shift",
        "The mask has one entry per token, 0 for each observation and 1 for each action.",
        f"One per *target*. The {tokens} tokens of the example of section 2 give {entries} "
        f"entries; entry p belongs to token p + 1, and token 0 has none.",
        holds=entries == tokens - 1,
    )

    stripped = diagnose(scenario_rollout(known["removed"]))
    first, second = stripped.rollout.trajectory.transitions[:2]
    kept = model_input_to_elements(first.ob)
    tell(
        "prefix",
        "Turns merge when one observation is a prefix of the next.",
        f"Observation *and action* together must be a prefix. With reasoning stripped, turn 1 "
        f"begins with all {len(kept)} tokens of turn 0's observation, and splits at token "
        f"{stripped.breaks[0].position}, inside the answer.",
        holds=model_input_to_elements(second.ob)[: len(kept)] == kept
        and stripped.breaks[0].turn == 1,
    )

    members = group_rollouts()
    equal = preset_group(members, "All the same: no policy gradient")
    ones = nonzero_targets(equal.data, "mask")
    gradient = nonzero_targets(equal.data, "advantages")
    sent = sent_to_loss(equal.data)
    tell(
        "mask",
        "`mask` decides what is trained.",
        f"`train_step` removes it before `forward_backward`; the loss sees `advantages`. In the "
        f"group of equal rewards of section 6 `mask` is 1 on {ones} targets, and {gradient} of "
        f"them get a policy gradient.",
        holds=gradient == 0 < ones and all("mask" not in datum.loss_fn_inputs for datum in sent),
    )

    plain = nonzero_targets(kl_penalised(equal.data), "advantages", unmasked=True)
    leaked = nonzero_targets(kl_penalised(equal.data, 0.5), "advantages", unmasked=True)
    tell(
        "discount",
        "A token with mask 0, such as an observation token, never gets a gradient.",
        f"In the same group the KL penalty gives an advantage to {plain} such targets with "
        f"`kl_discount_factor=0`, the default, and to {leaked} with 0.5: it discounts after "
        f"masking.",
        holds=plain == 0 < leaked,
    )

    checker, _ = prefix_checker()
    tell(
        "checker",
        "`EnvFromMessageEnv` detects the prefix.",
        "It renders the whole conversation anew at every turn and compares nothing; "
        "`trajectory_to_data` compares, when the rollout is over.",
        holds="trajectory_to_data" in checker,
    )

    split = diagnose(members["D"])
    sampled = sum(span.action for span in split.spans)
    trained = nonzero_targets(split.built.data, "mask")
    longest = max(datum.model_input.length for datum in split.built.data)
    tell(
        "twice",
        "After a split, tokens are trained twice.",
        f"None is: what was sampled earlier comes back as context with mask 0. Rollout D of "
        f"section 6 samples {sampled} tokens and trains {trained}, in {len(split.built.data)} "
        f"datums. What is paid twice is reading: {split.tokens_processed} inputs, where the "
        f"longest datum has {longest}.",
        holds=trained == sampled and (split.tokens_processed or 0) > longest,
    )

    agents = diagnose(scenario_rollout(known["new_context"]))
    tell(
        "agents",
        "Two agents in one rollout give two datums.",
        f"Only one running sequence is kept, so A, B, A, B gives {len(agents.built.data)}; "
        f"{agents.lineages} would do.",
        holds=len(agents.built.data) > agents.lineages,
    )

    late = assemble_group(members, {"A": (0, 0, 1), "B": (0, 0)})
    early = assemble_group(members, {"A": (1, 0, 0), "B": (0, 0)})
    values = {value for value in datum_tensor(late.data[0], "advantages") if value}
    tell(
        "credit",
        "A turn's reward goes to that turn's tokens.",
        f"Rewards are summed over the rollout. 0, 0, 1 and 1, 0, 0 both put "
        f"{signed(late.advantages[0])} on every action token of every turn.",
        holds=late.advantages == early.advantages and len(values) == 1,
    )

    uneven = assemble_group(members, {"A": (0, 0, 4), "B": (0, 0), "G": (0,), "H": (0,)})
    spread = float(np.std(uneven.advantages))
    tell(
        "deviation",
        "Advantages are divided by the group's standard deviation.",
        f"Only the mean is taken off. Rewards of 4, 0, 0 and 0 give "
        f"{', '.join(signed(value) for value in uneven.advantages)}, with a standard deviation "
        f"of {spread:.3g}.",
        holds=abs(spread - 1) > 0.1
        and all(
            math.isclose(advantage, reward - uneven.mean, abs_tol=1e-6)
            for advantage, reward in zip(uneven.advantages, uneven.rewards, strict=True)
        ),
    )

    joined = assemble_group(members, {"A": (0, 0, 1), "B": (0, 0), "E": (-1,)})
    tell(
        "overflow",
        "A rollout whose first prompt is over budget drops out.",
        f"It has no datum, but its reward counts: {number_text(-1)} moves the mean of 1 and 0 from "
        f"{number_text(late.mean, 3)} to {number_text(joined.mean, 3)}.",
        holds=len(joined.data) == len(late.data) and joined.mean != late.mean,
    )

    empty = diagnose(scenario_rollout(known["empty"]))
    said = sum(span.action for span in empty.spans)
    left = nonzero_targets(empty.built.data, "mask")
    tell(
        "empty",
        "An empty observation does no harm.",
        f"The next action then opens a datum, and its first token is the target of nothing: "
        f"{said} tokens sampled, {left} trained.",
        holds=left < said,
    )

    shifted = replace(
        chat.rollout.trajectory,
        transitions=[
            replace(
                transition,
                ac=replace(
                    transition.ac,
                    maybe_logprobs=[-0.25] * (len(transition.ac.tokens) + (-1, 1, 0)[turn]),
                ),
            )
            for turn, transition in enumerate(chat.rollout.trajectory.transitions)
        ],
    )
    passed = build_datums(shifted)
    strange = token_trajectory([([1, 2], [3, 4])])
    strange.transitions[0].ac.maybe_logprobs = [math.nan, -0.1]
    table = alignment_table(passed, chat.runs)
    moved = int(((table["part"].shift(-1) == "O") & (table["logprob"] != 0)).sum())
    tell(
        "logprobs",
        "A wrong number of logprobs raises an error.",
        f"Only if the totals of one datum differ. One too few in turn 0 and one too many in turn 1 "
        f"pass, and {count_of(moved, 'logprob')} of an action "
        f"{'lands' if moved == 1 else 'land'} on observation tokens. NaN passes too.",
        holds=passed.error_code is None and moved > 0 and build_datums(strange).error_code is None,
    )

    claims = run_episodes([EpisodeSpec("role_colon", "no_space"), EpisodeSpec("qwen3", "plain")])
    played = [episode for episode in claims if isinstance(episode, Episode)]
    if len(played) < len(claims):
        return told
    claimed, silent = played
    broken = len(build_datums(claimed.rollout.trajectory).data)
    merged = len(build_datums(silent.rollout.trajectory).data)
    tell(
        "claim",
        "`has_extension_property` says whether a rollout merges.",
        f"It is a claim about the renderer, not about what was sampled. `role_colon` says "
        f"{claimed.renderer.has_extension_property}, yet {claimed.spec.turns} answers without "
        f"their leading space give {broken} datums; `qwen3` says "
        f"{silent.renderer.has_extension_property}, yet {silent.spec.turns} answers without "
        f"reasoning give {merged}.",
        holds=bool(claimed.renderer.has_extension_property)
        and broken > 1
        and not silent.renderer.has_extension_property
        and merged == 1,
    )
    return told


def misconception_table(told: Sequence[Misconception]) -> str:
    """The list as a markdown table of two columns."""
    rows = [f"| {one.said} | {one.code} |" for one in told]
    return "\n".join(["| People say | The code says |", "| :--- | :--- |", *rows])


def summary_text() -> str:
    """The tutorial in a few points, markdown; every number from a call made here."""
    known = scenarios()
    chat = diagnose(scenario_rollout(known["chat"]))
    reset = diagnose(scenario_rollout(known["reset"]))
    targets = sum(datum.model_input.length for datum in chat.built.data)
    trained = nonzero_targets(chat.built.data, "mask")
    turns = 64
    prompt, answer = [1, 2, 3, 4], [5, 6]
    grown = [*prompt]
    kept: list[tuple[list[int], list[int]]] = []
    for turn in range(turns):
        kept.append(([*grown], answer))
        grown += [*answer, 7 + turn]
    # the same turns when one token at the front changes every time, like a clock
    clocked = [([100 + turn, *saw[1:]], said) for turn, (saw, said) in enumerate(kept)]
    once = diagnose(Rollout("kept", token_trajectory(kept)))
    again = diagnose(Rollout("clock", token_trajectory(clocked)))
    factor = (again.tokens_processed or 0) / (once.tokens_processed or 1)
    points = [
        "A rollout is a list of turns, and `trajectory_to_data` holds one running sequence: a turn "
        "whose observation starts with all of it is appended, any other starts a new datum. The "
        f"three turns of the example of section 2 are {count_of(len(chat.built.data), 'datum')}; "
        f"the context reset gives {len(reset.built.data)}.",
        "A datum of n tokens has n - 1 targets, and mask, advantage and logprob belong to the "
        f"target: of the {targets} targets of that example {trained} are trained.",
        "What the loss sees is one number per rollout, its summed reward minus the group's mean, "
        "on every action token that is not masked; a KL penalty adds to it.",
        f"A split trains no token twice but reads the prefix again: {turns} turns after a prompt "
        f"of {len(prompt)} tokens, each with an answer of {len(answer)} and one new token, put "
        f"{once.tokens_processed:,} tokens through the model, the same turns with a clock at the "
        f"front {again.tokens_processed:,}, {factor:.0f} times as many.",
        "Whether turns extend is decided by renderer, policy and environment together, so look at "
        "the first token that differs, and trust no claim.",
    ]
    return "\n".join(f"- {point}" for point in points)


def printable(text: str, limit: int | None = None) -> str:
    """Text on one line that cannot steer a terminal: what does not draw becomes its code point."""
    cut = text if limit is None or len(text) <= limit else text[: limit - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in cut)


def report_entry(diagnosis: Diagnosis) -> dict[str, Any]:
    """One trajectory of the machine-readable report; keys and nulls are part of the format.

    Turns, positions and indices count from 0. `mask` and `target_tokens` hold one number per
    target, `tokens` is `model_input.length`, `action_tokens` counts the sampled tokens of the
    datum's turns. An image is one element, written as `element_to_native` writes it.
    """
    built = diagnosis.built
    datums = []
    for index, datum in enumerate(built.data):
        spans = [span for span in diagnosis.spans if span.datum == index]
        datums.append(
            {
                "turns": [span.turn for span in spans],
                "tokens": datum.model_input.length,
                "action_tokens": sum(span.action for span in spans),
                "mask": [int(value) for value in datum_tensor(datum, "mask")],
                "target_tokens": [int(value) for value in datum_tensor(datum, "target_tokens")],
            }
        )
    error = None
    if built.error_code is not None:
        error = {"code": built.error_code, "message": built.error_message}
    return {
        "name": diagnosis.rollout.name,
        "turns": len(diagnosis.spans),
        "error": error,
        "datums": datums,
        "breaks": [
            {
                "turn": found.turn,
                "position": found.position,
                "expected": element_to_native(found.expected),
                "got": None if found.got is None else element_to_native(found.got),
                "cause": found.cause,
                "origin": {
                    "turn": found.origin.turn,
                    "part": found.origin.part,
                    "index": found.origin.index,
                },
                "resumes_datum": found.resumes_datum,
            }
            for found in diagnosis.breaks
        ],
        "warnings": [
            {
                "code": remark.code,
                "turn": remark.turn,
                "index": remark.index,
                "message": remark.message,
            }
            for remark in diagnosis.remarks
        ],
        "tokens_processed": diagnosis.tokens_processed,
        "tokens_unmerged": diagnosis.tokens_unmerged,
    }


@dataclass
class Totals:
    """Sums over all rollouts of a file; grows with the kinds of things found, not with tokens.

    Attributes:
        rollouts, turns, datums, refused: Counts; a refused rollout has no datum but an error.
        datums_per_rollout: How many rollouts became that many datums.
        causes, warnings, errors: How many breaks, warnings and refusals of each kind.
        processed, unmerged: Tokens through the model, as it is and if no turn merged.
        over: Rollouts with more datums than allowed.
    """

    rollouts: int = 0
    turns: int = 0
    datums: int = 0
    refused: int = 0
    datums_per_rollout: Counter[int] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    processed: int = 0
    unmerged: int = 0
    over: int = 0

    def add(self, diagnosis: Diagnosis, max_datums: int | None = None) -> None:
        """Count one rollout in; with `max_datums`, more datums than that are `over`."""
        count = len(diagnosis.built.data)
        self.rollouts += 1
        self.turns += len(diagnosis.spans)
        self.causes.update(found.cause for found in diagnosis.breaks)
        self.warnings.update(remark.code for remark in diagnosis.remarks)
        self.over += max_datums is not None and count > max_datums
        if diagnosis.built.error_code is not None:
            self.refused += 1
            self.errors[diagnosis.built.error_code] += 1
            return
        self.datums += count
        self.datums_per_rollout[count] += 1
        self.processed += diagnosis.tokens_processed or 0
        self.unmerged += diagnosis.tokens_unmerged or 0


def by_count(counts: Mapping[Any, int]) -> list[tuple[Any, int]]:
    """Kinds and counts, the most frequent first; among equals by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))


def what_helps(totals: Totals) -> list[tuple[str, str, int, str]]:
    """Causes, warnings and refusals over all rollouts: kind, name, count, and what helps."""
    kinds = (
        ("splits", totals.causes, remedy),
        ("warning", totals.warnings, remark_remedy),
        ("refused", totals.errors, refusal_remedy),
    )
    return [
        (kind, name, count, helps(name))
        for kind, counts, helps in kinds
        for name, count in by_count(counts)
    ]


def counts_text(counts: Mapping[Any, int]) -> str:
    """Counts by kind, the most frequent first: `removed 3, inserted 1`; `none` for none."""
    return ", ".join(f"{kind} {count:,}" for kind, count in by_count(counts)) or "none"


def share_text(part: int, whole: int) -> str:
    """Tokens processed against unmerged, as a percentage of the latter."""
    return f"{part / whole:.0%} of {whole:,} if no turn merged" if whole else "nothing to merge"


def report_lines(diagnosis: Diagnosis) -> list[str]:
    """One trajectory of the report for people: a verdict a turn, breaks, warnings, price."""
    rollout, built = diagnosis.rollout, diagnosis.built
    group = "" if rollout.group is None else f" (group {rollout.group[:80]})"
    lines = [f"{rollout.name[:80]}{group}"]
    turns = count_of(len(diagnosis.spans), "turn")
    if built.error_code is not None:
        lines.append(f"  {turns}, no datum: {built.error_message} ({built.error_code})")
    else:
        lines.append(
            f"  {turns}, {count_of(len(built.data), 'datum')}, "
            f"{diagnosis.tokens_processed:,} tokens processed: "
            f"{share_text(diagnosis.tokens_processed or 0, diagnosis.tokens_unmerged or 0)}"
        )
    breaks = {found.turn: found for found in diagnosis.breaks}
    remarks: dict[int, list[Remark]] = {}
    for remark in diagnosis.remarks:
        remarks.setdefault(remark.turn, []).append(remark)
    for span in diagnosis.spans:
        found = breaks.get(span.turn)
        if found is not None:
            lines.append(f"  turn {span.turn}: splits, {break_text(found, rollout.vocab)}")
        else:
            looks = ", but look" if remarks.get(span.turn) else ""
            opens = span_words(span, built.error_code is not None) if span.turn == 0 else "extends"
            lines.append(f"  turn {span.turn}: {opens}{looks}")
        lines += [
            f"    warning: {remark.code}: {remark.message}" for remark in remarks.get(span.turn, [])
        ]
    return [printable(line) for line in lines]


def break_text(found: Break, vocab: Mapping[int, str]) -> str:
    """A break on one line: cause, place, expected and got, and where the lost token came from."""
    origin = found.origin
    words = (
        f"{found.cause} at position {found.position}: expected {token_words(found.expected, vocab)}"
        f" (turn {origin.turn}, {origin.part} index {origin.index}), got "
        f"{token_words(found.got, vocab)}"
    )
    if found.resumes_datum is not None:
        words += f"; it would extend datum {found.resumes_datum}"
    return words


def token_words(element: Any, vocab: Mapping[int, str]) -> str:
    """An element for one line of text: id, and its text where known."""
    if element is None:
        return "the end of the observation"
    if not isinstance(element, int):
        return image_label(element)
    text = vocab.get(element)
    return f"{element}" if text is None else f"{element} “{visible_text(text)}”"


def summary_lines(totals: Totals) -> list[str]:
    """The summary over all rollouts, for people."""
    if not totals.rollouts:
        return ["No rollout."]
    spread = ", ".join(
        f"{count} in {number:,}" for count, number in sorted(totals.datums_per_rollout.items())
    )
    refused = f" ({counts_text(totals.errors)})" if totals.refused else ""
    lines = [
        f"{count_of(totals.rollouts, 'rollout')}, {count_of(totals.turns, 'turn')}, "
        f"{count_of(totals.datums, 'datum')}, {totals.refused:,} refused{refused}",
        f"  datums per rollout: {spread or 'none'}",
        f"  causes of splits:   {counts_text(totals.causes)}",
        f"  warnings:           {counts_text(totals.warnings)}",
        f"  tokens processed:   {totals.processed:,}, "
        f"{share_text(totals.processed, totals.unmerged)}",
    ]
    helps = [f"  {name}: {sentence}" for _, name, _, sentence in what_helps(totals)]
    if helps:
        lines += ["", "What helps", *helps]
    return lines


def example_rollouts() -> str:
    """A small JSONL file to start from: a group of three rollouts, and a line with a fault."""
    listed = scenarios()
    lines = []
    for key, reward in (("chat", 1.0), ("removed", 0.0), ("replaced", 0.5)):
        rollout = replace(scenario_rollout(listed[key]), group="one prompt")
        native = rollout_to_native(rollout)
        native["transitions"][-1]["reward"] = reward
        lines.append(json.dumps(native, ensure_ascii=False))
    broken = {"name": "Broken", "transitions": [{"ob": [1, 2], "ac": [3.5], "logprobs": [-0.1]}]}
    return "\n".join([*lines, json.dumps(broken)])


@dataclass(frozen=True)
class Overview:
    """All rollouts of a file at a glance; nothing in it grows with tokens.

    Attributes:
        table: One row per rollout, for people: first what became of it, so that a narrow window
            shows that; columns that say nothing in any row are left out.
        totals: Sums over all of them.
        advantages: From `group_advantages`.
        worth: Rows that a reader should see: those that split, warn, or are refused.
    """

    table: pd.DataFrame
    totals: Totals
    advantages: tuple[float | None, ...]
    worth: tuple[int, ...]

    @property
    def first(self) -> int:
        """The row to show before one is chosen."""
        return self.worth[0] if self.worth else 0


def overview(rollouts: Sequence[Rollout]) -> Overview:
    """Diagnose every rollout and keep one row of each."""
    advantages = group_advantages(rollouts)
    totals = Totals()
    rows = []
    worth = []
    for index, (rollout, advantage) in enumerate(zip(rollouts, advantages, strict=True)):
        diagnosis = diagnose(rollout)
        totals.add(diagnosis)
        causes = Counter(cause_name(found.cause) for found in diagnosis.breaks)
        if diagnosis.breaks or diagnosis.remarks or diagnosis.built.error_code:
            worth.append(index)
        rows.append(
            {
                "#": index,
                "name": printable(rollout.name, 60),
                "datums": len(diagnosis.built.data),
                "main cause": "refused"
                if diagnosis.built.error_code
                else causes.most_common(1)[0][0]
                if causes
                else "",
                "tokens": diagnosis.tokens_processed,
                "if unmerged": diagnosis.tokens_unmerged,
                "turns": len(diagnosis.spans),
                "warnings": len(diagnosis.remarks),
                "error": diagnosis.built.error_code or "",
                "reward": sum(turn.reward for turn in rollout.trajectory.transitions),
                "advantage": advantage,
                "group": printable(rollout.group or "", 30),
            }
        )
    table = pd.DataFrame(rows)
    if rows:  # with gaps: a refused rollout has no price, one without a group no advantage
        gaps = {"advantage": "Float64", "tokens": "Int64", "if unmerged": "Int64"}
        table = table.astype(gaps)
    silent = ("group", "reward", "advantage", "main cause", "warnings", "error")
    for column in silent if rows else ():
        if all(row[column] in ("", None, 0) for row in rows):
            table = table.drop(columns=column)
    return Overview(table, totals, tuple(advantages), tuple(worth))


def issues_view(reading: Reading, most: int = 10) -> str:
    """What could not be read, a sentence each, and what was left out, as HTML."""
    rest = len(reading.issues) - most
    parts = [
        '<p class="seq-note seq-error" role="alert"><b>✕</b>'
        f"<span>{code_spans(issue.message)}</span></p>"
        for issue in reading.issues[:most]
    ]
    if rest > 0:
        parts.append(note(f"{rest:,} more trajectories cannot be read.", "look").text)
    if reading.left_out:
        parts.append(note(reading.left_out, "look").text)
    return "".join(parts)


def counts_table(totals: Totals) -> pd.DataFrame:
    """Causes, warnings and refusals over all rollouts, with what helps; most frequent first."""
    return pd.DataFrame(
        [
            {"kind": kind, "what": cause_name(name), "count": count, "what helps": sentence}
            for kind, name, count, sentence in what_helps(totals)
        ]
    )


def reading_view(reading: Reading, found: Overview, source: str) -> mo.Html:
    """What a file holds: what could not be read, sums, causes by count, the price."""
    totals = found.totals
    parts = [issues_view(reading)]
    if not totals.rollouts:
        parts.append(note(f"No rollout can be shown: {source} holds none that can be read.").text)
        return mo.Html("".join(parts))
    counts = sorted(totals.datums_per_rollout.items())
    spread = (
        f"{counts[0][0]} to {counts[-1][0]} a rollout"
        if len(counts) > 6
        else ", ".join(
            f"{count_of(number, 'rollout')} with {count_of(count, 'datum')}"
            for count, number in counts
        )
    )
    refused = f" {totals.refused:,} refused." if totals.refused else ""
    lines = [
        f"<b>{count_of(totals.rollouts, 'rollout')}</b>, {count_of(totals.turns, 'turn')} in "
        f"{html.escape(source)}: <b>{count_of(totals.datums, 'datum')}</b> ({spread}).{refused}"
        if totals.datums
        else f"<b>{count_of(totals.rollouts, 'rollout')}</b> in {html.escape(source)}: no datum."
        f"{refused}",
        f"<b>{count_of(totals.processed, 'token')}</b> through the model: "
        f"{share_text(totals.processed, totals.unmerged)}.",
    ]
    parts += [f"<p>{line}</p>" for line in lines]
    if totals.causes or totals.warnings or totals.errors:
        parts.append(
            table_box(counts_table(totals), "Causes and warnings by count", name="seq-told").text
        )
    return mo.Html("".join(parts))


def diagnosis_views(
    diagnosis: Diagnosis, most: int = 40, drawn: int = 5, anchor: str = ""
) -> list[mo.Html]:
    """One rollout: price, a verdict a turn, and its first breaks drawn.

    Args:
        diagnosis: Of any rollout, also one that is refused.
        most: Lines of verdicts at most.
        drawn: Breaks drawn at most; the first stands open, the others unfold.
        anchor: Id of the heading, where a link leads to it.
    """
    name = html.escape(printable(diagnosis.rollout.name, 120))
    mark = f' id="{html.escape(anchor)}"' if anchor else ""
    views = [mo.Html(f'<h3 class="seq-title"{mark}>{name}</h3>')]
    if diagnosis.built.error_message is not None:
        views.append(note(diagnosis.built.error_message, "error"))
    else:
        views.append(note(price_sentence(diagnosis)))
    lineage = lineage_sentence(diagnosis)
    views += [note(lineage)] if lineage else []
    views.append(verdict_list(verdicts(diagnosis), most))
    for number, found in enumerate(diagnosis.breaks[:drawn]):
        figure = break_figure(break_table(diagnosis, found), break_title(diagnosis, found))
        if number:
            title = html.escape(break_headline(found))
            figure = mo.Html(
                f'<details class="seq-facts"><summary>{title}</summary>{figure.text}</details>'
            )
        views.append(figure)
    left = len(diagnosis.breaks) - drawn
    if left > 0:
        there = "section 9 of the app draws more, " if drawn < 5 else ""
        told = f"{count_of(left, 'more break')} not drawn; {there}the command line names all."
        views.append(note(told))
    return views


def window_places(diagnosis: Diagnosis, most: int = 200) -> dict[str, tuple[int, int]]:
    """Where a window of single tokens may start: label to (datum, position); breaks first."""
    places = {
        f"{label} (datum {datum}, position {position:,})": (datum, max(0, position - WINDOW // 2))
        for datum, position, label in break_marks(diagnosis)[:most]
    }
    for datum in range(min(len(diagnosis.built.data), most)):
        places[f"start of datum {datum}"] = (datum, 0)
    return places if diagnosis.built.data else {}


def datum_rows(diagnosis: Diagnosis, datum: int) -> pd.DataFrame:
    """Alignment of one datum; empty where there is none, as when the rollout was refused."""
    built = diagnosis.built
    if datum >= len(built.data):
        return pd.DataFrame()
    return alignment_table(built, diagnosis.runs, diagnosis.rollout.vocab, [datum])


def window_views(diagnosis: Diagnosis, rows: pd.DataFrame, start: int) -> list[mo.Html]:
    """A rollout as runs, and a window of one datum's tokens, with the window's facts as a table.

    Args:
        diagnosis: Of the rollout; too many turns to draw are said instead of drawn.
        rows: From `datum_rows`, of one datum.
        start: First position of the window.
    """
    datum = int(rows["datum"].iloc[0])
    marks = break_marks(diagnosis)
    views = []
    turns, datums = len(diagnosis.spans), len(diagnosis.built.data)
    if datums <= MAX_DRAWN_DATUMS:
        views.append(
            figure_box(
                runs_chart(
                    diagnosis.runs, marks, shown=(datum, start, min(WINDOW, len(rows) - start))
                ),
                f"{count_of(turns, 'turn')} in {count_of(datums, 'datum')}; the frame marks the "
                "window below",
            )
        )
    else:
        views.append(
            note(f"{datums:,} datums are too many to draw; the window below shows their tokens.")
        )
    seen = window(rows, start, WINDOW)
    return [
        *views,
        strip_figure(seen, [mark for mark in marks if mark[0] == datum]),
        details_table(strip_facts(seen), "The window as a table"),
    ]


def dump_code() -> str:
    """The two functions that write the file format, with the imports they need."""
    imports = (
        "import base64\nimport math\nfrom collections.abc import Mapping\nfrom typing import Any\n"
        "\nimport tinker\nfrom tinker_cookbook.rl.types import Trajectory"
    )
    return f"{imports}\n\n\n{code_of(element_to_native, trajectory_to_native)}\n"


def format_help() -> str:
    """The file format in short, for readers of the page (markdown)."""
    head = {"name": "optional", "group": "optional", "vocab": {"3": "optional text"}}
    turns = [
        {"ob": [1, 2, {"image": "id", "tokens": 4}], "ac": [3], "logprobs": [-0.1]},
        {"append": [4], "ac": [5], "logprobs": [-0.2], "reward": 1.0},
    ]
    listed = ",\n  ".join(map(json.dumps, turns))
    keys = ", ".join(f"`{key}`" for key in FILE_KEYS)
    return f"""
JSON (one trajectory, a list, or a list under {keys}) or JSONL (a trajectory a line):

```json
{json.dumps(head)[:-1]},
 "transitions": [
  {listed}]}}
```

- `append` instead of `ob`: the previous observation, the previous action, then these tokens.
- `logprobs` may be null, or hold null and `"NaN"`. `reward`, `episode_done` and `metrics` may be
  left out; other keys are ignored. Turns, positions and indices count from 0.
- Rollouts with the same `group` are one group: their advantages are the cookbook's.
- An image is its id; `"data:image/png;base64,..."` holds the picture, and `"asset": "png"` makes
  the id a location.
- Also read: verifiers rollouts (`trajectory` with `tokens.prompt_ids`, `tokens.completion_ids`,
  `tokens.completion_logprobs`), and turns with `prompt_token_ids` and `token_ids` or
  `completion_token_ids`.
- At most {MAX_FILE_BYTES // 2**20} MB a file, {MAX_ROLLOUT_TURNS:,} turns and
  {MAX_ROLLOUT_TOKENS:,} tokens a rollout (history counted in every turn), and
  {MAX_PAGE_ROLLOUTS:,} rollouts on this page. The command line reads any number:

```bash
uv run python 404_sequence_extension.py --trajectory rollouts.jsonl
```
"""


def read_file(path: str) -> Reading:
    """Read the file named by the command that started the page, within the page's bounds."""
    try:
        with open(path, "rb") as stream:
            return collect_rollouts(stream)
    except OSError as error:
        sentence = f"{shown(path, 200)} cannot be opened: {error.strerror or error}."
        return Reading((), (FileIssue(sentence),))


def report_view(reading: Reading, found: Overview, name: str) -> mo.Html:
    """The report on a file as a page to attach: bounded in size whatever the file holds.

    Args:
        reading: What was read.
        found: From `overview` on it.
        name: Of the file, for the title.
    """
    parts = [
        f"<h1 class=seq-title>Report on {html.escape(printable(name, 120))}</h1>",
        reading_view(reading, found, "the file").text,
    ]
    details: list[str] = []
    told: list[tuple[int, Diagnosis, list[mo.Html]]] = []
    size = 0

    def detail(index: int, diagnosis: Diagnosis, drawn: int, around: Sequence[mo.Html]) -> str:
        views = diagnosis_views(diagnosis, 12, drawn, f"report-{index}")
        return "".join(view.text for view in [*views, *around])

    order = [*found.worth, *(row for row in range(len(found.table)) if row not in found.worth)]
    for index in order[:MAX_REPORT_DETAILS]:
        advantage = found.advantages[index]
        diagnosis = diagnose(reading.rollouts[index], 1.0 if advantage is None else advantage)
        places = window_places(diagnosis)
        around = []
        if places and len(diagnosis.runs) <= MAX_REPORT_RUNS:
            datum, start = next(iter(places.values()))
            around = window_views(diagnosis, datum_rows(diagnosis, datum), start)
        text = detail(index, diagnosis, 1, around)
        if details and size + len(text) > MAX_REPORT_BYTES:
            break
        size += len(text)
        details.append(text)
        told.append((index, diagnosis, around))
    # what is left of the bytes goes to further breaks, folded
    for at, (index, diagnosis, around) in enumerate(told):
        most = min(5, len(diagnosis.breaks))
        for drawn in sorted({most, 2}, reverse=True) if most > 1 else ():
            text = detail(index, diagnosis, drawn, around)
            if size + len(text) - len(details[at]) <= MAX_REPORT_BYTES:
                size += len(text) - len(details[at])
                details[at] = text
                break
    if len(found.table):
        first = found.table.head(MAX_REPORT_ROWS)
        links = {index: f"report-{index}" for index, _, _ in told}
        listed = table_box(first, "Every rollout", name="seq-rollouts", links=links)
        parts.append(listed.text)
        if len(found.table) > len(first):
            left = f"{len(found.table) - len(first):,} more rows are left out here."
            parts.append(note(left, "look").text)
    parts += details
    if len(order) > len(details):
        parts.append(
            note(
                f"The details of {len(order) - len(details):,} rollouts are left out to keep "
                "this page small; those that split, warn or are refused came first. The command "
                "line tells all: `python 404_sequence_extension.py --trajectory FILE`.",
                "look",
            ).text
        )
    return mo.Html("".join(parts) + "<hr>")


class CommandParser(argparse.ArgumentParser):
    """Arguments of the command line; an error is one line on standard error, exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {printable(message, 300)}; see --help\n")


def datum_limit(text: str) -> int:
    """The N of `--max-datums`: a whole number from 0.

    Raises:
        argparse.ArgumentTypeError: Anything else.
    """
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a whole number from 0")
    return int(text)


def command_parser() -> CommandParser:
    """What `--help` says."""
    parser = CommandParser(
        prog="404_sequence_extension.py",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=(
            "Say how rollouts become training datums: a verdict for every turn, why it split,\n"
            "what that costs. Without arguments nothing is read; open the tutorial with\n"
            "`marimo run --no-sandbox 404_sequence_extension.py`."
        ),
        epilog=(
            'FILE is JSON (one trajectory, a list, or {"trajectories": [...]}) or JSONL.\n'
            "exit codes:\n"
            "  0  read and reported\n"
            "  1  some trajectory has more than N datums\n"
            "  2  something could not be read; one line on standard error names line and field"
        ),
    )
    parser.add_argument(
        "--trajectory", metavar="FILE", help="rollouts to read; - is standard input"
    )
    parser.add_argument("--json", action="store_true", help="write one JSON object instead of text")
    parser.add_argument(
        "--max-datums", metavar="N", type=datum_limit, help="exit with 1 above N datums a rollout"
    )
    return parser


def issues_line(issues: Sequence[FileIssue]) -> str:
    """All that could not be read on one line: the first five sentences, then how many more."""
    sentences = " ".join(issue.message for issue in issues[:5])
    return sentences if len(issues) <= 5 else f"{sentences} And {len(issues) - 5:,} more."


def write_report(
    stream: IO[bytes], out: IO[str], as_json: bool, max_datums: int | None
) -> tuple[Totals, list[FileIssue]]:
    """Read rollouts and write the report on each as it comes; memory holds one at a time.

    Args:
        stream: The file, binary.
        out: Where the report goes.
        as_json: One JSON object, or text.
        max_datums: Above this a rollout counts as over.
    """
    totals = Totals()
    issues: list[FileIssue] = []
    out.write('{"trajectories": [' if as_json else "")
    for item in iter_rollouts(stream):
        if isinstance(item, FileIssue):
            issues.append(item)
            continue
        diagnosis = diagnose(item)
        totals.add(diagnosis, max_datums)
        if as_json:
            out.write(", " if totals.rollouts > 1 else "")
            out.write(json.dumps(report_entry(diagnosis), allow_nan=False))
        else:
            lines = report_lines(diagnosis)
            if max_datums is not None and len(diagnosis.built.data) > max_datums:
                lines.append(f"  more than {count_of(max_datums, 'datum')}")
            out.write("\n".join(lines) + "\n\n")
    out.write("]}\n" if as_json else "\n".join(summary_lines(totals)) + "\n")
    if not as_json and issues:
        out.write("\n" + "".join(f"not read: {issue.message}\n" for issue in issues))
    if not as_json and max_datums is not None:
        over = count_of(totals.over, "rollout")
        out.write(f"\nmore than {count_of(max_datums, 'datum')}: {over} of {totals.rollouts:,}\n")
    return totals, issues


def main(argv: Sequence[str]) -> int:
    """The command line: report on a file of rollouts.

    Args:
        argv: Arguments without the program's name.

    Returns:
        0: read and reported (or nothing was asked for); 1: some rollout has more datums than
        allowed; 2: something could not be read, said on one line of standard error.

    Raises:
        SystemExit: `--help` (0) and arguments that make no sense (2).
    """
    parser = command_parser()
    options = parser.parse_args(argv)
    if options.trajectory is None:
        if options.json or options.max_datums is not None:
            parser.error("--trajectory FILE is missing")
        print(
            "A marimo notebook: open it with `marimo run --no-sandbox 404_sequence_extension.py`,\n"
            "or report on your rollouts: `404_sequence_extension.py --trajectory FILE [--json]`."
        )
        return 0

    def fail(sentence: str) -> int:
        name = "standard input" if options.trajectory == "-" else options.trajectory
        print(printable(f"{name}: {sentence}"), file=sys.stderr)
        return 2

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that lacks a character shows its code point instead of failing.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with contextlib.ExitStack() as stack:
            if options.trajectory == "-":
                stream: IO[bytes] = sys.stdin.buffer
            else:
                stream = stack.enter_context(open(options.trajectory, "rb"))
            totals, issues = write_report(stream, sys.stdout, options.json, options.max_datums)
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the report has seen enough, as in `| head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        return fail(f"{error.strerror or error}.")
    if issues:
        return fail(issues_line(issues))
    return 1 if totals.over else 0
