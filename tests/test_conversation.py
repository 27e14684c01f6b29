"""Messages in, verdict out: a pasted conversation as the rollout a renderer makes of it.

Invariants:
1. Whatever is pasted gives messages or sentences, never an exception.
2. A turn's observation is `build_generation_prompt` of the messages before it; its action is
   what the renderer's own finished turn writes behind that prompt.
3. Where a renderer claims extension, keeps its prompt, and the conversation is plain, there is
   one datum.
4. What a renderer leaves out of an answer is named.
"""

import json
import threading
import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sequence_extension.diagnosis import diagnose
from sequence_extension.env.conversation import conversation_everywhere, conversation_rollout
from sequence_extension.env.messages import (
    CONVERSATION_CHARACTERS,
    CONVERSATION_MESSAGES,
    messages_example,
    parse_messages,
)
from sequence_extension.env.renderers import (
    build_renderer,
    collect_renderer_warnings,
    renderer_names,
)
from sequence_extension.env.vocabulary import offline_vocabulary
from sequence_extension.page.html import details_table_html
from sequence_extension.page.pasted import pasted_view
from sequence_extension.turns import walk_turns

# Renderers warn about conversations they were not made for; these tests give them many.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SETTINGS = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

# Renderers whose finished turn does not start with their own generation prompt when the answer
# holds no reasoning: the prompt opens `<think>` with a newline, the finished turn writes
# `<think></think>`.
PROMPT_DROPPED = {
    "nemotron3", "nemotron3_low_thinking", "nemotron3_preserve_thinking", "nemotron3_ultra",
    "nemotron3_ultra_medium_thinking", "nemotron3_ultra_preserve_thinking",
}  # fmt: skip


def plain(turns: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are a tutor."}]
    for turn in range(turns):
        messages.append({"role": "user", "content": f"What is {turn} plus 5?"})
        messages.append({"role": "assistant", "content": f"It is {turn + 5}."})
    return messages


def reasoned(turns: int) -> list[dict[str, Any]]:
    messages = plain(turns)
    for message in messages:
        if message["role"] == "assistant":
            message["content"] = [
                {"type": "thinking", "thinking": "I add five."},
                {"type": "text", "text": message["content"]},
            ]
    return messages


@pytest.fixture(scope="module")
def built() -> dict[str, Any]:
    """Every renderer that can be built on the offline vocabulary."""
    tokenizer = offline_vocabulary()
    pairs = {name: build_renderer(name, tokenizer)[0] for name in renderer_names()}
    return {name: renderer for name, renderer in pairs.items() if renderer is not None}


def datums(messages: Any, renderer: Any) -> int:
    read = parse_messages(json.dumps(messages))
    assert read.issues == ()
    found = conversation_rollout(read.messages, renderer)
    assert found.issues == ()
    assert found.rollout is not None
    diagnosis = diagnose(found.rollout)
    assert diagnosis.built.error_code is None
    return len(diagnosis.built.data)


# --- 1: reading -------------------------------------------------------------------------------

# pasted text -> words that its sentence must hold
REFUSED = {
    "": "Paste a conversation",
    "[{": "not JSON",
    '[{"role": "user", "content": "hi"},]': "line 1, column",
    "[" * 20_000: "nested",
    "[" + "9" * 5000 + "]": "long a number",
    '"hello"': "list of messages",
    "[3]": "Message 0 is not an object",
    '[{"content": "x"}]': "Message 0 has no role",
    '[{"role": "user", "content": "a"}, {"role": "judge"}]': 'Message 1 has the role "judge"',
    '[{"role": ["user"], "content": "x"}]': "Message 0 has the role",
    '[{"role": "user"}]': "Message 0 (user) has no content",
    '[{"role": "user", "content": 3}]': "neither text nor a list",
    '[{"role": "user", "content": [{"type": "image"}]}]': 'part 0, has the type "image"',
    '[{"role": "user", "content": [{"text": "x"}]}]': "part 0, has no type",
    '[{"role": "user", "content": [{"type": "text"}]}]': 'no text under "text"',
    '[{"role": "user", "content": [7]}]': "part 0, is neither",
    '[{"role": "user", "content": "x", "tool_calls": []}]': "assistant messages only",
    '[{"role": "assistant", "content": "x", "tool_calls": [{"name": "f"}]}]': "tool call 0, needs",
    '[{"role": "user", "content": "x"}]': "no assistant message",
    "[]": "no assistant message",
    '[{"role": "assistant", "content": "\\ud800"}]': "surrogate",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text[:40]))
