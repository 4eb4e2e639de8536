"""``headway export``: a recording in the formats of other tools."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

import click

from headway.cli.output import binary_output, check_apart
from headway.cli.parameters import Ids, all_ids
from headway.cli.profiles import has_profile, narrowing_options
from headway.cli.progress_bar import progress_bar
from headway.cli.say import say
from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.extras import need
from headway.model import Quality, ThreadSeen, Window
from headway.views.printable import clean

if TYPE_CHECKING:
    from headway.model import Batch, Profile
    from headway.recording.batches import Chosen
    from headway.recording.reader import Recording
    from headway.views.exported import Exported

__all__ = ["command"]

_OF_ROWS = ("perfetto", "chrome", "csv", "parquet")
_OF_STACKS = ("speedscope", "folded", "pprof")
_TEXT = frozenset({"chrome", "csv", "speedscope", "folded"})


@click.command("export")
@click.argument("recording", metavar="RUN.hw")
@click.option(
    "--to",
    "kind",
    type=click.Choice([*_OF_ROWS, *_OF_STACKS]),
    required=True,
    help="Format. perfetto: for ui.perfetto.dev; chrome: trace events in JSON; csv, parquet: a table of transitions; "
    "speedscope, folded (flamegraph.pl), pprof: stacks of a profile, or the time of each state of other recordings.",
)
@click.option(
    "-o", "--output", metavar="FILE", help="Write to FILE instead of standard output; a name in .gz is compressed."
)
@click.option(
    "-p",
    "--pid",
    "pids",
    type=Ids(),
    multiple=True,
    callback=all_ids,
    metavar="PID[,PID]",
    help="Export only these processes. May be repeated.",
)
@click.option(
    "-t",
    "--tid",
    "--thread",
    "tids",
    type=Ids(),
    multiple=True,
    callback=all_ids,
    metavar="TID[,TID]",
    help="Export only these threads. May be repeated.",
)
@click.option("--name", metavar="NAME", help="Export only threads of this name; NAME* matches a prefix.")
@click.option(
    "--from", "since", metavar="TIME", help="Export from this time on: 3.2s since the start, or a time of day."
)
@click.option("--until", metavar="TIME", help="Export until this time.")
@narrowing_options
@click.option(
    "--wakers",
    is_flag=True,
    help="Of a recording with stacks: the waits by the stacks of those who ended them.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors and warnings.")
def command(
    recording: str,
    kind: str,
    output: str | None,
    pids: tuple[int, ...],
    tids: tuple[int, ...],
    name: str | None,
    since: str | None,
    until: str | None,
    part: str | None,
    state: str | None,
    wakers: bool,
    quiet: bool,
) -> None:
    """\b
    headway export run.hw --to perfetto -o run.pftrace    for ui.perfetto.dev
    headway export run.hw --to parquet -o run.parquet     all transitions
    headway export run.hw --to chrome --from 3s --until 3.5s -o part.json.gz
    headway export prof.hw --to speedscope -o prof.json   a profile's stacks
    headway export prof.hw --to folded --index wait | flamegraph.pl >waits.svg
    headway export run.hw --to folded --wakers --state wait.futex

    Write a recording in the format of another tool (docs/export.md).

    Of a profile (headway profile -o), and of a recording with stacks (headway record --stacks), the formats speedscope,
    folded and pprof have the stacks. Weights are in ns, and the innermost frame is the state; --index and --state
    select a part. Of other recordings these formats have the exact time of every state, of the reference machine in
    cycles.
    """
    need("recording")
    narrowed = part is not None or state is not None
    chosen = _Wanted(pids, tids, name, since, until)
    if narrowed and kind in _OF_ROWS:
        raise click.UsageError(
            f"--index and --state are of stacks: leave them out, or export to {', '.join(_OF_STACKS)}"
        )
    check_apart(output, [recording])
    profiled = has_profile(recording)
    if profiled and kind in _OF_ROWS:
        raise HeadwayError(f"{recording!a} is a profile, without transitions: export it to {', '.join(_OF_STACKS)}")
    if profiled and chosen.given:
        raise click.UsageError(
            "of a profile only --index and --state select a part: leave out -p, -t, --name, --from and --until"
        )
    if wakers and (profiled or kind in _OF_ROWS):
        raise click.UsageError(f"--wakers is of a recording with stacks, to {', '.join(_OF_STACKS)}")
    if profiled:
        _export_profile(recording, kind, output, part, state)
    else:
        _export_rows(recording, kind, output, chosen, _Narrowed(part, state, wakers), quiet)


@dataclass(frozen=True, slots=True)
class _Narrowed:
    """The options that choose stacks."""

    part: str | None
    state: str | None
    wakers: bool


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The options that choose rows."""

    pids: tuple[int, ...]
    tids: tuple[int, ...]
    name: str | None
    since: str | None
    until: str | None

    @property
    def given(self) -> bool:
        return any((self.pids, self.tids, self.name, self.since, self.until))

    def of(self, recording: Recording, words: str) -> Chosen:
        """Return the chosen rows. Raises HeadwayError if there are none."""
        from headway.recording.batches import Chosen

        threads = None
        if self.pids or self.tids or self.name is not None:
            threads = frozenset(number for number, thread in recording.threads().items() if self._is_one(thread))
            if not threads:
                raise HeadwayError(f"{words} has no such thread: headway report lists its threads")
        return Chosen(threads, self._window(recording, words))

    def _is_one(self, thread: ThreadSeen) -> bool:
        if self.name is not None:
            beginning = self.name.removesuffix("*")
            fits = thread.name.startswith(beginning) if self.name.endswith("*") else thread.name == self.name
            if not fits:
                return False
        return not (self.pids or self.tids) or thread.pid in self.pids or thread.tid in self.tids

    def _window(self, recording: Recording, words: str) -> Window | None:
        if self.since is None and self.until is None:
            return None
        from headway.recording.queries.times import RunClock, instant_of

        frame, whole = recording.document.ledger, recording.window
        clock = RunClock(words, frame.window.start, frame.time_unit, recording.anchors)
        start = whole.start if self.since is None else max(instant_of(self.since, clock), whole.start)
        end = whole.end if self.until is None else min(instant_of(self.until, clock), whole.end)
        if self.since is not None and self.until is not None:
            first, last = instant_of(self.since, clock), instant_of(self.until, clock)
            if first > last:
                raise HeadwayError(f"--from {self.since} is after --until {self.until}: give the earlier one to --from")
        if start >= end:
            raise HeadwayError(f"{words} has nothing between --from and --until: headway report says when it was")
        return Window(start, end)


