"""The time of processors by state, from the ledgers of the eBPF source, or from the kernel without privileges.

There are two accounts without privileges. cpuidle measures how long a processor is in its idle states
(drivers/cpuidle/cpuidle.c, cpuidle_enter_state). This does not include the steps of the idle loop itself, but it
includes the interrupt that ends a state that is entered with interrupts on (HLT). It is therefore no bound in either
direction. /proc/stat tells what a processor was doing when its timer ticked (proc_stat(5)): a sample every 1 to 10 ms,
which misses short bursts or counts them as a whole. The idle account is used if there is one; the busy rest is then
divided in proportion to the ticks.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from headway.dataclass import dataclass
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.choose import begun_exact
from headway.linux.sources.ebpf import BpfSource
from headway.model import Cell, Quality
from headway.text import is_number

from .power import ProcessorPower, growth

__all__ = ["BpfBusy", "Busy", "KernelBusy", "Ticks", "divide", "parse_stat", "start_busy", "virtual"]

States = Mapping[str, Cell]


class Busy(Protocol):
    """An account of what processors do. Differences between two of its readings are taken."""

    name: str
    quality: Mapping[str, Quality]
    """The quality of ``utilisation`` and ``states``."""
    reasons: Mapping[str, str]

    def snapshot_words(self) -> tuple[int, int] | None:
        """Return where a snapshot is announced (`BpfMaps.snapshot_words`); None: a reading is of its own time."""

    def read(self, at: int) -> Mapping[int, object]:
        """Return the account of each processor as of the snapshot at the moment ``at`` (ns), which is past."""

    def between(self, before: object, after: object, span: int) -> States:
        """Return what a processor did between two readings ``span`` ns apart; the times of its states add up to it."""

    def losses(self) -> Mapping[str, int]:
        """Return what could not be seen, counted by name."""

    def close(self) -> None:
        """Release everything."""


def start_busy(cpus: Sequence[int], power: ProcessorPower, prefer: str | None = None) -> tuple[Busy, str]:
    """Return the best account, started, and why it is not the exact one (empty if it is).

    ``prefer``: use only ``bpf`` or only ``proc``. Raises HeadwayError if that is not possible.
    """
    exact, why = begun_exact(lambda: BpfBusy(cpus), prefer)
    if exact is not None:
        return exact, ""
    return KernelBusy(cpus, power), why


def virtual() -> bool:
    """Return whether the processor reports a hypervisor (x86), or a hypervisor has taken time already."""
    with suppress(OSError), open("/proc/cpuinfo", errors="replace") as file:
        for line in file:
            if line.startswith("flags"):
                return "hypervisor" in line.split()
    with suppress(OSError), open("/proc/stat", errors="replace") as file:
        return any(ticks.stolen for ticks in parse_stat(file.read()).values())
    return False


_OF_THREADS = frozenset({"exits_lost", "records_damaged", "ended_threads_added_up", "causes_without_room"})
"""Losses that do not affect the time of any processor."""


_FORGET = 1_000_000_000
"""ns between two removals of ended threads; there is room for thousands."""


class BpfBusy:
    """The account of the eBPF source, which measures all threads."""

    name = "bpf"

    def __init__(self, cpus: Sequence[int]) -> None:
        self.quality: Mapping[str, Quality] = {"utilisation": Quality.EXACT, "states": Quality.EXACT}
        self.reasons: Mapping[str, str] = {}
        self._forgot = 0
        self._source = BpfSource(Selection(everything=True, cpus=tuple(cpus)), MeasureOptions(), intervals=True)

    def begin(self) -> None:
        """Attach the programs. Raises HeadwayError and leaves nothing attached if that fails."""
        self._source.begin()
        if not self._source.knows_stolen and virtual():
            self.quality = {"utilisation": Quality.BOUND, "states": Quality.EXACT}
            self.reasons = {
                "utilisation": "it includes time that the hypervisor took: this kernel keeps no account of that"
            }

    def snapshot_words(self) -> tuple[int, int] | None:
        """Return where the eBPF programs expect the announcement of a snapshot."""
        return self._source.snapshot_words()

    def read(self, at: int) -> Mapping[int, object]:
        """Cells by processor."""
        self._source.follow_processors()
        if at - self._forgot > _FORGET:
            self._source.discard_ended(at)
            self._forgot = at
        return self._source.processors_at(at)

    def between(self, before: object, after: object, span: int) -> States:
        """Return the difference of the cells, which already covers the span."""
        cells: States = after.less(before)  # type: ignore[attr-defined]
        return cells

    def losses(self) -> Mapping[str, int]:
        """Return those losses of the source that affect processors."""
        return {name: count for name, count in self._source.losses().items() if name not in _OF_THREADS}

    def close(self) -> None:
        """Detach the programs."""
        self._source.close()


@dataclass(frozen=True, slots=True)
class Ticks:
    """A processor's line of /proc/stat, in ticks of USER_HZ."""

    user: int
    system: int
    idle: int
    irq: int
    softirq: int
    stolen: int


