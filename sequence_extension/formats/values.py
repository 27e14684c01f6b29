"""Values of a file, validated: token ids, images, logprobs, numbers, vocabularies.

Lists are checked by compiled validators, not by a Python call per entry.
"""

import base64
import math
import re
import zlib
from array import array
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    FailFast,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticCustomError

from sequence_extension.cookbook import PARSE_ERROR_MASKED_METRIC_KEY, tinker
from sequence_extension.elements import MAX_TOKEN_ID, image_element
from sequence_extension.formats.results import RecordError
from sequence_extension.text import code_point_text, encodable_text, shown_text, value_text

MAX_IMAGE_TOKENS = 100_000
MAX_VOCABULARY = 500_000
MAX_NAME_CHARS = 1_000
MAX_METRICS = 1_000
# Numbers that JSON lacks, as words.
NUMBER_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# How servers write a token id where a token's text is expected.
TOKEN_NAME = re.compile(r"token_id:([0-9]{1,10})")

# Half of a character pair, but no byte of a part of a character.
HALF_PAIR = re.compile("[\ud800-\udc7f\udd00-\udfff]")

TokenId = Annotated[int, Field(strict=True, ge=0, le=MAX_TOKEN_ID)]


def read_number_value(value: Any) -> Any:
    """The words for numbers that JSON lacks, as numbers; anything else as it is."""
    return NUMBER_WORDS.get(value, value) if isinstance(value, str) else value


class ImageRecord(BaseModel):
    """One image inside an observation, as `element_to_native` writes it."""

    model_config = ConfigDict(strict=True, extra="ignore")
    image: str
    tokens: Annotated[int, Field(ge=0, le=MAX_IMAGE_TOKENS)] | None
    asset: Literal["png", "jpeg"] | None = None


def image_chunk_value(record: ImageRecord) -> Any:
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
        return image_element(record.image, record.tokens)
    if uri[1] not in ("png", "jpeg"):
        raise PydanticCustomError("image", "only png and jpeg images are read")
    try:
        data = base64.b64decode(record.image[uri.end() :], validate=True)
    except ValueError:
        raise PydanticCustomError("image", "the data URI does not hold valid base64") from None
    return tinker.types.ImageChunk(
        data=data, format="jpeg" if uri[1] == "jpeg" else "png", expected_tokens=record.tokens
    )


TOKENS: TypeAdapter[list[int]] = TypeAdapter(
    Annotated[list[TokenId], Field(strict=True), FailFast()]
)
ELEMENTS: TypeAdapter[list[Any]] = TypeAdapter(
    Annotated[
        list[
            Annotated[
                Annotated[TokenId, Tag("token")]
                | Annotated[ImageRecord, AfterValidator(image_chunk_value), Tag("picture")],
                Discriminator(lambda value: "picture" if isinstance(value, dict) else "token"),
            ]
        ],
        Field(strict=True),
        FailFast(),
    ]
)
NUMBERS: TypeAdapter[list[float]] = TypeAdapter(
    Annotated[list[Annotated[float, Field(strict=True)]], Field(strict=True), FailFast()]
)
LOOSE_NUMBERS: TypeAdapter[list[float | None]] = TypeAdapter(
    Annotated[
        list[Annotated[float | None, Field(strict=True), BeforeValidator(read_number_value)]],
        Field(strict=True),
        FailFast(),
    ]
)


def value_problem(error: ValidationError, path: Sequence[Any]) -> RecordError:
    """The first problem that a validator found, as a sentence with its place."""
    first = error.errors(include_url=False)[0]
    inner = tuple(step for step in first["loc"] if step not in ("token", "picture"))
    kind, got = first["type"], first["input"]
    if kind == "missing":
        return RecordError(f"`{inner[-1]}` is missing", (*path, *inner[:-1]))
    if kind == "image":
        return RecordError(first["msg"], (*path, *inner))
    if kind == "string_unicode":
        message = "holds half of a surrogate pair, so it is not valid text"
        return RecordError(message, (*path, *inner))
    expected = {
        "int_type": f"a token id (a whole number from 0 to {MAX_TOKEN_ID})",
        "float_type": "a number",
        "list_type": "a list",
        "string_type": "a text",
        "literal_error": f"one of {first.get('ctx', {}).get('expected', '')}",
    }
    for bound in ("less_than_equal", "greater_than_equal", "int_parsing_size"):
        expected[bound] = expected["int_type"]
    if inner[-1:] == ("tokens",):
        for bound in ("int_type", "less_than_equal", "greater_than_equal", "int_parsing_size"):
            expected[bound] = f"a whole number from 0 to {MAX_IMAGE_TOKENS:,}"
    text = expected.get(kind, first["msg"])
    return RecordError(f"expected {text}, got {value_text(got)}", (*path, *inner))


