"""Measuring from beginning to end: suspend the command, start a source, serve it, wait, read, detach.

The measured program is not harmed: it gets its own signals, it is released only when the source is attached, and it
goes on if headway dies.
"""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING

from headway.dataclass import dataclass
from headway.errors import CommandFailedError, HeadwayError, SelectionError
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.choose import start_source
from headway.linux.sources.source import LinuxSource
from headway.readable import is_readable

from .child import SuspendedChild
from .loop import turns

if TYPE_CHECKING:
    from headway.model import Ledger

__all__ = [
    "Measurement",
    "Observation",
    "caught_signals",
    "measuring",
    "observe",
    "observe_command",
    "patient_collector",
    "wait_for",
]

GARBAGE = 100_000
"""Number of allocated objects at which Python's garbage collector runs."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The last ledger, and the command's exit status: minus the signal that killed it; None: there was no command."""

    ledger: Ledger
    exit_status: int | None
    why_not_exact: str


@contextmanager
def caught_signals() -> Iterator[tuple[int, list[int]]]:
    """Catch the signals that would end this process. Give a descriptor that becomes readable, and their numbers."""
    received: list[int] = []
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    old = {}
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                old[number] = signal.signal(number, note)
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # then nobody could wait for a child
            old[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        yield read, received
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        os.close(read)
        os.close(write)


@contextmanager
def patient_collector() -> Iterator[None]:
    """Collect garbage less often: an interval of 2,000 threads is ten thousand objects, none of them in a cycle."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(GARBAGE, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class _Targets:
    """The processes and threads selected by id. Measuring ends when all of them have ended."""

    def __init__(self, selection: Selection) -> None:
        self._tids = list(selection.tids)
        self._fds: dict[int, int] = {}
        self._open_ended = bool(selection.everything or selection.cgroup or selection.name or selection.cpus)
        for pid in selection.pids:
            with suppress(OSError):
                self._fds[os.pidfd_open(pid)] = pid

    @property
    def fds(self) -> tuple[int, ...]:
        return tuple(self._fds)

    def all_ended(self, ready: Set[int]) -> bool:
        """``ready``: the descriptors that are readable; a pidfd is when its process has ended."""
        for fd in ready & self._fds.keys():
            del self._fds[fd]
            os.close(fd)
        self._tids = [tid for tid in self._tids if os.path.exists(f"/proc/{tid}")]
        return not (self._open_ended or self._fds or self._tids)

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)


class Measurement:
    """A source that measures the selection, and the command that is measured, if there is one."""

    def __init__(
        self, source: LinuxSource, why_not_exact: str, child: SuspendedChild | None, targets: _Targets
    ) -> None:
        self.source, self.why_not_exact, self.child, self._targets = source, why_not_exact, child, targets

    def fds(self) -> tuple[int, ...]:
        """Return descriptors that become readable when the source has work to do, or when a target has ended."""
        child = (self.child.pidfd,) if self.child is not None and not self.child.has_ended else ()
        return (*self.source.poll_fds(), *self._targets.fds, *child)

    def is_over(self, ready: Set[int]) -> bool:
        """Whether the command, or all that was chosen, has ended; ``ready``: the descriptors that are readable.

        A descriptor of something that has ended is closed by this, and no more among `fds`.
        """
        if self.child is not None:
            return self.child.has_ended
        return self._targets.all_ended(ready)

    def last(self, *, interval: bool) -> Ledger:
        """Stop measuring. Return the last ledger: of everything, or of the last interval."""
        if self.child is not None and self.child.has_ended:
            self.source.wait_until_exit_is_seen(self.child.pid)
        return self.source.end_interval() if interval else self.source.end()


@contextmanager
def measuring(
    selection: Selection,
    command: Sequence[str] = (),
    *,
    options: MeasureOptions = MeasureOptions(),  # noqa: B008
    prefer: str | None = None,
    intervals: bool = False,
    hold: Callable[[Sequence[str]], SuspendedChild] = SuspendedChild,
    started: Callable[[LinuxSource, str], None] | None = None,
    start: Callable[[Selection], LinuxSource] | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> Iterator[Measurement]:
    """Measure from now on; the command, which ``hold`` holds, is released when all else is ready.

    Everything is let go of at the end but the command, which is still to be waited for. Raises HeadwayError where
    measuring or the command cannot be started. For the other arguments see `observe`.
    """
    child: SuspendedChild | None = None
    source: LinuxSource | None = None
    targets: _Targets | None = None
    try:
        if command:
            child = hold(command)
            selection = replace(selection, argv=child.command)
            if not selection.everything:
                selection = replace(selection, command=child.pid)
        if start is not None:
            source, why = start(selection), ""
        else:
            source, why = start_source(selection, prefer, intervals=intervals, options=options, meanwhile=meanwhile)
        targets = _Targets(selection)
        if started is not None:
            started(source, why)
        if child is not None:
            child.release()
        yield Measurement(source, why, child, targets)
    except BaseException as error:
        if child is not None:
            ended = child.ended_early
            child.give_up()
            if ended and isinstance(error, SelectionError):  # it is not there because a signal ended it
                raise CommandFailedError(f"{command[0]}: ended by a signal before it was executed", ended) from None
        raise
    finally:
        if source is not None:
            source.close()
        if targets is not None:
            targets.close()


def observe(
    selection: Selection,
    command: Sequence[str] = (),
    *,
    options: MeasureOptions = MeasureOptions(),  # noqa: B008
    prefer: str | None = None,
    seconds: float | None = None,
    interval: float | None = None,
    each: Callable[[Ledger], None] | None = None,
    stdout: int | None = None,
    started: Callable[[LinuxSource, str], None] | None = None,
    start: Callable[[Selection], LinuxSource] | None = None,
    enough: Callable[[], bool] = lambda: False,
    meanwhile: Callable[[], None] | None = None,
) -> Observation:
    """Measure until the command ends, the chosen processes end, the time is over, or SIGINT or SIGTERM comes.

    With ``interval`` (seconds) ``each`` gets a ledger of each interval, and the observation's is that of the last one.
    ``start`` gives a source of its own that measures the selection from now on; ``enough``, asked again and again, says
    whether measuring is to end, whatever else goes on. ``meanwhile`` is called while a source waits for the kernel, if
    it does: for what the caller needs later.
    SIGINT reaches a command from the terminal as it reaches us; SIGTERM and SIGHUP are passed on to it.
    Raises HeadwayError where measuring or the command cannot be started.
    """
    child: SuspendedChild | None = None
    with patient_collector(), caught_signals() as (wakeup, received):
        try:
            with measuring(
                selection,
                command,
                options=options,
                prefer=prefer,
                intervals=interval is not None,
                hold=lambda words: SuspendedChild(words, stdout, received=received),
                started=started,
                start=start,
                meanwhile=meanwhile,
            ) as measurement:
                child = measurement.child
                _serve(measurement, wakeup, received, seconds, interval, each, enough)
                ledger = measurement.last(interval=interval is not None)
        except (HeadwayError, OSError, MemoryError):
            if child is not None:  # it goes on without us, and keeps its signals
                wait_for(child, received)
            raise
        status = None if child is None else wait_for(child, received)
    return Observation(ledger, status, measurement.why_not_exact)


def observe_command(
    command: Sequence[str], *, prefer: str | None = None, stdout: int | None = None
) -> tuple[Ledger, int]:
    """Measure a command from its beginning to its end. Return its ledger and its exit status."""
    observation = observe(Selection(), command, prefer=prefer, stdout=stdout)
    return observation.ledger, observation.exit_status or 0


def _serve(
    measurement: Measurement,
    wakeup: int,
    received: list[int],
    seconds: float | None,
    interval: float | None,
    each: Callable[[Ledger], None] | None,
    enough: Callable[[], bool],
) -> None:
    source, child = measurement.source, measurement.child
    now = time.monotonic()
    deadline = None if seconds is None else now + seconds
    report = None if interval is None else now + interval

    def due() -> float | None:
        if enough():
            return 0.0
        return min((moment for moment in (deadline, report) if moment is not None), default=None)

    passed_on = 0
    for ready in turns(source.service, lambda: (wakeup, *measurement.fds()), due):
        if enough():
            return
        if wakeup in ready:
            with suppress(BlockingIOError):
                os.read(wakeup, 512)
        now = time.monotonic()
        if child is not None and child.has_ended:
            return
        if len(received) > passed_on:
            numbers, passed_on = received[passed_on:], len(received)
            if child is None:
                return
            for number in numbers:
                if number in (signal.SIGTERM, signal.SIGHUP):
                    child.send(number)
        if deadline is not None and now >= deadline:
            return
        if measurement.is_over(ready):
            return
        if report is not None and interval is not None and now >= report:
            if each is not None:
                each(source.interval())
            report = max(report + interval, now)


def wait_for(child: SuspendedChild, received: list[int], meanwhile: Callable[[], None] = lambda: None) -> int:
    """Wait for the command after measuring has ended, and pass on signals. ``meanwhile`` is called now and then."""
    passed_on = len(received)
    while not child.has_ended:
        is_readable(child.pidfd, 0.2)
        meanwhile()
        for number in received[passed_on:]:
            if number in (signal.SIGTERM, signal.SIGHUP):
                child.send(number)
        passed_on = len(received)
    return child.wait()
