"""Speed of the notebook beside bare notebooks, pages and imports, in one run and one table.

    uv run python tests/benchmark.py [--rounds N] [--only WORD ...] [--old FILE]

Each measure alternates between the notebook and its bare counterpart, so that both meet the same
machine, and gives the median. Times in the browser are taken in the page. `--old` compares an
earlier edition that was one file: `git show 072d662:404_sequence_extension.py > old.py`.
"""

import argparse
import contextlib
import gzip
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from bench_env import bench_env
from bench_files import bench_files, least
from browser import (
    STATIC_URL,
    Reader,
    clean_environment,
    copy_project,
    export_html,
    launch,
    seat,
    serve,
)
from playwright.sync_api import Browser, Locator, sync_playwright

from sequence_extension.alignment import alignment_table, alignment_window
from sequence_extension.break_table import break_table_marks
from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.drafts import drafts_to_rollout
from sequence_extension.editor.scenarios import scenarios
from sequence_extension.figures.strip_chart import STRIP_WINDOW
from sequence_extension.page.strips import strip_view

SIZES = (14, 512, 4_000)
# Seconds from an edit to the redrawn strip, at most.
REDRAWN_S = {14: 0.15, 512: 0.25, 4_000: None}
# The longest list of tokens that one field of the editor takes is 2,000.
FIELD_TOKENS = 1_990

# The same imports as the tutorial's, and one thing to look at.
SETUP = """
import marimo

app = marimo.App()

with app.setup:
    import html

    import altair as alt
    import marimo as mo
    import pandas as pd
    from tinker_cookbook.rl.data_processing import trajectory_to_data

"""
FIGURE_CELL = """
@app.cell
def _():
    alt.Chart(pd.DataFrame({"x": [1, 2, 3]})).mark_bar().encode(x="x:Q", y="count():Q")
    return
"""
ECHO_CELLS = """
@app.cell
def _():
    echo = mo.ui.text(label="Echo", debounce=False, full_width=True)
    echo
    return (echo,)

@app.cell
def _(echo):
    mo.Html(f'<pre class="echo">{html.escape(echo.value)}</pre>')
    return
"""
ONE_LINE = (
    '{"transitions": [{"ob": [1, 2], "ac": [3], "logprobs": [-0.5]}, '
    '{"ob": [1, 2, 3, 4], "ac": [5], "logprobs": [-0.5]}]}\n'
)
# Seconds since the page was opened until its thread has answered within 0.1 s for a second.
AT_REST = """
() => new Promise((done) => {
  let quiet = 0, last = performance.now();
  const tick = () => {
    const now = performance.now();
    quiet = now - last < 100 ? quiet + now - last : 0;
    last = now;
    quiet > 1000 ? done((now - quiet) / 1000) : setTimeout(tick, 16);
  };
  tick();
})
"""

# From the request that carries an edit to the moment when what is watched has changed on screen.
# A figure counts as redrawn when its canvas shows other pixels, sampled small.
WATCH = """
() => {
  const all = (root) => [...root.querySelectorAll("*")].flatMap(
    (e) => e.shadowRoot ? [e, ...all(e.shadowRoot)] : [e]);
  const pixels = (canvas) => {
    const small = new OffscreenCanvas(160, 24);
    const pen = small.getContext("2d", {willReadFrequently: true});
    pen.drawImage(canvas, 0, 0, 160, 24);
    const data = new Uint32Array(pen.getImageData(0, 0, 160, 24).data.buffer);
    return data.every((pixel) => pixel === data[0]) ? "" : data.join();
  };
  const START = "The datums, token by token", END = "Why did it split?";
  const look = () => {
    const echo = document.querySelector("pre.echo");
    if (echo) return echo.textContent;
    const cells = [...document.querySelectorAll(".marimo-cell")];
    const from = cells.findIndex((c) => c.querySelector("h2")?.textContent.endsWith(START));
    const to = cells.findIndex((c) => c.querySelector("h2")?.textContent.endsWith(END));
    const canvases = cells.slice(from, to).flatMap(all).filter((e) => e.matches("canvas"));
    const drawn = canvases.filter((c) => c.width && c.height).map(pixels);
    return drawn.length && drawn.every(Boolean) ? drawn.join("|") : "";
  };
  const before = look();
  performance.clearResourceTimings(); // else a full list takes no more
  const sent = () => performance.getEntriesByType("resource").find(
    (entry) => /set_(ui_element|model)_value/.test(entry.name));
  let changed = null;
  window.__changed = new Promise((done) => {
    const tick = () => {
      const now = changed === null ? look() : "";
      if (now && now !== before) changed = performance.now();
      if (changed !== null && sent()) done(changed - sent().startTime);
      else requestAnimationFrame(tick);
    };
    tick();
  });
}
"""


