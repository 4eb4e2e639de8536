"""``headway diff``: two recordings side by side, at equal progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headway.cli.ending import tidy_end
from headway.cli.options import format_option
from headway.cli.progress_bar import spinner
from headway.cli.say import say
from headway.cli.spinning_note import say_spinning
from headway.errors import HeadwayError
from headway.extras import need
from headway.model import RUNNING, Kind
from headway.text import json_text
from headway.views.figures import with_unit
from headway.views.printable import clean
from headway.views.rows import print_rows

if TYPE_CHECKING:
    from headway.model import Profile
    from headway.recording.queries.catalogue import RecordedRun
    from headway.recording.queries.comparison import Comparison, Course, Share, Tenth

__all__ = ["command"]

_SCHEMA = "headway.diff/1"
_SHOWN = (Kind.KERNEL, Kind.POLL, Kind.READY, Kind.STOLEN, Kind.WAIT)
_PLACES = 10
_OFF = {Kind.WAIT, Kind.UNKNOWN}
_LISTS = (
    ("able to run, but no progress", {*Kind} - _OFF - {Kind.EFFECTIVE}, 10),
    ("waiting, or not seen", _OFF, 10),
    ("progress, by the threads that made it", {Kind.EFFECTIVE}, 5),
)
"""The lists of states in the table: title, kinds, and number of lines."""


@click.command("diff")
@click.argument("a", metavar="A.hw")
@click.argument("b", metavar="B.hw")
@click.option("--name", metavar="NAME", help="Compare only threads of this name, their progress and their time.")
@click.option(
    "--folded",
    is_flag=True,
    help="Of two profiles or recordings with stacks: write each stack with its time in A and in B, as difffolded.pl "
    "does, for a differential flame graph.",
)
@format_option
@tidy_end()
def command(a: str, b: str, name: str | None, folded: bool, style: str) -> None:
    """\b
    headway diff before.hw after.hw
    headway diff before.hw after.hw --name worker
    headway diff before.hw after.hw --folded | flamegraph.pl >diff.svg

    Compare two runs at equal progress.

    The report shows how long each run took for every tenth of the progress that both made, and in which states of which
    threads B is slower than A. Progress is the time of all threads in effective states.
    """
    need("recording")
    if folded:
        if name is not None or style != "table":
            raise click.UsageError("--folded is of all threads, and a form of its own: leave out --name and --format")
        from headway.views.differential import folded_of_both

        for line in folded_of_both(*(_profile(path) for path in (a, b))):
            click.echo(line)
        return
    from headway.recording.queries.comparison import compare, course_of

    courses = []
    for path in (a, b):
        with spinner(f"reading {ascii(path)[1:-1]}"):
            courses.append(course_of(_one(path), name))
    found = compare(*courses)
    for why in (*found.a.left_out, *found.b.left_out):
        say(clean(why))
    for course in courses:
        if course.run.local:
            say_spinning(course.run.place, named=True)
    if style == "json":
        click.echo(json_text(_document(found), indent=1))
    elif style == "csv":
        kinds = [kind.value for kind in Kind]
        columns = ("progress", "a_time", "b_time", *(f"{run}_{kind}" for kind in kinds for run in "ab"))
        print_rows(columns, _wide(found), "csv")
    else:
        _table(found)
        _show_places(found, name)


def _profile(path: str) -> Profile:
    from headway.recording.profile import open_profile

    with spinner(f"adding up the stacks of {ascii(path)[1:-1]}"):
        profile, _ = open_profile(path)
    return profile


def _show_places(found: Comparison, name: str | None) -> None:
    """Print at which places of the program threads waited longer or shorter, if both runs have stacks."""
    runs = [found.a.run, found.b.run]
    if not all(run.local and run.closed and run.files["stacks"] for run in runs):
        return
    from headway.views.differential import differing_places

    try:
        places = differing_places(*(_profile(run.place) for run in runs))
    except HeadwayError as error:
        say(clean(str(error)))
        return
    chosen = [one for one in places if name is None or one.name == name]
    if not chosen:
        return
    click.echo("\nin all of both runs, by place in the program: the largest differences")
    rows = [(one.name, one.state, one.place, one.a, one.b, one.difference) for one in chosen[:_PLACES]]
    print_rows(
        ("thread", "state", "place", "A", "B", "B - A"), rows, "table", units=dict.fromkeys(("A", "B", "B - A"), "ns")
    )


def _one(path: str) -> RecordedRun:
    from headway.recording.queries.catalogue import find

    runs = find(path).runs
    if len(runs) != 1:
        raise HeadwayError(f"{path!a} has {len(runs)} recordings: name one of them")
    return runs[0]


def _wide(found: Comparison) -> list[list[int]]:
    return [
        [
            found.common * number // len(found.tenths),
            a.time,
            b.time,
            *(tenth.kinds[kind] for kind in Kind for tenth in (a, b)),
        ]
        for number, (a, b) in enumerate(found.tenths, 1)
    ]


def _document(found: Comparison) -> dict[str, Any]:
    def run(course: Course, progress: int, time: int) -> dict[str, Any]:
        which = course.run
        return {
            "recording": which.place,
            "host": which.host,
            "run": which.run,
            "duration": course.length,
            "progress": progress,
            "time": time,
            "resolution": course.piece,
        }

    def tenth(one: Tenth) -> dict[str, Any]:
        return {"time": one.time, "kinds": {kind.value: amount for kind, amount in one.kinds.items()}}

    time_a, time_b = found.time
    return {
        "schema": _SCHEMA,
        "time_unit": found.a.run.time_unit,
        "a": run(found.a, found.progress_a, time_a),
        "b": run(found.b, found.progress_b, time_b),
        "progress": found.common,
        "tenths": [
            {"progress": found.common * number // len(found.tenths), "a": tenth(a), "b": tenth(b)}
            for number, (a, b) in enumerate(found.tenths, 1)
        ],
        "states": [
            {"name": s.name, "state": s.state, "kind": s.kind.value, "a": s.a, "b": s.b, "difference": s.difference}
            for s in found.shares
        ],
    }


def _table(found: Comparison) -> None:
    unit = found.a.run.time_unit
    time_a, time_b = found.time

    def text(amount: int) -> str:
        return with_unit(amount, unit, 8, " ") if amount else "0"

    click.echo(
        f"progress both made: {text(found.common)} (A all of {text(found.progress_a)}, B of {text(found.progress_b)})"
    )
    ratio = f": {time_b / time_a:.2f} x" if time_a else ""
    click.echo(f"A took {text(time_a)} for it, B {text(time_b)}{ratio}\n")
    columns = ("progress", "A", "B", "B - A", *(kind.value for kind in _SHOWN))
    rows: list[tuple[Any, ...]] = [_line(f"{number * 10} %", a, b) for number, (a, b) in enumerate(found.tenths, 1)]
    units = dict.fromkeys(columns[1:], unit)
    click.echo("every tenth: time in A and B, then how much more of all threads' time B had")
    print_rows(columns, rows, "table", units=units)
    undivided = [share for share in found.shares if share.state == RUNNING]
    if undivided:
        a, b = (text(sum(amounts)) for amounts in zip(*[(share.a, share.b) for share in undivided], strict=True))
        click.echo(
            f"\nprogress is at most this: {a} of A and {b} of B is running, which may be user code or the kernel"
        )
    differing = [share for share in found.shares if share.difference]
    for title, kinds, most in _LISTS:
        _list(title, [share for share in differing if share.kind in kinds], unit, most)


def _line(title: str, a: Tenth, b: Tenth) -> tuple[Any, ...]:
    return title, a.time, b.time, b.time - a.time, *(b.kinds[kind] - a.kinds[kind] for kind in _SHOWN)


def _list(title: str, shares: list[Share], unit: str, most: int) -> None:
    if not shares:
        return
    click.echo(f"\n{title}: the largest differences")
    shown = shares[:most]
    rows: list[tuple[Any, ...]] = [(s.name, s.state, s.a, s.b, s.difference) for s in shown]
    rest = shares[most:]
    if rest:
        rows.append(
            (f"({len(rest)} more)", "", sum(s.a for s in rest), sum(s.b for s in rest), sum(s.difference for s in rest))
        )
    print_rows(("thread", "state", "A", "B", "B - A"), rows, "table", units=dict.fromkeys(("A", "B", "B - A"), unit))
