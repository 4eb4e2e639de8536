"""The kernel's ring buffers of samples, one for each thread: opening them, and their content.

A sampling event that is bound to a thread on any processor cannot be inherited by the threads that it creates: the
kernel refuses to map such an event (perf_mmap: ``cpu == -1 && inherit``). So each thread gets its own event and ring,
and `headway.linux.perf.thread_buffers` finds new threads. Nothing is overwritten: when a ring is full, the kernel drops
new samples and counts them. It reports them in a PERF_RECORD_LOST when there is room again, and at once in ``read(2)``
(PERF_FORMAT_LOST).
"""

from __future__ import annotations

import errno
import os
import struct
import time

from headway.dataclass import dataclass
from headway.errors import HeadwayError

from ._rings import FIELDS, PAGE, Ring, Samples, Tray
from .perf_event import SOFTWARE, Event, open_event, why_not

__all__ = [
    "CPU_CLOCK",
    "DEFAULT_FIELDS",
    "FIELDS",
    "NOTHING",
    "PAGE",
    "PerfBuffer",
    "Samples",
    "Sampling",
    "Tray",
    "attributes",
]

CPU_CLOCK = Event("cpu-clock", SOFTWARE, 0)
"""PERF_COUNT_SW_CPU_CLOCK: a timer, so it is available everywhere. It runs while the thread does."""
NOTHING = Event("dummy", SOFTWARE, 9)
"""PERF_COUNT_SW_DUMMY: counts nothing, so no sample is taken."""
DEFAULT_FIELDS = sum(FIELDS[name] for name in ("ip", "tid", "time", "cpu", "period", "callchain"))
_SIZE = 136  # PERF_ATTR_SIZE_VER8
_SIZE_WITHOUT_CONFIG3 = 112  # PERF_ATTR_SIZE_VER5
_LIKELY_SIZE = 128  # of a sample with its stack
_FORMAT_ENABLED, _FORMAT_LOST = 1 << 0, 1 << 4
# The bits of perf_event_attr's flags.
_DISABLED, _INHERIT, _MMAP, _COMM, _FREQUENCY, _ENABLE_ON_EXEC = 1 << 0, 1 << 1, 1 << 8, 1 << 9, 1 << 10, 1 << 12
_TASK, _WATERMARK, _SAMPLE_ID_ALL = 1 << 13, 1 << 14, 1 << 18
_NO_KERNEL_STACK, _NO_USER_STACK, _MMAP2, _COMM_EXEC, _USE_CLOCK = 1 << 21, 1 << 22, 1 << 23, 1 << 24, 1 << 25
_EXCLUDE_USER, _EXCLUDE_KERNEL, _EXCLUDE_HV = 1 << 4, 1 << 5, 1 << 6


@dataclass(frozen=True, slots=True)
class Sampling:
    """What is sampled, how often, and what is kept of a sample."""

    event: Event = CPU_CLOCK
    frequency: int = 99
    """Samples for each second of the thread's processor time; 0: ``period`` is used."""
    period: int = 0
    """Events from one sample to the next; ns for a clock."""
    fields: int = DEFAULT_FIELDS
    """PERF_SAMPLE_*, of `FIELDS`."""
    pages: int = 16
    """Pages of a thread's ring, a power of two."""
    watermark: int = 0
    """Bytes at which the kernel wakes a poll of the file; 0: half the ring."""
    max_stack: int = 0
    """The number of frames kept of a stack; 0: kernel.perf_event_max_stack."""
    kernel_stacks: bool = True
    user_stacks: bool = True
    enable_on_exec: bool = False
    """Begin when the thread executes a program."""

    @property
    def capacity(self) -> int:
        """The size of a ring in bytes."""
        return self.pages * PAGE


def attributes(
    event: Event,
    *,
    rate: int = 0,
    fields: int = 0,
    flags: int = 0,
    read_format: int = 0,
    watermark: int = 0,
    max_stack: int = 0,
) -> bytearray:
    """Return struct perf_event_attr of an event whose records have timestamps of CLOCK_MONOTONIC."""
    flags |= (
        event.exclude_user * _EXCLUDE_USER | event.exclude_kernel * _EXCLUDE_KERNEL | event.exclude_hv * _EXCLUDE_HV
    )
    words = bytearray(_SIZE if event.config3 else _SIZE_WITHOUT_CONFIG3)
    struct.pack_into(
        "=IIQQQQQI",
        words,
        0,
        event.type,
        len(words),
        event.config,
        rate,
        fields,
        read_format,
        flags | _USE_CLOCK | _WATERMARK,
        watermark,
    )
    struct.pack_into("=QQ", words, 56, event.config1, event.config2)
    struct.pack_into("=i", words, 92, time.CLOCK_MONOTONIC)
    struct.pack_into("=H", words, 108, max_stack)
    if event.config3:
        struct.pack_into("=Q", words, 128, event.config3)
    return words


