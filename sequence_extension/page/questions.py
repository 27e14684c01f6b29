"""Section 11: the questions; every answer is computed."""

import html
import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sequence_extension.cookbook import (
    PARSE_ERROR_MASKED_METRIC_KEY,
    EnvFromMessageEnv,
    Trajectory,
    do_single_rollout,
    train_step,
    trajectory_to_data,
)
from sequence_extension.datums import build_datums, datum_tensor, nonzero_datum_targets
from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.rewards import reward_rollouts
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.group import assemble_group
from sequence_extension.page.once import once
from sequence_extension.rollout import Rollout, rollout_trajectory
from sequence_extension.text import number_text, signed_text
from sequence_extension.turns import walk_turns
from sequence_extension.wording import cause_wording


@dataclass(frozen=True)
class Question:
    """One question of section 11; its answer was computed when it was made.

    Attributes:
        key: Short name, unique among the questions.
        ask: The question, markdown.
        options: Distinct answers in a fixed order.
        answer: Index of the right one.
        why: One or two sentences on why, markdown.
    """

    key: str
    ask: str
    options: tuple[str, ...]
    answer: int
    why: str

    @property
    def right(self) -> str:
        """The right option."""
        return self.options[self.answer]


def pose_question(key: str, ask: str, right: Any, wrong: Sequence[Any], why: str) -> Question:
    """A question from a computed answer and plausible wrong ones.

    Wrong answers that happen to equal the right one, or each other, are left out. Numbers are
    ordered by size, everything else by text, so that the place gives nothing away.

    Raises:
        ValueError: Fewer than two wrong answers are left.
    """
    others = [option for option in dict.fromkeys(wrong) if option != right]
    if len(others) < 2:
        raise ValueError(f"Question {key} needs at least two wrong answers, not {others}.")

    def size(option: Any) -> float:
        return float(str(option).replace("\u2212", "-"))

    try:
        ordered = sorted((right, *others), key=size)
    except ValueError:
        ordered = sorted((right, *others), key=str)
    options = tuple(str(option) for option in ordered)
    return Question(key, ask, options, ordered.index(right), why)


def question_turns_block(trajectory: Trajectory, vocab: Mapping[int, str] | None = None) -> str:
    """A trajectory of token ids as a block: what each turn saw and what it said."""
    words = vocab or {}

    def line(tokens: Sequence[int]) -> str:
        texts = [
            # no line ends within a token
            f"{token} {json.dumps(words[token], ensure_ascii=False)}".replace(" ", "\u00a0")
            if token in words
            else str(token)
            for token in tokens
        ]
        return ("  " if words else " ").join(texts) or "(nothing)"

    lines: list[str] = []
    for turn, transition in enumerate(trajectory.transitions):
        masked = PARSE_ERROR_MASKED_METRIC_KEY in transition.metrics
        lines.append(f"turn {turn}  saw   {line(transition.ob.to_ints())}")
        lines.append(f"        said  {line(transition.ac.tokens)}{'   (masked)' if masked else ''}")
    spans = "\n".join(f"<span>{html.escape(line)}</span>" for line in lines)
    return f'<pre class="quiz-turns">{spans}</pre>'


def question_mask_text(values: Iterable[float]) -> str:
    """A mask as a list of 0 and 1, in backticks."""
    return "`[" + " ".join(f"{value:.0f}" for value in values) + "]`"


def question_prefix_checker() -> tuple[str, list[str]]:
    """Which of four candidates compares observation and running sequence, by its source.

    Returns:
        The one whose source calls the cookbook's prefix check, and the others.

    Raises:
        ValueError: Not exactly one of them does.
    """
    sources = {
        "`trajectory_to_data`, after the rollout": trajectory_to_data,
        "`EnvFromMessageEnv`, at every step": EnvFromMessageEnv,
        "`do_single_rollout`, between the turns": do_single_rollout,
        "`train_step`, just before `forward_backward`": inspect.unwrap(train_step),
    }
    named = {name: "_is_prefix(" in inspect.getsource(part) for name, part in sources.items()}
    found = [name for name, calls in named.items() if calls]
    if len(found) != 1:
        raise ValueError(f"The prefix check is called in {found or 'none of the candidates'}.")
    return found[0], [name for name in named if name != found[0]]


