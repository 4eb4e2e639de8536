"""The records of perf.data by their meaning.

Each parser takes the body of a record and returns one of the tuples below. A body that is too short for its type is
malformed; it is left out and counted. Times are in ns of perf's clock, None where the record has none. IDs of processes
and threads are those of the recording machine; -1 stands for none.

Source: Linux, include/uapi/linux/perf_event.h, and tools/lib/perf/include/perf/event.h for the types from 64 on.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .file import Attribute, PerfFile, RawRecord

__all__ = [
    "Area",
    "AreaInfo",
    "Aux",
    "Comm",
    "Event",
    "Exit",
    "Fork",
    "HardwareId",
    "Lost",
    "MemoryMapping",
    "Started",
    "Switch",
    "TimeConversion",
    "When",
    "events",
]


class When(NamedTuple):
    """What the end of a record says of it (sample_id)."""

    time: int | None = None
    pid: int = -1
    tid: int = -1
    cpu: int = -1


class MemoryMapping(NamedTuple):
    """A file that was mapped into a process: MMAP and MMAP2. ``pid`` -1: into the kernel."""

    when: When
    pid: int
    tid: int
    address: int
    size: int
    offset: int
    name: str
    executable: bool
    build_id: bytes = b""


class Comm(NamedTuple):
    """A name of a thread. ``exec``: because its process runs another program from here on."""

    when: When
    pid: int
    tid: int
    name: str
    exec: bool


class Fork(NamedTuple):
    """The begin of a thread, or, if ``pid`` and ``parent`` differ, of a process."""

    when: When
    pid: int
    parent: int
    tid: int


class Exit(NamedTuple):
    """The end of a thread."""

    when: When
    pid: int
    tid: int


class Switch(NamedTuple):
    """A processor changed threads. ``out``: the thread of ``when`` left; ``other``: who comes, or who was before."""

    when: When
    out: bool
    other: tuple[int, int] | None


class Started(NamedTuple):
    """A trace began in a thread: ITRACE_START."""

    when: When
    pid: int
    tid: int


class Aux(NamedTuple):
    """``size`` bytes were written to an AUX area at ``offset``."""

    when: When
    offset: int
    size: int
    flags: int

    @property
    def truncated(self) -> bool:
        """Whether data was lost after these bytes, because the area was full."""
        return bool(self.flags & 1)

    @property
    def partial(self) -> bool:
        """Whether there are gaps in these bytes that the hardware could not trace."""
        return bool(self.flags & 4)

    @property
    def collided(self) -> bool:
        """Whether the trace unit had to leave something out."""
        return bool(self.flags & 8)

    @property
    def raw(self) -> bool:
        """Of CoreSight: whether the bytes are those of one source, without frames."""
        return self.flags & 0xFF00 == 0x100


class HardwareId(NamedTuple):
    """AUX_OUTPUT_HW_ID: with CoreSight, the trace ID of a processor."""

    when: When
    number: int


class Lost(NamedTuple):
    """Records that the ring had no room for."""

    when: When
    records: int


class AreaInfo(NamedTuple):
    """AUXTRACE_INFO: the kind of trace, and what its decoder has to know."""

    kind: int
    words: tuple[int, ...]


class Area(NamedTuple):
    """AUXTRACE: a piece of an AUX area, which is in the file from ``position`` on."""

    size: int
    offset: int
    number: int
    tid: int
    cpu: int
    position: int


class TimeConversion(NamedTuple):
    """TIME_CONV: how ticks of the processor become ns of perf's clock."""

    shift: int
    multiplier: int
    zero: int
    known: bool


Event = (
    MemoryMapping | Comm | Fork | Exit | Switch | Started | Aux | HardwareId | Lost | AreaInfo | Area | TimeConversion
)

_TID, _TIME, _ID, _CPU, _STREAM, _IDENTIFIER = 1 << 1, 1 << 2, 1 << 6, 1 << 7, 1 << 9, 1 << 16
_USER_TYPES = 64
_COMPRESSED = (81, 83)
_MISC_EXEC, _MISC_OUT, _MISC_BUILD_ID, _MISC_DATA = 1 << 13, 1 << 13, 1 << 14, 1 << 13
_PROT_EXEC = 4
_NAME = 4096
_KERNEL = (1 << 32) - 1


def events(file: PerfFile, left_out: Counter[str]) -> Iterator[Event]:
    """Yield the events of a file. ``left_out`` counts what is malformed, and what cannot be read."""
    ends: dict[Attribute, _End] = {}
    for record in file.records():
        parser = _PARSERS.get(record.type)
        if parser is None:
            if record.type in _COMPRESSED:
                left_out["compressed records"] += 1
            continue
        when, body = When(), record.body
        if record.type < _USER_TYPES:
            attribute = _attribute(file, body)
            if attribute is not None and attribute.identified:
                end = ends.get(attribute) or ends.setdefault(attribute, _End(attribute.sample_type))
                if len(body) < end.size:
                    left_out["malformed records"] += 1
                    continue
                when, body = end.parse(body)
        try:
            yield parser(when, record, body)
        except (struct.error, IndexError):
            left_out["malformed records"] += 1


