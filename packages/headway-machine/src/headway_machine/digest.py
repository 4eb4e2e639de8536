"""The digest of a run: a hash of all of its result and of the memory, computed when somebody asks for it.

Hashing the memory takes longer than many runs, and few look at the digest: 1 GiB of RAM is a second.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headway.model import Cell, Ledger

from .config import RAM, TCM, Config

if TYPE_CHECKING:
    from ._processor import MachineProcessor

__all__ = ["RunDigest"]

_PIECE = 1 << 20


class RunDigest:
    """The digest of a run that has ended.

    It keeps the processor until it is computed. Nothing may run on that any more.
    """

    __slots__ = ("_config", "_output", "_processor", "_value")

    def __init__(self, processor: MachineProcessor, config: Config, output: str) -> None:
        """Take the run's processor and configuration, and the hash of what its UART sent."""
        self._processor: MachineProcessor | None = processor
        self._config, self._output = config, output
        self._value = ""

    def of(
        self,
        figures: list[object],
        counters: list[Mapping[str, int]],
        ledger: Ledger,
    ) -> str:
        """Return the digest as a hexadecimal SHA-256 hash. ``counters`` are those of harts, then of cores."""
        if self._processor is not None:
            self._value = self._compute(self._processor, figures, counters, ledger)
            self._processor = None
        return self._value

    def _compute(
        self, processor: MachineProcessor, figures: list[object], counters: list[Mapping[str, int]], ledger: Ledger
    ) -> str:
        memory = hashlib.sha256()
        for start, size in ((RAM, self._config.memory.ram), (TCM, self._config.memory.tcm)):
            for at in range(start, start + size, _PIECE):
                memory.update(processor.read(at, min(_PIECE, start + size - at)))
        everything = [
            [*figures, memory.hexdigest()],
            [self._output, hashlib.sha256(processor.block_image()).hexdigest()],
            [sorted(each.items()) for each in counters],
            sorted((name, n) for name, n in ledger.losses.items() if n),
            [[t.tid, t.pid, t.name, t.start, t.end, _canonical(t.states)] for t in ledger.threads],
            [[p.cpu, _canonical(p.states)] for p in ledger.processors],
        ]
        return hashlib.sha256(json.dumps(everything).encode()).hexdigest()


def _canonical(states: Mapping[str, Cell]) -> list[object]:
    return [
        [
            *(state, cell.time, cell.count, cell.cycles, cell.instructions),
            *(cell.stall_cycles, cell.memory_stall_cycles, cell.external_stall_cycles),
            sorted((cell.events or {}).items()),
        ]
        for state, cell in sorted(states.items())
    ]
