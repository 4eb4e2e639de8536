"""Blocks of marked regions in the memory of another process, which changes them while they are read.

An input is a list of words to write, as (offset, value). The first of them are written before the reading; the others
again and again during it. What the input is can be repeated, and how far the writer is at each moment cannot.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import struct
import time
from functools import cached_property
from random import Random

from tests.fuzz.mutation import number
from tests.fuzz.target import Target

from headway.linux.regions.blocks import (
    ARENA_FIELDS,
    ARENA_MAGIC,
    BLOCK_FIELDS,
    BLOCK_MAGIC,
    BLOCK_SIZE,
    BLOCKS_AT,
    LAYOUT,
    N_TAGS,
    NAME_SIZE,
    VERSION,
    RegionBlocks,
)

_ROOM = 24
_SIZE = (BLOCKS_AT + _ROOM * BLOCK_SIZE + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
_TIDS = frozenset(range(1, 9))
_HEAD = LAYOUT.packing("headway_arena", *ARENA_FIELDS)
_BLOCK = LAYOUT.packing("headway_block", *BLOCK_FIELDS)
_TAG = LAYOUT.packing("headway_block_tag", "word", "entries")
_NAMES_AT = LAYOUT.offset_of("headway_arena", "names")
_TAGS_AT = LAYOUT.offset_of("headway_block", "tags")
_NAMES = (b"noneffective.parse", b"poll.queue", b"noneffective", b"user.draw")
_WRITE = struct.Struct("=IQ")
_MOST = 200
"""Words of an input."""
_ASKED, _DONE, _FIRST, _ALL, _WORDS = range(5)
"""Places in the memory that is shared with the writer: the number of the input, the one it has taken (then it writes),
the numbers of words, and the words."""
_OFTEN = tuple(at for name, (at, _) in LAYOUT.fields_of("headway_arena").items() if name != "names")
"""Offsets of the arena's fields but the names."""
_LONGEST_WAIT = 200.0


