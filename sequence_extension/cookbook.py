"""The door to tinker and tinker_cookbook, and what differs between their versions."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import tinker
from tinker_cookbook import renderers
from tinker_cookbook.capture.store.db import CaptureDB, StreamEvent
from tinker_cookbook.completers import TinkerTokenCompleter, TokenCompleter, TokensWithLogprobs
from tinker_cookbook.exceptions import DataValidationError
from tinker_cookbook.model_info import get_recommended_renderer_name
from tinker_cookbook.renderers import Message, get_text_content
from tinker_cookbook.rl.data_processing import (
    assemble_training_data,
    compute_advantages,
    remove_constant_reward_groups,
    trajectory_to_data,
)
from tinker_cookbook.rl.message_env import EnvFromMessageEnv, MessageEnv, MessageStepResult
from tinker_cookbook.rl.metrics import incorporate_kl_penalty
from tinker_cookbook.rl.rollout_limits import ParseErrorPolicy, RolloutLimits
from tinker_cookbook.rl.rollouts import do_group_rollout, do_single_rollout
from tinker_cookbook.rl.train import train_step
from tinker_cookbook.rl.types import (
    PARSE_ERROR_MASKED_METRIC_KEY,
    STOP_METRIC_PREFIX,
    Env,
    EnvGroupBuilder,
    InitialObservationOverflow,
    StopReason,
    Trajectory,
    TrajectoryGroup,
    Transition,
)
from tinker_cookbook.tokenizer_utils import (
    get_tokenizer,
    is_tokenizer_registered,
    register_tokenizer,
)

__all__ = [
    "PARSE_ERROR_MASKED_METRIC_KEY",
    "STOP_METRIC_PREFIX",
    "CaptureDB",
    "DataValidationError",
    "Env",
    "EnvFromMessageEnv",
    "EnvGroupBuilder",
    "InitialObservationOverflow",
    "InlineExecutor",
    "Message",
    "MessageEnv",
    "MessageStepResult",
    "ParseErrorPolicy",
    "RolloutLimits",
    "StopReason",
    "StreamEvent",
    "TinkerTokenCompleter",
    "TokenCompleter",
    "TokensWithLogprobs",
    "Trajectory",
    "TrajectoryGroup",
    "Transition",
    "assemble_training_data",
    "compute_advantages",
    "do_group_rollout",
    "do_single_rollout",
    "get_recommended_renderer_name",
    "get_text_content",
    "get_tokenizer",
    "incorporate_kl_penalty",
    "is_tokenizer_registered",
    "register_tokenizer",
    "remove_constant_reward_groups",
    "renderers",
    "tinker",
    "train_step",
    "trajectory_to_data",
    "wait_for_cookbook",
]


class InlineExecutor(ThreadPoolExecutor):
    """Does the work at once, in the caller's thread.

    `EnvFromMessageEnv` renders in a thread so as not to hold up other rollouts of its loop.
    Here one rollout is alone on its loop, and handing over costs more than the rendering.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # handed to whoever waits for the result
            future.set_exception(error)
        return future


def wait_for_cookbook(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end, also where an event loop is running already, as in marimo.

    A cell that awaits would do as well, but then there could be no export as a flat script.
    """

    async def alone() -> Any:
        asyncio.get_running_loop().set_default_executor(InlineExecutor(1))
        return await coroutine

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(alone())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, alone()).result()
