"""Load the programs that count system calls by process, call and file (calls.bpf.c), and read what they counted."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from headway.linux.procfs import processors
from headway.linux.structures import Structures
from headway.linux.syscalls.files import BYTES, FIRST, MESSAGES, RETURNED, SECOND, TWICE
from headway.linux.syscalls.table import name_of, numbers
from headway.model.uses import CallUse, UsedFile, Uses

from ..programs.kernel_types import KernelTypes
from ..programs.libbpf import Library, Object
from ..shared._layout import CONSTANTS as SHARED
from ..shared.layout import FILE_KINDS, STATES
from ..shared.layout import size_of as size_of_shared
from ._call_layout import CONSTANTS, STRUCTURES
from .beside import ProgramsBeside

__all__ = ["CallTable"]

CALL_USES = 1 << 15
"""Uses that there is room for: by process, call and file."""
FILES = 1 << 13
"""Files whose names there is room for."""
ERRORS = 1 << 12
"""Errors that there is room for: by process, call and errno."""
_ROUNDS = 3
_RUNS_OF_A_CALL = 2
"""Programs that run at each call."""
_MOST_TAX = 1000
"""ns; more comes from what else ran."""

_N_CALLS = STATES["N_CALLS"]
_STRUCTURES = Structures(STRUCTURES)
packing, size_of = _STRUCTURES.packing, _STRUCTURES.size_of
_FILE = packing("used_file_key", "inode", "device", "generation", "kind")
_KEY = packing("call_key", "file", "pid", "call", "second")
_USE = packing("call_use", "count", "errors", "on", "waited", "ready", "bytes")
_INFO = packing("file_info", "length", "flags", "family", "peer_pid", "local", "remote", "path")
_END = packing("socket_end", "address", "port")
_ERROR = packing("error_key", "pid", "call", "error")
_OPEN = packing("open_call", "birth", "began", "left", "off", "ready", "overhead", "file", "second", "call", "pid")
_COUNT = struct.Struct("=Q")
_RECORD_SIZE, _OPEN_SIZE = size_of_shared("thread_record"), size_of("open_call")
_KINDS = {
    FILE_KINDS["FILE_DISK"]: "disk",
    FILE_KINDS["FILE_SOCKET"]: "socket",
    FILE_KINDS["FILE_PIPE"]: "pipe",
    FILE_KINDS["FILE_DEVICE"]: "device",
}
_OTHER = "other"


class CallTable(ProgramsBeside):
    """The programs, loaded beside those of ``main``.

    ``max_thread_records``: entries of the map of records of threads.
    """

    def __init__(self, library: Library, main: Object, max_thread_records: int, types: KernelTypes) -> None:
        sizes = _sizes(max_thread_records)
        super().__init__(library, "calls.bpf.o", main, sizes, {".rodata.about": _about()}, types)
        self._records = self.map("thread_records").map_memory()
        self._open = self.map("open_calls").map_memory()
        self._others = self.map("other_uses").map_memory()
        self._account = self.map(".bss").map_memory()

    def calibrate(self, call: Callable[[], float]) -> None:
        """Find what it takes to begin and end a program, which their own clock does not show. They are not attached.

        ``call``: returns how long a system call of a thread that is measured takes now, ns. What was counted of that
        thread is forgotten.
        """
        before = min(call() for _ in range(_ROUNDS))
        self.attach()
        self._tell("timing", 1)
        after = min(call() for _ in range(_ROUNDS))
        self._tell("timing", 0)
        self.detach()
        runs = self._told("own_runs")
        if runs:
            taxes = (after - before) / _RUNS_OF_A_CALL - self._told("own_time") / runs
            self._tell("tax", round(min(max(taxes, 0), _MOST_TAX) * (1 << SHARED["COST_BITS"])))
        for name in ("call_uses", "call_errors", "file_infos"):
            counted = self.map(name)
            for key, _ in list(counted.items()):
                counted.remove(key)

    def _told(self, name: str) -> int:
        return int(_COUNT.unpack_from(self._account, _STRUCTURES.offset_of("call_account", name))[0])

    def _tell(self, name: str, value: int) -> None:
        _COUNT.pack_into(self._account, _STRUCTURES.offset_of("call_account", name), value)

    def read(self, at: int) -> Uses:
        """Return what has been counted; calls that go on have their time until ``at``, ns of CLOCK_MONOTONIC."""
        files = _Files(dict(self.map("file_infos").items()))
        found: dict[tuple[int, str, UsedFile | None, bool], CallUse] = {}
        uses = [*self._returned(files), *self._other(), *self._going_on(files, at)]
        for use in uses:
            found[use.key] = found[use.key] + use if use.key in found else use
        errors = {}
        for key, value in self.map("call_errors").items():
            pid, call, error = _ERROR.unpack(key)
            errors[pid, _name(call), error] = _COUNT.unpack(value)[0]
        calls = sorted(found.values(), key=lambda use: (-use.time, -use.count, use.call))
        return Uses(tuple(calls), errors, without_place=self._told("without_place"))

    def _returned(self, files: _Files) -> Iterator[CallUse]:
        for key, value in self.map("call_uses").items():
            file, pid, call, second = _KEY.unpack(key)
            yield replace(CallUse(pid, _name(call), files.of(file), *_USE.unpack(value)), second=bool(second))

    def _other(self) -> Iterator[CallUse]:
        """Yield the calls for which there was no room by process and file."""
        for call in range(_N_CALLS):
            amounts = _USE.unpack_from(self._others, call * size_of("call_use"))
            if amounts[0]:
                yield CallUse(0, _name(call), None, *amounts)

    def _going_on(self, files: _Files, at: int) -> Iterator[CallUse]:
        """Yield the calls that threads are in."""
        for record in range(1, len(self._open) // _OPEN_SIZE):
            birth, began, left, off, _, _, file, _, call, pid = _OPEN.unpack_from(self._open, record * _OPEN_SIZE)
            if not birth or not began or call >= _N_CALLS or began > at:
                continue
            if birth != _COUNT.unpack_from(self._records, record * _RECORD_SIZE)[0]:
                continue  # it has ended in that call
            since = max(at - left, 0) if left else 0
            off += since
            on = max(at - began - off, 0)
            yield CallUse(pid, _name(call), files.of(file), on=on, waited=off, going_on=1)


class _Files:
    """The files that were noted, by their keys."""

    def __init__(self, infos: Mapping[bytes, bytes]) -> None:
        self._infos = infos
        self._known: dict[bytes, UsedFile | None] = {}

    def of(self, key: bytes) -> UsedFile | None:
        """Return a file; None: the key is that of no file."""
        if key not in self._known:
            self._known[key] = self._described(key)
        return self._known[key]

    def _described(self, key: bytes) -> UsedFile | None:
        inode, device, generation, number = _FILE.unpack(key)
        if not inode:
            return None
        kind = _KINDS.get(number, _OTHER)
        info = self._infos.get(key)
        if kind in ("socket", "pipe"):
            local, peer = _ends(info) if kind == "socket" and info is not None else ("", "")
            return UsedFile(kind, device, inode, generation, f"{kind}:[{inode}]", local, peer)
        return UsedFile(kind, device, inode, generation, _path(info) or f"inode {inode}")


def _path(info: bytes | None) -> str:
    """Return the path of a file; empty: it was not noted."""
    if info is None:
        return ""
    length, flags, _, _, _, _, names = _INFO.unpack(info)
    parts = [os.fsdecode(part) for part in names[: min(length, len(names))].split(b"\0")[:-1]]
    text = "/".join(reversed(parts))
    if flags & CONSTANTS["PATH_CUT"]:
        return f"…/{text}"
    apart = flags & CONSTANTS["PATH_APART"] and (":" in text or "[" in text)  # memfd:NAME, [eventfd]
    return text if apart else f"/{text}"


def _ends(info: bytes) -> tuple[str, str]:
    """Return words for both ends of a socket."""
    _, _, family, pid, local, remote, path = _INFO.unpack(info)
    if family == socket.AF_UNIX:
        return _unix_ends(path, _END.unpack(local)[1], _END.unpack(remote)[1], pid)
    if family not in (socket.AF_INET, socket.AF_INET6):
        return "", ""
    return _address(family, *_END.unpack(local)), _address(family, *_END.unpack(remote))


def _unix_ends(path: bytes, local: int, remote: int, pid: int) -> tuple[str, str]:
    """Return words for both ends of a socket in the family AF_UNIX: addresses, and whose the other end is.

    ``local``, ``remote``: the bytes of the addresses. ``pid``: who made the other end; 0: not known.
    """
    size = CONSTANTS["UNIX_BYTES"]
    own, other = (_unix_address(path[at : at + size], n) for at, n in ((0, local), (size, remote)))
    who = ""
    if pid:
        with suppress(OSError):
            who = os.fsdecode(Path(f"/proc/{pid}/comm").read_bytes().rstrip(b"\n"))
        who = f"{who} {pid}" if who else f"process {pid}"
    return own, f"{other} ({who})" if other and who else other or who


def _unix_address(name: bytes, length: int) -> str:
    """Return an address in the family AF_UNIX (unix(7)): a path, ``@NAME`` for an abstract one; empty: it has none."""
    name = name[: min(length, len(name))]
    return os.fsdecode(b"@" + name[1:] if name[:1] == b"\0" else name.partition(b"\0")[0])


def _address(family: int, address: bytes, port: int) -> str:
    """Return the address of an end; empty: it has no port."""
    if not port:
        return ""
    if family == socket.AF_INET:
        return f"{socket.inet_ntop(family, address[:4])}:{port}"
    if address[:12] == b"\0" * 10 + b"\xff\xff":  # RFC 4291, 2.5.5.2: an IPv4 address
        return f"{socket.inet_ntop(socket.AF_INET, address[12:])}:{port}"
    return f"[{socket.inet_ntop(family, address)}]:{port}"


def _name(call: int) -> str:
    return name_of(call) if call != CONSTANTS["OTHER_CALLS"] else "other"


def _sizes(max_thread_records: int) -> dict[str, int]:
    return {
        "open_calls": max_thread_records,
        "call_uses": CALL_USES,
        "call_errors": ERRORS,
        "file_infos": FILES,
        "scratch": processors.possible(),
    }


def _about() -> bytes:
    """Return what the programs must know of calls, by number: where their files are, and what they return."""
    first, second, result = bytearray(_N_CALLS), bytearray(_N_CALLS), bytearray(_N_CALLS)
    known = {name: number for name, number in numbers().items() if 0 <= number < CONSTANTS["OTHER_CALLS"]}
    for name, number in known.items():
        first[number] = CONSTANTS["RETURNED_FILE"] if name in RETURNED else FIRST.get(name, 0)
        second[number] = SECOND.get(name, 0)
        result[number] = (
            CONSTANTS["RETURNS_BYTES"] * (name in BYTES)
            | CONSTANTS["RETURNS_MESSAGES"] * (name in MESSAGES)
            | CONSTANTS["RETURNS_TWICE"] * (name in TWICE)
        )
    return bytes(first + second + result)
