"""Texts of token ids, from a tokenizer in a local folder or of a model by its name.

A token may hold a part of a character. Its text then has a lone surrogate for each byte, as
`bytes.decode` writes them with `surrogateescape` (PEP 383), so that texts still tell their bytes.
"""

import os
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sequence_extension.text import bytes_to_text, first_sentence_text, shown_text

if TYPE_CHECKING:  # torch comes with it, and a wrong path is said before torch is there
    from sequence_extension.rollout import Rollout

# What a folder holds one of at least, where there is a vocabulary in it: from settings alone
# transformers makes a tokenizer of no words.
FILES = (
    "tokenizer.json",
    "tekken.json",
    "vocab*",
    "*.vocab",
    "*.model",
    "*.model.v*",
    "*.tiktoken",
)
MODEL_NAME = r"[A-Za-z0-9][\w.-]{0,60}/[A-Za-z0-9][\w.-]{0,90}"


class TokenizerError(ValueError):
    """One sentence on why there is no tokenizer."""


def tokenizer_byte_letters() -> dict[str, int]:
    """The letter that stands for each byte in the vocabularies of byte-level BPE, to the byte.

    Bytes that draw stand for themselves, the others for letters from U+0100 on: the table of
    GPT-2, which every byte-level vocabulary in `tokenizer.json` form uses.
    """
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    letters = {chr(byte): byte for byte in plain}
    return letters | {chr(0x100 + place): byte for place, byte in enumerate(others)}


BYTE_LETTERS = tokenizer_byte_letters()


def tokenizer_backend_text(backend: Any, token: int) -> str | None:
    """Text of a token of a `tokenizers.Tokenizer`; None outside its vocabulary."""
    name: str | None = backend.id_to_token(token)
    if name is None or token in backend.get_added_tokens_decoder():
        return name
    decoder = repr(backend.decoder)
    if "ByteLevel" in decoder and all(letter in BYTE_LETTERS for letter in name):
        return bytes_to_text(bytes(BYTE_LETTERS[letter] for letter in name))
    if re.fullmatch(r"<0x[0-9A-F]{2}>", name) and "ByteFallback" in decoder:
        return bytes_to_text(bytes([int(name[3:5], 16)]))
    if "\u2581" in decoder:  # SentencePiece's sign for a space
        return str(name).replace("\u2581", " ")
    return str(backend.decode([token], skip_special_tokens=False))


def tokenizer_token_text(tokenizer: Any, token: int) -> str | None:
    """Text of one token; None where the tokenizer has none.

    Args:
        tokenizer: A `tokenizers.Tokenizer`, a tokenizer of `transformers` or of the cookbook, or
            anything with `decode`. Asked for bytes where it can give them.
        token: Its id.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    try:
        if hasattr(backend, "id_to_token"):
            return tokenizer_backend_text(backend, token)
        text = str(tokenizer.decode([token]))
    except Exception:  # an id outside the vocabulary has no text
        return None
    if "\ufffd" not in text:
        return text
    for owner, ask in (("tml_tokenizer", "decode_bytes"), ("model", "decode_single_token_bytes")):
        give = getattr(getattr(tokenizer, owner, None), ask, None)
        if give is not None:  # tml-renderers; tiktoken, which Kimi's tokenizer wraps
            return bytes_to_text(bytes(give([token] if ask == "decode_bytes" else token)))
    return text


class TokenTexts(Mapping[int, str]):
    """Texts of a whole vocabulary, each asked for when first needed."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._texts: dict[int, str | None] = {}

    def __getitem__(self, token: int) -> str:
        if token not in self._texts:
            self._texts[token] = tokenizer_token_text(self._tokenizer, token)
        text = self._texts[token]
        if text is None:
            raise KeyError(token)
        return text

    def __iter__(self) -> Iterator[int]:
        return (token for token in range(len(self)) if token in self)

    def __len__(self) -> int:
        size = getattr(self._tokenizer, "get_vocab_size", None)
        return int(size() if size is not None else len(self._tokenizer))


class WithOwn(Mapping[int, str]):
    """The texts that a file gives, and a tokenizer's for all other tokens."""

    def __init__(self, own: Mapping[int, str], texts: Mapping[int, str]) -> None:
        self._own, self._texts = own, texts

    def __getitem__(self, token: int) -> str:
        return self._own[token] if token in self._own else self._texts[token]

    def __iter__(self) -> Iterator[int]:
        yield from self._own
        yield from (token for token in self._texts if token not in self._own)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def with_tokenizer_texts(rollout: "Rollout", texts: Mapping[int, str] | None) -> "Rollout":
    """The rollout with texts for its tokens; those that its file gives come first."""
    if texts is None:
        return rollout
    return replace(rollout, vocab=WithOwn(rollout.vocab, texts) if rollout.vocab else texts)


def tokenizer_texts(tokenizer: Any, tokens: Iterable[int]) -> dict[int, str]:
    """Text of each distinct token, for the `vocab` of a `Rollout`.

    Args:
        tokenizer: As for `tokenizer_token_text`.
        tokens: Token ids, repeats allowed.
    """
    texts = {token: tokenizer_token_text(tokenizer, token) for token in dict.fromkeys(tokens)}
    return {token: text for token, text in texts.items() if text is not None}


