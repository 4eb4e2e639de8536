"""Make the profile: samples with their states, and time off the processor with its stacks, all of it with names."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence

from headway.dataclass import dataclass
from headway.linux.bpf.samples.stacks import Away, StackReader
from headway.linux.perf.sampler import SampleLosses
from headway.linux.symbols.code import UserCode
from headway.model import SPINNING, Collection, Ledger, Profile, SampleColumns

from ..spinning import with_spinning
from .samples import SampleLog
from .spaces import Spaces
from .spinning import found_spinning, notes_on_spinning

__all__ = ["FinishedProfile"]

_Row = tuple[int, int, int, int, int, int, int]
"""Moment, thread's place in the ledger or -1, processor or -1, state, time in ns, count, stack or -1."""


@dataclass(frozen=True, slots=True)
class FinishedProfile:
    """All that was collected of a profile whose measurement has ended."""

    ledger: Ledger
    log: SampleLog
    spaces: Spaces
    states: StackReader | None
    """Tells the states of samples; None: nothing does."""
    away: Sequence[Away]
    """The time off the processor."""
    losses: SampleLosses
    period: int
    """ns of processor time from one sample to the next."""
    notes: Sequence[str]
    collection: Collection
    code: UserCode | None = None
    """The code of the samples; None: spinning is not looked for."""

    def profile(self) -> Profile:
        """Return the profile, with names; only once, for the files of its code are closed then.

        May take seconds: symbols are read now.
        """
        try:
            return self._named()
        finally:
            self.spaces.close()

    def _named(self) -> Profile:
        ledger = self.ledger
        numbers = {thread.key: i for i, thread in enumerate(ledger.threads)}
        states: dict[str, int] = {}
        rows: list[_Row] = []
        by_birth = {thread.birth: i for i, thread in enumerate(ledger.threads)}
        for away in self.away:
            thread = numbers.get((away.tid, away.birth), by_birth.get(away.birth, -1))
            stack = -1
            if away.known:
                space = self.spaces.known(away.pid)
                stack = self.spaces.stacks.add(
                    space, away.user, away.kernel, most=self.log.max_stack, left=True, walked=away.walked
                )
            state = states.setdefault(away.state, len(states))
            rows.append((ledger.window.end, thread, -1, state, away.time, away.count, stack))
        unmatched, outside = self._add_samples(rows, states)
        if self.code is not None:
            ledger = self._find_spinning(rows, states, self.code)
        stacks, frames = self.spaces.stacks.resolve()
        weights: Counter[int] = Counter()
        for row in rows:
            weights[row[6]] += row[4]
        return Profile(
            ledger=ledger,
            samples=SampleColumns.of(rows),
            states=tuple(states),
            stacks=stacks,
            frames=frames,
            period=self.period,
            losses={
                "samples_lost": self.losses.samples,
                "samplings_throttled": self.losses.throttled,
                "buffers_damaged": self.losses.damaged,
                "threads_not_sampled": self.losses.unseen_threads,
                "ns_before_sampling_began": self.losses.late_ns,
                "samples_outside_the_window": outside,
                "samples_without_their_state": unmatched,
                "ns_without_a_stack": sum(row[4] for row in rows if row[6] < 0),
            },
            notes=(
                *self.notes,
                *self.spaces.stacks.describe(weights),
                *(notes_on_spinning(self.code, platform.machine()) if self.code is not None else ()),
            ),
            collection=self.collection,
        )

    def _find_spinning(self, rows: list[_Row], states: dict[str, int], code: UserCode) -> Ledger:
        """Give samples that spin their state. Return the ledger with the time for which they stand."""
        if "user" not in states:
            return self.ledger
        user, places = states["user"], self.spaces.stacks.places()
        spinning = found_spinning(rows, user, lambda stack: places[stack] if stack >= 0 else None, code)
        samples: dict[int, Counter[str]] = {}
        for i, row in enumerate(rows):
            if row[1] >= 0 and row[2] >= 0 and row[3] == user:
                samples.setdefault(row[1], Counter())[SPINNING if i in spinning else "user"] += 1
        if spinning:
            number = states.setdefault(SPINNING, len(states))
            for i in spinning:
                rows[i] = (*rows[i][:3], number, *rows[i][4:])
        return with_spinning(self.ledger, samples)

    def _add_samples(self, rows: list[_Row], states: dict[str, int]) -> tuple[int, int]:
        """Add a row for each sample.

        Return how many samples have no state of their own, and how many are outside the window.
        """
        ledger, reader = self.ledger, self.states
        lives: dict[int, list[tuple[int, int, int]]] = {}
        for i, thread in enumerate(ledger.threads):
            lives.setdefault(thread.tid, []).append((thread.start, thread.until, i))
        unmatched = outside = 0
        for samples, stacks in self.log.taken:
            if reader is not None:
                found, names = reader.states(samples.time, samples.tid, self.period // 2)
                known = [names[number] for number in found.tolist()]
            else:
                known = [""] * len(stacks)
            columns = zip(
                samples.time.tolist(), samples.tid.tolist(), samples.cpu.tolist(), samples.kernel.tolist(),
                samples.period.tolist(), known, stacks, strict=True,
            )  # fmt: skip
            for moment, tid, cpu, kernel, period, state, stack in columns:
                if not ledger.window.start <= moment < ledger.window.end:
                    outside += 1
                    continue
                number = next((i for start, until, i in lives.get(tid, ()) if start <= moment <= until), -1)
                if not state:
                    if reader is not None and number < 0:  # of a command before it is executed
                        outside += 1
                        continue
                    unmatched += reader is not None
                    state = "kernel" if kernel else "user"
                named = states.setdefault(state, len(states))
                rows.append((moment, number, cpu, named, period, 1, stack))
        return unmatched, outside
