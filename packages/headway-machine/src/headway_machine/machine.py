"""The machine: from a configuration and a program to a run, and its `Result` with the ledger."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

from headway.errors import HeadwayError
from headway.extras import explained, need
from headway_trace.etrace.parameters import encoder_parameters
from headway_trace.threads.container import MachineShape, TraceFileWriter, digest_of

from .config import Config
from .console import Console
from .debugging import DebugSession
from .fields import shown
from .image import MachineImage
from .run import LATEST, Progress, Result, Run, Stuck
from .states import name_states

if TYPE_CHECKING:
    from ._processor import MachineProcessor
    from .observer import Observer
    from .recording import RunRecorder

__all__ = ["Machine", "resolved"]


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
        stuck: Stuck | None = None,
        trace: BinaryIO | None = None,
        recording: str | os.PathLike[str] | None = None,
        signals: Callable[[bytes], object] | None = None,
        observer: Observer | None = None,
    ) -> Result:
        """Run a program to its end, or for ``max_cycles`` ticks.

        ``program`` is the path of an ELF file, its bytes, or a `MachineImage`.

        ``input`` is the stream that the program reads by semihosting. ``output`` receives what the UART sends and what
        the program writes to its host, as it comes; ``errors`` receives what the program writes to descriptor 2.
        ``arguments`` follow the program's name on its command line. ``progress`` is called from time to time with the
        ticks and the instructions so far; if it returns true, the run stops there. ``stuck`` is called with the harts
        when none has made progress for 20,000,000 ticks, once each time. ``trace`` receives the output of the trace
        units as a trace file (trace-format.md of headway-trace); giving it switches them on. ``recording`` is the
        folder of a recording that is made of the run (recordings.md of headway); it must not exist. ``signals`` is
        called from time to time with what the cores told their progress units since the last call (``signals.pxd``).
        ``observer`` takes progress over time, and each cycle of a window.

        Raises HeadwayError if the program cannot be run, if it makes a request of its host that makes no sense, or if
        the recording cannot be written.
        """
        if max_cycles is not None and (isinstance(max_cycles, bool) or not 0 <= max_cycles <= LATEST):
            raise HeadwayError(f"max_cycles is {shown(max_cycles)}: give a whole number from 0 to {LATEST}")
        image = _image_of(program)
        image.check(self.config)
        config = resolved(self.config, image)
        if trace is not None:
            config = replace(config, trace=replace(config.trace, enabled=True))
        processor = _loaded(config, image)
        traced = None if trace is None else TraceFileWriter(trace, _shape(config, image), _etrace(config))
        names = name_states(image.names, config.ranges, config.polls)
        recorder = None
        if recording is not None:
            recorder = _recorder(recording, processor, config, names, image, arguments)
        console = Console(input, output, errors)
        run = Run(processor, config, image, names, console, arguments, traced, recorder, signals, observer)
        try:
            run.go(LATEST if max_cycles is None else max_cycles, progress, stuck)
            if observer is not None:
                observer.end(run)
            run.end_trace()
            if config.block.save:
                _save(config.block.image, processor.block_image())
            result = run.result(over=True)
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
        trace: BinaryIO | None = None,
    ) -> DebugSession:
        """Load a program, and return a session in which it can be run step by step. It is at reset.

        The parameters are as in `run`. Raises HeadwayError if the program cannot be run.
        """
        image = _image_of(program)
        image.check(self.config)
        config = resolved(self.config, image)
        if trace is not None:
            config = replace(config, trace=replace(config.trace, enabled=True))
        names = name_states(image.names, config.ranges, config.polls)
        console = Console(input, output, errors)
        processor = _loaded(config, image)
        traced = None if trace is None else TraceFileWriter(trace, _shape(config, image), _etrace(config))
        run = Run(processor, config, image, names, console, arguments, traced, None)
        run.keep_recent()
        return DebugSession(run, lambda: _loaded(config, image))


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
        program=_digest(image),
        name=os.path.basename(image.name)[:255],
        counters=config.trace.counted_sources(config.threads),
    )


def _etrace(config: Config) -> dict[str, Any] | None:
    """Return the parameters of the encoders of E-Trace; None if the trace units make other packets."""
    if config.trace.format != "etrace":
        return None
    trace = config.trace
    found = encoder_parameters(sources=config.harts, timed=trace.cycle_accurate, options=trace.etrace_options())
    return found.described()


def resolved(config: Config, image: MachineImage) -> Config:
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
    image: MachineImage,
    arguments: Sequence[str],
) -> RunRecorder:
    need("recording")
    from .recording import recorder_to

    return recorder_to(path, processor, config, names, [image.name, *arguments], _digest(image))


def _digest(image: MachineImage) -> str:
    return digest_of((segment.address, segment.data) for segment in image.segments)


def _save(path: str, contents: bytes) -> None:
    try:
        with open(path, "r+b") as stream:
            stream.write(contents)
    except OSError as error:
        raise HeadwayError(f"{shown(path)} (block.image) cannot be written ({error.strerror})") from None
