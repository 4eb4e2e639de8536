"""A division of the shared cache and of the memory bandwidth, by a group of resctrl: the plan for it and its changes.

Where the neighbours that use much memory are known, they go into the group: it may fill half of the ways and have half
of the bandwidth, so the rest is for the others. Where they are not known, the process goes into the group with half of
the ways, and the default group keeps the other half. A plan has one such group. Removing it gives its tasks back to the
default group.
"""

from __future__ import annotations

from collections.abc import Sequence

from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.linux.procfs.mounts import parse_mounts

from .changes import PREFIX, Change, MakeGroup
from .controls import Controls
from .refused import Refused
from .resctrl import Limits, Tree, as_schemata, divide, limited, parse_schemata, read_tree

__all__ = ["Assign", "Exclusive", "Schemata", "division"]

_ROUNDS = 100
"""How often the threads of a process are assigned while it creates new ones."""


def division(
    controls: Controls, name: str, pids: Sequence[int], neighbours: Sequence[int]
) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Return the changes that divide cache and bandwidth for processes, and what the user should know before.

    ``name``: of the group, without the prefix; ``neighbours``: the processes that use much memory beside them. Raises
    Refused.
    """
    mounted = next((mount for mount in parse_mounts(controls.mounts()) if mount.kind == "resctrl"), None)
    if mounted is None:
        raise Refused("resctrl is not mounted (sudo mount -t resctrl resctrl /sys/fs/resctrl, if the processor has it)")
    root = mounted.point
    tree = read_tree(controls, root, megabytes="mba_MBps" in mounted.options)
    if not controls.may_write(f"{root}/schemata"):
        raise Refused(f"only root may change {root} (sudo headway advise --apply ...)")
    if len(tree.others) + 1 >= tree.groups:
        raise Refused(f"all {tree.groups} groups that {root} can have are in use")
    free = frozenset((controls.read(f"{root}/tasks") or "").split())

    def in_default(process: int) -> bool:
        return all(str(tid) in free for tid in controls.threads(process))

    for pid in pids:
        if not in_default(pid):
            raise Refused(f"process {pid} is in a group of {root} already")
    group = f"{root}/{PREFIX}{name}"
    noisy = [other for other in neighbours if in_default(other)]
    if noisy:
        return _confined(controls, tree, group, noisy)
    return _kept(controls, tree, group, pids)


def _confined(
    controls: Controls, tree: Tree, group: str, noisy: Sequence[int]
) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Put the neighbours into a group with half of the ways and of the bandwidth."""
    lines: dict[str, dict[int, int]] = {}
    if tree.cache is not None:
        lines |= _halves(tree)[1]
    if tree.gran is not None:
        now = tree.default["MB"]
        limits = {domain: limited(value, tree.gran, tree.least) for domain, value in now.items()}
        if any(limits.values()):
            lines["MB"] = {domain: limits[domain] or value for domain, value in now.items()}
    if not lines:
        raise Refused("the memory bandwidth cannot be limited further")
    assigned = [one for pid in noisy if (one := _assign(controls, pid, group)) is not None]
    if not assigned:
        raise Refused("the neighbours that use much memory have ended")
    changes: list[Change] = [MakeGroup(group), Schemata(group, tree.root, "", as_schemata(lines)), *assigned]
    return tuple(changes), ()


