"""``headway report``: a recording as the table or the JSON of ``headway stat``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from headway.advice import Advice, Facilities, advise
from headway.advice.threshold_files import load_thresholds
from headway.cli.options import ListingOptions, durations_option, listing_options
from headway.cli.output import answer_to
from headway.cli.pages import html_option, write_recording_page
from headway.cli.profiles import SHOWN, has_profile, narrowing_options, show_recorded_profile
from headway.cli.progress_bar import spinner
from headway.cli.say import say
from headway.extras import need
from headway.linux.placement.facilities import facilities
from headway.linux.placement.still_there import about_the_living
from headway.model import Ledger
from headway.verdict import verdict
from headway.views.listing import LINES
from headway.views.printable import clean

if TYPE_CHECKING:
    from headway.recording.reader import Recording

__all__ = ["command"]


@click.command("report")
@click.option("-o", "--output", metavar="FILE", help="Write the report to FILE instead of standard output.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON (headway schema).")
@click.option(
    "--from-transitions", is_flag=True, help="Add up the recorded transitions, instead of reading the recorded totals."
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show every state of every thread, the processors, and all notes on the figures.",
)
@click.option(
    "--locks",
    "with_locks",
    is_flag=True,
    help="Show the locks that threads waited for: who had them meanwhile, and what that thread did.",
)
@click.option(
    "--why",
    "causes",
    type=click.Choice(["wait"]),
    help="Show who ended the waits and, of a recording with stacks, where in the program that was.",
)
@durations_option
@listing_options
@narrowing_options
@html_option
@click.argument("path", metavar="NAME.hw")
def command(
    path: str,
    part: str | None,
    state: str | None,
    output: str | None,
    as_json: bool,
    from_transitions: bool,
    verbose: bool,
    with_locks: bool,
    causes: str | None,
    durations: int | None,
    listed: ListingOptions,
    html: str | None,
) -> None:
    """\b
    headway report run.hw                    every thread's progress
    headway report run.hw --html run.html    a page with timeline and wait chains
    headway report -v run.hw                 every state too
    headway report --locks run.hw            locks, and what their holders did
    headway report --why wait run.hw         where threads waited, and who woke them
    headway report --json run.hw             as headway stat --json
    headway report prof.hw                   a profile: lost time by state
    headway report prof.hw --index wait      a profile: waits by place in the code

    Show what a recording says about progress, and where the rest of the time went.

    Of a profile (headway profile -o) the report shows the functions and stacks of each state; --index and --state
    select some. With -v, --every-thread, --by or --from-transitions it shows the threads, as of other recordings.
    A ~ marks a sampled figure, with its error beside it; times off the processor are exact.

    A recording that was not closed (its recorder was killed, or still records) is shown up to its last complete part.
    """
    need("recording")
    from headway.recording.reader import Recording

    narrowed = part is not None or state is not None
    if durations is None:
        durations = int(verbose or as_json or html is not None)
    if html is not None:
        if narrowed or as_json or output is not None or causes is not None:
            raise click.UsageError(
                "--html writes a page of everything: leave out --json, -o, --index, --state and --why"
            )
        with Recording(path) as recording:
            ledger, advice = _figures(recording, from_transitions, durations)
            say(clean(write_recording_page(html, path, ledger, recording, advice)))
        return
    if with_locks and has_profile(path):
        raise click.UsageError("a profile has no locks: --locks is for a recording of headway record")
    if causes is not None and has_profile(path):
        raise click.UsageError("--why is for a recording of headway record: of a profile, --index wait selects waits")
    if narrowed or (has_profile(path) and not (verbose or listed.every_line or listed.group_by or from_transitions)):
        with answer_to(output) as stream:
            show_recorded_profile(path, stream, part=part, state=state, as_json=as_json, limit=listed.limit or SHOWN)
        return
    with Recording(path) as recording:
        ledger, advice = _figures(recording, from_transitions, durations, with_locks)
        document = recording.document
        without_places = ""
        if causes is not None:
            from headway.recording.wait_causes import with_wait_causes

            with spinner("adding up waits"):
                ledger, without_places = with_wait_causes(recording, ledger)
    with answer_to(output) as stream:
        if as_json:
            from headway.views.json import write

            status = document.exit_status
            stream.writelines(write(ledger, command=document.command, exit_status=status, advice=advice))
            stream.write("\n")
        else:
            from headway.views.console import Console
            from headway.views.table import print_table
            from headway.views.verdict import show_verdict

            console = Console(stream)
            show_verdict(console, verdict(ledger))
            listing = listed.listing(console, verbose=verbose)
            print_table(console, ledger, advice=advice, listing=listing, verbose=verbose, durations=bool(durations))
            if causes is not None:
                from headway.views.lines import show
                from headway.views.why import why

                show(console, [[], *why(ledger, [causes], width=console.width, verbose=verbose)])
                if without_places:
                    say(without_places)
            if with_locks:
                from headway.views.lines import show
                from headway.views.uses import use_tables

                limit = None if listed.every_line else listed.limit or LINES
                show(console, [[], *use_tables(ledger, ["locks"], width=console.width, limit=limit, verbose=verbose)])


def _figures(
    recording: Recording, from_transitions: bool, durations: int, with_locks: bool = False
) -> tuple[Ledger, tuple[Advice, ...]]:
    """Return the ledger, with ``durations`` of so many buckets for each power of two, and the advice.

    ``with_locks``: with the locks that threads waited for, too.
    """
    from headway.recording.clock import boot

    ledger = None if from_transitions else recording.kept_ledger()
    if ledger is None:
        with spinner("counting the transitions"):
            ledger = recording.ledger()
    if durations:
        from headway.recording.durations import with_durations

        with spinner("adding up durations"):
            ledger = with_durations(recording, ledger, durations)
    if with_locks:
        from headway.model.uses import Uses
        from headway.replay.locks import lock_uses
        from headway.replay.rows import load

        with spinner("finding who had the locks"):
            ledger = replace(ledger, uses=Uses(locks=lock_uses(load(recording), recording.document.locks)))
    from headway.recording.tasks import with_tasks

    with spinner("adding up tasks"):
        ledger = with_tasks(recording, ledger)
    here = recording.document.boot == boot()
    advice = advise(ledger, load_thresholds(None), facilities() if here else Facilities())
    if here:
        advice = about_the_living(advice, ledger)
    else:  # nothing can be done about it any more, or not by a command typed here
        advice = tuple(replace(piece, command=None, undo=None, remedy=None) for piece in advice)
    return ledger, advice
