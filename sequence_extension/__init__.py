"""How multi-turn RL rollouts become training datums, and why they fall apart.

The public names are loaded when first used: `import sequence_extension` costs nothing, and the
cookbook (which brings torch) is imported by the first call that needs it.
"""

import importlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sequence_extension.diagnosis import Diagnosis, diagnose
    from sequence_extension.env.token_preserving import TokenPreservingEnv
    from sequence_extension.extension import assert_extends, extension_metrics
    from sequence_extension.formats.rollouts import read_rollouts, write_rollouts
    from sequence_extension.lineages import split_lineages
    from sequence_extension.rollout import Rollout
    from sequence_extension.tokenizers import TokenTexts, load_tokenizer_texts

# Public name: the module that has it.
_HOME = {
    "Diagnosis": "diagnosis",
    "Rollout": "rollout",
    "TokenPreservingEnv": "env.token_preserving",
    "TokenTexts": "tokenizers",
    "assert_extends": "extension",
    "diagnose": "diagnosis",
    "extension_metrics": "extension",
    "load_tokenizer_texts": "tokenizers",
    "read_rollouts": "formats.rollouts",
    "split_lineages": "lineages",
    "write_rollouts": "formats.rollouts",
}
__all__ = [
    "Diagnosis",
    "Rollout",
    "TokenPreservingEnv",
    "TokenTexts",
    "assert_extends",
    "diagnose",
    "extension_metrics",
    "load_tokenizer_texts",
    "read_rollouts",
    "split_lineages",
    "write_rollouts",
]


_IMPORTS = threading.RLock()


def package_modules(package: str) -> Callable[[str], Any]:
    """A module `__getattr__` that imports the modules of a package when they are first named.

    One thread imports and the others wait, so readers of a served app may arrive together:
    Python's own locks are one a module, and let a second thread see torch half imported.
    """

    def load(name: str) -> Any:
        try:
            with _IMPORTS:
                return importlib.import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

    return load


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    return package_modules(__name__)(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
