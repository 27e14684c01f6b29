"""Loads the notebook as a module, so that tests import its pure functions by name."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "404_sequence_extension.py"


def load_notebook() -> ModuleType:
    """The notebook file as a module; its name starts with a digit, so `import` cannot."""
    if "notebook" not in sys.modules:
        spec = importlib.util.spec_from_file_location("notebook", NOTEBOOK)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["notebook"] = module
        spec.loader.exec_module(module)
    return sys.modules["notebook"]


@pytest.fixture(scope="session")
def nb() -> ModuleType:
    return load_notebook()
