"""Speed of the notebook beside bare notebooks and pages, in one run and one table.

    uv run python tests/benchmark.py [--rounds N]

Each measure alternates between the notebook and its bare counterpart, so that both meet the same
machine, and gives the median. Times in the browser are taken in the page.
"""

import argparse
import contextlib
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from bench_files import bench_files
from browser import (
    NOTEBOOK,
    STATIC_URL,
    Export,
    Reader,
    copy_project,
    export_html,
    launch,
    seat,
    serve,
)
from playwright.sync_api import Browser, sync_playwright

from sequence_extension.alignment import alignment_table, window
from sequence_extension.break_table import break_marks
from sequence_extension.diagnosis import diagnose
from sequence_extension.editor.drafts import drafts_to_rollout
from sequence_extension.editor.scenarios import scenarios
from sequence_extension.figures.strip import STRIP_WINDOW
from sequence_extension.page.views import strip_figure

SIZES = (14, 512, 4_000)
# The longest list of tokens that one field of the editor takes is 2,000.
FIELD_TOKENS = 1_990

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
  const look = () => {
    const echo = document.querySelector("pre.echo");
    if (echo) return echo.textContent;
    const cells = [...document.querySelectorAll(".marimo-cell")];
    const from = cells.findIndex((c) => c.querySelector("h2")?.textContent.startsWith("3. "));
    const to = cells.findIndex((c) => c.querySelector("h2")?.textContent.startsWith("4. "));
    const canvases = cells.slice(from, to).flatMap(all).filter((e) => e.matches("canvas"));
    const drawn = canvases.filter((c) => c.width && c.height).map(pixels);
    return drawn.length && drawn.every(Boolean) ? drawn.join("|") : "";
  };
  const before = look();
  performance.clearResourceTimings(); // else a full list takes no more
  const sent = () => performance.getEntriesByType("resource").find(
    (entry) => entry.name.includes("set_ui_element_value"));
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
    """One line of the table. `goal` bounds the ratio, or the value where there is no `bare`."""

    measure: str
    value: float
    bare: float | None = None
    unit: str = "s"
    goal: float | None = None

    def text(self) -> str:
        ratio = self.value / self.bare if self.bare else None
        judged = ratio if self.bare else self.value
        verdict = "" if self.goal is None or judged is None else f"<= {self.goal:g}"
        if verdict:
            verdict += " met" if judged is not None and judged <= (self.goal or 0) else " MISSED"
        cells = (
            f"{self.value:.3g} {self.unit}",
            f"{self.bare:.3g} {self.unit}" if self.bare else "",
            f"{ratio:.2f}" if ratio else "",
            verdict,
        )
        return f"| {self.measure:<52} |" + "|".join(f" {cell:>13} " for cell in cells) + "|"


def bare_notebook(folder: Path, name: str, cells: str) -> Path:
    """A notebook with the setup cell of the tutorial, hence the same imports, and a few cells."""
    source = NOTEBOOK.read_text(encoding="utf-8")
    setup = re.search(r"^with app\.setup.*?(?=^@app\.)", source, re.DOTALL | re.MULTILINE)
    assert setup is not None
    path = folder / name
    path.write_text(
        "import marimo\n\napp = marimo.App()\n\n" + setup[0] + cells + "\n", encoding="utf-8"
    )
    return path


def first_figure(browser: Browser, notebook: Path) -> tuple[float, float]:
    """Seconds from opening the page to the first drawn figure: new server, then a second reader."""
    seconds: list[float] = []
    with serve("run", notebook) as server:
        for _ in range(2):
            with seat(browser) as reader:
                started = time.perf_counter()
                reader.page.goto(server.url)
                reader.page.locator(".vega-embed canvas").first.wait_for()
                seconds.append(time.perf_counter() - started)
    return seconds[0], seconds[1]


@contextlib.contextmanager
def open_app(browser: Browser, notebook: Path) -> Iterator[Reader]:
    with serve("run", notebook) as server, seat(browser) as reader:
        reader.open(server)
        yield reader


def ids(count: int, first: int = 1000) -> str:
    return " ".join(str(first + index) for index in range(count))


