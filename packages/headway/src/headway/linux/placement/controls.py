"""The files and calls by which processes, their memory, and interrupts are placed.

Everything that places something uses an object of this class, so that tests can observe what it does, and try it on a
machine that does not exist.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from headway.errors import HeadwayError
from headway.linux.privileges import LinuxCapability, effective
from headway.linux.procfs.ids import process_of
from headway.linux.procfs.mounts import mounts
from headway.linux.procfs.processors import online, parse_list

__all__ = ["Controls"]

_ON_NODE = re.compile(r" N(\d{1,4})=(\d{1,15})(?= |$)", re.ASCII)
_PAGE = re.compile(r" kernelpagesize_kB=(\d{1,9})(?= |$)", re.ASCII)
_FREE = re.compile(r"^Node \d+ (?:MemFree|Inactive\(file\)):\s+(\d{1,15}) kB$", re.MULTILINE | re.ASCII)
_USERS = re.compile(r"^Uid:\t(\d{1,10})\t(\d{1,10})\t", re.MULTILINE | re.ASCII)
"""The real and the effective user of a process (proc_pid_status(5))."""
_SESSION_GROUP = re.compile(r"/(autogroup-\d{1,19}) nice (-?\d{1,2})", re.ASCII)
_KERNEL_THREAD = 0x0020_0000
"""PF_KTHREAD (include/linux/sched.h)."""


class Controls:
    """The controls of this machine. Methods raise OSError unless they say otherwise; None: no such process or file."""

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self._proc, self._sys = proc, sys
        self.interrupts = f"{proc}/irq"
        """The directory of the interrupts."""

    # --- control groups -----------------------------------------------------------------------------------------------

    def read(self, file: str) -> str | None:
        """Return the content of a control file, stripped. Raises HeadwayError if it cannot be read."""
        try:
            return Path(file).read_text(errors="surrogateescape").strip()
        except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
            return None
        except OSError as error:
            raise HeadwayError(f"{file} cannot be read ({error.strerror})") from None

    def write(self, file: str, text: str) -> None:
        """Write an existing control file in one call."""
        fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def may_write(self, file: str) -> bool:
        """Return whether this user may write the file, as far as can be told beforehand."""
        return os.access(file, os.W_OK)

    def make(self, folder: str) -> None:
        """Create a group."""
        os.mkdir(folder, 0o755)

    def remove(self, folder: str) -> None:
        """Remove a group."""
        os.rmdir(folder)

    def groups(self, folder: str) -> list[str]:
        """Return the groups in a group; empty if it does not exist."""
        try:
            with os.scandir(folder) as entries:
                return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            return []

    def mounts(self) -> str:
        """Return /proc/self/mountinfo."""
        return (self._proc / "self/mountinfo").read_text(errors="surrogateescape")

    def group_of(self, pid: int) -> str | None:
        """Return the path of a process's group in the cgroup v2 hierarchy, from its root."""
        for line in (self.read(f"{self._proc}/{pid}/cgroup") or "").splitlines():
            if line.startswith("0::"):
                return line[3:]
        return None

    # --- processes ----------------------------------------------------------------------------------------------------

    def boot(self) -> str:
        """Return the id of this boot of the machine."""
        return self.read(f"{self._proc}/sys/kernel/random/boot_id") or ""

    def birth(self, tid: int) -> int | None:
        """Return when a process or thread was started, in ticks since boot. With its id it identifies the thread."""
        stat = self._stat(tid)
        return int(stat[19]) if stat else None

    def is_kernel_thread(self, pid: int) -> bool:
        """Return whether it is a thread of the kernel."""
        stat = self._stat(pid)
        return bool(stat and int(stat[6]) & _KERNEL_THREAD)

    def parent(self, pid: int) -> int | None:
        """Return the process's parent."""
        stat = self._stat(pid)
        return int(stat[1]) if stat else None

    def _stat(self, tid: int) -> list[str]:
        """Return the fields of proc_pid_stat(5) from the third on, after the name, which may contain anything."""
        with suppress(OSError):
            return (self._proc / str(tid) / "stat").read_text(errors="surrogateescape").rpartition(")")[2].split()
        return []

    def name(self, pid: int) -> str:
        """Return the process's name; empty if it has ended."""
        try:
            return (self._proc / str(pid) / "comm").read_text(errors="surrogateescape").rstrip("\n")
        except OSError:
            return ""

    def process_of(self, tid: int) -> int | None:
        """Return the process that a thread belongs to."""
        return process_of(tid, proc=self._proc)

    def threads(self, pid: int) -> list[int]:
        """Return the threads of a process now."""
        with suppress(OSError):
            return sorted(int(entry) for entry in os.listdir(self._proc / str(pid) / "task"))
        return []

    def processes(self) -> list[int]:
        """Return all processes that can be seen."""
        return sorted(int(entry) for entry in os.listdir(self._proc) if entry.isascii() and entry.isdigit())

    def affinity(self, tid: int) -> frozenset[int] | None:
        """Return the processors that a thread may run on."""
        try:
            return frozenset(os.sched_getaffinity(tid))
        except ProcessLookupError:
            return None

    def may_bind(self, pid: int) -> bool:
        """Return whether this user may bind a process: one of its own, or any with CAP_SYS_NICE (sched_setaffinity(2)).

        Raises HeadwayError if it cannot be told.
        """
        if LinuxCapability.SYS_NICE in effective():
            return True
        users = _USERS.search(self.read(f"{self._proc}/{pid}/status") or "")
        return users is not None and str(os.geteuid()) in users.groups()

    def bind(self, tid: int, cpus: frozenset[int]) -> None:
        """Let a thread run on these processors only. Does nothing if it has ended."""
        with suppress(ProcessLookupError):
            os.sched_setaffinity(tid, cpus)

    def processor(self, tid: int) -> int | None:
        """Return the processor that a thread ran on last."""
        stat = self._stat(tid)
        return int(stat[36]) if len(stat) > 36 else None

    def pages(self, pid: int) -> dict[int, int]:
        """Return how many bytes a process has on each NUMA node, without what it shares with other processes.

        Empty: they cannot be read. Source: proc_pid_numa_maps(5).
        """
        found: dict[int, int] = {}
        with suppress(OSError), (self._proc / str(pid) / "numa_maps").open(errors="surrogateescape") as rows:
            for row in rows:
                size = _PAGE.search(row)
                if size is None or " mapmax=" in row:
                    continue
                for node, count in _ON_NODE.findall(row.rstrip("\n")):
                    found[int(node)] = found.get(int(node), 0) + int(count) * int(size[1]) * 1024
        return found

    # --- weights ------------------------------------------------------------------------------------------------------

    def nice(self, tid: int) -> int | None:
        """Return the nice value of a thread."""
        try:
            return os.getpriority(os.PRIO_PROCESS, tid)
        except ProcessLookupError:
            return None

    def renice(self, tid: int, value: int) -> None:
        """Set the nice value of a thread. Does nothing if it has ended."""
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, tid, value)

    def is_fair(self, tid: int) -> bool:
        """Return whether a weight says how much of a processor a thread gets, beside others of its kind (sched(7))."""
        try:
            return os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK in (os.SCHED_OTHER, os.SCHED_BATCH)
        except ProcessLookupError:
            return True

    def session_groups_are_on(self) -> bool:
        """Return whether the scheduler takes the threads of each session together (sched(7), autogroup)."""
        return self.read(f"{self._proc}/sys/kernel/sched_autogroup_enabled") == "1"

    def session_group(self, pid: int) -> tuple[str, int] | None:
        """Return the name of the group of threads of a process's session, and its nice value. None: it has none."""
        found = _SESSION_GROUP.fullmatch(self.read(f"{self._proc}/{pid}/autogroup") or "")
        return (found[1], int(found[2])) if found else None

    def renice_session(self, pid: int, value: int) -> bool:
        """Set the nice value of the group of threads of a process's session. Return whether the process is there."""
        try:
            self.write(f"{self._proc}/{pid}/autogroup", str(value))
        except (FileNotFoundError, ProcessLookupError):
            return False
        return True

    def processor_group(self, pid: int) -> str | None:
        """Return the path of the control group by which a process's processor time is divided.

        On cgroup v2 it is the nearest group, from the process's own on upwards, that has a weight. None: the process
        has ended, or is hidden.
        """
        text = self.read(f"{self._proc}/{pid}/cgroup")
        if text is None:
            return None
        paths = dict[str, str]()
        for line in text.splitlines():
            _, controllers, path = [*line.split(":", 2), "", "", ""][:3]
            paths |= dict.fromkeys(controllers.split(","), path)
        if "cpu" in paths:
            return paths["cpu"]
        path = paths.get("", "/")
        root = next((mount.point for mount in mounts(self._proc) if mount.kind == "cgroup2"), None)
        while root and path != "/" and self.read(f"{root}{path}/cpu.weight") is None:
            path = os.path.dirname(path)
        return path if root else "/"

    def is_root_group(self, group: str) -> bool:
        """Return whether a path that `processor_group` returned is the root of all groups, which has no weight.

        In a container it may be a group below that.
        """
        root = next((mount.point for mount in mounts(self._proc) if mount.kind == "cgroup2"), "")
        return group == "/" and self.read(f"{root}/cpu.weight") is None

    # --- processors ---------------------------------------------------------------------------------------------------

    def online(self) -> frozenset[int]:
        """Return the processors that are online."""
        return frozenset(online(self._sys / "devices/system/cpu"))

    def nodes(self) -> dict[int, frozenset[int]]:
        """Return the processors of each NUMA node that has memory. Empty: the kernel knows no nodes."""
        folder = f"{self._sys}/devices/system/node"
        return {
            node: frozenset(self._list(f"{folder}/node{node}/cpulist")) & self.online()
            for node in self._list(f"{folder}/has_memory")
        }

    def free_memory(self, node: int) -> int:
        """Return the bytes of a NUMA node that are free, or hold file pages that nothing has used of late."""
        text = self.read(f"{self._sys}/devices/system/node/node{node}/meminfo") or ""
        return sum(int(size) for size in _FREE.findall(text)) * 1024

    def cores(self) -> list[tuple[int, ...]]:
        """Return the processors of each core. Cores that share a cache are next to each other."""
        found: dict[tuple[int, ...], int] = {}
        for cpu in sorted(self.online()):
            folder = f"{self._sys}/devices/system/cpu/cpu{cpu}"
            together = self._list(f"{folder}/topology/thread_siblings_list") or (cpu,)
            found.setdefault(together, min(self._list(f"{folder}/cache/index3/shared_cpu_list") or together))
        return sorted(found, key=lambda core: (found[core], core))

    def _list(self, file: str) -> tuple[int, ...]:
        try:
            return parse_list(self.read(file) or "")
        except HeadwayError:
            return ()
