"""Helpers around the notebook as people meet it: served, opened in a browser, exported.

Plain functions and classes, no pytest: the fixtures in `conftest.py` and the scripts beside it
(`benchmark.py`, `load.py`, `screenshots.py`) are built from them.
"""

import base64
import contextlib
import csv
import html
import io
import json
import os
import pty
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import marimo
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Playwright, Request, Route

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "404_sequence_extension.py"
STATIC = Path(marimo.__file__).parent / "_static"
CDN = "https://cdn.jsdelivr.net/npm/@marimo-team/frontend@"
STATIC_URL = "https://static.test/page.html"
WIDTHS = {"wide": 1280, "narrow": 390}

# Without these, Chromium looks up hosts of its own at every start.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# What marimo asks on a terminal when it may make an environment.
QUESTION = "[Y/n]"
# Generous: the first import of the cookbook on a busy machine takes many seconds.
PATIENCE_S = 120.0

# Reads the kernel's messages in the page: counts answers, so that a test waits for an event and
# not for a clock; keeps what failed, because run mode hides failed cells from the reader; sums up
# by how much of the window anything has jumped; and keeps where the first title of a static page
# stood.
LISTEN = """
window.__answers = 0;
window.__busy = new Set();
window.__failures = [];
window.__shift = 0;
window.__early = null;
new MutationObserver((_, watch) => {
  const title = document.querySelector("#seq-early h1");
  if (!title) return;
  window.__early = title.getBoundingClientRect();
  watch.disconnect();
}).observe(document, {childList: true, subtree: true});
window.__typed = -Infinity;
addEventListener("input", () => { window.__typed = performance.now(); }, true);
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.__shift += entry.value;
}).observe({type: "layout-shift", buffered: true});
const listen = (message) => {
  if (message.op === "completed-run") window.__answers += 1;
  if (message.op !== "cell-op") return;
  const {cell_id, output, console: printed, status} = message.data;
  if (status) window.__busy[/queued|running/.test(status) ? "add" : "delete"](cell_id);
  if (output?.channel === "marimo-error") {
    const errors = [output.data].flat().filter((error) => error.type !== "ancestor-stopped");
    if (errors.length) window.__failures.push(`${cell_id}: ${JSON.stringify(errors)}`);
  }
  for (const line of [printed ?? []].flat()) {
    window.__failures.push(`${cell_id}: ${line.channel}: ${JSON.stringify(line.data)}`);
  }
};
const NativeWebSocket = window.WebSocket;
window.WebSocket = class extends NativeWebSocket {
  constructor(...args) {
    super(...args);
    this.addEventListener("message", (event) => {
      if (typeof event.data === "string") listen(JSON.parse(event.data));
    });
  }
};
"""
# Shadow roots included: marimo draws what stands inside a widget in one.
ALL_ELEMENTS = """
const all = (root) => [...root.querySelectorAll("*")].flatMap(
  (element) => element.shadowRoot ? [element, ...all(element.shadowRoot)] : [element]);
"""
# Outputs are there and visible, nothing says that it is loading, every figure has its canvas.
IS_SETTLED = (
    "() => {"
    + ALL_ELEMENTS
    + """
  const elements = all(document);
  const outputs = elements.filter((e) => e.classList.contains("output-area"));
  const spinning = (e) => e.classList.contains("animate-spin");
  return !document.querySelector("#seq-early")
    && outputs.some((e) => e.checkVisibility({visibilityProperty: true}))
    && !elements.some(spinning)
    && elements.filter((e) => e.matches("[data-container-width], .vega-embed"))
      .every((e) => e.querySelector("canvas, svg.marks"));
}"""
)
BLANK_FIGURES = (
    "() => {"
    + ALL_ELEMENTS
    + """
  return all(document).filter((e) => e.matches(".vega-embed canvas")).map((canvas, index) => {
    if (!canvas.width || !canvas.height) return index;
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const pixels = new Uint32Array(data.buffer);
    return pixels.every((pixel) => pixel === pixels[0]) ? index : -1;
  }).filter((index) => index >= 0);
}"""
)


FIGURE_IN_MARKUP = re.compile(
    r"<marimo-mime-renderer data-mime='[^']*vega[^']*' data-data='([^']*)'"
)


