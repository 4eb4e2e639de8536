"""The threads of a screen: their times and history, filtered, grouped and ordered as the user asks.

For all threads only what is needed to filter and order them is computed. The rest is computed for visible ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import field
from functools import cached_property

from headway.dataclass import dataclass
from headway.model import (
    NO_CGROUP,
    Group,
    GroupBy,
    Kind,
    Ledger,
    Thread,
    add_times,
    amounts_of,
    grouped,
    kind_of,
    processor_time,
    time_by_kind,
)
from headway.verdict import Verdict, verdict
from headway.views.printable import clean

from .bar import NEVER

__all__ = [
    "KEPT",
    "GroupRow",
    "Key",
    "Order",
    "Picture",
    "Roster",
    "ThreadRow",
    "group_key",
    "in_places",
    "waits_most_for",
]

KEPT = 60
"""The number of intervals of a history that are kept."""

Key = tuple[int, int] | str
"""(tid, birth) of a thread; (pid, -1) of a process; the name of the threads of a name."""


_BYTES = [bytes([value]) for value in range(256)]


class ThreadRow:
    """A thread on the screen. There are thousands every second, so nothing is computed before it is asked for."""

    __slots__ = ("history", "inside", "seen", "thread", "times", "whole")
    members = 1

    def __init__(
        self,
        thread: Thread,
        times: Mapping[Kind, int],
        whole: int,
        history: bytes,
        seen: tuple[bool, bool] = (True, True),
    ) -> None:
        self.thread, self.times = thread, times
        self.whole = whole
        """The length of the interval, which shares are of."""
        self.history = history
        """EPI in per cent of the interval, 100 at most, one value for each interval, the newest last; `bar.NEVER`: not
        known.
        """
        self.seen = seen
        """Whether every wait of user code for memory, and every stall, was counted (`headway.model.Amounts`)."""
        self.inside = False
        """Whether the row stands below that of its group."""

    @property
    def key(self) -> Key:
        """The key that identifies the row."""
        return self.thread.key

    @property
    def threads(self) -> tuple[Thread, ...]:
        """The threads that the row is for."""
        return (self.thread,)

    @property
    def tid(self) -> int:
        """The thread's id; for a process its pid; for threads of one name the first one's."""
        return self.thread.tid

    @property
    def pid(self) -> int | None:
        """The process's id; None for threads of several processes."""
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

    def stands_for(self, key: Key) -> bool:
        """Return whether the thread, or one of the threads, has this key, or is in the group with this key."""
        return any(
            key in (thread.key, thread.name, (thread.pid, -1))
            or key == group_key(thread, GroupBy.POD)
            or key == group_key(thread, GroupBy.CGROUP)
            for thread in self.threads
        )

    def share(self, time: int) -> float:
        """Return the time as a share of the interval: 1 is one processor, or off it one thread, all the time."""
        return time / self.whole if self.whole else 0.0


def group_key(thread: Thread, by: GroupBy) -> Key:
    """Return the key of the group that a thread is in."""
    if by is GroupBy.PROCESS:
        return thread.pid, -1
    return Group((thread,), by).name


class GroupRow(ThreadRow):
    """Threads of one process, name, pod or cgroup, added up. ``folded``: they have no rows of their own."""

    __slots__ = ("folded", "group", "members")

    def __init__(self, rows: Sequence[ThreadRow], by: GroupBy, folded: bool, history: bytes) -> None:
        self.group = Group(tuple([row.thread for row in rows]), by)
        seen = all(row.seen[0] for row in rows), all(row.seen[1] for row in rows)
        times = add_times([row.times for row in rows])
        super().__init__(rows[0].thread, times, rows[0].whole, history, seen)
        self.members, self.folded = len(rows), folded

    @property
    def key(self) -> Key:
        """The key that identifies the row."""
        return group_key(self.thread, self.group.by)

    @property
    def threads(self) -> tuple[Thread, ...]:
        """The threads that the row is for."""
        return self.group.threads

    @property
    def tid(self) -> int:
        """The process's id; for threads of other groups the id of the first of them."""
        return self.thread.pid if self.group.by is GroupBy.PROCESS else self.thread.tid

    @property
    def pid(self) -> int | None:
        """The process's id; None for threads of several processes."""
        return self.group.pid

    @property
    def name(self) -> str:
        """The name of the threads, or of the process; not sanitised for a terminal."""
        return self.group.name

    @property
    def span(self) -> int:
        """The time measured, of all its threads together."""
        return sum([thread.span for thread in self.threads])


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
    by: GroupBy | None = None
    """What a row is for; None: for a thread, and for all threads of a name where there are more threads than lines."""
    turned: Set[Key] = frozenset()
    """The groups that are not as usual: processes whose threads are not shown, and names whose threads are."""


