"""``headway machine``: run a program on the reference machine, list its own, and print the machine's configuration."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, TypedDict, cast

import click
from click.shell_completion import CompletionItem

from headway.cli.options import format_option
from headway.cli.pages import html_option, page_if, write_ledger_page
from headway.cli.progress_bar import ProgressBar, progress_bar
from headway.cli.say import say
from headway.errors import HeadwayError
from headway.files import written_whole
from headway_machine.config import Config
from headway_machine.programs import program_of, programs
from headway_machine.watchdog import Still, describe_still

if TYPE_CHECKING:
    from headway_machine.debugging import DebugSession
    from headway_machine.image import MachineImage
    from headway_machine.run import Result

__all__ = ["command"]

_PIECE = 1 << 22
"""Ticks between two looks at whether the user wants to end the run."""


@click.group("machine")
def command() -> None:
    """\b
    headway machine list                      the programs that come with it
    headway machine run six-threads           one of them: threads' progress
    headway machine new first                 a program of your own, to begin with
    headway machine cc prog.c -o prog.elf     build one
    headway machine run prog.elf --cores 2    run it
    headway machine show > my.toml            a configuration to start from
    headway machine pipeline mutex --from 9   what each hart does in each cycle

    The reference machine: a multi-threaded RISC-V processor with the progress unit in hardware (docs/machine-runs.md).
    """


_CONFIGURATION = (
    click.option("--config", metavar="FILE", help="TOML file with the machine's configuration (headway machine show)."),
    click.option("--cores", type=int, metavar="N", help="Number of cores, 1 to 16."),
    click.option("--threads", type=int, metavar="N", help="Number of hardware threads per core, 1 to 8."),
    click.option(
        "--issue",
        type=click.Choice(["strict", "skip"]),
        help="Policy by which hardware threads take turns (docs/machine.md).",
    ),
    click.option("--input", "received", metavar="FILE", help="File that the UART receives (uart.input)."),
)


def _configuration(function: Any) -> Any:
    for option in reversed(_CONFIGURATION):
        function = option(function)
    return function


def _config_of(config: str | None, received: str | None, otherwise: Config | None = None, **values: Any) -> Config:
    """Return the configuration that the options ask for. Without ``config`` they change ``otherwise``."""
    found = otherwise or Config() if config is None else Config.from_toml(config)
    if received is not None:
        found = replace(found, uart=replace(found.uart, input=received))
    return found.with_values(**values)


@command.command("show", short_help="print a configuration, every key with what it means")
@_configuration
def _show(**chosen: Any) -> None:
    """\b
    headway machine show                               the default machine
    headway machine show --config my.toml --cores 4    another one

    Print a configuration, every key with what it means. --config reads it back.
    """
    click.echo(_config_of(**chosen).to_toml(), nl=False)


@command.command("list", short_help="list the programs that come with the machine")
@format_option
def _list(style: str) -> None:
    """\b
    headway machine list
    headway machine list --format json

    List the programs that come with the machine: what each shows, its threads on the guest kernel (none: it runs
    without a kernel), and the harts that run it. headway machine run takes their names.
    """
    from headway.views.rows import print_rows

    rows = [(p.name, p.threads, "all" if p.harts is None else str(p.harts), p.shows) for p in programs().values()]
    print_rows(("program", "threads", "harts", "shows"), rows, style)


@command.command("new", short_help="write a first program with threads, and its Makefile")
@click.argument("folder", metavar="DIR", type=click.Path())
def _new(folder: str) -> None:
    """\b
    headway machine new first && make -C first run

    Write a first program with threads into DIR, with a Makefile that builds it and runs it.
    docs/first-machine-program.md goes on from there.
    """
    from headway_machine.building import new_program

    for path in new_program(folder):
        click.echo(path)


@command.command("cc", short_help="build a program of your own")
@click.option("-o", "--output", metavar="FILE", default="a.elf", show_default=True, help="The program.")
@click.option(
    "--on",
    "on",
    type=click.Choice(["kernel", "bare", "picolibc"]),
    help="What it stands on. Unless told: the guest kernel if a source includes headway_guest.h, nothing if it "
    "includes bare.h, else the C library picolibc.",
)
@click.argument("sources", nargs=-1, required=True, metavar="FILE... [-- OPTION...]")
@click.pass_context
def _cc(context: click.Context, sources: tuple[str, ...], output: str, on: str | None) -> None:
    """\b
    headway machine cc prog.c -o prog.elf
    headway machine cc main.c more.c -o prog.elf -- -O3 -DSIZE=64

    Build a program for the machine of C or assembly sources. It needs a RISC-V gcc (RISCV_CC, or the one that is
    installed). What begins with - after -- is for that.
    """
    from headway_machine.building import Base, base_of, build

    files = [one for one in sources if not one.startswith("-")]
    if not files:
        raise click.UsageError("there is no source among the arguments: name at least one")
    base = base_of(files) if on is None else Base(on)
    context.exit(build(files, output, base, [one for one in sources if one.startswith("-")]))


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a program, or the path of one."""
    named = [CompletionItem(p.name, help=p.shows) for p in programs().values() if p.name.startswith(incomplete)]
    return [*named, CompletionItem(incomplete, type="file")]


