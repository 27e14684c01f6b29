"""A break with both sides aligned, as a table."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from sequence_extension.breaks import Break, break_held_and_new
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.edits import ElementCodes, edit_kept_blocks
from sequence_extension.elements import element_id, element_token_position
from sequence_extension.remedies import remedy
from sequence_extension.text import count_text, encodable_text, part_text, visible_text
from sequence_extension.turns import turn_origin
from sequence_extension.wording import cause_wording, headline_wording, replaced_wording


def break_table_marks(diagnosis: Diagnosis) -> list[tuple[int, int, str]]:
    """Where a later turn left a datum: (datum, position, label) for strips and staircase.

    A break counts elements of the sequence held; the strip counts positions, in which an image
    takes as many as it has tokens.
    """
    marks = []
    for item in diagnosis.breaks:
        before = diagnosis.rollout.trajectory.transitions[item.turn - 1]
        position = element_token_position(before.ob, item.position)
        datum = diagnosis.spans[item.turn - 1].datum
        marks.append(
            (datum, position, f"turn {item.turn} splits here: {cause_wording(item.cause)}")
        )
    return marks


def break_table_blocks(diagnosis: Diagnosis, item: Break) -> list[tuple[str, int, int, int]]:
    """Held sequence and new observation as blocks (kind, index in held, in new, length).

    Kinds: "same" (in both), "removed" (held only), "inserted" (new only), "after" (what
    follows in the new observation, beyond the edit). Where the two are too long to align, or
    the search for the edit gave up, all behind the break is "unaligned".
    """
    sides = break_table_sides(diagnosis, item)
    start = item.position
    taken = item.kept + item.inserted
    codes = ElementCodes()
    kept = None
    if item.bounded is None:
        old, now = codes.encode(sides[0][start:]), codes.encode(sides[1][start : start + taken])
        kept = edit_kept_blocks(old, now, item.kept)
    blocks = [("same", 0, 0, start)]
    i = j = start
    if kept is None:
        longest = max(len(sides[0]), len(sides[1])) - start
        return [*blocks, ("unaligned", i, j, longest)]
    for a, b, length in [*kept, (len(sides[0]) - start, taken, 0)]:
        blocks.append(("removed", i, j, start + a - i))
        blocks.append(("inserted", start + a, j, start + b - j))
        blocks.append(("same", start + a, start + b, length))
        i, j = start + a + length, start + b + length
    blocks.append(("after", i, j, len(sides[1]) - j))
    return [block for block in blocks if block[3]]


def break_table_pairs(
    blocks: Sequence[tuple[str, int, int, int]], swapped_end: bool = False
) -> list[tuple[str, int, int, int]]:
    """`break_table_blocks`, with what is gone and what came in at one place as "replaced".

    Args:
        blocks: In order.
        swapped_end: The cause is another end token: the cheapest edit only takes the old one
            away, but the first token that follows is the new one.
    """
    paired: list[tuple[str, int, int, int]] = []
    for kind, i, j, length in blocks:
        if swapped_end and kind == "after" and paired and paired[-1][0] == "removed":
            paired[-1] = ("replaced", *paired[-1][1:])
            paired += [("after", i, j + 1, length - 1)] * (length > 1)
        elif kind == "inserted" and paired and paired[-1][0] == "removed":
            _, start, _, gone = paired.pop()
            both = min(gone, length)
            paired.append(("replaced", start, j, both))
            if gone > both:
                paired.append(("removed", start + both, j + both, gone - both))
            elif length > both:
                paired.append(("inserted", i, j + both, length - both))
        else:
            paired.append((kind, i, j, length))
    return paired


def break_table_sides(diagnosis: Diagnosis, item: Break) -> tuple[list[Any], list[Any]]:
    """The sequence held before a turn that splits, and that turn's observation."""
    return break_held_and_new(diagnosis.rollout.trajectory, item.turn)


