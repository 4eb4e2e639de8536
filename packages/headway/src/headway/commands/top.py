"""``headway top``: the live screen, or the time of a recording, interval by interval."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import reduce
from shutil import which
from typing import TYPE_CHECKING, TextIO

import click

from headway.advice import Advice, Facilities, Thresholds, advise
from headway.advice.threshold_files import load_thresholds
from headway.cli.ending import end_as
from headway.cli.options import (
    BUDGET_OF_A_MACHINE,
    ListingOptions,
    MeasuringCommand,
    TargetOptions,
    group_by_option,
    measuring_options,
    thresholds_option,
)
from headway.cli.parameters import Milliseconds, Seconds
from headway.cli.say import say
from headway.cli.work import check_work, followed, work_option
from headway.errors import HeadwayError
from headway.linux.options import MeasureOptions
from headway.linux.placement.facilities import facilities
from headway.linux.sources.source import LinuxSource
from headway.model import GroupBy, Ledger, merge
from headway.session.measure import caught_signals, measuring, observe, patient_collector, wait_for

if TYPE_CHECKING:
    from headway.model.work import Work
    from headway.views.screen.app import TopApp
    from headway.views.screen.feed import Live, Timeline

__all__ = ["command"]

_INTERVAL = 1.0
_COLUMNS = (
    *("name", "tid", "pid", "rpi", "epi", "te", "memory", "kernel", "poll", "stall", "stolen", "ready", "wait"),
    *("bar", "history", "for"),
)
_RECORDING, _DOCUMENT = ".hw", ".json"


@click.command("top", cls=MeasuringCommand)
@measuring_options
@click.option(
    "-I",
    "--interval",
    type=Milliseconds(),
    metavar="MS",
    help="Length of an interval.  [default: 1000; of a recording such that there are 100 to 200 intervals]",
)
@click.option("-d", "--duration", type=Seconds(), metavar="SECONDS", help="Leave after this many seconds.")
@click.option(
    "--sort",
    type=click.Choice(_COLUMNS),
    default="epi",
    show_default=True,
    metavar="COLUMN",
    help=f"Column to sort by: {', '.join(_COLUMNS)}.",
)
@group_by_option
@work_option
@click.option("--light", is_flag=True, help="Use colours for a terminal with a light background.")
@click.option(
    "--plain",
    is_flag=True,
    help="Print a table each interval instead of the screen; this is the default without a terminal.",
)
@thresholds_option
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[NAME.hw | FILE.json | -- COMMAND [ARG...]]")
def command(
    interval: float | None,
    duration: float | None,
    sort: str,
    group_by: str | None,
    work: Work | None,
    light: bool,
    plain: bool,
    thresholds_file: str | None,
    argv: tuple[str, ...],
    wanted: TargetOptions,
) -> None:
    """\b
    headway top -p 4711                      a process, each second
    headway top -a                           the machine
    headway top -- ./server --port 80        a command, from its start
    headway top run.hw                       a recording, interval by interval
    headway top out.json                     a document of headway stat --json

    Show live how much progress each thread makes, and where the rest of its time goes.

    Each thread has a line, with a bar of all of its time and its history. Lines are sorted by any column. The selected
    thread has a panel. Press ? for the keys and q to leave. A document of headway machine run --json can be shown too.

    While the screen is shown, a command reads nothing from the keyboard, and what it writes to the terminal is kept
    until the screen is left. Without a terminal a table is printed each interval, as by headway stat -I. The exit
    status is the command's.
    """
    thresholds = load_thresholds(thresholds_file)
    saved = _saved(argv)
    screen = not plain and _is_terminal(bool(argv) and not saved)
    look = _Look(sort, group_by, light, thresholds)
    if saved:
        if wanted.given or duration is not None or work is not None:
            raise click.UsageError(
                f"{argv[0]} is a saved measurement: leave out what to measure, for how long, and --work"
            )
        _show_saved(argv[0], interval, look, screen=screen)
        return
    selection = wanted.selection(argv)
    every = interval if interval is not None else _INTERVAL
    if not screen:
        _print(wanted, argv, every, duration, look.listed, work)
        return

    from headway.session.live import HeldBack, LiveFeed

    status: int | None = None
    reasons: list[str] = []

    def started(used: LinuxSource, reason: str) -> None:
        reasons.append(reason)

    with ExitStack() as stack:
        stack.enter_context(patient_collector())
        output = stack.enter_context(HeldBack())
        with measuring(
            selection,
            argv,
            options=_options(wanted, work),
            prefer=wanted.source,
            intervals=True,
            hold=output.hold,
            started=started,
        ) as measurement:
            title = _title(wanted, argv)
            if reasons[0]:
                title += f" · /proc, sampled: {reasons[0]}"
            feed: Live = LiveFeed(measurement, title, every, duration)
            app = look.app(feed, facilities(), leave=duration is not None, work=work)
            app.show()
        child = measurement.child
        if child is not None:
            with caught_signals() as (_, received):
                for number in app.received:
                    if number in (signal.SIGTERM, signal.SIGHUP):
                        child.send(number)
                if not child.has_ended:
                    say(f"{ascii(argv[0])[1:-1]} goes on (process {child.pid}); Ctrl-C ends it")
                output.show()
                status = wait_for(child, received, output.show)
                output.show()
    if app.failure is not None:
        raise app.failure
    end_as(status)


def _saved(argv: Sequence[str]) -> bool:
    """Return whether the arguments name a recording or a document, not a command."""
    if len(argv) != 1:
        return False
    name = argv[0].rstrip("/")
    if os.path.isfile(name) and not name.endswith(_DOCUMENT) and not os.access(name, os.X_OK) and which(name) is None:
        raise click.UsageError(
            f"{name!a} is no recording ({_RECORDING}), no saved document ({_DOCUMENT}), and no program: give one"
        )
    return name.endswith((_RECORDING, _DOCUMENT)) or os.path.isdir(argv[0])


def _options(wanted: TargetOptions, work: Work | None) -> MeasureOptions:
    """Return what is to be measured. Steps of work are counted by no budget."""
    check_work(work, wanted)
    budget = None if work is not None and work.tag else BUDGET_OF_A_MACHINE
    return wanted.options(causes=False, cgroups=True, default_budget=budget)


def _is_terminal(command: bool) -> bool:
    """Return whether there is a terminal for the screen. A measured command's standard output may go elsewhere."""
    streams = [sys.__stdin__, sys.__stderr__] if command else [sys.__stdin__, sys.__stderr__, sys.__stdout__]
    return os.environ.get("TERM", "dumb") != "dumb" and all(
        stream is not None and stream.isatty() for stream in streams
    )


