"""What needs marimo: HTML, views, quiz, summary."""

from sequence_extension import modules_of

__getattr__ = modules_of(__name__)
