"""Places for connections, in the order in which each began to keep the server waiting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["Places"]

_Holder = TypeVar("_Holder")


class Places(Generic[_Holder]):
    """A limited number of places. Whoever holds one either keeps the server waiting, or waits for the server.

    The server waits for a client while a request is not complete, and while an answer is not taken. Both are one order:
    the longest wait comes first, in whichever direction it is.
    """

    def __init__(self, most: int) -> None:
        """``most``: the number of places."""
        self._most = most
        self._awaited: dict[_Holder, None] = {}
        """Those for whom the server waits, the longest wait first."""
        self._served: set[_Holder] = set()

    def __contains__(self, holder: _Holder) -> bool:
        """Return whether it has a place."""
        return holder in self._awaited or holder in self._served

    def __iter__(self) -> Iterator[_Holder]:
        """Return all that have a place now."""
        return iter((*self._awaited, *self._served))

    def __len__(self) -> int:
        """Return the number of places that are taken."""
        return len(self._awaited) + len(self._served)

    @property
    def full(self) -> bool:
        """Whether no place is left."""
        return len(self) >= self._most

    def longest(self) -> _Holder | None:
        """Return who keeps the server waiting longest; None: it waits for none of them."""
        return next(iter(self._awaited), None)

    def wait_for(self, holder: _Holder) -> None:
        """Put it, with a place from now on, at the end of those for whom the server waits."""
        self.leave(holder)
        self._awaited[holder] = None

    def serve(self, holder: _Holder) -> None:
        """Note that it, with a place from now on, waits for the server."""
        self.leave(holder)
        self._served.add(holder)

    def leave(self, holder: _Holder) -> None:
        """Free its place, if it has one."""
        self._awaited.pop(holder, None)
        self._served.discard(holder)