def _title(wanted: TargetOptions, argv: Sequence[str]) -> str:
    """Return what is measured, as the options say it."""
    words = []
    for option, value in (
        ("-p", " ".join([",".join(map(str, wanted.pids)), wanted.others_in_words()]).strip()),
        ("-t", ",".join(map(str, wanted.tids))),
        ("--name", wanted.name or ""),
        ("--cgroup", wanted.cgroup or ""),
        ("-C", ",".join(map(str, wanted.cpus or ()))),
    ):
        if value:
            words.append(f"{option} {value}")
    if wanted.everything:
        words.insert(0, "-a")
    return " ".join([*words, *argv])


class _Look:
    """How a screen looks at first, and which thresholds its advice has."""

    def __init__(self, column: str, group_by: str | None, light: bool, thresholds: Thresholds) -> None:
        self._column, self._light, self._thresholds = column, light, thresholds
        self.listed = ListingOptions(None, False, group_by)
        """Which lines a table has."""

    def app(
        self,
        feed: Live | Timeline,
        where: Facilities,
        *,
        here: bool = True,
        leave: bool = False,
        work: Work | None = None,
    ) -> TopApp:
        """Return the screen.

        ``here``: it shows this machine, now; ``leave``: it ends when measuring ends; ``work``: it says when that is
        done.
        """
        from headway.views.screen.app import TopApp
        from headway.views.screen.roster import Order

        def advice(ledger: Ledger) -> Sequence[Advice]:
            found = advise(ledger, self._thresholds, where)
            # Of what was before nothing can be done any more, or not by a command typed here.
            return found if here else tuple(replace(piece, command=None, undo=None, remedy=None) for piece in found)

        encoding = getattr(sys.__stderr__, "encoding", None) or "ascii"
        return TopApp(
            feed,
            advise=advice,
            coloured=not os.environ.get("NO_COLOR"),
            unicode=encoding.lower().startswith("utf"),
            ground="light" if self._light else "dark",
            order=Order(self._column, by=self.listed.by),
            leave=leave,
            work=followed(work),
        )


# --- what was measured before -----------------------------------------------------------------------------------------


