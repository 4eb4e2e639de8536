"""Runs of programs on the machine: from a configuration and a program to a `Result` with the ledger.

The compiled processor simulates without Python until it needs the host. It runs for a limited number of ticks at a
time, so that Ctrl-C works, progress can be shown, and the UART's output appears while the program runs.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from headway.errors import HeadwayError
from headway.extras import explained, need
from headway.model import Cell, Ledger
from headway.trace.threads.container import MachineShape, TraceFileWriter, digest_of

from .config import RAM, TCM, Config
from .console import MAX_KEPT, Console
from .fields import shown
from .host import Host
from .image import MachineImage
from .ledger import ledger_of
from .states import name_states, polled_registers

if TYPE_CHECKING:
    from ._processor import MachineProcessor
    from .debugging import DebugSession
    from .recording import RunRecorder

__all__ = ["LATEST", "Machine", "Result", "Run", "SavedRun"]

_STRETCH = 1 << 22
"""Ticks that are simulated in one call of the compiled processor."""
_PIECE = 1 << 20
_A0, _A1 = 10, 11
LATEST = (1 << 61) - 1
"""The largest number of ticks that a run can be given."""

Progress = Callable[[int, int], bool | None]
Ended = Literal["exit", "limit", "standstill", "stopped"]


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a run."""

    ledger: Ledger
    """Threads and harts with their states. Times are in ticks, indices in cycles."""
    ended: Ended
    """How the run ended.

    "exit": the program ended it. "limit": ``max_cycles`` was reached. "standstill": every hart waits for something that
    cannot come. "stopped": the caller's ``progress`` ended it.
    """
    exit_status: int | None
    """The program's exit status, from 0 to 2^32 - 1; None if the program has not ended."""
    cycles: int
    """Ticks of the machine's clock that the run lasted."""
    instructions: int
    """Instructions that all harts together retired."""
    output: bytes
    """What the UART sent. Only the first 64 MiB are kept; to send more, a run needs an output stream."""
    console: bytes
    """What the program wrote through its host, if `Machine.run` got no output stream."""
    harts: tuple[Mapping[str, int], ...]
    """For each hart, its ``pc`` and its counters at the end, by name."""
    cores: tuple[Mapping[str, int], ...]
    """For each core, the counters of its clock at the end, by name."""
    throttled: tuple[tuple[int, int], ...]
    """For each core, how many ticks its duty cycle (``pwduty``) stopped its clock, and how often."""
    digest: str
    """A SHA-256 hash of all of this and of the memory. Two runs with equal digests were the same to the cycle."""


