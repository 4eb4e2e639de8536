"""A stream of Intel PT: the same questions as to any other stream of a capture, answered by libipt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headway.errors import HeadwayError
from headway.trace._records import Records
from headway.trace.memory import ProcessMemory
from headway.trace.records import Record

from ._decoder import Decoder, Image, count_packets
from .packets import PtPacketKind
from .setting import PtSetting

__all__ = ["PtSource", "PtStatistics", "PtStream", "image_of"]


@dataclass(frozen=True, slots=True)
class PtSource:
    """Where a stream comes from: its name, and the processor or thread that it is of."""

    name: str
    core: str | None = None


@dataclass(frozen=True, slots=True)
class PtStatistics:
    """The size of a stream in bytes, and its number of packets of each kind."""

    size: int
    packets: dict[PtPacketKind, int]


class WholePlaces:
    """The bytes of a stream, which are those of its file from ``start`` on."""

    def __init__(self, start: int = 0) -> None:
        self._start = start

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of bytes of the file."""
        return self._start + start, self._start + end


def image_of(memory: ProcessMemory) -> Image:
    """Return the memory for libipt. Parts whose files cannot be used are left out; ``memory.files`` says why."""
    image = Image()
    for part in memory.parts:
        if memory.files.check(part.path) and (why := image.add(part.path, part.offset, part.size, part.address)):
            memory.files.problems.setdefault(part.path, f"{part.path!a} cannot be used (libipt: {why})")
    return image


class PtStream:
    """A file of packets, which one processor wrote without a break."""

    def __init__(self, data: memoryview, setting: PtSetting, memory: ProcessMemory, source: PtSource) -> None:
        self.id = 0
        self.data, self.setting, self.image, self.source = data, setting, memory, source
        self.places = WholePlaces()
        self.errors: dict[str, int] = {}
        """How often libipt could not go on, by its name for the reason, once the stream has been decoded."""

    def statistics(self) -> PtStatistics:
        """Return what is in the stream. This needs no image."""
        counts = count_packets(self.data, self.setting)
        known = {PtPacketKind(kind) if kind <= 26 else PtPacketKind.NEWER: n for kind, n in counts.items()}
        return PtStatistics(len(self.data), dict(sorted(known.items())))

    def blocks(self) -> Iterator[Records]:
        """Yield the stream's records in blocks. Raises HeadwayError if there is no image."""
        if not self.image.spans:
            raise HeadwayError(f"no program is known for stream {self.id:#x}: give one with --image")
        decoder = Decoder(self.data, self.setting, image_of(self.image))
        while not decoder.finished:
            yield decoder.run()
        self.errors = decoder.errors

    def records(self) -> Iterator[Record]:
        """Yield the stream's records one by one. Raises HeadwayError if there is no image."""
        for block in self.blocks():
            yield from block

    def check(self) -> None:
        """Check that there is a place from which the stream can be decoded. Raises HeadwayError if there is none."""
        if PtPacketKind.PSB not in self.statistics().packets:
            raise HeadwayError(f"stream {self.id:#x} is no Intel PT: there is no PSB in {len(self.data)} bytes")

    def check_image(self) -> None:
        """Check that the program fits the stream. Raises HeadwayError if another program ran."""
        instructions = refused = 0
        for records in self.blocks():
            instructions += len(records.instructions())
            if instructions:
                return
            refused += sum(self.errors.values())
        if self.errors.get("nomap") and not instructions:
            spans = ", ".join(f"{start:#x} to {end:#x}" for start, end in self.image.spans[:8])
            raise HeadwayError(
                f"nothing that stream {self.id:#x} executed is in the program ({spans}): "
                "give the image that ran with --image"
            )
