from __future__ import annotations

import ctypes
import os
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.effort import FEW

from headway.linux.procfs.processors import online
from headway.processors._meeting import MAX_SOURCES, Meeting, Stamps, clock
from headway.processors.frequency import AGREEMENT

pytestmark = pytest.mark.kernel

ALLOWED = tuple(sorted(os.sched_getaffinity(0)))
PATIENCE = 50_000_000  # ns, of a test: it is about what happens, not about how fast
DEADLINE = 10 * PATIENCE


def met(meeting: Meeting) -> list[Stamps]:
    """What the readers say of a meeting at which all were; tried again where the machine was busy with other things."""
    for _ in range(200):
        if meeting.attempt(clock() + 100_000, deadline=DEADLINE):
            found = [s for s in meeting.stamps() if s is not None]
            if len(found) == len(meeting.cpus) and all(s.met for s in found):
                return found
    pytest.skip("the readers never met: the machine is too busy")


@pytest.fixture
def meeting() -> Iterator[Meeting]:
    meeting = Meeting(ALLOWED)
    assert meeting.start() == {}
    meeting.set_limits(patience=PATIENCE, wait=PATIENCE, chain=0)
    yield meeting
    meeting.close()


def test_nobody_reads_before_all_have_come_and_nobody_leaves_before_all_have_read(meeting: Meeting) -> None:
    for _ in range(20):
        stamps = met(meeting)
        assert max(s.arrived for s in stamps) <= min(s.saw_go for s in stamps)
        for s in stamps:
            assert s.woken <= s.arrived <= s.saw_go <= s.before <= s.after <= s.saw_done
        quick = [s for s in stamps if s.saw_done - s.after < PATIENCE // 2]  # the others may have lost it
        assert all(s.saw_done >= max(other.after for other in stamps) for s in quick)


def test_each_reader_is_on_its_processor_and_nowhere_else(meeting: Meeting) -> None:
    for cpu, s in zip(ALLOWED, met(meeting), strict=True):
        assert s.cpu_before == s.cpu_after == cpu
        assert not s.loose
        assert s.repin_error == 0
    for cpu, tid in meeting.tids().items():
        assert os.sched_getaffinity(tid) == {cpu}


def test_counters_are_read_on_the_way(tmp_path: Path) -> None:
    path = tmp_path / "counters"
    path.write_bytes(struct.pack("=4Q", 1, 2, 3, 2**64 - 1))
    with path.open("rb") as file:
        fd = file.fileno()
        with closing(Meeting(ALLOWED[:1], [[(fd, 8, 2), (fd, 24, 1)]])) as meeting:
            meeting.start()
            meeting.set_limits(patience=PATIENCE, wait=PATIENCE, chain=0)
            (s,) = met(meeting)
    assert s.words == (2, 3, 2**64 - 1)
    assert s.missing == 0


def test_a_counter_that_cannot_be_read_is_missing_and_no_number(tmp_path: Path) -> None:
    path = tmp_path / "counters"
    path.write_bytes(b"short")
    with path.open("rb") as file, closing(Meeting(ALLOWED[:1], [[(file.fileno(), 0, 1), (-1, -1, 1)]])) as meeting:
        meeting.start()
        (s,) = met(meeting)
    assert s.missing == 0b11


def test_more_counters_than_there_is_room_for_are_refused() -> None:
    with pytest.raises(ValueError, match="too many counters"):
        Meeting(ALLOWED[:1], [[(0, 0, 1)] * (MAX_SOURCES + 1)])
    with pytest.raises(ValueError, match="too many counters"):
        Meeting(ALLOWED[:1], [[(0, 0, 100)]])


def test_a_chain_of_instructions_takes_a_cycle_for_each_at_least(meeting: Meeting) -> None:
    length, highest = 81_920, 10  # GHz
    meeting.set_limits(patience=PATIENCE, wait=PATIENCE, chain=length)
    found = [s.chains for _ in range(10) for s in met(meeting)]
    undisturbed = [min(chains) for chains in found if 0 < max(chains) <= min(chains) * (1 + AGREEMENT)]
    assert undisturbed
    assert min(undisturbed) >= length / highest
    meeting.set_limits(patience=PATIENCE, wait=PATIENCE, chain=0)
    assert not any(chain for s in met(meeting) for chain in s.chains)


def test_a_reader_that_was_moved_away_says_so_and_goes_back(meeting: Meeting) -> None:
    if len(ALLOWED) < 2:
        pytest.skip("needs two processors")
    tid = meeting.tids()[ALLOWED[0]]
    for elsewhere in ({ALLOWED[1]}, set(ALLOWED)):
        os.sched_setaffinity(tid, elsewhere)
        for _ in range(100):
            meeting.attempt(clock() + 100_000, deadline=2_000_000_000)
            s = meeting.stamps()[0]
            if s is not None:
                break
        assert s is not None
        assert s.loose
        assert os.sched_getaffinity(tid) == {ALLOWED[0]}
        assert not met(meeting)[0].loose


def test_a_processor_that_is_not_there_has_no_reader() -> None:
    beyond = max(online()) + 1000
    with closing(Meeting([beyond])) as meeting:
        assert set(meeting.start()) == {beyond}


def test_who_is_not_expected_is_not_waited_for(meeting: Meeting) -> None:
    meeting.expect({ALLOWED[0]})
    for _ in range(200):
        if meeting.attempt(clock() + 100_000, deadline=DEADLINE):
            break
    first, *others = meeting.stamps()
    assert first is not None
    assert first.met
    assert others == [None] * (len(ALLOWED) - 1)
    meeting.expect(set())
    assert meeting.attempt(clock()) is False


def test_a_snapshot_is_announced_while_all_are_there(meeting: Meeting) -> None:
    class Words(ctypes.Structure):
        _fields_ = (("at", ctypes.c_uint64), ("number", ctypes.c_uint32))

    words = Words(0, 7)
    ahead = 3
    meeting.announce_snapshots(ctypes.addressof(words), ctypes.addressof(words) + 8, ahead, words)
    stamps = met(meeting)
    assert words.number >= 8
    assert words.at == meeting.snapshot
    assert max(s.arrived for s in stamps) <= words.at - ahead <= min(s.saw_go for s in stamps)


@pytest.mark.parametrize("patience", [0, 100, 1_000, 5_000])
def test_at_a_meeting_either_all_processors_read_or_none_does(patience: int) -> None:
    with closing(Meeting(ALLOWED)) as meeting:
        meeting.start()
        meeting.set_limits(patience=patience, wait=2 * patience, chain=0)
        for _ in range(30 if FEW else 150):
            together = meeting.attempt(clock() + 30_000, deadline=50_000_000)
            for s in meeting.stamps():
                assert s is None or s.met == together
                assert s is None or (s.before > 0) == together


def test_nobody_waits_for_ever_for_one_who_does_not_come() -> None:
    with closing(Meeting(ALLOWED)) as meeting:
        meeting.start()
        meeting.set_limits(patience=0, wait=0, chain=0)
        for _ in range(50):
            meeting.attempt(clock() + 50_000, deadline=20_000_000)
            for s in meeting.stamps():
                assert s is None or s.met or (s.saw_go, s.before, s.saw_done) == (0, 0, 0)


def test_meetings_can_be_held_and_closed_at_any_time() -> None:
    def tasks() -> int:
        return len(os.listdir("/proc/self/task"))

    time.sleep(0.1)  # for those that have been joined: they are there a little longer
    before, there = threading.active_count(), tasks()  # libraries have threads of their own
    for _ in range(20):
        meeting = Meeting(ALLOWED)
        meeting.start()
        meeting.attempt(clock() + 50_000)
        meeting.close()
        meeting.close()
    Meeting(ALLOWED)  # never started
    assert threading.active_count() == before
    deadline = time.monotonic() + 30
    while tasks() > there and time.monotonic() < deadline:
        time.sleep(0.01)
    assert tasks() <= there


@pytest.mark.root
def test_readers_go_before_ordinary_threads_when_they_are_told_to_and_again_after_they_gave_way() -> None:
    with closing(Meeting(ALLOWED)) as meeting:
        meeting.start()
        meeting.set_limits(patience=0, wait=PATIENCE, chain=0)
        for before_all in (True, False, True):
            if meeting.precede(before_all) != before_all:
                pytest.skip("SCHED_FIFO is not allowed here")
            met(meeting)
            policies = {os.sched_getscheduler(tid) for tid in meeting.tids().values()}
            assert policies == {os.SCHED_FIFO if before_all else os.SCHED_OTHER}
