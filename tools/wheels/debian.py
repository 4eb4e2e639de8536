"""Debian's packages by name, without touching the system's configuration of apt.

apt gets a configuration, lists and a package state of its own in the folder that is kept between runs. Packages come
from the mirror that the system uses, or from the one in ``HEADWAY_DEBIAN_MIRROR``, and are verified with Debian's keys.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from .errors import ToolError, run
from .target import TARGETS, Target

__all__ = ["Debian"]

SOURCES = "trixie"
"""The release whose source packages are taken."""
BINARIES = "bookworm"
"""The release whose binary packages are taken: the one that has the oldest Python that the wheels are for."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Debian:
    """Debian's packages, kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready = False

    def source(self, name: str) -> Path:
        """Return the folder with a source package's files (.dsc and archives). Downloads them once."""
        kept = self._folder / "sources" / name
        if not list(kept.glob("*.dsc")):
            with_network = f"downloading the source package {name} of Debian {SOURCES}"
            self._download(kept, ["source", "--download-only", name], with_network)
        return kept

    def unpack_source(self, name: str, target: Path) -> str:
        """Unpack a source package with Debian's corrections into a folder. Returns its version in Debian."""
        described = next(self.source(name).glob("*.dsc"))
        if not target.is_dir():
            command = ["dpkg-source", "--no-check", "--extract"]
            run([*command, str(described), str(target)], f"unpacking {described.name} (it needs Debian's dpkg-dev)")
        found = re.search(r"^Version: (.+)$", described.read_text(), re.MULTILINE)
        if not found:
            raise ToolError(
                f"{described} names no version: remove the folder {described.parent}, it is downloaded anew"
            )
        return found[1]

    def unpack(self, name: str, target: Target) -> Path:
        """Return the folder with the unpacked files of a binary package for an architecture. Downloads it once."""
        kept = self._folder / "packages" / f"{name}_{target.debian}"
        unpacked = kept / "files"
        if not unpacked.is_dir():
            what = f"downloading the package {name} of Debian {BINARIES} for {target.debian}"
            self._download(kept, ["download", f"{name}:{target.debian}"], what)
            partial = kept / "partial"
            shutil.rmtree(partial, ignore_errors=True)
            run(["dpkg-deb", "--extract", next(kept.glob("*.deb")), partial], f"unpacking {name}")
            partial.rename(unpacked)
        return unpacked

    def _download(self, target: Path, arguments: list[str], what: str) -> None:
        configuration = self._configure()
        shutil.rmtree(target, ignore_errors=True)
        partial = target.with_name(f"{target.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        environment = {**os.environ, "APT_CONFIG": str(configuration)}
        try:
            if not self._ready:
                run(["apt-get", "--quiet", "--error-on=any", "update"], what, environment=environment)
                self._ready = True
            run(["apt-get", "--quiet", *arguments], what, environment=environment, folder=partial)
        except ToolError as error:
            raise ToolError(
                f"{what} did not work: it needs the network, once; what has been downloaded is kept in "
                f"{self._folder}\n{error}"
            ) from None
        partial.rename(target)

    def _configure(self) -> Path:
        """Return a configuration for apt that uses nothing outside the folder except mirror, keys and proxy."""
        if not KEYRING.is_file():
            raise ToolError(f"there is no {KEYRING} to verify Debian's packages with: install debian-archive-keyring")
        apt = self._folder / "apt"
        for part in ("state/lists/partial", "cache/archives/partial", "parts"):
            (apt / part).mkdir(parents=True, exist_ok=True)
        (apt / "status").touch()
        mirror, signed = self.mirror(), f"signed-by={KEYRING}"
        architectures = ",".join(target.debian for target in TARGETS.values())
        (apt / "sources.list").write_text(
            f"deb-src [{signed}] {mirror} {SOURCES} main\n"
            f"deb [arch={architectures} {signed}] {mirror} {BINARIES} main\n"
        )
        ours = {
            "Dir::State": apt / "state",
            "Dir::State::status": apt / "status",
            "Dir::Cache": apt / "cache",
            "Dir::Etc::SourceList": apt / "sources.list",
            "Dir::Etc::SourceParts": apt / "parts",
            "Dir::Etc::Parts": apt / "parts",
            "Dir::Etc::Main": apt / "parts" / "none",
            "APT::Sandbox::User": "",
            "Acquire::Languages": "none",
        }
        known = run(["apt-config", "dump"], "asking apt for its proxy").splitlines()
        lines = [line for line in known if re.match(r"Acquire::(http|https|Check)[:-]", line)]
        lines += [f'{name} "{value}";' for name, value in ours.items()]
        lines += [f'APT::Architectures:: "{target.debian}";' for target in TARGETS.values()]
        configuration = apt / "apt.conf"
        configuration.write_text("\n".join([*lines, ""]))
        return configuration

    def mirror(self) -> str:
        """Return the mirror of Debian that this system uses."""
        if given := os.environ.get("HEADWAY_DEBIAN_MIRROR"):
            return given
        command = ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(RELEASE)|$(REPO_URI)", "Created-By: Packages"]
        for line in run(command, "asking apt for the mirror of Debian").splitlines():
            origin, release, address = line.split("|")
            if origin in ("Debian", "$(ORIGIN)", "") and not release.endswith("-security"):
                return address
        raise ToolError("apt on this system knows no mirror of Debian: set HEADWAY_DEBIAN_MIRROR to the address of one")
