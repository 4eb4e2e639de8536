"""Files that keep what a pass over a trace has found, so that the next command need not make it again.

They lie in a folder for each capture, ``$XDG_CACHE_HOME/headway/traces/KEY`` (``~/.cache`` without that variable). The
key is a digest of all that the content depends on: what the snapshot says, the images, size, inode and times of each
file, and the version of headway with its compiled decoders. A capture that has changed therefore has another folder.
The folders of the captures that were looked at last are kept.

A file has the magic number, the version of the format, the size of a header, the header's SHA-256, the header (JSON),
and sections of bytes. The header has the place, size and SHA-256 of each section. A file is used only if it belongs to
the user, nobody else may write it, and its digests are right. Whoever takes what is in it checks it all the same. The
folders must belong to the user, too. No link is followed in them, and nothing is removed that is not an index.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from headway._version import __version__

from .snapshot import TraceSnapshot

__all__ = ["UNSOUND", "VERSION", "Built", "IndexFile", "IndexFolder", "Kept"]

MAGIC = b"HWINDEX\n"
VERSION = 1
"""The version of the format, and of what is in the sections."""
UNSOUND = (ValueError, TypeError, KeyError, IndexError, OverflowError, OSError, RecursionError, struct.error)
"""What reading a file raises that is damaged, or has something else in it."""
_HEAD = struct.Struct("<8sII32s")
_MAX_HEADER, _MAX_SECTION = 1 << 24, 1 << 32
_KEPT = 32
"""The number of captures whose folders are kept."""
_KEY = re.compile(r"[0-9a-f]{32}")
"""The name of a capture's folder."""
_DECODERS = (
    "_coresight", "_etmv3", "_etmv4", "_etmv4_flow", "_flow", "_packets", "_program", "_ptm", "_ptm_flow", "_records",
    "_regain", "_waypoints",
)  # fmt: skip


class Kept(Protocol):
    """A header with named sections of bytes, in memory or in a file."""

    header: dict[str, Any]

    def section(self, name: str) -> bytes:
        """Return a whole section. Raises one of `UNSOUND` if it is not there, or not right."""

    def part(self, name: str, start: int, size: int) -> bytes:
        """Return a part of a section, whose digest is not checked."""


class Built:
    """A header and sections in memory."""

    def __init__(self, header: dict[str, Any], sections: Mapping[str, bytes]) -> None:
        self.header, self.sections = header, sections

    def section(self, name: str) -> bytes:
        """As of `Kept`."""
        return self.sections[name]

    def part(self, name: str, start: int, size: int) -> bytes:
        """As of `Kept`."""
        return self.sections[name][start : start + size]

    def write(self, stream: BinaryIO) -> None:
        """Write the file. Raises OSError."""
        places, at = {}, 0
        for name, data in self.sections.items():
            places[name] = [at, len(data), hashlib.sha256(data).hexdigest()]
            at += len(data)
        header = json.dumps({"header": self.header, "sections": places}).encode()
        stream.write(_HEAD.pack(MAGIC, VERSION, len(header), hashlib.sha256(header).digest()) + header)
        for data in self.sections.values():
            stream.write(data)


class IndexFile:
    """A file that `Built.write` wrote, of which only what is asked for is read."""

    def __init__(self, path: Path) -> None:
        """Open the file and read its header. Raises one of `UNSOUND` if it is not there, not the user's, or damaged."""
        self._path = path
        with self._open() as stream:
            magic, version, size, digest = _HEAD.unpack(stream.read(_HEAD.size))
            if magic != MAGIC or version != VERSION or size > _MAX_HEADER:
                raise ValueError(path)
            header = stream.read(size)
        if hashlib.sha256(header).digest() != digest:
            raise ValueError(path)
        found = json.loads(header)
        self.header: dict[str, Any] = found["header"]
        self._sections: dict[str, Any] = found["sections"]
        self._begin = _HEAD.size + size
        if not isinstance(self.header, dict) or not isinstance(self._sections, dict):
            raise TypeError(path)

    def section(self, name: str) -> bytes:
        """As of `Kept`."""
        _, size, digest = self._sections[name]
        data = self.part(name, 0, size)
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError(name)
        return data

    def part(self, name: str, start: int, size: int) -> bytes:
        """As of `Kept`."""
        begin, length, _ = self._sections[name]
        if not all(type(one) is int and 0 <= one < _MAX_SECTION for one in (begin, length, start, size)):
            raise ValueError(name)
        if start + size > length:
            raise ValueError(name)
        with self._open() as stream:
            if self._begin + begin + start + size > os.fstat(stream.fileno()).st_size:
                raise ValueError(name)
            stream.seek(self._begin + begin + start)
            return stream.read(size)

    def _open(self) -> BinaryIO:
        fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o022:
            os.close(fd)
            raise ValueError(self._path)
        return open(fd, "rb")


