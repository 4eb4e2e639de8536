"""The source that keeps a budget at any level of detail, `Level.CLOCKS` among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headway.linux.bpf.programs import loading
from headway.linux.bpf.programs.libbpf import BpfError
from headway.linux.bpf.programs.refusals import explain
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions, Selection
from headway.model import Ledger

from ..ebpf.options import SourceOptions
from ..measuring import MeasuringSource
from .measurement import BudgetMeasurement

__all__ = ["BudgetSource", "can_keep_any_budget"]


def can_keep_any_budget(selection: Selection, options: MeasureOptions) -> bool:
    """Return whether what is wanted can be measured by the kernel's clocks for a part of the time."""
    needs_events = options.publish or options.durations or options.tasks or options.spin or options.stacks
    return options.budget is not None and selection.cpus is None and not needs_events


class BudgetSource(MeasuringSource[BudgetMeasurement]):
    """Measures a selection of threads with eBPF, as exactly as a budget allows (`LinuxSource`).

    For the arguments see `BpfSource`.
    """

    name = "bpf"

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

    def begin(self) -> None:
        """Load, attach, calibrate and start measuring. Raises HeadwayError; then nothing is left attached."""
        try:
            with loading.files_as_allowed():
                self._measurement = BudgetMeasurement(self.name, self._options)
        except BpfError as error:
            raise explain(error) from None

    def poll_fds(self) -> Iterable[int]:
        """Return descriptors that are readable when `service` has work to do."""
        return self._running.poll_fds()

    def service(self) -> float | None:
        """Do what cannot wait, and change the level of detail if the budget wants it."""
        return self._running.service()

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Wait until the threads of a process that has ended have left their processors."""
        self._running.wait_until_exit_is_seen(pid)

    def read(self) -> Ledger:
        """Return everything since `begin`, as of now."""
        return self._running.total(last=False)

    def interval(self) -> Ledger:
        """Return what happened since the last `interval`, or since `begin`."""
        return self._running.interval(last=False)

    def end(self) -> Ledger:
        """Return everything since `begin`, as of now; from now on nothing is measured."""
        return self._running.total(last=True)

    def end_interval(self) -> Ledger:
        """Return what happened since the last `interval`; from now on nothing is measured."""
        return self._running.interval(last=True)

    @property
    def level(self) -> Level:
        """The level of detail now."""
        return self._running.level

    @property
    def tells_without_privileges(self) -> bool:
        """Whether the kernel lets a process without CAP_BPF do what is done here: before 5.19 it may not."""
        return self._running.tells_without_privileges