def pack_token_values(value: Any) -> Any:
    """Token ids as an array of 4 bytes each, where they are valid; anything else as it is."""
    if type(value) is not list or not set(map(type, value)) <= {int}:
        return value
    try:
        packed = array("i", value)
    except OverflowError:
        return value
    return value if packed and min(packed) < 0 else packed


def read_token_values(value: Any, path: Sequence[Any]) -> list[int]:
    """Token ids.

    Raises:
        RecordError: Something else stands there.
    """
    if isinstance(value, array):
        return value.tolist()
    try:
        return TOKENS.validate_python(value)
    except ValidationError as error:
        raise value_problem(error, path) from None


def read_element_values(value: Any, path: Sequence[Any]) -> tuple[list[Any], bool]:
    """An observation as flat elements, and whether it holds images.

    Raises:
        RecordError: With the index of the first wrong element.
    """
    if isinstance(value, array):
        return value.tolist(), False
    try:
        return TOKENS.validate_python(value), False
    except ValidationError as error:
        if type(value) is not list or not any(type(entry) is dict for entry in value):
            raise value_problem(error, path) from None
    try:
        return ELEMENTS.validate_python(value), True
    except ValidationError as error:
        raise value_problem(error, path) from None


def token_logprob_value(entry: Any, token: Any) -> Any:
    """What one entry of a list of logprobs says about a token.

    Read are a number; `{"logprob": x}`; candidates by token id (`{"17": {"logprob": x}}`,
    `{"token_id:17": x}`), of which the sampled one counts; `[x, 17, "text"]`.
    """
    if isinstance(entry, list):
        return entry[0] if entry else entry
    if not isinstance(entry, dict):
        return entry
    if "logprob" not in entry and entry:
        named = [entry[key] for key in (str(token), f"token_id:{token}") if key in entry]
        entry = named[0] if named else next(iter(entry.values())) if len(entry) == 1 else None
    return entry.get("logprob") if isinstance(entry, dict) else entry


def logprob_value_list(value: Any) -> Any:
    """The list inside what a server calls `logprobs`; anything else as it is."""
    for _ in range(3):
        if not isinstance(value, dict):
            break
        inner = (value.get(key) for key in ("token_logprobs", "content", "logprobs"))
        value = next((entry for entry in inner if entry is not None), None)
    return value


def read_logprob_values(
    value: Any, tokens: Sequence[int], path: Sequence[Any]
) -> list[float] | None:
    """Logprobs of an action in any of the forms that programs write, see `token_logprob_value`.

    An entry that is null becomes NaN; None where there are none at all.

    Raises:
        RecordError: With the index of the first wrong entry.
    """
    value = logprob_value_list(value)
    if value is None:
        return None
    if isinstance(value, list) and any(isinstance(entry, dict | list) for entry in value[:1]):
        known = [*tokens, *[None] * (len(value) - len(tokens))]
        value = [token_logprob_value(entry, known[index]) for index, entry in enumerate(value)]
    try:
        return NUMBERS.validate_python(value)
    except ValidationError:
        pass
    try:
        loose = LOOSE_NUMBERS.validate_python(value)
    except ValidationError as error:
        raise value_problem(error, path) from None
    return [math.nan if number is None else number for number in loose]


def named_token_values(value: Any) -> list[int] | None:
    """Token ids where logprobs name every token by its id (`"token_id:17"`), else None."""
    names = value.get("tokens") if isinstance(value, dict) else None
    if not isinstance(names, list):
        entries = logprob_value_list(value)
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            return None
        names = [entry.get("token") for entry in entries]
    matches = [TOKEN_NAME.fullmatch(name) if isinstance(name, str) else None for name in names]
    ids = [int(match[1]) for match in matches if match]
    return ids if ids and len(ids) == len(names) else None


