"""What `trajectory_to_data` makes of a trajectory, or why it refuses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sequence_extension.cookbook import DataValidationError, Trajectory, tinker, trajectory_to_data
from sequence_extension.elements import model_input_to_elements
from sequence_extension.text import count_text
from sequence_extension.turns import walk_turns

# The most frequent fault: the tokens are known, so what the datums would be is known, too.
LOGPROBS_MISSING = "logprobs missing"


@dataclass(frozen=True)
class Built:
    """What `trajectory_to_data` made of a trajectory: datums, or the reason there are none.

    Attributes:
        data: The cookbook's datums; empty on error.
        error_code: Class name of the exception, or None.
        error_message: A plain sentence that names the turn, or None.
        error_name: The same in two or three words, or None.
        help: What helps against the error, or None.
    """

    data: tuple[tinker.Datum, ...]
    error_code: str | None = None
    error_message: str | None = None
    help: str | None = None
    error_name: str | None = None


Fault = tuple[type[Exception], str, str, str]


def datum_faults(trajectory: Trajectory) -> Iterator[Fault]:
    """What `trajectory_to_data` refuses, in the order in which it would meet it.

    Source of the rules: the asserts and checks in `trajectory_to_data`, `ImageChunk.length`,
    `TokensWithLogprobs.logprobs` and `create_rightshifted_model_input_and_leftshifted_targets`.

    Yields:
        The class of exception, a plain sentence that names the turn, what helps, and a name.
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
                    "Give every image its size in tokens, `expected_tokens`.",
                    "image without a size",
                )
        if given is None:
            yield (
                ValueError,
                f"Turn {turn} has no logprobs. Sample with logprobs, or this rollout cannot "
                "become training data.",
                "Record logprobs for every action; None is refused.",
                LOGPROBS_MISSING,
            )
        elif len(given) != len(tokens):
            surplus += len(given) - len(tokens)
            uneven.append(
                f"Turn {turn} has {count_text(len(tokens), 'action token')} but "
                f"{count_text(len(given), 'logprob')}. Give one logprob per action token."
            )
        if (turn + 1 == len(spans) or spans[turn + 1].splits) and (elements or tokens):
            yield from datum_closing_faults(turn, elements, tokens)
            if surplus:
                helps = "Record one logprob for every action token."
                yield AssertionError, uneven[0], helps, "logprobs too few or too many"


def datum_closing_faults(
    turn: int, elements: Sequence[Any], tokens: Sequence[int]
) -> Iterator[Fault]:
    """What is wrong with the end of a datum, see `datum_faults`."""
    if not tokens and not isinstance(elements[-1], int):
        yield (
            DataValidationError,
            f"The datum that ends with turn {turn} ends on an image. An image cannot be a "
            "target: the last element must be a token.",
            "Let a rollout end on a token, not on an image.",
            "ends on an image",
        )
    if len(elements) + len(tokens) == 1:
        yield (
            DataValidationError,
            f"The datum that ends with turn {turn} holds a single token. At least 2 are "
            "needed: one to read, one to predict.",
            "Let a rollout hold at least two tokens.",
            "too short",
        )


def explain_datum_error(trajectory: Trajectory, error: Exception) -> tuple[str, str, str]:
    """An exception of `trajectory_to_data` in a plain sentence; what helps; and its name."""
    for kind, sentence, helps, name in datum_faults(trajectory):
        if type(error) is kind:
            return sentence, helps, name
    sentence = f"trajectory_to_data refused this rollout: {error}"
    return sentence, "Mend what the message at the rollout names.", type(error).__name__


def datums_lack_logprobs(trajectory: Trajectory) -> bool:
    """Whether missing logprobs are all that `trajectory_to_data` refuses."""
    names = {name for _, _, _, name in datum_faults(trajectory)}
    return names == {LOGPROBS_MISSING}


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
        return Built((), type(error).__name__, *explain_datum_error(trajectory, error))


def datum_tensor(datum: tinker.Datum, name: str) -> list[Any]:
    """One field of `loss_fn_inputs` as a flat list, one entry per target."""
    return list(datum.loss_fn_inputs[name].data)


def nonzero_datum_targets(data_D: Sequence[tinker.Datum], name: str, unmasked: bool = False) -> int:
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
