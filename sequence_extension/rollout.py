"""A rollout, and tokens and images as flat elements (an image is one element)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sequence_extension.cookbook import (
    PARSE_ERROR_MASKED_METRIC_KEY,
    TokensWithLogprobs,
    Trajectory,
    Transition,
    tinker,
)
from sequence_extension.text import printable

MAX_TOKEN_ID = 2**31 - 1
# Stands in for log-probabilities where no model was asked.
PLACEHOLDER_LOGPROB = -1.0


@dataclass(frozen=True)
class Rollout:
    """One trajectory with what its source said about it.

    Attributes:
        name: Shown wherever the rollout is listed; any text, escaped where HTML is made.
        trajectory: The cookbook's own object; observations may hold image chunks.
        vocab: Text of token ids where known; ids that are missing have no text.
        group: Rollouts of one prompt share a group key; None stands alone.
        joined_lines: How many calls of the file were joined into this rollout; None where the
            file holds rollouts.
        without_id: Its calls named no rollout, so that consecutive ones were taken for one.
        notes: What the reader left out or assumed, a sentence each (failed calls, samples that
            no later prompt continues, steps without tokens).
    """

    name: str
    trajectory: Trajectory
    vocab: Mapping[int, str] = field(default_factory=dict)
    group: str | None = None
    joined_lines: int | None = None
    without_id: bool = False
    notes: tuple[str, ...] = ()


def image_chunk(image_id: str, tokens: int | None) -> tinker.types.ImageChunk:
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


def made_up_logprob(turn: int, index: int) -> float:
    """A plausible logprob (-0.05 to -0.95) that depends on its place only, never exactly 0."""
    return -(5 + (turn * 35 + index * 20) % 91) / 100


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


def image_label(element: Any) -> str:
    """An image in words: its size, and its name where its bytes or its place are a short text."""
    name: Any = getattr(element, "location", None) or getattr(element, "data", b"")
    try:
        text = name if isinstance(name, str) else bytes(name).decode()
    except UnicodeDecodeError:
        text = ""
    named = f", {quoted(text)}" if 0 < len(text) <= 40 and text == printable(text) else ""
    return f"an image of {element_length(element)} tokens{named}"


def quoted(text: str) -> str:
    """Text in quotes, as JSON writes it; what does not draw becomes its code point."""
    return printable(json.dumps(text, ensure_ascii=False))


def token_label(element: Any, vocab: Mapping[int, str] | None = None) -> str:
    """An element in words: id, and text in quotes where known; an image by its size."""
    if element is None:
        return "nothing"
    if not isinstance(element, int):
        return image_label(element)
    text = None if vocab is None else vocab.get(element)
    return f"{element}" if text is None else f"{element} {quoted(text)}"


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


def element_id(element: Any) -> str:
    """Id of a token, or what stands for an image; "" for none."""
    if element is None:
        return ""
    return str(element) if isinstance(element, int) else "img"


def rollout_tokens(rollout: Rollout) -> int:
    """Tokens of all observations and actions, history counted in every turn: the work it is."""
    return sum(
        input_length(transition.ob) + len(transition.ac.tokens)
        for transition in rollout.trajectory.transitions
    )
