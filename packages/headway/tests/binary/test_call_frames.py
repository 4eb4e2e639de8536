"""Call frame information compiled to rows: compared with pyelftools row by row, and hostile sections."""

from __future__ import annotations

import os
import platform
import struct
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import FEW

from headway.binary._call_frames import Compiler
from headway.binary.call_frames import ROW, RULE, CallFrameError, CallFrames, Kept, cache_folder, read_call_frames

KEPT, GONE, OUTERMOST = -32768, -32767, -32766
NONE, OFFSET, DEREF, PLT, UNKNOWN = range(5)
PLACE = (10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0)
"""DWARF's registers of x86-64 among the words of struct pt_regs (arch/x86/include/uapi/asm/ptrace.h)."""
ARGUMENTS = 0x2E  # DW_CFA_GNU_args_size
FOLLOWED = (15, 14, 13, 12, 6, 3)
x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the files are this machine's: x86-64 is wanted")


def frames_of(path: Path | str, kept: Kept | None = None) -> CallFrames:
    """The table of a file."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return read_call_frames(lambda size, at: os.pread(fd, size, at), kept)
    finally:
        os.close(fd)


def libraries() -> list[str]:
    """Files of this machine that have call frame information: what this process has mapped."""
    with open("/proc/self/maps") as file:
        mapped = {line.split()[-1] for line in file if "r-xp" in line and "/" in line}
    return sorted(mapped)


def signed(data: bytes) -> tuple[int, bytes]:
    """Read an SLEB128 number. Return it and what follows."""
    value = shift = 0
    for i, byte in enumerate(data):
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value - (1 << shift if byte & 0x40 else 0), data[i + 1 :]
    raise AssertionError("cut off")


def based(expression: list[int]) -> tuple[int, int, bytes] | None:
    """Register, offset and the rest of an expression that begins with a register and an offset."""
    code = bytes(expression)
    if not 0x70 <= code[0] <= 0x7F:
        return None
    offset, rest = signed(code[1:])
    return code[0] - 0x70, offset, rest


def expected(line: dict[Any, Any], signal: bool) -> tuple[Any, ...]:
    """What pyelftools decoded, as the fields of a rule that mean something."""
    cfa = line["cfa"]
    if cfa.expr is None and (cfa.reg is None or cfa.offset is None):
        return (UNKNOWN,)  # half of it is of an expression
    if cfa.expr is None:
        how: tuple[int, ...] = (OFFSET, PLACE[cfa.reg], cfa.offset, 0)
    else:
        found = based(cfa.expr)
        if found is None:
            return (UNKNOWN,)
        register, offset, rest = found
        if rest == b"":
            how = OFFSET, PLACE[register], offset, 0
        elif rest == b"\x06":
            how = DEREF, PLACE[register], offset, 0
        elif rest[0:2] == b"\x06\x23":
            how = DEREF, PLACE[register], offset, rest[2]
        elif rest[:4] == b"\x80\x00\x3f\x1a" and rest[5:] == b"\x2a\x33\x24\x22":
            how = PLT, PLACE[register], offset, rest[4] - 0x30
        else:
            return (UNKNOWN,)
    saved: list[tuple[int, int]] = []
    bases: set[int] = set()
    held = 0
    for register in (*FOLLOWED, 16):
        rule = line.get(register)
        if rule is None or rule.type == "SAME_VALUE":
            saved.append((KEPT, -1))
        elif rule.type == "UNDEFINED":
            saved.append((OUTERMOST if register == 16 else GONE, -1))
        elif rule.type == "OFFSET":
            saved.append((rule.arg, -1))
        elif rule.type == "EXPRESSION" and (at := based(rule.arg)) is not None and at[2] == b"":
            saved.append((at[1], PLACE[at[0]]) if not bases or PLACE[at[0]] in bases else (GONE, -1))
            bases.add(PLACE[at[0]]) if not bases else None
        elif rule.type == "REGISTER" and register == 16:
            saved.append((0, -1))
            held = PLACE[rule.arg] + 1
        else:
            saved.append((GONE, -1))
    if saved[-1][0] in (KEPT, GONE):
        return (UNKNOWN,)
    return (*how, tuple(saved), signal, held)


def compiled(rule: np.void) -> tuple[Any, ...]:
    """The same of a compiled rule."""
    if rule["cfa"] in (NONE, UNKNOWN):
        return (int(rule["cfa"]),)
    offsets = [*rule["saved"].tolist(), int(rule["return_at"])]
    saved = tuple((offset, int(rule["base"]) if rule["from_base"] >> i & 1 else -1) for i, offset in enumerate(offsets))
    how = int(rule["cfa"]), int(rule["cfa_register"]), int(rule["offset"]), int(rule["more"])
    return (*how, saved, bool(rule["signal"]), int(rule["return_register"]))


def decoded(path: str) -> Iterator[tuple[int, int, FDE]]:
    """Start, end and description of each function in .eh_frame, by pyelftools."""
    with open(path, "rb") as file:
        dwarf = ELFFile(BytesIO(file.read())).get_dwarf_info(relocate_dwarf_sections=False)
        if not dwarf.has_EH_CFI():
            return
        for entry in dwarf.EH_CFI_entries():
            if isinstance(entry, FDE):
                start = entry.header["initial_location"]
                yield start, start + entry.header["address_range"], entry


def compare(path: str, *, of: int = 1) -> int:
    """Compare every row of a file with pyelftools, or those of one function of so many. Return how many rows."""
    frames = frames_of(path)
    starts = [frames.base + address for address in frames.rows["address"].tolist()]
    rules = frames.rows["rule"].tolist()
    known = [compiled(rule) for rule in frames.rules]
    functions = sorted(decoded(path), key=lambda one: one[0])
    compared = 0
    for number, (start, end, entry) in enumerate(functions):
        limit = min(end, functions[number + 1][0]) if number + 1 < len(functions) else end
        if number % of or start >= limit:
            continue
        if any(instruction.opcode == ARGUMENTS for instruction in entry.instructions):
            continue  # pyelftools does not decode it
        assert entry.cie is not None
        table, signal = entry.get_decoded().table, b"S" in entry.cie.header["augmentation"]
        for i, line in enumerate(table):
            last = min(table[i + 1]["pc"], limit) if i + 1 < len(table) else limit
            for address in {line["pc"], last - 1} if line["pc"] < last else ():
                place = bisect_right(starts, address) - 1
                assert known[rules[place]] == expected(line, signal), f"{path} {address:#x}"
            compared += 1
        if number + 1 == len(functions) or end < functions[number + 1][0]:  # nothing is known behind it
            begins = frames.entry <= end < frames.entry + 128
            assert rules[bisect_right(starts, end) - 1] == 0 or begins, f"{path} {end:#x}"
    return compared


@x86_64
@pytest.mark.parametrize("path", libraries()[:: 4 if FEW else 1], ids=os.path.basename)
def test_rows_of_libraries_are_those_that_pyelftools_decodes(path: str) -> None:
    """Each row of each function, at its first and last address."""
    size = len(frames_of(path).rows)
    compare(path, of=max(size // 4000, 1))


@x86_64
@pytest.mark.exhaustive
@pytest.mark.parametrize("path", libraries(), ids=os.path.basename)
def test_every_row_is_that_which_pyelftools_decodes(path: str) -> None:
    """All functions of all that this process has mapped."""
    compare(path)


# ---- made sections ----


def number(value: int) -> bytes:
    """ULEB128."""
    out = bytearray()
    while True:
        out.append(value & 0x7F | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def block(identifier: int, body: bytes) -> bytes:
    """An entry of .eh_frame."""
    body = struct.pack("<I", identifier) + body
    body += bytes(-len(body) % 4)
    return struct.pack("<I", len(body)) + body


CIE = block(0, b"\x01zR\0" + b"\x01\x78\x10" + b"\x01\x00" + b"\x0c\x07\x08" + b"\x90\x01")
"""Pointers are absolute; the CFA is rsp + 8, and the return address below it."""


def function(start: int, size: int, program: bytes, *, at: int = len(CIE)) -> bytes:
    """A description that follows the CIE at 0; ``at``: its own place."""
    return block(at + 4, struct.pack("<QQ", start, size) + b"\0" + program)


def compile_section(data: bytes, low: int = 0x1000, high: int = 0x10000) -> tuple[np.ndarray, np.ndarray, int]:
    """The rows, the rules and how many descriptions were refused."""
    compiler = Compiler(62, 0, low, high)
    compiler.add(data, 0, True)
    rows, rules = compiler.compile()
    return np.frombuffer(rows, ROW), np.frombuffer(rules, RULE), compiler.refused


def test_a_function_ends_where_it_says() -> None:
    """Behind it nothing is known."""
    rows, rules, refused = compile_section(CIE + function(0x1000, 0x20, b"\x44\x0e\x10"))
    assert rows["address"].tolist() == [0x1000, 0x1004, 0x1020]
    assert [compiled(rules[rule])[0] for rule in rows["rule"]] == [OFFSET, OFFSET, NONE]
    assert rules[rows["rule"]]["offset"].tolist() == [8, 16, 0]
    assert refused == 0


def test_functions_are_sorted_and_one_behind_the_other_leaves_no_gap() -> None:
    """Whatever their order in the file."""
    second = function(0x1020, 0x10, b"\x41\x0e\x20")
    first = function(0x1000, 0x20, b"\x42\x0e\x30", at=len(CIE) + len(second))
    rows, rules, _ = compile_section(CIE + second + first)
    assert rows["address"].tolist() == [0x1000, 0x1002, 0x1020, 0x1021, 0x1030]
    assert rules[rows["rule"]]["offset"].tolist() == [8, 48, 8, 32, 0]


def test_the_undefined_return_address_is_the_outermost_frame() -> None:
    """As in _start."""
    rows, rules, _ = compile_section(CIE + function(0x1000, 0x20, b"\x07\x10"))
    assert rules[rows["rule"][0]]["return_at"] == OUTERMOST


def test_a_damaged_program_leaves_its_function_without_a_rule() -> None:
    """An instruction that there is not; restore without remember."""
    for program in (b"\x3f", b"\x0b", b"\x0a" * 40, b"\x0f\x7f"):
        rows, rules, refused = compile_section(CIE + function(0x1000, 0x20, b"\x41\x0e\x10" + program))
        assert refused == 1, program
        assert rows["address"].tolist() == [0x1000, 0x1020]
        assert compiled(rules[rows["rule"][0]]) == (UNKNOWN,)


def test_what_is_outside_the_code_is_refused() -> None:
    """Before, behind, across the end, and empty."""
    for start, size in ((0xFFF, 2), (0x10000, 1), (0xFFFF, 2), (0x1000, 0), (0x1000, 1 << 63), (1 << 63, 1)):
        rows, _, refused = compile_section(CIE + function(start, size, b""))
        assert (len(rows), refused) == (0, 1), (start, size)


def test_work_is_bounded() -> None:
    """Many functions that share long beginnings end in refusals, and soon."""
    long = block(0, b"\x01zR\0" + b"\x01\x78\x10" + b"\x01\x00" + b"\x0c\x07\x08" + b"\x90\x01" + b"\x00" * 100_000)
    other = long[:-1] + b"\x00"
    data = long + other
    for i in range(2000):
        at = len(data)
        data += block(at + 4 - (len(long) if i % 2 else 0), struct.pack("<QQ", 0x1000 + i, 1) + b"\0")
    _, _, refused = compile_section(data)
    assert refused > 0


@given(
    st.lists(
        st.tuples(
            st.integers(0x1000, 0x1400),
            st.integers(1, 0x100),
            st.lists(
                st.one_of(
                    st.integers(1, 0x3F).map(lambda n: bytes([0x40 | n])),
                    st.integers(0, 300).map(lambda n: b"\x0e" + number(n)),
                    st.sampled_from((3, 6, 12, 13, 14, 15)).map(lambda r: bytes([0x80 | r, 2])),
                    st.sampled_from((3, 6, 12)).map(lambda r: bytes([0xC0 | r])),
                    st.sampled_from((b"\x0a\x0e\x40\x0b", b"\x0d\x06", b"\x08\x06", b"\x07\x03", b"\x16\x06\x01\x30")),
                    st.sampled_from(
                        (b"\x0f\x03\x77\x08\x06\x41\x0c\x07\x10", b"\x10\x06\x02\x76\x00", b"\x10\x0f\x02\x77\x10")
                    ),
                ),
                max_size=12,
            ),
        ),
        max_size=6,
    )
)
def test_made_sections_are_decoded_as_by_pyelftools(made: list[tuple[int, int, list[bytes]]]) -> None:
    """Rows of functions that do not overlap are those of pyelftools; the others are cut at the next."""
    from elftools.dwarf.callframe import CallFrameInfo
    from elftools.dwarf.structs import DWARFStructs

    data = CIE
    for start, size, program in made:
        data += function(start, size, b"".join(program), at=len(data))
    rows, rules, _ = compile_section(data)
    assert np.all(np.diff(rows["address"].astype(int)) > 0)
    structs = DWARFStructs(little_endian=True, dwarf_format=32, address_size=8)
    entries = CallFrameInfo(BytesIO(data), len(data), 0, structs, for_eh_frame=True).get_entries()
    functions = [entry for entry in entries if isinstance(entry, FDE)]
    for entry in functions:
        start, size = entry.header["initial_location"], entry.header["address_range"]
        others = [other.header["initial_location"] for other in functions if other is not entry]
        if start in others:
            continue
        limit = min([start + size, *(other for other in others if other > start)])
        table = entry.get_decoded().table
        for i, line in enumerate(table):
            last = min(table[i + 1]["pc"], limit) if i + 1 < len(table) else limit
            if line["pc"] < last:
                place = int(np.searchsorted(rows["address"], line["pc"], side="right")) - 1
                assert compiled(rules[rows["rule"][place]]) == expected(line, False)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_are_compiled(data: bytes, at: int) -> None:
    """Rows ascend, and their rules exist."""
    whole = CIE + function(0x1000, 0x20, b"\x44\x0e\x10")
    rows, rules, _ = compile_section(whole[:at] + data + whole[at:])
    assert np.all(np.diff(rows["address"].astype(int)) > 0)
    assert not len(rows) or int(rows["rule"].max()) < len(rules)


# ---- files, and the cache ----


def part_of(data: bytes, size: int, at: int) -> bytes:
    """So many bytes of a file, from here on."""
    return data[at : at + size]


def test_what_is_no_elf_file_says_so() -> None:
    """In a few words."""
    for data in (b"", b"#!/bin/sh\n", b"\x7fELF" + bytes(10), b"\x7fELF\x01\x01" + bytes(60)):
        with pytest.raises(CallFrameError):
            read_call_frames(partial(part_of, data))


@x86_64
def test_a_file_without_section_headers_has_the_same_rows() -> None:
    """Its .eh_frame is found by the program header."""
    data = bytearray(Path("/proc/self/exe").read_bytes())
    data[40:48] = bytes(8)
    found = read_call_frames(lambda size, at: bytes(data[at : at + size]))
    whole = frames_of("/proc/self/exe")
    assert np.array_equal(found.rows, whole.rows)
    assert np.array_equal(found.rules, whole.rules)


@x86_64
def test_the_place_where_a_program_begins_has_no_caller(tmp_path: Path) -> None:
    """Also where its first instructions have no call frame information."""
    source = tmp_path / "one.S"
    source.write_text(
        ".globl _start\n.text\nmain: .cfi_startproc\nret\n.cfi_endproc\n_start: call main\n.zero 200\n"
        "other: .cfi_startproc\nret\n.cfi_endproc\n"
    )
    target = tmp_path / "one"
    made = subprocess.run(["cc", "-nostdlib", "-o", target, source], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("this compiler cannot make it")
    frames = frames_of(target)
    starts, entry = frames.rows["address"].tolist(), frames.entry - frames.base

    def at(address: int) -> Any:
        return frames.rules[frames.rows["rule"][bisect_right(starts, address) - 1]]

    assert at(entry)["return_at"] == at(entry + 127)["return_at"] == OUTERMOST
    assert at(entry - 1)["cfa"] == OFFSET
    assert at(entry - 1)["return_at"] == -8
    assert at(entry + 128)["cfa"] == NONE
    assert at(entry + 205)["return_at"] == -8


@x86_64
def test_compressed_debug_frame_is_read(tmp_path: Path) -> None:
    """Where there is no .eh_frame."""
    source = tmp_path / "one.c"
    source.write_text("int main(int n, char **v) { return n > 1 && v[1][0] == 'x'; }\n")
    target = tmp_path / "one"
    flags = ["-g", "-O1", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-nostartfiles", "-nostdlib"]
    made = subprocess.run(["cc", *flags, "-Wl,-e,main", "-gz=zlib", "-o", target, source], capture_output=True)
    if made.returncode:
        pytest.skip("this compiler cannot make it")
    assert len(frames_of(target).rows) >= 2


def test_a_table_is_kept_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that was changed on disk is made again."""
    monkeypatch.setattr("headway.binary.call_frames._WORTH_KEEPING", 0)
    kept = Kept(tmp_path / "frames")
    first = frames_of(sys.executable, kept)
    (file,) = (tmp_path / "frames").iterdir()
    again = frames_of(sys.executable, kept)
    assert (first.kept, again.kept) == (False, True)
    assert np.array_equal(first.rows, again.rows)
    assert np.array_equal(first.rules, again.rules)
    data = bytearray(file.read_bytes())
    for damage in (data[:-1], data[:20], b"", data[:-1] + bytes([data[-1] ^ 1]), b"X" + data[1:]):
        file.write_bytes(damage)
        assert not frames_of(sys.executable, kept).kept
    file.chmod(0o666)
    assert not frames_of(sys.executable, kept).kept


def test_the_cache_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest tables make room."""
    monkeypatch.setattr("headway.binary.call_frames._WORTH_KEEPING", 0)
    (tmp_path / "old").write_bytes(bytes(1000))
    os.utime(tmp_path / "old", (1, 1))
    frames_of(sys.executable, Kept(tmp_path, most=1 << 30))
    assert (tmp_path / "old").exists()
    for file in tmp_path.iterdir():
        if file.name != "old":
            file.unlink()
    frames_of(sys.executable, Kept(tmp_path, most=1))
    assert not (tmp_path / "old").exists()


def test_the_cache_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG_CACHE_HOME, else below the home."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/headway/frames")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_folder() == Path("/home/someone/.cache/headway/frames")
