"""Read stacks from the memory of the eBPF programs (stacks.h): where threads were when they left their processor.

Also read the states of samples. The kernel takes a sample, and an eBPF program reports the state of the thread.
"""

from __future__ import annotations

import ctypes
import fcntl
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.linux.symbols.walked import Walked

from ..interpreters.python import PythonReader, instructed
from ..programs.libbpf import BpfError, Library, Object, RingReader
from ..reading.memory import BpfMaps
from ..rings.row_stacks import RowStacks
from ..shared.layout import N_STACK, SAMPLE_EVENTS, fields_of, offset_of, packing, size_of
from ..unwinding.tables import CodeTables, python_part, walked

__all__ = ["Away", "StackReader", "sizes"]

STACKS = 1 << 15
"""Different stacks that there is room for, 1 KiB each: native ones, and beside them those of Python."""
TIMES = 1 << 16
"""(thread, state, stack) that there is room for, 64 bytes each."""
RING_BYTES = 1 << 22
"""Room for the states of 100,000 samples between two looks."""
_SET_BPF = 0x40042408  # PERF_EVENT_IOC_SET_BPF
_FIELDS = fields_of("sample_event")
_EVENT = np.dtype(
    {
        "names": list(_FIELDS),
        "formats": [f"={code}" for _, code in _FIELDS.values()],
        "offsets": [offset for offset, _ in _FIELDS.values()],
        "itemsize": size_of("sample_event"),
    }
)
_KEY = packing("stack_key", "birth", "user", "kernel", "tid", "pid", "state")
_CELL = packing("cell", "time", "count")
_DEPTH = packing("stack", "depth")
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

_MARK = 0xFF << 56
Frames = tuple[int, ...]


def sizes(cpus: int) -> dict[str, int]:
    """Entries of the maps, for so many processors."""
    return {"stacks": STACKS, "stack_times": TIMES, "fresh_stacks": cpus, "sample_events": RING_BYTES}


@dataclass(frozen=True, slots=True)
class Away:
    """Time of a thread off its processor, or taken from it, with the stack that it had when it left."""

    tid: int
    pid: int
    birth: int
    """With the tid: the thread."""
    state: str
    time: int
    """ns"""
    count: int
    user: Frames
    """Return addresses, innermost first; none where the stack is not known."""
    kernel: Frames
    walked: Walked | None
    """How far the user stack was walked by call frame information; None: the kernel walked it, by frame pointers."""
    known: bool
    """False: there was no room for the stack, or the thread had left its processor before it was measured."""