class IndexFolder:
    """The files of one capture, with one program. ``path``: None where the user has no place for such files."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    @classmethod
    def of(cls, snapshot: TraceSnapshot, images: Iterable[str]) -> IndexFolder:
        """Return the folder of a snapshot with these images. It need not be there."""
        images = list(images)
        files = [path for source in snapshot.sources for path in source.buffer.paths]
        files += [path for dumps in snapshot.dumps.values() for _, path, _, _ in dumps]
        files += [Path(name) for text in images for name in (text, text.rpartition("@")[0]) if name]
        files += [Path(import_module(f"{__package__}.{name}").__file__ or "") for name in _DECODERS]
        about = [VERSION, __version__, repr(snapshot), images, [_state_of(path) for path in files]]
        root = _root()
        return cls(root / hashlib.sha256(json.dumps(about).encode()).hexdigest()[:32] if root else None)

    def read(self, name: str) -> IndexFile | None:
        """Return a file; None if there is none that can be used."""
        if self.path is None:
            return None
        try:
            found = IndexFile(self.path / name)
        except UNSOUND:
            return None
        with suppress(OSError):
            os.utime(self.path)
        return found

    def write(self, name: str, built: Built) -> None:
        """Write a file. Where that is not possible, or the folders are not the user's own, nothing is kept."""
        if self.path is None:
            return
        root = self.path.parent
        with suppress(OSError):
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _own(os.fspath(root)) as all_:
                with suppress(FileExistsError):
                    os.mkdir(self.path.name, 0o700, dir_fd=all_)
                with _own(self.path.name, all_) as folder:
                    _replace(name, built, folder)
                _remove_oldest(all_)


def _root() -> Path | None:
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")  # as it is where the user has no home
    return Path(base) / "headway" / "traces" if os.path.isabs(base) else None


@contextmanager
def _own(path: str, within: int | None = None) -> Iterator[int]:
    """Yield the descriptor of a folder. Raises OSError if it is a link, or if others than the user may write it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=within)
    try:
        state = os.fstat(fd)
        if state.st_uid != os.geteuid() or state.st_mode & 0o022:
            raise PermissionError(path)
        yield fd
    finally:
        os.close(fd)


def _replace(name: str, built: Built, folder: int) -> None:
    """Write a file, in place of whatever has its name in the folder, or leave that as it was. Raises OSError."""
    scratch = f".{name}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with open(os.open(scratch, flags, 0o600, dir_fd=folder), "wb") as stream:
            built.write(stream)
        os.replace(scratch, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch, dir_fd=folder)
        raise


def _state_of(path: Path) -> list[Any]:
    """Return what changes when a file does."""
    try:
        state = path.stat()
    except (OSError, ValueError):
        return [os.fspath(path)]
    times = state.st_mtime_ns, state.st_ctime_ns
    return [os.path.realpath(path), state.st_dev, state.st_ino, state.st_size, *times]


def _remove_oldest(root: int) -> None:
    """Remove the folders that were used longest ago, of those that are captures'."""
    with os.scandir(root) as entries:
        folders = [one for one in entries if _KEY.fullmatch(one.name) and one.is_dir(follow_symlinks=False)]
        found = sorted((one.stat(follow_symlinks=False).st_mtime_ns, one.name) for one in folders)
    for _, name in found[:-_KEPT]:
        shutil.rmtree(name, ignore_errors=True, dir_fd=root)