class PerfBuffer:
    """The ring of one thread's samples (a `headway.buffers.buffer.Buffer`)."""

    def __init__(self, tid: int, sampling: Sampling, *, pid: int = 0) -> None:
        """Begin to sample a thread. Raises ProcessLookupError if it has ended, HeadwayError if it cannot be sampled."""
        self.tid = tid
        self.pid = pid
        """The process; 0: not known."""
        self.capacity = sampling.capacity
        self._moved = 0
        self.fd = _open(tid, sampling)
        try:
            self._ring = Ring(self.fd, sampling.pages)
        except OSError as error:
            os.close(self.fd)
            raise HeadwayError(_why_not_mapped(error.errno or 0, sampling)) from None
        except BaseException:
            os.close(self.fd)
            raise

    def cpu_time(self) -> int:
        """Return the ns of processor time since sampling began. It makes a system call only if the thread has run."""
        return self._ring.ask(self.fd)

    def stood_still(self) -> bool:
        """Return whether the thread has certainly not run since the last `cpu_time`. It costs two loads."""
        return self._ring.stood_still()

    def look(self) -> int:
        """Return the number of bytes that wait in the ring."""
        filled = self._ring.filled
        if filled > self.capacity * 3 // 4:
            self._ring.ask(self.fd)
        return filled

    def drain(self, tray: Tray) -> int:
        """Move all records to the end of the tray. Return their size in bytes."""
        moved = self._ring.drain(tray)
        self._moved += moved
        return moved

    @property
    def samples(self) -> int:
        """The number of samples drained."""
        return self._ring.samples

    @property
    def lost(self) -> int:
        """The number of samples without room, as of the last look; before Linux 6.0, as of the last drain but one."""
        return max(self._ring.dropped, self._ring.lost)

    @property
    def lost_bytes(self) -> int:
        """An estimate of their size in bytes, if they were like the others."""
        return self.lost * self._moved // self._ring.samples if self._ring.samples else self.lost * _LIKELY_SIZE

    @property
    def throttled(self) -> int:
        """How often the kernel stopped the sampling for a while (kernel.perf_event_max_sample_rate)."""
        return self._ring.throttled

    @property
    def damaged(self) -> int:
        """The number of readings that found no whole record where there must be one."""
        return self._ring.damaged

    def close(self, tray: Tray | None = None) -> None:
        """End the sampling. Remaining records go to the tray."""
        if self.fd < 0:
            return
        self._ring.ask(self.fd)
        os.close(self.fd)
        self.fd = -1
        if tray is not None:
            self.drain(tray)
        self._ring.close()


def _open(tid: int, sampling: Sampling) -> int:
    """Open the event. Reading the file gives its count, its time, and since Linux 6.0 the number of lost samples."""
    flags = (
        (_FREQUENCY if sampling.frequency else 0)
        | (0 if sampling.kernel_stacks else _NO_KERNEL_STACK)
        | (0 if sampling.user_stacks else _NO_USER_STACK)
        | (_DISABLED | _ENABLE_ON_EXEC if sampling.enable_on_exec else 0)
    )
    for read_format in (_FORMAT_ENABLED | _FORMAT_LOST, _FORMAT_ENABLED):
        asked = attributes(
            sampling.event,
            rate=sampling.frequency or sampling.period,
            fields=sampling.fields,
            flags=flags,
            read_format=read_format,
            watermark=sampling.watermark or sampling.capacity // 2,
            max_stack=sampling.max_stack,
        )
        try:
            return open_event(asked, pid=tid, cpu=-1)
        except OSError as error:
            if error.errno == errno.EINVAL and read_format & _FORMAT_LOST:
                continue
            if error.errno == errno.ESRCH:
                raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH)) from None
            raise HeadwayError(why_not(sampling.event, error.errno or 0)) from None
    raise AssertionError("not reached")


def _why_not_mapped(number: int, sampling: Sampling) -> str:
    size = (sampling.capacity + PAGE) // 1024
    if number in (errno.EPERM, errno.ENOMEM):
        return (
            f"there is no memory for the next thread's buffer of {size} KiB: raise kernel.perf_event_mlock_kb "
            "or the limit of locked memory (ulimit -l), or choose smaller buffers"
        )
    return f"a thread's buffer of {size} KiB cannot be mapped: {os.strerror(number)}"
