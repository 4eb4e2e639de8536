"""Packets of any trace format: kind, place in the stream, payload."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import NamedTuple

__all__ = ["Isa", "Packet", "PacketKind", "Reason", "Says"]


class PacketKind(IntEnum):
    """Kinds of packets, with their titles in statistics."""

    NOISE = 0
    INCOMPLETE = 1
    ALIGNMENT = 2
    SYNC = 3
    ATOMS = 4
    BRANCH = 5
    CYCLES = 6
    TIMESTAMP = 7
    CONTEXT = 8
    MACHINE = 9
    TRIGGER = 10
    IGNORE = 11
    ENTRY = 12
    RETURN = 13
    DATA = 14
    WAYPOINT = 15
    INFO = 16
    ON = 17
    ADDRESS = 18
    RAISED = 19
    COMMIT = 20
    CANCELLED = 21
    QUOTA = 22
    SOURCE = 23
    EVENT = 24
    CONDITIONAL = 25
    LOST = 26
    DISCARD = 27
    TRANSACTION = 28
    INSTRUMENTATION = 29
    MARKER = 30
    LOCAL = 31
    EXTENSION = 32
    COUNTERS = 33
    SAMPLE = 34
    HARDWARE = 35

    @property
    def title(self) -> str:
        """The architecture's name for the kind."""
        return _TITLES[self]


_TITLES = {
    PacketKind.NOISE: "no packet",
    PacketKind.INCOMPLETE: "cut off",
    PacketKind.ALIGNMENT: "A-sync",
    PacketKind.SYNC: "I-sync",
    PacketKind.ATOMS: "P-header",
    PacketKind.BRANCH: "branch address",
    PacketKind.CYCLES: "cycle count",
    PacketKind.TIMESTAMP: "timestamp",
    PacketKind.CONTEXT: "context ID",
    PacketKind.MACHINE: "VMID",
    PacketKind.TRIGGER: "trigger",
    PacketKind.IGNORE: "ignore",
    PacketKind.ENTRY: "exception entry",
    PacketKind.RETURN: "exception return",
    PacketKind.DATA: "data",
    PacketKind.WAYPOINT: "waypoint update",
    PacketKind.INFO: "trace info",
    PacketKind.ON: "trace on",
    PacketKind.ADDRESS: "address",
    PacketKind.RAISED: "exception",
    PacketKind.COMMIT: "commit",
    PacketKind.CANCELLED: "cancel, mispredict",
    PacketKind.QUOTA: "Q",
    PacketKind.SOURCE: "source address",
    PacketKind.EVENT: "event",
    PacketKind.CONDITIONAL: "conditional",
    PacketKind.LOST: "overflow",
    PacketKind.DISCARD: "discard",
    PacketKind.TRANSACTION: "transaction",
    PacketKind.INSTRUMENTATION: "instrumentation",
    PacketKind.MARKER: "timestamp marker",
    PacketKind.LOCAL: "local timestamp",
    PacketKind.EXTENSION: "extension",
    PacketKind.COUNTERS: "event counter",
    PacketKind.SAMPLE: "PC sample",
    PacketKind.HARDWARE: "reserved hardware source",
}


class Says(IntFlag):
    """Flags of a packet beside its value."""

    COUNT = 1
    PROGRESS = 2
    EXCEPTION = 4
    CANCEL = 8
    FULL = 16
    SWITCH = 32
    BASED = 64


class Isa(IntEnum):
    """The instruction set of an address."""

    ARM = 0
    THUMB = 1
    THUMBEE = 2
    JAZELLE = 3
    A64 = 4


class Reason(IntEnum):
    """The reason for an I-sync."""

    PERIODIC = 0
    TRACE_ON = 1
    OVERFLOW = 2
    DEBUG = 3


class Packet(NamedTuple):
    """One packet.

    ``offset`` and ``size`` are in bytes of its stream. ``value`` is an address, a time (ticks), cycles, an ID, or the
    header of a P-header; of atoms of PTM, a bit for each, which is set if its condition failed. ``says`` has bits of
    :class:`Says`. ``bits`` is the number of low bits of an address or time that were in the packet (the other bits are
    those of the value before), or of atoms of PTM. ``cycles`` came with the packet. ``context`` is an I-sync's context
    ID, or the number of a branch's exception. ``before`` is the address of the load or store during which an I-sync
    came.
    """

    kind: int
    offset: int
    size: int
    value: int
    says: int = 0
    isa: int = 0
    reason: int = 0
    bits: int = 0
    header: int = 0
    cycles: int = 0
    context: int = 0
    before: int = 0
