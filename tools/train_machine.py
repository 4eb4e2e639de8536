"""``python -m tools.train_machine``: run what the reference machine is optimised for, and leave the counts.

It runs programs that come with the machine, on machines of several shapes, each with and without a trace. headway must
have been built with ``-Dmachine_profile=generate``: ``make fast`` does all of it with gcc, ``make wheels`` with clang.
"""

from __future__ import annotations

import io

from headway_machine.machine import Machine
from headway_machine.programs import programs

PROGRAMS = ("mix", "mutex", "six-threads", "malloc-heavy", "interrupt-storm", "matmul", "sort", "crc32", "integer")
SHAPES = (
    (1, 1, "strict", 1_500_000, 3_000_000),
    (1, 6, "strict", 1_500_000, 1_000_000),
    (2, 6, "skip", 1_000_000, 500_000),
    (8, 8, "strict", 300_000, 200_000),
)
"""Cores, threads, issue, cycles without a trace, and cycles with one."""


def main() -> None:
    """Run the programs."""
    for name in PROGRAMS:
        program = programs()[name]
        for cores, threads, issue, cycles, traced in SHAPES:
            config = program.config().with_values(cores=cores, threads=threads, issue=issue)
            Machine(config).run(program.image(), max_cycles=cycles)
            Machine(config).run(program.image(), max_cycles=traced, trace=io.BytesIO())


if __name__ == "__main__":
    main()
