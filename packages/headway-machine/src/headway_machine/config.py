"""The configuration of a machine: frozen parts with the defaults of docs/machine.md, from Python or TOML.

Each value is checked when it is set (`fields`). Values that depend on each other are checked when their part is
complete. A configuration that exists is therefore a possible one. `Config.to_toml` writes what `Config.from_toml`
reads back as an equal configuration.
"""

# ruff: noqa: RUF009  (the defaults are descriptors, made once)

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from operator import itemgetter
from typing import Any, TypeVar

from headway.errors import HeadwayError
from headway.files import read_file
from headway.values import named
from headway_trace.threads.container import COUNTED, NOT_COUNTED, SOURCES

from .fields import Choice, ConfigError, Field, Number, NumberOrWord, Path, Size, Switch, Text, refuse, shown

__all__ = [
    "ANY",
    "L2",
    "RAM",
    "STATUS_REGISTERS",
    "TCM",
    "Action",
    "BlockDevice",
    "Bus",
    "Cache",
    "Config",
    "Division",
    "ExternalInterrupt",
    "MemoryConfig",
    "Pipeline",
    "PowerConfig",
    "ProfileConfig",
    "ProfileCounter",
    "ProgressUnitConfig",
    "Range",
    "Script",
    "SequencerMove",
    "Smi",
    "StatusRegister",
    "Timer",
    "Tlb",
    "TraceUnitConfig",
    "Trigger",
    "Uart",
]

RAM = 0x8000_0000
"""The address at which RAM begins."""
TCM = 0x0800_0000
ANY = "any"
"""A status register is ready if any bit of its mask is set."""
SECTOR = 512
_LARGEST = 1 << 20
"""The largest size of a configuration file, in bytes."""
_LATEST = (1 << 60) - 1
"""The last tick for which an event can be configured."""
_TICKS = 1_000_000
"""The largest latency that can be configured, in ticks."""
_MAX_RANGES = 63
_MAX_LINES = 32
_MAX_POLLS = 32
_MAX_POLL_STATES = 7
_DEVICES = (
    (0x0200_0000, 0x0201_0000),
    (0x0C00_0000, 0x0C40_0000),
    (0x1000_0000, 0x1000_0014),
    (0x1001_0000, 0x1001_0020),
    (0x1002_0000, 0x1002_0028),
)
"""The addresses of devices (docs/machine.md, section 3): the first, and that after the last."""
_MAX_TRIGGERS = 4
_WATCHED = {"execute": 0, "load": 0x10, "store": 0x20, "access": 0x30}
"""Accesses for which a trigger block looks, and the bits of its control register that say so."""
_COUNTERS = len(COUNTED)
_MAX_SCRIPT = 4096
_MAX_INPUT = 4 << 20
_MAX_SECTORS = 1 << 17


class ConfigPart:
    """A part of a configuration. Its fields are descriptors of `fields`."""

    def __post_init__(self) -> None:
        """Check what depends on several fields."""

    @classmethod
    def describe(cls, name: str) -> Field | None:
        """Return the field of that name, or None if it is another part."""
        found = cls.__dict__.get(name)
        return found if isinstance(found, Field) else None


@dataclass(frozen=True)
class Pipeline(ConfigPart):
    """How long instructions take, in cycles (section 2)."""

    divide: Number = Number(34, 1, _TICKS, "cycles for which a division holds its hart")
    device: Number = Number(4, 1, _TICKS, "cycles of a load from or a store to a device")
    load: Number = Number(2, 1, _TICKS, "cycles until the result of a load can be used")
    multiply: Number = Number(3, 1, _TICKS, "cycles until the result of a multiplication can be used")
    refill: Number = Number(2, 0, _TICKS, "cycles to refill after a taken branch, a jump or a trap")


@dataclass(frozen=True)
class Cache(ConfigPart):
    """A first-level cache of each core, such as ``Cache("16KiB", ways=4)``."""

    size: Size = Size("16KiB", "64B", "4MiB", "bytes")
    ways: Number = Number(4, 1, 32, "lines of a set", power=True)
    line: Number = Number(32, 16, 256, "bytes of a line", power=True)
    write: Choice = Choice("what a store does (data cache)", "back", "through")
    banks: Number = Number(
        0, 0, 32, "banks (data cache): a load waits while a store writes its bank; 0: never", power=True
    )

    def __post_init__(self) -> None:
        """Check that the cache has at least one set."""
        _check_sets(self.size, self.ways, self.line)


