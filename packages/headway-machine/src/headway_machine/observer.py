"""What a page shows of a run beside its result: progress over time, and each cycle of a window of it.

The run is looked at while it goes on, between two instructions, and does the same in every cycle as one that is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headway.errors import HeadwayError

from .debugging import DebugSession
from .pipeline import Window, window_of
from .series import Series, Steps

if TYPE_CHECKING:
    from .run import Run

__all__ = ["WINDOW", "Observer"]

WINDOW = 600
"""Cycles of the window."""
_FIRST_WINDOW = 2_000


class Observer:
    """Looks at a run from time to time. Give it to `headway_machine.machine.Machine.run`, and ask it afterwards.

    ``first`` is the tick at which the window begins. Without it a window is taken at 2,000 ticks and whenever the run
    has become twice as long, and the last one is kept in which an instruction was issued. It is of the core of which
    most harts run when it begins.
    """

    def __init__(self, first: int | None = None) -> None:
        self._series = Series()
        self._first = first
        self._at: int | None = _FIRST_WINDOW if first is None else first
        self._looking = False
        self.window: Window | None = None
        """What the harts of a core did in each cycle of a window; None: the run ended before it."""
        self.names: Mapping[int, str] = {}
        """For each address in the window, the function and the distance from its beginning."""
        self.steps: Steps | None = None
        """Progress over time; None: the run has not ended."""

    def begin(self, run: Run) -> None:
        """Take the run, which is at reset."""
        self._series.begin(run.names)

    @property
    def next(self) -> int:
        """The tick at which it wants to look next."""
        if self._at is None or self._looking:
            return self._series.next
        return min(self._series.next, self._at)

    def look(self, run: Run) -> None:
        """Look at the run, which is at the tick ``next``. The run goes on a little where a window begins."""
        if run.processor.now == self._series.next:
            self._series.take(run.processor.threads(), run.processor.processors())
        if run.processor.now == self._at and not self._looking:
            self._look_closely(run)

    def _look_closely(self, run: Run) -> None:
        self._looking = True
        try:
            session = DebugSession(run)
            found = window_of(session, core=_busiest(session), first=run.processor.now, cycles=WINDOW)
        except HeadwayError:
            found = None  # the program ended meanwhile
        finally:
            self._looking = False
        if found is not None and found.end > found.first and (found.issued or self.window is None):
            self.window = found
            self.names = {one.address: session.name(one.address) for one in found.issued}
        later = max(2 * (self._at or 0), run.processor.now + 1)
        self._at = None if self._first is not None else later

    def end(self, run: Run) -> None:
        """Take the run as it is at its end."""
        processor = run.processor
        self.steps = self._series.steps(processor.now, processor.threads(), processor.processors())


def _busiest(session: DebugSession) -> int:
    """Return the core of which most harts run now."""
    running = [not session.idle_state(hart) for hart in range(session.harts)]
    threads = session.threads
    cores = range(session.harts // threads)
    return max(cores, key=lambda core: (sum(running[core * threads : (core + 1) * threads]), -core))
