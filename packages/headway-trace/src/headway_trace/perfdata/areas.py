"""The AUX areas of perf.data: what each trace unit wrote, put together from the pieces that are in the file.

Between two pieces that do not join, and where the kernel had to stop because an area was full, bytes are missing. An
area is therefore a row of stretches; each has to be decoded on its own.
"""

from __future__ import annotations

import mmap
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headway.errors import HeadwayError
from headway.files import open_file

from .events import Area, Aux

__all__ = ["AuxArea", "MappedBytes", "Stretch", "areas_of"]

_MOST_AREAS = 1 << 14
_PADDING = 8
"""perf pads an area to a multiple of so many bytes."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes of an area without a break, from ``position`` on (in the area): pieces of the file, (place, size)."""

    position: int
    pieces: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """The number of bytes."""
        return sum(size for _, size in self.pieces)

    def mapped(self, path: str) -> MappedBytes:
        """Return the bytes, mapped. Several pieces are copied into one temporary file. Raises HeadwayError."""
        try:
            with open_file(path, "a perf.data file") as stream:
                whole = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            if len(self.pieces) == 1:
                return MappedBytes(whole, *self.pieces[0])
            with tempfile.TemporaryFile(prefix="headway-") as joined:
                for place, size in self.pieces:
                    joined.write(memoryview(whole)[place : place + size])
                joined.flush()
                return MappedBytes(mmap.mmap(joined.fileno(), 0, access=mmap.ACCESS_READ), 0, self.size)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise HeadwayError(f"the trace in {path!a} cannot be read ({why})") from None


class MappedBytes(NamedTuple):
    """``size`` bytes of a mapped file, from ``start`` on."""

    file: mmap.mmap
    start: int
    size: int

    @property
    def view(self) -> memoryview:
        """The bytes."""
        return memoryview(self.file)[self.start : self.start + self.size]


@dataclass(slots=True)
class AuxArea:
    """What one trace unit wrote. ``cpu`` or ``tid`` is -1 if the area is not of one processor, or of one thread."""

    number: int
    cpu: int
    tid: int
    stretches: list[Stretch] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of bytes in the file."""
        return sum(stretch.size for stretch in self.stretches)

    @property
    def words(self) -> str:
        """The area's name for people."""
        return f"processor {self.cpu}" if self.cpu >= 0 else f"thread {self.tid}"


def areas_of(pieces: Iterable[Area], written: Iterable[Aux], left_out: Counter[str]) -> list[AuxArea]:
    """Put areas together. ``left_out`` counts, by what happened, how often trace is missing."""
    found: dict[int, AuxArea] = {}
    by_number: dict[int, list[Area]] = {}
    for piece in pieces:
        if piece.number not in found:
            if len(found) >= _MOST_AREAS:
                left_out["areas beyond the first 16,384"] += 1
                continue
            found[piece.number] = AuxArea(piece.number, piece.cpu, piece.tid)
        by_number.setdefault(piece.number, []).append(piece)
    breaks, ends = _breaks(found.values(), written, left_out)
    for number, area in found.items():
        end = ends.get(number, 0)
        pieces_of = [_shortened(piece, end) if end else piece for piece in by_number[number]]
        area.stretches = list(_stretches(pieces_of, breaks.get(number, set()), left_out))
    return [area for area in found.values() if area.size]


def _shortened(piece: Area, end: int) -> Area:
    """Return a piece without the padding behind the last byte that was written."""
    inside = piece.offset < end < piece.offset + piece.size
    return piece._replace(size=end - piece.offset) if inside and piece.offset + piece.size - end < _PADDING else piece


def _breaks(
    areas: Iterable[AuxArea], written: Iterable[Aux], left_out: Counter[str]
) -> tuple[dict[int, set[int]], dict[int, int]]:
    """Return the places of each area after which data was lost, and the end of what was written."""
    of_cpu = {area.cpu: area.number for area in areas if area.cpu >= 0}
    of_tid = {area.tid: area.number for area in areas if area.cpu < 0}
    found: dict[int, set[int]] = {}
    ends: dict[int, int] = {}
    for aux in written:
        left_out["gaps where an AUX area was full"] += aux.truncated
        left_out["AUX records with gaps of the hardware's"] += aux.partial
        left_out["collisions in AUX records"] += aux.collided
        number = of_cpu.get(aux.when.cpu, of_tid.get(aux.when.tid))
        if number is not None:
            ends[number] = max(ends.get(number, 0), aux.offset + aux.size)
            if aux.truncated:
                found.setdefault(number, set()).add(aux.offset + aux.size)
    return found, ends


def _stretches(pieces: Sequence[Area], breaks: set[int], left_out: Counter[str]) -> Iterable[Stretch]:
    joined: list[tuple[int, int]] = []
    begin = end = 0
    for piece in sorted(pieces, key=lambda one: one.offset):
        start, place, size = piece.offset, piece.position, piece.size
        if joined and start < end:  # a snapshot has what an earlier one had too
            again = min(end - start, size)
            start, place, size = start + again, place + again, size - again
            left_out["bytes that are in two snapshots"] += again
        if not size:
            continue
        if joined and (start != end or start in breaks):
            left_out["missing pieces of AUX areas"] += start != end
            yield Stretch(begin, tuple(joined))
            joined = []
        for cut in sorted(cut for cut in breaks if start < cut < start + size):
            if not joined:
                begin = start
            joined.append((place, cut - start))
            yield Stretch(begin, tuple(joined))
            place, size, start, joined = place + cut - start, size - (cut - start), cut, []
        if not joined:
            begin = start
        joined.append((place, size))
        end = start + size
    if joined:
        yield Stretch(begin, tuple(joined))
