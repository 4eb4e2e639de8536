"""Decoding of a snapshot into the records of its streams, through all layers.

Files are read in chunks, so that memory does not grow with the trace. Each stream is decoded in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from headway.errors import HeadwayError, SelectionError
from headway.values import shown

from ._coresight import Deformatter, Probe, StreamPlaces
from ._flow import Flow
from ._packets import Packets
from ._program import InstructionTable
from ._records import Records, SymbolCells, Totals
from ._selection import Selection
from ._waypoints import WaypointFlow
from .code import Code
from .image import TracedImage
from .orbflow import Orbflow
from .packets import PacketKind
from .records import Record, Timestamp, Why
from .snapshot import CapturedBuffer, Setting, Source, Style, TraceSnapshot

__all__ = [
    "CSV_COLUMNS",
    "Capture",
    "Contents",
    "Decoding",
    "Stream",
    "StreamPlaces",
    "StreamStatistics",
    "StreamTotals",
    "snapshot_at",
]

CSV_COLUMNS = ("stream", "thread", "cycle", "cycles", "address", "size", "state", "symbol")
"""The columns of `Stream.csv`."""

_CHUNK = 1 << 16
_TRIED = 1 << 18
"""The number of bytes of a stream that are decoded to test whether an image fits."""

_ENOUGH = 1 << 17
"""The number of instructions after which such a test ends, unless it tests more."""

_LEFT, _RARE = 4, 10
"""How often a stream must have left the program without being traced outside it: in all, and per time that it seemed to
be traced outside. Beyond that it is taken never to be traced outside, and what seems to be is damage."""

_SYNCHRONISED = 1 << 14
"""Bytes of a stream among which there is an A-sync. The trace unit writes one every 1,024 unless told otherwise."""

_FRAME = 16
_NO_STREAM = 0x7F
"""A trace ID that no stream has."""
_NAMED = 12
"""The most things that are named as left out; further ones are counted."""
_SESSION = 8
"""The lowest bit of a session's number in the ID of a stream."""
_STATES = [why.state for why in Why]


def _shown(name: str) -> str:
    """Return a name of the snapshot, which may be of any length, for a message."""
    return name[:60]


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """The size of a stream in bytes, and its number of packets of each kind (of noise and truncated packets, bytes)."""

    size: int
    packets: dict[PacketKind, int]


class _PacketCount:
    """A count of a stream's bytes and packets."""

    def __init__(self) -> None:
        self.size = 0
        self._totals = [0] * len(PacketKind)

    def add(self, size: int, packets: Packets) -> None:
        """Add packets, and the number of bytes that were read for them."""
        self.size += size
        self._totals = [total + more for total, more in zip(self._totals, packets.counts(), strict=True)]

    def statistics(self) -> StreamStatistics:
        return StreamStatistics(self.size, {kind: self._totals[kind] for kind in PacketKind if self._totals[kind]})


