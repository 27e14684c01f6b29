"""A pasted conversation: JSON of chat APIs to the cookbook's messages."""

import json
from dataclasses import dataclass
from typing import Any

from sequence_extension.cookbook import renderers

# Bounds of a pasted conversation: every renderer answers within a tenth of a second.
CONVERSATION_ROLES = ("system", "developer", "user", "assistant", "tool")
CONVERSATION_CHARACTERS = 40_000
CONVERSATION_MESSAGES = 64


@dataclass(frozen=True)
class Conversation:
    """A pasted conversation, read or refused.

    Attributes:
        messages: Cookbook messages (dicts with role and content); empty when refused.
        issues: One sentence per reason to refuse; names the message, counted from 0.
    """

    messages: tuple[Any, ...]
    issues: tuple[str, ...] = ()


def read_message_part(part: Any, where: str) -> tuple[Any, str]:
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


def read_message_tool_call(call: Any, where: str) -> tuple[Any, str]:
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
            part, problem = read_message_part(given_part, f"{where}, part {number},")
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
            call, problem = read_message_tool_call(given_call, f"{where}, tool call {number},")
            if problem:
                return None, problem
            message["tool_calls"].append(call)
        if not calls:
            del message["tool_calls"]
    for key in ("name", "tool_call_id"):
        if isinstance(entry.get(key), str):
            message[key] = entry[key]
    return message, ""


def parse_messages(text: str) -> Conversation:
    """Pasted JSON to messages, or the reasons why not.

    Args:
        text: A JSON list of messages, or an object that holds one under "messages". At most
            `CONVERSATION_CHARACTERS` characters and `CONVERSATION_MESSAGES` messages.
    """
    entries, problem = _read_entries(text)
    if problem:
        return Conversation((), (problem,))
    read = [read_message(entry, index) for index, entry in enumerate(entries)]
    messages = [message for message, issue in read if not issue]
    issues = [issue for _, issue in read if issue]
    if not issues and not any(message["role"] == "assistant" for message in messages):
        issues.append("There is no assistant message, so there is no turn to look at.")
    try:  # a lone surrogate is valid JSON, but no text that can be encoded
        json.dumps(entries, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        issues.append("The text holds half of a surrogate pair, which no tokenizer can encode.")
    return Conversation((), tuple(issues)) if issues else Conversation(tuple(messages))


def _read_entries(text: str) -> tuple[list[Any], str]:
    """The entries of a pasted conversation as they stand: (entries, "") or ([], sentence)."""
    if not text.strip():
        return [], "Paste a conversation: a JSON list of messages."
    if len(text) > CONVERSATION_CHARACTERS:
        return [], (
            f"This conversation is {len(text):,} characters long; "
            f"at most {CONVERSATION_CHARACTERS:,} are read here."
        )
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        return [], f"This is not JSON: {error.msg} in line {error.lineno}, column {error.colno}."
    except (ValueError, RecursionError):  # endless digits, or brackets nested without end
        return [], "This JSON is nested too deeply or holds too long a number."
    if isinstance(data, dict) and "messages" in data:
        data = data["messages"]
    if not isinstance(data, list):
        return [], "A conversation is a list of messages: [{...}, {...}]."
    if len(data) > CONVERSATION_MESSAGES:
        return [], f"{len(data)} messages are too many; at most {CONVERSATION_MESSAGES} are read."
    return data, ""


def messages_example() -> str:
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
