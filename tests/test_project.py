"""The project around the notebook: direction of imports, sizes, dependencies, lock, texts.

Invariants:

1. Direction: no module of the package imports one that stands later in `LINE`.
2. Doors: only `page/` and the notebook import marimo, only `figures/` and `page/` altair; the
   cookbook comes in through `cookbook.py`, but in code that readers are shown.
3. Light: importing the package, a figure or a table imports no torch unasked.
4. Small: a module has at most 450 lines, the notebook 1,300 lines and 95 cells.
"""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from browser import NOTEBOOK, ROOT, readme_commands

PACKAGE = ROOT / "sequence_extension"
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
# The line of design: rooms and modules, the earlier ones first; those of one row may use each
# other. A module of a room that is named on its own stands there.
LINE = """
    __init__ text markup output
    cookbook
    elements edits
    rollout tokenizers
    formats editor env
    troubles
    turns lineages
    datums
    alignment hints remedies breaks warnings loss
    diagnosis
    break_table wording
    verdicts cost growth group staircase env.conversation env.endings env.matrix_table
    env.whole_rows
    totals report report_text gates scan extension workers
    overview
    figures
    html_report
    command
    page
    cli
    __main__
"""
PLACES = {name: place for place, row in enumerate(LINE.split("\n")) for name in row.split()}


def place(module: str) -> int:
    """Where a module stands in the line."""
    room = module.split(".")[0]
    assert module in PLACES or room in PLACES, f"{module} has no place in LINE"
    return PLACES[module if module in PLACES else room]


def imported(path: Path) -> set[str]:
    """Dotted names of all modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def own(names: set[str]) -> set[str]:
    """Those of them that are modules of the package, by their names in it."""
    prefix = f"{PACKAGE.name}."
    inner = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    return inner & set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_one_way(module: str) -> None:
    if module.endswith("__init__"):
        return  # loads its modules when they are first named
    later = {name for name in own(imported(MODULES[module])) if place(name) > place(module)}
    assert later == set()


def test_a_wrong_direction_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "def f():\n    from sequence_extension import page, report\n"
    )
    (tmp_path / "wrong2.py").write_text("import sequence_extension.page.html\n")
    assert own(imported(tmp_path / "wrong.py")) == {"report"}
    assert own(imported(tmp_path / "wrong2.py")) == {"page.html"}
    assert place("page.html") > place("figures.strip_chart") > place("report") > place("diagnosis")
    assert place("env.matrix_table") > place("diagnosis") > place("env.tutor")


@pytest.mark.parametrize("module", MODULES)
def test_doors(module: str) -> None:
    roots = {name.split(".")[0] for name in imported(MODULES[module])}
    room = module.split(".")[0]
    assert "marimo" not in roots or room == "page"
    assert "altair" not in roots or room in ("figures", "page")
    # shown to readers as they stand
    shown = module in ("env.tutor",)
    assert not roots & {"tinker", "tinker_cookbook"} or module == "cookbook" or shown
    if room == "figures":
        assert not own(imported(MODULES[module])) & {"cookbook", "elements", "rollout"}


def test_importing_the_package_is_light() -> None:
    code = "import sys, sequence_extension; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "tinker", "tinker_cookbook", "marimo", "altair", "pandas", "pydantic"}
    assert heavy & set(done.stdout.split()) == set()


def test_modules_and_notebook_stay_small() -> None:
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in MODULES.items()}
    assert {name: length for name, length in lengths.items() if length > 450} == {}


def test_notebook_stays_thin() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 1_300
    assert len(re.findall(r"^@app\.|^with app\.setup", text, re.MULTILINE)) <= 95


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_project_is_the_notebooks_environment() -> None:
    """A header of its own would make marimo ask on a terminal whether to build another one."""
    assert "# /// script" not in NOTEBOOK.read_text(encoding="utf-8")
    assert not [line for line in readme_commands() if "sandbox" in line]


def test_readme_has_the_two_commands_first_and_ci_runs_its_tests() -> None:
    assert readme_commands()[:2] == [f"uv run marimo run {NOTEBOOK.name}", "uv run pytest"]
    assert "\nuv run pytest\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_link_preview_names_a_picture_that_is_there() -> None:
    head = (ROOT / "assets" / "head.html").read_text(encoding="utf-8")
    [picture] = re.findall(r'property="og:image" content="([^"]*)"', head)
    data = (ROOT / picture).read_bytes()[:24]
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert [int.from_bytes(data[at : at + 4]) for at in (16, 20)] == [1200, 630]


def test_every_dependency_says_why_it_is_there() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    bare = [line for line in lines if re.match(r'    "[a-z]', line) and " # " not in line]
    assert bare == []


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed.")
def test_lock_belongs_to_the_project() -> None:
    """Needs no network while it does; a lock that differs cannot be resolved offline."""
    command = ["uv", "lock", "--check", "--offline"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_file_names_a_machine_or_a_package_index() -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("Not a git checkout.")
    listed = subprocess.run(
        [git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    index = "|".join(("index" + "-url", "extra" + "-index", "find" + "-links"))
    machine = "|".join(("/ho" + "me/", "/ro" + "ot/", "/Us" + "ers/"))
    hits = []
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if name == "uv.lock" or not name or not path.is_file() or path.suffix == ".png":
            continue
        text = path.read_text(encoding="utf-8")
        hits += [f"{name}: {hit}" for hit in re.findall(f"(?:{index}|{machine})\\S*", text)]
    assert hits == []
