"""Readings of all processors at one moment: meetings, tried again where something came between."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headway.errors import HeadwayError
from headway.linux import processors

from . import disturbance
from ._meeting import Meeting, Stamps, clock
from .busy import virtual
from .frequency import Counter, by_chain, smi_of

__all__ = ["Readings", "Round"]

AHEAD = 250_000
"""ns from the announcement of a meeting to its moment: enough to wake everybody."""
PATIENCE = 10_000
"""ns that a reader waits for the others, and half of it again for them to have read. With the reading itself, and the
chain, a processor is held for 20 µs at most, but for interrupts that come meanwhile."""
TRIES = 7
"""Meetings for one reading, each after twice the pause of the one before: 25 ms together."""
LEFT_OUT = 3
"""A reader that did not come so often is not waited for any more."""
CHAIN_NS = 1_500
"""Length of a timed chain."""
FIRST_CHAIN, MOST_CHAIN, LEAST_CHAIN = 4_096, 16_384, 1_024
CUT_AHEAD = 2_000
"""The cut of the ledger is so many ns after the last reader has come: all are still in the meeting."""


@dataclass(slots=True)
class Round:
    """What came of the meetings for one reading."""

    good: dict[int, Stamps] = field(default_factory=dict)
    """What the readers say that read together, with nothing in between."""
    wrong: dict[int, str] = field(default_factory=dict)
    """Why the others have no reading."""
    moved: set[int] = field(default_factory=set)
    """Processors whose reader was elsewhere at first, whatever came of it."""
    dropped: Tally[str] = field(default_factory=Tally)
    """Readings of a processor that were tried again, by reason."""
    cut: int = 0
    """The moment of the ledgers' cut; 0: none was announced."""
    held: int = 0
    """The longest that a reader kept its processor, ns."""
    late: bool = False
    """It was not begun, or not ended, when it should have been: nothing that a reading does takes so long."""
    chain: int = 0
    """Cycles of the chain that was timed."""

    @property
    def skew(self) -> int | None:
        """Between the first and the last, ns; None where there are no two."""
        moments = [s.before for s in self.good.values()]
        return max(moments) - min(moments) if len(moments) > 1 else None


