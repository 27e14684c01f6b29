"""One verdict per turn, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sequence_extension.breaks import Break
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.elements import element_label
from sequence_extension.remedies import remedy
from sequence_extension.text import count_text
from sequence_extension.turns import TurnSpan
from sequence_extension.warnings import RolloutWarning
from sequence_extension.wording import (
    cause_sentence_wording,
    cause_wording,
    headline_wording,
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
        item: The break of a turn that splits.
        warnings: The turn's warnings.
    """

    turn: int
    datum: int
    kind: Literal["starts", "extends", "splits", "look"]
    label: str
    headline: str
    sentences: tuple[str, ...]
    item: Break | None = None
    warnings: tuple[RolloutWarning, ...] = ()


def verdict_break_sentences(
    item: Break,
    vocab: Mapping[int, str],
    earlier: Mapping[str, int] | None = None,
    images: bool = False,
    renderer: str | None = None,
) -> tuple[str, ...]:
    """Where, what was lost, why, and what to do: the sentences of a turn that splits.

    Args:
        item: The break.
        vocab: Text of token ids where known.
        earlier: What need not be said again: cause and remedy of earlier turns, and whose.
        images: The observation holds some, so positions are not those of its tokens.
        renderer: Name of the renderer, if known.
    """
    one = " (an image counts as one)" if images else ""
    why, helps = cause_sentence_wording(item), remedy(item, renderer)
    if earlier and helps in earlier:
        why = f"As for turn {earlier[why]}." if why in earlier else why
        helps = f"as for turn {earlier[helps]}."
    got = "the observation ends" if item.got is None else f"got {element_label(item.got, vocab)}"
    sentences = [
        f"At position {item.position} of {item.held}{one}: expected "
        f"{element_label(item.expected, vocab)} (turn {item.origin.turn}'s {item.origin.part}, "
        f"index {item.origin.index}), {got}.",
        f"Cause: {cause_wording(item.cause)}. {why}",
        f"Remedy: {helps}",
        *item.hints,
    ]
    if item.resumes_datum is not None:
        sentences.append(
            f"This observation does go on from datum {item.resumes_datum}, closed earlier; "
            "trajectory_to_data only compares with the latest sequence."
        )
    return tuple(sentences)


def verdict_merged_sentence(span: TurnSpan, refused: bool) -> str:
    """What a turn that does not split adds."""
    action = count_text(span.action, "action token")
    if span.extends:
        return (
            f"The observation starts with all {count_text(span.held, 'token')} held and adds "
            f"{span.observation - span.held}; {action} "
            f"{'follows' if span.action == 1 else 'follow'}."
        )
    return (
        f"Nothing was held before; {count_text(span.tokens, 'observation token')} and {action} "
        f"{'would open' if refused else 'open'} datum {span.datum}."
    )


def verdicts(
    diagnosis: Diagnosis,
    renderer: str | None = None,
    warnings: Sequence[RolloutWarning] | None = None,
) -> list[Verdict]:
    """One verdict per turn, in order; also for a rollout that `trajectory_to_data` refuses.

    Cause and remedy are said once; later turns name the turn that has them.

    Args:
        diagnosis: The rollout.
        renderer: Name of the renderer that wrote its observations, if known.
        warnings: Those that are to be said; all by default.
    """
    warnings = diagnosis.warnings if warnings is None else warnings
    broken = {item.turn: item for item in diagnosis.breaks}
    refused = diagnosis.built.error_code is not None
    listed: list[Verdict] = []
    earlier: dict[str, int] = {}
    for span in diagnosis.spans:
        item = broken.get(span.turn)
        mine = tuple(warning for warning in warnings if warning.turn == span.turn)
        noted = tuple(" ".join([warning.message, warning.help, *warning.hints]) for warning in mine)
        opens = "would open" if refused else "opens"
        verb = opens if span.outcome == "starts" else span.outcome
        label = f"{verb}, but look" if mine and item is None else verb
        headline = f"Turn {span.turn} {label}"
        sentences: tuple[str, ...] = (verdict_merged_sentence(span, refused),)
        if item is not None:
            images = span.tokens > span.observation
            headline = headline_wording(item)
            sentences = verdict_break_sentences(
                item, diagnosis.rollout.vocab, earlier, images, renderer
            )
            for sentence in (cause_sentence_wording(item), remedy(item, renderer)):
                earlier.setdefault(sentence, span.turn)
        kind: Literal["starts", "extends", "splits", "look"] = span.outcome
        if mine and item is None:
            kind = "look"
        listed.append(
            Verdict(span.turn, span.datum, kind, label, headline, sentences + noted, item, mine)
        )
    return listed
