"""What each thread of the demo program claims of itself, and whether the measured figures agree.

A claim holds however busy the machine is: a number that the thread counted itself, who ended its waits, waits that it
never asked for, or a lower bound by the same clock. It never compares two clocks. It does no input or output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headway.model import Behind, Kind, Ledger, Quality, Thread, kind_of

from . import OwnFigures, ThreadTruth, Truth

__all__ = ["Claim", "Count", "Part", "claims"]

ASKED = tuple(f"wait.{what}" for what in ("sleep", "futex", "epoll", "poll", "pipe", "net", "signal", "child", "ipc"))
"""Waits that a thread has only if it asks for them. For memory the kernel can make it wait at any time."""

LOST_EVENTS = ("handlers_skipped", "switches_unseen", "records_damaged", "readings_torn", "states_sharing_a_cell")
"""Losses after which a number of times may be wrong, and is said to be."""
LOST_WAKERS = ("causes_without_room", "wakeups_unseen", *LOST_EVENTS)
"""Losses after which it is not known who ended every wait."""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of times."""

    what: str
    truth: int
    """As the thread counted itself."""
    measured: int | None
    """None: the source does not see it."""


@dataclass(frozen=True, slots=True)
class Part:
    """A measured part of a thread's life."""

    what: str
    time: int
    """In ns."""
    quality: Quality = Quality.EXACT


@dataclass(frozen=True, slots=True)
class Claim:
    """What one thread, or all together, claim to have done, and what was measured."""

    name: str
    does: str
    holds: bool | None
    """None: the source cannot tell."""
    counts: tuple[Count, ...] = ()
    parts: tuple[Part, ...] = ()
    words: str = ""
    """What else was found."""
    seen: bool = True
    """False: the words say what the source does not see."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A thread that worked and was measured."""

    ledger: Ledger
    measured: Thread
    figures: OwnFigures
    truth: Truth

    @property
    def exactly(self) -> bool:
        """Whether the source counted system calls. Every thread makes some before it works."""
        return any(s.startswith("kernel.") and cell.count is not None for s, cell in self.measured.states.items())

    def calls(self, what: str, truth: int | None, *states: str) -> Count:
        """Return how often the thread was in these states, or in those that begin so (``kernel.epoll_*``)."""
        cells = [cell for state, cell in self.measured.states.items() if _is_one_of(state, states)]
        counted = [cell.count for cell in cells if cell.count is not None]
        known = truth is not None and self.exactly and len(counted) == len(cells)
        return Count(what, truth or 0, sum(counted) if known else None)

    def part(self, what: str, *states: str) -> Part:
        """Return the time in these states."""
        time = sum(cell.time for state, cell in self.measured.states.items() if _is_one_of(state, states))
        return Part(what, time, Quality.EXACT if self.exactly else Quality.SAMPLED)

    def kind(self, kind: Kind, index: str) -> Part:
        """Return the time of a kind, with the quality of its index."""
        time = self.ledger.times(self.measured).get(kind, 0)
        return Part(kind.value, time, self.ledger.indices(self.measured).quality[index])


def claims(ledger: Ledger, truth: Truth) -> list[Claim]:
    """Return what every thread of the program claims, in the program's order, and what all together do."""
    measured = {(t.tid, t.pid): t for t in sorted(ledger.threads, key=lambda t: t.birth)}
    found = []
    for thread in truth.threads:
        does, judge = _CLAIMS.get(thread.name, (thread.what, _unknown))
        one = measured.get((thread.tid, truth.pid))
        if thread.figures is None:
            found.append(Claim(thread.name, does, None, words=f"did not work: {thread.skipped or 'no reason given'}"))
        elif one is None:
            found.append(Claim(thread.name, does, None, words="not seen by the measurement"))
        else:
            found.append(judge(thread.name, does, _Seen(ledger, one, thread.figures, truth)))
    together = _together(measured, truth)
    return [*found, together] if together else found


def _is_one_of(state: str, wanted: tuple[str, ...]) -> bool:
    return any(state.startswith(one[:-1]) if one.endswith("*") else state == one for one in wanted)


def _agree(seen: _Seen, *counts: Count) -> bool | None:
    if any(count.measured is None for count in counts):
        return None
    return _right(seen, all(count.measured == count.truth for count in counts), LOST_EVENTS)


def _right(seen: _Seen, right: bool, lost: tuple[str, ...]) -> bool | None:
    """Return the verdict: what was lost, and is said to be lost, is no error."""
    return True if right else None if any(seen.ledger.losses.get(loss) for loss in lost) else False


def _never_waits(name: str, does: str, seen: _Seen) -> Claim:
    waits = seen.calls("waits", 0, *ASKED)
    parts = [seen.kind(Kind.EFFECTIVE, "epi"), seen.kind(Kind.MEMORY, "mpi"), seen.part("ready", "ready", "ready.*")]
    words = "no waits" if waits.measured == 0 else ""
    return Claim(name, does, _agree(seen, waits), () if words else (waits,), _known(parts), words)


def _known(parts: list[Part]) -> tuple[Part, ...]:
    return tuple(part for part in parts if part.quality is not Quality.UNAVAILABLE)


