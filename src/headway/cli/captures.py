"""What ``headway trace`` answers of a capture: a CoreSight snapshot folder, with the streams of a trace port."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from headway.cli.progress_bar import progress_bar
from headway.cli.selection_note import There, lines_or_note, rows_or_note
from headway.errors import HeadwayError
from headway.views.rows import print_lines, print_rows

if TYPE_CHECKING:
    from headway.trace._selection import Selection
    from headway.trace.alignment import Fit
    from headway.trace.decode import Capture, Stream
    from headway.trace.edges import Tracks
    from headway.trace.moments import StreamMoment
    from headway.trace.records import Gap, Instruction
    from headway.trace.selection import Wanted

__all__ = ["align", "at", "decode", "export", "stats"]


def _open(
    path: str, images: Sequence[str], ids: Sequence[int], *, follow: bool = True, assumes: bool = False
) -> tuple[Capture, list[Stream]]:
    """Open the capture. Return it and its chosen streams, with programs that fit them."""
    from headway.trace.decode import Capture

    capture = Capture.open(path, images, assumes=assumes)
    streams = capture.chosen(ids)
    for stream in streams:
        if assumes and stream.setting.protocol == "ETMv3":
            raise HeadwayError(
                f"--assume: stream {stream.id:#x} is ETMv3, which traces each instruction, so none is assumed: "
                "choose other streams with --stream"
            )
        stream.check()
        if follow:
            stream.check_image()
    return capture, streams


def _write(
    capture: Capture,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    style: str,
    left_out: str = "",
) -> None:
    """Print the rows to standard output, and then what was left out."""
    print_rows(columns, rows, style)
    _tell(capture, left_out)


def _tell(capture: Capture, left_out: str = "") -> None:
    for note in (capture.left_out, left_out):
        if note:
            click.echo(f"headway: {note}", err=True)


def _row(stream: Stream, record: Instruction | Gap) -> tuple[Any, ...]:
    from headway.trace.records import Instruction

    cycle = record.cycle if record.epoch == 0 else None
    if isinstance(record, Instruction):
        where = f"{record.address:#010x}", record.size, record.state, stream.image.symbol(record.address)
        return f"{stream.id:#x}", record.thread, cycle, record.cycles, *where
    return (
        f"{stream.id:#x}",
        None,
        cycle,
        record.cycles,
        None,
        0,
        stream.gap_state(record.why, record.start, record.end),
        "",
    )


def decode(path: str, images: Sequence[str], wanted: Wanted, style: str, *, assumes: bool = False) -> None:
    """Print every instruction and every gap that is wanted, each stream in order."""
    from headway.trace.decode import CSV_COLUMNS
    from headway.trace.records import Gap, Instruction

    capture, streams = _open(path, images, wanted.streams, assumes=assumes)
    chosen, left_out = _selected(path, streams, wanted)
    columns = (*CSV_COLUMNS, "instruction") if wanted.disassemble else CSV_COLUMNS
    texts = _texts(streams, wanted)
    there = partial(_there, streams, wanted)
    if style == "csv":
        parts = (stream.csv(selection, texts.get(stream.id)) for stream, selection in chosen)
        print_lines(columns, lines_or_note(chain.from_iterable(parts), path, wanted, there))
        _tell(capture, left_out)
        return
    rows = (
        (*_row(stream, record), *_text(texts, stream, record))
        for stream, selection in chosen
        for record in stream.records(selection)
        if isinstance(record, Instruction | Gap)
    )
    _write(capture, columns, rows_or_note(rows, path, wanted, there), style, left_out)


def _there(streams: Sequence[Stream], wanted: Wanted) -> There:
    """Return the threads and times of which there is something, as far as they are selected."""
    threads = {one for stream in streams for block in stream.blocks() for one in block.contexts()}
    spans = [found.span for _, found in _fits(streams) if found.span is not None] if wanted.timed else []
    times = (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None
    return There(threads, times)


def _selected(
    path: str, streams: Sequence[Stream], wanted: Wanted
) -> tuple[list[tuple[Stream, Selection | None]], str]:
    """Return the streams in which something is wanted, each with what that is, and what was left out of the others."""
    from headway.trace._selection import Selection
    from headway.trace.selection import stretches_of

    if wanted.threads:
        _check_threads(path, streams)
    if not wanted.timed:
        threads = wanted.threads or None
        return [(stream, None if threads is None else Selection(None, threads)) for stream in streams], ""
    fits = _fits(streams)
    placed = [(stream, found) for stream, found in fits if found.rate is not None]
    if not placed:
        raise HeadwayError(f"no stream of {path!a} has timestamps enough for a common time: leave out --from and --to")
    others = [f"{stream.id:#x}" for stream, found in fits if found.rate is None]
    chosen: list[tuple[Stream, Selection | None]] = [
        (stream, Selection(stretches_of(found, wanted.begin, wanted.end), wanted.threads or None))
        for stream, found in placed
    ]
    return chosen, f"left out: streams without a common time ({', '.join(others)})" if others else ""


def _check_threads(path: str, streams: Sequence[Stream]) -> None:
    if not any(stream.setting.threads for stream in streams):
        raise HeadwayError(f"no context IDs are traced in {path!a}, so that no thread is known: leave out --thread")


def _texts(streams: Sequence[Stream], wanted: Wanted) -> dict[int, Callable[[int], str]]:
    """Return what gives the instructions of each stream as text; empty: that is not wanted."""
    from headway.trace.disassembly import ARM, Disassembler

    if not wanted.disassemble:
        return {}
    engine = Disassembler(ARM)
    return {stream.id: engine.of(stream.image) for stream in streams}


def _text(
    texts: Mapping[int, Callable[[int], str]], stream: Stream, record: Instruction | Gap | None
) -> tuple[str, ...]:
    """Return the cell of an instruction's text, if there is one in the row."""
    from headway.trace.records import Instruction, place_of

    if stream.id not in texts:
        return ()
    return (texts[stream.id](place_of(record.address, record.isa)) if isinstance(record, Instruction) else "",)


