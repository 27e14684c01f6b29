"""Named starting points for the editor."""

from collections.abc import Mapping
from dataclasses import dataclass

from sequence_extension.editor.drafts import TurnDraft, drafts_to_rollout
from sequence_extension.rollout import Rollout


@dataclass(frozen=True)
class Scenario:
    """A named starting point for the editor and the staircase."""

    key: str
    title: str
    drafts: tuple[TurnDraft, ...]
    vocab: Mapping[int, str]
    lesson: str


def scenario_rollout(scenario: Scenario) -> Rollout:
    """The rollout of a scenario.

    Raises:
        ValueError: Its drafts cannot be read; the message is the first sentence.
    """
    rollout, issues = drafts_to_rollout(scenario.drafts, scenario.vocab, scenario.title)
    if rollout is None:
        raise ValueError(next(issue.message for issue in issues if issue.fatal))
    return rollout


def scenarios() -> dict[str, Scenario]:
    """Named starting points: the two classic examples, and one per cause of a split.

    Every later turn is written as a change to the history it carries, so an edit of an early
    token carries through to all turns that keep it.
    """
    marks = {
        1: "<bos>", 2: "<system>", 3: "<user>", 4: "<assistant>", 5: "<tool>", 6: "<end>",
        7: "<eot>", 8: "<think>", 9: "</think>", 10: "<call>", 11: "</call>", 12: "\n",
    }  # fmt: skip
    sums = {
        20: "2+3?", 21: "5", 22: "5*3?", 23: "15", 24: "15+1?", 25: "16",
        30: "add", 31: "them", 32: "times", 33: "three",
    }  # fmt: skip
    chat = {
        100: "What", 101: " is", 102: " 2+3", 103: "?", 200: "5", 201: ".",
        300: "Yes.", 301: " 5*3?", 400: "It", 401: " is", 402: " 15",
        500: "15+1?", 600: "16", 601: ".",
    }  # fmt: skip
    reset = {
        100: "Room A:", 101: " look?", 200: "A", 201: " door.",
        300: "Room B:", 301: " now", 302: " what?", 400: "Go", 401: " on.",
    }  # fmt: skip
    turn = TurnDraft
    listed = (
        Scenario(
            "chat",
            "Three turns that extend",
            (
                turn("100 101 102 103", "200 201", "-0.5 -0.3 ..."),
                turn("300 301", "400 401 402", "-0.4 -0.2 -0.1 ..."),
                turn("500", "600 601", "-0.6 -0.3 ...", "1"),
            ),
            chat,
            "Every observation repeats all that came before and adds to it, so three turns "
            "become one datum.",
        ),
        Scenario(
            "reset",
            "Context reset",
            (
                turn("100 101", "200 201", "-0.5 -0.3 ...", "0.5"),
                turn("300 301 302", "400 401", "-0.4 -0.2 ...", "0.5", "replaces"),
            ),
            reset,
            "The second observation starts afresh, so nothing can merge and each turn is a "
            "datum of its own.",
        ),
        Scenario(
            "removed",
            "Reasoning stripped",
            (
                turn("1 3 20 6 4", "8 30 31 9 21 6"),
                turn("3 22 6 4", "8 32 33 9 23 6", history="edits", edits="5-8:"),
                turn("3 24 6 4", "25 6", "auto", "1", history="edits", edits="11-14:"),
            ),
            marks | sums,
            "The renderer, which writes messages as tokens, drops the reasoning of earlier "
            "answers, so what was sampled is no longer what the next observation holds.",
        ),
        Scenario(
            "window",
            "Sliding window",
            (
                turn("1 2 40 6 3 20 6 4", "21 6"),
                turn("3 22 6 4", "23 6"),
                turn("3 24 6 4", "25 6", history="edits", edits="4-9:"),
                turn("3 26 6 4", "27 6", "auto", "1", history="edits", edits="4-9:"),
            ),
            marks | sums | {26: "16-9?", 27: "7", 40: "Be brief."},
            "Only the last exchange is kept, so from the third turn on every turn loses its "
            "oldest messages and splits.",
        ),
        Scenario(
            "inserted",
            "System prompt appears",
            (
                turn("1 3 20 6 4", "21 6"),
                turn("3 22 6 4", "23 6", "auto", "1", history="edits", edits="1+: 2 40 6"),
            ),
            marks | sums | {40: "Be helpful."},
            "A default system prompt enters when the conversation is rendered again, in front "
            "of tokens that were already there.",
        ),
        Scenario(
            "end_token",
            "End token rewritten",
            (
                turn("1 3 20 6 4", "21 6"),
                turn("3 22 6 4", "23 6", history="edits", edits="6: 7"),
                turn("3 24 6 4", "25 6", "auto", "1", history="edits", edits="12: 7"),
            ),
            marks | sums,
            "The model stops on one end token and the history is written with another: one "
            "token differs, and the turn splits.",
        ),
        Scenario(
            "retokenised",
            "Same text, other tokens",
            (
                turn("1 3 50 6 4", "51 52 6"),
                turn("3 54 6 4", "55 6", "auto", "1", history="edits", edits="5-6: 53"),
            ),
            marks | {50: "Capital?", 51: "Par", 52: "is", 53: "Paris", 54: "Of?", 55: "France"},
            "The answer was turned into text and tokenized again: it reads the same, yet its "
            "tokens differ.",
        ),
        Scenario(
            "reordered",
            "Tool arguments reordered",
            (
                turn("1 3 60 6 4", "10 61 62 63 64 11 6"),
                turn(
                    "5 65 6 4", "66 6", "auto", "1",
                    history="edits", edits="6-7: 63 64; 8-9: 61 62",
                ),
            ),
            marks
            | {
                60: "Weather?", 61: "city=", 62: "Bern", 63: "unit=", 64: "C",
                65: "12", 66: "12 degrees",
            },
            "The tool call is written back with its arguments in another order: the same "
            "tokens, at other places.",
        ),
        Scenario(
            "replaced",
            "Clock in the system prompt",
            (
                turn("1 2 70 71 6 3 20 6 4", "21 6"),
                turn("3 22 6 4", "23 6", history="edits", edits="3: 72"),
                turn("3 24 6 4", "25 6", "auto", "1", history="edits", edits="3: 73"),
            ),
            marks | sums | {70: "Now", 71: "9:00", 72: "9:01", 73: "9:02"},
            "One token near the front changes with every turn, so every turn splits and is "
            "paid for from the start.",
        ),
        Scenario(
            "image_changed",
            "Image encoded again",
            (
                turn("1 3 image(frameA, 4) 80 6 4", "81 6"),
                turn(
                    "3 82 6 4", "83 6", "auto", "1",
                    history="edits", edits="2: image(frameA-again, 4)",
                ),
            ),
            marks | {80: "What is it?", 81: "A cat", 82: "Colour?", 83: "Black"},
            "The same picture is encoded anew with other bytes, and an image equals only an "
            "identical image.",
        ),
        Scenario(
            "shortened",
            "Retry from the same prompt",
            (
                turn("1 3 20 6 4", "28 6"),
                turn("", "21 6", "auto", "1", history="edits", edits="5-6:"),
            ),
            marks | sums | {28: "6"},
            "The failed answer is rolled back and the prompt is tried again: the observation "
            "ends before the action it would have to contain.",
        ),
        Scenario(
            "new_context",
            "Sub-agent in between",
            (
                turn("1 3 90 91 92 4", "110 111 6"),
                turn("1 2 93 94 95 4", "112 113 6", history="replaces"),
                turn("1 3 90 91 92 4 110 111 6 5 96 4", "114 115 6", history="replaces"),
                turn(
                    "1 2 93 94 95 4 112 113 6 5 97 4", "116 117 6", "auto", "1",
                    history="replaces",
                ),
            ),
            marks
            | {
                90: "Plan", 91: "a", 92: "trip.", 93: "Find", 94: "the", 95: "train.",
                96: "Busy.", 97: "Today?", 110: "Ask", 111: "agent.", 112: "Which", 113: "day?",
                114: "Wait", 115: "then.", 116: "Leaves", 117: "9:00.",
            },
            "Two agents take turns; only one running sequence is kept, so four datums arise "
            "where two would do.",
        ),
        Scenario(
            "masked",
            "Unparsable turn, masked",
            (
                turn("1 3 20 6 4", "21 6"),
                turn("3 22 6 4", "10 10 6", masked=True),
                turn("3 29 6 4", "23 6", "auto", "1"),
            ),
            marks | sums | {29: "Again?"},
            "The second answer could not be parsed and its turn is masked: it stays in the "
            "sequence as context, with mask 0.",
        ),
        Scenario(
            "empty",
            "Empty observation",
            (
                turn("1 3 20 6 4", "10 10 6"),
                turn("", "21 23 6", "auto", "1", history="replaces"),
            ),
            marks | sums,
            "After an answer that did not parse the observation is empty, so the next action "
            "opens a datum and its first token has no target.",
        ),
    )  # fmt: skip
    return {scenario.key: scenario for scenario in listed}
