"""What ``headway trace`` answers of a trace of RISC-V E-Trace."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from headway.cli.selection_note import There, lines_or_note, rows_or_note
from headway.errors import HeadwayError
from headway.views.rows import print_lines, print_rows

from .machine_traces import COLUMNS, read_program, text_of

if TYPE_CHECKING:
    from headway.trace.edges import Tracks
    from headway.trace.etrace.files import EtraceFile
    from headway.trace.etrace.reading import EtraceTrace
    from headway.trace.selection import Wanted
    from headway.trace.threads.reading import TracedProgram

__all__ = ["align", "answers", "at", "decode", "export", "opened", "stats", "text_of_trace"]

_UNKNOWN = 32


def answers(path: str) -> bool:
    """Return whether the path is a trace of E-Trace: a description, or a trace file of the machine that has one."""
    from headway.trace.etrace.files import DESCRIPTION
    from headway.trace.threads.container import has_etrace

    return os.path.isfile(path) and (path.endswith(DESCRIPTION) or has_etrace(path))


def _file(path: str) -> EtraceFile:
    from headway.trace.etrace.files import DESCRIPTION, EtraceFile
    from headway.trace.threads.container import TraceFile

    return EtraceFile.described(path) if path.endswith(DESCRIPTION) else EtraceFile.of_machine(TraceFile(path))


def _open(path: str, images: Sequence[str], ids: Sequence[int]) -> EtraceTrace:
    from headway.trace.etrace.reading import EtraceTrace

    file = _file(path)
    trace = EtraceTrace(file.name, file.parameters, file.streams, _program(file, images), file.digest)
    trace.check_sources(ids)
    if not file.complete:
        click.echo(f"headway: {path!a} was cut off: what is missing at its end is a gap", err=True)
    return trace


def opened(path: str, images: Sequence[str]) -> EtraceTrace:
    """Return the trace with its program. Raises HeadwayError."""
    return _open(path, images, ())


def _program(file: EtraceFile, images: Sequence[str]) -> TracedProgram | None:
    from headway.trace.image import RISCV, TracedImage
    from headway.trace.threads.container import digest_of
    from headway.trace.threads.reading import TracedProgram

    if file.digest:
        if len(images) > 1:
            raise click.UsageError("a trace of the machine has one program: give one --image")
        found = read_program(images[0]) if images else None
        if found is not None and digest_of(found.segments) != file.digest:
            raise HeadwayError(
                f"the program is not the one that was traced ({file.name!a}): give the file that ran with --image"
            )
        return found
    image = TracedImage(RISCV)
    for text in images or file.images:
        image.add_file(text)
    if not image.spans:
        return None
    segments = tuple((start, image.read(start, end - start)) for start, end in image.spans)
    if len(segments) > 256:
        raise HeadwayError(f"the program has {len(segments)} parts: give one of at most 256")
    return TracedProgram(segments, image.functions, image)


def decode(path: str, images: Sequence[str], wanted: Wanted, style: str, *, stalls: bool) -> None:
    """Print every instruction and every gap that is wanted; ``stalls``: also where sources trapped."""
    trace = _open(path, images, wanted.streams)
    trace.check_program()
    if wanted.timed:
        trace.check_times()
    if wanted.threads:
        trace.check_threads()
    text = text_of_trace(trace) if wanted.disassemble else None
    columns = COLUMNS if text is None else (*COLUMNS, "instruction")
    there = partial(_there, trace, wanted.streams)
    if style == "csv":
        lines = trace.csv(wanted.streams, traps=stalls, wanted=wanted, text=text)
        print_lines(columns, lines_or_note(lines, path, wanted, there))
        return
    rows = _rows(trace, wanted.streams, stalls, wanted, text)
    print_rows(columns, rows_or_note(rows, path, wanted, there), style)


def _there(trace: EtraceTrace, ids: Sequence[int]) -> There:
    """Return the threads and times of which there is something."""
    threads, times = set[int](), list[int]()
    for rows, _ in trace.blocks(ids):
        threads.update(rows.contexts())
        times = [*times, *(rows.times() or ())]
        times = [min(times), max(times)] if times else []
    return There(threads, (times[0], times[1]) if times else None)


def text_of_trace(trace: EtraceTrace) -> Callable[[int], str]:
    """Return what gives the text of the instruction at an address. Raises MissingExtraError without capstone."""
    return text_of(trace.program, wide=trace.parameters.iaddress_width > 32)


def _rows(
    trace: EtraceTrace,
    ids: Sequence[int],
    traps: bool,
    wanted: Wanted | None = None,
    text: Callable[[int], str] | None = None,
) -> Iterator[tuple[Any, ...]]:
    from headway.trace.etrace.reading import state_of

    assert trace.program is not None
    contexts = trace.contexts
    for rows, _ in trace.blocks(ids, traps=traps, wanted=wanted):
        for number in range(len(rows)):
            source, time, context, address, size, code, end = rows[number]
            more = () if text is None else (text(address) if size else "",)
            if code >= _UNKNOWN:
                cycles = end - time if time is not None and end is not None and end >= time else None
                yield f"{source:#x}", None, time, cycles, None, 0, state_of(rows, number), "", *more
                continue
            thread = context if contexts else None
            symbol = trace.program.symbol(address)
            yield f"{source:#x}", thread, time, None, f"{address:#010x}", size, state_of(rows, number), symbol, *more


def stats(path: str, images: Sequence[str], ids: Sequence[int], style: str) -> None:
    """Print packets by kind, and with a program instructions, bits per instruction, and gaps by reason."""
    trace = _open(path, images, ids)
    found = trace.statistics(ids)
    rows: list[Sequence[Any]] = [("all", "size", "bytes", found.size)]
    rows += [("all", f"packet.{kind}", "packets", count) for kind, count in found.packets.items()]
    total = 0
    for source, states in found.rows.items():
        name, count = f"{source:#x}", found.instructions(source)
        total += count
        rows.append((name, "instructions", "instructions", count))
        rows += [(name, f"gap.{state}", "gaps", n) for state, n in states.items() if state.startswith("unknown")]
    if trace.program is not None:
        rows.append(("all", "instructions", "instructions", total))
        density = round(8 * found.size / total, 3) if total and not ids else None
        rows.append(("all", "density", "bits per instruction", density))
        rows.append(("all", "contradictions", "contradictions", found.contradictions))
    print_rows(("stream", "what", "unit", "value"), rows, style)


def align(path: str, images: Sequence[str], ids: Sequence[int], style: str, *, instructions: bool) -> None:
    """Print the times that each source's packets have, or every instruction with the time before it."""
    trace = _open(path, images, ids)
    trace.check_times()
    trace.check_program()
    if instructions:
        columns = ("stream", "thread", "time", "uncertainty", "address", "size", "state", "symbol")
        print_rows(columns, _placed(trace, ids), style)
        return
    spans: dict[int, list[int]] = {}
    for rows, _ in trace.blocks(ids):
        for number in range(len(rows)):
            source, time, *_ = rows[number]
            if time is not None:
                span = spans.setdefault(source, [0, time, time, 0])
                span[0], span[2], span[3] = span[0] + 1, time, max(span[3], time - span[2])
    found: list[Sequence[Any]] = [(f"{source:#x}", *span) for source, span in sorted(spans.items())]
    print_rows(("stream", "times", "start", "end", "longest"), found, style)


