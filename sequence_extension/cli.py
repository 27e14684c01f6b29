"""The command `sequence-extension`."""

import argparse
import contextlib
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import IO, NoReturn

from sequence_extension.report import issues_line, write_report
from sequence_extension.text import printable, shown


class CommandParser(argparse.ArgumentParser):
    """Arguments of the command line; an error is one line on standard error, exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {printable(message, 300)}; see --help\n")


def datum_limit(text: str) -> int:
    """The N of `--max-datums`: a whole number from 0.

    Raises:
        argparse.ArgumentTypeError: Anything else.
    """
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a whole number from 0")
    return int(text)


def command_parser() -> CommandParser:
    """What `--help` says."""
    parser = CommandParser(
        prog="404_sequence_extension.py",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=(
            "Say how rollouts become training datums: a verdict for every turn, why it split,\n"
            "what that costs. Without arguments nothing is read; open the tutorial with\n"
            "`marimo run --no-sandbox 404_sequence_extension.py`."
        ),
        epilog=(
            'FILE is JSON (one trajectory, a list, or {"trajectories": [...]}) or JSONL.\n'
            "exit codes:\n"
            "  0  read and reported\n"
            "  1  some trajectory has more than N datums\n"
            "  2  something could not be read; one line on standard error names line and field"
        ),
    )
    parser.add_argument(
        "--trajectory", metavar="FILE", help="rollouts to read; - is standard input"
    )
    parser.add_argument("--json", action="store_true", help="write one JSON object instead of text")
    parser.add_argument(
        "--max-datums", metavar="N", type=datum_limit, help="exit with 1 above N datums a rollout"
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """The command line: report on a file of rollouts.

    Args:
        argv: Arguments without the program's name.

    Returns:
        0: read and reported (or nothing was asked for); 1: some rollout has more datums than
        allowed; 2: something could not be read, said on one line of standard error.

    Raises:
        SystemExit: `--help` (0) and arguments that make no sense (2).
    """
    parser = command_parser()
    options = parser.parse_args(argv)
    if options.trajectory is None:
        if options.json or options.max_datums is not None:
            parser.error("--trajectory FILE is missing")
        print(
            "A marimo notebook: open it with `marimo run --no-sandbox 404_sequence_extension.py`,\n"
            "or report on your rollouts: `404_sequence_extension.py --trajectory FILE [--json]`."
        )
        return 0

    def fail(sentence: str) -> int:
        name = "standard input" if options.trajectory == "-" else options.trajectory
        print(printable(f"{name}: {sentence}"), file=sys.stderr)
        return 2

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that lacks a character shows its code point instead of failing.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with contextlib.ExitStack() as stack:
            if options.trajectory == "-":
                stream: IO[bytes] = sys.stdin.buffer
            else:
                stream = stack.enter_context(open(options.trajectory, "rb"))
            totals, issues = write_report(stream, sys.stdout, options.json, options.max_datums)
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the report has seen enough, as in `| head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        return fail(f"{error.strerror or error}.")
    if issues:
        return fail(issues_line(issues))
    return 1 if totals.over else 0
