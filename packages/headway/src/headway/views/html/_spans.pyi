"""The types of the compiled collector in ``_spans.pyx``."""

from array import array

class InnermostSpans:
    def add(self, tracks: memoryview, times: memoryview, places: memoryview, states: array[int]) -> list[int]: ...
    def columns(self) -> tuple[list[int], tuple[bytes, bytes, bytes, bytes]]: ...