@dataclass(frozen=True)
class Picture:
    """One interval: its ledger and its threads."""

    ledger: Ledger
    every: Sequence[ThreadRow]
    """All threads, in the ledger's order."""
    largest: int
    """The largest id of a thread or a process."""
    histories: Mapping[Key, bytes] = field(default_factory=dict)
    """The histories of the groups, of all their threads, also of those that have ended."""

    @cached_property
    def busy(self) -> int:
        """The number of threads that had a processor."""
        first, *others = (kind for kind in Kind if kind.in_rpi)
        return sum([1 for row in self.every if row.times[first] or any(row.times[kind] for kind in others)])

    @cached_property
    def verdict(self) -> tuple[Verdict, ...]:
        """Where the time of this interval went, and why."""
        return verdict(self.ledger)

    def kept(self, order: Order) -> Sequence[ThreadRow]:
        """Return the threads that the words keep, and of these all or the busy ones, in the ledger's order."""
        return [row for row in self.every if _wanted(row, order)] if order.busy or order.words else self.every

    def rows(self, order: Order) -> list[ThreadRow]:
        """Return the rows to show. The sort is stable, so that rows that compare equal do not jump.

        A thread that is alone in its group is its only row. Without ``order.by`` each thread is.
        """
        kept = self.kept(order)
        key, falling = ORDERS[order.column]
        falling = falling is not order.backwards
        for row in kept:
            row.inside = False
        if order.by in (None, GroupBy.THREAD):
            return sorted(kept, key=key, reverse=falling)
        heads = [self._head(rows, order) for rows in self._groups(kept, order.by)]
        found: list[ThreadRow] = []
        for head, rows in sorted(heads, key=lambda pair: key(pair[0]), reverse=falling):
            found.append(head)
            if isinstance(head, GroupRow) and not head.folded:
                for row in rows:
                    row.inside = True
                found += sorted(rows, key=key, reverse=falling)
        return found

    @staticmethod
    def _groups(kept: Sequence[ThreadRow], by: GroupBy) -> list[list[ThreadRow]]:
        return [[kept[at] for at in places] for places in grouped([row.thread for row in kept], by)]

    def _head(self, rows: list[ThreadRow], order: Order) -> tuple[ThreadRow, list[ThreadRow]]:
        """Return the row of a group, and the rows of its threads."""
        if len(rows) == 1:
            return rows[0], rows
        by = order.by or GroupBy.NAME
        row = GroupRow(rows, by, False, b"")
        row.folded = (row.key in order.turned) is not (by is not GroupBy.PROCESS)
        # With words the row is for a part of the group, of which only the threads that live have a history.
        row.history = _sum([one.history for one in rows]) if order.words else self.histories.get(row.key, b"")
        return row, rows


def in_places(rows: Sequence[ThreadRow], places: Mapping[Key, int]) -> list[ThreadRow]:
    """Return the rows in the places that they had before. New ones come last, and threads stay below their group."""
    blocks: list[list[ThreadRow]] = []
    for row in rows:
        if row.inside and blocks:
            blocks[-1].append(row)
        else:
            blocks.append([row])

    def place(row: ThreadRow) -> int:
        return places.get(row.key, len(places))

    blocks.sort(key=lambda block: place(block[0]))
    return [row for head, *rest in blocks for row in (head, *sorted(rest, key=place))]


def _wanted(row: ThreadRow, order: Order) -> bool:
    if order.busy and not row.rpi:
        return False
    if not order.words:
        return True
    name, tid, pid = row.name.casefold(), str(row.tid), str(row.pid)
    return all(word in name or tid.startswith(word) or pid.startswith(word) for word in order.words.casefold().split())


