"""Compile eBPF C to one CO-RE object: ``compile.py SOURCE OBJECT [CACHE [ARCHITECTURE [COMPILER]]]``.

ARCHITECTURE is that of the kernel that will load the object, as in ``uname -m``. The default is this machine's.
COMPILER is ``clang`` (the system's, which must know the bpf target), ``zig`` (the clang inside the ``ziglang`` wheel,
which is a build requirement) or ``auto``: the first of them that is there. Run by meson at build time and by the
benchmarks.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["compile_bpf"]

FLAGS = ["-g", "-O2", "-mcpu=v3", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fno-stack-protector"]
FLAGS += ["-ffile-compilation-dir=."]  # no name of the folder where it was built
ARCHITECTURES = {"x86_64": "x86", "aarch64": "arm64"}


def _compiler(wanted: str) -> list[str]:
    clang = None if wanted == "zig" else shutil.which("clang")
    if clang:
        targets = subprocess.run([clang, "--print-targets"], capture_output=True, text=True, check=False).stdout
        if "bpfel" in targets:
            return [clang, "--target=bpfel"]
    if wanted == "clang":
        raise SystemExit("there is no clang with the bpf target: install one, or build with -Dbpf_compiler=zig")
    return [sys.executable, "-m", "ziglang", "cc", "--target=bpfel-freestanding"]


def compile_bpf(
    source: Path, target: Path, cache: Path, architecture: str | None = None, compiler: str = "auto"
) -> None:
    """Compile one eBPF C file. Raises CalledProcessError with clang's words shown.

    ``architecture``: of the kernel that will load it, as in ``uname -m``; None: this machine's.
    """
    machine = architecture or platform.machine()
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
    defined = f"-D__TARGET_ARCH_{ARCHITECTURES.get(machine, machine)}"
    arguments = [*FLAGS, defined, "-I", str(Path(__file__).parents[1])]
    command = [*_compiler(compiler), *arguments, "-c", str(source), "-o", str(target)]
    subprocess.run(command, check=True, env=environment, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    given = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        compile_bpf(Path(given[0]), Path(given[1]), Path(given[2] if len(given) > 2 else scratch), *given[3:5])
