"""A guest: a kernel booted in QEMU without KVM, with the host's files or a root of its own, that runs one script.

virtme-ng boots it and shares the files. What the script finds travels in a file, line by line, so a guest that hangs or
panics leaves what it had found; its console is kept beside it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .images import Image, UnavailableError
from .roots import Root

__all__ = ["Guest", "Result", "find_programs"]

QEMU = {"x86_64": "qemu-system-x86_64", "aarch64": "qemu-system-aarch64"}
ACCELERATOR = "-accel tcg,thread=single"
"""One host thread runs all of a guest's processors. With one thread each, QEMU 7.2 can go on to run what it translated
before another processor patched the kernel's code there, as happens when programs are attached to a tracepoint. Seen: a
processor took the same int3 for ever, holding its run queue's lock, where memory held a nop."""
BOOT_SECONDS = 240
"""A guest that has not begun its script by then has hung while booting: under TCG that happens now and then."""
SILENT_SECONDS = 300
"""A guest that has found nothing for so long has hung."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a guest's script found."""

    findings: tuple[dict[str, Any], ...]
    """One for each line of its file."""
    finished: bool
    """Whether the script came to its end."""
    console: str
    """The last lines of the guest's console."""


@dataclass(frozen=True, slots=True)
class Guest:
    """How a guest is made."""

    image: Image
    processors: int
    root: Root | None = None
    """Its root directory, and the Python there; None: the host's."""
    memory: str = "3G"
    nodes: tuple[str, ...] = ()
    """Its memory nodes, as virtme-ng has them (``1G,cpus=0-1``); their sizes add up to ``memory``. Empty: one."""
    qemu_options: str = ""
    """More of them; of two that contradict each other QEMU takes the later."""

    def run(self, module: str, arguments: list[str], folder: Path, python: Path, project: Path) -> Result:
        """Boot, run a module of the project with ``python`` or, in a root of its own, with that of the root.

        Returns what it found. Boots that hang are repeated.

        ``folder``: where the verdict and the console are put; it is the only one that the guest may write to.
        """
        try:
            for _ in range(3):
                result = self._boot(module, arguments, folder, python, project)
                if result.findings:
                    break
        finally:
            if self.root is not None:
                with suppress(OSError):  # where it was mounted; the root is kept
                    (self.root.path / folder.absolute().relative_to("/")).rmdir()
        return result

    def _boot(self, module: str, arguments: list[str], folder: Path, python: Path, project: Path) -> Result:
        folder.mkdir(parents=True, exist_ok=True)
        verdict, console, script = folder / "verdict", folder / "console", folder / "run"
        verdict.unlink(missing_ok=True)
        interpreter, path = python, str(project)
        if self.root is not None:
            interpreter, path = self.root.python, f"{project}:{self.root.site}"
        words = shlex.join([str(interpreter), "-P", "-m", module, str(verdict), *arguments])
        script.write_text(
            f"#!/bin/sh\nexport HOME=/root PYTHONPATH={shlex.quote(path)} PYTHONDONTWRITEBYTECODE=1\n"
            f"cd {shlex.quote(str(project))} && exec {words} >{shlex.quote(str(folder / 'output'))} 2>&1\n"
        )
        script.chmod(0o755)
        vng = find_programs(self.image.kernel.machine)
        environment = {**os.environ, "PATH": f"{vng.parent}:{os.environ['PATH']}"}  # it calls commands beside it
        command = [str(vng), "--verbose", "--run", str(self.image.vmlinuz)]
        command += ["--cpus", str(self.processors), "--memory", self.memory, "--disable-kvm"]
        command += [word for node in self.nodes for word in ("--numa", node)]
        command += ["--rwdir", str(folder), "--user", "root"] if self.root is None else self._foreign(folder, project)
        command += [f"--qemu-opts={ACCELERATOR} {self.qemu_options}".rstrip(), "--", str(script)]
        with console.open("wb") as written:
            guest = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                _wait(guest, verdict)
            finally:
                _end(guest)
        findings = _read(verdict)
        finished = bool(findings) and findings[-1].get("finished", False)
        shown = console.read_text(errors="replace").splitlines()[-15:]
        output = folder / "output"
        shown += output.read_text(errors="replace").splitlines()[-15:] if output.exists() else []
        return Result(tuple(f for f in findings if "finished" not in f), finished, "\n".join(shown))

    def _foreign(self, folder: Path, project: Path) -> list[str]:
        """Options for a root of its own, in which the host's directories are mounted at the same places."""
        assert self.root is not None
        root = self.root.path
        for shared in (folder, project):
            (root / shared.absolute().relative_to("/")).mkdir(parents=True, exist_ok=True)
        words = ["--root", str(root), "--arch", self.image.kernel.architecture]
        words += ["--busybox", str(root / "usr/bin/busybox")]
        # Older virtiofsd do not know the options that virtme-ng gives it.
        return [*words, "--force-9p", "--rwdir", f"{folder}={folder}", "--rodir", f"{project}={project}"]


def find_programs(machine: str) -> Path:
    """Return virtme-ng's command, if that and QEMU are installed. Raises UnavailableError."""
    if shutil.which(QEMU[machine]) is None:
        raise UnavailableError(f"{QEMU[machine]} is not installed (Debian: qemu-system-x86, qemu-system-arm)")
    if shutil.which("busybox") is None:
        raise UnavailableError("busybox is not installed (Debian: busybox-static)")
    beside = Path(sys.executable).parent / "vng"
    found = str(beside) if beside.exists() else shutil.which("vng")
    if found is None:
        raise UnavailableError("virtme-ng is not installed (pip install virtme-ng)")
    return Path(found)


def _wait(guest: subprocess.Popen[bytes], verdict: Path) -> None:
    began = changed = time.monotonic()
    size = 0
    while guest.poll() is None:
        time.sleep(0.5)
        now = time.monotonic()
        grown = verdict.stat().st_size if verdict.exists() else 0
        if grown != size:
            size, changed = grown, now
        if (not size and now - began > BOOT_SECONDS) or (size and now - changed > SILENT_SECONDS):
            return


def _end(guest: subprocess.Popen[bytes]) -> None:
    """End virtme-ng and the QEMU that it started: they are in a session of their own."""
    if guest.poll() is None:
        os.killpg(guest.pid, signal.SIGTERM)
        try:
            guest.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(guest.pid, signal.SIGKILL)
            guest.wait()


def _read(verdict: Path) -> list[dict[str, Any]]:
    if not verdict.exists():
        return []
    findings = []
    for line in verdict.read_text(errors="replace").splitlines():
        try:
            findings.append(json.loads(line))
        except ValueError:  # the guest ended in the middle of it
            break
    return findings
