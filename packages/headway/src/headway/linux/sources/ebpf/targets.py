"""Resolve the target options on this machine: check that the target exists, and list the processors."""

from __future__ import annotations

import os

from headway.errors import SelectionError
from headway.linux.options import Selection
from headway.linux.procfs import processors
from headway.linux.procfs.ids import process_of

__all__ = ["check_targets", "measured_cpus"]


def check_targets(selection: Selection) -> None:
    """Raise SelectionError where a chosen process, thread or processor is not there."""
    for kind, ids in (("process", selection.pids), ("thread", selection.tids)):
        for number in ids:
            path = f"/proc/{number}/task" if kind == "process" else f"/proc/{number}/stat"
            if not os.path.exists(path):
                raise SelectionError(f"there is no {kind} {number}: it may have ended; ps -eLf lists them")
            leader = process_of(number) if kind == "process" else number
            if leader not in (number, None):
                raise SelectionError(
                    f"{number} is a thread of process {leader}: choose it with -t {number}, or all with -p {leader}"
                )
    for cpu in selection.cpus or ():
        if cpu not in processors.online():
            there = ",".join(map(str, processors.online()))
            raise SelectionError(f"there is no processor {cpu} that is online; these are: {there}")


def measured_cpus(selection: Selection) -> list[int]:
    """Return the processors that are measured now: those chosen, as far as they are on."""
    return [cpu for cpu in processors.online() if selection.cpus is None or cpu in selection.cpus]
