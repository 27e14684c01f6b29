"""What to do, in a sentence (`help`): against breaks, warnings and refusals; not why.

A break's remedy follows what is known of it (where the lost tokens stood, patterns of the change,
the renderer). Where that fits several causes in the reader's code, the sentence says "if".
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sequence_extension.breaks import Break

# Names of causes, in the order of the rules (`breaks.name_break_cause`); here, where no
# torch is imported with them.
CAUSES = (
    "shortened",
    "image_changed",
    "end_token",
    "retokenised",
    "removed",
    "inserted",
    "new_context",
    "reordered",
    "replaced",
)

# What keeps sampled tokens as they are, whatever a renderer would write.
KEEPS_TOKENS = "`TokenPreservingEnv` does where history only grows"

# By pattern, whatever the cause; the first that a break shows.
PATTERN_REMEDIES = {
    "out_of_order": "Write the turns down in the order in which they were sampled.",
    "takes_turns": "Give each conversation a rollout of its own, or part this one with "
    "`split_lineages` before `trajectory_to_data`.",
    "padding": "Record prompts without padding, and an image's placeholders as they were sent.",
}
# Wherever the lost tokens stood.
CAUSE_REMEDIES = {
    "image_changed": "If it is the same picture, encode it once and put that chunk into every "
    "observation; append another picture, do not exchange it.",
    "new_context": "If another agent speaks here, give it a rollout of its own. After a "
    "compaction one split is the right price: compact rarely.",
}
# Against breaks whose lost tokens stood in a prompt.
PROMPT_REMEDIES = {
    "retokenised": "Keep the tokens of the first prompt and append to them; do not tokenize "
    "the whole text again.",
    "removed": "If history is cut, cut rarely and then much at once: every cut costs a datum. If "
    "a template trims it, keep the tokens of earlier prompts and append.",
    "inserted": "Put what would enter later (system prompt, tool list, clock line) into the "
    "first observation already, or append it.",
    "reordered": "Write tool lists and header fields in the same order every turn.",
    "replaced": "If a clock, counter or random id changes, freeze it for the rollout or append "
    "the new value; if a message was edited, append the correction instead.",
}
WARNING_REMEDIES = {
    "logprobs_missing": "Ask the sampler for logprobs and keep them with the tokens.",
    "logprob_count": "Record tokens and logprobs from the same sampler answer, uncut.",
    "logprob_not_finite": "Drop the rollout or sample it again: one such number makes the "
    "whole loss NaN.",
    "logprob_positive": "Record the logarithm of each sampled token's probability; it is never "
    "above 0.",
    "logprob_extreme": "Keep what the sampler gave. A token with no probability was not "
    "sampled: drop the rollout, or sample it again.",
    "logprobs_all_zero": "Ask the sampler for the logprobs of what it sampled: with 0 the "
    "importance ratio is wrong for every token.",
    "zero_logprob_end": "Do not append an end token to an answer that was cut off; it was "
    "never sampled, yet it is trained on.",
    "empty_observation": "Return at least one token after every answer, or end the rollout.",
    "header_changed": "Render every prompt with the same generation header.",
    "separator_changed": "Write what follows an answer the same way after every turn.",
    "end_token_untrained": "Keep the end token that was sampled in the action; do not let the "
    "engine or a decoder trim it.",
}


def remedy(item: "Break", renderer: str | None = None) -> str:
    """What helps against this break; without a renderer's name it is `Break.help`.

    Args:
        item: The break; where the change lies and its patterns decide.
        renderer: Name of the renderer that wrote the observations, if known.
    """
    patterns = item.patterns
    if item.resumes_datum is not None and "out_of_order" not in patterns:
        patterns = ("takes_turns", *patterns)
    for pattern, sentence in PATTERN_REMEDIES.items():
        if pattern in patterns:
            return sentence
    if item.cause in CAUSE_REMEDIES:
        return CAUSE_REMEDIES[item.cause]
    if item.cause == "shortened":
        return shortened_remedy(item)
    if item.cause == "end_token" or item.lost in ("action", "reasoning", "header"):
        return answer_remedy(item, renderer)
    if item.lost == "both" and item.cause in ("removed", "replaced"):
        return (
            f"If {remedy_writer(renderer)} writes earlier turns anew, keep their tokens: "
            f"{KEEPS_TOKENS}. "
            "If the environment cuts or edits them, let it do so rarely, much at once."
        )
    return PROMPT_REMEDIES[item.cause]


def remedy_writer(renderer: str | None) -> str:
    """The renderer as a sentence names it."""
    return f"`{renderer}`" if renderer else "the renderer"


def shortened_remedy(item: "Break") -> str:
    """Against an observation that ends before the running sequence does."""
    if item.position:
        return (
            "If this is a retry, append the failure and the new request, or make the retry a "
            "rollout of its own."
        )
    if item.origin.part == "action":
        return "Record the prompts: the observation before it is empty as well."
    return (
        "After an answer that did not parse, return the history with the error, or end the rollout."
    )


def answer_remedy(item: "Break", renderer: str | None) -> str:
    """Against a change inside or right before an answer that was sampled."""
    if item.cause == "end_token":
        return (
            "Keep the end token that was sampled, in place of the one that "
            f"{remedy_writer(renderer)} "
            f"writes: {KEEPS_TOKENS}."
        )
    if item.lost == "reasoning" and item.cause in ("removed", "replaced"):
        other = remedy_renderer(renderer)
        named = f"`{other}`" if other else "a renderer that preserves thinking"
        return (
            f"Keep the reasoning in the next prompt: {KEEPS_TOKENS}, or {named}. Or accept one "
            "datum per turn."
        )
    if item.cause == "inserted":
        return (
            "Record every token that was sampled, special tokens included. If the renderer "
            f"writes more around an answer, keep what was sampled: {KEEPS_TOKENS}."
        )
    if item.lost == "header":
        return f"Keep the end of the prompt and the answer behind it as they were: {KEEPS_TOKENS}."
    return (
        "Put the sampled tokens themselves into the next observation, not the answer parsed "
        f"and written anew by {remedy_writer(renderer)}: {KEEPS_TOKENS}."
    )


def remedy_renderer(renderer: str | None) -> str | None:
    """The renderer of the same family that keeps reasoning; None where there is none."""
    if renderer is None:
        return None
    from sequence_extension.env.renderers import renderer_names  # torch comes with it

    names = [name for name in renderer_names() if name.endswith("_preserve_thinking")]
    families = {name.removesuffix("_preserve_thinking"): name for name in names}
    mine = max((family for family in families if renderer.startswith(family)), default=None)
    return families[mine] if mine else None
