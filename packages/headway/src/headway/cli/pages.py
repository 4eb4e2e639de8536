"""Writing a recording or a ledger as an HTML page, for the commands with ``--html``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

import click

from headway.errors import HeadwayError

from .output import check_apart, text_output

if TYPE_CHECKING:
    from headway.advice import Advice
    from headway.model import Ledger, Profile
    from headway.recording.queries.chains import Chain
    from headway.recording.reader import Recording
    from headway.views.html.document import Subject
    from headway.views.html.sampled import PipelineWindow, Power, SampledTimeline
    from headway.views.html.timeline import PackedTimeline

__all__ = ["html_option", "page_if", "page_to", "write_ledger_page", "write_recording_page"]


def html_option(function: Any) -> Any:
    """Add ``--html``; the command gets ``html``."""
    return click.option(
        "--html", metavar="FILE", help="Write an HTML page to FILE, complete in one file (docs/html.md)."
    )(function)


_RECORDERS = {"ns": "headway record -o NAME.hw", "cycles": "headway machine run PROGRAM -o NAME.hw"}
"""What makes a recording, by the time unit of a ledger."""


def page_to(path: str) -> AbstractContextManager[TextIO]:
    """Open where a page goes. A file that exists is replaced only when the page is complete. Raises HeadwayError."""
    return text_output(path, "the page")


def page_if(path: str | None) -> AbstractContextManager[TextIO | None]:
    """Open where a page goes, as `page_to` does; None: no page is asked for."""
    return nullcontext() if path is None else page_to(path)


def write_ledger_page(
    stream: TextIO,
    ledger: Ledger,
    *,
    title: str,
    command: Sequence[str] | None = None,
    exit_status: int | None = None,
    advice: Sequence[Advice] = (),
    timeline: SampledTimeline | None = None,
    power: Power | None = None,
    pipeline: PipelineWindow | None = None,
) -> None:
    """Write the page of a ledger. It has no transitions, which need a recording. Raises OSError as the stream does."""
    from headway.views.html.document import Subject
    from headway.views.html.page import write_page

    recorder = _RECORDERS[ledger.time_unit]
    subject = Subject(
        title=title,
        command=command,
        exit_status=exit_status,
        advice=advice,
        no_timeline=""
        if timeline is not None
        else f"it needs every transition: {recorder}, then headway report NAME.hw --html FILE",
        power=power,
        pipeline=pipeline,
    )
    write_page(stream, ledger, subject, timeline=timeline)


def write_recording_page(
    path: str, recorded: str, ledger: Ledger, recording: Recording, advice: Sequence[Advice]
) -> str:
    """Write the page of a recording. Return a sentence that says what is in it. Raises HeadwayError."""
    from headway.recording.profile import has_profile, open_profile
    from headway.recording.stack_profile import profile_of_stacks
    from headway.recording.stacks import has_stacks
    from headway.views.html.document import Subject
    from headway.views.html.page import MAX_BYTES, room_for_timeline, write_page

    check_apart(path, [recorded], "the page")
    document = recording.document
    profile: Profile | None = None
    wakers: Profile | None = None
    no_profile = ""
    try:
        if has_stacks(recording):
            profile = profile_of_stacks(recording, ledger=ledger)
            wakers = profile_of_stacks(recording, ledger=ledger, wakers=True)
        elif has_profile(recorded):
            profile, _ = open_profile(recorded)
    except HeadwayError as error:
        no_profile = str(error)
    with page_to(path) as stream:
        timeline = None
        subject = Subject(
            title=os.path.basename(os.path.normpath(recorded)),
            host=document.host,
            when=_when(recording),
            command=document.command,
            exit_status=document.exit_status,
            advice=advice,
            no_profile=no_profile,
        )
        if recording.rows:
            timeline = _timeline(recording, ledger, room_for_timeline(MAX_BYTES, ledger))
            subject = _with_chains(subject, recorded)
        else:
            none = (
                "no transition of this recording can be read" if recording.damaged else "there is no transition in it"
            )
            subject = replace(subject, no_timeline=none)
        damaged = [f"{name}: {why}" for name, why in recording.damaged.items()]
        if damaged:
            more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
            remarks = (*subject.remarks, f"damaged: {damaged[0]}{more}")
            subject = replace(subject, remarks=remarks, damaged=len(damaged))
        if profile is not None and timeline is None:
            ledger = profile.ledger  # the samples name threads by their places in it
        write_page(stream, ledger, subject, timeline=timeline, profile=profile, wakers=wakers)
    size = os.path.getsize(path) / 1e6
    left_out = f"; {len(damaged):,} of the recording's files cannot be read" if damaged else ""
    if timeline is None:
        return f"{path}: {size:.1f} MB{left_out}"
    if timeline.slices is not None:
        all_of = "" if damaged else "every one of "
        return f"{path}: {size:.1f} MB, {all_of}{timeline.rows:,} transitions{left_out}"
    from headway.views.figures import with_unit

    width = with_unit(timeline.levels.width, ledger.time_unit, 7, " ")
    coarse = f"{timeline.rows:,} transitions do not fit, they are in it as shares of {width}"
    return f"{path}: {size:.1f} MB; {coarse}{left_out}"


def _timeline(recording: Recording, ledger: Ledger, room: int) -> PackedTimeline:
    from headway.views.html.timeline import Lanes, TimelineBuilder

    places = {thread.key: place for place, thread in enumerate(ledger.threads)}
    numbers = {
        number: places[seen.tid, seen.birth]
        for number, seen in recording.threads().items()
        if (seen.tid, seen.birth) in places
    }
    lanes = Lanes(
        window=recording.window,
        threads=numbers,
        lives=[(thread.start, thread.until) for thread in ledger.threads],
        cpus=[processor.cpu for processor in ledger.processors],
    )
    timeline = TimelineBuilder(lanes, recording.rows, room)
    for batch in recording.batches():
        timeline.add(batch.transitions)
    return timeline.packed()


def _with_chains(subject: Subject, recorded: str) -> Subject:
    """Return the subject with who waited for whom, or with the reason why that cannot be found out."""
    from headway.recording.queries.catalogue import find
    from headway.recording.queries.chains import chains
    from headway.recording.queries.questions import DEPTH
    from headway.recording.queries.tables import Tables, open_engine

    try:
        catalogue = find(recorded)
        with Tables(catalogue, open_engine(None, catalogue), ("transitions", "threads")) as tables:
            found: list[Chain] = chains(tables, catalogue.runs[0], DEPTH)
            left_out = tuple(tables.left_out)
    except HeadwayError as error:
        return replace(subject, no_chains=str(error))
    return replace(subject, chains=found, remarks=left_out)


def _when(recording: Recording) -> str:
    """Return the day and time of the recording's beginning; "" if that is not known."""
    from datetime import UTC, datetime

    anchors = recording.anchors
    if not anchors or recording.document.ledger.time_unit != "ns":
        return ""
    anchor = anchors[0]
    moment = recording.window.start - anchor.monotonic + anchor.realtime
    try:
        return f"{datetime.fromtimestamp(moment / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return ""  # the anchors are outside the range of dates