def _export_profile(path: str, kind: str, output: str | None, part: str | None, state: str | None) -> None:
    from headway.recording.profile import open_profile

    profile, document = open_profile(path)
    anchor = document.anchors[0] if document.anchors else None
    start = profile.ledger.window.start
    realtime = None if anchor is None else start - anchor.monotonic + anchor.realtime
    with _open(kind, output) as stream:
        stream.writelines(_stacks(kind, profile.narrowed(part=part, state=state), path, realtime))


def _stacks(kind: str, profile: Profile, name: str, realtime: int | None) -> Iterator[bytes]:
    """Yield the profile in one of these formats. ``realtime``: ns since 1970 at its start, if that is known."""
    if kind == "folded":
        from headway.views.folded import folded

        yield from (f"{line}\n".encode() for line in folded(profile))
    elif kind == "speedscope":
        from headway.views.speedscope import speedscope

        yield json.dumps(speedscope(profile, name)).encode()
    else:
        from headway.views.pprof import pprof

        yield pprof(profile, realtime)


def _export_rows(path: str, kind: str, output: str | None, wanted: _Wanted, narrowed: _Narrowed, quiet: bool) -> None:
    import numpy as np

    from headway.recording.reader import Recording
    from headway.recording.stack_profile import profile_of_stacks
    from headway.recording.stacks import has_stacks

    words = ascii(os.fspath(path))
    with Recording(path) as recording:
        chosen = wanted.of(recording, words)
        exported = _about(recording, chosen)
        notes: list[str] = []
        with _open(kind, output) as stream, _shown(recording.rows, quiet) as shown:
            if kind in _OF_ROWS:
                notes = _write_rows(kind, exported, recording.batches(chosen), stream, shown)
            else:
                if narrowed.wakers or (has_stacks(recording) and recording.closed):
                    profile = profile_of_stacks(recording, chosen, wakers=narrowed.wakers)
                else:
                    profile = _profile_of(recording, exported, recording.batches(chosen))
                profile = profile.narrowed(part=narrowed.part, state=narrowed.state)
                days = exported.realtime
                start = np.array([exported.window.start], np.int64)
                stream.writelines(_stacks(kind, profile, path, None if days is None else int(days(start)[0])))
        notes += [f"{file} is left out: {why}" for file, why in recording.damaged.items()]
        if not recording.closed:
            frame = recording.document.ledger
            known = recording.window.end - frame.window.start
            length = f"{known / 1e9:.3f} s" if frame.time_unit == "ns" else f"{known:,} cycles"
            notes.append(f"{words} was not closed: it is known for {length}")
    for note in notes:
        say(clean(note))


