"""The editor of section 2: drafts as typed, scenarios, shared addresses."""

from sequence_extension import modules_of

__getattr__ = modules_of(__name__)
