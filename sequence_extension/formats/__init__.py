"""Readers, one per format, and the writer."""

from sequence_extension import package_modules

__getattr__ = package_modules(__name__)
