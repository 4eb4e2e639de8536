"""Which packets may follow which instruction, by the tables of the architectures; any other is a contradiction."""

from __future__ import annotations

import pytest

from headway_trace import etmv3, etmv4, ptm
from headway_trace.records import Gap, Instruction, Record, Why

from . import encoding
from . import etmv4 as v4
from . import ptm as pft
from .etmv4 import START, long_address
from .programs import BASE, Program, decode, listing
from .test_etmv4 import NOP, RET, words
from .test_etmv4 import decode as decode_v4

PLACE = BASE + 16
TARGET, OTHER = PLACE + 64, PLACE + 32
THUMB = {
    "plain": b"\x00\xbf",
    "direct": b"\x1e\xe0",
    "conditional": b"\x1e\xd0",
    "interworking": b"\x00\xf0\x1e\xe8",
    "indirect": b"\x70\x47",
}
"""Instructions of T32 at PLACE; the branches go to TARGET."""
ARM = {
    "plain": 0xE1A00000,
    "direct": 0xEA00000E,
    "conditional": 0x0A00000E,
    "interworking": 0xFA00000E,
    "indirect": 0xE12FFF1E,
    "indirect with a condition": 0x112FFF1E,
}
"""The same of A32."""

ATOM, REPEATED, ELSEWHERE, EXCEPTION, SYNC = "atom", "repeated", "elsewhere", "exception", "I-sync"
AFTER = {ATOM, EXCEPTION, SYNC}
FOLLOW: dict[tuple[str, bool], set[str]] = {
    ("plain", True): AFTER,
    ("direct", True): AFTER,
    ("conditional", True): AFTER,
    ("conditional", False): AFTER,
    ("interworking", True): AFTER | {REPEATED},
    ("indirect", True): {REPEATED, ELSEWHERE, EXCEPTION, SYNC},
    ("indirect with a condition", True): {REPEATED, ELSEWHERE, EXCEPTION, SYNC},
    ("indirect with a condition", False): AFTER,
}
"""What may come after an instruction of ETMv3, by what it is and whether it was executed (ARM IHI 0014Q, 4.5.2, 7.3.5).

A branch packet that repeats an address has that where the program goes on, and one elsewhere another.
"""
BROADCAST = FOLLOW | {(kind, True): AFTER | {REPEATED} for kind in ("direct", "conditional", "interworking")}


def code_of(kind: str, thumb: bool) -> Program | None:
    """Instructions without effect, the one of that kind at PLACE, and others of the set that is at TARGET."""
    data = THUMB.get(kind) if thumb else ARM[kind].to_bytes(4, "little")
    if data is None:
        return None
    plain = {True: THUMB["plain"] * 2, False: ARM["plain"].to_bytes(4, "little")}
    around = plain[thumb], plain[thumb != (kind == "interworking")]
    return Program({}, [BASE], around[0] * 4 + data + around[0][: -len(data) % 4] + around[1] * 32)


def contradicted(found: list[Record]) -> bool:
    return any(isinstance(one, Gap) and one.why == Why.CONTRADICTION for one in found)


@pytest.mark.parametrize("broadcast", [False, True])
@pytest.mark.parametrize("thumb", [True, False])
@pytest.mark.parametrize(("kind", "executed"), FOLLOW)
def test_what_may_follow_an_instruction_of_etmv3(kind: str, executed: bool, thumb: bool, broadcast: bool) -> None:
    code = code_of(kind, thumb)
    if code is None:
        pytest.skip("T32 has no such instruction outside an IT block")
    jumped = executed and kind not in ("plain", "indirect with a condition")
    goes_on = TARGET if jumped else PLACE + (2 if thumb and kind != "interworking" else 4)
    there = thumb != (kind == "interworking")
    packets = {
        ATOM: encoding.atom(True, 1),
        REPEATED: encoding.branch(goes_on, thumb=there),
        ELSEWHERE: encoding.branch(OTHER, thumb=there),
        EXCEPTION: encoding.branch(OTHER, thumb=there, exception=14),
        SYNC: encoding.sync(goes_on, thumb=there),
    }
    setting = etmv3.Setting(branch_broadcast=broadcast)
    start = encoding.ALIGNMENT + encoding.sync(PLACE, thumb=thumb) + encoding.atom(executed, 1)
    allowed = (BROADCAST if broadcast else FOLLOW)[kind, executed]
    for name, packet in packets.items():
        parser, flow = setting.parser(), setting.flow(listing(code))
        found = [*flow.feed(parser.feed(start + packet)), *flow.feed(parser.finish()), *flow.finish()]
        assert contradicted(found) == (name not in allowed), name


