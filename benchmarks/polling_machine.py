"""Collecting from profile buffers on the reference machine: exact looks, losses, and slow-down of the program.

The program `polling`, one of the machine's, does the same work in the same order under every policy. The cost of a
policy is therefore the difference of two runs. The machine counts what was lost, which the program cannot.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from headway_machine._processor import SEMIHOST, STANDSTILL, MachineProcessor
from headway_machine.config import RAM, Config
from headway_machine.console import Console
from headway_machine.host import Host
from headway_machine.image import MachineImage

from .common import table

PROGRAM = Path(__file__).parents[1] / "packages/headway-machine/examples/polling.elf"
OFF, NEVER, FIXED, CPU_TIME = "off", "never", "fixed", "cpu-time"
CYCLES, INSTRUCTIONS, BRANCHES = "cycles", "instructions", "branches"
MAX_TICKS = 2_000_000_000
_TEXT = re.compile(
    r"(\d+) threads: (\d+) cycles, work ([0-9a-f]+), (\d+) records, (\d+) left\n"
    r"polling: (\d+) looks, (\d+) drains, (\d+) useful, (\d+) wrong\n"
)


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one look of the first thread, and when it was to look again, in cycles of its own time."""

    used: int
    filled: int
    drained: bool
    next: int


@dataclass(frozen=True, slots=True)
class Polled:
    """The result of one run: records, and cycles of the machine's only hart or, if it has several, of their core."""

    threads: int
    cycles: int
    work: str
    """What was computed, in hexadecimal; it is the same in all runs."""
    collected: int
    left: int
    """Records still in the buffers at the end."""
    lost: int
    looks: int
    drains: int
    useful: int
    wrong: int
    """Records with impossible contents."""
    first: tuple[Found, ...]
    """The first looks of the first thread."""


def run(config: Config | None = None, /, **arguments: int | str) -> Polled:
    """Run the program with these of its arguments (``headway machine run polling -- NAME=VALUE``)."""
    config = config or Config.of(cores=1, threads=1)
    image = MachineImage.load(PROGRAM)
    with PROGRAM.open("rb") as file:
        symbols: Any = ELFFile(file).get_section_by_name(".symtab")
        places = {symbol.name: symbol["st_value"] for symbol in symbols.iter_symbols()}
    console = Console(None, None, None)
    processor = MachineProcessor(config)
    for segment in image.segments:
        processor.write(segment.address, segment.data)
    told = [f"{name}={value}" for name, value in arguments.items()]
    host = Host(processor, console, arguments=(PROGRAM.name, *told), free=image.end, top=RAM + config.memory.ram)
    processor.start(image.entry, image.tohost)
    while processor.now < MAX_TICKS and host.exit_status is None:
        stop = processor.run(MAX_TICKS)
        if stop == STANDSTILL:
            raise SystemExit("the program stands still")
        if stop == SEMIHOST:
            hart = processor.stopped_hart
            operation, parameter = (processor.register(hart, n) for n in (10, 11))
            processor.set_register(hart, 10, host.semihost(operation, parameter, processor.now))
        elif image.tohost is not None:
            host.htif(image.tohost, image.fromhost)
    text = bytes(console.written).decode()
    said = _TEXT.search(text)
    if said is None:
        raise SystemExit(f"the program did not end: {text!r}")
    threads, cycles, collected, left, looks, drains, useful, wrong = (int(said[i]) for i in (1, 2, 4, 5, 6, 7, 8, 9))
    (logged,) = struct.unpack("<I", processor.read(places["polling_logged"], 4))
    log = struct.iter_unpack("<4I", processor.read(places["polling_log"], 16 * logged))
    first = tuple(Found(used, filled, bool(drained), at) for used, filled, drained, at in log)
    lost = processor.losses["profile_records"]
    return Polled(threads, cycles, said[3], collected, left, lost, looks, drains, useful, wrong, first)


TITLES = ["policy", "collected", "left", "lost", "looks", "drains", "looks per useful drain", "cycles", "looking takes"]


def rows(**words: int | str) -> Iterable[list[str]]:
    """Yield a row of the table for each policy, and for the runs with which they are compared."""
    never = run(policy=NEVER, **words)
    policies: tuple[tuple[str, dict[str, int | str]], ...] = (
        ("no profile", {"policy": OFF}),
        ("profile, nobody looks", {"policy": NEVER}),
        ("fixed, 3,000 cycles", {"policy": FIXED, "period": 3_000}),
        ("fixed, 1,000,000 cycles", {"policy": FIXED, "period": 1_000_000}),
        ("processor time", {"policy": CPU_TIME}),
    )
    for name, changed in policies:
        found = run(**changed, **words)
        if found.work != never.work or found.wrong:
            raise SystemExit("the work was not the same")
        slower = found.cycles - never.cycles
        yield [
            name,
            f"{found.collected:,}",
            f"{found.left:,}",
            f"{found.lost:,}",
            f"{found.looks:,}",
            f"{found.drains:,}",
            f"{found.looks / found.useful:,.2f}" if found.useful else "",
            f"{found.cycles:,}",
            f"{slower:,} ({100 * slower / never.cycles:.2f} %)" if found.looks else "",
        ]


def main() -> None:
    """Print the tables."""
    for event, every, pieces, name in (
        (INSTRUCTIONS, 1000, 300_000, "1,000 instructions"),
        (BRANCHES, 200, 150_000, "200 taken branches"),
    ):
        words: dict[str, int | str] = {
            "busy": 10,
            "bursty": 90,
            "idle": 900,
            "capacity": 1024,
            "pieces": pieces,
            "event": event,
        }
        print("\nReference machine, 1 hart, 1,000 threads (10 busy, 90 bursty, 900 idle), buffers of 1 KiB,")
        print(f"a record of 16 bytes each {name}; exact:\n")
        print(table(TITLES, rows(every=every, **words)), flush=True)


if __name__ == "__main__":
    main()
