"""Perfetto traces read back, and whether their slices nest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from headway.trace.perfetto import Edge


@dataclass
class Slice:
    track: int
    name: str
    category: str
    start: int
    end: int
    depth: int
    notes: dict[str, int | str] = field(default_factory=dict)


def check_nesting(edges: Iterable[Edge]) -> int:
    """That every slice ends, within the one around it, and no track goes back. Gives the greatest depth."""
    open_: dict[int, list[Edge]] = defaultdict(list)
    last: dict[int, int] = {}
    deepest = 0
    for edge in edges:
        assert edge.time >= last.get(edge.track, edge.time)
        last[edge.track] = edge.time
        if edge.name is None:
            assert edge.time >= open_[edge.track].pop().time
        else:
            open_[edge.track].append(edge)
            deepest = max(deepest, len(open_[edge.track]))
    assert not any(open_.values())
    return deepest


def read_back(data: bytes) -> tuple[list[Slice], dict[int, str]]:
    """The slices of a Perfetto trace, in order of their ends, and the names of its tracks, as its library reads it."""
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    read = protos.Trace()
    read.ParseFromString(data)
    slices: list[Slice] = []
    tracks: dict[int, str] = {}
    open_: dict[int, list[Slice]] = defaultdict(list)
    for packet in read.packet:
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
            continue
        event = packet.track_event
        nest = open_[event.track_uuid]
        assert event.track_uuid in tracks
        if event.type == protos.TrackEvent.TYPE_SLICE_BEGIN:
            notes = {note.name: getattr(note, note.WhichOneof("value")) for note in event.debug_annotations}
            category = event.categories[0]
            nest.append(Slice(event.track_uuid, event.name, category, packet.timestamp, -1, len(nest), notes))
        else:
            nest[-1].end = packet.timestamp
            slices.append(nest.pop())
    assert not any(open_.values())
    return slices, tracks
