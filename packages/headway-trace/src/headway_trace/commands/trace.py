"""``headway trace``: what the processors executed, from what a trace port wrote."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, cast

import click

from headway.cli.options import format_option
from headway.cli.output import binary_output, check_apart
from headway.cli.parameters import WholeNumber
from headway.cli.progress_bar import progress_bar
from headway.cli.say import say
from headway.errors import HeadwayError
from headway.views.rows import print_lines, print_rows
from headway_trace import perf
from headway_trace.raw.told import PROTOCOLS, Told, told_of
from headway_trace.reader import Answer, Option, OptionError, ProfileReader, TextReader, TraceKind, TraceReader
from headway_trace.readers import kind_of
from headway_trace.selection import Wanted
from headway_trace.selection_note import lines_or_note, rows_or_note

if TYPE_CHECKING:
    from headway_trace.calls import Calls
    from headway_trace.edges import Tracks
    from headway_trace.walk import Walk

__all__ = ["command"]

_TICKS = "a unit of time is a tick of the machine's clock; of a capture, a thousandth of a tick"


_CALLS = ("folded", "callgrind", "lcov")
"""Formats of call stacks and coverage (`headway_trace.call_files`)."""
_WIDTH = 80
"""Columns of text of a table that is to be read as it is."""
_ONLY = {
    Option.ASSUME: "--assume is for captures of a trace port",
    Option.STALLS: "--stalls is for traces of the machine (.hwt)",
    Option.WINDOWS: "--windows is for traces of the machine's own format (.hwt): E-Trace and others have no profile",
    Option.RAW: "--protocol and --register are for files of raw bytes: this trace says both itself",
    Option.TEXT: "text is of captures with an ITM: this trace has none",
    Option.THREAD_STREAMS: "--thread is for perf.data here: headway trace decode and at take it for every trace",
}
"""The sentence where an option does not fit the kind of a trace."""


@click.group("trace")
def command() -> None:
    """\b
    headway trace decode capture/ --format csv        a capture of a trace port
    headway trace at capture/ --time 562536985000
    headway trace at six.hwt --image six.elf --cycle 120345   of the machine
    headway trace export six.hwt --image six.elf -o six.pftrace
    headway trace decode perf.data --thread 4711 --disassemble   of perf record -e intel_pt//
    headway trace decode dump.bin --image fw.elf      raw bytes of a probe

    Read instruction traces.

    A trace is one of the reference machine (headway machine run --trace, docs/trace-format.md), one captured from a
    trace port: a CoreSight snapshot folder or a file of raw bytes with streams of ETMv3, PTM, ETMv4, ETE or ITM, what
    perf record wrote of Intel PT or CoreSight, a file of Intel PT packets, or one of RISC-V E-Trace: a TOML file that
    names streams and has the encoder's parameters (docs/trace-sources.md).
    """


def _there(context: click.Context, parameter: click.Parameter, path: str) -> str:
    """Refuse a path at which there is nothing, before any option is looked at that depends on what is there."""
    if path and not os.path.lexists(path):
        raise HeadwayError(f"{path!a} is not there: give a trace file, or a folder with a snapshot.ini")
    return path


def _tells(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> None:
    """Keep what the user says of raw bytes until the trace is opened."""
    context.meta[f"{__name__}.{parameter.name}"] = values


def _told() -> Told:
    meta = click.get_current_context().meta
    return told_of(meta.get(f"{__name__}.protocols", ()), meta.get(f"{__name__}.registers", ()))


_raw = (
    click.option(
        "--protocol",
        "protocols",
        multiple=True,
        metavar="[ID=]NAME",
        expose_value=False,
        callback=_tells,
        help=f"Of raw bytes: the protocol of the streams, or of this one ({', '.join(PROTOCOLS)}).  [default: found]",
    ),
    click.option(
        "--register",
        "registers",
        multiple=True,
        metavar="[ID:]NAME=VALUE",
        expose_value=False,
        callback=_tells,
        help="Of raw bytes: a register of the trace unit, as in TRCIDR8=0x10.",
    ),
)


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
            *_raw,
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


def _kind(path: str, *wanted: tuple[object, Option]) -> TraceKind:
    """Return the kind of a trace. Raises UsageError if an option that was given, the first of a pair, is not for it."""
    told = _told()
    kind = kind_of(path, told)
    for given, option in (*wanted, (told, Option.RAW)):
        if given and option not in kind.takes:
            if Option.RAW in kind.takes:  # a file that is no trace at all is refused as that
                kind.open(path, (), assumes=False)
            raise click.UsageError(_ONLY[option])
    return kind


def _opened(kind: TraceKind, path: str, images: tuple[str, ...], *, assumes: bool = False) -> TraceReader:
    reader = kind.open(path, images, assumes=assumes)
    for remark in reader.remarks:
        say(remark)
    return reader


def _print(answer: Answer, style: str, path: str = "", wanted: Wanted | None = None, width: int | None = None) -> None:
    """Print the rows, then what there is if none has an instruction of what was wanted, then what was left out.

    ``width``: that of a table that does not go to a terminal; None: as wide as it is.
    """
    note = answer.there if wanted is not None else None
    if style == "csv" and answer.lines is not None:
        lines = answer.lines
        if note is not None and wanted is not None:
            lines = lines_or_note(lines, path, wanted, note, say)
        print_lines(answer.columns, lines)
    else:
        rows = answer.rows
        if note is not None and wanted is not None:
            rows = rows_or_note(rows, path, wanted, note, say)
        print_rows(answer.titles or answer.columns if style == "table" else answer.columns, rows, style, width=width)
    for left_out in answer.left_out():
        say(left_out)


def _answered(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function with mistakes in options as click shows them."""

    @wraps(function)
    def answered(*arguments: Any, **options: Any) -> None:
        try:
            function(*arguments, **options)
        except OptionError as error:
            raise click.UsageError(str(error)) from None

    return answered


