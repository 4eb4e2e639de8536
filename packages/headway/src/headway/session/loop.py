"""The loop that serves a source. Everything that measures waits in it."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable, Iterator

__all__ = ["turns"]


def turns(
    service: Callable[[], float | None],
    fds: Callable[[], Iterable[int]],
    due: Callable[[], float | None] = lambda: None,
) -> Iterator[frozenset[int]]:
    """Serve a source for as long as the caller iterates: each turn gives the descriptors that are readable.

    Args:
        service: The source's `service`, called once before each wait. It returns the seconds until it wants to be
            called again; None: when one of its descriptors is readable.
        fds: The descriptors to wait for, asked before each wait.
        due: The moment (`time.monotonic`) at which the next turn comes at the latest; None: whenever something happens.
    """
    poll = select.poll()
    watched: set[int] = set()
    while True:
        pause = service()
        wanted = set(fds())
        for fd in watched - wanted:
            poll.unregister(fd)
        for fd in wanted - watched:
            poll.register(fd, select.POLLIN)
        watched = wanted
        now = time.monotonic()
        moments = [moment for moment in (due(), None if pause is None else now + pause) if moment is not None]
        timeout = max(0.0, min(moments) - now) * 1000 if moments else None
        yield frozenset(fd for fd, _ in poll.poll(timeout))
