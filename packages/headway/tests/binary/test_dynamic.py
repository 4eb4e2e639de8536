"""What ELF files ask of the dynamic loader, and its cache: against readelf and ldconfig, and with any bytes."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.binary.dynamic import Dynamic, read_cache, read_dynamic


def of_bytes(data: bytes) -> Dynamic | None:
    return read_dynamic(lambda size, at: data[at : at + size])


PROGRAM = Path(os.path.realpath(sys.executable)).read_bytes()


@given(st.binary(max_size=300))
def test_any_bytes_are_read(data: bytes) -> None:
    """Nothing is raised."""
    of_bytes(data)
    read_cache(data, 62)
    read_cache(b"glibc-ld.so.cache1.1" + data, 62)


@given(st.dictionaries(st.integers(0, 2047), st.integers(0, 255), max_size=40))
def test_a_damaged_program_is_read(changes: dict[int, int]) -> None:
    """Nothing is raised, and the result is bounded."""
    data = bytearray(PROGRAM)
    for place, value in changes.items():
        data[place] = value
    found = of_bytes(bytes(data))
    assert found is None or len(found.needed) <= 512


def test_needed_libraries_are_those_that_readelf_shows() -> None:
    """Of this Python."""
    if shutil.which("readelf") is None:
        pytest.skip("needs readelf")
    path = os.path.realpath(sys.executable)
    shown = subprocess.run(["readelf", "-dlW", path], capture_output=True, text=True, check=True).stdout
    found = of_bytes(PROGRAM)
    assert found is not None
    assert list(found.needed) == re.findall(r"\(NEEDED\).*\[(.*)\]", shown)
    assert [found.interpreter] == re.findall(r"interpreter: (.*)\]", shown)


names = st.text("abc.so", min_size=1, max_size=8)


@given(st.lists(st.tuples(st.sampled_from([0x0303, 0x0803, 3]), names, names.map("/".__add__)), max_size=20))
def test_the_cache_has_the_paths_by_name_and_machine(entries: list[tuple[int, str, str]]) -> None:
    """Those of x86-64, in their order, at most eight of a name."""
    strings, rows = b"", b""
    base = 48 + 24 * len(entries)
    for flags, name, path in entries:
        at = base + len(strings)
        strings += f"{name}\0{path}\0".encode()
        rows += struct.pack("<iIIIQ", flags, at, at + len(name) + 1, 0, 0)
    data = struct.pack("<20sII20x", b"glibc-ld.so.cache1.1", len(entries), len(strings)) + rows + strings
    wanted: dict[str, list[str]] = {}
    for flags, name, path in entries:
        if flags == 0x0303:
            wanted.setdefault(name, []).append(path)
    assert read_cache(data, 62) == {name: tuple(paths[:8]) for name, paths in wanted.items()}
    assert read_cache(b"ld.so-1.7.0" + bytes(5) + data, 62) == read_cache(data, 62)


def test_the_cache_of_this_system_is_what_ldconfig_prints() -> None:
    """For x86-64."""
    cache = Path("/etc/ld.so.cache")
    ldconfig = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    if not cache.exists() or ldconfig is None or os.uname().machine != "x86_64":
        pytest.skip("needs ldconfig and its cache on x86-64")
    printed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True).stdout
    wanted = re.findall(r"^\t(\S+) \(libc6,x86-64.*\) => (\S+)$", printed, re.MULTILINE)
    found = read_cache(cache.read_bytes(), 62)
    assert sorted((name, path) for name, paths in found.items() for path in paths) == sorted(wanted)
