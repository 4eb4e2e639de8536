from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.machine.elves import FUNCTION, NO_TYPE, OBJECT, RAM, Elf
from tests.machine.sentences import given_or_sentence

from headway.errors import HeadwayError
from headway_machine.config import Config, MemoryConfig
from headway_machine.image import MachineImage
from headway_trace.riscv import program as riscv_program

CONFIG = Config(memory=MemoryConfig(ram="64KiB", tcm="1KiB"))
SYMBOLS = {
    "main": (RAM, 4, FUNCTION),
    "tohost": (RAM + 64, 8, OBJECT),
    "fromhost": (RAM + 72, 8, OBJECT),
    "headway_call_7_sleep": (7, 0, NO_TYPE),
    "headway_tag_3_parse tree": (3, 0, NO_TYPE),
    "headway_poll_1_ring": (1, 0, NO_TYPE),
    "headway_wait_9_printer": (9, 0, NO_TYPE),
    "headway_wait_31_too_many": (9, 0, NO_TYPE),
    "headway_call_999_too_many": (9, 0, NO_TYPE),
}
GOOD = Elf(symbols=SYMBOLS, segments=[(RAM + 64, b"data", 1024), (0x0800_0000, b"tcm", 16)])


def load(data: bytes) -> MachineImage:
    """What the machine does with a file."""
    image = MachineImage.of(data, "prog.elf")
    image.check(CONFIG)
    return image


def test_a_program_is_read() -> None:
    image = load(GOOD.build())
    assert image.entry == RAM
    assert [(s.address, s.data, s.size) for s in image.segments] == [
        (0x0800_0000, b"tcm", 16),
        (RAM, b"\x73\x00\x10\x00", 4),
        (RAM + 64, b"data", 1024),
    ]
    assert (image.tohost, image.fromhost) == (RAM + 64, RAM + 72)
    assert image.functions == {"main": (RAM, RAM + 4)}
    assert image.end == RAM + 64 + 1024
    names = image.names
    assert names.calls == {7: "sleep"}
    assert names.tags == {3: "parse_tree"}
    assert names.polls == {1: "ring"}
    assert names.waits == {9: "printer"}


