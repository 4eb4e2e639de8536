"""The names of the state monitor's states (docs/machine.md, section 6) for a given program and configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .config import STATUS_REGISTERS, Range, StatusRegister
from .image import NumberNames

__all__ = ["IDLE", "SMI", "name_states", "poll_states", "polled_registers"]

SMI = "stolen.smi"
IDLE = {"idle.c1": "C1", "idle.c2": "C2", "idle.c3": "C3", "idle.wake": "wake", "idle.reset": "reset"}
"""The states in which a processor does not run, and their names in the rows of utilisation."""

_EXCEPTIONS = {  # by mcause; "The RISC-V Instruction Set Manual, Volume II", table of mcause values
    0: "fetch_misaligned",
    1: "fetch_fault",
    2: "illegal",
    3: "breakpoint",
    4: "load_misaligned",
    5: "load_fault",
    6: "store_misaligned",
    7: "store_fault",
    8: "call",
    11: "call",
}
_INTERRUPTS = {3: "software", 7: "timer", 11: "external"}
_WAITS = {1: "other", 2: "mutex", 3: "sleep", 4: "join", 5: "uart", 6: "block", 7: "condition", 8: "queue"}
_FIXED = {
    0: "user",
    123: "stall.marked",
    192: "kernel.machine",
    200: "idle.c1",
    201: "idle.c2",
    202: "idle.c3",
    203: "idle.wake",
    204: "idle.reset",
    205: "stopped",
    208: SMI,
    210: "overhead",
    220: "ready",
}
_LATCHED = (120, 121, 122, 124, 125, 126, 127)
"""The states of the poll latches."""
_PREFIXES = {"effective": "user", "noneffective": "noneffective", "poll": "poll"}


def poll_states(polls: Sequence[StatusRegister]) -> list[int]:
    """Return for each status register the state of a hart that finds it not ready. Equal names have the same state."""
    names = list(dict.fromkeys(register.state for register in polls))
    return [_LATCHED[names.index(register.state)] for register in polls]


def polled_registers(polls: Sequence[StatusRegister]) -> Mapping[int, str]:
    """Return for each state of the poll latches the registers that were not ready."""
    found: dict[int, list[str]] = {}
    for number, register in zip(poll_states(polls), polls, strict=True):
        found.setdefault(number, []).append(f"{register.address:#010x}")
    return {
        number: f"status register{'s' if len(addresses) > 1 else ''} {', '.join(addresses)}"
        for number, addresses in found.items()
    }


def name_states(
    names: NumberNames, ranges: Sequence[Range] = (), polls: Sequence[StatusRegister] = STATUS_REGISTERS
) -> Mapping[int, str]:
    """Return the name of each of the 256 state numbers; a number that is no state is ``unknown.N``.

    Several numbers may share a name. A tag and a range with the same name are one state, for example.
    """
    found = {number: f"unknown.{number}" for number in range(256)} | _FIXED
    for number, part in enumerate(ranges, 1):
        found[number] = f"{_PREFIXES[part.kind]}.{part.name}"
    found |= {number: register.state for number, register in zip(poll_states(polls), polls, strict=True)}
    found |= _tagged(64, 32, "noneffective", names.tags) | _tagged(96, 24, "poll", names.polls)
    found |= {128 + cause: f"kernel.{_EXCEPTIONS.get(cause, f'exception_{cause}')}" for cause in range(16)}
    found |= {144 + cause: f"irq.{_INTERRUPTS.get(cause, str(cause))}" for cause in range(16)}
    found |= {160 + call: f"kernel.{names.calls.get(call, f'call_{call}')}" for call in range(32)}
    waits = {**_WAITS, **names.waits}
    found |= {220 + reason: f"wait.{waits.get(reason, str(reason))}" for reason in range(1, 31)}
    return found


def _tagged(first: int, count: int, word: str, names: Mapping[int, str]) -> dict[int, str]:
    """Return the names of ``count`` tags. Tag 0 without a name of its own is called by ``word`` alone."""
    found = {first + tag: f"{word}.{names.get(tag, tag)}" for tag in range(count)}
    if 0 not in names:
        found[first] = word
    return found
