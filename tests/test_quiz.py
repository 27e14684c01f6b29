"""Story section 10: each answer against an oracle that shares nothing with the notebook."""

import html
import re
from typing import Any

import pytest

from sequence_extension.editor.rewards import reward_rollouts
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.page.questions import all_questions, pose_question
from sequence_extension.page.quiz import quiz_card, quiz_score, quiz_verdict

Turns = list[tuple[list[int], list[int]]]


def sequences(turns: Turns) -> list[tuple[list[int], list[bool]]]:
    """Datums the slow way: tokens, and for each whether it was sampled."""
    found: list[tuple[list[int], list[bool]]] = []
    for saw, said in turns:
        if found and saw[: len(found[-1][0])] == found[-1][0]:
            tokens, sampled = found[-1]
            sampled += [False] * (len(saw) - len(tokens)) + [True] * len(said)
            tokens[:] = saw + said
        else:
            found.append((saw + said, [False] * len(saw) + [True] * len(said)))
    return found


def as_turns(trajectory: Any) -> Turns:
    return [(t.ob.to_ints(), list(t.ac.tokens)) for t in trajectory.transitions]


@pytest.fixture(scope="module")
def questions() -> dict[str, Any]:
    asked = all_questions()
    by_key = {question.key: question for question in asked}
    assert len(by_key) == len(asked) >= 5
    return by_key


def test_options_are_distinct_and_include_the_right_one(questions: dict[str, Any]) -> None:
    for question in questions.values():
        assert len(set(question.options)) == len(question.options) >= 3, question.key
        assert 0 <= question.answer < len(question.options)
        assert question.right in question.options
        assert question.why


def test_the_right_answer_has_no_favourite_place(questions: dict[str, Any]) -> None:
    assert len({question.answer for question in questions.values()}) >= 3


def test_questions_are_the_same_each_time(questions: dict[str, Any]) -> None:
    assert {question.key: question for question in all_questions()} == questions


def test_datums(questions: dict[str, Any]) -> None:
    turns = as_turns(scenario_rollout(scenarios()["new_context"]).trajectory)
    assert questions["datums"].right == str(len(sequences(turns))) == "4"
    # each agent alone would merge: that is the wrong answer people give
    agents = sum(len(sequences(turns[start::2])) for start in (0, 1))
    assert str(agents) in questions["datums"].options
    assert agents == 2


def shown_lines(question: Any) -> list[str]:
    """A question's text as a reader sees it, without markup."""
    return html.unescape(re.sub(r"<[^>]+>", "", question.ask)).splitlines()


def block_turns(question: Any) -> Turns:
    """The turns as the reader sees them, read back from the question."""
    turns: Turns = []
    for line in shown_lines(question):
        words = line.replace("turn", " ").split()
        if "saw" in words:
            turns.append((numbers(words[words.index("saw") + 1 :]), []))
        elif "said" in words:
            turns[-1][1].extend(numbers(words[words.index("said") + 1 :]))
    return turns


def numbers(words: list[str]) -> list[int]:
    return [int(word) for word in words if word.isdigit()]


def test_position(questions: dict[str, Any]) -> None:
    (saw, said), (later, _) = block_turns(questions["position"])
    held = saw + said
    first = next(i for i, (a, b) in enumerate(zip(held, later, strict=False)) if a != b)
    assert questions["position"].right == str(first)


def test_mask(questions: dict[str, Any]) -> None:
    [(tokens, sampled)] = sequences(block_turns(questions["mask"]))
    right = questions["mask"].right.strip("`[]").split()
    assert right == [str(int(one)) for one in sampled[1:]]
    assert len(right) == len(tokens) - 1
    unshifted = "`[" + " ".join(str(int(one)) for one in sampled) + "]`"
    assert unshifted in questions["mask"].options
    assert unshifted != questions["mask"].right


def test_advantage(questions: dict[str, Any]) -> None:
    totals = [0 + 0 + 1, 0.5 + 0.5, 0, -1]
    assert questions["advantage"].right == f"{totals[0] - sum(totals) / 4:+g}" == "+0.75"
    without_overflow = totals[0] - sum(totals[:3]) / 3
    assert f"{without_overflow:+.2f}" in questions["advantage"].options


def test_gradient(questions: dict[str, Any]) -> None:
    assert questions["gradient"].right == "0"
    members = reward_rollouts()
    trained = sum(
        sum(sampled[1:])
        for letter in "ABCD"
        for _, sampled in sequences(as_turns(members[letter].trajectory))
    )
    assert str(trained) in questions["gradient"].options


def test_cause(questions: dict[str, Any]) -> None:
    question = questions["cause"]
    assert question.right == "retokenised"
    # same text, other tokens, read from what the reader sees
    texts = [
        "".join(word.strip('"') for word in line.split() if word.startswith('"'))
        for line in shown_lines(question)
        if "saw" in line or "said" in line
    ]
    assert texts[2].startswith(texts[0] + texts[1])
    turns = block_turns(question)
    assert turns[1][0][: len(turns[0][0]) + len(turns[0][1])] != turns[0][0] + turns[0][1]


def test_price(questions: dict[str, Any]) -> None:
    read = sequences(block_turns(questions["price"]))
    assert len(read) == 3
    assert questions["price"].right == str(sum(len(tokens) - 1 for tokens, _ in read))


def test_empty(questions: dict[str, Any]) -> None:
    read = sequences(block_turns(questions["empty"]))
    assert questions["empty"].right == str(sum(sum(sampled[1:]) for _, sampled in read))
    assert str(sum(sum(sampled) for _, sampled in read)) in questions["empty"].options


def test_checker(questions: dict[str, Any]) -> None:
    assert "trajectory_to_data" in questions["checker"].right
    assert any("EnvFromMessageEnv" in option for option in questions["checker"].options)


def test_pose_leaves_out_accidental_right_answers() -> None:
    question = pose_question("k", "?", 3, [3, 10, 10, 2], "because")
    assert question.options == ("2", "3", "10")
    assert question.right == "3"
    with pytest.raises(ValueError, match="at least two"):
        pose_question("k", "?", 3, [3, 4], "because")


def test_verdict_and_score(questions: dict[str, Any]) -> None:
    listed = list(questions.values())
    one, two = listed[:2]
    assert "✓</span> Right</span>" in quiz_verdict(one, one.right)
    wrong = next(option for option in one.options if option != one.right)
    assert f"✕</span> No</span> It is **{one.right}**: " in quiz_verdict(one, wrong)
    assert str(len(listed)) in quiz_score(listed, {})
    score = quiz_score(listed, {one.key: wrong, two.key: two.right})
    assert score.startswith("1 of 2 right")
    assert f"{len(listed) - 2} to go" in score


def test_card_tells_nothing_before_an_answer(questions: dict[str, Any]) -> None:
    question = questions["mask"]
    before = quiz_card(1, question, "FORM", None).text
    live, static = before.split('class="quiz-static"')
    assert "Right" not in live
    assert 'class="quiz-card"' in live
    assert question.why[:20] not in live
    assert "<details><summary>Answer</summary>" in static
    after = quiz_card(1, question, "FORM", question.right).text.split('class="quiz-static"')[0]
    assert "Right</span>" in after
    assert 'class="quiz-card quiz-right"' in after
    wrong = next(option for option in question.options if option != question.right)
    assert 'class="quiz-card quiz-wrong"' in quiz_card(1, question, "FORM", wrong).text
