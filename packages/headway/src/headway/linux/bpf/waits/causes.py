"""Read the causes of states from the memory of the eBPF programs (causes.h), and give them names that people know.

A futex is an address in a process, and the process may be gone when the report is made. So the futex is named while its
process lives, each time that the source is served.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from headway.binary.kallsyms import KernelSymbols
from headway.linux.symbols.futexes import LockName, Locks
from headway.model import Behind, Cause, CauseKey, list_causes
from headway.model.cause import FORGOTTEN, HIDDEN, IDLE, NOT_VISIBLE, STILL_READY, THROTTLED

from ..polling.checks import FILES
from ..programs.libbpf import Map
from ..reading.memory import BpfMaps
from ..shared.layout import CAUSES, FUTEX_LIST, HOLDERS, packing

__all__ = ["GIL", "CauseReader", "Causes", "LockWaits"]

GIL = "wait.gil"
"""The state that waiting for Python's global interpreter lock is named."""

_KEY = packing("cause_key", "birth", "object", "tid", "pid", "state", "kind")
_VALUE = packing("cause", "time", "count", "name")
_FUTEXES = struct.Struct(f"<{FUTEX_LIST['N_LISTED']}Q")
_PEER = packing("socket_peer", "family", "port", "pid", "address")
_SEVERAL = (CAUSES["OBJECT_FUTEXES"], CAUSES["OBJECT_MOVED"])
_WITH_LOCK = (CAUSES["WAKER_THREAD"], CAUSES["WAKER_STATE"], CAUSES["HOLDER_LOCK"])
"""Kinds of causes with the lower half of the futex's address."""
_NO_THREADS = {
    HOLDERS["HELD_IDLE"]: IDLE,
    HOLDERS["HELD_THROTTLED"]: THROTTLED,
    HOLDERS["HELD_STILL_READY"]: STILL_READY,
    HOLDERS["HELD_FORGOTTEN"]: FORGOTTEN,
}
_KERNEL_LOCKS = (CAUSES["OBJECT_LOCK"], CAUSES["OBJECT_MEMORY"], CAUSES["OBJECT_POSITION"])
_LOWER = 0xFFFFFFFF
_ADDRESS = (1 << FUTEX_LIST["LISTED_BITS"]) - 1

Key = tuple[int, int]
"""A thread: (tid, birth)."""
_More = tuple[int, int]
"""Time in ns, and count."""


@dataclass(slots=True)
class LockWaits:
    """What threads waited for that are, or may be, locks, over all threads: times in ns, and counts."""

    of: dict[tuple[int, str, int, str], tuple[int, int]]
    """By process (0: the kernel's), state, address and name."""
    behind: dict[tuple[int, int, Behind, int, str], tuple[int, int]]
    """Who had it, and who ended the waits: by process, lower half of its address, relation, and the thread's id and
    name.
    """

    def add(
        self, pid: int, state: str, kind: int, thing: int, told: tuple[str, Behind, int | None], more: _More
    ) -> None:
        """Add a cause, if it is of a lock. ``told``: what is behind it, as `CauseReader` describes it."""
        name, behind, tid = told
        if kind in _KERNEL_LOCKS:
            _grow(self.of, (0, state, thing, name), more)
        elif kind == CAUSES["OBJECT_ADDRESS"]:
            _grow(self.of, (pid, state, thing, name), more)
        elif kind in (CAUSES["HOLDER_LOCK"], CAUSES["WAKER_THREAD"]) and thing >> 32:
            _grow(self.behind, (pid, thing >> 32, behind, tid or 0, name), more)


@dataclass(slots=True)
class Causes:
    """Causes of threads, by (tid, birth), and how much of ``wait.futex`` was for the GIL: time in ns, and count."""

    of: dict[Key, dict[CauseKey, tuple[int, int]]]
    gil: dict[Key, tuple[int, int]]
    locks: LockWaits

    def listed(self, key: Key, earlier: Causes | None = None) -> tuple[Cause, ...]:
        """A thread's causes, most time first; with ``earlier``, what came since."""
        before = earlier.of.get(key, {}) if earlier is not None else {}
        rows = {}
        for what, (time, count) in self.of.get(key, {}).items():
            old_time, old_count = before.get(what, (0, 0))
            if time >= old_time:  # or a thread that was still ready then has got its processor
                rows[what] = time - old_time, max(count - old_count, 0)
        return list_causes(rows)

    def gil_of(self, key: Key, earlier: Causes | None = None) -> tuple[int, int]:
        """How much of a thread's waiting was for the GIL: time in ns, and count."""
        time, count = self.gil.get(key, (0, 0))
        old_time, old_count = earlier.gil.get(key, (0, 0)) if earlier is not None else (0, 0)
        return time - old_time, count - old_count


