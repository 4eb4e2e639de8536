"""What threads used: system calls by file, and the locks that they waited for.

The parts of a ledger that are asked for apart (``headway stat --calls``, ``--files``, ``--sockets``, ``--locks``). All
times are in the ledger's time unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from headway.dataclass import dataclass

__all__ = [
    "CallUse",
    "LockHolder",
    "LockUse",
    "UsedFile",
    "Uses",
    "add_call_uses",
    "add_uses",
    "locks_together",
    "sorted_threads",
    "subtract_uses",
]


@dataclass(frozen=True, slots=True)
class UsedFile:
    """A file that system calls were about: a file of a file system, a socket, a pipe, a device, or another one.

    (device, inode, generation) identifies it while it exists.
    """

    kind: str
    """``disk`` (a regular file or a block device), ``socket``, ``pipe``, ``device`` or ``other``."""
    device: int
    inode: int
    generation: int = 0
    name: str = ""
    """Its path, from the root of the process that used it first; of a socket or a pipe ``socket:[INODE]``."""
    local: str = ""
    """Of a socket: the address of its own end, as in ``127.0.0.1:80``, ``/run/x.sock`` or ``@name``.

    Empty: it has none, or none that is known.
    """
    peer: str = ""
    """The address of the other end, and in the family AF_UNIX whose it is: ``/run/x.sock (nginx 80)`` or ``nginx 80``.

    Empty: nothing is known of it.
    """


@dataclass(frozen=True, slots=True)
class CallUse:
    """The calls of one process that were of one kind, and about one file."""

    pid: int
    """0: of all processes for which there was no room of their own."""
    call: str
    file: UsedFile | None = None
    """None: the call is about no file, or there was no room for which."""
    count: int = 0
    """How many have returned."""
    errors: int = 0
    """How many of them returned an error."""
    on: int = 0
    """The time on a processor in them, with what page faults and interrupts took meanwhile, without headway's own."""
    waited: int = 0
    """The time in them that the thread waited for something, or was stopped."""
    ready: int = 0
    """The time in them that it waited for a processor."""
    bytes: int = 0
    """What they moved, by what they returned."""
    going_on: int = 0
    """How many had not returned in the end. Their time is in it."""
    second: bool = False
    """Whether the file is the call's second one, of which only the bytes are counted."""

    @property
    def time(self) -> int:
        """All time in the calls."""
        return self.on + self.waited + self.ready

    @property
    def key(self) -> tuple[int, str, UsedFile | None, bool]:
        """What tells it from the others of its ledger."""
        return self.pid, self.call, self.file, self.second

    def __add__(self, other: CallUse) -> CallUse:
        """Return both together, with what this one is about."""
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in _AMOUNTS})

    def __sub__(self, earlier: CallUse) -> CallUse:
        """Return what came since an earlier reading. What went on then may have less time now than that reading had."""
        return replace(self, **{name: max(getattr(self, name) - getattr(earlier, name), 0) for name in _AMOUNTS[:-1]})


_AMOUNTS = ("count", "errors", "on", "waited", "ready", "bytes", "going_on")


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A thread that had a lock when waits for it began."""

    tid: int
    name: str
    waited: int
    """The time in these waits."""
    waits: int
    doing: Mapping[str, int] = field(default_factory=dict)
    """What the thread did meanwhile: time by state. Empty: not known."""


@dataclass(frozen=True, slots=True)
class LockUse:
    """A lock, and those that waited for it."""

    pid: int
    """Of the process whose lock it is. 0: it is the kernel's."""
    name: str
    state: str
    """In which threads waited for it, as in ``wait.futex``."""
    waits: int
    waited: int
    """The time of all threads that waited for it."""
    held: int | None = None
    """The time in which at least one thread waited for it. None: not known."""
    holders: tuple[LockHolder, ...] = ()
    """Those that had it when waits began, the one with the most waiting first."""
    wakers: tuple[LockHolder, ...] = ()
    """Those that ended the waits, likewise."""
    is_lock: bool = True
    """Whether it is known to be a lock: by its holders, its name or its kind. A condition is waited for likewise."""

    @property
    def key(self) -> tuple[int, str, str]:
        """What tells it from the others of its ledger."""
        return self.pid, self.state, self.name

    def __add__(self, other: LockUse) -> LockUse:
        """Return two locks, or what was waited for one in two windows, as one."""
        return replace(
            self,
            waits=self.waits + other.waits,
            waited=self.waited + other.waited,
            held=None if self.held is None or other.held is None else self.held + other.held,
            holders=_threads_together(self.holders, other.holders),
            wakers=_threads_together(self.wakers, other.wakers),
            is_lock=self.is_lock or other.is_lock,
        )

    def __sub__(self, earlier: LockUse) -> LockUse:
        """Return what came since an earlier reading."""
        held = None if self.held is None or earlier.held is None else max(self.held - earlier.held, 0)
        return replace(
            self,
            waits=max(self.waits - earlier.waits, 0),
            waited=max(self.waited - earlier.waited, 0),
            held=held,
            holders=_threads_since(self.holders, earlier.holders),
            wakers=_threads_since(self.wakers, earlier.wakers),
        )