class StackReader:
    """Reads what the programs of a loaded object tell of stacks."""

    def __init__(self, library: Library, programs: Object, memory: BpfMaps, *, unwind: bool = False) -> None:
        """``unwind``: the programs walk user stacks by call frame information, of which they must be told."""
        self._memory = memory
        self.tables = CodeTables(programs) if unwind else None
        """What the programs walk stacks by; None: the kernel walks them."""
        self.python = PythonReader(library, programs, self.tables.pythons.builds) if self.tables is not None else None
        """What frames of Python execute; None: they are not read."""
        self.rows: RowStacks | None = None
        """Gives the rows of a recording their stacks; None: they have none."""
        self._waiting: dict[int, list[tuple[int, int, int, int]]] = {}
        self._told = 0
        self._words: dict[int, Frames] = {}
        self._times, self._stacks = programs.map("stack_times"), programs.map("stacks")
        self._program = programs.programs["handle_sample"]
        self._events = bytearray()
        self._keep = _CALLBACK(self._take)
        address = ctypes.cast(self._keep, ctypes.c_void_p).value or 0
        self._ring: RingReader | None = RingReader(library, programs.map("sample_events"), address, 0)

    def _take(self, _context: int, data: int, size: int) -> int:
        if size == _EVENT.itemsize:
            self._events += ctypes.string_at(data, size)
        return 0

    def attach(self, fd: int) -> None:
        """Have the state told with each sample of this event. Raises BpfError."""
        try:
            fcntl.ioctl(fd, _SET_BPF, self._program.fd)
        except OSError as error:
            raise BpfError("attaching to the samples of a thread", error.errno or 0) from None

    def consume(self) -> None:
        """Take over what was told."""
        if self._ring is not None:
            self._ring.consume()
        if self.python is not None:
            self.python.consume()

    def forget(self) -> None:
        """Begin anew: what was measured until now was a trial."""
        self.consume()
        self._events.clear()
        self._waiting.clear()
        self._told = 0
        for key, _ in list(self._times.items()):
            self._times.remove(key)

    def close(self) -> None:
        """Free the ring, and let go of the tables; may be called again."""
        if self.tables is not None:
            self.tables.close()
        if self.python is not None:
            self.python.close()
        if self._ring is not None:
            self._ring.close()
            self._ring = None

    def sampled_stacks(
        self, times: NDArray[np.int64], tids: NDArray[np.int32], tolerance: int
    ) -> list[tuple[Frames, Walked | None]]:
        """The user stack of each sample, and how far it was walked; None: nothing was told of it.

        ``times``: ascending for each thread, ns; what was told within ``tolerance`` ns is of the sample. Samples are
        asked for once, for each thread in the order of time.
        """
        self.consume()
        self._sort_in()
        found: list[tuple[Frames, Walked | None]] = []
        places: dict[int, int] = {}
        for moment, tid in zip(times.tolist(), tids.tolist(), strict=True):
            waiting = self._waiting.get(tid, [])
            place = places.get(tid, 0)
            while place + 1 < len(waiting) and abs(waiting[place + 1][0] - moment) <= abs(waiting[place][0] - moment):
                place += 1
            places[tid] = place
            if place < len(waiting) and abs(waiting[place][0] - moment) <= tolerance:
                found.append(self._stack_at(*waiting[place][1:]))
            else:
                found.append(((), None))
        for tid, place in places.items():
            del self._waiting.get(tid, [])[:place]
        return found

    def stack_of(self, user: int, kernel: int) -> tuple[Frames, Frames, Walked | None]:
        """Return the user and the kernel stack of these hashes, and how far the user stack was walked.

        A stack is empty if it is not known.
        """
        frames, inside = self._words_of(user), self._words_of(kernel)
        if self.tables is None or not frames:
            return frames, inside, None
        addresses, how = walked(frames, self._words_of(python_part(frames)))
        return addresses, inside, how

    def forget_before(self, moment: int) -> None:
        """Forget what was told of samples before a moment, ns: they have been asked for."""
        size = _EVENT.itemsize
        events = np.frombuffer(bytes(self._events[: len(self._events) // size * size]), dtype=_EVENT)
        kept = events["time"].astype(np.int64) >= moment
        self._told = size * int(kept[: self._told // size].sum())
        self._events = bytearray(events[kept].tobytes())

    def _sort_in(self) -> None:
        """Take over the samples that were told since the last time."""
        size = len(self._events) // _EVENT.itemsize * _EVENT.itemsize
        events = np.frombuffer(bytes(self._events[self._told : size]), dtype=_EVENT)
        self._told = size
        taken = events[events["kind"] == SAMPLE_EVENTS["SAMPLE_TAKEN"]]
        columns = (taken[name].tolist() for name in ("tid", "time", "pc", "stack", "instruction"))
        for tid, *row in zip(*columns, strict=True):
            self._waiting.setdefault(tid, []).append((row[0], row[1], row[2], row[3]))

    def _stack_at(self, pc: int, number: int, instruction: int) -> tuple[Frames, Walked | None]:
        if not pc:
            return (), None
        words = self._words_of(number) or (0,)
        python = self._words_of(python_part(words))
        if python:
            python = (instructed(python[0], instruction), *python[1:])
        return walked((pc | words[0] & _MARK, *words[1:]), python)

    def _words_of(self, number: int) -> Frames:
        """Return the words of a stack; none if it is not there."""
        if number not in self._words:
            value = self._stacks.get(number.to_bytes(8, "little")) if number else None
            self._words[number] = _frames_of(value) if value is not None else ()
        return self._words[number]

    def states(
        self, times: NDArray[np.int64], tids: NDArray[np.int32], tolerance: int
    ) -> tuple[NDArray[np.uint16], list[str]]:
        """The state of each sample, as a number, and the names by number; "" where none was told of it.

        ``times``: ns of CLOCK_MONOTONIC, ``tids``: the threads; what was told within ``tolerance`` ns is of the sample.
        """
        events = np.frombuffer(bytes(self._events), dtype=_EVENT)
        told = events[events["kind"] == SAMPLE_EVENTS["SAMPLE_TAKEN"]]
        polled = events[events["kind"] == SAMPLE_EVENTS["SAMPLE_POLLING"]]
        found = _nearest(told, times, tids, tolerance)
        state = np.where(found >= 0, told["state"][found] if len(told) else 0, 0).astype(np.uint16)
        since = np.where(found >= 0, told["since"][found] if len(told) else 0, 0).astype(np.int64)
        by_row = {(int(row["tid"]), int(row["since"])): int(row["state"]) for row in polled}
        for i in np.flatnonzero(since) if by_row else ():
            state[i] = by_row.get((int(tids[i]), int(since[i])), state[i])
        names = [""] * (int(state.max(initial=0)) + 1)
        for number in np.unique(state):
            names[number] = self._memory.state_name(int(number)) if number else ""
        return state, names

    def away(self, at: int) -> Iterator[Away]:
        """All time off the processor until the moment ``at``, the last snapshot, by thread, state and stack."""
        stacks = self._read_stacks()
        found: dict[tuple[int, int, int, int, int, int], list[int]] = {}
        for packed, value in self._times.items():
            birth, user, kernel, tid, pid, state = _KEY.unpack(packed)
            found[birth, user, kernel, tid, pid, state] = list(_CELL.unpack(value))
        for each in self._memory.open_stacks(at):
            key = each.birth, each.user, each.kernel, each.tid, each.pid, each.state
            row = found.setdefault(key, [0, 0])
            row[0] += each.time
            row[1] += 1
        for (birth, user, kernel, tid, pid, state), (time, count) in found.items():
            if time <= 0:
                continue
            frames, inside = stacks.get(user, ()), stacks.get(kernel, ())
            known, how = bool(frames or inside), None
            if self.tables is not None and frames:
                frames, how = walked(frames, stacks.get(python_part(frames), ()))
            yield Away(tid, pid, birth, self._memory.state_name(state), time, count, frames, inside, how, known)

    def _read_stacks(self) -> Mapping[int, Frames]:
        return {int.from_bytes(key, "little"): _frames_of(value) for key, value in self._stacks.items()}


def _frames_of(value: bytes) -> Frames:
    depth = min(_DEPTH.unpack_from(value)[0], N_STACK)
    return struct.unpack_from(f"={depth}Q", value, offset_of("stack", "frames"))


def _nearest(
    told: NDArray[np.void], times: NDArray[np.int64], tids: NDArray[np.int32], tolerance: int
) -> NDArray[np.int64]:
    """For each sample the row that was told of the same thread nearest in time; -1: none within the tolerance."""
    found = np.full(len(times), -1, dtype=np.int64)
    order = np.lexsort((told["time"], told["tid"]))
    threads = told["tid"][order]
    for tid in np.unique(tids):
        mine = np.flatnonzero(tids == tid)
        low, high = np.searchsorted(threads, [tid, tid + 1])
        if low == high:
            continue
        rows = order[low:high]
        moments = told["time"][rows].astype(np.int64)
        after = np.searchsorted(moments, times[mine]).clip(0, len(rows) - 1)
        before = (after - 1).clip(0)
        nearer = np.where(np.abs(moments[before] - times[mine]) < np.abs(moments[after] - times[mine]), before, after)
        close = np.abs(moments[nearer] - times[mine]) <= tolerance
        found[mine[close]] = rows[nearer[close]]
    return found
