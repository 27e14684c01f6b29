"""The command `sequence-extension`: arguments, streams and exit codes.

Nothing heavy is imported before arguments are read, so that `--help` answers at once.
"""

import argparse
import contextlib
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO

# Rollouts that the text report tells in detail.
DETAILS = 20


class OutputError(Exception):
    """Standard output does not take what is written; the input is not to blame."""


class CommandParser(argparse.ArgumentParser):
    """Arguments of the command; an error is one line on standard error, exit code 2."""

    def error(self, message: str) -> NoReturn:
        plain = "".join(char if char.isprintable() else "?" for char in message)
        self.exit(2, f"{self.prog}: {plain[:400]}; see --help\n")

    def print_help(self, file: Any = None) -> None:
        write_out(self.format_help())


def write_out(text: str) -> None:
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


def flush_out() -> None:
    """See that standard output has taken all.

    Raises:
        OutputError: As `write_out`.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        raise OutputError(getattr(error, "strerror", None) or str(error)) from error


def complain(line: str) -> None:
    """A line to standard error, where there is one."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def whole_number(text: str) -> int:
    """A whole number from 0.

    Raises:
        argparse.ArgumentTypeError: Anything else.
    """
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise argparse.ArgumentTypeError(f"`{text[:24]}` is not a whole number from 0")
    return int(text)


def fail_on(text: str) -> tuple[str, ...]:
    """The names of `--fail-on`, see `gates.read_fail_on`; imported only where it is asked for."""
    from sequence_extension.gates import read_fail_on

    try:
        return read_fail_on(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def command_parser() -> CommandParser:
    """What `--help` says."""
    parser = CommandParser(
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
        "--show",
        metavar="N",
        type=whole_number,
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
    parser.add_argument(
        "--max-datums",
        metavar="N",
        type=whole_number,
        help="fail if a rollout has more than N datums, or was refused",
    )
    parser.add_argument(
        "--fail-on",
        metavar="WHAT",
        type=fail_on,
        default=(),
        help="fail on: refused, warning, or the name of a cause or warning; several with commas",
    )
    return parser


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
        code = run(command_parser().parse_args(argv))
        flush_out()
        return code
    except SystemExit as stop:  # of argparse
        return int(stop.code or 0) if settle_help() else 2
    except KeyboardInterrupt:
        return 130
    except OutputError as error:
        return output_failed(error)


def settle_help() -> bool:
    """Whether all that `--help` wrote has arrived; says so where not."""
    try:
        flush_out()
    except OutputError as error:
        output_failed(error)
        return False
    return True


def output_failed(error: OutputError) -> int:
    """Name the output; a reader who has seen enough, as `head`, is no trouble to speak of."""
    if not isinstance(error.__cause__, BrokenPipeError):
        complain(f"sequence-extension: standard output cannot be written: {error}.")
    with contextlib.suppress(OSError, ValueError, AttributeError):
        # What is still held back has nowhere to go; Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 2


def run(options: argparse.Namespace) -> int:
    """Read, report, and hold the rollouts to the limits; returns the exit code."""
    from sequence_extension.gates import Failures, Gates
    from sequence_extension.report import Totals, Worst
    from sequence_extension.report_text import Paint, summary_lines
    from sequence_extension.scan import Trouble, Wanted, scan_files, trouble_lines
    from sequence_extension.text import printable
    from sequence_extension.tokenizers import TokenizerError

    colours = has_colours(sys.stdout)
    several = len(options.files) > 1 or os.path.isdir(options.files[0])
    wanted = Wanted(
        as_json=options.json,
        details=0 if options.json else options.show,
        colours=colours,
        gates=Gates(options.max_datums, options.fail_on),
        named=several,
        tokenizer=options.tokenizer,
        trust_remote_code=options.trust_remote_code,
    )
    try:
        wanted.texts()
    except TokenizerError as error:
        complain(printable(f"--tokenizer: {error}"))
        return 2
    totals, failures = Totals(), Failures()
    worst: Worst[tuple[str, ...]] = Worst(wanted.details)
    troubles: list[Trouble] = []
    if options.json:
        write_out('{"trajectories": [')
    for item in scan_files(options.files, wanted):
        if isinstance(item, Trouble):
            troubles.append(item)
            continue
        if options.json:
            write_out(", " * bool(totals.rollouts) + item.entry)
        totals.add(item.row)
        failures.add(item.row, item.failed)
        worst.offer(item.row.severity, item.lines)
    if options.json:
        write_out("]}\n")
    elif totals.rollouts:
        told = worst.ordered()
        for lines in told:
            write_out("\n".join(lines) + "\n\n")
        left = totals.rollouts - len(told)
        if left:
            write_out(f"{left:,} more rollouts, no worse than these; --show N tells more.\n\n")
        write_out("\n".join(summary_lines(totals, Paint(colours))) + "\n")
    flush_out()
    verdict = failures.sentence(totals.rollouts)
    for line in trouble_lines(troubles):
        complain(f"not read: {line}")
    if verdict and options.json:
        complain(verdict)
    elif verdict:
        write_out(f"\n{Paint(colours)('red', verdict)}\n")
    return 2 if troubles else 1 if verdict else 0


def has_colours(stream: TextIO | None) -> bool:
    """Whether text goes to a terminal that wants colours (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream is not None and stream.isatty()
