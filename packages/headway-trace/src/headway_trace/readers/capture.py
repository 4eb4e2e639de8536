"""Captures of a trace port: CoreSight snapshot folders and raw bytes, with streams of ETMv3, PTM, ETMv4, ETE or ITM."""

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
from ..itm import answers
from ..itm.moment import moment_row
from ..itm.slices import write as events_as_slices
from ..itm.statistics import statistics_rows
from ..itm.stream import ItmStream
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

    from ..edges import Tracks
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
        instrumented = _instrumented(capture, wanted.streams)
        if instrumented:
            return Answer(*_mixed(chosen, instrumented, texts, wanted), left_out=_notes_of(capture, left_out))
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
        rows += [row for one in _instrumented(capture, streams) for row in statistics_rows(one)]
        return Answer(("stream", "what", "unit", "value"), rows, left_out=_notes_of(capture))

    def alignment(self, streams: Sequence[int]) -> Answer:
        """Return how each stream's cycles lie in the ticks of the common clock."""
        capture, chosen = self._open(streams)
        fits = [(stream.id, found) for stream, found in _fits(chosen)]
        fits += [(one.id, one.fit) for one in _instrumented(capture, streams)]
        rows = [_fit_row(number, found) for number, found in fits]
        figures_of = ("cycles_per_tick", "residual_max", "residual_rms")
        columns = ("stream", "timestamps", "outliers", "lines", *figures_of, "start", "end")
        return Answer(columns, rows, left_out=_notes_of(capture))

    def placed(self, streams: Sequence[int]) -> Answer:
        """Return every instruction with its time."""
        capture, chosen = self._open(streams)
        columns = ("stream", "thread", "time", "uncertainty", "cycles", "address", "size", "state", "symbol")
        rows = chain.from_iterable(_placed(stream, found) for stream, found in _fits(chosen))
        rows = chain(rows, chain.from_iterable(map(answers.placed_rows, _instrumented(capture, streams))))
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
            ids = (*capture.streams, *capture.instrumentation)
            if len(ids) != 1:
                have = ", ".join(f"{number:#x}" for number in ids)
                raise OptionError(f"--cycle is of one stream: name it with --stream; there are {have}")
        streams = capture.chosen(() if time is None else ids)
        if wanted.threads:
            _check_threads(self._path, streams)
        instrumented = _instrumented(capture, () if time is None else ids)
        texts = _texts(streams, wanted)
        named = next((one for one in instrumented if cycle is not None and one.id in ids), None)
        when = named.time_of(cycle) if named is not None and cycle is not None else time
        moments = self._moments(streams, folder, indexing, ids, None if named is not None else cycle, when)
        if when is None and moments:
            when = next((moment.time for moment in moments if moment.time is not None), None)
        rows = [(*_moment_row(moment), *_text(texts, moment.stream, moment.record)) for moment in moments]
        shown = [row for row in rows if wanted.holds(row[1])]
        columns = (*_MOMENT, "instruction") if wanted.disassemble else _MOMENT
        for one in instrumented:
            found = moment_row(one, cycle if one is named else None, None if one is named else when)
            shown.append(tuple(found.get(name) for name in columns))
        return Answer(columns, shown, left_out=_notes_of(capture))

    def _moments(
        self,
        streams: Sequence[Stream],
        folder: IndexFolder,
        indexing: Indexing | None,
        ids: Sequence[int],
        cycle: int | None,
        time: float | None,
    ) -> list[StreamMoment]:
        """Return what streams of instructions were doing at a cycle of one, or at a common time, if that is known."""
        if not streams or (cycle is None and time is None):
            return []
        index = Index(streams, folder, partial(_tell, indexing))
        if cycle is not None:
            return index.at_cycle(ids[0], cycle)
        assert time is not None
        return index.at_time(time)

    def export(self, streams: Sequence[int]) -> Export:
        """Return the capture as slices. The streams and their programs have been checked when this returns."""
        capture, chosen = self._open(streams)
        instrumented, notes = _instrumented(capture, streams), list[str]()
        placed: list[tuple[Stream, Fit | None]] = []
        try:
            placed, notes = plan(_fits(chosen)) if chosen else (placed, notes)
        except HeadwayError as error:
            if not instrumented:
                raise
            notes = [f"left out: {error}"]
        common = any(found is not None for _, found in placed) or any(one.fit.rate is not None for one in instrumented)
        untimed = [one for one in instrumented if common and one.fit.rate is None]
        if untimed:
            names = ", ".join(one.name for one in untimed)
            notes = [*notes, f"left out, as too few timestamps relate it to the others: stream {names}; name it alone"]
        shown = [one for one in instrumented if one not in untimed]

        def fill(file: Tracks) -> list[str]:
            return [*notes, *write(placed, file), *events_as_slices(shown, file, common=common)]

        return Export(fill, capture.left_out)

    def walk(self, streams: Sequence[int]) -> Walk:
        """Return what every thread executed; of a stream without context IDs, the stream."""
        capture, chosen = self._open(streams)
        if not chosen:
            raise HeadwayError(
                f"no instructions are traced in {self._path!a}, only what an ITM tells: headway trace stats counts its "
                "samples by function"
            )
        engine = Disassembler(ARM)
        codes = [CodeOf(stream.image, engine.of(stream.image)) for stream in chosen]
        steps = chain.from_iterable(
            steps_of(stream.records(), f"{stream.id:#x}", code) for stream, code in zip(chosen, codes, strict=True)
        )
        return Walk(steps, capture.left_out)

    def text(self, streams: Sequence[int], ports: Sequence[int]) -> Answer:
        """Return the lines of text that were written to stimulus ports (none: to all), with their times."""
        capture = Capture(self._snapshot, self._images)
        capture.chosen(streams)  # each must be there
        instrumented = _instrumented(capture, streams)
        if not instrumented:
            raise HeadwayError(f"no stream of an ITM is in {self._path!a}: programs write text to its stimulus ports")
        return Answer(answers.TEXT_COLUMNS, answers.text_rows(instrumented, ports), left_out=_notes_of(capture))

    def beside(self, run: RecordedRun) -> ExecutedBeside:
        """Return what the threads of a recording of the same run executed."""
        return ExecutedInCapture(run, self._path, Capture(self._snapshot, self._images))


