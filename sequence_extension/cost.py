"""What a rollout costs: tokens read again, and treatments of a break."""

import pandas as pd

from sequence_extension.datums import datum_tensor
from sequence_extension.diagnosis import Diagnosis
from sequence_extension.elements import elements_input_length
from sequence_extension.text import count_text


def cost_treatments(diagnosis: Diagnosis) -> pd.DataFrame:
    """The rollout under three treatments that trainers use at a break; a row each.

    Split (the cookbook): the real datums. Overwrite: one sequence is kept; at a break it is
    overwritten with the new observation, and of the action tokens only those before the break
    stay trained, because the others are gone or stand behind a context they were not sampled
    in. Drop: a rollout that breaks is not used.

    Returns:
        Columns treatment; datums; trained tokens; sampled, not trained; tokens processed. Empty
        where `trajectory_to_data` refused the rollout.
    """
    if diagnosis.built.error_code is not None:
        return pd.DataFrame()
    spans = diagnosis.spans
    sampled = sum(span.action for span in spans)
    trained = sum(int(sum(datum_tensor(datum, "mask"))) for datum in diagnosis.built.data)
    # Action stretches of the one sequence as (start, end); its first token is no target.
    kept: list[tuple[int, int]] = []
    for span in spans:
        if span.splits:
            kept = [(start, min(end, span.position)) for start, end in kept]
            kept = [(start, end) for start, end in kept if start < end]
        if span.action and not span.masked:
            kept.append((max(1, span.observation), span.observation + span.action))
    last = diagnosis.rollout.trajectory.transitions[-1] if spans else None
    whole = elements_input_length(last.ob) + len(last.ac.tokens) - 1 if last else 0
    survived = sum(end - start for start, end in kept)
    datums, processed = len(diagnosis.built.data), diagnosis.tokens_processed
    one = (1, survived, max(whole, 0)) if datums else (0, 0, 0)
    dropped = (0, 0, 0) if diagnosis.breaks else (datums, trained, processed)
    return pd.DataFrame(
        [
            (name, made, used, sampled - used, tokens)
            for name, (made, used, tokens) in {
                "split into datums (the cookbook)": (datums, trained, processed),
                "overwrite and mask what drifted": one,
                "drop a rollout that breaks": dropped,
            }.items()
        ],
        columns=[
            "treatment",
            "datums",
            "trained tokens",
            "sampled, not trained",
            "inputs",
        ],
    )


def cost_table(diagnosis: Diagnosis) -> pd.DataFrame:
    """What the rollout costs in tokens through the model, a row per amount.

    Returns:
        Columns what, tokens. First as it is, then what each break makes the model read once
        more, then what it would be if no turn merged. Empty on an error.
    """
    if diagnosis.tokens_processed is None:
        return pd.DataFrame()
    rows = [("as it is: sum of model_input.length", diagnosis.tokens_processed)]
    rows += [
        (f"of these read again at turn {item.turn}'s break", item.again)
        for item in diagnosis.breaks
    ]
    rows.append(("if no turn merged", diagnosis.tokens_unmerged or 0))
    return pd.DataFrame(rows, columns=["what", "inputs"])


def cost_sentence(diagnosis: Diagnosis) -> str:
    """The price of a rollout in one or two sentences."""
    now, apart = diagnosis.tokens_processed or 0, diagnosis.tokens_unmerged or 0
    again = sum(item.again for item in diagnosis.breaks)
    sentence = (
        f"{count_text(len(diagnosis.spans), 'turn')} in "
        f"{count_text(len(diagnosis.built.data), 'datum')}: {count_text(now, 'input')} "
        f"through the model; {apart:,} if no turn merged."
    )
    if again:
        sentence += (
            f" {again:,} of the {now:,} {'is' if again == 1 else 'are'} read again: an earlier "
            "datum had them as inputs already."
        )
    return sentence
