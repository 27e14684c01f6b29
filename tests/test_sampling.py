"""A real model as the pupil: a key goes to the client and nowhere else; whatever fails gives one
sentence, in bounded time.
"""

import inspect
import threading
from types import SimpleNamespace
from typing import Any

import marimo as mo
import numpy as np
import pytest
import tinker
from rollouts import episode_of
from tinker_cookbook.completers import TinkerTokenCompleter

from sequence_extension.cookbook import TokenCompleter
from sequence_extension.env.episodes import EpisodeSpec
from sequence_extension.env.policies import ScriptedPolicy
from sequence_extension.env.renderers import build_renderer
from sequence_extension.env.sampling import sample_model
from sequence_extension.env.vocabulary import offline_vocabulary
from sequence_extension.page.live import SecretField, is_live_editor

KEY = "tml-not-a-real-key"


class StandInSampler:
    """The interface of `tinker.SamplingClient`, answered by a scripted pupil."""

    def __init__(self, renderer: Any) -> None:
        self.pupil = ScriptedPolicy(renderer, "plain", max_tokens=64)
        self.calls: list[tinker.SamplingParams] = []

    async def sample_async(
        self,
        prompt: tinker.ModelInput,
        num_samples: int,
        sampling_params: tinker.SamplingParams,
        include_prompt_logprobs: bool = False,
        topk_prompt_logprobs: int = 0,
        **more: Any,
    ) -> Any:
        self.calls.append(sampling_params)
        assert num_samples == 1
        said = await self.pupil(prompt, sampling_params.stop, max_tokens=sampling_params.max_tokens)
        return tinker.SampleResponse(
            sequences=[
                tinker.SampledSequence(
                    stop_reason=said.stop_reason,
                    sequence_id=f"sequence {len(self.calls)}",
                    tokens_np=np.array(said.tokens, dtype=np.int32),
                    logprobs_np=np.array(said.logprobs, dtype=np.float32),
                )
            ]
        )


class StandInService:
    """The part of `tinker.ServiceClient` that is used; the client may come as a future."""

    def __init__(self, sampler: Any, as_future: bool) -> None:
        self.sampler, self.as_future = sampler, as_future
        self.models: list[str] = []
        self.closed = False

    def create_sampling_client(
        self, model_path: str | None = None, base_model: str | None = None, **more: Any
    ) -> Any:
        assert model_path is None
        assert base_model is not None
        self.models.append(base_model)
        if not self.as_future:
            return self.sampler
        return SimpleNamespace(result=lambda: self.sampler)

    def close(self, status: str, detail: str | None = None) -> None:
        self.closed = True


@pytest.fixture
def stand_in() -> StandInSampler:
    return StandInSampler(build_renderer("qwen3", offline_vocabulary())[0])


def ask(connect: Any, key: str = KEY, **more: Any) -> tuple[Any, str]:
    options = {"loader": lambda model: offline_vocabulary(), **more}
    return sample_model(
        EpisodeSpec(max_generation_tokens=48), "Qwen/Qwen3-8B", key, connect, **options
    )


def test_the_stand_in_has_the_real_clients_interface() -> None:
    pairs: list[tuple[Any, Any]] = [
        (StandInSampler.sample_async, tinker.SamplingClient.sample_async),
        (StandInService.create_sampling_client, tinker.ServiceClient.create_sampling_client),
        (StandInService.close, tinker.ServiceClient.close),
    ]
    for ours, real in pairs:
        theirs = inspect.signature(real).parameters
        for name, parameter in inspect.signature(ours).parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                continue
            assert name in theirs, (real, name)
            assert (parameter.default is inspect.Parameter.empty) == (
                theirs[name].default is inspect.Parameter.empty
            ), (real, name)
    assert inspect.iscoroutinefunction(StandInSampler.sample_async)
    assert "api_key" in inspect.signature(tinker.ServiceClient.__init__).parameters