@dataclass(frozen=True, slots=True)
class StreamTotals:
    """What a stream became: instructions, and by reason the number of gaps and their cycles (None: not known)."""

    instructions: int
    assumed: int
    """Those of them that are assumed."""
    unread: int
    """Bytes before the first synchronisation."""
    gaps: dict[Why, tuple[int, int | None]]
    searches: int
    """Searches for an address that damage had taken."""
    given_up: int
    """Those of them that were given up, because each may take only so long."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """The result of decoding the beginning of a stream."""

    instructions: int
    stretches: int
    contradictions: int
    left: int
    visited: int

    @property
    def confined(self) -> bool:
        """Whether the thread is taken never to be traced outside the program."""
        return self.left >= _LEFT and self.left > _RARE * self.visited


class Stream:
    """One trace source of the snapshot, and the program that it traced.

    ``assumes``: go on where trace and program contradict each other.
    """

    def __init__(self, source: Source, image: TracedImage, program: InstructionTable, *, assumes: bool = False) -> None:
        if source.setting is None or source.stream is None:
            raise ValueError(source)
        self.source, self.image, self.assumes = source, image, assumes
        self.program = program
        self.id: int = source.session << _SESSION | source.stream
        """The trace ID; above its 7 bits and one of zero, the number of the session."""
        self.setting: Setting = source.setting
        self._reader = BufferReader(source)

    @property
    def places(self) -> StreamPlaces:
        """The places of the bytes that were read last."""
        return self._reader.places

    @property
    def begins(self) -> bool:
        """Whether the stream begins within the buffer, after others. Nothing is then missing before its first byte."""
        return self._reader.begins

    def pieces(self) -> Iterator[bytes | int]:
        """Yield the stream's bytes; a number stands where bytes are missing."""
        self._reader = reader = BufferReader(self.source)
        for chunk in self.chunks():
            yield from reader.pieces(chunk)

    def chunks(self, size: int = 0, start: int = 0) -> Iterator[bytes]:
        """Yield the buffer's bytes from byte ``start`` on, in chunks of at most ``size`` bytes (0: as usual)."""
        return _chunks(self.source.buffer, size or _CHUNK, start)

    def packets(self) -> Iterator[Packets]:
        """Yield the stream's packets in blocks."""
        parser = self.setting.parser()
        for piece in self.pieces():
            yield parser.lost() if isinstance(piece, int) else parser.feed(piece)
        yield parser.finish()

    def statistics(self, most: int | None = None) -> StreamStatistics:
        """Return what is in the stream, or in about its first ``most`` bytes. This needs no image."""
        count, parser = _PacketCount(), self.setting.parser()
        for piece in self.pieces():
            found = parser.lost() if isinstance(piece, int) else parser.feed(piece)
            count.add(0 if isinstance(piece, int) else len(piece), found)
            if most is not None and count.size >= most:
                break
        count.add(0, parser.finish())
        return count.statistics()

    def blocks(self) -> Iterator[Records]:
        """Yield the stream's records in blocks. Raises HeadwayError if there is no image."""
        yield from self._decode(self._flow(confined=self._trial.confined, assumes=self.assumes))

    @property
    def confined(self) -> bool:
        """Whether the thread is taken never to be traced outside the program, as the begin of the stream shows."""
        return self._trial.confined

    def decoding(self, *, confined: bool) -> Decoding:
        """Return a pass over the stream that has not begun. Raises HeadwayError if there is no image."""
        return Decoding(self, self._flow(confined=confined, assumes=self.assumes))

    @cached_property
    def _trial(self) -> _Trial:
        flow, totals = self._flow(confined=False), Totals()
        if isinstance(flow, Flow):
            flow.searching = False
        for block in self._decode(flow, _TRIED):
            block.add_to(totals)
            if totals.instructions >= _ENOUGH and not isinstance(flow, Flow):
                break  # only of ETMv3 is more to be found out than whether the program fits
        return _Trial(totals.instructions, flow.stretches, flow.contradictions, flow.left, flow.visited)

    def _flow(self, *, confined: bool, assumes: bool = False) -> Flow | WaypointFlow:
        if not self.image.spans:
            core = f"core {_shown(self.source.core)}" if self.source.core else f"source {_shown(self.source.name)}"
            raise HeadwayError(
                f"no program is known for stream {self.id:#x} ({core} has no dump that is there): give one with --image"
            )
        return self.setting.flow(self.program, confined=confined, assumes=assumes)

    def _decode(
        self, flow: Flow | WaypointFlow, most: int | None = None, *, count: _PacketCount | None = None
    ) -> Iterator[Records]:
        """Yield the records of the stream, or of about its first ``most`` bytes, in blocks, and count packets."""
        decoding = Decoding(self, flow, count)
        self._reader = decoding.reader
        for chunk in self.chunks():
            yield from decoding.feed(chunk, most)
            if most is not None and decoding.size >= most:
                break
        yield from decoding.finish()

    def totals(self) -> tuple[StreamStatistics, StreamTotals]:
        """Return what is in the stream, and what it becomes, in one pass. Raises HeadwayError if there is no image."""
        flow = self._flow(confined=self._trial.confined, assumes=self.assumes)
        found, count = Totals(), _PacketCount()
        for block in self._decode(flow, count=count):
            block.add_to(found)
        counted = found.instructions, found.assumed, found.unread
        totals = StreamTotals(*counted, found.by_reason, flow.searches, flow.given_up)
        return count.statistics(), totals

    def csv(self, selection: Selection | None = None, text: Callable[[int], str] | None = None) -> Iterator[bytes]:
        """Yield lines of CSV for instructions and gaps, with the columns of `CSV_COLUMNS`, in blocks.

        A gap's ``state`` has its bytes of the buffer. ``text`` gives another column: of `records.place_of` an
        instruction. Raises HeadwayError if there is no image.
        """
        name, symbols = f"{self.id:#x}".encode(), SymbolCells(self.image.symbol)
        texts = None if text is None else SymbolCells(text)
        for block in self.chosen_blocks(selection):
            yield block.csv(name, symbols, self.gap_state, texts)

    def chosen_blocks(self, selection: Selection | None) -> Iterator[Records]:
        """Yield those of the stream's records that are wanted (None: all) in blocks."""
        for block in self.blocks():
            yield block if selection is None else selection.of(block)
            if selection is not None and selection.passed:
                return

    def gap_state(self, why: int, start: int, end: int) -> str:
        """Return the name of the state of a gap, with its bytes of the buffer, from its bytes of the stream."""
        first, last = self._reader.places.span(start, end) if self.source.buffer.formatted else (start, end)
        return f"{_STATES[why]}[{first}:{last}]"

    def timestamps(self) -> Iterator[Timestamp]:
        """Yield the times of the common clock. Raises HeadwayError if there is no image."""
        for block in self.blocks():
            yield from block.timestamps()

    def records(self, selection: Selection | None = None) -> Iterator[Record]:
        """Yield the stream's records (of a selection, its own) one by one. Raises HeadwayError if there is no image."""
        for block in self.chosen_blocks(selection):
            yield from block

    @property
    def misfits(self) -> tuple[int, int]:
        """How often the beginning of the stream contradicts the program, and, negative, its instructions then."""
        return self._trial.contradictions, -self._trial.instructions

    def check(self) -> None:
        """Check that the beginning of the stream is a trace of this setting. Raises HeadwayError if it is not."""
        found = self.statistics(_TRIED)
        noise = found.packets.get(PacketKind.NOISE, 0)
        what = f"{self.setting.protocol} trace as the registers of {_shown(self.source.name)} describe it"
        says = f"stream {self.id:#x} is no {what}"
        if found.size > _SYNCHRONISED and PacketKind.ALIGNMENT not in found.packets:
            raise HeadwayError(f"{says}: there is no A-sync in {found.size} bytes; check the snapshot")
        if noise * 4 > found.size:
            raise HeadwayError(f"{says}: {noise} of {found.size} bytes are no packets; check the snapshot")

    def check_image(self) -> None:
        """Check that the beginning of the stream fits the program. Raises HeadwayError if another program ran."""
        tried = self._trial
        if tried.stretches >= 8 and tried.contradictions * 4 > tried.stretches:
            raise HeadwayError(
                f"stream {self.id:#x} is not a trace of this program ({tried.contradictions} of "
                f"{tried.stretches} spans contradict it): give the image that ran with --image"
            )
        if tried.stretches and not tried.instructions:
            spans = ", ".join(f"{start:#x} to {end:#x}" for start, end in self.image.spans)
            raise HeadwayError(
                f"nothing that stream {self.id:#x} executed is in the program ({spans}): "
                "give the image that ran with --image"
            )


