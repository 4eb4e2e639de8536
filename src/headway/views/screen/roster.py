"""The threads of a screen: their times and history, filtered and ordered as the user asks.

For all threads only what is needed to filter and order them is computed. The rest is computed for visible ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

from headway.model import Kind, Ledger, Thread, kind_of, processor_time, time_by_kind
from headway.views.printable import clean

from .bar import NEVER

__all__ = ["KEPT", "Key", "Order", "Picture", "ProcessRow", "Roster", "ThreadRow", "waits_most_for"]

KEPT = 60
"""The number of intervals of a thread's history that are kept."""

Key = tuple[int, int]
"""(tid, birth) of a thread; (pid, -1) of a process."""


class ThreadRow:
    """A thread on the screen. There are thousands every second, so nothing is computed before it is asked for."""

    __slots__ = ("history", "thread", "times")
    members, folded = 1, False

    def __init__(self, thread: Thread, times: Mapping[Kind, int], history: bytes) -> None:
        self.thread, self.times = thread, times
        self.history = history
        """EPI in per cent of the time measured, one value for each interval, the newest last; `bar.NEVER`: not known.
        """

    @property
    def key(self) -> Key:
        """The key that identifies the row."""
        return self.thread.key

    @property
    def tid(self) -> int:
        """The thread's id; for a process its pid."""
        return self.thread.tid

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.thread.pid

    @property
    def name(self) -> str:
        """The thread's name; not sanitised for a terminal."""
        return self.thread.name

    @property
    def span(self) -> int:
        """The time measured, in the ledger's time unit."""
        return self.thread.span

    @property
    def rpi(self) -> int:
        """Processor time, in the ledger's time unit."""
        return processor_time(self.times)

    def share(self, kind: Kind) -> float:
        """Return the share of this kind in the time measured, from 0 to 1."""
        span = self.span
        return self.times.get(kind, 0) / span if span else 0.0


class ProcessRow(ThreadRow):
    """A process with its threads added up. ``folded``: the threads are not shown. ``thread`` is its first thread."""

    __slots__ = ("_span", "folded", "members")

    def __init__(self, rows: Sequence[ThreadRow], folded: bool) -> None:
        pid = rows[0].pid
        leader = next((row for row in rows if row.tid == pid), rows[0])
        times = {kind: sum([row.times.get(kind, 0) for row in rows]) for kind in Kind}
        length = max(len(row.history) for row in rows)
        columns = zip(*(row.history.rjust(length, bytes([NEVER])) for row in rows), strict=True)
        super().__init__(leader.thread, times, bytes([_mean(values) for values in columns]))
        self._span = sum([row.span for row in rows])
        self.members, self.folded = len(rows), folded

    @property
    def key(self) -> Key:
        """The key that identifies the row."""
        return self.pid, -1

    @property
    def tid(self) -> int:
        """The process's id."""
        return self.pid

    @property
    def span(self) -> int:
        """The time measured, of all its threads together."""
        return self._span


@dataclass(frozen=True, slots=True)
class Order:
    """Which rows are shown, and in which order."""

    column: str = "epi"
    """One of `ORDERS`."""
    backwards: bool = False
    """Reverse the column's usual order, which is the largest figure first, or the alphabet."""
    words: str = ""
    """Show only threads whose name contains all these words, or whose tid or pid begins with them."""
    busy: bool = False
    """Show only threads that had a processor in this interval."""
    tree: bool = False
    """Group by process."""
    folded: Set[int] = frozenset()
    """The pids of processes whose threads are not shown."""


@dataclass(frozen=True)
class Picture:
    """One interval: its ledger and its threads."""

    ledger: Ledger
    every: Sequence[ThreadRow]
    """All threads, in the ledger's order."""
    largest: int
    """The largest id of a thread or a process."""

    @cached_property
    def busy(self) -> int:
        """The number of threads that had a processor."""
        first, *others = (kind for kind in Kind if kind.in_rpi)
        return sum([1 for row in self.every if row.times[first] or any(row.times[kind] for kind in others)])

    def threads_of(self, row: ThreadRow) -> tuple[Thread, ...]:
        """Return the thread of a row, or all threads if the row is a process."""
        if not isinstance(row, ProcessRow):
            return (row.thread,)
        return tuple([other.thread for other in self.every if other.pid == row.pid])

    def rows(self, order: Order) -> list[ThreadRow]:
        """Return the rows to show. The sort is stable, so that rows that compare equal do not jump."""
        kept: Iterable[ThreadRow] = self.every
        if order.busy or order.words:
            kept = [row for row in self.every if _wanted(row, order)]
        key, falling = ORDERS[order.column]
        falling = falling is not order.backwards
        if not order.tree:
            return sorted(kept, key=key, reverse=falling)
        processes: dict[int, list[ThreadRow]] = {}
        for row in kept:
            processes.setdefault(row.pid, []).append(row)
        heads = [ProcessRow(rows, pid in order.folded) for pid, rows in processes.items()]
        found: list[ThreadRow] = []
        for head in sorted(heads, key=key, reverse=falling):
            found.append(head)
            if not head.folded:
                found += sorted(processes[head.pid], key=key, reverse=falling)
        return found


