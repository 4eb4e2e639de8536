"""Measuring commands one after the other, each from its execution to its exit.

One eBPF source measures all of them: it is loaded and calibrated once, so a run costs little more than the command, and
an error of the calibration is the same in all runs. /proc has no such state, and each command gets a source of its own;
so do commands with marked functions, which are found in the command's own program.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

from headway.dataclass import dataclass
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.choose import start_source
from headway.linux.sources.ebpf import BpfSource
from headway.linux.sources.source import LinuxSource
from headway.model import Ledger

from .child import SuspendedChild
from .loop import turns

__all__ = ["CommandMeter", "InterruptedRunError", "MeasuredCommand"]


class InterruptedRunError(Exception):
    """A signal ended the measuring before the command had ended."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        """The signal."""


@dataclass(frozen=True, slots=True)
class MeasuredCommand:
    """One run of a command."""

    ledger: Ledger
    """What happened from just before its execution to its exit, of threads of earlier commands too."""
    pid: int
    since: int
    """A moment before it was executed, in ns of CLOCK_MONOTONIC."""
    wall: int
    """The time from then until its exit was noticed, in ns."""
    exit_status: int
    """Its exit status, or minus the number of the signal that killed it."""


class CommandMeter:
    """Measures commands; a context manager, within `caught_signals`, whose results are ``wakeup`` and ``received``.

    ``selection`` says how threads are measured, not which. ``started`` gets the first source, and why it is not the
    exact one. ``show_output``: the commands have our standard streams, else none.
    """

    def __init__(
        self,
        selection: Selection,
        options: MeasureOptions,
        prefer: str | None,
        wakeup: int,
        received: Sequence[int],
        *,
        started: Callable[[LinuxSource, str], None] | None = None,
        show_output: bool = False,
    ) -> None:
        self._selection, self._options, self._prefer = selection, options, prefer
        self._wakeup, self._received = wakeup, received
        self._started = started
        self._source: LinuxSource | None = None
        self._nowhere = -1 if show_output else os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()
        if self._nowhere >= 0:
            os.close(self._nowhere)
            self._nowhere = -1

    def run(self, command: Sequence[str]) -> MeasuredCommand:
        """Run a command and measure it.

        Raises HeadwayError where measuring or the command cannot be started, and InterruptedRunError if a signal came;
        the command has then ended.
        """
        nowhere = None if self._nowhere < 0 else self._nowhere
        child = SuspendedChild(command, nowhere, stdin=nowhere, stderr=nowhere, received=self._received)
        try:
            source = self._measure(child)
            since = time.monotonic_ns()
            child.release()
        except BaseException:
            child.give_up()
            raise
        try:
            self._serve(source, child)
            wall = time.monotonic_ns() - since
            source.wait_until_exit_is_seen(child.pid)
            ledger = source.interval() if self._keeps(source) else source.end()
        except BaseException:
            child.send(signal.SIGKILL)
            child.wait()
            raise
        measured = MeasuredCommand(ledger, child.pid, since, wall, child.wait())
        if not self._keeps(source):
            self._let_go()
        return measured

    def _keeps(self, source: LinuxSource) -> bool:
        return isinstance(source, BpfSource) and not self._options.functions

    def _measure(self, child: SuspendedChild) -> LinuxSource:
        """Have a source measure the child from its execution on. Nothing before that is in the next ledger."""
        source = self._source
        if isinstance(source, BpfSource):
            source.interval()
            source.measure_command(child.pid)
            return source
        selection = replace(self._selection, command=child.pid, argv=child.command)
        source, why = start_source(selection, self._prefer, intervals=True, forget=True, options=self._options)
        self._source = source
        if self._started is not None:
            self._started(source, why)
            self._started = None
        if self._keeps(source):
            source.interval()
        return source

    def _serve(self, source: LinuxSource, child: SuspendedChild) -> None:
        """Serve the source until the child has ended."""
        for ready in turns(source.service, lambda: (self._wakeup, child.pidfd, *source.poll_fds())):
            if child.has_ended:
                return
            if self._wakeup in ready:
                with suppress(BlockingIOError):
                    os.read(self._wakeup, 512)
            if self._received:
                number = self._received[-1]
                if number in (signal.SIGTERM, signal.SIGHUP):  # others reach it from the terminal, as they reach us
                    child.send(number)
                self._wait_a_little(child)
                raise InterruptedRunError(number)

    def _wait_a_little(self, child: SuspendedChild) -> None:
        """Give the child the time to end by itself."""
        late = time.monotonic() + 1.0
        while not child.has_ended and time.monotonic() < late:
            time.sleep(0.01)

    def _let_go(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None
