"""Counters of the cycles in which a processor is not halted, and the frequency that follows from them.

The best available counter is used: the pair APERF and MPERF (actual and reference cycles while not halted: Intel SDM 3B
15.5.5.2, AMD PPR), through the msr PMU or the MSR device; perf's cycles and ref-cycles; perf's cycles alone, as on
arm64. Each counter is tested first: it must count on every processor while that is kept busy, at a rate that a clock
can have. The rate of the reference is measured at the same time. Without any counter, the meeting times a chain of
dependent additions of one cycle each; their time gives the frequency of that moment only.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import NamedTuple

from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.linux.perf import perf_event as perf

__all__ = ["Counter", "Devices", "Frequency", "by_chain", "by_counter", "find_counter", "smi_of"]

MIN_HZ, MAX_HZ = 10e6, 20e9
"""The limits of a clock's frequency. A value outside them cannot be a frequency."""
CALIBRATION_NS = 3_000_000
AGREEMENT = 0.02
"""The relative difference within which the chains of one meeting must agree; more means a disturbance."""
_PERF_WORDS = 3  # value, time enabled, time running
_MSR_APERF, _MSR_MPERF, _MSR_SMI = 0xE8, 0xE7, 0x34

Source = tuple[int, int, int]
"""A counter as `Meeting` reads it: file descriptor, offset (-1: read(2)), words."""


class Frequency(NamedTuple):
    """The busy ticks of a sample, and the frequency while not halted; None if unknown."""

    ticks: int | None = None
    actual_hz: float | None = None
    broken: str | None = None
    """What is wrong with the counters, if anything is. Nothing of the sample can then be trusted."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of busy ticks: the open files of each processor, and the layout of the words that they yield."""

    name: str
    sources: Mapping[int, Sequence[Source]]
    reference: bool
    """Whether the second source counts reference cycles."""
    smi: bool = False
    """Whether the last source counts system management interrupts."""
    reference_hz: Mapping[int, float] = field(default_factory=dict)
    """The rate of the reference by processor."""

    @property
    def width(self) -> int:
        """The number of words of each source."""
        return next(iter(self.sources.values()))[0][2]

    def close(self) -> None:
        """Close the files."""
        perf.close_all(fd for sources in self.sources.values() for fd, _, _ in sources)


class Devices:
    """The devices through which counters are opened. Tests replace them."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def event(self, name: str) -> perf.Event | None:
        """Return an event of the msr PMU, as sysfs describes it; None if it has none of this name."""
        folder = self._root / "sys/bus/event_source/devices/msr"
        try:
            kind = int((folder / "type").read_text())
            config = (folder / "events" / name).read_text().strip().removeprefix("event=")
            return perf.Event(f"msr/{name}/", kind, int(config, 0))
        except (OSError, ValueError):
            return None

    def open_event(self, event: perf.Event, cpu: int) -> int:
        """Return a file descriptor that counts the event on the processor. Raises OSError."""
        return perf.open_counter(event, cpu=cpu)

    def open_msr(self, cpu: int) -> int:
        """Open the processor's MSR device. Raises OSError."""
        return os.open(self._root / f"dev/cpu/{cpu}/msr", os.O_RDONLY | os.O_CLOEXEC)


_CYCLES = perf.Event("cycles", perf.HARDWARE, 0)
_REFERENCE = perf.Event("ref-cycles", perf.HARDWARE, 9)


def find_counter(cpus: Sequence[int], devices: Devices | None = None) -> tuple[Counter | None, str]:
    """Return the best counter that works on all these processors, and why it is not APERF and MPERF ("" if it is)."""
    devices = devices or Devices()
    reasons: list[str] = []
    for candidate in (_by_msr_pmu, _by_msr_device, _by_perf_pair, _by_perf_cycles):
        try:
            counter = candidate(devices, cpus)
        except OSError as error:
            reasons.append(f"{_TITLES[candidate.__name__]}: {error.strerror or error}")
            continue
        except HeadwayError as error:
            reasons.append(str(error))
            continue
        try:
            return _calibrated(counter), "; ".join(reasons)
        except HeadwayError as error:
            counter.close()
            reasons.append(str(error))
        except BaseException:
            counter.close()
            raise
    return None, "; ".join(reasons)


_TITLES = {
    "_by_msr_pmu": "aperf/mperf by the msr PMU",
    "_by_msr_device": "aperf/mperf by /dev/cpu/*/msr",
    "_by_perf_pair": "perf cycles/ref-cycles",
    "_by_perf_cycles": "perf cycles",
}


def _by_msr_pmu(devices: Devices, cpus: Sequence[int]) -> Counter:
    title = _TITLES["_by_msr_pmu"]
    events = [devices.event(name) for name in ("aperf", "mperf", "smi")]
    if events[0] is None or events[1] is None:
        raise HeadwayError(f"{title}: this processor does not offer them")
    return _open_events(devices, cpus, title, [event for event in events if event], reference=True, smi=bool(events[2]))


def _by_perf_pair(devices: Devices, cpus: Sequence[int]) -> Counter:
    return _open_events(devices, cpus, _TITLES["_by_perf_pair"], [_CYCLES, _REFERENCE], reference=True)


