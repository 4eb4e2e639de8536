"""Perfetto traces read back, by the classes of Perfetto's own schema and the rules of its trace processor.

Packets of one sequence; events in the order of their times, and where these are the same in that of the file; a slice's
end ends the innermost one of its track; an instant is a slice without a length; a flow goes from the slice that has its
id to the one that terminates it, which must come after it in that order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest


@dataclass
class Slice:
    track: int
    name: str
    category: str
    start: int
    end: int
    depth: int
    notes: dict[str, int | str] = field(default_factory=dict)


@dataclass
class Track:
    uuid: int
    name: str
    parent: int = 0
    pid: int = 0
    tid: int = 0
    unit: str = ""


@dataclass
class Flow:
    source: Slice
    target: Slice


@dataclass
class Read:
    """What a trace says."""

    slices: list[Slice] = field(default_factory=list)
    """In the order of their ends."""
    instants: list[Slice] = field(default_factory=list)
    tracks: dict[int, Track] = field(default_factory=dict)
    flows: list[Flow] = field(default_factory=list)
    unfinished: int = 0
    """Flows that do not end."""
    counters: dict[int, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))
    clocks: list[dict[int, int]] = field(default_factory=list)
    clock: int = 0
    """The clock of all times; 0: the trace's own."""
    packets: int = 0

    def on(self, track: Track) -> list[Slice]:
        return [one for one in self.slices if one.track == track.uuid]


def read(data: bytes) -> Read:
    protos = pytest.importorskip(
        "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="perfetto is not installed"
    )
    trace = protos.Trace()
    trace.ParseFromString(data)
    trace.DiscardUnknownFields()
    assert trace.ByteSize() == len(data), "it has fields that the schema does not know, or is longer than it needs be"
    found = Read(packets=len(trace.packet))
    words: dict[str, dict[int, str]] = defaultdict(dict)
    events = []
    for number, packet in enumerate(trace.packet):
        assert packet.trusted_packet_sequence_id == 1
        if number == 0:
            assert packet.sequence_flags & 1
            found.clock = packet.trace_packet_defaults.timestamp_clock_id
        for kind in ("event_names", "event_categories", "debug_annotation_names"):
            for entry in getattr(packet.interned_data, kind):
                assert words[kind].setdefault(entry.iid, entry.name) == entry.name
        for entry in packet.interned_data.debug_annotation_string_values:
            words["values"][entry.iid] = entry.str.decode()
        if packet.HasField("track_descriptor"):
            _describe(packet.track_descriptor, found)
        elif packet.HasField("clock_snapshot"):
            found.clocks.append({clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks})
        elif packet.HasField("track_event"):
            assert packet.sequence_flags == 2  # what was interned is needed
            assert packet.track_event.track_uuid in found.tracks
            events.append((packet.timestamp, _named(packet.track_event, words)))
    events.sort(key=lambda event: event[0])
    _play(events, found, protos.TrackEvent)
    return found


def _describe(descriptor: Any, found: Read) -> None:
    track = Track(descriptor.uuid, descriptor.name, descriptor.parent_uuid)
    if descriptor.HasField("thread"):
        track.pid, track.tid, track.name = (
            descriptor.thread.pid,
            descriptor.thread.tid,
            descriptor.thread.thread_name,
        )
        assert any(t.pid == track.pid and not t.tid for t in found.tracks.values()), "its process comes first"
    elif descriptor.HasField("process"):
        track.pid, track.name = descriptor.process.pid, descriptor.process.process_name
    elif descriptor.HasField("counter"):
        track.unit = descriptor.counter.unit_name
    assert track.uuid
    assert track.uuid not in found.tracks
    assert not track.parent or track.parent in found.tracks
    found.tracks[track.uuid] = track


def _named(event: Any, words: dict[str, dict[int, str]]) -> Any:
    """(event, name, category, annotations), with what was interned by then."""
    name = words["event_names"][event.name_iid] if event.name_iid else event.name
    category = words["event_categories"][event.category_iids[0]] if event.category_iids else ""
    notes: dict[str, int | str] = {}
    for note in event.debug_annotations:
        value = getattr(note, note.WhichOneof("value"))
        if note.WhichOneof("value") == "string_value_iid":
            value = words["values"][value]
        notes[words["debug_annotation_names"][note.name_iid]] = value
    return event, name, category, notes


def _play(events: list[tuple[int, Any]], found: Read, kinds: Any) -> None:
    open_: dict[int, list[Slice]] = defaultdict(list)
    flows: dict[int, Slice] = {}
    for time, (event, name, category, notes) in events:
        nest = open_[event.track_uuid]
        if event.type == kinds.TYPE_COUNTER:
            found.counters[event.track_uuid].append((time, event.double_counter_value))
            continue
        if event.type == kinds.TYPE_SLICE_END:
            nest[-1].end = time
            found.slices.append(nest.pop())
            continue
        one = Slice(event.track_uuid, name, category, time, -1, len(nest), notes)
        if event.type == kinds.TYPE_SLICE_BEGIN:
            nest.append(one)
        else:
            assert event.type == kinds.TYPE_INSTANT
            one.end = time
            found.instants.append(one)
        for flow in event.flow_ids:
            assert flow not in flows
            flows[flow] = one
        for flow in event.terminating_flow_ids:
            found.flows.append(Flow(flows.pop(flow), one))
    found.unfinished = len(flows)
    assert not any(open_.values())


def read_back(data: bytes) -> tuple[list[Slice], dict[int, str]]:
    """The slices, in order of their ends, and the names of the tracks."""
    found = read(data)
    return found.slices, {track.uuid: track.name for track in found.tracks.values()}