def _open(kind: str, output: str | None) -> AbstractContextManager[BinaryIO]:
    return binary_output(output, text=kind in _TEXT, packed=kind == "pprof")


@contextmanager
def _shown(rows: int, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Give a function that shows how many rows have been written: on a terminal, and if it takes long."""
    line = None if quiet else progress_bar(rows)
    if line is None:
        yield lambda done: None
        return

    def show(done: int) -> None:
        if line.due:
            line.show(f"{done:,} of {rows:,} transitions, {done / line.seconds:,.0f} a second", done)

    try:
        yield show
    finally:
        line.hide()


def _about(recording: Recording, chosen: Chosen) -> Exported:
    """Return what the recording is of, for views."""
    from headway.recording.ledger import of_times
    from headway.recording.queries.alignment import lines, realtimes
    from headway.views.exported import Exported

    document = recording.document
    frame, whole = document.ledger, recording.window
    anchors = recording.anchors if frame.time_unit == "ns" else ()
    straight = lines(anchors)
    facts: dict[str, str | int] = {
        "headway": document.headway,
        "source": frame.source,
        "start": whole.start,
        "end": whole.end,
        "closed": "yes" if recording.closed else "no",
    }
    if document.boot:
        facts["boot"] = document.boot
    if document.command is not None:
        facts["command"] = shlex.join(document.command)
    if recording.dropped_parts:
        facts["dropped parts"] = recording.dropped_parts
    return Exported(
        window=chosen.window or whole,
        threads=recording.threads(),
        time_unit=frame.time_unit,
        host=document.host,
        anchors=[(anchor.monotonic, anchor.realtime) for anchor in anchors],
        realtime=partial(realtimes, straight) if straight else None,
        bound=of_times(frame).precision.effective is not Quality.EXACT,
        facts=facts,
    )


def _write_rows(
    kind: str, exported: Exported, batches: Iterable[Batch], stream: BinaryIO, shown: Callable[[int], None]
) -> list[str]:
    """Write the rows in one of these formats. Return the notes about them."""
    if kind == "perfetto":
        from headway.views.perfetto import recorded

        return recorded.write(exported, batches, stream, shown)
    if kind == "chrome":
        from headway.views import chrome

        return chrome.write(exported, batches, stream, shown)
    from headway.views.columns import write_csv, write_parquet

    (write_csv if kind == "csv" else write_parquet)(exported, batches, stream, shown)
    return []


def _profile_of(recording: Recording, exported: Exported, batches: Iterable[Batch]) -> Profile:
    from headway.recording.ledger import of_times
    from headway.recording.states import profile_of_states

    return profile_of_states(batches, exported.threads, exported.window, of_times(recording.document.ledger))
