"""Room: environment. Real renderers, the real `EnvFromMessageEnv` and `do_single_rollout`.

Invariants
1. A chat marker is one id, text is the same text after encode and decode.
2. Every renderer name of the installed cookbook builds, or says why in one sentence.
"""

import concurrent.futures
from types import ModuleType
from typing import Any

import pytest
from tinker_cookbook import renderers


@pytest.fixture(scope="module")
def tokenizer(nb: ModuleType) -> Any:
    return nb.offline_tokenizer()


# --- vocabulary ------------------------------------------------------------------------------


def test_every_marker_is_one_id_and_no_two_share_it(nb: ModuleType, tokenizer: Any) -> None:
    markers = nb.chat_markers()
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


def test_one_tokenizer_for_the_whole_process(nb: ModuleType, tokenizer: Any) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert {id(each) for each in pool.map(lambda _: nb.offline_tokenizer(), range(8))} == {
            id(tokenizer)
        }


def test_token_texts_show_specials_and_byte_fragments(nb: ModuleType, tokenizer: Any) -> None:
    tokens = tokenizer.encode("é<|im_end|>🤦")
    texts = nb.token_texts(tokenizer, [*tokens, *tokens, 10**9])
    assert set(texts) == set(tokens)  # an id outside the vocabulary has no text
    assert "<|im_end|>" in texts.values()
    assert not any("\ufffd" in text for text in texts.values())
    assert any(text.startswith("<F0><9F>") for text in texts.values())


# --- renderers -------------------------------------------------------------------------------


def test_renderer_names_come_from_the_installed_cookbook(nb: ModuleType) -> None:
    names = nb.renderer_names()
    assert len(names) == len(set(names)) >= 43
    assert {"role_colon", "llama3", "qwen3", "gpt_oss_no_sysprompt", "tml_v0"} <= set(names)
    renderers.register_renderer("mine", lambda tokenizer, image_processor: None)
    try:
        assert nb.renderer_names() == [*names, "mine"]
    finally:
        renderers.unregister_renderer("mine")


def test_every_renderer_builds_or_says_why(nb: ModuleType, tokenizer: Any) -> None:
    reasons = {}
    for name in nb.renderer_names():
        renderer, reason = nb.build_renderer(name, tokenizer)
        assert (renderer is None) == bool(reason), name
        if renderer is None:
            reasons[name] = reason
    assert reasons == {}  # 0.5.8: all of them


def test_a_renderer_that_cannot_be_built_gives_one_sentence(nb: ModuleType, tokenizer: Any) -> None:
    renderer, reason = nb.build_renderer("no_such", tokenizer)
    assert renderer is None
    assert reason.startswith("no_such cannot be built on this vocabulary: Unknown renderer")
    assert "\n" not in reason
