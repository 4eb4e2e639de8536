"""``headway why``: the short way to the reasons of a program that runs, or of a command."""

from __future__ import annotations

import click

from headway.cli.parameters import Seconds
from headway.errors import SelectionError

__all__ = ["command"]

_SECONDS = 5.0
_SECTIONS = ("wait", "ready", "kernel")


class _Told(click.Command):
    """Notes whether there is a ``--``, which click takes out: what comes after it is a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["headway.is_command"] = "--" in args
        return super().parse_args(ctx, args)


@click.command("why", cls=_Told)
@click.option(
    "-d", "--duration", type=Seconds(), metavar="SECONDS",
    help="Measure for so long at most.  [default: 5 of what runs already, a command to its end]",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="PID... | NAME... | -- COMMAND [ARG...]")
@click.pass_context
def command(ctx: click.Context, duration: float | None, as_json: bool, argv: tuple[str, ...]) -> None:
    """\b
    headway why nginx              all processes of that name, for five seconds
    headway why 4711 -d 10         a process, and those that it has started
    headway why -- ./server        a command, from start to end

    Say where the time of a program goes, and why.

    It is headway stat with what it needs to tell who holds a lock, what a wait is for, who has the processor, and what
    the kernel does: `headway stat -p PID -d 5 --why wait --why ready --why kernel`.
    """
    from .stat import command as stat

    if not argv:
        raise click.UsageError("say what to measure: a process id, the name of a program that runs, or -- COMMAND")
    words = [word for section in _SECTIONS for word in ("--why", section)]
    if as_json:
        words.append("--json")
    if ctx.meta["headway.is_command"]:
        words += [*(["-d", f"{duration:g}"] if duration is not None else []), "--", *argv]
    else:
        words += ["-d", f"{duration if duration is not None else _SECONDS:g}"]
        words += [word for pid in _processes(argv) for word in ("-p", str(pid))]
    stat.main(words, prog_name="headway why", standalone_mode=False)


def _processes(words: tuple[str, ...]) -> list[int]:
    """Return the processes with these ids or names. Raises SelectionError for a name that no process has."""
    from headway.linux.procfs.named_processes import processes_named

    found: list[int] = []
    for word in words:
        named = (int(word),) if word.isascii() and word.isdigit() else processes_named(word)
        if not named:
            raise SelectionError(
                f"no process runs {word!a}: give a process id, a name as ps -e shows it, or a command after --"
            )
        found += named
    return list(dict.fromkeys(found))
