"""The files with code that a command will map: found before it is executed, so that their tables are ready by then.

They are searched for as the kernel and the dynamic loader do: the program in PATH, the interpreter of a script, the
program's loader (PT_INTERP), and its libraries by RPATH, LD_LIBRARY_PATH, RUNPATH, the loader's cache and its folders.
Words among the arguments that are programs count too, as in ``sh -c 'git log'`` and ``nice git log``. What a program
mapped when it was profiled last (`Remembered`) is added: that is how parts of a compiler and plug-ins are found.

All of it is untrusted, and only a guess: a file that is not found here is known as soon as the kernel has told of it,
and one that is never mapped costs the time in which its table is made. Nothing here raises.

Source: execve(2), ld.so(8).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from headway.binary.call_frames import Kept
from headway.binary.dynamic import Dynamic, read_cache, read_dynamic
from headway.dataclass import dataclass
from headway.other_root import open_within

__all__ = ["Expected", "ExpectedFile", "Remembered", "program_of"]

MOST_FILES = 256
"""Files that are prepared for a command, at most."""
_MOST_PROGRAMS = 16
"""Words of the arguments that are taken for programs, at most."""
_MOST_WORDS, _LONGEST_ARGUMENTS = 256, 1 << 14
_DEEPEST_SCRIPT = 5  # as the kernel: a script whose interpreter is a script
_SCRIPT_HEAD = 256  # BINPRM_BUF_SIZE
_LARGEST_CACHE = 16 << 20
_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")
"""Where glibc and musl search at last."""
_WORD = re.compile(r"[\w@%+,./-]+")
_ORIGIN = re.compile(r"\$(?:ORIGIN\b|\{ORIGIN\})")
_LIB = re.compile(r"\$(?:LIB\b|\{LIB\})")


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """A file that the command may map."""

    path: str
    """In the command's root directory, without symbolic links, as the kernel shows it."""
    inode: int
    interpreter: str
    """The path, likewise, of what the kernel maps with it; empty: nothing."""


class Expected:
    """Finds the files of one command; `files` has them.

    ``root``: the command's root directory; relative paths begin in ``folder``, a path in it.
    """

    def __init__(self, environment: Mapping[str, str], root: str = "/", folder: str = "/") -> None:
        self._environment, self._root, self._folder = environment, root, folder
        self._cache: dict[int, dict[str, tuple[str, ...]]] = {}
        self.files: dict[str, ExpectedFile] = {}
        """By path."""

    def add_command(self, argv: Sequence[str]) -> None:
        """Add the program that the kernel executes for these arguments, and programs that are named among them."""
        if not argv:
            return
        self.add_program(argv[0])
        words = list(dict.fromkeys(_WORD.findall(" ".join(argv[1:])[:_LONGEST_ARGUMENTS])))[:_MOST_WORDS]
        programs = [path for word in words if (path := program_of(word, self._environment, self._folder))]
        for path in programs[:_MOST_PROGRAMS]:
            self.add_program(path)

    def add_program(self, name: str, depth: int = 0) -> None:
        """Add a program by name or path: its file, or that of its interpreter, with its loader and libraries."""
        path = program_of(name, self._environment, self._folder)
        if not path or depth > _DEEPEST_SCRIPT:
            return
        with suppress(OSError, ValueError), _Open(self._root, path) as file:
            head = file.read(_SCRIPT_HEAD, 0)
            if head.startswith(b"#!"):
                words = head[2:].partition(b"\n")[0].split(None, 1)
                if words:
                    self.add_program(self._full(os.fsdecode(words[0])), depth + 1)
                    if os.path.basename(words[0]) == b"env" and len(words) > 1:
                        self.add_command(["", *os.fsdecode(words[1]).split()])
            else:
                self._add_elf(file)

    def add_file(self, path: str) -> None:
        """Add one file by its path, with its loader and libraries."""
        with suppress(OSError, ValueError), _Open(self._root, self._full(path)) as file:
            self._add_elf(file)

    def _add_elf(self, first: _Open) -> None:
        """Add an ELF file, and all that the loader will map for it, breadth first as it does."""
        if first.path in self.files:
            return
        asked = read_dynamic(first.read)
        if asked is None:
            return
        interpreter = ""
        if asked.interpreter:
            with suppress(OSError, ValueError), _Open(self._root, asked.interpreter) as file:
                interpreter = file.path
                self._keep(file, "")
        self._keep(first, interpreter)
        preloaded = tuple(re.split(r"[ :]+", self._environment.get("LD_PRELOAD", ""))) if asked.interpreter else ()
        waiting = [(asked, first.path, (*preloaded, *asked.needed), asked.rpath)]
        while waiting and len(self.files) < MOST_FILES:
            by, of, names, rpath = waiting.pop(0)
            for name in names:
                for path in self._candidates(name, by, of, rpath):
                    with suppress(OSError, ValueError), _Open(self._root, path) as file:
                        found = read_dynamic(file.read)
                        if found is None or found.machine != asked.machine:
                            continue
                        if file.path not in self.files and len(self.files) < MOST_FILES:
                            self._keep(file, interpreter if found.interpreter else "")
                            waiting.append((found, file.path, found.needed, (*found.rpath, *rpath)))
                        break

    def _keep(self, file: _Open, interpreter: str) -> None:
        if len(self.files) < MOST_FILES:
            self.files[file.path] = ExpectedFile(file.path, file.inode, interpreter)

    def _candidates(self, name: str, by: Dynamic, of: str, rpath: Sequence[str]) -> Iterator[str]:
        """Yield the paths at which the loader looks for a library, in its order."""
        if not name:
            return
        if "/" in name:
            yield self._full(_replaced(name, of))
            return
        given = re.split("[:;]", self._environment.get("LD_LIBRARY_PATH", ""))
        for folder in (*(() if by.runpath else rpath), *filter(None, given), *by.runpath):
            yield self._full(os.path.join(_replaced(folder, of), name))
        yield from self._cached(by.machine).get(name, ())
        for folder in _FOLDERS:
            yield f"{folder}/{name}"

    def _cached(self, machine: int) -> dict[str, tuple[str, ...]]:
        if machine not in self._cache:
            self._cache[machine] = {}
            with suppress(OSError, ValueError), _Open(self._root, "/etc/ld.so.cache") as file:
                self._cache[machine] = read_cache(file.read(_LARGEST_CACHE, 0), machine)
        return self._cache[machine]

    def _full(self, path: str) -> str:
        return os.path.join(self._folder, path)


