"""Counter readings that software takes while it is disturbed, compared with what the machine knows.

The program `utilisation`, one of the machine's, reads the busy ticks of every hart naively and synchronised, while
timer interrupts and management interrupts disturb it, and keeps all readings. It runs twice here, the same to the
cycle: once to learn when it read what, and once stopped at each of these ticks, to ask the ledger what was true then.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from elftools.elf.elffile import ELFFile

from headway.model import Kind, kind_of
from headway_machine._processor import STANDSTILL, MachineProcessor
from headway_machine.config import RAM, Config, Smi
from headway_machine.console import Console
from headway_machine.host import Host
from headway_machine.image import MachineImage
from headway_machine.states import SMI, name_states

from .common import table

ROOT = Path(__file__).parents[1] / "packages/headway-machine/examples"
PROGRAM, MACHINE = ROOT / "utilisation.elf", ROOT / "utilisation.toml"
SHAPES = ((1, 1, "strict"), (1, 6, "strict"), (1, 6, "skip"), (2, 6, "strict"), (2, 6, "skip"))
ROUNDS, TRIES = 100, 6
"""The same numbers as in the program."""
WRONG = 1.0
"""The error in MHz from which on a frequency is wrong: one per cent of the clock."""
MAX_TICKS = 50_000_000
_SOON = 100
"""Ticks within which a running hart has executed an instruction."""
MHZ = 100
"""The machine's clock: a second has 100,000,000 ticks."""

Shape = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Reading:
    """One hart's busy ticks, and when it believes that it read them."""

    time: int
    busy: int


@dataclass(frozen=True, slots=True)
class Try:
    """One hart's part in a synchronised reading: its begin and end, and whether the reading was kept."""

    start: int
    end: int
    kept: bool


@dataclass(frozen=True, slots=True)
class Readings:
    """What the program recorded: for each hart a reading in each round, including readings that were dropped."""

    naive: Sequence[Sequence[Reading]]
    synchronised: Sequence[Sequence[Reading]]
    tries: Sequence[Sequence[Try]]
    kept: Sequence[bool]
    """For each round, whether its synchronised reading was kept."""
    text: str
    status: int | None


@dataclass(frozen=True, slots=True)
class Charged:
    """Charges to one hart since the beginning: its busy cycles, and how often it was interrupted."""

    busy: int
    interruptions: int


class Run:
    """A run of the program on one machine, which can be stopped at any tick."""

    def __init__(self, config: Config) -> None:
        self._image = MachineImage.load(PROGRAM)
        self._names = name_states(self._image.names)
        self._console = Console(None, None, None)
        self.config = config
        self.processor = MachineProcessor(config)
        for segment in self._image.segments:
            self.processor.write(segment.address, segment.data)
        self._host = Host(self.processor, self._console, free=self._image.end, top=RAM + config.memory.ram)
        self.processor.start(self._image.entry, self._image.tohost)

    def until(self, tick: int) -> None:
        """Continue to that tick, or to the end of the program."""
        while self.processor.now < tick and self._host.exit_status is None:
            if self.processor.run(tick) == STANDSTILL:
                raise SystemExit("the program stands still")
            if self.processor.now < tick and self._image.tohost is not None:
                self._host.htif(self._image.tohost, self._image.fromhost)

    def charged(self) -> list[Charged]:
        """Return what the ledger has charged to each hart so far."""
        found = []
        for _, cells in self.processor.processors():
            busy = interruptions = 0
            for number, _, cycles, _, count, *_ in cells:
                name = self._names[number]
                if kind_of(name) not in (Kind.WAIT, Kind.STOLEN):
                    busy += cycles
                if name == SMI or name.startswith("irq."):
                    interruptions += count
            found.append(Charged(busy, interruptions))
        return found

    def readings(self) -> Readings:
        """Run to the end, and return the readings in memory."""
        self.until(MAX_TICKS)
        with PROGRAM.open("rb") as stream:
            symbols: Any = ELFFile(stream).get_section_by_name(".symtab")
            places = {symbol.name: symbol["st_value"] for symbol in symbols.iter_symbols()}
        harts = range(self.config.harts)

        def rows(name: str, size: int, count: int, hart: int) -> Iterator[tuple[int, ...]]:
            at = places[f"utilisation_{name}"] + 12 * size * hart
            return struct.iter_unpack("<III", self.processor.read(at, 12 * count))

        (tried,) = struct.unpack("<I", self.processor.read(places["utilisation_tried"], 4))
        return Readings(
            naive=[[Reading(at, busy) for at, busy, _ in rows("naive", ROUNDS, ROUNDS, hart)] for hart in harts],
            synchronised=[[Reading(at, busy) for at, busy, _ in rows("kept", ROUNDS, ROUNDS, hart)] for hart in harts],
            tries=[
                [Try(start, end, bool(kept)) for start, end, kept in rows("tries", ROUNDS * TRIES, tried, hart)]
                for hart in harts
            ],
            kept=[
                bool(word)
                for (word,) in struct.iter_unpack("<I", self.processor.read(places["utilisation_rounds"], 4 * ROUNDS))
            ],
            text=bytes(self._console.written).decode(),
            status=self._host.exit_status,
        )


