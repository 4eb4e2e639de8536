"""``headway trace``: what the processors executed, from what a trace port wrote."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from headway.cli.output import binary_output, check_apart
from headway.extras import need
from headway.views.rows import print_rows

from . import trace_threads

if TYPE_CHECKING:
    from headway.trace.alignment import Fit
    from headway.trace.decode import Capture, Stream
    from headway.trace.edges import Tracks
    from headway.trace.moments import Moment
    from headway.trace.records import Gap, Instruction

__all__ = ["command"]

_TICKS = "a unit of time is a tick of the machine's clock; of a capture, a thousandth of a tick"
_COLUMNS = ("stream", "thread", "cycle", "cycles", "address", "size", "state", "symbol")


class _Number(click.ParamType[int]):
    """A number, decimal or with 0x."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            number = int(value, 0)
        except ValueError:
            number = -1
        if not 0 <= number < 1 << 64:
            self.fail(f"{value[:40]!a} is not a number from 0 to 2^64 - 1", param, ctx)
        return number


@click.group("trace")
def command() -> None:
    """\b
    headway trace decode capture/ --format csv         of a trace port
    headway trace at capture/ --time 562536985000
    headway trace at six.hwt --image six.elf --cycle 120345    of the machine
    headway trace export six.hwt --image six.elf -o six.pftrace

    Instruction traces: of the machine (headway machine run --trace, docs/trace-format.md), or captured from a trace
    port, a CoreSight snapshot folder with ETMv3 streams (docs/trace.md).
    """


def _shared(function: Any) -> Any:
    for option in reversed(
        (
            click.argument("path", metavar="PATH"),
            click.option(
                "--image",
                "images",
                multiple=True,
                metavar="FILE[@ADDRESS]",
                help="The program (ELF, memory dump at an address, System.map); unless given, the snapshot's.",
            ),
            click.option("--stream", "ids", multiple=True, type=_Number(), metavar="ID", help="Only this trace ID."),
            click.option(
                "--format", "style", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True
            ),
        )
    ):
        function = option(function)
    return function


def _open(path: str, images: Sequence[str], ids: Sequence[int], *, follow: bool = True) -> tuple[Capture, list[Stream]]:
    """The capture and its chosen streams, with programs that fit them."""
    from headway.trace.decode import Capture

    capture = Capture.open(path, images)
    streams = capture.chosen(ids)
    for stream in streams:
        stream.check()
        if follow:
            stream.check_image()
    return capture, streams


def _write(
    capture: Capture, columns: Sequence[str], rows: Iterator[Sequence[Any]] | list[Sequence[Any]], style: str
) -> None:
    """To standard output; then says what has been left out."""
    print_rows(columns, rows, style)
    if capture.left_out:
        click.echo(f"headway: {capture.left_out}", err=True)


def _gap_state(stream: Stream, gap: Gap) -> str:
    start, end = stream.places.span(gap.start, gap.end)
    return f"{gap.why.state}[{start}:{end}]"


def _row(stream: Stream, record: Instruction | Gap) -> tuple[Any, ...]:
    from headway.trace.records import Instruction

    cycle = record.cycle if record.epoch == 0 else None
    if isinstance(record, Instruction):
        where = f"{record.address:#010x}", record.size, record.state, stream.image.symbol(record.address)
        return f"{stream.id:#x}", record.thread, cycle, record.cycles, *where
    return f"{stream.id:#x}", None, cycle, record.cycles, None, 0, _gap_state(stream, record), ""


@command.command("decode", short_help="every instruction, with its cycle")
@_shared
@click.option("--stalls", is_flag=True, help="Of a trace of the machine: also cycles in which nothing was executed.")
def _decode(path: str, images: tuple[str, ...], ids: tuple[int, ...], style: str, stalls: bool) -> None:
    """\b
    headway trace decode capture/                             every stream
    headway trace decode capture/ --stream 0x10 --format csv  one, as CSV
    headway trace decode capture/ --image vmlinux             another program
    headway trace decode six.hwt --image six.elf --stalls     all cycles

    Every instruction of every stream, in order, and every gap with its reason and its bytes of the buffer. `cycle`
    counts from the stream's first synchronisation; it is empty after a loss of time (headway trace align knows more).
    """
    from headway.trace.records import Gap, Instruction

    if trace_threads.answers(path):
        trace_threads.decode(path, images, ids, style, stalls=stalls)
        return
    if stalls:
        raise click.UsageError("--stalls is for traces of the machine (.hwt)")
    capture, streams = _open(path, images, ids)
    rows = (
        _row(stream, record)
        for stream in streams
        for record in stream.records()
        if isinstance(record, Instruction | Gap)
    )
    _write(capture, _COLUMNS, rows, style)


