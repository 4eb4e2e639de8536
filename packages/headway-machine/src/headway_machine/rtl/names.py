"""The numbers that the units share with software: counters, registers, bits, states (docs/machine.md, 4 to 7)."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["COUNTERS", "Control", "Counter", "Mark", "Register", "State"]


class Counter(IntEnum):
    """The counters of a thread, by their place in registers and in a thread's block."""

    EPC = 0
    """Effective progress."""
    MPCI = 1
    """Memory progress, internal."""
    MPCX = 2
    """Memory progress, external."""
    KPC = 3
    """Kernel progress."""
    IOPC = 4
    """Input and output progress: polling."""
    RPC = 5
    """Raw progress: all of them."""
    SPC = 6
    """Stalls that are not memory, and marked regions of no other kind."""
    OPC = 7
    """Overhead: what corrections took out of EPC."""


COUNTERS = len(Counter)


class Register(IntEnum):
    """Addresses of the registers that the progress unit has."""

    CONTROL = 0x7C0
    LATCH = 0x7C1
    CORRECTION = 0x7C2
    GAP = 0x7CD
    MARKS = 0x800
    POLLS = 0x804
    LOW = 0xBC0
    """The low word of counter n is at LOW + n, for machine mode."""
    HIGH = 0xBD0
    USER_LOW = 0xCC0
    """The same for all modes, to read."""
    USER_HIGH = 0xCD0


class Control(IntEnum):
    """Bits of `Register.CONTROL`. Bit n below 8 enables counter n."""

    HWNE = 8
    """Stalls are not effective."""
    SWNE = 9
    """A marked region is not effective."""
    POLL = 10
    """Poll latches count."""
    MK = 11
    """Machine mode is the kernel."""
    HL = 12
    """Only the handler ends an interrupt, by writing `Register.LATCH`."""


class Mark(IntEnum):
    """Bits of `Register.MARKS`. Bits 8 to 15 are the region's tag."""

    SWNE = 0
    KPSW = 1
    IOSW = 2


class State(IntEnum):
    """States of the state monitor that the progress unit finds by itself."""

    NONEFFECTIVE = 64
    """The first of 32, by the tag."""
    POLL = 96
    """The first of 24, by the tag."""
    POLL_LATCH = 120
    """The first of those of the poll latches."""
    MARKED = 123
    MACHINE_MODE = 192
