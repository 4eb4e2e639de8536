"""The export for Perfetto: slices nest, cover what is known, and are named after functions."""

from __future__ import annotations

import io
from collections import defaultdict
from pathlib import Path

import pytest
from tests.machine.examples import EXAMPLES

from headway.machine.config import Config, Trace
from headway.machine.image import Image
from headway.machine.machine import Machine
from headway.trace.threads.container import Recording
from headway.trace.threads.perfetto import Edge, edges, write
from headway.trace.threads.reading import Program, functions_of
from headway.trace.threads.reading import Trace as Traced


@pytest.fixture(scope="module", params=["strict", "skip"])
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    path: Path = tmp_path_factory.mktemp("perfetto") / "mutex.hwt"
    with path.open("wb") as stream:
        Machine(Config.of(issue=request.param, trace=Trace(enabled=True))).run(EXAMPLES / "mutex.elf", trace=stream)
    image = Image.load(EXAMPLES / "mutex.elf")
    segments = tuple((segment.address, segment.data) for segment in image.segments)
    return Traced(Recording(path), Program(segments, functions_of(image.functions)))


def test_slices_nest_and_never_go_back(trace: Traced) -> None:
    open_: dict[int, list[Edge]] = defaultdict(list)
    last: dict[int, int] = defaultdict(int)
    for edge in edges(trace, 0):
        assert edge.cycle >= last[edge.thread] or edge.category == "gap"
        if edge.name is None:
            begun = open_[edge.thread].pop()
            assert edge.cycle > begun.cycle
        else:
            open_[edge.thread].append(edge)
            assert len(open_[edge.thread]) <= 2
            last[edge.thread] = edge.cycle
    assert not any(open_.values())


def test_every_known_cycle_is_in_one_outer_slice(trace: Traced) -> None:
    covered: dict[int, int] = defaultdict(int)
    depth: dict[int, int] = defaultdict(int)
    begun: dict[int, int] = {}
    for edge in edges(trace, 0):
        if edge.name is not None:
            if not depth[edge.thread]:
                begun[edge.thread] = edge.cycle
            depth[edge.thread] += 1
        else:
            depth[edge.thread] -= 1
            if not depth[edge.thread]:
                covered[edge.thread] += edge.cycle - begun[edge.thread]
    _, clock = trace.index(0)
    for thread in range(trace.shape.threads):
        assert clock.end - trace.shape.threads <= covered[thread] <= clock.end


def test_what_is_written_is_a_perfetto_trace(trace: Traced) -> None:
    found = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    stream = io.BytesIO()
    count = write(trace, [0], stream)
    read = found.Trace()
    read.ParseFromString(stream.getvalue())
    begins = [packet.track_event for packet in read.packet if packet.track_event.type == 1]
    assert len(begins) == count
    names = {event.name for event in begins}
    assert {"main", "idle.c1"} <= names
    tracks = [packet.track_descriptor.name for packet in read.packet if packet.HasField("track_descriptor")]
    assert tracks == ["core 0", *(f"hart {hart}" for hart in range(6))]