@dataclass(frozen=True)
class L2(ConfigPart):
    """A second-level cache that all cores share."""

    size: Size = Size("256KiB", "64B", "64MiB", "bytes")
    ways: Number = Number(8, 1, 32, "lines of a set", power=True)
    line: Number = Number(32, 16, 256, "bytes of a line, the same as of l1i and l1d", power=True)
    hit: Number = Number(10, 0, _TICKS, "ticks to deliver a line that it has")

    def __post_init__(self) -> None:
        """Check that the cache has at least one set."""
        _check_sets(self.size, self.ways, self.line)


def _check_sets(size: int, ways: int, line: int) -> None:
    if ways * line > size:
        raise ConfigError("ways", f"is {ways}: {ways} lines of {line} bytes are more than the cache's {size} bytes")


@dataclass(frozen=True)
class Tlb(ConfigPart):
    """The micro-TLB of each hart."""

    entries: Number = Number(16, 0, 256, "pages that it holds; 0: no micro-TLB")
    page: Size = Size("4KiB", "256B", "4MiB", "bytes of a page")
    miss: Number = Number(20, 0, _TICKS, "ticks of a miss")


@dataclass(frozen=True)
class Bus(ConfigPart):
    """The bus that all cores share."""

    line: Number = Number(4, 1, _TICKS, "ticks for which a line occupies it")
    word: Number = Number(1, 1, _TICKS, "ticks for which a word occupies it")
    window: Number = Number(1024, 16, _TICKS, "ticks of a window, of which harts may have sixteenths")


@dataclass(frozen=True)
class MemoryConfig(ConfigPart):
    """The memories beside the caches."""

    ram: Size = Size("16MiB", "64KiB", "1GiB", "bytes of RAM, at 0x8000_0000")
    tcm: Size = Size("16KiB", "1KiB", "1MiB", "bytes of tightly coupled memory of each core, at 0x0800_0000")
    latency: Number = Number(60, 0, _TICKS, "ticks of external memory")


@dataclass(frozen=True)
class ProgressUnitConfig(ConfigPart):
    """The progress unit."""

    switch: Number = Number(16, 1, _TICKS, "cycles of a write to hwblock")
    gap: Number = Number(2000, 0, 0xFFFF, "hwgap: cycles without a fruitless check after which polling ends; 0: never")


@dataclass(frozen=True)
class ProfileConfig(ConfigPart):
    """The profile buffers."""

    authorise: Number = Number(40, 1, _TICKS, "cycles of a write to hwauth")


@dataclass(frozen=True)
class Trigger(ConfigPart):
    """A trigger block: what it looks for, how often it must find it, and in which states of the sequencer it looks."""

    first: Number = Number(0, 0, 0xFFFF_FFFF, "address", base=16)
    watch: Choice = Choice(
        "the accesses whose addresses it compares, or events from outside", *_WATCHED, "line", "uart", "smi"
    )
    second: Number = Number(0, 0, 0xFFFF_FFFF, "another address, or the address after a range", base=16)
    range: Switch = Switch(False, "all addresses from first up to, not including, second")
    mask: Number = Number(
        0, 0, 0xFFFF_FFFF, "bits of the loaded, stored or received value to compare; 0: none", base=16
    )
    value: Number = Number(0, 0, 0xFFFF_FFFF, "the value that they must have", base=16)
    count: Number = Number(1, 1, 0x7FFF_FFFF, "it fires at every count-th match")
    states: Number = Number(7, 0, 7, "states of the sequencer in which it looks, a bit each")
    harts: Number = Number(0xFF, 0, 0xFF, "harts of the core at which it looks, a bit each", base=16)
    symbol: Text = Text("", "function or variable whose address is first (with range: all of it)", most=1024)
    line: Number = Number(0, 0, 31, "line of the PLIC that comes up (watch line)")

    def __post_init__(self) -> None:
        """Check that there is an address, a symbol or a line where one is needed, and none where it means nothing."""
        if self.watch == "line" and not self.line:
            raise ConfigError("line", "is missing: give the line of the PLIC, 1 to 31")
        if self.watch != "line" and self.line:
            raise ConfigError("line", f'means nothing with watch = "{self.watch}": leave it out')
        if self.watch not in _WATCHED:
            for name in ("first", "second", "range", "symbol", *(("mask", "value") if self.watch != "uart" else ())):
                if getattr(self, name):
                    raise ConfigError(name, f'means nothing with watch = "{self.watch}": leave it out')
            return
        if self.symbol and (self.first or self.second):
            raise ConfigError("symbol", "is given, and first or second as well: give one or the other")
        if not self.symbol and not self.first:
            raise ConfigError("first", "is missing: give an address, or a symbol")

    def registers(self) -> tuple[int, ...]:
        """Return the values of its registers, as a program would write them (section 9)."""
        watched = {**_WATCHED, "line": 0x200, "uart": 0x400, "smi": 0x600}[self.watch]
        flags = 0x40 if self.range else 0x80 if self.second else 0
        data = 0x100 if self.mask else 0
        control = 1 | self.states << 1 | watched | flags | data | self.harts << 16
        return control, self.line or self.first, self.second, self.value, self.mask, self.count


