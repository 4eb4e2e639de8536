"""Captures of a trace port: CoreSight snapshot folders, with streams of ETMv3, PTM, ETMv4 or ETE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from headway.errors import HeadwayError

from .._selection import Selection
from ..alignment import AlignedTime, Fit, fit
from ..beside import ExecutedInCapture
from ..decode import CSV_COLUMNS, Capture, Stream, snapshot_at
from ..disassembly import ARM, Disassembler
from ..index_files import IndexFolder
from ..moments import Index, StreamMoment, contents_in, keep_contents
from ..reader import Answer, Export, Indexing, OptionError, There
from ..records import Gap, Instruction
from ..selection import stretches_of
from ..slices import plan, write
from ..snapshot import TraceSnapshot
from ..walk import CodeOf, Walk, steps_of

if TYPE_CHECKING:
    from headway.model.executed import ExecutedBeside
    from headway.recording.queries.catalogue import RecordedRun

    from ..selection import Wanted

__all__ = ["CaptureReader"]


class CaptureReader:
    """A capture of a trace port. It is opened for each answer: a moment needs only the index of an earlier run."""

    def __init__(
        self,
        path: str,
        images: Sequence[str],
        assumes: bool,
        snapshot: TraceSnapshot | None = None,
        remarks: Sequence[str] = (),
    ) -> None:
        """Open a folder, or, with ``snapshot``, a file of raw bytes that was taken for this."""
        self._path, self._images, self._assumes = path, images, assumes
        self._known, self.remarks = snapshot, remarks

    @property
    def _snapshot(self) -> TraceSnapshot:
        return self._known or snapshot_at(self._path)

    def _open(self, ids: Sequence[int], *, follow: bool = True) -> tuple[Capture, list[Stream]]:
        """Open the capture. Return it and its chosen streams, with programs that fit them."""
        capture = Capture(self._snapshot, self._images, assumes=self._assumes)
        streams = capture.chosen(ids)
        for stream in streams:
            if self._assumes and stream.setting.protocol == "ETMv3":
                raise HeadwayError(
                    f"--assume: stream {stream.id:#x} is ETMv3, which traces each instruction, so none is assumed: "
                    "choose other streams with --stream"
                )
            stream.check()
            if follow:
                stream.check_image()
        return capture, streams

    def instructions(self, wanted: Wanted, *, stalls: bool) -> Answer:
        """Return every instruction and every gap that is wanted, each stream in order."""
        capture, streams = self._open(wanted.streams)
        chosen, left_out = _selected(self._path, streams, wanted)
        texts = _texts(streams, wanted)
        rows = (
            (*_row(stream, record), *_text(texts, stream, record))
            for stream, selection in chosen
            for record in stream.records(selection)
            if isinstance(record, Instruction | Gap)
        )
        lines = chain.from_iterable(stream.csv(selection, texts.get(stream.id)) for stream, selection in chosen)
        columns = (*CSV_COLUMNS, "instruction") if wanted.disassemble else CSV_COLUMNS
        return Answer(columns, rows, lines, partial(_there, streams, wanted), _notes_of(capture, left_out))

    def statistics(self, streams: Sequence[int]) -> Answer:
        """Return packets by kind, and with a program instructions, bits for each, and gaps by reason."""
        capture, chosen = self._open(streams, follow=False)
        rows = [row for stream in chosen for row in _statistics(stream, assumes=self._assumes)]
        return Answer(("stream", "what", "unit", "value"), rows, left_out=_notes_of(capture))

    def alignment(self, streams: Sequence[int]) -> Answer:
        """Return how each stream's cycles lie in the ticks of the common clock."""
        capture, chosen = self._open(streams)
        rows: list[Sequence[Any]] = []
        for stream, found in _fits(chosen):
            rms = (sum(r * r for r in found.residuals) / len(found.residuals)) ** 0.5 if found.residuals else None
            figures = found.rate, found.worst, rms
            lines = sum(map(len, found.lines.values()))
            span = found.span or (None, None)
            rows.append((f"{stream.id:#x}", len(found.residuals), found.outliers, lines, *figures, *span))
        figures_of = ("cycles_per_tick", "residual_max", "residual_rms")
        columns = ("stream", "timestamps", "outliers", "lines", *figures_of, "start", "end")
        return Answer(columns, rows, left_out=_notes_of(capture))

    def placed(self, streams: Sequence[int]) -> Answer:
        """Return every instruction with its time."""
        capture, chosen = self._open(streams)
        columns = ("stream", "thread", "time", "uncertainty", "cycles", "address", "size", "state", "symbol")
        rows = chain.from_iterable(_placed(stream, found) for stream, found in _fits(chosen))
        return Answer(columns, rows, left_out=_notes_of(capture))

    def at(self, wanted: Wanted, cycle: int | None, time: int | None, indexing: Indexing | None) -> Answer:
        """Return what every core was executing at a cycle of one stream, or at a time of the common clock, in ticks."""
        ids = wanted.streams
        if (cycle is None) == (time is None):
            raise OptionError("give either --cycle (with --stream) or --time")
        if cycle is not None and len(ids) > 1:
            raise OptionError("--cycle is of one stream: name only one with --stream")
        snapshot = self._snapshot
        folder = IndexFolder.of(snapshot, self._images)
        known = contents_in(folder)
        capture = Capture(snapshot, self._images, known)
        if known is None:
            for stream in capture.chosen(ids):
                stream.check()
            keep_contents(folder, capture)
        if cycle is not None and not ids:
            ids = tuple(stream.id for stream in capture.streams.values())
            if len(ids) != 1:
                have = ", ".join(f"{number:#x}" for number in ids)
                raise OptionError(f"--cycle is of one stream: name it with --stream; there are {have}")
        streams = capture.chosen(() if time is None else ids)
        if wanted.threads:
            _check_threads(self._path, streams)
        texts = _texts(streams, wanted)
        index = Index(streams, folder, partial(_tell, indexing))
        if cycle is not None:
            moments = index.at_cycle(ids[0], cycle)
        else:
            assert time is not None
            moments = index.at_time(time)
        columns = ("stream", "thread", "time", "uncertainty", "cycle", "address", "size", "state", "symbol", "line")
        rows = [(*_moment_row(moment), *_text(texts, moment.stream, moment.record)) for moment in moments]
        shown = [row for row in rows if wanted.holds(row[1])]
        return Answer((*columns, "instruction") if wanted.disassemble else columns, shown, left_out=_notes_of(capture))

    def export(self, streams: Sequence[int]) -> Export:
        """Return the capture as slices. The streams and their programs have been checked when this returns."""
        capture, chosen = self._open(streams)
        placed, notes = plan(_fits(chosen))
        return Export(lambda file: notes + write(placed, file), capture.left_out)

    def walk(self, streams: Sequence[int]) -> Walk:
        """Return what every thread executed; of a stream without context IDs, the stream."""
        capture, chosen = self._open(streams)
        for stream in chosen:
            stream.check_image()
        engine = Disassembler(ARM)
        codes = [CodeOf(stream.image, engine.of(stream.image)) for stream in chosen]
        steps = chain.from_iterable(
            steps_of(stream.records(), f"{stream.id:#x}", code) for stream, code in zip(chosen, codes, strict=True)
        )
        return Walk(steps, capture.left_out)

    def beside(self, run: RecordedRun) -> ExecutedBeside:
        """Return what the threads of a recording of the same run executed."""
        return ExecutedInCapture(run, self._path, Capture(self._snapshot, self._images))