@pytest.mark.parametrize("as_future", [False, True])
def test_a_model_is_sampled_through_the_cookbooks_completer(
    stand_in: StandInSampler, as_future: bool
) -> None:
    keys: list[str] = []
    service = StandInService(stand_in, as_future)

    def connect(key: str) -> StandInService:
        keys.append(key)
        return service

    episode, problem = ask(connect, f"  {KEY}\n")
    assert problem == ""
    assert keys == [KEY]
    assert service.models == ["Qwen/Qwen3-8B"]
    assert service.closed
    assert [call.max_tokens for call in stand_in.calls] == [48, 48, 48]
    assert stand_in.calls[0].stop == episode.renderer.get_stop_sequences()
    assert episode.spec.renderer == "qwen3"  # recommended for the model
    assert episode.rewards == [1.0, 1.0, 1.0]
    same = episode_of(EpisodeSpec(renderer="qwen3", policy="plain"))
    assert [t.ac.tokens for t in episode.rollout.trajectory.transitions] == [
        t.ac.tokens for t in same.rollout.trajectory.transitions
    ]
    assert KEY not in repr(episode)
    assert issubclass(TinkerTokenCompleter, TokenCompleter)


def test_without_a_key_nothing_is_asked() -> None:
    def connect(key: str) -> Any:
        raise AssertionError("asked without a key")

    for empty in ("", "  \n"):
        episode, problem = ask(connect, empty)
        assert episode is None
        assert "no key" in problem
        assert "TINKER_API_KEY" in problem


def test_a_model_that_does_not_load_gives_one_sentence() -> None:
    def offline(model: str) -> Any:
        raise OSError("We couldn't connect to 'https://huggingface.co'. Check your connection.")

    episode, problem = ask(lambda key: None, loader=offline)
    assert episode is None
    assert "Qwen/Qwen3-8B could not be loaded" in problem
    assert sample_model(EpisodeSpec(), "../secrets", KEY, lambda key: None)[0] is None


def test_the_key_is_struck_out_of_what_fails() -> None:
    def refuse(key: str) -> Any:
        raise RuntimeError(f"401: the key {key} is not valid. Bearer {key}")

    episode, problem = ask(refuse)
    assert episode is None
    assert problem.startswith("Tinker could not be sampled: 401")
    assert KEY not in problem


def test_a_silent_service_is_given_up_and_not_asked_later(stand_in: StandInSampler) -> None:
    let_go, done = threading.Event(), threading.Event()

    class Slow(StandInService):
        def close(self, status: str, detail: str | None = None) -> None:
            done.set()

    def connect(key: str) -> Slow:
        let_go.wait(30)
        return Slow(stand_in, as_future=False)

    episode, problem = ask(connect, patience=0.05)
    assert episode is None
    assert "did not answer within 0.05 seconds" in problem
    let_go.set()
    assert done.wait(30)
    assert stand_in.calls == []  # nobody waits, so nothing is sampled and nothing is paid


def test_the_editors_variables_panel_does_not_see_the_key() -> None:
    from marimo._messaging.variables import create_variable_value

    secret = SecretField("Tinker key")
    secret.field._update(KEY)
    assert secret.reveal() == KEY
    assert KEY not in repr(secret)
    assert KEY not in str(create_variable_value("matrix_key", secret).value)
    assert KEY not in secret.field.text
    # what the wrapper is for: a bare password field would be printed there
    assert KEY in str(create_variable_value("matrix_key", secret.field).value)


def test_only_the_live_editor_offers_a_real_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for mode, request, live in [
        ("edit", object(), True),
        ("edit", None, False),  # an export
        ("run", object(), False),
        ("script", None, False),
    ]:
        meta = SimpleNamespace(mode=mode, request=request)
        monkeypatch.setattr(mo, "app_meta", lambda meta=meta: meta)
        assert is_live_editor() is live
