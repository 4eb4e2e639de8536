"""A file of Intel PT packets and nothing else, as libipt's tools and debuggers write it.

It does not say which processor wrote it, so MTC and CYC packets, which need the frequencies of the processor, give no
time; TSC packets do. Its program is what ``--image`` names.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable

from headway.errors import HeadwayError, SelectionError
from headway.files import open_file
from headway.trace.memory import Files, ProcessMemory

from .library import functions
from .packets import PSB
from .setting import PtSetting
from .streams import PtSource, PtStream

__all__ = ["PtCapture", "recognised"]

_BEGINNING = 1 << 16
"""Bytes at the beginning of a file among which there is a PSB: a trace unit writes one every 64 KiB or more often."""


def recognised(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is one of Intel PT packets."""
    return PSB in head[:_BEGINNING]


class PtCapture:
    """A file of packets with its one stream."""

    def __init__(self, path: str, images: Iterable[str] = (), setting: PtSetting | None = None) -> None:
        """Open the file. Raises HeadwayError if it cannot be read, or if libipt is missing."""
        functions()
        self.path, self.left_out = path, ""
        with open_file(path, "a file of Intel PT packets") as stream:
            if not stream.seek(0, 2):
                raise HeadwayError(f"{path!a} is empty: there is no trace in it")
            data = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
        memory = ProcessMemory(Files())
        for image in images:
            memory.add_file(image)
        only = PtStream(data, setting or PtSetting(), memory, PtSource("pt"))
        self.streams = {only.id: only}

    def chosen(self, ids: Iterable[int]) -> list[PtStream]:
        """Return the streams with these IDs, or all if there are none. Raises SelectionError for an unknown ID."""
        for number in ids:
            if number not in self.streams:
                raise SelectionError(f"there is no stream {number:#x} in {self.path!a}: there is only 0x0")
        return list(self.streams.values())
