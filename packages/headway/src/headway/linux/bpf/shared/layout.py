"""What the eBPF programs and their readers share: the constants and structures of layout.h, for Python.

The build makes the module `_layout` from that header (list_layout.py), so that nothing in it is written down twice.
"""

from __future__ import annotations

from headway.linux.structures import Structures

from ._layout import CONSTANTS, ENUMERATIONS, STRUCTURES

__all__ = [
    "CAUSES",
    "CODE_BEFORE",
    "CODE_KINDS",
    "EVENTS",
    "FILE_KINDS",
    "FRAME_CHUNK",
    "FUTEX_LIST",
    "HOLDERS",
    "LOSSES",
    "N_STACK",
    "OPERAND_FLAGS",
    "PROTOCOLS",
    "PUBLICATION_MAGIC",
    "PUBLICATION_VERSION",
    "PUBLISHED",
    "PUBLISHED_KINDS",
    "PYTHON_RUNS",
    "PYTHON_SIZES",
    "PYTHON_WORDS",
    "READY_PARTS",
    "RING",
    "RING_RECORDS",
    "SAMPLE_EVENTS",
    "STACK_ENDS",
    "STACK_WORDS",
    "STATES",
    "TASK_PROBES",
    "TIMED",
    "fields_of",
    "offset_of",
    "pack",
    "packing",
    "size_of",
]


def _numbers(*enumerations: str) -> dict[str, int]:
    return {name: CONSTANTS[name] for each in enumerations for name in ENUMERATIONS[each]}


STATES = _numbers("size", "state")
"""The numbers of states, of ranges of states, and of how many there can be, by their names in layout.h."""
READY_PARTS = {
    name.removeprefix("READY_").lower(): n for name, n in _numbers("ready_part").items() if name.startswith("READY_")
}
"""The parts of ready: + `STATES["READY_PART"]` is the number of their states."""
FILE_KINDS = _numbers("file_kind")
"""The numbers of the kinds of files."""
EVENTS = {name.removeprefix("AT_").lower(): n for name, n in _numbers("event").items() if name.startswith("AT_")}
"""The numbers of the kinds of events whose cost is known apart: ``AT_FAULT_END`` is ``fault_end``."""
TIMED = {n.removeprefix("TIMED_").lower(): i for n, i in _numbers("timed_handler").items() if n.startswith("TIMED_")}
"""The numbers of the handlers that are timed now and then."""
LOSSES = {name: n for name, n in _numbers("loss").items() if name.startswith("LOST_")}
"""The places of the losses that the programs count."""
CAUSES = _numbers("cause_kind")
"""The numbers of the kinds of causes."""
FUTEX_LIST = _numbers("futex_list")
"""How several futexes stand in the name of a cause."""
HOLDERS = _numbers("holder")
"""Instead of a thread that had the processor: what else it may be."""
RING_RECORDS = _numbers("ring_record")
"""The lowest bits of the words on the rings of transitions that are no span."""
RING = _numbers("ring_word")
"""Widths of the parts of the words on the rings of transitions, and where each begins."""
SAMPLE_EVENTS = _numbers("sample_event_kind")
"""The numbers of the kinds of sample events."""
CODE_BEFORE = CONSTANTS["CODE_BEFORE"]
"""Where the code at a sample's address is among the code of the sample."""
UNDIVIDED = _numbers("undivided")
"""Whether time may be not divided."""
DEPTHS = {name.removeprefix("DEEP_").lower(): n for name, n in _numbers("depth").items()}
"""Why a thread is deep, by scope."""
PUBLISHED_KINDS = {
    name.removeprefix("PUBLISHED_").lower(): n
    for name, n in _numbers("published_kind").items()
    if name.startswith("PUBLISHED_") and name != "PUBLISHED_ABSENT"
}
"""The kinds of time that a measured thread reads of itself."""
PUBLISHED = _numbers("published_size", "publish")
"""How the memory is divided in which threads read what they have done, and who can read it."""
PUBLICATION_MAGIC, PUBLICATION_VERSION = CONSTANTS["PUBLICATION_MAGIC"], CONSTANTS["PUBLICATION_VERSION"]
"""What the memory begins with in which it reads them."""
PROTOCOLS = {n.removeprefix("PROTOCOL_").lower(): bit for n, bit in _numbers("protocol").items()}
"""The bits of protocols of which requests are recognised."""
TASK_PROBES, OPERAND_FLAGS = _numbers("task_probe_size"), _numbers("operand_flag")
"""How much the programs know of the probes at which tasks begin and end, and how they find their arguments."""
N_STACK = CONSTANTS["N_STACK"]
"""Words of a stack that are kept at most: frames, and why it ends."""
STACK_WORDS = _numbers("stack_word")
"""The highest byte of a word of a stack that is no address."""
STACK_ENDS = {n: name.removeprefix("END_").lower() for name, n in _numbers("stack_end").items()}
"""Why a stack ends, by number."""
CODE_KINDS = _numbers("code_kind")
"""The bits that say how code without rows is walked."""
PYTHON_RUNS, PYTHON_SIZES, PYTHON_WORDS = map(_numbers, ("python_runs", "python_size", "python_word"))
"""How runs of frames are told apart, the sizes of what is read of objects, and the parts of the word of a frame."""
FRAME_CHUNK = CONSTANTS["FRAME_CHUNK"]
"""Rows of call frames for which memory is taken at once."""

_STRUCTURES = Structures(STRUCTURES)
size_of = _STRUCTURES.size_of
offset_of = _STRUCTURES.offset_of
fields_of = _STRUCTURES.fields_of
pack = _STRUCTURES.pack
packing = _STRUCTURES.packing
