"""``headway trace record``: perf, started so that what it writes can be read here."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence

from headway.errors import HeadwayError
from headway.linux.perf.trace_units import trace_unit, why_no_unit

__all__ = ["KCORE", "perf_command", "record"]

KCORE = "/proc/kcore"
"""The kernel's memory. Kernels without CONFIG_PROC_KCORE have none, and only root may read it."""

_INSTALL = "apt install linux-perf (Debian), linux-tools-generic (Ubuntu), dnf install perf (Fedora)"


def perf_command(
    unit: str, output: str, argv: Sequence[str], *, pids: Sequence[int] = (), everything: bool = False,
    kernel: bool = False, size: str | None = None,
) -> list[str]:  # fmt: skip
    """Return the command that records with a trace unit. Switches of threads are always recorded.

    With the kernel, its code is copied, too, where that is allowed: what it changed when it started is in no file.
    """
    command = ["perf", "record", "-o", output, "-e", f"{unit}//{'' if kernel else 'u'}", "--switch-events"]
    if kernel and os.access(KCORE, os.R_OK):
        command.append("--kcore")
    if size is not None:
        command += ["-m", f",{size}"]
    if everything:
        command.append("-a")
    if pids:
        command += ["-p", ",".join(map(str, pids))]
    return [*command, "--", *argv] if argv else command


def record(
    output: str, argv: Sequence[str], *, pids: Sequence[int], everything: bool, kernel: bool, size: str | None
) -> None:
    """Become perf. Raises HeadwayError if there is no trace unit, or no perf."""
    unit = trace_unit()
    if unit is None:
        why, remedy = why_no_unit(platform.machine())
        raise HeadwayError(f"instructions cannot be traced here: {why}{f' ({remedy})' if remedy else ''}")
    perf = shutil.which("perf")
    if perf is None:
        raise HeadwayError(f"{unit} is recorded by perf, which is not installed: {_INSTALL}")
    command = perf_command(unit, output, argv, pids=pids, everything=everything, kernel=kernel, size=size)
    try:
        os.execv(perf, command)
    except OSError as error:
        raise HeadwayError(f"{perf} cannot be started ({error.strerror})") from None
