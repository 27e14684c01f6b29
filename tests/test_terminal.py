"""The README's commands, run as written, on a terminal where marimo may ask questions."""

import re
import shutil
from pathlib import Path

import pytest
from browser import (
    NOTEBOOK,
    QUESTION,
    ROOT,
    Export,
    copy_project,
    free_port,
    on_terminal,
    readme_commands,
)

COMMANDS = readme_commands()
# To html: see `exported_html` in conftest.py; and `story_html`, made without code on no terminal.
EXPORTS = sorted(
    {line for line in COMMANDS if " marimo export " in line and " export html " not in line}
)

pytestmark = pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed.")


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


def assert_exported(shown: str, code: int | None, target: Path) -> None:
    assert QUESTION not in shown
    assert code == 0, shown
    assert not has_error(shown), shown
    assert target.stat().st_size > 0


@pytest.mark.parametrize("command", EXPORTS)
def test_export_succeeds_without_error_output(command: str, folder: Path) -> None:
    shown, code = on_terminal(command, folder)
    assert_exported(shown, code, folder / command.split(" -o ")[-1])


def test_html_export_succeeds_without_error_output(exported_html: Export) -> None:
    assert_exported(exported_html.output, exported_html.code, exported_html.path)


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