def test_a_branch_that_changes_the_instruction_set_need_not_be_told() -> None:
    """The program says where it went, so nothing is uncertain."""
    code = code_of("interworking", True)
    assert code is not None
    found = decode(code, encoding.ALIGNMENT + encoding.sync(PLACE) + encoding.atom(True, 1) * 3)
    assert [one.address for one in found if isinstance(one, Instruction)] == [PLACE, TARGET, TARGET + 4]
    assert not contradicted(found)


PTM_FOLLOW: dict[str, set[str]] = {
    "direct": {"E", "E exception"},
    "conditional": {"E", "N", "E exception"},
    "interworking": {"E", "repeated", "E exception"},
    "indirect": {"repeated", "elsewhere"},
    "indirect with a condition": {"N", "repeated", "elsewhere"},
}
"""What may tell of the next waypoint of PTM, by what it is (ARM IHI 0035B, 2.2, 4.3)."""


@pytest.mark.parametrize("broadcast", [False, True])
@pytest.mark.parametrize("thumb", [True, False])
@pytest.mark.parametrize("kind", PTM_FOLLOW)
def test_what_may_tell_of_a_waypoint_of_ptm(kind: str, thumb: bool, broadcast: bool) -> None:
    code = code_of(kind, thumb)
    if code is None:
        pytest.skip("T32 has no such instruction outside an IT block")
    there = thumb != (kind == "interworking")
    packets = {
        "E": pft.atoms([True]),
        "N": pft.atoms([False]),
        "repeated": pft.branch(TARGET, thumb=there),
        "elsewhere": pft.branch(OTHER, thumb=there),
        "E exception": pft.atoms([True]) + pft.branch(OTHER, thumb=there, exception=14),
    }
    setting = ptm.Setting(cycle_accurate=False, branch_broadcast=broadcast)
    allowed = PTM_FOLLOW[kind] | ({"repeated"} if broadcast else set())
    for name, packet in packets.items():
        found = pft.decode(code, encoding.ALIGNMENT + pft.sync(BASE, thumb=thumb) + packet, setting=setting)
        assert contradicted(found) == (name not in allowed), name


V4_FOLLOW: dict[tuple[str, bool], set[str]] = {
    ("direct", True): {"atom", "repeated", "exception"},
    ("conditional", True): {"atom", "repeated", "exception"},
    ("conditional", False): {"atom", "repeated", "exception"},
    ("indirect", True): {"repeated", "elsewhere"},
    ("barrier", True): {"atom", "repeated", "exception"},
    ("direct", False): set(),
    ("indirect", False): set(),
}
"""What may come after an atom of ETMv4, by the waypoint and whether it was executed (ARM IHI 0064, 5.3, 6.4)."""


@pytest.mark.parametrize(("kind", "executed"), V4_FOLLOW)
def test_what_may_follow_an_atom_of_etmv4(kind: str, executed: bool) -> None:
    word = {
        "direct": 0x14000010,
        "conditional": 0x54000200,
        "indirect": 0xD65F03C0,
        "barrier": 0xD5033FDF,
    }[kind].to_bytes(4, "little")
    code = words(word, (NOP + RET) * 20)
    goes_on = v4.BASE + (64 if executed and kind != "barrier" else 4)
    packets = {
        "atom": v4.atoms([True]),
        "repeated": long_address(goes_on) + v4.atoms([True]),
        "elsewhere": long_address(v4.BASE + 32) + v4.atoms([True]),
        "exception": v4.exception(14, goes_on) + long_address(v4.BASE + 32) + v4.atoms([True]),
    }
    start = START + v4.ON + v4.context() + long_address(v4.BASE) + v4.atoms([executed])
    for name, packet in packets.items():
        found = decode_v4(code, start + packet, setting=etmv4.Setting(version=0x42))
        assert contradicted(found) == (name not in V4_FOLLOW[kind, executed]), name
