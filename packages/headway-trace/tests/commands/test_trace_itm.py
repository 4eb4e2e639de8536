"""headway trace on what an ITM tells: text, exceptions, samples and values, beside instructions of the same capture."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from tests import running
from tests.trace.encoding import frames
from tests.trace.itm import encoding as itm
from tests.trace.programs import BASE
from tests.trace.snapshots import STREAM, write

from headway_trace.decode import Capture
from headway_trace.edges import Edges
from headway_trace.itm.slices import write as write_slices
from headway_trace.itm.stream import ItmStream
from headway_trace.raw.opening import open_raw
from headway_trace.raw.told import Told

SNAPSHOT_ITM = "[device]\nname=STM\nclass=trace_source\ntype=ITM\n[regs]\nITM_CTRL(0x3A0)=0x00130006\n"
_ROUND = 1000
"""Ticks of a round of the loop."""


def told(rounds: int = 10) -> bytes:
    """What a main loop tells that prints, and is interrupted; a tick of the global clock is ten local ones."""
    out = bytearray(itm.SYNC)
    for number in range(rounds):
        out += b"".join(itm.source(0, bytes([byte])) for byte in f"round {number}\n".encode()) + itm.local(100)
        out += itm.exception(15, 1) + itm.local(10) + itm.exception(16, 1) + itm.local(20)
        out += itm.exception(16, 2) + itm.exception(15, 3) + itm.local(5) + itm.exception(15, 2) + itm.local(30)
        out += itm.exception(0, 3) + itm.sample(BASE + 4) + itm.local(35)
        out += itm.data_value(1, bytes([number]), write=True) + itm.local(800, 1)
        out += itm.global_low(1000 + 100 * number, wrap=not number) + (itm.global_high(1000) if not number else b"")
    return bytes(out)


def headway(*arguments: str | Path) -> running.Done:
    return running.headway("trace", *arguments)


def rows(*arguments: str | Path) -> list[dict[str, str]]:
    done = headway(*arguments, "--format", "csv")
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout)))


@pytest.fixture
def swo(tmp_path: Path) -> Path:
    """What came off a serial wire."""
    (tmp_path / "swo.bin").write_bytes(told())
    (tmp_path / "map").write_text(f"{BASE:08x} T main\n")
    return tmp_path / "swo.bin"


def test_text_is_printed_with_its_times(swo: Path) -> None:
    found = rows("text", swo)
    assert [row["text"] for row in found] == [f"round {number}" for number in range(10)]
    assert [int(row["cycle"]) for row in found] == [100 + _ROUND * number for number in range(10)]
    assert {row["uncertainty"] for row in found} == {"0"}
    assert rows("text", swo, "--port", "5") == []


def test_what_it_told_is_counted_by_port_exception_and_function(swo: Path) -> None:
    found = {(row["what"], row["unit"]): row["value"] for row in rows("stats", swo, "--image", swo.parent / "map")}
    assert found["stimulus.0", "bytes"] == "80"
    assert found["exception.SysTick", "entries"] == "10"
    assert found["exception.SysTick", "ticks"] == str(10 * (20 + 30))
    assert found["exception.IRQ0", "ticks"] == str(10 * 5)
    assert found["sample.main", "samples"] == "10"
    assert found["data.1.write", "accesses"] == "10"


def test_times_of_handlers_are_bounds_or_unknown_where_time_was_lost(tmp_path: Path) -> None:
    entered, left = itm.exception(15, 1), itm.exception(15, 2) + itm.exception(0, 3)
    timed = entered + itm.local(5) + left + itm.local(7)
    for data, unit, value in (
        (timed, "ticks", "7"),
        (timed + entered + itm.OVERFLOW + itm.local(5), "ticks, at least", "7"),
        ((entered + left) * 20, "ticks", ""),
    ):
        (tmp_path / "swo.bin").write_bytes(itm.SYNC + data + itm.sample(BASE) * 8)
        found = {(row["what"], row["unit"]): row["value"] for row in rows("stats", tmp_path / "swo.bin")}
        assert found["exception.SysTick", unit] == value


def test_every_event_is_a_row_with_the_bounds_of_its_time(swo: Path) -> None:
    found = [row for row in rows("decode", swo) if row["state"] != "stimulus"]
    assert [(row["state"], row["symbol"], row["cycle"], row["uncertainty"]) for row in found[:8]] == [
        ("exception.enter", "SysTick", "110", "0"),
        ("exception.enter", "IRQ0", "130", "0"),
        ("exception.exit", "IRQ0", "135", "0"),
        ("exception.return", "SysTick", "135", "0"),
        ("exception.exit", "SysTick", "165", "0"),
        ("exception.return", "Thread", "200", "0"),
        ("sample", "", "200", "0"),
        ("data.write", "", "1000", "800"),
    ]
    assert (found[7]["source"], found[7]["value"]) == ("1", "0x00")
    assert len(rows("decode", swo, "--from", "1500", "--to", "1600")) == len(rows("decode", swo)) // 10


def test_at_a_moment_the_exception_and_the_last_sample_are_known(swo: Path) -> None:
    (row,) = rows("at", swo, "--cycle", "3140", "--image", swo.parent / "map")
    assert (row["state"], row["symbol"], row["cycle"]) == ("in SysTick", "main", "3135")
    (row,) = rows("at", swo, "--time", "1450")
    assert (row["state"], row["cycle"]) == ("in Thread", "5200")


def test_instructions_and_events_of_one_capture_share_a_time(tmp_path: Path) -> None:
    folder = write(tmp_path, frames([(0x10, STREAM), (0x13, told())]), stm=SNAPSHOT_ITM)
    fits = {row["stream"]: row for row in rows("align", folder)}
    assert float(fits["0x10"]["cycles_per_tick"]) == pytest.approx(10, rel=0.01)
    assert float(fits["0x13"]["cycles_per_tick"]) == pytest.approx(10, rel=0.01)
    found = {row["stream"]: row for row in rows("at", folder, "--time", "1050")}
    assert found["0x10"]["address"]
    assert found["0x13"]["state"] == "in Thread"
    placed = [row for row in rows("align", folder, "--instructions") if row["state"] == "sample"]
    assert float(placed[1]["time"]) == pytest.approx(1000 + 20, abs=2)
    assert len({len(row) for row in rows("decode", folder)}) == 1


class _Tracks:
    """What a view gets."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.counts: list[int] = []
        self.open: dict[int, list[str]] = {}
        self.seen: list[tuple[str, int, str]] = []

    def describe(self, track: int, name: str, parent: int | None = None) -> None:
        assert track not in self.names
        self.names[track] = name

    def put(self, edges: Edges) -> None:
        for edge in edges:
            if edge.name is None:
                self.open[edge.track].pop()
                continue
            stack = self.open.setdefault(edge.track, [])
            self.seen.append((self.names[edge.track], edge.time, ">".join([*stack, edge.name])))
            if not edge.instant:
                stack.append(edge.name)

    def counter(self, track: int, name: str, unit: str, parent: int) -> None:
        self.describe(track, name)

    def count(self, track: int, time: int, value: int) -> None:
        self.counts.append(value)


