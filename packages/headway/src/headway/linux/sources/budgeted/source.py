"""The source that keeps a budget at any level of detail, `Level.CLOCKS` among them."""

from __future__ import annotations

from collections.abc import Callable

from headway.linux.levels import Level
from headway.linux.options import MeasureOptions, Selection

from ..ebpf.options import SourceOptions
from ..ebpf.program_source import ProgramSource
from .measurement import BudgetMeasurement

__all__ = ["BudgetSource", "can_keep_any_budget"]


def can_keep_any_budget(selection: Selection, options: MeasureOptions) -> bool:
    """Return whether what is wanted can be measured by the kernel's clocks for a part of the time."""
    needs_events = options.publish or options.durations or options.tasks or options.spin or options.stacks
    return options.budget is not None and selection.cpus is None and not needs_events


class BudgetSource(ProgramSource[BudgetMeasurement]):
    """Measures a selection of threads with eBPF, as exactly as a budget allows (`LinuxSource`).

    For the arguments see `BpfSource`.
    """

    def __init__(
        self,
        selection: Selection,
        options: MeasureOptions,
        *,
        intervals: bool = False,
        forget: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        self._options = SourceOptions.of(
            selection,
            options,
            intervals=intervals,
            forget=forget,
            max_threads=None,
            record=False,
            ring_words=None,
            exit_bytes=None,
            max_ended=None,
            meanwhile=meanwhile,
        )

    def _measure(self) -> BudgetMeasurement:
        return BudgetMeasurement(self.name, self._options)

    @property
    def level(self) -> Level:
        """The level of detail now."""
        return self._running.level