class BufferReader:
    """A reader of one source's bytes in its buffer, which notes their places. Its state can be saved, without these."""

    def __init__(self, source: Source) -> None:
        self._source, self.places = source, StreamPlaces()
        self._deformatter = _deformatter(source.buffer, source.stream)

    @property
    def begins(self) -> bool:
        """Whether the stream begins within the buffer, after others. Nothing is then missing before its first byte."""
        return self._deformatter.first not in (-1, 0, self._source.stream)

    def pieces(self, chunk: bytes) -> Iterator[bytes | int]:
        """Yield the stream's bytes in the next chunk of the buffer; a number stands where bytes are missing."""
        if not self._source.buffer.formatted:
            yield chunk
            return
        for _, data, places in self._deformatter.feed(chunk):
            if data:
                self.places.add(places)
            yield data or places[0]

    def save(self) -> list[Any]:
        """Return the state between two chunks."""
        return self._deformatter.save()

    def load(self, state: list[Any]) -> None:
        """Go on where `save` was called. Raises ValueError, TypeError, IndexError or OverflowError if it is none."""
        self._deformatter.load(state)


class Decoding:
    """A pass over a stream, from its buffer to its records. Its state between two chunks can be saved.

    ``taken`` is the number of bytes of the buffer so far, ``size`` that of the stream.
    """

    def __init__(self, stream: Stream, flow: Flow | WaypointFlow, count: _PacketCount | None = None) -> None:
        self.flow, self.reader = flow, BufferReader(stream.source)
        self._parser = stream.setting.parser()
        self._count = count
        self.taken = self.size = 0

    def feed(self, chunk: bytes, most: int | None = None) -> Iterator[Records]:
        """Yield the records that the next chunk of the buffer completes; stop after ``most`` bytes of the stream."""
        self.taken += len(chunk)
        for piece in self.reader.pieces(chunk):
            size = 0 if isinstance(piece, int) else len(piece)
            packets = self._parser.lost() if isinstance(piece, int) else self._parser.feed(piece)
            if self._count is not None:
                self._count.add(size, packets)
            if size and self.reader.begins:
                self.flow.begins()
            yield from _followed(self.flow, packets)
            if isinstance(piece, int):
                self.flow.lost(piece)
            self.size += size
            if most is not None and self.size >= most:
                return

    def finish(self) -> Iterator[Records]:
        """Yield the records that are left at the end."""
        packets = self._parser.finish()
        if self._count is not None:
            self._count.add(0, packets)
        yield from _followed(self.flow, packets)
        yield self.flow.finish()

    def save(self) -> list[Any]:
        """Return the state, in values that JSON has. All records before it must have been taken."""
        return [self.taken, self.reader.save(), self._parser.save(), self.flow.save()]

    def load(self, state: list[Any], history: bytes) -> None:
        """Go on where `save` was called. ``history`` is that of the flow.

        Raises ValueError, TypeError, KeyError, IndexError or OverflowError if it is no state of such a pass.
        """
        taken, reader, parser, flow = state
        if type(taken) is not int or taken < 0:
            raise ValueError(taken)
        self.taken = taken
        self.reader.load(reader)
        self._parser.load(parser)
        self.flow.load(flow, history)


