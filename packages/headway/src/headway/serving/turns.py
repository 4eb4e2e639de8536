"""Turns of an event loop: those who have much to be done get a few turns together, and others are not kept waiting."""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["Turns"]

_LONGEST = 16
"""The number of rounds in a row without a turn, at most."""


class Turns:
    """Gives a few turns in each round of the event loop, in the order in which they were asked for."""

    def __init__(self, most: int) -> None:
        """``most``: the number of turns in a round."""
        self._most = most
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._deferred = False
        self._without = 0
        """The number of rounds in a row in which there was no turn."""

    def defer(self) -> None:
        """Give no turn in this round, or in the next: there is more urgent work. A few rounds later there is one."""
        self._deferred = True

    async def mine(self) -> None:
        """Wait for a turn."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._give)
        self._waiting.append(turn)
        await turn

    def _give(self) -> None:
        if self._deferred and self._without < _LONGEST:
            self._deferred = False
            self._without += 1
            asyncio.get_running_loop().call_soon(self._give)
            return
        self._deferred, self._without = False, 0
        for _ in range(min(self._most, len(self._waiting))):
            turn = self._waiting.popleft()
            if not turn.done():  # who waited may have been cancelled
                turn.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._give)
