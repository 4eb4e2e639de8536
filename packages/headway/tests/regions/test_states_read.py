"""`headway.states` and `headway.threads` without a kernel: what a process makes of an observer's memory.

The observer here is a test. It writes the memory as the eBPF programs do (publishing.h), store by store.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headway
from headway.linux.bpf.shared import layout
from headway.linux.bpf.shared.states import NAMES
from headway.linux.sources.ebpf.publication import SOCKET
from headway.regions import States

from .test_own_progress import ENTRIES, KINDS, NAMESPACE, SIZE, Observer

pytestmark = pytest.mark.end_to_end

P = layout.PUBLISHED
STATES_AT, UNITS = ENTRIES, P["STATE_UNITS"]
NAMES_AT = ENTRIES * (1 + UNITS)
CALLS = {name: NAMES.index(name) for name in ("kernel.read", "kernel.write", "kernel.mmap", "kernel.close")}
WAITS = {name: NAMES.index(name) for name in ("wait.futex", "wait.disk", "wait.sleep")}
NUMBERS = {"user": NAMES.index("user"), "ready": NAMES.index("ready"), **CALLS, **WAITS}
KIND_OF = {
    name: KINDS["effective" if name == "user" else "ready" if name == "ready" else name.partition(".")[0]]
    for name in NUMBERS
}
SHIFT = 48
Store = tuple[int, int, int]
"""Where, how many bytes, what."""


class StateObserver(Observer):
    """Tells states too: a thread by a list of stores, which a test makes one by one or all at once."""

    def __init__(self, folder: Path) -> None:
        names = -(-len(NAMES) // P["UNIT_NAMES"])
        super().__init__(folder, size=(NAMES_AT + names) * SIZE, units=NAMES_AT + names)

    def head(self, **changes: int) -> None:
        """Write the first entry, and the names."""
        super().head(**changes)
        places = {
            "states_at": STATES_AT, "state_units": UNITS, "names_at": NAMES_AT, "n_names": len(NAMES),
            "threads_used": ENTRIES, "overhead": NAMES.index("overhead"),
        }  # fmt: skip
        for field, value in places.items():
            self.store(0, "publication", field, value)
        for number, name in enumerate(NAMES):
            at = NAMES_AT * SIZE + number * 32
            self.memory[at : at + 32] = name.encode()[:31].ljust(32, b"\0")

    def store(self, unit: int, structure: str, field: str, value: int, index: int = 0) -> None:
        """Write one field of an entry."""
        form = layout.packing(structure, field)
        width = 8 if "Q" in form.format else 4
        at = unit * SIZE + layout.offset_of(structure, field) + index * width
        self.memory[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")

    def stores(self, place: int, tid: int, birth: int, cells: dict[str, tuple[int, int]], now: str) -> list[Store]:
        """The stores by which a thread gets these times and counts by state, and goes on in the state ``now``."""
        since = birth + sum(time for time, _ in cells.values())
        of = STATES_AT + place * UNITS
        times = [0] * 8
        found: list[Store] = []
        for i, (name, (spent, count)) in enumerate(cells.items()):
            times[KIND_OF[name]] += spent
            at = (of + 1 + i // 8) * SIZE + i % 8 * 16
            found.append((at, 8, spent))
            found.append((at + 8, 8, NUMBERS[name] << SHIFT | count))
        found += [
            (place * SIZE + layout.offset_of("published_thread", "times") + 8 * i, 8, t) for i, t in enumerate(times)
        ]
        fields = {"tid": tid, "pid_namespace": NAMESPACE, "birth": birth, "since": since, "kind": KIND_OF[now]}
        for field, value in fields.items():
            width = 8 if field in ("birth", "since") else 4
            found.append((place * SIZE + layout.offset_of("published_thread", field), width, value))
        more = {
            "rpi": 0,
            "told": 0,
            "since": since,
            "cells_used": len(cells),
            "state": NUMBERS[now],
            "pid": os.getpid(),
        }
        for field, value in more.items():
            width = 8 if field in ("rpi", "told", "since") else 4
            found.append((of * SIZE + layout.offset_of("published_states", field), width, value))
        return found

    def do(self, store: Store) -> None:
        """Make one store."""
        at, width, value = store
        self.memory[at : at + width] = value.to_bytes(width, "little")

    def sequence(self, place: int) -> tuple[int, int]:
        """Where the sequence of a thread is, and its value."""
        at = place * SIZE + layout.offset_of("published_thread", "sequence")
        return at, int.from_bytes(self.memory[at : at + 4], "little")

    def write(self, place: int, stores: list[Store]) -> None:
        """Write a thread whole."""
        at, sequence = self.sequence(place)
        self.do((at, 4, sequence | 1))
        for store in stores:
            self.do(store)
        self.do((at, 4, (sequence | 1) + 1))


@pytest.fixture(scope="module")
def observer() -> Iterator[StateObserver]:
    """An observer that this process has found."""
    with tempfile.TemporaryDirectory(prefix="hw") as path, pytest.MonkeyPatch.context() as patch:
        patch.setenv(SOCKET, f"{path}/progress")
        with StateObserver(Path(path)) as found:
            found.write(1, found.stores(1, threading.get_native_id(), time.monotonic_ns(), {}, "user"))
            deadline = time.monotonic() + 200
            while headway.states() is None:
                assert time.monotonic() < deadline, "it is never found"
                time.sleep(0.05)
            yield found


cells = st.dictionaries(st.sampled_from([*NUMBERS]), st.tuples(st.integers(0, 1 << 30), st.integers(0, 1 << 40)))


@given(cells, cells)
def test_states_add_up_and_so_does_their_difference(
    observer: StateObserver, first: dict[str, tuple[int, int]], more: dict[str, tuple[int, int]]
) -> None:
    me, age = threading.get_native_id(), 1 << 35
    birth = time.monotonic_ns() - age
    observer.write(1, observer.stores(1, me, birth, first, "user"))
    before = headway.states()
    grown = dict(first)
    for name, (spent, count) in more.items():
        has = grown.get(name, (0, 0))
        grown[name] = has[0] + spent, has[1] + count
    observer.write(1, observer.stores(1, me, birth, grown, "user"))
    after = headway.states()
    for found, cells in ((before, first), (after, grown)):
        assert found is not None
        assert sum(each.time for each in found.times.values()) == found.progress.at - birth
        assert found.state == "user"
        for name, (spent, count) in cells.items():
            if name != "user":
                assert found.times[name] == (spent, count)
    assert before is not None
    assert after is not None
    if after.progress.at >= before.progress.at:
        between = after - before
        assert sum(each.time for each in between.times.values()) == after.progress.at - before.progress.at
        for name, each in more.items():
            if name != "user" and any(each):
                assert between.times[name] == each


def test_a_difference_of_two_measurements_is_refused(observer: StateObserver) -> None:
    me, now = threading.get_native_id(), time.monotonic_ns()
    found: list[States] = []
    for birth in (now - 10**9, now - 10**8):
        observer.write(1, observer.stores(1, me, birth, {}, "user"))
        read = headway.states()
        assert read is not None
        found.append(read)
    with pytest.raises(ValueError, match="not two moments of one thread"):
        found[1] - found[0]


@given(cells, cells, st.data())
def test_whoever_reads_another_thread_sees_all_of_an_event_or_nothing_of_it(
    observer: StateObserver, old: dict[str, tuple[int, int]], new: dict[str, tuple[int, int]], data: st.DataObject
) -> None:
    """The writer is stopped after any of its stores, which may come in any order between those of the sequence."""
    tid, birth = 77, time.monotonic_ns() - (1 << 35)
    observer.write(2, observer.stores(2, tid, birth, old, "wait.futex"))
    (thread,) = headway.threads(tid=tid)
    before = thread.states()
    assert before is not None
    for name, cell in old.items():
        assert name == "wait.futex" or before.times[name] == cell
    stores = data.draw(st.permutations(observer.stores(2, tid, birth, new, "wait.disk")))
    done = data.draw(st.integers(0, len(stores)))
    at, sequence = observer.sequence(2)
    observer.do((at, 4, sequence | 1))
    for store in stores[:done]:
        observer.do(store)
    assert thread.read() is None
    assert thread.states() is None
    assert thread.progress.since == birth, "what was read before stays"
    for store in stores[done:]:
        observer.do(store)
    observer.do((at, 4, (sequence | 1) + 1))
    found = thread.states()
    assert found is not None
    assert found.state == "wait.disk"
    assert found.times["overhead"].time == 0, "it fits together"
    assert sum(found.times[name].time for name in found.times) == found.progress.at - birth


def test_a_writer_of_another_process_is_read_whole_while_it_writes(observer: StateObserver) -> None:
    """Real interleavings: a process writes as fast as it can, and each reading adds up to the nanosecond."""
    birth = time.monotonic_ns() - 10**9
    observer.write(2, observer.stores(2, 77, birth, {"ready": (5, 1)}, "wait.futex"))
    (thread,) = headway.threads(tid=77)
    writer = os.fork()
    if not writer:
        spent, end = 5, time.monotonic() + 1
        while time.monotonic() < end:
            spent += 1
            observer.write(
                2, observer.stores(2, 77, birth, {"ready": (spent, spent), "kernel.read": (spent, 1)}, "wait.disk")
            )
        os._exit(0)
    whole = 0
    while os.waitpid(writer, os.WNOHANG) == (0, 0):
        found = thread.states()
        if found is not None:
            whole += 1
            assert found.times["overhead"].time == found.progress.other == 0
            assert found.times["ready"].time in (5, found.times["ready"].count)
    assert whole


def test_threads_are_chosen_by_process_and_name(observer: StateObserver) -> None:
    now = time.monotonic_ns()
    for place, name in ((3, b"worker-1"), (4, b"worker-2"), (5, b"gc")):
        observer.write(place, observer.stores(place, 1000 + place, now, {}, "ready"))
        at = (STATES_AT + place * UNITS) * SIZE + layout.offset_of("published_states", "name")
        observer.memory[at : at + 16] = name.ljust(16, b"\0")
    observer.store(STATES_AT + 5 * UNITS, "published_states", "pid", 4242)
    assert {thread.tid for thread in headway.threads(name="worker-*")} == {1003, 1004}
    assert [thread.name for thread in headway.threads(pid=4242)] == ["gc"]
    assert {thread.tid for thread in headway.threads(pid=0, name="gc")} == {1005}
    assert headway.threads(tid=999) == []
    (gone,) = headway.threads(tid=1003)
    observer.write(3, [(3 * SIZE, 4, 0)])
    assert gone.read() is None


@given(st.binary(min_size=SIZE * UNITS, max_size=SIZE * UNITS), st.binary(min_size=SIZE, max_size=SIZE))
def test_whatever_the_states_have_does_no_harm(observer: StateObserver, states: bytes, entry: bytes) -> None:
    me = threading.get_native_id()
    observer.write(1, observer.stores(1, me, time.monotonic_ns(), {}, "user"))
    kept = observer.memory[2 * SIZE : 3 * SIZE]
    observer.memory[(STATES_AT + UNITS) * SIZE : (STATES_AT + 2 * UNITS) * SIZE] = states
    observer.memory[2 * SIZE : 3 * SIZE] = entry
    observer.store(2, "published_thread", "pid_namespace", NAMESPACE)
    observer.store(2, "published_thread", "sequence", 2)
    assert headway.states() is not None
    for thread in headway.threads(pid=0):
        thread.states()
        assert repr(thread)
    observer.memory[2 * SIZE : 3 * SIZE] = kept


@pytest.mark.parametrize("field", ["states_at", "state_units", "names_at", "n_names", "entries"])
@pytest.mark.parametrize("value", [0, 1, ENTRIES + 7, 1 << 20, (1 << 32) - 1])
def test_parts_that_do_not_lie_in_the_memory_are_not_read(observer: StateObserver, field: str, value: int) -> None:
    observer.write(1, observer.stores(1, threading.get_native_id(), time.monotonic_ns(), {}, "user"))
    observer.store(0, "publication", field, value)
    headway.states()
    headway.progress()
    headway.threads(pid=0)
    observer.head()
