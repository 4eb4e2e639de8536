"""Reading the blocks of marked regions from outside: what ``headway.h`` keeps in the memory of a program that uses it.

An arena is found in /proc/PID/maps by its name and read through /proc/PID/mem (proc_pid_mem(5)). The program takes no
part in the reading and is not stopped. A word of a block gives, for any moment, how long the thread has been in a
state: 2 A + n stands for A + n t, where t is CLOCK_MONOTONIC in ns, and n is 1 while the state is charged.

The program writes all of this, so it may contain anything. Therefore the amount read is limited, names that are not
names of regions are not used, and a time is limited to the range from 0 to the age of its block. Values that had to be
changed are counted.
"""

from __future__ import annotations

import os
import re
import struct
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import field

from headway.dataclass import dataclass
from headway.linux.procfs.ids import ids_inwards
from headway.linux.procfs.living import with_memory
from headway.linux.procfs.maps import parse
from headway.linux.structures import Structures
from headway.linux.time_namespace import shift_of

from ._block_layout import CONSTANTS, STRUCTURES

__all__ = ["BlocksReading", "RegionBlock", "RegionBlocks", "Spent", "arenas_in"]

ARENA_NAME = b"/memfd:headway"
ARENA_MAGIC = CONSTANTS["HEADWAY_ARENA_MAGIC_"]
BLOCK_MAGIC = CONSTANTS["HEADWAY_BLOCK_MAGIC_"]
VERSION = CONSTANTS["HEADWAY_VERSION_"]
N_TAGS = CONSTANTS["HEADWAY_TAGS_"]
NAME_SIZE = CONSTANTS["HEADWAY_NAME_"]
BLOCKS_AT = CONSTANTS["HEADWAY_BLOCKS_AT_"]
MAX_ARENAS = 16
"""The largest number of arenas in one process. There is one, or a few if shared objects made them at the same moment.
"""
MAX_BLOCKS = CONSTANTS["HEADWAY_BLOCKS"]
"""The largest number of blocks in one arena."""
AT_ONCE = 1024
"""The number of blocks read in one call."""

LAYOUT = Structures(STRUCTURES)
"""The structures of ``headway.h``."""
BLOCK_SIZE = LAYOUT.size_of("headway_block")

ARENA_FIELDS = (
    "magic",
    "version",
    "pid",
    "n_blocks",
    "n_tags",
    "refused_threads",
    "refused_tags",
    "names",
    "used",
    "tasks",
)
"""The fields of an arena that are read."""
BLOCK_FIELDS = ("magic", "tid", "n_tags", "since", "depth", "open", "errors")
"""The fields of a block that are read, but for its tags."""

_ARENA = LAYOUT.packing("headway_arena", *ARENA_FIELDS)
_BLOCK = LAYOUT.packing("headway_block", *BLOCK_FIELDS)
_TASKS = tuple(LAYOUT.fields_of("headway_tasks")[name] for name in ("magic", "version", "pid", "n_logs", "logs"))
_TASKS_HEAD = LAYOUT.offset_of("headway_tasks", "names")
"""Bytes of what a process has for tasks, without the names, which are not read here."""
_TASKS_MAGIC = CONSTANTS["HEADWAY_TASKS_MAGIC_"]
_TASKS_VERSION = CONSTANTS["HEADWAY_TASKS_VERSION_"]
_TAGS_AT = LAYOUT.offset_of("headway_block", "tags")
_TAG = LAYOUT.packing("headway_block_tag", "word", "entries")

_STATE = re.compile(rb"(?:noneffective|poll)(?:\.[A-Za-z0-9_.-]+)?|user\.[A-Za-z0-9_.-]+")
OTHER = "noneffective.other"
"""The state of a tag whose name is not valid."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Time and entries of one state, since the thread took its block."""

    time: int
    """In ns."""
    entries: int


@dataclass(frozen=True, slots=True)
class RegionBlock:
    """The regions of one thread."""

    tid: int
    """The tid in the observer's pid namespace."""
    address: int
    """The address in the program's memory."""
    since: int
    """When the thread took the block, in ns of CLOCK_MONOTONIC."""
    open: str | None
    """The state that is being charged; None: none."""
    depth: int
    errors: int
    """The number of regions that ended without having begun, or were nested too deep."""
    times: Mapping[str, Spent] = field(default_factory=dict)
    log: int = 0
    """The address of the thread's log of tasks in the program's memory; 0: it has none."""


@dataclass(frozen=True, slots=True)
class BlocksReading:
    """All blocks of one process at one moment."""

    at: int
    """The time right after the memory was read, in ns of CLOCK_MONOTONIC."""
    blocks: Mapping[int, RegionBlock] = field(default_factory=dict)
    """By tid."""
    refused_threads: int = 0
    """The number of threads for which there was no room."""
    refused_tags: int = 0
    """The number of tags for which there was no room. Their time is in `OTHER`."""
    lies: int = 0
    """The number of values that cannot be true."""
    reason: str | None = None
    """Why nothing could be read; None: something was, or there are no regions."""


