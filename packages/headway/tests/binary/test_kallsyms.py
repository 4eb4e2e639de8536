"""The kernel's symbols."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headway.binary.kallsyms import KernelSymbols, parse

TEXT = """\
ffffffff81000000 T _stext
ffffffff81000100 t do_one
ffffffff81000200 D some_data
ffffffff81000300 W weak_one
ffffffffc0000000 t in_module\t[ext4]
nonsense
zz T bad
"""


def symbols(tmp_path: Path, text: str) -> KernelSymbols:
    path = tmp_path / "kallsyms"
    path.write_text(text)
    return KernelSymbols(path)


def test_functions_and_modules_are_found(tmp_path: Path) -> None:
    kernel = symbols(tmp_path, TEXT)
    assert kernel.at(0xFFFFFFFF81000105) == ("do_one", "[kernel]")
    assert kernel.at(0xFFFFFFFF81000210) == ("do_one", "[kernel]")
    assert kernel.at(0xFFFFFFFF81000300) == ("weak_one", "[kernel]")
    assert kernel.at(0xFFFFFFFFC0000010) == ("in_module", "[ext4]")
    assert kernel.at(0x1000) is None
    assert not kernel.hidden


def test_variables_are_found_where_the_kernel_shows_them(tmp_path: Path) -> None:
    path = tmp_path / "kallsyms"
    path.write_text("ffffffff82000000 D cgroup_mutex\nffffffff82000020 b other\nffffffff81000000 T function\n")
    symbols = KernelSymbols(path)
    assert symbols.data_at(0xFFFFFFFF82000000) == "cgroup_mutex"
    assert symbols.data_at(0xFFFFFFFF82000030) == "other+0x10"
    assert symbols.data_at(0xFFFFFFFF83000000) is None, "no variable is as large"
    assert symbols.data_at(0xFFFF888012345678) is None
    assert KernelSymbols(tmp_path / "none").data_at(1) is None


def test_addresses_that_are_hidden_are_said_to_be(tmp_path: Path) -> None:
    kernel = symbols(tmp_path, "0000000000000000 T _stext\n0000000000000000 t do_one\n")
    assert kernel.hidden
    assert kernel.at(0xFFFFFFFF81000105) is None


def test_a_kernel_that_shows_none_is_hidden(tmp_path: Path) -> None:
    kernel = KernelSymbols(tmp_path / "nothing")
    assert kernel.hidden
    assert kernel.at(5) is None


@given(st.text(max_size=300))
def test_whatever_is_in_it_is_read_or_passed_over(text: str) -> None:
    addresses, names = parse(text)
    assert len(addresses) == len(names)
    assert list(addresses) == sorted(addresses)
