"""Building libbpf, and the libelf and zlib that it needs, for a wheel, with a notice of their licences."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from .debian import SOURCES, Debian
from .errors import run
from .target import Target
from .workshop import Workshop

__all__ = ["LIBRARIES", "NOTICE", "build_libraries", "copy_sources"]

LIBRARIES = ("libbpf.so.1", "libelf-headway.so.1")
NOTICE = "NOTICE"

PACKAGES = ("libbpf", "elfutils", "zlib")
"""Debian's source packages."""

DEFINITION = Path(__file__).with_name("libraries") / "meson.build"

LICENCES = {
    "libbpf": ("LGPL-2.1 or BSD-2-Clause; here: BSD-2-Clause", ["LICENSE.BSD-2-Clause"]),
    "elfutils": ("LGPL-3.0-or-later or GPL-2.0-or-later; here: LGPL-3.0-or-later", ["COPYING-LGPLV3", "COPYING"]),
    "zlib": ("Zlib", ["LICENSE"]),
}
"""Source package -> its licence, and the files of its sources that have the text."""

USES = {
    "libbpf": "libbpf.so.1 loads headway's eBPF programs. It is libbpf, whose licence is",
    "elfutils": (
        "libelf-headway.so.1 reads ELF files for libbpf. It is libelf of elfutils, and a file of its own so that it "
        "can be\nreplaced by another build of libelf. Its licence is"
    ),
    "zlib": "Both contain zlib, whose licence is",
}


def build_libraries(workshop: Workshop, debian: Debian, target: Target) -> Path:
    """Build the libraries for a target. Returns a folder with `LIBRARIES` and `NOTICE`, and nothing else."""
    folder = workshop.path / "libraries"
    versions, sources = {}, {}
    for name in PACKAGES:
        described = next(debian.source(name).glob("*.dsc"))
        sources[name] = folder / "sources" / described.stem
        sources[name].parent.mkdir(parents=True, exist_ok=True)
        versions[name] = debian.unpack_source(name, sources[name])
    built_of = repr((target, versions, DEFINITION.read_bytes(), workshop.zig, run([workshop.zig, "version"], "zig")))
    digest = hashlib.sha256(built_of.encode()).hexdigest()[:16]
    finished = folder / f"{target.machine}-{digest}"
    if not finished.is_dir():
        partial = finished.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        _compile(workshop, target, sources, partial / "work")
        (partial / "result").mkdir()
        for library in LIBRARIES:
            shutil.copyfile(partial / "work" / "build" / library, partial / "result" / library)
        (partial / "result" / NOTICE).write_text(notice(versions, sources))
        (partial / "result").rename(finished)
        shutil.rmtree(partial)
    return finished


def copy_sources(debian: Debian, folder: Path) -> None:
    """Copy the source package of the LGPL library beside the wheels, for those who distribute the wheels."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in debian.source("elfutils").iterdir():
        shutil.copy(path, folder / path.name)


def _compile(workshop: Workshop, target: Target, sources: dict[str, Path], work: Path) -> None:
    work.mkdir(parents=True)
    shutil.copy(DEFINITION, work / "meson.build")
    for name, source in sources.items():
        (work / name).symlink_to(source)
    target.write_cross_file(work / "cross.ini", workshop.zig)
    meson, environment = workshop.programs / "meson", workshop.environment
    what = f"building libbpf for {target.machine}"
    run([meson, "setup", "--cross-file", "cross.ini", "build"], what, environment=environment, folder=work)
    run([meson, "compile", "-C", "build"], what, environment=environment, folder=work)


def notice(versions: dict[str, str], sources: dict[str, Path]) -> str:
    """Return the wheel's notice: the libraries in it, where their sources are, and their licences."""
    parts = [
        "The libraries in this folder are not headway's own. headway's build (tools/wheels in its sources) makes them "
        f"from the\nsource packages of Debian {SOURCES}, unchanged:\n\n"
        + "".join(f"  {name} {version}\n" for name, version in versions.items())
    ]
    for name in PACKAGES:
        licence, texts = LICENCES[name]
        parts.append(f"{USES[name]} {licence}.\n")
        parts += [f"{'-' * 72}\n{(sources[name] / text).read_text(errors='replace').strip()}\n" for text in texts]
        parts.append("=" * 72 + "\n")
    return "\n".join(parts)
