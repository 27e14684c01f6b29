"""What a format read of a rollout, built into the cookbook's objects."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sequence_extension.cookbook import TokensWithLogprobs, Trajectory, Transition, tinker
from sequence_extension.edits import unedited_prefix_length
from sequence_extension.elements import elements_input_length, elements_to_model_input
from sequence_extension.formats.results import NoTokens, RecordError
from sequence_extension.formats.values import (
    read_element_values,
    read_logprob_values,
    read_metric_values,
    read_name_value,
    read_reward_value,
    read_token_values,
    read_vocabulary_values,
)
from sequence_extension.rollout import Rollout
from sequence_extension.text import count_text

# Of one trajectory; tokens count the history again in every turn, as the work does.
MAX_ROLLOUT_TURNS = 2_000
MAX_ROLLOUT_TOKENS = 20_000_000
# Notes on calls with several samples, of one rollout.
MAX_SAMPLE_NOTES = 4

# A value in an object inside a step: the key of the object, and the key in it.
Inner = tuple[str, str]


@dataclass(slots=True)
class TurnSource:
    """One turn as the file has it, not yet validated.

    Attributes:
        ob, ac, logprobs: Observation, action and its logprobs; `ob` may be packed, see
            `pack_token_values`.
        append: Instead of `ob`: what stands after the previous observation and action.
        reward, episode_done, metrics: As in the cookbook's `Transition`; None where not noted. An
            `episode_done` that is neither true nor false counts as not noted.
        fields: Where `ob`, `ac` and `logprobs` stand in the turn, for sentences.
        others: Action and logprobs of further samples of the same call.
        line: Line of the file, where it has one of its own.
        problem: What kept the turn from being read at all.
    """

    ob: Any = None
    ac: Any = None
    logprobs: Any = None
    append: Any = None
    reward: Any = None
    episode_done: Any = None
    metrics: Any = None
    fields: tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]] = (
        ("ob",),
        ("ac",),
        ("logprobs",),
    )
    others: list[tuple[Any, Any]] = field(default_factory=list)
    line: int | None = None
    problem: RecordError | None = None


@dataclass(slots=True)
class RolloutSource:
    """One rollout as the file has it, not yet validated.

    Attributes:
        turns: In the order of sampling.
        name, group, vocab: As in `Rollout`.
        reward: Of the whole rollout; falls on the last turn where no turn has one.
        notes: Sentences on what was left out.
        joined_lines: Lines of the file that were joined.
        without_id: Neither its calls nor lists told rollouts apart: consecutive ones were joined.
        problem: What kept the rollout from being read at all.
    """

    turns: list[TurnSource]
    name: Any = None
    group: Any = None
    vocab: Any = None
    reward: Any = None
    notes: list[str] = field(default_factory=list)
    joined_lines: int | None = None
    without_id: bool = False
    problem: RecordError | None = None


def build_each(
    read: Callable[[Any], RolloutSource], entries: Sequence[Any], what: str
) -> list[RolloutSource]:
    """The rollouts of one object; those that are wrong do not keep the others from being read.

    Args:
        read: Reads one entry.
        entries: Of the object.
        what: An entry in a word; those without token ids are counted in a note of the first.

    Raises:
        NoTokens: No entry has token ids.
    """
    sources = []
    without: list[NoTokens] = []
    for entry in entries:
        try:
            sources.append(read(entry))
        except NoTokens as error:
            without.append(error)
        except RecordError as error:
            sources.append(RolloutSource([], problem=error))
    if without and not sources:
        raise without[0]
    if without:
        sources[0].notes += build_skipped_note(len(without), what)
    return sources


def build_step_turn(step: Any, fields: tuple[Inner, Inner, Inner]) -> TurnSource | None:
    """The turn of a step that holds ids in an object of its own; None where it holds none.

    Args:
        step: Any value.
        fields: Where prompt, sampled tokens and logprobs stand, all in one object.
    """
    held = step.get(fields[0][0]) if isinstance(step, dict) else None
    if not isinstance(held, dict):
        return None
    prompt, ids, logprobs = (held.get(name) for _, name in fields)
    if ids is None or ids == prompt == []:
        return None
    return TurnSource(ob=prompt, ac=ids, logprobs=logprobs, fields=fields)


def build_skipped_note(count: int, what: str) -> list[str]:
    """A note on steps that made no turn; none where there are none."""
    return [f"{count_text(count, what)} without token ids left out."] if count else []


def build_with_chosen_samples(turns: Sequence[TurnSource]) -> list[str]:
    """Where a call has several samples, make the one that a later prompt continues the turn.

    Where none is continued, the one that shares most with the next prompt; the first, if none is
    next.

    Returns:
        Notes that name the calls and count the samples that were left out.
    """
    notes = []
    left_out = 0
    for index, turn in enumerate(turns):
        if not turn.others:
            continue
        left_out += len(turn.others)
        prompt = [] if turn.ob is None else build_token_list(turn.ob)
        samples = [(turn.ac, turn.logprobs), *turn.others]
        ends = [[*prompt, *build_token_list(tokens)] for tokens, _ in samples]
        later = [build_token_list(other.ob) for other in turns[index + 1 :]]
        continued = [
            (len(end), -number)
            for number, end in enumerate(ends)
            if any(len(end) > len(prompt) and after[: len(end)] == end for after in later)
        ]
        chosen, why = 0, "no later prompt continues any of them"
        if continued:
            chosen, why = -max(continued)[1], "the one that a later prompt continues"
        elif later:
            shared = [unedited_prefix_length(end, later[0]) for end in ends]
            chosen, why = shared.index(max(shared)), f"{why}; it shares most with the next one"
        turn.ac, turn.logprobs = samples[chosen]
        notes.append(
            f"Turn {index:,}: sample {chosen:,} of the {len(samples):,} of its call is the turn "
            f"({why}), {len(samples) - 1:,} left out."
        )
    if len(notes) > MAX_SAMPLE_NOTES:
        more = (
            f"In all, {len(notes):,} calls have several samples; {left_out:,} samples are left out."
        )
        notes[MAX_SAMPLE_NOTES - 1 :] = [more]
    return notes


def build_token_list(value: Any) -> list[Any]:
    """Tokens as a list, packed or not; nothing for what is no list."""
    return list(value) if isinstance(value, list | array) else []


def build_rollout(source: RolloutSource, name: str) -> Rollout:
    """Validate a rollout and make the cookbook's objects of it.

    Observations share chunk objects: one that extends the previous observation + action holds
    the previous chunks and adds its own. A rollout of T turns and n tokens so takes memory of
    order n + T^2 chunk references, also where the file repeats the history in every turn.

    Args:
        source: What a format read.
        name: Used when the file has none.

    Raises:
        RecordError: A value is wrong, a turn has no observation or two, or the turns are too
            many or too long together.
    """
    if source.problem is not None:
        raise source.problem
    if len(source.turns) > MAX_ROLLOUT_TURNS:
        why = "".join(f". {note.rstrip('.')}" for note in source.notes[:1])
        raise RecordError(f"longer than {MAX_ROLLOUT_TURNS:,} entries{why}", ("transitions",))
    label, label_notes = read_name_value(source.name, "name")
    group, group_notes = read_name_value(source.group, "group")
    vocab, vocab_notes = read_vocabulary_values(source.vocab)
    notes = [*source.notes, *label_notes, *group_notes, *vocab_notes, *build_rewards(source)]
    notes += build_with_chosen_samples(source.turns)
    noted = any(turn.reward is not None for turn in source.turns)
    transitions = build_transitions(source.turns, None if noted else source.reward)
    return Rollout(
        name=label or name,
        trajectory=Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty()),
        vocab=vocab,
        group=group,
        joined_lines=source.joined_lines,
        without_id=source.without_id,
        notes=tuple(notes),
    )


def build_rewards(source: RolloutSource) -> list[str]:
    """Make what stands as a reward but is no number 0; no datum depends on it. Gives a note."""
    wrong = 0
    places: list[RolloutSource | TurnSource] = [source, *source.turns]
    for place in places:
        try:
            place.reward = read_reward_value(place.reward, ("reward",))
        except RecordError:
            place.reward = 0.0
            wrong += 1
    return [f"{count_text(wrong, 'reward')} taken as 0: no number."] if wrong else []


def build_transitions(turns: Sequence[TurnSource], final: float | None) -> list[Transition]:
    """The cookbook's transitions, see `build_rollout`; `final` is the reward of the last one.

    Raises:
        RecordError: As `build_rollout`.
    """
    transitions: list[Transition] = []
    held: list[Any] = []
    chunks: list[Any] = []
    total = length = 0
    for index, turn in enumerate(turns):
        path = ("transitions", index)
        if turn.problem is not None:
            raise RecordError(str(turn.problem), (*path, *turn.problem.path))
        fresh, pictures, restarts = build_observation(turn, held, path)
        if restarts:
            held, chunks, length = [], [], 0
        # Tokens are checked already, and chunks that are shared would be checked every turn.
        if pictures:
            added = elements_to_model_input(fresh).chunks
            length += elements_input_length(tinker.ModelInput(chunks=added))
        else:
            added = [tinker.EncodedTextChunk.model_construct(tokens=fresh)] if fresh else []
            length += len(fresh)
        action = build_action(turn, path)
        length += len(action)
        total += length
        if total > MAX_ROLLOUT_TOKENS:
            raise RecordError(
                f"the observations and actions up to here hold more than {MAX_ROLLOUT_TOKENS:,} "
                "tokens; split the rollout",
                path,
            )
        last = index + 1 == len(turns)
        reward = final if last and final is not None else turn.reward
        observation = tinker.ModelInput.model_construct(chunks=[*chunks, *added])
        logprobs = read_logprob_values(turn.logprobs, action, (*path, *turn.fields[2]))
        transitions.append(
            Transition(
                ob=observation,
                ac=TokensWithLogprobs(tokens=action, maybe_logprobs=logprobs),
                reward=0.0 if reward is None else reward,
                episode_done=turn.episode_done if type(turn.episode_done) is bool else last,
                metrics=read_metric_values(turn.metrics),
            )
        )
        held.extend(fresh)
        held.extend(action)
        sampled = [tinker.EncodedTextChunk.model_construct(tokens=action)] if action else []
        chunks = [*observation.chunks, *sampled]
    return transitions


def build_observation(
    turn: TurnSource, held: list[Any], path: tuple[Any, ...]
) -> tuple[list[Any], bool, bool]:
    """What an observation adds to the running sequence.

    Returns:
        The new elements, whether there are images among them, and whether they start anew.

    Raises:
        RecordError: No observation, two, or a wrong element.
    """
    if turn.ob is None and turn.append is None:
        raise RecordError(
            "no observation (`ob`, `append`, `prompt_token_ids` or `tokens.prompt_ids`)", path
        )
    if turn.ob is None:
        if path[-1] == 0:
            raise RecordError("the first turn has nothing to append to; it needs `ob`", path)
        return (*read_element_values(turn.append, (*path, "append")), False)
    if turn.append is not None:
        raise RecordError("both `ob` and `append`, of which a turn has one", path)
    elements, pictures = read_element_values(turn.ob, (*path, *turn.fields[0]))
    if elements[: len(held)] == held:
        return elements[len(held) :], pictures, False
    return elements, pictures, True


def build_action(turn: TurnSource, path: tuple[Any, ...]) -> list[int]:
    """The sampled tokens of a turn.

    Raises:
        RecordError: There are none, or a wrong one.
    """
    if turn.ac is None:
        raise RecordError(
            "no action tokens (`ac`, `token_ids`, `completion_token_ids` or "
            "`tokens.completion_ids`)",
            path,
        )
    return read_token_values(turn.ac, (*path, *turn.fields[1]))
