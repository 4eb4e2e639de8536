"""The command line. One file a subcommand: parse, choose source and view, connect them."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from headway._version import __version__
from headway.cli.say import say
from headway.errors import HeadwayError
from headway.extras import explained

__all__ = ["main"]

_COMMANDS = {
    "stat": "every thread's progress, and where the rest of its time went",
    "top": "the same as a live screen, and through the time of a recording",
    "cpu": "how busy every processor is and with what, and how fast it runs",
    "record": "every transition of every thread, on disk",
    "profile": "where in the program the time of each state is spent: samples, and waits exactly",
    "report": "what a recording says, as stat does, or where the time of a profile went",
    "export": "a recording for other tools: Perfetto, trace events, Parquet, CSV, flame graphs, pprof",
    "advise": "what would help, and on request do it, and undo it",
    "query": "ask recordings: SQL, or ready-made questions, over one run or those of many machines",
    "at": "what every thread was doing at one instant of a recording",
    "diff": "two recordings side by side, at equal progress",
    "serve": "what is measured now, for Prometheus, OpenTelemetry and a browser",
    "doctor": "what can be measured here, what not, why, and what would change it",
    "demo": "a small program with known behaviour, measured and explained",
    "machine": "run a program on the reference machine, exact to the cycle; print its configuration",
    "trace": "instruction traces from a trace port: every instruction with its cycle, cores aligned",
    "schema": "the JSON Schema of what stat, cpu, report of a profile, or diff prints as JSON",
}
_FAILED = 125


@contextmanager
def _ended_by_an_interrupt() -> Iterator[None]:
    """Ctrl-C ends us at once: what loads modules may swallow the exception, and there is nothing to tidy up yet."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class _Group(click.Group):
    """Loads a subcommand when it is asked for, so that starting stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        with _ended_by_an_interrupt():
            module = importlib.import_module(f"headway.commands.{cmd_name}")
        command: click.Command = module.command
        command.short_help = _COMMANDS[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", message="headway %(version)s")
def _headway() -> None:
    """How much progress each thread of a real program makes, where the rest of its time goes and why.

    \b
    headway stat -- xz -T2 -k big.tar        measure a command
    headway stat -p 4711 -d 10               a running process, for ten seconds
    """


def main() -> None:
    """Entry point. A user's mistake is one sentence on standard error, and exit status 125."""
    try:
        _open_standard_streams()
        status = _headway.main(prog_name="headway", standalone_mode=False)
    except HeadwayError as error:
        say(str(error))
        status = error.exit_status
    except ModuleNotFoundError as error:
        if (reason := explained(error)) is None:
            raise
        say(str(reason))
        status = reason.exit_status
    except click.exceptions.NoArgsIsHelpError as error:
        with suppress(OSError):
            click.echo(error.format_message(), err=True)
        status = _FAILED
    except click.ClickException as error:
        say(error.format_message())
        status = _FAILED
    except (click.Abort, KeyboardInterrupt):
        status = 130
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # a reader that has gone away needs no words
            say(str(error))
        status = _FAILED
    _finish_writing()
    sys.exit(status if isinstance(status, int) else 0)


def _open_standard_streams() -> None:
    """Where we were started with one closed, let no file of ours take its number; a command has it closed as before."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    if sys.stdout is None:  # what is written there fails, as it does with a descriptor that is closed
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def _finish_writing() -> None:
    """What cannot be written now must not fail again when Python ends: the exit status would be another."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
