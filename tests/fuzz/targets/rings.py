"""Memory that the kernel shares: rings of perf events, and rings of transitions that the eBPF programs write."""

from __future__ import annotations

import mmap
import os
import struct
from functools import cached_property
from random import Random

import numpy as np
from tests.buffers.test_rings import HEAD, LOST, THROTTLE, record, sample
from tests.fuzz.mutation import mutated, number
from tests.fuzz.target import Target

from headway.linux.bpf.rings._transitions import TransitionDecoder
from headway.linux.bpf.shared.layout import RING, RING_RECORDS, STATES
from headway.linux.perf._rings import FIELDS, PAGE, Ring, Tray
from headway.linux.perf.sample_buffer import DEFAULT_FIELDS

_PERF, _TRANSITIONS = 0, 1
_ALL_FIELDS = sum(FIELDS.values())
_WORDS, _RECORDS, _START = 64, 8, 1_000_000_000_000
_NOW = _START + 3_600_000_000_000
_ROWS = 4
"""Rows that there is room for at first: few, so that inputs with more of them make the decoder grow."""


class RingsTarget(Target):
    """Inputs whose first byte says which rings they are for."""

    name = "rings"

    def __init__(self) -> None:
        self._fd = os.memfd_create("ring")
        os.truncate(self._fd, 2 * PAGE)
        self._memory = mmap.mmap(self._fd, 2 * PAGE)

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return whole records of perf events, and spans and absences of threads."""
        one = sample(0x7F00, 7, 8, 10**12, 1, 10**6, [0x7F00, 0x7F10, (1 << 64) - 512])
        more = one + record(LOST, struct.pack("=QQ", 7, 3)) + sample(1, 2, 3, 4, 5, 6, []) + record(THROTTLE, bytes(24))
        words = [RING_RECORDS["RECORD_THREAD"] | 1 | 3 << RING["RECORD_NUMBER"]]
        words += [STATES["USER"] << RING["SPAN_STATE"] | 5000 << RING["SPAN_DURATION"]] * 3
        return [
            bytes([_PERF]) + struct.pack("=Q", len(one)) + one,
            bytes([_PERF]) + struct.pack("=Q", len(more)) + more,
            bytes([_TRANSITIONS]) + struct.pack("=Q", len(words)) + struct.pack(f"={len(words)}Q", *words),
        ]

    def make(self, random: Random) -> bytes:
        """Change records, and how far the ring says that it is written; or write any words."""
        if random.random() < 0.4:
            words = [_word(random) for _ in range(random.randrange(_WORDS + 1))]
            size = len(words) if random.random() < 0.8 else number(random) & (1 << 64) - 1
            return bytes([_TRANSITIONS]) + struct.pack(f"={1 + len(words)}Q", size, *words)
        seed = random.choice(self.seeds)
        changed = mutated(random, seed[9:], self.seeds)
        size = len(changed) // 8 if seed[0] == _TRANSITIONS else len(changed)
        size = size if random.random() < 0.7 else number(random) & (1 << 64) - 1
        return seed[:1] + struct.pack("=Q", size) + changed

    def read(self, data: bytes, random: Random) -> None:
        """Read the ring."""
        kind, size, rest = data[:1], int.from_bytes(data[1:9], "little"), data[9:]
        if kind and kind[0] % 2 == _TRANSITIONS:
            _read_transitions(size, rest, random)
        else:
            self._read_perf(size, rest, random)

    def _read_perf(self, size: int, data: bytes, random: Random) -> None:
        fields = random.choice((DEFAULT_FIELDS, _ALL_FIELDS, random.getrandbits(10) & _ALL_FIELDS))
        tray = Tray()
        self._memory[:] = bytes(2 * PAGE)
        self._memory[PAGE : PAGE + min(len(data), PAGE)] = data[:PAGE]
        self._memory[HEAD : HEAD + 8] = struct.pack("=Q", size)
        ring = Ring(self._fd, 1)
        moved = ring.drain(tray)
        assert 0 <= moved <= PAGE
        assert ring.damaged <= 1
        self._memory[HEAD : HEAD + 8] = struct.pack("=Q", number(random) & (1 << 64) - 1)
        ring.drain(tray)
        ring.close()
        for name in (None, data):
            if name is not None:
                try:
                    tray.put(data)
                except ValueError:  # those are no whole records
                    continue
            found = tray.samples(fields)
            assert len(found.first) == len(found.ip) + 1
            assert found.first[-1] == len(found.frames)
            assert bool(np.all(np.diff(found.first) >= 0))
            assert len(found.ip) + len(tray.others()) <= tray.used // 8

    def close(self) -> None:
        """Remove the ring."""
        self._memory.close()
        os.close(self._fd)


def _read_transitions(size: int, data: bytes, random: Random) -> None:
    words = data[: 8 * _WORDS].ljust(8 * _WORDS, b"\0")
    spans, absences = (memoryview(words).cast("Q") for _ in range(2))
    decoder = TransitionDecoder(spans, absences, 1, (_WORDS, _WORDS), _RECORDS, _START, rows=_ROWS)
    for number_of_record in range(1, _RECORDS):
        decoder.has(number_of_record, _START, number_of_record)
    now = random.choice((_NOW, _NOW, _START, _START - 1))
    for until in (size // 2, size):
        decoder.read([(until, random.choice((0, until)))], now - random.choice((0, 0, 10**9)), now)
        if len(decoder) > 1 << 20:
            return
        time, duration, taken, cpu, thread, *_ = decoder.take()
        assert bool(np.all(duration >= 0))
        assert bool(np.all(time + duration <= now))
        assert bool(np.all((cpu == 0) | (cpu == -1)))
        assert bool(np.all((thread >= -1) & (thread < _RECORDS)))
        assert len(taken) == len(time)


def _word(random: Random) -> int:
    """Return a span, the first word of a record, or any number."""
    kind = random.random()
    if kind < 0.35:
        state, duration = random.randrange(STATES["N_STATES"] + 2), random.choice((0, 1, 5000, number(random)))
        found = (
            state << RING["SPAN_STATE"] | duration << RING["SPAN_DURATION"] | random.randrange(2) << RING["SPAN_ENDED"]
        )
        return found & (1 << 64) - 2
    if kind < 0.75:
        record_kind = random.choice(list(RING_RECORDS.values()))
        return (record_kind | 1 | random.getrandbits(random.choice((8, 16, 32, 64))) << 4) & (1 << 64) - 1
    if kind < 0.9:
        return random.choice((_START, _NOW)) + random.randrange(-1000, 10**10)
    return number(random) & (1 << 64) - 1


TARGET = RingsTarget
