"""Run foreign code so that the caller can be interrupted meanwhile, by a signal or after a time."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Job"]

_T = TypeVar("_T")
_AGAIN = 0.05
"""Seconds after which work that does not stop is interrupted again."""


class Job(Generic[_T]):
    """One call, which runs in a thread of its own.

    The two threads share lists, and one lock that has no Python code. Python may raise KeyboardInterrupt between any
    two instructions. Inside a `threading.Condition`, an `Event` or a `Future` that would leave a lock taken for ever,
    and both threads would wait for it.

    The caller's thread drops what the work used and made. If the other one did so while the process ends, Python would
    end that thread inside the destructor of a C++ library, which aborts the process.
    """

    def __init__(self, work: Callable[[], _T]) -> None:
        self._work = [work]
        self._running = threading.Lock()
        self._began: list[bool] = []
        self._cancelled: list[bool] = []
        self._ended: list[bool] = []
        self._found: list[_T] = []
        self._failed: list[BaseException] = []

    def result(self, seconds: float | None = None) -> _T:
        """Run the work, once. Return what it returns, or raise what it raises.

        TimeoutError: it takes longer than ``seconds`` (None: it may take any time). After that, and after any other
        exception that is not the work's, such as KeyboardInterrupt, the work may still run: see `cancel`.
        """
        self._running.acquire()
        _thread.start_new_thread(self._run, ())
        if not self._running.acquire(timeout=-1 if seconds is None else seconds):
            raise TimeoutError
        self._work.clear()
        if self._failed:
            raise self._failed.pop()
        return self._found.pop()

    def cancel(self, interrupt: Callable[[], object], patience: float) -> bool:
        """Call ``interrupt`` until the work has ended, ``patience`` seconds at most. Return whether it has."""
        self._cancelled.append(True)
        late = time.monotonic() + patience
        while self._began and not self._ended and time.monotonic() < late:
            interrupt()
            self._running.acquire(timeout=_AGAIN)
        if self._began and not self._ended:
            return False
        for what in (self._work, self._found, self._failed):
            what.clear()
        return True

    def _run(self) -> None:
        self._began.append(True)
        try:
            if self._cancelled:
                raise InterruptedError
            self._found.append(self._work[0]())
        except BaseException as error:
            self._failed.append(error)
        finally:
            self._ended.append(True)
            self._running.release()
