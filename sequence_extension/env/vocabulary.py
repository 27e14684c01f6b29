"""Vocabularies: the offline one, and those of real models."""

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sequence_extension.cookbook import (
    get_tokenizer,
    is_tokenizer_registered,
    register_tokenizer,
    renderers,
)
from sequence_extension.env.renderers import collect_renderer_warnings
from sequence_extension.tokenizers import (
    MODEL_NAME,
    TokenizerError,
    load_tokenizer,
    tokenizer_hub_reachable,
    tokenizer_path,
    wait_for_tokenizer_hub,
)

# Name of the offline vocabulary in the cookbook's tokenizer registry.
OFFLINE_VOCABULARY = "sequence-extension/offline"
# The model whose text vocabulary comes with `tml-renderers`, so that nothing is downloaded.
OFFLINE_MODEL = "thinkingmachines/Inkling"
# Tags that some family's vocabulary holds as one token, next to its `<|...|>` markers.
MARKER_TAGS = (
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "[gMASK]",
    "<sop>",
    "\uff5cDSML\uff5c",
)


@dataclass
class OfflineBackend:
    """What later cookbooks copy from a tokenizer to encode message content literally.

    Attributes:
        owner: The tokenizer; shared by copies, since it is only read.
        encode_special_tokens: True takes markers in a text apart, as it does in `tokenizers`.
    """

    owner: Any
    encode_special_tokens: bool = False

    def __deepcopy__(self, memo: dict[int, Any]) -> "OfflineBackend":
        return replace(self)

    def encode(self, text: str, add_special_tokens: bool = False, **_: Any) -> Any:
        """An object whose `ids` are the tokens of the text."""
        ids = self.owner.encode(text, split_special_tokens=self.encode_special_tokens)
        return SimpleNamespace(ids=ids)


class OfflineTokenizer:
    """The 200k text vocabulary inside `tml-renderers`, with every family's chat markers.

    Text is encoded for real. A chat marker such as `<|im_end|>` or `<think>` becomes one
    reserved id above that vocabulary, as it is one id in its family's own vocabulary, so
    the cookbook's renderers run with no download. Ids are those of no real model.

    Attributes:
        markers: Marker to id. Markers the vocabulary has itself keep their own id.
        bos_token, eos_token, eos_token_id: As the renderers ask for them.
    """

    def __init__(self, name_or_path: str) -> None:
        self.name_or_path = name_or_path
        with collect_renderer_warnings():  # an older cookbook calls a deprecated constructor
            vocabulary: Any = get_tokenizer(OFFLINE_MODEL)
        # The name under which the cookbook's `tml_v0` renderer asks for it.
        self.tml_tokenizer: Any = vocabulary.tml_tokenizer
        own = {
            f"<|{name}|>": int(self.tml_tokenizer.encode_special(name))
            for name in self.tml_tokenizer.special_tokens()
        }
        first = max(own.values()) + 1
        named = [marker for marker in chat_marker_vocabulary() if marker not in own]
        self.markers: dict[str, int] = {
            **own,
            **{marker: first + offset for offset, marker in enumerate(named)},
        }
        self._names = {token: marker for marker, token in self.markers.items()}
        by_length = sorted(self.markers, key=len, reverse=True)
        self._any_marker = re.compile("(" + "|".join(map(re.escape, by_length)) + ")")
        # Tags like <think> stay whole even where a renderer asks to split special tokens:
        # in the real vocabularies they are added tokens, not special ones.
        tags = [marker for marker in by_length if marker in MARKER_TAGS]
        self._only_tags = re.compile("(" + "|".join(map(re.escape, tags)) + ")")
        self.bos_token = "<|begin_of_text|>"
        self.eos_token = "<|endoftext|>"
        self.eos_token_id = self.markers[self.eos_token]
        self.all_special_tokens = list(self.markers)
        self.all_special_ids = list(self.markers.values())
        self.backend_tokenizer = OfflineBackend(self)
        self._encoded: dict[tuple[str, bool], tuple[int, ...]] = {}

    def encode(
        self,
        text: str,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
        **_: Any,
    ) -> list[int]:
        """Text to ids, each marker to its single id; nothing is ever added."""
        key = (text, split_special_tokens)
        known = self._encoded.get(key)
        if known is not None:
            return list(known)
        pattern = self._only_tags if split_special_tokens else self._any_marker
        tokens: list[int] = []
        for piece in pattern.split(text):
            if not piece:
                continue
            marker = self.markers.get(piece) if pattern.fullmatch(piece) else None
            if marker is None:
                tokens.extend(self.tml_tokenizer.encode_ordinary(piece))
            else:
                tokens.append(marker)
        # Renderers encode the same headers and short messages over and over.
        if len(text) <= 200 and len(self._encoded) < 4096:
            self._encoded[key] = tuple(tokens)
        return tokens

    def decode(self, token_ids: Sequence[int] | int, **_: Any) -> str:
        """Ids to text; bytes that are no whole character come out as U+FFFD."""
        ids = [token_ids] if isinstance(token_ids, int) else list(token_ids)
        words: list[str] = []
        run: list[int] = []
        for token in ids:
            if token in self._names:
                words.append(self.tml_tokenizer.decode(run) if run else "")
                words.append(self._names[token])
                run = []
            else:
                run.append(token)
        words.append(self.tml_tokenizer.decode(run) if run else "")
        return "".join(words)

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """A marker (or a piece that is one token) to its id; a list to a list."""
        if not isinstance(tokens, str):
            return [self.convert_tokens_to_ids(token) for token in tokens]
        encoded = self.encode(tokens)
        return encoded[0] if len(encoded) == 1 else None

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> Any:
        """The text of an id; a list to a list."""
        return self.decode(ids) if isinstance(ids, int) else [self.decode(token) for token in ids]