def tokenizer_path(name_or_path: str) -> Path | None:
    """The folder or file on this machine that is meant, or None for a model's name.

    What exists is taken first, so that a name never hides a folder. Nothing is loaded.

    Raises:
        TokenizerError: One sentence: it is neither, or it holds no tokenizer.
    """
    try:
        path = Path(name_or_path).expanduser()
        exists = path.exists()
    except (OSError, ValueError, RuntimeError):  # too long, no text, or nobody's home
        exists = False
    if not exists:
        if re.fullmatch(MODEL_NAME, name_or_path):
            return None
        raise TokenizerError(
            f"{shown_text(name_or_path, 200)} is neither a folder with a tokenizer nor a model's "
            "name "
            "such as Qwen/Qwen3-8B."
        )
    if not path.is_dir() and not path.is_file():
        raise TokenizerError(f"{shown_text(str(path), 200)} is neither a folder nor a file.")
    if path.is_dir() and not any(one.is_file() for name in FILES for one in path.glob(name)):
        raise TokenizerError(f"The folder {shown_text(str(path), 200)} holds no tokenizer.json.")
    return path


def load_tokenizer(
    name_or_path: str, trust_remote_code: bool = False, renders: bool = False
) -> Any:
    """A tokenizer from a folder or file on this machine, or of a model by its Hugging Face name.

    A local one never calls out. A model's own code is run only where it is trusted.

    Args:
        name_or_path: A folder, a `tokenizer.json`, or "owner/model", see `tokenizer_path`.
        trust_remote_code: Run the Python code that comes with the tokenizer, if any.
        renders: Renderers will use it, which ask for more than the texts of tokens.

    Raises:
        TokenizerError: One sentence: what is missing, or why it does not load.
    """
    path = tokenizer_path(name_or_path)
    if path is not None:
        return load_local_tokenizer(path, trust_remote_code, renders)

    def load(name: str) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(name, trust_remote_code=trust_remote_code)

    return wait_for_tokenizer_hub(name_or_path, load)


@cache
def load_tokenizer_texts(name_or_path: str, trust_remote_code: bool = False) -> TokenTexts:
    """The texts of `load_tokenizer`'s vocabulary, loaded once per process.

    Raises:
        TokenizerError: As `load_tokenizer`.
    """
    return TokenTexts(load_tokenizer(name_or_path, trust_remote_code))


def load_local_tokenizer(path: Path, trust_remote_code: bool, renders: bool) -> Any:
    """A tokenizer from what `tokenizer_path` gives.

    Raises:
        TokenizerError: It does not load.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        if file.is_file() and not renders:
            from tokenizers import Tokenizer

            return Tokenizer.from_file(str(file))
        from transformers import AutoTokenizer, PreTrainedTokenizerFast

        if file is path:
            return PreTrainedTokenizerFast(tokenizer_file=str(file))  # type: ignore[no-untyped-call]
        # without a config.json, too, which the other needs to know the model
        loader: Any = PreTrainedTokenizerFast if file.is_file() else AutoTokenizer
        own_code = {} if file.is_file() else {"trust_remote_code": trust_remote_code}
        return loader.from_pretrained(str(path), local_files_only=True, **own_code)
    except Exception as error:  # any refusal becomes a sentence
        raise TokenizerError(
            f"No tokenizer could be read from {shown_text(str(path), 200)}: "
            f"{first_sentence_text(error)}."
        ) from None


def tokenizer_hub_reachable(timeout: float = 3.0) -> bool:
    """Whether the Hugging Face hub answers at all; behind a proxy, taken on trust."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return True
    address = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    try:
        socket.create_connection((address.hostname or "", address.port or 443), timeout).close()
    except (OSError, ValueError):
        return False
    return True


def wait_for_tokenizer_hub(
    model: str,
    loader: Callable[[str], Any],
    timeout: float = 30.0,
    reachable: Callable[[], bool] = tokenizer_hub_reachable,
) -> Any:
    """What `loader` gives for a model's name, within bounds.

    Loading happens in a thread of its own that is left behind when it takes too long: without a
    network the hub client retries for minutes.

    Args:
        model: "owner/model".
        loader: Loads it, from the hub or from what was downloaded before.
        timeout: Seconds to wait; a tenth of it where the hub does not answer.
        reachable: Stands in for the network in tests.

    Raises:
        TokenizerError: One sentence.
    """
    result: list[Any] = []

    def load() -> None:
        try:
            result.append(loader(model))
        except BaseException as error:  # told to the reader, whatever it is
            result.append(error)

    worker = threading.Thread(target=load, daemon=True)
    worker.start()
    worker.join(timeout / 10)
    silent = worker.is_alive() and not reachable()
    if not silent:
        worker.join(timeout * 9 / 10)
    if silent and not result:
        raise TokenizerError(f"{model} could not be loaded: the hub cannot be reached from here.")
    if not result:
        raise TokenizerError(f"{model} did not load within {timeout:g} seconds.")
    if isinstance(result[0], BaseException):
        raise TokenizerError(f"{model} could not be loaded: {first_sentence_text(result[0])}.")
    return result[0]