def _sum(histories: Sequence[bytes]) -> bytes:
    length = max(map(len, histories))
    columns = zip(*(history.rjust(length, _BYTES[0]) for history in histories), strict=True)
    return bytes([min(sum([value for value in values if value != NEVER]), 100) for values in columns])


def _history(row: ThreadRow) -> float:
    known = [value for value in row.history if value != NEVER]
    return sum(known) / len(known) if known else 0.0


def _by(kind: Kind) -> tuple[Callable[[ThreadRow], float], bool]:
    return (lambda row: row.times.get(kind, 0)), True


ORDERS: Mapping[str, tuple[Callable[[ThreadRow], float | str], bool]] = {
    "name": (lambda row: clean(row.name, 64).casefold(), False),
    "tid": (lambda row: row.tid, False),
    "pid": (lambda row: row.pid or 0, False),
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
    """Return the wait with most time, without ``wait.``; empty if there was none."""
    if not row.times.get(Kind.WAIT, 0):
        return ""
    times = Group(row.threads, GroupBy.THREAD).times()
    time, state = max(((time, state) for state, time in times.items() if kind_of(state) is Kind.WAIT), default=(0, ""))
    return state.removeprefix("wait.") if time else ""


@dataclass(slots=True)
class Roster:
    """Makes pictures of ledgers, and remembers what threads and groups did before."""

    _histories: dict[Key, bytes] = field(default_factory=dict)
    _of_groups: dict[Key, bytes] = field(default_factory=dict)

    def take(self, ledger: Ledger) -> Picture:
        """Return the picture of the next interval. Threads that have ended are shown once and then forgotten."""
        before, now = self._histories, dict[Key, bytes]()
        groups: dict[Key, int] = {}
        rows = []
        largest, effective = 0, Kind.EFFECTIVE
        whole = ledger.window.duration
        counted = bool(ledger.counted)
        seen = True, True
        for thread in ledger.threads:
            if counted:
                had = amounts_of(thread.states, cycles=False)
                times, seen = had.by_kind, (had.memory_seen, had.stall_seen)
            else:
                times = time_by_kind(thread.states)
            tid, process, name, time = thread.tid, (thread.pid, -1), thread.name, times[effective]
            key = tid, thread.birth
            history = now[key] = (before.get(key, b"") + _value(time, whole))[-KEPT:]
            groups[process] = groups.get(process, 0) + time
            groups[name] = groups.get(name, 0) + time
            if thread.cgroup is None:
                groups[NO_CGROUP] = groups.get(NO_CGROUP, 0) + time
            else:
                for place in {group_key(thread, GroupBy.POD), group_key(thread, GroupBy.CGROUP)}:
                    groups[place] = groups.get(place, 0) + time
            if tid > largest:
                largest = tid
            rows.append(ThreadRow(thread, times, whole, history, seen))
        self._histories = now
        self._of_groups = {**_absent(self._of_groups, groups), **self._longer(groups, whole)}
        largest = max(largest, max([thread.pid for thread in ledger.threads], default=0))
        return Picture(ledger, rows, largest, self._of_groups)

    def _longer(self, groups: Mapping[Key, int], whole: int) -> dict[Key, bytes]:
        before = self._of_groups
        return {key: (before.get(key, b"") + _value(time, whole))[-KEPT:] for key, time in groups.items()}

    def recall(self, ledgers: Iterable[Ledger]) -> Picture | None:
        """Return the picture of the last ledger, with the earlier ones as history."""
        self._histories, self._of_groups = {}, {}
        picture = None
        for ledger in ledgers:
            picture = self.take(ledger)
        return picture


def _value(time: int, whole: int) -> bytes:
    """Return a value of a history."""
    if not time:  # most have 0
        return _BYTES[0]
    return _BYTES[min(max(-(-100 * time // whole), 0), 100) if whole > 0 else NEVER]


def _absent(histories: Mapping[Key, bytes], present: Mapping[Key, int]) -> dict[Key, bytes]:
    """Return the histories of the names that no thread has now, because the next short process may have one again."""
    gone = {key: (history + _BYTES[0])[-KEPT:] for key, history in histories.items() if key not in present}
    return {key: history for key, history in gone.items() if isinstance(key, str) and any(history)}
