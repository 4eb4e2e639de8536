"""What was found to be lost, and what helps against it: what a piece of advice is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from headway.dataclass import dataclass
from headway.model.cause import Cause
from headway.model.cell import Cell
from headway.model.ledger import Thread

from . import patterns
from .facilities import DeviceInterrupt, Facilities
from .patterns import Pattern
from .remedy import Remedy

__all__ = ["LONGEST", "Finding", "Helps", "applied", "interrupted", "largest", "of_pattern", "share_of"]

LONGEST = 64
"""Maximum number of characters of a name in a sentence."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure of a thread that has passed its threshold."""

    lost: int
    """The time that is lost to it."""
    thread: Thread
    index: str
    """As in `Advice`; likewise ``value`` and ``threshold``."""
    value: float
    threshold: float
    part: str = ""
    """Of time ready, the part of it (`READY_PARTS`), or ``ready`` for what is not divided."""


@dataclass(frozen=True, slots=True)
class Helps:
    """What helps against a finding: ``found`` describes it, ``text`` says what to do; commands as in `Pattern`.

    Findings with the same ``cause`` share one piece of advice; those without have the text as their cause.
    """

    found: str
    text: str
    command: str
    undo: str | None = None
    remedy: Remedy | None = None
    cause: str = ""


def of_pattern(found: str, pattern: Pattern) -> Helps:
    """Return what helps against a pattern."""
    return Helps(found, pattern.text, pattern.command, pattern.undo)


def applied(helps: Helps, remedy: Remedy | None) -> Helps:
    """Return what helps with the command that does it, if headway can; else as it was."""
    if remedy is None:
        return helps
    return replace(
        helps,
        text=f"{helps.text} (the command shows its plan, and asks)",
        command="sudo headway advise --apply -a -p {pid}",
        undo="sudo headway advise --undo",
        remedy=remedy,
        cause=helps.cause or helps.text,
    )


def largest(states: Mapping[str, Cell], belongs: Callable[[str], bool]) -> str:
    """Return the state with most time, of those that belong."""
    return max((state for state in states if belongs(state)), key=lambda state: (states[state].time, state))


def share_of(cause: Cause, time: int) -> str:
    """Return the share of a state's time that a cause explains, in words."""
    return f"{min(cause.time / time, 1):.0%}"


def interrupted(found: str, cpu: int | None, where: Facilities, state: str, number: int | None = None) -> Helps:
    """Advise on device interrupts: name the most frequent one and the processors that could take it.

    ``state``: the interrupt with most time. Only a network device is said to send packets, and none to end block I/O.
    ``number``: that of the interrupt, where it was recorded.
    """
    packets = state in patterns.PACKETS
    pattern = patterns.NETWORK if packets else patterns.DEVICES

    def often(interrupt: DeviceInterrupt) -> int:
        return interrupt.counts.get(cpu, 0) if cpu is not None else sum(interrupt.counts.values())

    def may(interrupt: DeviceInterrupt) -> bool:
        if number is not None:
            return interrupt.number == number
        return interrupt.network if packets else not (interrupt.network and state == "softirq.block")

    devices = [interrupt for interrupt in where.interrupts if may(interrupt)]
    worst = max(devices, key=lambda i: (often(i), -i.number), default=None)
    elsewhere = [other for other in where.processors if other != cpu]
    if packets and where.counted and where.interrupts and cpu is not None and (worst is None or not often(worst)):
        pattern = patterns.LOOPBACK
        found += f" (processor {cpu} counted no interrupt of a network device)"
    if worst is None or not often(worst) or cpu is None or not elsewhere:
        return Helps(found, pattern.text, pattern.command)
    file = f"/proc/irq/{worst.number}/smp_affinity_list"
    most = f"{often(worst):,} came" if where.counted else "since it was booted most came"
    text = (
        f"on processor {cpu} {most} from {worst.device[:LONGEST]} (number {worst.number}): send it to other "
        "processors (where irqbalance runs, it may send it back), or move the thread"
    )
    return Helps(
        found,
        text,
        f"echo {_list(elsewhere)} | sudo tee {file}",
        f"echo {worst.affinity} | sudo tee {file}",
    )


def _list(cpus: Sequence[int]) -> str:
    """Return the processors in the kernel's list notation, such as ``0-3,8``."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][1] + 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
