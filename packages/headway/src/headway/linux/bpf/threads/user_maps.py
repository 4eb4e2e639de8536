"""The maps in which threads read what they have done: one for each user, made when a process of that user asks.

The eBPF programs write them (publishing.h), and nobody else: a map is frozen before anybody gets it. So a process reads
the threads of its own user, and no other ones.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from headway.linux.bpf.programs.libbpf import Object
from headway.linux.bpf.shared.layout import (
    PUBLICATION_MAGIC,
    PUBLICATION_VERSION,
    PUBLISHED,
    STATES,
    packing,
    size_of,
)

__all__ = ["UserMaps", "room_for", "taking_maps"]

_FEW_THREADS, _MOST_THREADS = 1 << 12, 1 << 14
"""Threads that a map has room for, of which the first is none: about 2 KiB each. A process maps them all at once, which
takes it 0.1 ms for 1,024."""
_UNIT = PUBLISHED["PUBLISHED_UNIT"]


def room_for(threads: int) -> int:
    """Return how many threads a map has room for, where there is room to measure so many."""
    return min(threads, max(threads // 2, _FEW_THREADS), _MOST_THREADS)


def taking_maps(programs: Object, threads: int) -> AbstractContextManager[None]:
    """Have programs take maps with room for so many threads. They are to be loaded meanwhile."""
    return programs.map("publications").taking_arrays(_UNIT, _units(threads))


def _units(threads: int) -> int:
    """Return the entries of a map with room for so many threads."""
    return threads * (1 + PUBLISHED["STATE_UNITS"]) + STATES["N_STATES"] // PUBLISHED["UNIT_NAMES"]


class UserMaps:
    """Makes the maps, and keeps their descriptors; `close` gives them back, and the programs keep the maps.

    ``threads``: those that a map has room for. ``names``: of the states, by number; empty: it will be known later.
    ``used``: the entries of threads below this may be in use from the beginning on. ``everybody``: all users share one
    map, with all threads. ``announce``: tells the programs that there is one map more, and whose.
    """

    def __init__(
        self,
        programs: Object,
        threads: int,
        names: Sequence[str],
        announce: Callable[[int], None],
        *,
        kernel_known: bool,
        used: int = 1,
        everybody: bool = False,
    ) -> None:
        self._programs, self._maps = programs, programs.map("publications")
        self.threads, self.units = threads, _units(threads)
        self._announce, self._everybody = announce, everybody
        head = {
            "magic": PUBLICATION_MAGIC,
            "version": PUBLICATION_VERSION,
            "entry_size": _UNIT,
            "entries": threads,
            "kernel_known": kernel_known,
            "until": (1 << 64) - 1,
            "states_at": threads,
            "state_units": PUBLISHED["STATE_UNITS"],
            "names_at": threads * (1 + PUBLISHED["STATE_UNITS"]),
            "n_names": len(names),
            "threads_used": used,
            "overhead": STATES["OVERHEAD"],
        }
        self._head = packing("publication", *head).pack(*head.values())
        size = size_of("tag_name")
        self._names = b"".join(name.encode("ascii", "replace")[: size - 1].ljust(size, b"\0") for name in names)
        self._fds: dict[int, int] = {}
        self._given, self._waiting = 0, list[int]()

    def of(self, user: int) -> int | None:
        """Return the descriptor of a user's map, which stays this object's; None: there is no room for one more user.

        Raises BpfError, OSError.
        """
        user = PUBLISHED["EVERYBODY"] if self._everybody else user
        if user not in self._fds:
            if len(self._fds) == PUBLISHED["N_PUBLICATIONS"]:
                return None
            self._fds[user] = self._make()
            self._waiting.append(user)
        return self._fds[user]

    def give(self) -> None:
        """Give the programs the maps that were made, which takes some 30 ms. Raises BpfError.

        That is so late because a process that asks for its map does not wait for long.
        """
        while self._waiting:
            user = self._waiting[0]
            self._maps.put(self._given, self._fds[user])
            self._given += 1
            self._announce(self._waiting.pop(0))
            self._programs.programs["publish_absent"].iterate()

    def _make(self) -> int:
        fd = self._maps.new_array(_UNIT, self.units)
        try:
            with mmap.mmap(fd, _UNIT * self.units, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as memory:
                memory[: len(self._head)] = self._head
                at = self.threads * (1 + PUBLISHED["STATE_UNITS"]) * _UNIT
                memory[at : at + len(self._names)] = self._names
            self._maps.freeze_array(fd)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def close(self) -> None:
        """Close the descriptors; may be called again."""
        while self._fds:
            os.close(self._fds.popitem()[1])
