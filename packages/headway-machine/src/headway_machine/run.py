"""A run in progress, and its result: the processor, the host that the program calls, and the output so far.

The compiled processor simulates without Python until it needs the host. It runs for a limited number of ticks at a
time, so that Ctrl-C works, progress can be shown, and the UART's output appears while the program runs.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from headway.errors import HeadwayError
from headway.model import Ledger
from headway_trace.threads.container import TraceFileWriter

from .config import RAM, Config
from .console import MAX_KEPT, Console
from .digest import RunDigest
from .host import Host
from .image import MachineImage
from .ledger import ledger_of
from .recent import RecentTrace, TracedRow
from .states import polled_registers
from .watchdog import PATIENCE, Still, Watchdog

if TYPE_CHECKING:
    from ._processor import MachineProcessor
    from .recording import RunRecorder

__all__ = ["LATEST", "Observing", "Progress", "Result", "Run", "SavedRun", "Stuck"]

_STRETCH = 1 << 22
"""Ticks that are simulated in one call of the compiled processor."""
_STRETCH_OF_SIGNALS = 1 << 16
"""The same while signals are told, which take a hundred bytes or so a tick."""
_A0, _A1 = 10, 11
LATEST = (1 << 61) - 1
"""The largest number of ticks that a run can be given."""

Progress = Callable[[int, int], bool | None]
Stuck = Callable[[Sequence[Still]], None]
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
    still: tuple[Still, ...]
    """The harts that had made no progress for a while when the run ended, other than by itself."""
    _digest: RunDigest = field(repr=False, compare=False)

    @property
    def digest(self) -> str:
        """A SHA-256 hash of all of this and of the memory. Two runs with equal digests were the same to the cycle.

        It is computed when it is asked for first. Until then, the result keeps the memory that the program has used.
        """
        figures: list[object] = [self.ended, self.exit_status, self.cycles, self.instructions]
        return self._digest.of(figures, [*self.harts, *self.cores], self.ledger)


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run as it was at some moment. Nothing that follows changes it."""

    processor: MachineProcessor
    host: tuple[object, ...]
    output: bytes
    written: bytes
    heard: tuple[bytes, ...]
    sent_hash: Any
    ended: Ended