class _Open:
    """A plain file in a root directory, open for reading. Raises OSError, ValueError."""

    def __init__(self, root: str, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC) if root == "/" else open_within(root, path)
        try:
            status = os.fstat(self._fd)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("not a plain file")
            self.inode = status.st_ino
            shown = os.readlink(f"/proc/self/fd/{self._fd}")
            self.path = shown if root == "/" else shown.removeprefix(root.rstrip("/"))
        except BaseException:
            os.close(self._fd)
            raise

    def read(self, size: int, at: int) -> bytes:
        """Return so many bytes at an offset, or fewer at the end."""
        return os.pread(self._fd, size, at) if at < 1 << 63 else b""

    def __enter__(self) -> _Open:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _replaced(path: str, of: str) -> str:
    """Return a folder in which ``$ORIGIN`` is that of a file."""
    return _LIB.sub("lib", _ORIGIN.sub(lambda _: os.path.dirname(of), path))


def program_of(name: str, environment: Mapping[str, str], folder: str = "") -> str:
    """Return the path of the file that execvp(3) would execute for a name; empty: there is none.

    ``folder``: where relative paths begin; empty: in the present one.
    """
    for place in [""] if "/" in name else os.get_exec_path(environment) if name else ():
        path = os.path.join(folder, place, name)
        with suppress(OSError, ValueError):
            if stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK):
                return path
    return ""


class Remembered:
    """What programs mapped when they were profiled last, in the user's cache folder."""

    def __init__(self, kept: Kept | None) -> None:
        self._kept = kept

    def read(self, program: str) -> list[str]:
        """Return the paths of the files that a program, and what it executed, had mapped; none if that is not known."""
        data = self._kept.load(_name_of(program)) if self._kept is not None else None
        return [os.fsdecode(path) for path in (data or b"").split(b"\0") if path.startswith(b"/")][:MOST_FILES]

    def write(self, program: str, paths: Sequence[str]) -> None:
        """Keep the paths; what cannot be kept is not."""
        if self._kept is not None:
            self._kept.store(_name_of(program), b"\0".join(os.fsencode(path) for path in paths[:MOST_FILES]))


def _name_of(program: str) -> str:
    return "mapped-" + hashlib.blake2b(os.fsencode(program), digest_size=16).hexdigest()
