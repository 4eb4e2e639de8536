"""A PTM unit in Python, for tests: writes packets, and the trace of a program that it runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from headway_trace._program import InstructionTable as Listing
from headway_trace.ptm import Setting
from headway_trace.records import Gap, Instruction, Record

from .encoding import ALIGNMENT
from .programs import Program, listing


def count(cycles: int | None) -> bytes:
    """A cycle count after an address or a time; None: there is none."""
    if cycles is None:
        return b""
    found = bytearray([(cycles & 15) << 2])
    rest, mark = cycles >> 4, 0x40
    while rest:
        found[-1] |= mark
        found.append(rest & 0x7F)
        rest, mark = rest >> 7, 0x80
    return bytes(found)


def atom(executed: bool, cycles: int) -> bytes:
    """One waypoint of a unit that counts cycles."""
    found = bytearray(count(cycles))
    found[0] |= 0x80 | (not executed) << 1
    return bytes(found)


def atoms(executed: Sequence[bool]) -> bytes:
    """One to five waypoints of a unit that counts no cycles, the oldest first."""
    bits = 1
    for one in executed:
        bits = bits << 1 | (not one)
    mark = {1: 0x84, 2: 0x88, 3: 0x90, 4: 0xA0, 5: 0xC0}[len(executed)]
    return bytes([mark | (bits & (1 << len(executed)) - 1) << 1])


def sync(
    address: int, *, thumb: bool = True, cycles: int | None = None, reason: int = 0, context: bytes = b""
) -> bytes:
    info = reason << 5 | 1
    return b"\x08" + (address | thumb).to_bytes(4, "little") + bytes([info]) + count(cycles) + context


def _place(address: int, thumb: bool, size: int, information: bool) -> bytearray:
    bits = address >> (1 if thumb else 2)
    found = bytearray([bits << 1 & 0x7E | 1])
    bits >>= 6
    for at in range(1, min(size, 4)):
        last = at == size - 1
        found[-1] |= 0x80
        found.append(bits & (0x3F if last else 0x7F) | (0x40 if last and information else 0))
        bits >>= 7
    if size == 5:
        found[-1] |= 0x80
        found.append((bits & 15 | 0x10 if thumb else bits & 7 | 0x08) | (0x40 if information else 0))
    return found


def branch(
    address: int, *, thumb: bool = True, size: int = 5, exception: int | None = None, cycles: int | None = None
) -> bytes:
    found = _place(address, thumb, size, exception is not None)
    if exception is not None:
        found.append((exception & 15) << 1 | (0x80 if exception > 15 else 0))
        if exception > 15:
            found.append(exception >> 4)
    return bytes(found) + count(cycles)


def update(address: int, *, thumb: bool = True, size: int = 5) -> bytes:
    return b"\x72" + bytes(_place(address, thumb, size, information=False))


def timestamp(time: int, size: int = 9, *, cycles: int | None = None) -> bytes:
    found = bytearray(b"\x42")
    for at in range(size):
        if at == 8:
            found.append(time >> 56 & 0xFF)
        else:
            found.append(time >> 7 * at & 0x7F | (0x80 if at + 1 < size else 0))
    return bytes(found) + count(cycles)


def size_of(before: int, after: int, thumb: bool = True) -> int:
    """How many bytes an address needs after another."""
    different = before ^ after
    for size, bits in ((1, 7), (2, 13), (3, 20), (4, 27)):
        if not different >> bits + (not thumb):
            return size
    return 5


@dataclass
class Run:
    """What was executed (address, whether its condition was true, cycles), and the trace of it."""

    executed: list[tuple[int, bool | None, int]] = field(default_factory=list)
    trace: bytearray = field(default_factory=bytearray)
    gaps: list[int | None] = field(default_factory=list)
    exceptions: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)


def run(code: Program, draw: random.Random, setting: Setting, length: int = 300) -> Run:
    """Executes and traces, with synchronisations, exceptions, trace off and on, and timestamps in between."""
    done, address, counts = Run(), draw.choice(code.starts), setting.cycle_accurate
    base, since, pending = address, list[int](), 0
    calls, waiting = list[int](), list[bool]()
    time = 1000

    def ticks() -> int | None:
        return draw.choice((0, 1, 1, 2, 15, 16, 300)) if counts else None

    def size(to: int) -> int:
        """How many bytes of an address are needed after that of the last packet."""
        return size_of(base, to, code.thumb(to)) if code.thumb(base) == code.thumb(to) else 5

    def flush() -> None:
        if waiting:
            done.trace.extend(atoms(waiting))
            waiting.clear()

    def settle() -> None:
        """Tell what was executed since the last waypoint."""
        nonlocal base
        flush()
        if since:
            done.trace.extend(update(since[-1], thumb=code.thumb(since[-1]), size=size(since[-1])))
            base = since[-1]
            since.clear()

    def restart(to: int) -> None:
        nonlocal base, address, pending
        settle()
        cycles = draw.randint(1, 5000) if counts else None
        done.trace.extend(sync(to, thumb=code.thumb(to), reason=1, cycles=cycles))
        done.gaps.append(None if cycles is None else cycles + pending)
        base, address, pending = to, to, 0
        calls.clear()

    done.trace += ALIGNMENT + sync(address, thumb=code.thumb(address), reason=1, cycles=5 if counts else None)
    while len(done.executed) < length:
        step = code.steps[address]
        executed = not step.conditional or draw.random() < 0.5
        after = address + len(step.data)
        if step.kind in ("plain", "it"):
            done.executed.append((address, None if step.conditional else True, 0))
            since.append(address)
            address = after
        else:
            cycles = ticks()
            done.executed.append((address, executed, (cycles or 0) + pending))
            since.clear()
            pending = 0
            if executed and step.kind == "indirect":
                address = draw.choice(code.starts)
                if setting.return_stack and calls and draw.random() < 0.6:
                    address = calls[-1]
                if setting.return_stack and calls and address == calls[-1]:
                    calls.pop()
                    done.trace += atom(True, cycles) if cycles is not None else b""
                    waiting += [True] if cycles is None else []
                else:
                    flush()
                    done.trace += branch(address, thumb=code.thumb(address), size=size(address), cycles=cycles)
                    base = address
            else:
                if executed and step.kind == "direct":
                    if step.calls:
                        calls.append(after)
                        del calls[:-16]
                    address = step.target
                else:
                    address = after
                done.trace += atom(executed, cycles) if cycles is not None else b""
                waiting += [executed] if cycles is None else []
            if len(waiting) == 5:
                flush()
        chance = draw.random()
        if chance < 0.03:
            flush()
            time += draw.randint(1, 1000)
            cycles = ticks()
            done.trace += timestamp(time, cycles=cycles)
            done.times.append(time)
            pending += cycles or 0
        elif step.kind == "it":
            continue
        elif chance < 0.05 and not since:
            flush()
            done.trace += sync(address, thumb=code.thumb(address))
            base = address
            calls.clear()
        elif chance < 0.07:
            settle()
            address, number, cycles = draw.choice(code.starts), draw.choice((1, 14, 15, 21)), ticks()
            done.trace += branch(address, thumb=code.thumb(address), exception=number, cycles=cycles)
            done.exceptions.append(number)
            pending += cycles or 0
            base = address
        elif chance < 0.08:
            restart(draw.choice(code.starts))
        elif chance < 0.09:
            flush()
            done.trace += ALIGNMENT
    settle()
    return done


def decode(
    code: Program, trace: bytes, *cuts: int, setting: Setting, known: Listing | None = None, lost: bool = False
) -> list[Record]:
    parser, flow = setting.parser(), setting.flow(known or listing(code))
    found: list[Record] = []
    edges = [0, *sorted(cut % (len(trace) + 1) for cut in cuts), len(trace)]
    for start, end in pairwise(edges):
        found += flow.feed(parser.feed(trace[start:end]))
        while flow.waiting:
            found += flow.more()
        if lost and end < len(trace):
            found += flow.feed(parser.lost())
            flow.lost(end)
    found += flow.feed(parser.finish())
    while flow.waiting:
        found += flow.more()
    found += flow.finish()
    return found


def instructions(records: list[Record]) -> list[tuple[int, bool | None, int | None]]:
    return [(one.address, one.executed, one.cycles) for one in records if isinstance(one, Instruction)]


def gaps(records: list[Record]) -> list[Gap]:
    return [one for one in records if isinstance(one, Gap)]
