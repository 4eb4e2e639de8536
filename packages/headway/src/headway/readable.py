"""Wait until a file can be read."""

from __future__ import annotations

import math
import select
from typing import Protocol

__all__ = ["is_readable"]


class _HasDescriptor(Protocol):
    def fileno(self) -> int: ...


def is_readable(file: int | _HasDescriptor, seconds: float | None) -> bool:
    """Return whether a file becomes readable, or ends, within so many seconds; None: however long it takes.

    select(2) refuses descriptors from 1024 on, which a process with many files has.
    """
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(None if seconds is None else math.ceil(seconds * 1000)))
