"""Story head and section 11: links lead somewhere, names exist, facts are facts."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import tinker_cookbook
from tinker_cookbook.completers import TokensWithLogprobs

from sequence_extension.datums import build_datums
from sequence_extension.page.summary import summary_misconceptions, summary_table
from sequence_extension.rollout import rollout_trajectory

ROOT = Path(__file__).parent.parent
SOURCE = (ROOT / "404_sequence_extension.py").read_text(encoding="utf-8")
KEYS = {
    "shift", "prefix", "mask", "checker", "twice", "agents", "credit", "deviation", "overflow",
    "empty", "logprobs", "claim", "discount",
}  # fmt: skip


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    listed = summary_misconceptions()
    assert len({one.key for one in listed}) == len(listed)
    return {one.key: one for one in listed}


def slug(heading: str) -> str:
    """The id that Markdown gives a heading: letters, digits and hyphens, in lower case."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def test_outline_links_lead_to_every_section_in_order() -> None:
    headings = re.findall(r"^    ## (.+)$", SOURCE, flags=re.M)
    links = re.findall(r"\[([^\]]+)\]\(#([^)]+)\)", SOURCE)
    numbers = [heading.split(".")[0] for heading in headings]
    assert numbers == [*map(str, range(1, 12)), "Summary"]
    assert [anchor for _, anchor in links] == [slug(heading) for heading in headings]
    assert [text for text, _ in links] == [heading.split(". ", 1)[-1] for heading in headings]


def test_modules_and_recipes_that_are_named_exist() -> None:
    text = SOURCE[SOURCE.index("### Where to go next") :]
    package = Path(tinker_cookbook.__file__).parent
    named = re.findall(r"`((?:rl|renderers)/[\w./]*)`", text)
    assert len(named) >= 5
    for name in named:
        assert (package / name).exists(), name
    recipes = re.search(r"recipes ((?:`\w+`(?:, | and )?)+)", " ".join(text.split()))
    assert recipes is not None
    for recipe in re.findall(r"`(\w+)`", recipes[1]):
        assert importlib.util.find_spec(f"tinker_cookbook.recipes.{recipe}"), recipe


def test_no_misconception_is_missing(told: dict[str, Any]) -> None:
    assert set(told) == KEYS


@pytest.mark.parametrize(
    ("key", "facts"),
    [
        ("shift", ("14 tokens", "13 entries")),
        ("prefix", ("5 tokens", "splits at token 5")),
        ("mask", ("1 on 26 targets", "0 of them")),
        ("discount", ("to 0 such targets", "to 36 with 0.5")),
        ("twice", ("8 tokens and trains 8", "3 datums", "23 inputs")),
        ("agents", ("gives 4", "2 would do")),
        ("credit", ("+0.58 on every action token of A",)),
        ("deviation", ("+3, \u22121, \u22121, \u22121", "1.73")),
        ("overflow", ("from 0.5 to 0",)),
        ("empty", ("6 tokens sampled, 5 trained",)),
        ("logprobs", ("1 logprob ",)),
        ("claim", ("says True", "give 3 datums", "says False", "give 1")),
    ],
)
def test_facts_by_hand(told: dict[str, Any], key: str, facts: tuple[str, ...]) -> None:
    """Worked out on paper from the scenarios; a change of either side has to be looked at."""
    for fact in facts:
        assert fact in told[key].code, fact


def test_table_has_a_row_each(told: dict[str, Any]) -> None:
    lines = summary_table(list(told.values())).splitlines()
    assert len(lines) == len(told) + 2
    assert all(line.count(" | ") == 1 for line in lines)


def test_wrong_logprob_counts_cancel_out_only_within_a_datum() -> None:
    for second, refused in (([1, 2, 3, 4, 5], False), ([9, 5], True)):
        turns = rollout_trajectory([([1, 2], [3, 4]), (second, [6, 7])])
        turns.transitions[0].ac.maybe_logprobs = [-0.1]
        turns.transitions[1].ac.maybe_logprobs = [-0.1, -0.2, -0.3]
        assert (build_datums(turns).error_code == "AssertionError") == refused


def test_logprobs_is_a_property_and_no_argument() -> None:
    arguments: dict[str, Any] = {"tokens": [1], "logprobs": [-0.1]}
    with pytest.raises(TypeError):
        TokensWithLogprobs(**arguments)
    assert TokensWithLogprobs(tokens=[1], maybe_logprobs=[-0.1]).logprobs == [-0.1]
