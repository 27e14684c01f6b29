"""Readers, one per format, and the writer."""

from sequence_extension import modules_of

__getattr__ = modules_of(__name__)
