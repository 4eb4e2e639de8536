"""The process that measures a test process, beside it: ``python -m headway.testing.observer PID [bpf|proc]``.

It is a process of its own so that reading and adding up is nobody's progress: the thread that runs a test writes a word
and waits, and what is left of that in its figures are a write and a read. While it waits it is off the processor, so
that even /proc tells its run time exactly (`headway.testing.runner`).

It takes lines from standard input and answers each with a line of JSON: ``begin`` starts measuring; ``lap`` gives what
happened since the last answer (`headway.testing.progress.Lap`); ``test TID`` does so too, and from then on the test's
threads are TID and those created later. It ends when its input or the process that it measures does.
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

from .progress import Lap, lap_of
from .runner import run_time, with_run_time

__all__ = ["Observer", "main"]

NICE = -10
"""The observer's priority, where it may: a test waits for it, and beside busy neighbours that would be long."""


class Observer:
    """Readings of one process, divided into the threads of the test that runs and all others.

    The source has begun; all threads that it knows by then are older than any test.
    """

    def __init__(self, source: LinuxSource, pid: int) -> None:
        self._source = source
        self._pid = pid
        self._runner = pid
        self._ran: int | None = None
        ledger = source.interval()
        self._older = {thread.key for thread in ledger.threads}
        self.reasons = dict(ledger.reasons)
        """Why a figure is not exact, in a clause each."""

    def lap(self) -> Lap:
        """What the test's threads did since the last reading."""
        return lap_of(self._read(), self._belongs)

    def test(self, tid: int) -> Lap:
        """The same, and from now on thread ``tid`` runs a new test, and all other threads that live are older."""
        ledger = self._read()
        lap = lap_of(ledger, self._belongs)
        self._runner = tid
        self._ran = self._run_time()
        self._older = {thread.key for thread in ledger.threads if thread.end is None}
        return lap

    def _read(self) -> Ledger:
        """What happened since the last reading; of the thread that runs the test, which waits, to the nanosecond."""
        ledger = self._source.interval()
        before, self._ran = self._ran, self._run_time()
        if before is None or self._ran is None:
            return ledger
        ran = self._ran - before
        threads = tuple([with_run_time(t, ran) if self._is_runner(t) else t for t in ledger.threads])
        alone = not any(self._belongs(t) and not self._is_runner(t) for t in threads)
        unseen = any(ledger.losses.values())
        precision = ledger.precision
        if alone and not unseen:
            precision = replace(precision, total=Quality.EXACT)
        return replace(ledger, threads=threads, precision=precision)

    def _run_time(self) -> int | None:
        """Where the source is eBPF it needs no help."""
        return run_time(self._pid, self._runner) if self._source.name == "proc" else None

    def _belongs(self, thread: Thread) -> bool:
        return thread.key not in self._older or self._is_runner(thread)

    def _is_runner(self, thread: Thread) -> bool:
        return thread.tid == self._runner and thread.pid == self._pid


def main() -> None:
    """Serve until the input ends, or the process that is measured."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from the terminal: it is for pytest, which ends us
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
            observer = Observer(source, pid)
            _answer({"source": source.name, "why_not_exact": why, "reasons": observer.reasons})
            for word, *tid in _requests(pidfd, source):
                lap = observer.test(int(tid[0])) if word == "test" else observer.lap()
                _answer(lap.to_document())


def _requests(pidfd: int, source: LinuxSource | None = None) -> Iterator[list[str]]:
    """The lines of standard input, in words; between them the source is seen to."""
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
