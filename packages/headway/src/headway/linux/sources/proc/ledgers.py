"""Ledgers from /proc: how far its figures can be trusted, and why not further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headway.linux.options import MeasureOptions, Selection
from headway.linux.perf import counters
from headway.linux.perf.thread_counters import ThreadCounters
from headway.linux.regions.charging import Marked
from headway.model import ABOUT_PARTS, Ledger, Overhead, Precision, Quality, Thread, Window

from .clocks import Clocks

__all__ = ["ProcLedgers"]


class ProcLedgers:
    """Makes the ledgers of a measurement; ``has_schedstat``: the kernel keeps run times in ns."""

    def __init__(
        self,
        selection: Selection,
        options: MeasureOptions,
        clocks: Clocks,
        marked: Marked,
        thread_counters: ThreadCounters,
        *,
        has_schedstat: bool,
    ) -> None:
        self._selection, self._options, self._clocks = selection, options, clocks
        self._marked, self._counters, self._has_schedstat = marked, thread_counters, has_schedstat

    def make(
        self, window: Window, threads: Sequence[Thread], *, losses: Mapping[str, int], exact: bool, overhead: Overhead
    ) -> Ledger:
        """Return the ledger of these threads; ``exact``: each was seen to its end."""
        exact = exact and self._has_schedstat and not any(losses.values())
        marks = self._marked.losses
        counted = self._counters.counted()
        return Ledger(
            source="proc",
            window=window,
            threads=tuple(sorted(threads, key=lambda thread: thread.key)),
            precision=counters.sharpen(
                Precision(
                    total=Quality.EXACT if exact else Quality.SAMPLED,
                    effective=Quality.SAMPLED,
                    memory=Quality.UNAVAILABLE,
                    kernel=Quality.SAMPLED,
                    poll=Quality.UNAVAILABLE,
                ),
                counted,
                in_cycles=False,
            ),
            reasons=self._reasons(exact),
            losses={**losses, **marks, **self._counters.losses()},
            counted=counted,
            events=tuple(self._counters.plan.named),
            overhead=overhead,
        )

    def _reasons(self, exact: bool) -> dict[str, str]:
        tick = f"{self._clocks.tick / 1e6:g} ms"
        reasons = {
            "epi": f"the kernel samples what is user and what is kernel time, at its tick of {tick}",
            "kpi": f"the kernel samples what is user and what is kernel time, at its tick of {tick}",
            **counters.remarks(self._counters.plan, in_cycles=False),
            "iopi": "/proc does not tell what a system call returned",
            "wait": "a thread waits for what it was found waiting for at a look; the sum of its waits is not sampled",
            "irq": "/proc charges an interrupt to the thread that it hit",
            ABOUT_PARTS: "not divided: /proc does not tell who had the processor while a thread was ready",
            "stolen": "/proc does not tell whom the hypervisor took time from: it is in ready or wait",
        }
        if not self._has_schedstat:
            reasons["rpi"] = (
                f"this kernel keeps no schedstat, so run time is in steps of {self._clocks.clock_tick / 1e6:g} ms"
            )
            reasons["ready"] = "this kernel keeps no schedstat, so being ready cannot be told from waiting"
        elif not exact:
            reasons["rpi"] = (
                f"the run time of a thread on a processor is up to {tick} old, "
                "and what a thread ran between the last look and its end is not in it"
            )
        if self._options.durations:
            reasons["durations"] = "/proc does not tell when a state begins and ends: that needs eBPF"
        if self._options.tasks:
            reasons["tasks"] = "only eBPF is told when a task begins and ends: none is known"
        if self._options.functions:
            reasons["marked functions"] = "only eBPF can place probes in them: their time is in user"
        if self._marked.seen:
            reasons["regions"] = (
                "of a marked region only that is charged which was certainly in user code: what the thread was off the "
                "processor or in the kernel between two looks is taken to have been in it; the rest is in EPI"
            )
        if self._marked.reason is not None:
            reasons["regions_unread"] = self._marked.reason
        if self._selection.follow:
            reasons["follow"] = (
                "/proc does not tell whose child a process was whose parent ended before it was first seen"
            )
            if self._selection.tids or self._selection.name is not None:
                reasons["follow"] += ", nor which thread created another"
        return reasons
