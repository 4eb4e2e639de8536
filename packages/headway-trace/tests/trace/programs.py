"""Random programs that run, and are traced, in Python: what was executed is known, so decoding can be compared.

A program is blocks of plain instructions of T32 or A32, each ending with a branch: conditional or not, with a link, to
the other instruction set, by a register, or with an IT block in it. Registers have no values: where an indirect branch
goes, and whether a condition holds, is drawn. So every way that a trace can take through a program turns up.
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
_ARM_PLAIN = (0xE1A00000, 0xE2811001, 0xE5910000, 0x12811001)  # nop; add; ldr; addne, which has a condition
_ARM_INDIRECT = (0xE12FFF1E, 0xE8BD8000, 0xE1A0F00E, 0x112FFF1E)  # bx lr; pop {pc}; mov pc, lr; bxne lr
_SIZES = {"direct": 2, "link": 4, "zero": 2, "indirect": 0, "interwork": 4}
_REACH = 200
"""How far direct branches go, in bytes; those to the other instruction set go anywhere."""


@dataclass
class Step:
    """One instruction of a program: ``kind`` is plain, direct, indirect or it; ``conditional`` if it can fail."""

    address: int
    data: bytes
    kind: str = "plain"
    conditional: bool = False
    target: int = 0
    thumb: bool = True
    calls: bool = False


@dataclass
class Program:
    steps: dict[int, Step]
    starts: list[int]
    image: bytes

    def read(self, address: int, size: int) -> bytes:
        offset = address - BASE
        return self.image[offset : offset + size] if 0 <= offset < len(self.image) else b""

    def thumb(self, address: int) -> bool:
        """Whether the instruction at an address is one of T32."""
        return self.steps[address].thumb


@dataclass
class _Block:
    thumb: bool
    body: list[tuple[bytes, str, bool]]
    start: int = 0


def program(draw: random.Random, blocks: int = 24) -> Program:
    """Blocks of code, one after the other, whose direct branches go to others. Half of the programs have A32, too."""
    mixed, thumb, made = draw.random() < 0.5, True, list[_Block]()
    address = BASE
    for number in range(blocks):
        after = not mixed or number + 2 >= blocks or draw.random() < 0.5  # the last one is T32
        block = _Block(thumb, _thumb_body(draw, after != thumb, mixed) if thumb else _arm_body(draw, after != thumb))
        address += -address % 4 if not thumb else 0
        block.start = address
        address += sum(len(data) for data, _, _ in block.body)
        made.append(block)
        thumb = after
    steps, image = dict[int, Step](), bytearray()
    for block in made:
        image += bytes(block.start - BASE - len(image))
        for data, kind, conditional in block.body:
            step = Step(BASE + len(image), data, kind, conditional, thumb=block.thumb)
            if kind in ("direct", "link", "zero", "interwork"):
                _aim(draw, step, made)
            steps[step.address] = step
            image += step.data
    end = BASE + len(image)
    steps[end] = Step(end, b"\x70\x47", "indirect")
    image += b"\x70\x47" + b"\x00\xbf" * 4
    return Program(steps, [block.start for block in made], bytes(image))


def _thumb_body(draw: random.Random, turns: bool, mixed: bool) -> list[tuple[bytes, str, bool]]:
    """Draw instructions of T32 (data, kind, whether conditional). ``turns``: the code that follows is A32."""
    body: list[tuple[bytes, str, bool]] = []
    for _ in range(draw.randint(1, 6)):
        if draw.random() < 0.15:
            body.append((b"\x08\xbf", "it", False))  # it eq
            body.append((draw.choice(_PLAIN), "plain", True))
        else:
            body.append((draw.choice(_PLAIN), "plain", False))
    ends = [("direct", False), ("indirect", False)]
    if not turns:  # nothing returns to behind the block, or goes on there
        ends += [("direct", True), ("zero", True), ("link", False)] + [("interwork", False)] * mixed
    kind, conditional = draw.choice(ends)
    return [*body, (draw.choice(_INDIRECT) if kind == "indirect" else bytes(_SIZES[kind]), kind, conditional)]


def _arm_body(draw: random.Random, turns: bool) -> list[tuple[bytes, str, bool]]:
    """Draw instructions of A32. ``turns``: the code that follows is T32."""
    words = [draw.choice(_ARM_PLAIN) for _ in range(draw.randint(1, 6))]
    body = [(word.to_bytes(4, "little"), "plain", word >> 28 < 14) for word in words]
    kind = draw.choice(["direct", "indirect", *(() if turns else ("link", "interwork"))])
    if kind == "indirect":
        word = draw.choice(_ARM_INDIRECT[:3] if turns else _ARM_INDIRECT)
        return [*body, (word.to_bytes(4, "little"), kind, word >> 28 < 14)]
    return [*body, (bytes(4), kind, kind == "direct" and not turns and draw.random() < 0.5)]


def _aim(draw: random.Random, step: Step, blocks: list[_Block]) -> None:
    """Draw the target of a direct branch, and make its instruction."""
    others = [block.start for block in blocks if block.thumb != step.thumb]
    kind = step.kind if step.kind != "interwork" or others else "link"
    pc = step.address + (4 if step.thumb else 8)
    same = [block.start for block in blocks if block.thumb == step.thumb]
    later = [start for start in same if 0 <= start - pc <= 126]
    kind = "direct" if kind == "zero" and not later else kind  # cbz goes forward only
    near = [start for start in same if abs(start - pc) < _REACH]
    step.target = draw.choice(others if kind == "interwork" else later if kind == "zero" else near)
    distance = step.target - (pc & ~3 if kind == "interwork" and step.thumb else pc)
    if not step.thumb:
        top = {"link": 0xEB, "interwork": 0xFA | distance >> 1 & 1, "direct": 0x0A if step.conditional else 0xEA}[kind]
        step.data = (top << 24 | distance >> 2 & 0xFFFFFF).to_bytes(4, "little")
    elif kind == "zero":
        step.data = (0xB100 | (distance >> 6) << 9 | (distance >> 1 & 31) << 3).to_bytes(2, "little")  # cbz r0
    elif kind in ("link", "interwork"):
        high, low = 0xF000 | distance >> 12 & 0x7FF, (0xF800 if kind == "link" else 0xE800) | distance >> 1 & 0x7FF
        step.data = high.to_bytes(2, "little") + low.to_bytes(2, "little")
    elif step.conditional:
        step.data = (0xD000 | distance >> 1 & 0xFF).to_bytes(2, "little")
    else:
        step.data = (0xE000 | distance >> 1 & 0x7FF).to_bytes(2, "little")
    step.kind, step.calls = "direct", kind in ("link", "interwork")


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
    done.trace += ALIGNMENT + sync(address, thumb=code.thumb(address), reason=1, cycles=5)
    time, pending, in_block = 1000, 0, False

    def send(target: int) -> None:
        nonlocal base
        thumb = code.thumb(target)
        different, more = base ^ target, not thumb
        sizes = (size for size, bits in ((1, 7), (2, 14), (3, 21), (4, 28)) if not different >> bits + more)
        size = next(sizes, 5) if code.thumb(base) == thumb else 5
        done.trace.extend(branch(target, thumb=thumb, size=size))
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
            if code.thumb(address) != step.thumb:  # the unit tells each change of the instruction set
                send(address)
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
            done.trace += sync(address, thumb=code.thumb(address))
            base = address
        elif chance < 0.07:
            cancel = chance < 0.06 and step.kind == "plain"
            if cancel:
                pending = done.executed.pop()[2]
            address = draw.choice(code.starts)
            done.trace += branch(address, thumb=code.thumb(address), exception=14, cancel=cancel)
            base = address
        elif chance < 0.08:
            length_off = draw.randint(1, 5000)
            address = draw.choice(code.starts)
            done.trace += sync(address, thumb=code.thumb(address), reason=1, cycles=length_off)
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
