"""Vocabularies, policies, environments and the episodes played with them."""

from typing import TYPE_CHECKING, Any

from sequence_extension import package_modules

if TYPE_CHECKING:
    from sequence_extension.env.token_preserving import TokenPreservingBuilder, TokenPreservingEnv

__all__ = ["TokenPreservingBuilder", "TokenPreservingEnv"]

_module = package_modules(__name__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(_module("token_preserving"), name)
    return _module(name)