def chromium_path() -> str | None:
    """Chromium of the system, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    return None


def launch(playwright: Playwright) -> Browser:
    """A headless Chromium with a fresh profile (Playwright makes a new one at each launch)."""
    path = chromium_path()
    if path is None:
        raise FileNotFoundError("Chromium is not installed (Debian: apt-get install chromium).")
    return playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)


def clean_environment() -> dict[str, str]:
    """The environment without the user's marimo settings, so that every machine tests the same."""
    return {
        **os.environ,
        "XDG_CONFIG_HOME": str(Path(tempfile.gettempdir()) / "no-such-config"),
        "NO_COLOR": "1",
    }


def run_marimo(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a marimo command to its end; the caller looks at exit code and output."""
    return subprocess.run(
        [sys.executable, "-m", "marimo", *map(str, arguments)],
        cwd=cwd or ROOT,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )


def readme_commands() -> list[str]:
    """The README's commands, as written, in order."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = "\n".join(re.findall(r"```bash\n(.*?)```", readme, re.S)).splitlines()
    return [line for line in lines if not line.startswith("#")]


def readme_command(start: str) -> str:
    """The README's first command that starts with these words."""
    return next(line for line in readme_commands() if line.startswith(start))


@dataclass(frozen=True)
class Terminal:
    """A command that runs on a pseudo-terminal, where marimo may ask questions.

    Attributes:
        process: The command's process.
        log: All that the terminal has shown so far.
    """

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def shown(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


@contextlib.contextmanager
def terminal(command: str, folder: Path, log: Path) -> Iterator[Terminal]:
    """Run a command of the README on a pseudo-terminal until the block ends.

    The environment of the tests is used as it is: uv neither locks nor installs. Without uv,
    marimo is started alone.
    """
    words = shlex.split(command)
    if words[:2] == ["uv", "run"] and shutil.which("uv") is None:
        words = [sys.executable, "-m", *words[2:]]
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        words,
        cwd=folder,
        env={
            **clean_environment(),
            "UV_PROJECT_ENVIRONMENT": sys.prefix,
            "UV_NO_SYNC": "1",
            "UV_FROZEN": "1",
        },
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        start_new_session=True,
    )
    os.close(secondary)
    log.touch()

    def copy() -> None:
        # Linux: reading fails once the other end was closed
        with log.open("ab", buffering=0) as sink, contextlib.suppress(OSError):
            while data := os.read(primary, 65536):
                sink.write(data)

    copying = threading.Thread(target=copy, daemon=True)
    copying.start()
    try:
        yield Terminal(process, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        copying.join(timeout=10)
        os.close(primary)


def shown_by(
    command: str, folder: Path, log: Path, until: str | None = None
) -> tuple[str, int | None]:
    """What a command shows on a terminal: to its end, or until a text or a question is seen.

    Returns:
        The text, and the exit code (None where the command was still running).
    """
    with terminal(command, folder, log) as started:
        deadline = time.monotonic() + PATIENCE_S
        while started.process.poll() is None and time.monotonic() < deadline:
            if QUESTION in started.shown or (until is not None and until in started.shown):
                return started.shown, None
            time.sleep(0.05)
        code = started.process.poll()
    return started.shown, code


def copy_project(target: Path) -> Path:
    """The notebook and what lies beside it, in a folder of its own; returns the notebook.

    The package comes from the environment of the tests, which holds this checkout.
    """
    target.mkdir(parents=True, exist_ok=True)
    for name in (NOTEBOOK.name, "pyproject.toml", "uv.lock", "README.md"):
        shutil.copy(ROOT / name, target / name)
    shutil.copytree(ROOT / "assets", target / "assets", dirs_exist_ok=True)
    return target / NOTEBOOK.name


def free_port() -> int:
    """A port of the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Server:
    """A marimo server under test.

    Attributes:
        url: Where it listens, with the base URL and a trailing slash.
        notebook: The file that is served.
        started: The command that serves it.
    """

    url: str
    notebook: Path
    started: Terminal

    @property
    def output(self) -> str:
        return self.started.shown

    @property
    def pid(self) -> int:
        """The server's own process, below that of uv; sessions run in threads of it (run mode)."""
        parent = self.started.process.pid
        for status in Path("/proc").glob("[0-9]*/status"):
            with contextlib.suppress(OSError):
                if f"\nPPid:\t{parent}\n" in status.read_text(encoding="utf-8"):
                    return int(status.parent.name)
        return parent


@contextlib.contextmanager
def serve(mode: str, notebook: Path, *options: str, base_url: str = "") -> Iterator[Server]:
    """`uv run marimo run` or `edit` on a terminal and a free loopback port, until the block ends.

    Args:
        mode: "run" or "edit".
        notebook: The file to serve; edit mode may write beside it, so give a copy.
        options: More options of the command.
        base_url: Path below which the app is served, such as "/tutorials".
    """
    port = free_port()
    words = ["uv", "run", "marimo", mode, "--headless", "--no-token", "-p", str(port)]
    words += [*(["--base-url", base_url] if base_url else []), *options, str(notebook)]
    log = notebook.parent / f"{mode}-{port}.log"
    with terminal(shlex.join(words), notebook.parent, log) as started:
        server = Server(f"http://127.0.0.1:{port}{base_url}/", notebook, started)
        wait_until_healthy(server)
        yield server


def wait_until_healthy(server: Server) -> None:
    """Ask the server's health page until it answers; fails with the log when it died."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        if server.started.process.poll() is not None or QUESTION in server.output:
            raise RuntimeError(f"The server did not start:\n{server.output}")
        try:
            with urllib.request.urlopen(server.url + "health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            if time.monotonic() > deadline:
                raise RuntimeError(f"The server never answered:\n{server.output}") from None
            time.sleep(0.05)


@dataclass
class Reader:
    """One reader with one page: what they see, and what went wrong behind it.

    Attributes:
        page: The Playwright page.
        faults: Console errors, warnings of Vega, exceptions in the page, refused requests; a
            test that uses the fixtures fails at its end when any is left.
    """

    page: Page
    faults: list[str] = field(default_factory=list)

    @classmethod
    def sit_down(cls, context: BrowserContext) -> "Reader":
        """A new page in a context, with every fault written down from the start."""
        reader = cls(context.new_page())
        page = reader.page
        page.set_default_timeout(PATIENCE_S * 1000)
        page.on(
            "console",
            lambda message: (
                reader.faults.append(f"console {message.type}: {message.text}")
                if message.type == "error" or message.text.startswith("WARN ")  # so does Vega
                else None
            ),
        )
        page.on("pageerror", lambda error: reader.faults.append(f"exception: {error}"))
        page.add_init_script(LISTEN)
        return reader

    def open(self, server: Server, query: str = "") -> None:
        """Open the app and wait until every cell has run and every figure is drawn."""
        self.page.goto(server.url + query)
        self.page.wait_for_function("window.__answers > 0", polling=100)
        self.settle()

    @contextlib.contextmanager
    def answer(self) -> Iterator[None]:
        """What is done inside makes the kernel run; waits until it has answered.

        Only for an action that does reach the kernel: a field is sent when it loses focus
        (press Tab or Enter), and only if its value changed.
        """
        before = self.page.evaluate("window.__answers")
        yield
        self.page.wait_for_function("n => window.__answers > n", arg=before, polling=20)
        self.settle()

    @contextlib.contextmanager
    def sent(self) -> Iterator[None]:
        """What is done inside changes a widget; waits until the server has the new value.

        For a change after which another one follows at once: two requests under way together
        may reach the kernel in either order.
        """
        with self.page.expect_response("**/set_ui_element_value"):
            yield

    def rest(self) -> None:
        """Wait until nothing done before is still to be answered; at once if nothing was."""
        self.page.evaluate(
            """() => new Promise((done) => {
              const look = () => {
                const sent = performance.now() - window.__typed > 700; // no field debounces longer
                if (sent && window.__rested === window.__answers && !window.__busy.size) {
                  return done();
                }
                window.__rested = window.__answers;
                setTimeout(look, 100);
              };
              look();
            })"""
        )
        self.settle()

    def load(self, scenario: str) -> None:
        """Load a scenario into the editor, whatever was there before."""
        editor = self.page.locator(".turns-editor")
        menu = editor.locator(".bar select")
        with self.answer():
            if menu.evaluate("menu => menu.selectedOptions[0].label") == scenario:
                editor.get_by_role("button", name="Reset", exact=True).click()
            else:
                menu.select_option(label=scenario)

    @contextlib.contextmanager
    def neighbour(self) -> Iterator["Reader"]:
        """A page beside this one, in a browser that has loaded all; in front until it closes."""
        reader = Reader.sit_down(self.page.context)
        try:
            yield reader
        finally:
            reader.page.close()
            self.page.bring_to_front()  # what is behind draws seldom

    def settle(self) -> None:
        """Wait until what the kernel has sent is on the screen, and every figure is drawn."""
        self.page.wait_for_function(IS_SETTLED, polling=50)
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def widget(self, label: str, nth: int = 0) -> Locator:
        """The nth form field with this exact label (also inside shadow roots)."""
        return self.page.get_by_label(label, exact=True).nth(nth)

    def type(self, label: str, text: str, nth: int = 0) -> None:
        """Replace the text of a field, leave it, and wait for the answer."""
        with self.answer():
            field = self.widget(label, nth)
            field.fill(text)
            field.blur()

    def choose(self, label: str, option: str, nth: int = 0) -> None:
        """Choose from a dropdown by the option's label, unless it is chosen, and wait."""
        menu = self.widget(label, nth)
        if menu.input_value() != option:
            with self.answer(), self.sent():
                menu.select_option(label=option)

    def press(self, name: str, nth: int = 0) -> None:
        """Press a button that makes the kernel run, and wait for the answer."""
        with self.answer():
            self.page.get_by_role("button", name=name, exact=True).nth(nth).click()

    def section(self, title: str) -> list[Locator]:
        """The cells of one section of the story, its heading cell first; by title or number."""
        cells = self.page.locator(".marimo-cell")
        headings = cells.evaluate_all(
            "cells => cells.map(c => c.querySelector('h1, h2')?.textContent ?? '')"
        )
        chosen: list[Locator] = []
        inside = False
        for index, heading in enumerate(headings):
            if heading:
                inside = title in heading.split(". ", 1)
            if inside:
                chosen.append(cells.nth(index))
        if not chosen:
            raise ValueError(f"No section {title!r} among {[text for text in headings if text]}")
        return chosen

    def text_of(self, title: str) -> str:
        """What is seen of a section."""
        return "\n".join(cell.inner_text() for cell in self.section(title))

    def figures(self) -> Locator:
        """The canvases of all figures that are on the page, opened accordions included."""
        return self.page.locator(".vega-embed canvas")

    def blank_figures(self) -> list[int]:
        """Indices of figures whose canvas shows one colour only."""
        blank: list[int] = self.page.evaluate(BLANK_FIGURES)
        return blank

    def page_overflow(self) -> int:
        """Pixels by which the page itself is wider than the window (0: no sideways scroll)."""
        pixels: int = self.page.evaluate(
            """() => Math.max(...[document.scrollingElement, document.querySelector("#App")]
              .filter(Boolean).map((e) => e.scrollWidth - e.clientWidth))"""
        )
        return pixels

    def failed_cells(self) -> list[str]:
        """What went wrong in cells: errors and console output sent, tracebacks on the page."""
        sent: list[str] = self.page.evaluate("window.__failures")
        # the editor writes a cell's name into its console area; text out of sight counts as well
        shown = self.page.locator(
            ".console-output-area > :not(.outline-hidden), [role=alert] .text-error"
        ).all_text_contents()
        return [*sent, *shown]


@contextlib.contextmanager
def seat(
    browser: Browser,
    *,
    width: int = WIDTHS["wide"],
    height: int = 900,
    dark: bool = False,
    answers: Mapping[str, Path | str] | None = None,
) -> Iterator[Reader]:
    """A reader in a new browser context that reaches nothing but this machine.

    Args:
        browser: Shared browser.
        width: Width of the window in CSS pixels.
        height: Height of the window.
        dark: Whether the reader prefers the dark theme.
        answers: Pages served under made-up addresses: URL to file or text.
    """
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        # nobody listens there: what is not on this machine fails
        proxy={"server": "http://127.0.0.1:9", "bypass": "127.0.0.1,localhost"},
    )
    reader = Reader.sit_down(context)

    def answer(route: Route) -> None:
        url = route.request.url.split("#")[0]
        if answers and url in answers:
            content = answers[url]
            text = content.read_text(encoding="utf-8") if isinstance(content, Path) else content
            route.fulfill(body=text, content_type="text/html; charset=utf-8")
        elif url.startswith(CDN) and (file := STATIC / url.split("/dist/", 1)[1]).is_file():
            route.fulfill(path=file, headers=asset_headers(file))
        else:
            route.continue_()

    def note_failure(request: Request) -> None:
        host = urllib.parse.urlsplit(request.url).hostname
        if host not in ("127.0.0.1", "localhost"):
            reader.faults.append(f"request to the network: {request.url}")

    context.on("requestfailed", note_failure)
    if answers:  # else Chromium keeps what it has loaded: any route turns its cache off
        context.route("**/*", answer)
    try:
        yield reader
    finally:
        context.close()


def asset_headers(file: Path) -> dict[str, str]:
    """Headers a CDN gives; modules need the type and the permission to be used elsewhere."""
    types = {
        ".js": "text/javascript",
        ".css": "text/css",
        ".json": "application/json",
        ".svg": "image/svg+xml",
        ".png": "image/png",
        ".woff2": "font/woff2",
    }
    return {
        "access-control-allow-origin": "*",
        "content-type": types.get(file.suffix, "application/octet-stream"),
    }


@dataclass(frozen=True)
class Export:
    """A static page made by `marimo export html`.

    Attributes:
        path: The file.
        text: Its text.
        session: What the kernel had shown: `{"cells": [{"outputs": …, "console": …}]}`.
        notebook: The cells as written, in the same order.
        output: What the command itself printed (both streams).
        code: Exit code of the command; 0 even when a cell failed, so never enough.
    """

    path: Path
    text: str
    session: dict[str, Any]
    notebook: dict[str, Any]
    output: str
    code: int | None

    def faults(self) -> list[str]:
        """Everything in the exported session that a reader should not meet."""
        return session_faults(self.session, self.notebook)

    def figures(self) -> list[dict[str, Any]]:
        """The Vega-Lite specs on the page, those in closed accordions included."""
        return [spec for cell in self.session["cells"] for spec in cell_figures(cell)]


def export_html(notebook: Path, target: Path, *options: str) -> Export:
    """`marimo export html`, with the session inside the page read back."""
    done = run_marimo("export", "html", notebook, "-o", target, "-f", *options, cwd=notebook.parent)
    return read_export(target, done.stdout + done.stderr, done.returncode)


def read_export(page: Path, output: str, code: int | None) -> Export:
    """An exported page with its session read back, and what the command gave."""
    if not page.is_file():
        raise RuntimeError(f"Nothing was exported:\n{output}")
    text = page.read_text(encoding="utf-8")
    return Export(
        path=page,
        text=text,
        session=mounted(text, "session"),
        notebook=mounted(text, "notebook"),
        output=output,
        code=code,
    )


def mounted(page: str, key: str) -> dict[str, Any]:
    """One entry of the configuration with which a static page mounts itself."""
    value: dict[str, Any] = json.loads(page[slice(*entry_place(page, key))])
    return value


def entry_place(page: str, key: str) -> tuple[int, int]:
    """Where the value of such an entry starts and ends."""
    marker = f'"{key}": '
    start = page.index(marker, page.index("__MARIMO_MOUNT_CONFIG__")) + len(marker)
    _, length = json.JSONDecoder().raw_decode(page[start:])
    return start, start + length


def without_code(page: str) -> str:
    """A static page as `marimo export html --no-include-code` writes it, from one with code."""
    notebook = mounted(page, "notebook")
    for cell in notebook["cells"]:
        cell.update(code="", name="_")
    start, end = entry_place(page, "notebook")
    bare = page[:start] + json.dumps(notebook) + page[end:]
    return re.sub(r"(<marimo-code hidden=\"\">).*?(</marimo-code>)", r"\1\2", bare, flags=re.DOTALL)


def session_faults(session: Mapping[str, Any], notebook: Mapping[str, Any]) -> list[str]:
    """Console output, errors, tracebacks and empty figures of an exported session.

    `marimo export html` exits 0 although a chart failed, so the page is judged by this.
    """
    faults: list[str] = []
    for cell, written in zip(session["cells"], notebook["cells"], strict=True):
        where = f"cell `{first_line(written.get('code') or '')}`"
        for printed in cell.get("console") or []:
            text = plain(printed.get("text") or "")
            faults.append(f"{where}: {printed.get('name')}: {text[-900:]}")
        for output in cell.get("outputs") or []:
            if output["type"] == "error":
                faults.append(f"{where}: {output['ename']}: {output['evalue']}")
                continue
            for mime, data in output["data"].items():
                if "Traceback (most recent call last)" in str(data):
                    faults.append(f"{where}: traceback: {plain(str(data))[-300:]}")
                if mime.startswith("application/vnd.vega") and not data:
                    faults.append(f"{where}: empty figure")
        for spec in cell_figures(cell):
            if spec_rows(spec) == 0:
                faults.append(f"{where}: figure without a row")
    return faults


def cell_figures(cell: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The Vega-Lite specs in one cell's outputs, whether bare or inside a layout."""
    specs: list[dict[str, Any]] = []
    for output in cell.get("outputs") or []:
        for mime, data in (output.get("data") or {}).items():
            found = [data] if mime.startswith("application/vnd.vega") and data else []
            if not found and isinstance(data, str):
                found = nested_figures(data)
            for spec in found:
                while isinstance(spec, str):  # an attribute holds the JSON of JSON text
                    spec = json.loads(spec)
                specs.append(spec)
    return specs


def nested_figures(markup: str) -> list[str]:
    """The `data-data` attributes (JSON text) of figures inside markup, at any depth."""
    found: list[str] = []
    while "marimo-mime-renderer" in markup:
        found += [html.unescape(match[1]) for match in FIGURE_IN_MARKUP.finditer(markup)]
        rest = html.unescape(FIGURE_IN_MARKUP.sub("", markup))
        if rest == markup:
            break
        markup = rest
    return found


def spec_rows(spec: Any) -> int:
    """Number of data rows that a Vega-Lite spec carries, in all its sources together."""
    if isinstance(spec, list):
        return sum(map(spec_rows, spec))
    if not isinstance(spec, dict):
        return 0
    rows = 0
    for key, value in spec.items():
        if key == "datasets":
            rows += sum(len(dataset) for dataset in value.values())
        elif key == "data" and isinstance(value, dict) and "url" in value:
            rows += csv_rows(base64.b64decode(value["url"].split(",", 1)[1]).decode())
        elif key == "data" and isinstance(value, dict) and "values" in value:
            values = value["values"]
            rows += csv_rows(values) if isinstance(values, str) else len(values)
        elif key == "data" and isinstance(value, dict) and "sequence" in value:
            rows += 1
        else:
            rows += spec_rows(value)
    return rows


def csv_rows(text: str) -> int:
    """Rows of a CSV text without its header."""
    return sum(1 for row in csv.reader(io.StringIO(text)) if row) - 1


def plain(markup: str) -> str:
    """Text of a piece of HTML, good enough for a message."""
    return html.unescape(re.sub(r"<[^>]*>", "", markup)).strip()


def first_line(code: str) -> str:
    """The first line of a cell's code, to recognise it by."""
    return code.strip().split("\n", 1)[0][:80]


def take_screens(
    browser: Browser, folder: Path, name: str, server: Server, sections: Sequence[str] = ()
) -> list[Path]:
    """Pictures of the app in both themes and both widths, whole or by section.

    Args:
        browser: Shared browser.
        folder: Where the PNG files go.
        name: Beginning of their names.
        server: The running app.
        sections: Numbers or titles of sections; none means the whole page.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    for theme in ("light", "dark"):
        for width_name, width in WIDTHS.items():
            with seat(browser, width=width, dark=theme == "dark") as reader:
                reader.open(server)
                made += shoot(reader, folder, f"{name}-{theme}-{width_name}", sections)
    return made


def shoot(reader: Reader, folder: Path, name: str, sections: Sequence[str] = ()) -> list[Path]:
    """Pictures of what a reader sees now: the whole page, or each section in full."""
    page = reader.page
    assert page.viewport_size is not None
    width = page.viewport_size["width"]

    def picture(path: Path, first: Locator, height: float) -> Path:
        # marimo scrolls inside #App; a window as high as the part shows all of it at once.
        # Its height moves what stands above, so the part is looked up again afterwards.
        page.set_viewport_size({"width": width, "height": max(100, min(int(height), 12000))})
        reader.settle()
        first.evaluate("e => e.scrollIntoView({block: 'start', behavior: 'instant'})")
        reader.settle()
        page.screenshot(path=path)
        return path

    if not sections:
        whole = page.evaluate("document.querySelector('#App').scrollHeight")
        return [picture(folder / f"{name}.png", page.locator(".marimo-cell").first, whole)]
    made: list[Path] = []
    for title in sections:
        cells = reader.section(title)
        boxes = [box for cell in cells if (box := cell.bounding_box())]
        if boxes:
            height = boxes[-1]["y"] + boxes[-1]["height"] - boxes[0]["y"] + 10
            made.append(picture(folder / f"{name}-{title:0>2}.png", cells[0], height))
    return made
