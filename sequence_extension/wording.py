"""Causes and warnings in words: headline, sentence, what helps."""

from collections.abc import Mapping

from sequence_extension.breaks import Break
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.rollout import token_words
from sequence_extension.text import count_of
from sequence_extension.turns import TurnSpan


def turn_verdict(diagnosis: Diagnosis, turn: int) -> str:
    """A few words for one turn: opens, extends, or behind a ✕ why it splits."""
    found = next((item for item in diagnosis.breaks if item.turn == turn), None)
    if found is not None:
        return f"✕ {cause_name(found.cause)}"
    return "extends" if turn else "opens datum 0"


def cause_name(cause: str) -> str:
    """A cause as it is read: `end_token` is "end token"."""
    return cause.replace("_", " ")


def cause_sentence(found: Break) -> str:
    """One plain sentence for the cause of a break, with its numbers; names the bound if any."""
    gone, came = count_of(found.removed, "token"), count_of(found.inserted, "token")
    turn, part = found.origin.turn, found.origin.part
    missing = count_of(found.held - found.position, "token")
    sentences = {
        "shortened": f"The observation ends {missing} before the sequence held does: it was "
        "rolled back, tried again, or left empty.",
        "image_changed": "An image stands here, and the other side has another image or "
        "something else: to the prefix check the same picture encoded anew is another image.",
        "end_token": f"Only the last token held, the end of turn {turn}'s {part}, is written "
        "differently.",
        "retokenised": "The text reads the same, but it is cut into other tokens.",
        "removed": f"{gone} {'is' if found.removed == 1 else 'are'} gone and nothing was put in "
        f"{'its' if found.removed == 1 else 'their'} place: stripped reasoning, a window that "
        "slid, a call that did not parse, or trimmed white space.",
        "inserted": f"{came} {'was' if found.inserted == 1 else 'were'} put in and nothing was "
        "taken away: a default system prompt, a tool list or a clock line.",
        "new_context": f"Of {count_of(found.held, 'token')} held only "
        f"{found.position + found.kept} came back, fewer than half: this is another context.",
        "reordered": f"The same tokens stand in another order ({gone} moved), as "
        "when tool arguments or header fields are written back.",
        "replaced": f"{gave_way(found, gone)}: a clock, an edited message, or an answer written "
        "anew.",
    }
    sentence = sentences[found.cause]
    if found.bounded is None:
        return sentence
    if found.cause == "replaced":
        return f"No other cause could be proven. {found.bounded}"
    return f"{sentence} {found.bounded}"


def remedy(cause: str) -> str:
    """The usual remedy for a cause, in one or two plain sentences."""
    return {
        "shortened": "Make a retry a rollout of its own, or append the failure and the new "
        "request. If an answer did not parse, return the history with the error or end the "
        "episode.",
        "image_changed": "Encode each image once and put the same chunk into every observation.",
        "end_token": "Keep the end token that was sampled in the history, in place of the one "
        "the template writes.",
        "retokenised": "Put the sampled tokens themselves into the next observation; do not "
        "turn the answer into text and tokenize it again.",
        "removed": "Reasoning: keep it with a renderer that preserves it, or accept one datum per "
        "turn. A window: slide it rarely, and by much. A call that did not parse: put its raw text "
        "into the message's content. White space or a shorter spelling: put the sampled tokens "
        "back as they are.",
        "inserted": "Put what would enter later (system prompt, tool list, clock line) into the "
        "first observation already.",
        "new_context": "Give each agent a rollout of its own. After a compaction one split is "
        "the right price: compact rarely.",
        "reordered": "Put the sampled tokens back as they are; reading a call or a header and "
        "writing it again changes the order.",
        "replaced": "A clock, counter or random id: freeze it for the episode, or append the new "
        "value as a later message. An answer written anew: put the sampled tokens back. A message "
        "edited on purpose: edit rarely.",
    }[cause]


