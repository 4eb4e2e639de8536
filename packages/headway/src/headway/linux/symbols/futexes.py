"""Names of futexes: from an address in a process to the name of the lock.

A futex in a program's or library's data has a symbol. Memory from malloc, of a stack or of a file has none, and is
named as what it is. One lock is named by its meaning: CPython's global interpreter lock (GIL).

**Which futexes are the GIL's.** CPython keeps its runtime in one exported object, ``_PyRuntime`` (3.7 and later; its
size is in .dynsym even of stripped builds). The GIL (``struct _gil_runtime_state``: two condition variables and two
mutexes) lies in it by value: in ``ceval`` up to 3.11, from 3.12 on in the main interpreter's state, which is a member.
Nothing else in it is waited on by a futex at its own address: all other locks of the runtime are pointers to semaphores
on the heap (``PyThread_type_lock``), and from 3.13 on one-byte ``PyMutex``es, whose waiters sleep on semaphores on
their own stacks (Python/parking_lot.c). So up to 3.12 an address in ``_PyRuntime`` is the GIL. From 3.13 on the runtime
begins with a table of offsets made for observers (``_Py_DebugOffsets``, pycore_debug_offsets.h). With it the GILs of
all interpreters are found exactly, also those in memory of their own, and only addresses in one of them are called the
GIL. A GIL that a 3.12 sub-interpreter has for itself (PEP 684) is treated like any other memory here.

**Builds without a GIL** (PEP 703) say so in the same table. Their per-object locks are such PyMutexes: the address at
which a thread waits is on its own stack and does not identify the object. The name says that, and does not guess.
"""

from __future__ import annotations

import bisect
import os
import platform
import re
import struct
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress

from headway.binary.elf import ElfError, ElfFile, SymbolKind
from headway.dataclass import dataclass
from headway.linux.procfs.living import with_memory
from headway.linux.procfs.maps import Mapping, file_of, mappings
from headway.other_root import root_of

__all__ = ["Interpreter", "LockName", "Locks"]

_MAX_IMAGES = 256
_MAX_THREADS = 1024
_MAX_INTERPRETERS = 256
_MAX_NESTED = 16
"""The number of symbols beginning before an address among which one that contains it is searched."""
_COOKIE = b"xdebugpy"
_OFFSETS_BYTES = 512
_MUTEX_BYTES = 48 if platform.machine() == "aarch64" else 40  # sizeof(pthread_mutex_t), glibc and musl
_CONDITION_BYTES = 48
_RWLOCK_BYTES, _RWLOCK_WORDS = 56, (8, 12)
"""The size of a rwlock, and where its readers and writers wait (struct __pthread_rwlock_arch_t, glibc)."""
_PYTHON = re.compile(r"(?:lib)?python(\d)\.(\d+)")