@dataclass(frozen=True, slots=True)
class Uses:
    """What was asked for of a ledger. None: it was not asked for."""

    calls: tuple[CallUse, ...] | None = None
    """By process, call and file, most time first."""
    errors: Mapping[tuple[int, str, int], int] = field(default_factory=dict)
    """How often calls returned an error: by process, call and errno."""
    locks: tuple[LockUse, ...] | None = None
    """Most waiting first."""
    without_place: int = 0
    """Calls for which there was no room by process and file: they are told by call."""


def add_call_uses(uses: Iterable[CallUse], by: str) -> dict[object, CallUse]:
    """Return the uses added up by one of their fields."""
    found: dict[object, CallUse] = {}
    for use in uses:
        key = getattr(use, by)
        found[key] = found[key] + use if key in found else use
    return found


def add_uses(a: Uses | None, b: Uses | None) -> Uses | None:
    """Return what threads used in two windows, of which ``b`` is the later one."""
    if a is None or b is None:
        return a or b
    errors = dict(a.errors)
    for key, n in b.errors.items():
        errors[key] = errors.get(key, 0) + n
    return Uses(
        None if a.calls is None and b.calls is None else _calls_together(a.calls or (), b.calls or ()),
        errors,
        None if a.locks is None and b.locks is None else locks_together((*(a.locks or ()), *(b.locks or ()))),
        a.without_place + b.without_place,
    )


def _calls_together(a: Iterable[CallUse], b: Iterable[CallUse]) -> tuple[CallUse, ...]:
    found = {use.key: replace(use, going_on=0) for use in a}  # what went on then has ended, or goes on in the later one
    for use in b:
        found[use.key] = found[use.key] + use if use.key in found else use
    return tuple(sorted(found.values(), key=_order))


def locks_together(locks: Iterable[LockUse]) -> tuple[LockUse, ...]:
    """Return the locks, sorted, with those of one process, name and state as one."""
    found: dict[tuple[int, str, str], LockUse] = {}
    for lock in locks:
        found[lock.key] = found[lock.key] + lock if lock.key in found else lock
    return tuple(sorted(found.values(), key=lambda lock: (-lock.waited, -lock.waits, lock.name)))


def _threads_together(a: Iterable[LockHolder], b: Iterable[LockHolder]) -> tuple[LockHolder, ...]:
    found: dict[tuple[int, str], LockHolder] = {}
    for one in (*a, *b):
        same = found.get((one.tid, one.name))
        if same is not None:
            doing = {s: same.doing.get(s, 0) + one.doing.get(s, 0) for s in {**same.doing, **one.doing}}
            one = LockHolder(one.tid, one.name, same.waited + one.waited, same.waits + one.waits, doing)
        found[one.tid, one.name] = one
    return sorted_threads(found.values())


def sorted_threads(threads: Iterable[LockHolder]) -> tuple[LockHolder, ...]:
    """Return threads by how long others waited, the longest first."""
    return tuple(sorted(threads, key=lambda one: (-one.waited, one.name, one.tid)))


def subtract_uses(later: Uses, earlier: Uses | None) -> Uses:
    """Return what came since an earlier reading."""
    if earlier is None:
        return later
    errors = {key: n - earlier.errors.get(key, 0) for key, n in later.errors.items()}
    return replace(
        later,
        calls=None if later.calls is None else _calls_since(later.calls, earlier.calls or ()),
        errors={key: n for key, n in errors.items() if n > 0},
        locks=None if later.locks is None else _locks_since(later.locks, earlier.locks or ()),
        without_place=later.without_place - earlier.without_place,
    )


def _calls_since(later: Iterable[CallUse], earlier: Iterable[CallUse]) -> tuple[CallUse, ...]:
    before = {use.key: use for use in earlier}
    calls = [use - before[use.key] if use.key in before else use for use in later]
    return tuple(sorted([use for use in calls if use.count or use.going_on or use.time], key=_order))


def _locks_since(later: Iterable[LockUse], earlier: Iterable[LockUse]) -> tuple[LockUse, ...]:
    before = {lock.key: lock for lock in earlier}
    locks = [lock - before[lock.key] if lock.key in before else lock for lock in later]
    return locks_together([lock for lock in locks if lock.waits or lock.waited])


def _threads_since(later: Iterable[LockHolder], earlier: Iterable[LockHolder]) -> tuple[LockHolder, ...]:
    before = {(one.tid, one.name): one for one in earlier}
    found = []
    for one in later:
        old = before.get((one.tid, one.name))
        if old is not None:
            doing = {state: max(time - old.doing.get(state, 0), 0) for state, time in one.doing.items()}
            waited, waits = max(one.waited - old.waited, 0), max(one.waits - old.waits, 0)
            one = replace(one, waited=waited, waits=waits, doing={s: t for s, t in doing.items() if t})
        if one.waited or one.waits:
            found.append(one)
    return sorted_threads(found)


def _order(use: CallUse) -> tuple[int, int, str, str]:
    return -use.time, -use.count, use.call, use.file.name if use.file is not None else ""
