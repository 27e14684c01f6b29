"""The editor's real pupil: a key that is typed goes to the client and nowhere else.

Speaks to `marimo edit` as its page does, over its socket, so that every frame can be read.
"""

import html
import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import copy_project, serve
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
        found = re.search(r'"serverToken":\s*"([^"]+)"', page)
        assert found is not None
        self.token = found[1]

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
        found = ""
        for frame in self.frames:
            data = json.loads(frame).get("data", {})
            output = data.get("output") if isinstance(data, dict) else None
            text = output.get("data") if isinstance(output, dict) else None
            if not isinstance(text, str):
                continue
            for identity, tag in re.findall(
                r"<marimo-ui-element object-id=['\"]([^'\"]+)['\"][^>]*><marimo-\w[\w-]* ([^>]*)>",
                text,
            ):
                if label in html.unescape(tag):
                    found = identity
        assert found, f"no widget is labelled {label!r}"
        return found


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    with serve("edit", copy_project(tmp_path / "project")) as server:
        address = server.url.replace("http", "ws", 1) + f"ws?session_id={SESSION}"
        with connect(address, max_size=None) as socket:
            editor = Editor(server.url, socket)
            editor.frames.append(str(socket.recv(timeout=PATIENCE_S)))
            editor.ask("kernel/instantiate", {"objectIds": [], "values": [], "autoRun": True})
            yield editor


@pytest.mark.timeout(600)
def test_the_key_reaches_no_frame_no_export_and_no_file(editor: Editor, tmp_path: Path) -> None:
    press = "This costs money"
    assert "There is no key." in editor.set(press, 1)
    # no owner before the name, so it is refused before anything is asked of a network
    told = editor.set("Model", "nonsense")
    assert '"value":"nonsense"' in told  # the variables panel is sent what widgets hold
    editor.set("Tinker key", SECRET)
    answer = editor.set(press, 2)
    assert "There is no key." not in answer
    assert "Type a model as owner/name" in answer  # so the key has arrived

    assert not any(SECRET in frame for frame in editor.frames)
    page = editor.post("export/html", {"download": False, "files": [], "includeCode": True})
    assert "Type a model as owner/name" in page
    assert SECRET not in page
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert written
    for path in written:
        assert SECRET.encode() not in path.read_bytes(), path
