"""The next prompt against another implementation, on Qwen3's own tokenizer.

`renderers` (PyPI, prime-rl) writes by hand, per family, what follows a sampled answer. Its
answers are recorded in `peer_bridges.json` by `make_peer_table.py`, with the part of the
tokenizer that they need. Where the two differ, the reason is here.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from scripted import replay
from tinker_cookbook.renderers import get_renderer
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from sequence_extension.env.token_preserving import FALLBACK_METRIC

TABLE = Path(__file__).parent / "peer_bridges.json"
END = "<|im_end|>"
JSON_CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 6, "b": 7}}\n</tool_call>'
XML_CALL = "<tool_call>\n<function=add>\n<parameter=a>\n6\n</parameter>\n</function>\n</tool_call>"
# An answer as sampled, and why sampling stopped.
ANSWERS = {
    "text": (f"It is 13.{END}", "stop"),
    "odd spaces": (f"  It is 13. \n\n{END}", "stop"),
    "reasoning": (f"<think>\nSix and seven.\n</think>\n\n13{END}", "stop"),
    "closes the thought": (f"Six.\n</think>\n\n13{END}", "stop"),
    "open thought": (f"<think>\nSix{END}", "stop"),
    "empty": (END, "stop"),
    "json call": (f"Let me see.\n{JSON_CALL}{END}", "stop"),
    "xml call": (f"Let me see.\n\n{XML_CALL}{END}", "stop"),
    "broken call": (f'<tool_call>\n{{"name": \n</tool_call>{END}', "stop"),
    "marker": (f"Say <|im_start|> to me.{END}", "stop"),
    "other letters": (f"è🙂 好{END}", "stop"),
    "cut": ("It is thir", "length"),
    "cut in thought": ("<think>\nSix and", "length"),
    "end of text": ("It is 13.<|endoftext|>", "length"),
}
RESULT = {"role": "tool", "name": "add", "tool_call_id": "functions.add:0", "content": "13"}
START: list[Any] = [{"role": "user", "content": "6 + 7?"}]
NEW: dict[str, list[Any]] = {
    "user": [{"role": "user", "content": "Twice?"}],
    "spaces": [{"role": "user", "content": "  Twice? \n"}],
    "result": [RESULT],
    "two results": [RESULT, {**RESULT, "content": "3"}],
    "result and user": [RESULT, {"role": "user", "content": "Twice?"}],
    "system": [{"role": "system", "content": "Be brief."}],
}


def small_tokenizer(model: Any) -> Any:
    fast: Any = PreTrainedTokenizerFast
    return fast(tokenizer_object=Tokenizer.from_str(json.dumps(model)), eos_token=END)


def why_different(name: str, answer: str, new: str, peer: str | None, mine: str) -> str | None:
    """Why the two may differ; None where they must be the same."""
    if peer is None:
        # The peer leaves alone what ends within a thought. The cookbook parses such an answer and
        # goes on, and so does this environment.
        return "open thought"
    if peer == f"</think>{mine}":
        return "the peer closes a thought that was cut; the cookbook's renderer does not"
    if answer == "end of text" and mine == f"{END}{peer.removeprefix('</think>')}":
        return "for the peer <|endoftext|> ends a turn; for the cookbook's parser it does not"
    if new == "two results" and not name.startswith(("qwen3_5", "qwen3_8")):
        apart = f"</tool_response>{END}\n<|im_start|>user\n<tool_response>"
        together = peer.replace("</tool_response>\n<tool_response>", apart)
        if mine in (together, together.removeprefix("</think>")):
            return "the peer writes results into one block; the cookbook's Qwen3 renderer does not"
        if answer == "end of text" and mine == f"{END}{together}":
            return "both"
    return None


TABLES = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {"cases": []}


@pytest.mark.parametrize("name", dict.fromkeys(case[0] for case in TABLES["cases"]))
def test_the_next_prompt_is_the_peers_or_the_reason_is_known(name: str) -> None:
    tokenizer = small_tokenizer(TABLES["tokenizer"])
    renderer = get_renderer(name, tokenizer)
    same = 0
    for _, answer, new, place in (case for case in TABLES["cases"] if case[0] == name):
        text, reason = ANSWERS[answer]
        action = tokenizer.encode(text, add_special_tokens=False)
        final = tokenizer.encode(f"13{END}", add_special_tokens=False)
        trajectory, _ = replay(
            renderer,
            START,
            [NEW[new], []],
            [(action, reason), (final, "stop")],
            terminate_on_length=False,
        )
        first, second = trajectory.transitions
        assert first.metrics[FALLBACK_METRIC] == 0
        running = [*first.ob.to_ints(), *action]
        assert second.ob.to_ints()[: len(running)] == running
        mine, peer = second.ob.to_ints()[len(running) :], TABLES["tails"][place]
        if mine == peer:
            same += 1
            continue
        said, theirs = tokenizer.decode(mine), None if peer is None else tokenizer.decode(peer)
        assert why_different(name, answer, new, theirs, said), (answer, new, theirs, said)
    assert same >= 5 * len(NEW)  # a prompt that opens a thought leaves the peer less to say
