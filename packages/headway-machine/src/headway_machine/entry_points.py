"""The commands that the reference machine adds to the command line, by an entry point of the group headway.commands."""

from __future__ import annotations

__all__ = ["COMMANDS"]

COMMANDS = {
    "machine": (
        "headway_machine.commands.machine",
        "run a program on the reference machine, exact to the cycle; list its own programs",
    ),
    "rtl": ("headway_machine.commands.rtl", "the machine's progress unit as hardware, in Verilog"),
}
"""By name: the module that has it as ``command``, and what it is, in a few words."""
