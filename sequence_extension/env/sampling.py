"""A real model of Tinker as the policy."""

import asyncio
import contextlib
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sequence_extension.cookbook import (
    TinkerTokenCompleter,
    TokensWithLogprobs,
    get_tokenizer,
    tinker,
)
from sequence_extension.env.episodes import Episode, EpisodeSpec, play_episode
from sequence_extension.env.renderers import build_renderer, model_renderer
from sequence_extension.env.vocabulary import load_vocabulary
from sequence_extension.text import first_sentence_text


def sampling_error_text(secret: str, error: BaseException) -> str:
    """The first sentence of an error, with a secret struck out wherever it stands in it."""
    sentence = first_sentence_text(error)
    return sentence.replace(secret, "(key)") if secret else sentence


def sample_model(
    spec: EpisodeSpec,
    model: str,
    api_key: str,
    connect: Callable[[str], Any] | None = None,
    loader: Callable[[str], Any] = get_tokenizer,
    patience: float = 120.0,
) -> tuple[Episode | None, str]:
    """One episode with a model of Tinker as the pupil. Costs money.

    The model is sampled through the cookbook's `TinkerTokenCompleter`; tutor, adapter and loop
    are those of every other episode. All that may wait for a network happens in threads that
    are left behind, and sample nothing any more, once the patience is over: the client itself
    would retry for minutes.

    Args:
        spec: What to play; its policy is ignored, its renderer too where the cookbook
            recommends one for the model.
        model: "owner/name" of a base model.
        api_key: The Tinker key; only handed to the client, never kept or shown.
        connect: Makes a service client from the key; `tinker.ServiceClient` when None.
        loader: Loads the model's tokenizer, `get_tokenizer` in the page.
        patience: Seconds to wait for tokenizer and episode each.

    Returns:
        (episode, "") or (None, one sentence).
    """
    key = api_key.strip()
    if not key:
        return None, (
            "There is no key. Type one, or set TINKER_API_KEY before you start the editor."
        )
    tokenizer, problem = load_vocabulary(model, patience, loader, own_code=True)
    if tokenizer is None:
        return None, problem
    name = model_renderer(model) or spec.renderer
    renderer, problem = build_renderer(name, tokenizer)
    if renderer is None:
        return None, problem
    given_up = threading.Event()
    outcome: list[Any] = []

    def play_it() -> None:
        service: Any = None
        try:
            service = tinker.ServiceClient(api_key=key) if connect is None else connect(key)
            playing = replace(spec, renderer=name)
            outcome.append(sampling_episode(playing, renderer, service, model.strip(), given_up))
        except BaseException as error:  # becomes a sentence for the reader, whatever it is
            outcome.append(error)
        finally:
            with contextlib.suppress(Exception):
                if hasattr(service, "close"):
                    service.close("success")

    worker = threading.Thread(target=play_it, daemon=True)
    worker.start()
    worker.join(patience)
    given_up.set()
    return sampling_result(outcome, key, patience)


def sampling_episode(
    spec: EpisodeSpec, renderer: Any, service: Any, model: str, given_up: threading.Event
) -> Episode:
    """One episode with a model of a service client, on an event loop of its own."""
    client = service.create_sampling_client(base_model=model)
    if hasattr(client, "result"):  # newer clients give a future of the client
        client = client.result()
    # The cookbook calls what newer clients deprecate. Not `catch_warnings`: it is of the whole
    # process, and would be held while the model is waited for.
    warnings.filterwarnings("ignore", category=FutureWarning, module="tinker_cookbook")
    pupil = Pupil(client, spec.max_generation_tokens, given_up)
    return asyncio.run(play_episode(spec, renderer, pupil))


class Pupil(TinkerTokenCompleter):
    """A model that is no longer asked once nobody waits for the answer."""

    def __init__(self, client: Any, max_tokens: int, given_up: threading.Event) -> None:
        super().__init__(client, max_tokens=max_tokens)
        self.given_up = given_up

    async def __call__(self, *args: Any, **kwargs: Any) -> TokensWithLogprobs:
        if self.given_up.is_set():
            raise TimeoutError("nobody waits for this answer any more")
        return await super().__call__(*args, **kwargs)


def sampling_result(outcome: list[Any], key: str, patience: float) -> tuple[Episode | None, str]:
    """What the thread left: an episode, an error, or nothing within the patience."""
    if not outcome:
        return None, (
            f"Tinker did not answer within {patience:g} seconds. Check the network and the key."
        )
    if isinstance(outcome[0], BaseException):
        return None, f"Tinker could not be sampled: {sampling_error_text(key, outcome[0])}."
    return outcome[0], ""