def changed(**values: Any) -> bytes:
    return Elf(**values).build()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty: give an ELF file"),
        (b"#!/bin/sh\n", "is a script"),
        (b"MZ", "is not an ELF file"),
        (b"\x7fELF", "is cut off: its header has 4 bytes of 52"),
        (changed(header={"class": 2}), "is a 64-bit program"),
        (changed(header={"class": 7}), "its class is 7"),
        (changed(header={"data": 2}), "is not little-endian"),
        (changed(header={"machine": 62}), "another kind of processor (machine 62)"),
        (changed(header={"type": 1}), "an object file that is not linked"),
        (changed(header={"type": 3}), "is position-independent: link it as a static program"),
        (changed(header={"type": 4}), "is a core dump"),
        (changed(header={"type": 99}), "is of type 99"),
        (changed(flags=0x2), "passes single-precision numbers in registers"),
        (changed(flags=0x5), "passes double-precision numbers"),
        (changed(header={"phnum": 0}), "has nothing to load"),
        (changed(header={"phnum": 60_000}), "claims to have 60000 program headers: 256 are the most"),
        (changed(header={"phnum": 200}), "its program headers lie beyond its end"),
        (changed(header={"phoff": 0xFFFF_FFF0}), "its program headers lie beyond its end"),
        (changed(header={"phentsize": 1}), "its program headers have 1 bytes"),
        (changed(header={"shnum": 65_535}), "its section headers lie beyond its end"),
        (changed(segment_type=3), "asks for a dynamic linker"),
        (changed(segment_type=7), "has nothing to load"),
        (changed(entry=RAM + 1), "starts at 0x80000001, an odd address"),
        (changed(entry=RAM + 8), "starts at 0x80000008, where it has nothing"),
        (changed(segments=[(RAM + 2, b"xxxx", 4)]), "has two segments at 0x80000002 (one ends at 0x80000004)"),
        (changed(segments=[(RAM + 8, b"xxxx", 2)]), "with more in the file than in memory"),
        (changed(segments=[(0xFFFF_FFF0, b"", 0x20)]), "ends beyond the last address"),
        (changed(address=0x1_0000), "has a segment at 0x10000 to 0x10004, outside RAM (0x80000000 to 0x80010000)"),
        (changed(segments=[(RAM + 8, b"", 1 << 20)]), "give the machine more memory.ram"),
        (changed(address=RAM - 4, code=b"\x7fELF\0\0\0\0"), "leave the file's headers out of it (-Wl,--nmagic)"),
        (changed(segments=[(0x0800_03FC, b"", 8)]), "outside RAM"),
        (changed(symbols={"tohost": (RAM + 4, 8, OBJECT)}), "has its symbol tohost at 0x80000004: align it to 8 bytes"),
        (changed(symbols={"tohost": (0x1000, 8, OBJECT)}), "has its symbol tohost at 0x1000, outside RAM"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(data: bytes, words: str) -> None:
    with pytest.raises(HeadwayError) as caught:
        load(data)
    assert str(caught.value).startswith("prog.elf ")
    assert words in str(caught.value)
    given_or_sentence(lambda: load(data))


@given(st.integers(0, len(GOOD.build())))
def test_a_program_that_is_cut_off_anywhere_is_one_sentence(size: int) -> None:
    data = GOOD.build()
    assert (given_or_sentence(lambda: load(data[:size])) is None) == (size < len(data))


@given(
    st.lists(
        st.tuples(st.integers(0, len(GOOD.build()) - 4), st.integers(0, 2**32 - 1) | st.sampled_from([0, 1, 0xFFFF])),
        min_size=1,
        max_size=6,
    )
)
def test_a_damaged_program_is_one_that_fits_or_one_sentence(changes: list[tuple[int, int]]) -> None:
    data = bytearray(GOOD.build())
    for at, word in changes:
        struct.pack_into("<I", data, at, word)
    image = given_or_sentence(lambda: load(bytes(data)))
    if image is None:
        return
    end = 0
    for segment in image.segments:
        assert segment.address >= end
        assert len(segment.data) <= segment.size
        assert RAM <= segment.address <= segment.end <= RAM + (64 << 10) or (
            0x0800_0000 <= segment.address <= segment.end <= 0x0800_0400
        )
        end = segment.end
    assert image.entry % 2 == 0


@given(st.binary(max_size=600), st.booleans())
@example(b"", True)
def test_any_bytes_are_one_sentence(data: bytes, begins_well: bool) -> None:
    assert given_or_sentence(lambda: load(b"\x7fELF\x01\x01" + data if begins_well else data)) is None or begins_well


@given(st.dictionaries(st.binary(max_size=40), st.integers(0, 2**32 - 1), max_size=8))
def test_symbols_may_be_called_anything(symbols: dict[bytes, int]) -> None:
    named = {
        name.decode("utf-8", "surrogateescape").replace("\0", ""): (value, value, FUNCTION)
        for name, value in symbols.items()
    }
    image = given_or_sentence(lambda: load(Elf(symbols=named).build()))
    assert image is not None or "tohost" in named or "fromhost" in named
    for start, end in (image.functions if image else {}).values():
        assert start < end <= 1 << 32


@pytest.mark.parametrize("name", ["missing.elf", ".", "/dev/zero", "a\0b", "\x1b[31m"])
def test_a_file_that_cannot_be_opened_is_one_sentence(name: str) -> None:
    assert given_or_sentence(lambda: MachineImage.load(name)) is None


def test_a_pipe_that_nobody_writes_to_holds_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HeadwayError, match="is not a file"):
        MachineImage.load(tmp_path / "pipe")


@pytest.mark.parametrize("most", [1000, pytest.param(1 << 20, marks=[pytest.mark.end_to_end, pytest.mark.exhaustive])])
def test_so_many_symbols_are_read_and_more_are_refused(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if most != 1 << 20:
        monkeypatch.setattr(riscv_program, "_MAX_SYMBOLS", most)
    data = bytearray(Elf(symbols={"f": (RAM, 4, FUNCTION)}).build())
    table = struct.pack("<IIIBBH", 1, RAM, 4, FUNCTION, 0, 1)
    for count, read in ((most, True), (most + 1, False)):
        (shoff,) = struct.unpack_from("<I", data, 32)
        big = data + table * count
        struct.pack_into("<II", big, shoff + 40 + 16, len(data), len(table) * count)
        image = given_or_sentence(lambda big=big: load(bytes(big)))  # type: ignore[misc]
        assert (image is not None) == read


def test_a_program_without_symbols_runs_too() -> None:
    image = load(changed(header={"shnum": 0, "shoff": 0}))
    assert (image.tohost, image.functions) == (None, {})


def test_a_program_keeps_its_name_however_long_its_path_is(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 20)
    folder.mkdir()
    path = folder / "program.elf"
    path.write_bytes(Elf().build())
    assert MachineImage.load(path).name == str(path)
