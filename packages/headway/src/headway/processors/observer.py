"""Samples of processors: the difference between two good readings of each."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headway.dataclass import dataclass
from headway.errors import SelectionError
from headway.linux.procfs import processors
from headway.model import FIGURES, Quality, Sample, Utilisation, joined

from . import disturbance
from ._meeting import clock, sleep_until
from .busy import Busy, start_busy
from .frequency import Counter, Frequency, by_chain, by_counter, find_counter, smi_of
from .power import ProcessorPower, growth, longest_growth, since
from .readings import Readings, Round

__all__ = ["ProcessorObserver", "choose", "clock", "sleep_until"]

SETTLED = 20_000
"""ns after a snapshot by which every handler knows of it (`BpfMaps.take_snapshot`)."""


class _Reading(NamedTuple):
    """All figures of one processor from one good reading."""

    at: int
    """When its counters were read, ns of CLOCK_MONOTONIC."""
    snapshot: int
    """The moment of the snapshot of its ledger."""
    account: object
    words: tuple[int, ...]
    chain_hz: float | None
    idle: dict[str, int | None]
    throttled: int | None
    throttled_ns: tuple[int | None, ...]
    limit_hz: int | None


@dataclass(slots=True)
class _Sums:
    """The sums of a processor since its figures began, for what is not the difference of two readings."""

    samples: int = 0
    ticks: int | None = 0
    known: int = 0
    """Ticks of the samples whose frequency is known; ``seconds`` is their duration."""
    seconds: float = 0.0
    skew: int = 0


def choose(wanted: Sequence[int] | None) -> tuple[int, ...]:
    """Return the processors to measure: those wanted, or all that are online. Raises SelectionError if one is not."""
    on = processors.online()
    missing = sorted(set(wanted or ()) - set(on))
    if missing:
        which = f"processor {missing[0]}" if len(missing) == 1 else f"processors {processors.as_list(missing)}"
        raise SelectionError(f"there is no {which} that is online; these are: {processors.as_list(on)}")
    return tuple(sorted(wanted)) if wanted is not None else on


class ProcessorObserver:
    """Reads several processors at the same moment, repeatedly. Call `begin` once, then `sample`, and always `close`.

    ``source``: ``bpf`` or ``proc``; None: the best. ``probe``: time a chain of instructions if no counter of cycles is
    available. ``fifo``: run the readers before all ordinary threads, if that is allowed.
    """

    def __init__(
        self, cpus: Sequence[int], *, source: str | None = None, probe: bool = True, fifo: bool = True
    ) -> None:
        self.cpus = tuple(cpus)
        self.notes: list[str] = []
        """Facts that the user should know, one sentence each."""
        self.why_not_exact = ""
        self._prefer, self._probe, self._fifo = source, probe, fifo
        self._busy: Busy | None = None
        self._power: ProcessorPower | None = None
        self._counter: Counter | None = None
        self._readings: Readings | None = None
        self._before: dict[int, _Reading] = {}
        self._first: dict[int, _Reading] = {}
        self._closed: dict[int, list[Utilisation]] = {}
        """For each processor, its figures from before they had to begin anew."""
        self._sums = {cpu: _Sums() for cpu in self.cpus}
        self._dropped: Tally[str] = Tally()
        self._worst_skew: int | None = None
        self._worst_held = 0
        self._began = self._end = 0
        self._quality: Mapping[str, Quality] = {}
        self._reasons: dict[str, str] = {}
        self._lost: dict[int, str] = {}
        """Processors whose figures must begin anew, with the reason: they were off, or may have been."""

    def begin(self) -> None:
        """Start measuring, and take the first reading. Raises HeadwayError if nothing can be measured."""
        self._power = ProcessorPower(self.cpus)
        self._busy, self.why_not_exact = start_busy(self.cpus, self._power, self._prefer)
        self._counter, _ = find_counter(self.cpus)
        self._readings = Readings(self.cpus, self._counter, chain=self._counter is None and self._probe)
        self.notes += self._readings.start(self._busy.snapshot_words(), self._busy, fifo=self._fifo)
        alone = sorted(set(self.cpus) & processors.isolated())
        if alone:
            self.notes.append(
                f"each reading takes isolated processors ({processors.as_list(alone)}) for some 20 µs: see -C"
            )
        self._explain()
        for _ in range(3):  # the first meetings show how long waking takes, and how fast the processors are
            done = self._readings.take(clock(), {})
        self._before = self._read(done)
        self._first = dict(self._before)
        self._end = min((r.at for r in self._before.values()), default=clock())
        self._began = self._end

    def _explain(self) -> None:
        """Determine the quality of the figures, with reasons."""
        assert self._busy is not None
        assert self._power is not None
        quality = {**dict.fromkeys(FIGURES, Quality.EXACT), **self._busy.quality}
        reasons = dict(self._busy.reasons)
        if self._counter is None:
            how = "so instructions are timed at both ends of the sample" if self._probe else "and the probe is off"
            for name in ("effective_hz", "actual_hz"):
                quality[name] = Quality.SAMPLED if self._probe else Quality.UNAVAILABLE
                reasons[name] = f"nothing counts unhalted cycles here (see headway doctor), {how}"
        elif not self._counter.reference:
            quality["actual_hz"] = quality["utilisation"]
            reasons["actual_hz"] = "busy ticks divided by busy time: nothing counts reference cycles here"
        if not self._power.names:
            quality["idle"], reasons["idle"] = Quality.UNAVAILABLE, "this kernel has no cpuidle states here"
        if not self._power.throttles:
            quality["throttled"] = Quality.UNAVAILABLE
            reasons["throttled"] = "this kernel counts no thermal throttling here"
        if self._power.throttled_times:
            quality["throttled_ns"] = Quality.SAMPLED
            reasons["throttled_ns"] = (
                "the kernel adds it when a throttling ends; the longer of the core's time and its package's"
            )
        else:
            quality["throttled_ns"] = Quality.UNAVAILABLE
            reasons["throttled_ns"] = "this kernel counts no thermal throttling here"
        if not self._power.limits:
            quality["limit_hz"], reasons["limit_hz"] = Quality.UNAVAILABLE, "this kernel has no cpufreq here"
        if self._counter is None or not self._counter.smi:
            quality["smi"], reasons["smi"] = Quality.UNAVAILABLE, "nothing counts system management interrupts here"
        self._quality, self._reasons = quality, reasons

    @property
    def source(self) -> str:
        """The name of the source of busy time."""
        assert self._busy is not None
        return self._busy.name

    def tids(self) -> dict[int, int]:
        """Return the readers' thread ids by processor."""
        assert self._readings is not None
        return self._readings.tids()

    def losses(self) -> Mapping[str, int]:
        """Return what could not be seen of the processors' states, counted by name."""
        return self._busy.losses() if self._busy is not None else {}

    def sample(self, moment: int | None = None, tolerance: int | None = None) -> Sample:
        """Read at this moment (ns of CLOCK_MONOTONIC; None: now). Return what happened since the last good reading.

        ``tolerance``: how many ns a reading may be late, not counting meetings that are tried again. A later reading
        is dropped.
        """
        planned = clock() if moment is None else moment
        done = self._meet(planned, tolerance)
        if done.late and done.good:
            done.dropped[disturbance.LATE] += len(done.good)
            done.wrong |= dict.fromkeys(done.good, disturbance.LATE)
            done.good.clear()
        readings = self._read(done)
        start, self._end = self._end, min((s.before for s in done.good.values()), default=clock())
        first = self._end
        rows = [self._row(cpu, readings.get(cpu), done, first) for cpu in self.cpus]
        self._before |= readings
        self._reckon(rows, done)
        return Sample(
            source=self.source,
            start=start,
            end=self._end,
            processors=tuple(rows),
            skew=done.skew,
            held=done.held or None,
            counter=self._counter.name if self._counter is not None else None,
            quality=self._quality,
            reasons=self._reasons,
            dropped=dict(done.dropped),
        )

    def whole(self) -> Sample:
        """Return all good samples as one. Its skew and time held are the largest of any sample.

        A processor without any good reading is dropped, as in a sample.
        """
        rows = []
        for cpu in self.cpus:
            parts = [*self._closed.get(cpu, ())]
            if self._sums[cpu].samples:
                parts.append(self._open(cpu))
            rows.append(joined(cpu, parts) if parts else Utilisation(cpu, dropped=disturbance.NEW))
        return Sample(
            source=self.source,
            start=self._began,
            end=self._end,
            processors=tuple(rows),
            skew=self._worst_skew,
            held=self._worst_held or None,
            counter=self._counter.name if self._counter is not None else None,
            quality=self._quality,
            reasons=self._reasons,
            dropped=dict(self._dropped),
        )

    def _reckon(self, rows: Sequence[Utilisation], done: Round) -> None:
        """Add a sample to the sums from which `whole` is made."""
        for row in rows:
            if row.span is None:
                continue
            sums = self._sums[row.cpu]
            sums.samples += 1
            sums.ticks = None if sums.ticks is None or row.ticks is None else sums.ticks + row.ticks
            if row.ticks and row.actual_hz:
                sums.known += row.ticks
                sums.seconds += row.ticks / row.actual_hz
            sums.skew = max(sums.skew, row.skew or 0)
        for reason, count in done.dropped.items():
            self._dropped[reason] += count
        self._worst_held = max(self._worst_held, done.held)
        if done.skew is not None:
            self._worst_skew = max(self._worst_skew or 0, done.skew)

    def _open(self, cpu: int) -> Utilisation:
        """Return a processor's figures since they began, or began anew, as the difference of two readings."""
        first, last, sums = self._first[cpu], self._before[cpu], self._sums[cpu]
        row = self._between(cpu, first, last, sums.skew)
        return row._replace(ticks=sums.ticks, actual_hz=sums.known / sums.seconds if sums.seconds else None)

    def _row(self, cpu: int, now: _Reading | None, done: Round, first: int) -> Utilisation:
        if now is None:
            return Utilisation(cpu, dropped=done.wrong.get(cpu, disturbance.ABSENT))
        before = self._before.get(cpu)
        if before is None:
            self._first[cpu] = now
            return Utilisation(cpu, dropped=self._lost.pop(cpu, disturbance.NEW))
        row = self._between(cpu, before, now, done.good[cpu].before - first)
        frequency = self._frequency(cpu, before, now, row)
        if frequency.broken:
            done.dropped[frequency.broken] += 1
            self._close(cpu)
            self._first[cpu] = now
            return Utilisation(cpu, dropped=frequency.broken)
        return row._replace(ticks=frequency.ticks, actual_hz=frequency.actual_hz)

    def _between(self, cpu: int, before: _Reading, now: _Reading, skew: int) -> Utilisation:
        """Return what a processor did between two readings, without its frequency."""
        assert self._busy is not None
        assert self._power is not None
        span = now.snapshot - before.snapshot
        return Utilisation(
            cpu=cpu,
            span=span,
            states=self._busy.between(before.account, now.account, span),
            idle=since(now.idle, before.idle),
            skew=skew,
            throttled=growth(now.throttled, before.throttled),
            throttled_ns=longest_growth(now.throttled_ns, before.throttled_ns),
            limit_hz=now.limit_hz,
            highest_hz=self._power.highest_hz(cpu),
            smi=smi_of(self._counter, before.words, now.words),
        )

    def _close(self, cpu: int) -> None:
        """End the figures of a processor and keep them, as later readings cannot be compared with earlier ones."""
        if cpu in self._before and self._sums[cpu].samples:
            self._closed.setdefault(cpu, []).append(self._open(cpu))
        self._sums[cpu] = _Sums()

    def _frequency(self, cpu: int, before: _Reading, now: _Reading, row: Utilisation) -> Frequency:
        if self._counter is not None:
            return by_counter(self._counter, cpu, before.words, now.words, now.at - before.at, row.busy)
        ends = [hz for hz in (before.chain_hz, now.chain_hz) if hz is not None]
        if not ends or row.busy is None:
            return Frequency()
        hz = sum(ends) / len(ends)
        return Frequency(round(row.busy * hz / 1e9), hz)

    def _meet(self, moment: int, tolerance: int | None) -> Round:
        """Take a reading. Earlier readings of processors that were off, or may have been, are forgotten."""
        assert self._readings is not None
        assert self._busy is not None
        words = {cpu: reading.words for cpu, reading in self._before.items()} if self._counter is not None else {}
        done = self._readings.take(moment, words, tolerance)
        if done.wrong:
            off = {cpu for cpu, reason in done.wrong.items() if reason == disturbance.OFFLINE}
            self._forget(off, disturbance.OFFLINE)
        if done.moved:
            self._forget(done.moved, disturbance.MOVED)
        return done

    def _forget(self, cpus: set[int], reason: str) -> None:
        """Forget the last readings of these processors, so that nothing is compared with them."""
        for cpu in cpus:
            if cpu in self._before:
                self._close(cpu)
                del self._before[cpu]
                self._lost[cpu] = reason

    def _read(self, done: Round) -> dict[int, _Reading]:
        """Read everything that is read after the meeting and holds as of it."""
        assert self._busy is not None
        assert self._power is not None
        if not done.good:
            return {}
        wait = done.snapshot + SETTLED - clock()
        if done.snapshot and wait > 0:
            time.sleep(wait / 1e9)
        accounts = self._busy.read(done.snapshot)
        found = {}
        for cpu, s in done.good.items():
            account = accounts.get(cpu)
            if account is None:
                done.wrong[cpu] = disturbance.OFFLINE
                continue
            at = (s.before + s.after) // 2
            found[cpu] = _Reading(
                at=at,
                snapshot=done.snapshot or at,
                account=account,
                words=s.words,
                chain_hz=by_chain(s.chains, done.chain),
                idle=self._power.idle_states(cpu),
                throttled=self._power.throttled(cpu),
                throttled_ns=self._power.throttled_ns(cpu),
                limit_hz=self._power.limit_hz(cpu),
            )
        return found

    def close(self) -> None:
        """End the readers and detach everything. It may be called at any time, more than once."""
        for part in (self._readings, self._busy, self._power, self._counter):
            if part is not None:
                part.close()
        self._readings, self._busy, self._power, self._counter = None, None, None, None
