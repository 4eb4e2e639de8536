"""What the programs walk stacks by (unwinding.h): the code that each process has mapped, and the rows of each file.

The rows of a file are in memory once, however many processes have it mapped. Memory is taken in parts of 1 MiB, as much
as is needed, up to a limit. What a process has mapped is a block of entries. A change makes a new block, and then the
process's entry in a hash map is replaced: a walk sees the old block or the new one. A block is used again only after a
grace period, when no walk can be in it.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as Mapping_
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headway.binary.call_frames import ROW, RULE, CallFrameError, CallFrames, Kept, cache_folder, read_call_frames
from headway.binary.module import Module
from headway.linux.procfs.maps import Mapping
from headway.linux.symbols.walked import Walked
from headway.system_call import c_library

from ..interpreters.python import Pythons
from ..programs.libbpf import BpfError, Object
from ..shared.layout import CODE_KINDS, FRAME_CHUNK, STACK_ENDS, STACK_WORDS, pack, size_of

__all__ = ["CodeTables", "FrameFiles", "python_part", "sizes", "walked"]

SPACES = 1 << 13
"""Processes that there is room for."""
MAPPINGS = 1 << 16
"""Their mappings with code, 32 bytes each."""
FILES = 1 << 13
"""Files that are recognised when a process maps them."""
RULES = 1 << 15
"""Different rules, 32 bytes each."""
MOST_ROWS = 192 * FRAME_CHUNK
"""Rows of all files, 8 bytes each: 192 MiB."""
_FIRST_ROWS = 4 * FRAME_CHUNK
"""Rows that there is memory for from the beginning: each further part takes a grace period of the kernel's."""
FOUND = 1 << 12
"""Addresses that a walk remembers (N_FOUND in unwinding.h)."""
_CODE_MAPPING = np.dtype(
    [(name, "<u8") for name in ("start", "end")] + [(name, "<u4") for name in ("delta", "first", "count", "kind")]
)
_SEGMENTS = 2
"""Executable segments of a file that are recognised (N_SEGMENTS)."""
_V8 = re.compile(r"node(js)?|libnode\.so.*")
"""Files that contain code of V8's compiler, which has no call frame information but keeps frame pointers."""
_ADDRESS = (1 << 56) - 1
_MEMBARRIER, _GLOBAL = 324, 1
"""membarrier(2) of x86-64, MEMBARRIER_CMD_GLOBAL: it returns after a grace period of RCU."""


def sizes(cpus: int) -> dict[str, int]:
    """Entries of the maps, for so many processors."""
    return {
        "code_spaces": SPACES,
        "recent_code": SPACES,
        "code_files": FILES,
        "code_mappings": MAPPINGS,
        "frame_rules": RULES,
        "frame_rows": MOST_ROWS // FRAME_CHUNK,
        "walks": 2 * cpus,
        "walked_stacks": 2 * cpus,
        "known_addresses": 2 * cpus * FOUND,
    }


def walked(words: Sequence[int], python: Sequence[int] = ()) -> tuple[tuple[int, ...], Walked]:
    """Return the addresses of a stack as the programs left it, and how far it was walked.

    ``python``: the words of its frames of Python (`python_part`).
    """
    why, at, unsure, runs = "no_mappings", 0, [], []
    addresses = []
    for place, word in enumerate(words):
        mark = word >> 56
        if mark == STACK_WORDS["STACK_END"]:
            why, at = end_of(word), word & (1 << 48) - 1
            break
        if mark & STACK_WORDS["STACK_UNSURE"]:
            unsure.append(place)
        if mark & STACK_WORDS["STACK_RUNS"]:
            runs.append(place)
        addresses.append(word & _ADDRESS)
    else:
        why = "deep"
    why_python = ""
    if python and python[-1] >> 56 == STACK_WORDS["STACK_END"]:
        why_python, python = end_of(python[-1]), python[:-1]
    return tuple(addresses), Walked(
        "" if why == "outermost" else why, tuple(unsure), at, tuple(python), tuple(runs), why_python
    )


def python_part(words: Sequence[int]) -> int:
    """Return the hash of the frames of Python of a stack, which stands behind its end; 0: it has none."""
    return words[-1] if len(words) > 1 and words[-2] >> 56 == STACK_WORDS["STACK_END"] else 0


