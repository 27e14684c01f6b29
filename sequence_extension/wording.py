"""Causes, warnings and turns in words: headline, sentence, what helps."""

from dataclasses import dataclass

from sequence_extension.breaks import Break
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.env.renderers import renderer_names
from sequence_extension.text import count_of
from sequence_extension.turns import TurnSpan

# What keeps sampled tokens as they are, whatever a renderer would write.
KEEPS_TOKENS = "`TokenPreservingEnv` does"


def cause_name(cause: str) -> str:
    """A cause as it is read: `end_token` is "end token"."""
    return cause.replace("_", " ")


def turn_words(span: TurnSpan, refused: bool = False) -> str:
    """What became of a turn; of a refused rollout, what would have.

    The words up to the first comma are enough where there is little room.
    """
    would = "would " if refused else ""
    opens = f"{would}open{'' if refused else 's'} datum {span.datum}"
    if span.splits:
        return f"splits at position {span.position}, {opens}"
    if span.extends:
        s = "" if refused else "s"
        return f"{would}extend{s}, stay{s} in datum {span.datum}"
    return opens


@dataclass(frozen=True)
class CauseWords:
    """A cause in words.

    Attributes:
        headline: The finding in a few words, for titles.
        sentence: What it means, in one plain sentence.
    """

    headline: str
    sentence: str


def cause_words(item: Break) -> CauseWords:
    """What is said about the cause of a break, with its numbers; names the bound if any."""
    gone, came = count_of(item.removed, "token"), count_of(item.inserted, "token")
    is_gone = f"{gone} {'is' if item.removed == 1 else 'are'} gone"
    missing = count_of(item.held - item.position, "token")
    whose = f"turn {item.origin.turn}'s {item.origin.part}"
    if item.bounded is not None and item.cause == "replaced":
        return CauseWords(
            "cause not proven within the bound", f"No other cause could be proven. {item.bounded}"
        )
    words = {
        "shortened": CauseWords(
            f"it ends {missing} early",
            f"The observation ends {missing} before the sequence held does: it was rolled back, "
            "tried again, or left empty.",
        ),
        "image_changed": CauseWords(
            "an image is not the same",
            "An image stands here, and the other side has another image or something else: to "
            "the prefix check the same picture encoded anew is another image.",
        ),
        "end_token": CauseWords(
            f"the end of {whose} is written differently",
            f"Only the last token held, the end of {whose}, is written differently.",
        ),
        "retokenised": CauseWords(
            "the same text in other tokens",
            "The text reads the same, but it is cut into other tokens.",
        ),
        "removed": CauseWords(
            is_gone,
            f"{is_gone} and nothing was put in {'its' if item.removed == 1 else 'their'} place: "
            f"{LOST_TOKENS[item.lost]}.",
        ),
        "inserted": CauseWords(
            f"{came} came in",
            f"{came} {'was' if item.inserted == 1 else 'were'} put in and nothing was taken away: "
            + (
                "tokens around an answer that were not recorded as sampled."
                if item.lost in ("action", "reasoning", "header")
                else "a default system prompt, a tool list or a clock line."
            ),
        ),
        "new_context": CauseWords(
            "another context",
            f"Of {count_of(item.held, 'token')} held only {item.position + item.kept} came back, "
            "fewer than half: this is another context.",
        ),
        "reordered": CauseWords(
            "the same tokens in another order",
            f"The same tokens stand in another order ({gone} moved), as when tool arguments or "
            "header fields are written back.",
        ),
        "replaced": CauseWords(
            gave_way(item, gone),
            f"{gave_way(item, gone)}: "
            + (
                "a clock, or an edited message."
                if item.lost == "observation"
                else "an answer written anew."
                if item.lost != "both"
                else "a clock, an edited message, or an answer written anew."
            ),
        ),
    }
    return words[item.cause]


LOST_TOKENS = {
    "reasoning": "the renderer leaves earlier reasoning out",
    "header": "the end of the prompt, where the answer begins, is not written into history",
    "action": "stripped reasoning, a call that did not parse, or trimmed white space",
    "observation": "a window that slid, padding, or trimmed white space",
    "both": "a window that slid, or history that was cut",
}


def gave_way(item: Break, gone: str) -> str:
    """What became of `gone`, the tokens that a `replaced` break took out.

    Nothing is inserted where the edit ends with them: what follows in the observation is free.
    """
    if not item.inserted:
        return f"the last {gone} {'is' if item.removed == 1 else 'are'} not there"
    others = f"{item.inserted} {'other' if item.inserted == 1 else 'others'}"
    if item.removed == item.inserted == 1:
        others = "another"
    return f"{gone} {'was' if item.removed == 1 else 'were'} replaced by {others}"


def break_headline(item: Break) -> str:
    """The finding of a break in a few words, for titles."""
    return f"Turn {item.turn} splits: {cause_words(item).headline}"


def cause_sentence(item: Break) -> str:
    """One plain sentence for the cause of a break, with its numbers; names the bound if any."""
    return cause_words(item).sentence


