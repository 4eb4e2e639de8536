"""A small assembler for RV32IMAC with Zicsr, and a processor with a program in it: a test reads like a claim.

Instructions are functions that give words; where one takes a distance it may be given a label, which a second pass
resolves. Encodings: "The RISC-V Instruction Set Manual, Volume I" (20191213), chapter 24.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.model import Ledger
from headway_machine.config import TCM, Config
from headway_machine.image import NumberNames
from headway_machine.ledger import ledger_of
from headway_machine.states import name_states

RAM = 0x8000_0000
ZERO, RA, SP, GP, TP, T0, T1, T2, S0, S1, A0, A1, A2, A3, A4, A5, A6, A7 = range(18)
S2, S3, S4, S5, S6, S7, S8, S9, S10, S11, T3, T4, T5, T6 = range(18, 32)


@dataclass(frozen=True)
class Label:
    """A name for the place where it stands."""

    name: str


@dataclass(frozen=True)
class Fixup:
    """An instruction whose distance to a label is known at the second pass."""

    label: str
    encode: Callable[[int], int]


@dataclass(frozen=True)
class Address:
    """Two instructions that load the address of a label."""

    rd: int
    label: str


@dataclass(frozen=True)
class Half:
    """A compressed instruction."""

    bits: int


@dataclass(frozen=True)
class Org:
    """What follows begins at this distance from the start of the program; zeros in between."""

    offset: int


Item = int | Label | Fixup | Address | Half | Org | bytes | Sequence["Item"]


def _r(opcode: int, f3: int, f7: int, rd: int, rs1: int, rs2: int) -> int:
    return f7 << 25 | rs2 << 20 | rs1 << 15 | f3 << 12 | rd << 7 | opcode


def _i(opcode: int, f3: int, rd: int, rs1: int, value: int) -> int:
    if not -2048 <= value < 4096:
        raise ValueError(f"{value} is no 12-bit immediate")
    return (value & 0xFFF) << 20 | rs1 << 15 | f3 << 12 | rd << 7 | opcode


def _s(f3: int, rs2: int, rs1: int, value: int) -> int:
    return (value >> 5 & 0x7F) << 25 | rs2 << 20 | rs1 << 15 | f3 << 12 | (value & 31) << 7 | 0x23


def _b(f3: int, rs1: int, rs2: int, to: int | str) -> int | Fixup:
    def encode(o: int) -> int:
        if not -4096 <= o < 4096:
            raise ValueError(f"{o} is too far for a branch")
        high, low = (o >> 12 & 1) << 31 | (o >> 5 & 0x3F) << 25, (o >> 1 & 15) << 8 | (o >> 11 & 1) << 7
        return high | rs2 << 20 | rs1 << 15 | f3 << 12 | low | 0x63

    return Fixup(to, encode) if isinstance(to, str) else encode(to)


def lui(rd: int, value: int) -> int:
    return (value & 0xFFFFF) << 12 | rd << 7 | 0x37


def auipc(rd: int, value: int) -> int:
    return (value & 0xFFFFF) << 12 | rd << 7 | 0x17


def jal(rd: int, to: int | str) -> int | Fixup:
    def encode(o: int) -> int:
        bits = (o >> 20 & 1) << 31 | (o >> 1 & 0x3FF) << 21 | (o >> 11 & 1) << 20 | (o >> 12 & 0xFF) << 12
        return bits | rd << 7 | 0x6F

    return Fixup(to, encode) if isinstance(to, str) else encode(to)


def j(to: int | str) -> int | Fixup:
    return jal(ZERO, to)


def jalr(rd: int, rs1: int, value: int = 0) -> int:
    return _i(0x67, 0, rd, rs1, value)


def beq(a: int, b: int, to: int | str) -> int | Fixup:
    return _b(0, a, b, to)


def bne(a: int, b: int, to: int | str) -> int | Fixup:
    return _b(1, a, b, to)


def blt(a: int, b: int, to: int | str) -> int | Fixup:
    return _b(4, a, b, to)


def bltu(a: int, b: int, to: int | str) -> int | Fixup:
    return _b(6, a, b, to)


def lb(rd: int, rs1: int, offset: int = 0) -> int:
    return _i(0x03, 0, rd, rs1, offset)


def lh(rd: int, rs1: int, offset: int = 0) -> int:
    return _i(0x03, 1, rd, rs1, offset)


def lw(rd: int, rs1: int, offset: int = 0) -> int:
    return _i(0x03, 2, rd, rs1, offset)


def lbu(rd: int, rs1: int, offset: int = 0) -> int:
    return _i(0x03, 4, rd, rs1, offset)


def lhu(rd: int, rs1: int, offset: int = 0) -> int:
    return _i(0x03, 5, rd, rs1, offset)


def sb(rs2: int, rs1: int, offset: int = 0) -> int:
    return _s(0, rs2, rs1, offset)


def sh(rs2: int, rs1: int, offset: int = 0) -> int:
    return _s(1, rs2, rs1, offset)


def sw(rs2: int, rs1: int, offset: int = 0) -> int:
    return _s(2, rs2, rs1, offset)


def addi(rd: int, rs1: int, value: int) -> int:
    return _i(0x13, 0, rd, rs1, value)


def andi(rd: int, rs1: int, value: int) -> int:
    return _i(0x13, 7, rd, rs1, value)


def slli(rd: int, rs1: int, value: int) -> int:
    return _i(0x13, 1, rd, rs1, value & 31)


def srli(rd: int, rs1: int, value: int) -> int:
    return _i(0x13, 5, rd, rs1, value & 31)


def add(rd: int, a: int, b: int) -> int:
    return _r(0x33, 0, 0, rd, a, b)


def sub(rd: int, a: int, b: int) -> int:
    return _r(0x33, 0, 0x20, rd, a, b)


def operate(f3: int, f7: int, rd: int, a: int, b: int) -> int:
    """Any instruction of opcode OP."""
    return _r(0x33, f3, f7, rd, a, b)


def operate_immediate(f3: int, rd: int, a: int, value: int) -> int:
    """Any instruction of opcode OP-IMM."""
    return _i(0x13, f3, rd, a, value)


def mul(rd: int, a: int, b: int) -> int:
    return _r(0x33, 0, 1, rd, a, b)


def div(rd: int, a: int, b: int) -> int:
    return _r(0x33, 4, 1, rd, a, b)


def rem(rd: int, a: int, b: int) -> int:
    return _r(0x33, 6, 1, rd, a, b)


def atomic(f5: int, rd: int, rs2: int, rs1: int) -> int:
    """Any instruction of opcode AMO."""
    return _r(0x2F, 2, f5 << 2, rd, rs1, rs2)


def lr(rd: int, rs1: int) -> int:
    return atomic(2, rd, 0, rs1)


def sc(rd: int, rs2: int, rs1: int) -> int:
    return atomic(3, rd, rs2, rs1)


def amoadd(rd: int, rs2: int, rs1: int) -> int:
    return atomic(0, rd, rs2, rs1)


def amoswap(rd: int, rs2: int, rs1: int) -> int:
    return atomic(1, rd, rs2, rs1)


def csrrw(rd: int, csr: int, rs1: int) -> int:
    return _i(0x73, 1, rd, rs1, csr)


def csrrs(rd: int, csr: int, rs1: int) -> int:
    return _i(0x73, 2, rd, rs1, csr)


def csrrc(rd: int, csr: int, rs1: int) -> int:
    return _i(0x73, 3, rd, rs1, csr)


def csrr(rd: int, csr: int) -> int:
    return csrrs(rd, csr, ZERO)


def csrw(csr: int, rs1: int) -> int:
    return csrrw(ZERO, csr, rs1)


def csrwi(csr: int, value: int) -> int:
    return _i(0x73, 5, ZERO, value & 31, csr)


def csrsi(csr: int, value: int) -> int:
    return _i(0x73, 6, ZERO, value & 31, csr)


def csrci(csr: int, value: int) -> int:
    return _i(0x73, 7, ZERO, value & 31, csr)


NOP = addi(ZERO, ZERO, 0)
ECALL, EBREAK, MRET, WFI, FENCE, FENCE_I = 0x73, 0x0010_0073, 0x3020_0073, 0x1050_0073, 0x0FF0_000F, 0x100F
C_NOP, C_EBREAK = Half(0x0001), Half(0x9002)


def c_addi(rd: int, value: int) -> Half:
    return Half((value >> 5 & 1) << 12 | rd << 7 | (value & 31) << 2 | 1)


def mv(rd: int, rs: int) -> int:
    return addi(rd, rs, 0)


def li(rd: int, value: int) -> list[Item]:
    """One instruction for a small value, else two."""
    value = (value + (1 << 31)) % (1 << 32) - (1 << 31)
    if -2048 <= value < 2048:
        return [addi(rd, ZERO, value)]
    return li2(rd, value)


def li2(rd: int, value: int) -> list[Item]:
    """Two instructions, whatever the value."""
    low = (value & 0xFFF) - ((value & 0x800) << 1)
    return [lui(rd, (value - low) >> 12), addi(rd, rd, low)]


def la(rd: int, label: str) -> Address:
    return Address(rd, label)


def write_csr(csr: int, value: int, by: int = T6) -> list[Item]:
    return [li(by, value), csrw(csr, by)]


def flat(items: Iterable[Item]) -> list[Item]:
    found: list[Item] = []
    for item in items:
        found += flat(item) if isinstance(item, (list, tuple)) else [item]
    return found


def _size(item: Item, at: int) -> int:
    match item:
        case Label():
            return 0
        case Half():
            return 2
        case Address():
            return 8
        case Org():
            if item.offset < at:
                raise ValueError(f"the program is at {at} already, past {item.offset}")
            return item.offset - at
        case bytes():
            return len(item)
    return 4


def assemble(*items: Item, at: int = RAM) -> tuple[bytes, Mapping[str, int]]:
    """The bytes of a program that stands at an address, and the addresses of its labels."""
    known: dict[str, int] = {}
    program = flat(items)
    place = 0
    for item in program:
        if isinstance(item, Label):
            known[item.name] = at + place
        place += _size(item, place)
    out = b""
    for item in program:
        match item:
            case int():
                out += struct.pack("<I", item)
            case Fixup():
                out += struct.pack("<I", item.encode(known[item.label] - at - len(out)))
            case Address():
                out += struct.pack("<2I", *flat(li2(item.rd, known[item.label])))
            case Half():
                out += struct.pack("<H", item.bits)
            case bytes():
                out += item
            case Org():
                out += bytes(item.offset - len(out))
    return out, known


HALT: list[Item] = [WFI, jal(ZERO, -4)]
"""The end of a program: nothing will wake it."""


@dataclass(frozen=True)
class State:
    """A cell as the processor gives it: time in ticks, the others in cycles."""

    time: int = 0
    cycles: int = 0
    instructions: int = 0
    count: int = 0
    stall: int = 0
    memory: int = 0
    external: int = 0
    data: int = 0
    refill: int = 0
    slot: int = 0
    fetch: int = 0
    load: int = 0
    store: int = 0
    tlb: int = 0


class Bench:
    """A processor with a program in its tightly coupled memory, where nothing ever misses, or in RAM.

    One hart, unless the configuration says more. Times are ticks, and cycles where nothing slows the clock.
    """

    def __init__(self, *program: Item, at: int = TCM, start: bool = True, **values: Any) -> None:
        from headway_machine._processor import MachineProcessor

        self.config = Config.of(**{"threads": 1, "memory": SMALL, **values})
        self.processor = MachineProcessor(self.config)
        code, self.labels = assemble(*program, at=at)
        self.processor.write(at, code)
        if start:
            self.processor.start(at, None)

    def run(self, until: int = 100_000) -> Bench:
        self.processor.run(until)
        return self

    def x(self, n: int, hart: int = 0) -> int:
        return self.processor.register(hart, n)

    def word(self, address: int) -> int:
        return int.from_bytes(self.processor.read(address, 4), "little")

    def long(self, address: int) -> int:
        return int.from_bytes(self.processor.read(address, 8), "little")

    def counters(self, hart: int = 0) -> Mapping[str, int]:
        return self.processor.hart(hart)

    def states(self, hart: int = 0) -> dict[int, State]:
        """What the hart did, by the numbers of docs/machine.md, section 6."""
        _, cells = self.processor.processors()[hart]
        return {number: State(*rest, *lost) for number, *rest, lost in cells}

    def threads(self) -> dict[int, dict[int, State]]:
        """What each software thread did, by its id; a later one of the same id hides the one before."""
        return {
            tid: {number: State(*rest, *lost) for number, *rest, lost in cells}
            for tid, _, _, _, is_hart, cells in self.processor.threads()
            if not is_hart
        }

    def ledger(self) -> Ledger:
        p = self.processor
        names = name_states(NumberNames(), self.config.ranges, self.config.polls)
        return ledger_of(p.threads(), p.processors(), until=p.now, names=names, losses=p.losses)


def _small() -> Any:
    from headway_machine.config import MemoryConfig

    return MemoryConfig(ram="256KiB", tcm="16KiB")


SMALL = _small()


def everywhere(*program: Item, **values: Any) -> Bench:
    """Harts of several cores, each core with the program in its own tightly coupled memory, where they all begin.

    The first hart of each core copies it there, which is long over at cycle 5000; `a0` is the hart's number.
    """
    values = {"boot": "all", "memory": SMALL, "threads": 1, **values}
    body, _ = assemble(*program, at=TCM)
    words = (len(body) + 3) // 4
    copy: list[Item] = [
        li2(T0, RAM + 0x400), li2(T1, TCM), li2(T2, TCM + 4 * words),
        Label("copy"), lw(T3, T0), sw(T3, T1), addi(T0, T0, 4), addi(T1, T1, 4), bltu(T1, T2, "copy"),
        li2(T1, 5000), Label("wait"), csrr(T0, 0xB00), bltu(T0, T1, "wait"),
        li2(T1, TCM), jalr(ZERO, T1),
    ]  # fmt: skip
    return Bench(copy, Org(0x400), body, at=RAM, **values)


def cycles_of(*measured: Item, before: Item = (), until: int = 100_000, **values: Any) -> int:
    """Cycles from the issue of the first of these instructions to that of what follows them, on a hart of its own.

    Reading `mcycle` takes its own cycle: the difference of two readings in a row is 1, taken off here.
    """
    bench = Bench(before, NOP, NOP, csrr(S10, 0xB00), measured, csrr(S11, 0xB00), HALT, **values).run(until)
    assert bench.x(S11), "the program did not come to its end"
    return (bench.x(S11) - bench.x(S10) - 1) & 0xFFFF_FFFF
