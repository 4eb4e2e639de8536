"""What threads used, for the ledgers: system calls by file, and the locks that they waited for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headway.model import Behind, Ledger, Thread
from headway.model.locks import FUTEX, names_a_lock
from headway.model.uses import LockHolder, LockUse, Uses, locks_together, sorted_threads, subtract_uses

if TYPE_CHECKING:
    from headway.linux.bpf.tables.call_table import CallTable
    from headway.linux.bpf.tables.lock_table import Contention, LockTable
    from headway.linux.bpf.waits.causes import Causes, LockWaits

__all__ = ["UseReader", "lock_uses"]

_LOWER = 0xFFFFFFFF


class UseReader:
    """Tells in ledgers what threads used, as far as that was asked for."""

    def __init__(self, calls: CallTable | None, locks: LockTable | None) -> None:
        self._calls, self._locks = calls, locks
        self._earlier: Uses | None = None

    def told(self, ledger: Ledger, causes: Causes | None, *, interval: bool) -> Ledger:
        """Return the ledger with what its threads used. ``causes``: of the snapshot that the ledger is made of.

        ``interval``: the ledger has what came since the last one.
        """
        at = ledger.window.end
        uses = self._calls.read(at) if self._calls is not None else Uses()
        if causes is not None:
            contention = self._locks.read(at) if self._locks is not None else None
            uses = replace(uses, locks=lock_uses(causes.locks, ledger.threads, contention))
        since = subtract_uses(uses, self._earlier) if interval else uses
        self._earlier = uses
        return replace(ledger, uses=since)


def lock_uses(waits: LockWaits, threads: Iterable[Thread], contention: Contention | None) -> tuple[LockUse, ...]:
    """Return the locks that threads waited for, and other futexes, most waiting first. ``threads``: that are known."""
    names = {(thread.pid, thread.tid): thread.name for thread in threads}
    behind: dict[tuple[int, int], list[tuple[Behind, LockHolder]]] = {}
    for (pid, lower, relation, tid, name), (time, count) in waits.behind.items():
        if relation is Behind.HOLDER:
            if (pid, tid) not in names:  # it was no lock, or the program's ids are of another pid namespace
                continue
            name = names[pid, tid]
        behind.setdefault((pid, lower), []).append((relation, LockHolder(tid, name, time, count)))
    return locks_together(
        _lock_use(pid, state, address, name, waited, behind.get((pid, address & _LOWER), ()), contention)
        for (pid, state, address, name), waited in waits.of.items()
    )


def _lock_use(
    pid: int,
    state: str,
    address: int,
    name: str,
    waited: tuple[int, int],
    behind: Iterable[tuple[Behind, LockHolder]],
    contention: Contention | None,
) -> LockUse:
    doing: Mapping[tuple[int, int, int], Mapping[str, int]] = {} if contention is None else contention.doing
    holders = [
        replace(holder, doing=doing.get((pid, address, holder.tid), {}))
        for relation, holder in behind
        if relation is Behind.HOLDER
    ]
    return LockUse(
        pid,
        name,
        state,
        waits=waited[1],
        waited=waited[0],
        held=None if contention is None else contention.held.get((pid, address)),
        holders=sorted_threads(holders),
        wakers=sorted_threads([waker for relation, waker in behind if relation is Behind.WAKER]),
        is_lock=bool(holders) or state != FUTEX or names_a_lock(name),
    )