@command.command("decode", short_help="every instruction, with its cycle")
@_shared
@click.option(
    "--stalls", is_flag=True, help="Of a trace of the machine: show cycles in which nothing was executed, too."
)
@click.option("--disassemble", is_flag=True, help="Show each instruction, too.")
@click.option("--from", "begin", type=WholeNumber(), metavar="T", help="Begin at this time.")
@click.option("--to", "end", type=WholeNumber(), metavar="T", help="End before this time.")
@_assume
@_answered
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
    kind = _kind(path, (assumes, Option.ASSUME), (stalls, Option.STALLS))
    reader = _opened(kind, path, images, assumes=assumes)
    _print(reader.instructions(wanted, stalls=stalls), style, path, wanted)


@command.command("stats", short_help="packets, bits per instruction, losses, stalls by window")
@_shared
@click.option("--windows", is_flag=True, help="Of a trace of the machine: show every window of its profile.")
@click.option(
    "--functions", is_flag=True, help="Show what each function of each thread did, and how often it was called."
)
@_assume
@_answered
def _stats(
    path: str,
    images: tuple[str, ...],
    ids: tuple[int, ...],
    threads: tuple[int, ...],
    style: str,
    windows: bool,
    functions: bool,
    assumes: bool,
) -> None:
    """\b
    headway trace stats capture/
    headway trace stats capture/ --functions    calls, instructions and cycles
    headway trace stats six.hwt --windows    where cycles went, window by window

    Count what is in each stream: packets by kind, instructions, bits per instruction, gaps by reason.

    Without a program (none in the snapshot, no --image) only packets are counted.
    """
    if windows and functions:
        raise click.UsageError("--windows and --functions are different tables: give one of them")
    kind = _kind(path, (assumes, Option.ASSUME), (threads, Option.THREAD_STREAMS), (windows, Option.WINDOWS))
    reader = _opened(kind, path, images, assumes=assumes)
    chosen = (*ids, *threads)
    if functions:
        walk = reader.walk(chosen)
        calls = _calls(walk)
        _print(Answer(("thread", "function", "calls", "instructions", "cycles"), calls.rows()), style)
        _say_uncertain(calls, walk)
        return
    _print(cast(ProfileReader, reader).windows(chosen) if windows else reader.statistics(chosen), style)


@command.command("align", short_help="how the times of cores lie to each other")
@_shared
@click.option("--instructions", is_flag=True, help="Show every instruction with its common time, instead of the fits.")
@_answered
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
    reader = _opened(_kind(path, (threads, Option.THREAD_STREAMS)), path, images)
    _print((reader.placed if instructions else reader.alignment)((*ids, *threads)), style)


