"""The widget of section 2: turns whose tokens can be clicked or typed.

The browser keeps what the reader is doing and sends it as one state; Python answers with a view
of it. So no message can act on the field of another turn, however late it comes: each names the
state that it belongs to by its serial.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import anywidget
import traitlets

from sequence_extension.editor.drafts import MAX_DRAFT_TURNS, TurnDraft
from sequence_extension.editor.scenarios import Scenario, scenarios
from sequence_extension.page.editing import Edited, editing_view, read_editing
from sequence_extension.page.style import style_asset


class TurnsEditor(anywidget.AnyWidget):
    """The editor as the browser shows it.

    Attributes:
        scenarios: Key, title and turns of each scenario.
        most: Turns at most.
        state: From the browser: serial, scenario (key), drafts, click (or None).
        view: From Python, see `editing_view`; its serial is that of the state it answers.
    """

    _esm = style_asset("turns.js")
    _css = style_asset("turns.css")
    scenarios: Any = traitlets.List().tag(sync=True)
    most = traitlets.Int(MAX_DRAFT_TURNS).tag(sync=True)
    state = traitlets.Dict().tag(sync=True)
    view = traitlets.Dict().tag(sync=True)

    def __init__(self, start: Scenario, drafts: Sequence[TurnDraft], note: str = "") -> None:
        """An editor that starts from turns as typed.

        Args:
            start: The scenario that they were loaded from.
            drafts: The turns.
            note: A sentence about the address that they came from.
        """
        state = {
            "serial": 0,
            "scenario": start.key,
            "drafts": [asdict(draft) for draft in drafts],
            "click": None,
        }
        listed = [
            {"key": item.key, "title": item.title, "drafts": [asdict(d) for d in item.drafts]}
            for item in scenarios().values()
        ]
        self.note = note
        super().__init__(
            scenarios=listed, state=state, view=editing_view(read_editing(state), note)
        )

    def answer(self) -> Edited:
        """What the reader has done by now; the browser is told what became of it."""
        result = read_editing(self.state)
        if self.view["serial"] != result.serial:
            self.view = editing_view(result, self.note)
        return result
