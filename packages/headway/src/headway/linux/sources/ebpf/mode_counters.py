"""What tells user code from the kernel where no handler divides processor time: cycles by mode, and samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.linux.levels import Level
from headway.linux.options import MeasureOptions
from headway.linux.perf.counters import CounterPlan

if TYPE_CHECKING:
    from headway.linux.bpf.reading.memory import BpfMaps

__all__ = ["ModeCounters"]

_BY_MODE = (
    "user code and the kernel are told apart by the cycles in user mode and in kernel mode (exact in cycles, and in "
    "time as far as the clock rate was the same in both), and what the kernel did by samples"
)
_SHARED = "the counters of cycles by mode were shared with another program and counted a part of the time only"


class ModeCounters:
    """Whether cycles by mode divide the time that no handler divides.

    ``plan``: the events to be counted, without these. Where they can be counted, ``self.plan`` has them too.
    """

    def __init__(self, plan: CounterPlan, options: MeasureOptions) -> None:
        self.plan = plan
        self._why_not = ""
        self.needed = options.level is Level.SWITCHES or options.changes
        """Whether there may be such time."""
        if self.needed:
            from headway.linux.perf.modes import with_modes

            found = with_modes(plan, alone=not options.changes)
            if isinstance(found, str):
                self._why_not = found
            else:
                self.plan = found

    def describe(self, memory: BpfMaps) -> str:
        """Return in words by what time is divided, as of the last reading of the memory."""
        if self._why_not:
            return f"user code and the kernel are told apart by samples, because {self._why_not}"
        if not memory.tells_modes:
            return f"user code and the kernel are told apart by samples, because {_SHARED}"
        return _BY_MODE
