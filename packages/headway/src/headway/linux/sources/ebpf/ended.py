"""Keep the totals of threads that have ended, as the eBPF programs send them, for later ledgers."""

from __future__ import annotations

import time
from collections.abc import Callable

from headway.linux.bpf.programs.libbpf import RingReader
from headway.linux.bpf.threads._exits import Exits
from headway.model import Thread

from ..ended_rows import EndedRows
from .division import divided
from .programs import LoadedPrograms
from .tasks import tasks_of

__all__ = ["EndedThreads"]

MAX_EXIT_SECONDS = 1.0
"""Within so long the threads of an ended process have left their processors, unless a hypervisor holds those."""
MAX_WAITING = 1 << 13
"""Records of ended threads that may wait for a reading where none comes before the end."""


class EndedThreads:
    """The threads that have ended since the beginning; `close` frees the ring that they come by.

    ``forget``: they are kept only until `take_new` has returned them. ``intervals``: `take_new` will be called. If not,
    records are taken over as soon as there are many, so that a measurement of any length needs room for so many only.

    ``most``: so many are listed one by one. Later ones are added up by process and name, so many of these too, and
    then in one row.
    """

    def __init__(self, programs: LoadedPrograms, *, forget: bool, intervals: bool, most: int) -> None:
        self._memory = programs.memory
        self._forgets, self._intervals = forget, intervals
        self.exits = Exits()
        """The records that have come, those that are not taken yet among them."""
        if self._memory.durations is not None:
            self.exits.keep_durations(self._memory.durations)
        self._ring = RingReader(programs.library, programs.object.map("exits"), self.exits.function, self.exits.context)
        self._most = most
        self._rows = EndedRows(most)
        self._new: list[Thread] = []
        self._taken = 0
        self.told: Callable[[Thread], None] | None = None
        """Called with each thread that has ended; None: nobody wants to know."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when many threads have ended."""
        return self._ring.fileno()

    def consume(self) -> None:
        """Take over what the programs have sent."""
        self._ring.consume()
        if not self._intervals and self.exits.count - self._taken > MAX_WAITING:
            self.take(self._memory.now())

    def release(self) -> None:
        """Give back what the programs kept of ended threads until it was taken over. No reading may be under way."""
        if self._memory.durations is not None:
            self._memory.durations.release()

    def wait_for_exit(self, pid: int, seconds: float = MAX_EXIT_SECONDS) -> bool:
        """Wait until the threads of a process that has ended have left their processors: they do a little later.

        Return whether they have. One that others keep from its processor can take longer than these ``seconds``.
        """
        deadline = time.monotonic() + seconds
        while self._memory.is_measured(pid):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.0002)
        return True

    def take(self, at: int) -> None:
        """Add the threads that had ended by the snapshot at this moment."""
        rows = self.exits.take(at, self._memory)
        self._taken += len(rows)
        for row in rows:
            birth, end = row.birth, row.end
            thread = Thread(
                row.tid,
                row.pid,
                row.name,
                birth,
                birth,
                end,
                end,
                end - birth,
                row.cells,
                kernel_clock=row.kernel_clock,
                tasks=tasks_of(row),
                durations=row.durations,
            )
            if self.told is not None:
                self.told(thread)
            if self._intervals:
                self._new.append(thread)
            if self._forgets:
                continue
            if self._rows.is_full:
                (thread,) = divided((thread,))
            self._rows.add(thread)

    def discard(self, at: int) -> None:
        """Leave out the threads that had ended by this moment."""
        self.consume()
        self._taken += len(self.exits.take(at, self._memory))

    def forget(self, at: int) -> None:
        """Forget the threads that had ended by this moment, also those that were taken."""
        self.discard(at)
        self._rows, self._new = EndedRows(self._most), []

    def all(self) -> list[Thread]:
        """Return those that ended since the beginning, with all that they did."""
        return self._rows.all()

    @property
    def added_up(self) -> int:
        """How many are not listed one by one."""
        return self._rows.added_up

    def take_new(self) -> list[Thread]:
        """Return those that ended since the last call, with all that they did since they were born."""
        new, self._new = self._new, []
        return new

    def close(self) -> None:
        """Free the ring; may be called again."""
        self._ring.close()
