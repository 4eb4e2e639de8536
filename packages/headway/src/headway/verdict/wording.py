"""The sentence of a cause, in plain words: who, how much of the time, for what, and which option shows more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from headway.dataclass import dataclass
from headway.model import SPINNING, Ledger, Quality, Thread
from headway.model.holders import meanwhile

from . import evidence
from .evidence import Named, largest
from .holders import phrase
from .why import Why, reason_of

__all__ = ["Subject", "next_option", "sentence"]

_LONGEST = 48
"""The largest number of characters of a name."""
_NAMES = 2
_SATURATED = 0.80
"""A thread with this share of the window for its own code leaves it no room for more."""
_MARKS = {
    Quality.BOUND: "at most ",
    Quality.PARTIAL: "at least ",
    Quality.SAMPLED: "about ",
    Quality.BY_MODE: "about ",
    Quality.ESTIMATED: "about ",
}
_KERNEL_LOCKS = {
    "mmap_lock": "the kernel's lock of its address space (mmap_lock)",
    "file_lock": "the kernel's lock of a file or directory",
    "kernel_lock": "a lock of the kernel",
    "flock": "a lock of a file (flock)",
    "gil": "Python's interpreter lock (GIL)",
}
_READY = {
    Why.OWN_THREADS: "other threads of its process had the processor",
    Why.NEIGHBOURS: "other processes had the processor",
    Why.QUOTA: "its CPU quota was used up",
    Why.WAKE_UP: "the processor was idle, and had to wake up first",
    Why.PROCESSOR: "no processor was free",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """What a sentence is about."""

    ledger: Ledger
    why: Why
    threads: Sequence[Thread]
    """Those with most of the time first."""
    time: int
    share: float
    quality: Quality
    option: str | None


def sentence(subject: Subject) -> str:
    """Return the sentence of a cause, without a full stop."""
    told = _WORDS.get(subject.why, _ready)
    text = f"{who(subject.threads)} {told(subject)}"
    return text if subject.option is None else f"{text}; {_OPTIONS[subject.option]}"


def who(threads: Sequence[Thread]) -> str:
    """Return the names of the threads, and how many there are of each."""
    if len(threads) == 1:
        return f"{_cut(threads[0].name)} ({threads[0].tid})".lstrip()
    counts = Counter(thread.name for thread in threads)
    if len(counts) == 1:
        return f"{_cut(threads[0].name)} × {len(threads):,}".lstrip()
    named = ", ".join(_cut(name) for name in list(counts)[:_NAMES])
    return f"{len(threads):,} threads ({named}{' …' if len(counts) > _NAMES else ''})"


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _its(subject: Subject) -> str:
    return "its" if len(subject.threads) == 1 else "their"


def _of_time(subject: Subject) -> str:
    """Return the share and the time: ``63 % of its time (3.28 s)``."""
    mark = _MARKS.get(subject.quality, "")
    time = amount(subject.time, subject.ledger.time_unit)
    return f"{mark}{100 * subject.share:.0f} % of {_its(subject)} time ({time})"


def amount(time: int, unit: str) -> str:
    """Return a time in words: ``3.28 s``, ``412 ms``, ``5,120 cycles``."""
    if unit != "ns":
        return f"{time:,} {unit}"
    if time >= 10**9:
        return f"{time / 1e9:,.2f} s"
    return f"{time / 1e6:,.3g} ms" if time >= 10**6 else f"{time / 1e3:,.3g} µs"


def _per_cent(part: int, whole: int) -> str:
    return f"{100 * min(part / whole, 1):.0f} %" if whole else "0 %"


def _times(count: int | None) -> str:
    return "" if not count else " (once)" if count == 1 else f" ({count:,} times)"


# --- what each cause says ---------------------------------------------------------------------------------------------


def _own_code(subject: Subject) -> str:
    text = f"ran {_its(subject)} own code for {_of_time(subject)}"
    if len(subject.threads) == 1 and subject.time >= _SATURATED * subject.ledger.window.duration:
        return f"{text}: one thread, so more processors would not help"
    return text


def _system_calls(subject: Subject) -> str:
    were = "was" if len(subject.threads) == 1 else "were"
    return f"{were} in system calls for {_of_time(subject)}{_most_in(subject, 'kernel.')}"


def _most_in(subject: Subject, prefix: str) -> str:
    found = evidence.states(subject.threads, subject.why)
    if not found or found[0].name == prefix.rstrip("."):
        return ""
    most = found[0]
    return f", most in {_cut(most.name.removeprefix(prefix))}{_times(most.count)}"


def _spent(on: str, prefix: str = "") -> Callable[[Subject], str]:
    return lambda subject: f"spent {_of_time(subject)} {on}{_most_in(subject, prefix)}"


def _lost(to: str) -> Callable[[Subject], str]:
    return lambda subject: f"lost {_of_time(subject)} to {to}"


def _interrupts(subject: Subject) -> str:
    return f"lost {_of_time(subject)} to interrupts{_most_in(subject, '')}"


def _polling(subject: Subject) -> str:
    return f"polled for {_of_time(subject)}{_most_in(subject, 'poll.')}"


def _spinning(subject: Subject) -> str:
    return f"spun in {_its(subject)} own code for {_of_time(subject)}"


def _ready(subject: Subject) -> str:
    one = len(subject.threads) == 1
    words = _READY[subject.why] if one else _READY[subject.why].replace("its", "their")
    text = f"{'was' if one else 'were'} ready to run for {_of_time(subject)}, but {words}"
    had = evidence.holder(subject.threads) if subject.why is Why.NEIGHBOURS else None
    if had is not None:
        text += f", most of it {_cut(had.name)}"
    return text


def _lock(subject: Subject) -> str:
    found = evidence.states(subject.threads, Why.LOCK)
    reason = reason_of(found[0].name) if found else "futex"
    text = f"waited {_of_time(subject)} "
    whole = found[0].time if found else 0
    about = largest(evidence.objects(subject.threads, [found[0].name]), whole) if found else None
    if reason in _KERNEL_LOCKS:
        text += f"for {_KERNEL_LOCKS[reason]}"
    elif about is None:
        text += "for a lock, or for another thread (futex)"
    else:
        text += f"for {_cut(about.name)}{_part(about, whole)}"
    if about is None and reason == "futex" and (recorded := _of_recording(subject, whole)):
        return f"waited {_of_time(subject)} {recorded}"
    held = largest(evidence.lock_holders(subject.threads, [found[0].name]), whole) if found else None
    if held is not None:
        text += f", {_per_cent(held.time, whole)} of that in waits that began while {_cut(held.name)} had it"
        return text if about is None else text + _meanwhile(subject, about.name, held.name)
    return text + _until(subject, found[:1], "released it")


def _of_recording(subject: Subject, whole: int) -> str:
    """Return a clause about the lock that has most of the waiting of a recording, which has no causes; empty: none."""
    pids = {thread.pid for thread in subject.threads}
    locks = subject.ledger.uses.locks if subject.ledger.uses is not None else None
    lock = next((lock for lock in locks or () if lock.pid in pids), None)
    had = next(iter(lock.holders or lock.wakers), None) if lock is not None else None
    if lock is None or had is None or not lock.waited or 2 * min(lock.waited, 2 * had.waited) < whole:
        return ""
    text = f"for {_cut(lock.name)}, {_per_cent(had.waited, lock.waited)} of that until {_cut(had.name)} released it"
    return text + _meanwhile(subject, lock.name, had.name)


def _meanwhile(subject: Subject, lock: str, holder: str) -> str:
    """Return a clause that says what the holder did while others waited for its lock, if that is known."""
    did = meanwhile(subject.ledger, {thread.pid for thread in subject.threads}, lock, holder)
    clauses = [f"{phrase(one.kind)} for {100 * one.share:.0f} %" for one in did]
    return f", which meanwhile {' and '.join(clauses)} of the time" if clauses else ""


def _part(had: Named, whole: int) -> str:
    """Return which part of the whole something had, if it had not all of it."""
    return "" if had.time >= 0.995 * whole else f" ({_per_cent(had.time, whole)} of that)"


def _until(subject: Subject, of: Sequence[Named], did: str) -> str:
    """Return a clause that names the thread which ended most of these waits, if it was recorded."""
    whole = sum(one.time for one in of)
    woken = evidence.wakers(subject.threads, [one.name for one in of])
    most = largest(woken, whole)
    return "" if most is None else f", {_per_cent(most.time, whole)} of that until {_cut(most.name)} {did}"


def _waited(what: str, *, woken: str = "") -> Callable[[Subject], str]:
    """Return what says that threads waited: for the object that was recorded, until a thread did what it did."""

    def told(subject: Subject) -> str:
        found = evidence.states(subject.threads, subject.why)
        whole = sum(one.time for one in found)
        about = largest(evidence.objects(subject.threads, [one.name for one in found]), whole)
        text = f"waited {_of_time(subject)} {what}"
        if about is not None:
            text += f": {_cut(about.name)}{_part(about, whole)}"
        return text + (_until(subject, found, woken) if woken else "")

    return told


def _disk_writes(subject: Subject) -> str:
    call = evidence.forced(subject.threads)
    if call is None:
        return _waited("for writes to a disk")(subject)
    return f"spent {_of_time(subject)} on writes to a disk, forced by {call.name}{_times(call.count)}"


def _starts(subject: Subject) -> str:
    each = amount(subject.time // len(subject.threads), subject.ledger.time_unit)
    part = _per_cent(subject.time, subject.ledger.window.duration)
    return f"lived {each} each and had {part} of the time together: starting and ending processes is most of it"


def _other(subject: Subject) -> str:
    found = evidence.states(subject.threads, Why.OTHER)
    most = found[0].name if found else ""
    return f"waited {_of_time(subject)} in {_cut(reason_of(most) or most)}"


_WORDS: Mapping[Why, Callable[[Subject], str]] = {
    Why.OWN_CODE: _own_code,
    Why.MEMORY: lambda s: f"waited for caches and memory for {_of_time(s)}",
    Why.STALLS: lambda s: f"stalled for {_of_time(s)}",
    Why.MARKED: _spent("in regions that it marks as no progress", "noneffective."),
    Why.SYSTEM_CALLS: _system_calls,
    Why.PAGE_FAULTS: _spent("on page faults and memory", "kernel."),
    Why.INTERRUPTS: _interrupts,
    Why.POLLING: _polling,
    Why.SPINNING: _spinning,
    Why.HYPERVISOR: _lost("the hypervisor"),
    Why.LOCK: _lock,
    Why.DISK_READS: _waited("for reads from a disk"),
    Why.DISK_WRITES: _disk_writes,
    Why.DISK: _waited("for a disk"),
    Why.NETWORK: _waited("for the network", woken="sent or took something"),
    Why.PIPE: _waited("for a pipe or a queue", woken="wrote or read"),
    Why.EVENTS: _waited("for events (poll, epoll, signals)"),
    Why.SLEEP: lambda s: f"slept {_of_time(s)} on purpose",
    Why.CHILDREN: _waited("for child processes, which were not measured"),
    Why.STARTS: _starts,
    Why.OTHER: _other,
}


# --- which option shows more ------------------------------------------------------------------------------------------

_WHY_WAIT, _WHY_READY, _SPIN, _LEVEL, _BPF = "--why wait", "--why ready", "--spin", "--level calls", "--source bpf"
_OPTIONS = {
    _WHY_WAIT: "--why wait names it",
    _WHY_READY: "--why ready names them",
    _SPIN: "--spin tells whether they spin",
    _LEVEL: "--level calls names the calls",
    _BPF: "--source bpf tells why",
}
_NAMED_BY_WHY = frozenset({Why.LOCK, Why.NETWORK, Why.PIPE, Why.EVENTS})


def next_option(ledger: Ledger, why: Why, threads: Sequence[Thread]) -> str | None:
    """Return the option of ``headway stat`` that shows more of a cause; None: there is none, or it was given."""
    recorded = any(thread.causes for thread in ledger.threads)
    if ledger.source == "proc":
        return _BPF if why in _NAMED_BY_WHY | {Why.PROCESSOR, Why.SYSTEM_CALLS} else None
    if ledger.source != "bpf":
        return None
    if why in _NAMED_BY_WHY:
        return None if recorded else _WHY_WAIT
    if why is Why.NEIGHBOURS:
        return None if recorded else _WHY_READY
    if why is Why.SYSTEM_CALLS:
        return _LEVEL if any("kernel" in thread.states for thread in threads) else None
    if why is Why.OWN_CODE and len(threads) > 1 and _beside(ledger, threads):
        return None if any(SPINNING in thread.sampled for thread in ledger.threads) else _SPIN
    return None


def _beside(ledger: Ledger, threads: Sequence[Thread]) -> bool:
    """Return whether several threads of one process ran for most of the window: one may spin for another."""
    busy = Counter(
        thread.pid
        for thread in threads
        if sum(cell.time for state, cell in thread.states.items() if state.partition(".")[0] == "user")
        >= _SATURATED * ledger.window.duration
    )
    return any(number > 1 for number in busy.values())
