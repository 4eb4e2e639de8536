"""From a ledger to its verdict: which causes stand out, of which threads, ranked by wall time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

from headway.dataclass import dataclass
from headway.model import Ledger, Quality, Thread, indices_of

from .evidence import calls_to, forced
from .locks import locked
from .why import Why, why_of
from .wording import Subject, next_option, sentence
from .work import Doing, doing, works

__all__ = ["MOST", "Verdict", "verdict"]

MOST = 3
"""The largest number of sentences."""
_NOTABLE = 0.10
"""A cause with less of the window, or of the time of its threads, is not worth a sentence."""
_LEAST_NS = 10_000_000
"""Nor is one with less time."""
_BESIDE = 0.50
"""A thread with less work than this share of the busiest one's waits for that one, if for anything."""
_TIDS = 16
_BRIEF_NS = 10_000_000
"""A process that lives no longer than this does little but begin and end."""
_MANY = 20
_ENDS = 0.5
"""Brief processes are a cause if they have this share of the window together."""

_FOR_ANYTHING = frozenset({Why.NETWORK, Why.PIPE, Why.EVENTS, Why.SLEEP, Why.CHILDREN, Why.OTHER})
"""Waits that may be rests."""
_FOR_MEASURED = frozenset({Why.PIPE, Why.CHILDREN, Why.OTHER})
"""Waits that a measured thread may end."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One cause: a sentence with its evidence."""

    why: Why
    threads: tuple[int, ...]
    """The tids of the threads with most of the time, 16 at most."""
    number: int
    """The number of all threads that the sentence speaks of."""
    time: int
    """What these threads lost to the cause, or had of it, in the ledger's time unit."""
    share: float
    """The same as a share of their time, from 0 to 1."""
    wall: int
    """The part of the window that this is about: threads beside each other count once. Verdicts are in its order."""
    quality: Quality
    """What the time is worth."""
    text: str
    """The sentence. It ends with the option, if there is one."""
    option: str | None = None
    """The option that shows more of the cause; None: there is none, or it was given."""
    idle: int = 0
    """The number of threads of the ledger that rest, and of which no sentence speaks."""


def verdict(ledger: Ledger) -> tuple[Verdict, ...]:
    """Return what stands out, the most wall time first: at most `MOST` causes, none if nothing does."""
    every = doing(ledger)
    company = _company(ledger, every)
    working = [one for one in every if company.works(one)]
    if working:
        return _ranked(_found(ledger, company, working), len(every) - len(working))
    return _of_waits(ledger, company, every)


def _of_waits(ledger: Ledger, company: _Company, every: Sequence[Doing]) -> tuple[Verdict, ...]:
    """Judge where no thread works: what those waited for that have come to their end is what there was to do.

    That of main threads comes first, for helpers may have rested until then.
    """
    ended = [one for one in every if one.thread.end is not None]
    main = _found(ledger, company, [one for one in ended if one.thread.tid == one.thread.pid])
    main.leave_first_causes()
    found = _found(ledger, company, ended)
    if causes := {one.why for one in main.verdicts()}:
        found.keep(causes)
    found.leave_first_causes()
    return _ranked(found, len(every) - found.number)


def _found(ledger: Ledger, company: _Company, of: Sequence[Doing]) -> _Found:
    found = _Found(ledger)
    if _starts_processes(ledger, of):
        found.add_starts(of)
        return found
    for one in of:
        found.add(one, company.causes(one))
    return found


def _ranked(found: _Found, idle: int) -> tuple[Verdict, ...]:
    ranked = sorted(found.verdicts(), key=lambda one: (-one.wall, -one.time, one.why.value))
    return tuple(replace(one, idle=idle) for one in ranked[:MOST])


@dataclass(frozen=True, slots=True)
class _Company:
    """What must be known of all threads to judge one."""

    held: Set[tuple[int, int]]
    """The keys of those whose waits in futexes are waits for locks."""
    most: int
    """The work of the thread that has most of it."""
    alone: bool
    """Whether there is one process: what it starts is not measured."""

    def works(self, one: Doing) -> bool:
        """Return whether a thread works."""
        return works(one, one.thread.key in self.held)

    def causes(self, one: Doing) -> dict[Why, int]:
        """Return the parts of a thread's time that count as causes: its rests do not."""
        parts = dict(one.parts)
        if one.thread.key not in self.held:
            parts[Why.LOCK] = parts.get(Why.LOCK, 0) - one.futex
        for why in _FOR_ANYTHING & parts.keys():
            if one.active < _BESIDE * self.most or self._rests(one.thread, why):
                del parts[why]
        if Why.DISK in parts:
            which = _direction(one.thread)
            parts[which] = parts.pop(Why.DISK) + parts.get(which, 0)
        return parts

    def _rests(self, thread: Thread, why: Why) -> bool:
        """Return whether waits for this are no cause. A server that goes on waits for its next work."""
        if why is Why.CHILDREN:
            return not self.alone
        return why in (Why.EVENTS, Why.OTHER) and thread.end is None