def test_what_cannot_be_read_says_why(text: str) -> None:
    read = parse_messages(text)
    assert read.messages == ()
    assert any(REFUSED[text] in issue for issue in read.issues), read.issues
    assert all(len(issue) < 300 and "\n" not in issue for issue in read.issues)


def test_every_bad_message_gets_its_own_sentence() -> None:
    read = parse_messages('[{"role": "user"}, {"role": "assistant"}, 5]')
    assert [issue.split()[1] for issue in read.issues[:3]] == ["0", "1", "2"]


def test_size_is_bounded() -> None:
    long = json.dumps([{"role": "assistant", "content": "x" * CONVERSATION_CHARACTERS}])
    assert "characters long" in parse_messages(long).issues[0]
    many = json.dumps([{"role": "assistant", "content": ""}] * (CONVERSATION_MESSAGES + 1))
    assert "too many" in parse_messages(many).issues[0]
    most = json.dumps([{"role": "assistant", "content": ""}] * CONVERSATION_MESSAGES)
    assert parse_messages(most).issues == ()


def test_forms_that_chat_apis_write_are_read() -> None:
    text = json.dumps(
        {
            "messages": [
                {"role": "user", "content": "2 plus 3?", "weight": 1},
                {
                    "role": "assistant",
                    "content": None,
                    "reasoning_content": "I call the tool.",
                    "tool_calls": [
                        {"id": "c0", "function": {"name": "add", "arguments": {"a": 2, "b": 3}}}
                    ],
                },
                {"role": "tool", "content": "5", "name": "add", "tool_call_id": "c0"},
            ]
        }
    )
    user, assistant, tool = parse_messages(text).messages
    assert user == {"role": "user", "content": "2 plus 3?"}
    assert assistant["content"] == [
        {"type": "thinking", "thinking": "I call the tool."},
        {"type": "text", "text": ""},
    ]
    assert json.loads(assistant["tool_calls"][0].function.arguments) == {"a": 2, "b": 3}
    assert (tool["name"], tool["tool_call_id"]) == ("add", "c0")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["role", "content", "type", "text", "thinking", "tool_calls", "function",
                         "name", "arguments", "messages", "reasoning_content"]),
        inner | st.sampled_from(["user", "assistant", "tool", "text", "thinking"]),
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
text_messages = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "assistant", "tool", "developer"]),
            "content": st.text(max_size=12)
            | st.lists(
                st.fixed_dictionaries(
                    {"type": st.just("text"), "text": st.text(max_size=6)}
                )
                | st.fixed_dictionaries(
                    {"type": st.just("thinking"), "thinking": st.text(max_size=6)}
                ),
                max_size=3,
            ),
        }
    ),
    max_size=6,
)  # fmt: skip


@SETTINGS
@given(st.text(max_size=60) | json_values.map(json.dumps))
def test_any_text_gives_messages_or_sentences(text: str) -> None:
    read = parse_messages(text)
    assert bool(read.messages) != bool(read.issues)


@SETTINGS
@given(messages=text_messages, data=st.data())
def test_any_conversation_gives_turns_or_a_sentence(
    built: dict[str, Any], messages: Any, data: st.DataObject
) -> None:
    read = parse_messages(json.dumps(messages))
    name = data.draw(st.sampled_from(sorted(built)))
    if read.issues:
        return
    found = conversation_rollout(read.messages, built[name])
    assert (found.rollout is None) == bool(found.issues)
    if found.rollout is not None:
        assert len(found.rollout.trajectory.transitions) == len(found.answers)
        assert diagnose(found.rollout).built.error_code is None


# --- 2: observation and action ----------------------------------------------------------------


