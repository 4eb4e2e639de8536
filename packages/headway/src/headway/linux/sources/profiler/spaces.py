"""Follow the address spaces of sampled processes: the kernel reports each change of their mappings."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence

from headway.binary.module import Module
from headway.linux.bpf.unwinding.tables import CodeTables, FrameFiles
from headway.linux.perf.thread_buffers import COMM, FORK, MMAP2
from headway.linux.procfs.maps import Mapping
from headway.linux.symbols.expected import Expected, Remembered, program_of
from headway.linux.symbols.frames import Stacks, frames_made_code
from headway.linux.symbols.java import is_java, write_perf_map
from headway.linux.symbols.modules import Modules, Space

__all__ = ["CHANGES", "Spaces"]

CHANGES = (COMM, FORK, MMAP2)
"""The records that tell of changes (perf_event_open(2))."""

_MMAP2_HEAD = struct.Struct("=IIQQQIIQQII")
_MISC_EXEC = 1 << 13  # PERF_RECORD_MISC_COMM_EXEC
_PROT_EXEC = 4
_FORMER = 16
"""So many former spaces of a process are known."""


class Spaces:
    """The address spaces of processes, and the stacks with addresses in them; `close` closes the mapped files."""

    def __init__(self) -> None:
        self._modules = Modules()
        self.stacks = Stacks(self._modules)
        self._spaces: dict[int, Space] = {}
        self._former: dict[int, list[tuple[int, Space]]] = {}
        self._changed: set[int] = set()
        self.files = FrameFiles()
        """The tables of the files that are mapped."""
        self._expected: list[tuple[Module, Mapping, Module | None]] = []
        self._program = ""
        self._mapped: dict[str, None] = {}
        self._remembered = Remembered(self.files.kept)
        self.tables: CodeTables | None = None
        """The programs that walk stacks are told of each change; None: none do."""

    def of(self, pid: int) -> Space:
        """Return what a process has mapped; one that is new is asked."""
        if pid not in self._spaces:
            self._know(pid, self._modules.space(pid))
            self.publish()
        return self._spaces[pid]

    def known(self, pid: int) -> Space | None:
        """Return what a process had mapped at last; None: it was never asked."""
        return self._spaces.get(pid)

    def then(self, pid: int, moment: int) -> Space:
        """Return what a process had mapped at a moment, ns: before it executed another program, that of the former."""
        former = self._former.get(pid)
        for until, space in former or ():
            if moment < until:
                return space
        return self.of(pid)

    def prepare(self, pids: Iterable[int]) -> None:
        """Make the tables of what these processes have mapped, before they are measured."""
        for pid in pids:
            space = self._modules.space(pid)
            self.files.prepare(module for _, module in space.code())

    def expect(self, pid: int, argv: Sequence[str]) -> None:
        """Make the tables of what a command will map, before it is executed. ``pid``: the process that will do that."""
        environment = dict(os.environ)
        try:
            folder = os.getcwd()
        except OSError:
            return
        program = program_of(argv[0], environment, folder)
        if not program:
            return
        expected = Expected(environment, folder=folder)
        expected.add_command(argv)
        self._program = os.path.realpath(program)
        for path in self._remembered.read(self._program):
            expected.add_file(path)
        found = {
            path: opened
            for path, file in expected.files.items()
            if (opened := self._modules.expected(pid, path, file.inode)) is not None
        }
        loaders = {
            path: found[file.interpreter][0]
            for path, file in expected.files.items()
            if path in found and file.interpreter in found
        }
        ordered = sorted(found, key=loaders.__contains__)  # a loader comes before what it loads
        self._expected = [(*found[path], loaders.get(path)) for path in ordered]
        self.files.prepare(module for module, _, _ in self._expected)

    def remember(self) -> None:
        """Keep the names of what the command has mapped, for the next time."""
        if self._program and self._mapped:
            self._remembered.write(self._program, [*reversed(self._mapped)])

    def begin(self, pids: Iterable[int]) -> None:
        """Tell the programs what these processes have mapped, and what the command will."""
        if self.tables is not None:
            self.tables.expect(self._expected)
            self._expected = []
        for pid in pids:
            space, known = self._modules.space(pid), self._spaces.get(pid)
            if known is None or [one for one, _ in known.code()] != [one for one, _ in space.code()]:
                self._know(pid, space)
        self.publish()

    def change(self, kind: int, misc: int, body: bytes, moment: int = 0) -> None:
        """Follow a record of the kernel's of one of the `CHANGES`. ``moment``: when that was, ns."""
        if kind == MMAP2 and len(body) >= _MMAP2_HEAD.size:
            self._map(body, moment)
        elif kind == COMM and misc & _MISC_EXEC:
            pid = struct.unpack_from("=I", body)[0]
            if pid in self._spaces:
                self._replace(pid, Space(pid, self._modules), moment)
                if self.tables is not None:
                    self.tables.forget(pid)
        elif kind == FORK:
            pid, parent = struct.unpack_from("=II", body)
            if pid != parent and parent in self._spaces:
                self._know(pid, self._spaces[parent].copy(pid))

    def publish(self) -> None:
        """Tell the programs what has changed."""
        for pid in self._changed if self.tables is not None else ():
            space = self._spaces[pid]
            if space.is_empty:
                continue
            self._modules.add_vdso(space)
            assert self.tables is not None
            self.tables.know(pid, space.code(), made_is_framed=frames_made_code(space))
        self._changed.clear()

    def write_java_maps(self) -> list[str]:
        """Have the Java processes that live write their perf maps. Return why some have not."""
        java = [pid for pid, space in self._spaces.items() if is_java(space)]
        return [why for pid in java if (why := write_perf_map(pid))]

    def close(self) -> None:
        """Close all files."""
        self._modules.close()

    def _know(self, pid: int, space: Space) -> None:
        self._spaces[pid] = space
        self._changed.add(pid)
        self.stacks.know(pid)

    def _replace(self, pid: int, space: Space, moment: int) -> None:
        """Note that a process has another space from a moment on."""
        former = self._former.setdefault(pid, [])
        former.append((moment, self._spaces[pid]))
        del former[:-_FORMER]
        self._know(pid, space)

    def _map(self, body: bytes, moment: int) -> None:
        pid, _, start, length, offset, _, _, inode, _, protection, _ = _MMAP2_HEAD.unpack_from(body)
        if pid not in self._spaces or not protection & _PROT_EXEC:
            return
        path = os.fsdecode(body[_MMAP2_HEAD.size : -16].partition(b"\0")[0])
        mapping = Mapping(start, start + length, "r-xp", offset, inode, path, False)
        if inode:
            self._mapped[path] = None
        space = self._spaces[pid]
        if space.replaces(mapping):  # what was known of addresses there was of something else
            self._replace(pid, space.copy(pid), moment)
            space = self._spaces[pid]
        space.add(mapping)
        self._changed.add(pid)
