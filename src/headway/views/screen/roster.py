"""The threads of a screen: their times and their history, in the order that was asked for, those that were asked for.

All threads are only added up and put in order here; what costs more is done for those that can be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

from headway.model import Kind, Ledger, Thread, kind_of, processor_time, time_by_kind
from headway.views.printable import clean

from .bar import NEVER

__all__ = ["KEPT", "Key", "Order", "Picture", "Process", "Roster", "Row", "waits_most_for"]

KEPT = 60
"""So many intervals of a thread's history are kept."""

Key = tuple[int, int]
"""(tid, birth) of a thread; (pid, -1) of a process."""


class Row:
    """A thread on the screen. There are thousands, each second: no more is worked out of one than is asked for."""

    __slots__ = ("history", "thread", "times")
    members, folded = 1, False

    def __init__(self, thread: Thread, times: Mapping[Kind, int], history: bytes) -> None:
        self.thread, self.times = thread, times
        self.history = history
        """EPI in per cent of the time measured, interval by interval, the newest last; `bar.NEVER`: not known."""

    @property
    def key(self) -> Key:
        """What tells it from every other row."""
        return self.thread.key

    @property
    def tid(self) -> int:
        """Its id; of a process the process's."""
        return self.thread.tid

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.thread.pid

    @property
    def name(self) -> str:
        """As the thread calls itself: not clean."""
        return self.thread.name

    @property
    def span(self) -> int:
        """The time measured, in the ledger's time unit."""
        return self.thread.span

    @property
    def rpi(self) -> int:
        """Processor time."""
        return processor_time(self.times)

    def share(self, kind: Kind) -> float:
        """The part of the time measured that was of this kind, from 0 to 1."""
        span = self.span
        return self.times.get(kind, 0) / span if span else 0.0


class Process(Row):
    """A process with its threads added up; ``folded``: these are not shown. ``thread``: its first."""

    __slots__ = ("_span", "folded", "members")

    def __init__(self, rows: Sequence[Row], folded: bool) -> None:
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
        """What tells it from every other row."""
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
    """What is shown, and in which order."""

    column: str = "epi"
    """One of `ORDERS`."""
    backwards: bool = False
    """The other way round than the column begins with: figures with the largest, words with the first."""
    words: str = ""
    """Only threads that have all of these words in their name, or whose tid or pid begins so."""
    busy: bool = False
    """Only threads that had a processor in this interval."""
    tree: bool = False
    """By process."""
    folded: Set[int] = frozenset()
    """Processes whose threads are not shown, by pid."""


@dataclass(frozen=True)
class Picture:
    """One interval: its ledger and its threads."""

    ledger: Ledger
    every: Sequence[Row]
    """All threads, in the ledger's order."""
    largest: int
    """The largest id of a thread or a process."""

    @cached_property
    def busy(self) -> int:
        """How many had a processor."""
        first, *others = (kind for kind in Kind if kind.in_rpi)
        return sum([1 for row in self.every if row.times[first] or any(row.times[kind] for kind in others)])

    def threads_of(self, row: Row) -> tuple[Thread, ...]:
        """The thread of a row, or the threads of the process that it is."""
        if not isinstance(row, Process):
            return (row.thread,)
        return tuple([other.thread for other in self.every if other.pid == row.pid])

    def rows(self, order: Order) -> list[Row]:
        """The rows to be shown. Those that are equal in the order stay as they were, so that none jumps about."""
        kept: Iterable[Row] = self.every
        if order.busy or order.words:
            kept = [row for row in self.every if _wanted(row, order)]
        key, falling = ORDERS[order.column]
        falling = falling is not order.backwards
        if not order.tree:
            return sorted(kept, key=key, reverse=falling)
        processes: dict[int, list[Row]] = {}
        for row in kept:
            processes.setdefault(row.pid, []).append(row)
        heads = [Process(rows, pid in order.folded) for pid, rows in processes.items()]
        found: list[Row] = []
        for head in sorted(heads, key=key, reverse=falling):
            found.append(head)
            if not head.folded:
                found += sorted(processes[head.pid], key=key, reverse=falling)
        return found


def _wanted(row: Row, order: Order) -> bool:
    if order.busy and not row.rpi:
        return False
    if not order.words:
        return True
    name, tid, pid = row.name.casefold(), str(row.tid), str(row.pid)
    return all(word in name or tid.startswith(word) or pid.startswith(word) for word in order.words.casefold().split())


def _mean(values: Iterable[int]) -> int:
    known = [value for value in values if value != NEVER]
    return -(-sum(known) // len(known)) if known else NEVER


def _history(row: Row) -> float:
    known = [value for value in row.history if value != NEVER]
    return sum(known) / len(known) if known else 0.0


def _by(kind: Kind) -> tuple[Callable[[Row], float], bool]:
    return (lambda row: row.times.get(kind, 0)), True


ORDERS: Mapping[str, tuple[Callable[[Row], float | str], bool]] = {
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
"""What rows can be ordered by: the figure of a row, and whether the largest comes first."""


def waits_most_for(row: Row) -> str:
    """The state of kind wait that had most of its time; "" if it did not wait, or is a process."""
    if isinstance(row, Process) or not row.times.get(Kind.WAIT, 0):
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
        """The picture of the next interval. What has ended, and been shown once, is forgotten."""
        before, now = self._histories, {}
        rows = []
        largest, effective = 0, Kind.EFFECTIVE
        counted = bool(ledger.counted)
        for thread in ledger.threads:
            times = ledger.times(thread) if counted else time_by_kind(thread.states)
            tid, span = thread.tid, thread.span
            key = tid, thread.birth
            value = 100 * times[effective]
            if value:  # most have none
                value = min(max(-(-value // span), 0), 100) if span > 0 else NEVER
            history = (before.get(key, b"") + _BYTES[value])[-KEPT:]
            now[key] = history
            if tid > largest:
                largest = tid
            rows.append(Row(thread, times, history))
        self._histories = now
        return Picture(ledger, rows, max(largest, max([thread.pid for thread in ledger.threads], default=0)))

    def recall(self, ledgers: Iterable[Ledger]) -> Picture | None:
        """The picture of the last of these, with the others as its history."""
        self._histories = {}
        picture = None
        for ledger in ledgers:
            picture = self.take(ledger)
        return picture
