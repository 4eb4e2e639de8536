"""Symbols of real files agree with what nm and the dynamic linker say; files that lie cost one sentence, not more."""

from __future__ import annotations

import ctypes
import lzma
import os
import platform
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.compiling import Compile

from headway.binary.elf import ElfError, ElfFile, SymbolKind
from headway.linux.procfs.maps import mappings


@pytest.fixture(scope="module")
def program(compile_c: Compile) -> Path:
    return compile_c("elf")


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name} (binutils)")
    return found


def read_everything(image: ElfFile) -> int:
    """Ask all there is to be asked; how many symbols there are."""
    assert image.soname is None or isinstance(image.soname, str)
    assert isinstance(image.needed, tuple)
    assert isinstance(image.search_path, tuple)
    assert isinstance(image.throws, bool)
    assert isinstance(image.is_go, bool)
    image.bias(0x1000, 0)
    known = image.thread_local("errno")
    assert known is None or isinstance(known.slots, tuple)
    count = 0
    for symbol in image.symbols():
        image.file_offset(symbol.address)
        image.holds(symbol.address)
        count += 1
    return count


# ---- hostile files ----


def refusal(data: bytes) -> str | None:
    """What is said of an image that cannot be read; None: it can."""
    try:
        with ElfFile.of_bytes(data, "x") as image:
            read_everything(image)
    except ElfError as error:
        return str(error)
    return None


def assert_readable_or_refused(data: bytes) -> None:
    words = refusal(data)
    assert words is None or (words.startswith("x ") and "\n" not in words)


@pytest.fixture(scope="module")
def small(compile_c: Compile) -> bytes:
    return compile_c("elf").read_bytes()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_bytes_changed_give_symbols_or_one_sentence(small: bytes, data: st.DataObject) -> None:
    changed = bytearray(small)
    table = struct.unpack_from("<Q", small, 40)[0]
    # Where lies count most: the header, the segments, the sections' headers.
    places = st.one_of(st.integers(4, 900), st.integers(table, len(small) - 8), st.integers(0, len(small) - 8))
    for _ in range(data.draw(st.integers(1, 6))):
        value = data.draw(st.sampled_from([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF]))
        struct.pack_into("<Q", changed, data.draw(places), value)
    assert_readable_or_refused(bytes(changed))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(length=st.integers(0, 20_000))
def test_a_file_cut_short_gives_symbols_or_one_sentence(small: bytes, length: int) -> None:
    assert_readable_or_refused(small[:length])


@given(st.binary(max_size=300))
@example(b"\x7fELF\x02\x01\x01" + bytes(57))
def test_noise_is_no_elf_file(noise: bytes) -> None:
    with pytest.raises(ElfError):
        ElfFile.of_bytes(noise, "x").symbols().__next__()


def test_a_file_with_more_sections_than_fit_costs_bounded_work(small: bytes) -> None:
    lying = bytearray(small)
    struct.pack_into("<H", lying, 60, 0)  # e_shnum 0: the number is in the first section's size
    table = struct.unpack_from("<Q", small, 40)[0]
    struct.pack_into("<Q", lying, table + 32, 1 << 60)
    with ElfFile.of_bytes(bytes(lying), "x") as image, pytest.raises(ElfError, match="sections"):
        read_everything(image)


def test_other_machines_sizes_and_kinds_of_file_are_refused(tmp_path: Path, small: bytes) -> None:
    other, narrow = bytearray(small), bytearray(small)
    struct.pack_into("<H", other, 18, 243)  # EM_RISCV
    narrow[4] = 1
    for changed, words in ((other, "another kind of processor"), (narrow, "32-bit"), (b"#!/bin/sh\n", "a script")):
        with pytest.raises(ElfError, match=words):
            ElfFile.of_bytes(bytes(changed), "x")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ElfError, match="a pipe"):
        ElfFile(str(tmp_path / "pipe"))
    with pytest.raises(ElfError, match="a directory"):
        ElfFile(str(tmp_path))
    with pytest.raises(ElfError, match="No such file"):
        ElfFile(str(tmp_path / "absent"))
    with pytest.raises(ElfError, match="not a file name"):
        ElfFile("a\0b")


def test_a_file_that_may_not_be_read_is_said_to_need_root(tmp_path: Path, small: bytes) -> None:
    path = tmp_path / "secret"
    path.write_bytes(small)
    path.chmod(0o4711)
    if os.geteuid() == 0:
        tmp_path.chmod(0o755)
        for folder in tmp_path.parents:
            if folder != Path("/tmp") and str(folder).startswith("/tmp/"):
                folder.chmod(0o755)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setuid(65534)
                ElfFile(str(path))
            except ElfError as error:
                status = 0 if "may not be read" in str(error) else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    else:
        path.chmod(0o111)
        with pytest.raises(ElfError, match="may not be read"):
            ElfFile(str(path))


# ---- real files ----


