"""The joint: what follows a sampled answer in a prompt that keeps it.

The oracle shares nothing with the implementation. It knows each chat format's end and header by
hand (`scripted.FAMILIES`), and takes what stands behind an answer from a rendering for training
of authored messages, in which a word that occurs nowhere else stands for the answer.

1. The next prompt is: last prompt, answer, what the renderer writes behind it; in text and tokens.
2. An end that was sampled is not written twice, one that is missing is supplied.
3. Mutants (end doubled, newline lost, header missing, end missing) are caught.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from PIL import Image
from scripted import call, family_of, renderer_of, replay, sampled, text_tokens
from tinker_cookbook.renderers import TrainOnWhat
from tinker_cookbook.rl.data_processing import trajectory_to_data
from tinker_cookbook.rl.types import Trajectory

from sequence_extension.diagnosis import diagnose
from sequence_extension.elements import model_input_to_elements
from sequence_extension.env import joint, token_preserving
from sequence_extension.env.joint import Tail
from sequence_extension.env.renderers import renderer_names
from sequence_extension.env.token_preserving import FALLBACK_METRIC, REASON_LOG
from sequence_extension.rollout import Rollout

ZEBRA = "ZEBRA"
WITHOUT_CALLS = ("role_colon", "llama3")
WITH_IMAGES = ("qwen3_vl", "qwen3_5", "qwen3_8", "kimi_k25", "kimi_k26", "nemotron3_ultra")


@dataclass(frozen=True)
class Scene:
    """A conversation of several answers: what it begins with, answers, and what follows each."""

    start: list[Any]
    answers: list[Any]
    replies: list[list[Any]]
    only: Callable[[str], bool] = lambda name: True


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: Any, *calls: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    return {**message, "tool_calls": list(calls)} if calls else message


def result(name: str, text: str, serial: int) -> dict[str, Any]:
    return {
        "role": "tool",
        "name": name,
        "content": text,
        "tool_call_id": f"functions.{name}:{serial}",
    }


def thought(text: str, said: str) -> list[dict[str, Any]]:
    return [{"type": "thinking", "thinking": text}, {"type": "text", "text": said}]


def takes_calls(name: str) -> bool:
    return not name.startswith(WITHOUT_CALLS)


SCENES = {
    "text": Scene(
        [user("Hello?")],
        [answer("Hi."), answer("13"), answer("Bye!")],
        [[user("6 + 7?")], [user("Thanks.")], []],
    ),
    "system": Scene(
        [{"role": "system", "content": "Be brief."}, user("Hello?")],
        [answer("Hi."), answer("13")],
        [[user("6 + 7?")], []],
    ),
    "reasoning": Scene(
        [user("6 + 7?")],
        [answer(thought("Six, seven.", "13")), answer(thought("Twice.", "26"))],
        [[user("Twice?")], []],
        only=lambda name: takes_calls(name) and "disable" not in name and "instruct" not in name,
    ),
    "call": Scene(
        [user("6 + 7?")],
        [answer("Let me see.", call("add", '{"a": 6, "b": 7}', 0)), answer("13"), answer("26")],
        [[result("add", "13", 0)], [user("Twice?")], []],
        only=takes_calls,
    ),
    "calls": Scene(
        [user("6 + 7, 1 + 2?")],
        [
            answer(
                "I add.",
                call("add", '{"a": 6, "b": 7}', 0),
                call("add", '{"a": "one", "b": "two"}', 1),
            ),
            answer("13 and 3"),
        ],
        [[result("add", "13", 0), result("add", "3", 1)], []],
        only=lambda name: takes_calls(name) and "gpt_oss" not in name,  # one call an answer
    ),
    "two messages": Scene(
        [user("Hello?")], [answer("Hi."), answer("13")], [[user("Well."), user("6 + 7?")], []]
    ),
    "image": Scene(
        [
            user(
                [
                    {"type": "image", "image": Image.new("RGB", (56, 56))},
                    {"type": "text", "text": "?"},
                ]
            )
        ],
        [answer("Black."), answer("White."), answer("Red.")],
        [
            [user([{"type": "image", "image": Image.new("RGB", (28, 56), "white")}])],
            [
                user(
                    [
                        {"type": "text", "text": "And"},
                        {"type": "image", "image": Image.new("RGB", (28, 28), "red")},
                    ]
                )
            ],
            [],
        ],
        only=lambda name: name.startswith(WITH_IMAGES),
    ),
}
CELLS = [(name, scene) for name in renderer_names() for scene in SCENES if SCENES[scene].only(name)]


def play(name: str, scene: Scene, cut: Sequence[int] = ()) -> Trajectory:
    """A scene with every answer sampled as the renderer writes it.

    Args:
        name, scene: Renderer and conversation.
        cut: Answers whose last three tokens, end included, were never sampled.
    """
    renderer = renderer_of(name)
    messages = list(scene.start)
    answers: list[tuple[list[int], Any]] = []
    for turn, (message, reply) in enumerate(zip(scene.answers, scene.replies, strict=True)):
        tokens = sampled(renderer, name, messages, message)
        answers.append((tokens[:-3], "length") if turn in cut else (tokens, "stop"))
        messages += [message, *reply]
    trajectory, _ = replay(renderer, scene.start, scene.replies, answers, terminate_on_length=False)
    assert len(trajectory.transitions) == len(scene.answers)
    return trajectory


def written_behind(name: str, scene: Scene, turn: int) -> str:
    """What stands behind an answer in a rendering for training, up to the next answer's header."""
    renderer, family = renderer_of(name), family_of(name)
    messages = list(scene.start)
    for message, reply in zip(scene.answers[:turn], scene.replies[:turn], strict=True):
        messages += [message, *reply]
    calls = scene.answers[turn].get("tool_calls") or []
    stand_in = (
        answer(
            "x", *calls[:-1], call(calls[-1].function.name, f'{{"a": "{ZEBRA}"}}', len(calls) - 1)
        )
        if calls
        else answer(ZEBRA)
    )
    reply = scene.replies[turn]
    example, _ = renderer.build_supervised_example(
        [*messages, stand_in, *reply, answer("OSTRICH")],
        train_on_what=TrainOnWhat.LAST_ASSISTANT_MESSAGE,
    )
    text = str(renderer.tokenizer.decode(text_tokens(example)))
    behind = text.rpartition(ZEBRA)[2].partition("OSTRICH")[0]
    if calls:  # the closing of the call belongs to the answer
        end = (family.end if family.call_end is None else family.call_end) or "</tool_call>"
        behind = behind[behind.index(end) + (len(end) if not family.end else 0) :]
    opens = family.opens or "<|message_model|>"
    return behind[: behind.rindex(opens)] if opens in behind else behind


