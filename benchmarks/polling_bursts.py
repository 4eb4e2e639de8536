"""What the policy by processor time loses of threads whose rate changes, and how many looks that takes: by a model.

    python -m benchmarks.polling_bursts

A thread is always busy. Its rate changes between a slow one and a multiple of it, each for 50 to 200 ms, at random.
The buffer takes 8 KiB. The collector looks at the moment that the policy asks for. Lost: of all bytes; looks for each
drain that finds half a buffer or more. Mean of three random threads of 60 s each, with losses that are counted (as by
the kernel) and not counted (as of the machine's buffers). These are computed, and the same on every computer.
"""

from __future__ import annotations

import random

from tests.buffers.fleet import MS, SECOND, Fleet, ModelBuffer, Phase

from headway.buffers.policies.cpu_time import CpuTime

from .common import table

CAPACITY = 8192
SECONDS = 60
FACTORS = (1, 2, 4, 12, 50)
SLOW = (20_000, 100_000)
"""Bytes a second: half a buffer in 205 ms, and in 41 ms."""
SEEDS = 3


def bursts(seed: int, slow: float, factor: float) -> list[Phase]:
    """Return what a thread does."""
    chance, phases, until = random.Random(seed), list[Phase](), 0
    while until < SECONDS * SECOND:
        phases.append(Phase(chance.randint(50 * MS, 200 * MS), 1.0, slow * (factor if len(phases) % 2 else 1)))
        until += phases[-1].length
    return phases


def run(slow: float, factor: float, *, counts: bool) -> tuple[float, float]:
    """Return the share that is lost, and the looks for each useful drain."""
    lost = looks = 0.0
    for seed in range(SEEDS):
        fleet = Fleet([ModelBuffer(CAPACITY, bursts(seed, slow, factor), counts=counts)], [CpuTime(CAPACITY)])
        fleet.run(SECONDS * SECOND)
        lost += fleet.lost_share / SEEDS
        looks += len(fleet.looks) / max(1, fleet.useful) / SEEDS
    return lost, looks


def main() -> None:
    """Print the table."""
    rows = []
    for factor in FACTORS:
        for slow in SLOW:
            found = [run(slow, factor, counts=counts) for counts in (True, False)]
            cells = [cell for lost, looks in found for cell in (f"{lost:.1%}", f"{looks:.2f}")]
            rows.append((f"× {factor}", f"{slow:,}", *cells))
    print(table(("rate", "slow, bytes/s", "lost, counted", "looks", "lost, not counted", "looks"), rows))


if __name__ == "__main__":
    main()