@dataclass(frozen=True)
class SequencerMove(ConfigPart):
    """A transition of the sequencer."""

    state: Number = Number(None, 0, 2, "the state that it leaves")
    to: Number = Number(None, 0, 2, "the state that it enters")
    when: Number = Number(None, 1, 15, "triggers, one of which must fire, a bit each")

    def __post_init__(self) -> None:
        """Check that the two states differ."""
        if self.state == self.to:
            raise ConfigError("to", f"is {self.to}, as state: give another")


@dataclass(frozen=True)
class Action(ConfigPart):
    """The actions on entering a state of the sequencer."""

    state: Number = Number(None, 0, 2, "the state that is entered")
    mark: Switch = Switch(False, "write a trigger marker to the trace")
    stop: Switch = Switch(False, "raise a breakpoint exception in the hart that caused it")
    halt: Switch = Switch(False, "stop for the debugger, if there is one; stop does that, too")
    hold: Switch = Switch(False, "hold the line up as long as the state lasts")
    interrupt: Switch = Switch(False, "raise the line once")
    reload: Switch = Switch(False, "restart the counts of the triggers")

    def bits(self) -> int:
        """Return the value of its register (section 9)."""
        return self.mark | self.stop << 1 | self.hold << 2 | self.interrupt << 3 | self.reload << 4 | self.halt << 5


@dataclass(frozen=True)
class ProfileCounter(ConfigPart):
    """One of the six counters of the profile: what it counts, and at which harts."""

    source: Choice = Choice("what it counts", *SOURCES)
    harts: Number = Number(0xFF, 0, 0xFF, "harts of the core that it counts, a bit each", base=16)

    def number(self) -> int:
        """Return the number of its source, as a program would write it (section 9)."""
        return SOURCES.index(self.source)


@dataclass(frozen=True)
class TraceUnitConfig(ConfigPart):
    """The trace unit of each core (section 9)."""

    enabled: Switch = Switch(False, "whether there is a trace unit")
    harts: Number = Number((1 << 128) - 1, 0, (1 << 128) - 1, "harts that may be traced, a bit each", base=16)
    start: Switch = Switch(True, "trace them from reset on (false: when they ask by hwtrace)")
    cycle_accurate: Switch = Switch(True, "trace stalls and waits, so that times are known")
    all_targets: Switch = Switch(False, "send also those targets of indirect jumps that a decoder expects")
    direct_branches: Switch = Switch(False, "send the targets of direct jumps and taken branches, too")
    sync: Number = Number(1024, 64, 1 << 20, "bytes between two synchronisations")
    fifo: Number = Number(256, 128, 1 << 20, "bytes that can wait for the port; more are lost")
    port: Number = Number(0, 0, 1024, "bits that leave the port each cycle; 0: no limit")
    buffer: Number = Number(0, 0, 1 << 24, "32-bit words of a trace buffer (a ring); 0: keep everything", power=True)
    after: Number = Number(0, 0, 1 << 24, "words that the buffer still takes after a trigger")
    format: Choice = Choice(
        "its packets: of the machine's own threads (docs/trace-format.md), or E-Trace",
        "threads",
        "etrace",
    )
    implicit_return: Switch = Switch(True, "E-Trace: leave out where returns go that a stack of calls tells")
    sequential_jump: Switch = Switch(True, "E-Trace: leave out where jumps go that the instruction before tells")
    branch_prediction: Switch = Switch(True, "E-Trace: count predicted branches")
    jump_target_cache: Switch = Switch(True, "E-Trace: send the place of a target in a cache")
    full_address: Switch = Switch(False, "E-Trace: send whole addresses, not differences")
    states: Number = Number(7, 0, 7, "states of the sequencer in which harts are traced, a bit each")
    line: Number = Number(0, 0, 31, "line of the PLIC for actions; 0: none")
    window: Number = Number(0, 0, 0x7FFF_FFFF, "cycles of a profiling window; 0: send no profile")
    profiled: Number = Number(7, 0, 7, "states of the sequencer in which the profile counts, a bit each")
    counted: Number = Number(0xFF, 0, 0xFF, "harts of each core that the profile counts at all, a bit each", base=16)
    triggers: tuple[Trigger, ...] = ()
    moves: tuple[SequencerMove, ...] = ()
    actions: tuple[Action, ...] = ()
    counters: tuple[ProfileCounter, ...] = tuple(ProfileCounter(source) for source in COUNTED)

    def __post_init__(self) -> None:
        """Check that there are no more triggers, moves, actions and counters than the trace unit has."""
        if len(self.triggers) > _MAX_TRIGGERS:
            raise ConfigError("triggers", f"has {len(self.triggers)} entries: give {_MAX_TRIGGERS} at most")
        for name, most in (("moves", 6), ("actions", 3), ("counters", _COUNTERS)):
            if len(getattr(self, name)) > most:
                raise ConfigError(name, f"has {len(getattr(self, name))} entries: give {most} at most")
        if not self.counters:
            raise ConfigError("counters", f"has no entries: give 1 to {_COUNTERS}, or leave it out")

    def counted_sources(self, harts: int) -> str:
        """Return the sources of the six counters, as a trace file of cores with so many ``harts`` names them.

        A counter that does not count all harts has those that it counts behind ``@``, a bit each.
        """
        every = (1 << harts) - 1
        names = [
            counter.source if counter.harts & every == every else f"{counter.source}@{counter.harts & every:#x}"
            for counter in self.counters
        ]
        return ",".join(names + [NOT_COUNTED] * (_COUNTERS - len(names)))

    def etrace_options(self) -> int:
        """Return the optional modes of E-Trace that are on, as bits of ioptions."""
        modes = (self.implicit_return, False, self.full_address, self.jump_target_cache, self.branch_prediction)
        return sum(bool(on) << bit for bit, on in enumerate((*modes, self.sequential_jump)))

    def registers(self) -> Iterator[tuple[int, int]]:
        """Yield (number, value) of each register of the event resources and the profile (section 9)."""
        for block, trigger in enumerate(self.triggers):
            yield from enumerate(trigger.registers(), 8 * block)
        for move in self.moves:
            yield 32 + 2 * move.state + (move.to - move.state - 1) % 3, move.when
        for action in self.actions:
            yield 38 + action.state, action.bits()
        for number in range(_COUNTERS):
            counter = self.counters[number] if number < len(self.counters) else ProfileCounter(harts=0)
            yield 46 + number, counter.harts & self.counted
            yield 52 + number, counter.number()
        yield from ((41, self.states), (43, self.line), (45, self.profiled), (44, self.window))