def check_joint(name: str, scene: Scene, trajectory: Trajectory, turn: int, cut: bool) -> None:
    """The prompt of turn + 1 against the oracle."""
    renderer, family = renderer_of(name), family_of(name)
    decode = renderer.tokenizer.decode
    now, after = trajectory.transitions[turn], trajectory.transitions[turn + 1]
    running = [*model_input_to_elements(now.ob), *now.ac.tokens]
    prompt = model_input_to_elements(after.ob)
    assert prompt[: len(running)] == running
    tail = [element for element in prompt[len(running) :] if isinstance(element, int)]
    wanted = written_behind(name, scene, turn)
    end = family.end
    if scene.answers[turn].get("tool_calls") and family.call_end is not None:
        end = family.call_end
    if not cut:
        assert wanted.startswith(end)
        wanted = wanted[len(end) :]
        if name == "role_colon":  # "User:" was sampled as a part of the stop text
            assert wanted.startswith("User:")
            wanted = wanted.removeprefix("User:")
        if not end:  # the header of the next message was sampled as the end
            sampled_end = str(decode(now.ac.tokens[-1:]))
            assert sampled_end.startswith("<|")
            assert wanted.startswith(sampled_end)
            wanted = wanted.removeprefix(sampled_end)
    text = str(decode(tail))
    assert text.startswith(wanted), (text, wanted)
    # What is left is the generation header, which a rendering of any conversation ends with.
    header = text[len(wanted) :]
    if family.opens and not (
        name.startswith("deepseekv3") and scene.replies[turn][-1]["role"] == "tool"
    ):
        assert header.startswith(family.opens)
    fresh = str(decode(text_tokens(renderer.build_generation_prompt([user("?")]))))
    assert fresh.endswith(header)
    # In tokens, too: as the renderer writes them where nothing was sampled.
    whole = model_input_to_elements(
        renderer.build_generation_prompt(
            [*scene.start]
            + [
                m
                for a, r in zip(scene.answers[: turn + 1], scene.replies, strict=False)
                for m in (a, *r)
            ]
        )
    )
    rest = prompt[len(running) :]
    start = len(end) and cut and len(renderer.tokenizer.encode(end, add_special_tokens=False))
    assert rest[start:] == whole[len(whole) - len(rest) + start :]


