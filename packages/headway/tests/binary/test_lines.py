"""Lines of source: as another library reads them, and never in the way of a file that is damaged."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from bisect import bisect_right
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiling import PROGRAMS
from tests.trace.elves import END, LINE_7, at, unit
from tests.trace.elves import elf as with_section

from headway.binary.lines import LineTable


@pytest.fixture(scope="module", params=[2, 3, 4, 5])
def elf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A program for ARM, with line tables of each version."""
    pytest.importorskip("ziglang", reason="needs a compiler for ARM")
    folder: Path = tmp_path_factory.mktemp("lines")
    target = ["-target", "arm-freestanding-eabi", "-mcpu=cortex_a7", "-nostdlib", "-static", "-O1", "-g"]
    compiler = [sys.executable, "-m", "ziglang", "cc", *target, f"-gdwarf-{request.param}"]
    command = [*compiler, str(PROGRAMS / "lines.c"), "-o", str(folder / "lines.elf")]
    built = subprocess.run(command, capture_output=True, check=False)
    if built.returncode:
        pytest.skip(f"the compiler does not build for ARM: {built.stderr.decode()[-200:]}")
    return (folder / "lines.elf").read_bytes()


def as_pyelftools_reads(elf: bytes) -> dict[int, str]:
    """``file:line`` of each even address that a sequence has."""
    dwarf = ELFFile(io.BytesIO(elf)).get_dwarf_info()
    found: dict[int, str] = {}
    for one in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(one)
        assert program is not None
        rows: list[tuple[int, str]] = []
        for state in (entry.state for entry in program.get_entries() if entry.state is not None):
            if not state.end_sequence:
                name = program["file_entry"][state.file - (program["version"] < 5)].name.decode()
                rows.append((state.address, f"{name.rpartition('/')[2]}:{state.line}" if state.line else ""))
                continue
            starts = [address for address, _ in rows]
            for address in range(starts[0], state.address, 2):
                found[address] = rows[bisect_right(starts, address) - 1][1]
            rows = []
    return found


def test_lines_are_those_that_another_library_reads(elf: bytes) -> None:
    lines, wanted = LineTable(elf), as_pyelftools_reads(elf)
    assert {address: lines.at(address) for address in wanted} == wanted
    assert {name.partition(":")[0] for name in wanted.values() if name} == {"lines.c", "other.h"}
    assert "other.h:77" in wanted.values()
    assert [lines.at(address) for address in (0, min(wanted) - 2, max(wanted) + 2, 1 << 32, -1)] == [""] * 5


def test_without_line_tables_there_are_no_lines() -> None:
    for data in (b"", b"\x7fELF", b"#!/bin/sh\n", bytes(1000)):
        assert LineTable(data).at(0x8000) == ""


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_file_has_lines_or_none_and_nothing_else(elf: bytes, data: st.DataObject) -> None:
    damaged = bytearray(elf)
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(elf) - 1))] = data.draw(st.integers(0, 255))
    lines = LineTable(
        bytes(damaged[: data.draw(st.integers(0, len(elf)))]) if data.draw(st.booleans()) else bytes(damaged)
    )
    for address in as_pyelftools_reads(elf):
        assert isinstance(lines.at(address), str)


# --- programs made by hand ---


def test_a_program_made_by_hand_says_its_line() -> None:
    line = unit(at(0x8000) + LINE_7 + b"\x02\x04" + END)
    for section in (line, b"\xff\xff\xff\xff\xff\xff\xff" + line, unit(b"\0\0\0"), line + line[:9]):
        assert LineTable(with_section(section)).at(0x8002) in ("one.c:7", "")
    lines = LineTable(with_section(line + line[:9]))
    assert [lines.at(address) for address in (0x7FFF, 0x8000, 0x8007, 0x8008)] == ["", "one.c:7", "one.c:7", ""]


