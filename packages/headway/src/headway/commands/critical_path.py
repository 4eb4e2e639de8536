"""``headway critical-path``: what the wall time of a recorded run consisted of."""

from __future__ import annotations

import click

from headway.cli.ending import tidy_end
from headway.cli.options import format_option
from headway.cli.output import answer_to
from headway.cli.progress_bar import spinner
from headway.cli.say import say
from headway.cli.spinning_note import say_spinning
from headway.extras import need
from headway.text import json_text
from headway.views.printable import clean
from headway.views.rows import write_rows

__all__ = ["command"]


@click.command("critical-path")
@click.option("--tid", type=click.IntRange(1), metavar="TID", help="The path to the end of this thread.")
@click.option("--pieces", is_flag=True, help="List the pieces in the order of time, instead of sums.")
@click.option("-n", "limit", type=click.IntRange(1), default=20, show_default=True, help="Lines of the table, at most.")
@click.option("-o", "--output", metavar="FILE", help="Write to FILE instead of standard output.")
@format_option
@click.argument("path", metavar="NAME.hw")
@tidy_end()
def command(path: str, tid: int | None, pieces: bool, limit: int, output: str | None, style: str) -> None:
    """\b
    headway critical-path run.hw                     what the run's time consisted of
    headway critical-path run.hw --pieces            step by step
    headway critical-path run.hw --tid 4711          up to the end of one thread
    headway critical-path run.hw --format json

    Show the critical path of a recorded run: what its wall time consisted of, by thread and state.

    The path leads from the start of the recorded command to its end; without a command, to the end of what ran last.
    Where a thread waited for another one, the path goes on in that thread, from the moment of the wake-up. So no
    sleeping thread is on it, and the times add up to the wall time. A wait for something outside (a disk, a timer, a
    network) is on the path as such. headway what-if tells what a change would gain.
    """
    need("recording")
    from headway.recording.reader import Recording
    from headway.replay.path import critical_path, find_end
    from headway.replay.rows import load
    from headway.replay.wakeups import find_wakeups
    from headway.views.critical_path import PIECE_COLUMNS, document_of_path, piece_rows, write_path

    with Recording(path) as recording:
        done, total = 0, max(recording.rows, 1)

        def shown(rows: int) -> None:
            nonlocal done
            done = rows

        with spinner("reading the transitions", lambda: done / total):
            rows = load(recording, shown)
        whole = recording.document.command is not None
        damaged = dict(recording.damaged)
    for name, why in damaged.items():
        say(clean(f"{name} is left out: {why}"))
    say_spinning(path)
    with spinner("following the wake-ups"):
        found = critical_path(rows, find_wakeups(rows), find_end(rows, command=whole, tid=tid))
    with answer_to(output) as stream:
        if style == "json":
            stream.write(json_text(document_of_path(found, path)))
            stream.write("\n")
        elif pieces or style == "csv":
            units = {"duration": rows.time_unit}
            write_rows(stream, PIECE_COLUMNS, piece_rows(found), style, units=units)
        else:
            write_path(stream, found, limit)
