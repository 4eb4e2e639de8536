"""Read samples of user code, with the code, from the memory of the eBPF programs (bpf/samples/code_samples.h)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

from ..programs.libbpf import Library, Object, RingReader
from ..shared.layout import CODE_BEFORE, SAMPLE_EVENTS, offset_of, packing, size_of

__all__ = ["RING_BYTES", "CodeSample", "CodeSampleReader", "Polled"]

RING_BYTES = 1 << 18
"""Room on the ring for each processor: for the samples of 0.4 s. A reader comes each 0.1 s."""
_SAMPLE = packing("code_sample", "time", "since", "birth", "address", "visible", "tid", "pid", "before", "behind")
_CODE = offset_of("code_sample", "code")
_EVENT = packing("sample_event", "since", "tid", "kind")
_SIZE, _EVENT_SIZE = size_of("code_sample"), size_of("sample_event")
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


@dataclass(frozen=True, slots=True)
class CodeSample:
    """A thread was found in user code that nothing marks."""

    time: int
    """ns of CLOCK_MONOTONIC."""
    since: int
    """When the last status check returned, if the code may turn out to be polling; 0: it may not."""
    tid: int
    pid: int
    birth: int
    """With the tid: the thread."""
    address: int
    visible: int
    """A hash of what could be seen of the thread's state: registers, the top of the stack, memory behind registers."""
    start: int
    """The address at which the code begins."""
    code: bytes
    """The code around the address, as far as it could be read."""

    def read(self, address: int, size: int) -> bytes:
        """Return the code at an address, as far as it is known."""
        at = address - self.start
        return self.code[at : at + size] if at >= 0 else b""


@dataclass(frozen=True, slots=True)
class Polled:
    """The time of a thread since its last status check turned out to be polling."""

    tid: int
    since: int
    """When that check returned."""


class CodeSampleReader:
    """Reads what the programs of a loaded object tell of user code."""

    def __init__(self, library: Library, programs: Object) -> None:
        self._told: list[bytes] = []
        self._keep = _CALLBACK(self._take)
        address = ctypes.cast(self._keep, ctypes.c_void_p).value or 0
        self._ring: RingReader | None = RingReader(library, programs.map("sample_events"), address, 0)

    def _take(self, _context: int, data: int, size: int) -> int:
        if size in (_SIZE, _EVENT_SIZE):
            self._told.append(ctypes.string_at(data, size))
        return 0

    def take(self) -> Iterator[CodeSample | Polled]:
        """Yield what has been told since the last call, in the order of time for each thread."""
        if self._ring is not None:
            self._ring.consume()
        told, self._told = self._told, []
        for data in told:
            if len(data) == _SIZE:
                time, since, birth, address, visible, tid, pid, before, behind = _SAMPLE.unpack(data)
                code = data[_CODE + CODE_BEFORE - before : _CODE + CODE_BEFORE + behind]
                yield CodeSample(time, since, tid, pid, birth, address, visible, address - before, code)
            else:
                since, tid, kind = _EVENT.unpack(data)
                if kind == SAMPLE_EVENTS["SAMPLE_POLLING"]:
                    yield Polled(tid, since)

    def forget(self) -> None:
        """Begin anew: what was measured until now was a trial."""
        for _ in self.take():
            pass

    def close(self) -> None:
        """Free the ring; may be called again."""
        if self._ring is not None:
            self._ring.close()
            self._ring = None
