"""What a renderer writes behind an answer: found from the renderer itself, or not at all.

A prompt that keeps the sampled tokens needs one more thing, the tokens between the answer and
the next place where the model speaks. Renderers differ in them (two end tokens, another end in
history than at the end, an end that is the next message's header), so nothing about a family is
written down here. Two conversations that differ in one word of the answer are rendered; what
both have behind that word is what the renderer writes there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from sequence_extension.cookbook import renderers
from sequence_extension.edits import unedited_prefix_length
from sequence_extension.elements import model_input_to_elements

# Two answers that no tokenizer confuses, whatever follows them.
PROBE_WORDS = ("x", "y")
PROBE_PROMPT = {"role": "user", "content": "?"}


class JointUnknown(Exception):
    """The tokens behind an answer cannot be told for certain; `code` and text say why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Ending:
    """How a renderer ends answers of one kind (with tool calls, or without).

    Attributes:
        closers: Tokens that close the last tool call, before the end; empty without calls.
        sampled: The end as the model is to sample it: what a finished conversation ends with.
        header: The generation header that follows the end where no message stands between.
        own: The renderer writes the end even where no message follows. False where the end is
            (or holds) the header of the next message.
    """

    closers: tuple[Any, ...]
    sampled: tuple[Any, ...]
    header: tuple[Any, ...]
    own: bool