class Observing(Protocol):
    """What looks at a run while it goes on, between two instructions: `headway_machine.observer.Observer`."""

    @property
    def next(self) -> int:
        """The tick at which it wants to look next."""
        ...

    def begin(self, run: Run) -> None:
        """Take the run, which is at reset."""
        ...

    def look(self, run: Run) -> None:
        """Look at the run, which is at the tick ``next``. It may let the run go on a little, within the run's limit."""
        ...


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
        signals: Callable[[bytes], object] | None = None,
        observer: Observing | None = None,
    ) -> None:
        self.processor, self.config, self.image = processor, config, image
        self._console = console
        self.names, self._traced, self._recorder, self._signals = names, traced, recorder, signals
        self._stretch = _STRETCH if signals is None else _STRETCH_OF_SIGNALS
        self._observer = observer
        self._recent: RecentTrace | None = None
        self._limit = LATEST  # of all that runs now: what looks at a run may let it go on
        if signals is not None:
            processor.tell_signals()
        self.arguments = tuple(arguments)
        self._host = Host(
            processor,
            console,
            # The first word of the command line is the program's name, so that a program finds its arguments after it.
            arguments=(os.path.basename(image.name).replace(" ", "_"), *arguments),
            free=image.end,
            top=RAM + config.memory.ram,
        )
        self._watchdog = Watchdog(names, image.functions)
        self._output = bytearray()
        self._sent_hash = hashlib.sha256()
        self._at_reset = self._host.state()
        self.ended: Ended = "limit"
        processor.start(image.entry, image.tohost)
        if observer is not None:
            observer.begin(self)

    @property
    def exit_status(self) -> int | None:
        """The program's exit status; None: it has not ended."""
        return self._host.exit_status

    def go(self, until: int, progress: Progress | None, stuck: Stuck | None = None) -> bool:
        """Run to a tick, or to the end. Return whether a debugger's request stopped it before.

        ``ended`` says how it ended; it is "limit" if the program can go on.
        """
        from ._processor import DEBUG, HTIF, SEMIHOST, STANDSTILL

        processor = self.processor
        until = min(until, self._limit)
        said = False
        looked = processor.now
        while True:
            pause = min(until, processor.now + self._stretch)
            if self._observer is not None:
                pause = min(pause, self._observer.next)
            stop = processor.run(pause)
            self._drain()
            if processor.now - looked >= _STRETCH:
                looked = processor.now
                self._watchdog.look(looked, processor.processors())
                if self._watchdog.quiet < PATIENCE:
                    said = False
                elif stuck is not None and not said:
                    said = True
                    stuck(self._still())
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
            if self._observer is not None and processor.now == self._observer.next:
                before, self._limit = self._limit, until
                self._observer.look(self)
                self._limit = before
                if self.ended != "limit":
                    return False
            if processor.now >= until:
                return False
            if progress is not None and progress(processor.now, processor.instructions):
                self.ended = "stopped"
                return False

    def save(self) -> SavedRun:
        """Return the run as it is now. Streams are not a part of it. The run must not be traced or recorded."""
        written, heard = bytes(self._console.written), tuple(self._console.heard)
        sent = self._sent_hash.copy()
        return SavedRun(
            self.processor.copy(), self._host.state(), bytes(self._output), written, heard, sent, self.ended
        )

    def restore(self, saved: SavedRun) -> None:
        """Go back to a saved moment of this run."""
        self.processor.become(saved.processor)
        self._host.set_state(saved.host)
        self._output[:] = saved.output
        self._console.written[:] = saved.written
        self._console.heard[:] = saved.heard
        self._sent_hash = saved.sent_hash.copy()
        self.ended = saved.ended
        self.keep_recent()
        self._watchdog = Watchdog(self.names, self.image.functions)

    @property
    def heard(self) -> tuple[bytes, ...]:
        """What the program has read from its input, read by read, since `remember`."""
        return tuple(self._console.heard)

    def remember(self) -> None:
        """Keep what the program reads from its input."""
        self._console.remembers = True

    @contextmanager
    def again(self, processor: MachineProcessor, heard: Sequence[bytes]) -> Iterator[None]:
        """Do the run again from reset, with a processor that has the program, while the context lasts.

        The program reads what it has ``heard`` before, and nothing is written to streams.
        """
        processor.start(self.image.entry, self.image.tohost)
        self.restore(SavedRun(processor, self._at_reset, b"", b"", (), hashlib.sha256(), "limit"))
        self._console.again = list(heard)
        try:
            yield
        finally:
            self._console.again = None

    def _drain(self) -> None:
        self._sent(self.processor.transmitted())
        if not self.config.trace.buffer:
            self._keep_trace()
        if self._recorder is not None:
            self._recorder.take()
        if self._signals is not None:
            self._signals(self.processor.signals())

    def _keep_trace(self) -> None:
        if self._traced is None and self._recent is None:
            return
        for core in range(self.config.cores):
            data = self.processor.trace(core)
            if self._traced is not None:
                self._traced.add(core, data)
            if self._recent is not None:
                self._recent.add(core, data)

    def end_trace(self) -> None:
        """Write everything that the trace units still hold, and close the trace. Nothing may run afterwards."""
        if self._traced is not None:
            self.processor.end_trace()
            self._keep_trace()
            self._traced.close()
            self._traced = None

    @property
    def traced(self) -> bool:
        """Whether a trace is written."""
        return self._traced is not None

    def end_trace_for_now(self) -> bool:
        """Complete the trace as if the run ended now. What runs next takes that back.

        Return False if there is no trace, or if its stream cannot go back.
        """
        return self._traced is not None and self._traced.end_for_now(self.processor.trace_so_far())

    def keep_recent(self) -> None:
        """Keep the ends of the trace units' streams for `recent`, if there are trace units: from now on."""
        if self.config.trace.enabled:
            self._recent = RecentTrace(self.config, self.image)

    def recent(self, hart: int, count: int) -> list[TracedRow]:
        """Return what a hart did last. Raises HeadwayError if nothing of it is kept."""
        if self._recent is None:
            raise HeadwayError("there is no trace: give --trace, or set trace.enabled in the configuration")
        return self._recent.of(hart, self.processor.trace_so_far()[hart // self.config.threads], count)

    def _sent(self, sent: bytes) -> None:
        self._sent_hash.update(sent)
        if len(self._output) + len(sent) <= MAX_KEPT:
            self._output += sent
        elif self._console.keeps:
            raise HeadwayError(f"the UART sends more than {MAX_KEPT >> 20} MiB: give run() an output stream")
        if not self._console.keeps:
            self._console.write(sent)

    def _still(self) -> tuple[Still, ...]:
        """Return the harts that have made no progress for as long as a stretch, or longer."""
        processor = self.processor
        self._watchdog.look(processor.now, processor.processors())
        pcs = {number: processor.hart(number)["pc"] for number in range(self.config.harts)}
        return self._watchdog.still(processor.processors(), pcs, _STRETCH)

    def result(self, *, over: bool = False) -> Result:
        """Return the result so far. ``over``: nothing will run any more, so the digest waits until it is asked for."""
        processor = self.processor
        ledger = ledger_of(
            processor.threads(),
            processor.processors(),
            until=processor.now,
            names=self.names,
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
            still=self._still() if self.ended in ("limit", "stopped") else (),
            _digest=RunDigest(processor, self.config, self._sent_hash.hexdigest()),
        )
        if not over:
            _ = found.digest
        return found
