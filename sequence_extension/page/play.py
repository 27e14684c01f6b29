"""Section 7: the endings, and the controls with which an episode is played."""

import html
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import marimo as mo
import pandas as pd

from sequence_extension.alignment import alignment_table, stretch_facts, strip_facts
from sequence_extension.cookbook import Trajectory, tinker
from sequence_extension.diagnosis import Diagnosis, diagnose
from sequence_extension.env import tutor
from sequence_extension.env.endings import (
    endings_table,
    episode_headline,
    explain_ending,
    turn_facts,
)
from sequence_extension.env.episodes import (
    Episode,
    EpisodeSpec,
    episode_presets,
    run_episodes,
    spec_of,
)
from sequence_extension.env.policies import policy_names
from sequence_extension.env.renderers import renderer_names
from sequence_extension.env.vocabulary import load_vocabulary, offline_tokenizer
from sequence_extension.overview import STAND_IN
from sequence_extension.page.episodes import transcript
from sequence_extension.page.html import control_panel, details_table, fold, note
from sequence_extension.page.live import is_live_editor, kernel_answers
from sequence_extension.page.once import once
from sequence_extension.page.rows import RowTable
from sequence_extension.page.views import break_drawings, rollout_figures
from sequence_extension.text import count_of, number_text


@once
def endings() -> pd.DataFrame:
    """Every way in which the adapter lets an episode go, played once."""
    return endings_table(episode_presets())


def endings_menu() -> Any:
    """The endings as a table whose rows can be chosen: what is chosen is played."""
    columns = ["preset", "turns", "datums", "renderer", "pupil", "stop reason"]
    listed = endings()[columns].rename(columns={"preset": "ending"})
    return mo.ui.anywidget(RowTable(listed, "A click on a row plays it below."))


def chosen_spec(menu: Any) -> EpisodeSpec:
    """The episode of the chosen row."""
    return list(episode_presets().values())[int(menu.value["chosen"])]


def two_renderers() -> str:
    """What the first two endings teach: they differ only in what becomes of reasoning."""
    stripped, kept = endings().head(2).to_dict("records")
    return (
        f"The first two rows differ only in the renderer. `{stripped['renderer']}` takes the "
        f"pupil's reasoning out of the history, and {stripped['turns']} turns become "
        f"{count_of(stripped['datums'], 'datum')}; `{kept['renderer']}` leaves it there, and they "
        f"become {count_of(kept['datums'], 'datum')}."
    )


def tutor_code() -> str:
    """The module of `TutorEnv` and `play`, as it runs here: a start for one's own environment."""
    return inspect.getsource(tutor)


def rollout_line(trajectory: Trajectory, data: Sequence[tinker.Datum]) -> str:
    """What a rollout became, as a line for people."""
    rewards = " + ".join(number_text(step.reward) for step in trajectory.transitions)
    turns = count_of(len(trajectory.transitions), "turn")
    return f"{turns}, {count_of(len(data), 'datum')}, rewards {rewards}"


def controls(spec: EpisodeSpec) -> Any:
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


def model_field() -> Any:
    """Whose tokens an episode has: a model's, and before the editor also those of a folder."""
    folder = ", or a folder with tokenizer.json" if is_live_editor() else ""
    return mo.ui.text(
        placeholder="Qwen/Qwen3-8B",
        label=f"A model of the Hugging Face hub (needs a network){folder}, for its own tokens",
        full_width=True,
    ).form(submit_button_label="Load its tokenizer")


def vocabulary(name: str | None) -> tuple[Any, Any]:
    """The tokenizer that the field names, and a sentence about it.

    Without a name, or where it cannot be loaded, the offline one. What lies on this machine is
    read, and code of a model's own is run, only for whoever sits before the editor.
    """
    if not name or not name.strip():
        return offline_tokenizer(), None
    live = is_live_editor()
    with mo.status.spinner("Loading the tokenizer", remove_on_exit=True):
        loaded, problem = load_vocabulary(name, own_code=live, folders=live)
    if loaded is None:
        return offline_tokenizer(), note(problem, "error")
    return loaded, note("The tokens below are now those of this model. Choose its renderer.")


def play(values: Mapping[str, Any], tokenizer: Any) -> tuple[Episode | str, Diagnosis | None]:
    """The episode that the controls ask for, with its diagnosis; or why there is none."""
    episode = run_episodes([spec_of(values)], tokenizer)[0]
    return episode, None if isinstance(episode, str) else diagnose(episode.rollout)


def changed_words(values: Mapping[str, Any], menu: Any) -> str:
    """That the controls ask for something else than the chosen row, as HTML; "" while they do not.

    Args:
        values: Of `controls`.
        menu: From `endings_menu`.
    """
    if spec_of(values) == chosen_spec(menu):
        return ""
    name = list(episode_presets())[int(menu.value["chosen"])]
    return f'<p class="seq-hint">Changed from the row “{html.escape(name)}”.</p>'


def stage(values: Any, episode: Episode | str, diagnosis: Diagnosis | None, menu: Any) -> mo.Html:
    """Controls at the left, the conversation at the right; below each other on a phone."""
    panel = control_panel(values.elements).text
    if isinstance(episode, str) or diagnosis is None:
        shown = note(str(episode), "error").text
    else:
        head = mo.md(f"**{episode_headline(diagnosis, episode.stop_reason)}.**").text
        told = mo.md(explain_ending(episode)).text
        shown = head + transcript(episode, diagnosis.spans).text + told
    shown = changed_words(values.value, menu) + shown
    right = f'<div tabindex="0" role="group" aria-label="The rollout">{shown}</div>'
    return mo.Html(f'<div class="seq-stage"><div>{panel}</div>{right}</div>')


def aftermath(episode: Episode, diagnosis: Diagnosis) -> str:
    """What an episode became, to unfold: breaks, runs, and the facts as tables; HTML.

    Single tokens only where another episode can be played: a static page has section 3's.
    """
    table = alignment_table(diagnosis.built, diagnosis.runs, diagnosis.rollout.vocab)
    drawn = [
        break_drawings(diagnosis),
        *rollout_figures(diagnosis, most=1)[: None if kernel_answers() else 1],
        note(f"The pupil's logprobs are invented; {STAND_IN}."),
    ]
    tokens = details_table(
        stretch_facts(strip_facts(table)), "Every token of every datum as a table"
    )
    return "".join(
        [
            fold("Its breaks and its datums", "".join(view.text for view in drawn)),
            details_table(turn_facts(episode), "The trajectory, turn by turn").text,
            tokens.text if kernel_answers() else "",
        ]
    )