def fill_up(reader: Reader, tokens: int) -> None:
    """Lengthen the last two turns until the rollout holds this many tokens (14 to begin with)."""
    extra = tokens - SIZES[0]
    for turn in (2, 1):
        more = min(extra, FIELD_TOKENS)
        if more > 0:
            field = reader.page.get_by_label("New observation tokens", exact=True).nth(turn)
            with reader.answer():
                field.fill(field.input_value() + " " + ids(more))
            extra -= more


def edit(reader: Reader, label: str, texts: tuple[str, str], rounds: int) -> float:
    """Median seconds from sending an edit of a field to what it changes on the screen."""
    seconds: list[float] = []
    field = reader.page.get_by_label(label, exact=True).first
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
        rows = window(table[table["datum"] == 0], 0, STRIP_WINDOW)
        return strip_figure(rows, break_marks(diagnosis))

    return least(once, 5)


def least(action: Callable[[], Any], times: int) -> float:
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def first_paint(browser: Browser, page: Export, rounds: int) -> tuple[float, float]:
    """Median seconds to the first contentful paint and to the first figure of a static page."""
    paints: list[float] = []
    figures: list[float] = []
    for _ in range(rounds):
        with seat(browser, answers={STATIC_URL: page.path}) as reader:
            reader.page.goto(STATIC_URL)
            reader.page.locator(".vega-embed canvas").first.wait_for()
            figures.append(reader.page.evaluate("performance.now()") / 1000)
            paints.append(
                reader.page.evaluate(
                    "performance.getEntriesByName('first-contentful-paint')[0].startTime"
                )
                / 1000
            )
    return statistics.median(paints), statistics.median(figures)


def measure(rounds: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        ours = copy_project(folder / "ours")
        figure = bare_notebook(folder, "figure.py", FIGURE_CELL)
        echo = bare_notebook(folder, "echo.py", ECHO_CELLS)
        browser = launch(playwright)

        pairs = [
            (first_figure(browser, ours), first_figure(browser, figure)) for _ in range(rounds)
        ]
        for place, what in enumerate(("first reader of a new server", "next reader")):
            yield Row(
                f"first figure, run mode, {what}",
                statistics.median(mine[place] for mine, _ in pairs),
                statistics.median(bare[place] for _, bare in pairs),
                goal=1.3,
            )

        with open_app(browser, ours) as reader, open_app(browser, echo) as bare:
            for tokens in SIZES:
                fill_up(reader, tokens)
                texts = (ids(tokens), ids(tokens, 2000))
                yield Row(
                    f"edit to redrawn strip, {tokens:,} tokens",
                    edit(reader, "Action tokens", ("200 201 202", "200 201"), 2 * rounds),
                    edit(bare, "Echo", texts, 2 * rounds),
                    goal=2,
                )
                # back to the original turns before the next size
                with reader.answer():
                    reader.page.get_by_role("button", name="Reset", exact=True).click()

        for code, words in (("--no-include-code", "without code"), ("--include-code", "with code")):
            mine = export_html(ours, folder / "ours.html", code)
            bare_page = export_html(figure, folder / "figure.html", code)
            yield Row(
                f"static page {words}",
                len(mine.text.encode()) / 1000,
                unit="KB",
                goal=500,
            )
            for kind, seconds, other in zip(
                ("first paint", "first figure"),
                first_paint(browser, mine, rounds),
                first_paint(browser, bare_page, rounds),
                strict=True,
            ):
                yield Row(f"static page {words}, {kind}", seconds, other, goal=1.3)
        browser.close()

    for tokens in SIZES:
        yield Row(f"Python behind one edit, {tokens:,} tokens", 1000 * work(tokens), unit="ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of each measure")
    rounds = parser.parse_args().rounds
    heads = ("notebook", "bare", "ratio", "goal")
    print(f"| {'measure':<52} |" + "|".join(f" {head:>13} " for head in heads) + "|")
    print(f"| {'-' * 52} |" + "|".join(f" {'-' * 12}: " for _ in heads) + "|")
    for row in measure(rounds):
        print(row.text(), flush=True)
    print("\nLong rollouts and large files:")
    print(pd.DataFrame(bench_files()).to_string(index=False))


if __name__ == "__main__":
    main()