def _kept(
    controls: Controls, tree: Tree, group: str, pids: Sequence[int]
) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Put the processes into a group with half of the ways, and leave the others the rest."""
    if tree.cache is None:
        raise Refused("only the bandwidth can be limited, and nobody else is known: measure the others too (-a)")
    own, rest = _halves(tree)
    assigned = [one for pid in pids if (one := _assign(controls, pid, group)) is not None]
    if not assigned:
        raise Refused("it has ended")
    before = "\n".join(
        line.strip() for line in tree.text.splitlines() if line.strip().partition(":")[0] in tree.cache.names
    )
    changes: list[Change] = [
        MakeGroup(group),
        Schemata(group, tree.root, "", as_schemata(own)),
        *assigned,
        Schemata(tree.root, tree.root, before, as_schemata(rest)),
    ]
    users = [other for other, limits in tree.others.items() if _overlap(own, limits)]
    if users:
        return tuple(changes), (f"{', '.join(users)} may still fill some of these ways",)
    only_cache = set(tree.default) <= {*tree.cache.names, "MB"}  # else the kernel wants every cache to be apart
    shared = any(mask & tree.cache.shared for domains in own.values() for mask in domains.values())
    if only_cache and not shared:
        changes.append(Exclusive(group))
    return tuple(changes), ()


def _halves(tree: Tree) -> tuple[dict[str, dict[int, int]], dict[str, dict[int, int]]]:
    assert tree.cache is not None
    own: dict[str, dict[int, int]] = {}
    rest: dict[str, dict[int, int]] = {}
    for name in tree.cache.names:
        for domain, mask in tree.default[name].items():
            halves = divide(mask & tree.cache.full, tree.cache.least, tree.cache.shared)
            if halves is None:
                least = f"{tree.cache.least} way" + ("s" if tree.cache.least > 1 else "")
                raise Refused(f"the ways of {name} in domain {domain} ({mask:x}) cannot be divided in two of {least}")
            own.setdefault(name, {})[domain], rest.setdefault(name, {})[domain] = halves
    return own, rest


def _overlap(one: Limits, other: Limits) -> bool:
    return any(mask & other[name].get(domain, 0) for name in one if name in other for domain, mask in one[name].items())


def _assign(controls: Controls, pid: int, group: str) -> Assign | None:
    birth = controls.birth(pid)
    return None if birth is None else Assign(pid, birth, controls.name(pid)[:64], group)


@dataclass(frozen=True, slots=True)
class Schemata:
    """Say which ways of a cache the tasks of a group may fill, and how much memory bandwidth they have."""

    group: str
    root: str
    before: str
    """What its lines were. Empty: the group is new, and goes."""
    after: str

    def words(self) -> str:
        """Return what is written where."""
        return f"write {' and '.join(self.after.splitlines())} to {self.group}/schemata"

    def back(self) -> str:
        """Return how it is taken back."""
        if not self.before:
            return "it goes with the group"
        return f"write {' and '.join(self.before.splitlines())} to it, unless somebody else has changed it by then"

    def do(self, controls: Controls) -> list[str]:
        """Make the change."""
        _write(controls, self.root, f"{self.group}/schemata", f"{self.after}\n")
        if self._state(controls) != "after":
            raise HeadwayError(f"{self.group}/schemata does not hold what was written")
        return []

    def undo(self, controls: Controls) -> list[str]:
        """Take the change back."""
        if not self.before or self._state(controls) in ("before", "none"):
            return []
        if self._state(controls) == "other":
            return [f"{self.group}/schemata was changed since, and stays so"]
        _write(controls, self.root, f"{self.group}/schemata", f"{self.before}\n")
        return []

    def _state(self, controls: Controls) -> str:
        """Return which of the two texts the file agrees with, ``other``, or ``none``: it has gone."""
        text = controls.read(f"{self.group}/schemata")
        if text is None:
            return "none"
        try:
            now = parse_schemata(text)
        except ValueError as error:
            raise HeadwayError(f"{self.group}/schemata cannot be used: {error}") from None
        for name in ("after", "before"):
            wanted = parse_schemata(getattr(self, name))
            if wanted and all(now.get(resource) == limits for resource, limits in wanted.items()):
                return name
        return "other"


@dataclass(frozen=True, slots=True)
class Assign:
    """Put the threads of a process into a group of resctrl."""

    pid: int
    birth: int
    name: str
    group: str

    def words(self) -> str:
        """Return what is written where."""
        return f"write every thread of process {self.pid} ({self.name}) to {self.group}/tasks"

    def back(self) -> str:
        """Return how it is taken back."""
        return "they go back to the default group when this one is removed"

    def do(self, controls: Controls) -> list[str]:
        """Make the change."""
        if controls.birth(self.pid) != self.birth:
            raise HeadwayError(f"process {self.pid} has ended")
        file = f"{self.group}/tasks"
        for _ in range(_ROUNDS):
            there = frozenset((controls.read(file) or "").split())
            left = [str(tid) for tid in controls.threads(self.pid) if str(tid) not in there]
            if not left:
                break
            for tid in left:
                try:
                    controls.write(file, tid)
                except ProcessLookupError:
                    continue  # it has ended in the meantime
        return []

    def undo(self, controls: Controls) -> list[str]:
        """Take the change back: the kernel does, when the group is removed next."""
        return []


@dataclass(frozen=True, slots=True)
class Exclusive:
    """Keep other groups of resctrl from being given the ways of a group."""

    group: str

    @property
    def _file(self) -> str:
        return f"{self.group}/mode"

    def words(self) -> str:
        """Return what is written where."""
        return f"write exclusive to {self._file}"

    def back(self) -> str:
        """Return how it is taken back."""
        return f"write shareable to {self._file}"

    def do(self, controls: Controls) -> list[str]:
        """Make the change."""
        _write(controls, self.group.rpartition("/")[0], self._file, "exclusive\n")
        return []

    def undo(self, controls: Controls) -> list[str]:
        """Take the change back."""
        if controls.read(self._file) == "exclusive":
            controls.write(self._file, "shareable\n")
        return []


def _write(controls: Controls, root: str, file: str, text: str) -> None:
    """Write a file of the tree. Raises HeadwayError with the kernel's own words, where it has some."""
    try:
        controls.write(file, text)
    except OSError as error:
        said = controls.read(f"{root}/info/last_cmd_status") or ""
        why = f"{error.strerror}; the kernel says: {said[:120]}" if said not in ("", "ok") else error.strerror
        raise HeadwayError(f"{file} cannot be written ({why})") from None
