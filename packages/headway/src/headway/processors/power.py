"""The low-power states of a processor, its thermal throttling and the limit of its frequency, from sysfs.

cpuidle adds the time of a state when the processor leaves it (Documentation/admin-guide/pm/cpuidle.rst). In a meeting
of all processors none is idle, so what is read afterwards is complete as of the meeting. The files stay open, so that
reading one costs a microsecond.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

__all__ = ["ProcessorPower", "growth", "longest_growth", "since"]

_FOLDER = Path("/sys/devices/system/cpu")
_THROTTLES = ("core_throttle_count", "package_throttle_count")
_THROTTLED_TIMES = ("core_throttle_total_time_ms", "package_throttle_total_time_ms")
"""Of Intel processors (drivers/thermal/intel/therm_throt.c). The kernel adds the time of a throttling when it ends."""
_LIMIT, _HIGHEST = "cpufreq/scaling_max_freq", "cpufreq/cpuinfo_max_freq"
"""In kHz (Documentation/admin-guide/pm/cpufreq.rst). The limit follows the user, the firmware and cooling devices."""


class ProcessorPower:
    """The idle states, throttling and frequency limits of some processors."""

    def __init__(self, cpus: Iterable[int], folder: Path = _FOLDER) -> None:
        self._idle: dict[int, list[tuple[str, int]]] = {}
        self._throttles: dict[int, list[int]] = {}
        self._throttled_times: dict[int, list[int]] = {}
        self._limits: dict[int, list[int]] = {}
        self._highest: dict[int, int] = {}
        for cpu in cpus:
            states = sorted(
                (folder / f"cpu{cpu}" / "cpuidle").glob("state[0-9]*"), key=lambda at: (len(at.name), at.name)
            )
            named = {at.name: _name(at) for at in states}
            twice = len(set(named.values())) < len(named)
            opened = [(at.name if twice else named[at.name], _open(at / "time")) for at in states]
            self._idle[cpu] = [(name, fd) for name, fd in opened if fd is not None]
            throttling = folder / f"cpu{cpu}" / "thermal_throttle"
            self._throttles[cpu] = _opened(throttling / name for name in _THROTTLES)
            self._throttled_times[cpu] = _opened(throttling / name for name in _THROTTLED_TIMES)
            highest = _read(folder / f"cpu{cpu}" / _HIGHEST)
            self._limits[cpu] = [] if highest is None else _opened([folder / f"cpu{cpu}" / _LIMIT])
            if highest is not None:
                self._highest[cpu] = highest * 1000
        self.names: tuple[str, ...] = tuple(dict.fromkeys(name for states in self._idle.values() for name, _ in states))
        """The names of the idle states, shallow ones first; empty if the kernel reports none."""
        self.throttles = any(self._throttles.values())
        """Whether throttling is counted."""
        self.throttled_times = any(self._throttled_times.values())
        """Whether the time of throttling is told."""
        self.limits = any(self._limits.values())
        """Whether the limit of the frequency is told."""

    def idle_states(self, cpu: int) -> dict[str, int | None]:
        """Return the time in each idle state since boot, in ns; None for a state that cannot be read."""
        return {name: None if (us := _number(fd)) is None else us * 1000 for name, fd in self._idle[cpu]}

    def idle(self, cpu: int) -> int | None:
        """Return the time in all idle states since boot, in ns; None if one cannot be read, or if there is none."""
        times = list(self.idle_states(cpu).values())
        known = [time for time in times if time is not None]
        return sum(known) if times and len(known) == len(times) else None

    def throttled(self, cpu: int) -> int | None:
        """Return how often it or its package was throttled for heat since boot; None if that is not counted."""
        counts = [_number(fd) for fd in self._throttles[cpu]]
        known = [count for count in counts if count is not None]
        return sum(known) if counts and len(known) == len(counts) else None

    def throttled_ns(self, cpu: int) -> tuple[int | None, ...]:
        """Return for how long its core, and its package, was throttled for heat since boot, in ns: as far as told."""
        return tuple([None if (ms := _number(fd)) is None else ms * 1_000_000 for fd in self._throttled_times[cpu]])

    def limit_hz(self, cpu: int) -> int | None:
        """Return the highest frequency that it may have at present; None if that is not told."""
        fds = self._limits[cpu]
        khz = _number(fds[0]) if fds else None
        return None if khz is None else khz * 1000

    def highest_hz(self, cpu: int) -> int | None:
        """Return the highest frequency that it can have; None if that is not told."""
        return self._highest.get(cpu)

    def close(self) -> None:
        """Close the files."""
        for states in self._idle.values():
            _close(fd for _, fd in states)
        self._idle = {cpu: [] for cpu in self._idle}
        for files in (self._throttles, self._throttled_times, self._limits):
            for fds in files.values():
                _close(fds)
                fds.clear()


def longest_growth(after: Iterable[int | None], before: Iterable[int | None]) -> int | None:
    """Return the largest growth of several counts that count partly the same; None if none of them is known."""
    grown = [growth(new, old) for new, old in zip(after, before, strict=False)]
    return max((each for each in grown if each is not None), default=None)


def since(after: dict[str, int | None], before: dict[str, int | None]) -> dict[str, int | None]:
    """Return the growth between two readings, by name; None where it is unknown, or where a count decreased."""
    return {name: growth(time, before.get(name)) for name, time in after.items()}


def growth(after: int | None, before: int | None) -> int | None:
    """Return how much a count grew; None if that is unknown, or if the count decreased."""
    return None if after is None or before is None or after < before else after - before


def _name(state: Path) -> str:
    with suppress(OSError):
        name = (state / "name").read_text(errors="replace").strip()[:32]
        if name:
            return name
    return state.name


def _open(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _opened(paths: Iterable[Path]) -> list[int]:
    return [fd for fd in map(_open, paths) if fd is not None]


def _read(path: Path) -> int | None:
    """Return the number in a file that is read once."""
    fd = _open(path)
    if fd is None:
        return None
    try:
        return _number(fd)
    finally:
        os.close(fd)


def _number(fd: int) -> int | None:
    try:
        text = os.pread(fd, 64, 0)
    except OSError:
        return None
    text = text.strip()
    return int(text) if text.isdigit() and len(text) < 16 else None


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        with suppress(OSError):
            os.close(fd)
