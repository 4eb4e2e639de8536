"""Load and run the programs that read the kernel's clocks of threads (clocks.bpf.c)."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import islice

from headway.errors import HeadwayError
from headway.files import packaged
from headway.linux.options import Selection
from headway.linux.procfs.cgroup_folders import cgroup2_id
from headway.linux.procfs.ids import pid_namespace
from headway.linux.structures import Structures

from ..programs.kernel_types import types_of_kernel
from ..programs.libbpf import Library, Object, RingReader
from ..programs.selected import Selected
from ._clock_accounts import ClockAccounts
from ._clock_layout import STRUCTURES

__all__ = ["RING_BYTES", "ClockPrograms"]

RING_BYTES = 1 << 22
"""Of the ring by which the ends of threads come: room for about 20,000 between two looks."""
MORE_PROCESSES = 1 << 10
"""So many descendants may be found while the programs are loaded."""
_LONGEST_NAME = 15
_NOT_BEGUN = (1 << 64) - 1

_LAYOUT = Structures(STRUCTURES)


class ClockPrograms:
    """The programs, loaded; `attach` has them work, `end` detaches them again, and `close` unloads them.

    ``more_threads``: so many threads may be selected later, beside those of the selection. Raises HeadwayError where
    the kernel refuses the programs; then nothing is left loaded.
    """

    def __init__(self, selection: Selection, *, more_threads: int = 0) -> None:
        with ExitStack() as stack:
            self._library = Library()
            self._object = programs = Object(self._library, _image(), types_of_kernel())
            stack.callback(programs.close)
            programs.map(".rodata.settings").set_initial(_settings(selection))
            programs.map("clock_events").max_entries = RING_BYTES
            programs.map("selected_pids").max_entries = 2 * len(selection.pids) + MORE_PROCESSES
            programs.map("selected_tids").max_entries = 2 * len(selection.tids) + more_threads + 1
            programs.load()
            self._control = programs.map(".bss").map_memory()
            self._selected = Selected(programs.map("selected_tids"))
            self._running: ExitStack | None = None
            stack.callback(self.end)
            self._resources = stack.pop_all()

    def attach(self, accounts: ClockAccounts, pids: Iterable[int] = (), tids: Iterable[int] = ()) -> None:
        """Attach the programs. What looks find goes into ``accounts``; `begin` is the first.

        ``pids``, ``tids``: the processes and threads that are measured. Raises HeadwayError; then nothing is attached.
        """
        programs = self._object
        with ExitStack() as stack:
            self._accounts = accounts
            self._set("start", _NOT_BEGUN)
            self._set("offset_known", 0)
            chosen = programs.map("selected_pids")
            for pid in islice(pids, chosen.max_entries):
                chosen.put(pid)
            self._selected.replace(tids)
            self._ring = RingReader(self._library, programs.map("clock_events"), accounts.function, accounts.context)
            stack.callback(self._ring.close)
            stack.callback(programs.detach)
            for program in programs.programs.values():
                if program.section.startswith("tp_btf/"):
                    programs.attach(program)
            self._looks = programs.programs["read_clocks"].iterator()
            stack.callback(self._looks.close)
            self._running = stack.pop_all()

    def begin(self) -> int:
        """Look for the first time, and return when that was: threads that are created later are measured from birth."""
        at = self.look()
        self._set("start", at)
        return at

    def end(self) -> None:
        """Detach the programs; may be called again."""
        running, self._running = self._running, None
        if running is not None:
            running.close()

    def fileno(self) -> int:
        """Return a descriptor that is readable when many threads have ended since the last look."""
        return self._ring.fileno()

    def measure_command(self, pid: int) -> None:
        """Measure a suspended child, from the moment it executes its program."""
        self._set("command", pid)

    def look(self) -> int:
        """Read the clocks of all threads that are measured, and return the moment, ns of CLOCK_MONOTONIC.

        Raises HeadwayError where the kernel has no memory for it.
        """
        os.sched_yield()  # the run queue's clock of this thread is set: the programs learn from it how clocks differ
        with self._looks.running() as fd:
            try:
                self._accounts.read(fd)
            except OSError as error:
                raise HeadwayError(f"the clocks of threads cannot be read: {os.strerror(error.errno or 0)}") from None
        self._ring.consume()
        at = self._get("at")
        self._accounts.take(at)
        return at

    def consume(self) -> None:
        """Take over what the ring has: it waits for the next look."""
        self._ring.consume()

    @property
    def is_up_to_date(self) -> bool:
        """Whether the clocks of a thread that runs are those of the moment of the look, and not of the last tick."""
        return bool(self._get("offset_known"))

    def losses(self) -> dict[str, int]:
        """Return what could not be seen since the programs were attached, by name."""
        return {
            "exits_lost": self._get("lost"),
            "threads_without_kernel_memory": self._get("unmeasured"),
            "handlers_skipped": sum(program.misses() for program in self._object.programs.values()),
            "unseen_ends": self._accounts.unseen_ends,
        }

    @property
    def tells_of_misses(self) -> bool:
        """Whether this thread may ask the kernel about the programs, as it must for each look."""
        return self._object.programs["note_exit"].tells_of_misses

    def run_time(self) -> int:
        """Return the time in the programs, ns, while the kernel kept statistics."""
        return sum(program.run_time()[0] for program in self._object.programs.values())

    def close(self) -> None:
        """Detach and unload everything; may be called again."""
        self._resources.close()

    def _get(self, name: str) -> int:
        offset, code = _LAYOUT.fields_of("clock_control")[name]
        return int(struct.unpack_from(f"={code}", self._control, offset)[0])

    def _set(self, name: str, value: int) -> None:
        offset, code = _LAYOUT.fields_of("clock_control")[name]
        struct.pack_into(f"={code}", self._control, offset, value)


def _image() -> bytes:
    try:
        return packaged("headway.linux.bpf", "clocks.bpf.o")
    except OSError as error:
        raise HeadwayError(f"headway's eBPF object is missing ({error}): reinstall headway") from None


def _settings(selection: Selection) -> bytes:
    """Return struct clock_settings."""
    name = os.fsencode(selection.name or "")
    group, level = cgroup2_id(selection.cgroup) if selection.cgroup else (0, 0)
    plain = name.removesuffix(b"*")[:_LONGEST_NAME]
    return _LAYOUT.pack(
        "clock_settings",
        {
            "cgroup": group,
            "cgroup_level": level,
            "namespace_inum": pid_namespace(),
            "everything": selection.everything,
            "follow": selection.follow,
            "name_length": len(plain),
            "name_prefix": name.endswith(b"*"),
            "name": list(plain),
        },
    )
