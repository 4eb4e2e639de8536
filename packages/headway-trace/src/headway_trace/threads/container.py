"""Trace files of the machine (``.hwt``): each core's stream, the machine's shape, and the digest of the program.

A file begins with eight bytes (``HWTRACE`` and a version). Chunks follow: a number of one byte, a length of four bytes
(little-endian), and that many bytes. Chunk 0xFF comes first and describes the machine in JSON. In version 3 chunk 0xFD
may follow, with the parameters of E-Trace in JSON. Chunks 0 to 15 are bytes of that core's stream, in order. Chunk
0xFE, which is empty, comes last; a file without it is truncated. Files are untrusted: every value is checked before it
is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from typing import Any, BinaryIO

from headway.errors import HeadwayError
from headway.files import open_file

__all__ = [
    "COUNTED",
    "MAGIC",
    "NOT_COUNTED",
    "SOURCES",
    "WAYPOINTS",
    "MachineShape",
    "TraceFile",
    "TraceFileWriter",
    "digest_of",
    "has_etrace",
]

MAGIC = b"HWTRACE"
"""The first bytes of a trace file. The next one is the version."""
_OLDEST, WAYPOINTS = 2, 3
"""The versions that are read. From `WAYPOINTS` on a trace without cycles tells of waypoints only, or is of E-Trace."""
_CHUNK = struct.Struct("<BI")
_DESCRIPTION, _END, _ETRACE = 0xFF, 0xFE, 0xFD
_MAX_DESCRIPTION = 1 << 16
_MAX_CHUNK = 1 << 24
_PIECE = 1 << 20
_LIMITS = {"cores": (1, 16), "threads": (1, 8), "window": (8, 1 << 20)}
_LONGEST = {"program": 64, "name": 1024, "counters": 256}
SOURCES = (
    "data_cache_misses",
    "data_cache_stall_cycles",
    "instruction_cache_misses",
    "instruction_cache_stall_cycles",
    "tlb_misses",
    "stall_cycles",
    "tlb_stall_cycles",
    "external_stall_cycles",
    "dependency_stall_cycles",
    "refill_cycles",
    "slot_cycles",
    "instructions",
    "taken_branches",
    "traps",
)
"""What a counter of the profile can count, by number (docs/machine.md, section 9)."""
COUNTED = SOURCES[:6]
"""The sources of the six counters unless the machine is told others."""
NOT_COUNTED = "-"
"""In place of the source of a counter that is not used."""


@dataclass(frozen=True, slots=True)
class MachineShape:
    """The properties of the traced machine that a decoder needs."""

    cores: int
    threads: int
    """Threads of each core."""
    strict: bool
    cycle_accurate: bool
    window: int
    """Ticks of a window; a throttled clock runs in a part of each window."""
    program: str
    """The `digest_of` the program."""
    name: str
    """The name of the program's file."""
    counters: str = ",".join(COUNTED)
    """The sources of the six counters of the profile, as configured."""


def digest_of(segments: Iterable[tuple[int, bytes]]) -> str:
    """Return a SHA-256 hash of a program's segments, which is the same with and without symbols."""
    found = hashlib.sha256()
    for address, data in segments:
        found.update(struct.pack("<II", address, len(data)))
        found.update(data)
    return found.hexdigest()


