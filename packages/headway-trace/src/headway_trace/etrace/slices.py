"""A trace of E-Trace as slices: a track for each source, with the functions that it executed, and gaps.

Only some packets have times. The instructions between two of them are placed evenly between their times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway_trace._edges import SliceEdges
from headway_trace.edges import Tracks

from ._slices import SourceSlices

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .reading import EtraceTrace

__all__ = ["write"]


def write(trace: EtraceTrace, ids: Iterable[int], file: Tracks) -> None:
    """Write the slices of these sources, or of all. Raises HeadwayError without a program, or without times."""
    trace.check_times()
    trace.check_program()
    assert trace.program is not None
    edges = SliceEdges(trace.program, file.put)
    slices = SourceSlices(edges, lambda source: file.describe(source + 1, f"source {source}"))
    for rows, _ in trace.blocks(ids):
        slices.add(rows)
    slices.finish()
    edges.close()