@dataclass(frozen=True)
class Timer(ConfigPart):
    """The timer of the CLINT."""

    divider: Number = Number(1, 1, _TICKS, "ticks of one count of mtime")


@dataclass(frozen=True)
class Script(ConfigPart):
    """Text that the UART receives: the first byte at tick ``at``, then a byte every ``uart.every`` ticks."""

    at: Number = Number(None, 0, _LATEST, "tick of the first byte")
    text: Text = Text(None, "the text that arrives", most=_MAX_SCRIPT)


@dataclass(frozen=True)
class Uart(ConfigPart):
    """The UART and what it receives: from a file, by a script, or both."""

    tick: Number = Number(200, 1, 1_000_000_000, "ticks to send a byte")
    input: Path = Path("file with the bytes to receive")
    start: Number = Number(0, 0, _LATEST, "tick at which the first byte arrives")
    every: Number = Number(2000, 1, 1_000_000_000, "ticks from one byte to the next")
    script: tuple[Script, ...] = ()

    def arrivals(self) -> tuple[tuple[int, bytes], ...]:
        """Return (tick of the first byte, text) of everything to receive; ``every`` ticks lie between two bytes.

        Raises HeadwayError if the file cannot be read.
        """
        texts = [(line.at, line.text.encode()) for line in self.script]
        if self.input:
            texts.append((self.start, read_file(self.input, "a file for uart.input", _MAX_INPUT)))
        return tuple(sorted(texts, key=itemgetter(0)))


@dataclass(frozen=True)
class BlockDevice(ConfigPart):
    """The block device."""

    image: Path = Path("file with its contents")
    sectors: Number = Number(2048, 0, _MAX_SECTORS, "sectors of zeros, if there is no image")
    latency: Number = Number(2000, 1, 1_000_000_000, "ticks of a command")
    sector: Number = Number(100, 0, 1_000_000_000, "additional ticks for each sector")
    save: Switch = Switch(False, "write the image back at the end")

    def __post_init__(self) -> None:
        """Check that there is a file to write back to."""
        if self.save and not self.image:
            raise ConfigError("save", "is true, but there is nothing to write back to: give block.image too")

    def contents(self) -> bytes:
        """Return the initial contents, whole sectors. Raises HeadwayError if the image cannot be read."""
        if not self.image:
            return bytes(self.sectors * SECTOR)
        found = read_file(self.image, "a file for block.image", _MAX_SECTORS * SECTOR)
        return found + bytes(-len(found) % SECTOR)


