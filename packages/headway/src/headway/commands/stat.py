"""``headway stat``: the main job, every thread's progress and states, as a table or JSON."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

import click

from headway.cli.ending import end_as
from headway.cli.options import (
    ListingOptions,
    MeasuringCommand,
    TargetOptions,
    durations_option,
    listing_options,
    measuring_options,
    thresholds_option,
)
from headway.cli.output import place_of, report_to, unwritten
from headway.cli.pages import html_option, page_if, write_ledger_page
from headway.cli.parameters import Milliseconds, Seconds
from headway.cli.say import say
from headway.cli.uses import check_use_options, needs_calls, needs_causes, needs_holders, use_options
from headway.cli.work import check_work, followed, work_option
from headway.errors import HeadwayError
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions
from headway.linux.sources.source import LinuxSource
from headway.session.measure import observe
from headway.views.listing import LINES

if TYPE_CHECKING:
    from headway.advice import Advice, Facilities, Thresholds
    from headway.model import GroupBy, Ledger
    from headway.model.forecast import Expectation
    from headway.model.work import Work

__all__ = ["command"]


@click.command("stat", cls=MeasuringCommand, context_settings={"allow_interspersed_args": False})
@measuring_options
@click.option("-I", "--interval", type=Milliseconds(), metavar="MS", help="Report every MS milliseconds.")
@click.option("-d", "--duration", type=Seconds(), metavar="SECONDS", help="Stop after this many seconds.")
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE instead of standard error.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON (headway schema); with -I one document a line.")
@work_option
@html_option
@thresholds_option
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show every state of every thread, the processors, and all notes on the figures.",
)
@durations_option
@use_options
@click.option("-q", "--quiet", is_flag=True, help="Show only the figures, without advice and hints.")
@listing_options
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARG...]]")
def command(
    interval: float | None,
    duration: float | None,
    output: str | None,
    as_json: bool,
    work: Work | None,
    html: str | None,
    verbose: bool,
    durations: int | None,
    quiet: bool,
    tables: tuple[str, ...],
    listed: ListingOptions,
    thresholds_file: str | None,
    argv: tuple[str, ...],
    wanted: TargetOptions,
) -> None:
    """\b
    headway stat -- xz -T2 -k big.tar        a command, from start to end
    headway stat -p 4711 -d 10 -v            a process for 10 s, every state
    headway stat -a -I 1000                  the machine, a report each second
    headway stat -p 4711 -d 10 --why wait    what it waits for, who ends waits
    headway stat -- make -j8                 many processes: a line for each name
    headway stat -a -d 10 --by pod           a line for each pod or container
    headway stat --calls -- git status       its system calls, as strace -c -w
    headway stat --html out.html -- ./work   the report, and a page

    Show how much progress each thread makes, and where the rest of its time goes.

    The report goes to standard error. The command's own output is untouched. Effective time (EPI) is time in the
    program's own code; it is an upper bound (≤) where no hardware counter tells how much of it was waiting for memory.

    The exit status is the command's; 125 if headway itself fails, 126 if the command cannot be executed, 127 if it is
    not found.
    """
    selection = wanted.selection(argv)
    if not (quiet or (as_json and output is None)):  # JSON alone, where it goes
        wanted.tell_others()
    if html is not None and interval is not None:
        raise click.UsageError("--html writes one page of the whole time, not of each interval: leave out --html or -I")
    if work is not None and interval is None:
        raise click.UsageError("--work says at each reading when the work will be done: give -I too")
    check_work(work, wanted)
    options = _options(wanted, tables, causes=verbose or html is not None, listed=listed, as_json=as_json)
    if durations and options.level is Level.CLOCKS:
        raise click.UsageError("clocks do not tell single waits: --durations needs --level switches or more")
    options = replace(options, durations=durations or 0)
    with report_to(output, live=interval is not None) as stream, page_if(html) as page:
        report = _Report(
            stream,
            argv,
            where=place_of(output),
            interval=interval is not None,
            as_json=as_json,
            verbose=verbose,
            quiet=quiet,
            thresholds_file=thresholds_file,
            listed=listed,
            parts=wanted.why,
            tables=tables,
            durations=bool(durations),
            work=work,
        )

        def started(used: LinuxSource, reason: str) -> None:
            if (
                reason and (wanted.only_by_ebpf or not quiet) and not (as_json and output is None)
            ):  # JSON alone, where it goes
                say(wanted.by_proc(reason))

        observation = observe(
            selection,
            argv,
            options=options,
            prefer=wanted.source,
            seconds=duration,
            interval=interval,
            each=report.show,
            started=started,
            meanwhile=report.prepare,
        )
        report.show(observation.ledger, observation.exit_status)
        if page is not None:
            report.write_page(page, observation.ledger, observation.exit_status)
        if report.error:
            raise HeadwayError(report.error)
    end_as(observation.exit_status)


def _options(
    wanted: TargetOptions, tables: tuple[str, ...], *, causes: bool, listed: ListingOptions, as_json: bool
) -> MeasureOptions:
    """Return what is to be measured. Raises UsageError where options contradict each other."""
    check_use_options(tables, wanted)
    return wanted.options(
        causes=causes or needs_causes(tables),
        cgroups=as_json or listed.needs_cgroups,
        calls=needs_calls(tables),
        locks=needs_holders(tables, wanted),
    )


class _Report:
    """Prints ledgers as the options say."""

    def __init__(
        self,
        stream: TextIO,
        argv: tuple[str, ...],
        *,
        where: str,
        interval: bool,
        as_json: bool,
        verbose: bool,
        quiet: bool,
        thresholds_file: str | None,
        listed: ListingOptions,
        parts: tuple[str, ...],
        tables: tuple[str, ...],
        durations: bool,
        work: Work | None,
    ) -> None:
        self._work = followed(work)
        self._stream, self._argv, self._as_json = stream, argv, as_json
        self._where = where
        self._verbose, self._quiet, self._listed, self._parts = verbose, quiet, listed, parts
        self._interval, self._began = interval, 0
        self._durations, self._tables = durations, tables
        self._before: GroupBy | None = None
        self._thresholds: Thresholds | None = None
        self._facilities: Facilities | None = None
        if thresholds_file is not None:
            from headway.advice.threshold_files import load_thresholds

            self._thresholds = load_thresholds(thresholds_file)
        self.error = ""
        """Why a report could not be written; empty if all were."""

    def prepare(self) -> None:
        """Load what reports need, which takes longer than a short command does."""
        if self._as_json:
            import headway.views.json
        else:
            import headway.views.table
        if self._as_json or not self._brief:
            self._load_thresholds()
        if not (self._as_json or self._brief):
            import headway.verdict.judging
            import headway.views.verdict  # noqa: F401

    @property
    def _brief(self) -> bool:
        """Whether a table has neither verdict nor advice."""
        return self._quiet or self._interval

    def _load_thresholds(self) -> Thresholds:
        if self._thresholds is None:
            from headway.advice.threshold_files import load_thresholds

            self._thresholds = load_thresholds(None)
        return self._thresholds

    def show(self, ledger: Ledger, exit_status: int | None = None) -> None:
        """Write one report. If it cannot be written, measuring goes on, and `error` says why."""
        expected = self._expect(ledger)
        try:
            if self._as_json:
                self._show_json(ledger, exit_status, expected)
            else:
                self._show_table(ledger, expected)
            self._stream.flush()
        except OSError as error:
            if not isinstance(error, BrokenPipeError):  # a reader that has gone away is no error
                self.error = unwritten("the report", self._where, error)
            self._stream = open(os.devnull, "w")  # noqa: SIM115

    def write_page(self, stream: TextIO, ledger: Ledger, exit_status: int | None) -> None:
        """Write the page (``--html``). Raises OSError."""
        write_ledger_page(
            stream,
            ledger,
            title=os.path.basename(self._argv[0]) if self._argv else "headway stat",
            command=list(self._argv) or None,
            exit_status=exit_status,
            advice=self._advice(ledger),
        )

    def _advice(self, ledger: Ledger) -> tuple[Advice, ...]:
        thresholds = self._load_thresholds()
        most = (len(ledger.threads) + len(ledger.processors)) * ledger.window.duration
        if not thresholds.may_matter(most):
            return ()
        from headway.advice import advise
        from headway.linux.placement.facilities import facilities

        self._facilities = self._facilities or facilities()
        return advise(ledger, thresholds, self._facilities)

    def _expect(self, ledger: Ledger) -> Expectation | None:
        """Return when the work will be done; None: nobody asked."""
        return None if self._work is None else self._work.take(ledger)

    def _show_json(self, ledger: Ledger, exit_status: int | None, expected: Expectation | None) -> None:
        from headway.views.json import write

        pieces = write(
            ledger,
            command=list(self._argv) or None,
            exit_status=exit_status,
            advice=self._advice(ledger),
            work=None if self._work is None else self._work.work,
            forecast=expected,
        )
        self._stream.writelines(pieces)
        self._stream.write("\n")

    def _show_table(self, ledger: Ledger, expected: Expectation | None) -> None:
        from headway.views.console import Console
        from headway.views.interval import heading
        from headway.views.lines import show
        from headway.views.table import print_table

        console = Console(self._stream)
        if self._interval:
            self._began = self._began or ledger.window.start
            show(console, [heading(ledger, self._began, console.width)])
        if expected is not None and self._work is not None:
            from headway.views.forecast import forecast_line

            show(console, [forecast_line(self._work.work, expected, ledger, console.width)])
        if not self._brief:
            from headway.verdict import verdict
            from headway.views.verdict import show_verdict

            show_verdict(console, verdict(ledger))
        advice = () if self._brief else self._advice(ledger)
        listing = self._listed.listing(console, above=2 * self._interval, verbose=self._verbose, before=self._before)
        self._before = print_table(
            console,
            ledger,
            advice=advice,
            listing=listing,
            verbose=self._verbose,
            parts=self._parts,
            durations=self._durations and not self._verbose,
        )
        if self._tables:
            from headway.views.uses import use_tables

            limit = None if self._listed.every_line else self._listed.limit or LINES
            lines = use_tables(ledger, self._tables, width=console.width, limit=limit, verbose=self._verbose)
            show(console, [[], *lines])
        if self._interval:
            self._stream.write("\n")
