"""``headway profile``: samples of where threads spend their time, charged to states, with the waits exact."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from headway.cli.ending import end_as
from headway.cli.options import MeasuringCommand, TargetOptions, measuring_options
from headway.cli.parameters import BufferSize, Seconds
from headway.cli.profiles import show_profile
from headway.cli.say import say
from headway.extras import need
from headway.linux.options import Selection
from headway.linux.sources.source import LinuxSource
from headway.session.measure import observe

__all__ = ["command"]

_MAX_HZ = 20_000
"""Samples per second of processor time, at most. Above it a sample costs too much of the time that it stands for."""


@click.command("profile", cls=MeasuringCommand, context_settings={"allow_interspersed_args": False})
@measuring_options
@click.option("-d", "--duration", type=Seconds(), metavar="SECONDS", help="Stop after this many seconds.")
@click.option(
    "-F",
    "--frequency",
    type=click.IntRange(1, _MAX_HZ),
    metavar="HZ",
    help="Samples per second of each thread's processor time.  [default: 997]",
)
@click.option(
    "--policy",
    type=click.Choice(["cpu-time", "watermark", "fixed"]),
    help="When to look into a thread's buffer of samples: when the kernel tells that half of it is full (watermark), "
    "when the thread has used the processor time in which half of it fills (cpu-time), or each 10 ms (fixed). "
    "The default costs least.  [default: watermark]",
)
@click.option(
    "--buffer",
    type=BufferSize(),
    metavar="BYTES",
    help="The size of a thread's buffer, as in 64K; it is rounded up to a power of two of pages.  "
    "[default: 128K; without CAP_PERFMON 32K]",
)
@click.option(
    "--call-graph",
    type=click.Choice(["dwarf", "fp"]),
    help="How user stacks are walked: by call frame information, which nearly every program has (dwarf), or by frame "
    "pointers (fp).  [default: dwarf with eBPF on x86-64, else fp]",
)
@click.option(
    "--java-maps",
    is_flag=True,
    help="When the profile ends, have each Java process that lives (17 and later) write the names of its compiled "
    "methods: by jcmd PID Compiler.perfmap, as its user.",
)
@click.option("-o", "--output", metavar="NAME.hw", help="Write a recording (a folder) instead of a report.")
@click.option("-q", "--quiet", is_flag=True, help="Do not print where the recording is.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND [ARG...]]")
def command(
    duration: float | None,
    frequency: int | None,
    policy: str | None,
    buffer: int | None,
    call_graph: str | None,
    java_maps: bool,
    output: str | None,
    quiet: bool,
    argv: tuple[str, ...],
    wanted: TargetOptions,
) -> None:
    """\b
    headway profile -p 4711 -d 10 -o prof.hw   ten seconds of a process
    headway profile -o prof.hw -- ./server     a command, from start to end
    headway report prof.hw                     where time was not progress
    headway export prof.hw --to speedscope -o prof.json

    Show where in the program the time of each state is spent: its own code, the kernel, polling, waits, stolen time.

    On the processor, stacks are sampled: each thread by its own processor time, and into a buffer of its own. Off the
    processor, times are exact: each wait is added to the stack with which the thread left the processor. Stacks need no
    frame pointers. One that cannot be walked to its beginning ends with a line that says why. Programs in Python have
    Python's functions and lines.

    The last lines say how often headway looked into the buffers, how often it emptied one, what was lost, and what
    collecting cost. --policy and --buffer change that.

    The exit status is the command's; 125 if headway itself fails.
    """
    need("recording")
    if wanted.why:
        raise click.UsageError("--why is an option of headway stat: a profile has the stacks of all waits without it")
    from headway.linux.perf.sampler import DEFAULT_POLICY
    from headway.linux.sources.choose import may_unwind
    from headway.linux.sources.profiler import DEFAULT_FREQUENCY, Buffers, ProfileSource
    from headway.model import Profile
    from headway.recording.profile import profile_settings, write_profile
    from headway.recording.writer import RecordingWriter
    from headway.session.recorder import describe

    if call_graph == "dwarf" and not may_unwind():
        raise click.UsageError("--call-graph dwarf is not there on this machine yet: take fp")
    selection = wanted.selection(argv)
    if not quiet:
        wanted.tell_others()
    if wanted.level or wanted.budget:
        raise click.UsageError("a profile needs the states of processor time: leave out --level and --budget")
    if wanted.spin:
        need("spin")
        if wanted.with_tasks:
            raise click.UsageError("--spin cannot tell which task spins: leave out --tasks and --python-tasks")
    options = replace(wanted, spin=False).options(causes=False)  # a profile has samples of its own
    buffers = Buffers(policy or DEFAULT_POLICY, buffer or 0)
    sources: list[ProfileSource] = []

    def start(chosen: Selection) -> LinuxSource:
        source = ProfileSource(
            chosen, options, prefer=wanted.source, frequency=frequency or DEFAULT_FREQUENCY, buffers=buffers,
            spin=wanted.spin, frame_pointers=call_graph == "fp", java_maps=java_maps,
        )  # fmt: skip
        source.begin()
        sources.append(source)
        return source

    writer: RecordingWriter | None = None
    if output is not None:
        document = describe(selection, argv)
        settings = profile_settings(1_000_000_000 // (frequency or DEFAULT_FREQUENCY))
        writer = RecordingWriter(output, replace(document, settings={**document.settings, **settings}))
    profile: Profile | None = None
    try:
        observation = observe(selection, argv, options=options, seconds=duration, start=start)
        profile = sources[0].profile()
        if writer is not None:
            write_profile(writer, profile)
            writer.amend(observation.exit_status)
    except BaseException:
        if writer is not None:
            writer.abandon()
        raise
    if writer is None:
        show_profile(profile, sys.stderr)
    elif not quiet:
        size = len(profile.samples)
        name = ascii(output)[1:-1]
        say(f"{size:,} samples and sums in {name}: headway report {name}")
    end_as(observation.exit_status)
