"""A conversation as the rollout it would have been."""

import json
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
from sequence_extension.edits import unedited_prefix_length
from sequence_extension.elements import elements_to_model_input, model_input_to_elements
from sequence_extension.env.renderers import (
    build_renderer,
    collect_renderer_warnings,
    renderer_names,
)
from sequence_extension.env.vocabulary import offline_vocabulary
from sequence_extension.rollout import PLACEHOLDER_LOGPROB, Rollout
from sequence_extension.text import first_sentence_text
from sequence_extension.tokenizers import tokenizer_texts
from sequence_extension.wording import cause_wording

# Tokens of a generation prompt that a finished answer may leave out (an opened <think>).
GENERATION_SUFFIX_TOKENS = 8


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


def render_conversation_turn(
    renderer: Any, messages: Sequence[Any], index: int
) -> tuple[Any, Any, str]:
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
    shared = unedited_prefix_length(prompt, finished)
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


def conversation_unwritten_parts(
    renderer: Any, messages: Sequence[Any], index: int, action: Sequence[int]
) -> list[str]:
    """Names of what the renderer leaves out of an answer: it renders the same without.

    Args:
        renderer, messages, index: As for `render_conversation_turn`.
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
            same = (
                render_conversation_turn(renderer, [*messages[:index], without], index)[1] == action
            )
        except Exception:  # without it the answer cannot be written at all, so it is written
            same = False
        if same:
            unwritten.append(name)
    return unwritten


def conversation_plain_reasoning(
    renderer: Any, messages: Sequence[Any], index: int, written: Sequence[int]
) -> str:
    """What becomes of reasoning that an answer holds as plain text, not as a thinking part.

    Args:
        renderer, messages, index: As for `render_conversation_turn`.
        written: The end of the prompt and the answer's tokens.
    """
    content = messages[index]["content"]
    start = f"Message {index} holds its reasoning as plain text, not as a thinking part"
    answers = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    if index == answers[-1]:
        return f"{start}."
    prompt = list(messages[: answers[answers.index(index) + 1]])
    later = model_input_to_elements(renderer.build_generation_prompt(prompt))
    if content not in renderer.tokenizer.decode([at for at in later if isinstance(at, int)]):
        return f"{start}; this renderer does not write it into history as it stands."
    if content in renderer.tokenizer.decode(list(written)):
        return f"{start}: this renderer keeps it in history as it stands."
    return (
        f"{start}: history keeps it as it stands, but this renderer writes the answer itself "
        "otherwise, with line breaks for instance, and these are not in history."
    )


def conversation_rollout(
    messages: Sequence[Any], renderer: Any, name: str = "conversation"
) -> ConversationRollout:
    """Every assistant message as one turn: prompt as observation, rendered answer as action.

    No model was asked, so there are no log-probabilities; a constant stands in for them,
    because whether turns extend depends on the tokens alone.

    Args:
        messages: From `parse_messages`.
        renderer: A cookbook renderer.
        name: Name of the rollout.
    """
    turns = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
    transitions: list[Transition] = []
    notes: list[str] = []
    seen: set[int] = set()
    for index in turns:
        try:
            with collect_renderer_warnings() as caught:
                observation, action, note = render_conversation_turn(renderer, messages, index)
                unwritten = conversation_unwritten_parts(renderer, messages, index, action)
        except Exception as error:  # whatever a renderer raises becomes the sentence
            return ConversationRollout(
                None,
                issues=(f"Message {index} cannot be rendered: {first_sentence_text(error)}.",),
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
            notes.append(conversation_plain_reasoning(renderer, messages, index, [*tail, *action]))
        notes.extend(f"The renderer warns: {first_sentence_text(entry)}." for entry in caught)
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
        vocab=tokenizer_texts(renderer.tokenizer, sorted(seen)),
    )
    return ConversationRollout(rollout, tuple(turns), notes=tuple(dict.fromkeys(notes)))


def conversation_everywhere(messages: Sequence[Any]) -> pd.DataFrame:
    """One conversation under every renderer that can be built: turns, datums, first cause."""
    tokenizer = offline_vocabulary()
    rows = []
    for name in renderer_names():
        renderer, problem = build_renderer(name, tokenizer)
        result = conversation_rollout(messages, renderer) if renderer is not None else None
        if result is None or result.rollout is None:
            why = problem or " ".join(result.issues if result else ())
            rows.append({"renderer": name, "datums/turns": "none", "first break": "", "note": why})
            continue
        diagnosis = diagnose(result.rollout)
        split = diagnosis.breaks[0] if diagnosis.breaks else None
        rows.append(
            {
                "renderer": name,
                "datums/turns": f"{len(diagnosis.built.data)}/{len(diagnosis.spans)}",
                "first break": f"turn {split.turn}, {cause_wording(split.cause)}" if split else "",
                "note": " ".join(result.notes),
            }
        )
    return pd.DataFrame(rows)


def conversation_renderers_alike(table: pd.DataFrame) -> pd.DataFrame:
    """`conversation_everywhere` with one row for all renderers that it says the same of."""
    facts = ["datums/turns", "first break", "note"]
    alike = table.groupby(facts, sort=False)["renderer"].agg(", ".join).reset_index()
    return alike[["renderer", *facts]]