@dataclass(frozen=True)
class Row:
    """One line of the table. `goal` bounds the ratio, or the value where there is no `bare`
    or `absolute` says so."""

    measure: str
    value: float
    bare: float | None = None
    old: float | None = None
    unit: str = "s"
    goal: float | None = None
    absolute: bool = False

    def text(self) -> str:
        ratio = self.value / self.bare if self.bare else None
        judged = self.value if ratio is None or self.absolute else ratio
        verdict = ""
        if self.goal is not None:
            verdict = f"<= {self.goal:g} " + ("met" if judged <= self.goal else "MISSED")
        numbers = [
            "" if number is None else f"{number:.3g} {self.unit}"
            for number in (self.value, self.bare, self.old)
        ]
        numbers.insert(2, f"{ratio:.2f}" if ratio else "")
        return table_line(self.measure, [*numbers, verdict])


def table_line(measure: str, cells: list[str]) -> str:
    return f"| {measure:<50} |" + "|".join(f" {cell:>12} " for cell in cells) + "|"


@dataclass(frozen=True)
class Edition:
    """A notebook to measure, and the options that marimo needs for it."""

    notebook: Path
    options: tuple[str, ...] = ()


def bare_notebook(folder: Path, name: str, cells: str) -> Edition:
    path = folder / name
    path.write_text(SETUP + cells, encoding="utf-8")
    return Edition(path)


def median_of(
    rounds: int, measure: Callable[[Edition], tuple[float, ...]], *editions: Edition
) -> list[tuple[float, ...]]:
    """Medians of what is measured, for each edition; they take turns."""
    seen: list[list[tuple[float, ...]]] = [[] for _ in editions]
    for _ in range(rounds):
        for place, edition in enumerate(editions):
            seen[place].append(measure(edition))
    return [tuple(statistics.median(values) for values in zip(*rows, strict=True)) for rows in seen]


def first_figures(browser: Browser, edition: Edition) -> tuple[float, float, float]:
    """Seconds to the first figure on a new server, for the next reader, and layout shift."""
    seconds: list[float] = []
    with serve("run", edition.notebook, *edition.options) as server:
        for _ in range(2):
            with seat(browser) as reader:
                reader.page.goto(server.url)
                reader.page.locator(".vega-embed canvas").first.wait_for()
                seconds.append(reader.page.evaluate("performance.now()") / 1000)
                reader.page.wait_for_function("window.__answers > 0")
                reader.settle()
                shift = reader.page.evaluate("window.__shift")
    return seconds[0], seconds[1], shift


def editor(browser: Browser, edition: Edition) -> tuple[float, float]:
    """Seconds until the editor shows its first figure, and until it is at rest."""
    with serve("edit", edition.notebook, *edition.options) as server, seat(browser) as reader:
        reader.page.set_default_timeout(400_000)
        reader.page.goto(server.url)
        reader.page.locator(".vega-embed canvas").first.wait_for()
        figure = reader.page.evaluate("performance.now()") / 1000
        reader.page.wait_for_function("window.__answers > 0")
        return figure, reader.page.evaluate(AT_REST)


def export(folder: Path, edition: Edition) -> tuple[float, float, float]:
    """Seconds of an export without code; KB of the page, and compressed."""
    started = time.perf_counter()
    page = export_html(
        edition.notebook, folder / "page.html", "--no-include-code", *edition.options
    )
    seconds = time.perf_counter() - started
    data = page.text.encode()
    return seconds, len(data) / 1000, len(gzip.compress(data)) / 1000


def process(*words: str | Path) -> float:
    """Seconds that a Python process takes."""
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, *words], check=True, stdout=subprocess.DEVNULL, env=clean_environment()
    )
    return time.perf_counter() - started


@contextlib.contextmanager
def open_app(browser: Browser, edition: Edition) -> Iterator[Reader]:
    with serve("run", edition.notebook, *edition.options) as server, seat(browser) as reader:
        reader.open(server)
        yield reader


