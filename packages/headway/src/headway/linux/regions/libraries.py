"""The libraries that a program will load, found like the dynamic linker does but without running anything.

It follows DT_NEEDED from program to library to library. Each library is searched as in ld.so(8): LD_PRELOAD, DT_RUNPATH
or DT_RPATH, LD_LIBRARY_PATH, /etc/ld.so.cache, the default directories. Libraries that a program opens later
(dlopen(3)) are not found.
"""

from __future__ import annotations

import os
import platform
import shutil
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from headway.binary.elf import ElfError, ElfFile

__all__ = ["loaded_by", "program_of", "search"]

_CACHE = Path("/etc/ld.so.cache")
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_MAX_CACHE = 16 << 20
_MAX_LIBRARIES = 512
_MAX_SCRIPTS = 5
"""How often a script's interpreter may itself be a script (BINPRM_MAX_RECURSION, fs/exec.c)."""
_DIRECTORIES = (
    f"/lib/{platform.machine()}-linux-gnu",
    f"/usr/lib/{platform.machine()}-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib",
)


@cache
def cached(path: Path = _CACHE) -> dict[str, tuple[str, ...]]:
    """Return name -> files of ld.so's cache (glibc, sysdeps/generic/dl-cache.h); empty if there is no cache."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_CACHE)
    except OSError:
        return {}
    base = data.find(_CACHE_MAGIC)  # an old format may precede it
    found: dict[str, list[str]] = {}
    if base < 0 or len(data) < base + 48:
        return {}
    count = struct.unpack_from("<I", data, base + 20)[0]
    for _, key, value, _, _ in struct.iter_unpack(
        "<iIIIQ", data[base + 48 : base + 48 + 24 * count][: _whole(data, base)]
    ):
        name, file_name = _string(data, base + key), _string(data, base + value)
        if name and file_name.startswith("/"):
            found.setdefault(name, []).append(file_name)
    return {name: tuple(files) for name, files in found.items()}


def _whole(data: bytes, base: int) -> int:
    return (len(data) - base - 48) // 24 * 24


def _string(data: bytes, at: int) -> str:
    end = data.find(b"\0", at, at + 4096)
    return os.fsdecode(data[at:end]) if end > at else ""


def search(name: str, directories: Sequence[str] = ()) -> Iterator[str]:
    """Yield the files that a library's name may mean: in these directories, the cache, and the default directories."""
    for directory in directories:
        yield os.path.join(directory, name)
    yield from cached().get(name, ())
    for directory in _DIRECTORIES:
        yield os.path.join(directory, name)


def program_of(command: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Return the ELF file that a command executes first, through scripts and env(1); None: it cannot be found."""
    arguments = list(command)
    for _ in range(_MAX_SCRIPTS):
        path = shutil.which(arguments[0], path=environment.get("PATH", os.defpath)) if arguments else None
        if path is None:
            return None
        if os.path.basename(path) == "env":
            rest = [word for word in arguments[1:] if not word.startswith("-") and "=" not in word]
            if rest and shutil.which(rest[0], path=environment.get("PATH", os.defpath)):
                arguments = rest
                continue
        interpreter = _interpreter(path)
        if not interpreter:
            return os.path.realpath(path)
        arguments = [*interpreter, path, *arguments[1:]]
    return None


def _interpreter(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            first = file.read(256).partition(b"\n")[0]
    except OSError:
        return []
    return [os.fsdecode(word) for word in first[2:].split(None, 1)] if first.startswith(b"#!") else []


def loaded_by(program: str, environment: Mapping[str, str]) -> list[str]:
    """Return the program and every library that it will have loaded at its start, each once, as far as they can be
    read.
    """
    around = [part for part in environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":") if part]
    wanted: list[tuple[str, tuple[str, ...]]] = [(program, ())]
    wanted += [(name, ()) for name in environment.get("LD_PRELOAD", "").replace(":", " ").split()]
    asked: set[str] = set()
    seen: set[tuple[int, int]] = set()
    found: list[str] = []
    while wanted and len(found) < _MAX_LIBRARIES:
        name, own = wanted.pop(0)
        for path in (name,) if "/" in name else search(name, (*own, *around)):
            try:
                image = ElfFile(path)
            except ElfError:
                continue  # the dynamic linker goes on to the next directory too
            with image:
                if image.identity not in seen:
                    seen.add(image.identity)
                    found.append(path)
                    try:
                        directories = _own(image)
                        fresh = [each for each in image.needed if each not in asked]
                    except ElfError:
                        continue
                    asked.update(fresh)
                    wanted += [(each, directories) for each in fresh]
            break
    return found


def _own(image: ElfFile) -> tuple[str, ...]:
    origin = os.path.dirname(os.path.realpath(image.path))
    return tuple(d.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for d in image.search_path)
