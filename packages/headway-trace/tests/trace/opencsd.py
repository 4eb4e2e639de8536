"""Snapshots of the OpenCSD project, decoded by headway and by OpenCSD's own decoder ``trc_pkt_lister``.

``HEADWAY_OPENCSD`` names the folder ``decoder/tests`` of OpenCSD's sources (docs/trace-checks.md says how it is used).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import dropwhile
from pathlib import Path

from headway.errors import HeadwayError
from headway_trace.decode import Capture, Stream
from headway_trace.packets import PacketKind

from .common import in_common

FOLDER = os.environ.get("HEADWAY_OPENCSD")
LISTER = shutil.which("trc_pkt_lister")
ROOT = Path(FOLDER or ".").absolute()
SNAPSHOTS = sorted(path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("snapshots*/*/snapshot.ini"))
UNCERTAIN = {
    "snapshots/juno_r1_1": "the dump is not the program that ran: in OpenCSD's listing RET and BL are not executed",
    "snapshots/juno-ret-stck": "after code that is in no dump OpenCSD returns to a call that has returned",
    "snapshots-ete/ete_spec_2": "an exception has no address; OpenCSD shows one instruction where it would return",
}
"""The snapshots of which OpenCSD shows more than is certain, as headway does with ``--assume``, and why."""
OTHERWISE = {
    "snapshots-ete/ete_ip": "an indirect branch has no address; OpenCSD shows 9,131 instructions in a row behind it",
    "snapshots-ete/infrastructure": "juno_r1_1 declared to be of an ETE, which cannot send a packet that is there",
}
"""The other snapshots that are decoded in another way, and why."""
_NEWER = {"armv8_1m_branches", "feat_cmpbr", "maxspec0_commopt1", "maxspec78_commopt0", "texit-poe2"}
_RANGE = re.compile(r"ID:([0-9a-f]+); .*INSTR_RANGE\(exec range=0x([0-9a-f]+):\[0x([0-9a-f]+)\]")
_ALIGNMENTS = ("I_ASYNC", "ASYNC", "A_SYNC")
_PROTOCOL = re.compile(r"\((\w+) is not decoded\)")
_PACKET = re.compile(r"Idx:\d+; ID:([0-9a-f]+); \[([0-9a-fx ]+)\];\s+(\w+)")


class UnlistedError(Exception):
    """OpenCSD's decoder is missing or too old."""


def decoded(stream: Stream) -> list[int]:
    """The address of every instruction of a stream."""
    return [address for block in stream.blocks() for address, _, _ in block.instructions()]


def read_capture(name: str, *, assumes: bool = False) -> dict[int, Stream]:
    """The streams of a snapshot."""
    return Capture.open(str(ROOT / name), assumes=assumes).streams


@cache
def _listing(snapshot: str, buffer: str) -> str:
    if LISTER is None:
        raise UnlistedError("trc_pkt_lister is not installed")
    dstream = ["-dstream_format"] if "dstream" in (ROOT / snapshot / "trace.ini").read_text() else []
    command = [LISTER, "-ss_dir", str(ROOT / snapshot), "-src_name", buffer, "-decode", "-logstdout", *dstream]
    with tempfile.TemporaryDirectory() as folder:  # it writes a log where it runs
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=120, errors="replace", cwd=folder
        )
    version = re.search(r"Library Version : (\d+)\.(\d+)", done.stdout)
    found = (int(version[1]), int(version[2])) if version else (0, 0)
    if found < (
        (1, 8) if Path(snapshot).name in _NEWER else (1, 5) if snapshot.startswith("snapshots-ete") else (0, 0)
    ):
        raise UnlistedError("trc_pkt_lister is too old for this snapshot")
    return done.stdout


def listed(snapshot: str, buffer: str) -> dict[int, list[tuple[int, int]]]:
    """The ranges of addresses, without their ends, that OpenCSD decodes of each trace ID in a buffer."""
    found: dict[int, list[tuple[int, int]]] = {}
    for match in _RANGE.finditer(_listing(snapshot, buffer)):
        found.setdefault(int(match[1], 16), []).append((int(match[2], 16), int(match[3], 16)))
    return found


def listed_packets(stream: Stream, snapshot: str) -> list[int]:
    """The sizes of the packets that OpenCSD reads of a stream, from the first A-sync to the last that is whole."""
    number = stream.source.stream if stream.source.buffer.formatted else None
    found = [
        (match[3], len(match[2].split()))
        for match in _PACKET.finditer(_listing(snapshot, stream.source.buffer.name))
        if number is None or int(match[1], 16) == number
    ]
    found = list(dropwhile(lambda packet: packet[0] not in _ALIGNMENTS, found))
    return [size for name, size in found if "INCOMPLETE" not in name]


def packets(stream: Stream) -> list[int]:
    """The sizes of the packets that headway reads, from the first A-sync to the last that is whole."""
    found = [packet for block in stream.packets() for packet in block]
    found = list(dropwhile(lambda packet: packet.kind != PacketKind.ALIGNMENT, found))
    return [packet.size for packet in found if packet.kind != PacketKind.INCOMPLETE]


def spelled_out(stream: Stream, ranges: list[tuple[int, int]]) -> Iterator[int]:
    """The addresses of the instructions in the ranges, with their sizes as headway has them."""
    sizes = {address: size for block in stream.blocks() for address, size, _ in block.instructions()}
    for start, end in ranges:
        while start < end:
            yield start
            start += sizes.get(start, 4)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What headway and OpenCSD decode of one stream: instructions, and packets from the first A-sync on."""

    stream: Stream
    instructions: int
    reference: int
    common: int
    equal: bool
    """Whether the instructions are the same; those before the first A-sync are not compared."""
    same_packets: bool


def compare(snapshot: str, *, assumes: bool = False) -> list[Comparison]:
    """Compare the streams of a snapshot, decoded with ``--assume`` or without.

    Raises HeadwayError if headway decodes none of them, and UnlistedError if OpenCSD's decoder is missing or too old.
    """
    found = []
    for stream in read_capture(snapshot, assumes=assumes).values():
        ranges = listed(snapshot, stream.source.buffer.name).get(stream.source.stream or 0, [])
        ours = decoded(stream) if stream.image.spans else []
        theirs = list(spelled_out(stream, ranges)) if stream.image.spans else []
        skipped = len(ours) - len(theirs) if stream.begins else 0
        found.append(
            Comparison(
                stream,
                len(ours),
                len(theirs),
                in_common(ours, theirs),
                skipped >= 0 and ours[skipped:] == theirs,
                packets(stream) == listed_packets(stream, snapshot),
            )
        )
    return found


def reason(snapshot: str, streams: list[Comparison] | HeadwayError) -> str:
    """Why a snapshot is not decoded as OpenCSD decodes it; empty if it is."""
    if isinstance(streams, HeadwayError):
        left_out = sorted(set(_PROTOCOL.findall(str(streams))))
        return f"only {', '.join(left_out)}, which is named" if left_out else str(streams)
    if all(one.equal and (one.reference or one.same_packets) for one in streams):
        return ""
    return {**UNCERTAIN, **OTHERWISE}.get(snapshot, "not known")