def ids(count: int, first: int = 1000) -> str:
    return " ".join(str(first + index) for index in range(count))


def fill_up(reader: Reader, tokens: int) -> None:
    """Lengthen the last two turns until the rollout holds this many tokens (14 to begin with)."""
    extra = tokens - SIZES[0]
    fields = reader.page.locator(".turns-editor [data-field=ob] input")
    for turn in (2, 1):
        more = min(extra, FIELD_TOKENS)
        if more > 0:
            field = fields.nth(turn)
            with reader.answer():
                field.fill(field.input_value() + " " + ids(more))
            extra -= more


def edit(reader: Reader, field: Locator, texts: tuple[str, str], rounds: int) -> float:
    """Median seconds from sending an edit of a field to what it changes on the screen."""
    seconds: list[float] = []
    for index in range(rounds):
        reader.page.evaluate(WATCH)
        with reader.answer():
            field.fill(texts[index % 2])
        reader.page.wait_for_function("window.__changed.then(() => true)")  # or its time is up
        seconds.append(reader.page.evaluate("window.__changed") / 1000)
    return statistics.median(seconds)


def work(tokens: int) -> float:
    """Least seconds of the Python behind one edit: turns as typed to verdicts, table, figure."""
    scenario = scenarios()[next(iter(scenarios()))]
    drafts = list(scenario.drafts)
    extra = tokens - SIZES[0]
    for turn in (2, 1):
        more = min(max(extra, 0), FIELD_TOKENS)
        draft = drafts[turn]
        drafts[turn] = replace(draft, ob=f"{draft.ob} {ids(more)}".strip())
        extra -= more

    def once() -> Any:
        rollout, _ = drafts_to_rollout(tuple(drafts), scenario.vocab, "benchmark")
        assert rollout is not None
        diagnosis = diagnose(rollout)
        table = alignment_table(diagnosis.built, diagnosis.runs, scenario.vocab)
        rows = alignment_window(table[table["datum"] == 0], 0, STRIP_WINDOW)
        return strip_view(rows, break_table_marks(diagnosis))

    return least(once, 5)


def first_paint(browser: Browser, page: Path) -> tuple[float, float]:
    """Seconds to the first contentful paint and to the first figure of a static page."""
    with seat(browser, answers={STATIC_URL: page}) as reader:
        reader.page.goto(STATIC_URL)
        reader.page.locator(".vega-embed canvas").first.wait_for()
        figure = reader.page.evaluate("performance.now()") / 1000
        paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        return reader.page.evaluate(paint) / 1000, figure


