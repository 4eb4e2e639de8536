"""A trace of the machine for Perfetto (ui.perfetto.dev): a track for each hart, functions as slices, stalls in them.

Times are ticks of the machine, shown as nanoseconds, so that cores whose clocks differ stay aligned. A slice is a
stretch of time in one function; stalls and traps lie within it where they are long enough to be seen, waiting and gaps
beside it. Written as it is decoded: memory does not grow with the trace.

Source: Perfetto, protos/perfetto/trace/track_event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from headway.errors import HeadwayError

from .reading import STATES

if TYPE_CHECKING:
    from .reading import Trace

__all__ = ["Edge", "edges", "write"]

LEAST = 8
"""Cycles that a stall must last to have a slice of its own."""
_EXECUTED, _NOT_TAKEN, _TRAPS, _UNKNOWN = 16, 17, 18, 32
_SLEEPS = (12, 16)
_SEQUENCE = 1


@dataclass(frozen=True, slots=True)
class Edge:
    """At a cycle of its core a hart's slice begins, or (name None) the innermost one ends."""

    thread: int
    cycle: int
    name: str | None
    category: str = ""
    address: int | None = None


@dataclass(slots=True)
class _Open:
    name: str
    end: int


def edges(trace: Trace, core: int) -> Iterator[Edge]:
    """Of a core, those of each of its threads in order, properly nested."""
    unit = trace.shape.threads if trace.shape.strict else 1
    names = dict[int, str]()
    program = trace.program
    if not trace.shape.cycle_accurate:
        raise HeadwayError("this trace counts no cycles: run the machine with trace.cycle_accurate = true")
    if program is None:
        raise HeadwayError(f"no program is known for this trace: give {trace.shape.name!a}, which ran, with --image")
    running = dict[int, _Open]()
    for rows in trace.rows(core, stalls=True):
        for number in range(len(rows)):
            thread, cycle, cycles, address, _, what, _ = rows[number]
            now = running.get(thread)
            executed = what in (_EXECUTED, _NOT_TAKEN)
            if cycle is None or not cycles or what >= _UNKNOWN or _SLEEPS[0] <= what < _SLEEPS[1]:
                if now is not None:
                    del running[thread]
                    yield Edge(thread, now.end, None)
                if cycle is not None and cycles:
                    known = what < _UNKNOWN
                    yield Edge(thread, cycle, STATES[what], "idle" if known else "gap", address if known else None)
                    yield Edge(thread, cycle + cycles, None)
                continue
            start = cycle - unit + 1 if executed else cycle
            end = start + (unit if executed else cycles)
            name = names.get(address)
            if name is None:
                name = names[address] = program.symbol(address) or f"{address & ~0xFF:#010x}"
            if now is None or now.name != name or now.end != start:
                if now is not None:
                    yield Edge(thread, now.end, None)
                yield Edge(thread, start, name, "function", address)
                now = running[thread] = _Open(name, end)
            now.end = end
            if not executed and (what == _TRAPS or end - start >= LEAST):
                yield Edge(thread, start, STATES[what], "trap" if what == _TRAPS else "stall", address)
                yield Edge(thread, end, None)
    for thread, last in running.items():
        yield Edge(thread, last.end, None)


def write(trace: Trace, cores: list[int], stream: BinaryIO) -> int:
    """Write the slices of these cores; gives how many. Raises HeadwayError without a program or the library."""
    try:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
        from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder
    except ImportError as error:
        raise HeadwayError(f"this export needs the package perfetto ({error}): pip install perfetto") from None
    builder = StreamingTraceProtoBuilder(stream)
    count = 0
    for core in cores:
        clock = trace.index(core)[1]
        _describe(builder, core, trace.shape.threads)
        for edge in edges(trace, core):
            packet = builder.create_packet()
            packet.timestamp = clock.tick(edge.cycle)
            packet.trusted_packet_sequence_id = _SEQUENCE
            event = packet.track_event
            event.track_uuid = _track(core, edge.thread)
            if edge.name is None:
                event.type = TrackEvent.TYPE_SLICE_END
            else:
                event.type = TrackEvent.TYPE_SLICE_BEGIN
                event.name = edge.name
                event.categories.append(edge.category)
                if edge.address is not None:
                    note = event.debug_annotations.add()
                    note.name, note.pointer_value = "address", edge.address
                count += 1
            builder.write_packet(packet)
    return count


def _track(core: int, thread: int) -> int:
    return 1000 * (core + 1) + thread + 1


def _describe(builder: Any, core: int, threads: int) -> None:
    packet = builder.create_packet()
    packet.track_descriptor.uuid = 1000 * (core + 1)
    packet.track_descriptor.name = f"core {core}"
    builder.write_packet(packet)
    for thread in range(threads):
        packet = builder.create_packet()
        packet.track_descriptor.uuid = _track(core, thread)
        packet.track_descriptor.parent_uuid = 1000 * (core + 1)
        packet.track_descriptor.name = f"hart {core * threads + thread}"
        builder.write_packet(packet)