def end_of(word: int) -> str:
    """Return why a stack ends, by its last word."""
    return STACK_ENDS.get(word >> 48 & 255, "no_information")


@dataclass(frozen=True, slots=True)
class _Rows:
    """Where the rows of a module are."""

    frames: CallFrames | None
    first: int = 0
    count: int = 0
    kind: int = 0
    python: int = 0
    """The number of its Python; 0: it has none."""
    runtime: int = 0
    """Where that has its `_PyRuntime`, from the module's base on."""


class FrameFiles:
    """The tables of files, each made once."""

    def __init__(self) -> None:
        folder = cache_folder()
        self.kept = Kept(folder) if folder is not None else None
        """Where tables are kept on disk; None: nowhere."""
        self._found: dict[Module, CallFrames | None] = {}
        self.problems: dict[str, str] = {}
        """Why files have no rows, by their paths."""

    def prepare(self, modules: Iterable[Module | None]) -> None:
        """Make the tables of these files now, so that nobody waits for them later."""
        for module in modules:
            if module is not None and module not in self._found:
                self._found[module] = self._read(module)

    def of(self, module: Module) -> CallFrames | None:
        """Return the table of a file, which is not kept here any more; None: it has none that can be read."""
        return self._found.pop(module) if module in self._found else self._read(module)

    def _read(self, module: Module) -> CallFrames | None:
        if module.read is None:
            self.problems[module.path] = "it is not open"
            return None
        try:
            return read_call_frames(module.read, self.kept)
        except CallFrameError as error:
            self.problems[module.path] = str(error)
            return None