def joint_shared_end(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """The longest common suffix of two sequences."""
    length = 0
    for mine, other in zip(reversed(left), reversed(right), strict=False):
        if mine != other:
            break
        length += 1
    return list(left[len(left) - length :])


def joint_prompt_elements(renderer: Any, messages: Sequence[Any]) -> list[Any]:
    """The generation prompt of a conversation as flat elements."""
    return list(model_input_to_elements(renderer.build_generation_prompt(list(messages))))


def joint_finished_elements(renderer: Any, messages: Sequence[Any]) -> list[Any]:
    """A finished conversation, as the model is trained to end it, as flat elements."""
    example, _ = renderer.build_supervised_example(
        list(messages), train_on_what=renderers.TrainOnWhat.LAST_ASSISTANT_MESSAGE
    )
    return list(model_input_to_elements(example))


def joint_probe_answers(answer: Any) -> Iterator[Any]:
    """Two answers of the same shape that differ in their last word.

    With tool calls, which stand behind the text, the arguments of the last call differ; ids
    and names stay, because results are matched to them.
    """
    calls = answer.get("tool_calls")
    for word in PROBE_WORDS:
        if not calls:
            yield {"role": "assistant", "content": word}
            continue
        body = renderers.ToolCall.FunctionBody(
            name=calls[-1].function.name, arguments=f'{{"a": "{word}"}}'
        )
        last = renderers.ToolCall(function=body, id=calls[-1].id)
        yield {
            "role": "assistant",
            "content": "x" if answer["content"] else "",
            "tool_calls": [*calls[:-1], last],
        }


def joint_probe_call() -> Any:
    """A tool call to look at a renderer's way of writing them."""
    body = renderers.ToolCall.FunctionBody(name="f", arguments="{}")
    return renderers.ToolCall(function=body, id="functions.f:0")


_ENDINGS: WeakKeyDictionary[Any, dict[tuple[bool, bool], Ending]] = WeakKeyDictionary()


def joint_ending(renderer: Any, answer: Any) -> Ending:
    """The `Ending` of answers like this one; looked up once per renderer and kind."""
    kind = (bool(answer.get("tool_calls")), bool(answer["content"]))
    try:
        known = _ENDINGS.setdefault(renderer, {})
    except TypeError:  # a renderer that cannot be hashed is asked each time
        known = {}
    if kind not in known:
        known[kind] = _ask_ending(renderer, *kind)
    return known[kind]


def _ask_ending(renderer: Any, calls: bool, content: bool) -> Ending:
    """`joint_ending`, asked with four short renderings."""
    model: dict[str, Any] = {"role": "assistant", "content": "x" if content or not calls else ""}
    if calls:
        model["tool_calls"] = [joint_probe_call()]
    conversations = [[PROBE_PROMPT, answer] for answer in joint_probe_answers(model)]
    finished = joint_shared_end(
        *(joint_finished_elements(renderer, talk) for talk in conversations)
    )
    followed = joint_shared_end(*(joint_prompt_elements(renderer, talk) for talk in conversations))
    start = 0
    if calls:
        start = _end_start(renderer, finished)
    own = followed[: len(finished)] == finished
    return Ending(
        closers=tuple(finished[:start]),
        sampled=tuple(finished[start:]),
        header=tuple(followed[len(finished) :]) if own else (),
        own=own,
    )


def _end_start(renderer: Any, finished: Sequence[Any]) -> int:
    """Where the end begins behind a tool call: as it does behind text, else at a stop token."""
    plain = list(joint_ending(renderer, {"content": "x"}).sampled)
    if plain and list(finished[-len(plain) :]) == plain:
        return len(finished) - len(plain)
    stops = renderer.get_stop_sequences()
    return next((at for at, token in enumerate(finished) if token in stops), len(finished))


def joint_tokens_behind(
    renderer: Any, answer: Any, new: Sequence[Any]
) -> tuple[list[Any], list[Any], bool]:
    """What history writes behind an answer: (its end, the new messages and the header, whole).

    Args:
        renderer: A cookbook renderer.
        answer: The assistant message, as the conversation holds it.
        new: The messages behind it; none where the model speaks again at once.

    Returns:
        (end, rest, whole): `whole` is False where history does not write the end that is
        sampled, because a part of it is the header of another message than the one that
        follows; `end` is then what the two share.
    """
    ending = joint_ending(renderer, answer)
    behind = joint_shared_end(
        *(
            joint_prompt_elements(renderer, [PROBE_PROMPT, probe, *new])
            for probe in joint_probe_answers(answer)
        )
    )
    closers, sampled = list(ending.closers), list(ending.sampled)
    if behind[: len(closers)] != closers:
        raise JointUnknown("end_unclear", "the renderer closes this tool call in an unknown way")
    behind = behind[len(closers) :]
    length = unedited_prefix_length(behind, sampled)
    # In history another token may stand in the place of the end: what follows it is then the
    # header as behind the end itself.
    replaced = ending.own and len(sampled) == 1 and ending.header[:1] == tuple(behind[1:2])
    if length == 0 and replaced and ending.header:
        return behind[:1], behind[1:], True
    return behind[:length], behind[length:], length == len(sampled)


@dataclass(frozen=True)
class Tail:
    """What follows a sampled answer in the next prompt: `missing`, then `rest`.

    Attributes:
        end: The answer's end as history writes it; empty where the renderer writes none.
        missing: What of it was not sampled.
        rest: The new messages and the generation header.
    """

    end: list[Any]
    missing: list[Any]
    rest: list[Any]


def joint_tail(renderer: Any, answer: Any, new: Sequence[Any], action: Sequence[int]) -> Tail:
    """The tokens that follow a sampled answer in the next prompt.

    An end that was sampled is not written again, one that is missing is supplied.

    Args:
        renderer, answer, new: As for `joint_tokens_behind`.
        action: The answer as sampled.

    Raises:
        JointUnknown: The tail cannot be told for certain.
    """
    ending = joint_ending(renderer, answer)
    end, rest, whole = joint_tokens_behind(renderer, answer, new)
    stops = renderer.get_stop_sequences()
    if any(token in stops for token in action[:-1]):
        raise JointUnknown("end_inside", "the answer goes on behind its end token")
    if ending.sampled and len(_written(renderer, action, ending.sampled)) == len(ending.sampled):
        if not whole:
            raise JointUnknown(
                "other_message", "the answer's end opens another message than the one that follows"
            )
        return Tail(end, [], rest)
    if _ends_otherwise(renderer, action, stops):
        if ending.own:
            return Tail(end, [], rest)
        if action[-1] in _own_ends(renderer):
            raise JointUnknown(
                "other_end",
                "the answer ended with another token than its renderer writes there, so what "
                "follows cannot be told",
            )
        action = action[:-1]
    elif any(isinstance(stop, str) for stop in stops):
        text = str(renderer.tokenizer.decode(list(action)))
        if any(stop in text for stop in stops):
            raise JointUnknown("end_inside", "the answer goes on behind its end")
    return Tail(end, end[len(_written(renderer, action, end)) :], rest)


def joint_ends_with(renderer: Any, whole: Sequence[Any], tail: Tail) -> bool:
    """Whether a rendering ends with an answer's end and what follows it, token by token.

    The end is compared as text where the rendering has drawn it into the answer's last token
    (a full stop and two line breaks may be one token).
    """
    start = len(whole) - len(tail.rest)
    if start < 0 or list(whole[start:]) != tail.rest:
        return False
    before = list(whole[max(0, start - len(tail.end)) : start])
    if before == tail.end:
        return True
    decode = renderer.tokenizer.decode
    tokens = [element for element in before if isinstance(element, int)]
    return str(decode(tokens)).endswith(str(decode(tail.end)))


def _ends_otherwise(renderer: Any, action: Sequence[int], stops: Sequence[Any]) -> bool:
    """Whether an answer ends with a stop token that is not its renderer's usual end."""
    if not action:
        return False
    if any(isinstance(stop, int) for stop in stops):
        return action[-1] in stops
    return bool(action[-1] == getattr(renderer.tokenizer, "eos_token_id", None))


def _own_ends(renderer: Any) -> set[Any]:
    """Last tokens of the ends that a renderer writes itself, for either kind of answer."""
    answers: list[Any] = [{"content": "x"}, {"content": "x", "tool_calls": [joint_probe_call()]}]
    ends: set[Any] = set()
    for answer in answers:
        try:
            ends.update(joint_ending(renderer, answer).sampled[-1:])
        except Exception:  # a renderer without tool calls
            continue
    return ends


def _written(renderer: Any, action: Sequence[int], end: Sequence[Any]) -> list[Any]:
    """The beginning of an end that an answer ends with already, in tokens.

    Renderers that stop on a text are compared by text: the same end may have been sampled in
    other tokens.

    Raises:
        JointUnknown: The answer's text ends within a token of the end.
    """
    for length in range(min(len(end), len(action)), 0, -1):
        if list(action[len(action) - length :]) == list(end[:length]):
            return list(end[:length])
    if not end or not isinstance(renderer.get_stop_sequences()[0], str):
        return []
    decode = renderer.tokenizer.decode
    decoded, whole = str(decode(list(action))), str(decode(list(end)))
    shared = next((n for n in range(len(whole), 0, -1) if decoded.endswith(whole[:n])), 0)
    if not shared:
        return []
    for length in range(1, len(end) + 1):
        if str(decode(list(end[:length]))) == whole[:shared]:
            return list(end[:length])
    raise JointUnknown("end_unclear", "the answer ends in the middle of its end")
