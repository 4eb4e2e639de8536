"""Load the programs that tell how long locks were held while others waited (locks.bpf.c), and read what they saw."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headway.linux.structures import Structures

from ..programs.kernel_types import KernelTypes
from ..programs.libbpf import Library, Object
from ..shared.layout import STATES, pack
from ._lock_layout import STRUCTURES
from .beside import ProgramsBeside

__all__ = ["Contention", "LockTable"]

LOCKS = 1 << 12
"""Locks that there is room for."""
DOINGS = 1 << 14
"""States of holders, by lock and holder, that there is room for."""

_packing = Structures(STRUCTURES).packing
_LOCK = _packing("lock_key", "address", "pid")
_CONTENTION = _packing("contention", "since", "held", "waiters")
_DOING = _packing("doing_key", "address", "pid", "holder", "state")
_TIME = struct.Struct("=q")

Place = tuple[int, int]
"""A lock: the process, and its address there."""


@dataclass(frozen=True, slots=True)
class Contention:
    """What was seen of the locks of programs, by (process, address); times in ns."""

    held: Mapping[Place, int]
    """The time in which at least one thread waited for the lock. Empty: that is not known."""
    doing: Mapping[tuple[int, int, int], Mapping[str, int]]
    """What a holder did while others waited, by (process, address, id of the holder) and state. ``unknown``: the lock
    went through other hands.
    """


class LockTable(ProgramsBeside):
    """The programs, loaded beside those of ``main``.

    ``max_thread_records``: entries of the map of records of threads. ``state_name``: of a state, by its number.
    ``fetch``: whether the kernel's JIT has instructions that fetch (`Features`); without them it is not known how long
    a lock was held while others waited.
    """

    def __init__(
        self,
        library: Library,
        main: Object,
        max_thread_records: int,
        types: KernelTypes,
        state_name: Callable[[int], str],
        *,
        fetch: bool,
    ) -> None:
        data = {".rodata.settings": pack("settings", {"has_fetch": int(fetch)})}
        sizes = {"lock_waits": max_thread_records, "contentions": LOCKS, "doings": DOINGS}
        super().__init__(library, "locks.bpf.o", main, sizes, data, types, (".bss.found_records",))
        self._state_name, self._knows_held = state_name, fetch

    def read(self, at: int) -> Contention:
        """Return what has been seen until now; waits that go on count until ``at``, ns of CLOCK_MONOTONIC."""
        held = {}
        for key, value in self.map("contentions").items() if self._knows_held else ():
            address, pid = _LOCK.unpack(key)
            since, time, waiters = _CONTENTION.unpack(value)
            held[pid, address] = time + (max(at - since, 0) if waiters else 0)
        doing: dict[tuple[int, int, int], dict[str, int]] = {}
        for key, value in self.map("doings").items():
            address, pid, holder, state = _DOING.unpack(key)
            name = self._state_name(state) if state != STATES["STATE_NONE"] else "unknown"
            states = doing.setdefault((pid, address, holder), {})
            states[name] = states.get(name, 0) + _TIME.unpack(value)[0]
        return Contention(
            held, {key: {s: time for s, time in states.items() if time > 0} for key, states in doing.items()}
        )
