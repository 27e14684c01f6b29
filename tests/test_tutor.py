"""The code shown in the page is the code that runs."""

import ast
import asyncio
import inspect
from pathlib import Path
from typing import Any

from rollouts import episode_of

from sequence_extension.env.episodes import (
    EpisodeSpec,
)
from sequence_extension.env.policies import ScriptedPolicy
from sequence_extension.env.tutor import TutorEnv
from sequence_extension.page.playground import playground_code


def test_shown_code_is_the_code_that_runs(built: dict[str, Any]) -> None:
    shown = ast.parse(playground_code())
    source = ast.parse(Path(str(inspect.getsourcefile(TutorEnv))).read_text(encoding="utf-8"))
    for name in ("TutorEnv", "play_tutor"):
        (left,) = [node for node in shown.body if getattr(node, "name", "") == name]
        (right,) = [node for node in source.body if getattr(node, "name", "") == name]
        right.decorator_list = []  # type: ignore[attr-defined]
        assert ast.dump(left) == ast.dump(right)


def test_shown_code_runs_on_its_own(built: dict[str, Any]) -> None:
    copied: dict[str, Any] = {}
    exec(compile(playground_code(), "copied.py", "exec"), copied)
    policy = ScriptedPolicy(built["qwen3"], "reasoning")
    trajectory = asyncio.run(
        copied["play_tutor"](
            built["qwen3"], policy, copied["TutorEnv"](0, 3), max_generation_tokens=64
        )
    )
    assert trajectory == episode_of(EpisodeSpec("qwen3", "reasoning")).rollout.trajectory