def _wanted(row: ThreadRow, order: Order) -> bool:
    if order.busy and not row.rpi:
        return False
    if not order.words:
        return True
    name, tid, pid = row.name.casefold(), str(row.tid), str(row.pid)
    return all(word in name or tid.startswith(word) or pid.startswith(word) for word in order.words.casefold().split())


def _mean(values: Iterable[int]) -> int:
    known = [value for value in values if value != NEVER]
    return -(-sum(known) // len(known)) if known else NEVER


def _history(row: ThreadRow) -> float:
    known = [value for value in row.history if value != NEVER]
    return sum(known) / len(known) if known else 0.0


def _by(kind: Kind) -> tuple[Callable[[ThreadRow], float], bool]:
    return (lambda row: row.times.get(kind, 0)), True


ORDERS: Mapping[str, tuple[Callable[[ThreadRow], float | str], bool]] = {
    "name": (lambda row: clean(row.name, 64).casefold(), False),
    "tid": (lambda row: row.tid, False),
    "pid": (lambda row: row.pid, False),
    "rpi": (lambda row: row.rpi, True),
    "epi": _by(Kind.EFFECTIVE),
    "te": (lambda row: row.times.get(Kind.EFFECTIVE, 0) / row.rpi if row.rpi else -1.0, True),
    "memory": _by(Kind.MEMORY),
    "kernel": _by(Kind.KERNEL),
    "poll": _by(Kind.POLL),
    "stall": _by(Kind.STALL),
    "stolen": _by(Kind.STOLEN),
    "ready": _by(Kind.READY),
    "wait": _by(Kind.WAIT),
    "bar": (lambda row: row.span - row.times.get(Kind.WAIT, 0) - row.times.get(Kind.UNKNOWN, 0), True),
    "history": (_history, True),
    "for": (lambda row: waits_most_for(row) or "\U0010ffff", False),
}
"""The column names by which rows can be ordered: the row's figure, and whether the largest comes first."""


def waits_most_for(row: ThreadRow) -> str:
    """Return the wait with most time, without ``wait.``; "" if there was none, or if the row is a process."""
    if isinstance(row, ProcessRow) or not row.times.get(Kind.WAIT, 0):
        return ""
    waits = [(cell.time, state) for state, cell in row.thread.states.items() if kind_of(state) is Kind.WAIT]
    time, state = max(waits, default=(0, ""))
    return state.removeprefix("wait.") if time else ""


_BYTES = [bytes([value]) for value in range(256)]


@dataclass(slots=True)
class Roster:
    """Makes pictures of ledgers, and remembers what threads did before."""

    _histories: dict[Key, bytes] = field(default_factory=dict)

    def take(self, ledger: Ledger) -> Picture:
        """Return the picture of the next interval. Threads that have ended are shown once and then forgotten."""
        before, now = self._histories, {}
        rows = []
        largest, effective = 0, Kind.EFFECTIVE
        counted = bool(ledger.counted)
        for thread in ledger.threads:
            times = ledger.times(thread) if counted else time_by_kind(thread.states)
            tid, span = thread.tid, thread.span
            key = tid, thread.birth
            value = 100 * times[effective]
            if value:  # most have 0
                value = min(max(-(-value // span), 0), 100) if span > 0 else NEVER
            history = (before.get(key, b"") + _BYTES[value])[-KEPT:]
            now[key] = history
            if tid > largest:
                largest = tid
            rows.append(ThreadRow(thread, times, history))
        self._histories = now
        return Picture(ledger, rows, max(largest, max([thread.pid for thread in ledger.threads], default=0)))

    def recall(self, ledgers: Iterable[Ledger]) -> Picture | None:
        """Return the picture of the last ledger, with the earlier ones as history."""
        self._histories = {}
        picture = None
        for ledger in ledgers:
            picture = self.take(ledger)
        return picture
