"""What the eBPF programs and their readers share: the constants and structures of layout.h, for Python.

The build makes the module `_layout` of that header (list_layout.py), so that nothing of it is written down twice.
"""

from __future__ import annotations

import struct

from ._layout import CONSTANTS, ENUMERATIONS, STRUCTURES

__all__ = [
    "CAUSES",
    "EVENTS",
    "FILE_KINDS",
    "HOLDERS",
    "LOSSES",
    "N_STACK",
    "RING",
    "RING_RECORDS",
    "SAMPLE_EVENTS",
    "STATES",
    "fields_of",
    "offset_of",
    "packing",
    "size_of",
]


def _numbers(*enumerations: str) -> dict[str, int]:
    return {name: CONSTANTS[name] for each in enumerations for name in ENUMERATIONS[each]}


STATES = _numbers("size", "state")
"""The numbers of states, of ranges of states, and of how many there can be, by their names in layout.h."""
FILE_KINDS = _numbers("file_kind")
"""The numbers of the kinds of files."""
EVENTS = {name.removeprefix("AT_").lower(): n for name, n in _numbers("event").items() if name.startswith("AT_")}
"""The numbers of the kinds of events whose cost is known apart: ``AT_FAULT_END`` is ``fault_end``."""
LOSSES = {name: n for name, n in _numbers("loss").items() if name.startswith("LOST_")}
"""The places of the losses that the programs count."""
CAUSES = _numbers("cause_kind")
"""The numbers of the kinds of causes."""
HOLDERS = _numbers("holder")
"""Instead of a thread that had the processor: what else it may be."""
RING_RECORDS = _numbers("ring_record")
"""The lowest bits of the words on the rings of transitions that are no span."""
RING = _numbers("ring_word")
"""Widths of the parts of the words on the rings of transitions, and where each begins."""
SAMPLE_EVENTS = _numbers("sample_event_kind")
"""The numbers of the kinds of sample events."""
N_STACK = CONSTANTS["N_STACK"]
"""Frames of a stack that are kept at most."""


def size_of(structure: str) -> int:
    """Return the size of a structure, bytes."""
    return STRUCTURES[structure][0]


def offset_of(structure: str, name: str) -> int:
    """Return where a field of a structure begins, bytes."""
    return STRUCTURES[structure][1][name][0]


def fields_of(structure: str) -> dict[str, tuple[int, str]]:
    """Return the fields of a structure: their offsets in bytes, and their formats as in the struct module."""
    return dict(STRUCTURES[structure][1])


def packing(structure: str, *names: str) -> struct.Struct:
    """Return what packs and unpacks these fields of a structure, in the order of their offsets.

    The rest of the structure is zero when packed and left out when unpacked. Raises KeyError for a name that is none,
    ValueError for another order.
    """
    size, fields = STRUCTURES[structure]
    form, end = "=", 0
    for name in names:
        offset, code = fields[name]
        if offset < end:
            raise ValueError(f"{structure}.{name} does not lie behind the field before it")
        form += f"{offset - end}x{code}"
        end = offset + struct.calcsize(f"={code}")
    return struct.Struct(f"{form}{size - end}x")
