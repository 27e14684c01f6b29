"""What needs marimo: HTML, views, quiz, summary."""

from sequence_extension import package_modules

__getattr__ = package_modules(__name__)