@pytest.mark.parametrize("kind", [plain, reasoned])
def test_turns_are_the_renderers_own_prompt_and_answer(built: dict[str, Any], kind: Any) -> None:
    seen = 0
    for name, renderer in built.items():
        messages = list(parse_messages(json.dumps(kind(2))).messages)
        found = conversation_rollout(messages, renderer)
        if found.rollout is None:
            continue
        for index, transition in zip(
            found.answers, found.rollout.trajectory.transitions, strict=True
        ):
            prompt = renderer.build_generation_prompt(messages[:index]).to_ints()
            finished, _ = renderer.build_supervised_example(
                messages[: index + 1], train_on_what="last_assistant_message"
            )
            assert transition.ob.to_ints() == prompt, name
            if not any("leaves out" in note for note in found.notes):
                assert prompt + transition.ac.tokens == finished.to_ints(), name
                answer, termination = renderer.parse_response(transition.ac.tokens)
                if not name.startswith("gpt_oss"):  # its finished turn may end the whole chat
                    assert termination.is_clean, name
                assert f"It is {found.answers.index(index) + 5}." in json.dumps(
                    answer["content"]
                ), name
                seen += 1
    assert seen >= 20


# --- 3: claims --------------------------------------------------------------------------------


def test_plain_conversations_stay_one_datum_where_extension_is_claimed(
    built: dict[str, Any],
) -> None:
    claiming = [name for name, renderer in built.items() if renderer.has_extension_property]
    assert len(claiming) >= 10
    for name in claiming:
        expected = 3 if name in PROMPT_DROPPED else 1
        assert datums(plain(3), built[name]) == expected, name


@SETTINGS
@given(
    answers=st.lists(
        st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=12),
        min_size=1,
        max_size=4,
    ),
    data=st.data(),
)
def test_any_plain_answers_stay_one_datum_where_extension_is_claimed(
    built: dict[str, Any], answers: list[str], data: st.DataObject
) -> None:
    claiming = sorted(
        name
        for name, renderer in built.items()
        if renderer.has_extension_property and name not in PROMPT_DROPPED
    )
    messages: list[dict[str, Any]] = []
    for answer in answers:
        messages.append({"role": "user", "content": "Go on."})
        messages.append({"role": "assistant", "content": answer})
    assert datums(messages, built[data.draw(st.sampled_from(claiming))]) == 1


def test_reasoning_splits_where_it_is_stripped_from_history(built: dict[str, Any]) -> None:
    # qwen3 writes [O1 <think>..</think> A1], then shows [O1 A1 O2]: three turns, three datums
    assert datums(reasoned(3), built["qwen3"]) == 3
    assert datums(reasoned(3), built["kimi_k26_preserve_thinking"]) == 1


def test_a_dropped_prompt_is_named_and_splits_there(built: dict[str, Any]) -> None:
    read = parse_messages(json.dumps(plain(2)))
    for name in sorted(PROMPT_DROPPED):
        found = conversation_rollout(read.messages, built[name])
        assert len(found.notes) == 2, name
        assert all("leaves out" in note and '"\\n"' in note for note in found.notes), name
        assert found.rollout is not None
        spans = walk_turns(found.rollout.trajectory)
        assert spans[1].splits, name
        assert spans[1].position < spans[0].observation, name  # inside the prompt, not the answer


# --- 4: left out ------------------------------------------------------------------------------


def test_what_a_renderer_does_not_write_is_named(built: dict[str, Any]) -> None:
    calls = plain(1)
    calls[-1]["tool_calls"] = [{"function": {"name": "add", "arguments": "{}"}}]

    def notes(name: str, messages: Any) -> str:
        read = parse_messages(json.dumps(messages))
        return " ".join(conversation_rollout(read.messages, built[name]).notes)

    assert "does not write its tool calls" in notes("llama3", calls)
    assert notes("qwen3", calls) == ""
    assert "does not write its reasoning" in notes("deepseekv3", reasoned(1))
    assert notes("qwen3", reasoned(1)) == ""
    inline = plain(1)
    inline[-1]["content"] = "<think>I add.</think>It is 5."
    assert "reasoning as plain text" in notes("qwen3", inline)


