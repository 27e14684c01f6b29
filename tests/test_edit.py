"""The notebook in the editor, as `marimo edit` serves it.

The key that the editor asks for goes to the client and nowhere else: that test speaks to the
server as the page does, over its socket, so that every frame can be read.
"""

import html
import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import ALL_ELEMENTS, NOTEBOOK, QUESTION, Reader, Server, seat
from playwright.sync_api import Browser
from test_tokenizers import BYTE_LEVEL, split_rollout
from websockets.sync.client import ClientConnection, connect

SECRET = "tml-secret-0123456789"
SESSION = "s_key001"
PATIENCE_S = 240.0


class Editor:
    """One editor session, with everything its kernel has sent."""

    def __init__(self, url: str, socket: ClientConnection) -> None:
        self.url, self.socket = url, socket
        self.frames: list[str] = []
        with urllib.request.urlopen(url) as answer:
            page = answer.read().decode()
        token = re.search(r'"serverToken":\s*"([^"]+)"', page)
        assert token is not None
        self.token = token[1]

    def post(self, path: str, body: dict[str, Any]) -> str:
        """One request of the page; returns the body of the answer."""
        headers = {
            "Content-Type": "application/json",
            "Marimo-Session-Id": SESSION,
            "Marimo-Server-Token": self.token,
        }
        request = urllib.request.Request(
            f"{self.url}api/{path}", data=json.dumps(body).encode(), headers=headers
        )
        with urllib.request.urlopen(request) as answer:
            return str(answer.read().decode())

    def ask(self, path: str, body: dict[str, Any]) -> str:
        """A request that runs cells; returns all that was sent until they had run."""
        before = len(self.frames)
        self.post(path, body)
        while True:
            frame = str(self.socket.recv(timeout=PATIENCE_S))
            self.frames.append(frame)
            if frame.startswith('{"op": "completed-run"'):
                return "\n".join(self.frames[before:])

    def set(self, label: str, value: Any) -> str:
        """Give a widget a value, as the page does when a field loses its focus."""
        return self.ask(
            "kernel/set_ui_element_value",
            {"objectIds": [self.widget(label)], "values": [value]},
        )

    def widget(self, label: str) -> str:
        """Id of the last widget sent with these words in its label."""
        widget = ""
        for frame in self.frames:
            data = json.loads(frame).get("data", {})
            output = data.get("output") if isinstance(data, dict) else None
            text = output.get("data") if isinstance(output, dict) else None
            if not isinstance(text, str):
                continue
            form = ""
            for identity, kind, tag in re.findall(
                r"<marimo-ui-element object-id=['\"]([^'\"]+)['\"][^>]*>"
                r"<marimo-(\w[\w-]*) ([^>]*)>|</marimo-form>",
                text,
            ):
                # what stands in a form is sent by it
                form = (identity if kind == "form" else form) if identity else ""
                if label in html.unescape(tag):
                    widget = form or identity
        assert widget, f"no widget is labelled {label!r}"
        return widget


@pytest.fixture(scope="class")
def editor(edit_server: Server) -> Iterator[Editor]:
    """A session without a page, closed at the end: the server keeps one for a file."""
    address = edit_server.url.replace("http", "ws", 1) + f"ws?session_id={SESSION}"
    with connect(address, max_size=None) as socket:
        editor = Editor(edit_server.url, socket)
        editor.frames.append(str(socket.recv(timeout=PATIENCE_S)))
        editor.ask("kernel/instantiate", {"objectIds": [], "values": [], "autoRun": True})
        yield editor
        editor.post("home/shutdown_session", {"sessionId": SESSION})


class TestOverTheSocket:
    """One session, told by its frames."""

    def test_the_key_reaches_no_frame_no_export_and_no_file(
        self, editor: Editor, edit_server: Server
    ) -> None:
        press = "This costs money"
        assert "There is no key." in editor.set(press, 1)
        # no owner before the name, so it is refused before anything is asked of a network
        answer = editor.set("Model", "nonsense")
        assert '"value":"nonsense"' in answer  # the variables panel is sent what widgets hold
        editor.set("Tinker key", SECRET)
        answer = editor.set(press, 2)
        assert "There is no key." not in answer
        assert "Type a model as owner/name" in answer  # so the key has arrived

        assert not any(SECRET in frame for frame in editor.frames)
        page = editor.post("export/html", {"download": False, "files": [], "includeCode": True})
        assert "Type a model as owner/name" in page
        assert SECRET not in page
        written = [path for path in edit_server.notebook.parent.rglob("*") if path.is_file()]
        assert written
        for path in written:
            assert SECRET.encode() not in path.read_bytes(), path

    def test_a_tokenizer_named_before_the_editor(self, editor: Editor, tmp_path: Path) -> None:
        """Of the reader's own machine: ids become text; what does not load is said."""
        BYTE_LEVEL.save(str(tmp_path / "tokenizer.json"))
        split = "Turn 1 splits: the same text in other tokens"
        wrong = "is neither a folder with a tokenizer nor a model's name"
        plain = editor.set("or, without a file, text", json.dumps(split_rollout(BYTE_LEVEL)))
        assert "Turn 1 splits" in plain
        assert split not in plain
        for name, problem, texts in (
            (str(tmp_path), False, True),
            (f"{tmp_path}/none", True, False),
            ("", False, False),
        ):
            answer = html.unescape(editor.set("Tokenizer, for the texts of tokens", name))
            assert (split in answer, wrong in answer) == (texts, problem), name


@pytest.fixture
def edit_page(browser: Browser, edit_server: Server) -> Iterator[Reader]:
    with seat(browser) as reader:
        reader.page.goto(edit_server.url)
        # the page makes an editor for every cell while they run: slow without a graphics card
        reader.page.wait_for_function("window.__answers > 0", timeout=540_000, polling=500)
        yield reader


# Of each output with these words: its height, and how much of it is shown.
HEIGHTS = (
    "(tall) => {"
    + ALL_ELEMENTS
    + """
  const text = (e) => all(e).map((inner) => inner.shadowRoot?.textContent ?? "").join()
    + e.textContent;
  const outputs = [...document.querySelectorAll(".output-area")];
  const found = tall.map((words) => outputs.find((e) => text(e).includes(words)));
  return found.every(Boolean) && found.map((e) => [e.scrollHeight, e.clientHeight]);
}"""
)


@pytest.mark.timeout(600)
def test_editor_opens_and_runs_every_cell(edit_page: Reader) -> None:
    """In few questions to the page: while it makes its editors, each waits for seconds."""
    page = edit_page.page
    tall = ["Remove turn 2", "above the group mean", "1. Two agents share", "give +3"]
    heights = page.wait_for_function(HEIGHTS, arg=tall, polling=1000).json_value()
    # tall outputs are not clamped to a box of their own
    for height, shown in heights:
        assert height == shown > 400
    assert edit_page.failed_cells() == []
    assert page.locator("[data-status='stale'], [data-status='disabled-transitively']").count() == 0
    assert edit_page.faults == []


def test_the_editor_asks_nothing_and_leaves_the_file_as_it_is(edit_server: Server) -> None:
    """Last: the sessions above have opened, run and autosaved it."""
    assert "http://localhost" in edit_server.output
    assert QUESTION not in edit_server.output
    assert edit_server.notebook.read_bytes() == NOTEBOOK.read_bytes()
