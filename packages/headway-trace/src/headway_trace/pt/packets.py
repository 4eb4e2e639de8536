"""The kinds of Intel PT packets, as libipt numbers them (ppt_*), and the places of PSBs with their times.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 3, 33.4 (packets).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from mmap import mmap
from typing import NamedTuple

__all__ = ["PSB", "PtPacketKind", "SyncPoint", "sync_points"]

PSB = b"\x02\x82" * 8
_WITHIN = 256
"""Bytes after a PSB in which its TSC packet is looked for."""


class PtPacketKind(IntEnum):
    """Kinds of packets, with their titles in statistics."""

    NOISE = 0
    UNKNOWN = 1
    PAD = 2
    PSB = 3
    PSBEND = 4
    FUP = 5
    TIP = 6
    TIP_PGE = 7
    TIP_PGD = 8
    TNT_8 = 9
    TNT_64 = 10
    MODE = 11
    PIP = 12
    VMCS = 13
    CBR = 14
    TSC = 15
    TMA = 16
    MTC = 17
    CYC = 18
    STOP = 19
    OVF = 20
    MNT = 21
    EXSTOP = 22
    MWAIT = 23
    PWRE = 24
    PWRX = 25
    PTW = 26
    NEWER = 63

    @property
    def title(self) -> str:
        """The architecture's name for the kind."""
        if self is PtPacketKind.NOISE:
            return "no packet"
        return self.name.replace("_PG", ".PG").replace("TNT_", "TNT.")


class SyncPoint(NamedTuple):
    """A PSB at ``offset``, and the time stamp counter there; None: it has no TSC packet."""

    offset: int
    tick: int | None


def sync_points(data: mmap, start: int = 0, end: int | None = None) -> Iterator[SyncPoint]:
    """Yield the PSBs between two places of a file, in order; their offsets count from ``start``."""
    end = len(data) if end is None else end
    at = data.find(PSB, start, end)
    while at >= 0:
        after = at + len(PSB)
        yield SyncPoint(at - start, _tick(data[after : min(after + _WITHIN, end)]))
        at = data.find(PSB, after, end)


def _tick(after: bytes) -> int | None:
    """Return the time of the packets between a PSB and its PSBEND."""
    at = 0
    while at < len(after):
        first = after[at]
        if first == 0x19:
            return int.from_bytes(after[at + 1 : at + 8], "little") if at + 8 <= len(after) else None
        if first == 0x02 and at + 1 < len(after):
            size = {0x43: 8, 0x03: 4, 0x73: 7, 0xC8: 7, 0xC3: 11, 0x83: 2, 0xF3: 8}.get(after[at + 1])
            if size is None:
                return None
        elif first & 0x1F == 0x1D:  # FUP
            size = {0: 1, 1: 3, 2: 5, 3: 7, 4: 7, 6: 9}.get(first >> 5)
            if size is None:
                return None
        elif first in (0x99, 0x59):
            size = 2
        elif first == 0:
            size = 1
        elif first & 3 == 3:  # CYC
            size = 1
            if first & 4:
                while at + size < len(after) and after[at + size] & 1:
                    size += 1
                size += 1
        else:
            return None
        at += size
    return None
