"""Measuring while a screen is shown: the ledgers of the intervals, in an asyncio event loop."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import BinaryIO

from headway.model import Ledger

from .child import SuspendedChild
from .measure import Measurement

__all__ = ["HeldBack", "LiveFeed"]


class LiveFeed:
    """The intervals of a measurement (`headway.views.screen.feed.Live`); ``seconds``: so long at most."""

    def __init__(self, measurement: Measurement, title: str, interval: float, seconds: float | None) -> None:
        self.title = title
        self._why = ""
        self._measurement, self._interval, self._seconds = measurement, interval, seconds
        self._woken = asyncio.Event()
        self._ready: set[int] = set()

    async def ledgers(self) -> AsyncIterator[Ledger]:
        """Yield the ledger of each interval, until the command or the selection has ended, or the time is over."""
        measurement = self._measurement
        source = measurement.source
        loop = asyncio.get_running_loop()
        watched = set(measurement.fds())
        for fd in watched:
            loop.add_reader(fd, self._note, fd)
        now = time.monotonic()
        report, deadline = now + self._interval, None if self._seconds is None else now + self._seconds
        try:
            while True:
                pause = source.service()
                now = time.monotonic()
                if now >= report:
                    yield source.interval()
                    report = max(report + self._interval, now)
                if measurement.is_over(self._ready):
                    self._why = "all that was chosen" if measurement.child is None else "the command"
                    self._why += " has ended"
                    break
                if deadline is not None and now >= deadline:
                    self._why = "the time is over"
                    break
                watched -= self._ready  # the reader of what is ready has been removed
                for fd in self._ready & {*source.poll_fds()}:
                    loop.add_reader(fd, self._note, fd)
                    watched.add(fd)
                self._ready.clear()
                due = [moment for moment in (report, deadline, None if pause is None else now + pause) if moment]
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(min(due) - now, 0.001)):
                        await self._woken.wait()
                self._woken.clear()
            yield measurement.last(interval=True)
        finally:
            for fd in watched - self._ready:
                loop.remove_reader(fd)

    def _note(self, fd: int) -> None:
        self._ready.add(fd)
        asyncio.get_running_loop().remove_reader(fd)  # or it would be called until somebody has seen to it
        self._woken.set()

    def last_words(self) -> str:
        """Return why measuring ended."""
        return self._why


class HeldBack:
    """Keeps a command's output to the terminal in a file while a screen is shown. A context manager.

    It is a file, not a pipe or a terminal, so that the command goes on if headway ends.
    """

    def __init__(self) -> None:
        self._file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115
        self._nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._shown = 0
        self._to = next((fd for fd in (1, 2) if os.isatty(fd)), None)

    def hold(self, command: Sequence[str]) -> SuspendedChild:
        """Return the suspended command. Its standard streams that are the terminal are replaced."""
        out, nothing = self._file.fileno(), self._nothing
        return SuspendedChild(
            command,
            out if os.isatty(1) else None,
            stdin=nothing if os.isatty(0) else None,
            stderr=out if os.isatty(2) else None,
        )

    def show(self) -> None:
        """Write the output since the last call to the terminal."""
        if self._to is None:
            return
        with suppress(OSError):
            while piece := os.pread(self._file.fileno(), 1 << 16, self._shown):  # its own position is the command's
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(self._to, rest) :]
                self._shown += len(piece)

    def __enter__(self) -> HeldBack:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        os.close(self._nothing)
