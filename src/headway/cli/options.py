"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any

import click

from headway.linux.options import MeasureOptions, Selection

from .parameters import Ids, ProcessorList

__all__ = [
    "TargetOptions",
    "listing_options",
    "measuring_options",
    "thresholds_option",
]


def _print_checks(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from headway.linux.bpf.checks import ready_made

        click.echo(ready_made(), nl=False)
        context.exit()


_OPTIONS = (
    click.option("-p", "--pid", "pids", type=Ids(), default=(), metavar="PID[,PID]", help="These processes."),
    click.option("-t", "--tid", "tids", type=Ids(), default=(), metavar="TID[,TID]", help="These threads."),
    click.option("-a", "--all", "everything", is_flag=True, help="Every thread of the machine."),
    click.option("--name", metavar="NAME", help="Threads of this name; NAME* for all that begin so."),
    click.option("--cgroup", metavar="DIR", help="Threads in this cgroup (v2) and below."),
    click.option("-C", "--cpu", "cpus", type=ProcessorList(), metavar="CPUS", help="Only on these processors."),
    click.option("--no-follow", is_flag=True, help="Do not measure what measured threads create."),
    click.option(
        "--source", type=click.Choice(["bpf", "proc"]), help="Where from; without it the best that is possible."
    ),
    click.option("--checks", metavar="FILE", help="More system calls that ask whether something is ready (TOML)."),
    click.option(
        "--print-checks",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_checks,
        help="Print those that are known, to start one's own from.",
    ),
    click.option(
        "--noneffective",
        "functions",
        multiple=True,
        metavar="LIB:FUNCTION",
        help="Time in this function is no progress; malloc: a ready-made set. May be repeated.",
    ),
    click.option("-e", "--event", "events", multiple=True, metavar="EVENT[,EVENT]", help="Count these by state."),
    click.option(
        "--why",
        type=click.Choice(["kernel", "poll", "wait", "ready", "stolen"]),
        multiple=True,
        help="What is behind this part of the time. May be repeated.",
    ),
)


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """What the options say that is to be measured, and how; each field is as the option of its name gave it."""

    pids: tuple[int, ...]
    tids: tuple[int, ...]
    everything: bool
    name: str | None
    cgroup: str | None
    cpus: tuple[int, ...] | None
    no_follow: bool
    source: str | None
    checks: str | None
    functions: tuple[str, ...]
    events: tuple[str, ...]
    why: tuple[str, ...]

    @property
    def given(self) -> bool:
        """Whether any of these options was."""
        return any(getattr(self, field.name) for field in fields(self))

    @property
    def only_by_ebpf(self) -> bool:
        """Whether something was asked for that no other source can tell."""
        return bool(self.functions or self.checks or self.why)

    def options(self, *, causes: bool) -> MeasureOptions:
        """What counts as progress and what is recorded; what is behind it too, if that was asked for or ``causes``."""
        return MeasureOptions(
            checks=self.checks, functions=self.functions, events=self.events, why=causes or bool(self.why)
        )

    def selection(self, command: Sequence[str]) -> Selection:
        """The threads to measure. Raises UsageError where that is nothing, or contradictory."""
        name = self.name
        if name is not None:
            plain = name.removesuffix("*").encode(errors="surrogateescape")
            if not plain or len(plain) > 15 or "*" in name[:-1]:
                raise click.UsageError(f"{name!r} is no thread's name: up to 15 bytes, with a * only at the end")
        some = bool(self.pids or self.tids or name or self.cgroup)
        if command and some:
            raise click.UsageError("give a command or threads to measure (-p, -t, --name, --cgroup), not both")
        if not (some or self.everything or command or self.cpus is not None):
            raise click.UsageError(
                "say what to measure: a command after --, or -p PID, -t TID, --name NAME, -a (--help)"
            )
        return Selection(
            pids=self.pids,
            tids=self.tids,
            name=name,
            cgroup=self.cgroup,
            everything=self.everything or not (some or command),
            cpus=self.cpus,
            follow=not self.no_follow,
        )


def measuring_options(function: Any) -> Any:
    """Add the options that several commands have for what to measure; the command gets them as one `TargetOptions`."""

    @wraps(function)
    def gathered(*arguments: Any, **values: Any) -> Any:
        wanted = TargetOptions(**{field.name: values.pop(field.name) for field in fields(TargetOptions)})
        return function(*arguments, wanted=wanted, **values)

    for option in reversed(_OPTIONS):
        gathered = option(gathered)
    return gathered


def listing_options(function: Callable[..., object]) -> Callable[..., object]:
    """How many threads a report lists: ``limit`` and ``every_thread``."""
    most = click.option(
        "-n",
        "--threads",
        "limit",
        type=click.IntRange(min=1),
        default=25,
        show_default=True,
        metavar="N",
        help="List the N with most time; the rest is added up.",
    )
    return most(click.option("--every-thread", is_flag=True, help="List them all.")(function))


thresholds_option = click.option(
    "--thresholds",
    "thresholds_file",
    metavar="FILE",
    help="Thresholds of advice (TOML; headway advise --print-thresholds prints the defaults).",
)
"""Add ``--thresholds``; the command gets ``thresholds_file``."""
