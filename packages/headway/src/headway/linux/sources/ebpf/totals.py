"""Totals: a snapshot as a ledger of everything since the beginning."""

from __future__ import annotations

from headway.model import Ledger, Processor, Thread, Window

from .causes import with_causes
from .division import divided
from .ended import EndedThreads
from .ledgers import EbpfLedgers
from .snapshots import Snapshot
from .tasks import tasks_of

__all__ = ["ThreadTotals"]


class ThreadTotals:
    """Ledgers from ``start`` on, ns of CLOCK_MONOTONIC."""

    def __init__(self, ledgers: EbpfLedgers, ended: EndedThreads, start: int) -> None:
        self._ledgers, self._ended, self._start = ledgers, ended, start

    def ledger(self, snapshot: Snapshot) -> Ledger:
        """Return everything from the beginning until the snapshot."""
        at, start = snapshot.at, self._start
        threads = self._ended.all()
        for row in snapshot.living:
            threads.append(
                Thread(
                    row.tid,
                    row.pid,
                    row.name,
                    row.birth,
                    row.birth,
                    None,
                    at,
                    at - row.birth,
                    row.cells,
                    kernel_clock=row.kernel_clock,
                    tasks=tasks_of(row),
                    durations=row.durations,
                )
            )
        threads = divided(threads)
        if snapshot.causes is not None:
            threads = with_causes(threads, snapshot.causes)
        return self._ledgers.make(
            Window(start, at),
            threads,
            divided(Processor(cpu, at - start, cells) for cpu, cells in snapshot.processors.items()),
            losses=snapshot.losses,
            events=snapshot.events,
            counted=snapshot.counted,
        )
