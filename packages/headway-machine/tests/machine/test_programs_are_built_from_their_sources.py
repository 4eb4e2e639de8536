"""The programs that are kept built are those of the sources beside them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.machine.examples import EXAMPLES, GUEST, names

COMPILER = "riscv64-unknown-elf-gcc"
VERSION = "12.2.0"
"""Of the compiler that they were built with (Debian 12); another one makes other code."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which(COMPILER) is None or shutil.which("make") is None:
        pytest.skip(f"needs {COMPILER} (Debian's gcc-riscv64-unknown-elf) and make")
    found = subprocess.run([COMPILER, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    if found != VERSION:
        pytest.skip(f"needs {COMPILER} {VERSION}: this is {found}")
    folder = tmp_path_factory.mktemp("programs")
    done = subprocess.run(["make", "-s", "-C", GUEST, f"OUT={folder}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", names())
def test_the_same_compiler_gives_the_same_bytes(built: Path, name: str) -> None:
    assert (built / f"{name}.elf").read_bytes() == (EXAMPLES / f"{name}.elf").read_bytes()


@pytest.mark.exhaustive
def test_nothing_is_kept_that_has_no_source(built: Path) -> None:
    assert sorted(path.stem for path in built.glob("*.elf")) == names()


def test_no_path_of_the_builder_is_in_them() -> None:
    for name in names():
        contents = (EXAMPLES / f"{name}.elf").read_bytes()
        assert b"/home" not in contents
        assert b"/tmp" not in contents
        assert str(EXAMPLES).encode() not in contents
