"""The export for Perfetto: slices nest, cover what is known, and are named after functions."""

from __future__ import annotations

import io
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.effort import FEW
from tests.machine.examples import EXAMPLES
from tests.perfetto import read_back
from tests.trace.slices import check_nesting

from headway.errors import HeadwayError
from headway.views.perfetto.tracks import File
from headway_machine.config import Config, TraceUnitConfig
from headway_machine.image import MachineImage
from headway_machine.machine import Machine
from headway_trace.edges import Edge
from headway_trace.threads.container import TraceFile
from headway_trace.threads.reading import Trace as Traced
from headway_trace.threads.reading import TracedProgram, functions_of
from headway_trace.threads.slices import track_of, walk, write


@pytest.fixture(scope="module", params=["skip"] if FEW else ["strict", "skip"])
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    path: Path = tmp_path_factory.mktemp("perfetto") / "mutex.hwt"
    with path.open("wb") as stream:
        Machine(Config.of(issue=request.param, trace=TraceUnitConfig(enabled=True))).run(
            EXAMPLES / "mutex.elf", trace=stream
        )
    return Traced(TraceFile(path), program("mutex"))


def program(name: str) -> TracedProgram:
    image = MachineImage.load(EXAMPLES / f"{name}.elf")
    segments = tuple((segment.address, segment.data) for segment in image.segments)
    return TracedProgram(segments, functions_of(image.functions))


def edges(trace: Traced) -> list[Edge]:
    found: list[Edge] = []
    walk(trace, 0, found.extend)
    return found


@pytest.fixture(scope="module")
def walked(trace: Traced) -> list[Edge]:
    """All edges of the trace, for tests that only read them."""
    return edges(trace)


def test_slices_nest_and_never_go_back(walked: list[Edge]) -> None:
    assert check_nesting(walked) == 2


def test_every_known_cycle_is_in_one_outer_slice(trace: Traced, walked: list[Edge]) -> None:
    covered: dict[int, int] = defaultdict(int)
    open_: dict[int, list[int]] = defaultdict(list)
    for edge in walked:
        if edge.name is not None:
            open_[edge.track].append(edge.time)
        else:
            begun = open_[edge.track].pop()
            covered[edge.track] += 0 if open_[edge.track] else edge.time - begun
    end = trace.clock(0).end
    for thread in range(trace.shape.threads):
        assert end - trace.shape.threads <= covered[track_of(0, thread)] <= end


def test_a_slice_is_where_its_name_says(trace: Traced, walked: list[Edge]) -> None:
    """In the middle of each function's first slice, the index of the trace says the same."""
    assert trace.program is not None
    begun: dict[int, Edge] = {}
    seen: set[str] = set()
    for edge in walked:
        if edge.category == "function":
            begun[edge.track] = edge
        elif edge.name is None and edge.track in begun:
            first = begun.pop(edge.track)
            if first.name is None or first.name in seen:
                continue
            seen.add(first.name)
            moment = trace.at((first.time + edge.time) // 2)[edge.track - track_of(0, 0)]
            assert moment.address is not None
            assert trace.program.symbol(moment.address) == ("" if first.name.startswith("0x") else first.name)
            assert moment.id == first.thread or first.thread is None
    assert "main" in seen


@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_slices_nest_whatever_happened_to_the_bytes(tmp_path: Path, data: st.DataObject) -> None:
    damaged = bytearray((EXAMPLES / "sleepers.hwt").read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(300, len(damaged) - 10))
        damaged[at] ^= data.draw(st.integers(1, 255))
    (tmp_path / "a.hwt").write_bytes(damaged)
    try:
        recording = TraceFile(tmp_path / "a.hwt")
    except HeadwayError:  # the damage is in the file's own structure
        return
    assert check_nesting(edges(Traced(recording, program("sleepers")))) <= 2


@pytest.mark.exhaustive  # only make test-all has Perfetto's reader
def test_what_is_written_is_a_perfetto_trace(trace: Traced) -> None:
    stream = io.BytesIO()
    file = File(stream)
    write(trace, [0], file)
    file.close()
    slices, tracks = read_back(stream.getvalue())
    assert len(slices) == file.slices
    assert {"main", "idle.c1"} <= {one.name for one in slices}
    assert list(tracks.values()) == ["core 0", *(f"hart {hart}" for hart in range(6))]
    assert {one.category for one in slices} >= {"function", "idle", "stall", "trap"}