class CodeTables:
    """Keeps the tables of a loaded object; `close` lets go of their memory."""

    def __init__(self, programs: Object, most_rows: int = MOST_ROWS) -> None:
        self.files = FrameFiles()
        """Has the tables of files; another may have been prepared."""
        self._most = most_rows
        self._spaces, self._rows = programs.map("code_spaces"), programs.map("frame_rows")
        self._files_map = programs.map("code_files")
        self._recognised: set[tuple[int, int]] = set()
        self._memory: tuple[mmap.mmap, ...] = (
            programs.map("code_mappings").map_memory(),
            programs.map("frame_rules").map_memory(),
        )
        self._mappings: NDArray[np.void] = np.frombuffer(self._memory[0], _CODE_MAPPING)
        self._rules: NDArray[np.void] = np.frombuffer(self._memory[1], RULE)
        self._chunks: list[mmap.mmap] = []
        self._used = 0
        self._modules: dict[Module, _Rows] = {}
        self._keys: dict[Module, tuple[int, int]] = {}
        self._numbers: dict[bytes, int] = {}
        self._blocks: dict[int, tuple[int, int]] = {}
        self._next = 0
        self._left: list[tuple[int, int]] = []
        self._free: list[tuple[int, int]] = []
        self._version = 0
        self.pythons = Pythons(programs)
        self.problems: dict[str, str] = {}
        """What has found no room."""
        self._take_memory(_FIRST_ROWS)
        assert size_of("frame_rule") == RULE.itemsize
        assert size_of("frame_row") == ROW.itemsize
        assert size_of("code_mapping") == _CODE_MAPPING.itemsize

    @property
    def bytes(self) -> int:
        """The memory of the rows, in bytes."""
        return len(self._chunks) * FRAME_CHUNK * ROW.itemsize

    def know(self, pid: int, code: Iterable[tuple[Mapping, Module | None]], *, made_is_framed: bool = False) -> None:
        """Tell the programs what a process has mapped; files that are new are compiled now.

        ``made_is_framed``: the code that it makes at run time keeps frame pointers.
        """
        entries = []
        known: dict[Module, tuple[int, int]] = {}
        python: Mapping_[str, int] = {}
        for mapping, module in code:
            if module is None:
                kind = CODE_KINDS["CODE_MADE"]
                if made_is_framed:
                    kind |= CODE_KINDS["CODE_FRAME_POINTERS"] | CODE_KINDS["CODE_TRUSTED"]
                entries.append((mapping.start, mapping.end, 0, 0, 0, kind))
                continue
            rows = self._modules.get(module)
            if rows is None:
                rows = self._modules[module] = self._add(module)
            key = _key_of(mapping, module)
            if key is not None:
                known[module] = key
            delta = rows.frames.delta(mapping.offset) if rows.frames is not None else None
            if delta is None or not 0 <= delta < 1 << 32:
                entries.append((mapping.start, mapping.end, 0, 0, 0, rows.kind))
            else:
                if rows.python:
                    python = {"python": rows.python, "runtime": mapping.start - delta + rows.runtime}
                entries.append((mapping.start, mapping.end, delta, rows.first, rows.count, rows.kind))
        self._publish(pid, entries, python)
        self._recognise(known)

    def expect(self, expected: Iterable[tuple[Module, Mapping, Module | None]]) -> None:
        """Have the programs recognise files that no process has mapped yet, each with what the kernel maps with it.

        The last is the dynamic loader; None: the file has none.
        """
        for module, mapping, loader in expected:
            key = _key_of(mapping, module)
            if key is None:
                continue
            rows = self._modules.get(module)
            if rows is None:
                rows = self._modules[module] = self._add(module)
            self._keys[module] = key
            interpreter = self._keys.get(loader, (0, 0)) if loader is not None else (0, 0)
            if rows.frames is not None and not (rows.frames.interpreter and not interpreter[0]):
                self._assign(key, rows, rows.frames, interpreter)

    def _recognise(self, known: Mapping_[Module, tuple[int, int]]) -> None:
        """Have the programs recognise the files of a process when another one maps them."""
        for module, key in known.items():
            self._keys[module] = key
            frames = self._modules[module].frames
            if key in self._recognised or frames is None:
                continue
            wanted = os.path.basename(frames.interpreter)
            interpreter = next((at for other, at in known.items() if wanted and other.name == wanted), (0, 0))
            if wanted and not interpreter[0]:
                continue  # it is not known under this name
            self._assign(key, self._modules[module], frames, interpreter)

    def _assign(self, key: tuple[int, int], rows: _Rows, frames: CallFrames, interpreter: tuple[int, int]) -> None:
        """Have the programs recognise one file, if there is room for it."""
        if key in self._recognised:
            return
        self._recognised.add(key)
        segments = b"".join(
            pack("code_segment", {"offset": offset, "size": size, "address": address})
            for offset, address, size in frames.segments[:_SEGMENTS]
        )
        value = pack(
            "code_file",
            {
                "first": rows.first,
                "count": rows.count,
                "kind": rows.kind,
                "n_segments": len(frames.segments),
                "base": frames.base,
                "entry": frames.entry,
                "python": rows.python,
                "runtime": rows.runtime,
                "interpreter": struct.pack("<QQ", *interpreter),
                "segments": segments,
            },
        )
        self._files_map.assign(struct.pack("<QQ", *key), value)

    def forget(self, pid: int) -> None:
        """Forget what a process had mapped that has ended, or executes another program.

        What it has mapped since then, the programs have noted themselves (recent_code.h).
        """
        self._spaces.remove(pid.to_bytes(4, "little"))
        if pid in self._blocks:
            self._left.append(self._blocks.pop(pid))

    def _publish(self, pid: int, entries: Sequence[tuple[int, ...]], python: Mapping_[str, int]) -> None:
        first = self._room(len(entries))
        if first is None:
            self.forget(pid)
            self.problems["processes"] = "there is no room for what more processes have mapped"
            return
        self._mappings[first : first + len(entries)] = np.array(sorted(entries), _CODE_MAPPING)
        self._version += 1
        space = {"first": first, "count": len(entries), "version": self._version, **python}
        try:
            self._spaces.set(pid, pack("code_space", space))
        except BpfError:
            self._left.append((first, len(entries)))
            self.problems["processes"] = f"there is no room for more than {SPACES} processes"
            return
        if pid in self._blocks:
            self._left.append(self._blocks[pid])
        self._blocks[pid] = first, len(entries)

    def _room(self, count: int) -> int | None:
        """Return the first of so many entries that nothing uses; None: there are none."""
        if self._next + count <= MAPPINGS:
            self._next += count
            return self._next - count
        for attempt in range(2):
            for place, (first, size) in enumerate(self._free):
                if size >= count:
                    self._free[place] = first + count, size - count
                    return first
            if attempt or not self._left or c_library().syscall(_MEMBARRIER, _GLOBAL, 0, 0) != 0:
                return None
            self._free = _joined([*self._free, *self._left])
            self._left = []
        return None

    def _add(self, module: Module) -> _Rows:
        """Take over the rows of a file. One that has none is walked by frame pointers if it keeps them."""
        frames = self.files.of(module)
        if (frames is not None and frames.is_go) or _V8.fullmatch(module.name):
            kind = CODE_KINDS["CODE_FRAME_POINTERS"] | CODE_KINDS["CODE_TRUSTED"]
        elif (frames is None or not frames.tells) and module.keeps_frame_pointers:
            kind = CODE_KINDS["CODE_FRAME_POINTERS"]
        else:
            kind = 0
        if frames is None or not len(frames.rows):
            return _Rows(_without_rows(frames), kind=kind)
        numbers = self._number(frames.rules)
        count = len(frames.rows)
        if numbers is None or self._used + count > self._most or not self._take_memory(self._used + count):
            self.problems[module.path] = "there is no room for its unwind information"
            return _Rows(_without_rows(frames), kind=kind | CODE_KINDS["CODE_NO_ROOM"])
        rows = np.empty(count, ROW)
        rows["address"], rows["rule"] = frames.rows["address"], numbers[frames.rows["rule"]]
        first = self._used
        self._write(first, rows)
        self._used += count
        found = self.pythons.add(module)
        python, runtime = (found[0], found[1].runtime - frames.base) if found is not None else (0, 0)
        return _Rows(_without_rows(frames), first, count, kind, python, runtime)

    def _number(self, rules: NDArray[np.void]) -> NDArray[np.uint32] | None:
        """Return the numbers of rules among all; None: there is no room for them."""
        numbers = np.zeros(len(rules), np.uint32)
        data = rules.tobytes()
        for place in range(1, len(rules)):
            one = data[place * RULE.itemsize : (place + 1) * RULE.itemsize]
            number = self._numbers.get(one)
            if number is None:
                number = len(self._numbers) + 1  # 0: nothing is known
                if number >= RULES:
                    return None
                self._numbers[one] = number
                self._rules[number] = rules[place]
            numbers[place] = number
        return numbers

    def _take_memory(self, rows: int) -> bool:
        """Have memory for so many rows. Return whether there is."""
        with suppress(BpfError, OSError):
            while len(self._chunks) * FRAME_CHUNK < rows:
                self._chunks.append(self._rows.add_array(len(self._chunks), ROW.itemsize, FRAME_CHUNK))
        return len(self._chunks) * FRAME_CHUNK >= rows

    def _write(self, first: int, rows: NDArray[np.void]) -> None:
        data = rows.tobytes()
        at = 0
        while at < len(data):
            chunk, place = divmod(first * ROW.itemsize + at, FRAME_CHUNK * ROW.itemsize)
            size = min(len(data) - at, FRAME_CHUNK * ROW.itemsize - place)
            self._chunks[chunk][place : place + size] = data[at : at + size]
            at += size

    def close(self) -> None:
        """Let go of the memory; may be called again."""
        self._mappings, self._rules = np.empty(0, _CODE_MAPPING), np.empty(0, RULE)
        for memory in (*self._memory, *self._chunks):
            with suppress(BufferError):
                memory.close()
        self._memory, self._chunks = (), []


def _key_of(mapping: Mapping, module: Module) -> tuple[int, int] | None:
    """Return inode and size of a mapped file, by which the programs recognise it; None: it is not recognised."""
    if mapping.path == "[vdso]":
        return 0, 0
    if not mapping.inode or module.size is None:
        return None
    return mapping.inode, module.size


def _without_rows(frames: CallFrames | None) -> CallFrames | None:
    """Return what is still needed of a table."""
    return None if frames is None else replace(frames, rows=frames.rows[:0].copy(), rules=frames.rules[:0].copy())


def _joined(blocks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return blocks in order, those that touch as one."""
    found: list[tuple[int, int]] = []
    for first, size in sorted(blocks):
        if found and sum(found[-1]) == first:
            found[-1] = found[-1][0], found[-1][1] + size
        elif size:
            found.append((first, size))
    return found