class Machine:
    """A machine that runs programs. Each run starts from reset.

    >>> Machine(cores=1, threads=6).config.harts
    6
    """

    def __init__(self, config: Config | None = None, **values: Any) -> None:
        """Take a configuration, or values of `Config` by name, or both. Raises HeadwayError if they are impossible."""
        if config is not None and not isinstance(config, Config):
            raise HeadwayError(f"Machine was given {shown(config)}: give a Config, or its values by name")
        self.config = Config.of(**values) if config is None else config.with_values(**values)

    def run(
        self,
        program: str | os.PathLike[str] | bytes | MachineImage,
        *,
        max_cycles: int | None = None,
        input: BinaryIO | None = None,
        output: BinaryIO | None = None,
        errors: BinaryIO | None = None,
        arguments: Sequence[str] = (),
        progress: Progress | None = None,
        trace: BinaryIO | None = None,
        recording: str | os.PathLike[str] | None = None,
    ) -> Result:
        """Run a program to its end, or for ``max_cycles`` ticks.

        ``program`` is the path of an ELF file, its bytes, or a `MachineImage`.

        ``input`` is the stream that the program reads by semihosting. ``output`` receives what the UART sends and what
        the program writes to its host, as it comes; ``errors`` receives what the program writes to descriptor 2.
        ``arguments`` follow the program's name on its command line. ``progress`` is called from time to time with the
        ticks and the instructions so far; if it returns true, the run stops there. ``trace`` receives the output of
        the trace units as a trace file (docs/trace-format.md); giving it switches them on. ``recording`` is the folder
        of a recording that is made of the run (docs/recordings.md); it must not exist.

        Raises HeadwayError if the program cannot be run, if it makes a request of its host that makes no sense, or if
        the recording cannot be written.
        """
        if max_cycles is not None and (isinstance(max_cycles, bool) or not 0 <= max_cycles <= LATEST):
            raise HeadwayError(f"max_cycles is {shown(max_cycles)}: give a whole number from 0 to {LATEST}")
        image = _image_of(program)
        image.check(self.config)
        config = _resolved(self.config, image)
        if trace is not None:
            config = replace(config, trace=replace(config.trace, enabled=True))
        processor = _loaded(config, image)
        traced = None if trace is None else TraceFileWriter(trace, _shape(config, image))
        names = name_states(image.names, config.ranges, config.polls)
        recorder = None
        if recording is not None:
            recorder = _recorder(recording, processor, config, names, [image.name, *arguments])
        run = Run(processor, config, image, names, Console(input, output, errors), arguments, traced, recorder)
        try:
            run.go(LATEST if max_cycles is None else max_cycles, progress)
            run.end_trace()
            if config.block.save:
                _save(config.block.image, processor.block_image())
            result = run.result()
            if recorder is not None:
                recorder.close(result.ledger, result.exit_status)
        finally:
            if recorder is not None:
                recorder.abandon()
        return result

    def debug(
        self,
        program: str | os.PathLike[str] | bytes | MachineImage,
        *,
        input: BinaryIO | None = None,
        output: BinaryIO | None = None,
        errors: BinaryIO | None = None,
        arguments: Sequence[str] = (),
    ) -> DebugSession:
        """Load a program, and return a session in which it can be run step by step. It is at reset.

        The parameters are as in `run`. Raises HeadwayError if the program cannot be run.
        """
        from .debugging import DebugSession

        image = _image_of(program)
        image.check(self.config)
        config = _resolved(self.config, image)
        names = name_states(image.names, config.ranges, config.polls)
        console = Console(input, output, errors)
        return DebugSession(Run(_loaded(config, image), config, image, names, console, arguments, None, None))


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run as it was at some moment. Nothing that follows changes it."""

    processor: MachineProcessor
    host: tuple[object, ...]
    output: bytes
    written: bytes
    sent_hash: Any
    ended: Ended


class Run:
    """A run in progress: the processor, its host, and the output so far."""

    def __init__(
        self,
        processor: MachineProcessor,
        config: Config,
        image: MachineImage,
        names: Mapping[int, str],
        console: Console,
        arguments: Sequence[str],
        traced: TraceFileWriter | None,
        recorder: RunRecorder | None,
    ) -> None:
        self.processor, self.config, self.image = processor, config, image
        self._console = console
        self._names, self._traced, self._recorder = names, traced, recorder
        self._host = Host(
            processor,
            console,
            # The first word of the command line is the program's name, so that a program finds its arguments after it.
            arguments=(os.path.basename(image.name).replace(" ", "_"), *arguments),
            free=image.end,
            top=RAM + config.memory.ram,
        )
        self._output = bytearray()
        self._sent_hash = hashlib.sha256()
        self.ended: Ended = "limit"
        processor.start(image.entry, image.tohost)

    @property
    def exit_status(self) -> int | None:
        """The program's exit status; None: it has not ended."""
        return self._host.exit_status

    def go(self, until: int, progress: Progress | None) -> bool:
        """Run to a tick, or to the end. Return whether a debugger's request stopped it before.

        ``ended`` says how it ended; it is "limit" if the program can go on.
        """
        from ._processor import DEBUG, HTIF, SEMIHOST, STANDSTILL

        processor = self.processor
        while True:
            stop = processor.run(min(until, processor.now + _STRETCH))
            self._drain()
            if stop == DEBUG:
                return True
            if stop == STANDSTILL:
                self.ended = "standstill"
                return False
            if stop == HTIF and self.image.tohost is not None:
                self._host.htif(self.image.tohost, self.image.fromhost)
            elif stop == SEMIHOST:
                hart = processor.stopped_hart
                operation, parameter = processor.register(hart, _A0), processor.register(hart, _A1)
                processor.set_register(hart, _A0, self._host.semihost(operation, parameter, processor.now))
            if self._host.exit_status is not None:
                self.ended = "exit"
                # The program ended before the UART sent its last bytes; the UART sends them without the processor.
                self._sent(processor.untransmitted())
                return False
            if processor.now >= until:
                return False
            if progress is not None and progress(processor.now, processor.instructions):
                self.ended = "stopped"
                return False

    def save(self) -> SavedRun:
        """Return the run as it is now. Streams are not a part of it. The run must not be traced or recorded."""
        written = bytes(self._console.written)
        sent = self._sent_hash.copy()
        return SavedRun(self.processor.copy(), self._host.state(), bytes(self._output), written, sent, self.ended)

    def restore(self, saved: SavedRun) -> None:
        """Go back to a saved moment of this run."""
        self.processor.become(saved.processor)
        self._host.set_state(saved.host)
        self._output[:] = saved.output
        self._console.written[:] = saved.written
        self._sent_hash = saved.sent_hash.copy()
        self.ended = saved.ended

    def _drain(self) -> None:
        self._sent(self.processor.transmitted())
        if not self.config.trace.buffer:
            self._keep_trace()
        if self._recorder is not None:
            self._recorder.take()

    def _keep_trace(self) -> None:
        if self._traced is not None:
            for core in range(self.config.cores):
                self._traced.add(core, self.processor.trace(core))

    def end_trace(self) -> None:
        """Write everything that the trace units still hold, and close the trace."""
        if self._traced is not None:
            self.processor.end_trace()
            self._keep_trace()
            self._traced.close()

    def _sent(self, sent: bytes) -> None:
        self._sent_hash.update(sent)
        if len(self._output) + len(sent) <= MAX_KEPT:
            self._output += sent
        elif self._console.keeps:
            raise HeadwayError(f"the UART sends more than {MAX_KEPT >> 20} MiB: give run() an output stream")
        if not self._console.keeps:
            self._console.write(sent)

    def result(self) -> Result:
        """Return the result so far."""
        processor = self.processor
        ledger = ledger_of(
            processor.threads(),
            processor.processors(),
            until=processor.now,
            names=self._names,
            losses=processor.losses,
            polled=polled_registers(self.config.polls),
        )
        found = Result(
            ledger=ledger,
            ended=self.ended,
            exit_status=self._host.exit_status,
            cycles=processor.now,
            instructions=processor.instructions,
            output=bytes(self._output),
            console=bytes(self._console.written),
            harts=tuple(dict(processor.hart(number)) for number in range(self.config.harts)),
            cores=tuple(dict(processor.core(number)) for number in range(self.config.cores)),
            throttled=tuple(processor.throttled(number) for number in range(self.config.cores)),
            digest="",
        )
        return replace(found, digest=self._digest(found))

    def _digest(self, found: Result) -> str:
        memory = hashlib.sha256()
        for start, size in ((RAM, self.config.memory.ram), (TCM, self.config.memory.tcm)):
            for at in range(start, start + size, _PIECE):
                memory.update(self.processor.read(at, min(_PIECE, start + size - at)))
        everything = [
            [found.ended, found.exit_status, found.cycles, found.instructions, memory.hexdigest()],
            [self._sent_hash.hexdigest(), hashlib.sha256(self.processor.block_image()).hexdigest()],
            [sorted(hart.items()) for hart in (*found.harts, *found.cores)],
            sorted((name, n) for name, n in found.ledger.losses.items() if n),
            [[t.tid, t.pid, t.name, t.start, t.end, _canonical(t.states)] for t in found.ledger.threads],
            [[p.cpu, _canonical(p.states)] for p in found.ledger.processors],
        ]
        return hashlib.sha256(json.dumps(everything).encode()).hexdigest()


