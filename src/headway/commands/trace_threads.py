"""``headway trace`` of a trace that the machine wrote (``.hwt``): the same answers as of a trace port's snapshot."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.trace.threads._flow import Rows
    from headway.trace.threads.reading import Program, Trace

__all__ = ["answers", "at", "decode", "export", "stats"]

COLUMNS = ("stream", "thread", "cycle", "cycles", "address", "size", "state", "symbol")


def answers(path: str) -> bool:
    """Whether the file is one of these."""
    from headway.trace.threads.container import MAGIC

    try:
        with open(path, "rb") as stream:
            return stream.read(len(MAGIC) - 1) == MAGIC[:-1]
    except (OSError, ValueError):
        return False


def _open(path: str, images: Sequence[str]) -> Trace:
    from headway.trace.threads.container import Recording
    from headway.trace.threads.reading import Trace

    recording = Recording(path)
    if len(images) > 1:
        raise click.UsageError("a trace of the machine has one program: give one --image")
    trace = Trace(recording, _program(images[0]) if images else None)
    if not recording.complete:
        click.echo(f"headway: {path!a} was cut off: what is missing at its end is a gap", err=True)
    return trace


def _program(path: str) -> Program:
    from headway.machine.image import Image
    from headway.trace.threads.reading import Program, functions_of

    image = Image.load(path)
    segments = tuple((segment.address, segment.data) for segment in image.segments)
    return Program(segments, functions_of(image.functions))


def _chosen(trace: Trace, ids: Sequence[int]) -> list[int]:
    for core in ids:
        trace.check_core(core)
    return sorted(set(ids)) or [core for core in range(trace.shape.cores) if trace.recording.sizes[core]]


def _write(columns: Sequence[str], rows: Iterator[Sequence[Any]] | list[Sequence[Any]], style: str) -> None:
    from headway.views.rows import write_rows

    try:
        write_rows(sys.stdout, columns, rows, style)
        sys.stdout.flush()
    except BrokenPipeError:  # a reader that has gone away is no error
        pass


def decode(path: str, images: Sequence[str], ids: Sequence[int], style: str, *, stalls: bool) -> None:
    """Every instruction and every gap, each thread's in order; ``stalls``: what else its cycles were, too."""
    trace = _open(path, images)
    cores = _chosen(trace, ids)
    if style == "csv":
        _write_lines(trace, cores, stalls)
        return
    rows = (
        _row(trace, core, rows, number)
        for core in cores
        for rows in trace.rows(core, stalls=stalls)
        for number in range(len(rows))
    )
    _write(COLUMNS, rows, style)


def _write_lines(trace: Trace, cores: Sequence[int], stalls: bool) -> None:
    out = sys.stdout.buffer
    try:
        sys.stdout.write(",".join(COLUMNS) + "\n")
        sys.stdout.flush()
        for core in cores:
            for lines in trace.csv(core, stalls=stalls):
                out.write(lines)
        out.flush()
    except BrokenPipeError:
        pass
    except OSError as error:
        raise HeadwayError(f"the decoded trace cannot be written ({error.strerror})") from None


def _row(trace: Trace, core: int, rows: Rows, number: int) -> tuple[Any, ...]:
    from headway.trace.threads.reading import state_of

    thread, cycle, cycles, address, size, what, _ = rows[number]
    head = f"{core:#x}", core * trace.shape.threads + thread, cycle, cycles
    if what >= 32:
        return *head, None, 0, state_of(rows, number), ""
    assert trace.program is not None
    return *head, f"{address:#010x}", size, state_of(rows, number), trace.program.symbol(address)


def stats(path: str, images: Sequence[str], ids: Sequence[int], style: str) -> None:
    """Packets by kind, and with a program instructions, bits for each, and gaps by reason."""
    trace = _open(path, images)
    rows: list[Sequence[Any]] = []
    for core in _chosen(trace, ids):
        name, found = f"{core:#x}", trace.statistics(core)
        rows.append((name, "size", "bytes", found.size))
        rows += [(name, f"packet.{kind}", "packets", count) for kind, count in found.packets.items()]
        if found.mended:
            rows.append((name, "mended", "bits", found.mended))
        if found.damaged:
            rows.append((name, "damaged", "bytes", found.damaged))
        if found.unchecked:
            rows.append((name, "after the last A-sync", "bytes", found.unchecked))
        if trace.program is None:
            continue
        count = found.instructions
        rows.append((name, "instructions", "instructions", count))
        rows.append((name, "density", "bits per instruction", round(8 * found.size / count, 2) if count else None))
        rows += [
            (name, f"gap.{state}", "gaps", count) for state, count in found.rows.items() if state.startswith("unknown")
        ]
        if found.windows:
            rows.append((name, "profile.windows", "windows", found.windows))
            rows += [(name, f"profile.{what}", what.split("_")[-1], count) for what, count in found.profile.items()]
        rows.append((name, "contradictions", "contradictions", found.contradictions))
    _write(("stream", "what", "unit", "value"), rows, style)


def at(path: str, images: Sequence[str], ids: Sequence[int], style: str, cycle: int | None) -> None:
    """What every thread of every core was doing in a cycle of one."""
    if cycle is None:
        raise click.UsageError("give --cycle: it is of the core that --stream names, else of core 0")
    if len(ids) > 1:
        raise click.UsageError("--cycle is of one core: name one with --stream")
    trace = _open(path, images)
    columns = ("stream", "thread", "cycle", "id", "address", "size", "state", "symbol")
    rows: list[Sequence[Any]] = []
    for one in trace.at(cycle, ids[0] if ids else 0):
        address = None if one.address is None else f"{one.address:#010x}"
        symbol = "" if one.address is None or trace.program is None else trace.program.symbol(one.address)
        rows.append((f"{one.core:#x}", one.thread, one.cycle, one.id or None, address, one.size, one.state, symbol))
    _write(columns, rows, style)


def export(path: str, images: Sequence[str], ids: Sequence[int], output: str) -> None:
    """For Perfetto."""
    from headway.trace.threads.perfetto import write

    if not answers(path):
        raise HeadwayError(f"{path!a} is not a trace of the machine (.hwt): only those are exported")
    trace = _open(path, images)
    cores = _chosen(trace, ids)
    try:
        with open(output, "wb") as stream:
            write(trace, cores, stream)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise HeadwayError(f"the export cannot be written to {output!a} ({why}): name another file") from None
