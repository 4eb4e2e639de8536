"""Have Java write the names of the methods that it has compiled (``jcmd PID Compiler.perfmap``, JDK 17 and later).

jcmd asks the Java virtual machine, which writes /tmp/perf-PID.map. So this changes the process that is measured, if
only for milliseconds: it is done on request, and behind the measurement. jcmd runs as the process's user, whom alone
the virtual machine answers.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from headway.linux.procfs.ids import ids_in
from headway.linux.procfs.status import status

from .modules import Space

__all__ = ["is_java", "write_perf_map"]

_MACHINE = "libjvm.so"
_SPACES = ("mnt", "pid")
"""The namespaces in which jcmd must be."""
_SECONDS = 20


def is_java(space: Space) -> bool:
    """Return whether a process has a Java virtual machine."""
    return _MACHINE in space.files()


def write_perf_map(pid: int) -> str:
    """Have a Java process write its perf map. Return why it has not; empty: it has."""
    what = f"Java process {pid} has written no perf map"
    try:
        said = status(f"/proc/{pid}")
        uid, gid = int(said["Uid"].split()[1]), int(said["Gid"].split()[1])
        inside = ids_in(said)
        same = all(os.path.samefile(f"/proc/{pid}/ns/{kind}", f"/proc/self/ns/{kind}") for kind in _SPACES)
        beside = os.path.join(os.path.dirname(os.readlink(f"/proc/{pid}/exe")), "jcmd")
    except (OSError, KeyError, ValueError, IndexError):
        return f"{what}: it has ended (start it with -XX:+DumpPerfMapAtExit)"
    if not same or (inside and inside[-1] != pid):
        return f"{what}: it is in a container, where jcmd must run"
    command = beside if os.access(beside, os.X_OK) else shutil.which("jcmd")
    if command is None:
        return f"{what}: there is no jcmd beside its java, nor in PATH (it comes with a JDK)"
    user = {"user": uid, "group": gid, "extra_groups": ()} if os.geteuid() == 0 and uid != 0 else {}
    try:
        done = subprocess.run(
            [command, str(pid), "Compiler.perfmap"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, cwd="/", env={"PATH": os.defpath}, timeout=_SECONDS, check=False,
            **user,  # type: ignore[call-overload]
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return f"{what}: jcmd failed ({type(error).__name__})"
    if done.returncode:
        return f"{what}: jcmd ended with status {done.returncode} (Java 17 and later have it)"
    return ""
