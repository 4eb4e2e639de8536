"""A small process that takes a plan back when headway is gone, however it ended.

It waits for the end of a pipe whose other end headway holds. The kernel closes that when headway ends, killed or not.
"""

from __future__ import annotations

import gc
import os
import signal
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from headway.errors import HeadwayError

from .controls import Controls
from .journal import Journal

__all__ = ["Watchdog"]

_ATTEMPTS = 5


class Watchdog:
    """A context manager, to be entered while this process has one thread and no descriptors that must end with it.

    Inside, the plan ``name`` of the folder is taken back as soon as this process is gone. On leaving, too, if it is
    still there.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name, self._pid, self._pipe = folder, name, 0, -1

    def __enter__(self) -> Self:
        read, self._pipe = os.pipe2(os.O_CLOEXEC)
        gc.freeze()  # or the child would copy all memory when it collects garbage
        self._pid = os.fork()
        if self._pid == 0:
            with suppress(BaseException):
                _watch(read, self._folder, self._name)
            os._exit(0)
        gc.unfreeze()
        os.close(read)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._pipe)
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def check(self) -> None:
        """Raise HeadwayError if it is gone itself."""
        try:
            gone, _ = os.waitpid(self._pid, os.WNOHANG)
        except ChildProcessError:
            gone = self._pid
        if gone:
            raise HeadwayError(
                "the process that would set everything back has been killed: nothing is changed any more"
            )


def _watch(pipe: int, folder: Path, name: str) -> None:
    """Wait until nobody holds the other end of the pipe; then take the plan back."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    os.dup2(pipe, 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    with suppress(OSError):
        Path("/proc/self/comm").write_text("headway-undo")
    while os.read(3, 1):
        pass
    for _ in range(_ATTEMPTS):
        journal = Journal(folder, Controls())
        if name not in journal.ids():
            return
        with suppress(HeadwayError, OSError):
            journal.undo(name)