def _notes_of(capture: Capture, left_out: str = "") -> Callable[[], Sequence[str]]:
    """Return what says, once the rows are read, what of a capture is missing."""
    return lambda: [note for note in (capture.left_out, left_out) if note]


def _tell(indexing: Indexing | None, stream: Stream, taken: int) -> None:
    """Show how far the indexing of a stream is, if it takes long."""
    if indexing is None or not indexing.due:
        return
    size = sum(path.stat().st_size for path in stream.source.buffer.paths)
    share = min(taken / size, 1.0) if size else 1.0
    indexing.show(f"indexing stream {stream.id:#x} (only once): {100 * share:.0f} %", share)


def _statistics(stream: Stream, *, assumes: bool) -> Iterator[Sequence[Any]]:
    name, totals = f"{stream.id:#x}", None
    if stream.image.spans:
        stream.check_image()
        found, totals = stream.totals()
    else:
        found = stream.statistics()
    yield name, "size", "bytes", found.size
    unit = {0: "bytes", 1: "bytes"}
    for kind, count in found.packets.items():
        yield name, f"packet.{kind.title}", unit.get(kind, "packets"), count
    if totals is None:
        return
    count, bits = totals.instructions, (found.size - totals.unread) * 8
    yield name, "instructions", "instructions", count
    if assumes:
        yield name, "instructions.assumed", "instructions", totals.assumed
    yield name, "density", "bits per instruction", round(bits / count, 2) if count else None
    for why, (gaps, cycles) in sorted(totals.gaps.items(), key=lambda item: item[0].state):
        yield name, f"gap.{why.state}", "gaps", gaps
        if cycles is not None:
            yield name, f"gap.{why.state}", "cycles", cycles
    if totals.searches:
        yield name, "regain.searches", "searches", totals.searches
        yield name, "regain.given_up", "searches", totals.given_up


def _row(stream: Stream, record: Instruction | Gap) -> tuple[Any, ...]:
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
    if not wanted.disassemble:
        return {}
    engine = Disassembler(ARM)
    return {stream.id: engine.of(stream.image) for stream in streams}


def _text(
    texts: Mapping[int, Callable[[int], str]], stream: Stream, record: Instruction | Gap | None
) -> tuple[str, ...]:
    """Return the cell of an instruction's text, if there is one in the row."""
    from headway_trace.records import Instruction, place_of

    if stream.id not in texts:
        return ()
    return (texts[stream.id](place_of(record.address, record.isa)) if isinstance(record, Instruction) else "",)


def _fits(streams: Sequence[Stream]) -> list[tuple[Stream, Fit]]:
    return [(stream, fit(stream.timestamps())) for stream in streams]


def _placed(stream: Stream, found: Fit) -> Iterator[Sequence[Any]]:
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


def _moment_row(moment: StreamMoment) -> Sequence[Any]:
    stream, record = moment.stream, moment.record
    if record is None:
        return f"{stream.id:#x}", None, moment.time, None, moment.cycle, None, 0, moment.why, "", ""
    row = _row(stream, record)
    time = None if moment.time is None else round(moment.time, 3)
    uncertainty = None if moment.uncertainty is None else round(moment.uncertainty, 3)
    line = stream.image.line(record.address) if isinstance(record, Instruction) else ""
    return row[0], row[1], time, uncertainty, moment.cycle, *row[4:], line