# Against breaks whose lost tokens stood in a prompt.
PROMPT_REMEDIES = {
    "retokenised": "Keep the tokens of the first prompt and append to them; do not tokenize "
    "the whole text again.",
    "removed": "Cut history rarely, and then much at once: every cut costs a datum.",
    "inserted": "Put what would enter later (system prompt, tool list, clock line) into the "
    "first observation already.",
    "reordered": "Write tool lists and header fields in the same order every turn.",
    "replaced": "Freeze a clock, counter or random id for the episode, or append the new value "
    "as a later message; edit messages rarely.",
}


def remedy(item: Break, renderer: str | None = None) -> str:
    """What helps against this break: one remedy, by what is known about it.

    Args:
        item: The break; where the change lies and its patterns decide.
        renderer: Name of the renderer that wrote the observations, if known.
    """
    if "out_of_order" in item.patterns:
        return "Write the turns down in the order in which they were sampled."
    if item.resumes_datum is not None or "takes_turns" in item.patterns:
        return (
            "Give each conversation a rollout of its own, or part this one with "
            "`split_lineages` before `trajectory_to_data`."
        )
    if "padding" in item.patterns:
        return "Record prompts without padding, and an image's placeholders as they were sent."
    by = f"`{renderer}`" if renderer else "the renderer"
    sampled = item.lost in ("action", "reasoning", "header")
    if item.cause == "shortened":
        if not item.position and item.origin.part == "action":
            return "Record the prompts: the observation before it is empty as well."
        if item.got is None and not item.position:
            return (
                "After an answer that did not parse, return the history with the error, or end "
                "the episode."
            )
        return "Append the failure and the new request, or make a retry a rollout of its own."
    if item.cause == "image_changed":
        return "Encode each image once and put the same chunk into every observation."
    if item.cause == "end_token":
        return (
            f"Keep the end token that was sampled, in place of the one that {by} writes: "
            f"{KEEPS_TOKENS}."
        )
    if item.cause == "new_context":
        return (
            "Give each agent a rollout of its own. After a compaction one split is the right "
            "price: compact rarely."
        )
    if item.lost == "reasoning" and item.cause in ("removed", "replaced"):
        other = preserving_renderer(renderer)
        named = f"`{other}`" if other else "a renderer that preserves thinking"
        return (
            f"Keep the reasoning in the next prompt: {KEEPS_TOKENS}, or {named}. Or accept one "
            "datum per turn."
        )
    if item.cause == "inserted" and sampled:
        return (
            "Record every token that was sampled, special tokens included. If the renderer "
            f"writes more around an answer than was sampled, keep the answer: {KEEPS_TOKENS}."
        )
    if item.lost == "header":
        return f"Keep the end of the prompt and the answer behind it as they were: {KEEPS_TOKENS}."
    if sampled:
        return (
            "Put the sampled tokens themselves into the next observation, not the answer parsed "
            f"and written anew by {by}: {KEEPS_TOKENS}."
        )
    if item.lost == "both" and item.cause in ("removed", "replaced"):
        return (
            f"If {by} writes earlier turns anew, keep their tokens: {KEEPS_TOKENS}. If the "
            "environment cuts or edits them, let it do so rarely, and much at once."
        )
    return PROMPT_REMEDIES[item.cause]


def preserving_renderer(renderer: str | None) -> str | None:
    """The renderer of the same family that keeps reasoning; None where there is none."""
    if renderer is None:
        return None
    names = [name for name in renderer_names() if name.endswith("_preserve_thinking")]
    families = {name.removesuffix("_preserve_thinking"): name for name in names}
    mine = max((family for family in families if renderer.startswith(family)), default=None)
    return families[mine] if mine else None


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


def refusal_remedy(code: str) -> str:
    """What to do about rollouts that the cookbook refuses with this exception class."""
    return {
        "AssertionError": "Record one logprob for every action token, no more and no fewer.",
        "DataValidationError": "Let a rollout hold at least two tokens, and end on a token, not on "
        "an image.",
        "ValueError": "Record logprobs for every action; None is refused.",
    }.get(code, "See what the rollout itself is told.")


def lineage_sentence(diagnosis: Diagnosis) -> str | None:
    """Says which turns go on from a datum closed earlier, and what tracking would save."""
    resumed = [item for item in diagnosis.breaks if item.resumes_datum is not None]
    if not resumed:
        return None
    named = "; ".join(
        f"turn {item.turn} goes on from datum {item.resumes_datum}" for item in resumed[:6]
    )
    more = f"; and {len(resumed) - 6} more" if len(resumed) > 6 else ""
    datums = diagnosis.spans[-1].datum + 1
    return (
        f"Some turns split only because one running sequence is kept: {named}{more}. If the "
        f"sequence of each agent were kept (`split_lineages`), "
        f"{count_of(diagnosis.lineages, 'datum')} would do where there are {datums}."
    )
