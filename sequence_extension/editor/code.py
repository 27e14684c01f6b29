"""A rollout as Python that builds it."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from sequence_extension.cookbook import PARSE_ERROR_MASKED_METRIC_KEY, Transition
from sequence_extension.edits import unedited_prefix_length
from sequence_extension.elements import model_input_to_elements
from sequence_extension.rollout import Rollout


def code_list(items: Sequence[str], prefix: str = "") -> str:
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


def number_code(value: float) -> str:
    """A number as Python."""
    return repr(float(value)) if math.isfinite(value) else f'float("{float(value)}")'


def code_token_lines(rollout: Rollout, pictures: dict[Any, str]) -> list[str]:
    """The lists of tokens; an observation that extends is what it extends plus what is new.

    Args:
        rollout: What to write.
        pictures: Names of the images, by format, bytes and tokens; filled here.
    """

    def element(item: Any) -> str:
        if isinstance(item, int):
            return str(item)
        key = (item.format, item.data, item.expected_tokens)
        return pictures.setdefault(key, f"image_{len(pictures)}")

    lines: list[str] = []
    held: list[Any] = []
    for turn, transition in enumerate(rollout.trajectory.transitions):
        observation = model_input_to_elements(transition.ob)
        start = f"ob_{turn} = "
        new = observation
        if turn and unedited_prefix_length(held, observation) == len(held):
            start += f"ob_{turn - 1} + ac_{turn - 1} + "
            new = observation[len(held) :]
        lines.append(start + code_list([element(item) for item in new], start))
        start = f"ac_{turn} = "
        lines.append(start + code_list([str(token) for token in transition.ac.tokens], start))
        held = [*observation, *transition.ac.tokens]
    return lines


def code_transition_lines(turn: int, transition: Transition, to_input: str) -> list[str]:
    """One transition of the list.

    Args:
        turn, transition: Which.
        to_input: The function that makes a model input of its observation.
    """
    start = "            maybe_logprobs="
    given = transition.ac.maybe_logprobs
    logprobs = "None" if given is None else code_list([number_code(x) for x in given], start)
    lines = [
        "    Transition(",
        f"        ob={to_input}(ob_{turn}),",
        "        ac=TokensWithLogprobs(",
        f"            tokens=ac_{turn},",
        f"{start}{logprobs},",
        "        ),",
        f"        reward={number_code(transition.reward)},",
        f"        episode_done={transition.episode_done},",
    ]
    if PARSE_ERROR_MASKED_METRIC_KEY in transition.metrics:
        value = number_code(transition.metrics[PARSE_ERROR_MASKED_METRIC_KEY])
        lines.append(f"        metrics={{PARSE_ERROR_MASKED_METRIC_KEY: {value}}},")
    return [*lines, "    ),"]


TO_INPUT = '''
def to_input(elements: list) -> tinker.ModelInput:
    """Token ids and images to a model input."""
    chunks = [
        tinker.EncodedTextChunk(tokens=[x]) if isinstance(x, int) else x
        for x in elements
    ]
    return tinker.ModelInput(chunks=chunks)


# Stand-ins: the bytes are a name, and only identical images are equal.'''


def rollout_to_code(rollout: Rollout, advantage: float = 1.0) -> str:
    """Python that builds the same trajectory and calls `trajectory_to_data` on it.

    Complete with imports; runs on its own and leaves the datums in `data`.
    """
    transitions = rollout.trajectory.transitions
    masked = any(PARSE_ERROR_MASKED_METRIC_KEY in item.metrics for item in transitions)
    pictures: dict[tuple[str, bytes, int | None], str] = {}
    tokens = code_token_lines(rollout, pictures)
    to_input = "to_input" if pictures else "tinker.ModelInput.from_ints"
    names = [*(["PARSE_ERROR_MASKED_METRIC_KEY"] if masked else []), "Trajectory", "Transition"]
    images = [
        f'{name} = tinker.types.ImageChunk(data={data!r}, format="{kind}", '
        f"expected_tokens={tokens})"
        for (kind, data, tokens), name in pictures.items()
    ]
    lines = [
        "import tinker",
        "from tinker_cookbook.completers import TokensWithLogprobs",
        "from tinker_cookbook.rl.data_processing import trajectory_to_data",
        f"from tinker_cookbook.rl.types import {', '.join(names)}",
        "",
        *([TO_INPUT, *images] if pictures else []),
        *tokens,
        "",
        "transitions = [",
        *(
            line
            for turn, transition in enumerate(transitions)
            for line in code_transition_lines(turn, transition, to_input)
        ),
        "]",
        "trajectory = Trajectory(transitions=transitions, final_ob=tinker.ModelInput.empty())",
        f"data = trajectory_to_data(trajectory, traj_advantage={number_code(advantage)})",
        "",
        "for index, datum in enumerate(data):",
        '    print(f"datum {index}: {datum.model_input.length} inputs")',
        '    for name in ("target_tokens", "mask", "advantages", "logprobs"):',
        '        print(f"  {name:13} {list(datum.loss_fn_inputs[name].data)}")',
    ]
    return "\n".join(lines) + "\n"
