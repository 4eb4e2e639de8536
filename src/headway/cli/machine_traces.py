"""What ``headway trace`` answers of a trace of the machine (``.hwt``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from headway.cli.selection_note import There, lines_or_note, rows_or_note
from headway.errors import HeadwayError
from headway.views.rows import print_lines, print_rows

if TYPE_CHECKING:
    from headway.trace.edges import Tracks
    from headway.trace.selection import Wanted
    from headway.trace.threads._flow import ThreadRows
    from headway.trace.threads.reading import Trace, TracedProgram

__all__ = [
    "COLUMNS",
    "align",
    "answers",
    "at",
    "decode",
    "export",
    "opened",
    "read_program",
    "stats",
    "text_of",
    "windows",
]

_MAX_FILE = 1 << 30
COLUMNS = ("stream", "thread", "cycle", "cycles", "address", "size", "state", "symbol")
_SHORT = {"data_cache": "d", "instruction_cache": "i", "dependency": "data", "_stall_cycles": "_stalls", "_cycles": ""}
"""Short forms of the names of counters, for tables on a terminal."""


def answers(path: str) -> bool:
    """Return whether the path is a trace of the machine; False: it is no file. Raises HeadwayError for other files."""
    from headway.files import open_file
    from headway.trace.threads.container import MAGIC

    if not os.path.isfile(path):
        return False
    with open_file(path, "a trace") as stream:
        found = stream.read(len(MAGIC))
    if found == MAGIC:
        return True
    kinds = "a trace of the machine (.hwt), perf.data, Intel PT, E-Trace (.toml)"
    what = f"is neither {kinds} nor a snapshot folder" if found else "is empty"
    raise HeadwayError(
        f"{path!a} {what}: give what headway machine run --trace or perf record wrote, a TOML file that describes "
        "E-Trace, or a folder with a snapshot.ini"
    )


def _open(path: str, images: Sequence[str]) -> Trace:
    from headway.trace.threads.container import TraceFile
    from headway.trace.threads.reading import Trace

    recording = TraceFile(path)
    if recording.etrace is not None:
        raise HeadwayError(f"{path!a} is of E-Trace: give a trace of the machine's own format")
    if len(images) > 1:
        raise click.UsageError("a trace of the machine has one program: give one --image")
    trace = Trace(recording, read_program(images[0]) if images else None)
    if not recording.complete:
        click.echo(f"headway: {path!a} was cut off: what is missing at its end is a gap", err=True)
    return trace


def opened(path: str, images: Sequence[str]) -> Trace:
    """Return the trace with its program. Raises HeadwayError."""
    return _open(path, images)


def read_program(path: str) -> TracedProgram:
    """Return a program that comes with the machine, or the one in an ELF file for it. Raises HeadwayError."""
    from headway.binary.lines import LineTable
    from headway.files import read_file
    from headway.machine.image import MachineImage
    from headway.machine.programs import programs
    from headway.trace.threads.reading import TracedProgram, functions_of

    data = programs()[path].read() if path in programs() else read_file(path, "an ELF file for RV32", _MAX_FILE)
    image = MachineImage.of(data, path)
    segments = tuple((segment.address, segment.data) for segment in image.segments)
    return TracedProgram(segments, functions_of(image.functions), LineTable(data))


def _chosen(trace: Trace, ids: Sequence[int]) -> list[int]:
    for core in ids:
        trace.check_core(core)
    return sorted(set(ids)) or [core for core in range(trace.shape.cores) if trace.recording.sizes[core]]


def decode(path: str, images: Sequence[str], wanted: Wanted, style: str, *, stalls: bool) -> None:
    """Print every instruction and every gap that is wanted, each thread's in order; ``stalls``: other cycles, too."""
    trace = _open(path, images)
    cores = _chosen(trace, wanted.streams)
    trace.check_program()
    if wanted.timed:
        trace.check_times()
    trace.check_threads(wanted.threads)
    text = text_of(trace.program) if wanted.disassemble else None
    columns = COLUMNS if text is None else (*COLUMNS, "instruction")
    there = partial(_there, trace, cores, wanted)
    if style == "csv":
        parts = (trace.csv(core, stalls=stalls, wanted=wanted, text=text) for core in cores)
        print_lines(columns, lines_or_note(chain.from_iterable(parts), path, wanted, there))
        return
    rows = (
        (*_row(trace, core, rows, number), *_text(text, rows, number))
        for core in cores
        for rows in trace.rows(core, stalls=stalls, wanted=wanted)
        for number in range(len(rows))
    )
    print_rows(columns, rows_or_note(rows, path, wanted, there), style)


def _there(trace: Trace, cores: Sequence[int], wanted: Wanted) -> There:
    """Return the threads of these cores, and the ticks of which there is something."""
    threads = [core * trace.shape.threads + number for core in cores for number in range(trace.shape.threads)]
    clocks = [trace.clock(core) for core in cores] if wanted.timed else []
    times = (min(one.changes[0].tick for one in clocks), max(one.tick(one.end) for one in clocks)) if clocks else None
    return There(threads, times)


def text_of(program: TracedProgram | None, *, wide: bool = False) -> Callable[[int], str]:
    """Return what gives the text of the instruction at an address; ``wide``: of RV64. Raises MissingExtraError."""
    from headway.trace.disassembly import RISCV, RISCV64, Disassembler

    assert program is not None
    return Disassembler(RISCV64 if wide else RISCV).of(program)


def _text(text: Callable[[int], str] | None, rows: ThreadRows, number: int) -> tuple[str, ...]:
    if text is None:
        return ()
    _, _, _, address, size, _, _ = rows[number]
    return (text(address) if size else "",)


