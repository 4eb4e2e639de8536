"""What the holders of locks did while others waited for them, as far as that is known (`headway.model.uses`).

That decides the remedy: a holder that waits for a disk, or is ready without a processor, needs no shorter code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from headway.dataclass import dataclass

from .ledger import Ledger
from .uses import LockHolder

__all__ = ["UNKNOWN", "Meanwhile", "kind_of_doing", "meanwhile"]

UNKNOWN = "unknown"
"""The state, and the kind, of what is not known of a holder: the lock went through other hands."""
_KNOWN = 0.5
"""Of so much of the waiting it must be known what the holder did, or nothing is said."""
_NOTABLE = 0.3

_KINDS: Mapping[str, str] = {
    "kernel.reclaim": "memory",
    "wait.reclaim": "memory",
    "wait.disk": "disk",
    "wait.fault": "disk",
    "wait.futex": "lock",
    "wait.gil": "lock",
    "wait.mmap_lock": "lock",
    "wait.file_lock": "lock",
    "wait.kernel_lock": "lock",
    "wait.flock": "lock",
    "wait.net": "socket",
    "wait.epoll": "socket",
    "wait.poll": "socket",
    "wait.pipe": "pipe",
    "wait.sleep": "sleep",
    "wait.child": "child",
    "irq": "interrupts",
    "softirq": "interrupts",
}


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """What a holder did, in one word (`kind_of_doing`), for a share of the time that others waited, 0 to 1."""

    kind: str
    share: float


def kind_of_doing(state: str) -> str:
    """Return what kind of doing a state is: ``disk``, ``ready``, ``lock``; of other waits the state itself."""
    first = state.partition(".")[0]
    return _KINDS.get(state) or (state if first == "wait" else _KINDS.get(first, first))


def meanwhile(ledger: Ledger, pids: Collection[int], lock: str, holder: str | None = None) -> tuple[Meanwhile, ...]:
    """Return what holders did while threads waited for a lock of one of these processes, most first.

    ``holder``: the name of those that are asked about; None: all. Empty: that is not known, or not of enough of that
    time.
    """
    doing: Counter[str] = Counter()
    waited = 0
    for one in _holders(ledger, pids, lock):
        if holder is None or one.name == holder:
            waited += one.waited
            for state, time in one.doing.items():
                doing[kind_of_doing(state)] += time
    whole = doing.total()
    if not waited or whole - doing[UNKNOWN] < _KNOWN * waited:
        return ()
    rows = sorted(doing.items(), key=lambda row: (-row[1], row[0]))
    return tuple(Meanwhile(kind, time / whole) for kind, time in rows if kind != UNKNOWN and time >= _NOTABLE * whole)


def _holders(ledger: Ledger, pids: Collection[int], name: str) -> Iterator[LockHolder]:
    locks = ledger.uses.locks if ledger.uses is not None else None
    for lock in locks or ():
        if lock.pid in pids and lock.name == name:
            yield from lock.holders or lock.wakers
