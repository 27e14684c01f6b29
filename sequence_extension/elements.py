"""Tokens and images as flat elements (an image is one element): lengths and labels."""

from collections.abc import Mapping, Sequence
from typing import Any

from sequence_extension.cookbook import tinker
from sequence_extension.text import printable_text, quoted_text

MAX_TOKEN_ID = 2**31 - 1


def image_element(image_id: str, tokens: int | None) -> tinker.types.ImageChunk:
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


def elements_input_length(model_input: tinker.ModelInput) -> int:
    """Tokens of an observation, also where an image does not say how many it has."""
    return sum(
        len(chunk.tokens) if isinstance(chunk, tinker.EncodedTextChunk) else element_length(chunk)
        for chunk in model_input.chunks
    )


def element_token_position(model_input: tinker.ModelInput, position: int) -> int:
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


def image_element_label(element: Any) -> str:
    """An image in words: its size, and its name where its bytes or its place are a short text."""
    name: Any = getattr(element, "location", None) or getattr(element, "data", b"")
    try:
        text = name if isinstance(name, str) else bytes(name).decode()
    except UnicodeDecodeError:
        text = ""
    named = f", {quoted_text(text)}" if 0 < len(text) <= 40 and text == printable_text(text) else ""
    return f"an image of {element_length(element)} tokens{named}"


def element_label(element: Any, vocab: Mapping[int, str] | None = None) -> str:
    """An element in words: id, and text in quotes where known; an image by its size."""
    if element is None:
        return "nothing"
    if not isinstance(element, int):
        return image_element_label(element)
    text = None if vocab is None else vocab.get(element)
    return f"{element}" if text is None else f"{element} {quoted_text(text)}"


def last_elements(model_input: tinker.ModelInput, count: int) -> list[Any]:
    """At least so many elements from the end of an observation; all where it has fewer."""
    chunks: list[Any] = []
    taken = 0
    for chunk in reversed(model_input.chunks):
        if taken >= count:
            break
        chunks.insert(0, chunk)
        taken += len(chunks_to_elements([chunk]))
    return list(chunks_to_elements(chunks))


def image_elements(model_input: tinker.ModelInput) -> list[Any]:
    """The chunks of an observation that hold no tokens."""
    return [chunk for chunk in model_input.chunks if not isinstance(chunk, tinker.EncodedTextChunk)]
