"""Tutorial 404: Sequence extension in multi-turn RL.

How multi-turn rollouts become training data, and why they split. The story; the functions
behind it are in the package `sequence_extension` beside this file.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(
    width="medium",
    app_title="Tutorial 404: Sequence extension in multi-turn RL",
    css_file="assets/layout.css",
    html_head_file="assets/head.html",
)

with app.setup(hide_code=True):
    import os

    import marimo as mo

    try:
        import sequence_extension as seq
        from sequence_extension import editor, env, formats, page
    except ModuleNotFoundError:
        _missing = (
            "This notebook needs the package `sequence_extension`, which is missing here: clone "
            "the repository that it comes from and run "
            "`uv run marimo edit 404_sequence_extension.py` there."
        )
        if mo.running_in_notebook():
            mo.stop(True, mo.md(_missing))
        raise SystemExit(_missing) from None


@app.cell(hide_code=True)
def _():
    # first, so that nothing moves when it arrives
    mo.Html(page.style.style_html())
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # Tutorial 404: Sequence extension in multi-turn RL

    In multi-turn RL a model speaks several times in one conversation, a *rollout*. The cookbook of
    Tinker, a training service, cuts rollouts into *datums*, the sequences that are trained on. As
    long as each prompt repeats the prompt and answer before it, one datum holds the whole rollout.
    """)
    return


@app.cell(hide_code=True)
def first_figure():
    # alone in its cell: here the page's style sheet reaches the menu inside the figure, and
    # keeps the figure's place by the cell's name until it is there
    page.idea.idea_figure()
    return