class Capture:
    """A snapshot and its streams. ``left_out`` says what of it is not decoded, and why."""

    def __init__(
        self,
        snapshot: TraceSnapshot,
        images: Iterable[str] = (),
        contents: Mapping[str, Contents] | None = None,
        *,
        assumes: bool = False,
    ) -> None:
        """Open the streams of a snapshot. ``contents`` of its buffers by name, if known. Raises HeadwayError."""
        images = tuple(images)
        self.snapshot = snapshot
        self.streams: dict[int, Stream] = {}
        self.instrumentation: dict[int, Stream] = {}
        """The streams of ITMs, in which no instruction is traced."""
        buffers = {source.buffer.name: source.buffer for source in snapshot.sources}
        self.contents = contents = contents or {name: _contents(buffer) for name, buffer in buffers.items()}
        cores: dict[str | None, tuple[TracedImage, InstructionTable]] = {}
        programs: dict[Sequence[object], tuple[TracedImage, InstructionTable]] = {}  # by their dumps
        silent, notes = list[str](), list[str]()
        self.others: dict[int, str] = {}
        for source in snapshot.sources:
            content = contents[source.buffer.name]
            present = not source.buffer.formatted or source.stream is None or content.sizes.get(source.stream, 0)
            if content.problem:
                continue
            if not present:
                silent.append(source.words)
            elif source.setting is None:
                notes.append(f"{source.words} ({_undecoded(source)})")
                if source.stream is not None:
                    self.others[source.session << _SESSION | source.stream] = notes[-1]
            else:
                if source.core not in cores:
                    dumps = snapshot.dumps.get(source.core or "", ())
                    if dumps not in programs:
                        image = self._image(source.core, images)
                        spans = [(start, end) for start, end in image.spans if end <= 1 << 32]
                        programs[dumps] = image, InstructionTable(Code(image.read).look, spans)
                    cores[source.core] = programs[dumps]
                    if not images:
                        absent = snapshot.absent(source.core)
                        notes += [f"the memory dump {_shown(name)} (it is not there)" for name in absent]
                stream = Stream(source, *cores[source.core], assumes=assumes)
                (self.instrumentation if source.protocol == "ITM" else self.streams)[stream.id] = stream
        problems = [content.problem for content in contents.values() if content.problem]
        if not self.streams and not self.instrumentation:
            why = "; ".join(notes[:_NAMED]) or (
                f"nothing is in the buffer of {', '.join(silent[:_NAMED])}" if silent else "it has no trace source"
            )
            raise HeadwayError(
                problems[0]
                if problems and not notes
                else f"{str(snapshot.path)!a} has no stream that can be decoded: {why}"
            )
        notes += problems
        more = f", and {len(notes) - _NAMED} more" if len(notes) > _NAMED else ""
        self.left_out = f"left out: {', '.join(notes[:_NAMED])}{more}" if notes else ""

    @classmethod
    def open(cls, path: str, images: Iterable[str] = (), *, assumes: bool = False) -> Capture:
        """Open a snapshot folder, or raise HeadwayError. ``images`` replace the memory dumps of the snapshot.

        ``assumes``: as of `Stream`.
        """
        return cls(snapshot_at(path), images, assumes=assumes)

    def _image(self, core: str | None, images: tuple[str, ...]) -> TracedImage:
        image = TracedImage()
        for text in images:
            image.add_file(text)
        if not image.spans:  # if the images have symbols alone, these belong to the dump
            dumped = self.snapshot.image(core)
            for start, end in dumped.spans:
                image.add(start, dumped.read(start, end - start))
        return image

    def chosen(self, ids: Iterable[int]) -> list[Stream]:
        """Return the streams of instructions with these IDs, or all if there are none.

        Raises SelectionError for an unknown ID.
        """
        ids = list(ids)
        for number in ids:
            if number in self.others:
                raise SelectionError(f"not decoded: {self.others[number]}")
            if number not in self.streams and number not in self.instrumentation:
                have = ", ".join(f"{known:#x}" for known in sorted({*self.streams, *self.instrumentation}))
                raise SelectionError(f"there is no stream {number:#x} in {str(self.snapshot.path)!a}: there are {have}")
        return [stream for number, stream in sorted(self.streams.items()) if not ids or number in ids]


