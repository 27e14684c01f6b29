"""One figure a file; tables in, a Vega-Lite spec out. No figure sees a `Trajectory`."""

from sequence_extension import package_modules

__getattr__ = package_modules(__name__)
