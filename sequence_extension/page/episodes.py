"""One episode: its transcript, its breaks, its datums."""

import html
from collections.abc import Sequence
from typing import Any

import marimo as mo

from sequence_extension.diagnosis import diagnose
from sequence_extension.env.endings import explain_ending
from sequence_extension.env.episodes import Episode
from sequence_extension.overview import STAND_IN
from sequence_extension.page.html import (
    note,
    token_cell,
)
from sequence_extension.page.views import break_drawings, breaks_view, rollout_figures
from sequence_extension.text import number_text, printable
from sequence_extension.turns import TurnSpan
from sequence_extension.wording import turn_words


def transcript(episode: Episode, spans: Sequence[TurnSpan]) -> mo.Html:
    """The conversation as bubbles: a prompt with its verdict, an answer with its reward.

    The pupil's bubbles show what was sampled, markers and line breaks made visible.

    Args:
        episode: What to show.
        spans: Its turns as `walk_turns` gives them.
    """
    items = []
    opened: set[int] = set()
    for line in episode.lines:
        told = printable(line.text.replace("\n", "↵"))
        pupil = line.role == "pupil"
        who = "pupil, as sampled" if pupil else "tutor"
        head = html.escape(f" turn {line.turn} · {who}")
        if pupil:
            head += f" · reward {html.escape(number_text(episode.rewards[line.turn]))}"
        # a turn that saw nothing has no bubble of the tutor: its verdict stands at the answer
        if line.turn not in opened and (pupil or spans[line.turn].observation):
            mark = token_cell("✕", "X") + " " if spans[line.turn].splits else ""
            head += f" · {mark}{html.escape(turn_words(spans[line.turn]))}"
        opened.add(line.turn)
        letter = token_cell("A", "A") if pupil else token_cell("O")
        items.append(
            f"<li{' class=seq-pupil' * pupil}><small>{letter}{head}</small>"
            f"<p>{html.escape(told)}</p>"
        )
    return mo.Html(f'<ol aria-label="Transcript" class="seq-transcript">{"".join(items)}</ol>')


def episode_view(episode: Episode, sampled: bool = False) -> list[Any]:
    """Everything about one episode: ending, transcript, breaks with their text, strips.

    Args:
        episode: What to show.
        sampled: Its logprobs come from a model.
    """
    diagnosis = diagnose(episode.rollout)
    return [
        mo.md(explain_ending(episode)),
        transcript(episode, diagnosis.spans),
        breaks_view(diagnosis, episode.spec.renderer),
        break_drawings(diagnosis),
        note(f"{STAND_IN}." if sampled else f"The pupil's logprobs are invented; {STAND_IN}."),
        *rollout_figures(diagnosis, most=1),
    ]
