"""One verdict per turn, in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sequence_extension.breaks import Break
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.rollout import token_label
from sequence_extension.text import count_of
from sequence_extension.warnings import RolloutWarning
from sequence_extension.wording import (
    break_headline,
    cause_name,
    cause_sentence,
    remedy,
    warning_remedy,
)


@dataclass(frozen=True)
class Verdict:
    """What became of one turn, in words.

    Attributes:
        turn, datum: The turn, and the datum it ends up in.
        kind: "starts" (nothing was held), "extends", "splits", or "look": it extends or
            starts, but a warning fired.
        label: The verdict as it is read, such as "extends, but look".
        headline: The finding in a few words.
        sentences: The details, plain text, in reading order.
        found: The break of a turn that splits.
        warnings: The turn's warnings.
    """

    turn: int
    datum: int
    kind: Literal["starts", "extends", "splits", "look"]
    label: str
    headline: str
    sentences: tuple[str, ...]
    found: Break | None = None
    warnings: tuple[RolloutWarning, ...] = ()


def break_sentences(
    found: Break,
    vocab: Mapping[int, str],
    told: Mapping[str, int] | None = None,
    images: bool = False,
) -> tuple[str, ...]:
    """Where, what was lost, why, and what to do: the sentences of a turn that splits.

    Args:
        found: The break.
        vocab: Text of token ids where known.
        told: What need not be said again: cause and remedy of earlier turns, and whose they were.
        images: The observation holds some, so positions are not those of its tokens.
    """
    one = " (an image counts as one)" if images else ""
    why, helps = cause_sentence(found), remedy(found.cause)
    if told and helps in told:
        why = f"As for turn {told[why]}." if why in told else why
        helps = f"as for turn {told[helps]}."
    got = "the observation ends" if found.got is None else f"got {token_label(found.got, vocab)}"
    sentences = [
        f"At position {found.position} of {found.held}{one}: expected "
        f"{token_label(found.expected, vocab)} (turn {found.origin.turn}'s {found.origin.part}, "
        f"index {found.origin.index}), {got}.",
        f"Cause: {cause_name(found.cause)}. {why}",
        f"Remedy: {helps}",
    ]
    if found.resumes_datum is not None:
        sentences.append(
            f"This observation does go on from datum {found.resumes_datum}, closed earlier; "
            "trajectory_to_data only compares with the latest sequence."
        )
    return tuple(sentences)


def verdicts(diagnosis: Diagnosis) -> list[Verdict]:
    """One verdict per turn, in order; also for a rollout that `trajectory_to_data` refuses.

    Cause and remedy are said once; later turns name the turn that has them.
    """
    broken = {found.turn: found for found in diagnosis.breaks}
    opens = "open" if diagnosis.built.error_code is None else "would open"
    listed: list[Verdict] = []
    told: dict[str, int] = {}
    for span in diagnosis.spans:
        found = broken.get(span.turn)
        warnings = tuple(item for item in diagnosis.warnings if item.turn == span.turn)
        noted = tuple(f"{item.message} {warning_remedy(item.code)}" for item in warnings)
        if found is not None:
            images = span.tokens > span.observation
            sentences = break_sentences(found, diagnosis.rollout.vocab, told, images) + noted
            for said in (cause_sentence(found), remedy(found.cause)):
                told.setdefault(said, span.turn)
            headline = break_headline(found)
            listed.append(
                Verdict(
                    span.turn, span.datum, "splits", "splits", headline, sentences, found, warnings
                )
            )
            continue
        verb = "extends" if span.held else "starts"
        label = f"{verb}, but look" if warnings else verb
        kind: Literal["starts", "extends", "look"] = "look"
        if not warnings:
            kind = "extends" if span.held else "starts"
        added = span.observation - span.held
        sentence = (
            f"The observation starts with all {count_of(span.held, 'token')} held and adds "
            f"{added}; {count_of(span.action, 'action token')} "
            f"{'follows' if span.action == 1 else 'follow'}."
            if span.held
            else f"Nothing was held before; {count_of(span.tokens, 'observation token')} and "
            f"{count_of(span.action, 'action token')} {opens} datum {span.datum}."
        )
        headline = f"Turn {span.turn} {label}"
        listed.append(
            Verdict(
                span.turn, span.datum, kind, label, headline, (sentence, *noted), None, warnings
            )
        )
    return listed
