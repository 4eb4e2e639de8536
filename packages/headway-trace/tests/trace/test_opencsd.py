"""Captures of the OpenCSD project, decoded as Arm DS-5 or OpenCSD's own decoder decodes them."""

from __future__ import annotations

import csv
import re

import pytest

from headway.errors import HeadwayError
from headway_trace.records import Instruction

from .opencsd import (
    FOLDER,
    OTHERWISE,
    ROOT,
    SNAPSHOTS,
    UNCERTAIN,
    UnlistedError,
    compare,
    decoded,
    read_capture,
    reason,
)

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(not FOLDER, reason="HEADWAY_OPENCSD does not name a folder with OpenCSD's snapshots"),
]


def listing(file: str) -> list[list[str]]:
    """The rows of a listing of DS-5."""
    with (ROOT / "snapshots" / file).open(encoding="utf-8", errors="replace") as lines:
        return [[*row, *[""] * 8] for row in csv.reader(lines, delimiter="\t") if row]


@pytest.mark.parametrize("snapshot", SNAPSHOTS)
def test_every_snapshot_is_decoded_or_named_by_its_protocols(snapshot: str) -> None:
    try:
        streams = read_capture(snapshot)
    except HeadwayError as error:
        if not re.search(r"\((STM|ITM) is not decoded\)", str(error)):
            raise
        return
    for stream in streams.values():
        stream.check()


@pytest.mark.parametrize("snapshot", SNAPSHOTS)
def test_what_opencsd_decodes_is_decoded(snapshot: str) -> None:
    """Where OpenCSD decodes more than is certain, all that headway decodes is among it."""
    try:
        streams = compare(snapshot)
    except HeadwayError:
        pytest.skip("its protocols are not decoded")
    except UnlistedError as error:
        pytest.skip(str(error))
    assert reason(snapshot, streams) == {**UNCERTAIN, **OTHERWISE}.get(snapshot, "")
    if snapshot == "snapshots-ete/infrastructure":
        return
    assert all(one.common >= min(one.instructions, one.reference) for one in streams)
    assert all(one.same_packets for one in streams)


@pytest.mark.parametrize("snapshot", sorted(UNCERTAIN))
def test_what_is_not_certain_is_decoded_and_marked_when_that_is_asked_for(snapshot: str) -> None:
    if not (ROOT / snapshot).is_dir():
        pytest.skip("the snapshot is not there")
    try:
        streams = compare(snapshot, assumes=True)
    except UnlistedError as error:
        pytest.skip(str(error))
    assert not reason(snapshot, streams)
    exact = read_capture(snapshot)
    for one in streams:
        marked = [record for record in one.stream.records() if isinstance(record, Instruction)]
        assert [record.address for record in marked if not record.assumed] == decoded(exact[one.stream.id])


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
