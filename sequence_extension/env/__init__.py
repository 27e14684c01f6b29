"""Vocabularies, policies, environments and the episodes played with them."""

from sequence_extension import modules_of

__getattr__ = modules_of(__name__)
