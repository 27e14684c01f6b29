"""Cost of keeping the tokens; `python tests/bench_env.py` prints a table.

Each figure is a ratio: a step of `TokenPreservingEnv` against a step of `EnvFromMessageEnv` on
the same conversation, and a step of a conversation against one half as long.
"""

import time
from typing import Any

import pandas as pd
from scripted import ScriptEnv, sampled
from tinker_cookbook.renderers import get_renderer
from tinker_cookbook.rl.message_env import EnvFromMessageEnv

from sequence_extension import TokenPreservingEnv
from sequence_extension.cookbook import wait_for_cookbook
from sequence_extension.env.vocabulary import offline_vocabulary

TURNS = 30
RENDERERS = (
    "qwen3",
    "qwen3_5",
    "llama3",
    "gpt_oss_low_reasoning",
    "glm5_3_max_reasoning",
    "tml_v0",
)
WORDS = "The tutor asks, the pupil answers, and every word of it is read again. " * 8


def conversation(turns: int) -> tuple[list[Any], list[Any]]:
    """First messages and the reply to each answer, some 130 tokens each; all texts differ."""
    start = [{"role": "user", "content": f"0: {WORDS}"}]
    replies = [[{"role": "user", "content": f"{turn}: {WORDS}"}] for turn in range(1, turns + 1)]
    return start, replies


def step_seconds(
    adapter: type[EnvFromMessageEnv], name: str, turns: int, last: int = 5
) -> tuple[float, int]:
    """Processor time of one of the last steps (the fastest), and tokens of the last prompt."""
    renderer = get_renderer(name, offline_vocabulary())
    start, replies = conversation(turns)
    answer = {"role": "assistant", "content": WORDS.strip()}
    action = sampled(renderer, name, start, answer)
    env = adapter(renderer, ScriptEnv(start, replies))
    spent: list[float] = []

    async def play() -> int:
        length = 0
        await env.initial_observation()
        for _ in range(turns):
            before = time.process_time()
            result = await env.step(action)
            spent.append(time.process_time() - before)
            length = result.next_observation.length
        return length

    tokens: int = wait_for_cookbook(play())
    return min(spent[-last:]), tokens


def bench_env(turns: int = TURNS) -> list[dict[str, Any]]:
    """One row per renderer: milliseconds of a step, the two ratios and their goals."""
    rows = []
    for name in RENDERERS:
        plain, _ = step_seconds(EnvFromMessageEnv, name, turns)
        kept, tokens = step_seconds(TokenPreservingEnv, name, turns)
        double, _ = step_seconds(TokenPreservingEnv, name, 2 * turns)
        rows.append(
            {
                "renderer": name,
                "tokens": tokens,
                "rendered anew, ms": round(1000 * plain, 2),
                "tokens kept, ms": round(1000 * kept, 2),
                "times (goal 2)": round(kept / plain, 2),
                "twice the turns, times (goal 2)": round(double / kept, 2),
            }
        )
    return rows


if __name__ == "__main__":
    print(pd.DataFrame(bench_env()).to_string(index=False))
