"""What a process has mapped, whatever the files are called."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.linux.procfs.maps import mappings, parse

LINE = b"7f0000000000-7f0000001000 r-xp 00000000 00:01 7 /usr/lib/real"


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x85", "\n"])
def test_no_files_name_makes_a_mapping_of_another(tmp_path: Path, end: str) -> None:
    path = tmp_path / f"x{end}{LINE.decode().replace('/', '_')}"
    path.write_bytes(bytes(4096))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ):
        found = mappings(os.getpid())
    assert str(path) in {mapping.path for mapping in found}
    assert 0x7F0000000000 not in {mapping.start for mapping in found}


@given(st.lists(st.sampled_from([LINE, b"no line", b"/x/needle", LINE + b"needle", b""]) | st.binary(max_size=80)))
def test_the_lines_with_some_bytes_in_them_are_those_of_all_that_have_them(lines: list[bytes]) -> None:
    text = b"\n".join(lines)
    expected = [mapping for line in text.split(b"\n") if b"needle" in line for mapping in parse(line)]
    assert list(parse(text, b"needle")) == expected
