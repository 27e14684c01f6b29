"""Causes by count, drawn.

1. A bar for each cause, the longest first, with its number; no bar is cut.
2. The finding and the description name counts.
"""

from sequence_extension.figures.causes_chart import causes_chart, causes_chart_title
from sequence_extension.remedies import CAUSES


def test_a_bar_for_each_cause_the_longest_first() -> None:
    """Invariant 1."""
    counts = {cause: 3 + place for place, cause in enumerate(CAUSES)}
    figure = causes_chart(counts)
    drawn = figure.tables["causes"]
    assert [bar["turns"] for bar in drawn] == sorted(counts.values(), reverse=True)
    assert drawn[0]["cause"] == "replaced"
    assert figure.height == 22 * len(CAUSES)
    assert causes_chart({"removed": 1_234}).height == 22


def test_the_finding_counts() -> None:
    """Invariant 2."""
    assert causes_chart_title({"removed": 1}) == "1 turn splits, by the cause removed"
    assert causes_chart_title({"end_token": 2, "removed": 1_000}) == (
        "1,002 turns split, 1,000 of them by the cause removed"
    )
    assert causes_chart_title({"end_token": 2, "removed": 2}) == "4 turns split, by 2 causes"
    assert causes_chart({"end_token": 2, "removed": 3}).description == (
        "5 turns split, 3 of them by the cause removed: removed 3, end token 2."
    )