class Readings:
    """The readers of some processors. `start` once, then `take`, and `close` in any case.

    ``chain``: have them time a chain of instructions.
    """

    def __init__(self, cpus: Sequence[int], counter: Counter | None, *, chain: bool) -> None:
        self._cpus, self._counter = tuple(cpus), counter
        sources = [counter.sources[cpu] for cpu in self._cpus] if counter is not None else []
        self._meeting = Meeting(self._cpus, sources)
        self._chain = FIRST_CHAIN if chain else 0
        self._unpinned: dict[int, str] = {}
        self._absent: set[int] = set()
        """Processors without a good reading last time: they may be off, or on again."""
        self._virtual = virtual()

    def start(self, cut_words: tuple[int, int] | None, keep: object, *, fifo: bool) -> list[str]:
        """Start the readers; what a user should know of it. Raises HeadwayError where there are none.

        ``cut_words``: where cuts of the ledgers are to be announced, in memory that ``keep`` keeps.
        """
        if cut_words is not None:
            self._meeting.announce_cuts(*cut_words, CUT_AHEAD, keep)
        try:
            failed = self._meeting.start(fifo)
        except OSError as error:
            raise HeadwayError(
                f"no thread can be started on each processor ({error.strerror}): see ulimit -u"
            ) from None
        self._unpinned = dict.fromkeys(failed, disturbance.FORBIDDEN)
        if len(failed) == len(self._cpus):
            these = processors.as_list(self._cpus)
            raise HeadwayError(f"headway may run on none of these processors ({these}): its cpuset allows others")
        self._meeting.set_limits(patience=PATIENCE, chain=self._chain)
        return [f"headway may not run on {processors.as_list(failed)} (cpuset): not measured"] if failed else []

    def tids(self) -> dict[int, int]:
        """The readers' thread ids by processor."""
        return dict(self._meeting.tids())

    def take(self, moment: int, before: Mapping[int, Sequence[int]], tolerance: int | None = None) -> Round:
        """Meetings at this moment, and after it, until one is as it should be, or there have been enough.

        ``before``: what the counters of processors said at their last good reading. ``tolerance``: ns by which it may
        begin late, and each meeting be after its moment; None: any.
        """
        done = Round(chain=self._chain)
        missed: Tally[int] = Tally()
        expected = set(self._cpus) - set(self._unpinned)
        on = set(processors.online()) if self._absent else set(self._cpus)
        done.wrong = dict(self._unpinned) | dict.fromkeys(expected - on, disturbance.OFFLINE)
        expected &= on
        self._meeting.expect(expected)
        best: dict[int, Stamps] | None = None
        wrong: dict[int, str] = {}
        due = moment
        for attempt in range(TRIES):
            done.late |= tolerance is not None and clock() > due + tolerance
            due = max(moment, clock() + (AHEAD << attempt))
            met = self._meeting.attempt(due, again=attempt > 0)
            stamps = self._meeting.stamps()
            listed = [(cpu, s) for cpu, s in zip(self._cpus, stamps, strict=True) if cpu in expected]
            wrong = disturbance.judge([cpu for cpu, _ in listed], [s for _, s in listed])
            done.held = max(done.held, *(_held(s) for _, s in listed if s is not None), 0)
            if met and not wrong:
                best = {cpu: s for cpu, s in listed if s is not None}
                done.cut = self._meeting.cut
                break
            for cpu, reason in wrong.items():
                wrong[cpu] = self._explained(reason, dict(listed)[cpu], before.get(cpu))
                done.dropped[wrong[cpu]] += 1
                missed[cpu] += 1
                if wrong[cpu] == disturbance.MOVED:
                    done.moved.add(cpu)
                gone = wrong[cpu] in disturbance.FOR_GOOD or (cpu in self._absent and wrong[cpu] == disturbance.ABSENT)
                if (gone or missed[cpu] >= LEFT_OUT) and len(expected) > 1:
                    done.wrong[cpu] = wrong[cpu] if cpu in processors.online() else disturbance.OFFLINE
                    expected.discard(cpu)
                    self._meeting.expect(expected)
            if not wrong:  # all were there, one after the other
                done.dropped[disturbance.SKEW] += 1
        if best is None:
            done.wrong |= dict.fromkeys(expected, disturbance.SKEW) | wrong
        else:
            done.good = best
            done.late |= tolerance is not None and any(s.before > due + tolerance for s in best.values())
            self._tune(best)
        self._absent = set(self._cpus) - done.good.keys() if best else set()
        return done

    def _explained(self, reason: str, s: Stamps | None, before: Sequence[int] | None) -> str:
        smi = smi_of(self._counter, before, s.words) if before and s is not None and s.met else None
        return disturbance.explain(reason, s, smi=smi, virtual=self._virtual)

    def _tune(self, stamps: Mapping[int, Stamps]) -> None:
        """Make the chain as long as it is to be on the slowest processor."""
        rates = [hz for s in stamps.values() if (hz := by_chain(s.chains, self._chain))]
        if rates:
            wanted = int(min(rates) * CHAIN_NS / 1e9)
            length = max(LEAST_CHAIN, min(MOST_CHAIN, wanted // 1024 * 1024))
            if abs(length - self._chain) > self._chain // 4:
                self._chain = length
                self._meeting.set_limits(patience=PATIENCE, chain=length)

    def close(self) -> None:
        """End the readers."""
        self._meeting.close()


def _held(s: Stamps) -> int:
    """How long its reader kept the processor, ns; where they did not meet, as long as it can have."""
    return s.saw_done - s.arrived if s.met else PATIENCE + s.gap
