"""perf_event_open(2), as far as headway needs it: describing an event, counting it, and why it cannot be counted."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress

from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.system_call import system_call

__all__ = [
    "CODE_CLOCK",
    "FAULT",
    "FAULTS",
    "HARDWARE",
    "HW_CACHE",
    "RAW",
    "SAMPLE_CLOCK",
    "SOFTWARE",
    "TRACEPOINT",
    "CounterReading",
    "Event",
    "close_all",
    "open_counter",
    "open_event",
    "open_per_cpu",
    "read_counter",
    "why_not",
]

HARDWARE, SOFTWARE, TRACEPOINT, HW_CACHE, RAW = 0, 1, 2, 3, 4
"""PERF_TYPE_* (include/uapi/linux/perf_event.h)."""
_CALLS = {"x86_64": 298, "aarch64": 241}
_CLOEXEC = 8
_SIZE = 136  # PERF_ATTR_SIZE_VER8, the first with config3
_SIZE_WITHOUT_CONFIG3 = 112  # PERF_ATTR_SIZE_VER5
_TOTAL_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING
_EXCLUDE_USER, _EXCLUDE_KERNEL, _EXCLUDE_HV = 1 << 4, 1 << 5, 1 << 6


@dataclass(frozen=True, slots=True)
class Event:
    """An event that the kernel can count, as in perf_event_attr."""

    name: str
    """The name as the user wrote it."""
    type: int
    config: int
    config1: int = 0
    config2: int = 0
    config3: int = 0
    exclude_user: bool = False
    exclude_kernel: bool = False
    exclude_hv: bool = False
    period: int = 0
    """An attached eBPF program runs once for this number of events; 0: they are only counted."""
    cpus: frozenset[int] | None = None
    """The processors that can count it, if not all can: those of one type of core."""
    alternatives: tuple[Event, ...] = ()
    """The same event for the other types of core, each with its own processors."""

    def on(self, cpu: int) -> Event | None:
        """Return the form that counts it on this processor; None: there is none."""
        return next((e for e in (self, *self.alternatives) if e.cpus is None or cpu in e.cpus), None)

    @property
    def hardware(self) -> bool:
        """Whether it needs a performance monitoring unit."""
        return self.type in (HARDWARE, HW_CACHE, RAW)


FAULT = Event("page-faults", SOFTWARE, 2, period=1)
"""PERF_COUNT_SW_PAGE_FAULTS. It happens when the architecture's handler passes a fault to the memory manager."""
FAULTS = Event("minor-faults", SOFTWARE, 5, period=1), Event("major-faults", SOFTWARE, 6, period=1)
"""PERF_COUNT_SW_PAGE_FAULTS_MIN and _MAJ. They happen when the memory manager is done with a fault."""