def chat_marker_vocabulary() -> list[str]:
    """Every chat marker that the installed renderers write, sorted.

    Read from the renderers' own source, so a family of a later cookbook brings its markers
    along: `<|name|>`, DeepSeek's full-width form (also where only the name is asked for),
    and the tags that at least one family keeps as one token.
    """
    bar = "\uff5c"
    found: set[str] = set(MARKER_TAGS)
    for path in sorted(Path(str(renderers.__file__)).parent.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        found.update(re.findall(rf"<\|\w+\|>|<{bar}[^<>{{}}\s{bar}]+{bar}>", source))
        names = re.findall(r"_get_special_token\(\s*\"([^\"<>]+)\"", source)
        found.update(f"<{bar}{name}{bar}>" for name in names)
    return sorted(found)


def offline_vocabulary() -> Any:
    """The one `OfflineTokenizer` of this process.

    The vocabulary takes seconds to load and every reader of a served app runs the notebook
    anew in the same process, so the instance lives in the cookbook's tokenizer registry:
    outside any session, and found by `get_tokenizer` when a renderer is unpickled.
    """
    if not is_tokenizer_registered(OFFLINE_VOCABULARY):
        lock = threading.Lock()
        built: list[OfflineTokenizer] = []

        def factory() -> Any:
            with lock:
                if not built:
                    built.append(OfflineTokenizer(OFFLINE_VOCABULARY))
                return built[0]

        register_tokenizer(OFFLINE_VOCABULARY, factory)
    return get_tokenizer(OFFLINE_VOCABULARY)


def load_vocabulary(
    name: str,
    timeout: float = 30.0,
    loader: Callable[[str], Any] = get_tokenizer,
    reachable: Callable[[], bool] = tokenizer_hub_reachable,
    own_code: bool = False,
    folders: bool = False,
) -> tuple[Any | None, str]:
    """A model's own tokenizer, by its Hugging Face name, or the reason there is none.

    Only ever called when a reader asks for it.

    Args:
        name: "owner/model". A path is refused, as `get_tokenizer` would run code found there;
            with `folders` it is read without.
        timeout: Seconds to wait; a tenth of it where the hub does not answer, enough for a
            model that has been downloaded before.
        loader, reachable: Stand in for the network in tests.
        own_code: Also load models whose tokenizer is code of their own (Kimi); not for a
            served app, where a stranger types the name.
        folders: Also take a folder or `tokenizer.json` of this machine; not for a served app.

    Returns:
        (tokenizer, "") or (None, one sentence).
    """
    model = name.strip()
    if folders:
        try:
            if tokenizer_path(model) is not None:
                return load_tokenizer(model, renders=True), ""
        except TokenizerError as error:
            return None, f"{error} The offline vocabulary stays."
    if not re.fullmatch(MODEL_NAME, model):
        return None, "Type a model as owner/name, for example Qwen/Qwen3-8B."
    if Path(model).exists():
        return None, f"{model} is a path on this machine; only models of the hub are loaded."
    if model.lower().startswith("moonshotai/") and not own_code:
        return None, f"{model} brings code of its own, which a served page does not run."
    try:
        return wait_for_tokenizer_hub(model, loader, timeout, reachable), ""
    except TokenizerError as error:
        return None, f"{error} The offline vocabulary stays."
