"""Readings of all processors at one moment, by meetings that are tried again after a disturbance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field

from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.linux.procfs import processors

from . import disturbance
from ._meeting import Meeting, Stamps, clock
from .busy import virtual
from .frequency import Counter, by_chain, smi_of

__all__ = ["Readings", "Round"]

PATIENCE = 14_000
"""ns for which a reader keeps its processor while others have not come; half of it while they have not read. Together
with the reading and the chain, a processor is held for at most 20 µs, not counting interrupts that come meanwhile."""
WAIT = 400_000
"""ns that a reader waits in all. A processor of a virtual machine takes up to 150 µs to wake."""
TRIES = 7
PAUSE = 250_000
"""The meetings for one reading, and ns before the second; the pause doubles before each further one: 16 ms in all."""
ORDINARY, PRECEDED = 2, 20
"""After this many failed tries the readers run before all ordinary threads, for this many readings. They do not do so
at once: with the shortest slice they mostly run soon enough, and a thread that gives up that precedence in order to
give way is queued last."""
LEFT_OUT = 3
"""The number of times after which a reader that did not come is no longer waited for."""
CHAIN_NS = 1_500
"""The intended duration of a timed chain."""
FIRST_CHAIN, MAX_CHAIN, MIN_CHAIN = 4_096, 16_384, 1_024
SNAPSHOT_AHEAD = 2_000
"""ns from the arrival of the last reader to the snapshot of the ledger; all readers are still in the meeting then."""


@dataclass(slots=True)
class Round:
    """The result of the meetings for one reading."""

    good: dict[int, Stamps] = field(default_factory=dict)
    """The stamps of the readers that read together without a disturbance."""
    wrong: dict[int, str] = field(default_factory=dict)
    """For each of the other processors, why it has no reading."""
    moved: set[int] = field(default_factory=set)
    """Processors whose reader was on another one at first, whatever the result."""
    dropped: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """The number of readings of a processor that were tried again, by reason."""
    snapshot: int = 0
    """The moment of the ledgers' snapshot; 0 if none was announced."""
    held: int = 0
    """The longest time for which a reader kept its processor, ns."""
    late: bool = False
    """Whether the reading began or ended later than it should have; no part of a reading takes so long."""
    chain: int = 0
    """The length of the timed chain, in cycles."""

    @property
    def skew(self) -> int | None:
        """The time between the first and the last reader, ns; None if there are fewer than two."""
        moments = [s.before for s in self.good.values()]
        return max(moments) - min(moments) if len(moments) > 1 else None