def datums_question() -> Question:
    """Agents that take turns in one rollout."""
    switching = diagnose(scenario_rollout(scenarios()["new_context"]))
    turns = len(switching.spans)
    return pose_question(
        "datums",
        f"Two agents share one rollout and take turns: A, B, A, B. Each of A's prompts "
        f"extends A's own last turn, each of B's extends B's. How many datums do these "
        f"{turns} turns become?",
        len(switching.built.data),
        [switching.lineages, 1, 3],
        f"`trajectory_to_data` keeps one running sequence, and each of the "
        f"{len(switching.breaks)} switches leaves it. With a sequence kept per agent "
        f"{switching.lineages} would do.",
    )


def position_question() -> Question:
    """Where a turn leaves the running sequence."""
    drifted = rollout_trajectory(
        [([10, 11, 12], [20, 21, 22]), ([10, 11, 12, 20, 29, 22, 30], [40, 41])]
    )
    span = walk_turns(drifted)[1]
    return pose_question(
        "position",
        "At which position, counted from 0, does turn 1 leave the running sequence?\n\n"
        + question_turns_block(drifted),
        span.position,
        [span.position + 1, 3, span.held, 1],
        f"The running sequence is the observation *and* the action of turn 0, "
        f"{span.held} tokens. The first {span.position} agree; at position {span.position} "
        f"turn 1 has 29 where 21 was sampled.",
    )


def mask_question() -> Question:
    """The shift by one."""
    short = rollout_trajectory([([10, 11, 12], [20, 21]), ([10, 11, 12, 20, 21, 13], [22])])
    mask = datum_tensor(build_datums(short).data[0], "mask")
    length = len(mask) + 1
    unshifted = [0.0] * 3 + [1.0] * 2 + [0.0] + [1.0]
    return pose_question(
        "mask",
        "Which `mask` does the datum carry?\n\n" + question_turns_block(short),
        question_mask_text(mask),
        [
            question_mask_text(unshifted),
            question_mask_text(unshifted[:-1]),
            question_mask_text(1 - value for value in mask),
        ],
        f"{length} tokens give {len(mask)} inputs and {len(mask)} targets, and the mask "
        f"belongs to the targets: token 0 is never a target, so everything moves one to "
        f"the left.",
    )


def advantage_question() -> Question:
    """One number per rollout."""
    members = reward_rollouts()
    rewards: dict[str, tuple[float, ...]] = {
        "A": (0, 0, 1),
        "B": (0.5, 0.5),
        "C": (0, 0),
        "E": (-1,),
    }
    group = assemble_group(members, rewards)
    present = [
        total for letter, total in zip(group.letters, group.rewards, strict=True) if letter != "E"
    ]
    deviation = float(np.std(group.rewards))
    return pose_question(
        "advantage",
        "Four rollouts of one group. A got the rewards 0, 0, 1 over its three turns; B got "
        "0.5 and 0.5; C got 0 and 0; E was over budget before it began, has no datum, and got "
        "\u22121. Which advantage stands on the action tokens of A's *first* turn?",
        signed_text(group.advantages[0]),
        [
            signed_text(0.0 - group.mean),
            signed_text(group.rewards[0]),
            signed_text(group.rewards[0] - sum(present) / len(present)),
            signed_text(group.advantages[0] / deviation),
        ],
        f"The rewards of all turns are summed: {number_text(group.rewards[0])}. The mean over "
        f"all {len(group.rewards)} rollouts, E included, is {number_text(group.mean)}. The "
        "difference stands on every action token of A; nothing divides by the standard "
        "deviation.",
    )