@dataclass(frozen=True)
class ExternalInterrupt(ConfigPart):
    """An external interrupt line that is raised ``count`` times, every ``every`` ticks from ``at`` on."""

    source: Number = Number(None, 4, 31, "line of the PLIC")
    at: Number = Number(None, 0, _LATEST, "tick of the first one")
    every: Number = Number(0, 0, _LATEST, "ticks from one to the next")
    count: Number = Number(1, 1, 1_000_000_000, "number of interrupts")

    def __post_init__(self) -> None:
        """Check that repeated interrupts have a period."""
        if self.count > 1 and not self.every:
            raise ConfigError("every", f"is 0, but count is {self.count}: give the ticks from one to the next")


@dataclass(frozen=True)
class Smi(ConfigPart):
    """System-management interrupts, which stop all cores."""

    at: Number = Number(0, 0, _LATEST, "tick of the first one")
    every: Number = Number(0, 0, _LATEST, "ticks from one to the next; 0: only one")
    ticks: Number = Number(0, 0, 1_000_000_000, "ticks that each lasts; 0: none")

    def __post_init__(self) -> None:
        """Check that the machine runs between two interrupts."""
        if self.every and self.every <= self.ticks:
            raise ConfigError("every", f"is {self.every}: give more than the {self.ticks} ticks that each one lasts")


@dataclass(frozen=True)
class PowerConfig(ConfigPart):
    """Sleep states and clocks (section 8)."""

    c1: Number = Number(2, 0, _TICKS, "ticks to wake from C1")
    c2: Number = Number(20, 0, _TICKS, "ticks to wake from C2")
    c3: Number = Number(200, 0, _TICKS, "ticks to wake from C3")
    window: Number = Number(1024, 8, 1 << 20, "ticks of a window, of which pwduty stops eighths", power=True)


@dataclass(frozen=True)
class Range(ConfigPart):
    """Instruction addresses whose time is a state of its own, given by ``start`` and ``end`` or by a ``symbol``."""

    name: Text = Text(
        None,
        "name of the state",
        pattern=r"[A-Za-z0-9_][\w.$:-]*",
        most=64,
        words="a word of letters, digits and _.$:-",
    )
    start: Number = Number(0, 0, 0xFFFF_FFFF, "first address", base=16)
    end: Number = Number(0, 0, 0xFFFF_FFFF, "address after the last", base=16)
    symbol: Text = Text("", "function that has these addresses", most=1024)
    kind: Choice = Choice("how time there counts", "effective", "noneffective", "poll")

    def __post_init__(self) -> None:
        """Check that either addresses or a symbol are given."""
        if self.symbol and (self.start or self.end):
            raise ConfigError("symbol", "is given, and start or end as well: give one or the other")
        if not self.symbol and self.end <= self.start:
            raise ConfigError("end", f"is {self.end:#x}: give more than start ({self.start:#x}), or a symbol")


@dataclass(frozen=True)
class Division(ConfigPart):
    """The parts of caches and bus that some harts may use (section 10). Other harts may use all."""

    harts: Number = Number(None, 1, (1 << 128) - 1, "harts that it is for, a bit each", base=16)
    l1i: Number = Number(0, 0, 0xFFFF_FFFF, "ways of the instruction cache, a bit each; 0: all", base=16)
    l1d: Number = Number(0, 0, 0xFFFF_FFFF, "ways of the data cache, a bit each; 0: all", base=16)
    l2: Number = Number(0, 0, 0xFFFF_FFFF, "ways of the second-level cache, a bit each; 0: all", base=16)
    bus: Number = Number(0, 0, 16, "sixteenths of each bus.window; 0: no limit")


@dataclass(frozen=True)
class StatusRegister(ConfigPart):
    """A device register that programs ask whether something is ready.

    A load from it that finds it not ready sets the poll latch of its name, and one that finds it ready clears it.
    """

    address: Number = Number(None, 0, 0xFFFF_FFFF, "address of a device register", base=16)
    name: Text = Text(
        "",
        "name of the state poll.NAME (empty: the address)",
        pattern=r"([A-Za-z0-9_][\w.$:-]*)?",
        most=64,
        words="a word of letters, digits and _.$:-",
    )
    mask: Number = Number(0xFFFF_FFFF, 1, 0xFFFF_FFFF, "bits of it to look at", base=16)
    ready: NumberOrWord = NumberOrWord(
        ANY, 0, 0xFFFF_FFFF, 'value of these bits when it is ready; "any": one of them is set', base=16
    )

    def __post_init__(self) -> None:
        """Check that there is a device, and that the register can become ready."""
        if self.address % 4 or not any(start <= self.address < end for start, end in _DEVICES):
            text = f"is {self.address:#x}: give that of a device register, a multiple of 4 (docs/machine.md, section 3)"
            raise ConfigError("address", text)
        if isinstance(self.ready, int) and self.ready & ~self.mask:
            text = f"is {self.ready:#x}, which the bits of mask ({self.mask:#x}) never have: give bits of it"
            raise ConfigError("ready", text)

    @property
    def state(self) -> str:
        """The name of the state of a hart that found it not ready."""
        return f"poll.{self.name or f'{self.address:#x}'}"


