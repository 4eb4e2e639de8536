"""The protocol of a stream, and the setting of its trace unit, by how the stream reads with each.

A setting is scored by the bytes of the stretches between synchronisations that are all packets. Of settings that read
a stream equally well the first is taken. `SEARCHED` has what is tried of each protocol; what decides only how packets
are followed through a program is found by `opening`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

from .. import etmv3, etmv4, ptm
from .._packets import Packets
from ..itm import packets as itm
from ..packets import PacketKind
from ..snapshot import Setting
from ._evidence import evidence_of
from .evidence import Evidence
from .told import PROTOCOLS

__all__ = ["DEPENDS", "Found", "recognise", "set_by"]

_MOST, _SEARCHED = 1 << 18, 1 << 15
"""The number of bytes of a stream that are looked at, and of those with which all settings are tried."""
_ALIGNMENT = bytes(5) + b"\x80"
_MARGIN, _STRETCHES = 0.25, 3
"""What a better setting has more of clean bytes, as a share of them, or in stretches."""
_LEAST_SHARE = 0.3
_LEAST_PACKETS = 4
_ITM_PACKETS, _ITM_HEADERS = 32, 16
"""Packets that an ITM without synchronisation packets has at least, and different first bytes of them at most."""

_Fields = Sequence[tuple[str, Sequence[Any]]]
SEARCHED: Mapping[str, _Fields] = {
    "ETMv3": (
        ("alternative_branches", (False, True)),
        ("timestamp_bits", (64, 48)),
        ("data_values", (False, True)),
        ("data_addresses", (False, True)),
        ("deprecated_branches", (False, True)),
    ),
    "PTM": (("timestamp_bits", (64, 48)),),
    "ETMv4": (
        ("thread_bytes", (4, 0)),
        ("machine_bytes", (1, 2, 4, 0)),
        ("conditions", (False, True)),
        ("quotas", (False, True)),
        ("commits", (False, True)),
        ("data", (False, True)),
    ),
    "ITM": (),
}
"""The fields of each protocol's setting that are tried one after the other, with their values."""
_PAIRS: _Fields = (("context_bytes", (0, 4, 1, 2)), ("cycle_accurate", (True, False)))
"""Fields of ETMv3 and PTM, all of whose combinations are tried."""
DEPENDS: Mapping[str, Sequence[str]] = {
    "ETMCR": ("cycle_accurate", "context_bytes", "data_values", "data_addresses", "branch_broadcast", "return_stack"),
    "ETMIDR": ("alternative_branches", "deprecated_branches", "counted_through_overflow"),
    "ETMCCER": ("timestamp_bits", "virtual_machines", "gray_timestamps", "barriers", "return_stack"),
    "TRCCONFIGR": ("cycle_accurate", "threads", "branch_broadcast", "return_stack", "data"),
    "TRCIDR0": ("quotas", "commits", "transactions"),
    "TRCIDR1": ("version",),
    "TRCIDR2": ("machine_bytes", "thread_bytes", "waits"),
    "TRCIDR8": ("deepest",),
    "TRCDEVARCH": ("version",),
}
"""The fields of a setting that each register says."""


@dataclass(frozen=True, slots=True)
class Found:
    """A protocol with its setting, and what speaks for it. ``fixed``: the fields that registers say."""

    setting: Setting
    evidence: Evidence
    fixed: frozenset[str]

    @property
    def protocol(self) -> str:
        """The name of the protocol."""
        return self.setting.protocol

    @property
    def sure(self) -> bool:
        """Whether the bytes could hardly be of anything else."""
        found = self.evidence
        if not found.alignments:
            return self.protocol == "ITM"
        return found.share >= _LEAST_SHARE and found.packets >= _LEAST_PACKETS

    @property
    def speculates(self) -> bool:
        """Whether there are packets that commit or cancel elements, of ETMv4 or ETE."""
        return self.evidence.counts[PacketKind.COMMIT] + self.evidence.counts[PacketKind.CANCELLED] > 0

    @property
    def score(self) -> tuple[float, int]:
        """What the protocols of a stream are compared by."""
        found = self.evidence
        return (found.clean if found.alignments else found.size if self.sure else 0), -found.noise


def recognise(data: bytes, protocol: str | None, registers: Mapping[str, int]) -> Found | None:
    """Return the protocol of a stream by its beginning, or None. What the user says of it is taken as it is."""
    data = data[:_MOST]
    tried = [_best(data, one, registers) for one in (PROTOCOLS if protocol is None else (protocol,))]
    found = [one for one in tried if one is not None and (protocol is not None or one.sure)]
    return max(found, key=lambda one: one.score, default=None)


def _best(data: bytes, protocol: str, registers: Mapping[str, int]) -> Found | None:
    """Return the setting with which a stream reads best as one of a protocol; None: it is none for sure."""
    if protocol == "ITM":
        return _instrumentation(data)
    start, fixed = set_by(_first(protocol), registers)
    whole, data = data, data[max(data.find(_ALIGNMENT), 0) :][:_SEARCHED]
    best = start, _read(data, start)
    if not best[1].alignments:
        return Found(*best, fixed)
    grid = _PAIRS if protocol in ("ETMv3", "PTM") else ()
    best = _better(data, best, _combinations(start, [one for one in grid if one[0] not in fixed]))
    for name, values in SEARCHED["ETMv4" if protocol == "ETE" else protocol]:
        if name not in fixed:
            best = _better(data, best, [replace(best[0], **{name: value}) for value in values])
    setting, evidence = best[0], _read(whole, best[0])
    changes: dict[str, Any] = {}
    if isinstance(setting, etmv3.Setting):
        changes["cycle_accurate"] = _counts_cycles(whole, setting, evidence)
        if not evidence.counts[PacketKind.SYNC]:
            return None
    elif isinstance(setting, ptm.Setting):
        changes["gray_timestamps"] = _gray(data, setting)
        if not evidence.counts[PacketKind.SYNC]:
            return None
    elif isinstance(setting, etmv4.Setting):
        changes.update(_as_informed(data, setting))
    setting = replace(setting, **{name: value for name, value in changes.items() if name not in fixed})
    return Found(setting, evidence, fixed)


