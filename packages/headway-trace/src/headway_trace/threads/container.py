"""Trace files of the machine (``.hwt``): each core's stream, the machine's shape, and the digest of the program.

A file begins with eight bytes (``HWTRACE`` and a version). Chunks follow (`chunks`; of versions 2 and 3 `older`). Chunk
0xFF describes the machine in JSON, with the parameters of E-Trace if its streams are of that; the file has it at the
beginning, again after each 64 chunks, and near the end. Chunks 0 to 15 are bytes of that core's stream, in order. Chunk
0xFE, which is empty, comes last; a file without it is truncated. In versions 2 and 3 only the first chunk is 0xFF, and
chunk 0xFD may follow, with the parameters of E-Trace.

Files are untrusted: every value is checked before it is used. What is damaged is repaired, or skipped and counted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from typing import Any, BinaryIO, NamedTuple

from headway.errors import HeadwayError
from headway.files import open_file

from .chunks import DESCRIPTION, END, Chunk, Chunks, ChunkWriter, first_mark
from .older import HEAD, OlderChunks

__all__ = [
    "COUNTED",
    "MAGIC",
    "NOT_COUNTED",
    "SOURCES",
    "WAYPOINTS",
    "FileDamage",
    "MachineShape",
    "TraceFile",
    "TraceFileWriter",
    "digest_of",
    "has_etrace",
    "is_trace",
    "unit_of",
]

MAGIC = b"HWTRACE"
"""The first bytes of a trace file. The next one is the version."""
_OLDEST, WAYPOINTS, _NEWEST = 2, 3, 4
"""The versions that are read. From `WAYPOINTS` on a trace without cycles tells of waypoints only, or is of E-Trace."""
_ETRACE, _ETRACE_KEY = 0xFD, "etrace"
_BEGIN = len(MAGIC) + 1
_HEAD_OF_FILE = 1 << 16
"""Bytes of a file in which a mark shows that it is a trace, though its first bytes are damaged."""
_MAX_DESCRIPTION = 1 << 16
_MAX_REPAIRED = 4096
"""Bytes of a description in which a wrong bit is searched for."""
_COUNTER = re.compile(r"([a-z_]+|-)(?:@0x[0-9a-f]{1,2})?")
_PIECE = 1 << 20
_CHUNK = 1 << 14
"""Bytes of a stream in a chunk, at most."""
_SHORT_CHUNK = 1 << 12
"""Bytes that wait for more of their stream before they become a chunk."""
_AGAIN = 64
"""Chunks after which the description is repeated."""
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
    "bank_conflicts",
)
"""What a counter of the profile can count, by number (registers 52 to 57 in headway_machine/events.pxd)."""
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
    """The sources of the six counters of the profile, as configured.

    A counter that counts not all harts has them behind ``@``, a bit each: ``instructions@0x3``.
    """


def unit_of(counter: str) -> str:
    """Return what a counter of the profile counts: misses, cycles, instructions, branches or traps."""
    return re.split("[@#]", counter)[0].split("_")[-1]


def digest_of(segments: Iterable[tuple[int, bytes]]) -> str:
    """Return a SHA-256 hash of a program's segments, which is the same with and without symbols."""
    found = hashlib.sha256()
    for address, data in segments:
        found.update(struct.pack("<II", address, len(data)))
        found.update(data)
    return found.hexdigest()


def is_trace(head: bytes) -> bool:
    """Return whether a file with these first 64 KiB is a trace file, even if some of its first bytes are damaged."""
    return head.startswith(MAGIC) or _older(head) > 0 or first_mark(head) is not None


def _older(head: bytes) -> int:
    """Return the version, 2 or 3, of a file with these first bytes, of which one bit may be wrong; 0: it is neither."""
    wrong = {
        version: sum((a ^ b).bit_count() for a, b in zip(head, MAGIC + bytes([version]), strict=False))
        for version in (_OLDEST, WAYPOINTS)
    }
    version = min(wrong, key=lambda one: wrong[one])
    return version if len(head) >= _BEGIN and wrong[version] <= 1 else 0


