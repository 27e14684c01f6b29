"""The renderers of the installed cookbook."""

import ast
import inspect
import re
import textwrap
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from sequence_extension.cookbook import get_recommended_renderer_name, renderers

_WARNINGS_LOCK = threading.RLock()


@contextmanager
def collect_renderer_warnings() -> Iterator[list[Warning | str]]:
    """Collect the Python warnings of this thread, and show none of them.

    `warnings.catch_warnings` alone is of the whole process: it would collect what another
    reader's thread warns of meanwhile, and two at a time leave each other's state behind.
    """
    mine = threading.get_ident()
    caught: list[Warning | str] = []
    with _WARNINGS_LOCK, warnings.catch_warnings():
        show = warnings.showwarning

        def collect(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if threading.get_ident() == mine:
                caught.append(message)
            else:
                show(message, category, filename, lineno, file, line)

        warnings.simplefilter("always")
        warnings.showwarning = collect
        yield caught


def renderer_names() -> list[str]:
    """Every renderer name that the installed cookbook knows, in its own order.

    `get_renderer` keeps no table of names, so they are read from its code (each comparison
    with `name`) and from its docstring; custom renderers come from the registry.
    """
    names: list[str] = []
    tree = ast.parse(textwrap.dedent(inspect.getsource(renderers.get_renderer)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name):
            if node.left.id != "name":
                continue
            for side in node.comparators:
                names.extend(
                    leaf.value
                    for leaf in ast.walk(side)
                    if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)
                )
        elif isinstance(node, ast.MatchValue) and isinstance(node.value, ast.Constant):
            names.append(str(node.value.value))
    names.extend(re.findall(r"- ``\"([^\"]+)\"``", renderers.get_renderer.__doc__ or ""))
    names.extend(renderers.get_registered_renderer_names())
    return list(dict.fromkeys(names))


def build_renderer(name: str, tokenizer: Any) -> tuple[Any, str]:
    """One renderer of the cookbook on a tokenizer, proven to write a prompt.

    Args:
        name: A name of `renderer_names`.
        tokenizer: `offline_vocabulary()` or one of `get_tokenizer`.

    Returns:
        (renderer, "") or (None, the reason in one sentence).
    """
    try:
        with collect_renderer_warnings():
            renderer = renderers.get_renderer(name, tokenizer)
            renderer.get_stop_sequences()
            renderer.build_generation_prompt([{"role": "user", "content": "?"}])
    except Exception as error:  # whatever a renderer may raise becomes the reason
        detail = " ".join(str(error).split()) or type(error).__name__
        return None, f"{name} cannot be built on this vocabulary: {detail[:200]}"
    return renderer, ""


def model_renderer(model: str) -> str | None:
    """The renderer that the cookbook recommends for a model; None for a model it does not know."""
    try:
        return get_recommended_renderer_name(model.strip())
    except Exception:  # unknown organisation, unknown model, no slash: all mean the same here
        return None