def test_handlers_are_nested_slices_and_lines_are_instants(swo: Path) -> None:
    capture, tracks = Capture(open_raw(str(swo), (), Told()).snapshot), _Tracks()
    assert write_slices([ItmStream(one) for one in capture.instrumentation.values()], tracks, common=False) == []
    seen = [(time, what) for name, time, what in tracks.seen if name.endswith("exceptions")]
    assert seen[:3] == [(110, "SysTick"), (130, "SysTick>IRQ0"), (1110, "SysTick")]
    assert not any(tracks.open.values())
    assert ("stimulus port 0", 100, "round 0") in tracks.seen
    assert [what for name, _, what in tracks.seen if name == "PC samples"] == [f"~{BASE:#010x}"]
    assert tracks.counts == list(range(10))


def test_without_timestamps_events_are_shown_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "swo.bin").write_bytes(itm.SYNC + (itm.exception(15, 1) + itm.exception(15, 2)) * 10)
    capture, tracks = Capture(open_raw(str(tmp_path / "swo.bin"), (), Told()).snapshot), _Tracks()
    (note,) = write_slices([ItmStream(one) for one in capture.instrumentation.values()], tracks, common=False)
    assert "no timestamps" in note
    assert [time for _, time, _ in tracks.seen] == list(range(6, 66, 6))


def test_an_itm_is_exported_as_a_page(swo: Path) -> None:
    done = headway("export", swo, "--to", "html", "-o", swo.parent / "page.html")
    assert done.returncode == 0, done.stderr
    assert (swo.parent / "page.html").read_text().startswith("<!doctype html>")


def test_what_an_itm_does_not_tell_is_said(swo: Path, tmp_path: Path) -> None:
    done = headway("stats", swo, "--functions")
    assert done.returncode == 125
    assert "counts its samples by function" in done.stderr.splitlines()[-1]
    assert "no stream of an ITM" in headway("text", write(tmp_path / "s")).stderr
    (row,) = rows("at", swo, "--cycle", "99999999")
    assert row["state"] == "unknown.outside"
