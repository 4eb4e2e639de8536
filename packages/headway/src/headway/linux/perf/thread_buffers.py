"""The sample buffers of all threads of some processes, including later threads.

A thread's sampling event cannot be inherited (see `headway.linux.perf.sample_buffer`). So new threads are found by a
second event for each processor, which counts nothing and reports tasks: PERF_RECORD_FORK, EXIT, COMM and MMAP2. It is
opened for the whole machine if the user has CAP_PERFMON; otherwise it is opened for each thread, and inherited. The
kernel wakes us at its first record. What a thread did before its own event was opened is not sampled: its processor
time until then is read and added up (`SampledThreads.late_ns`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress

from headway.errors import HeadwayError, SelectionError
from headway.linux.procfs import processors
from headway.linux.procfs.ids import process_of

from . import sample_buffer as perf
from ._rings import FIELDS, Ring, Tray
from .perf_event import SOFTWARE, Event, close_all, open_event, why_not
from .sample_buffer import PerfBuffer, Sampling

__all__ = ["COMM", "EXIT", "FORK", "MMAP2", "SampledThreads", "threads_of"]

COMM, EXIT, FORK, MMAP2 = 3, 4, 7, 10
"""PERF_RECORD_*. After the header they have: COMM pid, tid, name; EXIT and FORK pid, ppid, tid, ptid, time; MMAP2 pid,
tid, address, length, offset, maj, min, inode, generation, protection, flags, name. Each ends with pid, tid, time.
"""
_DUMMY = perf.NOTHING
_SET_OUTPUT = 0x2405  # PERF_EVENT_IOC_SET_OUTPUT
_TELLS = perf._MMAP | perf._MMAP2 | perf._COMM | perf._COMM_EXEC | perf._TASK | perf._SAMPLE_ID_ALL
_PAGES = 32


def threads_of(pid: int) -> list[int]:
    """Return the threads of a process now; [] if it has ended."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except (FileNotFoundError, ProcessLookupError):
        return []


