"""Transitions: hand over every change of state while measuring goes on."""

from __future__ import annotations

from headway.linux.bpf.rings.row_stacks import RowStacks
from headway.linux.bpf.rings.transitions import Priority, TransitionReader
from headway.linux.procfs import processors
from headway.model import Batch

from .ended import EndedThreads
from .options import SourceOptions
from .programs import LoadedPrograms
from .targets import measured_cpus

__all__ = ["TransitionFeed"]

_RINGS = ("spans", "absences", "tails")


class TransitionFeed:
    """The transitions since ``start``, ns of CLOCK_MONOTONIC.

    The thread that makes it goes before others on the processors, where it may, until `close`: the rings must be read
    before they are full.
    """

    def __init__(
        self,
        programs: LoadedPrograms,
        options: SourceOptions,
        ended: EndedThreads,
        start: int,
        stacks: RowStacks | None = None,
    ) -> None:
        spans, absences, tails = (programs.object.map(name).map_memory() for name in _RINGS)
        self._reader = TransitionReader(
            (spans, absences, tails),
            programs.memory,
            ended.exits,
            words=options.ring_words,
            max_thread_records=options.max_thread_records,
            n_cpus=processors.possible(),
            cpus=lambda: measured_cpus(options.selection),
            start=start,
            consume=ended.consume,
            stacks=stacks,
        )
        self._finished = False
        self._rest: list[Batch] = []
        self._priority = Priority()

    def __len__(self) -> int:
        """Return how many rows `take` would return."""
        return len(self._reader)

    @property
    def fullest(self) -> float:
        """How full a ring was at most when it was read, 0 to 1."""
        return self._reader.fullest

    def look(self) -> float:
        """Read the rings if it is time to. Return the seconds after which it is again."""
        return self._reader.look()

    def take(self) -> Batch:
        """Return the transitions since the last call; after `finish`, once, the rest. Raises ValueError after that."""
        if not self._finished:
            return self._reader.take()
        if not self._rest:
            raise ValueError("no transitions are recorded, or all have been taken")
        return self._rest.pop()

    def finish(self, at: int) -> None:
        """Read the rest, until the last snapshot, which is at ``at``; the programs are detached and at rest."""
        self._rest.append(self._reader.finish(at))
        self._finished = True

    def losses(self) -> dict[str, int]:
        """Return what of the transitions could not be written, or not be read."""
        return self._reader.losses()

    def close(self) -> None:
        """Give the priority back."""
        self._priority.give_back()