def parse_stat(text: str) -> dict[int, Ticks]:
    """Return the processors' lines of /proc/stat. Lines that differ from proc_stat(5) are left out."""
    found = {}
    for line in text.splitlines():
        name, *fields = line.split()[:11] or [""]
        number = name.removeprefix("cpu")
        if name == number or not is_number(number, 5):
            continue
        if len(fields) < 4 or not all(map(is_number, fields)):
            continue
        user, nice, system, idle, iowait, irq, softirq, stolen = [*map(int, fields), 0, 0, 0, 0][:8]
        found[int(number)] = Ticks(user + nice, system, idle + iowait, irq, softirq, stolen)
    return found


_BUSY = {"user": "user", "system": "kernel", "irq": "irq", "softirq": "softirq"}
"""For each field of `Ticks`, the state as which it is shown."""


def divide(before: Ticks, after: Ticks, span: int, tick: int, idle: int | None) -> dict[str, Cell]:
    """Divide a span in proportion to the ticks; the parts add up to it.

    ``tick``: ns of one tick. ``idle``: the measured idle time in ns; None: use the ticks. Ticks that ran backwards
    count as none. Busy time without any tick is ``unknown.unmeasured``.
    """
    grown = {name: max(getattr(after, name) - getattr(before, name), 0) for name in (*_BUSY, "idle", "stolen")}
    busy_ticks = sum(grown[name] for name in _BUSY)
    if idle is None:
        every = busy_ticks + grown["idle"] + grown["stolen"]
        scale = span / every if every else 0.0
        stolen = min(round(grown["stolen"] * scale), span)
        idle = min(round(grown["idle"] * scale), span - stolen)
    else:
        idle = min(max(idle, 0), span)
        stolen = min(grown["stolen"] * tick, span - idle)
    busy = span - idle - stolen
    times = {"idle": idle, "stolen": stolen}
    left = busy
    for name, state in _BUSY.items():
        times[state] = busy * grown[name] // busy_ticks if busy_ticks else 0
        left -= times[state]
    times["user" if busy_ticks else "unknown.unmeasured"] = left + (times["user"] if busy_ticks else 0)
    return {state: Cell(time, None) for state, time in times.items() if time}


class KernelBusy:
    """The account of processors that the kernel gives to every user."""

    def __init__(self, cpus: Collection[int], power: ProcessorPower, stat: Path = Path("/proc/stat")) -> None:
        self._cpus, self._power, self._stat = cpus, power, stat
        self._tick = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        measured = bool(power.names) and all(power.idle(cpu) is not None for cpu in cpus)
        self.name = "cpuidle" if measured else "proc"
        divided = "seen at the timer's ticks only (/proc/stat)"
        self.reasons: Mapping[str, str] = {"states": divided}
        self.quality: Mapping[str, Quality] = {"utilisation": Quality.SAMPLED, "states": Quality.SAMPLED}
        if measured:
            self.reasons = {
                "utilisation": "the time that cpuidle does not count as idle, which may miss interrupts",
                **self.reasons,
            }
        else:
            self.reasons = {"utilisation": divided, **self.reasons}

    def snapshot_words(self) -> tuple[int, int] | None:
        """Return None: the account is of the moment at which it is read."""
        return None

    def read(self, at: int) -> Mapping[int, object]:
        """Return (Ticks, idle ns or None) of each processor."""
        try:
            lines = parse_stat(self._stat.read_text(errors="replace"))
        except OSError:
            lines = {}
        found: dict[int, object] = {}
        for cpu in self._cpus:
            if cpu in lines:
                found[cpu] = lines[cpu], self._power.idle(cpu) if self.name == "cpuidle" else None
        return found

    def between(self, before: object, after: object, span: int) -> States:
        """Return the span, divided by `divide`."""
        assert isinstance(before, tuple)
        assert isinstance(after, tuple)
        (ticks_before, idle_before), (ticks_after, idle_after) = before, after
        idle = growth(idle_after, idle_before)
        return divide(ticks_before, ticks_after, span, self._tick, idle)

    def losses(self) -> Mapping[str, int]:
        """Return none, because none are known."""
        return {}

    def close(self) -> None:
        """Do nothing, as nothing is open."""
