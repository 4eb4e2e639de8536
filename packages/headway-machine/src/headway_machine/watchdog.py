"""Which harts make no progress, since when, and in what: a program that is stuck looks busy otherwise.

A hart makes progress when its effective cycles grow (EPI): those of the program's own code. Interrupts, calls, marked
regions, polling and waiting are none. A kernel that does nothing but answer its timer, because a turn is shorter than
its own work, makes none; a loop that waits for a flag in memory looks like progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headway.model import Kind, kind_of

from .ledger import RawCell

__all__ = ["PATIENCE", "Still", "Watchdog", "describe_still"]

PATIENCE = 20_000_000
"""Ticks without progress of any hart after which a program is said to be stuck."""
_LISTED = 3
_IDLE, _RESET = "idle.", "idle.reset"


@dataclass(frozen=True, slots=True)
class Still:
    """A hart that has made no progress for some time."""

    hart: int
    ticks: int
    """For how long, at least."""
    state: str
    """What most of that time went into."""
    share: float
    """How much of it."""
    pc: int
    """Where the hart is now."""
    function: str | None
    """The function that this is in, if it is known."""


@dataclass(slots=True)
class _Seen:
    progress: int
    since: int
    times: Mapping[int, int]


class Watchdog:
    """What each hart had done when it was last seen to make progress."""

    def __init__(self, names: Mapping[int, str], functions: Mapping[str, tuple[int, int]]) -> None:
        """Take the names of states, and the addresses of functions: the first, and the one after the last."""
        self._names, self._functions = names, functions
        self._seen: dict[int, _Seen] = {}
        self._now = 0
        self._last = 0

    def look(self, now: int, processors: Iterable[tuple[int, Sequence[RawCell]]]) -> None:
        """Take the cells of all harts as they are at a tick."""
        self._now = now
        for hart, cells in processors:
            # Cycles less stalls, because a correction takes back what an interrupt's last instruction seemed to make.
            progress = sum(cell[2] - cell[5] for cell in cells if kind_of(self._names[cell[0]]) is Kind.EFFECTIVE)
            seen = self._seen.get(hart)
            if seen is None or progress > seen.progress:
                self._seen[hart] = _Seen(progress, now, {cell[0]: cell[1] for cell in cells})
                if progress:
                    self._last = now

    @property
    def quiet(self) -> int:
        """Ticks since any hart was seen to have made progress."""
        return self._now - self._last

    def still(
        self, processors: Iterable[tuple[int, Sequence[RawCell]]], pcs: Mapping[int, int], ticks: int
    ) -> tuple[Still, ...]:
        """Return the harts that have made no progress for so many ticks or more; ``pcs``: where each hart is.

        Those that only wait are among them if no other hart is, and no hart has made progress meanwhile.
        """
        found = []
        for hart, cells in processors:
            seen = self._seen.get(hart)
            if seen is None or self._now - seen.since < max(ticks, 1):
                continue
            spent = {state: time - seen.times.get(state, 0) for state, time, *_ in cells}
            most = max(spent, key=lambda state: spent[state], default=None)
            if most is not None and self._names[most] != _RESET:
                share = spent[most] / (self._now - seen.since)
                pc = pcs[hart]
                found.append(Still(hart, self._now - seen.since, self._names[most], share, pc, self._function(pc)))
        # A hart that only waits has nothing to make progress with.
        working = [one for one in found if not one.state.startswith(_IDLE)]
        return tuple(working or (found if self.quiet >= max(ticks, 1) else []))

    def _function(self, pc: int) -> str | None:
        return next((name for name, (start, end) in self._functions.items() if start <= pc < end), None)


def describe_still(harts: Sequence[Still]) -> str:
    """Return in words what the harts do instead of making progress; at most three of them are named."""
    words = [
        f"hart {one.hart} for {one.ticks:,} cycles, {one.share:.0%} of them in {one.state}, now at "
        + (f"{one.function} ({one.pc:#010x})" if one.function else f"{one.pc:#010x}")
        for one in harts[:_LISTED]
    ]
    more = len(harts) - len(words)
    return "; ".join(words) + (f"; and {more} more" if more else "")
