"""A file of Intel PT packets and nothing else, as libipt's tools and debuggers write it.

It does not say which processor wrote it, so MTC and CYC packets, which need the frequencies of the processor, give no
time; TSC packets do. Its program is what ``--image`` names.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable

from headway.errors import HeadwayError, SelectionError
from headway.files import open_file
from headway_trace.disassembly import X86
from headway_trace.memory import Files, ProcessMemory
from headway_trace.perfdata.areas import MappedBytes

from .library import functions
from .setting import PtSetting
from .streams import ALWAYS, Images, Piece, Pieces, PtStream, Slice

__all__ = ["PtCapture"]


class PtCapture:
    """A file of packets with its one stream."""

    isa = X86
    left_out = ""
    clock = "the time stamp counter"

    def __init__(self, path: str, images: Iterable[str] = (), setting: PtSetting | None = None) -> None:
        """Open the file. Raises HeadwayError if it cannot be read, or if libipt is missing."""
        functions()
        self.path = path
        with open_file(path, "a file of Intel PT packets") as stream:
            size = stream.seek(0, 2)
            if not size:
                raise HeadwayError(f"{path!a} is empty: there is no trace in it")
            mapped = MappedBytes(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), 0, size)
        memory = ProcessMemory(Files())
        for image in images:
            memory.add_file(image)
        whole = Slice(0, ALWAYS, Pieces(size, lambda: [Piece.of(0, mapped)], []), [(0, memory)])
        self.streams = {0: PtStream(0, "0x0", setting or PtSetting(), [whole], Images())}

    @property
    def words(self) -> str:
        """From when to when there is trace."""
        ticks = [tick for piece in self.streams[0]._slices[0].pieces.all for tick in piece.ticks if tick]
        return f"its PSBs are from tick {ticks[0]} to {ticks[-1]}" if ticks else "it has no times"

    def run_starts(self) -> dict[int, list[int]]:
        """Return tid -> when the thread got a processor: the file does not have that."""
        return {}

    def chosen(self, ids: Iterable[int]) -> list[PtStream]:
        """Return the streams with these IDs, or all if there are none. Raises SelectionError for an unknown ID."""
        for number in ids:
            if number not in self.streams:
                raise SelectionError(f"there is no stream {number:#x} in {self.path!a}: there is only 0x0")
        return list(self.streams.values())