def has_etrace(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a trace file whose streams are of E-Trace. Raises HeadwayError if it cannot be read."""
    with open_file(path, "a trace") as stream:
        head = stream.read(_HEAD_OF_FILE)
    mark = first_mark(head)
    if mark is None:
        size = HEAD.unpack(head[_BEGIN : _BEGIN + HEAD.size])[1] if len(head) >= _BEGIN + HEAD.size else 0
        following = head[_BEGIN + HEAD.size + size :][:1]
        return _older(head) == WAYPOINTS and following == bytes([_ETRACE])
    if mark.number == DESCRIPTION and not mark.tail:
        text = head[mark.end : mark.end + mark.length]
        if zlib.crc32(text) == mark.check:
            return f'"{_ETRACE_KEY}":'.encode() in text
    return TraceFile(path).etrace is not None


@dataclass(frozen=True, slots=True)
class FileDamage:
    """What is wrong with a file."""

    repaired: int = 0
    """Chunks that were damaged, and are as they were written."""
    damaged: int = 0
    """Chunks that are damaged and could not be repaired: their bytes are given as they are, or skipped."""
    skipped: int = 0
    """Bytes of the file that are of no chunk."""
    missing: int = 0
    """Bytes of streams that are known to be missing."""

    def rows(self) -> Iterator[tuple[str, str, int]]:
        """Yield what there is of it as (name, unit, number)."""
        for field in fields(self):
            number: int = getattr(self, field.name)
            if number:
                yield f"file.{field.name}", "bytes" if field.name in ("skipped", "missing") else "chunks", number

    def __str__(self) -> str:
        words = {
            "repaired": "{} damaged chunks of it were repaired",
            "damaged": "{} damaged chunks of it could not be repaired",
            "skipped": "{} bytes of it are of no chunk and were skipped",
            "missing": "{} bytes of its streams are missing",
        }
        return ", ".join(words[name[5:]].format(f"{number:,}") for name, _, number in self.rows())


class TraceFileWriter:
    """A writer of a trace file. Its methods raise HeadwayError if writing fails."""

    def __init__(self, stream: BinaryIO, shape: MachineShape, etrace: Mapping[str, Any] | None = None) -> None:
        """Begin a file; ``etrace``: the parameters, if its streams are of E-Trace."""
        self._stream = stream
        self._chunks = ChunkWriter()
        self._held: dict[int, bytearray] = {}
        self._before: tuple[int, ChunkWriter, dict[int, bytearray]] | None = None
        """What goes on after `end_for_now`: place in the stream, chunks, bytes that wait."""
        described = {f.name: getattr(shape, f.name) for f in fields(shape) if getattr(shape, f.name) != f.default}
        if etrace is not None:
            described[_ETRACE_KEY] = dict(etrace)
        self._description = json.dumps(described).encode()
        self._write(MAGIC + bytes([_NEWEST]) + self._chunks.chunk(DESCRIPTION, self._description))

    def add(self, core: int, data: bytes) -> None:
        """Write more bytes of a core's stream. The last of them may wait for those that follow."""
        self._go_on()
        held = self._held.setdefault(core, bytearray())
        held += data
        at = 0
        while len(held) - at >= _SHORT_CHUNK:
            self._chunk(core, bytes(held[at : at + _CHUNK]))
            at += _CHUNK
        del held[:at]

    def close(self) -> None:
        """Write what has waited, and mark the trace as complete."""
        self._go_on()
        for core, held in self._held.items():
            if held:
                self._chunk(core, bytes(held))
                held.clear()
        self._write(self._chunks.chunk(DESCRIPTION, self._description) + self._chunks.chunk(END, b""))
        with suppress(AttributeError):
            self._stream.flush()

    def end_for_now(self, rests: Sequence[bytes]) -> bool:
        """Complete the file as if the trace ended now, with these bytes at the end of each core's stream.

        What is written next takes that back. Return False, with nothing written, if the stream cannot go back.
        """
        self._go_on()
        if not self._stream.seekable():
            return False
        before = (self._stream.tell(), self._chunks.copy(), {core: held[:] for core, held in self._held.items()})
        for core, rest in enumerate(rests):
            self.add(core, rest)
        self.close()
        self._before = before
        return True

    def _go_on(self) -> None:
        if self._before is None:
            return
        at, self._chunks, self._held = self._before
        self._before = None
        try:
            self._stream.seek(at)
            self._stream.truncate()
        except OSError as error:
            raise HeadwayError(f"the trace cannot be written ({error.strerror})") from None

    def _chunk(self, core: int, data: bytes) -> None:
        self._write(self._chunks.chunk(core, data))
        if self._chunks.count % _AGAIN == 0:
            self._write(self._chunks.chunk(DESCRIPTION, self._description))

    def _write(self, data: bytes) -> None:
        try:
            self._stream.write(data)
        except OSError as error:
            raise HeadwayError(f"the trace cannot be written ({error.strerror})") from None


class _Part(NamedTuple):
    """Bytes of a stream: ``given`` of them, which are ``size`` bytes of the file from ``at`` on."""

    at: int
    size: int
    given: int
    repaired: Chunk | None = None


class TraceFile:
    """A trace file, which can be read any number of times.

    ``sizes``: bytes of each core's stream. ``complete``: whether the end of the file is there. ``damage``: what is
    wrong with it, of what is known.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the description and the positions of the chunks. Raises HeadwayError if it is no trace file."""
        self._path = os.fspath(path)
        self._name = ascii(self._path)
        self._parts: dict[int, list[_Part]] = {}
        self.complete = False
        self.version = 0
        self.damage = FileDamage()
        self.etrace: dict[str, Any] | None = None
        """The parameters of E-Trace; None: the streams are of the machine's own format."""
        with self._opened() as stream:
            try:
                self._size = os.fstat(stream.fileno()).st_size
                head = stream.read(_HEAD_OF_FILE)
                if first_mark(head) is not None or head[:_BEGIN] == MAGIC + bytes([_NEWEST]):
                    self.version = _NEWEST
                    self._read_chunks(stream)
                else:
                    self._read_older(stream, head)
            except OSError as error:
                raise HeadwayError(f"{self._name} cannot be read ({error.strerror})") from None
        self.sizes = [sum(part.given for part in self._parts.get(core, ())) for core in range(self.shape.cores)]
        if not any(self.sizes):
            raise HeadwayError(f"{self._name} has no trace in it: its run was cut short, or traced nothing")

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said of the file before any answer, in one line each."""
        found = [] if self.complete else [f"{self._name} was cut off: what is missing at its end is a gap"]
        if any(self.damage.rows()):
            found.append(f"{self._name} is damaged: {self.damage}")
        return tuple(found)

    def pieces(self, core: int, start: int = 0) -> Iterator[bytes]:
        """Yield the bytes of a core's stream from its byte ``start`` on, in pieces."""
        with self._opened() as stream:
            for part in self._parts.get(core, ()):
                if start >= part.given:
                    start -= part.given
                    continue
                if part.repaired is not None:
                    yield part.repaired.restored(self._read(stream, part.at, part.size))[start:]
                    start = part.given
                while start < part.given:
                    piece = self._read(stream, part.at + start, min(_PIECE, part.given - start))
                    start += len(piece)
                    yield piece
                start = 0

    def _opened(self) -> BinaryIO:
        return open_file(self._path, "a trace file (.hwt)")

    def _read(self, stream: BinaryIO, at: int, size: int) -> bytes:
        try:
            stream.seek(at)
            found = stream.read(size)
        except OSError as error:
            raise HeadwayError(f"{self._name} cannot be read ({error.strerror})") from None
        if not found:
            raise HeadwayError(f"{self._name} has become shorter while it was read: decode it again")
        return found

    # --- from version 4 on ---

    def _read_chunks(self, stream: BinaryIO) -> None:
        chunks = Chunks.of(stream, self._size)
        self.complete = chunks.complete
        self.shape = self._described(stream, chunks)
        ends = [0] * self.shape.cores
        repaired, damaged, skipped, missing = 0, chunks.spoilt, chunks.skipped, 0
        for chunk in chunks.found:
            mark = chunk.mark
            repaired += chunk.repaired
            damaged += not chunk.right
            if mark.number >= self.shape.cores:
                continue
            if mark.offset < ends[mark.number] or not (chunk.sure or self.shape.cores == 1):
                skipped += chunk.size
                continue
            given = mark.length if chunk.right else chunk.size
            missing += mark.offset - ends[mark.number] + max(mark.length - given, 0)
            ends[mark.number] = mark.offset + mark.length
            part = _Part(chunk.at, chunk.size, given, chunk if chunk.repaired else None)
            self._parts.setdefault(mark.number, []).append(part)
        self.damage = FileDamage(repaired, damaged, skipped, missing)

    def _described(self, stream: BinaryIO, chunks: Chunks) -> MachineShape:
        """Return what the first right chunk with a description says."""
        for chunk in chunks.found:
            if chunk.right and chunk.mark.number == DESCRIPTION:
                found = self._json(chunk.restored(self._read(stream, chunk.at, chunk.size) if chunk.size else b""))
                etrace = found.pop(_ETRACE_KEY, None) if isinstance(found, dict) else None
                if etrace is not None and not isinstance(etrace, dict):
                    raise self._damaged("the parameters of its E-Trace are missing")
                self.etrace = etrace
                return self._shape(found)
        raise self._damaged("it does not describe its machine")

    # --- versions 2 and 3 ---

    def _read_older(self, stream: BinaryIO, head: bytes) -> None:
        self.version = _older(head)
        told = int.from_bytes(head[len(MAGIC) : _BEGIN], "little")
        another = HeadwayError(
            f"{self._name} is of version {told}, this headway reads {_OLDEST} to {_NEWEST}: trace it again"
        )
        if not self.version:
            what = "is not a trace of the machine" if head else "is empty"
            known = head.startswith(MAGIC)
            raise (
                another if known else HeadwayError(f"{self._name} {what}: give what headway machine run --trace wrote")
            )
        try:
            text, at = self._text(head, _BEGIN, DESCRIPTION, "its machine")
            self.shape = self._mended_shape(text)
        except HeadwayError:
            if head.startswith(MAGIC) and told != self.version:
                raise another from None
            raise
        if self.version >= WAYPOINTS and head[at : at + 1] == bytes([_ETRACE]):
            text, at = self._text(head, at, _ETRACE, "its E-Trace")
            found = self._json(text, "its E-Trace")
            if not isinstance(found, dict):
                raise self._damaged("the parameters of its E-Trace are missing")
            self.etrace = found
        chunks = OlderChunks.of(stream, at, self._size, self.shape.cores)
        self.complete = chunks.complete
        for core, begin, size in chunks.places:
            kept = min(size, self._size - begin)
            if kept > 0:
                self._parts.setdefault(core, []).append(_Part(begin, kept, kept))
        self.damage = FileDamage(damaged=chunks.damaged, skipped=chunks.skipped)

    def _text(self, head: bytes, at: int, chunk: int, of: str) -> tuple[bytes, int]:
        """Return the JSON in a chunk, and where the next begins. Its number, or one bit of its length, may be wrong."""
        begin = at + HEAD.size
        number, size = HEAD.unpack(head[at:begin]) if len(head) >= begin else (0, 0)
        sizes = [size, *(size ^ 1 << bit for bit in range(32))] if number == chunk else [size]
        for one in sizes:
            text = head[begin : begin + one]
            if one <= _MAX_DESCRIPTION and text.startswith(b"{"):
                with suppress(HeadwayError):
                    self._json(text)
                    return text, begin + one
        if number != chunk or size > _MAX_DESCRIPTION:
            raise self._damaged(f"it does not describe {of}")
        return head[begin : begin + size], begin + size

    def _mended_shape(self, text: bytes) -> MachineShape:
        """Return what a description says. If it is impossible, one bit of it may be wrong."""
        try:
            return self._shape(self._json(text))
        except HeadwayError as error:
            found = set[MachineShape]()
            for bit in range(8 * len(text) if len(text) <= _MAX_REPAIRED else 0):
                with suppress(HeadwayError):
                    changed = bytearray(text)
                    changed[bit // 8] ^= 1 << bit % 8
                    found.add(self._shape(self._json(bytes(changed))))
            if len(found) != 1:
                raise error
            return found.pop()

    # --- what a description says ---

    def _json(self, text: bytes, of: str = "its machine") -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise self._damaged(f"the description of {of} is no JSON") from None

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
        names = [_COUNTER.fullmatch(name) for name in str(chosen["counters"]).split(",")]
        if len(names) != len(COUNTED) or not all(name and name[1] in {*SOURCES, NOT_COUNTED} for name in names):
            raise self._damaged("its machine's counters are missing or impossible")
        return MachineShape(**chosen)  # type: ignore[arg-type]

    def _damaged(self, why: str) -> HeadwayError:
        return HeadwayError(f"{self._name} is damaged ({why}): trace it again")
