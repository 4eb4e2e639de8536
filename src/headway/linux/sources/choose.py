"""Choose a source: eBPF where it is possible, else /proc."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol, TypeVar

from headway.errors import HeadwayError
from headway.linux.options import MeasureOptions, Selection
from headway.linux.privileges import allow_bpf, effective

from .source import LinuxSource

__all__ = ["begun_exact", "cause", "may_use_bpf", "start_source"]


class _Begins(Protocol):
    def begin(self) -> None: ...


_Exact = TypeVar("_Exact", bound=_Begins)


def may_use_bpf() -> bool:
    """Whether this process has CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN (capabilities(7)), in effect."""
    return allow_bpf(effective())


def start_source(
    selection: Selection,
    prefer: str | None = None,
    *,
    intervals: bool = False,
    forget: bool = False,
    options: MeasureOptions = MeasureOptions(),  # noqa: B008
) -> tuple[LinuxSource, str]:
    """Return a source that measures the selection from now on, and why it is not the exact one (empty: it is).

    ``prefer``: ``bpf`` or ``proc``, and no other; None: the best that works. ``intervals``: readings are wanted while
    it runs, not only at the end; ``forget``: only of intervals, for as long as may be. Raises HeadwayError where it
    cannot be measured; nothing is left attached then.
    """
    from .ebpf import BpfSource
    from .proc import ProcSource

    exact, why = begun_exact(lambda: BpfSource(selection, options, intervals=intervals, forget=forget), prefer)
    if exact is not None:
        return exact, ""
    sampled = ProcSource(selection, options, forget=forget)
    try:
        sampled.begin()
    except BaseException:
        sampled.close()
        raise
    return sampled, why


def cause(error: HeadwayError) -> str:
    """Return what is wrong, in one clause, without the advice to do what is being done: to measure by /proc."""
    return re.split(r"[:,] (?:or )?use --source proc\b", str(error), maxsplit=1)[0]


def begun_exact(make: Callable[[], _Exact], prefer: str | None) -> tuple[_Exact | None, str]:
    """Return what measures with eBPF, begun; or why it cannot, in words (none if ``prefer`` is ``proc``).

    Raises HeadwayError where it cannot and nothing else will do.
    """
    if prefer == "bpf" or (prefer is None and may_use_bpf()):
        exact = make()
        try:
            exact.begin()
        except HeadwayError as error:
            if prefer == "bpf" or error.final:
                raise
            return None, cause(error)
        return exact, ""
    return None, "eBPF needs CAP_BPF and CAP_PERFMON (sudo headway ...)" if prefer is None else ""
