"""``headway cpu``: how busy every processor is and with what, how fast it runs, read from all at the same moment."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TextIO

import click

from headway.advice import Advice, Thresholds, advise
from headway.advice.threshold_files import load_thresholds
from headway.cli.ending import end_as
from headway.cli.output import place_of, report_to, unwritten
from headway.cli.parameters import Milliseconds, ProcessorList, Seconds
from headway.cli.say import say
from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.model import Kind, Ledger, Processor, Sample, Utilisation, Window
from headway.processors.disturbance import REASONS
from headway.processors.observer import ProcessorObserver, choose, clock, sleep_until
from headway.session.child import SuspendedChild
from headway.session.measure import caught_signals, patient_collector, wait_for
from headway.views.advice import what_would_help
from headway.views.console import Console
from headway.views.interval import heading
from headway.views.lines import Line
from headway.views.utilisation import print_sample
from headway.views.utilisation_json import cpu_json

__all__ = ["command"]

INTERVAL = 0.3
"""Seconds between two readings unless told otherwise."""
LATE_NS, LATE_SHARE = 5_000_000, 20
"""A reading may be late by this many ns, or by this fraction (1 / n) of the interval."""
LOOK_NS = 10_000_000_000
"""ns between two readings of the losses."""
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)
"""Signals that a command does not get from the terminal."""


@click.command("cpu", context_settings={"allow_interspersed_args": False})
@click.option(
    "-C", "--cpu", "cpus", type=ProcessorList(), metavar="CPUS", help="Show only these processors, as in 0-3,8."
)
@click.option(
    "-I",
    "--interval",
    type=Milliseconds(),
    metavar="MS",
    help="Report every MS milliseconds.  [default: 300, for readings]",
)
@click.option("-n", "--reports", "count", type=click.IntRange(min=1), metavar="N", help="Stop after N reports.")
@click.option("-d", "--duration", type=Seconds(), metavar="SECONDS", help="Stop after this many seconds.")
@click.option(
    "--source", type=click.Choice(["bpf", "proc"]), help="Source of the figures.  [default: bpf if possible, else proc]"
)
@click.option(
    "--no-frequency-probe", is_flag=True, help="Do not time instructions on processors without a cycle counter."
)
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE instead of standard error.")
@click.option(
    "--json", "as_json", is_flag=True, help="Write JSON (headway schema cpu); with -I or -n one document a line."
)
@click.option("-v", "--verbose", is_flag=True, help="Show every state of every processor.")
@click.option("-q", "--quiet", is_flag=True, help="Show only the figures.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARG...]]")
def command(
    cpus: tuple[int, ...] | None,
    interval: float | None,
    count: int | None,
    duration: float | None,
    source: str | None,
    no_frequency_probe: bool,
    output: str | None,
    as_json: bool,
    verbose: bool,
    quiet: bool,
    argv: tuple[str, ...],
) -> None:
    """\b
    headway cpu                    every processor, every 300 ms, until Ctrl-C
    headway cpu -I 1000 -n 5       five reports, one a second
    headway cpu -d 10 --json       10 s in readings 300 ms apart, as JSON
    headway cpu -- make -j8        while a command runs, one report at its end

    Show how busy every processor is and with what, and its effective and actual frequency.

    All processors are read at the same moment. A reading that was disturbed (by a system management interrupt, the
    hypervisor or a more urgent thread) is dropped, counted and repeated; it never becomes a figure. Utilisation is
    exact as root and sampled otherwise, and the report says which.

    The report goes to standard error. The exit status is the command's; 125 if headway itself fails.
    """
    chosen = choose(cpus)
    plan = _Plan(
        interval=interval or INTERVAL,
        seconds=duration,
        count=count,
        reports=interval is not None or count is not None or not (argv or duration),
    )
    observer = ProcessorObserver(chosen, source=source, probe=not no_frequency_probe)
    with report_to(output, live=plan.reports) as stream:
        report = _Report(
            stream, argv, plan, observer, where=place_of(output), as_json=as_json, verbose=verbose, quiet=quiet
        )
        alone = as_json and output is None  # JSON alone, where it goes
        status = _run(observer, plan, argv, report, warn=not (quiet or alone))
        if report.error:
            raise HeadwayError(report.error)
    end_as(status)


@dataclass(frozen=True, slots=True)
class _Plan:
    """When to read the processors, and when to report."""

    interval: float
    """Seconds."""
    seconds: float | None
    count: int | None
    reports: bool
    """Whether each interval is reported; otherwise there is one report at the end."""

    @property
    def tolerance(self) -> int:
        """How late a reading may be, in ns."""
        return max(LATE_NS, round(self.interval * 1e9) // LATE_SHARE)


def _run(observer: ProcessorObserver, plan: _Plan, argv: Sequence[str], report: _Report, *, warn: bool) -> int | None:
    """Observe until it is time to stop. The command's exit status; None: there was none."""
    child: SuspendedChild | None = None
    with patient_collector(), caught_signals() as (wakeup, received):
        try:
            if argv:
                child = SuspendedChild(argv, received=received)
            observer.begin()
            if warn:
                _warn(observer)
            if child is not None:
                child.release()
            for sample in _samples(observer, plan, child, wakeup, received):
                report.add(sample, child.wait() if child is not None and child.has_ended else None)
            status = wait_for(child, received) if child is not None else None
            report.finish(status)
        except BaseException:
            if child is not None:
                child.give_up()
            raise
        finally:
            observer.close()
    return status


def _warn(observer: ProcessorObserver) -> None:
    """Print once which figures are not as good as they could be, and why."""
    lines = []
    if observer.why_not_exact:
        words = {"cpuidle": "what cpuidle calls not idle", "proc": "sampled, by /proc/stat"}[observer.source]
        lines.append(f"utilisation is {words}: {observer.why_not_exact}")
    for line in (*lines, *observer.notes):
        say(line)


