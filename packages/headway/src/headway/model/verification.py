"""Whether EPI and MPI can be believed: the figures of loops whose cycles are known, and what they show.

An arithmetic loop in registers makes progress in nearly every cycle. A pointer chase through a buffer larger than the
last cache waits for memory nearly all the time. A neighbour that chases pointers on a processor nearby, which shares
caches and perhaps the core, takes time from the arithmetic loop but does not change what one step of it needs. So the
figures of four runs show whether EPI and MPI can be believed on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from headway.dataclass import dataclass
from headway.errors import HeadwayError

from .kinds import Kind, kind_of
from .ledger import Ledger, Thread
from .quality import Quality

__all__ = ["LOOPS", "FigureVerdict", "Finding", "LoopRun", "Verification", "judge", "run_of"]

LOOPS = {"compute": "arithmetic loop", "memory": "pointer chase"}
"""The measured threads of the demo program, and their names for people."""
MAX_MEMORY = 0.05
"""The largest part of the arithmetic loop's own code that may wait for memory."""
MIN_PROGRESS = 0.90
"""The smallest part of it that must be progress."""
MIN_CHASED = 0.50
"""The smallest part of the pointer chase's own code that must wait for memory."""
MAX_CHANGE = 0.10
"""The largest relative change that a neighbour may cause in the arithmetic loop's progress per instruction."""


class FigureVerdict(Enum):
    """Whether a figure can be believed."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    """It is not counted here, or not in a way that can be checked."""


@dataclass(frozen=True, slots=True)
class LoopRun:
    """The figures of one loop: the parts of its own code, in ``unit``."""

    loop: str
    """A key of `LOOPS`."""
    neighbours: int
    """The number of pointer chases that ran beside it."""
    unit: str
    """``cycles`` or ``ns``."""
    epi: int
    mpi: int | None
    """None: waits for memory are not counted here."""
    stall: int | None
    """Other stalls; None: they are not counted here."""
    instructions: int | None
    quality: Mapping[str, Quality]
    """The quality of EPI and MPI."""
    counted: Mapping[str, float]
    """The share of the time in which each counter had hardware, if it is less than 1."""

    @property
    def own(self) -> int:
        """Everything that its own code took."""
        return self.epi + (self.mpi or 0) + (self.stall or 0)

    @property
    def progress(self) -> float | None:
        """The part of its own code that is progress; None if stalls are not counted."""
        return None if self.stall is None or not self.own else self.epi / self.own

    @property
    def memory(self) -> float | None:
        """The part of its own code that waits for memory; None if that is not counted."""
        return None if self.mpi is None or not self.own else self.mpi / self.own

    @property
    def per_instruction(self) -> float | None:
        """EPI for each instruction; None if instructions are not counted."""
        return self.epi / self.instructions if self.instructions else None


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of comparing the runs with one expectation."""

    index: str
    """``epi`` or ``mpi``."""
    expected: str
    found: str
    kept: bool | None
    """Whether the expectation was met; None: it could not be checked, and ``found`` says why."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The runs, the findings, and whether EPI and MPI can be believed."""

    runs: tuple[LoopRun, ...]
    findings: tuple[Finding, ...]
    reasons: Mapping[str, str]
    """Why figures are missing or not exact, according to the measurement."""

    def answer(self, index: str) -> FigureVerdict:
        """Return whether ``epi`` or ``mpi`` can be believed here."""
        kept = [finding.kept for finding in self.findings if finding.index == index]
        if False in kept:
            return FigureVerdict.NO
        return FigureVerdict.YES if kept and None not in kept else FigureVerdict.UNKNOWN


def run_of(ledger: Ledger, loop: str, neighbours: int) -> LoopRun:
    """Return the figures of a loop's own code from a ledger. Raises HeadwayError if the loop did not run."""
    threads = [thread for thread in ledger.threads if thread.name == loop]
    if not threads:
        raise HeadwayError(
            f"the {LOOPS[loop]} did not run, so there is nothing to verify: "
            "headway stat -- on the demo program (headway demo) shows what keeps it from running"
        )
    thread = threads[0]
    indices, amounts = ledger.indices(thread), ledger.amounts(thread)
    precision = amounts.worth(ledger.precision)
    unseen = Quality.UNAVAILABLE
    return LoopRun(
        loop=loop,
        neighbours=neighbours,
        unit=ledger.unit,
        epi=amounts.by_kind[Kind.EFFECTIVE],
        mpi=None if precision.memory is unseen else amounts.by_kind[Kind.MEMORY],
        stall=None if precision.stall is unseen else amounts.by_kind[Kind.STALL],
        instructions=_instructions(thread),
        quality={name: indices.quality[name] for name in ("epi", "mpi")},
        counted={name: share.share for name, share in ledger.counted.items() if not share.whole},
    )


def _instructions(thread: Thread) -> int | None:
    found = [c.instructions for state, c in thread.states.items() if kind_of(state) is Kind.EFFECTIVE and c.time]
    return None if None in found else sum(number for number in found if number is not None)


def judge(runs: Sequence[LoopRun]) -> Iterator[Finding]:
    """Compare the runs with what is known of the loops."""
    for run in runs:
        beside = " beside a neighbour" if run.neighbours else ""
        name = LOOPS[run.loop] + beside
        if run.loop == "compute":
            yield _bound("mpi", name, "memory", run.memory, most=MAX_MEMORY)
            if not run.neighbours:
                yield _bound("epi", name, "progress", run.progress, least=MIN_PROGRESS)
        else:
            yield _bound("mpi", name, "memory", run.memory, least=MIN_CHASED)
    loops = [run for run in runs if run.loop == "compute"]
    alone = next((run for run in loops if not run.neighbours), None)
    noisy = next((run for run in loops if run.neighbours), None)
    if alone is not None and noisy is not None:
        yield _same(alone, noisy)


def _bound(
    index: str, name: str, what: str, share: float | None, least: float | None = None, most: float | None = None
) -> Finding:
    limit = f"at least {least:.0%}" if least is not None else f"at most {most:.0%}"
    expected = f"{name}: {what} {limit} of its own code"
    if share is None:
        why = "waits for memory" if what == "memory" else "stalls"
        return Finding(index, expected, f"{why} are not counted on this processor", None)
    kept = (least is None or share >= least) and (most is None or share <= most)
    return Finding(index, expected, f"{share:.1%}", kept)


def _same(alone: LoopRun, noisy: LoopRun) -> Finding:
    expected = f"{LOOPS['compute']}: EPI per instruction within {MAX_CHANGE:.0%}, with and without a neighbour"
    one, other = alone.per_instruction, noisy.per_instruction
    if one is None or other is None or not one:
        return Finding("epi", expected, "instructions are not counted here", None)
    if alone.unit != noisy.unit:
        return Finding("epi", expected, "cycles were counted in one of the two runs only", None)
    change = other / one - 1
    unit = "cycles" if alone.unit == "cycles" else alone.unit
    return Finding("epi", expected, f"{one:.3f} and {other:.3f} {unit} ({change:+.1%})", abs(change) <= MAX_CHANGE)