def has_etrace(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a trace file whose streams are of E-Trace."""
    with open_file(path, "a trace") as stream:
        head = stream.read(len(MAGIC) + 1 + _CHUNK.size)
        if head[: len(MAGIC) + 1] != MAGIC + bytes([WAYPOINTS]) or len(head) < len(MAGIC) + 1 + _CHUNK.size:
            return False
        size = _CHUNK.unpack(head[-_CHUNK.size :])[1]
        if size > _MAX_DESCRIPTION:
            return False
        stream.read(size)
        return stream.read(1) == bytes([_ETRACE])


class TraceFileWriter:
    """A writer of a trace file. Its methods raise HeadwayError if writing fails."""

    def __init__(self, stream: BinaryIO, shape: MachineShape, etrace: Mapping[str, Any] | None = None) -> None:
        """Begin a file; ``etrace``: the parameters, if its streams are of E-Trace."""
        self._stream = stream
        described = {f.name: getattr(shape, f.name) for f in fields(shape) if getattr(shape, f.name) != f.default}
        text = json.dumps(described).encode()
        version = _OLDEST if etrace is None and shape.cycle_accurate else WAYPOINTS
        self._write(MAGIC + bytes([version]) + _CHUNK.pack(_DESCRIPTION, len(text)) + text)
        if etrace is not None:
            text = json.dumps(etrace).encode()
            self._write(_CHUNK.pack(_ETRACE, len(text)) + text)

    def add(self, core: int, data: bytes) -> None:
        """Write more bytes of a core's stream."""
        for at in range(0, len(data), _MAX_CHUNK):
            piece = data[at : at + _MAX_CHUNK]
            self._write(_CHUNK.pack(core, len(piece)))
            self._write(piece)

    def close(self) -> None:
        """Mark the trace as complete."""
        self._write(_CHUNK.pack(_END, 0))
        with suppress(AttributeError):
            self._stream.flush()

    def _write(self, data: bytes) -> None:
        try:
            self._stream.write(data)
        except OSError as error:
            raise HeadwayError(f"the trace cannot be written ({error.strerror})") from None


class TraceFile:
    """A trace file, which can be read any number of times.

    ``sizes``: bytes of each core's stream. ``complete``: whether the file is not truncated.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the description and the positions of the chunks. Raises HeadwayError if it is no trace file."""
        self._path = os.fspath(path)
        self._name = ascii(self._path)
        self._places: dict[int, list[tuple[int, int]]] = {}
        self.complete = False
        self.version = 0
        self.etrace: dict[str, Any] | None = None
        """The parameters of E-Trace; None: the streams are of the machine's own format."""
        with open_file(self._path, "a trace file (.hwt)") as stream:
            try:
                self._size = os.fstat(stream.fileno()).st_size
                self.shape = self._description(stream)
                self._index(stream)
            except OSError as error:
                raise HeadwayError(f"{self._name} cannot be read ({error.strerror})") from None
        self.sizes = [sum(size for _, size in self._places.get(core, ())) for core in range(self.shape.cores)]
        if not any(self.sizes):
            raise HeadwayError(f"{self._name} has no trace in it: its run was cut short, or traced nothing")

    def pieces(self, core: int, start: int = 0) -> Iterator[bytes]:
        """Yield the bytes of a core's stream from its byte ``start`` on, in pieces."""
        with open_file(self._path, "a trace file (.hwt)") as stream:
            for at, size in self._places.get(core, ()):
                if start >= size:
                    start -= size
                    continue
                while start < size:
                    try:
                        stream.seek(at + start)
                        piece = stream.read(min(_PIECE, size - start))
                    except OSError as error:
                        raise HeadwayError(f"{self._name} cannot be read ({error.strerror})") from None
                    if not piece:
                        raise HeadwayError(f"{self._name} has become shorter while it was read: decode it again")
                    start += len(piece)
                    yield piece
                start = 0

    def _description(self, stream: BinaryIO) -> MachineShape:
        magic = stream.read(len(MAGIC))
        if magic != MAGIC:
            what = "is empty" if not magic else "is not a trace of the machine"
            raise HeadwayError(f"{self._name} {what}: give what headway machine run --trace wrote")
        self.version = int.from_bytes(stream.read(1), "little")
        if not _OLDEST <= self.version <= WAYPOINTS:
            raise HeadwayError(
                f"{self._name} is of version {self.version}, this headway reads {_OLDEST} and {WAYPOINTS}: "
                "trace it again"
            )
        shape = self._shape(self._json(stream, _DESCRIPTION, "its machine"))
        at = stream.tell()
        following = stream.read(1)
        stream.seek(at)
        if self.version >= WAYPOINTS and following == bytes([_ETRACE]):
            found = self._json(stream, _ETRACE, "its E-Trace")
            if not isinstance(found, dict):
                raise self._damaged("the parameters of its E-Trace are missing")
            self.etrace = found
        return shape

    def _json(self, stream: BinaryIO, chunk: int, of: str) -> object:
        head = stream.read(_CHUNK.size)
        number, size = _CHUNK.unpack(head) if len(head) == _CHUNK.size else (0, 0)
        if number != chunk or size > _MAX_DESCRIPTION:
            raise self._damaged(f"it does not describe {of}")
        try:
            found: object = json.loads(stream.read(size))
        except (ValueError, RecursionError):
            raise self._damaged(f"the description of {of} is no JSON") from None
        return found

    def _shape(self, found: object) -> MachineShape:
        values = found if isinstance(found, dict) else {}
        chosen: dict[str, object] = {}
        for field in fields(MachineShape):
            value = values.get(field.name, None if field.default is MISSING else field.default)
            low, high = _LIMITS.get(field.name, (0, 0))
            good = {
                "int": type(value) is int and low <= value <= high,
                "bool": type(value) is bool,
                "str": isinstance(value, str) and len(value) <= _LONGEST.get(field.name, 0),
            }[str(field.type)]
            if not good:
                raise self._damaged(f"its machine's {field.name} is missing or impossible")
            chosen[field.name] = value
        names = str(chosen["counters"]).split(",")
        if len(names) != len(COUNTED) or not {*names} <= {*SOURCES, NOT_COUNTED}:
            raise self._damaged("its machine's counters are missing or impossible")
        return MachineShape(**chosen)  # type: ignore[arg-type]

    def _index(self, stream: BinaryIO) -> None:
        at = stream.tell()
        while True:
            stream.seek(at)
            head = stream.read(_CHUNK.size)
            if len(head) < _CHUNK.size:
                return
            number, size = _CHUNK.unpack(head)
            at += _CHUNK.size
            if number == _END and not size:
                self.complete = True
                return
            if number >= self.shape.cores or size > _MAX_CHUNK:
                raise self._damaged(f"byte {at - _CHUNK.size} should begin a chunk")
            kept = min(size, self._size - at)
            if kept > 0:
                self._places.setdefault(number, []).append((at, kept))
            at += size

    def _damaged(self, why: str) -> HeadwayError:
        return HeadwayError(f"{self._name} is damaged ({why}): trace it again")