@command.command("stats", short_help="packets, bits per instruction, losses, stalls by window")
@_shared
@click.option("--windows", is_flag=True, help="Of a trace of the machine: every window of its profile.")
def _stats(path: str, images: tuple[str, ...], ids: tuple[int, ...], style: str, windows: bool) -> None:
    """\b
    headway trace stats capture/
    headway trace stats six.hwt --windows    where cycles went, window by window

    What is in each stream: packets by kind, instructions and bits for each, gaps by reason. Without a program (none
    in the snapshot, no --image) packets alone.
    """
    from headway.trace.records import Gap, Instruction, Why

    if trace_threads.answers(path):
        (trace_threads.windows if windows else trace_threads.stats)(path, images, ids, style)
        return
    if windows:
        raise click.UsageError("--windows is for traces of the machine (.hwt)")
    capture, streams = _open(path, images, ids, follow=False)
    rows: list[Sequence[Any]] = []
    for stream in streams:
        name, found = f"{stream.id:#x}", stream.statistics()
        rows.append((name, "size", "bytes", found.size))
        unit = {0: "bytes", 1: "bytes"}
        rows += [
            (name, f"packet.{kind.title}", unit.get(kind, "packets"), count) for kind, count in found.packets.items()
        ]
        if not stream.image.spans:
            continue
        stream.check_image()
        instructions, unread, gaps = 0, 0, dict[str, list[int | None]]()
        for record in stream.records():
            if isinstance(record, Instruction):
                instructions += 1
            elif isinstance(record, Gap):
                unread += record.end - record.start if record.why is Why.UNSYNCHRONISED else 0
                gaps.setdefault(record.why.state, []).append(record.cycles)
        rows.append((name, "instructions", "instructions", instructions))
        bits = (found.size - unread) * 8
        rows.append((name, "density", "bits per instruction", round(bits / instructions, 2) if instructions else None))
        for state, lengths in sorted(gaps.items()):
            rows.append((name, f"gap.{state}", "gaps", len(lengths)))
            known = [length for length in lengths if length is not None]
            if len(known) == len(lengths):
                rows.append((name, f"gap.{state}", "cycles", sum(known)))
    _write(capture, ("stream", "what", "unit", "value"), rows, style)


def _fits(streams: Sequence[Stream]) -> list[tuple[Stream, Fit]]:
    from headway.trace.alignment import fit
    from headway.trace.records import Timestamp

    return [(stream, fit(record for record in stream.records() if isinstance(record, Timestamp))) for stream in streams]


@command.command("align", short_help="how the times of cores lie to each other")
@_shared
@click.option("--instructions", is_flag=True, help="Every instruction with its common time instead of the fits.")
def _align(path: str, images: tuple[str, ...], ids: tuple[int, ...], style: str, instructions: bool) -> None:
    """\b
    headway trace align capture/                   cycles per tick, residuals
    headway trace align capture/ --instructions    each in the common time
    headway trace align six.hwt                    how each core's clock ran

    Lays the cores' times over each other by the timestamps in their streams; those of the machine's cores by what
    their trace units said of their clocks. Times are in ticks of the common clock, or of the machine's.
    """
    if trace_threads.answers(path):
        trace_threads.align(path, images, ids, style, instructions=instructions)
        return
    capture, streams = _open(path, images, ids)
    fits = _fits(streams)
    if instructions:
        columns = ("stream", "thread", "time", "uncertainty", "cycles", "address", "size", "state", "symbol")
        _write(capture, columns, (row for stream, found in fits for row in _placed(stream, found)), style)
        return
    rows: list[Sequence[Any]] = []
    for stream, found in fits:
        rms = (sum(r * r for r in found.residuals) / len(found.residuals)) ** 0.5 if found.residuals else None
        figures = found.rate, found.worst, rms
        start, end = found.span or (None, None)
        lines = sum(map(len, found.lines.values()))
        rows.append((f"{stream.id:#x}", len(found.residuals), found.outliers, lines, *figures, start, end))
    columns = (
        "stream",
        "timestamps",
        "outliers",
        "lines",
        "cycles_per_tick",
        "residual_max",
        "residual_rms",
        "start",
        "end",
    )
    _write(capture, columns, rows, style)


def _placed(stream: Stream, found: Fit) -> Iterator[Sequence[Any]]:
    from headway.trace.alignment import Moment
    from headway.trace.records import Gap, Instruction

    for record in stream.records():
        if isinstance(record, Instruction | Gap):
            moment = found.moment(record.epoch, record.cycle)
            row = _row(stream, record)
            when = (round(moment.time, 3), round(moment.uncertainty, 3)) if isinstance(moment, Moment) else (None, None)
            yield row[0], row[1], *when, *row[3:]


