"""Captures of the OpenCSD project, decoded as Arm DS-5 or OpenCSD's own decoder decodes them.

``HEADWAY_OPENCSD`` names the folder ``decoder/tests`` of OpenCSD's sources (docs/trace.md says how it is used).
OpenCSD's decoder is the program ``trc_pkt_lister``.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.trace.common import in_common

from headway.errors import HeadwayError
from headway.trace.decode import Capture, Stream
from headway.trace.records import Instruction

FOLDER = os.environ.get("HEADWAY_OPENCSD")
LISTER = shutil.which("trc_pkt_lister")
pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(not FOLDER, reason="HEADWAY_OPENCSD does not name a folder with OpenCSD's snapshots"),
]
ROOT = Path(FOLDER or ".").absolute()
SNAPSHOTS = sorted(path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("snapshots*/*/snapshot.ini"))
OTHERWISE = {
    "snapshots/juno_r1_1": "its dump is not the program that ran: branches without a condition failed it",
    "snapshots/juno-ret-stck": "returns in code that is in no dump make the return stack unknown",
    "snapshots-ete/ete_ip": "an indirect branch has no address; OpenCSD goes on behind it, up to the next exception",
    "snapshots-ete/ete_spec_2": "an atom comes after an exception without an address; OpenCSD goes on where it returns",
}
"""The captures of which OpenCSD decodes more than is certain, and why."""
MISDECLARED = "snapshots-ete/infrastructure"
"""A capture of an ETMv4, declared to be of an ETE: OpenCSD loses its place at packets that an ETE cannot send."""
_RANGE = re.compile(r"ID:([0-9a-f]+);.*INSTR_RANGE\(exec range=0x([0-9a-f]+):\[0x([0-9a-f]+)\]")


def decoded(stream: Stream) -> list[int]:
    return [address for block in stream.blocks() for address, _, _ in block.instructions()]


def read_capture(name: str) -> dict[int, Stream]:
    return Capture.open(str(ROOT / name)).streams


@cache
def listed(snapshot: str, buffer: str) -> dict[int, list[tuple[int, int]]]:
    """The ranges of addresses, without their ends, that OpenCSD decodes of each trace ID in a buffer."""
    if LISTER is None:
        pytest.skip("trc_pkt_lister is not installed")
    dstream = ["-dstream_format"] if "dstream" in (ROOT / snapshot / "trace.ini").read_text() else []
    command = [LISTER, "-ss_dir", str(ROOT / snapshot), "-src_name", buffer, "-decode_only", "-logstdout", *dstream]
    with tempfile.TemporaryDirectory() as folder:  # it writes a log where it runs
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=120, errors="replace", cwd=folder
        )
    version = re.search(r"Library Version : (\d+)\.(\d+)", done.stdout)
    if snapshot.startswith("snapshots-ete/") and (not version or (int(version[1]), int(version[2])) < (1, 5)):
        pytest.skip("trc_pkt_lister is older than 1.5, and does not know all of ETE")
    found: dict[int, list[tuple[int, int]]] = {}
    for match in _RANGE.finditer(done.stdout):
        found.setdefault(int(match[1], 16), []).append((int(match[2], 16), int(match[3], 16)))
    return found


def spelled_out(stream: Stream, ranges: list[tuple[int, int]]) -> Iterator[int]:
    """The addresses of the instructions in the ranges, with their sizes as headway has them."""
    sizes = {address: size for block in stream.blocks() for address, size, _ in block.instructions()}
    for start, end in ranges:
        while start < end:
            yield start
            start += sizes.get(start, 4)


def listing(file: str) -> list[list[str]]:
    """The rows of a listing of DS-5."""
    with (ROOT / "snapshots" / file).open(encoding="utf-8", errors="replace") as lines:
        return [[*row, *[""] * 8] for row in csv.reader(lines, delimiter="\t") if row]


@pytest.mark.parametrize("snapshot", SNAPSHOTS)
def test_every_snapshot_is_decoded_or_named_by_its_protocols(snapshot: str) -> None:
    try:
        streams = read_capture(snapshot)
    except HeadwayError as error:
        if "(STM is not decoded)" not in str(error):
            raise
        return
    for stream in streams.values():
        stream.check()


@pytest.mark.parametrize("snapshot", SNAPSHOTS)
def test_what_opencsd_decodes_is_decoded(snapshot: str) -> None:
    """Where a stream of ETMv3 or PTM begins within the buffer, headway decodes more: from its first I-sync on."""
    try:
        streams = read_capture(snapshot)
    except HeadwayError:
        pytest.skip("its protocols are not decoded")
    if snapshot == MISDECLARED:
        pytest.skip("OpenCSD loses its place in it")
    for stream in streams.values():
        if not stream.image.spans or stream.source.stream is None:
            continue
        ranges = listed(snapshot, stream.source.buffer.name).get(stream.source.stream, [])
        found, wanted = decoded(stream), list(spelled_out(stream, ranges))
        if snapshot in OTHERWISE:
            assert in_common(found, wanted) >= 0.98 * len(found)
        else:
            assert wanted == (found[-len(wanted) :] if stream.begins else found)


def test_a_cortex_a15_is_decoded_as_ds_5_does() -> None:
    """With cycles, and with the branches whose condition failed; DS-5 lists some instructions outside the dump."""
    stream = read_capture("snapshots/TC2")[0x13]
    start, end = stream.image.spans[0]
    rows = [row for row in listing("TC2/ds5-dumps/ptmv1_0x13.txt") if row[0] == "Instruction" and "0x" in row[2]]
    wanted = [(int(row[2][4:], 16), int(row[4] or 0), row[7] == "fail") for row in rows]
    wanted = [one for one in wanted if start <= one[0] < end]
    found = [
        (one.address, one.cycles, one.executed is False) for one in stream.records() if isinstance(one, Instruction)
    ]
    assert len(wanted) == 9548
    assert found[-len(wanted) :] == wanted


def test_a_return_stack_is_followed_as_ds_5_does() -> None:
    rows = listing("tc2-ptm-rstk-t32/ds-5_trace_dump/a15_rs.txt")
    wanted = [int(row[0][4:], 16) for row in rows if re.fullmatch(r"[0-9A-F]{4,8}", row[1])]
    stream = read_capture("snapshots/tc2-ptm-rstk-t32")[2]
    assert len(wanted) == 10_000
    assert decoded(stream)[: len(wanted)] == wanted
