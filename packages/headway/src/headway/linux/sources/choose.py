"""Choose a source: eBPF where it is possible, else /proc."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from headway.errors import HeadwayError
from headway.exhaustion import in_words
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions, Selection

from .source import LinuxSource

if TYPE_CHECKING:
    from headway.linux.bpf.samples.stacks import StackReader

__all__ = ["begun_exact", "may_unwind", "may_use_bpf", "start_source"]


class _Begins(Protocol):
    def begin(self) -> None: ...


_Exact = TypeVar("_Exact", bound=_Begins)


def may_use_bpf() -> bool:
    """Whether this process has CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN (capabilities(7)), in effect."""
    from headway.linux.privileges import allow_bpf, effective

    return allow_bpf(effective())


def may_unwind() -> bool:
    """Whether the programs walk user stacks by call frame information on this machine."""
    return platform.machine() == "x86_64"


def start_source(
    selection: Selection,
    prefer: str | None = None,
    *,
    intervals: bool = False,
    forget: bool = False,
    options: MeasureOptions = MeasureOptions(),  # noqa: B008
    meanwhile: Callable[[], None] | None = None,
    prepared: Callable[[StackReader], None] | None = None,
) -> tuple[LinuxSource, str]:
    """Return a source that measures the selection from now on, and why it is not the exact one (empty: it is).

    ``prefer``: ``bpf`` or ``proc``, and no other; None: the best that works. ``intervals``: readings are wanted while
    it runs, not only at the end; ``forget``: only of intervals, for as long as may be; ``meanwhile``: called while a
    source waits for the kernel, if it does; ``prepared``: just before it begins, with what reads stacks (`BpfSource`).
    Raises HeadwayError where it cannot be measured; nothing is left attached then.
    """

    def by_ebpf() -> LinuxSource:
        if options.level is Level.CLOCKS and not options.changes:
            from .clocks import ClockSource

            return ClockSource(selection, options, intervals=intervals, forget=forget)
        if options.budget is not None:
            from .budgeted.source import BudgetSource, can_keep_any_budget

            if can_keep_any_budget(selection, options):
                return BudgetSource(selection, options, intervals=intervals, forget=forget, meanwhile=meanwhile)
        from .ebpf import BpfSource

        return BpfSource(selection, options, intervals=intervals, forget=forget, meanwhile=meanwhile, prepared=prepared)

    exact, why = begun_exact(by_ebpf, prefer)
    if exact is not None:
        return exact, ""
    from .proc import ProcSource  # a source takes long to load: only the one that measures is

    sampled = ProcSource(selection, options, forget=forget)
    try:
        sampled.begin()
    except BaseException:
        sampled.close()
        raise
    return sampled, why


def begun_exact(make: Callable[[], _Exact], prefer: str | None) -> tuple[_Exact | None, str]:
    """Return what measures with eBPF, begun; or why it cannot, and what to do (no words if ``prefer`` is ``proc``).

    The words are one line: what was tried, what refused it, and what would make it possible. Raises HeadwayError where
    it cannot and nothing else will do.
    """
    if prefer == "bpf" or (prefer is None and may_use_bpf()):
        exact = make()
        try:
            _begin(exact)
        except HeadwayError as error:
            if prefer == "bpf" or error.final:
                raise
            return None, _in_words(error)
        return exact, ""
    if prefer is not None:
        return None, ""
    from headway.linux.bpf.programs.refusals import missing_privileges

    return None, _in_words(missing_privileges())


def _begin(exact: _Begins) -> None:
    """Begin to measure. Raises HeadwayError, also if the system refuses something."""
    try:
        exact.begin()
    except OSError as error:
        raise HeadwayError(f"eBPF needs what the system refuses: {in_words(error)}") from None


def _in_words(error: HeadwayError) -> str:
    """Return cause and advice as one line, without the advice to measure by /proc, which is being done."""
    words = f"{error.cause}: {error.advice}" if error.advice else error.cause
    return " ".join(words.split())
