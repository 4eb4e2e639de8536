"""Marked functions: from the user's words to the places in files where probes are attached.

A function has a probe at its entry, and one that sees it return. The latter replaces the return address on the stack.
An exception must not pass through that, so functions of C++ and Rust files have a probe at each of their ways out
instead (`headway.binary.ways_out`).

``LIB:FUNCTION`` names a function of a library or of the program. A bare name is a ready-made set (functions.toml). The
result is, for each function, a file and the offset of the function's first instruction in it. A uprobe belongs to a
file and not to a process, so one probe serves every process that maps the file, now or later.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache

from headway.binary.elf import ElfError, ElfFile, Symbol, SymbolKind
from headway.dataclass import dataclass
from headway.errors import HeadwayError, SelectionError
from headway.extras import need
from headway.files import packaged
from headway.linux.options import MarkedFunctions
from headway.linux.procfs.living import with_memory
from headway.linux.procfs.maps import file_of, mappings

from .libraries import cached, loaded_by, program_of, search

__all__ = ["MAX_FUNCTIONS", "MAX_PROBES", "Probe", "Scope", "Set", "resolve", "sets", "similar"]

MAX_FUNCTIONS = 64
"""The largest number of functions that can be marked at once. Each is a state of its own."""
MAX_PROBES = 1024
"""The largest number of places in files. A function of a library of which containers have own copies has several."""
MAX_CODE = 1 << 20
"""The largest size of a function in bytes whose ways out are searched for."""
_GLOB = re.compile(r"[*?\[]")
_COLON = re.compile(r"(?<!:):(?!:)")
_MANGLED = ("_Z", "__Z", "_R")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]+")
_NO_PART = frozenset({"anonymous", "const", "delete", "namespace", "new", "operator", "std"})
"""Words of demangled names that are not in the symbol."""
_NEAR = 4


@dataclass(frozen=True, slots=True)
class Probe:
    """The place where a marked function begins."""

    path: str
    """The path by which this process can open the file."""
    offset: int
    """The offset of the function's first instruction in the file, in bytes."""
    name: str
    """The function's symbol, without its version."""
    state: str
    """The state of a thread in the function, for example ``noneffective.<function>``."""
    ways_out: tuple[tuple[int, bool], ...] | None = None
    """The offsets of the instructions by which it is left, and whether each is a jump to a fixed address.

    None: a return probe sees that.
    """


@dataclass(frozen=True, slots=True)
class Set:
    """A ready-made set of functions."""

    about: str
    libraries: tuple[str, ...]
    functions: tuple[str, ...]


@cache
def sets() -> Mapping[str, Set]:
    """Return the ready-made sets by name, from functions.toml in this package."""
    text = packaged(__package__, "functions.toml").decode()
    return {
        name: Set(table["about"], tuple(table["libraries"]), tuple(table["functions"]))
        for name, table in tomllib.loads(text).items()
    }


class _File:
    """A program or library in which functions may be marked."""

    def __init__(self, path: str, shown: str | None = None, names: Iterable[str] = (), root: str = "/") -> None:
        self.path, self.shown, self.root = path, shown or path, root
        self.names = {os.path.basename(self.shown), *names}

    def image(self) -> ElfFile:
        """Open the file. The caller must close it."""
        return ElfFile(self.path, self.shown, self.root)

    @property
    def soname(self) -> str | None:
        """DT_SONAME; None if the file cannot be read."""
        try:
            with self.image() as image:
                return image.soname
        except ElfError:
            return None