def _calls(name: str, does: str, seen: _Seen) -> Claim:
    calls = seen.calls("calls", seen.figures.calls, "kernel.getppid")
    return Claim(name, does, _agree(seen, calls), (calls,), (seen.kind(Kind.KERNEL, "kpi"),))


def _sleeps(name: str, does: str, seen: _Seen) -> Claim:
    sleeps = seen.calls("sleeps", seen.figures.calls, "kernel.clock_nanosleep")
    return Claim(name, does, _agree(seen, sleeps), (sleeps,), (seen.part("wait.sleep", "wait.sleep"),))


def _waits_for_holder(name: str, does: str, seen: _Seen) -> Claim:
    part = seen.part("wait.futex", "wait.futex")
    waits = seen.calls("waits", 0, "wait.futex").measured
    holder = next((thread.tid for thread in seen.truth.threads if thread.name == "holder"), None)
    wakers = [c for c in seen.measured.causes if c.behind is Behind.WAKER and c.state == "wait.futex"]
    if not waits:
        words = "wakers" if waits is None else "it never had to wait"
        return Claim(name, does, None, parts=(part,), words=words, seen=waits is not None)
    ended = sum(cause.count for cause in wakers if cause.tid == holder)
    words = f"{'all ' if ended == waits else f'{ended:,} of '}{waits:,} ended by holder"
    holds = _right(seen, ended == waits, LOST_WAKERS) if seen.measured.causes else None
    return Claim(name, does, holds, parts=(part,), words=words)


def _works_between_ticks(name: str, does: str, seen: _Seen) -> Claim:
    calls = seen.calls("calls", seen.figures.calls, "kernel.getrandom")
    user = seen.kind(Kind.EFFECTIVE, "epi")
    parts = (Part("user", user.time, user.quality), seen.kind(Kind.KERNEL, "kpi"))
    return Claim(name, does, _agree(seen, calls), (calls,), parts)


def _uses_the_disk(name: str, does: str, seen: _Seen) -> Claim:
    writes = seen.calls("writes", seen.figures.syncs, "kernel.pwrite64")  # one before each sync
    reads = seen.calls("reads", seen.figures.reads, "kernel.pread64")
    return Claim(name, does, _agree(seen, writes, reads), (writes, reads), (seen.part("disk", "wait.disk"),))


def _polls(name: str, does: str, seen: _Seen) -> Claim:
    asked = (seen.figures.checks or 0) + (seen.figures.found or 0)
    polling = [state for state in seen.measured.states if kind_of(state) is Kind.POLL]
    checks = seen.calls("checks", asked, "kernel.epoll_*", *polling)
    parts = _known([seen.kind(Kind.POLL, "iopi")]) or (seen.kind(Kind.EFFECTIVE, "epi"), seen.kind(Kind.KERNEL, "kpi"))
    return Claim(name, does, _agree(seen, checks), (checks,), parts)


def _marks(name: str, does: str, seen: _Seen) -> Claim:
    marked = ("noneffective.parse", "poll.spin")
    regions = seen.calls("regions", seen.figures.regions, *marked)
    parts = (seen.part("parse", marked[0]), seen.part("spin", marked[1]))
    return Claim(name, does, _agree(seen, regions), (regions,), tuple(part for part in parts if part.time))


def _unknown(name: str, does: str, seen: _Seen) -> Claim:
    return Claim(name, does, None, words="claims nothing")


def _together(measured: dict[tuple[int, int], Thread], truth: Truth) -> Claim | None:
    """Return the claim of all threads: by the kernel's clock they ran at least as long as each read from it.

    Each thread reads its clock just before it ends, and the kernel's clock of it goes on until it has ended.
    """
    worked: list[tuple[ThreadTruth, OwnFigures]] = [(t, t.figures) for t in truth.threads if t.figures is not None]
    if not worked:
        return None
    name, does = f"all {len(worked)}", "processor time"
    own = sum(figures.cpu_ns for _, figures in worked)
    pairs = []
    for thread, figures in worked:
        one = measured.get((thread.tid, truth.pid))
        if one is None or one.kernel_clock is None or one.kernel_clock.time is None:
            return Claim(name, does, None, words="the kernel's clock", seen=False)
        pairs.append((one.kernel_clock.time, figures.cpu_ns))
    holds = all(clock >= read for clock, read in pairs)
    total = sum(clock for clock, _ in pairs)
    return Claim(name, does, holds, words=f"{total / 1e9:.4f} s, at least {own / 1e9:.4f} s")


Judge = Callable[[str, str, _Seen], Claim]

_CLAIMS: dict[str, tuple[str, Judge]] = {
    "compute": ("computes", _never_waits),
    "memory": ("follows pointers", _never_waits),
    "syscalls": ("calls getppid in a loop", _calls),
    "lock": ("waits for holder's mutex", _waits_for_holder),
    "holder": ("sleeps with the mutex", _sleeps),
    "sleeper": ("sleeps 5 ms at a time", _sleeps),
    "dodger": ("works between two ticks", _works_between_ticks),
    "disk": ("writes, syncs, reads", _uses_the_disk),
    "poller": ("asks for a timer in vain", _polls),
    "marked": ("marks its own code", _marks),
}
"""What each thread does, in at most 25 columns, and how its claim is judged."""