SAMPLE_CLOCK = Event("cpu-clock", SOFTWARE, 0, period=1_000_000_000 // 199)
"""PERF_COUNT_SW_CPU_CLOCK, 199 times a second: a prime, so that it is not in step with the kernel's tick or a program.
Ten seconds of processor time tell a share of a half to within 2.2 per cent."""

CODE_CLOCK = Event("cpu-clock", SOFTWARE, 0, period=1_000_000_000 // 997)
"""The same, 997 times a second: spinning is told by two samples in a row, and so from a millisecond on."""


@dataclass(frozen=True, slots=True)
class CounterReading:
    """A reading of a counter: it was wanted for ``enabled`` ns, and had hardware for ``running`` of these."""

    value: int
    enabled: int
    running: int

    @property
    def scaled(self) -> int | None:
        """The value for all of the time, in proportion if the counter was shared; None: it never had hardware."""
        if self.running >= self.enabled:
            return self.value
        return self.value * self.enabled // self.running if self.running > 0 else None


def open_counter(event: Event, *, pid: int = -1, cpu: int = -1) -> int:
    """Return a file descriptor that counts the event from now on, in one thread (``pid``) or on one processor
    (``cpu``).

    Threads that the thread creates are not counted with it. Raises OSError with perf_event_open's errno.
    """
    attributes = bytearray(_SIZE if event.config3 else _SIZE_WITHOUT_CONFIG3)
    flags = event.exclude_user * _EXCLUDE_USER | event.exclude_kernel * _EXCLUDE_KERNEL | event.exclude_hv * _EXCLUDE_HV
    struct.pack_into(
        "=IIQQQQQ", attributes, 0, event.type, len(attributes), event.config, event.period, 0, _TOTAL_TIMES, flags
    )
    struct.pack_into("=QQ", attributes, 56, event.config1, event.config2)
    if event.config3:
        struct.pack_into("=Q", attributes, 128, event.config3)
    return open_event(attributes, pid=pid, cpu=cpu)


def open_event(attributes: bytearray, *, pid: int, cpu: int) -> int:
    """Call perf_event_open(2), for a thread on any processor (``cpu`` -1) or all threads on a processor (``pid`` -1).

    ``attributes``: struct perf_event_attr, with its size in bytes 4 to 7. Raises OSError with the errno.
    """
    buffer = (ctypes.c_char * len(attributes)).from_buffer(attributes)
    number = _CALLS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return system_call(number, buffer, pid, cpu, -1, _CLOEXEC)


def read_counter(fd: int) -> CounterReading | None:
    """Read a counter; None: the kernel has taken it out of service (it could not be counted at all)."""
    try:
        data = os.read(fd, 24)
    except OSError:
        return None
    return CounterReading(*struct.unpack("=QQQ", data)) if len(data) == 24 else None


def open_per_cpu(events: Sequence[Event], cpus: Iterable[int]) -> dict[int, list[int]]:
    """Open counters of everything on these processors. Return cpu -> one file descriptor for each event, in order.

    The events are not a group: a group that does not fit into the counters together would never count, single events
    take turns. -1 stands for an event that this type of core does not have and which does not happen there. Raises
    HeadwayError if one cannot be counted, and OSError (EMFILE, ENFILE) for too many files; nothing is left open.
    """
    opened: dict[int, list[int]] = {}
    try:
        for cpu in cpus:
            fds = opened[cpu] = []
            for event in events:
                here = event.on(cpu)
                try:
                    fds.append(-1 if here is None else open_counter(here, cpu=cpu))
                except OSError as error:
                    if error.errno in (errno.EMFILE, errno.ENFILE):
                        raise
                    raise HeadwayError(why_not(event, error.errno or 0, cpu=cpu)) from None
    except BaseException:
        close_all(fd for fds in opened.values() for fd in fds)
        raise
    return opened


def close_all(fds: Iterable[int]) -> None:
    """Close file descriptors. Negative ones are ignored."""
    for fd in fds:
        if fd >= 0:
            with suppress(OSError):
                os.close(fd)


def why_not(event: Event, number: int, *, cpu: int | None = None) -> str:
    """Return one sentence that says why the kernel does not count an event in a thread (``cpu`` None) or on a
    processor.
    """
    where = "of a thread" if cpu is None else f"on processor {cpu}"
    if number in (errno.EACCES, errno.EPERM):
        if event.type == TRACEPOINT:
            return f"{event.name} cannot be counted: tracepoints need CAP_PERFMON (sudo headway ...)"
        if cpu is None and not event.exclude_kernel:
            return f"{event.name} cannot be counted: only user code may be (write {event.name}:u), see {_PARANOID}"
        return (
            f"{event.name} cannot be counted {where}: that needs CAP_PERFMON (sudo headway ...), or a lower {_PARANOID}"
        )
    if number in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.ENXIO):
        if event.hardware:
            return (
                f"{event.name} cannot be counted: no performance monitoring unit here has it (headway doctor says more)"
            )
        return f"{event.name} cannot be counted {where}: this kernel does not offer it"
    if number == errno.EINVAL:
        return f"{event.name} cannot be counted {where}: the kernel does not accept it as an event to count there"
    if number == errno.EBUSY:
        return f"{event.name} cannot be counted {where}: another program uses the counters"
    if number in (errno.EMFILE, errno.ENFILE):
        return f"{event.name} cannot be counted {where}: too many files are open, raise the limit (ulimit -n)"
    return f"{event.name} cannot be counted {where}: {os.strerror(number)}"


_PARANOID = "kernel.perf_event_paranoid"