_MOMENT = ("stream", "thread", "time", "uncertainty", "cycle", "address", "size", "state", "symbol", "line")


def _instrumented(capture: Capture, ids: Sequence[int]) -> list[ItmStream]:
    """Return the streams of ITMs with these IDs; of none, all."""
    return [ItmStream(one) for number, one in sorted(capture.instrumentation.items()) if not ids or number in ids]


def _mixed(
    chosen: Sequence[tuple[Stream, Selection | None]],
    instrumented: Sequence[ItmStream],
    texts: Mapping[int, Callable[[int], str]],
    wanted: Wanted,
) -> tuple[Sequence[str], Iterator[tuple[Any, ...]]]:
    """Return columns and rows of instructions and of events of ITMs."""
    blank = (None,) * (len(answers.COLUMNS) - len(CSV_COLUMNS))
    instructions = (
        (*_row(stream, record), *blank, *_text(texts, stream, record))
        for stream, selection in chosen
        for record in stream.records(selection)
        if isinstance(record, Instruction | Gap)
    )
    events = (
        (*row, *(("",) if wanted.disassemble else ()))
        for one in instrumented
        for row in answers.event_rows(one, wanted)
    )
    columns = (*answers.COLUMNS, "instruction") if wanted.disassemble else answers.COLUMNS
    return columns, chain(instructions, events)


def _fit_row(number: int, found: Fit) -> Sequence[Any]:
    """Return how the cycles of a stream lie in the ticks of the common clock, as a row."""
    rms = (sum(r * r for r in found.residuals) / len(found.residuals)) ** 0.5 if found.residuals else None
    figures = found.rate, found.worst, rms
    lines = sum(map(len, found.lines.values()))
    return (f"{number:#x}", len(found.residuals), found.outliers, lines, *figures, *(found.span or (None, None)))


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
    if not streams:
        return [], ""
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
