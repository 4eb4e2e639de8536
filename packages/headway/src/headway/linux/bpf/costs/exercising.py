"""A process of headway's own that does on request what events cost something of (`calibration`).

What it does is in `exercises`, which only that process imports.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from types import TracebackType

from headway.dataclass import dataclass
from headway.exhaustion import fork

from ..programs.unavailable import UnavailableError
from .rounds import CALLS, FAULTS, FUNCTION_CALLS, HANDOVERS, LOOKS, MARKS, POLLS, READS, WAYS_BACK

__all__ = ["Exercise", "ExercisingProcess"]

_SAME_SPEED = 0.15
"""The relative difference of two exercises between which the machine has not changed its speed."""


@dataclass(frozen=True, slots=True)
class Exercise:
    """What it takes, ns: one call, one that could be a status check (a read), one status check that finds nothing, one
    that is such by its file (a read too), one fault, one hand-over and back (four reads and writes, two switches, two
    wake-ups)."""

    call: float
    read: float
    poll: float
    look: float
    fault: float
    handover: float

    def is_like(self, other: Exercise) -> bool:
        """Return whether calls and hand-overs took about as long in another one."""
        pairs = (self.call, other.call), (self.handover, other.handover)
        return all(abs(one - two) <= _SAME_SPEED * max(one, two) for one, two in pairs)

    @classmethod
    def mean(cls, many: Sequence[Exercise]) -> Exercise:
        """Of several."""
        return cls(*(sum(getattr(one, f.name) for one in many) / len(many) for f in fields(cls)))


class ExercisingProcess:
    """A process of ours with two threads: started when entered, gone when left."""

    pid: int
    undisturbed: bool = True
    """Whether enough rounds so far had their processor to themselves."""

    def __enter__(self) -> ExercisingProcess:
        """Start it."""
        ask, self._ask = os.pipe()
        self._answer, answer = os.pipe()
        self.pid = fork()
        if self.pid == 0:
            os.close(self._ask)
            os.close(self._answer)
            try:
                from .exercises import answer_all  # the other processor has nothing to do yet

                answer_all(ask, answer)
            finally:
                os._exit(0)
        os.close(ask)
        os.close(answer)
        return self

    def _asked(self, what: bytes) -> list[int]:
        """Have it do something. Return the figures, of which the first, whether it was undisturbed, is taken off.

        Raises UnavailableError if it has ended: it lacked a thread, a file or memory.
        """
        answer = b""
        with suppress(BrokenPipeError):
            os.write(self._ask, what)
            answer = os.read(self._answer, 128)
        if not answer:
            raise UnavailableError(
                "the process that headway calibrates with has no thread, file or memory left",
                "raise the limits (ulimit -a; pids.max and memory.max of the control group)",
            )
        undisturbed, *figures = map(int, answer.split())
        self.undisturbed = self.undisturbed and bool(undisturbed)
        return figures

    def exercise(self) -> Exercise:
        """How long it takes now: the medians of a few rounds."""
        call, read, poll, look, fault, handover = self._asked(b"?")
        return Exercise(call / CALLS, read / READS, poll / POLLS, look / LOOKS, fault / FAULTS, handover / HANDOVERS)

    def wait(self) -> None:
        """Wait until it is ready."""
        self._asked(b"r")

    def calls(self) -> float:
        """Return how long a system call takes now, ns: the median of a few rounds."""
        return self._asked(b"q")[0] / CALLS

    def marks(self) -> tuple[float, float]:
        """Return what a pair of marks of a region takes, in the region and around it, ns: medians of a few rounds."""
        inside, whole = self._asked(b"m")
        return inside / MARKS, max(whole - inside, 0) / MARKS

    def call(self) -> int:
        """Return how long it takes to make `SAMPLED_CALLS` system calls, ns."""
        return self._asked(b"c")[0]

    def call_functions(self, which: int) -> int:
        """Call a function that does nothing, of the kind `FUNCTIONS[which]`; how often."""
        self._asked(b"%d" % which)
        return FUNCTION_CALLS

    def come_back(self) -> int:
        """Put work off until the end of a call, and send itself signals; how often each."""
        self._asked(b"b")
        return WAYS_BACK

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        """End it."""
        os.close(self._ask)
        os.close(self._answer)
        os.waitpid(self.pid, 0)
