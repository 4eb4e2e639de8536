"""Where a report goes, and how a command that was measured ends: what every measuring subcommand does alike."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TextIO

from headway.errors import HeadwayError

__all__ = ["die_of", "report_to", "tidy_end"]


class _Ended(BaseException):
    """A signal came that ends us."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def tidy_end() -> Iterator[None]:
    """SIGTERM and SIGHUP end what is within as an error would, so that no file is left behind; and then they end us."""

    def end(number: int, frame: FrameType | None) -> None:
        raise _Ended(number)

    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, end)
    by = 0
    try:
        yield
    except _Ended as ended:
        by = ended.number
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
    if by:
        die_of(by)


@contextmanager
def report_to(output: str | None) -> Iterator[TextIO]:
    """Where the report goes: opened before anything is measured, so that a mistake costs nothing."""
    if output is None:
        yield sys.stderr
        return
    try:
        stream = open(output, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    except OSError as error:
        raise HeadwayError(f"{output} cannot be written ({error.strerror}): give another file with -o") from None
    try:
        yield stream
    except BaseException:
        with suppress(OSError):
            stream.close()
        raise
    stream.close()


def die_of(number: int) -> None:
    """End as the command did: by the same signal, without a core dump of our own."""
    sys.stderr.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
