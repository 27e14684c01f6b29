"""Standard output and standard error, and what may go wrong with them."""

import contextlib
import os
import sys
from typing import TextIO


class OutputError(Exception):
    """Standard output does not take what is written; the input is not to blame."""


def write_output(text: str) -> None:
    """Text to standard output.

    Raises:
        OutputError: It is closed, full, or nobody reads it any more.
    """
    try:
        if sys.stdout is None:
            raise OutputError("it is closed")
        sys.stdout.write(text)
    except (OSError, ValueError) as error:
        raise OutputError(getattr(error, "strerror", None) or str(error)) from error


def flush_output() -> None:
    """See that standard output has taken all.

    Raises:
        OutputError: As `write_output`.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        raise OutputError(getattr(error, "strerror", None) or str(error)) from error


def write_error_output(line: str) -> None:
    """A line to standard error, where there is one."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def output_failed(error: OutputError) -> int:
    """Name the output; a reader who has seen enough, as `head`, is no trouble to speak of."""
    if not isinstance(error.__cause__, BrokenPipeError):
        write_error_output(f"sequence-extension: standard output cannot be written: {error}.")
    with contextlib.suppress(OSError, ValueError, AttributeError):
        # What is still held back has nowhere to go; Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 2


def output_has_colours(stream: TextIO | None) -> bool:
    """Whether text goes to a terminal that wants colours (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream is not None and stream.isatty()
