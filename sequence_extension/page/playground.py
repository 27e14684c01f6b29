"""Section 7: the endings, and an episode: its controls, its transcript, its breaks and datums."""

import html
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import marimo as mo
import pandas as pd

from sequence_extension.alignment import alignment_facts, alignment_stretches, alignment_table
from sequence_extension.cookbook import Trajectory, tinker
from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.env import tutor
from sequence_extension.env.endings import (
    ending_headline,
    endings_table,
    endings_turn_facts,
    explain_ending,
)
from sequence_extension.env.episodes import (
    Episode,
    EpisodeSpec,
    episode_presets,
    episode_spec,
    run_episodes,
)
from sequence_extension.env.policies import policy_names
from sequence_extension.env.renderers import renderer_names
from sequence_extension.env.vocabulary import load_vocabulary, offline_vocabulary
from sequence_extension.overview import STAND_IN
from sequence_extension.page.html import (
    control_panel_html,
    details_table_html,
    fold_markup,
    note_html,
    token_cell_html,
)
from sequence_extension.page.live import is_live_editor, is_live_kernel
from sequence_extension.page.once import once
from sequence_extension.page.rows import RowTable
from sequence_extension.page.views import break_drawings_view, breaks_view, rollout_views
from sequence_extension.text import count_text, number_text, printable_text
from sequence_extension.turns import TurnSpan
from sequence_extension.wording import turn_wording


@once
def playground_menu_table() -> pd.DataFrame:
    """Every way in which the adapter lets an episode go, played once."""
    return endings_table(episode_presets())


def playground_menu() -> Any:
    """The endings as a table whose rows can be chosen: what is chosen is played."""
    columns = ["preset", "turns", "datums", "renderer", "pupil", "stop reason"]
    listed = playground_menu_table()[columns].rename(columns={"preset": "ending"})
    return mo.ui.anywidget(RowTable(listed, "A click on a row plays it below."))


def playground_menu_spec(menu: Any) -> EpisodeSpec:
    """The episode of the chosen row."""
    return list(episode_presets().values())[int(menu.value["chosen"])]


def playground_menu_finding() -> str:
    """What the first two endings teach: they differ only in what becomes of reasoning."""
    stripped, kept = playground_menu_table().head(2).to_dict("records")
    return (
        f"The first two rows differ only in the renderer. `{stripped['renderer']}` takes the "
        f"pupil's reasoning out of the history, and {stripped['turns']} turns become "
        f"{count_text(stripped['datums'], 'datum')}; `{kept['renderer']}` leaves it there, and "
        "they "
        f"become {count_text(kept['datums'], 'datum')}."
    )


def playground_code() -> str:
    """The module of `TutorEnv` and `play`, as it runs here: a start for one's own environment."""
    return inspect.getsource(tutor)


def playground_printout(trajectory: Trajectory, data: Sequence[tinker.Datum]) -> str:
    """What a rollout became, as a line for people."""
    rewards = " + ".join(number_text(step.reward) for step in trajectory.transitions)
    turns = count_text(len(trajectory.transitions), "turn")
    return f"{turns}, {count_text(len(data), 'datum')}, rewards {rewards}"


def playground_controls(spec: EpisodeSpec) -> Any:
    """All that decides an episode, as `mo.ui.dictionary`; starts from `spec`."""
    pupils = {f"{name}: {line}": name for name, line in policy_names().items()}

    def slider(low: int, high: int, value: int, label: str) -> Any:
        return mo.ui.slider(low, high, value=value, label=label, show_value=True, full_width=True)

    def menu(options: Any, value: str, label: str) -> Any:
        return mo.ui.dropdown(
            options, value, label=label, searchable=True, allow_select_none=False, full_width=True
        )

    budget = "`max_trajectory_tokens` (0: no budget)"
    pupil = next(label for label, name in pupils.items() if name == spec.policy)
    return mo.ui.dictionary(
        {
            "renderer": menu(renderer_names(), spec.renderer, "Renderer"),
            "policy": menu(pupils, pupil, "Pupil"),
            "turns": slider(1, 6, spec.turns, "Questions"),
            "seed": slider(0, 20, spec.seed, "Seed"),
            "max_trajectory_tokens": slider(0, 400, spec.max_trajectory_tokens or 0, budget),
            "max_generation_tokens": slider(
                1, 96, spec.max_generation_tokens, "`max_generation_tokens` (one answer)"
            ),
            "terminate_on_length": mo.ui.checkbox(
                spec.terminate_on_length, label="`terminate_on_length`"
            ),
            "terminate_on_parse_error": mo.ui.checkbox(
                spec.terminate_on_parse_error, label="`terminate_on_parse_error`"
            ),
            "policy_on": mo.ui.checkbox(
                spec.parse_error_policy is not None,
                label="`ParseErrorPolicy`: one retry, such turns are masked",
            ),
        }
    )


def playground_model_field() -> Any:
    """Whose tokens an episode has: a model's, and before the editor also those of a folder."""
    folder = ", or a folder with tokenizer.json" if is_live_editor() else ""
    return mo.ui.text(
        placeholder="Qwen/Qwen3-8B",
        label=f"A model of the Hugging Face hub (needs a network){folder}, for its own tokens",
        full_width=True,
    ).form(submit_button_label="Load its tokenizer", bordered=False)


