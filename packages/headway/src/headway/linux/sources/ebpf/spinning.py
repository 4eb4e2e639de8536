"""Find threads that spin, in samples of their code, while they are measured.

There are two signs of it. A thread spins

- while `IN_A_ROW` samples in a row find it in the same loop that spins (`headway.binary.spin_loops`). From then on
  every sample in that loop is one of spinning, of any thread of the process, however short it is there;
- while it comes back to the same state again and again (`Stretch`).

The code of a sample is looked at if the one before it was near, or if it is in such a loop. What a sample tells is
known when the next one of its thread has come, or at a reading.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from headway.binary.hidden_state import HiddenState
from headway.binary.spin_loops import MAX_BYTES, SpinLoop, SpinLoops
from headway.linux.bpf.samples.code_samples import CodeSample, Polled
from headway.linux.symbols.frames import Stacks
from headway.linux.symbols.modules import Modules, Space
from headway.model import SPINNING, Ledger, Thread

from ..spinning import Place, with_spinning
from .returns import RETURNS, Stretch

__all__ = ["SpinFinder"]

MAX_JUDGED = 1 << 13
"""Of so many places in code it is remembered whether a thread spins there."""
MAX_PLACES = 1 << 12
"""So many places in which threads spin have names."""

_Key = tuple[int, int]
"""A thread: (tid, birth)."""
_Spot = tuple[int, int, bool]
"""A process, an address in it, and whether a loop that spins is there, or an instruction to which a thread returns."""


class _Samples(Protocol):
    def take(self) -> Iterable[CodeSample | Polled]: ...


@dataclass(slots=True)
class _Tally:
    """How many samples of a thread's user code there are, and where it spun."""

    samples: Counter[str] = field(default_factory=Counter)
    places: dict[_Spot, Place] = field(default_factory=dict)

    def add(self, spot: _Spot, number: int, *, begins: bool) -> None:
        """Add samples of spinning. ``begins``: the thread did something else before."""
        self.samples[SPINNING] += number
        place = self.places.setdefault(spot, Place())
        place.samples += number
        place.spins += begins


@dataclass(slots=True)
class _Course:
    """What is known of a thread."""

    total: _Tally = field(default_factory=_Tally)
    new: _Tally = field(default_factory=_Tally)
    """Since the last interval."""
    last: CodeSample | None = None
    """The last sample, if it has not been counted."""
    before: CodeSample | None = None
    """The last sample; None: there is none, or what it told no longer matters."""
    loop: SpinLoop | None = None
    """The loop that spins in which the last sample found the thread."""
    spins: bool = False
    """Whether the last sample that was counted is one of spinning."""
    stretch: Stretch = field(default_factory=Stretch)

    def count(self, hides: Callable[[CodeSample], bool]) -> tuple[_Spot, ...]:
        """Count the last sample, once. Return where the thread spun, as far as that was found now.

        ``hides``: as for `Stretch.add`.
        """
        sample, self.last = self.last, None
        if sample is None:
            return ()
        if self.loop is not None:
            spot = sample.pid, self.loop.start, True
            self._spin(spot, 1)
            return (spot,)
        for tally in (self.total, self.new):
            tally.samples["user"] += 1
        found = self.stretch.add(sample, hides)
        if found is None:
            self.stretch = Stretch()
            self.stretch.add(sample, hides)
        for address, number in (found or {}).items():
            for tally in (self.total, self.new):
                tally.samples["user"] -= number
            self._spin((sample.pid, address, False), number)
        self.spins = bool(found) or (self.spins and self.stretch.returns >= RETURNS and not self.stretch.hides)
        return tuple((sample.pid, address, False) for address in found or ())

    def _spin(self, spot: _Spot, number: int) -> None:
        for tally in (self.total, self.new):
            tally.add(spot, number, begins=not self.spins)
        self.spins = True


