"""A root directory for guests of another architecture than the host's: Debian's packages and headway's wheel, unpacked.

Nothing of it runs on the host, so neither root nor an emulator of programs is needed: packages are extracted without
being configured, and pip puts wheels of the guest's platform below ``/opt``. The directory is kept between runs.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .images import CACHE, Packages, UnavailableError

__all__ = ["PACKAGES", "Root", "make"]

PROGRAMS = Path(__file__).parents[2] / "packages/headway/tests/programs"
PACKAGES = (
    *("base-files", "bash", "busybox-static", "coreutils", "dash", "findutils", "grep", "hostname", "iproute2"),
    *("kmod", "libc-bin", "mount", "procps", "sed", "util-linux"),  # what virtme-ng's init calls
    *("gcc", "libc6-dev", "python3", "python3-venv", "xz-utils"),  # what the tests measure
)
PLATFORMS = {"arm64": "aarch64", "amd64": "x86_64"}
GLIBCS = ("manylinux2014", "manylinux_2_17", "manylinux_2_28", "manylinux_2_34")
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
"""What the packages' scripts would have written, as far as it is needed."""
COMPAT = {"arm64": "arm-linux-musleabihf", "amd64": "x86-linux-musl"}
"""The triplet of the 32-bit programs that the kernel runs too; one is put at ``/opt/compat``."""
BUSYBOX = ("usr/sbin/poweroff", "usr/sbin/reboot")
"""Programs of a service manager's that the init calls, and that busybox has."""


@dataclass(frozen=True, slots=True)
class Root:
    """A root directory, and where Python is in it."""

    path: Path
    """On the host."""
    python: Path
    """In the guest."""
    site: Path
    """The directory in the guest that holds headway and what it depends on (for PYTHONPATH)."""


def make(wheel: Path | None, suite: str = "trixie", architecture: str = "arm64", cache: Path = CACHE) -> Root:
    """Return a root with this wheel of headway installed; made where it is not here yet.

    Raises UnavailableError without a wheel, without network the first time, or where a dependency has no wheel.
    """
    if wheel is None or not wheel.is_file():
        raise UnavailableError(f"there is no wheel of headway for {architecture}: build one with make wheels")
    path = _system(suite, architecture, cache)
    compat = path / "opt/compat"
    if not compat.exists():
        with suppress(UnavailableError):  # what needs it is then skipped in the guest, and says so
            _compile(PROGRAMS / "compat.c", COMPAT[architecture], compat)
    python = (path / "usr/bin/python3").readlink().name
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()[:16]
    site = path / "opt" / f"headway-{digest}"
    if not site.is_dir():
        for old in (path / "opt").glob("headway-*"):
            shutil.rmtree(old)
        _install(wheel, site, python.removeprefix("python"), PLATFORMS[architecture])
    return Root(path, Path("/usr/bin", python), Path("/", site.relative_to(path)))


def _system(suite: str, architecture: str, cache: Path) -> Path:
    """The packages, unpacked; the directory's name says which."""
    wanted = hashlib.sha256(repr((PACKAGES, FILES, BUSYBOX)).encode()).hexdigest()[:8]
    path = cache / "roots" / f"{suite}-{architecture}-{wanted}"
    if path.is_dir():
        return path
    fresh = path.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    Packages(suite, architecture, cache).unpack_all(PACKAGES, fresh)
    for name, text in FILES.items():
        file = fresh / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    for name in BUSYBOX:
        (fresh / name).symlink_to("/usr/bin/busybox")
    for name in ("dev", "opt", "proc", "root", "run", "sys", "tmp"):
        (fresh / name).mkdir(exist_ok=True)
    fresh.rename(path)
    return path


def _compile(source: Path, triplet: str, program: Path) -> None:
    """Build a static program with the ``ziglang`` wheel's compiler, which the project is built with."""
    command = [sys.executable, "-m", "ziglang", "cc", "-target", triplet, "-static", str(source), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise UnavailableError(f"a program for {triplet} cannot be compiled: {said[-1]}")


def _install(wheel: Path, site: Path, version: str, machine: str) -> None:
    fresh = site.with_name("fresh")
    shutil.rmtree(fresh, ignore_errors=True)
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    words += ["--only-binary=:all:", "--implementation=cp", f"--python-version={version}"]
    words += [f"--platform={glibc}_{machine}" for glibc in GLIBCS]
    # Recording is not in the base installation.
    words += [f"--target={fresh}", f"headway[recording] @ {wheel.absolute().as_uri()}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise UnavailableError(f"headway cannot be installed for {machine}: {said[-1]}")
    fresh.rename(site)
