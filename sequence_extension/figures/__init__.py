"""One figure a file; tables in, a Vega-Lite spec out. No figure sees a `Trajectory`."""

from sequence_extension import modules_of

__getattr__ = modules_of(__name__)
