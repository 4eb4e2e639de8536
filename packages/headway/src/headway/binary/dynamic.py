"""What the dynamic loader must find for an ELF file, and the cache in which it looks: both are untrusted.

Only the program headers are read, as the loader does. So it takes microseconds, also for a file of 100 MB.

Source of the formats: the ELF gABI, "Dynamic Section"; glibc 2.36, sysdeps/generic/dl-cache.h.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

from headway.dataclass import dataclass

__all__ = ["Dynamic", "read_cache", "read_dynamic"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3  # PT_*
_NEEDED, _STRINGS, _STRINGS_SIZE, _RPATH, _RUNPATH = 1, 5, 10, 15, 29  # DT_*
_MOST_SEGMENTS, _MOST_TAGS, _MOST_STRINGS, _MOST_NEEDED, _LONGEST_PATH = 256, 4096, 1 << 24, 512, 4096
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHE_HEAD = struct.Struct("<20sII20x")
_CACHE_ENTRY = struct.Struct("<iIIIQ")
_CACHE_FLAGS = {62: 0x0303, 183: 0x0A03}
"""What an entry is for, by e_machine: a library of glibc (3), for x86-64 (0x300) or arm64 (0xa00)."""
_MOST_OF_A_NAME = 8
"""Entries of one name that are used: glibc has one for each kind of processor that has a library of its own."""


@dataclass(frozen=True, slots=True)
class Dynamic:
    """What a file asks of the kernel and of the dynamic loader."""

    machine: int
    """The kind of processor (e_machine)."""
    interpreter: str
    """The path of the dynamic loader (PT_INTERP); empty: the file names none."""
    needed: tuple[str, ...]
    """The libraries that it needs (DT_NEEDED): names, or paths if they contain a slash."""
    rpath: tuple[str, ...]
    """Folders to search, before LD_LIBRARY_PATH (DT_RPATH), ``$ORIGIN`` not replaced; none if there is a RUNPATH."""
    runpath: tuple[str, ...]
    """Folders to search, behind LD_LIBRARY_PATH (DT_RUNPATH)."""


def read_dynamic(read: Callable[[int, int], bytes]) -> Dynamic | None:
    """Return what a file asks for; None: it is no 64-bit little-endian ELF file.

    ``read`` takes a size and an offset (`os.pread`). What is damaged is left out; raises OSError only.
    """
    try:
        return _read(read)
    except (struct.error, OverflowError, ValueError):
        return None


def _read(read: Callable[[int, int], bytes]) -> Dynamic | None:
    ident, _, machine, _, _, at, _, _, _, size, count, *_ = _HEADER.unpack(read(_HEADER.size, 0))
    if ident[:6] != b"\x7fELF\x02\x01" or size < _SEGMENT.size or count > _MOST_SEGMENTS:
        return None
    data = read(size * count, at)
    loads: list[tuple[int, int, int]] = []
    tags, interpreter = b"", ""
    for place in range(0, len(data) - _SEGMENT.size + 1, size):
        kind, _, offset, address, _, in_file, _, _ = _SEGMENT.unpack_from(data, place)
        if kind == _LOAD:
            loads.append((address, in_file, offset))
        elif kind == _DYNAMIC:
            tags = read(min(in_file, 16 * _MOST_TAGS), offset)
        elif kind == _INTERPRETER and in_file <= _LONGEST_PATH:
            interpreter = os.fsdecode(read(in_file, offset).partition(b"\0")[0])
    found: dict[int, list[int]] = {}
    for tag, value in struct.iter_unpack("<qQ", tags[: len(tags) // 16 * 16]):
        if not tag:
            break
        found.setdefault(tag, []).append(value)
    start, length = found.get(_STRINGS, [0])[0], found.get(_STRINGS_SIZE, [0])[0]
    where = next((start - first + at for first, size, at in loads if first <= start < first + size), None)
    strings = read(min(length, _MOST_STRINGS), where) if where is not None else b""

    def texts(kind: int) -> list[str]:
        return [text for value in found.get(kind, ())[:_MOST_NEEDED] if (text := _text(strings, value))]

    runpath = tuple(part for text in texts(_RUNPATH) for part in text.split(":"))
    rpath = () if runpath else tuple(part for text in texts(_RPATH) for part in text.split(":"))
    return Dynamic(machine, interpreter, tuple(texts(_NEEDED)), rpath, runpath)


def _text(strings: bytes, at: int) -> str:
    """Return the string at an offset; empty: there is none, or it is longer than a path."""
    end = strings.find(b"\0", at, at + _LONGEST_PATH) if at < len(strings) else -1
    return os.fsdecode(strings[at:end]) if end >= 0 else ""


def read_cache(data: bytes, machine: int) -> dict[str, tuple[str, ...]]:
    """Return the paths of libraries by name, from the content of /etc/ld.so.cache; none if it is no such file."""
    start = data.find(_CACHE_MAGIC)
    if start < 0 or start + _CACHE_HEAD.size > len(data):
        return {}
    data = data[start:]
    _, count, _ = _CACHE_HEAD.unpack_from(data)
    end = min(_CACHE_HEAD.size + count * _CACHE_ENTRY.size, len(data))
    entries = data[_CACHE_HEAD.size : end - (end - _CACHE_HEAD.size) % _CACHE_ENTRY.size]
    found: dict[str, list[str]] = {}
    for flags, key, value, _, _ in _CACHE_ENTRY.iter_unpack(entries):
        if flags != _CACHE_FLAGS.get(machine):
            continue
        name, path = _text(data, key), _text(data, value)
        paths = found.setdefault(name, [])
        if path.startswith("/") and len(paths) < _MOST_OF_A_NAME:
            paths.append(path)
    return {name: tuple(paths) for name, paths in found.items()}