def _program(name: str) -> tuple[MachineImage, Config]:
    """Return the program and the configuration that it needs."""
    if _is_file(name):
        from headway_machine.image import MachineImage

        return MachineImage.load(name), Config()
    found = program_of(name)
    return found.image(), found.config()


def _path(name: str) -> str:
    """Return the path of a program's ELF file."""
    return name if _is_file(name) else program_of(name).path


def _is_file(name: str) -> bool:
    """Return whether a program is given by its path. A program of the machine comes before a file."""
    return name not in programs() and (os.sep in name or os.path.exists(name))


@command.command("run", short_help="run a program to its end, and show its threads' progress")
@_configuration
@click.option(
    "--max-cycles", type=click.IntRange(min=0), metavar="N", help="Stop after this many cycles, with exit status 125."
)
@click.option(
    "-o",
    "--output",
    metavar="NAME.hw",
    help="Record every transition to the folder NAME.hw, which must not exist (headway record).",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON (headway schema; with --cpu headway schema cpu).")
@html_option
@click.option(
    "--window",
    type=click.IntRange(min=0),
    metavar="CYCLE",
    help="With --html: show each cycle of the busiest core from there on; otherwise of the later part of the run.",
)
@click.option(
    "--cpu", "processors", is_flag=True, help="Report the processors instead of the threads, as headway cpu does."
)
@click.option("--trace", "traced", metavar="FILE", help="Write the trace of every instruction to FILE (headway trace).")
@click.option(
    "--gdb",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Wait for a debugger on this port of the loopback interface (0: any); each hart is a thread.",
)
@click.option(
    "--trace-format",
    type=click.Choice(["threads", "etrace"]),
    help="Packets of the trace: the machine's own, or RISC-V E-Trace (trace.format).",
)
@click.option("-v", "--verbose", is_flag=True, help="Show every state of every thread, and the harts.")
@click.option("-q", "--quiet", is_flag=True, help="Show only the figures, without a progress bar.")
@click.option(
    "-n",
    "limit",
    type=click.IntRange(min=1),
    default=25,
    show_default=True,
    metavar="N",
    help="List the N threads with most processor time, and the sum of the others.",
)
@click.argument("name", metavar="PROGRAM", shell_complete=_complete)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARG...]")
@click.pass_context
def _run(
    context: click.Context,
    /,
    max_cycles: int | None,
    output: str | None,
    as_json: bool,
    html: str | None,
    window: int | None,
    processors: bool,
    traced: str | None,
    port: int | None,
    trace_format: str | None,
    verbose: bool,
    quiet: bool,
    limit: int,
    name: str,
    arguments: tuple[str, ...],
    **chosen: Any,
) -> None:
    """\b
    headway machine run six-threads                   one core, six harts
    headway machine run prog.elf --cores 2 -v         every state, and the harts
    headway machine run prog.elf --json 2> out.json   the same as JSON
    headway machine run prog.elf -o run.hw            and every transition
    headway machine run prog.elf --cpu                use and speed of the harts
    headway machine run prog.elf --trace prog.hwt     trace every instruction
    headway machine run prog.elf --gdb 3333           under a debugger

    Run a program to its end, and show the progress of its threads in cycles. PROGRAM is a name that headway machine
    list shows, or the path of an ELF file (RISC-V, RV32IMAC). Give a file that has the name of a program as ./NAME.

    What the program writes, by the UART or by its host, goes to standard output. The report goes to standard error.

    The exit status is the program's; 125 if it cannot be run, does not end within --max-cycles or waits for ever; 130
    if Ctrl-C ended it, after the report.
    """
    image, needed = _program(name)
    config = _config_of(**chosen, otherwise=needed)
    if trace_format is not None:
        if traced is None:
            raise click.UsageError("--trace-format is of a trace: name its file with --trace")
        config = replace(config, trace=replace(config.trace, format=trace_format))
    if output is not None:
        _check_recording(output)
    if port is not None and (output is not None or max_cycles is not None):
        raise click.UsageError("--gdb stops and changes the run: leave out -o and --max-cycles")
    if window is not None and (html is None or port is not None):
        raise click.UsageError("--window is of the page of a run: give --html FILE, and no --gdb")
    from headway_machine.commands.pages import observed
    from headway_machine.machine import Machine
    from headway_machine.observer import Observer

    observer = None if html is None or port is not None else Observer(window)
    stream = sys.stderr
    with page_if(html) as page, _interrupts() as interrupts, _trace_to(traced, live=port is not None) as trace:
        line = None if quiet else progress_bar(max_cycles)
        shown = None if line is None else _Progress(line)
        console = _console(sys.stdout, shown)
        streams: _Streams = {
            "input": cast(BinaryIO, _Input(sys.stdin.buffer, interrupts)) if sys.stdin is not None else None,
            "output": console,
            "errors": _console(sys.stderr, shown),
        }
        try:
            if port is not None:
                session = Machine(config).debug(image, arguments=arguments, trace=trace, **streams)
                result = _debugged(session, port, _path(name), interrupts)
            else:
                result = Machine(config).run(
                    image,
                    max_cycles=max_cycles,
                    arguments=arguments,
                    progress=lambda cycles, instructions: _go_on(shown, interrupts, cycles, instructions),
                    stuck=lambda harts: _say_stuck(shown, harts),
                    trace=trace,
                    recording=output,
                    observer=observer,
                    **streams,
                )
        finally:
            if shown is not None:
                shown.hide()
        argv = [name, *arguments]
        with _written():
            if processors:
                _report_processors(result, stream, argv, as_json=as_json, verbose=verbose, notes=not quiet)
            else:
                _report(result, stream, argv, as_json=as_json, verbose=verbose, limit=limit)
            stream.flush()
        if output is not None and not (quiet or as_json):
            say(_summary(output, result))
        if page is not None:
            title, status = os.path.basename(name), result.exit_status
            seen = {} if observer is None else observed(observer, result)
            write_ledger_page(page, result.ledger, title=title, command=argv, exit_status=status, **seen)
    if result.ended == "stopped":
        context.exit(128 + signal.SIGINT)
    if result.ended == "limit":
        still = f" ({describe_still(result.still)}: no progress)" if result.still else ""
        raise HeadwayError(f"{name} had not ended after {result.cycles} cycles{still}: give it more with --max-cycles")
    if result.ended == "standstill":
        raise HeadwayError(f"{name}: every hart waits at cycle {result.cycles}, and nothing can wake one")
    context.exit(_exit_status(result.exit_status or 0))