def _attribute(file: PerfFile, body: bytes) -> Attribute | None:
    """Return the event that a record belongs to. All have an ID at their end if their fields differ."""
    if not file.attributes:
        return None
    first = file.attributes[0]
    if first.sample_type & _IDENTIFIER and len(body) >= 8:
        return file.ids.get(int.from_bytes(body[-8:], "little"), first)
    return first


class _End:
    """The fields at the end of the records of one event."""

    def __init__(self, sample_type: int) -> None:
        fields, places, size = "<", dict[str, int](), 0
        for bit, name, form in (
            (_TID, "tid", "ii"),
            (_TIME, "time", "Q"),
            (_ID, "id", "Q"),
            (_STREAM, "stream", "Q"),
            (_CPU, "cpu", "iI"),
            (_IDENTIFIER, "identifier", "Q"),
        ):
            if sample_type & bit:
                places[name] = size
                fields += form
                size += len(form)
        self._struct = struct.Struct(fields)
        self.size = self._struct.size
        self._places = places

    def parse(self, body: bytes) -> tuple[When, bytes]:
        cut = len(body) - self.size
        values, places = self._struct.unpack_from(body, cut), self._places
        pid, tid = values[places["tid"] : places["tid"] + 2] if "tid" in places else (-1, -1)
        time = values[places["time"]] if "time" in places else None
        cpu = values[places["cpu"]] if "cpu" in places else -1
        return When(time, pid, tid, cpu), body[:cut]


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0][:_NAME].decode("utf-8", "backslashreplace")


def _mmap(when: When, record: RawRecord, body: bytes) -> Event:
    pid, tid, address, size, offset = struct.unpack_from("<IIQQQ", body)
    pid = -1 if pid == _KERNEL else pid
    return MemoryMapping(when, pid, tid, address, size, offset, _text(body[32:]), not record.misc & _MISC_DATA)


def _mmap2(when: When, record: RawRecord, body: bytes) -> Event:
    pid, tid, address, size, offset = struct.unpack_from("<IIQQQ", body)
    protection = struct.unpack_from("<II", body, 56)[0]
    build_id = b""
    if record.misc & _MISC_BUILD_ID:
        build_id = body[36 : 36 + min(body[32], 20)]
    pid = -1 if pid == _KERNEL else pid
    executable = bool(protection & _PROT_EXEC)
    return MemoryMapping(when, pid, tid, address, size, offset, _text(body[64:]), executable, build_id)


def _comm(when: When, record: RawRecord, body: bytes) -> Event:
    pid, tid = struct.unpack_from("<II", body)
    return Comm(when, pid, tid, _text(body[8:24]), bool(record.misc & _MISC_EXEC))


def _fork(when: When, record: RawRecord, body: bytes) -> Event:
    pid, parent, tid, _, time = struct.unpack_from("<IIIIQ", body)
    return Fork(when._replace(time=time) if when.time is None else when, pid, parent, tid)


def _exit(when: When, record: RawRecord, body: bytes) -> Event:
    pid, _, tid, _, time = struct.unpack_from("<IIIIQ", body)
    return Exit(when._replace(time=time) if when.time is None else when, pid, tid)


def _switch(when: When, record: RawRecord, body: bytes) -> Event:
    return Switch(when, bool(record.misc & _MISC_OUT), None)


def _switch_wide(when: When, record: RawRecord, body: bytes) -> Event:
    return Switch(when, bool(record.misc & _MISC_OUT), struct.unpack_from("<ii", body))


def _started(when: When, record: RawRecord, body: bytes) -> Event:
    return Started(when, *struct.unpack_from("<ii", body))


def _aux(when: When, record: RawRecord, body: bytes) -> Event:
    return Aux(when, *struct.unpack_from("<QQQ", body))


def _hardware_id(when: When, record: RawRecord, body: bytes) -> Event:
    return HardwareId(when, *struct.unpack_from("<Q", body))


def _lost(when: When, record: RawRecord, body: bytes) -> Event:
    return Lost(when, struct.unpack_from("<QQ", body)[1])


def _lost_samples(when: When, record: RawRecord, body: bytes) -> Event:
    return Lost(when, *struct.unpack_from("<Q", body))


def _area_info(when: When, record: RawRecord, body: bytes) -> Event:
    (kind,) = struct.unpack_from("<I", body)
    return AreaInfo(kind, tuple(memoryview(body[8 : len(body) // 8 * 8]).cast("Q")))


def _area(when: When, record: RawRecord, body: bytes) -> Event:
    size, offset, _, number, tid, cpu = struct.unpack_from("<QQQIii", body)
    return Area(size, offset, number, tid, cpu, record.position)


def _time_conversion(when: When, record: RawRecord, body: bytes) -> Event:
    shift, multiplier, zero = struct.unpack_from("<QQQ", body)
    return TimeConversion(shift, multiplier, zero, len(body) <= 40 or bool(body[40]))


_PARSERS: dict[int, Callable[[When, RawRecord, bytes], Event]] = {
    1: _mmap,
    2: _lost,
    3: _comm,
    4: _exit,
    7: _fork,
    10: _mmap2,
    11: _aux,
    12: _started,
    13: _lost_samples,
    14: _switch,
    15: _switch_wide,
    21: _hardware_id,
    70: _area_info,
    71: _area,
    79: _time_conversion,
}
