"""A kernel that is not there: control groups, processes, affinities, interrupts, memory nodes and resctrl's tree.

It has the rules that plans depend on.

It can be made to fail, or to take the observer with it, at any of its operations.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from pathlib import Path

from tests.linux.resctrl_tree import ResctrlTree

from headway.linux.placement.controls import Controls
from headway.linux.procfs.processors import as_list, parse_list

ROOT = "/cg"
MOUNTS = f"30 20 0:26 / {ROOT} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


_CPUSET = {"cpuset.cpus": "", "cpuset.cpus.partition": "member", "cpuset.mems": ""}
"""The files of the controller in a new group."""


class KilledError(BaseException):
    """What happens to the observer: nothing of it runs any more."""


@dataclass
class Process:
    birth: int
    parent: int = 1
    threads: dict[int, tuple[int, frozenset[int]]] = field(default_factory=dict)
    """tid -> (birth, affinity)."""
    kernel: bool = False
    processor: int = 0
    """The one that its threads ran on last."""
    pages: dict[int, int] = field(default_factory=dict)
    """Bytes by memory node."""


@dataclass
class Group:
    procs: set[int] = field(default_factory=set)
    files: dict[str, str] = field(default_factory=dict)


class FakeKernel(Controls):
    def __init__(self, cpus: int = 2, *, mounts: str = MOUNTS, resctrl: ResctrlTree | None = None) -> None:
        super().__init__(Path("/nowhere"), Path("/nowhere"))
        self.cpus = frozenset(range(cpus))
        self.root = Group(set(), {"cgroup.controllers": "cpuset cpu pids", "cgroup.subtree_control": "cpu pids"})
        self.all = {ROOT: self.root}
        self.table: dict[int, Process] = {}
        self.fail_at: int | None = None
        self.kill_at: int | None = None
        self.kill_after = False
        self.dead = False
        self.operations = 0
        self.invalid_partitions = False
        self.foreign: set[int] = set()
        """Processes of other users, which this one may not bind."""
        self.isolated = True
        """Whether it has isolated partitions."""
        self.irqs: dict[str, str] = {}
        """The files below /proc/irq, by their names from there on."""
        self.unmovable: dict[str, int] = {}
        """Those that the kernel manages, and its answer."""
        self.memory: dict[int, frozenset[int]] = {}
        """The processors of the memory nodes."""
        self.free = 1 << 34
        self.nices: dict[int, int] = {}
        """The nice values of threads that have another one than 0."""
        self.sessions: dict[int, str] = {}
        """The autogroups of processes."""
        self.session_nices: dict[str, int] = {}
        self.resctrl = resctrl
        self._mounts = mounts + (resctrl.mount if resctrl else "")

    def add(self, pid: int, group: str = ROOT, *, threads: int = 1, parent: int = 1, kernel: bool = False) -> None:
        rows = {pid + i: (1000 + pid, self.cpus) for i in range(threads)}
        if self.resctrl:
            self.resctrl.start(*rows)
        self.table[pid] = Process(1000 + pid, parent, rows, kernel)
        self.all.setdefault(group, Group()).procs.add(pid)

    def state(self) -> object:
        """Everything that a plan can change."""
        groups = {name: (sorted(g.procs), g.files.get("cgroup.subtree_control", "")) for name, g in self.all.items()}
        tree = self.resctrl.state() if self.resctrl else {}
        weights = {tid: nice for tid, nice in self.nices.items() if nice}, dict(self.session_nices)
        return groups, {pid: dict(p.threads) for pid, p in self.table.items()}, dict(self.irqs), tree, weights

    def revive(self) -> None:
        """Another observer starts."""
        self.kill_at, self.dead = None, False

    def _alive(self) -> None:
        if self.dead:
            raise KilledError

    def _operation(self) -> None:
        self._alive()
        self.operations += 1
        if self.kill_at == self.operations - 1 and not self.kill_after:
            self.dead = True
        self._alive()
        if self.fail_at == self.operations - 1:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def _done(self) -> None:
        self.dead = self.kill_at == self.operations - 1
        self._alive()

    # control groups

    def read(self, file: str) -> str | None:
        if self._is_of_tree(file):
            return Path(file).read_text().strip() if os.path.isfile(file) else None
        if file.startswith(f"{self.interrupts}/"):
            return self.irqs.get(file.removeprefix(f"{self.interrupts}/"))
        folder, name = os.path.split(file)
        group = self.all.get(folder)
        if group is None:
            return None
        if name == "cgroup.procs":
            return "\n".join(map(str, sorted(group.procs)))
        if name == "cpuset.cpus.effective" and folder == ROOT:
            taken: set[int] = set()
            for g in self.all.values():
                if g.files.get("cpuset.cpus.partition") in ("root", "isolated"):
                    taken |= set(parse_list(g.files["cpuset.cpus"]))
            return as_list(self.cpus - taken)
        if name == "cpuset.mems.effective":
            return group.files.get("cpuset.mems") or as_list(self.memory or {0})
        return group.files.get(name)

    def write(self, file: str, text: str) -> None:
        self._operation()
        if self._is_of_tree(file):
            assert self.resctrl is not None
            self.resctrl.write(file, text, {tid for process in self.table.values() for tid in process.threads})
            self._done()
            return
        if file.startswith(f"{self.interrupts}/"):
            try:
                self._write_irq(file.removeprefix(f"{self.interrupts}/"), text)
            finally:
                self._done()
            return
        folder, name = os.path.split(file)
        group = self.all.get(folder)
        if group is None or (name.startswith("cpuset") and name not in group.files):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        if name == "cgroup.procs":
            pid = int(text)
            assert pid, "0 would move the observer"
            if pid not in self.table:
                raise ProcessLookupError(errno.ESRCH, "No such process")
            for other in self.all.values():
                other.procs.discard(pid)
            group.procs.add(pid)
            self._migrate(pid, group)
        elif name == "cgroup.subtree_control":
            words = set(group.files.get(name, "").split())
            words = words | {text[1:]} if text[0] == "+" else words - {text[1:]}
            group.files[name] = " ".join(sorted(words))
            for child in self.groups(folder):
                for f, value in _CPUSET.items():
                    if "cpuset" in words:
                        self.all[child].files.setdefault(f, value)
                    else:
                        self.all[child].files.pop(f, None)
        elif name == "cpuset.cpus.partition" and text == "isolated" and not self.isolated:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        elif name == "cpuset.cpus.partition" and text == "root" and self.invalid_partitions:
            group.files[name] = "root invalid (Parent is not a partition root)"
        else:
            group.files[name] = text
        self._done()

    def _is_of_tree(self, file: str) -> bool:
        return self.resctrl is not None and (file + "/").startswith(f"{self.resctrl.root}/")

    def _write_irq(self, name: str, text: str) -> None:
        if name not in self.irqs:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if name in self.unmovable:
            raise OSError(self.unmovable[name], os.strerror(self.unmovable[name]))
        if name == "default_smp_affinity":
            self.irqs[name] = f"{int(text.replace(',', ''), 16):x}"
        else:
            self.irqs[name] = as_list(parse_list(text))

    def _migrate(self, pid: int, group: Group) -> None:
        """A process that comes into a group has its pages moved to the nodes of that."""
        node = group.files.get("cpuset.mems")
        if node and self.table[pid].pages:
            self.table[pid].pages = {int(node): sum(self.table[pid].pages.values())}

    def may_write(self, file: str) -> bool:
        return True

    def make(self, folder: str) -> None:
        self._operation()
        if self._is_of_tree(folder):
            assert self.resctrl is not None
            self.resctrl.make(folder)
            self._done()
            return
        if folder in self.all:
            raise FileExistsError(errno.EEXIST, "File exists")
        self.all[folder] = Group()
        if "cpuset" in self.all[os.path.dirname(folder)].files.get("cgroup.subtree_control", "").split():
            self.all[folder].files.update(_CPUSET)
        self._done()

    def remove(self, folder: str) -> None:
        self._operation()
        if self._is_of_tree(folder):
            assert self.resctrl is not None
            self.resctrl.remove(folder)
            self._done()
            return
        if folder not in self.all:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        if self.all[folder].procs:
            raise OSError(errno.EBUSY, "Device or resource busy")
        del self.all[folder]
        self._done()

    def groups(self, folder: str) -> list[str]:
        if self._is_of_tree(folder):
            return sorted(str(path) for path in Path(folder).iterdir() if path.is_dir())
        return sorted(name for name in self.all if os.path.dirname(name) == folder)

    def mounts(self) -> str:
        return self._mounts

    def group_of(self, pid: int) -> str | None:
        found = [name for name, group in self.all.items() if pid in group.procs]
        return (found[0].removeprefix(ROOT) or "/") if found else None

    # processes

    def boot(self) -> str:
        self._alive()
        return "this-boot"

    def _thread(self, tid: int) -> tuple[Process, int] | None:
        for process in self.table.values():
            if tid in process.threads:
                return process, process.threads[tid][0]
        return None

    def birth(self, tid: int) -> int | None:
        found = self._thread(tid)
        return found[1] if found else None

    def is_kernel_thread(self, pid: int) -> bool:
        return self.table[pid].kernel

    def parent(self, pid: int) -> int | None:
        return self.table[pid].parent if pid in self.table else None

    def name(self, pid: int) -> str:
        return f"p{pid}"

    def process_of(self, tid: int) -> int | None:
        return next((pid for pid, p in self.table.items() if tid in p.threads), None)

    def threads(self, pid: int) -> list[int]:
        return sorted(self.table[pid].threads) if pid in self.table else []

    def processes(self) -> list[int]:
        return sorted(self.table)

    def affinity(self, tid: int) -> frozenset[int] | None:
        found = self._thread(tid)
        return found[0].threads[tid][1] if found else None

    def may_bind(self, pid: int) -> bool:
        return pid not in self.foreign

    def bind(self, tid: int, cpus: frozenset[int]) -> None:
        self._operation()
        found = self._thread(tid)
        if found:
            found[0].threads[tid] = (found[1], cpus)
        self._done()

    def nice(self, tid: int) -> int | None:
        return self.nices.get(tid, 0) if self._thread(tid) else None

    def renice(self, tid: int, value: int) -> None:
        self._operation()
        if self._thread(tid):
            self.nices[tid] = value
        self._done()

    def is_fair(self, tid: int) -> bool:
        return True

    def session_groups_are_on(self) -> bool:
        return bool(self.sessions)

    def session_group(self, pid: int) -> tuple[str, int] | None:
        group = self.sessions.get(pid)
        return None if group is None or pid not in self.table else (group, self.session_nices.get(group, 0))

    def renice_session(self, pid: int, value: int) -> bool:
        self._operation()
        self.session_nices[self.sessions[pid]] = value
        self._done()
        return True

    def processor_group(self, pid: int) -> str | None:
        return self.group_of(pid)

    def is_root_group(self, group: str) -> bool:
        return group == "/"

    def processor(self, tid: int) -> int | None:
        found = self._thread(tid)
        return found[0].processor if found else None

    def pages(self, pid: int) -> dict[int, int]:
        return dict(self.table[pid].pages) if pid in self.table else {}

    def nodes(self) -> dict[int, frozenset[int]]:
        return dict(self.memory)

    def free_memory(self, node: int) -> int:
        return self.free

    def online(self) -> frozenset[int]:
        return self.cpus

    def cores(self) -> list[tuple[int, ...]]:
        return [(cpu,) for cpu in sorted(self.cpus)]
