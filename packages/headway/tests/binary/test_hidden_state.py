"""Code that may make progress in what samples of a thread's state do not see, and code that cannot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("capstone", reason="needs the extra spin")

from headway.binary.hidden_state import HiddenState

pytestmark = pytest.mark.unit

AT = 0x40_1000

X86 = {
    "addsd xmm0, xmm1": ("f20f58c1", True),
    "mulps xmm0, xmm1": ("0f59c1", True),
    "paddd xmm0, xmm1": ("660ffec1", True),
    "fadd st(0), st(1)": ("d8c1", True),
    "rep stosq": ("f348ab", True),
    "add dword ptr [rbp - 4], 3": ("8345fc03", True),
    "add dword ptr [rip + 16], 1": ("83051000000001", True),
    "add dword ptr [rbx + rdx*4 + 0x60], 1": ("8344936001", True),
    "add dword ptr [rbx + 0x40], 1": ("83434001", True),
    "lock inc dword ptr [rip + 16]": ("f0ff0510000000", True),
    "add dword ptr [rbx + 0x3c], 1": ("83433c01", False),
    "add dword ptr [rsp - 8], 1": ("834424f801", False),
    "add rax, 1": ("4883c001", False),
    "movaps xmm0, [rdi]": ("0f2807", False),
    "movdqu [rsi], xmm0": ("f30f7f06", False),
    "pxor xmm0, xmm0": ("660fefc0", False),
    "pxor xmm0, xmm1": ("660fefc1", True),
    "mov [rsp + 0x1038], rax": ("4889842438100000", False),
    "lock cmpxchg [rip + 16], ecx": ("f00fb10d10000000", False),
    "pause": ("f390", False),
}
ARM = {
    "fadd d0, d0, d1": ("0028611e", True),
    "add v0.4s, v0.4s, v1.4s": ("0084a14e", True),
    "add x0, x0, #1": ("00040091", False),
    "str w1, [x0, #256]": ("010001b9", False),
    "str q0, [x0]": ("0000803d", False),
    "yield": ("3f2003d5", False),
}


@pytest.mark.parametrize("words", X86)
def test_one_instruction_of_x86(words: str) -> None:
    code, hides = X86[words]
    assert HiddenState("x86_64").around(AT, AT, bytes.fromhex(code) + b"\xc3") is hides


@pytest.mark.parametrize("words", ARM)
def test_one_instruction_of_arm(words: str) -> None:
    code, hides = ARM[words]
    assert HiddenState("aarch64").around(AT, AT, bytes.fromhex(code)) is hides


def test_straight_code_counts_and_what_was_passed_over_does_not() -> None:
    add, jump, nop, ret = bytes.fromhex("f20f58c1"), b"\xeb\x04", b"\x90", b"\xc3"
    state = HiddenState("x86_64")
    assert state.around(AT + 4, AT, add + nop + ret), "executed before the sample"
    assert state.around(AT, AT, nop + add + ret), "and after it"
    assert not state.around(AT, AT, nop + ret + add), "not behind a return"
    assert not state.around(AT + 6, AT, jump + add + nop + ret), "passed over by a jump to the sample"
    assert state.around(AT, AT, nop + b"\xe8\0\0\0\0" + add + ret), "a call comes back"


@given(st.binary(min_size=1, max_size=300), st.integers(0, 299), st.sampled_from(["x86_64", "aarch64"]))
def test_any_bytes_have_an_answer(code: bytes, inside: int, machine: str) -> None:
    HiddenState(machine).around(AT + min(inside, len(code) - 1), AT, code)


def test_on_a_machine_that_is_not_known_all_code_hides_state() -> None:
    assert HiddenState("riscv64").around(AT, AT, b"\x90\xc3")
