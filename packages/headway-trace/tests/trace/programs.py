"""Random Thumb programs that run, and are traced, in Python: what was executed is known, so decoding can be compared.

A program is blocks of plain instructions (of two and four bytes), each ending with a branch: conditional or not, with a
link, by a register, or with an IT block in it. Registers have no values: where an indirect branch goes, and whether a
condition holds, is drawn. So every way that a trace can take through a program turns up.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise

from headway_trace._flow import Flow
from headway_trace._program import InstructionTable as Listing
from headway_trace.code import Code
from headway_trace.etmv3 import Setting
from headway_trace.records import Gap, Instruction, Record

from .encoding import ALIGNMENT, atom, branch, sync, timestamp

BASE = 0xC0008000
SETTING = Setting()

_PLAIN = (b"\x00\xbf", b"\x01\x31", b"\x4f\xf0\x01\x00", b"\x08\x68", b"\xd1\xf8\x04\x20")
_INDIRECT = (b"\x70\x47", b"\x30\xbd", b"\xbd\xe8\xf0\x87", b"\x97\x46")  # bx lr; pop; pop.w; mov pc, r2


@dataclass
class Step:
    """One instruction of a program: ``kind`` is plain, direct, indirect or it; ``conditional`` if it can fail."""

    address: int
    data: bytes
    kind: str = "plain"
    conditional: bool = False
    target: int = 0


@dataclass
class Program:
    steps: dict[int, Step]
    starts: list[int]
    image: bytes

    def read(self, address: int, size: int) -> bytes:
        offset = address - BASE
        return self.image[offset : offset + size] if 0 <= offset < len(self.image) else b""


def program(draw: random.Random, blocks: int = 24) -> Program:
    """Blocks of code, one after the other, whose direct branches go to other blocks."""
    shapes = []
    for _ in range(blocks):
        body: list[tuple[bytes, str, bool]] = []
        for _ in range(draw.randint(1, 6)):
            if draw.random() < 0.15:
                body.append((b"\x08\xbf", "it", False))  # it eq
                body.append((draw.choice(_PLAIN), "plain", True))
            else:
                body.append((draw.choice(_PLAIN), "plain", False))
        ends = [("direct", True), ("direct", False), ("link", False), ("indirect", False), ("zero", True)]
        kind, conditional = draw.choice(ends)
        size = {"direct": 2, "link": 4, "zero": 2, "indirect": 0}[kind]
        last = draw.choice(_INDIRECT) if kind == "indirect" else bytes(size)
        body.append((last, kind, conditional))
        shapes.append(body)
    starts, address = [], BASE
    for body in shapes:
        starts.append(address)
        address += sum(len(data) for data, _, _ in body)
    steps, image, address = dict[int, Step](), bytearray(), BASE
    for number, body in enumerate(shapes):
        for data, kind, conditional in body:
            step = Step(address, data, kind, conditional)
            if kind in ("direct", "link", "zero"):
                later = [start for start in starts[number + 1 :] if 0 <= start - address - 4 <= 126]
                kind = "direct" if kind == "zero" and not later else kind  # cbz goes forward only
                near = [start for start in starts if -200 < start - address - 4 < 200]
                step.target = draw.choice(near if kind != "zero" else later)
                distance = step.target - address - 4
                if kind == "zero":
                    step.data = (0xB100 | (distance >> 6) << 9 | (distance >> 1 & 31) << 3).to_bytes(
                        2, "little"
                    )  # cbz r0
                elif kind == "link":
                    high, low = 0xF000 | distance >> 12 & 0x7FF, 0xF800 | distance >> 1 & 0x7FF
                    step.data = high.to_bytes(2, "little") + low.to_bytes(2, "little")
                elif conditional:
                    step.data = (0xD000 | distance >> 1 & 0xFF).to_bytes(2, "little")
                else:
                    step.data = (0xE000 | distance >> 1 & 0x7FF).to_bytes(2, "little")
                step.kind = "direct"
            steps[address] = step
            image += step.data
            address += len(step.data)
    steps[address] = Step(address, b"\x70\x47", "indirect")
    image += b"\x70\x47" + b"\x00\xbf" * 4
    return Program(steps, starts, bytes(image))


@dataclass
class Run:
    """What was executed (address, executed, cycles), and the trace of it."""

    executed: list[tuple[int, bool, int]] = field(default_factory=list)
    trace: bytearray = field(default_factory=bytearray)
    gaps: list[int] = field(default_factory=list)


def run(code: Program, draw: random.Random, length: int = 300) -> Run:
    """Executes and traces, with synchronisations, exceptions, cancels, trace off and on, and timestamps in between."""
    done, address = Run(), draw.choice(code.starts)
    base = address
    done.trace += ALIGNMENT + sync(address, reason=1, cycles=5)
    time, pending, in_block = 1000, 0, False

    def send(target: int, **how: object) -> None:
        nonlocal base
        different = base ^ target
        size = next(size for size, bits in ((1, 7), (2, 14), (3, 21), (4, 28), (5, 32)) if not different >> bits)
        done.trace.extend(branch(target, size=size))
        base = target

    while len(done.executed) < length:
        step = code.steps[address]
        executed = not step.conditional or draw.random() < 0.5
        cycles = draw.choice((0, 1, 1, 2, 3, 9, 20))
        done.trace += atom(executed, cycles)
        done.executed.append((address, executed, cycles + pending))
        pending = 0
        in_block = step.kind == "it"
        address += len(step.data)
        if executed and step.kind == "direct":
            address = step.target
        elif executed and step.kind == "indirect":
            address = draw.choice(code.starts)
            send(address)
        chance = draw.random()
        if chance < 0.03:
            time += draw.randint(1, 1000)
            done.trace += timestamp(time)
        elif in_block:
            continue
        elif chance < 0.05:
            done.trace += sync(address)
            base = address
        elif chance < 0.07:
            cancel = chance < 0.06 and step.kind == "plain"
            if cancel:
                pending = done.executed.pop()[2]
            address = draw.choice(code.starts)
            done.trace += branch(address, exception=14, cancel=cancel)
            base = address
        elif chance < 0.08:
            length_off = draw.randint(1, 5000)
            address = draw.choice(code.starts)
            done.trace += sync(address, reason=1, cycles=length_off)
            done.gaps.append(length_off)
            base = address
        elif chance < 0.09:
            done.trace += ALIGNMENT
    return done


def listing(code: Program, without: tuple[int, int] = (0, 0)) -> Listing:
    """The program as a decoder knows it, ``without`` the bytes from one address to another."""
    start, end = BASE, BASE + len(code.image)
    hole = min(max(without[0], start), end), min(max(without[1], start), end)

    def read(address: int, size: int) -> bytes:
        if hole[0] <= address < hole[1]:
            return b""
        return code.read(address, min(size, hole[0] - address) if address < hole[0] < hole[1] else size)

    spans = [(start, end)] if hole[0] >= hole[1] else [(start, hole[0]), (hole[1], end)]
    return Listing(Code(read).look, [(first, last) for first, last in spans if first < last])


def follower(known: Listing) -> Flow:
    return Flow(
        known,
        cycle_accurate=True,
        branch_broadcast=False,
        counted_through_overflow=False,
        threads=False,
    )


def decode(code: Program, trace: bytes, *cuts: int, known: Listing | None = None) -> list[Record]:
    parser, flow = SETTING.parser(), follower(known or listing(code))
    found: list[Record] = []
    edges = [0, *sorted(cut % (len(trace) + 1) for cut in cuts), len(trace)]
    for start, end in pairwise(edges):
        found += flow.feed(parser.feed(trace[start:end]))
    found += flow.feed(parser.finish())
    found += flow.finish()
    return found


def instructions(records: list[Record]) -> list[tuple[int, bool | None, int | None]]:
    return [(one.address, one.executed, one.cycles) for one in records if isinstance(one, Instruction)]


def gaps(records: list[Record]) -> list[Gap]:
    return [one for one in records if isinstance(one, Gap)]
