"""``--python-tasks`` with ``-p``: headway's marks are in the running programs as long as the subcommand goes on.

Whoever takes the marks out again needs the rights that put them in, and these may have been given up by then (`headway
serve`), or this process may have been killed. So a child does it, which waits for nothing but that end.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import click

from headway.linux.attachment.attach import PATIENCE, Attachment, attach
from headway.linux.attachment.debugger import AttachError
from headway.linux.procfs.descendants import descendants

from .say import say

__all__ = ["attach_meanwhile"]

_KEY = "headway.cli.attaching"


def attach_meanwhile(pids: Sequence[int], *, only: bool) -> None:
    """Have these programs in Python mark their tasks until the subcommand ends; ``only``: not those they started.

    Where that cannot be, a sentence says so, and their time is charged to no task.
    """
    context = click.get_current_context()
    if _KEY in context.meta:
        return
    context.meta[_KEY] = True
    asked: list[Attachment] = []
    settled: list[Attachment] = []
    try:
        for pid in dict.fromkeys((*pids, *(() if only else descendants(pids)))):
            with _said(pid):
                attachment = attach(pid, "name" if os.environ.get("HEADWAY_TASKS_BY") == "name" else "coroutine")
                if attachment is not None:
                    asked.append(attachment)
                elif pid in pids and os.path.exists(f"/proc/{pid}"):
                    say(f"the tasks of process {pid} are not measured: it runs no CPython that is known")
        until = time.monotonic() + PATIENCE
        for attachment in asked:
            with _said(attachment.pid):
                attachment.settle(until)
                settled.append(attachment)
        waiting = [attachment.pid for attachment in settled if attachment.waits]
        if waiting:
            they = f"process {waiting[0]} executes" if len(waiting) == 1 else f"{len(waiting):,} processes execute"
            say(f"{they} no Python code now: tasks there are measured from when it goes on")
    except BaseException:
        for attachment in asked:
            attachment.end()
        raise
    if settled:
        context.call_on_close(_Ending(settled).end)


@contextmanager
def _said(pid: int) -> Iterator[None]:
    """Have a sentence say why a process is not attached to."""
    try:
        yield
    except (AttachError, OSError) as error:
        say(f"the tasks of process {pid} are not measured: {getattr(error, 'strerror', None) or error}")


class _Ending:
    """A child of this process that takes the marks out when this process says so, or has ended."""

    def __init__(self, attachments: Sequence[Attachment]) -> None:
        ends, self._open = os.pipe()
        self._told, tells = os.pipe()
        self._parent = os.getpid()
        self._child = os.fork()
        if self._child == 0:
            os.close(self._open)
            os.close(self._told)
            _wait_and_end(attachments, ends, tells)
        os.close(ends)
        os.close(tells)
        for attachment in attachments:
            attachment.leave()

    def end(self) -> None:
        """Have it do so, and say what it could not."""
        if os.getpid() != self._parent:
            return
        os.close(self._open)
        with open(self._told, "rb") as told:
            words = told.read()
        os.waitpid(self._child, 0)
        kept = words.split()
        if kept:
            they = f"process {int(kept[0])} goes" if len(kept) == 1 else f"{len(kept):,} processes go"
            say(f"{they} on marking tasks, which takes some dozens of ns each: no Python code was executed at the end")


def _wait_and_end(attachments: Sequence[Attachment], ends: int, tells: int) -> NoReturn:
    """Wait until the other side of a pipe is closed, take the marks out, and write the processes that kept them."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)  # they are for the parent, whose end is waited for
        nothing = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(nothing, standard)
        os.read(ends, 1)
        for attachment in attachments:
            attachment.ask_to_end()
        until = time.monotonic() + PATIENCE
        for attachment in attachments:
            if not attachment.end(until):
                os.write(tells, b"%d\n" % attachment.pid)
    finally:
        os._exit(0)