class _Streams(TypedDict):
    """The streams of a run."""

    input: BinaryIO | None
    output: BinaryIO
    errors: BinaryIO


def _debugged(session: DebugSession, port: int, name: str, interrupts: _Interrupts) -> Result:
    """Run under a debugger; to the end, once the debugger has let the program go."""
    from headway_machine.commands.gdb import serve_debugger

    ended = serve_debugger(session, port, name, lambda: interrupts.asked)
    session.heed_triggers(False)
    while ended == "detached" and not session.ended and not interrupts.asked:
        session.run(cycles=_PIECE)
    session.end_trace()
    result = session.result()
    return result if session.ended else replace(result, ended="stopped")


def _check_recording(output: str) -> None:
    """Refuse the name of a file: a report goes to standard error, and into a file by the shell."""
    if not output.rstrip(os.sep).endswith(".hw"):
        raise click.UsageError(
            f"-o makes a recording, and {output!a} is not named like one: give NAME.hw, or redirect the report with 2>"
        )


def _summary(path: str, result: Result) -> str:
    """Return what was recorded, as one line."""
    from headway.recording.reader import Recording
    from headway.views.losses import named_losses

    with Recording(path) as recording:
        rows, number = recording.rows, len(recording.threads())
    threads = "1 thread" if number == 1 else f"{number:,} threads"
    lost = named_losses(result.ledger.losses) or 0
    return f"{ascii(path)[1:-1]} has {rows:,} transitions of {threads} in {result.cycles:,} cycles; lost: {lost}"


