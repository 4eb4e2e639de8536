"""``headway at``: what every thread was doing at one instant of a recording."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from headway.cli.ending import tidy_end
from headway.cli.options import format_option
from headway.cli.progress_bar import spinner
from headway.cli.say import say
from headway.cli.spinning_note import say_spinning
from headway.cli.traces import open_beside
from headway.errors import HeadwayError
from headway.extras import need
from headway.views.figures import with_unit
from headway.views.printable import clean
from headway.views.rows import print_rows

if TYPE_CHECKING:
    from headway.model.executed import Executed
    from headway.recording.queries.instant import Doing, Instant

__all__ = ["command"]

_COLUMNS = (
    "instant",
    "tid",
    "pid",
    "name",
    "state",
    "kind",
    "cpu",
    "since",
    "until",
    "waker",
    "waker_tid",
    "waker_state",
    "woken",
)


_EXECUTED = ("function", "line", "address", "instruction", "executed", "executed_uncertainty", "executed_unknown")
_BRIEFLY = ("function", "line", "instruction", "ago")


@click.command("at")
@click.argument("path", metavar="RECORDING")
@click.argument("instant", metavar="TIME")
@click.option(
    "--trace",
    "traced",
    metavar="FILE",
    help="Trace of the same run (perf.data, .hwt, a snapshot): show what each thread executed last.",
)
@click.option(
    "--image", "images", multiple=True, metavar="FILE[@ADDRESS]", help="Program, beside those that the trace names."
)
@format_option
@tidy_end()
def command(path: str, instant: str, style: str, traced: str | None, images: tuple[str, ...]) -> None:
    """\b
    headway at run.hw 3.2s                     since the recording's start
    headway at run.hw 2026-11-21T12:00:03.2    by the time of day
    headway at 'runs/host=*/run=*/' 2026-11-21T12:00:03.2Z
    headway at run.hw 3.2s --trace perf.data    and what each thread executed last

    Show what every thread was doing at an instant.

    A row has the thread's state, since when it was in it, on which processor, and who had woken the thread; of a
    waiting thread, who woke it later, and when, and where in the program it waits, if stacks were recorded. With
    --trace it has the function, the line and the instruction that the thread executed last, or why that is not known.
    """
    if images and traced is None:
        raise click.UsageError("--image is for --trace")
    need("recording")
    from headway.recording.queries.catalogue import find
    from headway.recording.queries.instant import at

    catalogue = find(path)
    many = len(catalogue.runs) > 1
    if traced is not None and many:
        raise HeadwayError("--trace is of one run: name one recording")
    beside = open_beside(catalogue.runs[0], traced, images) if traced is not None else None
    found: list[Instant] = []
    missing = []
    looked = 0
    with spinner("looking at each recording", lambda: looked / len(catalogue.runs) if many else None):
        for run in catalogue.runs:
            try:
                found.append(at(run, instant))
            except HeadwayError as error:
                if not many:
                    raise
                missing.append(str(error))
            looked += 1
    for why in (*catalogue.left_out, *missing, *(why for one in found for why in one.left_out)):
        say(clean(why))
    if not found:
        raise HeadwayError("none of the recordings covers that time: headway report says when each was made")
    if style == "table":
        for one in found:
            _say(one, many)
    who = ("host", "run") if many else ()
    table = style == "table"
    rows = [
        (
            *((one.run.host, one.run.run) if many else ()),
            *(_brief(one, d) if table else _row(one, d)),
            *(_executed(beside.at(d.tid, d.cpu, one.time), one.time, table=table) if beside is not None else ()),
        )
        for one in found
        for d in one.threads
    ]
    places = any(d.place for one in found for d in one.threads)
    if places:
        each = [d for one in found for d in one.threads]
        rows = [(*row, d.place) for row, d in zip(rows, each, strict=True)]
    unit = catalogue.runs[0].time_unit
    if table:
        more = (*(() if beside is None else _BRIEFLY), *(("in",) if places else ()))
        units = {"for": unit, "ago": unit}
        print_rows((*who, "thread", "tid", "state", "for", "cpu", "woken", *more), rows, style, units=units)
    else:
        more = (*(() if beside is None else _EXECUTED), *(("place",) if places else ()))
        print_rows((*who, *_COLUMNS, *more), rows, style)
    for one in found:
        if one.run.local:
            say_spinning(one.run.place, named=many)
    if beside is not None:
        say(clean(beside.words))
        if beside.left_out:
            say(clean(beside.left_out))


def _executed(last: Executed, time: int, *, table: bool) -> tuple[int | str | None, ...]:
    if table:
        ago = None if last.time is None else max(time - last.time, 0)
        return last.function or last.why, last.line, last.instruction, ago
    address = None if last.address is None else f"{last.address:#010x}"
    return last.function, last.line, address, last.instruction, last.time, last.uncertainty, last.why


def _row(one: Instant, doing: Doing) -> tuple[int | str | None, ...]:
    wake = doing.wake
    return (
        one.time,
        doing.tid,
        doing.pid,
        doing.name,
        doing.state,
        doing.kind.value,
        doing.cpu,
        doing.since,
        doing.until,
        *((wake.thread, wake.tid, wake.state, wake.time) if wake else (None,) * 4),
    )


def _brief(one: Instant, doing: Doing) -> tuple[int | str | None, ...]:
    so_long = None if doing.since is None else one.time - doing.since
    return doing.name, str(doing.tid), doing.state, so_long, doing.cpu, _woken(one, doing)


def _woken(one: Instant, doing: Doing) -> str | None:
    wake = doing.wake
    if wake is None:
        return None
    who = wake.state or wake.thread or f"tid {wake.tid}"
    away = with_unit(abs(wake.time - one.time), one.run.time_unit, 6) if wake.time != one.time else "0"
    return f"in {away} by {who}" if wake.time > one.time else f"{away} ago by {who}"


def _say(one: Instant, many: bool) -> None:
    """Print when the instant is, and how many threads are in each kind of state."""
    run = one.run
    since = one.time - run.start
    where = f"{run.host}, {run.run}: " if many else ""
    when = f"cycle {since}" if run.time_unit == "cycles" else f"{since / 1e9:.9g} s"
    if one.realtime is not None:
        seconds, rest = divmod(one.realtime, 10**9)
        try:
            day = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:09d} UTC"
            when += f" ({day} ± {with_unit(one.uncertainty or 0, 'ns', 7, ' ')})"
        except (OverflowError, ValueError, OSError):
            pass  # the anchors are outside the range of dates
    kinds = Counter(doing.kind.value for doing in one.threads)
    some = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    threads = f"{len(one.threads)} thread{'' if len(one.threads) == 1 else 's'}"
    click.echo(clean(f"{where}{when}, {threads}{': ' if some else ''}{some}"), err=True)