class Benchmark:
    """The measures, each a generator of rows, in the order of the table."""

    def __init__(self, browser: Browser, folder: Path, rounds: int, old: Path | None) -> None:
        self.browser, self.folder, self.rounds = browser, folder, rounds
        ours = copy_project(folder / "ours")  # all in one project, so that `uv run` finds marimo
        self.bare = bare_notebook(ours.parent, "figure.py", FIGURE_CELL)
        self.editions = [Edition(ours), self.bare]
        if old:
            copy = ours.parent / "old.py"
            copy.write_bytes(old.read_bytes())
            self.editions.append(Edition(copy, ("--no-sandbox",)))

    def rows(
        self,
        measure: Callable[[Edition], tuple[float, ...]],
        *names: tuple[str, str, float | None, bool],
    ) -> Iterator[Row]:
        """A row for each number that is measured: its name, unit, goal, and whether bare has it."""
        ours, bare, *rest = median_of(self.rounds, measure, *self.editions)
        for place, (name, unit, goal, beside) in enumerate(names):
            yield Row(
                name,
                ours[place],
                bare[place] if beside else None,
                rest[0][place] if rest else None,
                unit,
                goal,
            )

    def run(self) -> Iterator[Row]:
        yield from self.rows(
            lambda edition: first_figures(self.browser, edition),
            ("run, first figure, first reader of a server", "s", 1.4, True),
            ("run, first figure, next reader", "s", 1.4, True),
            ("run, layout shift while loading", "", 0.1, False),
        )

    def edit(self) -> Iterator[Row]:
        yield from self.rows(
            lambda edition: editor(self.browser, edition),
            ("edit, first figure", "s", None, True),
            ("edit, at rest", "s", None, True),
        )

    def export(self) -> Iterator[Row]:
        yield from self.rows(
            lambda edition: export(self.folder, edition),
            ("export html without code", "s", None, True),
            ("its page", "KB", None, True),
            ("its page, compressed", "KB", None, True),
        )

    def command(self) -> Iterator[Row]:
        file = self.folder / "one.jsonl"
        file.write_text(ONE_LINE, encoding="utf-8")
        bare = ("-c", "import tinker_cookbook.rl.data_processing")
        old = [edition.notebook for edition in self.editions[2:]]
        times = [
            (
                process("-m", "sequence_extension", file),
                process(*bare),
                process("-m", "sequence_extension", "--help"),
                process(old[0], "--trajectory", file) if old else None,
            )
            for _ in range(self.rounds)
        ]
        ours, imported, helped, before = zip(*times, strict=True)
        yield Row(
            "command, a file of one line",
            statistics.median(ours),
            statistics.median(imported),
            statistics.median(filter(None, before)) if old else None,
            goal=1.3,
        )
        yield Row("command, --help", statistics.median(helped), goal=0.3)

    def redraw(self) -> Iterator[Row]:
        echo = bare_notebook(self.bare.notebook.parent, "echo.py", ECHO_CELLS)
        with (
            open_app(self.browser, self.editions[0]) as reader,
            open_app(self.browser, echo) as bare,
        ):
            folds = reader.page.locator(".turns-editor details")
            folds.evaluate_all("all => all.forEach((fold) => { fold.open = true; })")
            action = reader.page.locator(".turns-editor [data-field=ac] input").first
            typed = bare.page.get_by_label("Echo", exact=True).first
            for tokens in SIZES:
                fill_up(reader, tokens)
                texts = (ids(tokens), ids(tokens, 2000))
                yield Row(
                    f"edit to redrawn strip, {tokens:,} tokens",
                    edit(reader, action, ("200 201 202", "200 201"), 2 * self.rounds),
                    edit(bare, typed, texts, 2 * self.rounds),
                    goal=REDRAWN_S[tokens],
                    absolute=True,
                )
                reader.press("Reset")  # back to the original turns before the next size

    def static(self) -> Iterator[Row]:
        pages = {}
        for edition in self.editions:
            pages[edition] = self.folder / f"{edition.notebook.stem}.html"
            export_html(edition.notebook, pages[edition], *edition.options)
        yield from self.rows(
            lambda edition: first_paint(self.browser, pages[edition]),
            ("static page, first paint", "s", 1.3, True),
            ("static page, first figure", "s", 1.4, True),
        )

    def python(self) -> Iterator[Row]:
        for tokens in SIZES:
            yield Row(f"Python behind one edit, {tokens:,} tokens", 1000 * work(tokens), unit="ms")


MEASURES = {
    "run": Benchmark.run,
    "edit": Benchmark.edit,
    "export": Benchmark.export,
    "command": Benchmark.command,
    "redraw": Benchmark.redraw,
    "static": Benchmark.static,
    "python": Benchmark.python,
}


# Measures with tables of their own.
TABLES: dict[str, tuple[str, Callable[[], Any]]] = {
    "files": ("Long rollouts and large files", bench_files),
    "env": ("A step of TokenPreservingEnv beside EnvFromMessageEnv", bench_env),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of each measure")
    parser.add_argument("--old", type=Path, help="an earlier edition, in one file")
    parser.add_argument("--only", nargs="+", choices=[*MEASURES, *TABLES], help="these measures")
    chosen = parser.parse_args()
    wanted = chosen.only or [*MEASURES, *TABLES]
    heads = ["notebook", "bare", "ratio", "old", "goal"]
    print(table_line("", heads))
    print(f"| {'-' * 50} |" + "|".join(f" {'-' * 11}: " for _ in heads) + "|", flush=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        browser = launch(playwright)
        benchmark = Benchmark(browser, Path(name), chosen.rounds, chosen.old)
        for word, measure in MEASURES.items():
            for row in measure(benchmark) if word in wanted else ():
                print(row.text(), flush=True)
        browser.close()
    for word, (title, rows) in TABLES.items():
        if word in wanted:
            print(f"\n{title}:")
            print(pd.DataFrame(rows()).to_string(index=False))


if __name__ == "__main__":
    main()
