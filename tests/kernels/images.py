"""Kernels from Debian's packages, unpacked below a cache directory and kept between runs.

apt-get runs with a configuration of its own in that directory, so nothing of the system's changes, and packages of
other suites and architectures than the system's can be had. apt checks the archive's signature.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tools.wheels.debian import KEYRING, Debian
from tools.wheels.errors import ToolError

__all__ = ["CACHE", "KERNELS", "Image", "Kernel", "Packages", "UnavailableError", "fetch"]

CACHE = Path(os.environ.get("HEADWAY_KERNELS_CACHE") or Path.home() / ".cache/headway/kernels")


class UnavailableError(Exception):
    """What is needed is not here and cannot be had: one sentence, the reason for skipping."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of Debian's, by its suite and the package that depends on the current one."""

    name: str
    suite: str
    architecture: str
    """Debian's name of it: amd64 or arm64."""
    supported: bool = True
    """Whether headway claims to be exact there."""

    @property
    def package(self) -> str:
        """The package that depends on the suite's current kernel."""
        return f"linux-image-{self.architecture}"

    @property
    def machine(self) -> str:
        """The architecture as uname(2) says it."""
        return {"amd64": "x86_64", "arm64": "aarch64"}[self.architecture]


KERNELS = (
    Kernel("6.1", "bookworm", "amd64"),
    Kernel("6.12", "trixie", "amd64"),
    Kernel("6.1-arm64", "bookworm", "arm64"),
    Kernel("6.12-arm64", "trixie", "arm64"),
    Kernel("5.10", "bullseye", "amd64", supported=False),
)


@dataclass(frozen=True, slots=True)
class Image:
    """An unpacked kernel."""

    kernel: Kernel
    release: str
    """As in ``uname -r``."""
    vmlinuz: Path


class Packages:
    """Packages of one suite and architecture."""

    def __init__(self, suite: str, architecture: str, cache: Path = CACHE) -> None:
        self._folder = cache / "apt" / f"{suite}-{architecture}"
        self._suite, self._architecture = suite, architecture
        self._updated = False

    def _configure(self) -> Path:
        folder = self._folder
        for name in ("lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
        try:
            mirror = Debian(folder).mirror().rstrip("/")
        except ToolError as error:
            raise UnavailableError(str(error)) from None
        sources = ((mirror, self._suite), (f"{mirror}-security", f"{self._suite}-security"))
        lines = [f"deb {signed}{mirror} {suite} main\n" for mirror, suite in sources]
        (folder / "sources.list").write_text("".join(lines))
        configuration = folder / "apt.conf"
        configuration.write_text(
            f'Dir::Etc::sourcelist "{folder}/sources.list";\nDir::Etc::sourceparts "/nonexistent";\n'
            f'Dir::State::lists "{folder}/lists";\nDir::State::status "{folder}/status";\n'
            f'Dir::Cache "{folder}/cache";\n'
            f'APT::Architecture "{self._architecture}";\nAPT::Architectures {{ "{self._architecture}"; }};\n'
            'APT::Sandbox::User "";\nAcquire::Languages "none";\n'
        )
        return configuration

    def _run(self, *command: str, cwd: Path | None = None) -> str:
        if shutil.which(command[0]) is None:
            raise UnavailableError(f"{command[0]} is not installed")
        environment = {**os.environ, "APT_CONFIG": str(self._configure()), "LC_ALL": "C"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=cwd)
        if done.returncode:
            words = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
            raise UnavailableError(f"{' '.join(command[:2])} failed: {words[-1]}")
        return done.stdout

    def update(self) -> None:
        """Fetch the suite's list of packages, once in a run."""
        if not self._updated:
            self._run("apt-get", "update")
            self._updated = True

    def newest(self, package: str) -> str:
        """Return the package that a metapackage depends on, or else its own name."""
        self.update()
        words = self._run("apt-cache", "depends", "--no-recommends", "--no-suggests", package).split()
        depends = [after for before, after in pairwise(words) if before == "Depends:"]
        return next((name for name in depends if name.startswith("linux-image-")), package)

    def unpack(self, package: str, into: Path) -> None:
        """Download a package and unpack its files below a directory."""
        self.update()
        downloads = self._folder / "downloads"
        downloads.mkdir(exist_ok=True)
        self._run("apt-get", "download", package, cwd=downloads)
        (archive,) = downloads.glob(f"{package.partition(':')[0]}_*.deb")
        self._run("dpkg-deb", "-x", str(archive), str(into))
        archive.unlink()

    def unpack_all(self, packages: Iterable[str], into: Path) -> None:
        """Download packages with all that they depend on, and unpack their files below a directory."""
        self.update()
        self._run("apt-get", "clean")
        self._run("apt-get", "install", "--yes", "--no-install-recommends", "--download-only", *packages)
        archives = sorted((self._folder / "cache/archives").glob("*.deb"))
        # Its links from /bin to /usr/bin and the like have to be there before the files are.
        archives.sort(key=lambda archive: not archive.name.startswith("base-files_"))
        for archive in archives:
            self._run("dpkg-deb", "-x", str(archive), str(into))
        self._run("apt-get", "clean")


def fetch(kernel: Kernel, cache: Path = CACHE) -> Image:
    """Return the suite's current kernel, downloaded if it is not here yet. Raises UnavailableError."""
    folder = cache / "images" / f"{kernel.suite}-{kernel.architecture}"
    try:
        return _unpacked(kernel, folder)
    except UnavailableError:
        packages = Packages(kernel.suite, kernel.architecture, cache)
        fresh = folder.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        packages.unpack(packages.newest(kernel.package), fresh)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
        return _unpacked(kernel, folder)


def _unpacked(kernel: Kernel, folder: Path) -> Image:
    found = sorted(folder.glob("boot/vmlinuz-*"))
    if not found:
        raise UnavailableError(f"the package {kernel.package} of {kernel.suite} has no kernel in it")
    modules = folder / "lib/modules"
    if not modules.exists() and (folder / "usr/lib/modules").exists():  # suites with a merged /usr
        modules.parent.mkdir(exist_ok=True)
        modules.symlink_to("../usr/lib/modules")
    vmlinuz = found[-1]
    return Image(kernel, vmlinuz.name.removeprefix("vmlinuz-"), vmlinuz)
