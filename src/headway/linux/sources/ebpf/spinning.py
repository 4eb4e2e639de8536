"""Find threads that spin, in samples of their code, while they are measured.

A thread spins while `IN_A_ROW` samples in a row find it in the same loop that spins (`headway.binary.spin_loops`). From
then on every sample in that loop is one of spinning, of any thread of the process, however short. So a sample is judged
if the one before it was near, or if it is in such a loop, and what it tells is known when the next one of its thread has
come, or at a reading.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from headway.binary.spin_loops import MAX_BYTES, SpinLoop, SpinLoops
from headway.linux.bpf.code_samples import CodeSample, Polled
from headway.linux.symbols.frames import Stacks
from headway.linux.symbols.modules import Modules
from headway.model import Ledger, Thread

from ..spinning import SPINNING, Place, with_spinning

__all__ = ["SpinFinder"]

MAX_JUDGED = 1 << 13
"""Of so many places in code it is remembered whether a thread spins there."""
MAX_PLACES = 1 << 10
"""So many loops in which threads spin have names."""

_Key = tuple[int, int]
"""A thread: (tid, birth)."""
_Loop = tuple[int, SpinLoop]
"""A process and a loop in its code."""


class _Samples(Protocol):
    def take(self) -> Iterable[CodeSample | Polled]: ...


@dataclass(slots=True)
class _Tally:
    """How many samples of a thread's user code there are, and in which loops it spun."""

    samples: Counter[str] = field(default_factory=Counter)
    places: dict[_Loop, Place] = field(default_factory=dict)

    def add(self, loop: _Loop | None, *, begins: bool) -> None:
        """Count a sample. ``loop``: in which the thread spun; None: it did not."""
        self.samples["user" if loop is None else SPINNING] += 1
        if loop is not None:
            place = self.places.setdefault(loop, Place())
            place.samples += 1
            place.spins += begins


@dataclass(slots=True)
class _Course:
    """What is known of a thread."""

    total: _Tally = field(default_factory=_Tally)
    new: _Tally = field(default_factory=_Tally)
    """Since the last interval."""
    last: CodeSample | None = None
    """The last sample; None: there is none, or what it told no longer matters."""
    counted: bool = False
    """Whether the last sample is counted."""
    spun: _Loop | None = None
    """The loop in which the last sample, and the one before it, found the thread."""
    began: bool = False
    """Whether the next sample in that loop is not the first one that is counted of this spin."""

    def count(self, loop: _Loop | None) -> None:
        """Count the last sample, once. ``loop``: in which the thread spun."""
        if self.last is None or self.counted:
            return
        begins = loop is not None and not self.began
        self.total.add(loop, begins=begins)
        self.new.add(loop, begins=begins)
        self.began = loop is not None
        self.counted = True


class SpinFinder:
    """Counts the samples of user code of each thread, and those that spin."""

    def __init__(self, samples: _Samples, *, forget: bool) -> None:
        """``forget``: threads that have ended are in the interval in which they did, and in no other reading."""
        self._samples, self._forget = samples, forget
        self._loops = SpinLoops(platform.machine())
        self._threads: dict[_Key, _Course] = {}
        self._by_tid: dict[int, _Course] = {}
        self._judged: dict[tuple[int, bytes], SpinLoop | None] = {}
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
                    course.last = None  # it was polling
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
            course.count(course.spun)
            tally = course.new if interval else course.total
            samples[i] = tally.samples
            if tally.places:
                places[i] = self._named(tally)
            if interval:
                course.new = _Tally()
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
        for loop, place in tally.places.items():
            whole = named.setdefault(self._names.of(loop), Place())
            whole.samples += place.samples
            whole.spins += place.spins
        return named

    def _add(self, sample: CodeSample) -> None:
        key = sample.tid, sample.birth
        course = self._threads.get(key)
        if course is None:
            course = self._threads[key] = self._by_tid[sample.tid] = _Course()
        last, loop = course.last, self._proven_loop(sample)
        if last is not None and abs(last.address - sample.address) < MAX_BYTES:
            found = self._loop(sample)
            if found is not None and found == self._loop(last):
                loop = sample.pid, found
                self._proven.setdefault(sample.pid, set()).add(found)
        course.count(course.spun or (loop if last is not None and self._is_in(last, loop) else None))
        course.last, course.counted, course.spun = sample, False, loop
        if loop is not None:
            self._names.note(loop)

    def _proven_loop(self, sample: CodeSample) -> _Loop | None:
        """Return the loop that a sample is in, if threads were found to spin in it."""
        for loop in self._proven.get(sample.pid, ()):
            if loop.start <= sample.address < loop.end and self._loop(sample) == loop:
                return sample.pid, loop
        return None

    def _is_in(self, sample: CodeSample, loop: _Loop | None) -> bool:
        return loop is not None and loop[1].start <= sample.address < loop[1].end and self._loop(sample) == loop[1]

    def _loop(self, sample: CodeSample) -> SpinLoop | None:
        key = sample.address, sample.code
        if key not in self._judged:
            if len(self._judged) >= MAX_JUDGED:
                self._judged.clear()
            self._judged[key] = self._loops.around(sample.address, sample.read)
        return self._judged[key]

    def close(self) -> None:
        """Close the files whose functions have names; may be called again."""
        self._names.close()


class _PlaceNames:
    """The names of loops: those of their functions. What a process has mapped is read while it spins."""

    def __init__(self) -> None:
        self._modules = Modules()
        self._stacks = Stacks(self._modules)
        self._noted: dict[_Loop, int] = {}
        self._names: dict[_Loop, str] = {}

    def note(self, loop: _Loop) -> None:
        """Note a loop, whose process lives."""
        if loop in self._noted or len(self._noted) >= MAX_PLACES:
            return
        pid, found = loop
        self._stacks.know(pid)
        self._noted[loop] = self._stacks.add(self._modules.space(pid), (found.start,), (), most=2)

    def of(self, loop: _Loop) -> str:
        """Return the name of a loop's function, with its file; the address if there is none."""
        if loop not in self._names:
            self._names.clear()
            stacks, frames = self._stacks.resolve()
            for each, number in self._noted.items():
                frame = frames[stacks[number][0]]
                module = "" if frame.module is None else f" ({frame.module.rpartition('/')[2]})"
                self._names[each] = f"{frame.function or hex(frame.address or each[1].start)}{module}"
        return self._names.get(loop, hex(loop[1].start))

    def close(self) -> None:
        """Close all files."""
        self._modules.close()