def break_table(
    diagnosis: Diagnosis, item: Break, context: int = 2, fits: int = 15, most: int = 60
) -> pd.DataFrame:
    """Held sequence and new observation aligned around a break, a row per column drawn.

    What both hold stands in one row; what is gone has no entry on the new side, what came in
    none on the held side. Where something came in for what is gone ("replaced"), the two share
    rows as far as they reach. Long stretches are cut to their ends, shorter where the rows would
    not fit side by side.

    Args:
        diagnosis, item: The rollout and one of its breaks.
        context: Elements kept in view beside each change.
        fits: Rows that a page has room for as columns.
        most: Rows at most; the last one then stands for all that is left out.

    Returns:
        Columns kind (of `break_table_blocks`, or "replaced"), count (elements the row stands for;
        above 1 where some are left out), held_index, held_id, held_text, turn, part ("O" or
        "A", of the held element), new_index, new_id, new_text, mark ("expected", "got", or both
        joined by "and", at the break). All but count are text, empty where there is nothing.
    """
    sides = break_table_sides(diagnosis, item)
    blocks = break_table_pairs(break_table_blocks(diagnosis, item), item.cause == "end_token")
    for longest in (8, 6, 4):
        places = break_table_places(blocks, longest, context)
        if len(places) <= fits:
            break
    rows = [break_table_row(diagnosis, item, sides, *place) for place in places[: most + 1]]
    if len(rows) > most:
        last = rows.pop()
        left = sum(block[3] for block in blocks) - sum(row["count"] for row in rows)
        rows.append({**last, "kind": "after", "count": left, "mark": ""})
    return pd.DataFrame(rows)


def break_table_places(
    blocks: Sequence[tuple[str, int, int, int]], longest: int, context: int
) -> list[tuple[str, int, int, int]]:
    """What the rows of a break table stand for: (kind, held index, new index, elements).

    Args:
        blocks: Of `break_table_pairs`.
        longest: Elements of a change; longer ones are cut in the middle.
        context: Elements kept in view beside each change.
    """
    places = []
    for number, (kind, i, j, length) in enumerate(blocks):
        head, foot = longest // 2, longest // 2
        if kind == "same":
            head = 0 if number == 0 else context
            # before what is only new, the last one held is enough
            ends = [block[0] for block in blocks[number + 1 : number + 2]]
            foot = 1 if ends == ["after"] else context if ends else 0
        elif kind in ("after", "unaligned"):
            head, foot = (context if kind == "after" else longest), 0
        changed = kind in ("removed", "inserted", "replaced")
        if length <= max(head + foot, longest if changed else 0) + 1:
            head, foot = length, 0
        middle = length - head - foot
        steps = [*range(head), *([head] if middle else []), *range(length - foot, length)]
        places += [
            (kind, i + step, j + step, middle if middle and step == head else 1) for step in steps
        ]
    return places


def break_table_row(
    diagnosis: Diagnosis,
    item: Break,
    sides: tuple[Sequence[Any], Sequence[Any]],
    kind: str,
    i: int,
    j: int,
    count: int,
) -> dict[str, Any]:
    """A row of `break_table`.

    Args:
        diagnosis, item: The rollout and one of its breaks.
        sides: Held sequence and new observation.
        kind, i, j, count: Of `break_table_places`.
    """
    vocab = diagnosis.rollout.vocab
    row: dict[str, Any] = {"kind": kind, "count": count, "turn": "", "part": ""}
    marks = []
    for side, mark, elements, index, lacking in (
        ("held", "expected", sides[0], i, ("inserted", "after")),
        ("new", "got", sides[1], j, ("removed",)),
    ):
        has = kind not in lacking and index < len(elements)
        element = elements[index] if has and count == 1 else None
        row[f"{side}_index"] = str(index) if has else ""
        row[f"{side}_id"] = "…" if has and count > 1 else element_id(element)
        row[f"{side}_text"] = encodable_text(
            vocab.get(element, "") if isinstance(element, int) else ""
        )
        if has and count == 1 and index == item.position:
            marks.append(mark)
    row["mark"] = " and ".join(marks)
    if row["held_index"]:
        origin = turn_origin(diagnosis.spans, item.turn, i)
        row["turn"], row["part"] = str(origin.turn), origin.part[0].upper()
    return row


