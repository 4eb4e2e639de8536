"""The commands that instruction traces add to the command line, by an entry point of the group headway.commands."""

from __future__ import annotations

__all__ = ["COMMANDS"]

COMMANDS = {
    "trace": (
        "headway_trace.commands.trace",
        "instruction traces from a trace port: every instruction with its cycle, cores aligned",
    )
}
"""By name: the module that has it as ``command``, and what it is, in a few words."""
