"""Why whole rows of the matrix split, against what the renderers themselves write."""

from typing import Any

import pandas as pd
import pytest
from rollouts import episode_of

from sequence_extension.diagnosis import diagnose
from sequence_extension.env.episodes import EpisodeSpec
from sequence_extension.env.matrix_table import matrix_table
from sequence_extension.env.policies import policy_names
from sequence_extension.env.whole_rows import REASONS, whole_row_reasons, whole_row_renderers
from sequence_extension.page.matrix import matrix_prose_view

QUESTION, ANSWER = "What is 8 + 8?", "It is 16."


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return matrix_table()


@pytest.fixture(scope="module")
def reasons(table: pd.DataFrame) -> dict[str, list[str]]:
    return whole_row_reasons(table)


def test_each_renderer_that_always_splits_has_one_reason(
    table: pd.DataFrame, reasons: dict[str, list[str]]
) -> None:
    split = table.pivot(index="renderer", columns="policy", values="datums") > 1
    named = [name for members in reasons.values() for name in members]
    assert (
        sorted(named)
        == sorted(whole_row_renderers(table))
        == sorted(split.index[split.all(axis=1)])
    )
    assert len(set(named)) == len(named) > 0
    assert "other" not in reasons


def test_reasons_are_what_the_renderers_write(
    reasons: dict[str, list[str]], built: dict[str, Any]
) -> None:
    """Prompt, and the prompt after an answer: what stands between question and answer in each."""
    for reason, names in reasons.items():
        for name in names:
            renderer = built[name]
            asked = [{"role": "user", "content": QUESTION}]
            later = [*asked, {"role": "assistant", "content": ANSWER}, asked[0]]
            ids = [renderer.build_generation_prompt(said).to_ints() for said in (asked, later)]
            prompt, history = map(renderer.tokenizer.decode, ids)
            opening = prompt.split(QUESTION)[1]
            written = history.split(QUESTION)[1].split(ANSWER)[0]
            same = ids[1][: len(ids[0])] == ids[0]
            assert same == (reason == "end_rewritten"), name
            assert ("hint" in REASONS[reason]) == (not opening.startswith(written[:5])), name
            if reason.startswith("block"):
                assert "<think>" in opening, name
                assert ("<think>" in written) == (reason == "block_rewritten"), name


def test_a_break_in_the_prompt_is_there_whatever_is_sampled(
    reasons: dict[str, list[str]],
) -> None:
    for reason, names in reasons.items():
        for name in names:
            for policy in policy_names():
                first = diagnose(episode_of(EpisodeSpec(name, policy)).rollout).breaks[0]
                in_action = first.origin.part == "action"
                assert in_action == (reason == "end_rewritten"), (name, policy)


def test_each_reason_is_told_once_with_its_count(
    table: pd.DataFrame, reasons: dict[str, list[str]]
) -> None:
    prose = matrix_prose_view(table).text
    for reason in REASONS:
        words = REASONS[reason].split("`")[0]
        count = f"{len(reasons[reason])} {words}" if reason in reasons else words
        assert prose.count(count) == (reason in reasons)
