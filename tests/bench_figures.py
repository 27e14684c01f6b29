"""What a figure costs: declaring it once, binding and writing it per edit, bytes per token.

uv run python tests/bench_figures.py
"""

import json
import time
from collections.abc import Callable
from typing import Any

import pandas as pd
from test_figures import extending, table_of

from sequence_extension.break_table import break_table
from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.scenarios import scenario_rollout, scenarios
from sequence_extension.figures.break_chart import break_chart, break_chart_template
from sequence_extension.figures.cost_chart import (
    cost_chart_areas_template,
    cost_chart_curves_template,
)
from sequence_extension.figures.group_chart import group_chart_template
from sequence_extension.figures.matrix_chart import matrix_chart_template
from sequence_extension.figures.runs_chart import runs_chart_template
from sequence_extension.figures.staircase_chart import staircase_chart, staircase_chart_template
from sequence_extension.figures.strip_chart import strip_chart, strip_chart_template
from sequence_extension.staircase import staircase_panels


def milliseconds(work: Callable[[], Any], times: int = 15) -> float:
    """The quickest of some runs, for others may use the machine; the first is left out."""
    taken = []
    for _ in range(times + 1):
        start = time.perf_counter()
        work()
        taken.append(1000 * (time.perf_counter() - start))
    return min(taken[1:])


def measure() -> pd.DataFrame:
    """A row per figure: milliseconds to declare, and to bind and write; bytes beyond the template.

    The strip is measured at 14 and 512 tokens, with a text for every token.
    """
    templates: dict[str, Callable[[], Any]] = {
        "strip": strip_chart_template.__wrapped__,
        "break": break_chart_template.__wrapped__,
        "runs": runs_chart_template.__wrapped__,
        "group": group_chart_template.__wrapped__,
        "areas": cost_chart_areas_template.__wrapped__,
        "curves": cost_chart_curves_template.__wrapped__,
        "matrix": matrix_chart_template.__wrapped__,
        "staircase": lambda: staircase_chart_template.__wrapped__(("one",), 4, 0),
    }
    rows: list[dict[str, Any]] = [
        {"what": f"{name}, declared", "ms": milliseconds(work, 3)}
        for name, work in templates.items()
    ]
    size = len(json.dumps(strip_chart_template()))
    for tokens in (14, 512):
        vocab = dict.fromkeys([*range(1000, 1500), *range(150_000, 150_500)], " token")
        table = table_of(extending(tokens, vocab))
        written = len(strip_chart(table).to_json().encode())
        rows.append(
            {
                "what": f"strip, {tokens} tokens",
                "ms": milliseconds(lambda table=table: strip_chart(table).to_json()),  # type: ignore[misc]
                "bytes per token": (written - size) / tokens,
            }
        )
    found = diagnose(scenario_rollout(scenarios()["removed"]))
    table = break_table(found, found.breaks[0])
    rows.append({"what": "break", "ms": milliseconds(lambda: break_chart(table).to_json())})
    told = [
        (item.title, item.lesson, diagnose(scenario_rollout(item))) for item in scenarios().values()
    ]
    tables = staircase_panels(told)
    rows.append(
        {"what": "staircase", "ms": milliseconds(lambda: staircase_chart(tables).to_json())}
    )
    return pd.DataFrame(rows).round(2)


if __name__ == "__main__":
    print(measure().to_string(index=False))
