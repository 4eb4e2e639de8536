"""Options that several commands share, and what their values may be."""

from __future__ import annotations

import re
from typing import Any

import click

from headway.errors import HeadwayError
from headway.linux import processors
from headway.linux.source import Criteria, Selection

__all__ = [
    "Ids",
    "Milliseconds",
    "ProcessorList",
    "Seconds",
    "criteria_of",
    "criteria_options",
    "selection_of",
    "selection_options",
]


_MOST_IDS = 1 << 22
"""PID_MAX_LIMIT of 64-bit kernels (include/linux/threads.h)."""


class Ids(click.ParamType[tuple[int, ...]]):
    """Process or thread ids: ``PID[,PID...]``."""

    name = "ids"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Text to numbers."""
        if isinstance(value, tuple):
            return value
        if not re.fullmatch(r"[1-9]\d{0,9}(,[1-9]\d{0,9})*", value, re.ASCII):
            self.fail(f"{value!r} is no list of ids: write it like 4711 or 4711,4712", param, ctx)
        ids = tuple(dict.fromkeys(int(part) for part in value.split(",")))
        if max(ids) > _MOST_IDS:
            self.fail(f"{max(ids)} is no id: they go up to {_MOST_IDS}", param, ctx)
        return ids


class ProcessorList(click.ParamType[tuple[int, ...]]):
    """Processors: ``0-3,8``."""

    name = "cpus"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Text to numbers."""
        if isinstance(value, tuple):
            return value
        try:
            return processors.parse_list(value)
        except HeadwayError as error:
            self.fail(str(error), param, ctx)


class _Duration(click.ParamType[float]):
    """A length of time; converted to seconds."""

    unit = 1.0
    least = 0.001
    words = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Text to seconds."""
        if isinstance(value, float):
            return value
        if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value, re.ASCII) or float(value) * self.unit < self.least:
            least = self.least / self.unit
            self.fail(f"{value!r} is no length of time: give a number of {self.words}, {least:g} or more", param, ctx)
        return float(value) * self.unit


class Seconds(_Duration):
    """Seconds, a millisecond or more."""

    name = "seconds"


class Milliseconds(_Duration):
    """Milliseconds, ten or more; converted to seconds."""

    name = "ms"
    unit, least, words = 0.001, 0.010, "milliseconds"


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
)


def selection_options(function: Any) -> Any:
    """Add the options that choose what to measure."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def _print_checks(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from headway.linux.checks import ready_made

        click.echo(ready_made(), nl=False)
        context.exit()


_CRITERIA = (
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


def criteria_options(function: Any) -> Any:
    """Add the options that say what counts as progress and what is recorded."""
    for option in reversed(_CRITERIA):
        function = option(function)
    return function


def criteria_of(*, checks: str | None, functions: tuple[str, ...], events: tuple[str, ...], why: bool) -> Criteria:
    """What these options ask for."""
    return Criteria(checks=checks, functions=functions, events=events, why=why)


def selection_of(
    *,
    pids: tuple[int, ...],
    tids: tuple[int, ...],
    everything: bool,
    name: str | None,
    cgroup: str | None,
    cpus: tuple[int, ...] | None,
    no_follow: bool,
    command: tuple[str, ...],
) -> Selection:
    """What these options select. Raises UsageError where that is nothing, or contradictory."""
    if name is not None:
        plain = name.removesuffix("*").encode(errors="surrogateescape")
        if not plain or len(plain) > 15 or "*" in name[:-1]:
            raise click.UsageError(f"{name!r} is no thread's name: up to 15 bytes, with a * only at the end")
    if command and (pids or tids or name or cgroup):
        raise click.UsageError("give a command or threads to measure (-p, -t, --name, --cgroup), not both")
    chosen = bool(pids or tids or name or cgroup or everything)
    if not chosen and not command and cpus is None:
        raise click.UsageError("say what to measure: a command after --, or -p PID, -t TID, --name NAME, -a (--help)")
    return Selection(
        pids=pids,
        tids=tids,
        name=name,
        cgroup=cgroup,
        everything=everything or (cpus is not None and not chosen and not command),
        cpus=cpus,
        follow=not no_follow,
    )
