"""``headway advise``: what would help, with the figures that say so; on request apply and undo it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial, reduce
from typing import Any, TextIO

import click

from headway.advice import MAX_REMARKS, Advice, Facilities, Thresholds, advise, effect
from headway.advice.threshold_files import defaults_text, load_thresholds
from headway.cli.ending import end_as
from headway.cli.options import MeasuringCommand, TargetOptions, measuring_options, thresholds_option
from headway.cli.output import place_of, report_to, unwritten
from headway.cli.parameters import Seconds
from headway.cli.say import say
from headway.errors import HeadwayError
from headway.linux.placement.changes import Move, UseNode
from headway.linux.placement.controls import Controls
from headway.linux.placement.draft import PlacementPlan
from headway.linux.placement.facilities import facilities
from headway.linux.placement.interrupts import arrived
from headway.linux.placement.journal import Journal, journal_folder
from headway.linux.placement.plan import plan
from headway.linux.sources.source import LinuxSource
from headway.model import Ledger, merge
from headway.session.measure import Observation, observe

__all__ = ["command"]

_SECONDS = 5.0
"""Seconds of measuring without -d and without a command."""
_NOTHING = (
    "nothing to apply: none of these processes waits for a processor behind others, for memory that can be divided, or "
    "for interrupts that can go elsewhere"
)
_LAST = "-"
"""The value of --undo without an ID: every plan."""


@click.command("advise", cls=MeasuringCommand, context_settings={"allow_interspersed_args": False})
@measuring_options
@click.option(
    "-d",
    "--duration",
    type=Seconds(),
    metavar="SECONDS",
    help=f"Stop after this many seconds.  [default: {_SECONDS:g} without a command]",
)
@thresholds_option
@click.option(
    "--from", "saved", metavar="FILE", help="Advise on a document of headway stat --json; - is standard input."
)
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE instead of standard error.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON; a piece of advice is as in headway schema.")
@click.option(
    "--apply",
    "apply_it",
    is_flag=True,
    help="Apply the remedies that are safe and can be undone, after showing the plan.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan of --apply, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Apply without asking.")
@click.option(
    "--undo", metavar="[ID]", is_flag=False, flag_value=_LAST, help="Undo what --apply did: the plan ID, or all plans."
)
@click.option("--print-thresholds", is_flag=True, help="Print the default thresholds as TOML, and exit.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARG...]]")
def command(
    duration: float | None,
    thresholds_file: str | None,
    saved: str | None,
    output: str | None,
    as_json: bool,
    apply_it: bool,
    dry_run: bool,
    yes: bool,
    undo: str | None,
    print_thresholds: bool,
    argv: tuple[str, ...],
    wanted: TargetOptions,
) -> None:
    """\b
    headway advise -p 4711                   what would help this process
    headway advise --from saved.json         advice on a saved measurement
    sudo headway advise --apply -a -p 4711   show a plan, ask, apply it
    sudo headway advise --undo               undo it

    Say what would help, and why: index, value, threshold, cause and a command.

    --apply is for processes of -p. Those that wait for a processor while other threads run get processors of their own:
    by a cpuset partition, or, where control groups allow none, by processor affinity, which needs -a to know the other
    threads. Device interrupts are kept off the processors of those that lose time to them. Those that wait for memory
    get their memory on one NUMA node, and a part of the shared cache, as far as the machine has them. Every file and
    value is shown before it is written. headway measures again afterwards.
    """
    if print_thresholds:
        click.echo(defaults_text(), nl=False)
        return
    if undo is not None:
        if apply_it or dry_run or saved is not None or argv or wanted.given:
            raise click.UsageError("--undo changes back what --apply did: give it alone, or with the ID of a plan")
        _undo(undo)
        return
    apply_it = apply_it or dry_run
    _check(apply_it and not dry_run and not yes, apply_it, saved, argv, wanted.pids)
    thresholds = load_thresholds(thresholds_file)
    status = None
    seconds = duration if duration is not None or argv else _SECONDS
    here = facilities()
    with report_to(output) as stream:
        if saved is not None:
            if wanted.given:
                raise click.UsageError("--from reads a saved measurement: leave out what to measure, and how")
            from headway.views.saved import read_ledgers

            ledger = reduce(merge, read_ledgers(saved))
            here = replace(here, interrupts=())  # those that have come to this machine are of another time
        else:
            observation = _observe(wanted, argv, seconds, quiet=as_json and output is None)
            ledger, status = observation.ledger, observation.exit_status
            here = arrived(here, facilities())
        advice = advise(ledger, thresholds, here)
        try:
            _show(stream, ledger, advice, thresholds, as_json)
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                raise HeadwayError(unwritten("the report", place_of(output), error)) from None
    if apply_it:
        # All of it: what is to be done for these processes must not be cut off by what could be said of others.
        advice = advise(ledger, replace(thresholds, most=MAX_REMARKS), here, by_process=True)
        found = _planned(ledger, advice, wanted.pids, here)
        if found is not None and not dry_run and _agreed(yes):
            _do(found)
            _compare(found, ledger, lambda: _observe(wanted, (), seconds, quiet=True).ledger)
    end_as(status)


def _observe(wanted: TargetOptions, argv: Sequence[str], seconds: float | None, *, quiet: bool) -> Observation:
    def started(used: LinuxSource, why_not: str) -> None:
        if why_not and not quiet:
            say(wanted.by_proc(why_not))

    selection = wanted.selection(argv)
    if not quiet:
        wanted.tell_others()
    return observe(
        selection,
        argv,
        options=wanted.options(causes=True),
        prefer=wanted.source,
        seconds=seconds,
        started=started,
    )


def _check(will_ask: bool, apply_it: bool, saved: str | None, argv: Sequence[str], pids: Sequence[int]) -> None:
    """Check the options before anything is measured. Raises UsageError and HeadwayError."""
    if saved is not None and argv:
        raise click.UsageError("give a saved document (--from) or a command, not both")
    if apply_it and saved is not None:
        raise click.UsageError("--apply is for processes that run now: measure them (-p PID) instead of --from")
    if apply_it and argv:
        raise click.UsageError("--apply is for processes that go on: give -p PID, not a command that ends")
    if apply_it and not pids:  # whose work comes first is for nobody else to say
        raise click.UsageError("--apply is for processes that you name: -p PID, with -a to see who else wants to run")
    if will_ask and not sys.stdin.isatty():
        raise HeadwayError("--apply asks before it changes anything, and there is no terminal to ask on: add --yes")


def _show(stream: TextIO, ledger: Ledger, advice: Sequence[Advice], thresholds: Thresholds, as_json: bool) -> None:
    if as_json:
        from headway.views.json import advice_document

        document = {
            "schema": "headway.advise/1",
            "source": ledger.source,
            "thresholds": asdict(thresholds),
            "advice": [advice_document(piece) for piece in advice],
        }
        stream.write(json.dumps(document) + "\n")
        stream.flush()
        return
    from headway.views.advice import what_would_help

    if advice:
        _print(stream, lambda width: what_would_help(advice, width, figures=True))
    else:
        many = f"{len(ledger.threads):,} threads" if len(ledger.threads) != 1 else "one thread"
        _say(stream, [f"{many} measured: none loses more than the thresholds allow"])


def _print(stream: TextIO, lines_for: Any) -> None:
    from headway.views.console import Console
    from headway.views.lines import show

    console = Console(stream)
    show(console, lines_for(console.width))


def _say(stream: TextIO, texts: Sequence[str], first: str = "", others: str = "  ") -> None:
    from headway.views.lines import Line, indented

    def lines(width: int) -> Iterator[Line]:
        for text in texts:
            yield from ([(line, "")] for line in indented(text, width, first, others))

    _print(stream, lines)


# --- doing it, and taking it back -------------------------------------------------------------------------------------


def _planned(ledger: Ledger, advice: Sequence[Advice], pids: Sequence[int], here: Facilities) -> PlacementPlan | None:
    """Show the plan for the processes. None: there is nothing to apply, which is said."""
    controls = Controls()
    remedies = [piece.remedy for piece in advice if piece.remedy is not None and piece.remedy.pid in pids]
    own = {thread.tid for thread in ledger.threads if thread.pid in pids}
    if any(piece.index == "iopi" and piece.thread in own for piece in advice):
        _say(sys.stderr, ["polling can only be stopped in the program: --apply does nothing about it"])
    if not remedies:
        _say(sys.stderr, [_NOTHING])
        return None
    found = plan(remedies, controls, _ourselves(controls), here.interrupts)
    if not found.changes:
        raise HeadwayError("; ".join(found.refused) or "nothing can be applied")
    _say(sys.stderr, ["", f"plan {found.id}"])
    for number, change in enumerate(found.changes, 1):
        _say(sys.stderr, [f"{number}. {change.words()}"], "  ", "     ")
        _say(sys.stderr, [f"to undo: {change.back()}"], "     ", "     ")
    _say(sys.stderr, [*found.notes, *found.refused], "  ", "  ")
    return found


def _agreed(yes: bool) -> bool:
    if yes or click.confirm("do it?", err=True):
        return True
    _say(sys.stderr, ["nothing was changed"])
    return False


def _do(found: PlacementPlan) -> None:
    controls = Controls()
    notes = Journal(journal_folder(), controls).apply(found.id, found.changes)
    pids = {change.group: change.pid for change in found.changes if isinstance(change, Move)}
    for change in found.changes:
        if isinstance(change, UseNode) and change.group in pids:
            pages = controls.pages(pids[change.group])
            there, total = pages.get(change.node, 0) >> 20, sum(pages.values()) >> 20
            notes.append(f"{there:,} of {total:,} MiB of process {pids[change.group]} are on node {change.node} now")
    _say(sys.stderr, [f"done; to undo: headway advise --undo {found.id}", *notes])


def _compare(found: PlacementPlan, before: Ledger, again: Callable[[], Ledger]) -> None:
    """Measure once more, and show what the plan did for each process that it was made for."""
    from headway.views.effect import what_changed

    _say(sys.stderr, ["measuring again ..."])
    try:
        after = again()
    except HeadwayError as error:
        _say(sys.stderr, [f"what it did is not known: {error}"])
        return
    for pid in found.pids:
        seen = effect(pid, before, after)
        if seen is None:
            _say(sys.stderr, [f"process {pid} did not run in both measurements: what the plan did is not known"])
        else:
            _print(sys.stderr, partial(what_changed, seen))


def _undo(name: str) -> None:
    journal = Journal(journal_folder(), Controls())
    names = journal.ids()[::-1] if name == _LAST else [name]  # what was done last may rest on what was done before
    if not names:
        raise HeadwayError(f"there is nothing to undo ({journal_folder()} holds no plan)")
    for each in names:
        notes = journal.undo(each)
        _say(sys.stderr, [f"plan {each} is undone", *notes])


def _ourselves(controls: Controls) -> Iterator[int]:
    """Yield the ids of this process and its ancestors."""
    pid: int | None = os.getpid()
    while pid:
        yield pid
        pid = controls.parent(pid)
