"""The ways out of a function: returns and tail calls are found, jumps within it are not, and any bytes are borne."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("capstone")

from headway.binary.ways_out import Piece, WayOut, ways_out
from headway.errors import HeadwayError

START = 0x1000
NOP = "90"
ARM_NOP = "1f2003d5"


def found(code: str, machine: str = "x86_64", *more: Piece) -> list[tuple[int, bool]]:
    """Offsets, and whether each is a jump to a fixed address."""
    pieces = [Piece(START, bytes.fromhex(code)), *more]
    return [(way.address - START, way.is_jump) for way in ways_out(pieces, machine)]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (NOP + "c3", [(1, False)]),  # ret
        ("f3c3", [(0, False)]),  # repz ret
        ("c20800", [(0, False)]),  # ret 8
        ("e9fb0f0000", [(0, True)]),  # jmp far away: a tail call
        ("ebfe", []),  # jmp to itself
        ("eb00" + NOP, []),  # jmp to the next
        ("7510" + "c3", [(2, False)]),  # jne out of it: comes back
        ("ff25001000" + "00", [(0, False)]),  # jmp *0x1000(%rip): by the GOT
        ("ff6008", [(0, False)]),  # jmp *8(%rax): a virtual function
        ("ff24c500104000", []),  # jmp *0x401000(,%rax,8): a table
        ("4801d0" + "ffe0", []),  # add %rdx,%rax; jmp *%rax: a table of distances
        ("4801d0" + "3effe0", []),  # the same with notrack
        ("4801d1" + "ffe0", [(3, False)]),  # adds to another register
        ("488b07" + "ffe0", [(3, False)]),  # mov (%rdi),%rax; jmp *%rax
        ("e8fb0f0000" + "0f0b", []),  # call; ud2: never returns
    ],
)
def test_x86_64(code: str, expected: list[tuple[int, bool]]) -> None:
    assert found(code) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ARM_NOP + "c0035fd6", [(4, False)]),  # ret
        ("ff0b5fd6", [(0, False)]),  # retaa
        ("00040014", [(0, True)]),  # b far away
        ("01000014" + ARM_NOP, []),  # b to the next
        ("40800054" + "c0035fd6", [(4, False)]),  # b.eq out of it
        ("40800034" + "c0035fd6", [(4, False)]),  # cbz out of it
        ("00011fd6", [(0, False)]),  # br x8
        ("2801088b" + "00011fd6", []),  # add x8, x9, x8; br x8
    ],
)
def test_arm64(code: str, expected: list[tuple[int, bool]]) -> None:
    assert found(code, "aarch64") == expected


def test_a_jump_to_code_that_was_moved_elsewhere_stays_in_the_function() -> None:
    cold = Piece(START + 0x1000, bytes.fromhex("e9fbefffff"))  # jmp back
    assert found("e9fb0f0000", "x86_64", cold) == []
    assert found("e9fb0f0000") == [(0, True)]


def test_what_is_no_code_is_said() -> None:
    with pytest.raises(HeadwayError, match="0x1001 is no instruction"):
        ways_out([Piece(START, b"\x90\x06")], "x86_64")
    with pytest.raises(HeadwayError, match="not known on this kind of processor"):
        ways_out([Piece(START, b"\x90")], "riscv64")


@given(st.binary(max_size=200), st.sampled_from(["x86_64", "aarch64"]))
def test_any_bytes_have_ways_out_within_them_or_are_refused(code: bytes, machine: str) -> None:
    ways: tuple[WayOut, ...] = ()
    with suppress(HeadwayError):
        ways = ways_out([Piece(START, code)], machine)
    assert all(START <= way.address < START + len(code) for way in ways)
    assert list(ways) == sorted(ways, key=lambda way: way.address)