def _first(protocol: str) -> etmv3.Setting | ptm.Setting | etmv4.Setting:
    if protocol == "ETMv3":
        return etmv3.Setting()
    if protocol == "PTM":
        return ptm.Setting()
    return etmv4.Setting(version=0x46 if protocol == "ETMv4" else 0x53)


def set_by(
    setting: etmv3.Setting | ptm.Setting | etmv4.Setting, registers: Mapping[str, int]
) -> tuple[Any, frozenset[str]]:
    """Return a setting with what registers say of it, and the names of the fields that they say."""
    told: etmv3.Setting | ptm.Setting | etmv4.Setting
    if isinstance(setting, etmv4.Setting):
        architecture = registers.get("TRCDEVARCH") if setting.protocol == "ETE" else None
        config, *identities = (registers.get(name, 0) for name in ("TRCCONFIGR", "TRCIDR0", "TRCIDR1", "TRCIDR2"))
        told = etmv4.Setting.from_registers(
            config, identities[0], identities[1], identities[2], registers.get("TRCIDR8", 0), architecture
        )
    else:
        control, identity, extension = (registers.get(name, 0) for name in ("ETMCR", "ETMIDR", "ETMCCER"))
        told = type(setting).from_registers(control, identity, extension)
    fixed = frozenset(name for register in registers for name in DEPENDS[register] if hasattr(setting, name))
    return replace(setting, **{name: getattr(told, name) for name in fixed}), fixed


def _combinations(start: Any, fields: _Fields) -> Iterator[Any]:
    names = [name for name, _ in fields]
    for values in product(*(values for _, values in fields)):
        yield replace(start, **dict(zip(names, values, strict=True)))


def _better(data: bytes, best: tuple[Any, Evidence], others: Iterable[Any]) -> tuple[Any, Evidence]:
    """Return the best setting. Another is better only by more stretches than those that may be damaged.

    With a setting of which more bytes are packets, a damaged stretch may look clean.
    """
    for setting in others:
        found = _read(data, setting)
        stretch = found.size / max(found.alignments, 1)
        if found.clean > best[1].clean + min(best[1].clean * _MARGIN, stretch * _STRETCHES):
            best = setting, found
    return best


def _blocks(data: bytes, setting: Setting) -> list[Packets]:
    parser = setting.parser()
    return [parser.feed(data), parser.finish()]


def _read(data: bytes, setting: Setting) -> Evidence:
    return evidence_of(_blocks(data, setting), PacketKind.INFO if isinstance(setting, etmv4.Setting) else -1)


def _instrumentation(data: bytes) -> Found | None:
    """Return whether a stream is that of an ITM, which need not have synchronisation packets."""
    setting = itm.Setting()
    blocks = _blocks(data, setting)
    found = evidence_of(blocks, -1)
    if found.alignments:
        return Found(setting, found, frozenset())
    counts = [sum(one) for one in zip(*(block.counts() for block in blocks), strict=True)]
    packets = sum(counts[PacketKind.ALIGNMENT :])
    if found.noise or packets < _ITM_PACKETS or found.headers > _ITM_HEADERS:
        return None
    return Found(setting, found._replace(packets=packets, counts=counts), frozenset())


def _counts_cycles(data: bytes, setting: etmv3.Setting, found: Evidence) -> bool:
    """Return whether a stream of ETMv3 counts cycles: packets say so, or P-headers that there are only then."""
    if found.counted + found.counts[PacketKind.CYCLES]:
        return True
    other = _read(data, replace(setting, cycle_accurate=not setting.cycle_accurate))
    return setting.cycle_accurate and (other.clean, -other.noise) < (found.clean, -found.noise)


def _gray(data: bytes, setting: ptm.Setting) -> bool:
    """Return whether the timestamps of a stream go back less often if they are read as a Gray code."""
    back = []
    for gray in (False, True):
        times = [
            one.value
            for block in _blocks(data, replace(setting, gray_timestamps=gray))
            for one in block
            if one.kind == PacketKind.TIMESTAMP
        ]
        back.append(sum(later < time for time, later in pairwise(times)))
    return back[1] < back[0]


def _as_informed(data: bytes, setting: etmv4.Setting) -> dict[str, Any]:
    """Return what the trace infos and contexts of a stream say of the setting."""
    infos, threads = list[int](), False
    for block in _blocks(data, setting):
        for one in block:
            if one.kind == PacketKind.INFO:
                infos.append(one.value)
            elif one.kind in (PacketKind.CONTEXT, PacketKind.ADDRESS):
                threads = threads or bool(one.context)
    counted = sum(info & 1 for info in infos) * 2 > len(infos)
    return {"cycle_accurate": counted, "threads": threads}
