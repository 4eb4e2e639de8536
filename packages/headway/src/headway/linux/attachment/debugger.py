"""The protocol by which a debugger has a running CPython execute a script ("Remote debugging attachment protocol").

From 3.14 on (PEP 768) the interpreter says in its ``_Py_DebugOffsets`` where each of its threads keeps the path of a
script, a flag that one is to be executed, and the bits that have it leave its loop for a moment. Nothing of the program
is stopped: a thread executes the script when it next comes to such a place in Python code.

What is read is another program's memory, and may say anything. So each offset must lie within its structure, each
structure in memory that the program itself may write, and each thread must be one that the kernel knows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from typing import Protocol

from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.linux.symbols.python import attaching_offsets, description_size

__all__ = ["AttachError", "Debugger", "Memory", "PythonThread"]

_LARGEST = 1 << 24
"""Bytes of a structure of the interpreter."""
_HIGHEST = 1 << 47
"""Addresses of programs are below."""
_MAX_INTERPRETERS = 256
_MAX_THREADS = 4096
_SCRIPT_SIZES = range(64, 4097)
"""Bytes of a path, with its final zero."""
_PLEASE_STOP = 1 << 5
"""_PY_EVAL_PLEASE_STOP_BIT (pycore_ceval.h), as the protocol says."""
_RELEASED = 0xF
"""The level of a release in the version's number."""


class AttachError(HeadwayError):
    """A Python cannot be attached to; the message says why, without naming the process."""


class Memory(Protocol):
    """The memory of a process."""

    def read(self, address: int, size: int) -> bytes:
        """Return so many bytes; fewer, or none, where it has fewer."""

    def write(self, address: int, data: bytes) -> None:
        """Raises OSError."""

    def is_writable(self, address: int, size: int) -> bool:
        """Whether the program itself may write there, and nobody else sees it."""


@dataclass(frozen=True, slots=True)
class PythonThread:
    """A thread of the main interpreter."""

    address: int
    """Of its PyThreadState."""
    tid: int
    """As the process itself sees it."""


