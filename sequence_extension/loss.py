"""What of a datum reaches the loss."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from sequence_extension.cookbook import (
    incorporate_kl_penalty,
    tinker,
    train_step,
    wait_for_cookbook,
)


class RecordingClient:
    """Stands where a `tinker.TrainingClient` stands and only writes down what it is sent.

    Attributes:
        sent: Every datum that reached `forward_backward_async`.
    """

    def __init__(self) -> None:
        self.sent: list[tinker.Datum] = []

    async def forward_backward_async(self, data: Sequence[tinker.Datum], **_: Any) -> Any:
        self.sent.extend(data)
        outputs = [{"logprobs": datum.loss_fn_inputs["logprobs"]} for datum in data]
        return RecordedResult(outputs)

    async def optim_step_async(self, _: Any) -> Any:
        return RecordedResult([])


@dataclass(frozen=True)
class RecordedResult:
    """What `RecordingClient` answers: a future and its result in one."""

    loss_fn_outputs: list[dict[str, tinker.TensorData]]
    metrics: dict[str, float] = field(default_factory=dict)

    async def result_async(self) -> "RecordedResult":
        return self


def sent_to_loss(data_D: Sequence[tinker.Datum]) -> list[tinker.Datum]:
    """The datums as the loss sees them: what the real `train_step` sends for training.

    Nothing is trained and nothing leaves the machine: the client is a `RecordingClient`.
    """
    client: Any = RecordingClient()
    wait_for_cookbook(
        train_step(
            list(data_D), client, learning_rate=0.0, num_substeps=1, loss_fn="importance_sampling"
        )
    )
    sent: list[tinker.Datum] = client.sent
    return sent


class RecordingSampler:
    """Stands where the base model of a KL penalty stands; a little less sure of every token."""

    async def compute_logprobs_async(self, prompt: tinker.ModelInput) -> list[float]:
        return [-1.0 - 0.01 * position for position in range(prompt.length)]


def loss_kl_penalised(data_D: Sequence[tinker.Datum], discount: float = 0.0) -> list[tinker.Datum]:
    """Copies of the datums after the real `incorporate_kl_penalty`, with coefficient 0.1."""
    copies = [
        tinker.Datum(model_input=datum.model_input, loss_fn_inputs=dict(datum.loss_fn_inputs))
        for datum in data_D
    ]
    base: Any = RecordingSampler()
    wait_for_cookbook(
        incorporate_kl_penalty(copies, base, kl_penalty_coef=0.1, kl_discount_factor=discount)
    )
    return copies


def loss_mask_lines() -> str:
    """The lines of the installed `rl/train.py` that take `mask` out, with their numbers."""
    module = inspect.getmodule(inspect.unwrap(train_step))
    lines = inspect.getsource(module).splitlines() if module else []
    return "\n".join(
        f"{number:>4}  {line}"
        for number, line in enumerate(lines, start=1)
        if "_remove_mask" in line or '"mask"' in line
    )


def loss_fields(data_D: Sequence[tinker.Datum]) -> pd.DataFrame:
    """Which fields of the datums `train_step` lets through to the loss.

    Returns:
        Columns field of `loss_fn_inputs`, in the datum, reaches forward_backward.
    """
    sent = sent_to_loss(data_D)
    names = sorted({name for datum in data_D for name in datum.loss_fn_inputs})
    return pd.DataFrame(
        {
            "field of loss_fn_inputs": names,
            "in the datum": ["yes"] * len(names),
            "reaches forward_backward": [
                "yes" if all(name in datum.loss_fn_inputs for datum in sent) else "no, removed"
                for name in names
            ],
        }
    )