def _samples(
    observer: ProcessorObserver, plan: _Plan, child: SuspendedChild | None, wakeup: int, received: list[int]
) -> Iterator[Sample]:
    watched = [wakeup] if child is None else [wakeup, child.pidfd]
    step = round(plan.interval * 1e9)
    start = clock()
    end = None if plan.seconds is None else start + round(plan.seconds * 1e9)
    moment, taken, passed_on = start + step, 0, 0
    while True:
        due = moment if end is None else min(moment, end)
        if sleep_until(due, watched):
            with suppress(BlockingIOError):
                os.read(wakeup, 512)
        numbers, passed_on = received[passed_on:], len(received)
        over = child is not None and child.has_ended
        if child is not None:
            for number in numbers:
                if number in _PASSED_ON:
                    child.send(number)
        elif numbers:
            over = True
        if over:
            yield observer.sample()
            return
        if clock() < due:
            continue
        yield observer.sample(due, plan.tolerance)
        taken += 1
        if due == end or taken == plan.count:
            return
        moment = due + step
        if moment < clock():  # stopped meanwhile, or the interval is too short for this machine
            moment += (clock() - moment) // step * step + step


def _advice(sample: Sample, thresholds: Thresholds) -> tuple[Advice, ...]:
    """Return what is wrong with the processors' time. Where too little of it is the kernel's, nothing can be."""
    least = min(thresholds.interrupts, thresholds.busy * thresholds.system)
    if not any(_system_time(row) > least * (row.span or 0) for row in sample.processors):
        return ()
    rows = [Processor(row.cpu, row.span, row.states) for row in sample.processors if row.span]
    return advise(Ledger(sample.source, Window(sample.start, sample.end), processors=tuple(rows)), thresholds)


def _system_time(row: Utilisation) -> int:
    times = row.times
    return times[Kind.KERNEL] + times[Kind.OVERHEAD]


class _Report:
    """Prints samples as the options say."""

    def __init__(
        self,
        stream: TextIO,
        argv: tuple[str, ...],
        plan: _Plan,
        observer: ProcessorObserver,
        *,
        where: str,
        as_json: bool,
        verbose: bool,
        quiet: bool,
    ) -> None:
        self._stream, self._argv, self._plan, self._observer = stream, argv, plan, observer
        self._where = where
        self._losses: dict[str, int] = {}
        self._looked = 0
        self._as_json, self._verbose, self._quiet = as_json, verbose, quiet
        self._console = Console(stream)
        self._began: int | None = None
        self._samples: list[Sample] = []
        self._thresholds = load_thresholds()
        self._said: frozenset[str] = frozenset()
        """What the last report gave advice about."""
        self._shown = 0
        self.error = ""
        """Why a report could not be written; empty if all were."""

    def add(self, sample: Sample, status: int | None) -> None:
        """Add a sample; ``status``: the command's exit status, if it has ended."""
        if self._plan.reports:
            self._show([sample], status)
        if self._as_json and not self._plan.reports:
            self._samples.append(sample)

    def finish(self, status: int | None) -> None:
        """Print all samples if they were not printed one by one; otherwise their sum."""
        self._looked = 0
        if self._as_json:
            if not self._plan.reports:
                self._show(self._samples, status)
        elif not self._plan.reports or self._shown > 1:
            self._show([self._observer.whole()], status, whole=self._plan.reports)

    def _lost(self) -> dict[str, int]:
        """The losses. They are read only now and then, because that takes as long as a report."""
        if clock() - self._looked > LOOK_NS:
            self._losses, self._looked = dict(self._observer.losses()), clock()
        return self._losses

    def _show(self, samples: Sequence[Sample], status: int | None, *, whole: bool = False) -> None:
        try:
            if self._as_json:
                self._show_json(samples, status)
            else:
                self._show_table(samples[0], whole)
            self._stream.flush()
        except OSError as error:
            if not isinstance(error, BrokenPipeError):  # a reader that has gone away is no error
                self.error = unwritten("the report", self._where, error)
            self._stream = open(os.devnull, "w")  # noqa: SIM115
            self._console.file = self._stream
        self._shown += 1

    def _show_json(self, samples: Sequence[Sample], status: int | None) -> None:
        text = cpu_json(
            samples,
            interval_ms=self._plan.interval * 1000,
            command=list(self._argv) or None,
            exit_status=None if status is None else status if status >= 0 else 128 - status,
            losses=self._lost(),
            advice=_advice(samples[0] if len(samples) == 1 else self._observer.whole(), self._thresholds),
        )
        self._stream.write(text + "\n")

    def _show_table(self, sample: Sample, whole: bool) -> None:
        above: list[Line] = []
        if self._plan.reports:
            self._began = began = sample.start if self._began is None else self._began
            of = Ledger(sample.source, Window(sample.start, sample.end))
            above = [[("all together", "dim")] if whole else heading(of, began, self._console.width)]
        notes = not self._quiet and (whole or not self._plan.reports or not self._shown)
        advice = _advice(sample, self._thresholds)
        found = frozenset(piece.index for piece in advice)
        below: list[Line] = []
        if advice and (notes or not found <= self._said):  # the same is not said at every report
            below = [[], *what_would_help(advice, self._console.width)]
        self._said = found
        print_sample(
            self._console,
            sample,
            above=above,
            below=below,
            explanations=REASONS,
            losses=self._lost(),
            verbose=self._verbose,
            notes=notes,
        )
        if self._plan.reports:
            self._stream.write("\n")