def test_compressed_sections_are_read() -> None:
    line = unit(at(0x8000) + LINE_7 + b"\x02\x04" + END)
    packed = struct.pack("<III", 1, len(line), 1) + zlib.compress(line)
    assert LineTable(with_section(packed, flags=0x800)).at(0x8000) == "one.c:7"
    bomb = struct.pack("<III", 1, 0xFFFFFFFF, 1) + zlib.compress(bytes(1 << 20))
    assert LineTable(with_section(bomb, flags=0x800)).at(0x8000) == ""


@pytest.mark.parametrize(
    "program",
    [
        at(0x8000) + LINE_7,  # does not end
        at(0x8000) + LINE_7 + at(0x7000) + LINE_7 + b"\x02\x04" + END,  # goes back
        at(0x8000) + LINE_7 + b"\x02" + b"\xff" * 5000 + b"\x01" + END,  # a number without an end in sight
        at(0x8000) + LINE_7 + b"\0\xff\xff\xff\xff\x0f" + END,  # longer than the unit
        at(0x8000) + b"\x04\x63" + LINE_7 + b"\x02\x04" + END,  # a file that there is not
        at(0x8000) + b"\x03\x80\x80\x80\x80\x80\x01\x01" + b"\x02\x04" + END,  # a line beyond all
    ],
)
def test_what_makes_no_sense_has_no_line(program: bytes) -> None:
    assert LineTable(with_section(unit(program))).at(0x8000) == ""


def test_entries_without_bytes_are_not_counted_out() -> None:
    """2^63 folders of no fields each would be read for ever."""
    endless = b"\0" + b"\xff" * 8 + b"\x7f" + b"\0" + b"\xff" * 8 + b"\x7f"
    line = unit(at(0x8000) + LINE_7 + b"\x02\x04" + END, tables=endless, version=5)
    assert LineTable(with_section(line)).at(0x8000) == ""


def test_one_unit_that_is_damaged_does_not_hide_the_next() -> None:
    good = unit(at(0x8000) + LINE_7 + b"\x02\x04" + END)
    other = bytearray(good)
    other[4:6] = b"\x63\x00"  # of a version that there is not
    assert LineTable(with_section(bytes(other) + good)).at(0x8000) == "one.c:7"


@pytest.mark.parametrize("moves", [(1 << 63) - 1, (1 << 63) - 2, -(1 << 63), 1 << 62])
def test_a_line_may_be_moved_as_far_as_a_program_likes(moves: int) -> None:
    # ADVANCE_LINE takes a signed number of any length; special opcodes go on from there by up to 8 and back by 5.
    far = b"\x03" + signed(moves)
    program = at(0x1000) + far + b"\x3c\x1a\x3c" + far + b"\x01" + END
    assert LineTable(with_section(unit(program))).at(0x1000) == ""
    back = b"\x03" + signed(-moves) if moves > -(1 << 63) else far
    assert (
        LineTable(with_section(unit(at(0x1000) + far + b"\x1a" + back + b"\x01\x02\x04" + END))).at(0x1000) == "one.c:9"
    )


def signed(value: int) -> bytes:
    """An SLEB128 number."""
    found = bytearray()
    while True:
        found.append(value & 0x7F | 0x80)
        value >>= 7
        if value in (0, -1) and (found[-1] & 0x40 != 0) == (value < 0):
            found[-1] &= 0x7F
            return bytes(found)


def test_units_of_which_nothing_is_kept_have_no_lines() -> None:
    assert LineTable(with_section(unit(END))).at(0x1000) == ""


def test_a_packed_section_is_not_unpacked_beyond_its_size() -> None:
    lines = unit(at(0x1000) + LINE_7 + END)
    for size in (0, 1, len(lines) - 1, len(lines)):
        packed = struct.pack("<III", 1, size, 1) + zlib.compress(lines + bytes(1 << 20))
        table = LineTable(with_section(packed, flags=0x800))
        assert len(table._sections[0]) == size