class SpinFinder:
    """Counts the samples of user code of each thread, and those that spin."""

    def __init__(self, samples: _Samples, *, forget: bool) -> None:
        """``forget``: threads that have ended are in the interval in which they did, and in no other reading."""
        self._samples, self._forget = samples, forget
        self._loops = SpinLoops(platform.machine())
        self._threads: dict[_Key, _Course] = {}
        self._by_tid: dict[int, _Course] = {}
        self._state = HiddenState(platform.machine())
        self._judged: dict[tuple[int, bytes], SpinLoop | None] = {}
        self._hidden: dict[tuple[int, bytes], bool] = {}
        self._proven: dict[int, set[SpinLoop]] = {}
        self._names = _PlaceNames()
        self._later: list[CodeSample | Polled] = []

    def look(self, until: int | None = None) -> None:
        """Take over what was sampled. ``until``: what came later belongs to a later reading; ns of CLOCK_MONOTONIC."""
        told, self._later = [*self._later, *self._samples.take()], []
        for one in told:
            if isinstance(one, Polled):
                course = self._by_tid.get(one.tid)
                if course is not None and course.last is not None and course.last.since == one.since:
                    course.last = course.before = None  # it was polling
            elif until is not None and one.time > until:
                self._later.append(one)
            else:
                self._add(one)

    def told(self, ledger: Ledger, *, interval: bool) -> Ledger:
        """Return a ledger with the spinning in it. ``interval``: it is of what came since the last interval."""
        samples: dict[int, Counter[str]] = {}
        places: dict[int, dict[str, Place]] = {}
        for i, thread in enumerate(ledger.threads):
            course = self._threads.get(thread.key)
            if course is None:
                continue
            self._names.note(course.count(self._hides))
            tally = course.new if interval else course.total
            samples[i] = tally.samples
            if tally.places:
                places[i] = self._named(tally)
            if interval:
                course.new = _Tally()
                course.stretch.read()
                self._let_go(thread)
        return with_spinning(ledger, samples, places)

    def _let_go(self, thread: Thread) -> None:
        if self._forget and thread.end is not None:
            course = self._threads.pop(thread.key)
            if self._by_tid.get(thread.tid) is course:
                del self._by_tid[thread.tid]
            if thread.tid == thread.pid:
                self._proven.pop(thread.pid, None)

    def _named(self, tally: _Tally) -> dict[str, Place]:
        named: dict[str, Place] = {}
        for spot, place in tally.places.items():
            whole = named.setdefault(self._names.of(spot), Place())
            whole.samples += place.samples
            whole.spins += place.spins
        return named

    def _add(self, sample: CodeSample) -> None:
        key = sample.tid, sample.birth
        course = self._threads.get(key)
        if course is None:
            course = self._threads[key] = self._by_tid[sample.tid] = _Course()
        before = course.before
        loop = self._proven_loop(sample)
        if loop is None and before is not None and abs(before.address - sample.address) < MAX_BYTES:
            loop = self._loop(sample)
            if loop is not None and loop == self._loop(before):
                self._proven.setdefault(sample.pid, set()).add(loop)
                course.loop = loop
            else:
                loop = None
        self._names.note(course.count(self._hides))
        course.last = course.before = sample
        course.loop = loop

    def _proven_loop(self, sample: CodeSample) -> SpinLoop | None:
        """Return the loop that a sample is in, if threads were found to spin in it."""
        for loop in self._proven.get(sample.pid, ()):
            if loop.start <= sample.address < loop.end and self._loop(sample) == loop:
                return loop
        return None

    def _loop(self, sample: CodeSample) -> SpinLoop | None:
        key = sample.address, sample.code
        if key not in self._judged:
            if len(self._judged) >= MAX_JUDGED:
                self._judged.clear()
            self._judged[key] = self._loops.around(sample.address, sample.read)
        return self._judged[key]

    def _hides(self, sample: CodeSample) -> bool:
        key = sample.address, sample.code
        if key not in self._hidden:
            if len(self._hidden) >= MAX_JUDGED:
                self._hidden.clear()
            self._hidden[key] = self._state.around(sample.address, sample.start, sample.code)
        return self._hidden[key]

    def close(self) -> None:
        """Close the files whose functions have names; may be called again."""
        self._names.close()


class _PlaceNames:
    """The names of places in code: those of their functions. What a process has mapped is read while it spins."""

    def __init__(self) -> None:
        self._modules = Modules()
        self._stacks = Stacks(self._modules)
        self._spaces: dict[int, Space] = {}
        self._noted: dict[_Spot, int] = {}
        self._names: dict[_Spot, str] = {}

    def note(self, spots: Iterable[_Spot]) -> None:
        """Note places in processes that live."""
        for spot in spots:
            if spot not in self._noted and len(self._noted) < MAX_PLACES:
                pid, address, _ = spot
                space = self._spaces.get(pid)
                if space is None or space.at(address) is None:  # it has mapped more since
                    self._stacks.know(pid)
                    space = self._spaces[pid] = self._modules.space(pid)
                self._noted[spot] = self._stacks.add(space, (address,), (), most=2)

    def of(self, spot: _Spot) -> str:
        """Return the name of a place's function, with its file. A loop without a function has its address."""
        if spot not in self._names:
            stacks, frames = self._stacks.resolve()
            for each, number in self._noted.items():
                frame = frames[stacks[number][0]]
                module = "" if frame.module is None else frame.module.rpartition("/")[2]
                what = frame.function or (hex(frame.address or each[1]) if each[2] or not module else "")
                self._names[each] = f"{what} ({module})" if what and module else what or module
        return self._names.get(spot, hex(spot[1]))

    def close(self) -> None:
        """Close all files."""
        self._modules.close()