def warning_remedy(code: str) -> str:
    """What to do about a warning, in one plain sentence."""
    return {
        "logprobs_missing": "Ask the sampler for logprobs and keep them with the tokens.",
        "logprob_count": "Record tokens and logprobs from the same sampler answer, uncut.",
        "logprob_not_finite": "Drop the rollout or sample it again: one such number makes the "
        "loss not a number.",
        "logprob_positive": "Record the logarithm of each sampled token's probability; it is never "
        "above 0.",
        "logprob_extreme": "Keep what the sampler gave. A token with no probability was not "
        "sampled: drop the rollout, or sample it again.",
        "logprobs_all_zero": "Ask the sampler for the logprobs of what it sampled: with 0 the "
        "importance ratio is wrong for every token.",
        "zero_logprob_end": "Do not append an end token to an answer that was cut off; it was "
        "never sampled, yet it is trained on.",
        "empty_observation": "Return at least one token after every answer, or end the episode.",
        "header_changed": "Render every prompt with the same generation header.",
        "separator_changed": "Write what follows an answer the same way after every turn.",
        "end_token_untrained": "Keep the end token that was sampled in the action; do not let the "
        "engine or a decoder trim it.",
    }[code]


def gave_way(found: Break, gone: str) -> str:
    """What became of `gone`, the tokens that a `replaced` break took out.

    Nothing is inserted where the edit ends with them: what follows in the observation is free.
    """
    if not found.inserted:
        return f"the last {gone} {'is' if found.removed == 1 else 'are'} not there"
    others = f"{found.inserted} {'other' if found.inserted == 1 else 'others'}"
    if found.removed == found.inserted == 1:
        others = "another"
    return f"{gone} {'was' if found.removed == 1 else 'were'} replaced by {others}"


def refusal_remedy(code: str) -> str:
    """What to do about rollouts that the cookbook refuses with this exception class."""
    return {
        "AssertionError": "Record one logprob for every action token, no more and no fewer.",
        "DataValidationError": "Let a rollout hold at least two tokens, and end on a token, not on "
        "an image.",
        "ValueError": "Record logprobs for every action; None is refused.",
    }.get(code, "See what the rollout itself is told.")


def break_headline(found: Break) -> str:
    """The finding of a break in a few words, for titles."""
    turn, part = found.origin.turn, found.origin.part
    gone, came = count_of(found.removed, "token"), count_of(found.inserted, "token")
    words = {
        "shortened": f"it ends {count_of(found.held - found.position, 'token')} early",
        "image_changed": "an image is not the same",
        "end_token": f"the end of turn {turn}'s {part} is written differently",
        "retokenised": "the same text in other tokens",
        "removed": f"{gone} {'is' if found.removed == 1 else 'are'} gone",
        "inserted": f"{came} came in",
        "new_context": "another context",
        "reordered": "the same tokens in another order",
        "replaced": gave_way(found, gone)
        if found.bounded is None
        else "cause not proven within the bound",
    }
    return f"Turn {found.turn} splits: {words[found.cause]}"


def lineage_sentence(diagnosis: Diagnosis) -> str | None:
    """Says which turns go on from a datum closed earlier, and what tracking would save."""
    resumed = [found for found in diagnosis.breaks if found.resumes_datum is not None]
    if not resumed:
        return None
    named = "; ".join(
        f"turn {found.turn} goes on from datum {found.resumes_datum}" for found in resumed[:6]
    )
    more = f"; and {len(resumed) - 6} more" if len(resumed) > 6 else ""
    datums = diagnosis.spans[-1].datum + 1
    return (
        f"Some turns split only because one running sequence is kept: {named}{more}. If the "
        f"sequence of each agent were kept, {count_of(diagnosis.lineages, 'datum')} would do "
        f"where there are {datums}."
    )


def span_words(span: TurnSpan, refused: bool = False) -> str:
    """A few words on what became of a turn; of a refused rollout, on what would have."""
    opens, stays = (
        ("would open", "would extend and stay") if refused else ("opens", "extends, stays")
    )
    if span.turn == 0:
        return f"{opens} datum 0"
    if span.splits:
        return f"splits at position {span.position}, {opens} datum {span.datum}"
    return f"{stays} in datum {span.datum}"


def break_text(found: Break, vocab: Mapping[int, str]) -> str:
    """A break on one line: cause, place, expected and got, and where the lost token came from."""
    origin = found.origin
    words = (
        f"{found.cause} at position {found.position}: expected {token_words(found.expected, vocab)}"
        f" (turn {origin.turn}, {origin.part} index {origin.index}), got "
        f"{token_words(found.got, vocab)}"
    )
    if found.resumes_datum is not None:
        words += f"; it would extend datum {found.resumes_datum}"
    return words
