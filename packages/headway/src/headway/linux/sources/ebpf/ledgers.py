"""What all ledgers of one measurement have in common, and the reasons why their figures are not exact."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from headway.linux.bpf.programs.loading import Features
from headway.linux.levels import Level
from headway.linux.perf import counters
from headway.model import (
    ABOUT_PARTS,
    Counted,
    Ledger,
    Overhead,
    Precision,
    Processor,
    Quality,
    Thread,
    Window,
    processor_time,
    unit_of,
)
from headway.model.ledger import States

__all__ = ["EbpfLedgers", "with_cost_range"]

_SWITCHES = "switches: run, ready and wait are exact; processor time is divided among states, and polling is not told"


class EbpfLedgers:
    """Makes the ledgers of a measurement that begins now.

    ``notes``: what a reader must know of figures beside what follows from the kernel's features. ``durations``: why
    some durations are not known, if any are kept. ``only_threads``: what processors do without a measured thread is not
    seen. ``whole_ready``: stacks are taken, so ready is not divided.
    """

    def __init__(
        self,
        source: str,
        plan: counters.CounterPlan,
        features: Features,
        notes: Mapping[str, str],
        level: Level = Level.INTERRUPTS,
        *,
        durations: str = "",
        only_threads: bool = False,
        whole_ready: bool = False,
    ) -> None:
        self._source, self._plan = source, plan
        seen = features.faults and level is not Level.CALLS
        self._kernel = Quality.EXACT if seen else Quality.UNAVAILABLE
        self._reasons = {
            "epi": "waiting for memory and other stalls are in it: they need hardware counters",
            "overhead": (
                "calibrated, followed while measuring, and taken out: RPI plus overhead is exact, RPI alone is not"
            ),
        }
        if level is Level.SWITCHES:
            self._reasons["level"] = _SWITCHES
        elif level is Level.CALLS:
            self._reasons["kpi"] = (
                "interrupts are in what they interrupt, EPI among it: the level calls does not see them"
            )
        elif not features.faults:
            self._reasons["kpi"] = "page faults are in EPI: this kernel lets no software event be counted"
        self._reasons[ABOUT_PARTS] = _about_ready(features, level, only_threads=only_threads, whole=whole_ready)
        if not features.steal:
            self._reasons["stolen"] = "this kernel does not say which thread it hit"
        if durations:
            self._reasons["durations"] = durations
        self._reasons |= notes
        self._notes: dict[str, Callable[[], str]] = {}
        self._steal_before = None if features.steal else _steal_of_all()

    def note(self, name: str, words: Callable[[], str]) -> None:
        """Have every ledger say something that a reader must know, in words that are asked for anew each time.

        Where they are empty, there is nothing to say.
        """
        self._notes[name] = words

    def lack_interrupts(self) -> None:
        """Say from now on that what interrupts took of some threads is not told from what they interrupted."""
        if self._kernel is Quality.EXACT:
            self._kernel = Quality.PARTIAL
            self._reasons["kpi"] = (
                "while the calls of a thread are seen, interrupts are in what they interrupt, EPI among it"
            )

    def make(
        self,
        window: Window,
        threads: Sequence[Thread] = (),
        processors: Sequence[Processor] = (),
        *,
        losses: Mapping[str, int] | None = None,
        events: int = 0,
        counted: Mapping[str, Counted] | None = None,
    ) -> Ledger:
        """Return a ledger of these figures; without any, it says only how those of others are to be read."""
        counted = counted or {}
        unit = unit_of(threads) if "cycles" in self._plan.fields else "ns"
        in_cycles = unit == "cycles"
        return Ledger(
            counted=counted,
            events=tuple(self._plan.named),
            unit=unit,
            source=self._source,
            window=window,
            threads=tuple(threads),
            processors=tuple(processors),
            precision=counters.sharpen(
                Precision(effective=Quality.BOUND, memory=Quality.UNAVAILABLE, kernel=self._kernel),
                counted,
                in_cycles=in_cycles,
            ),
            reasons={
                **self._reasons,
                **{name: said for name, words in self._notes.items() if (said := words())},
                **self._stolen(),
                **counters.remarks(self._plan, in_cycles=in_cycles),
            },
            losses=losses or {},
            overhead=Overhead(sum(_overhead_of(row.states) for row in processors), events),
        )

    def _stolen(self) -> dict[str, str]:
        """Return what is known of stolen time where the kernel does not say whose it was."""
        if self._steal_before is None:
            return {}
        stolen = (_steal_of_all() or self._steal_before) - self._steal_before
        words = f"from all processors together /proc/stat says {stolen / 1e9:.2f} s"
        return {"stolen": f"{self._reasons['stolen']}; {words}"}


_NOTABLE = 0.03
"""RPI counts as exact while it may be off by less than this part of itself."""


def with_cost_range(ledger: Ledger, range_: tuple[float, float]) -> Ledger:
    """Return the ledger with what is known of the cost of observing (`Overhead.range`)."""
    ledger = replace(ledger, overhead=replace(ledger.overhead, range=range_))
    off = max((_part_off(ledger.overhead, thread) for thread in ledger.threads), default=0.0)
    if off < _NOTABLE:
        return ledger
    least, most = range_
    words = (
        f"observing cost {least:.2f} to {most:.2f} times what was taken out, more is not known of it: RPI and its "
        f"parts are off by up to {off:.0%} of RPI"
    )
    return replace(
        ledger,
        precision=ledger.precision | Precision(Quality.ESTIMATED, kernel=Quality.ESTIMATED, poll=Quality.ESTIMATED),
        reasons={**ledger.reasons, "rpi": words},
    )


def _part_off(overhead: Overhead, thread: Thread) -> float:
    """Return by how much of itself a thread's RPI may be off, at most."""
    times = thread.times()
    rpi = processor_time(times)
    least, most = overhead.rpi_range(times)
    return max(rpi - least, most - rpi) / max(rpi, 1)


def _about_ready(features: Features, level: Level, *, only_threads: bool, whole: bool) -> str:
    """Return what its parts do not tell. ``whole``: it has none."""
    if whole:
        return "not divided, because its stacks are those of all of it"
    if not features.fetch:
        return "not divided: this kernel's eBPF lacks the instructions for it"
    left = "what is in no part: time of threads that were ready when measuring began, or became ready unseen"
    if level is not Level.INTERRUPTS:
        return f"interrupts are in the part that they interrupt, as the level {level.value} does not see them; {left}"
    if only_threads:
        return f"interrupts of threads that are not measured are in ready.neighbour and ready.wakeup; {left}"
    return left


def _overhead_of(states: States) -> int:
    cell = states.get("overhead")
    return cell.time if cell is not None else 0


def _steal_of_all() -> int | None:
    """Return the time stolen from all processors together since boot by /proc/stat, ns, in steps of 10 ms."""
    try:
        first = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        return int(first[8]) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return None
