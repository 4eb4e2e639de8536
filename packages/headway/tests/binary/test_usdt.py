"""The static probes of a file: what its notes say, whatever else is in them, and where arguments are."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiling import Compile

from headway.binary.elf import ElfFile
from headway.binary.usdt import Operand, UsdtProbe, operands_of, parse, probes_of

WORDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)
ADDRESSES = st.integers(1, 1 << 40)
PROBES = st.lists(st.builds(UsdtProbe, WORDS, WORDS, ADDRESSES, ADDRESSES | st.just(0), st.just("8@%rdi -4@$5")))


def note(owner: bytes, kind: int, content: bytes) -> bytes:
    """A note as ELF has them."""
    pad = b"\0" * (-len(owner) % 4)
    return struct.pack("<III", len(owner), len(content), kind) + owner + pad + content + b"\0" * (-len(content) % 4)


def note_of(probe: UsdtProbe, base: int) -> bytes:
    texts = "\0".join((probe.provider, probe.name, probe.arguments, "")).encode()
    return note(b"stapsdt\0", 3, struct.pack("<QQQ", probe.address, base, probe.semaphore) + texts)


@given(PROBES, st.integers(1, 1 << 40), st.integers(0, 1 << 20))
def test_probes_come_back_as_they_were_written(probes: list[UsdtProbe], base: int, moved: int) -> None:
    """Also where the file was moved after it was linked, and where other notes stand between."""
    notes = b"".join(note(b"GNU\0", 3, b"other") + note_of(probe, base) for probe in probes)
    assert list(parse(notes)) == probes
    for before, after in zip(probes, parse(notes, base + moved), strict=True):
        assert after.address == before.address + moved
        assert after.semaphore == (before.semaphore + moved if before.semaphore else 0)


@given(st.binary() | st.lists(st.binary(max_size=80).map(lambda c: note(b"stapsdt\0", 3, c))).map(b"".join))
def test_hostile_notes_are_left_out(notes: bytes) -> None:
    for probe in parse(notes):
        assert probe.name.isidentifier()
        assert probe.provider.isidentifier()


@given(st.text(max_size=60), st.sampled_from(["x86_64", "aarch64", "riscv64"]))
def test_any_text_has_arguments_or_none(text: str, machine: str) -> None:
    for operand in operands_of(text, machine):
        assert operand is None or -(1 << 63) <= operand.value < 1 << 63


BX, BP, R13, SP, AX, DX = 40, 32, 16, 152, 80, 96


@pytest.mark.parametrize(
    ("arguments", "machine", "found"),
    [
        ("", "x86_64", []),
        ("8@%rbx 4@%ebx -1@%bl", "x86_64", [Operand(8, BX), Operand(4, BX), Operand(-1, BX)]),
        ("-4@$-5", "x86_64", [Operand(-4, value=-5)]),
        ("8@-144(%rbp)", "x86_64", [Operand(8, BP, value=-144, in_memory=True)]),
        ("4@0(%r13) 8@(%rsp)", "x86_64", [Operand(4, R13, in_memory=True), Operand(8, SP, in_memory=True)]),
        ("8@8(%rax,%rdx,4)", "x86_64", [Operand(8, AX, DX, 4, 8, True)]),
        ("8@-4 ( %rax )", "x86_64", [Operand(8, AX, value=-4, in_memory=True)]),
        ("-4@NBuffers(%rip) 8@%rax 4f@%xmm0", "x86_64", [None, Operand(8, AX), None]),
        ("8@x19 -4@w0 8@5 8@sp", "aarch64", [Operand(8, 152), Operand(-4, 0), Operand(8, value=5), Operand(8, 248)]),
        ("4@[sp, 12] 8@[x1]", "aarch64", [Operand(4, 248, value=12, in_memory=True), Operand(8, 8, in_memory=True)]),
        ("8@[x1, x2, lsl 3] 8@v0", "aarch64", [Operand(8, 8, 16, 8, 0, True), None]),
    ],
)
def test_arguments_are_where_the_assembler_writes_them(
    arguments: str, machine: str, found: list[Operand | None]
) -> None:
    assert list(operands_of(arguments, machine)) == found


@pytest.mark.kernel
def test_the_probes_of_a_program(compile_c: Compile) -> None:
    with ElfFile(str(compile_c("probed"))) as image:
        probes = probes_of(image)
        assert {probe.shown for probe in probes} == {
            "shop:transaction__start",
            "shop:transaction__done",
            "shop:statement__start",
            "shop:statement__done",
            "shop:request__start",
            "shop:bad",
        }
        for probe in probes:
            assert image.file_offset(probe.address) is not None
            assert bool(probe.semaphore) == (probe.name == "statement__start")
            assert None not in operands_of(probe.arguments)