@dataclass(frozen=True, slots=True)
class Frequency:
    """The frequency of one hart between two readings, in MHz: as it was read, and as it was."""

    read: float
    true: float

    @property
    def error(self) -> float:
        """The error in MHz."""
        return self.read - self.true

    @property
    def wrong(self) -> bool:
        """Whether the error is larger than `WRONG`."""
        return abs(self.error) > WRONG


@dataclass(frozen=True, slots=True)
class Verdict:
    """The accuracy of the readings."""

    readings: Readings
    naive: Sequence[Frequency]
    synchronised: Sequence[Frequency]
    late: Sequence[int]
    """For each kept reading of a hart, how many ticks its time is before the moment at which the counter was read."""
    disturbed: Sequence[bool]
    """For each try, whether any hart was disturbed by an interrupt or a management interrupt between the first hart's
    first look and its own last one."""
    naive_skew: Sequence[int]
    skew: Sequence[int]
    """For each round whose reading was kept, the ticks between the first and the last hart's reading."""

    @property
    def kept(self) -> list[bool]:
        """For each try, whether it was kept."""
        return [row[0].kept for row in zip(*self.readings.tries, strict=True)]


def judge(config: Config) -> Verdict:
    """Run the program, and run it again to find what was true."""
    readings = Run(config).readings()
    ticks = {tick for each in (*readings.naive, *readings.synchronised) for tick in (of.time for of in each)}
    ticks |= {tick for each in readings.tries for of in each for tick in (of.start, of.end)}
    truth = _Truth(config, ticks)
    harts = range(config.harts)
    tries = list(zip(*readings.tries, strict=True))
    rounds = [number for number, kept in enumerate(readings.kept) if kept]
    return Verdict(
        readings=readings,
        naive=[
            of for hart in harts for of in _frequencies(hart, [readings.naive[hart][at] for at in range(ROUNDS)], truth)
        ],
        synchronised=[
            of for hart in harts for of in _frequencies(hart, [readings.synchronised[hart][at] for at in rounds], truth)
        ],
        late=[
            readings.synchronised[hart][at].busy - truth.busy(hart, readings.synchronised[hart][at].time)
            for hart in harts
            for at in rounds
        ],
        disturbed=[
            any(truth.disturbed(hart, min(of.start for of in each), each[hart].end) for hart in harts) for each in tries
        ],
        naive_skew=[_spread([readings.naive[hart][at].time for hart in harts]) for at in range(ROUNDS)],
        skew=[_spread([readings.synchronised[hart][at].time for hart in harts]) for at in rounds],
    )


