"""What happened, in words: causes, turns and refusals; what to do stands in `remedies`."""

from dataclasses import dataclass

from sequence_extension.breaks import Break
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.text import count_text
from sequence_extension.turns import TurnSpan
from sequence_extension.warnings import RolloutWarning


def cause_wording(cause: str) -> str:
    """A cause as it is read: `end_token` is "end token"."""
    return cause.replace("_", " ")


def turn_wording(span: TurnSpan, refused: bool = False) -> str:
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


def break_wording(item: Break) -> CauseWords:
    """What is said about the cause of a break, with its numbers; names the bound if any."""
    if item.bounded is not None and item.cause == "replaced":
        return CauseWords(
            "cause not proven within the bound", f"No other cause could be proven. {item.bounded}"
        )
    return (place_wording(item) | edit_wording(item))[item.cause]


def place_wording(item: Break) -> dict[str, CauseWords]:
    """The words of causes that the place of the break decides, or the texts."""
    missing = count_text(item.held - item.position, "token")
    whose = f"turn {item.origin.turn}'s {item.origin.part}"
    return {
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
        "new_context": CauseWords(
            "another context",
            f"Of {count_text(item.held, 'token')} held only {item.position + item.kept} came back, "
            "fewer than half: this is another context.",
        ),
    }


def edit_wording(item: Break) -> dict[str, CauseWords]:
    """The words of causes that the cheapest edit decides."""
    gone, came = count_text(item.removed, "token"), count_text(item.inserted, "token")
    is_gone = f"{gone} {'is' if item.removed == 1 else 'are'} gone"
    return {
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
        "reordered": CauseWords(
            "the same tokens in another order",
            f"The same tokens stand in another order ({gone} moved), as when tool arguments or "
            "header fields are written back.",
        ),
        "replaced": CauseWords(
            replaced_wording(item, gone),
            f"{replaced_wording(item, gone)}: "
            + (
                "a clock, or an edited message."
                if item.lost == "observation"
                else "an answer written anew."
                if item.lost != "both"
                else "a clock, an edited message, or an answer written anew."
            ),
        ),
    }


LOST_TOKENS = {
    "reasoning": "the renderer leaves earlier reasoning out",
    "header": "the end of the prompt, where the answer begins, is not written into history",
    "action": "stripped reasoning, a call that did not parse, or trimmed white space",
    "observation": "a window that slid, padding, or trimmed white space",
    "both": "a window that slid, or history that was cut",
}


def replaced_wording(item: Break, gone: str) -> str:
    """What became of `gone`, the tokens that a `replaced` break took out.

    Nothing is inserted where the edit ends with them: what follows in the observation is free.
    """
    if not item.inserted:
        return f"the last {gone} {'is' if item.removed == 1 else 'are'} not there"
    others = f"{item.inserted} {'other' if item.inserted == 1 else 'others'}"
    if item.removed == item.inserted == 1:
        others = "another"
    return f"{gone} {'was' if item.removed == 1 else 'were'} replaced by {others}"


def headline_wording(item: Break) -> str:
    """The finding of a break in a few words, for titles."""
    return f"Turn {item.turn} splits: {break_wording(item).headline}"


def cause_sentence_wording(item: Break) -> str:
    """One plain sentence for the cause of a break, with its numbers; names the bound if any."""
    return break_wording(item).sentence


def refusal_wording(diagnosis: Diagnosis) -> str | None:
    """Why there is no datum, and what there would be where only logprobs are missing."""
    if diagnosis.would_be is None:
        return diagnosis.built.error_message
    bare = [item.turn for item in diagnosis.warnings if item.code == "logprobs_missing"]
    turns = count_text(len(diagnosis.spans), "turn")
    where = f"{len(bare)} of {turns} (turn {bare[0]} is the first)"
    if len(bare) == len(diagnosis.spans):
        where = f"all {turns}" if len(bare) > 1 else "its one turn"
    return (
        f"logprobs missing in {where}: would be {count_text(diagnosis.would_be, 'datum')} once "
        "logprobs are recorded"
    )


def worded_warnings(diagnosis: Diagnosis) -> list[RolloutWarning]:
    """The warnings, but those that say what `refusal_wording` says."""
    repeated = () if diagnosis.would_be is None else ("logprobs_missing",)
    return [item for item in diagnosis.warnings if item.code not in repeated]


def lineage_wording(diagnosis: Diagnosis) -> str | None:
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
        f"{count_text(diagnosis.lineages, 'datum')} would do where there are {datums}."
    )
