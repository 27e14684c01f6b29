"""A rollout as Python that builds it."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from sequence_extension.cookbook import PARSE_ERROR_MASKED_METRIC_KEY
from sequence_extension.rollout import Rollout, common_prefix_length, model_input_to_elements


def python_list(items: Sequence[str], prefix: str = "") -> str:
    """Items as a Python list that wraps at 88 columns after `prefix`."""
    line = ", ".join(items)
    if len(prefix) + len(line) + 2 <= 88:
        return f"[{line}]"
    indent = " " * (len(prefix) - len(prefix.lstrip()))
    inner = textwrap.fill(
        line + ",",
        width=88,
        initial_indent=indent + "    ",
        subsequent_indent=indent + "    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"[\n{inner}\n{indent}]"


def rollout_to_code(rollout: Rollout, advantage: float = 1.0) -> str:
    """Python that builds the same trajectory and calls `trajectory_to_data` on it.

    Complete with imports; runs on its own and leaves the datums in `data`. Observations that
    extend are written as what they extend plus the new tokens.
    """

    def number(value: float) -> str:
        return repr(float(value)) if math.isfinite(value) else f'float("{float(value)}")'

    transitions = rollout.trajectory.transitions
    pictures: dict[tuple[str, bytes, int | None], str] = {}

    def element(item: Any) -> str:
        if isinstance(item, int):
            return str(item)
        key = (item.format, item.data, item.expected_tokens)
        return pictures.setdefault(key, f"image_{len(pictures)}")

    body: list[str] = []
    held: list[Any] = []
    for turn, transition in enumerate(transitions):
        observation = model_input_to_elements(transition.ob)
        start = f"ob_{turn} = "
        if turn and common_prefix_length(held, observation) == len(held):
            start += f"ob_{turn - 1} + ac_{turn - 1} + "
            new = observation[len(held) :]
        else:
            new = observation
        body.append(start + python_list([element(item) for item in new], start))
        start = f"ac_{turn} = "
        body.append(start + python_list([str(token) for token in transition.ac.tokens], start))
        held = [*observation, *transition.ac.tokens]
    masked = any(PARSE_ERROR_MASKED_METRIC_KEY in item.metrics for item in transitions)
    to_input = "to_input" if pictures else "tinker.ModelInput.from_ints"
    body += ["", "transitions = ["]
    for turn, transition in enumerate(transitions):
        start = "            maybe_logprobs="
        given = transition.ac.maybe_logprobs
        logprobs = "None" if given is None else python_list([number(x) for x in given], start)
        body += [
            "    Transition(",
            f"        ob={to_input}(ob_{turn}),",
            "        ac=TokensWithLogprobs(",
            f"            tokens=ac_{turn},",
            f"{start}{logprobs},",
            "        ),",
            f"        reward={number(transition.reward)},",
            f"        episode_done={transition.episode_done},",
        ]
        if PARSE_ERROR_MASKED_METRIC_KEY in transition.metrics:
            value = number(transition.metrics[PARSE_ERROR_MASKED_METRIC_KEY])
            body.append(f"        metrics={{PARSE_ERROR_MASKED_METRIC_KEY: {value}}},")
        body.append("    ),")
    names = ["Trajectory", "Transition"]
    if masked:
        names.insert(0, "PARSE_ERROR_MASKED_METRIC_KEY")
    head = [
        "import tinker",
        "from tinker_cookbook.completers import TokensWithLogprobs",
        "from tinker_cookbook.rl.data_processing import trajectory_to_data",
        f"from tinker_cookbook.rl.types import {', '.join(names)}",
        "",
    ]
    if pictures:
        head += [
            "",
            "def to_input(elements: list) -> tinker.ModelInput:",
            '    """Token ids and images to a model input."""',
            "    chunks = [",
            "        tinker.EncodedTextChunk(tokens=[x]) if isinstance(x, int) else x",
            "        for x in elements",
            "    ]",
            "    return tinker.ModelInput(chunks=chunks)",
            "",
            "",
            "# Stand-ins: the bytes are a name, and only identical images are equal.",
            *(
                f'{name} = tinker.types.ImageChunk(data={data!r}, format="{kind}", '
                f"expected_tokens={tokens})"
                for (kind, data, tokens), name in pictures.items()
            ),
        ]
    tail = [
        "]",
        "trajectory = Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty())",
        f"data = trajectory_to_data(trajectory, traj_advantage={number(advantage)})",
        "",
        "for index, datum in enumerate(data):",
        '    print(f"datum {index}: {datum.model_input.length} inputs")',
        '    for name in ("target_tokens", "mask", "advantages", "logprobs"):',
        '        print(f"  {name:13} {list(datum.loss_fn_inputs[name].data)}")',
    ]
    return "\n".join([*head, *body, *tail]) + "\n"
