"""Values of a file, validated, to rollouts."""

import base64
import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

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

from sequence_extension.cookbook import TokensWithLogprobs, Trajectory, Transition, tinker
from sequence_extension.rollout import MAX_TOKEN_ID, Rollout, elements_to_model_input, image_chunk
from sequence_extension.text import describe_value, shown

# Of one trajectory; tokens count the history again in every turn, as the work does.
MAX_ROLLOUT_TURNS = 2_000
MAX_ROLLOUT_TOKENS = 20_000_000
MAX_IMAGE_TOKENS = 100_000
MAX_VOCABULARY = 500_000
MAX_NAME_CHARS = 1_000


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