class _Interrupts:
    """Whether SIGINT has come, and whether the program is waiting for its input."""

    asked = False
    reading = False


class _Input:
    """The program's input. A SIGINT while the program waits for it ends the input, and then the run."""

    def __init__(self, stream: BinaryIO, interrupts: _Interrupts) -> None:
        self._stream, self._interrupts = stream, interrupts

    def read(self, size: int) -> bytes:
        self._interrupts.reading = True
        try:
            return self._stream.read(size)
        except KeyboardInterrupt:
            return b""
        finally:
            self._interrupts.reading = False


@contextmanager
def _interrupts() -> Iterator[_Interrupts]:
    """Let SIGINT end the run, but not the report; a second one ends this process."""
    received = _Interrupts()

    def note(number: int, frame: FrameType | None) -> None:
        again = received.asked
        received.asked = True
        if again or received.reading:
            raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, or somebody else's
        yield received
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield received
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _go_on(shown: _Progress | None, interrupts: _Interrupts, cycles: int, instructions: int) -> bool:
    """Show the progress. Return whether the run is to stop."""
    if shown is not None:
        shown(cycles, instructions)
    return interrupts.asked


def _say_stuck(shown: _Progress | None, harts: Sequence[Still]) -> None:
    """Say that no hart has made progress for a long time."""
    if shown is not None:
        shown.hide()
    say(f"no hart makes progress: {describe_still(harts)}; Ctrl-C ends the run and shows where its time went")


class _OpenedLate:
    """A file that is opened, and emptied, when something is written first. It can be read while it is written."""

    _stream: BinaryIO | None = None

    def __init__(self, name: str) -> None:
        self._name = name

    def write(self, data: bytes) -> int:
        """Write to the file. Raises OSError."""
        if self._stream is None:
            self._stream = open(self._name, "wb")  # noqa: SIM115  (_trace_to closes it)
        return self._stream.write(data)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the stream, which something has been written to."""
        return getattr(self._stream, name)


@contextmanager
def _trace_to(name: str | None, *, live: bool) -> Iterator[BinaryIO | None]:
    """Open the file that the trace is written to. What it was stays if the run is refused.

    ``live``: it can be read while a debugger stops the run. Otherwise it is there when the run has ended.
    """
    if name is None:
        yield None
        return
    if live:
        late = _OpenedLate(name)
        try:
            yield cast(BinaryIO, late)
        finally:
            if late._stream is not None:
                late.close()
        return
    try:
        with written_whole(name) as stream:
            yield stream
    except OSError as error:
        why = error.strerror
        raise HeadwayError(f"the trace cannot be written to {name!a} ({why}): name another file") from None


def _exit_status(status: int) -> int:
    """The exit status in eight bits; a failure stays a failure."""
    return status & 0xFF or (255 if status else 0)


@contextmanager
def _written() -> Iterator[None]:
    """Turn an error in writing the report into a HeadwayError. It is no error if the reader has gone away."""
    try:
        yield
    except BrokenPipeError:
        pass
    except OSError as error:
        raise HeadwayError(f"the report cannot be written ({error.strerror})") from None


def _report(result: Result, stream: TextIO, argv: list[str], *, as_json: bool, verbose: bool, limit: int) -> None:
    """Write the report of the threads."""
    if as_json:
        from headway.views.json import write

        stream.writelines(write(result.ledger, command=argv, exit_status=result.exit_status))
        stream.write("\n")
    else:
        from headway.model import GroupBy
        from headway.views.console import Console
        from headway.views.listing import Listing
        from headway.views.table import print_table

        # What stalls were for is a table of its own: only where every state is asked for.
        ledger = result.ledger if verbose else replace(result.ledger, events=())
        listing = Listing(limit, by=GroupBy.THREAD)
        print_table(Console(stream), ledger, listing=listing, verbose=verbose)


def _report_processors(
    result: Result, stream: TextIO, argv: list[str], *, as_json: bool, verbose: bool, notes: bool
) -> None:
    """Write the report of the processors: how busy its hardware threads were, and how fast."""
    from headway_machine.utilisation import sample_of

    sample = sample_of(result)
    losses = result.ledger.losses
    if as_json:
        from headway.views.utilisation_json import cpu_json

        text = cpu_json(
            [sample], interval_ms=sample.duration / 1e6, command=argv, exit_status=result.exit_status, losses=losses
        )
        stream.write(text + "\n")
    else:
        from headway.views.console import Console
        from headway.views.utilisation import print_sample

        print_sample(Console(stream), sample, losses=losses, verbose=verbose, notes=notes)


class _Output:
    """A standard stream for the program's bytes. Writing to it removes the progress bar first."""

    def __init__(self, stream: BinaryIO, terminal: bool, shown: _Progress) -> None:
        self._stream, self._terminal, self._shown = stream, terminal, shown

    def write(self, data: bytes) -> int:
        if self._terminal:
            self._shown.hide()
            self._shown.room = data.endswith(b"\n")
        return self._stream.write(data)

    def flush(self) -> None:
        self._stream.flush()