def snapshot_at(path: str) -> TraceSnapshot:
    """Read what a snapshot folder says. Raises HeadwayError."""
    if not path:
        raise HeadwayError("the name of the trace is empty: give a snapshot folder, or a .hwt file")
    return TraceSnapshot.open(Path(path))


def _followed(flow: Flow | WaypointFlow, packets: Packets) -> Iterator[Records]:
    """Yield the records of the packets, in blocks that are not large however much the packets stand for."""
    yield flow.feed(packets)
    while isinstance(flow, WaypointFlow) and flow.waiting:
        yield flow.more()


def _chunks(buffer: CapturedBuffer, size: int, start: int = 0) -> Iterator[bytes]:
    with ExitStack() as stack:
        for path in buffer.paths:
            stream: BinaryIO
            try:
                if not path.is_file():
                    raise HeadwayError(
                        f"{str(path)!a} is not a file: the snapshot's buffer {shown(buffer.name)} should be there"
                    )
                stream = stack.enter_context(path.open("rb"))
                if start:
                    length = path.stat().st_size
                    stream.seek(min(start, length))
                    start -= min(start, length)
                while chunk := stream.read(size):
                    yield chunk
            except OSError as error:
                raise HeadwayError(f"{str(path)!a} cannot be read ({error.strerror})") from None


@dataclass(frozen=True, slots=True)
class Contents:
    """The number of bytes of each trace ID in a buffer, and a sentence if the buffer holds no trace."""

    sizes: dict[int, int]
    problem: str = ""


def _contents(buffer: CapturedBuffer) -> Contents:
    deformatter, total = _deformatter(buffer, _NO_STREAM), 0
    for chunk in _chunks(buffer, _CHUNK):
        total += len(chunk)
        if buffer.formatted:
            deformatter.feed(chunk)
    sizes = deformatter.sizes
    words = ", ".join(ascii(str(path)) for path in buffer.paths)
    if not total:
        return Contents(sizes, f"{words} is empty: there is no trace in it")
    if buffer.formatted and not any(sizes.get(number) for number in range(1, 0x70)):
        what = "is shorter than one frame of 16 bytes" if total < _FRAME else "has no frames with trace"
        return Contents(sizes, f"{words} {what}: it is not CoreSight trace, or was cut off")
    return Contents(sizes)


def _deformatter(buffer: CapturedBuffer, stream: int | None) -> Deformatter | Probe | Orbflow:
    if buffer.style is Style.ORBFLOW:
        return Orbflow(stream)
    if buffer.style is Style.PORT:
        return Probe(stream, block=0, skip=buffer.skip, starts=buffer.starts)
    return Probe(stream) if buffer.style is Style.PROBE else Deformatter(stream)


def _undecoded(source: Source) -> str:
    """Return why a source is not decoded."""
    return f"{_shown(source.protocol)} is not decoded" if source.protocol else "no device file describes it"
