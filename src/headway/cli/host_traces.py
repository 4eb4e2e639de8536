"""What ``headway trace`` answers of a trace of a Linux machine: perf.data, or a file of Intel PT packets.

A stream is a thread, where perf recorded which thread a processor had; otherwise a processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from headway.cli.selection_note import There, lines_or_note, rows_or_note
from headway.errors import HeadwayError
from headway.extras import need
from headway.views.rows import print_lines, print_rows

if TYPE_CHECKING:
    from headway.trace.alignment import Fit
    from headway.trace.edges import Tracks
    from headway.trace.hosts import HostCapture, HostStream
    from headway.trace.memory import ProcessMemory
    from headway.trace.records import Gap, Instruction
    from headway.trace.selection import Wanted

__all__ = ["align", "answers", "at", "decode", "export", "stats"]

COLUMNS = ("stream", "thread", "cycle", "cycles", "address", "size", "state", "symbol")


def answers(path: str) -> bool:
    """Return whether the path is such a trace. Raises HeadwayError if it cannot be read."""
    from headway.trace.containers import kind_of

    return kind_of(path) is not None


def _open(
    path: str, images: Sequence[str], ids: Sequence[int], *, follow: bool = True
) -> tuple[HostCapture, Sequence[HostStream]]:
    """Open the trace. Return it and its chosen streams; ``follow``: they are going to be decoded."""
    from headway.trace.hosts import open_host

    need("trace")
    capture = open_host(path, images)
    streams = capture.chosen(ids)
    for stream in streams:
        if follow:
            stream.check()
    return capture, streams


def _close(capture: HostCapture) -> None:
    """Print what was left out."""
    if capture.left_out:
        click.echo(f"headway: {capture.left_out}", err=True)


def _row(stream: HostStream, record: Instruction | Gap, memory: ProcessMemory) -> tuple[Any, ...]:
    from headway.trace.records import Instruction

    name = stream.label
    if isinstance(record, Instruction):
        where = f"{record.address:#010x}", record.size, record.state, memory.symbol(record.address)
        return name, record.thread, record.cycle, record.cycles, *where
    state = f"{record.why.state}[{record.start}:{record.end}]"
    return name, stream.thread, record.cycle, record.cycles, None, 0, state, ""


def _records(stream: HostStream, begin: int | None, end: int | None) -> Iterator[tuple[Any, ProcessMemory]]:
    from headway.trace.records import Gap, Instruction

    for records, memory in stream.parts(*stream.bounds(begin, end)):
        for record in records:
            if isinstance(record, Instruction | Gap):
                yield record, memory


def decode(
    path: str,
    images: Sequence[str],
    wanted: Wanted,
    style: str,
) -> None:
    """Print every instruction and every gap that is wanted, each stream in order."""
    from headway.trace.disassembly import Disassembler
    from headway.trace.hosts import csv_lines
    from headway.trace.records import Instruction, place_of

    capture, streams = _open(path, images, (*wanted.streams, *wanted.threads))
    there = partial(_there, streams, wanted)
    if style == "csv" and not wanted.disassemble:
        parts = (csv_lines(stream, wanted.begin, wanted.end) for stream in streams)
        print_lines(COLUMNS, lines_or_note(chain.from_iterable(parts), path, wanted, there))
        _close(capture)
        return
    engine = Disassembler(capture.isa) if wanted.disassemble else None

    def text(record: Instruction | Gap, memory: ProcessMemory) -> tuple[str, ...]:
        if engine is None:
            return ()
        if not isinstance(record, Instruction):
            return ("",)
        return (engine.text(memory, place_of(record.address, record.isa)),)

    rows = (
        (*_row(stream, record, memory), *text(record, memory))
        for stream in streams
        for record, memory in _records(stream, wanted.begin, wanted.end)
    )
    columns = (*COLUMNS, "instruction") if wanted.disassemble else COLUMNS
    print_rows(columns, rows_or_note(rows, path, wanted, there), style)
    _close(capture)


def _there(streams: Sequence[HostStream], wanted: Wanted) -> There:
    """Return the threads that were chosen, and the times of which there is something."""
    fits = _fits(streams) if wanted.timed else []
    spans = [found.span for _, found in fits if found.span is not None]
    times = (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None
    return There([stream.thread for stream in streams if stream.thread is not None], times)


def stats(path: str, images: Sequence[str], ids: Sequence[int], style: str) -> None:
    """Print packets by kind, and with a program instructions, bits for each, and gaps by reason."""
    from headway.trace._records import Totals

    capture, streams = _open(path, images, ids, follow=False)
    rows: list[Sequence[Any]] = []
    for stream in streams:
        name, found = stream.label, stream.statistics()
        rows.append((name, "size", "bytes", found.size))
        rows += [
            (name, f"packet.{kind.title}", "bytes" if kind == 0 else "packets", count)
            for kind, count in found.packets.items()
        ]
        if not stream.image.spans:
            continue
        totals = Totals()
        for records, _ in stream.parts():
            records.add_to(totals)
        instructions = totals.instructions
        rows.append((name, "instructions", "instructions", instructions))
        density = round(found.size * 8 / instructions, 2) if instructions and stream.alone else None
        rows.append((name, "density", "bits per instruction", density))
        for why, (gaps, cycles) in sorted(totals.by_reason.items(), key=lambda item: item[0].state):
            rows.append((name, f"gap.{why.state}", "gaps", gaps))
            if cycles is not None:
                rows.append((name, f"gap.{why.state}", "cycles", cycles))
        rows += [(name, f"error.{what}", "errors", count) for what, count in sorted(stream.errors.items())]
    print_rows(("stream", "what", "unit", "value"), rows, style)
    _close(capture)


def _fits(streams: Sequence[HostStream]) -> list[tuple[HostStream, Fit]]:
    from headway.trace.alignment import fit
    from headway.trace.records import Timestamp

    return [(stream, fit(record for record in stream.records() if isinstance(record, Timestamp))) for stream in streams]


def align(path: str, images: Sequence[str], ids: Sequence[int], style: str, *, instructions: bool) -> None:
    """Print how each stream's cycles lie in the common time, or every instruction with its time."""
    from headway.trace.alignment import AlignedTime

    capture, streams = _open(path, images, ids)
    fits = _fits(streams)
    if instructions:

        def placed() -> Iterator[Sequence[Any]]:
            for stream, found in fits:
                for record, memory in _records(stream, None, None):
                    moment = found.moment(record.epoch, record.cycle)
                    when: tuple[float | None, float | None] = None, None
                    if isinstance(moment, AlignedTime):
                        when = round(moment.time, 3), round(moment.uncertainty, 3)
                    row = _row(stream, record, memory)
                    yield row[0], row[1], *when, *row[3:]

        which = ("stream", "thread", "time", "uncertainty", "cycles", "address", "size", "state", "symbol")
        print_rows(which, placed(), style)
    else:
        rows = [
            (
                stream.label, len(found.residuals), found.outliers, sum(map(len, found.lines.values())), found.rate,
                found.worst, *(found.span or (None, None)),
            )
            for stream, found in fits
        ]  # fmt: skip
        columns = ("stream", "timestamps", "outliers", "lines", "cycles_per_tick", "residual_max", "start", "end")
        print_rows(columns, rows, style)
    _close(capture)


