"""Speed and memory of long rollouts and large files; `python tests/bench_files.py` prints a table.

Each figure is a ratio, so that machines compare: work on a rollout against one bare
`trajectory_to_data` call on it, reading against the JSON parser alone on the same bytes.
`python tests/bench_files.py FILE --megabytes 1000` writes that much to FILE and runs the command
on it, against the JSON parser and the bare calls on the same lines.
"""

import argparse
import io
import json
import os
import random
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from sequence_extension.alignment import alignment_window
from sequence_extension.break_table import break_table_marks
from sequence_extension.cookbook import trajectory_to_data
from sequence_extension.diagnosis import diagnose
from sequence_extension.figures.runs_chart import runs_chart
from sequence_extension.figures.strip_chart import strip_chart
from sequence_extension.formats.bounded import read_bounded
from sequence_extension.formats.stream import stream_rollouts
from sequence_extension.overview import WINDOW, overview_window_places
from sequence_extension.page.upload import upload_datum_rows

TURNS = 100
SIZES = (8_000, 32_000, 128_000)


def long_rollout(
    turns: int, tokens: int, full: bool = False, split: int = 0, place: int = 0
) -> dict[str, Any]:
    """A rollout in the file format, of `tokens` tokens in the end.

    Args:
        turns: Number of turns.
        tokens: Length of the last observation and action together.
        full: Write every observation whole instead of appending.
        split: Every that many turns the observation starts anew (0: never).
        place: The position that is different from then on.
    """
    step = tokens // turns
    ids = [17 * index % 150_000 for index in range(tokens)]
    made: list[dict[str, Any]] = []
    for turn in range(turns):
        start, end = turn * step, (turn + 1) * step
        cut = end - step // 4
        anew = bool(split) and turn > 0 and turn % split == 0
        if anew:
            ids[place] += 1
        whole = full or anew or not turn
        ob = {"ob": ids[:cut]} if whole else {"append": ids[start:cut]}
        made.append({**ob, "ac": ids[cut:end], "logprobs": [-0.25] * (end - cut)})
    return {"name": f"{tokens} tokens", "transitions": made}


def least(work: Callable[[], Any], times: int = 3) -> float:
    """Seconds of processor time of the fastest of some runs."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


def peak(work: Callable[[], Any]) -> float:
    """Megabytes allocated at most while the work runs."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def bench_files() -> list[dict[str, Any]]:
    """One row per size and kind of rollout.

    Args:
        nb: The notebook as a module.
    """
    rows = []
    for split in (0, 10):
        for tokens in SIZES:
            # the same rollout, with the history in every turn and with `append`
            data = json.dumps(long_rollout(TURNS, tokens, full=True, split=split)).encode()
            short = json.dumps(long_rollout(TURNS, tokens, split=split)).encode()
            (rollout,) = read_bounded(data).rollouts

            def bare(rollout: Any = rollout) -> Any:
                return trajectory_to_data(rollout.trajectory, 1.0)

            def draw(rollout: Any = rollout) -> Any:
                diagnosis = diagnose(rollout)
                datum, start = next(iter(overview_window_places(diagnosis).values()))
                marks = break_table_marks(diagnosis)
                chart = runs_chart(diagnosis.runs, marks, shown=(datum, start, WINDOW))
                seen = alignment_window(upload_datum_rows(diagnosis, datum), start, WINDOW)
                return len(json.dumps(chart.to_dict())), strip_chart(seen)

            def read(data: bytes = data) -> Any:
                return list(stream_rollouts(io.BytesIO(data)))

            def parse(data: bytes = data) -> Any:
                return json.loads(data)

            base, parsing = least(bare, 7), least(parse)
            brief = partial(parse, short)
            rows.append(
                {
                    "tokens": tokens,
                    "splits": "no" if not split else f"every {split} turns",
                    "file MB": round(len(data) / 1e6, 1),
                    "trajectory_to_data s": round(base, 3),
                    "diagnosis and figures": f"{least(draw, 7) / base:.1f} x",
                    "their memory": f"{peak(draw) / peak(bare):.1f} x",
                    "parser s": round(parsing, 3),
                    "reading": f"{least(read) / parsing:.1f} x",
                    "with append": f"{least(partial(read, short)) / least(brief):.1f} x",
                    # tracing the largest file takes minutes, and the ratio is the same
                    "reading's memory": f"{peak(read) / peak(parse):.1f} x"
                    if tokens <= 32_000
                    else "",
                    "figure KB": round(draw()[0] / 1e3, 1),
                }
            )
    return rows


def write_large(path: Path, megabytes: int) -> None:
    """Rollouts of 2 to 12 turns, whole prompts in each, every third of them with splits."""
    rng = random.Random(0)
    made = [
        long_rollout(turns, 300 * turns, full=True, split=(0, 0, 3)[index % 3], place=index)
        for index, turns in enumerate(rng.choices(range(2, 13), k=60))
    ]
    for rollout in made:
        for turn in rollout["transitions"]:
            turn["logprobs"] = [-round(rng.expovariate(2.0), 6) for _ in turn["ac"]]
    lines = [json.dumps(rollout) + "\n" for rollout in made]
    with path.open("w") as file:
        while file.tell() < megabytes * 1e6:
            file.writelines(lines)


def bare_seconds(path: Path) -> tuple[float, float]:
    """Processor time of the JSON parser, and of the bare calls, on every line of a file."""
    parsing = calls = 0.0
    with path.open("rb") as file:
        for line in file:
            start = time.process_time()
            json.loads(line)
            parsing += time.process_time() - start
            (rollout,) = read_bounded(line).rollouts
            start = time.process_time()
            trajectory_to_data(rollout.trajectory, 1.0)
            calls += time.process_time() - start
    return parsing, calls


def bench_large(path: Path, megabytes: int) -> dict[str, Any]:
    """The command on a file of that size, on one core, and its largest memory."""
    write_large(path, megabytes)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "sequence_extension", str(path), "--show", "3"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    parsing, calls = bare_seconds(path)
    return {
        "file MB": round(os.path.getsize(path) / 1e6),
        "parser s": round(parsing, 1),
        "trajectory_to_data s": round(calls, 1),
        "command s": round(spent, 1),
        "ratio": round(spent / (parsing + calls), 2),
        "peak MB": round(after.ru_maxrss / 1e3),
    }


def main() -> None:
    import pandas as pd

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--megabytes", type=int, default=1_000)
    options = parser.parse_args()
    rows = [bench_large(options.file, options.megabytes)] if options.file else bench_files()
    print(pd.DataFrame(rows).to_string(index=False))


if __name__ == "__main__":
    main()