def _row(trace: Trace, core: int, rows: ThreadRows, number: int) -> tuple[Any, ...]:
    from headway.trace.threads.reading import state_of

    thread, cycle, cycles, address, size, what, _ = rows[number]
    head = f"{core:#x}", core * trace.shape.threads + thread, cycle, cycles
    if what >= 32:
        return *head, None, 0, state_of(rows, number), ""
    assert trace.program is not None
    if not address:  # a trigger marker of a thread whose place is not known
        return *head, None, 0, state_of(rows, number), ""
    return *head, f"{address:#010x}", size, state_of(rows, number), trace.program.symbol(address)


def stats(path: str, images: Sequence[str], ids: Sequence[int], style: str) -> None:
    """Print packets by kind, and with a program instructions, bits per instruction, and gaps by reason."""
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
        if found.windows:
            rows.append((name, "profile.windows", "windows", found.windows))
            rows += [(name, f"profile.{what}", what.split("_")[-1], count) for what, count in found.profile.items()]
        if trace.program is None:
            continue
        count = found.instructions
        rows.append((name, "instructions", "instructions", count))
        rows.append((name, "density", "bits per instruction", round(8 * found.size / count, 2) if count else None))
        rows += [
            (name, f"gap.{state}", "gaps", count) for state, count in found.rows.items() if state.startswith("unknown")
        ]
        rows.append((name, "contradictions", "contradictions", found.contradictions))
    print_rows(("stream", "what", "unit", "value"), rows, style)


def windows(path: str, images: Sequence[str], ids: Sequence[int], style: str) -> None:
    """Print a row for each window of the profile."""
    from headway.trace.threads.container import NOT_COUNTED

    trace = _open(path, images)
    cores = _chosen(trace, ids)
    used = [place for place, name in enumerate(trace.counted) if name != NOT_COUNTED]
    rows: Iterator[Sequence[Any]] = (
        (f"{core:#x}", end, *(counts[place] for place in used))
        for core in cores
        for end, *counts in trace.windows(core)
    )
    first = next(rows, None)
    if first is None:
        raise HeadwayError(
            f"{path!a} has no windows of a profile: run the machine with a window, for example trace.window = 1000"
        )
    names = [_short(trace.counted[place]) if style == "table" else trace.counted[place] for place in used]
    print_rows(("stream", "cycle", *names), chain([first], rows), style)


def _short(name: str) -> str:
    for long, short in _SHORT.items():
        name = name.replace(long, short)
    return {"stall": "stalls"}.get(name, name)


def align(path: str, images: Sequence[str], ids: Sequence[int], style: str, *, instructions: bool) -> None:
    """Print how each core's cycles lie in the machine's ticks, or every instruction with its tick."""
    trace = _open(path, images)
    cores = _chosen(trace, ids)
    trace.check_times()
    if instructions:
        trace.check_program()
        columns = ("stream", "thread", "time", "uncertainty", "cycles", "address", "size", "state", "symbol")
        print_rows(columns, (row for core in cores for row in _placed(trace, core)), style)
        return
    rows: list[Sequence[Any]] = []
    for core in cores:
        clock = trace.clock(core)
        changes = len(clock.changes) - 1
        span = clock.changes[0].tick, clock.tick(clock.end)
        rows.append((f"{core:#x}", clock.end, changes, clock.rate, clock.tick(0), *span))
    print_rows(("stream", "cycles", "changes", "cycles_per_tick", "offset", "start", "end"), rows, style)


def _placed(trace: Trace, core: int) -> Iterable[Sequence[Any]]:
    """The rows of decode, with ticks for cycles. A tick is exact unless changes of the clock may be missing."""
    clock = trace.clock(core)
    uncertainty = 0 if trace.whole(core) and clock.exact else None
    for rows in trace.rows(core):
        for number in range(len(rows)):
            stream, thread, cycle, *rest = _row(trace, core, rows, number)
            when = (None, None) if cycle is None else (clock.tick(cycle), uncertainty)
            yield stream, thread, *when, *rest


def at(path: str, images: Sequence[str], wanted: Wanted, style: str, cycle: int | None) -> None:
    """Print what every thread of every core was doing in a cycle of one core."""
    ids = wanted.streams
    if cycle is None:
        raise click.UsageError("give --cycle: it is of the core that --stream names, else of core 0")
    if len(ids) > 1:
        raise click.UsageError("--cycle is of one core: name one with --stream")
    trace = _open(path, images)
    columns = ("stream", "thread", "cycle", "id", "address", "size", "state", "trigger", "symbol", "line")
    rows: list[Sequence[Any]] = []
    trace.check_threads(wanted.threads)
    moments = trace.at(cycle, ids[0] if ids else 0)
    text = text_of(trace.program) if wanted.disassemble else None
    for one in moments:
        if not wanted.holds(one.thread):
            continue
        address, symbol, line = None, "", ""
        if one.address is not None and trace.program is not None:
            address, symbol = f"{one.address:#010x}", trace.program.symbol(one.address)
            line = trace.program.line(one.address)
        head = f"{one.core:#x}", one.thread, one.cycle, one.id or None
        more = () if text is None else (text(one.address) if one.size and one.address is not None else "",)
        rows.append((*head, address, one.size, one.state, "marked" if one.triggered else "", symbol, line, *more))
    print_rows(columns if text is None else (*columns, "instruction"), rows, style)


def export(path: str, images: Sequence[str], ids: Sequence[int]) -> Callable[[Tracks], list[str]]:
    """Return what writes the slices and gives the notes about them. The trace has been checked when this returns."""
    from headway.trace.threads.slices import write

    trace = _open(path, images)
    cores = _chosen(trace, ids)
    trace.check_times()
    trace.check_program()

    def written(file: Tracks) -> list[str]:
        write(trace, cores, file)
        return []

    return written