@command.command("at", short_help="what everybody was executing at one moment")
@_shared
@click.option("--cycle", type=_Number(), metavar="N", help="A cycle of the stream that --stream names.")
@click.option("--time", type=_Number(), metavar="T", help="A time of the common clock, in ticks.")
def _at(
    path: str, images: tuple[str, ...], ids: tuple[int, ...], style: str, cycle: int | None, time: int | None
) -> None:
    """\b
    headway trace at six.hwt --image six.elf --cycle 120345  of the machine
    headway trace at capture/ --time 562536985000            of a capture
    headway trace at capture/ --stream 0x10 --cycle 12345    at a cycle of one

    What every core was executing at one moment, in which function, and at which line of its source where the program
    has line tables; of a capture also how far the moment may be off, in ticks; or why that is not known.
    """
    if trace_threads.answers(path):
        if time is not None:
            raise click.UsageError(
                "--time is for captures: give --cycle, of the core that --stream names, else of core 0"
            )
        trace_threads.at(path, images, ids, style, cycle)
        return
    if (cycle is None) == (time is None):
        raise click.UsageError("give either --cycle (with --stream) or --time")
    if cycle is not None and len(ids) != 1:
        raise click.UsageError("--cycle is of one stream: name it with --stream")
    from headway.trace.moments import Index

    capture, _ = _open(path, images, ids, follow=False)
    streams = capture.chosen(() if time is None else ids)
    for stream in streams:
        stream.check_image()
    index = Index(streams)
    if cycle is not None:
        moments = index.at_cycle(ids[0], cycle)
    else:
        assert time is not None
        moments = index.at_time(time)
    columns = ("stream", "thread", "time", "uncertainty", "cycle", "address", "size", "state", "symbol", "line")
    _write(capture, columns, [_moment_row(moment) for moment in moments], style)


def _moment_row(moment: Moment) -> Sequence[Any]:
    from headway.trace.records import Instruction

    stream, record = moment.stream, moment.record
    if record is None:
        return f"{stream.id:#x}", None, moment.time, None, moment.cycle, None, 0, moment.why, "", ""
    row = _row(stream, record)
    time = None if moment.time is None else round(moment.time, 3)
    uncertainty = None if moment.uncertainty is None else round(moment.uncertainty, 3)
    line = stream.image.line(record.address) if isinstance(record, Instruction) else ""
    return row[0], row[1], time, uncertainty, moment.cycle, *row[4:], line


@command.command("export", short_help="for ui.perfetto.dev: functions, stalls, gaps")
@click.argument("path", metavar="PATH")
@click.option("--image", "images", multiple=True, metavar="FILE[@ADDRESS]", help="The program that ran.")
@click.option("--stream", "ids", multiple=True, type=_Number(), metavar="ID", help="Only this stream, or core.")
@click.option("--to", "form", type=click.Choice(["perfetto", "html"]), default="perfetto", show_default=True)
@click.option("-o", "--output", required=True, metavar="FILE", help="Write it there.")
def _export(path: str, images: tuple[str, ...], ids: tuple[int, ...], form: str, output: str) -> None:
    """\b
    headway trace export six.hwt --image six.elf --to perfetto -o six.pftrace
    headway trace export capture/ -o capture.pftrace
    headway trace export six.hwt --image six.elf --to html -o six.html

    For ui.perfetto.dev: a track for each thread of the machine, or stream of a capture; functions as slices, stalls,
    waiting and gaps visible, with lines of source where the program has them. One nanosecond there is one tick of the
    machine's clock, or a thousandth of a tick of a capture's. Or a page that any browser opens (docs/html.md).
    """
    need("trace")
    check_apart(output, (path, *images, *(image.rpartition("@")[0] for image in images)))
    put = _write_file if form == "perfetto" else partial(_write_page, title=os.path.basename(os.path.normpath(path)))
    if trace_threads.answers(path):
        put(output, trace_threads.export(path, images, ids), "")
        return
    from headway.trace.slices import plan, write

    capture, streams = _open(path, images, ids)
    chosen, notes = plan(_fits(streams))
    put(output, lambda file: notes + write(chosen, file), capture.left_out)


def _write_file(output: str, fill: Callable[[Tracks], list[str]], left_out: str) -> None:
    """The export, and what has to be said of it."""
    from headway.views.perfetto.tracks import File

    with binary_output(output) as stream:
        file = File(stream)
        notes = fill(file)
        file.close()
    for note in (*notes, left_out):
        if note:
            click.echo(f"headway: {note}", err=True)


def _write_page(output: str, fill: Callable[[Tracks], list[str]], left_out: str, *, title: str) -> None:
    """The export as a page, and what has to be said of it."""
    from headway.cli.pages import page_to
    from headway.views.html.document import Subject
    from headway.views.html.stretches import Stretches

    with page_to(output) as stream:
        tracks = Stretches()
        notes = [note for note in (*fill(tracks), left_out) if note]
        tracks.write(stream, Subject(title=title, remarks=notes), _TICKS)
    for note in notes:
        click.echo(f"headway: {note}", err=True)
