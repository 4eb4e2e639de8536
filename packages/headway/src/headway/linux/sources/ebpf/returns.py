"""Tell that a thread comes back to the same state again and again, from samples of it.

A program that comes back to a state of which it has left nothing behind goes the same way again, until something from
outside changes that. So a thread that does so without a system call waits for memory to change, however long its way is
and whatever functions it calls. What is seen of a state is not all of it (bpf/samples/code_samples.h): the instruction,
general registers, the top of the stack, memory behind registers, and how many system calls there were. So nothing is
told of a thread if the code in which it was found may change what is not seen (`headway.binary.hidden_state`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from headway.linux.bpf.samples.code_samples import CodeSample

__all__ = ["RETURNS", "Stretch"]

RETURNS = 8
"""So many returns, at least, and none to an instruction in another state, tell that a thread spins."""
MAX_INSTRUCTIONS = 1 << 10
"""Of a stretch, at most."""


@dataclass(slots=True)
class Stretch:
    """Samples of a thread in a row in which no instruction was found with two states."""

    states: dict[int, int] = field(default_factory=dict)
    """What was seen, by the address of the instruction."""
    fresh: set[int] = field(default_factory=set)
    """The instructions that were found once, since the last reading."""
    waiting: Counter[int] = field(default_factory=Counter)
    """Samples by address that spin if the thread returns often enough."""
    returns: int = 0
    unjudged: list[CodeSample] = field(default_factory=list)
    """A sample at each instruction whose code has not been looked at, which is done only before anything is told."""
    hides: bool = False
    """Whether some of the code may change what is not seen."""

    def add(self, sample: CodeSample, hides: Callable[[CodeSample], bool]) -> Counter[int] | None:
        """Return how many samples, this one and earlier ones, are told to spin by it, by address.

        ``hides``: whether the code of a sample may change what is not seen. None: the sample does not belong to the
        stretch.
        """
        known = self.states.get(sample.address)
        if known is None and len(self.states) < MAX_INSTRUCTIONS:
            self.states[sample.address] = sample.visible
            self.fresh.add(sample.address)
            self.unjudged.append(sample)
            return Counter()
        if known != sample.visible:
            return None
        self.returns += 1
        self.waiting[sample.address] += 1 + (sample.address in self.fresh)
        self.fresh.discard(sample.address)
        if self.returns < RETURNS or self._hides(hides):
            return Counter()
        found, self.waiting = self.waiting, Counter()
        return found

    def _hides(self, hides: Callable[[CodeSample], bool]) -> bool:
        while self.unjudged and not self.hides:
            self.hides = hides(self.unjudged.pop())
        return self.hides

    def read(self) -> None:
        """Leave what has been told as user code as it is, because it has been read."""
        self.fresh.clear()
        self.waiting.clear()