@pytest.mark.parametrize(
    ("name", "content", "told", "cause"),
    [
        ("qwen3", "<think>a</think>b", "writes the answer itself otherwise", "removed"),
        ("qwen3", "<think>\na\n</think>\n\nb", "keeps it in history as it stands", None),
        ("deepseekv3", "<think>a</think>b", "does not write it into history", None),
        ("role_colon", "<think>a</think>b", "keeps it in history as it stands", None),
    ],
)
def test_reasoning_as_plain_text_and_the_verdict_agree(
    built: dict[str, Any], name: str, content: str, told: str, cause: str | None
) -> None:
    answers = [{"role": "user", "content": "?"}, {"role": "assistant", "content": content}] * 2
    found = conversation_rollout(answers, built[name])
    assert told in found.notes[0]
    assert found.notes[1].endswith("not as a thinking part.")  # nothing comes after it
    assert found.rollout is not None
    breaks = diagnose(found.rollout).breaks
    assert [entry.cause for entry in breaks] == ([] if cause is None else [cause])


def test_what_a_renderer_warns_of_is_passed_on(built: dict[str, Any]) -> None:
    # plain() opens with a system message, and this renderer writes one of its own
    read = parse_messages(json.dumps(plain(2)))
    found = conversation_rollout(read.messages, built["gpt_oss_low_reasoning"])
    assert len(found.notes) == 1
    assert found.notes[0].startswith("The renderer warns: use_system_prompt=True but")


def test_a_renderer_that_refuses_gives_one_sentence(built: dict[str, Any]) -> None:
    read = parse_messages(json.dumps(reasoned(2)))
    found = conversation_rollout(read.messages, built["llama3"])
    assert found.rollout is None
    assert len(found.issues) == 1
    assert found.issues[0].startswith("Message 2 cannot be rendered: ")


def test_what_another_thread_warns_of_is_not_in_the_notes(built: dict[str, Any]) -> None:
    started, over = threading.Event(), threading.Event()

    def other_reader() -> None:
        while not over.is_set():
            warnings.warn("of another reader", UserWarning, stacklevel=1)
            started.set()
            over.wait(0.001)

    filters = list(warnings.filters)
    worker = threading.Thread(target=other_reader)
    worker.start()
    started.wait()
    try:
        read = parse_messages(json.dumps(plain(2)))
        notes = conversation_rollout(read.messages, built["gpt_oss_low_reasoning"]).notes
        with collect_renderer_warnings() as caught:
            warnings.warn("of this one", UserWarning, stacklevel=1)
    finally:
        over.set()
        worker.join()
    assert any("use_system_prompt" in note for note in notes)  # its own warning is there
    assert not any("another reader" in note for note in notes)
    assert [str(entry) for entry in caught] == ["of this one"]
    assert list(warnings.filters) == filters


def test_the_example_conversation_is_telling() -> None:
    read = parse_messages(messages_example())
    assert read.issues == ()
    everywhere = conversation_everywhere(read.messages).set_index("renderer")
    assert everywhere.index.tolist() == renderer_names()
    assert everywhere.loc["qwen3", "datums/turns"] == "3/3"
    assert everywhere.loc["qwen3", "first break"] == "turn 1, removed"
    assert everywhere.loc["tml_v0", "datums/turns"] == "1/3"
    assert "cannot be rendered" in str(everywhere.loc["llama3", "note"])
    renderer, _ = build_renderer("qwen3", offline_vocabulary())
    found = conversation_rollout(read.messages, renderer)
    page = pasted_view(found).text
    assert "splits at position" in page
    assert "opens datum 0" in page


def test_pasted_markup_stays_text() -> None:
    hostile = "</textarea><script>alert(1)</script>"
    text = json.dumps(
        [
            {"role": "user", "content": hostile},
            {"role": "assistant", "content": hostile},
            {"role": "user", "content": hostile},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": hostile}]},
        ]
    )
    read = parse_messages(text)
    for name in ("qwen3", "llama3", "role_colon"):
        renderer, _ = build_renderer(name, offline_vocabulary())
        found = conversation_rollout(read.messages, renderer)
        if found.rollout is not None:
            assert "<script>" not in pasted_view(found).text
    page = details_table_html(conversation_everywhere(read.messages)).text
    assert "<script>" not in page
