"""The project around the notebook: dependencies, lock, texts, commands."""

import re
import shutil
import subprocess
import tomllib
from typing import Any

import pytest
from browser import NOTEBOOK, ROOT


def header() -> dict[str, Any]:
    """The notebook's PEP 723 block."""
    block = re.search(
        r"^# /// script\n(?P<body>(?:#.*\n)+?)# ///$",
        NOTEBOOK.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert block is not None
    return tomllib.loads(re.sub(r"^# ?", "", block["body"], flags=re.MULTILINE))


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_notebook_alone_asks_for_what_the_project_asks_for() -> None:
    assert sorted(header()["dependencies"]) == sorted(project()["project"]["dependencies"])
    assert header()["requires-python"] == project()["project"]["requires-python"]
    assert header()["tool"]["marimo"]["display"] == project()["tool"]["marimo"]["display"]


def test_every_dependency_says_why_it_is_there() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    bare = [line for line in lines if re.match(r'    "[a-z]', line) and " # " not in line]
    assert bare == []


def test_lock_belongs_to_the_project() -> None:
    """Compared as text: `uv lock --check` would need the network."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    wanted = project()
    [own] = [entry for entry in lock["package"] if entry["name"] == wanted["project"]["name"]]

    def as_text(requirements: list[dict[str, str]]) -> list[str]:
        return sorted(entry["name"] + entry.get("specifier", "") for entry in requirements)

    assert as_text(own["metadata"]["requires-dist"]) == sorted(wanted["project"]["dependencies"])
    assert as_text(own["metadata"]["requires-dev"]["dev"]) == sorted(
        wanted["dependency-groups"]["dev"]
    )
    assert lock["requires-python"].replace(" ", "") == wanted["project"]["requires-python"]


def test_no_file_names_a_machine_or_a_package_index() -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("Not a git checkout.")
    listed = subprocess.run(
        [git, "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    index = "|".join(("index" + "-url", "extra" + "-index", "find" + "-links"))
    machine = "|".join(("/ho" + "me/", "/ro" + "ot/", "/Us" + "ers/"))
    found = []
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if name == "uv.lock" or not name or not path.is_file() or path.suffix == ".png":
            continue
        text = path.read_text(encoding="utf-8")
        found += [f"{name}: {hit}" for hit in re.findall(f"(?:{index}|{machine})\\S*", text)]
    assert found == []
