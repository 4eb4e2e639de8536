"""The container: header, events that were recorded, feature sections, and the records in their order.

Every number in the file is untrusted. A record that cannot be one ends the reading, and `PerfFile.cut` says where and
why; what came before it is kept. The bytes of AUX areas are not read here, only found.

Source: Linux, tools/perf/Documentation/perf.data-file-format.txt and include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from headway.errors import HeadwayError
from headway.files import open_file

__all__ = ["MAGIC", "Attribute", "Feature", "PerfFile", "RawRecord"]

MAGIC = b"PERFILE2"
_SWAPPED = MAGIC[::-1]
_HEADER = struct.Struct("<8sQQQQQQQQ4Q")
_PIPE_SIZE = 16
_RECORD = struct.Struct("<IHH")
_ATTRIBUTE_SIZES = range(64, 4097)
_MAX_ATTRIBUTES = 1 << 16
_MAX_IDS = 1 << 20
_MAX_FEATURE = 1 << 26
_CHUNK = 1 << 20

HEADER_ATTR, HEADER_BUILD_ID, AUXTRACE, HEADER_FEATURE = 64, 67, 71, 80
_AUXTRACE_SIZE = struct.Struct("<Q")


class Feature:
    """Numbers of feature sections (HEADER_*)."""

    BUILD_ID = 2
    ARCH = 6
    CPUID = 9


@dataclass(frozen=True, slots=True)
class Attribute:
    """One recorded event, as in perf_event_attr."""

    type: int
    config: int
    sample_type: int
    flags: int
    clock: int | None
    """The clock of its times (CLOCK_*), if one was asked for."""

    @property
    def identified(self) -> bool:
        """Whether every record ends with fields that say when and by whom (sample_id_all)."""
        return bool(self.flags >> 18 & 1)

    @classmethod
    def parse(cls, data: bytes) -> Attribute:
        """Read perf_event_attr, of at least 64 bytes."""
        kind, _, config, _, sample_type, _, flags = struct.unpack_from("<IIQQQQQ", data)
        clock = struct.unpack_from("<i", data, 92)[0] if len(data) >= 96 and flags >> 25 & 1 else None
        return cls(kind, config, sample_type, flags, clock)


class RawRecord(NamedTuple):
    """One record. ``position``: in the file, of the first byte after it, which of an AUXTRACE are those of its area."""

    type: int
    misc: int
    body: bytes
    position: int


class PerfFile:
    """A perf.data file. ``attributes`` and ``ids`` (which event an ID means) are complete once all records were read
    if the file came through a pipe, and from the beginning otherwise."""

    def __init__(self, path: str) -> None:
        """Read the header. Raises HeadwayError if it is none."""
        self.path = path
        self.attributes: list[Attribute] = []
        self.ids: dict[int, Attribute] = {}
        self.cut = ""
        """Where and why the records end before they should; empty: they do not."""
        self._features: dict[int, bytes] = {}
        self._build_ids = bytearray()
        self._places: dict[int, tuple[int, int]] = {}
        with open_file(path, "a perf.data file") as stream:
            self.size = stream.seek(0, 2)
            stream.seek(0)
            head = stream.read(_HEADER.size)
            if head[:8] == _SWAPPED:
                raise HeadwayError(f"{path!a} was recorded by a big-endian machine, which headway does not read")
            if head[:8] != MAGIC or len(head) < _PIPE_SIZE:
                raise HeadwayError(f"{path!a} is not a perf.data file: give what perf record wrote")
            self.piped = int.from_bytes(head[8:16], "little") == _PIPE_SIZE
            if self.piped:
                self._begin, self._end = _PIPE_SIZE, self.size
                return
            if len(head) < _HEADER.size:
                raise HeadwayError(f"{path!a} is cut off in its header: record it again")
            _, _, attribute_size, attributes, length, self._begin, data_size, _, _, *bits = _HEADER.unpack(head)
            if data_size == 0:
                raise HeadwayError(f"{path!a} has no records: perf record did not end properly; record it again")
            if self._begin + data_size > self.size:
                self.cut = f"it should be {self._begin + data_size} bytes long and has {self.size}"
            self._end = min(self._begin + data_size, self.size)
            self._read_attributes(stream, attributes, length, attribute_size)
            self._find_features(stream, self._begin + data_size, bits)

    def _read_attributes(self, stream: BinaryIO, start: int, length: int, each: int) -> None:
        if each - 16 not in _ATTRIBUTE_SIZES or start + length > self.size or length // each > _MAX_ATTRIBUTES:
            raise HeadwayError(f"{self.path!a} has no table of events where its header says: record it again")
        for number in range(length // each):
            stream.seek(start + number * each)
            data = stream.read(each)
            ids, size = struct.unpack_from("<QQ", data, each - 16)
            if ids + size > self.size or size // 8 > _MAX_IDS:
                raise HeadwayError(f"{self.path!a} has no IDs of event {number} where it says: record it again")
            stream.seek(ids)
            self._add(Attribute.parse(data), stream.read(size // 8 * 8))

    def _add(self, attribute: Attribute, ids: bytes) -> None:
        self.attributes.append(attribute)
        if len(self.ids) < _MAX_IDS:
            self.ids.update(dict.fromkeys(memoryview(ids).cast("Q"), attribute))

    def _find_features(self, stream: BinaryIO, at: int, bits: list[int]) -> None:
        stream.seek(min(at, self.size))
        for number in (64 * word + bit for word, value in enumerate(bits) for bit in range(64) if value >> bit & 1):
            place = stream.read(16)
            if len(place) < 16:
                return
            start, size = struct.unpack("<QQ", place)
            if start + size <= self.size and size <= _MAX_FEATURE:
                self._places[number] = start, size

    def feature(self, number: int) -> bytes:
        """Return the content of a feature section, or nothing."""
        if number not in self._features and number in self._places:
            start, size = self._places[number]
            with open_file(self.path, "a perf.data file") as stream:
                stream.seek(start)
                self._features[number] = stream.read(size)
        if number == Feature.BUILD_ID and self.piped:
            return bytes(self._build_ids) or self._features.get(number, b"")
        return self._features.get(number, b"")

    def text(self, number: int) -> str:
        """Return the string that a feature section is, or ""."""
        found = self.feature(number)
        size = int.from_bytes(found[:4], "little")
        return found[4 : 4 + size].partition(b"\0")[0].decode("utf-8", "backslashreplace")[:256]

    def records(self) -> Iterator[RawRecord]:
        """Yield the records in the order of the file."""
        first = not (self.piped and self.attributes)
        with open_file(self.path, "a perf.data file") as stream:
            data, start = b"", self._begin  # bytes of the file from `start` on
            at = self._begin
            while at < self._end:
                if at + 0x10000 > start + len(data):
                    stream.seek(at)
                    data, start = stream.read(min(_CHUNK, self._end - at)), at
                if len(data) < at - start + 8:
                    self.cut = f"it ends within a record, at byte {at}"
                    return
                kind, misc, size = _RECORD.unpack_from(data, at - start)
                body = data[at - start + 8 : at - start + size]
                if size < 8 or size % 8 or len(body) < size - 8:
                    what = "ends within a record" if size >= 8 and size % 8 == 0 else "has no record"
                    self.cut = f"it {what} at byte {at}"
                    return
                at += size
                if kind == AUXTRACE and len(body) >= 8:
                    more = _AUXTRACE_SIZE.unpack_from(body)[0]
                    if at + more > self._end:
                        self.cut = f"it ends within an AUX area, at byte {self._end}"
                        more = self._end - at
                        body = _AUXTRACE_SIZE.pack(more) + body[8:]
                    yield RawRecord(kind, misc, body, at)
                    at += more
                    continue
                yield RawRecord(kind, misc, body, at)
                if kind == HEADER_ATTR and self.piped and first and len(body) >= 64:
                    size = int.from_bytes(body[4:8], "little") or 64
                    if size in _ATTRIBUTE_SIZES and len(body) >= size and len(self.attributes) < _MAX_ATTRIBUTES:
                        self._add(Attribute.parse(body[:size]), body[size : size + (len(body) - size) // 8 * 8])
                elif kind == HEADER_BUILD_ID and self.piped and first and len(self._build_ids) < _MAX_FEATURE:
                    self._build_ids += _RECORD.pack(kind, misc, 8 + len(body)) + body  # as in a file's table
                elif kind == HEADER_FEATURE and self.piped and len(body) >= 8:
                    self._features.setdefault(int.from_bytes(body[:8], "little"), body[8:])
