"""Why every rollout of a renderer splits: where its plain rollout breaks first."""

import pandas as pd

from sequence_extension.diagnosis import diagnose
from sequence_extension.elements import model_input_to_elements
from sequence_extension.env.episodes import Episode, EpisodeSpec, run_episodes

# Each reason as "N renderers ...", for markdown, in the order in which they are told.
REASONS = {
    "block_left_out": "end the prompt with a reasoning block, opened (`<think>`) or empty, and "
    "leave it out of history",
    "block_rewritten": "end the prompt with `<think>` and write it into history in other tokens",
    "question_rewritten": "put a hint on reasoning behind the newest question, and take it off "
    "the one before",
    "end_rewritten": "write another end behind the answer than the one that was sampled",
    "other": "write the old turn otherwise in another place",
}


def whole_row_renderers(table: pd.DataFrame) -> list[str]:
    """Renderers of which no pupil's rollout stays one datum.

    Args:
        table: Of `matrix_table`.
    """
    fewest = table.dropna(subset=["datums"]).groupby("renderer", sort=False)["datums"].min()
    return [str(name) for name in fewest[fewest > 1].index]


def whole_row_reason(episode: Episode) -> str:
    """A key of `REASONS`: which part of the old turn the next prompt writes otherwise.

    The parts follow each other: question, prompt's end with its reasoning block, answer, end of
    the answer. A break within the prompt is there whatever the model samples.

    Args:
        episode: One that splits, of a pupil who answers at once.
    """
    first = diagnose(episode.rollout).breaks[0]
    before = episode.rollout.trajectory.transitions[first.turn - 1]
    prompt = [token for token in model_input_to_elements(before.ob) if isinstance(token, int)]
    if first.position >= len(prompt):
        return "end_rewritten" if first.position == first.held - 1 else "other"
    question = next(line.text for line in episode.lines if line.turn == first.turn - 1)
    decode = episode.renderer.tokenizer.decode
    _, whole, shared = str(decode(prompt[: first.position])).rpartition(question)
    if not whole:
        return "question_rewritten"
    if "<think>" not in str(decode(prompt)).rpartition(question)[2]:
        return "other"
    return "block_rewritten" if "<think>" in shared else "block_left_out"


def whole_row_reasons(table: pd.DataFrame) -> dict[str, list[str]]:
    """The renderers of `whole_row_renderers` by their reason, a key of `REASONS`, in that order."""
    names = whole_row_renderers(table)
    episodes = run_episodes([EpisodeSpec(name, "plain") for name in names])
    reasons: dict[str, list[str]] = {reason: [] for reason in REASONS}
    for name, episode in zip(names, episodes, strict=True):
        reason = whole_row_reason(episode) if isinstance(episode, Episode) else "other"
        reasons[reason].append(name)
    return {reason: members for reason, members in reasons.items() if members}