class SampledThreads:
    """A buffer for each thread of the processes and of their children."""

    def __init__(self, pids: Iterable[int], sampling: Sampling, *, tids: Iterable[int] = ()) -> None:
        """Begin to sample. ``tids``: additional single threads; threads that they create are sampled too.

        Raises SelectionError if there is nothing to sample, HeadwayError if it is not possible.
        """
        self.sampling = sampling
        self.buffers: dict[int, PerfBuffer] = {}
        """By tid."""
        self.late_ns = 0
        """Processor time of new threads before their sampling began, in ns."""
        self.unseen = 0
        """The number of threads that had ended before their sampling could begin."""
        self.damaged = 0
        self.lost = 0
        """The number of lost records about tasks. Threads may be missing, so /proc was read again."""
        self.tray = Tray()
        """The kernel's records about these processes. The owner reads and clears it."""
        self._fds: list[int] = []
        self._rings: list[Ring] = []
        self._pids = set(pids)
        self._tids = set(tids)
        self._of = set(self._pids)
        _raise_file_limit()
        try:
            self._tell()
            self._add_present()
            if not self.buffers:
                raise SelectionError("there is no such process or thread to sample")
        except BaseException:
            self.close()
            raise

    @property
    def fds(self) -> list[int]:
        """Files that become readable when the kernel has reported a task, one for each processor."""
        return self._fds[: len(self._rings)]

    def update(self) -> tuple[list[PerfBuffer], list[PerfBuffer]]:
        """Process the kernel's reports. Return the buffers of new threads, and of threads that have ended.

        The latter may still hold samples: drain them, and close them with `drop`.
        """
        told, ended = Tray(), []
        for ring in self._rings:
            ring.drain(told)
        new = []
        tasks = [
            (*struct.unpack_from("=iiiiQ", body)[::-1], kind == EXIT)
            for kind, _, body in told.others()
            if kind in (FORK, EXIT) and len(body) >= 24
        ]
        for _, creator, tid, parent, pid, exits in sorted(tasks):  # sorted by time, because each ring has its own order
            if exits:
                self._tids.discard(tid)
                if tid in self.buffers:
                    ended.append(self.buffers.pop(tid))
            elif parent in self._pids or creator in self.buffers:
                if parent in self._pids or pid != parent:
                    self._pids.add(pid)
                self._of.add(pid)  # what it maps is told, even if it ends before it can be sampled
                self._tids.add(tid)
                new += self._add(tid, pid, late=True)
        for kind, misc, body in told.others():
            if int.from_bytes(body[:4], sys.byteorder) in self._of or kind not in (COMM, EXIT, FORK, MMAP2):
                self.tray.put(struct.pack("=IHH", kind, misc, len(body) + 8) + body)
        self.damaged = sum(ring.damaged for ring in self._rings)
        lost = sum(ring.lost for ring in self._rings)
        if lost != self.lost:
            self.lost = lost
            new += self._add_present()
        return new, ended

    def drop(self, buffer: PerfBuffer, tray: Tray | None = None) -> None:
        """Close the buffer of a thread that has ended or is no longer wanted. Its remaining records go to the tray."""
        buffer.close(tray)
        if self.buffers.get(buffer.tid) is buffer:
            del self.buffers[buffer.tid]

    def close(self) -> None:
        """End all sampling."""
        for buffer in list(self.buffers.values()):
            self.drop(buffer)
        for ring in self._rings:
            ring.close()
        self._rings = []
        close_all(self._fds)
        self._fds = []

    def _add_present(self) -> list[PerfBuffer]:
        """Add every existing thread, until a pass finds no new one, so that no thread being created is missed."""
        found: list[PerfBuffer] = []
        while True:
            there = {tid: pid for pid in self._pids for tid in threads_of(pid)} | dict.fromkeys(self._tids, 0)
            new = [self._add(tid, pid, late=False) for tid, pid in there.items() if tid not in self.buffers]
            new = [added for added in new if added]
            if not new:
                return found
            for added in new:
                found += added

    def _add(self, tid: int, pid: int, *, late: bool) -> list[PerfBuffer]:
        if tid in self.buffers:
            return []
        try:
            buffer = PerfBuffer(tid, self.sampling, pid=pid or process_of(tid) or 0)
        except ProcessLookupError:
            self.unseen += late
            self._tids.discard(tid)
            return []
        if late:
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{tid}/schedstat") as file:
                self.late_ns += int(file.read().split()[0])
        self.buffers[tid] = buffer
        self._of.add(buffer.pid)
        return [buffer]

    def _tell(self) -> None:
        """Open the events that report tasks: for the whole machine, or else for each existing thread."""
        cpus = list(processors.online())
        fields = FIELDS["tid"] | FIELDS["time"]
        try:
            for cpu in cpus:
                asked = perf.attributes(_DUMMY, rate=1, fields=fields, flags=_TELLS, watermark=1)
                self._fds.append(open_event(asked, pid=-1, cpu=cpu))
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM):
                raise HeadwayError(why_not(_DUMMY, error.errno or 0, cpu=cpu)) from None
            close_all(self._fds)
            self._fds = []
            self._tell_of_each(cpus, fields)
        try:
            self._rings = [Ring(fd, _PAGES) for fd in self._fds[: len(cpus)]]
        except OSError as error:
            raise HeadwayError(
                f"the buffer for reports on new threads cannot be mapped ({os.strerror(error.errno or 0)}): "
                "raise kernel.perf_event_mlock_kb"
            ) from None

    def _tell_of_each(self, cpus: list[int], fields: int) -> None:
        flags = _TELLS | perf._INHERIT
        quiet = Event("dummy", SOFTWARE, 9, exclude_kernel=True, exclude_hv=True)
        known: set[int] = set()
        while True:
            there = {tid for pid in self._pids for tid in threads_of(pid)} | self._tids
            if not there - known:
                return
            for tid in there - known:
                known.add(tid)
                first = len(self._fds)
                for i, cpu in enumerate(cpus):
                    asked = perf.attributes(quiet, rate=1, fields=fields, flags=flags, watermark=1)
                    try:
                        fd = open_event(asked, pid=tid, cpu=cpu)
                    except OSError as error:
                        if error.errno == errno.ESRCH:
                            close_all(self._fds[first:])
                            del self._fds[first:]
                            break
                        raise HeadwayError(why_not(quiet, error.errno or 0)) from None
                    self._fds.append(fd)
                    if first:
                        fcntl.ioctl(fd, _SET_OUTPUT, self._fds[i])


def _raise_file_limit() -> None:
    """Raise the soft limit of open files to the hard limit, because each thread needs a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
