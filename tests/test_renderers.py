"""Every renderer name of the installed cookbook builds, or says why in one sentence."""

from typing import Any

from tinker_cookbook import renderers

from sequence_extension.env.renderers import build_renderer, renderer_names


def test_renderer_names_come_from_the_installed_cookbook() -> None:
    names = renderer_names()
    assert len(names) == len(set(names)) >= 43
    assert {"role_colon", "llama3", "qwen3", "gpt_oss_no_sysprompt", "tml_v0"} <= set(names)
    nothing: Any = None  # only the name is looked at
    renderers.register_renderer("mine", lambda tokenizer, image_processor: nothing)
    try:
        assert renderer_names() == [*names, "mine"]
    finally:
        renderers.unregister_renderer("mine")


def test_every_renderer_builds_or_says_why(tokenizer: Any) -> None:
    reasons = {}
    for name in renderer_names():
        renderer, reason = build_renderer(name, tokenizer)
        assert (renderer is None) == bool(reason), name
        if renderer is None:
            reasons[name] = reason
    assert reasons == {}  # 0.5.8: all of them


def test_a_renderer_that_cannot_be_built_gives_one_sentence(tokenizer: Any) -> None:
    renderer, reason = build_renderer("no_such", tokenizer)
    assert renderer is None
    assert reason.startswith("no_such cannot be built on this vocabulary: Unknown renderer")
    assert "\n" not in reason
