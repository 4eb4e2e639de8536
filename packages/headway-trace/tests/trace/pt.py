"""An encoder of Intel PT packets, and programs for it whose way is known.

Packets are those of the Software Developer's Manual, volume 3, chapter "Intel Processor Trace".
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

PSB = b"\x02\x82" * 8
PSBEND = b"\x02\x23"
OVF = b"\x02\xf3"


def mode(wide: bool = True) -> bytes:
    return bytes([0x99, 1 if wide else 2])


def transaction(going: bool, aborted: bool = False) -> bytes:
    """A packet MODE.TSX."""
    return bytes([0x99, 0x20 | going | aborted << 1])


def tsc(ticks: int) -> bytes:
    return b"\x19" + ticks.to_bytes(7, "little")


def mtc(count: int) -> bytes:
    return bytes([0x59, count & 0xFF])


def tma(ctc: int, fast: int) -> bytes:
    return b"\x02\x73" + struct.pack("<HBH", ctc & 0xFFFF, 0, fast & 0x1FF)


def cbr(ratio: int) -> bytes:
    return bytes([0x02, 0x03, ratio, 0])


def cyc(cycles: int) -> bytes:
    data = bytearray([3 | (cycles & 31) << 3])
    cycles >>= 5
    if cycles:
        data[0] |= 4
    while cycles:
        data.append((cycles & 127) << 1 | (cycles >> 7 > 0))
        cycles >>= 7
    return bytes(data)


def ip(opcode: int, address: int | None) -> bytes:
    """A packet with a whole address, or (None) without one."""
    return bytes([opcode]) if address is None else bytes([opcode | 6 << 5]) + address.to_bytes(8, "little")


def fup(address: int) -> bytes:
    return ip(0x1D, address)


def tip(address: int) -> bytes:
    return ip(0x0D, address)


def enable(address: int) -> bytes:
    return ip(0x11, address)


def disable(address: int | None = None) -> bytes:
    return ip(0x01, address)


def tnt(taken: list[bool]) -> bytes:
    """Up to six branches in a short packet; more are several packets."""
    out = bytearray()
    for at in range(0, len(taken), 6):
        some = taken[at : at + 6]
        bits = 1
        for one in some:
            bits = bits << 1 | one
        out.append(bits << 1)
    return bytes(out)


def synchronisation(address: int | None, ticks: int | None = None) -> bytes:
    """PSB+; without an address while tracing is disabled."""
    time = b"" if ticks is None else tsc(ticks)
    place = b"" if address is None else fup(address)
    return PSB + time + mode() + place + PSBEND


@dataclass
class Program:
    """Basic blocks of x86-64 code one after the other: (kind, targets), with the addresses of their instructions."""

    base: int
    code: bytes = b""
    instructions: list[list[tuple[int, int]]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


_PLAIN = (b"\x90", b"\x48\x89\xc3", b"\x0f\x1f\x40\x00", b"\xb8\x01\x00\x00\x00", b"\x66\x0f\x1f\x44\x00\x00")
_SIZES = {"jcc": 6, "jmp": 5, "call": 5, "ret": 1, "indirect": 2, "through": 1}


def program(seed: int, blocks: int = 12, base: int = 0x400000) -> Program:
    """A program of random blocks. A call goes to a block; a return goes where the encoder's stack says."""
    chance = random.Random(seed)
    made = Program(base)
    bodies = [[chance.choice(_PLAIN) for _ in range(chance.randint(0, 4))] for _ in range(blocks)]
    made.kinds = [chance.choice(["jcc", "jcc", "jmp", "call", "ret", "indirect", "through"]) for _ in range(blocks)]
    made.kinds[-1] = "jmp"
    made.targets = [chance.randrange(blocks) for _ in range(blocks)]
    at = base
    for body, kind in zip(bodies, made.kinds, strict=True):
        made.starts.append(at)
        at += sum(map(len, body)) + _SIZES[kind]
    out = bytearray()
    for number, (body, kind) in enumerate(zip(bodies, made.kinds, strict=True)):
        places = []
        for one in body:
            places.append((base + len(out), len(one)))
            out += one
        here = base + len(out)
        places.append((here, _SIZES[kind]))
        distance = (made.starts[made.targets[number]] - here - _SIZES[kind]) & 0xFFFFFFFF
        near = struct.pack("<I", distance)
        out += {
            "jcc": b"\x0f\x85" + near, "jmp": b"\xe9" + near, "call": b"\xe8" + near, "ret": b"\xc3",
            "indirect": b"\xff\xe0", "through": b"\x90",
        }[kind]  # fmt: skip
        made.instructions.append(places)
    made.code = bytes(out)
    return made


class Walk:
    """A way through a program, and the packets of it. Returns are not compressed."""

    def __init__(self, program: Program, seed: int) -> None:
        self.program, self.chance = program, random.Random(seed)
        self.block = 0
        self.executed: list[tuple[int, int]] = []
        self.out = bytearray()
        self._taken: list[bool] = []

    @property
    def address(self) -> int:
        return self.program.starts[self.block]

    def flush(self) -> None:
        self.out += tnt(self._taken)
        self._taken = []

    def begin(self, ticks: int | None = None) -> None:
        self.flush()
        self.out += synchronisation(self.address, ticks)

    def put(self, data: bytes) -> None:
        self.flush()
        self.out += data

    def go(self, blocks: int) -> None:
        """Execute so many blocks. Afterwards nothing but packets tells where the program goes on."""
        made = self.program
        for _ in range(blocks):
            self.executed += made.instructions[self.block]
            kind, target = made.kinds[self.block], made.targets[self.block]
            if kind == "jcc":
                taken = self.chance.random() < 0.6
                self._taken.append(taken)
                self.block = target if taken else self.block + 1
            elif kind in ("jmp", "call"):
                self.block = target
            elif kind == "through":
                self.block += 1
            else:
                self.block = self.chance.randrange(len(made.kinds))
                self.put(tip(self.address))

    def until_a_packet(self) -> None:
        """Execute on to the next branch that needs a packet, so that a decoder that comes here stops here too."""
        while self.program.kinds[self.block] in ("jmp", "call", "through"):
            if len(self.executed) > 1 << 20:
                raise ValueError("the program never branches")
            self.go(1)
        self.go(1)
