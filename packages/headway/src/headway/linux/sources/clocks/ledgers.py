"""Ledgers at the level `clocks`: how far their figures can be trusted, and why not further."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headway.linux.options import MeasureOptions
from headway.model import ABOUT_PARTS, Ledger, Overhead, Precision, Quality, Thread, Window

__all__ = ["ABOUT_CLOCKS", "ClockLedgers"]

ABOUT_CLOCKS = (
    "clocks: run, ready and the sum of waits are the kernel's own, read at intervals; what processor time and waits "
    "were for is sampled"
)
_EXACT_PROCESSORS = Path("/sys/devices/system/cpu/nohz_full")
"""Processors on which the kernel measures user time and system time (CONFIG_VIRT_CPU_ACCOUNTING_GEN)."""


class ClockLedgers:
    """Makes the ledgers of a measurement. ``tick``: the scheduler's, ns. ``up_to_date``: see `ClockPrograms`."""

    def __init__(self, source: str, options: MeasureOptions, tick: int, *, up_to_date: bool) -> None:
        self._source, self._events = source, options.events
        words = f"{tick / 1e6:g} ms"
        divided = f"the kernel samples what is user and what is kernel time, at its tick of {words}"
        if exact := _text(_EXACT_PROCESSORS):
            divided += f"; on processors {exact} it measures it"
        self._reasons = {
            "level": ABOUT_CLOCKS,
            "epi": divided,
            "kpi": divided,
            "iopi": "polling shows in no clock of the kernel",
            "wait": "a thread waits for what it was found waiting for at a look; the sum of its waits is not sampled",
            "irq": "the kernel charges an interrupt to the thread that it hit, or to none",
            ABOUT_PARTS: "not divided: clocks do not tell who had the processor while a thread was ready",
            "stolen": "the kernel's clocks leave out what the hypervisor took: it is in ready or wait",
            "regions": "marked regions are not told apart: their time is processor time",
        }
        if not up_to_date:
            self._reasons["rpi"] = (
                f"this kernel does not tell the scheduler's clock: the run time of running threads is up to {words} old"
            )
        if options.durations:
            self._reasons["durations"] = "clocks do not tell when a state begins and ends: that needs --level switches"
        if options.why:
            self._reasons["causes"] = (
                "clocks do not tell who ended a wait, or what was waited for: --level switches does"
            )
        self._notes: dict[str, Callable[[], str]] = {}
        self._up_to_date = up_to_date

    def note(self, name: str, words: Callable[[], str]) -> None:
        """Have every ledger say something, in words that are asked for anew each time; nothing where they are empty."""
        self._notes[name] = words

    def make(self, window: Window, threads: Sequence[Thread], losses: Mapping[str, int], overhead: Overhead) -> Ledger:
        """Return the ledger of these threads."""
        exact = self._up_to_date and not any(losses.values())
        return Ledger(
            source=self._source,
            window=window,
            threads=tuple(sorted(threads, key=lambda thread: thread.key)),
            precision=Precision(
                total=Quality.EXACT if exact else Quality.SAMPLED,
                effective=Quality.BOUND,
                memory=Quality.UNAVAILABLE,
                poll=Quality.UNAVAILABLE,
            ),
            reasons={**self._reasons, **{name: said for name, words in self._notes.items() if (said := words())}},
            losses=losses,
            events=self._events,
            overhead=overhead,
        )


def _text(path: Path) -> str:
    try:
        return path.read_text().strip().replace("(null)", "")
    except OSError:
        return ""
