"""The names of the states that the eBPF programs number (bpf/shared/layout.h)."""

from __future__ import annotations

from headway.linux.syscalls.table import BY_FILE, SYNCED, WAITS, compat_numbers, name_of, numbers

from .layout import READY_PARTS, STATES

__all__ = ["NAMES", "compat_table", "wait_table"]

_FIXED = {
    "USER": "user",
    "READY": "ready",
    "UNKNOWN": "unknown",
    "STOLEN": "stolen",
    "OVERHEAD": "overhead",
    "IDLE": "idle",
    "UNMEASURED": "unknown.unmeasured",
    "ELSEWHERE": "unknown.elsewhere",
    "STOPPED": "stopped",
    "KERNEL_FAULT": "kernel.fault",
    "KERNEL_FAULT_MINOR": "kernel.fault.minor",
    "KERNEL_FAULT_MAJOR": "kernel.fault.major",
    "KERNEL_RECLAIM": "kernel.reclaim",
    "KERNEL_COREDUMP": "kernel.coredump",
    "KERNEL_TASK_WORK": "kernel.task_work",
    "KERNEL_SIGNAL": "kernel.signal",
    "KERNEL_THREAD": "kernel.thread",
    "KERNEL_OTHER": "kernel.other",
    "RUNNING": "running",
    "OVERHEAD_MARKS": "overhead.marks",
    "WAIT_FUTEX": "wait.futex",
    "WAIT_DISK": "wait.disk",
    "WAIT_NET": "wait.net",
    "WAIT_PIPE": "wait.pipe",
    "WAIT_POLL": "wait.poll",
    "WAIT_EPOLL": "wait.epoll",
    "WAIT_SLEEP": "wait.sleep",
    "WAIT_CHILD": "wait.child",
    "WAIT_FAULT": "wait.fault",
    "WAIT_SIGNAL": "wait.signal",
    "WAIT_IPC": "wait.ipc",
    "WAIT_IO_URING": "wait.io_uring",
    "WAIT_FLOCK": "wait.flock",
    "WAIT_KTHREAD": "wait.work",
    "WAIT_FILE": "wait.file",
    "WAIT_RECLAIM": "wait.reclaim",
    "WAIT_OTHER": "wait.other",
    "WAIT_COREDUMP": "wait.coredump",
    "WAIT_FROZEN": "wait.frozen",
    "WAIT_MMAP_LOCK": "wait.mmap_lock",
    "WAIT_FILE_LOCK": "wait.file_lock",
    "WAIT_FUSE": "wait.fuse",
    "WAIT_NFS": "wait.nfs",
    "WAIT_PROC": "wait.proc",
    "WAIT_OVERLAY": "wait.overlay",
    "POLL_IO_URING": "poll.io_uring",
    "WAIT_KERNEL_LOCK": "wait.kernel_lock",
    "IRQ_DEVICE": "irq.device",
    "IRQ_TIMER": "irq.timer",
    "IRQ_RESCHEDULE": "irq.reschedule",
    "IRQ_CALL_FUNCTION": "irq.call_function",
    "IRQ_CALL_FUNCTION_SINGLE": "irq.call_function_single",
    "IRQ_WORK": "irq.work",
    "IRQ_THERMAL": "irq.thermal",
    "IRQ_THRESHOLD": "irq.threshold",
    "IRQ_ERROR": "irq.error",
    "IRQ_SPURIOUS": "irq.spurious",
    "IRQ_DEFERRED_ERROR": "irq.deferred_error",
    "IRQ_PLATFORM": "irq.platform",
    "IRQ_IPI": "irq.ipi",
    "IRQ_ANY": "irq",
}
_SOFTIRQS = ("hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu")
"""In the order of the vectors (include/linux/interrupt.h)."""


def _names() -> tuple[str, ...]:
    number = STATES
    names = ["unknown"] * number["N_STATES"]
    for state, name in _FIXED.items():
        names[number[state]] = name
    for vector, name in enumerate(_SOFTIRQS):
        names[number["SOFTIRQ"] + vector] = f"softirq.{name}"
    for part, place in READY_PARTS.items():
        names[number["READY_PART"] + place] = f"ready.{part}"
    for call in range(number["N_CALLS"]):
        names[number["KERNEL_CALL"] + call] = f"kernel.{name_of(call)}"
        names[number["WAIT_CALL"] + call] = f"wait.{name_of(call)}"
    return tuple(names)


NAMES = _names()
"""State number -> name."""


def wait_table() -> list[int]:
    """System call number -> number of the state in which a thread is that sleeps in it; 0: ``wait.<call>``."""
    state = {name: STATES[fixed] for fixed, name in _FIXED.items()}  # a call may have the same name
    table = [0] * STATES["N_CALLS"]
    for call, number in numbers().items():
        if call in WAITS and number < len(table):
            reason = WAITS[call]
            by_file = "WAIT_SYNCED" if call in SYNCED else "WAIT_BY_FILE" if reason == BY_FILE else ""
            table[number] = STATES[by_file] if by_file else state[f"wait.{reason}"]
    return table


def compat_table() -> list[int]:
    """32-bit system call number -> native number; N_CALLS where there is none."""
    size = STATES["N_CALLS"]
    same = compat_numbers()
    return [min(same.get(number, size), size) for number in range(size)]