def stats(path: str, images: Sequence[str], ids: Sequence[int], style: str, *, assumes: bool = False) -> None:
    """Print packets by kind, and with a program instructions, bits for each, and gaps by reason."""
    capture, streams = _open(path, images, ids, follow=False, assumes=assumes)
    rows: list[Sequence[Any]] = []
    for stream in streams:
        name, totals = f"{stream.id:#x}", None
        if stream.image.spans:
            stream.check_image()
            found, totals = stream.totals()
        else:
            found = stream.statistics()
        rows.append((name, "size", "bytes", found.size))
        unit = {0: "bytes", 1: "bytes"}
        rows += [
            (name, f"packet.{kind.title}", unit.get(kind, "packets"), count) for kind, count in found.packets.items()
        ]
        if totals is None:
            continue
        count, bits = totals.instructions, (found.size - totals.unread) * 8
        rows.append((name, "instructions", "instructions", count))
        if assumes:
            rows.append((name, "instructions.assumed", "instructions", totals.assumed))
        rows.append((name, "density", "bits per instruction", round(bits / count, 2) if count else None))
        for why, (gaps, cycles) in sorted(totals.gaps.items(), key=lambda item: item[0].state):
            rows.append((name, f"gap.{why.state}", "gaps", gaps))
            if cycles is not None:
                rows.append((name, f"gap.{why.state}", "cycles", cycles))
        if totals.searches:
            rows.append((name, "regain.searches", "searches", totals.searches))
            rows.append((name, "regain.given_up", "searches", totals.given_up))
    _write(capture, ("stream", "what", "unit", "value"), rows, style)


