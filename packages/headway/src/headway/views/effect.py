"""What a change did, in words: where the time of a process went before and after it."""

from __future__ import annotations

from collections.abc import Iterator

from headway.advice import Effect
from headway.model.kinds import Kind

from .figures import share
from .lines import Line, indented
from .printable import clean

__all__ = ["what_changed"]

_TITLES = {
    Kind.EFFECTIVE: "progress",
    Kind.MEMORY: "memory (MPI)",
    Kind.KERNEL: "kernel (KPI)",
    Kind.POLL: "polling (IOPI)",
    Kind.STALL: "other stalls",
    Kind.READY: "ready",
    Kind.STOLEN: "stolen",
}
_LEAST = 0.005
"""A share below this, before and after, is left out."""


def what_changed(effect: Effect, width: int) -> Iterator[Line]:
    """The shares before and after in lines of at most ``width`` columns."""
    title = f"process {effect.pid} ({clean(effect.name, 64)}), of the time it could run: before, after"
    yield from ([(line, "bold")] for line in indented(title, width, "  ", "    "))
    for kind, name in _TITLES.items():
        before, after = effect.before.get(kind, 0.0), effect.after.get(kind, 0.0)
        if max(before, after) >= _LEAST:
            yield from (
                [(line, "")] for line in indented(f"{name}: {share(before)}, {share(after)}", width, "    ", "    ")
            )
    if not effect.helped:
        yield from ([(line, "")] for line in indented("it makes no more progress than before", width, "    ", "    "))
