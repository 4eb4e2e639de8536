"""The demo: a small program whose threads know what they do, and the parsed truth that it prints."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from headway.errors import HeadwayError

__all__ = ["OwnFigures", "ThreadTruth", "Truth", "program"]


def program() -> Path:
    """Return the path of the executable. Raises HeadwayError if the package was installed without it."""
    found = files(__name__).joinpath("threads")
    if not isinstance(found, Path) or not found.is_file():
        raise HeadwayError("the demo program is not in this installation of headway: install it again with pip")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFigures:
    """What a thread measured of itself; None if it does not know. Times are in nanoseconds."""

    cpu_ns: int
    """Processor time since its birth, by CLOCK_THREAD_CPUTIME_ID (including interrupts while it ran)."""
    elapsed_ns: int
    """How long it worked, by CLOCK_MONOTONIC."""
    user_ns: int | None = None
    """Processor time outside the kernel."""
    kernel_ns: int | None = None
    """Processor time in system calls."""
    wait_ns: int | None = None
    """Time from the start of each wait to the moment that should end it."""
    lock_ns: int | None = None
    """The part of ``wait_ns`` for the mutex."""
    held_ns: int | None = None
    """Time in which it held the mutex."""
    ready_ns: int | None = None
    """Time in which it was able to run and did not."""
    away_ns: int | None = None
    """Time off the processor in system calls, waiting or ready."""
    calls: int | None = None
    """System calls that it made in its loop: its sleeps, or calls of getppid or getrandom."""
    call_ns: float | None = None
    """Processor time per call."""
    locks: int | None = None
    """How often it took the mutex."""
    accesses: int | None = None
    """Pointers followed."""
    access_ns: float | None = None
    """Processor time per pointer."""
    buffer_bytes: int | None = None
    cache_bytes: int | None = None
    """The largest cache of the machine; 0: unknown."""
    bursts: int | None = None
    """How often it worked between two ticks."""
    tick_user_ns: int | None = None
    """User time by the kernel's own accounting (getrusage)."""
    tick_kernel_ns: int | None = None
    """System time by the kernel's own accounting (getrusage)."""
    syncs: int | None = None
    reads: int | None = None
    """Reads past the cache, also those that failed."""
    written_bytes: int | None = None
    poll_ns: int | None = None
    """Processor time spent on status checks that found nothing, or in a region marked as polling."""
    parse_ns: int | None = None
    """Processor time in the region that it marked as parsing."""
    checks: int | None = None
    """Status checks that found nothing."""
    found: int | None = None
    """Rows of status checks that ended because something was there."""
    regions: int | None = None
    """How often it entered one of its regions."""
    in_memory: int | None = None
    """1 if its file is in memory, not on a disk."""


@dataclass(frozen=True, slots=True)
class ThreadTruth:
    """One thread of the program, with what it knows of itself."""

    name: str
    tid: int
    what: str
    """What it does."""
    aim: str
    """The behaviour that it aims at."""
    figures: OwnFigures | None
    """None if it did nothing, see `skipped`."""
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class Truth:
    """The document that the program printed."""

    pid: int
    elapsed_ns: int
    interrupted: bool
    tick_ns: int
    """The time between two ticks of the scheduler, as the program found it."""
    threads: tuple[ThreadTruth, ...]

    @classmethod
    def parse(cls, text: str) -> Truth:
        """Read the program's JSON document. Raises HeadwayError if the text is none."""
        try:
            document = json.loads(text)
            return cls(
                pid=document["pid"],
                elapsed_ns=document["elapsed_ns"],
                interrupted=document["interrupted"],
                tick_ns=document["tick_ns"],
                threads=tuple(
                    ThreadTruth(
                        name=thread["name"],
                        tid=thread["tid"],
                        what=thread["what"],
                        aim=thread["aim"],
                        figures=OwnFigures(**thread["truth"]) if thread["truth"] else None,
                        skipped=thread.get("skipped"),
                    )
                    for thread in document["threads"]
                ),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise HeadwayError(f"the demo program printed no account of itself: {error}") from error
