"""``headway what-if``: how long a recorded run would take if something were changed."""

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


@click.command("what-if")
@click.option(
    "--faster",
    multiple=True,
    metavar="WHAT=SPEED",
    help="WHAT takes less time: a marked region or function, a state, a thread, THREAD:STATE, or a function of the "
    "--profile, or of the recording itself if it has stacks. SPEED is 2x, or 30% for 30 per cent less time; 0.5x is "
    "slower.",
)
@click.option("--disk", metavar="SPEED", help="Disks are faster: the same as --faster wait.disk=SPEED.")
@click.option(
    "--lock-free",
    multiple=True,
    metavar="WHICH",
    help="Threads no longer wait for the lock at an address (0x55d04a8c40, or THREADS:0x55d04a8c40); or threads of a "
    "name (THREADS, or THREADS:STATE) for all locks that they hold among themselves.",
)
@click.option("--processors", metavar="N", help="Another number of processors: 4, +1 or -1.")
@click.option(
    "--threads", multiple=True, metavar="THREADS=Nx", help="N times as many threads of this name share their work."
)
@click.option(
    "--without",
    multiple=True,
    metavar="PROCESS",
    help="A neighbour is gone: a process by name or id, or others: all that is not measured.",
)
@click.option(
    "--profile", metavar="NAME.hw", help="A profile of the same program (headway profile -o), to find functions in."
)
@click.option("--anyway", is_flag=True, help="Predict also where the unchanged replay is more than 10 % off.")
@click.option("-v", "--verbose", is_flag=True, help="List all that the ranges rest on.")
@click.option("--tid", type=click.IntRange(1), metavar="TID", help="Look for the end of this thread.")
@click.option("-o", "--output", metavar="FILE", help="Write to FILE instead of standard output.")
@format_option
@click.argument("path", metavar="NAME.hw")
@tidy_end()
def command(
    path: str,
    faster: tuple[str, ...],
    disk: str | None,
    lock_free: tuple[str, ...],
    processors: str | None,
    threads: tuple[str, ...],
    without: tuple[str, ...],
    profile: str | None,
    anyway: bool,
    verbose: bool,
    tid: int | None,
    output: str | None,
    style: str,
) -> None:
    """\b
    headway what-if run.hw                           what is worth changing
    headway what-if run.hw --faster parse=2x         a marked region or function
    headway what-if run.hw --faster 'worker-*:kernel.read=30%'
    headway what-if run.hw --faster parse=2x --profile prof.hw
    headway what-if run.hw --lock-free 'worker-*' --processors +2
    headway what-if run.hw --disk 2x --without backup

    Predict how long a recorded run would take if something were changed.

    headway replays the recorded run with the changes. Without one it tries what the critical path consists of, and
    lists what is worth it. Every answer is a range; -v lists what the ranges rest on. There is no answer where the
    unchanged replay is more than 10 % off.

    Of a recording of programs that ran before, and have tasks, it tells how long each task takes, and how many there
    are in a second.
    """
    need("recording")
    from headway.recording.reader import Recording
    from headway.replay.candidates import rank
    from headway.replay.changes import parse_changes
    from headway.replay.functions import read_shares, shares_in
    from headway.replay.predict import check_error, model_of
    from headway.replay.rows import load
    from headway.replay.units import units_in
    from headway.views.what_if import COLUMNS, document_of_predictions, prediction_rows, write_predictions

    changes = parse_changes(
        faster=faster, disk=disk, lock_free=lock_free, processors=processors, threads=threads, without=without
    )
    functions = read_shares(profile) if profile is not None else None
    with Recording(path) as recording:
        done, total = 0.0, max(recording.rows, 1)

        def shown(rows: int) -> None:
            nonlocal done
            done = rows / total

        with spinner("reading the transitions", lambda: done):
            rows = load(recording, shown)
            units = units_in(recording, rows)
        functions = functions or shares_in(recording)
        has_command = recording.document.command is not None
        damaged = dict(recording.damaged)
    for name, why in damaged.items():
        say(clean(f"{name} is left out: {why}"))
    say_spinning(path)
    with spinner("following the wake-ups"):
        model = model_of(rows, command=has_command, tid=tid, functions=functions, units=units)
    if not anyway:
        check_error(model, "record it again with fewer others running, or take the wide ranges with --anyway")
    if changes:
        with spinner("replaying"):
            found = [model.predict(changes)]
    else:
        done = 0.0

        def tried(number: int, all_: int) -> None:
            nonlocal done
            done = number / max(all_, 1)

        with spinner("trying changes", lambda: done):
            found = [one for _, one in rank(model, tried)]
    with answer_to(output) as stream:
        if style == "json":
            stream.write(json_text(document_of_predictions(found, model, path), indent=1))
            stream.write("\n")
        elif style == "csv":
            write_rows(stream, COLUMNS, prediction_rows(found), style)
        else:
            write_predictions(stream, found, model, ranked=not changes, verbose=verbose)
