"""What AUXTRACE_INFO says of CoreSight: the registers of each processor's trace unit.

Source: Linux, tools/perf/util/cs-etm.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.errors import HeadwayError
from headway_trace import etmv3, etmv4, ptm
from headway_trace.snapshot import Setting

__all__ = ["TracedProcessor", "processors_of"]

_ETMV3, _ETMV4, _ETE = 0x3030303030303030, 0x4040404040404040, 0x5050505050505050
_GLOBAL = 3
_MOST = 4096
_OLD_PARAMETERS = {_ETMV3: 4, _ETMV4: 7, _ETE: 8}
"""The number of parameters where the header does not say it (version 0)."""
_WORD = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class TracedProcessor:
    """A processor's trace unit: its number, its trace ID (None: it has none), and its setting."""

    cpu: int
    trace_id: int | None
    setting: Setting


def processors_of(words: Sequence[int], path: str) -> list[TracedProcessor]:
    """Return the trace units that AUXTRACE_INFO describes. Raises HeadwayError if it describes none."""
    if len(words) < _GLOBAL or words[0] > 1:
        raise HeadwayError(f"{path!a} describes its trace units in a form that headway does not know: record it again")
    count, at, found = words[1] & _WORD, _GLOBAL, list[TracedProcessor]()
    while at + 2 < len(words) and len(found) < min(count, _MOST):
        kind, cpu = words[at], words[at + 1]
        if kind not in _OLD_PARAMETERS:
            break
        if words[0] == 0:
            start, size = at + 2, _OLD_PARAMETERS[kind]
        else:
            start, size = at + 3, words[at + 2]
        registers = [value & _WORD for value in words[start : start + min(size, 64)]]
        at = start + size
        if len(registers) < size or size < (4 if kind == _ETMV3 else 6):
            break
        found.append(TracedProcessor(cpu & _WORD, registers[1] & 0x7F or None, _setting(kind, registers)))
    if not found:
        raise HeadwayError(f"{path!a} does not describe its trace units: record it again")
    return found


def _setting(kind: int, registers: Sequence[int]) -> Setting:
    if kind == _ETMV3:  # ETMCR, ETMTRACEIDR, ETMCCER, ETMIDR
        control, _, extension, identity = registers[:4]
        if identity >> 8 & 3 == 3:  # PTM
            return ptm.Setting.from_registers(control, identity, extension)
        return etmv3.Setting.from_registers(control, identity, extension)
    control, _, idr0, idr1, idr2, idr8 = registers[:6]  # TRCCONFIGR, TRCTRACEIDR, TRCIDR0 ...
    devarch = (registers[7] if len(registers) > 7 and registers[7] else 0x47705A13) if kind == _ETE else None
    return etmv4.Setting.from_registers(control, idr0, idr1, idr2, idr8, devarch)
