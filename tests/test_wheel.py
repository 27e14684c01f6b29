"""The package as others install it: built, unpacked elsewhere, used from there.

Invariants:

1. Whole: the wheel holds every module, the style sheets and the mark of a typed package.
2. Alone: command and report work from it, outside of the checkout.
"""

import json
import os
import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from browser import ROOT

PACKAGE = ROOT / "sequence_extension"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds what the wheel holds."""
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    leave_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, source / PACKAGE.name, ignore=leave_out)
    command = [uv, "build", "--wheel", "--out-dir", str(folder), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if "network" in built.stderr.lower() or "resolve" in built.stderr.lower():
        pytest.skip("the build backend cannot be fetched")
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_wheel_is_whole(installed: Path) -> None:
    """Invariant 1: every file of the package, and nothing beside it."""
    wanted = {
        path.relative_to(ROOT)
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    there = {path.relative_to(installed) for path in installed.rglob("*") if path.is_file()}
    assert {path for path in there if "dist-info" not in path.parts[0]} == wanted
    for name in ("py.typed", "report.css", "tables.css", "page/style.css"):
        assert (installed / PACKAGE.name / name).exists()
    (entries,) = installed.glob("*.dist-info/entry_points.txt")
    assert "sequence-extension = sequence_extension.cli:main" in entries.read_text()


def test_wheel_works_elsewhere(installed: Path, tmp_path: Path) -> None:
    """Invariant 2: the checkout is on no path, the libraries are those of this environment."""
    turn = {"ob": [1, 2], "ac": [3], "logprobs": [-0.5]}
    (tmp_path / "rollout.json").write_text(json.dumps({"transitions": [turn]}))
    libraries = [path for path in (*site.getsitepackages(), *sys.path) if "packages" in path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), *libraries])}
    code = (
        "import sys, sequence_extension; from sequence_extension.cli import main; "
        "print(sequence_extension.__file__, file=sys.stderr); sys.exit(main(sys.argv[1:]))"
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        # -S: no editable install of the checkout; the libraries come by the path above
        return subprocess.run(
            [sys.executable, "-S", "-c", code, *arguments],
            capture_output=True, text=True, timeout=250, check=False, cwd=tmp_path, env=environment,
        )  # fmt: skip

    shown = run("--help")
    assert shown.returncode == 0
    assert "--max-datums" in shown.stdout
    told = run("rollout.json", "--json", "--max-datums", "1", "--html", "page.html")
    assert told.returncode == 0, told.stderr
    assert told.stderr.strip() == str(installed / PACKAGE.name / "__init__.py")
    assert len(json.loads(told.stdout)["trajectories"]) == 1
    assert "<svg" in (tmp_path / "page.html").read_text()
