"""Compiling programs that mark regions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.compiling import PROGRAMS

import headway

Compile = Callable[..., Path]

COMPILERS = {
    "gcc": (["gcc"], ["g++"]),
    # As "c++" it would first build a C++ library, for a minute; without exceptions the header needs none.
    "clang": ([sys.executable, "-m", "ziglang", "cc"], [sys.executable, "-m", "ziglang", "cc", "-fno-exceptions"]),
}


@pytest.fixture(scope="session")
def compile_marked(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """``compile_marked(*sources, flags, compiler, language)`` compiles files of ``tests/programs/``."""
    folder = tmp_path_factory.mktemp("marked")
    made: dict[tuple[object, ...], Path] = {}

    def build(
        *sources: str,
        flags: tuple[str, ...] = (),
        compiler: str = "gcc",
        language: str = "c",
    ) -> Path:
        key = (*sources, flags, compiler, language)
        if key in made:
            return made[key]
        command = [*COMPILERS[compiler][language == "c++"]]
        if shutil.which(command[0]) is None:
            pytest.skip(f"needs {command[0]}")
        if "ziglang" in command:
            pytest.importorskip("ziglang", reason="needs the clang in the ziglang wheel")
        target = folder / f"program{len(made)}"
        paths = [str(PROGRAMS / source) for source in sources]
        warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        options = ["-O2", "-pthread", *warnings, f"-I{headway.get_include()}", "-o", str(target)]
        libraries = [] if "-c" in flags else ["-ldl"]
        command += [*options, *flags, "-x", language, *paths, "-x", "none", *libraries]
        subprocess.run(command, check=True)
        made[key] = target
        return target

    return build