def _company(ledger: Ledger, every: Sequence[Doing]) -> _Company:
    held = locked(every, ledger.window.duration)
    most = max((one.active for one in every if works(one, one.thread.key in held)), default=0)
    return _Company(held, most, len({thread.pid for thread in ledger.threads}) == 1)


def _direction(thread: Thread) -> Why:
    """Return whether a thread waited to read or to write: the kernel's time in its calls tells."""
    read, wrote = calls_to(thread)
    if read == wrote:
        return Why.DISK
    return Why.DISK_READS if read > wrote else Why.DISK_WRITES


def _starts_processes(ledger: Ledger, working: Sequence[Doing]) -> bool:
    """Return whether the time went into processes that hardly lived."""
    if ledger.time_unit != "ns":
        return False
    brief = _brief(working)
    lived = sum(one.thread.span for one in brief)
    return len({one.thread.pid for one in brief}) >= _MANY and lived >= _ENDS * ledger.window.duration


def _brief(working: Sequence[Doing]) -> list[Doing]:
    return [one for one in working if one.thread.end is not None and one.thread.span <= _BRIEF_NS]


class _Found:
    """The causes found, with their threads."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._of: dict[Why, list[tuple[int, Thread]]] = {}

    def add(self, one: Doing, parts: dict[Why, int]) -> None:
        """Add the causes that are a notable part of a thread's time."""
        for why, time in parts.items():
            if time >= _NOTABLE * one.thread.span:
                self._of.setdefault(why, []).append((time, one.thread))

    def add_starts(self, working: Sequence[Doing]) -> None:
        """Add the processes that hardly lived, as one cause."""
        self._of[Why.STARTS] = [(one.thread.span, one.thread) for one in _brief(working)]

    def leave_first_causes(self) -> None:
        """Leave out waits that other waits explain: a shell waits for a child that sleeps."""
        if first := self._of.keys() - _FOR_MEASURED:
            self.keep(first)

    def keep(self, causes: Set[Why]) -> None:
        """Leave out all other causes."""
        self._of = {why: rows for why, rows in self._of.items() if why in causes}

    @property
    def number(self) -> int:
        """The number of threads of which a cause was found."""
        return len({thread.key for rows in self._of.values() for _, thread in rows})

    def verdicts(self) -> Iterator[Verdict]:
        """Yield those that stand out."""
        for why, rows in self._of.items():
            rows.sort(key=lambda row: (-row[0], row[1].key))
            if one := self._verdict(why, [thread for _, thread in rows], sum(time for time, _ in rows)):
                yield one

    def _verdict(self, why: Why, threads: list[Thread], time: int) -> Verdict | None:
        ledger, span = self._ledger, sum(thread.span for thread in threads)
        window = ledger.window.duration
        wall = time if span <= window else time * window // span
        quality = _quality(ledger, why, threads)
        least = _LEAST_NS if ledger.time_unit == "ns" else 0
        if wall < max(_NOTABLE * window, least) or quality is Quality.UNAVAILABLE:
            return None
        option = next_option(ledger, why, threads)
        subject = Subject(ledger, why, threads, time, min(time / span, 1.0), quality, option)
        tids = tuple(thread.tid for thread in threads[:_TIDS])
        share = subject.share
        return Verdict(why, tids, len(threads), time, share, wall, quality, sentence(subject), option)


_INDEX = {
    Why.OWN_CODE: "epi",
    Why.MEMORY: "mpi",
    Why.STALLS: "mpi",
    Why.MARKED: "kpi",
    Why.SYSTEM_CALLS: "kpi",
    Why.POLLING: "iopi",
    Why.SPINNING: "iopi",
}


def _quality(ledger: Ledger, why: Why, threads: Sequence[Thread]) -> Quality:
    """Return what the time of a cause is worth."""
    if why in _INDEX or (why is Why.DISK_WRITES and forced(threads)):
        plain = not (ledger.counted or ledger.divided)  # then it is that of the ledger, whatever the threads are
        indices = indices_of({}, ledger.precision) if plain else ledger.indices(*threads)
        return indices.quality[_INDEX.get(why, "kpi")]
    of_samples = "proc" in ledger.source and why is not Why.PROCESSOR
    return Quality.SAMPLED if of_samples or _is_sampled(threads, why) else Quality.EXACT


def _is_sampled(threads: Sequence[Thread], why: Why) -> bool:
    return any(why_of(state) is why for thread in threads for state in thread.sampled)
