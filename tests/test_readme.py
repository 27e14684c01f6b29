"""What the README shows of the command and of Python runs as it stands there.

Invariants:

1. Commands: every option of a command in the README is one of the command's.
2. CI: the step passes on rollouts that extend, and fails on one that splits, warns or is refused.
3. Python: each block runs on rollouts of the real loop and does what is said.
4. Values: the metrics are those of such rollouts, and the file of two turns is read.
"""

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from browser import ROOT, readme_commands
from rollouts import episode_of, make_trajectory, make_turn
from tinker_cookbook.rl.types import TrajectoryGroup
from tinker_cookbook.utils import ml_log

from sequence_extension import extension_metrics, write_rollouts
from sequence_extension.cli import cli_parser, main
from sequence_extension.env.episodes import EpisodeSpec
from sequence_extension.env.policies import ScriptedPolicy
from sequence_extension.env.renderers import build_renderer
from sequence_extension.env.tutor import TutorEnv
from sequence_extension.env.vocabulary import offline_vocabulary

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)


def block(word: str) -> str:
    """The one block of Python that holds a word."""
    (found,) = [text for text in BLOCKS if word in text]
    return str(found)


def test_commands_are_understood() -> None:
    """Invariant 1."""
    commands = [line for line in readme_commands() if "sequence-extension captured" in line]
    assert len(commands) >= 5
    for line in commands:
        arguments = line.split("sequence-extension ", 1)[1]
        assert cli_parser().parse_args(shlex.split(arguments)).files == ["captured"]


GOOD = make_trajectory(([1, 2], [3]), ([1, 2, 3, 4], [5]))
BAD = {
    "splits": make_trajectory(([1, 2], [3]), ([1, 9], [5])),
    "refused": make_trajectory(make_turn([1], [2], None)),
    "warns": make_trajectory(make_turn([1], [2, 3], [-0.5, float("nan")])),
}


@pytest.mark.parametrize("bad", [None, *BAD])
def test_the_step_of_ci_holds_or_fails(
    bad: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 2."""
    (step,) = re.findall(r"- run: uv run sequence-extension (.*)", README)
    monkeypatch.chdir(tmp_path)
    write_rollouts("rollouts.jsonl", [GOOD, *([] if bad is None else [BAD[bad]])])
    assert main(shlex.split(step)) == (0 if bad is None else 1)


@pytest.mark.parametrize(("policy", "holds"), [("plain", True), ("reasoning", False)])
def test_the_test_of_an_environment(policy: str, holds: bool) -> None:
    """Invariant 3: the scripted tutor through the real loop, on a renderer that strips."""
    tokenizer = offline_vocabulary()
    renderer, _ = build_renderer("qwen3", tokenizer)
    scope: dict[str, Any] = {}
    exec(block("def test_my_environment_extends"), scope)

    def run() -> None:
        env = scope_env(renderer)
        scope["test_my_environment_extends"](ScriptedPolicy(renderer, policy), env, tokenizer)

    if holds:
        run()
        return
    with pytest.raises(AssertionError, match="datums, but at most 1 is allowed") as caught:
        run()
    assert "expected  <think>" in str(caught.value)


def scope_env(renderer: Any) -> Any:
    from tinker_cookbook.rl.message_env import EnvFromMessageEnv

    return EnvFromMessageEnv(renderer, TutorEnv(0, 3))


def groups() -> list[TrajectoryGroup]:
    episodes = [episode_of(EpisodeSpec("qwen3", policy)) for policy in ("plain", "reasoning")]
    played = [episode.rollout.trajectory for episode in episodes]
    return [TrajectoryGroup(played, [0.0, 1.0], [{}, {}])]


def test_the_line_of_a_training_loop(tmp_path: Path) -> None:
    """Invariant 3: the numbers arrive in the cookbook's own log."""
    logger = ml_log.JsonLogger(str(tmp_path))
    scope = {"metrics": {}, "ml_logger": logger, "i_batch": 0, "trajectory_groups_P": groups()}
    exec(block("extension_metrics(trajectory_groups_P)"), scope)
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    logged = json.loads(line)
    assert logged["extension/datums_per_trajectory"] > 1
    assert logged["extension/cause/removed"] == 1


def test_the_lines_of_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invariant 3."""
    monkeypatch.chdir(tmp_path)
    exec(block('write_rollouts("rollouts.jsonl"'), {"trajectory_groups_P": groups()})
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(": removed at " in line and "TokenPreservingEnv" in line for line in lines)


def test_the_metrics_are_those_of_real_rollouts() -> None:
    """Invariant 4: keys, their order, and values to three places."""
    shown = ast.literal_eval(block("num_seq_before_merge"))
    metrics = extension_metrics(groups())
    assert list(shown) == list(metrics)
    assert shown == {name: round(value, 3) for name, value in metrics.items()}


def test_the_format_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invariant 4: as it stands, and as one line of JSONL."""
    (text,) = re.findall(r"```json\n(.*?)```", README, re.S)
    monkeypatch.chdir(tmp_path)
    for name, content in (("a.json", text), ("a.jsonl", text.replace("\n", "") + "\n")):
        Path(name).write_text(content)
        assert main([name, "--json"]) == 0
        (entry,) = json.loads(capsys.readouterr().out)["trajectories"]
        assert (entry["name"], entry["turns"]) == ("my rollout", 2)
        (datum,) = entry["datums"]
        assert datum["target_tokens"] == [2, 3, 4, 5, 6]
