"""Compiling programs that mark regions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import headway

Compile = Callable[..., Path]

COMPILERS = {
    "gcc": (["gcc"], ["g++"]),
    # As "c++" it would first build a C++ library, for a minute; without exceptions the header needs none.
    "clang": ([sys.executable, "-m", "ziglang", "cc"], [sys.executable, "-m", "ziglang", "cc", "-fno-exceptions"]),
}


@pytest.fixture(scope="session")
def compile_marked(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """``compile_marked(*sources, flags, compiler, language)`` gives the path of what was made of these texts."""
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
        command = COMPILERS[compiler][language == "c++"]
        if shutil.which(command[0]) is None:
            pytest.skip(f"needs {command[0]}")
        if "ziglang" in command:
            pytest.importorskip("ziglang", reason="needs the clang in the ziglang wheel")
        target = folder / f"program{len(made)}"
        paths = []
        for number, text in enumerate(sources):
            path = folder / f"program{len(made)}-{number}.{'cc' if language == 'c++' else 'c'}"
            path.write_text(text)
            paths.append(str(path))
        warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        options = ["-O2", "-pthread", *warnings, f"-I{headway.get_include()}", "-o", str(target)]
        subprocess.run([*command, *options, *flags, *paths, *([] if "-c" in flags else ["-ldl"])], check=True)
        made[key] = target
        return target

    return build
