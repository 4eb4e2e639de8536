"""The reader of the kernel's rings, against a model of who fills them, and records that are not what they claim."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.linux.perf._rings import FIELDS, PAGE, Ring, Tray
from headway.linux.perf.sample_buffer import DEFAULT_FIELDS

SAMPLE, LOST, THROTTLE = 9, 2, 5
HEAD, TAIL = 1024, 1032
KERNEL, USER = 1, 2
words = st.integers(0, 2**64 - 1)
ids = st.integers(-1, 2**31 - 1)


def record(kind: int, body: bytes, misc: int = 0) -> bytes:
    return struct.pack("=IHH", kind, misc, 8 + len(body)) + body


def sample(
    ip: int, pid: int, tid: int, time: int, cpu: int, period: int, frames: list[int], *, mode: int = USER
) -> bytes:
    """A sample of `DEFAULT_FIELDS`."""
    fixed = struct.pack("=QiiQIIQQ", ip, pid, tid, time, cpu, 0, period, len(frames))
    return record(SAMPLE, fixed + struct.pack(f"={len(frames)}Q", *frames), mode)


class Kernel:
    """Fills a ring as perf_output_begin() does: whole records, nothing beyond the tail, what has no room is counted."""

    def __init__(self, pages: int) -> None:
        self.fd = os.memfd_create("ring")
        self.size = pages * PAGE
        os.truncate(self.fd, PAGE + self.size)
        self.memory = mmap.mmap(self.fd, PAGE + self.size)
        self.head = self.unreported = 0

    def word(self, at: int) -> int:
        return int.from_bytes(self.memory[at : at + 8], "little")

    def write(self, what: bytes) -> bool:
        if self.unreported:
            what = record(LOST, struct.pack("=QQ", 7, self.unreported)) + what
        if self.head + len(what) - self.word(TAIL) > self.size:
            self.unreported += 1
            return False
        self.unreported = 0
        for byte in what:
            self.memory[PAGE + self.head % self.size] = byte
            self.head += 1
        self.memory[HEAD : HEAD + 8] = self.head.to_bytes(8, "little")
        return True

    def close(self) -> None:
        self.memory.close()
        os.close(self.fd)


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    made = Kernel(1)
    yield made
    made.close()


samples = st.builds(
    sample, words, ids, ids, st.integers(0, 2**62), st.integers(0, 4095), st.integers(0, 2**62),
    st.lists(words, max_size=60),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(samples, st.just(None)), max_size=60))
def test_what_was_written_is_read_in_order_and_the_rest_is_counted(actions: list[bytes | None]) -> None:
    """None: somebody drains."""
    kernel = Kernel(1)
    ring, tray = Ring(kernel.fd, 1), Tray()
    stored, dropped = [], 0
    for action in [*actions, None]:
        if action is None:
            filled = ring.filled
            assert ring.drain(tray) == filled
            assert ring.filled == 0
            assert kernel.word(TAIL) == kernel.head
        elif kernel.write(action):
            stored.append(action)
        else:
            dropped += 1
    assert [r for r in whole_records(tray.tobytes()) if r[0] == SAMPLE] == stored
    assert ring.samples == len(stored)
    assert ring.lost + kernel.unreported == dropped
    assert ring.damaged == 0
    ring.close()
    kernel.close()


def whole_records(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at + 6 : at + 8], "little")
        found.append(data[at : at + size])
        at += size
    return found


@pytest.mark.parametrize("left", [1, 4, 7])
def test_a_ring_whose_last_record_is_cut_off_is_not_read_beyond_its_end(left: int) -> None:
    kernel = Kernel(16)
    ring, tray = Ring(kernel.fd, 16), Tray()
    size = kernel.size - left
    kernel.memory[PAGE : PAGE + 8] = struct.pack("=IHH", SAMPLE, 0, size)
    kernel.memory[HEAD : HEAD + 8] = kernel.size.to_bytes(8, "little")
    assert ring.drain(tray) == size
    assert (ring.samples, ring.damaged) == (1, 1)
    ring.close()
    kernel.close()


described = st.tuples(
    words, ids, ids, st.integers(0, 2**62), st.integers(0, 4095), st.integers(0, 2**62), st.lists(words, max_size=9)
)


@given(st.lists(st.tuples(described, st.booleans()), max_size=30))
def test_samples_come_column_by_column(
    given: list[tuple[tuple[int, int, int, int, int, int, list[int]], bool]],
) -> None:
    tray = Tray()
    for values, kernel in given:
        tray.put(sample(*values, mode=KERNEL if kernel else USER))
        tray.put(record(THROTTLE, bytes(24)))
    found = tray.samples(DEFAULT_FIELDS)
    assert len(tray.others()) == len(given)
    assert found.kernel.tolist() == [kernel for _, kernel in given]
    columns = found.ip, found.pid, found.tid, found.time, found.cpu, found.period
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == [values[:6] for values, _ in given]
    frames = [found.frames[a:b].tolist() for a, b in zip(found.first, found.first[1:], strict=False)]
    assert frames == [values[6] for values, _ in given]


@given(st.binary(max_size=120), st.integers(0, 2**10 - 1).map(lambda bits: bits & ~(1 << 4)))
def test_a_sample_that_is_shorter_than_its_fields_is_left_out(body: bytes, fields: int) -> None:
    tray = Tray()
    tray.put(record(SAMPLE, body))
    found = tray.samples(fields)
    fixed = 8 * bin(fields & ~FIELDS["callchain"]).count("1")
    assert len(found.time) <= (len(body) >= fixed)
    assert len(found.frames) * 8 <= len(body)


@given(st.binary(min_size=1, max_size=100))
def test_only_whole_records_are_put(data: bytes) -> None:
    tray = Tray()
    try:
        tray.put(data)
    except ValueError:
        assert len(tray) == 0
    else:
        assert b"".join(whole_records(data)) == data == tray.tobytes()


def test_fields_that_are_not_known_are_refused() -> None:
    with pytest.raises(ValueError, match="not known"):
        Tray().samples(1 << 4)


def test_a_ring_with_no_whole_record_is_counted_and_left(kernel: Kernel) -> None:
    ring, tray = Ring(kernel.fd, 1), Tray()
    kernel.write(sample(1, 2, 3, 4, 5, 6, []))
    kernel.write(struct.pack("=IHH", SAMPLE, 0, 0))
    assert ring.drain(tray) == 56
    assert (ring.samples, ring.damaged, ring.filled) == (1, 1, 0)
    kernel.write(sample(1, 2, 3, 4, 5, 6, []))
    assert ring.drain(tray) == 56, "the next ones are read"
    kernel.memory[HEAD : HEAD + 8] = (2**40).to_bytes(8, "little")
    assert ring.drain(tray) == 0, "more than there can be"
    assert ring.damaged == 2


def test_a_closed_ring_is_empty(kernel: Kernel) -> None:
    ring = Ring(kernel.fd, 1)
    kernel.write(sample(1, 2, 3, 4, 5, 6, []))
    ring.close()
    assert (ring.filled, ring.drain(Tray())) == (0, 0)


def test_what_cannot_be_mapped_is_an_oserror(kernel: Kernel) -> None:
    read_end, write_end = os.pipe()
    try:
        with pytest.raises(OSError, match="denied"):
            Ring(read_end, 1)
        with pytest.raises(ValueError, match="power of two"):
            Ring(kernel.fd, 3)
    finally:
        os.close(read_end)
        os.close(write_end)
