"""eBPF objects made for a test: compiled where there is a compiler for them, otherwise the test is skipped."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headway.linux.bpf.compile import compile_bpf

from .bpf_objects import BpfObject

__all__ = ["HEAD", "build", "build_text"]

HEAD = """
#include "kernel.h"
#pragma clang diagnostic ignored "-Wunused-parameter"
char LICENSE[] SEC("license") = "Dual BSD/GPL";
"""
"""How the source of an object begins."""


def build(source: Path, folder: Path, architecture: str) -> BpfObject:
    """Compile a source for an architecture, as in ``uname -m``, and read the object."""
    if shutil.which("clang") is None:
        pytest.importorskip("ziglang", reason="needs clang, or the one in the ziglang wheel")
    target = folder / f"{source.stem}.{architecture}.o"
    compile_bpf(source, target, folder / "cache", architecture)
    return BpfObject(target.read_bytes())


def build_text(text: str, folder: Path, architecture: str = "x86_64") -> BpfObject:
    """Compile what follows `HEAD`, and read the object."""
    source = folder / "made.bpf.c"
    source.write_text(HEAD + text)
    return build(source, folder, architecture)
