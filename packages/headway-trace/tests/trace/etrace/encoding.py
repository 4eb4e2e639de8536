"""Packets of E-Trace, written field by field as the specification's tables have them."""

from __future__ import annotations

from headway_trace.etrace.parameters import EtraceParameters

__all__ = ["context", "jump_index", "packet", "predicted", "report", "start", "support", "trap"]

Field = tuple[int, int]
"""A value, and its bits."""


def packet(*fields: Field, source: int | None = None, stamp: bytes = b"") -> bytes:
    """An encapsulated packet, shortened; ``source``: of 8 bits."""
    value = bits = 0
    for field, width in fields:
        value |= (field & (1 << width) - 1) << bits
        bits += width
    last = value >> bits - 1 & 1
    kept = bits
    while kept > 1 and value >> kept - 2 & 1 == last:
        kept -= 1
    size = (kept + 7) // 8
    if last:
        value |= ~0 << bits
    head = bytes([size | (0x80 if stamp else 0)])
    own = b"" if source is None else bytes([source])
    return head + own + stamp + (value & (1 << 8 * size) - 1).to_bytes(size, "little")


def support(p: EtraceParameters, options: int = 0, *, enabled: bool = True, status: int = 0) -> list[Field]:
    return [(0xF, 4), (enabled, 1), (0, 1), (status, 2), (options, len(p.ioptions)), (0, 6)]


def _place(p: EtraceParameters, privilege: int, time: int, number: int) -> list[Field]:
    times = [] if p.notime else [(time, p.time_width)]
    contexts = [] if p.nocontext else [(number, p.context_width)]
    return [(privilege, p.privilege_width), *times, *contexts]


def start(
    p: EtraceParameters, address: int, *, taken: bool = False, privilege: int = 3, time: int = 0, number: int = 0
) -> list[Field]:
    where = (address >> p.iaddress_lsb, p.iaddress_width - p.iaddress_lsb)
    return [(3, 4), (not taken, 1), *_place(p, privilege, time, number), where]


def trap(
    p: EtraceParameters,
    address: int | None,
    *,
    cause: int = 2,
    interrupt: bool = False,
    handler: bool = True,
    privilege: int = 3,
    time: int = 0,
    number: int = 0,
) -> list[Field]:
    where = [] if address is None else [(address >> p.iaddress_lsb, p.iaddress_width - p.iaddress_lsb)]
    value = [] if interrupt else [(0, p.iaddress_width)]
    head: list[Field] = [(7, 4), (1, 1), *_place(p, privilege, time, number)]
    return [*head, (cause, p.ecause_width), (interrupt, 1), (handler, 1), *where, *value]


def context(p: EtraceParameters, *, privilege: int = 3, time: int = 0, number: int = 0) -> list[Field]:
    return [(11, 4), *_place(p, privilege, time, number)]


def report(
    p: EtraceParameters,
    difference: int | None,
    outcomes: str = "",
    *,
    notify: bool = False,
    updiscon: bool = False,
    depth: int | None = None,
) -> list[Field]:
    """Format 1 or 2; ``outcomes``: a letter for each branch, ``t`` if it was taken; without an address 31 of them."""
    branches = len(outcomes)
    bitmap = sum((letter != "t") << place for place, letter in enumerate(outcomes))
    if difference is None:
        assert branches == 31
        return [(1, 2), (0, 5), (bitmap, 31)]
    head: list[Field] = [(2, 2)] if not branches else [(1, 2), (branches, 5), (bitmap, _map_bits(branches))]
    return [*head, *_address(p, difference, notify=notify, updiscon=updiscon, depth=depth)]


def predicted(
    p: EtraceParameters, count: int, difference: int | None = None, *, failed: bool = False, updiscon: bool = False
) -> list[Field]:
    """Format 0, subformat 0."""
    head: list[Field] = [(0, 2), (0, p.f0s_width), (count - 31, 32)]
    if difference is None:
        return [*head, (0, 2)]
    return [*head, (3 if failed else 2, 2), *_address(p, difference, updiscon=updiscon)]


def jump_index(p: EtraceParameters, index: int, outcomes: str = "") -> list[Field]:
    """Format 0, subformat 1."""
    branches = len(outcomes)
    bitmap = sum((letter != "t") << place for place, letter in enumerate(outcomes))
    bits = _map_bits(branches)
    last = bitmap >> bits - 1 if bits else 0
    head: list[Field] = [(0, 2), (1, p.f0s_width), (index, p.cache_size), (branches, 5), (bitmap, bits)]
    return [*head, (last, 1), (-last, p.irdepth_width)]


def _map_bits(branches: int) -> int:
    return next(bits for bits in (0, 1, 3, 7, 15, 31) if branches <= bits)


def _address(
    p: EtraceParameters, difference: int, *, notify: bool = False, updiscon: bool = False, depth: int | None = None
) -> list[Field]:
    bits = p.iaddress_width - p.iaddress_lsb
    value = difference >> p.iaddress_lsb & (1 << bits) - 1
    one = value >> bits - 1 ^ notify
    two = one ^ updiscon
    reported = depth is not None
    rest = (depth, p.irdepth_width) if depth is not None else (-two, p.irdepth_width)
    return [(value, bits), (one, 1), (two, 1), (two ^ reported, 1), rest]
