"""Spans of this process, measured by a separate process: phases of tests, and blocks within them.

Spans may be nested. At each beginning and end the observer (`headway.testing.observer`) is asked for what happened
since the last request. That interval, a lap, belongs to every open span. A lap leaves only one write to a pipe and one
read in the figures; the observer's answers are parsed when the span is over.

The moment at which the observer reads lies within a request, and the thread that asks runs before it and after it. So a
span's time from beginning to end has the whole requests at its ends and within it, less the time for which the thread
was off the processor in them. A thread's progress is never more than that time, however long the thread runs in a
request: interrupts, a signal's handler or a garbage collection may come there.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from headway.errors import HeadwayError

from .progress import Lap, PhaseProgress, together

__all__ = ["Meter", "Span"]

PATIENCE = 120_000
"""Milliseconds to wait for an answer, even on a very busy machine."""
EMPTY = 9
"""The number of empty spans measured at the beginning. They show what measuring leaves in the figures of a test."""


@dataclass(slots=True, eq=False)
class Span:
    """A span that is being measured, or has been."""

    thread: int
    """The thread that began it."""
    since: int
    """When it began, by that thread's clock (`Meter`)."""
    answers: list[bytes] = field(default_factory=list)
    wall: int = 0
    """Time from beginning to end by that clock, in ns. It is set when the span is over."""

    @property
    def laps(self) -> list[Lap]:
        """The figures of the span, lap by lap."""
        return [Lap.of_document(json.loads(answer)) for answer in self.answers]

    @property
    def progress(self) -> PhaseProgress:
        """The figures of the span."""
        return together((self.laps, self.wall))


class Meter:
    """Measures this process from `begin` on. ``prefer``: use only this source, ``bpf`` or ``proc``; None: the best.

    Each thread has a clock that stands still while the thread is off the processor in a request.
    """

    def __init__(self, prefer: str | None = None) -> None:
        self.source = ""
        """``bpf`` or ``proc``, after `begin`."""
        self.why_not_exact = ""
        """Why the source is not eBPF, in words; empty if it is."""
        self.reasons: dict[str, str] = {}
        """Why a figure is not exact, by name."""
        self.floor: PhaseProgress | None = None
        """The figures of an empty span."""
        self.cost = 0
        """Time for which threads were off the processor in requests so far, in ns."""
        self._owner = os.getpid()
        self._open: list[Span] = []
        self._stood: dict[int, int] = {}
        """The time for which the clocks of threads stood still, in ns."""
        self._due = 0
        self._text = b""
        self._lock = threading.RLock()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, "-m", "headway.testing.observer", str(os.getpid()), *([prefer] if prefer else [])]
        try:
            # Start in a new session: a signal from the terminal that ends pytest must not end it. It ends with its
            # input.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, start_new_session=True
            )
        except OSError as error:
            self._said.close()
            raise HeadwayError(
                f"{sys.executable} cannot be started to measure the tests ({error.strerror}): run without --headway"
            ) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._from, select.POLLIN)

    def begin(self) -> None:
        """Start measuring, and wait until it has begun. Raises HeadwayError if that fails."""
        self._ask(b"begin\n")
        found = json.loads(self._text)
        if "error" in found:
            raise HeadwayError(found["error"])
        self.source, self.why_not_exact, self.reasons = found["source"], found["why_not_exact"], found["reasons"]
        self.open(test=True)
        empty = [self._empty() for _ in range(EMPTY)]
        self.floor = sorted(empty, key=lambda span: span.epi or 0)[EMPTY // 2]
        self.cost = 0

    @property
    def here(self) -> bool:
        """Whether this is the measured process, and not a copy of it made by fork(2), which must not use the meter."""
        return os.getpid() == self._owner

    def open(self, *, test: bool = False) -> Span:
        """Begin a span. ``test``: it is a test's first, so all threads that exist now, except this one, are older than
        the test.

        Raises HeadwayError if the observer has ended.
        """
        thread = threading.get_ident()
        with self._request(thread) as since:
            span = Span(thread, since)
            if test:  # spans left open do not belong to any test
                self._open.clear()
            self._lap(b"test" if test else b"lap")
            if self._open:
                self._share()
            else:  # do as little as possible here, because it is measured as part of the span
                self._text = b""
            self._open.append(span)
            return span

    def close(self, span: Span) -> None:
        """End the span. Raises HeadwayError if the observer has ended."""
        with self._request(threading.get_ident()):
            self._lap(b"lap")
            self._share()
            self._open.remove(span)
        span.wall = self._clock(span.thread) - span.since

    @contextmanager
    def _request(self, thread: int) -> Iterator[int]:
        """Keep other threads from asking. Yield the time of this thread's clock when the request began.

        The processor time is read around the time that passed, so a clock never stands still while its thread runs.
        """
        ran, began = time.thread_time_ns(), time.monotonic_ns()
        stood = self._stood.get(thread, 0)
        with self._lock:
            cost = self.cost
            try:
                yield began - stood
            finally:  # a signal's handler may have asked meanwhile: what that added is within this
                off = max(time.monotonic_ns() - began - (time.thread_time_ns() - ran), 0)
                self._stood[thread] = stood + off
                self.cost = cost + off

    def _clock(self, thread: int) -> int:
        return time.monotonic_ns() - self._stood.get(thread, 0)

    def _empty(self) -> PhaseProgress:
        span = self.open()
        self.close(span)
        return span.progress

    def _share(self) -> None:
        """Add the observer's answer to every open span."""
        answers = self._text.splitlines()
        self._text = b""
        for span in self._open:
            span.answers += answers

    def _lap(self, word: bytes) -> None:
        """Have a lap read in which this thread waits."""
        self._ask(b"%b %d\n" % (word, threading.get_native_id()))

    def _ask(self, request: bytes) -> None:
        """Send a request and wait for all answers due. A signal handler may have interrupted an earlier wait."""
        self._due += 1
        try:
            os.write(self._to, request)
        except OSError:
            raise self._ended() from None
        while self._due > 0:
            try:
                if not self._poll.poll(PATIENCE):
                    self._process.kill()
                    raise HeadwayError(f"the process that measures the tests did not answer for {PATIENCE // 1000} s")
                more = os.read(self._from, 65536)
            except OSError:
                more = b""
            if not more:
                raise self._ended()
            self._text += more
            self._due -= more.count(b"\n")

    def _ended(self) -> HeadwayError:
        """Return the error for an observer that does not answer."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        status = self._process.poll()
        how = "does not answer" if status is None else f"ended by signal {-status}" if status < 0 else "ended"
        self._said.seek(0)
        words = self._said.read().decode("utf-8", "backslashreplace").strip().splitlines()
        last = f", it said: {words[-1]}" if words else ""
        return HeadwayError(f"the process that measures the tests (PID {self._process.pid}) {how}{last}")

    def end(self) -> None:
        """Stop measuring and end the observer. It may be called more than once."""
        if not self.here:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()