STATUS_REGISTERS = (
    StatusRegister(name="uart_rx", address=0x1000_0004),
    StatusRegister(name="uart_tx", address=0x1000_000C),
    StatusRegister(name="block", address=0x1001_0010),
)
"""The status registers that the machine knows unless it is told others: those of the UART and of the block device."""


@dataclass(frozen=True)
class Config(ConfigPart):
    """The configuration of a whole machine: ``Config.of(cores=2, threads=6, l1d=Cache("16KiB", ways=4))``."""

    cores: Number = Number(1, 1, 16, "number of cores")
    threads: Number = Number(6, 1, 8, "hardware threads (harts) of each core")
    issue: Choice = Choice("which hart gets a cycle", "strict", "skip")
    boot: Choice = Choice("harts that start by themselves", "first", "all")
    pipeline: Pipeline = Pipeline()
    l1i: Cache = Cache()
    l1d: Cache = Cache()
    tlb: Tlb = Tlb()
    l2: L2 | None = None
    bus: Bus = Bus()
    memory: MemoryConfig = MemoryConfig()
    progress: ProgressUnitConfig = ProgressUnitConfig()
    profile: ProfileConfig = ProfileConfig()
    trace: TraceUnitConfig = TraceUnitConfig()
    timer: Timer = Timer()
    uart: Uart = Uart()
    block: BlockDevice = BlockDevice()
    power: PowerConfig = PowerConfig()
    smi: Smi = Smi()
    interrupts: tuple[ExternalInterrupt, ...] = ()
    ranges: tuple[Range, ...] = ()
    polls: tuple[StatusRegister, ...] = STATUS_REGISTERS
    divisions: tuple[Division, ...] = ()

    def __post_init__(self) -> None:
        """Check the values that depend on several parts."""
        _check_parts(self, "")
        _check_parts(self.uart, "uart.")
        if self.l1i.write != "back":
            raise ConfigError("l1i.write", "means nothing, because nothing is stored to instructions: leave it out")
        if self.l1i.banks:
            raise ConfigError("l1i.banks", "means nothing, because nothing is stored to instructions: leave it out")
        _check_parts(self.trace, "trace.")
        for name, line in (("l1i", self.l1i.line), ("l2", self.l2.line if self.l2 else self.l1d.line)):
            if line != self.l1d.line:
                text = f"is {line}, l1d.line {self.l1d.line}: give both the same, they share a bus"
                raise ConfigError(f"{name}.line", text)
        for name, cache in (("l1i", self.l1i), ("l1d", self.l1d)):
            if cache.line > self.tlb.page:
                refuse(f"{name}.line", cache.line, f"no more than tlb.page ({self.tlb.page})")
        if len(self.ranges) > _MAX_RANGES:
            raise ConfigError("ranges", f"has {len(self.ranges)} entries: give {_MAX_RANGES} at most")
        if len(self.interrupts) > _MAX_LINES:
            raise ConfigError("interrupts", f"has {len(self.interrupts)} entries: give {_MAX_LINES} at most")
        if len(self.uart.script) > _MAX_SCRIPT:
            raise ConfigError("uart.script", f"has {len(self.uart.script)} entries: give {_MAX_SCRIPT} at most")
        _check_polls(self.polls)
        self._check_divisions()
        names = [(r.kind, r.name) for r in self.ranges]
        for number, key in enumerate(names):
            if key in names[:number]:
                text = f"is {shown(key[1])}, as that of another: give each its own"
                raise ConfigError(f"ranges[{number}].name", text)

    def _check_divisions(self) -> None:
        ways = {"l1i": self.l1i.ways, "l1d": self.l1d.ways, "l2": self.l2.ways if self.l2 else 0}
        taken = 0
        for number, part in enumerate(self.divisions):
            if part.harts & taken:
                text = f"is {part.harts:#x}, with harts of another: give each hart in one only"
                raise ConfigError(f"divisions[{number}].harts", text)
            taken |= part.harts
            for name, count in ways.items():
                wanted = getattr(part, name)
                if wanted >> count:
                    has = (
                        f"{count} ways: give a bit for each" if count else "no ways, as there is no [l2]: leave it out"
                    )
                    raise ConfigError(f"divisions[{number}].{name}", f"is {wanted:#x}, and the cache has {has}")

    @property
    def harts(self) -> int:
        """The number of hardware threads of the whole machine."""
        return self.cores * self.threads

    @classmethod
    def of(cls, **values: Any) -> Config:
        """Return a configuration with these values. Raises ConfigError for an impossible value or an unknown name."""
        _check_keys(cls, values, "")
        return cls(**values)

    def with_values(self, **values: Any) -> Config:
        """Return a copy with these values changed. None leaves a value as it is."""
        return replace(self, **{name: value for name, value in values.items() if value is not None})

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Config:
        """Read a TOML file. File names in it are relative to its directory.

        Raises HeadwayError: one sentence with the file, the path of the key and what is allowed.
        """
        shown_path = os.fspath(path)
        return cls.from_text(_read(shown_path), shown_path, folder=os.path.dirname(os.path.abspath(shown_path)))

    @classmethod
    def from_text(cls, text: str, name: str = "configuration", folder: str = "") -> Config:
        """Read TOML; ``name`` is its name in messages, and file names in it are relative to ``folder``."""
        try:
            found = tomllib.loads(text)
        except RecursionError:
            raise HeadwayError(f"{name} is nested too deeply: headway machine show prints what it may hold") from None
        except ValueError as error:
            raise HeadwayError(f"{name} is no TOML: {shown(str(error))[1:-1]}") from None
        try:
            return _part(cls, found, folder)
        except ConfigError as error:
            raise HeadwayError(f"{name}: {error}") from None

    def to_toml(self) -> str:
        """Return the configuration as TOML, each key with a comment that explains it."""
        return "\n".join(_written(self)) + "\n"