def test_addresses_are_those_that_nm_tells(program: Path) -> None:
    output = subprocess.run([tool("nm"), program], capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in output.splitlines()]
    told = {words[2]: int(words[0], 16) for words in lines if len(words) == 3}
    with ElfFile(str(program)) as image:
        found = {symbol.name: symbol.address for symbol in image.symbols() if symbol.defined}
    assert {name: found[name] for name in ("inner", "outer", "main", "table", "zero")} == {
        name: told[name] for name in ("inner", "outer", "main", "table", "zero")
    }


def test_kinds_of_symbols_are_told_apart(program: Path) -> None:
    with ElfFile(str(program)) as image:
        kinds = {symbol.name: (symbol.kind, symbol.size) for symbol in image.symbols()}
    assert kinds["outer"][0] is SymbolKind.FUNCTION
    assert kinds["table"] == (SymbolKind.DATA, 400)
    assert kinds["zero"] == (SymbolKind.DATA, 200)


def test_a_function_s_offset_and_the_bias_lead_to_where_the_dynamic_linker_put_it() -> None:
    mapping = next((m for m in mappings(os.getpid()) if "libc.so.6" in m.path and "x" in m.permissions), None)
    if mapping is None:
        pytest.skip("needs glibc")
    address = ctypes.cast(ctypes.CDLL("libc.so.6").malloc, ctypes.c_void_p).value
    with ElfFile(mapping.path) as image:
        symbol = next(s for s in image.symbols() if s.name == "malloc" and s.default)
        assert symbol.address + (image.bias(mapping.start, mapping.offset) or 0) == address
        assert mapping.start + (image.file_offset(symbol.address) or 0) - mapping.offset == address


def test_versions_are_told_and_the_default_one_is_known() -> None:
    libc = next((m.path for m in mappings(os.getpid()) if m.path.endswith("/libc.so.6")), None)
    if libc is None or platform.machine() != "x86_64":
        pytest.skip("needs glibc on x86-64, where pthread_cond_wait has two versions")
    with ElfFile(libc) as image:
        versions = {(s.version, s.default) for s in image.symbols() if s.name == "pthread_cond_wait" and s.version}
    assert ("GLIBC_2.3.2", True) in versions
    assert ("GLIBC_2.2.5", False) in versions


def stripped(program: Path, folder: Path) -> Path:
    copy = folder / "stripped"
    subprocess.run([tool("strip"), "-o", copy, program], check=True)
    return copy


def names(path: Path, root: str = "/") -> set[str]:
    with ElfFile(str(path), root=root) as image:
        return {symbol.name for symbol in image.symbols()}


def test_a_stripped_file_has_its_symbols_from_the_debug_file_with_its_build_id(program: Path, tmp_path: Path) -> None:
    copy = stripped(program, tmp_path)
    assert "inner" not in names(copy)
    with ElfFile(str(copy)) as image:
        identifier = image.build_id
    if identifier is None:
        pytest.skip("needs a compiler that writes build ids")
    root = tmp_path / "root"
    debug = root / "usr/lib/debug/.build-id" / identifier[:2] / f"{identifier[2:]}.debug"
    debug.parent.mkdir(parents=True)
    subprocess.run([tool("objcopy"), "--only-keep-debug", program, debug], check=True)
    assert "inner" in names(copy, str(root))
    other = tmp_path / "other.c"
    other.write_text("int main(void) { return 7; } int inner(void) { return 1; }")
    subprocess.run(["cc", "-o", debug, other], check=True)
    assert "inner" not in names(copy, str(root)), "it is another file's"


def test_a_stripped_file_has_its_symbols_from_the_file_that_it_links_to(program: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([tool("objcopy"), "--remove-section=.note.gnu.build-id", program, bare], check=True)
    debug = tmp_path / "bare.debug"
    subprocess.run([tool("objcopy"), "--only-keep-debug", bare, debug], check=True)
    subprocess.run([tool("strip"), bare], check=True)
    subprocess.run([tool("objcopy"), f"--add-gnu-debuglink={debug}", bare], check=True)
    assert "inner" in names(bare)
    debug.write_bytes(debug.read_bytes() + b"x")
    assert "inner" not in names(bare), f"its checksum is another: {zlib.crc32(debug.read_bytes()):#x}"


def test_a_stripped_file_has_its_symbols_from_those_packed_into_it(program: Path, tmp_path: Path) -> None:
    copy = stripped(program, tmp_path)
    packed = tmp_path / "packed.xz"
    packed.write_bytes(lzma.compress(program.read_bytes()))
    subprocess.run([tool("objcopy"), f"--add-section=.gnu_debugdata={packed}", copy], check=True)
    assert "inner" in names(copy)
    packed.write_bytes(b"no archive")
    subprocess.run([tool("objcopy"), f"--update-section=.gnu_debugdata={packed}", copy], check=True)
    with ElfFile(str(copy)) as image, pytest.raises(ElfError, match="damaged"):
        read_everything(image)


def test_programs_through_which_exceptions_pass_are_known(program: Path, tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    source = tmp_path / "throws.cc"
    source.write_text("int main(int n, char **) { try { throw n; } catch (int m) { return m - 1; } }")
    subprocess.run([compiler, "-o", tmp_path / "throws", source], check=True)
    for path, expected in ((tmp_path / "throws", True), (program, False)):
        with ElfFile(str(path)) as image:
            assert image.throws is expected
