"""``headway record``: every transition of every thread, to a recording on disk."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from headway.cli.ending import end_as
from headway.cli.options import MeasuringCommand, TargetOptions, measuring_options, when_option
from headway.cli.parameters import MemorySize, RecordingSize, Seconds
from headway.cli.progress_bar import ProgressBar, progress_bar
from headway.cli.say import say
from headway.errors import HeadwayError
from headway.extras import need
from headway.linux.bpf.programs.unavailable import UnavailableError
from headway.linux.levels import Level
from headway.linux.sources.choose import may_unwind, may_use_bpf

if TYPE_CHECKING:
    from collections.abc import Callable

    from headway.conditions import Condition
    from headway.linux.options import MeasureOptions, Selection
    from headway.linux.sources.profiler.measurement import Prepared
    from headway.linux.sources.source import RecordingSource
    from headway.model import Ledger
    from headway.recording.writer import RecordingWriter
    from headway.session.memory import MemoryPlan

__all__ = ["command"]

DEFAULT = "headway.hw"
MAX_HZ = 20_000
"""As of a profile: above it a sample costs too much of the time that it stands for."""


@click.command("record", cls=MeasuringCommand, context_settings={"allow_interspersed_args": False})
@measuring_options
@click.option(
    "-o",
    "--output",
    default=DEFAULT,
    show_default=True,
    metavar="NAME.hw",
    help="Folder of the recording; it must not exist.",
)
@click.option("-d", "--duration", type=Seconds(), metavar="SECONDS", help="Stop after this many seconds.")
@click.option(
    "--max-size", type=RecordingSize(), metavar="SIZE", help="Keep only the newest part, up to this size, as in 500M."
)
@click.option(
    "--max-time", type=Seconds(), metavar="SECONDS", help="Keep only the newest part, about this many seconds."
)
@click.option(
    "--flight-recorder",
    "flight",
    type=Seconds(),
    metavar="SECONDS",
    help="Keep about the last SECONDS, at the level switches unless --level or --budget says otherwise. With --when, "
    "keep each event with the SECONDS before it, as NAME-1.hw, NAME-2.hw and so on.",
)
@when_option
@click.option(
    "--stacks",
    is_flag=True,
    help="Record where in the program each wait began, and what woke it; and sample the processor time, as headway "
    "profile does.",
)
@click.option(
    "-F",
    "--frequency",
    type=click.IntRange(0, MAX_HZ),
    metavar="HZ",
    help="Of --stacks: samples per second of each thread's processor time; 0 takes none, which costs less.  "
    "[default: 997]",
)
@click.option(
    "--memory",
    type=MemorySize(),
    metavar="SIZE",
    help="Take at most this much memory, as in 300M; the maps of the eBPF programs count, the command does not.  "
    "[default: what the control group allows, or a quarter of what is free, and 512M with 256M for each processor at "
    "most]",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors and warnings.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARG...]]")
def command(
    output: str,
    duration: float | None,
    max_size: int | None,
    max_time: float | None,
    flight: float | None,
    when: tuple[Condition, ...],
    stacks: bool,
    frequency: int | None,
    memory: int | None,
    quiet: bool,
    argv: tuple[str, ...],
    wanted: TargetOptions,
) -> None:
    """\b
    headway record -o run.hw -- ./server     a command, from start to end
    headway record -a -d 10                  the machine for 10 s, to headway.hw
    headway record -p 4711 --max-size 500M   a process, the newest 500 MiB
    headway record --stacks -- ./server      with the stacks of waits and wakers
    headway record -a --flight-recorder 60 --when 'ready > 20 %'
                                             nothing, until a thread waits for a processor; the minute before, too

    Record every transition of every thread: when it was in which state, on which processor, and who ended its waits.

    A recording can be read while it grows, and however recording ended; headway report shows it. The command's own
    output is untouched. The exit status is the command's.
    """
    need("recording")
    if wanted.source == "proc":
        raise click.UsageError("/proc has no transitions: recording needs the eBPF source (--source bpf)")
    if wanted.why:
        raise click.UsageError("--why is an option of headway stat: a recording has who ended each wait without it")
    if wanted.level == Level.CLOCKS.value:
        raise click.UsageError("clocks have no transitions: recording needs --level switches or more")
    if flight is not None and max_time is not None:
        raise click.UsageError("--flight-recorder says how many seconds are kept: leave out --max-time")
    if stacks and (flight is not None or wanted.spin or wanted.budget):
        raise click.UsageError("--stacks goes with neither --flight-recorder, nor --spin, nor --budget")
    if frequency is not None and not stacks:
        raise click.UsageError("--frequency is of the samples that --stacks takes: add --stacks")
    selection = wanted.selection(argv)
    if not quiet:
        wanted.tell_others()
    otherwise = Level.INTERRUPTS if flight is None else Level.SWITCHES
    options = wanted.options(causes=False, cgroups=True, when=when, otherwise=otherwise)
    if stacks:
        options = replace(options, stacks=True, unwind=may_unwind())
    if not may_use_bpf():
        raise HeadwayError("recording needs CAP_BPF and CAP_PERFMON: run as root (sudo headway record ...)")
    from headway.linux.sources.ebpf import BpfSource
    from headway.linux.sources.profiler.recorded import DEFAULT_FREQUENCY, StackSource, period_of
    from headway.recording.stacks import stack_settings
    from headway.recording.writer import RecordingWriter
    from headway.session.flight import FlightRecorder
    from headway.session.recorder import Recorder, StackRecorder, describe, record

    keep = max_time if flight is None else flight
    longest = None if keep is None else round(keep * 1e9)
    limited = max_size is not None or keep is not None
    plan = _plan(memory, options, forget=flight is not None, limited=limited)
    hz = DEFAULT_FREQUENCY if frequency is None else frequency
    document = describe(selection, argv)
    if stacks:
        document = replace(document, settings={**document.settings, **stack_settings(period_of(hz))})
    writer = RecordingWriter(
        output,
        document,
        rows=plan.rows,
        most_bytes=max_size,
        longest=longest,
        most_threads=plan.kept_threads,
        stacks=stacks,
    )
    # A command shares the terminal: no line of ours is to be mixed with its output.
    line = None if argv or quiet else progress_bar()
    flights: list[FlightRecorder] = []

    def source_of(chosen: Selection, measure: MeasureOptions, prepared: Prepared | None = None) -> BpfSource:
        return BpfSource(
            chosen,
            measure,
            record=True,
            intervals=flight is not None,
            forget=flight is not None,
            max_threads=plan.max_threads,
            ring_words=plan.ring_words,
            exit_bytes=plan.exit_bytes,
            max_ended=plan.max_ended,
            prepared=prepared,
        )

    def start(chosen: Selection) -> RecordingSource:
        if stacks:
            return StackSource(chosen, options, lambda *given: source_of(chosen, *given), frequency=hz)
        return source_of(chosen, options)

    def recorder(source: Any, writer: RecordingWriter, shown: Callable[[], None]) -> Recorder:
        if stacks:
            return StackRecorder(source, writer, shown, take_rows=plan.take_rows)
        if flight is None:
            return Recorder(source, writer, shown, take_rows=plan.take_rows)
        told = say if not (argv or quiet) else lambda text: None
        flights.append(FlightRecorder(source, writer, shown, told, take_rows=plan.take_rows))
        return flights[0]

    try:
        observation, error = record(
            start,
            writer,
            selection,
            argv,
            seconds=duration,
            shown=_Shown(writer, line) if line is not None else lambda: None,
            failed=say,
            recorder=recorder,
        )
    except UnavailableError as problem:
        raise HeadwayError(f"{problem.cause}, and a recording needs eBPF", problem.advice) from None
    finally:
        if line is not None:
            line.hide()
    if not quiet:
        say(_summary(writer, observation.ledger))
        if when and flights:
            events = ", ".join(ascii(path)[1:-1] for path in flights[0].events)
            say(f"events: {events or 'none'}")
    if error:
        end_as(HeadwayError.exit_status)
    end_as(observation.exit_status)


def _plan(limit: int | None, measure: MeasureOptions, *, forget: bool, limited: bool) -> MemoryPlan:
    """Return how the recorder divides its memory. Raises HeadwayError if it is too little."""
    from headway.linux.procfs.memory import room
    from headway.linux.procfs.processors import possible
    from headway.linux.sources.ebpf.footprint import counts_events
    from headway.linux.sources.ebpf.options import living_threads
    from headway.session.memory import Recorded, default_memory, plan_memory

    counting = counts_events(measure)
    recorded = Recorded(possible(), living_threads(), measure, counting=counting, forget=forget, limited=limited)
    return plan_memory(default_memory(room(), recorded) if limit is None else limit, recorded)


def _summary(writer: RecordingWriter, ledger: Ledger) -> str:
    """Return what was recorded, as one line."""
    from headway.views.figures import with_unit
    from headway.views.losses import named_losses

    seconds = ledger.window.duration / 1e9
    rate = f" ({with_unit(round(writer.rows / seconds), '', 5)} a second)" if seconds and writer.rows else ""
    each = f", {writer.bytes / writer.rows_kept:.2f} bytes each" if writer.rows_kept else ""
    threads = "1 thread" if writer.threads == 1 else f"{writer.threads:,} threads"
    text = (
        f"{ascii(writer.path)[1:-1]} has {writer.rows_kept:,} transitions of {threads} in "
        f"{seconds:.2f} s{rate}: {writer.bytes / 1e6:.1f} MB{each}; lost: {named_losses(ledger.losses) or 0}"
    )
    if writer.complete_from is not None:
        first = (writer.complete_from - ledger.window.start) / 1e9
        text += f"; the first {first:.2f} s were dropped"
    return text


class _Shown:
    """The progress of a recording, on the terminal."""

    def __init__(self, writer: RecordingWriter, display: ProgressBar) -> None:
        self._writer, self._display, self._last = writer, display, (time.monotonic(), 0)

    def __call__(self) -> None:
        from headway.views.figures import with_unit

        writer, now = self._writer, time.monotonic()
        (then, rows), self._last = self._last, (now, writer.rows)
        rate = with_unit(round((writer.rows - rows) / max(now - then, 1e-3)), "", 5)
        lost = sum(writer.losses.values())
        self._display.show(
            f"{with_unit(writer.rows, '', 7)} transitions, {rate} a second, {writer.bytes / 1e6:.1f} MB, lost {lost:,}"
        )
