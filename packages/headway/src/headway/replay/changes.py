"""Changes to a run, as they are written on the command line: ``parse=2x``, ``worker-*:kernel.read=30%``, ``+1``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from headway.errors import HeadwayError

__all__ = [
    "Change",
    "Faster",
    "LockFree",
    "MoreThreads",
    "Processors",
    "Without",
    "parse_changes",
    "parse_factor",
    "parse_faster",
    "parse_more_threads",
    "parse_processors",
]

_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,6})?"
_ADDRESS = re.compile(r"0x([0-9a-fA-F]{1,16})", re.ASCII)
MOST_THREADS = 64
MOST_PROCESSORS = 65_536


@dataclass(frozen=True, slots=True)
class Faster:
    """Something takes less time: a marked region or function, a state, a function of a profile, or a thread."""

    what: str
    """What `what` names is decided by what the recording has: ``parse``, ``kernel.read``, ``worker-*:user``."""
    keep: Fraction
    """The part of the time that is left: 1/2 for twice as fast; more than 1 for slower."""

    def __str__(self) -> str:
        """Return the change in words."""
        return f"{self.what} {_speed(self.keep)}"


@dataclass(frozen=True, slots=True)
class LockFree:
    """Threads no longer wait for each other at a lock."""

    what: str
    """The name of the threads, ``NAME:STATE`` or ``NAME:ADDRESS``; or the address alone, of a futex: ``0x7f..``."""
    name: str = ""
    """The name of the lock at the address; empty: it is not known."""

    @property
    def threads(self) -> str:
        """The name of the threads."""
        name, colon, _ = self.what.rpartition(":")
        return name if colon and name else "*" if self.address else self.what

    @property
    def state(self) -> str | None:
        """The state in which they wait; None: that is not said."""
        name, colon, state = self.what.rpartition(":")
        return state if colon and name and not self.address else None

    @property
    def address(self) -> int:
        """The address of the lock; 0: that is not said."""
        found = _ADDRESS.fullmatch(self.what.rpartition(":")[2])
        return int(found[1], 16) if found else 0

    def __str__(self) -> str:
        """Return the change in words."""
        if self.address:
            named = f"{self.name} ({self.address:#x})" if self.name else f"{self.address:#x}"
            return f"no waiting for the lock {named} among {self.threads}"
        return f"no waiting for locks among {self.what}"


@dataclass(frozen=True, slots=True)
class Processors:
    """The threads have another number of processors."""

    number: int
    relative: bool

    def __str__(self) -> str:
        """Return the change in words."""
        if not self.relative:
            return "1 processor" if self.number == 1 else f"{self.number} processors"
        many = "" if abs(self.number) == 1 else "s"
        return f"{abs(self.number)} processor{many} {'more' if self.number > 0 else 'fewer'}"

    def of(self, now: int) -> int:
        """Return the number of processors after the change. Raises HeadwayError if none is left."""
        number = now + self.number if self.relative else self.number
        if not 1 <= number <= MOST_PROCESSORS:
            raise HeadwayError(f"the threads ran on {now} processors, so {self} leaves {number}: leave at least 1")
        return number


@dataclass(frozen=True, slots=True)
class Without:
    """A neighbour is gone: a process by its name or id, or ``others`` for all that is not measured."""

    what: str

    def __str__(self) -> str:
        """Return the change in words."""
        return "without what is not measured" if self.what == "others" else f"without {self.what}"


@dataclass(frozen=True, slots=True)
class MoreThreads:
    """A pool has more threads, which share its work."""

    what: str
    """The name of its threads."""
    factor: int

    def __str__(self) -> str:
        """Return the change in words."""
        return f"{self.factor} times as many threads {self.what}"


Change = Faster | LockFree | Processors | Without | MoreThreads


def _speed(keep: Fraction) -> str:
    if not keep:
        return "in no time"
    if keep == 1:
        return "as fast"
    factor = 1 / keep
    text = f"{float(factor):.6g}x as fast"
    return text if factor.denominator < 100 else f"in {float(1 - keep) * 100:.6g} % less time"


def parse_factor(text: str) -> Fraction:
    """Return the part of the time that is left. ``2x`` is half, ``30%`` is 70 %, ``100%`` is nothing.

    Raises HeadwayError if the text is neither.
    """
    wanted = re.fullmatch(rf"({_NUMBER})(x|%)", text.replace(" ", ""), re.ASCII)
    number = Fraction(wanted[1]) if wanted else Fraction(-1)
    if wanted and wanted[2] == "x" and number > 0:
        return 1 / number
    if wanted and wanted[2] == "%" and number <= 100:
        return 1 - number / 100
    raise HeadwayError(f"{text!a} is no speed: write 2x for twice as fast, or 30% for 30 per cent less time")


def parse_faster(text: str) -> Faster:
    """Return the change ``WHAT=SPEED``. Raises HeadwayError."""
    what, separator, speed = text.rpartition("=")
    if not separator or not what.strip():
        raise HeadwayError(f"{text!a} does not say what is faster: write it like parse=2x or kernel.read=30%")
    return Faster(what.strip(), parse_factor(speed))


def parse_processors(text: str) -> Processors:
    """Return the change: ``4``, ``+1`` or ``-1``. Raises HeadwayError."""
    if not re.fullmatch(r"[+-]?[0-9]{1,5}", text, re.ASCII) or int(text) == 0:
        raise HeadwayError(f"{text!a} is no number of processors: write 4, or +1 for one more, or -1 for one fewer")
    return Processors(int(text), text[0] in "+-")


def parse_more_threads(text: str) -> MoreThreads:
    """Return the change ``NAME=Nx``. Raises HeadwayError."""
    found = re.fullmatch(r"(.+)=([0-9]{1,3})x?", text, re.ASCII | re.DOTALL)
    factor = int(found[2]) if found else 0
    if found is None or not 2 <= factor <= MOST_THREADS:
        raise HeadwayError(
            f"{text!a} is no pool with more threads: write it like 'worker-*=2x', at most {MOST_THREADS}x"
        )
    return MoreThreads(found[1].strip(), factor)


def parse_changes(
    *,
    faster: Sequence[str] = (),
    disk: str | None = None,
    lock_free: Sequence[str] = (),
    processors: str | None = None,
    threads: Sequence[str] = (),
    without: Sequence[str] = (),
) -> list[Change]:
    """Return the changes that the options of ``headway what-if`` with these names say. Raises HeadwayError."""
    found: list[Change] = [parse_faster(text) for text in faster]
    if disk is not None:
        found.append(Faster("wait.disk", parse_factor(disk)))
    found += [LockFree(text) for text in lock_free]
    if processors is not None:
        found.append(parse_processors(processors))
    found += [parse_more_threads(text) for text in threads]
    found += [Without(text) for text in without]
    return found