def arenas_in(maps: bytes) -> list[tuple[int, int]]:
    """Return (address, size in bytes) of possible arenas, from the text of /proc/PID/maps."""
    found: list[tuple[int, int]] = []
    for mapping in parse(maps, ARENA_NAME):
        start, size = mapping.start, mapping.end - mapping.start
        right = mapping.path == os.fsdecode(ARENA_NAME) and mapping.deleted and mapping.permissions == "rw-p"
        if right and size >= BLOCKS_AT + BLOCK_SIZE and 0 <= start < start + size < 1 << 63:
            found.append((start, size))
            if len(found) == MAX_ARENAS:
                break
    return found


@dataclass(slots=True)
class _Found:
    """What one reading collects."""

    blocks: dict[int, RegionBlock] = field(default_factory=dict)
    refused_threads: int = 0
    refused_tags: int = 0
    lies: int = 0


class RegionBlocks:
    """The blocks of one process."""

    def __init__(self, pid: int, *, proc: str = "/proc", clock: Callable[[], int] = time.monotonic_ns) -> None:
        """``pid`` as in ``proc``. ``clock`` returns ns of CLOCK_MONOTONIC."""
        self._pid = pid
        self._proc = proc
        self._path = f"{proc}/{pid}"
        self._alive = self._path
        """The folder of a thread that has the process's memory."""
        self._clock = clock
        self._ahead = 0
        self._arenas: list[tuple[int, int]] = []
        self._own_pid = pid
        self._own_tids: dict[int, int] | None = None
        self._listed = False
        self.reason: str | None = None
        """Why `find` could not tell whether there are arenas."""

    def find(self) -> bool:
        """Look for arenas and return whether there are any. It costs one reading of the process's maps."""
        self.reason = None
        self._alive = f"{self._proc}/{with_memory(self._pid, self._proc)}"
        try:
            self._arenas = arenas_in(_contents(f"{self._alive}/maps"))
        except PermissionError:
            self._arenas = []
            self.reason = f"this user may not see whether process {self._pid} marks regions"
        except OSError:
            self._arenas = []
        if self._arenas:
            ids = ids_inwards(self._path)
            self._own_pid = ids[-1] if ids else self._pid
            self._own_tids = {} if len(ids) > 1 else None
            # The program's clock is ahead of ours if it is in a time namespace of its own.
            self._ahead = shift_of(self._alive).ns - shift_of().ns
        return bool(self._arenas)

    def read(self, tids: Collection[int] | None = None) -> BlocksReading:
        """Read every block that belongs to one of these threads (None: the process's) in the arenas that `find` found
        last.

        There are no blocks if the process has executed another program since, or has ended.
        """
        if not self._arenas:
            return BlocksReading(self._clock(), reason=self.reason)
        found = _Found()
        self._listed = False
        try:
            fd = os.open(f"{self._alive}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError:
            if self._has_no_memory():
                return BlocksReading(self._clock())
            why = f"this user may not read the memory of process {self._pid} (ptrace(2), access mode checking)"
            return BlocksReading(self._clock(), reason=why)
        except OSError:
            return BlocksReading(self._clock())
        try:
            wanted = self._threads() if tids is None else tids
            for address, size in self._arenas:
                self._read_arena(fd, address, size, wanted, found)
        finally:
            os.close(fd)
        return BlocksReading(
            self._clock(),
            found.blocks,
            refused_threads=found.refused_threads,
            refused_tags=found.refused_tags,
            lies=found.lies,
        )

    def _read_arena(self, fd: int, address: int, size: int, tids: Collection[int], found: _Found) -> None:
        head = _read(fd, address, _ARENA.size)
        if len(head) < _ARENA.size:
            return
        magic, version, pid, capacity, n_tags, threads, tags, text, used, tasks = _ARENA.unpack(head)
        if magic != ARENA_MAGIC or version != VERSION or pid != self._own_pid:
            return  # not ready yet, of another version, or a copy that nobody has taken over after a fork
        room = min((size - BLOCKS_AT) // BLOCK_SIZE, MAX_BLOCKS)
        found.refused_threads += threads
        found.refused_tags += tags
        found.lies += (n_tags > N_TAGS) + (capacity > room) + (used > capacity)
        names = _names(text, min(n_tags, N_TAGS), found)
        used = min(used, capacity, room)
        logs = self._logs(fd, tasks, used)
        for first in range(0, used, AT_ONCE):
            start = address + BLOCKS_AT + first * BLOCK_SIZE
            piece = _read(fd, start, min(AT_ONCE, used - first) * BLOCK_SIZE)
            now = self._clock() + self._ahead
            for at in range(0, len(piece) - BLOCK_SIZE + 1, BLOCK_SIZE):
                number = first + at // BLOCK_SIZE
                log = logs[number] if number < len(logs) else 0
                block = self._block(piece, at, start + at, names, now, tids, found, log)
                if block is not None:
                    known = found.blocks.get(block.tid)
                    if known is None or known.since < block.since:
                        found.blocks[block.tid] = block

    def _logs(self, fd: int, tasks: int, n: int) -> tuple[int, ...]:
        """Return the addresses of the logs of tasks of the first ``n`` blocks; empty: no thread has had a task."""
        if not 0 < tasks < 1 << 47:
            return ()
        head = _read(fd, tasks, _TASKS_HEAD)
        if len(head) < _TASKS_HEAD:
            return ()
        magic, version, pid, n_logs, logs = (struct.unpack_from(f"={code}", head, at)[0] for at, code in _TASKS)
        if magic != _TASKS_MAGIC or version != _TASKS_VERSION or pid != self._own_pid or not 0 < logs < 1 << 47:
            return ()
        text = _read(fd, logs, 8 * min(n, n_logs, MAX_BLOCKS))
        found = struct.unpack(f"={len(text) // 8}Q", text[: len(text) // 8 * 8])
        return tuple(log if log < 1 << 47 and not log & 7 else 0 for log in found)

    def _block(
        self,
        piece: bytes,
        at: int,
        address: int,
        names: list[str],
        now: int,
        tids: Collection[int],
        found: _Found,
        log: int,
    ) -> RegionBlock | None:
        magic, own_tid, n_tags, since, depth, opened, errors = _BLOCK.unpack_from(piece, at)
        if not own_tid or magic != BLOCK_MAGIC:
            return None  # free, or being taken
        tid = self._tid(own_tid, tids)
        if tid not in tids:
            return None  # the thread has ended, or belongs to another process
        lies = (n_tags > N_TAGS) + (opened > N_TAGS) + (since > now)
        age = max(now - since, 0)
        tags = at + _TAGS_AT
        words = _TAG.iter_unpack(piece[tags : tags + min(n_tags, N_TAGS) * _TAG.size])
        times: dict[str, Spent] = {}
        left, charged = age, 0
        for tag, (word, entries) in enumerate(words):
            if not word and not entries:
                continue
            charged += word & 1
            passed = time_of(word, now)
            lies += not 0 <= passed <= left
            lies += entries > age + 1  # each entry takes at least a nanosecond
            passed = min(max(passed, 0), left)
            left -= passed
            state = names[tag] if tag < len(names) else OTHER
            more = times.get(state, Spent(0, 0))
            times[state] = Spent(more.time + passed, more.entries + min(entries, age + 1))
        found.lies += lies + (charged > 1)
        state_open = None
        if 0 < opened <= N_TAGS:
            state_open = names[opened - 1] if opened <= len(names) else OTHER
        return RegionBlock(tid, address, since - self._ahead, state_open, depth, errors, times, log)

    # -- ids ----------------------------------------------------------------------------------------------------------

    def _has_no_memory(self) -> bool:
        """Return whether the process is ending: the files of a process without memory belong to root (proc(5))."""
        try:
            return _contents(f"{self._path}/statm").startswith(b"0 ")
        except OSError:
            return True

    def _threads(self) -> set[int]:
        try:
            return {int(name) for name in os.listdir(f"{self._path}/task") if name.isdigit()}
        except OSError:
            return set()

    def _tid(self, own: int, tids: Collection[int]) -> int:
        """Return the tid in the observer's namespace for a thread's id in its own, innermost pid namespace."""
        if self._own_tids is None:
            return own
        if self._own_tids.get(own, 0) not in tids and not self._listed:
            self._listed = True
            known = ((ids_inwards(f"{self._path}/task/{tid}"), tid) for tid in self._threads())
            self._own_tids = {ids[-1]: tid for ids, tid in known if ids}
        return self._own_tids.get(own, 0)


def time_of(word: int, now: int) -> int:
    """Return the time that a word claims until ``now``. It is not checked."""
    signed = word - (1 << 64) if word >> 63 else word
    charged = word & 1
    return (signed - charged) // 2 + charged * now


def _names(text: bytes, n: int, found: _Found) -> list[str]:
    names = []
    for tag in range(n):
        name = text[tag * NAME_SIZE : (tag + 1) * NAME_SIZE].partition(b"\0")[0]
        sensible = _STATE.fullmatch(name)
        found.lies += not sensible
        names.append(name.decode("ascii") if sensible else OTHER)
    return names


def _read(fd: int, address: int, size: int) -> bytes:
    """Return the part of the memory that can be read."""
    try:
        return os.pread(fd, size, address)
    except (OSError, OverflowError):
        return b""


def _contents(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)
