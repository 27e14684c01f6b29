"""Section 11: the questions as forms, and what the code says to an answer."""

from collections.abc import Mapping, Sequence
from typing import Any

import marimo as mo

from sequence_extension.page.live import is_live_kernel
from sequence_extension.page.questions import Question, all_questions
from sequence_extension.text import count_text


def quiz_verdict(question: Question, chosen: str) -> str:
    """Right or not by sign, word and colour, and why; markdown."""
    right = chosen == question.right
    sign = (
        f'<span class="quiz-sign{" quiz-sign-right" * right}">'
        f'<span aria-hidden="true">{"✓" if right else "✕"}</span> {"Right" if right else "No"}'
        "</span>"
    )
    told = "" if right else f" It is **{question.right}**:"
    return f"{sign}{told} {question.why}"


def quiz_score(questions: Sequence[Question], first: Mapping[str, str]) -> str:
    """The score of the first answers, in words."""
    right = sum(first.get(question.key) == question.right for question in questions)
    if not first:
        return f"{count_text(len(questions), 'question')}. Your first answer to each one counts."
    return f"{right} of {len(first)} right, {len(questions) - len(first)} to go."


def quiz_card(number: int, question: Question, form: Any, chosen: str | None) -> mo.Html:
    """One question with its form, and what the code says once an answer is given.

    In a static page no answer can be sent, so there the form gives way to an answer that
    unfolds; the page itself tells which of the two it shows.

    Args:
        number: Of the question, from 1.
        question: What is asked.
        form: Its form; None where nobody can send it, so that the browser makes none.
        chosen: The answer that was sent.
    """
    told = mo.md(quiz_verdict(question, chosen)).text if chosen else ""
    options = mo.md("\n".join(f"- {option}" for option in question.options)).text
    answer = mo.md(f"**{question.right}**: {question.why}").text
    live = (
        f'<div class="quiz-live">{form}<div role="status">{told}</div></div>'
        if form is not None
        else ""
    )
    edge = f" quiz-{'right' if chosen == question.right else 'wrong'}" if chosen else ""
    return mo.Html(
        f'<div class="quiz-card{edge}">{mo.md(f"**{number}.** {question.ask}").text}'
        f"{live}"
        f'<div class="quiz-static">{options}<details><summary>Answer</summary>{answer}</details>'
        "</div></div>"
    )


def quiz_forms() -> Any:
    """A form per question, keyed like the questions."""
    return mo.ui.dictionary(
        {
            question.key: mo.ui.radio(
                options={option.replace("`", ""): option for option in question.options},
                label=f'<span class="sr-only">Your answer to question {number}</span>',
            ).form(
                submit_button_label="Check",
                bordered=False,
                validate=lambda value: None if value else "Choose an answer first.",
            )
            for number, question in enumerate(all_questions(), start=1)
        }
    )


def quiz_view(forms: Any, first: dict[str, str], again: Any) -> mo.Html:
    """All questions, the score of the first answers, and the button to start again.

    Args:
        forms: From `quiz_forms`.
        first: The first answer to each question; what is answered now for the first time is
            added to it.
        again: The button.
    """
    questions = all_questions()
    for key, chosen in forms.value.items():
        if chosen is not None:
            first.setdefault(key, chosen)
    shown = forms.elements if is_live_kernel() else {}
    cards = [
        quiz_card(number, question, shown.get(question.key), forms.value[question.key]).text
        for number, question in enumerate(questions, start=1)
    ]
    # two columns that are read one after the other: a card that grows moves none but those below
    half = (len(cards) + 1) // 2
    columns = "".join(f"<div>{''.join(part)}</div>" for part in (cards[:half], cards[half:]))
    score = mo.hstack(
        [mo.md(quiz_score(questions, first)), again],
        justify="start",
        align="center",
        gap=1,
        wrap=True,
    )
    return mo.Html(
        f'<div class="quiz-grid">{columns}</div><div class="seq-live-only">{score}</div>'
    )
