"""What an instruction does to the flow: the quick answer is the disassembler's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway_trace import code


def check_plain(isa: int, word: int) -> None:
    """That the disassembler says the same of an instruction, if it plainly is a plain one."""
    found = code.plain(word, isa)
    if found is None:
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(code, "plain", lambda word, isa: None)
        assert code.Code(lambda address, size: word.to_bytes(4, "little")).look(0x8000, isa) == found


@settings(max_examples=2000)
@given(st.sampled_from((0, 1, 4)), st.integers(0, (1 << 32) - 1))
def test_what_is_plainly_plain_is_plain_to_the_disassembler(isa: int, word: int) -> None:
    check_plain(isa, word)


@settings(max_examples=2000)
@given(st.integers(0xE800, 0xFFFF), st.integers(0, 0xFFFF))
def test_what_is_plainly_plain_in_32_bits_of_t32_is_so_to_the_disassembler(first: int, second: int) -> None:
    check_plain(1, second << 16 | first)


@pytest.mark.parametrize(
    ("isa", "word"),
    [
        (1, 0x8000E8BD),  # pop.w {pc}
        (1, 0xF000F8D0),  # ldr.w pc, [r0]
        (1, 0xF000E8D0),  # tbb
        (1, 0x0F00EBB0),  # cmp.w, which names the PC as its result
        (1, 0xC001F00F),  # le
        (1, 0xF800F000),  # bl
        (0, 0xEA000000),  # b
        (0, 0xE12FFF1E),  # bx lr
        (0, 0xE8BD8000),  # pop {pc}
        (0, 0xE1A0F00E),  # mov pc, lr
        (0, 0xE59FF000),  # ldr pc, [pc]
        (0, 0xEE070FBA),  # DMB of ARMv6
        (0, 0xF57FF05F),  # dmb
        (1, 0x4770),  # bx lr
        (1, 0xBD00),  # pop {pc}
        (1, 0xB100),  # cbz
        (1, 0xBF08),  # it eq
        (1, 0xE7FE),  # b
        (1, 0x8F5FF3BF),  # dmb, its first half in the low bits
        (4, 0xD65F03C0),  # ret
        (4, 0x14000000),  # b
        (4, 0xD5033FDF),  # isb
    ],
)
def test_what_is_not_plain_is_left_to_the_disassembler(isa: int, word: int) -> None:
    assert code.plain(word, isa) is None


@pytest.mark.parametrize(
    ("isa", "word", "kind", "conditional", "target"),
    [
        (4, 0xF4DF0025, code.DIRECT, True, 0x8004),  # cbeq x5, xzr
        (4, 0x74001FE1, code.DIRECT, True, 0x83FC),  # cbgt w1, w0, the farthest
        (4, 0x752F2003, code.DIRECT, True, 0x7C00),  # cblt w3, #30, the farthest back
        (4, 0x74419FE2, code.DIRECT, True, 0x83FC),  # cbbhi w2, w1
        (4, 0x74E0FFE2, code.DIRECT, True, 0x7FFC),  # cbhne w2, w0
        (4, 0xD6FF03E0, code.INDIRECT, False, 0),  # texit
        (4, 0xD6FF07E0, code.INDIRECT, False, 0),  # texit nb
        (1, 0xC003F044, code.DIRECT, True, 0x8008),  # wls lr, r4
        (1, 0xC803F044, code.DIRECT, True, 0x800A),
        (1, 0xC003F013, code.DIRECT, True, 0x8008),  # wlstp.16 lr, r3
        (1, 0xE001F044, code.PLAIN, False, 0),  # dls lr, r4
        (1, 0xC009F00F, code.DIRECT, True, 0x7FF4),  # le lr
        (1, 0xC809F02F, code.DIRECT, False, 0x7FF2),  # le
        (1, 0xC009F01F, code.DIRECT, True, 0x7FF4),  # letp lr
    ],
)
def test_branches_that_the_disassembler_may_not_know(
    isa: int, word: int, kind: int, conditional: bool, target: int
) -> None:
    found = code.Code(lambda address, size: word.to_bytes(4, "little")).look(0x8000, isa)
    assert (*found[:4], found[5]) == (4, kind, conditional, target, 0)
