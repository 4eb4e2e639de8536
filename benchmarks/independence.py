"""Independence on the reference machine: effective progress and whole time of the same work, alone and beside others.

Every job of the example program `mix` runs alone and in every combination with the others (31 runs for each shape).
After that come the two programs for which this cannot hold, because what a thread executes depends on others: a spin
lock and a shared work queue.
"""

from __future__ import annotations

import io
import struct
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from headway_machine.config import Config
from headway_machine.machine import Machine

from .common import table

EXAMPLES = Path(__file__).parents[1] / "packages/headway-machine/examples"
SHAPES = ((1, 1, "strict"), (1, 6, "strict"), (1, 6, "skip"), (2, 6, "strict"), (2, 6, "skip"))
MAX_CYCLES = 1_000_000_000


def _indices(image: bytes, shape: tuple[int, int, str]) -> list[tuple[str, int, int]]:
    cores, threads, issue = shape
    result = Machine(Config.of(cores=cores, threads=threads, issue=issue)).run(image, max_cycles=MAX_CYCLES)
    if result.exit_status:
        raise SystemExit(f"a program ended with {result.exit_status} on {shape}")
    found = []
    for thread in result.ledger.threads:
        had = result.ledger.indices(thread)
        if had.epi is not None and had.rpi is not None:
            found.append((thread.name, had.epi, had.rpi))
    return found


def _mix(choice: int) -> bytes:
    image = bytearray((EXAMPLES / "mix.elf").read_bytes())
    elf = ELFFile(io.BytesIO(bytes(image)))
    symbols: Any = elf.get_section_by_name(".symtab")
    symbol = symbols.get_symbol_by_name("mix_choice")[0]
    struct.pack_into("<I", image, next(iter(elf.address_offsets(symbol["st_value"], 4))), choice)
    return bytes(image)


def _spread(values: Iterable[int]) -> str:
    seen = sorted(values)
    return f"{seen[0]:,}" if seen[0] == seen[-1] else f"{seen[0]:,} – {seen[-1]:,} ({seen[-1] / seen[0] - 1:+.1%})"


def _jobs(shape: tuple[int, int, str]) -> list[list[str]]:
    effective, whole = defaultdict(list), defaultdict(list)
    for choice in range(1, 32):
        for name, epi, rpi in _indices(_mix(choice), shape):
            effective[name].append(epi)
            whole[name].append(rpi)
    rows = []
    for name in ("matmul", "pointer-chase", "integer", "sort", "crc32"):
        cores, threads, issue = shape
        rows.append([f"{cores} × {threads} {issue}, {name}", _spread(effective[name]), _spread(whole[name])])
    return rows


def main() -> None:
    """Print the tables."""
    print("\n## Progress is the same whatever runs beside it, on the reference machine\n")
    rows = [row for shape in SHAPES for row in _jobs(shape)]
    print(table(["a job alone and in all 30 other mixes", "EPI, cycles", "RPI, cycles"], rows), flush=True)
    shared = []
    for program in ("spin-lock", "work-queue"):
        image = (EXAMPLES / f"{program}.elf").read_bytes()
        by_name = defaultdict(list)
        for shape in ((1, 1, "skip"), (1, 6, "skip"), (2, 6, "skip")):
            for name, epi, _ in _indices(image, shape):
                if not name.startswith(("hart", "main")):
                    by_name[name].append(epi)
        shared += [[f"{program}, {name}", _spread(seen)] for name, seen in by_name.items()]
    print(
        "\n" + table(["threads that depend on each other, on 1 × 1, 1 × 6, 2 × 6", "EPI, cycles"], shared), flush=True
    )


if __name__ == "__main__":
    main()
