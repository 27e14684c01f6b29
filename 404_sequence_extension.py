"""Tutorial 404: Sequence extension in multi-turn RL.

How multi-turn rollouts become training data, and why they split. The story; the functions
behind it are in the package `sequence_extension` beside this file.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(
    width="medium",
    app_title="Tutorial 404: Sequence extension in multi-turn RL",
)

with app.setup(hide_code=True):
    import html
    import os
    from importlib.metadata import version
    from pathlib import Path

    import altair as alt
    import marimo as mo
    import pandas as pd
    from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages

    import sequence_extension as seq
    from sequence_extension import editor, env, figures, formats, page

    if "marimo_inline_csv" in alt.data_transformers.names():
        alt.data_transformers.enable("marimo_inline_csv")


@app.cell(hide_code=True)
def _():
    # `marimo export html ... -- --trajectory FILE`: the report in front of the tutorial.
    _file = mo.cli_args().get("trajectory")
    _reading = formats.bounded.read_file(str(_file)) if _file else None
    page.files.report_view(
        _reading, seq.overview.overview(_reading.rollouts), Path(str(_file)).name
    ) if _reading else None
    return


@app.cell(hide_code=True)
def _():
    mo.md(rf"""
    # Tutorial 404: Sequence extension in multi-turn RL

    In multi-turn RL the model speaks several times in one episode. Before training,
    `trajectory_to_data` makes datums of the episode: a single one if every observation
    continues what came before, several if not. This page shows where an episode splits, why,
    what that costs, and which tokens get a gradient.

    It is for readers who meet multi-turn RL for the first time, and for builders of
    environments who ask why their rollout became seven datums. Afterwards you can say for any
    rollout how many datums it gives, which token broke it, and what to change.

    **How to read it.** From the top. Each section holds one idea, in short on its first line,
    and one figure that makes its point without a click. Turns and tokens count from 0. Every
    number was computed when this page was made, from what the installed `tinker-cookbook`
    {version("tinker-cookbook")} returned; none is copied.

    1. [The idea](#1-the-idea): one picture of merging and splitting.
    2. [Build a trajectory](#2-build-a-trajectory): change tokens, see what becomes of them.
    3. [The datums, token by token](#3-the-datums-token-by-token): target, mask, advantage.
    4. [Why did it split?](#4-why-did-it-split) The token, the cause, the remedy.
    5. [What it costs](#5-what-it-costs): tokens through the model, merged and not.
    6. [One number per trajectory](#6-one-number-per-trajectory): rewards of a group.
    7. [A multi-turn environment](#7-a-multi-turn-environment): `MessageEnv`, run for real.
    8. [Which renderers extend?](#8-which-renderers-extend) Claim beside observation.
    9. [Your own rollouts](#9-your-own-rollouts): a file or a conversation of yours.
    10. [Check yourself](#10-check-yourself): answer before the code does.
    11. [Summary](#11-summary): what people say, and what the code says.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 1. The idea

    **In short: as long as each observation repeats all that was seen and said before, all turns
    become one datum; where it does not, a new datum begins.**

    Each turn the model sees a prompt and answers it. `trajectory_to_data` holds one running
    sequence, observation and action tokens together, and asks whether the next observation starts
    with it. If so, only what is new is appended; if not, the datum is closed. Only actions are
    trained (section 6 has an exception); `mask` marks them with 1.
    """)
    return


@app.cell(hide_code=True)
def _():
    idea_stories = [
        (
            _scenario.title,
            _scenario.lesson,
            seq.diagnosis.diagnose(editor.scenarios.scenario_rollout(_scenario)),
        )
        for _scenario in editor.scenarios.scenarios().values()
    ]
    return (idea_stories,)


@app.cell(hide_code=True)
def _():
    mo.Html(
        page.style.widget_sheet()
        + '<p class="seq-chips">'
        + page.html.token_chip("history, repeated", "0", letter="=")
        + page.html.token_chip("new observation", "O")
        + page.html.token_chip("action", "A")
        + page.html.token_chip("action of a masked turn", "M")
        + page.html.token_chip("does not continue what is held", "X")
        + "</p>"
    )
    return


@app.cell(hide_code=True)
def _(idea_stories):
    # alone in its cell: here the page's style sheet reaches the menu inside the figure
    figures.staircase.staircase_chart(seq.staircase.staircase_tables(idea_stories))
    return


@app.cell(hide_code=True)
def _(idea_stories):
    page.html.details_table(seq.staircase.staircase_facts(idea_stories), "All scenarios as a table")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 2. Build a trajectory

    **In short: a trajectory is a list of turns, each with what the model saw and what it
    said; one call turns it into training data.**

    Three turns in code, and what `trajectory_to_data` makes of them. An entry of `mask`,
    `advantages` and `logprobs` belongs to the target at the same position: the *next* token.
    """)
    return


@app.cell
def _():
    def build_three_turns():
        """Three turns of a chat, and the one call that makes training data of them."""
        import tinker
        from tinker_cookbook.completers import TokensWithLogprobs
        from tinker_cookbook.rl.data_processing import trajectory_to_data
        from tinker_cookbook.rl.types import Trajectory, Transition

        o1, a1 = [100, 101, 102, 103], [200, 201]  # what the model saw, what it said
        o2, a2 = [300, 301], [400, 401, 402]
        o3, a3 = [500], [600, 601]

        transitions = [
            Transition(
                ob=tinker.ModelInput.from_ints(o1),
                ac=TokensWithLogprobs(tokens=a1, maybe_logprobs=[-0.5, -0.3]),
                reward=0.0,
                episode_done=False,
            ),
            Transition(
                ob=tinker.ModelInput.from_ints(o1 + a1 + o2),  # holds all of turn 0
                ac=TokensWithLogprobs(tokens=a2, maybe_logprobs=[-0.4, -0.2, -0.1]),
                reward=0.0,
                episode_done=False,
            ),
            Transition(
                ob=tinker.ModelInput.from_ints(o1 + a1 + o2 + a2 + o3),  # holds all of turn 1
                ac=TokensWithLogprobs(tokens=a3, maybe_logprobs=[-0.6, -0.3]),
                reward=1.0,
                episode_done=True,
            ),
        ]
        trajectory = Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty())
        return trajectory_to_data(trajectory, traj_advantage=1.0)

    build_example = build_three_turns()
    page.html.with_code(page.editing.lanes_html(build_example))
    return


@app.cell(hide_code=True)
def _():
    mo.md(f"""
    ### Now change it

    Change an early action, and every later turn that carries it over changes with it. Let a
    turn's observation *edit the history*, change one token of it (`3: 9`), and the turn splits.
    Sections 3 to 5 follow what you build here.

    <div class="seq-note seq-static-only"><b>Static page.</b>From here on, fields, menus and
    buttons show an example: to answer, they need Python
    (<code>uv run marimo run --no-sandbox 404_sequence_extension.py</code>). Menus and steps
    inside a figure work here too.</div>

    /// details | What can be typed

    - **Tokens**: ids from 0 to {seq.rollout.MAX_TOKEN_ID}, with spaces or commas between them;
      `image(name, 4)` is an image of 4 tokens.
    - **Changes to the history**, by the positions under the turn before: `7: 13` replaces a
      token, `7-9:` removes three, `7+: 13 14` inserts before position 7; `;` separates changes.
    - **Logprobs**: one number per action token; `auto` makes all of them up, a final `...` those
      that are missing; empty means that none were reported.
    - **Masked**: the turn carries the cookbook's metric for an answer that did not parse.
    ///
    """)
    return


@app.cell(hide_code=True)
def _():
    # The address is read once. Later changes of it come from the editor itself.
    build_scenarios = editor.scenarios.scenarios()
    _parameters = mo.query_params()
    build_start, _drafts, build_start_note = editor.address.read_address(
        {_key: _parameters.get(_key) for _key in ("scenario", "turns") if _key in _parameters},
        build_scenarios,
    )
    # The structure: which scenario was loaded, and the turns that the fields start from.
    # Typing does not touch it, so the fields are made anew only when turns come or go. The cell
    # that makes the fields also makes the buttons that remove turns, hence the self loop.
    build_structure, build_set_structure = mo.state(
        (build_start.key, _drafts), allow_self_loops=True
    )
    # What stands in the fields right now, for the buttons: they must read it when pressed
    # without running again at every key stroke, hence a plain box and no state.
    build_typed = {"key": build_start.key, "drafts": _drafts}
    return (
        build_scenarios,
        build_set_structure,
        build_start,
        build_start_note,
        build_structure,
        build_typed,
    )


@app.cell(hide_code=True)
def _(build_scenarios, build_set_structure, build_start, build_typed):
    def _load(key):
        build_set_structure((key, build_scenarios[key].drafts))

    def _add(_):
        drafts = build_typed["drafts"]
        if len(drafts) < editor.drafts.MAX_DRAFT_TURNS:
            build_set_structure((build_typed["key"], (*drafts, editor.drafts.next_draft(drafts))))

    build_menu = mo.ui.dropdown(
        {_item.title: _item.key for _item in build_scenarios.values()},
        value=build_start.title,
        allow_select_none=False,
        label="Scenario",
    )
    build_load = mo.ui.button(label="Load", on_change=lambda _: _load(build_menu.value))
    build_reset = mo.ui.button(
        label="Reset", tooltip="All turns as loaded", on_change=lambda _: _load(build_typed["key"])
    )
    build_add = mo.ui.button(label="Add a turn", on_change=_add)
    return build_add, build_load, build_menu, build_reset


@app.cell(hide_code=True)
def _(build_set_structure, build_structure, build_typed):
    def _remove(turn):
        drafts = build_typed["drafts"]
        build_set_structure((build_typed["key"], (*drafts[:turn], *drafts[turn + 1 :])))

    build_loaded, _drafts = build_structure()
    build_rows = mo.ui.array([page.editing.draft_widgets(_draft) for _draft in _drafts])
    build_removers = mo.ui.array(
        [
            mo.ui.button(
                label=f"Remove turn {_turn}",
                disabled=len(_drafts) == 1,
                on_change=lambda _, turn=_turn: _remove(turn),
            )
            for _turn in range(len(_drafts))
        ]
    )
    return build_loaded, build_removers, build_rows


@app.cell(hide_code=True)
def _(build_loaded, build_rows, build_scenarios, build_typed):
    build_scenario = build_scenarios[build_loaded]
    build_drafts = tuple(editor.drafts.TurnDraft(**_values) for _values in build_rows.value)
    build_typed.update(key=build_loaded, drafts=build_drafts)
    rollout, build_issues = editor.drafts.drafts_to_rollout(
        build_drafts,
        build_scenario.vocab,
        build_scenario.title + ("" if build_drafts == build_scenario.drafts else ", edited"),
    )
    diagnosis = seq.diagnosis.diagnose(rollout) if rollout else None
    return build_drafts, build_issues, build_scenario, diagnosis, rollout


@app.cell(hide_code=True, expand_output=True)
def _(
    build_add,
    build_drafts,
    build_issues,
    build_load,
    build_menu,
    build_removers,
    build_reset,
    build_rows,
    build_scenario,
    build_start_note,
    diagnosis,
):
    _read = diagnosis or page.editing.diagnose_before(
        build_drafts, build_issues, build_scenario.vocab
    )
    _chips = (
        page.editing.turn_chips(_read.rollout.trajectory, _read.spans, _read.rollout.vocab)
        if _read
        else []
    )
    _verdicts = (
        [seq.wording.span_words(_span, _read.built.error_code is not None) for _span in _read.spans]
        if _read
        else []
    )
    _unread = len(build_drafts) - len(_chips)
    _chips += [[] for _ in range(_unread)]
    _verdicts += [""] * _unread
    _turns = [
        page.editing.turn_html(
            _turn,
            _verdicts[_turn],
            {_name: build_rows[_turn][_name] for _name in build_rows[_turn].elements},
            build_removers[_turn],
            [_issue for _issue in build_issues if _issue.turn == _turn],
            _chips[_turn],
            _draft.history,
        )
        for _turn, _draft in enumerate(build_drafts)
    ]
    _lesson = (
        build_scenario.lesson
        if build_drafts == build_scenario.drafts
        else f"“{build_scenario.title}”, edited."
    )
    _start = (
        f'<p class="edit-issue edit-start"><b>!</b> {page.html.code_spans(build_start_note)}</p>'
        if build_start_note
        else ""
    )
    _waits = (
        '<p class="edit-hint">Load puts the chosen scenario in place of the turns below.</p>'
        if build_menu.value != build_scenario.key
        else ""
    )
    page.html.lean(
        mo.Html(
            f'<div class="edit-bar">{build_menu}{build_load}{build_reset}{_waits}</div>{_start}'
            f'<p class="edit-lesson">{html.escape(_lesson)}</p>'
            f'<div>{"".join(_turns)}</div><div class="edit-bar">{build_add}</div>'
            f"{page.editing.outcome_html(build_drafts, build_issues, diagnosis)}"
        )
    )
    return


@app.cell(hide_code=True)
def _(build_drafts, build_scenario, build_scenarios):
    # Only where readers have an address of their own; in the editor it belongs to marimo.
    # Written through a local name: cells that refer to the parameters would run again.
    _note = ""
    if mo.app_meta().mode == "run":
        _wanted, _note = editor.address.address_of(
            build_scenario, build_drafts, next(iter(build_scenarios))
        )
        _parameters = mo.query_params()
        for _key, _value in _wanted.items():
            if _value is None and _key in _parameters:
                _parameters.remove(_key)
            elif _value is not None and _parameters.get(_key) != _value:
                _parameters.set(_key, _value)
    mo.Html(f'<p class="edit-hint">{html.escape(_note)}</p>') if _note else None
    return


@app.cell(hide_code=True)
def _(rollout):
    page.html.lean(
        mo.accordion(
            {
                "The same trajectory as Python": page.html.code_view(
                    editor.code.rollout_to_code(rollout), "python"
                ),
                "The same trajectory as JSON": page.html.code_view(
                    formats.native.record_to_json(formats.native.rollout_to_native(rollout)), "json"
                ),
            }
        )
    ) if rollout else mo.md("_Code and JSON come back once every field can be read._")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 3. The datums, token by token

    **In short: n tokens give n - 1 inputs and n - 1 targets; mask, advantage and logprob belong
    to the target.**

    Each target is the next input, so every token moves one place to the left when it becomes a
    target. The familiar drawing `[O1 A1 O2 A2]` over `[0 1 0 1]` is a simplification: it puts the
    mask under the token itself and gives the first token an entry that does not exist (section 1
    drew it so, with *none* for the first token).

    What decides the gradient is `advantages`; `trajectory_to_data` sets them to 0 on observation
    tokens (a discounted KL penalty changes that: section 6). `mask` is taken out before
    `forward_backward`; it serves metrics and the KL penalty.
    """)
    return


@app.cell(hide_code=True)
def _(diagnosis):
    # Long rollouts are drawn as runs, with a window of single tokens that can be moved; it
    # starts at the first break.
    strip_marks = seq.break_table.break_marks(diagnosis) if diagnosis else []
    _data = diagnosis.built.data if diagnosis else ()
    _datum, _at = strip_marks[0][:2] if strip_marks else (0, 0)
    strip_place = (
        (
            mo.ui.dictionary(
                {
                    "datum": mo.ui.number(0, len(_data) - 1, value=_datum, label="Datum"),
                    "start": mo.ui.slider(
                        0,
                        max(_item.model_input.length for _item in _data) - 1,
                        value=max(0, _at - 8),
                        label="First position shown",
                        show_value=True,
                    ),
                }
            )
            if len(_data) > figures.strip.STRIP_DATUMS
            or sum(_run.length for _run in diagnosis.runs) > figures.strip.STRIP_LIMIT
            else None
        )
        if _data
        else None
    )
    return strip_marks, strip_place


@app.cell(hide_code=True)
def _(diagnosis, strip_place):
    if not (diagnosis and diagnosis.built.data):
        strip_table = None
    elif strip_place is None:
        strip_table = seq.alignment.alignment_table(
            diagnosis.built, diagnosis.runs, diagnosis.rollout.vocab
        )
    else:
        strip_table = seq.alignment.window(
            seq.alignment.alignment_table(
                diagnosis.built,
                diagnosis.runs,
                diagnosis.rollout.vocab,
                only=[int(strip_place.value["datum"])],
            ),
            strip_place.value["start"],
            figures.strip.STRIP_WINDOW,
        )
    return (strip_table,)


@app.cell(hide_code=True, expand_output=True)
def _(diagnosis, strip_marks, strip_place, strip_table):
    if strip_table is None:
        _shown = [
            page.html.note(diagnosis.built.error_message or "No turn holds a token yet.", "error")
            if diagnosis
            else page.html.note("The datums come back once every field of section 2 can be read.")
        ]
    else:
        _shown = [
            page.views.strip_figure(_rows, strip_marks)
            for _, _rows in strip_table.groupby("datum", sort=False)
        ]
    if strip_table is not None and strip_place is not None:
        _place = (*strip_table[["datum", "position"]].iloc[0], len(strip_table) - 1)
        _shown = [
            page.html.figure_box(
                figures.runs.runs_chart(diagnosis.runs, strip_marks, shown=_place),
                figures.runs.runs_finding(diagnosis.runs),
            ),
            mo.hstack([strip_place["datum"], strip_place["start"]], justify="start", wrap=True),
            *_shown,
        ]
    mo.vstack(_shown)
    return


@app.cell(hide_code=True)
def _(diagnosis, strip_place, strip_table):
    _counts = (
        seq.alignment.datum_counts(diagnosis.built, diagnosis.runs) if diagnosis else pd.DataFrame()
    )
    mo.vstack(
        [
            mo.Html(
                f'<div class="seq-scroll" tabindex="0" role="group" '
                f'aria-label="Counts of the datums">{page.html.table_html(seq.alignment.counts_shown(_counts))}</div>'
            ),
            page.html.note("{}: it {}.".format(*seq.alignment.conservation(_counts))),
            page.html.details_table(
                seq.alignment.strip_facts(strip_table),
                "The same facts as a table" if strip_place is None else "The window as a table",
            ),
        ]
    ) if len(_counts) else None
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 4. Why did it split?

    **In short: a turn splits when its observation does not start with every token held so far;
    the first difference shows where, and the cheapest edit behind it shows why.**

    Held is the running sequence: all observation and action tokens of the datum so far. The
    cause is the first rule of this list that applies; nothing is guessed beyond them.

    /// details | The rules, in order

    1. **shortened**: the new observation ends where they part; it is a beginning of held.
    2. **image changed**: what was expected there, or what came, is an image.
    3. **end token**: only the last token of held differs.
    4. **retokenised**: the vocabulary is known, and the text of held comes back in other tokens.
    5. **removed**, **inserted**: the cheapest edit from held to the new observation only removes
       tokens and keeps some behind the break, or only inserts.
    6. **new context**: less than half of held comes back.
    7. **reordered**: what is removed and what is inserted are the same tokens.
    8. **replaced**: anything else.
    ///
    """)
    return


@app.cell(hide_code=True)
def _(diagnosis):
    _lineage = seq.wording.lineage_sentence(diagnosis) if diagnosis else None
    mo.vstack(
        [
            page.views.verdict_list(seq.verdicts.verdicts(diagnosis)),
            *([page.html.note(_lineage)] if _lineage else []),
        ]
    ) if diagnosis else page.html.note(
        "The verdicts come back once every field of section 2 can be read."
    )
    return


@app.cell(hide_code=True, expand_output=True)
def _(diagnosis):
    # Where nothing splits, another scenario shows what a split looks like.
    _scenario = editor.scenarios.scenarios()["removed"]
    _splits = diagnosis is not None and bool(diagnosis.breaks)
    _shown = (
        diagnosis
        if _splits
        else seq.diagnosis.diagnose(editor.scenarios.scenario_rollout(_scenario))
    )
    _told = page.html.note(
        "No turn splits: every observation starts with all that was held. For a split to look "
        f"at, here is the scenario “{_scenario.title}” of section 2. {_scenario.lesson}"
    ).text
    break_shown = _shown if diagnosis else None
    _drawn = page.views.break_drawings(_shown, most=8 if _splits else None).text
    mo.Html(("" if _splits else _told) + _drawn) if diagnosis else None
    return (break_shown,)


@app.cell(hide_code=True)
def _(break_shown):
    _policies = seq.cost.treatment_table(break_shown) if break_shown else pd.DataFrame()
    mo.vstack(
        [
            mo.md(
                """
    ### Three ways to treat a break

    *Split* is the cookbook's way: the numbers are those of the real datums. A trainer could also
    *overwrite and mask*: keep one sequence and overwrite it at a break with the new observation,
    so that earlier actions are trained only up to the break. Or *drop* the rollout. Lost:
    action tokens that get no gradient. Rows 2 and 3 are computed from the same turns.
    """
            ),
            page.html.table_box(_policies, f"“{break_shown.rollout.name}” under three treatments"),
        ]
    ) if len(_policies) else None
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 5. What it costs

    **In short: turns that extend cost tokens in proportion to their number; turns that split pay
    for the whole history again.**

    No sampled token is trained twice after a split, but the shared prefix goes through the model
    once more, as context with mask 0. Counted here are the inputs of training
    (`forward_backward`), not of sampling.

    Does a split change the gradient? The loss runs on Tinker's servers, outside the package; for
    `importance_sampling`, the default, its documentation gives a sum over tokens, in whichever
    datum they stand. But `train_step` cuts the list of datums into `num_substeps` parts (default
    1), so datums of one rollout may be trained in different optimizer steps.
    """)
    return


@app.cell(hide_code=True)
def _(diagnosis):
    _prices = seq.cost.cost_table(diagnosis) if diagnosis else pd.DataFrame()
    if diagnosis is None:
        _shown = [page.html.note("The price comes back once every field of section 2 can be read.")]
    elif _prices.empty:
        _shown = [page.html.note(diagnosis.built.error_message or "No datum, no price.", "error")]
    else:
        _shown = [
            page.html.note(seq.cost.cost_sentence(diagnosis)),
            page.html.table_box(_prices, "What this rollout costs"),
        ]
    mo.vstack(_shown)
    return


@app.cell(hide_code=True)
def _(diagnosis):
    _own = all(_found.resumes_datum is None for _found in diagnosis.breaks) if diagnosis else True
    _growth = seq.cost.growth_table(diagnosis.spans, own=_own) if diagnosis else pd.DataFrame()
    _laws = seq.cost.growth_law(_growth) if len(_growth) else _growth
    mo.vstack(
        [
            page.html.figure_box(
                figures.cost.cost_chart(_growth, _laws),
                seq.cost.growth_finding(_laws, diagnosis.spans),
                seq.cost.growth_note(diagnosis.spans, _laws, _own),
            ),
            page.html.details_table(seq.cost.growth_facts(_growth)),
        ]
    ) if len(_laws) else None
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 6. One number per trajectory

    **In short: the rewards of all turns are summed, the group's mean is taken off, and what is
    left stands on every trained token of the rollout.**

    Several rollouts of one prompt make a `TrajectoryGroup`. `compute_advantages` subtracts the
    group's mean reward and divides by nothing. `assemble_training_data` hands the result to
    `trajectory_to_data`, one number per trajectory, however many turns it had and however many
    datums it became.
    """)
    return


@app.cell(hide_code=True)
def _():
    group_members = seq.group.group_rollouts()
    group_preset = mo.ui.dropdown(
        options=list(seq.group.group_presets()),
        value=next(iter(seq.group.group_presets())),
        label="Rewards",
        allow_select_none=False,
    )
    group_reset = mo.ui.button(label="Reset rewards", value=0, on_click=lambda clicks: clicks + 1)
    page.html.lean(mo.hstack([group_preset, group_reset], justify="start", align="end", wrap=True))
    return group_members, group_preset, group_reset


@app.cell(hide_code=True)
def _(group_members, group_preset, group_reset):
    _ = group_reset.value  # a click makes the fields anew
    group_fields = mo.ui.dictionary(
        {
            letter: mo.ui.text(
                value=seq.group.group_presets()[group_preset.value][letter],
                label=f"{letter}: {rollout.name}",
                debounce=False,
                full_width=True,
            )
            for letter, rollout in group_members.items()
        }
    )
    # The last group that could be read: it stays in sight while a field is being mended.
    group_good = {}
    return group_fields, group_good


@app.cell(hide_code=True)
def _(group_fields, group_good, group_members):
    _read = {
        letter: seq.group.parse_rewards(
            group_fields.value[letter], len(rollout.trajectory.transitions), letter
        )
        for letter, rollout in group_members.items()
    }
    group_issues = {letter: issue for letter, (_, issue) in _read.items() if issue}
    _rewards = {letter: rewards for letter, (rewards, _) in _read.items() if rewards is not None}
    if not _rewards:
        group_issues.setdefault(
            "", "Give at least one rollout a reward: an empty group has no mean."
        )
    if not group_issues:
        group_good["result"] = seq.group.assemble_group(group_members, _rewards)
    # An empty preset does not exist, so there always is a last good group.
    group_result = group_good["result"]
    return group_issues, group_result


@app.cell(hide_code=True)
def _(group_fields, group_issues):
    mo.vstack(
        [
            mo.md(
                "One reward per turn, with spaces between. An empty field leaves the rollout "
                "out of the group."
            ),
            page.editing.field_grid(
                [
                    (group_fields.elements[letter], group_issues.get(letter))
                    for letter in group_fields.elements
                ]
            ),
            page.html.note(group_issues[""], "error") if "" in group_issues else mo.Html(""),
        ]
    )
    return


@app.cell(hide_code=True)
def _(group_issues, group_result):
    mo.vstack(
        [
            mo.md("The last group that could be read:" if group_issues else ""),
            page.views.group_view(
                seq.group.group_table(group_result), seq.group.group_summary(group_result)
            ),
            mo.md(seq.group.group_text(group_result)),
        ]
    )
    return


@app.cell
def _(group_result):
    # What the training loop calls, for all groups of a batch at once:
    group_advantages_P = compute_advantages([group_result.group])
    group_data_D, group_metadata_D = assemble_training_data(
        [group_result.group], group_advantages_P
    )

    group_owners = [group_result.letters[owner["traj_idx"]] for owner in group_metadata_D]
    group_counted = f"{seq.text.count_of(len(group_data_D), 'datum')}: {' '.join(group_owners)}"
    page.html.with_code(page.html.printed(f"{group_advantages_P[0]}\n{group_counted}"))
    return


@app.cell(hide_code=True)
def _(group_members):
    _constant = seq.group.preset_group(group_members, "All the same: no policy gradient")
    _ones = seq.datums.nonzero_targets(_constant.data, "mask")
    _given = seq.datums.nonzero_targets(_constant.data, "advantages")
    _advantages = f"`advantages` differs from 0 on {_given} of them"
    _factor = 0.5
    _penalised = seq.datums.nonzero_targets(seq.loss.kl_penalised(_constant.data), "advantages")
    _discounted = seq.loss.kl_penalised(_constant.data, _factor)
    _leaked = seq.datums.nonzero_targets(_discounted, "advantages", unmasked=True)
    _removed = [
        name
        for name in _constant.data[0].loss_fn_inputs
        if name not in seq.loss.sent_to_loss(_constant.data)[0].loss_fn_inputs
    ]
    _prose = mo.md(f"""
    ### `mask` or `advantages`?

    `train_step` in `rl/train.py` takes {" and ".join(f"`{name}`" for name in _removed)} out of
    every datum before `forward_backward`. What the loss multiplies by is `advantages`:
    `trajectory_to_data` writes 0 on observation tokens, and that is why they are not trained.

    So `mask` 1 does not promise a gradient. Give {", ".join(_constant.letters)} the same reward
    of {_constant.rewards[0]:g} (“All the same” in the menu above): `mask` is 1 on {_ones}
    targets, and {_advantages if _given else "every advantage is 0"}. `mask` serves the metrics
    and the KL penalty: with `kl_discount_factor=0`, the default, `incorporate_kl_penalty` changes
    the advantage of {_penalised} targets, exactly those with mask 1. A factor above 0 discounts
    *after* masking: with {_factor:g} it changes {seq.datums.nonzero_targets(_discounted, "advantages")}
    targets, {_leaked} of them with mask 0: observation tokens in front of an action, and masked
    turns. Nothing masks these again, so they are trained too.
    """)
    _line = page.html.lean(mo.md(f"```python\n{seq.loss.mask_lines()}\n```"))
    mo.Html(
        f"{_prose.text}{page.html.table_box(seq.loss.loss_fields(_constant.data), 'What the loss gets').text}"
        '<details class="seq-facts"><summary>The lines that remove it, in the installed package'
        f"</summary>{_line.text}</details>"
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 7. A multi-turn environment

    **In short: you write an environment that speaks in messages; `EnvFromMessageEnv` makes
    tokens of it, and never checks whether one prompt continues the last.**

    Two methods of a `MessageEnv` must be written: `initial_observation` opens the conversation,
    `step` takes an answer and returns the reward and the conversation so far
    (`observe_truncated_response` and `add_messages` are optional). `EnvFromMessageEnv` renders
    that conversation anew each turn, parses the answers, and ends the episode when the budget
    is spent, an answer is cut at its limit, or one does not parse. Whether the turns merge is
    decided later, by `trajectory_to_data`, from the tokens alone: it rests with the
    **renderer**, and with what the model sampled.

    `TutorEnv` asks small sums, one point each. This is the code that runs below; copied into a
    file, it is a start for your own.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.Html(
        '<div role="region" tabindex="0" aria-label="The code of TutorEnv" '
        'style="max-height:34rem;overflow:auto;border:1px solid var(--border);'
        f'border-radius:6px;padding:0 0.75rem">{page.html.code_view(page.episodes.tutor_code(), "python").text}</div>'
    )
    return


@app.cell(hide_code=True)
def _():
    _table = env.endings.endings_table(env.episodes.episode_presets())
    _two = _table.head(2)
    mo.vstack(
        [
            mo.md(
                "The ways in which `EnvFromMessageEnv` lets an episode go, played just now by a "
                "scripted pupil in place of a model. The limits of `RolloutLimits` (turns, "
                "sampled tokens, tool calls, time) end an episode too; they are left out. The "
                "first two rows differ only in what the renderer does with reasoning: "
                "with "
                f"`{_two['renderer'][0]}` the pupil's reasoning is taken out of the history and "
                f"{_two['turns'][0]} turns become {_two['datums'][0]} datums; with "
                f"`{_two['renderer'][1]}` it stays, and they become {_two['datums'][1]}."
            ),
            page.html.scroll_table(_table.drop(columns="what happened"), "Every ending"),
            page.html.details_table(
                _table[["preset", "what happened"]], "What happened in each, in words"
            ),
        ]
    )
    return


@app.cell(hide_code=True)
def _():
    env_preset = mo.ui.dropdown(
        options=list(env.episodes.episode_presets()),
        value=next(iter(env.episodes.episode_presets())),
        label="Play",
        allow_select_none=False,
    )
    env_model = mo.ui.text(
        placeholder="Qwen/Qwen3-8B",
        label="A model of the Hugging Face hub, for its own tokens (needs a network)",
        full_width=True,
    ).form(submit_button_label="Load its tokenizer")
    mo.vstack(
        [
            mo.md(
                "Choose a case in the menu *Play*, then change it: give "
                "`max_trajectory_tokens` a value and lower it until the ending is another, or "
                "give the same pupil another renderer. `max_generation_tokens` is the "
                "limit of one answer, and as many tokens are reserved for it in the budget. "
                '<span class="static-only">Playing needs the live page.</span>'
            ),
            env_preset,
        ]
    )
    return env_model, env_preset


@app.cell(hide_code=True)
def _(env_preset):
    _spec = env.episodes.episode_presets()[env_preset.value]
    _policies = {f"{name}: {line}": name for name, line in env.policies.policy_names().items()}
    env_controls = mo.ui.dictionary(
        {
            "renderer": mo.ui.dropdown(
                options=env.renderers.renderer_names(),
                value=_spec.renderer,
                label="Renderer",
                searchable=True,
                allow_select_none=False,
                full_width=True,
            ),
            "policy": mo.ui.dropdown(
                options=_policies,
                value=next(label for label, name in _policies.items() if name == _spec.policy),
                label="Pupil",
                allow_select_none=False,
                full_width=True,
            ),
            "turns": mo.ui.slider(
                1, 6, value=_spec.turns, label="Questions", show_value=True, full_width=True
            ),
            "seed": mo.ui.slider(
                0, 20, value=_spec.seed, label="Seed", show_value=True, full_width=True
            ),
            "max_trajectory_tokens": mo.ui.slider(
                0,
                400,
                value=_spec.max_trajectory_tokens or 0,
                label="`max_trajectory_tokens` (0: no budget)",
                show_value=True,
                full_width=True,
            ),
            "max_generation_tokens": mo.ui.slider(
                1,
                96,
                value=_spec.max_generation_tokens,
                label="`max_generation_tokens`",
                show_value=True,
                full_width=True,
            ),
            "terminate_on_length": mo.ui.checkbox(
                value=_spec.terminate_on_length,
                label="`terminate_on_length` (off, it needs `observe_truncated_response`)",
            ),
            "terminate_on_parse_error": mo.ui.checkbox(
                value=_spec.terminate_on_parse_error, label="`terminate_on_parse_error`"
            ),
            "policy_on": mo.ui.checkbox(
                value=_spec.parse_error_policy is not None,
                label="`ParseErrorPolicy`: one retry of a broken tool call; such turns are masked",
            ),
        }
    )
    page.html.control_panel(env_controls.elements)
    return (env_controls,)


@app.cell(hide_code=True)
def _(env_model):
    page.html.lean(mo.accordion({"With the tokens of a real model": env_model}))
    return


@app.cell(hide_code=True)
def _(env_model):
    env_tokenizer = env.vocabulary.offline_tokenizer()
    _note = mo.Html("")
    if env_model.value:
        with mo.status.spinner("Loading the tokenizer", remove_on_exit=True):
            _loaded, _problem = env.vocabulary.load_vocabulary(
                env_model.value, own_code=mo.app_meta().mode == "edit"
            )
        if _loaded is None:
            _note = page.html.note(_problem, "error")
        else:
            env_tokenizer = _loaded
            _note = mo.md("The tokens below are now those of this model. Choose its renderer.")
    mo.vstack([_note])
    return (env_tokenizer,)


@app.cell(hide_code=True)
def _(env_controls, env_tokenizer):
    env_episode = env.episodes.run_episodes(
        [env.episodes.spec_of(env_controls.value)], env_tokenizer
    )[0]
    env_diagnosis = (
        None if isinstance(env_episode, str) else seq.diagnosis.diagnose(env_episode.rollout)
    )
    return env_diagnosis, env_episode


@app.cell(hide_code=True, expand_output=True)
def _(env_diagnosis, env_episode):
    mo.stop(env_diagnosis is None, page.html.note(str(env_episode), "error"))
    mo.vstack(
        [
            mo.md(f"### {env.endings.episode_headline(env_diagnosis, env_episode.stop_reason)}"),
            mo.md(env.endings.explain_ending(env_episode)),
            page.episodes.transcript(env_episode, env_diagnosis.spans),
            page.html.scroll_table(
                env.endings.turn_facts(env_episode), "The trajectory, turn by turn"
            ),
        ]
    )
    return


@app.cell(hide_code=True, expand_output=True)
def _(env_diagnosis):
    mo.stop(env_diagnosis is None or not env_diagnosis.built.data)
    _table = seq.alignment.alignment_table(
        env_diagnosis.built, env_diagnosis.runs, env_diagnosis.rollout.vocab
    )
    mo.vstack(
        [
            page.views.breaks_view(env_diagnosis),
            page.views.break_drawings(env_diagnosis),
            page.html.note(f"The pupil's logprobs are invented; {page.views.STAND_IN}."),
            *page.views.rollout_figures(env_diagnosis, most=1),
            page.html.details_table(
                seq.alignment.stretch_facts(seq.alignment.strip_facts(_table)),
                "Every token of every datum as a table",
            ),
        ]
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 8. Which renderers extend?

    **In short: a renderer may claim extension (`has_extension_property`), but the sampled tokens
    decide; look at both.**
    """)
    return


@app.cell(hide_code=True)
def _():
    # Deterministic, so a served app plays it once for all its readers.
    matrix_cells = (
        env.matrix.shared_matrix(str(Path(__file__).stat().st_mtime_ns))
        if mo.app_meta().mode == "run"
        else env.matrix.matrix_table()
    )
    return (matrix_cells,)


@app.cell(hide_code=True, expand_output=True)
def _(matrix_cells):
    mo.vstack(
        [
            page.episodes.matrix_prose(matrix_cells),
            page.episodes.matrix_view(matrix_cells),
            page.episodes.unbuilt_view(matrix_cells),
        ]
    )
    return


@app.cell(hide_code=True)
def _(matrix_cells):
    _names = matrix_cells["renderer"][matrix_cells["claims"] != "unknown"].unique().tolist()
    matrix_renderer = mo.ui.dropdown(
        options=_names,
        value="qwen3" if "qwen3" in _names else next(iter(_names), None),
        label="Renderer of the cell",
        allow_select_none=False,
    )
    matrix_policy = mo.ui.dropdown(
        options=list(env.policies.policy_names()),
        value="reasoning",
        label="Pupil of the cell",
        allow_select_none=False,
    )
    mo.vstack(
        [
            mo.md(
                "### One cell of the matrix\n\nChoose it with the menus. "
                '<span class="static-only">Choosing needs the live page.</span>'
            ),
            page.html.lean(mo.hstack([matrix_renderer, matrix_policy], justify="start", wrap=True)),
        ]
    )
    return matrix_policy, matrix_renderer


@app.cell(hide_code=True, expand_output=True)
def _(matrix_policy, matrix_renderer):
    _episode = env.episodes.run_episodes(
        [env.episodes.EpisodeSpec(renderer=matrix_renderer.value, policy=matrix_policy.value)]
    )[0]
    mo.stop(isinstance(_episode, str), page.html.note(str(_episode), "error"))
    mo.vstack(
        [
            mo.md(
                f"`{matrix_policy.value}`: {env.policies.policy_names()[matrix_policy.value]}. The renderer "
                f"{'claims' if _episode.renderer.has_extension_property else 'does not claim'} "
                "extension."
            ),
            *page.episodes.episode_view(_episode),
        ]
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### A conversation of your own

    Paste messages: each answer becomes a turn. Its prompt is what the renderer builds from the
    messages before it, its action what the renderer writes for the answer itself, end token
    included. No model is asked, so the verdict is about the messages and the renderer alone.
    """)
    return


@app.cell(hide_code=True)
def _():
    matrix_messages = mo.ui.text_area(
        value=env.conversation.conversation_example(),
        label="Conversation, a JSON list of messages with role and content",
        rows=9,
        full_width=True,
    )
    _names = env.renderers.renderer_names()
    matrix_reader = mo.ui.dropdown(
        options=_names,
        value="qwen3" if "qwen3" in _names else next(iter(_names), None),
        label="Read by renderer",
        allow_select_none=False,
    )
    return matrix_messages, matrix_reader


@app.cell(hide_code=True, expand_output=True)
def _(matrix_messages, matrix_reader):
    _read = env.conversation.parse_conversation(matrix_messages.value)
    _problems = list(_read.issues)
    _found = None
    if not _problems:
        _renderer, _reason = env.renderers.build_renderer(
            matrix_reader.value, env.vocabulary.offline_tokenizer()
        )
        if _renderer is None:
            _problems = [_reason]
        else:
            _found = env.conversation.conversation_rollout(_read.messages, _renderer)
            _problems = list(_found.issues)
    mo.vstack(
        [
            page.html.lean(matrix_messages),
            *[page.html.note(_sentence, "error") for _sentence in _problems[:5]],
            page.html.lean(mo.hstack([matrix_reader], justify="start")),
            *(
                [page.episodes.conversation_view(_found)]
                if _found is not None and _found.rollout
                else []
            ),
            *(
                [
                    page.html.details_table(
                        env.conversation.renderers_alike(
                            env.conversation.conversation_everywhere(_read.messages)
                        ),
                        "The same conversation under every renderer",
                    )
                ]
                if not _read.issues
                else []
            ),
        ]
    )
    return


@app.cell(hide_code=True)
def _():
    # Only where somebody sits before the editor: not in a served app, not in an export.
    matrix_live = page.episodes.is_live_editor()
    matrix_model = mo.ui.text(value="Qwen/Qwen3-8B", label="Model", full_width=True)
    matrix_limit = mo.ui.slider(
        16, 1024, step=16, value=256, label="Tokens per answer, at most", show_value=True
    )
    matrix_key = page.episodes.SecretField("Tinker key (empty: TINKER_API_KEY)")
    matrix_ask = mo.ui.run_button(label="Sample three answers. This costs money.")
    _how = mo.md(
        "### A real model as the pupil\n\nIn the editor (`uv run marimo edit --no-sandbox "
        "404_sequence_extension.py`) the tutor can ask a model of Tinker, through the cookbook's "
        "`TinkerTokenCompleter`. That needs a key and a network, and costs money."
    )
    mo.vstack(
        [
            _how,
            *(
                [
                    page.editing.field_grid(
                        [(matrix_model, None), (matrix_limit, None), (matrix_key.field, None)]
                    ),
                    matrix_ask,
                ]
                if matrix_live
                else []
            ),
        ]
    )
    return matrix_ask, matrix_key, matrix_limit, matrix_live, matrix_model


@app.cell(hide_code=True, expand_output=True)
def _(matrix_ask, matrix_key, matrix_limit, matrix_live, matrix_model):
    mo.stop(not (matrix_live and matrix_ask.value))
    with mo.status.spinner("Waiting for the model's answers", remove_on_exit=True):
        _episode, _problem = env.sampling.sample_model(
            env.episodes.EpisodeSpec(max_generation_tokens=matrix_limit.value),
            matrix_model.value,
            matrix_key.reveal() or os.environ.get("TINKER_API_KEY", ""),
        )
    mo.stop(_episode is None, page.html.note(_problem, "error"))
    mo.vstack(page.episodes.episode_view(_episode, sampled=True))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 9. Your own rollouts

    **In short: give it what your environment recorded, and read how many datums each rollout
    becomes, which token broke the prefix, and what that costs.**

    Without a file the text counts; it starts as an example, one broken trajectory included.
    <span class="static-only">Uploading, changing it and moving the window need the live
    page.</span>
    """)
    return


@app.cell(hide_code=True)
def _():
    own_upload = mo.ui.file(
        filetypes=[".json", ".jsonl", ".ndjson", ".txt"],
        max_size=formats.stream.MAX_FILE_BYTES,
        kind="area",
        label=f"A file of rollouts, JSON or JSONL, up to {formats.stream.MAX_FILE_BYTES // 2**20} MB",
    )
    own_paste = mo.ui.text_area(
        value=seq.overview.example_rollouts(),
        rows=8,
        debounce=True,
        full_width=True,
        label=f"or, without a file, text of up to {formats.bounded.MAX_PASTE_CHARS:,} characters (here an example)",
    )
    page.html.control_panel({"upload": own_upload, "paste": own_paste})
    return own_paste, own_upload


@app.cell(hide_code=True)
def _(own_paste, own_upload):
    # An upload comes first; without one, the text counts.
    _data = own_upload.contents() if own_upload.value else own_paste.value
    with mo.status.spinner("Reading the rollouts", remove_on_exit=True):
        own_reading = (
            formats.bounded.read_bounded(_data)
            if isinstance(_data, bytes) or len(_data) <= formats.bounded.MAX_PASTE_CHARS
            else formats.bounded.Reading(
                (),
                (formats.results.FileIssue("The text is too long to paste; upload it as a file."),),
            )
        )
        own_overview = seq.overview.overview(own_reading.rollouts)
    own_source = f"the file {own_upload.name()}" if own_upload.value else "the text"
    return own_overview, own_reading, own_source


@app.cell(hide_code=True, expand_output=True)
def _(own_overview, own_reading, own_source):
    page.files.reading_view(own_reading, own_overview, own_source)
    return


@app.cell(hide_code=True)
def _(own_overview):
    own_table = mo.ui.table(
        own_overview.table,
        selection="single",
        initial_selection=[own_overview.first] if len(own_overview.table) else None,
        page_size=10,
        show_column_summaries=False,
        show_data_types=False,
        format_mapping=dict.fromkeys(
            ("tokens", "if unmerged"), lambda count: "" if count is pd.NA else f"{count:,}"
        ),
        # long names end in dots where they would push the datums off a narrow window
        style_cell=lambda _row, column, _value: (
            {"maxWidth": "max(7rem, 23vw)", "width": "auto"} if column == "name" else {}
        ),
        # a static page cannot sort, and has no arrows; its variable reaches into the widget
        label="Choose a rollout."
        '<span style="display:var(--seq-live,inline)"> The arrows beside a heading sort by it.'
        "</span>",
    )
    page.html.lean(own_table) if len(own_overview.table) else None
    return (own_table,)


@app.cell(hide_code=True, expand_output=True)
def _(own_overview, own_reading, own_table):
    own_diagnosis = None
    if len(own_table.value):
        _index = int(own_table.value["#"].iloc[0])
        _advantage = own_overview.advantages[_index]
        own_diagnosis = seq.diagnosis.diagnose(
            own_reading.rollouts[_index], 1.0 if _advantage is None else _advantage
        )
    _nothing = (
        page.html.note("Choose a rollout in the table above.") if own_reading.rollouts else None
    )
    mo.vstack(page.files.diagnosis_views(own_diagnosis)) if own_diagnosis else _nothing
    return (own_diagnosis,)


@app.cell(hide_code=True)
def _(own_diagnosis):
    _places = seq.overview.window_places(own_diagnosis) if own_diagnosis else {}
    own_place = mo.ui.dropdown(
        options=_places or {"nothing to show": (0, 0)},
        value=next(iter(_places), "nothing to show"),
        allow_select_none=False,
        searchable=True,
        full_width=True,
        label="Go to",
    )
    return (own_place,)


@app.cell(hide_code=True)
def _(own_diagnosis, own_place):
    _datum, _start = own_place.value
    own_rows = page.files.datum_rows(own_diagnosis, _datum) if own_diagnosis else pd.DataFrame()
    own_start = mo.ui.slider(
        0,
        max(1, len(own_rows) - 2),
        value=min(_start, max(0, len(own_rows) - 2)),
        show_value=True,
        full_width=True,
        debounce=True,
        label=f"First position in datum {_datum}",
    )
    page.html.control_panel({"place": own_place, "start": own_start}) if len(own_rows) else None
    return own_rows, own_start


@app.cell(hide_code=True, expand_output=True)
def _(own_diagnosis, own_rows, own_start):
    mo.vstack(page.files.window_views(own_diagnosis, own_rows, own_start.value)) if len(
        own_rows
    ) else None
    return


@app.cell(hide_code=True)
def _():
    page.html.lean(mo.md(f"### What can be read\n\n{page.files.format_help()}"))
    return


@app.cell(hide_code=True, expand_output=True)
def _():
    mo.vstack(
        [
            mo.md(
                """
    ### Write your rollouts to a file

    Two functions write the cookbook's `Trajectory` in the format read here, images included.
    They are shown as they run; copy them next to your training loop.
    """
            ),
            page.html.code_view(page.files.dump_code(), "python"),
        ]
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 10. Check yourself

    **In short: answer first, then let the code answer.**

    Every right answer was computed from what the cookbook returned when this page was made.
    """)
    return


@app.cell(hide_code=True)
def _():
    quiz_again = mo.ui.button(label="Start again", value=0, on_click=lambda clicks: clicks + 1)
    return (quiz_again,)


@app.cell(hide_code=True)
def _(quiz_again):
    _ = quiz_again.value  # a click makes the questions anew
    quiz_list = page.quiz.quiz_questions()
    quiz_forms = mo.ui.dictionary(
        {
            question.key: mo.ui.radio(
                options={option.replace("`", ""): option for option in question.options},
                label=f'<span class="sr-only">Question {number}: </span>Your answer',
            ).form(
                submit_button_label="Check",
                bordered=False,
                validate=lambda value: None if value else "Choose an answer first.",
            )
            for number, question in enumerate(quiz_list, start=1)
        }
    )
    quiz_first = {}
    return quiz_first, quiz_forms, quiz_list


@app.cell(hide_code=True, expand_output=True)
def _(quiz_again, quiz_first, quiz_forms, quiz_list):
    for _key, _chosen in quiz_forms.value.items():
        if _chosen is not None:
            quiz_first.setdefault(_key, _chosen)
    _cards = "".join(
        page.quiz.quiz_card(
            number,
            question,
            quiz_forms.elements[question.key],
            quiz_forms.value[question.key],
        ).text
        for number, question in enumerate(quiz_list, start=1)
    )
    _score = mo.hstack(
        [mo.md(page.quiz.quiz_score(quiz_list, quiz_first)), quiz_again],
        justify="start",
        align="center",
        gap=1,
        wrap=True,
    )
    mo.vstack(
        [
            page.html.lean(mo.Html(f'<div class="quiz-grid">{_cards}</div>')),
            mo.Html(f'<div class="seq-live-only">{_score}</div>'),
        ],
        gap=1.5,
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(f"""
    ## 11. Summary

    **In short: one running sequence, one number per rollout, and the first token that differs
    decides.**

    {page.summary.summary_text()}
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(
        f"### People say, the code says\n\n{page.summary.misconception_table(page.summary.misconceptions())}"
    )
    return


@app.cell(hide_code=True)
def _():
    _prose = mo.md(r"""
    ### Where to go next

    - **Watch your own environment.** `uv run python 404_sequence_extension.py --trajectory FILE
      --max-datums 1` fails when a rollout splits: one line in CI. A rollout that the cookbook
      refuses makes no datum and passes: with `--json` its `error` is not null.
    - **In the cookbook:** `rl/data_processing.py` merges, `rl/message_env.py` and
      `rl/rollouts.py` make the rollouts, `rl/rollout_limits.py` sets budgets and
      `ParseErrorPolicy`, `rl/train.py` trains, `renderers/` turns messages into tokens. The
      recipes `multiplayer_rl`, `search_tool` and `verifiers_rl` are multi-turn.
    - **Sibling tutorials:** 201 *rendering*, 202 *loss functions*, 302 *custom environment*,
      402 *RL hyperparameters*, 405 *multi-agent*.
    """)
    _told = page.html.note(
        "It takes a renderer that ends every message with one and the same token (qwen3, llama3, "
        "kimi_k2), answers that end with it, one new message a turn, and no token budget."
    )
    mo.Html(
        f'{_prose.text}<details class="seq-facts"><summary>Put the sampled tokens back: a sketch'
        '</summary><div class="seq-scroll" tabindex="0" role="group" aria-label="The sketch"><pre>'
        f"{html.escape(page.episodes.APPENDING_ENV)}</pre></div>{_told.text}</details>"
    )
    return


@app.cell(hide_code=True)
def _():
    # without a title: of sheets with two titles a browser uses only those with the first
    mo.Html(f"<style>{page.style.style_sheet()}{page.style.editor_css()}</style>")
    return


if __name__ == "__main__":
    app.run()