class Scope:
    """The files that the measured programs use, as far as they are known."""

    def __init__(self, pids: Sequence[int], command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.program: list[_File] = []
        self.files: list[_File] = []
        self.words = "this machine has"
        seen: set[tuple[str, int]] = set()
        for pid in pids:
            self._process(pid, seen)
        if pids:
            some = f"process {pids[0]} has" if len(pids) == 1 else f"{len(pids)} processes have"
            self.words = f"{some} loaded"
        self.open = not pids
        """Whether libraries that no known program uses may be searched for on the machine."""
        program = program_of(command, environment) if command else None
        if program is not None:
            words = {os.path.basename(command[0])} if _same(command[0], program, environment) else set()
            for index, path in enumerate(loaded_by(program, environment)):
                file = _File(path, names=words if index == 0 else ())
                self.files.append(file)
                if index == 0:
                    self.program.append(file)

    @classmethod
    def of(cls, pids: Sequence[int], command: Sequence[str], environment: Mapping[str, str] | None) -> Scope:
        """Return the scope of `resolve`'s arguments."""
        return cls(pids, command, os.environ if environment is None else environment)

    def _process(self, pid: int, seen: set[tuple[str, int]]) -> None:
        try:
            found = mappings(pid)
            program = os.readlink(f"/proc/{with_memory(pid)}/exe").removesuffix(" (deleted)")
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                called = os.path.basename(os.fsdecode(file.read(4096).partition(b"\0")[0]))
        except (FileNotFoundError, ProcessLookupError):
            return  # it has ended in the meantime
        except OSError as error:
            words = f"the libraries of process {pid} cannot be read ({error.strerror}), so none of its functions can be"
            raise SelectionError(f"{words} marked: run headway as root") from None
        for mapping in found:
            key = mapping.path, mapping.inode
            if "x" not in mapping.permissions or key in seen:
                continue
            path = file_of(pid, mapping)
            if path is None:
                continue
            seen.add(key)
            is_program = mapping.path == program
            root = f"/proc/{with_memory(pid)}/root" if path.startswith("/proc/") else "/"
            file_ = _File(path, mapping.path, (called,) if is_program and called else (), root)
            self.files.append(file_)
            if is_program:
                self.program.append(file_)

    def named(self, library: str) -> list[_File]:
        """Return the files that a name or path may mean. Raises SelectionError if there are none."""
        if "/" in library:
            return self._at(library)
        found = self._matching(library, exact=True) or self._matching(library, exact=False)
        if not found and self.open:
            found = _installed(library)
        if found:
            return found
        known = {name for file in self.files for name in file.names}
        if self.open:
            known |= set(cached())
        near = similar(library, known)
        hint = near or "give a path to mark a library that is loaded later" * (not self.open)
        raise SelectionError(f"{self.words} no library or program {library!r}: {hint or 'give a path'}")

    def _at(self, path: str) -> list[_File]:
        absolute = os.path.abspath(path)
        found = [file for file in self.files if file.shown in (absolute, os.path.realpath(absolute))]
        if found:
            return found
        if not os.path.exists(path):
            folder = os.path.dirname(path)
            try:
                near = similar(os.path.basename(path), os.listdir(folder or "."))
            except OSError:
                near = ""
            raise SelectionError(f"there is no file {path}: {near or 'give the path of a library'}")
        return [_File(absolute)]

    def _matching(self, library: str, *, exact: bool) -> list[_File]:
        if not exact:  # for example libc for libc.so.6
            return [file for file in self.files if any(name.startswith(f"{library}.so") for name in file.names)]
        found = [file for file in self.files if any(fnmatchcase(name, library) for name in file.names)]
        return found or [file for file in self.files if fnmatchcase(file.soname or "", library)]


def _same(called: str, program: str, environment: Mapping[str, str]) -> bool:
    """Return whether a command is the program itself, and not a script that it runs."""
    path = program_of([called], environment)
    return path == program and os.path.basename(called) != "env"


def _installed(library: str) -> list[_File]:
    names = [
        library,
        *sorted(name for name in cached() if name.startswith(f"{library}.so") or fnmatchcase(name, library)),
    ]
    for path in (path for name in names for path in search(name)):
        try:
            ElfFile(path).close()
        except ElfError:
            continue
        return [_File(path)]
    path_ = program_of([library], os.environ)
    return [_File(path_, names=(library,))] if path_ is not None else []


def similar(name: str, known: Iterable[str]) -> str:
    """Return the known names that are similar, as the end of a sentence; empty if there are none."""
    close = difflib.get_close_matches(name, sorted(set(known))[:200_000], _NEAR, 0.6)
    return f"did you mean {', '.join(close)}?" if close else ""


def resolve(
    marked: Sequence[MarkedFunctions],
    pids: Sequence[int] = (),
    command: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> tuple[Probe, ...]:
    """Return the probes for what a user marked, each place once.

    ``pids``: processes whose loaded files are meant. ``command``: arguments of a program that will be started with
    ``environment`` (None: ours); its files are those that it will load. Without both, and for a library that a command
    does not name, files are searched for as the dynamic linker does. Raises SelectionError with one sentence if words,
    a library or a function are wrong.
    """
    if not marked:
        return ()
    scope = Scope.of(pids, command, environment)
    found: dict[tuple[int, int, int], Probe] = {}
    kinds: dict[tuple[int, int, int], tuple[str, str]] = {}
    for one in marked:
        try:
            for place, probe in _probes(one, scope):
                known = found.setdefault(place, probe)
                if kinds.setdefault(place, (one.kind, one.name)) != (one.kind, one.name):
                    raise SelectionError(f"{probe.name} is marked as {known.state} already: mark it once")
        except (ElfError, SelectionError) as error:
            raise SelectionError(f"{one.option}: {error}") from None
    functions = {probe.name for probe in found.values()}
    if len(functions) > MAX_FUNCTIONS:
        raise SelectionError(
            f"{marked[0].option}: {len(functions)} functions are marked, {MAX_FUNCTIONS} are possible: choose fewer"
        )
    places = len(found) + sum(len(probe.ways_out or ()) for probe in found.values())
    if places > MAX_PROBES:
        raise SelectionError(
            f"{marked[0].option}: {places} places would be probed, {MAX_PROBES} are possible: choose fewer"
        )
    return tuple(found.values())


def _probes(marked: MarkedFunctions, scope: Scope) -> Iterator[tuple[tuple[int, int, int], Probe]]:
    text = marked.words
    colons = list(_COLON.finditer(text))
    if not colons:
        yield from _probes_of_set(marked, scope)
        return
    library, function = text[: colons[-1].start()], text[colons[-1].end() :]
    if not library or not function or not text.isprintable():
        raise SelectionError(f"{text!r}: write it like libc.so.6:qsort, or ./prog:parse_*, or malloc")
    files = scope.named(library)
    several = bool(_GLOB.search(function))
    failed: HeadwayError | None = None
    any_found = False
    for file in files:
        with file.image() as image:
            try:
                chosen = _matching(image, function) if several else _exact(image, function)
                places = list(_places(image, chosen, marked, own_returns=image.throws))
                if not places:
                    raise SelectionError(
                        f"{function} of {image.shown} only jumps to another function: name that one, which has the time"
                    )
            except SelectionError as error:
                failed = failed or error
                continue
            any_found = True
            yield from places
    if failed is not None and not any_found:
        raise failed


def _probes_of_set(marked: MarkedFunctions, scope: Scope) -> Iterator[tuple[tuple[int, int, int], Probe]]:
    name = marked.words
    chosen = sets().get(name)
    if chosen is None:
        hint = similar(name, sets()) or f"the sets are: {', '.join(sets())}; a function is written LIB:FUNCTION"
        raise SelectionError(f"there is no ready-made set {name!r}: {hint}")
    files = list(scope.program)
    for pattern in chosen.libraries:
        files += scope._matching(pattern, exact=True)
    if not files and scope.open:
        files = [file for pattern in chosen.libraries for file in _installed(pattern)]
    nothing = True
    for file in files:
        try:
            image = file.image()
        except ElfError:
            if file in scope.program:  # a program that may be executed but not read: use its libraries
                continue
            raise
        with image:
            if image.is_go:
                continue
            order = {function: number for number, function in enumerate(chosen.functions)}
            there = [symbol for symbol in _functions(image) if symbol.name in order and symbol.default]
            for place in _places(image, sorted(there, key=lambda symbol: order[symbol.name]), marked):
                nothing = False
                yield place
    if nothing:
        raise SelectionError(f"{name}: no library that the program uses has these functions: name one as LIB:FUNCTION")


def _functions(image: ElfFile) -> Iterator[Symbol]:
    """Yield the symbols that can be probed. An assembler function may lack its type; lying in code is then enough."""
    for symbol in image.symbols():
        if (
            symbol.defined
            and symbol.kind in (SymbolKind.FUNCTION, SymbolKind.OTHER)
            and image.file_offset(symbol.address) is not None
        ):
            yield symbol


def _exact(image: ElfFile, function: str) -> list[Symbol]:
    name, _, version = function.partition("@")
    version = version.lstrip("@")
    same = [symbol for symbol in image.symbols() if symbol.name == name]
    defined = [symbol for symbol in same if symbol.defined]
    if not defined:
        demangled = _demangled(image, function, lambda names: function in names)
        if demangled:
            return demangled
        if same:
            raise SelectionError(f"{image.shown} only calls {name}: name the library that has it")
        raise SelectionError(f"{image.shown} has no function {name!r}: {_near_function(image, name)}")
    if version:
        right = [symbol for symbol in defined if symbol.version == version]
        if not right:
            there = ", ".join(sorted({symbol.version for symbol in defined if symbol.version}) or ["none"])
            raise SelectionError(f"{image.shown} has no {name} of version {version}; there: {there}")
    else:
        right = [symbol for symbol in defined if symbol.default] or defined
    if any(symbol.kind is SymbolKind.CHOOSER for symbol in right):
        raise SelectionError(
            f"{name} of {image.shown} stands for several functions of which one is chosen when the "
            "program starts (IFUNC), and a probe would only see that choice: name the function used, or a caller"
        )
    code = [s for s in right if image.file_offset(s.address) is not None and s.kind is not SymbolKind.DATA]
    if not code:
        raise SelectionError(f"{name} of {image.shown} is not a function: its symbol is not in the code")
    _refuse_go(image)
    # Static functions with one name in several source files are all meant; versions of a function are not.
    return code if not any(symbol.version for symbol in code) else code[:1]


def _near_function(image: ElfFile, name: str) -> str:
    names = {symbol.name for symbol in _functions(image)}
    if not names:
        return "it names no functions at all (it is stripped): install its debug symbols"
    if "::" in name:
        return "nm -DC lists its functions by such names; one that was inlined has none"
    return similar(name, names) or "nm -D lists its functions; one that was inlined has none"


def _matching(image: ElfFile, pattern: str) -> list[Symbol]:
    found = [
        s
        for s in _functions(image)
        if s.kind is SymbolKind.FUNCTION and s.default and ".cold" not in s.name and fnmatchcase(s.name, pattern)
    ]
    if _WORD.search(pattern):
        found += _demangled(image, pattern, lambda names: any(fnmatchcase(name, pattern) for name in names))
    if not found:
        raise SelectionError(f"no function of {image.shown} is like {pattern!r}: nm -D lists them, nm -DC those of C++")
    _refuse_go(image)
    by_address: dict[int, Symbol] = {}
    for symbol in sorted(found, key=lambda s: (s.name.startswith("_"), len(s.name), s.name)):
        by_address.setdefault(symbol.address, symbol)
    names = {symbol.name for symbol in by_address.values()}
    if len(names) > MAX_FUNCTIONS:
        raise SelectionError(
            f"{len(names)} functions of {image.shown} are like {pattern!r}, {MAX_FUNCTIONS} are "
            "possible: use a narrower pattern"
        )
    return list(by_address.values())


def _demangled(image: ElfFile, wanted: str, fits: Callable[[Collection[str]], bool]) -> list[Symbol]:
    """Return the functions of a file whose demangled names fit. Parts that the compiler moved elsewhere are left out.

    Demangling takes long, so symbols that lack a word of what is wanted are not demangled.
    """
    words = [word for word in _WORD.findall(re.split("[(<]", wanted, maxsplit=1)[0] or wanted) if word not in _NO_PART]
    found = [
        symbol
        for symbol in _functions(image)
        if symbol.name.startswith(_MANGLED)
        and symbol.kind is SymbolKind.FUNCTION
        and ".cold" not in symbol.name
        and all(word in symbol.name for word in words)
    ]
    if not found:
        return []
    _refuse_go(image)
    need("functions")
    from headway.binary.demangle import names_of

    by_address: dict[int, Symbol] = {}
    for symbol in found:
        if fits(names_of(symbol.name)):
            by_address.setdefault(symbol.address, symbol)
    return list(by_address.values())


def _refuse_go(image: ElfFile) -> None:
    if image.is_go:
        raise SelectionError(
            f"{image.shown} is a Go program: Go moves the stacks of goroutines, and goroutines between threads, so "
            "what a probe sees belongs to no thread, and a return probe would crash it: mark a region in the source "
            "instead"
        )


def _places(
    image: ElfFile, symbols: Iterable[Symbol], marked: MarkedFunctions, *, own_returns: bool = False
) -> Iterator[tuple[tuple[int, int, int], Probe]]:
    """Yield the places of functions. ``own_returns``: probes are to be at their own ways out."""
    cold = _cold_parts(image) if own_returns else {}
    for symbol in symbols:
        offset = image.file_offset(symbol.address)
        if offset is not None:
            ways_out = _ways_out(image, symbol, cold.get(symbol.name, ())) if own_returns else None
            if ways_out and (offset, True) in ways_out:
                continue  # it does nothing itself
            state = f"{marked.kind}.{marked.name or _word(symbol.name)}"
            yield (*image.identity, offset), Probe(image.path, offset, symbol.name, state, ways_out)


def _cold_parts(image: ElfFile) -> dict[str, list[Symbol]]:
    """Return the rare code that the compiler moved out of functions, by the function's symbol."""
    found: dict[str, list[Symbol]] = {}
    for symbol in _functions(image):
        name, cold, _ = symbol.name.partition(".cold")
        if cold and symbol.size:
            found.setdefault(name, []).append(symbol)
    return found


def _ways_out(image: ElfFile, symbol: Symbol, cold: Iterable[Symbol]) -> tuple[tuple[int, bool], ...]:
    need("functions")
    from headway.binary.ways_out import Piece, ways_out

    parts = {part.address: part.size for part in (symbol, *cold)}
    if not symbol.size or sum(parts.values()) > MAX_CODE:
        size = "its size is not known" if not symbol.size else "it is larger than 1 MiB"
        raise SelectionError(
            f"exceptions or panics may pass through {symbol.name} of {image.shown}, so its ways out are to be probed, "
            f"but {size}: mark a region in the source instead"
        )
    try:
        found = ways_out([Piece(address, image.contents(address, size)) for address, size in sorted(parts.items())])
    except HeadwayError as error:
        raise SelectionError(
            f"the ways out of {symbol.name} of {image.shown} cannot be found ({error}): mark a region in the source "
            "instead"
        ) from None
    places = ((image.file_offset(way.address), way.is_jump) for way in found)
    return tuple((offset, is_jump) for offset, is_jump in places if offset is not None)


def _word(name: str) -> str:
    """Return a symbol as part of a state's name, demangled where that is possible."""
    if name.startswith(_MANGLED):
        try:
            from headway.binary.demangle import short_name

            name = short_name(name)
        except ImportError:
            pass
    return re.sub(r"[^\w.$~:]", "?", name, flags=re.ASCII)[:80]