def _check_polls(polls: tuple[StatusRegister, ...]) -> None:
    if len(polls) > _MAX_POLLS:
        raise ConfigError("polls", f"has {len(polls)} entries: give {_MAX_POLLS} at most")
    states = {register.state for register in polls}
    if len(states) > _MAX_POLL_STATES:
        raise ConfigError("polls", f"has {len(states)} names: give {_MAX_POLL_STATES} at most; registers may share one")
    for number, register in enumerate(polls):
        if any(other.address == register.address for other in polls[:number]):
            text = f"is {register.address:#x}, as that of another: one load asks one question"
            raise ConfigError(f"polls[{number}].address", text)


# The types of the tables and of the lists of tables in a configuration.
_TABLES: Mapping[str, type[ConfigPart]] = {
    "pipeline": Pipeline,
    "l1i": Cache,
    "l1d": Cache,
    "tlb": Tlb,
    "l2": L2,
    "bus": Bus,
    "memory": MemoryConfig,
    "progress": ProgressUnitConfig,
    "profile": ProfileConfig,
    "trace": TraceUnitConfig,
    "timer": Timer,
    "uart": Uart,
    "block": BlockDevice,
    "power": PowerConfig,
    "smi": Smi,
}
_LISTS: Mapping[str, type[ConfigPart]] = {
    "interrupts": ExternalInterrupt,
    "ranges": Range,
    "polls": StatusRegister,
    "divisions": Division,
    "script": Script,
    "triggers": Trigger,
    "moves": SequencerMove,
    "actions": Action,
    "counters": ProfileCounter,
}
_LIST_NAMES = {
    "script": "uart.script",
    "triggers": "trace.triggers",
    "moves": "trace.moves",
    "actions": "trace.actions",
    "counters": "trace.counters",
}
_ABSENT: Mapping[str, tuple[str, ConfigPart]] = {
    "l2": ("no second-level cache", L2()),
    "uart.script": ("nothing received at given ticks", Script(0, "hello")),
    "trace.triggers": ("no trigger blocks", Trigger(first=RAM, watch="store")),
    "trace.moves": ("a sequencer that stays where it is", SequencerMove(0, 1, 1)),
    "trace.actions": ("nothing done on entering states of the sequencer", Action(1)),
    "interrupts": ("no external interrupts", ExternalInterrupt(4, 0)),
    "ranges": ("no address ranges", Range("name", RAM, RAM + 4)),
    "divisions": ("caches and bus are not divided", Division(1)),
}
"""For each part that is absent by default, what its absence means, and an example of the table that adds it."""
_P = TypeVar("_P", bound=ConfigPart)


