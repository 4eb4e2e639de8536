"""``--python-tasks`` with ``-p``: headway's marks are in the running programs as long as the subcommand goes on."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from headway.linux.attachment.attach import Attachment, attach
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
    attachments: list[Attachment] = []
    context.meta[_KEY] = attachments
    context.call_on_close(lambda: _end(attachments))
    for pid in (*pids, *(() if only else descendants(pids))):
        try:
            attachment = attach(pid, _by())
        except AttachError as error:
            say(f"the tasks of process {pid} are not measured: {error}")
            continue
        if attachment is not None:
            attachments.append(attachment)
            if attachment.waits:
                say(f"process {pid} executes no Python code now: its tasks are measured from when it goes on")
        elif pid in pids:
            say(f"the tasks of process {pid} are not measured: it runs no known Python, or may not be read")


def _end(attachments: list[Attachment]) -> None:
    for attachment in attachments:
        if not attachment.end():
            say(
                f"process {attachment.pid} executed no Python code at the end: it goes on marking its tasks, "
                "which takes it some dozens of ns each"
            )
    attachments.clear()


def _by() -> str:
    return "name" if os.environ.get("HEADWAY_TASKS_BY") == "name" else "coroutine"