class CauseReader:
    """Reads the map of causes, and remembers the names of what threads wait for."""

    def __init__(self, causes: Map, memory: BpfMaps) -> None:
        self._map, self._memory = causes, memory
        self._locks = Locks()
        self._kernel = KernelSymbols()
        self._names: dict[tuple[int, int], LockName | None] = {}
        self._lines: dict[int, str] = {}
        self._gils: set[tuple[int, int]] = set()

    def look(self) -> None:
        """Name the futexes that are new, while their processes are there."""
        self._look(self._map.items())

    def _look(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        fresh: dict[int, dict[int, int]] = {}
        for key, value in entries:
            _, thing, tid, pid, _, kind = _KEY.unpack(key)
            for address in (thing,) if kind == CAUSES["OBJECT_ADDRESS"] else _addresses(kind, value):
                if (pid, address) not in self._names:
                    fresh.setdefault(pid, {})[address] = tid
        for wait in self._memory.open_waits():
            if wait.kind == CAUSES["OBJECT_ADDRESS"] and (wait.pid, wait.object) not in self._names:
                fresh.setdefault(wait.pid, {})[wait.object] = wait.tid
        for pid, addresses in fresh.items():
            names: Mapping[int, LockName] = {}
            for one in (pid, *addresses.values()):  # a process whose first thread has ended shows its memory in others
                with suppress(OSError):
                    names = self._locks.names(one, addresses)
                if names:
                    break
            for address in addresses:
                lock = names.get(address)
                if lock is None and self._locks.was_gil(pid, address):
                    lock = LockName("Python's GIL", True)
                self._names[pid, address] = lock
                if lock is not None and lock.is_gil:
                    self._gils.add((pid, address & _LOWER))

    def read(self, at: int) -> Causes:
        """All causes so far; of a wait that goes on, what it is for, with its time until the moment ``at``.

        Who has the processor while a thread is ready is not known before it gets one.
        """
        entries = list(self._map.items())
        self._look(entries)
        causes = Causes({}, {}, LockWaits({}, {}))
        texts: dict[tuple[int, int], bytes] = {}
        for key, value in entries:
            birth, thing, tid, pid, number, kind = _KEY.unpack(key)
            time, count, raw = _VALUE.unpack(value)
            texts[kind, thing] = raw
            if count or time:
                self._add(causes, (tid, birth), pid, number, kind, thing, raw, time, count)
        for wait in self._memory.open_waits():
            if wait.since < at:
                thread, what = (wait.tid, wait.birth), (wait.kind, wait.object)
                self._add(causes, thread, wait.pid, wait.state, *what, texts.get(what, b""), at - wait.since, 1)
        return causes

    def forget(self, threads: Set[Key]) -> None:
        """Make room: these threads have ended, and what was behind their states has been reported."""
        for key, _ in self._map.items() if threads else ():
            birth, _, tid, _, _, _ = _KEY.unpack(key)
            if (tid, birth) in threads:
                self._map.remove(key)

    def _add(
        self,
        causes: Causes,
        thread: Key,
        pid: int,
        number: int,
        kind: int,
        thing: int,
        raw: bytes,
        time: int,
        count: int,
    ) -> None:
        state = self._memory.state_name(number)
        name, behind, of = self._describe(pid, kind, thing, raw)
        if self._is_gil(pid, kind, thing):
            state = GIL
            if kind == CAUSES["OBJECT_ADDRESS"]:
                old = causes.gil.get(thread, (0, 0))
                causes.gil[thread] = old[0] + time, old[1] + count
        causes.locks.add(pid, state, kind, thing, (name, behind, of), (time, count))
        _grow(causes.of.setdefault(thread, {}), (state, behind, name, of), (time, count))

    def _is_gil(self, pid: int, kind: int, thing: int) -> bool:
        """Whether a wait was for the GIL: by its futex's address, or by the lower half, which is with the waker."""
        if kind == CAUSES["OBJECT_ADDRESS"]:
            lock = self._names.get((pid, thing))
            return lock is not None and lock.is_gil
        return kind in _WITH_LOCK and (pid, thing >> 32) in self._gils

    def _describe(self, pid: int, kind: int, thing: int, raw: bytes) -> tuple[str, Behind, int | None]:
        if kind == CAUSES["OBJECT_ADDRESS"]:
            return self._futex(pid, thing), Behind.OBJECT, None
        if kind in _SEVERAL:
            return self._futexes(pid, kind, raw), Behind.OBJECT, None
        text = raw.partition(b"\0")[0].decode(errors="replace")
        if kind == CAUSES["WAKER_THREAD"]:
            return _named(text, thing & _LOWER), Behind.WAKER, thing & _LOWER or None
        if kind == CAUSES["WAKER_STATE"]:
            return self._memory.state_name(thing & _LOWER), Behind.WAKER, None
        if kind == CAUSES["HOLDER_LOCK"]:  # the ledger knows its name, if it is a thread
            return "", Behind.HOLDER, thing & _LOWER
        if kind == CAUSES["HOLDER_STATE"]:
            return self._memory.state_name(thing), Behind.HOLDER, None
        if kind == CAUSES["HOLDER_HIDDEN"]:
            return (text + HIDDEN if text else "a thread" + HIDDEN), Behind.HOLDER, thing or None
        if kind == CAUSES["HOLDER_THREAD"] and thing in _NO_THREADS:
            return _NO_THREADS[thing], Behind.HOLDER, None
        if kind == CAUSES["HOLDER_THREAD"]:
            return _named(text, thing), Behind.HOLDER, thing or None
        if kind == CAUSES["OBJECT_LINE"]:
            return self._line(thing), Behind.OBJECT, None
        if kind == CAUSES["OBJECT_STATE"]:
            return self._memory.state_name(thing), Behind.OBJECT, None
        if kind == CAUSES["OBJECT_MEMORY"]:
            return f"memory of {text or 'a process'}{f' {thing}' if thing else ''}", Behind.OBJECT, None
        if kind == CAUSES["OBJECT_POSITION"]:
            return f"position in {text or 'a file'}", Behind.OBJECT, None
        if kind == CAUSES["OBJECT_LOCK"]:
            symbol = self._kernel.data_at(thing)
            return f"{symbol or f'{thing:#x}'} (kernel)", Behind.OBJECT, None
        file = FILES[(kind - CAUSES["OBJECT_FILE"]) % len(FILES)]
        if file == "socket":
            return f"socket:[{thing}]{_other_end(raw)}", Behind.OBJECT, None
        return (f"{file}:[{thing}]" if file == "pipe" or not text else text), Behind.OBJECT, None

    def _futex(self, pid: int, address: int) -> str:
        lock = self._names.get((pid, address))
        return lock.text if lock is not None else f"futex {address:#x}"

    def _futexes(self, pid: int, kind: int, raw: bytes) -> str:
        """Name several futexes: ``{A, B}: B`` was any of a list, until it was woken at B; ``A, then B`` was moved."""
        if len(raw) < _FUTEXES.size:
            return "several futexes"
        words = _FUTEXES.unpack_from(raw)
        marks = [word >> FUTEX_LIST["LISTED_BITS"] for word in words]
        names = [self._futex(pid, word & _ADDRESS) for word in words]
        if kind == CAUSES["OBJECT_MOVED"]:
            return f"{names[0]}, then {names[1]}"
        listed, ended = marks[FUTEX_LIST["LISTED_NUMBER"]], marks[FUTEX_LIST["LISTED_ENDED"]]
        more = [f"… {listed - len(names)} more"] if listed > len(names) else []
        return f"{{{', '.join(names[:listed] + more)}}}" + (f": {names[ended - 1]}" if 0 < ended <= len(names) else "")

    def _line(self, number: int) -> str:
        """The devices of an interrupt line (proc_interrupts(5))."""
        if not self._lines:
            self._lines = dict(_interrupt_lines())
        return self._lines.get(number, f"interrupt {number}")


_What = TypeVar("_What")


def _grow(rows: dict[_What, _More], what: _What, more: _More) -> None:
    time, count = rows.get(what, (0, 0))
    rows[what] = time + more[0], count + more[1]


def _other_end(raw: bytes) -> str:
    """Return words for the other end of a socket; empty: it has none, or none that is known."""
    family, port, pid, address = _PEER.unpack_from(raw.ljust(_PEER.size, b"\0"))
    if family == socket.AF_UNIX and pid:
        return f" of process {pid}"
    if family == socket.AF_INET:
        return f" to {socket.inet_ntop(family, bytes(address[:4]))}:{socket.ntohs(port)}"
    return f" to [{socket.inet_ntop(family, bytes(address))}]:{socket.ntohs(port)}" if family == socket.AF_INET6 else ""


def _addresses(kind: int, value: bytes) -> list[int]:
    """Return the futexes in the name of a cause that has several."""
    if kind not in _SEVERAL:
        return []
    _, _, raw = _VALUE.unpack(value)
    return [address for word in _FUTEXES.unpack_from(raw) if (address := word & _ADDRESS)]


def _named(name: str, tid: int) -> str:
    """Return the name of a thread. One without an id here is told from what is no thread."""
    return (name or "a thread") + ("" if tid else NOT_VISIBLE)


def _interrupt_lines() -> Iterator[tuple[int, str]]:
    with suppress(OSError):
        for line in Path("/proc/interrupts").read_text(errors="replace").splitlines():
            found = re.match(r"\s*(\d+):(?:\s+\d+)+\s+\S.*?(\S+)$", line)
            if found:
                yield int(found.group(1)), f"{found.group(2)} (irq {found.group(1)})"