def at(
    path: str,
    images: Sequence[str],
    wanted: Wanted,
    style: str,
    *,
    time: int,
) -> None:
    """Print what every thread was executing at a time of the common clock."""
    from headway.trace.disassembly import Disassembler
    from headway.trace.records import Instruction, place_of

    capture, streams = _open(path, images, (*wanted.streams, *wanted.threads))
    engine = Disassembler(capture.isa) if wanted.disassemble else None
    rows: list[Sequence[Any]] = []
    for stream in streams:
        found = stream.at_time(time)
        record, memory = found.record, found.memory
        row: tuple[Any, ...]
        if record is None or memory is None:
            row = (stream.label, stream.thread, None, None, None, 0, found.why, "")
        else:
            row = _row(stream, record, memory)
        line = text = ""
        if isinstance(record, Instruction) and memory is not None:
            line = memory.line(record.address)
            text = engine.text(memory, place_of(record.address, record.isa)) if engine is not None else ""
        more = (text,) if wanted.disassemble else ()
        rows.append((row[0], row[1], found.time, found.uncertainty, row[2], *row[4:], line, *more))
    if all(row[7] == "unknown.outside" for row in rows):
        raise HeadwayError(f"nothing was traced at that time: {capture.words}")
    columns = ("stream", "thread", "time", "uncertainty", "cycle", "address", "size", "state", "symbol", "line")
    print_rows((*columns, "instruction") if wanted.disassemble else columns, rows, style)
    _close(capture)


def export(path: str, images: Sequence[str], ids: Sequence[int]) -> tuple[Callable[[Tracks], list[str]], str]:
    """Return what writes the slices and gives the notes about them, and what was left out of the trace."""
    from headway.trace.hosts import write_slices

    capture, streams = _open(path, images, ids)
    fits = [(stream, found) for stream, found in _fits(streams) if found.rate is not None]
    if not fits:
        raise HeadwayError(f"{path!a} has no times: there is nothing to show in order; record with tsc")
    return lambda file: write_slices(fits, file), capture.left_out