class Readings:
    """The readers of several processors. Call `start` once, then `take`, and always `close`.

    ``chain``: whether they time a chain of instructions.
    """

    def __init__(self, cpus: Sequence[int], counter: Counter | None, *, chain: bool) -> None:
        self._cpus, self._counter = tuple(cpus), counter
        sources = [counter.sources[cpu] for cpu in self._cpus] if counter is not None else []
        self._meeting = Meeting(self._cpus, sources)
        self._chain = FIRST_CHAIN if chain else 0
        self._unpinned: dict[int, str] = {}
        self._may_precede = False
        self._preceded = 0
        self._expected: set[int] | None = None
        self._absent: set[int] = set()
        """Processors that had no good reading last time. They may be off, or on again."""
        self._virtual = virtual()

    def start(self, snapshot_words: tuple[int, int] | None, keep: object, *, fifo: bool) -> list[str]:
        """Start the readers. Return notes for the user. Raises HeadwayError if there are no readers.

        ``snapshot_words``: where snapshots of the ledgers are announced, in memory that ``keep`` keeps alive.
        """
        if snapshot_words is not None:
            self._meeting.announce_snapshots(*snapshot_words, SNAPSHOT_AHEAD, keep)
        try:
            failed = self._meeting.start(fifo)
            self._may_precede = fifo and self._meeting.fifo
            self._meeting.precede(False)
        except OSError as error:
            raise HeadwayError(
                f"no thread can be started on each processor ({error.strerror}): see ulimit -u"
            ) from None
        self._unpinned = dict.fromkeys(failed, disturbance.FORBIDDEN)
        if len(failed) == len(self._cpus):
            these = processors.as_list(self._cpus)
            raise HeadwayError(f"headway may run on none of these processors ({these}): its cpuset allows others")
        self._meeting.set_limits(patience=PATIENCE, wait=WAIT, chain=self._chain)
        return [f"headway may not run on {processors.as_list(failed)} (cpuset): not measured"] if failed else []

    def tids(self) -> dict[int, int]:
        """Return the readers' thread ids by processor."""
        return dict(self._meeting.tids())

    def take(self, moment: int, before: Mapping[int, Sequence[int]], tolerance: int | None = None) -> Round:
        """Hold meetings at this moment and after it, until one succeeds or there have been enough.

        ``before``: the counters of the processors at their last good reading. ``tolerance``: how many ns the reading
        may begin late, and each meeting may be after its moment; None: any.
        """
        done = Round(chain=self._chain)
        missed: defaultdict[int, int] = defaultdict(int)
        expected = set(self._cpus)
        if self._unpinned or self._absent:
            expected -= self._unpinned.keys()
            on = set(processors.online())
            done.wrong = self._unpinned | dict.fromkeys(expected - on, disturbance.OFFLINE)
            expected &= on
        self._expect(expected)
        best: dict[int, Stamps] | None = None
        wrong: dict[int, str] = {}
        due = moment
        for attempt in range(TRIES):
            done.late |= tolerance is not None and clock() > due + tolerance
            due = max(moment, clock() + ((PAUSE << attempt - 1) if attempt else 0))
            met = self._meeting.attempt(due)
            stamps = {cpu: s for cpu, s in zip(self._cpus, self._meeting.stamps(), strict=True) if cpu in expected}
            wrong = disturbance.judge(stamps)
            there = {cpu: s for cpu, s in stamps.items() if s is not None}
            done.held = max([done.held, *[_held(s) for s in there.values()]])
            if met and not wrong:
                best = there
                done.snapshot = self._meeting.snapshot
                break
            for cpu, reason in wrong.items():
                wrong[cpu] = self._explained(reason, stamps[cpu], before.get(cpu))
                done.dropped[wrong[cpu]] += 1
                missed[cpu] += 1
                if wrong[cpu] == disturbance.MOVED:
                    done.moved.add(cpu)
                gone = wrong[cpu] in disturbance.FOR_GOOD or (cpu in self._absent and wrong[cpu] == disturbance.ABSENT)
                if (gone or missed[cpu] >= LEFT_OUT) and len(expected) > 1:
                    done.wrong[cpu] = wrong[cpu] if cpu in processors.online() else disturbance.OFFLINE
                    expected.discard(cpu)
                    self._expect(expected)
            if not wrong:  # all readers came, but one after the other
                done.dropped[disturbance.SKEW] += 1
            if attempt + 1 >= ORDINARY:
                self._precede()
        if best is None:
            done.wrong |= dict.fromkeys(expected, disturbance.SKEW) | wrong
        else:
            done.good = best
            done.late |= tolerance is not None and max([s.before for s in best.values()]) > due + tolerance
            self._tune(best)
        self._absent = set(self._cpus) - done.good.keys() if best else set()
        if self._preceded:
            self._preceded -= 1
            if not self._preceded:
                self._meeting.precede(False)
        return done

    def _precede(self) -> None:
        """Let the readers run before all ordinary threads for some readings, if that is allowed."""
        if self._may_precede:
            if not self._preceded:
                self._meeting.precede(True)
            self._preceded = PRECEDED

    def _expect(self, cpus: set[int]) -> None:
        """Await only the readers of these processors from now on."""
        if cpus != self._expected:
            self._meeting.expect(cpus)
            self._expected = set(cpus)

    def _explained(self, reason: str, s: Stamps | None, before: Sequence[int] | None) -> str:
        smi = smi_of(self._counter, before, s.words) if before and s is not None and s.met else None
        return disturbance.explain(reason, s, smi=smi, virtual=self._virtual)

    def _tune(self, stamps: Mapping[int, Stamps]) -> None:
        """Adapt the length of the chain to the slowest processor."""
        rates = [hz for s in stamps.values() if (hz := by_chain(s.chains, self._chain))]
        if rates:
            wanted = int(min(rates) * CHAIN_NS / 1e9)
            length = max(MIN_CHAIN, min(MAX_CHAIN, wanted // 1024 * 1024))
            if abs(length - self._chain) > self._chain // 4:
                self._chain = length
                self._meeting.set_limits(patience=PATIENCE, wait=WAIT, chain=length)

    def close(self) -> None:
        """End the readers."""
        self._meeting.close()


def _held(s: Stamps) -> int:
    """Return how long a reader kept its processor, ns; if they did not meet, the longest time that it can have."""
    return s.saw_done - s.arrived - s.gave_way if s.met else PATIENCE + s.gap
