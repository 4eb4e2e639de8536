"""The programs that tests measure: ``tests/programs/``, each compiled once a test run, for all of its processes."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import headway

__all__ = ["PROGRAMS", "Compile", "built_once", "compiler", "compiler_in", "folder_of_run", "script", "shared_library"]

PROGRAMS = Path(__file__).with_name("programs")
BPF = Path(__file__).parent.parent / "src/headway/linux/bpf"
Compile = Callable[[str], Path]
"""Compile a C program by its name in ``tests/programs/``, without ``.c``, and return the path of the executable."""


def script(name: str, *arguments: str) -> list[str]:
    """Return the words of a command that runs a Python program by its name, without ``.py``."""
    return [sys.executable, str(PROGRAMS / f"{name}.py"), *arguments]


def compiler(*names: str) -> str:
    """Return the path of the first of these compilers that is there, of ``cc`` and ``gcc`` by default, or skip."""
    names = names or ("cc", "gcc")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"needs a compiler ({' or '.join(names)})")
    return found


def folder_of_run(paths: pytest.TempPathFactory) -> Path:
    """Return the folder for what all processes of a test run share."""
    base = paths.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


def built_once(folder: Path, words: Sequence[str | Path], name: str) -> Path:
    """Return the file of this name that a command makes, which ends with ``-o`` and it; run it if nobody has yet.

    The folder is that of the run, in which each command has its own. What fails is tried again by the next who asks.

    Raises:
        subprocess.CalledProcessError: The command fails; ``stderr`` has what it says.
    """
    command = [str(word) for word in words]
    key = hashlib.blake2b("\0".join(command).encode(), digest_size=8).hexdigest()
    own = folder / f"{name}.{key}"
    own.mkdir(exist_ok=True)
    with (own / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        target, unfinished = own / name, own / "unfinished"
        if not target.exists():
            subprocess.run([*command, "-o", str(unfinished)], check=True, capture_output=True, text=True)
            unfinished.rename(target)
    return target


def shared_library(name: str, folder: Path) -> ctypes.CDLL:
    """Compile a C file of ``tests/programs/`` with the headers of the eBPF programs and of users, and load it.

    Floating-point operations stay as they are written, as in Python.
    """
    options = ["-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-shared", "-fPIC", f"-I{BPF}"]
    words: list[str | Path] = [compiler(), *options, f"-I{headway.get_include()}", PROGRAMS / f"{name}.c"]
    return ctypes.CDLL(str(built_once(folder, words, f"{name}.so")))


def compiler_in(folder: Path) -> Compile:
    """Return a function that compiles C programs into a folder, each once."""
    options = ["-O1", "-pthread", f"-I{headway.get_include()}"]

    def build(name: str) -> Path:
        return built_once(folder, [compiler(), *options, PROGRAMS / f"{name}.c"], name)

    return build
