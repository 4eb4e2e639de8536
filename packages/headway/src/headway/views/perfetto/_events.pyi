"""The types of the compiled writer in ``_events.pyx``."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from headway.views._course import Sink
from headway.views.edges import SliceHead

NOTES: tuple[str, ...]

class PerfettoEvents:
    slices: int
    def __init__(self, write: Callable[[bytes], object]) -> None: ...
    def flush(self) -> None: ...
    def packet(self, packet: bytes) -> None: ...
    def begin(self, track: int, time: int, category: int, name: int, more: bytes = b"") -> None: ...
    def end(self, track: int, time: int) -> None: ...
    def instant(self, track: int, time: int, category: int, name: int, more: bytes = b"") -> None: ...
    def counter(self, track: int, time: int, value: float) -> None: ...

class SliceTracks:
    def __init__(self, events: PerfettoEvents, fields: Callable[[SliceHead], tuple[int, int, bytes]]) -> None: ...
    def put(self, tracks: memoryview, times: memoryview, places: memoryview, heads: Sequence[SliceHead]) -> None: ...

class TransitionTracks(Sink):
    def __init__(
        self,
        events: PerfettoEvents,
        thread_tracks: NDArray[np.uint64],
        thread_names: NDArray[np.uint32],
        cpu_tracks: NDArray[np.uint64],
        wakes: int,
        on_processor: int,
    ) -> None: ...
    def states(self, names: NDArray[np.uint32], categories: NDArray[np.uint32], words: NDArray[np.uint32]) -> None: ...