@command.command("at", short_help="what everybody was executing at one moment")
@_shared
@click.option("--cycle", type=WholeNumber(), metavar="N", help="Cycle of the stream that --stream names.")
@click.option("--time", type=WholeNumber(), metavar="T", help="Time of the common clock: in ticks; of perf.data in ns.")
@click.option("--disassemble", is_flag=True, help="Show each instruction, too.")
@_answered
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
    headway trace at six.hwt --image six.elf --time 120345   of the machine
    headway trace at six.hwt --image six.elf --cycle 120345  in a cycle of its core 0
    headway trace at capture/ --time 562536985000            of a capture
    headway trace at capture/ --stream 0x10 --cycle 12345    at a cycle of one

    Show what every core was executing at one moment, or why that is not known.

    A row has the function, and the source line if the program has line tables; of a capture also the uncertainty of the
    moment, in ticks.
    """
    wanted = Wanted(ids, threads, None, None, disassemble)
    reader = _opened(_kind(path), path, images)
    bar = progress_bar(1.0)
    try:
        answer = reader.at(wanted, cycle, time, bar)
    finally:
        if bar is not None:
            bar.hide()
    _print(_without_empty(answer) if style == "table" else answer, style, width=_WIDTH)


def _without_empty(answer: Answer) -> Answer:
    """Return an answer of few rows without columns that have nothing, with short titles, for a table."""
    rows = list(answer.rows)
    kept = [at for at in range(len(answer.columns)) if any(row[at] not in (None, "") for row in rows)]
    titles = [{"uncertainty": "±"}.get(answer.columns[at], answer.columns[at]) for at in kept]
    return replace(answer, columns=titles, rows=[[row[at] for at in kept] for row in rows])


@command.command("text", short_help="what programs wrote to stimulus ports")
@click.argument("path", metavar="PATH", callback=_there)
@click.option(
    "--stream", "ids", multiple=True, type=WholeNumber(), metavar="ID", help="Read only the stream with this trace ID."
)
@click.option("--port", "ports", multiple=True, type=WholeNumber(), metavar="N", help="Only this stimulus port.")
@_raw[0]
@_raw[1]
@format_option
@_answered
def _text(path: str, ids: tuple[int, ...], ports: tuple[int, ...], style: str) -> None:
    """\b
    headway trace text swo.bin             each line with its time
    headway trace text swo.bin --port 0    of this stimulus port

    Print the text that programs wrote to the stimulus ports of an ITM, a line at a time.

    `cycle` is the tick of the local timestamps when the line began, at most `uncertainty` ticks too late; after a loss,
    whose reason is a line of its own, it is the least that it may be, and `uncertainty` is empty.
    """
    reader = _opened(_kind(path, (True, Option.TEXT)), path, ())
    _print(cast(TextReader, reader).text(ids, ports), style)


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
    "--to",
    "form",
    type=click.Choice(["perfetto", "html", *_CALLS]),
    default="perfetto",
    show_default=True,
    help="Format.",
)
@click.option("-o", "--output", required=True, metavar="FILE", help="Write to FILE.")
@_raw[0]
@_raw[1]
@_answered
def _export(
    path: str, images: tuple[str, ...], ids: tuple[int, ...], threads: tuple[int, ...], form: str, output: str
) -> None:
    """\b
    headway trace export six.hwt --image six.elf --to perfetto -o six.pftrace
    headway trace export capture/ -o capture.pftrace
    headway trace export six.hwt --image six.elf --to html -o six.html
    headway trace export six.hwt --image six.elf --to folded -o six.folded   for speedscope and flamegraph.pl
    headway trace export six.hwt --image six.elf --to lcov -o six.info       for genhtml

    Write a trace for ui.perfetto.dev, or as an HTML page (docs/html.md); or the call stacks of each thread, as folded
    stacks or for kcachegrind (callgrind); or which lines and branches were executed (lcov).

    Each thread of the machine, or stream of a capture, is a track. Functions are slices; stalls, waits and gaps are
    shown, with source lines if the program has them. In Perfetto a nanosecond is one tick of the machine's clock, or a
    thousandth of a tick of a capture's clock.
    """
    check_apart(output, (path, *images, *(image.rpartition("@")[0] for image in images)))
    put = _write_file if form == "perfetto" else partial(_write_page, title=os.path.basename(os.path.normpath(path)))
    reader = _opened(_kind(path, (threads, Option.THREAD_STREAMS)), path, images)
    if form in _CALLS:
        _write_calls(output, form, reader.walk((*ids, *threads)))
    else:
        put(output, *reader.export((*ids, *threads)))


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
    perf.record(output, argv, pids=pids, everything=everything, kernel=kernel, size=size)


def _write_calls(output: str, form: str, walk: Walk) -> None:
    """Write call stacks or coverage, and print what is uncertain about them."""
    from headway_trace.call_files import WRITERS

    calls = _calls(walk)
    with binary_output(output) as stream:
        for line in WRITERS[form](calls):
            stream.write(line.encode("utf-8", "backslashreplace"))
    _say_uncertain(calls if form != "lcov" else None, walk)


def _calls(walk: Walk) -> Calls:
    """Follow a trace. Raises HeadwayError if no instruction of it is known."""
    from headway_trace.calls import Calls

    calls = Calls.of(walk)
    if not any(tree.children for tree in calls.trees.values()):
        raise HeadwayError("no instruction of this trace is known: give the program that ran with --image")
    return calls


def _say_uncertain(calls: Calls | None, walk: Walk) -> None:
    """Print what is uncertain about stacks, if they are shown, and what was left out."""
    if calls is not None and calls.misfits:
        say(f"{calls.misfits:,} returns lead to no call that was seen: their stacks begin anew there")
    if calls is not None and calls.gaps:
        say(f"{calls.gaps:,} times a stack begins anew after a gap")
    if walk.left_out:
        say(walk.left_out)


def _write_file(output: str, fill: Callable[[Tracks], list[str]], left_out: str) -> None:
    """Write the export, and print the notes about it."""
    from headway.views.perfetto.tracks import File

    with binary_output(output) as stream:
        file = File(stream)
        notes = fill(file)
        file.close()
    for note in (*notes, left_out):
        if note:
            say(note)


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
        say(note)
