"""A program that is not the one that was traced is not decoded, wherever perf wrote its build ID, and that is said."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.running import headway

from headway.binary.elf import ElfFile
from headway_trace.hosts import open_host
from headway_trace.memory import Files, ProcessMemory
from headway_trace.perfdata.file import Feature, PerfFile
from headway_trace.perfdata.recorded import Recorded

from ..elves import CODE, identified
from ..etmv4 import START, timestamp
from .test_coresight import BASE, found_in, functions, unit, walk, words
from .test_threads import recording
from .writing import Writer, record

RIGHT, WRONG = bytes(range(20)), bytes(range(1, 21))


def entry(name: str, build_id: bytes, *, sized: bool = True) -> bytes:
    """An entry of the table of build IDs (struct perf_record_header_build_id)."""
    body = struct.pack("<i", -1) + build_id.ljust(20, b"\0") + bytes([len(build_id) if sized else 0, 0, 0, 0])
    return record(67, body + name.encode() + b"\0", 1 << 15 if sized else 0)


def traced(folder: Path, now: bytes, table: dict[str, bytes], *, pipe: bool = False) -> tuple[str, str, list[int]]:
    """A recording of CoreSight of one program, whose file has the build ID ``now``: its path, the program's, and what
    was executed."""
    writer = Writer()
    writer.info(3, words(unit(0, 0x10, 0x5050505050505050)))
    code, starts = functions(7)
    program = folder / "program"
    program.write_bytes(identified(code, now))
    writer.mmap2(100, BASE, len(code), str(program), offset=CODE)
    writer.comm(100, 100, "program")
    part, executed = walk(code, starts, random.Random(1), 20, 100)
    data = START + part + timestamp(1000)
    writer.area(data + b"\x05" * (-len(data) % 8), number=0, cpu=0)
    writer.aux(0, len(data), flags=0x100, cpu=0)
    entries = b"".join(entry(name.format(program), build_id) for name, build_id in table.items())
    path = folder / "perf.data"
    if pipe:
        writer.data += entries
        path.write_bytes(writer.pipe())
    else:
        writer.save(path, {Feature.BUILD_ID: entries} if entries else None)
    return str(path), str(program), executed


@pytest.mark.parametrize("pipe", [False, True])
def test_a_program_with_another_build_id_is_not_decoded_and_one_sentence_says_so(tmp_path: Path, pipe: bool) -> None:
    path, program, executed = traced(tmp_path, RIGHT, {"{}": RIGHT}, pipe=pipe)
    capture = open_host(path)
    assert found_in(capture, 100) == executed
    assert capture.left_out == ""
    path, program, executed = traced(tmp_path, WRONG, {"{}": RIGHT}, pipe=pipe)
    capture = open_host(path)
    says = f"{program!a} is not the file that was traced (its build ID differs): give the one that ran with --image"
    assert says in capture.left_out
    done = headway("trace", "decode", path, "--format", "csv")
    assert done.returncode == 125
    assert "executed" not in done.stdout


def test_the_file_that_ran_can_be_given(tmp_path: Path) -> None:
    path, _, executed = traced(tmp_path, WRONG, {"{}": RIGHT})
    (tmp_path / "kept").mkdir()
    kept = tmp_path / "kept/program"
    kept.write_bytes(identified(functions(7)[0], RIGHT))
    assert found_in(open_host(path, [str(kept)]), 100) == executed
    kept.write_bytes(identified(functions(7)[0], bytes(20)))
    recorded = Recorded(path, [str(kept)])
    assert f"{str(kept)!a} is not the file that was traced" in " ".join(recorded.left_out())


@pytest.mark.parametrize("table", [{}, {"/another": WRONG}, {"{}": bytes(20)}])
def test_a_file_of_which_no_build_id_was_written_is_taken(tmp_path: Path, table: dict[str, bytes]) -> None:
    path, _, executed = traced(tmp_path, RIGHT, table)
    capture = open_host(path)
    assert found_in(capture, 100) == executed
    assert capture.left_out == ""


def test_a_file_that_has_lost_its_build_id_is_not_the_one_that_had_one(tmp_path: Path) -> None:
    path, program, _ = traced(tmp_path, b"", {"{}": RIGHT})
    assert f"{program!a} is not the file that was traced (it has no build ID)" in " ".join(Recorded(path).left_out())
    Path(program).write_bytes(b"no ELF file")
    assert f"{program!a} cannot be compared with the file" in " ".join(Recorded(path).left_out())


def test_a_file_that_was_replaced_while_it_was_recorded_may_be_either(tmp_path: Path) -> None:
    path, program, executed = traced(tmp_path, RIGHT, {})
    writer = PerfFile(path)
    assert writer.feature(Feature.BUILD_ID) == b""
    both = entry(program, WRONG) + entry(program, RIGHT)
    path, _, executed = traced(tmp_path, RIGHT, {"{}": RIGHT})
    data = Path(path).read_bytes()
    Path(path).write_bytes(data.replace(entry(program, RIGHT), both))  # the section is the last of the file
    at = data.index(struct.pack("<Q", len(entry(program, RIGHT))), len(data) - len(entry(program, RIGHT)) - 16)
    changed = bytearray(Path(path).read_bytes())
    struct.pack_into("<Q", changed, at, len(both))
    Path(path).write_bytes(bytes(changed))
    assert found_in(open_host(path), 100) == executed


def test_a_program_of_intel_pt_is_compared_too(tmp_path: Path) -> None:
    made = recording(tmp_path, 5, 4)
    data = Path(made.path).read_bytes()
    assert not Recorded(made.path).left_out()
    program = str(tmp_path / "program0")
    table = entry(program, RIGHT)
    bits = bytearray(data)
    bits[72] |= 1 << Feature.BUILD_ID
    start, size = struct.unpack_from("<QQ", data, 40)
    behind = start + size
    place, length = struct.unpack_from("<QQ", data, behind)  # of the processor's name, which was the only feature
    sections = struct.pack("<QQQQ", behind + 32, len(table), behind + 32 + len(table), length)
    Path(made.path).write_bytes(bytes(bits[:behind]) + sections + table + data[place : place + length])
    assert f"{program!a} cannot be compared with the file that was traced" in " ".join(Recorded(made.path).left_out())
    Path(program).write_bytes(identified(b"\x90" * 64, WRONG, machine=62))
    assert f"{program!a} is not the file that was traced" in " ".join(Recorded(made.path).left_out())


def test_another_kernel_is_left_out(tmp_path: Path) -> None:
    path, _, _ = traced(tmp_path, RIGHT, {"{}": RIGHT, "[kernel.kallsyms]": RIGHT})
    kernel = tmp_path / "vmlinux-6.1"
    for build_id in (RIGHT, WRONG):
        kernel.write_bytes(identified(b"\x1f\x20\x03\xd5", build_id, base=0xFFFF800008000000))
        recorded = Recorded(path, [str(kernel)])
        assert (str(kernel) in recorded.images) == (build_id == RIGHT)
        assert any(f"{str(kernel)!a} is not the file" in one for one in recorded.left_out()) == (build_id == WRONG)


@given(st.binary(max_size=200))
def test_any_table_of_build_ids_is_read(tmp_path_factory: pytest.TempPathFactory, table: bytes) -> None:
    folder = tmp_path_factory.mktemp("table")
    writer = Writer()
    writer.info(3, words(unit(0, 0x10, 0x5050505050505050)))
    writer.mmap2(100, BASE, 64, str(folder / "program"))
    writer.area(START + bytes(4))
    path = writer.save(folder / "perf.data", {Feature.BUILD_ID: table})
    Recorded(path).left_out()


@pytest.mark.parametrize(("machine", "wide"), [(183, True), (62, True), (40, False), (243, True), (3, False)])
def test_the_programs_of_other_processors_have_names_and_build_ids(tmp_path: Path, machine: int, wide: bool) -> None:
    code, base = bytes(range(64)), 0x10000
    program = tmp_path / "program"
    program.write_bytes(identified(code, RIGHT, machine=machine, wide=wide, base=base))
    with ElfFile(str(program), any_processor=True) as elf:
        assert elf.build_id == RIGHT.hex()
        assert elf.segments() == [(base, CODE, len(code))]
        assert [(symbol.name, symbol.address, symbol.size) for symbol in elf.symbols()] == [("work", base, len(code))]
    memory = ProcessMemory(Files())
    memory.add_file(str(program))
    assert memory.read(base + 8, 8) == code[8:16]
    assert memory.symbol(base + 8) == "work"
