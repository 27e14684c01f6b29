"""A break with both sides aligned, as a table and as a figure."""

import csv
import html
import io
from itertools import pairwise
from typing import Any

import altair as alt
import pytest
from rollouts import (
    CASES,
    case_rollout,
    make_rollout,
)

from sequence_extension.alignment import alignment_table
from sequence_extension.break_table import (
    break_table,
    break_table_blocks,
    break_table_facts,
    break_table_marks,
    break_table_of_all,
    break_table_pairs,
    break_table_sides,
    break_table_title,
    break_table_words,
)
from sequence_extension.diagnosis import diagnose
from sequence_extension.elements import element_id
from sequence_extension.figures.break_chart import break_chart
from sequence_extension.figures.cells import cell_text_width
from sequence_extension.figures.strip_chart import strip_chart
from sequence_extension.page.views import break_drawings_view
from sequence_extension.rollout import Rollout, rollout_trajectory


def test_title_says_whose_tokens_are_gone() -> None:
    turns = [([1, 2], [3, 4, 5, 6, 7]), ([1, 2, 3, 7, 8], [9])]
    diagnosis = diagnose(make_rollout(*turns))
    title = break_table_title(diagnosis, diagnosis.breaks[0])
    assert title == "Turn 1 splits: 3 tokens of turn 0's action are gone"


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_break_table_holds_both_sequences(case: dict[str, Any]) -> None:
    """Read back from the table: every element of both sides, in order, whatever is cut."""
    diagnosis = diagnose(case_rollout(case))
    for found in diagnosis.breaks:
        held, new = break_table_sides(diagnosis, found)
        table = break_table(diagnosis, found)
        marked = table["mark"].str.contains("expected")
        assert table.loc[marked, "held_index"].tolist() == [str(found.position)]
        got = [] if found.got is None else [str(found.position)]
        assert table.loc[table["mark"].str.contains("got"), "new_index"].tolist() == got
        for side, elements in (("held", held), ("new", new)):
            shown = table[table[f"{side}_index"] != ""]
            at = 0
            for row in shown.to_dict("records"):
                assert int(row[f"{side}_index"]) == at
                if row["count"] == 1:
                    assert row[f"{side}_id"] == element_id(elements[at])
                at += row["count"]
            assert at == len(elements)
        counted = table.groupby("kind")["count"].sum()
        replaced = table[table["kind"] == "replaced"]
        for row in replaced[replaced["count"] == 1].to_dict("records"):
            assert row["held_id"] != row["new_id"] or row["held_id"] == "img"
        paired = counted.get("replaced", 0)
        assert counted.get("removed", 0) + paired == found.removed
        # the cheapest edit takes an end token away; the one that came for it is drawn across it
        swapped = found.cause == "end_token" and not found.inserted
        assert counted.get("inserted", 0) + paired == found.inserted + swapped
        kinds = table["kind"].tolist()
        assert not {("removed", "inserted"), ("inserted", "removed")} & set(pairwise(kinds))


def test_parts_of_characters_are_written_by_their_code() -> None:
    """A table cannot hold the lone surrogates that stand for bytes."""
    trajectory = rollout_trajectory([([1, 2], [3]), ([1, 2, 4], [5])])
    diagnosis = diagnose(Rollout("bytes", trajectory, {2: "\udce2", 3: "\udc82", 4: "\ud800"}))
    (item,) = diagnosis.breaks
    table = break_table(diagnosis, item)
    assert {"<82>", "\\ud800"} <= {*table["held_text"], *table["new_text"]}
    assert break_table_words(diagnosis, item) == ("[1]<E2>", "<82>", "\\ud800")
    assert len(break_table_of_all(diagnosis)) == 1


def test_break_table_of_a_long_break_stays_small() -> None:
    ob = list(range(10, 5_000))
    new = [*ob[:100], *ob[1_100:], 3, *range(9_000, 9_900)]
    diagnosis = diagnose(make_rollout((ob, [3]), (new, [1])))
    (found,) = diagnosis.breaks
    assert (found.cause, found.removed) == ("removed", 1_000)
    table = break_table(diagnosis, found)
    assert len(table) < 30
    assert table["count"].sum() == len(ob) + 1 + 900


