"""Where the threads of a process have their pointer to a thread context: the thread-local ``otel_thread_ctx_v1``.

The program or one of its libraries has the variable. How far it is from the thread pointer follows from the program's
own file, or stands where the dynamic linker has put it for the file's own accesses: as a distance, or as the number of
the module and an offset in it. With a number, each thread has the address of the module's part in its vector (DTV),
which each C library lays out in its own way.

Source: OTEP 4947, "Thread Local Variable Resolution" (open-telemetry/opentelemetry-specification, commit 631bbb4b749f);
"ELF Handling For Thread-Local Storage", U. Drepper; "Thread-Local Storage Descriptors", A. Oliva; glibc,
sysdeps/*/nptl/tls.h and dl-tls.h; musl, src/internal/pthread_impl.h.
"""

from __future__ import annotations

import hashlib
import os
import platform
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headway.binary.elf import ElfError, ElfFile, ThreadLocal, ThreadLocalKind, ThreadLocalSlot
from headway.linux.procfs.living import with_memory
from headway.linux.procfs.maps import Mapping, file_of, parse

from .process_context import ProcessContext, Read, read_process_context

__all__ = ["MAX_NAMES", "NAMING", "VARIABLE", "ContextAccess", "ContextFinder", "naming_keys", "resolve"]

VARIABLE = "otel_thread_ctx_v1"
SCHEMAS = ("tls_v1", "tlsdesc_v1_dev")
"""Values of ``threadlocal.schema_version`` by which threads have the variable."""
NAMING = (
    "headway.task.name",
    "http.route",
    "http_route",
    "url.template",
    "rpc.method",
    "graphql.operation.name",
    "messaging.destination.name",
    "faas.invoked_name",
)
"""Attributes that name a task, the best first: their values are few, unlike those of a URL or a user."""
MAX_NAMES = 4
"""Attributes of a process that are looked for (layout.h, N_CONTEXT_NAMES)."""

_GLIBC_VECTOR = {"x86_64": 8, "aarch64": 0}
_MUSL_VECTOR = {"x86_64": 8, "aarch64": -8}
"""Where the address of the vector is, from the thread pointer, in bytes."""
_GLIBC_ENTRY, _MUSL_ENTRY = 4, 3
"""The logarithm of the bytes of an entry."""
_FARTHEST = 1 << 31
"""Bytes from the thread pointer."""
_MAX_MODULES = 1 << 20
_MAX_KNOWN = 20_000
"""Files, and processes, that are remembered."""
_MAX_MAPS = 64 << 20


class ContextAccess(NamedTuple):
    """How the pointer is found from the thread pointer of a thread."""

    offset: int
    """From the thread pointer, in bytes; with a module, in that module's part."""
    module: int = 0
    """The module's number in the vector; 0: the vector is not needed."""
    vector: int = 0
    """Where the address of the vector is, from the thread pointer, in bytes."""
    entry: int = 0
    """The logarithm of the bytes of an entry of the vector."""
    names: bytes = b""
    """Key indexes of the attributes that name a task, the best first."""


