"""Waiting until a thread that has asked for a reading sleeps.

Between its request and its sleep the thread still runs for some microseconds. It may take longer: a request wakes the
observer on another processor by an interrupt, and there a hypervisor may take the processor away. The kernel's account
of a thread is complete only when the thread has left its processor. Before that it lacks up to a tick of run time, and
neither the kernel nor the eBPF programs know yet what the hypervisor stole. A reading at that moment would count the
stolen time as progress, for good.
"""

from __future__ import annotations

import time

__all__ = ["PATIENCE", "wait_until_asleep"]

PATIENCE = 10_000_000
"""The longest wait, in ns."""
_PAUSE = 0.000_02
"""Seconds between two looks. The thread may need the very processor from which this one looks."""


def wait_until_asleep(pid: int, tid: int) -> bool:
    """Wait until a thread sleeps or is gone, for `PATIENCE` at most. Return whether it does."""
    until = time.monotonic_ns() + PATIENCE
    while _is_runnable(pid, tid):
        if time.monotonic_ns() >= until:
            return False
        time.sleep(_PAUSE)
    return True


def _is_runnable(pid: int, tid: int) -> bool:
    """Return whether a thread has a processor or wants one (proc_pid_stat(5)); no if that cannot be read."""
    try:
        with open(f"/proc/{pid}/task/{tid}/stat", "rb", buffering=0) as file:
            text = file.read(256)
    except OSError:
        return False
    return text[text.rfind(b")") :].startswith(b") R")
