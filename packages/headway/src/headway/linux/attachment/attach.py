"""Installing headway's marks of tasks in a program in Python 3.14 that runs already, and taking them out again.

The program executes a script of headway's when one of its threads next comes to a safe place in Python code (PEP 768).
The main thread is asked first, then all others. A program that waits in system calls executes it when it goes on; until
then it is as it was.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from headway.linux.procfs.ids import ids_inwards

from .debugger import AttachError, Debugger, PythonThread
from .folder import Folder
from .process import ProcessMemory, find_runtime, tids_inside
from .script import source

__all__ = ["PATIENCE", "Attachment", "attach"]

_PACKAGE = Path(__file__).parent.parent.parent
_FILES = (
    "__init__.py",
    "asyncio/__init__.py",
    "asyncio/attached.py",
    "regions/__init__.py",
    "regions/own_progress.py",
    "regions/thread_names.py",
    "web.py",
    "when_imported.py",
)
"""What the program imports."""
_COMPILED = ("_cython", "regions/_regions")
PATIENCE = 2.0
"""Seconds after which a program is taken for one that waits."""
_MAIN_FIRST = 0.2
"""Seconds after which other threads than the main one are asked."""
_STEP = 0.005


class Attachment:
    """The marks of headway in one process, as `attach` makes it. Raises AttachError and OSError."""

    def __init__(self, pid: int, memory: ProcessMemory, minor: int, runtime: int, by: str) -> None:
        self.pid, self._memory = pid, memory
        self._asked: list[PythonThread] = []
        self._script = b""
        """The path of what they are to execute, as the process sees it."""
        self._folder: Folder | None = None
        self._began, self._all, self._ending = 0.0, False, False
        self.waits = False
        try:
            self._debugger = Debugger(self._memory, minor, runtime, lambda: tids_inside(pid))
            self._folder = Folder(pid)
            for name, contents in _files(self._folder.path, minor, by):
                self._folder.add(name, contents)
            self._start("begin")
        except BaseException:
            self._close()
            raise

    def settle(self, until: float) -> None:
        """Wait until the marks are there, or until a moment of `time.monotonic`: then the process `waits`.

        Raises AttachError and OSError, and nothing is left.
        """
        try:
            self.waits = not self._finish(until)
        except BaseException:
            self._close()
            raise

    def ask_to_end(self) -> None:
        """Have the marks taken out, for which `end` waits."""
        if self._folder is None or self._ending:
            return
        self._ending = True
        try:
            if self.waits and self._withdraw():
                self._close()  # it never began
                return
            self._folder.forget()
            self._start("end")
        except (AttachError, OSError):
            self._close()

    def end(self, until: float | None = None) -> bool:
        """Take the marks out. Return whether nothing of them is left; may be called again.

        ``until``: the moment of `time.monotonic` up to which is waited.
        """
        self.ask_to_end()
        if self._folder is None:
            return True
        try:
            return self._finish(time.monotonic() + PATIENCE if until is None else until)
        except (AttachError, OSError):
            return not tids_inside(self.pid)
        finally:
            self._close()

    def leave(self) -> None:
        """Leave it to another process, which has inherited this, to take the marks out."""
        if self._folder is not None:
            self._folder.close()
            self._folder = None
        self._memory.close()

    def _start(self, action: str) -> None:
        """Ask the program's main thread to execute a script. Raises OSError."""
        assert self._folder is not None
        self._script = f"{self._folder.path}/{action}.py".encode()
        main = _first(self.pid)
        self._ask(thread for thread in self._debugger.threads() if thread.tid == main)
        self._began, self._all = time.monotonic(), False

    def _finish(self, until: float) -> bool:
        """Wait until the program has executed the script; False: it has not yet. Raises AttachError and OSError."""
        assert self._folder is not None
        while not (said := self._folder.said()):
            now = time.monotonic()
            if not self._all and (now > min(self._began + _MAIN_FIRST, until) or not self._asked):
                self._all = True
                self._ask(self._debugger.threads())
            if not self._asked:
                raise AttachError("no thread of it can be asked to")
            if now > until:
                return False
            time.sleep(_STEP)
        self._withdraw()
        if said != "done":
            raise AttachError(f"it said {said!a}")
        return True

    def _ask(self, threads: Iterable[PythonThread]) -> None:
        """Ask these threads, if nobody else does."""
        self._asked += [thread for thread in threads if self._debugger.ask(thread, self._script)]

    def _withdraw(self) -> bool:
        """Have no thread execute the script that has not begun it. Return whether none had.

        One that has begun it reads it: it is given the time for that.
        """
        assert self._folder is not None
        begun = bool(self._folder.said())
        for thread in self._asked:
            with suppress(OSError):
                begun = not self._debugger.withdraw(thread, self._script) or begun
        self._asked = []
        until = time.monotonic() + PATIENCE
        while begun and not self._folder.said() and time.monotonic() < until and tids_inside(self.pid):
            time.sleep(_STEP)
        return not begun

    def _close(self) -> None:
        if self._folder is not None:
            with suppress(OSError):
                self._withdraw()
            self._folder.remove()
            self._folder = None
        self._memory.close()


def attach(pid: int, by: str = "coroutine") -> Attachment | None:
    """Have a process install marks, for which `Attachment.settle` waits; None: it runs no Python, or has ended.

    Raises AttachError: the message says why not.
    ``by``: what tasks are named after, as in `headway.asyncio.install`.
    """
    try:
        memory = ProcessMemory(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        raise AttachError(f"you may not trace it ({error.strerror}; /proc/sys/kernel/yama/ptrace_scope)") from None
    try:
        found = find_runtime(pid)
        if found is not None:
            return Attachment(pid, memory, *found, by)
    except OSError as error:
        memory.close()
        raise AttachError(f"{error.strerror or error}") from None
    except BaseException:
        memory.close()
        raise
    memory.close()
    return None


def _first(pid: int) -> int:
    """Return the number that a process has for itself, which is that of its main thread; 0: it has ended."""
    return next(reversed(ids_inwards(f"/proc/{pid}")), 0)


def _files(folder: str, minor: int, by: str) -> Iterator[tuple[str, bytes]]:
    """Yield what the process is to read, by its path in the folder. Raises AttachError and OSError."""
    for action in ("begin", "end"):
        yield f"{action}.py", source(folder, action, by)
    for name in _FILES:
        yield f"headway/{name}", (_PACKAGE / name).read_bytes()
    for module in _COMPILED:
        name = _built(module, minor)
        yield f"headway/{name}", (_PACKAGE / name).read_bytes()


def _built(module: str, minor: int) -> str:
    """Return the name of the file of a compiled module that a Python can load. Raises AttachError."""
    folder, _, base = module.rpartition("/")
    for name in sorted(os.listdir(_PACKAGE / folder)):
        if name.startswith(f"{base}.") and name.endswith(".so") and (".abi3" in name or f"-3{minor}-" in name):
            return f"{folder}/{name}".lstrip("/")
    raise AttachError(f"this headway is built for another Python than 3.{minor}: install a wheel (docs/installing.md)")