class Debugger:
    """A CPython that lets a script be executed. Raises AttachError if it does not, or is not known.

    ``minor``: of its version 3.x. ``runtime``: the address of ``_PyRuntime``. ``tids``: the threads of the process, as
    it sees them.
    """

    def __init__(self, memory: Memory, minor: int, runtime: int, tids: Callable[[], Collection[int]]) -> None:
        self._memory, self._runtime, self._tids = memory, runtime, tids
        at = attaching_offsets(minor, memory.read(runtime, description_size(minor)))
        if at is None or not _is_sound(at, minor):
            raise AttachError("what it says about its structures is not known")
        if at["free_threaded"]:
            raise AttachError("it is a free-threaded Python, for which headway is not built")
        if at["version"] >> 4 & 0xF != _RELEASED:
            raise AttachError("it is not a released version of Python")
        self._at: Mapping[str, int] = at
        self._main = self._main_interpreter()
        if self._word(self._main + at["enabled"], 4) != 1:
            raise AttachError(
                "it does not allow that (-X disable-remote-debug, PYTHON_DISABLE_REMOTE_DEBUG, or its build)"
            )

    @property
    def longest_path(self) -> int:
        """Bytes that the path of a script may have."""
        return self._at["script_size"] - 1

    def threads(self) -> list[PythonThread]:
        """Return the threads that have a Python state now, the newest first. Those that cannot be true are left out."""
        known, found = frozenset(self._tids()), dict[int, PythonThread]()
        address = self._word(self._main + self._at["interpreter_threads"])
        for _ in range(_MAX_THREADS):
            if address in found or not self._is_structure(address, self._at["thread_size"]):
                break
            thread = PythonThread(address, self._word(address + self._at["thread_native_id"]))
            if self._is(thread) and thread.tid in known:
                found[address] = thread
            address = self._word(address + self._at["thread_next"])
        return list(found.values())

    def ask(self, thread: PythonThread, script: bytes) -> bool:
        """Have a thread execute a script soon. False: the thread is not there any more, or another debugger asks it.

        Raises OSError, and ValueError for a path that is too long.
        """
        if not 0 < len(script) <= self.longest_path or b"\0" in script:
            raise ValueError("no path of a script")
        if not self._is(thread) or self.is_asked(thread):
            return False
        at, support = self._at, thread.address + self._at["support"]
        self._memory.write(support + at["script"], script + b"\0")
        self._memory.write(support + at["pending"], struct.pack("<i", 1))
        # Only the byte with the flag is written: the others tell which code is instrumented.
        breaker = thread.address + at["eval_breaker"]
        self._memory.write(breaker, bytes([self._word(breaker, 1) | _PLEASE_STOP]))
        return True

    def is_asked(self, thread: PythonThread) -> bool:
        """Return whether a script waits for the thread."""
        return self._word(thread.address + self._at["support"] + self._at["pending"], 4) == 1

    def withdraw(self, thread: PythonThread, script: bytes) -> bool:
        """Have a thread not execute a script. Return False where it has begun it, or is gone. Raises OSError."""
        path = thread.address + self._at["support"] + self._at["script"]
        if not self._is(thread) or not self.is_asked(thread):
            return False
        if self._memory.read(path, len(script) + 1) == script + b"\0":  # else it is somebody else's by now
            self._memory.write(thread.address + self._at["support"] + self._at["pending"], bytes(4))
            return True
        return False

    def _main_interpreter(self) -> int:
        """Return the address of the interpreter with the number 0. Raises AttachError."""
        address = self._word(self._runtime + self._at["runtime_interpreters"])
        for _ in range(_MAX_INTERPRETERS):
            if not self._is_structure(address, self._at["interpreter_size"]):
                break
            if self._word(address + self._at["interpreter_id"]) == 0:
                return address
            address = self._word(address + self._at["interpreter_next"])
        raise AttachError("its main interpreter is not found")

    def _is(self, thread: PythonThread) -> bool:
        """Return whether a thread's state is still there, and the main interpreter's."""
        at = self._at
        return (
            self._is_structure(thread.address, at["thread_size"])
            and self._word(thread.address + at["thread_interpreter"]) == self._main
            and self._word(thread.address + at["thread_native_id"]) == thread.tid
            and self._memory.is_writable(thread.address, at["thread_size"])
        )

    def _is_structure(self, address: int, size: int) -> bool:
        return 0 < address < _HIGHEST - size and address % 8 == 0

    def _word(self, address: int, size: int = 8) -> int:
        """Return an unsigned number; 0 where there is none."""
        data = self._memory.read(address, size)
        return int.from_bytes(data, "little") if len(data) == size else 0


def _is_sound(at: Mapping[str, int], minor: int) -> bool:
    """Return whether an interpreter's description of itself can be true."""
    runtime, interpreter, thread = at["runtime_size"], at["interpreter_size"], at["thread_size"]
    breaker, support = at["eval_breaker"], at["support"]
    pending, script = support + at["pending"], support + at["script"]
    read = [at[name] for name in ("thread_next", "thread_interpreter", "thread_native_id")]
    written = sorted([(breaker, 8), (pending, 4), (script, at["script_size"]), *((place, 8) for place in read)])
    return (
        at["version"] >> 16 == 0x300 + minor
        and max(runtime, interpreter, thread) < _LARGEST
        and at["runtime_interpreters"] + 8 <= runtime
        and max(at[f"interpreter_{field}"] for field in ("id", "next", "threads")) + 8 <= interpreter
        and at["enabled"] + 4 <= interpreter
        and at["script_size"] in _SCRIPT_SIZES
        and all(place + size <= thread for place, size in written)
        and all(first + size <= second for (first, size), (second, _) in pairwise(written))
    )
