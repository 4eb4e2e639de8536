"""A process that works for this one on hostile data, and another one that ends it and tidies up after it.

The supervisor waits until this process lets go of the work, or ends in any way, or the work ends. Then it kills the
process that works and removes the folder that was made for it. So nothing is left, whenever this process ends.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Collection
from contextlib import suppress
from contextvars import ContextVar
from typing import NoReturn

from headway.exhaustion import fork
from headway.linux import confinement

__all__ = ["WANTED", "Supervised", "Wanted"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals to a terminal's processes: only this process answers them, and thereby ends the others."""
_KILLED = 128


class Wanted:
    """The work that is done for an answer, until nobody wants that any more."""

    def __init__(self) -> None:
        self._over = False
        self._works: list[Supervised] = []

    def add(self, work: Supervised) -> None:
        """Add work that has begun."""
        self._works.append(work)
        if self._over:
            work.let_go()

    def let_go(self) -> None:
        """End all of it, now and later. May be called from another thread."""
        self._over = True
        for work in self._works:
            work.let_go()


WANTED: ContextVar[Wanted | None] = ContextVar("WANTED", default=None)
"""What work that begins is added to."""


class Supervised:
    """``work`` in a process of its own, with one end of a connection and the path of a new folder, if one can be made.

    It begins with a copy of this process's memory, and keeps the descriptors ``files`` open. A `channel` speaks on
    ``connection``. Call `end` when done. Raises OSError, OutOfProcessesError.
    """

    def __init__(self, work: Callable[[socket.socket, str], None], prefix: str, files: Collection[int] = ()) -> None:
        self._status: int | None = None
        self._pid = 0
        self.connection, theirs = socket.socketpair()
        self._life, watched = socket.socketpair()
        own = os.getpid()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            self._pid = fork()
            if not self._pid:
                _supervise(work, theirs, watched, prefix, files, mask)
        except BaseException:
            if os.getpid() != own:
                os._exit(1)
            if self._pid:
                self.end()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
        watched.close()
        if (wanted := WANTED.get()) is not None:
            wanted.add(self)

    def let_go(self) -> None:
        """Have the work ended soon. May be called from another thread than the one that waits for an answer."""
        with suppress(OSError):
            self._life.shutdown(socket.SHUT_RDWR)

    def end(self) -> int:
        """End the work, if it has not. Return its exit status, or 128 + the signal that ended it."""
        self._life.close()
        self.connection.close()
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._status


def _supervise(
    work: Callable[[socket.socket, str], None],
    connection: socket.socket,
    watched: socket.socket,
    prefix: str,
    files: Collection[int],
    mask: set[signal.Signals | int],
) -> NoReturn:
    sys.settrace(None)
    status, folder = 1, ""
    try:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _keep_open({connection.fileno(), watched.fileno(), *files})
        with suppress(OSError):
            folder = tempfile.mkdtemp(prefix=prefix)
        own = os.getpid()
        pid = os.fork()
        if not pid:
            watched.close()
            _work(work, connection, folder, own)
        _keep_open({watched.fileno()})
        status = _status_of(pid, watched)
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(status)


def _work(work: Callable[[socket.socket, str], None], connection: socket.socket, folder: str, parent: int) -> NoReturn:
    status = 1
    try:
        confinement.die_with(parent)
        work(connection, folder)
        status = 0
    finally:
        os._exit(status)


def _status_of(pid: int, watched: socket.socket) -> int:
    """Wait for the end of the work, or have it killed once nobody wants it any more. Return how it ended."""
    pidfd = os.pidfd_open(pid)
    waiting = select.poll()
    for fd in (pidfd, watched.fileno()):
        waiting.register(fd, select.POLLIN)
    waiting.poll()
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if status >= 0 else _KILLED - status


def _keep_open(files: Collection[int]) -> None:
    """Close all descriptors but these, and let the standard streams lead nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    before = 2
    for fd in sorted(fd for fd in files if fd > 2):
        os.closerange(before + 1, fd)
        before = fd
    os.closerange(before + 1, os.sysconf("SC_OPEN_MAX"))
