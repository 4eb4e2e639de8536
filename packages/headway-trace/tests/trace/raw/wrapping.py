"""Traces of every protocol that the tests can write, and what a probe makes of them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from tests.trace import etmv4, programs, ptm
from tests.trace.encoding import frames
from tests.trace.itm import encoding as itm

from headway_trace import etmv4 as etmv4_setting
from headway_trace import ptm as ptm_setting

RUNS = 4
"""How often a trace synchronises at least."""


@dataclass(frozen=True, slots=True)
class Made:
    """A trace of one source: its protocol, its bytes, where what ran is in memory, and the addresses of what ran."""

    protocol: str
    data: bytes
    base: int = 0
    image: bytes = b""
    executed: tuple[int, ...] = ()
    cycles: bool = False


def made(draw: random.Random, protocol: str) -> Made:
    """Return a trace of a protocol."""
    if protocol == "ITM":
        return Made(protocol, b"".join(itm.packets(draw) for _ in range(RUNS)))
    if protocol == "ETMv3":
        code = programs.program(draw)
        runs = [programs.run(code, draw) for _ in range(RUNS)]
        executed = tuple(address for run in runs for address, *_ in run.executed)
        return Made(protocol, b"".join(run.trace for run in runs), programs.BASE, code.image, executed, True)
    if protocol == "PTM":
        code, setting = programs.program(draw), ptm_setting.Setting(cycle_accurate=draw.random() < 0.5)
        found = [ptm.run(code, draw, setting) for _ in range(RUNS)]
        executed = tuple(address for run in found for address, *_ in run.executed)
        data = b"".join(run.trace for run in found)
        return Made(protocol, data, programs.BASE, code.image, executed, setting.cycle_accurate)
    a64 = etmv4.program(draw)
    traced = [etmv4.run(a64, draw, etmv4_setting.Setting(threads=True)) for _ in range(RUNS)]
    executed = tuple(address for run in traced for address, _ in run.executed)
    return Made(protocol, b"".join(run.trace for run in traced), etmv4.BASE, a64.image, executed)


def framed(draw: random.Random, streams: Mapping[int, bytes]) -> bytes:
    """Return frames in which the streams take turns."""
    left, pieces = dict(streams), list[tuple[int, bytes]]()
    while left:
        which = draw.choice(list(left))
        size = draw.randint(1, 60)
        pieces.append((which, left[which][:size]))
        left[which] = left[which][size:]
        if not left[which]:
            del left[which]
    return frames(pieces)


def port(draw: random.Random, data: bytes) -> bytes:
    """Return frames as a trace port sends them: with full and half synchronisation packets in between."""
    out = bytearray()
    for at in range(0, len(data), 16):
        if not at // 16 % 16:
            out += b"\xff\xff\xff\x7f"
        for half in range(at, at + 16, 2):
            out += b"\xff\x7f" * (draw.random() < 0.05) + data[half : half + 2]
    return bytes(out)


def orbflow(draw: random.Random, streams: Mapping[int, bytes]) -> bytes:
    """Return messages in COBS frames in which the streams take turns."""
    left, out = dict(streams), bytearray()
    while left:
        which = draw.choice(list(left))
        size = draw.randint(1, 600)
        message = bytes([which]) + left[which][:size]
        out += cobs(message + bytes([-sum(message) & 0xFF])) + b"\0"
        left[which] = left[which][size:]
        if not left[which]:
            del left[which]
    return bytes(out)


def cobs(data: bytes) -> bytes:
    """Return data without bytes 0, in blocks that begin with their length."""
    out = bytearray()
    for part in data.split(b"\0"):
        while len(part) >= 254:
            out += b"\xff" + part[:254]
            part = part[254:]
        out += bytes([len(part) + 1]) + part
    return bytes(out)
