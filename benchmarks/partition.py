"""A policy over the indices that closes the loop, and scheduling by progress, on the reference machine, to the cycle.

The program `partition`, one of the machine's, runs one thread beside neighbours, with the kernel's policy and without.
The program `equal-progress` runs threads that lose their time in different ways, in turn and by progress.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headway.model import Indices
from headway_machine.config import L2, Bus, Config
from headway_machine.machine import Machine
from headway_machine.programs import programs
from headway_machine.run import Result

from .common import table

MAX_CYCLES = 100_000_000
DEFAULT = Config()
TWO_CORES = Config.of(cores=2, threads=3, issue="skip", l2=L2("64KiB"))
SLOW_BUS = Config.of(bus=Bus(line=64))
MIXES = (
    ("lookup", "stream"),
    ("lookup", "copy"),
    ("lookup", "scatter"),
    ("lookup", "mixed"),
    ("lookup", "compute"),
    ("matmul", "stream"),
    ("matmul", "copy"),
    ("matmul", "mixed"),
    ("crc32", "stream"),
    ("crc32", "scatter"),
)


_DEED = re.compile(r"policy: at \d+, (at its end|\d+% of Td): (\d+) (.*)")


@dataclass(frozen=True, slots=True)
class Run:
    """The indices of the watched thread, in cycles, and what the policy did."""

    indices: Indices
    deeds: tuple[tuple[bool, int, str], ...]
    """In order: whether it was when the thread had ended, how much, and of what."""
    result: Result

    def amounts(self, of: str) -> list[int]:
        """Return how much the thread had of something, one after the other."""
        return [amount for _, amount, what in self.deeds if what.startswith(of)]

    def kept(self, of: str) -> int:
        """Return how much of something the thread had when it ended; 0: none."""
        found = [amount for ended, amount, what in self.deeds if what.startswith(of) and not ended]
        return found[-1] if found else 0


def watched(victim: str, neighbours: str, config: Config = DEFAULT, *, count: int = 4, policy: bool = True) -> Run:
    """Run a thread beside ``count`` neighbours of a kind. Raises SystemExit if it computed anything wrong."""
    arguments = [
        f"victim={victim}",
        f"neighbours={neighbours}",
        f"count={count}",
        f"policy={'on' if policy else 'off'}",
    ]
    result = _run("partition", config, arguments)
    (thread,) = (thread for thread in result.ledger.threads if thread.name == victim)
    lines = result.output.decode().splitlines()
    deeds = [_DEED.fullmatch(line) for line in lines if line.startswith("policy: ")]
    done = [(found[1] == "at its end", int(found[2]), found[3]) for found in deeds if found is not None]
    return Run(result.ledger.indices(thread), tuple(done), result)


def progress(
    order: str, config: Config = DEFAULT, *, each: int = 2, ticks: int = 3_000_000
) -> dict[str, list[tuple[int, int]]]:
    """Run the kinds of threads in an order. Return EPI and RPI of each thread, by its kind."""
    result = _run("equal-progress", config, [f"order={order}", f"each={each}", f"ticks={ticks}"])
    found = defaultdict(list)
    for thread in result.ledger.threads:
        had = result.ledger.indices(thread)
        if thread.pid and thread.name != "main" and had.epi is not None and had.rpi is not None:
            found[thread.name].append((had.epi, had.rpi))
    return found


def _run(name: str, config: Config, arguments: Sequence[str]) -> Result:
    result = Machine(config).run(programs()[name].image(), arguments=arguments, max_cycles=MAX_CYCLES)
    if result.ended != "exit" or result.exit_status:
        raise SystemExit(f"{name} {' '.join(arguments)}: {result.ended} {result.exit_status}: {result.output!r}")
    return result


def _n(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _rows(config: Config, mixes: Iterable[tuple[str, str]]) -> Iterable[list[str]]:
    for victim, neighbours in mixes:
        alone = watched(victim, neighbours, config, count=0, policy=False).indices
        beside = watched(victim, neighbours, config, policy=False).indices
        divided = watched(victim, neighbours, config)
        if len({alone.epi, beside.epi, divided.indices.epi}) != 1:
            raise SystemExit(f"{victim} beside {neighbours}: EPI is not the same")
        ways, share = divided.kept("ways"), divided.kept("sixteenths")
        kept = [f"{ways} ways"] * bool(ways) + [f"others {share}/16 of the bus"] * bool(share)
        yield [
            f"{victim}, 4 × {neighbours}",
            *map(_n, (alone.epi, alone.mpi, beside.mpi, divided.indices.mpi, beside.rpi, divided.indices.rpi)),
            ", ".join(kept),
        ]


TITLES = ("mix", "EPI", "MPI alone", "MPI beside", "MPI divided", "RPI beside", "RPI divided", "at the end it had")


def _spread(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,} – {high:,} ({high / low:.2f} ×)" if low else f"{low:,} – {high:,}"


def main() -> None:
    """Print the tables."""
    print("\n## A policy that closes the loop, on the reference machine: cycles of the watched thread\n")
    for what, config, mixes in (
        ("1 × 6 strict", DEFAULT, MIXES),
        ("1 × 6 strict, `bus.line = 64`", SLOW_BUS, (("lookup", "stream"), ("chase", "stream"), ("chase", "copy"))),
        ("2 × 3 skip, second level of 64 KiB", TWO_CORES, MIXES[:4]),
    ):
        print(f"{what}:\n")
        print(table(TITLES, _rows(config, mixes)) + "\n", flush=True)
    print("\n## The same time, or the same progress\n")
    rows = []
    for shape, config, each in (
        ("1 × 1, 8 threads", Config.of(threads=1), 2),
        ("1 × 6 strict, 32 threads", DEFAULT, 8),
        ("1 × 6 skip, 32 threads", Config.of(issue="skip"), 8),
    ):
        for order in ("rounds", "progress"):
            found = progress(order, config, each=each, ticks=10_000_000)
            every = [pair for pairs in found.values() for pair in pairs]
            rows.append(
                [f"{shape}, {order}"]
                + [f"{sum(epi for epi, _ in found[kind]) // len(found[kind]):,}" for kind in found]
                + [_spread([epi for epi, _ in every]), _spread([rpi for _, rpi in every])]
            )
    print(table(["order", "compute", "chase", "stream", "calls", "EPI, all", "RPI, all"], rows), flush=True)


if __name__ == "__main__":
    main()