def playground_tokenizer(name: str | None) -> tuple[Any, Any]:
    """The tokenizer that the field names, and a sentence about it.

    Without a name, or where it cannot be loaded, the offline one. What lies on this machine is
    read, and code of a model's own is run, only for whoever sits before the editor.
    """
    if not name or not name.strip():
        return offline_vocabulary(), None
    live = is_live_editor()
    with mo.status.spinner("Loading the tokenizer", remove_on_exit=True):
        loaded, problem = load_vocabulary(name, own_code=live, folders=live)
    if loaded is None:
        return offline_vocabulary(), note_html(problem, "error")
    return loaded, note_html("The tokens below are now those of this model. Choose its renderer.")


def playground_episode(
    values: Mapping[str, Any], tokenizer: Any
) -> tuple[Episode | str, Diagnosis | None]:
    """The episode that the controls ask for, with its diagnosis; or why there is none."""
    episode = run_episodes([episode_spec(values)], tokenizer)[0]
    return episode, None if isinstance(episode, str) else diagnose(episode.rollout)


def playground_change_html(values: Mapping[str, Any], menu: Any) -> str:
    """That the controls ask for something else than the chosen row, as HTML; "" while they do not.

    Args:
        values: Of `playground_controls`.
        menu: From `playground_menu`.
    """
    if episode_spec(values) == playground_menu_spec(menu):
        return ""
    name = list(episode_presets())[int(menu.value["chosen"])]
    return f'<p class="seq-hint">Changed from the row “{html.escape(name)}”.</p>'


def playground_view(
    values: Any, episode: Episode | str, diagnosis: Diagnosis | None, menu: Any
) -> mo.Html:
    """Controls at the left, the conversation at the right; below each other on a phone."""
    panel = control_panel_html(values.elements).text
    if isinstance(episode, str) or diagnosis is None:
        shown = note_html(str(episode), "error").text
    else:
        head = mo.md(f"**{ending_headline(diagnosis, episode.stop_reason)}.**").text
        told = mo.md(explain_ending(episode)).text
        shown = head + playground_transcript_view(episode, diagnosis.spans).text + told
    shown = playground_change_html(values.value, menu) + shown
    right = f'<div tabindex="0" role="group" aria-label="The rollout">{shown}</div>'
    return mo.Html(f'<div class="seq-stage"><div>{panel}</div>{right}</div>')


def playground_aftermath_fold(episode: Episode | str, diagnosis: Diagnosis | None) -> str:
    """What an episode became, to unfold: breaks, runs, and the facts as tables; HTML.

    "" where there is no episode. Single tokens only where another one can be played: a static
    page has section 3's.
    """
    if isinstance(episode, str) or diagnosis is None:
        return ""
    table = alignment_table(diagnosis.built, diagnosis.runs, diagnosis.rollout.vocab)
    drawn = [
        break_drawings_view(diagnosis),
        *rollout_views(diagnosis, most=1)[: None if is_live_kernel() else 1],
        note_html(f"The pupil's logprobs are invented; {STAND_IN}."),
    ]
    tokens = details_table_html(
        alignment_stretches(alignment_facts(table)), "Every token of every datum as a table"
    )
    return "".join(
        [
            fold_markup("Its breaks and its datums", "".join(view.text for view in drawn)),
            details_table_html(endings_turn_facts(episode), "The trajectory, turn by turn").text,
            tokens.text if is_live_kernel() else "",
        ]
    )


def playground_transcript_view(episode: Episode, spans: Sequence[TurnSpan]) -> mo.Html:
    """The conversation as bubbles: a prompt with its verdict, an answer with its reward.

    The pupil's bubbles show what was sampled, markers and line breaks made visible.

    Args:
        episode: What to show.
        spans: Its turns as `walk_turns` gives them.
    """
    items = []
    opened: set[int] = set()
    for line in episode.lines:
        told = printable_text(line.text.replace("\n", "↵"))
        pupil = line.role == "pupil"
        who = "pupil, as sampled" if pupil else "tutor"
        head = html.escape(f" turn {line.turn} · {who}")
        if pupil:
            head += f" · reward {html.escape(number_text(episode.rewards[line.turn]))}"
        # a turn that saw nothing has no bubble of the tutor: its verdict stands at the answer
        if line.turn not in opened and (pupil or spans[line.turn].observation):
            mark = token_cell_html("✕", "X") + " " if spans[line.turn].splits else ""
            head += f" · {mark}{html.escape(turn_wording(spans[line.turn]))}"
        opened.add(line.turn)
        letter = token_cell_html("A", "A") if pupil else token_cell_html("O")
        items.append(
            f"<li{' class=seq-pupil' * pupil}><small>{letter}{head}</small>"
            f"<p>{html.escape(told)}</p>"
        )
    return mo.Html(f'<ol aria-label="Transcript" class="seq-transcript">{"".join(items)}</ol>')


def playground_episode_view(episode: Episode, sampled: bool = False) -> list[Any]:
    """Everything about one episode: ending, transcript, breaks with their text, strips.

    Args:
        episode: What to show.
        sampled: Its logprobs come from a model.
    """
    diagnosis = diagnose(episode.rollout)
    return [
        mo.md(explain_ending(episode)),
        playground_transcript_view(episode, diagnosis.spans),
        breaks_view(diagnosis, episode.spec.renderer),
        break_drawings_view(diagnosis),
        note_html(f"{STAND_IN}." if sampled else f"The pupil's logprobs are invented; {STAND_IN}."),
        *rollout_views(diagnosis, most=1),
    ]