@app.cell(hide_code=True)
def first_table():
    # apart from the prose below, which the app shows before any cell has run; its place is kept
    page.live.wait_for_live_browser()
    mo.Html(page.idea.idea_table_html())
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **How to read it.** Each section holds one idea, in short on its first line, and one figure
    that makes its point without a click. Turns and tokens count from 0. Every number was computed
    when this page was made, from what the installed `tinker-cookbook` returned.

    <div class="seq-note seq-static-only">On a static page dashed fields are dead; menus inside
    figures work.</div>

    1. [The idea](#1-the-idea)
    2. [Build a trajectory](#2-build-a-trajectory)
    3. [The datums, token by token](#3-the-datums-token-by-token)
    4. [Why did it split?](#4-why-did-it-split)
    5. [What it costs](#5-what-it-costs)
    6. [One number per trajectory](#6-one-number-per-trajectory)
    7. [A multi-turn environment](#7-a-multi-turn-environment)
    8. [Which renderers extend?](#8-which-renderers-extend)
    9. [What helps](#9-what-helps)
    10. [Your own rollouts](#10-your-own-rollouts)
    11. [Check yourself](#11-check-yourself)

    And the [Summary](#summary): what people say, and what the code says.

    ## 1. The idea

    **In short: as long as each observation repeats all that was seen and said before, all turns
    become one datum; where it does not, a new datum begins.**

    In each turn the model sees a prompt, the *observation*, and writes an answer, the *action*.
    The cookbook's `trajectory_to_data` keeps one *running sequence*, all observation and action
    tokens so far. Of this sequence it asks whether it is a *prefix* of the next observation: does
    the next observation begin with exactly these tokens? If so, only what is new is appended. If
    not, the turn *splits*: the datum is closed and another begins.

    Only actions are trained (section 6 has an exception): `mask` is 1 on their tokens and 0 on all
    others. A turn whose answer did not parse can be *masked*: 0 throughout.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 2. Build a trajectory

    **In short: a trajectory, the record of a rollout, is a list of turns, each with what the
    model saw and what it said; one call turns it into training data.**

    A *logprob* is the log of the probability with which a token was sampled; the *advantage*
    says how much better a rollout did than its *group*, the rollouts of the same prompt.
    """)
    return


@app.cell
def three_turns():
    import tinker
    from tinker_cookbook.completers import TokensWithLogprobs
    from tinker_cookbook.rl.data_processing import trajectory_to_data
    from tinker_cookbook.rl.types import Trajectory, Transition

    def turn(ob, ac, logprobs, reward=0.0, done=False):
        return Transition(
            ob=tinker.ModelInput.from_ints(ob),
            ac=TokensWithLogprobs(tokens=ac, maybe_logprobs=logprobs),
            reward=reward,
            episode_done=done,
        )

    o1, a1 = [100, 101, 102, 103], [200, 201]  # what the model saw, what it said
    o2, a2 = [300, 301], [400, 401, 402]
    o3, a3 = [500], [600, 601]
    transitions = [
        turn(o1, a1, [-0.5, -0.3]),
        turn(o1 + a1 + o2, a2, [-0.4, -0.2, -0.1]),  # holds all of turn 0
        turn(o1 + a1 + o2 + a2 + o3, a3, [-0.6, -0.3], reward=1.0, done=True),  # and of turn 1
    ]
    trajectory = Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty())
    data = trajectory_to_data(trajectory, traj_advantage=1.0)
    return data, trajectory_to_data


@app.cell(hide_code=True)
def _(data):
    mo.Html(
        page.html.cell_code_html(__file__, "three_turns") + page.strips.strip_lanes_html(data).text
    )
    return


@app.cell(hide_code=True, expand_output=True)
def _():
    _prose = mo.md(r"""
    ### Now change it

    <div class="paragraph seq-static-only">Tokens can be changed where this page runs as an app or
    in marimo's editor. Here stand the three turns from above; sections 3 to 5 show what becomes
    of them.</div>
    <div class="paragraph seq-live-only">Click a token to replace it, to put one before it, or to
    delete it. Change an early action, and every later turn that carries it over changes with it;
    change a grey token, one that is carried over, and its turn splits. The menu holds section 1's
    scenarios, and some that are longer or never split. Sections 3 to 5 follow what you build
    here.</div>

    /// details | What can be typed
        attrs: {class: seq-live-only}

    - **Tokens**: ids with spaces or commas between them; `image(name, 4)` is an image.
    - **Changes to the history**, by the positions at the turn before: `7: 13` replaces a
      token, `7-9:` removes three, `7+: 13 14` inserts before position 7; `;` separates changes.
    - **Logprobs**: one number per action token; `auto` makes all of them up, a final `...` those
      that are missing; empty means that none were reported.
    - **Masked**: the answer did not parse.
    ///
    """)
    # The address is read once. Later changes of it come from the editor itself.
    _parameters = mo.query_params()
    _start, _drafts, _note = editor.address.read_address(
        {_key: _parameters.get(_key) for _key in ("scenario", "turns") if _key in _parameters},
        editor.scenarios.scenarios(),
    )
    build = mo.ui.anywidget(page.turns.TurnsEditor(_start, _drafts, _note))
    # What could be read last: it stays in sight while a field is being mended.
    build_good = {}
    mo.Html(f'{_prose.text}<div class="seq-editor">{build}</div>')
    return build, build_good


@app.cell(hide_code=True)
def _(build, build_good):
    _ = build.value  # a change in the browser
    build_now = build.widget.answer()
    if build_now.diagnosis:
        build_good["diagnosis"] = build_now.diagnosis
    diagnosis = build_good.get("diagnosis", page.verdicts.verdicts_view_example())
    strip_place = page.strips.strip_window_controls(diagnosis)
    # What follows is dimmed while it shows what could be read last.
    _stale = build_now.diagnosis is None or build_now.click_issue
    mo.Html("<style>.seq-follows{opacity:.4}</style>") if _stale else None
    return build_now, diagnosis, strip_place


@app.cell(hide_code=True, expand_output=True)
def _(build_now, strips_drawn):
    # What is folded or out of sight waits until the browser has drawn section 3's strips anew.
    if build_now.serial:
        page.live.wait_for_live_browser(0.12)
    settled = strips_drawn
    _wanted, _note = editor.address.address_of(
        build_now.scenario, build_now.drafts, next(iter(editor.scenarios.scenarios()))
    )
    _hint = page.live.write_live_address(_wanted, _note)
    mo.Html(_hint + page.editing.editing_code_folds(settled.rollout))
    return (settled,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 3. The datums, token by token

    **In short: `n` tokens give `n - 1` inputs and `n - 1` targets; mask, advantage and logprob
    belong to the target.**

    Each target is the next input, so every token moves one place to the left when it becomes a
    target. The familiar drawing `[O1 A1 O2 A2]` over `[0 1 0 1]` is a simplification: it puts the
    mask under the token itself, and gives the first token an entry that does not exist. The first
    token of a datum is never a target; so an action that opens a datum, after an empty
    observation, is not trained on its first token.

    What decides the gradient is `advantages`: `trajectory_to_data` sets them to 0 on observation
    tokens. `mask` is taken out before `forward_backward`, the call that computes the loss and its
    gradient on Tinker's servers; it serves metrics and the KL penalty (section 6), which keeps
    the model near the one it started from.

    Logprobs are not checked turn by turn: only their number in the whole datum must be right. With
    one too few in one turn and one too many in the next there is no error, and some stand at the
    wrong tokens.
    """)
    return


@app.cell
def _():
    def declare_strip():
        """The strip in Altair, on named tables: change a line, and every strip changes."""
        import altair as alt

        from sequence_extension.figures.cells import (
            cell_break_layers,
            cell_layers,
            cell_turn_layers,
        )
        from sequence_extension.figures.figure import figure_data, figure_pixels
        from sequence_extension.figures.strip_chart import LANE_KIND, STRIP_LANES
        from sequence_extension.figures.theme import theme_text

        scale = alt.Scale(domain=STRIP_LANES, paddingInner=0.08)
        y = alt.Y("lane:N", title=None, scale=scale)

        # one row per position; each lane takes its label from the column of its name
        table = alt.Chart(figure_data("cells", "p", "left", "x", "right"))
        tooltip = ["p:Q", "lane:N", "label:N", "turn:N", "id:N"]
        cells = (
            table.transform_fold(
                ["input", "target", "mask", "advantage", "logprob"], ["lane", "label"]
            )
            .transform_filter("datum.label")
            .transform_calculate(kind=LANE_KIND)
            .encode(y=y, tooltip=tooltip)
        )
        position = table.transform_filter("datum.input && datum.target").encode(
            x=figure_pixels("x"), y=alt.YDatum("position"), text="p:Q"
        )
        # the shift: every input moves one place to the left when it becomes a target
        moves = table.transform_window(after="lead(x)").transform_filter(
            "datum.target && isValid(datum.after)"
        )
        start, head = (alt.YDatum(" ", bandPosition=place) for place in (0.05, 0.8))
        return alt.layer(
            *cell_turn_layers(y),
            moves.mark_rule().encode(
                x=figure_pixels("after"), x2="x:Q", y=start, y2=alt.Y2Datum(" ", bandPosition=0.75)
            ),
            moves.mark_point(shape="triangle-down", size=70).encode(x=figure_pixels("x"), y=head),
            *cell_layers(cells),
            position.mark_text(**theme_text()),
            *cell_break_layers(
                alt.YDatum("turn", bandPosition=0), alt.Y2Datum("input", bandPosition=1)
            ),
        )

    strip_drawing = declare_strip().to_dict()
    return (strip_drawing,)


@app.cell(hide_code=True, expand_output=True)
def _(diagnosis, strip_drawing, strip_place):
    strips_drawn = diagnosis
    page.html.following_html(page.strips.strips_view(diagnosis, strip_place, strip_drawing))
    return (strips_drawn,)


@app.cell(hide_code=True, expand_output=True)
def _(settled, strip_place):
    page.html.following_html(page.strips.strip_facts_view(settled, strip_place))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 4. Why did it split?

    **In short: a turn splits when its observation does not start with the whole running
    sequence; the first difference, the *break*, shows where, and what was removed or inserted
    there, why.**
    """)
    return


@app.cell(hide_code=True, expand_output=True)
def _(settled):
    page.html.following_html(
        mo.vstack(
            [
                page.verdicts.verdict_breaks_view(settled),
                page.verdicts.verdicts_view(settled),
                page.cost.cost_treatments_view(settled),
            ]
        )
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    /// details | The rules, in order: the first one that applies names the cause

    1. **shortened**: the new observation ends where they part; it is a beginning of the running
       sequence. An empty observation is the shortest beginning.
    2. **image changed**: what was expected there, or what came, is an image.
    3. **end token**: only the last token of the running sequence differs.
    4. **retokenised**: the vocabulary is known, and the same text comes back in other tokens.
    5. **removed**, **inserted**: the cheapest edit from the running sequence to the new
       observation only removes tokens and keeps some behind the break, or only inserts.
    6. **new context**: less than half of the running sequence comes back.
    7. **reordered**: what is removed and what is inserted are the same tokens.
    8. **replaced**: anything else.
    ///
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 5. What it costs

    **In short: turns that extend cost tokens in proportion to their number; turns that split pay
    for the whole history again.**

    No sampled token is trained twice after a split, but the shared prefix goes through the model
    once more, as context with mask 0. The figure counts inputs of training, not of sampling.

    Where the loss is a sum over tokens, a split changes no gradient; Tinker documents its default
    loss, `importance_sampling`, as such a sum. A trainer that averages per sequence gives a
    rollout of N datums N times the weight. And if `num_substeps` is more than its default of 1,
    the cookbook makes several optimizer steps of one batch, and the datums of a rollout may fall
    into different ones.
    """)
    return


@app.cell(hide_code=True, expand_output=True)
def _(settled):
    page.html.following_html(page.cost.cost_view(settled))
    return


@app.cell(hide_code=True)
def _():
    _prose = mo.md(r"""
    ## 6. One number per trajectory

    **In short: the rewards of all turns are summed, the group's mean is taken off, and what is
    left stands on every trained token of the rollout.**

    `compute_advantages` subtracts the group's mean reward and divides by nothing; the result is
    one number per rollout, however many datums it became.
    """)
    group_preset = mo.ui.dropdown(
        options=list(editor.rewards.reward_presets()),
        value=next(iter(editor.rewards.reward_presets())),
        label="Rewards",
        allow_select_none=False,
    )
    group_reset = mo.ui.button(label="Reset rewards", value=0, on_click=lambda clicks: clicks + 1)
    _panel = page.html.control_panel_html({"preset": group_preset, "reset": group_reset})
    mo.Html(f'{_prose.text}<div class="seq-live-only">{_panel}</div>')
    return group_preset, group_reset


@app.cell(hide_code=True)
def _(group_preset, group_reset):
    _ = group_reset.value  # a click makes the fields anew
    group_fields = page.groups.group_reward_fields(group_preset.value)
    # The last group that could be read: it stays in sight while a field is being mended.
    group_good = {}
    return group_fields, group_good


@app.cell(hide_code=True, expand_output=True)
def _(group_fields, group_good):
    _result, group_issues = page.groups.read_group_form(group_fields.value)
    if _result is not None:
        group_good["result"] = _result
    group = group_good["result"].group
    _shown = [page.groups.group_result_view(group_good["result"], stale=bool(group_issues))]
    if page.live.is_live_kernel():  # in a static page fields would be dead
        _shown += [
            mo.md("One reward per turn, with spaces between; an empty field leaves a rollout out."),
            page.groups.group_fields_view(group_fields, group_issues),
        ]
    mo.vstack(_shown)
    return group, group_issues


@app.cell
def group_call(group):
    from tinker_cookbook.rl.data_processing import assemble_training_data, compute_advantages

    # what the training loop calls, for all groups of a batch at once
    advantages_P = compute_advantages([group])
    data_D, metadata_D = assemble_training_data([group], advantages_P)
    return advantages_P, data_D, metadata_D


@app.cell(hide_code=True)
def _(advantages_P, data_D, group_issues, metadata_D):
    _lines = page.html.printed_html(page.groups.group_printout(advantages_P[0], data_D, metadata_D))
    mo.Html(
        page.html.cell_code_html(__file__, "group_call")
        + page.html.dimmed_html(_lines.text, stale=bool(group_issues)).text
    )
    return


@app.cell(hide_code=True, expand_output=True)
def _():
    mo.Html(page.groups.group_mask_html())
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 7. A multi-turn environment

    **In short: you write an environment that speaks in messages; `EnvFromMessageEnv` makes
    tokens of it, and never checks whether one prompt continues the last.**

    Two methods of a `MessageEnv` must be written: `initial_observation` opens the conversation,
    `step` takes an answer and returns the reward and the conversation so far.
    """)
    return


@app.cell
def sums_env():
    from tinker_cookbook.renderers import get_text_content
    from tinker_cookbook.rl.message_env import MessageEnv, MessageStepResult

    class SumsEnv(MessageEnv):
        """Asks small sums; each right answer earns a point."""

        def __init__(self, sums):
            self.sums, self.messages = list(sums), []

        async def initial_observation(self):
            left, right = self.sums[0]
            self.messages += [{"role": "user", "content": f"What is {left} + {right}?"}]
            return list(self.messages)

        async def step(self, message):
            self.messages += [message]
            right = str(sum(self.sums.pop(0))) in get_text_content(message)
            done = not self.sums
            seen = list(self.messages) if done else await self.initial_observation()
            return MessageStepResult(reward=float(right), episode_done=done, next_messages=seen)

    return (SumsEnv,)


@app.cell(hide_code=True)
def _():
    # a renderer, and a scripted pupil in place of a model
    renderer, _ = env.renderers.build_renderer("qwen3", env.vocabulary.offline_vocabulary())
    policy = env.policies.ScriptedPolicy(renderer, "reasoning")
    _prose = mo.md(r"""
    The *renderer* writes messages as the tokens of one model family and reads answers back.
    `EnvFromMessageEnv` renders the whole conversation anew each turn, parses the answers, and
    ends the rollout when its budget of tokens is spent, an answer is cut, or one does not parse.
    `do_single_rollout` plays it with a *policy*, whatever samples: here a scripted pupil in
    place of a model.
    """)
    mo.Html(page.html.cell_code_html(__file__, "sums_env") + _prose.text)
    return policy, renderer


@app.cell
async def one_rollout(SumsEnv, policy, renderer, trajectory_to_data):
    from tinker_cookbook.rl.message_env import EnvFromMessageEnv
    from tinker_cookbook.rl.rollouts import do_single_rollout

    token_env = EnvFromMessageEnv(renderer, SumsEnv([(2, 3), (5, 3), (8, 7)]))
    sums_trajectory = await do_single_rollout(policy, token_env)
    sums_data = trajectory_to_data(sums_trajectory, traj_advantage=1.0)
    return EnvFromMessageEnv, do_single_rollout, sums_data, sums_trajectory


@app.cell(hide_code=True, expand_output=True)
def _(sums_data, sums_trajectory):
    _printed = page.playground.playground_printout(sums_trajectory, sums_data)
    env_menu = page.playground.playground_menu()
    mo.vstack(
        [
            mo.Html(
                page.html.cell_code_html(__file__, "one_rollout")
                + page.html.printed_html(_printed).text
            ),
            mo.md(
                "### Every ending\n\nPlayed with `TutorEnv`, the same environment with retries "
                f"and truncation. {page.playground.playground_menu_finding()} Where the next "
                "prompt is over budget, `context_overflow_reward` takes the place of the last "
                "turn's "
                "own reward. If already the first prompt is over budget, nothing is trained, but "
                "that reward still counts in the group; the stop reason is then `max_tokens`, the "
                "same as for a cut answer."
            ),
            env_menu,
            mo.Html(
                page.html.fold_markup(
                    "The code of TutorEnv, a start for your own",
                    page.html.code_html(page.playground.playground_code(), "python").text,
                )
            ),
        ]
    )
    return (env_menu,)


@app.cell(hide_code=True)
def _(env_menu):
    env_controls = page.playground.playground_controls(
        page.playground.playground_menu_spec(env_menu)
    )
    env_model = page.playground.playground_model_field()
    return env_controls, env_model


@app.cell(hide_code=True)
def _(env_model):
    env_tokenizer, env_note = page.playground.playground_tokenizer(env_model.value)
    return env_note, env_tokenizer


@app.cell(hide_code=True, expand_output=True)
def _(env_controls, env_menu, env_tokenizer):
    _played = page.playground.playground_episode(env_controls.value, env_tokenizer)
    mo.Html(
        page.playground.playground_view(env_controls, *_played, env_menu).text
        + page.playground.playground_aftermath_fold(*_played)
    )
    return


@app.cell(hide_code=True)
def _(env_model, env_note):
    _field = page.html.fold_markup("With the tokens of a real model", env_model.text)
    _note = env_note.text if env_note else ""
    mo.Html(f"{_field}{_note}") if page.live.is_live_kernel() else None
    return


@app.cell(hide_code=True, expand_output=True)
def _():
    _prose = mo.md(r"""
    ## 8. Which renderers extend?

    **In short: a renderer may claim extension (`has_extension_property`), but the sampled tokens
    decide; look at both.**
    """)
    matrix_selector = page.matrix.matrix_selector()
    mo.vstack(
        [
            mo.Html(_prose.text + page.matrix.matrix_prose_html()),
            page.matrix.matrix_view(page.matrix.page_matrix(), matrix_selector),
            page.matrix.matrix_unbuilt_view(page.matrix.page_matrix()),
        ]
    )
    return (matrix_selector,)


@app.cell(hide_code=True)
def _(matrix_selector):
    matrix_member = page.matrix.matrix_member_menu(matrix_selector)
    return (matrix_member,)


@app.cell(hide_code=True, expand_output=True)
def _(matrix_member, matrix_selector):
    _, _policy = page.matrix.matrix_selector_cell(matrix_selector)
    mo.Html(page.matrix.matrix_cell_fold(matrix_member, _policy))
    return


@app.cell(hide_code=True)
def _():
    # Only where somebody sits before the editor: not in a served app, not in an export.
    matrix_live = page.live.is_live_editor()
    matrix_model = mo.ui.text(value="Qwen/Qwen3-8B", label="Model", full_width=True)
    matrix_limit = mo.ui.slider(
        16, 1024, step=16, value=256, label="Tokens per answer, at most", show_value=True
    )
    matrix_key = page.live.SecretField("Tinker key (empty: TINKER_API_KEY)")
    matrix_ask = mo.ui.run_button(label="Sample three answers. This costs money.")
    mo.vstack(
        [
            mo.md(
                "### A real model as the pupil\n\nThrough the cookbook's `TinkerTokenCompleter`."
            ),
            page.html.field_grid_html(
                [(matrix_model, None), (matrix_limit, None), (matrix_key.field, None)]
            ),
            matrix_ask,
        ]
    ) if matrix_live else None
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
    mo.stop(_episode is None, page.html.note_html(_problem, "error"))
    mo.vstack(page.playground.playground_episode_view(_episode, sampled=True))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## 9. What helps

    **In short: keep the tokens that were sampled.** `TokenPreservingEnv` takes the place of
    `EnvFromMessageEnv`. Its next prompt is the running sequence and what the renderer writes
    *behind* the answer: its end token where that is missing, the new messages, the header of the
    next answer.
    """)
    return


@app.cell
async def kept_rollout(
    SumsEnv,
    do_single_rollout,
    policy,
    renderer,
    trajectory_to_data,
):
    from sequence_extension import TokenPreservingEnv

    kept_env = TokenPreservingEnv(renderer, SumsEnv([(2, 3), (5, 3), (8, 7)]))
    kept_trajectory = await do_single_rollout(policy, kept_env)
    kept_data = trajectory_to_data(kept_trajectory, traj_advantage=1.0)
    return (kept_data,)


@app.cell(hide_code=True, expand_output=True)
def _(kept_data, sums_data):
    _printed = page.html.printed_html(page.comparison.comparison_printout(sums_data, kept_data))
    _prose = mo.md(rf"""
    Where it cannot tell for certain what follows, it renders anew, as the cookbook does, and
    counts that in the step's metrics (`token_preserving/fallback`). So it does where the
    environment changed earlier messages or the answer, or where the answer ends in a way that its
    renderer does not write.

    **What changes for the model:** it sees its earlier reasoning, which its chat template would
    have hidden, and the prompt grows by it, also towards `max_trajectory_tokens`. Training stays
    true to what was sampled either way. Do not use it where the model will later see history as
    its template writes it, or where old reasoning would crowd out the task.

    {page.comparison.comparison_prose()}

    A group of a recipe, one of the cookbook's training scripts, is wrapped without touching it:
    """)
    mo.vstack(
        [
            mo.Html(page.html.cell_code_html(__file__, "kept_rollout") + _printed.text),
            page.comparison.comparison_view(),
            _prose,
        ]
    )
    return


@app.cell
async def kept_group(EnvFromMessageEnv, SumsEnv, policy, renderer):
    from tinker_cookbook.rl.rollouts import do_group_rollout
    from tinker_cookbook.rl.types import EnvGroupBuilder

    from sequence_extension.env import TokenPreservingBuilder

    class SumsGroup(EnvGroupBuilder):  # as a recipe writes it
        async def make_envs(self):
            return [EnvFromMessageEnv(renderer, SumsEnv([(2, 3), (5, 3)])) for _ in range(2)]

    kept_trajectories = await do_group_rollout(TokenPreservingBuilder(SumsGroup()), policy)
    return (kept_trajectories,)


@app.cell(hide_code=True)
def _(kept_trajectories, trajectory_to_data):
    _datums = [
        len(trajectory_to_data(part, traj_advantage=1.0))
        for part in kept_trajectories.trajectories_G
    ]
    two_agents = seq.lineages.lineages_example()
    _prose = mo.md(r"""
    **Several agents in one rollout,** or one that goes back to an earlier conversation: keep one
    running sequence for each. `split_lineages` gives each turn to the longest sequence that it
    extends. A loss that sums over tokens stays the same, over fewer inputs.
    """)
    mo.Html(
        page.html.cell_code_html(__file__, "kept_group")
        + page.html.printed_html(f"datums per trajectory: {_datums}").text
        + _prose.text
    )
    return (two_agents,)


@app.cell
def lineages(trajectory_to_data, two_agents):
    from sequence_extension import split_lineages

    lineage_data = [
        datum
        for part in split_lineages(two_agents)
        for datum in trajectory_to_data(part, traj_advantage=1.0)
    ]
    return (lineage_data,)


@app.cell(hide_code=True)
def _(lineage_data, trajectory_to_data, two_agents):
    mo.Html(
        page.html.cell_code_html(__file__, "lineages")
        + page.html.printed_html(
            f"A, B, A, B as it is: {len(trajectory_to_data(two_agents, 1.0))} datums\n"
            f"parted:              {len(lineage_data)} datums"
        ).text
    )
    return


@app.cell(hide_code=True)
def _():
    _prose = mo.md(r"""
    ## 10. Your own rollouts

    **In short: load what your environment recorded, and read how many datums each rollout
    becomes, which token broke the prefix, and what that costs.**

    To record rollouts, run your training loop inside the cookbook's `capture_to_store(...)`; if it
    plays several, name each one with `capture(group_idx=..., traj_idx=...)`. Then load the file,
    or paste its text over the example below. In a terminal, `sequence-extension FILE` says the
    same.
    """)
    own_upload = mo.ui.file(
        filetypes=[".json", ".jsonl", ".ndjson", ".txt"],
        max_size=formats.stream.MAX_FILE_BYTES,
        kind="area",
        label=f"A file of rollouts, up to {formats.stream.MAX_FILE_BYTES // 2**20} MB",
    )
    own_paste = mo.ui.text_area(
        value=seq.overview.overview_example(),
        rows=5,
        debounce=600,  # milliseconds
        full_width=True,
        label="or, without a file, text (here an example), read when you pause",
    )
    own_last = {}  # what could be read last: it stays while a text is being mended
    own_tokenizer = page.upload.upload_tokenizer_field()  # None but before the editor
    _panel = page.html.control_panel_html({"upload": own_upload, "paste": own_paste})
    _field = "" if own_tokenizer is None else own_tokenizer.text
    mo.Html(_prose.text + _panel.text + _field)
    return own_last, own_paste, own_tokenizer, own_upload


@app.cell(hide_code=True)
def _(own_tokenizer):
    own_texts, _note = page.upload.upload_field_texts(
        None if own_tokenizer is None else own_tokenizer.value
    )
    mo.as_html(_note) if _note is not None else None
    return (own_texts,)


@app.cell(hide_code=True, expand_output=True)
def _(own_last, own_paste, own_texts, own_upload):
    own_read = page.upload.read_upload(own_upload, own_paste.value, own_last, own_texts)
    own_table = page.upload.upload_rollout_menu(own_read)
    _menu = page.html.dimmed_html(own_table.text, own_read.failed is not None).text
    mo.Html(page.upload.upload_view(own_read).text + (_menu if own_read.reading.rollouts else ""))
    return own_read, own_table


@app.cell(hide_code=True, expand_output=True)
def _(own_read, own_table):
    own_diagnosis = page.upload.upload_chosen_diagnosis(own_read, own_table)
    own_place = page.upload.upload_place_menu(own_diagnosis)
    page.upload.upload_chosen_view(own_read, own_diagnosis) if own_diagnosis else None
    return own_diagnosis, own_place


@app.cell(hide_code=True)
def _(own_diagnosis, own_place):
    own_rows = (
        page.upload.upload_datum_rows(own_diagnosis, own_place.value[0]) if own_diagnosis else []
    )
    own_start = page.upload.upload_start_slider(own_rows, own_place.value)
    return own_rows, own_start


@app.cell(hide_code=True, expand_output=True)
def _(own_diagnosis, own_place, own_read, own_rows, own_start):
    mo.Html(
        page.upload.upload_window_fold(own_read, own_diagnosis, own_rows, own_place, own_start)
    ) if own_diagnosis else None
    return


@app.cell(hide_code=True)
def _():
    own_messages = mo.ui.text_area(
        value=env.messages.messages_example(),
        label="Conversation, a JSON list of messages with role and content",
        rows=6,
        full_width=True,
    )
    own_reader = page.matrix.matrix_renderer_menu(
        "Read by renderer", env.renderers.renderer_names()
    )
    mo.Html(page.html.fold_markup("What can be read", mo.md(page.upload.upload_format_help()).text))
    return own_messages, own_reader


@app.cell(hide_code=True, expand_output=True)
def _(own_messages, own_reader):
    mo.Html(page.pasted.pasted_fold(own_messages, own_reader))
    return


@app.cell(hide_code=True)
def _():
    quiz_again = mo.ui.button(label="Start again", value=0, on_click=lambda clicks: clicks + 1)
    mo.md(r"""
    ## 11. Check yourself

    **In short: answer first, then see what the code says.**
    """)
    return (quiz_again,)


@app.cell(hide_code=True)
def _(quiz_again):
    _ = quiz_again.value  # a click makes the questions anew
    quiz_forms = page.quiz.quiz_forms()
    quiz_first = {}
    return quiz_first, quiz_forms


@app.cell(hide_code=True, expand_output=True)
def _(quiz_again, quiz_first, quiz_forms):
    page.quiz.quiz_view(quiz_forms, quiz_first, quiz_again)
    return


@app.cell(hide_code=True, expand_output=True)
def _():
    _main = "https://github.com/thinking-machines-lab/tinker-cookbook/blob/main"
    _code, _more = f"{_main}/tinker_cookbook", f"{_main}/tutorials"
    mo.md(rf"""
    ## Summary

    **In short: one running sequence, one number per rollout, and the first token that differs
    decides.**

    - `trajectory_to_data` holds one running sequence: a turn whose observation starts with all of
      it is appended, any other starts a new datum. Mask, advantage and logprob belong to the
      target, the next token.
    - A split trains no token twice but reads the prefix again: cost grows with the square of the
      turns where each one splits, in proportion to them where none does.
    - Whether turns extend is decided by renderer, policy and environment together: look at the
      first token that differs, and trust no claim.

    ### People say, the code says

    {page.summary.summary_table(page.summary.summary_misconceptions())}

    ### Where to go next

    - **Watch your own environment.** `sequence-extension FILE --max-datums 1` fails when a rollout
      splits or is refused: one line in CI.
    - **In the cookbook:** [`rl/data_processing.py`]({_code}/rl/data_processing.py) merges,
      [`rl/message_env.py`]({_code}/rl/message_env.py) and
      [`rl/rollouts.py`]({_code}/rl/rollouts.py) make the rollouts,
      [`rl/rollout_limits.py`]({_code}/rl/rollout_limits.py) sets budgets,
      [`rl/train.py`]({_code}/rl/train.py) trains, [`renderers/`]({_code}/renderers) turns
      messages into tokens. The recipes `multiplayer_rl`, `search_tool` and `verifiers_rl` are
      multi-turn.
    - **Sibling tutorials:** [201 rendering]({_more}/201_rendering.py),
      [202 loss functions]({_more}/202_loss_functions.py),
      [302 custom environment]({_more}/302_custom_environment.py),
      [402 RL hyperparameters]({_more}/402_rl_hyperparams.py),
      [405 multi-agent]({_more}/405_multi_agent.py).
    """)
    return


if __name__ == "__main__":
    app.run()
