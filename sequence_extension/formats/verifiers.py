"""Rollouts of verifiers: legacy results, and traces of version 1 as prime-rl writes them."""

from collections.abc import Collection
from itertools import chain
from typing import Any

from sequence_extension.formats.build import (
    MAX_ROLLOUT_TOKENS,
    RolloutSource,
    TurnSource,
    build_each,
    build_skipped_note,
    build_step_turn,
)
from sequence_extension.formats.results import NoTokens, RecordError
from sequence_extension.formats.values import loose_label_value, loose_reward_value
from sequence_extension.text import value_text

LEGACY_FIELDS = (
    ("tokens", "prompt_ids"),
    ("tokens", "completion_ids"),
    ("tokens", "completion_logprobs"),
)
# Of one trace: each turn walks up to its root.
MAX_NODES = 20_000
NODE_FIELDS = (("token_ids",), ("token_ids",), ("logprobs",))


def read_verifiers(value: Any, index: int) -> list[RolloutSource] | None:
    """One result or episode of verifiers, or None for anything else.

    Raises:
        RecordError: A trace without token ids.
    """
    if not isinstance(value, dict):
        return None
    steps = value.get("trajectory")
    if isinstance(steps, list) and any(is_verifiers_step(step) for step in steps):
        return [read_verifiers_result(value, steps)]
    if isinstance(value.get("nodes"), list) and is_verifiers_trace(value):
        return [read_verifiers_trace(value)]
    traces = value.get("traces")
    if not isinstance(traces, list) or not any(is_verifiers_trace(trace) for trace in traces):
        return None
    group = value.get("group")
    group = group.get("id") if isinstance(group, dict) else group
    sources = build_each(read_verifiers_trace, traces, "trace")
    for source in sources:
        source.group = loose_label_value(group)
    return sources


def is_verifiers_step(value: Any) -> bool:
    """True for a step of a legacy result, with or without token ids."""
    return isinstance(value, dict) and "tokens" in value and not isinstance(value["tokens"], list)


def is_verifiers_trace(value: Any) -> bool:
    """True for a trace: a graph of messages."""
    if not isinstance(value, dict) or not isinstance(value.get("nodes"), list):
        return False
    return all(isinstance(node, dict) and "message" in node for node in value["nodes"])


def read_verifiers_result(value: dict[str, Any], steps: list[Any]) -> RolloutSource:
    """A legacy result: `trajectory[].tokens`; a step without tokens makes no turn."""
    turns = []
    skipped = 0
    for step in steps:
        turn = build_step_turn(step, LEGACY_FIELDS)
        if turn is None:
            skipped += 1
            continue
        turn.reward = loose_reward_value(step.get("reward"))
        turns.append(turn)
    if skipped and not turns:
        raise NoTokens(
            "no action tokens: the steps of this verifiers result hold no `tokens`; sample with "
            "a client that returns token ids",
            ("transitions", 0),
        )
    return RolloutSource(
        turns,
        name=value.get("name") if isinstance(value.get("name"), str) else None,
        group=loose_label_value(
            value["group"] if value.get("group") is not None else value.get("example_id")
        ),
        vocab=value.get("vocab"),
        reward=loose_reward_value(value.get("reward")),
        notes=build_skipped_note(skipped, "step"),
    )


def read_verifiers_trace(trace: Any) -> RolloutSource:
    """A trace: a turn per sampled node, in the order of the calls.

    The observation of a node is the token ids of its ancestors and its own unmasked ones; its
    action is the masked ones.

    Raises:
        NoTokens: Answers were sampled, but no token ids recorded.
        RecordError: No trace, a parent that is none, or too much.
    """
    if not is_verifiers_trace(trace):
        raise RecordError(f"expected a trace, got {value_text(trace)}")
    nodes = trace["nodes"]
    if len(nodes) > MAX_NODES:
        raise RecordError(f"longer than {MAX_NODES:,} entries", ("nodes",))
    spans: dict[int, tuple[int, int]] = {}
    skipped = 0
    for number, node in enumerate(nodes):
        check_verifiers_node(node, number)
        if not node.get("sampled"):
            continue
        start, end = verifiers_sampled_span(
            node.get("token_ids") or [], node.get("mask") or [], number
        )
        if start == end:
            skipped += 1
        else:
            spans[number] = (start, end)
    if skipped and not spans:
        raise NoTokens(
            "no sampled node of this verifiers trace holds token ids; they are recorded when the "
            "rollout is sampled through a training client"
        )
    agent = trace.get("agent")
    name = agent.get("name") if isinstance(agent, dict) else None
    return RolloutSource(
        verifiers_trace_turns(nodes, spans, verifiers_call_order(trace, spans)),
        name=loose_label_value(trace.get("id"), name if name != "agent" else None),
        reward=verifiers_trace_reward(trace),
        notes=build_skipped_note(skipped, "sampled node") if spans else ["No answer was sampled."],
    )


