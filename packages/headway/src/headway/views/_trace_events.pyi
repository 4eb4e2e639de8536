"""The types of the compiled writer in ``_trace_events.pyx``."""

from collections.abc import Callable

from ._course import Sink

class TraceEvents(Sink):
    threads: list[bytes]
    names: list[bytes]
    states: list[bytes]
    words: list[bytes]
    def __init__(self, write: Callable[[bytes], object], start: int, threads: int) -> None: ...
    def event(self, event: bytes) -> None: ...
    def flush(self) -> None: ...
