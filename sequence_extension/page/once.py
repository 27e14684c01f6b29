"""Results that are the same for every reader of a process: computed once, also when they arrive
together."""

import functools
import threading
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


def once(function: Callable[[], R]) -> Callable[[], R]:
    """`functools.cache` that lets later callers wait for the first, in place of computing too.

    What it returns is shared by all readers and must not be changed.
    """
    lock = threading.RLock()
    cached = functools.cache(function)

    @functools.wraps(function)
    def shared() -> R:
        with lock:
            return cached()

    return shared
