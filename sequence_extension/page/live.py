"""Who is before the page: a reader of the app, somebody in the editor, or nobody (an export)."""

import html
import time
from collections.abc import Mapping

import marimo as mo

# Seconds; the browser takes about as long to load Vega and to draw the first figure.
PAUSE_S = 0.4


def wait_for_live_browser(seconds: float = PAUSE_S) -> None:
    """Let the browser of a served app draw the first figure before the rest of the page arrives.

    Else it mounts all other outputs first, and the figure is there more than a second later. The
    whole page takes no longer, as the browser is what is waited for. After an edit the strips are
    waited for in the same way.
    """
    if mo.app_meta().mode == "run":
        time.sleep(seconds)


def write_live_address(wanted: Mapping[str, str | None], note: str) -> str:
    """Put these parameters into a reader's address; a note on them as HTML.

    Nothing before the editor, whose address belongs to marimo.
    """
    if mo.app_meta().mode != "run":
        return ""
    parameters = mo.query_params()
    for key, value in wanted.items():
        if value is None and key in parameters:
            parameters.remove(key)
        elif value is not None and parameters.get(key) != value:
            parameters.set(key, value)
    return f'<p class="seq-hint">{html.escape(note)}</p>' if note else ""


class SecretField:
    """A password field whose content shows nowhere: the editor prints the value of every widget
    that a variable holds in its variables panel, but not what stands inside of this object.
    """

    def __init__(self, label: str) -> None:
        self.field = mo.ui.text(kind="password", label=label, full_width=True)

    def __repr__(self) -> str:
        return "SecretField()"

    def reveal(self) -> str:
        """What has been typed."""
        return str(self.field.value)


def is_live_kernel() -> bool:
    """True where Python answers a click: in the app and before a reader's editor."""
    return mo.app_meta().mode == "run" or is_live_editor()


def is_live_editor() -> bool:
    """True in `marimo edit` with a reader before it; an export says "edit" too, but has none."""
    return mo.app_meta().mode == "edit" and mo.app_meta().request is not None