def _canonical(states: Mapping[str, Cell]) -> list[object]:
    return [
        [
            *(state, cell.time, cell.count, cell.cycles, cell.instructions),
            *(cell.stall_cycles, cell.memory_stall_cycles, cell.external_stall_cycles),
            sorted((cell.events or {}).items()),
        ]
        for state, cell in sorted(states.items())
    ]


def _image_of(program: object) -> MachineImage:
    if isinstance(program, MachineImage):
        return program
    if isinstance(program, (bytes, bytearray, memoryview)):
        return MachineImage.of(bytes(program))
    if isinstance(program, (str, os.PathLike)):
        return MachineImage.load(program)
    raise HeadwayError(f"the program is {shown(program)}: give the path of an ELF file, or its bytes")


def _shape(config: Config, image: MachineImage) -> MachineShape:
    return MachineShape(
        cores=config.cores,
        threads=config.threads,
        strict=config.issue == "strict",
        cycle_accurate=config.trace.cycle_accurate,
        window=config.power.window,
        program=digest_of((segment.address, segment.data) for segment in image.segments),
        name=os.path.basename(image.name)[:255],
        counters=config.trace.counted_sources(),
    )


def _resolved(config: Config, image: MachineImage) -> Config:
    """Return the configuration with the symbols of ranges and triggers replaced by their addresses."""
    triggers = []
    for number, trigger in enumerate(config.trace.triggers):
        if trigger.symbol:
            places = {**image.objects, **image.functions}
            if trigger.symbol not in places:
                raise HeadwayError(
                    f"trace.triggers[{number}].symbol is {shown(trigger.symbol)}, but {image.name} has no function or "
                    "variable of that name"
                )
            start, end = places[trigger.symbol]
            trigger = replace(trigger, symbol="", first=start, second=end if trigger.range else 0)
        triggers.append(trigger)
    config = replace(config, trace=replace(config.trace, triggers=tuple(triggers)))
    ranges = []
    for number, part in enumerate(config.ranges):
        if part.symbol:
            if part.symbol not in image.functions:
                raise HeadwayError(
                    f"ranges[{number}].symbol is {shown(part.symbol)}, but {image.name} has no function of that name"
                )
            start, end = image.functions[part.symbol]
            part = replace(part, symbol="", start=start, end=end)
        ranges.append(part)
    return replace(config, ranges=tuple(ranges))


def _loaded(config: Config, image: MachineImage) -> MachineProcessor:
    processor = _processor(config)
    for segment in image.segments:
        processor.write(segment.address, segment.data)
    return processor


def _processor(config: Config) -> MachineProcessor:
    try:
        from ._processor import MachineProcessor
    except ImportError as error:
        left_out = explained(error) if isinstance(error, ModuleNotFoundError) else None
        raise left_out or HeadwayError(
            f"the machine's compiled part cannot be loaded ({error}): install headway again, with a C compiler"
        ) from None
    try:
        return MachineProcessor(config)
    except MemoryError:
        raise HeadwayError("there is not enough memory for this machine: give it less memory.ram") from None


def _recorder(
    path: str | os.PathLike[str],
    processor: MachineProcessor,
    config: Config,
    names: Mapping[int, str],
    command: Sequence[str],
) -> RunRecorder:
    need("recording")
    from .recording import recorder_to

    return recorder_to(path, processor, config, names, command)


def _save(path: str, contents: bytes) -> None:
    try:
        with open(path, "r+b") as stream:
            stream.write(contents)
    except OSError as error:
        raise HeadwayError(f"{shown(path)} (block.image) cannot be written ({error.strerror})") from None