def check_verifiers_node(node: dict[str, Any], number: int) -> None:
    """Make sure that the links and lists of a node can be followed.

    Raises:
        RecordError: They cannot.
    """
    parent = node.get("parent")
    if parent is not None and (type(parent) is not int or not 0 <= parent < number):
        raise RecordError(
            f"expected an earlier node, got {value_text(parent)}", ("nodes", number, "parent")
        )
    for key in ("token_ids", "mask"):
        if node.get(key) is not None and not isinstance(node[key], list):
            raise RecordError(
                f"expected a list, got {value_text(node[key])}", ("nodes", number, key)
            )


def verifiers_trace_turns(
    nodes: list[dict[str, Any]], spans: dict[int, tuple[int, int]], order: list[int]
) -> list[TurnSource]:
    """The turns of a trace; one that goes on from the turn before says only what it adds.

    Raises:
        RecordError: They hold more tokens than are read.
    """
    turns: list[TurnSource] = []
    before: int | None = None
    tokens = 0
    for number in order:
        start, end = spans[number]
        node = nodes[number]
        ids = node["token_ids"]
        parts = [ids[:start]]
        place = node.get("parent")
        while place is not None and place != before:
            parts.append(nodes[place].get("token_ids") or [])
            place = nodes[place].get("parent")
        if place is not None:
            parts.append(nodes[place]["token_ids"][spans[place][1] :])
        tokens += sum(map(len, parts)) + end - start
        if tokens > MAX_ROLLOUT_TOKENS:
            raise RecordError(f"more than {MAX_ROLLOUT_TOKENS:,} tokens; split the rollout")
        logprobs = node.get("logprobs") or None
        if isinstance(logprobs, list) and len(logprobs) == len(ids):  # one for every token
            logprobs = logprobs[start:end]
        added = list(chain.from_iterable(reversed(parts)))
        turns.append(
            TurnSource(
                ob=added if place is None else None,
                append=None if place is None else added,
                ac=ids[start:end],
                logprobs=logprobs,
                fields=NODE_FIELDS,
            )
        )
        before = number
    return turns


def verifiers_sampled_span(ids: list[Any], mask: list[Any], number: int) -> tuple[int, int]:
    """Where the sampled tokens of a node start and end; all of them without a mask.

    Raises:
        RecordError: The mask does not fit the tokens, or has a gap.
    """
    if not mask:
        return 0, len(ids)
    if len(mask) != len(ids):
        raise RecordError(
            f"{len(mask):,} entries for {len(ids):,} tokens", ("nodes", number, "mask")
        )
    sampled = [index for index, flag in enumerate(mask) if flag]
    if not sampled:
        return 0, 0
    if sampled[-1] - sampled[0] + 1 != len(sampled):
        raise RecordError("sampled tokens with others among them", ("nodes", number, "mask"))
    return sampled[0], sampled[-1] + 1


def verifiers_call_order(trace: dict[str, Any], turns: Collection[int]) -> list[int]:
    """Nodes in the order in which they were sampled: that of the calls, then that of the nodes."""
    calls = trace.get("calls")
    listed = calls if isinstance(calls, list) else []
    made = [call.get("node") for call in listed if isinstance(call, dict)]
    order = list(dict.fromkeys(node for node in made if type(node) is int and node in turns))
    return [*order, *(node for node in turns if node not in set(order))]


def verifiers_trace_reward(trace: dict[str, Any]) -> float | None:
    """The sum of a trace's weighted rewards; None where nothing was scored."""
    rewards = trace.get("rewards")
    if not isinstance(rewards, dict):
        return loose_reward_value(trace.get("reward"))
    scored = [reward for reward in rewards.values() if isinstance(reward, dict)]
    values = [
        (loose_reward_value(reward.get("score")), loose_reward_value(reward.get("weight", 1.0)))
        for reward in scored
    ]
    known = [
        score * (1.0 if weight is None else weight) for score, weight in values if score is not None
    ]
    return sum(known) if known else None
