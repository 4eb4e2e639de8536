"""The readings, as they come from the process that measures.

What listens to the network has no privileges and cannot measure; what measures listens to nobody. Between them is a
pair of sockets: one byte asks for a reading, a memory file (memfd_create(2)) brings it. Readings are shared by all who
ask within a period, and nobody gets one that is older than two. A period is the interval that was asked for, or longer
where readings are large: reading and writing them down takes no more than a small share of a processor.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import suppress

from .totals import Snapshot

__all__ = ["Feed", "hand_over"]

PATIENCE = 10.0
"""Seconds to wait for a reading before saying that there is none."""
SHARE = 0.02
"""Of a processor, that reading and writing down may take."""
LONGEST = 10.0
"""Seconds, that a period may be on account of that."""
_ASK = b"?"


def hand_over(channel: socket.socket, snapshot: Snapshot) -> bool:
    """Give a reading to the other side of the channel. False: it is not there any more, or takes none now."""
    memory = os.memfd_create("headway-reading")
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
    """The newest reading and the one before it. Used by one asyncio loop."""

    def __init__(self, channel: socket.socket, interval: float) -> None:
        """``interval``: seconds."""
        self._channel, self._interval = channel, interval
        channel.setblocking(False)
        self._now: Snapshot | None = None
        self._before: Snapshot | None = None
        self._received = 0.0
        self._asked = False
        self._news = asyncio.Event()
        self._spent = 0.0
        self.period = interval
        """Seconds within which all who ask get the same reading."""
        self.ended = asyncio.Event()
        """Set when the process that measures is gone."""

    def open(self) -> None:
        """Begin to listen to the other side, and ask it for the first reading."""
        asyncio.get_running_loop().add_reader(self._channel, self._receive)
        self._ask()

    def close(self) -> None:
        """Listen no more."""
        asyncio.get_running_loop().remove_reader(self._channel)

    def spend(self, seconds: float) -> None:
        """Somebody used the processor for so long to write down the newest reading."""
        self._spent += seconds
        self._pace()

    def _pace(self) -> None:
        took = self._spent
        if self._now is not None and self._before is not None:
            took += (self._now.cost.cpu - self._before.cost.cpu) / 1e9
        self.period = max(self._interval, min(took / SHARE, LONGEST))

    async def latest(self) -> tuple[Snapshot, Snapshot | None] | None:
        """A reading not older than two periods, and the one before it; None: there is none to be had."""
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
                self._before, self._now = self._now, Snapshot.unpack(stream.read())
            self._received, self._spent = time.monotonic(), time.thread_time() - start
            self._pace()
        self._asked = False
        self._news.set()