def _console(stream: TextIO, shown: _Progress | None) -> BinaryIO:
    stream.flush()
    raw = stream.buffer
    return cast(BinaryIO, raw if shown is None else _Output(raw, stream.isatty(), shown))


class _Progress:
    """The progress of a long run: simulated cycles, and instructions per second."""

    def __init__(self, line: ProgressBar) -> None:
        self._line = line
        self.room = True
        """Whether the cursor is at the beginning of a line."""

    def __call__(self, cycles: int, instructions: int) -> None:
        from headway.views.figures import with_unit

        if not self._line.due or not self.room:
            return
        rate = with_unit(round(instructions / self._line.seconds), "", 5)
        self._line.show(f"{with_unit(cycles, 'cycles', 7)} cycles, {rate} instructions a second", cycles)

    def hide(self) -> None:
        """Remove the progress bar from the terminal."""
        self._line.hide()


@command.command("pipeline", short_help="show who had the issue slot in each cycle of a window")
@_configuration
@click.option("--from", "first", type=click.IntRange(min=0), required=True, metavar="CYCLE", help="First cycle.")
@click.option(
    "--cycles", type=click.IntRange(1, 100_000), default=140, show_default=True, metavar="N", help="How many cycles."
)
@click.option("--core", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Core to show.")
@click.option("-v", "--verbose", is_flag=True, help="List the instructions that were issued.")
@click.argument("name", metavar="PROGRAM", shell_complete=_complete)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARG...]")
def _pipeline(
    first: int, cycles: int, core: int, verbose: bool, name: str, arguments: tuple[str, ...], **chosen: Any
) -> None:
    """\b
    headway machine pipeline six-threads --from 100000
    headway machine pipeline prog.elf --from 5000 --issue skip -v

    Run a program to a cycle, and show what each hart of a core did in the cycles from there on: who had the issue slot,
    and what the others waited for. -v lists the instructions with their functions. What the program writes is not
    shown.
    """
    from headway.views.console import Console
    from headway.views.lines import show
    from headway.views.pipeline import pipeline_lines
    from headway.views.rows import print_rows
    from headway_machine.machine import Machine
    from headway_machine.pipeline import window_of

    image, needed = _program(name)
    config = _config_of(**chosen, otherwise=needed)
    session = Machine(config).debug(image, arguments=arguments)
    session.heed_triggers(False)
    window = window_of(session, core=core, first=first, cycles=cycles)
    console = Console(sys.stdout)
    with _written():
        show(console, pipeline_lines(window.first, window.harts, window.slots, console.width))
        if verbose:
            rows = [
                (one.cycle, one.hart, f"{one.address:#010x}", session.name(one.address), one.state)
                for one in window.issued
            ]
            sys.stdout.write("\n")
            print_rows(("cycle", "hart", "address", "function", "state"), rows, "table")
