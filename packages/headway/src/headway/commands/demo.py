"""``headway demo``: a small multi-threaded program with known behaviour, measured and explained."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable

import click

from headway.cli.output import answer_to
from headway.cli.pages import html_option, page_if, write_ledger_page
from headway.demo import Truth, program
from headway.errors import HeadwayError
from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.source import LinuxSource
from headway.model import Ledger
from headway.session.measure import observe
from headway.views.console import Console
from headway.views.demo import heading, render
from headway.views.lines import Line, show

__all__ = ["command"]

LONGEST_PATH = 40
"""Of headway itself, in columns: the lines with commands have room for it."""


@click.command("demo")
@click.option(
    "--seconds",
    type=click.FloatRange(0.2, 60),
    default=3.0,
    show_default=True,
    help="Run the program for this many seconds.",
)
@click.option(
    "--source",
    type=click.Choice(["bpf", "proc"]),
    help="Source of the figures.  [default: bpf if possible, else proc]",
)
@html_option
@click.option("-v", "--verbose", is_flag=True, help="Compare times too, and explain why clocks differ.")
def command(seconds: float, source: str | None, html: str | None, verbose: bool) -> None:
    """\b
    headway demo
    headway demo --html demo.html
    headway demo -v --source proc

    Measure a program whose threads know what they do, and check the figures.

    Its threads compute, follow pointers through memory, make system calls, wait for a lock, sleep, use the disk, poll
    and mark regions of their own code; one works only between the ticks at which the kernel samples who is running.
    Each thread counts what it does. A tick says that headway counted the same, a cross that it did not, a dash that
    this source does not see it. With -v each thread's times by its own clocks stand beside those that headway measured.
    """
    with page_if(html) as page, answer_to(None) as stream, tempfile.TemporaryFile() as output:
        console = Console(stream)

        def started(used: LinuxSource, reason: str) -> None:
            show(console, [heading(used.name, seconds)])
            stream.flush()

        arguments = [str(program()), "--seconds", str(seconds)]
        observation = observe(
            Selection(),
            arguments,
            options=MeasureOptions(why=True),
            prefer=source,
            stdout=output.fileno(),
            started=started,
        )
        if observation.exit_status:
            raise HeadwayError(
                f"the demo program ended with status {observation.exit_status} before it could account for itself"
            )
        output.seek(0)
        truth = Truth.parse(output.read().decode(errors="replace"))
        if page is not None:
            write_ledger_page(page, observation.ledger, title="headway demo", command=arguments, exit_status=0)
        show(console, _report(observation.ledger, truth, html, verbose, chosen=source is not None))


def _report(ledger: Ledger, truth: Truth, html: str | None, verbose: bool, *, chosen: bool) -> Iterable[Line]:
    if verbose:
        from headway.views.demo_comparison import render as compare

        return compare(ledger, truth)
    return render(ledger, truth, headway=_called(), page=html, sudo=os.geteuid() != 0, chosen=chosen)


def _called() -> str:
    """Return how to call headway from here: by its name where every shell finds it, else by its path.

    sudo does not search the folders of a virtual environment.
    """
    ours = sys.argv[0]
    if os.path.basename(ours) != "headway" or not os.path.exists(ours):
        return "headway"
    found = shutil.which("headway", path="/usr/local/bin:/usr/bin:/bin")
    if found is not None and os.path.samefile(found, ours):
        return "headway"
    path = min(os.path.relpath(ours), os.path.abspath(ours), key=len)
    path = path if os.path.dirname(path) else f"./{path}"
    return shlex.quote(path) if len(path) <= LONGEST_PATH else "headway"
