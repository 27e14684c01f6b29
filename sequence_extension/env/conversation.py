"""A pasted conversation as the rollout it would have been."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from sequence_extension.cookbook import (
    TokensWithLogprobs,
    Trajectory,
    Transition,
    renderers,
    tinker,
)
from sequence_extension.diagnosis import diagnose
from sequence_extension.env.renderers import build_renderer, renderer_names
from sequence_extension.env.vocabulary import offline_tokenizer
from sequence_extension.rollout import (
    PLACEHOLDER_LOGPROB,
    Rollout,
    common_prefix_length,
    elements_to_model_input,
    model_input_to_elements,
)
from sequence_extension.text import first_sentence
from sequence_extension.tokenizers import token_texts
from sequence_extension.wording import cause_name

# Bounds of a pasted conversation: every renderer answers within a tenth of a second.
CONVERSATION_ROLES = ("system", "developer", "user", "assistant", "tool")
CONVERSATION_CHARACTERS = 40_000
CONVERSATION_MESSAGES = 64
# Tokens of a generation prompt that a finished answer may leave out (an opened <think>).
GENERATION_SUFFIX_TOKENS = 8


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
