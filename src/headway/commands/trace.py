"""``headway trace``: what the processors executed, from what a trace port wrote."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from headway.cli import captures, etrace_traces, host_traces, machine_traces, trace_recording
from headway.cli.options import format_option
from headway.cli.output import binary_output, check_apart
from headway.cli.parameters import WholeNumber
from headway.errors import HeadwayError
from headway.extras import need
from headway.trace.selection import Wanted

if TYPE_CHECKING:
    from headway.trace.edges import Tracks

__all__ = ["command"]

_TICKS = "a unit of time is a tick of the machine's clock; of a capture, a thousandth of a tick"


@click.group("trace")
def command() -> None:
    """\b
    headway trace decode capture/ --format csv        a capture of a trace port
    headway trace at capture/ --time 562536985000
    headway trace at six.hwt --image six.elf --cycle 120345   of the machine
    headway trace export six.hwt --image six.elf -o six.pftrace
    headway trace decode perf.data --thread 4711 --disassemble   of perf record -e intel_pt//

    Read instruction traces.

    A trace is one of the reference machine (headway machine run --trace, docs/trace-format.md), one captured from a
    trace port: a CoreSight snapshot folder with streams of ETMv3, PTM, ETMv4 or ETE, what perf record wrote of Intel
    PT or CoreSight, a file of Intel PT packets, or one of RISC-V E-Trace: a TOML file that names streams and has the
    encoder's parameters (docs/trace.md).
    """


def _there(context: click.Context, parameter: click.Parameter, path: str) -> str:
    """Refuse a path at which there is nothing, before any option is looked at that depends on what is there."""
    if path and not os.path.lexists(path):
        raise HeadwayError(f"{path!a} is not there: give a trace file, or a folder with a snapshot.ini")
    return path


def _shared(function: Any) -> Any:
    for option in reversed(
        (
            click.argument("path", metavar="PATH", callback=_there),
            click.option(
                "--image",
                "images",
                multiple=True,
                metavar="FILE[@ADDRESS]",
                help="Program: ELF, memory dump at an address, System.map; of the machine also a name of headway "
                "machine list.  [default: that of the snapshot]",
            ),
            click.option(
                "--stream",
                "ids",
                multiple=True,
                type=WholeNumber(),
                metavar="ID",
                help="Read only the stream with this trace ID, or of this core.",
            ),
            click.option(
                "--thread",
                "threads",
                multiple=True,
                type=WholeNumber(),
                metavar="TID",
                help="Only this thread, as in the column thread.",
            ),
            format_option,
        )
    ):
        function = option(function)
    return function


_assume = click.option(
    "--assume",
    "assumes",
    is_flag=True,
    help="Of PTM, ETMv4, ETE: where trace and program contradict each other, go on. What is uncertain is marked.",
)


def _assumes_nothing(assumes: bool) -> None:
    """Refuse ``--assume`` for what is no capture."""
    if assumes:
        raise click.UsageError("--assume is for captures of a trace port")


def _no_threads(threads: tuple[int, ...]) -> None:
    """Refuse the choice of threads where streams are not those of threads."""
    if threads:
        raise click.UsageError("--thread is for perf.data here: headway trace decode and at take it for every trace")


@command.command("decode", short_help="every instruction, with its cycle")
@_shared
@click.option(
    "--stalls", is_flag=True, help="Of a trace of the machine: show cycles in which nothing was executed, too."
)
@click.option("--disassemble", is_flag=True, help="Show each instruction, too.")
@click.option("--from", "begin", type=WholeNumber(), metavar="T", help="Begin at this time.")
@click.option("--to", "end", type=WholeNumber(), metavar="T", help="End before this time.")
@_assume
def _decode(
    path: str,
    images: tuple[str, ...],
    ids: tuple[int, ...],
    threads: tuple[int, ...],
    style: str,
    stalls: bool,
    disassemble: bool,
    begin: int | None,
    end: int | None,
    assumes: bool,
) -> None:
    """\b
    headway trace decode capture/                              every stream
    headway trace decode capture/ --stream 0x10 --format csv   one, as CSV
    headway trace decode capture/ --image vmlinux              another program
    headway trace decode six.hwt --image six.elf --stalls      all cycles
    headway trace decode perf.data --thread 4711 --disassemble

    Print every instruction of every stream, in order.

    A gap has its reason and its bytes of the buffer. `cycle` counts from the stream's first synchronisation; it is
    empty after a loss of time (headway trace align knows more). Of perf.data it counts ticks of the time stamp
    counter. --from and --to take times of the common clock, as headway trace align has them: in ticks, of perf.data in
    ns. What has no place in that time is left out.

    --assume shows what would have been executed if the trace were right where the program contradicts it, as a kernel
    does that changed its code when it started. The state of such instructions is `assumed`, up to the next address of
    the trace that has all its bits.
    """
    if begin is not None and end is not None and begin >= end:
        raise click.UsageError("--from is not before --to: there is nothing in between")
    wanted = Wanted(ids, threads, begin, end, disassemble)
    if etrace_traces.answers(path):
        _assumes_nothing(assumes)
        etrace_traces.decode(path, images, wanted, style, stalls=stalls)
        return
    hosts = host_traces.answers(path)
    if not hosts and machine_traces.answers(path):
        _assumes_nothing(assumes)
        machine_traces.decode(path, images, wanted, style, stalls=stalls)
        return
    if stalls:
        raise click.UsageError("--stalls is for traces of the machine (.hwt)")
    if hosts:
        _assumes_nothing(assumes)
        host_traces.decode(path, images, wanted, style)
        return
    captures.decode(path, images, wanted, style, assumes=assumes)


@command.command("stats", short_help="packets, bits per instruction, losses, stalls by window")
@_shared
@click.option("--windows", is_flag=True, help="Of a trace of the machine: show every window of its profile.")
@_assume
def _stats(
    path: str,
    images: tuple[str, ...],
    ids: tuple[int, ...],
    threads: tuple[int, ...],
    style: str,
    windows: bool,
    assumes: bool,
) -> None:
    """\b
    headway trace stats capture/
    headway trace stats six.hwt --windows    where cycles went, window by window

    Count what is in each stream: packets by kind, instructions, bits per instruction, gaps by reason.

    Without a program (none in the snapshot, no --image) only packets are counted.
    """
    if etrace_traces.answers(path):
        _assumes_nothing(assumes)
        _no_threads(threads)
        if windows:
            raise click.UsageError("--windows is for traces of the machine's own format: E-Trace has no profile")
        etrace_traces.stats(path, images, ids, style)
        return
    if host_traces.answers(path):
        _assumes_nothing(assumes)
        if windows:
            raise click.UsageError("--windows is for traces of the machine (.hwt)")
        host_traces.stats(path, images, (*ids, *threads), style)
        return
    _no_threads(threads)
    if machine_traces.answers(path):
        _assumes_nothing(assumes)
        (machine_traces.windows if windows else machine_traces.stats)(path, images, ids, style)
        return
    if windows:
        raise click.UsageError("--windows is for traces of the machine (.hwt)")
    captures.stats(path, images, ids, style, assumes=assumes)


@command.command("align", short_help="how the times of cores lie to each other")
@_shared
@click.option("--instructions", is_flag=True, help="Show every instruction with its common time, instead of the fits.")
def _align(
    path: str, images: tuple[str, ...], ids: tuple[int, ...], threads: tuple[int, ...], style: str, instructions: bool
) -> None:
    """\b
    headway trace align capture/                   cycles per tick, residuals
    headway trace align capture/ --instructions    each in the common time
    headway trace align six.hwt                    how each core's clock ran

    Align the times of the cores.

    Cores of a capture are aligned by the timestamps in their streams, cores of the machine by what their trace units
    recorded of their clocks. Times are in ticks of the common clock, or of the machine's.
    """
    if etrace_traces.answers(path):
        _no_threads(threads)
        etrace_traces.align(path, images, ids, style, instructions=instructions)
        return
    if host_traces.answers(path):
        host_traces.align(path, images, (*ids, *threads), style, instructions=instructions)
        return
    _no_threads(threads)
    if machine_traces.answers(path):
        machine_traces.align(path, images, ids, style, instructions=instructions)
        return
    captures.align(path, images, ids, style, instructions=instructions)


@command.command("at", short_help="what everybody was executing at one moment")
@_shared
@click.option("--cycle", type=WholeNumber(), metavar="N", help="Cycle of the stream that --stream names.")
@click.option("--time", type=WholeNumber(), metavar="T", help="Time of the common clock: in ticks; of perf.data in ns.")
@click.option("--disassemble", is_flag=True, help="Show each instruction, too.")
def _at(
    path: str,
    images: tuple[str, ...],
    ids: tuple[int, ...],
    threads: tuple[int, ...],
    style: str,
    cycle: int | None,
    time: int | None,
    disassemble: bool,
) -> None:
    """\b
    headway trace at six.hwt --image six.elf --cycle 120345  of the machine
    headway trace at capture/ --time 562536985000            of a capture
    headway trace at capture/ --stream 0x10 --cycle 12345    at a cycle of one

    Show what every core was executing at one moment, or why that is not known.

    A row has the function, and the source line if the program has line tables; of a capture also the uncertainty of the
    moment, in ticks.
    """
    wanted = Wanted(ids, threads, None, None, disassemble)
    if etrace_traces.answers(path):
        if cycle is not None:
            raise click.UsageError("--cycle is for traces with cycles: give --time")
        etrace_traces.at(path, images, wanted, style, time)
        return
    if host_traces.answers(path):
        if time is None or cycle is not None:
            raise click.UsageError("give --time: --cycle is for captures and traces of the machine")
        host_traces.at(path, images, wanted, style, time=time)
        return
    if machine_traces.answers(path):
        if time is not None:
            raise click.UsageError(
                "--time is for captures: give --cycle, of the core that --stream names, else of core 0"
            )
        machine_traces.at(path, images, wanted, style, cycle)
        return
    if (cycle is None) == (time is None):
        raise click.UsageError("give either --cycle (with --stream) or --time")
    if cycle is not None and len(ids) != 1:
        raise click.UsageError("--cycle is of one stream: name it with --stream")
    captures.at(path, images, wanted, style, cycle=cycle, time=time)


@command.command("export", short_help="for ui.perfetto.dev: functions, stalls, gaps")
@click.argument("path", metavar="PATH", callback=_there)
@click.option("--image", "images", multiple=True, metavar="FILE[@ADDRESS]", help="Program that ran.")
@click.option(
    "--stream", "ids", multiple=True, type=WholeNumber(), metavar="ID", help="Export only this stream, or core."
)
@click.option(
    "--thread", "threads", multiple=True, type=WholeNumber(), metavar="TID", help="Of perf.data: this thread."
)
@click.option(
    "--to", "form", type=click.Choice(["perfetto", "html"]), default="perfetto", show_default=True, help="Format."
)
@click.option("-o", "--output", required=True, metavar="FILE", help="Write to FILE.")
def _export(
    path: str, images: tuple[str, ...], ids: tuple[int, ...], threads: tuple[int, ...], form: str, output: str
) -> None:
    """\b
    headway trace export six.hwt --image six.elf --to perfetto -o six.pftrace
    headway trace export capture/ -o capture.pftrace
    headway trace export six.hwt --image six.elf --to html -o six.html

    Write a trace for ui.perfetto.dev, or as an HTML page (docs/html.md).

    Each thread of the machine, or stream of a capture, is a track. Functions are slices; stalls, waits and gaps are
    shown, with source lines if the program has them. In Perfetto a nanosecond is one tick of the machine's clock, or a
    thousandth of a tick of a capture's clock.
    """
    need("trace")
    check_apart(output, (path, *images, *(image.rpartition("@")[0] for image in images)))
    put = _write_file if form == "perfetto" else partial(_write_page, title=os.path.basename(os.path.normpath(path)))
    if etrace_traces.answers(path):
        _no_threads(threads)
        put(output, etrace_traces.export(path, images, ids), "")
        return
    if host_traces.answers(path):
        put(output, *host_traces.export(path, images, (*ids, *threads)))
        return
    _no_threads(threads)
    if machine_traces.answers(path):
        put(output, machine_traces.export(path, images, ids), "")
        return
    put(output, *captures.export(path, images, ids))


@command.command(
    "record", short_help="a trace of a command, by perf", context_settings={"allow_interspersed_args": False}
)
@click.option("-o", "--output", default="perf.data", show_default=True, metavar="FILE", help="Write to FILE.")
@click.option("-p", "--pid", "pids", multiple=True, type=WholeNumber(), metavar="PID", help="Trace this process.")
@click.option("-a", "--all", "everything", is_flag=True, help="Trace the whole machine.")
@click.option("--kernel", is_flag=True, help="Trace the kernel, too.")
@click.option("-m", "--buffer", "size", metavar="SIZE", help="Size of the buffer of each processor, as in 64M.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARG...]]")
def _record(
    output: str, pids: tuple[int, ...], everything: bool, kernel: bool, size: str | None, argv: tuple[str, ...]
) -> None:
    """\b
    headway trace record -- ./program
    sudo headway trace record -a -- sleep 1
    headway trace decode perf.data

    Record what a command executes, by perf and the processor's trace unit: Intel PT, or CoreSight.

    The exit status is that of perf, which is that of the command. If the machine has no trace unit, it is 125; headway
    doctor says more.
    """
    if not argv and not pids and not everything:
        raise click.UsageError("give a command, as in -- ./program, or -p PID, or -a")
    if size is not None and not re.fullmatch(r"[1-9][0-9]{0,9}[BKMG]?", size):
        raise click.UsageError(f"--buffer: {size!a} is no size: give one as in 64M")
    trace_recording.record(output, argv, pids=pids, everything=everything, kernel=kernel, size=size)


def _write_file(output: str, fill: Callable[[Tracks], list[str]], left_out: str) -> None:
    """Write the export, and print the notes about it."""
    from headway.views.perfetto.tracks import File

    with binary_output(output) as stream:
        file = File(stream)
        notes = fill(file)
        file.close()
    for note in (*notes, left_out):
        if note:
            click.echo(f"headway: {note}", err=True)


def _write_page(output: str, fill: Callable[[Tracks], list[str]], left_out: str, *, title: str) -> None:
    """Write the export as a page, and print the notes about it."""
    from headway.cli.pages import page_to
    from headway.views.html.document import Subject
    from headway.views.html.stretches import Stretches

    with page_to(output) as stream:
        tracks = Stretches()
        notes = [note for note in (*fill(tracks), *tracks.remarks(), left_out) if note]
        tracks.write(stream, Subject(title=title, remarks=notes), _TICKS)
    for note in notes:
        click.echo(f"headway: {note}", err=True)