@dataclass(frozen=True, slots=True)
class LockName:
    """The name of a lock, for people."""

    text: str
    """``libfoo.so: symbol``, ``libfoo.so: table+0x10``, ``heap 0x55d0…``, ``Python's GIL``."""
    is_gil: bool


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A CPython that a process runs."""

    path: str
    """The path of the program or library that contains it, as the process sees it."""
    version: tuple[int, int] | None
    free_threaded: bool
    """Built without a GIL (PEP 703)."""
    has_gil: bool | None
    """Whether its threads need a GIL now; a free-threaded build may enable it. None: it could not be read."""


@dataclass(frozen=True, slots=True)
class _Runtime:
    """The object ``_PyRuntime``; addresses are as linked."""

    address: int
    size: int
    version: tuple[int, int] | None
    head: bytes
    """Its beginning, which has the offsets for observers (3.13 and later)."""


@dataclass(frozen=True, slots=True)
class _Data:
    """The data symbols of a file, and what else is needed for naming. Addresses are as linked."""

    starts: Sequence[int]
    symbols: Sequence[tuple[int, int, str]]
    """(start, end, name), ascending."""
    runtime: _Runtime | None
    image: ElfFile
    """Closed; the places of its segments are known."""

    def name(self, address: int) -> str | None:
        """Return ``symbol`` or ``symbol+0x10`` for the smallest symbol that contains the address.

        A symbol that is no larger than a condition variable, the largest lock but one, is one lock, at whichever of its
        words a thread waits. In a larger symbol the words are kept apart, because it may be a table of locks.
        """
        at = bisect.bisect_right(self.starts, address)
        around = [s for s in self.symbols[max(0, at - _MAX_NESTED) : at] if s[0] <= address < s[1]]
        if not around:
            return None
        start, end, name = min(around, key=lambda s: (s[1] - s[0], s[2].startswith("_"), s[2]))
        at, size = address - start, end - start
        is_one = size <= _CONDITION_BYTES or (size == _RWLOCK_BYTES and at in _RWLOCK_WORDS)
        return name if at == 0 or is_one else f"{name}+{at:#x}"


@dataclass(frozen=True, slots=True)
class _Offsets:
    """The part of ``_Py_DebugOffsets`` that leads to the GILs; in bytes."""

    free_threaded: bool
    interpreters: int
    """In the runtime: the first interpreter."""
    next: int
    """In an interpreter: the next one."""
    gil_pointer: int
    gil: int
    """In an interpreter: its own GIL. `gil_pointer` may lead to another one (a shared GIL is the main interpreter's).
    """
    locked: int
    enabled: int

    @property
    def gil_bytes(self) -> int:
        """sizeof(struct _gil_runtime_state): after ``locked`` and ``switch_number``, cond and mutex, twice."""
        return self.locked - self.gil + 16 + 2 * (_CONDITION_BYTES + _MUTEX_BYTES)


_MAX_GILS = 4096
"""The number of processes for which the place of the GIL is remembered."""


class Locks:
    """Names the locks of processes. What is read of a program or library is kept, by the file's identity."""

    def __init__(self) -> None:
        self._images: OrderedDict[tuple[int, int, int, int], _Data | None] = OrderedDict()
        self._gils: OrderedDict[int, tuple[int, int]] = OrderedDict()

    def name(self, pid: int, address: int) -> LockName | None:
        """Return the lock at an address of a process; None: it is gone, may not be read, or has nothing there."""
        return self.names(pid, (address,)).get(address)

    def names(self, pid: int, addresses: Iterable[int]) -> dict[int, LockName]:
        """Return the locks at several addresses, at the cost of one look at the process. See `name`."""
        try:
            process = _Process(pid, self)
        except OSError:
            return {}
        found = {}
        for address in addresses:
            name = process.name(address)
            if name is not None:
                found[address] = name
                if name.is_gil:
                    self._gils[pid] = process.gil_around(address)
                    if len(self._gils) > _MAX_GILS:
                        self._gils.popitem(last=False)
        return found

    def was_gil(self, pid: int, address: int) -> bool:
        """Return whether the address is in the memory in which a process, which may have ended, had its GIL.

        A condition variable has several futexes, and some of them may be waited for only after the last look at the
        process.
        """
        start, end = self._gils.get(pid, (0, 0))
        return start <= address < end

    def interpreter(self, pid: int) -> Interpreter | None:
        """Return the CPython of a process; None: none exports ``_PyRuntime``, or the process is gone or may not be
        read.
        """
        try:
            process = _Process(pid, self)
        except OSError:
            return None
        return process.interpreter()

    def _data(self, path: str) -> _Data | None:
        """Return the data of a file; None if it is not a readable ELF file."""
        try:
            status = os.stat(path)
        except OSError:
            return None
        key = status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
        if key in self._images:
            self._images.move_to_end(key)
            return self._images[key]
        data: _Data | None = None
        with suppress(ElfError), ElfFile(path, root=root_of(path)) as image:
            data = _read_data(image)
        self._images[key] = data
        while len(self._images) > _MAX_IMAGES:
            self._images.popitem(last=False)
        return data


def _read_data(image: ElfFile) -> _Data:
    image.holds(0)  # reads its segments while it is open
    symbols: set[tuple[int, int, str]] = set()
    runtime: tuple[int, int] | None = None
    version: tuple[int, int] | None = None
    for symbol in image.symbols():
        if symbol.defined and symbol.kind is SymbolKind.DATA and symbol.size and image.holds(symbol.address):
            symbols.add((symbol.address, symbol.address + symbol.size, symbol.name))
            if symbol.name == "_PyRuntime":
                runtime = symbol.address, symbol.size
            elif symbol.name == "Py_Version":  # exported since 3.11: PY_VERSION_HEX
                number = int.from_bytes(image.contents(symbol.address, 4), "little")
                version = number >> 24 & 0xFF, number >> 16 & 0xFF
    ordered = sorted(symbols)
    found = None
    if runtime is not None:
        if version is None and (match := _PYTHON.search(image.soname or os.path.basename(image.path))):
            version = int(match[1]), int(match[2])
        found = _Runtime(*runtime, version, image.contents(runtime[0], _OFFSETS_BYTES))
    return _Data([start for start, _, _ in ordered], ordered, found, image)


def _offsets(head: bytes) -> _Offsets | None:
    """Return the offsets from the beginning of ``_PyRuntime``; None if it is not such a table, or not a valid one.

    The table grew between releases, so the GIL's part is found by its form: the offsets of the struct, ``enabled``,
    ``locked`` and ``last_holder``, which is the word before ``locked`` and the second word of the struct, or the third
    if ``enabled`` comes first.
    """
    if not head.startswith(_COOKIE) or len(head) < 256:
        return None
    words = struct.unpack(f"<{len(head) // 8}Q", head[: len(head) // 8 * 8])
    free_threaded, runtime_size, interpreters = bool(words[2]), words[3], words[5]
    interpreter_size, following = words[6], words[8]
    if not (interpreters < runtime_size < 1 << 30 and following < interpreter_size < 1 << 30):
        return None
    for at in range(10, min(len(words) - 4, 40)):
        pointer, gil, enabled, locked, holder = words[at : at + 5]
        first = 8 if free_threaded else 0
        if (
            0 < gil < interpreter_size
            and holder == gil + first + 8
            and locked == holder + 8
            and pointer < interpreter_size
        ):
            return _Offsets(free_threaded, interpreters, following, pointer, gil, locked, enabled)
    return None


class _Process:
    """A process as it is now. Raises OSError if it may not be read."""

    def __init__(self, pid: int, locks: Locks) -> None:
        self._pid, self._locks = pid, locks
        self._alive = with_memory(pid)
        """A thread that has the process's memory: its first one may have ended."""
        self._maps = mappings(pid)
        self._starts = [mapping.start for mapping in self._maps]
        self._gils: list[tuple[int, int]] | None = None

    def name(self, address: int) -> LockName | None:
        """Return the lock at an address, or None."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0 or not self._maps[index].start <= address < self._maps[index].end:
            return None
        mapping = self._maps[index]
        image = self._image_at(index, address)
        if image is not None:
            file, bias, data = image
            return self._in_image(address, file, bias, data)
        if any(start <= address < end for start, end in self._gil_ranges()):
            return LockName("Python's GIL", True)
        return LockName(self._in_memory(address, mapping), False)

    def gil_around(self, address: int) -> tuple[int, int]:
        """Return begin and end of the memory of the GIL that contains the address."""
        for start, end in self._gil_ranges():
            if start <= address < end:
                return start, end
        found = self._image_at(bisect.bisect_right(self._starts, address) - 1, address)
        if found is None or found[2].runtime is None:
            return address, address + 1
        start = found[1] + found[2].runtime.address
        return start, start + found[2].runtime.size

    def _image_at(self, index: int, address: int) -> tuple[Mapping, int, _Data] | None:
        """Return the mapped file whose data contains an address.

        The end of .bss is mapped without a file, right after it.
        """
        while self._maps[index].inode == 0:
            if index == 0 or self._maps[index].path or self._maps[index - 1].end != self._maps[index].start:
                return None
            index -= 1
        mapping = self._maps[index]
        path = file_of(self._pid, mapping)
        data = self._locks._data(path) if path is not None else None
        bias = data.image.bias(mapping.start, mapping.offset) if data is not None else None
        if data is None or bias is None or not data.image.holds(address - bias):
            return None
        return mapping, bias, data

    def _in_image(self, address: int, file: Mapping, bias: int, data: _Data) -> LockName:
        runtime = data.runtime
        if runtime is not None and 0 <= address - bias - runtime.address < runtime.size:
            offsets = self._observed(runtime, bias)
            if offsets is None and (runtime.version or (3, 13)) < (3, 13):
                return LockName("Python's GIL", True)
            if any(start <= address < end for start, end in self._gil_ranges()):
                return LockName("Python's GIL", True)
        name = data.name(address - bias) or f"{address - bias:#x}"
        return LockName(f"{os.path.basename(file.path)}: {name}", False)

    def _in_memory(self, address: int, mapping: Mapping) -> str:
        if mapping.path.startswith("/"):
            return f"{mapping.path}+{address - mapping.start + mapping.offset:#x}"
        if mapping.path == "[heap]":
            return f"heap {address:#x}"
        if mapping.path == "[stack]":
            return self._on_stack(f"stack of thread {self._pid}", address)
        if mapping.path:
            return f"{mapping.path.strip('[]')} {address:#x}"
        tid = self._thread_on(mapping)
        if tid is not None:
            return self._on_stack(f"stack of thread {tid}", address)
        return f"anonymous memory {address:#x}"

    def _on_stack(self, words: str, address: int) -> str:
        found = self._runtime()
        if found is not None and (found[1].version or (0, 0)) >= (3, 13):
            return f"{words} {address:#x} (threads that wait for a Python object's lock do so there)"
        return f"{words} {address:#x}"

    def _thread_on(self, mapping: Mapping) -> int | None:
        """Return the thread whose stack pointer is in a mapping.

        The kernel tells it for threads that are in a system call.
        """
        folder = f"/proc/{self._pid}/task"
        with suppress(OSError):
            for tid in os.listdir(folder)[:_MAX_THREADS]:
                with suppress(OSError, ValueError, IndexError), open(f"{folder}/{tid}/syscall") as file:
                    if mapping.start <= int(file.read(512).split()[-2], 16) < mapping.end:
                        return int(tid)
        return None

    # ---- CPython ----

    def interpreter(self) -> Interpreter | None:
        """Return the CPython of this process, or None."""
        found = self._runtime()
        if found is None:
            return None
        mapping, runtime, bias = found
        offsets = self._observed(runtime, bias)
        if offsets is None:
            old = runtime.version is not None and runtime.version < (3, 13)
            return Interpreter(mapping.path, runtime.version, False, True if old else None)
        if not offsets.free_threaded:
            return Interpreter(mapping.path, runtime.version, False, True)
        gils = self._gil_ranges()
        raw = self._memory(gils[0][0] + offsets.enabled, 4) if gils else b""
        return Interpreter(mapping.path, runtime.version, True, any(raw) if len(raw) == 4 else None)

    def _runtime(self) -> tuple[Mapping, _Runtime, int] | None:
        """Return the file with ``_PyRuntime``: the program, or a library called libpython."""
        with suppress(OSError):
            program = os.readlink(f"/proc/{self._alive}/exe").removesuffix(" (deleted)")
            seen = set()
            for mapping in self._maps:
                if mapping.path in seen or not (
                    mapping.path == program or os.path.basename(mapping.path).startswith("libpython")
                ):
                    continue
                seen.add(mapping.path)
                path = file_of(self._pid, mapping)
                data = self._locks._data(path) if path is not None else None
                bias = data.image.bias(mapping.start, mapping.offset) if data is not None else None
                if data is not None and data.runtime is not None and bias is not None:
                    return mapping, data.runtime, bias
        return None

    def _observed(self, runtime: _Runtime, bias: int) -> _Offsets | None:
        """Return the offsets for observers, of the running program or else of the file."""
        return _offsets(self._memory(bias + runtime.address, _OFFSETS_BYTES)) or _offsets(runtime.head)

    def _gil_ranges(self) -> list[tuple[int, int]]:
        """Begin and end of every interpreter's GIL, the main one's last; empty if they are not known."""
        if self._gils is None:
            self._gils = self._find_gils()
        return self._gils

    def _find_gils(self) -> list[tuple[int, int]]:
        found = self._runtime()
        if found is None:
            return []
        _, runtime, bias = found
        offsets = self._observed(runtime, bias)
        if offsets is None:
            return []
        gils: dict[int, None] = {}
        interpreter = self._pointer(bias + runtime.address + offsets.interpreters)
        for _ in range(_MAX_INTERPRETERS):
            if not interpreter:
                break
            gil = self._pointer(interpreter + offsets.gil_pointer)
            if gil:
                gils[gil] = None
            interpreter = self._pointer(interpreter + offsets.next)
        return [(gil, gil + offsets.gil_bytes) for gil in gils]

    def _pointer(self, address: int) -> int:
        raw = self._memory(address, 8)
        return int.from_bytes(raw, "little") if len(raw) == 8 else 0

    def _memory(self, address: int, size: int) -> bytes:
        """Return the process's memory; less than requested, or nothing, where it may not be read."""
        if not 0 < address < 1 << 63:
            return b""
        try:
            fd = os.open(f"/proc/{self._alive}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.pread(fd, size, address)
        except OSError:
            return b""
        finally:
            os.close(fd)
