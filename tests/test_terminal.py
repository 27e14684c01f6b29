"""The README's commands, run as written, on a terminal where marimo may ask questions."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from browser import NOTEBOOK, PATIENCE_S, ROOT, clean_environment, copy_project, free_port

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^uv.*$", "\n".join(re.findall(r"```bash\n(.*?)```", README, re.S)), re.M)
# Without code: see `story_html` in conftest.py, made by the same command on no terminal.
EXPORTS = sorted(
    {line for line in COMMANDS if " marimo export " in line and "--no-include-code" not in line}
)
QUESTION = "[Y/n]"

pytestmark = pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed.")


def on_terminal(command: str, folder: Path, until: str = "\0") -> tuple[str, int | None]:
    """Run a command under a pseudo-terminal, to its end or until a text is seen.

    The environment of the tests is used as it is: uv neither locks nor installs.

    Returns:
        What the terminal showed, and the exit code (None if it was still running).
    """
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        command.split(),
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
    seen = b""
    deadline = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            if until.encode() in seen or QUESTION.encode() in seen:
                return seen.decode(errors="replace"), None
            if select.select([primary], [], [], 0.5)[0]:
                try:
                    data = os.read(primary, 65536)
                except OSError:  # Linux: the other end was closed
                    data = b""
                if not data:
                    break
                seen += data
        return seen.decode(errors="replace"), process.wait(timeout=10)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(primary)


def has_error(shown: str) -> bool:
    """An error line or a traceback; marimo prefixes its own with [E."""
    return bool(re.search(r"\[E |Traceback|\berror\b", shown, re.IGNORECASE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_project(tmp_path_factory.mktemp("terminal")).parent


@pytest.mark.parametrize("mode", ["run", "edit"])
def test_app_starts_without_a_question(mode: str, folder: Path) -> None:
    [command, *_] = [line for line in COMMANDS if line.startswith(f"uv run marimo {mode} ")]
    # Only what the test machine needs is added: no window, a port of its own.
    quiet = command.replace(NOTEBOOK.name, f"--headless -p {free_port()} {NOTEBOOK.name}")
    shown, _ = on_terminal(quiet, folder, until="http://localhost")
    assert "http://localhost" in shown
    assert QUESTION not in shown
    assert not has_error(shown)


@pytest.mark.parametrize("command", EXPORTS)
def test_export_succeeds_without_error_output(command: str, folder: Path) -> None:
    target = folder / command.split(" -o ")[-1] if " -o " in command else None
    if target is not None:
        target.unlink(missing_ok=True)
    shown, code = on_terminal(command, folder)
    assert QUESTION not in shown
    assert code == 0, shown
    assert not has_error(shown), shown
    assert target is None or target.stat().st_size > 0


def test_without_the_option_marimo_asks(folder: Path) -> None:
    """The proof that a question would be seen."""
    shown, _ = on_terminal(f"uv run marimo run --headless {NOTEBOOK.name}", folder, until=QUESTION)
    assert QUESTION in shown


def test_readme_has_the_two_commands_first() -> None:
    assert COMMANDS[:2] == [
        f"uv run marimo run --no-sandbox {NOTEBOOK.name}",
        "uv run pytest",
    ]
    assert "uv run pytest\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
