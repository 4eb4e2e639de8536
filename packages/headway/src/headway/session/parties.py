"""The parties of a balance: processes with what they have started, the threads of one process, or control groups.

Each kind knows what is to be measured, whose each thread is, and by which lever a party's weight is set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.linux.options import Selection
from headway.linux.placement.controls import Controls
from headway.linux.placement.levers import GroupLever, Lever, ThreadLever, check_may_return, process_levers
from headway.linux.procfs.mounts import mounts
from headway.model import Ledger, Thread

__all__ = ["Groups", "Parties", "Party", "Processes", "Threads"]


@dataclass(frozen=True, slots=True)
class Party:
    """Whose progress is balanced with that of others. One of ``pid``, ``tid`` and ``cgroup`` is not None."""

    name: str
    pid: int | None = None
    tid: int | None = None
    cgroup: str | None = None

    def is_called(self, name: str) -> bool:
        """Return whether a user means it by this name: its name, its id, its path or the last part of that."""
        return name in (self.name, str(self.pid or self.tid), self.cgroup or self.name)


class Parties(Protocol):
    """One kind of parties."""

    selection: Selection
    needs_cgroups: bool

    def levers(self) -> Mapping[Party, Lever]:
        """Return the parties that are there now, each with what sets its weight."""

    def divided(self, ledger: Ledger) -> tuple[dict[Party, list[Thread]], list[Thread]]:
        """Return the threads of each party in an interval; and those of which it is not known whose they are.

        Their processes ended before that could be read.
        """


class Processes:
    """Each of these processes, with those that it has started, is a party."""

    needs_cgroups = False

    def __init__(self, controls: Controls, pids: Sequence[int]) -> None:
        """Raises HeadwayError where their weights cannot be set."""
        self._controls = controls
        self.selection = Selection(pids=tuple(pids), descendants=True)
        levers = process_levers(controls, pids)
        self._parties = {pid: Party(controls.name(pid) or str(pid), pid=pid) for pid in pids}
        self._levers = {self._parties[pid]: lever for pid, lever in levers.items()}
        self._of: dict[int, Party] = dict(self._parties)

    def levers(self) -> Mapping[Party, Lever]:
        """Return the parties and their levers."""
        return self._levers

    def divided(self, ledger: Ledger) -> tuple[dict[Party, list[Thread]], list[Thread]]:
        """Return the threads of each party, and those of which that is not known."""
        found: dict[Party, list[Thread]] = {}
        unplaced = []
        for thread in ledger.threads:
            party = self._party_of(thread.pid)
            if party is not None:
                found.setdefault(party, []).append(thread)
            else:  # only what descends from a party is measured
                unplaced.append(thread)
        return found, unplaced

    def _party_of(self, pid: int) -> Party | None:
        """Return the party of a process: the nearest one above it. It is kept, as parents end before their children."""
        above = [pid]
        while (party := self._of.get(above[-1])) is None:
            parent = self._controls.parent(above[-1])
            if parent is None or parent <= 1 or parent in above:
                return None
            above.append(parent)
        self._of |= dict.fromkeys(above, party)
        return party


class Threads:
    """Each thread of one process is a party."""

    needs_cgroups = False

    def __init__(self, controls: Controls, pid: int) -> None:
        """Raises HeadwayError where their weights cannot be set."""
        self._controls, self._pid = controls, pid
        self.selection = Selection(pids=(pid,))
        process_levers(controls, [pid])  # whether it can be done
        try:
            self._process = ThreadLever.of_process(controls, pid)
        except ProcessLookupError:
            raise HeadwayError(f"there is no process {pid}") from None
        check_may_return([self._process.record])
        self._levers: dict[Party, Lever] = {}
        for tid in controls.threads(pid):
            self._add(Party(controls.name(tid) or str(tid), tid=tid))

    def _add(self, party: Party) -> None:
        assert party.tid is not None
        self._levers[party] = ThreadLever(self._process, self._controls, party.tid)

    def levers(self) -> Mapping[Party, Lever]:
        """Return the parties and their levers."""
        return self._levers

    def divided(self, ledger: Ledger) -> tuple[dict[Party, list[Thread]], list[Thread]]:
        """Return the threads, each by itself. Those that have ended are no parties any more."""
        known = {party.tid: party for party in self._levers}
        found: dict[Party, list[Thread]] = {}
        for thread in ledger.threads:
            if thread.pid != self._pid:  # of a process that it has started
                continue
            party = known.get(thread.tid) or Party(thread.name, tid=thread.tid)
            if thread.end is not None:
                self._levers.pop(party, None)
                continue
            if party not in self._levers:
                self._add(party)
            found[party] = [thread]
        return found, []


class Groups:
    """Each of these control groups, with the groups below it, is a party."""

    needs_cgroups = True

    def __init__(self, controls: Controls, paths: Sequence[str]) -> None:
        """Raises HeadwayError where they have no weights that can be set, or one is in another."""
        self.selection = Selection(everything=True)  # a source measures one group at most
        roots = [mount.point for mount in mounts() if mount.kind == "cgroup2"]
        levers = [GroupLever(controls, path) for path in paths]
        self._levers: dict[Party, Lever] = {}
        for lever in levers:
            for other in levers:
                if other is not lever and f"{other.group}/".startswith(f"{lever.group}/"):
                    raise HeadwayError(f"{other.group} is in {lever.group}, or given twice: nothing is to be balanced")
            root = next((root for root in roots if f"{lever.group}/".startswith(f"{root}/")), "")
            path = lever.group.removeprefix(root)
            self._levers[Party(path.rpartition("/")[2], cgroup=path)] = lever
        parents = {lever.group.rpartition("/")[0] for lever in levers}
        if len(parents) > 1:
            raise HeadwayError(
                f"a weight counts between the groups of one group, and these are in several ({', '.join(parents)})"
            )

    def levers(self) -> Mapping[Party, Lever]:
        """Return the parties and their levers."""
        return self._levers

    def divided(self, ledger: Ledger) -> tuple[dict[Party, list[Thread]], list[Thread]]:
        """Return the threads of each party, and those whose groups are not known."""
        found: dict[Party, list[Thread]] = {}
        unplaced = [thread for thread in ledger.threads if thread.cgroup is None]
        for thread in ledger.threads:
            for party in self._within(f"{thread.cgroup}/"):
                found.setdefault(party, []).append(thread)
        return found, unplaced

    def _within(self, path: str) -> Iterator[Party]:
        return (party for party in self._levers if path.startswith(f"{party.cgroup}/"))
