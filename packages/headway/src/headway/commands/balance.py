"""``headway balance``: processes, threads or control groups held at shares of progress, by their weights."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import TextIO

import click

from headway.balance import Limits
from headway.cli.ending import end_as
from headway.cli.options import BUDGET_OF_A_MACHINE
from headway.cli.output import place_of, report_to, unwritten
from headway.cli.parameters import Ids, Milliseconds, Percentage, Seconds, all_ids
from headway.cli.say import say
from headway.errors import HeadwayError
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions
from headway.linux.placement.controls import Controls
from headway.linux.placement.journal import Journal, journal_folder
from headway.linux.placement.levers import lowest_nice
from headway.linux.placement.watchdog import Watchdog
from headway.linux.placement.weights import GroupWeight, Reniced, SessionNice
from headway.linux.sources.source import LinuxSource
from headway.model import Ledger
from headway.session.balancing import Balance, Turn
from headway.session.measure import observe
from headway.session.parties import Groups, Parties, Processes, Threads

__all__ = ["command"]

_PREFIX = "balance-"
"""How the names of balances begin in the undo journal."""
_LAST = "-"
"""The value of --undo without an ID: every balance."""


def _shares(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for text in given:
        name, equals, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = 0.0
        if not (name and equals and 0.01 <= value <= 100):
            raise click.BadParameter(f"{text!a:.60} is no share: write NAME=NUMBER, from 0.01 to 100, as in nginx=2")
        found[name] = value
    return found


@click.command("balance")
@click.option(
    "-p",
    "--pid",
    "pids",
    type=Ids(),
    multiple=True,
    callback=all_ids,
    metavar="PID[,PID]",
    help="Balance these processes, each with those that it has started. May be repeated.",
)
@click.option("--threads", is_flag=True, help="Balance the threads of the one process of -p.")
@click.option("--cgroup", "cgroups", multiple=True, metavar="DIR", help="Balance these cgroups (v2). May be repeated.")
@click.option(
    "--share",
    "shares",
    multiple=True,
    callback=_shares,
    metavar="NAME=NUMBER",
    help="So much progress for this process, thread or cgroup (a name or an id), compared with the others, which have "
    "1. May be repeated.",
)
@click.option(
    "-I",
    "--interval",
    type=Milliseconds(),
    default=1.0,
    metavar="MS",
    help="Weigh every MS milliseconds.  [default: 1000]",
)
@click.option("-d", "--duration", type=Seconds(), metavar="SECONDS", help="Stop after this many seconds.")
@click.option(
    "--limit",
    type=click.FloatRange(1.25, 50),
    default=10.0,
    show_default=True,
    metavar="FACTOR",
    help="A weight stays between what it was divided by FACTOR and multiplied by it.",
)
@click.option(
    "--source",
    type=click.Choice(["bpf", "proc"]),
    help="Source of the figures.  [default: bpf if possible, else proc]",
)
@click.option(
    "--level",
    type=click.Choice([level.value for level in Level]),
    help="Level of detail, instead of what --budget gives.",
)
@click.option(
    "--budget",
    type=Percentage(),
    default=BUDGET_OF_A_MACHINE,
    metavar="PERCENT",
    help="Measuring may cost this much of the processor time of the parties.  [default: 1%]",
)
@click.option("-o", "--output", metavar="FILE", help="Write the reports to FILE instead of standard error.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON, one document a line (headway schema balance).")
@click.option("-q", "--quiet", is_flag=True, help="Say only what was achieved, at the end.")
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and change nothing.")
@click.option(
    "--undo",
    metavar="[ID]",
    is_flag=False,
    flag_value=_LAST,
    help="Set back what a balance that was killed has left: the ID, or all of them.",
)
def command(
    pids: tuple[int, ...],
    threads: bool,
    cgroups: tuple[str, ...],
    shares: Mapping[str, float],
    interval: float,
    duration: float | None,
    limit: float,
    source: str | None,
    level: str | None,
    budget: float,
    output: str | None,
    as_json: bool,
    quiet: bool,
    dry_run: bool,
    undo: str | None,
) -> None:
    """\b
    headway balance -p 4711 -p 4712          two processes, equal progress
    headway balance -p 4711 --threads        the threads of one
    headway balance --cgroup a --cgroup b --share a=2   a twice as much as b
    headway balance --dry-run -p 4711,4712   what would be changed

    Hold processes, threads or control groups at equal or given shares of progress (EPI) while this runs.

    Each interval is measured, and the weight of who is ahead lowered, of who is behind raised: nice values, those of
    sessions where autogroups are on, or cpu.weight. It helps where parties compete for the same processors. Everything
    is set back at the end, after Ctrl-C, and within a second if headway is killed. docs/balance.md has the rules.
    """
    if undo is not None:
        if pids or cgroups or threads or shares or dry_run:
            raise click.UsageError("--undo sets back what a balance has left: give it alone, or with an ID")
        _undo(undo)
        return
    controls = Controls()
    parties = _parties(controls, pids, threads, cgroups)
    _check_shares(parties, shares)
    folder, name = journal_folder(), f"{_PREFIX}{int(time.time())}-{os.getpid()}"
    journal = Journal(folder, controls)
    _check_others(parties, journal)
    raised = bool(cgroups) or lowest_nice() == -20
    limits = Limits(1 / limit, limit if raised else 1.0)
    if not (quiet or (as_json and output is None)) or dry_run:
        _show_plan(parties, limits)
        if not raised:
            say("without CAP_SYS_NICE nice values are only raised: who is ahead is slowed down, nobody is sped up")
    if dry_run:
        return
    options = MeasureOptions(
        level=Level(level) if level else Level.INTERRUPTS,
        budget=None if level or source == "proc" else budget,
        cgroups=parties.needs_cgroups,
    )
    balance = Balance(parties, shares, limits, journal, name)
    with report_to(output, live=True) as stream, Watchdog(folder, name) as watchdog:
        report = _Report(stream, place_of(output), as_json=as_json, quiet=quiet)

        def each(ledger: Ledger) -> None:
            watchdog.check()
            report.show(balance.turn(ledger), ledger)

        def started(used: LinuxSource, reason: str) -> None:
            if reason and not quiet:
                say(f"measuring with /proc, sampled: {reason}")

        try:
            observe(
                parties.selection,
                options=options,
                prefer=source,
                seconds=duration,
                interval=interval,
                each=each,
                started=started,
            )
        finally:
            notes = journal.undo(name) if name in journal.ids() else []
        report.end(notes)
        if report.error:
            raise HeadwayError(report.error)
    end_as(None)


def _parties(controls: Controls, pids: tuple[int, ...], threads: bool, cgroups: tuple[str, ...]) -> Parties:
    """Return what the options name. Raises UsageError, and HeadwayError where their weights cannot be set."""
    if cgroups:
        if pids or threads:
            raise click.UsageError("a weight counts among its like: give processes (-p) or control groups (--cgroup)")
        if len(cgroups) < 2:
            raise click.UsageError("a balance takes two: give --cgroup twice or more")
        return Groups(controls, cgroups)
    if threads:
        if len(pids) != 1:
            raise click.UsageError("--threads balances the threads of one process: give one -p PID")
        return Threads(controls, pids[0])
    if len(pids) < 2:
        raise click.UsageError("a balance takes two: give -p twice or more, -p PID --threads, or --cgroup")
    return Processes(controls, pids)


def _check_shares(parties: Parties, shares: Mapping[str, float]) -> None:
    there = list(parties.levers())
    for name in shares:
        if not any(party.is_called(name) for party in there):
            names = ", ".join(dict.fromkeys(ascii(party.name)[1:-1] for party in there))
            raise HeadwayError(f"--share {name!a:.60}: no party has this name or id; they are {names:.200}")


def _check_others(parties: Parties, journal: Journal) -> None:
    """Raise HeadwayError if another balance holds a party, or was killed and has left it changed."""
    ours = {record.subject for lever in parties.levers().values() for record in lever.records()}
    for other in journal.ids():
        if not other.startswith(_PREFIX):
            continue
        for record in journal.kept(other):
            if isinstance(record, Reniced | SessionNice | GroupWeight) and record.subject in ours:
                raise HeadwayError(
                    f"{record.subject} is in another balance: end that first, or if it was killed: headway balance "
                    f"--undo {other}"
                )


def _show_plan(parties: Parties, limits: Limits) -> None:
    for lever in parties.levers().values():
        say(f"will change {lever.words()}; it is set back at the end")
    say(f"each weight stays between {limits.least:.2g} and {limits.most:.3g} of what it was")


def _undo(name: str) -> None:
    journal = Journal(journal_folder(), Controls())
    left = [one for one in journal.ids() if one.startswith(_PREFIX)]
    if name != _LAST and name not in left:
        raise HeadwayError(f"there is no balance {name!a:.60} to set back (left: {', '.join(left) or 'none'})")
    if not left:
        raise HeadwayError(f"there is nothing to set back ({journal_folder()} holds no balance)")
    for each in left[::-1] if name == _LAST else [name]:
        for sentence in [f"balance {each} is set back", *journal.undo(each)]:
            say(sentence)


class _Report:
    """Writes what each interval was, and in the end what was achieved."""

    def __init__(self, stream: TextIO, where: str, *, as_json: bool, quiet: bool) -> None:
        self._stream, self._where, self._as_json, self._quiet = stream, where, as_json, quiet
        self._began: int | None = None
        self._first: float | None = None
        self._last: float | None = None
        self._known = False
        self.error = ""
        """Why a report could not be written; empty if all were."""

    def show(self, turn: Turn, ledger: Ledger) -> None:
        """Write an interval. If it cannot be written, the balance goes on, and `error` says why."""
        if self._began is None:
            self._began, self._first = ledger.window.start, turn.ratio
        self._last = turn.ratio
        self._known = self._known or any(row.seen.progress is not None for row in turn.parties)
        try:
            self._write(turn, ledger)
        except OSError as error:
            if not isinstance(error, BrokenPipeError):  # a reader that has gone away is no error
                self.error = unwritten("the report", self._where, error)
            self._stream = open(os.devnull, "w")  # noqa: SIM115

    def _write(self, turn: Turn, ledger: Ledger) -> None:
        from headway.views.balance import turn_document, turn_lines

        if self._as_json:
            self._stream.write(json.dumps(turn_document(turn), separators=(",", ":")) + "\n")
        elif not self._quiet:
            from headway.views.console import Console
            from headway.views.interval import heading
            from headway.views.lines import show

            console = Console(self._stream)
            width = console.width
            show(console, [heading(ledger, self._began or 0, width), *turn_lines(turn, self._first, width), []])
        self._stream.flush()

    def end(self, notes: list[str]) -> None:
        """Say what was achieved, and what could not be set back."""
        from headway.views.balance import ratio_in_words

        for note in notes:
            say(note)
        if self._began is None:
            say("it ended before the first interval did: nothing was changed")
        elif not self._known:
            say("EPI is not known here, so nothing was changed: give another --level, or --source")
        elif not self._as_json:
            say(
                f"all is set back; progress ratio {ratio_in_words(self._first)} in the first interval, "
                f"{ratio_in_words(self._last)} at the end"
            )