@pytest.mark.parametrize(("name", "scene"), CELLS)
def test_what_follows_an_answer_is_what_the_renderer_writes_there(name: str, scene: str) -> None:
    trajectory = play(name, SCENES[scene])
    for turn in range(len(trajectory.transitions) - 1):
        logs = trajectory.transitions[turn].logs
        assert trajectory.transitions[turn].metrics[FALLBACK_METRIC] == 0, logs.get(REASON_LOG)
        check_joint(name, SCENES[scene], trajectory, turn, cut=False)
    assert len(trajectory_to_data(trajectory, 1.0)) == 1
    codes = {warning.code for warning in diagnose(Rollout(name, trajectory)).warnings}
    assert not codes & {"separator_changed", "header_changed"}


@pytest.mark.parametrize("name", renderer_names())
def test_the_end_of_a_cut_answer_is_supplied(name: str) -> None:
    scene = Scene(
        [user("Count.")], [answer("one two three four"), answer("five")], [[user("On!")], []]
    )
    trajectory = play(name, scene, cut=[0])
    assert trajectory.transitions[0].metrics[FALLBACK_METRIC] == 0, trajectory.transitions[0].logs
    check_joint(name, scene, trajectory, 0, cut=True)


HEADER: list[int] = [0]  # length of the generation header of the renderer at hand


def test_a_part_of_the_end_that_was_sampled_is_not_written_again() -> None:
    """A cut answer ends with the line breaks; a message follows that is not the end's own."""
    renderer = renderer_of("role_colon")
    encode, decode = renderer.tokenizer.encode, renderer.tokenizer.decode
    for sampled_text, tail in (
        (" 13\n\n", "Tool: ok\n\nAssistant:"),
        (" 13", "\n\nTool: ok\n\nAssistant:"),
    ):
        answers = [(encode(sampled_text), "length"), (encode(" 26\n\nUser:"), "stop")]
        trajectory, _ = replay(
            renderer,
            [user("6 + 7?")],
            [[{"role": "tool", "content": "ok"}], []],
            answers,
            terminate_on_length=False,
        )
        first, second = trajectory.transitions
        running = [*first.ob.to_ints(), *first.ac.tokens]
        assert second.ob.to_ints()[: len(running)] == running
        assert decode(second.ob.to_ints()[len(running) :]) == tail


# What a careless joint would write: a tail of a right one, or None where there is nothing to lose.
MUTANTS: dict[str, Callable[[Tail], list[Any] | None]] = {
    "end doubled": lambda tail: [*tail.end, *tail.missing, *tail.rest] if tail.end else None,
    "first token lost": lambda tail: [*tail.missing, *tail.rest][1:],
    "header missing": lambda tail: [*tail.missing, *tail.rest[: -HEADER[0]]] if HEADER[0] else None,
    "first token doubled": lambda tail: [*tail.missing, *tail.rest[:1], *tail.rest],
}


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("name", renderer_names())
def test_the_oracle_catches_mutants(
    name: str, mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer = renderer_of(name)
    opens = family_of(name).opens
    HEADER[0] = len(renderer.tokenizer.encode(opens, add_special_tokens=False))
    right = joint.joint_tail
    changed = []

    def careless(*given: Any) -> Tail:
        tail = right(*given)
        broken = MUTANTS[mutant](tail)
        changed.append(broken is not None)
        return tail if broken is None else Tail(tail.end, [], broken)

    monkeypatch.setattr(token_preserving, "joint_tail", careless)
    monkeypatch.setattr(token_preserving, "joint_ends_with", lambda *given: True)
    trajectory = play(name, SCENES["text"])
    if not all(changed):
        assert name == "tml_v0"  # no header: the model writes its own
        return
    with pytest.raises((AssertionError, ValueError)):
        check_joint(name, SCENES["text"], trajectory, 0, cut=False)


@pytest.mark.parametrize("name", renderer_names())
def test_the_environment_itself_refuses_a_joint_without_header(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = joint.joint_tail

    def careless(*given: Any) -> Tail:
        tail = right(*given)
        return Tail(tail.end, tail.missing, tail.rest[:-1])

    monkeypatch.setattr(token_preserving, "joint_tail", careless)
    trajectory = play(name, SCENES["text"])
    assert [turn.metrics[FALLBACK_METRIC] for turn in trajectory.transitions[:2]] == [1, 1]
