"""Spans of this process that are measured by a process beside it: phases of tests, and blocks within them.

Spans may be within each other. At each of their edges the observer (`headway.testing.observer`) is asked for what
happened since the last edge, and that belongs to every span that is open. What a lap leaves in the figures is a write
to a pipe and a read from one; what the observer says is looked at when the span is over.
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
from contextlib import suppress
from dataclasses import dataclass, field

from headway.errors import HeadwayError

from .progress import Lap, Progress, together

__all__ = ["Meter", "Span"]

PATIENCE = 120_000
"""Milliseconds to wait for an answer: a machine may be very busy, but not for ever."""
EMPTY = 9
"""Spans of nothing, measured to find what is left in the figures of a test that does nothing."""
_LAP = b"lap\n"


@dataclass(slots=True, eq=False)
class Span:
    """What is measured, while it is."""

    answers: list[bytes] = field(default_factory=list)
    since: int = 0
    paused: int = 0
    """Time that laps took meanwhile, ns."""
    wall: int = 0
    """Time from its beginning to its end, without that, ns; once it is over."""

    @property
    def laps(self) -> list[Lap]:
        """What it had, lap by lap."""
        return [Lap.of_document(json.loads(answer)) for answer in self.answers]

    @property
    def progress(self) -> Progress:
        """What it had."""
        return together((self.laps, self.wall))


class Meter:
    """Measures this process from `begin` on. ``prefer``: ``bpf`` or ``proc``, and no other source; None: the best."""

    def __init__(self, prefer: str | None = None) -> None:
        self.source = ""
        """``bpf`` or ``proc``, once it has begun."""
        self.why_not_exact = ""
        """Why it is not eBPF, in words; empty if it is."""
        self.reasons: dict[str, str] = {}
        """Why a figure is not exact."""
        self.floor: Progress | None = None
        """What a span of nothing has."""
        self.cost = 0
        """Time that laps took so far, ns."""
        self._owner = os.getpid()
        self._open: list[Span] = []
        self._due = 0
        self._text = b""
        self._lock = threading.RLock()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, "-m", "headway.testing.observer", str(os.getpid()), *([prefer] if prefer else [])]
        try:
            # Not in the terminal's process group: what ends pytest from there does not end it, its input's end does.
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
        """Start measuring; waits until it has begun. Raises HeadwayError where it cannot."""
        self._lap(b"begin\n")
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
        """Whether this is the process that is measured, and not a copy of it (fork(2)), which must leave it alone."""
        return os.getpid() == self._owner

    def open(self, *, test: bool = False) -> Span:
        """A span begins now. ``test``: a test's first one, so that all threads but this one are older than the test.

        Raises HeadwayError where the observer has ended.
        """
        with self._lock:
            span, request = Span(), b"test %d\n" % threading.get_native_id() if test else _LAP
            if test:  # what was left open belongs to no test any more
                self._open.clear()
            began = time.monotonic_ns()
            self._lap(request)
            if self._open:
                self._share(began)
            else:  # as little as can be, because it is in the span
                self._text = b""
            self._open.append(span)
            span.since = now = time.monotonic_ns()
            self.cost += now - began
            return span

    def close(self, span: Span) -> None:
        """The span is over. Raises HeadwayError where the observer has ended."""
        until = time.monotonic_ns()
        with self._lock:
            self._lap(_LAP)
            span.wall = until - span.since - span.paused
            self._share(until)
            self._open.remove(span)
            self.cost += time.monotonic_ns() - until

    def _empty(self) -> Progress:
        span = self.open()
        self.close(span)
        return span.progress

    def _share(self, since: int) -> None:
        """What the observer said belongs to every span that is open; a lap that began then is over."""
        answers = self._text.splitlines()
        self._text = b""
        took = time.monotonic_ns() - since
        for span in self._open:
            span.answers += answers
            span.paused += took

    def _lap(self, request: bytes) -> None:
        """Ask, and wait until all that was asked is answered: a signal's handler may have kept us from waiting."""
        self._due += 1
        try:
            os.write(self._to, request)
        except OSError:
            raise self._ended() from None
        while self._due > 0:
            try:
                if not self._poll.poll(PATIENCE):
                    self._process.kill()
                    raise HeadwayError(f"the process that measures the tests said nothing for {PATIENCE // 1000} s")
                more = os.read(self._from, 65536)
            except OSError:
                more = b""
            if not more:
                raise self._ended()
            self._text += more
            self._due -= more.count(b"\n")

    def _ended(self) -> HeadwayError:
        """Why there is no answer."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        status = self._process.poll()
        how = "does not answer" if status is None else f"ended by signal {-status}" if status < 0 else "ended"
        self._said.seek(0)
        words = self._said.read().decode("utf-8", "backslashreplace").strip().splitlines()
        last = f", it said: {words[-1]}" if words else ""
        return HeadwayError(f"the process that measures the tests (PID {self._process.pid}) {how}{last}")

    def end(self) -> None:
        """Measure no more; the observer is gone when this returns. May be called more than once."""
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