class ContextFinder:
    """Finds the pointer in processes. It remembers which files have the variable.

    ``naming``: attributes that name a task, the best first; those of `NAMING` follow.
    """

    def __init__(self, naming: Sequence[str] = ()) -> None:
        self._naming = (*naming, *NAMING)
        self._known: dict[tuple[int, int, int, int], ThreadLocal | None] = {}
        self._without: dict[int, bytes] = {}
        """Process -> the code that it had mapped when none of its files had the variable."""

    def find(self, pid: int) -> ContextAccess | None:
        """Return how the pointer is found in a process; None: it has none, not yet, or it cannot be read."""
        alive = with_memory(pid)
        try:
            with open(f"/proc/{alive}/maps", "rb") as file:
                text = file.read(_MAX_MAPS)
            code = _digest(text)
            if self._without.get(pid) == code:
                return None
            maps = list(parse(text))
            memory = os.open(f"/proc/{alive}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:

            def read(address: int, size: int) -> bytes:
                try:
                    return os.pread(memory, size, address)
                except (OSError, OverflowError):
                    return b""

            found = [(one, known) for one in _files_of(maps) if (known := self._variable(pid, one)) is not None]
            self._remember(pid, b"" if found else code)
            return self._find(pid, found, maps, read) if found else None
        finally:
            os.close(memory)

    def _remember(self, pid: int, code: bytes) -> None:
        """Note with which code the process has no such variable; empty: it has one."""
        if len(self._without) >= _MAX_KNOWN:
            self._without.clear()
        if code:
            self._without[pid] = code
        else:
            self._without.pop(pid, None)

    def _find(
        self, pid: int, found: Sequence[tuple[Mapping, ThreadLocal]], maps: Sequence[Mapping], read: Read
    ) -> ContextAccess | None:
        about = read_process_context(maps, read)
        if about is not None and about.schema is not None and about.schema not in SCHEMAS:
            return None  # its threads publish in another way
        names = naming_keys(about, self._naming)
        program = _program_of(pid)
        machine = platform.machine()
        for mapping, variable in found:
            if mapping.inode == program and variable.distance is not None and _plausible(variable.distance, machine):
                return ContextAccess(variable.distance, names=names)
        musl = any(mapping.path.rpartition("/")[2].startswith("ld-musl-") for mapping in maps)
        for mapping, variable in found:
            bias = _bias(pid, mapping)
            if bias is not None:
                access = resolve(variable, bias, read, maps, musl=musl, machine=machine)
                if access is not None:
                    return access._replace(names=names)
        return None

    def _variable(self, pid: int, mapping: Mapping) -> ThreadLocal | None:
        path = file_of(pid, mapping)
        if path is None:
            return None
        try:
            about = os.stat(path)
        except OSError:
            return None
        key = about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns
        if key not in self._known:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            try:
                with ElfFile(path) as image:
                    self._known[key] = image.thread_local(VARIABLE)
            except ElfError:
                self._known[key] = None
        return self._known[key]


def naming_keys(about: ProcessContext | None, naming: Sequence[str] = NAMING) -> bytes:
    """Return the key indexes of the attributes that name a task, the best first, `MAX_NAMES` at most."""
    keys = () if about is None else about.keys
    return bytes(keys.index(name) for name in dict.fromkeys(naming) if name in keys)[:MAX_NAMES]


def resolve(
    variable: ThreadLocal, bias: int, read: Read, maps: Sequence[Mapping], *, musl: bool, machine: str
) -> ContextAccess | None:
    """Return what the dynamic linker has written for a file's accesses to the variable; None: nothing, or not yet.

    ``bias``: loaded minus linked addresses of the file.
    """
    for slot in sorted(variable.slots, key=lambda slot: (not slot.named, slot.kind is ThreadLocalKind.MODULE)):
        if not slot.named and variable.address is None:
            continue  # of another variable
        text = read(slot.address + bias, 16)
        if len(text) < 16:
            continue
        access = _of_slot(slot, variable, struct.unpack("=qq", text), read, maps, machine)
        if access is None:
            continue
        if not access.module:
            return access
        vector, entry = (_MUSL_VECTOR, _MUSL_ENTRY) if musl else (_GLIBC_VECTOR, _GLIBC_ENTRY)
        if machine in vector:
            return access._replace(vector=vector[machine], entry=entry)
    return None


def _of_slot(
    slot: ThreadLocalSlot,
    variable: ThreadLocal,
    words: tuple[int, int],
    read: Read,
    maps: Sequence[Mapping],
    machine: str,
) -> ContextAccess | None:
    first, second = words
    ahead = 0 if slot.named or variable.address is None else variable.address - slot.addend
    """Of the variable, from what the slot is of."""
    if slot.kind is ThreadLocalKind.OFFSET:
        return ContextAccess(first + ahead) if _plausible(first, machine) else None
    if slot.kind is ThreadLocalKind.MODULE:
        offset = second if slot.named else variable.address
        return _in_module(first, offset)
    if not first:
        return None  # the function: not there yet
    if not any(mapping.start <= second < mapping.end for mapping in maps):
        return ContextAccess(second + ahead) if _plausible(second, machine) else None
    text = read(second, 16)
    if len(text) < 16:
        return None
    module, offset = struct.unpack("=qq", text)
    return _in_module(module, offset + ahead)


def _in_module(module: int, offset: int | None) -> ContextAccess | None:
    sensible = offset is not None and 0 < module < _MAX_MODULES and 0 <= offset < _FARTHEST
    return ContextAccess(offset, module) if sensible and offset is not None else None


def _plausible(distance: int, machine: str) -> bool:
    """Return whether a variable can be so far from the thread pointer: below it on x86-64, above it on arm64."""
    return 16 <= distance < _FARTHEST if machine == "aarch64" else -_FARTHEST < distance < 0


def _digest(text: bytes) -> bytes:
    """Return what identifies the code that is mapped, from the text of /proc/PID/maps."""
    return hashlib.blake2b(b"\n".join(line for line in text.split(b"\n") if b" r-xp " in line), digest_size=16).digest()


def _files_of(maps: Iterable[Mapping]) -> list[Mapping]:
    """Return the first mapping of each file of which code is mapped."""
    first: dict[tuple[int, str], Mapping] = {}
    code: dict[tuple[int, str], None] = {}
    for mapping in maps:
        if mapping.inode and mapping.path.startswith("/"):
            key = mapping.inode, mapping.path
            first.setdefault(key, mapping)
            if "x" in mapping.permissions:
                code[key] = None
    return [first[key] for key in code]


def _program_of(pid: int) -> int:
    """Return the inode of a process's program; 0: it is not known."""
    try:
        return os.stat(f"/proc/{with_memory(pid)}/exe").st_ino
    except OSError:
        return 0


def _bias(pid: int, mapping: Mapping) -> int | None:
    path = file_of(pid, mapping)
    if path is None:
        return None
    try:
        with ElfFile(path) as image:
            return image.bias(mapping.start, mapping.offset)
    except ElfError:
        return None