def _by_perf_cycles(devices: Devices, cpus: Sequence[int]) -> Counter:
    return _open_events(devices, cpus, _TITLES["_by_perf_cycles"], [_CYCLES], reference=False)


def _open_events(
    devices: Devices,
    cpus: Sequence[int],
    title: str,
    events: Sequence[perf.Event],
    *,
    reference: bool,
    smi: bool = False,
) -> Counter:
    opened: dict[int, list[Source]] = {}
    try:
        for cpu in cpus:
            sources = opened[cpu] = []
            for event in events:
                sources.append((devices.open_event(event, cpu), -1, _PERF_WORDS))
    except BaseException:
        Counter(title, opened, reference).close()
        raise
    return Counter(title, opened, reference, smi)


def _by_msr_device(devices: Devices, cpus: Sequence[int]) -> Counter:
    opened: dict[int, list[Source]] = {}
    title = _TITLES["_by_msr_device"]
    smi = True
    try:
        for cpu in cpus:
            fds = opened[cpu] = []
            for register in (_MSR_APERF, _MSR_MPERF, _MSR_SMI):
                fds.append((devices.open_msr(cpu), register, 1))
                if register == _MSR_SMI:
                    smi = smi and _read(fds[-1]) is not None
                elif _read(fds[-1]) is None:
                    raise HeadwayError(f"{title}: processor {cpu} does not have them")
        if not smi:
            for fds in opened.values():
                perf.close_all([fds.pop()[0]])
    except BaseException:
        Counter(title, opened, True).close()
        raise
    return Counter(title, opened, True, smi)


def _read(source: Source) -> int | None:
    fd, offset, words = source
    with suppress(OSError):
        data = os.read(fd, words * 8) if offset < 0 else os.pread(fd, words * 8, offset)
        if len(data) == words * 8:
            return int(struct.unpack(f"={words}Q", data)[0])
    return None


def _calibrated(counter: Counter) -> Counter:
    """Return the counter with its reference rates, measured on one busy processor at a time. Raises HeadwayError."""
    allowed = os.sched_getaffinity(0)
    rates: dict[int, float] = {}
    try:
        for cpu, sources in counter.sources.items():
            with suppress(OSError):
                os.sched_setaffinity(0, {cpu})
            before, start = [_read(source) for source in sources[: 1 + counter.reference]], time.monotonic_ns()
            while time.monotonic_ns() - start < CALIBRATION_NS:
                pass
            after, end = [_read(source) for source in sources[: 1 + counter.reference]], time.monotonic_ns()
            for old, new in zip(before, after, strict=True):
                rate = 0.0 if old is None or new is None else (new - old) * 1e9 / (end - start)
                if not MIN_HZ <= rate <= MAX_HZ:
                    raise HeadwayError(f"{counter.name}: they do not count on processor {cpu}")
                rates[cpu] = rate
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)
    return Counter(counter.name, counter.sources, counter.reference, counter.smi, rates if counter.reference else {})


def by_counter(
    counter: Counter, cpu: int, before: Sequence[int], after: Sequence[int], span: int, busy: int | None
) -> Frequency:
    """Return busy ticks and actual frequency of a processor from two readings of its counters, ``span`` ns apart.

    ``busy``: ns in which the processor was not halted, needed if there is no reference counter; None: unknown.
    """
    values: list[int] = []
    for i in range(1 + counter.reference):
        at = i * counter.width
        grown = after[at] - before[at]
        if counter.width == _PERF_WORDS:
            enabled, running = after[at + 1] - before[at + 1], after[at + 2] - before[at + 2]
            if running < enabled or enabled < span * 0.9:
                return (
                    Frequency()
                )  # the counter was shared, or the processor was off: it counted only a part of the time
        if not 0 <= grown <= MAX_HZ * span / 1e9:
            return Frequency(broken="counter")
        values.append(grown)
    ticks = values[0]
    if counter.reference:
        seconds = values[1] / counter.reference_hz[cpu]
        if seconds > span / 1e9 * 1.05:
            return Frequency(broken="counter")
    else:
        seconds = (busy or 0) / 1e9
    if not seconds or not ticks:
        return Frequency(ticks)
    hz = ticks / seconds
    if not MIN_HZ <= hz <= MAX_HZ:  # there were too few cycles for a frequency
        return Frequency(ticks if counter.reference else None)
    return Frequency(ticks, hz)


def smi_of(counter: Counter | None, before: Sequence[int], after: Sequence[int]) -> int | None:
    """Return the system management interrupts between two readings; None if not counted, or if the count decreased."""
    if counter is None or not counter.smi:
        return None
    at = 2 * counter.width
    return after[at] - before[at] if after[at] >= before[at] else None


def by_chain(chains: Sequence[int], length: int) -> float | None:
    """Return the frequency from the times (ns) that chains of ``length`` cycles took; None if they do not agree."""
    if not length or not chains or min(chains) <= 0:
        return None
    hz = length * 1e9 / min(chains)
    return hz if max(chains) <= min(chains) * (1 + AGREEMENT) and MIN_HZ <= hz <= MAX_HZ else None