def gradient_question() -> Question:
    """`mask` against `advantages`."""
    members = reward_rollouts()
    flat = assemble_group(members, {"A": (0, 0, 1), "B": (1, 0), "C": (0, 1), "D": (0, 1, 0)})
    ones = nonzero_datum_targets(flat.data, "mask")
    targets = sum(datum.model_input.length for datum in flat.data)
    return pose_question(
        "gradient",
        f"All rollouts of a group, {', '.join(flat.letters)} of section 6, earned "
        f"{flat.rewards[0]:g}. Together they have {targets} targets. On how many of them is "
        f"the policy gradient not 0?",
        nonzero_datum_targets(flat.data, "advantages"),
        [ones, targets, targets - ones],
        f"`mask` is 1 on {ones} targets, but `train_step` takes it out before "
        f"`forward_backward`. The loss sees `advantages`, and every one of them is "
        f"{flat.advantages[0]:g}.",
    )


def cause_question() -> Question:
    """The name of a break."""
    spelled = rollout_trajectory([([50, 51], [61, 62, 9]), ([50, 51, 63, 9, 52], [64, 9])])
    vocab = {
        9: "<end>", 50: "7+9", 51: "?", 52: "8+8?", 61: "six", 62: "teen", 63: "sixteen", 64: "16",
    }  # fmt: skip
    cause = diagnose(Rollout("spelled", spelled, vocab)).breaks[0]
    return pose_question(
        "cause",
        "Why did turn 1 split?\n\n" + question_turns_block(spelled, vocab),
        cause_wording(cause.cause),
        [cause_wording(name) for name in ("removed", "end_token", "replaced", "retokenised")],
        f"The text is the same, the tokens are not: "
        f"{cause.expected} {json.dumps(vocab[cause.expected])} was sampled at position "
        f"{cause.position}, {cause.got} {json.dumps(vocab[cause.got])} came back. Return "
        f"the sampled tokens instead of tokenizing their text again.",
    )


def price_question() -> Question:
    """What splitting costs."""
    members = reward_rollouts()
    stripped = diagnose(members["D"])
    sizes = [datum.model_input.length for datum in stripped.built.data]
    actions = sum(span.action for span in stripped.spans)
    return pose_question(
        "price",
        "Reasoning is stripped from history, so each of these turns is a datum of its own. "
        "How many tokens go through the model as inputs?\n\n"
        + question_turns_block(members["D"].trajectory),
        stripped.tokens_processed,
        [max(sizes), actions, (stripped.tokens_processed or 0) + len(sizes)],
        f"The datums hold {', '.join(map(str, sizes[:-1]))} and {sizes[-1]} inputs, one "
        f"fewer than their tokens. The prompt that they share is read "
        f"{len(sizes)} times; only {actions} tokens are trained.",
    )


def empty_question() -> Question:
    """An observation without tokens."""
    opened = diagnose(scenario_rollout(scenarios()["empty"]))
    said = sum(span.action for span in opened.spans)
    trained = nonzero_datum_targets(opened.built.data, "mask")
    return pose_question(
        "empty",
        "An answer did not parse, the rollout went on, and the next observation was empty. "
        "No turn is masked. How many action tokens are trained?\n\n"
        + question_turns_block(opened.rollout.trajectory),
        trained,
        [said, opened.spans[-1].action, said - opened.spans[-1].action + 1],
        f"{said} tokens were sampled, {trained} have a target. The second datum opens with "
        f"an action: its first token is input 0, which nothing predicts.",
    )


def checker_question() -> Question:
    """Who compares."""
    checker, others = question_prefix_checker()
    return pose_question(
        "checker",
        "Who compares an observation with the sequence so far and decides to merge?",
        checker,
        others,
        "`EnvFromMessageEnv` only renders the conversation anew each turn; "
        "`rl/data_processing.py` compares later, when datums are built.",
    )


@once
def all_questions() -> tuple[Question, ...]:
    """The questions of section 11; every right answer comes from a call made here."""
    makers = (
        datums_question,
        position_question,
        mask_question,
        advantage_question,
        gradient_question,
        cause_question,
        price_question,
        empty_question,
        checker_question,
    )
    return tuple(make() for make in makers)
