"""The editor of section 2: drafts as typed, scenarios, shared addresses."""

from sequence_extension import package_modules

__getattr__ = package_modules(__name__)