def break_table_title(diagnosis: Diagnosis, item: Break) -> str:
    """The finding of a break, with the turn and part that what is gone came from."""
    if item.cause not in ("removed", "replaced") or item.bounded is not None:
        return headline_wording(item)
    places = set()
    for kind, i, _, length in break_table_blocks(diagnosis, item):
        if kind == "removed":
            ends = (turn_origin(diagnosis.spans, item.turn, at) for at in (i, i + length - 1))
            places |= {(origin.turn, origin.part) for origin in ends}
    turns = sorted({turn for turn, _ in places})
    if not turns:
        return headline_wording(item)
    whose = f"turns {turns[0]} to {turns[-1]}" if len(turns) > 1 else f"turn {turns[0]}"
    if len(places) == 1:
        whose += f"'s {places.pop()[1]}"
    gone = f"{count_text(item.removed, 'token')} of {whose}"
    if item.cause == "removed":
        return f"Turn {item.turn} splits: {gone} {'is' if item.removed == 1 else 'are'} gone"
    return f"Turn {item.turn} splits: {replaced_wording(item, gone)}"


def break_table_facts(table: pd.DataFrame) -> pd.DataFrame:
    """`break_table` as a readable table."""
    words = {
        "same": "in both",
        "removed": "gone",
        "inserted": "came in",
        "replaced": "another in its place",
        "after": "new, follows",
        "unaligned": "not aligned",
    }
    rows = []
    for row in table.to_dict("records"):
        cut = row["count"] > 1
        more = f"{row['count']} more" if cut else ""
        what = words[row["kind"]]
        rows.append(
            {
                "what": f"{what}; ✕ {row['mark']} at the break" if row["mark"] else what,
                "from": f"turn {row['turn']} {part_text(row['part'])}" if row["turn"] else "",
                "held position": row["held_index"],
                "held": more if cut and row["held_index"] else row["held_id"],
                "held text": visible_text(row["held_text"]),
                "new position": row["new_index"],
                "new": more if cut and row["new_index"] else row["new_id"],
                "new text": visible_text(row["new_text"]),
            }
        )
    return pd.DataFrame(rows)


def break_table_words(diagnosis: Diagnosis, item: Break, width: int = 8) -> tuple[str, str, str]:
    """The text around a break: what both sides share before it, what was held, what came.

    Args:
        diagnosis, item: The break belongs to the diagnosis.
        width: Tokens on each side; the cut text of a long token is not shortened further.
    """
    held, new = break_table_sides(diagnosis, item)

    def words(elements: Sequence[Any]) -> str:
        vocab = diagnosis.rollout.vocab
        return encodable_text(
            "".join(
                vocab.get(element, f"[{element}]") if isinstance(element, int) else "[image]"
                for element in elements
            )
        )

    start, end = max(0, item.position - width), item.position + width
    return (
        words(held[start : item.position]),
        words(held[item.position : end]),
        words(new[item.position : end]),
    )


def break_table_of_all(
    diagnosis: Diagnosis, renderer: str | None = None, width: int = 8
) -> pd.DataFrame:
    """Every break in words: where, why, the text around it, and what helps.

    Args:
        diagnosis: The rollout.
        renderer: Name of the renderer that wrote its observations, if known.
        width: Tokens shown on each side of the break.
    """
    rows = []
    for item in diagnosis.breaks:
        before, held, came = break_table_words(diagnosis, item, width)
        left = [
            "…" if len(side) > item.position + width else ""
            for side in break_table_sides(diagnosis, item)
        ]
        rows.append(
            {
                "turn": item.turn,
                "position": item.position,
                "cause": cause_wording(item.cause),
                "both had": ("…" if item.position > width else "") + visible_text(before, 60),
                "the model had seen or said": visible_text(held, 60) + left[0],
                "the next prompt has": visible_text(came, 60) + left[1] or "(it ends here)",
                "what helps": remedy(item, renderer),
            }
        )
    return pd.DataFrame(rows)
