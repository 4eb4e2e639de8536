"""Lines of CSV as Python's own writer makes them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from headway_trace.hosts import HostStream
from headway_trace.memory import ProcessMemory
from headway_trace.records import Gap, Instruction, Record


def as_csv(stream: HostStream, records: Iterable[tuple[Record, ProcessMemory]]) -> str:
    """The lines of a stream's instructions and gaps."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for one, memory in records:
        if isinstance(one, Instruction):
            place = f"{one.address:#010x}", one.size, one.state, memory.symbol(one.address)
            writer.writerow([stream.label, one.thread, one.cycle, one.cycles, *place])
        elif isinstance(one, Gap):
            state = f"{one.why.state}[{one.start}:{one.end}]"
            writer.writerow([stream.label, stream.thread, one.cycle, one.cycles, None, 0, state, ""])
    return text.getvalue()
