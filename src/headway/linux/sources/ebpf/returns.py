"""Tell that a thread comes back to the same state again and again, from samples of it.

A program that comes back to a state of which it has left nothing behind goes the same way again, until something from
outside changes that. So a thread that does so without a system call waits for memory to change, however long its way is
and whatever functions it calls. What is seen of a state is not all of it (bpf/code_samples.h): the instruction,
registers, the top of the stack, memory behind registers, and how many system calls there were.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from headway.linux.bpf.code_samples import CodeSample

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

    def add(self, sample: CodeSample) -> Counter[int] | None:
        """Return how many samples, this one and earlier ones, are told to spin by it, by address.

        None: the sample does not belong to the stretch.
        """
        known = self.states.get(sample.address)
        if known is None and len(self.states) < MAX_INSTRUCTIONS:
            self.states[sample.address] = sample.visible
            self.fresh.add(sample.address)
            return Counter()
        if known != sample.visible:
            return None
        self.returns += 1
        self.waiting[sample.address] += 1 + (sample.address in self.fresh)
        self.fresh.discard(sample.address)
        if self.returns < RETURNS:
            return Counter()
        found, self.waiting = self.waiting, Counter()
        return found

    def read(self) -> None:
        """Leave what has been told as user code as it is, because it has been read."""
        self.fresh.clear()
        self.waiting.clear()
