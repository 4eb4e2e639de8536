"""The options for tables of what threads used: ``--calls``, ``--files``, ``--sockets``, ``--locks``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import Any

import click

from headway.linux.levels import Level

from .options import TargetOptions

__all__ = ["check_use_options", "needs_calls", "needs_causes", "needs_holders", "use_options"]

_OPTIONS = {
    "calls": "Show the system calls, as strace -c -w does: time, count and errors of each, and its files.",
    "files": "Show the files: reads, writes, bytes, and the time in calls on each.",
    "sockets": "Show the sockets: both ends, bytes in and out, and the waiting for each.",
    "locks": "Show the locks that threads waited for: who had them meanwhile, and what that thread did.",
}


def use_options(function: Any) -> Any:
    """Add the options; the command gets ``tables``: the names of those that were given, in the order of the help."""

    @wraps(function)
    def gathered(*arguments: Any, **values: Any) -> Any:
        tables = tuple(name for name in _OPTIONS if values.pop(f"table_of_{name}"))
        return function(*arguments, tables=tables, **values)

    for name, words in reversed(_OPTIONS.items()):
        gathered = click.option(f"--{name}", f"table_of_{name}", is_flag=True, help=words)(gathered)
    return gathered


def needs_calls(tables: Sequence[str]) -> bool:
    """Return whether system calls must be counted by file."""
    return any(name != "locks" for name in tables)


def needs_causes(tables: Sequence[str]) -> bool:
    """Return whether what threads wait for must be recorded."""
    return "locks" in tables or "sockets" in tables


def needs_holders(tables: Sequence[str], wanted: TargetOptions) -> bool:
    """Return whether holders of locks must be watched. Where causes of waits are asked for, the verdict needs it."""
    return "locks" in tables or "wait" in wanted.why


def check_use_options(tables: Sequence[str], wanted: TargetOptions) -> None:
    """Raise UsageError if the other options measure too little for these tables."""
    if not tables:
        return
    option = f"--{tables[0]}"
    if wanted.source == "proc":
        raise click.UsageError(f"{option} is for the source bpf: /proc does not tell")
    if needs_calls(tables) and wanted.budget:
        raise click.UsageError(f"{option} needs all system calls: leave out --budget")
    if needs_calls(tables) and wanted.level and not Level(wanted.level).includes(Level.CALLS):
        raise click.UsageError(f"{option} needs all system calls: give --level calls or interrupts")
