"""The process that measures a test process: ``python -m headway.testing.observer PID [bpf|proc]``.

It is a separate process, so that reading and adding up figures is not counted as the test's progress. The thread that
runs a test writes a word and waits; only one write and one read remain in its figures. The observer reads when the
thread is off the processor (`headway.testing.asleep`), so even /proc gives its run time exactly
(`headway.testing.runner`).

The process reads lines from standard input and answers each with a line of JSON. ``begin`` starts measuring. ``lap
TID`` returns what happened since the last answer (`headway.testing.progress.Lap`); thread TID waits for it. ``test
TID`` does the same, and from then on the test's threads are TID and those created later. The process ends when its
input ends or when the measured process does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from headway.errors import HeadwayError
from headway.linux.options import Selection
from headway.linux.sources.choose import start_source
from headway.linux.sources.source import LinuxSource
from headway.model import Ledger, Quality, Thread
from headway.session.loop import turns

from .asleep import wait_until_asleep
from .progress import Lap, lap_of
from .runner import run_time, with_run_time

__all__ = ["PhaseObserver", "main"]

NICE = -10
"""The observer's nice value, if it may set it. A test waits for the observer, and busy neighbours would delay it."""


class PhaseObserver:
    """Readings of one process, divided into the threads of the running test and all others.

    The source must have begun. All threads that it knows by then are older than any test.
    """

    def __init__(self, source: LinuxSource, pid: int) -> None:
        self._source = source
        self._pid = pid
        self._runner = pid
        self._ran: int | None = None
        self._settled = False
        """Whether the runner waited at the last reading, so that its run time was complete."""
        ledger = source.interval()
        self._older = {thread.key for thread in ledger.threads}
        self.reasons = dict(ledger.reasons)
        """Why a figure is not exact, one clause each."""

    def lap(self, tid: int) -> Lap:
        """Return what the test's threads did since the last reading. Thread ``tid`` is about to wait for it."""
        return lap_of(self._read(wait_until_asleep(self._pid, tid) and tid == self._runner), self._belongs)

    def test(self, tid: int) -> Lap:
        """Return the same as `lap`, and begin a test, which thread ``tid`` runs. All other live threads are older."""
        sleeps = wait_until_asleep(self._pid, tid)
        ledger = self._read(sleeps and tid == self._runner)
        lap = lap_of(ledger, self._belongs)
        self._runner = tid
        self._ran, self._settled = self._run_time(), sleeps
        self._older = {thread.key for thread in ledger.threads if thread.end is None}
        return lap

    def _read(self, settled: bool) -> Ledger:
        """Return what happened since the last reading. ``settled``: the runner waits.

        Its run time is exact to the ns if it waits at both readings.
        """
        ledger = self._source.interval()
        exact, self._settled = settled and self._settled, settled
        before, self._ran = self._ran, self._run_time()
        if before is None or self._ran is None:
            return ledger
        ran = self._ran - before
        threads = tuple([with_run_time(t, ran) if self._is_runner(t) else t for t in ledger.threads])
        alone = not any(self._belongs(t) and not self._is_runner(t) for t in threads)
        unseen = any(ledger.losses.values())
        precision = ledger.precision
        if exact and alone and not unseen:
            precision = replace(precision, total=Quality.EXACT)
        return replace(ledger, threads=threads, precision=precision)

    def _run_time(self) -> int | None:
        """Return the test thread's run time in ns. Only /proc needs it; eBPF is exact by itself."""
        return run_time(self._pid, self._runner) if self._source.name == "proc" else None

    def _belongs(self, thread: Thread) -> bool:
        return thread.key not in self._older or self._is_runner(thread)

    def _is_runner(self, thread: Thread) -> bool:
        return thread.tid == self._runner and thread.pid == self._pid


def main() -> None:
    """Serve requests until the input ends, or the measured process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is for pytest, which ends this process
    pid, prefer = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
    pidfd = os.pidfd_open(pid)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, min(os.getpriority(os.PRIO_PROCESS, 0), NICE))
    with suppress(BrokenPipeError):
        if next(_requests(pidfd), None) != ["begin"]:
            return
        try:
            source, why = start_source(Selection(pids=(pid,)), prefer, intervals=True)
        except HeadwayError as error:
            _answer({"error": str(error)})
            return
        with closing(source):
            observer = PhaseObserver(source, pid)
            _answer({"source": source.name, "why_not_exact": why, "reasons": observer.reasons})
            for word, *tid in _requests(pidfd, source):
                lap = observer.test(int(tid[0])) if word == "test" else observer.lap(int(tid[0]))
                _answer(lap.to_document())


def _requests(pidfd: int, source: LinuxSource | None = None) -> Iterator[list[str]]:
    """Yield the lines of standard input, split into words, and serve the source between them."""
    service = source.service if source is not None else lambda: None
    text = b""
    for ready in turns(service, lambda: (0, pidfd, *(source.poll_fds() if source is not None else ()))):
        if 0 in ready:
            more = os.read(0, 4096)
            if not more:
                return
            *lines, text = (text + more).split(b"\n")
            for line in lines:
                yield line.decode("ascii").split()
        elif pidfd in ready:
            return


def _answer(document: dict[str, Any]) -> None:
    data = json.dumps(document, separators=(",", ":")).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    main()
