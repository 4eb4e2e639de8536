"""Compile eBPF C to one CO-RE object: ``compile.py SOURCE OBJECT [CACHE]``.

Uses the system's clang where it knows the bpf target, else the clang inside the ``ziglang`` wheel, which is a build
requirement. Run by meson at build time and by the benchmarks.
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
ARCHITECTURES = {"x86_64": "x86", "aarch64": "arm64"}


def _compiler() -> list[str]:
    clang = shutil.which("clang")
    if clang:
        targets = subprocess.run([clang, "--print-targets"], capture_output=True, text=True, check=False).stdout
        if "bpfel" in targets:
            return [clang, "--target=bpfel"]
    return [sys.executable, "-m", "ziglang", "cc", "--target=bpfel-freestanding"]


def compile_bpf(source: Path, target: Path, cache: Path) -> None:
    """Compile one eBPF C file for this machine's architecture. Raises CalledProcessError with clang's words shown."""
    architecture = ARCHITECTURES.get(platform.machine(), platform.machine())
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}
    arguments = [*FLAGS, f"-D__TARGET_ARCH_{architecture}", "-I", str(Path(__file__).parent)]
    command = [*_compiler(), *arguments, "-c", str(source), "-o", str(target)]
    subprocess.run(command, check=True, env=environment, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        compile_bpf(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3] if len(sys.argv) > 3 else scratch))
