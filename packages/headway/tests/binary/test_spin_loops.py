"""Loops that spin, in machine code: what only another thread can end, and nothing that computes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.binary.spin_loops import MAX_BYTES, SpinLoop, SpinLoops

pytest.importorskip("capstone", reason="needs the extra spin")

BASE = 0x401000
X86, ARM = SpinLoops("x86_64"), SpinLoops("aarch64")


def reading(code: bytes) -> Callable[[int, int], bytes]:
    return lambda at, size: code[at - BASE : at - BASE + size] if at >= BASE else b""


def around(code: bytes, offset: int = 0, loops: SpinLoops = X86) -> SpinLoop | None:
    return loops.around(BASE + offset, reading(code))


SPINS = {
    "pause": "f390 833f00 75f9",  # pause; cmp [rdi], 0; jne
    "load and test": "8b07 85c0 74fa",  # mov eax, [rdi]; test eax, eax; je
    "by way of a variable": "488b45f8 8b00 85c0 74f6",  # mov rax, [rbp-8]; mov eax, [rax]; test; je
    "exchange": "b801000000 8707 85c0 75f5",  # mov eax, 1; xchg [rdi], eax; test; jne
    "compare and exchange": "31c0 f00fb10f 75f8",  # xor eax, eax; lock cmpxchg [rdi], ecx; jne
    "a few turns": "833f00 7404 ffc9 75f7",  # cmp [rdi], 0; je out; dec ecx; jne
    "tested at the top": "85c0 7504 8b07 ebf8",  # test eax, eax; jne out; mov eax, [rdi]; jmp
    "difference of two": "8b07 2b06 74fa",  # mov eax, [rdi]; sub eax, [rsi]; je
}
COMPUTES = {
    "string": "48ffc0 803800 75f8",  # inc rax; cmp byte [rax], 0; jne
    "chase": "488b00 4885c0 75f8",  # mov rax, [rax]; test rax, rax; jne
    "copy": "8b07 8906 85c0 74f8",  # mov eax, [rdi]; mov [rsi], eax; test; je
    "counter": "ffc9 75fc",  # dec ecx; jne
    "counter with its end in memory": "ffc0 3b07 75fa",  # inc eax; cmp eax, [rdi]; jne
    "update tried again": "8d4801 f00fb10f 75f7",  # lea ecx, [rax+1]; lock cmpxchg [rdi], ecx; jne
    "work with a flag to end it": "480fafc2 833f00 75f7",  # imul rax, rdx; cmp [rdi], 0; jne
    "sum with a flag to end it": "480306 833f00 75f8",  # add rax, [rsi]; cmp [rdi], 0; jne
    "call": "833f00 e800000000 75f6",
    "atomic counter": "f0ff07 ffc9 75f9",  # lock inc [rdi]; dec ecx; jne
}
ON_ARM = {
    "yield": ("3f2003d5 200040b9 c0ffff34", True),  # yield; ldr w0, [x1]; cbz w0
    "load and test": ("200040b9 e0ffff34", True),  # ldr w0, [x1]; cbz w0
    "chase": ("000040f9 e0ffffb5", False),  # ldr x0, [x0]; cbnz x0
}


@pytest.mark.parametrize("name", SPINS)
def test_what_only_another_thread_can_end_spins(name: str) -> None:
    code = bytes.fromhex(SPINS[name])
    found = around(code + b"\xc3" + bytes(32))
    assert found is not None
    assert (found.start, found.end) == (BASE, BASE + len(code))
    assert found.hint == ("pause" if name == "pause" else "")


@pytest.mark.parametrize("name", COMPUTES)
def test_what_computes_or_stores_or_calls_does_not(name: str) -> None:
    assert around(bytes.fromhex(COMPUTES[name]) + b"\xc3" + bytes(32)) is None


@pytest.mark.parametrize("name", ON_ARM)
def test_the_same_on_arm64(name: str) -> None:
    code, spins = ON_ARM[name]
    assert (around(bytes.fromhex(code) + bytes(16), loops=ARM) is not None) == spins


def test_every_instruction_of_a_loop_is_in_it_and_what_is_behind_is_not() -> None:
    code = bytes.fromhex("90" + SPINS["pause"] + "90c3")
    assert [offset for offset in range(len(code)) if around(code, offset)] == [1, 3, 6]


def test_the_innermost_loop_decides() -> None:
    """A loop that works beside a loop that pauses: only the second spins."""
    work, pauses = bytes.fromhex("480fafc2 ffc9 75f8"), bytes.fromhex("f390 833f00 75f9")
    whole = work + pauses
    code = whole + bytes([0xEB, 256 - len(whole) - 2])
    assert around(code, 0) is None
    assert around(code, len(work)) is not None


def test_a_long_loop_is_none() -> None:
    code = bytes.fromhex("f390") + b"\x90" * MAX_BYTES
    code += b"\xe9" + (-(len(code) + 5)).to_bytes(4, "little", signed=True)
    assert around(code) is None


def test_code_of_a_processor_that_is_not_known_never_spins() -> None:
    loops = SpinLoops("riscv64")
    assert not loops.known
    assert around(bytes.fromhex(SPINS["pause"]), loops=loops) is None


@given(st.binary(max_size=300), st.integers(0, 300), st.sampled_from([X86, ARM]))
def test_any_bytes_give_a_loop_around_the_address_or_none(code: bytes, offset: int, loops: SpinLoops) -> None:
    found = around(code, offset, loops)
    if found is not None:
        assert BASE <= found.start <= BASE + offset < found.end <= BASE + len(code)
        assert found.end - found.start <= MAX_BYTES


@given(st.lists(st.sampled_from([*SPINS.values(), *COMPUTES.values(), "90", "c3"]), max_size=8), st.integers(0, 80))
def test_of_loops_after_each_other_each_is_judged_by_itself(parts: list[str], offset: int) -> None:
    code, where = b"", {}
    for part in parts:
        for at in range(len(code), len(code) + len(bytes.fromhex(part))):
            where[at] = part
        code += bytes.fromhex(part)
    if around(code + bytes(32), offset) is not None:
        assert where.get(offset) in SPINS.values()
