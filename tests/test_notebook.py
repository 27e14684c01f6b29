"""The notebook file itself: short, light at its start, and as marimo would write it.

1. A save in marimo's editor changes nothing.
2. It stays a story: at most 1,300 lines and 70 cells, no block of script metadata.
3. As a script it prints nothing and exits 0.
4. Alone, without the package, it says in one sentence what is missing.
5. What stands before the first figure needs neither the cookbook nor pandas nor Altair.
"""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from marimo._convert.converters import MarimoConvert

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "404_sequence_extension.py"
SOURCE = NOTEBOOK.read_text(encoding="utf-8")


def test_a_save_in_the_editor_changes_nothing() -> None:
    """Invariant 1."""
    assert MarimoConvert.from_py(SOURCE).to_py() == SOURCE


def test_it_stays_a_story() -> None:
    """Invariant 2."""
    cells = [
        node
        for node in ast.parse(SOURCE).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(cells) + 1 <= 70
    assert len(SOURCE.splitlines()) <= 1_300
    assert "# /// script" not in SOURCE


def test_as_a_script_it_is_silent() -> None:
    """Invariant 3."""
    done = subprocess.run(
        [sys.executable, NOTEBOOK], capture_output=True, text=True, cwd=ROOT, timeout=240
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_alone_it_says_what_is_missing(tmp_path: Path) -> None:
    """Invariant 4: a meta path that finds no such package, as on a machine without it."""
    alone = tmp_path / NOTEBOOK.name
    shutil.copy(NOTEBOOK, alone)
    hide = (
        "import runpy, sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'sequence_extension':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Hide())\n"
        f"runpy.run_path({str(alone)!r}, run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", hide], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "sequence_extension" in done.stderr
    assert "uv run marimo edit" in done.stderr


@pytest.mark.parametrize("module", ["style", "html", "once"])
def test_the_first_screen_is_light(module: str) -> None:
    """Invariant 5."""
    heavy = ("torch", "tinker_cookbook", "tinker", "pandas", "altair", "numpy")
    code = (
        "import sys, marimo\n"
        "before = set(sys.modules)\n"
        "import sequence_extension as seq\n"
        "from sequence_extension import editor, env, figures, formats, page\n"
        f"page.{module}\n"
        f"print([name for name in {heavy} if name in sys.modules and name not in before])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_what_is_out_of_sight_waits_for_the_strips() -> None:
    """After an edit: its cells take what the cell of the strips, and a pause, hand on."""
    cells = SOURCE.split("@app.cell")
    for name in ("strip_facts_view(", "verdict_breaks_view(", "verdicts_view(", "cost_view("):
        (cell,) = [cell for cell in cells if name in cell]
        assert re.search(r"def _\([^)]*\bsettled\b", cell), name
    (pause,) = [cell for cell in cells if "return (settled,)" in cell]
    assert "strips_drawn" in pause
    steps = ["wait_for_live_browser", "address_of(", "editing_code_folds("]
    assert steps == sorted(steps, key=pause.index)