class RegionsTarget(Target):
    """One process that holds an arena, and does with it what the inputs say."""

    name = "regions"

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 8 * (_WORDS + 2 * _MOST))
        self._words = memoryview(self._shared).cast("Q")
        self._number = 0
        self._writer = os.fork()
        if not self._writer:
            try:
                _write(self._words)
            finally:
                os._exit(1)
        self._blocks = RegionBlocks(self._writer)
        until = time.monotonic() + _LONGEST_WAIT
        while not self._blocks.find():
            if time.monotonic() > until:
                raise RuntimeError("the writer has made no arena")
            time.sleep(0.001)

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return an arena that stays as it is, and one whose words grow while they are read."""
        grow = b"".join(_WRITE.pack(BLOCKS_AT + _TAGS_AT + 8, 100 + at) for at in range(16))
        return [struct.pack("=H", 0), struct.pack("=H", 0) + grow]

    def make(self, random: Random) -> bytes:
        """Write any fields of the arena and of blocks, names, and the words of times."""
        count = 1 + int(random.random() ** 2 * 60)
        first = random.randrange(count + 1)
        return struct.pack("=H", first) + b"".join(_WRITE.pack(*_written(random)) for _ in range(count))

    def read(self, data: bytes, random: Random) -> None:
        """Read the blocks while the writer changes them."""
        first = min(int.from_bytes(data[:2], "little"), _MOST)
        writes = [_WRITE.unpack_from(data, at) for at in range(2, len(data) - _WRITE.size + 1, _WRITE.size)][:_MOST]
        for at, (offset, value) in enumerate(writes):
            self._words[_WORDS + 2 * at], self._words[_WORDS + 2 * at + 1] = offset % (_SIZE - 8) & ~3, value
        self._words[_FIRST], self._words[_ALL] = min(first, len(writes)), len(writes)
        self._number += 1
        self._words[_ASKED] = self._number
        until = time.monotonic() + _LONGEST_WAIT
        while self._words[_DONE] != self._number:
            if time.monotonic() > until:
                raise RuntimeError("the writer does not write")
            time.sleep(0)
        for _ in range(2):
            reading = self._blocks.read(_TIDS)
            assert reading.blocks.keys() <= _TIDS
            assert reading.reason is None
            assert min(reading.lies, reading.refused_tags, reading.refused_threads) >= 0
            for tid, block in reading.blocks.items():
                age = max(reading.at - block.since, 0)
                assert block.tid == tid
                assert len(block.times) <= N_TAGS
                assert 0 <= sum(spent.time for spent in block.times.values()) <= age
                assert all(0 <= spent.entries <= N_TAGS * (age + 1) for spent in block.times.values())
                states = {*block.times, block.open or "poll"}
                assert all(state.partition(".")[0] in ("noneffective", "poll", "user") for state in states)
                assert "user" not in states
                assert all(state.isprintable() and len(state) <= NAME_SIZE for state in states)

    def close(self) -> None:
        """End the writer."""
        if self._writer:
            os.kill(self._writer, signal.SIGKILL)
            os.waitpid(self._writer, 0)
            self._writer = 0


def _arena() -> bytes:
    """Return an arena of this process with a block for each of some threads."""
    names = b"".join(name.ljust(NAME_SIZE, b"\0") for name in _NAMES)
    used = len(_TIDS)
    head = _HEAD.pack(ARENA_MAGIC, VERSION, os.getpid(), _ROOM, len(_NAMES), 0, 0, names, used, 0)
    found = bytearray(head.ljust(BLOCKS_AT, b"\0"))
    for tid in sorted(_TIDS):
        tags = b"".join(_TAG.pack(2 * 1000 * tag, 1 + tag) for tag in range(len(_NAMES)))
        block = _BLOCK.pack(BLOCK_MAGIC, tid, len(_NAMES), 1000, 0, tid % 3, 0)
        found += (block[:_TAGS_AT] + tags).ljust(BLOCK_SIZE, b"\0")
    return bytes(found.ljust(_SIZE, b"\0"))


def _write(words: memoryview) -> None:
    """Do what the inputs say, until the parent is gone."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    arena = _arena()
    fd = os.memfd_create("headway")
    os.ftruncate(fd, _SIZE)
    memory = mmap.mmap(fd, _SIZE, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    os.close(fd)
    memory[:] = arena
    parent, asked, later, idle = os.getppid(), 0, list[tuple[int, bytes, bytes]](), 0
    while os.getppid() == parent:
        if words[_ASKED] != asked:
            asked, idle = words[_ASKED], 0
            memory[:] = arena
            given = [(words[_WORDS + 2 * at], words[_WORDS + 2 * at + 1]) for at in range(words[_ALL])]
            for offset, value in given[: words[_FIRST]]:
                memory[offset : offset + 8] = struct.pack("=Q", value)
            later = [(at, struct.pack("=Q", value), memory[at : at + 8]) for at, value in given[words[_FIRST] :]]
            words[_DONE] = asked
        for offset, after, before in later:
            memory[offset : offset + 8] = after
            if offset % 3 == 0:
                memory[offset : offset + 8] = before
        idle += 1
        if idle > 2000 or not later:
            time.sleep(0.0001)


def _written(random: Random) -> tuple[int, int]:
    """Return an offset and a value."""
    kind = random.random()
    value = number(random) & (1 << 64) - 1
    if random.random() < 0.3:  # about now
        value = 2 * (random.randrange(-(1 << 40), 1 << 40) & (1 << 62) - 1) + random.randrange(2)
    if kind < 0.25:
        return random.choice(_OFTEN), value
    if kind < 0.35:
        return _NAMES_AT + random.randrange(N_TAGS * NAME_SIZE), int.from_bytes(random.randbytes(8), "little")
    block = BLOCKS_AT + random.randrange(_ROOM if random.random() < 0.2 else len(_TIDS)) * BLOCK_SIZE
    if kind < 0.6:
        return block + 4 * random.randrange(_TAGS_AT // 4), value
    if kind < 0.95:
        return block + _TAGS_AT + 8 * random.randrange(2 * len(_NAMES)), value
    return random.randrange(_SIZE), value


TARGET = RegionsTarget