class _Documents:
    """Ledgers from a file, one after the other (`headway.views.screen.feed.Timeline`)."""

    def __init__(self, title: str, ledgers: Sequence[Ledger]) -> None:
        self.title, self._ledgers = title, ledgers
        self.number, self.began = len(ledgers), ledgers[0].window.start

    def ledgers(self, last: int, most: int) -> list[Ledger]:
        """Return the ledger of an interval, after those before it."""
        return list(self._ledgers[max(last - most + 1, 0) : last + 1])

    def rescaled(self, halve: bool, at: int) -> None:
        """Do nothing: the intervals of a document have the length that they have."""


def _show_saved(path: str, interval: float | None, look: _Look, *, screen: bool) -> None:
    if path.rstrip("/").endswith(_DOCUMENT):
        if interval is not None:
            raise click.UsageError(f"{path} has intervals of its own: leave out -I")
        from headway.views.saved import read_ledgers

        ledgers = read_ledgers(path)
        if screen:
            _run(look.app(_Documents(path, ledgers), Facilities(), here=False))
        else:
            _print_once(reduce(merge, ledgers), look.listed)
        return
    if not screen:
        from headway.recording.reader import Recording

        with Recording(path) as recording:
            _check_interval(path, interval, recording.document.ledger.time_unit)
            _print_once(recording.kept_ledger() or recording.ledger(), look.listed)
        return
    from headway.recording.clock import boot
    from headway.recording.intervals import RecordedIntervals

    with RecordedIntervals(path, None if interval is None else round(interval * 1e9)) as intervals:
        _check_interval(path, interval, intervals.time_unit)
        here = intervals.boot != "" and intervals.boot == boot()
        _run(look.app(intervals, facilities() if here else Facilities(), here=here))


def _check_interval(path: str, interval: float | None, unit: str) -> None:
    if interval is not None and unit == "cycles":
        raise click.UsageError(f"{path} is in cycles, and -I is in milliseconds: leave out -I")


def _run(app: TopApp) -> None:
    with patient_collector():
        app.show()
    if app.failure is not None:
        raise app.failure


# --- without a screen -------------------------------------------------------------------------------------------------


def _print(
    wanted: TargetOptions,
    argv: Sequence[str],
    interval: float,
    duration: float | None,
    listed: ListingOptions,
    work: Work | None,
) -> None:
    """Print a table each interval: to standard output, or to standard error if there is a command."""
    with _written(sys.stderr if argv else sys.stdout, listed, work) as show:
        began: list[int] = []
        gone: list[bool] = []

        def each(ledger: Ledger) -> None:
            began[:] = began or [ledger.window.start]
            try:
                show(ledger, began[0])
            except BrokenPipeError:
                gone.append(True)

        selection = wanted.selection(argv)
        wanted.tell_others()
        observation = observe(
            selection,
            argv,
            options=_options(wanted, work),
            prefer=wanted.source,
            seconds=duration,
            interval=interval,
            each=each,
            started=lambda used, reason: say(wanted.by_proc(reason)) if reason else None,
            enough=lambda: bool(gone) and not argv,
        )
        each(observation.ledger)
    end_as(observation.exit_status)


def _print_once(ledger: Ledger, listed: ListingOptions) -> None:
    with _written(sys.stdout, listed) as show:
        show(ledger, None)


@contextmanager
def _written(
    stream: TextIO, listed: ListingOptions, work: Work | None = None
) -> Iterator[Callable[[Ledger, int | None], None]]:
    """Give a function that prints a ledger's table to the stream. It is no error if the reader has gone away."""
    from headway.views.console import Console
    from headway.views.interval import heading
    from headway.views.lines import show
    from headway.views.table import print_table

    console = Console(stream)
    before: GroupBy | None = None
    following = followed(work)

    def write(ledger: Ledger, began: int | None) -> None:
        nonlocal before
        if began is not None:
            show(console, [heading(ledger, began, console.width)])
        if following is not None:
            from headway.views.forecast import forecast_line

            show(console, [forecast_line(following.work, following.take(ledger), ledger, console.width)])
        listing = listed.listing(console, above=0 if began is None else 2, before=before)
        before = print_table(console, ledger, listing=listing)
        if began is not None:
            stream.write("\n")
        stream.flush()

    try:
        yield write
    except BrokenPipeError:
        pass
    except OSError as error:
        raise HeadwayError(f"the table cannot be written ({error.strerror})") from None
