"""What section 9 says of the remedies is read from rollouts."""

import re

import pandas as pd
from rollouts import episode_of
from tinker_cookbook.rl.data_processing import trajectory_to_data

from sequence_extension import split_lineages
from sequence_extension.env.episodes import EpisodeSpec
from sequence_extension.env.matrix_table import compare_matrix_tables, matrix_table
from sequence_extension.env.policies import policy_names
from sequence_extension.lineages import lineages_example
from sequence_extension.page import comparison
from sequence_extension.page.matrix import page_matrix

NAMES, POLICIES = ["qwen3", "llama3", "glm5_3_low_reasoning"], ["reasoning", "other_end"]


def small() -> pd.DataFrame:
    return compare_matrix_tables(
        matrix_table(NAMES, POLICIES), matrix_table(NAMES, POLICIES, keep_tokens=True)
    )


def test_the_sentence_counts_what_the_rollouts_give() -> None:
    table = small()
    split, tokens = [0, 0], [0, 0]
    for kept in (False, True):
        for name in NAMES:
            for policy in POLICIES:
                episode = episode_of(EpisodeSpec(name, policy, keep_tokens=kept))
                data = trajectory_to_data(episode.rollout.trajectory, 1.0)
                split[kept] += len(data) > 1
                tokens[kept] += sum(datum.model_input.length for datum in data)
    numbers = re.findall(r"\d+", comparison.comparison_finding(table))
    assert numbers == [
        str(len(NAMES) * len(POLICIES)),
        str(split[0]),
        str(split[1]),
        f"{100 * (1 - tokens[1] / tokens[0]):.0f}",
    ]
    assert split[1] == 1
    assert comparison.comparison_refusals(table) == (
        "1 cell is rendered anew, because the answer ended with another token than its renderer "
        "writes there, so what follows cannot be told: `glm5_3_low_reasoning` with `other_end`."
    )


def test_totals_add_up_either_way() -> None:
    table = small()
    by_policy, by_renderer = (
        comparison.comparison_totals(table, by) for by in ("policy", "renderer")
    )
    for column in ("split before", "datums after", "inputs before", "inputs after"):
        assert by_policy[column].sum() == by_renderer[column].sum()
    assert by_policy["inputs before"].sum() == table["tokens_before"].sum()


def test_the_two_agents_of_the_page_take_turns() -> None:
    trajectory = lineages_example()
    assert len(trajectory_to_data(trajectory, 1.0)) == 4
    assert len(split_lineages(trajectory)) == 2


def test_renderers_that_keep_reasoning_are_those_whose_rollouts_stay_one_datum() -> None:
    names = ["qwen3_5", "qwen3_5_preserve_thinking", "kimi_k26", "kimi_k26_preserve_thinking"]
    kept, nothing_else = comparison.comparison_keeping_renderers(matrix_table(names))
    assert (kept, nothing_else) == ([names[1], names[3]], [names[1]])
    for name in names:
        data = {
            policy: trajectory_to_data(episode_of(EpisodeSpec(name, policy)).rollout.trajectory, 1)
            for policy in policy_names()
        }
        assert (len(data.pop("reasoning")) == 1) == (name in kept)
        assert all(len(made) > 1 for made in data.values()) == (name in (names[0], names[1]))


def test_those_renderers_are_listed_and_counted() -> None:
    kept, nothing_else = comparison.comparison_keeping_renderers(page_matrix())
    prose = comparison.comparison_prose()
    listed = re.findall(r"`(\w+)`", prose.partition("/// details")[2])
    assert sorted(listed) == sorted(kept)
    assert {"qwen3_8_low_reasoning", "glm5_3_low_reasoning", "tml_v0"} <= set(kept)
    assert f"With {len(kept)} renderers" in prose
    assert f"with {len(nothing_else)} of them the rollout of every other pupil splits" in prose