class _Truth:
    """The ledger's figures at certain ticks.

    The counter of unhalted cycles goes on in a management interrupt if the hart was running in the tick before it, and
    stops if the hart slept. The ledger keeps that time apart. The difference of the two shows in how many of the
    interrupts the hart was running.
    """

    def __init__(self, config: Config, ticks: set[int]) -> None:
        run, smi = Run(config), config.smi
        # A hart's counters are as of its last instruction, so they are read a little later.
        later = {tick: tick + _SOON for tick in ticks}
        if smi.ticks:
            later = {tick: min(then, _next(smi, tick)) for tick, then in later.items()}
        self._charged: dict[int, list[Charged]] = {}
        stolen: dict[int, list[int]] = {}
        for tick in sorted(ticks | set(later.values())):
            run.until(tick)
            self._charged[tick] = run.charged()
            stolen[tick] = [
                _whole(run.processor.hart(hart)["unhalted"] - of.busy, smi.ticks)
                for hart, of in enumerate(self._charged[tick])
            ]
        self._stolen = {tick: stolen[then] for tick, then in later.items()}

    def busy(self, hart: int, tick: int) -> int:
        """Return the counter of unhalted cycles at that tick."""
        return self._charged[tick][hart].busy + self._stolen[tick][hart]

    def disturbed(self, hart: int, start: int, end: int) -> bool:
        """Return whether the hart was interrupted between the two ticks."""
        return self._charged[end][hart].interruptions > self._charged[start][hart].interruptions


def _next(smi: Smi, tick: int) -> int:
    """Return when the next management interrupt begins."""
    if tick <= smi.at or not smi.every:
        return smi.at if tick <= smi.at else MAX_TICKS
    return tick + (smi.at - tick) % smi.every


def _whole(value: int, unit: int) -> int:
    """Return the nearest multiple of ``unit``."""
    return round(value / unit) * unit if unit else 0


def _frequencies(hart: int, readings: Sequence[Reading], truth: _Truth) -> Iterator[Frequency]:
    for before, after in pairwise(readings):
        span = after.time - before.time
        true = truth.busy(hart, after.time) - truth.busy(hart, before.time)
        yield Frequency((after.busy - before.busy) * MHZ / span, true * MHZ / span)


def _spread(values: Sequence[int]) -> int:
    return max(values) - min(values)


def config_of(shape: Shape) -> Config:
    """Return the machine that the program asks for, in this shape."""
    cores, threads, issue = shape
    return Config.from_toml(MACHINE).with_values(cores=cores, threads=threads, issue=issue)


def _row(shape: Shape) -> list[str]:
    found = judge(config_of(shape))
    kept = found.kept
    return [
        " × ".join(map(str, shape[:2])) + f" {shape[2]}",
        f"{sum(of.wrong for of in found.naive)} of {len(found.naive)}",
        f"{min(of.error for of in found.naive):+.1f} … {max(of.error for of in found.naive):+.1f}",
        f"{median(found.naive_skew):,.0f}, {max(found.naive_skew):,}",
        f"{sum(of.wrong for of in found.synchronised)} of {len(found.synchronised)}",
        f"{max(abs(of.error) for of in found.synchronised):.2f}",
        f"{median(found.skew):,.0f}, {max(found.skew):,}",
        f"{sum(not good for good, of in zip(kept, found.disturbed, strict=True) if of)} of {sum(found.disturbed)}",
        f"{sum(not good for good, of in zip(kept, found.disturbed, strict=True) if not of)}",
        f"{sum(found.readings.kept)} of {ROUNDS}",
    ]


TITLES = (
    *("machine", "naive: wrong", "off by, MHz", "skew: median, worst"),
    *("synchronised: wrong", "off by, MHz", "skew: median, worst"),
    *("disturbed, dropped", "others dropped", "kept in the end"),
)


def main() -> None:
    """Print the table of all shapes."""
    print("\n## Disturbed readings on the reference machine\n", flush=True)
    print(table(TITLES, (_row(shape) for shape in SHAPES)), flush=True)


if __name__ == "__main__":
    main()
