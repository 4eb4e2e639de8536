from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.processors.test_disturbance import stamps

from headway.errors import HeadwayError, SelectionError
from headway.linux.procfs.processors import online
from headway.model import Cell, Quality, listed
from headway.processors import observer as module
from headway.processors import readings
from headway.processors._meeting import Stamps
from headway.processors.frequency import Counter
from headway.processors.observer import ProcessorObserver, choose, clock
from headway.processors.readings import LEFT_OUT, TRIES

pytestmark = pytest.mark.kernel

ALLOWED = tuple(sorted(os.sched_getaffinity(0)))
MS = 1_000_000


class Meetings:
    """Readers that do as they are told: ``script`` has, for each attempt, what becomes of some of them."""

    def __init__(self, cpus: tuple[int, ...], sources: object = ()) -> None:
        self.cpus, self.now, self.attempts = tuple(cpus), 0, 0
        self.script: list[dict[int, dict[str, Any] | None]] = []
        self.words: dict[int, tuple[int, ...]] = dict.fromkeys(self.cpus, (0, 0))
        self.expected: set[int] = set()
        self.fifo, self.snapshot, self.chain = True, 0, 0
        self.found: list[Stamps | None] = [None] * len(self.cpus)

    def start(self, fifo: bool = True) -> dict[int, int]:
        return {}

    def tids(self) -> dict[int, int]:
        return dict.fromkeys(self.cpus, 1)

    def announce_snapshots(self, *_: object) -> None:
        pass

    def set_limits(self, *, patience: int, wait: int, chain: int) -> None:
        self.chain = chain

    def precede(self, before_all: bool) -> bool:
        return before_all

    def expect(self, cpus: set[int]) -> None:
        self.expected = set(cpus)

    def attempt(self, moment: int, *, deadline: int = 0) -> bool:
        self.attempts += 1
        self.now = moment
        said = self.script.pop(0) if self.script else {}
        absent = {cpu for cpu, change in said.items() if change is None} & self.expected
        met = not absent and bool(self.expected)
        self.found = []
        for cpu in self.cpus:
            if cpu not in self.expected or cpu in absent:
                self.found.append(None)
                continue
            change = dict(said.get(cpu) or {})
            chains = (self.chain // 2, self.chain // 2)  # 2 GHz
            s = stamps(cpu, moment + cpu, arrived=moment - 500, words=self.words[cpu], chains=chains)
            s = s._replace(**change)
            self.found.append(s if met else s._replace(met=False, saw_go=0, before=0, after=0, saw_done=0))
        return met

    def stamps(self) -> list[Stamps | None]:
        return list(self.found)

    def close(self) -> None:
        pass


class Account:
    """Each processor is busy for so much of the time, by a clock that the meetings' moments are of."""

    name = "bpf"
    quality: Mapping[str, Quality] = {"utilisation": Quality.EXACT, "states": Quality.EXACT}
    reasons: Mapping[str, str] = {}

    def __init__(self, meetings: list[Meetings], share: float) -> None:
        self._meetings, self._share = meetings, share

    def snapshot_words(self) -> None:
        return None

    def read(self, at: int) -> Mapping[int, object]:
        meeting = self._meetings[-1]
        return dict.fromkeys(meeting.cpus, meeting.now)

    def between(self, before: Any, after: Any, span: int) -> dict[str, Cell]:
        busy = round(span * self._share)
        return {"user": Cell(busy), "idle": Cell(span - busy)}

    def losses(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        pass


class Rig:
    """An observer over such meetings."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, counter: Counter | None = None) -> None:
        made: list[Meetings] = []

        def meeting(cpus: tuple[int, ...], sources: object) -> Meetings:
            made.append(Meetings(cpus, sources))
            return made[-1]

        self.account = Account(made, 0.25)
        self.on = {0, 1}
        monkeypatch.setattr(readings, "Meeting", meeting)
        for each in (module, readings):  # time passes at meetings only
            monkeypatch.setattr(each, "clock", lambda: made[-1].now)
        monkeypatch.setattr(module, "start_busy", lambda *_: (self.account, ""))
        monkeypatch.setattr(module, "find_counter", lambda _: (counter, ""))
        monkeypatch.setattr("headway.linux.procfs.processors.online", lambda *_: tuple(sorted(self.on)))
        self.observer = ProcessorObserver((0, 1))
        self.observer.begin()
        self.meetings = made[-1]


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    rig = Rig(monkeypatch)
    yield rig
    rig.observer.close()


def test_an_undisturbed_sample_has_every_figure(rig: Rig) -> None:
    before = rig.meetings.now
    sample = rig.observer.sample(before + 300 * MS)
    assert sample.dropped == {}
    assert sample.skew == 1
    for row in sample.processors:
        assert row.dropped is None
        assert row.span == pytest.approx(300 * MS, abs=2 * MS)
        assert row.utilisation == pytest.approx(0.25)
        assert row.actual_hz == pytest.approx(2e9)
        assert row.effective_hz == pytest.approx(0.5e9)
    assert sample.quality["actual_hz"] is Quality.SAMPLED


@pytest.mark.parametrize("change", [{"gap": 50_000}, {"preempted": 1}, {"cpu_after": 9}, None])
@pytest.mark.parametrize("times", [1, 2])
def test_a_disturbed_reading_is_dropped_and_counted_and_the_next_one_taken(
    rig: Rig, change: dict[str, Any] | None, times: int
) -> None:
    attempts = rig.meetings.attempts
    rig.meetings.script = [{1: change}] * times
    sample = rig.observer.sample(rig.meetings.now + 300 * MS)
    assert rig.meetings.attempts == attempts + times + 1
    assert sum(sample.dropped.values()) == times
    assert sample.processors[0].dropped is None


def test_where_it_stays_disturbed_there_is_no_figure_and_the_next_sample_goes_back_to_the_last_good_one(
    rig: Rig,
) -> None:
    start = rig.meetings.now
    rig.meetings.script = [{1: {"gap": 50_000}}] * LEFT_OUT
    bad = rig.observer.sample(start + 300 * MS)
    row = bad.processors[1]
    assert row.dropped == "interrupted"
    assert (row.span, row.utilisation, row.actual_hz, row.effective_hz, row.states) == (None, None, None, None, {})
    good = rig.observer.sample(start + 600 * MS)
    assert good.processors[1].span == pytest.approx(600 * MS, abs=60 * MS)
    assert good.processors[1].utilisation == pytest.approx(0.25)


def test_one_that_does_not_come_is_left_out_so_that_the_others_are_read(rig: Rig) -> None:
    start = rig.meetings.now
    rig.meetings.script = [{1: None}] * TRIES
    sample = rig.observer.sample(start + 300 * MS)
    assert sample.processors[0].utilisation == pytest.approx(0.25)
    assert sample.processors[1].dropped == "absent"
    assert sample.skew is None
    attempts = rig.meetings.attempts
    rig.meetings.script = [{1: None}] * TRIES
    again = rig.observer.sample(start + 600 * MS)
    assert again.processors[1].dropped == "absent"
    assert rig.meetings.attempts == attempts + 2  # it is asked once, and not waited for any more
    rig.meetings.script = []
    back = rig.observer.sample(start + 900 * MS)
    assert back.processors[1].span == pytest.approx(900 * MS, abs=60 * MS)


def test_what_is_read_too_late_is_dropped(rig: Rig) -> None:
    rig.meetings.now += 5_000 * MS
    sample = rig.observer.sample(rig.meetings.now - 5_000 * MS, tolerance=15 * MS)
    assert {row.dropped for row in sample.processors} == {"late"}
    assert sample.dropped["late"] == 2


def test_meetings_that_are_tried_again_do_not_make_a_reading_late(rig: Rig) -> None:
    rig.meetings.script = [{1: {"gap": 50_000}}, {0: {"gap": 50_000}}] * 2
    sample = rig.observer.sample(rig.meetings.now + 1 * MS, tolerance=2 * MS)
    assert sample.dropped == {"interrupted": 4}
    assert "late" not in sample.dropped
    assert all(row.dropped is None for row in sample.processors)


def test_a_meeting_that_is_held_long_after_its_moment_is_dropped(rig: Rig) -> None:
    moment = rig.meetings.now + 30 * MS
    stamps = dict.fromkeys(("arrived", "saw_go", "before", "after", "saw_done"), moment + 50 * MS)
    rig.meetings.script = [{0: stamps, 1: stamps}]
    sample = rig.observer.sample(moment, tolerance=15 * MS)
    assert sample.dropped == {"late": 2}


def test_a_processor_that_was_off_begins_anew(rig: Rig) -> None:
    start = rig.meetings.now
    rig.on = {0}
    rig.meetings.script = [{1: {"repin_error": 22, "cpu_before": 0}}]
    off = rig.observer.sample(start + 300 * MS)
    assert off.processors[1].dropped == "offline"
    assert off.processors[0].dropped is None
    still = rig.observer.sample(start + 600 * MS)
    assert still.processors[1].dropped == "offline"
    rig.on = {0, 1}
    rig.meetings.script = [{1: {"loose": True}}]
    back = rig.observer.sample(start + 900 * MS)
    assert back.processors[1].dropped in ("offline", "moved")
    then = rig.observer.sample(start + 1200 * MS)
    assert then.processors[1].span == pytest.approx(300 * MS, abs=2 * MS)


def test_a_reader_that_was_moved_gives_no_figure_because_its_processor_may_have_been_off(rig: Rig) -> None:
    start = rig.meetings.now
    rig.meetings.script = [{1: {"loose": True}}]
    moved = rig.observer.sample(start + 300 * MS)
    assert moved.processors[1].dropped == "moved"
    assert moved.dropped == {"moved": 1}
    assert rig.observer.sample(start + 600 * MS).processors[1].span == pytest.approx(300 * MS, abs=2 * MS)


def test_a_counter_that_jumps_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Counter("pair", {cpu: [(-1, 0, 1)] * 2 for cpu in (0, 1)}, True, reference_hz={0: 2.5e9, 1: 2.5e9})
    rig = Rig(monkeypatch, counter)
    rig.meetings.words = {0: (0, 0), 1: (0, 0)}
    rig.observer.sample(rig.meetings.now + 300 * MS)
    rig.meetings.words = {0: (255_000_000, 187_500_000), 1: (2**63, 5)}
    sample = rig.observer.sample(rig.meetings.now + 300 * MS)
    good, bad = sample.processors
    assert good.actual_hz == pytest.approx(3.4e9)
    assert good.unhalted == pytest.approx(0.25, rel=0.01)
    assert bad.dropped == "counter"
    assert bad.actual_hz is None
    assert sample.dropped == {"counter": 1}
    assert sample.quality["actual_hz"] is Quality.EXACT


HAPPENINGS = st.sampled_from(
    [{}, {"gap": 90_000}, {"preempted": 1}, {"cpu_after": 7}, {"loose": True}, {"chains": (1, 9)}, {"missing": 1}]
)


@given(st.lists(st.dictionaries(st.integers(0, 1), st.none() | HAPPENINGS), max_size=30), st.integers(1, 6))
def test_whatever_happens_no_figure_is_wrong_and_nothing_is_dropped_without_a_reason(
    script: list[dict[int, dict[str, Any] | None]], count: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        rig = Rig(patch)
        rig.meetings.script = list(script)
        for _ in range(count):
            sample = rig.observer.sample(rig.meetings.now + 50 * MS)
            for row in sample.processors:
                if row.dropped is not None:
                    assert (row.utilisation, row.actual_hz, row.effective_hz, row.states) == (None, None, None, {})
                    continue
                assert row.utilisation == pytest.approx(0.25, abs=1e-3)
                assert row.actual_hz is None or row.actual_hz == pytest.approx(2e9)
                assert sum(cell.time for cell in row.states.values()) == row.span


@given(st.lists(st.dictionaries(st.integers(0, 1), st.none() | HAPPENINGS), max_size=30), st.integers(1, 6))
def test_all_together_is_the_sum_of_what_was_reported(
    script: list[dict[int, dict[str, Any] | None]], count: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        rig = Rig(patch)
        rig.meetings.script = list(script)
        parts = [rig.observer.sample(rig.meetings.now + 50 * MS) for _ in range(count)]
        whole = rig.observer.whole()
        reported = [row for part in parts for row in part.processors if row.dropped is None]
        for total in whole.processors:
            mine = [row for row in reported if row.cpu == total.cpu]
            assert (total.dropped is None) == bool(mine)
            if mine:
                assert total.span == sum(row.span or 0 for row in mine)
                assert total.busy == pytest.approx(sum(row.busy or 0 for row in mine), abs=len(mine))
                assert total.ticks == (None if any(r.ticks is None for r in mine) else sum(r.ticks or 0 for r in mine))
        assert whole.dropped == {
            reason: sum(part.dropped.get(reason, 0) for part in parts)
            for reason in {reason for part in parts for reason in part.dropped}
        }


def test_processors_that_are_not_there_are_refused_in_one_sentence() -> None:
    assert choose(None) == online()
    assert choose([0]) == (0,)
    with pytest.raises(SelectionError, match="there is no processor 4095 that is online; these are: 0"):
        choose([0, 4095])


def test_without_any_privilege_it_says_what_its_figures_are_worth() -> None:
    observer = ProcessorObserver(ALLOWED, source="proc", fifo=False)
    try:
        observer.begin()
        for _ in range(20):
            sample = observer.sample(clock() + 20 * MS)
            if all(row.dropped is None for row in sample.processors):
                break
    finally:
        observer.close()
    assert sample.source in ("cpuidle", "proc")
    assert sample.quality["utilisation"] is not Quality.EXACT
    assert sample.reasons["states"]
    for row in sample.processors:
        if row.dropped is None:
            assert sum(cell.time for cell in row.states.values()) == row.span


@pytest.mark.root
def test_the_ledgers_of_all_processors_add_up_to_what_lies_between_two_snapshots() -> None:
    observer = ProcessorObserver(ALLOWED)
    try:
        observer.begin()
        spans = []
        for _ in range(5):
            sample = observer.sample(clock() + 10 * MS)
            for row in sample.processors:
                if row.dropped is None:
                    assert sum(cell.time for cell in row.states.values()) == row.span
                    assert listed(row.states) == [(state, c.count, c.time) for state, c in row.states.items()]
                    spans.append(row.span)
        assert spans
        assert observer.losses()["readings_torn"] == 0
    finally:
        observer.close()


def test_a_process_that_may_have_no_more_threads_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused(Meetings):
        def start(self, fifo: bool = True) -> dict[int, int]:
            raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(readings, "Meeting", Refused)
    observer = ProcessorObserver(ALLOWED, source="proc")
    with pytest.raises(HeadwayError, match="ulimit -u"):
        observer.begin()
    observer.close()
