"""The processors of this machine: which exist, which are online, which are isolated."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from headway.errors import SelectionError
from headway.text import is_number
from headway.values import shown

__all__ = ["OnlineList", "as_list", "isolated", "online", "parse_list", "possible", "timer_line"]

_FOLDER = Path("/sys/devices/system/cpu")


def parse_list(text: str) -> tuple[int, ...]:
    """Return the processors of a list in the kernel's notation (``0-3,8``), ascending. Raises SelectionError."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, dash, last = part.strip().partition("-")
        if not is_number(first) or (dash and not is_number(last)):
            raise SelectionError(f"{shown(text)} is not a list of processors: write it like 0,2 or 0-3,8")
        low, high = int(first), int(last) if dash else int(first)
        if low > high or high > 65535:
            raise SelectionError(f"{shown(part)} is not a range of processors: write it like 0-3")
        cpus.update(range(low, high + 1))
    return tuple(sorted(cpus))


def possible(folder: Path = _FOLDER) -> int:
    """Return how many processors there can ever be: the highest number plus one."""
    return parse_list((folder / "possible").read_text())[-1] + 1


def online(folder: Path = _FOLDER) -> tuple[int, ...]:
    """Return the processors that are online."""
    try:
        return parse_list((folder / "online").read_text())
    except OSError:
        return tuple(range(os.cpu_count() or 1))


class OnlineList:
    """The processors that are online, for who asks often: the file stays open, and is parsed when it has changed."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        self._folder = folder
        self._text = b""
        self._processors: tuple[int, ...] = ()
        self._fd = -1
        with suppress(OSError):
            self._fd = os.open(folder / "online", os.O_RDONLY | os.O_CLOEXEC)

    @property
    def processors(self) -> tuple[int, ...]:
        """The same as `online` returns."""
        text = b""
        if self._fd >= 0:
            with suppress(OSError):
                text = os.pread(self._fd, 65536, 0)
        if not text or text != self._text:
            self._text, self._processors = text, online(self._folder)
        return self._processors

    def close(self) -> None:
        """Close the file; may be called again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def isolated(folder: Path = _FOLDER) -> frozenset[int]:
    """Return the processors that the kernel keeps other work off (isolcpus, nohz_full, partitions)."""
    found: set[int] = set()
    for name in ("isolated", "nohz_full"):
        with suppress(OSError, SelectionError):
            found.update(parse_list((folder / name).read_text()))
    return frozenset(found)


def timer_line(table: Path = Path("/proc/interrupts")) -> int:
    """Return the number of the interrupt line that the processors' own timers share, as on arm64; 0: there is none.

    Source: drivers/clocksource/arm_arch_timer.c, which requests it as ``arch_timer``.
    """
    with suppress(OSError):
        for row in table.read_text(encoding="utf-8", errors="replace").splitlines():
            number, colon, words = row.partition(":")
            if colon and is_number(number.strip()) and words.split()[-1:] == ["arch_timer"]:
                return int(number.strip())
    return 0


def as_list(cpus: Iterable[int]) -> str:
    """Return processors in the kernel's notation, which `parse_list` reads."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