def _fits(streams: Sequence[Stream]) -> list[tuple[Stream, Fit]]:
    from headway.trace.alignment import fit

    return [(stream, fit(stream.timestamps())) for stream in streams]


def align(path: str, images: Sequence[str], ids: Sequence[int], style: str, *, instructions: bool) -> None:
    """Print how each stream's cycles lie in the ticks of the common clock, or every instruction with its time."""
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
    from headway.trace.alignment import AlignedTime
    from headway.trace.records import Gap, Instruction

    for record in stream.records():
        if isinstance(record, Instruction | Gap):
            moment = found.moment(record.epoch, record.cycle)
            row = _row(stream, record)
            when = (
                (round(moment.time, 3), round(moment.uncertainty, 3))
                if isinstance(moment, AlignedTime)
                else (None, None)
            )
            yield row[0], row[1], *when, *row[3:]


def at(path: str, images: Sequence[str], wanted: Wanted, style: str, *, cycle: int | None, time: int | None) -> None:
    """Print what every core was executing at a cycle of one stream, or at a time of the common clock, in ticks."""
    from headway.trace.decode import Capture, snapshot_at
    from headway.trace.index_files import IndexFolder
    from headway.trace.moments import Index, contents_in, keep_contents

    ids = wanted.streams
    snapshot = snapshot_at(path)
    folder = IndexFolder.of(snapshot, images)
    known = contents_in(folder)
    capture = Capture(snapshot, images, known)
    if known is None:
        for stream in capture.chosen(ids):
            stream.check()
        keep_contents(folder, capture)
    streams = capture.chosen(() if time is None else ids)
    if wanted.threads:
        _check_threads(path, streams)
    texts = _texts(streams, wanted)
    with _indexing() as told:
        index = Index(streams, folder, told)
        if cycle is not None:
            moments = index.at_cycle(ids[0], cycle)
        else:
            assert time is not None
            moments = index.at_time(time)
    columns = ("stream", "thread", "time", "uncertainty", "cycle", "address", "size", "state", "symbol", "line")
    rows = [(*_moment_row(moment), *_text(texts, moment.stream, moment.record)) for moment in moments]
    shown = [row for row in rows if wanted.holds(row[1])]
    _write(capture, (*columns, "instruction") if wanted.disassemble else columns, shown, style)


@contextmanager
def _indexing() -> Iterator[Callable[[Stream, int], None]]:
    """Yield what shows how far the indexing of a stream is, if it takes long."""
    bar = progress_bar(1.0)

    def told(stream: Stream, taken: int) -> None:
        if bar is not None and bar.due:
            size = sum(path.stat().st_size for path in stream.source.buffer.paths)
            share = min(taken / size, 1.0) if size else 1.0
            bar.show(f"indexing stream {stream.id:#x} (only once): {100 * share:.0f} %", share)

    try:
        yield told
    finally:
        if bar is not None:
            bar.hide()


def _moment_row(moment: StreamMoment) -> Sequence[Any]:
    from headway.trace.records import Instruction

    stream, record = moment.stream, moment.record
    if record is None:
        return f"{stream.id:#x}", None, moment.time, None, moment.cycle, None, 0, moment.why, "", ""
    row = _row(stream, record)
    time = None if moment.time is None else round(moment.time, 3)
    uncertainty = None if moment.uncertainty is None else round(moment.uncertainty, 3)
    line = stream.image.line(record.address) if isinstance(record, Instruction) else ""
    return row[0], row[1], time, uncertainty, moment.cycle, *row[4:], line


def export(path: str, images: Sequence[str], ids: Sequence[int]) -> tuple[Callable[[Tracks], list[str]], str]:
    """Return what writes the slices and gives the notes about them, and what was left out of the capture.

    The streams and their programs have been checked when this returns.
    """
    from headway.trace.slices import plan, write

    capture, streams = _open(path, images, ids)
    chosen, notes = plan(_fits(streams))
    return lambda file: notes + write(chosen, file), capture.left_out
