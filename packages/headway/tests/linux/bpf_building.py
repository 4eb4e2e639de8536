"""eBPF objects made for a test: compiled where there is a compiler for them, otherwise the test is skipped."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from headway.linux.bpf.programs.compile import ARCHITECTURES, FLAGS, compile_bpf

from .bpf_objects import BpfObject

__all__ = ["HEAD", "build", "build_text", "complaints"]

BPF = Path(__file__).parents[2] / "src/headway/linux/bpf"

HEAD = """
#include "shared/kernel.h"
#pragma clang diagnostic ignored "-Wunused-parameter"
char LICENSE[] SEC("license") = "Dual BSD/GPL";
"""
"""How the source of an object begins."""


def build(source: Path, folder: Path, architecture: str) -> BpfObject:
    """Compile a source for an architecture, as in ``uname -m``, and read the object."""
    _need_clang()
    target = folder / f"{source.stem}.{architecture}.o"
    compile_bpf(source, target, folder / "cache", architecture)
    return BpfObject(target.read_bytes())


def build_text(text: str, folder: Path, architecture: str = "x86_64") -> BpfObject:
    """Compile what follows `HEAD`, and read the object."""
    source = folder / "made.bpf.c"
    source.write_text(HEAD + text)
    return build(source, folder, architecture)


def complaints(texts: Mapping[str, str], folder: Path) -> str:
    """Return what the compiler has against these texts, by name, which follow `HEAD`; empty: nothing.

    It starts once for all of them, reads each on its own and generates no code.
    """
    _need_clang()
    command = ["clang"] if shutil.which("clang") else [sys.executable, "-m", "ziglang", "clang"]
    for name, text in texts.items():
        (folder / f"{name}.bpf.c").write_text(HEAD + text)
    defined = f"-D__TARGET_ARCH_{ARCHITECTURES['x86_64']}"
    options = ["--target=bpfel", *FLAGS, "-fsyntax-only", defined, "-I", str(BPF)]
    sources = [f"{name}.bpf.c" for name in texts]
    done = subprocess.run([*command, *options, *sources], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (not done.stderr)
    return done.stderr


def _need_clang() -> None:
    if shutil.which("clang") is None:
        pytest.importorskip("ziglang", reason="needs clang, or the one in the ziglang wheel")
