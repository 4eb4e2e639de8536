"""The readings that the serving process gets from the measuring process.

The process that listens to the network has no privileges and cannot measure. The process that measures listens to
nobody. A pair of sockets connects them: one byte asks for a reading, and a memory file (memfd_create(2)) brings it. All
requests within a period share a reading, and no request gets a reading older than two periods. A period is the interval
that the user asked for. It becomes longer if readings are large, so that reading and writing them takes only a small
share of a processor.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import suppress

from headway.views.metrics.totals import TotalsSnapshot

__all__ = ["Feed", "hand_over"]

PATIENCE = 10.0
"""Seconds to wait for a reading before answering that there is none."""
SHARE = 0.02
"""Share of a processor that reading and formatting may take."""
LONGEST = 10.0
"""Seconds that a period may last because of that."""
_ASK = b"?"


def hand_over(channel: socket.socket, snapshot: TotalsSnapshot) -> bool:
    """Send a reading to the other side of the channel. Return False if it is gone, or takes none now."""
    try:
        memory = os.memfd_create("headway-reading")
    except OSError:
        return False
    try:
        with open(memory, "wb", closefd=False) as stream:
            stream.write(snapshot.pack())
        socket.send_fds(channel, [_ASK], [memory])
    except OSError:
        return False
    finally:
        os.close(memory)
    return True


class Feed:
    """The newest reading and the one before it. It is used by one asyncio loop."""

    def __init__(self, channel: socket.socket, interval: float) -> None:
        """``interval``: seconds."""
        self._channel, self._interval = channel, interval
        channel.setblocking(False)
        self._now: TotalsSnapshot | None = None
        self._before: TotalsSnapshot | None = None
        self._received = 0.0
        self._asked = False
        self._news = asyncio.Event()
        self._spent = 0.0
        self.period = interval
        """Seconds within which all requests get the same reading."""
        self.ended = asyncio.Event()
        """Set when the measuring process is gone."""

    def open(self) -> None:
        """Begin to listen to the other side, and ask it for the first reading."""
        asyncio.get_running_loop().add_reader(self._channel, self._receive)
        self._ask()

    def close(self) -> None:
        """Stop listening."""
        asyncio.get_running_loop().remove_reader(self._channel)

    def spend(self, seconds: float) -> None:
        """Add seconds of processor time that formatting the newest reading took."""
        self._spent += seconds
        self._pace()

    def _pace(self) -> None:
        took = self._spent
        if self._now is not None and self._before is not None:
            took += (self._now.cost.cpu - self._before.cost.cpu) / 1e9
        self.period = max(self._interval, min(took / SHARE, LONGEST))

    async def latest(self) -> tuple[TotalsSnapshot, TotalsSnapshot | None] | None:
        """Return a reading that is not older than two periods, and the one before it; None: there is none."""
        age = time.monotonic() - self._received
        if self.ended.is_set():
            return None if self._now is None else (self._now, self._before)
        if self._now is None or age >= self.period:
            self._ask()
        if self._now is None or age >= 2 * self.period:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._news.wait()
            if self._now is None or time.monotonic() - self._received > PATIENCE + 2 * self.period:
                return None
        return self._now, self._before

    def _ask(self) -> None:
        if self._asked:
            return
        self._asked = True
        self._news.clear()
        with suppress(OSError):
            self._channel.send(_ASK)

    def _receive(self) -> None:
        try:
            message, received, _, _ = socket.recv_fds(self._channel, 16, 1)
        except BlockingIOError:
            return
        except OSError:
            message, received = b"", []
        if not message:
            self.ended.set()
            self.close()
            return
        for fd in received:
            start = time.thread_time()
            with open(fd, "rb") as stream:
                stream.seek(0)
                self._before, self._now = self._now, TotalsSnapshot.unpack(stream.read())
            self._received, self._spent = time.monotonic(), time.thread_time() - start
            self._pace()
        self._asked = False
        self._news.set()
