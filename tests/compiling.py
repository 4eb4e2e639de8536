"""The programs that tests measure: ``tests/programs/``, compiled once a test run."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import headway

__all__ = ["PROGRAMS", "Compile", "compiler_in", "script", "shared_library"]

PROGRAMS = Path(__file__).with_name("programs")
BPF = Path(__file__).parent.parent / "src/headway/linux/bpf"
Compile = Callable[[str], Path]
"""Compile a C program by its name in ``tests/programs/``, without ``.c``, and return the path of the executable."""


def script(name: str, *arguments: str) -> list[str]:
    """Return the words of a command that runs a Python program by its name, without ``.py``."""
    return [sys.executable, str(PROGRAMS / f"{name}.py"), *arguments]


def _compiler() -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    return compiler


def shared_library(name: str, folder: Path) -> ctypes.CDLL:
    """Compile a C file of ``tests/programs/`` with the headers of the eBPF programs and of users, and load it.

    Floating-point operations stay as they are written, as in Python.
    """
    target = folder / f"{name}.so"
    options = ["-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-shared", "-fPIC", f"-I{BPF}"]
    options += [f"-I{headway.get_include()}", "-o", str(target)]
    subprocess.run([_compiler(), *options, str(PROGRAMS / f"{name}.c")], check=True)
    return ctypes.CDLL(str(target))


def compiler_in(folder: Path) -> Compile:
    """Return a function that compiles C programs into a folder, each once."""
    compiler = _compiler()

    def build(name: str) -> Path:
        target = folder / name
        if not target.exists():
            options = ["-O1", "-pthread", f"-I{headway.get_include()}", "-o", str(target)]
            subprocess.run([compiler, *options, str(PROGRAMS / f"{name}.c")], check=True)
        return target

    return build
