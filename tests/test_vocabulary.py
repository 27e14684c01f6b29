"""Vocabularies: a chat marker is one id, text is the same text after encode and decode; a real
model's tokenizer loads, or there is one sentence.
"""

import concurrent.futures
import copy
import threading
from pathlib import Path
from typing import Any

import pytest
from test_tokenizers import BYTE_LEVEL

from sequence_extension.env.episodes import Episode, EpisodeSpec, run_episodes
from sequence_extension.env.vocabulary import (
    chat_marker_vocabulary,
    load_vocabulary,
    offline_vocabulary,
)
from sequence_extension.tokenizers import tokenizer_texts


def test_every_marker_is_one_id_and_no_two_share_it(tokenizer: Any) -> None:
    markers = chat_marker_vocabulary()
    assert {"<|im_start|>", "<|eot_id|>", "<think>", "</think>", "[gMASK]"} <= set(markers)
    ids = [tokenizer.encode(marker) for marker in markers]
    assert all(len(tokens) == 1 for tokens in ids)
    assert len({tokens[0] for tokens in ids}) == len(markers)
    assert [tokenizer.decode(tokens) for tokens in ids] == markers
    assert tokenizer.convert_tokens_to_ids(markers) == [tokens[0] for tokens in ids]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        " 12 + 7\n\n",
        "a<think>\nb</think><|im_end|>",
        "<|no_marker|> <im_end>",
        "☃ 日本 🤦",
    ],
)
def test_text_survives_encode_and_decode(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode(tokenizer.encode(text, split_special_tokens=True)) == text


def test_split_special_tokens_splits_markers_and_keeps_tags(tokenizer: Any) -> None:
    assert len(tokenizer.encode("<|im_end|>", split_special_tokens=True)) > 1
    assert len(tokenizer.encode("<think>", split_special_tokens=True)) == 1


def test_a_copied_backend_encodes_content_literally(tokenizer: Any) -> None:
    text = "<think>a</think><|im_end|>"
    content = copy.deepcopy(tokenizer.backend_tokenizer)
    assert content.encode(text, add_special_tokens=False).ids == tokenizer.encode(text)
    content.encode_special_tokens = True
    literal = tokenizer.encode(text, split_special_tokens=True)
    assert content.encode(text).ids == literal != tokenizer.encode(text)
    assert not tokenizer.backend_tokenizer.encode_special_tokens  # the original is untouched
    assert content.owner is tokenizer


def test_one_tokenizer_for_the_whole_process(tokenizer: Any) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert {id(each) for each in pool.map(lambda _: offline_vocabulary(), range(8))} == {
            id(tokenizer)
        }


def test_token_texts_show_specials_and_byte_fragments(tokenizer: Any) -> None:
    tokens = tokenizer.encode("é<|im_end|>🤦")
    texts = tokenizer_texts(tokenizer, [*tokens, *tokens, 10**9])
    assert set(texts) == set(tokens)  # an id outside the vocabulary has no text
    assert "<|im_end|>" in texts.values()
    assert not any("\ufffd" in text for text in texts.values())
    assert any(text.startswith("\udcf0\udc9f") for text in texts.values())


def test_a_tokenizer_that_loads() -> None:
    asked: list[str] = []

    def loader(name: str) -> str:
        asked.append(name)
        return "tokenizer"

    assert load_vocabulary(" Qwen/Qwen3-8B ", loader=loader) == ("tokenizer", "")
    assert asked == ["Qwen/Qwen3-8B"]


def test_a_tokenizer_that_does_not_load_gives_one_sentence() -> None:
    def loader(name: str) -> Any:
        raise OSError("We couldn't connect to the hub.\nCheck your connection. More.\n")

    loaded, problem = load_vocabulary("Qwen/Qwen3-8B", loader=loader)
    assert loaded is None
    assert problem == (
        "Qwen/Qwen3-8B could not be loaded: We couldn't connect to the hub. "
        "The offline vocabulary stays."
    )


@pytest.mark.parametrize(
    ("answers", "words"),
    [(True, "did not load within 0.01 seconds"), (False, "the hub cannot be reached from here")],
)
def test_a_tokenizer_that_hangs_is_given_up(answers: bool, words: str) -> None:
    never = threading.Event()
    loaded, problem = load_vocabulary(
        "Qwen/Qwen3-8B",
        timeout=0.01,
        loader=lambda name: never.wait(),
        reachable=lambda: answers,
    )
    never.set()
    assert loaded is None
    assert words in problem
    assert problem.endswith("The offline vocabulary stays.")


@pytest.mark.parametrize(
    "name", ["", "Qwen3", "../x/y", "/etc/passwd", "a/b/c", "a b/c", "~/x", "a/" + "b" * 200]
)
def test_names_that_are_no_models_are_never_looked_up(name: str) -> None:
    def loader(name: str) -> Any:
        raise AssertionError(name)

    assert load_vocabulary(name, loader=loader)[1].startswith("Type a model as owner/name")


def test_code_of_strangers_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own" / "folder").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert "path on this machine" in load_vocabulary("own/folder", loader=str)[1]
    assert "code of its own" in load_vocabulary("moonshotai/Kimi-K2.5", loader=str)[1]
    kimi = load_vocabulary("moonshotai/Kimi-K2.5", loader=str, own_code=True)
    assert kimi == ("moonshotai/Kimi-K2.5", "")


@pytest.mark.parametrize("name", ["", "tokenizer.json"])
def test_a_folder_gives_what_renderers_need(name: str, tmp_path: Path) -> None:
    """Its own tokens, for whoever may read it, and the same rollout as with any vocabulary."""
    BYTE_LEVEL.save(str(tmp_path / "tokenizer.json"))
    path = str(tmp_path / name)
    assert load_vocabulary(path)[0] is None
    loaded, problem = load_vocabulary(path, folders=True)
    assert problem == ""
    (episode,) = run_episodes([EpisodeSpec(renderer="role_colon", turns=2)], loaded)
    assert isinstance(episode, Episode)
    tokens = episode.rollout.trajectory.transitions[0].ob.to_ints()
    assert BYTE_LEVEL.decode(tokens).startswith("User: What is ")
    loaded, problem = load_vocabulary(str(tmp_path / "none"), folders=True)
    assert loaded is None
    assert problem.endswith("The offline vocabulary stays.")