def read_reward_value(value: Any, path: Sequence[Any]) -> float | None:
    """A reward: a number, a word for one that JSON lacks, or null.

    Raises:
        RecordError: Something else, or more than a float holds.
    """
    value = read_number_value(value)
    if value is None or (type(value) in (int, float)):
        try:
            return None if value is None else float(value)
        except OverflowError:
            pass
    raise RecordError(f"expected a number, got {value_text(value)}", path)


def loose_reward_value(value: Any) -> float | None:
    """The reward that another program noted, where it is a number; no diagnosis needs it."""
    try:
        return float(value) if value is True or value is False else read_reward_value(value, ())
    except RecordError:
        return None


def read_metric_values(value: Any) -> dict[str, float]:
    """The numbers among metrics; only the parse-error mask matters, so nothing is refused.

    The mask is read wherever it stands, and by `float` as the cookbook does: also from text.
    """
    if not isinstance(value, dict):
        return {}
    metrics: dict[str, float] = {}
    mask = mask_number_value(value.get(PARSE_ERROR_MASKED_METRIC_KEY))
    if mask is not None:
        metrics[PARSE_ERROR_MASKED_METRIC_KEY] = mask
    for key, entry in value.items():
        if len(metrics) >= MAX_METRICS:
            break
        if isinstance(entry, bool) or key == PARSE_ERROR_MASKED_METRIC_KEY:
            continue
        number = loose_reward_value(entry)
        if number is not None:
            metrics[key] = number
    return metrics


def mask_number_value(value: Any) -> float | None:
    """The parse-error mask as the cookbook takes it; None where `float` takes nothing."""
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def read_name_value(value: Any, key: str) -> tuple[str | None, list[str]]:
    """A name or a group as a text of bounded length, and notes on what was changed."""
    if value is None:
        return None, []
    if type(value) in (int, float):
        value = str(value)
    if not isinstance(value, str):
        return None, [f"`{key}` is {value_text(value)}, not a text, and is left out."]
    text, notes = encodable_text(value), []
    if text != value:
        notes.append(f"`{key}` holds half of a surrogate pair, which is written as its code.")
    if len(text) > MAX_NAME_CHARS:
        # Long names that differ stay different.
        text = f"{text[: MAX_NAME_CHARS - 9]}…{zlib.crc32(text.encode()):08x}"
        notes.append(f"`{key}` is longer than {MAX_NAME_CHARS:,} characters and is shortened.")
    return text, notes


def loose_label_value(*parts: Any) -> str | None:
    """Texts and numbers that a program noted, as a name: `run a, 3`; None where there are none."""
    words = [str(part) for part in parts if type(part) in (str, int) and str(part)]
    text = ", ".join(words).encode("utf-8", "replace").decode()
    return text[:MAX_NAME_CHARS] or None


def read_vocabulary_values(value: Any) -> tuple[dict[int, str], list[str]]:
    """Token texts by id, and notes on what was left out.

    Keys of a JSON object are text, so ids arrive as `"17"`. Texts keep the lone surrogates that
    stand for bytes (see `text_bytes`).
    """
    if value is None:
        return {}, []
    if not isinstance(value, dict):
        return {}, [f"`vocab` is {value_text(value)}, not an object, and is left out."]
    if len(value) > MAX_VOCABULARY:
        return {}, [f"`vocab` holds more than {MAX_VOCABULARY:,} entries and is left out."]
    vocab: dict[int, str] = {}
    wrong = ""
    for key, text in value.items():
        if not re.fullmatch(r"0|[1-9][0-9]{0,9}", key) or int(key) > MAX_TOKEN_ID:
            wrong = wrong or f"{shown_text(key)} is no token id"
        elif not isinstance(text, str):
            wrong = wrong or f"that of token {key} is {value_text(text)}"
        else:
            if not text.isascii():
                text = HALF_PAIR.sub(lambda half: code_point_text(half[0]), text)
            vocab[int(key)] = text if len(text) <= MAX_NAME_CHARS else f"{text[:MAX_NAME_CHARS]}…"
    left = len(value) - len(vocab)
    noun = "entry" if left == 1 else "entries"
    return vocab, [f"{left:,} {noun} of `vocab` left out: {wrong}."] if left else []