def _placed(trace: EtraceTrace, ids: Sequence[int]) -> Iterator[Sequence[Any]]:
    """The rows of decode, with the last time before each, and how much later it may have been."""
    waiting: dict[str, list[tuple[Any, ...]]] = {}
    begun: dict[str, int | None] = {}
    for row in _rows(trace, ids, False):
        source, _, time, *_ = row
        held = waiting.setdefault(source, [])
        if time is not None or len(held) >= 1 << 16:
            yield from _timed(held, begun.get(source), time)
            held.clear()
            begun[source] = time if time is not None else begun.get(source)
        held.append(row)
    for source, held in waiting.items():
        yield from _timed(held, begun.get(source), None)


def _timed(held: Sequence[tuple[Any, ...]], begin: int | None, end: int | None) -> Iterator[Sequence[Any]]:
    for place, (source, thread, time, _, *rest) in enumerate(held):
        later = 0 if time is not None and not place else None if begin is None or end is None else end - begin
        yield source, thread, time if time is not None else begin, later, *rest


def at(path: str, images: Sequence[str], wanted: Wanted, style: str, time: int | None) -> None:
    """Print the last that is known of every source at a time."""
    ids = wanted.streams
    if time is None:
        raise click.UsageError("give --time: the packets of E-Trace have times, not cycles")
    trace = _open(path, images, ids)
    trace.check_program()
    assert trace.program is not None
    columns = ("stream", "thread", "time", "uncertainty", "address", "size", "state", "symbol", "line")
    if wanted.threads:
        trace.check_threads()
    contexts = trace.contexts
    text = text_of_trace(trace) if wanted.disassemble else None
    rows: list[Sequence[Any]] = []
    for one in trace.at(time, ids):
        address, symbol, line = None, "", ""
        if one.address is not None:
            address, symbol = f"{one.address:#010x}", trace.program.symbol(one.address)
            line = trace.program.line(one.address)
        thread = one.context if contexts and one.address is not None else None
        if not wanted.holds(thread):
            continue
        more = () if text is None else (text(one.address) if one.address is not None else "",)
        head = f"{one.source:#x}", thread, one.time, time - one.time
        rows.append((*head, address, one.size, one.state, symbol, line, *more))
    print_rows(columns if text is None else (*columns, "instruction"), rows, style)


def export(path: str, images: Sequence[str], ids: Sequence[int]) -> Callable[[Tracks], list[str]]:
    """Return what writes the slices and gives the notes about them. The trace has been checked when this returns."""
    from headway.trace.etrace.slices import write

    trace = _open(path, images, ids)
    trace.check_times()
    trace.check_program()

    def written(file: Tracks) -> list[str]:
        write(trace, ids, file)
        return ["E-Trace has times in some packets only: instructions between two of them are placed evenly"]

    return written
