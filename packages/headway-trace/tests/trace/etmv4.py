"""An ETMv4 unit in Python, for tests: writes packets, and the trace of an A64 program that it runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from headway_trace._program import InstructionTable as Listing
from headway_trace.code import Code
from headway_trace.etmv4 import Setting

from .encoding import number

ALIGNMENT = bytes(11) + b"\x80"
START = ALIGNMENT + b"\x01\x00"
"""An A-sync, and a trace info without content."""
ON = b"\x04"
BASE = 0xFFFFFFC000081000


def atoms(executed: Sequence[bool]) -> bytes:
    """One to three atoms, the oldest first."""
    bits = sum(one << at for at, one in enumerate(executed))
    return bytes([{1: 0xF6, 2: 0xD8, 3: 0xF8}[len(executed)] | bits])


def long_address(address: int, *, thumb: bool = False, wide: bool = True) -> bytes:
    low = [address >> 1 & 0x7F, address >> 8 & 0xFF] if thumb else [address >> 2 & 0x7F, address >> 9 & 0x7F]
    size = 8 if wide else 4
    return bytes([(0x9D if wide else 0x9A) + thumb, *low]) + (address >> 16).to_bytes(6, "little")[: size - 2]


def short_address(address: int) -> bytes:
    return bytes([0x95, address >> 2 & 0x7F | 0x80, address >> 9 & 0xFF])


def context(*, thread: int | None = None, wide: bool = True) -> bytes:
    info = 1 | (0x10 if wide else 0) | (0x80 if thread is not None else 0)
    return bytes([0x81, info]) + (b"" if thread is None else thread.to_bytes(4, "little"))


def exception(kind: int, back: int) -> bytes:
    return bytes([0x06, kind << 1 | 1]) + long_address(back)


def timestamp(time: int) -> bytes:
    return b"\x02" + bytes(time >> 7 * at & 0x7F | 0x80 for at in range(8)) + bytes([time >> 56])


def commit(count: int) -> bytes:
    return b"\x2d" + number(count)


def cancel(count: int, *, mispredict: bool = False) -> bytes:
    return bytes([0x2E + mispredict]) + number(count)


MISPREDICT = b"\x30"


@dataclass
class Program:
    """Instructions of four bytes, each with what it is: plain, branch, cond, call, indirect, return."""

    kinds: list[str]
    targets: list[int]
    image: bytes

    def read(self, address: int, size: int) -> bytes:
        offset = address - BASE
        return self.image[offset : offset + size] if 0 <= offset < len(self.image) else b""

    def table(self) -> Listing:
        return Listing(Code(self.read).look, [(BASE, BASE + len(self.image))])


def program(draw: random.Random, size: int = 80) -> Program:
    kinds, targets, image = list[str](), list[int](), bytearray()
    words = {
        "plain": (0xD503201F, 0x91000421, 0xF9400020, 0xB9000020),
        "barrier": (0xD5033FDF,),
        "indirect": (0xD61F0200, 0xD61F0220),
        "return": (0xD65F03C0,),
        "icall": (0xD63F0200,),
    }
    choices = ["plain"] * 6 + [
        "branch",
        "cond",
        "cond",
        "zero",
        "bit",
        "call",
        "barrier",
        "indirect",
        "return",
        "icall",
    ]
    for at in range(size):
        kind = draw.choice(choices) if at < size - 1 else "return"
        target = draw.randrange(size)
        distance = target - at
        if kind == "branch":
            word = 0x14000000 | distance & 0x3FFFFFF
        elif kind == "call":
            word = 0x94000000 | distance & 0x3FFFFFF
        elif kind == "cond":
            word = 0x54000000 | (distance & 0x7FFFF) << 5 | draw.choice((0, 0x10))
        elif kind == "zero":
            word = draw.choice((0x34000001, 0xB5000002)) | (distance & 0x7FFFF) << 5
        elif kind == "bit":
            word = draw.choice((0x36000001, 0x37080002)) | (distance & 0x3FFF) << 5
        else:
            word = draw.choice(words[kind])
        kinds.append(kind)
        targets.append(target)
        image += word.to_bytes(4, "little")
    return Program(kinds, targets, bytes(image))


@dataclass
class Run:
    """What was executed (address, whether its condition was true), and the trace of it."""

    executed: list[tuple[int, bool]] = field(default_factory=list)
    trace: bytearray = field(default_factory=bytearray)
    exceptions: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)


def run(code: Program, draw: random.Random, setting: Setting, length: int = 300) -> Run:
    """Executes and traces, with speculation as the setting allows it."""
    done, at, size = Run(), draw.randrange(len(code.kinds)), len(code.kinds)
    calls, open_, time = list[int](), 0, 1000

    def go(to: int) -> None:
        done.trace.extend(long_address(BASE + 4 * to) if draw.random() < 0.5 else short_address(BASE + 4 * to))

    def restart() -> None:
        nonlocal open_
        done.trace.extend(commit(open_) if open_ else b"")
        open_ = 0
        calls.clear()
        thread = draw.randrange(1 << 32)
        done.trace.extend(ON + context(thread=thread) + long_address(BASE + 4 * at))

    def element(data: bytes) -> None:
        """An element to commit: those that may be speculative are committed now or later."""
        nonlocal open_
        done.trace.extend(data)
        open_ += setting.deepest > 0
        if open_ and (open_ == setting.deepest or draw.random() < 0.3):
            done.trace.extend(commit(open_))
            open_ = 0

    def astray() -> None:
        """Trace what is taken back again."""
        room = setting.deepest - open_
        wrong = draw.randrange(1, min(room, 5) + 1)
        done.trace.extend(b"".join(atoms([draw.random() < 0.5]) for _ in range(wrong)) + cancel(wrong))

    done.trace += START
    restart()
    while len(done.executed) < length:
        kind, target, address = code.kinds[at], code.targets[at], BASE + 4 * at
        if setting.deepest - open_ > 1 and draw.random() < 0.1:
            astray()
        taken = draw.random() < 0.5 if kind in ("cond", "zero", "bit") else True
        done.executed.append((address, taken))
        at += 1
        if kind != "plain":
            if kind in ("cond", "zero", "bit") and setting.deepest - open_ > 1 and draw.random() < 0.2:
                done.trace += atoms([not taken]) + MISPREDICT
                open_ += 1
            else:
                element(atoms([taken]))
            if kind in ("branch", "call", "cond", "zero", "bit") and taken:
                calls += [at] if kind == "call" else []
                at = target
            elif kind in ("indirect", "return", "icall"):
                back = at
                at = draw.randrange(size)
                if setting.return_stack and calls and draw.random() < 0.5:
                    at = calls.pop()
                else:
                    go(at)
                calls += [back] if kind == "icall" else []
            del calls[:-16]
        if at == size:
            at = 0
            restart()
        chance = draw.random()
        if chance < 0.03:
            time += draw.randint(1, 1000)
            done.trace += timestamp(time)
            done.times.append(time)
        elif chance < 0.06:
            number_ = draw.choice((1, 2, 14))
            element(exception(number_, BASE + 4 * at))
            done.exceptions.append(number_)
            at = draw.randrange(size)
            go(at)
        elif chance < 0.08 and kind != "plain" and kind not in ("indirect", "return", "icall"):
            done.trace += long_address(BASE + 4 * at)  # as after an A-sync
        elif chance < 0.09 and kind == "barrier":
            at = draw.randrange(size)
            restart()
    if kind == "plain":
        element(exception(3, BASE + 4 * at))
        done.exceptions.append(3)
    done.trace += commit(open_) if open_ else b""
    return done
