"""The command `sequence-extension`: arguments, streams and exit codes.

Nothing heavy is imported before arguments are read, so that `--help` answers at once.
"""

import argparse
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from sequence_extension.output import (
    OutputError,
    flush_output,
    output_failed,
    write_error_output,
    write_output,
)

# Rollouts that the text report tells in detail.
DETAILS = 20


class CliParser(argparse.ArgumentParser):
    """Arguments of the command; an error is one line on standard error, exit code 2."""

    def error(self, message: str) -> NoReturn:
        plain = "".join(char if char.isprintable() else "?" for char in message)
        self.exit(2, f"{self.prog}: {plain[:400]}; see --help\n")

    def print_help(self, file: Any = None) -> None:
        write_output(self.format_help())


def cli_whole_number(text: str) -> int:
    """A whole number from 0.

    Raises:
        argparse.ArgumentTypeError: Anything else.
    """
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"`{text[:24]}` is not a whole number from 0")
    return int(text)


def cli_workers(text: str) -> int | str:
    """The N of `--workers`, or `ray`.

    Raises:
        argparse.ArgumentTypeError: Anything else.
    """
    if text == "ray":
        return text
    if not re.fullmatch(r"[1-9][0-9]{0,3}", text):
        raise argparse.ArgumentTypeError(f"`{text[:24]}` is neither a number from 1 nor `ray`")
    return int(text)


def cli_fail_on(text: str) -> tuple[str, ...]:
    """The names of `--fail-on`, see `read_fail_on_gates`; imported only where asked for."""
    from sequence_extension.gates import read_fail_on_gates

    try:
        return read_fail_on_gates(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def cli_parser() -> CliParser:
    """What `--help` says."""
    parser = CliParser(
        prog="sequence-extension",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=(
            "Say how rollouts become training datums: which turns split, where and why, and\n"
            "what that costs."
        ),
        epilog=(
            "FILE is what the cookbook's capture writes, or a log of calls or rollouts with token\n"
            "ids (JSON or JSONL); a folder gives the files below it.\n\n"
            "exit codes:\n"
            "  0  read and reported, and all limits hold\n"
            "  1  some rollout fails --max-datums or --fail-on; the last line says which\n"
            "  2  something could not be read or written, or the call makes no sense; a line on\n"
            "     standard error says what"
        ),
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="rollouts; - is standard input")
    parser.add_argument("--json", action="store_true", help="write one JSON object instead of text")
    parser.add_argument(
        "--html", metavar="PAGE", help="write the report as one HTML file that needs no network"
    )
    parser.add_argument(
        "--show",
        metavar="N",
        type=cli_whole_number,
        default=DETAILS,
        help=f"tell the N worst rollouts in detail ({DETAILS})",
    )
    parser.add_argument(
        "--tokenizer",
        metavar="NAME_OR_PATH",
        default="",
        help="texts of tokens: a folder with tokenizer.json, or a model on Hugging Face",
    )
    parser.add_argument(
        "--trust-remote-code",
        action="store_true",
        help="let the tokenizer run code that comes with its model",
    )
    add_cli_limits(parser)
    parser.add_argument(
        "--workers",
        metavar="N|ray",
        type=cli_workers,
        default=1,
        help="read in N processes, or on a Ray cluster; the report is the same",
    )
    return parser


def add_cli_limits(parser: argparse.ArgumentParser) -> None:
    """The options that make the command a check."""
    parser.add_argument(
        "--max-datums",
        metavar="N",
        type=cli_whole_number,
        help="fail if a rollout has more than N datums, or was refused",
    )
    parser.add_argument(
        "--fail-on",
        metavar="WHAT",
        type=cli_fail_on,
        default=(),
        help="fail on: refused, warning, or the name of a cause or warning; several with commas",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command: report on files of rollouts.

    Args:
        argv: Arguments without the program's name; those of the process by default.

    Returns:
        The exit code, see `--help`; 130 where the user interrupted it.
    """
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A terminal that lacks a character shows its code point instead of failing.
            sys.stdout.reconfigure(errors="backslashreplace")
        options = cli_parser().parse_args(argv)
        if cli_early_answer(options):
            return 2
        from sequence_extension.command import run_command

        code = run_command(options)
        flush_output()
        return code
    except SystemExit as stop:  # of argparse
        return int(stop.code or 0) if settle_cli_help() else 2
    except KeyboardInterrupt:
        return 130
    except OutputError as error:
        return output_failed(error)


def cli_early_answer(options: argparse.Namespace) -> bool:
    """Whether all has been said: the call makes no sense, or no file can hold a rollout.

    Nothing heavy is imported for it.

    Raises:
        OutputError: Standard output does not take the report.
    """
    from sequence_extension.text import printable_text
    from sequence_extension.troubles import call_trouble, early_trouble_lines

    problem = call_trouble(options)
    if problem:
        write_error_output(printable_text(f"sequence-extension: {problem}"))
        return True
    lines = early_trouble_lines(options.files)
    if not lines:
        return False
    if options.json:
        from sequence_extension.totals import REPORT_START, Totals, totals_json

        files = sum(not os.path.isdir(name) for name in options.files)
        write_output(REPORT_START + totals_json(Totals(), files, lines))
        flush_output()
    for line in lines:
        write_error_output(f"not read: {line}")
    return True


def settle_cli_help() -> bool:
    """Whether all that `--help` wrote has arrived; says so where not."""
    try:
        flush_output()
    except OutputError as error:
        output_failed(error)
        return False
    return True
