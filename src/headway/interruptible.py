"""Run foreign code so that the caller can be interrupted meanwhile, by a signal or after a time."""

from __future__ import annotations

import _thread
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from .exhaustion import OutOfProcessesError

if TYPE_CHECKING:
    import tempfile

__all__ = ["Job", "LateError", "any_left", "leave", "temporary_folder"]

_T = TypeVar("_T")
_AGAIN = 0.05
"""Seconds after which work that does not stop is interrupted again."""


class LateError(Exception):
    """Work takes longer than its time limit."""


class Job(Generic[_T]):
    """One call, which runs in a thread of its own.

    The two threads share flags and lists, and one lock that has no Python code. Python may raise KeyboardInterrupt
    between any two instructions. Inside a `threading.Condition`, an `Event` or a `Future` that would leave a lock taken
    for ever, and both threads would wait for it.

    The caller's thread drops what the work used and made, unless the work does not stop. If the other thread did so
    while the process ends, Python would end that thread inside the destructor of a C++ library, and that aborts the
    process.
    """

    def __init__(self, work: Callable[[], _T]) -> None:
        self._work = [work]
        self._running = threading.Lock()
        self._began = self._cancelled = self._ended = False
        self._found: list[_T] = []
        self._failed: list[BaseException] = []

    @property
    def over(self) -> bool:
        """Whether the work does not run: it has ended, or it never began."""
        return self._ended or not self._began

    def result(self, seconds: float | None = None) -> _T:
        """Run the work. Return what it returns, or raise what it raises. To be called once.

        OutOfProcessesError: no thread can be started. LateError: it takes longer than ``seconds`` (None: it may take
        any time). After that, and after any other exception that is not the work's, such as KeyboardInterrupt, the
        work may still run: call `cancel`.
        """
        _JOBS.append(self)
        self._running.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:
            _JOBS.remove(self)
            self._running.release()
            raise OutOfProcessesError("thread") from None
        if not self._running.acquire(timeout=-1 if seconds is None else seconds):
            raise LateError
        self._work.clear()
        _JOBS.remove(self)
        if self._failed:
            raise self._failed.pop()
        return self._found.pop()

    def cancel(self, interrupt: Callable[[], object], patience: float) -> bool:
        """Call ``interrupt`` until the work is over, ``patience`` seconds at most. Return whether it is.

        Work that has not begun never begins. What the work used and made is dropped if it is over.
        """
        self._cancelled = True
        late = time.monotonic() + patience
        while not self.over and time.monotonic() < late:
            interrupt()
            self._running.acquire(timeout=_AGAIN)
        if not self.over:
            return False
        for what in (self._work, self._found, self._failed):
            what.clear()
        if self in _JOBS:
            _JOBS.remove(self)
        return True

    def _run(self) -> None:
        self._began = True
        try:
            if self._cancelled:
                raise InterruptedError
            self._found.append(self._work[0]())
        except BaseException as error:
            self._failed.append(error)
        finally:
            self._ended = True
            self._running.release()


_JOBS: list[Job[Any]] = []
"""Jobs that may still run. The list keeps what they use until the process ends."""


def any_left() -> bool:
    """Return whether any work still runs. Then the process must end by `leave`, without finalising Python.

    That would wait for a library that waits for the work, and end the work's thread inside that library.
    """
    return any(not job.over for job in _JOBS)


def leave(status: int) -> NoReturn:
    """End the process although work still runs, with this exit status. Temporary folders are removed."""
    for folder in list(_FOLDERS):
        folder.cleanup()
    os._exit(status)


def temporary_folder(prefix: str) -> tempfile.TemporaryDirectory[str]:
    """Return a new temporary folder for work, which `leave` removes too. Errors while it is removed are ignored."""
    import tempfile

    folder = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    _FOLDERS.add(folder)
    return folder


_FOLDERS: weakref.WeakSet[tempfile.TemporaryDirectory[str]] = weakref.WeakSet()