def _check_parts(part: ConfigPart, path: str) -> None:
    """Check the types of the parts of a part, and turn lists of parts into tuples."""
    for field in fields(part):  # type: ignore[arg-type]
        value = getattr(part, field.name)
        if field.name in _LISTS:
            kind = _LISTS[field.name]
            if not isinstance(value, (list, tuple)) or not all(isinstance(item, kind) for item in value):
                refuse(path + field.name, value, f"a sequence of {kind.__name__}")
            object.__setattr__(part, field.name, tuple(value))
        elif field.name in _TABLES and not (value is None and field.default is None):
            kind = _TABLES[field.name]
            if not isinstance(value, kind):
                refuse(path + field.name, value, f"a {kind.__name__}")


def _check_keys(kind: type[ConfigPart], found: Mapping[str, Any], path: str) -> None:
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for key in found:
        if key not in known:
            raise ConfigError(path + named(key), _unknown(known))


def _unknown(known: list[str]) -> str:
    return f"is not known: there are {', '.join(known)}"


def _part(kind: type[_P], found: Mapping[str, Any], folder: str) -> _P:
    """Return a part from a TOML table. Raises ConfigError."""
    _check_keys(kind, found, "")
    values: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in found:
            if field.default is MISSING:
                raise ConfigError(field.name, f"is missing: there must be {_needed(kind)}")
            continue
        value = found[field.name]
        if field.name in _TABLES and kind is Config:
            values[field.name] = _table(_TABLES[field.name], value, field.name, folder)
        elif field.name in _LISTS:
            if not isinstance(value, list):
                refuse(field.name, value, f"tables [[{_LIST_NAMES.get(field.name, field.name)}]]")
            values[field.name] = tuple(
                _table(_LISTS[field.name], item, f"{field.name}[{number}]", folder) for number, item in enumerate(value)
            )
        else:
            values[field.name] = value
            if isinstance(kind.describe(field.name), Path) and isinstance(value, str) and value and folder:
                values[field.name] = os.path.join(folder, value)
    return kind(**values)


def _table(kind: type[_P], found: object, name: str, folder: str) -> _P:
    if not isinstance(found, dict):
        refuse(name, found, f"a table [{name}]")
    try:
        return _part(kind, found, folder)
    except ConfigError as error:
        raise error.within(name) from None


def _needed(kind: type[ConfigPart]) -> str:
    return " and ".join(field.name for field in fields(kind) if field.default is MISSING)  # type: ignore[arg-type]


def _written(config: Config) -> Iterator[str]:
    yield from _lines(config)
    if not config.polls:
        yield "polls = []".ljust(24) + "  # no status registers: [[polls]] with name, address, mask, ready"
    for name in _TABLES:
        part = getattr(config, name)
        if part is None:
            yield from _absent(name, f"[{name}]")
        else:
            yield from ["", f"[{name}]", *_lines(part, *(["write", "banks"] if name == "l1i" else []))]
    for name, parts in (
        ("uart.script", config.uart.script),
        ("trace.triggers", config.trace.triggers),
        ("trace.moves", config.trace.moves),
        ("trace.actions", config.trace.actions),
        ("trace.counters", config.trace.counters),
        ("interrupts", config.interrupts),
        ("ranges", config.ranges),
        ("polls", config.polls),
        ("divisions", config.divisions),
    ):
        if not parts and name in _ABSENT:
            yield from _absent(name, f"[[{name}]]")
        for part in parts:
            left_out = _left_out(part) if isinstance(part, (Range, Trigger)) else ()
            yield from ["", f"[[{name}]]", *_lines(part, *left_out)]


def _absent(name: str, table: str) -> Iterator[str]:
    """Yield what the absence of a part means, and the table that would add one, as comments."""
    means, example = _ABSENT[name]
    yield from ["", f"# {means}; with:", f"# {table}"]
    yield from (f"# {line}" for line in _lines(example))


def _lines(part: ConfigPart, *left_out: str) -> Iterator[str]:
    for field in fields(part):  # type: ignore[arg-type]
        described = part.describe(field.name)
        if described is None or field.name in left_out:
            continue
        yield f"{field.name} = {described.write(getattr(part, field.name))}".ljust(24) + f"  # {described.says}"


def _left_out(part: Range | Trigger) -> tuple[str, ...]:
    if not part.symbol:
        return ("symbol",)
    return ("start", "end") if isinstance(part, Range) else ("first", "second")


def _read(name: str) -> str:
    raw = read_file(name, "a configuration", _LARGEST)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise HeadwayError(f"{name} is no text in UTF-8 (byte {error.start}): a configuration is TOML") from None
