"""An exported page made ready for a site: its link preview, and no cell that shows nothing.

    uv run python assets/publish.py page.html published.html

`marimo export html --no-include-code` writes every cell of the notebook, and five in six hold
only functions: without their code they are empty. The cells that show something stay as they are.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

HEAD = Path(__file__).with_name("head.html")
# marimo writes two lists of cells into a script, with these characters as codes.
CODES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def is_silent(cell: dict[str, Any]) -> bool:
    """A cell of the session without output, error or console text."""
    shown = [output for output in cell["outputs"] if output.get("data") != {"text/plain": ""}]
    return not shown and not cell["console"]


def part(page: str, key: str) -> tuple[dict[str, Any], int, int]:
    """One of the two lists, with where it starts and ends in the page.

    Raises:
        ValueError: The page is no export of marimo that this script knows.
    """
    for found in re.finditer(rf'"{key}":\s*(?=\{{")', page):
        value, end = json.JSONDecoder().raw_decode(page, found.end())
        if isinstance(value.get("cells"), list):
            return value, found.end(), end
    raise ValueError(f"no cells of a {key} in it")


def publish(page: str, head: str) -> str:
    """The page with `head` at the start of its head, without cells that show nothing.

    Raises:
        ValueError: As `part`; or the page holds code, which such cells would show.
    """
    session, *session_place = part(page, "session")
    notebook, *notebook_place = part(page, "notebook")
    if any(cell["code"] for cell in notebook["cells"]):
        raise ValueError("it holds code: export it with --no-include-code")
    silent = {cell["id"] for cell in session["cells"] if is_silent(cell)}
    pieces: list[tuple[int, int, str]] = []
    for value, (start, end) in ((session, session_place), (notebook, notebook_place)):
        value["cells"] = [cell for cell in value["cells"] if cell["id"] not in silent]
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        pieces.append((start, end, text.translate(CODES)))
    for start, end, text in sorted(pieces, reverse=True):
        page = page[:start] + text + page[end:]
    return page.replace("<head>", f"<head>\n{head}", 1)


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    source, target = map(Path, arguments)
    try:
        page = publish(source.read_text("utf-8"), HEAD.read_text("utf-8"))
    except (OSError, ValueError) as error:
        print(f"{source}: {error}", file=sys.stderr)
        return 2
    target.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
