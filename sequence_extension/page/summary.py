"""The summary: what people say, and what the code says."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sequence_extension.alignment import alignment_table
from sequence_extension.datums import build_datums, datum_tensor, nonzero_datum_targets
from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.rewards import reward_presets, reward_rollouts
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.elements import model_input_to_elements
from sequence_extension.env.episodes import Episode, EpisodeSpec, run_episodes
from sequence_extension.group import assemble_group, preset_group
from sequence_extension.loss import loss_kl_penalised, sent_to_loss
from sequence_extension.page.once import once
from sequence_extension.page.questions import question_prefix_checker
from sequence_extension.rollout import rollout_trajectory
from sequence_extension.text import count_text, number_text, signed_text


@dataclass(frozen=True)
class Misconception:
    """Something people say of sequence extension, and what the code says.

    Attributes:
        key: Short name, unique in the list.
        said: The claim, markdown, as it is heard.
        code: The correction, markdown; its numbers come from calls.
        holds: Whether the installed cookbook contradicts the claim.
    """

    key: str
    said: str
    code: str
    holds: bool


def summary_shift_claim() -> Misconception:
    known = scenarios()
    chat = diagnose(scenario_rollout(known["chat"]))
    entries = len(datum_tensor(chat.built.data[0], "mask"))
    tokens = sum(run.length for run in chat.runs)
    return Misconception(
        "shift",
        "The mask has one entry per token, 0 for each observation and 1 for each action.",
        f"One per *target*. The {tokens} tokens of the example of section 2 give {entries} "
        f"entries; entry p belongs to token p + 1, and token 0 has none.",
        holds=entries == tokens - 1,
    )


def summary_prefix_claim() -> Misconception:
    known = scenarios()
    stripped = diagnose(scenario_rollout(known["removed"]))
    first, second = stripped.rollout.trajectory.transitions[:2]
    kept = model_input_to_elements(first.ob)
    return Misconception(
        "prefix",
        "Turns merge when one observation is a prefix of the next.",
        f"Observation *and action* together must be a prefix. With reasoning stripped, turn 1 "
        f"begins with all {len(kept)} tokens of turn 0's observation, and splits at token "
        f"{stripped.breaks[0].position}, inside the answer.",
        holds=model_input_to_elements(second.ob)[: len(kept)] == kept
        and stripped.breaks[0].turn == 1,
    )


def summary_mask_claim() -> Misconception:
    members = reward_rollouts()
    equal = preset_group(members, "All the same: no policy gradient")
    ones = nonzero_datum_targets(equal.data, "mask")
    gradient = nonzero_datum_targets(equal.data, "advantages")
    sent = sent_to_loss(equal.data)
    return Misconception(
        "mask",
        "`mask` decides what is trained.",
        f"`train_step` removes it before `forward_backward`; the loss sees `advantages`. In the "
        f"group of equal rewards of section 6 `mask` is 1 on {ones} targets, and {gradient} of "
        f"them get a policy gradient.",
        holds=gradient == 0 < ones and all("mask" not in datum.loss_fn_inputs for datum in sent),
    )


def summary_discount_claim() -> Misconception:
    members = reward_rollouts()
    equal = preset_group(members, "All the same: no policy gradient")
    plain = nonzero_datum_targets(loss_kl_penalised(equal.data), "advantages", unmasked=True)
    leaked = nonzero_datum_targets(loss_kl_penalised(equal.data, 0.5), "advantages", unmasked=True)
    return Misconception(
        "discount",
        "A token with mask 0, such as an observation token, never gets a gradient.",
        f"In the same group the KL penalty gives an advantage to {plain} such targets with "
        f"`kl_discount_factor=0`, the default, and to {leaked} with 0.5: it discounts after "
        f"masking.",
        holds=plain == 0 < leaked,
    )


def summary_checker_claim() -> Misconception:
    checker, _ = question_prefix_checker()
    return Misconception(
        "checker",
        "`EnvFromMessageEnv` detects the prefix.",
        "It renders the whole conversation anew at every turn and compares nothing; "
        "`trajectory_to_data` compares, when the rollout is over.",
        holds="trajectory_to_data" in checker,
    )


def summary_twice_claim() -> Misconception:
    members = reward_rollouts()
    split = diagnose(members["D"])
    sampled = sum(span.action for span in split.spans)
    trained = nonzero_datum_targets(split.built.data, "mask")
    longest = max(datum.model_input.length for datum in split.built.data)
    return Misconception(
        "twice",
        "After a split, tokens are trained twice.",
        f"None is: what was sampled earlier comes back as context with mask 0. Rollout D of "
        f"section 6 samples {sampled} tokens and trains {trained}, in {len(split.built.data)} "
        f"datums. What is paid twice is reading: {split.tokens_processed} inputs, where the "
        f"longest datum has {longest}.",
        holds=trained == sampled and (split.tokens_processed or 0) > longest,
    )


def summary_agents_claim() -> Misconception:
    known = scenarios()
    agents = diagnose(scenario_rollout(known["new_context"]))
    return Misconception(
        "agents",
        "Two agents in one rollout give two datums.",
        f"Only one running sequence is kept, so A, B, A, B gives {len(agents.built.data)}; "
        f"{agents.lineages} would do.",
        holds=len(agents.built.data) > agents.lineages,
    )


def summary_credit_claim() -> Misconception:
    members = reward_rollouts()
    shown = preset_group(members, next(iter(reward_presets())))
    given = {
        letter: tuple(step.reward for step in rollout.trajectory.transitions)
        for letter, rollout in zip(shown.letters, shown.rollouts, strict=True)
    }
    late, early = (
        assemble_group(members, given | {"A": rewards}) for rewards in ((0, 0, 1), (1, 0, 0))
    )
    values = {value for value in datum_tensor(late.data[0], "advantages") if value}
    return Misconception(
        "credit",
        "A turn's reward goes to that turn's tokens.",
        f"Rewards are summed over the rollout. In the group that section 6 opens with, 0, 0, 1 and "
        f"1, 0, 0 both put {signed_text(late.advantages[0])} on every action token of A.",
        holds=late.advantages == early.advantages and len(values) == 1,
    )


def summary_deviation_claim() -> Misconception:
    members = reward_rollouts()
    uneven = assemble_group(members, {"A": (0, 0, 4), "B": (0, 0), "G": (0,), "H": (0,)})
    spread = float(np.std(uneven.advantages))
    return Misconception(
        "deviation",
        "Advantages are divided by the group's standard deviation.",
        f"Only the mean is taken off. Rewards of 4, 0, 0 and 0 give "
        f"{', '.join(signed_text(value) for value in uneven.advantages)}, with a standard "
        "deviation "
        f"of {spread:.3g}.",
        holds=abs(spread - 1) > 0.1
        and all(
            math.isclose(advantage, reward - uneven.mean, abs_tol=1e-6)
            for advantage, reward in zip(uneven.advantages, uneven.rewards, strict=True)
        ),
    )


def summary_overflow_claim() -> Misconception:
    members = reward_rollouts()
    late = assemble_group(members, {"A": (0, 0, 1), "B": (0, 0)})
    joined = assemble_group(members, {"A": (0, 0, 1), "B": (0, 0), "E": (-1,)})
    return Misconception(
        "overflow",
        "A rollout whose first prompt is over budget drops out.",
        f"It has no datum, but its reward counts: {number_text(-1)} moves the mean of 1 and 0 from "
        f"{number_text(late.mean, 3)} to {number_text(joined.mean, 3)}.",
        holds=len(joined.data) == len(late.data) and joined.mean != late.mean,
    )


def summary_empty_claim() -> Misconception:
    known = scenarios()
    empty = diagnose(scenario_rollout(known["empty"]))
    said = sum(span.action for span in empty.spans)
    left = nonzero_datum_targets(empty.built.data, "mask")
    return Misconception(
        "empty",
        "An empty observation does no harm.",
        f"The next action then opens a datum, and its first token is the target of nothing: "
        f"{said} tokens sampled, {left} trained.",
        holds=left < said,
    )


def summary_logprobs_claim() -> Misconception:
    known = scenarios()
    chat = diagnose(scenario_rollout(known["chat"]))
    shifted = replace(
        chat.rollout.trajectory,
        transitions=[
            replace(
                transition,
                ac=replace(
                    transition.ac,
                    maybe_logprobs=[-0.25] * (len(transition.ac.tokens) + (-1, 1, 0)[turn]),
                ),
            )
            for turn, transition in enumerate(chat.rollout.trajectory.transitions)
        ],
    )
    passed = build_datums(shifted)
    strange = rollout_trajectory([([1, 2], [3, 4])])
    strange.transitions[0].ac.maybe_logprobs = [math.nan, -0.1]
    table = alignment_table(passed, chat.runs)
    moved = int(((table["part"].shift(-1) == "O") & (table["logprob"] != 0)).sum())
    return Misconception(
        "logprobs",
        "A wrong number of logprobs raises an error.",
        f"Only if the totals of one datum differ. One too few in turn 0 and one too many in turn 1 "
        f"pass, and {count_text(moved, 'logprob')} of an action "
        f"{'lands' if moved == 1 else 'land'} on observation tokens. NaN passes too.",
        holds=passed.error_code is None and moved > 0 and build_datums(strange).error_code is None,
    )


def summary_renderer_claim() -> Misconception:
    claims = run_episodes([EpisodeSpec("role_colon", "no_space"), EpisodeSpec("qwen3", "plain")])
    played = [episode for episode in claims if isinstance(episode, Episode)]
    if len(played) < len(claims):
        return Misconception("claim", "", "", holds=False)
    claimed, silent = played
    broken = len(build_datums(claimed.rollout.trajectory).data)
    merged = len(build_datums(silent.rollout.trajectory).data)
    return Misconception(
        "claim",
        "`has_extension_property` says whether a rollout merges.",
        f"It is a claim about the renderer, not about what was sampled. `role_colon` says "
        f"{claimed.renderer.has_extension_property}, yet {claimed.spec.turns} answers without "
        f"their leading space give {broken} datums; `qwen3` says "
        f"{silent.renderer.has_extension_property}, yet {silent.spec.turns} answers without "
        f"reasoning give {merged}.",
        holds=bool(claimed.renderer.has_extension_property)
        and broken > 1
        and not silent.renderer.has_extension_property
        and merged == 1,
    )


@once
def summary_misconceptions() -> tuple[Misconception, ...]:
    """Claims about sequence extension that do not hold, each with a fact computed here.

    A claim that the installed cookbook no longer contradicts is left out, so that the list
    stays true; the tests expect all of them.
    """
    makers = (
        summary_shift_claim,
        summary_prefix_claim,
        summary_mask_claim,
        summary_discount_claim,
        summary_checker_claim,
        summary_twice_claim,
        summary_agents_claim,
        summary_credit_claim,
        summary_deviation_claim,
        summary_overflow_claim,
        summary_empty_claim,
        summary_logprobs_claim,
        summary_renderer_claim,
    )
    return tuple(claim for claim in (make() for make in makers) if claim.holds)


def summary_table(told: Sequence[Misconception]) -> str:
    """The list as a markdown table of two columns."""
    rows = [f"| {one.said} | {one.code} |" for one in told]
    return "\n".join(["| People say | The code says |", "| :--- | :--- |", *rows])
