"""What a thread has made of its time so far, as it reads that itself (`headway.progress`)."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Progress"]


class Progress(NamedTuple):
    """Times of one thread since its measurement began, ns: ``rpi + ready + wait + other == at - since``.

    ``rpi`` is ``epi + kpi + iopi`` where these are known.
    """

    rpi: int
    """All processor time that the thread had."""
    epi: int | None
    """In its own code. Waiting for memory is in it. None: the observer does not tell it from the rest of ``rpi``."""
    kpi: int | None
    """In the kernel, in interrupts, and in regions that are marked as no progress. None: likewise."""
    iopi: int | None
    """Polling in vain, and in regions that are marked as polling. None: likewise."""
    ready: int
    """Able to run, but without a processor."""
    wait: int
    """Waiting for something, or stopped."""
    other: int
    """Stolen by the hypervisor, taken by the observer, or not seen."""
    since: int
    """When the measurement of the thread began, ns of CLOCK_MONOTONIC (`time.monotonic_ns`)."""
    at: int
    """The moment of these figures."""
