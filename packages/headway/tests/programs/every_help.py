"""Prints the help of headway and of each of its commands, with a form feed between two."""

from headway.cli.run import exit_status
from headway.commands import group

for name in ("", *group.list_commands(None)):  # type: ignore[arg-type]
    if name:
        print("\f", end="")
    if exit_status(group, [*filter(None, [name]), "--help"]):
        raise SystemExit(1)
