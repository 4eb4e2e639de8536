"""A writer of perf.data files, by the format's description (tools/perf/Documentation/perf.data-file-format.txt)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

TID, TIME, CPU, IDENTIFIER = 1 << 1, 1 << 2, 1 << 7, 1 << 16
SAMPLE_TYPE = TID | TIME | CPU | IDENTIFIER
ID = 77


def attribute(sample_type: int = SAMPLE_TYPE, kind: int = 8, size: int = 136, clock: int | None = None) -> bytes:
    """perf_event_attr of a tracing event whose records say when and by whom."""
    data = bytearray(size)
    flags = 1 << 18 | 1 << 8 | 1 << 9 | 1 << 23 | (0 if clock is None else 1 << 25)
    struct.pack_into("<IIQQQQQ", data, 0, kind, size, 0, 1, sample_type, 0, flags)
    if clock is not None:
        struct.pack_into("<i", data, 92, clock)
    return bytes(data)


def record(kind: int, body: bytes, misc: int = 0) -> bytes:
    body += bytes(-len(body) % 8)
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


@dataclass
class Writer:
    """The records of a file, in order."""

    data: bytearray = field(default_factory=bytearray)
    sample_type: int = SAMPLE_TYPE

    def end(self, pid: int, tid: int, time: int, cpu: int) -> bytes:
        found = b""
        if self.sample_type & TID:
            found += struct.pack("<ii", pid, tid)
        if self.sample_type & TIME:
            found += struct.pack("<Q", time)
        if self.sample_type & CPU:
            found += struct.pack("<iI", cpu, 0)
        if self.sample_type & IDENTIFIER:
            found += struct.pack("<Q", ID)
        return found

    def put(self, kind: int, body: bytes, when: tuple[int, int, int, int], misc: int = 0) -> None:
        self.data += record(kind, body + bytes(-len(body) % 8) + self.end(*when), misc)

    def mmap2(
        self,
        pid: int,
        address: int,
        size: int,
        name: str,
        *,
        offset: int = 0,
        time: int = 0,
        cpu: int = 0,
        prot: int = 5,
    ) -> None:
        body = struct.pack("<iiQQQ24xII", pid, pid, address, size, offset, prot, 2) + name.encode() + b"\0"
        self.put(10, body, (pid, pid, time, cpu))

    def mmap(self, pid: int, address: int, size: int, name: str, *, offset: int = 0, time: int = 0) -> None:
        self.put(1, struct.pack("<iiQQQ", pid, pid, address, size, offset) + name.encode() + b"\0", (pid, pid, time, 0))

    def comm(self, pid: int, tid: int, name: str, *, time: int = 0, executed: bool = False) -> None:
        self.put(3, struct.pack("<ii", pid, tid) + name.encode() + b"\0", (pid, tid, time, 0), executed << 13)

    def fork(self, pid: int, parent: int, tid: int, ptid: int, *, time: int = 0) -> None:
        self.put(7, struct.pack("<iiiiQ", pid, parent, tid, ptid, time), (parent, ptid, time, 0))

    def exit(self, pid: int, tid: int, *, time: int = 0) -> None:
        self.put(4, struct.pack("<iiiiQ", pid, 1, tid, 1, time), (pid, tid, time, 0))

    def switch(self, cpu: int, who: tuple[int, int], other: tuple[int, int], *, time: int, out: bool) -> None:
        self.put(15, struct.pack("<ii", *other), (*who, time, cpu), out << 13)

    def switch_of_thread(self, pid: int, tid: int, *, time: int, cpu: int, out: bool) -> None:
        self.put(14, b"", (pid, tid, time, cpu), out << 13)

    def started(self, pid: int, tid: int, *, time: int, cpu: int = 0) -> None:
        self.put(12, struct.pack("<ii", pid, tid), (pid, tid, time, cpu))

    def aux(self, offset: int, size: int, *, flags: int = 0, time: int = 0, cpu: int = 0, tid: int = 1) -> None:
        self.put(11, struct.pack("<QQQ", offset, size, flags), (tid, tid, time, cpu))

    def hardware_id(self, cpu: int, number: int) -> None:
        self.put(21, struct.pack("<Q", number), (1, 1, 0, cpu))

    def info(self, kind: int, words: Sequence[int]) -> None:
        self.data += record(70, struct.pack("<II", kind, 0) + struct.pack(f"<{len(words)}Q", *words))

    def area(self, data: bytes, *, offset: int = 0, number: int = 0, tid: int = -1, cpu: int = 0) -> None:
        self.data += record(71, struct.pack("<QQQIiiI", len(data), offset, 0, number, tid, cpu, 0)) + data

    def conversion(self, shift: int, multiplier: int, zero: int) -> None:
        self.data += record(79, struct.pack("<QQQQQBB6x", shift, multiplier, zero, 0, 0, 1, 0))

    def file(self, features: dict[int, bytes] | None = None, clock: int | None = None) -> bytes:
        """A file that perf record wrote to a disk."""
        return whole(bytes(self.data), attribute(self.sample_type, clock=clock), features or {})

    def pipe(self) -> bytes:
        """What perf record wrote to a pipe."""
        head = b"PERFILE2" + struct.pack("<Q", 16)
        return head + record(64, attribute(self.sample_type) + struct.pack("<Q", ID)) + bytes(self.data)

    def save(self, path: Path, features: dict[int, bytes] | None = None, clock: int | None = None) -> str:
        path.write_bytes(self.file(features, clock))
        return str(path)


def whole(data: bytes, attr: bytes, features: dict[int, bytes]) -> bytes:
    ids = struct.pack("<Q", ID)
    begin = 104
    attributes = begin + len(ids)
    entry = attr + struct.pack("<QQ", begin, len(ids))
    start = attributes + len(entry)
    bits = [0, 0, 0, 0]
    for number in features:
        bits[number // 64] |= 1 << number % 64
    head = b"PERFILE2" + struct.pack(
        "<QQQQQQQQ4Q", 104, len(entry), attributes, len(entry), start, len(data), 0, 0, *bits
    )
    table, content = b"", b""
    at = start + len(data) + 16 * len(features)
    for _, section in sorted(features.items()):
        table += struct.pack("<QQ", at + len(content), len(section))
        content += section
    return head + ids + entry + data + table + content


def text(words: str) -> bytes:
    """A feature section that is a string."""
    data = words.encode() + b"\0"
    data += bytes(-len(data) % 64)
    return struct.pack("<I", len(data)) + data
