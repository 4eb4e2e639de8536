"""The command line. One file a subcommand: parse, choose source and view, connect them."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

import click

from headway._version import __version__
from headway.cli.run import run
from headway.linux import time_namespace

__all__ = ["group", "main"]

_COMMANDS = {
    "stat": "every thread's progress, and where the rest of its time went",
    "why": "where the time of a program that runs goes, and why, in short",
    "top": "the same as a live screen, and through the time of a recording",
    "cpu": "how busy every processor is and with what, and how fast it runs",
    "record": "every transition of every thread, on disk",
    "profile": "where in the program the time of each state is spent: samples, and waits exactly",
    "report": "a recording as stat shows it, or where the time of a profile went",
    "export": "a recording for other tools: Perfetto, trace events, Parquet, CSV, flame graphs, pprof",
    "advise": "what would help; on request it is applied, or undone",
    "balance": "processes, threads or control groups held at shares of progress, by their weights",
    "query": "query recordings by SQL or ready-made questions: one run, or runs of many machines",
    "at": "what every thread was doing at one instant of a recording",
    "diff": "two recordings side by side, at equal progress",
    "compare": "two commands run in turns: in what they differ, and how sure that is",
    "critical-path": "what the wall time of a recorded run consisted of, along its wake-ups",
    "what-if": "how long a recorded run would take if something were faster, free or gone",
    "serve": "what is measured now, for Prometheus, OpenTelemetry and a browser",
    "doctor": "what can be measured here, what cannot, why, and what would change it",
    "demo": "a small program with known behaviour, measured and explained",
    "mcp": "questions of other programs about recordings and saved documents (Model Context Protocol)",
    "schema": "the JSON Schema of what a command writes as JSON",
}


@contextmanager
def _ended_by_an_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process at once: code that loads modules may swallow the exception, and nothing is open."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


_GROUP = "headway.commands"
"""The entry points of commands that other distributions add: by name, the module that has it as ``command``, and what
it is in a few words."""


class _Added(NamedTuple):
    """A command that another distribution adds."""

    module: str
    what: str
    distribution: str
    version: str


def _added() -> Mapping[str, _Added]:
    """Return the commands that other distributions add. It takes 10 ms and more: it looks at all that is installed."""
    from importlib.metadata import entry_points

    found: dict[str, _Added] = {}
    for added in sorted(entry_points(group=_GROUP)):
        of = (added.dist.name, added.dist.version) if added.dist else ("", __version__)
        with suppress(ImportError):  # of a distribution that is removed, or installed in part
            found.update({name: _Added(where, what, *of) for name, (where, what) in added.load().items()})
    return {name: command for name, command in found.items() if name not in _COMMANDS}


def _release(version: str) -> str:
    """Return the release that a version is of, or is on the way to."""
    return version.partition("+")[0].partition(".dev")[0]


_ELSEWHERE = {"machine": "headway-machine", "rtl": "headway-machine", "trace": "headway-trace"}
"""Commands that other distributions of the project add, for who has not installed those."""


class _Group(click.Group):
    """A group that loads a subcommand when it is used, so that starting stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *_added()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        with _ended_by_an_interrupt():
            if cmd_name in _COMMANDS:
                where, what = f"headway.commands.{cmd_name.replace('-', '_')}", _COMMANDS[cmd_name]
            elif (found := _added().get(cmd_name)) is not None:
                where, what, *_ = found
            else:
                return None
            command: click.Command = importlib.import_module(where).command
        command.short_help = what
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in _ELSEWHERE and self.get_command(ctx, name) is None:
            needed = _ELSEWHERE[name]
            ctx.fail(f"headway {name} comes with {needed}, which is not installed: pip install {needed}")
        added = None if name in _COMMANDS else _added().get(name)
        if added is not None and _release(added.version) != _release(__version__):
            ctx.fail(
                f"headway {name} comes with {added.distribution} {added.version}, which does not fit headway "
                f"{__version__}: pip install --upgrade headway {added.distribution}"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*_COMMANDS.items(), *((name, what) for name, (_, what, *_) in _added().items())])


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", message="headway %(version)s")
def group() -> None:
    """\b
    headway stat -- xz -T2 -k big.tar        measure a command
    headway stat -p 4711 -d 10               a running process, for ten seconds

    Show how much progress each thread of a program makes, where the rest of its time goes, and why.
    """


def main() -> None:
    """Run the command line and exit."""
    # NumPy's OpenBLAS starts a thread for each processor, which nothing here uses, and ends the process if it may not.
    # Python's own environment, which a measured command gets, stays as it is.
    os.putenv("OPENBLAS_NUM_THREADS", "1")
    try:
        time_namespace.leave()  # while there is one thread; what needs the kernel's clock says why it could not
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    run(group)