def test_break_table_of_scattered_changes_is_cut_at_the_end() -> None:
    ob = list(range(10, 1_010))
    new = [token for token in ob if token % 9]
    diagnosis = diagnose(make_rollout((ob, [3]), ([*new, 3, 5], [1])))
    table = break_table(diagnosis, diagnosis.breaks[0])
    assert len(table) == 61
    blocks = break_table_blocks(diagnosis, diagnosis.breaks[0])
    assert table["count"].sum() == sum(length for *_, length in break_table_pairs(blocks))
    assert table["count"].iloc[-1] > 800
    facts = break_table_facts(table).iloc[-1]
    assert facts["held"] == f"{table['count'].iloc[-1]} more"


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_break_of_each_cause_is_drawn(case: dict[str, Any]) -> None:
    """Examples draw one break per cause, the reader's own turns draw all; the rest is counted."""
    diagnosis = diagnose(case_rollout(case))
    causes = [found.cause for found in diagnosis.breaks]
    for most, drawn in ((None, len(set(causes))), (1, min(1, len(causes))), (99, len(causes))):
        page = break_drawings_view(diagnosis, most).text
        assert page.count("<figure ") == drawn
        left = len(causes) - drawn
        assert (f"{left} more break" in page) == (left > 0)
        for found in [diagnosis.breaks[causes.index(cause)] for cause in set(causes)]:
            title = html.escape(break_table_title(diagnosis, found))
            assert most == 1 or f"<b>{title}</b>" in page


def test_where_a_break_comes_into_view() -> None:
    """A narrow page scrolls its box there: the line of the break, in pixels of the drawing."""
    diagnosis = diagnose(make_rollout(([1, 2, 3, 4], [5, 6]), ([1, 2, 3, 9, 9], [7])))
    (found,) = diagnosis.breaks
    assert found.position == 3
    shown = break_table(diagnosis, found)
    table = alignment_table(diagnosis.built, diagnosis.runs, diagnosis.rollout.vocab)
    rows = table[table["datum"] == 0]
    for figure in (break_chart(shown), strip_chart(rows, break_table_marks(diagnosis))):
        (mark,) = csv.DictReader(io.StringIO(figure.to_dict()["datasets"]["breaks"]))
        x, words = float(mark["x"]), float(mark["words"])
        start, end = figure.focus or (0, 0)
        # the line, and its words from the first to the last
        assert (
            start <= min(x, words) <= words + cell_text_width(mark["label"]) <= end <= figure.width
        )
    assert strip_chart(rows).focus is None


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_break_chart_says_what_it_shows(case: dict[str, Any]) -> None:
    diagnosis = diagnose(case_rollout(case))
    for found in diagnosis.breaks:
        table = break_table(diagnosis, found)
        figure = break_chart(table)
        assert f"position {found.position}" in figure.description
        facts = break_table_facts(table)
        assert len(facts) == len(table)
        assert facts["what"].str.contains("✕ expected").sum() == 1
        words = "the observation ends" if found.got is None else "got "
        assert words in figure.description


@pytest.mark.parametrize("name", ["rollback_to_an_earlier_state", "thinking/strip_thinking"])
def test_break_chart_fits_the_schema(name: str) -> None:
    case = next(case for case in CASES if case["name"] == name)
    diagnosis = diagnose(case_rollout(case))
    figure = break_chart(break_table(diagnosis, diagnosis.breaks[0]))
    assert alt.Chart.from_dict(figure.to_dict()).to_dict()


@pytest.mark.parametrize(
    ("came", "words"),
    [
        ([1, 2, 3, 91, 5, 6], "1 token of turn 0's action was replaced by another"),
        ([1, 2, 3, 91, 92, 5, 6], "1 token of turn 0's action was replaced by 2 others"),
        ([1, 2, 3, 91, 6], "2 tokens of turn 0's action were replaced by 1 other"),
    ],
)
def test_what_was_replaced_is_counted(came: list[int], words: str) -> None:
    diagnosis = diagnose(make_rollout(([1, 2, 3], [4, 5, 6]), (came, [7])))
    assert words in break_table_title(diagnosis, diagnosis.breaks[0])


def test_no_name_of_a_turn_crosses_the_line_of_a_break() -> None:
    diagnosis = diagnose(make_rollout(([1, 2, 3], [4]), ([1, 9, 3, 4, 5], [6])))
    table = alignment_table(diagnosis.built, diagnosis.runs, diagnosis.rollout.vocab)
    drawn = [
        break_chart(break_table(diagnosis, diagnosis.breaks[0])),
        strip_chart(table[table["datum"] == 0], break_table_marks(diagnosis)),
    ]
    for figure in drawn:
        line = figure.tables["breaks"][0]["x"]
        above = [row for row in figure.tables["turns"] if row.get("lane", "turn") == "turn"]
        crossing = [
            row
            for row in above
            if row["left"] < line < row["right"]
            and row["left"] + 3 + cell_text_width(row["label"]) > line
        ]
        assert not crossing
        assert above[0]["label"] in ("0: O", "O")


def test_what_begins_at_a_break_names_its_turn() -> None:
    """On a phone it is what is in view first."""
    diagnosis = diagnose(make_rollout(([1, 2, 3], [4, 5, 6]), ([1, 2, 3, 6], [7])))
    figure = break_chart(break_table(diagnosis, diagnosis.breaks[0]))
    assert [row["label"] for row in figure.tables["turns"]] == ["turn 0: O", "turn 0: A"]
