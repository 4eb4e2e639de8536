"""How the streams of several trace sources share the bytes of a file.

A trace buffer (ETB, ETF, ETR) has frames of 16 bytes one after the other; a trace port (TPIU) sends synchronisation
packets between frames and within them, and a DSTREAM unit stores what it receives in blocks. A trace port whose
formatter is off, like SWO, sends the bytes of one source; probes of Orbuculum send messages (`orbflow`). The beginning
of a file may be missing, so frames may begin at any byte.

Where frames begin is found by what the streams then are: in frames that are taken apart at a wrong byte there is hardly
a synchronisation of any protocol left.

Source: ARM IHI 0029E, "CoreSight Architecture Specification", chapter D4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headway_trace._coresight import Probe
from headway_trace.orbflow import Orbflow
from headway_trace.snapshot import Style

__all__ = ["Framing", "framings", "streams_of"]

_FRAME = 16
_FULL = b"\xff\xff\xff\x7f"
"""A full synchronisation packet of a trace port."""
_BLOCK = 512
_MESSAGES = 4
"""Messages with a right sum with which a file is one of Orbflow: one in 256 frames of others has one by chance."""
_ALIGNMENT = bytes(5) + b"\x80"
"""What every synchronisation of ETMv3, PTM, ETMv4 and ITM ends with."""
_IDS = range(1, 0x70)
"""Trace IDs that a source may have."""
_TRIED = 3
"""How many of the 16 places at which frames may begin are looked at closely."""


@dataclass(frozen=True, slots=True)
class Framing:
    """How a file is to be taken apart.

    ``skip``: the byte with which the first frame begins; ``starts``: those at which frames begin anew after a loss.
    """

    style: Style
    skip: int = 0
    starts: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """What the file is taken for."""
        if self.style is Style.RAW:
            return "the bytes of one source"
        if self.style is Style.PROBE:
            return "frames of a trace port in blocks of a DSTREAM unit"
        if self.style is Style.ORBFLOW:
            return "messages of Orbflow"
        what = "frames of a trace buffer" if self.style is Style.FRAMES else "frames with synchronisation packets"
        return f"{what} from byte {self.skip} on" if self.skip else what

    def reader(self) -> Probe | Orbflow:
        """Return what takes frames apart."""
        if self.style is Style.ORBFLOW:
            return Orbflow()
        return Probe() if self.style is Style.PROBE else Probe(block=0, skip=self.skip, starts=self.starts)


def framings(data: bytes) -> list[Framing]:
    """Return what the beginning of a file may be, the likelier first."""
    orbflow = Orbflow()
    orbflow.feed(data)
    if orbflow.good >= _MESSAGES and orbflow.good > orbflow.bad:
        return [Framing(Style.ORBFLOW)]
    found = []
    for skip in range(_FRAME):
        probe = Probe(block=0, skip=skip)
        streams = _own(data, probe)
        style = Style.PORT if probe.syncs or probe.halves else Style.FRAMES
        found.append((sum(map(_alignments, streams.values())), -len(streams), -skip, style))
    found.sort(key=lambda one: one[:3], reverse=True)
    best = [Framing(style, -skip) for _, _, skip, style in found[:_TRIED]]
    if len(data) >= _BLOCK and _FULL in data:
        best.append(Framing(Style.PROBE))
    whole = [Framing(Style.RAW)]
    return whole + best if _alignments(data) > found[0][0] else best + whole


def streams_of(data: bytes, framing: Framing) -> Mapping[int, bytes]:
    """Return the bytes of each trace ID that a source may have; of bare bytes those of ID 0."""
    return {0: data} if framing.style is Style.RAW else _own(data, framing.reader())


def _own(data: bytes, reader: Probe | Orbflow) -> dict[int, bytes]:
    pieces: dict[int, list[bytes]] = {}
    for stream, piece, _ in reader.feed(data):
        if stream in _IDS:
            pieces.setdefault(stream, []).append(piece)
    return {stream: b"".join(found) for stream, found in pieces.items()}


def _alignments(data: bytes) -> int:
    return data.count(_ALIGNMENT)
