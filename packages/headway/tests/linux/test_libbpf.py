"""Which libbpf is loaded: the one inside the package, or the system's."""

from __future__ import annotations

import ctypes.util
from pathlib import Path

import pytest

from headway.errors import HeadwayError
from headway.linux.bpf.programs import libbpf
from headway.linux.bpf.programs.libbpf import SONAME, Library, bundled, find_library
from headway.linux.doctor.capabilities import Kernel, System, _libbpf


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package's folder for libraries, with none in it."""
    monkeypatch.setattr(libbpf, "__file__", str(tmp_path / "bpf" / "programs" / "libbpf.py"))
    (tmp_path / "lib").mkdir()
    return tmp_path / "lib"


def in_doctor() -> tuple[bool, str, str | None]:
    found = _libbpf(System(kernel=Kernel()))
    return found.available, found.why, found.remedy


def test_the_systems_is_loaded_where_the_package_has_none(package: Path) -> None:
    assert bundled() is None
    assert find_library() == SONAME


def test_the_packages_own_is_loaded_where_it_has_one(package: Path) -> None:
    (package / SONAME).touch()
    assert find_library() == str(package / SONAME)


@pytest.mark.end_to_end
def test_doctor_speaks_of_the_one_that_is_loaded(package: Path) -> None:
    try:
        there = Path(
            next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if SONAME in line)
        )
    except StopIteration:
        try:
            ctypes.CDLL(SONAME)
        except OSError:
            pytest.skip("libbpf is not installed")
        maps = Path("/proc/self/maps").read_text().splitlines()
        there = Path(next(line.split()[-1] for line in maps if "libbpf.so" in line))
    assert in_doctor()[1].endswith("the system's")
    (package / SONAME).symlink_to(there)
    assert Library().version == Library(SONAME).version
    assert in_doctor()[1].endswith("inside the package")


def test_one_inside_the_package_that_does_not_load_is_said(package: Path) -> None:
    (package / SONAME).write_text("not a library")
    with pytest.raises(HeadwayError, match=r"came with headway cannot be loaded .*force-reinstall.*--source proc"):
        Library()
    available, why, remedy = in_doctor()
    assert (available, remedy) == (False, "pip install --force-reinstall headway")
    assert "inside the package" in why
