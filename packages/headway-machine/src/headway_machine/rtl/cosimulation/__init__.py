"""The progress unit beside the reference machine: its signals of every cycle, and a comparison of all counters.

`compare` runs a program on the machine and the unit, compiled by Yosys' CXXRTL and the C++ compiler, on what the
machine's cores tell.
"""

from .compare import Compared, Comparison, compare

__all__ = ["Compared", "Comparison", "compare"]
