"""Ending a subcommand: with the status of the command that it measured, or by a signal."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import click

__all__ = ["end_as", "tidy_end"]


class _Ended(BaseException):
    """A signal came that ends this process."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def tidy_end() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as an error would, so that no file is left; then die of the signal."""

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
        _die_of(by)


def end_as(status: int | None) -> NoReturn:
    """End with a command's exit status, or by the signal that killed it.

    ``status``: the command's exit status, or minus the number of the signal that killed it; None: there was no command.
    """
    if status is not None and status < 0:
        _die_of(-status)
    click.get_current_context().exit(status or 0)


def _die_of(number: int) -> None:
    """Die of a signal, without a core dump."""
    sys.stderr.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
