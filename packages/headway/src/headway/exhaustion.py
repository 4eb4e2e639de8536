"""What is said when the system has no more of a resource, and threads and processes that may not be started then."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

from .errors import HeadwayError

__all__ = ["NO_MEMORY", "OutOfProcessesError", "at_once", "fork", "in_words", "start", "starts"]

_Result = TypeVar("_Result")

NO_MEMORY = "there is not enough memory: free some, or raise the limit (memory.max of the control group, ulimit -v)"
_FILES = "too many files are open: raise the limit (ulimit -n)"


class OutOfProcessesError(HeadwayError):
    """No thread or process can be started (EAGAIN in fork(2) and pthread_create(3))."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"no {what} can be started", "raise the limit of processes (pids.max of the control group, ulimit -u)"
        )


def start(thread: Thread) -> None:
    """Start a thread. Raises OutOfProcessesError."""
    try:
        thread.start()
    except RuntimeError:
        raise OutOfProcessesError("thread") from None


def starts(thread: Thread) -> bool:
    """Start a thread, and return whether that was possible: for work that can be done without it."""
    try:
        start(thread)
    except OutOfProcessesError:
        return False
    return True


def at_once(work: Callable[[], _Result], meanwhile: Callable[[], object]) -> _Result:
    """Return the result of work that another thread does, and call ``meanwhile`` in this one.

    They are done one after the other where no thread can be started. Both have ended when this returns or raises: an
    error of the work, or one of what was done meanwhile.
    """
    results: list[_Result] = []
    errors: list[BaseException] = []

    def work_beside() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=work_beside)
    beside = starts(thread)
    try:
        if not beside:
            work_beside()
        meanwhile()
    finally:
        if beside:
            thread.join()
    if errors:
        raise errors[0]
    return results[0]


def fork() -> int:
    """Return 0 in a new process, and its id in this one. Raises OutOfProcessesError, or OSError for want of memory."""
    try:
        return os.fork()
    except BlockingIOError:
        raise OutOfProcessesError("process") from None


def in_words(error: OSError) -> str:
    """Return what the system refused, and what to do if it has no more of something."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return _FILES
    if error.errno == errno.ENOMEM:
        return NO_MEMORY
    what = error.strerror or str(error)
    what = what if error.filename is None else f"{error.filename}: {what}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{what}: make room there"
    if error.errno == errno.EAGAIN:
        return f"{what}: raise the limits of this user and control group (ulimit -a, pids.max)"
    return what
